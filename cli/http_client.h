/* A small HTTP/1.1 client for one gateway: one request, one connection, blocking, bounded.
 *
 *   struct http_request request = {.address = "127.0.0.1:8080", .method = "GET", .path = "/api/v1/tasks",
 * ...}; status = http_exchange(&request, &response);
 *
 * The body goes to `sink` as it comes, whatever its length; without a sink it is kept, up to HTTP_BODY_MAX.
 * Understands Content-Length, chunked, and bodies that end with the connection. No redirects, no TLS. Any
 * thread.
 */
#ifndef MOB_CLI_HTTP_CLIENT_H
#define MOB_CLI_HTTP_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/status.h"

#define HTTP_HEAD_MAX 32768
#define HTTP_BODY_MAX (64u << 20)

struct http_request {
    const char *address; /* host:port */
    const char *token; /* NULL = none */
    const char *method, *path;
    const char *headers; /* more lines, each with CRLF; NULL = none */
    const char *content_type;
    const void *body;
    size_t body_length;
    int64_t timeout_ns; /* for the whole exchange; 0 = for ever */
    /* False ends the exchange with MOB_IO. Called only for answers of status 2xx; others are kept. */
    bool (*sink)(void *arg, const void *bytes, size_t length);
    void *arg;
};
struct http_response {
    int status;
    char head[HTTP_HEAD_MAX]; /* status line and headers, NUL at the end of each line */
    size_t head_length;
    char *body; /* with NUL behind it; NULL when a sink took it; free with http_response_fini */
    size_t body_length;
    bool sent; /* the request may have reached the server */
    bool taken; /* the sink has bytes of this answer */
};

/* MOB_UNAVAILABLE: no connection, or it ended early; MOB_TIMEOUT; MOB_CORRUPT: not HTTP; MOB_TOO_LARGE;
 * MOB_NO_MEMORY; MOB_IO: the sink. MOB_OK for any complete answer. `response` is always valid for
 * http_response_fini. */
MOB_MUST_USE enum mob_status http_exchange(
    const struct http_request *request, struct http_response *response);
void http_response_fini(struct http_response *response);
/* Value of a header, or NULL. */
const char *http_header(const struct http_response *response, const char *name);
/* Writes `text` percent-encoded as one segment or query value; false if it does not fit. */
bool http_encode(const char *text, char *out, size_t capacity);

#endif
