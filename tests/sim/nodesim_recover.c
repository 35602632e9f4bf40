/* A node that has its incarnation recovers what the earlier ones left, as runtime/node/recover.c and
 * recovery.c do: it lists them at all shards, takes the RECOVER record of each log by compare-and-set at the
 * shard of the record's key, removes records that are of no use (nodesim_tidy.c), reads at all shards what is
 * unfinished, owns that, says in the record that it does, ends it, has the record removed, and says RECOVERED
 * at the log's home. */
#include "tests/sim/nodesim.h"

/* Over a link to the present members of that chain. */
void nodesim_ask(struct process *p, struct event e)
{
    e.from = (uint32_t)(p - world.processes);
    e.start = world.shard[e.shard].start;
    nodesim_send_event(e, true);
}

/* Every shard is asked, and all must have answered. */
void nodesim_ask_all(struct process *p, enum what what)
{
    struct recovery *r = &p->recovery;
    for (uint32_t i = 0; i < world.shards; i++) {
        if (r->heard[i] || world.now - r->asked_at[i] <= ASK_AGAIN)
            continue;
        r->asked_at[i] = world.now;
        nodesim_ask(p, (struct event){.what = what, .shard = i, .a = p->incarnation});
    }
}

bool nodesim_heard_all(struct process *p)
{
    struct recovery *r = &p->recovery;
    for (uint32_t i = 0; i < world.shards; i++)
        if (!r->heard[i])
            return false;
    memset(r->heard, 0, sizeof r->heard);
    memset(r->asked_at, 0, sizeof r->asked_at);
    return true;
}

static void enter(struct recovered *log, enum log_stage stage)
{
    log->stage = stage;
    log->request = 0;
    log->asked_at = 0;
}

static bool is_over(const struct recovered *log)
{
    return log->stage >= LOG_OVER;
}

bool nodesim_recovers(const struct process *p)
{
    const struct recovery *r = &p->recovery;
    if (r->stage != RECOVERY_BEGUN)
        return true;
    for (uint32_t i = 0; i < r->count; i++)
        if (!is_over(&r->logs[i]))
            return true;
    return false;
}

/* It ends, as a node does that cannot recover; its next start begins anew. */
static void give_up(struct process *p)
{
    nodesim_count(NODESIM_RECOVERIES_REFUSED);
    nodesim_kill_process(p);
}

/* ---- asking ---- */

void nodesim_ask_record(struct process *p, struct recovered *log, enum record_op op)
{
    uint32_t shard = nodesim_record_shard(log->row.incarnation);
    if (log->request == 0) {
        if (p->busy[shard] != NULL)
            return;
        p->busy[shard] = log;
        log->request = ++p->requests[shard];
        log->first_start = world.shard[shard].start;
    }
    if (world.now - log->asked_at <= ASK_AGAIN)
        return;
    log->asked_at = world.now;
    nodesim_ask(p,
        (struct event){.what = AT_CHAIN_RECORD,
            .shard = shard,
            .a = log->row.incarnation,
            .b = log->version,
            .op = op,
            .request = log->request,
            .first_start = log->first_start,
            .home_start = p->recovery.tidy.home_start,
            .gone = p->recovery.tidy.gone,
            .record = log->row});
}

void nodesim_ask_home(struct process *p, struct recovered *log, enum what what)
{
    if (world.now - log->asked_at <= ASK_AGAIN)
        return;
    log->asked_at = world.now;
    nodesim_ask(p,
        (struct event){.what = what,
            .shard = nodesim_home(log->row.incarnation),
            .a = log->row.incarnation,
            .by_node = true,
            .asker = nodesim_home(log->row.incarnation)});
}

/* The blocks that say so are acknowledged. */
static bool all_have_ended(const struct process *p, const struct recovered *log)
{
    for (uint32_t i = 0; i < p->owned_count; i++)
        if (p->owned[i].log == log->row.incarnation)
            return false;
    return true;
}

static void step_log(struct process *p, struct recovered *log)
{
    switch (log->stage) {
    case LOG_SEALING:
        nodesim_ask_home(p, log, AT_CHAIN_SEAL);
        break;
    case LOG_CLAIMING:
    case LOG_TAKING:
    case LOG_ENDING:
        nodesim_ask_record(p, log, RECORD_PUT);
        break;
    case LOG_LOOKING:
        nodesim_ask_record(p, log, RECORD_GET);
        break;
    case LOG_ENDED:
        if (all_have_ended(p, log))
            enter(log, LOG_REMOVING);
        break;
    case LOG_REMOVING:
        nodesim_ask_record(p, log, RECORD_DELETE);
        break;
    case LOG_SAYING:
        nodesim_ask_home(p, log, AT_CHAIN_RECOVERED);
        break;
    case LOG_TAKEN:
    case LOG_OVER:
    case LOG_LOST:
    case LOG_ASKING:
    case LOG_TIDYING:
        break;
    }
}

/* All that was left is in its tables. */
static void begin(struct process *p)
{
    p->recovery.stage = RECOVERY_BEGUN;
    for (uint32_t i = 0; i < p->recovery.count; i++) {
        struct recovered *log = &p->recovery.logs[i];
        log->row.state = MOB_RECOVER_ENDED;
        enter(log, log->row.tasks > 0 ? LOG_ENDING : LOG_ENDED);
    }
}

void nodesim_recovery_tick(struct process *p)
{
    struct recovery *r = &p->recovery;
    bool taken = true;
    switch (r->stage) {
    case RECOVERY_LIST:
        nodesim_ask_all(p, AT_CHAIN_LIST);
        if (nodesim_heard_all(p))
            r->stage = RECOVERY_CLAIM;
        break;
    case RECOVERY_CLAIM:
        for (uint32_t i = 0; i < r->count; i++) {
            step_log(p, &r->logs[i]);
            taken = taken && r->logs[i].stage == LOG_TAKEN;
        }
        if (taken)
            r->stage = RECOVERY_TIDY;
        break;
    case RECOVERY_TIDY:
        if (nodesim_tidy_tick(p))
            r->stage = RECOVERY_READ;
        break;
    case RECOVERY_READ:
        nodesim_ask_all(p, AT_CHAIN_LEFT);
        if (nodesim_heard_all(p))
            begin(p);
        break;
    case RECOVERY_BEGUN:
        for (uint32_t i = 0; i < r->count; i++)
            step_log(p, &r->logs[i]);
        break;
    }
}

/* ---- answers ---- */

struct recovered *nodesim_recovered_log(struct process *p, uint64_t incarnation)
{
    for (uint32_t i = 0; i < p->recovery.count; i++)
        if (p->recovery.logs[i].row.incarnation == incarnation)
            return &p->recovery.logs[i];
    return NULL;
}

static void on_listed(struct process *p, const struct event *e)
{
    struct recovery *r = &p->recovery;
    if (r->stage != RECOVERY_LIST || r->heard[e->shard])
        return;
    r->heard[e->shard] = true;
    for (uint32_t i = 0; i < e->count; i++) {
        const struct mob_node_log *log = &e->logs[i];
        bool earlier = world.without == NODESIM_RULE_EARLIER
            ? log->incarnation != p->incarnation
            : mob_recover_is_earlier(log->incarnation, p->incarnation);
        if (!earlier || log->state == MOB_NODE_LOG_NONE)
            continue;
        if (r->count == RECOVERED_MAX) {
            nodesim_fail("too many logs to recover");
            return;
        }
        r->logs[r->count++] = (struct recovered){.row = {.version = MOB_RECOVER_ROW_VERSION,
                                                     .state = MOB_RECOVER_RUNS,
                                                     .incarnation = log->incarnation,
                                                     .by = p->incarnation},
            .stage = log->state == MOB_NODE_LOG_LIVE ? LOG_SEALING : LOG_CLAIMING};
    }
}

static uint64_t newest_of(const struct recovery *r)
{
    uint64_t newest = 0;
    for (uint32_t i = 0; i < r->count; i++)
        newest = r->logs[i].row.incarnation > newest ? r->logs[i].row.incarnation : newest;
    return newest;
}

static void on_left(struct process *p, const struct event *e)
{
    struct recovery *r = &p->recovery;
    if (r->stage != RECOVERY_READ || r->heard[e->shard])
        return;
    r->heard[e->shard] = true;
    for (uint32_t i = 0; i < e->count; i++) {
        struct recovered *log = nodesim_recovered_log(p, e->logs[i].incarnation);
        if (world.without == NODESIM_RULE_ALL_LOGS && e->logs[i].incarnation != newest_of(r))
            continue;
        nodesim_task_own(p, (uint16_t)e->logs[i].start, e->logs[i].incarnation);
        if (log != NULL)
            log->row.tasks++;
        nodesim_count(NODESIM_TASKS_TAKEN);
    }
}

/* What the client keeps until it is on disk: here for as long as it lives. */
void nodesim_keep(struct process *p, struct written w)
{
    if (p->write_count == WRITES_MAX)
        nodesim_fail("too many writes of one process");
    else
        p->writes[p->write_count++] = w;
}

static void on_look(struct process *p, struct recovered *log, const struct event *e)
{
    log->version = e->status == MOB_OK ? e->b : 0;
    bool refused = e->status == MOB_OK && mob_recover_row_take_over(&log->row, &e->record) != MOB_OK;
    if (refused && world.without != NODESIM_RULE_TAKE_OVER)
        give_up(p);
    else
        enter(log, LOG_TAKING);
}

static void on_changed(struct process *p, struct recovered *log, const struct event *e)
{
    bool claims = log->stage == LOG_CLAIMING || log->stage == LOG_TAKING;
    if (e->status == MOB_OK) {
        nodesim_keep(p,
            (struct written){.shard = e->shard,
                .seq = e->b,
                .request = e->request,
                .log = e->a,
                .removed = log->stage == LOG_REMOVING,
                .row = log->row});
        log->version = e->b;
        enter(log, claims ? LOG_TAKEN : log->stage == LOG_ENDING ? LOG_ENDED : LOG_SAYING);
    } else if (claims && e->status == MOB_CONFLICT) {
        enter(log, LOG_LOOKING);
    } else if (claims) {
        give_up(p);
    } else {
        nodesim_count(NODESIM_RECORDS_LOST);
        enter(log, LOG_LOST);
    }
}

static void on_record(struct process *p, struct recovered *log, const struct event *e)
{
    if (log == NULL || log->request == 0 || log->request != e->request)
        return;
    p->busy[e->shard] = NULL;
    if (log->stage == LOG_LOOKING)
        on_look(p, log, e);
    else
        on_changed(p, log, e);
}

static void on_home(struct process *p, struct recovered *log, const struct event *e)
{
    bool says = e->what == AT_NODE_RECOVERED;
    if (log == NULL || log->stage != (says ? LOG_SAYING : LOG_SEALING))
        return;
    if (e->status == MOB_OK)
        nodesim_keep(p,
            (struct written){.shard = e->shard, .log = e->a, .mark = true, .recovered = says, .cut = e->b});
    if (says && e->status != MOB_OK)
        nodesim_count(NODESIM_RECORDS_LOST);
    enter(log, !says ? LOG_CLAIMING : e->status == MOB_OK ? LOG_OVER : LOG_LOST);
}

void nodesim_recovery_heard(struct process *p, struct event *e)
{
    struct recovered *log = nodesim_recovered_log(p, e->a);
    if (e->what == AT_NODE_LISTED)
        on_listed(p, e);
    else if (e->what == AT_NODE_LEFT)
        on_left(p, e);
    else if (e->what == AT_NODE_RECORDS || e->what == AT_NODE_LOG ||
        (log == NULL && e->what == AT_NODE_RECORD))
        nodesim_tidy_heard(p, e);
    else if (e->what == AT_NODE_RECORD)
        on_record(p, log, e);
    else
        on_home(p, log, e);
}
