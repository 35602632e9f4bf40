/* The dialogue of a link: opening it, what comes over it, its end. */
#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/unix_socket.h"
#include "gcs/client/client_internal.h"

#define IN_BYTES (256u << 10)
#define RECV_LOOPS 16
#define SOCKET_BUFFER_BYTES (4 << 20)
#define HEAD_PAUSE_NS (5 * MOB_MS)

/* ---- up and down ---- */

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
    left_detach(g);
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
    mob_out_drop(&l->out);
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

void link_fini(struct link *l)
{
    mob_out_fini(&l->out);
    if (l->fd >= 0)
        close(l->fd);
    free(l->in);
}

/* ---- opening ---- */

static void say(struct link *l, const struct mob_opening_say *what)
{
    l->opened_ns = l->gcs->now_ns;
    if (what->type != 0)
        out_frame(l, what->type, 0, 0, what->head, what->head_bytes, NULL, 0, NULL);
}

void link_open(struct link *l, const char *path)
{
    struct mob_gcs *g = l->gcs;
    struct sockaddr_un address;
    if (mob_unix_address(path, &address) != MOB_OK)
        return; /* seeds that do not fit are refused, and so no link has one */
    if (path != l->path) {
        memcpy(l->path, path, strlen(path) + 1);
        l->said = (struct mob_gcs_durable){0};
    }
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
    l->fd = fd;
    if (connect(fd, (struct sockaddr *)&address, sizeof address) != 0 ||
        !out_watch(l, EPOLL_CTL_ADD, EPOLLIN)) {
        close(fd);
        l->fd = -1;
        return;
    }
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

/* ---- what members say ---- */

static bool presses(const struct mob_gcs_durable *d)
{
    return d->memory_bytes > d->soft_bytes;
}

static bool is_fuller(const struct mob_gcs_durable *a, const struct mob_gcs_durable *b)
{
    return presses(a) != presses(b) ? presses(a) : a->memory_bytes > b->memory_bytes;
}

/* A cap is passed when one member passes it, and head and tail each say what they know: the fuller one
 * counts, and not who has spoken last. */
void link_memory(struct mob_gcs *g)
{
    const struct mob_gcs_durable *head = &g->head->said, *tail = &g->tail->said,
                                 *d = is_fuller(head, tail) ? head : tail;
    if (d->soft_bytes == 0)
        return; /* nobody has spoken since: as it was */
    g->position.memory_bytes = d->memory_bytes;
    g->position.memory_soft_bytes = d->soft_bytes;
    g->position.memory_hard_bytes = d->hard_bytes;
    g->position.pressure = presses(d);
}

static void on_durable(struct link *l, const struct mob_gcs_frame *frame)
{
    struct mob_gcs *g = l->gcs;
    struct mob_gcs_durable d;
    if (mob_gcs_durable_decode(frame->head, frame->head_bytes, &d) != MOB_OK)
        return;
    take_position(g, d.committed, d.durable);
    l->said = d;
    link_memory(g);
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
    if (!own && log == NULL) {
        left_heard(g, frame);
        return;
    }
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
        on_durable(l, frame);
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

/* ---- reading ---- */

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
void links_receive(struct mob_gcs *g, bool to_the_end)
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
