/* What a member answers: keys, directory, scans, recovery, subscriptions, caps, over real processes. */
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/clock.h"
#include "gcs/shard/redis_conf.h"
#include "gcs/shard/redis_keys.h"
#include "gcs/shard/redis_link.h"
#include "tests/support/gcs_box.h"

#define DEADLINE_NS (60 * MOB_SEC)

struct fixture {
    struct gcs_box box;
    struct mob_gcs *gcs;
    struct mob_gcs_log *log;
    uint64_t incarnation, acked, released, appended, cut;
    bool sealed, refused;
};

static void on_acked(void *arg, uint64_t count)
{
    ((struct fixture *)arg)->acked = count;
}
static void on_released(void *arg, struct mob_gcs_block *block)
{
    ((struct fixture *)arg)->released++;
    free(block);
}
static void on_sealed(void *arg, enum mob_status why, uint64_t cut)
{
    struct fixture *f = arg;
    f->sealed = true;
    f->refused = why != MOB_SEALED;
    f->cut = cut;
}
static int64_t soon(void)
{
    return mob_now() + DEADLINE_NS;
}

static struct fixture *start(const char *flag, const char *value)
{
    struct fixture *f = calloc(1, sizeof *f);
    gcs_box_init(&f->box, NULL);
    f->box.args[0] = flag;
    f->box.args[1] = value;
    gcs_box_start(&f->box);
    f->gcs = gcs_box_client(&f->box);
    return f;
}

static void open_log(struct fixture *f)
{
    struct mob_gcs_log_events events = {on_acked, on_released, on_sealed, f};
    f->acked = f->released = f->appended = 0;
    f->sealed = false;
    assert_int_equal(mob_gcs_node_register_wait(f->gcs, "node-a", soon(), &f->incarnation), MOB_OK);
    assert_int_equal(mob_gcs_log_open(f->gcs, f->incarnation, 0, &events, &f->log), MOB_OK);
}

static void finish(struct fixture *f)
{
    mob_gcs_destroy(f->gcs);
    assert_int_equal(gcs_box_end(&f->box.gcs, SIGTERM), 0);
    gcs_box_fini(&f->box);
    free(f);
}

static void step(struct fixture *f)
{
    gcs_box_step(f->gcs, 5);
}

static void append(struct fixture *f, struct gcs_block_spec spec)
{
    spec.incarnation = f->incarnation;
    spec.sequence = f->appended++;
    assert_int_equal(mob_gcs_log_append(f->log, gcs_block_new(&spec)), MOB_OK);
}

static void wait_acked(struct fixture *f)
{
    for (int64_t deadline = soon(); f->acked < f->appended; step(f))
        assert_true(mob_now() < deadline);
}

static struct mob_gcs_result *wait_result(
    struct fixture *f, enum mob_status submitted, struct mob_gcs_sync *sync, enum mob_status expected)
{
    struct mob_gcs_result *result = NULL;
    assert_int_equal(submitted, MOB_OK);
    enum mob_status status = mob_gcs_sync_wait(f->gcs, sync, soon(), &result);
    assert_string_equal(mob_status_code(status), mob_status_code(expected));
    return result;
}

static struct mob_gcs_put put_of(const char *key, const char *value, uint64_t if_version)
{
    return (struct mob_gcs_put){.table = MOB_GCS_KV,
        .key = key,
        .key_length = (uint32_t)strlen(key),
        .value = value,
        .value_length = (uint32_t)strlen(value),
        .if_version = if_version};
}

/* What a call that timed out leaves behind goes with its late answer, or with the client: the leak check of a
 * build with sanitizers looks at both. */
static void a_wait_that_timed_out_leaves_nothing(void **state)
{
    (void)state;
    struct fixture *f = start(NULL, NULL);
    struct mob_gcs_put put = put_of("late", "one", MOB_GCS_ANY_VERSION);
    struct mob_gcs_result *row = NULL;
    assert_int_equal(mob_gcs_put_wait(f->gcs, &put, soon(), NULL), MOB_OK);
    assert_int_equal(kill(f->box.gcs, SIGSTOP), 0);
    for (int i = 0; i < 3; i++)
        assert_int_equal(mob_gcs_put_wait(f->gcs, &put, mob_now() + MOB_MS, NULL), MOB_TIMEOUT);
    assert_int_equal(mob_gcs_get_wait(f->gcs, MOB_GCS_KV, "late", 4, mob_now() + MOB_MS, &row), MOB_TIMEOUT);
    assert_int_equal(kill(f->box.gcs, SIGCONT), 0);
    put = put_of("late", "two", MOB_GCS_ANY_VERSION);
    assert_int_equal(mob_gcs_put_wait(f->gcs, &put, soon(), NULL), MOB_OK);
    assert_int_equal(mob_gcs_get_wait(f->gcs, MOB_GCS_KV, "late", 4, soon(), &row), MOB_OK);
    assert_memory_equal(mob_gcs_result_answer(row)->kvs[0].value, "two", 3);
    mob_gcs_result_destroy(row);
    assert_int_equal(kill(f->box.gcs, SIGSTOP), 0);
    assert_int_equal(mob_gcs_put_wait(f->gcs, &put, mob_now() + MOB_MS, NULL), MOB_TIMEOUT);
    assert_int_equal(kill(f->box.gcs, SIGCONT), 0);
    finish(f);
}

static void keys_compare_and_set(void **state)
{
    (void)state;
    struct fixture *f = start(NULL, NULL);
    uint64_t v1 = 0, v2 = 0, seen = 0;
    struct mob_gcs_put put = put_of("name", "one", 0);
    assert_int_equal(mob_gcs_put_wait(f->gcs, &put, soon(), &v1), MOB_OK);
    assert_int_equal(mob_gcs_put_wait(f->gcs, &put, soon(), &seen), MOB_CONFLICT);
    assert_int_equal(seen, v1);
    put = put_of("name", "two", v1);
    assert_int_equal(mob_gcs_put_wait(f->gcs, &put, soon(), &v2), MOB_OK);
    assert_true(v2 > v1);
    struct mob_gcs_sync sync = {0};
    mob_gcs_result_destroy(
        wait_result(f, mob_gcs_delete(f->gcs, &put, mob_gcs_sync_done, &sync), &sync, MOB_CONFLICT));
    put.if_version = v2;
    sync = (struct mob_gcs_sync){0};
    mob_gcs_result_destroy(
        wait_result(f, mob_gcs_delete(f->gcs, &put, mob_gcs_sync_done, &sync), &sync, MOB_OK));
    struct mob_gcs_result *gone = NULL;
    assert_int_equal(mob_gcs_get_wait(f->gcs, MOB_GCS_KV, "name", 4, soon(), &gone), MOB_NOT_FOUND);
    put = put_of("name", "three", 0);
    assert_int_equal(mob_gcs_put_wait(f->gcs, &put, soon(), &seen), MOB_OK);
    assert_true(seen > v2);
    put = put_of("", "empty key", 0);
    assert_int_equal(mob_gcs_put(f->gcs, &put, NULL, NULL), MOB_INVALID);
    finish(f);
}

static void lists_are_ordered_and_paged_and_survive_a_restart(void **state)
{
    (void)state;
    struct fixture *f = start(NULL, NULL);
    for (int i = 0; i < 300; i++) {
        char key[32], value[32];
        snprintf(key, sizeof key, "job/%03d", (i * 7) % 300);
        snprintf(value, sizeof value, "%d", (i * 7) % 300);
        struct mob_gcs_put put = put_of(key, value, MOB_GCS_ANY_VERSION);
        assert_int_equal(mob_gcs_put(f->gcs, &put, NULL, NULL), MOB_OK);
    }
    struct mob_gcs_put other = put_of("joc", "other prefix", MOB_GCS_ANY_VERSION);
    assert_int_equal(mob_gcs_put_wait(f->gcs, &other, soon(), NULL), MOB_OK);
    gcs_box_end(&f->box.gcs, SIGKILL);
    gcs_box_start_gcs(&f->box);
    char after[16] = "";
    int count = 0;
    for (bool more = true; more;) {
        struct mob_gcs_sync sync = {0};
        struct mob_gcs_list list = {.table = MOB_GCS_KV,
            .prefix = "job/",
            .prefix_length = 4,
            .after = after,
            .after_length = (uint32_t)strlen(after),
            .limit = 70};
        struct mob_gcs_result *r =
            wait_result(f, mob_gcs_list(f->gcs, &list, mob_gcs_sync_done, &sync), &sync, MOB_OK);
        const struct mob_gcs_answer *a = mob_gcs_result_answer(r);
        for (uint32_t i = 0; i < a->kv_count; i++, count++) {
            char key[32];
            snprintf(key, sizeof key, "job/%03d", count);
            assert_int_equal(a->kvs[i].key_length, strlen(key));
            assert_memory_equal(a->kvs[i].key, key, strlen(key));
            memcpy(after, key, strlen(key) + 1);
        }
        more = a->next != 0;
        mob_gcs_result_destroy(r);
    }
    assert_int_equal(count, 300);
    finish(f);
}

static uint32_t count_rows(struct fixture *f,
    enum mob_status (*ask)(struct fixture *, uint64_t position, struct mob_gcs_sync *, const void *),
    const void *arg, uint64_t *numbers, uint32_t max)
{
    uint32_t n = 0;
    for (uint64_t position = 0;;) {
        struct mob_gcs_sync sync = {0};
        struct mob_gcs_result *r = wait_result(f, ask(f, position, &sync, arg), &sync, MOB_OK);
        const struct mob_gcs_answer *a = mob_gcs_result_answer(r);
        for (uint32_t i = 0; i < a->block_count && n < max; i++)
            numbers[n++] = a->blocks[i].number;
        position = a->next;
        mob_gcs_result_destroy(r);
        if (position == 0)
            return n;
    }
}
static enum mob_status ask_scan(
    struct fixture *f, uint64_t position, struct mob_gcs_sync *sync, const void *arg)
{
    struct mob_gcs_scan scan = *(const struct mob_gcs_scan *)arg;
    scan.position = position;
    return mob_gcs_scan(f->gcs, &scan, mob_gcs_sync_done, sync);
}
static enum mob_status ask_group(
    struct fixture *f, uint64_t position, struct mob_gcs_sync *sync, const void *arg)
{
    const struct mob_task_id *group = arg;
    return mob_gcs_group_blocks(f->gcs, group->stream, group->index, position, mob_gcs_sync_done, sync);
}
static enum mob_status ask_unfinished(
    struct fixture *f, uint64_t position, struct mob_gcs_sync *sync, const void *arg)
{
    return mob_gcs_unfinished(f->gcs, *(const uint64_t *)arg, position, mob_gcs_sync_done, sync);
}

/* Block i: 0..9 job 1, 10..19 job 2; odd ones have function 2; block 5 and 15 have failures; one hour apart.
 */
static void fill(struct fixture *f, int64_t base)
{
    for (uint32_t i = 0; i < 20; i++)
        append(f,
            (struct gcs_block_spec){.job = i < 10 ? 1 : 2,
                .stream = (uint8_t)i,
                .tasks = 20,
                .specs = true,
                .finals = i != 3 && i != 13,
                .failed = i == 5 || i == 15 ? 2 : 0,
                .function = i % 2 ? 2 : 1,
                .wall_ns = base + i * 3600 * MOB_SEC});
    wait_acked(f);
}

static void check_queries(struct fixture *f, int64_t base)
{
    uint64_t n[64];
    struct mob_gcs_scan scan = {.job = gcs_block_job(2)};
    assert_int_equal(count_rows(f, ask_scan, &scan, n, 64), 10);
    assert_int_equal(n[0], 10);
    scan = (struct mob_gcs_scan){.failed = true, .newest_first = true, .limit = 1};
    assert_int_equal(count_rows(f, ask_scan, &scan, n, 64), 2);
    assert_int_equal(n[0], 15);
    assert_int_equal(n[1], 5);
    scan = (struct mob_gcs_scan){.function = gcs_block_function(2), .limit = 3};
    assert_int_equal(count_rows(f, ask_scan, &scan, n, 64), 10);
    assert_int_equal(n[1], 3);
    scan = (struct mob_gcs_scan){.from_wall_ns = base + 4 * 3600 * MOB_SEC - MOB_SEC,
        .to_wall_ns = base + 6 * 3600 * MOB_SEC + MOB_SEC,
        .newest_first = true};
    assert_int_equal(count_rows(f, ask_scan, &scan, n, 64), 3);
    assert_int_equal(n[0], 6);
    struct mob_task_id group = {gcs_block_stream(1, 3), 0};
    assert_int_equal(count_rows(f, ask_group, &group, n, 64), 1);
    assert_int_equal(n[0], 3);
    group.index = 1;
    assert_int_equal(count_rows(f, ask_group, &group, n, 64), 0);
    assert_int_equal(count_rows(f, ask_unfinished, &f->incarnation, n, 64), 2);
    assert_int_equal(n[0], 3);
    assert_int_equal(n[1], 13);
}

static void blocks_are_found_by_group_job_time_function_and_failure(void **state)
{
    (void)state;
    struct fixture *f = start(NULL, NULL);
    int64_t base = 1700000000 * MOB_SEC;
    open_log(f);
    fill(f, base);
    check_queries(f, base);
    gcs_box_end(&f->box.gcs, SIGKILL); /* the index is made again from the blocks */
    gcs_box_start_gcs(&f->box);
    check_queries(f, base);
    append(f,
        (struct gcs_block_spec){.job = 1,
            .stream = 3,
            .tasks = 20,
            .finals = true,
            .function = 2,
            .wall_ns = base + 20 * 3600 * MOB_SEC});
    wait_acked(f);
    uint64_t n[8];
    assert_int_equal(count_rows(f, ask_unfinished, &f->incarnation, n, 8), 1);
    assert_int_equal(n[0], 13);
    finish(f);
}

/* Numbers of the blocks behind a position, and before which of them (the last: the end) a gap is told. */
struct followed {
    uint32_t count;
    uint64_t numbers[64], seqs[64], end; /* end: of what was looked at */
    bool gap[65];
};

static void follow(struct fixture *f, uint64_t position, uint8_t job, uint32_t limit, struct followed *out)
{
    struct mob_gcs_scan scan = {.history = true, .position = position, .limit = limit};
    if (job != 0)
        scan.job = gcs_block_job(job);
    *out = (struct followed){0};
    do {
        struct mob_gcs_sync sync = {0};
        struct mob_gcs_result *r =
            wait_result(f, mob_gcs_scan(f->gcs, &scan, mob_gcs_sync_done, &sync), &sync, MOB_OK);
        const struct mob_gcs_answer *a = mob_gcs_result_answer(r);
        out->gap[out->count] |= a->tie != 0;
        out->end = a->seq;
        for (uint32_t i = 0; i < a->block_count; i++, out->count++) {
            assert_true(out->count < 64);
            out->numbers[out->count] = a->blocks[i].number;
            out->seqs[out->count] = a->blocks[i].seq;
        }
        scan.position = a->next;
        mob_gcs_result_destroy(r);
    } while (scan.position != 0);
}

static void drop(struct fixture *f, uint8_t job, bool finished_only, int64_t before_wall_ns)
{
    struct mob_gcs_sync sync = {0};
    mob_gcs_result_destroy(wait_result(f,
        mob_gcs_job_drop(f->gcs, gcs_block_job(job), finished_only, before_wall_ns, mob_gcs_sync_done, &sync),
        &sync, MOB_OK));
}

/* Blocks 0 to 9 are of job 1, 10 to 19 of job 2, 20 of job 3; of job 1 only the unfinished 3 stays, of job 3
 * nothing. `exactly`: the member has not restarted since. */
static void check_gaps(struct fixture *f, const uint64_t *seqs, bool exactly)
{
    struct followed got;
    for (uint32_t limit = 1; limit < 30; limit += 4) {
        follow(f, 0, 0, limit, &got);
        assert_int_equal(got.count, 11);
        assert_int_equal(got.numbers[0], 3);
        assert_int_equal(got.numbers[1], 10);
        for (uint32_t i = 0; i <= got.count; i++)
            assert_int_equal(got.gap[i], i < 2 || (i == got.count && exactly));
    }
    follow(f, seqs[4], 0, 5, &got);
    assert_true(got.count == 10 && got.gap[0] && !got.gap[1]);
    follow(f, seqs[10], 0, 5, &got);
    assert_true(got.count == 9 && !got.gap[0]);
    for (uint32_t i = 0; i < 2; i++) { /* as it goes on that was told so */
        follow(f, seqs[i == 0 ? 3 : 10] - 1, 0, 5, &got);
        assert_true(got.count == 11 - i && !got.gap[0]);
    }
    follow(f, seqs[20], 0, 5, &got);
    assert_true(got.count == 0 && !got.gap[0]);
    follow(f, 0, 1, 5, &got);
    assert_true(got.count == 1 && got.gap[0]);
    follow(f, 0, 2, 5, &got);
    assert_int_equal(got.count, 10);
    if (exactly)
        for (uint32_t i = 0; i <= got.count; i++)
            assert_false(got.gap[i]); /* what others lost is nothing to who follows this job */
}

static void who_follows_is_told_of_blocks_that_were_dropped(void **state)
{
    (void)state;
    struct fixture *f = start(NULL, NULL);
    int64_t base = 1700000000 * MOB_SEC;
    struct followed all;
    open_log(f);
    fill(f, base);
    append(f, (struct gcs_block_spec){.job = 3, .stream = 8, .tasks = 2, .specs = true, .finals = true});
    wait_acked(f);
    follow(f, 0, 0, 7, &all);
    assert_int_equal(all.count, 21);
    for (uint32_t i = 0; i <= all.count; i++)
        assert_false(all.gap[i]);
    drop(f, 1, true, INT64_MAX);
    drop(f, 3, false, INT64_MAX);
    check_gaps(f, all.seqs, true);
    gcs_box_end(&f->box.gcs, SIGTERM);
    gcs_box_start(&f->box);
    check_gaps(f, all.seqs, false);
    /* Block 20 went before the restart: whoever read to the end since has nothing to be told with the next
     * one. */
    struct mob_gcs_put between = put_of("k", "v", MOB_GCS_ANY_VERSION);
    follow(f, 0, 0, 7, &all);
    assert_int_equal(mob_gcs_put_wait(f->gcs, &between, soon(), NULL), MOB_OK);
    append(f, (struct gcs_block_spec){.job = 2, .stream = 8, .tasks = 1, .specs = true});
    wait_acked(f);
    struct followed got;
    follow(f, all.end, 0, 7, &got);
    assert_true(got.count == 1 && got.numbers[0] == 21 && !got.gap[0]);
    follow(f, all.seqs[all.count - 1], 0, 7, &got);
    assert_true(got.count == 1 && got.numbers[0] == 21 && got.gap[0]);
    finish(f);
}

static void on_cold(void *arg, const struct mob_gcs_cold_get *query, const struct mob_gcs_group_key *groups,
    uint32_t group_count)
{
    (void)groups;
    (void)group_count;
    *(uint64_t *)arg = query->get.tag;
}

static void flush(struct fixture *f, uint64_t from, uint64_t upto)
{
    struct mob_gcs_flush flush = {.from = from, .upto = upto};
    struct mob_gcs_sync sync = {0};
    struct mob_gcs_result *r =
        wait_result(f, mob_gcs_flush(f->gcs, &flush, mob_gcs_sync_done, &sync), &sync, MOB_OK);
    assert_int_equal(mob_gcs_result_answer(r)->number, upto);
    mob_gcs_result_destroy(r);
}

/* Answers the question that the member asks next: what was flushed is gone from there too, or not. */
static void answer_cold(struct fixture *f, uint64_t *tag, bool gone)
{
    for (int64_t deadline = soon(); *tag == 0; step(f))
        assert_true(mob_now() < deadline);
    struct mob_gcs_cold_answer answer = {.tag = *tag, .status = MOB_OK, .tie = gone};
    *tag = 0;
    assert_int_equal(mob_gcs_cold_answer(f->gcs, &answer), MOB_OK);
}

/* While what was flushed is read for somebody, more is flushed, and read as well: the gap is of the former.
 */
static void a_gap_is_told_though_more_is_flushed_meanwhile(void **state)
{
    (void)state;
    struct fixture *f = start(NULL, NULL);
    struct followed all;
    uint64_t tag = 0;
    open_log(f);
    for (uint32_t i = 0; i < 10; i++)
        append(f,
            (struct gcs_block_spec){
                .job = 1, .stream = (uint8_t)(i + 1), .tasks = 2, .specs = true, .finals = true});
    wait_acked(f);
    follow(f, 0, 0, 20, &all);
    assert_int_equal(all.count, 10);
    mob_gcs_cold_serve(f->gcs, on_cold, &tag);
    flush(f, 0, all.seqs[3]);
    struct mob_gcs_scan scan = {.history = true, .limit = 20};
    struct mob_gcs_sync sync = {0};
    enum mob_status asked = mob_gcs_scan(f->gcs, &scan, mob_gcs_sync_done, &sync);
    for (int64_t deadline = soon(); tag == 0; step(f))
        assert_true(mob_now() < deadline);
    flush(f, all.seqs[3], all.seqs[6]);
    answer_cold(f, &tag, true);
    answer_cold(f, &tag, false);
    struct mob_gcs_result *r = wait_result(f, asked, &sync, MOB_OK);
    const struct mob_gcs_answer *a = mob_gcs_result_answer(r);
    assert_true(a->tie != 0);
    assert_int_equal(a->block_count, 3);
    assert_int_equal(a->blocks[0].number, 7);
    mob_gcs_result_destroy(r);
    finish(f);
}

static void a_dropped_job_is_gone_and_unfinished_tasks_stay_when_asked(void **state)
{
    (void)state;
    struct fixture *f = start(NULL, NULL);
    int64_t base = 1700000000 * MOB_SEC;
    open_log(f);
    fill(f, base);
    struct mob_gcs_sync sync = {0};
    struct mob_gcs_result *r = wait_result(f,
        mob_gcs_job_drop(f->gcs, gcs_block_job(1), true, base + 8 * 3600 * MOB_SEC, mob_gcs_sync_done, &sync),
        &sync, MOB_OK);
    assert_int_equal(mob_gcs_result_answer(r)->number, 7); /* 0..7 without the unfinished 3 */
    mob_gcs_result_destroy(r);
    uint64_t n[64] = {0};
    struct mob_gcs_scan scan = {.job = gcs_block_job(1)};
    assert_int_equal(count_rows(f, ask_scan, &scan, n, 64), 3);
    assert_int_equal(n[0], 3);
    sync = (struct mob_gcs_sync){0};
    r = wait_result(f, mob_gcs_job_drop(f->gcs, gcs_block_job(1), false, INT64_MAX, mob_gcs_sync_done, &sync),
        &sync, MOB_OK);
    assert_int_equal(mob_gcs_result_answer(r)->number, 3);
    mob_gcs_result_destroy(r);
    for (int round = 0; round < 2; round++) {
        assert_int_equal(count_rows(f, ask_scan, &scan, n, 64), 0);
        scan = (struct mob_gcs_scan){0};
        assert_int_equal(count_rows(f, ask_scan, &scan, n, 64), 10);
        struct mob_task_id group = {gcs_block_stream(1, 3), 0};
        assert_int_equal(count_rows(f, ask_group, &group, n, 64), 0);
        scan.job = gcs_block_job(1);
        gcs_box_end(&f->box.gcs, SIGTERM);
        gcs_box_end(&f->box.redis, SIGKILL); /* its file must give the deletions back too */
        gcs_box_start(&f->box);
    }
    append(f, (struct gcs_block_spec){.job = 1, .stream = 9, .tasks = 2, .specs = true});
    wait_acked(f);
    finish(f);
}

struct stream_check {
    uint64_t next, resyncs, last_seq;
};
static void on_block(void *arg, const struct mob_gcs_block_row *row)
{
    struct stream_check *s = arg;
    assert_int_equal(row->number, s->next);
    assert_true(row->seq > s->last_seq);
    assert_true(row->length > 0);
    s->last_seq = row->seq;
    s->next++;
}
static void on_resync(void *arg, uint64_t after, uint64_t next)
{
    (void)after;
    (void)next;
    ((struct stream_check *)arg)->resyncs++;
}

static void subscribers_get_each_block_once_over_restarts(void **state)
{
    (void)state;
    struct fixture *f = start("--gcs-collect-ms", "200");
    struct stream_check s = {0}, resumed = {0};
    struct mob_gcs_sub *sub = NULL;
    struct mob_gcs_sub_events events = {on_block, on_resync, &s};
    open_log(f);
    assert_int_equal(mob_gcs_subscribe(f->gcs, 0, &events, &sub), MOB_OK);
    for (int round = 0; round < 6; round++) {
        for (int i = 0; i < 200; i++)
            append(f,
                (struct gcs_block_spec){.job = 1,
                    .stream = 1,
                    .first_index = (uint32_t)f->appended * 8,
                    .tasks = 8,
                    .specs = true});
        for (int i = 0; i < 3; i++)
            step(f);
        if (round % 2 == 0) {
            gcs_box_end(&f->box.gcs, SIGKILL);
            gcs_box_spawn_gcs(&f->box);
        } else {
            gcs_box_end(&f->box.redis, SIGKILL);
            gcs_box_spawn_redis(&f->box);
        }
        wait_acked(f);
    }
    for (int64_t deadline = soon(); s.next < f->appended; step(f))
        assert_true(mob_now() < deadline);
    assert_int_equal(s.resyncs, 0);
    /* From the middle, far behind what the member holds in memory. */
    for (int64_t deadline = soon(); f->released < f->appended; step(f))
        assert_true(mob_now() < deadline);
    resumed.next = 600;
    struct mob_gcs_sync sync = {0};
    struct mob_gcs_result *r = wait_result(
        f, mob_gcs_log_read(f->gcs, f->incarnation, 599, mob_gcs_sync_done, &sync), &sync, MOB_OK);
    events.arg = &resumed;
    struct mob_gcs_sub *second = NULL;
    assert_int_equal(
        mob_gcs_subscribe(f->gcs, mob_gcs_result_answer(r)->blocks[0].seq, &events, &second), MOB_OK);
    mob_gcs_result_destroy(r);
    for (int64_t deadline = soon(); resumed.next < f->appended; step(f))
        assert_true(mob_now() < deadline);
    mob_gcs_unsubscribe(second);
    mob_gcs_unsubscribe(sub);
    finish(f);
}

static redisContext *redis_of(const struct gcs_box *box)
{
    char path[128], socket[128], password[160];
    snprintf(path, sizeof path, "%s/" MOB_REDIS_PASSWORD_NAME, box->directory);
    snprintf(socket, sizeof socket, "%s/" MOB_REDIS_SOCKET_NAME, box->directory);
    assert_int_equal(mob_redis_password_read(path, password, sizeof password), MOB_OK);
    struct mob_redis_options options = {socket, MOB_REDIS_USER, password};
    redisContext *redis = NULL;
    assert_int_equal(mob_redis_connect(&options, &redis), MOB_OK);
    return redis;
}

static uint64_t commands_of(redisContext *redis)
{
    redisReply *info = redisCommand(redis, "INFO stats");
    assert_int_equal(info->type, REDIS_REPLY_STRING);
    const char *at = strstr(info->str, "total_commands_processed:");
    assert_non_null(at);
    uint64_t count = strtoull(strchr(at, ':') + 1, NULL, 10);
    freeReplyObject(info);
    return count;
}

/* Few are asked of it in half a second. */
static bool rests(struct fixture *f, redisContext *redis)
{
    uint64_t before = commands_of(redis);
    for (int64_t until = mob_now() + MOB_SEC / 2; mob_now() < until;)
        step(f);
    return commands_of(redis) - before < 20;
}

/* It is asked for again now and then, and not all the time; and the stream goes on when it is there again. */
static void a_block_that_redis_lost_holds_its_subscribers_only(void **state)
{
    (void)state;
    struct fixture *f = start(NULL, NULL);
    struct stream_check s = {.next = 0};
    struct mob_gcs_sub *sub = NULL;
    struct mob_gcs_sub_events events = {on_block, on_resync, &s};
    open_log(f);
    for (uint32_t i = 0; i < 50; i++)
        append(f,
            (struct gcs_block_spec){.job = 1, .stream = 1, .first_index = i * 8, .tasks = 8, .specs = true});
    for (int64_t deadline = soon(); f->released < f->appended; step(f))
        assert_true(mob_now() < deadline);
    struct mob_gcs_sync sync = {0};
    struct mob_gcs_result *r =
        wait_result(f, mob_gcs_log_read(f->gcs, f->incarnation, 20, mob_gcs_sync_done, &sync), &sync, MOB_OK);
    uint8_t key[9];
    mob_redis_key(key, 'b', mob_gcs_result_answer(r)->blocks[0].seq);
    mob_gcs_result_destroy(r);
    redisContext *redis = redis_of(&f->box);
    redisReply *value = redisCommand(redis, "GET %b", key, sizeof key);
    assert_int_equal(value->type, REDIS_REPLY_STRING);
    freeReplyObject(redisCommand(redis, "UNLINK %b", key, sizeof key));
    assert_int_equal(mob_gcs_subscribe(f->gcs, 0, &events, &sub), MOB_OK);
    for (int64_t deadline = soon(); !rests(f, redis) || s.next < 20;)
        assert_true(mob_now() < deadline);
    assert_int_equal(s.next, 20);
    freeReplyObject(redisCommand(redis, "SET %b %b", key, sizeof key, value->str, (size_t)value->len));
    freeReplyObject(value);
    redisFree(redis);
    for (int64_t deadline = soon(); s.next < f->appended; step(f))
        assert_true(mob_now() < deadline);
    assert_int_equal(s.resyncs, 0);
    mob_gcs_unsubscribe(sub);
    finish(f);
}

static void a_position_that_was_never_reached_is_a_resync(void **state)
{
    (void)state;
    struct fixture *f = start(NULL, NULL);
    struct stream_check s = {.next = 0};
    struct mob_gcs_sub *sub = NULL;
    struct mob_gcs_sub_events events = {on_block, on_resync, &s};
    open_log(f);
    assert_int_equal(mob_gcs_subscribe(f->gcs, 1000000, &events, &sub), MOB_OK);
    for (int64_t deadline = soon(); s.resyncs == 0; step(f))
        assert_true(mob_now() < deadline);
    append(f, (struct gcs_block_spec){.job = 1, .stream = 1, .tasks = 8, .specs = true});
    for (int64_t deadline = soon(); s.next == 0; step(f))
        assert_true(mob_now() < deadline);
    finish(f);
}

static void sealing_is_the_cut(void **state)
{
    (void)state;
    struct fixture *f = start(NULL, NULL);
    open_log(f);
    for (int i = 0; i < 10; i++)
        append(f, (struct gcs_block_spec){.job = 1, .stream = (uint8_t)i, .tasks = 4, .specs = true});
    wait_acked(f);
    struct mob_gcs *other = gcs_box_client(&f->box);
    uint64_t cut = 0, first = f->incarnation;
    assert_int_equal(mob_gcs_log_seal_wait(other, first, soon(), &cut), MOB_OK);
    assert_int_equal(cut, 10);
    assert_int_equal(mob_gcs_log_seal_wait(other, first, soon(), &cut), MOB_OK);
    assert_int_equal(cut, 10);
    assert_int_equal(mob_gcs_log_seal_wait(other, first + 100, soon(), &cut), MOB_NOT_FOUND);
    for (int64_t deadline = soon(); !f->sealed; step(f))
        assert_true(mob_now() < deadline);
    assert_int_equal(f->cut, 10);
    uint8_t bytes[100] = {0};
    struct mob_gcs_block late = {.bytes = bytes, .length = sizeof bytes};
    assert_int_equal(mob_gcs_log_append(f->log, &late), MOB_SEALED);
    open_log(f);
    assert_int_equal(f->incarnation, first + 1);
    gcs_box_end(&f->box.gcs, SIGKILL);
    gcs_box_start_gcs(&f->box);
    struct mob_gcs_sync sync = {0};
    mob_gcs_result_destroy(wait_result(
        f, mob_gcs_log_recovered(f->gcs, first + 1, mob_gcs_sync_done, &sync), &sync, MOB_CONFLICT));
    sync = (struct mob_gcs_sync){0};
    mob_gcs_result_destroy(
        wait_result(f, mob_gcs_log_recovered(f->gcs, first, mob_gcs_sync_done, &sync), &sync, MOB_OK));
    sync = (struct mob_gcs_sync){0};
    struct mob_gcs_result *r =
        wait_result(f, mob_gcs_incarnations(f->gcs, 0, mob_gcs_sync_done, &sync), &sync, MOB_OK);
    const struct mob_gcs_answer *a = mob_gcs_result_answer(r);
    assert_int_equal(a->incarnation_count, 2);
    assert_int_equal(a->incarnations[0].state, MOB_GCS_RECOVERED);
    assert_int_equal(a->incarnations[0].blocks, 10);
    assert_int_equal(a->incarnations[1].state, MOB_GCS_LIVE);
    assert_string_equal(a->incarnations[1].name, "node-a");
    mob_gcs_result_destroy(r);
    mob_gcs_destroy(other);
    finish(f);
}

static void a_wrong_block_is_refused_and_nothing_else_harmed(void **state)
{
    (void)state;
    struct fixture *f = start(NULL, NULL);
    open_log(f);
    append(f, (struct gcs_block_spec){.job = 1, .stream = 1, .tasks = 4, .specs = true});
    wait_acked(f);
    f->appended += 5; /* a block that says another sequence than its place */
    append(f, (struct gcs_block_spec){.job = 1, .stream = 1, .tasks = 4, .specs = true});
    for (int64_t deadline = soon(); !f->sealed; step(f))
        assert_true(mob_now() < deadline);
    assert_true(f->refused);
    assert_int_equal(f->cut, 1);
    struct mob_gcs_put put = put_of("still", "there", 0);
    assert_int_equal(mob_gcs_put_wait(f->gcs, &put, soon(), NULL), MOB_OK);
    finish(f);
}

static void at_the_hard_cap_writes_are_refused_until_a_job_is_dropped(void **state)
{
    (void)state;
    struct fixture *f = start("--gcs-hard-bytes", "12000000");
    f->box.args[2] = "--gcs-soft-bytes";
    f->box.args[3] = "10000000";
    gcs_box_end(&f->box.gcs, SIGTERM);
    gcs_box_start_gcs(&f->box);
    open_log(f);
    struct mob_gcs_position p = {0};
    for (int64_t deadline = soon(); !(p.pressure && p.memory_bytes > p.memory_hard_bytes); step(f)) {
        assert_true(mob_now() < deadline);
        for (int i = 0; i < 32 && f->appended - f->acked < 64; i++)
            append(f,
                (struct gcs_block_spec){
                    .job = 1, .stream = (uint8_t)f->appended, .tasks = 128, .specs = true, .finals = true});
        mob_gcs_position(f->gcs, &p);
    }
    struct mob_gcs_put put = put_of("more", "x", 0);
    assert_int_equal(mob_gcs_put_wait(f->gcs, &put, soon(), NULL), MOB_GCS_FULL);
    struct mob_gcs_sync sync = {0};
    for (bool more = true; more;) {
        sync = (struct mob_gcs_sync){0};
        struct mob_gcs_result *r = wait_result(f,
            mob_gcs_job_drop(f->gcs, gcs_block_job(1), false, INT64_MAX, mob_gcs_sync_done, &sync), &sync,
            MOB_OK);
        more = mob_gcs_result_answer(r)->next != 0;
        mob_gcs_result_destroy(r);
    }
    wait_acked(f); /* those that were refused are tried again by themselves */
    enum mob_status status = MOB_GCS_FULL;
    for (int64_t deadline = soon(); status == MOB_GCS_FULL && mob_now() < deadline;)
        status = mob_gcs_put_wait(f->gcs, &put, soon(), NULL);
    assert_int_equal(status, MOB_OK);
    finish(f);
}

/* What the caps are compared with, what `mobula gcs status` tells and what the flusher looks at is one sum:
 * the buffers of links are in all of them. */
static void caps_and_figures_count_the_same_memory(void **state)
{
    (void)state;
    enum { LINKS = 24 };
    const uint64_t buffers = LINKS * (256ull << 10);
    struct fixture *f = start(NULL, NULL);
    struct mob_gcs *links[LINKS];
    for (int i = 0; i < LINKS; i++) {
        struct mob_gcs_put put = put_of("k", "v", MOB_GCS_ANY_VERSION);
        links[i] = gcs_box_client(&f->box);
        assert_int_equal(mob_gcs_put_wait(links[i], &put, soon(), NULL), MOB_OK);
    }
    uint64_t caps = 0, figures = 0;
    for (int64_t deadline = soon(); caps + buffers / 4 < figures || caps < buffers; step(f)) {
        if (mob_now() > deadline)
            fail_msg("the caps are held against %llu bytes, the figures say %llu", (unsigned long long)caps,
                (unsigned long long)figures);
        struct mob_gcs_sync sync = {0};
        struct mob_gcs_result *r =
            wait_result(f, mob_gcs_stats(f->gcs, mob_gcs_sync_done, &sync), &sync, MOB_OK);
        const struct mob_gcs_stats *s = mob_gcs_result_answer(r)->stats;
        figures = s->redis_bytes + s->member_bytes;
        mob_gcs_result_destroy(r);
        struct mob_gcs *fresh = gcs_box_client(&f->box); /* a member tells who comes what it uses */
        struct mob_gcs_position p;
        struct mob_gcs_put put = put_of("k", "v", MOB_GCS_ANY_VERSION);
        assert_int_equal(mob_gcs_put_wait(fresh, &put, soon(), NULL), MOB_OK);
        mob_gcs_position(fresh, &p);
        caps = p.memory_bytes;
        mob_gcs_destroy(fresh);
    }
    for (int i = 0; i < LINKS; i++)
        mob_gcs_destroy(links[i]);
    finish(f);
}

static uint64_t clients_of(struct fixture *f)
{
    struct mob_gcs_sync sync = {0};
    struct mob_gcs_result *r = wait_result(f, mob_gcs_stats(f->gcs, mob_gcs_sync_done, &sync), &sync, MOB_OK);
    uint64_t clients = mob_gcs_result_answer(r)->stats->clients;
    mob_gcs_result_destroy(r);
    return clients;
}

static void wait_durable(struct fixture *f)
{
    struct mob_gcs_position position = {0};
    for (int64_t deadline = soon(); position.durable < position.committed || position.durable == 0; step(f)) {
        assert_true(mob_now() < deadline);
        mob_gcs_position(f->gcs, &position);
    }
}

static void a_client_that_was_away_too_long_goes_on_under_another_id(void **state)
{
    (void)state;
    struct fixture *f = start("--gcs-expire-ms", "100");
    struct mob_gcs *away = gcs_box_client(&f->box);
    uint64_t v1 = 0;
    struct mob_gcs_put put = put_of("a", "1", 0);
    assert_int_equal(mob_gcs_put_wait(away, &put, soon(), &v1), MOB_OK);
    struct mob_gcs_put mine = put_of("b", "1", 0);
    assert_int_equal(mob_gcs_put_wait(f->gcs, &mine, soon(), NULL), MOB_OK);
    /* What the member says now stays unread in the link of `away`, and its end lies behind. */
    wait_durable(f);
    gcs_box_end(&f->box.gcs, SIGKILL);
    gcs_box_start_gcs(&f->box);
    for (int64_t deadline = soon(); clients_of(f) > 1; step(f))
        assert_true(mob_now() < deadline);
    put = put_of("a", "2", v1);
    assert_int_equal(mob_gcs_put_wait(away, &put, soon(), NULL), MOB_OK);
    assert_int_equal(clients_of(f), 2);
    mob_gcs_destroy(away); /* says so, and is forgotten at once */
    for (int64_t deadline = soon(); clients_of(f) > 1; step(f))
        assert_true(mob_now() < deadline);
    finish(f);
}

/* Who does not read its answers is not written for without end, and others do not wait for it. */
static void a_reader_that_does_not_read_harms_nobody(void **state)
{
    (void)state;
    struct fixture *f = start(NULL, NULL);
    open_log(f);
    for (int i = 0; i < 400; i++) {
        append(f,
            (struct gcs_block_spec){
                .job = 1, .stream = (uint8_t)i, .tasks = 100, .specs = true, .finals = true});
        if (i % 50 == 49)
            wait_acked(f);
    }
    wait_acked(f);
    struct mob_gcs *deaf = gcs_box_client(&f->box);
    struct stream_check s = {0};
    struct mob_gcs_sub *sub = NULL;
    struct mob_gcs_sub_events events = {on_block, on_resync, &s};
    assert_int_equal(mob_gcs_subscribe(deaf, 0, &events, &sub), MOB_OK);
    struct mob_gcs_scan scan = {0};
    for (int i = 0; i < 500; i++)
        assert_int_equal(mob_gcs_scan(deaf, &scan, NULL, NULL), MOB_OK);
    for (int i = 0; i < 3; i++)
        mob_gcs_step(deaf, mob_now()); /* asks, and then reads no more */
    for (int i = 0; i < 50; i++) {
        struct mob_gcs_put put = put_of("k", "v", MOB_GCS_ANY_VERSION);
        assert_int_equal(mob_gcs_put_wait(f->gcs, &put, soon(), NULL), MOB_OK);
    }
    struct mob_gcs_sync sync = {0};
    struct mob_gcs_result *r = wait_result(f, mob_gcs_stats(f->gcs, mob_gcs_sync_done, &sync), &sync, MOB_OK);
    assert_true(mob_gcs_result_answer(r)->stats->member_bytes < 100u << 20);
    mob_gcs_result_destroy(r);
    mob_gcs_destroy(deaf);
    finish(f);
}

struct closed {
    struct mob_gcs *gcs;
    int answers, refused;
};

static void on_closed(void *arg, const struct mob_gcs_answer *answer)
{
    struct closed *c = arg;
    struct mob_gcs_scan scan = {0};
    c->answers += answer->status == MOB_CLOSED;
    c->refused += mob_gcs_scan(c->gcs, &scan, on_closed, c) == MOB_CLOSED;
}

/* Who asked holds something until the answer; at the end it comes, once, and no more can be asked. */
static void closing_answers_what_is_asked(void **state)
{
    (void)state;
    struct fixture *f = start(NULL, NULL);
    struct mob_gcs *other = gcs_box_client(&f->box);
    struct closed c = {.gcs = other};
    struct mob_gcs_put put = put_of("k", "v", MOB_GCS_ANY_VERSION);
    struct mob_gcs_list list = {.table = MOB_GCS_KV};
    struct mob_gcs_scan scan = {0};
    assert_int_equal(mob_gcs_put_wait(other, &put, soon(), NULL), MOB_OK);
    assert_int_equal(mob_gcs_put(other, &put, on_closed, &c), MOB_OK);
    assert_int_equal(mob_gcs_scan(other, &scan, on_closed, &c), MOB_OK);
    mob_gcs_send(other); /* these are with the member, the next is not */
    assert_int_equal(mob_gcs_list(other, &list, on_closed, &c), MOB_OK);
    assert_int_equal(mob_gcs_list(other, &list, NULL, NULL), MOB_OK);
    mob_gcs_close(other);
    assert_int_equal(c.answers, 3);
    assert_int_equal(c.refused, 3);
    assert_int_equal(mob_gcs_put(other, &put, on_closed, &c), MOB_CLOSED);
    mob_gcs_destroy(other);
    assert_int_equal(c.answers, 3);
    finish(f);
}

int main(void)
{
    signal(SIGPIPE, SIG_IGN);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_wait_that_timed_out_leaves_nothing),
        cmocka_unit_test(closing_answers_what_is_asked),
        cmocka_unit_test(caps_and_figures_count_the_same_memory),
        cmocka_unit_test(keys_compare_and_set),
        cmocka_unit_test(lists_are_ordered_and_paged_and_survive_a_restart),
        cmocka_unit_test(blocks_are_found_by_group_job_time_function_and_failure),
        cmocka_unit_test(who_follows_is_told_of_blocks_that_were_dropped),
        cmocka_unit_test(a_gap_is_told_though_more_is_flushed_meanwhile),
        cmocka_unit_test(a_dropped_job_is_gone_and_unfinished_tasks_stay_when_asked),
        cmocka_unit_test(subscribers_get_each_block_once_over_restarts),
        cmocka_unit_test(a_block_that_redis_lost_holds_its_subscribers_only),
        cmocka_unit_test(a_position_that_was_never_reached_is_a_resync),
        cmocka_unit_test(sealing_is_the_cut),
        cmocka_unit_test(a_client_that_was_away_too_long_goes_on_under_another_id),
        cmocka_unit_test(a_reader_that_does_not_read_harms_nobody),
        cmocka_unit_test(a_wrong_block_is_refused_and_nothing_else_harmed),
        cmocka_unit_test(at_the_hard_cap_writes_are_refused_until_a_job_is_dropped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
