/* An object that no log knows and nobody makes: it never was, or the control store has lost it (GCS.md 8,
 * gcs/client/losses.h). Node thread only.
 */
#ifndef MOB_RUNTIME_NODE_LOST_H
#define MOB_RUNTIME_NODE_LOST_H

#include "runtime/node/known.h"

/* Whoever waits for it is told which: now, or, when what was lost has to be read first, by `again`, which the
 * object is looked up for once more, since it may have been logged meanwhile; its `arg` is the node. */
void node_lost_ask(struct node *node, struct mob_object_id id, known_done_fn *again);
/* MOB_NOT_FOUND, or, with the time of a loss, MOB_LOST_UNCOMMITTED and words. */
void node_lost_tell(struct node *node, struct mob_object_id id, int64_t lost_wall_ns);

#endif
