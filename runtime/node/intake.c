/* One outbound record of a client: checked, then handed to what it concerns. Bytes come from shared memory
 * that the client can write, so every size is checked against the record, and what is kept is copied.
 */
#include <stdlib.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "runtime/node/actors.h"
#include "runtime/node/announce.h"
#include "runtime/node/awaited_puts.h"
#include "runtime/node/borrowed.h"
#include "runtime/node/complete.h"
#include "runtime/node/durable_puts.h"
#include "runtime/node/jobs.h"
#include "runtime/node/known.h"
#include "runtime/node/large_hashes.h"
#include "runtime/node/notices.h"
#include "runtime/node/plain.h"
#include "runtime/node/remade.h"
#include "runtime/node/submit.h"
#include "runtime/node/suspended.h"
#include "runtime/node/task.h"
#include "runtime/node/workers.h"

enum { SPEC_PREFIX = 8, SIBLING_PREFIX = 16 };

static void bad_record(struct node *node, struct node_client *client, const char *what)
{
    MOB_LOG_WARN("intake", "bad_record", "slot=%u kind=%u what=\"%s\"", client->slot, client->kind, what);
    node_client_damaged(node, client);
}

static bool is_keyed(const struct node_client *client, const struct mob_record *record)
{
    return (client->flags & MOB_SESSION_GATEWAY) && (record->aux & MOB_SPEC_KEYED);
}

static uint32_t slot_of(const struct mob_record *record)
{
    return record->aux & ~MOB_SPEC_KEYED;
}

/* Which job a spec belongs to: the session's own, or for a worker the job of the task that runs. */
static struct node_job *job_of(
    struct node *node, struct node_client *client, const struct mob_spec_head *head)
{
    if (client->kind == MOB_CLIENT_WORKER || (client->flags & MOB_SESSION_GATEWAY))
        return node_job_by_id(node, head->job);
    return client->job;
}

static bool may_submit(struct node *node, struct node_client *client, const struct mob_spec_head *head)
{
    if (client->kind == MOB_CLIENT_WORKER) {
        struct node_task *parent = node_task_find(node, head->parent);
        return parent && client->worker && parent->sched.worker == client->worker->number;
    }
    return (client->flags & MOB_SESSION_GATEWAY) || mob_task_id_eq(head->parent, client->root);
}

static bool submit(struct node *node, struct node_client *client, const struct mob_spec_head *head,
    struct node_template *template, int64_t submitted_ns, const uint8_t *tail, uint32_t tail_bytes,
    bool keyed)
{
    if (template->refused == MOB_OK)
        return node_submit(node, client, head, template, submitted_ns, tail, tail_bytes, keyed);
    node_fail_without_record(node, client->slot, client->session, head, template->refused,
        "its resources cannot be expressed here");
    return true;
}

static bool take_spec(struct node *node, struct node_client *client, uint32_t slot, const uint8_t *body,
    uint32_t bytes, bool keyed)
{
    struct mob_spec spec;
    int64_t submitted_ns;
    if (slot >= MOB_HEAD_SLOTS || bytes < SPEC_PREFIX ||
        mob_spec_open(body + SPEC_PREFIX, bytes - SPEC_PREFIX, &spec) != MOB_OK) {
        bad_record(node, client, "spec");
        return true;
    }
    memcpy(&submitted_ns, body, sizeof submitted_ns);
    struct node_job *job = job_of(node, client, &spec.head);
    if (!job || !may_submit(node, client, &spec.head)) {
        bad_record(node, client, "spec of a foreign parent or job");
        return true;
    }
    spec.head.job = job->id;
    spec.head.attempt = 1;
    struct node_template *template = node_template_make(node, &spec.head, spec.tail, job);
    node_template_ask_class(template);
    spec.head.flags = template->head.flags;
    node_template_place(node, &client->templates[slot], template);
    return submit(node, client, &spec.head, template, submitted_ns, spec.tail, spec.tail_bytes, keyed);
}

/* A head may stand in its slot for long: what was checked when it came must still be so. */
static bool may_submit_again(struct node *node, struct node_client *client, struct node_template *template)
{
    if (client->kind != MOB_CLIENT_WORKER)
        return true; /* its root is what it was */
    const struct node_task *parent = node_template_parent(node, template);
    return parent && client->worker && parent->sched.worker == client->worker->number;
}

/* Deployed since its head came? */
static void find_function_again(struct node *node, struct node_template *template)
{
    bool unknown = !template->function;
    node_template_find_function(node, template);
    if (unknown)
        node_template_ask_class(template);
}

static bool take_sibling(struct node *node, struct node_client *client, uint32_t slot, const uint8_t *body,
    uint32_t bytes, bool keyed)
{
    int64_t submitted_ns;
    uint16_t args;
    uint32_t tail_bytes;
    struct node_template *template = slot < MOB_HEAD_SLOTS ? client->templates[slot] : NULL;
    if (!template || bytes < SIBLING_PREFIX + 8 || !may_submit_again(node, client, template) ||
        mob_spec_tail_check(body + SIBLING_PREFIX, bytes - SIBLING_PREFIX, &args) != MOB_OK) {
        bad_record(node, client, "sibling");
        return true;
    }
    find_function_again(node, template);
    memcpy(&tail_bytes, body + SIBLING_PREFIX + 4, sizeof tail_bytes);
    struct mob_spec_head head = template->head;
    memcpy(&submitted_ns, body, sizeof submitted_ns);
    memcpy(&head.task.index, body + 8, 4);
    memcpy(&head.caller_seq, body + 12, 4);
    return submit(node, client, &head, template, submitted_ns, body + SIBLING_PREFIX, tail_bytes, keyed);
}

uint32_t node_intake_plain(struct node *node, struct node_client *client, const struct mob_store_run *run)
{
    const struct mob_record *record = &run->record;
    if (record->type == MOB_OUT_COMPLETION && record->aux == MOB_COMPLETION_SHORT)
        return node_complete_plain(node, client, run);
    struct node_template *template = record->aux < MOB_HEAD_SLOTS ? client->templates[record->aux] : NULL;
    if (record->type != MOB_OUT_SIBLING || !template || !may_submit_again(node, client, template))
        return 0;
    find_function_again(node, template);
    return node_submit_plain(node, client, template, run);
}

static enum mob_status open_completion(const struct mob_record *record, const uint8_t *body, uint32_t bytes,
    struct mob_completion *out, struct mob_return_word *place)
{
    struct mob_completion_word word;
    if (record->aux != MOB_COMPLETION_SHORT)
        return mob_completion_open(body, bytes, out);
    enum mob_status status = mob_completion_word_open(body, bytes, &word);
    if (status == MOB_OK)
        *out = mob_completion_of_word(&word, place);
    return status;
}

static void take_completion(struct node *node, struct node_client *client, const struct mob_record *record,
    const uint8_t *body, uint32_t bytes)
{
    struct mob_completion completion;
    struct mob_return_word place;
    if (client->kind != MOB_CLIENT_WORKER ||
        open_completion(record, body, bytes, &completion, &place) != MOB_OK) {
        bad_record(node, client, "completion");
        return;
    }
    node_complete(node, client, &completion);
}

/* Logged, so that whoever waits for it after the end of this node knows that its client will send it. */
static void take_promise(struct node *node, struct node_client *client, const struct mob_out_put *put)
{
    if (!node_promise_make(node, client, put->id)) {
        bad_record(node, client, "promise");
        return;
    }
    awaited_puts_remove(node, put->id);
    if (client->kind == MOB_CLIENT_WORKER)
        return; /* its task makes it again */
    struct mob_out_put entry = {.id = put->id, .type = MOB_TYPE_NULL, .flags = MOB_PUT_PROMISE};
    lineage_log_job(node->log, client->job->id, client->job->ns);
    lineage_log_put(node->log, &entry, NULL);
    known_logged(node, put->id.task);
}

/* In whose name a put is logged, and what the log says of it already. */
struct put_owner {
    struct node_job *job;
    bool again; /* the log says what it is */
    bool known; /* and it was found to be that */
};

/* A worker's put. False: there is nothing to log. */
static bool owner_of_put(
    struct node *node, struct node_client *client, const struct mob_out_put *put, struct put_owner *owner_out)
{
    struct node_task *task = node_task_find(node, put->id.task);
    if (!task && client->worker) { /* an argument page of a child that comes next */
        struct mob_sched_task *running;
        if (mob_sched_batch(node->sched, (uint16_t)client->worker->number, &running, 1) > 0)
            task = (struct node_task *)running;
    }
    if (!task || task->flags & TASK_UNLOGGED) { /* its task was taken from this worker; or nobody logs it */
        (void)mob_store_seal_published(node->store, put->id, client->slot);
        return false;
    }
    struct mob_return_view view;
    bool again = false;
    if (mob_task_id_eq(task->sched.id, put->id.task)) {
        view = node_remade_view_of_put(put);
        again = put->inline_bytes < put->size && node_remade_expects(task, put->id.slot);
    }
    if (again && node_remade_item_differs(task, &view)) {
        node_announce_other_put(node, task, client, &view);
        return false;
    }
    bool known = again && node_remade_hash_known(task, &view);
    *owner_out = (struct put_owner){.job = task->template->job, .again = again, .known = known};
    return true;
}

static void want_hash(struct node *node, const struct node_client *client, struct mob_object_id id,
    const struct put_owner *owner)
{
    struct large_hash_wanted wanted = {.id = id,
        .job = owner->job->id,
        .ns = owner->job->ns,
        .slot = client->slot,
        .session = client->session,
        .again = owner->again};
    (void)!large_hashes_want(node, &wanted); /* gone already: committed as its record is */
}

static void take_put(struct node *node, struct node_client *client, const uint8_t *body, uint32_t bytes)
{
    struct mob_out_put put;
    if (bytes >= sizeof put)
        memcpy(&put, body, sizeof put);
    if (bytes < sizeof put || put.inline_bytes > MOB_PUT_INLINE_MAX ||
        put.inline_bytes > bytes - sizeof put) {
        bad_record(node, client, "put");
        return;
    }
    if (put.flags & MOB_PUT_PROMISE) {
        take_promise(node, client, &put);
        return;
    }
    if (node->promise_count > 0)
        node_promise_kept(node, put.id);
    awaited_puts_remove(node, put.id);
    if (put.type == MOB_TYPE_NONE || put.type >= MOB_TYPE_COUNT) {
        bad_record(node, client, "put of an unknown type");
        return;
    }
    struct put_owner owner = {.job = client->job};
    if (client->kind == MOB_CLIENT_WORKER && !owner_of_put(node, client, &put, &owner))
        return;
    /* Larger ones of a task are made again by a replay, but not while it runs, and an actor's not at all:
     * they go to disk. */
    bool remakeable = put.inline_bytes > 0 || put.size == 0;
    lineage_log_job(node->log, owner.job->id, owner.job->ns);
    lineage_log_put(node->log, &put, remakeable ? body + sizeof put : NULL);
    known_logged(node, put.id.task);
    struct ready_object object = {
        .id = put.id,
        .type = (enum mob_value_type)put.type,
        .size = put.size,
        .remakeable = remakeable,
        .small = put.inline_bytes == put.size && put.size <= EFFECT_INLINE_MAX ? body + sizeof put : NULL,
    };
    /* sealed by its maker after this record; the scheduler may look at it now, so make sure it is */
    (void)mob_store_seal_published(node->store, put.id, client->slot);
    if ((put.flags & MOB_PUT_HASH_LATER) && !owner.known)
        want_hash(node, client, put.id, &owner);
    if (client->kind != MOB_CLIENT_WORKER && put.inline_bytes == 0 && put.size > 0)
        durable_puts_write(node->puts, client, put.id);
    node_object_ready(node, &object, NODE_NOBODY, 0);
}

static void take_outcome(struct node *node, struct node_client *client, const uint8_t *body, uint32_t bytes)
{
    struct mob_out_outcome outcome;
    if (bytes < sizeof outcome) {
        bad_record(node, client, "outcome");
        return;
    }
    memcpy(&outcome, body, sizeof outcome);
    struct node_task *task = node_task_find(node, outcome.task);
    if (outcome.payload_bytes > bytes - sizeof outcome || !task) {
        if (task)
            bad_record(node, client, "outcome");
        return;
    }
    if (task->flags & (TASK_UNLOGGED | TASK_REMAKE))
        return;
    lineage_log_job(node->log, task->template->job->id, task->template->job->ns);
    lineage_log_other(
        node->log, MOB_ENTRY_OUTCOME, &outcome, sizeof outcome, body + sizeof outcome, outcome.payload_bytes);
}

static void take_event(struct node *node, struct node_client *client, const uint8_t *body, uint32_t bytes)
{
    struct mob_out_event event;
    if (bytes < sizeof event) {
        bad_record(node, client, "event");
        return;
    }
    memcpy(&event, body, sizeof event);
    struct node_task *task = node_task_find(node, event.task);
    uint64_t payload = (uint64_t)event.type_bytes + event.json_bytes;
    if (payload > bytes - sizeof event || !task)
        return;
    if (task->flags & TASK_UNLOGGED)
        return;
    lineage_log_job(node->log, task->template->job->id, task->template->job->ns);
    lineage_log_other(
        node->log, MOB_ENTRY_EVENT, &event, sizeof event, body + sizeof event, (uint32_t)payload);
}

static void take_blocked(
    struct node *node, struct node_client *client, const uint8_t *body, uint32_t bytes, bool blocked)
{
    struct mob_task_id id;
    if (bytes < sizeof id || !client->worker) {
        bad_record(node, client, "blocked");
        return;
    }
    memcpy(&id, body, sizeof id);
    struct node_task *task = node_task_find(node, id);
    if (!task || task->sched.worker != client->worker->number)
        task = NULL;
    if (!blocked) {
        if (task)
            mob_sched_unblocked(node->sched, &task->sched, node->now_ns);
        return;
    }
    uint32_t revoked;
    enum mob_status status =
        task ? mob_sched_blocked(node->sched, &task->sched, &revoked, node->now_ns) : MOB_NOT_FOUND;
    /* the worker counts one marker for each BLOCKED it published, whatever came of it */
    if (!node_in_append(node, client, MOB_IN_REVOKED, 0, (uint16_t)status, 0))
        node_worker_kill(node, client->worker, MOB_WORKER_DIED, "its ring is full: it does not read");
    if (status == MOB_TOO_MANY_BLOCKED)
        node_worker_over_bound(node, client->worker);
}

static void take_cancel(struct node *node, struct node_client *client, const uint8_t *body, uint32_t bytes)
{
    struct mob_out_cancel cancel;
    if (bytes < sizeof cancel) {
        bad_record(node, client, "cancel");
        return;
    }
    memcpy(&cancel, body, sizeof cancel);
    node_cancel(node, client, &cancel);
}

static void take_watch(struct node *node, struct node_client *client, const struct mob_record *record,
    const uint8_t *body, uint32_t bytes)
{
    for (uint32_t i = 0; i < record->aux && (i + 1) * sizeof(struct mob_object_id) <= bytes; i++) {
        struct mob_object_id id;
        memcpy(&id, body + i * sizeof id, sizeof id);
        node_watch(node, client, id);
    }
}

/* A driver's own puts go while none of its tasks can need them: their bytes are in the log or on disk. */
static void driver_lets_go(struct node *node, const struct node_client *client, struct mob_object_id id)
{
    const struct node_job *job = client->job;
    if (job && job->submitted == job->finished + job->failed && (id.slot & MOB_SLOT_PUT) &&
        mob_task_id_eq(id.task, client->root))
        mob_store_object_unwanted(node->store, id);
}

/* A hint that handles are gone. A driver's results stay until their age comes: somebody else may ask, and
 * making them again costs a run. */
static void take_release(struct node *node, struct node_client *client, const struct mob_record *record,
    const uint8_t *body, uint32_t bytes)
{
    for (uint32_t i = 0; i < record->aux && (i + 1) * sizeof(struct mob_object_id) <= bytes; i++) {
        struct mob_object_id id;
        memcpy(&id, body + i * sizeof id, sizeof id);
        if (client->kind == MOB_CLIENT_WORKER)
            node_let_go(node, id);
        else if ((record->flags & MOB_RELEASE_UNLOGGED) && (client->flags & MOB_SESSION_GATEWAY))
            mob_store_object_free(node->store, id);
        else
            driver_lets_go(node, client, id);
    }
}

bool node_intake(
    struct node *node, struct node_client *client, const struct mob_record *record, const uint8_t *body)
{
    uint32_t bytes = record->bytes - (uint32_t)sizeof *record;
    switch ((enum mob_out_record)record->type) {
    case MOB_OUT_SIBLING:
        return take_sibling(node, client, slot_of(record), body, bytes, is_keyed(client, record));
    case MOB_OUT_COMPLETION:
        take_completion(node, client, record, body, bytes);
        return true;
    case MOB_OUT_SPEC:
        return take_spec(node, client, slot_of(record), body, bytes, is_keyed(client, record));
    case MOB_OUT_PUT:
        take_put(node, client, body, bytes);
        return true;
    case MOB_OUT_YIELD:
        node_yielded(node, client, body, bytes);
        return true;
    case MOB_OUT_OUTCOME:
        take_outcome(node, client, body, bytes);
        return true;
    case MOB_OUT_EVENT:
        take_event(node, client, body, bytes);
        return true;
    case MOB_OUT_BLOCKED:
        take_blocked(node, client, body, bytes, true);
        return true;
    case MOB_OUT_UNBLOCKED:
        take_blocked(node, client, body, bytes, false);
        return true;
    case MOB_OUT_WATCH:
        take_watch(node, client, record, body, bytes);
        return true;
    case MOB_OUT_RELEASE:
        take_release(node, client, record, body, bytes);
        return true;
    case MOB_OUT_REQUEST:
        node_request(node, client, body, bytes);
        return true;
    case MOB_OUT_CANCEL:
        take_cancel(node, client, body, bytes);
        return true;
    case MOB_OUT_CHECKPOINT:
        node_actor_checkpoint(node, client, body, bytes);
        return true;
    case MOB_OUT_SUSPENDED:
        if (!node_suspended(node, client, record->aux, body, bytes))
            bad_record(node, client, "suspended");
        return true;
    }
    bad_record(node, client, "unknown type");
    return true;
}

/* Whether the tasks with this head are looked up, and their stream. */
static struct node_foreseen foresee_spec(
    struct node *node, struct node_client *client, const struct mob_spec_head *head)
{
    const struct node_task *parent =
        client->kind == MOB_CLIENT_WORKER ? node_task_find(node, head->parent) : NULL;
    return (struct node_foreseen){
        .spec = true, .look_up = node_looks_up(client, parent, head->task), .stream = head->task.stream};
}

struct known_question *node_foresee(
    struct node *node, struct node_client *client, const struct mob_record *record, const uint8_t *body)
{
    uint32_t bytes = record->bytes - (uint32_t)sizeof *record, slot = slot_of(record);
    struct mob_spec_head head;
    struct mob_task_id task;
    if (slot >= MOB_HEAD_SLOTS)
        return NULL;
    struct node_foreseen *foreseen = &client->foreseen[slot];
    if (record->type == MOB_OUT_SPEC && bytes >= SPEC_PREFIX + sizeof head) {
        memcpy(&head, body + SPEC_PREFIX, sizeof head);
        *foreseen = foresee_spec(node, client, &head);
        task = head.task;
    } else if (record->type == MOB_OUT_SIBLING && bytes >= SIBLING_PREFIX) {
        if (!foreseen->spec && !client->templates[slot])
            return NULL;
        if (!foreseen->spec)
            *foreseen = foresee_spec(node, client, &client->templates[slot]->head);
        task.stream = foreseen->stream;
        memcpy(&task.index, body + 8, sizeof task.index);
    } else {
        return NULL;
    }
    return foreseen->look_up || is_keyed(client, record) ? known_ask(node, mob_object_of(task, 0), NULL, NULL)
                                                         : NULL;
}

void node_client_damaged(struct node *node, struct node_client *client)
{
    client->damaged = true;
    if (client->worker)
        node_worker_kill(node, client->worker, MOB_WORKER_DIED, "it damaged its ring");
    else if (!client->closing) {
        client->closing = true;
        node->closing_clients++;
    }
}
