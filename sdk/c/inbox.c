/* The inbound ring: notices for futures are used here, a worker's other records go to its hooks. */
#include "sdk/c/client.h"

#include <stdlib.h>
#include <unistd.h>

#define WATCH_BATCH 1024u

static void take_ready(struct mob_client *client, const struct mob_in_ready *ready, const uint8_t *payload)
{
    mob_client_on_ready(client, ready, payload);
    if (client->level_count > 0)
        mob_levels_on_ready(client, ready, payload);
}

static void take_ready_run(
    struct mob_client *client, const struct mob_record *record, const uint8_t *body, uint32_t bytes)
{
    struct mob_in_ready_run run;
    if (bytes < sizeof run || bytes - sizeof run < (uint32_t)record->aux * sizeof(uint64_t))
        return;
    memcpy(&run, body, sizeof run);
    struct mob_in_ready ready = {.id.task = {run.stream, run.first},
        .type = run.type,
        .flags = run.flags,
        .size = sizeof(uint64_t),
        .inline_bytes = sizeof(uint64_t)};
    const uint8_t *payload = body + sizeof run;
    for (uint32_t i = 0; i < record->aux; i++, ready.id.task.index++, payload += sizeof(uint64_t))
        take_ready(client, &ready, payload);
}

void mob_client_take(struct mob_client *client, const struct mob_record *record, const uint8_t *body)
{
    uint32_t bytes = record->bytes - (uint32_t)sizeof *record;
    switch ((enum mob_in_record)record->type) {
    case MOB_IN_READY: {
        struct mob_in_ready ready;
        if (bytes < sizeof ready)
            return;
        memcpy(&ready, body, sizeof ready);
        if (ready.inline_bytes > bytes - sizeof ready)
            return;
        take_ready(client, &ready, body + sizeof ready);
        if (client->hooks != NULL)
            client->hooks->record(client, record, body);
        return;
    }
    case MOB_IN_READY_RUN: /* never to a worker */
        take_ready_run(client, record, body, bytes);
        return;
    case MOB_IN_REPLY: {
        struct mob_in_reply reply;
        if (bytes < sizeof reply)
            return;
        memcpy(&reply, body, sizeof reply);
        if (reply.payload_bytes <= bytes - sizeof reply)
            mob_client_on_reply(client, &reply, body + sizeof reply);
        return;
    }
    case MOB_IN_MISSED:
        client->rewatch = true;
        client->rewatch_chunk = 0;
        mob_levels_missed(client);
        return;
    case MOB_IN_ACKED:
        return;
    case MOB_IN_SPEC:
    case MOB_IN_SIBLING:
    case MOB_IN_CANCEL:
    case MOB_IN_OUTCOME:
    case MOB_IN_STOP:
    case MOB_IN_FUNCTION:
    case MOB_IN_REVOKED:
    case MOB_IN_NEST:
    case MOB_IN_TAKEN_BACK:
        if (client->hooks != NULL)
            client->hooks->record(client, record, body);
        return;
    }
}

void mob_client_end_damaged_worker(struct mob_client *client)
{
    if (!client->worker || !mob_store_rings_damaged(client->store))
        return;
    MOB_LOG_ERROR("sdk", "worker_ends", "reason=\"its rings were written over\"");
    _exit(EXIT_FAILURE);
}

static void rewatch(struct mob_client *client);

uint32_t mob_client_pump(struct mob_client *client)
{
    uint32_t taken = 0;
    struct mob_record record;
    const uint8_t *body;
    if (client->pumping) /* a record that is being used needs room in the other ring */
        return 0;
    client->pumping = true;
    while ((body = mob_store_in_peek(client->store, &record)) != NULL) {
        mob_client_take(client, &record, body);
        mob_store_in_pop(client->store);
        /* A long burst is read while more arrives: give room back in between. */
        if ((++taken & 255) == 0)
            mob_store_in_release(client->store);
    }
    if (taken > 0)
        mob_store_in_release(client->store);
    else
        mob_client_end_damaged_worker(client);
    client->pumping = false;
    if (__builtin_expect(client->rewatch, 0))
        rewatch(client);
    return taken;
}

/* ---- after MOB_IN_MISSED ---- */

struct watch_batch {
    struct mob_object_id ids[WATCH_BATCH];
    uint32_t count;
};

/* Without waiting: when the ring is full the rest is asked for at the next turn. */
static bool batch_send(struct mob_client *client, struct watch_batch *batch)
{
    if (batch->count == 0)
        return true;
    uint32_t bytes = batch->count * (uint32_t)sizeof(struct mob_object_id);
    void *body = mob_store_out_reserve(client->store, bytes);
    if (body == NULL)
        return false;
    struct mob_writer w = mob_writer_of(body, bytes);
    mob_write_bytes(&w, batch->ids, bytes);
    mob_client_commit(client, MOB_OUT_WATCH, (uint16_t)batch->count, bytes);
    batch->count = 0;
    return true;
}

/* Where items do not come by themselves any more: the one behind those that are here. Whoever waits for the
 * end need not take any. */
void mob_stream_pull_on(struct mob_client *client, struct mob_future *stream)
{
    struct mob_stream_state *state = stream->as.stream;
    struct mob_object_id id = mob_future_object(stream);
    id.slot = state->seen > state->next ? state->seen : state->next;
    if (!state->pulls || id.slot < state->pulled || state->last != UINT32_MAX)
        return;
    void *body = mob_store_out_reserve(client->store, sizeof id);
    if (body == NULL) { /* full: at the next turn, with all others */
        client->rewatch = true;
        client->rewatch_chunk = 0;
        return;
    }
    struct mob_writer w = mob_writer_of(body, sizeof id);
    mob_write_bytes(&w, &id, sizeof id);
    mob_client_commit(client, MOB_OUT_WATCH, 1, sizeof id);
    state->pulled = id.slot + 1;
}

static bool rewatch_chunk(struct mob_client *client, struct mob_chunk *chunk, struct watch_batch *batch)
{
    for (uint32_t i = 0; i < chunk->issued; i++) {
        struct mob_future *future = mob_chunk_slot(chunk, i);
        if (future->state != MOB_FUTURE_PENDING && future->state != MOB_FUTURE_STREAM)
            continue;
        if (batch->count == WATCH_BATCH && !batch_send(client, batch))
            return false;
        struct mob_object_id id = mob_future_object(future);
        if (future->state == MOB_FUTURE_STREAM) {
            struct mob_stream_state *state = future->as.stream;
            id.slot = state->seen > state->next ? state->seen : state->next;
            state->pulls = true;
            state->pulled = id.slot + 1;
        }
        batch->ids[batch->count++] = id;
    }
    return batch_send(client, batch);
}

static bool rewatch_general(struct mob_client *client, struct watch_batch *batch)
{
    for (uint32_t i = 0; client->general_count > 0 && i <= client->general_mask; i++)
        for (struct mob_general_future *g = client->general[i]; g != NULL; g = g->next) {
            if (g->future.state != MOB_FUTURE_PENDING || !(g->future.flags & MOB_FUTURE_WATCHED))
                continue;
            if (batch->count == WATCH_BATCH && !batch_send(client, batch))
                return false;
            batch->ids[batch->count++] = g->id;
        }
    return batch_send(client, batch);
}

static void rewatch(struct mob_client *client)
{
    struct watch_batch *batch = malloc(sizeof *batch);
    if (batch == NULL)
        return; /* stays due */
    batch->count = 0;
    uint32_t number = 0;
    bool sent = true;
    for (struct mob_family *family = client->family; sent && family != NULL; family = family->older)
        for (uint32_t c = 0; sent && c < family->chunk_count; c++) {
            if (family->chunks[c] == NULL || number++ < client->rewatch_chunk)
                continue;
            sent = rewatch_chunk(client, family->chunks[c], batch);
            client->rewatch_chunk += sent;
        }
    if (sent && rewatch_general(client, batch))
        client->rewatch = false;
    free(batch);
}
