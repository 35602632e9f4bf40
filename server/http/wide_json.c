#include "server/http/wide_json.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "server/http/text.h"

/* An integer's length at `text`, which begins with one; 0: it goes on as a number of another kind. */
static size_t integer_length(const char *text, size_t left)
{
    size_t n = *text == '-' ? 1 : 0;
    while (n < left && text[n] >= '0' && text[n] <= '9')
        n++;
    bool goes_on = n < left && strchr(".eE", text[n]) && text[n] != '\0';
    return goes_on ? 0 : n;
}

static bool is_beyond_64_bits(const char *digits, size_t length)
{
    enum { DIGITS_MIN = 19 };
    char text[32];
    if (length < DIGITS_MIN)
        return false;
    if (length >= sizeof text)
        return true;
    memcpy(text, digits, length);
    text[length] = '\0';
    errno = 0;
    (void)strtoll(text, NULL, 10);
    return errno == ERANGE;
}

static void widen_integers(const char *text, size_t length, struct mob_text *out)
{
    bool in_string = false, in_number = false;
    for (size_t i = 0; i < length; i++) {
        char c = text[i];
        bool of_number = !in_string && (c == '-' || (c >= '0' && c <= '9'));
        if (of_number && !in_number) {
            size_t digits = integer_length(text + i, length - i);
            if (is_beyond_64_bits(text + i, digits)) {
                mob_text_put(out, text + i, digits);
                mob_text_puts(out, ".0");
                i += digits - 1;
                continue;
            }
        }
        in_number = !in_string && (of_number || c == '.' || c == 'e' || c == 'E' || c == '+');
        mob_text_putc(out, c);
        if (in_string && c == '\\' && i + 1 < length)
            mob_text_putc(out, text[++i]);
        else if (c == '"')
            in_string = !in_string;
    }
}

json_t *mob_json_load(const char *text, size_t length, size_t flags, bool *wide_out, json_error_t *error)
{
    json_t *root = json_loadb(text, length, flags, error);
    bool wide = !root && json_error_code(error) == json_error_numeric_overflow;
    if (wide_out)
        *wide_out = wide;
    if (!wide)
        return root;
    struct mob_text widened = {0};
    widen_integers(text, length, &widened);
    if (!widened.failed)
        root = json_loadb(widened.bytes, widened.length, flags, error);
    mob_text_fini(&widened);
    return root;
}
