#include "gcs/client/client.h"

#include <poll.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "gcs/client/client_internal.h"

#define STOPPED_NS (5 * MOB_SEC) /* its owner did not run for so long: what came meanwhile may be unread */
/* An answer takes about as long as waking whoever sleeps on another core (docs/performance.md), so who waits
 * for one yields so long before it sleeps. */
#define LOOK_NS (200 * MOB_US)
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
    status = watch_open(g);
    if (status != MOB_OK)
        goto err_free;
    for (size_t i = 0; i < 2; i++) {
        g->links[i].gcs = g;
        g->links[i].out.let_go = out_block_left;
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

void mob_gcs_close(struct mob_gcs *g)
{
    MOB_ASSERT(!g->in_step);
    g->closed = true;
    for (uint32_t i = 0; i < g->shard_count; i++)
        g->shards[i]->closed = true;
    for (uint32_t i = 0; i < g->shard_count; i++)
        mob_gcs_close(g->shards[i]);
    ops_close(g);
    reads_close(g);
}

void mob_gcs_destroy(struct mob_gcs *g)
{
    if (g == NULL)
        return;
    MOB_ASSERT(!g->in_step);
    late_calls_free(g);
    if (g->shard_count > 0) {
        shards_destroy(g);
        return;
    }
    if (g->up && g->stream.state == STREAM_ATTACHED && g->op_unanswered == 0) {
        /* Nothing is unknown: the member may forget this client now. */
        out_frame(g->head, MOB_GCS_BYE, g->client, g->position.epoch, NULL, 0, NULL, 0, NULL);
        out_flush(g->head);
        left_detach(g);
    } else {
        left_behind(g);
    }
    for (size_t i = 0; i < 2; i++)
        mob_out_drop(&g->links[i].out);
    for (uint32_t i = 0; i < g->log_count; i++)
        log_destroy(g->logs[i]);
    ops_destroy(g);
    reads_destroy(g);
    for (size_t i = 0; i < 2; i++)
        link_fini(&g->links[i]);
    watch_close(g);
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

/* Members that have nothing to do are watched seldom. The one that is asked now wakes the master's watch over
 * all of them; but it may be the dead one, so the other is told, too. */
static void hurry(struct mob_gcs *g)
{
    if (g->head == g->tail || (g->head->out.count == 0 && g->tail->out.count == 0))
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
            left_pump(g);
            hurry(g);
        }
        more = out_full(g->head) || out_full(g->tail);
        for (size_t i = 0; i < 2; i++)
            out_flush(&g->links[i]);
    } while (more && g->up && g->head->out.count == 0 && g->tail->out.count == 0);
}

static void release_durable(struct mob_gcs *g)
{
    ops_durable(g);
    for (uint32_t i = 0; i < g->log_count; i++)
        log_durable(g->logs[i]);
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

/* When there is something to do that no descriptor says. */
static int64_t next_ns(const struct mob_gcs *g)
{
    int64_t next = route_next_ns(g);
    if (g->up)
        next = earlier(earlier(next, stream_next_ns(g, &g->stream)), left_next_ns(g));
    for (uint32_t i = 0; i < g->log_count && g->up; i++)
        if (!g->logs[i]->sealed)
            next = earlier(next, stream_next_ns(g, &g->logs[i]->stream));
    if (g->up && g->head != g->tail && g->read_first != NULL)
        next = earlier(next, g->now_ns + CHAIN_READ_NS);
    if (g->up && g->now_ns < g->reads_ns)
        next = earlier(next, g->reads_ns);
    return next;
}

int64_t mob_gcs_send(struct mob_gcs *g)
{
    MOB_ASSERT(!g->in_step);
    if (g->shard_count > 0)
        return shards_send(g);
    g->in_step = true;
    pump(g);
    g->in_step = false;
    return next_ns(g);
}

/* Behind what came: to an owner that was stopped itself nobody has been silent yet. */
static void tick_silence(struct mob_gcs *g, int64_t last_step_ns)
{
    if (g->op_wait == NULL && g->read_first == NULL)
        g->silent_ns = 0;
    else if (g->heard || g->silent_ns == 0 || g->now_ns - last_step_ns > STOPPED_NS)
        g->silent_ns = g->now_ns;
    g->heard = false;
}

int64_t mob_gcs_silent_since(const struct mob_gcs *g)
{
    int64_t since = g->silent_ns;
    for (uint32_t i = 0; i < g->shard_count; i++) {
        int64_t one = g->shards[i]->silent_ns;
        if (one != 0 && (since == 0 || one < since))
            since = one;
    }
    return since;
}

int64_t mob_gcs_step(struct mob_gcs *g, int64_t now_ns)
{
    MOB_ASSERT(!g->in_step);
    if (g->shard_count > 0)
        return shards_step(g, now_ns);
    g->in_step = true;
    int64_t last_step_ns = g->now_ns;
    g->now_ns = now_ns;
    route_step(g);
    links_receive(g, now_ns - last_step_ns > AWAY_NS);
    tick_silence(g, last_step_ns);
    pump(g);
    release_durable(g);
    pump(g); /* what the callbacks submitted */
    g->in_step = false;
    subs_reap(g);
    return next_ns(g);
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
