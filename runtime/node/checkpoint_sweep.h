/* Rows of checkpoints (docs/adr/checkpoints.md) go when nothing can need them any more.
 *
 * A row is needed while its actor lives, on this node or another: then the control store has a row of that,
 * too. A dead actor's is needed while a lost result of its calls may be made again by a shadow that begins
 * there (shadow.h), which takes the actor's creation from the lineage: with that it is of no use. So all rows
 * are looked at, by their keys alone, when the node starts, when lineage was dropped, and each hour, since
 * PostgreSQL's days go without a word. What is found to be of no use is removed as it was listed: a
 * checkpoint that is written over it meanwhile stays, for the next look.
 *
 * In memory: one page of keys. Looks cost at most about a hundredth of the time. Node thread only.
 */
#ifndef MOB_RUNTIME_NODE_CHECKPOINT_SWEEP_H
#define MOB_RUNTIME_NODE_CHECKPOINT_SWEEP_H

#include "runtime/node/node.h"

struct checkpoint_sweep *checkpoint_sweep_create(struct node *node);
void checkpoint_sweep_destroy(struct checkpoint_sweep *sweep); /* after the control store's client */
/* Lineage was dropped, or a checkpoint came late: a look soon, behind the one that is under way. */
void checkpoint_sweep_due(struct node *node);
/* Once a pass: begins the look whose time has come. */
void checkpoint_sweep_step(struct node *node);
/* When that is; INT64_MAX: one is under way. */
int64_t checkpoint_sweep_next(const struct node *node);

#endif
