/* Which task may run on top of one that waits.
 *
 * From what it waits for, through tail calls and inputs that are missing, to a task that is queued. The one
 * below cannot go on before that one has ended, so it loses nothing by being below it, and no wait is added
 * to those that the program has: where the program ends without this, it ends with it. That holds for what a
 * task makes at its end. A put or an item of a generator is there before its task has ended, so such tasks
 * run elsewhere; and a task that waits for whatever comes first, or until a time, does not ask.
 *
 * One way is left for a wait to end too early: a cancel or a deadline ends a task in the middle of that path.
 * Then the lower one could go on and is kept from it (node_suspended_tick).
 */
#include "runtime/node/suspended.h"

#include <stdlib.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "runtime/node/alias.h"
#include "runtime/node/notices.h"
#include "runtime/node/task.h"
#include "runtime/node/workers.h"

enum { STEPS_MAX = 64, SPEC_ROOM_BYTES = 16 * 1024 };
/* A wake takes this long on the busiest machine (crowded.c). */
static const int64_t patience_ns = 2 * MOB_SEC;

/* Objects that are still to be looked at, the next one last. */
struct path {
    struct mob_object_id ids[STEPS_MAX];
    uint32_t count, steps;
};

static void path_add(struct path *path, struct mob_object_id id)
{
    if (path->count < STEPS_MAX)
        path->ids[path->count++] = id;
}

/* It is there when its task has ended, and not before. */
static bool made_at_the_end(const struct node_task *task, struct mob_object_id id)
{
    const struct mob_spec_head *head = &task->template->head;
    return head->num_returns != MOB_RETURNS_STREAM && id.slot < head->num_returns;
}

static void add_inputs(struct node *node, const struct node_task *task, struct path *path)
{
    struct mob_why why;
    mob_sched_why(node->sched, &task->sched, &why);
    uint32_t count = why.input_count < MOB_SCHED_WHY_INPUTS ? why.input_count : MOB_SCHED_WHY_INPUTS;
    for (uint32_t i = count; i-- > 0;)
        path_add(path, why.inputs[i]);
}

/* Sent as it stands, without a look into the lineage first, and run for itself. */
static bool is_plain(const struct node_task *task)
{
    const uint8_t other = TASK_REMAKE | TASK_ACTOR_CREATE | TASK_ACTOR_CALL | TASK_RESTORE;
    return !(task->flags & other) && (task->flags & (TASK_LOOK_UP | TASK_NO_OUTCOMES)) != TASK_LOOK_UP;
}

/* A task that has not started and without whose end `id` is never there; NULL = none was found. */
static struct node_task *startable(struct node *node, const struct node_task *below, struct mob_object_id id)
{
    struct path path = {.count = 1};
    path.ids[0] = id;
    while (path.count > 0 && path.steps++ < STEPS_MAX) {
        struct mob_object_id next = path.ids[--path.count], target;
        struct node_task *task = node_task_find(node, next.task);
        if (!task) {
            if (node_tail_target(node, next, &target))
                path_add(&path, target);
            continue;
        }
        if (!made_at_the_end(task, next))
            continue;
        bool behind = task->sched.state == MOB_SCHED_DISPATCHED &&
            task->sched.worker == below->sched.worker && task != below;
        if ((task->sched.state == MOB_SCHED_READY || behind) && is_plain(task))
            return task;
        if (task->sched.state == MOB_SCHED_WAITING)
            add_inputs(node, task, &path);
    }
    return NULL;
}

/* Where the needs of those below stand, by level from the bottom. */
static bool note_need(struct node *node, struct node_worker *worker, struct mob_object_id need)
{
    if (!worker->needs)
        worker->needs = calloc(MOB_SCHED_NEST_MAX, sizeof *worker->needs);
    if (!worker->needs)
        return false;
    struct mob_sched_task *below[MOB_SCHED_NEST_MAX];
    uint32_t level = mob_sched_below(node->sched, (uint16_t)worker->number, below, MOB_SCHED_NEST_MAX);
    MOB_ASSERT(level < MOB_SCHED_NEST_MAX);
    worker->needs[level] = need;
    return true;
}

/* One of these runs on top of `below`; its id. Anything else: nothing has changed. */
static enum mob_status nest(struct node *node, struct node_client *client, struct node_task *below,
    const uint8_t *ids, uint16_t count, struct mob_task_id *task_out)
{
    struct node_worker *worker = client->worker;
    if (worker->actor || worker->held || worker->no_room || worker->kill_reason ||
        !mob_store_in_room(node->store, client->slot, SPEC_ROOM_BYTES))
        return MOB_CONFLICT;
    for (uint32_t i = 0; i < count; i++) {
        struct mob_object_id id;
        uint32_t revoked;
        memcpy(&id, ids + i * sizeof id, sizeof id);
        struct node_task *task = startable(node, below, id);
        if (!task || below->sched.state != MOB_SCHED_DISPATCHED || !note_need(node, worker, id))
            continue;
        enum mob_status status =
            mob_sched_nest(node->sched, &below->sched, &task->sched, &revoked, node->now_ns);
        if (status != MOB_OK)
            continue;
        node->stacks = true;
        *task_out = task->sched.id;
        return MOB_OK;
    }
    return MOB_CONFLICT;
}

bool node_suspended(
    struct node *node, struct node_client *client, uint16_t count, const uint8_t *body, uint32_t bytes)
{
    struct mob_out_suspended suspended;
    if (bytes < sizeof suspended || !client->worker || count > MOB_SUSPENDED_IDS_MAX ||
        count * sizeof(struct mob_object_id) > bytes - sizeof suspended)
        return false;
    memcpy(&suspended, body, sizeof suspended);
    struct mob_in_nest nested = {.number = suspended.number, .status = MOB_CONFLICT};
    struct node_task *task = node_task_find(node, suspended.task);
    if (task && task->sched.worker == client->worker->number && node->options.nest_max > 0)
        nested.status = (uint32_t)nest(node, client, task, body + sizeof suspended, count, &nested.task);
    uint8_t *answer = node_in_append(node, client, MOB_IN_NEST, 0, 0, sizeof nested);
    if (answer)
        memcpy(answer, &nested, sizeof nested);
    else
        node_worker_kill(node, client->worker, MOB_WORKER_DIED, "its ring is full: it does not read");
    return true;
}

/* ---- a wait that ended too early ---- */

/* The uppermost sleeps, and one below waits for nothing any more. */
static bool holds_up(struct node *node, const struct node_worker *worker, uint32_t count)
{
    struct mob_sched_task *top;
    struct mob_object_info info;
    struct mob_why why;
    uint16_t number = (uint16_t)worker->number;
    if (mob_sched_batch(node->sched, number, &top, 1) == 0 || top->state != MOB_SCHED_BLOCKED)
        return false;
    mob_sched_why(node->sched, top, &why);
    if (node->now_ns - why.since < patience_ns)
        return false;
    for (uint32_t i = 0; i < count; i++)
        if (mob_store_object_info(node->store, worker->needs[i], &info) && info.sealed)
            return true;
    return false;
}

void node_suspended_tick(struct node *node)
{
    if (!node->stacks)
        return;
    node->stacks = false;
    for (uint32_t i = 0; i < node->worker_capacity; i++) {
        struct node_worker *worker = node->workers[i];
        struct mob_sched_task *below[MOB_SCHED_NEST_MAX];
        if (!worker || !worker->needs || worker->kill_reason)
            continue;
        uint32_t count = mob_sched_below(node->sched, (uint16_t)i, below, MOB_SCHED_NEST_MAX);
        node->stacks |= count > 0;
        if (count > 0 && holds_up(node, worker, count))
            node_worker_kill(node, worker, MOB_WORKER_DIED,
                "a task on its stack could go on, but for one above it that waits");
    }
}
