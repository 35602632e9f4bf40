/* What a loop that serves many needs of a client (embed.h); the parts that stand nowhere else. */
#include "sdk/c/embed.h"

#include <stdlib.h>

#include "sdk/c/client.h"

/* ---- the loop ---- */

uint32_t mob_client_turn(struct mob_client *client)
{
    uint32_t records = mob_client_pump(client);
    mob_requests_run(client);
    mob_run_callbacks(client);
    return records;
}

void mob_client_sleep(struct mob_client *client, int64_t deadline_ns, bool (*has_news)(void *arg), void *arg)
{
    mob_store_sleep_or(client->store, deadline_ns, has_news, arg);
}

void mob_client_poke(struct mob_client *client)
{
    mob_store_poke(client->store);
}

bool mob_client_alive(struct mob_client *client)
{
    return mob_session_alive(client);
}

bool mob_client_refused(const struct mob_client *client)
{
    return client->refused;
}

void mob_client_asks_room(struct mob_client *client, bool asks)
{
    client->asks_room = asks;
}

void mob_client_abandon(struct mob_client *client)
{
    mob_client_free(client);
}

/* ---- questions ---- */

enum mob_status mob_ask(struct mob_client *client, enum mob_request_op op, const void *payload,
    uint32_t bytes, mob_answer_fn *answer, void *arg)
{
    struct mob_pending_request *request;
    enum mob_status status = mob_request_start(client, op, payload, bytes, NULL, 0, &request);
    if (status != MOB_OK)
        return status;
    request->callback = answer;
    request->arg = arg;
    return MOB_OK;
}

bool mob_asks_pending(const struct mob_client *client)
{
    return client->requests != NULL;
}

static void ignore_answer(void *arg, enum mob_status status, const char *payload, size_t bytes)
{
    (void)arg;
    (void)status;
    (void)payload;
    (void)bytes;
}

void mob_asks_forget(struct mob_client *client, void (*forgotten)(mob_answer_fn *answer, void *arg))
{
    for (struct mob_pending_request *r = client->requests; r != NULL; r = r->next) {
        if (r->callback == NULL)
            continue;
        forgotten(r->callback, r->arg);
        r->callback = ignore_answer;
        r->arg = NULL;
    }
}

void mob_asks_fail(struct mob_client *client, enum mob_status status)
{
    for (struct mob_pending_request *r = client->requests; r != NULL; r = r->next) {
        if (r->done)
            continue;
        free(r->payload); /* part of an answer */
        r->payload = NULL;
        r->payload_bytes = 0;
        r->done = true;
        r->status = status;
        client->replies += r->callback != NULL;
    }
}

/* ---- futures and values ---- */

struct mob_future_look mob_future_look(const struct mob_future *future)
{
    struct mob_future_look look = {.state = (enum mob_future_state)future->state,
        .status = (enum mob_status)future->status,
        .type = (enum mob_value_type)future->type};
    if (future->state != MOB_FUTURE_READY)
        return look;
    look.at_hand = future->where == MOB_WHERE_SLOT || future->where == MOB_WHERE_BLOCK;
    look.own_bytes = future->where == MOB_WHERE_STORE;
    if (future->where == MOB_WHERE_OTHER)
        memcpy(&look.bytes, future->as.block->payload, sizeof look.bytes);
    else
        look.bytes = mob_future_object(future);
    return look;
}

enum mob_status mob_stream_outcome(const struct mob_future *stream, uint32_t *count_out)
{
    *count_out = stream->as.stream->last;
    return stream->as.stream->status;
}

struct mob_value_look mob_value_look(const struct mob_value *value)
{
    return (struct mob_value_look){value->type, value->payload, value->payload_bytes};
}

bool mob_value_stored_hash(const struct mob_value *value, struct mob_hash128 *hash_out)
{
    return value->pinned && mob_store_object_hash(value->store, value->pin, hash_out);
}

enum mob_status mob_value_of_object(
    struct mob_client *client, struct mob_object_id *id, struct mob_value **value_out)
{
    struct mob_value *value = mob_value_new(client);
    if (value == NULL)
        return mob_client_fail(client, MOB_NO_MEMORY, "out of memory");
    enum mob_status status = mob_value_read(client, id, value);
    if (status != MOB_OK) {
        mob_value_release(value);
        return status;
    }
    *value_out = value;
    return MOB_OK;
}

/* ---- functions ---- */

static struct mob_callable callable(const struct mob_signature_info *info)
{
    return (struct mob_callable){info->text, &info->parsed, info->num_returns};
}

const char *mob_function_name(const struct mob_function *function)
{
    return function->name;
}

bool mob_function_is_class(const struct mob_function *function)
{
    return function->kind == MOB_KIND_ACTOR_CREATE;
}

struct mob_callable mob_function_callable(const struct mob_function *function)
{
    return callable(&function->signature);
}

bool mob_method_callable(const struct mob_function *class, const char *method, struct mob_callable *out)
{
    uint16_t index;
    const struct mob_method_info *info = mob_function_method(class, method, &index);
    if (info == NULL)
        return false;
    *out = callable(&info->signature);
    return true;
}

void mob_functions_distrust(struct mob_client *client)
{
    for (struct mob_function *f = client->functions; f != NULL; f = f->next)
        f->asked_ns = 0;
}

/* ---- tasks ---- */

enum mob_status mob_cancel_task(struct mob_client *client, struct mob_task_id task, bool force)
{
    struct mob_out_cancel cancel = {.task = task, .force = force ? 1 : 0, .recursive = 1};
    return mob_client_publish(client, MOB_OUT_CANCEL, 0, &cancel, sizeof cancel, NULL, 0);
}

/* ---- inference ---- */

enum mob_status mob_put_unlogged(struct mob_client *client, enum mob_value_type type, uint64_t bytes,
    void (*write)(void *arg, uint8_t *payload), void *arg, struct mob_object_id *id_out)
{
    struct mob_object_id id = mob_next_put(client);
    struct mob_object_ref ref;
    uint64_t full_bytes;
    void *full;
    uint8_t *payload;
    enum mob_status status = mob_value_full_size(bytes, 0, 0, &full_bytes);
    if (status == MOB_OK)
        status = mob_store_room(client, id, full_bytes, &ref, &full);
    if (status != MOB_OK)
        return status;
    status = mob_value_init(full, full_bytes, type, bytes, NULL, 0, NULL, 0, &payload);
    MOB_ASSERT(status == MOB_OK);
    write(arg, payload);
    mob_store_object_seal(client->store, ref);
    *id_out = id;
    return MOB_OK;
}

/* The node gives ring space back when a block of its log is acknowledged, and calls that are not logged close
 * none: with nothing else to log a small value makes one. */
#define UNACKED_BYTES_MAX (128u << 10)
#define MARK_INTERVAL_NS (2 * MOB_MS)

static void keep_ring_moving(struct mob_client *client)
{
    int64_t now = mob_now();
    if (mob_store_out_published(client->store) - mob_store_out_acked(client->store) < UNACKED_BYTES_MAX ||
        now - client->ring_marked_ns < MARK_INTERVAL_NS)
        return;
    struct mob_future *mark = NULL;
    client->ring_marked_ns = now;
    if (mob_put(client, mob_null(), &mark) == MOB_OK)
        mob_release(mark);
}

enum { UNLOGGED_RETRIES = 3 }; /* as of tasks; deaths of its worker while it ran */

enum mob_status mob_call_unlogged(struct mob_actor *actor, const struct mob_function *class,
    const char *method, struct mob_args args, struct mob_future **futures_out)
{
    struct mob_client *client = class->client;
    uint16_t index;
    const struct mob_method_info *info = mob_function_method(class, method, &index);
    if (info == NULL)
        return mob_client_fail(client, MOB_NOT_FOUND, "%s has no method \"%.120s\"", class->name, method);
    struct mob_submission submission = {.function = class,
        .kind = MOB_KIND_ACTOR_CALL,
        .actor = mob_actor_identity(actor),
        .method = index,
        .num_returns = info->signature.num_returns,
        .flags = MOB_SPEC_READ_ONLY | MOB_SPEC_UNLOGGED,
        .max_retries = UNLOGGED_RETRIES,
        .signature = &info->signature,
        .args = args};
    enum mob_status status = mob_submission_publish(client, &submission, futures_out);
    keep_ring_moving(client);
    return status;
}

bool mob_drop_unlogged(struct mob_client *client, const struct mob_object_id *ids, uint32_t count)
{
    uint32_t bytes = count * (uint32_t)sizeof *ids;
    void *body = mob_store_out_reserve(client->store, bytes);
    if (body == NULL)
        return false;
    struct mob_writer w = mob_writer_of(body, bytes);
    mob_write_bytes(&w, ids, bytes);
    mob_store_out_commit(client->store, MOB_OUT_RELEASE, MOB_RELEASE_UNLOGGED, (uint16_t)count, bytes);
    return true;
}
