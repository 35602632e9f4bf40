#include "runtime/actor/life.h"

#include <string.h>

#include "common/base/log.h"

/* Row = from, column = to. */
static const bool legal[5][5] = {
    [MOB_ACTOR_PENDING] = {[MOB_ACTOR_ALIVE] = true, [MOB_ACTOR_RESTARTING] = true, [MOB_ACTOR_DEAD] = true},
    [MOB_ACTOR_ALIVE] = {[MOB_ACTOR_RESTARTING] = true, [MOB_ACTOR_DEAD] = true},
    [MOB_ACTOR_RESTARTING] =
        {[MOB_ACTOR_ALIVE] = true, [MOB_ACTOR_RESTARTING] = true, [MOB_ACTOR_DEAD] = true},
};

static void set_state(struct mob_actor_life *life, enum mob_actor_state to)
{
    MOB_ASSERT(legal[life->state][to]);
    life->state = to;
}

void mob_actor_life_init(struct mob_actor_life *life, int32_t max_restarts)
{
    memset(life, 0, sizeof *life);
    life->state = MOB_ACTOR_PENDING;
    life->restarts_left = max_restarts;
}

enum mob_status mob_actor_life_call(struct mob_actor_life *life, uint64_t *position_out)
{
    if (life->state == MOB_ACTOR_DEAD)
        return MOB_ACTOR_DIED;
    *position_out = life->next_position++;
    return MOB_OK;
}

enum mob_status mob_actor_life_read(const struct mob_actor_life *life, uint64_t *behind_out)
{
    if (life->state == MOB_ACTOR_DEAD)
        return MOB_ACTOR_DIED;
    *behind_out = life->next_position;
    return MOB_OK;
}

bool mob_actor_life_up(struct mob_actor_life *life, int64_t now)
{
    if (life->state != MOB_ACTOR_PENDING && life->state != MOB_ACTOR_RESTARTING)
        return false;
    set_state(life, MOB_ACTOR_ALIVE);
    life->incarnation++;
    life->up_ns = now;
    return true;
}

void mob_actor_life_ended(struct mob_actor_life *life, uint64_t position, bool skipped)
{
    if (position >= life->ended) { /* else it repeats what went well before */
        life->ended = position + 1;
        life->failures = skipped ? life->failures : 0;
    }
    MOB_ASSERT(life->ended <= life->next_position);
}

void mob_actor_life_read_ended(struct mob_actor_life *life)
{
    life->failures = 0;
}

bool mob_actor_life_down(struct mob_actor_life *life, bool pays, int64_t now, uint64_t *replay_from_out)
{
    if (life->state == MOB_ACTOR_DEAD)
        return false;
    if (pays && life->restarts_left == 0) {
        set_state(life, MOB_ACTOR_DEAD);
        life->death = MOB_ACTOR_DIED;
        return false;
    }
    if (life->restarts_left > 0)
        life->restarts_left -= pays;
    if (life->state == MOB_ACTOR_ALIVE && now - life->up_ns >= MOB_ACTOR_WELL_NS)
        life->failures = 0;
    life->failures += life->failures < UINT32_MAX;
    set_state(life, MOB_ACTOR_RESTARTING);
    *replay_from_out = life->has_checkpoint ? life->checkpoint : 0;
    return true;
}

uint32_t mob_actor_life_waits_for(const struct mob_actor_life *life)
{
    return life->failures > 0 ? life->failures - 1 : 0;
}

void mob_actor_life_end(struct mob_actor_life *life, enum mob_status why)
{
    if (life->state == MOB_ACTOR_DEAD)
        return;
    set_state(life, MOB_ACTOR_DEAD);
    life->death = why;
}

void mob_actor_life_checkpointed(struct mob_actor_life *life, uint64_t position)
{
    MOB_ASSERT(position <= life->next_position);
    if (life->has_checkpoint && position <= life->checkpoint)
        return;
    life->checkpoint = position;
    life->has_checkpoint = true;
}

const char *mob_actor_state_text(enum mob_actor_state state)
{
    static const char *const texts[] = {"unknown", "pending", "alive", "restarting", "dead"};
    return (unsigned)state < 5 ? texts[state] : texts[0];
}
