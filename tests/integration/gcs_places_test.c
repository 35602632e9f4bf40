/* ctest: timeout=180
 * Places of clients in a member's table: one for each client that lives, whatever happens to its link. A
 * place with nobody in it is waited for when the member restarts.
 */
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/base/clock.h"
#include "tests/support/gcs_box.h"

#define DEADLINE_NS (40 * MOB_SEC) /* below the minute after which a place expires */

static void start(struct gcs_box *box, const char *durability, const char *failpoints)
{
    gcs_box_init(box, durability);
    box->args[0] = "--gcs-collect-ms";
    box->args[1] = "300";
    gcs_box_start_redis(box);
    box->failpoints = failpoints;
    gcs_box_start_gcs(box);
    box->failpoints = NULL;
}

static void put(struct mob_gcs *gcs, const char *key)
{
    struct mob_gcs_put row = {.table = MOB_GCS_KV,
        .key = key,
        .key_length = (uint32_t)strlen(key),
        .value = "x",
        .value_length = 1,
        .if_version = MOB_GCS_ANY_VERSION};
    assert_int_equal(mob_gcs_put_wait(gcs, &row, mob_now() + DEADLINE_NS, NULL), MOB_OK);
}

static uint64_t places(struct mob_gcs *gcs)
{
    return gcs_box_stats(gcs).clients;
}

static void wait_for_places(struct mob_gcs *gcs, uint64_t wanted)
{
    int64_t deadline = mob_now() + DEADLINE_NS;
    uint64_t there = places(gcs);
    while (there != wanted && mob_now() < deadline) {
        poll(NULL, 0, 20);
        there = places(gcs);
    }
    assert_int_equal(there, wanted);
}

/* The member has given it an id, on disk, and dies before it says so, with its Redis: so it waits for that
 * client when it is back. */
static void a_client_that_asks_again_gets_its_own_place(void **state)
{
    (void)state;
    struct gcs_box box;
    bool never = false;
    start(&box, "always", "gcs.before_reply=kill");
    struct mob_gcs *gcs = gcs_box_client(&box);
    for (int64_t deadline = mob_now() + DEADLINE_NS; !gcs_box_ended(&box.gcs);) {
        assert_true(mob_now() < deadline);
        assert_int_equal(mob_gcs_run_until(gcs, &never, mob_now() + 10 * MOB_MS), MOB_TIMEOUT);
    }
    gcs_box_end(&box.redis, SIGKILL);
    gcs_box_start(&box);
    put(gcs, "k");
    assert_int_equal(places(gcs), 1);
    mob_gcs_destroy(gcs);
    gcs_box_fini(&box);
}

/* Member and Redis restart, and wait for all their clients: one of them wants to end, the other is slow. */
static void a_client_that_leaves_a_restarted_member_leaves_no_place(void **state)
{
    (void)state;
    struct gcs_box box;
    start(&box, NULL, NULL);
    struct mob_gcs *slow = gcs_box_client(&box), *leaver = gcs_box_client(&box);
    put(slow, "a");
    put(leaver, "b");
    assert_int_equal(places(slow), 2);
    gcs_box_end(&box.gcs, SIGKILL);
    bool never = false;
    while (mob_gcs_connected(leaver))
        assert_int_equal(mob_gcs_run_until(leaver, &never, mob_now() + MOB_MS), MOB_TIMEOUT);
    gcs_box_end(&box.redis, SIGKILL);
    gcs_box_start(&box);
    assert_int_equal(mob_gcs_leave_wait(leaver, mob_now() + DEADLINE_NS), MOB_OK);
    mob_gcs_destroy(leaver);
    wait_for_places(slow, 1);
    put(slow, "c");
    mob_gcs_destroy(slow);
    gcs_box_fini(&box);
}

/* The member has died, and all but one of its clients are destroyed before it is back: nobody could be told.
 * The one that stays tells it. */
static void a_client_destroyed_without_a_link_leaves_no_place(void **state)
{
    (void)state;
    struct gcs_box box;
    start(&box, NULL, NULL);
    struct mob_gcs *stays = gcs_box_client(&box);
    struct mob_gcs *gone[3];
    put(stays, "a");
    for (int i = 0; i < 3; i++) {
        gone[i] = gcs_box_client(&box);
        put(gone[i], "b");
    }
    assert_int_equal(places(stays), 4);
    gcs_box_end(&box.gcs, SIGKILL);
    bool never = false;
    for (int i = 0; i < 3; i++) {
        while (mob_gcs_connected(gone[i]))
            assert_int_equal(mob_gcs_run_until(gone[i], &never, mob_now() + MOB_MS), MOB_TIMEOUT);
        mob_gcs_destroy(gone[i]);
    }
    gcs_box_start_gcs(&box);
    put(stays, "c");
    wait_for_places(stays, 1);
    mob_gcs_destroy(stays);
    gcs_box_fini(&box);
}

static void on_done(void *arg, const struct mob_gcs_answer *answer)
{
    assert_int_equal(answer->status, MOB_OK);
    *(bool *)arg = true;
}

/* As a loop does that sends before it sleeps, and steps when its descriptor or its clock says so: the
 * descriptor of a link that was found to have ended by sending says nothing. */
static void a_client_that_meets_the_end_by_sending_goes_back_to_its_place(void **state)
{
    (void)state;
    struct gcs_box box;
    bool done = false;
    start(&box, NULL, NULL);
    struct mob_gcs *gcs = gcs_box_client(&box);
    struct mob_gcs_put row = {
        .table = MOB_GCS_KV, .key = "k", .key_length = 1, .if_version = MOB_GCS_ANY_VERSION};
    put(gcs, "a");
    gcs_box_end(&box.gcs, SIGKILL);
    assert_int_equal(mob_gcs_put(gcs, &row, on_done, &done), MOB_OK);
    int64_t next = mob_gcs_send(gcs);
    assert_false(mob_gcs_connected(gcs));
    gcs_box_start_gcs(&box);
    for (int64_t deadline = mob_now() + DEADLINE_NS; !done;) {
        int64_t now = mob_now(), until = next < deadline ? next : deadline;
        struct pollfd p = {.fd = mob_gcs_fd(gcs), .events = POLLIN};
        assert_true(now < deadline);
        if (poll(&p, 1, until <= now ? 0 : (int)((until - now) / MOB_MS) + 1) > 0 || mob_now() >= next)
            next = mob_gcs_step(gcs, mob_now());
    }
    assert_int_equal(places(gcs), 1);
    mob_gcs_destroy(gcs);
    gcs_box_fini(&box);
}

/* Nobody answers: it says so in time, and may be destroyed. */
static void leaving_ends_with_its_deadline(void **state)
{
    (void)state;
    struct gcs_box box;
    start(&box, NULL, NULL);
    struct mob_gcs *gcs = gcs_box_client(&box);
    put(gcs, "a");
    gcs_box_end(&box.gcs, SIGKILL);
    assert_int_equal(mob_gcs_leave_wait(gcs, mob_now() + 50 * MOB_MS), MOB_TIMEOUT);
    mob_gcs_destroy(gcs);
    gcs_box_fini(&box);
}

/* ---- names of nodes ---- */

static void on_acked(void *arg, uint64_t count)
{
    *(bool *)arg = count > 0;
}
static void on_released(void *arg, struct mob_gcs_block *block)
{
    (void)arg;
    (void)block;
}
static void on_sealed(void *arg, enum mob_status why, uint64_t cut)
{
    (void)arg;
    (void)why;
    (void)cut;
    _exit(3); /* of the holder: nobody may do that */
}

/* A process with a log under that name; says so through the pipe, and lives until it is killed. */
static pid_t hold_name(struct gcs_box *box, const char *name)
{
    int ends[2];
    char ready;
    assert_int_equal(pipe(ends), 0);
    pid_t parent = getpid(), pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
            _exit(1);
        static uint8_t bytes[65536];
        bool acked = false, never = false;
        struct mob_gcs *gcs = gcs_box_client(box);
        struct mob_gcs_log *log;
        struct mob_gcs_log_events events = {on_acked, on_released, on_sealed, &acked};
        struct gcs_block_spec spec = {.job = 1, .stream = 1, .tasks = 1, .specs = true, .finals = true};
        bool good =
            mob_gcs_node_register_wait(gcs, name, mob_now() + DEADLINE_NS, &spec.incarnation) == MOB_OK &&
            mob_gcs_log_open(gcs, spec.incarnation, 0, &events, &log) == MOB_OK;
        static struct mob_gcs_block block;
        block.bytes = bytes;
        block.length = good ? gcs_block_make(&spec, bytes, sizeof bytes) : 0;
        good = good && mob_gcs_log_append(log, &block) == MOB_OK &&
            mob_gcs_run_until(gcs, &acked, mob_now() + DEADLINE_NS) == MOB_OK && write(ends[1], "r", 1) == 1;
        while (good)
            good = mob_gcs_run_until(gcs, &never, mob_now() + MOB_SEC) == MOB_TIMEOUT;
        _exit(1);
    }
    close(ends[1]);
    assert_int_equal(read(ends[0], &ready, 1), 1);
    close(ends[0]);
    return pid;
}

static void the_second_process_under_a_name_is_refused(void **state)
{
    (void)state;
    struct gcs_box box;
    uint64_t incarnation = 0;
    start(&box, NULL, NULL);
    pid_t holder = hold_name(&box, "n1");
    struct mob_gcs *gcs = gcs_box_client(&box);
    for (int i = 0; i < 3; i++)
        assert_int_equal(
            mob_gcs_node_register_wait(gcs, "n1", mob_now() + DEADLINE_NS, &incarnation), MOB_EXISTS);
    assert_int_equal(mob_gcs_node_register_wait(gcs, "n", mob_now() + DEADLINE_NS, &incarnation), MOB_OK);
    put(gcs, "k"); /* what was refused took no number */
    assert_false(gcs_box_ended(&holder));
    gcs_box_end(&holder, SIGKILL);
    enum mob_status status = MOB_EXISTS;
    for (int64_t deadline = mob_now() + DEADLINE_NS; status == MOB_EXISTS && mob_now() < deadline;)
        status = mob_gcs_node_register_wait(gcs, "n1", deadline, &incarnation);
    assert_int_equal(status, MOB_OK);
    mob_gcs_destroy(gcs);
    gcs_box_fini(&box);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_client_that_asks_again_gets_its_own_place),
        cmocka_unit_test(a_client_that_leaves_a_restarted_member_leaves_no_place),
        cmocka_unit_test(a_client_destroyed_without_a_link_leaves_no_place),
        cmocka_unit_test(a_client_that_meets_the_end_by_sending_goes_back_to_its_place),
        cmocka_unit_test(leaving_ends_with_its_deadline),
        cmocka_unit_test(the_second_process_under_a_name_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
