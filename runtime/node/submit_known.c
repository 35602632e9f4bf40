/* Submissions whose ids may be in the lineage already: of a driver that came again, of a task that runs
 * again (ARCHITECTURE "Ownership": they are looked up first). What is known is answered from there, what is
 * not is new. */
#include "common/base/log.h"
#include "runtime/node/notices.h"
#include "runtime/node/resolve.h"
#include "runtime/node/submit.h"
#include "runtime/node/task.h"
#include "runtime/node/workers.h"

static bool same_submission(
    const struct known *known, const struct mob_spec_head *head, const uint8_t *tail, uint32_t tail_bytes)
{
    struct mob_spec_head first = *known->spec;
    first.caller_seq = head->caller_seq;
    first.generation = head->generation;
    node_spec_reads_alike(&first, head);
    struct mob_hash128 a =
        mob_spec_digest(&first, (const uint8_t *)(known->spec + 1), known->spec_tail_bytes);
    struct mob_hash128 b = mob_spec_digest(head, tail, tail_bytes);
    return mob_hash128_eq(a, b);
}

static uint32_t slots_of(const struct mob_spec_head *head)
{
    return head->num_returns == MOB_RETURNS_STREAM || head->num_returns == 0 ? 1 : head->num_returns;
}

void node_tell_diverged(struct node *node, struct node_client *client, const struct mob_spec_head *head)
{
    char id[MOB_ID_TEXT_MAX];
    MOB_LOG_WARN("submit", "replay_diverged", "task=%s", mob_task_id_format(head->task, id));
    struct node_task *parent = node_task_find(node, head->parent);
    if (parent && node_extra_of(parent))
        node_extra_of(parent)->diverged = true;
    for (uint32_t slot = 0; slot < slots_of(head); slot++) {
        struct ready_object object = {.id = mob_object_of(head->task, slot),
            .status = MOB_REPLAY_DIVERGED,
            .type = MOB_TYPE_ERROR,
            .flags = MOB_READY_COMMITTED,
            .committed = true};
        node_notice_ready(node, client->slot, &object);
    }
}

/* A call that is in the log and neither finished nor queued: it never had a position. */
static void call_again(struct node *node, struct node_client *client, const struct known *known)
{
    struct node_task *task;
    enum mob_status status = node_resubmit_known(node, known, 0, &task);
    if (status != MOB_OK) {
        node_ready_committed(node, known->id, status, MOB_TYPE_ERROR, client->slot, client->session);
        return;
    }
    task->submitter = (uint16_t)client->slot;
    task->submitter_session = client->session;
    node_enter(node, task);
}

static void answer_from_lineage(struct node *node, struct node_client *client,
    const struct mob_spec_head *head, const struct known *known)
{
    node->duplicates++;
    if (!known->completion && head->kind == MOB_KIND_ACTOR_CALL) {
        call_again(node, client, known);
        return;
    }
    for (uint32_t slot = 0; slot < slots_of(head); slot++) {
        struct known of_slot = *known;
        of_slot.id.slot = slot;
        node_result_known(node, &of_slot, client->slot, client->session);
    }
}

/* The control store has not answered for long, which says nothing of the task: a parent that is told of a
 * failure may pass over it, and give another result than it gave before. So its attempt ends here, and the
 * next one asks again; what it has published behind this may be its end, without this child. Who is no task
 * hears what it is. */
static void tell_unanswered(
    struct node *node, struct node_client *client, const struct mob_spec_head *head, enum mob_status status)
{
    char id[MOB_ID_TEXT_MAX];
    MOB_LOG_WARN("submit", "not_looked_up", "task=%s status=%s", mob_task_id_format(head->task, id),
        mob_status_code(status));
    if (client->kind != MOB_CLIENT_WORKER) {
        node_ready_committed(
            node, mob_object_of(head->task, 0), status, MOB_TYPE_ERROR, client->slot, client->session);
        return;
    }
    client->damaged = true;
    if (client->worker && !client->closing)
        node_worker_kill(node, client->worker, MOB_WORKER_DIED,
            "the control store does not say what its task has submitted before");
}

bool node_submit_looked_up(struct node *node, struct node_client *client, const struct mob_spec_head *head,
    struct node_template *template, int64_t submitted_ns, const uint8_t *tail, uint32_t tail_bytes,
    bool keyed)
{
    struct known_question *question = node->intake_question;
    enum mob_status status;
    if (!question || !mob_task_id_eq(known_of(question)->id.task, head->task)) {
        known_forget(node, question);
        node->intake_question = known_ask(node, mob_object_of(head->task, 0), NULL, NULL);
        return false;
    }
    if (!known_answered(node, question, &status))
        return false;
    const struct known *known = known_of(question);
    if (status != MOB_OK)
        tell_unanswered(node, client, head, status);
    else if (!known->spec)
        node_submit_fresh(node, client, head, template, submitted_ns, tail, tail_bytes);
    else if (!keyed && !same_submission(known, head, tail, tail_bytes))
        node_tell_diverged(node, client, head);
    else
        answer_from_lineage(node, client, head, known);
    return true;
}
