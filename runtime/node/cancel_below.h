/* Cancel of what runs on below a task that has ended by itself, or below ended children of one that lives.
 * Node thread only.
 *
 * Nobody keeps the children of ended tasks. Each living task knows its parent, though, and of parents that
 * have ended the lineage knows it: so the way is up, from all that lives in the job, until every stream of
 * children is known to be below the task or not. What is submitted meanwhile is noted as it comes, so that a
 * tree which grows faster than it can be looked up is found whole; then all that lives of it is cancelled in
 * one pass.
 *
 * Cancels of one job share a walk, which looks at all that lives in the job: those that come while one is
 * under way have the next one together, and that does not look up again what the one before has found. Only
 * who asks how many were told has a walk to itself.
 *
 * Bounds: BELOW_WALKS_MAX at a time, BELOW_ASKED_MAX ended tasks that are looked up for one, and
 * BELOW_DUE_MAX tasks whose walk has not begun.
 */
#ifndef MOB_RUNTIME_NODE_CANCEL_BELOW_H
#define MOB_RUNTIME_NODE_CANCEL_BELOW_H

#include "runtime/node/node.h"

enum { BELOW_WALKS_MAX = 8, BELOW_ASKED_MAX = 1 << 17, BELOW_DUE_MAX = 1 << 16 };

/* `told`: living tasks that were cancelled. MOB_NOT_FOUND: the lineage does not know the task. MOB_DENIED.
 * MOB_QUEUE_FULL: beyond a bound; or an error of the control store. */
typedef void below_done_fn(struct node *node, void *arg, enum mob_status status, uint32_t told);

/* `done` is called once, also before this returns. */
void node_cancel_below(struct node *node, const struct node_client *client,
    const struct mob_out_cancel *cancel, below_done_fn *done, void *arg);
/* The cancel of a task of this job, which the caller may cancel, has met ended children: what lives below
 * them is cancelled too, by a walk that begins with this pass or a later one. */
void node_below_later(struct node *node, const struct node_job *job, const struct mob_out_cancel *cancel);
/* The same below a task of this job that has ended. */
void node_below_ended(struct node *node, const struct node_job *job, const struct mob_out_cancel *cancel);
/* Is there one whose walk may begin? */
bool node_below_due(const struct node *node);
/* Once a pass, after its records. */
void node_below_start(struct node *node);
/* A task will have children with this head. Only while node->below is not NULL. */
void node_below_note(struct node *node, const struct mob_spec_head *head);
/* At the node's end: nobody is told. */
void node_below_free(struct node *node);

#endif
