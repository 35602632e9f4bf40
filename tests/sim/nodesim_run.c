/* nodesim [--seed N] [--seeds K] [--first N] [--trace] [--expect] [--without-index]: the liveness of nodes,
 * simulated.
 *
 * One seed is one exact run of two masters with the real machines (gcs/chain/node_watch.h, mastership), the
 * table where they agree, nodes whose processes die, stop, go on and are started again, and the home chain as
 * one object that takes blocks, seals and registrations, loses what was not on its disks when everything
 * dies, and starts again with what a master tells it and what nodes and masters still keep. Messages are
 * delayed, lost and doubled. What is asserted:
 *
 *   - a log whose cut is recorded has that many blocks, and takes none any more, over all deaths;
 *   - an incarnation is given out when all earlier ones of its node are sealed, and no block of an earlier
 *     one is taken once a later one has any: the world outside sees one node;
 *   - a cut that is recorded is the one that the chain told;
 *   - a second process under the name of one that lives is refused, and the first goes on;
 *   - when all faults have ended each node has one live incarnation, and the others are sealed.
 *
 * --expect: fails unless some seed breaks a rule (a build without one of them).
 */
#include <getopt.h>

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
    world.given++;
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
        world.seconds += p->refused;
        struct process *holder = p->refused ? nodesim_newest_process(p->node) : NULL;
        if (p->refused && holder == NULL)
            nodesim_fail("node %u: refused, and there is no other", p->node);
        if (holder != NULL && !holder->up) /* it died meanwhile */
            nodesim_start_next(holder, 1);
    } else if (e->what == AT_NODE_OVER && e->a == p->incarnation) {
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

static void kill_process(struct process *p)
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

static void fault(void)
{
    struct master *m = &world.masters[nodesim_below(MASTERS)];
    uint32_t node = (uint32_t)nodesim_below(NODES);
    struct process *p = nodesim_newest_process(node);
    int64_t pause = world.now + (int64_t)nodesim_below(900 * MS);
    uint32_t dice = (uint32_t)nodesim_below(19);
    switch (dice == 18 ? 6 : dice % 6) {
    case 0:
        if (p != NULL && p->up)
            kill_process(p);
        break;
    case 6: /* somebody starts another under the same name */
        world.start_at[node] = world.start_at[node] == 0 ? world.now + 1 : world.start_at[node];
        break;
    case 1:
        if (p != NULL)
            p->paused_until = pause;
        break;
    case 2:
        nodesim_master_start(m);
        break;
    case 3:
        m->paused_until = pause;
        break;
    case 4:
        if (world.chain_up) { /* everything of the chain dies */
            world.chain_up = false;
            world.deaths_of_all++;
            TRACE("the chain dies");
        }
        break;
    default: /* several at a time */
        for (uint32_t i = 0; i < world.process_count; i++)
            if (nodesim_chance(0.3))
                world.processes[i].paused_until = pause;
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

static void run(uint64_t seed, bool trace, bool index)
{
    uint64_t seals = world.seals, deaths = world.deaths_of_all, given = world.given, zombies = world.zombies,
             takeovers = world.takeovers, wrong = world.wrong_verdicts, refused = world.refused,
             seconds = world.seconds;
    for (uint32_t i = 0; i < MASTERS; i++)
        mob_node_watch_destroy(world.masters[i].watch);
    for (uint32_t i = 0; i < world.event_count; i++)
        free(world.events[i].logs);
    memset(&world, 0, sizeof world);
    world.seals = seals, world.deaths_of_all = deaths, world.given = given, world.zombies = zombies;
    world.takeovers = takeovers, world.wrong_verdicts = wrong, world.refused = refused;
    world.seconds = seconds;
    world.trace = trace;
    world.without_index = !index;
    world.rng[0] = seed * 0x9e3779b97f4a7c15ull + 1;
    world.rng[1] = seed ^ 0xd1b54a32d192ed03ull;
    for (int i = 0; i < 8; i++)
        (void)nodesim_draw();
    world.now = 1000 * MS;
    world.chain_up = true;
    for (uint32_t i = 0; i < MASTERS; i++)
        nodesim_master_start(&world.masters[i]);
    for (uint32_t n = 0; n < NODES; n++)
        world.start_at[n] = world.now + 1;
    int64_t begin = world.now;
    for (int64_t at = begin; !world.failed; at += TICK) {
        deliver_until(at);
        world.now = at;
        world.healing = at - begin > RUN_NS;
        start_processes();
        for (uint32_t i = 0; i < world.process_count; i++)
            node_tick(i);
        for (uint32_t i = 0; i < MASTERS; i++)
            nodesim_master_tick(&world.masters[i]);
        if (world.chain_up && nodesim_chance(0.05))
            world.disk = world.chain; /* synced */
        if (!world.healing && at >= world.fault_at) {
            fault();
            world.fault_at = at + 20 * MS + (int64_t)nodesim_below(250 * MS);
        }
        if (world.healing && is_whole())
            return;
        if (at - begin > RUN_NS + HEAL_NS)
            nodesim_fail("not whole %lld ms after the last fault", HEAL_NS / MS);
    }
}

int main(int argc, char **argv)
{
    static const struct option options[] = {{"seed", 1, NULL, 's'}, {"seeds", 1, NULL, 'k'},
        {"first", 1, NULL, 'f'}, {"trace", 0, NULL, 't'}, {"expect", 0, NULL, 'x'},
        {"without-index", 0, NULL, 'i'}, {NULL, 0, NULL, 0}};
    uint64_t first = 1, seeds = 1000;
    bool trace = false, expect = false, index = true;
    for (int o; (o = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        if (o == 's')
            first = strtoull(optarg, NULL, 10), seeds = 1;
        else if (o == 'k')
            seeds = strtoull(optarg, NULL, 10);
        else if (o == 'f')
            first = strtoull(optarg, NULL, 10);
        else if (o == 't')
            trace = true;
        else if (o == 'x')
            expect = true;
        else if (o == 'i')
            index = false;
        else
            return 2;
    }
    if (getenv("MOBULA_LOG") == NULL)
        mob_log_threshold = MOB_LOG_LEVEL_ERROR + 1;
    for (uint64_t seed = first; seed < first + seeds; seed++) {
        run(seed, trace, index);
        if (!world.failed)
            continue;
        printf("%s by seed %llu after %llu: %s\n", expect ? "caught" : "failed", (unsigned long long)seed,
            (unsigned long long)(seed - first), world.why);
        return expect ? 0 : 1;
    }
    printf("%llu seeds: %llu incarnations given out, %llu seals, %llu of nodes that lived, %llu zombies, "
           "%llu deaths of everything, %llu takeovers, %llu records refused, %llu second processes refused\n",
        (unsigned long long)seeds, (unsigned long long)world.given, (unsigned long long)world.seals,
        (unsigned long long)world.wrong_verdicts, (unsigned long long)world.zombies,
        (unsigned long long)world.deaths_of_all, (unsigned long long)world.takeovers,
        (unsigned long long)world.refused, (unsigned long long)world.seconds);
    bool enough = seeds < 100 ||
        (world.given > 5 * seeds && world.seals > 3 * seeds && world.wrong_verdicts > seeds &&
            world.zombies > seeds / 10 && world.deaths_of_all > seeds && world.takeovers > 2 * seeds &&
            world.refused > seeds / 10 && world.seconds > seeds / 10);
    if (!enough)
        printf("too little happened\n");
    return expect || !enough ? 1 : 0;
}
