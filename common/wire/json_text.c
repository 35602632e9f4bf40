#include "common/wire/json_text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/wire/json_value.h"

void json_skip_blanks(struct json_slice *s)
{
    while (s->at < s->end && (*s->at == ' ' || *s->at == '\t' || *s->at == '\n' || *s->at == '\r'))
        s->at++;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* The four digits of \uXXXX at `at`, -1 when they are not there. */
static int32_t hex4(const char *at, const char *end)
{
    int32_t v = 0;
    if (end - at < 4)
        return -1;
    for (int i = 0; i < 4; i++) {
        int digit = hex_digit(at[i]);
        if (digit < 0)
            return -1;
        v = v << 4 | digit;
    }
    return v;
}

/* The code point of the escape whose letter is at `*at` (behind the backslash); -1 when it is none. A lone
 * surrogate has no UTF-8 and is refused. */
static int32_t take_escape(const char **at, const char *end)
{
    static const char letters[] = "\"\\/bfnrt", meanings[] = "\"\\/\b\f\n\r\t";
    if (*at >= end)
        return -1;
    char c = *(*at)++;
    const char *found = c != '\0' ? strchr(letters, c) : NULL;
    if (found)
        return meanings[found - letters];
    if (c != 'u')
        return -1;
    int32_t v = hex4(*at, end);
    if (v < 0)
        return -1;
    *at += 4;
    if (v < 0xd800 || v > 0xdfff)
        return v;
    if (v > 0xdbff || end - *at < 6 || (*at)[0] != '\\' || (*at)[1] != 'u')
        return -1;
    int32_t low = hex4(*at + 2, end);
    if (low < 0xdc00 || low > 0xdfff)
        return -1;
    *at += 6;
    return 0x10000 + ((v - 0xd800) << 10) + (low - 0xdc00);
}

static bool skip_string(struct json_slice *s)
{
    const char *at = s->at + 1;
    while (at < s->end && *at != '"') {
        if ((uint8_t)*at < 0x20)
            return false;
        if (*at == '\\') {
            at++;
            if (take_escape(&at, s->end) < 0)
                return false;
            continue;
        }
        size_t n = json_utf8_sequence(at, (size_t)(s->end - at));
        if (n == 0)
            return false;
        at += n;
    }
    if (at >= s->end)
        return false;
    s->at = at + 1;
    return true;
}

static bool skip_digits(struct json_slice *s)
{
    const char *from = s->at;
    while (s->at < s->end && *s->at >= '0' && *s->at <= '9')
        s->at++;
    return s->at > from;
}

static bool skip_number(struct json_slice *s)
{
    if (*s->at == '-')
        s->at++;
    if (s->at < s->end && *s->at == '0')
        s->at++;
    else if (!skip_digits(s))
        return false;
    if (s->at < s->end && *s->at == '.') {
        s->at++;
        if (!skip_digits(s))
            return false;
    }
    if (s->at < s->end && (*s->at == 'e' || *s->at == 'E')) {
        s->at++;
        if (s->at < s->end && (*s->at == '+' || *s->at == '-'))
            s->at++;
        return skip_digits(s);
    }
    return true;
}

static bool skip_word(struct json_slice *s, const char *word)
{
    size_t n = strlen(word);
    if ((size_t)(s->end - s->at) < n || memcmp(s->at, word, n) != 0)
        return false;
    s->at += n;
    return true;
}

static enum json_kind skip_scalar(struct json_slice *s)
{
    switch (*s->at) {
    case '"':
        return skip_string(s) ? JSON_STRING : JSON_NONE;
    case 'n':
        return skip_word(s, "null") ? JSON_NULL : JSON_NONE;
    case 't':
        return skip_word(s, "true") ? JSON_TRUE : JSON_NONE;
    case 'f':
        return skip_word(s, "false") ? JSON_FALSE : JSON_NONE;
    default:
        return (*s->at == '-' || (*s->at >= '0' && *s->at <= '9')) && skip_number(s) ? JSON_NUMBER
                                                                                     : JSON_NONE;
    }
}

static bool skip_key(struct json_slice *s)
{
    json_skip_blanks(s);
    if (s->at >= s->end || *s->at != '"' || !skip_string(s))
        return false;
    json_skip_blanks(s);
    return s->at < s->end && *s->at++ == ':';
}

/* Walks a container without recursion; `open` remembers which brackets are open. s->at is at its first
 * bracket. */
static bool skip_container(struct json_slice *s)
{
    char open[MOB_JSON_DEPTH_MAX];
    uint32_t depth = 0;
    bool fresh = false; /* just opened: may close at once */
    for (;;) {
        json_skip_blanks(s);
        if (s->at >= s->end)
            return false;
        char c = *s->at;
        bool closes = depth > 0 && c == (open[depth - 1] == '{' ? '}' : ']');
        if (closes && fresh) {
            s->at++;
            depth--;
        } else {
            if (depth > 0 && open[depth - 1] == '{' && !skip_key(s))
                return false;
            json_skip_blanks(s);
            if (s->at >= s->end)
                return false;
            if (*s->at == '[' || *s->at == '{') {
                if (depth == MOB_JSON_DEPTH_MAX)
                    return false;
                open[depth++] = *s->at++;
                fresh = true;
                continue;
            }
            if (skip_scalar(s) == JSON_NONE)
                return false;
        }
        /* behind a value: close what ends here, or go on behind a comma */
        for (;;) {
            if (depth == 0)
                return true;
            json_skip_blanks(s);
            if (s->at >= s->end)
                return false;
            c = *s->at++;
            if (c == ',')
                break;
            if (c != (open[depth - 1] == '{' ? '}' : ']'))
                return false;
            depth--;
        }
        fresh = false;
    }
}

enum json_kind json_take(struct json_slice *s, struct json_slice *value_out)
{
    struct json_slice at = *s;
    json_skip_blanks(&at);
    if (at.at >= at.end)
        return JSON_NONE;
    const char *from = at.at;
    enum json_kind kind = *from == '[' ? JSON_ARRAY : JSON_OBJECT;
    if (*from == '[' || *from == '{') {
        if (!skip_container(&at))
            return JSON_NONE;
    } else {
        kind = skip_scalar(&at);
    }
    if (kind == JSON_NONE)
        return JSON_NONE;
    *value_out = (struct json_slice){from, at.at};
    s->at = at.at;
    return kind;
}

enum json_kind json_whole(struct json_slice s, struct json_slice *value_out)
{
    enum json_kind kind = json_take(&s, value_out);
    json_skip_blanks(&s);
    return s.at == s.end ? kind : JSON_NONE;
}

struct json_iter json_members(struct json_slice checked)
{
    return (struct json_iter){{checked.at + 1, checked.end - 1}, *checked.at == '{', false};
}

enum json_kind json_next(struct json_iter *it, struct json_slice *key_out, struct json_slice *value_out)
{
    json_skip_blanks(&it->rest);
    if (it->rest.at >= it->rest.end)
        return JSON_NONE;
    if (it->started)
        it->rest.at++; /* the comma */
    it->started = true;
    *key_out = (struct json_slice){NULL, NULL};
    if (it->is_object) {
        if (json_take(&it->rest, key_out) != JSON_STRING)
            return JSON_NONE;
        json_skip_blanks(&it->rest);
        it->rest.at++; /* the colon */
    }
    return json_take(&it->rest, value_out);
}

enum json_kind json_find(struct json_slice object, const char *key, struct json_slice *value_out)
{
    struct json_iter it = json_members(object);
    struct json_slice name, value;
    enum json_kind kind;
    while ((kind = json_next(&it, &name, &value)) != JSON_NONE) {
        if (json_string_equals(name, key)) {
            *value_out = value;
            return kind;
        }
    }
    return JSON_NONE;
}

static size_t utf8_bytes(int32_t c)
{
    return c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
}

static void put_utf8(int32_t c, char *out)
{
    static const uint8_t lead[5] = {0, 0, 0xc0, 0xe0, 0xf0};
    size_t n = utf8_bytes(c);
    for (size_t i = n; i-- > 1; c >>= 6)
        out[i] = (char)(0x80 | (c & 0x3f));
    out[0] = (char)(lead[n] | c);
}

/* Measures when `out` is NULL. */
static size_t decode(struct json_slice string, char *out)
{
    const char *at = string.at + 1, *end = string.end - 1;
    size_t n = 0;
    while (at < end) {
        if (*at != '\\') {
            if (out)
                out[n] = *at;
            at++;
            n++;
            continue;
        }
        at++;
        int32_t c = take_escape(&at, end);
        if (out)
            put_utf8(c, out + n);
        n += utf8_bytes(c);
    }
    return n;
}

size_t json_slice_length(struct json_slice string)
{
    return decode(string, NULL);
}

void json_string_decode(struct json_slice string, char *out)
{
    (void)decode(string, out);
}

bool json_string_equals(struct json_slice string, const char *text)
{
    char decoded[64];
    size_t n = strlen(text);
    /* an escape only shortens, so a text six times longer cannot be equal */
    if (n > sizeof decoded || (size_t)(string.end - string.at) > 6 * n + 2 || decode(string, NULL) != n)
        return false;
    (void)decode(string, decoded);
    return memcmp(decoded, text, n) == 0;
}

bool json_number_is_integer(struct json_slice number)
{
    for (const char *at = number.at; at < number.end; at++)
        if (*at == '.' || *at == 'e' || *at == 'E')
            return false;
    return true;
}

/* value * 10^times + digit. False: above `most`. */
static bool shift_in(uint64_t *value, int64_t times, uint64_t digit, uint64_t most)
{
    uint64_t v = *value;
    for (; v > 0 && times > 0; times--) {
        if (v > most / 10)
            return false;
        v *= 10;
    }
    if (digit > most - v)
        return false;
    *value = v + digit;
    return true;
}

/* Saturates: behind that no number is an integer that fits, or only zero. */
static int64_t exponent_of(const char *at, const char *end)
{
    int64_t v = 0, sign = 1;
    if (at == end)
        return 0;
    at++; /* the letter */
    if (*at == '+' || *at == '-')
        sign = *at++ == '-' ? -1 : 1;
    for (; at < end; at++)
        v = v < INT64_C(1) << 40 ? 10 * v + (*at - '0') : v;
    return sign * v;
}

enum json_integer json_number_integer(struct json_slice number, int64_t *out)
{
    const char *at = number.at;
    bool negative = *at == '-', fits = true, is_fraction = false;
    uint64_t v = 0, most = (uint64_t)INT64_MAX + negative;
    int64_t zeros = 0, fraction_digits = 0; /* zeros: that no other digit has followed yet */
    for (at += negative; at < number.end && *at != 'e' && *at != 'E'; at++) {
        if (*at == '.') {
            is_fraction = true;
            continue;
        }
        fraction_digits += is_fraction;
        if (*at == '0') {
            zeros++;
            continue;
        }
        fits = fits && shift_in(&v, zeros + 1, (uint64_t)(*at - '0'), most);
        zeros = 0;
    }
    int64_t scale = exponent_of(at, number.end) - fraction_digits + zeros;
    bool is_zero = v == 0 && fits;
    if (!is_zero && scale < 0)
        return JSON_FRACTION;
    if (!fits || (!is_zero && !shift_in(&v, scale, 0, most)))
        return JSON_OUT_OF_RANGE;
    *out = (int64_t)(negative ? 0 - v : v);
    return JSON_INTEGER;
}

bool json_number_i64(struct json_slice number, int64_t *out)
{
    return json_number_integer(number, out) == JSON_INTEGER;
}

double json_number_f64(struct json_slice number)
{
    /* strtod wants a terminator. Digits past the first 700 cannot change a double, but their number matters,
     * so such text is copied to the heap; without memory it reads as NaN. */
    char small[128];
    size_t n = (size_t)(number.end - number.at);
    char *text = n < sizeof small ? small : malloc(n + 1);
    if (!text)
        return (double)__builtin_nan("");
    memcpy(text, number.at, n);
    text[n] = '\0';
    double v = strtod(text, NULL);
    if (text != small)
        free(text);
    return v;
}

static int base64_digit(char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

int64_t json_base64_decode(struct json_slice string, uint8_t *out)
{
    const char *at = string.at + 1, *end = string.end - 1;
    int64_t n = 0;
    if ((end - at) % 4 != 0)
        return -1;
    for (; at < end; at += 4) {
        int pad = end - at > 4 ? 0 : (at[3] == '=') + (at[3] == '=' && at[2] == '=');
        uint32_t v = 0;
        for (int i = 0; i < 4; i++) {
            int digit = i >= 4 - pad ? 0 : base64_digit(at[i]);
            if (digit < 0)
                return -1;
            v = v << 6 | (uint32_t)digit;
        }
        if ((pad == 1 && (v & 0xff) != 0) || (pad == 2 && (v & 0xffff) != 0))
            return -1;
        for (int i = 0; i < 3 - pad; i++, n++)
            if (out)
                out[n] = (uint8_t)(v >> (16 - 8 * i));
    }
    return n;
}
