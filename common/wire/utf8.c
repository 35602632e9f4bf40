#include "common/wire/utf8.h"

#include <stdint.h>
#include <string.h>

size_t json_utf8_sequence(const char *text, size_t left)
{
    const uint8_t *p = (const uint8_t *)text;
    uint8_t b = p[0];
    if (b < 0x80)
        return 1;
    size_t n = b >= 0xc2 && b < 0xe0 ? 2 : b >= 0xe0 && b < 0xf0 ? 3 : b >= 0xf0 && b < 0xf5 ? 4 : 0;
    if (n == 0 || left < n)
        return 0;
    for (size_t i = 1; i < n; i++)
        if ((p[i] & 0xc0) != 0x80)
            return 0;
    bool bad = (b == 0xe0 && p[1] < 0xa0) || (b == 0xed && p[1] >= 0xa0) || (b == 0xf0 && p[1] < 0x90) ||
        (b == 0xf4 && p[1] >= 0x90);
    return bad ? 0 : n;
}

bool json_utf8_ok(const void *bytes, size_t length)
{
    const char *p = bytes, *end = p + length;
    while (p < end) {
        size_t n = json_utf8_sequence(p, (size_t)(end - p));
        if (n == 0)
            return false;
        p += n;
    }
    return true;
}

void json_utf8_copy(char *to, size_t size, const char *text)
{
    size_t left = strlen(text), used = 0;
    while (left > 0) {
        size_t n = json_utf8_sequence(text, left), taken = n > 0 ? n : 1;
        if (used + taken >= size)
            break;
        if (n > 0)
            memcpy(to + used, text, n);
        else
            to[used] = '?';
        used += taken;
        text += taken;
        left -= taken;
    }
    to[used] = '\0';
}
