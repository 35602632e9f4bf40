/* Lost objects that are made again by running their task, or replaying their actor's call, again: each future
 * has one value, so a run that gives other bytes than the first one did has not made them (ARCHITECTURE
 * "Identity"). Only values that stood in the store are compared; the others come from the log. Node thread
 * only.
 */
#ifndef MOB_RUNTIME_NODE_REMADE_H
#define MOB_RUNTIME_NODE_REMADE_H

#include "runtime/node/node.h"

/* A return that stood in the store, as the log says it was. */
struct node_stored_return {
    uint32_t slot;
    bool hashed; /* `hash` is known: it is not of a value over 1 MiB, or was logged by itself */
    uint64_t size;
    struct mob_hash128 hash;
};

/* What this completion of a task that ended well says of them: gives (free) an array; NULL = there are none.
 */
struct node_stored_return *node_remade_stored(const struct mob_completion *first, uint32_t *count_out);
/* The hash of one of them, logged by itself. */
void node_remade_hashed(
    struct node_stored_return *stored, uint32_t count, uint32_t slot, struct mob_hash128 hash);
/* Of all values of a completion, those in the log included; not of the bytes of values over 1 MiB. */
struct mob_hash128 node_remade_digest(const struct mob_completion *completion);
/* A replayed call of an actor gives something else than it gave the first time (GCS.md "Actors", 5). */
bool node_remade_differs(const struct node_task *task, const struct mob_completion *completion);
/* The value of this slot is in the log, and comes from there. */
bool node_remade_in_log(const struct node_task *task, uint32_t slot);
/* This run has no outcome of its own for the slot. Whoever began to wait for it while the run was under way
 * (a watch, an input, a tail call, its submitter come again) gets what the lineage says; nothing when nobody
 * did. For a task that ends now. */
void node_remade_from_log(struct node *node, const struct node_task *task, uint32_t slot);

/* The task runs again: this is what it must give, unless it may give something else (restart_on_divergence).
 * Copies. */
void node_remade_expect(
    struct node *node, struct node_task *task, const struct node_stored_return *stored, uint32_t count);
/* Has it given the same? Else what it made is dropped, and bytes of the first run that are there still stay.
 */
bool node_remade_the_same(struct node *node, const struct node_task *task, const struct node_client *maker,
    const struct mob_completion *completion);

/* The bytes of the first run are there still. */
bool node_remade_kept(struct node *node, const struct node_task *task, uint32_t slot);

#endif
