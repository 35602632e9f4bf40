/* /api/v1/objects: state, bytes, wait, lineage, delete. Puts are in routes_puts.c. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "server/api/api.h"
#include "server/api/body.h"
#include "server/api/conditions.h"
#include "server/api/cursor.h"
#include "server/api/failure.h"
#include "server/api/problem.h"
#include "server/api/range.h"

static bool object_of(struct mob_http_request *request, struct mob_object_id *id_out)
{
    if (mob_object_id_parse(request->segment_values[0], id_out) == MOB_OK)
        return true;
    mob_api_fail(request, MOB_NOT_FOUND, "no such object");
    return false;
}

/* False: answered already. */
static bool object_and_wait(struct mob_http_request *request, struct mob_object_id *id_out, double *wait_out)
{
    return mob_api_query_only(request, "wait\0") && mob_api_wait_query(request, wait_out) &&
        object_of(request, id_out);
}

/* --- state --- */

static void answer_state(struct mob_http_request *request, struct mob_engine_op *op)
{
    const struct mob_engine_value *value = &op->object.value;
    char id[MOB_ID_TEXT_MAX], task[MOB_ID_TEXT_MAX];
    mob_object_id_format(op->object.id, id);
    mob_task_id_format(op->object.id.task, task);
    struct mob_text t = {0};
    /* The caller's mistake is a problem; the object's own failure is its state. */
    if (op->error.status != MOB_OK && value->state != MOB_OBJ_FAILED && value->state != MOB_OBJ_LOST) {
        mob_problem_reply_error(request, &op->error);
        return;
    }
    mob_text_printf(&t, "{\"id\":\"%s\",\"task\":\"%s\",\"state\":\"%s\"", id, task,
        mob_engine_object_state_name(value->state));
    if (value->state == MOB_OBJ_READY || value->state == MOB_OBJ_EVICTED) {
        mob_text_printf(
            &t, ",\"type\":\"%s\",\"size\":%zu", value->type ? value->type : "bytes", value->size);
        if (value->hash_lo | value->hash_hi)
            mob_text_printf(&t, ",\"hash\":\"%016llx%016llx\"", (unsigned long long)value->hash_hi,
                (unsigned long long)value->hash_lo);
        if (value->json) {
            mob_text_puts(&t, ",\"value\":");
            mob_text_puts(&t, value->json);
        }
    }
    if (op->error.status != MOB_OK) {
        mob_text_puts(&t, ",\"error\":");
        mob_failure_write_error(&t, &op->error, op->object.id.task);
    }
    mob_text_puts(&t, "}\n");
    mob_http_reply_text(request, 200, "application/json", &t);
}

void mob_api_object_get(struct mob_api *api, struct mob_http_request *request)
{
    (void)api;
    double wait;
    struct mob_object_id id;
    if (!object_and_wait(request, &id, &wait))
        return;
    struct mob_engine_op *op = mob_api_op(request, MOB_ENGINE_OBJECT_GET);
    if (!op)
        return;
    op->object.id = id;
    op->object.want_json = true;
    op->answers_errors = true;
    int64_t wait_ns = wait > 0 ? (int64_t)(wait * 1e9) : 0;
    op->object.wait_deadline_ns = wait_ns ? mob_deadline_after(wait_ns) : 0;
    mob_api_run(request, op, answer_state, mob_api_deadline(request, wait_ns), NULL);
}

/* --- bytes --- */

/* What the request's headers said, kept because they are gone when the value comes; NULL: nothing. */
struct data_request {
    char *range, *if_range, *if_match, *if_none_match;
};

static void data_request_free(void *state)
{
    struct data_request *asked = state;
    free(asked->range);
    free(asked->if_range);
    free(asked->if_match);
    free(asked->if_none_match);
    free(asked);
}

static char *keep_header(const struct mob_http_request *request, const char *name)
{
    const char *value = mob_http_header(request, name);
    char *kept = value ? strdup(value) : NULL;
    MOB_ASSERT(kept || !value); /* a condition that is forgotten would be one that holds */
    return kept;
}

static void reply_not_ready(struct mob_http_request *request, const struct mob_engine_value *value)
{
    static const enum mob_status statuses[] = {
        [MOB_OBJ_PENDING] = MOB_NOT_READY,
        [MOB_OBJ_READY] = MOB_OK,
        [MOB_OBJ_FAILED] = MOB_TASK_FAILED,
        [MOB_OBJ_EVICTED] = MOB_NOT_READY,
        [MOB_OBJ_RECONSTRUCTING] = MOB_NOT_READY,
        [MOB_OBJ_LOST] = MOB_OBJECT_LOST,
    };
    mob_problem_replyf(
        request, statuses[value->state], "the object is %s", mob_engine_object_state_name(value->state));
}

/* The bytes go out of the segment itself; the pin is dropped when they have left. */
struct pin {
    void (*release)(void *cls);
    void *cls;
};

static void drop_pin(void *cls)
{
    struct pin *pin = cls;
    pin->release(pin->cls);
    free(pin);
}

static void reply_bytes(
    struct mob_http_request *request, int status, struct mob_engine_value *value, struct mob_range range)
{
    const char *bytes = (const char *)value->payload + range.first;
    struct pin *pin = value->release ? malloc(sizeof *pin) : NULL;
    if (!pin) {
        mob_http_reply(request, status, value->media_type, bytes, range.length);
        return;
    }
    *pin = (struct pin){value->release, value->release_cls};
    value->release = NULL;
    mob_http_reply_borrow(request, status, value->media_type, bytes, range.length, drop_pin, pin);
}

static void answer_data(struct mob_http_request *request, struct mob_engine_op *op)
{
    struct mob_engine_value *value = &op->object.value;
    const struct data_request *asked = request->state;
    if (op->error.failure_json && value->state == MOB_OBJ_FAILED) {
        mob_problem_reply_failure(request, &op->error);
        return;
    }
    if (op->error.status != MOB_OK) {
        mob_problem_reply_error(request, &op->error);
        return;
    }
    if (value->state != MOB_OBJ_READY) {
        reply_not_ready(request, value);
        return;
    }
    char etag[MOB_OBJECT_TAG_MAX];
    mob_object_tag(op->object.id, etag);
    if (asked->if_match && !mob_etag_listed(asked->if_match, etag, true)) {
        mob_condition_reply(request, "If-Match names another version; an object has one only");
        return;
    }
    struct mob_range range = {0, value->size};
    int status = 200;
    if (asked->if_none_match && mob_etag_listed(asked->if_none_match, etag, false)) {
        status = 304;
        range.length = 0;
        request->reply.length_of_head = value->size;
    } else if (asked->range && (!asked->if_range || strcmp(asked->if_range, etag) == 0)) {
        enum mob_range_result result = mob_range_parse(asked->range, value->size, &range);
        if (result == MOB_RANGE_OUTSIDE) {
            mob_problem_replyf(request, MOB_RANGE, "the object has %zu bytes", value->size);
            mob_http_reply_headerf(request, "Content-Range", "bytes */%zu", value->size);
            return;
        }
        status = result == MOB_RANGE_PART ? 206 : 200;
    }
    mob_http_reply_header(request, "ETag", etag);
    mob_http_reply_header(request, "Accept-Ranges", "bytes");
    mob_http_reply_header(request, "Cache-Control", "private, immutable, max-age=31536000");
    mob_http_reply_headerf(request, "Mobula-Type", "%s", value->type);
    if (status == 206)
        mob_http_reply_headerf(request, "Content-Range", "bytes %zu-%zu/%zu", range.first,
            range.first + range.length - 1, value->size);
    reply_bytes(request, status, value, range);
}

void mob_api_object_data(struct mob_api *api, struct mob_http_request *request)
{
    (void)api;
    double wait;
    struct mob_object_id id;
    if (!object_and_wait(request, &id, &wait))
        return;
    struct data_request *asked = calloc(1, sizeof *asked);
    struct mob_engine_op *op = asked ? mob_api_op(request, MOB_ENGINE_OBJECT_GET) : NULL;
    if (!op) {
        free(asked);
        return;
    }
    if (request->method == MOB_HTTP_GET) /* for others it has no meaning (RFC 9110, section 14.2) */
        asked->range = keep_header(request, "Range");
    asked->if_match = keep_header(request, "If-Match");
    asked->if_range = keep_header(request, "If-Range");
    asked->if_none_match = keep_header(request, "If-None-Match");
    request->state = asked;
    request->state_free = data_request_free;
    op->object.id = id;
    op->object.want_payload = true;
    op->answers_errors = true;
    int64_t wait_ns = wait > 0 ? (int64_t)(wait * 1e9) : 0;
    op->object.wait_deadline_ns = wait_ns ? mob_deadline_after(wait_ns) : 0;
    mob_api_run(request, op, answer_data, mob_api_deadline(request, wait_ns), NULL);
}

/* --- wait --- */

static void write_ids(struct mob_text *t, const struct mob_engine_wait *wait, bool ready)
{
    bool first = true;
    for (size_t i = 0; i < wait->count; i++) {
        if (wait->ready[i] != ready)
            continue;
        char id[MOB_ID_TEXT_MAX];
        mob_object_id_format(wait->ids[i], id);
        mob_text_puts(t, first ? "\"" : ",\"");
        mob_text_puts(t, id);
        mob_text_putc(t, '"');
        first = false;
    }
}

static void answer_wait(struct mob_http_request *request, struct mob_engine_op *op)
{
    struct mob_text t = {0};
    mob_text_puts(&t, "{\"ready\":[");
    write_ids(&t, &op->wait, true);
    mob_text_puts(&t, "],\"pending\":[");
    write_ids(&t, &op->wait, false);
    mob_text_puts(&t, "]}\n");
    mob_http_reply_text(request, 200, "application/json", &t);
}

static void read_ids(struct mob_body *body, const json_t *ids, struct mob_engine_wait *wait)
{
    wait->count = json_array_size(ids);
    wait->ids = calloc(wait->count + 1, sizeof *wait->ids);
    wait->ready = calloc(wait->count + 1, sizeof *wait->ready);
    if (ids && wait->count == 0)
        mob_body_error(body, "", "ids", "must not be empty");
    for (size_t i = 0; wait->ids && i < wait->count; i++) {
        const char *text = json_string_value(json_array_get(ids, i));
        if (text && mob_object_id_parse(text, &wait->ids[i]) == MOB_OK)
            continue;
        char at[32];
        snprintf(at, sizeof at, "/ids/%zu", i);
        mob_body_error(body, at, NULL, "is not an object id");
    }
}

void mob_api_object_wait(struct mob_api *api, struct mob_http_request *request)
{
    (void)api;
    struct mob_body body;
    struct mob_engine_op *op = mob_body_open_op(&body, request, false, MOB_ENGINE_OBJECT_WAIT);
    if (!op)
        return;
    mob_body_fields(&body, body.root, "", "ids\0num_returns\0timeout_ms\0");
    const json_t *ids =
        mob_body_array(&body, body.root, "", "ids", MOB_BODY_REQUIRED, MOB_ENGINE_WAIT_IDS_MAX);
    read_ids(&body, ids, &op->wait);
    int64_t count_max = op->wait.count > 0 ? (int64_t)op->wait.count : 1;
    op->wait.num_returns = (size_t)mob_body_int(&body, body.root, "", "num_returns", 1, count_max, 1);
    int64_t timeout_ms = mob_body_int(&body, body.root, "", "timeout_ms", 0, MOB_API_WAIT_MAX_S * 1000, 0);
    bool memory = op->wait.ids && op->wait.ready;
    if (!memory)
        mob_body_error(&body, "", "ids", "out of memory");
    if (!mob_body_ok(&body)) {
        mob_engine_op_destroy(op);
        return;
    }
    mob_body_close(&body);
    op->wait.deadline_ns = mob_deadline_after(timeout_ms * MOB_MS);
    mob_api_run(request, op, answer_wait, mob_api_deadline(request, timeout_ms * MOB_MS), NULL);
}

/* --- delete, lineage --- */

void mob_api_object_delete(struct mob_api *api, struct mob_http_request *request)
{
    (void)api;
    struct mob_object_id id;
    struct mob_engine_op *op = object_of(request, &id) ? mob_api_op(request, MOB_ENGINE_OBJECT_DELETE) : NULL;
    if (!op)
        return;
    op->query.id = strdup(request->segment_values[0]);
    mob_api_run(request, op, mob_api_answer_accepted, 0, NULL);
}

void mob_api_object_lineage(struct mob_api *api, struct mob_http_request *request)
{
    (void)api;
    struct mob_object_id id;
    int64_t depth, limit;
    if (!mob_api_query_only(request, "depth\0limit\0cursor\0") ||
        !mob_api_query_int(request, "depth", 1, 1000, 8, &depth) ||
        !mob_api_query_int(request, "limit", 1, MOB_API_LIST_MAX, MOB_API_LIST_DEFAULT, &limit) ||
        !object_of(request, &id))
        return;
    struct mob_engine_op *op = mob_api_op(request, MOB_ENGINE_LINEAGE);
    if (!op)
        return;
    op->query.kind = MOB_ITEM_OBJECT;
    op->query.id = strdup(request->segment_values[0]);
    op->query.depth = (uint32_t)depth;
    op->query.limit = (uint32_t)limit;
    if (!mob_cursor_take(request, &op->query)) {
        mob_engine_op_destroy(op);
        return;
    }
    mob_api_run(request, op, mob_api_answer_json, 0, NULL);
}
