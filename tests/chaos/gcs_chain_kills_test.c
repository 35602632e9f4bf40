/* ctest: timeout=500 long
 * Chains of two and three members as processes under load: heads, middles and tails are killed, stopped and
 * continued, lose their Redis, all at once; masters are killed. Meanwhile a counter is raised by
 * compare-and-set (a write that was lost or done twice would show), blocks are appended to a log, a stream of
 * them is read (each once, in order), and the counter is read (never older than what was acknowledged
 * before). Seeded (MOBULA_SEED); MOBULA_GCS_ROUNDS makes it longer.
 */
#include <glob.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/base/clock.h"
#include "common/base/hash.h"
#include "tests/support/chain_box.h"
#include "tests/support/xorshift.h"

#define BLOCKS_MAX 200000u
#define TASKS 8u
#define WINDOW 32u
#define PATIENCE_NS (100 * MOB_SEC) /* a starved machine takes the snapshot batch by batch */

static uint64_t seed = 1;
static uint64_t random_next(void)
{
    return xorshift(&seed);
}

struct load {
    struct chain_box box;
    struct mob_gcs *writer, *reader, *follower;
    struct mob_gcs_log *log;
    uint64_t incarnation, appended, acked, released;
    uint64_t *hashes;
    uint64_t counter, version; /* the last acknowledged */
    bool counter_busy, get_busy;
    uint64_t counter_before; /* acknowledged when the read under way was submitted */
    uint64_t reads, followed;
    int64_t progress_ns, longest_ns; /* between acknowledged counter steps */
};

static void on_acked(void *arg, uint64_t count)
{
    struct load *l = arg;
    assert_true(count > l->acked && count <= l->appended);
    l->acked = count;
}
static void on_released(void *arg, struct mob_gcs_block *block)
{
    struct load *l = arg;
    assert_int_equal(block->number, l->released);
    l->released++;
    free(block);
}
static void on_sealed(void *arg, enum mob_status why, uint64_t cut)
{
    (void)arg;
    fail_msg("the log was sealed: %s, cut %llu", mob_status_code(why), (unsigned long long)cut);
}

static void on_block(void *arg, const struct mob_gcs_block_row *row)
{
    struct load *l = arg;
    if (row->incarnation != l->incarnation)
        return;
    if (row->number != l->followed)
        fail_msg("the stream gives block %llu where %llu follows", (unsigned long long)row->number,
            (unsigned long long)l->followed);
    assert_true(mob_hash64(row->bytes, row->length) == l->hashes[row->number]);
    l->followed++;
}
static void on_resync(void *arg, uint64_t after, uint64_t next)
{
    (void)arg;
    fail_msg(
        "a hole in the stream: after %llu, before %llu", (unsigned long long)after, (unsigned long long)next);
}

static void on_counted(void *arg, const struct mob_gcs_answer *a)
{
    struct load *l = arg;
    l->counter_busy = false;
    if (a->status != MOB_OK)
        fail_msg("counter: %s, version %llu, have %llu of %llu", mob_status_code(a->status),
            (unsigned long long)a->version, (unsigned long long)l->version, (unsigned long long)l->counter);
    assert_true(a->version > l->version);
    l->version = a->version;
    l->counter++;
    int64_t now = mob_now();
    if (now - l->progress_ns > l->longest_ns)
        l->longest_ns = now - l->progress_ns;
    l->progress_ns = now;
}

static void on_got(void *arg, const struct mob_gcs_answer *a)
{
    struct load *l = arg;
    uint64_t value = 0;
    l->get_busy = false;
    l->reads++;
    if (a->status == MOB_NOT_FOUND) {
        assert_int_equal(l->counter_before, 0);
        return;
    }
    assert_int_equal(a->status, MOB_OK);
    assert_int_equal(a->kvs[0].value_length, sizeof value);
    memcpy(&value, a->kvs[0].value, sizeof value);
    /* one more than acknowledged may be committed */
    if (value < l->counter_before || value > l->counter + 1)
        fail_msg("read %llu, acknowledged before %llu, now %llu", (unsigned long long)value,
            (unsigned long long)l->counter_before, (unsigned long long)l->counter);
}

/* False: a log keeps what is not on disk yet, and a slow disk has left no room for more. */
static bool append_block(struct load *l)
{
    struct gcs_block_spec spec = gcs_block_nth(l->incarnation, l->appended, TASKS);
    struct mob_gcs_block *block = gcs_block_new(&spec);
    l->hashes[l->appended] = mob_hash64(block->bytes, block->length);
    enum mob_status status = mob_gcs_log_append(l->log, block);
    if (status == MOB_QUEUE_FULL) {
        free(block);
        return false;
    }
    assert_int_equal(status, MOB_OK);
    l->appended++;
    return true;
}

/* Nothing is submitted while the client keeps all that it may of what is not on disk yet. */
static void raise_counter(struct load *l)
{
    uint64_t value = l->counter + 1;
    struct mob_gcs_put put = {.table = MOB_GCS_KV,
        .key = "counter",
        .key_length = 7,
        .value = &value,
        .value_length = sizeof value,
        .if_version = l->version};
    enum mob_status status = mob_gcs_put(l->writer, &put, on_counted, l);
    if (status == MOB_QUEUE_FULL)
        return;
    assert_int_equal(status, MOB_OK);
    l->counter_busy = true;
}

static void submit(struct load *l)
{
    bool room = true;
    while (room && l->appended - l->acked < WINDOW && l->appended < BLOCKS_MAX)
        room = append_block(l);
    if (!l->counter_busy)
        raise_counter(l);
    if (!l->get_busy) {
        l->counter_before = l->counter;
        assert_int_equal(mob_gcs_get(l->reader, MOB_GCS_KV, "counter", 7, on_got, l), MOB_OK);
        l->get_busy = true;
    }
}

static void step(struct load *l)
{
    struct mob_gcs *clients[3] = {l->writer, l->reader, l->follower};
    struct pollfd fds[3];
    int64_t next = mob_now() + 5 * MOB_MS;
    for (int i = 0; i < 3; i++) {
        int64_t at = mob_gcs_step(clients[i], mob_now());
        next = at < next ? at : next;
        fds[i] = (struct pollfd){.fd = mob_gcs_fd(clients[i]), .events = POLLIN};
    }
    int64_t left = next - mob_now();
    struct timespec pause = {0, left > 0 ? left : 0};
    ppoll(fds, 3, &pause, NULL);
}

static void load_for(struct load *l, int64_t ns)
{
    for (int64_t deadline = mob_now() + ns; mob_now() < deadline;) {
        submit(l);
        step(l);
    }
}

/* Until `steps` more of the counter are acknowledged. */
static void load_steps(struct load *l, uint64_t steps)
{
    uint64_t goal = l->counter + steps, reads = l->reads + steps;
    int64_t deadline = mob_now() + PATIENCE_NS;
    while (l->counter < goal || l->reads < reads) {
        if (mob_now() > deadline)
            fail_msg("stuck: counter %llu of %llu, reads %llu of %llu, blocks %llu of %llu, followed %llu",
                (unsigned long long)l->counter, (unsigned long long)goal, (unsigned long long)l->reads,
                (unsigned long long)reads, (unsigned long long)l->acked, (unsigned long long)l->appended,
                (unsigned long long)l->followed);
        submit(l);
        step(l);
        chain_box_tend(&l->box);
    }
}

static void settle(struct load *l)
{
    int64_t deadline = mob_now() + PATIENCE_NS;
    while (l->acked < l->appended || l->counter_busy || l->get_busy || l->followed < l->appended ||
        l->released < l->appended) {
        if (mob_now() > deadline)
            fail_msg("not settled: blocks acked %llu released %llu followed %llu of %llu, put %d, get %d",
                (unsigned long long)l->acked, (unsigned long long)l->released,
                (unsigned long long)l->followed, (unsigned long long)l->appended, l->counter_busy,
                l->get_busy);
        step(l);
        chain_box_tend(&l->box);
    }
}

static void load_init(struct load *l, uint32_t members)
{
    *l = (struct load){.hashes = calloc(BLOCKS_MAX, sizeof *l->hashes)};
    chain_box_init(&l->box, members, members, "everysec");
    chain_box_start(&l->box);
    assert_true(chain_box_wait_length(&l->box, members, mob_now() + PATIENCE_NS));
    l->writer = chain_box_client(&l->box);
    l->reader = chain_box_client(&l->box);
    l->follower = chain_box_client(&l->box);
    struct mob_gcs_log_events events = {on_acked, on_released, on_sealed, l};
    assert_int_equal(
        mob_gcs_node_register_wait(l->writer, "node", mob_now() + PATIENCE_NS, &l->incarnation), MOB_OK);
    assert_int_equal(mob_gcs_log_open(l->writer, l->incarnation, 0, &events, &l->log), MOB_OK);
    struct mob_gcs_sub_events stream = {on_block, on_resync, l};
    struct mob_gcs_sub *sub;
    assert_int_equal(mob_gcs_subscribe(l->follower, 0, &stream, &sub), MOB_OK);
    l->progress_ns = mob_now();
    load_steps(l, 20);
}

static void load_fini(struct load *l, const char *what)
{
    settle(l);
    print_message("%s: %llu counter steps, %llu reads, %llu blocks, longest pause %lld ms\n", what,
        (unsigned long long)l->counter, (unsigned long long)l->reads, (unsigned long long)l->acked,
        (long long)(l->longest_ns / MOB_MS));
    assert_true(l->counter >= 50 && l->reads >= 50 && l->acked >= 50); /* else it shows nothing */
    mob_gcs_destroy(l->writer);
    mob_gcs_destroy(l->reader);
    mob_gcs_destroy(l->follower);
    chain_box_fini(&l->box);
    free(l->hashes);
}

static int rounds(int otherwise)
{
    const char *text = getenv("MOBULA_GCS_ROUNDS");
    return text == NULL ? otherwise : atoi(text);
}

static void pause_up_to(struct load *l, int64_t ns)
{
    load_for(l, (int64_t)(random_next() % (uint64_t)ns));
}

static void whole_again(struct load *l)
{
    int64_t deadline = mob_now() + PATIENCE_NS;
    /* in slices, so that the load goes on */
    while (!chain_box_wait_length(&l->box, l->box.members, mob_now() - 1)) {
        if (mob_now() > deadline)
            fail_msg("the chain is not whole again");
        load_for(l, 20 * MOB_MS);
        chain_box_tend(&l->box);
    }
}

static pid_t *pid_at(struct load *l, bool tail)
{
    int slot = chain_box_place(&l->box, tail);
    assert_true(slot >= 0);
    return &l->box.member[slot].gcs;
}

/* ---- the faults ---- */

static void heads_and_tails_are_killed(void **state)
{
    (void)state;
    struct load l;
    load_init(&l, 2);
    for (int i = 0; i < rounds(4); i++) {
        pause_up_to(&l, 200 * MOB_MS);
        gcs_box_end(pid_at(&l, i % 2 == 1), SIGKILL);
        load_steps(&l, 10);
        whole_again(&l);
    }
    load_fini(&l, "heads and tails of two");
}

static void members_of_three_are_killed(void **state)
{
    (void)state;
    struct load l;
    load_init(&l, 3);
    for (int i = 0; i < rounds(3); i++) {
        pause_up_to(&l, 200 * MOB_MS);
        int head = chain_box_place(&l.box, false), tail = chain_box_place(&l.box, true);
        int victim = i % 3 == 0 ? 3 - head - tail : i % 3 == 1 ? head : tail;
        gcs_box_end(&l.box.member[victim].gcs, SIGKILL);
        load_steps(&l, 10);
        whole_again(&l);
    }
    load_fini(&l, "middles, heads, tails of three");
}

static void a_tail_is_stopped_for_long_and_continued(void **state)
{
    (void)state;
    struct load l;
    load_init(&l, 2);
    pid_t tail = *pid_at(&l, true);
    kill(tail, SIGSTOP);
    load_steps(&l, 20); /* readers, too */
    load_for(&l, 5 * MOB_SEC);
    kill(tail, SIGCONT);
    load_steps(&l, 20);
    whole_again(&l);
    load_fini(&l, "tail stopped for 5 s");
}

static void a_redis_is_killed_and_comes_back_empty(void **state)
{
    (void)state;
    struct load l;
    load_init(&l, 2);
    for (int i = 0; i < rounds(2); i++) {
        pause_up_to(&l, 100 * MOB_MS);
        int slot = chain_box_place(&l.box, i % 2 == 0);
        struct gcs_box *m = &l.box.member[slot];
        gcs_box_end(&m->redis, SIGKILL);
        char command[128], pattern[128];
        snprintf(pattern, sizeof pattern, "%s/appendonlydir/*", m->directory);
        glob_t found;
        if (glob(pattern, 0, NULL, &found) == 0)
            for (size_t k = 0; k < found.gl_pathc; k++)
                unlink(found.gl_pathv[k]);
        globfree(&found);
        snprintf(command, sizeof command, "%s/redis.sock", m->directory);
        unlink(command);
        load_steps(&l, 10);
        whole_again(&l);
    }
    load_fini(&l, "Redis killed, empty again");
}

static void both_members_are_killed_at_once(void **state)
{
    (void)state;
    struct load l;
    load_init(&l, 2);
    for (int i = 0; i < rounds(2); i++) {
        pause_up_to(&l, 200 * MOB_MS);
        gcs_box_end(&l.box.member[i % 2].gcs, SIGKILL);
        struct timespec gap = {0, (long)(random_next() % 5000000)};
        nanosleep(&gap, NULL);
        gcs_box_end(&l.box.member[1 - i % 2].gcs, SIGKILL);
        load_steps(&l, 10);
        whole_again(&l);
    }
    load_fini(&l, "both at once");
}

static void masters_are_killed(void **state)
{
    (void)state;
    struct load l;
    load_init(&l, 2);
    l.box.masters = 2;
    chain_box_start_master(&l.box, 1);
    for (int i = 0; i < rounds(2); i++) {
        gcs_box_end(&l.box.master[i % 2], SIGKILL);
        load_steps(&l, 20); /* without leases reads go through the chain */
        gcs_box_end(pid_at(&l, i % 2 == 0), SIGKILL);
        load_steps(&l, 10); /* the other master takes over, and finds the dead member */
        whole_again(&l);
    }
    load_fini(&l, "masters");
}

static void a_joiner_and_its_source_are_killed(void **state)
{
    (void)state;
    struct load l;
    load_init(&l, 2);
    for (int i = 0; i < rounds(3); i++) {
        int slot = chain_box_place(&l.box, i % 2 == 0);
        gcs_box_end(&l.box.member[slot].gcs, SIGKILL);
        load_steps(&l, 5);
        pause_up_to(&l, 60 * MOB_MS);
        gcs_box_end(&l.box.member[slot].gcs, SIGKILL); /* while it joins, or just after */
        load_steps(&l, 5);
        whole_again(&l);
    }
    load_fini(&l, "joiners");
}

int main(void)
{
    const char *text = getenv("MOBULA_SEED");
    seed = text == NULL ? 20261122 : strtoull(text, NULL, 10) | 1;
    print_message("seed %llu\n", (unsigned long long)seed);
    signal(SIGPIPE, SIG_IGN);
    cmocka_set_test_filter(getenv("MOBULA_TEST"));
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(heads_and_tails_are_killed),
        cmocka_unit_test(members_of_three_are_killed),
        cmocka_unit_test(a_tail_is_stopped_for_long_and_continued),
        cmocka_unit_test(a_redis_is_killed_and_comes_back_empty),
        cmocka_unit_test(both_members_are_killed_at_once),
        cmocka_unit_test(masters_are_killed),
        cmocka_unit_test(a_joiner_and_its_source_are_killed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
