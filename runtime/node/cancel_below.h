/* Cancel of what runs on below a task that has ended by itself. Node thread only.
 *
 * Nobody keeps the children of ended tasks. Each living task knows its parent, though, and of parents that
 * have ended the lineage knows it: so the way is up, from all that lives in the job, until every stream of
 * children is known to be below the task or not. What is submitted meanwhile is noted as it comes, so that a
 * tree which grows faster than it can be looked up is found whole; then all that lives of it is cancelled in
 * one pass.
 *
 * Bounds: BELOW_WALKS_MAX at a time, and BELOW_ASKED_MAX ended tasks that are looked up for one.
 */
#ifndef MOB_RUNTIME_NODE_CANCEL_BELOW_H
#define MOB_RUNTIME_NODE_CANCEL_BELOW_H

#include "runtime/node/node.h"

enum { BELOW_WALKS_MAX = 8, BELOW_ASKED_MAX = 1 << 17 };

/* `told`: living tasks that were cancelled. MOB_NOT_FOUND: the lineage does not know the task. MOB_DENIED.
 * MOB_QUEUE_FULL: beyond a bound; or an error of the control store. */
typedef void below_done_fn(struct node *node, void *arg, enum mob_status status, uint32_t told);

/* `done` is called once, also before this returns; NULL = nobody asks. */
void node_cancel_below(struct node *node, const struct node_client *client,
    const struct mob_out_cancel *cancel, below_done_fn *done, void *arg);
/* A task will have children with this head. Only while node->below is not NULL. */
void node_below_note(struct node *node, const struct mob_spec_head *head);
/* At the node's end: nobody is told. */
void node_below_free(struct node *node);

#endif
