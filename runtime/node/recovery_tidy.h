/* RECOVER records that are of no use, and that nobody would look at any more. One is left when a log's
 * registration was lost with everything of its shard and the record, on another, was not; when the record's
 * removal was lost so, and RECOVERED was not; and by an incarnation that was over, and did not know it yet,
 * which took a record again that its successor had removed.
 *
 * At the node's start, when it has the records that it needs. Blocks. Node thread only.
 */
#ifndef MOB_RUNTIME_NODE_RECOVERY_TIDY_H
#define MOB_RUNTIME_NODE_RECOVERY_TIDY_H

#include "runtime/node/node.h"

/* Removes the records of logs that are earlier than this node's, and either RECOVERED or not there at all. An
 * error ends the start, as those of its other steps do: what is not answered yet comes to frames of here, so
 * the client has to go. */
MOB_MUST_USE enum mob_status recovery_tidy(struct node *node, int64_t deadline);

#endif
