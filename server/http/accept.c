#include "server/http/accept.h"

#include <stddef.h>
#include <string.h>
#include <strings.h>

/* One entry: its name, and whether its weight is above zero. */
struct entry {
    const char *name;
    size_t length;
    bool wanted;
};

static bool weight_is_zero(const char *at, size_t length)
{
    const char *end = at + length;
    while (at < end) {
        at += strspn(at, "; \t");
        if (end - at >= 3 && (*at == 'q' || *at == 'Q') && at[1] == '=') {
            const char *digit = at + 2;
            while (digit < end && (*digit == '0' || *digit == '.'))
                digit++;
            return digit == end || *digit < '0' || *digit > '9';
        }
        at += strcspn(at, ";,");
        if (at < end && *at == ',')
            break;
    }
    return false;
}

static bool next_entry(const char **list, struct entry *out)
{
    const char *at = *list + strspn(*list, ", \t");
    if (!*at)
        return false;
    size_t whole = strcspn(at, ","), name = strcspn(at, ",; \t");
    *out = (struct entry){at, name, !weight_is_zero(at + name, whole - name)};
    *list = at + whole;
    return true;
}

static bool named(const struct entry *entry, const char *name, size_t length)
{
    return entry->length == length && strncasecmp(entry->name, name, length) == 0;
}

bool mob_http_accepts(const char *accept, const char *type)
{
    size_t length = strlen(type), group = strcspn(type, "/") + 1;
    int best = 0;
    bool wanted = !accept || accept[strspn(accept, ", \t")] == 0;
    struct entry entry;
    while (accept && next_entry(&accept, &entry)) {
        int nearness = named(&entry, type, length) ? 3
            : entry.length == group + 1 && entry.name[group] == '*' &&
                strncasecmp(entry.name, type, group) == 0
            ? 2
            : named(&entry, "*/*", 3) || named(&entry, "*", 1) ? 1
                                                               : 0;
        if (nearness > best) {
            best = nearness;
            wanted = entry.wanted;
        }
    }
    return wanted;
}

bool mob_http_accepts_gzip(const char *list)
{
    bool by_name = false, wanted = false;
    struct entry entry;
    while (list && next_entry(&list, &entry)) {
        if (named(&entry, "gzip", 4) || named(&entry, "x-gzip", 6)) {
            by_name = true;
            wanted = entry.wanted;
        } else if (!by_name && named(&entry, "*", 1)) {
            wanted = entry.wanted;
        }
    }
    return wanted;
}
