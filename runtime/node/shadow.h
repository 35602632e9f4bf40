/* Shadow replay: lost results of actor calls are made again (GCS.md "Actors", 6; papers, 4.2.3).
 *
 * A shadow is another instance of the actor, in a worker of its own, from the newest checkpoint below the
 * first call whose result is wanted, else from the creation. It runs the actor's finished calls in order of
 * position up to the last that is wanted, under their ids, and then ends. It commits nothing: no completion,
 * checkpoint, row or event of it is written, and the actor itself, living or dead, does not notice. What its
 * calls return lies in the store afterwards, as after any replay.
 *
 * At most one shadow of an actor runs at a time, and none while the actor restarts: both would queue the same
 * ids. The restart goes first; what is wanted then is asked for again when the actor is up. Of the calls that
 * it still has to repeat by then, and those behind them, a shadow runs none either: what needs them waits. So
 * whatever the actor's own replay waits for is made, since that needs only what it has come past. Node thread
 * only.
 */
#ifndef MOB_RUNTIME_NODE_SHADOW_H
#define MOB_RUNTIME_NODE_SHADOW_H

#include "runtime/node/actor_record.h"
#include "runtime/node/known.h"
#include "runtime/node/replay.h"

/* The bytes of `known->id`, of a call that has finished, are gone. Whoever waits for the object hears of it
 * as of any other: when it is made, or that it is lost. `read`: of one that has no edge (read_again.h);
 * takes. */
void node_shadow_want(struct node *node, const struct known *known, struct replay_call *read);
/* The actor's own worker has repeated the call at this position. */
void node_shadow_repeated(struct node *node, struct mob_actor_id actor, uint64_t position);
/* The record of the instance that runs this task, which is a shadow's. */
struct node_actor *node_shadow_actor(struct node *node, const struct node_task *task);
/* A task of a shadow has ended, before its record goes. */
void node_shadow_task_ended(struct node *node, struct node_task *task, enum mob_status status);
/* Decision of the scheduler: the worker of this actor number is gone. False: it is no shadow's. */
bool node_shadow_down(struct node *node, uint32_t number);
/* The actor is about to restart. True: a shadow has its ids; it ends now, and node_actor_restore follows. */
bool node_shadow_yield(struct node *node, struct mob_actor_id actor);
/* The actor is up again, or dead for good: what waited for that is asked for again. */
void node_shadow_resume(struct node *node, struct mob_actor_id actor);
/* Once a pass: shadows that have ended. True: there were some, and what follows from it is for the next pass.
 */
bool node_shadows_step(struct node *node);
void node_shadows_destroy(struct node *node);

#endif
