/* Signatures as JSON Schema. Mirrors the mapping of json_value.h. */
#include "common/wire/signature.h"

#include <string.h>

#include "common/wire/text_out.h"

#define BASE64_SCHEMA "{\"type\":\"string\",\"contentEncoding\":\"base64\"}"

static const char *dtype_item(enum mob_dtype dtype)
{
    switch (dtype) {
    case MOB_DTYPE_BOOL:
        return "boolean";
    case MOB_DTYPE_F16:
    case MOB_DTYPE_BF16:
    case MOB_DTYPE_F32:
    case MOB_DTYPE_F64:
    case MOB_DTYPE_NONE:
        return "number";
    case MOB_DTYPE_BYTES:
        return "string";
    case MOB_DTYPE_U8:
    case MOB_DTYPE_U16:
    case MOB_DTYPE_U32:
    case MOB_DTYPE_U64:
    case MOB_DTYPE_I8:
    case MOB_DTYPE_I16:
    case MOB_DTYPE_I32:
    case MOB_DTYPE_I64:
    case MOB_DTYPE_COUNT:
        break;
    }
    return "integer";
}

/* Nested arrays as deep as the shape says, or the object form. */
static void add_tensor(struct text_out *t, const struct mob_sig_type *type)
{
    text_add(t, "{\"anyOf\":[");
    if (type->has_shape) {
        for (uint32_t i = 0; i < type->ndim; i++) {
            text_add(t, "{\"type\":\"array\",");
            if (type->dims[i] >= 0)
                text_add(t, "\"minItems\":%lld,\"maxItems\":%lld,", (long long)type->dims[i],
                    (long long)type->dims[i]);
            text_add(t, "\"items\":");
        }
        text_add(t, "{\"type\":\"%s\"}", dtype_item((enum mob_dtype)type->dtype));
        for (uint32_t i = 0; i < type->ndim; i++)
            text_add(t, "}");
    } else {
        text_add(t, "{\"type\":\"array\"}");
    }
    text_add(t, ",{\"$ref\":\"#/$defs/tensor\"}]}");
}

static void add_value(struct text_out *t, const struct mob_sig_type *type)
{
    switch ((unsigned)type->type) {
    case MOB_TYPE_NULL:
        text_add(t, "{\"type\":\"null\"}");
        break;
    case MOB_TYPE_UTF8:
        text_add(t, "{\"type\":\"string\"}");
        break;
    case MOB_TYPE_I64:
        text_add(
            t, "{\"type\":\"integer\",\"minimum\":-9223372036854775808,\"maximum\":9223372036854775807}");
        break;
    case MOB_TYPE_F64:
        text_add(t, "{\"anyOf\":[{\"type\":\"number\"},{\"enum\":[\"NaN\",\"Infinity\",\"-Infinity\"]}]}");
        break;
    case MOB_TYPE_BOOL:
        text_add(t, "{\"type\":\"boolean\"}");
        break;
    case MOB_TYPE_BYTES:
    case MOB_TYPE_TABLE:
    case MOB_TYPE_PICKLE5:
        text_add(t, BASE64_SCHEMA);
        break;
    case MOB_TYPE_TENSOR:
        add_tensor(t, type);
        break;
    case MOB_TYPE_ACTOR:
        text_add(t, "{\"type\":\"string\",\"pattern\":\"^actor_[a-z2-7]{26}$\"}");
        break;
    default: /* any, json */
        text_add(t, "true");
        break;
    }
}

static void add_item(
    struct text_out *t, const struct mob_signature *s, const struct mob_sig_type *type, bool with_ref)
{
    char text[160];
    struct mob_sig_type one = *type;
    one.variadic = false;
    mob_sig_type_format(s, &one, text, sizeof text);
    text_add(t, "{");
    if (type->name[0] != '\0')
        text_add(t, "\"title\":\"%s\",", type->name);
    text_add(t, "\"description\":\"%s\",\"anyOf\":[", text);
    add_value(t, type);
    if (type->optional)
        text_add(t, ",{\"type\":\"null\"}");
    if (with_ref)
        text_add(t, ",{\"$ref\":\"#/$defs/object\"}");
    text_add(t, "]}");
}

struct list {
    const struct mob_sig_type *types;
    uint32_t count, least;
    bool open; /* more may follow, of the last type */
    bool with_ref;
};

static void add_list(struct text_out *t, const struct mob_signature *s, const struct list *l)
{
    uint32_t fixed = l->open ? l->count - 1 : l->count;
    text_add(t, "{\"type\":\"array\",\"minItems\":%u", l->least);
    if (fixed > 0) {
        text_add(t, ",\"prefixItems\":[");
        for (uint32_t i = 0; i < fixed; i++) {
            text_add(t, "%s", i > 0 ? "," : "");
            add_item(t, s, &l->types[i], l->with_ref);
        }
        text_add(t, "]");
    }
    text_add(t, ",\"items\":");
    if (l->open)
        add_item(t, s, &l->types[fixed], l->with_ref);
    else
        text_add(t, "false");
    text_add(t, "}");
}

uint32_t mob_signature_json_schema(const struct mob_signature *s, char *out, uint32_t capacity)
{
    char text[MOB_SIGNATURE_BYTES_MAX * 2];
    struct text_out t = text_out_of(out, capacity);
    bool open_returns = s->variadic_returns || s->stream;
    mob_signature_format(s, text, sizeof text);
    text_add(&t,
        "{\"$schema\":\"https://json-schema.org/draft/2020-12/schema\",\"title\":\"%s\",\"type\":\"object\",",
        text);
    text_add(&t, "\"properties\":{\"arguments\":");
    add_list(&t, s, &(struct list){s->params, s->param_count, s->required, s->variadic, true});
    text_add(&t, ",\"returns\":");
    uint32_t least = s->return_count - (open_returns ? 1 : 0);
    add_list(&t, s, &(struct list){s->returns, s->return_count, least, open_returns, false});
    text_add(&t, "},\"required\":[\"arguments\"],\"$defs\":{");
    text_add(&t,
        "\"object\":{\"type\":\"object\",\"properties\":{\"$ref\":{\"type\":\"string\",\"pattern\":"
        "\"^obj_[a-z2-7]{32}$\"}},\"required\":[\"$ref\"],\"additionalProperties\":false},");
    text_add(&t,
        "\"tensor\":{\"type\":\"object\",\"properties\":{\"dtype\":{\"type\":\"string\"},\"shape\":{\"type\":"
        "\"array\",\"items\":{\"type\":\"integer\",\"minimum\":0}},\"data\":{\"anyOf\":[{\"type\":\"array\"}"
        "," BASE64_SCHEMA "]}},\"required\":[\"dtype\",\"shape\",\"data\"]}},\"x-mobula-signature\":%d}",
        MOB_SIGNATURE_VERSION);
    return text_length(&t);
}
