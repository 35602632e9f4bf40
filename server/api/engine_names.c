/* Creations of actors under a name.
 *
 * The node decides whose a name is, in the order of its log: of two creations under one name the later one
 * fails (`already-exists`), whoever sent it. The gateway asks before it submits, so that the common case
 * makes no actor, and again when its creation is acknowledged: another gateway or a driver may have been
 * between.
 */
#include <string.h>

#include "server/api/engine_submit.h"

/* Between the answer and now another creation may have been published, perhaps under the same name. */
static void create_if_still_free(struct flight *flight)
{
    if (flight->names_seen == flight->engine->names_given)
        engine_submit_known(flight);
    else
        engine_name_ask(flight);
}

/* The name is this actor's. */
static void on_taken(struct flight *flight, struct mob_actor_id id)
{
    struct mob_engine_submit *submit = &flight->op->submit;
    if (!submit->options.return_existing) {
        flight_fail(flight, MOB_EXISTS, "/options/name", "an actor named \"%.120s\" lives already",
            submit->options.actor_name);
        return;
    }
    flight->actor = mob_actor_of_id(flight->client, id);
    if (!flight->actor) {
        flight_fail(flight, MOB_NO_MEMORY, NULL, "%s", mob_status_text(MOB_NO_MEMORY));
        return;
    }
    submit->existed = true;
    engine_follow_creation(flight);
}

static void on_name(void *arg, enum mob_status status, const char *bytes, size_t size)
{
    struct flight *flight = arg;
    struct mob_actor_id id;
    flight->engine->worked++;
    if (status == MOB_NOT_FOUND) { /* its class may be older than a name stays fresh, by now */
        engine_function_learn(flight, flight->op->submit.function, create_if_still_free);
        return;
    }
    if (status != MOB_OK || size != sizeof id) {
        flight_fail_reply(flight, status == MOB_OK ? MOB_INTERNAL : status, NULL, 0);
        return;
    }
    memcpy(&id, bytes, sizeof id);
    /* This creation's own, which an earlier run under the same key made. */
    if (flight->key_again && mob_task_id_eq(id.creation, mob_key_child(flight->key_root, 0)))
        engine_submit_known(flight);
    else
        on_taken(flight, id);
}

static void ask(struct flight *flight, mob_answer_fn *answer)
{
    const char *name = flight->op->submit.options.actor_name;
    enum mob_status status =
        mob_ask(flight->client, MOB_REQ_NAME, name, (uint32_t)strlen(name), answer, flight);
    if (status != MOB_OK)
        flight_fail_client(flight, status, NULL);
}

void engine_name_ask(struct flight *flight)
{
    flight->names_seen = flight->engine->names_given;
    ask(flight, on_name);
}

/* --- after the creation --- */

bool engine_name_is_claimed(const struct flight *flight)
{
    return flight->claims_name;
}

/* What was created is no actor: the operation goes on without it. */
static void drop_creation(struct flight *flight)
{
    struct mob_engine_submit *submit = &flight->op->submit;
    flight_clear_deadline(flight);
    mob_unlisten(flight->client, &flight->waiter);
    mob_release(flight->future);
    mob_actor_release(flight->actor);
    flight->future = NULL;
    flight->actor = NULL;
    flight->claims_name = flight->acked = flight->ack_wanted = false;
    submit->accepted = false;
}

static void on_owner(void *arg, enum mob_status status, const char *bytes, size_t size)
{
    struct flight *flight = arg;
    struct mob_actor_id id;
    flight->engine->worked++;
    if (status == MOB_NOT_FOUND) { /* ours, and has ended since; or the winner has */
        flight_done(flight);
        return;
    }
    if (status != MOB_OK || size != sizeof id) {
        flight_fail_reply(flight, status == MOB_OK ? MOB_INTERNAL : status, NULL, 0);
        return;
    }
    memcpy(&id, bytes, sizeof id);
    if (mob_task_id_eq(id.creation, flight->op->submit.task)) {
        flight_done(flight);
        return;
    }
    drop_creation(flight);
    on_taken(flight, id);
}

void engine_name_check(struct flight *flight)
{
    ask(flight, on_owner);
}

/* The winner may have ended by now; then the name is free, and who asks again gets it. */
static void on_winner(void *arg, enum mob_status status, const char *bytes, size_t size)
{
    struct flight *flight = arg;
    struct mob_actor_id id;
    flight->engine->worked++;
    if (status == MOB_OK && size == sizeof id) {
        memcpy(&id, bytes, sizeof id);
        on_taken(flight, id);
    } else {
        flight_fail(flight, MOB_EXISTS, "/options/name", "an actor named \"%.120s\" lived until now",
            flight->op->submit.options.actor_name);
    }
}

void engine_name_lost(struct flight *flight)
{
    drop_creation(flight);
    ask(flight, on_winner);
}
