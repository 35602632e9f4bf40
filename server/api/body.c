#include "server/api/body.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/api/api.h"
#include "server/api/problem.h"
#include "server/http/wide_json.h"

/* Nesting of the text, strings left out; wrong for malformed text, which the parser refuses anyway. */
static bool too_deep(const char *text, size_t length)
{
    unsigned depth = 0;
    bool in_string = false;
    for (size_t i = 0; i < length; i++) {
        char c = text[i];
        if (in_string) {
            if (c == '\\')
                i++;
            else if (c == '"')
                in_string = false;
        } else if (c == '"') {
            in_string = true;
        } else if (c == '[' || c == '{') {
            if (++depth > MOB_BODY_DEPTH_MAX)
                return true;
        } else if ((c == ']' || c == '}') && depth > 0) {
            depth--;
        }
    }
    return false;
}

json_t *mob_json_parse(const char *text, size_t length, char *message_out, size_t capacity)
{
    if (too_deep(text, length)) {
        snprintf(message_out, capacity, "nested deeper than %d", MOB_BODY_DEPTH_MAX);
        return NULL;
    }
    json_error_t error;
    json_t *root = mob_json_load(text, length, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, NULL, &error);
    if (!root && json_error_code(&error) == json_error_numeric_overflow)
        snprintf(message_out, capacity,
            "a number is beyond what 64 bits hold, also with a fraction (f64), at line %d", error.line);
    else if (!root && json_error_code(&error) == json_error_null_character)
        snprintf(message_out, capacity, "text with \\u0000 is not taken, at line %d, column %d", error.line,
            error.column);
    else if (!root)
        snprintf(message_out, capacity, "%s at line %d, column %d", error.text, error.line, error.column);
    return root;
}

bool mob_body_open(struct mob_body *body, struct mob_http_request *request, bool may_be_absent)
{
    *body = (struct mob_body){.request = request};
    if (request->body_length == 0 && may_be_absent) {
        body->root = json_object();
        if (!body->root)
            mob_api_fail(request, MOB_NO_MEMORY, "out of memory");
        return body->root != NULL;
    }
    char message[MOB_BODY_MESSAGE_MAX];
    body->root =
        mob_json_parse(request->body ? request->body : "", request->body_length, message, sizeof message);
    if (!body->root) {
        mob_problem_replyf(request, MOB_BAD_REQUEST, "the body is not JSON: %s", message);
        mob_api_send(request);
        return false;
    }
    if (!json_is_object(body->root)) {
        mob_body_error(body, "", NULL, "must be an object");
        return mob_body_ok(body);
    }
    return true;
}

struct mob_engine_op *mob_body_open_op(
    struct mob_body *body, struct mob_http_request *request, bool may_be_absent, enum mob_engine_verb verb)
{
    if (!mob_body_open(body, request, may_be_absent))
        return NULL;
    struct mob_engine_op *op = mob_api_op(request, verb);
    if (!op)
        mob_body_close(body);
    return op;
}

void mob_body_close(struct mob_body *body)
{
    json_decref(body->root);
    body->root = NULL;
    mob_text_fini(&body->errors);
}

bool mob_body_ok(struct mob_body *body)
{
    if (body->error_count == 0)
        return true;
    mob_text_putc(&body->errors, ']');
    size_t length = 0;
    char *errors = mob_text_take(&body->errors, &length);
    char detail[sizeof body->first + 40];
    if (body->error_count == 1)
        snprintf(detail, sizeof detail, "%s", body->first);
    else
        snprintf(detail, sizeof detail, "%s; and %u more, see errors", body->first, body->error_count - 1);
    mob_problem_reply(
        body->request, &(struct mob_problem){.status = MOB_INVALID, .detail = detail, .errors_json = errors});
    free(errors);
    mob_api_send(body->request);
    mob_body_close(body);
    return false;
}

/* Pointer of a field: "~" and "/" in names are escaped (RFC 6901). */
static void write_pointer(struct mob_text *text, const char *prefix, const char *field)
{
    struct mob_text pointer = {0};
    mob_text_puts(&pointer, prefix);
    if (field) {
        mob_text_putc(&pointer, '/');
        for (const char *c = field; *c; c++) {
            if (*c == '~')
                mob_text_puts(&pointer, "~0");
            else if (*c == '/')
                mob_text_puts(&pointer, "~1");
            else
                mob_text_putc(&pointer, *c);
        }
    }
    mob_text_json_string(text, pointer.bytes ? pointer.bytes : "", pointer.length);
    mob_text_fini(&pointer);
}

void mob_body_error(struct mob_body *body, const char *prefix, const char *field, const char *format, ...)
{
    if (body->error_count++ >= MOB_BODY_ERRORS_MAX)
        return;
    char message[256];
    va_list arguments;
    va_start(arguments, format);
    /* NOLINTNEXTLINE(clang-analyzer-valist.Uninitialized) */
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    if (body->error_count == 1 && !*prefix && !field)
        snprintf(body->first, sizeof body->first, "the body %s", message);
    else if (body->error_count == 1)
        snprintf(body->first, sizeof body->first, "%.80s%s%.64s: %s", prefix, field ? "/" : "",
            field ? field : "", message);
    mob_text_puts(&body->errors, body->error_count == 1 ? "[{\"pointer\":" : ",{\"pointer\":");
    write_pointer(&body->errors, prefix, field);
    mob_text_puts(&body->errors, ",\"message\":");
    mob_text_json_cstring(&body->errors, message);
    mob_text_putc(&body->errors, '}');
}

static void unknown_field(struct mob_body *body, const char *prefix, const char *key, const char *names)
{
    char known[MOB_BODY_MESSAGE_MAX] = "";
    size_t used = 0;
    for (const char *name = names; *name && used < sizeof known; name += strlen(name) + 1)
        used += (size_t)snprintf(known + used, sizeof known - used, " %s", name);
    mob_body_error(body, prefix, key, "unknown field; there are:%s", known);
}

void mob_body_fields(struct mob_body *body, const json_t *object, const char *prefix, const char *names)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)object, key, value)
    {
        const char *name = names;
        while (*name && strcmp(name, key) != 0)
            name += strlen(name) + 1;
        if (!*name)
            unknown_field(body, prefix, key, names);
    }
}

static json_t *field_of(struct mob_body *body, const json_t *object, const char *prefix, const char *field,
    enum mob_body_need need)
{
    json_t *value = json_object_get(object, field);
    if (value && json_is_null(value) && need == MOB_BODY_OPTIONAL)
        return NULL;
    if (!value && need == MOB_BODY_REQUIRED)
        mob_body_error(body, prefix, field, "is required");
    return value;
}

const char *mob_body_string(struct mob_body *body, const json_t *object, const char *prefix,
    const char *field, enum mob_body_need need, size_t length_max)
{
    json_t *value = field_of(body, object, prefix, field, need);
    if (!value)
        return NULL;
    if (!json_is_string(value)) {
        mob_body_error(body, prefix, field, "must be a string");
        return NULL;
    }
    /* The parser refuses NUL inside strings, so strlen is the length. */
    size_t length = strlen(json_string_value(value));
    if (length > length_max || length == 0) {
        mob_body_error(body, prefix, field, "must have 1 to %zu bytes", length_max);
        return NULL;
    }
    return json_string_value(value);
}

/* However it is written (1000, 1e3, 1000.0), as with arguments: JSON Schema's `integer`. */
static bool is_integer(const json_t *value, int64_t *out)
{
    const double exact = 9007199254740992; /* 2^53: up to here f64 holds every integer */
    double n = json_number_value(value);
    if (json_is_integer(value))
        *out = json_integer_value(value);
    else if (json_is_real(value) && n >= -exact && n <= exact && n == (double)(int64_t)n)
        *out = (int64_t)n;
    else
        return false;
    return true;
}

int64_t mob_body_int(struct mob_body *body, const json_t *object, const char *prefix, const char *field,
    int64_t min, int64_t max, int64_t absent)
{
    json_t *value = field_of(body, object, prefix, field, MOB_BODY_OPTIONAL);
    if (!value)
        return absent;
    int64_t n = 0;
    if (!is_integer(value, &n) || n < min || n > max) {
        mob_body_error(
            body, prefix, field, "must be an integer from %lld to %lld", (long long)min, (long long)max);
        return absent;
    }
    return n;
}

bool mob_body_bool(
    struct mob_body *body, const json_t *object, const char *prefix, const char *field, bool absent)
{
    json_t *value = field_of(body, object, prefix, field, MOB_BODY_OPTIONAL);
    if (!value)
        return absent;
    if (!json_is_boolean(value)) {
        mob_body_error(body, prefix, field, "must be true or false");
        return absent;
    }
    return json_is_true(value);
}

json_t *mob_body_array(struct mob_body *body, const json_t *object, const char *prefix, const char *field,
    enum mob_body_need need, size_t count_max)
{
    json_t *value = field_of(body, object, prefix, field, need);
    if (!value)
        return NULL;
    if (!json_is_array(value)) {
        mob_body_error(body, prefix, field, "must be an array");
        return NULL;
    }
    if (json_array_size(value) > count_max) {
        mob_body_error(body, prefix, field, "must have at most %zu items", count_max);
        return NULL;
    }
    return value;
}

json_t *mob_body_object(struct mob_body *body, const json_t *object, const char *prefix, const char *field,
    enum mob_body_need need)
{
    json_t *value = field_of(body, object, prefix, field, need);
    if (value && !json_is_object(value)) {
        mob_body_error(body, prefix, field, "must be an object");
        return NULL;
    }
    return value;
}
