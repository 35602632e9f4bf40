/* Values: header, tables, payload. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "common/wire/value.h"
#include "tests/support/wire_samples.h"

static _Alignas(64) uint8_t buffer[8192];

static uint64_t make(enum mob_value_type type, const void *payload, uint64_t bytes)
{
    uint64_t size;
    uint8_t *at;
    assert_int_equal(mob_value_full_size(bytes, 0, 0, &size), MOB_OK);
    assert_int_equal(mob_value_init(buffer, size, type, bytes, NULL, 0, NULL, 0, &at), MOB_OK);
    memcpy(at, payload, bytes);
    return size;
}

static void full_value_round_trips_with_its_references(void **state)
{
    (void)state;
    struct sample_rng rng = {7};
    for (int round = 0; round < 500; round++) {
        struct mob_object_id objects[6];
        struct mob_actor_id actors[6];
        uint8_t payload[300];
        uint32_t object_count = sample_below(&rng, 7), actor_count = sample_below(&rng, 7);
        uint64_t bytes = sample_below(&rng, sizeof payload), size;
        uint8_t *at;
        sample_bytes(&rng, objects, sizeof objects);
        sample_bytes(&rng, actors, sizeof actors);
        sample_bytes(&rng, payload, sizeof payload);
        assert_int_equal(mob_value_full_size(bytes, object_count, actor_count, &size), MOB_OK);
        assert_int_equal(mob_value_init(buffer, size, MOB_TYPE_BYTES, bytes, objects, object_count, actors,
                             actor_count, &at),
            MOB_OK);
        assert_int_equal((uintptr_t)at % MOB_VALUE_ALIGN, 0);
        memcpy(at, payload, bytes);
        mob_value_hash(buffer);
        struct mob_value_view view;
        assert_int_equal(mob_value_open(buffer, size, &view), MOB_OK);
        assert_int_equal(view.type, MOB_TYPE_BYTES);
        assert_int_equal(view.payload_bytes, bytes);
        assert_memory_equal(view.payload, payload, bytes);
        assert_int_equal(view.object_ref_count, object_count);
        assert_memory_equal(view.object_refs, objects, object_count * sizeof *objects);
        assert_int_equal(view.actor_ref_count, actor_count);
        assert_memory_equal(view.actor_refs, actors, actor_count * sizeof *actors);
        assert_int_equal(mob_value_verify(buffer, size), MOB_OK);
    }
}

static void hash_notices_a_changed_byte(void **state)
{
    (void)state;
    uint64_t size = make(MOB_TYPE_UTF8, "lineage", 7);
    mob_value_hash(buffer);
    buffer[size - 1] ^= 1;
    assert_int_equal(mob_value_verify(buffer, size), MOB_CORRUPT);
}

static void value_without_a_hash_verifies(void **state)
{
    (void)state;
    uint64_t size = make(MOB_TYPE_UTF8, "lineage", 7);
    assert_int_equal(mob_value_verify(buffer, size), MOB_OK);
}

static void hash_of_a_value_without_references_is_that_of_its_payload(void **state)
{
    (void)state;
    struct mob_value_view view;
    uint64_t size = make(MOB_TYPE_UTF8, "lineage", 7);
    mob_value_hash(buffer);
    assert_int_equal(mob_value_open(buffer, size, &view), MOB_OK);
    assert_true(mob_hash128_eq(view.hash, mob_hash128("lineage", 7)));
}

static void every_cut_is_truncated(void **state)
{
    (void)state;
    struct mob_value_view view;
    uint64_t size = make(MOB_TYPE_UTF8, "lineage", 7);
    for (uint64_t n = 0; n < size; n++)
        assert_int_equal(mob_value_open(buffer, n, &view), MOB_TRUNCATED);
    /* slabs are larger than their contents */
    assert_int_equal(mob_value_open(buffer, size + 50, &view), MOB_OK);
}

static void damaged_headers_are_refused(void **state)
{
    (void)state;
    struct mob_value_view view;
    struct mob_value_header good, bad;
    uint64_t size = make(MOB_TYPE_UTF8, "lineage", 7);
    memcpy(&good, buffer, sizeof good);
    struct {
        const char *what;
        struct mob_value_header header;
        enum mob_status want;
    } cases[9];
    size_t n = 0;
#define CASE(change, status) \
    do { \
        bad = good; \
        bad.change; \
        cases[n].what = #change; \
        cases[n].header = bad; \
        cases[n++].want = status; \
    } while (0)
    CASE(magic = 1, MOB_CORRUPT);
    CASE(version = 2, MOB_VERSION);
    CASE(type = MOB_TYPE_COUNT, MOB_CORRUPT);
    CASE(type = MOB_TYPE_I64, MOB_CORRUPT); /* of 7 bytes */
    CASE(payload_bytes = UINT64_MAX, MOB_CORRUPT);
    CASE(object_refs = UINT32_MAX, MOB_CORRUPT);
    CASE(payload_offset = 65, MOB_CORRUPT);
    CASE(reserved[1] = 1, MOB_CORRUPT);
    CASE(flags = 0x80, MOB_CORRUPT);
#undef CASE
    for (size_t i = 0; i < n; i++) {
        memcpy(buffer, &cases[i].header, sizeof good);
        enum mob_status got = mob_value_open(buffer, size, &view);
        if (got != cases[i].want)
            fail_msg(
                "%s: got %s, want %s", cases[i].what, mob_status_code(got), mob_status_code(cases[i].want));
    }
}

static void sizes_that_overflow_are_too_large(void **state)
{
    (void)state;
    uint64_t size;
    assert_int_equal(mob_value_full_size(UINT64_MAX - 10, 0, 0, &size), MOB_TOO_LARGE);
    assert_int_equal(mob_value_full_size(INT64_MAX, 1, 0, &size), MOB_TOO_LARGE);
    assert_int_equal(mob_value_full_size(0, UINT32_MAX, UINT32_MAX, &size), MOB_OK);
}

static void payload_sizes_follow_the_type(void **state)
{
    (void)state;
    assert_true(mob_value_small_ok(MOB_TYPE_I64, 8));
    assert_false(mob_value_small_ok(MOB_TYPE_I64, 4));
    assert_true(mob_value_small_ok(MOB_TYPE_BOOL, 1));
    assert_false(mob_value_small_ok(MOB_TYPE_NULL, 1));
    assert_true(mob_value_small_ok(MOB_TYPE_ACTOR, 16));
    assert_true(mob_value_small_ok(MOB_TYPE_FUTURE, 20));
    assert_false(mob_value_small_ok(MOB_TYPE_NONE, 0));
    assert_false(mob_value_small_ok(MOB_TYPE_COUNT, 0));
}

static void every_type_has_a_name(void **state)
{
    (void)state;
    for (int i = 0; i < MOB_TYPE_COUNT; i++)
        assert_non_null(mob_value_type_name((enum mob_value_type)i));
    assert_string_equal(mob_value_type_name(MOB_TYPE_I64), "i64");
    assert_string_equal(mob_value_type_name((enum mob_value_type)200), "unknown");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(full_value_round_trips_with_its_references),
        cmocka_unit_test(hash_notices_a_changed_byte),
        cmocka_unit_test(value_without_a_hash_verifies),
        cmocka_unit_test(hash_of_a_value_without_references_is_that_of_its_payload),
        cmocka_unit_test(every_cut_is_truncated),
        cmocka_unit_test(damaged_headers_are_refused),
        cmocka_unit_test(sizes_that_overflow_are_too_large),
        cmocka_unit_test(payload_sizes_follow_the_type),
        cmocka_unit_test(every_type_has_a_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
