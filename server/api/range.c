#include "server/api/range.h"

#include <stdint.h>
#include <string.h>
#include <strings.h>

/* Digits to a number; saturates, since beyond the end is the same everywhere. False: no digit. */
static bool digits(const char **at, uint64_t *out)
{
    const char *begin = *at;
    uint64_t v = 0;
    for (; **at >= '0' && **at <= '9'; (*at)++)
        v = v > UINT64_MAX / 10 - 1 ? UINT64_MAX / 2 : v * 10 + (uint64_t)(**at - '0');
    *out = v;
    return *at > begin;
}

enum mob_range_result mob_range_parse(const char *text, size_t size, struct mob_range *out)
{
    if (strncasecmp(text, "bytes=", 6) != 0) /* names of units are of any case (RFC 9110, section 14.1) */
        return MOB_RANGE_WHOLE;
    const char *at = text + 6;
    uint64_t first = 0, last = 0;
    bool has_first = digits(&at, &first);
    if (*at++ != '-')
        return MOB_RANGE_WHOLE;
    bool has_last = digits(&at, &last);
    if (*at != 0 || (!has_first && !has_last) || (has_first && has_last && last < first))
        return MOB_RANGE_WHOLE;
    if (!has_first) { /* the last n bytes */
        if (last == 0 || size == 0)
            return MOB_RANGE_OUTSIDE;
        size_t n = last > size ? size : (size_t)last;
        *out = (struct mob_range){size - n, n};
        return MOB_RANGE_PART;
    }
    if (first >= size)
        return MOB_RANGE_OUTSIDE;
    size_t end = has_last && last < size - 1 ? (size_t)last + 1 : size;
    *out = (struct mob_range){(size_t)first, end - (size_t)first};
    return MOB_RANGE_PART;
}

bool mob_etag_listed(const char *list, const char *etag, bool strong)
{
    size_t length = etag ? strlen(etag) : 0;
    for (const char *at = list; *at;) {
        at += strspn(at, ", \t");
        if (*at == '*')
            return true;
        bool weak = strncmp(at, "W/", 2) == 0;
        at += weak ? 2 : 0;
        if (etag && !(weak && strong) && strncmp(at, etag, length) == 0 &&
            (at[length] == 0 || strchr(", \t", at[length])))
            return true;
        if (*at == '"') /* a tag may have commas */
            at += 1 + strcspn(at + 1, "\"");
        at += strcspn(at, ",");
    }
    return false;
}
