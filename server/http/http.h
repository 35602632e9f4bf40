/* One HTTP request and its answer, whatever library read it from the wire.
 *
 * Each front (server/h1; later h2 and ws) builds a `struct mob_http_request` and gives it to one `struct
 * mob_http_service`, the router. The service answers on the spot, or parks the request and answers later from
 * any thread:
 *
 *   static void handle(void *cls, struct mob_http_request *r) {
 *       mob_http_park(r, mob_deadline_after(20 * MOB_SEC), on_timeout);  // before any other thread can see r
 *       post_to_engine(r);
 *   }
 *   static void done(struct mob_http_request *r) {                       // any thread
 *       if (mob_http_claim(r)) { mob_http_reply(r, 200, "application/json", text, n); mob_http_send(r); }
 *       mob_http_release(r);
 *   }
 *
 * Who wins mob_http_claim() owns the answer; time-out, disconnect and result race for it and exactly one
 * wins. A parked request holds one reference for its answerer, who releases it whether or not the claim was
 * won. Threads: a request belongs to its front's thread until parked; then to the claimer until
 * mob_http_send(). What the front filled in (method, path, headers, body, peer, principal) never changes
 * after `handle` was called.
 */
#ifndef MOB_SERVER_HTTP_HTTP_H
#define MOB_SERVER_HTTP_HTTP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/status.h"

enum mob_http_method {
    MOB_HTTP_GET,
    MOB_HTTP_HEAD,
    MOB_HTTP_POST,
    MOB_HTTP_PUT,
    MOB_HTTP_DELETE,
    MOB_HTTP_OPTIONS,
    MOB_HTTP_OTHER
};

/* Limits of one request. A header block fits the front's 8 KiB pool, so these only bound our own arrays. */
#define MOB_HTTP_HEADERS_MAX 64
#define MOB_HTTP_TARGET_BYTES_MAX 4096
#define MOB_HTTP_QUERY_PARAMETERS_MAX 32
#define MOB_HTTP_SEGMENTS_MAX 4
#define MOB_HTTP_REQUEST_ID_MAX 64
#define MOB_HTTP_REPLY_HEADERS_BYTES_MAX 16384

struct mob_http_header {
    const char *name, *value;
};

enum mob_http_state {
    MOB_HTTP_READING, /* the front still reads it */
    MOB_HTTP_HANDLING, /* the service has it, in the front's thread */
    MOB_HTTP_PARKED, /* anyone may claim */
    MOB_HTTP_CLAIMED, /* somebody builds the answer */
    MOB_HTTP_ANSWERED, /* the front may send it */
    MOB_HTTP_GONE /* the client left while parked */
};

struct mob_http_request;
struct mob_http_park_list;
struct mob_http_stream;
struct mob_principal;
struct mob_route;
struct mob_text;

/* What a front lets the common code do. */
struct mob_http_front_ops {
    void (*suspend)(struct mob_http_request *request);
    void (*resume)(struct mob_http_request *request);
};

/* The answer under construction. Header names and values are copied; the body is taken with its free
 * function. */
struct mob_http_reply {
    int status;
    bool close; /* end the connection after it */
    char *headers; /* "name\0value\0" pairs, NULL while there are none */
    size_t headers_length, headers_capacity;
    const void *body;
    size_t body_length;
    void (*body_free)(void *cls);
    void *body_cls;
    uint64_t length_of_head; /* Content-Length of a HEAD answer, whose body is not sent */
    struct mob_http_stream *stream; /* an endless body instead (server-sent events) */
};

struct mob_http_request {
    /* the request, as the front read it */
    enum mob_http_method method;
    unsigned header_count; /* here, and others beside their like: ten thousand of these may be parked */
    char *target; /* raw, as sent: path[?query]; split in place */
    const char *path; /* raw path, still percent-encoded */
    const char *query; /* raw query, "" if none */
    const struct mob_http_header *headers;
    char *body; /* NUL behind it, for parsers that like one */
    size_t body_length, body_limit;
    uint64_t content_length; /* UINT64_MAX: chunked; 0 when there is none */
    uint8_t peer[16]; /* IPv6, or v4-mapped */
    uint16_t peer_port;

    /* set by the service */
    struct {
        bool known;
        uint32_t requests, full_in_s;
    } rate_left; /* of its key, after this request */
    char request_id[MOB_HTTP_REQUEST_ID_MAX];
    void *service; /* the service's own context */
    const struct mob_principal *principal;
    const struct mob_route *route;
    void *state; /* of the route */
    void (*state_free)(void *state);
    void *idempotency; /* the key this request holds */
    char *segment_values[MOB_HTTP_SEGMENTS_MAX]; /* decoded parameters of the path pattern, inside
                                                    `segment_memory` */
    char *segment_memory;
    int64_t started_ns;

    struct mob_http_reply reply;

    /* the common code's */
    _Atomic int status; /* enum mob_http_state */
    _Atomic int references;
    const struct mob_http_front_ops *front;
    void *front_cls;
    struct mob_http_park_list *park_list;
    struct mob_http_request *park_next, *park_prev;
    int64_t park_deadline_ns, parked_ns;
    int64_t park_hurried_ns; /* the deadline while the service hurries; 0: the same */
    bool watched; /* its socket is in the disconnect watch */
    int fd;
    void (*on_timeout)(struct mob_http_request *request);
    void (*on_gone)(struct mob_http_request *request); /* park thread, after the client left; may be NULL */
};

/* The router. `begin` sees the head only and may answer (an answer there spares the body); `handle` sees all.
 */
struct mob_http_service {
    void *cls;
    void (*begin)(void *cls, struct mob_http_request *request);
    void (*handle)(void *cls, struct mob_http_request *request);
    void (*finished)(void *cls, const struct mob_http_request *request); /* the answer left; for metrics */
    bool (*hurries)(void *cls); /* parked requests are to be answered at park_hurried_ns; park thread */
};

/* --- life --- */

/* New request with one reference, its target copied. NULL when out of memory. */
struct mob_http_request *mob_http_request_create(const char *target, size_t length);
void mob_http_hold(struct mob_http_request *request);
void mob_http_release(struct mob_http_request *request);

/* --- reading --- */

/* A name that no other request of this process has, nor, but by chance, of another. */
void mob_http_request_id(char out[MOB_HTTP_REQUEST_ID_MAX]);
enum mob_http_method mob_http_method_of(const char *text);
const char *mob_http_method_name(enum mob_http_method method);
/* Value of the first header of that name (case ignored), NULL if none. Borrowed from the request. */
const char *mob_http_header(const struct mob_http_request *request, const char *name);
/* Decoded value of a query parameter: MOB_OK, MOB_NOT_FOUND, MOB_INVALID (bad escape, too long). */
MOB_MUST_USE enum mob_status mob_http_query(
    const struct mob_http_request *request, const char *name, char *out, size_t capacity);
/* Percent-decodes `length` bytes; refuses NUL, control bytes and truncated escapes. `out` has length + 1
 * bytes. */
MOB_MUST_USE enum mob_status mob_http_decode(const char *text, size_t length, bool plus_is_space, char *out);
/* `media` is `type`, parameters ignored, case ignored. NULL is no type. */
bool mob_http_media_is(const char *media, const char *type);

/* --- answering: only the owner of the answer calls these --- */

/* Becomes owner of a parked request's answer. False: somebody else is, or the client has left. */
MOB_MUST_USE bool mob_http_claim(struct mob_http_request *request);
/* The client has left, so work for it alone may stop. Any thread. */
bool mob_http_is_gone(const struct mob_http_request *request);
/* Adds a header. Values with control bytes are dropped whole: they come from us only by mistake. */
void mob_http_reply_header(struct mob_http_request *request, const char *name, const char *value);
void mob_http_reply_headerf(struct mob_http_request *request, const char *name, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Status and body; copies the bytes. `type` NULL: no Content-Type. */
void mob_http_reply(
    struct mob_http_request *request, int status, const char *type, const void *body, size_t length);
/* The same, takes a body from malloc. */
void mob_http_reply_take(
    struct mob_http_request *request, int status, const char *type, char *body, size_t length);
/* The same, takes what is in the text: empty afterwards, or 503 if memory ran out on the way. */
void mob_http_reply_text(
    struct mob_http_request *request, int status, const char *type, struct mob_text *text);
/* The same, borrows the body until `body_free(cls)`, which runs once, in any thread. */
void mob_http_reply_borrow(struct mob_http_request *request, int status, const char *type, const void *body,
    size_t length, void (*body_free)(void *cls), void *cls);
/* Drops what was built, to start over with an error. */
void mob_http_reply_reset(struct mob_http_request *request);
/* The answer is complete. A request that was parked wakes its front. */
void mob_http_send(struct mob_http_request *request);

/* --- parking --- */

/* Front's thread, inside `handle`, before any other thread can see the request. Takes a reference for the
 * answerer. At the deadline (monotonic) `on_timeout` runs in the park thread as owner of the answer and must
 * send it; it may read only what was fixed before parking, and atomics. */
void mob_http_park(struct mob_http_request *request, int64_t deadline_ns,
    void (*on_timeout)(struct mob_http_request *request));

#endif
