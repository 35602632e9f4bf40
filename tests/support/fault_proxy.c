#include "tests/support/fault_proxy.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "tests/support/xorshift.h"

#define CONNECTIONS_MAX 128u
#define PIECE_BYTES 65536u
#define MILLION 1000000u

struct route {
    int listen_fd;
    char to[108]; /* a path, or a port of 127.0.0.1 */
    in_port_t port; /* of the network; 0: a path */
};
/* One direction: a piece is read when the one before has left. */
struct way {
    uint8_t bytes[2 * PIECE_BYTES]; /* twice, or with the one that was held back */
    uint32_t used, sent;
    uint8_t held[PIECE_BYTES]; /* comes behind the next piece */
    uint32_t held_bytes;
    int64_t held_until_ns, not_before_ns;
    uint32_t slice; /* bytes at once; 0: all */
};
struct connection {
    bool open, over_tcp;
    int fd[2]; /* who connected, who was connected to */
    pid_t pid[2];
    struct way way[2]; /* way[i]: from fd[i] to fd[1 - i] */
};
struct fault_proxy {
    pthread_t thread;
    pthread_mutex_t lock;
    int wake_fd;
    bool stop;
    uint64_t random;
    struct route routes[FAULT_ROUTES_MAX];
    uint32_t route_count;
    struct fault_rates rates;
    struct fault_counts counts[2]; /* of unix sockets, of TCP */
    pid_t muted[FAULT_MUTED_MAX], deaf[FAULT_MUTED_MAX];
    pid_t severed[2]; /* from each other; 0: none */
    struct connection connections[CONNECTIONS_MAX];
};

static bool happens(struct fault_proxy *p, uint32_t rate)
{
    return rate > 0 && xorshift(&p->random) % MILLION < rate;
}

/* ---- connections ---- */

static void connection_end(struct connection *c)
{
    close(c->fd[0]);
    close(c->fd[1]);
    c->open = false;
}

static struct sockaddr_in loopback(in_port_t port)
{
    return (struct sockaddr_in){
        .sin_family = AF_INET, .sin_port = port, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}

/* Of TCP it may be under way still: whoever refuses is heard of with the first piece. */
static int dial(const struct route *r)
{
    bool over_tcp = r->port != 0;
    struct sockaddr_un path = {.sun_family = AF_UNIX};
    struct sockaddr_in net = loopback(r->port);
    const struct sockaddr *address = over_tcp ? (struct sockaddr *)&net : (struct sockaddr *)&path;
    int fd = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    memcpy(path.sun_path, r->to, sizeof path.sun_path);
    if (fd >= 0 && connect(fd, address, over_tcp ? sizeof net : sizeof path) != 0 && errno != EINPROGRESS) {
        close(fd);
        return -1;
    }
    return fd;
}

static pid_t pid_of(int fd)
{
    struct ucred peer = {0};
    socklen_t length = sizeof peer;
    getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length);
    return peer.pid;
}

static void accept_one(struct fault_proxy *p, struct route *r)
{
    uint32_t i = 0;
    while (i < CONNECTIONS_MAX && p->connections[i].open)
        i++;
    int from = accept4(r->listen_fd, NULL, NULL, SOCK_CLOEXEC);
    if (from < 0)
        return;
    int to = i == CONNECTIONS_MAX ? -1 : dial(r);
    if (to < 0) {
        close(from);
        return;
    }
    struct connection *c = &p->connections[i];
    c->open = true;
    c->over_tcp = r->port != 0;
    c->fd[0] = from;
    c->fd[1] = to;
    for (int side = 0; side < 2; side++) {
        int one = 1;
        fcntl(c->fd[side], F_SETFL, O_NONBLOCK);
        setsockopt(c->fd[side], IPPROTO_TCP, TCP_NODELAY, &one, sizeof one); /* refused by unix sockets */
        c->pid[side] = pid_of(c->fd[side]);
        struct way *w = &c->way[side];
        w->used = w->sent = w->held_bytes = w->slice = 0;
        w->not_before_ns = 0;
    }
    p->counts[c->over_tcp].connections++;
}

static bool is_in(const pid_t *pids, pid_t pid)
{
    for (uint32_t i = 0; i < FAULT_MUTED_MAX; i++)
        if (pid != 0 && pids[i] == pid)
            return true;
    return false;
}

static bool cut(const struct fault_proxy *p, const struct connection *c, int from)
{
    pid_t a = c->pid[from], b = c->pid[1 - from];
    bool severed = p->severed[0] != 0 &&
        ((a == p->severed[0] && b == p->severed[1]) || (a == p->severed[1] && b == p->severed[0]));
    return severed || is_in(p->muted, a) || is_in(p->deaf, b);
}

/* ---- pieces ---- */

static void add(struct way *w, const uint8_t *bytes, uint32_t length)
{
    MOB_ASSERT(w->used + length <= sizeof w->bytes);
    memcpy(w->bytes + w->used, bytes, length);
    w->used += length;
}

/* What becomes of a piece. False: the connection's end. */
static bool spoil(struct fault_proxy *p, struct connection *c, struct way *w, uint8_t *piece, uint32_t length)
{
    const struct fault_rates *f = &p->rates;
    struct fault_counts *counts = &p->counts[c->over_tcp];
    counts->pieces++;
    if (happens(p, f->reset)) {
        counts->resets++;
        return false;
    }
    if (happens(p, f->corrupt)) {
        counts->corrupts++;
        piece[xorshift(&p->random) % length] ^= (uint8_t)(1 + xorshift(&p->random) % 255);
    }
    if (happens(p, f->reorder) && w->held_bytes == 0) {
        counts->reorders++;
        memcpy(w->held, piece, length);
        w->held_bytes = length;
        w->held_until_ns = mob_now() + 2 * MOB_MS; /* nothing may follow */
        return true;
    }
    add(w, piece, length);
    if (w->held_bytes > 0) {
        add(w, w->held, w->held_bytes);
        w->held_bytes = 0;
    } else if (happens(p, f->twice)) {
        counts->twices++;
        add(w, piece, length);
    }
    if (happens(p, f->delay)) {
        counts->delays++;
        w->not_before_ns = mob_now() + (int64_t)(xorshift(&p->random) % (f->delay_us_max + 1)) * 1000;
    }
    w->slice = happens(p, f->slice) ? 1 + (uint32_t)(xorshift(&p->random) % 64) : 0;
    counts->slices += w->slice > 0;
    return true;
}

/* False: the connection is over. */
static bool take(struct fault_proxy *p, struct connection *c, int from)
{
    uint8_t piece[PIECE_BYTES];
    ssize_t n = recv(c->fd[from], piece, sizeof piece, 0);
    if (n < 0)
        return errno == EAGAIN || errno == EINTR;
    return n > 0 && spoil(p, c, &c->way[from], piece, (uint32_t)n);
}

static bool give(struct connection *c, int from)
{
    struct way *w = &c->way[from];
    uint32_t left = w->used - w->sent, length = w->slice > 0 && w->slice < left ? w->slice : left;
    ssize_t n = send(c->fd[1 - from], w->bytes + w->sent, length, MSG_NOSIGNAL);
    if (n < 0)
        return errno == EAGAIN || errno == EINTR;
    w->sent += (uint32_t)n;
    if (w->sent == w->used)
        w->used = w->sent = 0;
    return true;
}

/* ---- the thread ---- */

struct watched {
    struct connection *connection;
    struct route *route;
    int from;
    bool gives;
};
struct watch_list {
    struct pollfd fds[1 + FAULT_ROUTES_MAX + 2 * CONNECTIONS_MAX];
    struct watched of[1 + FAULT_ROUTES_MAX + 2 * CONNECTIONS_MAX];
    nfds_t count;
    int64_t next_ns;
};

static void watch(struct watch_list *l, int fd, short events, struct watched of)
{
    l->fds[l->count] = (struct pollfd){.fd = fd, .events = events};
    l->of[l->count++] = of;
}

static void watch_way(struct fault_proxy *p, struct watch_list *l, struct connection *c, int from)
{
    struct way *w = &c->way[from];
    int64_t now = mob_now();
    if (cut(p, c, from))
        return;
    if (w->used == 0 && w->held_bytes > 0 && now >= w->held_until_ns) {
        add(w, w->held, w->held_bytes);
        w->held_bytes = 0;
    }
    if (w->used == 0) {
        watch(l, c->fd[from], POLLIN, (struct watched){.connection = c, .from = from});
        if (w->held_bytes > 0 && w->held_until_ns < l->next_ns)
            l->next_ns = w->held_until_ns;
    } else if (now >= w->not_before_ns) {
        watch(l, c->fd[1 - from], POLLOUT, (struct watched){.connection = c, .from = from, .gives = true});
    } else if (w->not_before_ns < l->next_ns) {
        l->next_ns = w->not_before_ns;
    }
}

static void gather(struct fault_proxy *p, struct watch_list *l)
{
    l->count = 0;
    l->next_ns = mob_now() + MOB_SEC;
    watch(l, p->wake_fd, POLLIN, (struct watched){0});
    for (uint32_t i = 0; i < p->route_count; i++)
        watch(l, p->routes[i].listen_fd, POLLIN, (struct watched){.route = &p->routes[i]});
    for (uint32_t i = 0; i < CONNECTIONS_MAX; i++)
        for (int from = 0; from < 2 && p->connections[i].open; from++)
            watch_way(p, l, &p->connections[i], from);
}

static void serve(struct fault_proxy *p, const struct watched *of)
{
    if (of->route != NULL) {
        accept_one(p, of->route);
        return;
    }
    struct connection *c = of->connection;
    if (c == NULL || !c->open || cut(p, c, of->from))
        return;
    if (!(of->gives ? give(c, of->from) : take(p, c, of->from)))
        connection_end(c);
}

static void *run(void *arg)
{
    struct fault_proxy *p = arg;
    static _Thread_local struct watch_list list;
    for (;;) {
        pthread_mutex_lock(&p->lock);
        bool stop = p->stop;
        gather(p, &list);
        pthread_mutex_unlock(&p->lock);
        if (stop)
            return NULL;
        int64_t left = list.next_ns - mob_now();
        struct timespec pause = {left > 0 ? left / MOB_SEC : 0, left > 0 ? left % MOB_SEC : 0};
        if (ppoll(list.fds, list.count, &pause, NULL) <= 0)
            continue;
        uint64_t count;
        if (list.fds[0].revents != 0 && read(p->wake_fd, &count, sizeof count) < 0)
            continue;
        pthread_mutex_lock(&p->lock);
        for (nfds_t i = 1; i < list.count; i++)
            if (list.fds[i].revents != 0)
                serve(p, &list.of[i]);
        pthread_mutex_unlock(&p->lock);
    }
}

/* ---- the other thread's ---- */

static void wake(struct fault_proxy *p)
{
    uint64_t one = 1;
    MOB_ASSERT(write(p->wake_fd, &one, sizeof one) == sizeof one);
}

struct fault_proxy *fault_proxy_create(uint64_t seed)
{
    struct fault_proxy *p = calloc(1, sizeof *p);
    MOB_ASSERT(p != NULL);
    p->random = seed * 2 + 1;
    p->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    pthread_mutex_init(&p->lock, NULL);
    MOB_ASSERT(p->wake_fd >= 0 && pthread_create(&p->thread, NULL, run, p) == 0);
    return p;
}

void fault_proxy_realtime(struct fault_proxy *p)
{
    struct sched_param priority = {.sched_priority = 10};
    if (pthread_setschedparam(p->thread, SCHED_FIFO, &priority) != 0)
        MOB_LOG_WARN("test", "proxy_without_priority", "pid=%d", getpid());
}

void fault_proxy_destroy(struct fault_proxy *p)
{
    if (p == NULL)
        return;
    pthread_mutex_lock(&p->lock);
    p->stop = true;
    pthread_mutex_unlock(&p->lock);
    wake(p);
    pthread_join(p->thread, NULL);
    for (uint32_t i = 0; i < CONNECTIONS_MAX; i++)
        if (p->connections[i].open)
            connection_end(&p->connections[i]);
    for (uint32_t i = 0; i < p->route_count; i++)
        close(p->routes[i].listen_fd);
    close(p->wake_fd);
    pthread_mutex_destroy(&p->lock);
    free(p);
}

static void add_route(struct fault_proxy *p, const struct route *route)
{
    pthread_mutex_lock(&p->lock);
    MOB_ASSERT(p->route_count < FAULT_ROUTES_MAX);
    p->routes[p->route_count++] = *route;
    pthread_mutex_unlock(&p->lock);
    wake(p);
}

void fault_proxy_route(struct fault_proxy *p, const char *from, const char *to)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    snprintf(address.sun_path, sizeof address.sun_path, "%s", from);
    unlink(from);
    MOB_ASSERT(fd >= 0 && bind(fd, (struct sockaddr *)&address, sizeof address) == 0 && listen(fd, 64) == 0);
    struct route route = {.listen_fd = fd};
    snprintf(route.to, sizeof route.to, "%s", to);
    add_route(p, &route);
}

void fault_proxy_route_net(struct fault_proxy *p, const char *to, char from_out[FAULT_ADDRESS_MAX])
{
    uint16_t port;
    struct sockaddr_in address = loopback(0);
    socklen_t length = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    MOB_ASSERT(sscanf(to, "127.0.0.1:%hu", &port) == 1 && port != 0);
    MOB_ASSERT(fd >= 0 && bind(fd, (struct sockaddr *)&address, sizeof address) == 0 && listen(fd, 64) == 0);
    MOB_ASSERT(getsockname(fd, (struct sockaddr *)&address, &length) == 0);
    snprintf(from_out, FAULT_ADDRESS_MAX, "127.0.0.1:%u", ntohs(address.sin_port));
    struct route route = {.listen_fd = fd, .port = htons(port)};
    snprintf(route.to, sizeof route.to, "%s", to);
    add_route(p, &route);
}

void fault_proxy_set(struct fault_proxy *p, const struct fault_rates *rates)
{
    pthread_mutex_lock(&p->lock);
    p->rates = *rates;
    pthread_mutex_unlock(&p->lock);
}

static void add_pid(struct fault_proxy *p, pid_t *pids, pid_t pid)
{
    pthread_mutex_lock(&p->lock);
    uint32_t i = 0;
    while (i < FAULT_MUTED_MAX && pids[i] != 0)
        i++;
    MOB_ASSERT(i < FAULT_MUTED_MAX);
    pids[i] = pid;
    pthread_mutex_unlock(&p->lock);
    wake(p);
}

void fault_proxy_mute(struct fault_proxy *p, pid_t pid)
{
    add_pid(p, p->muted, pid);
}
void fault_proxy_deafen(struct fault_proxy *p, pid_t pid)
{
    add_pid(p, p->deaf, pid);
}

void fault_proxy_sever(struct fault_proxy *p, pid_t one, pid_t other)
{
    pthread_mutex_lock(&p->lock);
    p->severed[0] = one;
    p->severed[1] = other;
    pthread_mutex_unlock(&p->lock);
    wake(p);
}

void fault_proxy_heal(struct fault_proxy *p)
{
    pthread_mutex_lock(&p->lock);
    memset(p->muted, 0, sizeof p->muted);
    memset(p->deaf, 0, sizeof p->deaf);
    memset(p->severed, 0, sizeof p->severed);
    pthread_mutex_unlock(&p->lock);
    wake(p);
}

void fault_proxy_counts(struct fault_proxy *p, bool over_tcp, struct fault_counts *out)
{
    pthread_mutex_lock(&p->lock);
    *out = p->counts[over_tcp];
    pthread_mutex_unlock(&p->lock);
}
