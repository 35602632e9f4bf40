#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "server/api/range.h"

static void ranges_are_cut_to_the_size(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t size;
        enum mob_range_result result;
        size_t first, length;
    } cases[] = {
        {"bytes=0-0", 10, MOB_RANGE_PART, 0, 1},
        {"bytes=0-", 10, MOB_RANGE_PART, 0, 10},
        {"Bytes=1-1", 10, MOB_RANGE_PART, 1, 1},
        {"bytes=3-5", 10, MOB_RANGE_PART, 3, 3},
        {"bytes=9-100", 10, MOB_RANGE_PART, 9, 1},
        {"bytes=-3", 10, MOB_RANGE_PART, 7, 3},
        {"bytes=-30", 10, MOB_RANGE_PART, 0, 10},
        {"bytes=0-99999999999999999999999", 10, MOB_RANGE_PART, 0, 10},
        {"bytes=10-", 10, MOB_RANGE_OUTSIDE, 0, 0},
        {"bytes=99999999999999999999999-", 10, MOB_RANGE_OUTSIDE, 0, 0},
        {"bytes=-0", 10, MOB_RANGE_OUTSIDE, 0, 0},
        {"bytes=0-", 0, MOB_RANGE_OUTSIDE, 0, 0},
        {"bytes=-1", 0, MOB_RANGE_OUTSIDE, 0, 0},
        {"bytes=5-3", 10, MOB_RANGE_WHOLE, 0, 0},
        {"bytes=1-2,4-5", 10, MOB_RANGE_WHOLE, 0, 0},
        {"bytes=-", 10, MOB_RANGE_WHOLE, 0, 0},
        {"bytes=x", 10, MOB_RANGE_WHOLE, 0, 0},
        {"lines=1-2", 10, MOB_RANGE_WHOLE, 0, 0},
        {"", 10, MOB_RANGE_WHOLE, 0, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct mob_range range = {0, 0};
        enum mob_range_result result = mob_range_parse(cases[i].text, cases[i].size, &range);
        if (result != cases[i].result || range.first != cases[i].first || range.length != cases[i].length)
            fail_msg(
                "%s of %zu: %d %zu %zu", cases[i].text, cases[i].size, result, range.first, range.length);
    }
}

static void tags_are_found_in_lists(void **state)
{
    (void)state;
    assert_true(mob_etag_listed("\"a\"", "\"a\"", false));
    assert_true(mob_etag_listed("\"b\", W/\"a\"", "\"a\"", false));
    assert_true(mob_etag_listed("*", "\"a\"", false));
    assert_false(mob_etag_listed("\"ab\"", "\"a\"", false));
    assert_false(mob_etag_listed("", "\"a\"", false));
    assert_false(mob_etag_listed("W/\"a\"", "\"a\"", true));
    assert_true(mob_etag_listed("W/\"a\", \"a\"", "\"a\"", true));
    assert_true(mob_etag_listed("*", "\"a\"", true));
    assert_false(mob_etag_listed("\"b,*\"", "\"a\"", true));
    assert_false(mob_etag_listed("\"b,\"a\"", "\"a\"", true));
    assert_true(mob_etag_listed("\"b,c\",\"a\"", "\"a\"", true));
    assert_false(mob_etag_listed("\"b", "\"a\"", true));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranges_are_cut_to_the_size),
        cmocka_unit_test(tags_are_found_in_lists),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
