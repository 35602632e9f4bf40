/* /api/v1/jobs and the upload of functions. */
#include <stdlib.h>
#include <string.h>

#include "common/wire/session.h"
#include "server/api/api.h"
#include "server/api/body.h"
#include "server/api/problem.h"

static void answer_open(struct mob_http_request *request, struct mob_engine_op *op)
{
    char id[MOB_ID_TEXT_MAX];
    mob_job_id_format(op->job.id, id);
    mob_http_reply_headerf(request, "Location", "/api/v1/jobs/%s", id);
    struct mob_text t = {0};
    mob_text_printf(&t, "{\"id\":\"%s\",\"name\":", id);
    mob_text_json_cstring(&t, op->job.name ? op->job.name : "");
    mob_text_puts(&t, ",\"state\":\"running\"}\n");
    mob_http_reply_text(request, 201, "application/json", &t);
}

void mob_api_job_open(struct mob_api *api, struct mob_http_request *request)
{
    (void)api;
    struct mob_body body;
    struct mob_engine_op *op = mob_body_open_op(&body, request, true, MOB_ENGINE_JOB_OPEN);
    if (!op)
        return;
    mob_body_fields(&body, body.root, "", "name\0detached\0weight\0");
    const char *name = mob_body_string(&body, body.root, "", "name", MOB_BODY_OPTIONAL, 63);
    op->job.name = strdup(name ? name : "http");
    op->job.detached = mob_body_bool(&body, body.root, "", "detached", false);
    op->job.weight =
        (uint32_t)mob_body_int(&body, body.root, "", "weight", 1, MOB_JOB_WEIGHT_MAX, MOB_JOB_WEIGHT_DEFAULT);
    if (!mob_body_ok(&body)) {
        mob_engine_op_destroy(op);
        return;
    }
    mob_body_close(&body);
    mob_api_run(request, op, answer_open, 0, NULL);
}

void mob_api_job_end(struct mob_api *api, struct mob_http_request *request)
{
    (void)api;
    struct mob_job_id id;
    bool purge;
    if (!mob_api_query_only(request, "purge\0") || !mob_api_query_flag(request, "purge", &purge))
        return;
    if (mob_job_id_parse(request->segment_values[0], &id) != MOB_OK) {
        mob_api_fail(request, MOB_NOT_FOUND, "no such job");
        return;
    }
    struct mob_engine_op *op = mob_api_op(request, MOB_ENGINE_JOB_END);
    if (!op)
        return;
    op->query.purge = purge;
    op->query.id = strdup(request->segment_values[0]);
    mob_api_run(request, op, mob_api_answer_accepted, 0, NULL);
}

/* --- functions --- */

/* The engine's JSON: {"module","hash","functions":[..]} */
static void answer_upload(struct mob_http_request *request, struct mob_engine_op *op)
{
    mob_http_reply_text(request, op->upload.created ? 201 : 200, "application/json", &op->json);
}

void mob_api_function_put(struct mob_api *api, struct mob_http_request *request)
{
    (void)api;
    const char *media = mob_http_header(request, "Content-Type");
    if (media && !mob_http_media_is(media, "application/octet-stream") &&
        !mob_http_media_is(media, "application/x-sharedlib")) {
        mob_api_fail(request, MOB_UNSUPPORTED_MEDIA, "takes a module as application/octet-stream");
        return;
    }
    if (request->body_length < 64 || memcmp(request->body, "\177ELF", 4) != 0) {
        mob_api_fail(request, MOB_ABI_MISMATCH, "the body is not an ELF shared object");
        return;
    }
    struct mob_engine_op *op = mob_api_op(request, MOB_ENGINE_FUNCTION_PUT);
    if (!op)
        return;
    op->upload.bytes = request->body;
    op->upload.size = request->body_length;
    mob_api_run(request, op, answer_upload, 0, NULL);
}

static void answer_gone(struct mob_http_request *request, struct mob_engine_op *op)
{
    (void)op;
    mob_http_reply(request, 204, NULL, NULL, 0);
}

/* A plain name means whatever is newest, which is not what anybody wants to delete by. */
static bool names_a_version(const char *name)
{
    const char *at = strchr(name, '@'), *hash = at ? at + 1 : name;
    return strspn(hash, "abcdefghijklmnopqrstuvwxyz234567") == strlen(hash) && strlen(hash) >= 8;
}

void mob_api_function_delete(struct mob_api *api, struct mob_http_request *request)
{
    (void)api;
    if (!names_a_version(request->segment_values[0])) {
        mob_api_fail(request, MOB_INVALID,
            "a module is deleted by its hash or by name@hash, at least 8 characters of the hash");
        return;
    }
    struct mob_engine_op *op = mob_api_op(request, MOB_ENGINE_FUNCTION_DELETE);
    if (!op)
        return;
    op->query.id = strdup(request->segment_values[0]);
    mob_api_run(request, op, answer_gone, 0, NULL);
}
