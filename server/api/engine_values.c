/* JSON to values and back. Scalars go straight; everything else through common/wire/json_value. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"
#include "common/wire/json_reals.h"
#include "common/wire/json_value.h"
#include "common/wire/tensor.h"
#include "server/api/engine_inner.h"

/* One converted argument that owns something. */
struct converted {
    struct converted *next;
    char *text;
    struct mob_json_value value;
    struct mob_future *future;
    struct mob_actor *actor;
};

struct argument_memory {
    struct mob_arg *items;
    size_t capacity;
    struct converted *converted;
};

struct argument_memory *argument_memory_create(void)
{
    return calloc(1, sizeof(struct argument_memory));
}

static void drop_converted(struct argument_memory *memory)
{
    while (memory->converted) {
        struct converted *c = memory->converted;
        memory->converted = c->next;
        mob_json_value_fini(&c->value);
        mob_release(c->future);
        mob_actor_release(c->actor);
        free(c->text);
        free(c);
    }
}

void argument_memory_destroy(struct argument_memory *memory)
{
    if (!memory)
        return;
    drop_converted(memory);
    free(memory->items);
    free(memory);
}

/* The common scalars, where JSON and signature agree at sight. */
static bool quick(const json_t *value, const struct mob_sig_type *type, struct mob_arg *out)
{
    switch (json_typeof(value)) {
    case JSON_INTEGER:
        if (type->type == MOB_TYPE_I64 || type->type == MOB_TYPE_NONE)
            *out = mob_i64(json_integer_value(value));
        else if (type->type == MOB_TYPE_F64)
            *out = mob_f64((double)json_integer_value(value));
        else
            return false;
        return true;
    case JSON_REAL:
        *out = mob_f64(json_real_value(value));
        return type->type == MOB_TYPE_F64 || type->type == MOB_TYPE_NONE;
    case JSON_STRING:
        *out = mob_utf8(json_string_value(value));
        return type->type == MOB_TYPE_UTF8;
    case JSON_TRUE:
    case JSON_FALSE:
        *out = mob_bool(json_is_true(value));
        return type->type == MOB_TYPE_BOOL || type->type == MOB_TYPE_NONE;
    case JSON_OBJECT:
    case JSON_ARRAY:
    case JSON_NULL:
        break;
    }
    return false;
}

static enum mob_status refer(struct mob_client *client, struct converted *c, struct mob_arg *out)
{
    const struct mob_arg_view *view = &c->value.arg;
    if (view->is_ref) {
        char id[MOB_ID_TEXT_MAX];
        enum mob_status status = mob_future_from_id(client, mob_object_id_format(view->ref, id), &c->future);
        *out = mob_ref(c->future);
        return status;
    }
    if (view->type == MOB_TYPE_ACTOR) {
        struct mob_actor_id id;
        memcpy(&id, view->payload, sizeof id);
        c->actor = mob_actor_of_id(client, id);
        *out = mob_actor_handle(c->actor);
        return c->actor ? MOB_OK : MOB_NO_MEMORY;
    }
    if (view->type == MOB_TYPE_TENSOR) {
        struct mob_tensor tensor;
        enum mob_status status = mob_tensor_decode(view->payload, view->payload_bytes, &tensor);
        *out = mob_tensor(tensor);
        return status;
    }
    *out = mob_bytes(view->payload, view->payload_bytes);
    out->kind = view->type;
    if (view->type == MOB_TYPE_I64 || view->type == MOB_TYPE_F64)
        memcpy(&out->as, view->payload, 8);
    if (view->type == MOB_TYPE_BOOL)
        out->as.boolean = view->payload[0] != 0;
    return MOB_OK;
}

/* Of what the parser has read as f64 all digits that an integer of 64 bits may have: with fewer another
 * integer would come out of it. In text that is kept they would only be long. */
static size_t digits_for(const struct mob_sig_type *type)
{
    bool integers = type->type == MOB_TYPE_I64 || type->type == MOB_TYPE_TENSOR;
    return integers ? JSON_REAL_PRECISION(20) : 0;
}

static enum mob_status convert(struct mob_client *client, const struct mob_signature *signature,
    const struct mob_sig_type *type, const json_t *value, struct argument_memory *memory, struct mob_arg *out,
    struct mob_signature_error *error)
{
    struct converted *c = calloc(1, sizeof *c);
    if (!c)
        return MOB_NO_MEMORY;
    c->next = memory->converted;
    memory->converted = c;
    c->text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT | digits_for(type));
    if (!c->text)
        return MOB_NO_MEMORY;
    if (digits_for(type) == 0)
        mob_json_shorten_reals(c->text); /* 1.1 stays 1.1 */
    enum mob_status status = mob_value_from_json(
        c->text, strlen(c->text), signature, type, ENGINE_ARGUMENT_BYTES_MAX, &c->value, error);
    return status == MOB_OK ? refer(client, c, out) : status;
}

static void argument_error(struct mob_engine_error *error, enum mob_status status, const char *prefix,
    size_t index, const char *message)
{
    error->status = status == MOB_BAD_REQUEST ? MOB_TYPE_MISMATCH : status;
    if (asprintf(&error->pointer, "%s/%zu", prefix, index) < 0)
        error->pointer = NULL;
    error->detail = strdup(*message ? message : mob_status_text(status));
}

enum mob_status engine_arguments(struct mob_client *client, const struct mob_signature *signature,
    const json_t *array, const char *prefix, struct argument_memory *memory, struct mob_args *out,
    struct mob_engine_error *error)
{
    size_t count = json_array_size(array);
    drop_converted(memory);
    if (count > memory->capacity) {
        struct mob_arg *grown = realloc(memory->items, count * sizeof *grown);
        if (!grown)
            return error->status = MOB_NO_MEMORY;
        memory->items = grown;
        memory->capacity = count;
    }
    for (size_t i = 0; i < count; i++) {
        const json_t *value = json_array_get(array, i);
        const struct mob_sig_type *type = mob_signature_param(signature, (uint32_t)i);
        if (!type) {
            char message[96];
            snprintf(
                message, sizeof message, "the function takes at most %u arguments", signature->param_count);
            argument_error(error, MOB_TYPE_MISMATCH, prefix, i, message);
            return error->status;
        }
        if (quick(value, type, &memory->items[i]))
            continue;
        struct mob_signature_error why = {0};
        enum mob_status status = convert(client, signature, type, value, memory, &memory->items[i], &why);
        if (status != MOB_OK) {
            argument_error(error, status, prefix, i, why.message);
            return error->status;
        }
    }
    *out = (struct mob_args){memory->items, count};
    return MOB_OK;
}

char *engine_value_json(const struct mob_value *value)
{
    struct mob_value_look look = mob_value_look(value);
    if (look.bytes > ENGINE_JSON_VALUE_MAX)
        return NULL;
    if (look.type == MOB_TYPE_I64 && look.bytes == 8) {
        int64_t v;
        memcpy(&v, look.payload, 8);
        struct mob_text t = {0};
        size_t length;
        mob_text_i64(&t, v);
        return mob_text_take(&t, &length);
    }
    char *json = NULL;
    uint64_t length;
    if (mob_value_to_json(look.type, look.payload, look.bytes, 4 * ENGINE_JSON_VALUE_MAX, &json, &length) !=
        MOB_OK)
        return NULL;
    return json;
}

const char *engine_media_of(enum mob_value_type type)
{
    switch (type) {
    case MOB_TYPE_UTF8:
        return "text/plain; charset=utf-8";
    case MOB_TYPE_JSON:
        return "application/json";
    case MOB_TYPE_TABLE:
        return "application/vnd.apache.arrow.stream";
    case MOB_TYPE_PICKLE5:
        return "application/vnd.mobula.pickle5";
    case MOB_TYPE_NONE:
    case MOB_TYPE_NULL:
    case MOB_TYPE_BYTES:
    case MOB_TYPE_I64:
    case MOB_TYPE_F64:
    case MOB_TYPE_BOOL:
    case MOB_TYPE_TENSOR:
    case MOB_TYPE_ERROR:
    case MOB_TYPE_ACTOR:
    case MOB_TYPE_FUTURE:
    case MOB_TYPE_COUNT:
        break;
    }
    return "application/octet-stream";
}

/* --- NumPy's file format, versions 1 and 2: row-major, little-endian numbers --- */

static bool npy_dtype(const char *text, enum mob_dtype *out)
{
    static const struct {
        const char *text;
        enum mob_dtype dtype;
    } known[] = {{"<f4", MOB_DTYPE_F32}, {"<f8", MOB_DTYPE_F64}, {"<f2", MOB_DTYPE_F16},
        {"<i8", MOB_DTYPE_I64}, {"<i4", MOB_DTYPE_I32}, {"<i2", MOB_DTYPE_I16}, {"|i1", MOB_DTYPE_I8},
        {"<u8", MOB_DTYPE_U64}, {"<u4", MOB_DTYPE_U32}, {"<u2", MOB_DTYPE_U16}, {"|u1", MOB_DTYPE_U8},
        {"|b1", MOB_DTYPE_BOOL}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strncmp(text, known[i].text, 3) == 0) {
            *out = known[i].dtype;
            return true;
        }
    return false;
}

static bool npy_shape(const char *at, struct mob_tensor *out)
{
    for (out->dims = 0; *at && *at != ')'; out->dims++) {
        char *end;
        if (out->dims == (int32_t)MOB_TENSOR_DIMS_MAX)
            return false;
        out->shape[out->dims] = strtoll(at, &end, 10);
        if (end == at || out->shape[out->dims] < 0)
            return false;
        at = end + strspn(end, ", ");
    }
    return *at == ')';
}

enum mob_status engine_npy_to_tensor(const void *bytes, size_t size, struct mob_tensor *out)
{
    const uint8_t *p = bytes;
    char header[1024];
    if (size < 12 || memcmp(p, "\x93NUMPY", 6) != 0 || p[6] < 1 || p[6] > 2)
        return MOB_INVALID;
    size_t begin = p[6] == 1 ? 10 : 12;
    size_t length = p[6] == 1 ? (size_t)p[8] | (size_t)p[9] << 8
                              : (size_t)p[8] | (size_t)p[9] << 8 | (size_t)p[10] << 16 | (size_t)p[11] << 24;
    if (length >= sizeof header || length > size - begin)
        return MOB_INVALID;
    memcpy(header, p + begin, length);
    header[length] = 0;
    const char *descr = strstr(header, "'descr': '"), *shape = strstr(header, "'shape': (");
    enum mob_dtype dtype;
    uint64_t elements;
    if (!descr || !shape || !strstr(header, "'fortran_order': False") || !npy_dtype(descr + 10, &dtype) ||
        !npy_shape(shape + 10, out) ||
        mob_tensor_elements(out->shape, (uint32_t)out->dims, &elements) != MOB_OK ||
        elements > (size - begin - length) / mob_dtype_bytes(dtype) ||
        elements * mob_dtype_bytes(dtype) != size - begin - length)
        return MOB_INVALID;
    out->dtype = (enum mob_tensor_dtype)dtype;
    out->data = p + begin + length;
    return MOB_OK;
}
