/* Life of an actor: placement, positions of calls, incarnations (GCS.md "Actors, exactly once"). A pure
 * machine: no clock (`now` is monotonic ns), memory or I/O. One owner.
 *
 *   PENDING --up--> ALIVE --down--> RESTARTING --up--> ALIVE ...      down without restarts left, kill, end
 * --> DEAD
 *
 * A call gets its position when it arrives, in every state but DEAD, and keeps it for ever: positions are the
 * stateful edges. An incarnation replays what is above its checkpoint before anything new. Calls of methods
 * that only read have none: each stands between two positions.
 */
#ifndef MOB_RUNTIME_ACTOR_LIFE_H
#define MOB_RUNTIME_ACTOR_LIFE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/clock.h"
#include "common/base/status.h"

enum mob_actor_state {
    MOB_ACTOR_PENDING = 1,
    MOB_ACTOR_ALIVE = 2,
    MOB_ACTOR_RESTARTING = 3,
    MOB_ACTOR_DEAD = 4
};
/* An incarnation that lives for so long does well, whatever it does: as long as the longest back-off that
 * there is without options. */
#define MOB_ACTOR_WELL_NS (10 * MOB_SEC)

struct mob_actor_life {
    enum mob_actor_state state;
    uint32_t incarnation; /* 1 = first; 0 before its first worker */
    int32_t restarts_left; /* -1 = for ever */
    uint32_t failures; /* ends of its worker since it last did well */
    int64_t up_ns; /* of this incarnation */
    uint64_t next_position; /* of the next call that arrives */
    uint64_t ended; /* calls with an outcome; positions below it all have one */
    uint64_t checkpoint; /* calls below it are in the newest valid checkpoint */
    bool has_checkpoint;
    enum mob_status death; /* why it is DEAD */
};

/* PENDING. `max_restarts`: -1 = for ever. */
void mob_actor_life_init(struct mob_actor_life *life, int32_t max_restarts);
/* A call arrives: its position. MOB_ACTOR_DIED when it is dead. */
MOB_MUST_USE enum mob_status mob_actor_life_call(struct mob_actor_life *life, uint64_t *position_out);
/* A call that only reads arrives: the calls below *behind_out stand before it. It takes no position.
 * MOB_ACTOR_DIED when it is dead. */
MOB_MUST_USE enum mob_status mob_actor_life_read(const struct mob_actor_life *life, uint64_t *behind_out);
/* The constructor (or restore) ran in a new worker. False = not expected in this state. */
bool mob_actor_life_up(struct mob_actor_life *life, int64_t now);
/* A call at `position` ended: its method returned, or (`skipped`) it came to no end of its own. */
void mob_actor_life_ended(struct mob_actor_life *life, uint64_t position, bool skipped);
/* A call that only reads came to its end: it does well. */
void mob_actor_life_read_ended(struct mob_actor_life *life);
/* Its worker is gone. True = start another incarnation, replay [replay_from, ended). False = it is dead now:
 * it `pays` with a restart, and had none left. */
bool mob_actor_life_down(struct mob_actor_life *life, bool pays, int64_t now, uint64_t *replay_from_out);
/* How many ends of its worker a restart has to wait for, as a retry waits after so many failures: none after
 * the first that follows a call which had not ended before (each that only reads is one), or a life of
 * MOB_ACTOR_WELL_NS. */
uint32_t mob_actor_life_waits_for(const struct mob_actor_life *life);
/* Killed or ended: no other incarnation follows. */
void mob_actor_life_end(struct mob_actor_life *life, enum mob_status why);
/* A checkpoint that holds every call below `position` is valid; an older one than is known changes nothing.
 */
void mob_actor_life_checkpointed(struct mob_actor_life *life, uint64_t position);
const char *mob_actor_state_text(enum mob_actor_state state); /* static; "unknown" for any other number */

#endif
