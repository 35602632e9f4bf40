#include <stdlib.h>
#include <string.h>

#include "server/serve/infer.h"

void mob_infer_result_hold(struct mob_infer_result *result)
{
    atomic_fetch_add(&result->references, 1);
}

void mob_infer_result_release(struct mob_infer_result *result)
{
    if (result && atomic_fetch_sub(&result->references, 1) == 1)
        result->destroy(result);
}

static void write_element(const struct mob_infer_tensor *t, uint64_t i, struct mob_text *out)
{
    uint32_t width = mob_dtype_bytes(t->dtype);
    const uint8_t *at = t->data + i * width;
    union {
        float f32;
        double f64;
        int64_t i64;
        uint64_t u64;
    } v = {.u64 = 0};
    memcpy(&v, at, width);
    switch (t->dtype) {
    case MOB_DTYPE_F32:
        mob_text_f32(out, v.f32);
        break;
    case MOB_DTYPE_F64:
        mob_text_f64(out, v.f64);
        break;
    case MOB_DTYPE_BOOL:
        mob_text_puts(out, v.u64 ? "true" : "false");
        break;
    case MOB_DTYPE_I8:
    case MOB_DTYPE_I16:
    case MOB_DTYPE_I32:
    case MOB_DTYPE_I64:
        /* Sign from the width. */
        mob_text_i64(out, (int64_t)(v.u64 << (64 - 8 * width)) >> (64 - 8 * width));
        break;
    case MOB_DTYPE_U8:
    case MOB_DTYPE_U16:
    case MOB_DTYPE_U32:
    case MOB_DTYPE_U64:
    case MOB_DTYPE_F16:
    case MOB_DTYPE_BF16:
    case MOB_DTYPE_BYTES:
    case MOB_DTYPE_NONE:
    case MOB_DTYPE_COUNT:
        mob_text_u64(out, v.u64);
        break;
    }
}

static void write_strings(const struct mob_infer_tensor *t, struct mob_text *out)
{
    const uint8_t *at = t->data, *end = t->data + t->bytes;
    for (bool first = true; end - at >= 4; first = false) {
        uint32_t n;
        memcpy(&n, at, sizeof n);
        at += sizeof n;
        if (n > (uint64_t)(end - at))
            return;
        if (!first)
            mob_text_putc(out, ',');
        mob_text_json_string(out, (const char *)at, n);
        at += n;
    }
}

static void write_data(const struct mob_infer_tensor *t, struct mob_text *out)
{
    if (t->dtype == MOB_DTYPE_BYTES) {
        write_strings(t, out);
        return;
    }
    uint64_t elements = t->bytes / mob_dtype_bytes(t->dtype);
    for (uint64_t i = 0; i < elements; i++) {
        if (i > 0)
            mob_text_putc(out, ',');
        write_element(t, i, out);
    }
}

static void write_output(
    const struct mob_tensor_spec *spec, const struct mob_infer_tensor *t, bool binary, struct mob_text *out)
{
    mob_text_puts(out, "{\"name\":");
    mob_text_json_cstring(out, spec->name);
    mob_text_puts(out, ",\"datatype\":\"");
    mob_text_puts(out, mob_dtype_v2_name(t->dtype));
    mob_text_puts(out, "\",\"shape\":[");
    for (uint32_t d = 0; d < t->ndim; d++) {
        if (d > 0)
            mob_text_putc(out, ',');
        mob_text_i64(out, t->shape[d]);
    }
    if (binary) {
        mob_text_puts(out, "],\"parameters\":{\"binary_data_size\":");
        mob_text_u64(out, t->bytes);
        mob_text_puts(out, "}}");
    } else {
        mob_text_puts(out, "],\"data\":[");
        write_data(t, out);
        mob_text_puts(out, "]}");
    }
}

/* Half floats have no JSON form, so they go as bytes even to who asked for JSON. */
static bool goes_binary(const struct mob_infer_request *request, const struct mob_infer_tensor *t, uint32_t i)
{
    return request->binary[i] || t->dtype == MOB_DTYPE_F16 || t->dtype == MOB_DTYPE_BF16;
}

void mob_infer_write(const struct mob_model *model, const struct mob_infer_request *request,
    const struct mob_infer_tensor *outputs, struct mob_text *out, size_t *header_length_out)
{
    mob_text_puts(out, "{\"model_name\":");
    mob_text_json_cstring(out, model->name);
    mob_text_puts(out, ",\"model_version\":\"1\"");
    if (request->id[0]) {
        mob_text_puts(out, ",\"id\":");
        mob_text_json_cstring(out, request->id);
    }
    mob_text_puts(out, ",\"outputs\":[");
    bool any_binary = false, first = true;
    for (uint32_t i = 0; i < model->output_count; i++) {
        if (!request->wanted[i])
            continue;
        bool binary = goes_binary(request, &outputs[i], i);
        any_binary |= binary;
        if (!first)
            mob_text_putc(out, ',');
        write_output(&model->outputs[i], &outputs[i], binary, out);
        first = false;
    }
    mob_text_puts(out, "]}");
    *header_length_out = any_binary ? out->length : 0;
    for (uint32_t i = 0; i < model->output_count; i++)
        if (request->wanted[i] && goes_binary(request, &outputs[i], i))
            mob_text_put(out, (const char *)outputs[i].data, outputs[i].bytes);
}
