/* Actors of endpoints that there are no more: of a PUT that ended with its gateway before its row was
 * written, or of an endpoint that was deleted or replaced by a gateway that could not end the actor any more.
 *
 * Looked for when the endpoints have been read, and a while after each removal. One that this gateway does
 * not know may be another gateway's: the control store's row decides, and who is young may be of a PUT that
 * goes on, whose row comes last. Those are looked at again when they are not young any more.
 */
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "server/api/engine_models.h"

/* Longer than any PUT takes. */
#define ORPHAN_US (60ll * 1000000)

/* Nobody here knows whose it is; its endpoint's row is being read. */
struct suspect {
    struct engine *engine;
    struct mob_actor_id id;
    uint64_t generation;
};

void engine_orphans_look_in(struct engine *engine, int64_t delay_ns)
{
    int64_t at = mob_now() + delay_ns;
    if (engine->models->orphans_ns == 0 || at < engine->models->orphans_ns)
        engine->models->orphans_ns = at;
}

void engine_orphans_look_later(struct engine *engine)
{
    engine_orphans_look_in(engine, ORPHAN_US * 1000);
}

static bool is_known(const struct engine *engine, const char *name)
{
    for (const struct endpoint *e = engine->models->all; e; e = e->next) {
        char own[ENDPOINT_ACTOR_NAME_BYTES];
        endpoint_actor_name(e, own);
        if (strcmp(own, name) == 0)
            return true;
    }
    return false;
}

static void on_killed(void *arg, enum mob_status status, const char *text, size_t size)
{
    struct engine *engine = arg;
    (void)text;
    (void)size;
    if (status != MOB_OK && !engine->closing)
        engine_orphans_look_later(engine);
}

static void end_orphan(struct engine *engine, struct mob_actor_id id)
{
    struct {
        struct mob_actor_id id;
        uint32_t no_restart;
    } body = {.id = id, .no_restart = 1};
    char text[MOB_ID_TEXT_MAX];
    if (engine->session_count == 0 ||
        mob_ask(engine->sessions[0].client, MOB_REQ_ACTOR_KILL, &body, sizeof body, on_killed, engine) !=
            MOB_OK) {
        engine_orphans_look_later(engine);
        return;
    }
    MOB_LOG_INFO("models", "orphan_ended", "actor=%s", mob_actor_id_format(id, text));
}

static bool row_is_of(const struct mob_gcs_answer *answer, uint64_t generation)
{
    if (answer->kv_count == 0)
        return false;
    json_t *row = json_loadb((const char *)answer->kvs[0].value, answer->kvs[0].value_length, 0, NULL);
    bool is = row && (uint64_t)json_integer_value(json_object_get(row, "generation")) == generation;
    json_decref(row);
    return is;
}

static void on_row(void *arg, const struct mob_gcs_answer *answer)
{
    struct suspect *suspect = arg;
    struct engine *engine = suspect->engine;
    if (engine->closing)
        ; /* the next gateway looks */
    else if (answer->status != MOB_OK && answer->status != MOB_NOT_FOUND)
        engine_orphans_look_later(engine);
    else if (answer->status == MOB_NOT_FOUND || !row_is_of(answer, suspect->generation))
        end_orphan(engine, suspect->id);
    free(suspect);
}

static void ask_for_row(struct engine *engine, const struct suspect *found, const char *name, size_t bytes)
{
    struct suspect *suspect = malloc(sizeof *suspect);
    MOB_ASSERT(suspect != NULL);
    *suspect = *found;
    if (mob_gcs_get(engine->gcs, MOB_GCS_ENDPOINTS, name, (uint32_t)bytes, on_row, suspect) == MOB_OK)
        return;
    free(suspect);
    engine_orphans_look_later(engine);
}

/* `actor` is a row of the node's list. */
static void look_at(struct engine *engine, const json_t *actor)
{
    struct suspect found = {.engine = engine};
    const char *id = json_string_value(json_object_get(actor, "id"));
    const char *name = json_string_value(json_object_get(actor, "name"));
    const char *state = json_string_value(json_object_get(actor, "state"));
    if (!id || !name || !state || strcmp(state, "dead") == 0 ||
        strncmp(name, ENDPOINT_ACTOR_PREFIX, strlen(ENDPOINT_ACTOR_PREFIX)) != 0 || is_known(engine, name) ||
        mob_actor_id_parse(id, &found.id) != MOB_OK)
        return;
    const char *endpoint = name + strlen(ENDPOINT_ACTOR_PREFIX), *slash = strrchr(endpoint, '/');
    found.generation = slash ? strtoull(slash + 1, NULL, 10) : 0;
    int64_t age = mob_wall_now() / 1000 - (int64_t)found.generation;
    if (age <= ORPHAN_US)
        engine_orphans_look_in(engine, (age < 0 ? ORPHAN_US : ORPHAN_US - age) * 1000 + MOB_SEC);
    else
        ask_for_row(engine, &found, endpoint, slash ? (size_t)(slash - endpoint) : strlen(endpoint));
}

static void on_actors(void *arg, enum mob_status status, const char *text, size_t size)
{
    struct engine *engine = arg;
    if (engine->closing)
        return;
    json_t *rows = status == MOB_OK ? json_loadb(text, size, 0, NULL) : NULL;
    if (!rows)
        engine_orphans_look_later(engine);
    for (size_t i = 0; i < json_array_size(rows); i++)
        look_at(engine, json_array_get(rows, i));
    json_decref(rows);
}

void engine_orphans_tick(struct engine *engine, int64_t now)
{
    struct engine_models *models = engine->models;
    if (!models->loaded || engine->session_count == 0 || models->orphans_ns == 0 || models->orphans_ns > now)
        return;
    models->orphans_ns = 0;
    enum mob_status status =
        mob_query_async(engine->sessions[0].client, "job", "{\"op\":\"actors\"}", on_actors, engine);
    if (status != MOB_OK) {
        MOB_LOG_WARN("models", "orphans_left", "code=%s", mob_status_code(status));
        engine_orphans_look_later(engine);
    }
}
