#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cli/backoff.h"

#define LONGEST_MS 5000u

static void first_at_once_then_doubling_up_to_the_bound(void **state)
{
    (void)state;
    static const uint32_t expected[] = {0, 100, 200, 400, 800, 1600, 3200, 5000, 5000};
    struct backoff backoff = {.longest_ms = LONGEST_MS};
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++)
        assert_int_equal(backoff_after_death(&backoff, 0), expected[i]);
    for (int i = 0; i < 1000; i++)
        assert_int_equal(backoff_after_death(&backoff, 0), LONGEST_MS);
}

static void one_that_lived_is_forgiven(void **state)
{
    (void)state;
    struct backoff backoff = {.longest_ms = LONGEST_MS};
    for (int i = 0; i < 5; i++)
        backoff_after_death(&backoff, BACKOFF_LIVED_NS - 1);
    assert_int_equal(backoff_after_death(&backoff, BACKOFF_LIVED_NS), 0);
    assert_int_equal(backoff_after_death(&backoff, 0), 100);
}

static void the_bound_may_be_short_or_long(void **state)
{
    (void)state;
    struct backoff brief = {.longest_ms = 20}, slow = {.longest_ms = 60000};
    for (int i = 0; i < 20; i++) {
        assert_int_equal(backoff_after_death(&brief, 0), i == 0 ? 0 : 20);
        assert_in_range(backoff_after_death(&slow, BACKOFF_LIVED_NS), 0, 60000);
    }
    assert_int_equal(slow.failures, 20); /* a pause is never longer than the life that forgives */
    assert_int_equal(backoff_after_death(&slow, 120000000000), 0);
    assert_int_equal(backoff_after_death(&brief, BACKOFF_LIVED_NS - 1), 20);
    assert_int_equal(backoff_after_death(&brief, BACKOFF_LIVED_NS), 0);
}

static void the_count_does_not_wrap(void **state)
{
    (void)state;
    struct backoff backoff = {LONGEST_MS, UINT32_MAX};
    assert_int_equal(backoff_after_death(&backoff, 0), LONGEST_MS);
    assert_int_equal(backoff_after_death(&backoff, 0), LONGEST_MS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(first_at_once_then_doubling_up_to_the_bound),
        cmocka_unit_test(one_that_lived_is_forgiven),
        cmocka_unit_test(the_bound_may_be_short_or_long),
        cmocka_unit_test(the_count_does_not_wrap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
