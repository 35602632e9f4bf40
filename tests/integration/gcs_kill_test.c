/* ctest: timeout=300 long
 * kill -9 of mobula-gcs and of its Redis under load: work stalls, goes on, and nothing acknowledged is lost,
 * doubled or reordered. Seeded (MOBULA_SEED); MOBULA_GCS_ROUNDS makes it longer.
 */
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/base/clock.h"
#include "common/base/hash.h"
#include "gcs/client/member_link.h"
#include "tests/support/gcs_box.h"
#include "tests/support/xorshift.h"

#define BLOCKS_MAX 400000u
#define TASKS 16u
#define DEADLINE_NS (60 * MOB_SEC)

static uint64_t seed = 1;
static uint64_t random_next(void)
{
    return xorshift(&seed);
}

struct writer {
    struct gcs_box box;
    struct mob_gcs *gcs;
    struct mob_gcs_log *log;
    uint64_t incarnation, appended, acked, released, cut;
    bool sealed, all_finish;
    enum mob_status why;
    uint64_t *hashes;
    uint64_t counter_ok, counter_version;
    bool counter_busy;
};

static void on_acked(void *arg, uint64_t count)
{
    struct writer *w = arg;
    assert_true(count > w->acked && count <= w->appended);
    w->acked = count;
}
static void on_released(void *arg, struct mob_gcs_block *block)
{
    struct writer *w = arg;
    assert_int_equal(block->number, w->released);
    w->released++;
    free(block);
}
static void on_sealed(void *arg, enum mob_status why, uint64_t cut)
{
    struct writer *w = arg;
    w->sealed = true;
    w->why = why;
    w->cut = cut;
}

static void writer_open_log(struct writer *w)
{
    struct mob_gcs_log_events events = {on_acked, on_released, on_sealed, w};
    assert_int_equal(
        mob_gcs_node_register_wait(w->gcs, "node", mob_now() + DEADLINE_NS, &w->incarnation), MOB_OK);
    assert_int_equal(mob_gcs_log_open(w->gcs, w->incarnation, 0, &events, &w->log), MOB_OK);
}

static void writer_init(struct writer *w, const char *durability)
{
    *w = (struct writer){0};
    gcs_box_init(&w->box, durability);
    w->box.args[0] = "--gcs-collect-ms";
    w->box.args[1] = "300";
    gcs_box_start(&w->box);
    w->gcs = gcs_box_client(&w->box);
    w->hashes = calloc(BLOCKS_MAX, sizeof *w->hashes);
    writer_open_log(w);
}

static void writer_fini(struct writer *w)
{
    mob_gcs_destroy(w->gcs);
    gcs_box_fini(&w->box);
    free(w->hashes);
}

static void kill_both(struct writer *w)
{
    gcs_box_end(&w->box.gcs, SIGKILL);
    gcs_box_end(&w->box.redis, SIGKILL);
}

/* Waits for neither. */
static void spawn_both(struct writer *w)
{
    gcs_box_spawn_redis(&w->box);
    gcs_box_spawn_gcs(&w->box);
}

static void append_block(struct writer *w)
{
    struct gcs_block_spec spec = gcs_block_nth(w->incarnation, w->appended, TASKS);
    spec.finals |= w->all_finish;
    struct mob_gcs_block *block = gcs_block_new(&spec);
    assert_int_equal(mob_gcs_log_append(w->log, block), MOB_OK);
    w->hashes[w->appended++] = mob_hash64(block->bytes, block->length);
}

/* A counter that is raised by compare-and-set: one success is one step, whatever was killed in between. */
static void counter_step(struct writer *w);
static void counter_done(void *arg, const struct mob_gcs_answer *a)
{
    struct writer *w = arg;
    w->counter_busy = false;
    if (a->status != MOB_OK)
        fail_msg("counter: %s, version %llu, have %llu", mob_status_code(a->status),
            (unsigned long long)a->version, (unsigned long long)w->counter_version);
    assert_true(a->version > w->counter_version);
    w->counter_version = a->version;
    w->counter_ok++;
}
static void counter_step(struct writer *w)
{
    if (w->counter_busy)
        return;
    uint64_t value = w->counter_ok + 1;
    struct mob_gcs_put put = {.table = MOB_GCS_KV,
        .key = "counter",
        .key_length = 7,
        .value = &value,
        .value_length = sizeof value,
        .if_version = w->counter_version};
    assert_int_equal(mob_gcs_put(w->gcs, &put, counter_done, w), MOB_OK);
    w->counter_busy = true;
}

static void load_for(struct writer *w, uint64_t blocks, int64_t at_most_ns)
{
    uint64_t goal = w->acked + blocks;
    int64_t deadline = mob_now() + at_most_ns;
    while (w->acked < goal && mob_now() < deadline && !w->sealed) {
        while (w->appended - w->acked < 32 && w->appended < BLOCKS_MAX)
            append_block(w);
        counter_step(w);
        gcs_box_step(w->gcs, 5);
    }
}

static void drain(struct writer *w, bool durable)
{
    int64_t deadline = mob_now() + DEADLINE_NS;
    while ((durable ? w->released : w->acked) < w->appended || w->counter_busy) {
        if (mob_now() > deadline)
            fail_msg("stuck: appended %llu acked %llu released %llu", (unsigned long long)w->appended,
                (unsigned long long)w->acked, (unsigned long long)w->released);
        gcs_box_step(w->gcs, 10);
    }
}

static uint64_t check_log(struct writer *w, struct mob_gcs *gcs)
{
    uint64_t number = 0;
    for (uint64_t next = 0;;) {
        struct mob_gcs_sync sync = {0};
        struct mob_gcs_result *result = NULL;
        assert_int_equal(mob_gcs_log_read(gcs, w->incarnation, next, mob_gcs_sync_done, &sync), MOB_OK);
        assert_int_equal(mob_gcs_sync_wait(gcs, &sync, mob_now() + DEADLINE_NS, &result), MOB_OK);
        const struct mob_gcs_answer *a = mob_gcs_result_answer(result);
        for (uint32_t i = 0; i < a->block_count; i++, number++) {
            assert_int_equal(a->blocks[i].number, number);
            if (mob_hash64(a->blocks[i].bytes, a->blocks[i].length) != w->hashes[number])
                fail_msg("block %llu differs", (unsigned long long)number);
        }
        next = a->next;
        mob_gcs_result_destroy(result);
        if (next == 0)
            return number;
    }
}

static void check_counter(struct writer *w, struct mob_gcs *gcs)
{
    struct mob_gcs_result *result = NULL;
    if (w->counter_ok == 0)
        return;
    assert_int_equal(
        mob_gcs_get_wait(gcs, MOB_GCS_KV, "counter", 7, mob_now() + DEADLINE_NS, &result), MOB_OK);
    uint64_t value;
    memcpy(&value, mob_gcs_result_answer(result)->kvs[0].value, sizeof value);
    assert_int_equal(value, w->counter_ok);
    assert_int_equal(mob_gcs_result_answer(result)->kvs[0].version, w->counter_version);
    mob_gcs_result_destroy(result);
}

static void round_of_kills(struct writer *w)
{
    load_for(w, 20 + random_next() % 400, DEADLINE_NS);
    uint64_t what = random_next() % 4;
    if (what != 1)
        gcs_box_end(&w->box.gcs, SIGKILL);
    if (what != 0)
        gcs_box_end(&w->box.redis, SIGKILL);
    bool redis_first = random_next() % 2 == 0;
    if (random_next() % 2 == 0) /* the client notices meanwhile */
        load_for(w, 1, 5 * MOB_MS);
    for (int i = 0; i < 2; i++) {
        if ((i == 0) == redis_first && w->box.redis == 0)
            gcs_box_spawn_redis(&w->box);
        else if ((i == 0) != redis_first && w->box.gcs == 0)
            gcs_box_spawn_gcs(&w->box);
    }
    if (random_next() % 4 == 0) { /* and once more while it starts */
        load_for(w, 1, (int64_t)(random_next() % 20) * MOB_MS);
        gcs_box_end(&w->box.gcs, SIGKILL);
        gcs_box_spawn_gcs(&w->box);
    }
}

static void kill_rounds(const char *durability, unsigned rounds)
{
    struct writer w;
    writer_init(&w, durability);
    const char *more = getenv("MOBULA_GCS_ROUNDS");
    rounds = more == NULL ? rounds : (unsigned)atoi(more);
    for (unsigned i = 0; i < rounds; i++)
        round_of_kills(&w);
    load_for(&w, 50, DEADLINE_NS);
    drain(&w, true);
    assert_false(w.sealed);
    struct mob_gcs *reader = gcs_box_client(&w.box);
    assert_int_equal(check_log(&w, reader), w.appended);
    check_counter(&w, reader);
    struct mob_gcs_stats s = gcs_box_stats(reader);
    print_message("durability=%s rounds=%u blocks=%llu counter=%llu epoch=%llu losses=%llu\n", durability,
        rounds, (unsigned long long)w.appended, (unsigned long long)w.counter_ok, (unsigned long long)s.epoch,
        (unsigned long long)s.losses);
    assert_int_equal(s.blocks, w.appended);
    assert_int_equal(s.losses, 0);
    mob_gcs_destroy(reader);
    writer_fini(&w);
}

static void nothing_is_lost_with_everysec(void **state)
{
    (void)state;
    kill_rounds("everysec", 12);
}
static void nothing_is_lost_with_always(void **state)
{
    (void)state;
    kill_rounds("always", 6);
}
static void nothing_is_lost_with_no_while_the_kernel_lives(void **state)
{
    (void)state;
    kill_rounds("no", 6);
}

static void clients_give_back_what_a_torn_file_lost(void **state)
{
    (void)state;
    struct writer w;
    writer_init(&w, "everysec");
    load_for(&w, 500, DEADLINE_NS);
    drain(&w, true);
    uint64_t safe = gcs_box_file_bytes(&w.box);
    uint64_t released = w.released;
    load_for(&w, 300, DEADLINE_NS);
    assert_true(w.acked > released);
    kill_both(&w);
    /* Something may have become durable meanwhile: lose only what was not. */
    uint64_t size = gcs_box_file_bytes(&w.box);
    if (w.released == released)
        gcs_box_cut_file(&w.box, size - safe);
    spawn_both(&w);
    load_for(&w, 100, DEADLINE_NS);
    drain(&w, true);
    assert_false(w.sealed);
    struct mob_gcs *reader = gcs_box_client(&w.box);
    assert_int_equal(check_log(&w, reader), w.appended);
    check_counter(&w, reader);
    struct mob_gcs_stats s = gcs_box_stats(reader);
    assert_true(s.epoch >= 2);
    mob_gcs_destroy(reader);
    writer_fini(&w);
}

static void a_loss_with_durability_no_is_named_and_the_log_sealed(void **state)
{
    (void)state;
    struct writer w;
    writer_init(&w, "no");
    load_for(&w, 200, DEADLINE_NS);
    drain(&w, true);
    uint64_t acked = w.acked;
    kill_both(&w);
    assert_true(gcs_box_cut_file(&w.box, 20000) > 0);
    spawn_both(&w);
    for (int64_t deadline = mob_now() + DEADLINE_NS; !w.sealed && mob_now() < deadline;) {
        gcs_box_step(w.gcs, 10);
    }
    assert_true(w.sealed);
    assert_int_equal(w.why, MOB_SEALED);
    assert_true(w.cut < acked);
    struct mob_gcs *reader = gcs_box_client(&w.box);
    assert_int_equal(check_log(&w, reader), w.cut);
    struct mob_gcs_sync sync = {0};
    struct mob_gcs_result *result = NULL;
    assert_int_equal(
        mob_gcs_list(reader, &(struct mob_gcs_list){.table = MOB_GCS_LOSSES}, mob_gcs_sync_done, &sync),
        MOB_OK);
    assert_int_equal(mob_gcs_sync_wait(reader, &sync, mob_now() + DEADLINE_NS, &result), MOB_OK);
    const struct mob_gcs_answer *a = mob_gcs_result_answer(result);
    char expected[64], text[512] = "";
    snprintf(expected, sizeof expected, "\"first_missing\":%llu,", (unsigned long long)w.cut);
    for (uint32_t i = 0; i < a->kv_count; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%.*s ", (int)a->kvs[i].value_length,
            (const char *)a->kvs[i].value);
    if (strstr(text, expected) == NULL)
        fail_msg("no %s in %s", expected, text);
    mob_gcs_result_destroy(result);
    mob_gcs_destroy(reader);
    writer_fini(&w);
}

static void a_clean_stop_needs_no_collecting(void **state)
{
    (void)state;
    struct writer w;
    writer_init(&w, "everysec");
    load_for(&w, 200, DEADLINE_NS);
    assert_int_equal(gcs_box_end(&w.box.gcs, SIGTERM), 0);
    gcs_box_end(&w.box.redis, SIGTERM);
    spawn_both(&w);
    load_for(&w, 200, DEADLINE_NS);
    drain(&w, true);
    struct mob_gcs_stats s = gcs_box_stats(w.gcs);
    assert_int_equal(s.epoch, 1);
    assert_int_equal(check_log(&w, w.gcs), w.appended);
    writer_fini(&w);
}

/* It waits asleep for what its Redis has not answered, and ends clean when it has. */
static void a_stop_waits_for_redis_at_rest(void **state)
{
    (void)state;
    struct writer w;
    writer_init(&w, "everysec");
    load_for(&w, 200, DEADLINE_NS);
    kill(w.box.redis, SIGSTOP);
    kill(w.box.gcs, SIGTERM);
    poll(NULL, 0, 50);
    int64_t used = gcs_box_cpu_ns(w.box.gcs), since = mob_now();
    poll(NULL, 0, 1000);
    used = gcs_box_cpu_ns(w.box.gcs) - used;
    since = mob_now() - since;
    print_message("used %lld of %lld us\n", (long long)used / 1000, (long long)since / 1000);
    assert_true(used < since / 20);
    kill(w.box.redis, SIGCONT);
    assert_int_equal(gcs_box_end(&w.box.gcs, SIGTERM), 0);
    gcs_box_start_gcs(&w.box);
    load_for(&w, 200, DEADLINE_NS);
    drain(&w, true);
    assert_int_equal(check_log(&w, w.gcs), w.appended);
    writer_fini(&w);
}

/* The member dies by itself at each of its commit points, and is started again without the failpoint. */
static void death_at_each_commit_point_loses_nothing(void **state)
{
    (void)state;
    static const char *const points[] = {"gcs.before_exec=kill@7", "gcs.after_exec=kill@7",
        "gcs.after_sync=kill@2", "gcs.before_exec=kill@1", "gcs.after_exec=kill@1", "gcs.after_apply=kill@40",
        "gcs.before_reply=kill@9", "gcs.aof_sync=error@5"};
    struct writer w;
    writer_init(&w, "everysec");
    for (unsigned i = 0; i < sizeof points / sizeof points[0]; i++) {
        gcs_box_end(&w.box.gcs, SIGKILL);
        w.box.failpoints = points[i];
        gcs_box_spawn_gcs(&w.box);
        w.box.failpoints = NULL;
        for (int64_t deadline = mob_now() + DEADLINE_NS; !gcs_box_ended(&w.box.gcs);) {
            load_for(&w, 1, 50 * MOB_MS);
            if (mob_now() > deadline)
                fail_msg("%s was not reached", points[i]);
        }
        gcs_box_spawn_gcs(&w.box);
        load_for(&w, 20, DEADLINE_NS);
    }
    drain(&w, true);
    assert_false(w.sealed);
    assert_int_equal(check_log(&w, w.gcs), w.appended);
    check_counter(&w, w.gcs);
    writer_fini(&w);
}

/* Blocks of a job are dropped while others come; the file is rewritten at least twice, Redis and member
 * killed between. */
static void the_file_is_rewritten_and_the_proof_holds_across_it(void **state)
{
    (void)state;
    struct writer w;
    writer_init(&w, "everysec");
    gcs_box_end(&w.box.gcs, SIGTERM);
    w.box.args[2] = "--gcs-rewrite-bytes";
    w.box.args[3] = "3000000";
    gcs_box_start_gcs(&w.box);
    struct mob_gcs_stats s = {0};
    uint64_t dropped = 0, largest = 0;
    w.all_finish = true;
    for (int64_t deadline = mob_now() + DEADLINE_NS; s.rewrites < 2 && mob_now() < deadline;) {
        load_for(&w, 1500, DEADLINE_NS);
        struct mob_gcs_sync sync = {0};
        struct mob_gcs_result *result = NULL;
        assert_int_equal(
            mob_gcs_job_drop(w.gcs, gcs_block_job(1), true, INT64_MAX, mob_gcs_sync_done, &sync), MOB_OK);
        assert_int_equal(mob_gcs_sync_wait(w.gcs, &sync, mob_now() + DEADLINE_NS, &result), MOB_OK);
        dropped += mob_gcs_result_answer(result)->number;
        mob_gcs_result_destroy(result);
        s = gcs_box_stats(w.gcs);
        largest = s.aof_bytes > largest ? s.aof_bytes : largest;
    }
    assert_true(s.rewrites >= 2 && dropped > 0);
    gcs_box_end(&w.box.redis, SIGKILL);
    gcs_box_spawn_redis(&w.box);
    load_for(&w, 300, DEADLINE_NS);
    kill_both(&w);
    spawn_both(&w);
    load_for(&w, 300, DEADLINE_NS);
    drain(&w, true);
    struct mob_gcs *reader = gcs_box_client(&w.box);
    s = gcs_box_stats(reader);
    if (s.blocks + dropped != w.appended)
        fail_msg("blocks %llu dropped %llu appended %llu losses %llu", (unsigned long long)s.blocks,
            (unsigned long long)dropped, (unsigned long long)w.appended, (unsigned long long)s.losses);
    assert_int_equal(s.losses, 0);
    check_counter(&w, reader);
    print_message("dropped=%llu of %llu, largest file %llu\n", (unsigned long long)dropped,
        (unsigned long long)w.appended, (unsigned long long)largest);
    mob_gcs_destroy(reader);
    writer_fini(&w);
}

static bool mount_small(struct gcs_box *box, const char *options)
{
    char command[256];
    snprintf(command, sizeof command, "mount -t tmpfs %s tmpfs %s 2>/dev/null", options, box->directory);
    return system(command) == 0;
}

/* Waits until the member says so of its store, by itself: nothing is committed meanwhile. */
static void wait_for_store(const struct gcs_box *box, const char *word)
{
    struct mob_gcs_stats stats = {0};
    for (int64_t deadline = mob_now() + DEADLINE_NS;
         mob_now() < deadline && strcmp(stats.store, word) != 0;) {
        struct mob_member_link *link;
        assert_int_equal(gcs_box_member(box->socket, 0, &link), MOB_OK);
        assert_int_equal(mob_member_stats(link, &stats), MOB_OK);
        mob_member_close(link);
        poll(NULL, 0, 20);
    }
    assert_string_equal(stats.store, word);
}

/* Redis answers though it cannot write its file: nothing may be called durable then, and all goes on when
 * there is room. */
static void a_full_disk_stalls_and_loses_nothing(void **state)
{
    (void)state;
    struct writer w = {0};
    char path[128];
    gcs_box_init(&w.box, "everysec");
    if (!mount_small(&w.box, "-o size=500k")) {
        gcs_box_fini(&w.box);
        print_message("needs the right to mount\n");
        skip();
    }
    gcs_box_configure(&w.box);
    gcs_box_start(&w.box);
    w.gcs = gcs_box_client(&w.box);
    w.hashes = calloc(BLOCKS_MAX, sizeof *w.hashes);
    writer_open_log(&w);
    load_for(&w, 5000, 4 * MOB_SEC);
    uint64_t durable = w.released;
    assert_true(durable < w.appended);
    load_for(&w, 5000, 2 * MOB_SEC);
    assert_int_equal(w.released, durable); /* still full */
    wait_for_store(&w.box, "refuses");
    assert_true(mount_small(&w.box, "-o remount,size=64m"));
    load_for(&w, 300, DEADLINE_NS);
    drain(&w, true);
    wait_for_store(&w.box, "ok");
    gcs_box_end(&w.box.redis, SIGKILL);
    wait_for_store(&w.box, "away");
    gcs_box_end(&w.box.gcs, SIGKILL);
    spawn_both(&w);
    load_for(&w, 50, DEADLINE_NS);
    drain(&w, true);
    assert_int_equal(check_log(&w, w.gcs), w.appended);
    check_counter(&w, w.gcs);
    kill_both(&w);
    snprintf(path, sizeof path, "umount %s", w.box.directory);
    assert_int_equal(system(path), 0);
    writer_fini(&w);
}

/* Everybody died: those in the tables are gone, and whoever comes first is new. It gets its id when the
 * member serves, so the member must not wait for what it keeps. */
static void restart_after_the_end_of_all_waits_for_nobody(void **state)
{
    (void)state;
    struct gcs_box box;
    uint64_t incarnation, cut;
    gcs_box_init(&box, NULL);
    gcs_box_start(&box);
    pid_t dies = fork();
    if (dies == 0) {
        struct mob_gcs *gcs = gcs_box_client(&box);
        (void)!mob_gcs_node_register_wait(gcs, "node", mob_now() + DEADLINE_NS, &incarnation);
        raise(SIGKILL);
    }
    int status;
    assert_int_equal(waitpid(dies, &status, 0), dies);
    gcs_box_end(&box.gcs, SIGKILL);
    gcs_box_start_gcs(&box);
    int64_t begin = mob_now();
    struct mob_gcs *gcs = gcs_box_client(&box);
    assert_int_equal(mob_gcs_log_seal_wait(gcs, 1, mob_now() + DEADLINE_NS, &cut), MOB_OK);
    int64_t took = mob_now() - begin;
    if (took > 3 * MOB_SEC)
        fail_msg("the first answer after the restart took %lld ms", (long long)(took / MOB_MS));
    mob_gcs_destroy(gcs);
    gcs_box_fini(&box);
}

/* A power cut right after the start would lose what was only read from the file, not synced. */
static void what_was_loaded_is_synced_before_it_is_served(void **state)
{
    (void)state;
    struct gcs_box box;
    gcs_box_init(&box, "everysec");
    gcs_box_start(&box);
    struct mob_gcs *gcs = gcs_box_client(&box);
    assert_true(gcs_box_stats(gcs).syncs >= 1);
    gcs_box_end(&box.gcs, SIGKILL);
    gcs_box_start_gcs(&box);
    int64_t before = mob_now();
    uint64_t syncs = gcs_box_stats(gcs).syncs;
    if (mob_now() - before < 900 * MOB_MS) /* later the sync of each second is in the count, too */
        assert_true(syncs >= 1);
    mob_gcs_destroy(gcs);
    gcs_box_fini(&box);
}

int main(void)
{
    const char *text = getenv("MOBULA_SEED");
    seed = text == NULL ? 20240611 : strtoull(text, NULL, 10) | 1;
    print_message("seed %llu\n", (unsigned long long)seed);
    signal(SIGPIPE, SIG_IGN);
    cmocka_set_test_filter(getenv("MOBULA_TEST"));
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_loaded_is_synced_before_it_is_served),
        cmocka_unit_test(nothing_is_lost_with_everysec),
        cmocka_unit_test(nothing_is_lost_with_always),
        cmocka_unit_test(nothing_is_lost_with_no_while_the_kernel_lives),
        cmocka_unit_test(clients_give_back_what_a_torn_file_lost),
        cmocka_unit_test(a_loss_with_durability_no_is_named_and_the_log_sealed),
        cmocka_unit_test(a_clean_stop_needs_no_collecting),
        cmocka_unit_test(a_stop_waits_for_redis_at_rest),
        cmocka_unit_test(restart_after_the_end_of_all_waits_for_nobody),
        cmocka_unit_test(death_at_each_commit_point_loses_nothing),
        cmocka_unit_test(a_full_disk_stalls_and_loses_nothing),
        cmocka_unit_test(the_file_is_rewritten_and_the_proof_holds_across_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
