/* The node's loop: one pass after the other while there is work, asleep in epoll when there is none. */
#include <sched.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "gcs/client/losses.h"
#include "runtime/node/actor_refs.h"
#include "runtime/node/alias.h"
#include "runtime/node/awaited_puts.h"
#include "runtime/node/cancel_below.h"
#include "runtime/node/checkpoint_room.h"
#include "runtime/node/checkpoint_sweep.h"
#include "runtime/node/directory.h"
#include "runtime/node/dispatch.h"
#include "runtime/node/durable_puts.h"
#include "runtime/node/functions.h"
#include "runtime/node/jobs.h"
#include "runtime/node/known.h"
#include "runtime/node/lane.h"
#include "runtime/node/large_hashes.h"
#include "runtime/node/loop_tag.h"
#include "runtime/node/node_run.h"
#include "runtime/node/notices.h"
#include "runtime/node/recovery.h"
#include "runtime/node/row_writes.h"
#include "runtime/node/shadow.h"
#include "runtime/node/task.h"
#include "runtime/node/workers.h"

enum {
    EVENTS_MAX = 64,
    YIELDS_BEFORE_SLEEP = 20, /* LIMITS: poll, about 20 sched_yield, announce, sleep */
    QUIET_PASSES = 8, /* then nothing more is on its way */
    RECORDS_PER_PASS_MAX = 2048, /* so that decisions and acknowledgements are not held up by a flood */
    POLL_EVERY_PASSES = 16, /* descriptors while busy: an epoll_wait is half a microsecond */
    AUDIT_ENTRIES = 2048, /* of the object table, each AUDIT_EVERY_NS of a node that works */
    STOP_SECONDS_MAX = 2
};
#define MAINTAIN_NS 50000
#define TICK_NS MOB_SEC
#define AUDIT_EVERY_NS (10 * MOB_MS)

static void node_request_stop(struct node *node)
{
    if (node->stopping)
        return;
    MOB_LOG_INFO("node", "stopping", "incarnation=%lu", node->incarnation);
    node->stopping = true;
    node->stop_deadline_ns = mob_deadline_after(STOP_SECONDS_MAX * MOB_SEC);
}

static void read_signal(struct node *node)
{
    struct signalfd_siginfo info;
    while (read(node->signal_fd, &info, sizeof info) == (ssize_t)sizeof info)
        node_request_stop(node);
}

static void drain_eventfd(int fd)
{
    uint64_t count;
    ssize_t n = read(fd, &count, sizeof count);
    (void)n; /* only its readiness matters */
}

static void handle_event(struct node *node, uint64_t tag)
{
    uint32_t number = (uint32_t)tag;
    switch ((enum loop_source)(tag >> 32)) {
    case LOOP_LISTEN:
        node_accept(node);
        return;
    case LOOP_HELLO:
        node_hello(node, (int)number);
        return;
    case LOOP_SESSION:
        if (node->clients[number])
            node_session_readable(node, node->clients[number]);
        return;
    case LOOP_POOL:
        node_pool_step(node);
        return;
    case LOOP_STORE:
        drain_eventfd(mob_store_eventfd(node->store));
        return;
    case LOOP_LIFE:
        node->sealed = mob_node_life_over(node->life);
        return;
    case LOOP_SIGNAL:
        read_signal(node);
        return;
    case LOOP_DESCRIBE:
        node_describe_readable(node, (int)number);
        return;
    case LOOP_PUTS:
        durable_puts_step(node->puts);
        return;
    case LOOP_GCS:
        return; /* every pass steps the client */
    }
}

static int poll_events(struct node *node, int timeout_ms)
{
    struct epoll_event events[EVENTS_MAX];
    int n = epoll_wait(node->epoll_fd, events, EVENTS_MAX, timeout_ms);
    node->now_ns = mob_now();
    mob_node_life_at(node->life, node->now_ns);
    for (int i = 0; i < n; i++)
        handle_event(node, events[i].data.u64);
    return n;
}

/* Takes what the clients published, in ticket order. Returns how many records. */
static uint32_t take_records(struct node *node)
{
    uint32_t taken = 0, damaged;
    struct mob_store_run run;
    if (lineage_log_blocked(node->log) || node_lane_full(node))
        return 0; /* backpressure: the rings fill, their owners wait */
    mob_store_pass_begin(node->store);
    for (;;) {
        bool more = mob_store_next_run(node->store, &run, MOB_STORE_RUN_MAX, &damaged);
        if (damaged != UINT32_MAX && node->clients[damaged])
            node_client_damaged(node, node->clients[damaged]);
        if (!more)
            break;
        node_take(node, &run);
        taken += run.count;
        if (taken >= RECORDS_PER_PASS_MAX || lineage_log_blocked(node->log))
            break;
    }
    return taken;
}

static void tick(struct node *node)
{
    if (node->now_ns < node->next_tick_ns)
        return;
    node->next_tick_ns = node->now_ns + TICK_NS;
    node_accept_tick(node);
    node_jobs_tick(node);
    node_deployments_tick(node);
    awaited_puts_tick(node);
    checkpoint_room_tick(node);
    node_checkpoint_reads_tick(node);
    recovery_step(node);
    node_workers_tick(node);
}

/* The header each time, the object table piece by piece. */
static bool segment_is_sound(struct node *node)
{
    uint32_t entries = node->now_ns >= node->next_audit_ns ? AUDIT_ENTRIES : 0;
    if (entries > 0)
        node->next_audit_ns = node->now_ns + AUDIT_EVERY_NS;
    return mob_store_audit(node->store, entries);
}

/* ---- precedence ---- */

enum {
    PRECEDENCE = -5, /* nice */
    BEHIND = 16, /* records a pass, averaged: more come than it keeps up with */
    BEHIND_NO_MORE = 4,
    AVERAGED_SHIFT = 5 /* over so many passes, as a power of two */
};

/* Who chose a priority for the cluster keeps it. What is started in the meantime, workers before all, has the
 * usual one. */
static void precedence_begin(struct node_precedence *p)
{
    const struct sched_param none = {.sched_priority = 0};
    bool usual = sched_getscheduler(0) == SCHED_OTHER && getpriority(PRIO_PROCESS, 0) == 0;
    p->may = usual && sched_setscheduler(0, SCHED_OTHER | SCHED_RESET_ON_FORK, &none) == 0;
}

/* While more comes than it keeps up with, workers and drivers wait for what the loop decides, so of a core
 * that it shares with one of them it gets more than half. Not while it waits for single tasks: then it
 * yields, to those who share its core, and a yield to somebody who counts less may come back at once. */
static void precedence_note(struct node_precedence *p, uint32_t taken)
{
    if (taken == 0)
        return;
    p->records += taken - (p->records >> AVERAGED_SHIFT);
    uint32_t average = p->records >> AVERAGED_SHIFT;
    bool wanted = average >= (p->taken ? BEHIND_NO_MORE : BEHIND);
    if (!p->may || wanted == p->taken)
        return;
    p->may = setpriority(PRIO_PROCESS, 0, wanted ? PRECEDENCE : 0) == 0; /* of this thread alone */
    p->taken = p->may && wanted;
}

/* A yield between two passes gives others the time to publish. */
static enum lineage_log_turn log_turn(struct node *node, uint32_t taken)
{
    node->quiet_passes = taken > 0 ? 0 : node->quiet_passes + 1;
    return node->quiet_passes > QUIET_PASSES ? LOG_TURN_QUIET : LOG_TURN_BUSY;
}

/* One pass; false: nothing happened in it. The order matters: records before decisions, so that a pass sees
 * its own news; the log before the rings' flush, so that a driver's notice goes out with the pass that got
 * its acknowledgement; rings are released last. */
static bool pass(struct node *node)
{
    node->now_ns = mob_now();
    node->passes++;
    mob_node_life_at(node->life, node->now_ns);
    if (!segment_is_sound(node))
        return false;
    uint32_t taken = take_records(node);
    precedence_note(&node->precedence, taken);
    if (mob_store_damaged(node->store))
        return false; /* found while it was read: nothing more leaves */
    node_below_start(node); /* one walk for all cancels that were read */
    node_dispatch(node);
    known_start(node);
    node_group_reads_again(node);
    row_writes_step(node);
    node->next_gcs_ns = mob_gcs_step(node->gcs, node->now_ns);
    taken += large_hashes_step(node);
    taken += node_lane_run(node); /* what answers of the control store let go on */
    lineage_log_pump(node->log, node->now_ns, log_turn(node, taken));
    node_acknowledge_rings(node);
    bool more = node_dispatch(node); /* what acknowledgements and answers released */
    more |= node_shadows_step(node);
    node_missed_retry(node);
    node_flush_rings(node);
    mob_store_pass_end(node->store);
    node_sessions_close(node);
    node_jobs_age(node);
    checkpoint_sweep_step(node);
    tick(node);
    return taken > 0 || more;
}

/* Background work of the store. Whether more is left. */
static bool use_spare_time(struct node *node, int64_t budget_ns)
{
    return large_hashes_rest(node) ? mob_store_sweep(node->store, budget_ns)
                                   : mob_store_maintain(node->store, budget_ns);
}

void node_turn(struct node *node)
{
    poll_events(node, 0);
    pass(node);
    (void)use_spare_time(node, 0);
}

static int64_t next_wake(const struct node *node)
{
    int64_t at = mob_sched_next_timer(node->sched);
    at = node->next_gcs_ns < at ? node->next_gcs_ns : at;
    int64_t log = lineage_log_next(node->log);
    at = log < at ? log : at;
    int64_t read = node_group_reads_next(node);
    at = read < at ? read : at;
    if (known_waiting(node) || node_below_due(node))
        at = 0;
    /* Room in a client's ring is made without a word to the node. */
    if (node->missed_clients > 0 || node->no_room_workers > 0 || mob_store_in_backlog(node->store) ||
        row_writes_waiting(node) || node->stopping)
        at = node->now_ns + 2 * MOB_MS < at ? node->now_ns + 2 * MOB_MS : at;
    int64_t rows = row_writes_patience_end(node);
    at = rows < at ? rows : at;
    at = node->next_age_ns < at ? node->next_age_ns : at;
    int64_t sweep = checkpoint_sweep_next(node);
    at = sweep < at ? sweep : at;
    if (large_hashes_any(node)) { /* one may have found no room to be read back into */
        int64_t soon = node->now_ns + (large_hashes_rest(node) ? MOB_MS : 2 * MOB_MS);
        at = soon < at ? soon : at;
    }
    if (node_has_timers(node) && node->next_tick_ns < at)
        at = node->next_tick_ns;
    return at;
}

/* Announce, look again, sleep: a client that publishes after the announcement writes the eventfd. */
/* Returns whether something happened: then the next passes poll for what follows from it. */
static bool sleep_until_news(struct node *node)
{
    bool news = true;
    lineage_log_rest(node->log);
    node->next_gcs_ns =
        mob_gcs_send(node->gcs); /* what the last pass submitted after its step: a block, a look-up */
    mob_store_announce_sleep(node->store);
    if (!mob_store_has_news(node->store) || lineage_log_blocked(node->log)) {
        int64_t wake = next_wake(node), now = mob_now();
        int64_t left_ms = wake == INT64_MAX ? -1 : (wake - now + MOB_MS - 1) / MOB_MS;
        int timeout_ms = left_ms > INT32_MAX ? INT32_MAX : (int)left_ms;
        if (wake != INT64_MAX && left_ms < 0)
            timeout_ms = 0;
        mob_node_life_at(node->life, 0);
        news = poll_events(node, timeout_ms) > 0;
    }
    mob_store_announce_awake(node->store);
    return news;
}

static bool stopped(struct node *node)
{
    if (node->sealed) {
        MOB_LOG_ERROR("node", "fenced", "why=\"its log was sealed: another incarnation owns its tasks\"");
        return true;
    }
    if (mob_store_damaged(node->store)) {
        MOB_LOG_ERROR("node", "segment_damaged",
            "why=\"a client wrote where only the node writes\" then=\"the next incarnation has a fresh "
            "one\"");
        return true;
    }
    if (!node->stopping)
        return false;
    bool quiet = lineage_log_idle(node->log) && !large_hashes_any(node) && !row_writes_waiting(node) &&
        !mob_store_has_news(node->store);
    if (quiet && !node->said_stopped) { /* the log's last word */
        node->said_stopped = true;
        node_event_stopped(node);
        quiet = false;
    }
    return quiet || node->now_ns > node->stop_deadline_ns;
}

/* A pass sends what the one before queued for the control store, so one that handed it a block, or in which
 * acknowledgements came, is followed by another: asleep, the node would sit on a block that somebody waits
 * for. */
static bool log_moved(const struct node *node, struct lineage_log_stats *seen)
{
    struct lineage_log_stats now;
    lineage_log_stats(node->log, &now);
    bool moved = now.handed != seen->handed || now.acked != seen->acked;
    *seen = now;
    return moved;
}

void node_loop(struct node *node)
{
    uint32_t idle = 0;
    precedence_begin(&node->precedence);
    struct lineage_log_stats log = {0};
    while (!stopped(node)) {
        bool busy = pass(node);
        if (log_moved(node, &log) || busy) {
            idle = 0;
            if (large_hashes_due(node))
                (void)mob_store_maintain(node->store, 0); /* one step */
            if (node->passes % POLL_EVERY_PASSES == 0)
                poll_events(node, 0);
            continue;
        }
        if (use_spare_time(node, MAINTAIN_NS) || large_hashes_step(node))
            idle = 0;
        if (++idle < YIELDS_BEFORE_SLEEP) {
            if (!mob_yield_briefly())
                idle = YIELDS_BEFORE_SLEEP;
            if (idle % 4 == 1)
                poll_events(node, 0);
            continue;
        }
        if (sleep_until_news(node))
            idle = 0;
    }
}
