#include "server/h1/h1.h"

#include <arpa/inet.h>
#include <limits.h>
#include <microhttpd.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "server/http/head.h"
#include "server/http/park.h"
#include "server/http/stream.h"

/* Most requests have fewer headers than this; more go to the heap. */
#define INLINE_HEADERS 12

struct shard;

struct connection {
    struct connection *next, *prev;
    struct shard *shard;
    struct MHD_Connection *mhd;
    struct sockaddr_storage address;
    int fd;
    _Atomic int64_t deadline_ns;
    bool expired; /* shut down by the sweep already */
    unsigned requests; /* begun on this connection */
};

/* One request and what this front needs beside it. */
struct exchange {
    struct mob_http_request *request;
    struct connection *connection;
    struct mob_http_header inline_headers[INLINE_HEADERS], *headers;
    size_t body_capacity;
    uint64_t discarded;
    const char *raw_target; /* where the library has it, only to compare addresses */
    size_t raw_target_length;
    bool begun, queued, suspended, discarding;
};

struct shard {
    struct mob_h1 *h1;
    struct MHD_Daemon *daemon;
    struct mob_http_park_list *park_list;
    pthread_mutex_t lock; /* of the list; the sweep holds it while it touches a socket */
    struct connection *connections;
    _Atomic unsigned count;
    _Atomic unsigned streams_waiting;
};

struct mob_h1 {
    struct mob_h1_options options;
    struct mob_parker *parker;
    struct shard shards[MOB_H1_THREADS_MAX];
    unsigned shard_count;
};

static void set_deadline(struct connection *connection, int64_t seconds)
{
    atomic_store_explicit(&connection->deadline_ns, mob_now() + seconds * MOB_SEC, memory_order_relaxed);
}

static void set_transfer_deadline(struct connection *connection, uint64_t bytes)
{
    set_deadline(connection, MOB_H1_TRANSFER_BASE_S + (int64_t)(bytes / MOB_H1_TRANSFER_MIN_BYTES_PER_S));
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

/* Called by the library with the raw target of each request, before its headers are parsed. */
static void *on_target(void *cls, const char *target, struct MHD_Connection *mhd)
{
    (void)cls;
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    struct connection *connection = info->socket_context;
    struct exchange *exchange = calloc(1, sizeof *exchange);
    if (!exchange)
        return NULL;
    exchange->request = mob_http_request_create(target, strlen(target));
    if (!exchange->request) {
        free(exchange);
        return NULL;
    }
    exchange->connection = connection;
    exchange->raw_target = target;
    exchange->raw_target_length = strlen(target);
    exchange->request->front = &front_ops;
    exchange->request->front_cls = exchange;
    exchange->request->fd = connection->fd;
    exchange->request->park_list = connection->shard->park_list;
    connection->requests++;
    set_deadline(connection, MOB_H1_HEAD_S);
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
    if (n == INLINE_HEADERS && exchange->headers == exchange->inline_headers) {
        struct mob_http_header *grown = calloc(MOB_HTTP_HEADERS_MAX, sizeof *grown);
        if (!grown) {
            c->refusal = (struct mob_http_refusal){503, "out of memory"};
            c->ok = false;
            return MHD_NO;
        }
        memcpy(grown, exchange->inline_headers, sizeof exchange->inline_headers);
        exchange->headers = grown;
    }
    exchange->headers[n] = (struct mob_http_header){name, value};
    exchange->request->header_count++;
    return MHD_YES;
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
    MHD_get_connection_values_n(exchange->connection->mhd, MHD_HEADER_KIND, collect_header, &collect);
    exchange->request->headers = exchange->headers;
    bool http_1_1 = strcmp(version, "HTTP/1.1") == 0;
    if (collect.ok && !head_ends_at(exchange, method, collect.expected)) {
        collect.refusal = (struct mob_http_refusal){400, "malformed line end in the request head"};
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

static void refuse_head(struct mob_http_request *request, const struct mob_http_refusal *refusal)
{
    char body[256];
    int n = snprintf(body, sizeof body,
        "{\"type\":\"about:blank\",\"title\":\"refused\",\"status\":%d,\"code\":\"%s\",\"detail\":\"%s\","
        "\"retryable\":%s}\n",
        refusal->status, refusal->status == 431 ? "headers-too-large" : "bad-request", refusal->why,
        refusal->status == 503 ? "true" : "false");
    mob_http_reply(request, refusal->status, "application/problem+json", body, (size_t)n);
    request->reply.close = true;
    mob_http_send(request);
}

static void fill_peer(struct mob_http_request *request, const struct sockaddr_storage *address)
{
    if (address->ss_family == AF_INET) {
        const struct sockaddr_in *v4 = (const void *)address;
        memcpy(request->peer, "\0\0\0\0\0\0\0\0\0\0\xff\xff", 12);
        memcpy(request->peer + 12, &v4->sin_addr, 4);
        request->peer_port = ntohs(v4->sin_port);
    } else if (address->ss_family == AF_INET6) {
        const struct sockaddr_in6 *v6 = (const void *)address;
        memcpy(request->peer, &v6->sin6_addr, 16);
        request->peer_port = ntohs(v6->sin6_port);
    }
}

static bool answered(const struct mob_http_request *request)
{
    return atomic_load_explicit(&request->status, memory_order_acquire) == MOB_HTTP_ANSWERED;
}

static void begin(struct exchange *exchange, const char *method, const char *version)
{
    struct mob_http_request *request = exchange->request;
    const struct mob_http_service *service = &exchange->connection->shard->h1->options.service;
    exchange->begun = true;
    request->method = mob_http_method_of(method);
    fill_peer(request, &exchange->connection->address);
    struct mob_http_refusal refusal;
    if (!check_head(exchange, method, version, &refusal)) {
        refuse_head(request, &refusal);
        return;
    }
    set_transfer_deadline(
        exchange->connection, request->content_length == UINT64_MAX ? 0 : request->content_length);
    service->begin(service->cls, request);
}

/* --- sending the answer --- */

static ssize_t read_stream(void *cls, uint64_t position, char *out, size_t capacity)
{
    (void)position;
    struct exchange *exchange = cls;
    set_transfer_deadline(exchange->connection, 0);
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

static struct MHD_Response *make_response(struct exchange *exchange)
{
    struct mob_http_reply *reply = &exchange->request->reply;
    if (reply->stream)
        return MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, 1024, read_stream, exchange, NULL);
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

static enum MHD_Result queue_answer(struct exchange *exchange)
{
    struct mob_http_reply *reply = &exchange->request->reply;
    struct MHD_Response *response = make_response(exchange);
    if (!response)
        return MHD_NO;
    for (size_t at = 0; at < reply->headers_length;) {
        const char *name = reply->headers + at;
        const char *value = name + strlen(name) + 1;
        MHD_add_response_header(response, name, value);
        at = (size_t)(value - reply->headers) + strlen(value) + 1;
    }
    if (reply->close)
        MHD_add_response_header(response, "Connection", "close");
    set_transfer_deadline(exchange->connection, reply->body_length);
    exchange->queued = true;
    enum MHD_Result result = MHD_queue_response(exchange->connection->mhd, (unsigned)reply->status, response);
    MHD_destroy_response(response);
    return result;
}

/* --- the library's handler --- */

/* Keeps the piece, or turns to discarding. False: end the connection. */
static bool take_body(struct exchange *exchange, const char *bytes, size_t n)
{
    struct mob_http_request *request = exchange->request;
    if (answered(request) || exchange->discarding) {
        exchange->discarded += n;
        return exchange->discarded <= MOB_H1_DISCARD_BYTES_MAX;
    }
    if (n > request->body_limit - request->body_length) {
        exchange->discarding = true;
        free(request->body);
        request->body = NULL;
        request->body_length = 0;
        exchange->discarded = n;
        return true;
    }
    size_t need = request->body_length + n + 1;
    if (need > exchange->body_capacity) {
        size_t capacity = exchange->body_capacity * 2;
        if (capacity < need)
            capacity = need;
        /* The declared length is a hint for the size of the first piece only: memory follows what really
         * arrives. */
        if (request->content_length < 16384 && capacity < request->content_length + 1)
            capacity = request->content_length + 1;
        char *grown = realloc(request->body, capacity);
        if (!grown)
            return false;
        request->body = grown;
        exchange->body_capacity = capacity;
    }
    memcpy(request->body + request->body_length, bytes, n);
    request->body_length += n;
    request->body[request->body_length] = 0;
    return true;
}

static void handle(struct exchange *exchange)
{
    struct mob_http_request *request = exchange->request;
    const struct mob_http_service *service = &exchange->connection->shard->h1->options.service;
    if (exchange->discarding) {
        static const struct mob_http_refusal too_large = {413, "the body is larger than this route takes"};
        refuse_head(request, &too_large);
        return;
    }
    atomic_store_explicit(&request->status, MOB_HTTP_HANDLING, memory_order_relaxed);
    service->handle(service->cls, request);
}

/* An early answer waits for a short body, so that the client gets it on a connection that stays in step. */
static bool worth_discarding(const struct mob_http_request *request)
{
    return !request->reply.close && request->content_length <= 65536;
}

static enum MHD_Result on_request(void *cls, struct MHD_Connection *mhd, const char *url, const char *method,
    const char *version, const char *upload, size_t *upload_size, void **context)
{
    (void)cls;
    (void)mhd;
    (void)url;
    struct exchange *exchange = *context;
    if (!exchange)
        return MHD_NO; /* no memory for it when its target came */
    struct mob_http_request *request = exchange->request;
    if (!exchange->begun) {
        begin(exchange, method, version);
        if (answered(request) && !worth_discarding(request))
            return queue_answer(exchange);
        return MHD_YES;
    }
    if (*upload_size > 0) {
        bool ok = take_body(exchange, upload, *upload_size);
        *upload_size = 0;
        return ok ? MHD_YES : MHD_NO;
    }
    if (atomic_load_explicit(&request->status, memory_order_acquire) == MOB_HTTP_READING) {
        handle(exchange);
        /* Suspended in this call: even if the answer is there already, the resumed call sends it. */
        if (exchange->suspended)
            return MHD_YES;
    }
    switch ((enum mob_http_state)atomic_load_explicit(&request->status, memory_order_acquire)) {
    case MOB_HTTP_ANSWERED:
        if (exchange->suspended) {
            exchange->suspended = false;
            mob_park_remove(request);
        }
        return queue_answer(exchange);
    case MOB_HTTP_GONE:
        exchange->suspended = false;
        mob_park_remove(request);
        return MHD_NO;
    case MOB_HTTP_PARKED:
    case MOB_HTTP_CLAIMED:
        return MHD_YES;
    case MOB_HTTP_READING:
    case MOB_HTTP_HANDLING:
        break;
    }
    MOB_LOG_ERROR("h1", "route_did_not_answer", "path=%s", request->path);
    return MHD_NO;
}

static void on_completed(
    void *cls, struct MHD_Connection *mhd, void **context, enum MHD_RequestTerminationCode reason)
{
    (void)cls;
    (void)mhd;
    (void)reason;
    struct exchange *exchange = *context;
    *context = NULL;
    if (!exchange)
        return;
    const struct mob_http_service *service = &exchange->connection->shard->h1->options.service;
    if (exchange->request->reply.stream)
        mob_http_stream_detach(exchange->request->reply.stream);
    else if (exchange->suspended) /* resumed, and the client's end was seen before the handler ran again */
        mob_park_remove(exchange->request);
    if (exchange->queued)
        service->finished(service->cls, exchange->request);
    set_deadline(exchange->connection, MOB_H1_IDLE_S);
    if (exchange->headers != exchange->inline_headers)
        free(exchange->headers);
    /* The strings die with the library's pool; an answerer that lost its race still holds the request. */
    exchange->request->headers = NULL;
    exchange->request->header_count = 0;
    mob_http_release(exchange->request);
    free(exchange);
}

/* --- connections --- */

static void connection_started(struct shard *shard, struct MHD_Connection *mhd, void **socket_context)
{
    struct connection *connection = calloc(1, sizeof *connection);
    MOB_ASSERT(connection != NULL);
    connection->shard = shard;
    connection->mhd = mhd;
    connection->fd = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
    const struct sockaddr *address =
        MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CLIENT_ADDRESS)->client_addr;
    memcpy(&connection->address, address,
        address->sa_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6));
    set_deadline(connection, MOB_H1_HEAD_S);
    pthread_mutex_lock(&shard->lock);
    connection->next = shard->connections;
    if (shard->connections)
        shard->connections->prev = connection;
    shard->connections = connection;
    pthread_mutex_unlock(&shard->lock);
    *socket_context = connection;
}

static void connection_closed(struct shard *shard, struct connection *connection)
{
    pthread_mutex_lock(&shard->lock);
    if (connection->prev)
        connection->prev->next = connection->next;
    else
        shard->connections = connection->next;
    if (connection->next)
        connection->next->prev = connection->prev;
    pthread_mutex_unlock(&shard->lock);
    atomic_fetch_sub(&shard->count, 1);
    mob_parker_busy(shard->h1->parker, -1);
    shard->h1->options.on_closed(shard->h1->options.on_closed_cls, (struct sockaddr *)&connection->address);
    free(connection);
}

static void on_connection(
    void *cls, struct MHD_Connection *mhd, void **socket_context, enum MHD_ConnectionNotificationCode code)
{
    struct shard *shard = cls;
    if (code == MHD_CONNECTION_NOTIFY_STARTED)
        connection_started(shard, mhd, socket_context);
    else if (*socket_context)
        connection_closed(shard, *socket_context);
}

/* Park thread, once a second. Shutting the socket down makes the library end the connection by itself. */
static void sweep(void *cls, int64_t now)
{
    struct mob_h1 *h1 = cls;
    for (unsigned i = 0; i < h1->shard_count; i++) {
        struct shard *shard = &h1->shards[i];
        pthread_mutex_lock(&shard->lock);
        for (struct connection *c = shard->connections; c; c = c->next) {
            if (!c->expired && atomic_load_explicit(&c->deadline_ns, memory_order_relaxed) < now) {
                c->expired = true;
                shutdown(c->fd, SHUT_RDWR);
            }
        }
        pthread_mutex_unlock(&shard->lock);
    }
}

/* --- start and stop --- */

static void log_library(void *cls, const char *format, va_list arguments)
{
    (void)cls;
    char line[256];
    vsnprintf(line, sizeof line, format, arguments);
    line[strcspn(line, "\r\n")] = 0;
    MOB_LOG_DEBUG("h1", "microhttpd", "text=\"%s\"", line);
}

/* Paths stay as they came: the router decodes segment by segment, so an encoded slash never becomes one. */
static size_t leave_escaped(void *cls, struct MHD_Connection *mhd, char *text)
{
    (void)cls;
    (void)mhd;
    return strlen(text);
}

static enum mob_status start_shard(struct shard *shard)
{
    const struct mob_h1_options *options = &shard->h1->options;
    /* STRICT_FOR_CLIENT stays 0: its own refusal of a missing Host is doubled on the wire when bytes are
     * pipelined behind the request; head.c refuses what it would. */
    shard->daemon = MHD_start_daemon(MHD_USE_EPOLL_INTERNAL_THREAD | MHD_USE_NO_LISTEN_SOCKET |
            MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ITC | MHD_USE_ERROR_LOG,
        0, NULL, NULL, on_request, shard, MHD_OPTION_EXTERNAL_LOGGER, log_library, NULL,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)MOB_H1_CONNECTION_MEMORY_BYTES,
        MHD_OPTION_CONNECTION_LIMIT, options->connections_max + 64, MHD_OPTION_STRICT_FOR_CLIENT, 0,
        MHD_OPTION_CONNECTION_TIMEOUT, 0u, MHD_OPTION_NOTIFY_COMPLETED, on_completed, shard,
        MHD_OPTION_NOTIFY_CONNECTION, on_connection, shard, MHD_OPTION_URI_LOG_CALLBACK, on_target, shard,
        MHD_OPTION_UNESCAPE_CALLBACK, leave_escaped, NULL, MHD_OPTION_SIGPIPE_HANDLED_BY_APP, 1,
        MHD_OPTION_END);
    return shard->daemon ? MOB_OK : MOB_IO;
}

enum mob_status mob_h1_start(const struct mob_h1_options *options, struct mob_h1 **h1_out)
{
    MOB_ASSERT(options->threads > 0 && options->threads <= MOB_H1_THREADS_MAX);
    struct mob_h1 *h1 = calloc(1, sizeof *h1);
    if (!h1)
        return MOB_NO_MEMORY;
    h1->options = *options;
    for (unsigned i = 0; i < options->threads; i++)
        pthread_mutex_init(&h1->shards[i].lock, NULL);
    h1->shard_count = options->threads;
    enum mob_status status = mob_parker_start(sweep, h1, &h1->parker);
    if (status != MOB_OK) {
        free(h1);
        return status;
    }
    for (unsigned i = 0; i < options->threads && status == MOB_OK; i++) {
        h1->shards[i].h1 = h1;
        h1->shards[i].park_list = mob_parker_list(h1->parker);
        status = start_shard(&h1->shards[i]);
    }
    if (status != MOB_OK) {
        mob_h1_stop(h1);
        return status;
    }
    *h1_out = h1;
    return MOB_OK;
}

bool mob_h1_adopt(void *cls, int fd, const struct sockaddr *address, socklen_t length)
{
    struct mob_h1 *h1 = cls;
    struct shard *best = &h1->shards[0];
    for (unsigned i = 1; i < h1->shard_count; i++)
        if (atomic_load(&h1->shards[i].count) < atomic_load(&best->count))
            best = &h1->shards[i];
    /* Over its limit the library would close the socket itself without an answer. */
    if (atomic_load(&best->count) >= h1->options.connections_max)
        return false;
    atomic_fetch_add(&best->count, 1);
    mob_parker_busy(h1->parker, 1);
    if (MHD_add_connection(best->daemon, fd, address, length) == MHD_YES)
        return true;
    MOB_LOG_WARN("h1", "adopt_failed", "fd=%d", fd);
    atomic_fetch_sub(&best->count, 1);
    mob_parker_busy(h1->parker, -1);
    /* The library has closed it. */
    h1->options.on_closed(h1->options.on_closed_cls, address);
    return true;
}

size_t mob_h1_parked(const struct mob_h1 *h1)
{
    return mob_parker_count(h1->parker);
}

void mob_h1_stop(struct mob_h1 *h1)
{
    if (!h1)
        return;
    mob_parker_flush(h1->parker);
    /* Stopping a daemon with a suspended connection aborts the process. */
    struct timespec pause = {.tv_nsec = 1000000};
    for (int i = 0; i < 2000 && mob_parker_count(h1->parker) > 0; i++)
        nanosleep(&pause, NULL);
    for (unsigned i = 0; i < h1->shard_count; i++)
        if (h1->shards[i].daemon)
            MHD_stop_daemon(h1->shards[i].daemon);
    mob_parker_stop(h1->parker);
    for (unsigned i = 0; i < h1->shard_count; i++)
        pthread_mutex_destroy(&h1->shards[i].lock);
    free(h1);
}
