/* Workers of the pool, from their start to their end: workers.c, crowded.c, worker_death.c. The node's thread
 * only. */
#ifndef MOB_RUNTIME_NODE_WORKERS_H
#define MOB_RUNTIME_NODE_WORKERS_H

#include "runtime/node/node.h"

/* Asks the zygote for so many; returns at once. The scheduler hears of those that cannot be started. */
void node_worker_spawn(struct node *node, uint32_t count);
/* Rings of a client, evicting objects for them. MOB_STORE_FULL: no room; MOB_QUEUE_FULL: no slot. */
MOB_MUST_USE enum mob_status node_rings_open(
    struct node *node, const struct mob_client_options *options, uint32_t *slot_out);
/* What the pool has to say: processes that started, and that ended. */
void node_pool_step(struct node *node);
/* Tells an idle one to end; one that does not read its ring is killed. */
void node_worker_reap(struct node *node, uint32_t number);
/* Ends it with SIGKILL; the status and reason are those of the task that it ran. */
void node_worker_kill(
    struct node *node, struct node_worker *worker, enum mob_status status, const char *reason);
/* By the scheduler's number of it; NULL = there is none. */
struct node_worker *node_worker_at(struct node *node, uint32_t number);
/* It was sent the row of the function of this number, and needs it no second time. */
void node_worker_knows(struct node_worker *worker, uint32_t function_number);
/* Their records, at the node's own end, before the control store's client goes: what is still being read for
 * them is abandoned, and ends with it. */
void node_workers_free(struct node *node);
/* Markers that did not fit into a worker's ring. */
void node_workers_tick(struct node *node);
/* Heads of this job's tasks that workers were sent are kept for siblings no longer. */
void node_workers_forget_job(struct node *node, const struct node_job *job);
/* A worker could not be started because the segment has no room; one blocked more than may. */
void node_workers_crowded(struct node *node);
void node_worker_over_bound(struct node *node, struct node_worker *worker);
/* Of the worker whose end is being handled: gives the message, the signal and its last log lines (NULL, 0:
 * not asked for). */
const char *node_death_notice(struct node *node, int *signal_out, char *detail, size_t capacity);

#endif
