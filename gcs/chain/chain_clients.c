#include "gcs/chain/chain_clients.h"

#include <stdlib.h>

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
        .capacity = t->capacity == 0 ? 64 : t->capacity * 2, .count = t->count};
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
