/* /v2: the Open Inference Protocol, and the endpoints that stand behind it. */
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "server/api/api.h"
#include "server/api/body.h"
#include "server/api/conditions.h"
#include "server/api/problem.h"

/* --- endpoints --- */

static void answer_endpoint(struct mob_http_request *request, struct mob_engine_op *op)
{
    if (op->endpoint.other_than_wanted) {
        mob_condition_reply(request,
            op->endpoint.only_new ? "there is an endpoint of that name, and the request says If-None-Match: *"
                                  : "there is no endpoint of that name, and the request says If-Match: *");
        return;
    }
    mob_http_reply_text(request, op->endpoint.created ? 201 : 200, "application/json", &op->json);
}

/* Names stand in URLs and metrics. */
static bool name_ok(const char *name)
{
    size_t n = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.");
    return n > 0 && n < MOB_MODEL_NAME_MAX && name[n] == 0;
}

void mob_api_endpoint_put(struct mob_api *api, struct mob_http_request *request)
{
    (void)api;
    struct mob_body body;
    if (!name_ok(request->segment_values[0])) {
        mob_api_fail(request, MOB_INVALID,
            "names of endpoints have 1 to %d letters, digits, '-', '_' and '.'", MOB_MODEL_NAME_MAX - 1);
        return;
    }
    struct mob_engine_op *op = mob_body_open_op(&body, request, false, MOB_ENGINE_ENDPOINT_PUT);
    if (!op)
        return;
    mob_body_fields(
        &body, body.root, "", "class\0arguments\0max_batch_size\0max_queue_delay_us\0timeout_ms\0");
    const char *class_name = mob_body_string(&body, body.root, "", "class", MOB_BODY_REQUIRED, 255);
    op->endpoint.name = strdup(request->segment_values[0]);
    op->endpoint.actor_class = class_name ? strdup(class_name) : NULL;
    json_t *arguments = mob_body_array(&body, body.root, "", "arguments", MOB_BODY_OPTIONAL, 32);
    op->endpoint.arguments = arguments ? json_incref(arguments) : json_array();
    op->endpoint.max_batch_size = (uint32_t)mob_body_int(&body, body.root, "", "max_batch_size", 1, 65536, 1);
    op->endpoint.max_queue_delay_us =
        (uint32_t)mob_body_int(&body, body.root, "", "max_queue_delay_us", 0, 1000000, 0);
    op->endpoint.timeout_ms = (uint32_t)mob_body_int(&body, body.root, "", "timeout_ms",
        MOB_MODEL_TIMEOUT_MS_MIN, MOB_MODEL_TIMEOUT_MS_MAX, MOB_MODEL_TIMEOUT_MS_DEFAULT);
    if (!mob_body_ok(&body)) {
        mob_engine_op_destroy(op);
        return;
    }
    mob_body_close(&body);
    op->endpoint.only_new = mob_condition_is_any(request, "If-None-Match");
    op->endpoint.only_existing = mob_condition_is_any(request, "If-Match");
    mob_api_run(request, op, answer_endpoint, 0, NULL);
}

void mob_api_endpoint_delete(struct mob_api *api, struct mob_http_request *request)
{
    (void)api;
    struct mob_engine_op *op = mob_api_op(request, MOB_ENGINE_ENDPOINT_DELETE);
    if (!op)
        return;
    op->query.id = strdup(request->segment_values[0]);
    mob_api_run(request, op, mob_api_answer_accepted, 0, NULL);
}

/* --- the server --- */

void mob_api_v2_server(struct mob_api *api, struct mob_http_request *request)
{
    (void)api;
    static const char body[] =
        "{\"name\":\"mobula\",\"version\":\"0.1.0\",\"extensions\":[\"binary_tensor_data\","
        "\"model_configuration\",\"statistics\"]}\n";
    mob_http_reply(request, 200, "application/json", body, sizeof body - 1);
    mob_api_send(request);
}

void mob_api_v2_live(struct mob_api *api, struct mob_http_request *request)
{
    (void)api;
    mob_http_reply(request, 200, "application/json", "{\"live\":true}\n", 14);
    mob_api_send(request);
}

void mob_api_v2_ready(struct mob_api *api, struct mob_http_request *request)
{
    if (!mob_engine_ready(api->parts.engine)) {
        mob_api_fail(request, MOB_UNAVAILABLE, "not connected to the runtime");
        return;
    }
    mob_http_reply(request, 200, "application/json", "{\"ready\":true}\n", 15);
    mob_api_send(request);
}

/* --- models --- */

/* Held; NULL: answered with 404, or with 503 while it is not known which models there are. */
static struct mob_model *model_of(struct mob_api *api, struct mob_http_request *request)
{
    bool complete =
        mob_serve_is_complete(api->parts.serve); /* before the look: what comes between is found */
    struct mob_model *model = mob_serve_find(api->parts.serve, request->segment_values[0]);
    const char *version = request->segment_values[1];
    if (model && version && strcmp(version, "1") != 0) {
        mob_model_release(model);
        mob_api_fail(request, MOB_NOT_FOUND, "model %s has no version %s; it has 1",
            request->segment_values[0], version);
        return NULL;
    }
    if (!model && !complete)
        mob_api_fail(request, MOB_UNAVAILABLE, "the models have not been read from the control store yet");
    else if (!model)
        mob_api_fail(request, MOB_NOT_FOUND, "no such model: %s", request->segment_values[0]);
    return model;
}

static void send_model(struct mob_api *api, struct mob_http_request *request,
    void (*write)(const struct mob_model *model, struct mob_text *out))
{
    struct mob_model *model = model_of(api, request);
    if (!model)
        return;
    struct mob_text t = {0};
    write(model, &t);
    mob_model_release(model);
    mob_api_send_text(request, 200, "application/json", &t);
}

void mob_api_v2_model(struct mob_api *api, struct mob_http_request *request)
{
    send_model(api, request, mob_model_write_metadata);
}

void mob_api_v2_config(struct mob_api *api, struct mob_http_request *request)
{
    send_model(api, request, mob_model_write_config);
}

void mob_api_v2_stats(struct mob_api *api, struct mob_http_request *request)
{
    send_model(api, request, mob_model_write_stats);
}

void mob_api_v2_all_stats(struct mob_api *api, struct mob_http_request *request)
{
    struct mob_text t = {0};
    mob_serve_write_stats(api->parts.serve, &t);
    mob_api_send_text(request, 200, "application/json", &t);
}

void mob_api_v2_model_ready(struct mob_api *api, struct mob_http_request *request)
{
    struct mob_model *model = model_of(api, request);
    if (!model)
        return;
    bool ready = atomic_load(&model->ready);
    mob_model_release(model);
    if (!ready) {
        mob_api_fail(request, MOB_UNAVAILABLE, "the model is being made");
        return;
    }
    mob_http_reply(request, 200, "application/json", "{\"ready\":true}\n", 15);
    mob_api_send(request);
}

/* --- inference --- */

/* A call may wait so long for those before it, and then take what its endpoint allows. */
#define QUEUE_NS (30 * MOB_SEC)

/* The model's function may fail with any code; busy (503, 429) is what clients know to try again for. */
static bool is_models_failure(const struct mob_engine_error *error)
{
    int http = mob_status_http(error->status);
    return error->failure_json && http != 503 && http != 429;
}

static void answer_infer(struct mob_http_request *request, struct mob_engine_op *op)
{
    if (is_models_failure(&op->error)) {
        mob_problem_reply_failure(request, &op->error);
        return;
    }
    if (op->error.status != MOB_OK) {
        mob_problem_reply_error(request, &op->error);
        return;
    }
    struct mob_text t = {0};
    size_t header_length = 0;
    mob_infer_write(op->infer.model, op->infer.request, op->infer.outputs, &t, &header_length);
    if (header_length > 0)
        mob_http_reply_headerf(request, "Inference-Header-Content-Length", "%zu", header_length);
    mob_http_reply_text(
        request, 200, header_length > 0 ? "application/octet-stream" : "application/json", &t);
}

static bool header_length_of(const struct mob_http_request *request, size_t *out)
{
    *out = SIZE_MAX;
    const char *text = mob_http_header(request, "Inference-Header-Content-Length");
    if (!text)
        return true;
    char *end;
    unsigned long long v = strtoull(text, &end, 10);
    *out = (size_t)v;
    return *text >= '0' && *text <= '9' && *end == 0 &&
        *out != SIZE_MAX; /* which is no length: too many digits */
}

void mob_api_v2_infer(struct mob_api *api, struct mob_http_request *request)
{
    struct mob_model *model = model_of(api, request);
    if (!model)
        return;
    size_t header_length;
    char why[256] = "Inference-Header-Content-Length is not a number";
    struct mob_infer_request *infer = NULL;
    enum mob_status status = MOB_BAD_REQUEST;
    if (header_length_of(request, &header_length))
        status = mob_infer_parse(
            model, request->body ? request->body : "", request->body_length, header_length, &infer, why);
    struct mob_engine_op *op =
        status == MOB_OK ? mob_engine_op_create(MOB_ENGINE_INFER, NULL, request) : NULL;
    if (!op) {
        mob_infer_request_destroy(infer);
        mob_model_release(model);
        /* Triton's clients take any error but 400 for a broken server. */
        mob_problem_reply(request,
            &(struct mob_problem){.http = status == MOB_NO_MEMORY || status == MOB_OK ? 503 : 400,
                .status = status == MOB_OK ? MOB_NO_MEMORY : status,
                .detail = why});
        mob_api_send(request);
        return;
    }
    infer->started_ns = mob_now();
    op->infer.model = model;
    op->answers_errors = true;
    op->infer.request = infer;
    mob_api_run(request, op, answer_infer, infer->started_ns + model->timeout_ms * MOB_MS + QUEUE_NS, NULL);
}
