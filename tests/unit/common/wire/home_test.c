/* Ids of incarnations name their homes, and what a new node's home is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "common/wire/home.h"
#include "common/wire/recover_row.h"

static void id_names_its_home_and_is_the_lowest_that_does(void **state)
{
    (void)state;
    for (uint64_t shards = 0; shards <= 4; shards++)
        for (uint64_t home = 0; home == 0 || home < shards; home++)
            for (uint64_t least = 1; least < 20; least++) {
                uint64_t id = mob_home_first_id(least, home, shards);
                assert_int_equal(mob_home_of_id(id, shards), home);
                assert_in_range(id, least, least + (shards < 2 ? 0 : shards - 1));
            }
}

static void one_shard_has_all(void **state)
{
    (void)state;
    assert_int_equal(mob_home_first_id(7, 3, 1), 7);
    assert_int_equal(mob_home_of_id(7, 1), 0);
    assert_int_equal(mob_home_of_key(2, "key", 3, 0), 0);
}

static void keys_are_spread_over_all_shards(void **state)
{
    (void)state;
    uint8_t key[MOB_RECOVER_KEY_BYTES];
    uint32_t seen[3] = {0};
    for (uint64_t incarnation = 1; incarnation <= 300; incarnation++) {
        mob_recover_key(incarnation, key);
        uint32_t shard = mob_home_of_key(1, key, sizeof key, 3);
        assert_in_range(shard, 0, 2);
        assert_int_equal(shard, mob_home_of_key(4, key, sizeof key, 3)); /* the table's number is added */
        seen[shard]++;
    }
    for (uint32_t i = 0; i < 3; i++)
        assert_in_range(seen[i], 60, 140);
}

/* Another hash would look for what is in a data directory where it is not. */
static void keys_stay_where_they_are(void **state)
{
    (void)state;
    static const char *const keys[3] = {"a", "name/x", "recover/"};
    static const uint32_t shards[3][3] = {{1, 1, 1}, {1, 0, 1}, {0, 0, 0}}; /* of 2, 3 and 4 */
    for (uint32_t i = 0; i < 3; i++)
        for (uint32_t k = 0; k < 3; k++)
            assert_int_equal(mob_home_of_key(6, keys[i], (uint32_t)strlen(keys[i]), k + 2), shards[i][k]);
}

static void new_node_goes_where_the_fewest_have_their_home(void **state)
{
    (void)state;
    assert_int_equal(mob_home_with_fewest((uint64_t[]){2, 1, 1}, 3), 1);
    assert_int_equal(mob_home_with_fewest((uint64_t[]){0, 0, 0}, 3), 0);
    assert_int_equal(mob_home_with_fewest((uint64_t[]){1, 1, 0}, 3), 2);
    assert_int_equal(mob_home_with_fewest((uint64_t[]){5}, 1), 0);
}

static void record_is_taken_over_from_an_earlier_incarnation_only(void **state)
{
    (void)state;
    struct mob_recover_row row = {.by = 5};
    assert_int_equal(mob_recover_row_take_over(&row, &(struct mob_recover_row){.by = 6}), MOB_SEALED);
    assert_int_equal(
        mob_recover_row_take_over(&row, &(struct mob_recover_row){.by = 5, .takeovers = 4}), MOB_OK);
    assert_int_equal(row.taken_from, 0);
    assert_int_equal(row.takeovers, 0);
    assert_int_equal(
        mob_recover_row_take_over(&row, &(struct mob_recover_row){.by = 3, .takeovers = 1}), MOB_OK);
    assert_int_equal(row.taken_from, 3);
    assert_int_equal(row.takeovers, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(id_names_its_home_and_is_the_lowest_that_does),
        cmocka_unit_test(one_shard_has_all),
        cmocka_unit_test(keys_are_spread_over_all_shards),
        cmocka_unit_test(keys_stay_where_they_are),
        cmocka_unit_test(new_node_goes_where_the_fewest_have_their_home),
        cmocka_unit_test(record_is_taken_over_from_an_earlier_incarnation_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
