/* Workers of this node: started through the pool, given a client slot, watched until their end.
 *
 * A worker's end is handled in this order: what its ring still holds is taken (its published completions
 * count), then the scheduler hears that it is gone (its task runs again), then its slot and all it held in
 * the segment are taken back.
 */
#include "runtime/node/workers.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/log_value.h"
#include "runtime/node/actor_record.h"
#include "runtime/node/awaited_puts.h"
#include "runtime/node/checkpoint_room.h"
#include "runtime/node/dispatch.h"
#include "runtime/node/lane.h"
#include "runtime/node/notices.h"
#include "runtime/node/recovery.h"
#include "runtime/node/suspended.h"
#include "runtime/node/task.h"

enum { DRAIN_RECORDS_MAX = 1 << 20, LOG_TAIL_LINES = 5, LOG_REPLY_MAX = 64 * 1024 };

struct node_worker *node_worker_at(struct node *node, uint32_t number)
{
    return number < node->worker_capacity ? node->workers[number] : NULL;
}

static uint32_t free_number(struct node *node)
{
    for (uint32_t i = 0; i < node->worker_capacity; i++)
        if (!node->workers[i])
            return i;
    uint32_t capacity = node->worker_capacity ? node->worker_capacity * 2 : 64;
    if (capacity > MOB_SCHED_WORKERS_MAX)
        capacity = MOB_SCHED_WORKERS_MAX;
    if (node->worker_capacity == capacity)
        return NODE_NOBODY;
    struct node_worker **bigger = realloc(node->workers, capacity * sizeof *bigger);
    if (!bigger)
        return NODE_NOBODY;
    memset(bigger + node->worker_capacity, 0, (capacity - node->worker_capacity) * sizeof *bigger);
    uint32_t number = node->worker_capacity;
    node->workers = bigger;
    node->worker_capacity = capacity;
    return number;
}

static void worker_free(struct node *node, struct node_worker *worker)
{
    node->workers[worker->number] = NULL;
    node->workers_alive--;
    for (uint32_t i = 0; i < MOB_HEAD_SLOTS; i++)
        node_template_drop(node, worker->sent[i].template);
    node_worker_abandon_held(worker);
    node->no_room_workers -= worker->no_room;
    free(worker->functions_known);
    free(worker->needs);
    free(worker);
}

void node_workers_free(struct node *node)
{
    for (uint32_t i = 0; i < node->worker_capacity; i++)
        if (node->workers[i])
            worker_free(node, node->workers[i]);
    free(node->workers);
    node->workers = NULL;
    node->worker_capacity = 0;
}

enum mob_status node_rings_open(
    struct node *node, const struct mob_client_options *options, uint32_t *slot_out)
{
    enum mob_status status = mob_store_client_open(node->store, options, slot_out);
    if (status != MOB_STORE_FULL)
        return status;
    struct mob_store_full full;
    uint64_t free_now;
    mob_store_full_details(node->store, &full);
    status = mob_store_make_room(node->store, NULL, full.needed_bytes, &free_now);
    return status == MOB_OK ? mob_store_client_open(node->store, options, slot_out) : MOB_STORE_FULL;
}

static enum mob_status spawn_one(struct node *node)
{
    struct mob_client_options options = {.kind = MOB_CLIENT_WORKER};
    uint32_t number = free_number(node), slot;
    if (number == NODE_NOBODY)
        return MOB_QUEUE_FULL;
    enum mob_status status = node_rings_open(node, &options, &slot);
    if (status != MOB_OK)
        return status;
    struct node_worker *worker = calloc(1, sizeof *worker);
    MOB_ASSERT(worker);
    worker->number = number;
    worker->slot = slot;
    worker->state = WORKER_STARTING;
    worker->started_ns = node->now_ns;
    node->workers[number] = worker;
    node->workers_alive++;
    struct node_client *client = node_client_add(node, slot, MOB_CLIENT_WORKER);
    client->worker = worker;
    struct mob_session_welcome welcome = {
        .magic = MOB_SESSION_MAGIC,
        .version = MOB_SESSION_VERSION,
        .status = MOB_OK,
        .slot = slot,
        .worker = ++node->workers_started,
        .incarnation = node->incarnation,
        .cluster = node->cluster,
        .nest_max = node->options.nest_max,
    };
    worker->serial = welcome.worker;
    status = mob_pool_start(
        node->pool, worker->serial, &welcome, mob_store_memfd(node->store), mob_store_eventfd(node->store));
    if (status != MOB_OK) {
        node_client_end(node, client, "it could not be started");
        worker_free(node, worker);
    }
    return status;
}

void node_worker_spawn(struct node *node, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        enum mob_status status = node->stopping ? MOB_UNAVAILABLE : spawn_one(node);
        if (status == MOB_OK)
            continue;
        if (status == MOB_AGAIN) { /* the zygote has its hands full: when it reports, the rest is asked for */
            node->spawns_due += count - i;
            return;
        }
        MOB_LOG_WARN("workers", "spawn_failed", "status=%s left=%u", mob_status_code(status), count - i);
        mob_sched_spawn_failed(node->sched, MOB_RUNTIME_C, count - i, node->now_ns);
        if (status == MOB_STORE_FULL || status == MOB_QUEUE_FULL) /* no room, or no slot */
            node_workers_crowded(node);
        return;
    }
}

void node_worker_reap(struct node *node, uint32_t number)
{
    struct node_worker *worker = node_worker_at(node, number);
    if (!worker || worker->state == WORKER_STOPPING)
        return;
    worker->state = WORKER_STOPPING;
    if (!node_in_append(node, node->clients[worker->slot], MOB_IN_STOP, 0, 0, 0))
        node_worker_kill(node, worker, MOB_WORKER_DIED, "its ring is full: it does not read");
}

void node_worker_kill(
    struct node *node, struct node_worker *worker, enum mob_status status, const char *reason)
{
    (void)node;
    if (!worker->kill_reason) {
        worker->kill_reason = reason;
        worker->kill_status = status;
    }
    if (worker->pid > 0)
        kill(worker->pid, SIGKILL);
}

void node_worker_knows(struct node_worker *worker, uint32_t function_number)
{
    uint32_t byte = function_number >> 3;
    if (byte >= worker->functions_known_bytes) {
        uint32_t bytes = (byte + 64) & ~63u;
        worker->functions_known = realloc(worker->functions_known, bytes);
        MOB_ASSERT(worker->functions_known);
        memset(worker->functions_known + worker->functions_known_bytes, 0,
            bytes - worker->functions_known_bytes);
        worker->functions_known_bytes = bytes;
    }
    worker->functions_known[byte] |= (uint8_t)(1u << (function_number & 7));
}

/* Everything that it published counts, so its ring is emptied first. Other clients' records come along in
 * order. */
static void drain(struct node *node)
{
    uint32_t damaged, taken = 0;
    struct mob_store_run run;
    mob_store_pass_begin(node->store);
    while (taken < DRAIN_RECORDS_MAX && mob_store_next_run(node->store, &run, MOB_STORE_RUN_MAX, &damaged)) {
        node_take(node, &run);
        taken += run.count;
    }
    mob_store_pass_end(node->store);
}

static void note_death(
    struct node *node, const struct node_worker *worker, const struct mob_pool_event *event)
{
    int status = event->wait_status;
    node->death.status = worker->kill_reason ? worker->kill_status : MOB_WORKER_DIED;
    node->death.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    node->death.serial = worker->serial;
    struct mob_sched_task *running;
    bool ran = mob_sched_batch(node->sched, (uint16_t)worker->number, &running, 1) > 0;
    node->death.task = ran ? running->id : (struct mob_task_id){0};
    if (worker->kill_reason && worker->kill_status == MOB_TOO_MANY_BLOCKED)
        snprintf(node->death.message, sizeof node->death.message, "%s", worker->kill_reason);
    else if (worker->kill_reason)
        snprintf(node->death.message, sizeof node->death.message, "its worker was killed: %s",
            worker->kill_reason);
    else if (event->with_zygote)
        snprintf(
            node->death.message, sizeof node->death.message, "the process died that had started its worker");
    else if (WIFSIGNALED(status))
        snprintf(node->death.message, sizeof node->death.message, "its worker died of signal %d (%s)",
            WTERMSIG(status), strsignal(WTERMSIG(status)));
    else
        snprintf(node->death.message, sizeof node->death.message, "its worker exited with status %d",
            WEXITSTATUS(status));
    size_t n = mob_pool_log_tail(
        node->pool, worker->serial, LOG_TAIL_LINES, node->death.log, sizeof node->death.log);
    node->death.log[n < sizeof node->death.log ? n : sizeof node->death.log - 1] = '\0';
    if (ran)
        mob_pool_log_died(
            node->pool, worker->serial, running->id, node_task_attempt((struct node_task *)running));
}

const char *node_death_notice(struct node *node, int *signal_out, char *detail, size_t capacity)
{
    *signal_out = node->death.signal;
    snprintf(detail, capacity, "%s", node->death.log);
    return node->death.message[0] ? node->death.message : "its worker died";
}

static struct node_worker *by_serial(struct node *node, uint32_t serial)
{
    for (uint32_t i = 0; i < node->worker_capacity; i++)
        if (node->workers[i] && node->workers[i]->serial == serial)
            return node->workers[i];
    return NULL;
}

/* All that it published is taken. */
static void gone(struct node *node, struct node_client *client, const void *argument)
{
    const struct mob_pool_event *event = argument;
    struct node_worker *worker = client->worker;
    bool expected = worker->state == WORKER_STOPPING && WIFEXITED(event->wait_status);
    note_death(node, worker, event);
    if (!expected) {
        MOB_LOG_WARN("workers", "died", "worker=%u pid=%d why=\"%s\"", worker->number, worker->pid,
            MOB_LOG_VALUE(node->death.message));
        node_event_worker_died(node, worker->serial, worker->pid, node->death.message);
    }
    if (worker->state == WORKER_STARTING)
        mob_sched_spawn_failed(node->sched, MOB_RUNTIME_C, 1, node->now_ns);
    else
        mob_sched_worker_gone(
            node->sched, (uint16_t)worker->number, event->with_zygote && !worker->kill_reason, node->now_ns);
    node_dispatch_all(node); /* with this death's notice at hand */
    node->death.task = (struct mob_task_id){0}; /* it may run again, and end in another way */
    node_client_end(node, client, expected ? "it was idle" : "it died");
    worker_free(node, worker);
}

static void on_exit_of(struct node *node, const struct mob_pool_event *event)
{
    struct node_worker *worker = by_serial(node, event->worker);
    if (!worker)
        return;
    struct node_client *client = node->clients[worker->slot];
    client->closing = true; /* its published outputs are sealed by us now */
    mob_store_client_ended(node->store, client->slot); /* it may have died between publishing and ringing */
    drain(node);
    if (!node_lane_then(node, client, gone, event, sizeof *event))
        gone(node, client, event);
}

static void on_start_of(struct node *node, const struct mob_pool_event *event)
{
    struct node_worker *worker = by_serial(node, event->worker);
    if (!worker)
        return;
    worker->pid = event->pid;
    worker->state = WORKER_READY;
    node->clients[worker->slot]->pid = event->pid;
    node_event_worker_started(node, worker->serial, event->pid);
    enum mob_status status =
        mob_sched_worker_added(node->sched, (uint16_t)worker->number, MOB_RUNTIME_C, node->now_ns);
    MOB_ASSERT(status == MOB_OK);
    if (worker->kill_reason)
        kill(worker->pid, SIGKILL);
}

void node_pool_step(struct node *node)
{
    struct mob_pool_event event;
    while (mob_pool_step(node->pool, &event))
        switch (event.kind) {
        case MOB_POOL_STARTED:
            on_start_of(node, &event);
            break;
        case MOB_POOL_EXITED:
            on_exit_of(node, &event);
            break;
        }
    if (node->spawns_due > 0) {
        uint32_t due = node->spawns_due;
        node->spawns_due = 0;
        node_worker_spawn(node, due);
    }
}

/* Logs that grew too long. */
void node_workers_tick(struct node *node)
{
    mob_pool_check_logs(node->pool);
    node_suspended_tick(node);
}

bool node_has_timers(const struct node *node)
{
    return node->jobs_in_grace || node->deploying > 0 || node->stacks || awaited_puts_any(node) ||
        checkpoint_room_any(node) || recovery_open(node) || node->checkpoint_reads ||
        node->strangers.count > 0 || node->listener.rest_until_ns != 0;
}

/* The next task of this job in a worker brings its head along again. */
static void forget_heads(struct node *node, struct node_worker *worker, const struct node_job *job)
{
    for (uint32_t i = 0; i < MOB_HEAD_SLOTS; i++)
        if (worker->sent[i].template && worker->sent[i].template->job == job)
            node_template_place(node, &worker->sent[i].template, NULL);
}

void node_workers_forget_job(struct node *node, const struct node_job *job)
{
    for (uint32_t i = 0; i < node->worker_capacity; i++)
        if (node->workers[i])
            forget_heads(node, node->workers[i], job);
}

enum mob_status node_pool_open(struct node *node)
{
    struct mob_pool_options options = {
        .struct_size = sizeof options,
        .worker_path = node->options.worker_binary,
        .state_dir = node->options.directory,
        .address_space_bytes = node->options.worker_memory_bytes,
    };
    return mob_pool_create(&options, &node->pool);
}

/* Whose files have it: the worker it runs in, or the one that has its actor now (a replay wrote there what
 * the earlier ones had), or the one that the asker knows of. */
static uint32_t log_worker(struct node *node, const struct mob_log_question *in)
{
    const struct node_task *task = node_task_find(node, in->task);
    const struct node_worker *worker = NULL;
    bool is_asked_for = task && (in->attempt == 0 || in->attempt == node_task_attempt(task));
    if (is_asked_for && (task->sched.state == MOB_SCHED_DISPATCHED || task->sched.state == MOB_SCHED_BLOCKED))
        worker = node_worker_at(node, task->sched.worker);
    const struct node_actor *actor =
        worker || mob_task_id_is_zero(in->actor.creation) ? NULL : node_actor_find(node, in->actor);
    if (actor)
        worker = actor->worker;
    return worker ? worker->serial : in->worker;
}

/* Is it the one that its worker runs now, not one that waits behind or below it? */
static bool runs_now(struct node *node, const struct mob_log_question *in)
{
    const struct node_task *task = node_task_find(node, in->task);
    struct mob_sched_task *first;
    return task && (in->attempt == 0 || in->attempt == node_task_attempt(task)) &&
        (task->sched.state == MOB_SCHED_DISPATCHED || task->sched.state == MOB_SCHED_BLOCKED) &&
        mob_sched_batch(node->sched, task->sched.worker, &first, 1) > 0 && first == &task->sched;
}

void node_logs(
    struct node *node, struct node_client *client, uint32_t request, const uint8_t *payload, uint32_t bytes)
{
    struct mob_log_question in;
    static struct {
        uint64_t total;
        uint8_t bytes[LOG_REPLY_MAX];
    } out;
    if (bytes < sizeof in) {
        node_reply(node, client->slot, client->session, request, MOB_INVALID, NULL, 0);
        return;
    }
    memcpy(&in, payload, sizeof in);
    struct mob_pool_output output = {in.task, in.attempt, log_worker(node, &in), runs_now(node, &in)};
    size_t max = in.max > sizeof out.bytes ? sizeof out.bytes : in.max, n = 0;
    out.total = 0;
    if (output.worker != MOB_LOG_NO_WORKER)
        n = mob_pool_log_read(node->pool, &output, in.offset, out.bytes, max, &out.total);
    node_reply(node, client->slot, client->session, request, MOB_OK, &out, (uint32_t)(sizeof out.total + n));
}
