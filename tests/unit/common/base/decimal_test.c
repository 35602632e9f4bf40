/* Decimal numbers, and what strtoll and strtod would take for one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/decimal.h"

static void whole_numbers_are_digits(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t length;
        int64_t value;
    } cases[] = {{"0", 1, 0}, {"007", 3, 7}, {"12x", 2, 12}, {"0x10", 1, 0}, {"1e5", 1, 1}, {"5 ", 1, 5},
        {"9223372036854775807", 19, INT64_MAX}, {"9223372036854775808", 0, -1},
        {"99999999999999999999999999", 0, -1}, {"", 0, -1}, {" 5", 0, -1}, {"\t5", 0, -1}, {"+5", 0, -1},
        {"-5", 0, -1}, {"x", 0, -1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int64_t value = -1;
        size_t length = mob_decimal_int(cases[i].text, &value);
        if (length != cases[i].length || value != cases[i].value)
            fail_msg("%s: %zu characters, %lld", cases[i].text, length, (long long)value);
    }
}

static void fractions_have_digits_on_both_sides(void **state)
{
    (void)state;
    static const char sixty_four[] = "0000000000000000000000000000000000000000000000000000000000000001";
    static const struct {
        const char *text;
        size_t length;
        double value;
    } cases[] = {{"0", 1, 0}, {"2.5", 3, 2.5}, {"2.", 1, 2}, {"0x10", 1, 0}, {"1e5", 1, 1}, {"1.5e5", 3, 1.5},
        {"1.2.3", 3, 1.2}, {"20;", 2, 20}, {"100000000000000000000", 21, 1e20}, {sixty_four + 1, 63, 1},
        {sixty_four, 0, -1}, {".5", 0, -1}, {"", 0, -1}, {" 5", 0, -1}, {"+5", 0, -1}, {"-5", 0, -1},
        {"inf", 0, -1}, {"nan", 0, -1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        double value = -1;
        size_t length = mob_decimal_fraction(cases[i].text, &value);
        if (length != cases[i].length || value != cases[i].value)
            fail_msg("%s: %zu characters, %g", cases[i].text, length, value);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_numbers_are_digits),
        cmocka_unit_test(fractions_have_digits_on_both_sides),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
