/* What the node keeps of values that look-ups came by. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "runtime/node/value_cache.h"

static struct mob_object_id put_id(uint32_t counter)
{
    struct mob_task_id task = {{{9, 8, 7}}, 0};
    return mob_object_of(task, MOB_SLOT_PUT | counter);
}

static void note(struct value_cache *cache, struct mob_object_id id, int64_t n)
{
    value_cache_note(cache, id, MOB_TYPE_I64, (const uint8_t *)&n, sizeof n);
}

static int64_t found(const struct value_cache *cache, struct mob_object_id id)
{
    enum mob_value_type type;
    uint32_t bytes;
    int64_t n = -1;
    const uint8_t *payload = value_cache_find(cache, id, &type, &bytes);
    if (!payload)
        return -1;
    assert_int_equal(type, MOB_TYPE_I64);
    assert_int_equal(bytes, sizeof n);
    memcpy(&n, payload, sizeof n);
    return n;
}

static void neighbours_are_kept_side_by_side(void **state)
{
    (void)state;
    struct value_cache *cache = value_cache_create();
    assert_int_equal(found(cache, put_id(0)), -1);
    for (uint32_t i = 0; i < 8192; i++)
        note(cache, put_id(i), i);
    for (uint32_t i = 0; i < 8192; i++)
        assert_int_equal(found(cache, put_id(i)), i);
    note(cache, put_id(8192), 8192); /* takes the place of the first */
    assert_int_equal(found(cache, put_id(0)), -1);
    assert_int_equal(found(cache, put_id(8192)), 8192);
    value_cache_destroy(cache);
}

static void the_first_value_of_an_id_stands(void **state)
{
    (void)state;
    struct value_cache *cache = value_cache_create();
    note(cache, put_id(5), 1);
    note(cache, put_id(5), 2);
    assert_int_equal(found(cache, put_id(5)), 1);
    value_cache_clear(cache);
    assert_int_equal(found(cache, put_id(5)), -1);
    note(cache, put_id(5), 3);
    assert_int_equal(found(cache, put_id(5)), 3);
    value_cache_destroy(cache);
    value_cache_destroy(NULL);
}

static void what_is_large_or_no_value_is_not_kept(void **state)
{
    (void)state;
    struct value_cache *cache = value_cache_create();
    uint8_t bytes[VALUE_CACHE_BYTES_MAX + 1] = {0};
    enum mob_value_type type;
    uint32_t size;
    value_cache_note(cache, put_id(1), MOB_TYPE_BYTES, bytes, sizeof bytes);
    value_cache_note(cache, put_id(2), MOB_TYPE_NONE, bytes, 1);
    value_cache_note(cache, put_id(3), MOB_TYPE_BYTES, bytes, VALUE_CACHE_BYTES_MAX);
    value_cache_note(cache, put_id(4), MOB_TYPE_NULL, NULL, 0);
    assert_null(value_cache_find(cache, put_id(1), &type, &size));
    assert_null(value_cache_find(cache, put_id(2), &type, &size));
    assert_non_null(value_cache_find(cache, put_id(3), &type, &size));
    assert_non_null(value_cache_find(cache, put_id(4), &type, &size));
    assert_int_equal(size, 0);
    value_cache_destroy(cache);
}

/* Bytes that say whose they are. */
static void fill(uint8_t *bytes, uint32_t size, uint32_t seed)
{
    for (uint32_t i = 0; i < size; i++)
        bytes[i] = (uint8_t)(seed * 31 + i);
}

static bool holds(const struct value_cache *cache, uint32_t counter, uint32_t size)
{
    enum mob_value_type type;
    uint32_t bytes;
    uint8_t wanted[VALUE_CACHE_BYTES_MAX];
    const uint8_t *payload = value_cache_find(cache, put_id(counter), &type, &bytes);
    if (!payload)
        return false;
    fill(wanted, size, counter);
    assert_int_equal(bytes, size);
    assert_memory_equal(payload, wanted, size);
    return true;
}

/* 4 MiB of them: of values of 2,000 bytes some 2,000. Sizes that do not divide the ring, so that pieces end
 * before it. */
static void the_oldest_bytes_go_first(void **state)
{
    (void)state;
    struct value_cache *cache = value_cache_create();
    uint8_t bytes[2000];
    for (uint32_t i = 0; i < 7000; i++) {
        fill(bytes, sizeof bytes, i);
        value_cache_note(cache, put_id(i), MOB_TYPE_BYTES, bytes, sizeof bytes);
        assert_true(holds(cache, i, sizeof bytes));
        assert_int_equal(holds(cache, i < 2100 ? i : i - 2100, sizeof bytes), i < 2100);
    }
    for (uint32_t i = 7000 - 2080; i < 7000; i++)
        assert_true(holds(cache, i, sizeof bytes));
    fill(bytes, sizeof bytes, 10);
    value_cache_note(cache, put_id(10), MOB_TYPE_BYTES, bytes, sizeof bytes); /* had gone: is taken anew */
    assert_true(holds(cache, 10, sizeof bytes));
    value_cache_drop(cache, put_id(10));
    assert_false(holds(cache, 10, sizeof bytes));
    value_cache_destroy(cache);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(neighbours_are_kept_side_by_side),
        cmocka_unit_test(the_first_value_of_an_id_stands),
        cmocka_unit_test(what_is_large_or_no_value_is_not_kept),
        cmocka_unit_test(the_oldest_bytes_go_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
