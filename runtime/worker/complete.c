/* The end of a task: outputs into the store, the completion into the ring, then seal. A worker that dies in
 * between is no loss: the node seals what a published completion names, and drops the rest. Returns that are
 * compared with the log first (MOB_IN_SPEC_REMAKES) are left as they are: the node seals or drops them, and
 * what it could not come to goes with this worker. */
#include "runtime/worker/worker.h"

#include <stdlib.h>

#include "common/base/log_value.h"
#include "common/base/failpoint.h"

static void fill_head(
    const struct mob_worker *worker, const struct mob_task_times *times, struct mob_completion_head *head)
{
    const struct mob_call *call = worker->call;
    *head = (struct mob_completion_head){.version = MOB_COMPLETION_VERSION,
        .flags = call->failure == MOB_OK ? MOB_COMPLETION_FINAL : 0,
        .status = (uint16_t)call->failure,
        .task = call->head.task,
        .attempt = call->head.attempt,
        .generation = call->head.generation,
        .worker = worker->number,
        .peak_kb = times->peak_kb,
        .started_ns = times->started_ns,
        .finished_ns = times->finished_ns,
        .cpu_ns = times->cpu_ns,
        .actor = call->head.actor,
        .position = call->in.position,
        .incarnation = call->in.incarnation};
    if (call->head.kind == MOB_KIND_ACTOR_CREATE)
        head->actor.creation = call->head.task;
}

/* ---- failure ---- */

static void complete_failed(struct mob_worker *worker, const struct mob_task_times *times)
{
    struct mob_call *call = worker->call;
    uint8_t error[MOB_RESULT_INLINE_MAX], body[MOB_RESULT_INLINE_MAX + 64];
    struct mob_error_link link = {.status = call->failure,
        .task = call->head.task,
        .message = call->message,
        .message_bytes = (uint32_t)strlen(call->message)};
    const void *cause = call->cause;
    uint32_t cause_bytes = call->cause_bytes;
    if (cause == NULL && worker->client->cause_bytes > 0) {
        cause = worker->client->cause;
        cause_bytes = worker->client->cause_bytes;
    }
    mob_call_abort_returns(call);
    uint32_t error_bytes = mob_error_encode(error, sizeof error, &link, cause, cause_bytes);
    struct mob_return_view view = {.type = MOB_TYPE_ERROR, .size = error_bytes, .payload = error};
    struct mob_completion_head head;
    fill_head(worker, times, &head);
    head.return_count = 1;
    head.body_bytes = mob_return_encode(body, 0, sizeof body, &view);
    enum mob_status status =
        mob_client_publish(worker->client, MOB_OUT_COMPLETION, 0, &head, sizeof head, body, head.body_bytes);
    if (status != MOB_OK)
        MOB_LOG_ERROR("worker", "completion_not_sent", "status=%s", mob_status_code(status));
}

/* ---- success ---- */

/* Everything that is declared was returned? What was not is null, where the signature allows it. */
static void check_returns(struct mob_call *call)
{
    for (uint32_t i = 0; i < call->return_count; i++) {
        if (call->returns[i].type != MOB_TYPE_NONE)
            continue;
        const struct mob_sig_type *type =
            call->signature == NULL ? NULL : mob_signature_return(&call->signature->parsed, i);
        if (type != NULL && call->head.kind != MOB_KIND_ACTOR_CREATE && type->type != MOB_TYPE_NONE &&
            type->type != MOB_TYPE_NULL && !type->optional) {
            mob_call_fail(call, MOB_TYPE_MISMATCH, "the function ended without its return %u, which is %s", i,
                mob_value_type_name((enum mob_value_type)type->type));
            return;
        }
        call->returns[i].type = MOB_TYPE_NULL;
        call->returns[i].bytes = 0;
    }
}

static uint32_t encoded_bytes(const struct mob_call *call, uint32_t inline_max)
{
    uint32_t bytes = 0;
    for (uint32_t i = 0; i < call->return_count; i++) {
        const struct mob_call_return *r = &call->returns[i];
        bool inlined = !r->stored || r->bytes <= inline_max;
        bytes += 16 + (inlined ? (uint32_t)mob_round_up(r->bytes, 8) : (uint32_t)sizeof(struct mob_hash128));
    }
    return bytes;
}

/* Bytes of returns in one record. When they have more, those that stand in the store are only named, as large
 * ones are. */
#define RETURNS_BYTES_MAX (MOB_RECORD_MAX - sizeof(struct mob_record) - sizeof(struct mob_completion_head))
_Static_assert(MOB_RETURNS_MAX *(16 + sizeof(struct mob_hash128)) <= RETURNS_BYTES_MAX, "returns fit");

static void store_return(struct mob_worker *worker, struct mob_call_return *r, uint32_t slot)
{
    if (r->stored) {
        mob_call_return_finish(worker->call, r);
        return;
    }
    if (r->type == MOB_TYPE_FUTURE) {
        /* A tail call: the object is not there before what it becomes is, and then the node makes it. */
        r->exists = true;
        return;
    }
    enum mob_status status = mob_store_put_small(worker->client->store,
        mob_object_of(worker->call->head.task, slot), r->type, r->small, (uint32_t)r->bytes, &r->ref);
    /* Made by an earlier run, or no entry left: the completion carries the value in any case. */
    r->exists = status != MOB_OK;
}

static void let_go(struct mob_call_return *r)
{
    if (r->exists && r->stored)
        free(r->full);
    r->exists = r->stored = false;
    r->type = MOB_TYPE_NONE;
}

static void seal_return(struct mob_worker *worker, struct mob_call_return *r)
{
    if (!r->exists)
        mob_store_object_seal(worker->client->store, r->ref);
    let_go(r);
}

static bool publish_word(struct mob_worker *worker, const struct mob_task_times *times)
{
    const struct mob_call *call = worker->call;
    struct mob_completion_word word = {.task = call->head.task,
        .generation = call->head.generation,
        .type = (uint8_t)call->returns[0].type,
        .started_ns = times->started_ns,
        .finished_ns = times->finished_ns,
        .cpu_ns = times->cpu_ns};
    memcpy(&word.value, call->returns[0].small, sizeof word.value);
    void *body;
    if (mob_client_reserve(worker->client, sizeof word, &body) != MOB_OK)
        return false;
    memcpy(body, &word, sizeof word);
    mob_client_commit(worker->client, MOB_OUT_COMPLETION, MOB_COMPLETION_SHORT, sizeof word);
    return true;
}

/* struct mob_completion_word says all there is to say. */
static bool is_short(const struct mob_call *call, const struct mob_task_times *times)
{
    const struct mob_call_return *r = &call->returns[0];
    return call->return_count == 1 && (r->type == MOB_TYPE_I64 || r->type == MOB_TYPE_F64) && !r->stored &&
        call->head.attempt == 1 && call->head.kind != MOB_KIND_ACTOR_CREATE && times->peak_kb == 0;
}

static bool publish_returns(struct mob_worker *worker, const struct mob_task_times *times)
{
    struct mob_call *call = worker->call;
    if (is_short(call, times) && publish_word(worker, times))
        return true;
    struct mob_completion_head head;
    fill_head(worker, times, &head);
    head.return_count = (uint16_t)call->return_count;
    uint32_t inline_max = MOB_RESULT_INLINE_MAX;
    head.body_bytes = encoded_bytes(call, inline_max);
    if (head.body_bytes > RETURNS_BYTES_MAX) {
        inline_max = 0;
        head.body_bytes = encoded_bytes(call, inline_max);
    }
    uint32_t bytes = (uint32_t)sizeof head + head.body_bytes;
    void *body;
    enum mob_status status = mob_client_reserve(worker->client, bytes, &body);
    if (status != MOB_OK) {
        mob_call_fail(
            call, status, "the completion cannot be published: %s", mob_client_error(worker->client));
        return false;
    }
    struct mob_writer w = mob_writer_of(body, bytes);
    mob_write_bytes(&w, &head, sizeof head);
    for (uint32_t i = 0; i < call->return_count; i++) {
        uint32_t n =
            mob_call_return_encode(&call->returns[i], i, inline_max, w.at, (uint32_t)mob_writer_left(&w));
        MOB_ASSERT(n > 0);
        w.at += n;
    }
    mob_client_commit(worker->client, MOB_OUT_COMPLETION, 0, bytes);
    return true;
}

static void unstore_returns(struct mob_worker *worker)
{
    struct mob_call *call = worker->call;
    for (uint32_t i = 0; i < call->return_count; i++)
        if (!call->returns[i].stored && !call->returns[i].exists)
            mob_store_object_abort(worker->client->store, call->returns[i].ref);
}

void mob_worker_complete(struct mob_worker *worker, const struct mob_task_times *times)
{
    struct mob_call *call = worker->call;
    if (mob_client_flush_releases(worker->client) != MOB_OK)
        MOB_LOG_WARN(
            "worker", "releases_dropped", "reason=\"%s\"", MOB_LOG_VALUE(mob_client_error(worker->client)));
    if (call->failure == MOB_OK)
        check_returns(call);
    if (call->failure != MOB_OK) {
        complete_failed(worker, times);
        return;
    }
    for (uint32_t i = 0; i < call->return_count; i++)
        store_return(worker, &call->returns[i], i);
    if (MOB_FAILPOINT("worker.before_completion"))
        return;
    if (!publish_returns(worker, times)) {
        unstore_returns(worker);
        complete_failed(worker, times);
        return;
    }
    if (MOB_FAILPOINT("worker.before_seal"))
        return;
    for (uint32_t i = 0; i < call->return_count; i++)
        if (mob_call_remakes(call))
            let_go(&call->returns[i]);
        else
            seal_return(worker, &call->returns[i]);
}

/* ---- checkpoints ---- */

void mob_worker_checkpoint(struct mob_worker *worker)
{
    struct mob_call *call = worker->call;
    struct mob_worker_actor *actor = &worker->actor;
    if (!actor->lives || actor->checkpoint_every == 0 || actor->function->entry->checkpoint == NULL ||
        (call->in.position + 1) % actor->checkpoint_every != 0)
        return;
    call->self = &actor->instance; /* the call itself may have been refused */
    call->checkpoint = true; /* its one return lies under MOB_SLOT_CHECKPOINT */
    call->signature = NULL;
    call->failure = MOB_OK;
    call->head.num_returns = 1;
    call->return_count = 1;
    call->returns[0].type = MOB_TYPE_NONE;
    enum mob_status status = actor->function->entry->checkpoint(call);
    struct mob_call_return *r = &call->returns[0];
    if (status != MOB_OK || call->failure != MOB_OK || r->type == MOB_TYPE_NONE) {
        MOB_LOG_WARN("worker", "checkpoint_failed", "position=%llu message=\"%s\"",
            (unsigned long long)call->in.position, MOB_LOG_VALUE(call->message));
        mob_call_abort_returns(call);
        call->checkpoint = false;
        return;
    }
    mob_call_return_finish(call, r);
    struct mob_out_checkpoint head = {
        .actor = actor->id, .position = call->in.position, .incarnation = call->in.incarnation};
    uint8_t body[MOB_RESULT_INLINE_MAX + 64];
    uint32_t bytes = mob_call_return_encode(r, MOB_SLOT_CHECKPOINT, MOB_RESULT_INLINE_MAX, body, sizeof body);
    status = mob_client_publish(worker->client, MOB_OUT_CHECKPOINT, 0, &head, sizeof head, body, bytes);
    if (status != MOB_OK)
        MOB_LOG_WARN("worker", "checkpoint_not_sent", "status=%s", mob_status_code(status));
    r->exists = r->exists || !r->stored; /* a small one has no object */
    seal_return(worker, r);
    call->checkpoint = false;
}
