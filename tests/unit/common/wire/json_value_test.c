/* How JSON maps to values and back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "common/wire/completion.h"
#include "common/wire/failure_json.h"
#include "common/wire/json_value.h"

#define OBJ "obj_aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define ACTOR "actor_aaaaaaaaaaaaaaaaaaaaaaaaaa"

static char message[512];

/* JSON of the value that `json` becomes under the first param of `signature`: "type JSON", or the error's
 * text. */
static const char *mapped(const char *signature, const char *json)
{
    struct mob_signature s;
    struct mob_signature_error e;
    struct mob_json_value v = {0};
    assert_int_equal(mob_signature_parse(signature, strlen(signature), &s, &e), MOB_OK);
    enum mob_status status = mob_value_from_json(json, strlen(json), &s, &s.params[0], 1 << 16, &v, &e);
    if (status != MOB_OK) {
        snprintf(message, sizeof message, "%s: %s", mob_status_code(status), e.message);
        return message;
    }
    if (v.arg.is_ref) {
        mob_json_value_fini(&v);
        return "ref";
    }
    assert_int_equal(mob_signature_check_args(&s, &v.arg, 1, NULL), MOB_OK);
    char *text;
    uint64_t length;
    assert_int_equal(
        mob_value_to_json(v.arg.type, v.arg.payload, v.arg.payload_bytes, 1 << 16, &text, &length), MOB_OK);
    snprintf(message, sizeof message, "%s %s", mob_value_type_name(v.arg.type), text);
    assert_int_equal(strlen(text), length);
    free(text);
    mob_json_value_fini(&v);
    return message;
}

struct mapping {
    const char *signature, *json, *want;
};

static void check_all(const struct mapping *cases, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const char *got = mapped(cases[i].signature, cases[i].json);
        if (strcmp(got, cases[i].want) != 0)
            fail_msg("%s of %s: got <%s>, want <%s>", cases[i].signature, cases[i].json, got, cases[i].want);
    }
}
#define CHECK_ALL(cases) check_all(cases, sizeof cases / sizeof *cases)

static void numbers_follow_the_declared_type(void **state)
{
    (void)state;
    static const struct mapping cases[] = {
        {"i64 a -> ()", "12", "i64 12"},
        {"i64 a -> ()", "-9223372036854775808", "i64 -9223372036854775808"},
        {"i64 a -> ()", "9223372036854775807", "i64 9223372036854775807"},
        {"i64 a -> ()", "9223372036854775808",
            "type-mismatch: a: expected i64, found an integer out of range"},
        {"i64 a -> ()", "1.0", "i64 1"},
        {"i64 a -> ()", "1e3", "i64 1000"},
        {"i64 a -> ()", "-2.50E+1", "i64 -25"},
        {"i64 a -> ()", "1200e-2", "i64 12"},
        {"i64 a -> ()", "0.000e-999999999999999999999", "i64 0"},
        {"i64 a -> ()", "-0", "i64 0"},
        {"i64 a -> ()", "10203040", "i64 10203040"},
        {"i64 a -> ()", "922337203685477580.7e1", "i64 9223372036854775807"},
        {"i64 a -> ()", "-92233720368547758080e-1", "i64 -9223372036854775808"},
        {"i64 a -> ()", "922337203685477580.8e1",
            "type-mismatch: a: expected i64, found an integer out of range"},
        {"i64 a -> ()", "1e999999999999999999999",
            "type-mismatch: a: expected i64, found an integer out of range"},
        {"i64 a -> ()", "1.5", "type-mismatch: a: expected i64, found a number with a fraction"},
        {"i64 a -> ()", "1200e-3", "type-mismatch: a: expected i64, found a number with a fraction"},
        {"i64 a -> ()", "99999999999999999999.5",
            "type-mismatch: a: expected i64, found a number with a fraction"},
        {"i64 -> ()", "\"1\"", "type-mismatch: expected i64, found a string"},
        {"f64 -> ()", "12", "f64 12.0"},
        {"f64 -> ()", "0.1", "f64 0.1"},
        {"f64 -> ()", "1e22", "f64 1e+22"},
        {"f64 -> ()", "5e-324", "f64 4.94065645841247e-324"},
        {"f64 -> ()", "\"NaN\"", "f64 \"NaN\""},
        {"f64 -> ()", "\"-Infinity\"", "f64 \"-Infinity\""},
        {"f64 -> ()", "1e999", "type-mismatch: expected f64, found a number out of range"},
        {"any -> ()", "3", "i64 3"},
        {"any -> ()", "3.0", "f64 3.0"},
        {"any -> ()", "1e3", "f64 1000.0"},
    };
    CHECK_ALL(cases);
}

static void texts_and_bytes(void **state)
{
    (void)state;
    static const struct mapping cases[] = {
        {"utf8 -> ()", "\"\"", "utf8 \"\""},
        {"utf8 -> ()", "\"a\\u00e9\\ud83d\\ude00\\n\"", "utf8 \"a\xc3\xa9\xf0\x9f\x98\x80\\n\""},
        {"utf8 -> ()", "\"\\u0000\"", "utf8 \"\\u0000\""},
        {"bytes -> ()", "\"aGVsbG8=\"", "bytes \"aGVsbG8=\""},
        {"bytes -> ()", "\"aGVsbG9=\"", "type-mismatch: expected bytes, found a string that is not base64"},
        {"bytes -> ()", "\"aGV\"", "type-mismatch: expected bytes, found a string that is not base64"},
        {"any -> ()", "{\"$bytes\":\"aGVsbG8=\"}", "bytes \"aGVsbG8=\""},
        {"actor -> ()", "\"" ACTOR "\"", "actor \"" ACTOR "\""},
        {"any -> ()", "{\"$actor\":\"" ACTOR "\"}", "actor \"" ACTOR "\""},
        {"actor -> ()", "\"actor_b\"", "type-mismatch: expected actor, found a string that is no actor id"},
    };
    CHECK_ALL(cases);
}

static void null_fits_null_and_optional_only(void **state)
{
    (void)state;
    static const struct mapping cases[] = {
        {"null -> ()", "null", "null null"},
        {"i64? a -> ()", "null", "null null"},
        {"i64 a -> ()", "null", "type-mismatch: a: expected i64, found null"},
        {"json -> ()", "null", "json null"},
        {"any -> ()", "null", "null null"},
    };
    CHECK_ALL(cases);
}

static void references_fit_every_type(void **state)
{
    (void)state;
    static const struct mapping cases[] = {
        {"i64 -> ()", "{\"$ref\":\"" OBJ "\"}", "ref"},
        {"json -> ()", " { \"$ref\" : \"" OBJ "\" } ", "ref"},
        {"any -> ()", "{\"$ref\":\"obj_x\"}",
            "type-mismatch: expected any, found a $ref that is no object id"},
        {"any -> ()", "{\"$ref\":\"" OBJ "\",\"more\":1}", "json {\"$ref\":\"" OBJ "\",\"more\":1}"},
    };
    CHECK_ALL(cases);
}

static void references_inside_json_are_listed(void **state)
{
    (void)state;
    struct mob_json_value v = {0};
    const char *json = "{\"a\":[{\"$ref\":\"" OBJ "\"},\"$ref\",{\"\\u0024ref\":\"" OBJ "\"},{\"$ref\":1}]}";
    assert_int_equal(mob_value_from_json(json, strlen(json), NULL, NULL, 1 << 16, &v, NULL), MOB_OK);
    assert_int_equal(v.arg.type, MOB_TYPE_JSON);
    assert_int_equal(v.contains_count, 2);
    mob_json_value_fini(&v);
}

static void tensors_come_from_arrays_and_objects(void **state)
{
    (void)state;
    static const struct mapping cases[] = {
        {"tensor<u8> -> ()", "[[1,2],[3,255]]",
            "tensor {\"dtype\":\"u8\",\"shape\":[2,2],\"data\":\"AQID/w==\"}"},
        {"tensor<u8> -> ()", "[256]",
            "type-mismatch: expected tensor<u8>, found a number that its dtype cannot hold"},
        {"tensor<u64> -> ()", "[18446744073709551615]",
            "tensor {\"dtype\":\"u64\",\"shape\":[1],\"data\":\"//////////8=\"}"},
        {"tensor -> ()", "[true,false]", "tensor {\"dtype\":\"bool\",\"shape\":[2],\"data\":\"AQA=\"}"},
        {"tensor<f32>[n,64] -> ()", "[]", "tensor {\"dtype\":\"f32\",\"shape\":[0,64],\"data\":\"\"}"},
        {"tensor -> ()", "[[1,2],[3]]", "type-mismatch: expected tensor, found arrays of unequal lengths"},
        {"tensor -> ()", "[[1],2]", "type-mismatch: expected tensor, found arrays of unequal lengths"},
        {"tensor -> ()", "[1,[2]]", "type-mismatch: expected tensor, found arrays of unequal lengths"},
        {"tensor -> ()", "[1,\"a\"]",
            "type-mismatch: expected tensor, found an element of another kind than its dtype"},
        {"tensor -> ()", "[[[[[[[[[1]]]]]]]]]",
            "type-mismatch: expected tensor, found more than 8 dimensions"},
        {"tensor -> ()", "{\"dtype\":\"FP32\",\"shape\":[1,2],\"data\":[1,2]}",
            "tensor {\"dtype\":\"f32\",\"shape\":[1,2],\"data\":\"AACAPwAAAEA=\"}"},
        {"tensor -> ()", "{\"dtype\":\"bytes\",\"shape\":[1],\"data\":\"/////2E=\"}",
            "type-mismatch: expected tensor, found data of another size than its shape"},
        {"tensor -> ()", "{\"dtype\":\"bytes\",\"shape\":[1],\"data\":\"AQAAAGE=\"}",
            "tensor {\"dtype\":\"bytes\",\"shape\":[1],\"data\":\"AQAAAGE=\"}"},
        {"tensor -> ()", "{\"dtype\":\"bytes\",\"shape\":[2],\"data\":[\"a\",\"bc\"]}",
            "tensor {\"dtype\":\"bytes\",\"shape\":[2],\"data\":\"AQAAAGECAAAAYmM=\"}"},
        {"tensor<f64> -> ()", "{\"dtype\":\"f32\",\"shape\":[1],\"data\":[1]}",
            "type-mismatch: expected tensor<f64>, found a tensor of another dtype"},
        {"tensor -> ()", "{\"dtype\":\"f32\",\"shape\":[2],\"data\":\"AACAPw==\"}",
            "type-mismatch: expected tensor, found data of another size than its shape"},
        {"tensor -> ()", "3",
            "type-mismatch: expected tensor, found neither arrays nor an object with dtype, shape and data"},
        /* the largest half, what rounds past it, what rounds to zero, the smallest subnormal */
        {"tensor<f16> -> ()", "[65504,65520,1e-8,6e-8]",
            "tensor {\"dtype\":\"f16\",\"shape\":[4],\"data\":\"/3sAfAAAAQA=\"}"},
        {"tensor<bf16> -> ()", "[1,3.14159]",
            "tensor {\"dtype\":\"bf16\",\"shape\":[2],\"data\":\"gD9JQA==\"}"},
    };
    CHECK_ALL(cases);
}

static void what_is_not_json_is_a_bad_request(void **state)
{
    (void)state;
    static const char *const texts[] = {"", " ", "[1,2", "1 2", "01", "[1,]", "{\"a\":1,}", "{a:1}", "-",
        "1.", ".5", "+1", "\"\\ud83d\"", "\"\x80\"", "\"\xc0\xaf\"", "\"\n\"", "nul", "[1 2]", "{\"a\" 1}",
        "\"a", "\"\\x\"", "[\"a\":1]"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct mob_json_value v = {0};
        if (mob_value_from_json(texts[i], strlen(texts[i]), NULL, NULL, 1 << 16, &v, NULL) != MOB_BAD_REQUEST)
            fail_msg("accepted: %s", texts[i]);
    }
}

static void nesting_is_bounded(void **state)
{
    (void)state;
    char text[3 * MOB_JSON_DEPTH_MAX];
    for (uint32_t depth = MOB_JSON_DEPTH_MAX; depth <= MOB_JSON_DEPTH_MAX + 1; depth++) {
        struct mob_json_value v = {0};
        memset(text, '[', depth);
        memset(text + depth, ']', depth);
        enum mob_status want = depth <= MOB_JSON_DEPTH_MAX ? MOB_OK : MOB_BAD_REQUEST;
        assert_int_equal(mob_value_from_json(text, 2 * (size_t)depth, NULL, NULL, 1 << 16, &v, NULL), want);
        mob_json_value_fini(&v);
    }
}

static void payloads_have_a_limit(void **state)
{
    (void)state;
    struct mob_json_value v = {0};
    struct mob_signature_error e;
    static const struct {
        const char *json;
        uint64_t bytes;
    } cases[] = {
        {"\"hello\"", 5}, {"\"hell\\n\"", 5}, {"{\"$bytes\":\"aGVsbG8=\"}", 5}, {"[1,2]", 5}, {"1", 8}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *json = cases[i].json;
        assert_int_equal(mob_value_from_json(json, strlen(json), NULL, NULL, cases[i].bytes, &v, &e), MOB_OK);
        assert_int_equal(
            mob_value_from_json(json, strlen(json), NULL, NULL, cases[i].bytes - 1, &v, &e), MOB_TOO_LARGE);
        assert_non_null(strstr(e.message, "at most"));
    }
    char *text;
    uint64_t length;
    assert_int_equal(mob_value_to_json(MOB_TYPE_UTF8, "hello", 5, 7, &text, &length), MOB_OK);
    free(text);
    assert_int_equal(mob_value_to_json(MOB_TYPE_UTF8, "hello", 5, 6, &text, &length), MOB_TOO_LARGE);
    assert_int_equal(mob_value_to_json(MOB_TYPE_BYTES, "hello", 5, 9, &text, &length), MOB_TOO_LARGE);
}

static void errors_show_their_chain(void **state)
{
    (void)state;
    uint8_t value[MOB_ERROR_BYTES_MAX];
    struct mob_error_link root = {.status = MOB_WORKER_DIED,
        .signal = 9,
        .message = "gone",
        .message_bytes = 4,
        .detail = "bad \xff byte",
        .detail_bytes = 10};
    struct mob_error_link outer = {.status = MOB_DEPENDENCY_FAILED, .message = "input", .message_bytes = 5};
    uint32_t n = mob_error_encode(value, sizeof value, &root, NULL, 0);
    n = mob_error_encode(value, sizeof value, &outer, value, n);
    char *text;
    uint64_t length;
    assert_int_equal(mob_value_to_json(MOB_TYPE_ERROR, value, n, 1 << 16, &text, &length), MOB_OK);
    assert_string_equal(text,
        "{\"error\":{\"code\":\"dependency-failed\",\"message\":\"input\",\"retryable\":false,\"task\":null,"
        "\"signal\":0,\"log\":\"\",\"cause\":{\"code\":\"worker-died\",\"message\":\"gone\",\"retryable\":"
        "false,\"task\":null,\"signal\":9,\"log\":\"bad \xef\xbf\xbd byte\"}}}");
    free(text);
}

static void the_longest_failure_has_room(void **state)
{
    (void)state;
    uint8_t value[MOB_ERROR_BYTES_MAX], words[MOB_ERROR_BYTES_MAX] = {0}; /* each makes \u0000 */
    uint32_t n = 0;
    for (uint32_t i = 0; i < MOB_ERROR_LINKS_MAX; i++) {
        struct mob_error_link link = {.status = MOB_DEPENDENCY_FAILED,
            .task.index = i + 1,
            .signal = INT32_MIN,
            .message = (const char *)words,
            .message_bytes = i == 0 ? sizeof words : 1,
            .detail = "",
            .detail_bytes = 0};
        n = mob_error_encode(value, sizeof value, &link, n ? value : NULL, n);
    }
    struct mob_error_link links[MOB_ERROR_LINKS_MAX];
    assert_int_equal(mob_error_decode(value, n, links, MOB_ERROR_LINKS_MAX), MOB_ERROR_LINKS_MAX);
    char *text;
    uint64_t length;
    struct mob_task_id none = {0};
    assert_int_equal(mob_failure_json_of(value, n, MOB_OK, none, &text, &length), MOB_OK);
    assert_int_equal(length, strlen(text));
    free(text);
    assert_int_equal(mob_failure_json_of(NULL, 0, MOB_CANCELLED, none, &text, &length), MOB_OK);
    assert_non_null(strstr(text, "{\"code\":\"cancelled\",\"message\":\""));
    free(text);
}

static void damaged_values_are_not_written(void **state)
{
    (void)state;
    char *text;
    uint64_t length;
    assert_int_equal(mob_value_to_json(MOB_TYPE_I64, "1234", 4, 100, &text, &length), MOB_CORRUPT);
    assert_int_equal(mob_value_to_json(MOB_TYPE_UTF8, "\xff", 1, 100, &text, &length), MOB_CORRUPT);
    assert_int_equal(mob_value_to_json(MOB_TYPE_JSON, "{", 1, 100, &text, &length), MOB_CORRUPT);
    assert_int_equal(mob_value_to_json(MOB_TYPE_TENSOR, "x", 1, 100, &text, &length), MOB_CORRUPT);
    assert_int_equal(mob_value_to_json(MOB_TYPE_ERROR, "x", 1, 100, &text, &length), MOB_CORRUPT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_follow_the_declared_type),
        cmocka_unit_test(texts_and_bytes),
        cmocka_unit_test(null_fits_null_and_optional_only),
        cmocka_unit_test(references_fit_every_type),
        cmocka_unit_test(references_inside_json_are_listed),
        cmocka_unit_test(tensors_come_from_arrays_and_objects),
        cmocka_unit_test(what_is_not_json_is_a_bad_request),
        cmocka_unit_test(nesting_is_bounded),
        cmocka_unit_test(payloads_have_a_limit),
        cmocka_unit_test(errors_show_their_chain),
        cmocka_unit_test(the_longest_failure_has_room),
        cmocka_unit_test(damaged_values_are_not_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
