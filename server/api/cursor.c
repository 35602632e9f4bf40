#include "server/api/cursor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/hash.h"
#include "server/api/api.h"
#include "server/api/scan_cursor.h"

#define SORTED_MAX \
    3200u /* the value (MOB_TASK_NAME_BYTES_MAX, escaped) and the id that a page ended with, as digits */
#define CURSOR_MAX (SCAN_CURSOR_MAX + MOB_CURSOR_TAG_MAX + SORTED_MAX)

static uint64_t scope_of(const struct mob_engine_query *query)
{
    char text[MOB_HTTP_TARGET_BYTES_MAX + 64];
    int length = snprintf(text, sizeof text, "%d\n%u\n%s\n%s\n%s", (int)query->kind, query->depth,
        query->id ? query->id : "", query->filter ? query->filter : "", query->sort ? query->sort : "");
    return mob_hash64(text, (size_t)length < sizeof text ? (size_t)length : sizeof text);
}

bool mob_cursor_take(struct mob_http_request *request, struct mob_engine_query *query)
{
    char text[CURSOR_MAX];
    query->scope = scope_of(query);
    enum mob_status status = mob_http_query(request, "cursor", text, sizeof text);
    if (status == MOB_NOT_FOUND || (status == MOB_OK && !*text))
        return true;
    char tag[MOB_CURSOR_TAG_MAX] = "";
    const size_t length = sizeof tag - 1;
    bool well_formed = status == MOB_OK && strlen(text) > length &&
        text[length + strspn(text + length, "0123456789.-abcdef")] == '\0';
    if (well_formed)
        mob_engine_cursor_tag(query, text + length, tag);
    if (!well_formed || strncmp(text, tag, length) != 0) {
        mob_api_fail(request, MOB_BAD_REQUEST,
            "cursor: this is not one that was given for the same path, filter, sort and depth; begin without "
            "one");
        return false;
    }
    query->cursor = strdup(text + length);
    return query->cursor != NULL;
}
