#include "common/base/status.h"

#include <stddef.h>
#include <string.h>

struct status_row {
    const char *code;
    const char *text;
    int http;
    bool retryable;
    enum mob_status_scope scope;
};

static const struct status_row rows[MOB_STATUS_COUNT] = {
#define ROW(n, name, code, text, http, retry, scope) [n] = {code, text, http, retry, MOB_SCOPE_##scope},
    MOB_STATUS_TABLE(ROW)
#undef ROW
};

static const struct status_row unknown_row = {"unknown", "unknown status", 500, false, MOB_SCOPE_op};

static const struct status_row *row_of(enum mob_status status)
{
    unsigned n = (unsigned)status;
    return n < MOB_STATUS_COUNT && rows[n].code ? &rows[n] : &unknown_row;
}

const char *mob_status_code(enum mob_status status)
{
    return row_of(status)->code;
}
const char *mob_status_text(enum mob_status status)
{
    return row_of(status)->text;
}
int mob_status_http(enum mob_status status)
{
    return row_of(status)->http;
}
bool mob_status_retryable(enum mob_status status)
{
    return row_of(status)->retryable;
}
enum mob_status_scope mob_status_scope(enum mob_status status)
{
    return row_of(status)->scope;
}

enum mob_status mob_status_from_code(const char *code)
{
    for (unsigned n = 0; n < MOB_STATUS_COUNT; n++)
        if (rows[n].code && strcmp(rows[n].code, code) == 0)
            return (enum mob_status)n;
    return MOB_INTERNAL;
}
