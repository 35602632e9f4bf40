/* Arguments and return values: constructors, and their form as values. `kind` of struct mob_arg is the value
 * type; a reference has the kind MOB_TYPE_FUTURE. */
#include "sdk/c/client.h"

#include "common/wire/utf8.h"
#include "common/wire/json_text.h"
#include "common/wire/tensor.h"

_Static_assert((int)MOB_F32 == (int)MOB_DTYPE_F32 && (int)MOB_BOOL8 == (int)MOB_DTYPE_BOOL &&
        (int)MOB_F64 == (int)MOB_DTYPE_F64 && (int)MOB_I64 == (int)MOB_DTYPE_I64,
    "one numbering of element types");

struct mob_arg mob_i64(int64_t v)
{
    return (struct mob_arg){.kind = MOB_TYPE_I64, .as.i64 = v};
}

struct mob_arg mob_f64(double v)
{
    return (struct mob_arg){.kind = MOB_TYPE_F64, .as.f64 = v};
}

struct mob_arg mob_bool(bool v)
{
    return (struct mob_arg){.kind = MOB_TYPE_BOOL, .as.boolean = v};
}

struct mob_arg mob_null(void)
{
    return (struct mob_arg){.kind = MOB_TYPE_NULL};
}

/* Refused by whatever call it is given to. */
static struct mob_arg no_value(void)
{
    return (struct mob_arg){.kind = MOB_TYPE_NONE};
}

struct mob_arg mob_utf8(const char *text)
{
    if (text == NULL)
        return no_value();
    return (struct mob_arg){.kind = MOB_TYPE_UTF8, .as.bytes = {text, strlen(text)}};
}

struct mob_arg mob_utf8_of(const char *text, size_t size)
{
    if (text == NULL && size > 0)
        return no_value();
    return (struct mob_arg){.kind = MOB_TYPE_UTF8, .as.bytes = {text, size}};
}

struct mob_arg mob_json(const char *text)
{
    if (text == NULL)
        return no_value();
    return (struct mob_arg){.kind = MOB_TYPE_JSON, .as.bytes = {text, strlen(text)}};
}

struct mob_arg mob_bytes(const void *data, size_t size)
{
    return (struct mob_arg){.kind = MOB_TYPE_BYTES, .as.bytes = {data, size}};
}

struct mob_arg mob_tensor(struct mob_tensor tensor)
{
    return (struct mob_arg){.kind = MOB_TYPE_TENSOR, .as.tensor = tensor};
}

struct mob_arg mob_tensor_f32(const float *data, int64_t rows, int64_t columns)
{
    struct mob_tensor tensor = {
        .dtype = MOB_F32, .dims = columns == 0 ? 1 : 2, .shape = {rows, columns}, .data = data};
    return mob_tensor(tensor);
}

struct mob_arg mob_ref(const struct mob_future *future)
{
    return (struct mob_arg){.kind = MOB_TYPE_FUTURE, .as.future = future};
}

struct mob_arg mob_actor_handle(const struct mob_actor *actor)
{
    return (struct mob_arg){.kind = MOB_TYPE_ACTOR, .as.actor = actor};
}

static enum mob_status encode_tensor(const struct mob_tensor *tensor, struct mob_encoded *out)
{
    uint64_t elements;
    enum mob_status status = tensor->dims < 0 || (uint32_t)tensor->dims > MOB_TENSOR_DIMS_MAX
        ? MOB_INVALID
        : mob_tensor_elements(tensor->shape, (uint32_t)tensor->dims, &elements);
    if (status != MOB_OK)
        return status;
    enum mob_dtype dtype = (enum mob_dtype)tensor->dtype;
    uint32_t element = mob_dtype_bytes(dtype);
    uint64_t data_bytes;
    if ((element == 0 && dtype != MOB_DTYPE_BYTES) || (tensor->data == NULL && elements > 0) ||
        mob_mul_overflows(elements, element, &data_bytes))
        return MOB_INVALID;
    if (dtype == MOB_DTYPE_BYTES)
        data_bytes = mob_tensor_bytes_size(tensor->data, elements);
    uint8_t head[MOB_TENSOR_HEAD_MAX];
    uint32_t head_bytes =
        mob_tensor_head_encode(head, sizeof head, dtype, tensor->shape, (uint32_t)tensor->dims, data_bytes);
    if (head_bytes == 0)
        return MOB_INVALID;
    out->tensor = tensor;
    out->tensor_head_bytes = head_bytes;
    return mob_add_overflows(head_bytes, data_bytes, &out->bytes) ? MOB_TOO_LARGE : MOB_OK;
}

static bool is_json(const void *text, size_t bytes)
{
    struct json_slice whole = {text, (const char *)text + bytes}, value;
    return bytes > 0 && json_whole(whole, &value) != JSON_NONE;
}

enum mob_status mob_encode(const struct mob_arg *arg, struct mob_encoded *out)
{
    *out = (struct mob_encoded){.type = (enum mob_value_type)arg->kind, .payload = out->scratch};
    switch (out->type) {
    case MOB_TYPE_NULL:
        return MOB_OK;
    case MOB_TYPE_I64:
    case MOB_TYPE_F64:
        memcpy(out->scratch, &arg->as, 8);
        out->bytes = 8;
        return MOB_OK;
    case MOB_TYPE_BOOL:
        out->scratch[0] = arg->as.boolean ? 1 : 0;
        out->bytes = 1;
        return MOB_OK;
    case MOB_TYPE_BYTES:
    case MOB_TYPE_UTF8:
    case MOB_TYPE_JSON:
    case MOB_TYPE_TABLE:
    case MOB_TYPE_PICKLE5:
        out->payload = arg->as.bytes.data;
        out->bytes = arg->as.bytes.size;
        if (out->payload == NULL && out->bytes > 0)
            return MOB_INVALID;
        if (out->type == MOB_TYPE_JSON)
            return is_json(out->payload, out->bytes) ? MOB_OK : MOB_INVALID;
        return out->type != MOB_TYPE_UTF8 || json_utf8_ok(out->payload, out->bytes) ? MOB_OK : MOB_INVALID;
    case MOB_TYPE_TENSOR:
        return encode_tensor(&arg->as.tensor, out);
    case MOB_TYPE_ACTOR: {
        if (arg->as.actor == NULL)
            return MOB_INVALID;
        struct mob_actor_id id = mob_actor_identity(arg->as.actor);
        memcpy(out->scratch, &id, sizeof id);
        out->bytes = sizeof id;
        return MOB_OK;
    }
    case MOB_TYPE_FUTURE:
        if (arg->as.future == NULL || arg->as.future->state == MOB_FUTURE_STREAM)
            return MOB_INVALID; /* a stream is no value: its items are */
        out->is_ref = true;
        out->ref = mob_future_object(arg->as.future);
        memcpy(out->scratch, &out->ref, sizeof out->ref);
        out->bytes = sizeof out->ref;
        return MOB_OK;
    case MOB_TYPE_NONE:
    case MOB_TYPE_ERROR:
    case MOB_TYPE_COUNT:
        break;
    }
    return MOB_INVALID;
}

void mob_encoded_write(const struct mob_encoded *value, uint8_t *payload_out)
{
    if (value->tensor != NULL) {
        uint64_t data_bytes = value->bytes - value->tensor_head_bytes;
        uint32_t head_bytes = mob_tensor_head_encode(payload_out, (uint32_t)value->tensor_head_bytes,
            (enum mob_dtype)value->tensor->dtype, value->tensor->shape, (uint32_t)value->tensor->dims,
            data_bytes);
        MOB_ASSERT(head_bytes == value->tensor_head_bytes);
        if (data_bytes > 0)
            memcpy(payload_out + head_bytes, value->tensor->data, data_bytes);
    } else if (value->bytes > 0)
        memcpy(payload_out, value->payload, value->bytes);
}
