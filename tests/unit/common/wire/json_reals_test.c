#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "common/wire/json_reals.h"
#include "tests/support/xorshift.h"

static void reals_have_no_more_digits_than_they_need(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"0.10000000000000001", "0.1"},
        {"-9.9999999999999992e22", "-1e+23"},
        {"[1.1000000000000001,{\"a\":9.0000000000000000e15}]", "[1.1,{\"a\":9e+15}]"},
        {"1000000000000000.0", "1e+15"},
        {"0.30000000000000004", "0.30000000000000004"}, /* needs all of them */
        {"4.9406564584124654e-324", "4.94065645841247e-324"},
        {"9223372036854775807", "9223372036854775807"}, /* no f64 */
        {"{\"0.10000000000000001\":\"\\\"0.10000000000000001\"}",
            "{\"0.10000000000000001\":\"\\\"0.10000000000000001\"}"},
        {"\"0.10000000000000001", "\"0.10000000000000001"}, /* no JSON */
        {"\"\\", "\"\\"},
        {"[true, null,false ]", "[true, null,false ]"},
        {"", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[128];
        snprintf(text, sizeof text, "%s", cases[i][0]);
        mob_json_shorten_reals(text);
        assert_string_equal(text, cases[i][1]);
    }
}

static void each_real_stays_the_same(void **state)
{
    (void)state;
    uint64_t seed = 7;
    for (int i = 0; i < 20000; i++) {
        uint64_t bits = xorshift(&seed);
        double v, back;
        char text[64];
        memcpy(&v, &bits, sizeof v);
        if (v != v || v - v != 0)
            continue;
        snprintf(text, sizeof text, "%.17g", v);
        if (!strpbrk(text, ".e"))
            continue;
        mob_json_shorten_reals(text);
        back = strtod(text, NULL);
        assert_memory_equal(&back, &v, sizeof v);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reals_have_no_more_digits_than_they_need),
        cmocka_unit_test(each_real_stays_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
