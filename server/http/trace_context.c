#include "server/http/trace_context.h"

#include <stddef.h>
#include <string.h>

/* version-trace-parent-flags: digits of each part, and where it begins. */
enum { VERSION = 2, TRACE = 32, PARENT = 16, FLAGS = 2 };
enum { TRACE_AT = 3, PARENT_AT = 36, FLAGS_AT = 53 };

/* Lower case only, as the standard has it. */
static bool is_hex(const char *text, size_t digits)
{
    for (size_t i = 0; i < digits; i++)
        if (!(text[i] >= '0' && text[i] <= '9') && !(text[i] >= 'a' && text[i] <= 'f'))
            return false;
    return true;
}

static bool is_zero(const char *text, size_t digits)
{
    return strspn(text, "0") >= digits;
}

static bool has_shape(const char *header)
{
    return is_hex(header, VERSION) && header[TRACE_AT - 1] == '-' && is_hex(header + TRACE_AT, TRACE) &&
        header[PARENT_AT - 1] == '-' && is_hex(header + PARENT_AT, PARENT) && header[FLAGS_AT - 1] == '-' &&
        is_hex(header + FLAGS_AT, FLAGS);
}

bool mob_traceparent_take(const char *header, char out[static MOB_TRACEPARENT_BYTES + 1])
{
    size_t length = strlen(header);
    if (length < MOB_TRACEPARENT_BYTES || !has_shape(header))
        return false;
    bool known = header[0] == '0' && header[1] == '0';
    bool invalid = header[0] == 'f' && header[1] == 'f';
    /* Later versions may have more behind another dash. */
    bool ends = length == MOB_TRACEPARENT_BYTES || (!known && header[MOB_TRACEPARENT_BYTES] == '-');
    if (invalid || !ends || is_zero(header + TRACE_AT, TRACE) || is_zero(header + PARENT_AT, PARENT))
        return false;
    memcpy(out, header, MOB_TRACEPARENT_BYTES);
    out[MOB_TRACEPARENT_BYTES] = 0;
    out[0] = out[1] = '0';
    return true;
}
