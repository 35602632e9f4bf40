/* The chain of a shard as one object: it takes blocks, seals and registrations, is silent while it has lost a
 * member, loses what was not on its disks when everything dies, and starts again with what a master tells it
 * and what nodes and masters still keep. */
#include "tests/sim/nodesim.h"

uint32_t nodesim_home(uint64_t incarnation)
{
    return mob_home_of_id(incarnation, world.shards);
}

/* A small number for an id that this shard gave out, or that it was asked for. */
uint32_t nodesim_slot(uint32_t shard, uint64_t incarnation)
{
    struct shard *s = &world.shard[shard];
    for (uint32_t i = 0; i < s->id_count; i++)
        if (s->ids[i] == incarnation)
            return i;
    if (s->id_count == LOGS_MAX) {
        nodesim_fail("too many logs");
        return 0;
    }
    s->ids[s->id_count] = incarnation;
    return s->id_count++;
}

struct chain_log *nodesim_chain_log(struct chain *c, uint64_t incarnation)
{
    for (uint32_t i = 0; i < c->count; i++)
        if (c->logs[i].incarnation == incarnation)
            return &c->logs[i];
    return NULL;
}

bool nodesim_answers(uint32_t shard)
{
    return world.shard[shard].up && world.now >= world.shard[shard].silent_until;
}

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

/* Ids are never given out twice, by no shard, also when a registration was lost with everything. */
static uint64_t new_id(uint32_t shard)
{
    struct shard *s = &world.shard[shard];
    uint64_t shards = world.without == NODESIM_RULE_HOME_ID ? 1 : world.shards;
    uint64_t id = mob_chain_next_incarnation(s->chain.last_id, s->epoch, shard, shards);
    for (uint32_t i = 0; i < world.shards; i++)
        for (uint32_t k = 0; k < world.shard[i].id_count; k++)
            if (world.shard[i].ids[k] == id)
                nodesim_fail("shard %u gives out incarnation %llu, which shard %u has given out", shard,
                    (unsigned long long)id, i);
    (void)nodesim_slot(shard, id);
    return s->chain.last_id = id;
}

static void seal(struct chain_log *log, struct event *answer)
{
    answer->status = log == NULL ? MOB_NOT_FOUND : MOB_OK;
    nodesim_count(log != NULL && log->live ? NODESIM_SEALED : NODESIM_SEALED_AGAIN);
    if (log == NULL)
        return;
    const struct mob_node_log *row = nodesim_table_row(log->incarnation);
    /* Else a chain that starts again would not know of it. (One that nobody has may be sealed by whoever has
     * a later one, and its record, which was late, come then.) */
    if (log->live && row != NULL && row->state == MOB_NODE_LOG_LIVE &&
        nodesim_process_of(log->incarnation) != NULL)
        nodesim_fail("log %llu of node %u is sealed, and the table says that it lives",
            (unsigned long long)log->incarnation, log->node);
    log->live = false;
    answer->b = log->blocks;
}

static bool append(struct chain_log *log, const struct event *e, struct event *answer)
{
    answer->b = e->b;
    if (log == NULL || !log->live) {
        answer->status = MOB_SEALED;
        answer->b = log == NULL ? 0 : log->blocks;
    } else if (e->b == log->blocks) {
        log->blocks++;
        world.appended++;
        check_taken(log);
    }
    return log == NULL || !log->live || e->b < log->blocks;
}

void nodesim_at_chain(struct event *e)
{
    struct shard *s = &world.shard[e->shard];
    struct chain_log *log = nodesim_chain_log(&s->chain, e->a);
    struct event answer = {
        .shard = e->shard, .to = e->from, .a = e->a, .status = MOB_OK, .request = e->request};
    if (!nodesim_answers(e->shard))
        return; /* whoever asked asks again */
    switch (e->what) {
    case AT_CHAIN_SEAL:
        answer.what = e->by_node ? AT_NODE_SEALED : AT_MASTER_CUT;
        answer.shard = e->asker;
        seal(log, &answer);
        break;
    case AT_CHAIN_REGISTER:
        answer.what = AT_MASTER_REGISTERED;
        answer.log = e->log;
        answer.a = new_id(e->shard);
        s->chain.logs[s->chain.count++] = (struct chain_log){
            .incarnation = answer.a, .node = (uint32_t)(e->log.node[0] - 'a'), .live = true};
        break;
    case AT_CHAIN_APPEND:
        answer.what = AT_NODE_APPENDED;
        if (!append(log, e, &answer))
            return;
        break;
    default:
        nodesim_at_chain_recovery(e, &answer);
        if (answer.what == 0)
            return;
        break;
    }
    nodesim_send_event(answer, false);
} // NOLINT(clang-analyzer-unix.Malloc): the queue owns the copies now

void nodesim_chain_dies(uint32_t shard)
{
    world.shard[shard].up = false;
    TRACE("the chain of shard %u dies", shard);
}

/* ---- a chain that starts again ---- */

/* A client sends again, to the only member of the configuration with which the chain starts again, over one
 * link; the other one is closed before (gcs/client/client_route.c, set_route), and what is left unread in it
 * is never read. So "sealed at 15" from a chain that died cannot be heard after the same request has been
 * sent again and got its place behind a block that came back: it is heard before, and then keeps its place,
 * or it is lost, and the new answer counts. Whoever is stopped meanwhile sends nothing, and first reads what
 * has come. */
static void drop_answers_of_old_history(uint32_t shard)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < world.event_count; i++) {
        struct event *e = &world.events[i];
        bool to_node = e->what >= AT_NODE_APPENDED;
        bool to_master = e->what == AT_MASTER_CUT || e->what == AT_MASTER_REGISTERED;
        int64_t paused_until = to_node ? world.processes[e->to].paused_until
                                       : world.shard[shard].masters[e->to % MASTERS].paused_until;
        if (e->shard != shard || (!to_node && !to_master) || paused_until > world.now) {
            world.events[kept++] = *e;
        } else {
            free(e->logs);
            nodesim_count(NODESIM_OLD_ANSWERS);
        }
    }
    world.event_count = kept;
}

/* Nodes that live send again what may be missing. */
static void blocks_come_back(uint32_t shard, struct chain *c)
{
    for (uint32_t i = 0; i < world.process_count; i++) {
        struct process *p = &world.processes[i];
        if (!p->up || p->incarnation == 0 || p->paused_until > world.now ||
            nodesim_home(p->incarnation) != shard)
            continue;
        nodesim_count(NODESIM_HOME_AWAY);
        struct chain_log *log = nodesim_chain_log(c, p->incarnation);
        if (log == NULL) { /* its registration comes back with it */
            log = &c->logs[c->count++];
            *log = (struct chain_log){.incarnation = p->incarnation, .node = p->node, .live = true};
            if (p->incarnation > c->last_id)
                c->last_id = p->incarnation;
        }
        uint64_t kept = p->acked + p->asking; /* and the one that was not answered */
        if (log->live && kept > log->blocks) {
            log->blocks = kept;
            nodesim_count(NODESIM_BLOCKS_BACK);
        }
    }
}

/* So do masters: seals that were answered keep their place. */
static void seals_come_back(struct shard *s)
{
    struct chain *c = &s->chain;
    for (uint32_t i = 0; i < MASTERS; i++)
        for (uint32_t k = 0; k < c->count && s->masters[i].up; k++) {
            uint64_t cut = s->masters[i].cuts[nodesim_slot(s->masters[i].shard, c->logs[k].incarnation)];
            if (cut == 0 || !c->logs[k].live)
                continue;
            nodesim_count(NODESIM_SEALS_BACK);
            c->logs[k].live = false;
            c->logs[k].blocks = cut - 1;
        }
}

/* What the master knows is sealed takes nothing above its cut: also where another master's seal of a history
 * that was lost had a later one. */
static void hear_seals(struct chain *c, const struct event *e)
{
    for (uint32_t i = 0; i < e->count; i++) {
        struct chain_log *log = nodesim_chain_log(c, e->seals[i].incarnation);
        if (log == NULL)
            continue;
        if (log->blocks > e->seals[i].cut)
            log->blocks = e->seals[i].cut;
        if (log->live)
            nodesim_count(NODESIM_STARTS_TOLD);
        log->live = false;
    }
}

/* Blocks that were there, or of which their node was told so, and are not any more. */
static void name_lost_blocks(const struct chain *before, const struct chain_log *log)
{
    const struct process *p = nodesim_process_of(log->incarnation);
    for (uint32_t i = 0; i < before->count; i++)
        if (before->logs[i].incarnation == log->incarnation && p != NULL)
            nodesim_tasks_lost(p, log->blocks, before->logs[i].blocks);
    if (p != NULL)
        nodesim_tasks_lost(p, log->blocks, p->acked);
}

/* Those that nobody sent are sealed where they are: also of whom is stopped, for whom it did not wait. */
static void seal_absent(struct chain_log *log)
{
    const struct process *p = nodesim_process_of(log->incarnation);
    bool there = p != NULL && p->up && p->paused_until <= world.now;
    if (p != NULL && !there && log->live) { /* else its node has not heard of it */
        log->live = false;
        nodesim_count(NODESIM_ABSENT);
    }
}

static void check_started(struct chain_log *log)
{
    const struct mob_node_log *row = nodesim_table_row(log->incarnation);
    if (row == NULL || row->state != MOB_NODE_LOG_SEALED)
        return;
    /* Blocks that nobody has any more are lost, and named. What is sealed has no more than its cut. */
    if (log->blocks < row->cut)
        log->blocks = row->cut;
    if (log->live || log->blocks > row->cut)
        nodesim_fail(
            "log %llu, recorded as sealed at %llu, is %s with %llu blocks when the chain has started "
            "again",
            (unsigned long long)row->incarnation, (unsigned long long)row->cut, log->live ? "live" : "sealed",
            (unsigned long long)log->blocks);
}

static void name_lost_logs(struct chain *before, struct chain *now)
{
    for (uint32_t i = 0; i < before->count; i++) {
        struct chain_log none = {.incarnation = before->logs[i].incarnation};
        if (nodesim_chain_log(now, none.incarnation) == NULL)
            name_lost_blocks(before, &none);
    }
}

/* A master makes the chain start again, with what it knows is sealed. */
void nodesim_at_chain_book(uint32_t shard, struct event *e)
{
    static struct chain before;
    struct shard *s = &world.shard[shard];
    struct chain *c = &s->chain;
    if (s->up)
        return;
    before = *c;
    *c = s->disk;
    s->epoch++;
    s->start++;
    s->started_at = world.now;
    nodesim_count(NODESIM_STARTS);
    if (world.without != NODESIM_RULE_OLD_ANSWERS)
        drop_answers_of_old_history(shard);
    blocks_come_back(shard, c);
    seals_come_back(s);
    hear_seals(c, e);
    nodesim_records_come_back(shard, &before);
    for (uint32_t i = 0; i < c->count; i++) {
        seal_absent(&c->logs[i]);
        name_lost_blocks(&before, &c->logs[i]);
        check_started(&c->logs[i]);
    }
    name_lost_logs(&before, c);
    s->up = true;
    s->disk = s->chain;
    TRACE("the chain of shard %u is there again", shard);
}
