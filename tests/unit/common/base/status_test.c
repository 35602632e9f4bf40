/* The status table. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "common/base/status.h"

static void every_status_has_a_code_of_its_own_and_a_text(void **state)
{
    (void)state;
    for (int i = 0; i < MOB_STATUS_COUNT; i++) {
        enum mob_status status = (enum mob_status)i;
        const char *code = mob_status_code(status);
        assert_string_not_equal(code, "unknown");
        assert_true(strlen(mob_status_text(status)) > 0);
        assert_int_equal(mob_status_from_code(code), status);
        for (const char *c = code; *c; c++)
            if (!((*c >= 'a' && *c <= 'z') || *c == '-'))
                fail_msg("%s is not a code", code);
    }
}

static void http_statuses_are_errors_except_ok(void **state)
{
    (void)state;
    assert_int_equal(mob_status_http(MOB_OK), 200);
    for (int i = 1; i < MOB_STATUS_COUNT; i++)
        assert_in_range(mob_status_http((enum mob_status)i), 400, 599);
}

/* They are written to lineage: a number must never get another meaning. */
static void numbers_stay_as_they_were(void **state)
{
    (void)state;
    static const struct {
        int number;
        const char *code;
    } fixed[] = {{0, "ok"}, {1, "invalid-argument"}, {11, "corrupt"}, {17, "cancelled"}, {19, "task-failed"},
        {20, "worker-died"}, {23, "replay-diverged"}, {38, "closed"}, {43, "internal"}, {50, "again"}};
    for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++)
        assert_string_equal(mob_status_code((enum mob_status)fixed[i].number), fixed[i].code);
}

static void unknown_numbers_and_codes_are_harmless(void **state)
{
    (void)state;
    assert_string_equal(mob_status_code((enum mob_status)9999), "unknown");
    assert_int_equal(mob_status_http((enum mob_status)(-1)), 500);
    assert_int_equal(mob_status_from_code("no-such-code"), MOB_INTERNAL);
    assert_int_equal(mob_status_from_code(""), MOB_INTERNAL);
}

static void backpressure_may_be_tried_again_and_bad_input_not(void **state)
{
    (void)state;
    assert_true(mob_status_retryable(MOB_GCS_FULL));
    assert_true(mob_status_retryable(MOB_QUEUE_FULL));
    assert_true(mob_status_retryable(MOB_UNAVAILABLE));
    assert_false(mob_status_retryable(MOB_INVALID));
    assert_false(mob_status_retryable(MOB_TASK_FAILED));
    assert_int_equal(mob_status_scope(MOB_CORRUPT), MOB_SCOPE_peer);
    assert_int_equal(mob_status_scope(MOB_SEGMENT_DAMAGED), MOB_SCOPE_node);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_status_has_a_code_of_its_own_and_a_text),
        cmocka_unit_test(http_statuses_are_errors_except_ok),
        cmocka_unit_test(numbers_stay_as_they_were),
        cmocka_unit_test(unknown_numbers_and_codes_are_harmless),
        cmocka_unit_test(backpressure_may_be_tried_again_and_bad_input_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
