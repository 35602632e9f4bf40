/* Lineage blocks: what goes in comes out, and damage is noticed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "common/wire/block.h"
#include "tests/support/wire_samples.h"

struct fixture {
    struct mob_block_encoder *encoder;
    struct mob_block_decoder *decoder;
    struct sample_entry *samples; /* MOB_BLOCK_ENTRIES_MAX */
    uint8_t *block; /* MOB_BLOCK_BYTES_MAX */
};

static int set_up(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    f->encoder = mob_block_encoder_create();
    f->decoder = mob_block_decoder_create();
    f->samples = calloc(MOB_BLOCK_ENTRIES_MAX + 1, sizeof *f->samples);
    f->block = malloc(MOB_BLOCK_BYTES_MAX);
    *state = f;
    return f->encoder && f->decoder && f->samples && f->block ? 0 : -1;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    mob_block_encoder_destroy(f->encoder);
    mob_block_decoder_destroy(f->decoder);
    free(f->samples);
    free(f->block);
    free(f);
    return 0;
}

static struct mob_block_header some_header(void)
{
    struct mob_block_header h = {.version = MOB_BLOCK_VERSION, .incarnation = 77, .sequence = 1234567};
    memset(&h.cluster, 3, sizeof h.cluster);
    memset(&h.job, 4, sizeof h.job);
    strcpy(h.ns, "default");
    h.wall_ns = 1700000000000000000;
    h.mono_ns = 55000000000;
    return h;
}

/* Fills one block with random entries of one seed; gives their number. */
static uint32_t fill(struct fixture *f, uint64_t seed, uint32_t *bytes_out)
{
    struct mob_block_header header = some_header();
    struct sample_world world;
    sample_world_init(&world, seed);
    uint32_t wanted = 1 + sample_below(&world.rng, MOB_BLOCK_ENTRIES_MAX), count = 0;
    mob_block_begin(f->encoder, &header);
    while (count < wanted) {
        sample_any(&world, &f->samples[count]);
        enum mob_status status = sample_add(f->encoder, &f->samples[count]);
        if (status == MOB_QUEUE_FULL)
            break;
        assert_int_equal(status, MOB_OK);
        count++;
    }
    assert_int_equal(mob_block_entries(f->encoder), count);
    *bytes_out = mob_block_end(f->encoder, f->block);
    return count;
}

static void random_blocks_round_trip(void **state)
{
    struct fixture *f = *state;
    struct mob_block_header header;
    struct mob_zone_map zone;
    static struct mob_entry entry;
    for (uint64_t seed = 1; seed <= 300; seed++) {
        uint32_t bytes, count = fill(f, seed, &bytes);
        assert_int_equal(mob_block_open(f->decoder, f->block, bytes, &header, &zone), MOB_OK);
        assert_int_equal(header.entry_count, count);
        for (uint32_t i = 0; i < count; i++) {
            assert_int_equal(mob_block_next(f->decoder, &entry), MOB_OK);
            const char *field = sample_difference(&f->samples[i].entry, &entry);
            if (field)
                fail_msg("seed %lu, entry %u of type %d: %s differs", (unsigned long)seed, i,
                    (int)f->samples[i].entry.type, field);
        }
        assert_int_equal(mob_block_next(f->decoder, &entry), MOB_CLOSED);
        assert_int_equal(mob_block_next(f->decoder, &entry), MOB_CLOSED);
    }
}

static void header_comes_back(void **state)
{
    struct fixture *f = *state;
    struct mob_block_header want = some_header(), got;
    struct mob_zone_map zone;
    mob_block_begin(f->encoder, &want);
    uint32_t bytes = mob_block_end(f->encoder, f->block);
    memset(&got, 0xee, sizeof got);
    assert_int_equal(mob_block_peek(f->block, bytes, &got, &zone), MOB_OK);
    assert_int_equal(got.version, MOB_BLOCK_VERSION);
    assert_memory_equal(&got.cluster, &want.cluster, sizeof got.cluster);
    assert_int_equal(got.incarnation, want.incarnation);
    assert_int_equal(got.sequence, want.sequence);
    assert_memory_equal(&got.job, &want.job, sizeof got.job);
    assert_string_equal(got.ns, "default");
    assert_int_equal(got.wall_ns, want.wall_ns);
    assert_int_equal(got.mono_ns, want.mono_ns);
    assert_int_equal(got.entry_count, 0);
    assert_int_equal(zone.group_count, 0);
}

/* The zone map of a block must be what its entries say. */
static void zone_map_counts_what_entries_say(void **state)
{
    struct fixture *f = *state;
    struct mob_block_header header;
    struct mob_zone_map zone;
    for (uint64_t seed = 1000; seed < 1100; seed++) {
        uint32_t bytes, count = fill(f, seed, &bytes), specs = 0, finals = 0, failed = 0, in_groups = 0;
        int64_t latest = INT64_MIN, longest = 0;
        assert_int_equal(mob_block_peek(f->block, bytes, &header, &zone), MOB_OK);
        for (uint32_t i = 0; i < count; i++) {
            const struct mob_entry *e = &f->samples[i].entry;
            const struct mob_completion_head *h = &e->completion.head;
            int64_t at = e->type == MOB_ENTRY_SPEC ? e->submitted_ns
                : e->type == MOB_ENTRY_COMPLETION  ? h->finished_ns
                                                   : 0;
            bool final = e->type == MOB_ENTRY_COMPLETION && (h->flags & MOB_COMPLETION_FINAL);
            specs += e->type == MOB_ENTRY_SPEC;
            finals += final;
            failed += final && h->status != MOB_OK;
            if (at != 0 && at > latest)
                latest = at;
            int64_t run = (int64_t)((uint64_t)h->finished_ns - (uint64_t)h->started_ns);
            if (e->type == MOB_ENTRY_COMPLETION && h->started_ns && h->finished_ns && run > longest)
                longest = run;
        }
        assert_int_equal(zone.specs, specs);
        assert_int_equal(zone.finals, finals);
        assert_int_equal(zone.failed, failed);
        assert_int_equal(zone.others, count - specs - finals);
        assert_int_equal(zone.longest_ns, longest);
        if (latest != INT64_MIN)
            assert_int_equal(zone.time_max_ns, latest);
        for (uint32_t g = 0; g < zone.group_count; g++) {
            in_groups += zone.groups[g].specs + zone.groups[g].finals + zone.groups[g].others;
            for (uint32_t other = 0; other < g; other++)
                assert_false(zone.groups[g].group == zone.groups[other].group &&
                    mob_stream_eq(zone.groups[g].stream, zone.groups[other].stream));
        }
        assert_true(in_groups <= count);
        assert_true(in_groups >= specs + finals);
    }
}

/* A driver puts millions: whoever looks one up must not read them all. */
static void puts_past_the_256th_lie_in_groups_of_their_own(void **state)
{
    struct fixture *f = *state;
    struct mob_block_header header = some_header();
    struct mob_zone_map zone;
    struct mob_task_id task = {{{7}}, 0};
    mob_block_begin(f->encoder, &header);
    const uint32_t counters[] = {3, 255, 256, 511, 512, 70000};
    for (uint32_t i = 0; i < sizeof counters / sizeof *counters; i++) {
        int64_t n = i;
        struct mob_out_put put = {.id = mob_object_of(task, MOB_SLOT_PUT | counters[i]),
            .type = MOB_TYPE_I64,
            .size = sizeof n,
            .inline_bytes = sizeof n};
        assert_int_equal(mob_block_add_put(f->encoder, &put, (uint8_t *)&n), MOB_OK);
    }
    struct mob_entry_hash hash = {.id = mob_object_of(task, MOB_SLOT_PUT | 70001u)};
    assert_int_equal(mob_block_add_other(f->encoder, MOB_ENTRY_HASH, &hash, sizeof hash, NULL, 0), MOB_OK);
    uint32_t bytes = mob_block_end(f->encoder, f->block);
    assert_int_equal(mob_block_peek(f->block, bytes, &header, &zone), MOB_OK);
    assert_int_equal(zone.others, 7);
    static const struct {
        bool own;
        uint32_t group, others;
    } wanted[] = {{false, 0, 2}, {true, 1, 2}, {true, 2, 1}, {true, 273, 2}};
    assert_int_equal(zone.group_count, 4);
    for (uint32_t i = 0; i < 4; i++) {
        struct mob_stream stream = wanted[i].own ? mob_stream_of_puts(task) : task.stream;
        assert_true(mob_stream_eq(zone.groups[i].stream, stream));
        assert_int_equal(zone.groups[i].group, wanted[i].group);
        assert_int_equal(zone.groups[i].others, wanted[i].others);
    }
}

static void zone_map_names_functions_until_there_are_too_many(void **state)
{
    struct fixture *f = *state;
    struct mob_block_header header = some_header();
    struct mob_zone_map zone;
    struct sample_world world;
    static struct sample_entry s;
    sample_world_init(&world, 5);
    for (uint32_t n = 1; n <= MOB_ZONE_FUNCTIONS_MAX + 3; n++) {
        mob_block_begin(f->encoder, &header);
        for (uint32_t i = 0; i < n; i++) {
            sample_spec(&world, &s);
            memset(&s.entry.spec.head.function, (int)i + 1, sizeof s.entry.spec.head.function);
            assert_int_equal(sample_add(f->encoder, &s), MOB_OK);
        }
        uint32_t bytes = mob_block_end(f->encoder, f->block);
        assert_int_equal(mob_block_peek(f->block, bytes, &header, &zone), MOB_OK);
        uint32_t want = n <= MOB_ZONE_FUNCTIONS_MAX ? n : MOB_ZONE_FUNCTIONS_MAX + 1;
        assert_int_equal(zone.function_count, want);
        assert_int_equal(zone.functions[0].b[0], 1);
    }
}

static void block_takes_256_entries_and_no_more(void **state)
{
    struct fixture *f = *state;
    struct mob_block_header header = some_header();
    struct sample_world world;
    static struct sample_entry s;
    sample_world_init(&world, 9);
    mob_block_begin(f->encoder, &header);
    for (uint32_t i = 0; i < MOB_BLOCK_ENTRIES_MAX; i++) {
        sample_spec(&world, &s);
        assert_int_equal(sample_add(f->encoder, &s), MOB_OK);
    }
    assert_int_equal(sample_add(f->encoder, &s), MOB_QUEUE_FULL);
    assert_int_equal(mob_block_entries(f->encoder), MOB_BLOCK_ENTRIES_MAX);
}

static void large_entries_open_the_next_block(void **state)
{
    struct fixture *f = *state;
    struct mob_block_header header = some_header();
    struct mob_zone_map zone;
    static uint8_t content[MOB_PUT_INLINE_MAX];
    struct mob_out_put put = {.type = MOB_TYPE_BYTES, .size = sizeof content, .inline_bytes = sizeof content};
    mob_block_begin(f->encoder, &header);
    uint32_t count = 0;
    while (mob_block_add_put(f->encoder, &put, content) == MOB_OK)
        count++;
    assert_int_equal(count, 2);
    uint32_t bytes = mob_block_end(f->encoder, f->block);
    assert_true(bytes <= MOB_BLOCK_BYTES_MAX);
    assert_int_equal(mob_block_open(f->decoder, f->block, bytes, &header, &zone), MOB_OK);
}

static void entry_that_fits_no_block_is_too_large(void **state)
{
    struct fixture *f = *state;
    struct mob_block_header header = some_header();
    static uint8_t json[MOB_BLOCK_BYTES_MAX];
    mob_block_begin(f->encoder, &header);
    assert_int_equal(
        mob_block_add_other(f->encoder, MOB_ENTRY_JOB, NULL, 0, json, sizeof json), MOB_TOO_LARGE);
}

static void three_thousand_returns_fit_one_entry(void **state)
{
    struct fixture *f = *state;
    struct mob_block_header header = some_header();
    struct mob_zone_map zone;
    static uint8_t body[96 * 1024];
    static struct mob_entry entry;
    struct mob_completion_head h = {.version = MOB_COMPLETION_VERSION, .flags = 1, .return_count = 3000};
    for (uint32_t i = 0; i < 3000; i++) {
        int64_t value = i * 7;
        struct mob_return_view r = {
            .slot = i, .type = MOB_TYPE_I64, .size = 8, .payload = (const uint8_t *)&value};
        h.body_bytes = mob_return_encode(body, h.body_bytes, sizeof body, &r);
        assert_int_not_equal(h.body_bytes, 0);
    }
    mob_block_begin(f->encoder, &header);
    assert_int_equal(mob_block_add_completion(f->encoder, &h, body), MOB_OK);
    uint32_t bytes = mob_block_end(f->encoder, f->block);
    assert_int_equal(mob_block_open(f->decoder, f->block, bytes, &header, &zone), MOB_OK);
    assert_int_equal(mob_block_next(f->decoder, &entry), MOB_OK);
    assert_int_equal(entry.completion.head.body_bytes, h.body_bytes);
    assert_memory_equal(entry.completion.body, body, h.body_bytes);
}

/* The log of tasks_async; 20 bytes a task is the goal, so that lineage stays cheap. */
static void siblings_cost_few_bytes(void **state)
{
    struct fixture *f = *state;
    struct mob_block_header header = some_header();
    struct sample_world world;
    static struct sample_entry spec, done;
    sample_world_init(&world, 1);
    mob_block_begin(f->encoder, &header);
    for (uint32_t i = 0; i < 128; i++) {
        struct mob_tail_builder b;
        int64_t value = i;
        mob_tail_begin(&b, spec.tail, SAMPLE_TAIL_MAX);
        mob_tail_add_value(&b, MOB_TYPE_I64, &value, 8);
        spec.entry.type = MOB_ENTRY_SPEC;
        spec.entry.spec.head = world.spec;
        spec.entry.spec.head.task.index = 20000 + i;
        spec.entry.spec.tail_bytes = mob_tail_end(&b);
        spec.entry.submitted_ns = header.mono_ns + i * 400;
        assert_int_equal(sample_add(f->encoder, &spec), MOB_OK);
        struct mob_return_view r = {.type = MOB_TYPE_I64, .size = 8, .payload = (const uint8_t *)&value};
        struct mob_completion_head *h = &done.entry.completion.head;
        *h = (struct mob_completion_head){
            .version = 1, .flags = MOB_COMPLETION_FINAL, .return_count = 1, .attempt = 1};
        h->task = (struct mob_task_id){world.spec.task.stream, 10000 + i / 2 + (i % 2) * 64};
        h->worker = 100 + i % 2;
        h->submitted_ns = header.mono_ns - 4000000 + h->task.index * 400;
        h->ready_ns = h->dispatched_ns = header.mono_ns - 200000;
        h->started_ns = header.mono_ns - 100000 + i * 170;
        h->finished_ns = h->started_ns + 130 + i % 50;
        h->cpu_ns = 120;
        h->body_bytes = mob_return_encode(done.body, 0, SAMPLE_BODY_MAX, &r);
        done.entry.type = MOB_ENTRY_COMPLETION;
        assert_int_equal(sample_add(f->encoder, &done), MOB_OK);
    }
    uint32_t bytes = mob_block_end(f->encoder, f->block);
    if (bytes > 128 * 20)
        fail_msg("%u bytes for 128 tasks, expected at most %u", bytes, 128 * 20);
}

static void every_flipped_bit_is_noticed(void **state)
{
    struct fixture *f = *state;
    struct mob_block_header header;
    struct mob_zone_map zone;
    uint32_t bytes;
    fill(f, 3, &bytes);
    for (uint32_t i = 0; i < bytes; i++) {
        f->block[i] ^= (uint8_t)(1u << i % 8);
        enum mob_status status = mob_block_open(f->decoder, f->block, bytes, &header, &zone);
        if (status == MOB_OK)
            fail_msg("byte %u of %u", i, bytes);
        f->block[i] ^= (uint8_t)(1u << i % 8);
    }
    assert_int_equal(mob_block_open(f->decoder, f->block, bytes, &header, &zone), MOB_OK);
}

static void every_cut_is_noticed(void **state)
{
    struct fixture *f = *state;
    struct mob_block_header header;
    struct mob_zone_map zone;
    uint32_t bytes;
    fill(f, 4, &bytes);
    for (uint32_t n = 0; n < bytes; n++)
        assert_int_not_equal(mob_block_open(f->decoder, f->block, n, &header, &zone), MOB_OK);
    uint8_t *longer = calloc(1, bytes + 1);
    memcpy(longer, f->block, bytes);
    assert_int_equal(mob_block_open(f->decoder, longer, bytes + 1, &header, &zone), MOB_CORRUPT);
    free(longer);
}

static void unknown_version_is_refused(void **state)
{
    struct fixture *f = *state;
    struct mob_block_header header = some_header();
    struct mob_zone_map zone;
    mob_block_begin(f->encoder, &header);
    uint32_t bytes = mob_block_end(f->encoder, f->block);
    f->block[4] = MOB_BLOCK_VERSION + 1;
    assert_int_equal(mob_block_peek(f->block, bytes, &header, &zone), MOB_VERSION);
    assert_int_equal(mob_block_open(f->decoder, f->block, bytes, &header, &zone), MOB_VERSION);
}

static void decoder_without_a_block_is_at_its_end(void **state)
{
    struct fixture *f = *state;
    static struct mob_entry entry;
    struct mob_block_decoder *d = mob_block_decoder_create();
    assert_int_equal(mob_block_next(d, &entry), MOB_CLOSED);
    mob_block_decoder_destroy(d);
    mob_block_decoder_destroy(NULL);
    mob_block_encoder_destroy(NULL);
    (void)f;
}

static void inconsistent_input_is_refused(void **state)
{
    struct fixture *f = *state;
    struct mob_block_header header = some_header();
    struct mob_out_outcome outcome = {.payload_bytes = 5};
    struct mob_out_put put = {.type = MOB_TYPE_BYTES, .size = 5, .inline_bytes = 4};
    mob_block_begin(f->encoder, &header);
    uint8_t bytes[32] = {0};
    assert_int_equal(
        mob_block_add_other(f->encoder, MOB_ENTRY_OUTCOME, &outcome, sizeof outcome, bytes, 4), MOB_INVALID);
    assert_int_equal(mob_block_add_other(f->encoder, MOB_ENTRY_OUTCOME, &outcome, 3, bytes, 5), MOB_INVALID);
    assert_int_equal(mob_block_add_other(f->encoder, MOB_ENTRY_YIELD, bytes, 24, bytes, 3), MOB_INVALID);
    assert_int_equal(mob_block_add_put(f->encoder, &put, bytes), MOB_INVALID);
    assert_int_equal(mob_block_entries(f->encoder), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_blocks_round_trip),
        cmocka_unit_test(header_comes_back),
        cmocka_unit_test(zone_map_counts_what_entries_say),
        cmocka_unit_test(puts_past_the_256th_lie_in_groups_of_their_own),
        cmocka_unit_test(zone_map_names_functions_until_there_are_too_many),
        cmocka_unit_test(block_takes_256_entries_and_no_more),
        cmocka_unit_test(large_entries_open_the_next_block),
        cmocka_unit_test(entry_that_fits_no_block_is_too_large),
        cmocka_unit_test(three_thousand_returns_fit_one_entry),
        cmocka_unit_test(siblings_cost_few_bytes),
        cmocka_unit_test(every_flipped_bit_is_noticed),
        cmocka_unit_test(every_cut_is_noticed),
        cmocka_unit_test(unknown_version_is_refused),
        cmocka_unit_test(decoder_without_a_block_is_at_its_end),
        cmocka_unit_test(inconsistent_input_is_refused),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
