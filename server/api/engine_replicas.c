/* The actor behind an endpoint: how it is made, and why it is not there.
 *
 * Making it takes questions to the node (the class, whether the actor of that name lives, room for its
 * arguments), each without waiting: the engine's thread serves everybody. The `maker` is the flight of these
 * questions; its end tells the endpoint.
 *
 * A replica that was alive may wait again: its node or worker died, and others have the CPU that placing it
 * takes. Its calls then wait in the node, which says nothing. So who has heard nothing for LOOK_NS is looked
 * after: the node is asked why the creation waits, and if it does, callers are told that, what is missing,
 * and when to come again; no more calls are sent until it is there, and those that were are taken back, so
 * that nothing runs that nobody waits for.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "server/api/engine_models.h"

#define LOOK_NS (2 * MOB_SEC)
/* A PUT whose actor waits for resources is told so as soon as a call is. What waits for its turn, for room or
 * for a worker's start comes by itself, also on a slow machine: that long. */
#define PUT_PATIENCE_NS (20 * MOB_SEC)
#define RETRY_AFTER_S 2u

/* --- making it --- */

static void on_created(struct mob_future *future, void *arg)
{
    struct endpoint *e = arg;
    e->engine->worked++;
    struct mob_future_look look = mob_future_look(future);
    if (look.state == MOB_FUTURE_FAILED) {
        char message[200], why[256];
        if (!mob_json_text_field(mob_future_error(future), "message", message, sizeof message) || !*message)
            snprintf(message, sizeof message, "%s", mob_status_text(look.status));
        snprintf(why, sizeof why, "the actor could not be made: %s", message);
        endpoint_broken(e, MOB_INVALID, NULL, why);
        return;
    }
    endpoint_made(e);
}

/* The maker has ended. What it could not do is said by its error. */
static void on_maker_done(struct mob_engine_op *op)
{
    struct endpoint *e = op->context;
    if (!e->engine->closing) {
        e->maker = NULL;
        enum mob_status status = op->error.status == MOB_NOT_FOUND ? MOB_INVALID : op->error.status;
        if (e->removed)
            endpoint_let_go(e);
        else if (status != MOB_OK)
            endpoint_broken(e, status, op->error.pointer,
                op->error.detail ? op->error.detail : mob_status_text(op->error.status));
    }
    mob_engine_op_destroy(op);
}

static struct endpoint *endpoint_of(const struct flight *maker)
{
    return maker->op->context;
}

/* Nobody wants it any more. */
static bool was_removed(struct flight *maker)
{
    if (!endpoint_of(maker)->removed)
        return false;
    flight_fail(maker, MOB_CANCELLED, NULL, "the endpoint is gone");
    return true;
}

/* With an actor: its creation is waited for without the maker. */
static void follow_creation(struct flight *maker)
{
    struct endpoint *e = endpoint_of(maker);
    enum mob_status status = mob_actor_created(e->actor, &e->created);
    if (status == MOB_OK)
        status = mob_on_ready(e->created, on_created, e);
    if (status == MOB_OK)
        flight_done(maker);
    else
        flight_fail_client(maker, status, NULL);
}

static void create_actor(struct flight *maker)
{
    struct endpoint *e = endpoint_of(maker);
    char name[ENDPOINT_ACTOR_NAME_BYTES];
    if (was_removed(maker))
        return;
    endpoint_actor_name(e, name);
    struct argument_memory *memory = argument_memory_create();
    MOB_ASSERT(memory != NULL);
    struct mob_args arguments;
    struct mob_actor_options options = {.struct_size = sizeof options,
        .name = name,
        .return_if_exists = true,
        .detached = true,
        .max_restarts = -1};
    if (engine_arguments(e->client, mob_function_callable(e->class).signature, e->arguments, "/arguments",
            memory, &arguments, &maker->op->error) != MOB_OK) {
        argument_memory_destroy(memory);
        flight_done(maker);
        return;
    }
    enum mob_status status = mob_actor_create_unasked(e->client, e->class, arguments, &options, &e->actor);
    argument_memory_destroy(memory);
    if (status == MOB_OK) {
        e->engine->names_given++;
        follow_creation(maker);
    } else if (status == MOB_STORE_FULL) {
        flight_want_room(maker, create_actor, NULL);
    } else {
        flight_fail_client(maker, status, status == MOB_TYPE_MISMATCH ? "/arguments" : NULL);
    }
}

static void on_name(void *arg, enum mob_status status, const char *bytes, size_t size)
{
    struct flight *maker = arg;
    struct endpoint *e = endpoint_of(maker);
    struct mob_actor_id id;
    maker->engine->worked++;
    if (status == MOB_NOT_FOUND) {
        create_actor(maker);
        return;
    }
    if (status != MOB_OK || size != sizeof id) {
        flight_fail_reply(maker, status == MOB_OK ? MOB_INTERNAL : status, NULL, 0);
        return;
    }
    memcpy(&id, bytes, sizeof id);
    if (was_removed(maker)) /* its actor is one without an endpoint then, which the next gateway ends */
        return;
    e->actor = mob_actor_of_id(e->client, id);
    MOB_ASSERT(e->actor != NULL);
    mob_actor_set_class(e->actor, e->class);
    follow_creation(maker);
}

/* The generation makes the name of a new endpoint's actor its own: nobody can have it yet. */
static void with_class(struct flight *maker)
{
    struct endpoint *e = endpoint_of(maker);
    char name[ENDPOINT_ACTOR_NAME_BYTES];
    if (was_removed(maker) || !endpoint_take_class(e, maker))
        return;
    if (e->candidate) {
        create_actor(maker);
        return;
    }
    endpoint_actor_name(e, name);
    enum mob_status status = mob_ask(e->client, MOB_REQ_NAME, name, (uint32_t)strlen(name), on_name, maker);
    if (status != MOB_OK)
        flight_fail_client(maker, status, NULL);
}

void endpoint_make_actor(struct endpoint *e)
{
    struct mob_engine_op *op = mob_engine_op_create(MOB_ENGINE_SUBMIT, on_maker_done, e);
    MOB_ASSERT(op != NULL);
    op->submit.call = MOB_CALL_ACTOR_CREATE;
    e->maker = flight_create(e->engine, op);
    e->maker->client = e->client;
    engine_function_learn(e->maker, e->class_name, with_class);
}

/* --- why it is not there --- */

enum wait_kind { WAITS_NOT, WAITS_FOR_TURN, WAITS_FOR_RESOURCES };

static enum wait_kind kind_of(const char *reason)
{
    static const char *const turns[] = {"inputs", "delayed", "queued", "workers", NULL};
    if (strcmp(reason, "resources") == 0 || strcmp(reason, "unsatisfiable") == 0)
        return WAITS_FOR_RESOURCES;
    for (int i = 0; turns[i]; i++)
        if (strcmp(reason, turns[i]) == 0)
            return WAITS_FOR_TURN;
    return WAITS_NOT;
}

/* `out`: "CPU: 1 needed, 0 of 2 free"; "" if it does not wait. */
static enum wait_kind waits_for(const char *text, size_t size, char *out, size_t capacity)
{
    json_t *why = json_loadb(text, size, 0, NULL);
    const char *reason = json_string_value(json_object_get(why, "reason"));
    const char *resource = json_string_value(json_object_get(why, "resource"));
    enum wait_kind waits = reason ? kind_of(reason) : WAITS_NOT;
    *out = 0;
    if (waits && resource)
        snprintf(out, capacity, "%s: %g needed, %g of %g free", resource,
            json_number_value(json_object_get(why, "needed")),
            json_number_value(json_object_get(why, "free")),
            json_number_value(json_object_get(why, "total")));
    else if (waits)
        snprintf(out, capacity, "%s", reason);
    json_decref(why);
    return waits;
}

static void refuse_put(struct endpoint *e)
{
    char why[ENDPOINT_WAITS_BYTES + 100];
    snprintf(why, sizeof why, "the model's actor is not placed yet (%s); nothing was changed", e->waits);
    e->put->op->error.retry_after_s = RETRY_AFTER_S;
    endpoint_broken(e, MOB_NOT_PLACED, NULL, why);
}

static void tell_callers(struct endpoint *e)
{
    char why[ENDPOINT_WAITS_BYTES + 100];
    snprintf(why, sizeof why, "the model's replica is not placed yet (%s); the call has not begun", e->waits);
    endpoint_fail_calls(e, MOB_NOT_PLACED, RETRY_AFTER_S, why);
    e->look_ns = mob_now() + LOOK_NS / 4; /* it may be there soon */
}

static void on_why(void *arg, enum mob_status status, const char *text, size_t size)
{
    struct endpoint *e = arg;
    e->looking = false;
    e->engine->worked++;
    if (e->removed) {
        endpoint_let_go(e);
        return;
    }
    enum wait_kind waits = waits_for(text, status == MOB_OK ? size : 0, e->waits, sizeof e->waits);
    if (e->model)
        atomic_store(&e->model->ready, e->ready && !waits);
    e->look_ns = mob_now() + LOOK_NS;
    if (waits && !e->candidate)
        tell_callers(e);
    else if (waits == WAITS_FOR_RESOURCES || (waits && mob_now() >= e->put_patience_ns))
        refuse_put(e); /* `e` is gone */
}

static void look(struct endpoint *e)
{
    char id[MOB_ID_TEXT_MAX];
    mob_task_id_format(mob_actor_identity(e->actor).creation, id);
    e->looking = mob_query_async(e->client, "why", id, on_why, e) == MOB_OK;
    if (!e->looking)
        e->look_ns = mob_now() + LOOK_NS;
}

int64_t endpoint_look(struct endpoint *e, int64_t now)
{
    bool awaited = e->running > 0 || e->batcher.count > 0 || e->candidate || e->waits[0];
    if (!awaited || !e->actor || e->looking) {
        e->look_ns = 0;
        return INT64_MAX;
    }
    if (e->look_ns == 0)
        e->look_ns = now + LOOK_NS;
    if (e->candidate && e->put_patience_ns == 0)
        e->put_patience_ns = now + PUT_PATIENCE_NS;
    if (now < e->look_ns)
        return e->look_ns;
    look(e);
    return INT64_MAX;
}
