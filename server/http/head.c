#include "server/http/head.h"

#include <string.h>
#include <strings.h>

#include "server/http/http.h"

static bool refuse(struct mob_http_refusal *out, int status, const char *why)
{
    out->status = status;
    out->why = why;
    return false;
}

static bool is_token_char(unsigned char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
        (c != 0 && strchr("!#$%&'*+-.^_`|~", c) != NULL);
}

static bool is_token(const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++)
        if (!is_token_char((unsigned char)text[i]))
            return false;
    return length > 0;
}

static bool name_is(const char *name, size_t length, const char *literal)
{
    return length == strlen(literal) && strncasecmp(name, literal, length) == 0;
}

static bool parse_length(const char *text, size_t length, uint64_t *out)
{
    /* 18 digits cannot overflow and are more than any body we take. */
    if (length == 0 || length > 18)
        return false;
    uint64_t v = 0;
    for (size_t i = 0; i < length; i++) {
        if (text[i] < '0' || text[i] > '9')
            return false;
        v = v * 10 + (uint64_t)(text[i] - '0');
    }
    *out = v;
    return true;
}

#define NAMED(text) text, sizeof text - 1
static const struct {
    const char *name;
    size_t length;
    const char *twice; /* the refusal of a second line; NULL: it is a list */
} known[] = {
    {NAMED("accept"), NULL},
    {NAMED("accept-encoding"), NULL},
    {NAMED("content-digest"), NULL},
    {NAMED("content-encoding"), NULL},
    {NAMED("if-match"), NULL},
    {NAMED("if-none-match"), NULL},
    {NAMED("prefer"), NULL},
    {NAMED("repr-digest"), NULL},
    {NAMED("want-content-digest"), NULL},
    {NAMED("want-repr-digest"), NULL},
    {NAMED("authorization"), "more than one Authorization"},
    {NAMED("x-mobula-authorization"), "more than one X-Mobula-Authorization"},
    {NAMED("content-type"), "more than one Content-Type"},
    {NAMED("if-range"), "more than one If-Range"},
    {NAMED("inference-header-content-length"), "more than one Inference-Header-Content-Length"},
    {NAMED("last-event-id"), "more than one Last-Event-ID"},
    {NAMED("origin"), "more than one Origin"},
    {NAMED("range"), "more than one Range"},
};
#define KNOWN (sizeof known / sizeof *known)
_Static_assert(KNOWN <= 32, "bits of `seen`");

/* KNOWN: it is none of them. */
static size_t known_field(const char *name, size_t length)
{
    size_t i = 0;
    while (i < KNOWN && (known[i].length != length || strncasecmp(known[i].name, name, length) != 0))
        i++;
    return i;
}

bool mob_http_head_is_list(const char *name, size_t name_length)
{
    size_t i = known_field(name, name_length);
    return i < KNOWN && !known[i].twice;
}

static bool may_come_again(
    struct mob_http_head_facts *facts, const char *name, size_t length, struct mob_http_refusal *out)
{
    size_t i = known_field(name, length);
    bool again = i < KNOWN && (facts->seen & 1u << i) != 0;
    if (again && known[i].twice)
        return refuse(out, 400, known[i].twice);
    facts->lists |= again;
    if (i < KNOWN)
        facts->seen |= 1u << i;
    return true;
}

bool mob_http_head_field(struct mob_http_head_facts *facts, const char *name, size_t name_length,
    const char *value, size_t value_length, struct mob_http_refusal *out)
{
    if (++facts->fields > MOB_HTTP_HEADERS_MAX)
        return refuse(out, 431, "too many header fields");
    if (!is_token(name, name_length))
        return refuse(out, 400, "malformed header name");
    for (size_t i = 0; i < value_length; i++) {
        unsigned char c = (unsigned char)value[i];
        if ((c < 0x20 && c != '\t') || c == 0x7f)
            return refuse(out, 400, "control character in a header");
    }
    while (value_length > 0 && (value[value_length - 1] == ' ' || value[value_length - 1] == '\t'))
        value_length--;
    if (name_is(name, name_length, "host")) {
        if (++facts->hosts > 1)
            return refuse(out, 400, "more than one Host");
    } else if (name_is(name, name_length, "content-length")) {
        if (++facts->lengths > 1)
            return refuse(out, 400, "more than one Content-Length");
        if (!parse_length(value, value_length, &facts->content_length))
            return refuse(out, 400, "malformed Content-Length");
    } else if (name_is(name, name_length, "transfer-encoding")) {
        if (++facts->encodings > 1)
            return refuse(out, 400, "more than one Transfer-Encoding");
        if (!name_is(value, value_length, "chunked"))
            return refuse(out, 400, "Transfer-Encoding other than chunked");
        facts->chunked = true;
    } else {
        return may_come_again(facts, name, name_length, out);
    }
    return true;
}

bool mob_http_head_finish(
    const struct mob_http_head_facts *facts, bool http_1_1, struct mob_http_refusal *out)
{
    if (facts->lengths > 0 && facts->encodings > 0)
        return refuse(out, 400, "both Content-Length and Transfer-Encoding");
    if (facts->encodings > 0 && !http_1_1)
        return refuse(out, 400, "Transfer-Encoding in HTTP/1.0");
    if (facts->hosts == 0)
        return refuse(out, 400, "no Host");
    return true;
}

bool mob_http_target_ok(const char *target, size_t length)
{
    if (length == 0 || (target[0] != '/' && !(length == 1 && target[0] == '*')))
        return false;
    for (size_t i = 0; i < length; i++) {
        unsigned char c = (unsigned char)target[i];
        if (c <= 0x20 || c >= 0x7f || c == '#')
            return false;
    }
    return true;
}

bool mob_http_query_ok(const char *target, size_t length)
{
    unsigned separators = 0;
    for (size_t i = 0; i < length; i++)
        separators += target[i] == '&';
    return separators < MOB_HTTP_QUERY_PARAMETERS_MAX;
}

static bool check_request_line(
    const char *line, size_t length, bool *http_1_1_out, struct mob_http_refusal *out)
{
    const char *space = memchr(line, ' ', length);
    if (!space || !is_token(line, (size_t)(space - line)) || space - line > 16)
        return refuse(out, 400, "malformed method");
    const char *target = space + 1;
    size_t rest = length - (size_t)(target - line);
    const char *end = memchr(target, ' ', rest);
    if (!end)
        return refuse(out, 400, "malformed request line");
    size_t target_length = (size_t)(end - target);
    if (target_length > MOB_HTTP_TARGET_BYTES_MAX)
        return refuse(out, 414, "request target too long");
    if (!mob_http_target_ok(target, target_length))
        return refuse(out, 400, "malformed request target");
    if (!mob_http_query_ok(target, target_length))
        return refuse(out, 400, "too many query parameters");
    const char *version = end + 1;
    size_t version_length = length - (size_t)(version - line);
    if (version_length != 8 || memcmp(version, "HTTP/1.", 7) != 0 || (version[7] != '0' && version[7] != '1'))
        return refuse(
            out, version_length == 8 && memcmp(version, "HTTP/", 5) == 0 ? 505 : 400, "HTTP version");
    *http_1_1_out = version[7] == '1';
    return true;
}

static bool check_field_line(
    struct mob_http_head_facts *facts, const char *line, size_t length, struct mob_http_refusal *out)
{
    if (line[0] == ' ' || line[0] == '\t')
        return refuse(out, 400, "folded header line");
    const char *colon = memchr(line, ':', length);
    if (!colon)
        return refuse(out, 400, "header line without a colon");
    const char *value = colon + 1, *end = line + length;
    while (value < end && (*value == ' ' || *value == '\t'))
        value++;
    return mob_http_head_field(facts, line, (size_t)(colon - line), value, (size_t)(end - value), out);
}

/* One line that ends in CRLF; bare CR and bare LF are refusals, not line ends. */
static enum mob_status next_line(
    const char *bytes, size_t length, size_t *line_length_out, struct mob_http_refusal *out)
{
    for (size_t i = 0; i < length; i++) {
        if (bytes[i] == 0) {
            refuse(out, 400, "NUL in the request head");
            return MOB_BAD_REQUEST;
        }
        if (bytes[i] == '\n') {
            refuse(out, 400, "line feed without carriage return");
            return MOB_BAD_REQUEST;
        }
        if (bytes[i] != '\r')
            continue;
        if (i + 1 == length)
            return MOB_AGAIN;
        if (bytes[i + 1] != '\n') {
            refuse(out, 400, "carriage return without line feed");
            return MOB_BAD_REQUEST;
        }
        *line_length_out = i;
        return MOB_OK;
    }
    return MOB_AGAIN;
}

enum mob_status mob_http_head_check(
    const char *bytes, size_t length, size_t *length_out, struct mob_http_refusal *refusal_out)
{
    struct mob_http_head_facts facts = {0};
    struct mob_http_refusal refusal = {0};
    bool http_1_1 = false;
    size_t at = 0;
    for (bool first = true;; first = false) {
        size_t line = 0;
        enum mob_status status = next_line(bytes + at, length - at, &line, &refusal);
        if (status == MOB_AGAIN && length >= MOB_HTTP_HEAD_BYTES_MAX) {
            refuse(refusal_out, 431, "request head too large");
            return MOB_BAD_REQUEST;
        }
        if (status == MOB_BAD_REQUEST)
            *refusal_out = refusal;
        if (status != MOB_OK)
            return status;
        bool last = !first && line == 0;
        bool ok = first ? check_request_line(bytes + at, line, &http_1_1, &refusal)
            : last      ? mob_http_head_finish(&facts, http_1_1, &refusal)
                        : check_field_line(&facts, bytes + at, line, &refusal);
        if (!ok) {
            *refusal_out = refusal;
            return MOB_BAD_REQUEST;
        }
        at += line + 2;
        if (last) {
            *length_out = at;
            return MOB_OK;
        }
    }
}
