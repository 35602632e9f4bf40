/* A task that runs again first gets the outcomes that its earlier run logged (ARCHITECTURE "Identity"): they
 * are read from the lineage and put into the worker's ring in front of its spec.
 */
#include <stdlib.h>

#include "common/base/log.h"
#include "runtime/node/directory.h"
#include "runtime/node/dispatch.h"
#include "runtime/node/node.h"
#include "runtime/node/notices.h"
#include "runtime/node/task.h"
#include "runtime/node/workers.h"

struct outcome {
    struct outcome *next;
    struct mob_out_outcome head;
    uint8_t payload[];
};
/* A task in its worker's order of sending. Those whose outcomes are being read hold up the ones behind them:
 * calls of an actor must not overtake each other. */
struct outcome_read {
    struct outcome_read *behind;
    bool done, abandoned;
    struct node *node;
    struct mob_task_id task;
    uint32_t generation, attempt, worker;
    struct outcome *first, **last;
};

static void on_entry(void *arg, const struct mob_entry *e, const struct mob_block_header *block)
{
    struct outcome_read *read = arg;
    (void)block;
    if (e->type != MOB_ENTRY_OUTCOME || !mob_task_id_eq(e->outcome.task, read->task) ||
        e->outcome.generation != read->generation)
        return;
    for (struct outcome *o = read->first; o; o = o->next)
        if (o->head.sequence == e->outcome.sequence)
            return; /* the first one logged stands */
    struct outcome *o = malloc(sizeof *o + e->payload_bytes);
    MOB_ASSERT(o);
    o->next = NULL;
    o->head = e->outcome;
    memcpy(o->payload, e->payload, e->payload_bytes);
    *read->last = o;
    read->last = &o->next;
}

/* Those that went are gone from the list, so that a full ring is no reason to send one twice. */
static bool send_outcomes(struct node *node, struct node_client *client, struct outcome_read *read)
{
    while (read->first) {
        struct outcome *o = read->first;
        uint8_t *body = node_in_reserve(
            node, client, MOB_IN_OUTCOME, 0, 0, (uint32_t)sizeof o->head + o->head.payload_bytes);
        if (!body)
            return false;
        memcpy(body, &o->head, sizeof o->head);
        memcpy(body + sizeof o->head, o->payload, o->head.payload_bytes);
        read->first = o->next;
        free(o);
    }
    return true;
}

static void read_destroy(struct outcome_read *read)
{
    while (read->first) {
        struct outcome *next = read->first->next;
        free(read->first);
        read->first = next;
    }
    free(read);
}

/* The worker and attempt that the task was to be sent to are still the ones? */
static struct node_task *still_wanted(struct node *node, const struct outcome_read *read)
{
    struct node_task *task = node_task_find(node, read->task);
    if (!task || task->sched.worker != read->worker || node_task_attempt(task) != read->attempt ||
        task->sched.state != MOB_SCHED_DISPATCHED)
        return NULL;
    return task;
}

void node_send_held(struct node *node, struct node_worker *worker)
{
    struct node_client *client = node->clients[worker->slot];
    while (worker->held && worker->held->done) {
        struct outcome_read *read = worker->held;
        struct node_task *task = still_wanted(node, read);
        if (task && (!send_outcomes(node, client, read) || !node_send_task(node, client, task))) {
            node_worker_no_room(node, worker);
            return; /* goes on when the ring has emptied */
        }
        worker->held = read->behind;
        if (!worker->held)
            worker->held_last = NULL;
        read_destroy(read);
    }
}

static void read_outcomes(struct outcome_read *read);

/* Not without them: its run would get others than the one before, and differ from what is in the log. */
static void on_done(void *arg, enum mob_status status)
{
    struct outcome_read *read = arg;
    struct node *node = read->node;
    struct node_worker *worker = node_worker_at(node, read->worker);
    if (read->abandoned || !worker) { /* its worker is gone */
        read_destroy(read);
        return;
    }
    if (status != MOB_OK && still_wanted(node, read)) {
        MOB_LOG_WARN("outcomes", "unread", "status=%s", mob_status_code(status));
        read_outcomes(read);
        return;
    }
    read->done = true;
    node_send_held(node, worker);
}

/* Abandoned: its worker's record went before. */
static void on_drop(void *arg)
{
    read_destroy(arg);
}

static void read_outcomes(struct outcome_read *read)
{
    struct group_reader reader = {.entry = on_entry, .done = on_done, .drop = on_drop, .arg = read};
    node_group_read(read->node, read->task.stream, read->task.index >> MOB_GROUP_SHIFT, &reader);
}

void node_send_in_order(struct node *node, struct node_client *client, struct node_task *task)
{
    struct node_worker *worker = client->worker;
    struct outcome_read *read = calloc(1, sizeof *read);
    MOB_ASSERT(read);
    *read = (struct outcome_read){
        .node = node,
        .task = task->sched.id,
        .generation = node_task_generation(task),
        .attempt = node_task_attempt(task),
        .worker = worker->number,
    };
    read->last = &read->first;
    if (worker->held_last)
        worker->held_last->behind = read;
    else
        worker->held = read;
    worker->held_last = read;
    if ((task->flags & (TASK_LOOK_UP | TASK_NO_OUTCOMES)) != TASK_LOOK_UP) {
        read->done = true;
        return; /* only waits for those before it */
    }
    read_outcomes(read);
}

void node_worker_abandon_held(struct node_worker *worker)
{
    while (worker->held) {
        struct outcome_read *read = worker->held;
        worker->held = read->behind;
        if (read->done)
            read_destroy(read);
        else
            read->abandoned = true; /* its read ends by itself */
    }
    worker->held_last = NULL;
}
