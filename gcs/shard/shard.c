#include "gcs/shard/shard.h"

#include <errno.h>
#include <limits.h>
#include <malloc.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "common/base/failpoint.h"
#include "gcs/shard/ahead.h"
#include "gcs/shard/shard_internal.h"

#define EVENTS_MAX 64
#define RECEIVED_TOGETHER 16
#define CONN_ENDS (EPOLLRDHUP | EPOLLHUP | EPOLLERR)
#define FIRST_CONNECT_NS (60 * MOB_SEC) /* Redis may be loading a large file */
#define STOP_NS (10 * MOB_SEC)

/* What JOB_DROP resolves to: the oldest blocks of the job first, so that a client that stops half-way leaves
 * its newest. */
static size_t drop_blocks(
    void *arg, const struct mob_gcs_request *r, uint64_t *seqs_out, size_t max, bool *more_out)
{
    struct mob_shard *sh = arg;
    /* Blocks that came back in the start in which this drop did were applied, and not served yet. */
    serve_index_applied(sh);
    size_t open_count = 0, found = 0, open_at = 0;
    uint32_t *open = r->finished_only ? mob_index_unfinished(sh->index, 0, &open_count) : NULL;
    *more_out = false;
    for (uint32_t at = 0; at < mob_index_end(sh->index); at++) {
        const struct mob_index_slot *slot = mob_index_slot(sh->index, at);
        if (slot == NULL)
            continue;
        struct mob_job_id job = mob_index_job(sh->index, slot);
        if (!mob_stream_eq(job.root, r->job.root))
            continue;
        while (open_at < open_count && open[open_at] < at)
            open_at++;
        bool unfinished = open_at < open_count && open[open_at] == at;
        if (r->finished_only && (unfinished || slot->time_max_ns >= r->before_wall_ns))
            continue;
        if (found == max) {
            *more_out = true;
            break;
        }
        seqs_out[found++] = slot->seq;
    }
    free(open);
    return found;
}

static void on_state(void *arg, enum mob_chain_state from, enum mob_chain_state to)
{
    struct mob_shard *sh = arg;
    sh->state_ns = mob_now();
    if (shard_has_masters(sh))
        member_on_state(sh, from, to);
}

enum mob_status shard_tables_create(struct mob_shard *sh)
{
    struct mob_chain_options chain = {.self = sh->member.self.id,
        .drop = drop_blocks,
        .drop_arg = sh,
        .on_state = on_state,
        .state_arg = sh,
        .lease_ns = shard_has_masters(sh) ? sh->options.chain->lease_ns : 0,
        .join_rest_ns = MOB_CHAIN_JOIN_REST_NS,
        .join_pace_ns = MOB_CHAIN_JOIN_PACE_NS,
        .kept_bytes_max = sh->options.hold_bytes,
        .commit_on_disk = sh->options.durability == MOB_GCS_ALWAYS};
    sh->state_ns = mob_now();
    sh->state = mob_state_create();
    chain.state = sh->state;
    sh->chain = sh->state == NULL ? NULL : mob_chain_create(&chain);
    sh->index = mob_index_create();
    return sh->chain == NULL || sh->index == NULL ? MOB_NO_MEMORY : MOB_OK;
}

static void tables_destroy(struct mob_shard *sh)
{
    mob_chain_destroy(sh->chain);
    mob_state_destroy(sh->state);
    mob_index_destroy(sh->index);
    sh->chain = NULL;
    sh->state = NULL;
    sh->index = NULL;
    sh->attached_count = 0;
    sh->flushed = (struct mob_flushed){0};
}

static enum mob_status first_connect(struct mob_shard *sh)
{
    int64_t deadline = mob_now() + FIRST_CONNECT_NS;
    for (;;) {
        enum mob_status status = store_connect(sh, true);
        if (status != MOB_UNAVAILABLE || mob_now() > deadline)
            return status;
        tables_destroy(sh); /* Redis may have died half-way through loading */
        struct pollfd stop = {
            .fd = sh->options.stop_fd == NULL ? -1 : *sh->options.stop_fd, .events = POLLIN};
        if (poll(&stop, 1, 5) > 0)
            return MOB_CANCELLED;
    }
}

static enum mob_status open_callers(struct mob_shard *sh)
{
    char path[PATH_MAX];
    if (shard_has_masters(sh))
        return MOB_OK;
    int length = snprintf(path, sizeof path, "%s" MOB_CALLERS_SUFFIX, sh->options.socket_path);
    if (length < 0 || (size_t)length >= sizeof path)
        return MOB_TOO_LARGE;
    return mob_callers_open(path, sh->clean_before, sh->life, &sh->callers);
}

static enum mob_status start(struct mob_shard *sh)
{
    sh->now_ns = mob_now();
    sh->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (sh->epoll_fd < 0)
        return MOB_IO;
    enum mob_status status = durable_open(sh);
    if (status == MOB_OK)
        status = noted_open(sh);
    if (status == MOB_OK)
        status = first_connect(sh);
    if (status == MOB_OK)
        status = open_callers(sh);
    if (status != MOB_OK)
        return status;
    if (mob_chain_collecting(sh->chain))
        attach_collect_begin(sh);
    else if (sh->callers != NULL) /* nothing is missing, and all that was loaded is on the disk */
        mob_callers_vouch(sh->callers);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = &sh->durable};
    if (epoll_ctl(sh->epoll_fd, EPOLL_CTL_ADD, mob_aof_sync_fd(sh->durable.sync), &event) != 0)
        return MOB_IO;
    event.data.ptr = &sh->stopping;
    if (sh->options.stop_fd != NULL &&
        epoll_ctl(sh->epoll_fd, EPOLL_CTL_ADD, *sh->options.stop_fd, &event) != 0)
        return MOB_IO;
    status = member_open(sh);
    if (status == MOB_OK)
        status = shard_listen(sh);
    if (status == MOB_OK && CPU_COUNT(&sh->options.cpus) > 0 &&
        sched_setaffinity(0, sizeof sh->options.cpus, &sh->options.cpus) != 0)
        MOB_LOG_WARN("gcs", "cpus_refused", "errno=%d", errno);
    return status;
}

static void dispatch(struct mob_shard *sh, const struct epoll_event *event)
{
    if (event->data.ptr == sh) {
        shard_accept(sh);
    } else if (event->data.ptr == &sh->store) {
        store_io(sh, true);
    } else if (event->data.ptr == &sh->durable) {
        durable_result(sh);
    } else if (event->data.ptr == &sh->member.beat) {
        member_wake(sh);
    } else if (event->data.ptr == &sh->member.listener) {
        peers_accept(sh);
    } else if (peers_owns(sh, event->data.ptr)) {
        peers_event(sh, event->data.ptr, event->events);
    } else if (event->data.ptr == &sh->stopping) {
        sh->stopping = true;
    } else {
        struct conn *c = event->data.ptr;
        c->ends |= (event->events & CONN_ENDS) != 0;
        if ((event->events & (EPOLLIN | CONN_ENDS)) && !c->closing && !c->stalled)
            conn_readable(c);
        else if ((event->events & (EPOLLHUP | EPOLLERR)) && !c->closing)
            conn_close(c, MOB_CLOSED);
    }
}

uint64_t shard_own_bytes(const struct mob_shard *sh)
{
    struct mallinfo2 heap = mallinfo2();
    return heap.uordblks + heap.hblkhd + sh->chunks.live_bytes + sh->chunks.free_count * MOB_CHUNK_BYTES;
}

void shard_measure(struct mob_shard *sh)
{
    sh->own_bytes = sh->store.used_memory + shard_own_bytes(sh);
    mob_chain_on_memory(sh->chain, sh->own_bytes, true);
    serve_memory(sh);
}

/* The sockets are watched for edges: who could not be taken then is taken when it can be. */
static void accept_left(struct mob_shard *sh)
{
    if (sh->listener.fd > 0)
        shard_accept(sh);
    if (sh->member.listener.fd > 0)
        peers_accept(sh);
}

static void each_second(struct mob_shard *sh)
{
    if (sh->now_ns < sh->second_ns)
        return;
    sh->second_ns = sh->now_ns + (sh->pressure ? PRESSURE_PAUSE_NS : MOB_SEC);
    query_cold_tick(sh);
    noted_tick(sh);
    conns_tick(sh);
    accept_left(sh);
    mob_chunk_pool_trim(&sh->chunks);
}

/* All that is no client has its place in the shard itself. */
static bool is_client(const struct mob_shard *sh, const struct epoll_event *event)
{
    const uint8_t *at = event->data.ptr, *own = (const uint8_t *)sh;
    return at < own || at >= own + sizeof *sh;
}

/* What clients have sent is read from all of them before the first is served. */
static void receive(struct mob_shard *sh, const struct epoll_event *events, int count)
{
    struct ahead ahead = {.count = 0};
    for (int i = 0; i < count; i++) {
        struct conn *c = is_client(sh, &events[i]) ? events[i].data.ptr : NULL;
        if (c == NULL || (events[i].events & EPOLLIN) == 0)
            continue;
        c->ends |= (events[i].events & CONN_ENDS) != 0;
        conn_receive(c);
        if (c->in != NULL)
            (void)ahead_look(&ahead, c->in->bytes + c->parsed, c->in->used - c->parsed);
    }
    ahead_ask(&ahead, sh->state);
}

/* One line a phase. Reads come first, so that what they bring shares one write to Redis; Redis is asked
 * before its answers are read again, to keep it busy; answers to clients leave last, one send each. */
static void pass(struct mob_shard *sh, struct epoll_event *events, int count)
{
    sh->now_ns = mob_now();
    for (int i = 0; i < count; i++) {
        if (i % RECEIVED_TOGETHER == 0)
            receive(sh, events + i, count - i < RECEIVED_TOGETHER ? count - i : RECEIVED_TOGETHER);
        dispatch(sh, &events[i]);
    }
    if (store_answers_wait(sh))
        store_io(sh, true);
    attach_tick(sh);
    member_tick(sh);
    store_tick(sh);
    peers_flush(sh, false); /* the next member works while this one's Redis does */
    if (mob_chain_is_head(sh->chain) && mob_chain_applied(sh->chain) > mob_chain_committed(sh->chain))
        (void)MOB_FAILPOINT("gcs.head_forwarded");
    store_flush(sh);
    store_io(sh, false);
    durable_step(sh);
    each_second(sh);
    serve_committed(sh);
    conns_resume(sh);
    store_flush(sh);
    store_io(sh, false);
    serve_committed(sh);
    subscribe_feed(sh);
    store_io(sh, false); /* what subscribers and repeated reads asked for */
    conns_flush(sh);
    if (query_cold_step(sh))
        conns_flush(sh);
    peers_flush(sh, true); /* acknowledgements: a client waits for its answer, the others for nothing */
    conns_reap(sh);
    member_publish(sh);
}

/* Everything answered, synced, and marked so: the next start need not ask anybody. */
static void stop(struct mob_shard *sh)
{
    int64_t deadline = mob_now() + STOP_NS;
    struct epoll_event events[EVENTS_MAX];
    mob_listener_fini(&sh->listener);
    if (sh->options.stop_fd != NULL) /* it stays readable */
        epoll_ctl(sh->epoll_fd, EPOLL_CTL_DEL, *sh->options.stop_fd, NULL);
    bool marked = false;
    while (sh->failure == MOB_OK && mob_now() < deadline && sh->store.link != NULL &&
        !mob_chain_collecting(sh->chain)) {
        pass(sh, events, 0);
        bool quiet = store_idle(sh) && !sh->durable.busy && sh->durable.synced >= sh->store.stored;
        if (quiet && marked)
            break;
        if (quiet) {
            sh->store.meta.clean = 1;
            store_meta(sh);
            marked = true;
            store_flush(sh);
        }
        int n = epoll_wait(sh->epoll_fd, events, EVENTS_MAX, 5);
        for (int i = 0; i < n; i++)
            if (events[i].data.ptr == &sh->durable)
                durable_result(sh);
            else if (events[i].data.ptr == &sh->store)
                store_io(sh, true);
    }
    if (marked)
        noted_at_stop(sh);
    MOB_LOG_INFO("gcs", "stopped", "clean=%d seq=%llu durable=%llu", marked,
        (unsigned long long)mob_chain_applied(sh->chain), (unsigned long long)mob_chain_durable(sh->chain));
}

static void fini(struct mob_shard *sh)
{
    for (struct conn *c = sh->conns; c != NULL; c = c->next)
        conn_close(c, MOB_CLOSED);
    conns_reap(sh);
    subscribe_fini(sh);
    member_close(sh);
    store_fini(sh);
    queries_fini(sh);
    durable_fini(sh);
    attach_fini(sh);
    mob_callers_destroy(sh->callers);
    noted_fini(sh);
    tables_destroy(sh);
    mob_chunk_pool_fini(&sh->chunks);
    if (sh->listener.fd > 0) {
        mob_listener_fini(&sh->listener);
        unlink(sh->options.socket_path);
    }
    if (sh->epoll_fd > 0)
        close(sh->epoll_fd);
}

static void set_defaults(struct mob_shard_options *o)
{
    o->soft_bytes = o->soft_bytes == 0 ? MOB_SHARD_SOFT_BYTES_DEFAULT : o->soft_bytes;
    o->hard_bytes = o->hard_bytes == 0 ? MOB_SHARD_HARD_BYTES_DEFAULT : o->hard_bytes;
    o->hold_bytes = o->hold_bytes == 0 ? MOB_SHARD_HOLD_BYTES_DEFAULT : o->hold_bytes;
    o->rewrite_bytes = o->rewrite_bytes == 0 ? 64ull << 20 : o->rewrite_bytes;
    o->collect_ns = o->collect_ns == 0 ? 500 * MOB_MS : o->collect_ns;
    o->cold_wait_ns = o->cold_wait_ns == 0 ? 10 * MOB_SEC : o->cold_wait_ns;
    o->expire_ns = o->expire_ns == 0 ? 60 * MOB_SEC : o->expire_ns;
}

static void describe_self(struct mob_shard *sh)
{
    const struct mob_shard_chain *chain = sh->options.chain;
    struct mob_link_self *self = &sh->member.self;
    sh->client_end = (struct mob_link_self){.kind = MOB_LINK_OF_CLIENTS,
        .shard = sh->options.shard,
        .protocol_min = MOB_GCS_PROTOCOL,
        .protocol_max = MOB_GCS_PROTOCOL,
        .cluster = sh->options.cluster};
    memcpy(sh->client_end.secret, sh->options.secret, sizeof sh->client_end.secret);
    if (chain == NULL)
        return;
    *self = (struct mob_link_self){.shard = sh->options.shard,
        .protocol_min = MOB_GCS_PEER_PROTOCOL,
        .protocol_max = MOB_GCS_PEER_PROTOCOL,
        .cluster = sh->options.cluster};
    memcpy(self->secret, sh->options.secret, sizeof self->secret);
    snprintf(self->place.link, sizeof self->place.link, "%s",
        chain->link_told != NULL ? chain->link_told : chain->link);
    snprintf(self->place.client, sizeof self->place.client, "%s",
        chain->client_told != NULL ? chain->client_told : sh->options.socket_path);
}

enum mob_status mob_shard_run(const struct mob_shard_options *options)
{
    struct mob_shard *sh = calloc(1, sizeof *sh);
    if (sh == NULL)
        return MOB_NO_MEMORY;
    TAILQ_INIT(&sh->stalled);
    sh->options = *options;
    set_defaults(&sh->options);
    describe_self(sh);
    while (sh->life < 2) /* 1 says something else */
        mob_random_bytes(&sh->life, sizeof sh->life);
    enum mob_status status = start(sh);
    if (status == MOB_OK)
        MOB_LOG_INFO("gcs", "serving", "socket=%s epoch=%llu seq=%llu durability=%d", sh->options.socket_path,
            (unsigned long long)mob_chain_epoch(sh->chain), (unsigned long long)mob_chain_applied(sh->chain),
            sh->options.durability);
    struct epoll_event events[EVENTS_MAX];
    while (status == MOB_OK && sh->failure == MOB_OK && !sh->stopping) {
        if (sh->member.beat != NULL)
            mob_beat_busy(sh->member.beat, false);
        int n = idle_wait(sh, events, EVENTS_MAX);
        if (sh->member.beat != NULL)
            mob_beat_busy(sh->member.beat, true);
        if (n < 0 && errno != EINTR)
            status = MOB_IO;
        pass(sh, events, n < 0 ? 0 : n);
    }
    if (status == MOB_OK && sh->failure == MOB_OK)
        stop(sh);
    if (status == MOB_OK)
        status = sh->failure;
    fini(sh);
    free(sh);
    return status;
}
