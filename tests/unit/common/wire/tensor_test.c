/* Tensor payloads. That others read them, and we theirs, is tried with pyarrow's bytes in golden_test.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "common/wire/tensor.h"

static _Alignas(64) uint8_t payload[8192];

static void every_dtype_and_rank_round_trips(void **state)
{
    (void)state;
    const int64_t shape[MOB_TENSOR_DIMS_MAX] = {2, 1, 3, 1, 5, 1, 2, 1};
    for (int dtype = MOB_DTYPE_NONE + 1; dtype < MOB_DTYPE_COUNT; dtype++) {
        for (uint32_t ndim = 0; ndim <= MOB_TENSOR_DIMS_MAX; ndim++) {
            uint64_t elements, bytes;
            struct mob_tensor_view v;
            assert_int_equal(mob_tensor_elements(shape, ndim, &elements), MOB_OK);
            bytes = elements * (dtype == MOB_DTYPE_BYTES ? 4 : mob_dtype_bytes((enum mob_dtype)dtype));
            uint32_t head = mob_tensor_head_encode(
                payload, MOB_TENSOR_HEAD_MAX, (enum mob_dtype)dtype, shape, ndim, bytes);
            assert_int_not_equal(head, 0);
            assert_int_equal(head % 64, 0);
            memset(payload + head, 0, bytes);
            assert_int_equal(mob_tensor_open(payload, head + bytes, &v), MOB_OK);
            assert_int_equal(v.dtype, dtype);
            assert_int_equal(v.ndim, ndim);
            assert_memory_equal(v.shape, shape, ndim * sizeof *shape);
            assert_ptr_equal(v.data, payload + head);
            assert_int_equal(v.data_bytes, bytes);
        }
    }
}

static void empty_dimensions_are_fine(void **state)
{
    (void)state;
    const int64_t shape[2] = {0, INT64_MAX};
    struct mob_tensor_view v;
    uint32_t head = mob_tensor_head_encode(payload, sizeof payload, MOB_DTYPE_F32, shape, 2, 0);
    assert_int_not_equal(head, 0);
    assert_int_equal(mob_tensor_open(payload, head, &v), MOB_OK);
    assert_int_equal(v.shape[1], INT64_MAX);
}

static void data_must_be_what_the_shape_needs(void **state)
{
    (void)state;
    const int64_t shape[2] = {2, 3}, huge[3] = {INT64_MAX, INT64_MAX, 2}, negative[1] = {-1};
    uint64_t elements;
    assert_int_equal(mob_tensor_head_encode(payload, sizeof payload, MOB_DTYPE_F32, shape, 2, 23), 0);
    assert_int_equal(mob_tensor_head_encode(payload, 128, MOB_DTYPE_F32, shape, 2, 24), 0);
    assert_int_equal(mob_tensor_head_encode(payload, sizeof payload, MOB_DTYPE_NONE, shape, 2, 24), 0);
    assert_int_equal(mob_tensor_elements(huge, 3, &elements), MOB_TOO_LARGE);
    assert_int_equal(mob_tensor_elements(negative, 1, &elements), MOB_INVALID);
    assert_int_equal(mob_tensor_elements(shape, MOB_TENSOR_DIMS_MAX + 1, &elements), MOB_INVALID);
}

static void every_cut_is_refused(void **state)
{
    (void)state;
    const int64_t shape[2] = {2, 3};
    struct mob_tensor_view v;
    uint32_t head = mob_tensor_head_encode(payload, sizeof payload, MOB_DTYPE_F64, shape, 2, 48);
    for (uint64_t n = 0; n < head + 48; n++)
        assert_int_not_equal(mob_tensor_open(payload, n, &v), MOB_OK);
    assert_int_equal(mob_tensor_open(payload, head + 48, &v), MOB_OK);
}

/* Any byte of the head may be anything: the view, if there is one, lies inside. */
static void changed_heads_never_point_outside(void **state)
{
    (void)state;
    const int64_t shape[3] = {2, 3, 1};
    struct mob_tensor_view v;
    uint32_t head = mob_tensor_head_encode(payload, sizeof payload, MOB_DTYPE_BF16, shape, 3, 12);
    for (uint32_t i = 0; i < head; i++) {
        uint8_t before = payload[i];
        for (int value = 0; value < 256; value++) {
            payload[i] = (uint8_t)value;
            if (mob_tensor_open(payload, head + 12, &v) == MOB_OK) {
                assert_true(v.data >= payload);
                assert_true(v.data_bytes <= (uint64_t)(payload + head + 12 - v.data));
            }
        }
        payload[i] = before;
    }
}

static void byte_elements_are_counted(void **state)
{
    (void)state;
    const int64_t shape[1] = {2};
    struct mob_tensor_view v;
    uint32_t head = mob_tensor_head_encode(payload, sizeof payload, MOB_DTYPE_BYTES, shape, 1, 11);
    memcpy(payload + head, "\1\0\0\0a\2\0\0\0bc", 11);
    assert_int_equal(mob_tensor_open(payload, head + 11, &v), MOB_OK);
    payload[head + 5] = 3;
    assert_int_equal(mob_tensor_open(payload, head + 11, &v), MOB_CORRUPT);
    payload[head + 5] = 1;
    assert_int_equal(mob_tensor_open(payload, head + 11, &v), MOB_CORRUPT);
}

static void dtypes_have_both_names(void **state)
{
    (void)state;
    for (int i = MOB_DTYPE_NONE + 1; i < MOB_DTYPE_COUNT; i++) {
        enum mob_dtype dtype = (enum mob_dtype)i;
        const char *name = mob_dtype_name(dtype), *v2 = mob_dtype_v2_name(dtype);
        assert_int_equal(mob_dtype_from_name(name, strlen(name)), dtype);
        assert_int_equal(mob_dtype_from_name(v2, strlen(v2)), dtype);
    }
    assert_string_equal(mob_dtype_v2_name(MOB_DTYPE_F32), "FP32");
    assert_int_equal(mob_dtype_from_name("f3", 2), MOB_DTYPE_NONE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_dtype_and_rank_round_trips),
        cmocka_unit_test(empty_dimensions_are_fine),
        cmocka_unit_test(data_must_be_what_the_shape_needs),
        cmocka_unit_test(every_cut_is_refused),
        cmocka_unit_test(changed_heads_never_point_outside),
        cmocka_unit_test(byte_elements_are_counted),
        cmocka_unit_test(dtypes_have_both_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
