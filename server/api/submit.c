#include "server/api/submit.h"

#include <stdlib.h>

#include "common/base/clock.h"
#include "common/wire/spec.h"
#include "server/api/api.h"
#include "server/api/metrics.h"
#include "server/api/failure.h"
#include "server/api/problem.h"

#define RETURNS_STREAM 0xffffu
/* All that a task may have; of a stream, whose items have a page of their own, the first. */
#define RETURNS_SHOWN_MAX MOB_RETURNS_MAX
/* A function that stops when asked has come to its end by then. */
#define OVERDUE_NS (200 * MOB_MS)

void mob_submit_write_returns(struct mob_text *t, struct mob_task_id task, uint32_t count)
{
    uint32_t shown = count == RETURNS_STREAM ? 0 : count > RETURNS_SHOWN_MAX ? RETURNS_SHOWN_MAX : count;
    for (uint32_t i = 0; i < shown; i++) {
        char id[MOB_ID_TEXT_MAX];
        mob_object_id_format(mob_object_of(task, i), id);
        mob_text_puts(t, i > 0 ? ",\"" : "\"");
        mob_text_puts(t, id);
        mob_text_putc(t, '"');
    }
}

static void write_ids(struct mob_text *t, const struct mob_engine_submit *s)
{
    char id[MOB_ID_TEXT_MAX];
    mob_task_id_format(s->task, id);
    mob_text_puts(t, "{\"id\":\"");
    if (s->call == MOB_CALL_ACTOR_CREATE) {
        char actor[MOB_ID_TEXT_MAX];
        mob_actor_id_format((struct mob_actor_id){s->task}, actor);
        mob_text_puts(t, actor);
        mob_text_puts(t, "\",\"task\":\"");
    }
    mob_text_puts(t, id);
    mob_text_puts(t, "\",\"returns\":[");
    mob_submit_write_returns(t, s->task, s->return_count);
    mob_text_putc(t, ']');
    if (s->is_stream) /* its items are at /tasks/{id}/items, as they come */
        mob_text_printf(t, ",\"stream\":{\"items\":%u,\"ended\":%s}", s->return_count,
            s->stream_ended ? "true" : "false");
}

static void add_location(struct mob_http_request *request, const struct mob_engine_submit *s)
{
    char id[MOB_ID_TEXT_MAX];
    if (s->call == MOB_CALL_ACTOR_CREATE)
        mob_actor_id_format((struct mob_actor_id){s->task}, id);
    else
        mob_task_id_format(s->task, id);
    mob_http_reply_headerf(
        request, "Location", "/api/v1/%s/%s", s->call == MOB_CALL_ACTOR_CREATE ? "actors" : "tasks", id);
}

/* How long the client asked to wait, in seconds, negative if it did not; the headers are gone by the time of
 * the answer. */
struct submission {
    double wait_s;
};

static void add_preference(struct mob_http_request *request)
{
    const struct submission *submission = request->state;
    if (submission->wait_s >= 0)
        mob_http_reply_headerf(request, "Preference-Applied", "wait=%g", submission->wait_s);
}

/* Acknowledged, not finished. */
static void reply_accepted(struct mob_http_request *request, const struct mob_engine_submit *s)
{
    struct mob_text t = {0};
    write_ids(&t, s);
    mob_text_puts(
        &t, s->existed ? ",\"state\":\"submitted\",\"existed\":true}\n" : ",\"state\":\"submitted\"}\n");
    add_location(request, s);
    add_preference(request);
    mob_http_reply_text(
        request, s->call == MOB_CALL_ACTOR_CREATE ? (s->existed ? 200 : 201) : 202, "application/json", &t);
}

/* Finished in time. A task that failed is an answer, not an error of this request. */
static void reply_finished(struct mob_http_request *request, struct mob_engine_op *op)
{
    struct mob_text t = {0};
    write_ids(&t, &op->submit);
    if (op->error.status != MOB_OK) {
        mob_text_puts(&t, ",\"state\":\"failed\",\"error\":");
        mob_failure_write_error(&t, &op->error, op->submit.task);
    } else if (op->submit.value.json) {
        mob_text_puts(&t, ",\"state\":\"finished\",\"result\":");
        mob_text_puts(&t, op->submit.value.json);
    } else {
        /* Too large, or a type without a JSON form: its bytes are at /objects/{id}/data. */
        mob_text_printf(&t, ",\"state\":\"finished\",\"type\":\"%s\",\"size\":%zu", op->submit.value.type,
            op->submit.value.size);
    }
    if (op->error.status == MOB_OK && op->submit.results_json) {
        mob_text_puts(&t, ",\"results\":");
        mob_text_puts(&t, op->submit.results_json);
    }
    mob_text_puts(&t, op->submit.existed ? ",\"existed\":true}\n" : "}\n");
    add_location(request, &op->submit);
    add_preference(request);
    mob_http_reply_text(request, op->submit.call == MOB_CALL_ACTOR_CREATE && !op->submit.existed ? 201 : 200,
        "application/json", &t);
}

static void answer(struct mob_http_request *request, struct mob_engine_op *op)
{
    if (!op->submit.accepted) {
        mob_problem_reply_error(request, &op->error);
        return;
    }
    mob_metrics_tasks(mob_api_of(request)->metrics, 1);
    bool finished = op->error.status != MOB_OK || op->submit.value.state != MOB_OBJ_PENDING;
    if (finished && op->submit.wait_deadline_ns)
        reply_finished(request, op);
    else
        reply_accepted(request, &op->submit);
}

/* Nobody waits longer than the task may take: of one that does not stop at its deadline no outcome is told,
 * since what it still comes to counts (docs/adr/deadlines.md). 0: no waiting. */
static int64_t wait_of(double wait_s, const struct mob_engine_options *options)
{
    int64_t wait_ns = wait_s > 0 ? (int64_t)(wait_s * 1e9) : 0;
    int64_t task_ns = options->timeout_ms ? options->timeout_ms * MOB_MS + OVERDUE_NS : INT64_MAX;
    return wait_ns < task_ns ? wait_ns : task_ns;
}

void mob_submit_run(struct mob_body *body, struct mob_engine_op *op)
{
    struct mob_http_request *request = body->request;
    double wait_s;
    if (!mob_body_ok(body)) {
        mob_engine_op_destroy(op);
        return;
    }
    mob_body_close(body);
    if (!mob_api_prefer_wait(request, &wait_s)) {
        mob_engine_op_destroy(op);
        return;
    }
    struct submission *submission = malloc(sizeof *submission);
    if (!submission) {
        mob_engine_op_destroy(op);
        mob_api_fail(request, MOB_NO_MEMORY, "out of memory");
        return;
    }
    submission->wait_s = wait_s;
    request->state = submission;
    request->state_free = free;
    int64_t wait_ns = wait_of(wait_s, &op->submit.options);
    op->submit.wait_deadline_ns = wait_ns ? mob_deadline_after(wait_ns) : 0;
    op->answers_errors = true;
    mob_api_run(request, op, answer, mob_api_deadline(request, wait_ns), NULL);
}
