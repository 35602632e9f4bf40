#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/hash.h"
#include "server/api/engine.h"

const char *mob_engine_object_state_name(enum mob_engine_object_state state)
{
    static const char *const names[] = {"pending", "ready", "failed", "evicted", "reconstructing", "lost"};
    return names[state];
}

/* Ten thousand waits are parked at a time, each with its op: it is no larger than its verb needs. */
static size_t size_of(enum mob_engine_verb verb)
{
    size_t head = offsetof(struct mob_engine_op, submit);
    switch ((int)verb) {
    case MOB_ENGINE_OBJECT_GET:
        return head + sizeof(struct mob_engine_object);
    case MOB_ENGINE_OBJECT_WAIT:
        return head + sizeof(struct mob_engine_wait);
    default:
        return sizeof(struct mob_engine_op);
    }
}

struct mob_engine_op *mob_engine_op_create(
    enum mob_engine_verb verb, void (*done)(struct mob_engine_op *), void *context)
{
    struct mob_engine_op *op = calloc(1, size_of(verb));
    if (!op)
        return NULL;
    op->verb = verb;
    op->done = done;
    op->context = context;
    return op;
}

void mob_engine_op_fail(
    struct mob_engine_op *op, enum mob_status status, const char *pointer, const char *format, ...)
{
    if (op->error.status != MOB_OK)
        return;
    op->error.status = status;
    va_list arguments;
    va_start(arguments, format);
    if (vasprintf(&op->error.detail, format, arguments) < 0)
        op->error.detail = NULL;
    va_end(arguments);
    if (pointer)
        op->error.pointer = strdup(pointer);
}

static void mob_engine_error_fini(struct mob_engine_error *error)
{
    free(error->detail);
    free(error->pointer);
    free(error->failure_json);
    *error = (struct mob_engine_error){0};
}

static void mob_engine_options_fini(struct mob_engine_options *options)
{
    free(options->name);
    free(options->idempotency_key);
    free(options->actor_name);
    for (size_t i = 0; i < options->resource_count; i++)
        free(options->resources[i].name);
    free(options->resources);
    for (size_t i = 0; i < options->label_count; i++)
        free(options->labels[i]);
}

static void value_fini(struct mob_engine_value *value)
{
    if (value->release)
        value->release(value->release_cls);
    free(value->json);
}

static void batch_fini(struct mob_engine_batch *batch)
{
    free(batch->function);
    json_decref(batch->rows);
    json_decref(batch->items);
    mob_engine_options_fini(&batch->options);
    free(batch->tasks);
    free(batch->return_counts);
    for (size_t i = 0; batch->errors && i < batch->count; i++)
        mob_engine_error_fini(&batch->errors[i]);
    free(batch->errors);
}

static void submit_fini(struct mob_engine_submit *submit)
{
    free(submit->function);
    json_decref(submit->arguments);
    mob_engine_options_fini(&submit->options);
    value_fini(&submit->value);
    free(submit->results_json);
}

static void query_fini(struct mob_engine_query *query)
{
    free(query->id);
    free(query->filter);
    free(query->sort);
    free(query->cursor);
}

void mob_engine_cursor_tag(
    const struct mob_engine_query *query, const char *own, char out[MOB_CURSOR_TAG_MAX])
{
    uint64_t hash = query->scope ^ mob_hash64(own, strlen(own));
    for (int i = 0; i < MOB_CURSOR_TAG_MAX - 1; i++, hash >>= 5)
        out[i] = "abcdefghijklmnopqrstuvwxyz234567"[hash & 31];
    out[MOB_CURSOR_TAG_MAX - 1] = '\0';
}

void mob_engine_next_cursor(struct mob_engine_query *query, char *own)
{
    char *whole = NULL, tag[MOB_CURSOR_TAG_MAX];
    if (own)
        mob_engine_cursor_tag(query, own, tag);
    if (own && asprintf(&whole, "%s%s", tag, own) < 0)
        whole = NULL;
    free(own);
    free(query->cursor);
    query->cursor = whole;
}

json_t *mob_engine_page(struct mob_engine_query *query, json_t *items, char *next, bool truncated)
{
    bool is_all = !query->cursor && !next && !truncated;
    json_t *total = is_all ? json_integer((json_int_t)json_array_size(items)) : json_null();
    mob_engine_next_cursor(query, next);
    return json_pack("{s:O,s:s?,s:o,s:b,s:n}", "items", items, "next_cursor", query->cursor, "total_estimate",
        total, "truncated", (int)truncated, "dropped_before");
}

static void mob_engine_key_destroy(struct mob_engine_key *key)
{
    if (!key)
        return;
    free(key->answer);
    free(key);
}

void mob_engine_op_destroy(struct mob_engine_op *op)
{
    if (!op)
        return;
    switch (op->verb) {
    case MOB_ENGINE_SUBMIT:
        submit_fini(&op->submit);
        break;
    case MOB_ENGINE_BATCH:
        batch_fini(&op->batch);
        break;
    case MOB_ENGINE_OBJECT_GET:
        value_fini(&op->object.value);
        break;
    case MOB_ENGINE_OBJECT_WAIT:
        free(op->wait.ids);
        free(op->wait.ready);
        break;
    case MOB_ENGINE_OBJECT_PUT:
        free(op->put.type);
        free(op->put.idempotency_key);
        break;
    case MOB_ENGINE_FUNCTION_PUT:
        free(op->upload.name);
        break;
    case MOB_ENGINE_JOB_OPEN:
        free(op->job.name);
        free(op->job.metadata_json);
        break;
    case MOB_ENGINE_ENDPOINT_PUT:
        free(op->endpoint.name);
        free(op->endpoint.actor_class);
        json_decref(op->endpoint.arguments);
        break;
    case MOB_ENGINE_INFER:
        mob_infer_request_destroy(op->infer.request);
        free(op->infer.outputs);
        mob_infer_result_release(op->infer.result);
        mob_model_release(op->infer.model);
        break;
    case MOB_ENGINE_OBJECT_DELETE:
    case MOB_ENGINE_TASK_CANCEL:
    case MOB_ENGINE_ACTOR_DELETE:
    case MOB_ENGINE_JOB_END:
    case MOB_ENGINE_ENDPOINT_DELETE:
    case MOB_ENGINE_FUNCTION_DELETE:
    case MOB_ENGINE_DESCRIBE:
    case MOB_ENGINE_LIST:
    case MOB_ENGINE_WHY:
    case MOB_ENGINE_ITEMS:
    case MOB_ENGINE_LINEAGE:
    case MOB_ENGINE_TIMELINE:
    case MOB_ENGINE_LOGS:
    case MOB_ENGINE_CLUSTER:
        query_fini(&op->query);
        break;
    case MOB_ENGINE_METRICS:
    case MOB_ENGINE_READY:
    case MOB_ENGINE_KEY_KEEP:
        break;
    }
    mob_engine_key_destroy(op->key);
    mob_engine_error_fini(&op->error);
    mob_text_fini(&op->json);
    free(op);
}
