/* FLUSH: blocks leave the member for PostgreSQL, here a list in the test, and every read finds them all the
 * same. ctest: timeout=300 long
 */
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
#include "common/wire/block.h"
#include "tests/support/gcs_box.h"

#define DEADLINE_NS (60 * MOB_SEC)
#define BLOCKS_MAX 4096u
#define ASKED_MAX 64u
#define COLD_PAGE 3u

struct kept {
    struct mob_gcs_block_row row;
    struct mob_zone_map *zone;
};
struct fixture {
    struct gcs_box box;
    struct mob_gcs *gcs, *flusher;
    struct mob_gcs_log *log;
    struct mob_gcs_sub *sub;
    uint64_t incarnation, acked, appended;
    struct kept blocks[BLOCKS_MAX]; /* everything, in commit order: the flusher's subscription */
    uint32_t count;
    uint64_t flushed; /* as the flusher knows */
    uint32_t cold_asked;
    bool mute; /* the reader does not answer, but for what the test makes of */
    struct mob_gcs_cold_get asked[ASKED_MAX]; /* while it is mute */
    uint32_t asked_count;
};

static void on_acked(void *arg, uint64_t count)
{
    ((struct fixture *)arg)->acked = count;
}
static void on_sealed(void *arg, enum mob_status why, uint64_t cut)
{
    (void)arg;
    (void)cut;
    fail_msg("sealed: %s", mob_status_code(why));
}
static int64_t soon(void)
{
    return mob_now() + DEADLINE_NS;
}

/* ---- the other side: all blocks, and reads of those up to a position ---- */

static void on_block(void *arg, const struct mob_gcs_block_row *row)
{
    struct fixture *f = arg;
    assert_in_range(f->count, 0, BLOCKS_MAX - 1);
    struct kept *k = &f->blocks[f->count++];
    uint8_t *bytes = malloc(row->length);
    struct mob_block_header header;
    memcpy(bytes, row->bytes, row->length);
    k->row = *row;
    k->row.bytes = bytes;
    k->zone = malloc(sizeof *k->zone);
    assert_int_equal(mob_block_peek(bytes, row->length, &header, k->zone), MOB_OK);
}
static void on_resync(void *arg, uint64_t after, uint64_t next)
{
    (void)arg;
    fail_msg("the flusher missed blocks: %lu to %lu", (unsigned long)after, (unsigned long)next);
}

static bool wanted(const struct kept *k, const struct mob_gcs_cold_get *q,
    const struct mob_gcs_group_key *groups, uint32_t group_count)
{
    struct mob_gcs_group_key one = {q->get.stream, q->get.group};
    if (k->row.seq > q->upto)
        return false;
    if (q->get.query == MOB_GCS_Q_GROUP) {
        groups = &one;
        group_count = 1;
    } else if (q->get.query != MOB_GCS_Q_GROUPS) {
        return true;
    }
    for (uint32_t g = 0; g < k->zone->group_count; g++)
        for (uint32_t i = 0; i < group_count; i++)
            if (k->zone->groups[g].group == groups[i].group &&
                mob_stream_eq(k->zone->groups[g].stream, groups[i].stream))
                return true;
    return false;
}

/* Each block is a batch of one row here. */
static void on_cold(
    void *arg, const struct mob_gcs_cold_get *q, const struct mob_gcs_group_key *groups, uint32_t group_count)
{
    struct fixture *f = arg;
    struct mob_gcs_block_row rows[COLD_PAGE];
    struct mob_gcs_cold_answer answer = {.tag = q->get.tag, .blocks = rows};
    bool down = q->get.query == MOB_GCS_Q_SCAN && q->get.newest_first;
    uint64_t seq = mob_gcs_cold_seq(q->get.position);
    f->cold_asked++;
    if (f->mute) {
        assert_in_range(f->asked_count, 0, ASKED_MAX - 1);
        f->asked[f->asked_count++] = *q;
        return;
    }
    for (uint32_t i = 0; i < f->count; i++) {
        const struct kept *k = &f->blocks[down ? f->count - 1 - i : i];
        if ((down ? k->row.seq >= seq : k->row.seq <= seq) || !wanted(k, q, groups, group_count))
            continue;
        if (answer.block_count == COLD_PAGE) {
            uint64_t last = rows[COLD_PAGE - 1].seq;
            answer.next = mob_gcs_cold_position(last, down ? MOB_GCS_COLD_ROW_MAX : 0);
            break;
        }
        rows[answer.block_count++] = k->row;
    }
    assert_int_equal(mob_gcs_cold_answer(f->flusher, &answer), MOB_OK);
}

/* ---- both clients ---- */

static void step(struct fixture *f)
{
    mob_gcs_step(f->gcs, mob_now());
    if (f->flusher != NULL)
        mob_gcs_step(f->flusher, mob_now());
    mob_gcs_step(f->gcs, mob_now());
    struct pollfd p[2] = {{.fd = mob_gcs_fd(f->gcs), .events = POLLIN},
        {.fd = f->flusher == NULL ? -1 : mob_gcs_fd(f->flusher), .events = POLLIN}};
    poll(p, 2, 5);
}

static void start_flusher(struct fixture *f)
{
    struct mob_gcs_sub_events events = {on_block, on_resync, f};
    f->flusher = gcs_box_client(&f->box);
    mob_gcs_cold_serve(f->flusher, on_cold, f);
    uint64_t after = f->count == 0 ? 0 : f->blocks[f->count - 1].row.seq;
    assert_int_equal(mob_gcs_subscribe(f->flusher, after, &events, &f->sub), MOB_OK);
}

static struct fixture *start(const char *flag, const char *value)
{
    struct fixture *f = calloc(1, sizeof *f);
    gcs_box_init(&f->box, NULL);
    f->box.args[0] = flag;
    f->box.args[1] = value;
    gcs_box_start(&f->box);
    f->gcs = gcs_box_client(&f->box);
    start_flusher(f);
    struct mob_gcs_log_events events = {on_acked, gcs_block_released, on_sealed, f};
    assert_int_equal(mob_gcs_node_register_wait(f->gcs, "node-a", soon(), &f->incarnation), MOB_OK);
    assert_int_equal(mob_gcs_log_open(f->gcs, f->incarnation, 0, &events, &f->log), MOB_OK);
    return f;
}

static void finish(struct fixture *f)
{
    mob_gcs_destroy(f->gcs);
    mob_gcs_destroy(f->flusher);
    assert_int_equal(gcs_box_end(&f->box.gcs, SIGTERM), 0);
    gcs_box_fini(&f->box);
    for (uint32_t i = 0; i < f->count; i++) {
        free((void *)(uintptr_t)f->blocks[i].row.bytes);
        free(f->blocks[i].zone);
    }
    free(f);
}

static void append(struct fixture *f, struct gcs_block_spec spec)
{
    spec.incarnation = f->incarnation;
    spec.sequence = f->appended++;
    assert_int_equal(mob_gcs_log_append(f->log, gcs_block_new(&spec)), MOB_OK);
}

static void wait_appended(struct fixture *f)
{
    for (int64_t deadline = soon(); f->acked < f->appended || f->count < f->appended; step(f))
        assert_true(mob_now() < deadline);
}

struct answer {
    bool done;
    struct mob_gcs_sync sync;
};

static struct mob_gcs_result *wait_result(
    struct fixture *f, enum mob_status submitted, struct mob_gcs_sync *sync, enum mob_status expected)
{
    assert_int_equal(submitted, MOB_OK);
    for (int64_t deadline = soon(); !sync->done; step(f))
        assert_true(mob_now() < deadline);
    assert_string_equal(
        mob_status_code(mob_gcs_result_answer(sync->result)->status), mob_status_code(expected));
    return sync->result;
}

/* What blocks [from, to) of the list leave unfinished, in one row a group. */
static uint32_t nets(const struct fixture *f, uint64_t from, uint64_t upto, struct mob_gcs_flush_group *out)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < f->count; i++) {
        const struct kept *k = &f->blocks[i];
        if (k->row.seq <= from || k->row.seq > upto)
            continue;
        for (uint32_t g = 0; g < k->zone->group_count; g++) {
            const struct mob_zone_group *z = &k->zone->groups[g];
            uint32_t at = 0;
            while (at < n && (out[at].group != z->group || !mob_stream_eq(out[at].stream, z->stream)))
                at++;
            if (at == n)
                out[n++] = (struct mob_gcs_flush_group){z->stream, z->group, 0};
            out[at].net += (int32_t)z->specs - (int32_t)z->finals;
        }
    }
    uint32_t kept = 0;
    for (uint32_t i = 0; i < n; i++)
        if (out[i].net != 0)
            out[kept++] = out[i];
    return kept;
}

/* Answers up to where blocks are gone. */
static uint64_t flush_from(struct fixture *f, uint64_t from, uint64_t upto)
{
    static struct mob_gcs_flush_group groups[MOB_GCS_FLUSH_GROUPS_MAX];
    struct mob_gcs_flush flush = {.from = from, .upto = upto, .groups = groups};
    flush.group_count = nets(f, from, upto, groups);
    struct mob_gcs_sync sync = {0};
    struct mob_gcs_result *r =
        wait_result(f, mob_gcs_flush(f->flusher, &flush, mob_gcs_sync_done, &sync), &sync, MOB_OK);
    uint64_t gone = mob_gcs_result_answer(r)->number;
    mob_gcs_result_destroy(r);
    return gone;
}

static void flush(struct fixture *f, uint32_t blocks)
{
    uint64_t upto = f->blocks[blocks - 1].row.seq;
    assert_int_equal(flush_from(f, f->flushed, upto), upto);
    f->flushed = upto;
}

static struct mob_gcs_stats stats_of(struct fixture *f)
{
    struct mob_gcs_sync sync = {0};
    struct mob_gcs_result *r = wait_result(f, mob_gcs_stats(f->gcs, mob_gcs_sync_done, &sync), &sync, MOB_OK);
    struct mob_gcs_stats stats = *mob_gcs_result_answer(r)->stats;
    mob_gcs_result_destroy(r);
    return stats;
}

/* ---- tests ---- */

static void some_blocks(struct fixture *f, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        append(f,
            (struct gcs_block_spec){.job = 1,
                .stream = (uint8_t)(i % 3),
                .first_index = i / 3 * 20,
                .tasks = 20,
                .specs = true,
                .finals = true,
                .function = 1});
    wait_appended(f);
}

/* Reads a scan page by page while the flusher moves on between pages. */
static void scan_while_flushing(struct fixture *f, bool down, uint32_t flush_each)
{
    struct mob_gcs_scan scan = {.newest_first = down, .limit = 4};
    uint32_t seen = 0, flushed = 0;
    while (flushed < f->count && f->blocks[flushed].row.seq <= f->flushed)
        flushed++;
    do {
        struct mob_gcs_sync sync = {0};
        struct mob_gcs_result *r =
            wait_result(f, mob_gcs_scan(f->gcs, &scan, mob_gcs_sync_done, &sync), &sync, MOB_OK);
        const struct mob_gcs_answer *a = mob_gcs_result_answer(r);
        for (uint32_t i = 0; i < a->block_count; i++, seen++) {
            assert_in_range(seen, 0, f->count - 1);
            const struct kept *k = &f->blocks[down ? f->count - 1 - seen : seen];
            assert_int_equal(a->blocks[i].seq, k->row.seq);
            assert_int_equal(a->blocks[i].length, k->row.length);
            assert_memory_equal(a->blocks[i].bytes, k->row.bytes, k->row.length);
        }
        scan.position = a->next;
        mob_gcs_result_destroy(r);
        if (flush_each > 0 && flushed + flush_each < f->count) {
            flushed += flush_each;
            flush(f, flushed);
        }
    } while (scan.position != 0);
    assert_int_equal(seen, f->count);
}

static void scans_go_through_what_is_here_and_what_was_flushed(void **state)
{
    (void)state;
    struct fixture *f = start(NULL, NULL);
    some_blocks(f, 60);
    scan_while_flushing(f, false, 0);
    assert_int_equal(f->cold_asked, 0); /* nothing was flushed */
    flush(f, 10);
    scan_while_flushing(f, false, 0);
    scan_while_flushing(f, true, 0);
    scan_while_flushing(f, false, 2);
    scan_while_flushing(f, true, 1);
    flush(f, 60);
    scan_while_flushing(f, false, 0);
    scan_while_flushing(f, true, 0);
    assert_int_equal(stats_of(f).blocks, 0);
    finish(f);
}

static uint32_t group_blocks(struct fixture *f, uint8_t stream, uint32_t group, bool here_only)
{
    uint32_t n = 0;
    uint64_t last = 0;
    for (uint64_t position = 0;;) {
        struct mob_gcs_sync sync = {0};
        struct mob_stream s = gcs_block_stream(1, stream);
        enum mob_status status = here_only
            ? mob_gcs_group_here(f->gcs, s, group, position, mob_gcs_sync_done, &sync)
            : mob_gcs_group_blocks(f->gcs, s, group, position, mob_gcs_sync_done, &sync);
        struct mob_gcs_result *r = wait_result(f, status, &sync, MOB_OK);
        const struct mob_gcs_answer *a = mob_gcs_result_answer(r);
        for (uint32_t i = 0; i < a->block_count; i++, n++) {
            assert_true(a->blocks[i].seq > last); /* oldest first, each once */
            last = a->blocks[i].seq;
        }
        position = a->next;
        mob_gcs_result_destroy(r);
        if (position == 0)
            return n;
    }
}

/* The blocks of these groups in one question, each once, oldest first; and that many of them are here. */
static uint32_t groups_blocks(struct fixture *f, const struct mob_gcs_group_key *groups, uint32_t count)
{
    uint32_t n = 0;
    uint64_t last = 0;
    for (uint64_t position = 0;;) {
        struct mob_gcs_sync sync = {0};
        struct mob_gcs_result *r = wait_result(f,
            mob_gcs_groups_blocks(f->gcs, groups, count, position, mob_gcs_sync_done, &sync), &sync, MOB_OK);
        const struct mob_gcs_answer *a = mob_gcs_result_answer(r);
        for (uint32_t i = 0; i < a->block_count; i++, n++) {
            assert_true(a->blocks[i].seq > last);
            last = a->blocks[i].seq;
        }
        position = a->next;
        mob_gcs_result_destroy(r);
        if (position == 0)
            return n;
    }
}

static void several_groups_come_in_one_question(void **state)
{
    (void)state;
    struct fixture *f = start(NULL, NULL);
    some_blocks(f, 60);
    struct mob_gcs_group_key groups[MOB_GCS_GROUPS_MAX] = {{gcs_block_stream(1, 0), 0},
        {gcs_block_stream(1, 0), 1}, {gcs_block_stream(1, 1), 0}, {gcs_block_stream(1, 1), 0}};
    uint32_t whole = group_blocks(f, 0, 0, false) + group_blocks(f, 1, 0, false);
    for (uint32_t i = 4; i < MOB_GCS_GROUPS_MAX; i++)
        groups[i] = (struct mob_gcs_group_key){gcs_block_stream(1, 0), 99 + i}; /* there are none */
    static const uint32_t cuts[] = {0, 1, 20, 37, 60};
    for (size_t i = 0; i < sizeof cuts / sizeof cuts[0]; i++) {
        if (cuts[i] > 0)
            flush(f, cuts[i]);
        /* stream 0: every block of it, since no group of it is left out */
        assert_int_equal(groups_blocks(f, groups, 2), 20);
        assert_in_range(groups_blocks(f, groups + 1, 2), 20, 33); /* one of either stream */
        assert_int_equal(groups_blocks(f, groups, 1) + groups_blocks(f, groups + 2, 2), whole);
        uint64_t asked = f->cold_asked;
        assert_int_equal(groups_blocks(f, groups, MOB_GCS_GROUPS_MAX), 20 + group_blocks(f, 1, 0, false));
        assert_in_range(f->cold_asked - asked, 0, 2u * (60 / COLD_PAGE + 1)); /* pages, not groups */
    }
    struct mob_gcs_sync none = {0};
    assert_int_equal(mob_gcs_groups_blocks(f->gcs, groups, 0, 0, mob_gcs_sync_done, &none), MOB_INVALID);
    assert_int_equal(
        mob_gcs_groups_blocks(f->gcs, groups, MOB_GCS_GROUPS_MAX + 1, 0, mob_gcs_sync_done, &none),
        MOB_INVALID);
    finish(f);
}

static void a_group_is_whole_wherever_its_blocks_are(void **state)
{
    (void)state;
    struct fixture *f = start(NULL, NULL);
    some_blocks(f, 60); /* 20 blocks of each stream, 13 to a group */
    uint32_t whole = group_blocks(f, 0, 0, false);
    assert_int_equal(whole, 13);
    static const uint32_t cuts[] = {1, 7, 20, 37, 38, 59, 60};
    for (size_t i = 0; i < sizeof cuts / sizeof cuts[0]; i++) {
        flush(f, cuts[i]);
        assert_int_equal(group_blocks(f, 0, 0, false), whole);
        uint32_t gone = (cuts[i] + 2) / 3;
        assert_int_equal(group_blocks(f, 0, 0, true), gone > whole ? 0 : whole - gone);
    }
    assert_int_equal(group_blocks(f, 0, 99, false), 0);
    finish(f);
}

/* A member asked for the unfinished: tasks of blocks, and groups. */
struct unfinished {
    uint32_t blocks, groups;
    struct mob_gcs_flush_group rows[64];
};

static struct unfinished unfinished_of(struct fixture *f)
{
    struct unfinished u = {0};
    for (uint64_t position = 0;;) {
        struct mob_gcs_sync sync = {0};
        struct mob_gcs_result *r =
            wait_result(f, mob_gcs_unfinished(f->gcs, 0, position, mob_gcs_sync_done, &sync), &sync, MOB_OK);
        const struct mob_gcs_answer *a = mob_gcs_result_answer(r);
        u.blocks += a->block_count;
        for (uint32_t i = 0; i < a->group_count && u.groups < 64; i++)
            u.rows[u.groups++] = a->groups[i];
        position = a->next;
        mob_gcs_result_destroy(r);
        if (position == 0)
            return u;
    }
}

static void restart_member(struct fixture *f)
{
    gcs_box_end(&f->box.gcs, SIGKILL);
    gcs_box_end(&f->box.redis, SIGKILL);
    gcs_box_spawn_redis(&f->box);
    gcs_box_spawn_gcs(&f->box);
    uint64_t flushed;
    int64_t deadline = soon();
    do {
        step(f);
        flushed = stats_of(f).flushed;
        assert_true(mob_now() < deadline);
    } while (flushed < f->flushed);
    assert_int_equal(flushed, f->flushed);
}

static void unfinished_tasks_of_flushed_blocks_are_known_after_a_restart(void **state)
{
    (void)state;
    struct fixture *f = start(NULL, NULL);
    struct gcs_block_spec specs = {.job = 1, .stream = 5, .tasks = 100, .specs = true, .function = 1};
    struct gcs_block_spec finals = {.job = 1, .stream = 5, .tasks = 60, .finals = true, .function = 1};
    append(f, specs);
    append(f, finals); /* 40 of 100 are left */
    wait_appended(f);
    flush(f, 2);
    for (int i = 0; i < 2; i++) {
        struct unfinished u = unfinished_of(f);
        assert_int_equal(u.blocks, 0);
        assert_int_equal(u.groups, 1);
        assert_int_equal(u.rows[0].net, 40);
        assert_int_equal(u.rows[0].group, 0);
        if (i == 0)
            restart_member(f);
    }
    /* Finished here, flushed there: not unfinished any more. */
    finals.first_index = 60;
    finals.tasks = 40;
    append(f, finals);
    wait_appended(f);
    assert_int_equal(unfinished_of(f).groups, 0);
    assert_int_equal(unfinished_of(f).blocks, 0);
    /* More siblings behind the end of the first ones: they are seen, though more of the group ended here than
     * began here. */
    specs.first_index = 100;
    specs.tasks = 10;
    append(f, specs);
    wait_appended(f);
    restart_member(f);
    struct unfinished u = unfinished_of(f);
    assert_int_equal(u.blocks, 2); /* all blocks of the group that are here */
    flush(f, 4);
    restart_member(f);
    u = unfinished_of(f);
    assert_int_equal(u.blocks, 0);
    assert_int_equal(u.groups, 1);
    assert_int_equal(u.rows[0].net, 10);
    finish(f);
}

static void a_flusher_that_was_overtaken_changes_nothing(void **state)
{
    (void)state;
    struct fixture *f = start(NULL, NULL);
    some_blocks(f, 12);
    uint64_t six = f->blocks[5].row.seq, nine = f->blocks[8].row.seq;
    flush(f, 6);
    assert_int_equal(flush_from(f, 0, nine), six); /* it believes that nothing was flushed */
    assert_int_equal(flush_from(f, nine, nine + 1), six); /* ... or more than was */
    struct mob_gcs_stats s = stats_of(f);
    assert_int_equal(s.flushed, six);
    assert_int_equal(s.blocks, 6);
    flush(f, 9);
    assert_int_equal(flush_from(f, f->flushed, 1), f->flushed); /* never back */
    struct mob_gcs_flush above = {.from = f->flushed, .upto = 1u << 30};
    struct mob_gcs_sync sync = {0};
    mob_gcs_result_destroy(
        wait_result(f, mob_gcs_flush(f->flusher, &above, mob_gcs_sync_done, &sync), &sync, MOB_INVALID));
    assert_int_equal(stats_of(f).flushed, nine);
    finish(f);
}

static void memory_and_file_are_given_back(void **state)
{
    (void)state;
    struct fixture *f = start("--gcs-rewrite-bytes", "1000000");
    for (int round = 0; round < 12; round++) {
        for (int i = 0; i < 40; i++)
            append(f,
                (struct gcs_block_spec){.job = 1,
                    .first_index = (uint32_t)(round * 40 + i) * 50,
                    .tasks = 50,
                    .specs = true,
                    .finals = true,
                    .function = 1,
                    .argument_bytes = 500});
        wait_appended(f);
    }
    struct mob_gcs_stats full = stats_of(f), empty;
    assert_true(full.block_bytes > 5000000);
    flush(f, f->count);
    int64_t deadline = soon();
    do { /* Redis frees in the background; the file is rewritten once in a while */
        step(f);
        empty = stats_of(f);
        assert_true(mob_now() < deadline);
    } while (empty.redis_bytes > 4000000 || empty.aof_bytes > 3000000);
    assert_int_equal(empty.blocks, 0);
    assert_int_equal(empty.block_bytes, 0);
    assert_int_equal(empty.flushed_blocks, f->count);
    assert_int_equal(empty.groups, 0);
    finish(f);
}

static uint64_t hole_after, hole_next;
static uint32_t late_blocks;
static void on_late_block(void *arg, const struct mob_gcs_block_row *row)
{
    struct fixture *f = arg;
    assert_int_equal(row->seq, f->blocks[40 + late_blocks].row.seq);
    late_blocks++;
}
static void on_hole(void *arg, uint64_t after, uint64_t next)
{
    (void)arg;
    assert_int_equal(hole_next, 0); /* one hole */
    hole_after = after;
    hole_next = next;
}

static void a_subscriber_that_is_behind_is_told_of_the_hole(void **state)
{
    (void)state;
    struct fixture *f = start(NULL, NULL);
    some_blocks(f, 60);
    flush(f, 40);
    struct mob_gcs_sub_events events = {on_late_block, on_hole, f};
    struct mob_gcs_sub *late;
    assert_int_equal(mob_gcs_subscribe(f->gcs, f->blocks[9].row.seq, &events, &late), MOB_OK);
    for (int64_t deadline = soon(); late_blocks < 20; step(f))
        assert_true(mob_now() < deadline);
    assert_int_equal(hole_after, f->blocks[9].row.seq);
    assert_int_equal(hole_next, f->flushed + 1);
    finish(f);
}

static void reads_wait_for_a_reader_and_not_for_ever(void **state)
{
    (void)state;
    struct fixture *f = start("--gcs-cold-wait-ms", "3000");
    some_blocks(f, 12);
    flush(f, 6);
    f->mute = true;
    struct mob_gcs_scan scan = {0};
    struct mob_gcs_sync first = {0}, later_ones[6] = {{0}}; /* more than may be under way */
    assert_int_equal(mob_gcs_scan(f->gcs, &scan, mob_gcs_sync_done, &first), MOB_OK);
    for (int64_t deadline = soon(); f->cold_asked == 0; step(f))
        assert_true(mob_now() < deadline);
    /* The reader dies with the question, and its successor gets it. */
    mob_gcs_destroy(f->flusher);
    f->flusher = NULL;
    int64_t later = mob_now() + 300 * MOB_MS;
    while (mob_now() < later)
        step(f);
    assert_false(first.done);
    f->mute = false;
    start_flusher(f);
    struct mob_gcs_result *r = wait_result(f, MOB_OK, &first, MOB_OK);
    assert_int_equal(mob_gcs_result_answer(r)->block_count, 3); /* a page of the reader's */
    mob_gcs_result_destroy(r);
    f->mute = true;
    int64_t asked_ns = mob_now();
    for (int i = 0; i < 6; i++)
        assert_int_equal(mob_gcs_scan(f->gcs, &scan, mob_gcs_sync_done, &later_ones[i]), MOB_OK);
    for (int i = 0; i < 6; i++)
        mob_gcs_result_destroy(wait_result(f, MOB_OK, &later_ones[i], MOB_UNAVAILABLE));
    assert_in_range(mob_now() - asked_ns, 2900 * MOB_MS, 8 * MOB_SEC);
    assert_int_equal(group_blocks(f, 0, 0, true), 2); /* what is here does not wait */
    finish(f);
}

/* ---- many who ask ---- */

static void step_both(struct fixture *f, struct mob_gcs *other)
{
    step(f);
    mob_gcs_step(other, mob_now());
}

/* All that `client` asked before was taken in by the member, and all that the member asked by then has come
 * to its reader. */
static void settle(struct fixture *f, struct mob_gcs *client)
{
    struct mob_gcs *const in_turn[] = {client, f->flusher};
    for (int i = 0; i < 2; i++) {
        struct mob_gcs_sync sync = {0};
        assert_int_equal(mob_gcs_stats(in_turn[i], mob_gcs_sync_done, &sync), MOB_OK);
        for (int64_t deadline = soon(); !sync.done; step_both(f, client))
            assert_true(mob_now() < deadline);
        mob_gcs_result_destroy(sync.result);
    }
}

/* Questions for groups of a stream that says whose they are. */
static void ask_groups(
    struct fixture *f, struct mob_gcs *client, uint8_t stream, uint32_t count, struct mob_gcs_sync *syncs)
{
    for (uint32_t i = 0; i < count; i++)
        assert_int_equal(
            mob_gcs_group_blocks(client, gcs_block_stream(1, stream), i, 0, mob_gcs_sync_done, &syncs[i]),
            MOB_OK);
    settle(f, client);
}

static bool is_of(const struct mob_gcs_cold_get *q, uint8_t stream)
{
    return mob_stream_eq(q->get.stream, gcs_block_stream(1, stream));
}

static void answer_empty(struct fixture *f, uint32_t asked)
{
    struct mob_gcs_cold_answer answer = {.tag = f->asked[asked].get.tag};
    assert_int_equal(mob_gcs_cold_answer(f->flusher, &answer), MOB_OK);
}

static void until_asked(struct fixture *f, struct mob_gcs *client, uint32_t count)
{
    for (int64_t deadline = soon(); f->asked_count < count; step_both(f, client))
        assert_true(mob_now() < deadline);
}

static void answers_under_way_are_bounded_and_clients_take_turns(void **state)
{
    (void)state;
    enum { MANY = 30, UNDER_WAY = 4, OF_MANY = 1, OF_ONE = 2 };
    struct fixture *f = start("--gcs-cold-wait-ms", "600000");
    some_blocks(f, 12);
    flush(f, 12);
    f->mute = true;
    struct mob_gcs *many = gcs_box_client(&f->box), *one = gcs_box_client(&f->box);
    static struct mob_gcs_sync of_many[MANY], of_one[UNDER_WAY + 1];
    memset(of_many, 0, sizeof of_many);
    memset(of_one, 0, sizeof of_one);
    ask_groups(f, many, OF_MANY, MANY, of_many);
    assert_int_equal(f->asked_count, UNDER_WAY);
    ask_groups(f, one, OF_ONE, 1, of_one);
    assert_int_equal(f->asked_count, UNDER_WAY);
    answer_empty(f, 0);
    settle(f, many);
    settle(f, one);
    assert_int_equal(f->asked_count, UNDER_WAY + 1);
    assert_true(is_of(&f->asked[UNDER_WAY], OF_ONE)); /* though 26 were there before it */
    /* The oldest of those of one client go first. */
    answer_empty(f, 1);
    settle(f, many);
    assert_int_equal(f->asked_count, UNDER_WAY + 2);
    assert_true(is_of(&f->asked[UNDER_WAY + 1], OF_MANY));
    for (uint32_t i = 0; i < UNDER_WAY + 2; i++)
        if (i != UNDER_WAY)
            assert_int_equal(f->asked[i].get.group, i < UNDER_WAY ? i : i - 1);
    /* Who goes leaves its three places, and what it still waited for. */
    mob_gcs_destroy(many);
    for (uint32_t i = 0; i < MANY; i++)
        mob_gcs_result_destroy(of_many[i].result);
    ask_groups(f, one, OF_ONE, UNDER_WAY, of_one + 1);
    until_asked(f, one, UNDER_WAY + 2 + 3);
    settle(f, one);
    assert_int_equal(f->asked_count, UNDER_WAY + 2 + 3);
    answer_empty(f, UNDER_WAY);
    until_asked(f, one, UNDER_WAY + 2 + UNDER_WAY);
    for (uint32_t i = UNDER_WAY + 2; i < f->asked_count; i++) {
        assert_true(is_of(&f->asked[i], OF_ONE));
        answer_empty(f, i);
    }
    for (uint32_t i = 0; i <= UNDER_WAY; i++) {
        for (int64_t deadline = soon(); !of_one[i].done; step_both(f, one))
            assert_true(mob_now() < deadline);
        assert_int_equal(mob_gcs_result_answer(of_one[i].result)->status, MOB_OK);
        mob_gcs_result_destroy(of_one[i].result);
    }
    assert_int_equal(f->asked_count, UNDER_WAY + 2 + UNDER_WAY); /* no other one was asked any more */
    mob_gcs_destroy(one);
    finish(f);
}

/* Many flushes, so that notes become sums, with kills in between: what is open is what the blocks say. */
static void open_groups_are_right_after_any_kills(void **state)
{
    (void)state;
    struct fixture *f = start(NULL, NULL);
    enum { STREAMS = 6 };
    uint32_t begun[STREAMS] = {0}, ended[STREAMS] = {0};
    uint64_t rng = 12345;
    for (uint32_t round = 0; round < 200; round++) {
        rng = rng * 6364136223846793005ull + 1442695040888963407ull;
        uint8_t stream = (uint8_t)((rng >> 33) % STREAMS);
        uint32_t tasks = 1 + (uint32_t)(rng >> 40) % 9;
        struct gcs_block_spec spec = {.job = 1,
            .stream = stream,
            .first_index = begun[stream],
            .tasks = tasks,
            .specs = true,
            .function = 1};
        if (begun[stream] + tasks > 250 || ((rng >> 50 & 1) != 0 && begun[stream] > ended[stream])) {
            spec.specs = false;
            spec.finals = true;
            spec.first_index = ended[stream];
            uint32_t left = begun[stream] - ended[stream];
            spec.tasks = tasks < left ? tasks : left;
            if (spec.tasks == 0)
                continue;
            ended[stream] += spec.tasks;
        } else {
            begun[stream] += tasks;
        }
        append(f, spec);
        wait_appended(f);
        flush(f, f->count);
        if (round % 40 == 39) {
            gcs_box_end(&f->box.redis, SIGKILL);
            gcs_box_spawn_redis(&f->box);
        }
        if (round % 67 == 66)
            restart_member(f);
    }
    restart_member(f);
    struct unfinished u = unfinished_of(f);
    uint32_t open = 0;
    for (uint32_t s = 0; s < STREAMS; s++) {
        struct mob_stream stream = gcs_block_stream(1, (uint8_t)s);
        int32_t net = 0;
        for (uint32_t i = 0; i < u.groups; i++)
            if (mob_stream_eq(u.rows[i].stream, stream))
                net += u.rows[i].net;
        assert_int_equal(net, begun[s] - ended[s]);
        open += net > 0;
    }
    assert_int_equal(u.groups, open);
    assert_int_equal(u.blocks, 0);
    finish(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scans_go_through_what_is_here_and_what_was_flushed),
        cmocka_unit_test(a_group_is_whole_wherever_its_blocks_are),
        cmocka_unit_test(several_groups_come_in_one_question),
        cmocka_unit_test(unfinished_tasks_of_flushed_blocks_are_known_after_a_restart),
        cmocka_unit_test(a_flusher_that_was_overtaken_changes_nothing),
        cmocka_unit_test(memory_and_file_are_given_back),
        cmocka_unit_test(a_subscriber_that_is_behind_is_told_of_the_hole),
        cmocka_unit_test(reads_wait_for_a_reader_and_not_for_ever),
        cmocka_unit_test(answers_under_way_are_bounded_and_clients_take_turns),
        cmocka_unit_test(open_groups_are_right_after_any_kills),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
