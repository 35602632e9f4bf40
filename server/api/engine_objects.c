/* Objects: state, value, delete. The wait for several is engine_wait.c. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "server/api/engine_inner.h"

/* An object that the node does not have is looked up in the lineage; so long a plain read waits for that. */
#define RESOLVE_NS (2 * MOB_SEC)
#define FETCH_TRIES 8

void engine_future_error(struct mob_engine_op *op, struct mob_future *future)
{
    enum mob_status status = mob_future_look(future).status;
    const char *json = mob_future_error(future);
    char message[512];
    bool known = mob_json_text_field(json, "message", message, sizeof message) && *message;
    mob_engine_op_fail(op, status == MOB_OK ? MOB_TASK_FAILED : status, NULL, "%s",
        known ? message : mob_status_text(status));
    free(op->error.failure_json);
    op->error.failure_json = known ? strdup(json) : NULL;
}

/* A failure that is the node's answer about the object; the failure of a task has an error value, with words.
 */
static bool node_speaks(struct mob_future *future)
{
    char message[64];
    return mob_future_look(future).state == MOB_FUTURE_FAILED &&
        !(mob_json_text_field(mob_future_error(future), "message", message, sizeof message) && *message);
}

bool engine_never_was(struct mob_future *future)
{
    struct mob_future_look look = mob_future_look(future);
    return look.state == MOB_FUTURE_FAILED && look.status == MOB_NOT_FOUND && node_speaks(future);
}

bool engine_not_now(struct mob_future *future)
{
    return node_speaks(future) && mob_status_retryable(mob_future_look(future).status);
}

static enum mob_engine_object_state state_of_failed(struct mob_future *future)
{
    enum mob_status status = mob_future_look(future).status;
    if (status == MOB_OBJECT_LOST || status == MOB_LINEAGE_GONE || status == MOB_LOST_UNCOMMITTED)
        return MOB_OBJ_LOST;
    return engine_not_now(future) ? MOB_OBJ_PENDING : MOB_OBJ_FAILED; /* it is what it was */
}

/* --- values that replies send from --- */

void engine_give_back(struct pinned *pinned)
{
    struct engine *engine = pinned->engine;
    struct pinned *head = atomic_load_explicit(&engine->returned, memory_order_relaxed);
    do
        pinned->next = head;
    while (!atomic_compare_exchange_weak(&engine->returned, &head, pinned));
}

static void give_back(void *cls)
{
    engine_give_back(cls);
}

struct pinned *engine_pin(struct engine *engine, struct mob_value *value)
{
    struct pinned *pinned = malloc(sizeof *pinned);
    MOB_ASSERT(pinned != NULL);
    *pinned = (struct pinned){.engine = engine, .value = value};
    return pinned;
}

void engine_drop_returned(struct engine *engine)
{
    if (!atomic_load_explicit(&engine->returned, memory_order_relaxed))
        return;
    for (struct pinned *p = atomic_exchange(&engine->returned, NULL), *next; p; p = next) {
        next = p->next;
        if (!engine->closing) {
            mob_value_release(p->value);
            if (p->drop)
                engine_infer_drop_object(engine, p->client, p->object);
        }
        free(p);
    }
}

/* Small payloads are copied, so that no pin waits for a slow reader. */
#define COPY_MAX (64u << 10)

static void free_payload(void *cls)
{
    free(cls);
}

static void give_payload(struct engine *engine, struct mob_value *value, struct mob_engine_value *out)
{
    struct mob_value_look look = mob_value_look(value);
    if (look.bytes <= COPY_MAX) {
        char *copy = malloc(look.bytes + 1);
        MOB_ASSERT(copy != NULL);
        memcpy(copy, look.payload, look.bytes);
        out->payload = copy;
        out->release = free_payload;
        out->release_cls = copy;
        mob_value_release(value);
        return;
    }
    out->payload = look.payload;
    out->release = give_back;
    out->release_cls = engine_pin(engine, value);
}

/* --- get --- */

static void get_value(struct flight *flight);

static void on_fetched(void *arg, enum mob_status status, const char *text, size_t size)
{
    struct flight *flight = arg;
    if (status == MOB_OK)
        get_value(flight);
    else
        flight_fail_reply(flight, status, text, size);
}

static void fetch(struct flight *flight, struct mob_object_id id)
{
    enum mob_status status = flight->step++ < FETCH_TRIES
        ? mob_ask(flight->client, MOB_REQ_FETCH, &id, sizeof id, on_fetched, flight)
        : MOB_OBJECT_LOST;
    if (status != MOB_OK) {
        flight->op->object.value.state = MOB_OBJ_LOST;
        flight_fail(flight, status, NULL, "the bytes do not stay in the store");
    }
}

static void fill_value(struct flight *flight, struct mob_value *value)
{
    struct mob_engine_object *object = &flight->op->object;
    struct mob_engine_value *out = &object->value;
    struct mob_value_look look = mob_value_look(value);
    out->state = MOB_OBJ_READY;
    out->type = mob_value_type_name(look.type);
    out->media_type = engine_media_of(look.type);
    out->size = look.bytes;
    if (object->want_json) {
        out->json = engine_value_json(value);
        struct mob_hash128 hash = {0};
        if (!mob_value_stored_hash(value, &hash) && look.bytes <= (1u << 20))
            hash = mob_hash128(look.payload, look.bytes);
        out->hash_lo = hash.lo;
        out->hash_hi = hash.hi;
    }
    if (object->want_payload)
        give_payload(flight->engine, value, out);
    else
        mob_value_release(value);
    flight_done(flight);
}

/* The future is ready. */
static void get_value(struct flight *flight)
{
    struct mob_future *future = flight->future;
    struct mob_value *value = NULL;
    struct mob_future_look look = mob_future_look(future);
    if (look.at_hand) {
        enum mob_status status = mob_value_of_future(future, &value);
        if (status == MOB_OK)
            fill_value(flight, value);
        else
            flight_fail_client(flight, status, NULL);
        return;
    }
    struct mob_object_id id = look.bytes;
    enum mob_status status = mob_value_of_object(flight->client, &id, &value);
    if (status == MOB_OK)
        fill_value(flight, value);
    else if (status == MOB_NOT_FOUND || status == MOB_NOT_READY)
        fetch(flight, id);
    else
        flight_fail(flight, status, NULL, "%s", mob_status_text(status));
}

static void settled(struct flight *flight)
{
    struct mob_engine_value *value = &flight->op->object.value;
    flight_clear_deadline(flight);
    if (mob_future_look(flight->future).state == MOB_FUTURE_FAILED) {
        if (engine_never_was(flight->future)) {
            flight_fail(flight, MOB_NOT_FOUND, NULL, "no such object");
            return;
        }
        engine_future_error(flight->op, flight->future);
        value->state = state_of_failed(flight->future);
        flight_done(flight);
        return;
    }
    get_value(flight);
}

static void on_ready(struct mob_future *future, void *arg)
{
    (void)future;
    struct flight *flight = arg;
    flight->engine->worked++;
    settled(flight);
}

static void on_pending(struct flight *flight)
{
    flight->op->object.value.state = MOB_OBJ_PENDING;
    flight_done(flight);
}

/* The log says what the node does not: whether there is something to wait for. */
static void on_found(struct flight *flight, const struct engine_found *found)
{
    (void)found;
    if (mob_ready(flight->future))
        settled(flight);
    else
        on_pending(flight);
}

/* Not ready in time. A task that lives is pending, and so is what is made again; but an object that the node
 * is still looking up may as well be there: who cannot read that now says so. */
static void on_not_ready(struct flight *flight)
{
    mob_unlisten(flight->client, &flight->waiter); /* the answer is on_found's from here on */
    engine_find(flight, flight->op->object.id.task, ENGINE_FIND_LIVE, on_found);
}

/* The node answers this behind whatever it knew about the object already: still no notice means not ready. */
static void on_task_state(void *arg, enum mob_status status, const char *text, size_t size)
{
    struct flight *flight = arg;
    (void)text;
    (void)size;
    if (mob_ready(flight->future)) {
        settled(flight);
        return;
    }
    if (status == MOB_OK) {
        on_pending(flight);
        return;
    }
    /* Neither ready nor running here: it is being looked up in the lineage. */
    status = flight_listen(flight, on_ready);
    if (status != MOB_OK)
        flight_fail_client(flight, status, NULL);
    else
        flight_set_deadline(flight, mob_now() + RESOLVE_NS, on_not_ready);
}

static void look_once(struct flight *flight)
{
    char id[MOB_ID_TEXT_MAX];
    enum mob_status status = mob_future_watch(flight->client, flight->future);
    if (status == MOB_OK)
        status = mob_query_async(flight->client, "task", mob_task_id_format(flight->op->object.id.task, id),
            on_task_state, flight);
    if (status != MOB_OK)
        flight_fail_client(flight, status, NULL);
}

void engine_start_object_get(struct flight *flight)
{
    char id[MOB_ID_TEXT_MAX];
    struct mob_engine_object *object = &flight->op->object;
    enum mob_status status =
        mob_future_from_id(flight->client, mob_object_id_format(object->id, id), &flight->future);
    if (status != MOB_OK) {
        flight_fail_client(flight, status, NULL);
        return;
    }
    if (mob_ready(flight->future)) {
        settled(flight);
        return;
    }
    if (object->wait_deadline_ns == 0) {
        look_once(flight);
        return;
    }
    status = flight_listen(flight, on_ready);
    if (status != MOB_OK)
        flight_fail_client(flight, status, NULL);
    else
        flight_set_deadline(flight, object->wait_deadline_ns, on_not_ready);
}

/* --- delete --- */

static void on_deleted(void *arg, enum mob_status status, const char *text, size_t size)
{
    struct flight *flight = arg;
    if (status == MOB_OK || status == MOB_NOT_FOUND) /* its bytes are not in the store: nothing to drop */
        flight_done(flight);
    else
        flight_fail_reply(flight, status, text, size);
}

static void on_object_to_delete(struct flight *flight, const struct engine_found *found)
{
    struct mob_object_id id;
    enum lineage_put_state put = LINEAGE_PUT_NEVER;
    if (mob_object_id_parse(flight->op->query.id, &id) != MOB_OK)
        MOB_ASSERT(!"an id that was parsed before");
    if (found->record)
        put = task_record_put_state(found->record, id);
    if (put == LINEAGE_PUT_DELETED)
        flight_fail(flight, MOB_OBJECT_LOST, NULL, "it was deleted before");
    else if (put == LINEAGE_PUT_NEVER && found->known == ENGINE_NEVER)
        flight_fail_unknown(flight, "object");
    else if (put == LINEAGE_PUT_NEVER && id.slot & MOB_SLOT_PUT)
        flight_fail(flight, MOB_NOT_FOUND, NULL, "no such object");
    else if (put == LINEAGE_PUT_NEVER && found->known == ENGINE_UNFINISHED)
        flight_fail(flight, MOB_NOT_READY, NULL, "%s", mob_status_text(MOB_NOT_READY));
    else if (put == LINEAGE_PUT_NEVER && !task_record_returns(found->record, id))
        flight_fail(flight, MOB_NOT_FOUND, NULL, "no such object");
    else
        flight_ask(flight, "delete", flight->op->query.id, on_deleted);
}

void engine_start_object_delete(struct flight *flight)
{
    struct mob_object_id id;
    if (mob_object_id_parse(flight->op->query.id, &id) == MOB_OK)
        engine_find_object(flight, id, on_object_to_delete);
    else
        flight_fail(flight, MOB_NOT_FOUND, NULL, "no such object");
}
