#include "runtime/node/plain.h"

#include "runtime/node/actors.h"
#include "runtime/node/known.h"

/* Of a completion's body with one small return of eight bytes. */
struct one_word {
    uint32_t slot;
    uint8_t type, flags;
    uint16_t zero;
    uint64_t size;
    uint64_t value;
};
_Static_assert(sizeof(struct one_word) == 24, "layout of returns, completion.h");

static bool ended_plainly(const struct mob_completion_head *head, const struct one_word *ret)
{
    return head->version == MOB_COMPLETION_VERSION && head->reserved == 0 && head->status == MOB_OK &&
        head->return_count == 1 && head->attempt == 1 && head->body_bytes == sizeof *ret && ret->slot == 0 &&
        (ret->type == MOB_TYPE_I64 || ret->type == MOB_TYPE_F64) && ret->flags == 0 && ret->zero == 0 &&
        ret->size == sizeof ret->value;
}

/* Of the tasks whose completions are taken in the order in which they were sent: the one that runs, if this
 * is it and it is plain. */
static struct node_task *running_plain(
    struct node *node, const struct node_worker *worker, struct mob_task_id id)
{
    struct node_task *task = (struct node_task *)mob_sched_first(node->sched, (uint16_t)worker->number);
    bool plain = task && mob_task_id_eq(task->sched.id, id) && task->template->plain &&
        (task->flags & (uint8_t)~TASK_ACTOR_CALL) == 0 && task->sched.state == MOB_SCHED_DISPATCHED &&
        (!task->extra || (task->extra->attempt == 1 && !task->extra->shadow));
    return plain ? task : NULL;
}

bool node_complete_plain(
    struct node *node, struct node_client *client, const uint8_t *body, uint32_t bytes)
{
    struct mob_completion_head head;
    struct one_word ret;
    const struct node_worker *worker = client->worker;
    if (bytes != sizeof head + sizeof ret || !worker || client->closing)
        return false;
    memcpy(&head, body, sizeof head);
    memcpy(&ret, body + sizeof head, sizeof ret);
    struct node_task *task = ended_plainly(&head, &ret) ? running_plain(node, worker, head.task) : NULL;
    if (!task)
        return false;
    struct node_job *job = task->template->job;
    int64_t run_ns = head.finished_ns - head.started_ns;
    head.worker = worker->serial;
    head.flags = MOB_COMPLETION_FINAL;
    node_fill_times(task, &head);
    (void)mob_sched_finished(node->sched, &task->sched, MOB_OK, run_ns, node->now_ns);
    lineage_log_job(node->log, job->id, job->ns);
    lineage_log_completion(node->log, &head, body + sizeof head);
    known_logged(node, head.task);
    if (task->flags & TASK_ACTOR_CALL)
        node_actor_task_ended(node, task, &head, NULL);
    node->finished++;
    job->finished++;
    struct log_result result = {
        .worker = worker->number,
        .slot = task->submitter == TASK_NO_SUBMITTER ? NODE_NOBODY : task->submitter,
        .session = task->submitter_session,
        .type = ret.type,
        .task = head.task,
        .value = ret.value,
    };
    node_result_ready(node, &result);
    node_task_destroy(node, task);
    return true;
}
