/* Files of large puts (durable_puts.h) go when the lineage does not know their put any more: with their job,
 * by retention, or when the put was deleted (ARCHITECTURE "How long things live"). Node thread only.
 */
#ifndef MOB_RUNTIME_NODE_PUT_SWEEP_H
#define MOB_RUNTIME_NODE_PUT_SWEEP_H

#include "runtime/node/node.h"

/* Asks the lineage for each file that was last written before this, wall time in ns; INT64_MAX = for all.
 * Goes on by itself; one that is asked for meanwhile follows. Only what is in the log before its file may
 * have a file, so nothing that is being put is taken for gone. */
void node_puts_sweep(struct node *node, int64_t before_wall_ns);
/* Those older than the retention; now and then. */
void node_puts_age(struct node *node, int64_t before_wall_ns);
void node_puts_sweep_destroy(struct node *node);

#endif
