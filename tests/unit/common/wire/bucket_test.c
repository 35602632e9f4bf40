/* Buckets of flushed lineage: blocks and the places of their entries come back, damage is noticed, filters
 * never say no of what is there. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "common/wire/bucket.h"
#include "tests/support/wire_samples.h"

enum { BLOCKS = 12 };

struct fixture {
    struct mob_bucket_builder *builder;
    struct mob_bucket_reader *reader;
    struct mob_block_encoder *encoder;
    struct sample_entry *sample;
    uint8_t *blocks[BLOCKS];
    uint32_t lengths[BLOCKS], entries[BLOCKS];
    uint64_t seqs[BLOCKS];
    struct mob_bucket_origin origins[BLOCKS][MOB_BLOCK_ENTRIES_MAX];
    bool whole[BLOCKS];
    uint32_t count;
    uint8_t *bytes;
    uint32_t length;
    struct mob_bucket_summary summary;
};

static int set_up(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    f->builder = mob_bucket_builder_create();
    f->reader = mob_bucket_reader_create();
    f->encoder = mob_block_encoder_create();
    f->sample = calloc(1, sizeof *f->sample);
    f->bytes = malloc(MOB_BUCKET_BYTES_MAX);
    for (int i = 0; i < BLOCKS; i++)
        f->blocks[i] = malloc(MOB_BLOCK_BYTES_MAX);
    *state = f;
    return f->builder && f->reader && f->encoder && f->sample && f->bytes ? 0 : -1;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    mob_bucket_builder_destroy(f->builder);
    mob_bucket_reader_destroy(f->reader);
    mob_block_encoder_destroy(f->encoder);
    for (int i = 0; i < BLOCKS; i++)
        free(f->blocks[i]);
    free(f->sample);
    free(f->bytes);
    free(f);
    return 0;
}

static void make_block(struct fixture *f, uint32_t at, uint64_t seed)
{
    struct mob_block_header header = {
        .incarnation = 3, .sequence = seed, .ns = "default", .wall_ns = 1000000, .mono_ns = 5};
    struct sample_world world;
    sample_world_init(&world, seed);
    uint32_t wanted = sample_below(&world.rng, 100) + 1;
    mob_block_begin(f->encoder, &header);
    for (uint32_t i = 0; i < wanted && mob_block_bytes(f->encoder) < 8000; i++) {
        sample_any(&world, f->sample);
        if (sample_add(f->encoder, f->sample) != MOB_OK)
            break;
    }
    f->entries[at] = mob_block_entries(f->encoder);
    f->lengths[at] = mob_block_end(f->encoder, f->blocks[at]);
}

/* Places as a sorted cut has them: several interleaved runs with skips, now and then somewhere else. */
static void make_origins(struct fixture *f, uint32_t at, struct sample_rng *rng)
{
    struct mob_bucket_origin runs[9];
    for (int i = 0; i < 9; i++)
        runs[i] = (struct mob_bucket_origin){1 + sample_below(rng, 1000), sample_below(rng, 200)};
    for (uint32_t i = 0; i < f->entries[at]; i++) {
        struct mob_bucket_origin *run = &runs[sample_below(rng, sample_one_in(rng, 10) ? 9 : 2)];
        if (sample_one_in(rng, 20))
            run->seq = sample_u64(rng);
        if (sample_one_in(rng, 10))
            run->ordinal += sample_below(rng, 40);
        if (run->ordinal >= MOB_BLOCK_ENTRIES_MAX)
            run->ordinal = sample_below(rng, 10);
        f->origins[at][i] = *run;
        run->ordinal++;
    }
}

static void build(struct fixture *f, uint64_t seed)
{
    struct sample_rng rng = {seed};
    f->count = 1 + sample_below(&rng, BLOCKS);
    mob_bucket_begin(f->builder);
    for (uint32_t i = 0; i < f->count; i++) {
        make_block(f, i, seed * 1000 + i);
        make_origins(f, i, &rng);
        f->seqs[i] = sample_one_in(&rng, 5) ? sample_u64(&rng) : 100 + i;
        f->whole[i] = sample_one_in(&rng, 3);
        enum mob_status status = mob_bucket_add(
            f->builder, f->seqs[i], f->blocks[i], f->lengths[i], f->whole[i] ? NULL : f->origins[i]);
        if (status == MOB_QUEUE_FULL) {
            assert_true(mob_bucket_bytes(f->builder) >= MOB_BUCKET_TARGET_BYTES);
            f->count = i;
        } else {
            assert_int_equal(status, MOB_OK);
        }
    }
    f->length = mob_bucket_end(f->builder, f->bytes, &f->summary);
    assert_int_equal(f->summary.blocks, f->count);
}

static void blocks_and_origins_come_back(void **state)
{
    struct fixture *f = *state;
    for (uint64_t seed = 1; seed <= 200; seed++) {
        build(f, seed);
        uint32_t blocks;
        struct mob_bucket_block b;
        struct mob_bucket_origin origins[MOB_BLOCK_ENTRIES_MAX];
        assert_int_equal(mob_bucket_open(f->reader, f->bytes, f->length, &blocks), MOB_OK);
        assert_int_equal(blocks, f->count);
        for (uint32_t i = 0; i < blocks; i++) {
            assert_true(mob_bucket_next(f->reader, &b));
            assert_int_equal(b.seq, f->seqs[i]);
            assert_int_equal(b.length, f->lengths[i]);
            assert_memory_equal(b.bytes, f->blocks[i], b.length);
            assert_int_equal(b.whole, f->whole[i]);
            assert_int_equal(mob_bucket_origins(&b, origins, f->entries[i]), MOB_OK);
            for (uint32_t k = 0; k < f->entries[i]; k++) {
                struct mob_bucket_origin want =
                    f->whole[i] ? (struct mob_bucket_origin){f->seqs[i], k} : f->origins[i][k];
                assert_int_equal(origins[k].seq, want.seq);
                assert_int_equal(origins[k].ordinal, want.ordinal);
            }
            if (!f->whole[i]) /* not one too few, not one too many */
                assert_int_equal(mob_bucket_origins(&b, origins, f->entries[i] - 1), MOB_CORRUPT);
        }
        assert_false(mob_bucket_next(f->reader, &b));
    }
}

static void the_summary_is_what_the_blocks_say(void **state)
{
    struct fixture *f = *state;
    for (uint64_t seed = 300; seed < 400; seed++) {
        build(f, seed);
        struct mob_bucket_summary *s = &f->summary;
        uint32_t specs = 0, finals = 0, failed = 0, others = 0, entries = 0;
        for (uint32_t i = 0; i < f->count; i++) {
            struct mob_block_header header;
            static struct mob_zone_map zone;
            assert_int_equal(mob_block_peek(f->blocks[i], f->lengths[i], &header, &zone), MOB_OK);
            specs += zone.specs;
            finals += zone.finals;
            failed += zone.failed;
            others += zone.others;
            entries += header.entry_count;
            for (uint32_t g = 0; g < zone.group_count; g++) {
                struct mob_bucket_key low = mob_bucket_key(zone.groups[g].stream, zone.groups[g].group << 8),
                                      high = mob_bucket_key(
                                          zone.groups[g].stream, zone.groups[g].group << 8 | 255);
                assert_true(memcmp(&s->first, &low, sizeof low) <= 0);
                assert_true(memcmp(&s->last, &high, sizeof high) >= 0);
                assert_true(mob_bloom_has(s->group_filter, s->group_filter_bytes,
                    mob_bucket_group_hash(zone.groups[g].stream, zone.groups[g].group)));
            }
            for (uint32_t k = 0; k < zone.function_count && k < MOB_ZONE_FUNCTIONS_MAX; k++)
                assert_true(mob_bloom_has(s->function_filter, s->function_filter_bytes,
                    mob_bucket_function_hash(zone.functions[k])));
        }
        assert_int_equal(s->specs, specs);
        assert_int_equal(s->finals, finals);
        assert_int_equal(s->failed, failed);
        assert_int_equal(s->others, others);
        assert_int_equal(s->entries, entries);
    }
}

static void a_filter_is_seldom_wrong(void **state)
{
    (void)state;
    enum { MEMBERS = 500, TRIES = 20000 };
    struct sample_rng rng = {77};
    uint8_t filter[MEMBERS * 2] = {0};
    size_t bytes = mob_bloom_bytes(MEMBERS);
    assert_in_range(bytes, MEMBERS * 10 / 8, sizeof filter);
    for (int i = 0; i < MEMBERS; i++)
        mob_bloom_add(filter, bytes, mob_bloom_hash(sample_u64(&rng)));
    int wrong = 0;
    for (int i = 0; i < TRIES; i++)
        wrong += mob_bloom_has(filter, bytes, mob_bloom_hash(sample_u64(&rng)));
    assert_in_range(wrong, 1, TRIES * 3 / 100);
    assert_true(mob_bloom_has(NULL, 0, mob_bloom_hash(5))); /* nothing known: perhaps */
}

static void any_changed_bit_is_noticed(void **state)
{
    struct fixture *f = *state;
    uint32_t blocks;
    build(f, 5);
    for (uint32_t bit = 0; bit < f->length * 8; bit += 7) {
        f->bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        enum mob_status status = mob_bucket_open(f->reader, f->bytes, f->length, &blocks);
        f->bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        assert_true(status == MOB_CORRUPT || status == MOB_VERSION || status == MOB_TRUNCATED);
    }
    for (uint32_t cut = 0; cut < f->length; cut += 13)
        assert_int_not_equal(mob_bucket_open(f->reader, f->bytes, cut, &blocks), MOB_OK);
    assert_int_equal(mob_bucket_open(f->reader, f->bytes, f->length, &blocks), MOB_OK);
}

static void another_version_is_refused(void **state)
{
    struct fixture *f = *state;
    uint32_t blocks;
    build(f, 6);
    f->bytes[4] = MOB_BUCKET_VERSION + 1;
    assert_int_equal(mob_bucket_open(f->reader, f->bytes, f->length, &blocks), MOB_VERSION);
}

static void what_does_not_get_smaller_is_stored(void **state)
{
    struct fixture *f = *state;
    struct mob_block_header header = {.ns = "default"};
    struct sample_rng rng = {8};
    static uint8_t noise[32768];
    uint32_t blocks;
    sample_bytes(&rng, noise, sizeof noise);
    struct mob_out_put put = {.type = MOB_TYPE_BYTES, .size = sizeof noise, .inline_bytes = sizeof noise};
    mob_block_begin(f->encoder, &header);
    assert_int_equal(mob_block_add_put(f->encoder, &put, noise), MOB_OK);
    uint32_t length = mob_block_end(f->encoder, f->blocks[0]);
    mob_bucket_begin(f->builder);
    assert_int_equal(mob_bucket_add(f->builder, 9, f->blocks[0], length, NULL), MOB_OK);
    f->length = mob_bucket_end(f->builder, f->bytes, &f->summary);
    assert_in_range(f->length, length, length + 100);
    assert_int_equal(mob_bucket_open(f->reader, f->bytes, f->length, &blocks), MOB_OK);
    struct mob_bucket_block b;
    assert_true(mob_bucket_next(f->reader, &b));
    assert_memory_equal(b.bytes, f->blocks[0], length);
}

static void an_empty_bucket_is_one(void **state)
{
    struct fixture *f = *state;
    uint32_t blocks = 7;
    struct mob_bucket_block b;
    mob_bucket_begin(f->builder);
    f->length = mob_bucket_end(f->builder, f->bytes, &f->summary);
    assert_int_equal(mob_bucket_open(f->reader, f->bytes, f->length, &blocks), MOB_OK);
    assert_int_equal(blocks, 0);
    assert_false(mob_bucket_next(f->reader, &b));
}

static void keys_sort_as_streams_and_indices_do(void **state)
{
    (void)state;
    struct mob_stream a = {{1}}, b = {{1, 1}};
    struct mob_bucket_key keys[] = {mob_bucket_key(a, 1), mob_bucket_key(a, 255), mob_bucket_key(a, 256),
        mob_bucket_key(a, UINT32_MAX), mob_bucket_key(b, 0)};
    for (size_t i = 0; i + 1 < sizeof keys / sizeof keys[0]; i++)
        assert_true(memcmp(&keys[i], &keys[i + 1], sizeof keys[0]) < 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(blocks_and_origins_come_back, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_summary_is_what_the_blocks_say, set_up, tear_down),
        cmocka_unit_test(a_filter_is_seldom_wrong),
        cmocka_unit_test_setup_teardown(any_changed_bit_is_noticed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(another_version_is_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_does_not_get_smaller_is_stored, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_empty_bucket_is_one, set_up, tear_down),
        cmocka_unit_test(keys_sort_as_streams_and_indices_do),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
