/* JSON text that grows. */
#include "common/wire/json_text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool reserve(struct json_out *o, uint64_t more)
{
    if (o->status != MOB_OK)
        return false;
    if (more > o->most - o->used) {
        o->status = MOB_TOO_LARGE;
        return false;
    }
    uint64_t needed = o->used + more + 1;
    if (needed <= o->capacity)
        return true;
    uint64_t capacity = needed < 128 ? 256 : needed * 2;
    char *bytes = realloc(o->bytes, capacity);
    if (!bytes) {
        o->status = MOB_NO_MEMORY;
        return false;
    }
    o->bytes = bytes;
    o->capacity = capacity;
    return true;
}

void json_add(struct json_out *o, const char *text, uint64_t length)
{
    if (!reserve(o, length))
        return;
    if (length > 0)
        memcpy(o->bytes + o->used, text, length);
    o->used += length;
    o->bytes[o->used] = '\0';
}

void json_add_text(struct json_out *o, const char *text)
{
    json_add(o, text, strlen(text));
}

/* Bytes that are not UTF-8 (a worker's last log lines may hold anything) become U+FFFD. */
static const char *add_special(struct json_out *o, const char *at)
{
    char escape[8];
    if ((uint8_t)*at >= 0x80)
        snprintf(escape, sizeof escape, "\xef\xbf\xbd");
    else if (*at == '"' || *at == '\\')
        snprintf(escape, sizeof escape, "\\%c", *at);
    else if (*at == '\n')
        snprintf(escape, sizeof escape, "\\n");
    else
        snprintf(escape, sizeof escape, "\\u%04x", (unsigned)(uint8_t)*at);
    json_add_text(o, escape);
    return at + 1;
}

void json_add_string(struct json_out *o, const void *bytes, uint64_t length)
{
    const char *at = bytes, *end = at + length;
    json_add(o, "\"", 1);
    while (at < end && o->status == MOB_OK) {
        const char *run = at;
        size_t n;
        while (at < end && (uint8_t)*at >= 0x20 && *at != '"' && *at != '\\' &&
            (n = json_utf8_sequence(at, (size_t)(end - at))) > 0)
            at += n;
        json_add(o, run, (uint64_t)(at - run));
        if (at < end)
            at = add_special(o, at);
    }
    json_add(o, "\"", 1);
}

void json_add_base64(struct json_out *o, const void *bytes, uint64_t length)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const uint8_t *p = bytes;
    json_add(o, "\"", 1);
    if (length > INT64_MAX / 2 || !reserve(o, (length + 2) / 3 * 4)) {
        if (o->status == MOB_OK)
            o->status = MOB_TOO_LARGE;
        return;
    }
    char *at = o->bytes + o->used;
    for (uint64_t i = 0; i < length; i += 3) {
        uint64_t left = length - i;
        uint32_t v =
            (uint32_t)p[i] << 16 | (left > 1 ? (uint32_t)p[i + 1] << 8 : 0) | (left > 2 ? p[i + 2] : 0u);
        *at++ = digits[v >> 18];
        *at++ = digits[v >> 12 & 63];
        *at++ = left > 1 ? digits[v >> 6 & 63] : '=';
        *at++ = left > 2 ? digits[v & 63] : '=';
    }
    o->used = (uint64_t)(at - o->bytes);
    json_add(o, "\"", 1);
}

void json_add_i64(struct json_out *o, int64_t v)
{
    char text[24];
    snprintf(text, sizeof text, "%lld", (long long)v);
    json_add_text(o, text);
}

/* Shortest text that reads back as the same double. */
void json_add_f64(struct json_out *o, double v)
{
    char text[40];
    if (isnan(v)) {
        json_add_text(o, "\"NaN\"");
        return;
    }
    if (isinf(v)) {
        json_add_text(o, v > 0 ? "\"Infinity\"" : "\"-Infinity\"");
        return;
    }
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, v);
        if (strtod(text, NULL) == v)
            break;
    }
    json_add_text(o, text);
    /* so that a whole number stays an f64 on the way back */
    if (!strpbrk(text, ".e"))
        json_add_text(o, ".0");
}
