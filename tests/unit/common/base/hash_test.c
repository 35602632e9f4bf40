/* Hashes against published vectors: what is on disk must keep its meaning. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "common/base/hash.h"

static void crc32c_gives_the_known_values(void **state)
{
    (void)state;
    uint8_t bytes[32];
    assert_int_equal(mob_crc32c("", 0), 0);
    assert_int_equal(mob_crc32c("123456789", 9), 0xe3069283);
    /* RFC 3720, B.4 */
    memset(bytes, 0, sizeof bytes);
    assert_int_equal(mob_crc32c(bytes, 32), 0x8a9136aa);
    memset(bytes, 0xff, sizeof bytes);
    assert_int_equal(mob_crc32c(bytes, 32), 0x62a8ab43);
    for (int i = 0; i < 32; i++)
        bytes[i] = (uint8_t)i;
    assert_int_equal(mob_crc32c(bytes, 32), 0x46dd794e);
    for (int i = 0; i < 32; i++)
        bytes[i] = (uint8_t)(31 - i);
    assert_int_equal(mob_crc32c(bytes, 32), 0x113fdb5c);
}

/* One bit at a time, so that every length and tail of the fast code is compared. */
static uint32_t slow_crc32c(const uint8_t *p, size_t n)
{
    uint32_t c = ~0u;
    while (n-- > 0) {
        c ^= *p++;
        for (int k = 0; k < 8; k++)
            c = c & 1 ? c >> 1 ^ 0x82f63b78u : c >> 1;
    }
    return ~c;
}

static void crc32c_of_every_length_and_alignment(void **state)
{
    (void)state;
    uint8_t bytes[1200];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)(i * i * 37 + i / 256 + 11);
    for (size_t from = 0; from < 8; from++)
        for (size_t n = 0; n <= 100; n++)
            assert_int_equal(mob_crc32c(bytes + from, n), slow_crc32c(bytes + from, n));
    for (size_t n = 100; n < sizeof bytes; n++) /* three lanes, twice */
        assert_int_equal(mob_crc32c(bytes + n % 8, n - n % 8), slow_crc32c(bytes + n % 8, n - n % 8));
}

static void xxh3_gives_the_known_values(void **state)
{
    (void)state;
    struct mob_hash128 h = mob_hash128("", 0);
    assert_int_equal(h.lo, 0x6001c324468d497full);
    assert_int_equal(h.hi, 0x99aa06d3014798d8ull);
    assert_int_equal(mob_hash64("", 0), 0x2d06800538d394c2ull);
    assert_true(mob_hash128_eq(mob_hash128("lineage", 7), mob_hash128("lineage", 7)));
    assert_false(mob_hash128_eq(mob_hash128("lineage", 7), mob_hash128("Lineage", 7)));
}

static void module_hash_is_blake2b_256(void **state)
{
    (void)state;
    static const uint8_t of_nothing[32] = {0x0e, 0x57, 0x51, 0xc0, 0x26, 0xe5, 0x43, 0xb2, 0xe8, 0xab, 0x2e,
        0xb0, 0x60, 0x99, 0xda, 0xa1, 0xd1, 0xe5, 0xdf, 0x47, 0x77, 0x8f, 0x77, 0x87, 0xfa, 0xab, 0x45, 0xcd,
        0xf1, 0x2f, 0xe3, 0xa8};
    struct mob_module_hash h = mob_module_hash("", 0);
    assert_memory_equal(h.b, of_nothing, 32);
}

static void function_ids_depend_on_module_and_name(void **state)
{
    (void)state;
    struct mob_module_hash one = mob_module_hash("one", 3), two = mob_module_hash("two", 3);
    struct mob_function_id a = mob_function_id(one, "add"), same = mob_function_id(one, "add");
    struct mob_function_id b = mob_function_id(one, "sub"), c = mob_function_id(two, "add");
    assert_memory_equal(&a, &same, sizeof a);
    assert_memory_not_equal(&a, &b, sizeof a);
    assert_memory_not_equal(&a, &c, sizeof a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(crc32c_gives_the_known_values),
        cmocka_unit_test(crc32c_of_every_length_and_alignment),
        cmocka_unit_test(xxh3_gives_the_known_values),
        cmocka_unit_test(module_hash_is_blake2b_256),
        cmocka_unit_test(function_ids_depend_on_module_and_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
