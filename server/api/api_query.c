/* What handlers read of a request's query and of its Prefer header. */
#include <string.h>
#include <strings.h>

#include "common/base/decimal.h"
#include "server/api/api.h"

bool mob_api_wait_query(struct mob_http_request *request, double *seconds_out)
{
    char text[32];
    *seconds_out = -1;
    enum mob_status status = mob_http_query(request, "wait", text, sizeof text);
    if (status == MOB_NOT_FOUND)
        return true;
    double seconds = 0;
    size_t length = status == MOB_OK ? mob_decimal_fraction(text, &seconds) : 0;
    if (length == 0 || text[length]) {
        mob_api_fail(request, MOB_BAD_REQUEST, "wait must be a number of seconds, as 20 or 0.5");
        return false;
    }
    *seconds_out = seconds > MOB_API_WAIT_MAX_S ? MOB_API_WAIT_MAX_S : seconds;
    return true;
}

static const char *skip_blanks(const char *at)
{
    return at + strspn(at, " \t");
}

/* RFC 7240: token [ BWS "=" BWS ( token / quoted-string ) ], then parameters, which `wait` has none of.
 * False: not this preference. `value_out`: behind the equals sign and its blanks; NULL if there is none. */
static bool is_preference(const char *at, const char *name, const char **value_out)
{
    size_t length = strlen(name);
    if (strncasecmp(at, name, length) != 0)
        return false;
    const char *end = skip_blanks(at + length);
    if (*end && *end != '=' && *end != ',' && *end != ';')
        return false;
    *value_out = *end == '=' ? skip_blanks(end + 1) : NULL;
    return true;
}

/* Digits, and a fraction; in quotes or not. */
static bool seconds_of(const char *text, double *out)
{
    bool quoted = *text == '"';
    double seconds;
    size_t length = mob_decimal_fraction(text + quoted, &seconds);
    const char *end = text + quoted + length;
    if (length == 0 || (quoted && *end++ != '"'))
        return false;
    end = skip_blanks(end);
    if (*end && *end != ',' && *end != ';')
        return false;
    *out = seconds > MOB_API_WAIT_MAX_S ? MOB_API_WAIT_MAX_S : seconds;
    return true;
}

/* The next comma that stands in no quotes. */
static const char *preference_end(const char *at)
{
    bool quoted = false;
    for (; *at && (quoted || *at != ','); at++) {
        if (quoted && *at == '\\' && at[1])
            at++;
        else if (*at == '"')
            quoted = !quoted;
    }
    return at;
}

bool mob_api_prefer_wait(struct mob_http_request *request, double *seconds_out)
{
    const char *value, *prefer = mob_http_header(request, "Prefer");
    *seconds_out = -1;
    for (const char *at = prefer; at && *at; at = preference_end(at)) {
        at += strspn(at, ", \t");
        if (!is_preference(at, "wait", &value))
            continue;
        if (value && seconds_of(value, seconds_out))
            return true; /* the first one counts */
        mob_api_fail(request, MOB_BAD_REQUEST, "Prefer: wait must be a number of seconds, as in wait=20");
        return false;
    }
    return true;
}

bool mob_api_query_int(struct mob_http_request *request, const char *name, int64_t min, int64_t max,
    int64_t absent, int64_t *out)
{
    char text[32];
    enum mob_status status = mob_http_query(request, name, text, sizeof text);
    *out = absent;
    if (status == MOB_NOT_FOUND)
        return true;
    int64_t value = 0;
    size_t length = status == MOB_OK ? mob_decimal_int(text, &value) : 0;
    if (length == 0 || text[length] || value < min || value > max) {
        mob_api_fail(request, MOB_BAD_REQUEST, "%s must be an integer from %lld to %lld", name,
            (long long)min, (long long)max);
        return false;
    }
    *out = value;
    return true;
}

bool mob_api_query_flag(struct mob_http_request *request, const char *name, bool *out)
{
    char text[8];
    enum mob_status status = mob_http_query(request, name, text, sizeof text);
    *out = status == MOB_OK && strcmp(text, "true") == 0;
    if (status == MOB_NOT_FOUND || *out || (status == MOB_OK && strcmp(text, "false") == 0))
        return true;
    mob_api_fail(request, MOB_BAD_REQUEST, "%s must be true or false", name);
    return false;
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
