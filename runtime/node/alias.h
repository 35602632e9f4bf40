/* Tail calls: a task ended with the future of another. alias.c; the node's thread only. */
#ifndef MOB_RUNTIME_NODE_ALIAS_H
#define MOB_RUNTIME_NODE_ALIAS_H

#include "runtime/node/node.h"

struct ready_object;

/* `id` becomes what `target` becomes. One that would stand for itself, by way of up to 1,024 others, ends as
 * MOB_CYCLE, and so do they. */
#define NODE_CHILDREN_UNKNOWN UINT32_MAX
struct node_tail_call {
    struct mob_object_id id, target;
    uint32_t submitter, session; /* of `id`; NODE_NOBODY */
    struct node_job *job; /* NULL = not known */
    uint32_t generation, children; /* of the task that ended; NODE_CHILDREN_UNKNOWN */
};
void node_alias(struct node *node, const struct node_tail_call *call);
struct alias_table;
struct alias_table *alias_table_create(void);
void alias_table_destroy(struct alias_table *table);
/* A hint that this object is ready soon: fetches where what stands for it would be. */
void node_alias_fetch(const struct node *node, struct mob_object_id id);
/* A second hint, when the first has had time: fetches what stands there. */
void node_alias_fetch_more(const struct node *node, struct mob_object_id id);
/* Does anything stand for it, and wait? */
bool node_alias_awaits(const struct node *node, struct mob_object_id id);
/* False: nothing stands for anything, so that nothing becomes ready with it. */
bool node_alias_any(const struct node *node);
/* `object` became ready: so do those that stand for it. */
void node_alias_ready(struct node *node, const struct ready_object *object);
/* The first return of a task that has ended and that is not ready yet, because what it became is not; NULL.
 */
const struct node_tail_call *node_tail_call_of(const struct node *node, struct mob_task_id task);
/* Does what it becomes in the end live here: a task, or a promise? If not, somebody asked for what is over,
 * and it is being looked up in the lineage. */
bool node_tail_call_lives(struct node *node, const struct node_tail_call *call);
/* What this object becomes, if it stands for another one; else false. */
bool node_tail_target(const struct node *node, struct mob_object_id id, struct mob_object_id *target_out);
/* A cancel goes from such tasks to their children and to what they became, and meets each of them once: */
void node_tail_walk_begin(struct node *node);
/* ... the ids of its children; false = it is none such, or was met in this walk, */
bool node_tail_walk_kin(const struct node *node, struct mob_task_id task, struct mob_sched_kin *kin_out);
/* ... and the tasks that it became, as far as they were not given in this walk. At most `max`: call again. */
uint32_t node_tail_walk_targets(
    const struct node *node, struct mob_task_id task, struct mob_task_id *targets_out, uint32_t max);

#endif
