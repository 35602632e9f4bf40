/* /api/v1/tasks: submit, batch, read, cancel. */
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/wire/option_bounds.h"
#include "server/api/api.h"
#include "server/api/body.h"
#include "server/api/cursor.h"
#include "server/api/metrics.h"
#include "server/api/options.h"
#include "server/api/problem.h"
#include "server/api/submit.h"

void mob_api_task_submit(struct mob_api *api, struct mob_http_request *request)
{
    (void)api;
    struct mob_body body;
    struct mob_engine_op *op = mob_body_open_op(&body, request, false, MOB_ENGINE_SUBMIT);
    if (!op)
        return;
    mob_body_fields(&body, body.root, "", "function\0arguments\0options\0job\0");
    op->submit.call = MOB_CALL_TASK;
    op->submit.function = mob_options_function(&body, body.root, "", "function");
    op->submit.arguments = mob_options_arguments(&body, body.root, "");
    mob_options_read(&body, body.root, "", MOB_OPTIONS_OF_TASK, &op->submit.options);
    mob_submit_run(&body, op);
}

/* --- batch --- */

static void read_items(struct mob_body *body, const json_t *items)
{
    for (size_t i = 0; i < json_array_size(items); i++) {
        const json_t *item = json_array_get(items, i);
        char at[32];
        snprintf(at, sizeof at, "/items/%zu", i);
        if (!json_is_object(item)) {
            mob_body_error(body, at, NULL, "must be an object");
            continue;
        }
        /* Options of single items would make each a group of its own: they are the batch's. */
        mob_body_fields(body, item, at, "function\0arguments\0");
        mob_body_string(body, item, at, "function", MOB_BODY_REQUIRED, 512);
        mob_body_array(body, item, at, "arguments", MOB_BODY_OPTIONAL, MOB_ARGUMENTS_MAX);
    }
}

static void read_rows(struct mob_body *body, const json_t *rows)
{
    for (size_t i = 0; i < json_array_size(rows); i++) {
        char at[32];
        if (json_is_array(json_array_get(rows, i)))
            continue;
        snprintf(at, sizeof at, "/rows/%zu", i);
        mob_body_error(body, at, NULL, "must be an array of arguments");
    }
}

static void write_item(struct mob_text *t, const struct mob_engine_batch *batch, size_t i)
{
    if (batch->errors && batch->errors[i].status != MOB_OK) {
        mob_text_puts(t, "{\"error\":");
        mob_problem_write(t, &batch->errors[i]);
        mob_text_putc(t, '}');
        return;
    }
    char id[MOB_ID_TEXT_MAX];
    mob_task_id_format(batch->tasks[i], id);
    mob_text_puts(t, "{\"id\":\"");
    mob_text_puts(t, id);
    mob_text_puts(t, "\",\"returns\":[");
    mob_submit_write_returns(t, batch->tasks[i], batch->return_counts[i]);
    mob_text_puts(t, "]}");
}

static void answer_batch(struct mob_http_request *request, struct mob_engine_op *op)
{
    const struct mob_engine_batch *batch = &op->batch;
    struct mob_text t = {0};
    mob_text_reserve(&t, batch->count * 112 + 64);
    size_t failed = 0;
    for (size_t i = 0; i < batch->count; i++)
        failed += batch->errors && batch->errors[i].status != MOB_OK;
    mob_text_printf(&t, "{\"count\":%zu,\"failed\":%zu,\"items\":[", batch->count, failed);
    for (size_t i = 0; i < batch->count; i++) {
        if (i > 0)
            mob_text_putc(&t, ',');
        write_item(&t, batch, i);
    }
    mob_text_puts(&t, "]}\n");
    mob_metrics_tasks(mob_api_of(request)->metrics, batch->count - failed);
    mob_http_reply_text(request, 202, "application/json", &t);
}

static bool is_given(const json_t *object, const char *field)
{
    const json_t *value = json_object_get(object, field);
    return value && !json_is_null(value);
}

void mob_api_task_batch(struct mob_api *api, struct mob_http_request *request)
{
    (void)api;
    struct mob_body body;
    struct mob_engine_op *op = mob_body_open_op(&body, request, false, MOB_ENGINE_BATCH);
    if (!op)
        return;
    mob_body_fields(&body, body.root, "", "function\0rows\0items\0options\0job\0");
    json_t *rows = mob_body_array(&body, body.root, "", "rows", MOB_BODY_OPTIONAL, MOB_ENGINE_BATCH_MAX);
    json_t *items = mob_body_array(&body, body.root, "", "items", MOB_BODY_OPTIONAL, MOB_ENGINE_BATCH_MAX);
    /* One that is there and wrong has its error already. */
    bool has_rows = is_given(body.root, "rows"), has_items = is_given(body.root, "items");
    if (has_rows == has_items)
        mob_body_error(&body, "", has_rows ? "items" : "rows", "exactly one of rows and items is needed");
    if (has_rows)
        op->batch.function = mob_options_function(&body, body.root, "", "function");
    else if (json_object_get(body.root, "function"))
        mob_body_error(&body, "", "function", "goes with rows; items name their own");
    read_rows(&body, rows);
    read_items(&body, items);
    mob_options_read(&body, body.root, "", MOB_OPTIONS_OF_TASK, &op->batch.options);
    if (!mob_body_ok(&body)) {
        mob_engine_op_destroy(op);
        return;
    }
    op->batch.rows = json_incref(rows);
    op->batch.items = json_incref(items);
    mob_body_close(&body);
    mob_api_run(request, op, answer_batch, 0, NULL);
}

/* --- one task --- */

/* The id of the path in text form, checked; NULL: answered with 404. */
static const char *task_of(struct mob_http_request *request)
{
    struct mob_task_id id;
    const char *text = request->segment_values[0];
    if (mob_task_id_parse(text, &id) == MOB_OK)
        return text;
    mob_api_fail(request, MOB_NOT_FOUND, "no such task");
    return NULL;
}

static void ask(struct mob_http_request *request, enum mob_engine_verb verb)
{
    const char *id = mob_api_query_only(request, "") ? task_of(request) : NULL;
    struct mob_engine_op *op = id ? mob_api_op(request, verb) : NULL;
    if (!op)
        return;
    op->query.kind = MOB_ITEM_TASK;
    op->query.id = strdup(id);
    mob_api_run(request, op, mob_api_answer_json, 0, NULL);
}

void mob_api_task_get(struct mob_api *api, struct mob_http_request *request)
{
    (void)api;
    ask(request, MOB_ENGINE_DESCRIBE);
}

void mob_api_task_why(struct mob_api *api, struct mob_http_request *request)
{
    (void)api;
    ask(request, MOB_ENGINE_WHY);
}

void mob_api_task_items(struct mob_api *api, struct mob_http_request *request)
{
    (void)api;
    double wait;
    int64_t limit;
    if (!mob_api_query_only(request, "limit\0cursor\0wait\0") || !mob_api_wait_query(request, &wait) ||
        !mob_api_query_int(request, "limit", 1, MOB_API_LIST_MAX, MOB_API_LIST_DEFAULT, &limit))
        return;
    const char *id = task_of(request);
    struct mob_engine_op *op = id ? mob_api_op(request, MOB_ENGINE_ITEMS) : NULL;
    if (!op)
        return;
    int64_t wait_ns = wait > 0 ? (int64_t)(wait * 1e9) : 0;
    op->query.id = strdup(id);
    op->query.limit = (uint32_t)limit;
    if (!mob_cursor_take(request, &op->query)) {
        mob_engine_op_destroy(op);
        return;
    }
    op->query.wait_deadline_ns = wait_ns ? mob_deadline_after(wait_ns) : 0;
    mob_api_run(request, op, mob_api_answer_json, mob_api_deadline(request, wait_ns), NULL);
}

void mob_api_task_cancel(struct mob_api *api, struct mob_http_request *request)
{
    (void)api;
    const char *id = task_of(request);
    if (!id)
        return;
    struct mob_body body;
    if (!mob_body_open(&body, request, true))
        return;
    mob_body_fields(&body, body.root, "", "force\0");
    bool force = mob_body_bool(&body, body.root, "", "force", false);
    if (!mob_body_ok(&body))
        return;
    mob_body_close(&body);
    struct mob_engine_op *op = mob_api_op(request, MOB_ENGINE_TASK_CANCEL);
    if (!op)
        return;
    op->query.id = strdup(id);
    op->query.force = force;
    mob_api_run(request, op, mob_api_answer_accepted, 0, NULL);
}
