/* The papers' put, and room in the store. */
#include "sdk/c/call.h"

#include <stdlib.h>

#define HASH_AT_ONCE_MAX (1u << 20)
#define ROOM_PATIENCE_NS (10 * MOB_SEC) /* while the node says that there is room */

struct mob_put_buffer {
    struct mob_client *client;
    struct mob_making making;
    /* of mob_put_prepare: */
    struct mob_arg value;
    struct mob_encoded encoded; /* borrows from `value` and what it points to */
    struct mob_object_id id;
    enum { PUT_PREPARED, PUT_MAKING, PUT_BESIDE } state; /* beside: small, or made before; nothing to write */
    bool exists;
};

struct mob_object_id mob_next_put(struct mob_client *client)
{
    if (client->key.set) {
        client->key.set = false;
        return mob_object_of(client->key.root, MOB_SLOT_PUT);
    }
    uint32_t first = 0, count = MOB_PUT_COUNTER_MAX + 1;
    if (client->put_continuation == 0)
        count = mob_put_counters(client->parent_generation, &first);
    if (client->next_put == count) { /* goes on under an id that no child gets */
        client->put_continuation++;
        client->next_put = first = 0;
    }
    struct mob_task_id owner = client->parent;
    if (client->put_continuation > 0)
        owner = (struct mob_task_id){
            mob_stream_of_children(client->parent, client->parent_generation, client->put_continuation),
            MOB_CONTINUED_CHILD};
    return mob_object_of(owner, MOB_SLOT_PUT | (first + client->next_put++));
}

enum mob_status mob_ask_room(struct mob_client *client, mob_answer_fn *answer, void *arg)
{
    uint8_t wanted[sizeof client->room_missed.bytes + sizeof client->room_missed.id];
    memcpy(wanted, &client->room_missed.bytes, sizeof client->room_missed.bytes);
    memcpy(wanted + sizeof client->room_missed.bytes, &client->room_missed.id, sizeof client->room_missed.id);
    /* what this client let go of may be room enough */
    enum mob_status status = mob_client_flush_releases(client);
    return status == MOB_OK ? mob_ask(client, MOB_REQ_SPACE, wanted, sizeof wanted, answer, arg) : status;
}

/* Full store: the node makes room (evicts, spills), or says with numbers that there is none. What it made,
 * others may take before this process has a core again, the node itself for a value that it reads back. */
enum mob_status mob_store_room(struct mob_client *client, struct mob_object_id id, uint64_t size,
    struct mob_object_ref *ref_out, void **bytes_out)
{
    int64_t give_up_ns = 0;
    for (;;) {
        enum mob_status status = mob_store_object_create(client->store, id, size, ref_out, bytes_out);
        client->room_missed.bytes = size;
        client->room_missed.id = id;
        if (give_up_ns == 0)
            give_up_ns = status == MOB_STORE_FULL ? mob_deadline_after(ROOM_PATIENCE_NS) : 0;
        if (status != MOB_STORE_FULL || mob_now() > give_up_ns || (client->asks_room && !client->resuming))
            return status == MOB_STORE_FULL
                ? mob_client_fail(
                      client, status, "no room for %llu bytes in the store", (unsigned long long)size)
                : status;
        status = mob_client_flush_releases(client); /* what this client let go of may be room enough */
        uint8_t wanted[sizeof size + sizeof id];
        memcpy(wanted, &size, sizeof size);
        memcpy(wanted + sizeof size, &id, sizeof id);
        if (status == MOB_OK)
            status = mob_request(client, MOB_REQ_SPACE, wanted, sizeof wanted, MOB_FOREVER, NULL, NULL);
        if (status != MOB_OK)
            return status;
    }
}

/* Values up to this size go with the record; a driver's must not be lost with the segment. */
static uint32_t inline_max(const struct mob_client *client)
{
    return client->worker ? MOB_OBJECT_INLINE_MAX : MOB_PUT_INLINE_MAX;
}

/* ---- objects that are being made ---- */

static enum mob_status making_begin(
    struct mob_client *client, struct mob_object_id id, uint64_t full_bytes, struct mob_making *m)
{
    *m = (struct mob_making){.id = id, .full_bytes = full_bytes};
    enum mob_status status = mob_store_room(client, id, full_bytes, &m->ref, &m->full);
    if (status != MOB_OK)
        return status;
    m->store = client->store; /* making room may have moved the session */
    m->next = client->making;
    client->making = m;
    return MOB_OK;
}

static void making_end(struct mob_client *client, struct mob_making *m)
{
    struct mob_making **place = &client->making;
    while (*place != m)
        place = &(*place)->next;
    *place = m->next;
    if (m->store != client->store)
        mob_old_store_release(client, m->store);
}

/* Its bytes follow the session into the segment of the next node. */
static enum mob_status making_move(struct mob_client *client, struct mob_making *m)
{
    while (m->store != client->store) {
        struct mob_object_ref ref;
        void *full;
        bool asks = client->asks_room;
        client->asks_room = false; /* a node has died: that nobody else waits meanwhile matters less */
        enum mob_status status = mob_store_room(client, m->id, m->full_bytes, &ref, &full);
        client->asks_room = asks;
        if (status != MOB_OK && status != MOB_EXISTS)
            return status;
        m->exists = status == MOB_EXISTS;
        if (!m->exists)
            memcpy(full, m->full, m->full_bytes);
        mob_old_store_release(client, m->store);
        m->store = client->store;
        m->ref = ref;
        m->full = full;
    }
    return MOB_OK;
}

static void making_abort(struct mob_client *client, struct mob_making *m)
{
    if (m->store == client->store && !m->exists)
        mob_store_object_abort(client->store, m->ref);
    making_end(client, m);
}

/* ---- the record ---- */

static void write_put(void *body, const struct mob_out_put *head, const void *payload)
{
    struct mob_writer w = mob_writer_of(body, (uint32_t)sizeof *head + head->inline_bytes);
    mob_write_bytes(&w, head, sizeof *head);
    mob_write_bytes(&w, payload, head->inline_bytes);
}

static enum mob_status put_small(
    struct mob_client *client, struct mob_object_id id, const struct mob_encoded *value)
{
    struct mob_out_put head = {.id = id,
        .type = (uint8_t)value->type,
        .size = value->bytes,
        .hash = mob_hash128(value->payload, value->bytes),
        .inline_bytes = (uint32_t)value->bytes};
    uint32_t bytes = (uint32_t)sizeof head + head.inline_bytes;
    void *body;
    enum mob_status status = mob_client_reserve(client, bytes, &body);
    if (status != MOB_OK)
        return status;
    /* the record has its room, so from here on nothing waits, and the session stays where it is */
    struct mob_object_ref ref;
    status =
        mob_store_put_small(client->store, id, value->type, value->payload, (uint32_t)value->bytes, &ref);
    if (status != MOB_OK && status != MOB_EXISTS && status != MOB_STORE_FULL)
        return mob_client_fail(client, status, "the value could not be stored: %s", mob_status_text(status));
    bool made = status == MOB_OK; /* without an entry the record alone carries it */
    write_put(body, &head, value->payload);
    mob_client_commit(client, MOB_OUT_PUT, 0, bytes);
    if (made)
        mob_store_object_seal(client->store, ref);
    return MOB_OK;
}

/* The running task has ended before: the node compares its puts with the log before it seals them. */
static bool remakes(const struct mob_client *client)
{
    return mob_in_task(client) && mob_call_remakes(client->call);
}

static enum mob_status publish_full(struct mob_client *client, struct mob_making *m)
{
    struct mob_value_header header;
    memcpy(&header, m->full, sizeof header);
    bool inlined = header.payload_bytes <= inline_max(client);
    struct mob_out_put head = {.id = m->id,
        .type = header.type,
        .flags = m->full_bytes > HASH_AT_ONCE_MAX ? MOB_PUT_HASH_LATER : 0,
        .size = inlined ? header.payload_bytes : m->full_bytes,
        .hash = header.hash,
        .inline_bytes = inlined ? (uint32_t)header.payload_bytes : 0};
    uint32_t bytes = (uint32_t)sizeof head + head.inline_bytes;
    void *body;
    do { /* waiting for room may end in another segment */
        enum mob_status status = making_move(client, m);
        if (status == MOB_OK)
            status = mob_client_reserve(client, bytes, &body);
        if (status != MOB_OK)
            return status;
    } while (m->store != client->store);
    write_put(body, &head, (uint8_t *)m->full + header.payload_offset);
    mob_client_commit(client, MOB_OUT_PUT, 0, bytes);
    if (!m->exists && !remakes(client))
        mob_store_object_seal(client->store, m->ref);
    return MOB_OK;
}

/* Publish what explains the object, then seal it. */
static enum mob_status put_full(struct mob_client *client, struct mob_making *m)
{
    if (m->full_bytes <= HASH_AT_ONCE_MAX || remakes(client))
        mob_value_hash(m->full);
    enum mob_status status = publish_full(client, m);
    if (status == MOB_OK)
        making_end(client, m);
    else
        making_abort(client, m);
    return status;
}

enum mob_status mob_put_encoded(
    struct mob_client *client, struct mob_object_id id, const struct mob_encoded *value)
{
    if (value->bytes <= MOB_OBJECT_INLINE_MAX && value->tensor == NULL)
        return put_small(client, id, value);
    uint64_t full_bytes;
    struct mob_making *making = &client->making_now;
    enum mob_status status = mob_value_full_size(value->bytes, 0, 0, &full_bytes);
    if (status == MOB_OK)
        status = making_begin(client, id, full_bytes, making);
    if (status == MOB_EXISTS)
        return MOB_OK; /* a replay put it before; the node compares the records */
    if (status != MOB_OK)
        return status;
    uint8_t *payload;
    status = mob_value_init(making->full, full_bytes, value->type, value->bytes, NULL, 0, NULL, 0, &payload);
    MOB_ASSERT(status == MOB_OK);
    mob_encoded_write(value, payload);
    return put_full(client, making);
}

/* A put is ready from the start; its bytes are in the store. */
static enum mob_status put_future(struct mob_client *client, struct mob_object_id id,
    enum mob_value_type type, uint64_t bytes, struct mob_future **future_out)
{
    struct mob_future *future = mob_future_new_general(client, id, true);
    if (future == NULL)
        return mob_client_fail(client, MOB_NO_MEMORY, "out of memory");
    future->state = MOB_FUTURE_READY;
    future->type = (uint8_t)type;
    future->where = MOB_WHERE_STORE;
    future->as.i64 = (int64_t)bytes;
    *future_out = future;
    return MOB_OK;
}

/* What may be stored as it is: no future. */
static enum mob_status encode_value(
    struct mob_client *client, const struct mob_arg *value, struct mob_encoded *out)
{
    if (mob_encode(value, out) == MOB_OK && !out->is_ref)
        return MOB_OK;
    return mob_client_fail(client, MOB_INVALID,
        "the value cannot be stored: it is a future, or none of its type (text that is not UTF-8, or not "
        "JSON, say)");
}

enum mob_status mob_put(struct mob_client *client, struct mob_arg value, struct mob_future **future_out)
{
    MOB_GIVEN_CLIENT(client);
    MOB_GIVEN(client, future_out);
    struct mob_encoded encoded;
    enum mob_status status = encode_value(client, &value, &encoded);
    if (status != MOB_OK)
        return status;
    struct mob_object_id id = mob_next_put(client);
    status = mob_put_encoded(client, id, &encoded);
    return status == MOB_OK ? put_future(client, id, encoded.type, encoded.bytes, future_out) : status;
}

/* ---- without waiting, in four steps (embed.h) ---- */

enum mob_status mob_put_prepare(
    struct mob_client *client, const struct mob_arg *value, struct mob_put_buffer **buffer_out)
{
    struct mob_put_buffer *buffer = calloc(1, sizeof *buffer);
    if (buffer == NULL)
        return mob_client_fail(client, MOB_NO_MEMORY, "out of memory");
    buffer->client = client;
    buffer->value = *value;
    enum mob_status status = mob_encode(&buffer->value, &buffer->encoded);
    if (status != MOB_OK || buffer->encoded.is_ref) {
        free(buffer);
        return mob_client_fail(client, MOB_INVALID,
            "the value cannot be stored: it is a future, or none of its type (text that is not UTF-8, or not "
            "JSON, say)");
    }
    buffer->id = mob_next_put(client);
    if (buffer->encoded.bytes <= MOB_OBJECT_INLINE_MAX && buffer->encoded.tensor == NULL)
        buffer->state = PUT_BESIDE;
    *buffer_out = buffer;
    return MOB_OK;
}

uint64_t mob_put_bytes(const struct mob_put_buffer *buffer)
{
    return buffer->state == PUT_BESIDE ? 0 : buffer->encoded.bytes;
}

enum mob_status mob_put_room(struct mob_put_buffer *buffer)
{
    if (buffer->state != PUT_PREPARED)
        return MOB_OK;
    uint64_t full_bytes, bytes = buffer->encoded.bytes;
    enum mob_status status = mob_value_full_size(bytes, 0, 0, &full_bytes);
    if (status == MOB_OK)
        status = making_begin(buffer->client, buffer->id, full_bytes, &buffer->making);
    if (status == MOB_EXISTS) { /* an earlier run put it; the node compares the records */
        buffer->exists = true;
        buffer->state = PUT_BESIDE;
        return MOB_OK;
    }
    if (status != MOB_OK)
        return status;
    uint8_t *payload;
    status = mob_value_init(
        buffer->making.full, full_bytes, buffer->encoded.type, bytes, NULL, 0, NULL, 0, &payload);
    MOB_ASSERT(status == MOB_OK);
    buffer->state = PUT_MAKING;
    return MOB_OK;
}

void mob_put_write(struct mob_put_buffer *buffer)
{
    if (buffer->state != PUT_MAKING)
        return;
    struct mob_value_header header;
    memcpy(&header, buffer->making.full, sizeof header);
    mob_encoded_write(&buffer->encoded, (uint8_t *)buffer->making.full + header.payload_offset);
}

static enum mob_status finish_prepared(struct mob_put_buffer *buffer)
{
    if (buffer->exists)
        return MOB_OK;
    return buffer->state == PUT_MAKING ? put_full(buffer->client, &buffer->making)
                                       : mob_put_encoded(buffer->client, buffer->id, &buffer->encoded);
}

enum mob_status mob_put_end(struct mob_put_buffer *buffer, struct mob_future **future_out)
{
    enum mob_status status = finish_prepared(buffer);
    if (status == MOB_OK)
        status =
            put_future(buffer->client, buffer->id, buffer->encoded.type, buffer->encoded.bytes, future_out);
    free(buffer);
    return status;
}

void mob_put_drop(struct mob_put_buffer *buffer)
{
    if (buffer != NULL && buffer->state == PUT_MAKING)
        making_abort(buffer->client, &buffer->making);
    free(buffer);
}

enum mob_status mob_put_begin(
    struct mob_client *client, size_t size, void **data_out, struct mob_put_buffer **buffer_out)
{
    MOB_GIVEN_CLIENT(client);
    MOB_GIVEN(client, data_out);
    MOB_GIVEN(client, buffer_out);
    struct mob_put_buffer *buffer = calloc(1, sizeof *buffer);
    if (buffer == NULL)
        return mob_client_fail(client, MOB_NO_MEMORY, "out of memory");
    buffer->client = client;
    struct mob_object_id id = mob_next_put(client);
    uint64_t full_bytes;
    enum mob_status status = mob_value_full_size(size, 0, 0, &full_bytes);
    if (status == MOB_OK)
        status = making_begin(client, id, full_bytes, &buffer->making);
    if (status != MOB_OK) {
        free(buffer);
        return status;
    }
    uint8_t *payload;
    status =
        mob_value_init(buffer->making.full, full_bytes, MOB_TYPE_BYTES, size, NULL, 0, NULL, 0, &payload);
    MOB_ASSERT(status == MOB_OK);
    *data_out = payload;
    *buffer_out = buffer;
    return MOB_OK;
}

enum mob_status mob_put_finish(struct mob_put_buffer *buffer, struct mob_future **future_out)
{
    MOB_GIVEN(NULL, buffer);
    struct mob_client *client = buffer->client;
    MOB_GIVEN(client, future_out); /* the buffer stays the caller's */
    struct mob_object_id id = buffer->making.id;
    uint64_t full_bytes = buffer->making.full_bytes;
    enum mob_status status = put_full(client, &buffer->making);
    if (status == MOB_OK)
        status = put_future(client, id, MOB_TYPE_BYTES, full_bytes, future_out);
    free(buffer);
    return status;
}

void mob_put_abort(struct mob_put_buffer *buffer)
{
    if (buffer == NULL)
        return;
    making_abort(buffer->client, &buffer->making);
    free(buffer);
}

enum mob_status mob_promise(struct mob_client *client, struct mob_future **future_out)
{
    MOB_GIVEN_CLIENT(client);
    MOB_GIVEN(client, future_out);
    struct mob_object_id id = mob_next_put(client);
    struct mob_out_put head = {.id = id, .flags = MOB_PUT_PROMISE};
    struct mob_future *future = mob_future_new_general(client, id, false);
    if (future == NULL)
        return mob_client_fail(client, MOB_NO_MEMORY, "out of memory");
    enum mob_status status = mob_client_publish(client, MOB_OUT_PUT, 0, &head, sizeof head, NULL, 0);
    if (status != MOB_OK) {
        mob_release(future);
        return status;
    }
    *future_out = future;
    return MOB_OK;
}

enum mob_status mob_fulfil(struct mob_future *future, struct mob_arg value)
{
    MOB_GIVEN(NULL, future);
    struct mob_client *client = mob_future_client(future);
    if ((mob_future_object(future).slot & MOB_SLOT_ARG_PAGE) != MOB_SLOT_PUT)
        return mob_client_fail(
            client, MOB_INVALID, "this future is no promise: its value comes from the task that returns it");
    struct mob_encoded encoded;
    enum mob_status status = encode_value(client, &value, &encoded);
    if (status != MOB_OK)
        return status;
    if (mob_future_settled(future))
        return mob_client_fail(client, MOB_FINISHED, "this future has its value already");
    status = mob_put_encoded(client, mob_future_object(future), &encoded);
    if (status == MOB_OK)
        mob_future_settle(client, future, MOB_OK, encoded.type, NULL, 0, false);
    return status;
}
