/* Starting, running and ending the node: what node_main.c needs. */
#ifndef MOB_RUNTIME_NODE_NODE_RUN_H
#define MOB_RUNTIME_NODE_NODE_RUN_H

#include "runtime/node/node.h"

/* `node` is zeroed with its options, cluster and secret set. Blocks until the control store answers and what
 * earlier incarnations left is running; then listens. */
MOB_MUST_USE enum mob_status node_open(struct node *node);
/* What is there to do now, without sleeping: one turn of the loop. For tests. */
void node_turn(struct node *node);
/* Until a signal or a seal. */
void node_loop(struct node *node);
void node_close(struct node *node);

#endif
