#include "common/wire/json_reals.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DIGITS_MIN = 15, DIGITS_MAX = 17, REAL_BYTES = 40 }; /* an f64 has 15 to 17 */

/* Writes the number of `length` bytes at `from` to `to`, which is not behind it; what it wrote. */
static size_t shorten(const char *from, size_t length, char *to)
{
    char before[REAL_BYTES], after[REAL_BYTES];
    bool real = memchr(from, '.', length) || memchr(from, 'e', length) || memchr(from, 'E', length);
    if (!real || length <= DIGITS_MIN || length >= sizeof before) {
        memmove(to, from, length);
        return length;
    }
    memcpy(before, from, length);
    before[length] = '\0';
    double v = strtod(before, NULL);
    for (int digits = DIGITS_MIN; digits < DIGITS_MAX; digits++) {
        size_t shorter = (size_t)snprintf(after, sizeof after, "%.*g", digits, v);
        if (!strpbrk(after, ".e"))
            shorter += (size_t)snprintf(after + shorter, sizeof after - shorter, ".0");
        if (strtod(after, NULL) != v || shorter >= length)
            continue;
        memcpy(to, after, shorter);
        return shorter;
    }
    memmove(to, from, length);
    return length;
}

/* Of a string with both quotes. */
static size_t string_length(const char *string)
{
    size_t n = 1;
    while (string[n] && string[n] != '"')
        n += string[n] == '\\' && string[n + 1] ? 2 : 1;
    return string[n] ? n + 1 : n;
}

void mob_json_shorten_reals(char *json)
{
    char *to = json;
    for (const char *at = json; *at;) {
        size_t length = *at == '"' ? string_length(at) : strspn(at, "+-.0123456789eE");
        bool number = *at == '-' || (*at >= '0' && *at <= '9');
        if (length == 0)
            length = 1;
        if (number) {
            to += shorten(at, length, to);
        } else {
            memmove(to, at, length);
            to += length;
        }
        at += length;
    }
    *to = '\0';
}
