/* What clients are told: MOB_IN_* records into their inbound rings. notices.c; the node's thread only. */
#ifndef MOB_RUNTIME_NODE_NOTICES_H
#define MOB_RUNTIME_NODE_NOTICES_H

#include "runtime/node/node.h"

struct log_result;

/* An object that became ready on this node. `small` is its payload when that is at hand (and small). */
struct ready_object {
    struct mob_object_id id;
    enum mob_status status;
    enum mob_value_type type;
    uint8_t flags;
    bool remakeable, committed;
    uint64_t size;
    const uint8_t *small; /* NULL when it is only in the store */
};

/* Tell dependents, watchers and the submitter (NODE_NOBODY = none). Whether the submitter has its notice now.
 */
bool node_object_ready(
    struct node *node, const struct ready_object *object, uint32_t submitter, uint32_t session);

/* The same for return 0 of `count` neighbours that ended well, values of eight bytes, whose completions were
 * logged; `slot` is that of their submitter, `task` the first. */
void node_results_ready(
    struct node *node, const struct log_result *first, const uint64_t *values, uint32_t count);

/* What a block's acknowledgement sets free (lineage_log.h); `node` is a struct node. */
void node_run_effect(void *node, const struct effect *effect);
void node_fetch_effect(void *node, const struct effect *effect); /* lineage_log.h, fetch_effect */
void node_before_block_close(void *node);
/* The same for records that went into no block: a driver that only asks gets its ring back, too. */
void node_acknowledge_rings(struct node *node);
/* False: its ring is full, and it will ask. */
bool node_notice_ready(struct node *node, uint32_t slot, const struct ready_object *object);
/* Tells the client when the object is ready, once; at once if it is. Nobody makes it: it is looked up. */
void node_watch(struct node *node, struct node_client *client, struct mob_object_id id);
/* As a watch, but answered by a reply: a fetch. */
void node_watch_request(
    struct node *node, struct node_client *client, struct mob_object_id id, uint32_t request);
/* The same when its making is under way. */
void node_watch_made(struct node *node, struct node_client *client, struct mob_object_id id);
/* Does any task wait for an input, any client for what it asked for, any tail call for its target? Mostly
 * not, and then nobody has to be looked for who waits for this or that. */
bool node_awaits_any(const struct node *node);
/* Has a client asked for it that was not told yet? */
bool node_watched(const struct node *node, struct mob_object_id id);
/* Of a client that ends: all that it watches. */
void node_unwatch_client(struct node *node, struct node_client *client);
/* The answer to a client's request; copies the payload. A client that has gone (`session` is another) gets
 * none; for one whose ring is full it is kept. More than a record takes: MOB_TOO_LARGE in its place. */
void node_reply(struct node *node, uint32_t slot, uint32_t session, uint32_t request, enum mob_status status,
    const void *payload, uint32_t bytes);
/* Once a pass: publishes what was reserved in the rings that are marked, and wakes who sleeps. */
void node_flush_rings(struct node *node);
void node_mark_flush(struct node *node, struct node_client *client);
/* Room for a record of `bytes` in the client's inbound ring, which is marked: fill it in before the pass
 * ends. NULL = there is none now (store.h, mob_store_in_reserve). */
void *node_in_reserve(
    struct node *node, struct node_client *client, uint8_t type, uint8_t flags, uint16_t aux, uint32_t bytes);
/* The same for what must arrive, in this place. NULL = the client does not read at all. */
void *node_in_append(
    struct node *node, struct node_client *client, uint8_t type, uint8_t flags, uint16_t aux, uint32_t bytes);
/* Once a pass: clients whose rings were full get the replies that were kept, then MOB_IN_MISSED. */
void node_missed_retry(struct node *node);
/* What is owed to a client that ends. */
void node_notices_forget(struct node *node, struct node_client *client);

#endif
