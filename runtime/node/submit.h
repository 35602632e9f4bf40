/* How specs enter the node: fresh ones (submit.c), those whose id may be in the lineage (submit_known.c), and
 * those of the lineage that run again. The node's thread only. */
#ifndef MOB_RUNTIME_NODE_SUBMIT_H
#define MOB_RUNTIME_NODE_SUBMIT_H

#include "runtime/node/node.h"

/* A spec enters the node; `keyed`: MOB_SPEC_KEYED. False: it waits for node->intake_question, and
 * nothing was done. */
bool node_submit(struct node *node, struct node_client *client, const struct mob_spec_head *head,
    struct node_template *template, int64_t submitted_ns, const uint8_t *tail, uint32_t tail_bytes,
    bool keyed);
/* May this id be in the lineage (ARCHITECTURE "Ownership")? `parent` is NULL for drivers. */
bool node_looks_up(const struct node_client *client, const struct node_task *parent, struct mob_task_id task);
/* No log knows it. Roots meet the control store's soft cap. */
void node_submit_fresh(struct node *node, struct node_client *client, const struct mob_spec_head *head,
    struct node_template *template, int64_t submitted_ns, const uint8_t *tail, uint32_t tail_bytes);
/* One whose id may be in the lineage. False as above. */
bool node_submit_looked_up(struct node *node, struct node_client *client, const struct mob_spec_head *head,
    struct node_template *template, int64_t submitted_ns, const uint8_t *tail, uint32_t tail_bytes,
    bool keyed);
/* A known id came with other content: its submitter hears it. */
void node_tell_diverged(struct node *node, struct node_client *client, const struct mob_spec_head *head);
/* That a call only reads is no part of what was asked for: logs of before may say otherwise. */
static inline void node_spec_reads_alike(struct mob_spec_head *head, const struct mob_spec_head *as)
{
    const uint16_t reads = MOB_SPEC_READ_ONLY;
    head->flags = (uint16_t)((head->flags & ~reads) | (as->flags & reads));
}
/* A task whose spec is in the lineage already runs (again): recovery, re-making, restart of an actor. */
MOB_MUST_USE enum mob_status node_resubmit(struct node *node, const struct mob_spec *spec,
    int64_t submitted_ns, uint8_t flags, struct node_task **task_out);
/* A logged submission that is not taken: its task ends with an error that says why. MOB_AGAIN: it enters
 * later.
 */
void node_submit_refused(struct node *node, struct node_task *task, enum mob_status status);
/* A resubmitted task enters: inputs, actor order, scheduler. */
void node_enter(struct node *node, struct node_task *task);

#endif
