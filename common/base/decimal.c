#include "common/base/decimal.h"

#include <stdlib.h>
#include <string.h>

#define DIGITS "0123456789"

size_t mob_decimal_int(const char *text, int64_t *out)
{
    size_t length = strspn(text, DIGITS);
    int64_t v = 0;
    for (size_t i = 0; i < length; i++)
        if (__builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, text[i] - '0', &v))
            return 0;
    if (length > 0)
        *out = v;
    return length;
}

size_t mob_decimal_fraction(const char *text, double *out)
{
    char copy[64]; /* strtod would read on */
    size_t length = strspn(text, DIGITS);
    size_t behind = text[length] == '.' ? strspn(text + length + 1, DIGITS) : 0;
    if (length == 0)
        return 0;
    if (behind > 0)
        length += 1 + behind;
    if (length >= sizeof copy)
        return 0;
    memcpy(copy, text, length);
    copy[length] = '\0';
    *out = strtod(copy, NULL);
    return length;
}
