/* What a task gave, told to dependents, watchers and its submitter: each of its returns and items becomes
 * ready, as a value, as what another object becomes (a tail call), as what the log holds when it ran again,
 * or as an error. announce.c; the node's thread only. */
#ifndef MOB_RUNTIME_NODE_ANNOUNCE_H
#define MOB_RUNTIME_NODE_ANNOUNCE_H

#include "runtime/node/node.h"

#define NODE_ERROR_BYTES_MAX 4096 /* of an error's payload */

/* Of one that ended well. `maker` = its worker. */
void node_announce_returns(struct node *node, struct node_task *task, const struct node_client *maker,
    const struct mob_completion *completion);
/* Of a generator that runs. */
void node_announce_item(struct node *node, struct node_task *task, const struct node_client *maker,
    const struct mob_return_view *r);
/* Of a task that runs again: this put is not what the log says it was. */
void node_announce_other_put(struct node *node, struct node_task *task, const struct node_client *maker,
    const struct mob_return_view *put);
/* In every return slot, so that whoever asks for any of them gets it. */
void node_announce_error(struct node *node, struct node_task *task, enum mob_status status,
    const uint8_t *payload, uint32_t bytes);
/* It ran again and decides nothing: what the log holds stands. */
void node_announce_logged(struct node *node, const struct node_task *task);
/* It ran again and gave something else: what the first run gave stands, and what came back as it was is there
 * again. */
void node_announce_what_stands(struct node *node, struct node_task *task, const struct node_client *maker,
    const struct mob_completion *completion);
/* It ran again for bytes that were lost, and gave others: they cannot be had any more. */
void node_announce_diverged(struct node *node, struct node_task *task);

/* It ends, and puts that somebody waits for it to make again did not come: they are the error that ended it
 * (payload NULL: it ended well, and so is another one), or are looked for in an earlier generation. */
void node_announce_missing_puts(struct node *node, struct node_task *task, enum mob_status status,
    const uint8_t *payload, uint32_t bytes);

#endif
