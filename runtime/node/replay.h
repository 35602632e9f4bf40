/* Replay of an actor from the lineage: its stateful edges in order of position (papers, 4.2.3; GCS.md
 * "Actors"). */
#ifndef MOB_RUNTIME_NODE_REPLAY_H
#define MOB_RUNTIME_NODE_REPLAY_H

#include "runtime/node/node.h"

/* Reads the actor's edges and the specs of its calls, queues the finished ones at positions >= `from` as
 * replays and the unfinished ones that are not queued here behind them, then calls node_actor_replay_ready.
 */
void node_replay_actor(struct node *node, struct mob_actor_id id, uint64_t from);

/* What the log says of the actor. */
struct replay_found {
    enum mob_status status; /* of reading it */
    uint64_t next_position; /* behind the last logged edge */
    bool created; /* the creation's spec is there */
    bool ended; /* for good, and */
    enum mob_status end; /* why */
};
/* actors.c: the replays are queued. */
void node_actor_replay_ready(struct node *node, struct mob_actor_id id, const struct replay_found *found);
/* actors.c: actors that an earlier incarnation of the node left, after its unfinished tasks run again.
 * Returns how many. Nothing may call them before the positions that are in the log are known:
 * node_actors_recovering() = 0.
 */
uint32_t node_actors_restart_loaded(struct node *node);
uint32_t node_actors_recovering(const struct node *node);

#endif
