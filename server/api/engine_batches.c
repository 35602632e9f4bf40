/* Batches of inference calls: when they leave, how their answers are cut. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "server/api/engine_models.h"

struct batch_result {
    struct mob_infer_result base; /* first */
    struct pinned *pins[MOB_MODEL_TENSORS_MAX];
};

struct batch {
    struct endpoint *endpoint;
    struct batch *next, **at; /* among those of the endpoint that are with the node; at NULL: it is not */
    struct mob_batch_entry
        *entries[MOB_BATCH_CALLS_MAX]; /* NULL: its asker has been told that it is too late */
    uint64_t entry_rows[MOB_BATCH_CALLS_MAX];
    size_t count, awaited;
    uint64_t rows;
    int64_t sent_ns;
    struct engine_infer_call call;
    const struct mob_infer_request *requests[MOB_BATCH_CALLS_MAX];
    struct mob_future *futures[MOB_MODEL_TENSORS_MAX];
    size_t ready;
};

static int64_t answer_ns(const struct endpoint *e)
{
    return e->timeout_ms * MOB_MS;
}

/* Any thread: the values go back to the engine's. */
static void result_destroy(struct mob_infer_result *base)
{
    struct batch_result *result = (struct batch_result *)base;
    for (size_t i = 0; i < MOB_MODEL_TENSORS_MAX; i++)
        if (result->pins[i])
            engine_give_back(result->pins[i]);
    free(result);
}

static void batch_end(struct batch *batch)
{
    struct endpoint *e = batch->endpoint;
    for (size_t i = 0; i < MOB_MODEL_TENSORS_MAX; i++)
        mob_release(batch->futures[i]);
    engine_infer_drop(&batch->call);
    mob_batch_ended(&e->batcher);
    if (batch->at) {
        *batch->at = batch->next;
        if (batch->next)
            batch->next->at = batch->at;
    }
    free(batch);
    e->running--;
    e->look_ns = 0; /* something comes */
    endpoint_let_go(e);
}

static void count_failure(const struct mob_engine_infer *infer)
{
    mob_model_count_failure(infer->model, mob_now() - infer->request->started_ns);
}

static void entry_fail(
    struct mob_batch_entry *entry, enum mob_status status, unsigned retry_after_s, const char *why)
{
    struct flight *flight = engine_op_of(entry)->infer.flight;
    count_failure(&flight->op->infer);
    flight->op->error.retry_after_s = retry_after_s;
    flight_fail(flight, status, NULL, "%s", why);
}

/* Nobody waits for it any more: what has not begun never does, what runs is asked to end. */
static void batch_take_back(struct batch *batch)
{
    struct mob_task_id task = mob_future_object(batch->futures[0]).task;
    enum mob_status status = mob_cancel_task(batch->endpoint->client, task, false);
    if (status != MOB_OK) /* a ring without room, or no node: it runs, and its outputs are dropped */
        MOB_LOG_WARN(
            "models", "call_left", "name=%s code=%s", batch->endpoint->name, mob_status_code(status));
}

static void batch_fail_for(
    struct batch *batch, enum mob_status status, unsigned retry_after_s, const char *why)
{
    for (size_t i = 0; i < batch->count; i++)
        if (batch->entries[i])
            entry_fail(batch->entries[i], status, retry_after_s, why);
    batch_end(batch);
}

static void batch_fail(struct batch *batch, enum mob_status status, const char *why)
{
    batch_fail_for(batch, status, 0, why);
}

static void tell_pending(struct endpoint *e)
{
    if (e->model)
        atomic_store(&e->model->pending_count, e->batcher.count);
}

static void await_answer(struct flight *flight, int64_t longest_ns);

/* What the model says of what it was given; not that it is busy, has lost its process, or was told to end. */
static bool is_about_the_rows(enum mob_status status)
{
    return !mob_status_retryable(status) && status != MOB_WORKER_DIED && status != MOB_ACTOR_DIED &&
        status != MOB_CANCELLED && status != MOB_DEADLINE;
}

/* One call's rows must not cost the others of its batch their answers: they run again in halves, until the
 * one that fails runs by itself. False: nothing was done. */
static bool batch_again(struct batch *batch, enum mob_status status)
{
    struct endpoint *e = batch->endpoint;
    struct mob_batch_entry *entries[MOB_BATCH_CALLS_MAX];
    size_t n = 0;
    if (batch->count < 2 || !is_about_the_rows(status) || e->removed || e->error[0])
        return false;
    for (size_t i = 0; i < batch->count; i++)
        if (batch->entries[i])
            entries[n++] = batch->entries[i];
    for (size_t i = 0; i < n; i++) {
        struct flight *flight = engine_op_of(entries[i])->infer.flight;
        flight->batch = NULL;
        flight_clear_deadline(flight);
        await_answer(flight, INT64_MAX);
    }
    mob_batch_again(&e->batcher, entries, n);
    tell_pending(e);
    batch_end(batch);
    return true;
}

/* The call itself failed: its callers are told all that its future knows of it. */
static void batch_call_failed(struct batch *batch, struct mob_future *future, enum mob_status status)
{
    char why[256];
    const struct endpoint *e = batch->endpoint;
    if (status == MOB_ACTOR_DIED && (e->removed || e->retired)) { /* by a gateway; another one may be there */
        batch_fail(batch, MOB_UNAVAILABLE, ENDPOINT_IS_GONE);
        return;
    }
    snprintf(why, sizeof why, "%s", mob_client_error(e->client));
    for (size_t i = 0; i < batch->count; i++)
        if (batch->entries[i])
            engine_op_of(batch->entries[i])->error.failure_json = strdup(mob_future_error(future));
    batch_fail(batch, status, why);
}

void endpoint_fail_waiting(
    struct endpoint *e, enum mob_status status, unsigned retry_after_s, const char *why)
{
    for (struct mob_batch_entry *entry = mob_batch_drain(&e->batcher), *next; entry; entry = next) {
        next = entry->next;
        entry_fail(entry, status, retry_after_s, why);
    }
    tell_pending(e);
}

void endpoint_fail_calls(struct endpoint *e, enum mob_status status, unsigned retry_after_s, const char *why)
{
    endpoint_fail_waiting(e, status, retry_after_s, why);
    for (struct batch *batch = e->sent, *next; batch; batch = next) {
        next = batch->next;
        batch_take_back(batch);
        batch_fail_for(batch, status, retry_after_s, why);
    }
}

/* Rows [first, first + rows) of an output, in place. Those of BYTES, which have no one size, are not batched.
 */
static void slice(
    const struct mob_tensor *whole, uint64_t first, uint64_t rows, bool batched, struct mob_infer_tensor *out)
{
    uint64_t elements = 1;
    *out = (struct mob_infer_tensor){.dtype = (enum mob_dtype)whole->dtype, .ndim = (uint32_t)whole->dims};
    memcpy(out->shape, whole->shape, sizeof out->shape);
    for (int32_t d = batched ? 1 : 0; d < whole->dims; d++)
        elements *= (uint64_t)whole->shape[d];
    uint64_t bytes = out->dtype == MOB_DTYPE_BYTES ? mob_tensor_bytes_size(whole->data, elements)
                                                   : elements * mob_dtype_bytes(out->dtype);
    out->data = (const uint8_t *)whole->data + (batched ? first * bytes : 0);
    out->bytes = batched ? rows * bytes : bytes;
    if (batched)
        out->shape[0] = (int64_t)rows;
}

static void batch_answer(struct batch *batch, const struct mob_tensor *tensors, struct batch_result *result)
{
    const struct mob_model *model = batch->endpoint->model;
    int64_t now = mob_now();
    uint64_t first = 0;
    for (size_t i = 0; i < batch->count; first += batch->entry_rows[i++]) {
        if (!batch->entries[i])
            continue;
        struct mob_engine_op *op = engine_op_of(batch->entries[i]);
        uint64_t rows = batch->entry_rows[i];
        op->infer.outputs = calloc(model->output_count + 1, sizeof *op->infer.outputs);
        MOB_ASSERT(op->infer.outputs != NULL);
        for (uint32_t k = 0; k < model->output_count; k++)
            slice(&tensors[k], first, rows, model->max_batch_size > 1, &op->infer.outputs[k]);
        mob_infer_result_hold(&result->base);
        op->infer.result = &result->base;
        mob_model_count_success(
            batch->endpoint->model, rows, batch->sent_ns - batch->entries[i]->since_ns, now - batch->sent_ns);
        flight_done(op->infer.flight);
    }
}

/* Else nobody knows whose rows are whose. */
static bool has_all_rows(const struct batch *batch, uint32_t output, const struct mob_tensor *tensor,
    char *why_out, size_t why_bytes)
{
    const struct mob_model *model = batch->endpoint->model;
    int64_t rows = tensor->dims < 1 ? 0 : tensor->shape[0];
    if (model->max_batch_size <= 1 || (uint64_t)rows == batch->rows)
        return true;
    snprintf(why_out, why_bytes, "the model's output %s has %lld rows for the %llu of its call",
        model->outputs[output].name, (long long)rows, (unsigned long long)batch->rows);
    return false;
}

static void batch_ready(struct batch *batch)
{
    struct mob_model *model = batch->endpoint->model;
    struct mob_tensor tensors[MOB_MODEL_TENSORS_MAX] = {0};
    struct batch_result *result = calloc(1, sizeof *result);
    MOB_ASSERT(result != NULL);
    mob_model_count_execution(model);
    result->base = (struct mob_infer_result){1, result_destroy};
    enum mob_status status = MOB_OK;
    struct mob_future *failed = NULL;
    char why[256] = "";
    for (uint32_t k = 0; status == MOB_OK && k < model->output_count; k++) {
        struct mob_value *value = NULL;
        status = mob_get(batch->futures[k], 0, &value);
        if (mob_future_look(batch->futures[k]).state == MOB_FUTURE_FAILED)
            failed = batch->futures[k];
        if (status == MOB_OK) {
            result->pins[k] = engine_pin(batch->endpoint->engine, value);
            result->pins[k]->client = batch->endpoint->client;
            result->pins[k]->object = mob_future_object(batch->futures[k]);
            result->pins[k]->drop = mob_future_look(batch->futures[k]).own_bytes;
            status = mob_value_tensor(value, &tensors[k]);
        }
        if (status == MOB_OK && !has_all_rows(batch, k, &tensors[k], why, sizeof why))
            status = MOB_TYPE_MISMATCH;
    }
    if (status == MOB_OK) {
        batch_answer(batch, tensors, result);
        batch_end(batch);
    } else if ((failed || *why) && batch_again(batch, status)) {
        /* its calls wait again */
    } else if (failed) {
        batch_call_failed(batch, failed, status);
    } else {
        if (!*why)
            snprintf(why, sizeof why, "%s", mob_client_error(batch->endpoint->client));
        batch_fail(batch, status, why);
    }
    mob_infer_result_release(&result->base);
}

static void on_output(struct mob_future *future, void *arg)
{
    struct batch *batch = arg;
    (void)future;
    batch->endpoint->engine->worked++;
    if (++batch->ready == batch->endpoint->model->output_count)
        batch_ready(batch);
}

/* Behind the last asker a call is taken back if it cannot have begun, or has had the time that any call has.
 * Else it runs on: one client's short patience must not cost the others their replica. */
static void leave_batch(struct batch *batch, const struct mob_batch_entry *entry)
{
    bool first_sent = batch->next == NULL; /* the replica runs one after the other */
    for (size_t i = 0; i < batch->count; i++)
        if (batch->entries[i] == entry)
            batch->entries[i] = NULL;
    if (--batch->awaited > 0 || (first_sent && mob_now() - batch->sent_ns < answer_ns(batch->endpoint)))
        return;
    batch_take_back(batch);
    batch_end(batch);
}

/* Calls that run for nobody and have had their time; when to call again. */
static int64_t end_overdue(struct endpoint *e, int64_t now)
{
    int64_t wake = INT64_MAX;
    for (struct batch *batch = e->sent, *next; batch; batch = next) {
        int64_t late = batch->sent_ns + answer_ns(e);
        next = batch->next;
        if (batch->awaited == 0 && late <= now) {
            batch_take_back(batch);
            batch_end(batch);
        } else if (batch->awaited == 0 && late < wake) {
            wake = late;
        }
    }
    return wake;
}

/* Its own time, or what any call may take, has passed. */
static void on_no_answer(struct flight *flight)
{
    struct mob_engine_infer *infer = &flight->op->infer;
    struct endpoint *e = infer->model->engine_data;
    int64_t timeout_ns = infer->request->timeout_ns;
    count_failure(infer);
    if (timeout_ns > 0 && mob_now() - infer->request->started_ns >= timeout_ns)
        mob_engine_op_fail(flight->op, MOB_UNAVAILABLE, NULL,
            "the model did not answer within the timeout of %lld us", (long long)timeout_ns / 1000);
    else
        mob_engine_op_fail(flight->op, MOB_UNAVAILABLE, NULL,
            "the model did not answer within the %u ms of its endpoint", e->timeout_ms);
    if (flight->batch) {
        leave_batch(flight->batch, &infer->entry);
    } else {
        mob_batch_remove(&e->batcher, &infer->entry);
        tell_pending(e);
    }
    flight_done(flight);
}

static void await_answer(struct flight *flight, int64_t longest_ns)
{
    const struct mob_infer_request *request = flight->op->infer.request;
    int64_t late = request->timeout_ns > 0 ? request->started_ns + request->timeout_ns : INT64_MAX;
    if (longest_ns < late)
        late = longest_ns;
    if (late < INT64_MAX)
        flight_set_deadline(flight, late, on_no_answer);
}

static void send_now(struct flight *first);

static void on_no_room(struct flight *first, enum mob_status status, const char *text, size_t size)
{
    char why[256];
    snprintf(why, sizeof why, "%s%s%.*s", mob_status_text(status), size ? ": " : "",
        (int)(size < 200 ? size : 200), text ? text : "");
    batch_fail(first->batch, status, why);
}

static void send_batch(struct endpoint *e, struct batch *batch)
{
    for (size_t i = 0; i < batch->count; i++) {
        struct mob_engine_infer *infer = &engine_op_of(batch->entries[i])->infer;
        batch->requests[i] = infer->request;
        batch->entry_rows[i] = batch->entries[i]->rows;
        infer->flight->batch = batch;
        flight_clear_deadline(infer->flight); /* until it is sent: it may wait for room */
    }
    batch->sent_ns = mob_now();
    batch->call = (struct engine_infer_call){.engine = e->engine,
        .client = e->client,
        .requests = batch->requests,
        .request_count = batch->count,
        .tensor_count = e->model->input_count,
        .rows = batch->rows,
        .batched = e->model->max_batch_size > 1};
    send_now(engine_op_of(batch->entries[0])->infer.flight);
}

/* Of the batch whose first request this is. */
static void send_now(struct flight *first)
{
    struct batch *batch = first->batch;
    struct endpoint *e = batch->endpoint;
    enum mob_status status = engine_infer_send(&batch->call, e->actor, e->class, batch->futures);
    for (uint32_t k = 0; status == MOB_OK && k < e->model->output_count; k++)
        status = mob_on_ready(batch->futures[k], on_output, batch);
    if (status == MOB_STORE_FULL) {
        flight_want_room(first, send_now, on_no_room);
        return;
    }
    if (status != MOB_OK) {
        char why[256];
        snprintf(why, sizeof why, "%s", mob_client_error(e->client));
        batch_fail(batch, status, why);
        return;
    }
    batch->at = &e->sent;
    batch->next = e->sent;
    if (batch->next)
        batch->next->at = &batch->next;
    e->sent = batch;
    /* A node that dies takes the call with it: nobody would ever answer. */
    for (size_t i = 0; i < batch->count; i++)
        await_answer(engine_op_of(batch->entries[i])->infer.flight, mob_now() + answer_ns(e));
}

static void step_endpoint(struct endpoint *e, int64_t now)
{
    while (e->ready && !e->waits[0]) {
        struct batch *batch = NULL;
        struct mob_batch_entry *entries[MOB_BATCH_CALLS_MAX];
        size_t n = mob_batch_take(&e->batcher, now, entries);
        if (n == 0)
            return;
        batch = calloc(1, sizeof *batch);
        MOB_ASSERT(batch != NULL);
        batch->endpoint = e;
        batch->count = batch->awaited = n;
        memcpy(batch->entries, entries, n * sizeof(struct mob_batch_entry *));
        for (size_t i = 0; i < n; i++)
            batch->rows += entries[i]->rows;
        e->running++;
        e->engine->worked++;
        tell_pending(e);
        send_batch(e, batch);
    }
}

int64_t engine_models_step(struct engine *engine, int64_t now)
{
    int64_t wake = INT64_MAX;
    for (struct endpoint *e = engine->models->all, *next; e; e = next) {
        next = e->next;
        int64_t at = end_overdue(e, now);
        wake = at < wake ? at : wake;
        step_endpoint(e, now);
        at = e->ready && !e->waits[0] ? mob_batch_deadline(&e->batcher) : INT64_MAX;
        wake = at < wake ? at : wake;
        at = e->retired ? endpoint_drain(e, now) : endpoint_look(e, now);
        wake = at < wake ? at : wake;
    }
    return wake;
}

/* False: nobody is to take it, and it has failed. */
static bool take_request(struct endpoint *e, struct mob_engine_infer *infer)
{
    struct mob_engine_op *op = infer->flight->op;
    if (!e || e->model != infer->model)
        mob_engine_op_fail(op, MOB_UNAVAILABLE, NULL, ENDPOINT_IS_GONE);
    else if (e->error[0])
        mob_engine_op_fail(op, MOB_UNAVAILABLE, NULL, "%s", e->error);
    else if (!mob_batch_add(
                 &e->batcher, &infer->entry, infer->request->rows, infer->request->shape_hash, mob_now()))
        mob_engine_op_fail(
            op, MOB_UNAVAILABLE, NULL, "%d calls of this model wait already", MOB_BATCH_QUEUE_MAX);
    return op->error.status == MOB_OK;
}

void engine_start_infer(struct flight *flight)
{
    struct mob_engine_infer *infer = &flight->op->infer;
    struct endpoint *e = endpoint_named(flight->engine, infer->model->name);
    infer->flight = flight;
    if (!take_request(e, infer)) {
        count_failure(infer);
        flight_done(flight);
        return;
    }
    await_answer(flight, INT64_MAX);
    tell_pending(e);
}
