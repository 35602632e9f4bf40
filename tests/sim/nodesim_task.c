/* Tasks of nodesim: a block of a node's log begins one, or says that one has ended. The incarnation that
 * logged its beginning owns it, and when that is sealed, the next one, which recovers its log. */
#include "tests/sim/nodesim.h"

struct tally { /* of all blocks that a chain has of a node's logs */
    uint64_t begun_in[TASKS_MAX]; /* 0: nowhere */
    uint32_t ends[TASKS_MAX];
};

struct process *nodesim_process_of(uint64_t incarnation)
{
    for (uint32_t i = 0; i < world.process_count; i++)
        if (world.processes[i].incarnation == incarnation)
            return &world.processes[i];
    return NULL;
}

static void tally_of(const struct chain *c, uint32_t node, struct tally *out)
{
    memset(out, 0, sizeof *out);
    for (uint32_t i = 0; i < c->count; i++) {
        const struct chain_log *log = &c->logs[i];
        const struct process *p = log->node == node ? nodesim_process_of(log->incarnation) : NULL;
        for (uint64_t k = 0; p != NULL && k < log->blocks && k < BLOCKS_MAX; k++) {
            const struct block *b = &p->blocks[k];
            if (b->ends)
                out->ends[b->task]++;
            else
                out->begun_in[b->task] = log->incarnation;
        }
    }
}

uint32_t nodesim_tasks_left(const struct chain *c, uint32_t node, struct mob_node_log *out, uint32_t max)
{
    static struct tally tally;
    uint32_t count = 0;
    tally_of(c, node, &tally);
    for (uint32_t t = 1; t <= world.task_count && count < max; t++)
        if (tally.begun_in[t] != 0 && tally.ends[t] == 0)
            out[count++] = (struct mob_node_log){.incarnation = tally.begun_in[t], .start = t};
    return count;
}

/* ---- the node ---- */

void nodesim_task_own(struct process *p, uint16_t task, uint64_t log)
{
    if (p->owned_count == OWNED_MAX)
        nodesim_fail("too many tasks of one process");
    else
        p->owned[p->owned_count++] = (struct owned){log, task};
}

static bool owns(const struct process *p, uint32_t task)
{
    for (uint32_t i = 0; i < p->owned_count; i++)
        if (p->owned[i].task == task)
            return true;
    return false;
}

static void disown(struct process *p, uint32_t task)
{
    for (uint32_t i = 0; i < p->owned_count; i++)
        if (p->owned[i].task == task)
            p->owned[i] = p->owned[--p->owned_count];
}

/* What the next block of its log says: decided once, since a block that is sent again is the same. */
void nodesim_task_next_block(struct process *p)
{
    struct block *b = &p->blocks[p->acked];
    bool begun = p->recovery.stage == RECOVERY_BEGUN;
    *b = (struct block){0, false};
    if (begun && p->owned_count > 0 && nodesim_chance(world.healing ? 1 : 0.3)) {
        *b = (struct block){p->owned[nodesim_below(p->owned_count)].task, true};
    } else if (begun && !world.healing && p->owned_count < OWNED_MAX / 2 &&
        world.task_count + 1 < TASKS_MAX && nodesim_chance(0.3)) {
        world.tasks[++world.task_count] = (struct task){.node = p->node};
        *b = (struct block){(uint16_t)world.task_count, false};
    }
}

/* What is acknowledged may be seen outside. */
void nodesim_task_acked(struct process *p, uint64_t number)
{
    const struct block *b = &p->blocks[number];
    struct task *t = &world.tasks[b->task];
    if (b->task == 0)
        return;
    if (!b->ends) {
        nodesim_count(NODESIM_TASKS_BEGUN);
        nodesim_task_own(p, b->task, p->incarnation);
        return;
    }
    disown(p, b->task);
    nodesim_count(NODESIM_TASKS_ENDED);
    if (t->seen++ > 0 && !t->lost)
        nodesim_fail("task %u of node %u ends in log %llu, and was seen to end before", b->task, t->node,
            (unsigned long long)p->incarnation);
}

void nodesim_tasks_lost(const struct process *p, uint64_t from, uint64_t to)
{
    for (uint64_t k = from; k < to && k < BLOCKS_MAX; k++) {
        struct task *t = &world.tasks[p->blocks[k].task];
        if (p->blocks[k].task != 0 && !t->lost)
            nodesim_count(NODESIM_TASKS_LOST);
        t->lost = true;
    }
}

/* ---- what must hold ---- */

/* The record says that each unfinished task of the cut has a live owner. */
void nodesim_check_ended(const struct mob_recover_row *row)
{
    static struct tally tally;
    struct process *by = nodesim_process_of(row->by);
    struct shard *s = &world.shard[nodesim_home(row->incarnation)];
    const struct chain_log *own = nodesim_chain_log(&s->chain, row->by);
    if (by == NULL || !s->up || own == NULL || !own->live)
        return; /* it is dead itself: the next one takes the record */
    tally_of(&s->chain, by->node, &tally);
    for (uint32_t t = 1; t <= world.task_count; t++)
        if (tally.begun_in[t] == row->incarnation && tally.ends[t] == 0 && !world.tasks[t].lost &&
            !owns(by, t))
            nodesim_fail("the record of log %llu has ended, and %llu does not own its task %u",
                (unsigned long long)row->incarnation, (unsigned long long)row->by, t);
}

/* Nobody looks into this log for unfinished work any more. */
void nodesim_check_recovered(const struct chain *c, const struct chain_log *log)
{
    static struct tally tally;
    tally_of(c, log->node, &tally);
    for (uint32_t t = 1; t <= world.task_count; t++)
        if (tally.begun_in[t] == log->incarnation && tally.ends[t] == 0 && !world.tasks[t].lost)
            nodesim_fail("log %llu is said to be recovered, and its task %u has not ended",
                (unsigned long long)log->incarnation, t);
}

struct process *nodesim_live_process(uint32_t node)
{
    for (uint32_t i = 0; i < world.process_count; i++) {
        struct process *p = &world.processes[i];
        const struct mob_node_log *row = p->up && p->node == node ? nodesim_table_row(p->incarnation) : NULL;
        if (row != NULL && row->state == MOB_NODE_LOG_LIVE)
            return p;
    }
    return NULL;
}

/* Nothing is left to be recovered, or to be ended. */
bool nodesim_tasks_whole(void)
{
    for (uint32_t n = 0; n < world.nodes; n++) {
        const struct process *p = nodesim_live_process(n);
        if (p == NULL || p->owned_count > 0 || nodesim_recovers(p) ||
            (p->asking && p->blocks[p->acked].task != 0))
            return false;
        const struct chain_log *log =
            nodesim_chain_log(&world.shard[nodesim_home(p->incarnation)].chain, p->incarnation);
        if (log == NULL || !log->live) /* it will hear of that */
            return false;
    }
    return true;
}

void nodesim_trace_what_is_left(void)
{
    for (uint32_t i = 0; i < world.process_count; i++) {
        const struct process *p = &world.processes[i];
        if (!p->up)
            continue;
        TRACE("node %u, start %llu, incarnation %llu at shard %u: recovery is at %u, %u tasks, acked %llu",
            p->node, (unsigned long long)p->start, (unsigned long long)p->incarnation, p->at,
            p->recovery.stage, p->owned_count, (unsigned long long)p->acked);
        for (uint32_t k = 0; k < p->recovery.count; k++)
            TRACE("    log %llu: stage %u, request %llu, version %llu",
                (unsigned long long)p->recovery.logs[k].row.incarnation, p->recovery.logs[k].stage,
                (unsigned long long)p->recovery.logs[k].request,
                (unsigned long long)p->recovery.logs[k].version);
    }
}

static void check_tasks_of(struct process *p)
{
    static struct tally tally;
    struct shard *s = &world.shard[nodesim_home(p->incarnation)];
    const struct chain_log *log = nodesim_chain_log(&s->chain, p->incarnation);
    if (log == NULL || !log->live || log->blocks < p->acked)
        nodesim_fail("node %u was told of %llu blocks in log %llu, and there are %llu", p->node,
            (unsigned long long)p->acked, (unsigned long long)p->incarnation,
            (unsigned long long)(log == NULL ? 0 : log->blocks));
    tally_of(&s->chain, p->node, &tally);
    for (uint32_t t = 1; t <= world.task_count; t++)
        if (tally.begun_in[t] != 0 && tally.ends[t] != 1 && !world.tasks[t].lost)
            nodesim_fail("task %u of log %llu has ended %u times", t, (unsigned long long)tally.begun_in[t],
                tally.ends[t]);
}

/* Its recoverer was stopped when everything of this shard died: its client was expired, and it does not know
 * what the record says now. */
static bool recoverer_was_away(uint32_t shard, uint64_t log)
{
    for (uint32_t i = 0; i < world.process_count; i++) {
        const struct recovery *r = &world.processes[i].recovery;
        for (uint32_t k = 0; k < r->count && world.processes[i].up && world.shard[shard].was_expired[i]; k++)
            if (r->logs[k].row.incarnation == log)
                return true;
    }
    return false;
}

/* Some incarnation of that node started when it was of no use already, and listed it. */
static bool was_to_be_tidied(const struct record *r, const struct process *by, const struct chain_log *log)
{
    int64_t since =
        log != NULL ? log->recovered_at : world.shard[nodesim_home(r->row.incarnation)].started_at;
    if (log != NULL && !log->recovered)
        return false;
    since = since > r->since ? since : r->since;
    for (uint32_t i = 0; i < world.process_count && by != NULL; i++) {
        struct process *p = &world.processes[i];
        if (p->node == by->node && p->recovery.tidy.whole && p->recovery.tidy.began > since &&
            nodesim_recovered_log(p, r->row.incarnation) == NULL)
            return true;
    }
    return false;
}

/* A record may be left that nobody is at: an incarnation that stood still, and does not know that it is over,
 * took it when all had been done; or its removal, or its log, or its log's RECOVERED, was lost with
 * everything. Until a node of that name starts. */
static bool is_excused(uint32_t shard, const struct record *r)
{
    const struct process *by = nodesim_process_of(r->row.by);
    const struct chain_log *log =
        nodesim_chain_log(&world.shard[nodesim_home(r->row.incarnation)].chain, r->row.incarnation);
    bool dead = by == NULL || by != nodesim_live_process(by->node); /* also who has not heard of it */
    return (dead && (log == NULL || log->recovered || log->was_recovered || r->is_back) &&
               !was_to_be_tidied(r, by, log)) ||
        recoverer_was_away(shard, r->row.incarnation);
}

static void check_records(uint32_t shard)
{
    const struct chain *c = &world.shard[shard].chain;
    for (uint32_t i = 0; i < c->record_count; i++) {
        const struct mob_recover_row *row = &c->records[i].row;
        nodesim_count(NODESIM_RECORDS_STALE);
        if (!is_excused(shard, &c->records[i]))
            nodesim_fail("the record of log %llu is by %llu, and nobody is at it",
                (unsigned long long)row->incarnation, (unsigned long long)row->by);
    }
}

void nodesim_check_whole(void)
{
    for (uint32_t n = 0; n < world.nodes; n++)
        check_tasks_of(nodesim_live_process(n));
    for (uint32_t i = 0; i < world.shards; i++)
        check_records(i);
}

/* Each node has started once more, and nobody is left who is over: so is no record, nor a log to recover. */
void nodesim_check_tidy(void)
{
    for (uint32_t i = 0; i < world.shards; i++) {
        const struct chain *c = &world.shard[i].chain;
        for (uint32_t k = 0; k < c->record_count; k++)
            nodesim_fail("the record of log %llu, by %llu, is left when each node has started once more",
                (unsigned long long)c->records[k].row.incarnation, (unsigned long long)c->records[k].row.by);
        for (uint32_t k = 0; k < c->count; k++)
            if (!c->logs[k].live && !c->logs[k].recovered)
                nodesim_fail("log %llu is not recovered when each node has started once more",
                    (unsigned long long)c->logs[k].incarnation);
    }
}

/* `r` goes because its log was found RECOVERED, or not found: nobody is at it who needs it. Where the log's
 * home lost that with everything afterwards, it still is what was listed. */
void nodesim_check_tidied(const struct record *r, const struct event *e)
{
    struct shard *home = &world.shard[nodesim_home(r->row.incarnation)];
    const struct process *by = nodesim_process_of(r->row.by);
    const struct chain_log *log = nodesim_chain_log(&home->chain, r->row.incarnation);
    const struct chain_log *own =
        by == NULL ? NULL : nodesim_chain_log(&world.shard[nodesim_home(r->row.by)].chain, r->row.by);
    bool of_use =
        home->up && log != NULL && !log->recovered && by != NULL && by->up && own != NULL && own->live;
    if (of_use && (home->start == e->home_start || r->version != e->b))
        nodesim_fail("the record of log %llu, which %llu recovers, is tidied by %llu",
            (unsigned long long)r->row.incarnation, (unsigned long long)r->row.by,
            (unsigned long long)e->record.by);
}
