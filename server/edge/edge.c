#include "server/edge/edge.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "server/edge/addresses.h"
#include "server/http/refusal.h"

#define EVENTS_MAX 128
#define ACCEPT_BATCH 64
/* Longest that accepting rests when descriptors have run out. */
#define EXHAUSTED_PAUSE_MS 50

enum guest_state { GUEST_SNIFFING, GUEST_LINGERING };

/* A connection that no front has yet. In one FIFO by deadline: each state has a constant time-out, and a
 * guest that starts to linger moves to the lingerers' FIFO. */
struct guest {
    int fd;
    enum guest_state state;
    struct sockaddr_storage address;
    socklen_t address_length;
    int64_t deadline_ns;
    struct guest *next, *prev;
};

struct fifo {
    struct guest *head, *tail;
};

struct mob_edge {
    struct mob_edge_options options;
    struct mob_edge_front front;
    int listen_fd, epoll_fd, stop_fd;
    uint16_t port;
    pthread_t thread;
    bool running;
    bool accept_paused;
    int64_t accept_again_ns; /* when it is tried again */
    struct mob_addresses addresses;
    _Atomic unsigned connections;
    _Atomic uint64_t accepted, refused;
    struct fifo sniffing, lingering;
};

static void fifo_push(struct fifo *fifo, struct guest *guest)
{
    guest->next = NULL;
    guest->prev = fifo->tail;
    if (fifo->tail)
        fifo->tail->next = guest;
    else
        fifo->head = guest;
    fifo->tail = guest;
}

static void fifo_remove(struct fifo *fifo, struct guest *guest)
{
    if (guest->prev)
        guest->prev->next = guest->next;
    else
        fifo->head = guest->next;
    if (guest->next)
        guest->next->prev = guest->prev;
    else
        fifo->tail = guest->prev;
}

static struct fifo *fifo_of(struct mob_edge *edge, const struct guest *guest)
{
    return guest->state == GUEST_SNIFFING ? &edge->sniffing : &edge->lingering;
}

void mob_edge_connection_closed(struct mob_edge *edge, const struct sockaddr *address)
{
    mob_addresses_leave(&edge->addresses, address);
    atomic_fetch_sub(&edge->connections, 1);
}

/* The guest leaves for good. */
static void guest_close(struct mob_edge *edge, struct guest *guest)
{
    fifo_remove(fifo_of(edge, guest), guest);
    close(guest->fd);
    mob_edge_connection_closed(edge, (struct sockaddr *)&guest->address);
    free(guest);
}

static void refuse(struct mob_edge *edge, struct guest *guest, int status, const char *why)
{
    atomic_fetch_add(&edge->refused, 1);
    mob_http_refusal_send(guest->fd, (struct mob_http_refusal){status, why});
    fifo_remove(&edge->sniffing, guest);
    guest->state = GUEST_LINGERING;
    guest->deadline_ns = mob_now() + MOB_EDGE_LINGER_MS * MOB_MS;
    fifo_push(&edge->lingering, guest);
    if (mob_http_drain(guest->fd))
        guest_close(edge, guest);
}

static void hand_over(struct mob_edge *edge, struct guest *guest)
{
    const struct sockaddr *address = (struct sockaddr *)&guest->address;
    fifo_remove(&edge->sniffing, guest);
    epoll_ctl(edge->epoll_fd, EPOLL_CTL_DEL, guest->fd, NULL);
    if (!edge->front.adopt(edge->front.cls, guest->fd, address, guest->address_length)) {
        mob_http_refusal_send(guest->fd, (struct mob_http_refusal){503, "too many connections"});
        close(guest->fd);
        mob_edge_connection_closed(edge, address);
    }
    free(guest);
}

static const char h2_preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/* `ended`: the client sends nothing more. False: it is a guest no more, or one that lingers. */
static bool sniff(struct mob_edge *edge, struct guest *guest, bool ended)
{
    char bytes[MOB_HTTP_HEAD_BYTES_MAX];
    ssize_t n = recv(guest->fd, bytes, sizeof bytes, MSG_PEEK | MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return true;
    if (n <= 0) {
        guest_close(edge, guest);
        return false;
    }
    if (bytes[0] == 0x16) { /* a TLS record; its front is not there yet */
        guest_close(edge, guest);
        return false;
    }
    size_t length = 0;
    struct mob_http_refusal refusal = {0};
    enum mob_status status = mob_http_head_check(bytes, (size_t)n, &length, &refusal);
    if (status == MOB_AGAIN && !ended)
        return true;
    if (status == MOB_AGAIN)
        refusal = (struct mob_http_refusal){400, "the request head ends in the middle"};
    if (status == MOB_OK) {
        hand_over(edge, guest);
        return false;
    }
    if ((size_t)n >= sizeof h2_preface - 1 && memcmp(bytes, h2_preface, sizeof h2_preface - 1) == 0)
        refusal = (struct mob_http_refusal){505, "HTTP/2 is not served here"};
    refuse(edge, guest, refusal.status, refusal.why);
    return false;
}

static void on_guest_event(struct mob_edge *edge, struct guest *guest, uint32_t events)
{
    if (guest->state == GUEST_SNIFFING)
        sniff(edge, guest, (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0);
    else if (mob_http_drain(guest->fd))
        guest_close(edge, guest);
}

/* A new connection over a cap: told so, then closed without a place in any list. */
static void turn_away(struct mob_edge *edge, int fd, const char *why)
{
    atomic_fetch_add(&edge->refused, 1);
    mob_http_refusal_send(fd, (struct mob_http_refusal){503, why});
    char sink[4096];
    ssize_t n = recv(fd, sink, sizeof sink, MSG_DONTWAIT);
    (void)n;
    close(fd);
}

static void admit(struct mob_edge *edge, int fd, const struct sockaddr_storage *address, socklen_t length)
{
    if (atomic_load(&edge->connections) >= edge->options.connections_max) {
        turn_away(edge, fd, "too many connections");
        return;
    }
    if (!mob_addresses_enter(&edge->addresses, (const struct sockaddr *)address)) {
        turn_away(edge, fd, "too many connections from this address");
        return;
    }
    atomic_fetch_add(&edge->connections, 1);
    struct guest *guest = calloc(1, sizeof *guest);
    if (!guest) {
        close(fd);
        mob_edge_connection_closed(edge, (const struct sockaddr *)address);
        return;
    }
    int one = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    guest->fd = fd;
    guest->address = *address;
    guest->address_length = length;
    guest->deadline_ns = mob_now() + edge->options.sniff_timeout_ms * MOB_MS;
    fifo_push(&edge->sniffing, guest);
    struct epoll_event event = {.events = EPOLLIN | EPOLLRDHUP | EPOLLET, .data.ptr = guest};
    if (epoll_ctl(edge->epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0)
        guest_close(edge, guest);
}

static void accept_some(struct mob_edge *edge)
{
    for (int i = 0; i < ACCEPT_BATCH; i++) {
        struct sockaddr_storage address = {0};
        socklen_t length = sizeof address;
        int fd = accept4(edge->listen_fd, (struct sockaddr *)&address, &length, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= 0) {
            atomic_fetch_add(&edge->accepted, 1);
            admit(edge, fd, &address, length);
            continue;
        }
        if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) {
            MOB_LOG_WARN("edge", "accept_paused", "errno=%d", errno);
            edge->accept_paused = true;
            edge->accept_again_ns = mob_now() + EXHAUSTED_PAUSE_MS * MOB_MS;
            epoll_ctl(edge->epoll_fd, EPOLL_CTL_DEL, edge->listen_fd, NULL);
        }
        if (errno != EINTR && errno != ECONNABORTED)
            return;
    }
}

static void listen_again(struct mob_edge *edge)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = edge};
    if (epoll_ctl(edge->epoll_fd, EPOLL_CTL_ADD, edge->listen_fd, &event) == 0)
        edge->accept_paused = false;
}

/* The first one whose time is over; NULL. */
static struct guest *overdue(const struct fifo *fifo, int64_t now)
{
    struct guest *first = fifo->head;
    MOB_ASSERT(!first || !first->prev);
    return first && first->deadline_ns <= now ? first : NULL;
}

/* A head that is all there has come in time, whenever this thread gets to look at it. */
static void expire(struct mob_edge *edge, int64_t now)
{
    struct guest *guest;
    while ((guest = overdue(&edge->sniffing, now)))
        if (sniff(edge, guest, false))
            refuse(edge, guest, 408, "no complete request head in time");
    while ((guest = overdue(&edge->lingering, now)))
        guest_close(edge, guest);
}

static int wait_ms(const struct mob_edge *edge, int64_t now)
{
    int64_t nearest = INT64_MAX;
    if (edge->sniffing.head)
        nearest = edge->sniffing.head->deadline_ns;
    if (edge->lingering.head && edge->lingering.head->deadline_ns < nearest)
        nearest = edge->lingering.head->deadline_ns;
    int ms = nearest == INT64_MAX ? -1 : nearest <= now ? 0 : (int)((nearest - now) / MOB_MS) + 1;
    if (edge->accept_paused && (ms < 0 || ms > EXHAUSTED_PAUSE_MS))
        ms = EXHAUSTED_PAUSE_MS;
    return ms;
}

/* Events of one round may name a guest that an earlier one of the round freed: not here, since each event
 * touches its own guest only, and expiry runs after the round. */
static void *edge_thread(void *argument)
{
    struct mob_edge *edge = argument;
    pthread_setname_np(pthread_self(), "edge");
    struct epoll_event events[EVENTS_MAX];
    for (;;) {
        int n = epoll_wait(edge->epoll_fd, events, EVENTS_MAX, wait_ms(edge, mob_now()));
        for (int i = 0; i < n; i++) {
            if (events[i].data.ptr == &edge->stop_fd)
                return NULL;
            if (events[i].data.ptr == edge)
                accept_some(edge);
            else
                on_guest_event(edge, events[i].data.ptr, events[i].events);
        }
        expire(edge, mob_now());
        if (edge->accept_paused && mob_now() >= edge->accept_again_ns)
            listen_again(edge);
    }
}

static enum mob_status bind_listen(struct mob_edge *edge)
{
    struct sockaddr_storage address = {0};
    struct sockaddr_in *v4 = (void *)&address;
    struct sockaddr_in6 *v6 = (void *)&address;
    socklen_t length;
    if (inet_pton(AF_INET, edge->options.host, &v4->sin_addr) == 1) {
        v4->sin_family = AF_INET;
        v4->sin_port = htons(edge->options.port);
        length = sizeof *v4;
    } else if (inet_pton(AF_INET6, edge->options.host, &v6->sin6_addr) == 1) {
        v6->sin6_family = AF_INET6;
        v6->sin6_port = htons(edge->options.port);
        length = sizeof *v6;
    } else {
        return MOB_INVALID;
    }
    edge->listen_fd = socket(address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (edge->listen_fd < 0)
        return MOB_IO;
    int one = 1;
    setsockopt(edge->listen_fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(edge->listen_fd, (struct sockaddr *)&address, length) < 0 || listen(edge->listen_fd, 4096) < 0 ||
        getsockname(edge->listen_fd, (struct sockaddr *)&address, &length) < 0) {
        MOB_LOG_ERROR("edge", "listen_failed", "host=%s port=%u errno=%d", edge->options.host,
            edge->options.port, errno);
        int why = errno;
        close(edge->listen_fd);
        errno = why;
        return MOB_IO;
    }
    edge->port = ntohs(address.ss_family == AF_INET ? v4->sin_port : v6->sin6_port);
    return MOB_OK;
}

enum mob_status mob_edge_open(
    const struct mob_edge_options *options, struct mob_edge_front front, struct mob_edge **edge_out)
{
    struct mob_edge *edge = calloc(1, sizeof *edge);
    if (!edge)
        return MOB_NO_MEMORY;
    edge->options = *options;
    edge->front = front;
    if (edge->options.sniff_timeout_ms == 0)
        edge->options.sniff_timeout_ms = MOB_EDGE_SNIFF_TIMEOUT_MS;
    enum mob_status status =
        mob_addresses_init(&edge->addresses, options->connections_max, options->per_address_max);
    if (status != MOB_OK)
        goto err_addresses;
    status = bind_listen(edge);
    if (status != MOB_OK)
        goto err_bind;
    status = MOB_IO;
    edge->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (edge->epoll_fd < 0)
        goto err_epoll;
    edge->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (edge->stop_fd < 0)
        goto err_stop;
    *edge_out = edge;
    return MOB_OK;
err_stop:
    close(edge->epoll_fd);
err_epoll:
    close(edge->listen_fd);
err_bind:
    mob_addresses_fini(&edge->addresses);
err_addresses:
    free(edge);
    return status;
}

enum mob_status mob_edge_start(struct mob_edge *edge)
{
    struct epoll_event stop = {.events = EPOLLIN, .data.ptr = &edge->stop_fd};
    if (epoll_ctl(edge->epoll_fd, EPOLL_CTL_ADD, edge->stop_fd, &stop) < 0)
        return MOB_IO;
    edge->accept_paused = true;
    listen_again(edge);
    if (pthread_create(&edge->thread, NULL, edge_thread, edge) != 0)
        return MOB_IO;
    edge->running = true;
    return MOB_OK;
}

uint16_t mob_edge_port(const struct mob_edge *edge)
{
    return edge->port;
}

unsigned mob_edge_connections(const struct mob_edge *edge)
{
    return atomic_load(&edge->connections);
}

uint64_t mob_edge_accepted_total(const struct mob_edge *edge)
{
    return atomic_load(&edge->accepted);
}

uint64_t mob_edge_refused_total(const struct mob_edge *edge)
{
    return atomic_load(&edge->refused);
}

void mob_edge_stop(struct mob_edge *edge)
{
    if (!edge->running)
        return;
    uint64_t one = 1;
    while (write(edge->stop_fd, &one, sizeof one) < 0 && errno == EINTR)
        continue;
    pthread_join(edge->thread, NULL);
    edge->running = false;
    close(edge->listen_fd);
    edge->listen_fd = -1;
    while (edge->sniffing.head)
        guest_close(edge, edge->sniffing.head);
    while (edge->lingering.head)
        guest_close(edge, edge->lingering.head);
}

void mob_edge_destroy(struct mob_edge *edge)
{
    if (!edge)
        return;
    mob_edge_stop(edge);
    if (edge->listen_fd >= 0)
        close(edge->listen_fd);
    close(edge->stop_fd);
    close(edge->epoll_fd);
    mob_addresses_fini(&edge->addresses);
    free(edge);
}
