#include "common/wire/tensor.h"

#include <string.h>

#include "common/base/bytes.h"
#include "common/base/log.h"

/* Numbers of Arrow's Message.fbs, Tensor.fbs and Schema.fbs. */
enum { METADATA_V4 = 3, METADATA_V5 = 4, HEADER_TENSOR = 4 };
enum { TYPE_INT = 2, TYPE_FLOAT = 3, TYPE_BINARY = 4 };
enum { PRECISION_HALF = 0, PRECISION_SINGLE = 1, PRECISION_DOUBLE = 2 };
enum { MESSAGE_VERSION, MESSAGE_HEADER_TYPE, MESSAGE_HEADER, MESSAGE_BODY_LENGTH, MESSAGE_METADATA };
enum { TENSOR_TYPE_TYPE, TENSOR_TYPE, TENSOR_SHAPE, TENSOR_STRIDES, TENSOR_DATA };
#define CONTINUATION 0xffffffffu
#define DTYPE_KEY "mobula.dtype"

static const struct {
    const char *name, *v2_name;
    uint8_t bytes;
    uint8_t arrow_type;
    uint8_t width; /* bits of an integer, precision of a float */
    bool is_signed;
    bool marked; /* Arrow has no such type: named in the custom metadata */
} dtypes[MOB_DTYPE_COUNT] = {
    [MOB_DTYPE_NONE] = {"none", "NONE", 0, 0, 0, false, false},
    [MOB_DTYPE_BOOL] = {"bool", "BOOL", 1, TYPE_INT, 8, false, true},
    [MOB_DTYPE_U8] = {"u8", "UINT8", 1, TYPE_INT, 8, false, false},
    [MOB_DTYPE_U16] = {"u16", "UINT16", 2, TYPE_INT, 16, false, false},
    [MOB_DTYPE_U32] = {"u32", "UINT32", 4, TYPE_INT, 32, false, false},
    [MOB_DTYPE_U64] = {"u64", "UINT64", 8, TYPE_INT, 64, false, false},
    [MOB_DTYPE_I8] = {"i8", "INT8", 1, TYPE_INT, 8, true, false},
    [MOB_DTYPE_I16] = {"i16", "INT16", 2, TYPE_INT, 16, true, false},
    [MOB_DTYPE_I32] = {"i32", "INT32", 4, TYPE_INT, 32, true, false},
    [MOB_DTYPE_I64] = {"i64", "INT64", 8, TYPE_INT, 64, true, false},
    [MOB_DTYPE_F16] = {"f16", "FP16", 2, TYPE_FLOAT, PRECISION_HALF, false, false},
    [MOB_DTYPE_BF16] = {"bf16", "BF16", 2, TYPE_INT, 16, false, true},
    [MOB_DTYPE_F32] = {"f32", "FP32", 4, TYPE_FLOAT, PRECISION_SINGLE, false, false},
    [MOB_DTYPE_F64] = {"f64", "FP64", 8, TYPE_FLOAT, PRECISION_DOUBLE, false, false},
    [MOB_DTYPE_BYTES] = {"bytes", "BYTES", 0, TYPE_BINARY, 0, false, true},
};

uint32_t mob_dtype_bytes(enum mob_dtype dtype)
{
    return (unsigned)dtype < MOB_DTYPE_COUNT ? dtypes[dtype].bytes : 0;
}

uint64_t mob_tensor_bytes_size(const void *data, uint64_t elements)
{
    uint64_t size = 0;
    for (uint32_t length; elements > 0; elements--) {
        memcpy(&length, (const uint8_t *)data + size, sizeof length);
        size += sizeof length + length;
    }
    return size;
}

const char *mob_dtype_name(enum mob_dtype dtype)
{
    return (unsigned)dtype < MOB_DTYPE_COUNT ? dtypes[dtype].name : "unknown";
}

const char *mob_dtype_v2_name(enum mob_dtype dtype)
{
    return (unsigned)dtype < MOB_DTYPE_COUNT ? dtypes[dtype].v2_name : "UNKNOWN";
}

enum mob_dtype mob_dtype_from_name(const char *name, size_t length)
{
    for (int i = MOB_DTYPE_NONE + 1; i < MOB_DTYPE_COUNT; i++) {
        if (strlen(dtypes[i].name) == length && memcmp(dtypes[i].name, name, length) == 0)
            return (enum mob_dtype)i;
        if (strlen(dtypes[i].v2_name) == length && memcmp(dtypes[i].v2_name, name, length) == 0)
            return (enum mob_dtype)i;
    }
    return MOB_DTYPE_NONE;
}

enum mob_status mob_tensor_elements(const int64_t *shape, uint32_t ndim, uint64_t *elements_out)
{
    uint64_t elements = 1;
    if (ndim > MOB_TENSOR_DIMS_MAX)
        return MOB_INVALID;
    bool overflow = false, empty = false;
    for (uint32_t i = 0; i < ndim; i++) {
        if (shape[i] < 0)
            return MOB_INVALID;
        empty |= shape[i] == 0;
        overflow |= mob_mul_overflows(elements, (uint64_t)shape[i], &elements);
    }
    if (empty)
        elements = 0;
    else if (overflow || elements > INT64_MAX)
        return MOB_TOO_LARGE;
    *elements_out = elements;
    return MOB_OK;
}

/* BYTES: u32 length ++ bytes for every element and nothing else. */
static bool bytes_elements_ok(const uint8_t *data, uint64_t data_bytes, uint64_t elements)
{
    struct mob_reader r = mob_reader_of(data, data_bytes);
    while (elements > 0 && mob_reader_ok(&r)) {
        (void)mob_read_bytes(&r, mob_read_u32(&r));
        elements--;
    }
    return mob_reader_ok(&r) && mob_reader_left(&r) == 0;
}

static bool size_fits(enum mob_dtype dtype, const int64_t *shape, uint32_t ndim, uint64_t data_bytes)
{
    uint64_t elements, bytes;
    if (mob_tensor_elements(shape, ndim, &elements) != MOB_OK)
        return false;
    if (dtype == MOB_DTYPE_BYTES)
        return data_bytes / 4 >= elements;
    return !mob_mul_overflows(elements, mob_dtype_bytes(dtype), &bytes) && bytes == data_bytes;
}

/* ---- writing: one fixed order of tables, children behind what refers to them, as flatbuffers want it ----
 */

struct flat {
    uint8_t *base;
    uint32_t used;
};

static uint32_t flat_take(struct flat *f, uint32_t bytes, uint32_t align)
{
    f->used = (uint32_t)mob_round_up(f->used, align);
    uint32_t at = f->used;
    f->used += bytes;
    return at;
}
static void flat_set(struct flat *f, uint32_t at, const void *value, uint32_t bytes)
{
    memcpy(f->base + at, value, bytes);
}
static void flat_u16(struct flat *f, uint32_t at, uint16_t v)
{
    flat_set(f, at, &v, sizeof v);
}
static void flat_u32(struct flat *f, uint32_t at, uint32_t v)
{
    flat_set(f, at, &v, sizeof v);
}
static void flat_i64(struct flat *f, uint32_t at, int64_t v)
{
    flat_set(f, at, &v, sizeof v);
}
/* The offset stored at `from` points to `to`. */
static void flat_link(struct flat *f, uint32_t from, uint32_t to)
{
    flat_u32(f, from, to - from);
}

/* A vtable and its table of `bytes` (with the leading offset), 8-aligned; `fields` are offsets in the table.
 */
static uint32_t flat_table(struct flat *f, const uint16_t *fields, uint32_t count, uint32_t bytes)
{
    uint32_t vtable = flat_take(f, 4 + 2 * count, 2);
    uint32_t table = flat_take(f, bytes, 8);
    flat_u16(f, vtable, (uint16_t)(4 + 2 * count));
    flat_u16(f, vtable + 2, (uint16_t)bytes);
    for (uint32_t i = 0; i < count; i++)
        flat_u16(f, vtable + 4 + 2 * i, fields[i]);
    flat_u32(f, table, table - vtable);
    return table;
}

static uint32_t flat_string(struct flat *f, const char *text)
{
    uint32_t length = (uint32_t)strlen(text);
    uint32_t at = flat_take(f, 4 + length + 1, 4);
    flat_u32(f, at, length);
    flat_set(f, at + 4, text, length);
    return at;
}

/* custom_metadata: one pair, mobula.dtype = name. */
static void write_mark(struct flat *f, uint32_t message, enum mob_dtype dtype)
{
    uint32_t vector = flat_take(f, 8, 4);
    flat_link(f, message + 8, vector);
    flat_u32(f, vector, 1);
    uint32_t pair = flat_table(f, (const uint16_t[]){4, 8}, 2, 12);
    flat_link(f, vector + 4, pair);
    flat_link(f, pair + 4, flat_string(f, DTYPE_KEY));
    flat_link(f, pair + 8, flat_string(f, mob_dtype_name(dtype)));
}

static void write_type(struct flat *f, uint32_t tensor, enum mob_dtype dtype)
{
    uint32_t type;
    if (dtypes[dtype].arrow_type == TYPE_INT) {
        type = flat_table(f, (const uint16_t[]){4, 8}, 2, 12);
        flat_u32(f, type + 4, dtypes[dtype].width);
        f->base[type + 8] = dtypes[dtype].is_signed;
    } else if (dtypes[dtype].arrow_type == TYPE_FLOAT) {
        type = flat_table(f, (const uint16_t[]){4}, 1, 8);
        flat_u16(f, type + 4, dtypes[dtype].width);
    } else {
        type = flat_table(f, NULL, 0, 4);
    }
    flat_link(f, tensor + 8, type);
}

static void write_shape(struct flat *f, uint32_t tensor, const int64_t *shape, uint32_t ndim)
{
    uint32_t vector = flat_take(f, 4 + 4 * ndim, 4);
    flat_link(f, tensor + 12, vector);
    flat_u32(f, vector, ndim);
    for (uint32_t i = 0; i < ndim; i++) {
        uint32_t dim = flat_table(f, (const uint16_t[]){8}, 1, 16);
        flat_i64(f, dim + 8, shape[i]);
        flat_link(f, vector + 4 + 4 * i, dim);
    }
}

static void write_strides(
    struct flat *f, uint32_t tensor, const int64_t *shape, uint32_t ndim, uint32_t item_bytes)
{
    uint32_t vector = flat_take(f, 4, 8) + 4; /* the count stands right before the 8-aligned elements */
    f->used = vector;
    flat_take(f, 4 + 8 * ndim, 4);
    flat_link(f, tensor + 16, vector);
    flat_u32(f, vector, ndim);
    int64_t stride = item_bytes;
    for (uint32_t i = ndim; i-- > 0;) {
        flat_i64(f, vector + 4 + 8 * i, stride);
        stride = (int64_t)((uint64_t)stride * (uint64_t)(shape[i] > 0 ? shape[i] : 1));
    }
}

uint32_t mob_tensor_head_encode(void *out, uint32_t capacity, enum mob_dtype dtype, const int64_t *shape,
    uint32_t ndim, uint64_t data_bytes)
{
    uint8_t bytes[MOB_TENSOR_HEAD_MAX] = {0};
    struct flat f = {bytes + 8, 4}; /* behind continuation and size; the root offset comes first */
    if (dtype <= MOB_DTYPE_NONE || dtype >= MOB_DTYPE_COUNT || data_bytes > INT64_MAX ||
        !size_fits(dtype, shape, ndim, data_bytes))
        return 0;
    /* table: 4 header, 8 metadata, 16 bodyLength, 24 version, 26 header_type */
    bool marked = dtypes[dtype].marked;
    uint32_t message = flat_table(&f, (const uint16_t[]){24, 26, 4, 16, marked ? 8 : 0}, 5, 28);
    flat_link(&f, 0, message);
    flat_i64(&f, message + 16, (int64_t)data_bytes);
    flat_u16(&f, message + 24, METADATA_V5);
    f.base[message + 26] = HEADER_TENSOR;
    /* table: 4 type_type, 8 type, 12 shape, 16 strides, 24 data {offset, length} */
    bool strided = dtype != MOB_DTYPE_BYTES;
    uint32_t tensor = flat_table(&f, (const uint16_t[]){4, 8, 12, strided ? 16 : 0, 24}, 5, 40);
    flat_link(&f, message + 4, tensor);
    f.base[tensor + 4] = dtypes[dtype].arrow_type;
    flat_i64(&f, tensor + 24, 0);
    flat_i64(&f, tensor + 32, (int64_t)data_bytes);
    write_type(&f, tensor, dtype);
    write_shape(&f, tensor, shape, ndim);
    if (strided)
        write_strides(&f, tensor, shape, ndim, mob_dtype_bytes(dtype));
    if (marked)
        write_mark(&f, message, dtype);
    uint32_t total = (uint32_t)mob_round_up(8 + f.used, 64);
    MOB_ASSERT(total <= sizeof bytes);
    if (total > capacity)
        return 0;
    uint32_t continuation = CONTINUATION, metadata_bytes = total - 8;
    memcpy(bytes, &continuation, 4);
    memcpy(bytes + 4, &metadata_bytes, 4);
    memcpy(out, bytes, total);
    return total;
}

/* ---- reading: any flatbuffer, every access checked; a failed one gives 0 and sets `failed` ---- */

struct flat_in {
    const uint8_t *base;
    uint32_t bytes;
    bool failed;
};

static uint64_t in_uint(struct flat_in *f, uint64_t at, uint32_t width)
{
    uint64_t v = 0;
    if (at > f->bytes || width > f->bytes - at)
        f->failed = true;
    else
        memcpy(&v, f->base + at, width);
    return v;
}

/* Follows the offset at `at`. */
static uint64_t in_link(struct flat_in *f, uint64_t at)
{
    uint64_t offset = in_uint(f, at, 4);
    f->failed |= offset == 0;
    return at + offset;
}

/* Where the field is, 0 when it has its default. */
static uint64_t in_field(struct flat_in *f, uint64_t table, uint32_t number)
{
    int64_t vtable = (int64_t)table - (int32_t)in_uint(f, table, 4);
    if (vtable < 0) {
        f->failed = true;
        return 0;
    }
    uint64_t vtable_bytes = in_uint(f, (uint64_t)vtable, 2);
    if (f->failed || 4 + 2 * (uint64_t)number + 2 > vtable_bytes)
        return 0;
    uint64_t offset = in_uint(f, (uint64_t)vtable + 4 + 2 * number, 2);
    return offset == 0 || f->failed ? 0 : table + offset;
}

static uint64_t in_field_uint(struct flat_in *f, uint64_t table, uint32_t number, uint32_t width)
{
    uint64_t at = in_field(f, table, number);
    return at ? in_uint(f, at, width) : 0;
}

static uint64_t in_field_link(struct flat_in *f, uint64_t table, uint32_t number)
{
    uint64_t at = in_field(f, table, number);
    return at ? in_link(f, at) : 0;
}

/* A string's bytes. */
static const char *in_string(struct flat_in *f, uint64_t at, uint32_t *length_out)
{
    uint32_t length = (uint32_t)in_uint(f, at, 4);
    if (f->failed || length > f->bytes - at - 4) {
        f->failed = true;
        length = 0;
    }
    *length_out = length;
    return f->failed ? NULL : (const char *)f->base + at + 4;
}

/* The dtype named by the custom metadata, NONE without one. */
static enum mob_dtype read_mark(struct flat_in *f, uint64_t message)
{
    uint64_t vector = in_field_link(f, message, MESSAGE_METADATA);
    uint64_t count = vector ? in_uint(f, vector, 4) : 0;
    for (uint64_t i = 0; i < count && i < 64 && !f->failed; i++) {
        uint64_t pair = in_link(f, vector + 4 + 4 * i);
        uint64_t key_at = in_field_link(f, pair, 0), value_at = in_field_link(f, pair, 1);
        uint32_t key_bytes, value_bytes;
        if (f->failed || !key_at || !value_at)
            break;
        const char *key = in_string(f, key_at, &key_bytes);
        const char *value = in_string(f, value_at, &value_bytes);
        if (!f->failed && key_bytes == strlen(DTYPE_KEY) && memcmp(key, DTYPE_KEY, key_bytes) == 0)
            return mob_dtype_from_name(value, value_bytes);
    }
    return MOB_DTYPE_NONE;
}

static enum mob_dtype read_type(struct flat_in *f, uint64_t message, uint64_t tensor)
{
    uint8_t arrow_type = (uint8_t)in_field_uint(f, tensor, TENSOR_TYPE_TYPE, 1);
    uint64_t type = in_field_link(f, tensor, TENSOR_TYPE);
    if (!type || f->failed)
        return MOB_DTYPE_NONE;
    uint64_t width = 0;
    bool is_signed = false;
    if (arrow_type == TYPE_INT) {
        width = in_field_uint(f, type, 0, 4);
        is_signed = in_field_uint(f, type, 1, 1) != 0;
    } else if (arrow_type == TYPE_FLOAT) {
        width = in_field_uint(f, type, 0, 2);
    }
    enum mob_dtype mark = read_mark(f, message);
    for (int i = MOB_DTYPE_NONE + 1; i < MOB_DTYPE_COUNT; i++) {
        if (dtypes[i].arrow_type == arrow_type && dtypes[i].width == width &&
            dtypes[i].is_signed == is_signed &&
            (dtypes[i].marked ? mark == (enum mob_dtype)i : mark == MOB_DTYPE_NONE))
            return (enum mob_dtype)i;
    }
    return MOB_DTYPE_NONE;
}

static void read_shape(struct flat_in *f, uint64_t tensor, struct mob_tensor_view *v)
{
    uint64_t vector = in_field_link(f, tensor, TENSOR_SHAPE);
    uint64_t ndim = vector ? in_uint(f, vector, 4) : 0;
    if (!vector || ndim > MOB_TENSOR_DIMS_MAX) {
        f->failed = true;
        return;
    }
    v->ndim = (uint32_t)ndim;
    for (uint32_t i = 0; i < v->ndim; i++)
        v->shape[i] = (int64_t)in_field_uint(f, in_link(f, vector + 4 + 4 * i), 0, 8);
}

/* Without strides a tensor is row-major. Dimensions of length 1 may have any stride. */
static bool strides_row_major(
    struct flat_in *f, uint64_t tensor, const struct mob_tensor_view *v, uint64_t elements)
{
    uint64_t vector = in_field_link(f, tensor, TENSOR_STRIDES);
    if (!vector || elements == 0)
        return true;
    if (in_uint(f, vector, 4) != v->ndim)
        return false;
    int64_t stride = mob_dtype_bytes(v->dtype);
    for (uint32_t i = v->ndim; i-- > 0;) {
        if (v->shape[i] != 1 && (int64_t)in_uint(f, vector + 4 + 8 * i, 8) != stride)
            return false;
        stride *= v->shape[i]; /* no overflow: the product of all was checked against the body */
    }
    return true;
}

/* Everything in the flatbuffer; the data's place in the body. */
static enum mob_status read_message(
    struct flat_in *f, uint64_t body_bytes, struct mob_tensor_view *v, uint64_t *data_at_out)
{
    uint64_t message = in_link(f, 0);
    uint64_t version = in_field_uint(f, message, MESSAGE_VERSION, 2);
    uint64_t tensor = in_field_link(f, message, MESSAGE_HEADER);
    if (f->failed || !tensor || in_field_uint(f, message, MESSAGE_HEADER_TYPE, 1) != HEADER_TENSOR)
        return MOB_CORRUPT;
    if (version != METADATA_V4 && version != METADATA_V5) {
        MOB_LOG_WARN("wire", "tensor_version", "found=%u supported=%d", (unsigned)version, METADATA_V5);
        return MOB_VERSION;
    }
    v->dtype = read_type(f, message, tensor);
    read_shape(f, tensor, v);
    uint64_t data = in_field(f, tensor, TENSOR_DATA);
    uint64_t offset = data ? in_uint(f, data, 8) : 0, length = data ? in_uint(f, data + 8, 8) : 0;
    if (f->failed || in_field_uint(f, message, MESSAGE_BODY_LENGTH, 8) > body_bytes || offset > body_bytes ||
        length > body_bytes - offset)
        return f->failed ? MOB_CORRUPT : MOB_TRUNCATED;
    if (v->dtype == MOB_DTYPE_NONE)
        return MOB_INVALID;
    uint64_t elements;
    if (!size_fits(v->dtype, v->shape, v->ndim, length) ||
        mob_tensor_elements(v->shape, v->ndim, &elements) != MOB_OK)
        return MOB_CORRUPT;
    if (v->dtype != MOB_DTYPE_BYTES && !strides_row_major(f, tensor, v, elements))
        return MOB_INVALID;
    v->data_bytes = length;
    *data_at_out = offset;
    return f->failed ? MOB_CORRUPT : MOB_OK;
}

enum mob_status mob_tensor_open(const void *payload, uint64_t payload_bytes, struct mob_tensor_view *out)
{
    uint32_t continuation, metadata_bytes;
    if (payload_bytes < 8)
        return MOB_TRUNCATED;
    memcpy(&continuation, payload, 4);
    memcpy(&metadata_bytes, (const uint8_t *)payload + 4, 4);
    if (continuation != CONTINUATION)
        return MOB_CORRUPT;
    if (metadata_bytes > payload_bytes - 8)
        return MOB_TRUNCATED;
    struct flat_in f = {(const uint8_t *)payload + 8, metadata_bytes, false};
    struct mob_tensor_view v = {0};
    uint64_t body_bytes = payload_bytes - 8 - metadata_bytes, data_at;
    enum mob_status status = read_message(&f, body_bytes, &v, &data_at);
    if (status != MOB_OK)
        return status;
    v.data = f.base + metadata_bytes + data_at;
    if (v.dtype == MOB_DTYPE_BYTES) {
        uint64_t elements = 0;
        if (mob_tensor_elements(v.shape, v.ndim, &elements) != MOB_OK ||
            !bytes_elements_ok(v.data, v.data_bytes, elements))
            return MOB_CORRUPT;
    }
    *out = v;
    return MOB_OK;
}
