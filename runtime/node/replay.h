/* Replay of an actor from the lineage: its stateful edges in order of position (papers, 4.2.3; GCS.md
 * "Actors"). */
#ifndef MOB_RUNTIME_NODE_REPLAY_H
#define MOB_RUNTIME_NODE_REPLAY_H

#include "runtime/node/node.h"
#include "runtime/node/remade.h"

/* What the log says of the actor. */
struct replay_found {
    enum mob_status status; /* of reading it */
    uint64_t next_position; /* behind the last logged edge */
    uint64_t missing; /* MOB_LINEAGE_GONE: the first position that has no call, though nobody skipped it */
    bool created; /* the creation's spec is there */
    bool ended; /* for good, and */
    enum mob_status end; /* why */
    uint16_t unknown_version; /* of a checkpoint that this program does not read: why status is MOB_VERSION */
};
/* One edge, and what the lineage holds of its call. */
struct replay_call {
    uint64_t position;
    struct mob_task_id task;
    bool skipped, finished, outcomes;
    bool reads; /* it has no edge, and no position of its own: those below this one stand before it */
    uint32_t attempt;
    struct mob_spec_head *spec; /* followed by its tail; NULL = not there */
    uint32_t tail_bytes;
    int64_t submitted_wall_ns;
    struct node_stored_return *stored; /* what it left in the store when it finished well; remade.h */
    uint32_t stored_count;
    uint32_t items; /* that it yielded */
    struct node_stored_puts puts; /* that it left in the store, until all was read: then in `stored` too */
    bool ended_well;
    struct mob_hash128 digest; /* of all that it gave then; remade.h */
    uint64_t incarnation, block; /* that its edge stands in */
};
/* Positions of calls that are not in the log (inference calls): [first, behind). */
struct replay_unlogged {
    uint64_t first, behind;
};
struct replay_log {
    struct replay_found found;
    const struct replay_call *calls; /* by position */
    uint32_t count;
    const struct replay_unlogged *unlogged; /* by position */
    uint32_t unlogged_count;
    const struct mob_spec_head *creation; /* followed by its tail; NULL = not there */
    uint32_t creation_tail_bytes;
};
/* Reads the actor's edges, its creation, and the specs of its calls. The log lasts for the call of `done`.
 * When the node ends first, `drop` (NULL = nothing) is called instead. */
typedef void replay_read_fn(void *arg, const struct replay_log *log);
void node_replay_read(
    struct node *node, struct mob_actor_id id, replay_read_fn *done, void (*drop)(void *arg), void *arg);
/* Is the call of each position in [from, behind) there, or skipped, or of a call that is never logged? True =
 * not, and *missing_out is the first that is lost: a replay would make another state than the one that was.
 */
bool node_replay_gap(const struct replay_log *log, uint64_t from, uint64_t behind, uint64_t *missing_out);
/* A record for this call at its old position: of a finished one, one whose run commits nothing. MOB_EXISTS:
 * it is queued. */
MOB_MUST_USE enum mob_status node_replay_call(
    struct node *node, const struct replay_call *call, struct node_task **task_out);
/* One that was made by itself, read_again.c; NULL is fine. */
void node_replay_call_free(struct replay_call *call);

/* Queues the finished calls at positions >= `from` as replays and the unfinished ones that are not queued
 * here behind them, then calls node_actor_replay_ready. When one of them is not in the lineage any more, or
 * not of those below `ended` (what the node knows of calls that had an outcome; 0 after its start): nothing
 * is queued, and the status is MOB_LINEAGE_GONE. `unknown_version` not 0: its checkpoint cannot be read, and
 * an actor that has not ended gets MOB_VERSION. */
void node_replay_actor(
    struct node *node, struct mob_actor_id id, uint64_t from, uint64_t ended, uint16_t unknown_version);

/* actor_replay.c: the replays are queued. */
void node_actor_replay_ready(struct node *node, struct mob_actor_id id, const struct replay_found *found);
/* actor_replay.c: actors that an earlier incarnation of the node left, after its unfinished tasks run again.
 * Returns how many. Nothing may call them before the positions that are in the log are known:
 * node_actors_recovering() = 0.
 */
uint32_t node_actors_restart_loaded(struct node *node);
uint32_t node_actors_recovering(const struct node *node);

#endif
