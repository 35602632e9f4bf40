#include "gcs/chain/chain_clients.h"

#include <stdlib.h>

#include "common/base/hash.h"
#include "gcs/chain/chain.h"

static size_t slot_of(const struct mob_chain_clients *t, uint64_t id)
{
    uint64_t h = id * 0x9e3779b97f4a7c15ull;
    return (size_t)(h ^ h >> 31) & (t->capacity - 1);
}

void mob_chain_clients_fini(struct mob_chain_clients *t)
{
    for (size_t i = 0; i < t->capacity; i++)
        free(t->slots[i]);
    free(t->slots);
    *t = (struct mob_chain_clients){0};
}

struct mob_chain_client *mob_chain_clients_find(const struct mob_chain_clients *t, uint64_t id)
{
    if (t->capacity == 0)
        return NULL;
    for (size_t i = slot_of(t, id);; i = (i + 1) & (t->capacity - 1)) {
        if (t->slots[i] == NULL || t->slots[i]->id == id)
            return t->slots[i];
    }
}

struct mob_chain_client *mob_chain_clients_opened(const struct mob_chain_clients *t, uint64_t nonce)
{
    for (size_t i = 0; i < t->capacity; i++) {
        const struct mob_gcs_reply *open = t->slots[i] == NULL ? NULL : &t->slots[i]->replies[0];
        if (open != NULL && open->request == 0 && open->seq != 0 && open->version == nonce)
            return t->slots[i];
    }
    return NULL;
}

static void place(struct mob_chain_clients *t, struct mob_chain_client *client)
{
    size_t i = slot_of(t, client->id);
    while (t->slots[i] != NULL)
        i = (i + 1) & (t->capacity - 1);
    t->slots[i] = client;
}

static enum mob_status grow(struct mob_chain_clients *t)
{
    struct mob_chain_clients bigger = {
        .capacity = t->capacity == 0 ? 64 : t->capacity * 2, .count = t->count, .digest = t->digest};
    bigger.slots = calloc(bigger.capacity, sizeof(struct mob_chain_client *));
    if (bigger.slots == NULL)
        return MOB_NO_MEMORY;
    for (size_t i = 0; i < t->capacity; i++)
        if (t->slots[i] != NULL)
            place(&bigger, t->slots[i]);
    free(t->slots);
    *t = bigger;
    return MOB_OK;
}

static uint64_t last_hash(const struct mob_chain_client *client)
{
    uint64_t pair[2] = {client->id, client->last};
    return mob_hash64(pair, sizeof pair);
}

static uint64_t reply_hash(const struct mob_chain_client *client, const struct mob_gcs_reply *reply)
{
    struct {
        uint64_t id;
        struct mob_gcs_reply reply;
    } row = {client->id, *reply};
    return reply->seq == 0 ? 0 : mob_hash64(&row, sizeof row);
}

void mob_chain_client_set_last(struct mob_chain_clients *t, struct mob_chain_client *client, uint64_t last)
{
    t->digest -= last_hash(client);
    client->last = last;
    t->digest += last_hash(client);
}

void mob_chain_client_set_reply(
    struct mob_chain_clients *t, struct mob_chain_client *client, const struct mob_gcs_reply *reply)
{
    struct mob_gcs_reply *slot = &client->replies[reply->request % MOB_GCS_WINDOW];
    t->digest -= reply_hash(client, slot);
    *slot = *reply;
    t->digest += reply_hash(client, slot);
}

static uint64_t client_hash(const struct mob_chain_client *client)
{
    uint64_t sum = last_hash(client);
    for (size_t i = 0; i < MOB_GCS_WINDOW; i++)
        sum += reply_hash(client, &client->replies[i]);
    return sum;
}

void mob_chain_client_reset(struct mob_chain_clients *t, struct mob_chain_client *client)
{
    t->digest -= client_hash(client);
    *client = (struct mob_chain_client){.id = client->id};
    t->digest += client_hash(client);
}

size_t mob_chain_clients_after(
    const struct mob_chain_clients *t, uint64_t after, const struct mob_chain_client **out, size_t max)
{
    size_t count = 0;
    for (size_t i = 0; i < t->capacity; i++) {
        const struct mob_chain_client *client = t->slots[i];
        if (client == NULL || client->id <= after || (count == max && client->id > out[max - 1]->id))
            continue;
        size_t at = count < max ? count++ : max - 1;
        for (; at > 0 && out[at - 1]->id > client->id; at--)
            out[at] = out[at - 1];
        out[at] = client;
    }
    return count;
}

enum mob_status mob_chain_clients_add(
    struct mob_chain_clients *t, uint64_t id, struct mob_chain_client **client_out)
{
    if (t->count >= MOB_CHAIN_CLIENTS_MAX)
        return MOB_QUEUE_FULL;
    if (2 * (t->count + 1) > t->capacity) {
        enum mob_status status = grow(t);
        if (status != MOB_OK)
            return status;
    }
    struct mob_chain_client *client = calloc(1, sizeof *client);
    if (client == NULL)
        return MOB_NO_MEMORY;
    client->id = id;
    place(t, client);
    t->count++;
    t->digest += client_hash(client);
    *client_out = client;
    return MOB_OK;
}

void mob_chain_clients_remove(struct mob_chain_clients *t, uint64_t id)
{
    if (t->capacity == 0)
        return;
    size_t i = slot_of(t, id);
    while (t->slots[i] != NULL && t->slots[i]->id != id)
        i = (i + 1) & (t->capacity - 1);
    if (t->slots[i] == NULL)
        return;
    t->digest -= client_hash(t->slots[i]);
    free(t->slots[i]);
    t->slots[i] = NULL;
    t->count--;
    /* Those behind it in the run may have been pushed there by it. */
    for (i = (i + 1) & (t->capacity - 1); t->slots[i] != NULL; i = (i + 1) & (t->capacity - 1)) {
        struct mob_chain_client *moved = t->slots[i];
        t->slots[i] = NULL;
        place(t, moved);
    }
}
