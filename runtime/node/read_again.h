/* Lost results of calls that only read (MOB_SPEC_READ_ONLY). No edge tells of such a call, so no replay has
 * it by itself; its completion says which calls stood before it. It runs again where that state is had: in
 * its actor's own worker, while that is not past it, else in a shadow's (shadow.h). docs/adr/read-only.md.
 * The node's thread only.
 */
#ifndef MOB_RUNTIME_NODE_READ_AGAIN_H
#define MOB_RUNTIME_NODE_READ_AGAIN_H

#include "runtime/node/known.h"

/* The bytes of `known->id`, of such a call that has finished and is not queued, are gone. */
void node_read_again(struct node *node, const struct known *known);

#endif
