/* An actor as this node keeps it; private to what of the node deals with actors. Node thread only. */
#ifndef MOB_RUNTIME_NODE_ACTOR_RECORD_H
#define MOB_RUNTIME_NODE_ACTOR_RECORD_H

#include "common/wire/option_bounds.h"
#include "runtime/actor/life.h"
#include "runtime/node/node.h"

#define ACTOR_NAME_MAX (MOB_ACTOR_NAME_BYTES_MAX + 1u)

struct actor_checkpoint {
    uint64_t position; /* of the last call in it */
    enum mob_value_type type;
    uint32_t bytes;
    uint8_t value[];
};

struct node_actor {
    struct node_actor *next; /* in its bucket */
    struct node_actor *by_number; /* chain by scheduler number */
    struct node_actor *by_name; /* chain of actor_names.h, while it lives and has one */
    struct node_actor *died_next; /* the one that died after it */
    struct mob_actor_id id;
    struct mob_actor_life life;
    struct node_job *job;
    struct node_function *class;
    uint32_t number; /* in the scheduler */
    struct node_worker *worker;
    bool detached, recovering;
    char name[ACTOR_NAME_MAX];
    char why[224]; /* last death */
    struct mob_spec_head head; /* of the creation */
    uint8_t *tail;
    uint32_t tail_bytes;
    uint64_t calls;
    struct mob_task_id last_call; /* newest that ended, at last_position */
    uint64_t last_position;
    int64_t last_submitted_ns; /* monotonic: the call at last_position; 0 = there was none */
    int64_t needed_since_wall_ns; /* a replay needs nothing of the lineage that is older; 0: not known */
    struct actor_caller *callers; /* actor_needs.h */
    uint32_t caller_count, caller_capacity, caller_at;
    /* Its worker's state is that behind the calls below this, when it has run what it was sent. UINT64_MAX:
     * what it is to repeat is not queued yet. */
    uint64_t sent;
    struct actor_checkpoint *restore; /* read back for the next incarnation */
};

/* actor_table.c */
struct node_actor *node_actor_find(struct node *node, struct mob_actor_id id);
struct node_actor *node_actor_numbered(struct node *node, uint32_t number); /* in the scheduler; NULL */
/* All of them, in no order: NULL gives the first, and NULL comes behind the last. */
const struct node_actor *node_actor_next(const struct node *node, const struct node_actor *actor);
/* NULL: too many. */
struct node_actor *node_actor_add(struct node *node, const struct mob_spec_head *head, const uint8_t *tail,
    uint32_t tail_bytes, struct node_job *job, struct node_function *class);
/* Out of the node's memory. */
void node_actor_let_go(struct node *node, struct node_actor *actor);
/* It is dead from here on. Of too many dead ones the first is not remembered any more. */
void node_actor_note_death(struct node *node, struct node_actor *actor, enum mob_status why);
/* Left by an earlier incarnation of the node, and what it is to repeat has not been read yet. */
void node_actor_set_recovering(struct node *node, struct node_actor *actor, bool recovering);

/* actors.c: it ends for good, for whoever waits, in the log and in the control store. */
void node_actor_die(struct node *node, struct node_actor *actor, enum mob_status why);

/* checkpoint.c. The newest checkpoint of an actor, NULL = there is none that can be used; the callee frees
 * it. `unknown_version`: there is one, of a version that this program does not read; else 0. A read that
 * fails says neither, so it is asked again once a second. `drop` gets `arg` instead when the node ends before
 * an answer came; NULL = nothing.
 */
typedef void checkpoint_read_fn(void *arg, struct actor_checkpoint *checkpoint, uint16_t unknown_version);
void node_checkpoint_read(
    struct node *node, struct mob_actor_id id, checkpoint_read_fn *done, void (*drop)(void *arg), void *arg);
void node_checkpoint_reads_tick(struct node *node);
void node_checkpoint_reads_drop(struct node *node); /* after the control store's client */
/* Reads the newest checkpoint (there may be none) into actor->restore, then replays from it. */
void node_actor_restore(struct node *node, struct node_actor *actor);
/* The instance that began with actor->restore is up, or never will be: it needs no place in the store. */
void node_checkpoint_used(struct node *node, const struct node_actor *actor);
/* The creation's tail with the checkpoint as its only argument; malloc'ed, NULL = no checkpoint. */
uint8_t *node_checkpoint_tail(struct node *node, struct node_actor *actor, uint32_t *bytes_out);

#endif
