#include "server/api/api.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "server/api/conditions.h"
#include "server/api/idempotency.h"
#include "server/api/metrics.h"
#include "server/api/problem.h"
#include "server/http/accept.h"
#include "server/http/coding.h"
#include "server/http/digest.h"

/* --- answering --- */

static void add_rate(const struct mob_rate_limit *rate, struct mob_http_request *request)
{
    mob_http_reply_headerf(request, "RateLimit-Policy", "\"key\";q=%u;w=%u", rate->burst, rate->window_s);
    mob_http_reply_headerf(
        request, "RateLimit", "\"key\";r=%u;t=%u", request->rate_left.requests, request->rate_left.full_in_s);
}

void mob_api_send(struct mob_http_request *request)
{
    struct mob_api *api = mob_api_of(request);
    mob_idempotency_finish(api->idempotency, request, mob_now());
    mob_http_reply_header(request, "Request-Id", request->request_id);
    mob_http_reply_header(request, "X-Content-Type-Options", "nosniff");
    if (request->rate_left.known)
        add_rate(&api->rate, request);
    mob_http_send(request);
}

void mob_api_fail(struct mob_http_request *request, enum mob_status status, const char *format, ...)
{
    char detail[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(detail, sizeof detail, format, arguments);
    va_end(arguments);
    mob_problem_reply(request, &(struct mob_problem){.status = status, .detail = detail});
    mob_api_send(request);
}

void mob_api_send_text(struct mob_http_request *request, int status, const char *type, struct mob_text *text)
{
    mob_http_reply_text(request, status, type, text);
    mob_api_send(request);
}

/* --- before the handler --- */

static bool request_id_ok(const char *text)
{
    size_t length = strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.");
    return length > 0 && length < MOB_HTTP_REQUEST_ID_MAX && text[length] == 0;
}

static void name_request(struct mob_http_request *request)
{
    const char *given = mob_http_header(request, "Request-Id");
    if (given && request_id_ok(given)) {
        snprintf(request->request_id, sizeof request->request_id, "%s", given);
        return;
    }
    mob_http_request_id(request->request_id);
}

static void reject(struct mob_http_request *request, enum mob_status status, const char *detail)
{
    mob_problem_reply(request, &(struct mob_problem){.status = status, .detail = detail});
    mob_api_send(request);
}

/* What the client knows of its own request anyway; nothing of which keys there are. */
static const char *what_to_send(const struct mob_http_request *request)
{
    bool sent =
        mob_http_header(request, "Authorization") || mob_http_header(request, "X-Mobula-Authorization");
    return sent ? "the key that was sent is not one of this cluster's; send Authorization: Bearer mob_sk_..."
                : "no key was sent; send Authorization: Bearer mob_sk_...";
}

static bool check_key(struct mob_api *api, struct mob_http_request *request, enum mob_role role)
{
    enum mob_status status = mob_auth_check(api->parts.auth, request, role);
    if (status == MOB_OK)
        return true;
    char detail[128];
    if (status == MOB_DENIED)
        snprintf(detail, sizeof detail, "this key lacks the role %s", mob_role_name(role));
    else
        snprintf(detail, sizeof detail, "%s", what_to_send(request));
    mob_problem_reply(request, &(struct mob_problem){.status = status, .detail = detail});
    if (status == MOB_UNAUTHENTICATED)
        mob_http_reply_header(request, "WWW-Authenticate", "Bearer realm=\"mobula\"");
    mob_api_send(request);
    return false;
}

/* Each request with a valid key counts, whatever becomes of it: asking for what is not there costs as much.
 */
static bool check_rate(struct mob_api *api, struct mob_http_request *request)
{
    struct mob_rate_left left;
    if (!mob_rate_limit_is_on(&api->rate) || !request->principal)
        return true;
    bool taken = mob_rate_limit_take(&api->rate, &api->rates[request->principal->index], mob_now(), &left);
    request->rate_left.known = true;
    request->rate_left.requests = left.requests;
    request->rate_left.full_in_s = left.full_in_s;
    if (taken)
        return true;
    char detail[160];
    snprintf(detail, sizeof detail,
        "this key may ask %u times in %u s (rate-limit, rate-burst); the request was not run",
        api->rate.burst, api->rate.window_s);
    mob_problem_reply(request,
        &(struct mob_problem){.status = MOB_QUEUE_FULL,
            .code = "rate-limited",
            .title = "too many requests",
            .detail = detail,
            .retry_after_s = left.retry_after_s});
    mob_api_send(request);
    return false;
}

static bool check_body_head(struct mob_http_request *request, const struct mob_route *route)
{
    request->body_limit = route->body_max;
    if (request->content_length != UINT64_MAX && request->content_length > route->body_max) {
        char detail[128];
        snprintf(detail, sizeof detail, "the body has %llu bytes, this route takes %zu",
            (unsigned long long)request->content_length, route->body_max);
        reject(request, MOB_TOO_LARGE, detail);
        return false;
    }
    if (route->body_max == 0) /* there is nothing that has a coding */
        return true;
    const char *encoding = mob_http_header(request, "Content-Encoding");
    if (encoding && strcasecmp(encoding, "identity") != 0 && !(route->flags & MOB_ROUTE_INFLATES)) {
        mob_problem_replyf(request, MOB_UNSUPPORTED_MEDIA, "bodies are taken without Content-Encoding");
        mob_http_reply_header(request, "Accept-Encoding", "identity");
        mob_api_send(request);
        return false;
    }
    if (route->media && request->content_length > 0 &&
        !mob_http_media_is(mob_http_header(request, "Content-Type"), route->media)) {
        mob_problem_replyf(request, MOB_UNSUPPORTED_MEDIA, "this route takes %s", route->media);
        mob_http_reply_header(request, "Accept", route->media);
        mob_api_send(request);
        return false;
    }
    return true;
}

static bool check_accept(struct mob_http_request *request, const struct mob_route *route)
{
    const char *accept = mob_http_header(request, "Accept");
    if (!accept || route->flags & MOB_ROUTE_ANY_MEDIA || mob_http_accepts(accept, "application/json") ||
        (route->flags & MOB_ROUTE_STREAMS && mob_http_accepts(accept, "text/event-stream")))
        return true;
    mob_problem_reply(request,
        &(struct mob_problem){.http = 406,
            .status = MOB_BAD_REQUEST,
            .code = "not-acceptable",
            .title = "no answer of an accepted type",
            .detail = route->flags & MOB_ROUTE_STREAMS
                ? "this route answers in application/json or text/event-stream"
                : "this route answers in application/json"});
    mob_api_send(request);
    return false;
}

static void begin(void *cls, struct mob_http_request *request)
{
    struct mob_api *api = cls;
    request->service = api;
    name_request(request);
    const struct mob_route *route = NULL;
    char allow[64];
    enum mob_status found = mob_route_find(request, &route, allow, sizeof allow);
    if ((!route || !(route->flags & MOB_ROUTE_NO_HOST)) && !mob_auth_host_ok(api->parts.auth, request)) {
        reject(request, MOB_MISDIRECTED,
            "this Host is not served here; more names are given with mobula up --hosts");
        return;
    }
    /* The key comes before 404 and 405: without one, nobody learns what exists. */
    if (!check_key(api, request, route ? route->role : MOB_ROLE_READ) || !check_rate(api, request))
        return;
    if (request->method == MOB_HTTP_OPTIONS && strcmp(request->path, "*") == 0) {
        snprintf(allow, sizeof allow, "GET, HEAD, POST, PUT, DELETE, OPTIONS"); /* of the whole server */
        found = MOB_METHOD_NOT_ALLOWED;
    }
    if (found == MOB_METHOD_NOT_ALLOWED) {
        if (request->method == MOB_HTTP_OPTIONS)
            mob_http_reply(request, 204, NULL, "", 0);
        else
            mob_problem_replyf(request, found, "%s takes %s", request->path, allow);
        mob_http_reply_header(request, "Allow", allow);
        mob_api_send(request);
        return;
    }
    if (found != MOB_OK || !route) {
        char why[sizeof allow + 40];
        snprintf(why, sizeof why, allow[0] ? "no such path; the verbs here are %s" : "no such path", allow);
        reject(request, found, found == MOB_NOT_FOUND ? why : "the path does not decode");
        return;
    }
    request->route = route;
    if (route->method != MOB_HTTP_GET && !mob_auth_origin_ok(api->parts.auth, request)) {
        reject(request, MOB_DENIED, "a page of another origin may not change state here");
        return;
    }
    if (check_accept(request, route) && check_body_head(request, route))
        mob_conditions_check(request, route);
}

static bool check_digest(struct mob_http_request *request, const char *name)
{
    const char *digest = mob_http_header(request, name);
    if (!digest)
        return true;
    enum mob_digest_result result =
        mob_digest_check(digest, request->body ? request->body : "", request->body_length);
    if (result == MOB_DIGEST_NONE || result == MOB_DIGEST_RIGHT)
        return true;
    char detail[96];
    snprintf(detail, sizeof detail,
        result == MOB_DIGEST_WRONG ? "the body is not what %s says" : "%s is malformed", name);
    mob_problem_reply(request,
        &(struct mob_problem){.status = MOB_BAD_REQUEST,
            .code = result == MOB_DIGEST_WRONG ? "digest-mismatch" : NULL,
            .title = result == MOB_DIGEST_WRONG ? "the body has another digest" : NULL,
            .detail = detail});
    mob_api_send(request);
    return false;
}

static bool decode_body(struct mob_http_request *request)
{
    const char *coding = mob_http_header(request, "Content-Encoding");
    if (!coding || strcasecmp(coding, "identity") == 0 || request->body_limit == 0)
        return true;
    enum mob_status status = mob_http_decode_body(request, coding, MOB_API_INFLATED_BODY_MAX);
    if (status == MOB_OK)
        return true;
    mob_problem_replyf(request, status == MOB_INVALID ? MOB_BAD_REQUEST : status,
        "the body must be gzip or deflate of at most %u bytes", MOB_API_INFLATED_BODY_MAX);
    if (status == MOB_UNSUPPORTED_MEDIA)
        mob_http_reply_header(request, "Accept-Encoding", "gzip, deflate");
    mob_api_send(request);
    return false;
}

static void handle(void *cls, struct mob_http_request *request)
{
    struct mob_api *api = cls;
    /* Without a coding or a part of the whole, content and representation are the same bytes; with a coding,
     * it is part of both. */
    if (!check_digest(request, "Content-Digest") || !check_digest(request, "Repr-Digest") ||
        !decode_body(request))
        return;
    if ((request->route->flags & MOB_ROUTE_CREATES) &&
        !mob_idempotency_begin(api->idempotency, request, request->principal->key_id, mob_now())) {
        mob_api_send(request);
        return;
    }
    request->route->handle(api, request);
}

static void finished(void *cls, const struct mob_http_request *request)
{
    struct mob_api *api = cls;
    size_t route = request->route ? mob_route_index(request->route) : mob_route_count();
    mob_metrics_request(api->metrics, route, request->reply.status, mob_now() - request->started_ns);
}

/* For so long that a request that came before has waited enough. */
static bool store_is_away(void *cls)
{
    const struct mob_api *api = cls;
    int64_t since = mob_engine_store_away_since(api->parts.engine);
    return since != 0 && mob_now() - since >= api->parts.away_ns;
}

struct mob_http_service mob_api_service(struct mob_api *api)
{
    return (struct mob_http_service){api, begin, handle, finished, store_is_away};
}

/* --- operations of the engine --- */

struct mob_engine_op *mob_api_op(struct mob_http_request *request, enum mob_engine_verb verb)
{
    struct mob_engine_op *op = mob_engine_op_create(verb, NULL, request);
    if (!op) {
        mob_api_fail(request, MOB_NO_MEMORY, "out of memory");
        return NULL;
    }
    return op;
}

static void build(struct mob_http_request *request, void *cls)
{
    struct mob_engine_op *op = cls;
    if (op->key && op->key->again)
        mob_idempotency_mark(request);
    if (op->key && op->key->replayed) {
        if (!mob_idempotency_restore(request, op->key->answer, op->key->answer_length))
            mob_problem_replyf(request, MOB_CORRUPT, "the answer kept for this Idempotency-Key is damaged");
    } else if (op->error.status != MOB_OK && !op->answers_errors)
        mob_problem_reply_error(request, &op->error);
    else
        op->answer(request, op);
}

void mob_api_deliver(
    struct mob_http_request *request, void (*write)(struct mob_http_request *, void *cls), void *cls)
{
    if (mob_http_claim(request)) {
        write(request, cls);
        mob_api_send(request);
    } else if (request->idempotency && mob_http_is_gone(request)) {
        /* A client that left may come back with its Idempotency-Key and must find the outcome. */
        write(request, cls);
        mob_idempotency_finish(mob_api_of(request)->idempotency, request, mob_now());
        mob_http_reply_reset(request);
    }
    mob_http_release(request);
}

/* After build: the control store keeps the answer of a keyed operation, for the time when this gateway is
 * gone. */
static void keep_answer(struct mob_http_request *request, struct mob_engine_op *op)
{
    struct mob_api *api = mob_api_of(request);
    if (!op->key || op->key->replayed)
        return;
    if (op->key->other_body) {
        mob_idempotency_forget(api->idempotency, request);
        return;
    }
    uint8_t *answer = mob_idempotency_encode(request, &op->key->answer_length);
    struct mob_engine_op *keep =
        answer ? mob_engine_op_create(MOB_ENGINE_KEY_KEEP, mob_engine_op_destroy, NULL) : NULL;
    if (!keep) {
        free(answer);
        return; /* it runs again, under the same ids */
    }
    keep->key = op->key;
    keep->key->answer = answer;
    op->key = NULL;
    mob_engine_post(api->parts.engine, keep);
}

static void build_and_keep(struct mob_http_request *request, void *cls)
{
    build(request, cls);
    keep_answer(request, cls);
}

static void done(struct mob_engine_op *op)
{
    mob_api_deliver(op->context, build_and_keep, op);
    mob_engine_op_destroy(op);
}

static void key_is_decided(const struct mob_engine_key *key)
{
    const struct mob_api *api = key->decided_cls;
    mob_idempotency_decided(api->idempotency, &key->scope, &key->body);
}

bool mob_api_key(const struct mob_http_request *request, struct mob_engine_key *key_out)
{
    struct mob_engine_key key = {.decided = key_is_decided, .decided_cls = mob_api_of(request)};
    if (!mob_idempotency_key(request, &key.scope, &key.body))
        return false;
    *key_out = key;
    return true;
}

static void give_key(struct mob_http_request *request, struct mob_engine_op *op)
{
    struct mob_engine_key key;
    if (!mob_api_key(request, &key))
        return;
    op->key = malloc(sizeof *op->key);
    MOB_ASSERT(op->key != NULL);
    *op->key = key;
}

/* What was sent to the node, or stands in the engine, is not taken back: it may still be done. */
void mob_api_outcome_unknown(struct mob_http_request *request)
{
    const char *who = store_is_away(mob_api_of(request)) ? "no member of the control store answers"
                                                         : "the runtime did not answer in time";
    if (request->route->method == MOB_HTTP_GET)
        mob_api_fail(request, MOB_UNAVAILABLE, "%s", who);
    else if (request->idempotency)
        mob_api_fail(request, MOB_UNAVAILABLE,
            "%s; the outcome is not known: sent again under its Idempotency-Key, it is done once", who);
    else
        mob_api_fail(request, MOB_UNAVAILABLE, "%s; the outcome is not known: it may still be done", who);
}

int64_t mob_api_deadline(struct mob_http_request *request, int64_t wait_ns)
{
    request->park_hurried_ns = mob_deadline_after(wait_ns + mob_api_of(request)->parts.away_ns);
    return mob_deadline_after(wait_ns + MOB_API_OP_TIMEOUT_S * MOB_SEC);
}

void mob_api_run(struct mob_http_request *request, struct mob_engine_op *op,
    void (*answer)(struct mob_http_request *request, struct mob_engine_op *op), int64_t deadline_ns,
    void (*on_timeout)(struct mob_http_request *request))
{
    op->answer = answer;
    op->done = done;
    op->context = request;
    give_key(request, op);
    struct mob_engine *engine = mob_api_of(request)->parts.engine;
    mob_http_park(request, deadline_ns ? deadline_ns : mob_api_deadline(request, 0),
        on_timeout ? on_timeout : mob_api_outcome_unknown);
    mob_engine_post(engine, op);
}

void mob_api_answer_json(struct mob_http_request *request, struct mob_engine_op *op)
{
    mob_http_reply_text(request, 200, "application/json", &op->json);
}

void mob_api_answer_accepted(struct mob_http_request *request, struct mob_engine_op *op)
{
    (void)op;
    mob_http_reply(request, 202, "application/json", "{\"accepted\":true}\n", 18);
}

/* --- life --- */

enum mob_status mob_api_create(const struct mob_api_parts *parts, struct mob_api **api_out)
{
    struct mob_api *api = calloc(1, sizeof *api);
    if (!api)
        return MOB_NO_MEMORY;
    api->parts = *parts;
    if (api->parts.away_ns == 0)
        api->parts.away_ns = MOB_API_AWAY_S * MOB_SEC;
    mob_rate_limit_init(&api->rate, parts->rate_limit, parts->rate_burst);
    enum mob_status status =
        mob_idempotency_create(parts->idempotency_entries_max, parts->idempotency_ns, &api->idempotency);
    if (status == MOB_OK)
        status = mob_metrics_create(mob_route_count(), &api->metrics);
    if (status != MOB_OK) {
        mob_api_destroy(api);
        return status;
    }
    *api_out = api;
    return MOB_OK;
}

void mob_api_destroy(struct mob_api *api)
{
    if (!api)
        return;
    mob_idempotency_destroy(api->idempotency);
    mob_metrics_destroy(api->metrics);
    free(api);
}

void mob_api_drain(struct mob_api *api)
{
    atomic_store(&api->draining, true);
}
