#include <jansson.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/hash.h"
#include "common/wire/signature.h"
#include "server/http/wide_json.h"
#include "server/serve/infer.h"
#include "server/serve/infer_u64.h"

/* Brackets, commas and eight numbers of 64 bits. */
#define SHAPE_TEXT_MAX (3 + MOB_TENSOR_DIMS_MAX * 21)

struct parse {
    const struct mob_model *model;
    struct mob_infer_request *request;
    const uint8_t *blob, *blob_end; /* what is left of the binary part */
    bool binary_default;
    const char *json; /* its part of the body, when an integer in it is beyond 64 bits; else NULL */
    size_t json_length;
    char *why;
};

static enum mob_status __attribute__((format(printf, 3, 4)))
bad(struct parse *p, enum mob_status status, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    /* NOLINTNEXTLINE(clang-analyzer-valist.Uninitialized) */
    vsnprintf(p->why, 256, format, arguments);
    va_end(arguments);
    return status;
}

/* --- JSON numbers to elements --- */

/* Nested arrays are their elements in row-major order, whatever the nesting. */
static uint64_t count_leaves(const json_t *data)
{
    if (!json_is_array(data))
        return 1;
    size_t n = json_array_size(data);
    uint64_t total = 0;
    for (size_t i = 0; i < n; i++) { /* each by itself: arrays may stand beside numbers */
        const json_t *member = json_array_get(data, i);
        total += json_is_array(member) ? count_leaves(member) : 1;
    }
    return total;
}

static bool put_int(const json_t *leaf, int64_t min, int64_t max, int64_t *out)
{
    if (json_is_boolean(leaf)) {
        *out = json_is_true(leaf);
        return true;
    }
    if (!json_is_integer(leaf) || json_integer_value(leaf) < min || json_integer_value(leaf) > max)
        return false;
    *out = json_integer_value(leaf);
    return true;
}

static bool put_leaf(const json_t *leaf, enum mob_dtype dtype, uint8_t *out)
{
    static const struct {
        int64_t min, max;
    } bounds[MOB_DTYPE_COUNT] = {
        [MOB_DTYPE_BOOL] = {0, 1},
        [MOB_DTYPE_U8] = {0, UINT8_MAX},
        [MOB_DTYPE_U16] = {0, UINT16_MAX},
        [MOB_DTYPE_U32] = {0, UINT32_MAX},
        [MOB_DTYPE_U64] = {0, INT64_MAX},
        [MOB_DTYPE_I8] = {INT8_MIN, INT8_MAX},
        [MOB_DTYPE_I16] = {INT16_MIN, INT16_MAX},
        [MOB_DTYPE_I32] = {INT32_MIN, INT32_MAX},
        [MOB_DTYPE_I64] = {INT64_MIN, INT64_MAX},
    };
    if (dtype == MOB_DTYPE_F32 || dtype == MOB_DTYPE_F64) {
        if (!json_is_number(leaf))
            return false;
        double f64 = json_number_value(leaf);
        float f32 = (float)f64;
        if (dtype == MOB_DTYPE_F32 && isinf(f32)) /* JSON has no infinity: it is beyond what F32 has */
            return false;
        memcpy(out, dtype == MOB_DTYPE_F64 ? (void *)&f64 : (void *)&f32, mob_dtype_bytes(dtype));
        return true;
    }
    int64_t v;
    if (bounds[dtype].max == 0 || !put_int(leaf, bounds[dtype].min, bounds[dtype].max, &v))
        return false;
    memcpy(out, &v, mob_dtype_bytes(dtype)); /* little-endian: the low bytes come first */
    return true;
}

static bool put_leaves(const json_t *data, enum mob_dtype dtype, uint8_t **at)
{
    if (!json_is_array(data)) {
        if (!put_leaf(data, dtype, *at))
            return false;
        *at += mob_dtype_bytes(dtype);
        return true;
    }
    for (size_t i = 0; i < json_array_size(data); i++)
        if (!put_leaves(json_array_get(data, i), dtype, at))
            return false;
    return true;
}

/* Strings to u32 length ++ bytes. */
static bool put_strings(const json_t *data, struct mob_text *out)
{
    if (json_is_string(data)) {
        uint32_t n = (uint32_t)strlen(json_string_value(data)); /* the parser refuses NUL in strings */
        mob_text_put(out, (const char *)&n, sizeof n);
        mob_text_put(out, json_string_value(data), n);
        return !out->failed;
    }
    if (!json_is_array(data))
        return false;
    for (size_t i = 0; i < json_array_size(data); i++)
        if (!put_strings(json_array_get(data, i), out))
            return false;
    return true;
}

/* json_t has no type for the upper half of u64: that is read from the text. */
static bool put_all(
    const struct parse *p, const json_t *data, size_t place, enum mob_dtype dtype, uint8_t **at)
{
    return p->json && dtype == MOB_DTYPE_U64 ? mob_infer_put_u64s(p->json, p->json_length, place, at)
                                             : put_leaves(data, dtype, at);
}

/* `place`: of the input in the request. */
static enum mob_status take_json(struct parse *p, const json_t *data, size_t place, uint64_t elements,
    struct mob_infer_tensor *t, uint8_t **owned_out, const char *name)
{
    if (count_leaves(data) != elements)
        return bad(p, MOB_INVALID, "input %s: its data has %llu elements, its shape %llu", name,
            (unsigned long long)count_leaves(data), (unsigned long long)elements);
    if (t->dtype == MOB_DTYPE_BYTES) {
        struct mob_text text = {0};
        size_t length = 0;
        bool ok = put_strings(data, &text);
        *owned_out = ok ? (uint8_t *)mob_text_take(&text, &length) : NULL;
        mob_text_fini(&text);
        t->bytes = length;
        t->data = *owned_out;
        return *owned_out ? MOB_OK : bad(p, MOB_INVALID, "input %s: BYTES data must be strings", name);
    }
    uint32_t width = mob_dtype_bytes(t->dtype);
    *owned_out = malloc(elements * width + 1); /* the JSON text held as many elements */
    if (!*owned_out)
        return bad(p, MOB_NO_MEMORY, "out of memory");
    uint8_t *at = *owned_out;
    t->data = *owned_out;
    t->bytes = elements * width;
    if (!put_all(p, data, place, t->dtype, &at))
        return bad(p, MOB_INVALID, "input %s: element %llu (from 0) does not fit %s", name,
            (unsigned long long)((uint64_t)(at - *owned_out) / width), mob_dtype_v2_name(t->dtype));
    return MOB_OK;
}

/* --- binary tensors --- */

static bool bytes_elements_ok(const uint8_t *at, uint64_t bytes, uint64_t elements)
{
    for (uint64_t i = 0; i < elements; i++) {
        uint32_t n;
        if (bytes < sizeof n)
            return false;
        memcpy(&n, at, sizeof n);
        if (bytes - sizeof n < n)
            return false;
        at += sizeof n + n;
        bytes -= sizeof n + (uint64_t)n;
    }
    return bytes == 0;
}

static enum mob_status take_binary(
    struct parse *p, const json_t *size, uint64_t elements, struct mob_infer_tensor *t, const char *name)
{
    uint64_t left = (uint64_t)(p->blob_end - p->blob);
    if (!json_is_integer(size) || json_integer_value(size) < 0 || (uint64_t)json_integer_value(size) > left)
        return bad(p, MOB_BAD_REQUEST, "input %s: binary_data_size is not within the body", name);
    t->bytes = (uint64_t)json_integer_value(size);
    t->data = p->blob;
    uint32_t width = mob_dtype_bytes(t->dtype);
    bool fits = t->dtype == MOB_DTYPE_BYTES ? bytes_elements_ok(t->data, t->bytes, elements)
                                            : elements <= left / width && t->bytes == elements * width;
    if (!fits)
        return bad(
            p, MOB_INVALID, "input %s: %llu bytes do not fit its shape", name, (unsigned long long)t->bytes);
    p->blob += t->bytes;
    return MOB_OK;
}

/* --- inputs and outputs --- */

/* As the requests write it; -1 is any number. */
static const char *shape_text(const int64_t *shape, uint32_t ndim, char out[SHAPE_TEXT_MAX])
{
    int at = snprintf(out, SHAPE_TEXT_MAX, "[");
    for (uint32_t d = 0; d < ndim; d++)
        at +=
            snprintf(out + at, SHAPE_TEXT_MAX - (size_t)at, "%s%lld", d > 0 ? "," : "", (long long)shape[d]);
    snprintf(out + at, SHAPE_TEXT_MAX - (size_t)at, "]");
    return out;
}

static enum mob_status refuse_shape(
    struct parse *p, const struct mob_tensor_spec *spec, const struct mob_infer_tensor *t)
{
    char given[SHAPE_TEXT_MAX], wanted[SHAPE_TEXT_MAX];
    return bad(p, MOB_INVALID, "input %s: its shape is %.80s, and the model takes %.80s", spec->name,
        shape_text(t->shape, t->ndim, given), shape_text(spec->shape, spec->ndim, wanted));
}

static enum mob_status read_shape(struct parse *p, const json_t *shape, const struct mob_tensor_spec *spec,
    struct mob_infer_tensor *t, uint64_t *elements_out)
{
    if (!json_is_array(shape) || json_array_size(shape) > MOB_TENSOR_DIMS_MAX)
        return bad(p, MOB_INVALID, "input %s: shape must be an array of at most %u numbers", spec->name,
            MOB_TENSOR_DIMS_MAX);
    t->ndim = (uint32_t)json_array_size(shape);
    for (uint32_t d = 0; d < t->ndim; d++) {
        const json_t *dim = json_array_get(shape, d);
        if (!json_is_integer(dim) || json_integer_value(dim) < 0)
            return bad(p, MOB_INVALID, "input %s: a dimension is not a number from 0", spec->name);
        t->shape[d] = json_integer_value(dim);
    }
    bool fits = t->ndim == spec->ndim;
    for (uint32_t d = 0; fits && d < t->ndim; d++)
        fits = spec->shape[d] == -1 || spec->shape[d] == t->shape[d];
    if (!fits)
        return refuse_shape(p, spec, t);
    if (mob_tensor_elements(t->shape, t->ndim, elements_out) != MOB_OK)
        return bad(p, MOB_INVALID, "input %s: its shape is too large", spec->name);
    return MOB_OK;
}

static enum mob_status read_input(struct parse *p, const json_t *input, size_t place)
{
    const char *name = json_string_value(json_object_get(input, "name"));
    const char *datatype = json_string_value(json_object_get(input, "datatype"));
    if (!name || !datatype)
        return bad(p, MOB_INVALID, "an input needs name, datatype and shape");
    uint32_t at = 0;
    while (at < p->model->input_count && strcmp(p->model->inputs[at].name, name) != 0)
        at++;
    if (at == p->model->input_count)
        return bad(p, MOB_INVALID, "the model has no input %.60s", name);
    const struct mob_tensor_spec *spec = &p->model->inputs[at];
    struct mob_infer_tensor *t = &p->request->inputs[at];
    if (t->data)
        return bad(p, MOB_INVALID, "input %s is there twice", spec->name);
    t->dtype = mob_dtype_from_name(datatype, strlen(datatype));
    if (t->dtype != spec->dtype)
        return bad(p, MOB_INVALID, "input %s is %.20s, the model takes %s", spec->name, datatype,
            mob_dtype_v2_name(spec->dtype));
    uint64_t elements = 0;
    enum mob_status status = read_shape(p, json_object_get(input, "shape"), spec, t, &elements);
    if (status != MOB_OK)
        return status;
    const json_t *parameters = json_object_get(input, "parameters");
    if (parameters && !json_is_object(parameters))
        return bad(p, MOB_INVALID, "input %s: parameters must be an object", spec->name);
    const json_t *size = json_object_get(parameters, "binary_data_size");
    const json_t *data = json_object_get(input, "data");
    if ((size != NULL) == (data != NULL))
        return bad(
            p, MOB_INVALID, "input %s: exactly one of data and binary_data_size is needed", spec->name);
    return size ? take_binary(p, size, elements, t, spec->name)
                : take_json(p, data, place, elements, t, &p->request->owned[at], spec->name);
}

static enum mob_status read_output(struct parse *p, const json_t *output)
{
    const char *name = json_string_value(json_object_get(output, "name"));
    for (uint32_t i = 0; name && i < p->model->output_count; i++) {
        if (strcmp(p->model->outputs[i].name, name) != 0)
            continue;
        const json_t *binary = json_object_get(json_object_get(output, "parameters"), "binary_data");
        p->request->wanted[i] = true;
        p->request->binary[i] = binary ? json_is_true(binary) : p->binary_default;
        return MOB_OK;
    }
    return bad(p, MOB_INVALID, "the model has no output %.60s", name ? name : "(unnamed)");
}

static enum mob_status read_outputs(struct parse *p, const json_t *outputs)
{
    bool all = json_array_size(outputs) == 0; /* also of an empty list, as with Triton */
    for (uint32_t i = 0; all && i < p->model->output_count; i++) {
        p->request->wanted[i] = true;
        p->request->binary[i] = p->binary_default;
    }
    for (size_t i = 0; i < json_array_size(outputs); i++) {
        enum mob_status status = read_output(p, json_array_get(outputs, i));
        if (status != MOB_OK)
            return status;
    }
    return MOB_OK;
}

/* Dimensions of one name have one size in all inputs. */
static enum mob_status check_named_dims(struct parse *p)
{
    struct {
        const char *input; /* the first with it; NULL: none yet */
        int64_t size;
    } named[MOB_SIGNATURE_DIM_NAMES_MAX + 1] = {0};
    for (uint32_t i = 0; i < p->model->input_count; i++) {
        const struct mob_tensor_spec *spec = &p->model->inputs[i];
        for (uint32_t d = 0; d < spec->ndim; d++) {
            uint32_t name = spec->dim_name[d];
            int64_t size = p->request->inputs[i].shape[d];
            if (name == 0)
                continue;
            if (named[name].input && named[name].size != size)
                return bad(p, MOB_INVALID, "input %s: dimension %u is %lld, and of input %s it is %lld",
                    spec->name, d, (long long)size, named[name].input, (long long)named[name].size);
            named[name].input = spec->name;
            named[name].size = size;
        }
    }
    return MOB_OK;
}

/* Of a model that batches: the first dimension of each input is the same, and no more than it takes. */
static enum mob_status read_rows(struct parse *p, uint32_t input)
{
    const char *name = p->model->inputs[input].name;
    uint64_t rows = (uint64_t)p->request->inputs[input].shape[0];
    if (input > 0 && rows != p->request->rows)
        return bad(p, MOB_INVALID,
            "input %s: its batch (first dimension) is %llu, and that of input %s is %llu", name,
            (unsigned long long)rows, p->model->inputs[0].name, (unsigned long long)p->request->rows);
    if (rows == 0)
        return bad(p, MOB_INVALID, "input %s: its batch (first dimension) is 0", name);
    if (rows > p->model->max_batch_size)
        return bad(p, MOB_INVALID, "input %s: its batch (first dimension) is %llu, and max_batch_size is %u",
            name, (unsigned long long)rows, p->model->max_batch_size);
    p->request->rows = rows;
    return MOB_OK;
}

/* All inputs there; rows and what must be equal for stacking. */
static enum mob_status finish(struct parse *p)
{
    struct mob_infer_request *r = p->request;
    int64_t shapes[MOB_MODEL_TENSORS_MAX * MOB_TENSOR_DIMS_MAX];
    size_t n = 0;
    r->rows = 1;
    for (uint32_t i = 0; i < p->model->input_count; i++) {
        const struct mob_infer_tensor *t = &r->inputs[i];
        if (!t->data)
            return bad(p, MOB_INVALID, "input %s is missing", p->model->inputs[i].name);
        enum mob_status status = p->model->max_batch_size > 1 ? read_rows(p, i) : MOB_OK;
        if (status != MOB_OK)
            return status;
        for (uint32_t d = 1; d < t->ndim; d++)
            shapes[n++] = t->shape[d];
    }
    r->shape_hash = mob_hash64(shapes, n * sizeof *shapes);
    return check_named_dims(p);
}

/* Microseconds; 0 is none, as with Triton. */
static enum mob_status read_timeout(struct parse *p, const json_t *timeout)
{
    if (!timeout)
        return MOB_OK;
    if (!json_is_integer(timeout) || json_integer_value(timeout) < 0 ||
        json_integer_value(timeout) > MOB_INFER_TIMEOUT_US_MAX)
        return bad(p, MOB_INVALID, "parameters.timeout must be microseconds, at most %lld",
            (long long)MOB_INFER_TIMEOUT_US_MAX);
    p->request->timeout_ns = json_integer_value(timeout) * 1000;
    return MOB_OK;
}

static enum mob_status read_root(struct parse *p, const json_t *root)
{
    if (!json_is_object(root))
        return bad(p, MOB_BAD_REQUEST, "the body must be a JSON object");
    const json_t *id = json_object_get(root, "id");
    if (id && (!json_is_string(id) || strlen(json_string_value(id)) >= MOB_INFER_ID_MAX))
        return bad(p, MOB_INVALID, "id must be a string shorter than %d bytes", MOB_INFER_ID_MAX);
    if (id)
        snprintf(p->request->id, sizeof p->request->id, "%s", json_string_value(id));
    const json_t *parameters = json_object_get(root, "parameters"),
                 *outputs = json_object_get(root, "outputs");
    if (parameters && !json_is_object(parameters))
        return bad(p, MOB_INVALID, "parameters must be an object");
    p->binary_default = json_is_true(json_object_get(parameters, "binary_data_output"));
    if (outputs && !json_is_array(outputs))
        return bad(p, MOB_INVALID, "outputs must be an array of outputs, each with its name");
    const json_t *inputs = json_object_get(root, "inputs");
    if (!json_is_array(inputs) || json_array_size(inputs) == 0 ||
        json_array_size(inputs) > MOB_MODEL_TENSORS_MAX)
        return bad(p, MOB_INVALID, "inputs must be an array of 1 to %d tensors", MOB_MODEL_TENSORS_MAX);
    enum mob_status status = read_timeout(p, json_object_get(parameters, "timeout"));
    for (size_t i = 0; status == MOB_OK && i < json_array_size(inputs); i++)
        status = read_input(p, json_array_get(inputs, i), i);
    if (status == MOB_OK && p->blob != p->blob_end)
        status = bad(p, MOB_BAD_REQUEST, "%td bytes behind the last tensor", p->blob_end - p->blob);
    if (status == MOB_OK)
        status = read_outputs(p, outputs);
    return status == MOB_OK ? finish(p) : status;
}

enum mob_status mob_infer_parse(const struct mob_model *model, const char *body, size_t length,
    size_t header_length, struct mob_infer_request **request_out, char *why_out)
{
    struct parse p = {.model = model, .why = why_out};
    size_t json_length = header_length == SIZE_MAX ? length : header_length;
    if (json_length > length || json_length > MOB_INFER_JSON_MAX)
        return bad(&p, MOB_BAD_REQUEST, "Inference-Header-Content-Length is not within the body");
    p.blob = (const uint8_t *)body + json_length;
    p.blob_end = (const uint8_t *)body + length;
    json_error_t error;
    /* Depth: jansson stops at 2048, and nothing here recurses deeper than it did. */
    bool wide;
    json_t *root = mob_json_load(body, json_length, JSON_REJECT_DUPLICATES, &wide, &error);
    p.json = wide ? body : NULL;
    p.json_length = json_length;
    if (!root)
        return bad(&p, MOB_BAD_REQUEST, "the body is not JSON: %.160s", error.text);
    p.request = calloc(1, sizeof *p.request);
    enum mob_status status = p.request ? read_root(&p, root) : MOB_NO_MEMORY;
    json_decref(root);
    if (status != MOB_OK) {
        mob_infer_request_destroy(p.request);
        return status;
    }
    *request_out = p.request;
    return MOB_OK;
}

void mob_infer_request_destroy(struct mob_infer_request *request)
{
    if (!request)
        return;
    for (uint32_t i = 0; i < MOB_MODEL_TENSORS_MAX; i++)
        free(request->owned[i]);
    free(request);
}
