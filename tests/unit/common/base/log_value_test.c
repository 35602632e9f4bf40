/* What others wrote, as a value of a log line. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/log_value.h"

static void quotes_are_escaped_and_control_characters_are_blanks(void **state)
{
    (void)state;
    char out[64];
    assert_string_equal(mob_log_value("", out, sizeof out), "");
    assert_string_equal(mob_log_value("pid=3 why=\"it died\"", out, sizeof out), "pid=3 why=\\\"it died\\\"");
    assert_string_equal(mob_log_value("a\\b\tc\x1b[0m\x7f", out, sizeof out), "a\\\\b c [0m ");
    assert_string_equal(mob_log_value("gr\xc3\xbc\xc3\x9f", out, sizeof out), "gr\xc3\xbc\xc3\x9f");
}

static void what_does_not_fit_is_cut_between_characters(void **state)
{
    (void)state;
    char out[8];
    assert_string_equal(mob_log_value("1234567", out, sizeof out), "1234567");
    assert_string_equal(mob_log_value("12345678", out, sizeof out), "1234567");
    assert_string_equal(mob_log_value("123456\"", out, sizeof out), "123456"); /* no room for both of it */
    assert_string_equal(mob_log_value("12345\xe2\x82\xac", out, sizeof out), "12345");
    assert_string_equal(mob_log_value("1234\xe2\x82\xac\xe2\x82\xac", out, sizeof out), "1234\xe2\x82\xac");
    assert_string_equal(
        mob_log_value("12345\"\xac", out, sizeof out), "12345\\\""); /* torn text after a pair */
    assert_string_equal(mob_log_value("\"", out, 2), "");
    assert_string_equal(mob_log_value("x", out, 1), "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(quotes_are_escaped_and_control_characters_are_blanks),
        cmocka_unit_test(what_does_not_fit_is_cut_between_characters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
