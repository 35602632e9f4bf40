/* What a shard's chain has for those who recover logs (docs/adr/recovery-without-relogging.md): which
 * incarnations a node had, what they left unfinished, who says RECOVERED, and the RECOVER records, which are
 * keys like any other: on the shard of their hash, whatever the home of the log is. */
#include "tests/sim/nodesim.h"

uint32_t nodesim_record_shard(uint64_t log)
{
    uint8_t key[MOB_RECOVER_KEY_BYTES];
    mob_recover_key(log, key);
    return mob_home_of_key(MOB_GCS_NODES, key, sizeof key, world.shards);
}

static struct record *record_of(struct chain *c, uint64_t log)
{
    for (uint32_t i = 0; i < c->record_count; i++)
        if (c->records[i].row.incarnation == log)
            return &c->records[i];
    return NULL;
}

static void set_record(struct chain *c, const struct mob_recover_row *row, uint64_t version)
{
    struct record *r = record_of(c, row->incarnation);
    if (r == NULL && c->record_count == RECORDS_MAX) {
        nodesim_fail("too many records");
        return;
    }
    if (r == NULL)
        r = &c->records[c->record_count++];
    *r = (struct record){.row = *row, .version = version, .since = world.now};
}

static void remove_record(struct chain *c, uint64_t log)
{
    struct record *r = record_of(c, log);
    if (r != NULL)
        *r = c->records[--c->record_count];
}

/* Who has the record, for whoever wants to know (an event's answer). */
static void get(struct chain *c, const struct event *e, struct event *answer)
{
    const struct record *r = record_of(c, e->a);
    answer->status = r == NULL ? MOB_NOT_FOUND : MOB_OK;
    if (r == NULL)
        return;
    answer->b = r->version;
    answer->record = r->row;
}

static void count_put(const struct event *e, const struct record *before)
{
    bool ends = e->record.state == MOB_RECOVER_ENDED;
    nodesim_count(ends ? NODESIM_RECORDS_ENDED : NODESIM_RECORDS_TAKEN);
    if (!ends && before != NULL)
        nodesim_count(NODESIM_RECORDS_TAKEN_OVER);
    if (!ends && e->shard != nodesim_home(e->a))
        nodesim_count(NODESIM_RECORDS_ELSEWHERE);
}

static void change(struct chain *c, const struct event *e, struct event *answer)
{
    const struct record *r = record_of(c, e->a);
    uint64_t version = r == NULL ? 0 : r->version;
    bool tidies = e->op == RECORD_TIDY;
    if (version != e->b && world.without != (tidies ? NODESIM_RULE_TIDY_LISTED : NODESIM_RULE_RECORD)) {
        answer->status = MOB_CONFLICT;
        nodesim_count(tidies ? NODESIM_TIDY_REFUSED : NODESIM_RECORDS_REFUSED);
        return;
    }
    answer->b = ++c->seq;
    if (e->op == RECORD_DELETE || tidies) {
        if (tidies && r != NULL)
            nodesim_check_tidied(r, e);
        remove_record(c, e->a);
        nodesim_count(!tidies ? NODESIM_RECORDS_REMOVED
                : e->gone     ? NODESIM_TIDIED_GONE
                              : NODESIM_TIDIED_RECOVERED);
        TRACE("shard %u: record of log %llu: %s by %llu", e->shard, (unsigned long long)e->a,
            tidies ? "tidied" : "removed", (unsigned long long)e->record.by);
        return;
    }
    count_put(e, r);
    if (r != NULL && r->row.by > e->record.by)
        nodesim_fail("the record of log %llu goes from %llu to %llu, which is earlier",
            (unsigned long long)e->a, (unsigned long long)r->row.by, (unsigned long long)e->record.by);
    if (e->record.state == MOB_RECOVER_ENDED)
        nodesim_check_ended(&e->record);
    TRACE("shard %u: record of log %llu: by %llu, state %u", e->shard, (unsigned long long)e->a,
        (unsigned long long)e->record.by, e->record.state);
    set_record(c, &e->record, c->seq);
}

/* A client's requests come in order, one at a time, and each is done once. One that did not answer when
 * everything had died is expired, and what it had under way is unknown. */
static void at_record(struct shard *s, const struct event *e, struct event *answer)
{
    struct chain *c = &s->chain;
    struct answered *last = &c->answered[e->from];
    answer->what = AT_NODE_RECORD;
    if (e->op == RECORD_GET) {
        get(c, e, answer);
        return;
    }
    bool expired = s->expired[e->from];
    s->expired[e->from] = false;
    if (expired && e->first_start != s->start) {
        nodesim_count(NODESIM_EXPIRED);
        *last = (struct answered){e->request, 0, MOB_EXPIRED};
    } else if (e->request > last->request) {
        change(c, e, answer);
        *last = (struct answered){e->request, answer->b, answer->status};
    } else if (e->request < last->request) {
        answer->what = 0;
    }
    answer->status = last->status;
    answer->b = last->version;
}

static void list(const struct chain *c, const struct event *e, struct event *answer)
{
    struct mob_node_log rows[LOGS_MAX];
    struct event all = {.logs = rows};
    answer->what = AT_NODE_LISTED;
    for (uint32_t i = 0; i < c->count; i++)
        if (c->logs[i].node == world.processes[e->from].node)
            rows[all.count++] = (struct mob_node_log){.incarnation = c->logs[i].incarnation,
                .cut = c->logs[i].blocks,
                .state = c->logs[i].live   ? MOB_NODE_LOG_LIVE
                    : c->logs[i].recovered ? MOB_NODE_LOG_NONE
                                           : MOB_NODE_LOG_SEALED};
    answer->count = all.count;
    answer->logs = nodesim_copy_of(&all);
}

static void left(const struct chain *c, const struct event *e, struct event *answer)
{
    struct mob_node_log rows[TASKS_MAX];
    struct event all = {.logs = rows};
    answer->what = AT_NODE_LEFT;
    answer->count = all.count = nodesim_tasks_left(c, world.processes[e->from].node, rows, TASKS_MAX);
    answer->logs = nodesim_copy_of(&all);
}

static void at_recovered(struct chain *c, const struct event *e, struct event *answer)
{
    struct chain_log *log = nodesim_chain_log(c, e->a);
    answer->what = AT_NODE_RECOVERED;
    answer->status = log == NULL ? MOB_NOT_FOUND : log->live ? MOB_CONFLICT : MOB_OK;
    if (answer->status != MOB_OK || log->recovered)
        return;
    nodesim_count(NODESIM_RECOVERED);
    nodesim_check_recovered(c, log);
    TRACE("shard %u: log %llu is recovered", e->shard, (unsigned long long)e->a);
    log->recovered = true;
    log->recovered_at = world.now;
}

/* Of all nodes. */
static void records(const struct chain *c, struct event *answer)
{
    struct mob_node_log rows[RECORDS_MAX];
    struct event all = {.logs = rows};
    answer->what = AT_NODE_RECORDS;
    for (uint32_t i = 0; i < c->record_count; i++)
        rows[all.count++] = (struct mob_node_log){
            .incarnation = c->records[i].row.incarnation, .start = c->records[i].version};
    answer->count = all.count;
    answer->logs = nodesim_copy_of(&all);
}

static void at_log(struct shard *s, const struct event *e, struct event *answer)
{
    const struct chain_log *log = nodesim_chain_log(&s->chain, e->a);
    answer->what = AT_NODE_LOG;
    answer->status = log == NULL ? MOB_NOT_FOUND : log->recovered ? MOB_OK : MOB_CONFLICT;
    answer->home_start = s->start;
}

/* `answer` stays without `what`: there is none. */
void nodesim_at_chain_recovery(struct event *e, struct event *answer)
{
    struct shard *s = &world.shard[e->shard];
    if (e->start != s->start) /* over a link of the history before */
        return;
    if (e->what == AT_CHAIN_LIST)
        list(&s->chain, e, answer);
    else if (e->what == AT_CHAIN_LEFT)
        left(&s->chain, e, answer);
    else if (e->what == AT_CHAIN_RECORD)
        at_record(s, e, answer);
    else if (e->what == AT_CHAIN_RECOVERED)
        at_recovered(&s->chain, e, answer);
    else if (e->what == AT_CHAIN_RECORDS)
        records(&s->chain, answer);
    else if (e->what == AT_CHAIN_LOG)
        at_log(s, e, answer);
}

/* ---- a chain that starts again ---- */

static void mark_again(struct chain *c, const struct written *w)
{
    struct chain_log *log = nodesim_chain_log(c, w->log);
    if (log == NULL)
        return;
    if (log->live && !w->recovered && log->blocks > w->cut)
        log->blocks = w->cut;
    log->live = false;
    if (w->recovered && !log->recovered)
        log->recovered_at = world.now;
    log->recovered = log->recovered || w->recovered;
}

/* The earliest of what clients keep from behind `seq` on, in the old order. */
static const struct written *next_write(uint32_t shard, uint64_t seq, uint32_t *of_out)
{
    const struct written *first = NULL;
    for (uint32_t i = 0; i < world.process_count; i++) {
        const struct process *p = &world.processes[i];
        for (uint32_t k = 0; k < p->write_count && p->up && p->paused_until <= world.now; k++) {
            const struct written *w = &p->writes[k];
            if (w->shard != shard || w->mark || w->seq <= seq || (first != NULL && w->seq >= first->seq))
                continue;
            first = w;
            *of_out = i;
        }
    }
    return first;
}

/* Its client is expired: what it kept is of another client, and of no use. */
static void forget_writes(struct process *p, uint32_t shard)
{
    uint32_t kept = 0;
    for (uint32_t k = 0; k < p->write_count; k++)
        if (p->writes[k].shard != shard)
            p->writes[kept++] = p->writes[k];
    p->write_count = kept;
}

/* Clients that live and answer send again what may be missing, with the effects that it had; the others are
 * expired. No position is given out twice, so that no version of what was lost is another write's: the
 * product has the epoch in its versions instead (gcs/chain/chain.h). */
void nodesim_records_come_back(uint32_t shard, struct chain *before)
{
    struct shard *s = &world.shard[shard];
    struct chain *c = &s->chain;
    uint32_t of = 0;
    for (const struct written *w; (w = next_write(shard, c->seq, &of)) != NULL;) {
        if (w->removed)
            remove_record(c, w->log);
        else
            set_record(c, &w->row, w->seq);
        c->seq = w->seq;
        c->answered[of] = (struct answered){w->request, w->seq, MOB_OK};
        nodesim_count(NODESIM_RECORDS_BACK);
    }
    c->seq = before->seq > c->seq ? before->seq : c->seq;
    for (uint32_t i = 0; i < c->count; i++) {
        const struct chain_log *was = nodesim_chain_log(before, c->logs[i].incarnation);
        c->logs[i].was_recovered = c->logs[i].was_recovered || (was != NULL && was->recovered);
    }
    for (uint32_t i = 0; i < c->record_count; i++) {
        const struct record *was = record_of(before, c->records[i].row.incarnation);
        c->records[i].is_back = c->records[i].is_back || was == NULL;
        if (was == NULL || was->version != c->records[i].version)
            c->records[i].since = world.now;
    }
    for (uint32_t i = 0; i < world.process_count; i++) {
        struct process *p = &world.processes[i];
        bool there = p->up && p->paused_until <= world.now;
        s->expired[i] = p->up && !there;
        s->was_expired[i] = s->was_expired[i] || s->expired[i];
        if (!there)
            forget_writes(p, shard);
        for (uint32_t k = 0; k < p->write_count && there; k++)
            if (p->writes[k].shard == shard && p->writes[k].mark)
                mark_again(c, &p->writes[k]);
    }
}
