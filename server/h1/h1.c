#include <arpa/inet.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>

#include "common/base/log.h"
#include "common/base/log_value.h"
#include "server/h1/h1_inner.h"
#include "server/http/refusal.h"
#include "server/http/stream.h"

/* --- the library's handler --- */

/* Keeps the piece, or turns to discarding. False: end the connection. */
static bool take_body(struct exchange *exchange, const char *bytes, size_t n)
{
    struct mob_http_request *request = exchange->request;
    if (h1_answered(request) || exchange->discarding) {
        exchange->discarded += (uint32_t)n;
        return exchange->discarded <= MOB_H1_DISCARD_BYTES_MAX;
    }
    if (n > request->body_limit - request->body_length) {
        exchange->discarding = true;
        free(request->body);
        request->body = NULL;
        request->body_length = 0;
        exchange->discarded = (uint32_t)n;
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

/* False: end the connection. */
static bool handle(struct exchange *exchange)
{
    struct mob_http_request *request = exchange->request;
    const struct mob_http_service *service = &exchange->connection->shard->h1->options.service;
    if (exchange->discarding) {
        h1_refuse(request, 413, "the body is larger than this route takes");
        return true;
    }
    if (!h1_enter(exchange->connection, H1_HANDLING))
        return false;
    /* Until it is answered no time is its client's. */
    atomic_store_explicit(&exchange->connection->deadline_ns, INT64_MAX, memory_order_relaxed);
    atomic_store_explicit(&request->status, MOB_HTTP_HANDLING, memory_order_relaxed);
    service->handle(service->cls, request);
    return true;
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
    if (exchange->refused)
        return MHD_NO;
    if (!exchange->begun) {
        h1_begin(exchange, method, version);
        if (exchange->refused)
            return MHD_NO;
        if (h1_answered(request) && !worth_discarding(request))
            return h1_queue_answer(exchange);
        return MHD_YES;
    }
    if (*upload_size > 0) {
        bool ok = take_body(exchange, upload, *upload_size);
        *upload_size = 0;
        return ok ? MHD_YES : MHD_NO;
    }
    if (atomic_load_explicit(&request->status, memory_order_acquire) == MOB_HTTP_READING) {
        if (!handle(exchange))
            return MHD_NO;
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
        return h1_queue_answer(exchange);
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
    MOB_LOG_ERROR("h1", "route_did_not_answer", "path=\"%s\"", MOB_LOG_VALUE(request->path));
    return MHD_NO;
}

static void end_exchange(struct exchange *exchange)
{
    const struct mob_http_service *service = &exchange->connection->shard->h1->options.service;
    if (exchange->request->reply.stream)
        mob_http_stream_detach(exchange->request->reply.stream);
    else if (exchange->suspended) /* resumed, and the client's end was seen before the handler ran again */
        mob_park_remove(exchange->request);
    if (exchange->queued)
        service->finished(service->cls, exchange->request);
    h1_enter(exchange->connection, H1_BETWEEN);
    h1_set_deadline(exchange->connection, MOB_H1_IDLE_S * 1000);
    exchange->connection->exchange = NULL;
    if (exchange->headers != exchange->inline_headers)
        free(exchange->headers);
    /* The strings die with the library's pool; an answerer that lost its race still holds the request. */
    exchange->request->headers = NULL;
    exchange->request->header_count = 0;
    mob_http_release(exchange->request);
    free(exchange);
}

static void on_completed(
    void *cls, struct MHD_Connection *mhd, void **context, enum MHD_RequestTerminationCode reason)
{
    (void)cls;
    (void)mhd;
    (void)reason;
    struct exchange *exchange = *context;
    *context = NULL;
    if (exchange)
        end_exchange(exchange);
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
    h1_set_deadline(connection, shard->h1->options.head_timeout_ms);
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
    /* A request that ran out of room while its head was read was never completed. */
    if (connection->exchange)
        end_exchange(connection->exchange);
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

#define BEHIND_NS (5 * MOB_SEC)

static enum h1_phase phase_of(struct connection *c)
{
    return (enum h1_phase)atomic_load_explicit(&c->phase, memory_order_relaxed);
}

static bool nothing_unread(const struct connection *c)
{
    int unread = 0;
    return ioctl(c->fd, FIONREAD, &unread) == 0 && unread == 0;
}

static bool has_events(const struct connection *c, short events)
{
    struct pollfd p = {.fd = c->fd, .events = events};
    return poll(&p, 1, 0) > 0;
}

/* The library does not see an end that came together with the last bytes before it, and would wait for the
 * rest of a body, or for another request, until its deadline. Twice in a row with nothing unread, and no
 * request begun between: what is in its hands by then is all. */
static bool has_left(struct connection *c)
{
    enum h1_phase phase = phase_of(c);
    unsigned requests = atomic_load_explicit(&c->requests, memory_order_relaxed);
    bool before = c->left && c->left_requests == requests;
    c->left = (phase == H1_BETWEEN || phase == H1_READING) && has_events(c, POLLRDHUP) && nothing_unread(c);
    c->left_requests = requests;
    return c->left && before;
}

/* Whether it is the client that has not done its part: it takes nothing more of what is sent (an answer, or
 * the library's word that the body may come), or all that it has sent is read and no answer is on its way.
 * Else the connection's thread has not come to it yet, for it is busy with others or has no core. */
static bool waits_for_client(const struct connection *c, enum h1_phase phase)
{
    return !has_events(c, POLLOUT) || (phase != H1_SENDING && nothing_unread(c));
}

/* Seldom, and never for long: whoever waits for an answer that does not come finds the reason here. */
static void say_behind(struct connection *c, int64_t now)
{
    int64_t late_ns = now - atomic_load_explicit(&c->deadline_ns, memory_order_relaxed);
    if (c->behind_said || late_ns < BEHIND_NS)
        return;
    c->behind_said = true;
    MOB_LOG_WARN("h1", "behind", "fd=%d phase=%d requests=%u late_ms=%lld", c->fd, (int)phase_of(c),
        atomic_load_explicit(&c->requests, memory_order_relaxed), (long long)(late_ns / MOB_MS));
}

/* Twice in a row, since its thread may have in its hands what it read just before the first look. */
static bool is_late(struct connection *c, int64_t now)
{
    bool before = c->held_up, over = atomic_load_explicit(&c->deadline_ns, memory_order_relaxed) < now;
    c->held_up = over && waits_for_client(c, phase_of(c));
    if (over && !c->held_up)
        say_behind(c, now);
    return c->held_up && before;
}

/* Shutting the socket down makes the library end the connection by itself. Not when a whole request has come
 * meanwhile: it would be done, and not answered. From H1_LATE none is begun any more. */
static void expire(struct connection *c, struct mob_http_refusal why)
{
    int reading = H1_READING, between = H1_BETWEEN;
    if (atomic_compare_exchange_strong(&c->phase, &reading, H1_LATE))
        mob_http_refusal_send(c->fd, why);
    else if (!atomic_compare_exchange_strong(&c->phase, &between, H1_LATE) && between != H1_SENDING)
        return;
    c->expired = true;
    shutdown(c->fd, SHUT_RDWR);
}

/* Park thread, once a second. */
static void sweep(void *cls, int64_t now)
{
    struct mob_h1 *h1 = cls;
    for (unsigned i = 0; i < h1->shard_count; i++) {
        struct shard *shard = &h1->shards[i];
        pthread_mutex_lock(&shard->lock);
        for (struct connection *c = shard->connections; c; c = c->next)
            if (c->expired)
                continue;
            else if (is_late(c, now))
                expire(c, (struct mob_http_refusal){408, "the rest of the request did not come in time"});
            else if (has_left(c))
                expire(c, (struct mob_http_refusal){400, "the request ends in the middle"});
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
    MOB_LOG_DEBUG("h1", "microhttpd", "text=\"%s\"", MOB_LOG_VALUE(line));
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
        MHD_OPTION_NOTIFY_CONNECTION, on_connection, shard, MHD_OPTION_URI_LOG_CALLBACK, h1_on_target, shard,
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
    if (h1->options.head_timeout_ms == 0)
        h1->options.head_timeout_ms = MOB_H1_HEAD_MS;
    for (unsigned i = 0; i < options->threads; i++)
        pthread_mutex_init(&h1->shards[i].lock, NULL);
    h1->shard_count = options->threads;
    struct mob_parker_options parker = {.tick = sweep,
        .tick_cls = h1,
        .hurries = options->service.hurries,
        .hurries_cls = options->service.cls};
    enum mob_status status = mob_parker_start(&parker, &h1->parker);
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

#define STOP_PATIENCE_MS 10000 /* for a thread that has no core */

void mob_h1_stop(struct mob_h1 *h1)
{
    if (!h1)
        return;
    mob_parker_flush(h1->parker);
    /* Stopping a daemon with a suspended connection aborts the process. */
    struct timespec pause = {.tv_nsec = 1000000};
    for (int i = 0; i < STOP_PATIENCE_MS && mob_parker_count(h1->parker) > 0; i++)
        nanosleep(&pause, NULL);
    for (unsigned i = 0; i < h1->shard_count; i++)
        if (h1->shards[i].daemon)
            MHD_stop_daemon(h1->shards[i].daemon);
    mob_parker_stop(h1->parker);
    for (unsigned i = 0; i < h1->shard_count; i++)
        pthread_mutex_destroy(&h1->shards[i].lock);
    free(h1);
}
