#include "server/http/multipart.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

/* Value of `name=` among the parameters of a header value: a token or a quoted string without escapes. */
static bool parameter(const char *text, size_t length, const char *name, char *out, size_t capacity)
{
    const char *end = text + length;
    size_t name_length = strlen(name);
    for (const char *at = memchr(text, ';', length); at; at = memchr(at, ';', (size_t)(end - at))) {
        at++;
        while (at < end && (*at == ' ' || *at == '\t'))
            at++;
        if ((size_t)(end - at) <= name_length || strncasecmp(at, name, name_length) != 0 ||
            at[name_length] != '=')
            continue;
        const char *value = at + name_length + 1;
        bool quoted = value < end && *value == '"';
        value += quoted;
        const char *stop = value;
        while (stop < end && (quoted ? *stop != '"' : *stop != ';' && *stop != ' ' && *stop != '\t'))
            stop++;
        size_t n = (size_t)(stop - value);
        if (n == 0 || n >= capacity || (quoted && stop == end))
            return false;
        memcpy(out, value, n);
        out[n] = 0;
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
