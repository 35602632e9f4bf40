/* Node side of the inbound rings.
 *
 * A record that is larger than half of its ring goes in parts (MOB_REC_PART), and the client may have to read
 * the first before there is room for the last. The node never waits for a client, so such a record stands in
 * private memory until the ring has taken it, and so does one that must neither be left out nor come later
 * than what follows it: the backlog. While there is one, everything else finds the ring full.
 */
#include "runtime/store/store_internal.h"

#include <stdlib.h>

#include "common/base/bytes.h"
#include "common/base/log.h"

enum { HEADER = sizeof(struct mob_record), BACKLOG_BYTES_MAX = 2 * MOB_RECORD_MAX };

static bool too_large_for(const struct mob_node_client *client, uint32_t body_bytes)
{
    return mob_round_up((uint64_t)HEADER + body_bytes, 8) > client->in.size / 2;
}

/* A client that claims to have read what it was not given, or less than before, would be served never again:
 * it is ended, as one whose outbound ring does not parse. */
static void *reserve(struct mob_store *store, struct mob_node_client *client, uint32_t body_bytes)
{
    void *body = mob_ring_reserve(&client->in, &client->seg_client->in_released, body_bytes);
    if (!body && client->in.damaged)
        mob_client_mark_damaged(store, client);
    return body;
}

/* ---- the backlog ---- */

static void *backlog_add(struct mob_store *store, struct mob_node_client *client, uint8_t type, uint8_t flags,
    uint16_t aux, uint32_t body_bytes)
{
    struct mob_backlog *backlog = &client->backlog;
    uint32_t total = (uint32_t)mob_round_up((uint64_t)HEADER + body_bytes, 8);
    if (total > MOB_RECORD_MAX || total > BACKLOG_BYTES_MAX - backlog->used)
        return NULL;
    if (!backlog->bytes)
        backlog->bytes = aligned_alloc(MOB_CACHE_LINE, BACKLOG_BYTES_MAX);
    if (!backlog->bytes)
        return NULL;
    uint8_t *at = backlog->bytes + backlog->used;
    struct mob_record record = {.bytes = total, .type = type, .flags = flags, .aux = aux};
    memset(at + total - 8, 0, 8); /* the padding */
    memcpy(at, &record, HEADER);
    store->backlogs += backlog->used == 0;
    backlog->used += total;
    return at + HEADER;
}

static void backlog_end(struct mob_store *store, struct mob_node_client *client)
{
    store->backlogs -= client->backlog.used > 0;
    free(client->backlog.bytes);
    client->backlog = (struct mob_backlog){0};
}

void mob_inbound_close(struct mob_store *store, struct mob_node_client *client)
{
    backlog_end(store, client);
}

/* A piece of the first record: its next part, or its end under its own type. false = the ring is full. */
static bool push_piece(struct mob_store *store, struct mob_node_client *client)
{
    struct mob_backlog *backlog = &client->backlog;
    struct mob_record record;
    memcpy(&record, backlog->bytes + backlog->at, HEADER);
    const uint8_t *body = backlog->bytes + backlog->at + HEADER + backlog->part;
    uint32_t left = record.bytes - HEADER - backlog->part;
    uint32_t bytes = mob_part_bytes(client->in.size, left);
    void *to = reserve(store, client, bytes);
    if (!to)
        return false;
    MOB_SEG_COPY(to, body, bytes);
    bool last = bytes == left;
    mob_ring_commit(&client->in, last ? record.type : MOB_REC_PART, last ? record.flags : 0,
        last ? record.aux : 0, bytes, 0);
    backlog->part = last ? 0 : backlog->part + bytes;
    backlog->at += last ? record.bytes : 0;
    return true;
}

/* What was reserved is complete when this runs: before a flush, or at the end of a pass. */
static void push_backlog(struct mob_store *store, struct mob_node_client *client)
{
    struct mob_backlog *backlog = &client->backlog;
    while (backlog->at < backlog->used)
        if (!push_piece(store, client))
            return;
    backlog_end(store, client);
}

static void publish(struct mob_node_client *client)
{
    if (client->in.flushed == client->in.head)
        return;
    client->in.flushed = client->in.head;
    MOB_SEG_XCHG(&client->seg_client->in_head, client->in.head);
    /* Behind the cursor: who sees it finds the records that it speaks of. */
    if (client->urgent && client->backlog.used == 0) {
        client->urgent = false;
        MOB_SEG_STORE(&client->seg_client->in_urgent, client->in.head);
    }
    mob_bell_ring(client->seg_client, MOB_ASLEEP_RECORDS);
}

void mob_inbound_push(struct mob_store *store)
{
    for (uint32_t slot = 0; store->backlogs > 0 && slot < store->clients_top; slot++) {
        struct mob_node_client *client = &store->clients[slot];
        if (!client->open || client->backlog.used == 0)
            continue;
        push_backlog(store, client);
        publish(client);
    }
}

/* ---- what the node calls ---- */

bool mob_store_in_backlog(const struct mob_store *store)
{
    return store->backlogs > 0;
}

bool mob_store_in_room(struct mob_store *store, uint32_t slot, uint32_t body_bytes)
{
    MOB_ASSERT(slot < store->view.clients_max);
    struct mob_node_client *client = &store->clients[slot];
    if (!client->open || client->damaged || client->backlog.used > 0)
        return false;
    if (too_large_for(client, body_bytes))
        body_bytes = (uint32_t)(client->in.size / 2) - HEADER;
    /* Reserving writes at most a PAD behind the head; the next reserve does the same again. */
    return reserve(store, client, body_bytes) != NULL;
}

void *mob_store_in_reserve(
    struct mob_store *store, uint32_t slot, uint8_t type, uint8_t flags, uint16_t aux, uint32_t body_bytes)
{
    MOB_ASSERT(slot < store->view.clients_max);
    struct mob_node_client *client = &store->clients[slot];
    if (!client->open || client->damaged)
        return NULL;
    if (client->backlog.used > 0)
        return NULL;
    if (too_large_for(client, body_bytes))
        return backlog_add(store, client, type, flags, aux, body_bytes);
    void *body = reserve(store, client, body_bytes);
    if (!body)
        return NULL;
    mob_ring_commit(&client->in, type, flags, aux, body_bytes, 0);
    return body;
}

uint8_t *mob_store_in_reserve_run(
    struct mob_store *store, uint32_t slot, uint8_t type, uint16_t aux, uint32_t body_bytes, uint32_t *count)
{
    MOB_ASSERT(slot < store->view.clients_max && body_bytes % 8 == 0 && *count > 0);
    struct mob_node_client *client = &store->clients[slot];
    if (!client->open || client->damaged || client->backlog.used > 0 || too_large_for(client, body_bytes))
        return NULL;
    uint8_t *bodies = reserve(store, client, body_bytes);
    if (!bodies)
        return NULL;
    *count = mob_ring_commit_run(&client->in, type, aux, body_bytes, *count);
    return bodies;
}

void *mob_store_in_append(
    struct mob_store *store, uint32_t slot, uint8_t type, uint8_t flags, uint16_t aux, uint32_t body_bytes)
{
    void *body = mob_store_in_reserve(store, slot, type, flags, aux, body_bytes);
    struct mob_node_client *client = &store->clients[slot];
    if (body || !client->open || client->damaged)
        return body;
    return backlog_add(store, client, type, flags, aux, body_bytes);
}

void mob_store_in_flush(struct mob_store *store, uint32_t slot)
{
    MOB_ASSERT(slot < store->view.clients_max);
    struct mob_node_client *client = &store->clients[slot];
    if (!client->open)
        return;
    if (client->backlog.used > 0)
        push_backlog(store, client);
    publish(client);
}

void mob_store_in_urgent(struct mob_store *store, uint32_t slot)
{
    MOB_ASSERT(slot < store->view.clients_max);
    store->clients[slot].urgent = store->clients[slot].open;
}
