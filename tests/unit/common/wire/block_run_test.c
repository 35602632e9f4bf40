/* Runs of specs and completions give the bytes that the same entries give one by one, and stop where those
 * do. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "common/wire/block.h"
#include "tests/support/wire_samples.h"

enum { RUN_MAX = 40, SEEDS = 200, STEPS = 120 };

struct fixture {
    struct mob_block_encoder *runs, *singly;
    struct sample_entry sample;
    struct sample_world world;
    struct mob_spec_head head;
    struct mob_completion_head last; /* of the runs of completions: task, worker, times */
    struct mob_sibling_word siblings[RUN_MAX];
    struct mob_completion_word words[RUN_MAX];
    struct mob_queue_times times[RUN_MAX];
    uint32_t refused, cut; /* runs of which none fitted; of which some did */
    uint64_t seed;
    uint8_t blocks[2][MOB_BLOCK_BYTES_MAX];
};

static int set_up(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    f->runs = mob_block_encoder_create();
    f->singly = mob_block_encoder_create();
    *state = f;
    return f->runs && f->singly ? 0 : -1;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    mob_block_encoder_destroy(f->runs);
    mob_block_encoder_destroy(f->singly);
    free(f);
    return 0;
}

static void begin_blocks(struct fixture *f)
{
    struct mob_block_header header = {
        .version = MOB_BLOCK_VERSION, .incarnation = 7, .sequence = f->seed, .ns = "default"};
    header.wall_ns = 1700000000000000000;
    header.mono_ns = f->world.now;
    mob_block_begin(f->runs, &header);
    mob_block_begin(f->singly, &header);
}

static void end_blocks(struct fixture *f)
{
    assert_int_equal(mob_block_entries(f->runs), mob_block_entries(f->singly));
    uint32_t bytes = mob_block_end(f->runs, f->blocks[0]), other = mob_block_end(f->singly, f->blocks[1]);
    if (bytes != other)
        fail_msg("seed %lu: %u bytes by runs, %u singly", (unsigned long)f->seed, bytes, other);
    for (uint32_t i = 0; i < bytes; i++)
        if (f->blocks[0][i] != f->blocks[1][i])
            fail_msg("seed %lu: byte %u of %u is %u by runs, %u singly", (unsigned long)f->seed, i, bytes,
                f->blocks[0][i], f->blocks[1][i]);
    begin_blocks(f);
}

/* `added` of `count` by a run, `singly` one by one: the same, and what did not fit is for the next block. */
static void compare_added(struct fixture *f, uint32_t added, uint32_t singly, uint32_t count)
{
    if (added != singly)
        fail_msg("seed %lu: %u of %u by a run, %u singly", (unsigned long)f->seed, added, count, singly);
    f->refused += added == 0;
    f->cut += added > 0 && added < count;
    if (added < count)
        end_blocks(f);
}

/* Mostly a step of one, sometimes anywhere. */
static uint32_t next_number(struct sample_rng *r, uint32_t before)
{
    if (!sample_one_in(r, 30))
        return before + 1;
    return sample_one_in(r, 2) ? before + sample_below(r, 600) : (uint32_t)sample_u64(r);
}

static int64_t next_time(struct sample_world *w)
{
    if (sample_one_in(&w->rng, 60))
        return sample_one_in(&w->rng, 2) ? 0 : (int64_t)sample_u64(&w->rng);
    return w->now += sample_below(&w->rng, sample_one_in(&w->rng, 20) ? 100000000 : 300);
}

static void make_siblings(struct fixture *f, uint32_t count)
{
    struct sample_rng *r = &f->world.rng;
    if (sample_one_in(r, 4)) {
        sample_spec(&f->world, &f->sample);
        f->head = f->sample.entry.spec.head;
    }
    uint32_t index = f->head.task.index, seq = f->head.caller_seq, step = sample_below(r, 2);
    uint64_t value = sample_number(r);
    for (uint32_t i = 0; i < count; i++) {
        struct mob_sibling_word *s = &f->siblings[i];
        index = next_number(r, index);
        seq = sample_one_in(r, 40) ? (uint32_t)sample_u64(r) : seq + step;
        value = sample_one_in(r, 10) ? sample_number(r) : value + 7;
        s->index = index;
        s->caller_seq = seq;
        s->submitted_ns = next_time(&f->world);
        mob_spec_word_tail(sample_one_in(r, 30) ? MOB_TYPE_F64 : MOB_TYPE_I64, value, s->tail);
    }
    f->head.task.index = index;
    f->head.caller_seq = seq;
}

static uint32_t add_siblings_singly(struct fixture *f, uint32_t count)
{
    struct mob_spec_head head = f->head;
    for (uint32_t i = 0; i < count; i++) {
        const struct mob_sibling_word *s = &f->siblings[i];
        head.task.index = s->index;
        head.caller_seq = s->caller_seq;
        enum mob_status status =
            mob_block_add_spec(f->singly, &head, (const uint8_t *)s->tail, sizeof s->tail, s->submitted_ns);
        if (status == MOB_QUEUE_FULL)
            return i;
        assert_int_equal(status, MOB_OK);
    }
    return count;
}

static void add_siblings(struct fixture *f, uint32_t count)
{
    make_siblings(f, count);
    uint32_t singly = add_siblings_singly(f, count);
    compare_added(f, mob_block_add_specs(f->runs, &f->head, f->siblings, count), singly, count);
}

static void make_times(struct fixture *f, struct mob_completion_word *word, struct mob_queue_times *times)
{
    struct sample_rng *r = &f->world.rng;
    times->submitted_ns = next_time(&f->world);
    if (times->submitted_ns > INT64_MIN / 2 && sample_one_in(r, 5))
        times->submitted_ns -= 5000000;
    if (!sample_one_in(r, 3)) {
        times->ready_us = sample_below(r, sample_one_in(r, 4) ? 100000 : 4);
        times->dispatched_us = times->ready_us + sample_below(r, sample_one_in(r, 4) ? 100000 : 4);
    }
    if (sample_one_in(r, 40))
        times->ready_us = sample_one_in(r, 2) ? UINT32_MAX : (uint32_t)sample_u64(r);
    if (sample_one_in(r, 40))
        times->dispatched_us = (uint32_t)sample_number(r);
    word->started_ns = sample_one_in(r, 3) ? (int64_t)((uint64_t)word->finished_ns + sample_below(r, 1000))
                                           : word->finished_ns;
    if (sample_one_in(r, 60))
        word->started_ns = 0;
    word->finished_ns =
        (int64_t)((uint64_t)word->started_ns + sample_below(r, sample_one_in(r, 10) ? 1000000000 : 500));
    if (sample_one_in(r, 60))
        word->finished_ns = next_time(&f->world);
    word->cpu_ns = sample_one_in(r, 4) ? 0
        : sample_one_in(r, 2)          ? (int64_t)sample_number(r)
                                       : (int64_t)((uint64_t)word->finished_ns - (uint64_t)word->started_ns);
}

static void make_ends(struct fixture *f, uint32_t count)
{
    struct sample_rng *r = &f->world.rng;
    struct mob_completion_head *last = &f->last;
    if (sample_one_in(r, 4)) {
        sample_completion(&f->world, &f->sample);
        *last = f->sample.entry.completion.head;
    }
    struct mob_completion_word word = {
        .task = last->task, .generation = last->generation, .finished_ns = last->finished_ns};
    struct mob_queue_times times = {.submitted_ns = 1};
    for (uint32_t i = 0; i < count; i++) {
        word.task.index = next_number(r, word.task.index);
        if (sample_one_in(r, 80))
            word.task.stream.b[sample_below(r, sizeof word.task.stream)] ^= 1;
        word.generation = sample_one_in(r, 80) ? sample_below(r, 3) : word.generation;
        word.type = sample_one_in(r, 30) ? MOB_TYPE_F64 : MOB_TYPE_I64;
        word.value = sample_one_in(r, 10) ? sample_number(r) : word.value + 7;
        make_times(f, &word, &times);
        f->words[i] = word;
        f->times[i] = times;
    }
    last->task = word.task;
    last->generation = word.generation;
    last->finished_ns = word.finished_ns;
}

static uint32_t add_ends_singly(struct fixture *f, uint32_t worker, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        struct mob_return_word body;
        struct mob_completion c = mob_completion_of_word(&f->words[i], &body);
        const struct mob_queue_times *t = &f->times[i];
        c.head.worker = worker;
        c.head.submitted_ns = t->submitted_ns;
        uint64_t submitted = (uint64_t)t->submitted_ns;
        c.head.ready_ns = t->ready_us == UINT32_MAX ? 0 : (int64_t)(submitted + t->ready_us * 1000ull);
        c.head.dispatched_ns = (int64_t)(submitted + t->dispatched_us * 1000ull);
        enum mob_status status = mob_block_add_completion(f->singly, &c.head, c.body);
        if (status == MOB_QUEUE_FULL)
            return i;
        assert_int_equal(status, MOB_OK);
    }
    return count;
}

static void add_ends(struct fixture *f, uint32_t count)
{
    make_ends(f, count);
    uint32_t worker = f->last.worker, singly = add_ends_singly(f, worker, count);
    compare_added(f, mob_block_add_completions(f->runs, worker, f->words, f->times, count), singly, count);
}

static void add_another(struct fixture *f)
{
    sample_any(&f->world, &f->sample);
    enum mob_status status = sample_add(f->runs, &f->sample);
    assert_int_equal(sample_add(f->singly, &f->sample), status);
    if (status == MOB_QUEUE_FULL)
        end_blocks(f);
    else
        assert_int_equal(status, MOB_OK);
}

/* Calls of an actor whose positions come down to 0 by steps of their own, as nothing else would: behind them
 * a plain completion is what its worker's context foretells. */
static void add_calls_downwards(struct fixture *f)
{
    struct mob_return_word body;
    struct mob_completion c = mob_completion_of_word(&f->words[0], &body);
    c.head.worker = f->last.worker;
    for (uint64_t position = 4; position > 0; position /= 2) {
        c.head.position = position;
        enum mob_status status = mob_block_add_completion(f->runs, &c.head, c.body);
        assert_int_equal(mob_block_add_completion(f->singly, &c.head, c.body), status);
        if (status == MOB_QUEUE_FULL)
            end_blocks(f);
        c.head.task.index++;
    }
    f->last.task = c.head.task;
    f->last.generation = c.head.generation;
}

/* Nearly nothing else fits behind it. */
static void fill_with_bytes(struct fixture *f)
{
    static uint8_t content[MOB_PUT_INLINE_MAX];
    struct mob_out_put put = {.type = MOB_TYPE_BYTES};
    uint32_t left = sample_below(&f->world.rng, 4000), used = mob_block_bytes(f->runs);
    while (used + left + 1000 < MOB_BLOCK_BYTES_MAX) {
        uint32_t bytes = MOB_BLOCK_BYTES_MAX - used - left;
        bytes = bytes < sizeof content ? bytes : (uint32_t)sizeof content;
        put.size = put.inline_bytes = bytes;
        enum mob_status status = mob_block_add_put(f->runs, &put, content);
        assert_int_equal(mob_block_add_put(f->singly, &put, content), status);
        if (status != MOB_OK)
            return;
        used = mob_block_bytes(f->runs);
    }
}

static void runs_give_the_bytes_of_single_entries(void **state)
{
    struct fixture *f = *state;
    for (f->seed = 1; f->seed <= SEEDS; f->seed++) {
        sample_world_init(&f->world, f->seed);
        f->world.now &= INT64_MAX >> 8;
        f->head = f->world.spec;
        f->last = f->world.completion;
        begin_blocks(f);
        for (uint32_t step = 0; step < STEPS; step++) {
            uint32_t count = 1 + sample_below(&f->world.rng, RUN_MAX);
            if (sample_one_in(&f->world.rng, 40))
                fill_with_bytes(f);
            else if (sample_one_in(&f->world.rng, 20))
                add_calls_downwards(f);
            else if (sample_one_in(&f->world.rng, 6))
                add_another(f);
            else if (sample_one_in(&f->world.rng, 2))
                add_siblings(f, count);
            else
                add_ends(f, count);
        }
        end_blocks(f);
    }
    if (f->refused < 20 || f->cut < 200)
        fail_msg("%u runs were refused, %u cut: full blocks are not tested", f->refused, f->cut);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(runs_give_the_bytes_of_single_entries)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
