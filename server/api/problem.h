/* Errors as application/problem+json (RFC 9457): type, title, status, detail, instance, code, request_id,
 * retryable, errors[{pointer, message}], cause (a failure, failure.h). Under /v2 also "error": "text", as
 * Triton's clients expect.
 */
#ifndef MOB_SERVER_API_PROBLEM_H
#define MOB_SERVER_API_PROBLEM_H

#include "common/base/status.h"
#include "server/api/engine.h"
#include "server/http/http.h"

struct mob_problem {
    int http; /* 0: as the status says */
    enum mob_status status;
    const char *code, *title; /* of their own, for what only HTTP knows; NULL: the status's */
    const char *detail; /* may be NULL */
    const char *errors_json; /* an array's text, or NULL */
    const char *cause_json; /* of the failure that it tells of, or NULL */
    unsigned retry_after_s; /* 0: 1 if retryable */
    bool is_final; /* not retryable, whatever the status */
};

/* Builds the reply; the caller sends it. Drops what was built before. */
void mob_problem_reply(struct mob_http_request *request, const struct mob_problem *problem);
void mob_problem_replyf(struct mob_http_request *request, enum mob_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void mob_problem_reply_error(struct mob_http_request *request, const struct mob_engine_error *error);
/* Of a function that failed, or of what became of its task: its code may be any, 401 or 503 as well, which
 * says nothing of this request. So it is 409, and asking again changes nothing. */
void mob_problem_reply_failure(struct mob_http_request *request, const struct mob_engine_error *error);
/* The same object without a request around it, for the items of a batch. */
void mob_problem_write(struct mob_text *text, const struct mob_engine_error *error);

#endif
