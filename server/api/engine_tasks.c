/* Submissions: tasks, actors and their calls. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/failpoint.h"
#include "common/base/log.h"
#include "server/api/engine_submit.h"

bool engine_use_session(
    struct flight *flight, const struct mob_engine_options *options, void (*again)(struct flight *flight))
{
    struct session *session = engine_session(flight->engine, options->has_job, options->job);
    if (session)
        flight->client = session->client;
    else
        engine_job_join(flight, options->job, again);
    return session != NULL;
}

/* --- one submission --- */

bool engine_return_read(struct flight *flight, char **json_out, struct mob_engine_value *out)
{
    struct mob_value *value = NULL;
    struct mob_future_look look = mob_future_look(flight->future);
    *json_out = NULL;
    if (look.state == MOB_FUTURE_FAILED) {
        flight->op->submit.value.state = MOB_OBJ_FAILED;
        engine_future_error(flight->op, flight->future);
        return false;
    }
    if (out)
        out->type = mob_value_type_name(look.type);
    /* Without a fetch: what is not in memory any more is read as an object. */
    enum mob_status status = look.at_hand ? mob_value_of_future(flight->future, &value)
                                          : mob_value_of_object(flight->client, &look.bytes, &value);
    if (status != MOB_OK)
        return true;
    *json_out = engine_value_json(value);
    if (out) { /* of a tail call the future's own type is another future */
        struct mob_value_look held = mob_value_look(value);
        out->type = mob_value_type_name(held.type);
        out->size = held.bytes;
    }
    mob_value_release(value);
    return true;
}

/* A function's own error, or the node's refusal? An acknowledgement tells. */
static bool asks_for_end(struct flight *flight, struct mob_future_look look)
{
    if (look.state != MOB_FUTURE_FAILED || look.status != MOB_FINISHED || flight->end_asked)
        return false;
    flight->end_asked = flight->ack_wanted = true;
    flight_clear_deadline(flight);
    flight_want_ack(flight);
    return true;
}

static void take_result(struct flight *flight)
{
    struct mob_engine_submit *submit = &flight->op->submit;
    struct mob_future_look look = mob_future_look(flight->future);
    if (asks_for_end(flight, look))
        return;
    submit->accepted = true; /* a driver sees committed results only, so the spec is committed too */
    if (look.state == MOB_FUTURE_FAILED && look.status == MOB_EXISTS && engine_name_is_claimed(flight)) {
        engine_name_lost(flight);
        return;
    }
    bool there = engine_return_read(flight, &submit->value.json, &submit->value);
    if (there)
        submit->value.state = MOB_OBJ_READY;
    if (there && flight->more)
        engine_returns_follow(flight);
    else
        flight_done(flight);
}

static void on_result(struct mob_future *future, void *arg)
{
    (void)future;
    struct flight *flight = arg;
    flight->engine->worked++;
    if (!flight->ack_wanted)
        take_result(flight);
}

/* The client does not wait any longer; what it gets is an acknowledgement. */
static void on_wait_over(struct flight *flight)
{
    flight->ack_wanted = true;
    flight_want_ack(flight);
}

/* The node refuses a root at the memory cap, which the gateway may have heard of later: it is in no log. */
bool engine_was_refused(const struct mob_future *future)
{
    if (!future)
        return false;
    struct mob_future_look look = mob_future_look(future);
    return look.state == MOB_FUTURE_FAILED && look.status == MOB_GCS_FULL;
}

void engine_fail_refused(struct flight *flight)
{
    flight->op->error.retry_after_s = 1;
    flight_fail(flight, MOB_GCS_FULL, NULL, ENGINE_REFUSED_WORDS);
}

void engine_acked(struct flight *flight)
{
    if (flight->keyed)
        (void)MOB_FAILPOINT("gateway.keyed_acked");
    switch ((int)flight->op->verb) {
    case MOB_ENGINE_SUBMIT:
        if (flight->end_asked) {
            take_result(flight);
            return;
        }
        if (engine_was_refused(flight->future)) {
            engine_fail_refused(flight);
            return;
        }
        flight->op->submit.accepted = true;
        flight->op->submit.value.state = MOB_OBJ_PENDING;
        if (engine_name_is_claimed(flight)) {
            engine_name_check(flight);
            return;
        }
        break;
    case MOB_ENGINE_BATCH:
        engine_batch_acked(flight);
        return;
    case MOB_ENGINE_OBJECT_PUT:
        flight->op->put.id = mob_future_object(flight->future);
        break;
    default:
        break;
    }
    flight_done(flight);
}

static void on_stream_values(struct flight *flight, char *json)
{
    flight->op->submit.value.state = MOB_OBJ_READY;
    flight->op->submit.value.type = "stream";
    flight->op->submit.value.json = json;
    flight_done(flight);
}

static void on_stream_error(struct mob_future *future, void *arg)
{
    struct flight *flight = arg;
    flight->op->submit.value.state = MOB_OBJ_FAILED;
    if (mob_future_look(future).state == MOB_FUTURE_FAILED)
        engine_future_error(flight->op, future);
    else
        mob_engine_op_fail(flight->op, MOB_TASK_FAILED, NULL, "%s", mob_status_text(MOB_TASK_FAILED));
    flight_done(flight);
}

/* The generator has ended. Its error stands where the next item would. */
static void on_stream_end(struct mob_future *future, void *arg)
{
    struct flight *flight = arg;
    struct mob_engine_submit *submit = &flight->op->submit;
    uint32_t count;
    enum mob_status status = mob_stream_outcome(future, &count);
    char id[MOB_ID_TEXT_MAX];
    flight->engine->worked++;
    if (flight->ack_wanted)
        return;
    flight->ack_wanted = true; /* what comes is the answer */
    flight_clear_deadline(flight);
    submit->accepted = true;
    submit->stream_ended = true;
    submit->return_count = count;
    mob_object_id_format(mob_object_of(submit->task, count), id);
    mob_release(future);
    flight->future = NULL;
    if (status == MOB_OK) {
        engine_stream_values(flight, submit->return_count, on_stream_values);
        return;
    }
    status = mob_future_from_id(flight->client, id, &flight->future);
    if (status == MOB_OK)
        status = flight_listen(flight, on_stream_error);
    if (status != MOB_OK)
        flight_fail_client(flight, status, NULL);
}

/* With futures in hand: wait for the result, or for the acknowledgement. Releases what is not needed. */
static void follow(struct flight *flight, struct mob_future **futures, uint32_t count)
{
    struct mob_engine_submit *submit = &flight->op->submit;
    bool several = count > 1 && count != MOB_RETURNS_STREAM;
    flight->future = futures[0];
    if (several && submit->wait_deadline_ns != 0)
        engine_returns_keep(flight, futures + 1, count - 1);
    for (uint32_t i = 1; i < count && several && !flight->more; i++)
        mob_release(futures[i]);
    submit->task = mob_future_object(flight->future).task;
    submit->is_stream = count == MOB_RETURNS_STREAM;
    submit->return_count = submit->is_stream ? 0 : count;
    /* A generator under a key has no stream here: its items are read from the lineage. */
    if (submit->wait_deadline_ns == 0 || (submit->is_stream && flight->keyed)) {
        flight->ack_wanted = true;
        flight_want_ack(flight);
        return;
    }
    enum mob_status status = flight_listen(flight, submit->is_stream ? on_stream_end : on_result);
    if (status != MOB_OK)
        flight_fail_client(flight, status, NULL);
    else
        flight_set_deadline(flight, submit->wait_deadline_ns, on_wait_over);
}

uint32_t engine_returns_of(struct mob_callable callable, const struct mob_submit_options *options)
{
    return options->num_returns ? options->num_returns : callable.num_returns ? callable.num_returns : 1;
}

/* Large arguments find no room in the store: from the start, since what is known of functions has grown old
 * when there is some. */
static void fail_submission(struct flight *flight, enum mob_status status, const char *pointer)
{
    if (status == MOB_STORE_FULL)
        flight_want_room(flight, engine_start_submit, NULL);
    else
        flight_fail_submission(flight, status, pointer);
}

/* Which field is refused: the other options were checked before. */
static const char *refused(
    enum mob_status status, const struct mob_submit_options *options, const char *otherwise)
{
    return status == MOB_INVALID && options->num_returns ? "/options/num_returns" : otherwise;
}

/* The function that a submission names in its field `pointer`, and what it gives it. False: the flight has
 * ended. */
static bool function_with_arguments(struct flight *flight, const char *pointer,
    struct argument_memory *memory, const struct mob_function **function_out, struct mob_args *arguments_out)
{
    struct mob_engine_submit *submit = &flight->op->submit;
    enum mob_status status = mob_function_find(flight->client, submit->function, function_out);
    if (status != MOB_OK) {
        flight_fail_client(flight, status, pointer);
        return false;
    }
    if (engine_arguments(flight->client, mob_function_callable(*function_out).signature, submit->arguments,
            "/arguments", memory, arguments_out, &flight->op->error) != MOB_OK) {
        flight_done(flight);
        return false;
    }
    return true;
}

static void submit_task(struct flight *flight, struct argument_memory *memory, struct native_options *options)
{
    const struct mob_function *function;
    struct mob_args arguments;
    if (!function_with_arguments(flight, "/function", memory, &function, &arguments))
        return;
    uint32_t count = engine_returns_of(mob_function_callable(function), &options->task);
    struct mob_future *few[16],
        **futures =
            count <= 16 || count == MOB_RETURNS_STREAM ? few : calloc(count, sizeof(struct mob_future *));
    MOB_ASSERT(futures != NULL);
    engine_key_use(flight, 0);
    enum mob_status status = mob_submit_function(
        flight->client, function, arguments, options->plain ? NULL : &options->task, futures);
    engine_key_unused(flight);
    if (status == MOB_OK)
        follow(flight, futures, count);
    else
        fail_submission(flight, status, refused(status, &options->task, "/function"));
    if (futures != few)
        free(futures);
}

void engine_follow_creation(struct flight *flight)
{
    struct mob_future *created = NULL;
    enum mob_status status = mob_actor_created(flight->actor, &created);
    if (status != MOB_OK)
        flight_fail_client(flight, status, NULL);
    else
        follow(flight, &created, 1);
}

static void create_actor(
    struct flight *flight, struct argument_memory *memory, struct native_options *options)
{
    const struct mob_function *function;
    struct mob_args arguments;
    if (!function_with_arguments(flight, "/class", memory, &function, &arguments))
        return;
    engine_key_use(flight, 0);
    enum mob_status status =
        mob_actor_create_unasked(flight->client, function, arguments, &options->actor, &flight->actor);
    engine_key_unused(flight);
    if (status != MOB_OK) {
        fail_submission(flight, status, "/class");
        return;
    }
    if (options->actor.name) {
        flight->engine->names_given++;
        flight->claims_name = true;
    }
    engine_follow_creation(flight);
}

/* The class of an actor never changes, so it is asked for once. */
static struct known_actor *known_class(const struct flight *flight)
{
    struct mob_actor_id id = flight->op->submit.actor;
    struct known_actor *known = &flight->engine->actors[mob_task_id_mix(id.creation) % ENGINE_KNOWN_ACTORS];
    return known->class_name[0] && mob_actor_id_eq(known->id, id) ? known : NULL;
}

/* The node does not know the actor. */
static void on_actor_to_call(struct flight *flight, const struct engine_found *found)
{
    if (engine_is_actor(found))
        flight_fail(flight, MOB_ACTOR_DIED, NULL, "%s: it has ended", mob_status_text(MOB_ACTOR_DIED));
    else
        engine_fail_no_actor(flight, found);
}

static void call_actor(struct flight *flight, struct argument_memory *memory, struct native_options *options)
{
    struct mob_engine_submit *submit = &flight->op->submit;
    const struct known_actor *known = known_class(flight); /* learned before this runs */
    const struct mob_function *class = NULL;
    flight->actor = mob_actor_of_id(flight->client, submit->actor);
    enum mob_status status = !flight->actor ? MOB_NO_MEMORY
        : known                             ? mob_function_find(flight->client, known->class_name, &class)
                                            : MOB_NOT_FOUND;
    struct mob_callable method;
    bool has_method = class && mob_method_callable(class, submit->function, &method);
    if (class)
        mob_actor_set_class(flight->actor, class);
    if (status != MOB_OK || !has_method) {
        if (status != MOB_OK)
            flight_fail_client(flight, status, NULL);
        else
            flight_fail(flight, MOB_NOT_FOUND, NULL, "%s has no method \"%.100s\"", mob_function_name(class),
                submit->function);
        return;
    }
    struct mob_args arguments;
    if (engine_arguments(flight->client, method.signature, submit->arguments, "/arguments", memory,
            &arguments, &flight->op->error) != MOB_OK) {
        flight_done(flight);
        return;
    }
    uint32_t count = engine_returns_of(method, &options->task);
    struct mob_future *few[16],
        **futures =
            count <= 16 || count == MOB_RETURNS_STREAM ? few : calloc(count, sizeof(struct mob_future *));
    MOB_ASSERT(futures != NULL);
    engine_key_use(flight, 0);
    status = mob_actor_call(
        flight->actor, submit->function, arguments, options->plain ? NULL : &options->task, futures);
    engine_key_unused(flight);
    if (status == MOB_OK)
        follow(flight, futures, count);
    else
        fail_submission(flight, status, refused(status, &options->task, "/arguments"));
    if (futures != few)
        free(futures);
}

void engine_submit_known(struct flight *flight)
{
    struct mob_engine_submit *submit = &flight->op->submit;
    struct native_options options;
    struct argument_memory *memory = argument_memory_create();
    MOB_ASSERT(memory != NULL);
    engine_native_options(&submit->options, &options);
    switch (submit->call) {
    case MOB_CALL_TASK:
        submit_task(flight, memory, &options);
        break;
    case MOB_CALL_ACTOR_CREATE:
        create_actor(flight, memory, &options);
        break;
    case MOB_CALL_ACTOR_METHOD:
        call_actor(flight, memory, &options);
        break;
    }
    argument_memory_destroy(memory);
}

static void on_actor_class(void *arg, enum mob_status status, const char *text, size_t size)
{
    struct flight *flight = arg;
    struct mob_engine_submit *submit = &flight->op->submit;
    if (status == MOB_NOT_FOUND) { /* it may have ended before the node began */
        engine_find(flight, submit->actor.creation, ENGINE_FIND_RECORD, on_actor_to_call);
        return;
    }
    if (status != MOB_OK) {
        flight_fail_reply(flight, status, text, size);
        return;
    }
    struct known_actor *known =
        &flight->engine->actors[mob_task_id_mix(submit->actor.creation) % ENGINE_KNOWN_ACTORS];
    known->id = submit->actor;
    if (!mob_json_text_field(text, "class", known->class_name, sizeof known->class_name)) {
        known->class_name[0] = 0;
        flight_fail(flight, MOB_INTERNAL, NULL, "the node names no class of this actor");
        return;
    }
    engine_function_learn(flight, known->class_name, engine_submit_known);
}

/* What the node has to be asked first is asked without waiting: the thread serves everybody. */
void engine_start_submit(struct flight *flight)
{
    struct mob_engine_submit *submit = &flight->op->submit;
    char id[MOB_ID_TEXT_MAX];
    if (!engine_use_session(flight, &submit->options, engine_start_submit))
        return;
    const struct known_actor *known = submit->call == MOB_CALL_ACTOR_METHOD ? known_class(flight) : NULL;
    if (submit->call == MOB_CALL_ACTOR_METHOD && !known)
        flight_ask(flight, "actor", mob_actor_id_format(submit->actor, id), on_actor_class);
    else if (submit->call == MOB_CALL_ACTOR_CREATE && submit->options.actor_name)
        engine_function_learn(flight, submit->function, engine_name_ask);
    else
        engine_function_learn(flight, known ? known->class_name : submit->function, engine_submit_known);
}
