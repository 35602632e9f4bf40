/* What goes wrong in nodesim. */
#include "tests/sim/nodesim.h"

static bool stop(struct process *p, int64_t until)
{
    if (p == NULL || !p->up || p->paused_until > world.now)
        return false;
    p->paused_until = until;
    return true;
}

static void hit_node(enum nodesim_cover what, int64_t until)
{
    uint32_t node = (uint32_t)nodesim_below(world.nodes), some = 0;
    struct process *p = nodesim_newest_process(node);
    bool lives = p != NULL && p->up, felt = false;
    if (what == NODESIM_FAULT_KILL_NODE && lives) {
        nodesim_kill_process(p);
        felt = true;
    } else if (what == NODESIM_FAULT_PAUSE_NODE) {
        felt = stop(p, until);
    } else if (what == NODESIM_FAULT_SECOND_NODE && world.start_at[node] == 0) {
        world.start_at[node] = world.now + 1;
        felt = lives;
    } else if (what == NODESIM_FAULT_PAUSE_SOME) {
        for (uint32_t i = 0; i < world.process_count; i++)
            some += nodesim_chance(0.3) && stop(&world.processes[i], until);
        felt = some > 1;
    }
    if (felt)
        nodesim_count(what);
}

static void hit_master(bool dies, int64_t until)
{
    struct shard *s = &world.shard[nodesim_below(world.shards)];
    struct master *m = &s->masters[nodesim_below(MASTERS)];
    bool active = m->mastership.active;
    if (!dies && m->paused_until > world.now)
        return;
    nodesim_count(dies ? NODESIM_FAULT_KILL_MASTER : NODESIM_FAULT_PAUSE_MASTER);
    if (active)
        nodesim_count(dies ? NODESIM_FAULT_KILL_ACTIVE : NODESIM_FAULT_PAUSE_ACTIVE);
    s->disturbed_at = dies ? world.now : until;
    if (dies)
        nodesim_master_start(m);
    else
        m->paused_until = until;
}

/* Everything of it dies, or only a member, and then it is silent until its next configuration. */
static bool hit_chain(uint32_t shard, bool dies)
{
    struct shard *s = &world.shard[shard];
    if (!nodesim_answers(shard))
        return false;
    nodesim_count(dies ? NODESIM_FAULT_KILL_CHAIN : NODESIM_FAULT_FAIL_OVER);
    if (dies) {
        nodesim_chain_dies(shard);
    } else {
        s->epoch++;
        s->silent_until = world.now + (int64_t)nodesim_below(400 * MS);
        TRACE("shard %u loses a member", shard);
    }
    return true;
}

void nodesim_fault(void)
{
    int64_t until = world.now + (int64_t)nodesim_below(900 * MS);
    uint32_t dice = (uint32_t)nodesim_below(19);
    switch (dice == 18 ? 6 : dice % 6) {
    case 0:
        hit_node(NODESIM_FAULT_KILL_NODE, until);
        break;
    case 1:
        hit_node(NODESIM_FAULT_PAUSE_NODE, until);
        break;
    case 2:
    case 3:
        hit_master(dice % 6 == 2, until);
        break;
    case 4:
        hit_chain((uint32_t)nodesim_below(world.shards), nodesim_chance(0.7));
        break;
    case 6: /* somebody starts another under the same name */
        hit_node(NODESIM_FAULT_SECOND_NODE, until);
        break;
    default:
        hit_node(NODESIM_FAULT_PAUSE_SOME, until);
        break;
    }
}

/* It stands still when the log's home has answered, everything of that dies, and RECOVERED with it, and the
 * log's node starts again. */
static bool makes_late(struct process *p, uint64_t log)
{
    const struct process *of = nodesim_process_of(log);
    struct process *newest = of == NULL ? NULL : nodesim_newest_process(of->node);
    uint32_t home = nodesim_home(log);
    if (newest == NULL || newest == p || home == nodesim_record_shard(log) || !nodesim_answers(home) ||
        !stop(p, world.now + 900 * MS + (int64_t)nodesim_below(900 * MS)))
        return false;
    if (newest->up)
        nodesim_kill_process(newest);
    return hit_chain(home, true);
}

/* Between what is listed, what is asked of its log, and its removal: whoever tidies it dies or is stopped, or
 * either shard goes. */
static void fault_of_tidy(struct process *p, uint64_t log)
{
    switch (nodesim_below(5)) {
    case 0:
        nodesim_count(NODESIM_FAULT_TIDIER);
        nodesim_kill_process(p);
        break;
    case 1:
        if (stop(p, world.now + (int64_t)nodesim_below(900 * MS)))
            nodesim_count(NODESIM_FAULT_TIDIER);
        break;
    case 2:
        if (makes_late(p, log))
            nodesim_count(NODESIM_FAULT_TIDY_LATE);
        break;
    default:
        if (hit_chain(
                nodesim_chance(0.5) ? nodesim_record_shard(log) : nodesim_home(log), nodesim_chance(0.5)))
            nodesim_count(NODESIM_FAULT_TIDY_SHARD);
        break;
    }
}

/* The record of a log is on another shard than the log; either of them goes, or the recoverer does. */
void nodesim_fault_of_recovery(void)
{
    for (uint32_t i = 0; i < world.process_count; i++) {
        const struct recovered *record = nodesim_tidies(&world.processes[i]);
        if (record != NULL && nodesim_chance(0.05)) {
            fault_of_tidy(&world.processes[i], record->row.incarnation);
            return;
        }
    }
    struct process *p =
        nodesim_chance(0.02) ? nodesim_newest_process((uint32_t)nodesim_below(world.nodes)) : NULL;
    if (p == NULL || !p->up || p->incarnation == 0 || p->recovery.count == 0 || !nodesim_recovers(p))
        return;
    const struct recovered *log = &p->recovery.logs[nodesim_below(p->recovery.count)];
    uint32_t record = nodesim_record_shard(log->row.incarnation), home = nodesim_home(log->row.incarnation);
    uint32_t dice = (uint32_t)nodesim_below(3);
    bool dies = nodesim_chance(0.5);
    if (dice == 0) {
        nodesim_count(NODESIM_FAULT_RECOVERER);
        nodesim_kill_process(p);
    } else if (record != home && hit_chain(dice == 1 ? record : home, dies)) {
        nodesim_count(dice == 1 ? NODESIM_FAULT_RECORD_SHARD : NODESIM_FAULT_HOME_SHARD);
    }
}
