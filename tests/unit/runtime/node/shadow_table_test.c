#include "runtime/node/shadow_table.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MANY = 20000 };

static struct mob_actor_id actor(uint32_t index)
{
    struct mob_actor_id id = {{.index = index}};
    memset(&id.creation.stream, 7, sizeof id.creation.stream);
    return id;
}

static struct shadow_entry *filled(struct shadow_table *table)
{
    struct shadow_entry *entries = calloc(MANY, sizeof *entries);
    assert_non_null(entries);
    for (uint32_t i = 0; i < MANY; i++)
        shadow_table_add(table, &entries[i], actor(i));
    return entries;
}

static void each_is_found_until_it_is_removed(void **state)
{
    (void)state;
    struct shadow_table table = {0};
    assert_null(shadow_table_find(&table, actor(1)));
    struct shadow_entry *entries = filled(&table);
    for (uint32_t i = 0; i < MANY; i++) {
        uint32_t at = i * 7919 % MANY; /* in no order */
        assert_ptr_equal(shadow_table_find(&table, actor(at)), &entries[at]);
        shadow_table_remove(&table, &entries[at]);
        assert_null(shadow_table_find(&table, actor(at)));
    }
    assert_null(table.first);
    shadow_table_fini(&table);
    free(entries);
}

/* Who looks for one actor's does not go through all of them. */
static void few_stand_before_one(void **state)
{
    (void)state;
    struct shadow_table table = {0};
    struct shadow_entry *entries = filled(&table);
    uint32_t longest = 0, all = 0;
    for (uint32_t b = 0; b < table.bucket_count; b++) {
        uint32_t chain = 0;
        for (const struct shadow_entry *entry = table.buckets[b]; entry; entry = entry->next_of_bucket)
            chain++;
        all += chain;
        longest = chain > longest ? chain : longest;
    }
    assert_int_equal(all, MANY);
    assert_in_range(longest, 1, 32);
    for (uint32_t i = 0; i < MANY; i++)
        shadow_table_remove(&table, &entries[i]);
    shadow_table_fini(&table);
    free(entries);
}

static void those_that_ended_come_in_their_order(void **state)
{
    (void)state;
    struct shadow_table table = {0};
    struct shadow_entry *entries = filled(&table);
    assert_null(shadow_table_take_ended(&table));
    for (int round = 0; round < 2; round++) {
        shadow_table_ended(&table, &entries[9]);
        shadow_table_ended(&table, &entries[3]);
        assert_ptr_equal(shadow_table_take_ended(&table), &entries[9]);
        shadow_table_ended(&table, &entries[9]); /* of another run, meanwhile */
        assert_ptr_equal(shadow_table_take_ended(&table), &entries[3]);
        assert_ptr_equal(shadow_table_take_ended(&table), &entries[9]);
        assert_null(shadow_table_take_ended(&table));
    }
    assert_ptr_equal(shadow_table_find(&table, actor(9)), &entries[9]);
    for (uint32_t i = 0; i < MANY; i++)
        shadow_table_remove(&table, &entries[i]);
    shadow_table_fini(&table);
    free(entries);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_is_found_until_it_is_removed),
        cmocka_unit_test(few_stand_before_one),
        cmocka_unit_test(those_that_ended_come_in_their_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
