/* The node's loop: one pass after the other while there is work, asleep in epoll when there is none. */
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/log_value.h"
#include "common/settings/settings_forms.h"
#include "gcs/client/client_sync.h"
#include "gcs/client/losses.h"
#include "runtime/node/actors.h"
#include "runtime/node/actor_refs.h"
#include "runtime/node/alias.h"
#include "runtime/node/awaited_puts.h"
#include "runtime/node/borrowed.h"
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
#include "runtime/node/put_sweep.h"
#include "runtime/node/recovery.h"
#include "runtime/node/row_writes.h"
#include "runtime/node/shadow.h"
#include "runtime/node/task.h"
#include "runtime/node/value_cache.h"
#include "runtime/node/watches.h"
#include "runtime/node/workers.h"

enum {
    EVENTS_MAX = 64,
    YIELDS_BEFORE_SLEEP = 20, /* LIMITS: poll, about 20 sched_yield, announce, sleep */
    QUIET_PASSES = 8, /* then nothing more is on its way */
    RECORDS_PER_PASS_MAX = 2048, /* so that decisions and acknowledgements are not held up by a flood */
    POLL_EVERY_PASSES = 16, /* descriptors while busy: an epoll_wait is half a microsecond */
    AUDIT_ENTRIES = 2048, /* of the object table, each AUDIT_EVERY_NS of a node that works */
    GCS_START_SECONDS = 30,
    STOP_SECONDS_MAX = 2
};
#define MAINTAIN_NS 50000
#define TICK_NS MOB_SEC
#define AUDIT_EVERY_NS (10 * MOB_MS)

static struct mob_stream children_of(void *arg, const struct mob_sched_task *sched_task)
{
    const struct node_task *task = (const struct node_task *)sched_task;
    (void)arg;
    return mob_stream_of_children(task->sched.id, node_task_generation(task), 0);
}

static bool continued(void *arg, struct mob_task_id id, struct mob_sched_kin *kin_out)
{
    return node_tail_walk_kin(arg, id, kin_out);
}

/* A call that only reads stands in front of the one at its position, and behind those below it. */
static uint64_t position_of(void *arg, const struct mob_sched_task *call)
{
    const struct node_task *task = (const struct node_task *)call;
    (void)arg;
    return 2 * node_extra_of(task)->position + !node_task_reads(task);
}

static void inputs_came(void *arg, struct mob_sched_task *sched_task)
{
    const struct node *node = arg;
    struct node_task *task = (struct node_task *)sched_task;
    task->ready_us = node_elapsed_us(task->submitted_ns, node->now_ns);
}

static void watch_fd(struct node *node, int fd, enum loop_source source)
{
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = loop_tag(source, 0)};
    if (epoll_ctl(node->epoll_fd, EPOLL_CTL_ADD, fd, &event) != 0)
        MOB_LOG_ERROR("node", "epoll_failed", "source=%d errno=%d", source, errno);
}

static void on_log_sealed(void *arg)
{
    struct node *node = arg;
    node->sealed = true;
}

_Static_assert(MOB_LISTED_RESOURCES_MAX + 4 <= MOB_SCHED_RESOURCES_MAX, "names of resources");
_Static_assert(MOB_LISTED_RESOURCE_NAME_MAX == MOB_RESOURCE_NAME_MAX, "as long as tasks may ask for");

/* The setting was checked when it was read. */
static enum mob_status set_resources(struct node *node)
{
    struct mob_listed_resource offered;
    char message[MOB_FORM_MESSAGE_MAX];
    enum mob_status status;
    for (const char *at = node->options.resources;
         (status = mob_resources_next(&at, &offered, message)) == MOB_OK;) {
        uint16_t kind;
        status = mob_sched_resource(node->sched, offered.name, strlen(offered.name), &kind);
        if (status != MOB_OK)
            return status;
        mob_sched_resource_total(node->sched, kind, (int64_t)(offered.amount * MOB_SCHED_UNIT));
    }
    if (status == MOB_INVALID)
        MOB_LOG_ERROR("node", "bad_resource", "error=\"%s\"", MOB_LOG_VALUE(message));
    return status == MOB_NOT_FOUND ? MOB_OK : status;
}

static enum mob_status open_store(struct node *node)
{
    struct mob_store_options options = {
        .struct_size = sizeof options,
        .segment_bytes = node->options.segment_bytes,
        .spill_dir = node->options.spill_directory[0] ? node->options.spill_directory : NULL,
        .spill_quota_bytes = node->options.spill_quota_bytes,
        .incarnation = node->incarnation,
        .cluster = node->cluster,
        .prefault = true,
        .needed = node_borrowed,
        .needs_any = node_borrows_any,
        .arg = node,
    };
    return mob_store_create(&options, &node->store);
}

static enum mob_status open_scheduler(struct node *node)
{
    struct mob_sched_options options = {
        .struct_size = sizeof options,
        .record_bytes = sizeof(struct node_task),
        .blocked_max = node->options.blocked_max,
        .nest_max = node->options.nest_max,
        .cpu = (int64_t)node->options.slots * MOB_SCHED_UNIT,
        .memory = (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE) * MOB_SCHED_UNIT,
        .take_back_ns = node->options.take_back_ns,
        .reap_after_ns = (int64_t)node->options.idle_reap_ms * MOB_MS,
        .children_of = children_of,
        .position_of = position_of,
        .continued = continued,
        .inputs_came = inputs_came,
        .arg = node,
    };
    enum mob_status status = mob_sched_create(&options, &node->sched);
    return status == MOB_OK ? set_resources(node) : status;
}

static enum mob_status open_log(struct node *node)
{
    struct lineage_log_options options = {
        .gcs = node->gcs,
        .cluster = node->cluster,
        .incarnation = node->incarnation,
        .run_effect = node_run_effect,
        .fetch_effect = node_fetch_effect,
        .sealed = on_log_sealed,
        .before_close = node_before_block_close,
        .arg = node,
    };
    return lineage_log_create(&options, &node->log);
}

static enum mob_status join_cluster(struct node *node)
{
    struct mob_gcs_options options = {
        .socket_path = node->options.gcs_socket, .cluster = node->cluster, .secret = node->secret};
    enum mob_status status = mob_gcs_create(&options, &node->gcs);
    int64_t deadline = mob_deadline_after(GCS_START_SECONDS * MOB_SEC);
    struct mob_node_life_options life = {
        .node = node->options.name, .masters = node->options.masters, .cluster = node->cluster};
    memcpy(life.secret, node->secret, sizeof life.secret);
    if (status == MOB_OK)
        status = mob_losses_create(node->gcs, (int64_t)node->options.retention_s * MOB_SEC, &node->losses);
    if (status == MOB_OK)
        status = mob_gcs_connect_wait(node->gcs, deadline); /* at once when it is refused */
    if (status == MOB_OK)
        status = mob_node_life_begin(&life, node->gcs, deadline, &node->life, &node->incarnation);
    if (status == MOB_EXISTS)
        MOB_LOG_ERROR("node", "name_is_taken",
            "name=%s why=\"a node of this name lives: end that one, or give this one another with --name\"",
            node->options.name);
    return status;
}

static void make_tables(struct node *node)
{
    node->functions = function_table_create();
    node->watches = watch_table_create();
    node->aliases = alias_table_create();
    node->borrows = borrow_table_create();
    node->actors = actor_table_create();
    node->actor_refs = actor_refs_create();
    node->known = known_table_create();
    node->values = value_cache_create();
    node->awaited = awaited_puts_create();
    node->large_hashes = large_hashes_create();
    node->checkpoint_sweep = checkpoint_sweep_create(node);
    node->recovery = recovery_create();
    node->lane = lane_create();
    node->flush_slots = calloc(MOB_STORE_CLIENTS_MAX + 2, sizeof *node->flush_slots);
    MOB_ASSERT(node->values && node->flush_slots);
}

static enum mob_status open_parts(struct node *node)
{
    enum mob_status status = join_cluster(node);
    if (status == MOB_OK)
        status = open_store(node);
    if (status == MOB_OK)
        status = open_scheduler(node);
    if (status == MOB_OK)
        status = node_pool_open(node);
    if (status == MOB_OK)
        status = open_log(node);
    if (status == MOB_OK)
        status = durable_puts_create(node, &node->puts);
    if (status == MOB_OK)
        status = node_functions_load(node);
    if (status == MOB_OK)
        status = node_jobs_load(node);
    if (status == MOB_OK)
        status = node_actors_load(node);
    return status;
}

enum mob_status node_open(struct node *node)
{
    sigset_t signals;
    node->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    node->listener.fd = -1;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    sigprocmask(SIG_BLOCK, &signals, NULL);
    node->signal_fd = signalfd(-1, &signals, SFD_NONBLOCK | SFD_CLOEXEC);
    signal(SIGPIPE, SIG_IGN);
    if (node->epoll_fd < 0 || node->signal_fd < 0)
        return MOB_IO;
    make_tables(node);
    node->now_ns = mob_now();
    enum mob_status status = open_parts(node);
    if (status != MOB_OK)
        return status;
    watch_fd(node, mob_gcs_fd(node->gcs), LOOP_GCS);
    watch_fd(node, mob_store_eventfd(node->store), LOOP_STORE);
    watch_fd(node, mob_pool_fd(node->pool), LOOP_POOL);
    watch_fd(node, node->signal_fd, LOOP_SIGNAL);
    watch_fd(node, durable_puts_fd(node->puts), LOOP_PUTS);
    if (mob_node_life_fd(node->life) >= 0)
        watch_fd(node, mob_node_life_fd(node->life), LOOP_LIFE);
    status = node_recover(node);
    if (status != MOB_OK)
        return status;
    node_jobs_recovered(node);
    node->ready = true;
    return node_listen(node);
}

void node_close(struct node *node)
{
    for (uint32_t slot = 0; slot < node->client_top; slot++)
        if (node->clients[slot])
            node_client_end(node, node->clients[slot], "the node stops");
    /* Its last word was acknowledged, so nothing of this log is missing where it ends. */
    mob_node_life_end(node->life, node->said_stopped && lineage_log_idle(node->log));
    node_workers_free(node);
    durable_puts_destroy(node->puts);
    mob_pool_destroy(node->pool);
    mob_gcs_destroy(node->gcs);
    mob_losses_destroy(node->losses);
    lineage_log_destroy(node->log);
    node_group_reads_drop(node);
    node_below_free(node);
    node_checkpoint_reads_drop(node);
    row_writes_drop(node);
    node_tasks_free(node);
    mob_sched_destroy(node->sched);
    mob_store_destroy(node->store);
    watch_table_destroy(node->watches);
    alias_table_destroy(node->aliases);
    borrow_table_destroy(node->borrows);
    node_shadows_destroy(node);
    node_puts_sweep_destroy(node);
    actor_refs_destroy(node->actor_refs);
    actor_table_destroy(node->actors);
    node_deployments_drop(node);
    function_table_destroy(node->functions);
    known_table_destroy(node->known);
    value_cache_destroy(node->values);
    awaited_puts_destroy(node->awaited);
    checkpoint_room_drop(node);
    checkpoint_sweep_destroy(node->checkpoint_sweep);
    large_hashes_destroy(node->large_hashes);
    recovery_destroy(node->recovery);
    lane_destroy(node->lane);
    node_jobs_free(node);
    node_task_rooms_free(node);
    free(node->flush_slots);
    node_strangers_close(node);
    mob_listener_fini(&node->listener);
    close(node->signal_fd);
    close(node->epoll_fd);
}

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
