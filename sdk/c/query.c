/* Requests: rare questions to the node, each answered by one reply. */
#include "sdk/c/client.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/wire/json_text.h"

static void request_free(struct mob_pending_request *request)
{
    free(request->payload);
    free(request->sent);
    free(request);
}

static void request_unlink(struct mob_client *client, struct mob_pending_request *request)
{
    for (struct mob_pending_request **place = &client->requests; *place != NULL; place = &(*place)->next)
        if (*place == request) {
            *place = request->next;
            client->request_count--;
            return;
        }
}

void mob_requests_free(struct mob_client *client)
{
    while (client->requests != NULL) {
        struct mob_pending_request *request = client->requests;
        client->requests = request->next;
        if (request->callback != NULL && !request->done)
            request->callback(request->arg, MOB_CLOSED, "", 0);
        request_free(request);
    }
}

static enum mob_status send_request(struct mob_client *client, const struct mob_pending_request *request)
{
    struct mob_out_request head = {
        .request = request->request, .op = request->op, .payload_bytes = request->sent_bytes};
    return mob_client_publish(
        client, MOB_OUT_REQUEST, 0, &head, sizeof head, request->sent, request->sent_bytes);
}

enum mob_status mob_requests_resend(struct mob_client *client)
{
    for (struct mob_pending_request *request = client->requests; request != NULL; request = request->next) {
        if (!request->done)
            request->payload_bytes = 0; /* a part that the node before this one has sent */
        enum mob_status status = request->done ? MOB_OK : send_request(client, request);
        if (status != MOB_OK)
            return status;
    }
    return MOB_OK;
}

enum mob_status mob_request_start(struct mob_client *client, enum mob_request_op op, const void *a,
    uint32_t a_bytes, const void *b, uint32_t b_bytes, struct mob_pending_request **request_out)
{
    if (client->request_count == MOB_PENDING_REQUESTS_MAX)
        return mob_client_fail(
            client, MOB_QUEUE_FULL, "%u requests are waiting for their replies", MOB_PENDING_REQUESTS_MAX);
    struct mob_pending_request *request = calloc(1, sizeof *request);
    uint8_t *sent = malloc((size_t)a_bytes + b_bytes + 1);
    if (request == NULL || sent == NULL) {
        free(request);
        free(sent);
        return mob_client_fail(client, MOB_NO_MEMORY, "out of memory");
    }
    struct mob_writer w = mob_writer_of(sent, (size_t)a_bytes + b_bytes);
    mob_write_bytes(&w, a, a_bytes);
    mob_write_bytes(&w, b, b_bytes);
    request->request = ++client->next_request;
    request->op = (uint16_t)op;
    request->sent = sent;
    request->sent_bytes = a_bytes + b_bytes;
    enum mob_status status = send_request(client, request);
    if (status != MOB_OK) {
        request_free(request);
        return status;
    }
    request->next = client->requests;
    client->requests = request;
    client->request_count++;
    *request_out = request;
    return MOB_OK;
}

static bool append_payload(struct mob_pending_request *request, const uint8_t *bytes, uint32_t count)
{
    size_t whole = (size_t)request->payload_bytes + count;
    uint8_t *grown = whole < UINT32_MAX ? realloc(request->payload, whole + 1) : NULL;
    if (grown == NULL)
        return false;
    memcpy(grown + request->payload_bytes, bytes, count);
    grown[whole] = 0;
    request->payload = grown;
    request->payload_bytes = (uint32_t)whole;
    return true;
}

void mob_client_on_reply(struct mob_client *client, const struct mob_in_reply *reply, const uint8_t *payload)
{
    struct mob_pending_request *request = client->requests;
    while (request != NULL && request->request != reply->request)
        request = request->next;
    if (request == NULL || request->done)
        return; /* asked by someone who did not wait for it */
    if (request->abandoned) { /* what was fetched is in the store */
        request_unlink(client, request);
        request_free(request);
        return;
    }
    request->status = (enum mob_status)reply->status;
    bool kept = append_payload(request, payload, reply->payload_bytes);
    if (kept && reply->more)
        return;
    request->done = true; /* without memory for it, what comes behind this is nobody's */
    if (!kept)
        request->status = MOB_NO_MEMORY;
    client->replies += request->callback != NULL;
}

/* Callbacks of mob_query_async that are due. */
void mob_requests_run(struct mob_client *client)
{
    while (client->replies > 0) {
        struct mob_pending_request *request = client->requests;
        while (request != NULL && !(request->done && request->callback != NULL))
            request = request->next;
        if (request == NULL)
            break;
        request_unlink(client, request);
        client->replies--;
        request->callback(request->arg, request->status,
            request->payload == NULL ? "" : (const char *)request->payload, request->payload_bytes);
        request_free(request);
    }
}

static enum mob_status await_reply(
    struct mob_client *client, struct mob_pending_request *request, int64_t deadline_ns)
{
    enum mob_status status = MOB_OK;
    struct mob_waiting waiting = {.client = client, .deadline_ns = deadline_ns};
    while (status == MOB_OK && !request->done)
        status = mob_waiting_turn(&waiting);
    mob_waiting_end(&waiting);
    if (!request->done)
        return status;
    status = request->status;
    if (status != MOB_OK)
        mob_client_fail(client, status, "%s%s%s", mob_status_text(status),
            request->payload_bytes > 0 ? ": " : "",
            request->payload == NULL ? "" : (const char *)request->payload);
    return status;
}

static struct mob_pending_request *abandoned_fetch(struct mob_client *client, struct mob_object_id id)
{
    struct mob_pending_request *request = client->requests;
    while (request != NULL &&
        !(request->abandoned && request->op == MOB_REQ_FETCH && memcmp(request->sent, &id, sizeof id) == 0))
        request = request->next;
    return request;
}

enum mob_status mob_fetch(
    struct mob_client *client, struct mob_object_id id, int64_t deadline_ns, bool *answered_out)
{
    struct mob_pending_request *request = abandoned_fetch(client, id);
    enum mob_status status = MOB_OK;
    *answered_out = false;
    if (request == NULL)
        status = mob_request_start(client, MOB_REQ_FETCH, &id, sizeof id, NULL, 0, &request);
    if (status != MOB_OK)
        return status;
    request->abandoned = false;
    status = await_reply(client, request, deadline_ns);
    *answered_out = request->done;
    request->abandoned = !request->done && status == MOB_TIMEOUT;
    if (!request->abandoned) {
        request_unlink(client, request);
        request_free(request);
    }
    return status;
}

enum mob_status mob_request(struct mob_client *client, enum mob_request_op op, const void *payload,
    uint32_t bytes, int64_t timeout_ns, uint8_t **reply_out, uint32_t *reply_bytes_out)
{
    struct mob_pending_request *request;
    enum mob_status status = mob_request_start(client, op, payload, bytes, NULL, 0, &request);
    if (status != MOB_OK)
        return status;
    status = await_reply(client, request, timeout_ns == 0 ? 0 : mob_deadline_after(timeout_ns));
    if (status == MOB_OK && reply_out != NULL) {
        *reply_out = request->payload;
        *reply_bytes_out = request->payload_bytes;
        request->payload = NULL;
    }
    request_unlink(client, request);
    request_free(request);
    return status;
}

/* ---- the public questions ---- */

static const struct {
    const char *what;
    enum mob_request_op op;
} questions[] = {{"stats", MOB_REQ_STATS}, {"why", MOB_REQ_WHY}, {"task", MOB_REQ_TASK},
    {"actor", MOB_REQ_ACTOR_STATE}, {"job", MOB_REQ_JOB}, {"live-tasks", MOB_REQ_LIVE_TASKS},
    {"delete", MOB_REQ_DELETE}, {"function", MOB_REQ_FUNCTION}, {"name", MOB_REQ_NAME},
    {"undeploy", MOB_REQ_UNDEPLOY}};

struct question {
    enum mob_request_op op;
    const void *payload;
    uint32_t bytes;
    struct mob_task_id task;
    struct mob_actor_id actor;
    struct {
        struct mob_object_id id;
        uint32_t for_good;
    } object;
};

static bool question_subject(const char *subject, struct question *q)
{
    q->payload = subject;
    q->bytes = (uint32_t)strlen(subject);
    if (q->op == MOB_REQ_WHY || q->op == MOB_REQ_TASK) {
        q->payload = &q->task;
        q->bytes = sizeof q->task;
        return mob_task_id_parse(subject, &q->task) == MOB_OK;
    }
    if (q->op == MOB_REQ_ACTOR_STATE) {
        q->payload = &q->actor;
        q->bytes = sizeof q->actor;
        return mob_actor_id_parse(subject, &q->actor) == MOB_OK;
    }
    if (q->op == MOB_REQ_DELETE) {
        q->payload = &q->object;
        q->bytes = sizeof q->object;
        q->object.for_good = 1;
        return mob_object_id_parse(subject, &q->object.id) == MOB_OK;
    }
    return true;
}

static enum mob_status question_of(
    struct mob_client *client, const char *what, const char *subject, struct question *out)
{
    for (size_t i = 0; i < sizeof questions / sizeof questions[0]; i++) {
        if (strcmp(what, questions[i].what) != 0)
            continue;
        out->op = questions[i].op;
        if (question_subject(subject == NULL ? "" : subject, out))
            return MOB_OK;
        return mob_client_fail(client, MOB_INVALID, "\"%.60s\" is no id that \"%s\" could be asked about",
            subject == NULL ? "" : subject, what);
    }
    return mob_client_fail(client, MOB_NOT_FOUND, "there is no question \"%s\"", what);
}

enum mob_status mob_query(
    struct mob_client *client, const char *what, const char *subject, int64_t timeout_ns, char **json_out)
{
    MOB_GIVEN_CLIENT(client);
    MOB_GIVEN(client, what);
    MOB_GIVEN(client, json_out);
    struct question q;
    uint8_t *reply;
    uint32_t bytes;
    enum mob_status status = question_of(client, what, subject, &q);
    if (status == MOB_OK)
        status = mob_request(client, q.op, q.payload, q.bytes, timeout_ns, &reply, &bytes);
    if (status == MOB_OK)
        *json_out = (char *)reply;
    return status;
}

enum mob_status mob_query_async(struct mob_client *client, const char *what, const char *subject,
    void (*callback)(void *arg, enum mob_status, const char *json, size_t size), void *arg)
{
    MOB_GIVEN_CLIENT(client);
    MOB_GIVEN(client, what);
    MOB_GIVEN(client, callback);
    struct question q;
    struct mob_pending_request *request;
    enum mob_status status = question_of(client, what, subject, &q);
    if (status == MOB_OK)
        status = mob_request_start(client, q.op, q.payload, q.bytes, NULL, 0, &request);
    if (status != MOB_OK)
        return status;
    request->callback = callback;
    request->arg = arg;
    return MOB_OK;
}

enum mob_status mob_flush(struct mob_client *client, int64_t timeout_ns)
{
    MOB_GIVEN_CLIENT(client);
    if (!mob_in_task(client))
        return mob_request(client, MOB_REQ_FLUSH, NULL, 0, timeout_ns, NULL, NULL);
    /* the node says whether this task's replay differs */
    return mob_request(client, MOB_REQ_FLUSH, &client->parent, sizeof client->parent, timeout_ns, NULL, NULL);
}

bool mob_json_text_field(const char *json, const char *key, char *out, size_t size)
{
    struct json_slice whole, value;
    if (json_whole((struct json_slice){json, json + strlen(json)}, &whole) != JSON_OBJECT ||
        json_find(whole, key, &value) != JSON_STRING)
        return false;
    size_t bytes = json_slice_length(value);
    char *text = malloc(bytes + 1);
    if (text == NULL)
        return false;
    json_string_decode(value, text);
    text[bytes] = 0;
    json_utf8_copy(out, size, text);
    free(text);
    return true;
}
