#include "runtime/node/plain.h"

#include "runtime/node/actors.h"
#include "runtime/node/jobs.h"
#include "runtime/node/known.h"

/* ---- beginnings ---- */

/* Ids of one stream come in growing order from their client: nobody knows it yet. */
static bool is_fresh(const struct node_client *client, const struct node_template *template, uint32_t index)
{
    return index >= client->next_index && mob_stream_eq(client->stream, template->head.task.stream) &&
        !client->look_up;
}

static bool under_pressure(const struct node *node)
{
    struct mob_gcs_position at;
    mob_gcs_position(node->gcs, &at);
    return at.pressure;
}

static enum mob_status schedule(struct node *node, struct node_task *task, struct node_task *parent)
{
    struct node_template *template = task->template;
    const struct mob_spec_head *head = &template->head;
    uint16_t job;
    enum mob_status status = head->kind == MOB_KIND_ACTOR_CALL ? node_actor_enqueue(node, task) : MOB_OK;
    if (status == MOB_OK)
        status = node_job_number(node, template->job, &job);
    if (status != MOB_OK)
        return status;
    struct mob_sched_submit in = {
        .id = task->sched.id,
        .parent = parent ? &parent->sched : NULL,
        .job = job,
        .class_id = template->sched_class,
        .function = template->sched_function,
        .priority = head->priority,
        .max_retries = head->max_retries,
        .flags = head->flags & MOB_SPEC_RETRY_ON_ERROR ? MOB_SCHED_RETRY_ON_ERROR : 0,
    };
    if (head->kind == MOB_KIND_ACTOR_CALL)
        in.actor = node_actor_number(node, task);
    status = mob_sched_submit(node->sched, &task->sched, &in, node->now_ns);
    task->ready_us = node_elapsed_us(task->submitted_ns, node->now_ns);
    return status;
}

bool node_submit_plain(struct node *node, struct node_client *client, struct node_template *template,
    const struct plain_sibling *sibling)
{
    const struct node_function *function = template->function;
    struct node_task *parent = NULL;
    if (!template->plain || template->refused != MOB_OK || !function ||
        template->head.not_before_wall_ns != 0 || template->head.deadline_wall_ns != 0 ||
        !is_fresh(client, template, sibling->index) || !mob_spec_tail_is_word(sibling->tail))
        return false;
    if (client->kind == MOB_CLIENT_WORKER) {
        parent = node_template_parent(node, template);
        if (!parent || (parent->flags & TASK_LOOK_UP))
            return false;
    } else if (under_pressure(node)) {
        return false;
    }
    struct mob_spec_head head = template->head;
    head.task.index = sibling->index;
    head.caller_seq = sibling->caller_seq;
    const uint8_t *tail = (const uint8_t *)sibling->tail;
    struct node_task *task = node_task_create(node, template, head.task, tail, sizeof sibling->tail);
    if (!task)
        return false;
    client->next_index = sibling->index + 1;
    struct node_job *job = template->job;
    node->submitted++;
    job->submitted++;
    lineage_log_job(node->log, job->id, job->ns);
    lineage_log_spec(node->log, &head, tail, sizeof sibling->tail, sibling->submitted_ns);
    known_logged(node, head.task);
    task->submitted_ns = sibling->submitted_ns;
    task->submitter = (uint16_t)client->slot;
    task->submitter_session = client->session;
    if (head.kind == MOB_KIND_ACTOR_CALL)
        node_task_extra(node, task)->caller_seq = head.caller_seq;
    enum mob_status status = schedule(node, task, parent);
    if (status != MOB_OK)
        node_submit_refused(node, task, status);
    return true;
}

/* ---- ends ---- */

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

bool node_complete_plain(struct node *node, struct node_client *client, const uint8_t *body, uint32_t bytes)
{
    struct mob_completion_word word;
    struct mob_return_word ret;
    struct node_worker *worker = client->worker;
    if (!worker || client->closing || mob_completion_word_open(body, bytes, &word) != MOB_OK)
        return false;
    struct node_task *task = running_plain(node, worker, word.task);
    if (!task)
        return false;
    struct node_job *job = task->template->job;
    worker->ended++;
    struct mob_completion_head head = mob_completion_of_word(&word, &ret).head;
    int64_t run_ns = head.finished_ns - head.started_ns;
    head.worker = worker->serial;
    node_fill_times(task, &head);
    (void)mob_sched_finished(node->sched, &task->sched, MOB_OK, run_ns, node->now_ns);
    lineage_log_job(node->log, job->id, job->ns);
    lineage_log_completion(node->log, &head, (const uint8_t *)&ret);
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
