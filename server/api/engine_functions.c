/* The functions that the cluster knows, and new ones.
 *
 * The log names functions by id; names, signatures and kinds are in the node's table. They are copied here
 * and read again when an id turns up that is not known: a driver may have deployed it. An id that the node
 * does not know either (its module was deleted) is not asked for again at once.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "server/api/engine_inner.h"

#define BUCKETS 1024u
#define UNKNOWN_SLOTS 256u
#define UNKNOWN_NS (10 * MOB_SEC)

struct waiter {
    struct waiter *next;
    void (*then)(void *arg);
    void *arg;
};

struct function_cache {
    struct function_name *buckets[BUCKETS];
    struct {
        struct mob_function_id id;
        int64_t until_ns;
    } unknown[UNKNOWN_SLOTS]; /* direct-mapped */
    bool loading;
    struct waiter *waiting; /* for the reading that is on its way */
    struct waiter *late; /* for the one after it: they came when it had begun */
};

static uint32_t mix(struct mob_function_id id)
{
    uint32_t h;
    memcpy(&h, id.b, sizeof h); /* a hash already */
    return h;
}

static struct function_cache *cache_of(struct engine *engine)
{
    if (!engine->functions)
        engine->functions = calloc(1, sizeof *engine->functions);
    MOB_ASSERT(engine->functions != NULL);
    return engine->functions;
}

const struct function_name *engine_function_of(struct engine *engine, struct mob_function_id id)
{
    const struct function_name *f = cache_of(engine)->buckets[mix(id) % BUCKETS];
    while (f && memcmp(&f->id, &id, sizeof id) != 0)
        f = f->next;
    return f;
}

size_t engine_functions_named(
    struct engine *engine, const char *name, struct mob_function_id *out, size_t max)
{
    size_t count = 0;
    for (size_t b = 0; b < BUCKETS; b++) {
        for (const struct function_name *f = cache_of(engine)->buckets[b]; f; f = f->next) {
            size_t length = strlen(f->name);
            bool is = strncasecmp(f->name, name, length) == 0 &&
                (name[length] == '\0' || (f->is_class && name[length] == '.'));
            if (is && count++ < max)
                out[count - 1] = f->id;
        }
    }
    return count;
}

bool engine_function_is_missing(struct engine *engine, struct mob_function_id id)
{
    if (engine_function_of(engine, id))
        return false;
    struct function_cache *cache = cache_of(engine);
    size_t slot = mix(id) % UNKNOWN_SLOTS;
    bool known_as_unknown = memcmp(&cache->unknown[slot].id, &id, sizeof id) == 0;
    if (known_as_unknown && mob_now() < cache->unknown[slot].until_ns)
        return false;
    /* The next reading finds it, or it counts as unknown for a while. */
    cache->unknown[slot].id = id;
    cache->unknown[slot].until_ns = mob_now() + UNKNOWN_NS;
    return true;
}

/* --- reading them --- */

static char *copy(const json_t *object, const char *field)
{
    const char *text = json_string_value(json_object_get(object, field));
    return strdup(text ? text : "");
}

static void learn(struct engine *engine, const json_t *row)
{
    struct mob_function_id id;
    const char *text = json_string_value(json_object_get(row, "id"));
    if (!text || mob_function_id_parse(text, &id) != MOB_OK || engine_function_of(engine, id))
        return;
    struct function_name *f = calloc(1, sizeof *f);
    MOB_ASSERT(f != NULL);
    f->id = id;
    f->name = copy(row, "name");
    f->signature = copy(row, "signature");
    f->module_hash = copy(row, "module_hash");
    f->is_class = strcmp(json_string_value(json_object_get(row, "kind")) ?: "", "class") == 0;
    struct function_name **bucket = &cache_of(engine)->buckets[mix(id) % BUCKETS];
    f->next = *bucket;
    *bucket = f;
}

static void call_waiters(struct waiter *waiting)
{
    for (struct waiter *w = waiting, *next; w; w = next) {
        next = w->next;
        w->then(w->arg);
        free(w);
    }
}

static void read_all(struct engine *engine);

static void on_functions(void *arg, enum mob_status status, const char *text, size_t size)
{
    struct engine *engine = arg;
    struct function_cache *cache = cache_of(engine);
    cache->loading = false;
    json_t *rows = status == MOB_OK ? json_loadb(text, size, 0, NULL) : NULL;
    for (size_t i = 0; i < json_array_size(rows); i++)
        learn(engine, json_array_get(rows, i));
    json_decref(rows);
    struct waiter *waiting = cache->waiting;
    cache->waiting = NULL;
    if (cache->late) {
        cache->waiting = cache->late;
        cache->late = NULL;
        read_all(engine);
    }
    call_waiters(waiting);
    engine->worked++;
}

static void read_all(struct engine *engine)
{
    struct function_cache *cache = cache_of(engine);
    cache->loading = engine->session_count > 0 &&
        mob_query_async(engine->sessions[0].client, "job", "{\"op\":\"functions\"}", on_functions, engine) ==
            MOB_OK;
    if (cache->loading)
        return;
    struct waiter *waiting = cache->waiting; /* without names rather than not at all */
    cache->waiting = NULL;
    call_waiters(waiting);
}

void engine_functions_refresh(struct engine *engine, void (*then)(void *arg), void *arg)
{
    struct function_cache *cache = cache_of(engine);
    if (then) {
        struct waiter *waiter = malloc(sizeof *waiter);
        struct waiter **list = cache->loading ? &cache->late : &cache->waiting;
        MOB_ASSERT(waiter != NULL);
        *waiter = (struct waiter){*list, then, arg};
        *list = waiter;
    }
    if (!cache->loading)
        read_all(engine);
}

static void free_waiters(struct waiter *waiting)
{
    for (struct waiter *w = waiting, *next; w; w = next) {
        next = w->next;
        free(w);
    }
}

void engine_functions_end(struct engine *engine)
{
    struct function_cache *cache = cache_of(engine);
    for (size_t b = 0; b < BUCKETS; b++)
        for (struct function_name *f = cache->buckets[b], *next; f; f = next) {
            next = f->next;
            free(f->name);
            free(f->signature);
            free(f->module_hash);
            free(f);
        }
    free_waiters(cache->waiting);
    free_waiters(cache->late);
    free(cache);
    engine->functions = NULL;
}

/* --- one that is about to be used --- */

static void on_learned(void *arg, enum mob_status status, const char *text, size_t size)
{
    struct flight *flight = arg;
    flight->engine->worked++;
    if (status == MOB_OK)
        status = mob_function_learn(flight->client, flight->learns, (const uint8_t *)text, (uint32_t)size);
    if (status == MOB_OK || (status == MOB_NOT_FOUND && flight->op->verb == MOB_ENGINE_BATCH)) {
        free(flight->learns);
        flight->learns = NULL;
        flight->then(flight); /* an item of a batch says so itself */
    } else if (status == MOB_NOT_FOUND) {
        enum mob_engine_call call = flight->op->submit.call;
        flight_fail(flight, status,
            call == MOB_CALL_TASK               ? "/function"
                : call == MOB_CALL_ACTOR_CREATE ? "/class"
                                                : NULL,
            "no function \"%.400s\" is deployed; GET /api/v1/functions lists those that are", flight->learns);
    } else {
        flight_fail(flight, status, NULL, "%s", mob_status_text(status));
    }
}

void engine_function_learn(struct flight *flight, const char *name, void (*then)(struct flight *flight))
{
    if (mob_function_is_fresh(flight->client, name)) {
        then(flight);
        return;
    }
    flight->then = then;
    flight->learns = strdup(name);
    MOB_ASSERT(flight->learns != NULL);
    flight_ask(flight, "function", name, on_learned);
}

/* --- deploying --- */

static void hash_of(const struct mob_engine_upload *upload, char out[64])
{
    struct mob_module_hash module = mob_module_hash(upload->bytes, upload->size);
    mob_base32_encode(module.b, sizeof module.b, out);
}

static void on_deployed_functions(void *arg, enum mob_status status, const char *text, size_t size)
{
    struct flight *flight = arg;
    json_t *rows = status == MOB_OK ? json_loadb(text, size, 0, NULL) : NULL;
    if (!rows) {
        flight_fail_reply(flight, status == MOB_OK ? MOB_INTERNAL : status, text, 0);
        return;
    }
    char hash[64];
    hash_of(&flight->op->upload, hash);
    json_t *out = json_pack("{s:s,s:[]}", "hash", hash, "functions");
    for (size_t i = 0; i < json_array_size(rows); i++) {
        json_t *row = json_array_get(rows, i);
        learn(flight->engine, row);
        const char *of = json_string_value(json_object_get(row, "module_hash"));
        if (!of || strcmp(of, hash) != 0)
            continue;
        json_array_append(json_object_get(out, "functions"), row);
        const char *name = json_string_value(json_object_get(row, "name"));
        if (name && strchr(name, '.'))
            json_object_set_new(out, "module", json_stringn(name, (size_t)(strchr(name, '.') - name)));
    }
    json_decref(rows);
    flight_done_json(flight, out);
}

/* Names may mean something else now. */
static void forget_meanings(struct engine *engine)
{
    for (size_t i = 0; i < engine->session_count; i++)
        mob_functions_distrust(engine->sessions[i].client);
}

static void on_deployed(void *arg, enum mob_status status, const char *text, size_t size)
{
    struct flight *flight = arg;
    if (status != MOB_OK) {
        flight_fail_reply(flight, status, text, size);
        return;
    }
    json_t *reply = json_loadb(text, size, 0, NULL);
    flight->op->upload.created = json_is_true(json_object_get(reply, "created"));
    json_decref(reply);
    forget_meanings(flight->engine);
    flight_ask(flight, "job", "{\"op\":\"functions\"}", on_deployed_functions);
}

static void deploy(struct flight *flight)
{
    struct mob_object_id id = mob_future_object(flight->future);
    enum mob_status status = mob_ask(flight->client, MOB_REQ_DEPLOY, &id, sizeof id, on_deployed, flight);
    if (status != MOB_OK)
        flight_fail_client(flight, status, NULL);
}

void engine_start_function_put(struct flight *flight)
{
    struct mob_engine_upload *upload = &flight->op->upload;
    struct mob_arg module = mob_bytes(upload->bytes, upload->size);
    engine_put(flight, &module, deploy);
}

static void on_undeployed(void *arg, enum mob_status status, const char *text, size_t size)
{
    struct flight *flight = arg;
    if (status != MOB_OK) {
        flight_fail_reply(flight, status, text, size);
        return;
    }
    forget_meanings(flight->engine);
    flight_done(flight);
}

void engine_start_function_delete(struct flight *flight)
{
    flight_ask(flight, "undeploy", flight->op->query.id, on_undeployed);
}
