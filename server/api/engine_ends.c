/* Cancelling tasks and ending actors. */
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "server/api/engine_inner.h"

static void on_reply(void *arg, enum mob_status status, const char *text, size_t size)
{
    struct flight *flight = arg;
    if (status == MOB_OK)
        flight_done(flight);
    else
        flight_fail_reply(flight, status, text, size);
}

static void publish_cancel(struct flight *flight)
{
    struct mob_task_id task;
    enum mob_status status = mob_task_id_parse(flight->op->query.id, &task);
    if (status == MOB_OK)
        status = mob_cancel_task(flight->client, task, flight->op->query.force);
    if (status != MOB_OK)
        flight_fail_client(flight, status, NULL);
    else
        flight_want_ack(flight);
}

static void on_told_below(void *arg, enum mob_status status, const char *text, size_t size)
{
    struct flight *flight = arg;
    json_t *reply = status == MOB_OK ? json_loadb(text, size, 0, NULL) : NULL;
    bool any = json_integer_value(json_object_get(reply, "told")) > 0;
    json_decref(reply);
    if (status != MOB_OK)
        flight_fail_reply(flight, status, text, size);
    else if (any)
        flight_done(flight);
    else
        flight_fail(flight, MOB_FINISHED, NULL, "the task has ended: it is %s, and nothing lives below it",
            flight->ended);
}

/* The task stays as it is; what it left running is told to stop. */
static void cancel_below(struct flight *flight, const struct task_record *record)
{
    flight->ended = task_record_state(record);
    char request[128];
    snprintf(request, sizeof request, "{\"op\":\"cancel_below\",\"id\":\"%.60s\",\"force\":%s}",
        flight->op->query.id, flight->op->query.force ? "true" : "false");
    enum mob_status status =
        mob_ask(flight->client, MOB_REQ_JOB, request, (uint32_t)strlen(request), on_told_below, flight);
    if (status != MOB_OK)
        flight_fail_client(flight, status, NULL);
}

static void on_task_to_cancel(struct flight *flight, const struct engine_found *found)
{
    if (found->live)
        publish_cancel(flight);
    else if (found->known == ENGINE_NEVER)
        flight_fail_unknown(flight, "task");
    else if (found->known == ENGINE_FINISHED)
        cancel_below(flight, found->record);
    else
        flight_fail(flight, MOB_AGAIN, NULL, "the task is between two nodes' hands");
}

void engine_start_cancel(struct flight *flight)
{
    struct mob_task_id id;
    if (mob_task_id_parse(flight->op->query.id, &id) == MOB_OK)
        engine_find(flight, id, ENGINE_FIND_LIVE, on_task_to_cancel);
    else
        flight_fail(flight, MOB_NOT_FOUND, NULL, "no such task");
}

/* The node does not know the actor: it ended before the node began, or never was. */
static void on_actor_to_end(struct flight *flight, const struct engine_found *found)
{
    if (engine_is_actor(found))
        flight_fail(flight, MOB_FINISHED, NULL, "the actor has ended");
    else
        engine_fail_no_actor(flight, found);
}

static void on_actor_killed(void *arg, enum mob_status status, const char *text, size_t size)
{
    struct flight *flight = arg;
    struct mob_actor_id id;
    if (status == MOB_NOT_FOUND && mob_actor_id_parse(flight->op->query.id, &id) == MOB_OK)
        engine_find(flight, id.creation, ENGINE_FIND_RECORD, on_actor_to_end);
    else if (status == MOB_FINISHED)
        flight_fail(flight, status, NULL, "the actor has ended");
    else
        on_reply(arg, status, text, size);
}

void engine_start_actor_delete(struct flight *flight)
{
    struct {
        struct mob_actor_id id;
        uint32_t no_restart;
    } body = {.no_restart = 1};
    enum mob_status status = mob_actor_id_parse(flight->op->query.id, &body.id);
    if (status == MOB_OK)
        status = mob_ask(flight->client, MOB_REQ_ACTOR_KILL, &body, sizeof body, on_actor_killed, flight);
    if (status != MOB_OK)
        flight_fail_client(flight, status, NULL);
}
