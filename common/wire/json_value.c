#include "common/wire/json_value.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/wire/completion.h"
#include "common/wire/failure_json.h"
#include "common/wire/json_tensor.h"
#include "common/wire/json_text.h"

static void reset(struct mob_json_value *v)
{
    free(v->heap);
    free(v->contains);
    memset(v, 0, sizeof *v);
}

void mob_json_value_fini(struct mob_json_value *v)
{
    if (v)
        reset(v);
}

/* One conversion: its input, limits and what went wrong. */
struct conversion {
    const struct mob_sig_type *type; /* NULL = any */
    uint64_t most;
    struct mob_json_value *out;
    const char *found; /* of a mismatch */
};

static const char *const kind_names[] = {
    [JSON_NONE] = "nothing",
    [JSON_NULL] = "null",
    [JSON_TRUE] = "a boolean",
    [JSON_FALSE] = "a boolean",
    [JSON_NUMBER] = "a number",
    [JSON_STRING] = "a string",
    [JSON_ARRAY] = "an array",
    [JSON_OBJECT] = "an object",
};

static enum mob_status mismatch(struct conversion *c, const char *found)
{
    c->found = found;
    return MOB_TYPE_MISMATCH;
}

static enum mob_status set_payload(
    struct conversion *c, enum mob_value_type type, const void *payload, uint64_t bytes)
{
    if (bytes > c->most || bytes > UINT32_MAX)
        return MOB_TOO_LARGE;
    c->out->arg.type = type;
    c->out->arg.payload = payload;
    c->out->arg.payload_bytes = (uint32_t)bytes;
    return MOB_OK;
}

static enum mob_status set_small(
    struct conversion *c, enum mob_value_type type, const void *value, uint32_t bytes)
{
    if (bytes > 0)
        memcpy(c->out->small, value, bytes);
    return set_payload(c, type, c->out->small, bytes);
}

/* A heap buffer of `bytes` as the payload. */
static enum mob_status set_heap(struct conversion *c, enum mob_value_type type, uint64_t bytes)
{
    if (bytes > c->most)
        return MOB_TOO_LARGE;
    c->out->heap = malloc(bytes > 0 ? bytes : 1);
    return c->out->heap ? set_payload(c, type, c->out->heap, bytes) : MOB_NO_MEMORY;
}

static enum mob_status to_utf8(struct conversion *c, struct json_slice text)
{
    uint64_t raw = (uint64_t)(text.end - text.at) - 2;
    if (!memchr(text.at, '\\', raw + 1))
        return set_payload(c, MOB_TYPE_UTF8, text.at + 1, raw);
    enum mob_status status = set_heap(c, MOB_TYPE_UTF8, json_slice_length(text));
    if (status == MOB_OK)
        json_string_decode(text, (char *)c->out->heap);
    return status;
}

static enum mob_status to_bytes(struct conversion *c, enum mob_value_type type, struct json_slice text)
{
    int64_t bytes = json_base64_decode(text, NULL);
    if (bytes < 0)
        return mismatch(c, "a string that is not base64");
    enum mob_status status = set_heap(c, type, (uint64_t)bytes);
    if (status == MOB_OK)
        (void)json_base64_decode(text, c->out->heap);
    return status;
}

static enum mob_status to_f64(struct conversion *c, enum json_kind kind, struct json_slice text)
{
    double v;
    if (kind == JSON_NUMBER)
        v = json_number_f64(text);
    else if (kind == JSON_STRING && json_string_equals(text, "NaN"))
        v = (double)__builtin_nan("");
    else if (kind == JSON_STRING && json_string_equals(text, "Infinity"))
        v = (double)__builtin_inf();
    else if (kind == JSON_STRING && json_string_equals(text, "-Infinity"))
        v = -(double)__builtin_inf();
    else
        return mismatch(c, kind_names[kind]);
    if (kind == JSON_NUMBER && __builtin_isinf(v))
        return mismatch(c, "a number out of range");
    return set_small(c, MOB_TYPE_F64, &v, sizeof v);
}

static enum mob_status to_i64(struct conversion *c, enum json_kind kind, struct json_slice text)
{
    int64_t v;
    if (kind != JSON_NUMBER)
        return mismatch(c, kind_names[kind]);
    enum json_integer integer = json_number_integer(text, &v);
    if (integer != JSON_INTEGER)
        return mismatch(
            c, integer == JSON_OUT_OF_RANGE ? "an integer out of range" : "a number with a fraction");
    return set_small(c, MOB_TYPE_I64, &v, sizeof v);
}

static enum mob_status to_actor(struct conversion *c, enum json_kind kind, struct json_slice text)
{
    char id_text[MOB_ID_TEXT_MAX];
    struct mob_actor_id id;
    if (kind != JSON_STRING)
        return mismatch(c, kind_names[kind]);
    size_t n = json_slice_length(text);
    if (n >= sizeof id_text)
        return mismatch(c, "a string that is no actor id");
    json_string_decode(text, id_text);
    id_text[n] = '\0';
    if (strlen(id_text) != n || mob_actor_id_parse(id_text, &id) != MOB_OK)
        return mismatch(c, "a string that is no actor id");
    return set_small(c, MOB_TYPE_ACTOR, &id, sizeof id);
}

static bool object_id_of(struct json_slice string, struct mob_object_id *out)
{
    char text[MOB_ID_TEXT_MAX];
    size_t n = json_slice_length(string);
    if (n >= sizeof text)
        return false;
    json_string_decode(string, text);
    text[n] = '\0';
    return strlen(text) == n && mob_object_id_parse(text, out) == MOB_OK;
}

/* Keeps every id in a member "$ref". One pass over all strings of the checked text. */
static enum mob_status list_contained(struct conversion *c, struct json_slice text)
{
    struct mob_json_value *out = c->out;
    while (text.at < text.end) {
        struct json_slice key, value;
        struct mob_object_id id;
        if (*text.at != '"') {
            text.at++;
            continue;
        }
        if (json_take(&text, &key) != JSON_STRING)
            break;
        json_skip_blanks(&text);
        if (text.at >= text.end || *text.at != ':' || !json_string_equals(key, "$ref"))
            continue;
        struct json_slice after = {text.at + 1, text.end};
        if (json_take(&after, &value) != JSON_STRING || !object_id_of(value, &id))
            continue;
        text = after;
        if (out->contains_count == MOB_JSON_CONTAINS_MAX)
            return MOB_TOO_LARGE;
        if (!out->contains && !(out->contains = malloc(MOB_JSON_CONTAINS_MAX * sizeof *out->contains)))
            return MOB_NO_MEMORY;
        out->contains[out->contains_count++] = id;
    }
    return MOB_OK;
}

static enum mob_status to_json(struct conversion *c, enum json_kind kind, struct json_slice text)
{
    enum mob_status status = set_payload(c, MOB_TYPE_JSON, text.at, (uint64_t)(text.end - text.at));
    bool nested = kind == JSON_ARRAY || kind == JSON_OBJECT;
    return status == MOB_OK && nested ? list_contained(c, text) : status;
}

/* An object with this one member only. */
static enum json_kind only_member(struct json_slice object, const char *key, struct json_slice *value_out)
{
    struct json_iter it = json_members(object);
    struct json_slice name, value, more;
    enum json_kind kind = json_next(&it, &name, &value);
    if (kind == JSON_NONE || !json_string_equals(name, key) || json_next(&it, &name, &more) != JSON_NONE)
        return JSON_NONE;
    *value_out = value;
    return kind;
}

static enum mob_status to_any(struct conversion *c, enum json_kind kind, struct json_slice text)
{
    struct json_slice inside;
    uint8_t truth = kind == JSON_TRUE;
    switch (kind) {
    case JSON_NULL:
        return set_small(c, MOB_TYPE_NULL, NULL, 0);
    case JSON_TRUE:
    case JSON_FALSE:
        return set_small(c, MOB_TYPE_BOOL, &truth, 1);
    case JSON_NUMBER:
        return json_number_is_integer(text) ? to_i64(c, kind, text) : to_f64(c, kind, text);
    case JSON_STRING:
        return to_utf8(c, text);
    case JSON_OBJECT:
        if (only_member(text, "$actor", &inside) == JSON_STRING)
            return to_actor(c, JSON_STRING, inside);
        if (only_member(text, "$bytes", &inside) == JSON_STRING)
            return to_bytes(c, MOB_TYPE_BYTES, inside);
        return to_json(c, kind, text);
    case JSON_ARRAY:
    case JSON_NONE:
        break;
    }
    return to_json(c, kind, text);
}

static enum mob_status to_declared(struct conversion *c, enum json_kind kind, struct json_slice text)
{
    uint8_t truth = kind == JSON_TRUE;
    switch ((unsigned)c->type->type) {
    case MOB_TYPE_NULL:
        return kind == JSON_NULL ? set_small(c, MOB_TYPE_NULL, NULL, 0) : mismatch(c, kind_names[kind]);
    case MOB_TYPE_BOOL:
        if (kind != JSON_TRUE && kind != JSON_FALSE)
            return mismatch(c, kind_names[kind]);
        return set_small(c, MOB_TYPE_BOOL, &truth, 1);
    case MOB_TYPE_I64:
        return to_i64(c, kind, text);
    case MOB_TYPE_F64:
        return to_f64(c, kind, text);
    case MOB_TYPE_UTF8:
        return kind == JSON_STRING ? to_utf8(c, text) : mismatch(c, kind_names[kind]);
    case MOB_TYPE_BYTES:
    case MOB_TYPE_TABLE:
    case MOB_TYPE_PICKLE5:
        if (kind != JSON_STRING)
            return mismatch(c, kind_names[kind]);
        return to_bytes(c, (enum mob_value_type)c->type->type, text);
    case MOB_TYPE_ACTOR:
        return to_actor(c, kind, text);
    case MOB_TYPE_JSON:
        return to_json(c, kind, text);
    case MOB_TYPE_TENSOR:
        return json_to_tensor(text, kind, c->type, c->most, c->out, &c->found);
    default:
        return to_any(c, kind, text);
    }
}

static void describe(const struct conversion *c, const struct mob_signature *s, enum mob_status status,
    struct mob_signature_error *e)
{
    *e = (struct mob_signature_error){.position = -1, .index = -1};
    if (status == MOB_BAD_REQUEST) {
        snprintf(e->message, sizeof e->message, "this is not JSON, or it is nested more than %u deep",
            MOB_JSON_DEPTH_MAX);
        return;
    }
    if (status != MOB_TYPE_MISMATCH) {
        snprintf(e->message, sizeof e->message, "%s (at most %llu bytes)", mob_status_text(status),
            (unsigned long long)c->most);
        return;
    }
    if (c->type) {
        struct mob_sig_type one = *c->type;
        one.variadic = false;
        memcpy(e->name, one.name, sizeof e->name);
        mob_sig_type_format(s, &one, e->expected, sizeof e->expected);
    } else {
        snprintf(e->expected, sizeof e->expected, "any");
    }
    snprintf(e->found, sizeof e->found, "%s", c->found);
    snprintf(e->message, sizeof e->message, "%s%sexpected %s, found %s", e->name,
        e->name[0] != '\0' ? ": " : "", e->expected, e->found);
}

static enum mob_status convert(struct conversion *c, struct json_slice whole)
{
    struct json_slice text, ref;
    enum json_kind kind = json_whole(whole, &text);
    if (kind == JSON_NONE)
        return MOB_BAD_REQUEST;
    if (kind == JSON_OBJECT && only_member(text, "$ref", &ref) == JSON_STRING) {
        c->out->arg.is_ref = true;
        c->out->arg.type = MOB_TYPE_NONE;
        return object_id_of(ref, &c->out->arg.ref) ? MOB_OK : mismatch(c, "a $ref that is no object id");
    }
    if (!c->type)
        return to_any(c, kind, text);
    if (kind == JSON_NULL && c->type->optional)
        return set_small(c, MOB_TYPE_NULL, NULL, 0);
    return to_declared(c, kind, text);
}

enum mob_status mob_value_from_json(const char *json, size_t length, const struct mob_signature *signature,
    const struct mob_sig_type *type, uint64_t payload_bytes_max, struct mob_json_value *out,
    struct mob_signature_error *error_out)
{
    reset(out);
    struct conversion c = {type, payload_bytes_max, out, "something else"};
    enum mob_status status = convert(&c, (struct json_slice){json, json + length});
    if (status != MOB_OK) {
        reset(out);
        if (error_out)
            describe(&c, signature, status, error_out);
    }
    return status;
}

/* ---- to JSON ---- */

static void add_error(struct json_out *o, const void *payload, uint64_t bytes)
{
    struct mob_error_link links[MOB_ERROR_LINKS_MAX];
    int count = mob_error_decode(payload, bytes, links, MOB_ERROR_LINKS_MAX);
    if (count < 1) {
        o->status = MOB_CORRUPT;
        return;
    }
    json_add_text(o, "{\"error\":");
    json_add_failure(o, links, count);
    json_add_text(o, "}");
}

static void add_id(struct json_out *o, enum mob_value_type type, const void *payload)
{
    char text[MOB_ID_TEXT_MAX];
    if (type == MOB_TYPE_ACTOR) {
        struct mob_actor_id id;
        memcpy(&id, payload, sizeof id);
        mob_actor_id_format(id, text);
        json_add_string(o, text, strlen(text));
        return;
    }
    struct mob_object_id id;
    memcpy(&id, payload, sizeof id);
    json_add_text(o, "{\"$ref\":\"");
    json_add_text(o, mob_object_id_format(id, text));
    json_add_text(o, "\"}");
}

static void add_number(struct json_out *o, enum mob_value_type type, const void *payload)
{
    int64_t i;
    double f;
    memcpy(&i, payload, sizeof i);
    memcpy(&f, payload, sizeof f);
    if (type == MOB_TYPE_I64)
        json_add_i64(o, i);
    else
        json_add_f64(o, f);
}

static void add_value(struct json_out *o, enum mob_value_type type, const void *payload, uint64_t bytes)
{
    struct json_slice text = {payload, (const char *)payload + bytes}, whole;
    switch ((unsigned)type) {
    case MOB_TYPE_NULL:
        json_add_text(o, "null");
        break;
    case MOB_TYPE_BOOL:
        json_add_text(o, *(const uint8_t *)payload ? "true" : "false");
        break;
    case MOB_TYPE_I64:
    case MOB_TYPE_F64:
        add_number(o, type, payload);
        break;
    case MOB_TYPE_UTF8:
        if (json_utf8_ok(payload, bytes))
            json_add_string(o, payload, bytes);
        else
            o->status = MOB_CORRUPT;
        break;
    case MOB_TYPE_JSON:
        if (json_whole(text, &whole) != JSON_NONE)
            json_add(o, whole.at, (uint64_t)(whole.end - whole.at));
        else
            o->status = MOB_CORRUPT;
        break;
    case MOB_TYPE_TENSOR:
        json_add_tensor(o, payload, bytes);
        break;
    case MOB_TYPE_ERROR:
        add_error(o, payload, bytes);
        break;
    case MOB_TYPE_ACTOR:
    case MOB_TYPE_FUTURE:
        add_id(o, type, payload);
        break;
    default: /* bytes, table, pickle5 */
        json_add_base64(o, payload, bytes);
        break;
    }
}

enum mob_status mob_value_to_json(enum mob_value_type type, const void *payload, uint64_t payload_bytes,
    uint64_t bytes_max, char **json_out, uint64_t *length_out)
{
    struct json_out o = {.most = bytes_max};
    if (!mob_value_small_ok(type, payload_bytes))
        return MOB_CORRUPT;
    add_value(&o, type, payload, payload_bytes);
    if (o.status != MOB_OK) {
        free(o.bytes);
        return o.status;
    }
    *json_out = o.bytes;
    *length_out = o.used;
    return MOB_OK;
}
