/* What tasks put and read in a store that is far smaller than all of it: what is held comes back from disk,
 * what was let go of is freed, what others may still ask for stays. ctest: timeout=300
 */
#include <mobula/mobula.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "common/base/clock.h"
#include "tests/support/driver.h"
#include "tests/support/node_box.h"

#define PATIENCE (120 * MOB_SEC)
#define MIB (1 << 20)

static struct node_box box;
static char spill[32];
static struct mob_client *client;

static int set_up(void **state)
{
    (void)state;
    static const char *const args[] = {
        "--segment-bytes", "100663296", "--spill-dir", spill, "--spill-quota-bytes", "16GiB", NULL};
    snprintf(spill, sizeof spill, "/tmp/mobula_memory_XXXXXX");
    assert_non_null(mkdtemp(spill));
    client = driver_box_start(&box, args, "holder");
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    mob_disconnect(client);
    node_box_stop(&box);
    assert_int_equal(0, rmdir(spill)); /* the node took its files with it */
    return 0;
}

static int64_t run(const char *function, struct mob_args args)
{
    struct mob_future *future;
    int64_t v = -1;
    OK(mob_submit(client, function, args, NULL, &future));
    enum mob_status status = mob_get_i64(future, PATIENCE, &v);
    if (status != MOB_OK)
        fail_msg("%s: %s: %s", function, mob_status_code(status),
            status == MOB_TIMEOUT ? "" : mob_future_error(future));
    mob_release(future);
    return v;
}

static struct mob_actor *make_keeper(void)
{
    struct mob_actor *actor;
    struct mob_actor_options options = {.struct_size = sizeof options, .max_restarts = 2};
    OK(mob_actor_create(client, "holder.Keeper", MOB_NO_ARGS, &options, &actor));
    return actor;
}

/* A number of the node's statistics, by the text in front of it. */
static double stat_of(const char *name)
{
    char key[64], *text = NULL;
    snprintf(key, sizeof key, "\"%s\":", name);
    OK(mob_query(client, "stats", "", PATIENCE, &text));
    const char *at = strstr(text, key);
    assert_non_null(at);
    double value = strtod(at + strlen(key), NULL);
    free(text);
    return value;
}

static void read_value(struct mob_future *future, int64_t n, size_t size)
{
    struct mob_value *value;
    const void *bytes;
    size_t got;
    OK(mob_get(future, PATIENCE, &value));
    OK(mob_value_data(value, &bytes, &got));
    assert_int_equal(size, got);
    for (size_t i = 0; i < size; i++)
        if (((const uint8_t *)bytes)[i] != (uint8_t)((size_t)n + i / 4096))
            fail_msg("byte %zu of value %lld is another", i, (long long)n);
    mob_value_release(value);
}

/* 1,200 MiB go through a store of 96: what stayed would be on disk. That it is let go of is heard of a moment
 * later, on a loaded machine a long one; what was read meanwhile stays in memory until room is needed.
 */
static void what_tasks_let_go_of_does_not_stay(void **state)
{
    (void)state;
    struct mob_actor *actor = make_keeper();
    assert_int_equal(600, run("holder.passes", MOB_ARGS(mob_i64(600), mob_i64(MIB), mob_i64(20))));
    assert_int_equal(300, run("holder.reads", MOB_ARGS(mob_actor_handle(actor), mob_i64(300), mob_i64(MIB))));
    const int64_t deadline = mob_now() + PATIENCE;
    double on_disk;
    while ((on_disk = stat_of("spilled_objects")) > 0) {
        if (mob_now() > deadline)
            fail_msg("%.0f objects that nobody holds are still on disk", on_disk);
        usleep(10000);
    }
    OK(mob_actor_kill(actor, true));
    mob_actor_release(actor);
}

/* How many were on disk is told by how often one was read from there: they may be gone from it by now. */
static void what_a_running_task_holds_comes_back_from_disk(void **state)
{
    (void)state;
    const double before = stat_of("restores");
    assert_int_equal(40, run("holder.keeps", MOB_ARGS(mob_i64(40), mob_i64(8 * MIB))));
    const double after = stat_of("restores");
    if (after <= before)
        fail_msg("%.0f reads from disk before, %.0f after", before, after);
}

static void arguments_stay_until_their_task_has_run(void **state)
{
    (void)state;
    /* 150 tasks at a time, two of which run: the others' arguments do not fit into memory, and nobody holds
     * them */
    assert_int_equal(300, run("holder.passes", MOB_ARGS(mob_i64(300), mob_i64(MIB), mob_i64(150))));
}

static void an_id_that_was_given_away_keeps_its_value(void **state)
{
    (void)state;
    struct mob_future *told, *future;
    struct mob_value *value;
    const void *text;
    size_t size;
    char id[MOB_TEXT_ID_MAX];
    OK(mob_submit(client, "holder.gives_id", MOB_ARGS(mob_i64(5), mob_i64(2 * MIB)), NULL, &told));
    OK(mob_get(told, PATIENCE, &value));
    OK(mob_value_data(value, &text, &size));
    assert_true(size < sizeof id);
    memcpy(id, text, size);
    id[size] = '\0';
    mob_value_release(value);
    mob_release(told);
    OK(mob_future_from_id(client, id, &future));
    read_value(future, 5, 2 * MIB);
    mob_release(future);
}

static void a_returned_future_keeps_its_value(void **state)
{
    (void)state;
    struct mob_future *future;
    OK(mob_submit(client, "holder.returns_dropped", MOB_ARGS(mob_i64(9), mob_i64(3 * MIB)), NULL, &future));
    read_value(future, 9, 3 * MIB);
    mob_release(future);
}

static void an_actors_replay_finds_what_its_caller_dropped(void **state)
{
    (void)state;
    struct mob_actor *actor = make_keeper();
    struct mob_future *crash;
    char path[160];
    int64_t taken;
    snprintf(path, sizeof path, "%s/crashed", box.gcs.directory);
    for (int64_t i = 1; i <= 3; i++)
        assert_int_equal(
            i, run("holder.teaches", MOB_ARGS(mob_actor_handle(actor), mob_i64(i), mob_i64(MIB))));
    OK(mob_actor_call(actor, "crash_once", MOB_ARGS(mob_utf8(path)), NULL, &crash));
    OK(mob_get_i64(crash, PATIENCE, &taken));
    assert_int_equal(3, taken);
    mob_release(crash);
    assert_int_equal(4, run("holder.teaches", MOB_ARGS(mob_actor_handle(actor), mob_i64(4), mob_i64(MIB))));
    OK(mob_actor_kill(actor, true));
    mob_actor_release(actor);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_tasks_let_go_of_does_not_stay),
        cmocka_unit_test(what_a_running_task_holds_comes_back_from_disk),
        cmocka_unit_test(arguments_stay_until_their_task_has_run),
        cmocka_unit_test(an_id_that_was_given_away_keeps_its_value),
        cmocka_unit_test(a_returned_future_keeps_its_value),
        cmocka_unit_test(an_actors_replay_finds_what_its_caller_dropped),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
