/* A node that starts removes RECOVER records that are of no use, as runtime/node/recovery_tidy.c does: when
 * it has its own, it lists those of all nodes at all shards, and of each log that is earlier than its own,
 * and not among those that it claimed, asks the log's home what it is; if that is RECOVERED, or not there,
 * the record goes, as it was listed. One after the other; what cannot be done now is left for the next start.
 */
#include "tests/sim/nodesim.h"

static struct recovered *present(struct process *p)
{
    struct tidy *t = &p->recovery.tidy;
    return t->listed && t->at < t->count ? &t->rows[t->at] : NULL;
}

/* The record that it is at. */
struct recovered *nodesim_tidies(struct process *p)
{
    return p->up && p->recovery.stage == RECOVERY_TIDY ? present(p) : NULL;
}

/* True: that was all. */
bool nodesim_tidy_tick(struct process *p)
{
    struct tidy *t = &p->recovery.tidy;
    if (t->began == 0)
        t->began = world.now;
    if (!t->listed) {
        nodesim_ask_all(p, AT_CHAIN_RECORDS);
        t->listed = nodesim_heard_all(p);
        return false;
    }
    struct recovered *record = present(p);
    if (record == NULL) {
        t->whole = true;
        return true;
    }
    if (record->stage == LOG_ASKING)
        nodesim_ask_home(p, record, AT_CHAIN_LOG);
    else if (record->stage == LOG_TIDYING)
        nodesim_ask_record(p, record, RECORD_TIDY);
    else
        return true; /* left */
    return false;
}

static void on_records(struct process *p, const struct event *e)
{
    struct recovery *r = &p->recovery;
    if (r->stage != RECOVERY_TIDY || r->tidy.listed || r->heard[e->shard])
        return;
    r->heard[e->shard] = true;
    for (uint32_t i = 0; i < e->count; i++) {
        uint64_t log = e->logs[i].incarnation;
        if (!mob_recover_is_earlier(log, p->incarnation) || nodesim_recovered_log(p, log) != NULL)
            continue;
        if (r->tidy.count == TIDY_MAX) {
            nodesim_fail("too many records to tidy");
            return;
        }
        r->tidy.rows[r->tidy.count++] = (struct recovered){.row = {.incarnation = log, .by = p->incarnation},
            .version = e->logs[i].start,
            .stage = LOG_ASKING};
    }
}

static void on_log(struct process *p, struct recovered *record, const struct event *e)
{
    struct tidy *t = &p->recovery.tidy;
    if (record->stage != LOG_ASKING)
        return;
    if (e->status == MOB_CONFLICT && world.without != NODESIM_RULE_TIDY_STATE) {
        nodesim_count(NODESIM_TIDY_NEEDED);
        t->at++;
        return;
    }
    t->home_start = e->home_start;
    t->gone = e->status == MOB_NOT_FOUND;
    record->stage = LOG_TIDYING;
    record->asked_at = 0;
}

static void on_removed(struct process *p, struct recovered *record, const struct event *e)
{
    if (record->stage != LOG_TIDYING || record->request != e->request)
        return;
    p->busy[e->shard] = NULL;
    if (e->status == MOB_OK)
        nodesim_keep(p,
            (struct written){
                .shard = e->shard, .seq = e->b, .request = e->request, .log = e->a, .removed = true});
    if (e->status == MOB_OK || e->status == MOB_CONFLICT)
        p->recovery.tidy.at++;
    else
        record->stage = LOG_LOST;
}

void nodesim_tidy_heard(struct process *p, struct event *e)
{
    struct recovered *record = nodesim_tidies(p);
    if (e->what == AT_NODE_RECORDS)
        on_records(p, e);
    else if (record == NULL || record->row.incarnation != e->a)
        return;
    else if (e->what == AT_NODE_LOG)
        on_log(p, record, e);
    else
        on_removed(p, record, e);
}
