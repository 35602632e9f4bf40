/* The node's beginning and end: its store, scheduler, log and tables, and the cluster that it joins. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
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

enum { GCS_START_SECONDS = 30 };

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
