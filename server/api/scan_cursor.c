#include "server/api/scan_cursor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/hash.h"
#include "common/base/log.h"

#define CHECK_DIGITS 8u

/* Of the text behind it. */
static uint32_t check_of(const char *rest, uint64_t list)
{
    uint8_t bytes[sizeof list + SCAN_CURSOR_MAX];
    size_t length = strnlen(rest, SCAN_CURSOR_MAX);
    memcpy(bytes, &list, sizeof list);
    memcpy(bytes + sizeof list, rest, length);
    return (uint32_t)mob_hash64(bytes, sizeof list + length);
}

static size_t write_mark(const struct scan_mark *m, char *out, size_t room)
{
    typedef unsigned long long ull;
    int n = 0;
    switch (m->kind) {
    case SCAN_MARK_BLOCK:
        n = snprintf(out, room, "-%llu.%u.%llu", (ull)m->position, m->index, (ull)m->time_ns);
        break;
    case SCAN_MARK_FLUSHED:
        n = snprintf(out, room, "-c%llu.%llu.%llu.%u.%llu.%u.%llu", (ull)m->position, (ull)m->incarnation,
            (ull)m->number, m->index, (ull)m->cut_seq, m->cut_entries, (ull)m->time_ns);
        break;
    case SCAN_MARK_BEGIN:
    case SCAN_MARK_END:
        n = snprintf(out, room, "-e");
        break;
    }
    MOB_ASSERT(n > 0 && (size_t)n < room);
    return (size_t)n;
}

void scan_cursor_write(
    const struct scan_mark *marks, uint32_t count, uint64_t list, char out[SCAN_CURSOR_MAX])
{
    size_t at = CHECK_DIGITS + 1;
    for (uint32_t i = 0; i < count; i++)
        at += write_mark(&marks[i], out + at, SCAN_CURSOR_MAX - at);
    char check[CHECK_DIGITS + 2];
    snprintf(check, sizeof check, "%08x.", check_of(out + CHECK_DIGITS + 1, list));
    memcpy(out, check, CHECK_DIGITS + 1);
}

/* NULL: there is none. */
static const char *read_mark(const char *text, struct scan_mark *m)
{
    unsigned long long position, incarnation, number, cut_seq, time;
    unsigned index, cut_entries;
    int end = 0;
    *m = (struct scan_mark){.kind = SCAN_MARK_END};
    if (strncmp(text, "-e", 2) == 0)
        return text + 2;
    if (sscanf(text, "-c%20llu.%20llu.%20llu.%10u.%20llu.%10u.%20llu%n", &position, &incarnation, &number,
            &index, &cut_seq, &cut_entries, &time, &end) == 7)
        *m = (struct scan_mark){.kind = SCAN_MARK_FLUSHED,
            .position = position,
            .index = index,
            .incarnation = incarnation,
            .number = number,
            .cut_seq = cut_seq,
            .cut_entries = cut_entries,
            .time_ns = (int64_t)time};
    else if (sscanf(text, "-%20llu.%10u.%20llu%n", &position, &index, &time, &end) == 3)
        *m = (struct scan_mark){
            .kind = SCAN_MARK_BLOCK, .position = position, .index = index, .time_ns = (int64_t)time};
    /* Reading begins anew at 0, which no page ends at. */
    return end > 0 && m->position > 0 ? text + end : NULL;
}

bool scan_cursor_read(const char *text, uint64_t list, struct scan_mark *marks, uint32_t count)
{
    if (strlen(text) >= SCAN_CURSOR_MAX || strspn(text, "0123456789abcdef") != CHECK_DIGITS ||
        text[CHECK_DIGITS] != '.')
        return false;
    unsigned long check = strtoul(text, NULL, 16);
    const char *at = text + CHECK_DIGITS + 1;
    for (uint32_t i = 0; i < count && at != NULL; i++)
        at = read_mark(at, &marks[i]);
    return at != NULL && *at == '\0' && check == check_of(text + CHECK_DIGITS + 1, list);
}
