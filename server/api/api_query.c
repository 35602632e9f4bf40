/* What handlers read of a request's query and of its Prefer header. */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "server/api/api.h"

bool mob_api_wait_query(struct mob_http_request *request, double *seconds_out)
{
    char text[32];
    *seconds_out = -1;
    enum mob_status status = mob_http_query(request, "wait", text, sizeof text);
    if (status == MOB_NOT_FOUND)
        return true;
    char *end = NULL;
    double seconds = status == MOB_OK ? strtod(text, &end) : -1;
    if (status != MOB_OK || end == text || *end || !(seconds >= 0) || seconds > 1e9) {
        mob_api_fail(request, MOB_BAD_REQUEST, "wait must be a number of seconds");
        return false;
    }
    *seconds_out = seconds > MOB_API_WAIT_MAX_S ? MOB_API_WAIT_MAX_S : seconds;
    return true;
}

double mob_api_prefer_wait(const struct mob_http_request *request)
{
    const char *prefer = mob_http_header(request, "Prefer");
    for (const char *at = prefer; at && *at;) {
        at += strspn(at, ", \t");
        if (strncasecmp(at, "wait=", 5) == 0) {
            char *end;
            double seconds = strtod(at + 5, &end);
            if (end > at + 5 && seconds >= 0)
                return seconds > MOB_API_WAIT_MAX_S ? MOB_API_WAIT_MAX_S : seconds;
        }
        at += strcspn(at, ",");
    }
    return -1;
}

bool mob_api_query_int(struct mob_http_request *request, const char *name, int64_t min, int64_t max,
    int64_t absent, int64_t *out)
{
    char text[32];
    enum mob_status status = mob_http_query(request, name, text, sizeof text);
    *out = absent;
    if (status == MOB_NOT_FOUND)
        return true;
    char *end = text;
    long long value = status == MOB_OK ? strtoll(text, &end, 10) : 0;
    if (status != MOB_OK || end == text || *end || value < min || value > max) {
        mob_api_fail(request, MOB_BAD_REQUEST, "%s must be an integer from %lld to %lld", name,
            (long long)min, (long long)max);
        return false;
    }
    *out = value;
    return true;
}

static bool is_repeated(const char *rest, const char *name, size_t length)
{
    for (const char *at = rest; *at == '&'; at += 1 + strcspn(at + 1, "&"))
        if (strcspn(at + 1, "=&") == length && memcmp(at + 1, name, length) == 0)
            return true;
    return false;
}

bool mob_api_query_only(struct mob_http_request *request, const char *names)
{
    for (const char *at = request->query; *at;) {
        size_t length = strcspn(at, "&"), name_length = strcspn(at, "=&");
        const char *name = names;
        while (*name && (strlen(name) != name_length || memcmp(name, at, name_length) != 0))
            name += strlen(name) + 1;
        if (!*name && length > 0) {
            mob_api_fail(request, MOB_BAD_REQUEST, "unknown query parameter %.*s", (int)name_length, at);
            return false;
        }
        if (length > 0 && is_repeated(at + length, at, name_length)) {
            mob_api_fail(
                request, MOB_BAD_REQUEST, "query parameter %.*s stands there twice", (int)name_length, at);
            return false;
        }
        at += length;
        at += *at == '&';
    }
    return true;
}
