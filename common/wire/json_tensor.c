#include "common/wire/json_tensor.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/bytes.h"

/* What nested arrays turned out to be. */
struct nest {
    int64_t shape[MOB_TENSOR_DIMS_MAX];
    uint32_t ndim;
    bool ragged, too_deep;
    bool any_real, any_number, any_bool, any_string, any_other;
    uint64_t elements;
    uint64_t string_bytes; /* of BYTES elements, with their lengths */
};
/* Where elements go. */
struct sink {
    enum mob_dtype dtype;
    uint8_t *at;
    const char *problem;
};

static void measure_scalar(struct nest *n, enum json_kind kind, struct json_slice value)
{
    n->elements++;
    if (kind == JSON_NUMBER) {
        n->any_number = true;
        n->any_real |= !json_number_is_integer(value);
    } else if (kind == JSON_TRUE || kind == JSON_FALSE) {
        n->any_bool = true;
    } else if (kind == JSON_STRING) {
        n->any_string = true;
        n->string_bytes += 4 + json_slice_length(value);
    } else {
        n->any_other = true;
    }
}

/* Shape and kinds. The first element on each level fixes the length below. Recursion is bounded by the
 * dimensions. */
static void measure(struct nest *n, struct json_slice array, uint32_t depth, bool first)
{
    struct json_iter it = json_members(array);
    struct json_slice key, value;
    enum json_kind kind;
    int64_t count = 0;
    if (depth == MOB_TENSOR_DIMS_MAX) {
        n->too_deep = true;
        return;
    }
    if (first)
        n->ndim = depth + 1;
    while ((kind = json_next(&it, &key, &value)) != JSON_NONE && !n->too_deep && !n->ragged) {
        if (kind == JSON_ARRAY) {
            n->ragged |= !(first && count == 0) && depth + 1 >= n->ndim;
            measure(n, value, depth + 1, first && count == 0);
        } else {
            n->ragged |= depth + 1 != n->ndim;
            measure_scalar(n, kind, value);
        }
        count++;
    }
    if (first)
        n->shape[depth] = count;
    else
        n->ragged |= n->shape[depth] != count;
}

static uint16_t half_of(float f)
{
    uint32_t x;
    memcpy(&x, &f, 4);
    uint16_t sign = (uint16_t)(x >> 16 & 0x8000);
    x &= 0x7fffffff;
    if (x > 0x7f800000)
        return sign | 0x7e00;
    if (x >= 0x477ff000) /* rounds past the largest half */
        return sign | 0x7c00;
    if (x < 0x38800000) { /* subnormal: let the adder round at the right bit */
        float magic = 0.5f, magnitude;
        memcpy(&magnitude, &x, 4);
        magnitude += magic;
        uint32_t bits;
        memcpy(&bits, &magnitude, 4);
        return sign | (uint16_t)(bits - 0x3f000000);
    }
    x += 0xfff + (x >> 13 & 1);
    return sign | (uint16_t)((x - 0x38000000) >> 13);
}

static uint16_t bfloat_of(float f)
{
    uint32_t x;
    memcpy(&x, &f, 4);
    if ((x & 0x7fffffff) > 0x7f800000)
        return (uint16_t)(x >> 16 | 0x40);
    return (uint16_t)((x + 0x7fff + (x >> 16 & 1)) >> 16);
}

static void put_float(struct sink *s, double v)
{
    float f = (float)v;
    uint16_t h = s->dtype == MOB_DTYPE_F16 ? half_of(f) : bfloat_of(f);
    if (s->dtype == MOB_DTYPE_F64)
        memcpy(s->at, &v, 8);
    else if (s->dtype == MOB_DTYPE_F32)
        memcpy(s->at, &f, 4);
    else
        memcpy(s->at, &h, 2);
}

/* 64-bit unsigned numbers above INT64_MAX. */
static bool big_u64(struct json_slice text, uint64_t *out)
{
    uint64_t v = 0;
    for (const char *at = text.at; at < text.end; at++) {
        if (*at < '0' || *at > '9' || mob_mul_overflows(v, 10, &v) ||
            mob_add_overflows(v, (uint64_t)(*at - '0'), &v))
            return false;
    }
    *out = v;
    return true;
}

static void put_integer(struct sink *s, struct json_slice text)
{
    int64_t v = 0;
    uint64_t u = 0;
    uint32_t bits = mob_dtype_bytes(s->dtype) * 8;
    bool is_signed = s->dtype >= MOB_DTYPE_I8 && s->dtype <= MOB_DTYPE_I64;
    bool ok = json_number_i64(text, &v);
    if (ok && is_signed)
        ok = bits == 64 || (v >= -((int64_t)1 << (bits - 1)) && v < (int64_t)1 << (bits - 1));
    else if (ok)
        ok = v >= 0 && (bits == 64 || v < (int64_t)1 << bits);
    u = (uint64_t)v;
    if (!ok && s->dtype == MOB_DTYPE_U64)
        ok = big_u64(text, &u);
    if (!ok)
        s->problem = "a number that its dtype cannot hold";
    memcpy(s->at, &u, bits / 8);
}

static void put_scalar(struct sink *s, enum json_kind kind, struct json_slice value)
{
    uint32_t bytes = mob_dtype_bytes(s->dtype);
    bool real = s->dtype >= MOB_DTYPE_F16 && s->dtype <= MOB_DTYPE_F64;
    if (s->dtype == MOB_DTYPE_BYTES && kind == JSON_STRING) {
        uint32_t length = (uint32_t)json_slice_length(value);
        memcpy(s->at, &length, 4);
        json_string_decode(value, (char *)s->at + 4);
        bytes = 4 + length;
    } else if (s->dtype == MOB_DTYPE_BOOL && (kind == JSON_TRUE || kind == JSON_FALSE)) {
        *s->at = kind == JSON_TRUE;
    } else if (kind == JSON_NUMBER && real) {
        put_float(s, json_number_f64(value));
    } else if (kind == JSON_NUMBER && s->dtype != MOB_DTYPE_BYTES && s->dtype != MOB_DTYPE_BOOL) {
        put_integer(s, value);
    } else {
        s->problem = "an element of another kind than its dtype";
        return;
    }
    s->at += bytes;
}

static void fill(struct sink *s, struct json_slice array)
{
    struct json_iter it = json_members(array);
    struct json_slice key, value;
    enum json_kind kind;
    while (!s->problem && (kind = json_next(&it, &key, &value)) != JSON_NONE) {
        if (kind == JSON_ARRAY)
            fill(s, value);
        else
            put_scalar(s, kind, value);
    }
}

static enum mob_dtype natural_dtype(const struct nest *n)
{
    if (n->any_string)
        return MOB_DTYPE_BYTES;
    if (n->any_bool)
        return MOB_DTYPE_BOOL;
    return n->any_number && !n->any_real ? MOB_DTYPE_I64 : MOB_DTYPE_F64;
}

/* Allocates out->heap for head and data, writes the head; *data_out is where the data goes. */
static enum mob_status make_payload(struct mob_json_value *out, enum mob_dtype dtype, const int64_t *shape,
    uint32_t ndim, uint64_t data_bytes, uint64_t most, uint8_t **data_out, const char **found_out)
{
    uint8_t head[MOB_TENSOR_HEAD_MAX];
    uint32_t head_bytes = mob_tensor_head_encode(head, sizeof head, dtype, shape, ndim, data_bytes);
    *found_out = "data of another size than its shape";
    if (head_bytes == 0)
        return MOB_TYPE_MISMATCH;
    if (data_bytes > most || head_bytes > most - data_bytes)
        return MOB_TOO_LARGE;
    uint8_t *payload = malloc(head_bytes + data_bytes);
    if (!payload)
        return MOB_NO_MEMORY;
    memcpy(payload, head, head_bytes);
    out->heap = payload;
    out->arg.payload = payload;
    out->arg.payload_bytes = (uint32_t)(head_bytes + data_bytes);
    out->arg.type = MOB_TYPE_TENSOR;
    *data_out = payload + head_bytes;
    return MOB_OK;
}

/* Bytes of the elements; TOO_LARGE when they cannot be a payload here. */
static enum mob_status data_bytes_of(const struct nest *n, enum mob_dtype dtype, uint64_t *out)
{
    if (dtype == MOB_DTYPE_BYTES)
        *out = n->string_bytes;
    else if (mob_mul_overflows(n->elements, mob_dtype_bytes(dtype), out))
        return MOB_TOO_LARGE;
    return *out > UINT32_MAX - MOB_TENSOR_HEAD_MAX ? MOB_TOO_LARGE : MOB_OK;
}

static enum mob_status from_arrays(struct json_slice array, enum mob_dtype dtype, const int64_t *shape,
    uint32_t ndim, uint64_t most, struct mob_json_value *out, const char **found_out)
{
    struct nest n = {0};
    uint64_t data_bytes;
    uint8_t *data;
    measure(&n, array, 0, true);
    *found_out = n.too_deep ? "more than 8 dimensions" : "arrays of unequal lengths";
    if (n.ragged || n.too_deep)
        return MOB_TYPE_MISMATCH;
    if (dtype == MOB_DTYPE_NONE)
        dtype = natural_dtype(&n);
    /* BYTES were measured as strings only, so nothing else may be among them */
    *found_out = "an element of another kind than its dtype";
    if (dtype == MOB_DTYPE_BYTES && (n.any_number || n.any_bool || n.any_other))
        return MOB_TYPE_MISMATCH;
    enum mob_status status = data_bytes_of(&n, dtype, &data_bytes);
    if (status == MOB_OK)
        status = make_payload(
            out, dtype, shape ? shape : n.shape, shape ? ndim : n.ndim, data_bytes, most, &data, found_out);
    if (status != MOB_OK)
        return status;
    struct sink s = {dtype, data, NULL};
    uint64_t wanted = n.elements;
    if (shape && (mob_tensor_elements(shape, ndim, &wanted) != MOB_OK || wanted != n.elements))
        return MOB_TYPE_MISMATCH;
    fill(&s, array);
    if (s.problem) {
        *found_out = s.problem;
        return MOB_TYPE_MISMATCH;
    }
    return MOB_OK;
}

/* The declared shape when there are no elements: [] stands for [0,64] when [n,64] is declared. */
static const int64_t *shape_of_nothing(
    struct json_slice array, const struct mob_sig_type *type, int64_t *shape)
{
    struct json_slice inside = {array.at + 1, array.end - 1};
    json_skip_blanks(&inside);
    if (inside.at != inside.end || !type || !type->has_shape || type->ndim == 0)
        return NULL;
    for (uint32_t i = 0; i < type->ndim; i++)
        shape[i] = i > 0 && type->dims[i] >= 0 ? type->dims[i] : 0;
    return shape;
}

static bool read_shape(struct json_slice array, int64_t *shape, uint32_t *ndim_out)
{
    struct json_iter it = json_members(array);
    struct json_slice key, value;
    enum json_kind kind;
    uint32_t ndim = 0;
    while ((kind = json_next(&it, &key, &value)) != JSON_NONE) {
        if (kind != JSON_NUMBER || ndim == MOB_TENSOR_DIMS_MAX || !json_number_i64(value, &shape[ndim]) ||
            shape[ndim] < 0)
            return false;
        ndim++;
    }
    *ndim_out = ndim;
    return true;
}

static enum mob_status from_object(struct json_slice object, const struct mob_sig_type *type, uint64_t most,
    struct mob_json_value *out, const char **found_out)
{
    struct json_slice name, shape_text, data_text;
    int64_t shape[MOB_TENSOR_DIMS_MAX];
    uint32_t ndim;
    char text[16];
    *found_out = "an object without a known dtype";
    if (json_find(object, "dtype", &name) != JSON_STRING || json_slice_length(name) > sizeof text)
        return MOB_TYPE_MISMATCH;
    json_string_decode(name, text);
    enum mob_dtype dtype = mob_dtype_from_name(text, json_slice_length(name));
    if (dtype == MOB_DTYPE_NONE)
        return MOB_TYPE_MISMATCH;
    *found_out = "a tensor of another dtype";
    if (type && type->dtype != MOB_DTYPE_NONE && type->dtype != (uint8_t)dtype)
        return MOB_TYPE_MISMATCH;
    *found_out = "an object without a shape (an array of at most 8 lengths)";
    if (json_find(object, "shape", &shape_text) != JSON_ARRAY || !read_shape(shape_text, shape, &ndim))
        return MOB_TYPE_MISMATCH;
    enum json_kind kind = json_find(object, "data", &data_text);
    if (kind == JSON_ARRAY)
        return from_arrays(data_text, dtype, shape, ndim, most, out, found_out);
    *found_out = "an object whose data is neither base64 nor an array";
    int64_t data_bytes = kind == JSON_STRING ? json_base64_decode(data_text, NULL) : -1;
    if (data_bytes < 0)
        return MOB_TYPE_MISMATCH;
    uint8_t *data;
    enum mob_status status =
        make_payload(out, dtype, shape, ndim, (uint64_t)data_bytes, most, &data, found_out);
    if (status != MOB_OK)
        return status;
    (void)json_base64_decode(data_text, data);
    struct mob_tensor_view whole; /* each text says its own length */
    *found_out = "data of another size than its shape";
    return mob_tensor_open(out->heap, out->arg.payload_bytes, &whole) == MOB_OK ? MOB_OK : MOB_TYPE_MISMATCH;
}

enum mob_status json_to_tensor(struct json_slice text, enum json_kind kind, const struct mob_sig_type *type,
    uint64_t payload_bytes_max, struct mob_json_value *out, const char **found_out)
{
    int64_t shape[MOB_TENSOR_DIMS_MAX];
    uint64_t most = payload_bytes_max < UINT32_MAX ? payload_bytes_max : UINT32_MAX;
    enum mob_dtype dtype = type ? (enum mob_dtype)type->dtype : MOB_DTYPE_NONE;
    if (kind == JSON_ARRAY)
        return from_arrays(
            text, dtype, shape_of_nothing(text, type, shape), type ? type->ndim : 0, most, out, found_out);
    if (kind == JSON_OBJECT)
        return from_object(text, type, most, out, found_out);
    *found_out = "neither arrays nor an object with dtype, shape and data";
    return MOB_TYPE_MISMATCH;
}

void json_add_tensor(struct json_out *o, const void *payload, uint64_t payload_bytes)
{
    struct mob_tensor_view v;
    if (mob_tensor_open(payload, payload_bytes, &v) != MOB_OK) {
        o->status = MOB_CORRUPT;
        return;
    }
    json_add_text(o, "{\"dtype\":\"");
    json_add_text(o, mob_dtype_name(v.dtype));
    json_add_text(o, "\",\"shape\":[");
    for (uint32_t i = 0; i < v.ndim; i++) {
        json_add_text(o, i > 0 ? "," : "");
        json_add_i64(o, v.shape[i]);
    }
    json_add_text(o, "],\"data\":");
    json_add_base64(o, v.data, v.data_bytes);
    json_add_text(o, "}");
}
