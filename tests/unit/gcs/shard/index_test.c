/* The member's index against a plain list of what was put in. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "gcs/shard/index.h"

#define BLOCKS 5000u
#define GROUPS 300u

static uint64_t rng = 99;
static uint32_t random_below(uint32_t n)
{
    rng = rng * 6364136223846793005ull + 1442695040888963407ull;
    return (uint32_t)(rng >> 33) % n;
}

struct plain {
    uint64_t seq, incarnation, number;
    uint8_t job;
    uint32_t group[4], groups;
    uint16_t specs[4], finals[4];
    bool dropped;
};
static struct plain plain[BLOCKS];

static struct mob_stream stream_of(uint32_t group)
{
    return (struct mob_stream){{(uint8_t)group, (uint8_t)(group >> 8), 's'}};
}

static void fill(struct mob_index *ix)
{
    uint64_t seq = 0, numbers[4] = {0};
    static struct mob_zone_map zone;
    for (uint32_t i = 0; i < BLOCKS; i++) {
        struct plain *p = &plain[i];
        seq += 1 + random_below(3);
        uint32_t incarnation = 1 + random_below(3);
        *p = (struct plain){.seq = seq,
            .incarnation = incarnation,
            .number = numbers[incarnation]++,
            .job = (uint8_t)random_below(5),
            .groups = 1 + random_below(4)};
        struct mob_block_header header = {.incarnation = p->incarnation,
            .sequence = p->number,
            .job = {{{p->job, 'j'}}},
            .wall_ns = 1000 * i};
        memset(&zone, 0, sizeof zone);
        zone.group_count = p->groups;
        for (uint32_t g = 0; g < p->groups; g++) {
            p->group[g] = (random_below(GROUPS) & ~3u) | g; /* once in a block */
            p->specs[g] = (uint16_t)random_below(4);
            p->finals[g] = (uint16_t)random_below(4);
            zone.groups[g] = (struct mob_zone_group){
                .stream = stream_of(p->group[g]), .group = 5, .specs = p->specs[g], .finals = p->finals[g]};
        }
        mob_index_add(ix, p->seq, 100 + i, &header, &zone);
    }
}

static bool has_group(const struct plain *p, uint32_t group)
{
    for (uint32_t g = 0; g < p->groups; g++)
        if (p->group[g] == group)
            return true;
    return false;
}

static void check_groups(const struct mob_index *ix)
{
    static uint32_t ordinals[BLOCKS];
    for (uint32_t group = 0; group < GROUPS; group++) {
        size_t n = mob_index_group(ix, stream_of(group), 5, MOB_INDEX_NONE, ordinals, BLOCKS), at = 0;
        for (uint32_t i = 0; i < BLOCKS; i++)
            if (!plain[i].dropped && has_group(&plain[i], group)) {
                assert_true(at < n);
                assert_int_equal(mob_index_slot(ix, ordinals[at++])->seq, plain[i].seq);
            }
        assert_int_equal(at, n);
        assert_int_equal(mob_index_group(ix, stream_of(group), 6, MOB_INDEX_NONE, ordinals, BLOCKS), 0);
    }
}

static void check_logs_jobs_and_seqs(const struct mob_index *ix)
{
    uint32_t per_job[5] = {0};
    for (uint32_t i = 0; i < BLOCKS; i++) {
        uint32_t ordinal = mob_index_log_next(ix, plain[i].incarnation, plain[i].number);
        bool there = ordinal != MOB_INDEX_NONE && mob_index_slot(ix, ordinal)->seq == plain[i].seq;
        assert_int_equal(there, !plain[i].dropped);
        if (plain[i].dropped)
            continue;
        assert_int_equal(mob_index_slot(ix, mob_index_after(ix, plain[i].seq - 1))->seq, plain[i].seq);
        per_job[plain[i].job]++;
    }
    for (uint8_t job = 0; job < 5; job++) {
        uint32_t n = 0;
        for (uint32_t at = mob_index_job_newest(ix, (struct mob_job_id){{{job, 'j'}}}); at != MOB_INDEX_NONE;
             n++)
            at = mob_index_slot(ix, at)->job_older;
        assert_int_equal(n, per_job[job]);
    }
}

static void check_unfinished(const struct mob_index *ix, uint64_t incarnation)
{
    static bool expected[BLOCKS];
    memset(expected, 0, sizeof expected);
    for (uint32_t group = 0; group < GROUPS; group++) {
        int specs = 0, finals = 0;
        bool touched = false;
        for (uint32_t i = 0; i < BLOCKS; i++)
            for (uint32_t g = 0; g < plain[i].groups && !plain[i].dropped; g++)
                if (plain[i].group[g] == group) {
                    specs += plain[i].specs[g];
                    finals += plain[i].finals[g];
                    touched = touched || plain[i].incarnation == incarnation;
                }
        for (uint32_t i = 0; i < BLOCKS; i++)
            if (touched && specs > finals && !plain[i].dropped && has_group(&plain[i], group))
                expected[i] = true;
    }
    size_t n, at = 0;
    uint32_t *found = mob_index_unfinished(ix, incarnation, &n);
    for (uint32_t i = 0; i < BLOCKS; i++)
        if (expected[i]) {
            assert_true(at < n);
            assert_int_equal(mob_index_slot(ix, found[at++])->seq, plain[i].seq);
        }
    assert_int_equal(at, n);
    free(found);
}

static void what_is_put_in_is_found(void **state)
{
    (void)state;
    struct mob_index *ix = mob_index_create();
    fill(ix);
    check_groups(ix);
    check_logs_jobs_and_seqs(ix);
    for (uint64_t incarnation = 1; incarnation <= 3; incarnation++)
        check_unfinished(ix, incarnation);
    struct mob_index_figures f;
    mob_index_figures(ix, &f);
    assert_int_equal(f.blocks, BLOCKS);
    print_message("%.1f bytes of index a block\n", (double)f.heap_bytes / BLOCKS);
    mob_index_destroy(ix);
}

static void what_is_dropped_is_gone_before_and_after_the_sweep(void **state)
{
    (void)state;
    struct mob_index *ix = mob_index_create();
    fill(ix);
    for (uint32_t i = 0; i < BLOCKS; i++)
        if (plain[i].job == 2 || i < 2500) {
            plain[i].dropped = true;
            assert_true(mob_index_drop(ix, plain[i].seq));
            assert_false(mob_index_drop(ix, plain[i].seq));
        }
    assert_false(mob_index_drop(ix, 0));
    check_groups(ix);
    mob_index_sweep(ix);
    check_groups(ix);
    check_logs_jobs_and_seqs(ix);
    struct mob_index_figures before, after;
    mob_index_figures(ix, &before);
    for (uint32_t i = 0; i < BLOCKS; i++)
        plain[i].dropped = plain[i].dropped || mob_index_drop(ix, plain[i].seq);
    mob_index_sweep(ix);
    check_groups(ix);
    mob_index_figures(ix, &after);
    assert_int_equal(after.blocks, 0);
    assert_int_equal(after.block_bytes, 0);
    assert_int_equal(after.groups, 0);
    assert_true(after.heap_bytes < before.heap_bytes);
    mob_index_destroy(ix);
}

static struct mob_gcs_flush_group net_of(uint32_t group, uint32_t from, uint32_t to)
{
    struct mob_gcs_flush_group row = {.stream = stream_of(group), .group = 5};
    for (uint32_t i = from; i < to; i++)
        for (uint32_t g = 0; g < plain[i].groups; g++)
            if (plain[i].group[g] == group)
                row.net += plain[i].specs[g] - plain[i].finals[g];
    return row;
}

/* Groups that the first `flushed` blocks leave unbalanced, of those that are open in all; checked against
 * what the index says. */
static void check_cold(const struct mob_index *ix, uint32_t flushed)
{
    size_t all, open, want_all = 0, want_open = 0;
    struct mob_gcs_flush_group *rows = mob_index_cold_groups(ix, false, &all),
                               *open_rows = mob_index_cold_groups(ix, true, &open);
    for (uint32_t group = 0; group < GROUPS; group++) {
        int32_t cold = net_of(group, 0, flushed).net, total = net_of(group, 0, BLOCKS).net;
        want_all += cold != 0;
        want_open += cold > 0 && total > 0;
        for (size_t i = 0; i < all; i++)
            if (mob_stream_eq(rows[i].stream, stream_of(group)))
                assert_int_equal(rows[i].net, cold);
    }
    assert_int_equal(all, want_all);
    assert_int_equal(open, want_open);
    free(rows);
    free(open_rows);
}

/* Blocks leave in the order in which they came; what they leave open stays, over a sweep and a restart. */
static void flushed_blocks_go_and_what_they_leave_open_stays(void **state)
{
    (void)state;
    struct mob_index *ix = mob_index_create();
    fill(ix);
    for (uint32_t from = 0, to; from < BLOCKS; from = to) {
        to = from + 500;
        for (uint32_t group = 0; group < GROUPS; group++) {
            struct mob_gcs_flush_group row = net_of(group, from, to);
            if (row.net != 0)
                mob_index_flush_group(ix, &row);
        }
        assert_int_equal(mob_index_flush(ix, plain[to - 1].seq), to - from);
        assert_int_equal(mob_index_flush(ix, plain[to - 1].seq), 0);
        for (uint32_t i = from; i < to; i++)
            plain[i].dropped = true;
        check_groups(ix);
        if (to % 1500 == 0) {
            mob_index_sweep(ix);
            check_groups(ix);
            check_logs_jobs_and_seqs(ix);
        }
        check_cold(ix, to);
    }
    mob_index_sweep(ix);
    check_cold(ix, BLOCKS);
    struct mob_index_figures f;
    mob_index_figures(ix, &f);
    assert_int_equal(f.blocks, 0);
    assert_int_equal(f.groups, f.cold_groups);
    struct mob_index *loaded = mob_index_create();
    size_t n;
    struct mob_gcs_flush_group *rows = mob_index_cold_groups(ix, false, &n);
    for (size_t i = 0; i < n; i++)
        mob_index_load_group(loaded, &rows[i]);
    check_cold(loaded, BLOCKS);
    free(rows);
    mob_index_destroy(loaded);
    mob_index_destroy(ix);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_put_in_is_found),
        cmocka_unit_test(what_is_dropped_is_gone_before_and_after_the_sweep),
        cmocka_unit_test(flushed_blocks_go_and_what_they_leave_open_stays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
