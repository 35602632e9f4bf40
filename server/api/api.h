/* The router: one table of routes, and what every route shares.
 *
 * For each request, before its handler runs: Request-Id, Host allow-list, the route, the key and its role
 * (every route but the two of role NONE; unknown paths too), the key's rate (429), 404, 405 + Allow, OPTIONS,
 * 406, browser checks on state changes, body limit, media type, Idempotency-Key on creating POSTs. Handlers
 * answer with mob_api_send(), at once or from an engine callback.
 *
 *   mob_api_create(&parts, &api);
 *   struct mob_http_service service = mob_api_service(api);    // for the fronts
 *
 * Threads: handlers run in the fronts' threads; an op's `done` in the engine's; everything here is safe from
 * both.
 */
#ifndef MOB_SERVER_API_API_H
#define MOB_SERVER_API_API_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "server/api/engine.h"
#include "server/api/rate_limit.h"
#include "server/auth/auth.h"
#include "server/http/http.h"

#define MOB_API_JSON_BODY_MAX (4u << 20)
#define MOB_API_OBJECT_BODY_MAX (256u << 20)
#define MOB_API_MODULE_BODY_MAX (64u << 20)
#define MOB_API_INFER_BODY_MAX (64u << 20)
/* Of a body in gzip or deflate: it is inflated in the front's thread. */
#define MOB_API_INFLATED_BODY_MAX (16u << 20)
#define MOB_API_PUT_PARTS_MAX 64
#define MOB_API_WAIT_MAX_S 60
/* What an operation of the engine may take before the client is told that its outcome is not known. */
#define MOB_API_OP_TIMEOUT_S 60
/* The same while no member of the control store answers. A chain leaves out who died within milliseconds, and
 * starts again within seconds when all have. */
#define MOB_API_AWAY_S 15
#define MOB_API_LIST_DEFAULT 100
#define MOB_API_LIST_MAX 1000

struct mob_api;
struct mob_idempotency;
struct mob_metrics;
struct mob_events;
struct mob_serve;

typedef void mob_route_handler(struct mob_api *api, struct mob_http_request *request);

enum mob_route_flag {
    MOB_ROUTE_CREATES = 1, /* takes an Idempotency-Key */
    MOB_ROUTE_NO_HOST = 2, /* answers under any Host: health checks of load balancers */
    MOB_ROUTE_ANY_MEDIA = 4, /* its answer is in a type of its own; the others answer in JSON */
    MOB_ROUTE_STREAMS = 8, /* also as server-sent events */
    MOB_ROUTE_INFLATES = 16 /* takes a body in gzip or deflate */
};

struct mob_route {
    enum mob_http_method method;
    const char *pattern; /* "/api/v1/tasks/{id}:cancel" */
    enum mob_role role;
    mob_route_handler *handle;
    size_t body_max;
    const char *media; /* accepted request media type; NULL: any */
    unsigned flags;
};

/* All routes; ended by a NULL pattern. Static. */
extern const struct mob_route mob_routes[];
size_t mob_route_count(void);
size_t mob_route_index(const struct mob_route *route);
/* Matches a raw path. On success *route_out is it, and the decoded parameters are in the request.
 * MOB_NOT_FOUND, with the custom verbs that there are in `allow_out` (":cancel") when the path asks for
 * another; MOB_METHOD_NOT_ALLOWED with the allowed methods there; MOB_BAD_REQUEST for a path that does not
 * decode. */
MOB_MUST_USE enum mob_status mob_route_find(struct mob_http_request *request,
    const struct mob_route **route_out, char *allow_out, size_t allow_capacity);

struct mob_api_parts {
    struct mob_engine *engine;
    struct mob_auth *auth;
    struct mob_events *events;
    struct mob_serve *serve;
    size_t (*parked)(void *cls); /* for metrics; may be NULL */
    unsigned (*connections)(void *cls);
    /* Connections since the start: taken, and refused before there was a request. */
    void (*totals)(void *cls, uint64_t *accepted_out, uint64_t *refused_out);
    void *front_cls;
    size_t idempotency_entries_max; /* 0: the default */
    int64_t idempotency_ns; /* 0: the default */
    int64_t away_ns; /* 0: MOB_API_AWAY_S; at most MOB_API_OP_TIMEOUT_S */
    uint32_t rate_limit, rate_burst; /* requests a second and at once, of each key; limit 0: none */
};
struct mob_api {
    struct mob_api_parts parts;
    struct mob_idempotency *idempotency;
    struct mob_metrics *metrics;
    struct mob_rate_limit rate;
    struct mob_rate_bucket rates[MOB_AUTH_KEYS_MAX]; /* by principal->index */
    _Atomic bool draining;
};

MOB_MUST_USE enum mob_status mob_api_create(const struct mob_api_parts *parts, struct mob_api **api_out);
void mob_api_destroy(struct mob_api *api);
struct mob_http_service mob_api_service(struct mob_api *api);
/* From now on /readyz says no. */
void mob_api_drain(struct mob_api *api);

/* --- for the handlers --- */

static inline struct mob_api *mob_api_of(const struct mob_http_request *request)
{
    return request->service;
}
/* Adds the headers of every answer, remembers it for its Idempotency-Key, and sends. */
void mob_api_send(struct mob_http_request *request);
/* mob_problem_replyf + send, with MOB_INTERNAL's text when out of memory. */
void mob_api_fail(struct mob_http_request *request, enum mob_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void mob_api_send_text(struct mob_http_request *request, int status, const char *type, struct mob_text *text);
/* The key of an operation of this request; its `answer` and the like are empty. False: the request has none.
 */
bool mob_api_key(const struct mob_http_request *request, struct mob_engine_key *key_out);
/* Parks the request and posts the op, whose `done` claims the request, calls `answer` (or answers the op's
 * error) and sends. At the deadline `on_timeout` (NULL: 503, outcome unknown) runs instead. Takes op. */
void mob_api_run(struct mob_http_request *request, struct mob_engine_op *op,
    void (*answer)(struct mob_http_request *request, struct mob_engine_op *op), int64_t deadline_ns,
    void (*on_timeout)(struct mob_http_request *request));
/* For operations of a handler's own: answers a parked request with what `write` makes, or, when its client
 * has left, keeps that for its Idempotency-Key; then releases it. */
void mob_api_deliver(
    struct mob_http_request *request, void (*write)(struct mob_http_request *request, void *cls), void *cls);
/* 503: for the deadline of a parked request. */
void mob_api_outcome_unknown(struct mob_http_request *request);
/* When a request is told so that may wait for `wait_ns` first; sooner while the control store is away. Before
 * it is parked. */
int64_t mob_api_deadline(struct mob_http_request *request, int64_t wait_ns);
/* New op; NULL: answered with 503. */
struct mob_engine_op *mob_api_op(struct mob_http_request *request, enum mob_engine_verb verb);
/* Answers with op->json as it is. */
void mob_api_answer_json(struct mob_http_request *request, struct mob_engine_op *op);
void mob_api_answer_accepted(struct mob_http_request *request, struct mob_engine_op *op);
/* ?wait= or Prefer: wait=, capped at 60 s; -1 when absent. Other preferences are let be. False: answered with
 * 400. */
bool mob_api_wait_query(struct mob_http_request *request, double *seconds_out);
bool mob_api_prefer_wait(struct mob_http_request *request, double *seconds_out);
/* A whole number in the query; `absent` when not there. False: answered with 400. */
bool mob_api_query_int(struct mob_http_request *request, const char *name, int64_t min, int64_t max,
    int64_t absent, int64_t *out);
/* true or false; absent is false. False: answered with 400. */
bool mob_api_query_flag(struct mob_http_request *request, const char *name, bool *out);
/* Query parameters other than `names` (as in mob_body_fields) are refused. False: answered with 400. */
bool mob_api_query_only(struct mob_http_request *request, const char *names);

/* The handlers, one file a resource. */
#define MOB_API_HANDLERS(X) \
    X(livez) \
    X(readyz) \
    X(metrics) \
    X(openapi) \
    X(openapi_json) \
    X(function_put) \
    X(function_list) \
    X(function_get) \
    X(function_delete) \
    X(task_submit) \
    X(task_batch) \
    X(task_list) \
    X(task_get) \
    X(task_cancel) \
    X(task_why) \
    X(task_logs) \
    X(task_items) \
    X(object_put) \
    X(object_list) \
    X(object_get) \
    X(object_data) \
    X(object_wait) \
    X(object_lineage) \
    X(object_delete) \
    X(actor_create) \
    X(actor_call) \
    X(actor_list) \
    X(actor_get) \
    X(actor_delete) \
    X(actor_logs) \
    X(job_open) \
    X(job_list) \
    X(job_get) \
    X(job_end) \
    X(node_list) \
    X(cluster) \
    X(events) \
    X(timeline) \
    X(endpoint_put) \
    X(endpoint_list) \
    X(endpoint_get) \
    X(endpoint_delete) \
    X(v2_server) \
    X(v2_live) \
    X(v2_ready) \
    X(v2_model) \
    X(v2_model_ready) \
    X(v2_infer) \
    X(v2_config) \
    X(v2_stats) \
    X(v2_all_stats)
#define MOB_API_DECLARE(name) mob_route_handler mob_api_##name;
MOB_API_HANDLERS(MOB_API_DECLARE)
#undef MOB_API_DECLARE

#endif
