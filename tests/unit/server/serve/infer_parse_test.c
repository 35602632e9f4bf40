#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "server/serve/infer.h"

static char why[256];

static struct mob_model *model_of(const char *dtype)
{
    char signature[128], error[256];
    struct mob_model *model;
    snprintf(signature, sizeof signature, "tensor<%s>[n,2] x -> tensor<%s>[n,2] y", dtype, dtype);
    assert_int_equal(mob_model_create("m", "a.B", signature, 1, 0, &model, error), MOB_OK);
    return model;
}

/* NULL: refused, `why` says why. */
static struct mob_infer_request *parse(struct mob_model *model, const char *datatype, const char *data)
{
    char body[512];
    struct mob_infer_request *request = NULL;
    int n = snprintf(body, sizeof body,
        "{\"parameters\": {\"far\": 123456789012345678901234567890},"
        " \"inputs\": [{\"name\": \"x\", \"shape\": [2, 2], \"datatype\": \"%s\", \"data\": %s}]}",
        datatype, data);
    enum mob_status status = mob_infer_parse(model, body, (size_t)n, SIZE_MAX, &request, why);
    assert_true(status == MOB_OK || status == MOB_INVALID || status == MOB_BAD_REQUEST);
    return status == MOB_OK ? request : NULL;
}

static void unsigned_integers_reach_to_2_to_the_64(void **state)
{
    (void)state;
    struct mob_model *model = model_of("u64");
    static const char *const forms[] = {
        "[[0, 9223372036854775807], [9223372036854775808, 18446744073709551615]]",
        "[0, 9223372036854775807, 9223372036854775808, 18446744073709551615]"};
    static const uint64_t wanted[] = {0, INT64_MAX, (uint64_t)INT64_MAX + 1, UINT64_MAX};
    for (size_t i = 0; i < 2; i++) {
        struct mob_infer_request *request = parse(model, "UINT64", forms[i]);
        assert_non_null(request);
        assert_int_equal(request->inputs[0].bytes, sizeof wanted);
        assert_memory_equal(request->inputs[0].data, wanted, sizeof wanted);
        struct mob_text text = {0};
        size_t header;
        mob_infer_write(model, request, request->inputs, &text, &header);
        mob_text_putc(&text, '\0');
        assert_non_null(
            strstr(text.bytes, "[0,9223372036854775807,9223372036854775808,18446744073709551615]"));
        mob_text_fini(&text);
        mob_infer_request_destroy(request);
    }
    mob_model_release(model);
}

static void minus_zero_is_zero_beside_whatever_stands_there(void **state)
{
    (void)state;
    struct mob_model *model = model_of("u64");
    static const char *const forms[] = {"[-0, 1, 2, 3]", "[-0, 1, 2, 18446744073709551615]"};
    for (size_t i = 0; i < 2; i++) {
        struct mob_infer_request *request = parse(model, "UINT64", forms[i]);
        assert_non_null(request);
        assert_int_equal(((const uint64_t *)(const void *)request->inputs[0].data)[0], 0);
        mob_infer_request_destroy(request);
    }
    static const char *const refused[] = {
        "[-0.0, 1, 2, 3]", "[-0.0, 1, 2, 18446744073709551615]", "[-0e0, 1, 2, 18446744073709551615]"};
    for (size_t i = 0; i < 3; i++) {
        assert_null(parse(model, "UINT64", refused[i]));
        assert_string_equal(why, "input x: element 0 (from 0) does not fit UINT64");
    }
    mob_model_release(model);
}

static void what_does_not_fit_is_named(void **state)
{
    (void)state;
    static const struct {
        const char *dtype, *datatype, *data, *why;
    } cases[] = {
        {"u64", "UINT64", "[0, 1, 18446744073709551616, 3]",
            "input x: element 2 (from 0) does not fit UINT64"},
        {"u64", "UINT64", "[0, 1, 2, -1]", "input x: element 3 (from 0) does not fit UINT64"},
        {"u64", "UINT64", "[0, 1.0, 2, 3]", "input x: element 1 (from 0) does not fit UINT64"},
        {"u64", "UINT64", "[[0, 1], [18446744073709551615, -18446744073709551615]]",
            "input x: element 3 (from 0) does not fit UINT64"},
        {"i64", "INT64", "[9223372036854775807, -9223372036854775808, 0, 9223372036854775808]",
            "input x: element 3 (from 0) does not fit INT64"},
        {"u8", "UINT8", "[255, 256, 0, 0]", "input x: element 1 (from 0) does not fit UINT8"},
        {"f32", "FP32", "[0, 3.4028234663852886e38, -3.4028235677973366e38, 3]",
            "input x: element 2 (from 0) does not fit FP32"},
        {"u64", "UINT64", "[18446744073709551615]", "input x: its data has 1 elements, its shape 4"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct mob_model *model = model_of(cases[i].dtype);
        struct mob_infer_request *request = parse(model, cases[i].datatype, cases[i].data);
        assert_null(request);
        assert_string_equal(why, cases[i].why);
        mob_model_release(model);
    }
}

static void a_shape_that_does_not_fit_is_told_beside_the_models(void **state)
{
    (void)state;
#define FAR "9223372036854775807"
    static const struct {
        const char *shape, *told;
    } cases[] = {{"[5]", "[5]"}, {"[1,3]", "[1,3]"}, {"[2,2,1]", "[2,2,1]"}, {"[]", "[]"},
        {"[" FAR "," FAR "," FAR "," FAR "," FAR "," FAR "," FAR "," FAR "]",
            "[" FAR "," FAR "," FAR "," FAR}};
#undef FAR
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct mob_model *model = model_of("f32");
        struct mob_infer_request *request = NULL;
        char body[512], told[256];
        int n = snprintf(body, sizeof body,
            "{\"inputs\":[{\"name\":\"x\",\"datatype\":\"FP32\",\"shape\":%s,\"data\":[1]}]}",
            cases[i].shape);
        assert_int_equal(mob_infer_parse(model, body, (size_t)n, SIZE_MAX, &request, why), MOB_INVALID);
        snprintf(told, sizeof told, "input x: its shape is %s, and the model takes [-1,2]", cases[i].told);
        assert_string_equal(why, told);
        mob_model_release(model);
    }
}

static void parameters_are_objects(void **state)
{
    (void)state;
    struct mob_model *model = model_of("f32");
    struct mob_infer_request *request = NULL;
    static const char body[] = "{\"inputs\":[{\"name\":\"x\",\"datatype\":\"FP32\",\"shape\":[1,2],"
                               "\"parameters\":5,\"data\":[1,2]}]}";
    assert_int_equal(mob_infer_parse(model, body, sizeof body - 1, SIZE_MAX, &request, why), MOB_INVALID);
    assert_string_equal(why, "input x: parameters must be an object");
    mob_model_release(model);
}

static void dimensions_of_one_name_are_one_size(void **state)
{
    (void)state;
    struct mob_model *model;
    char error[256];
    assert_int_equal(
        mob_model_create("m", "a.B", "tensor<u8>[n,k] a, tensor<u8>[k] b, tensor<u8>[*] c -> tensor<u8>[n] y",
            1, 0, &model, error),
        MOB_OK);
    static const struct {
        int n, k, b, c;
        const char *why;
    } cases[] = {{2, 3, 3, 5, NULL}, {3, 2, 2, 3, NULL}, {0, 1, 1, 0, NULL},
        {2, 3, 2, 3, "input b: dimension 0 is 2, and of input a it is 3"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char body[512];
        struct mob_infer_request *request = NULL;
        const int n = cases[i].n, k = cases[i].k, b = cases[i].b, c = cases[i].c;
        int header = snprintf(body, sizeof body,
            "{\"inputs\":[{\"name\":\"a\",\"datatype\":\"UINT8\",\"shape\":[%d,%d],\"parameters\":{\"binary_"
            "data_size\":%d}},"
            "{\"name\":\"b\",\"datatype\":\"UINT8\",\"shape\":[%d],\"parameters\":{\"binary_data_size\":%d}},"
            "{\"name\":\"c\",\"datatype\":\"UINT8\",\"shape\":[%d],\"parameters\":{\"binary_data_size\":%d}}]"
            "}",
            n, k, n * k, b, b, c, c);
        size_t blob = (size_t)(n * k + b + c);
        memset(body + header, 1, blob);
        enum mob_status status =
            mob_infer_parse(model, body, (size_t)header + blob, (size_t)header, &request, why);
        if ((status == MOB_OK) != (cases[i].why == NULL) || (cases[i].why && strcmp(why, cases[i].why) != 0))
            fail_msg("%zu: %d %s", i, status, why);
        mob_infer_request_destroy(request);
    }
    mob_model_release(model);
}

static void a_batch_that_does_not_fit_is_refused_by_name_and_figures(void **state)
{
    (void)state;
    struct mob_model *model;
    char error[256];
    assert_int_equal(mob_model_create("m", "a.B", "tensor<u8>[*,2] a, tensor<u8>[*] b -> tensor<u8>[*] y", 4,
                         0, &model, error),
        MOB_OK);
    static const struct {
        int a, b;
        const char *why;
    } cases[] = {{4, 4, NULL}, {1, 1, NULL},
        {3, 2, "input b: its batch (first dimension) is 2, and that of input a is 3"},
        {3, 0, "input b: its batch (first dimension) is 0, and that of input a is 3"},
        {5, 5, "input a: its batch (first dimension) is 5, and max_batch_size is 4"},
        {0, 0, "input a: its batch (first dimension) is 0"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char body[512];
        struct mob_infer_request *request = NULL;
        int header = snprintf(body, sizeof body,
            "{\"inputs\":[{\"name\":\"b\",\"datatype\":\"UINT8\",\"shape\":[%d],\"parameters\":{\"binary_"
            "data_size\":%d}},"
            "{\"name\":\"a\",\"datatype\":\"UINT8\",\"shape\":[%d,2],\"parameters\":{\"binary_data_size\":%d}"
            "}]}",
            cases[i].b, cases[i].b, cases[i].a, 2 * cases[i].a);
        size_t blob = (size_t)(cases[i].b + 2 * cases[i].a);
        memset(body + header, 1, blob);
        enum mob_status status =
            mob_infer_parse(model, body, (size_t)header + blob, (size_t)header, &request, why);
        if ((status == MOB_OK) != (cases[i].why == NULL) || (cases[i].why && strcmp(why, cases[i].why) != 0))
            fail_msg("%zu: %d %s", i, status, why);
        if (request)
            assert_int_equal(request->rows, cases[i].a);
        mob_infer_request_destroy(request);
    }
    mob_model_release(model);
}

/* What is written is what was counted, however numbers and arrays are mixed. */
static void arrays_beside_numbers_are_counted(void **state)
{
    (void)state;
    char data[256] = "[1, 2, 3, [4";
    struct mob_model *model = model_of("f32");
    while (strlen(data) < 200)
        strcat(data, ", 5");
    strcat(data, "]]");
    assert_null(parse(model, "FP32", data));
    assert_string_equal(why, "input x: its data has 67 elements, its shape 4");
    struct mob_infer_request *request = parse(model, "FP32", "[1, [2, [3]], 4]");
    assert_non_null(request);
    assert_memory_equal(request->inputs[0].data, ((float[]){1, 2, 3, 4}), 16);
    mob_infer_request_destroy(request);
    mob_model_release(model);
}

static void far_integers_are_numbers_for_floats(void **state)
{
    (void)state;
    struct mob_model *model = model_of("f64");
    static const double wanted[] = {1e20, -1e20, 18446744073709551616.0, 0.5};
    struct mob_infer_request *request =
        parse(model, "FP64", "[100000000000000000000, -100000000000000000000, 18446744073709551616, 0.5]");
    assert_non_null(request);
    assert_memory_equal(request->inputs[0].data, wanted, sizeof wanted);
    mob_infer_request_destroy(request);
    mob_model_release(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unsigned_integers_reach_to_2_to_the_64),
        cmocka_unit_test(minus_zero_is_zero_beside_whatever_stands_there),
        cmocka_unit_test(what_does_not_fit_is_named),
        cmocka_unit_test(a_shape_that_does_not_fit_is_told_beside_the_models),
        cmocka_unit_test(parameters_are_objects),
        cmocka_unit_test(dimensions_of_one_name_are_one_size),
        cmocka_unit_test(a_batch_that_does_not_fit_is_refused_by_name_and_figures),
        cmocka_unit_test(arrays_beside_numbers_are_counted),
        cmocka_unit_test(far_integers_are_numbers_for_floats),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
