#include "server/http/text.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

bool mob_text_reserve(struct mob_text *text, size_t n)
{
    if (text->failed)
        return false;
    size_t need;
    if (__builtin_add_overflow(text->length, n, &need) || need > SIZE_MAX / 2) {
        text->failed = true;
        return false;
    }
    size_t capacity = text->capacity ? text->capacity : 256;
    while (capacity < need + 1)
        capacity *= 2;
    if (capacity <= text->capacity)
        return true;
    char *grown = realloc(text->bytes, capacity);
    if (!grown) {
        text->failed = true;
        return false;
    }
    text->bytes = grown;
    text->capacity = capacity;
    return true;
}

void mob_text_printf(struct mob_text *text, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    char small[256];
    va_list again;
    va_copy(again, arguments);
    int n = vsnprintf(small, sizeof small, format, arguments);
    va_end(arguments);
    if (n >= 0 && (size_t)n < sizeof small) {
        mob_text_put(text, small, (size_t)n);
    } else if (n >= 0 && mob_text_reserve(text, (size_t)n + 1)) {
        vsnprintf(text->bytes + text->length, (size_t)n + 1, format, again);
        text->length += (size_t)n;
    }
    va_end(again);
}

void mob_text_u64(struct mob_text *text, uint64_t v)
{
    char digits[20];
    size_t at = sizeof digits;
    do {
        digits[--at] = (char)('0' + v % 10);
        v /= 10;
    } while (v);
    mob_text_put(text, digits + at, sizeof digits - at);
}

void mob_text_i64(struct mob_text *text, int64_t v)
{
    if (v < 0)
        mob_text_putc(text, '-');
    mob_text_u64(text, v < 0 ? 0 - (uint64_t)v : (uint64_t)v);
}

void mob_text_f64(struct mob_text *text, double v)
{
    if (!isfinite(v)) {
        mob_text_puts(text, "null");
        return;
    }
    /* Integers of moderate size are common (counters, rewards) and need no search for the shortest form. */
    if (fabs(v) < 1e15 && v == (double)(int64_t)v) {
        if (v == 0 && signbit(v)) {
            mob_text_puts(text, "-0.0");
            return;
        }
        mob_text_i64(text, (int64_t)v);
        mob_text_puts(text, ".0");
        return;
    }
    char buffer[40];
    int n = 0;
    for (int precision = 9; precision <= 17; precision += precision == 9 ? 6 : 1) {
        n = snprintf(buffer, sizeof buffer, "%.*g", precision, v);
        if (strtod(buffer, NULL) == v)
            break;
    }
    mob_text_put(text, buffer, (size_t)n);
}

void mob_text_f32(struct mob_text *text, float v)
{
    if (!isfinite(v)) {
        mob_text_puts(text, "null");
        return;
    }
    char buffer[40];
    int n = 0;
    for (int precision = 6; precision <= 9; precision++) {
        n = snprintf(buffer, sizeof buffer, "%.*g", precision, (double)v);
        if (strtof(buffer, NULL) == v)
            break;
    }
    mob_text_put(text, buffer, (size_t)n);
}

/* Length of the valid UTF-8 sequence at p (RFC 3629), 0 if there is none. */
static size_t utf8_length(const unsigned char *p, size_t left)
{
    if (p[0] < 0x80)
        return 1;
    size_t n = p[0] >= 0xc2 && p[0] <= 0xdf ? 2
        : (p[0] & 0xf0) == 0xe0             ? 3
        : p[0] >= 0xf0 && p[0] <= 0xf4      ? 4
                                            : 0;
    if (n == 0 || left < n)
        return 0;
    for (size_t i = 1; i < n; i++)
        if ((p[i] & 0xc0) != 0x80)
            return 0;
    if ((p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xed && p[1] > 0x9f) || (p[0] == 0xf0 && p[1] < 0x90) ||
        (p[0] == 0xf4 && p[1] > 0x8f))
        return 0;
    return n;
}

static void put_escaped(struct mob_text *text, unsigned char c)
{
    switch (c) {
    case '"':
        mob_text_puts(text, "\\\"");
        break;
    case '\\':
        mob_text_puts(text, "\\\\");
        break;
    case '\n':
        mob_text_puts(text, "\\n");
        break;
    case '\t':
        mob_text_puts(text, "\\t");
        break;
    case '\r':
        mob_text_puts(text, "\\r");
        break;
    default:
        mob_text_printf(text, "\\u%04x", c);
    }
}

void mob_text_json_string(struct mob_text *text, const char *bytes, size_t n)
{
    const unsigned char *p = (const unsigned char *)bytes;
    mob_text_putc(text, '"');
    size_t run = 0; /* start of what can be copied as it is */
    for (size_t i = 0; i < n;) {
        if (p[i] >= 0x20 && p[i] < 0x80 && p[i] != '"' && p[i] != '\\') {
            i++;
            continue;
        }
        size_t sequence = p[i] < 0x80 ? 0 : utf8_length(p + i, n - i);
        if (sequence) {
            i += sequence;
            continue;
        }
        mob_text_put(text, bytes + run, i - run);
        if (p[i] < 0x80)
            put_escaped(text, p[i]);
        else
            mob_text_puts(text, "\xef\xbf\xbd");
        run = ++i;
    }
    mob_text_put(text, bytes + run, n - run);
    mob_text_putc(text, '"');
}

void mob_text_json_cstring(struct mob_text *text, const char *s)
{
    mob_text_json_string(text, s, strlen(s));
}

void mob_text_family(
    struct mob_text *text, const char *prefix, const char *name, const char *type, const char *help)
{
    mob_text_printf(text, "# HELP %s%s %s\n# TYPE %s%s %s\n", prefix, name, help, prefix, name, type);
}

void mob_text_base64(struct mob_text *text, const void *bytes, size_t n)
{
    static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const uint8_t *p = bytes;
    if (n > SIZE_MAX / 4 || !mob_text_reserve(text, (n + 2) / 3 * 4))
        return;
    char *out = text->bytes + text->length;
    for (size_t i = 0; i < n; i += 3) {
        uint32_t v =
            (uint32_t)p[i] << 16 | (i + 1 < n ? (uint32_t)p[i + 1] << 8 : 0) | (i + 2 < n ? p[i + 2] : 0);
        *out++ = alphabet[v >> 18];
        *out++ = alphabet[v >> 12 & 63];
        *out++ = i + 1 < n ? alphabet[v >> 6 & 63] : '=';
        *out++ = i + 2 < n ? alphabet[v & 63] : '=';
    }
    text->length = (size_t)(out - text->bytes);
}

char *mob_text_take(struct mob_text *text, size_t *length_out)
{
    if (!mob_text_reserve(text, 1)) {
        mob_text_fini(text);
        return NULL;
    }
    char *bytes = text->bytes;
    bytes[text->length] = 0;
    *length_out = text->length;
    *text = (struct mob_text){0};
    return bytes;
}

void mob_text_fini(struct mob_text *text)
{
    free(text->bytes);
    *text = (struct mob_text){0};
}
