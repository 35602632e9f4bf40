/* How tasks end: completions from workers, failures decided here, generators' items. What they gave is told
 * by announce.c. */
#include "runtime/node/complete.h"

#include <stdio.h>
#include <stdlib.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "runtime/node/actors.h"
#include "runtime/node/alias.h"
#include "runtime/node/announce.h"
#include "runtime/node/borrowed.h"
#include "runtime/node/known.h"
#include "runtime/node/notices.h"
#include "runtime/node/remade.h"
#include "runtime/node/task.h"

enum { BORROWED_FETCHED = 8 };

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
    head->started_ns = node_started_ns(task, head->started_ns);
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
    node_announce_logged(node, task);
    drop_from_sched(node, task);
    node_task_destroy(node, task);
}

void node_task_fail(struct node *node, struct node_task *task, enum mob_status status, const char *message,
    const uint8_t *cause, uint32_t cause_bytes, int signal, const char *detail)
{
    uint8_t payload[NODE_ERROR_BYTES_MAX], body[NODE_ERROR_BYTES_MAX + 64];
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
    node_announce_error(node, task, status, payload, bytes);
    node_announce_missing_puts(node, task, status, payload, bytes);
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

/* What a call that had ended well says when it runs again and cannot have what it was given; the last cause
 * has the reason. */
static void input_error(const struct mob_completion *completion, char *out, size_t capacity)
{
    uint32_t bytes;
    struct mob_error_link links[MOB_ERROR_LINKS_MAX];
    const uint8_t *payload = error_of(completion, &bytes);
    int count = payload ? mob_error_decode(payload, bytes, links, MOB_ERROR_LINKS_MAX) : 0;
    int n = 0;
    snprintf(out, capacity, "%s", mob_status_text((enum mob_status)completion->head.status));
    if (count > 0)
        n = snprintf(out, capacity, "%.*s", (int)links[0].message_bytes, links[0].message);
    if (count > 1 && n > 0 && (size_t)n < capacity)
        snprintf(out + n, capacity - (size_t)n, ": %.*s", (int)links[count - 1].message_bytes,
            links[count - 1].message);
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

/* Whoever waits for what it makes is told. `differs`: from what the log says that it made before. */
static void announce_end(struct node *node, struct node_task *task, struct node_client *client,
    const struct mob_completion *full, bool differs)
{
    enum mob_status status = (enum mob_status)full->head.status;
    bool counts = !node_task_is_shadow(task);
    uint32_t bytes = 0;
    const uint8_t *payload = status != MOB_OK ? error_of(full, &bytes) : NULL;
    if (status == MOB_OK && !node_remade_the_same(node, task, client, full)) {
        node_announce_diverged(node, task);
    } else if (differs) {
        node_announce_what_stands(node, task, client, full);
    } else if (status == MOB_OK) {
        node->finished += counts;
        task->template->job->finished += counts;
        node_announce_returns(node, task, client, full);
    } else if (counts) {
        node->failed++;
        task->template->job->failed++;
        node_announce_error(node, task, status, payload, bytes);
    } else {
        node_announce_logged(node, task);
    }
    if (counts || status == MOB_OK) /* a shadow that was stopped may begin again */
        node_announce_missing_puts(node, task, status, payload, bytes);
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
    struct mob_actor_id actor = task->template->head.actor;
    uint64_t position = node_extra_of(task) ? node_extra_of(task)->position : 0;
    bool differs = node_remade_differs(task, &full);
    announce_end(node, task, client, &full, differs);
    node_task_destroy(node, task);
    if (differs && status == MOB_DEPENDENCY_FAILED) {
        input_error(&full, message, sizeof message);
        node_actor_input_gone(node, actor, position, full.head.task, message);
    } else if (differs) {
        node_actor_diverged(node, actor, position);
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
    node_announce_item(node, task, client, &r);
}
