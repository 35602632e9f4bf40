/* The liveness of nodes: one seed is one exact run of two masters with the real machines
 * (gcs/chain/node_watch.h, mastership), the table where they agree, nodes whose processes die, stop, go on
 * and are started again, and the home chain as one object that takes blocks, seals and registrations, loses
 * what was not on its disks when everything dies, and starts again with what a master tells it and what nodes
 * and masters still keep. Messages are delayed, lost and doubled. What is asserted:
 *
 *   - a log whose cut is recorded has that many blocks, and takes none any more, over all deaths;
 *   - an incarnation is given out when all earlier ones of its node are sealed, and no block of an earlier
 *     one is taken once a later one has any: the world outside sees one node;
 *   - a cut that is recorded is the one that the chain told;
 *   - a second process under the name of one that lives is refused, and the first goes on;
 *   - when all faults have ended each node has one live incarnation, and the others are sealed ("stuck").
 */
#include "tests/sim/nodesim.h"

/* ---- nodes ---- */

static struct mob_node_log name_of(const struct process *p)
{
    struct mob_node_log log = {.start = p->start, .pid = (int64_t)p->start};
    log.node[0] = (char)('a' + p->node);
    return log;
}

static void given_out(struct process *p, uint64_t incarnation)
{
    struct chain_log *log = nodesim_chain_log(&world.chain, incarnation);
    p->incarnation = incarnation;
    p->acked = 0;
    nodesim_count(NODESIM_GIVEN);
    TRACE("node %u: start %llu is incarnation %llu", p->node, (unsigned long long)p->start,
        (unsigned long long)incarnation);
    if (log != NULL)
        log->given = true;
    for (uint32_t i = 0; i < world.chain.count && world.chain_up; i++) {
        const struct chain_log *other = &world.chain.logs[i];
        if (other->node == p->node && other->given && other->live && other->incarnation < incarnation)
            nodesim_fail("incarnation %llu of node %u is given out while %llu takes blocks",
                (unsigned long long)incarnation, p->node, (unsigned long long)other->incarnation);
    }
    if (incarnation > world.newest_given[p->node])
        world.newest_given[p->node] = incarnation;
}

static void at_node(struct event *e)
{
    struct process *p = &world.processes[e->to];
    if (!p->up)
        return;
    if (e->what == AT_NODE_ENROLLED && p->incarnation == 0) {
        if (e->status == MOB_OK)
            given_out(p, e->a);
        else
            p->up = false;
        p->refused = e->status == MOB_EXISTS;
        if (p->refused)
            nodesim_count(NODESIM_REFUSED);
        struct process *holder = p->refused ? nodesim_newest_process(p->node) : NULL;
        if (p->refused && holder == NULL)
            nodesim_fail("node %u: refused, and there is no other", p->node);
        if (holder != NULL && !holder->up) /* it died meanwhile */
            nodesim_start_next(holder, 1);
    } else if (e->what == AT_NODE_OVER && e->a == p->incarnation) {
        nodesim_count(NODESIM_OVER);
        p->up = false;
    } else if (e->what == AT_NODE_APPENDED && e->a == p->incarnation) {
        p->asking = false;
        if (e->status != MOB_OK)
            p->up = false;
        else if (e->b == p->acked)
            p->acked++;
    }
    if (!p->up)
        nodesim_start_next(p, (int64_t)nodesim_below(100 * MS) + 1);
}

static void node_tick(uint32_t i)
{
    struct process *p = &world.processes[i];
    if (!p->up || p->paused_until > world.now)
        return;
    if (world.now >= p->next_beat) {
        p->next_beat = world.now + 40 * MS;
        for (uint32_t m = 0; m < MASTERS; m++)
            nodesim_send_event((struct event){.what = p->incarnation == 0 ? AT_MASTER_ENROLL : AT_MASTER_BEAT,
                                   .from = i,
                                   .to = m,
                                   .a = p->incarnation,
                                   .log = name_of(p)},
                true);
    }
    bool again = p->asking && world.now - p->asked_at > 60 * MS;
    if (p->incarnation != 0 && (again || (!p->asking && world.now >= p->next_append))) {
        p->asking = true;
        p->asked_at = world.now;
        p->next_append = world.now + (int64_t)nodesim_below(60 * MS);
        nodesim_send_event(
            (struct event){.what = AT_CHAIN_APPEND, .from = i, .a = p->incarnation, .b = p->acked}, true);
    }
}

void nodesim_kill_process(struct process *p)
{
    p->up = false;
    for (uint32_t m = 0; m < MASTERS; m++)
        nodesim_send_event((struct event){.what = AT_MASTER_GONE, .to = m, .a = p->incarnation}, false);
    nodesim_start_next(p, (int64_t)nodesim_below(100 * MS) + 1);
}

static void start_processes(void)
{
    for (uint32_t n = 0; n < NODES; n++) {
        if (world.start_at[n] == 0 || world.now < world.start_at[n] || world.process_count == PROCESSES_MAX)
            continue;
        world.start_at[n] = 0;
        world.processes[world.process_count++] =
            (struct process){.node = n, .start = ++world.next_start, .up = true};
    }
}

/* ---- what goes wrong ---- */

static bool stop(struct process *p, int64_t until)
{
    if (p == NULL || !p->up || p->paused_until > world.now)
        return false;
    p->paused_until = until;
    return true;
}

static void hit_node(enum nodesim_cover what, int64_t until)
{
    uint32_t node = (uint32_t)nodesim_below(NODES), some = 0;
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
    struct master *m = &world.masters[nodesim_below(MASTERS)];
    bool active = m->mastership.active;
    if (!dies && m->paused_until > world.now)
        return;
    nodesim_count(dies ? NODESIM_FAULT_KILL_MASTER : NODESIM_FAULT_PAUSE_MASTER);
    if (active)
        nodesim_count(dies ? NODESIM_FAULT_KILL_ACTIVE : NODESIM_FAULT_PAUSE_ACTIVE);
    if (dies)
        nodesim_master_start(m);
    else
        m->paused_until = until;
}

static void fault(void)
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
        if (!world.chain_up)
            break;
        world.chain_up = false;
        nodesim_count(NODESIM_FAULT_KILL_CHAIN);
        TRACE("the chain dies");
        break;
    case 6: /* somebody starts another under the same name */
        hit_node(NODESIM_FAULT_SECOND_NODE, until);
        break;
    default:
        hit_node(NODESIM_FAULT_PAUSE_SOME, until);
        break;
    }
}

/* ---- the run ---- */

/* Each node has one live incarnation, whose process is there; others that want its name do not count. */
static bool is_whole(void)
{
    uint32_t live[NODES] = {0};
    for (uint32_t i = 0; i < world.process_count; i++) {
        const struct process *p = &world.processes[i];
        const struct mob_node_log *row = p->up ? nodesim_table_row(p->incarnation) : NULL;
        live[p->node] += row != NULL && row->state == MOB_NODE_LOG_LIVE;
    }
    uint32_t open = 0;
    for (uint32_t i = 0; i < world.table_count; i++)
        open += world.table[i].state != MOB_NODE_LOG_SEALED;
    bool each = open == NODES;
    for (uint32_t n = 0; n < NODES; n++)
        each = each && live[n] == 1;
    return each && world.chain_up;
}

/* Each message, and each question to the table, has its counter. */
#define COUNTED(name, text, minimum) \
    _Static_assert( \
        (int)NODESIM_MSG_##name - (int)NODESIM_MSG_MASTER_ENROLL == (int)AT_##name - (int)AT_MASTER_ENROLL, \
        #name);
NODESIM_MESSAGES(COUNTED)
#undef COUNTED
#define COUNTED(name, text, minimum) \
    _Static_assert( \
        (int)NODESIM_ASKED_##name - (int)NODESIM_ASKED_ROW == (int)TABLE_##name - (int)TABLE_ROW, #name);
NODESIM_QUESTIONS(COUNTED)
#undef COUNTED

static void deliver(struct event *e)
{
    int64_t until = 0;
    bool to_master = e->what <= AT_MASTER_REGISTERED;
    bool to_node = e->what == AT_NODE_ENROLLED || e->what == AT_NODE_OVER || e->what == AT_NODE_APPENDED;
    if (to_master)
        until = world.masters[e->to].paused_until;
    else if (to_node)
        until = world.processes[e->to].paused_until;
    if (until > world.now) { /* it reads it when it goes on */
        nodesim_put(*e, until - world.now + (int64_t)nodesim_below(MS));
        return;
    }
    world.delivered++;
    nodesim_count((enum nodesim_cover)(NODESIM_MSG_MASTER_ENROLL + (e->what - AT_MASTER_ENROLL)));
    if (to_master)
        nodesim_at_master(e);
    else if (to_node)
        at_node(e);
    else if (e->what == AT_TABLE)
        nodesim_at_table(e);
    else
        nodesim_at_chain(e);
    free(e->logs);
}

static void deliver_until(int64_t until)
{
    while (!world.failed) {
        uint32_t first = UINT32_MAX;
        for (uint32_t i = 0; i < world.event_count; i++)
            if (world.events[i].at <= until &&
                (first == UINT32_MAX || world.events[i].at < world.events[first].at ||
                    (world.events[i].at == world.events[first].at &&
                        world.events[i].order < world.events[first].order)))
                first = i;
        if (first == UINT32_MAX)
            return;
        struct event e = world.events[first];
        world.events[first] = world.events[--world.event_count];
        world.now = e.at > world.now ? e.at : world.now;
        deliver(&e);
    }
}

static void begin(const struct sim_setup *setup)
{
    for (uint32_t i = 0; i < MASTERS; i++)
        mob_node_watch_destroy(world.masters[i].watch);
    for (uint32_t i = 0; i < world.event_count; i++)
        free(world.events[i].logs);
    memset(&world, 0, sizeof world);
    world.trace = setup->trace;
    world.seed = setup->seed;
    world.without_index = setup->without == NODESIM_RULE_INDEX;
    world.rng[0] = setup->seed * 0x9e3779b97f4a7c15ull + 1;
    world.rng[1] = setup->seed ^ 0xd1b54a32d192ed03ull;
    for (int i = 0; i < 8; i++)
        (void)nodesim_draw();
    world.now = 1000 * MS;
    world.chain_up = true;
    for (uint32_t i = 0; i < MASTERS; i++)
        nodesim_master_start(&world.masters[i]);
    for (uint32_t n = 0; n < NODES; n++)
        world.start_at[n] = world.now + 1;
}

static void tick(void)
{
    start_processes();
    for (uint32_t i = 0; i < world.process_count; i++)
        node_tick(i);
    for (uint32_t i = 0; i < MASTERS; i++)
        nodesim_master_tick(&world.masters[i]);
    if (world.chain_up && nodesim_chance(0.05))
        world.disk = world.chain; /* synced */
    if (!world.healing && world.now >= world.fault_at) {
        fault();
        world.fault_at = world.now + 20 * MS + (int64_t)nodesim_below(250 * MS);
    }
}

void nodesim_run(const struct sim_setup *setup, struct sim_result *result_out)
{
    begin(setup);
    int64_t start = world.now;
    for (int64_t at = start; !world.failed; at += TICK) {
        deliver_until(at);
        if (world.failed)
            break;
        world.now = at;
        world.healing = at - start > RUN_NS;
        tick();
        if (world.failed || (world.healing && is_whole()))
            break;
        if (at - start > RUN_NS + HEAL_NS) {
            nodesim_fail("not whole %lld ms after the last fault", HEAL_NS / MS);
            world.stuck = true;
        }
    }
    *result_out = (struct sim_result){.failed = world.failed,
        .stuck = world.stuck,
        .is_void = !world.failed && (world.cover[NODESIM_GIVEN] < NODES || world.appended < BLOCKS_LEAST),
        .events = world.delivered,
        .operations = world.appended,
        .virtual_ns = world.now - start};
    memcpy(result_out->cover, world.cover, sizeof world.cover);
    if (world.failed)
        snprintf(result_out->why, sizeof result_out->why, "at %lld ms: %s", (long long)(world.now / MS),
            world.why);
}
