#include "common/settings/settings_parse.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct suffix {
    const char *text;
    int64_t factor;
};

static const struct suffix byte_suffixes[] = {{"", 1}, {"B", 1}, {"K", MOB_KIB}, {"KiB", MOB_KIB},
    {"M", MOB_MIB}, {"MiB", MOB_MIB}, {"G", MOB_GIB}, {"GiB", MOB_GIB}, {"T", MOB_TIB}, {"TiB", MOB_TIB},
    {NULL, 0}};
static const struct suffix millisecond_suffixes[] = {
    {"", 1}, {"ms", 1}, {"s", 1000}, {"m", 60000}, {"h", 3600000}, {"d", 86400000}, {NULL, 0}};
static const struct suffix second_suffixes[] = {
    {"", 1}, {"s", 1}, {"m", 60}, {"h", 3600}, {"d", 86400}, {NULL, 0}};
static const struct suffix no_suffixes[] = {{"", 1}, {NULL, 0}};

static const struct suffix *suffixes_of(enum mob_setting_type type)
{
    if (type == MOB_SETTING_TYPE_BYTES || type == MOB_SETTING_TYPE_BYTES_OR_0)
        return byte_suffixes;
    if (type == MOB_SETTING_TYPE_MILLISECONDS)
        return millisecond_suffixes;
    return type == MOB_SETTING_TYPE_SECONDS ? second_suffixes : no_suffixes;
}

bool mob_setting_parse_number(enum mob_setting_type type, const char *text, int64_t *out)
{
    /* strtoll takes blanks and signs; a setting does not. */
    if (!isdigit((unsigned char)text[0]))
        return false;
    char *end;
    errno = 0;
    long long number = strtoll(text, &end, 10);
    if (errno != 0)
        return false;
    for (const struct suffix *s = suffixes_of(type); s->text; s++) {
        if (strcasecmp(end, s->text) != 0)
            continue;
        int64_t product;
        if (__builtin_mul_overflow(number, s->factor, &product))
            return false;
        *out = product;
        return true;
    }
    return false;
}

bool mob_setting_is_choice(const char *choices, const char *text)
{
    size_t length = strlen(text);
    for (const char *at = choices; length > 0 && at; at = strchr(at, '|') ? strchr(at, '|') + 1 : NULL)
        if (strncmp(at, text, length) == 0 && (at[length] == '|' || at[length] == '\0'))
            return true;
    return false;
}

unsigned mob_settings_distance(const char *a, const char *b)
{
    enum { LONGEST = 64 };
    size_t n = strlen(a), m = strlen(b);
    if (n >= LONGEST || m >= LONGEST)
        return LONGEST;
    unsigned table[3][LONGEST]; /* this row, the one before, the one before that */
    unsigned *now = table[0], *last = table[1], *before = table[2];
    for (size_t j = 0; j <= m; j++)
        last[j] = (unsigned)j;
    memcpy(before, last, sizeof table[0]);
    for (size_t i = 1; i <= n; i++) {
        now[0] = (unsigned)i;
        for (size_t j = 1; j <= m; j++) {
            unsigned best = last[j - 1] + (a[i - 1] != b[j - 1]);
            if (last[j] + 1 < best)
                best = last[j] + 1;
            if (now[j - 1] + 1 < best)
                best = now[j - 1] + 1;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] && before[j - 2] + 1 < best)
                best = before[j - 2] + 1;
            now[j] = best;
        }
        unsigned *oldest = before;
        before = last;
        last = now;
        now = oldest;
    }
    return last[m];
}
