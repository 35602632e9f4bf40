/* What a shadow is to make: a set that does not slow down as it grows. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "runtime/node/shadow_wants.h"

static struct mob_object_id result(uint32_t index)
{
    return mob_object_of((struct mob_task_id){{{9, 8, 7}}, index}, 0);
}

static void each_object_is_wanted_once(void **state)
{
    (void)state;
    struct shadow_wants wants = {0};
    struct shadow_range range = shadow_wants_range(&wants);
    assert_true(range.first == UINT64_MAX && range.least == UINT64_MAX);
    assert_int_equal(range.upto, 0);
    assert_true(shadow_wants_add(&wants, result(1), 5, NULL));
    assert_true(shadow_wants_add(&wants, result(2), 3, NULL));
    assert_false(shadow_wants_add(&wants, result(1), 5, NULL));
    assert_true(shadow_wants_add(&wants, mob_object_of(result(1).task, 1), 5, NULL)); /* its other return */
    assert_int_equal(wants.count, 3);
    range = shadow_wants_range(&wants);
    assert_int_equal(range.first, 3);
    assert_int_equal(range.least, 4);
    assert_int_equal(range.upto, 6);
    shadow_wants_fini(&wants);
    assert_null(wants.first);
}

/* As after each run of a shadow. */
static void what_is_taken_off_can_be_wanted_again(void **state)
{
    (void)state;
    enum { COUNT = 1000 };
    struct shadow_wants wants = {0};
    for (uint32_t i = 0; i < COUNT; i++)
        assert_true(shadow_wants_add(&wants, result(i), i, NULL));
    struct shadow_want *all = shadow_wants_take(&wants);
    assert_int_equal(wants.count, 0);
    for (struct shadow_want *next; all; all = next) {
        next = all->next;
        if (all->position % 2 == 0)
            shadow_wants_put(&wants, all);
        else
            shadow_want_free(all);
    }
    assert_int_equal(wants.count, COUNT / 2);
    for (uint32_t i = 0; i < COUNT; i++)
        assert_int_equal(shadow_wants_add(&wants, result(i), i, NULL), i % 2);
    shadow_wants_fini(&wants);
}

/* All results of an actor that was called for hours. In a list this is minutes. */
static void a_million_are_no_more_work_each_than_a_few(void **state)
{
    (void)state;
    enum { COUNT = 1000000 };
    struct shadow_wants wants = {0};
    for (int again = 0; again < 2; again++)
        for (uint32_t i = 0; i < COUNT; i++)
            if (shadow_wants_add(&wants, result(i), i, NULL) != (again == 0))
                fail_msg("%u, %d", i, again);
    assert_int_equal(wants.count, COUNT);
    shadow_wants_fini(&wants);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_object_is_wanted_once),
        cmocka_unit_test(what_is_taken_off_can_be_wanted_again),
        cmocka_unit_test(a_million_are_no_more_work_each_than_a_few),
    };
    return cmocka_run_group_tests_name("runtime/shadow_wants", tests, NULL, NULL);
}
