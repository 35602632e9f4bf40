#include "server/http/coding.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <zlib.h>

#include "server/http/accept.h"
#include "server/http/digest.h"

#define GZIP_WINDOW (15 + 16)
#define GZIP_OR_ZLIB_WINDOW (15 + 32) /* which, the data says */
#define GZIP_LEVEL 1
#define GZIP_MEMORY 8

/* --- answers --- */

static const char *reply_header_of(const struct mob_http_reply *reply, const char *name)
{
    for (size_t at = 0; at < reply->headers_length;) {
        const char *here = reply->headers + at, *value = here + strlen(here) + 1;
        if (strcasecmp(here, name) == 0)
            return value;
        at = (size_t)(value - reply->headers) + strlen(value) + 1;
    }
    return NULL;
}

static bool is_text(const char *media)
{
    return media &&
        (mob_http_media_is(media, "application/json") ||
            mob_http_media_is(media, "application/problem+json") ||
            mob_http_media_is(media, "application/yaml") || strncasecmp(media, "text/", 5) == 0);
}

/* A strong tag stands for the very bytes, so what has one is not coded. */
static bool may_be_coded(const struct mob_http_reply *reply)
{
    const char *tag = reply_header_of(reply, "ETag");
    return reply->body_length >= MOB_HTTP_GZIP_BYTES_MIN && reply->body_length <= MOB_HTTP_GZIP_BYTES_MAX &&
        reply->status != 206 && is_text(reply_header_of(reply, "Content-Type")) &&
        !reply_header_of(reply, "Content-Encoding") && (!tag || strncmp(tag, "W/", 2) == 0);
}

/* The body in gzip, from malloc; NULL: no memory, or no gain. */
static char *gzip(const void *body, size_t length, size_t *length_out)
{
    z_stream z = {.next_in = (Bytef *)(uintptr_t)body, .avail_in = (uInt)length};
    if (deflateInit2(&z, GZIP_LEVEL, Z_DEFLATED, GZIP_WINDOW, GZIP_MEMORY, Z_DEFAULT_STRATEGY) != Z_OK)
        return NULL;
    char *out = malloc(length);
    z.next_out = (Bytef *)out;
    z.avail_out = (uInt)length;
    bool smaller = out && deflate(&z, Z_FINISH) == Z_STREAM_END;
    deflateEnd(&z);
    if (!smaller) {
        free(out);
        return NULL;
    }
    *length_out = z.total_out;
    return out;
}

static void code(struct mob_http_request *request)
{
    struct mob_http_reply *reply = &request->reply;
    mob_http_reply_header(request, "Vary", "Accept-Encoding");
    if (!mob_http_accepts_gzip(mob_http_header(request, "Accept-Encoding")))
        return;
    size_t length = 0;
    char *coded = gzip(reply->body, reply->body_length, &length);
    if (!coded)
        return;
    if (reply->body_free)
        reply->body_free(reply->body_cls);
    reply->body = coded;
    reply->body_length = length;
    reply->body_free = free;
    reply->body_cls = coded;
    mob_http_reply_header(request, "Content-Encoding", "gzip");
}

static void add_digests(struct mob_http_request *request)
{
    const struct mob_http_reply *reply = &request->reply;
    bool content = mob_digest_wanted(mob_http_header(request, "Want-Content-Digest"));
    /* The representation is what a whole answer carries, its coding included. */
    bool whole = mob_digest_wanted(mob_http_header(request, "Want-Repr-Digest")) && reply->status == 200;
    if ((!content && !whole) || request->method == MOB_HTTP_HEAD)
        return;
    char text[MOB_DIGEST_TEXT_MAX];
    mob_digest_write(reply->body, reply->body_length, text);
    if (content)
        mob_http_reply_header(request, "Content-Digest", text);
    if (whole)
        mob_http_reply_header(request, "Repr-Digest", text);
}

void mob_http_code_reply(struct mob_http_request *request)
{
    const struct mob_http_reply *reply = &request->reply;
    if (reply->stream || reply->length_of_head > 0)
        return;
    if (may_be_coded(reply))
        code(request);
    if (reply->body_length > 0 && reply->body_length <= MOB_HTTP_DIGEST_BYTES_MAX)
        add_digests(request);
}

/* --- request bodies --- */

/* One decode of what is there, into the room that is left; `*ended` when the whole body is behind it. A gzip
 * body may be several members, one behind the other (RFC 1952, section 2.2). */
static enum mob_status inflate_some(z_stream *z, bool members, bool *ended)
{
    int result = inflate(z, Z_NO_FLUSH);
    if (result == Z_STREAM_END && z->avail_in > 0 && members)
        result = inflateReset2(z, GZIP_WINDOW);
    else if (result == Z_STREAM_END)
        *ended = true;
    else if (result == Z_OK && z->avail_in == 0 && z->avail_out > 0)
        return MOB_INVALID; /* cut */
    if (*ended)
        return z->avail_in == 0 ? MOB_OK : MOB_INVALID; /* bytes behind its end */
    return result == Z_OK ? MOB_OK : result == Z_MEM_ERROR ? MOB_NO_MEMORY : MOB_INVALID;
}

static enum mob_status inflate_all(
    z_stream *z, bool members, size_t bytes_max, char **out, size_t *length_out)
{
    size_t capacity = 0, length = 0;
    for (bool ended = false; !ended;) {
        if (length == capacity) {
            capacity = capacity ? capacity * 2 : 65536;
            capacity = capacity > bytes_max + 1 ? bytes_max + 1 : capacity;
            char *grown = length < capacity ? realloc(*out, capacity + 1) : NULL;
            if (!grown)
                return length == capacity ? MOB_TOO_LARGE : MOB_NO_MEMORY;
            *out = grown;
        }
        z->next_out = (Bytef *)*out + length;
        z->avail_out = (uInt)(capacity - length);
        enum mob_status status = inflate_some(z, members, &ended);
        length = capacity - z->avail_out;
        if (length > bytes_max)
            return MOB_TOO_LARGE;
        if (status != MOB_OK)
            return status;
    }
    *length_out = length;
    return MOB_OK;
}

enum mob_status mob_http_decode_body(struct mob_http_request *request, const char *coding, size_t bytes_max)
{
    if (strcasecmp(coding, "gzip") != 0 && strcasecmp(coding, "deflate") != 0)
        return MOB_UNSUPPORTED_MEDIA;
    z_stream z = {.next_in = (Bytef *)request->body, .avail_in = (uInt)request->body_length};
    if (request->body_length == 0)
        return MOB_INVALID;
    if (inflateInit2(&z, GZIP_OR_ZLIB_WINDOW) != Z_OK)
        return MOB_NO_MEMORY;
    char *body = NULL;
    size_t length = 0;
    bool members = strcasecmp(coding, "gzip") == 0;
    enum mob_status status = inflate_all(&z, members, bytes_max, &body, &length);
    inflateEnd(&z);
    if (status != MOB_OK) {
        free(body);
        return status;
    }
    free(request->body);
    body[length] = 0;
    request->body = body;
    request->body_length = length;
    return MOB_OK;
}
