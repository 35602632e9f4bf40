#include "runtime/node/watches.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

enum { MANY = 100000, SLOTS = 5 };

static struct mob_object_id object(uint32_t index)
{
    struct mob_task_id task = {.index = index};
    memset(&task.stream, 7, sizeof task.stream);
    return (struct mob_object_id){.task = task};
}

static void fill(struct watch_table *table)
{
    for (uint32_t i = 0; i < MANY; i++)
        watch_table_add(table, object(i), i % SLOTS, 1)->request = i;
}

static void each_is_taken_once(void **state)
{
    (void)state;
    struct watch_table *table = watch_table_create();
    struct watch watch;
    fill(table);
    watch_table_add(table, object(17), 3, 2);
    for (uint32_t i = 0; i < MANY; i++) {
        assert_true(watch_table_has(table, object(i)));
        if (i == 17) { /* the newest first */
            assert_true(watch_table_take(table, object(i), &watch));
            assert_int_equal(watch.session, 2);
        }
        assert_true(watch_table_take(table, object(i), &watch));
        assert_true(mob_object_id_eq(watch.id, object(i)));
        assert_int_equal(watch.request, i);
        assert_false(watch_table_take(table, object(i), &watch));
        assert_false(watch_table_has(table, object(i)));
    }
    assert_int_equal(table->count, 0);
    watch_table_destroy(table);
}

static void a_client_takes_its_own_along(void **state)
{
    (void)state;
    struct watch_table *table = watch_table_create();
    fill(table);
    watch_table_drop(table, 2, 0); /* an earlier session of that slot */
    assert_int_equal(table->count, MANY);
    watch_table_drop(table, 2, 1);
    for (uint32_t i = 0; i < MANY; i++)
        assert_int_equal(watch_table_has(table, object(i)), i % SLOTS != 2);
    watch_table_destroy(table);
}

/* Whoever goes through all of it afterwards goes through little. */
static void it_is_as_large_as_what_is_watched(void **state)
{
    (void)state;
    struct watch_table *table = watch_table_create();
    struct watch watch;
    fill(table);
    assert_true(table->mask >= MANY / 2);
    for (uint32_t i = 0; i < MANY - 10; i++)
        assert_true(watch_table_take(table, object(i), &watch));
    assert_int_equal(table->mask, WATCH_BUCKETS_MIN - 1);
    for (uint32_t i = MANY - 10; i < MANY; i++)
        assert_true(watch_table_has(table, object(i)));
    fill(table);
    for (uint32_t slot = 0; slot < SLOTS; slot++)
        watch_table_drop(table, slot, 1);
    assert_int_equal(table->count, 0);
    assert_int_equal(table->mask, WATCH_BUCKETS_MIN - 1);
    watch_table_destroy(table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_is_taken_once),
        cmocka_unit_test(a_client_takes_its_own_along),
        cmocka_unit_test(it_is_as_large_as_what_is_watched),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
