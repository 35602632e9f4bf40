#include "common/wire/session.h"

#include <stdio.h>
#include <string.h>

#include "common/wire/utf8.h"

/* These texts become members of JSON, so they are UTF-8. */
static bool text_ok(const char *text, size_t capacity)
{
    const char *end = memchr(text, 0, capacity);
    return end != NULL && json_utf8_ok(text, (size_t)(end - text));
}

enum mob_status mob_session_hello_decode(const void *bytes, size_t length,
    struct mob_session_hello *hello_out, char detail_out[MOB_SESSION_DETAIL])
{
    struct mob_session_hello hello = {0};
    if (length > 0)
        memcpy(&hello, bytes, length < sizeof hello ? length : sizeof hello);
    if (length < offsetof(struct mob_session_hello, pid) || hello.magic != MOB_SESSION_MAGIC) {
        snprintf(detail_out, MOB_SESSION_DETAIL, "not a Mobula client");
        return MOB_INVALID;
    }
    if (hello.version != MOB_SESSION_VERSION) {
        snprintf(detail_out, MOB_SESSION_DETAIL,
            "session version %u, this node speaks %u: use the library of this installation", hello.version,
            MOB_SESSION_VERSION);
        return MOB_VERSION;
    }
    if (length != sizeof hello || !text_ok(hello.ns, sizeof hello.ns) ||
        !text_ok(hello.job_name, sizeof hello.job_name) ||
        memchr(hello.idempotency_key, 0, sizeof hello.idempotency_key) == NULL ||
        hello.job_weight > MOB_JOB_WEIGHT_MAX) {
        snprintf(detail_out, MOB_SESSION_DETAIL, "malformed hello");
        return MOB_INVALID;
    }
    *hello_out = hello;
    return MOB_OK;
}

enum mob_status mob_session_welcome_decode(
    const void *bytes, size_t length, struct mob_session_welcome *welcome_out)
{
    struct mob_session_welcome welcome = {0};
    if (length > 0)
        memcpy(&welcome, bytes, length < sizeof welcome ? length : sizeof welcome);
    if (length < offsetof(struct mob_session_welcome, status) || welcome.magic != MOB_SESSION_MAGIC)
        return MOB_INVALID;
    if (welcome.version != MOB_SESSION_VERSION) { /* of another length, too */
        *welcome_out = (struct mob_session_welcome){.magic = MOB_SESSION_MAGIC, .version = welcome.version};
        return MOB_VERSION;
    }
    if (length != sizeof welcome || welcome.status >= MOB_STATUS_COUNT)
        return MOB_INVALID;
    welcome.detail[sizeof welcome.detail - 1] = '\0';
    *welcome_out = welcome;
    return MOB_OK;
}
