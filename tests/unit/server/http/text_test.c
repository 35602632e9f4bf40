#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "server/http/text.h"

#define assert_text(expected, ...) \
    do { \
        struct mob_text t = {0}; \
        size_t n; \
        __VA_ARGS__; \
        char *text_ = mob_text_take(&t, &n); \
        assert_string_equal(text_, expected); \
        free(text_); \
    } while (0)

static void numbers_read_back(void **state)
{
    (void)state;
    assert_text("0", mob_text_u64(&t, 0));
    assert_text("18446744073709551615", mob_text_u64(&t, UINT64_MAX));
    assert_text("-9223372036854775808", mob_text_i64(&t, INT64_MIN));
    assert_text("3.0", mob_text_f64(&t, 3));
    assert_text("-0.0", mob_text_f64(&t, -0.0));
    assert_text("0.1", mob_text_f64(&t, 0.1));
    assert_text("null", mob_text_f64(&t, NAN));
    assert_text("0.1", mob_text_f32(&t, 0.1f));
    double hard[] = {1e300, 5e-324, 0.1 + 0.2, 1.0 / 3, 123456789.123456789, 1e15, 1e22};
    for (size_t i = 0; i < sizeof hard / sizeof *hard; i++) {
        struct mob_text t = {0};
        size_t n;
        mob_text_f64(&t, hard[i]);
        char *text = mob_text_take(&t, &n);
        assert_true(strtod(text, NULL) == hard[i]);
        free(text);
    }
}

static void strings_are_escaped_and_made_utf8(void **state)
{
    (void)state;
    assert_text("\"a\\\"\\\\\\n\\u0001\"", mob_text_json_cstring(&t, "a\"\\\n\x01"));
    assert_text("\"\xc3\xa4\"", mob_text_json_cstring(&t, "\xc3\xa4"));
    assert_text("\"\xef\xbf\xbdx\"", mob_text_json_string(&t, "\xc3x", 2));
    assert_text("\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"", mob_text_json_string(&t, "\xed\xa0\x80", 3));
    assert_text("\"\\u0000\"", mob_text_json_string(&t, "", 1));
}

static void base64_has_its_padding(void **state)
{
    (void)state;
    assert_text("", mob_text_base64(&t, "", 0));
    assert_text("Zg==", mob_text_base64(&t, "f", 1));
    assert_text("Zm8=", mob_text_base64(&t, "fo", 2));
    assert_text("Zm9vYmFy", mob_text_base64(&t, "foobar", 6));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_read_back),
        cmocka_unit_test(strings_are_escaped_and_made_utf8),
        cmocka_unit_test(base64_has_its_padding),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
