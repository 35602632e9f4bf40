/* RECOVER records: which sealed logs of this node its incarnation recovers, and how far that is (GCS.md "Node
 * logs and the cut"; docs/adr/recovery-without-relogging.md says what they mean here).
 *
 * Each log of an earlier incarnation that is not RECOVERED yet gets a row (common/wire/recover_row.h), which
 * is taken by compare-and-set before anything of that log runs, from a recoverer that has died too. When all
 * that the log left unfinished is in this node's tables, the row says ENDED. When all of that has ended, and
 * this log's blocks that say so are committed, the row goes, and who had it says RECOVERED: nobody needs to
 * look into that log for unfinished work any more.
 *
 *   recovery_add(node, incarnation);            // each, oldest first
 *   status = recovery_claim(node, deadline);    // blocks; MOB_SEALED: a later incarnation has them
 *   status = recovery_waits(node, true);        // PostgreSQL does not answer; false: it does
 *   recovery_took(node, incarnation, task);     // is in the tables, or recovery_lacks(node, incarnation)
 *   recovery_begun(node);                       // that was all; what follows is written behind the loop's
 * back recovery_step(node);                        // once a second while recovery_open(node)
 *
 * Node thread only. Bounded by the logs that are not recovered, and the unfinished tasks in them.
 */
#ifndef MOB_RUNTIME_NODE_RECOVERY_H
#define MOB_RUNTIME_NODE_RECOVERY_H

#include <jansson.h>

#include "runtime/node/node.h"

struct recovery *recovery_create(void);
void recovery_destroy(struct recovery *recovery); /* NULL is fine; after the control store's client */

void recovery_add(struct node *node, uint64_t incarnation);
MOB_MUST_USE enum mob_status recovery_claim(struct node *node, int64_t deadline);
/* Says so in the records, once; blocks. MOB_SEALED: a later incarnation has them. */
MOB_MUST_USE enum mob_status recovery_waits(struct node *node, bool for_postgres);
void recovery_took(struct node *node, uint64_t incarnation, struct mob_task_id task);
/* There was no place for one of its tasks: nobody runs it, so the record does not end. */
void recovery_lacks(struct node *node, uint64_t incarnation);
void recovery_begun(struct node *node);
void recovery_step(struct node *node);
bool recovery_open(const struct node *node);
/* The log of this incarnation is one of those that were added. */
bool recovery_has(const struct node *node, uint64_t incarnation);
/* The newest of them, for whoever asks what the node is at. A new reference. */
json_t *recovery_json(struct node *node);

#endif
