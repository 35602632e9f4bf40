/* May this be told now, and to whom? (ARCHITECTURE "Output commit")
 *
 * A client publishes the record that explains an object, then seals the object. A pass of the node takes
 * records up to a ticket only, so it may find an object sealed whose record it has not taken: nothing that
 * is queued behind the log now would come behind that record. Node thread only.
 */
#ifndef MOB_RUNTIME_NODE_TAKEN_H
#define MOB_RUNTIME_NODE_TAKEN_H

#include "runtime/node/node.h"

/* Has the record of this sealed object been taken? Else node_object_ready comes when it is. `info` is what
 * the store says of it. */
bool node_object_taken(struct node *node, struct mob_object_id id, const struct mob_object_info *info);
/* A client that lives and dies with the node, or that has asked for it (MOB_SESSION_READ_LOCAL), may see what
 * is not committed. */
bool node_sees_uncommitted(const struct node_client *client);

#endif
