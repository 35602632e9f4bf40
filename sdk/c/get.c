/* The papers' get: wait for a future, then its value or its error. */
#include "sdk/c/client.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/base/clock.h"
#include "common/wire/failure_json.h"

/* For how long the bytes of what is ready are waited for. */
struct patience {
    int64_t deadline_ns;
    bool over; /* it was not long enough */
};

static struct patience patience_of(int64_t timeout_ns)
{
    if (timeout_ns < 0 || timeout_ns == MOB_FOREVER)
        return (struct patience){INT64_MAX, false};
    /* Who asks without waiting has been told that it is ready: what lies on disk is no reason to refuse. */
    return (struct patience){mob_deadline_after(timeout_ns == 0 ? MOB_POLL_PATIENCE_NS : timeout_ns), false};
}

static enum mob_status out_of_patience(struct mob_client *client, struct patience *patience)
{
    patience->over = true;
    return mob_client_fail(
        client, MOB_TIMEOUT, "ready, but its bytes were not brought back before the time-out has passed");
}

bool mob_look_again(struct mob_looks *looks, enum mob_status status)
{
    enum { AT_ONCE = 8, PAUSES_GROW = 6 };
    if (status != MOB_NOT_FOUND && status != MOB_NOT_READY)
        return false;
    if (looks->count++ < AT_ONCE)
        return true;
    if (looks->give_up_ns == 0)
        looks->give_up_ns = mob_deadline_after(MOB_LOOKS_PATIENCE_NS);
    if (mob_now() > looks->give_up_ns)
        return false;
    uint32_t pauses = looks->count - AT_ONCE;
    struct timespec pause = {.tv_nsec = MOB_MS << (pauses < PAUSES_GROW ? pauses : PAUSES_GROW)};
    nanosleep(&pause, NULL);
    return true;
}

static enum mob_status from_store(
    struct mob_future *future, struct mob_value *value, struct patience *patience)
{
    struct mob_client *client = mob_future_client(future);
    struct mob_object_id id = mob_future_object(future);
    if (future->where == MOB_WHERE_OTHER)
        memcpy(&id, future->as.block->payload, sizeof id);
    enum mob_status status = mob_value_read(client, &id, value);
    for (struct mob_looks looks = {0}; mob_look_again(&looks, status);) {
        bool answered;
        status = mob_fetch(client, id, patience->deadline_ns, &answered);
        if (status == MOB_TIMEOUT && !answered)
            return out_of_patience(client, patience);
        if (status != MOB_OK)
            return status;
        status = mob_value_read(client, &id, value);
    }
    if (status == MOB_QUEUE_FULL)
        return mob_client_fail(client, status, "too many values are held at a time: release some");
    return status == MOB_OK
        ? MOB_OK
        : mob_client_fail(client, status, "the bytes are not there: %s", mob_status_text(status));
}

/* Failed by the node's word about the object, and not by an error value, which no slot could hold. */
static bool is_nodes_word(const struct mob_future *future)
{
    return future->where == MOB_WHERE_SLOT;
}

/* An error's bytes, wherever they are; NULL when there are none, or they cannot be had. `value` holds them,
 * and is released by the caller. */
static const uint8_t *error_bytes(
    struct mob_future *future, struct patience *patience, struct mob_value **value_out, uint64_t *bytes_out)
{
    *value_out = NULL;
    if (future->where == MOB_WHERE_BLOCK) {
        *bytes_out = future->as.block->bytes;
        return future->as.block->payload;
    }
    struct mob_value *value =
        future->where == MOB_WHERE_SLOT ? NULL : mob_value_new(mob_future_client(future));
    if (value == NULL)
        return NULL;
    if (from_store(future, value, patience) != MOB_OK || value->type != MOB_TYPE_ERROR) {
        mob_value_release(value);
        return NULL;
    }
    *value_out = value;
    *bytes_out = value->payload_bytes;
    return value->payload;
}

/* The sentence of the first link of the chain of causes; a task that gives up for it names it as its cause.
 */
static enum mob_status failed(struct mob_future *future, struct patience *patience)
{
    struct mob_client *client = mob_future_client(future);
    struct mob_value *value;
    uint64_t bytes = 0;
    const uint8_t *payload = error_bytes(future, patience, &value, &bytes);
    if (patience->over)
        return MOB_TIMEOUT;
    struct mob_error_link link = {.status = (enum mob_status)future->status};
    client->cause_bytes = 0;
    if (payload != NULL && mob_error_decode(payload, bytes, &link, 1) > 0)
        future->status = (uint16_t)link.status;
    if (payload != NULL && bytes <= sizeof client->cause) {
        memcpy(client->cause, payload, bytes);
        client->cause_bytes = (uint32_t)bytes;
    }
    enum mob_status status = (enum mob_status)future->status;
    if (is_nodes_word(future) && mob_status_retryable(status))
        future->flags |= MOB_FUTURE_NOT_NOW;
    if (link.message_bytes > 0)
        mob_client_fail(client, status, "%.*s", (int)link.message_bytes, link.message);
    else if (is_nodes_word(future))
        mob_client_fail(client, status, "the node says of it: %s", mob_status_text(status));
    else
        mob_client_fail(client, status, "the task failed: %s", mob_status_text(status));
    mob_value_release(value);
    return status;
}

static enum mob_status value_of(
    struct mob_future *future, struct patience *patience, struct mob_value **value_out)
{
    struct mob_client *client = mob_future_client(future);
    if (future->state == MOB_FUTURE_FAILED)
        return failed(future, patience);
    struct mob_value *value = mob_value_new(client);
    if (value == NULL)
        return mob_client_fail(client, MOB_NO_MEMORY, "out of memory");
    value->type = (enum mob_value_type)future->type;
    switch ((enum mob_future_where)future->where) {
    case MOB_WHERE_SLOT:
        memcpy(value->small, future->as.bytes, sizeof future->as.bytes);
        value->payload = value->small;
        value->payload_bytes = future->size;
        break;
    case MOB_WHERE_BLOCK:
        value->block = future->as.block;
        value->block->refs++;
        value->payload = value->block->payload;
        value->payload_bytes = value->block->bytes;
        break;
    case MOB_WHERE_STORE:
    case MOB_WHERE_OTHER: {
        enum mob_status status = from_store(future, value, patience);
        if (status != MOB_OK) {
            mob_value_release(value);
            return status;
        }
        if (value->type == MOB_TYPE_ERROR) { /* its bytes were lost, and made again they were others */
            mob_value_release(value);
            future->state = MOB_FUTURE_FAILED;
            future->status = MOB_TASK_FAILED;
            return failed(future, patience);
        }
        break;
    }
    }
    *value_out = value;
    return MOB_OK;
}

enum mob_status mob_value_of_future(struct mob_future *future, struct mob_value **value_out)
{
    struct patience patience = patience_of(MOB_FOREVER);
    return value_of(future, &patience, value_out);
}

static bool is_number_in_slot(const struct mob_future *future, enum mob_value_type type)
{
    return future->state == MOB_FUTURE_READY && future->where == MOB_WHERE_SLOT && future->type == type &&
        future->size == 8;
}

/* As if nobody had asked for it yet. */
static void ask_again(struct mob_future *future)
{
    future->flags &= (uint8_t) ~(MOB_FUTURE_NOT_NOW | MOB_FUTURE_WATCHED | MOB_FUTURE_COUNTED);
    future->as.i64 = 0;
    future->state = MOB_FUTURE_PENDING;
}

/* A number of this type that lies in the future itself stays there, and *value_out as it is. */
static enum mob_status get(struct mob_future *future, int64_t timeout_ns, enum mob_value_type number,
    bool *timed_out, struct mob_value **value_out)
{
    *timed_out = false;
    if (is_number_in_slot(future, number))
        return MOB_OK;
    if (future->flags & MOB_FUTURE_NOT_NOW)
        ask_again(future);
    struct patience patience = patience_of(timeout_ns);
    enum mob_status status = mob_future_await(future, timeout_ns);
    *timed_out = status == MOB_TIMEOUT;
    if (status != MOB_OK || is_number_in_slot(future, number))
        return status;
    status = value_of(future, &patience, value_out);
    *timed_out = patience.over;
    return status;
}

/* In a task a time-out is an input like any other: which way it went is logged, and a replay goes the same
 * way. */
static enum mob_status get_logged(
    struct mob_future *future, int64_t timeout_ns, enum mob_value_type number, struct mob_value **value_out)
{
    struct mob_client *client = mob_future_client(future);
    bool finite = timeout_ns >= 0 && timeout_ns != MOB_FOREVER, timed_out;
    if (!finite || !mob_in_task(client))
        return get(future, timeout_ns, number, &timed_out, value_out);
    uint8_t logged;
    uint32_t bytes;
    if (mob_outcome_replay(client, MOB_OUTCOME_TIMEOUT, &logged, 1, &bytes)) {
        if (logged)
            return mob_client_fail(client, MOB_TIMEOUT, "not ready before the time-out has passed");
        return get(future, MOB_FOREVER, number, &timed_out, value_out);
    }
    enum mob_status status = get(future, timeout_ns, number, &timed_out, value_out);
    logged = timed_out;
    mob_outcome_log(client, MOB_OUTCOME_TIMEOUT, &logged, 1);
    return status;
}

enum mob_status mob_get(struct mob_future *future, int64_t timeout_ns, struct mob_value **value_out)
{
    MOB_GIVEN(NULL, future);
    MOB_GIVEN(mob_future_client(future), value_out);
    return get_logged(future, timeout_ns, MOB_TYPE_NONE, value_out);
}

/* The short way for what lies in the slot; anything else goes through a value. */
static enum mob_status get_scalar(
    struct mob_future *future, int64_t timeout_ns, enum mob_value_type type, void *value_out)
{
    MOB_GIVEN(NULL, future);
    MOB_GIVEN(mob_future_client(future), value_out);
    struct mob_value *value = NULL;
    enum mob_status status = get_logged(future, timeout_ns, type, &value);
    if (status != MOB_OK)
        return status;
    if (value == NULL) {
        memcpy(value_out, future->as.bytes, 8);
        return MOB_OK;
    }
    status = type == MOB_TYPE_I64 ? mob_value_i64(value, value_out) : mob_value_f64(value, value_out);
    mob_value_release(value);
    return status;
}

enum mob_status mob_get_i64(struct mob_future *future, int64_t timeout_ns, int64_t *value_out)
{
    return get_scalar(future, timeout_ns, MOB_TYPE_I64, value_out);
}

enum mob_status mob_get_f64(struct mob_future *future, int64_t timeout_ns, double *value_out)
{
    return get_scalar(future, timeout_ns, MOB_TYPE_F64, value_out);
}

/* ---- the chain of causes as JSON ---- */

const char *mob_future_error(struct mob_future *future)
{
    if (future == NULL)
        return "{}";
    struct mob_client *client = mob_future_client(future);
    if (future->state == MOB_FUTURE_STREAM)
        return mob_stream_error(future);
    if (future->state != MOB_FUTURE_FAILED)
        return "{}";
    struct mob_error_link links[MOB_ERROR_LINKS_MAX] = {0};
    struct mob_value *value;
    uint64_t bytes = 0, length;
    struct patience patience = patience_of(MOB_FOREVER);
    const uint8_t *payload = error_bytes(future, &patience, &value, &bytes);
    int count = payload == NULL ? 0 : mob_error_decode(payload, bytes, links, MOB_ERROR_LINKS_MAX);
    if (count <= 0) { /* no words: the node's answer about the object, and no task's */
        count = 1;
        links[0] = (struct mob_error_link){
            .status = (enum mob_status)future->status, .task = mob_future_object(future).task};
    }
    char *json = NULL;
    enum mob_status status = mob_failure_json(links, count, &json, &length);
    mob_value_release(value);
    if (status != MOB_OK)
        return "{}";
    free(client->error_json);
    client->error_json = json;
    return json;
}
