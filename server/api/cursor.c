#include "server/api/cursor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/hash.h"
#include "server/api/api.h"
#include "server/api/scan_cursor.h"

#define CURSOR_MAX (SCAN_CURSOR_MAX + MOB_CURSOR_SCOPE_MAX)

static void scope_of(const struct mob_engine_query *query, char out[MOB_CURSOR_SCOPE_MAX])
{
    char text[1024];
    int length = snprintf(text, sizeof text, "%d\n%u\n%s\n%s\n%s", (int)query->kind, query->depth,
        query->id ? query->id : "", query->filter ? query->filter : "", query->sort ? query->sort : "");
    uint64_t hash = mob_hash64(text, (size_t)length < sizeof text ? (size_t)length : sizeof text);
    for (int i = 0; i < MOB_CURSOR_SCOPE_MAX - 1; i++, hash >>= 5)
        out[i] = "abcdefghijklmnopqrstuvwxyz234567"[hash & 31];
    out[MOB_CURSOR_SCOPE_MAX - 1] = '\0';
}

bool mob_cursor_take(struct mob_http_request *request, struct mob_engine_query *query)
{
    char text[CURSOR_MAX];
    scope_of(query, query->scope);
    enum mob_status status = mob_http_query(request, "cursor", text, sizeof text);
    if (status == MOB_NOT_FOUND || (status == MOB_OK && !*text))
        return true;
    size_t scope = strlen(query->scope);
    bool well_formed = status == MOB_OK && strlen(text) > scope &&
        text[scope + strspn(text + scope, "0123456789.-abcdef")] == '\0';
    if (!well_formed || strncmp(text, query->scope, scope) != 0) {
        mob_api_fail(request, MOB_BAD_REQUEST,
            "cursor: this is not one that was given for the same path, filter, sort and depth; begin without "
            "one");
        return false;
    }
    query->cursor = strdup(text + scope);
    return query->cursor != NULL;
}
