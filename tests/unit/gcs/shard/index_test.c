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
        uint32_t ordinal = mob_index_of_log(ix, plain[i].incarnation, plain[i].number);
        assert_int_equal(ordinal == MOB_INDEX_NONE, plain[i].dropped);
        if (plain[i].dropped)
            continue;
        assert_int_equal(mob_index_slot(ix, ordinal)->seq, plain[i].seq);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_put_in_is_found),
        cmocka_unit_test(what_is_dropped_is_gone_before_and_after_the_sweep),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
