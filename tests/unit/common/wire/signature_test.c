/* Signatures: grammar, checks, schema. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <jansson.h>

#include "common/wire/signature.h"

static struct mob_signature parsed(const char *text)
{
    struct mob_signature s;
    struct mob_signature_error e;
    if (mob_signature_parse(text, strlen(text), &s, &e) != MOB_OK)
        fail_msg("%s: %s", text, e.message);
    return s;
}

static void texts_have_one_canonical_form(void **state)
{
    (void)state;
    static const char *const pairs[][2] = {
        {"i64 a, f64 b -> i64", "i64 a, f64 b -> i64"},
        {"  i64   a,f64 b->(i64,utf8)", "i64 a, f64 b -> (i64, utf8)"},
        {"->()", "-> ()"},
        {"-> null", "-> null"},
        {"any...->json", "any... -> json"},
        {"utf8?->stream f64", "utf8? -> stream f64"},
        {"tensor<f32>[n, 64] x -> tensor<bf16>[*]", "tensor<f32>[n,64] x -> tensor<bf16>[*]"},
        {"tensor[] -> tensor", "tensor[] -> tensor"},
        {"actor a -> (i64 q, i64 r)", "actor a -> (i64 q, i64 r)"},
        {"i64 -> i64...", "i64 -> i64..."},
        {"json?... rest -> (i64)", "json?... rest -> i64"},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        struct mob_signature s = parsed(pairs[i][0]), t;
        char text[512];
        assert_int_not_equal(mob_signature_format(&s, text, sizeof text), 0);
        assert_string_equal(text, pairs[i][1]);
        t = parsed(text);
        assert_memory_equal(&s, &t, sizeof s);
    }
}

static void errors_name_the_place_and_the_reason(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int position;
        const char *reason;
    } cases[] = {
        {"", 0, "a type is expected"},
        {"i64", 3, "-> and the returned type"},
        {"i64 ->", 6, "a type is expected"},
        {"integer -> i64", 0, "no such type"},
        {"i64..., i64 -> i64", 7, "nothing may follow"},
        {"tensor<f33> -> i64", 10, "no such dtype"},
        {"tensor<FP32> -> i64", 11, "no such dtype"},
        {"tensor[1,2 -> i64", 11, "] is expected"},
        {"tensor[-1] -> i64", 7, "a dimension is"},
        {"tensor[1,1,1,1,1,1,1,1,1] -> i64", 23, "more than 8"},
        {"tensor[99999999999999999999] -> i64", 25, "too large"},
        {"i64 -> i64 extra stuff", 17, "should end here"},
        {"i64 -> (i64", 11, ") is expected"},
        {"i64 -> stream i64...", 20, "a stream has any number"},
        {"i64 a_name_that_is_far_too_long_for_us -> i64", 4, "at most 31"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct mob_signature s;
        struct mob_signature_error e;
        assert_int_equal(mob_signature_parse(cases[i].text, strlen(cases[i].text), &s, &e), MOB_INVALID);
        if (!strstr(e.message, cases[i].reason))
            fail_msg("%s: got \"%s\", want \"%s\"", cases[i].text, e.message, cases[i].reason);
        assert_int_equal(e.position, cases[i].position);
    }
}

static void append(char *out, size_t capacity, const char *text)
{
    size_t used = strlen(out);
    int n = snprintf(out + used, capacity - used, "%s", text);
    assert_in_range(n, 0, capacity - used - 1);
}

static void lists_are_bounded(void **state)
{
    (void)state;
    struct mob_signature s;
    char text[2048] = "i64";
    for (uint32_t i = 1; i < MOB_SIGNATURE_PARAMS_MAX; i++)
        append(text, sizeof text, ",i64");
    append(text, sizeof text, "->i64");
    s = parsed(text);
    assert_int_equal(s.param_count, MOB_SIGNATURE_PARAMS_MAX);
    char more[2100] = "i64,";
    append(more, sizeof more, text);
    assert_int_equal(mob_signature_parse(more, strlen(more), &s, NULL), MOB_INVALID);
    memset(text, ' ', sizeof text);
    memcpy(text, "->i64", 5);
    assert_int_equal(mob_signature_parse(text, MOB_SIGNATURE_BYTES_MAX, &s, NULL), MOB_OK);
    assert_int_equal(mob_signature_parse(text, MOB_SIGNATURE_BYTES_MAX + 1, &s, NULL), MOB_INVALID);
}

static struct mob_arg_view of_type(enum mob_value_type type)
{
    static const uint8_t zero[32];
    return (struct mob_arg_view){.type = type, .payload = zero, .payload_bytes = 8};
}

static void wrong_argument_is_named(void **state)
{
    (void)state;
    struct mob_signature s = parsed("i64 a, f64 b -> i64");
    struct mob_arg_view args[3] = {of_type(MOB_TYPE_I64), of_type(MOB_TYPE_UTF8), of_type(MOB_TYPE_I64)};
    struct mob_signature_error e;
    assert_int_equal(mob_signature_check_args(&s, args, 2, &e), MOB_TYPE_MISMATCH);
    assert_int_equal(e.index, 1);
    assert_string_equal(e.name, "b");
    assert_string_equal(e.expected, "f64");
    assert_string_equal(e.found, "utf8");
    assert_string_equal(e.message, "argument 1 (b): expected f64, found utf8");
    args[1] = of_type(MOB_TYPE_F64);
    assert_int_equal(mob_signature_check_args(&s, args, 2, &e), MOB_OK);
    assert_int_equal(mob_signature_check_args(&s, args, 1, &e), MOB_TYPE_MISMATCH);
    assert_string_equal(e.message, "argument 1 (b) is missing: expected 2 arguments, found 1");
    assert_int_equal(mob_signature_check_args(&s, args, 3, &e), MOB_TYPE_MISMATCH);
    assert_string_equal(e.message, "argument 2: expected 2 arguments, found more than 2");
    assert_int_equal(mob_signature_check_args(&s, args, 3, NULL), MOB_TYPE_MISMATCH);
}

static void references_fit_until_their_type_is_known(void **state)
{
    (void)state;
    struct mob_signature s = parsed("i64 a -> i64");
    struct mob_arg_view ref = {.is_ref = true};
    assert_int_equal(mob_signature_check_args(&s, &ref, 1, NULL), MOB_OK);
    ref.type = MOB_TYPE_UTF8;
    assert_int_equal(mob_signature_check_args(&s, &ref, 1, NULL), MOB_TYPE_MISMATCH);
}

static void optional_may_be_null_or_left_out_at_the_end(void **state)
{
    (void)state;
    struct mob_signature s = parsed("i64 a, utf8? b, f64? c -> i64");
    struct mob_arg_view args[3] = {of_type(MOB_TYPE_I64), of_type(MOB_TYPE_NULL), of_type(MOB_TYPE_F64)};
    for (uint32_t n = 1; n <= 3; n++)
        assert_int_equal(mob_signature_check_args(&s, args, n, NULL), MOB_OK);
    args[0] = of_type(MOB_TYPE_NULL);
    assert_int_equal(mob_signature_check_args(&s, args, 3, NULL), MOB_TYPE_MISMATCH);
    struct mob_signature_error e;
    assert_int_equal(mob_signature_check_args(&s, args, 0, &e), MOB_TYPE_MISMATCH);
    assert_string_equal(e.expected, "1 to 3 arguments");
}

static void variadic_takes_none_or_many_of_its_type(void **state)
{
    (void)state;
    struct mob_signature s = parsed("utf8 f, i64... values -> i64");
    struct mob_arg_view args[50];
    args[0] = of_type(MOB_TYPE_UTF8);
    for (int i = 1; i < 50; i++)
        args[i] = of_type(MOB_TYPE_I64);
    assert_int_equal(mob_signature_check_args(&s, args, 1, NULL), MOB_OK);
    assert_int_equal(mob_signature_check_args(&s, args, 50, NULL), MOB_OK);
    args[49] = of_type(MOB_TYPE_F64);
    struct mob_signature_error e;
    assert_int_equal(mob_signature_check_args(&s, args, 50, &e), MOB_TYPE_MISMATCH);
    assert_int_equal(e.index, 49);
    assert_string_equal(e.name, "values");
    assert_string_equal(e.expected, "i64");
}

static void any_takes_everything(void **state)
{
    (void)state;
    struct mob_signature s = parsed("any a -> any");
    for (int type = MOB_TYPE_NULL; type < MOB_TYPE_COUNT; type++) {
        struct mob_arg_view arg = of_type((enum mob_value_type)type);
        assert_int_equal(mob_signature_check_args(&s, &arg, 1, NULL), MOB_OK);
    }
}

static struct mob_arg_view tensor_arg(uint8_t *buffer, enum mob_dtype dtype, int64_t rows, int64_t columns)
{
    int64_t shape[2] = {rows, columns};
    uint64_t bytes = (uint64_t)(rows * columns) * mob_dtype_bytes(dtype);
    uint32_t head = mob_tensor_head_encode(buffer, MOB_TENSOR_HEAD_MAX, dtype, shape, 2, bytes);
    assert_int_not_equal(head, 0);
    memset(buffer + head, 0, bytes);
    return (struct mob_arg_view){
        .type = MOB_TYPE_TENSOR, .payload = buffer, .payload_bytes = head + (uint32_t)bytes};
}

static void tensors_are_checked_by_dtype_and_shape(void **state)
{
    (void)state;
    struct mob_signature s = parsed("tensor<f32>[n,4] x, tensor[n,*] y -> tensor<f32>[n]");
    static uint8_t a[4096], b[4096];
    struct mob_arg_view args[2] = {tensor_arg(a, MOB_DTYPE_F32, 3, 4), tensor_arg(b, MOB_DTYPE_I8, 3, 9)};
    struct mob_signature_error e;
    assert_int_equal(mob_signature_check_args(&s, args, 2, &e), MOB_OK);
    args[1] = tensor_arg(b, MOB_DTYPE_I8, 2, 9);
    assert_int_equal(mob_signature_check_args(&s, args, 2, &e), MOB_TYPE_MISMATCH);
    assert_string_equal(e.message, "argument 1 (y): expected tensor[n,*] n=3, found tensor<i8>[2,9]");
    args[0] = tensor_arg(a, MOB_DTYPE_F64, 3, 4);
    assert_int_equal(mob_signature_check_args(&s, args, 2, &e), MOB_TYPE_MISMATCH);
    assert_string_equal(e.message, "argument 0 (x): expected tensor<f32>[n,4], found tensor<f64>[3,4]");
    args[0] = tensor_arg(a, MOB_DTYPE_F32, 3, 5);
    assert_int_equal(mob_signature_check_args(&s, args, 2, &e), MOB_TYPE_MISMATCH);
    args[0].payload_bytes = 20;
    assert_int_equal(mob_signature_check_args(&s, args, 2, &e), MOB_TYPE_MISMATCH);
    assert_string_equal(e.found, "an unreadable tensor");
}

static void a_tensor_without_its_payload_is_checked_the_same(void **state)
{
    (void)state;
    struct mob_signature s = parsed("tensor<f32>[n,4] x, tensor[n,*] y, i64 z -> i64");
    const struct mob_tensor_view x = {.dtype = MOB_DTYPE_F32, .ndim = 2, .shape = {3, 4}},
                                 y = {.dtype = MOB_DTYPE_I8, .ndim = 2, .shape = {2, 9}};
    struct mob_signature_check c;
    struct mob_signature_error e;
    mob_signature_check_begin(&c, &s);
    assert_int_equal(mob_signature_check_tensor(&c, &x, &e), MOB_OK);
    assert_int_equal(mob_signature_check_tensor(&c, &y, &e), MOB_TYPE_MISMATCH);
    assert_string_equal(e.message, "argument 1 (y): expected tensor[n,*] n=3, found tensor<i8>[2,9]");
    assert_int_equal(mob_signature_check_tensor(&c, &x, &e), MOB_TYPE_MISMATCH);
    assert_string_equal(e.message, "argument 2 (z): expected i64, found tensor");
    assert_int_equal(mob_signature_check_tensor(&c, &x, &e), MOB_TYPE_MISMATCH);
    assert_string_equal(e.found, "more than 3");
}

static void returns_are_checked_too(void **state)
{
    (void)state;
    struct mob_signature two = parsed("-> (i64 q, utf8 r)"), many = parsed("-> i64..."),
                         none = parsed("-> ()");
    struct mob_arg_view number = of_type(MOB_TYPE_I64), string = of_type(MOB_TYPE_UTF8);
    struct mob_signature_error e;
    assert_int_equal(mob_signature_check_return(&two, 0, &number, &e), MOB_OK);
    assert_int_equal(mob_signature_check_return(&two, 1, &number, &e), MOB_TYPE_MISMATCH);
    assert_string_equal(e.message, "return 1 (r): expected utf8, found i64");
    assert_int_equal(mob_signature_check_return(&two, 2, &number, &e), MOB_TYPE_MISMATCH);
    assert_int_equal(mob_signature_check_return(&many, 2999, &number, &e), MOB_OK);
    assert_int_equal(mob_signature_check_return(&many, 2999, &string, &e), MOB_TYPE_MISMATCH);
    assert_int_equal(mob_signature_check_return(&none, 0, &number, &e), MOB_TYPE_MISMATCH);
}

static void checked_tail_gives_the_same_verdict(void **state)
{
    (void)state;
    struct mob_signature s = parsed("i64 a, utf8 b -> i64");
    _Alignas(8) uint8_t tail[256];
    struct mob_tail_builder b;
    int64_t one = 1;
    mob_tail_begin(&b, tail, sizeof tail);
    mob_tail_add_value(&b, MOB_TYPE_I64, &one, 8);
    assert_int_not_equal(mob_tail_end(&b), 0);
    assert_int_equal(mob_signature_check_tail(&s, tail, true, NULL), MOB_TYPE_MISMATCH);
    assert_int_equal(mob_signature_check_tail(&s, tail, false, NULL), MOB_OK);
}

static void schema_is_json_with_what_the_signature_says(void **state)
{
    (void)state;
    static const char *const texts[] = {"i64 a, f64 b -> i64", "any... -> json", "-> ()",
        "tensor<f32>[n,64] x, actor? a, bytes... rest -> (tensor, utf8)", "i64 -> stream tensor<bool>[]"};
    char schema[16 * 1024];
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct mob_signature s = parsed(texts[i]);
        assert_int_not_equal(mob_signature_json_schema(&s, schema, sizeof schema), 0);
        json_error_t error;
        json_t *json = json_loads(schema, 0, &error);
        if (!json)
            fail_msg("%s: %s in %s", texts[i], error.text, schema);
        json_t *args = json_object_get(json_object_get(json, "properties"), "arguments");
        assert_int_equal(json_integer_value(json_object_get(args, "minItems")), s.required);
        if (i == 0) {
            json_t *items = json_object_get(args, "prefixItems");
            assert_int_equal(json_array_size(items), 2);
            assert_string_equal(json_string_value(json_object_get(json_array_get(items, 1), "title")), "b");
        }
        json_decref(json);
    }
}

static void largest_schema_fits_16_kib(void **state)
{
    (void)state;
    char text[MOB_SIGNATURE_BYTES_MAX + 1] = "", schema[16 * 1024];
    for (int i = 0; i < 15; i++)
        append(text, sizeof text, i > 0 ? ",tensor<bf16>[*,*,*,*,*,*,*,*]" : "tensor<bf16>[*,*,*,*,*,*,*,*]");
    append(text, sizeof text, "->(");
    for (int i = 0; i < 15; i++)
        append(text, sizeof text, i > 0 ? ",tensor<bf16>[*,*,*,*,*,*,*,*]" : "tensor<bf16>[*,*,*,*,*,*,*,*]");
    append(text, sizeof text, ")");
    struct mob_signature s = parsed(text);
    assert_int_not_equal(mob_signature_json_schema(&s, schema, sizeof schema), 0);
    assert_int_equal(mob_signature_json_schema(&s, schema, 500), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_have_one_canonical_form),
        cmocka_unit_test(errors_name_the_place_and_the_reason),
        cmocka_unit_test(lists_are_bounded),
        cmocka_unit_test(wrong_argument_is_named),
        cmocka_unit_test(references_fit_until_their_type_is_known),
        cmocka_unit_test(optional_may_be_null_or_left_out_at_the_end),
        cmocka_unit_test(variadic_takes_none_or_many_of_its_type),
        cmocka_unit_test(any_takes_everything),
        cmocka_unit_test(tensors_are_checked_by_dtype_and_shape),
        cmocka_unit_test(a_tensor_without_its_payload_is_checked_the_same),
        cmocka_unit_test(returns_are_checked_too),
        cmocka_unit_test(checked_tail_gives_the_same_verdict),
        cmocka_unit_test(schema_is_json_with_what_the_signature_says),
        cmocka_unit_test(largest_schema_fits_16_kib),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
