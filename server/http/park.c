#include "server/http/park.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "server/http/refusal.h"

#define SCAN_INTERVAL_NS (100 * MOB_MS)
#define TICK_INTERVAL_NS MOB_SEC
#define WATCH_AFTER_NS MOB_SEC
#define WATCH_EVENTS 256

struct mob_http_park_list {
    pthread_mutex_t lock;
    struct mob_http_request *head;
    struct mob_parker *parker;
};

struct mob_parker {
    pthread_t thread;
    int epoll_fd, wake_fd;
    struct mob_parker_options options;
    struct mob_http_park_list lists[MOB_PARK_LISTS_MAX];
    unsigned list_count;
    _Atomic size_t parked;
    _Atomic int connections;
    _Atomic int64_t next_wake_ns;
    _Atomic bool stopping, flushing;
    /* Which parked request has this socket in the watch. The lock orders look-up against removal. */
    pthread_mutex_t watch_lock;
    struct mob_http_request **by_fd;
    size_t by_fd_capacity;
};

static void kick(struct mob_parker *parker)
{
    uint64_t one = 1;
    ssize_t n = write(parker->wake_fd, &one, sizeof one);
    (void)n; /* a full counter wakes as well */
}

bool mob_park_enter(struct mob_http_park_list *list)
{
    /* Counted first: who flushes sees it, and waits for it, or it sees the flush. */
    atomic_fetch_add(&list->parker->parked, 1);
    if (!atomic_load(&list->parker->flushing))
        return true;
    atomic_fetch_sub(&list->parker->parked, 1);
    return false;
}

void mob_park_insert(struct mob_http_request *request)
{
    struct mob_http_park_list *list = request->park_list;
    struct mob_parker *parker = list->parker;
    request->parked_ns = mob_now();
    request->watched = false;
    pthread_mutex_lock(&list->lock);
    request->park_prev = NULL;
    request->park_next = list->head;
    if (list->head)
        list->head->park_prev = request;
    list->head = request;
    pthread_mutex_unlock(&list->lock);
    /* The thread may sleep for ever while nothing is parked, and must not sleep past this deadline. */
    if (request->park_deadline_ns < atomic_load(&parker->next_wake_ns))
        kick(parker);
}

void mob_park_remove(struct mob_http_request *request)
{
    struct mob_http_park_list *list = request->park_list;
    struct mob_parker *parker = list->parker;
    pthread_mutex_lock(&list->lock);
    if (request->park_prev)
        request->park_prev->park_next = request->park_next;
    else
        list->head = request->park_next;
    if (request->park_next)
        request->park_next->park_prev = request->park_prev;
    bool watched = request->watched;
    pthread_mutex_unlock(&list->lock);
    if (watched) {
        pthread_mutex_lock(&parker->watch_lock);
        parker->by_fd[request->fd] = NULL;
        epoll_ctl(parker->epoll_fd, EPOLL_CTL_DEL, request->fd, NULL);
        pthread_mutex_unlock(&parker->watch_lock);
    }
    atomic_fetch_sub(&parker->parked, 1);
}

/* Park thread, list lock held. */
static void watch(struct mob_parker *parker, struct mob_http_request *request)
{
    pthread_mutex_lock(&parker->watch_lock);
    size_t fd = (size_t)request->fd;
    if (fd >= parker->by_fd_capacity) {
        size_t capacity = parker->by_fd_capacity ? parker->by_fd_capacity : 1024;
        while (capacity <= fd)
            capacity *= 2;
        struct mob_http_request **grown =
            realloc(parker->by_fd, capacity * sizeof(struct mob_http_request *));
        if (!grown)
            goto out; /* not watched: the deadline ends it */
        memset(grown + parker->by_fd_capacity, 0,
            (capacity - parker->by_fd_capacity) * sizeof(struct mob_http_request *));
        parker->by_fd = grown;
        parker->by_fd_capacity = capacity;
    }
    struct epoll_event event = {.events = EPOLLRDHUP | EPOLLONESHOT, .data.fd = request->fd};
    if (epoll_ctl(parker->epoll_fd, EPOLL_CTL_ADD, request->fd, &event) == 0) {
        parker->by_fd[fd] = request;
        request->watched = true;
    }
out:
    pthread_mutex_unlock(&parker->watch_lock);
}

static void client_left(struct mob_parker *parker, int fd)
{
    pthread_mutex_lock(&parker->watch_lock);
    struct mob_http_request *request = (size_t)fd < parker->by_fd_capacity ? parker->by_fd[fd] : NULL;
    if (request)
        mob_http_hold(request);
    pthread_mutex_unlock(&parker->watch_lock);
    if (!request)
        return;
    int parked = MOB_HTTP_PARKED;
    if (atomic_compare_exchange_strong(&request->status, &parked, MOB_HTTP_GONE)) {
        void (*on_gone)(struct mob_http_request *) = request->on_gone;
        request->front->resume(request);
        if (on_gone)
            on_gone(request);
    }
    mob_http_release(request);
}

void mob_park_answer_closing(struct mob_http_request *request)
{
    char body[MOB_HTTP_REFUSAL_BYTES_MAX];
    size_t length = mob_http_refusal_body(
        (struct mob_http_refusal){503, "the gateway is shutting down; what was asked may still be done"},
        request->request_id, body);
    mob_http_reply_reset(request);
    mob_http_reply_header(request, "Retry-After", "1");
    mob_http_reply(request, 503, "application/problem+json", body, length);
    request->reply.close = true;
    mob_http_send(request);
}

static int64_t deadline_of(const struct mob_http_request *request, bool hurried)
{
    bool sooner = hurried && request->park_hurried_ns != 0;
    return sooner && request->park_hurried_ns < request->park_deadline_ns ? request->park_hurried_ns
                                                                          : request->park_deadline_ns;
}

/* Expired requests are claimed under the list's lock and answered after it, since answering may block on the
 * front. */
static int64_t scan(struct mob_parker *parker, struct mob_http_park_list *list, int64_t now, bool hurried)
{
    struct mob_http_request *expired[64];
    int64_t nearest = INT64_MAX;
    bool flushing = atomic_load(&parker->flushing);
    for (size_t n = 64; n == 64;) {
        n = 0;
        nearest = INT64_MAX;
        pthread_mutex_lock(&list->lock);
        for (struct mob_http_request *r = list->head; r; r = r->park_next) {
            if (atomic_load_explicit(&r->status, memory_order_relaxed) != MOB_HTTP_PARKED)
                continue;
            int64_t deadline_ns = deadline_of(r, hurried);
            if (deadline_ns > now && !flushing) {
                if (deadline_ns < nearest)
                    nearest = deadline_ns;
                if (!r->watched && now - r->parked_ns > WATCH_AFTER_NS)
                    watch(parker, r);
            } else if (n < 64 && mob_http_claim(r)) {
                mob_http_hold(r);
                expired[n++] = r;
            }
        }
        pthread_mutex_unlock(&list->lock);
        for (size_t i = 0; i < n; i++) {
            if (flushing)
                mob_park_answer_closing(expired[i]);
            else
                expired[i]->on_timeout(expired[i]);
            mob_http_release(expired[i]);
        }
    }
    return nearest;
}

static int64_t scan_all(struct mob_parker *parker, int64_t now)
{
    int64_t nearest = INT64_MAX;
    const struct mob_parker_options *o = &parker->options;
    bool hurried = o->hurries && o->hurries(o->hurries_cls);
    for (unsigned i = 0; i < parker->list_count; i++) {
        int64_t t = scan(parker, &parker->lists[i], now, hurried);
        nearest = t < nearest ? t : nearest;
    }
    return nearest;
}

static int sleep_ms(struct mob_parker *parker, int64_t now, int64_t nearest, int64_t next_tick)
{
    int64_t wake = INT64_MAX;
    if (atomic_load(&parker->parked) > 0)
        wake = nearest < now + SCAN_INTERVAL_NS ? nearest : now + SCAN_INTERVAL_NS;
    if (atomic_load(&parker->connections) > 0 && next_tick < wake)
        wake = next_tick;
    atomic_store(&parker->next_wake_ns, wake);
    if (wake == INT64_MAX)
        return -1;
    int64_t ms = (wake - now + MOB_MS - 1) / MOB_MS;
    return ms < 1 ? 1 : (int)ms;
}

static void *park_thread(void *argument)
{
    struct mob_parker *parker = argument;
    pthread_setname_np(pthread_self(), "park");
    int64_t next_tick = 0;
    struct epoll_event events[WATCH_EVENTS];
    while (!atomic_load(&parker->stopping)) {
        /* From here to the sleep, whoever parks must kick: the scan may have passed its list already. */
        atomic_store(&parker->next_wake_ns, INT64_MAX);
        int64_t now = mob_now();
        int64_t nearest = atomic_load(&parker->parked) > 0 ? scan_all(parker, now) : INT64_MAX;
        if (now >= next_tick) {
            parker->options.tick(parker->options.tick_cls, now);
            next_tick = now + TICK_INTERVAL_NS;
        }
        int n = epoll_wait(parker->epoll_fd, events, WATCH_EVENTS, sleep_ms(parker, now, nearest, next_tick));
        for (int i = 0; i < n; i++) {
            uint64_t drained;
            if (events[i].data.fd != parker->wake_fd)
                client_left(parker, events[i].data.fd);
            else if (read(parker->wake_fd, &drained, sizeof drained) < 0)
                continue;
        }
    }
    return NULL;
}

enum mob_status mob_parker_start(const struct mob_parker_options *options, struct mob_parker **parker_out)
{
    struct mob_parker *parker = calloc(1, sizeof *parker);
    if (!parker)
        return MOB_NO_MEMORY;
    parker->options = *options;
    pthread_mutex_init(&parker->watch_lock, NULL);
    atomic_store(&parker->next_wake_ns, INT64_MAX);
    parker->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (parker->epoll_fd < 0)
        goto err_epoll;
    parker->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (parker->wake_fd < 0)
        goto err_wake;
    struct epoll_event event = {.events = EPOLLIN, .data.fd = parker->wake_fd};
    if (epoll_ctl(parker->epoll_fd, EPOLL_CTL_ADD, parker->wake_fd, &event) < 0)
        goto err_thread;
    if (pthread_create(&parker->thread, NULL, park_thread, parker) != 0)
        goto err_thread;
    *parker_out = parker;
    return MOB_OK;
err_thread:
    close(parker->wake_fd);
err_wake:
    close(parker->epoll_fd);
err_epoll:
    pthread_mutex_destroy(&parker->watch_lock);
    free(parker);
    return MOB_IO;
}

struct mob_http_park_list *mob_parker_list(struct mob_parker *parker)
{
    if (parker->list_count == MOB_PARK_LISTS_MAX)
        return NULL;
    struct mob_http_park_list *list = &parker->lists[parker->list_count];
    pthread_mutex_init(&list->lock, NULL);
    list->parker = parker;
    parker->list_count++;
    return list;
}

void mob_parker_busy(struct mob_parker *parker, int connections_delta)
{
    if (atomic_fetch_add(&parker->connections, connections_delta) == 0)
        kick(parker);
}

void mob_parker_flush(struct mob_parker *parker)
{
    atomic_store(&parker->flushing, true);
    kick(parker);
}

size_t mob_parker_count(const struct mob_parker *parker)
{
    return atomic_load(&parker->parked);
}

void mob_parker_stop(struct mob_parker *parker)
{
    if (!parker)
        return;
    atomic_store(&parker->stopping, true);
    kick(parker);
    pthread_join(parker->thread, NULL);
    for (unsigned i = 0; i < parker->list_count; i++) {
        MOB_ASSERT(parker->lists[i].head == NULL);
        pthread_mutex_destroy(&parker->lists[i].lock);
    }
    close(parker->wake_fd);
    close(parker->epoll_fd);
    pthread_mutex_destroy(&parker->watch_lock);
    free(parker->by_fd);
    free(parker);
}
