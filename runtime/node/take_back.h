/* Tasks that stand behind a long one in a worker's hands go to others, or end if they were cancelled. For the
 * node's thread. */
#ifndef MOB_RUNTIME_NODE_TAKE_BACK_H
#define MOB_RUNTIME_NODE_TAKE_BACK_H

#include "runtime/node/node.h"

/* MOB_DECIDE_TAKE_BACK. Waits for nobody. When it cannot be now the scheduler decides it again later. */
void node_take_back(struct node *node, uint32_t number);

#endif
