/* Replay of an actor from the lineage: its stateful edges in order of position (papers, 4.2.3; GCS.md
 * "Actors"). */
#ifndef MOB_RUNTIME_NODE_REPLAY_H
#define MOB_RUNTIME_NODE_REPLAY_H

#include "runtime/node/node.h"

/* What the log says of the actor. */
struct replay_found {
    enum mob_status status; /* of reading it */
    uint64_t next_position; /* behind the last logged edge */
    bool created; /* the creation's spec is there */
    bool ended; /* for good, and */
    enum mob_status end; /* why */
};
/* One edge, and what the lineage holds of its call. */
struct replay_call {
    uint64_t position;
    struct mob_task_id task;
    bool skipped, finished, outcomes;
    uint32_t attempt;
    struct mob_spec_head *spec; /* followed by its tail; NULL = not there */
    uint32_t tail_bytes;
    int64_t submitted_ns;
    uint64_t incarnation, block; /* that its edge stands in */
};
struct replay_log {
    struct replay_found found;
    const struct replay_call *calls; /* by position */
    uint32_t count;
    const struct mob_spec_head *creation; /* followed by its tail; NULL = not there */
    uint32_t creation_tail_bytes;
};
/* Reads the actor's edges, its creation, and the specs of its calls. The log lasts for the call of `done`.
 * When the node ends first, `drop` (NULL = nothing) is called instead. */
typedef void replay_read_fn(void *arg, const struct replay_log *log);
void node_replay_read(
    struct node *node, struct mob_actor_id id, replay_read_fn *done, void (*drop)(void *arg), void *arg);
/* A record for this call at its old position: of a finished one, one whose run commits nothing. */
MOB_MUST_USE enum mob_status node_replay_call(
    struct node *node, const struct replay_call *call, struct node_task **task_out);

/* Queues the finished calls at positions >= `from` as replays and the unfinished ones that are not queued
 * here behind them, then calls node_actor_replay_ready. */
void node_replay_actor(struct node *node, struct mob_actor_id id, uint64_t from);

/* actors.c: the replays are queued. */
void node_actor_replay_ready(struct node *node, struct mob_actor_id id, const struct replay_found *found);
/* actors.c: actors that an earlier incarnation of the node left, after its unfinished tasks run again.
 * Returns how many. Nothing may call them before the positions that are in the log are known:
 * node_actors_recovering() = 0.
 */
uint32_t node_actors_restart_loaded(struct node *node);
uint32_t node_actors_recovering(const struct node *node);

#endif
