/* How tasks end: completions from workers, failures decided here, generators' items, tail calls. */
#include <stdio.h>
#include <stdlib.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "runtime/node/actors.h"
#include "runtime/node/borrowed.h"
#include "runtime/node/known.h"
#include "runtime/node/large_hashes.h"
#include "runtime/node/remade.h"

enum { ERROR_BYTES_MAX = 4096, BORROWED_FETCHED = 8 };

/* Readiness of one return. Small results are in the completion, all are in the store. */
static struct ready_object ready_of(
    const struct node_task *task, const struct mob_return_view *r, enum mob_status status)
{
    return (struct ready_object){
        .id = mob_object_of(task->sched.id, r->slot),
        .status = status,
        .type = r->type,
        .remakeable =
            !(r->flags & MOB_RETURN_STORED) || (task->template->head.flags & MOB_SPEC_DETERMINISTIC),
        .committed = (task->flags & (TASK_UNLOGGED | TASK_REMAKE)) != 0,
        .size = r->size,
        .small = r->flags & MOB_RETURN_STORED ? NULL : r->payload,
    };
}

static void announce(struct node *node, const struct node_task *task, const struct ready_object *object)
{
    bool told = node_object_ready(node, object,
        task->submitter == TASK_NO_SUBMITTER ? NODE_NOBODY : task->submitter, task->submitter_session);
    /* The log has it already, so nothing commits it a second time, unless its hash is compared first. */
    if ((task->flags & TASK_REMAKE) && object->committed)
        mob_store_object_committed(node->store, object->id, object->remakeable);
    if (!(task->flags & TASK_UNLOGGED))
        return;
    /* No log will commit it. What its caller has got whole is nobody's any more. */
    if (told && object->small)
        mob_store_object_free(node->store, object->id);
    else
        mob_store_object_committed(node->store, object->id, object->small != NULL);
}

struct error_value {
    enum mob_status status;
    const uint8_t *payload; /* of the value */
    uint32_t bytes;
    const void *value;
    uint64_t size;
};

static void announce_error_at(
    struct node *node, struct node_task *task, uint32_t slot, const struct error_value *e)
{
    struct mob_return_view r = {
        .slot = slot, .type = MOB_TYPE_ERROR, .size = e->size, .flags = MOB_RETURN_STORED};
    struct ready_object object = ready_of(task, &r, e->status);
    struct mob_object_info there;
    bool exists = mob_store_object_info(node->store, object.id, &there) && there.sealed;
    /* What an attempt left that did not come to its end is not the outcome. */
    if (exists && there.type != MOB_TYPE_ERROR)
        mob_store_object_free(node->store, object.id);
    enum mob_status put = exists && there.type == MOB_TYPE_ERROR
        ? MOB_OK
        : mob_store_object_put(node->store, object.id, MOB_TYPE_ERROR, false, e->value, e->size);
    if (put != MOB_OK) { /* the full store may be why it failed: the notice has it */
        MOB_LOG_WARN("complete", "error_not_stored", "status=%s", mob_status_code(put));
        object.size = e->bytes;
        object.small = e->payload;
    }
    object.remakeable = true; /* it is in the completion */
    announce(node, task, &object);
}

struct slots {
    uint32_t first, count;
};

/* Where the error of this task stands. Of a generator that is where the next item would; of one that runs
 * again, whose end is in the log, all that it did not come to. */
static struct slots error_slots(const struct node_task *task)
{
    const struct node_task_extra *extra = node_extra_of(task);
    uint32_t slots = task->template->head.num_returns;
    if (slots != MOB_RETURNS_STREAM)
        return (struct slots){0, slots == 0 ? 1 : slots};
    if (!extra)
        return (struct slots){0, 1};
    if (!extra->logged)
        return (struct slots){extra->yielded, 1};
    uint32_t first = extra->yielded < extra->items ? extra->yielded : extra->items;
    return (struct slots){first, extra->items - first + 1};
}

/* The error, but for its value. Of a task that ran again it stands where the first bytes are lost. */
static void announce_error_in(
    struct node *node, struct node_task *task, struct slots slots, struct error_value e)
{
    uint8_t value[ERROR_BYTES_MAX + 256] __attribute__((aligned(64)));
    uint8_t *at;
    if (mob_value_full_size(e.bytes, 0, 0, &e.size) != MOB_OK || e.size > sizeof value ||
        mob_value_init(value, e.size, MOB_TYPE_ERROR, e.bytes, NULL, 0, NULL, 0, &at) != MOB_OK)
        return;
    memcpy(at, e.payload, e.bytes);
    mob_value_hash(value);
    e.value = value;
    for (uint32_t slot = slots.first; slot < slots.first + slots.count; slot++)
        if (node_remade_in_log(task, slot) || node_remade_kept(node, task, slot))
            node_remade_from_log(node, task, slot);
        else
            announce_error_at(node, task, slot, &e);
}

/* In every return slot, so that whoever asks for any of them gets it. */
static void announce_error(
    struct node *node, struct node_task *task, enum mob_status status, const uint8_t *payload, uint32_t bytes)
{
    struct error_value e = {.status = status, .payload = payload, .bytes = bytes};
    announce_error_in(node, task, error_slots(task), e);
}

/* It decides nothing: what the log holds stands. */
static void announce_logged(struct node *node, const struct node_task *task)
{
    struct slots slots = error_slots(task);
    for (uint32_t slot = slots.first; slot < slots.first + slots.count; slot++)
        node_remade_from_log(node, task, slot);
}

/* 0: it ended before its inputs were there. */
static int64_t ready_ns(const struct node_task *task)
{
    return task->ready_us == TASK_INPUTS_MISSING ? 0 : task->submitted_ns + (int64_t)task->ready_us * 1000;
}

void node_fill_times(const struct node_task *task, struct mob_completion_head *head)
{
    head->submitted_ns = task->submitted_ns;
    head->ready_ns = ready_ns(task);
    head->dispatched_ns = task->submitted_ns + (int64_t)task->dispatched_us * 1000;
    const struct node_task_extra *extra = node_extra_of(task);
    if (extra) {
        head->position = extra->position;
        head->incarnation = extra->incarnation;
    }
    if (task->flags & TASK_ACTOR_CALL)
        head->actor = task->template->head.actor;
    /* A worker takes the end of its last task for the start of the next: right in a batch, too early when it
     * had to wait for this one. */
    if (head->started_ns > 0 && head->started_ns < head->dispatched_ns)
        head->started_ns = head->dispatched_ns;
}

void node_fill_death(const struct node *node, const struct node_task *task, struct mob_completion_head *head)
{
    if (!mob_task_id_eq(node->death.task, task->sched.id))
        return;
    head->worker = node->death.serial;
    head->ready_ns = ready_ns(task);
    head->dispatched_ns = task->submitted_ns + (int64_t)task->dispatched_us * 1000;
    head->started_ns = head->dispatched_ns;
}

static void log_completion(
    struct node *node, struct node_task *task, const struct mob_completion_head *head, const uint8_t *body)
{
    if (task->flags & (TASK_UNLOGGED | TASK_REMAKE))
        return;
    struct node_job *job = task->template->job;
    lineage_log_job(node->log, job->id, job->ns);
    lineage_log_completion(node->log, head, body);
    known_logged(node, head->task);
}

static uint32_t error_body(uint8_t *body, uint32_t capacity, const uint8_t *payload, uint32_t bytes)
{
    struct mob_return_view r = {.slot = 0, .type = MOB_TYPE_ERROR, .size = bytes, .payload = payload};
    return mob_return_encode(body, 0, capacity, &r);
}

static void drop_from_sched(struct node *node, struct node_task *task)
{
    if (task->sched.state != MOB_SCHED_NEW && task->sched.state != MOB_SCHED_DONE)
        MOB_ASSERT(mob_sched_drop(node->sched, &task->sched) == MOB_OK);
}

/* The call has its outcome in the log: this failure is the shadow's alone. */
static void shadow_failed(struct node *node, struct node_task *task, enum mob_status status)
{
    struct mob_completion_head head = {.status = (uint16_t)status};
    node_actor_task_ended(node, task, &head, NULL);
    announce_logged(node, task);
    drop_from_sched(node, task);
    node_task_destroy(node, task);
}

void node_task_fail(struct node *node, struct node_task *task, enum mob_status status, const char *message,
    const uint8_t *cause, uint32_t cause_bytes, int signal, const char *detail)
{
    uint8_t payload[ERROR_BYTES_MAX], body[ERROR_BYTES_MAX + 64];
    if (node_task_is_shadow(task)) {
        shadow_failed(node, task, status);
        return;
    }
    struct mob_error_link link = {
        .status = status,
        .task = task->sched.id,
        .message = message,
        .message_bytes = (uint32_t)strlen(message),
        .detail = detail ? detail : "",
        .detail_bytes = detail ? (uint32_t)strlen(detail) : 0,
        .signal = signal,
    };
    uint32_t bytes = mob_error_encode(payload, sizeof payload, &link, cause, cause_bytes);
    struct mob_completion_head head = {
        .version = MOB_COMPLETION_VERSION,
        .flags = MOB_COMPLETION_FINAL,
        .status = (uint16_t)status,
        .return_count = 1,
        .task = task->sched.id,
        .attempt = node_task_attempt(task),
        .generation = node_task_generation(task),
        .worker = status == MOB_WORKER_DIED ? node->death.serial : 0, /* whose end is being handled */
        .finished_ns = node->now_ns,
    };
    node_fill_times(task, &head);
    if (task->dispatched_us == 0)
        head.dispatched_ns = 0; /* it never was */
    node_fill_death(node, task, &head);
    head.body_bytes = error_body(body, sizeof body, payload, bytes);
    log_completion(node, task, &head, body);
    node->failed++;
    task->template->job->failed++;
    node_actor_task_ended(node, task, &head, message);
    announce_error(node, task, status, payload, bytes);
    drop_from_sched(node, task);
    node_task_destroy(node, task);
}

/* Too many tasks for another record: the submitter gets the error all the same, and the log says why. */
void node_fail_without_record(struct node *node, uint32_t slot, uint32_t session,
    const struct mob_spec_head *spec, enum mob_status status, const char *message)
{
    uint8_t payload[512], body[640];
    struct mob_error_link link = {
        .status = status, .task = spec->task, .message = message, .message_bytes = (uint32_t)strlen(message)};
    uint32_t bytes = mob_error_encode(payload, sizeof payload, &link, NULL, 0);
    struct mob_completion_head head = {.version = MOB_COMPLETION_VERSION,
        .flags = MOB_COMPLETION_FINAL,
        .status = (uint16_t)status,
        .return_count = 1,
        .task = spec->task,
        .attempt = 1,
        .generation = spec->generation,
        .finished_ns = node->now_ns};
    head.body_bytes = error_body(body, sizeof body, payload, bytes);
    if (!(spec->flags & MOB_SPEC_UNLOGGED))
        lineage_log_completion(node->log, &head, body);
    known_logged(node, head.task);
    struct ready_object object = {
        .id = mob_object_of(spec->task, 0), .status = status, .type = MOB_TYPE_ERROR};
    node_object_ready(node, &object, slot, session);
    node->failed++;
}

void node_refuse_root(struct node *node, struct node_client *client, const struct mob_spec_head *spec,
    enum mob_status status, const char *message)
{
    uint8_t payload[512];
    struct mob_error_link link = {
        .status = status, .task = spec->task, .message = message, .message_bytes = (uint32_t)strlen(message)};
    uint32_t bytes = mob_error_encode(payload, sizeof payload, &link, NULL, 0);
    uint32_t slots =
        spec->num_returns == MOB_RETURNS_STREAM || spec->num_returns == 0 ? 1 : spec->num_returns;
    for (uint32_t slot = 0; slot < slots; slot++) {
        struct ready_object object = {.id = mob_object_of(spec->task, slot),
            .status = status,
            .type = MOB_TYPE_ERROR,
            .flags = MOB_READY_COMMITTED,
            .committed = true,
            .size = bytes,
            .small = payload};
        node_notice_ready(node, client->slot, &object);
    }
}

/* Tail call: the result is what another object becomes; told when that one is ready (alias.c). */
static bool is_tail_call(const struct mob_return_view *r)
{
    return r->type == MOB_TYPE_FUTURE && r->size == sizeof(struct mob_object_id) && r->payload;
}

static void continue_as(struct node *node, const struct node_task *task, const struct mob_return_view *r)
{
    struct node_tail_call call = {
        .id = mob_object_of(task->sched.id, r->slot),
        .submitter = task->submitter == TASK_NO_SUBMITTER ? NODE_NOBODY : task->submitter,
        .session = task->submitter_session,
        .job = task->template->job,
        .generation = node_task_generation(task),
        .children = mob_sched_children(&task->sched),
    };
    memcpy(&call.target, r->payload, sizeof call.target);
    mob_sched_function_defers(node->sched, task->template->sched_function);
    node_alias(node, &call);
}

/* A value over 1 MiB is committed behind its hash. One that is made again must have the hash of the first,
 * but for a task that may give something else then; mostly its maker has compared already. */
static void announce_value(struct node *node, const struct node_task *task, const struct node_client *maker,
    const struct mob_return_view *r)
{
    struct ready_object object = ready_of(task, r, MOB_OK);
    const struct mob_spec_head *head = &task->template->head;
    const struct node_job *job = task->template->job;
    node_remade_seal(node, task, maker, r);
    if ((r->flags & MOB_RETURN_HASH_LATER) && !(task->flags & TASK_UNLOGGED) &&
        !node_remade_hash_known(task, r)) {
        struct large_hash_wanted wanted = {.id = object.id,
            .job = job->id,
            .ns = job->ns,
            .slot = NODE_NOBODY,
            .again = (task->flags & TASK_REMAKE) && !(head->flags & MOB_SPEC_RESTART_ON_DIVERGENCE)};
        /* sealed by its maker after its record, perhaps not yet */
        (void)mob_store_seal_published(node->store, object.id, maker->slot);
        if (large_hashes_want(node, &wanted))
            object.committed = false;
    }
    announce(node, task, &object);
}

/* Its results were there before, and are lost with their node: what it gives now is something else. */
static void announce_diverged(struct node *node, struct node_task *task, struct slots slots)
{
    static const char message[] = "its bytes were lost, and its function gave others when it ran again: the "
                                  "value cannot be had any more";
    uint8_t payload[512];
    struct mob_error_link link = {.status = MOB_REPLAY_DIVERGED,
        .task = task->sched.id,
        .message = message,
        .message_bytes = sizeof message - 1};
    uint32_t bytes = mob_error_encode(payload, sizeof payload, &link, NULL, 0);
    char id[MOB_ID_TEXT_MAX];
    MOB_LOG_WARN("complete", "remade_otherwise", "task=%s", mob_task_id_format(task->sched.id, id));
    struct error_value e = {.status = MOB_REPLAY_DIVERGED, .payload = payload, .bytes = bytes};
    announce_error_in(node, task, slots, e);
}

/* Of a generator: no item at or above this slot. One that runs again ends where it did the first time. */
static void announce_end(struct node *node, struct node_task *task)
{
    const struct node_task_extra *extra = node_extra_of(task);
    struct ready_object end = {.id = mob_object_of(task->sched.id, extra ? extra->yielded : 0),
        .type = MOB_TYPE_NONE,
        .flags = MOB_READY_LAST,
        .remakeable = true};
    if (!extra || !extra->logged)
        announce(node, task, &end);
    else if (extra->yielded < extra->items)
        announce_diverged(node, task, error_slots(task));
    else
        node_remade_from_log(node, task, extra->items);
}

/* Whatever this run gave: the log has the value. */
static void announce_first(struct node *node, const struct node_task *task, const struct node_client *maker,
    const struct mob_return_view *r)
{
    node_remade_drop(node, task, maker, r);
    node_remade_from_log(node, task, r->slot);
}

static void announce_returns(struct node *node, struct node_task *task, const struct node_client *maker,
    const struct mob_completion *completion)
{
    struct mob_return_view r;
    uint32_t at = 0;
    while (mob_completion_next(completion, &at, &r))
        if (!node_remade_counts(task, r.slot))
            announce_first(node, task, maker, &r);
        else if (is_tail_call(&r))
            continue_as(node, task, &r);
        else
            announce_value(node, task, maker, &r);
    if (task->template->head.num_returns == MOB_RETURNS_STREAM)
        announce_end(node, task);
}

/* A replay that differs: what the first run gave stands. What came back as it was is there again. */
static void announce_what_stands(struct node *node, struct node_task *task, const struct node_client *maker,
    const struct mob_completion *completion)
{
    struct mob_return_view r;
    uint32_t at = 0;
    if (completion->head.status != MOB_OK) {
        announce_diverged(node, task, error_slots(task));
        return;
    }
    while (mob_completion_next(completion, &at, &r))
        if (r.flags & MOB_RETURN_STORED)
            announce_value(node, task, maker, &r);
        else
            announce_first(node, task, maker, &r);
}

/* A completion may name objects that its worker, dead by now, had published and not sealed. */
static void seal_published(
    struct node *node, const struct node_client *maker, const struct mob_completion *completion)
{
    struct mob_return_view r;
    uint32_t at = 0;
    while (mob_completion_next(completion, &at, &r))
        (void)mob_store_seal_published(
            node->store, mob_object_of(completion->head.task, r.slot), maker->slot);
}

static const uint8_t *error_of(const struct mob_completion *completion, uint32_t *bytes_out)
{
    struct mob_return_view r;
    uint32_t at = 0;
    while (mob_completion_next(completion, &at, &r))
        if (r.type == MOB_TYPE_ERROR && r.payload) {
            *bytes_out = (uint32_t)r.size;
            return r.payload;
        }
    *bytes_out = 0;
    return NULL;
}

static const char *error_message(const struct mob_completion *completion, char *out, size_t capacity)
{
    uint32_t bytes;
    struct mob_error_link link;
    const uint8_t *payload = completion->head.status != MOB_OK ? error_of(completion, &bytes) : NULL;
    if (!payload || mob_error_decode(payload, bytes, &link, 1) <= 0)
        return NULL;
    snprintf(out, capacity, "%.*s", (int)link.message_bytes, link.message);
    return out;
}

static void next_attempt(struct node *node, struct node_task *task, bool next_generation)
{
    struct node_task_extra *extra = node_task_extra(node, task);
    extra->attempt++;
    extra->repeats = !next_generation;
    extra->diverged = false;
    if (next_generation)
        extra->generation++; /* fresh children, and not the stored failure */
    else
        task->flags |= TASK_LOOK_UP;
    task->flags &= (uint8_t)~TASK_NO_OUTCOMES; /* the attempt that ended may have logged some */
    node->retried++;
}

void node_attempt_lost(struct node *node, struct node_task *task)
{
    next_attempt(node, task, false);
}

/* A replay that asked for something else, of a task that wants to start over then. In its next generation
 * nothing can differ, so each restart follows a death. */
static bool starts_over(const struct node_task *task, enum mob_status status)
{
    const struct mob_spec_head *head = &task->template->head;
    return status == MOB_REPLAY_DIVERGED && head->kind == MOB_KIND_TASK &&
        (head->flags & MOB_SPEC_RESTART_ON_DIVERGENCE) && node_extra_of(task) && node_extra_of(task)->repeats;
}

/* Completions come in the order of the worker's batch, so mostly its first task is the one: no look-up by id.
 */
static struct node_task *expected(struct node *node, const struct node_worker *worker, struct mob_task_id id)
{
    struct mob_sched_task *first;
    if (worker && mob_sched_batch(node->sched, (uint16_t)worker->number, &first, 1) > 0 &&
        mob_task_id_eq(first->id, id))
        return (struct node_task *)first;
    return node_task_find(node, id);
}

/* What the task took, of which it lets go. */
static void fetch_borrowed(const struct node *node, const struct node_task *task)
{
    uint32_t bytes;
    struct node_tail_room room;
    struct mob_arg_view arg;
    struct mob_tail_iter it = mob_spec_args(node_task_tail(task, &room, &bytes));
    for (uint32_t refs = 0; refs < BORROWED_FETCHED && mob_tail_next_arg(&it, &arg);)
        if (arg.is_ref) {
            refs++;
            node_borrow_fetch(node, arg.ref);
        }
}

void node_complete_fetch(const struct node *node, const struct node_task *task)
{
    struct mob_object_id first = mob_object_of(task->sched.id, 0);
    mob_sched_object_fetch(node->sched, first);
    node_alias_fetch(node, first);
    if (task->flags & TASK_BORROWS)
        fetch_borrowed(node, task);
}

void node_complete_fetch_more(const struct node *node, const struct node_task *task)
{
    struct mob_object_id first = mob_object_of(task->sched.id, 0);
    mob_sched_object_fetch_more(node->sched, first);
    node_alias_fetch_more(node, first);
}

void node_complete(struct node *node, struct node_client *client, const struct mob_completion *completion)
{
    struct node_worker *worker = client->worker;
    if (worker)
        worker->ended++;
    struct node_task *task = expected(node, worker, completion->head.task);
    if (!task || !worker || task->sched.worker != worker->number ||
        (task->sched.state != MOB_SCHED_DISPATCHED && task->sched.state != MOB_SCHED_BLOCKED) ||
        completion->head.attempt != node_task_attempt(task)) {
        node->duplicates++; /* a zombie's: another attempt owns the task now */
        if (task && (task->flags & TASK_REMAKE))
            node_remade_drop_all(node, task, client, completion);
        return;
    }
    if (mob_sched_buried(node->sched, &task->sched)) { /* it cannot have ended */
        MOB_LOG_WARN("complete", "ended_below_another", "worker=%u", worker->number);
        node_client_damaged(node, client);
        return;
    }
    node_complete_fetch(node, task);
    struct mob_completion full = *completion;
    enum mob_status status = (enum mob_status)full.head.status;
    bool ran = full.head.started_ns != 0; /* else it was cancelled before its turn came */
    int64_t run_ns = ran ? full.head.finished_ns - full.head.started_ns : -1;
    full.head.worker = worker->serial;
    node_fill_times(task, &full.head);
    if (client->closing && !(task->flags & TASK_REMAKE))
        seal_published(node, client, &full);
    bool over = starts_over(task, status);
    enum mob_sched_after after = over
        ? mob_sched_diverged(node->sched, &task->sched, run_ns, node->now_ns)
        : mob_sched_finished(node->sched, &task->sched, status, run_ns, node->now_ns);
    if (after == MOB_SCHED_RETRY) {
        full.head.flags = (uint8_t)(MOB_COMPLETION_WILL_RETRY | (over ? MOB_COMPLETION_UNPAID : 0));
        log_completion(node, task, &full.head, full.body);
        next_attempt(node, task, true);
        return;
    }
    full.head.flags = MOB_COMPLETION_FINAL;
    node_complete_fetch_more(node, task);
    log_completion(node, task, &full.head, full.body);
    char message[160];
    node_actor_task_ended(node, task, &full.head, error_message(&full, message, sizeof message));
    bool counts = !node_task_is_shadow(task);
    struct mob_actor_id actor = task->template->head.actor;
    uint64_t position = node_extra_of(task) ? node_extra_of(task)->position : 0;
    bool differs = node_remade_differs(task, &full);
    if (status == MOB_OK && !node_remade_the_same(node, task, client, &full)) {
        announce_diverged(node, task, error_slots(task));
    } else if (differs) {
        announce_what_stands(node, task, client, &full);
    } else if (status == MOB_OK) {
        node->finished += counts;
        task->template->job->finished += counts;
        announce_returns(node, task, client, &full);
    } else if (counts) {
        uint32_t bytes;
        const uint8_t *payload = error_of(&full, &bytes);
        node->failed++;
        task->template->job->failed++;
        announce_error(node, task, status, payload, bytes);
    } else {
        announce_logged(node, task);
    }
    node_task_destroy(node, task);
    if (differs)
        node_actor_diverged(node, actor, position);
}

static void announce_item(struct node *node, struct node_task *task, const struct node_client *maker,
    const struct mob_return_view *r)
{
    if (node_remade_item_differs(task, r)) {
        node_remade_drop(node, task, maker, r);
        announce_diverged(node, task, (struct slots){r->slot, 1});
    } else if (!node_remade_counts(task, r->slot)) {
        announce_first(node, task, maker, r);
    } else {
        announce_value(node, task, maker, r);
    }
}

void node_yielded(struct node *node, struct node_client *client, const uint8_t *body, uint32_t bytes)
{
    struct mob_out_yield yield;
    struct mob_completion one = {.head = {.return_count = 1}};
    struct mob_return_view r;
    uint32_t at = 0;
    if (bytes < sizeof yield)
        return;
    memcpy(&yield, body, sizeof yield);
    struct node_task *task = node_task_find(node, yield.task);
    one.body = body + sizeof yield;
    one.head.body_bytes = bytes - (uint32_t)sizeof yield;
    if (!task || !client->worker || task->sched.worker != client->worker->number ||
        !mob_completion_next(&one, &at, &r) || r.slot != yield.item)
        return;
    struct node_task_extra *extra = node_task_extra(node, task);
    if (yield.item >= extra->yielded)
        extra->yielded = yield.item + 1;
    if (!(task->flags & (TASK_UNLOGGED | TASK_REMAKE))) {
        struct node_job *job = task->template->job;
        lineage_log_job(node->log, job->id, job->ns);
        lineage_log_other(node->log, MOB_ENTRY_YIELD, &yield, sizeof yield, one.body, one.head.body_bytes);
    }
    announce_item(node, task, client, &r);
}
