#include "server/http/multipart.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

static const char *skip(const char *at, const char *end, const char *these)
{
    while (at < end && strchr(these, *at) && *at)
        at++;
    return at;
}

static const char *skip_to(const char *at, const char *end, const char *these)
{
    while (at < end && (!*at || !strchr(these, *at)))
        at++;
    return at;
}

/* Of a header's parameter. In quotes, a backslash stands before a quote or a backslash that belongs to the
 * value; before anything else it is itself, since some clients give paths of their machine. */
struct parameter {
    const char *name, *value;
    size_t name_length, value_length; /* of the value as it is written, without its quotes */
    bool quoted, whole; /* whole: not a quoted one without its end */
};

/* The one behind the next semicolon; where the one after it is looked for. NULL: there is none. */
static const char *next_parameter(const char *at, const char *end, struct parameter *out)
{
    at = skip(skip_to(at, end, ";"), end, "; \t");
    if (at == end)
        return NULL;
    out->name = at;
    at = skip_to(at, end, "=;");
    out->name_length = (size_t)(at - out->name);
    at += at < end && *at == '=';
    out->quoted = at < end && *at == '"';
    out->value = at += out->quoted;
    if (!out->quoted)
        at = skip_to(at, end, "; \t");
    while (out->quoted && at < end && *at != '"')
        at += *at == '\\' && end - at > 1 ? 2 : 1;
    out->value_length = (size_t)(at - out->value);
    out->whole = !out->quoted || at < end;
    return at;
}

static size_t unescape(const struct parameter *p, char *out, size_t capacity)
{
    size_t n = 0;
    for (size_t i = 0; i < p->value_length && n < capacity; i++) {
        const char *at = p->value + i;
        i += p->quoted && *at == '\\' && i + 1 < p->value_length && (at[1] == '"' || at[1] == '\\');
        out[n++] = p->value[i];
    }
    return n;
}

/* False: it is not there, or is empty, or longer than there is room for. */
static bool parameter(const char *text, size_t length, const char *name, char *out, size_t capacity)
{
    struct parameter p;
    for (const char *at = text; (at = next_parameter(at, text + length, &p)) != NULL;) {
        if (p.name_length != strlen(name) || strncasecmp(p.name, name, p.name_length) != 0)
            continue;
        size_t n = unescape(&p, out, capacity);
        if (n == 0 || n == capacity || !p.whole)
            return false;
        out[n] = '\0';
        return true;
    }
    return false;
}

enum mob_status mob_multipart_open(
    struct mob_multipart *parts, const char *content_type, const char *body, size_t length)
{
    char boundary[MOB_MULTIPART_BOUNDARY_MAX + 1];
    if (!parameter(content_type, strlen(content_type), "boundary", boundary, sizeof boundary))
        return MOB_INVALID;
    int n = snprintf(parts->delimiter, sizeof parts->delimiter, "\r\n--%s", boundary);
    parts->delimiter_length = (size_t)n;
    parts->end = body + length;
    /* The first delimiter has its line end only behind a preamble. */
    const char *first = parts->delimiter + 2;
    size_t first_length = parts->delimiter_length - 2;
    if (length >= first_length && memcmp(body, first, first_length) == 0) {
        parts->at = body + first_length;
        return MOB_OK;
    }
    const char *found = memmem(body, length, parts->delimiter, parts->delimiter_length);
    if (!found)
        return MOB_INVALID;
    parts->at = found + parts->delimiter_length;
    return MOB_OK;
}

static void read_field(struct mob_part *part, const char *line, size_t length)
{
    const char *colon = memchr(line, ':', length);
    if (!colon)
        return;
    size_t name_length = (size_t)(colon - line);
    const char *value = colon + 1;
    size_t value_length = length - name_length - 1;
    while (value_length > 0 && (*value == ' ' || *value == '\t')) {
        value++;
        value_length--;
    }
    if (name_length == 19 && strncasecmp(line, "Content-Disposition", 19) == 0) {
        if (!parameter(value, value_length, "name", part->name, sizeof part->name))
            part->name[0] = 0;
    } else if (name_length == 12 && strncasecmp(line, "Content-Type", 12) == 0) {
        snprintf(part->media_type, sizeof part->media_type, "%.*s", (int)value_length, value);
    }
}

/* The lines before the first empty one. False: there is none. */
static bool read_head(struct mob_multipart *parts, struct mob_part *part)
{
    for (;;) {
        const char *line_end = memmem(parts->at, (size_t)(parts->end - parts->at), "\r\n", 2);
        if (!line_end)
            return false;
        const char *line = parts->at;
        parts->at = line_end + 2;
        if (line_end == line)
            return true;
        read_field(part, line, (size_t)(line_end - line));
    }
}

enum mob_status mob_multipart_next(struct mob_multipart *parts, struct mob_part *part_out)
{
    if (parts->end - parts->at >= 2 && memcmp(parts->at, "--", 2) == 0)
        return MOB_NOT_FOUND;
    while (parts->at < parts->end && (*parts->at == ' ' || *parts->at == '\t'))
        parts->at++;
    if (parts->end - parts->at < 2 || memcmp(parts->at, "\r\n", 2) != 0)
        return MOB_INVALID;
    parts->at += 2;
    struct mob_part part = {.media_type = "text/plain"};
    if (!read_head(parts, &part))
        return MOB_INVALID;
    part.bytes = parts->at;
    /* An empty part ends with the line end of its head. */
    const char *from = parts->at - 2;
    const char *stop = memmem(from, (size_t)(parts->end - from), parts->delimiter, parts->delimiter_length);
    if (!stop)
        return MOB_INVALID;
    part.length = stop < part.bytes ? 0 : (size_t)(stop - part.bytes);
    parts->at = stop + parts->delimiter_length;
    *part_out = part;
    return MOB_OK;
}
