/* Sockets of clients: bytes in chunks, frames out of them, answers into one buffer a connection. */
#include "gcs/shard/shard_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/process.h"
#include "common/base/unix_socket.h"

#define RECV_LOOPS 8 /* a connection's share of one pass */
#define LISTEN_BACKLOG 64
#define SOCKET_BUFFER_BYTES (4 << 20)

/* Edges: a level would be looked at once more for each request, when it has been read. So whoever reads goes
 * on until there is nothing, or asks to be told again (`watch`). */
static uint32_t conn_events(bool stalled, bool want_write)
{
    return EPOLLET | (stalled ? 0u : EPOLLIN | EPOLLRDHUP) | (want_write ? EPOLLOUT : 0u);
}

enum mob_status shard_listen(struct mob_shard *sh)
{
    int fd;
    enum mob_status status = mob_unix_bind(sh->options.socket_path, SOCK_STREAM, LISTEN_BACKLOG, &fd);
    if (status != MOB_OK)
        return status;
    mob_listener_init(&sh->listener, fd);
    struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data.ptr = sh};
    return epoll_ctl(sh->epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0 ? MOB_OK : MOB_IO;
}

/* ---- opening ---- */

static void shut_out(struct conn *c, const char *why)
{
    MOB_LOG_WARN("gcs", "connection_given_up", "pid=%d why=\"%s\"", c->pid, why);
    conn_close(c, MOB_CLOSED);
}

/* Room for one more that has proved nothing. */
static void make_place(struct mob_shard *sh)
{
    uint32_t count = 0;
    struct conn *longest = NULL;
    for (struct conn *c = sh->conns; c != NULL; c = c->next) {
        if (c->open || c->closing)
            continue;
        count++;
        if (longest == NULL || c->heard_ns < longest->heard_ns)
            longest = c;
    }
    if (count >= CONN_OPENING_MAX)
        shut_out(longest, "too many have proved nothing");
}

void conns_tick(struct mob_shard *sh)
{
    for (struct conn *c = sh->conns; c != NULL; c = c->next)
        if (!c->open && !c->closing && sh->now_ns - c->heard_ns > MOB_OPENING_SILENCE_NS)
            shut_out(c, "it proved nothing in time");
}

/* Where the next life of this member finds it: before anything of this client is taken. */
static bool is_noted(const struct conn *c)
{
    struct mob_shard *sh = c->shard;
    return sh->callers == NULL ||
        mob_callers_add(sh->callers, sh->options.forwarded ? 0 : c->pid, c->pid_start);
}

void conn_opening(struct conn *c, const struct mob_gcs_frame *frame)
{
    struct mob_opening_say say;
    enum mob_status status = mob_opening_take(&c->opening, frame, &say);
    if (status != MOB_OK) {
        conn_close(c, status);
        return;
    }
    c->heard_ns = c->shard->now_ns;
    if (say.type != 0)
        conn_send(c, say.type, 0, say.head, say.head_bytes);
    if (c->opening.state == MOB_OPENING_REFUSED) {
        conn_flush(c); /* why, if the socket takes it */
        conn_close(c, c->opening.refused);
    } else if (c->opening.state == MOB_OPENING_PROVED) {
        if (is_noted(c))
            attach_welcome(c);
        else
            conn_close(c, MOB_IO);
    }
}

void shard_accept(struct mob_shard *sh)
{
    int fd;
    while ((fd = mob_listener_take(&sh->listener, sh->now_ns)) >= 0) {
        make_place(sh);
        struct conn *c = sh->conn_count < MOB_SHARD_CONNECTIONS_MAX ? calloc(1, sizeof *c) : NULL;
        struct epoll_event event = {.events = conn_events(false, false), .data.ptr = c};
        if (c == NULL || epoll_ctl(sh->epoll_fd, EPOLL_CTL_ADD, fd, &event) != 0) {
            MOB_LOG_WARN("gcs", "connection_refused", "connections=%u", sh->conn_count);
            free(c);
            close(fd);
            continue;
        }
        struct mob_process process;
        struct ucred peer = {0};
        socklen_t length = sizeof peer;
        getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length);
        int size = SOCKET_BUFFER_BYTES;
        setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
        c->shard = sh;
        c->fd = fd;
        (void)mob_process_look(peer.pid, &process);
        c->pid = peer.pid;
        c->pid_start = process.started;
        c->heard_ns = sh->now_ns;
        mob_opening_accept(&c->opening, &sh->client_end);
        c->next = sh->conns;
        sh->conns = c;
        sh->conn_count++;
    }
}

static void leave_stalled(struct conn *c)
{
    if (!c->stalled)
        return;
    c->stalled = false;
    TAILQ_REMOVE(&c->shard->stalled, c, among_stalled);
}

void conn_close(struct conn *c, enum mob_status why)
{
    if (c->closing)
        return;
    if (why != MOB_CLOSED)
        MOB_LOG_WARN("gcs", "connection_closed", "pid=%d why=%s", c->pid, mob_status_code(why));
    c->closing = true;
    c->shard->conns_closing++;
    leave_stalled(c);
    attach_gone(c);
    query_gone(c);
    query_cold_gone(c);
    subscribe_gone(c);
    close(c->fd);
    c->fd = -1;
}

void conns_reap(struct mob_shard *sh)
{
    if (sh->conns_closing == 0)
        return;
    for (struct conn **link = &sh->touched; *link != NULL;)
        if ((*link)->closing)
            *link = (*link)->next_touched;
        else
            link = &(*link)->next_touched;
    sh->conns_closing = 0;
    for (struct conn **link = &sh->conns; *link != NULL;) {
        struct conn *c = *link;
        if (!c->closing) {
            link = &c->next;
            continue;
        }
        *link = c->next;
        sh->conn_count--;
        mob_chunk_release(c->in);
        free(c->out);
        free(c);
    }
}

/* ---- in ---- */

/* Also tells again what is there already. */
static void watch(struct conn *c)
{
    struct epoll_event event = {.events = conn_events(c->stalled, c->want_write), .data.ptr = c};
    epoll_ctl(c->shard->epoll_fd, EPOLL_CTL_MOD, c->fd, &event);
}

static void want_write(struct conn *c, bool want)
{
    if (c->want_write == want || c->closing)
        return;
    c->want_write = want;
    watch(c);
}

static void stall(struct conn *c, enum serve_result why)
{
    if (c->stalled)
        return;
    c->stalled = true;
    TAILQ_INSERT_TAIL(&c->shard->stalled, c, among_stalled);
    c->for_room = why == SERVE_NO_ROOM;
    watch(c);
}

/* Parses what is there; `*need_out` bytes are needed for the next frame in all. */
static enum serve_result parse(struct conn *c, size_t *need_out)
{
    *need_out = 0;
    while (!c->closing && c->in != NULL) {
        struct mob_gcs_frame frame;
        uint32_t payload_max = c->open ? MOB_GCS_FRAME_CLIENT_MAX : MOB_OPENING_BYTES_MAX;
        enum mob_status status = mob_gcs_frame_decode(
            c->in->bytes + c->parsed, c->in->used - c->parsed, payload_max, &frame, need_out);
        if (status == MOB_AGAIN)
            return SERVE_OK;
        if (status != MOB_OK) {
            conn_close(c, status);
            return SERVE_OK;
        }
        enum serve_result result = serve_frame(c, &frame, c->in);
        if (result != SERVE_OK)
            return result;
        c->parsed += (uint32_t)*need_out;
        *need_out = 0;
    }
    return SERVE_OK;
}

/* A chunk with room for the rest of the frame that has begun; what is of it moves along. */
static bool make_room(struct conn *c, size_t need)
{
    uint32_t left = c->in == NULL ? 0 : c->in->used - c->parsed;
    if (need < MOB_GCS_FRAME_HEADER_BYTES)
        need = MOB_GCS_FRAME_HEADER_BYTES;
    if (c->in != NULL && c->in->refs == 1 && left == 0)
        c->in->used = c->parsed = 0; /* nobody holds it */
    if (c->in != NULL && c->parsed + need <= c->in->capacity && c->in->used < c->in->capacity)
        return true;
    struct mob_chunk *fresh = mob_chunk_create(&c->shard->chunks, (uint32_t)need);
    if (fresh == NULL)
        return false;
    if (left > 0)
        memcpy(fresh->bytes, c->in->bytes + c->parsed, left);
    fresh->used = left;
    mob_chunk_release(c->in);
    c->in = fresh;
    c->parsed = 0;
    return true;
}

/* Once. MOB_OK: there may be more; MOB_AGAIN: there is none now; else the connection is closed. Behind a
 * short read nothing stands but an end (clients send bytes only: a descriptor would cut a read short, too),
 * and that may have been told with it. */
static enum mob_status receive(struct conn *c, size_t need)
{
    ssize_t n;
    if (!make_room(c, need)) {
        conn_close(c, MOB_NO_MEMORY);
        return MOB_NO_MEMORY;
    }
    size_t room = c->in->capacity - c->in->used;
    do
        n = recv(c->fd, c->in->bytes + c->in->used, room, 0);
    while (n < 0 && errno == EINTR);
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
        return MOB_AGAIN;
    if (n <= 0) {
        conn_close(c, MOB_CLOSED);
        return MOB_CLOSED;
    }
    c->in->used += (uint32_t)n;
    return (size_t)n < room ? MOB_AGAIN : MOB_OK;
}

void conn_receive(struct conn *c)
{
    bool begun = c->in != NULL && c->in->used > c->parsed; /* it knows then how much room it needs */
    if (!c->closing && !c->stalled && !begun)
        c->drained = receive(c, 0) == MOB_AGAIN;
}

void conn_readable(struct conn *c)
{
    size_t need = 0;
    bool drained = c->drained;
    c->drained = false;
    for (int i = 0; i <= RECV_LOOPS && !c->closing; i++) {
        enum serve_result result = parse(c, &need);
        if (c->closing)
            return;
        if (result != SERVE_OK) {
            stall(c, result);
            return;
        }
        if (drained || i == RECV_LOOPS) {
            if (!drained || c->ends) /* the end is read when what came before it is answered */
                watch(c);
            return;
        }
        enum mob_status status = receive(c, need);
        if (status != MOB_OK && status != MOB_AGAIN)
            return;
        drained = status == MOB_AGAIN;
    }
}

/* True: it is stalled no more, or for something else. */
static bool try_again(struct conn *c)
{
    size_t need;
    enum serve_result result = parse(c, &need);
    if (c->closing)
        return true;
    c->for_room = result == SERVE_NO_ROOM;
    if (result != SERVE_OK)
        return result != SERVE_NO_ROOM;
    leave_stalled(c);
    watch(c);
    conn_readable(c);
    return true;
}

static void note_pace(struct mob_shard *sh, bool waits)
{
    bool paced = waits && shard_has_masters(sh) && mob_chain_paced(sh->chain);
    if (!paced && sh->paced_since_ns != 0)
        sh->paced_ns += sh->now_ns - sh->paced_since_ns;
    if (!paced || sh->paced_since_ns == 0)
        sh->paced_since_ns = paced ? sh->now_ns : 0;
}

/* Nobody passes one that waits for room. One that is closed meanwhile leaves the queue and stays in memory.
 */
void conns_resume(struct mob_shard *sh)
{
    struct conn *last = TAILQ_LAST(&sh->stalled, conns_stalled);
    bool room = true;
    for (struct conn *c = TAILQ_FIRST(&sh->stalled), *next; last != NULL && c != NULL; c = next) {
        next = c == last ? NULL : TAILQ_NEXT(c, among_stalled);
        if (c->stalled && !c->closing && (room || !c->for_room))
            room &= try_again(c);
    }
    note_pace(sh, !room);
}

/* ---- out ---- */

size_t conn_out_bytes(const struct conn *c)
{
    return c->out_end - c->out_begin;
}

uint8_t *conn_frame_begin(struct conn *c, uint32_t head_bytes, uint32_t body_bytes_max)
{
    if (c->closing)
        return NULL;
    size_t need = (size_t)MOB_GCS_FRAME_HEADER_BYTES + head_bytes + body_bytes_max;
    if (c->out_begin > 0 && c->out_end + need > c->out_capacity) {
        memmove(c->out, c->out + c->out_begin, conn_out_bytes(c));
        c->out_end -= c->out_begin;
        c->out_begin = 0;
    }
    if (c->out_end + need > c->out_capacity) {
        size_t capacity = c->out_capacity == 0 ? 4096 : c->out_capacity;
        while (capacity < c->out_end + need)
            capacity *= 2;
        uint8_t *grown = realloc(c->out, capacity);
        if (grown == NULL) {
            conn_close(c, MOB_NO_MEMORY);
            return NULL;
        }
        c->out = grown;
        c->out_capacity = capacity;
    }
    return c->out + c->out_end + MOB_GCS_FRAME_HEADER_BYTES;
}

void conn_frame_end(struct conn *c, uint8_t type, uint64_t from, uint32_t head_bytes, uint32_t body_bytes)
{
    uint8_t *header = c->out + c->out_end;
    struct mob_gcs_frame frame = {.type = type,
        .shard = c->shard->options.shard,
        .epoch = mob_chain_epoch(c->shard->chain),
        .from = from,
        .head_bytes = head_bytes,
        .body_bytes = body_bytes,
        .head = header + MOB_GCS_FRAME_HEADER_BYTES,
        .body = header + MOB_GCS_FRAME_HEADER_BYTES + head_bytes};
    mob_gcs_frame_encode(&frame, header);
    c->out_end += (size_t)MOB_GCS_FRAME_HEADER_BYTES + head_bytes + body_bytes;
    conn_touch(c);
}

void conn_send(struct conn *c, uint8_t type, uint64_t from, const void *head, uint32_t head_bytes)
{
    uint8_t *at = conn_frame_begin(c, head_bytes, 0);
    if (at == NULL)
        return;
    if (head_bytes > 0)
        memcpy(at, head, head_bytes);
    conn_frame_end(c, type, from, head_bytes, 0);
}

void conn_send_body(struct conn *c, uint8_t type, const void *head, uint32_t head_bytes, const void *body,
    uint32_t body_bytes)
{
    uint8_t *at = conn_frame_begin(c, head_bytes, body_bytes);
    if (at == NULL)
        return;
    memcpy(at, head, head_bytes);
    if (body_bytes > 0)
        memcpy(at + head_bytes, body, body_bytes);
    conn_frame_end(c, type, 0, head_bytes, body_bytes);
}

void conn_flush(struct conn *c)
{
    while (!c->closing && conn_out_bytes(c) > 0) {
        ssize_t n = send(c->fd, c->out + c->out_begin, conn_out_bytes(c), MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            break;
        if (n < 0) {
            conn_close(c, MOB_CLOSED);
            return;
        }
        c->out_begin += (size_t)n;
    }
    if (conn_out_bytes(c) == 0) {
        c->out_begin = c->out_end = 0;
        if (c->out_capacity > (1u << 20)) { /* do not keep what one large answer took */
            free(c->out);
            c->out = NULL;
            c->out_capacity = 0;
        }
    }
    want_write(c, conn_out_bytes(c) > 0);
}

void conn_touch(struct conn *c)
{
    if (c->touched)
        return;
    c->touched = true;
    c->next_touched = c->shard->touched;
    c->shard->touched = c;
}

void conns_flush(struct mob_shard *sh)
{
    struct conn *c = sh->touched, *next;
    sh->touched = NULL; /* one that is closed here may touch others */
    for (; c != NULL; c = next) {
        next = c->next_touched;
        c->touched = false;
        conn_flush(c);
        serve_owed(c);
        if (!c->closing && (conn_out_bytes(c) > 0 || c->durable_owed || c->run.reply.count > 0))
            conn_touch(c);
    }
}
