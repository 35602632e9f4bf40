/* What chain.c (protocol), chain_ops.c (meaning of the operations) and chain_collect.c (after a restart)
 * share. Internal to gcs/chain.
 */
#ifndef MOB_GCS_CHAIN_CHAIN_INTERNAL_H
#define MOB_GCS_CHAIN_CHAIN_INTERNAL_H

#include "gcs/chain/chain.h"
#include "gcs/chain/chain_clients.h"

/* A request that waits for the end of collecting. */
struct mob_chain_collected {
    struct mob_chain_put put;
    uint64_t arrival;
};

/* A loss that is named when collecting ends, behind the old entries. */
struct mob_chain_loss {
    uint64_t seal; /* a log, or 0 */
    char text[256];
};

struct mob_chain {
    struct mob_chain_options options;
    struct mob_chain_clients clients;
    uint64_t epoch, applied, committed, durable, duplicates;

    /* Entries above durable, oldest first: ordinals [first, end), of which those below `stored` are
     * committed. */
    struct mob_chain_entry *ring;
    size_t capacity;
    uint64_t first, stored, end;

    struct mob_chain_action *actions;
    size_t action_count, action_capacity, action_next;

    bool collecting;
    uint64_t history;
    struct mob_chain_collected *collected;
    size_t collected_count, collected_capacity;
    struct mob_chain_loss *losses;
    size_t loss_count;
};

static inline struct mob_chain_entry *mob_chain_at(const struct mob_chain *c, uint64_t ordinal)
{
    return &c->ring[ordinal & (c->capacity - 1)];
}

/* Room for one more action, so that what follows cannot fail half-way. */
MOB_MUST_USE enum mob_status mob_chain_reserve(struct mob_chain *c, size_t actions);
void mob_chain_push(struct mob_chain *c, const struct mob_chain_action *action);
/* Appends an entry with its effect applied, and its STORE. `seq` is applied + 1, or higher while collected
 * requests are applied. Takes entry->hold and drops on MOB_OK. */
MOB_MUST_USE enum mob_status mob_chain_append(
    struct mob_chain *c, const struct mob_chain_entry *entry, uint64_t seq);
/* Fills status, version, number, next and drops of `entry` from the request and the tables: nothing is
 * changed. */
MOB_MUST_USE enum mob_status mob_chain_resolve(
    struct mob_chain *c, const struct mob_chain_put *put, uint64_t seq, struct mob_chain_entry *entry);
/* Changes the tables as `entry` says; MOB_NO_MEMORY or MOB_GCS_FULL change nothing. */
MOB_MUST_USE enum mob_status mob_chain_apply(struct mob_chain *c, const struct mob_chain_entry *entry);
/* A LOSS entry with `text` and, unless `seal` is 0, the sealing of that log: now, or when collecting ends. */
MOB_MUST_USE enum mob_status mob_chain_name_loss(struct mob_chain *c, const char *text, uint64_t seal);
/* A LOSS entry at `seq`: text says what may be missing. */
MOB_MUST_USE enum mob_status mob_chain_append_loss(struct mob_chain *c, uint64_t seq, const char *text);
/* put's request becomes the next entry at seq. */
MOB_MUST_USE enum mob_status mob_chain_accept(
    struct mob_chain *c, const struct mob_chain_put *put, uint64_t seq);
MOB_MUST_USE enum mob_status mob_chain_collect(
    struct mob_chain *c, struct mob_chain_client *client, const struct mob_chain_put *put);

#endif
