/* Keys in order, against a plain sorted model; incarnations by id. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "gcs/chain/state.h"

#define KEYS 2000

static uint64_t rng = 12345;
static uint64_t random_below(uint64_t n)
{
    rng = rng * 6364136223846793005ull + 1442695040888963407ull;
    return (rng >> 33) % n;
}

static uint32_t key_of(unsigned i, char *out)
{
    return (uint32_t)snprintf(out, 32, "%c/%u", 'a' + i % 3, i * 7919 % 1000);
}

static int by_text(const void *a, const void *b)
{
    return strcmp(a, b);
}

static void keys_behave_like_a_sorted_map(void **state)
{
    (void)state;
    struct mob_state *s = mob_state_create();
    size_t empty = mob_state_bytes(s);
    static uint64_t version[KEYS];
    memset(version, 0, sizeof version);
    static uint8_t value[5000];
    for (uint64_t i = 1; i < 60000; i++) {
        char key[32];
        unsigned k = (unsigned)random_below(KEYS);
        uint32_t length = key_of(k, key);
        if (random_below(3) == 0) {
            mob_state_remove(s, MOB_GCS_JOBS, (uint8_t *)key, length);
            version[k] = 0;
        } else {
            uint32_t size = (uint32_t)(random_below(20) == 0 ? 3000 : random_below(50));
            struct mob_gcs_kv kv = {(uint8_t *)key, value, length, size, i};
            assert_int_equal(mob_state_set(s, MOB_GCS_JOBS, &kv), MOB_OK);
            version[k] = i;
        }
        struct mob_state_key found;
        bool there = mob_state_get(s, MOB_GCS_JOBS, (uint8_t *)key, length, &found);
        assert_int_equal(there, version[k] != 0);
        if (there)
            assert_int_equal(found.version, version[k]);
    }
    char sorted[KEYS][32];
    unsigned n = 0, seen = 0;
    for (unsigned k = 0; k < KEYS; k++)
        if (version[k] != 0 && 'a' + k % 3 == 'b')
            key_of(k, sorted[n++]);
    qsort(sorted, n, sizeof sorted[0], by_text);
    char after[32];
    uint32_t after_length = 0;
    struct mob_state_key row;
    while (mob_state_next(s, MOB_GCS_JOBS, (uint8_t *)"b/", 2, (uint8_t *)after, after_length, &row)) {
        assert_int_equal(row.length - 1, strlen(sorted[seen]));
        assert_memory_equal(row.bytes + 1, sorted[seen], row.length - 1);
        after_length = row.length - 1;
        memcpy(after, row.bytes + 1, after_length);
        seen++;
    }
    assert_int_equal(seen, n);
    assert_false(mob_state_next(s, MOB_GCS_KV, NULL, 0, NULL, 0, &row));
    for (unsigned k = 0; k < KEYS; k++) {
        char key[32];
        uint32_t length = key_of(k, key);
        mob_state_remove(s, MOB_GCS_JOBS, (uint8_t *)key, length);
    }
    assert_int_equal(mob_state_keys(s), 0);
    assert_int_equal(mob_state_bytes(s), empty);
    mob_state_destroy(s);
}

static void large_values_leave_only_their_length(void **state)
{
    (void)state;
    struct mob_state *s = mob_state_create();
    uint8_t value[MOB_STATE_INLINE_MAX + 1] = {1};
    struct mob_gcs_kv kv = {(const uint8_t *)"k", value, 1, sizeof value, 1};
    struct mob_state_key row;
    assert_int_equal(mob_state_set(s, MOB_GCS_KV, &kv), MOB_OK);
    assert_true(mob_state_get(s, MOB_GCS_KV, kv.key, 1, &row));
    assert_null(row.value);
    assert_int_equal(row.value_length, sizeof value);
    kv.value_length = MOB_STATE_INLINE_MAX;
    assert_int_equal(mob_state_set(s, MOB_GCS_KV, &kv), MOB_OK);
    assert_true(mob_state_get(s, MOB_GCS_KV, kv.key, 1, &row));
    assert_memory_equal(row.value, value, kv.value_length);
    mob_state_destroy(s);
}

/* A value of the same length takes the old one's memory: what is read, counted and digested must be as if
 * there had never been another. */
static void a_value_that_is_written_again_leaves_nothing_of_the_old_one(void **state)
{
    (void)state;
    static const uint32_t sizes[] = {0, 7, 7, 0, 0, MOB_STATE_INLINE_MAX, MOB_STATE_INLINE_MAX,
        MOB_STATE_INLINE_MAX + 1, MOB_STATE_INLINE_MAX + 1, 7, 512, 512, 511};
    static uint8_t value[MOB_STATE_INLINE_MAX + 1];
    struct mob_state *s = mob_state_create();
    for (uint64_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        struct mob_state *fresh = mob_state_create();
        struct mob_state_key found;
        memset(value, (int)('a' + i), sizeof value);
        struct mob_gcs_kv kv = {(const uint8_t *)"key", value, 3, sizes[i], i + 1};
        assert_int_equal(mob_state_set(s, MOB_GCS_KV, &kv), MOB_OK);
        assert_int_equal(mob_state_set(fresh, MOB_GCS_KV, &kv), MOB_OK);
        assert_true(mob_state_get(s, MOB_GCS_KV, (const uint8_t *)"key", 3, &found));
        assert_int_equal(found.version, i + 1);
        assert_int_equal(found.value_length, sizes[i]);
        assert_int_equal(found.value == NULL, sizes[i] > MOB_STATE_INLINE_MAX);
        if (found.value != NULL)
            assert_memory_equal(found.value, value, sizes[i]);
        assert_int_equal(mob_state_digest(s), mob_state_digest(fresh));
        assert_int_equal(mob_state_bytes(s), mob_state_bytes(fresh));
        mob_state_destroy(fresh);
    }
    mob_state_destroy(s);
}

static void incarnations_are_found_by_id_and_in_order(void **state)
{
    (void)state;
    struct mob_state *s = mob_state_create();
    for (uint64_t id = 1; id <= 100; id++) {
        struct mob_gcs_incarnation row = {.id = id * 3, .state = MOB_GCS_LIVE};
        assert_int_equal(mob_state_register(s, &row), MOB_OK);
    }
    assert_null(mob_state_incarnation(s, 0));
    assert_null(mob_state_incarnation(s, 4));
    assert_int_equal(mob_state_incarnation(s, 30)->id, 30);
    assert_int_equal(mob_state_incarnation_next(s, 0)->id, 3);
    assert_int_equal(mob_state_incarnation_next(s, 30)->id, 33);
    assert_null(mob_state_incarnation_next(s, 300));
    assert_int_equal(mob_state_incarnation_last(s), 300);
    mob_state_destroy(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_behave_like_a_sorted_map),
        cmocka_unit_test(large_values_leave_only_their_length),
        cmocka_unit_test(a_value_that_is_written_again_leaves_nothing_of_the_old_one),
        cmocka_unit_test(incarnations_are_found_by_id_and_in_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
