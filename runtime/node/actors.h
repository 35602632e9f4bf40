/* Actors as the node sees them: placement, the order of calls, names, restarts (GCS.md "Actors, exactly
 * once"). The life cycle itself is the pure machine in runtime/actor. Node thread only.
 */
#ifndef MOB_RUNTIME_NODE_ACTORS_H
#define MOB_RUNTIME_NODE_ACTORS_H

#include "runtime/node/node.h"

/* What is said of dead actors, and why they died, is said of so many: the last ones. */
#define NODE_DEAD_ACTORS_MAX 16384u

/* A creation task got its record: makes the actor, claims its name. MOB_EXISTS: the name is taken. */
MOB_MUST_USE enum mob_status node_actor_create(struct node *node, struct node_task *task);
/* A call got its record: gives it the next position and logs the stateful edge; one that only reads stands
 * behind all positions there are, and takes none. MOB_ACTOR_DIED, MOB_NOT_FOUND, or MOB_AGAIN: the actor is
 * being recovered, the call enters when it is back. */
MOB_MUST_USE enum mob_status node_actor_enqueue(struct node *node, struct node_task *task);
/* Scheduler's number of the actor whose call this is, 0 = none. */
uint32_t node_actor_number(struct node *node, const struct node_task *task);
/* Creation or call ended for good (before its record goes), as its completion says. `message`: why it failed,
 * in words; NULL when it did not. */
void node_actor_task_ended(struct node *node, struct node_task *task,
    const struct mob_completion_head *completion, const char *message);
/* Did the call end by other means than its method's return (GCS.md "Actors", 4)? Then replays leave it out.
 */
bool node_call_skipped(const struct mob_completion_head *completion);
/* A living actor of this class, if there is one. */
bool node_actor_of_class(struct node *node, const struct node_function *class, struct mob_actor_id *id_out);
#define NODE_ACTOR_DEATH_BYTES 320 /* the text of a status, and why in the words of actor_record.h */
/* "the actor is dead: it was killed", or what is known, in `text` of so many bytes. */
const char *node_actor_death(struct node *node, struct mob_actor_id id, char *text, size_t capacity);
/* This call goes to the worker of its actor. */
void node_actor_sent(struct node_worker *worker, const struct node_task *call);
/* Its creation was dispatched to this worker. */
void node_actor_placed(struct node *node, struct node_task *task, struct node_worker *worker);
/* How often its creation may run again when a worker dies of it or under it; -1 = for ever. */
int32_t node_actor_restarts_left(struct node *node, const struct node_task *task);
/* Deaths of it that its creation, which runs again, waits for: mob_sched_submit.failures. */
uint32_t node_actor_waits_for(struct node *node, const struct node_task *task);
/* Does this call's actor wait for its restart, after another death, until then? */
bool node_actor_restarts_at(struct node *node, const struct node_task *call, int64_t *at_ns_out);
/* The worker died before the constructor returned, and the creation runs again: unless `unpaid`, a restart is
 * spent. */
void node_actor_creation_lost(struct node *node, struct node_task *task, bool unpaid);
/* Decision of the scheduler: its worker is gone. `running` = the call that ran, queued again, or NULL.
 * `unpaid`: nothing that it ran is to blame, and no restart is spent, as far as that can be believed. */
void node_actor_down(struct node *node, uint32_t number, struct node_task *running, bool unpaid);
enum mob_status node_actor_kill(struct node *node, struct mob_actor_id id, bool no_restart);
/* A replay gave another result at this position than the first run: it ends, and the first results stand
 * (GCS.md "Actors", 5). */
void node_actor_diverged(struct node *node, struct mob_actor_id id, uint64_t position);
/* A replay could not repeat the call at this position, for something that it was given cannot be had any
 * more: it ends. `what`: which, in the words of the call's error. */
void node_actor_input_gone(
    struct node *node, struct mob_actor_id id, uint64_t position, struct mob_task_id call, const char *what);
bool node_actor_by_name(struct node *node, const char *ns, const char *name, struct mob_actor_id *id_out);
/* malloc'ed JSON; NULL = unknown. */
char *node_actor_json(struct node *node, struct mob_actor_id id);
char *node_actors_json(struct node *node, const struct node_job *job);
/* Ends the job's actors that are not detached. */
void node_actors_end_job(struct node *node, const struct node_job *job);
/* A worker's MOB_OUT_CHECKPOINT: kept in the CHECKPOINTS table; calls at or below it are not replayed. */
void node_actor_checkpoint(
    struct node *node, struct node_client *client, const uint8_t *body, uint32_t bytes);
enum mob_status node_actors_load(struct node *node);

#endif
