#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cli/backoff.h"

static void first_at_once_then_doubling_up_to_the_bound(void **state)
{
    (void)state;
    static const uint32_t expected[] = {0, 100, 200, 400, 800, 1600, 3200, 5000, 5000};
    struct backoff backoff = {0};
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++)
        assert_int_equal(backoff_after_death(&backoff, 0), expected[i]);
    for (int i = 0; i < 1000; i++)
        assert_int_equal(backoff_after_death(&backoff, 0), BACKOFF_MAX_MS);
}

static void one_that_lived_is_forgiven(void **state)
{
    (void)state;
    struct backoff backoff = {0};
    for (int i = 0; i < 5; i++)
        backoff_after_death(&backoff, BACKOFF_LIVED_NS - 1);
    assert_int_equal(backoff_after_death(&backoff, BACKOFF_LIVED_NS), 0);
    assert_int_equal(backoff_after_death(&backoff, 0), 100);
}

static void the_count_does_not_wrap(void **state)
{
    (void)state;
    struct backoff backoff = {UINT32_MAX};
    assert_int_equal(backoff_after_death(&backoff, 0), BACKOFF_MAX_MS);
    assert_int_equal(backoff_after_death(&backoff, 0), BACKOFF_MAX_MS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(first_at_once_then_doubling_up_to_the_bound),
        cmocka_unit_test(one_that_lived_is_forgiven),
        cmocka_unit_test(the_count_does_not_wrap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
