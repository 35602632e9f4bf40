/* Actor handles. There is one per actor and client, so that all calls of one caller share one order. */
#include "sdk/c/options.h"

#include <stdlib.h>

struct mob_actor {
    struct mob_client *client;
    struct mob_actor *next;
    struct mob_actor_id id;
    uint32_t refs;
    uint32_t caller_seq; /* calls of the current caller so far */
    uint32_t head_slot; /* for its calls, unless somebody else got it since; 0 = none yet */
    const struct mob_function *cls; /* NULL until it is needed: foreign handles carry an id only */
    struct mob_future *created; /* of an actor that this caller created */
};

static struct mob_actor *actor_new(struct mob_client *client, struct mob_actor_id id)
{
    struct mob_actor *actor = calloc(1, sizeof *actor);
    if (actor == NULL)
        return NULL;
    actor->client = client;
    actor->id = id;
    actor->refs = 1;
    actor->next = client->actors;
    client->actors = actor;
    return actor;
}

struct mob_actor *mob_actor_of_id(struct mob_client *client, struct mob_actor_id id)
{
    for (struct mob_actor *actor = client->actors; actor != NULL; actor = actor->next)
        if (mob_actor_id_eq(actor->id, id)) {
            actor->refs++;
            return actor;
        }
    return actor_new(client, id);
}

void mob_actor_set_class(struct mob_actor *actor, const struct mob_function *cls)
{
    if (actor->cls == NULL)
        actor->cls = cls;
}

struct mob_actor_id mob_actor_identity(const struct mob_actor *actor)
{
    return actor->id;
}

static void actor_free(struct mob_actor *actor)
{
    mob_release(actor->created);
    free(actor);
}

/* A handle that nobody holds stays until the caller ends: the next one of the same actor must go on counting.
 */
void mob_actor_release(struct mob_actor *actor)
{
    if (actor != NULL && actor->refs > 0)
        actor->refs--;
}

/* Another task runs: it is another caller, whose order begins again. Handles that an actor's instance keeps
 * live on. */
void mob_actors_next_caller(struct mob_client *client)
{
    for (struct mob_actor **place = &client->actors; *place != NULL;) {
        struct mob_actor *actor = *place;
        actor->caller_seq = 0;
        if (actor->refs > 0) {
            place = &actor->next;
            continue;
        }
        *place = actor->next;
        actor_free(actor);
    }
}

/* The futures are gone already, or go with the client. */
void mob_actors_free(struct mob_client *client)
{
    while (client->actors != NULL) {
        struct mob_actor *actor = client->actors;
        client->actors = actor->next;
        free(actor);
    }
}

/* ---- names ---- */

struct name_outcome {
    uint16_t status;
    struct mob_actor_id id;
};

/* In a task the answer is an input: logged, and the same in a replay. */
static enum mob_status look_up(struct mob_client *client, const char *name, struct mob_actor_id *id_out)
{
    struct name_outcome outcome = {0};
    uint32_t bytes;
    if (mob_in_task(client) &&
        mob_outcome_replay(client, MOB_OUTCOME_NAME, &outcome, sizeof outcome, &bytes)) {
        if (outcome.status == MOB_OK)
            *id_out = outcome.id;
        return (enum mob_status)outcome.status;
    }
    uint8_t *reply = NULL;
    enum mob_status status =
        mob_request(client, MOB_REQ_NAME, name, (uint32_t)strlen(name), MOB_FOREVER, &reply, &bytes);
    if (status == MOB_OK && bytes < sizeof outcome.id)
        status = MOB_CORRUPT;
    if (status == MOB_OK)
        memcpy(&outcome.id, reply, sizeof outcome.id);
    free(reply);
    outcome.status = (uint16_t)status;
    if (mob_in_task(client) && (status == MOB_OK || status == MOB_NOT_FOUND))
        mob_outcome_log(client, MOB_OUTCOME_NAME, &outcome, sizeof outcome);
    if (status == MOB_OK)
        *id_out = outcome.id;
    return status;
}

enum mob_status mob_actor_find(struct mob_client *client, const char *name, struct mob_actor **actor_out)
{
    MOB_GIVEN_CLIENT(client);
    MOB_GIVEN(client, name);
    MOB_GIVEN(client, actor_out);
    struct mob_actor_id id;
    enum mob_status status = look_up(client, name, &id);
    if (status == MOB_NOT_FOUND)
        return mob_client_fail(client, status, "no living actor is named \"%.120s\"", name);
    if (status != MOB_OK)
        return status;
    struct mob_actor *actor = mob_actor_of_id(client, id);
    if (actor == NULL)
        return mob_client_fail(client, MOB_NO_MEMORY, "out of memory");
    *actor_out = actor;
    return MOB_OK;
}

enum mob_status mob_actor_from_id(
    struct mob_client *client, const char *actor_id, struct mob_actor **actor_out)
{
    MOB_GIVEN_CLIENT(client);
    MOB_GIVEN(client, actor_id);
    MOB_GIVEN(client, actor_out);
    struct mob_actor_id id;
    if (mob_actor_id_parse(actor_id, &id) != MOB_OK)
        return mob_client_fail(client, MOB_INVALID, "\"%.60s\" is not an actor id (actor_...)", actor_id);
    struct mob_actor *actor = mob_actor_of_id(client, id);
    if (actor == NULL)
        return mob_client_fail(client, MOB_NO_MEMORY, "out of memory");
    *actor_out = actor;
    return MOB_OK;
}

void mob_actor_id(const struct mob_actor *actor, char text_out[MOB_TEXT_ID_MAX])
{
    if (text_out == NULL)
        return;
    text_out[0] = 0;
    if (actor != NULL)
        mob_actor_id_format(actor->id, text_out);
}

/* ---- creation ---- */

static struct mob_actor_options options_of(const struct mob_actor_options *given)
{
    struct mob_actor_options options = {0};
    if (given != NULL)
        memcpy(&options, given, given->struct_size < sizeof options ? given->struct_size : sizeof options);
    return options;
}

/* MOB_NOT_FOUND: the name is free, or this submission's own, which a process before this one made. */
static enum mob_status existing(struct mob_client *client, const struct mob_actor_options *options,
    const struct mob_client_key *key, struct mob_actor **actor_out)
{
    struct mob_actor_id id;
    enum mob_status status = look_up(client, options->name, &id);
    if (status != MOB_OK)
        return status;
    if (key->set && key->again && mob_task_id_eq(id.creation, mob_key_child(key->root, key->index)))
        return MOB_NOT_FOUND;
    if (!options->return_if_exists)
        return mob_client_fail(client, MOB_EXISTS, "an actor named \"%.120s\" lives already", options->name);
    struct mob_actor *actor = mob_actor_of_id(client, id);
    if (actor == NULL)
        return mob_client_fail(client, MOB_NO_MEMORY, "out of memory");
    *actor_out = actor;
    return MOB_OK;
}

static enum mob_status check_class(struct mob_client *client, const struct mob_function *class)
{
    return class->kind == MOB_KIND_ACTOR_CREATE
        ? MOB_OK
        : mob_client_fail(client, MOB_INVALID, "%s is a function and no class", class->name);
}

enum mob_status mob_actor_create(struct mob_client *client, const char *cls, struct mob_args args,
    const struct mob_actor_options *given, struct mob_actor **actor_out)
{
    MOB_GIVEN_CLIENT(client);
    MOB_GIVEN(client, actor_out);
    const struct mob_function *function;
    enum mob_status status = mob_function_resolve(client, cls, &function);
    if (status == MOB_OK)
        status = check_class(client, function);
    if (status != MOB_OK)
        return status;
    struct mob_actor_options options = options_of(given);
    if (given != NULL)
        status = mob_options_size_check(client, given->struct_size, sizeof options);
    if (status == MOB_OK)
        status = mob_actor_options_check(client, &options);
    if (status != MOB_OK)
        return status;
    if (options.name != NULL) {
        struct mob_client_key key = client->key;
        client->key.set = false;
        status = existing(client, &options, &key, actor_out);
        if (status != MOB_NOT_FOUND)
            return status;
        client->key = key;
    }
    return mob_actor_create_unasked(client, function, args, given, actor_out);
}

enum mob_status mob_actor_create_unasked(struct mob_client *client, const struct mob_function *function,
    struct mob_args args, const struct mob_actor_options *given, struct mob_actor **actor_out)
{
    struct mob_actor_options options = options_of(given);
    enum mob_status status = check_class(client, function);
    if (status != MOB_OK)
        return status;
    struct mob_submission s = {.function = function,
        .kind = MOB_KIND_ACTOR_CREATE,
        .num_returns = 1,
        .max_retries = options.max_restarts,
        .cpu = mob_cpu_units(options.cpus, 10000),
        .flags = options.detached ? MOB_SPEC_DETACHED : 0,
        .signature = &function->signature,
        .args = args,
        .actor_options = &options};
    struct mob_future *created;
    bool may_have_handle = client->key.set && client->key.again;
    status = mob_submission_publish(client, &s, &created);
    if (status != MOB_OK)
        return status;
    struct mob_actor_id id = {mob_future_object(created).task};
    struct mob_actor *actor = may_have_handle ? mob_actor_of_id(client, id) : actor_new(client, id);
    if (actor == NULL) {
        mob_release(created);
        return mob_client_fail(client, MOB_NO_MEMORY, "out of memory");
    }
    actor->cls = function;
    mob_release(actor->created);
    actor->created = created;
    *actor_out = actor;
    return MOB_OK;
}

enum mob_status mob_actor_created(struct mob_actor *actor, struct mob_future **future_out)
{
    MOB_GIVEN(NULL, actor);
    struct mob_client *client = actor->client;
    MOB_GIVEN(client, future_out);
    struct mob_object_id id = mob_object_of(actor->id.creation, 0);
    struct mob_general_future *known = mob_future_find_general(client, id);
    if (known != NULL) { /* of two with one id only one would hear */
        known->refs++;
        *future_out = &known->future;
        return MOB_OK;
    }
    bool own = actor->created != NULL;
    struct mob_future *future = mob_future_new_general(client, id, own);
    if (future == NULL)
        return mob_client_fail(client, MOB_NO_MEMORY, "out of memory");
    if (own && mob_future_settled(actor->created))
        mob_future_copy(future, actor->created);
    *future_out = future;
    return MOB_OK;
}

/* ---- calls ---- */

/* Class of an actor that was made elsewhere. It never changes, so asking is no input to be logged. */
static enum mob_status learn_class(struct mob_actor *actor)
{
    struct mob_client *client = actor->client;
    uint8_t *reply;
    uint32_t bytes;
    enum mob_status status =
        mob_request(client, MOB_REQ_ACTOR_STATE, &actor->id, sizeof actor->id, MOB_FOREVER, &reply, &bytes);
    if (status != MOB_OK)
        return status;
    char cls[512];
    bool found = mob_json_text_field((const char *)reply, "class", cls, sizeof cls);
    free(reply);
    if (!found)
        return mob_client_fail(client, MOB_CORRUPT, "the node's description of the actor names no class");
    return mob_function_resolve(client, cls, &actor->cls);
}

/* The first slot is for those that are no calls. With more actors than slots they take turns, and send whole
 * specs. */
static uint32_t head_slot_of(struct mob_actor *actor)
{
    struct mob_client *client = actor->client;
    if (actor->head_slot == 0 || client->heads[actor->head_slot].user != actor) {
        actor->head_slot = 1 + client->next_head_slot++ % (MOB_HEAD_SLOTS - 1);
        client->heads[actor->head_slot].user = actor;
        client->heads[actor->head_slot].plain = NULL; /* another actor's */
    }
    return actor->head_slot;
}

enum mob_status mob_actor_call(struct mob_actor *actor, const char *method, struct mob_args args,
    const struct mob_submit_options *options, struct mob_future **futures_out)
{
    MOB_GIVEN(NULL, actor);
    struct mob_client *client = actor->client;
    MOB_GIVEN(client, method);
    MOB_GIVEN(client, futures_out);
    enum mob_status status = actor->cls == NULL ? learn_class(actor) : MOB_OK;
    if (status != MOB_OK)
        return status;
    uint16_t index;
    const struct mob_method_info *info = mob_function_method(actor->cls, method, &index);
    if (info == NULL)
        return mob_client_fail(
            client, MOB_NOT_FOUND, "%s has no method \"%.120s\"", actor->cls->name, method);
    struct mob_submission s = {.function = actor->cls,
        .kind = MOB_KIND_ACTOR_CALL,
        .actor = actor->id,
        .method = index,
        .num_returns = info->signature.num_returns,
        .caller_seq = actor->caller_seq,
        .flags = info->read_only ? MOB_SPEC_READ_ONLY : 0,
        .signature = &info->signature,
        .args = args,
        .options = options,
        .plain = options == NULL,
        .head_slot = head_slot_of(actor)};
    status = mob_submission_returns(client, &s, method);
    if (status == MOB_OK)
        status = mob_submission_publish(client, &s, futures_out);
    if (status == MOB_OK)
        actor->caller_seq++;
    return status;
}

enum mob_status mob_actor_kill(struct mob_actor *actor, bool no_restart)
{
    MOB_GIVEN(NULL, actor);
    struct {
        struct mob_actor_id id;
        uint32_t no_restart;
    } body = {actor->id, no_restart ? 1 : 0};
    return mob_request(actor->client, MOB_REQ_ACTOR_KILL, &body, sizeof body, MOB_FOREVER, NULL, NULL);
}
