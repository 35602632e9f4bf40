/* Cancel: of a task, of its descendants, and of what it became by tail calls (ARCHITECTURE "Cancel").
 *
 * The scheduler finds descendants by their ids, also below tasks that have ended and are continued by others;
 * below children that have ended with values cancel_below.h finds them. Here the chain of those that a task
 * became is followed. What is cancelled before it ran fails in this pass,
 * and its completion says so; of what runs a cancel entry is logged, which a restart of the node reads.
 */
#include <stdlib.h>

#include "common/base/log.h"
#include "runtime/node/alias.h"
#include "runtime/node/cancel_below.h"
#include "runtime/node/jobs.h"
#include "runtime/node/known.h"
#include "runtime/node/task.h"

enum { TARGETS_AT_ONCE = 16, LINKS_MAX = 1 << 20 };

static bool may_cancel(const struct node_client *client, const struct node_job *job)
{
    return client->kind == MOB_CLIENT_WORKER || (client->flags & MOB_SESSION_GATEWAY) || client->job == job;
}

void node_cancel_log(struct node *node, const struct node_job *job, const struct mob_out_cancel *cancel)
{
    lineage_log_job(node->log, job->id, job->ns);
    lineage_log_other(node->log, MOB_ENTRY_CANCEL, cancel, sizeof *cancel, NULL, 0);
}

static void cancel_live(
    struct node *node, const struct node_client *client, struct node_task *task, struct mob_out_cancel cancel)
{
    if (!may_cancel(client, task->template->job))
        return;
    cancel.task = task->sched.id;
    if (!(task->flags & TASK_UNLOGGED))
        node_cancel_log(node, task->template->job, &cancel);
    struct node_job *job = task->template->job;
    mob_sched_cancel(node->sched, &task->sched, cancel.force != 0, cancel.recursive != 0, node->now_ns);
    if (mob_sched_cancel_met_ended(node->sched))
        node_below_later(node, job, &cancel);
}

/* Tasks that stand for each other, each once: never more than there are aliases. */
struct chain {
    struct mob_task_id *tasks;
    uint32_t count, capacity;
};

static void chain_push(struct chain *chain, const struct mob_task_id *tasks, uint32_t count)
{
    if (chain->count + count > chain->capacity) {
        chain->capacity = 2 * chain->capacity + TARGETS_AT_ONCE;
        chain->tasks = realloc(chain->tasks, chain->capacity * sizeof *chain->tasks);
        MOB_ASSERT(chain->tasks);
    }
    memcpy(chain->tasks + chain->count, tasks, count * sizeof *tasks);
    chain->count += count;
}

/* It has ended, and what it became has not. What runs at the ends of the chain first: its cancel is in the
 * log before the client's ring is acknowledged; then everybody's children. */
static void cancel_continued(
    struct node *node, const struct node_client *client, const struct mob_out_cancel *cancel)
{
    struct chain chain = {0};
    struct mob_task_id targets[TARGETS_AT_ONCE];
    struct mob_sched_kin kin;
    uint32_t count;
    chain_push(&chain, &cancel->task, 1);
    for (uint32_t i = 0; i < chain.count; i++) {
        struct node_task *task = node_task_find(node, chain.tasks[i]);
        if (task)
            cancel_live(node, client, task, *cancel);
        while ((count = node_tail_walk_targets(node, chain.tasks[i], targets, TARGETS_AT_ONCE)) > 0)
            chain_push(&chain, targets, count);
    }
    const struct node_tail_call *call = node_tail_call_of(node, cancel->task);
    for (uint32_t i = 0; cancel->recursive && i < chain.count; i++) {
        struct mob_out_cancel each = {.task = chain.tasks[i], .recursive = 1, .force = cancel->force};
        if (!node_tail_walk_kin(node, chain.tasks[i], &kin))
            continue;
        mob_sched_cancel_kin(node->sched, &kin, cancel->force != 0, node->now_ns);
        if (call && call->job && mob_sched_cancel_met_ended(node->sched))
            node_below_later(node, call->job, &each);
    }
    free(chain.tasks);
}

/* ---- of one that is not known here ----
 * It may have ended with a tail call before the node restarted, and what it became may run: the lineage says
 * what that is, link by link. Until the cancel is logged no effect leaves the node that came after it. */

struct late_cancel {
    struct node *node;
    struct mob_out_cancel cancel;
    uint32_t slot, session;
    uint64_t hold;
    uint32_t links;
    enum mob_status status; /* of the look-up of the task itself, */
    struct mob_job_id job; /* and whose it is */
    struct mob_task_id mark; /* one of the links: who comes by it again goes in a circle */
};

static void late_release(void *arg)
{
    struct late_cancel *late = arg;
    lineage_log_release(late->node->log, late->hold);
    free(late);
}

/* It has ended with a value. The walk below it takes its time, and the log says already what it is for: when
 * the node dies meanwhile the next one does not run what it would have found. */
static void cancel_below(struct node *node, const struct node_client *client, const struct late_cancel *late)
{
    if (late->status != MOB_OK)
        MOB_LOG_WARN("cancel", "not_below", "status=%s", mob_status_code(late->status));
    const struct node_job *job = node_job_by_id(node, late->job); /* of one that is not known nothing lives */
    if (!job || !may_cancel(client, job))
        return;
    node_cancel_log(node, job, &late->cancel);
    node_below_ended(node, job, &late->cancel);
}

static void late_end(struct late_cancel *late)
{
    struct node *node = late->node;
    const struct node_client *client =
        node_client_is(node, late->slot, late->session) ? node_client_at(node, late->slot) : NULL;
    const struct node_tail_call *call = node_tail_call_of(node, late->cancel.task);
    if (client && call && (!call->job || may_cancel(client, call->job))) {
        node_tail_walk_begin(node);
        cancel_continued(node, client, &late->cancel);
    } else if (client && !call && late->cancel.recursive) {
        cancel_below(node, client, late);
    }
    lineage_log_then(node->log, late_release, free, late); /* what was logged here comes first */
}

/* The first task's future among what it returned; others are found from it, once all are aliases. A put, its
 * own or another's, is no task that it could have become. */
static bool link_tails(struct node *node, const struct known *known, struct mob_task_id *next_out)
{
    struct mob_completion completion = {*known->completion, (const uint8_t *)(known->completion + 1)};
    struct mob_return_view r;
    uint32_t at = 0;
    bool any = false;
    while (completion.head.status == MOB_OK && mob_completion_next(&completion, &at, &r)) {
        if (r.type != MOB_TYPE_FUTURE || r.size != sizeof(struct mob_object_id) || !r.payload)
            continue;
        struct node_tail_call call = {.id = mob_object_of(known->id.task, r.slot),
            .submitter = NODE_NOBODY,
            .job = known->spec ? node_job_by_id(node, known->spec->job) : NULL,
            .generation = completion.head.generation,
            .children = NODE_CHILDREN_UNKNOWN};
        memcpy(&call.target, r.payload, sizeof call.target);
        if (call.target.slot & MOB_SLOT_PUT)
            continue;
        node_alias(node, &call);
        if (!any)
            *next_out = call.target.task;
        any = true;
    }
    return any;
}

/* The mark moves on at every power of two, so that it comes to lie in the circle that a chain may end in. */
static bool in_circle(struct late_cancel *late, struct mob_task_id next)
{
    if (mob_task_id_eq(next, late->mark))
        return true;
    if ((late->links & (late->links - 1)) == 0)
        late->mark = next;
    return false;
}

static void on_link(void *arg, enum mob_status status, const struct known *known)
{
    struct late_cancel *late = arg;
    struct mob_task_id next;
    if (late->links == 0) {
        late->status = status;
        if (status == MOB_OK && known->spec)
            late->job = known->spec->job;
    }
    bool linked = status == MOB_OK && known->completion && link_tails(late->node, known, &next);
    late->links += linked;
    if (linked && late->links < LINKS_MAX && !in_circle(late, next) && !node_task_find(late->node, next))
        known_ask(late->node, mob_object_of(next, 0), on_link, late);
    else
        late_end(late);
}

static void cancel_late(
    struct node *node, const struct node_client *client, const struct mob_out_cancel *cancel)
{
    struct late_cancel *late = malloc(sizeof *late);
    MOB_ASSERT(late);
    *late = (struct late_cancel){.node = node,
        .cancel = *cancel,
        .slot = client->slot,
        .session = client->session,
        .hold = lineage_log_hold(node->log),
        .mark = cancel->task};
    known_ask(node, mob_object_of(cancel->task, 0), on_link, late);
}

void node_cancel(struct node *node, const struct node_client *client, const struct mob_out_cancel *cancel)
{
    struct node_task *task = node_task_find(node, cancel->task);
    const struct node_tail_call *call = task ? NULL : node_tail_call_of(node, cancel->task);
    node_tail_walk_begin(node);
    if (task)
        cancel_live(node, client, task, *cancel);
    else if (!call)
        cancel_late(node, client, cancel);
    else if (!call->job || may_cancel(client, call->job))
        cancel_continued(node, client, cancel);
}

void node_cancel_note_stop(struct node *node, struct node_task *task, enum mob_status why)
{
    if (why != MOB_CANCELLED || (task->flags & TASK_UNLOGGED))
        return;
    struct mob_out_cancel cancel = {.task = task->sched.id, .recursive = 1};
    node_cancel_log(node, task->template->job, &cancel);
}
