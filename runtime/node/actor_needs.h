/* What of the lineage the living actors need: a replay repeats their calls, whosever those are. An edge and
 * its call's spec lie in the lineage of the caller's job, which may be another than the actor's own, and may
 * end and age while the actor lives. So may what the call's arguments refer to, which is of a third one
 * perhaps (actor_refs.h). Node thread only.
 */
#ifndef MOB_RUNTIME_NODE_ACTOR_NEEDS_H
#define MOB_RUNTIME_NODE_ACTOR_NEEDS_H

#include "runtime/node/actor_record.h"

/* Wall time from which on lineage is kept so that what was submitted at `mono_ns` is: no later than any block
 * says that it was. */
int64_t node_needed_since(int64_t mono_ns);

/* A job whose calls a replay of the actor repeats, or that has what arguments of calls refer to. */
struct actor_caller {
    struct mob_job_id job;
    bool refers; /* to what may be older than the actor, and than its checkpoints */
    uint64_t newest; /* position of the newest such call: a checkpoint behind it covers all of them */
    int64_t since_wall_ns; /* the oldest that may be needed is no older; 0: not known */
    uint64_t opened; /* refers: what the newest checkpoint had then */
};

/* A call of this job got its position. `submitted_ns`: monotonic; 0 = not known, of an earlier incarnation.
 */
void node_actor_called(
    struct node_actor *actor, struct mob_job_id job, uint64_t position, int64_t submitted_ns);
/* The call at this position needs what is of this job, and no older than that; 0: all that is of it. */
void node_actor_refers(
    struct node_actor *actor, struct mob_job_id job, uint64_t position, int64_t since_wall_ns);
/* Wall time: lineage of this job that is older is needed by no replay of a living actor. Without a checkpoint
 * that is the time of an actor's creation, or of the job's first call of it; an actor that an earlier
 * incarnation of the node made needs all until it has a checkpoint here (0). INT64_MAX: none needs any. */
int64_t node_actors_need_since(const struct node *node, const struct node_job *job);
/* A living actor that is of this job, or needs calls or results of it; NULL = none. */
const struct node_actor *node_actor_needing(const struct node *node, const struct node_job *job);

#endif
