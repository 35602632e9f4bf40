/* Health, metrics and the description of the API itself. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/hash.h"
#include "common/base/log.h"
#include "server/api/api.h"
#include "server/api/metrics.h"
#include "server/api/openapi.h"
#include "server/api/range.h"

void mob_api_livez(struct mob_api *api, struct mob_http_request *request)
{
    (void)api;
    mob_http_reply(request, 200, "text/plain; charset=utf-8", "ok\n", 3);
    mob_api_send(request);
}

/* A store whose disk is full or hangs refuses nothing: writes wait. A busy one takes less. */
#define UNACKED_NS_MAX (5 * MOB_SEC)
#define READY_WAIT_NS (2 * MOB_SEC)

static void answer_ready(struct mob_http_request *request, struct mob_engine_op *op)
{
    (void)op;
    mob_http_reply(request, 200, "text/plain; charset=utf-8", "ready\n", 6);
}

static void ready_without_store(struct mob_http_request *request)
{
    mob_api_fail(request, MOB_UNAVAILABLE, "the control store does not answer");
}

void mob_api_readyz(struct mob_api *api, struct mob_http_request *request)
{
    int64_t now = mob_now(), since = mob_engine_unacked_since(api->parts.engine);
    if (atomic_load(&api->draining) || !mob_engine_ready(api->parts.engine)) {
        mob_api_fail(request, MOB_UNAVAILABLE,
            atomic_load(&api->draining) ? "shutting down" : "not connected to the runtime");
        return;
    }
    if (since && now - since > UNACKED_NS_MAX) {
        mob_api_fail(request, MOB_UNAVAILABLE,
            "writes wait: the oldest has no acknowledgement from the control store since %lld s",
            (long long)((now - since) / MOB_SEC));
        return;
    }
    struct mob_engine_op *op = mob_api_op(request, MOB_ENGINE_READY);
    if (op)
        mob_api_run(request, op, answer_ready, mob_deadline_after(READY_WAIT_NS), ready_without_store);
}

struct figure_text {
    enum mob_model_figure figure;
    struct mob_text *out;
};

static void write_model(void *cls, struct mob_model *model)
{
    const struct figure_text *text = cls;
    mob_model_write_figure(model, text->figure, text->out);
}

static void write_models(const struct mob_api_parts *parts, struct mob_text *t)
{
    for (int i = 0; i < MOB_MODEL_FIGURES; i++) {
        struct figure_text text = {(enum mob_model_figure)i, t};
        mob_model_write_family(text.figure, t);
        mob_serve_each(parts->serve, write_model, &text);
    }
}

#define STORE_WAIT_NS (2 * MOB_SEC) /* then the gateway's own figures go alone */

/* A figure without labels. */
static void write_one(
    struct mob_text *t, const char *name, const char *type, const char *help, unsigned long long value)
{
    mob_text_family(t, "mobula_", name, type, help);
    mob_text_printf(t, "mobula_%s %llu\n", name, value);
}

static void write_connections(const struct mob_api_parts *parts, struct mob_text *t)
{
    uint64_t accepted = 0, refused = 0;
    if (parts->connections)
        write_one(t, "http_connections", "gauge", "Open connections.", parts->connections(parts->front_cls));
    if (!parts->totals)
        return;
    parts->totals(parts->front_cls, &accepted, &refused);
    write_one(t, "http_connections_total", "counter", "Connections that were taken.", accepted);
    write_one(t, "http_connections_refused_total", "counter",
        "Connections over a limit, of all or of one address, that were closed.", refused);
}

/* The gateway's own figures. */
static void write_own(const struct mob_api *api, struct mob_text *t)
{
    mob_metrics_write(api->metrics, t);
    const struct mob_api_parts *parts = &api->parts;
    write_connections(parts, t);
    if (parts->parked)
        write_one(t, "http_parked", "gauge", "Requests that wait for something, as long-polls do.",
            parts->parked(parts->front_cls));
    write_one(t, "runtime_ready", "gauge", "1: connected to a node and to the control store.",
        mob_engine_ready(parts->engine));
    if (parts->serve)
        write_models(parts, t);
}

static void free_text(void *state)
{
    mob_text_fini(state);
    free(state);
}

/* `store`: what the control store said; NULL: nothing. */
static void reply_metrics(struct mob_http_request *request, const struct mob_text *store)
{
    struct mob_text *t = request->state;
    if (store && store->length > 0)
        mob_text_put(t, store->bytes, store->length);
    else
        write_one(t, MOB_METRICS_GCS_UP, 0);
    mob_http_reply_text(request, 200, "text/plain; version=0.0.4; charset=utf-8", t);
}

static void answer_metrics(struct mob_http_request *request, struct mob_engine_op *op)
{
    reply_metrics(request, op->error.status == MOB_OK ? &op->json : NULL);
}

static void metrics_without_store(struct mob_http_request *request)
{
    reply_metrics(request, NULL);
    mob_api_send(request);
}

void mob_api_metrics(struct mob_api *api, struct mob_http_request *request)
{
    struct mob_engine_op *op = mob_api_op(request, MOB_ENGINE_METRICS);
    if (!op)
        return;
    request->state = calloc(1, sizeof(struct mob_text));
    MOB_ASSERT(request->state != NULL);
    request->state_free = free_text;
    write_own(api, request->state); /* before this request is parked itself */
    op->answers_errors = true;
    mob_api_run(request, op, answer_metrics, mob_deadline_after(STORE_WAIT_NS), metrics_without_store);
}

/* Its tag is weak, since it may leave with a content coding. */
static void send_document(
    struct mob_http_request *request, const char *media, const char *bytes, size_t length)
{
    char tag[40];
    struct mob_hash128 hash = mob_hash128(bytes, length);
    snprintf(tag, sizeof tag, "\"%016llx%016llx\"", (unsigned long long)hash.hi, (unsigned long long)hash.lo);
    const char *known = mob_http_header(request, "If-None-Match");
    if (known && mob_etag_listed(known, tag, false))
        mob_http_reply(request, 304, NULL, "", 0);
    else
        mob_http_reply_borrow(request, 200, media, bytes, length, NULL, NULL);
    mob_http_reply_headerf(request, "ETag", "W/%s", tag);
    mob_http_reply_header(request, "Cache-Control", "private, no-cache");
    mob_api_send(request);
}

void mob_api_openapi(struct mob_api *api, struct mob_http_request *request)
{
    (void)api;
    send_document(request, "application/yaml", mob_openapi_yaml, mob_openapi_yaml_length);
}

void mob_api_openapi_json(struct mob_api *api, struct mob_http_request *request)
{
    (void)api;
    send_document(request, "application/json", mob_openapi_json, mob_openapi_json_length);
}
