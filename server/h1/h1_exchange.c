/* One request on a connection: its head, checked; its answer, queued. */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "server/h1/h1_inner.h"
#include "server/http/coding.h"
#include "server/http/refusal.h"
#include "server/http/stream.h"

void h1_set_deadline(struct connection *connection, int64_t milliseconds)
{
    atomic_store_explicit(&connection->deadline_ns, mob_now() + milliseconds * MOB_MS, memory_order_relaxed);
}

static void h1_set_transfer_deadline(struct connection *connection, uint64_t bytes)
{
    int64_t seconds = MOB_H1_TRANSFER_BASE_S + (int64_t)(bytes / MOB_H1_TRANSFER_MIN_BYTES_PER_S);
    h1_set_deadline(connection, seconds * 1000);
}

bool h1_enter(struct connection *connection, enum h1_phase phase)
{
    int before = atomic_load_explicit(&connection->phase, memory_order_relaxed);
    while (before != H1_LATE &&
        !atomic_compare_exchange_weak_explicit(
            &connection->phase, &before, phase, memory_order_relaxed, memory_order_relaxed))
        continue;
    return before != H1_LATE;
}

/* --- the front's operations --- */

static void suspend(struct mob_http_request *request)
{
    struct exchange *exchange = request->front_cls;
    atomic_store_explicit(&exchange->connection->deadline_ns, INT64_MAX, memory_order_relaxed);
    exchange->suspended = true;
    MHD_suspend_connection(exchange->connection->mhd);
}

static void resume(struct mob_http_request *request)
{
    struct exchange *exchange = request->front_cls;
    MHD_resume_connection(exchange->connection->mhd);
}

static const struct mob_http_front_ops front_ops = {suspend, resume};

/* --- reading a request --- */

/* Past the library, which has no room for it. */
static void refuse_at_once(struct exchange *exchange, struct mob_http_refusal refusal)
{
    exchange->refused = true;
    mob_http_refusal_send(exchange->request->fd, refusal);
    mob_http_drain(exchange->request->fd);
}

/* Before the library takes the query apart: out of room for it, it would end the request without a word. */
static void refuse_long_query(struct exchange *exchange)
{
    if (!mob_http_query_ok(exchange->raw_target, exchange->raw_target_length))
        refuse_at_once(exchange, (struct mob_http_refusal){400, "too many query parameters"});
}

/* Called by the library with the raw target of each request, before its headers are parsed. */
void *h1_on_target(void *cls, const char *target, struct MHD_Connection *mhd)
{
    (void)cls;
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    struct connection *connection = info->socket_context;
    struct exchange *exchange = calloc(1, sizeof *exchange);
    if (!exchange)
        return NULL;
    /* Too long a one is refused when its head is complete. */
    exchange->request = mob_http_request_create(target, strnlen(target, MOB_HTTP_TARGET_BYTES_MAX));
    if (!exchange->request) {
        free(exchange);
        return NULL;
    }
    connection->exchange = exchange;
    exchange->connection = connection;
    exchange->raw_target = target;
    exchange->raw_target_length = strlen(target);
    exchange->target_ok = mob_http_target_ok(target, exchange->raw_target_length); /* later it is split */
    exchange->request->front = &front_ops;
    exchange->request->front_cls = exchange;
    exchange->request->fd = connection->fd;
    exchange->request->park_list = connection->shard->park_list;
    atomic_fetch_add_explicit(&connection->requests, 1, memory_order_relaxed);
    h1_set_deadline(connection, connection->shard->h1->options.head_timeout_ms);
    exchange->refused = !h1_enter(connection, H1_READING);
    if (!exchange->refused)
        refuse_long_query(exchange);
    return exchange;
}

struct collect {
    struct exchange *exchange;
    struct mob_http_head_facts facts;
    struct mob_http_refusal refusal;
    const char *expected; /* where the next name must begin */
    bool ok;
};

/* The library splits the head in place, so behind each value stand the two bytes that ended its line, and
 * then the next name. A line feed alone leaves one byte, a folded line leaves more (or moves the text), a NUL
 * cuts a value short: that is how lines that the library let through are still seen. */
static enum MHD_Result collect_header(void *cls, enum MHD_ValueKind kind, const char *name,
    size_t name_length, const char *value, size_t value_length)
{
    (void)kind;
    struct collect *c = cls;
    struct exchange *exchange = c->exchange;
    if (!value || name != c->expected) {
        c->refusal = (struct mob_http_refusal){400, "malformed line end in the request head"};
        c->ok = false;
        return MHD_NO;
    }
    c->expected = value + value_length + 2;
    if (!mob_http_head_field(&c->facts, name, name_length, value, value_length, &c->refusal)) {
        c->ok = false;
        return MHD_NO;
    }
    unsigned n = exchange->request->header_count;
    if (n == exchange->header_room) { /* it doubles */
        bool is_inline = exchange->headers == exchange->inline_headers;
        struct mob_http_header *grown = realloc(is_inline ? NULL : exchange->headers, 2 * n * sizeof *grown);
        if (!grown) {
            c->refusal = (struct mob_http_refusal){503, "out of memory"};
            c->ok = false;
            return MHD_NO;
        }
        if (is_inline)
            memcpy(grown, exchange->inline_headers, sizeof exchange->inline_headers);
        exchange->headers = grown;
        exchange->header_room = (uint16_t)(2 * n);
    }
    exchange->headers[n] = (struct mob_http_header){name, value};
    exchange->request->header_count++;
    return MHD_YES;
}

static bool same_name(const struct mob_http_header *a, const struct mob_http_header *b)
{
    return strcasecmp(a->name, b->name) == 0;
}

/* The lines of a list are one list, which stands in the place of the first of them; its text behind the
 * array. False: no memory. */
static bool join_lists(struct exchange *exchange)
{
    struct mob_http_request *request = exchange->request;
    const struct mob_http_header *headers = exchange->headers;
    unsigned count = request->header_count, kept = 0;
    size_t bytes = 1; /* never none */
    for (unsigned i = 0; i < count; i++)
        bytes += strlen(headers[i].value) + sizeof ", ";
    struct mob_http_header *joined = malloc(count * sizeof *joined + bytes);
    if (!joined)
        return false;
    char *at = (char *)(joined + count);
    for (unsigned i = 0; i < count; i++) {
        bool list = mob_http_head_is_list(headers[i].name, strlen(headers[i].name));
        unsigned first = 0;
        while (list && !same_name(&headers[first], &headers[i]))
            first++;
        if (list && first < i)
            continue;
        joined[kept++] = (struct mob_http_header){headers[i].name, list ? at : headers[i].value};
        for (unsigned k = i; list && k < count; k++)
            if (same_name(&headers[k], &headers[i]))
                at += sprintf(at, "%s%s", k > i ? ", " : "", headers[k].value);
        at += list; /* its NUL */
    }
    if (exchange->headers != exchange->inline_headers)
        free(exchange->headers);
    exchange->headers = joined;
    exchange->header_room = (uint16_t)count;
    request->header_count = kept;
    return true;
}

/* What it keeps of each field, query parameter and cookie beside their text. */
#define LIBRARY_FIELD_BYTES 64

/* The head of the answer comes out of the same memory, and the library ends the connection without a word
 * when it finds no room for that, whatever was done for the request. */
static bool leaves_room(struct exchange *exchange)
{
    struct MHD_Connection *mhd = exchange->connection->mhd;
    const union MHD_ConnectionInfo *head =
        MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
    int fields = MHD_get_connection_values_n(
        mhd, MHD_HEADER_KIND | MHD_GET_ARGUMENT_KIND | MHD_COOKIE_KIND, NULL, NULL);
    const char *cookies;
    size_t copied = 0; /* to take them apart */
    (void)MHD_lookup_connection_value_n(mhd, MHD_HEADER_KIND, "Cookie", strlen("Cookie"), &cookies, &copied);
    size_t used = (head ? head->header_size : 0) + copied + (size_t)fields * LIBRARY_FIELD_BYTES;
    exchange->memory_used = (uint16_t)(used < UINT16_MAX ? used : UINT16_MAX);
    return used + MOB_H1_REPLY_HEAD_BYTES <= MOB_H1_CONNECTION_MEMORY_BYTES;
}

/* Between the last value and the end of the head there are exactly two line ends. */
static bool head_ends_at(const struct exchange *exchange, const char *method, const char *expected)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(exchange->connection->mhd, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
    const char *begin = exchange->raw_target - strlen(method) - 1;
    return info && begin + info->header_size == expected + 2;
}

static bool check_head(
    struct exchange *exchange, const char *method, const char *version, struct mob_http_refusal *refusal_out)
{
    struct collect collect = {.exchange = exchange,
        .ok = true,
        .expected = exchange->raw_target + exchange->raw_target_length + 1 + strlen(version) + 2};
    exchange->headers = exchange->inline_headers;
    exchange->header_room = INLINE_HEADERS;
    MHD_get_connection_values_n(exchange->connection->mhd, MHD_HEADER_KIND, collect_header, &collect);
    if (collect.ok && collect.facts.lists && !join_lists(exchange)) {
        collect.refusal = (struct mob_http_refusal){503, "out of memory"};
        collect.ok = false;
    }
    exchange->request->headers = exchange->headers;
    bool http_1_1 = strcmp(version, "HTTP/1.1") == 0;
    if (collect.ok && !head_ends_at(exchange, method, collect.expected)) {
        collect.refusal = (struct mob_http_refusal){400, "malformed line end in the request head"};
        collect.ok = false;
    }
    if (collect.ok && exchange->raw_target_length > MOB_HTTP_TARGET_BYTES_MAX) {
        collect.refusal = (struct mob_http_refusal){414, "request target too long"};
        collect.ok = false;
    } else if (collect.ok && !exchange->target_ok) {
        collect.refusal = (struct mob_http_refusal){400, "malformed request target"};
        collect.ok = false;
    }
    bool ok = collect.ok && mob_http_head_finish(&collect.facts, http_1_1, &collect.refusal);
    if (ok && !http_1_1 && strcmp(version, "HTTP/1.0") != 0) {
        collect.refusal = (struct mob_http_refusal){505, "HTTP version"};
        ok = false;
    }
    exchange->request->content_length = collect.facts.chunked ? UINT64_MAX : collect.facts.content_length;
    if (!ok)
        *refusal_out = collect.refusal;
    return ok;
}

void h1_refuse(struct mob_http_request *request, int status, const char *why)
{
    char body[MOB_HTTP_REFUSAL_BYTES_MAX];
    if (!request->request_id[0]) /* nobody has read its own */
        mob_http_request_id(request->request_id);
    size_t n = mob_http_refusal_body((struct mob_http_refusal){status, why}, request->request_id, body);
    mob_http_reply(request, status, "application/problem+json", body, n);
    mob_http_reply_header(request, "Request-Id", request->request_id);
    request->reply.close = true;
    mob_http_send(request);
}

static void fill_peer(struct mob_http_request *request, const struct sockaddr_in6 *address)
{
    if (address->sin6_family == AF_INET) {
        const struct sockaddr_in *v4 = (const void *)address;
        memcpy(request->peer, "\0\0\0\0\0\0\0\0\0\0\xff\xff", 12);
        memcpy(request->peer + 12, &v4->sin_addr, 4);
        request->peer_port = ntohs(v4->sin_port);
    } else if (address->sin6_family == AF_INET6) {
        const struct sockaddr_in6 *v6 = (const void *)address;
        memcpy(request->peer, &v6->sin6_addr, 16);
        request->peer_port = ntohs(v6->sin6_port);
    }
}

bool h1_answered(const struct mob_http_request *request)
{
    return atomic_load_explicit(&request->status, memory_order_acquire) == MOB_HTTP_ANSWERED;
}

void h1_begin(struct exchange *exchange, const char *method, const char *version)
{
    struct mob_http_request *request = exchange->request;
    const struct mob_http_service *service = &exchange->connection->shard->h1->options.service;
    exchange->begun = true;
    request->method = mob_http_method_of(method);
    fill_peer(request, &exchange->connection->address);
    struct mob_http_refusal refusal;
    if (!leaves_room(exchange)) {
        refuse_at_once(exchange, (struct mob_http_refusal){431, "request head too large"});
        return;
    }
    if (!check_head(exchange, method, version, &refusal)) {
        h1_refuse(request, refusal.status, refusal.why);
        return;
    }
    h1_set_transfer_deadline(
        exchange->connection, request->content_length == UINT64_MAX ? 0 : request->content_length);
    service->begin(service->cls, request);
}

/* --- sending the answer --- */

static ssize_t read_stream(void *cls, uint64_t position, char *out, size_t capacity)
{
    (void)position;
    struct exchange *exchange = cls;
    h1_set_transfer_deadline(exchange->connection, 0);
    long n = mob_http_stream_read(exchange->request->reply.stream, out, capacity);
    return n < 0 ? MHD_CONTENT_READER_END_OF_STREAM : (ssize_t)n;
}

static ssize_t read_nothing(void *cls, uint64_t position, char *out, size_t capacity)
{
    (void)cls;
    (void)position;
    (void)out;
    (void)capacity;
    return MHD_CONTENT_READER_END_WITH_ERROR;
}

/* Of a stream: without a length, and not in chunks, whose end the library sends to HEAD, too. */
static struct MHD_Response *make_head_of_stream(void)
{
    struct MHD_Response *response =
        MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, 1024, read_nothing, NULL, NULL);
    if (response)
        MHD_set_response_options(response, MHD_RF_HTTP_1_0_COMPATIBLE_STRICT, MHD_RO_END);
    return response;
}

static struct MHD_Response *make_response(struct exchange *exchange)
{
    struct mob_http_reply *reply = &exchange->request->reply;
    if (reply->stream && exchange->request->method == MOB_HTTP_HEAD)
        return make_head_of_stream();
    if (reply->stream)
        return MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, 1024, read_stream, exchange, NULL);
    if (reply->status == 304) /* what the representation has, or no length: zero would be a wrong one */
        return MHD_create_response_from_callback(
            reply->length_of_head > 0 ? reply->length_of_head : MHD_SIZE_UNKNOWN, 1024, read_nothing, NULL,
            NULL);
    if (exchange->request->method == MOB_HTTP_HEAD && reply->length_of_head > 0)
        return MHD_create_response_from_callback(reply->length_of_head, 1024, read_nothing, NULL, NULL);
    if (reply->body_free == free) {
        struct MHD_Response *response =
            MHD_create_response_from_buffer(reply->body_length, reply->body_cls, MHD_RESPMEM_MUST_FREE);
        if (response)
            reply->body_free = NULL;
        return response;
    }
    if (reply->body_free) {
        struct MHD_Response *response = MHD_create_response_from_buffer_with_free_callback_cls(
            reply->body_length, (void *)(uintptr_t)reply->body, reply->body_free, reply->body_cls);
        if (response)
            reply->body_free = NULL;
        return response;
    }
    return MHD_create_response_from_buffer(
        reply->body_length, (void *)(uintptr_t)reply->body, MHD_RESPMEM_PERSISTENT);
}

/* A Link is as long as the target that it repeats, and says nothing that the body does not. */
static bool fits(const struct exchange *exchange, const char *name)
{
    const size_t of_library = 200; /* status line, Date, Content-Length, Connection */
    return strcmp(name, "Link") != 0 ||
        exchange->memory_used + exchange->request->reply.headers_length + of_library <=
        MOB_H1_CONNECTION_MEMORY_BYTES;
}

enum MHD_Result h1_queue_answer(struct exchange *exchange)
{
    struct mob_http_reply *reply = &exchange->request->reply;
    if (!h1_enter(exchange->connection, H1_SENDING))
        return MHD_NO;
    mob_http_code_reply(exchange->request);
    struct MHD_Response *response = make_response(exchange);
    if (!response)
        return MHD_NO;
    for (size_t at = 0; at < reply->headers_length;) {
        const char *name = reply->headers + at;
        const char *value = name + strlen(name) + 1;
        if (fits(exchange, name))
            MHD_add_response_header(response, name, value);
        at = (size_t)(value - reply->headers) + strlen(value) + 1;
    }
    if (reply->close)
        MHD_add_response_header(response, "Connection", "close");
    h1_set_transfer_deadline(exchange->connection, reply->body_length);
    exchange->queued = true;
    enum MHD_Result result = h1_library_queue(exchange->connection->mhd, (unsigned)reply->status, response);
    MHD_destroy_response(response);
    return result;
}
