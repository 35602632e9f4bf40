/* Lost objects that are made again by running their task, or replaying their actor's call, again: each future
 * has one value, so a run that gives other bytes than the first one did has not made them (ARCHITECTURE
 * "Identity"). Only values that stood in the store are compared; the others come from the log. The worker
 * leaves them unsealed, so that nobody reads one before it was. Node thread only.
 */
#ifndef MOB_RUNTIME_NODE_REMADE_H
#define MOB_RUNTIME_NODE_REMADE_H

#include "runtime/node/node.h"

/* A return, or a put, that stood in the store, as the log says it was. */
struct node_stored_return {
    uint32_t slot; /* in arrays they ascend */
    bool ambiguous; /* nothing is compared */
    bool hashed; /* `hash` is known: it is not of a value over 1 MiB, or was logged by itself */
    uint64_t size;
    struct mob_hash128 hash;
};

/* What the log says of a generator's items, entry by entry: the first of each stands. */
struct node_stored_items {
    struct node_stored_return *stored; /* free */
    uint32_t count;
    uint32_t items; /* of all */
};
void node_remade_note_item(struct node_stored_items *items, uint32_t item, const struct mob_return_view *r);
/* A put that the log speaks of. Two of one slot that differ (attempts that failed leave theirs) are not
 * compared with. */
struct node_stored_puts {
    struct node_stored_return *puts; /* in no order, each once; free */
    uint32_t count;
};
void node_remade_note_put(struct node_stored_puts *puts, const struct mob_out_put *put);
/* The hash of one of them, logged by itself; the first that is given stands. */
void node_remade_put_hashed(struct node_stored_puts *puts, uint32_t slot, struct mob_hash128 hash);
/* Behind the returns in `stored` (free; may be NULL), in order of their slots. */
void node_remade_add_puts(
    struct node_stored_return **stored, uint32_t *count, const struct node_stored_puts *puts);
/* What a put is where it is compared: as a return of that slot. */
struct mob_return_view node_remade_view_of_put(const struct mob_out_put *put);
/* Room for one more in an array that grows when its count is a power of two. */
void *node_remade_room(void *array, uint32_t count, size_t size);
/* What this completion of a task that ended well says of them: gives (free) an array; NULL = there are none.
 */
struct node_stored_return *node_remade_stored(const struct mob_completion *first, uint32_t *count_out);
/* The hash of one of them, logged by itself; the first that is given stands. */
void node_remade_hashed(
    struct node_stored_return *stored, uint32_t count, uint32_t slot, struct mob_hash128 hash);
/* Of all values of a completion, those in the log included; not of the bytes of values over 1 MiB. */
struct mob_hash128 node_remade_digest(const struct mob_completion *completion);
/* A replayed call of an actor gives something else than it gave the first time (GCS.md "Actors", 5). */
bool node_remade_differs(const struct node_task *task, const struct mob_completion *completion);
/* Who may read what was made again in the slot of `r`: from here on everybody; or nobody, ever. */
void node_remade_seal(struct node *node, const struct node_task *task, const struct node_client *maker,
    const struct mob_return_view *r);
void node_remade_drop(struct node *node, const struct node_task *task, const struct node_client *maker,
    const struct mob_return_view *r);
/* The same of all that a completion names which nobody will announce. */
void node_remade_drop_all(struct node *node, const struct node_task *task, const struct node_client *maker,
    const struct mob_completion *completion);
/* This run decides on the slot: its value is not in the log, or was found to be the same. */
bool node_remade_counts(const struct node_task *task, uint32_t slot);
/* A value over 1 MiB whose hash is the first one's. */
bool node_remade_hash_known(const struct node_task *task, const struct mob_return_view *r);
/* The log says what stood in the store here. */
bool node_remade_expects(const struct node_task *task, uint32_t slot);
/* The value of this slot is in the log, and comes from there. */
bool node_remade_in_log(const struct node_task *task, uint32_t slot);
/* This run has no outcome of its own for the slot. Whoever began to wait for it while the run was under way
 * (a watch, an input, a tail call, its submitter come again) gets what the lineage says; nothing when nobody
 * did. For a task that ends now. */
void node_remade_from_log(struct node *node, const struct node_task *task, uint32_t slot);

/* The task runs again: this is what it must give (by slot), and of a generator so many items, unless it may
 * give something else (restart_on_divergence). Copies. */
void node_remade_expect(struct node *node, struct node_task *task, const struct node_stored_return *stored,
    uint32_t count, uint32_t items);
/* Somebody waits for this put of the task, whose bytes are lost: it is told when the task ends without it. */
void node_remade_want_put(struct node *node, struct node_task *task, uint32_t slot);
/* The puts of a task that ends now which it was to make again and did not: calls `missing` for each that
 * somebody waits for. */
void node_remade_each_missing_put(struct node *node, struct node_task *task,
    void (*missing)(struct node *node, struct node_task *task, uint32_t slot, void *arg), void *arg);
/* An item of a generator, or a put, is not what its log says. */
bool node_remade_item_differs(const struct node_task *task, const struct mob_return_view *r);
/* Has it given the same? Else what it made is dropped, and bytes of the first run that are there still stay.
 * Nothing is sealed yet. */
bool node_remade_the_same(struct node *node, const struct node_task *task, const struct node_client *maker,
    const struct mob_completion *completion);

/* The bytes of the first run are there still. */
bool node_remade_kept(struct node *node, const struct node_task *task, uint32_t slot);

#endif
