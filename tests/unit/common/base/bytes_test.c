/* Bounded readers and writers, checked arithmetic, deadlines. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "common/base/bytes.h"
#include "common/base/clock.h"
#include "tests/support/wire_samples.h"

static void short_read_fails_and_stays_failed(void **state)
{
    (void)state;
    uint8_t bytes[6] = {1, 2, 3, 4, 5, 6};
    struct mob_reader r = mob_reader_of(bytes, sizeof bytes);
    assert_int_equal(mob_read_u32(&r), 0x04030201);
    assert_int_equal(mob_read_u32(&r), 0);
    assert_false(mob_reader_ok(&r));
    assert_int_equal(mob_read_u8(&r), 0); /* although two bytes are left */
    assert_null(mob_read_bytes(&r, 1));
}

static void huge_lengths_do_not_wrap(void **state)
{
    (void)state;
    uint8_t bytes[6] = {0};
    struct mob_reader r = mob_reader_of(bytes, sizeof bytes);
    assert_null(mob_read_bytes(&r, UINT64_MAX));
    assert_false(mob_reader_ok(&r));
}

static void integers_round_trip(void **state)
{
    (void)state;
    struct sample_rng rng = {3};
    uint8_t bytes[64];
    for (int i = 0; i < 2000; i++) {
        uint64_t a = sample_number(&rng);
        int64_t b = (int64_t)sample_number(&rng) * (sample_one_in(&rng, 2) ? 1 : -1);
        struct mob_writer w = mob_writer_of(bytes, sizeof bytes);
        mob_write_varint(&w, a);
        mob_write_zigzag(&w, b);
        mob_write_u64(&w, a);
        mob_write_u16(&w, (uint16_t)a);
        assert_true(mob_writer_ok(&w));
        struct mob_reader r = mob_reader_of(bytes, mob_writer_length(&w));
        assert_int_equal(mob_read_varint(&r), a);
        assert_int_equal(mob_read_zigzag(&r), b);
        assert_int_equal(mob_read_u64(&r), a);
        assert_int_equal(mob_read_u16(&r), (uint16_t)a);
        assert_true(mob_reader_ok(&r));
        assert_int_equal(mob_reader_left(&r), 0);
    }
}

static void extreme_varints(void **state)
{
    (void)state;
    static const int64_t values[] = {0, 1, -1, 63, 64, -64, -65, INT64_MAX, INT64_MIN};
    uint8_t bytes[10];
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        struct mob_writer w = mob_writer_of(bytes, sizeof bytes);
        mob_write_zigzag(&w, values[i]);
        struct mob_reader r = mob_reader_of(bytes, mob_writer_length(&w));
        assert_int_equal(mob_read_zigzag(&r), values[i]);
    }
}

static void varints_that_are_cut_or_too_long_fail(void **state)
{
    (void)state;
    static const uint8_t cut[] = {0x80, 0x80},
                         too_long[] = {0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x02},
                         endless[] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1};
    struct mob_reader r = mob_reader_of(cut, sizeof cut);
    (void)mob_read_varint(&r);
    assert_false(mob_reader_ok(&r));
    r = mob_reader_of(too_long, sizeof too_long);
    (void)mob_read_varint(&r);
    assert_false(mob_reader_ok(&r));
    r = mob_reader_of(endless, sizeof endless);
    (void)mob_read_varint(&r);
    assert_false(mob_reader_ok(&r));
}

static void writer_never_passes_its_capacity(void **state)
{
    (void)state;
    uint8_t bytes[16];
    memset(bytes, 0xee, sizeof bytes);
    struct mob_writer w = mob_writer_of(bytes, 7);
    mob_write_u32(&w, 1);
    mob_write_u32(&w, 2);
    assert_false(mob_writer_ok(&w));
    mob_write_u8(&w, 3); /* would fit, but something before it is missing */
    assert_int_equal(mob_writer_length(&w), 4);
    for (size_t i = 4; i < sizeof bytes; i++)
        assert_int_equal(bytes[i], 0xee);
}

static void arithmetic_tells_of_overflow(void **state)
{
    (void)state;
    uint64_t out;
    assert_false(mob_add_overflows(UINT64_MAX - 1, 1, &out));
    assert_int_equal(out, UINT64_MAX);
    assert_true(mob_add_overflows(UINT64_MAX, 1, &out));
    assert_false(mob_mul_overflows(1ull << 32, (1ull << 32) - 1, &out));
    assert_true(mob_mul_overflows(1ull << 32, 1ull << 32, &out));
    assert_int_equal(mob_round_up(0, 8), 0);
    assert_int_equal(mob_round_up(1, 8), 8);
    assert_int_equal(mob_round_up(64, 64), 64);
    assert_int_equal(mob_round_up(65, 64), 128);
}

static void deadlines_saturate(void **state)
{
    (void)state;
    assert_int_equal(mob_deadline_after(-1), INT64_MAX);
    assert_int_equal(mob_deadline_after(MOB_FOREVER_NS), INT64_MAX);
    int64_t before = mob_now(), deadline = mob_deadline_after(MOB_SEC);
    assert_in_range(deadline, before + MOB_SEC, mob_now() + MOB_SEC);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(short_read_fails_and_stays_failed),
        cmocka_unit_test(huge_lengths_do_not_wrap),
        cmocka_unit_test(integers_round_trip),
        cmocka_unit_test(extreme_varints),
        cmocka_unit_test(varints_that_are_cut_or_too_long_fail),
        cmocka_unit_test(writer_never_passes_its_capacity),
        cmocka_unit_test(arithmetic_tells_of_overflow),
        cmocka_unit_test(deadlines_saturate),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
