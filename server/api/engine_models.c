/* Endpoints: an actor behind each model, and the calls that go to it in batches.
 *
 * An endpoint is a row in the control store (class, arguments, options, generation) and a detached named
 * actor `endpoint/NAME/GENERATION`. A PUT makes the new actor first; when it is up the row is written, the
 * new one takes the old one's place, and the old actor ends when the calls that it has are through. So a PUT
 * that is refused changes nothing. After a restart of the gateway the rows are read again and each actor is
 * found by its name, or made again. Actors of a PUT that never came through end later (engine_orphans.c).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/wire/option_bounds.h"
#include "server/api/engine_models.h"

/* The generation is a time in microseconds: 16 digits until the year 2286. */
_Static_assert(sizeof ENDPOINT_ACTOR_PREFIX - 1 + MOB_MODEL_NAME_MAX - 1 + 1 + 16 <= MOB_ACTOR_NAME_BYTES_MAX,
    "every model's actor can have its name");

enum mob_status engine_models_create(struct engine *engine)
{
    engine->models = calloc(1, sizeof *engine->models);
    return engine->models ? MOB_OK : MOB_NO_MEMORY;
}

static void endpoint_free(struct endpoint *e)
{
    if (!e->engine->closing) {
        mob_release(e->created);
        mob_actor_release(e->actor);
    }
    mob_model_release(e->model);
    json_decref(e->arguments);
    free(e->name);
    free(e->class_name);
    free(e);
}

struct mob_engine_op *engine_op_of(struct mob_batch_entry *entry)
{
    return (struct mob_engine_op *)((char *)entry - offsetof(struct mob_engine_op, infer.entry));
}

void endpoint_let_go(struct endpoint *e)
{
    if (e->removed && e->running == 0 && !e->maker && !e->looking)
        endpoint_free(e);
}

void engine_models_destroy(struct engine *engine)
{
    if (!engine->models)
        return;
    while (engine->models->all) {
        struct endpoint *e = engine->models->all;
        engine->models->all = e->next;
        endpoint_free(e);
    }
    free(engine->models);
    engine->models = NULL;
}

struct endpoint *endpoint_named(struct engine *engine, const char *name)
{
    struct endpoint *e = engine->models->all;
    while (e && (e->candidate || e->retired || strcmp(e->name, name) != 0))
        e = e->next;
    return e;
}

void endpoint_actor_name(const struct endpoint *e, char out[ENDPOINT_ACTOR_NAME_BYTES])
{
    if (e->generation)
        snprintf(out, ENDPOINT_ACTOR_NAME_BYTES, ENDPOINT_ACTOR_PREFIX "%s/%llu", e->name,
            (unsigned long long)e->generation);
    else
        snprintf(out, ENDPOINT_ACTOR_NAME_BYTES, ENDPOINT_ACTOR_PREFIX "%s", e->name);
}

static json_t *endpoint_json(const struct endpoint *e)
{
    char actor[MOB_TEXT_ID_MAX] = "";
    if (e->actor)
        mob_actor_id(e->actor, actor);
    return json_pack("{s:s,s:s,s:O,s:i,s:i,s:i,s:s,s:s,s:s}", "name", e->name, "class", e->class_name,
        "arguments", e->arguments, "max_batch_size", (int)e->max_batch_size, "max_queue_delay_us",
        (int)e->max_queue_delay_us, "timeout_ms", (int)e->timeout_ms, "state",
        e->ready && !e->waits[0] ? "ready"
            : e->error[0]        ? "failed"
                                 : "starting",
        "actor", actor, "error", e->error[0] ? e->error : e->waits);
}

json_t *engine_models_json(struct engine *engine)
{
    json_t *rows = json_array();
    for (const struct endpoint *e = engine->models->all; e; e = e->next)
        if (!e->removed && !e->candidate && !e->retired)
            json_array_append_new(rows, endpoint_json(e));
    return rows;
}

/* --- making the actor --- */

static void look_complete(struct engine *engine);

/* The old actor ends; calls that wait are told so. Freed when nothing runs there any more. */
static void endpoint_remove(struct endpoint *e)
{
    struct engine *engine = e->engine;
    struct {
        struct mob_actor_id id;
        uint32_t no_restart;
    } body = {.no_restart = 1};
    endpoint_fail_waiting(e, MOB_UNAVAILABLE, 0, ENDPOINT_IS_GONE);
    e->removed = true;
    if (e->actor) {
        body.id = mob_actor_identity(e->actor);
        if (mob_ask(e->client, MOB_REQ_ACTOR_KILL, &body, sizeof body, engine_ignore_reply, NULL) != MOB_OK)
            MOB_LOG_WARN("models", "actor_left", "name=%s", e->name);
    }
    for (struct endpoint **at = &engine->models->all; *at; at = &(*at)->next)
        if (*at == e) {
            *at = e->next;
            break;
        }
    look_complete(engine);
    engine_orphans_look_later(engine); /* who was to end its actor may die before it does */
    endpoint_let_go(e);
}

/* One version of a name is drained at a time. */
static void end_retired(struct engine *engine, const char *name)
{
    for (struct endpoint *e = engine->models->all, *next; e; e = next) {
        next = e->next;
        if (!e->retired || strcmp(e->name, name) != 0)
            continue;
        endpoint_fail_calls(e, MOB_UNAVAILABLE, 0, ENDPOINT_IS_GONE);
        endpoint_remove(e);
    }
}

/* No call is answered behind the endpoint's time for one, so that is the bound. What waits for a replica that
 * is not there would only wait on. */
static void endpoint_retire(struct endpoint *e)
{
    end_retired(e->engine, e->name);
    bool works = e->ready && !e->waits[0];
    if (!works || (e->running == 0 && e->batcher.count == 0)) {
        endpoint_remove(e);
        return;
    }
    e->retired = true;
    e->drained_ns = mob_deadline_after(e->timeout_ms * MOB_MS);
    MOB_LOG_INFO("models", "drains", "name=%s generation=%llu", e->name, (unsigned long long)e->generation);
}

int64_t endpoint_drain(struct endpoint *e, int64_t now)
{
    if (now < e->drained_ns && (e->running > 0 || e->batcher.count > 0))
        return e->drained_ns;
    endpoint_fail_calls(e, MOB_UNAVAILABLE, 0, ENDPOINT_IS_GONE);
    endpoint_remove(e);
    return INT64_MAX;
}

void engine_ignore_reply(void *arg, enum mob_status status, const char *text, size_t size)
{
    (void)arg;
    (void)status;
    (void)text;
    (void)size;
}

/* A candidate goes without a trace, its PUT is refused; an endpoint that was there shows why it does not
 * work. */
void endpoint_broken(struct endpoint *e, enum mob_status status, const char *pointer, const char *why)
{
    if (e->candidate) {
        struct flight *put = e->put;
        char detail[400];
        snprintf(detail, sizeof detail, "%s", why);
        endpoint_remove(e);
        flight_fail(put, status, pointer, "%s", detail);
        return;
    }
    snprintf(e->error, sizeof e->error, "%s", why);
    e->ready = false;
    if (e->model)
        atomic_store(&e->model->ready, false);
    endpoint_fail_waiting(e, MOB_UNAVAILABLE, 0, "the model's actor could not be made");
    look_complete(e->engine);
}

static void save(struct endpoint *e);

void endpoint_made(struct endpoint *e)
{
    if (e->candidate) {
        save(e);
        return;
    }
    e->error[0] = e->waits[0] = 0;
    e->ready = true;
    atomic_store(&e->model->ready, true);
    MOB_LOG_INFO("models", "ready", "name=%s class=%s", e->name, e->class_name);
}

/* From now on requests find the model. */
static enum mob_status publish_model(struct endpoint *e)
{
    mob_model_hold(e->model);
    return mob_serve_put(e->engine->options.serve, e->model);
}

/* The signature of the class' method, NULL: the maker has failed and says why. */
static const char *infer_signature(struct endpoint *e, struct flight *maker)
{
    struct mob_callable infer;
    enum mob_status status = mob_function_find(e->client, e->class_name, &e->class);
    if (status != MOB_OK) {
        flight_fail_client(maker, MOB_INVALID, "/class");
        return NULL;
    }
    bool is_class = mob_function_is_class(e->class);
    if (is_class && mob_method_callable(e->class, "infer", &infer))
        return infer.text;
    flight_fail(maker, MOB_INVALID, "/class", "%s",
        is_class ? "the class has no method `infer`" : "this is a function, not a class");
    return NULL;
}

bool endpoint_take_class(struct endpoint *e, struct flight *maker)
{
    char why[256] = "";
    const char *signature = infer_signature(e, maker);
    if (!signature)
        return false;
    if (mob_model_create(e->name, e->class_name, signature, e->max_batch_size, e->max_queue_delay_us,
            &e->model, why) != MOB_OK) {
        flight_fail(maker, MOB_INVALID, "/class", "%s", why);
        return false;
    }
    e->model->timeout_ms = e->timeout_ms;
    e->model->engine_data = e; /* not freed by the model: the endpoint outlives its use here */
    if (!e->candidate && publish_model(e) != MOB_OK) {
        flight_fail(maker, MOB_QUEUE_FULL, NULL, "too many models");
        return false;
    }
    look_complete(e->engine);
    return true;
}

/* --- PUT and DELETE --- */

static struct endpoint *endpoint_add(struct engine *engine, const char *name, const char *class_name,
    json_t *arguments, uint32_t max_batch_size, uint32_t max_queue_delay_us, uint32_t timeout_ms)
{
    struct endpoint *e = calloc(1, sizeof *e);
    MOB_ASSERT(e != NULL);
    e->engine = engine;
    e->client = engine->sessions[0].client;
    e->name = strdup(name);
    e->class_name = strdup(class_name);
    e->arguments = arguments ? json_incref(arguments) : json_array();
    e->max_batch_size = max_batch_size;
    e->max_queue_delay_us = max_queue_delay_us;
    e->timeout_ms = timeout_ms;
    mob_batch_init(&e->batcher, max_batch_size, max_queue_delay_us);
    e->next = engine->models->all;
    engine->models->all = e;
    return e;
}

/* The row is written: the candidate takes the place of what had its name. */
static void take_place(struct endpoint *e)
{
    struct flight *put = e->put;
    struct endpoint *old = endpoint_named(e->engine, e->name);
    put->op->endpoint.created = old == NULL;
    if (publish_model(e) != MOB_OK) {
        endpoint_broken(e, MOB_QUEUE_FULL, NULL, "too many models");
        return;
    }
    if (old)
        endpoint_retire(old);
    e->candidate = false;
    e->put = NULL;
    e->ready = true;
    atomic_store(&e->model->ready, true);
    MOB_LOG_INFO("models", "ready", "name=%s class=%s", e->name, e->class_name);
    flight_done_json(put, endpoint_json(e));
}

/* What of the two it may not be. */
static bool is_other_than_wanted(const struct flight *put)
{
    bool there = endpoint_named(put->engine, put->op->endpoint.name) != NULL;
    return there ? put->op->endpoint.only_new : put->op->endpoint.only_existing;
}

static void refuse_by_condition(struct flight *put)
{
    put->op->endpoint.other_than_wanted = true;
    flight_done(put);
}

static void on_saved(void *arg, const struct mob_gcs_answer *answer)
{
    struct endpoint *e = arg;
    struct flight *put = e->put;
    if (answer->status == MOB_OK) {
        take_place(e);
    } else if (answer->status == MOB_CONFLICT && put->op->endpoint.only_new) {
        endpoint_remove(e);
        refuse_by_condition(put);
    } else {
        endpoint_broken(e, answer->status, NULL, "the endpoint could not be saved");
    }
}

static void save(struct endpoint *e)
{
    struct flight *put = e->put;
    if (is_other_than_wanted(put)) { /* by now */
        endpoint_remove(e);
        refuse_by_condition(put);
        return;
    }
    json_t *row = json_pack("{s:s,s:s,s:O,s:i,s:i,s:i,s:I}", "name", e->name, "class", e->class_name,
        "arguments", e->arguments, "max_batch_size", (int)e->max_batch_size, "max_queue_delay_us",
        (int)e->max_queue_delay_us, "timeout_ms", (int)e->timeout_ms, "generation",
        (json_int_t)e->generation);
    char *text = json_dumps(row, JSON_COMPACT);
    json_decref(row);
    MOB_ASSERT(text != NULL);
    struct mob_gcs_put kv = {.table = MOB_GCS_ENDPOINTS,
        .key = e->name,
        .key_length = (uint32_t)strlen(e->name),
        .value = text,
        .value_length = (uint32_t)strlen(text),
        .if_version = put->op->endpoint.only_new ? 0 : MOB_GCS_ANY_VERSION};
    enum mob_status status = mob_gcs_put(e->engine->gcs, &kv, on_saved, e);
    free(text);
    if (status != MOB_OK)
        endpoint_broken(e, status, NULL, "the endpoint could not be saved");
}

/* A time in microseconds. Two PUTs of one name in the same one must not have one actor: the end of either
 * would be the other's. */
static uint64_t next_generation(struct engine_models *models)
{
    uint64_t now_us = (uint64_t)mob_wall_now() / 1000, least = models->newest_generation + 1;
    models->newest_generation = now_us > least ? now_us : least;
    return models->newest_generation;
}

void engine_start_endpoint_put(struct flight *flight)
{
    struct mob_engine_endpoint *put = &flight->op->endpoint;
    size_t count = 0;
    if (engine_models_unknown(flight))
        return;
    if (is_other_than_wanted(flight)) {
        refuse_by_condition(flight);
        return;
    }
    for (const struct endpoint *e = flight->engine->models->all; e; e = e->next)
        count++;
    if (count >= MOB_MODELS_MAX && !endpoint_named(flight->engine, put->name)) {
        flight_fail(flight, MOB_QUEUE_FULL, NULL, "%d models are served already", MOB_MODELS_MAX);
        return;
    }
    struct endpoint *e = endpoint_add(flight->engine, put->name, put->actor_class, put->arguments,
        put->max_batch_size, put->max_queue_delay_us, put->timeout_ms);
    e->generation = next_generation(flight->engine->models);
    e->candidate = true;
    e->put = flight;
    endpoint_make_actor(e);
}

static void on_forgotten(void *arg, const struct mob_gcs_answer *answer)
{
    struct flight *flight = arg;
    if (answer->status == MOB_OK)
        flight_done(flight);
    else
        flight_fail(flight, answer->status, NULL, "no such endpoint");
}

void engine_start_endpoint_delete(struct flight *flight)
{
    if (engine_models_unknown(flight))
        return;
    const char *name = flight->op->query.id;
    struct endpoint *e = endpoint_named(flight->engine, name);
    struct mob_gcs_put kv = {.table = MOB_GCS_ENDPOINTS,
        .key = name,
        .key_length = (uint32_t)strlen(name),
        .if_version = MOB_GCS_ANY_VERSION};
    enum mob_status status = mob_gcs_delete(flight->engine->gcs, &kv, on_forgotten, flight);
    if (status != MOB_OK) {
        flight_fail(flight, status, NULL, "the control store does not answer");
        return;
    }
    end_retired(flight->engine, name);
    if (e) {
        mob_serve_remove(flight->engine->options.serve, name);
        endpoint_remove(e);
    }
}

/* --- endpoints that were there before this gateway --- */

static void load_endpoint(struct engine *engine, const json_t *row)
{
    const char *name = json_string_value(json_object_get(row, "name"));
    const char *class_name = json_string_value(json_object_get(row, "class"));
    json_int_t timeout_ms = json_integer_value(json_object_get(row, "timeout_ms"));
    if (!name || !class_name || endpoint_named(engine, name))
        return;
    struct endpoint *e = endpoint_add(engine, name, class_name, json_object_get(row, "arguments"),
        (uint32_t)json_integer_value(json_object_get(row, "max_batch_size")),
        (uint32_t)json_integer_value(json_object_get(row, "max_queue_delay_us")),
        timeout_ms > 0 ? (uint32_t)timeout_ms : MOB_MODEL_TIMEOUT_MS_DEFAULT); /* an earlier version's */
    e->generation = (uint64_t)json_integer_value(json_object_get(row, "generation"));
    endpoint_make_actor(e);
}

/* Until then nobody can be told that there is no model of some name. */
static void look_complete(struct engine *engine)
{
    struct engine_models *models = engine->models;
    if (models->complete || !models->loaded)
        return;
    for (const struct endpoint *e = models->all; e; e = e->next)
        if (!e->candidate && !e->model && !e->error[0])
            return;
    models->complete = true;
    mob_serve_set_complete(engine->options.serve);
}

bool engine_models_loaded(const struct engine *engine)
{
    return engine->models->loaded;
}

bool engine_models_unknown(struct flight *flight)
{
    if (flight->engine->models->loaded)
        return false;
    flight_fail(flight, MOB_UNAVAILABLE, NULL, "the endpoints have not been read from the control store yet");
    return true;
}

static void on_loaded(void *arg, const struct mob_gcs_answer *answer)
{
    struct engine *engine = arg;
    engine->models->asked = false;
    if (answer->status != MOB_OK || engine->session_count == 0)
        return;
    engine->models->loaded = true;
    for (uint32_t i = 0; i < answer->kv_count; i++) {
        json_t *row = json_loadb((const char *)answer->kvs[i].value, answer->kvs[i].value_length, 0, NULL);
        load_endpoint(engine, row);
        json_decref(row);
    }
    look_complete(engine);
    engine_orphans_look_in(engine, 0);
    engine_orphans_tick(engine, mob_now());
}

void engine_models_load(struct engine *engine)
{
    struct mob_gcs_list list = {.table = MOB_GCS_ENDPOINTS};
    if (engine->models->loaded || engine->models->asked)
        return;
    engine->models->asked = true;
    if (mob_gcs_list(engine->gcs, &list, on_loaded, engine) != MOB_OK) {
        engine->models->asked = false;
        MOB_LOG_WARN("models", "not_loaded", "reason=busy");
    }
}
