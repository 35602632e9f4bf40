/* A task that runs again first gets the outcomes that its earlier run logged (ARCHITECTURE "Identity"): they
 * are read from the lineage and put into the worker's ring in front of its spec.
 */
#include <stdlib.h>

#include "common/base/log.h"
#include "runtime/node/directory.h"
#include "runtime/node/node.h"

struct outcome {
    struct outcome *next;
    struct mob_out_outcome head;
    uint8_t payload[];
};
struct outcome_read {
    struct node *node;
    struct mob_task_id task;
    uint32_t generation, attempt, worker;
    uint32_t worker_session;
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

static bool send_outcomes(struct node *node, struct node_client *client, const struct outcome_read *read)
{
    for (const struct outcome *o = read->first; o; o = o->next) {
        uint8_t *body = node_in_reserve(
            node, client, MOB_IN_OUTCOME, 0, 0, (uint32_t)sizeof o->head + o->head.payload_bytes);
        if (!body)
            return false;
        memcpy(body, &o->head, sizeof o->head);
        memcpy(body + sizeof o->head, o->payload, o->head.payload_bytes);
    }
    return true;
}

static void on_done(void *arg, enum mob_status status)
{
    struct outcome_read *read = arg;
    struct node *node = read->node;
    struct node_task *task = node_task_find(node, read->task);
    struct node_worker *worker = node_worker_at(node, read->worker);
    if (task && worker && task->sched.state == MOB_SCHED_DISPATCHED && task->sched.worker == read->worker &&
        node_task_attempt(task) == read->attempt &&
        node_client_is(node, worker->slot, read->worker_session)) {
        struct node_client *client = node->clients[worker->slot];
        if (status != MOB_OK)
            MOB_LOG_WARN("outcomes", "unread", "status=%s", mob_status_code(status));
        if (!send_outcomes(node, client, read) || !node_send_task(node, client, task))
            node_worker_kill(node, worker, MOB_WORKER_DIED, "its ring is full: it does not read");
    }
    while (read->first) {
        struct outcome *next = read->first->next;
        free(read->first);
        read->first = next;
    }
    free(read);
}

void node_send_behind_outcomes(struct node *node, struct node_client *client, struct node_task *task)
{
    struct outcome_read *read = calloc(1, sizeof *read);
    MOB_ASSERT(read);
    *read = (struct outcome_read){
        .node = node,
        .task = task->sched.id,
        .generation = task->extra ? task->extra->generation : task->template->head.generation,
        .attempt = node_task_attempt(task),
        .worker = client->worker->number,
        .worker_session = client->session,
    };
    read->last = &read->first;
    struct group_reader reader = {on_entry, on_done, read};
    node_group_read(node, task->sched.id.stream, task->sched.id.index >> MOB_GROUP_SHIFT, &reader);
}
