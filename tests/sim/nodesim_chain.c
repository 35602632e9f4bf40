/* What the world of nodesim stands on: chance and messages, the table, and the chain. */
#include "tests/sim/nodesim.h"

struct nodesim world;

/* ---- chance, time, messages ---- */

void nodesim_count(enum nodesim_cover what)
{
    world.cover[what]++;
}

uint64_t nodesim_draw(void)
{
    uint64_t x = world.rng[0], y = world.rng[1];
    world.rng[0] = y;
    x ^= x << 23;
    world.rng[1] = x ^ y ^ (x >> 17) ^ (y >> 26);
    return world.rng[1] + y;
}

uint64_t nodesim_below(uint64_t n)
{
    return nodesim_draw() % n;
}

bool nodesim_chance(double p)
{
    return (double)(nodesim_draw() >> 11) / 9007199254740992.0 < p;
}

void nodesim_fail(const char *format, ...)
{
    if (world.failed)
        return;
    va_list list;
    va_start(list, format);
    world.failed = true;
    vsnprintf(world.why, sizeof world.why, format, list);
    va_end(list);
}

void nodesim_put(struct event e, int64_t delay)
{
    if (world.event_count == EVENTS_MAX) {
        nodesim_fail("too many events");
        return;
    }
    e.at = world.now + delay;
    e.order = ++world.order;
    world.events[world.event_count++] = e;
}

struct mob_node_log *nodesim_copy_of(const struct event *e)
{
    struct mob_node_log *logs = malloc((e->count + 1) * sizeof *logs);
    if (e->count > 0)
        memcpy(logs, e->logs, e->count * sizeof *logs);
    return logs;
}

/* Lost, late, or twice; in a calm network only late. */
void nodesim_send_event(struct event e, bool may_double)
{
    double loss = world.healing ? 0 : 0.04;
    if (nodesim_chance(loss)) {
        nodesim_count(NODESIM_FAULT_LOST);
        free(e.logs);
        free(e.seals);
        return;
    }
    bool late = nodesim_chance(0.05);
    int64_t delay = (int64_t)nodesim_below((uint64_t)(late ? 120 * MS : 12 * MS));
    if (late)
        nodesim_count(NODESIM_FAULT_LATE);
    if (may_double && !world.healing && nodesim_chance(0.03)) {
        struct event twin = e;
        if (e.logs != NULL)
            twin.logs = nodesim_copy_of(&e);
        twin.seals = NULL;
        if (e.seals == NULL) {
            nodesim_count(NODESIM_FAULT_DOUBLED);
            nodesim_put(twin, (int64_t)nodesim_below(150 * MS));
        } else
            free(twin.logs);
    }
    nodesim_put(e, delay); // NOLINT(clang-analyzer-unix.Malloc): the queue owns the copies now
} // NOLINT(clang-analyzer-unix.Malloc): as above

/* ---- the table ---- */

struct mob_node_log *nodesim_table_row(uint64_t incarnation)
{
    for (uint32_t i = 0; i < world.table_count; i++)
        if (world.table[i].incarnation == incarnation)
            return &world.table[i];
    return NULL;
}

struct chain_log *nodesim_chain_log(struct chain *c, uint64_t incarnation)
{
    for (uint32_t i = 0; i < c->count; i++)
        if (c->logs[i].incarnation == incarnation)
            return &c->logs[i];
    return NULL;
}

/* The table has an index that keeps two incarnations of a node from being live: an insert that comes late, of
 * a start that was given up since, meets the next one's there. */
static bool another_lives(const struct mob_node_log *log)
{
    for (uint32_t i = 0; i < world.table_count && !world.without_index; i++)
        if (world.table[i].state != MOB_NODE_LOG_SEALED && strcmp(world.table[i].node, log->node) == 0)
            return true;
    return false;
}

static enum mob_status note(const struct event *e)
{
    struct mob_node_log *row = nodesim_table_row(e->log.incarnation);
    uint32_t state = row == NULL ? MOB_NODE_LOG_NONE : row->state;
    bool mine = e->row.term == world.row.term && state == e->old_state;
    if (!mine || (row == NULL && another_lives(&e->log))) {
        nodesim_count(NODESIM_NOTES_REFUSED);
        if (mine)
            nodesim_count(NODESIM_NOTES_ANOTHER);
        return MOB_CONFLICT;
    }
    nodesim_count((enum nodesim_cover)(NODESIM_NONE_LIVE + state));
    if (row == NULL)
        row = &world.table[world.table_count++];
    *row = e->log;
    TRACE("table: incarnation %llu of %s is in state %u, cut %llu", (unsigned long long)row->incarnation,
        row->node, row->state, (unsigned long long)row->cut);
    const struct chain_log *log = world.chain_up ? nodesim_chain_log(&world.chain, row->incarnation) : NULL;
    /* Fewer: blocks were lost with everything, and named. */
    if (row->state == MOB_NODE_LOG_SEALED && log != NULL && (log->live || log->blocks > row->cut))
        nodesim_fail("the cut of log %llu is recorded as %llu, and it has %llu blocks and is %s",
            (unsigned long long)row->incarnation, (unsigned long long)row->cut,
            (unsigned long long)log->blocks, log->live ? "live" : "sealed");
    return MOB_OK;
}

void nodesim_at_table(struct event *e)
{
    struct event answer = {
        .what = AT_MASTER_TABLE, .to = e->from, .op = e->op, .tag = e->tag, .status = MOB_OK};
    nodesim_count((enum nodesim_cover)(NODESIM_ASKED_ROW + (e->op - TABLE_ROW)));
    if (e->op == TABLE_SET_ROW) {
        if (memcmp(&world.row, &e->old_row, sizeof world.row) == 0)
            world.row = e->row;
        else
            answer.status = MOB_CONFLICT;
    } else if (e->op == TABLE_LOGS) {
        answer.logs = world.table;
        answer.count = world.table_count;
        answer.logs = nodesim_copy_of(&answer);
    } else if (e->op == TABLE_NOTE) {
        answer.status = note(e);
    }
    answer.row = world.row;
    nodesim_send_event(answer, true);
} // NOLINT(clang-analyzer-unix.Malloc): the queue owns the copies now

/* ---- the chain ---- */

static void check_taken(const struct chain_log *log)
{
    const struct mob_node_log *row = nodesim_table_row(log->incarnation);
    if (row != NULL && row->state == MOB_NODE_LOG_SEALED)
        nodesim_fail("log %llu, recorded as sealed at %llu, takes block %llu",
            (unsigned long long)log->incarnation, (unsigned long long)row->cut,
            (unsigned long long)log->blocks);
    if (log->incarnation < world.newest_taken[log->node])
        nodesim_fail("log %llu of node %u takes a block after incarnation %llu had some",
            (unsigned long long)log->incarnation, log->node,
            (unsigned long long)world.newest_taken[log->node]);
    world.newest_taken[log->node] = log->incarnation;
}

void nodesim_at_chain(struct event *e)
{
    struct chain_log *log = nodesim_chain_log(&world.chain, e->a);
    struct event answer = {.to = e->from, .a = e->a, .status = MOB_OK};
    if (!world.chain_up)
        return; /* whoever asked asks again */
    switch (e->what) {
    case AT_CHAIN_SEAL:
        answer.what = AT_MASTER_CUT;
        answer.status = log == NULL ? MOB_NOT_FOUND : MOB_OK;
        nodesim_count(log != NULL && log->live ? NODESIM_SEALED : NODESIM_SEALED_AGAIN);
        if (log != NULL) {
            log->live = false;
            answer.b = log->blocks;
        }
        break;
    case AT_CHAIN_REGISTER:
        answer.what = AT_MASTER_REGISTERED;
        answer.log = e->log;
        answer.a = ++world.next_incarnation;
        world.chain.logs[world.chain.count++] = (struct chain_log){
            .incarnation = answer.a, .node = (uint32_t)(e->log.node[0] - 'a'), .live = true};
        break;
    default:
        answer.what = AT_NODE_APPENDED;
        answer.b = e->b;
        if (log == NULL || !log->live) {
            answer.status = MOB_SEALED;
        } else if (e->b == log->blocks) {
            log->blocks++;
            world.appended++;
            check_taken(log);
        } else if (e->b > log->blocks) {
            return;
        }
        break;
    }
    nodesim_send_event(answer, false);
}

/* A client sends again, to the only member of the configuration with which the chain starts again, over one
 * link; the other one is closed before (gcs/client/client_route.c, set_route), and what is left unread in it
 * is never read. So "sealed at 15" from a chain that died cannot be heard after the same request has been
 * sent again and got its place behind a block that came back: it is heard before, and then keeps its place,
 * or it is lost, and the new answer counts. Whoever is stopped meanwhile sends nothing, and first reads what
 * has come. */
static void drop_answers_of_old_history(void)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < world.event_count; i++) {
        const struct event *e = &world.events[i];
        bool to_node = e->what == AT_NODE_APPENDED;
        bool to_master = e->what == AT_MASTER_CUT || e->what == AT_MASTER_REGISTERED;
        int64_t paused_until =
            to_node ? world.processes[e->to].paused_until : world.masters[e->to % MASTERS].paused_until;
        if ((!to_node && !to_master) || paused_until > world.now)
            world.events[kept++] = *e;
        else
            nodesim_count(NODESIM_OLD_ANSWERS);
    }
    world.event_count = kept;
}

/* A master makes the chain start again, with what it knows is sealed. */
void nodesim_at_chain_book(struct event *e)
{
    if (world.chain_up)
        return;
    world.chain = world.disk;
    nodesim_count(NODESIM_STARTS);
    drop_answers_of_old_history();
    struct chain *c = &world.chain;
    for (uint32_t i = 0; i < world.process_count; i++) { /* nodes that live send again what may be missing */
        struct process *p = &world.processes[i];
        if (!p->up || p->incarnation == 0 || p->paused_until > world.now)
            continue;
        struct chain_log *log = nodesim_chain_log(c, p->incarnation);
        if (log == NULL) { /* its registration comes back with it */
            log = &c->logs[c->count++];
            *log = (struct chain_log){
                .incarnation = p->incarnation, .node = p->node, .live = true, .given = true};
        }
        uint64_t kept = p->acked + p->asking; /* and the one that was not answered */
        if (log->live && kept > log->blocks) {
            log->blocks = kept;
            nodesim_count(NODESIM_BLOCKS_BACK);
        }
    }
    for (uint32_t i = 0; i < MASTERS; i++) /* so do masters: seals that were answered keep their place */
        for (uint32_t k = 0; k < c->count && world.masters[i].up; k++)
            if (world.masters[i].cuts[c->logs[k].incarnation] != 0 && c->logs[k].live) {
                nodesim_count(NODESIM_SEALS_BACK);
                c->logs[k].live = false;
                c->logs[k].blocks = world.masters[i].cuts[c->logs[k].incarnation] - 1;
            }
    for (uint32_t i = 0; i < e->count; i++) {
        struct chain_log *log = nodesim_chain_log(c, e->seals[i].incarnation);
        if (log == NULL || !log->live)
            continue;
        if (log->blocks > e->seals[i].cut)
            log->blocks = e->seals[i].cut;
        log->live = false;
        nodesim_count(NODESIM_STARTS_TOLD);
    }
    for (uint32_t i = 0; i < c->count; i++) { /* those that nobody sent are sealed where they are */
        bool there = false;
        for (uint32_t k = 0; k < world.process_count; k++)
            there =
                there || (world.processes[k].up && world.processes[k].incarnation == c->logs[i].incarnation);
        const struct mob_node_log *row = nodesim_table_row(c->logs[i].incarnation);
        if (!there && c->logs[i].live && c->logs[i].given) {
            c->logs[i].live = false;
            nodesim_count(NODESIM_ABSENT);
        }
        /* Blocks that nobody has any more are lost, and named. What is sealed has no more than its cut. */
        if (row != NULL && row->state == MOB_NODE_LOG_SEALED && c->logs[i].blocks < row->cut)
            c->logs[i].blocks = row->cut;
        if (row != NULL && row->state == MOB_NODE_LOG_SEALED &&
            (c->logs[i].live || c->logs[i].blocks > row->cut))
            nodesim_fail(
                "log %llu, recorded as sealed at %llu, is %s with %llu blocks when the chain has started "
                "again",
                (unsigned long long)row->incarnation, (unsigned long long)row->cut,
                c->logs[i].live ? "live" : "sealed", (unsigned long long)c->logs[i].blocks);
    }
    world.chain_up = true;
    world.disk = world.chain;
    TRACE("the chain is there again");
}
