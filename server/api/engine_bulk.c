/* Submissions of many tasks at once. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"
#include "server/api/engine_submit.h"

/* `pointer` into the request's body; NULL: none. */
static void fail_item(
    struct mob_engine_batch *batch, size_t i, enum mob_status status, const char *pointer, const char *detail)
{
    batch->errors[i].status = status;
    batch->errors[i].detail = strdup(detail);
    batch->errors[i].pointer = pointer ? strdup(pointer) : NULL;
}

static enum mob_status submit_item(struct flight *flight, size_t i, const char *name, const json_t *arguments,
    const char *prefix, struct argument_memory *memory, struct native_options *options)
{
    struct mob_engine_batch *batch = &flight->op->batch;
    const struct mob_function *function;
    struct mob_args args;
    enum mob_status status = mob_function_find(flight->client, name, &function);
    if (status != MOB_OK) {
        char pointer[48];
        snprintf(pointer, sizeof pointer, batch->items ? "/items/%zu/function" : "/function", i);
        fail_item(batch, i, status, pointer, mob_client_error(flight->client));
        return status;
    }
    status = engine_arguments(flight->client, mob_function_callable(function).signature, arguments, prefix,
        memory, &args, &batch->errors[i]);
    if (status != MOB_OK)
        return status;
    uint32_t count = engine_returns_of(mob_function_callable(function), &options->task);
    struct mob_future *few[16],
        **futures =
            count <= 16 || count == MOB_RETURNS_STREAM ? few : calloc(count, sizeof(struct mob_future *));
    MOB_ASSERT(futures != NULL);
    engine_key_use(flight, (uint32_t)i);
    status =
        mob_submit_function(flight->client, function, args, options->plain ? NULL : &options->task, futures);
    engine_key_unused(flight);
    if (status == MOB_OK) {
        batch->tasks[i] = mob_future_object(futures[0]).task;
        batch->return_counts[i] = count;
        for (uint32_t k = 1; count != MOB_RETURNS_STREAM && k < count; k++)
            mob_release(futures[k]);
        flight->futures[flight->submitted++] = futures[0]; /* of the items without an error, in their order */
    } else if (status != MOB_STORE_FULL) {
        fail_item(
            batch, i, status, status == MOB_TYPE_MISMATCH ? prefix : NULL, mob_client_error(flight->client));
    }
    if (futures != few)
        free(futures);
    return status;
}

static void open_batch(struct flight *flight)
{
    struct mob_engine_batch *batch = &flight->op->batch;
    batch->count = json_array_size(batch->rows ? batch->rows : batch->items);
    batch->tasks = calloc(batch->count + 1, sizeof *batch->tasks);
    batch->return_counts = calloc(batch->count + 1, sizeof *batch->return_counts);
    batch->errors = calloc(batch->count + 1, sizeof *batch->errors);
    flight->futures = calloc(batch->count + 1, sizeof(struct mob_future *));
    MOB_ASSERT(batch->tasks && batch->return_counts && batch->errors && flight->futures);
}

/* From flight->next_item on. MOB_STORE_FULL: that one finds no room. */
static enum mob_status submit_items(struct flight *flight)
{
    struct mob_engine_batch *batch = &flight->op->batch;
    struct native_options options;
    engine_native_options(&batch->options, &options);
    struct argument_memory *memory = argument_memory_create();
    MOB_ASSERT(memory);
    enum mob_status status = MOB_OK;
    for (size_t i; (i = flight->next_item) < batch->count; flight->next_item++) {
        char prefix[48];
        const json_t *item = batch->items ? json_array_get(batch->items, i) : NULL;
        const json_t *arguments = item ? json_object_get(item, "arguments") : json_array_get(batch->rows, i);
        const char *name = item ? json_string_value(json_object_get(item, "function")) : batch->function;
        snprintf(prefix, sizeof prefix, item ? "/items/%zu/arguments" : "/rows/%zu", i);
        status = submit_item(flight, i, name, arguments, prefix, memory, &options);
        if (status == MOB_STORE_FULL)
            break;
    }
    argument_memory_destroy(memory);
    return status == MOB_STORE_FULL ? status : MOB_OK;
}

/* There is no room for this item; there may be for others. */
static void on_no_room(struct flight *flight, enum mob_status status, const char *text, size_t size)
{
    char detail[512];
    snprintf(detail, sizeof detail, "%s%s%.*s", mob_status_text(status), size ? ": " : "",
        (int)(size < 400 ? size : 400), text ? text : "");
    fail_item(&flight->op->batch, flight->next_item++, status, NULL, detail);
    engine_start_batch(flight);
}

static bool accepted_any(const struct mob_engine_batch *batch)
{
    for (size_t i = 0; i < batch->count; i++)
        if (batch->errors[i].status == MOB_OK)
            return true;
    return batch->count == 0;
}

static void batch_known(struct flight *flight)
{
    struct mob_engine_batch *batch = &flight->op->batch;
    if (!batch->tasks)
        open_batch(flight);
    if (submit_items(flight) == MOB_STORE_FULL)
        flight_want_room(flight, engine_start_batch, on_no_room);
    else if (!accepted_any(batch) && batch->function && batch->errors[0].status == MOB_NOT_FOUND)
        flight_fail(flight, MOB_NOT_FOUND, "/function", "%s", batch->errors[0].detail);
    else
        flight_want_ack(flight);
}

/* The memory cap may be met in the middle of a batch, and its tasks are then in no log: their items say so.
 * When nothing is in, the whole is to come again, and with a key, which finds again what is in. */
void engine_batch_acked(struct flight *flight)
{
    struct mob_engine_batch *batch = &flight->op->batch;
    size_t at = 0, refused = 0;
    for (size_t i = 0; i < batch->count; i++) {
        if (batch->errors[i].status != MOB_OK || !engine_was_refused(flight->futures[at++]))
            continue;
        fail_item(batch, i, MOB_GCS_FULL, NULL, ENGINE_REFUSED_WORDS);
        refused++;
    }
    if (refused > 0 && (flight->keyed || !accepted_any(batch)))
        engine_fail_refused(flight);
    else
        flight_done(flight);
}

/* Each name is asked for once, without waiting. */
static void learn_next(struct flight *flight)
{
    const struct mob_engine_batch *batch = &flight->op->batch;
    size_t count = batch->items ? json_array_size(batch->items) : 1;
    while (flight->step < count) {
        const json_t *item = batch->items ? json_array_get(batch->items, flight->step) : NULL;
        const char *name = item ? json_string_value(json_object_get(item, "function")) : batch->function;
        flight->step++;
        if (name && !mob_function_is_fresh(flight->client, name)) {
            engine_function_learn(flight, name, learn_next);
            return;
        }
    }
    batch_known(flight);
}

void engine_start_batch(struct flight *flight)
{
    flight->step = 0;
    if (engine_use_session(flight, &flight->op->batch.options, engine_start_batch))
        learn_next(flight);
}
