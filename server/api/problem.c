#include "server/api/problem.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void write_errors(struct mob_text *t, const char *pointer, const char *message)
{
    mob_text_puts(t, "[{\"pointer\":");
    mob_text_json_cstring(t, pointer);
    mob_text_puts(t, ",\"message\":");
    mob_text_json_cstring(t, message);
    mob_text_puts(t, "}]");
}

void mob_problem_reply(struct mob_http_request *request, const struct mob_problem *problem)
{
    int http = problem->http ? problem->http : mob_status_http(problem->status);
    bool retryable = mob_status_retryable(problem->status) && !problem->is_final;
    const char *code = problem->code ? problem->code : mob_status_code(problem->status);
    const char *title = problem->title ? problem->title : mob_status_text(problem->status);
    const char *detail = problem->detail ? problem->detail : mob_status_text(problem->status);
    struct mob_text t = {0};
    mob_text_puts(&t, "{\"type\":\"urn:mobula:error:");
    mob_text_puts(&t, code);
    mob_text_puts(&t, "\",\"title\":");
    mob_text_json_cstring(&t, title);
    mob_text_printf(&t, ",\"status\":%d,\"code\":\"%s\",\"detail\":", http, code);
    mob_text_json_cstring(&t, detail);
    mob_text_puts(&t, ",\"instance\":");
    mob_text_json_cstring(&t, request->path);
    mob_text_puts(&t, ",\"request_id\":");
    mob_text_json_cstring(&t, request->request_id);
    mob_text_printf(&t, ",\"retryable\":%s", retryable ? "true" : "false");
    if (problem->errors_json) {
        mob_text_puts(&t, ",\"errors\":");
        mob_text_puts(&t, problem->errors_json);
    }
    if (problem->cause_json) {
        mob_text_puts(&t, ",\"cause\":");
        mob_text_puts(&t, problem->cause_json);
    }
    if (strncmp(request->path, "/v2", 3) == 0) {
        mob_text_puts(&t, ",\"error\":");
        mob_text_json_cstring(&t, detail);
    }
    mob_text_puts(&t, "}\n");
    bool close = request->reply.close;
    mob_http_reply_reset(request);
    request->reply.close = close;
    if (retryable)
        mob_http_reply_headerf(
            request, "Retry-After", "%u", problem->retry_after_s ? problem->retry_after_s : 1);
    mob_http_reply_text(request, http, "application/problem+json", &t);
}

void mob_problem_replyf(struct mob_http_request *request, enum mob_status status, const char *format, ...)
{
    char detail[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(detail, sizeof detail, format, arguments);
    va_end(arguments);
    mob_problem_reply(request, &(struct mob_problem){.status = status, .detail = detail});
}

void mob_problem_reply_failure(struct mob_http_request *request, const struct mob_engine_error *error)
{
    mob_problem_reply(request,
        &(struct mob_problem){.http = mob_status_http(MOB_TASK_FAILED),
            .status = error->status,
            .detail = error->detail,
            .cause_json = error->failure_json,
            .is_final = true});
}

void mob_problem_reply_error(struct mob_http_request *request, const struct mob_engine_error *error)
{
    struct mob_text errors = {0};
    char *errors_json = NULL;
    size_t length;
    if (error->pointer) {
        write_errors(&errors, error->pointer, error->detail ? error->detail : mob_status_text(error->status));
        errors_json = mob_text_take(&errors, &length);
    }
    mob_problem_reply(request,
        &(struct mob_problem){.status = error->status,
            .detail = error->detail,
            .errors_json = errors_json,
            .cause_json = error->failure_json,
            .retry_after_s = error->retry_after_s});
    free(errors_json);
}

void mob_problem_write(struct mob_text *t, const struct mob_engine_error *error)
{
    const char *detail = error->detail ? error->detail : mob_status_text(error->status);
    mob_text_puts(t, "{\"type\":\"urn:mobula:error:");
    mob_text_puts(t, mob_status_code(error->status));
    mob_text_puts(t, "\",\"title\":");
    mob_text_json_cstring(t, mob_status_text(error->status));
    mob_text_printf(t, ",\"status\":%d,\"code\":\"%s\",\"detail\":", mob_status_http(error->status),
        mob_status_code(error->status));
    mob_text_json_cstring(t, detail);
    mob_text_printf(t, ",\"retryable\":%s", mob_status_retryable(error->status) ? "true" : "false");
    if (error->pointer) {
        mob_text_puts(t, ",\"errors\":");
        write_errors(t, error->pointer, detail);
    }
    if (error->failure_json) {
        mob_text_puts(t, ",\"cause\":");
        mob_text_puts(t, error->failure_json);
    }
    mob_text_putc(t, '}');
}
