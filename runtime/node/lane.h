/* Records that wait for their turn.
 *
 * A submission whose id may be in the lineage waits until that was looked up. The log must be in ticket order
 * (ARCHITECTURE "Tickets"), a caller's calls must reach their actor in its order, and what a client asks for
 * behind a submission (a flush, a cancel, the end of the task that made it) must find it done. So all that
 * comes behind a record that waits, of whatever client, waits behind it in one queue, and is taken from there
 * in the same order. Look-ups of waiting submissions are asked for as they come, so that a queue of them
 * takes the time of one. Node thread only. Bounded by LANE_BYTES_MAX: then the rings are not read.
 */
#ifndef MOB_RUNTIME_NODE_LANE_H
#define MOB_RUNTIME_NODE_LANE_H

#include "runtime/node/node.h"

#define LANE_BYTES_MAX (16u << 20)

struct lane *lane_create(void);
void lane_destroy(struct lane *lane);

/* Records that were just taken from a client's ring: now, or when their turn comes. */
void node_take(struct node *node, const struct mob_store_run *run);
/* Takes what has its turn. Returns how many records. */
uint32_t node_lane_run(struct node *node);
bool node_lane_full(const struct node *node);
/* Calls fn behind everything that this client published: its end. False = there is nothing; not called.
 * `argument` is copied. */
bool node_lane_then(struct node *node, struct node_client *client,
    void (*fn)(struct node *node, struct node_client *client, const void *argument), const void *argument,
    uint32_t bytes);
/* Ring position of the client's first record that waits; false = none. */
bool node_lane_from(const struct node_client *client, uint64_t *position_out);

#endif
