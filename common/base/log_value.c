#include "common/base/log_value.h"

#include <stdbool.h>
#include <string.h>

const char *mob_log_value(const char *text, char *out, size_t capacity)
{
    size_t n = 0;
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        bool escaped = c == '"' || c == '\\';
        if (n + (escaped ? 2 : 1) >= capacity) {
            /* the whole character goes, but no half of a pair */
            while (n > 0 && ((unsigned char)*text & 0xc0) == 0x80 && ((unsigned char)out[n - 1] & 0x80)) {
                n--;
                text--;
            }
            break;
        }
        if (escaped)
            out[n++] = '\\';
        out[n++] = c < ' ' || c == 0x7f ? ' ' : (char)c;
    }
    out[n] = '\0';
    return out;
}
