#include "server/http/trace_context.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define TRACE "0af7651916cd43dd8448eb211c80319c"
#define PARENT "b7ad6b7169203331"
#define GOOD "00-" TRACE "-" PARENT "-01"

static void well_formed_headers_are_carried_on(void **state)
{
    char out[MOB_TRACEPARENT_BYTES + 1];
    (void)state;
    assert_true(mob_traceparent_take(GOOD, out));
    assert_string_equal(out, GOOD);
    assert_true(mob_traceparent_take("00-" TRACE "-" PARENT "-ff", out));
    assert_string_equal(out, "00-" TRACE "-" PARENT "-ff");
}

static void later_versions_are_carried_on_in_the_known_one(void **state)
{
    static const char *const later[] = {"01-" TRACE "-" PARENT "-01",
        "cc-" TRACE "-" PARENT "-01-what-comes-later", "fe-" TRACE "-" PARENT "-01-"};
    char out[MOB_TRACEPARENT_BYTES + 1];
    (void)state;
    for (size_t i = 0; i < sizeof later / sizeof *later; i++) {
        assert_true(mob_traceparent_take(later[i], out));
        assert_string_equal(out, GOOD);
    }
}

static void malformed_headers_count_as_none(void **state)
{
    static const char *const bad[] = {"", "00", "banana", "00-" TRACE "-" PARENT, "00-" TRACE "-" PARENT "-0",
        "00-" TRACE "-" PARENT "-01-more", GOOD "x", " " GOOD, GOOD " ", "ff-" TRACE "-" PARENT "-01",
        "00-00000000000000000000000000000000-" PARENT "-01", "00-" TRACE "-0000000000000000-01",
        "00-0AF7651916CD43DD8448EB211C80319C-" PARENT "-01", "00-" TRACE "-B7AD6B7169203331-01",
        "0x-" TRACE "-" PARENT "-01", "00-" TRACE "-" PARENT "-0g", "00_" TRACE "-" PARENT "-01",
        "00-" TRACE "_" PARENT "-01", "00-" TRACE "-" PARENT "_01", "01-" TRACE "-" PARENT "-01x",
        "00-" TRACE PARENT "--01"};
    char out[MOB_TRACEPARENT_BYTES + 1];
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (mob_traceparent_take(bad[i], out))
            fail_msg("taken: %s", bad[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(well_formed_headers_are_carried_on),
        cmocka_unit_test(later_versions_are_carried_on_in_the_known_one),
        cmocka_unit_test(malformed_headers_count_as_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
