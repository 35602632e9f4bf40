#include "gcs/client/client.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "gcs/client/client_internal.h"

#define IN_BYTES (256u << 10)
#define RECV_LOOPS 16
#define SOCKET_BUFFER_BYTES (4 << 20)
/* An answer takes about as long as waking whoever sleeps on another core (docs/performance.md), so who waits
 * for one yields so long before it sleeps. */
#define LOOK_NS (200 * MOB_US)
#define HEAD_PAUSE_NS MOB_MS
#define AWAY_NS \
    (50 * MOB_MS) /* nobody stepped for so long: the link may be gone behind what it had brought */

enum mob_status mob_gcs_create(const struct mob_gcs_options *options, struct mob_gcs **gcs_out)
{
    if (options->secret == NULL)
        return MOB_INVALID;
    if (strchr(options->socket_path, ';') != NULL)
        return shards_create(options, gcs_out);
    struct mob_gcs *g = calloc(1, sizeof *g);
    if (g == NULL)
        return MOB_NO_MEMORY;
    g->options = *options;
    g->options.socket_path = NULL; /* in `seeds` */
    g->options.secret = NULL; /* in `self` */
    g->self = (struct mob_link_self){.kind = MOB_LINK_OF_CLIENTS,
        .shard = options->shard,
        .protocol_min = MOB_GCS_PROTOCOL,
        .protocol_max = MOB_GCS_PROTOCOL,
        .cluster = options->cluster};
    memcpy(g->self.secret, options->secret, sizeof g->self.secret);
    if (g->options.keep_bytes_max == 0)
        g->options.keep_bytes_max = MOB_GCS_KEEP_BYTES_DEFAULT;
    enum mob_status status = route_init(g, options->socket_path);
    if (status != MOB_OK)
        goto err_free;
    status = MOB_IO;
    g->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (g->epoll_fd < 0)
        goto err_free;
    for (size_t i = 0; i < 2; i++) {
        g->links[i].gcs = g;
        g->links[i].fd = -1;
        g->links[i].retry_pause_ns = RETRY_PAUSE_NS;
    }
    g->next_request = 1;
    g->position.epoch = 1;
    g->told = MOB_UNAVAILABLE;
    *gcs_out = g;
    return MOB_OK;
err_free:
    free(g);
    return status;
}

static void link_fini(struct link *l)
{
    out_reset(l);
    if (l->fd >= 0)
        close(l->fd);
    free(l->in);
    free(l->text);
    free(l->pieces);
}

void mob_gcs_destroy(struct mob_gcs *g)
{
    if (g == NULL)
        return;
    MOB_ASSERT(!g->in_step);
    late_waits_free(g);
    if (g->shard_count > 0) {
        shards_destroy(g);
        return;
    }
    if (g->up && g->stream.state == STREAM_ATTACHED && g->op_unanswered == 0) {
        /* Nothing is unknown: the member may forget this client now. */
        out_frame(g->head, MOB_GCS_BYE, g->client, g->position.epoch, NULL, 0, NULL, 0, NULL);
        out_flush(g->head);
    }
    for (size_t i = 0; i < 2; i++)
        out_reset(&g->links[i]);
    for (uint32_t i = 0; i < g->log_count; i++)
        log_destroy(g->logs[i]);
    ops_destroy(g);
    reads_destroy(g);
    for (size_t i = 0; i < 2; i++)
        link_fini(&g->links[i]);
    close(g->epoll_fd);
    free(g);
}

int mob_gcs_fd(const struct mob_gcs *g)
{
    return g->epoll_fd;
}

bool mob_gcs_connected(const struct mob_gcs *g)
{
    return g->shard_count > 0 ? shards_connected(g) : g->up;
}

enum mob_status mob_gcs_refusal(const struct mob_gcs *g, const char **why_out)
{
    const struct mob_gcs *one = g;
    for (uint32_t i = 0; i < g->shard_count; i++)
        if (g->shards[i]->refused != MOB_OK)
            one = g->shards[i];
    if (why_out != NULL && one->refused != MOB_OK)
        *why_out = one->why;
    return one->refused;
}

void mob_gcs_position(const struct mob_gcs *g, struct mob_gcs_position *out)
{
    if (g->shard_count > 0)
        shards_position(g, out);
    else
        *out = g->position;
}

/* ---- links ---- */

static void tell(struct mob_gcs *g, enum mob_status status)
{
    if (g->told == status)
        return;
    g->told = status;
    if (g->options.on_link != NULL)
        g->options.on_link(g->options.arg, status);
}

void detach_all(struct mob_gcs *g, int64_t attach_ns)
{
    stream_detach(&g->stream, attach_ns);
    for (uint32_t i = 0; i < g->log_count; i++)
        stream_detach(&g->logs[i]->stream, attach_ns);
}

/* A chain's links are right when a configuration has led to them. */
static void look_whether_up(struct mob_gcs *g, enum mob_status why)
{
    bool both = g->head->state == LINK_UP && g->tail->state == LINK_UP;
    bool up = both && !(g->head->chain && g->seeks);
    if (up && !g->up)
        detach_all(g, g->now_ns);
    g->up = up;
    tell(g, up ? MOB_OK : why);
}

void link_fail(struct link *l, enum mob_status why)
{
    struct mob_gcs *g = l->gcs;
    if (l->state == LINK_DOWN)
        return;
    close(l->fd); /* leaves the epoll set by itself */
    l->fd = -1;
    l->state = LINK_DOWN;
    l->want_write = false;
    l->in_used = 0;
    out_reset(l);
    l->retry_ns = g->now_ns + l->retry_pause_ns;
    if (l != g->head && l != g->tail)
        return;
    detach_all(g, g->now_ns);
    if (l == g->tail) {
        reads_down(g);
        cold_down(g);
    }
    g->up = false;
    route_failed(l);
    tell(g, why);
}

static void say(struct link *l, const struct mob_opening_say *what)
{
    l->opened_ns = l->gcs->now_ns;
    if (what->type != 0)
        out_frame(l, what->type, 0, 0, what->head, what->head_bytes, NULL, 0, NULL);
}

void link_open(struct link *l, const char *path)
{
    struct mob_gcs *g = l->gcs;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (path != l->path)
        memcpy(l->path, path, strlen(path) + 1);
    memcpy(address.sun_path, path, strlen(path) + 1);
    l->retry_ns = g->now_ns + l->retry_pause_ns;
    l->retry_pause_ns =
        l->retry_pause_ns * 2 < RETRY_PAUSE_MAX_NS ? l->retry_pause_ns * 2 : RETRY_PAUSE_MAX_NS;
    if (l->in == NULL) {
        l->in_capacity = IN_BYTES;
        l->in = malloc(l->in_capacity);
        if (l->in == NULL)
            return;
    }
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return;
    int size = SOCKET_BUFFER_BYTES;
    setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
    struct epoll_event event = {.events = EPOLLIN};
    if (connect(fd, (struct sockaddr *)&address, sizeof address) != 0 ||
        epoll_ctl(g->epoll_fd, EPOLL_CTL_ADD, fd, &event) != 0) {
        close(fd);
        return;
    }
    l->fd = fd;
    l->state = LINK_OPENING;
    l->chain = false;
    struct mob_opening_say hello;
    mob_opening_dial(&l->opening, &g->self, &hello);
    say(l, &hello);
}

static void refused(struct link *l)
{
    struct mob_gcs *g = l->gcs;
    g->refused = l->opening.refused;
    memcpy(g->why, l->opening.why, sizeof g->why);
    MOB_LOG_ERROR("gcs_client", "refused", "socket=%s why=%s", l->path, mob_status_code(l->opening.refused));
    out_flush(l); /* the member is told why, if it was this end that refused */
    l->retry_pause_ns = RETRY_PAUSE_MAX_NS;
    link_fail(l, l->opening.refused);
}

static void on_opening(struct link *l, const struct mob_gcs_frame *frame)
{
    struct mob_opening_say answer;
    enum mob_status status = mob_opening_take(&l->opening, frame, &answer);
    if (status != MOB_OK) {
        link_fail(l, status);
        return;
    }
    say(l, &answer);
    if (l->opening.state == MOB_OPENING_REFUSED)
        refused(l);
}

static void take_position(struct mob_gcs *g, uint64_t committed, uint64_t durable)
{
    if (committed > g->position.committed)
        g->position.committed = committed;
    if (durable > g->position.durable)
        g->position.durable = durable;
}

static void on_welcome(struct link *l, const struct mob_gcs_frame *frame)
{
    struct mob_gcs *g = l->gcs;
    struct mob_gcs_welcome w;
    if (l->state != LINK_OPENING || mob_gcs_welcome_decode(frame->head, frame->head_bytes, &w) != MOB_OK) {
        link_fail(l, MOB_CORRUPT);
        return;
    }
    l->state = LINK_UP;
    g->refused = MOB_OK;
    l->retry_pause_ns = RETRY_PAUSE_NS;
    l->chain = (w.collecting & MOB_GCS_WELCOME_CHAIN) != 0;
    if (l->chain) { /* where it is in the chain comes behind this */
        take_position(g, w.committed, w.durable);
    } else {
        g->collecting = (w.collecting & MOB_GCS_WELCOME_COLLECTING) != 0;
        g->position.epoch = frame->epoch;
        g->position.committed = w.committed;
        g->position.durable = w.durable;
    }
    look_whether_up(g, g->told);
}

static void on_durable(struct mob_gcs *g, const struct mob_gcs_frame *frame)
{
    struct mob_gcs_durable d;
    if (mob_gcs_durable_decode(frame->head, frame->head_bytes, &d) != MOB_OK)
        return;
    take_position(g, d.committed, d.durable);
    g->position.memory_bytes = d.memory_bytes;
    g->position.memory_soft_bytes = d.soft_bytes;
    g->position.memory_hard_bytes = d.hard_bytes;
    g->position.pressure = d.memory_bytes > d.soft_bytes;
}

static void release_durable(struct mob_gcs *g)
{
    ops_durable(g);
    for (uint32_t i = 0; i < g->log_count; i++)
        log_durable(g->logs[i]);
}

static void on_reply(struct link *l, const struct mob_gcs_frame *frame)
{
    struct mob_gcs *g = l->gcs;
    struct mob_gcs_reply reply;
    if (mob_gcs_reply_decode(frame->head, frame->head_bytes, &reply) != MOB_OK || reply.count == 0) {
        link_fail(l, MOB_CORRUPT);
        return;
    }
    if (reply.durable > g->position.durable)
        g->position.durable = reply.durable;
    struct mob_gcs_log *log = frame->from == g->client ? NULL : log_find(g, frame->from);
    if (frame->from == g->client)
        ops_reply(g, &reply);
    else if (frame->from == g->nonce)
        ops_opened(g, &reply);
    else if (log != NULL)
        log_reply(log, &reply);
}

/* ATTACHED, GAP, EXPIRED: all say where the member is with one stream. */
static void on_stream(struct link *l, const struct mob_gcs_frame *frame)
{
    struct mob_gcs *g = l->gcs;
    struct mob_gcs_attached a;
    if (mob_gcs_attached_decode(frame->head, frame->head_bytes, &a) != MOB_OK) {
        link_fail(l, MOB_CORRUPT);
        return;
    }
    bool own = frame->from == g->client;
    struct mob_gcs_log *log = own ? NULL : log_find(g, frame->from);
    if (!own && log == NULL)
        return;
    struct stream *s = own ? &g->stream : &log->stream;
    if (frame->type == MOB_GCS_GAP) {
        if (s->state == STREAM_ATTACHED) /* else one GAP was heard already */
            stream_detach(s, g->now_ns);
    } else if (frame->type == MOB_GCS_EXPIRED) {
        if (own && (s->state == STREAM_ATTACHED || s->state == STREAM_ATTACHING))
            ops_expired(g);
        else if (!own)
            log_expired(log, (enum mob_status)a.status, a.last);
    } else if (own) {
        ops_attached(g, &a);
    } else {
        log_attached(log, &a);
    }
}

/* Another epoch: whoever is attached introduces itself again, and sends what is not answered. */
static void on_nack(struct link *l, const struct mob_gcs_frame *frame)
{
    struct mob_gcs *g = l->gcs;
    struct mob_gcs_nack nack;
    if (l->chain) {
        route_nack(l, frame);
        look_whether_up(g, g->told);
        return;
    }
    if (mob_gcs_nack_decode(frame->head, frame->head_bytes, &nack) != MOB_OK)
        return;
    g->collecting = false;
    if (nack.epoch == g->position.epoch)
        return; /* heard already, from another stream */
    g->position.epoch = nack.epoch;
    detach_all(g, g->now_ns);
}

static void on_frame(struct link *l, const struct mob_gcs_frame *frame)
{
    struct mob_gcs *g = l->gcs;
    if (l->opening.state != MOB_OPENING_PROVED) {
        on_opening(l, frame);
        return;
    }
    if (l->state == LINK_OPENING && frame->type != MOB_GCS_WELCOME) {
        link_fail(l, MOB_CORRUPT);
        return;
    }
    switch ((enum mob_gcs_frame_type)frame->type) {
    case MOB_GCS_WELCOME:
        on_welcome(l, frame);
        break;
    case MOB_GCS_REPLY:
        on_reply(l, frame);
        break;
    case MOB_GCS_DURABLE:
        on_durable(g, frame);
        break;
    case MOB_GCS_ATTACHED:
    case MOB_GCS_GAP:
    case MOB_GCS_EXPIRED:
        on_stream(l, frame);
        break;
    case MOB_GCS_NACK:
        on_nack(l, frame);
        break;
    case MOB_GCS_ROWS:
        reads_answer(g, frame);
        break;
    case MOB_GCS_BLOCK:
    case MOB_GCS_RESYNC:
        if (l == g->tail) /* else of one that was */
            subs_frame(g, frame);
        break;
    case MOB_GCS_COLD_GET:
        if (l == g->tail)
            cold_frame(g, frame);
        break;
    case MOB_GCS_LISTEN:
        if (l == g->tail)
            stream_heard(g, frame->from);
        break;
    case MOB_GCS_HURRY:
    case MOB_GCS_COLD:
    case MOB_GCS_COLD_ROWS:
    case MOB_GCS_ATTACH:
    case MOB_GCS_PUT:
    case MOB_GCS_RESENT:
    case MOB_GCS_GET:
    case MOB_GCS_SUB:
    case MOB_GCS_UNSUB:
    case MOB_GCS_BYE:
    case MOB_GCS_FRAME_TYPES:
    default:
        link_fail(l, MOB_CORRUPT);
        break;
    }
}

static void parse(struct link *l)
{
    size_t at = 0, need = 0;
    while (l->state != LINK_DOWN) {
        struct mob_gcs_frame frame;
        bool proved = l->opening.state == MOB_OPENING_PROVED;
        enum mob_status status = mob_gcs_frame_decode(l->in + at, l->in_used - at,
            proved ? MOB_GCS_FRAME_CLIENT_MAX : MOB_OPENING_BYTES_MAX, &frame, &need);
        if (status == MOB_AGAIN)
            break;
        if (status != MOB_OK) {
            link_fail(l, status);
            return;
        }
        at += need;
        on_frame(l, &frame);
    }
    if (l->state == LINK_DOWN)
        return;
    memmove(l->in, l->in + at, l->in_used - at);
    l->in_used -= at;
    if (need > l->in_capacity) {
        uint8_t *grown = realloc(l->in, need);
        if (grown == NULL) {
            link_fail(l, MOB_NO_MEMORY);
            return;
        }
        l->in = grown;
        l->in_capacity = need;
    }
}

/* Reads what is there; was there anything? `to_the_end`: also whether the link ended behind it, for one more
 * call; nothing may be sent into a link that is known to have ended, since what was sent counts as "perhaps
 * done". */
static bool receive(struct link *l, bool to_the_end)
{
    bool came = false;
    for (int i = 0; i < RECV_LOOPS && l->state != LINK_DOWN; i++) {
        size_t room = l->in_capacity - l->in_used;
        ssize_t n = recv(l->fd, l->in + l->in_used, room, 0);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return came;
        if (n <= 0) {
            link_fail(l, MOB_UNAVAILABLE);
            return true;
        }
        came = true;
        l->in_used += (size_t)n;
        parse(l);
        if ((size_t)n < room && !to_the_end)
            break;
    }
    return came;
}

/* The head of several speaks only of changes, so it is not asked each time that the tail has answered. */
static void receive_all(struct mob_gcs *g, bool to_the_end)
{
    struct link *quiet = g->up && g->head != g->tail ? g->head : NULL;
    bool came = false;
    for (size_t i = 0; i < 2; i++)
        if (&g->links[i] != quiet)
            came |= receive(&g->links[i], to_the_end);
    if (quiet == NULL || (came && !to_the_end && g->now_ns < g->head_heard_ns + HEAD_PAUSE_NS))
        return;
    g->head_heard_ns = g->now_ns;
    receive(quiet, to_the_end);
}

/* Members that have nothing to do are watched seldom. The one that is asked now wakes the master's watch over
 * all of them; but it may be the dead one, so the other is told, too. */
static void hurry(struct mob_gcs *g)
{
    if (g->head == g->tail || (g->head->piece_count == 0 && g->tail->piece_count == 0))
        return;
    int64_t now_ns = mob_now(); /* sending is not always within a step */
    if (now_ns - g->hurried_ns < HURRY_PAUSE_NS)
        return;
    g->hurried_ns = now_ns;
    for (size_t i = 0; i < 2; i++)
        out_frame(&g->links[i], MOB_GCS_HURRY, 0, g->position.epoch, NULL, 0, NULL, 0, NULL);
}

static void pump(struct mob_gcs *g)
{
    bool more;
    do {
        if (g->up) {
            ops_pump(g);
            for (uint32_t i = 0; i < g->log_count; i++)
                log_pump(g->logs[i]);
            reads_pump(g);
            subs_pump(g);
            cold_pump(g);
            hurry(g);
        }
        more = out_full(g->head) || out_full(g->tail);
        for (size_t i = 0; i < 2; i++)
            out_flush(&g->links[i]);
    } while (more && g->up && g->head->piece_count == 0 && g->tail->piece_count == 0);
}

void mob_gcs_send(struct mob_gcs *g)
{
    MOB_ASSERT(!g->in_step);
    if (g->shard_count > 0) {
        shards_send(g);
        return;
    }
    g->in_step = true;
    pump(g);
    g->in_step = false;
}

static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t stream_next_ns(const struct mob_gcs *g, const struct stream *s)
{
    if (s->state == STREAM_DETACHED)
        return s->attach_ns;
    return s->state == STREAM_ATTACHED || !g->head->chain ? MOB_FOREVER_NS
                                                          : s->since_ns + STREAM_PATIENCE_NS + MOB_MS;
}

int64_t mob_gcs_step(struct mob_gcs *g, int64_t now_ns)
{
    MOB_ASSERT(!g->in_step);
    if (g->shard_count > 0)
        return shards_step(g, now_ns);
    g->in_step = true;
    bool was_away = now_ns - g->now_ns > AWAY_NS;
    g->now_ns = now_ns;
    route_step(g);
    receive_all(g, was_away);
    pump(g);
    release_durable(g);
    pump(g); /* what the callbacks submitted */
    g->in_step = false;
    subs_reap(g);
    int64_t next = route_next_ns(g);
    if (g->up)
        next = earlier(next, stream_next_ns(g, &g->stream));
    for (uint32_t i = 0; i < g->log_count && g->up; i++)
        if (!g->logs[i]->sealed)
            next = earlier(next, stream_next_ns(g, &g->logs[i]->stream));
    if (g->up && g->head != g->tail && g->read_first != NULL)
        next = earlier(next, now_ns + CHAIN_READ_NS);
    if (g->up && now_ns < g->reads_ns)
        next = earlier(next, g->reads_ns);
    return next;
}

enum mob_status mob_gcs_run_until(struct mob_gcs *g, const bool *done, int64_t deadline_ns)
{
    int64_t look_until_ns = mob_now() + LOOK_NS;
    for (;;) {
        int64_t now = mob_now();
        int64_t next = mob_gcs_step(g, now);
        if (*done)
            return MOB_OK;
        if (now < look_until_ns) {
            if (!mob_yield_seldom_long(&g->yielder))
                look_until_ns = 0;
            continue;
        }
        now = mob_now();
        if (now >= deadline_ns)
            return MOB_TIMEOUT;
        int64_t left = earlier(earlier(next, deadline_ns) - now, MOB_SEC);
        left = left < 0 ? 0 : left;
        struct timespec pause = {left / MOB_SEC, left % MOB_SEC};
        struct pollfd p = {.fd = g->epoll_fd, .events = POLLIN};
        ppoll(&p, 1, &pause, NULL);
    }
}
