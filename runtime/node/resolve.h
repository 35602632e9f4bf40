/* Objects and results that the lineage knows: made ready here. Node thread only. */
#ifndef MOB_RUNTIME_NODE_RESOLVE_H
#define MOB_RUNTIME_NODE_RESOLVE_H

#include "runtime/node/known.h"

/* The task's return `known->id` becomes ready from its completion, or by running the task (again). `slot`
 * (NODE_NOBODY = none) hears of it as a submitter does. The task is not live, or adopts the submitter. */
void node_result_known(struct node *node, const struct known *known, uint32_t slot, uint32_t session);
/* It is ready, with nothing left to commit: a value in the store, or an error that is its outcome. */
void node_ready_committed(struct node *node, struct mob_object_id id, enum mob_status status,
    enum mob_value_type type, uint32_t slot, uint32_t session);

/* A task of the lineage that is not live gets a record: it runs again for what it left, or goes on, with the
 * retries that it has left. `flags`: TASK_NO_OUTCOMES. For node_enter. */
MOB_MUST_USE enum mob_status node_resubmit_known(
    struct node *node, const struct known *known, uint8_t flags, struct node_task **task_out);

/* Of one that has ended: what it left in the store, in order of slot; free. NULL = nothing. */
struct node_stored_return *node_known_stored(const struct known *known, uint32_t *count_out);
/* The generation to run again for this object. */
uint32_t node_known_made_in(const struct known *known);
/* This object is what the task runs again for. */
void node_remake_wants(struct node *node, struct node_task *task, uint32_t slot);

#endif
