/* A task waits for others and asks whether one of them may run on top of it, on its worker's stack
 * (docs/adr/nested-stack.md). For the node's thread. */
#ifndef MOB_RUNTIME_NODE_SUSPENDED_H
#define MOB_RUNTIME_NODE_SUSPENDED_H

#include "runtime/node/node.h"

/* MOB_OUT_SUSPENDED. Always answered by one MOB_IN_NEST. False: the record does not parse. */
MOB_MUST_USE bool node_suspended(
    struct node *node, struct node_client *client, uint16_t count, const uint8_t *body, uint32_t bytes);
/* Ends workers on whose stack a task could go on, but for one above it that sleeps: what that one waits for
 * may be the other's to make. They run again, apart. */
void node_suspended_tick(struct node *node);

#endif
