/* Lists and single items of every kind, nodes, cluster, timeline and logs: questions that the engine answers
 * as JSON. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "server/api/api.h"
#include "server/api/cursor.h"
#include "server/api/item_fields.h"
#include "server/api/problem.h"
#include "server/api/range.h"

/* --- lists --- */

/* What the Link header needs, kept because the query is rebuilt for it. */
struct list_state {
    char *base; /* path?filter&sort&limit without the cursor */
};

static void free_list_state(void *state)
{
    free(((struct list_state *)state)->base);
    free(state);
}

/* The request's own query without its cursor. */
static struct list_state *keep_query(const struct mob_http_request *request)
{
    struct mob_text t = {0};
    mob_text_puts(&t, request->path);
    mob_text_putc(&t, '?');
    for (const char *at = request->query; *at;) {
        size_t length = strcspn(at, "&");
        if (length > 0 && strncmp(at, "cursor=", 7) != 0) {
            mob_text_put(&t, at, length);
            mob_text_putc(&t, '&');
        }
        at += length;
        at += *at == '&';
    }
    struct list_state *state = calloc(1, sizeof *state);
    size_t length;
    if (state)
        state->base = mob_text_take(&t, &length);
    mob_text_fini(&t);
    return state;
}

/* The engine leaves the next cursor in query.cursor. */
static void answer_list(struct mob_http_request *request, struct mob_engine_op *op)
{
    const struct list_state *state = request->state;
    if (op->query.cursor && state && state->base)
        mob_http_reply_headerf(request, "Link", "<%scursor=%s>; rel=\"next\"", state->base, op->query.cursor);
    mob_api_answer_json(request, op);
}

/* False: answered with 400. */
static bool order_ok(
    struct mob_http_request *request, enum mob_engine_kind kind, const char *filter, const char *sort)
{
    struct mob_filter parsed;
    char message[MOB_ITEM_FIELDS_MESSAGE_MAX];
    if (mob_filter_parse(filter, &parsed) != MOB_OK)
        mob_api_fail(request, MOB_BAD_REQUEST,
            "filter: it is field:value [AND field:value]..., at most %d of them", MOB_FILTER_TERMS_MAX);
    else if (!mob_item_fields_check(kind, &parsed, sort, message))
        mob_api_fail(request, MOB_BAD_REQUEST, "%s", message);
    else
        return true;
    return false;
}

static void list(struct mob_http_request *request, enum mob_engine_kind kind)
{
    char filter[512] = "", sort[64] = "";
    int64_t limit;
    if (!mob_api_query_only(request, "limit\0cursor\0filter\0sort\0") ||
        !mob_api_query_int(request, "limit", 1, MOB_API_LIST_MAX, MOB_API_LIST_DEFAULT, &limit))
        return;
    if (mob_http_query(request, "filter", filter, sizeof filter) == MOB_INVALID ||
        mob_http_query(request, "sort", sort, sizeof sort) == MOB_INVALID) {
        mob_api_fail(request, MOB_BAD_REQUEST, "filter or sort: too long, or it does not decode");
        return;
    }
    if (!order_ok(request, kind, filter, sort))
        return;
    struct mob_engine_op *op = mob_api_op(request, MOB_ENGINE_LIST);
    if (!op)
        return;
    request->state = keep_query(request);
    request->state_free = request->state ? free_list_state : NULL;
    op->query.kind = kind;
    op->query.limit = (uint32_t)limit;
    op->query.filter = *filter ? strdup(filter) : NULL;
    op->query.sort = *sort ? strdup(sort) : NULL;
    if (!mob_cursor_take(request, &op->query)) {
        mob_engine_op_destroy(op);
        return;
    }
    mob_api_run(request, op, answer_list, 0, NULL);
}

static void describe(struct mob_http_request *request, enum mob_engine_kind kind)
{
    struct mob_engine_op *op =
        mob_api_query_only(request, "") ? mob_api_op(request, MOB_ENGINE_DESCRIBE) : NULL;
    if (!op)
        return;
    op->query.kind = kind;
    op->query.id = strdup(request->segment_values[0]);
    mob_api_run(request, op, mob_api_answer_json, 0, NULL);
}

#define LIST_ROUTE(name, kind) \
    void mob_api_##name(struct mob_api *api, struct mob_http_request *request) \
    { \
        (void)api; \
        list(request, kind); \
    }
#define DESCRIBE_ROUTE(name, kind) \
    void mob_api_##name(struct mob_api *api, struct mob_http_request *request) \
    { \
        (void)api; \
        describe(request, kind); \
    }
LIST_ROUTE(task_list, MOB_ITEM_TASK)
LIST_ROUTE(object_list, MOB_ITEM_OBJECT)
LIST_ROUTE(actor_list, MOB_ITEM_ACTOR)
LIST_ROUTE(function_list, MOB_ITEM_FUNCTION)
LIST_ROUTE(job_list, MOB_ITEM_JOB)
LIST_ROUTE(node_list, MOB_ITEM_NODE)
LIST_ROUTE(endpoint_list, MOB_ITEM_ENDPOINT)
DESCRIBE_ROUTE(actor_get, MOB_ITEM_ACTOR)
DESCRIBE_ROUTE(function_get, MOB_ITEM_FUNCTION)
DESCRIBE_ROUTE(job_get, MOB_ITEM_JOB)
DESCRIBE_ROUTE(endpoint_get, MOB_ITEM_ENDPOINT)

void mob_api_cluster(struct mob_api *api, struct mob_http_request *request)
{
    (void)api;
    struct mob_engine_op *op =
        mob_api_query_only(request, "") ? mob_api_op(request, MOB_ENGINE_CLUSTER) : NULL;
    if (op)
        mob_api_run(request, op, mob_api_answer_json, 0, NULL);
}

/* --- timeline --- */

void mob_api_timeline(struct mob_api *api, struct mob_http_request *request)
{
    (void)api;
    int64_t from, to, limit;
    char job[MOB_ID_TEXT_MAX] = "";
    if (!mob_api_query_only(request, "from\0to\0job\0limit\0") ||
        !mob_api_query_int(request, "from", 0, INT64_MAX / 1000, 0, &from) ||
        !mob_api_query_int(request, "to", 0, INT64_MAX / 1000, INT64_MAX / 1000, &to) ||
        !mob_api_query_int(request, "limit", 1, 1000000, 100000, &limit))
        return;
    struct mob_job_id id;
    if (mob_http_query(request, "job", job, sizeof job) == MOB_INVALID ||
        (*job && mob_job_id_parse(job, &id) != MOB_OK)) {
        mob_api_fail(request, MOB_BAD_REQUEST, "job: not an id of a job, as job_cqx7d3gkoj2sn3jtlcfq");
        return;
    }
    if (to < from) {
        mob_api_fail(request, MOB_BAD_REQUEST, "from: it is %lld, which is after to, %lld", (long long)from,
            (long long)to);
        return;
    }
    struct mob_engine_op *op = mob_api_op(request, MOB_ENGINE_TIMELINE);
    if (!op)
        return;
    op->query.from_us = from;
    op->query.to_us = to;
    op->query.limit = (uint32_t)limit;
    op->query.id = *job ? strdup(job) : NULL;
    mob_api_run(request, op, mob_api_answer_json, 0, NULL);
}

/* --- logs --- */

#define LOG_CHUNK_BYTES (64u * 1024u)

struct log_state {
    bool ranged;
    uint64_t length; /* at most so many bytes are wanted */
};

/* The log from an offset, as much as one answer takes; `Range: bytes=N-`, `bytes=N-M` or ?offset=N reads on.
 */
static void answer_log(struct mob_http_request *request, struct mob_engine_op *op)
{
    const struct log_state *state = request->state;
    size_t length = op->json.length;
    int status = 200;
    if (state->ranged) {
        if (op->query.offset > op->query.total || (length == 0 && op->query.ended)) {
            mob_problem_replyf(
                request, MOB_RANGE, "the log has %llu bytes", (unsigned long long)op->query.total);
            mob_http_reply_headerf(
                request, "Content-Range", "bytes */%llu", (unsigned long long)op->query.total);
            return;
        }
        if (length > 0) {
            status = 206;
            mob_http_reply_headerf(request, "Content-Range", "bytes %llu-%llu/%llu",
                (unsigned long long)op->query.offset, (unsigned long long)op->query.offset + length - 1,
                (unsigned long long)op->query.total);
        }
    }
    mob_http_reply_header(request, "Accept-Ranges", "bytes");
    mob_http_reply_headerf(request, "Mobula-Log-Next", "%llu", (unsigned long long)op->query.offset + length);
    mob_http_reply_header(request, "Mobula-Log-Ended", op->query.ended ? "true" : "false");
    mob_http_reply_text(request, status, "text/plain; charset=utf-8", &op->json);
}

static bool log_offset(struct mob_http_request *request, struct log_state *state, uint64_t *offset_out)
{
    int64_t offset;
    if (!mob_api_query_int(request, "offset", 0, INT64_MAX, 0, &offset))
        return false;
    state->length = LOG_CHUNK_BYTES;
    const char *asked = mob_http_header(request, "Range");
    struct mob_range range = {INT64_MAX, 0}; /* where no log reaches */
    /* A suffix is no range here: the log may still grow. */
    if (asked && strncmp(asked, "bytes=-", 7) != 0 &&
        mob_range_parse(asked, INT64_MAX, &range) != MOB_RANGE_WHOLE) {
        state->ranged = true;
        offset = (int64_t)range.first;
        state->length = range.length < LOG_CHUNK_BYTES ? range.length : LOG_CHUNK_BYTES;
    }
    *offset_out = (uint64_t)offset;
    return true;
}

static void logs(struct mob_http_request *request, enum mob_engine_kind kind)
{
    double wait;
    struct log_state *state = calloc(1, sizeof *state);
    uint64_t offset = 0;
    int64_t attempt = 0;
    bool of_task = kind == MOB_ITEM_TASK;
    request->state = state;
    request->state_free = free;
    if (!state || !mob_api_query_only(request, of_task ? "offset\0wait\0attempt\0" : "offset\0wait\0") ||
        !mob_api_wait_query(request, &wait) || !log_offset(request, state, &offset) ||
        (of_task && !mob_api_query_int(request, "attempt", 1, UINT32_MAX, 0, &attempt)))
        return;
    struct mob_engine_op *op = mob_api_op(request, MOB_ENGINE_LOGS);
    if (!op)
        return;
    op->query.kind = kind;
    op->query.id = strdup(request->segment_values[0]);
    op->query.offset = offset;
    op->query.attempt = (uint32_t)attempt;
    op->query.limit = (uint32_t)state->length;
    int64_t wait_ns = wait > 0 ? (int64_t)(wait * 1e9) : 0;
    op->query.follow = wait_ns > 0;
    op->query.wait_deadline_ns = wait_ns ? mob_deadline_after(wait_ns) : 0;
    mob_api_run(request, op, answer_log, mob_api_deadline(request, wait_ns), NULL);
}

void mob_api_task_logs(struct mob_api *api, struct mob_http_request *request)
{
    (void)api;
    logs(request, MOB_ITEM_TASK);
}

void mob_api_actor_logs(struct mob_api *api, struct mob_http_request *request)
{
    (void)api;
    logs(request, MOB_ITEM_ACTOR);
}
