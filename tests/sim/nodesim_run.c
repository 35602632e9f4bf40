/* The liveness of nodes, and what becomes of their logs: one seed is one exact run of one to three shards.
 * Each has two masters with the real machines (gcs/chain/node_watch.h, mastership), its rows in the table
 * where they agree, and its chain as one object. Nodes are at home at one of the shards; their processes die,
 * stop, go on and are started again, ask the first shard where their home is, log blocks in which tasks begin
 * and end, and recover what the lives before them have left, under RECOVER records that may be on another
 * shard than the log. Messages are delayed, lost and doubled; a chain may be silent for a while, or lose what
 * was not on its disks. What routes by homes and decides of records is the product's (common/wire/home.h,
 * recover_row.h, gcs/chain/incarnation.h). What is asserted:
 *
 *   - a log whose cut is recorded has that many blocks, and takes none any more, over all deaths;
 *   - an incarnation is given out when all earlier ones of its node are sealed, and no block of an earlier
 *     one is taken once a later one has any: the world outside sees one node;
 *   - a cut that is recorded is the one that the chain told, and no log is sealed of which the table says
 *     that it lives;
 *   - an id is given out once, by any shard, and names its home, which is its node's over all lives;
 *   - a second process under the name of one that lives is refused, and the first goes on;
 *   - a task is seen to end once; who says in a record that all which a log has left is its own, owns it; a
 *     log counts as recovered when all of that has ended;
 *   - when all faults have ended each node has one live incarnation, with all blocks of which it was told,
 *     the others are sealed, each task that was logged has ended once, and no record is left behind of a node
 *     that started since ("stuck", when it does not come to that);
 *   - when each node has started once more then, no record is left at all, and every log that does not live
 * is recovered. No record goes as one of no use that a living incarnation is at.
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
    uint32_t home = nodesim_home(incarnation);
    p->incarnation = incarnation;
    p->acked = 0;
    if (home != p->at ||
        (world.newest_given[p->node] != 0 && nodesim_home(world.newest_given[p->node]) != home))
        nodesim_fail("node %u gets incarnation %llu of shard %u at shard %u, and had %llu", p->node,
            (unsigned long long)incarnation, home, p->at, (unsigned long long)world.newest_given[p->node]);
    if (world.newest_given[p->node] != 0)
        nodesim_count(NODESIM_HOMES_KEPT);
    nodesim_count(NODESIM_GIVEN);
    TRACE("node %u: start %llu is incarnation %llu", p->node, (unsigned long long)p->start,
        (unsigned long long)incarnation);
    struct shard *s = &world.shard[home];
    for (uint32_t i = 0; i < s->chain.count && s->up; i++) {
        const struct chain_log *other = &s->chain.logs[i];
        if (other->node == p->node && other->live && other->incarnation < incarnation &&
            nodesim_process_of(other->incarnation) != NULL)
            nodesim_fail("incarnation %llu of node %u is given out while %llu takes blocks",
                (unsigned long long)incarnation, p->node, (unsigned long long)other->incarnation);
    }
    if (incarnation > world.newest_given[p->node])
        world.newest_given[p->node] = incarnation;
}

static void at_node(struct event *e)
{
    struct process *p = &world.processes[e->to];
    bool linked =
        e->what >= AT_NODE_APPENDED || e->shard == p->at; /* links of masters of before are closed */
    if (!p->up || !linked)
        return;
    if (e->what == AT_NODE_ENROLLED && p->incarnation == 0 && e->status == MOB_MISDIRECTED) {
        nodesim_count(NODESIM_MISDIRECTED);
        p->at = (uint32_t)e->b;
    } else if (e->what == AT_NODE_ENROLLED && p->incarnation == 0) {
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
        bool newest = e->b == p->acked; /* else it was asked twice, and heard */
        if (e->status != MOB_OK) {
            p->up = false;
        } else if (newest && p->asking) {
            p->asking = false;
            nodesim_task_acked(p, p->acked++);
        }
    } else if (e->what > AT_NODE_APPENDED) {
        nodesim_recovery_heard(p, e);
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
                                   .shard = p->at,
                                   .from = i,
                                   .to = m,
                                   .a = p->incarnation,
                                   .log = name_of(p)},
                true);
    }
    if (p->incarnation == 0)
        return;
    nodesim_recovery_tick(p);
    bool again = p->asking && world.now - p->asked_at > ASK_AGAIN;
    if (p->up && p->acked < BLOCKS_MAX && (again || (!p->asking && world.now >= p->next_append))) {
        if (!p->asking)
            nodesim_task_next_block(p);
        p->asking = true;
        p->asked_at = world.now;
        p->next_append = world.now + (int64_t)nodesim_below(60 * MS);
        nodesim_send_event((struct event){.what = AT_CHAIN_APPEND,
                               .shard = nodesim_home(p->incarnation),
                               .from = i,
                               .a = p->incarnation,
                               .b = p->acked},
            true);
    }
}

void nodesim_kill_process(struct process *p)
{
    p->up = false;
    for (uint32_t m = 0; m < MASTERS; m++)
        nodesim_send_event(
            (struct event){.what = AT_MASTER_GONE, .shard = p->at, .to = m, .a = p->incarnation}, false);
    nodesim_start_next(p, (int64_t)nodesim_below(100 * MS) + 1);
}

static void start_processes(void)
{
    for (uint32_t n = 0; n < world.nodes; n++) {
        if (world.start_at[n] == 0 || world.now < world.start_at[n] || world.process_count == PROCESSES_MAX)
            continue;
        world.start_at[n] = 0;
        world.processes[world.process_count++] =
            (struct process){.node = n, .start = ++world.next_start, .up = true};
    }
}

/* ---- the run ---- */

/* Each node has one live incarnation, whose process is there; others that want its name do not count. */
static bool is_whole(void)
{
    uint32_t live[NODES_MAX] = {0};
    for (uint32_t i = 0; i < world.process_count; i++) {
        const struct process *p = &world.processes[i];
        const struct mob_node_log *row = p->up ? nodesim_table_row(p->incarnation) : NULL;
        live[p->node] += row != NULL && row->state == MOB_NODE_LOG_LIVE;
    }
    uint32_t open = 0;
    bool each = true;
    for (uint32_t k = 0; k < world.shards; k++) {
        const struct shard *s = &world.shard[k];
        each = each && nodesim_answers(k);
        for (uint32_t i = 0; i < s->table_count; i++)
            open += s->table[i].state != MOB_NODE_LOG_SEALED;
    }
    for (uint32_t n = 0; n < world.nodes; n++)
        each = each && live[n] == 1;
    return each && open == world.nodes && nodesim_tasks_whole();
}

/* Who is over, and has not heard of it, may still write a record that is of no use. */
static bool is_quiet(void)
{
    bool quiet = true;
    for (uint32_t i = 0; i < world.process_count; i++) {
        const struct process *p = &world.processes[i];
        quiet = quiet && (!p->up || p->incarnation == 0 || p == nodesim_live_process(p->node));
    }
    if (!quiet)
        world.quiet_since = 0;
    else if (world.quiet_since == 0)
        world.quiet_since = world.now;
    return quiet && world.now - world.quiet_since > QUIET;
}

/* Each node, so that it tidies what its starts before could not know of. */
static void start_once_more(void)
{
    world.started_again = true;
    for (uint32_t n = 0; n < world.nodes; n++) {
        struct process *p = nodesim_live_process(n);
        world.before_that[n] = p->incarnation;
        nodesim_count(NODESIM_LAST_STARTS);
        nodesim_kill_process(p);
    }
}

static bool has_started_once_more(void)
{
    bool each = world.started_again;
    for (uint32_t n = 0; n < world.nodes && each; n++)
        each = nodesim_live_process(n)->incarnation != world.before_that[n];
    return each;
}

/* True: that was the run. */
static bool is_over(void)
{
    if (!world.healing || !is_whole())
        return false;
    if (!world.was_whole) {
        world.was_whole = true;
        world.appended_until_then = world.appended;
        nodesim_check_whole();
    }
    if (has_started_once_more()) {
        nodesim_check_whole();
        nodesim_check_tidy();
        return true;
    }
    if (!world.started_again && is_quiet())
        start_once_more();
    return false;
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
    bool to_node = e->what >= AT_NODE_ENROLLED;
    if (to_master)
        until = world.shard[e->shard].masters[e->to].paused_until;
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
    for (uint32_t i = 0; i < SHARDS_MAX * MASTERS; i++)
        mob_node_watch_destroy(world.shard[i / MASTERS].masters[i % MASTERS].watch);
    for (uint32_t i = 0; i < world.event_count; i++)
        free(world.events[i].logs);
    memset(&world, 0, offsetof(struct nodesim, processes));
    world.trace = setup->trace;
    world.seed = setup->seed;
    world.without = (enum nodesim_rule)setup->without;
    world.rng[0] = setup->seed * 0x9e3779b97f4a7c15ull + 1;
    world.rng[1] = setup->seed ^ 0xd1b54a32d192ed03ull;
    for (int i = 0; i < 8; i++)
        (void)nodesim_draw();
    world.now = 1000 * MS;
    world.shards = 1 + (uint32_t)nodesim_below(SHARDS_MAX);
    world.nodes = world.shards + 2;
    for (uint32_t i = 0; i < world.shards; i++) {
        struct shard *s = &world.shard[i];
        s->up = true;
        s->epoch = s->start = 1;
        for (uint32_t k = 0; k < MASTERS; k++) {
            s->masters[k].shard = i;
            nodesim_master_start(&s->masters[k]);
        }
    }
    for (uint32_t n = 0; n < world.nodes; n++)
        world.start_at[n] = world.now + 1;
}

static void tick(void)
{
    start_processes();
    for (uint32_t i = 0; i < world.process_count; i++)
        node_tick(i);
    for (uint32_t i = 0; i < world.shards; i++) {
        struct shard *s = &world.shard[i];
        for (uint32_t k = 0; k < MASTERS; k++)
            nodesim_master_tick(&s->masters[k]);
        if (nodesim_answers(i) && nodesim_chance(0.05))
            s->disk = s->chain; /* synced */
    }
    if (world.healing)
        return;
    if (world.now >= world.fault_at) {
        nodesim_fault();
        world.fault_at = world.now + (20 * MS + (int64_t)nodesim_below(250 * MS)) / world.shards;
    }
    nodesim_fault_of_recovery();
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
        if (world.failed || is_over())
            break;
        if (at - start > RUN_NS + HEAL_NS) {
            nodesim_fail("not whole %lld ms after the last fault", HEAL_NS / MS);
            world.stuck = true;
            nodesim_trace_what_is_left();
        }
    }
    *result_out = (struct sim_result){.failed = world.failed,
        .stuck = world.stuck,
        .is_void = !world.failed &&
            (world.cover[NODESIM_GIVEN] < world.nodes || world.appended_until_then < BLOCKS_LEAST),
        .events = world.delivered,
        .operations = world.appended,
        .virtual_ns = world.now - start};
    memcpy(result_out->cover, world.cover, sizeof world.cover);
    if (world.failed)
        snprintf(result_out->why, sizeof result_out->why, "at %lld ms: %s", (long long)(world.now / MS),
            world.why);
}
