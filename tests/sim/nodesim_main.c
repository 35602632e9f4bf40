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
 *   - when all faults have ended each node has one live incarnation, and the others are sealed.
 *
 * --expect: fails unless some seed breaks a rule (a build without one of them).
 */
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"
#include "gcs/chain/membership.h"
#include "gcs/chain/node_watch.h"

#define MS 1000000ll
#define TICK (10 * MS)
#define RUN_NS (4000 * MS) /* with faults */
#define HEAL_NS (6000 * MS) /* without */
#define MASTERS 2u
#define NODES 3u
#define LOGS_MAX 200u
#define PROCESSES_MAX 200u
#define EVENTS_MAX 8192u
#define SILENCE (300 * MS)
#define PATIENCE (150 * MS)

static const struct mob_mastership_times times = {
    .beat_ns = 40 * MS, .takeover_ns = 300 * MS, .fresh_ns = 200 * MS};

enum what {
    AT_MASTER_ENROLL = 1,
    AT_MASTER_BEAT,
    AT_MASTER_TABLE, /* its answer */
    AT_MASTER_CUT,
    AT_MASTER_REGISTERED,
    AT_TABLE,
    AT_CHAIN_SEAL,
    AT_CHAIN_REGISTER,
    AT_CHAIN_APPEND,
    AT_NODE_ENROLLED,
    AT_NODE_OVER,
    AT_NODE_APPENDED,
    AT_CHAIN_BOOK
};
enum table_op { TABLE_ROW = 1, TABLE_SET_ROW, TABLE_LOGS, TABLE_NOTE };
struct event {
    int64_t at;
    uint64_t order;
    uint32_t what; /* enum what */
    uint32_t to, from; /* master or process */
    uint64_t a, b;
    uint64_t tag;
    enum mob_status status;
    uint32_t op, old_state; /* op: enum table_op */
    struct mob_master_row old_row, row;
    struct mob_node_log log;
    uint32_t count;
    struct mob_node_log *logs;
    struct mob_gcs_seal *seals;
};
struct chain_log {
    uint64_t incarnation, blocks;
    uint32_t node;
    bool live, given; /* given: some process has heard that it is its */
};
struct chain {
    struct chain_log logs[LOGS_MAX];
    uint32_t count;
};
struct process {
    uint32_t node;
    uint64_t start, incarnation; /* 0: not enrolled */
    bool up;
    int64_t paused_until, next_beat, next_append;
    uint64_t acked;
    bool asking; /* an append is under way */
    int64_t asked_at;
};
struct master {
    bool up;
    int64_t paused_until, row_deadline, note_deadline, logs_deadline;
    struct mob_mastership mastership;
    enum mob_mastership_step step;
    struct mob_node_watch *watch;
    bool began;
    uint64_t tag, row_tag, note_tag, logs_tag;
    uint64_t cuts[LOGS_MAX]; /* that the chain told it, + 1: its requests, which it keeps */
    bool sealing[LOGS_MAX];
    int64_t sealed_at[LOGS_MAX];
    struct mob_node_log registering;
    int64_t registered_at; /* 0: nothing is being registered */
};

static struct {
    uint64_t rng[2];
    bool trace, failed, healing;
    char why[400];
    int64_t now;
    uint64_t order;
    struct event events[EVENTS_MAX];
    uint32_t event_count;
    struct master masters[MASTERS];
    struct mob_master_row row;
    struct mob_node_log table[LOGS_MAX];
    uint32_t table_count;
    struct chain chain, disk; /* disk: what a power cut leaves */
    bool chain_up;
    uint64_t next_incarnation, next_start;
    struct process processes[PROCESSES_MAX];
    uint32_t process_count;
    int64_t start_at[NODES];
    uint64_t newest_given[NODES], newest_taken[NODES]; /* incarnations */
    int64_t fault_at;
    uint64_t deaths_of_all, seals, given, zombies, takeovers, wrong_verdicts, refused;
} w;

/* ---- chance, time, messages ---- */

static uint64_t draw(void)
{
    uint64_t x = w.rng[0], y = w.rng[1];
    w.rng[0] = y;
    x ^= x << 23;
    w.rng[1] = x ^ y ^ (x >> 17) ^ (y >> 26);
    return w.rng[1] + y;
}

static uint64_t below(uint64_t n)
{
    return draw() % n;
}

static bool chance(double p)
{
    return (double)(draw() >> 11) / 9007199254740992.0 < p;
}

__attribute__((format(printf, 1, 2))) static void fail(const char *format, ...)
{
    if (w.failed)
        return;
    va_list list;
    va_start(list, format);
    w.failed = true;
    vsnprintf(w.why, sizeof w.why, format, list);
    va_end(list);
}

#define TRACE(...) \
    do { \
        if (w.trace) { \
            printf("%6lld ", (long long)(w.now / MS)); \
            printf(__VA_ARGS__); \
            printf("\n"); \
        } \
    } while (0)

static void put(struct event e, int64_t delay)
{
    if (w.event_count == EVENTS_MAX) {
        fail("too many events");
        return;
    }
    e.at = w.now + delay;
    e.order = ++w.order;
    w.events[w.event_count++] = e;
}

static struct mob_node_log *copy_of(const struct event *e)
{
    struct mob_node_log *logs = malloc((e->count + 1) * sizeof *logs);
    if (e->count > 0)
        memcpy(logs, e->logs, e->count * sizeof *logs);
    return logs;
}

/* Lost, late, or twice; in a calm network only late. */
static void send_event(struct event e, bool may_double)
{
    double loss = w.healing ? 0 : 0.04;
    if (chance(loss)) {
        free(e.logs);
        free(e.seals);
        return;
    }
    int64_t delay = (int64_t)below((uint64_t)(chance(0.05) ? 120 * MS : 12 * MS));
    if (may_double && !w.healing && chance(0.03)) {
        struct event twin = e;
        if (e.logs != NULL)
            twin.logs = copy_of(&e);
        twin.seals = NULL;
        if (e.seals == NULL)
            put(twin, (int64_t)below(150 * MS));
        else
            free(twin.logs);
    }
    put(e, delay);
}

/* ---- the table ---- */

static struct mob_node_log *table_row(uint64_t incarnation)
{
    for (uint32_t i = 0; i < w.table_count; i++)
        if (w.table[i].incarnation == incarnation)
            return &w.table[i];
    return NULL;
}

static struct chain_log *chain_log(struct chain *c, uint64_t incarnation)
{
    for (uint32_t i = 0; i < c->count; i++)
        if (c->logs[i].incarnation == incarnation)
            return &c->logs[i];
    return NULL;
}

static bool without_index; /* --without-index: a rule of the table */

/* The table has an index that keeps two incarnations of a node from being live: an insert that comes late, of
 * a start that was given up since, meets the next one's there. */
static bool another_lives(const struct mob_node_log *log)
{
    for (uint32_t i = 0; i < w.table_count && !without_index; i++)
        if (w.table[i].state != MOB_NODE_LOG_SEALED && strcmp(w.table[i].node, log->node) == 0)
            return true;
    return false;
}

static enum mob_status note(const struct event *e)
{
    struct mob_node_log *row = table_row(e->log.incarnation);
    uint32_t state = row == NULL ? MOB_NODE_LOG_NONE : row->state;
    if (e->row.term != w.row.term || state != e->old_state || (row == NULL && another_lives(&e->log))) {
        w.refused++;
        return MOB_CONFLICT;
    }
    if (row == NULL)
        row = &w.table[w.table_count++];
    *row = e->log;
    TRACE("table: incarnation %llu of %s is in state %u, cut %llu", (unsigned long long)row->incarnation,
        row->node, row->state, (unsigned long long)row->cut);
    const struct chain_log *log = w.chain_up ? chain_log(&w.chain, row->incarnation) : NULL;
    /* Fewer: blocks were lost with everything, and named. */
    if (row->state == MOB_NODE_LOG_SEALED && log != NULL && (log->live || log->blocks > row->cut))
        fail("the cut of log %llu is recorded as %llu, and it has %llu blocks and is %s",
            (unsigned long long)row->incarnation, (unsigned long long)row->cut,
            (unsigned long long)log->blocks, log->live ? "live" : "sealed");
    return MOB_OK;
}

static void at_table(struct event *e)
{
    struct event answer = {
        .what = AT_MASTER_TABLE, .to = e->from, .op = e->op, .tag = e->tag, .status = MOB_OK};
    if (e->op == TABLE_SET_ROW) {
        if (memcmp(&w.row, &e->old_row, sizeof w.row) == 0)
            w.row = e->row;
        else
            answer.status = MOB_CONFLICT;
    } else if (e->op == TABLE_LOGS) {
        answer.logs = w.table;
        answer.count = w.table_count;
        answer.logs = copy_of(&answer);
    } else if (e->op == TABLE_NOTE) {
        answer.status = note(e);
    }
    answer.row = w.row;
    send_event(answer, true);
}

/* ---- the chain ---- */

static void check_taken(const struct chain_log *log)
{
    const struct mob_node_log *row = table_row(log->incarnation);
    if (row != NULL && row->state == MOB_NODE_LOG_SEALED)
        fail("log %llu, recorded as sealed at %llu, takes block %llu", (unsigned long long)log->incarnation,
            (unsigned long long)row->cut, (unsigned long long)log->blocks);
    if (log->incarnation < w.newest_taken[log->node])
        fail("log %llu of node %u takes a block after incarnation %llu had some",
            (unsigned long long)log->incarnation, log->node, (unsigned long long)w.newest_taken[log->node]);
    w.newest_taken[log->node] = log->incarnation;
}

static void at_chain(struct event *e)
{
    struct chain_log *log = chain_log(&w.chain, e->a);
    struct event answer = {.to = e->from, .a = e->a, .status = MOB_OK};
    if (!w.chain_up)
        return; /* whoever asked asks again */
    switch (e->what) {
    case AT_CHAIN_SEAL:
        answer.what = AT_MASTER_CUT;
        answer.status = log == NULL ? MOB_NOT_FOUND : MOB_OK;
        if (log != NULL) {
            w.seals += log->live;
            log->live = false;
            answer.b = log->blocks;
        }
        break;
    case AT_CHAIN_REGISTER:
        answer.what = AT_MASTER_REGISTERED;
        answer.log = e->log;
        answer.a = ++w.next_incarnation;
        w.chain.logs[w.chain.count++] = (struct chain_log){
            .incarnation = answer.a, .node = (uint32_t)(e->log.node[0] - 'a'), .live = true};
        break;
    default:
        answer.what = AT_NODE_APPENDED;
        answer.b = e->b;
        if (log == NULL || !log->live) {
            answer.status = MOB_SEALED;
        } else if (e->b == log->blocks) {
            log->blocks++;
            check_taken(log);
        } else if (e->b > log->blocks) {
            return;
        }
        break;
    }
    send_event(answer, false);
}

/* A master makes the chain start again, with what it knows is sealed. */
static void at_chain_book(struct event *e)
{
    if (w.chain_up)
        return;
    w.chain = w.disk;
    struct chain *c = &w.chain;
    for (uint32_t i = 0; i < w.process_count; i++) { /* nodes that live send again what may be missing */
        struct process *p = &w.processes[i];
        if (!p->up || p->incarnation == 0 || p->paused_until > w.now)
            continue;
        struct chain_log *log = chain_log(c, p->incarnation);
        if (log == NULL) { /* its registration comes back with it */
            log = &c->logs[c->count++];
            *log = (struct chain_log){
                .incarnation = p->incarnation, .node = p->node, .live = true, .given = true};
        }
        uint64_t kept = p->acked + p->asking; /* and the one that was not answered */
        if (log->live && kept > log->blocks)
            log->blocks = kept;
    }
    for (uint32_t i = 0; i < MASTERS; i++) /* so do masters: seals that were answered keep their place */
        for (uint32_t k = 0; k < c->count && w.masters[i].up; k++)
            if (w.masters[i].cuts[c->logs[k].incarnation] != 0 && c->logs[k].live) {
                c->logs[k].live = false;
                c->logs[k].blocks = w.masters[i].cuts[c->logs[k].incarnation] - 1;
            }
    for (uint32_t i = 0; i < e->count; i++) {
        struct chain_log *log = chain_log(c, e->seals[i].incarnation);
        if (log == NULL || !log->live)
            continue;
        if (log->blocks > e->seals[i].cut)
            log->blocks = e->seals[i].cut;
        log->live = false;
    }
    for (uint32_t i = 0; i < c->count; i++) { /* those that nobody sent are sealed where they are */
        bool there = false;
        for (uint32_t k = 0; k < w.process_count; k++)
            there = there || (w.processes[k].up && w.processes[k].incarnation == c->logs[i].incarnation);
        const struct mob_node_log *row = table_row(c->logs[i].incarnation);
        if (!there && c->logs[i].live && c->logs[i].given)
            c->logs[i].live = false;
        /* Blocks that nobody has any more are lost, and named. What is sealed has no more than its cut. */
        if (row != NULL && row->state == MOB_NODE_LOG_SEALED && c->logs[i].blocks < row->cut)
            c->logs[i].blocks = row->cut;
        if (row != NULL && row->state == MOB_NODE_LOG_SEALED &&
            (c->logs[i].live || c->logs[i].blocks > row->cut))
            fail("log %llu, recorded as sealed at %llu, is %s with %llu blocks when the chain has started "
                 "again",
                (unsigned long long)row->incarnation, (unsigned long long)row->cut,
                c->logs[i].live ? "live" : "sealed", (unsigned long long)c->logs[i].blocks);
    }
    w.chain_up = true;
    w.disk = w.chain;
    TRACE("the chain is there again");
}

/* ---- masters ---- */

static struct event question(struct master *m, enum table_op op, uint64_t *tag_out, int64_t *deadline_out)
{
    *tag_out = ++m->tag;
    *deadline_out = w.now + PATIENCE;
    return (struct event){.what = AT_TABLE, .from = (uint32_t)(m - w.masters), .op = op, .tag = m->tag};
}

static void tell_book(struct master *m)
{
    struct mob_gcs_seal *seals = malloc(MOB_GCS_SEALS_MAX * sizeof *seals);
    struct event e = {.what = AT_CHAIN_BOOK, .seals = seals};
    /* Its configuration is made under its term, which the table checks: here in one step. */
    if (m->mastership.row.term != w.row.term || !mob_node_watch_settled(m->watch)) {
        free(seals);
        return;
    }
    e.count = mob_node_watch_seals(m->watch, seals);
    at_chain_book(&e);
    free(seals);
}

static struct process *newest_process(uint32_t node)
{
    for (uint32_t i = w.process_count; i-- > 0;)
        if (w.processes[i].node == node)
            return &w.processes[i];
    return NULL;
}

/* A supervisor has one process of its node, and starts the next when that one has ended, or was given up. */
static void start_next(const struct process *p, int64_t delay)
{
    if (newest_process(p->node) == p && w.start_at[p->node] == 0)
        w.start_at[p->node] = w.now + delay;
}

static void obey(struct master *m, const struct mob_node_watch_action *a)
{
    uint32_t self = (uint32_t)(m - w.masters);
    struct event e = {.from = self, .log = a->log};
    switch (a->type) {
    case MOB_NODE_WATCH_NOTE:
        e = question(m, TABLE_NOTE, &m->note_tag, &m->note_deadline);
        e.row = m->mastership.row;
        e.log = a->log;
        e.old_state = a->old_state;
        send_event(e, false);
        for (uint32_t i = 0; i < w.process_count; i++)
            w.wrong_verdicts += a->log.state == MOB_NODE_LOG_DEAD && w.processes[i].up &&
                w.processes[i].incarnation == a->log.incarnation;
        break;
    case MOB_NODE_WATCH_READ:
        if (m->logs_tag == 0)
            send_event(question(m, TABLE_LOGS, &m->logs_tag, &m->logs_deadline), false);
        break;
    case MOB_NODE_WATCH_SEAL:
        m->sealing[a->log.incarnation] = true;
        m->sealed_at[a->log.incarnation] = 0;
        break;
    case MOB_NODE_WATCH_REGISTER:
        if (m->registered_at != 0) {
            mob_node_watch_on_registered(m->watch, a->log.node, MOB_UNAVAILABLE, 0, w.now);
            break;
        }
        m->registering = a->log;
        m->registered_at = 1;
        break;
    case MOB_NODE_WATCH_ENROLLED:
        e.what = AT_NODE_ENROLLED;
        e.to = (uint32_t)a->token;
        e.a = a->log.incarnation;
        e.status = a->status;
        send_event(e, true);
        break;
    case MOB_NODE_WATCH_END: /* the supervisor ends it, or only starts another beside it: a zombie */
        for (uint32_t i = 0; i < w.process_count; i++)
            if ((int64_t)w.processes[i].start == a->log.pid) {
                if (chance(0.5))
                    w.processes[i].up = false;
                else
                    w.zombies += w.processes[i].up;
                start_next(&w.processes[i], 1);
            }
        break;
    }
}

static void drain(struct master *m)
{
    struct mob_node_watch_action a;
    while (mob_node_watch_next(m->watch, &a))
        obey(m, &a);
}

static void step_mastership(struct master *m)
{
    if (m->row_tag != 0 && w.now >= m->row_deadline) {
        m->row_tag = 0;
        if (m->step == MOB_MASTERSHIP_LOOK)
            m->mastership.busy = false;
        else
            mob_mastership_on_set(&m->mastership, MOB_TIMEOUT, w.now);
    }
    enum mob_mastership_step step = mob_mastership_step(&m->mastership, &times, w.now);
    if (step == MOB_MASTERSHIP_WAIT)
        return;
    m->step = step;
    struct event e =
        question(m, step == MOB_MASTERSHIP_LOOK ? TABLE_ROW : TABLE_SET_ROW, &m->row_tag, &m->row_deadline);
    e.old_row = m->mastership.row;
    e.row = m->mastership.next;
    send_event(e, false);
}

/* Requests to the chain are kept until they are answered. */
static void ask_chain(struct master *m)
{
    uint32_t self = (uint32_t)(m - w.masters);
    for (uint32_t i = 0; i < LOGS_MAX; i++)
        if (m->sealing[i] && w.now - m->sealed_at[i] > 50 * MS) {
            m->sealed_at[i] = w.now;
            send_event((struct event){.what = AT_CHAIN_SEAL, .from = self, .a = i}, true);
        }
    if (m->registered_at != 0 && w.now - m->registered_at > 100 * MS && w.chain.count + 20 < LOGS_MAX) {
        m->registered_at = w.now;
        send_event((struct event){.what = AT_CHAIN_REGISTER, .from = self, .log = m->registering}, false);
    }
}

static void master_tick(struct master *m)
{
    if (!m->up || m->paused_until > w.now)
        return;
    step_mastership(m);
    if (m->logs_tag != 0 && w.now >= m->logs_deadline)
        m->logs_tag = 0;
    if (m->note_tag != 0 && w.now >= m->note_deadline) {
        m->note_tag = 0;
        mob_node_watch_on_noted(m->watch, MOB_TIMEOUT, w.now);
    }
    if (m->mastership.active && !m->began && m->logs_tag == 0)
        send_event(question(m, TABLE_LOGS, &m->logs_tag, &m->logs_deadline), false);
    if (!m->mastership.active && m->began) {
        m->began = false;
        mob_node_watch_end(m->watch);
    }
    mob_node_watch_on_tick(m->watch, w.now);
    drain(m);
    ask_chain(m);
    if (m->began && !w.chain_up && chance(0.1))
        tell_book(m);
}

static void master_table(struct master *m, struct event *e)
{
    if (e->tag == m->row_tag) {
        bool was = m->mastership.active;
        m->row_tag = 0;
        if (m->step != MOB_MASTERSHIP_LOOK)
            mob_mastership_on_set(&m->mastership, e->status, w.now);
        else
            mob_mastership_on_row(&m->mastership, &e->row, w.now);
        if (m->mastership.active && !was) {
            m->logs_tag = 0;
            w.takeovers++;
            TRACE("master %d is active, term %llu", (int)(m - w.masters),
                (unsigned long long)m->mastership.row.term);
        }
    } else if (e->tag == m->note_tag) {
        m->note_tag = 0;
        mob_node_watch_on_noted(m->watch, e->status, w.now);
    } else if (e->tag == m->logs_tag) {
        m->logs_tag = 0;
        if (m->began) {
            mob_node_watch_on_logs(m->watch, e->logs, e->count, w.now);
        } else if (m->mastership.active) {
            m->began = true;
            mob_node_watch_begin(m->watch, e->logs, e->count, w.now);
        }
    }
}

static void at_master(struct event *e)
{
    struct master *m = &w.masters[e->to];
    struct event answer = {.what = AT_NODE_OVER, .to = e->from, .a = e->a};
    if (!m->up)
        return;
    switch (e->what) {
    case AT_MASTER_TABLE:
        master_table(m, e);
        break;
    case AT_MASTER_ENROLL:
        if (mob_node_watch_on_enroll(m->watch, &e->log, e->from, w.now) != MOB_OK)
            break; /* it asks again */
        break;
    case AT_MASTER_BEAT:
        if (mob_node_watch_on_beat(m->watch, e->a, false, w.now))
            send_event(answer, true);
        break;
    case AT_MASTER_CUT:
        if (!m->sealing[e->a])
            break;
        m->sealing[e->a] = false;
        if (e->status == MOB_OK)
            m->cuts[e->a] = e->b + 1;
        mob_node_watch_on_cut(m->watch, e->a, e->status, e->b, w.now);
        break;
    default:
        if (m->registered_at == 0 || m->registering.start != e->log.start)
            break;
        m->registered_at = 0;
        mob_node_watch_on_registered(m->watch, e->log.node, MOB_OK, e->a, w.now);
        break;
    }
    drain(m);
}

static void master_start(struct master *m)
{
    mob_node_watch_destroy(m->watch);
    uint64_t tag = m->tag + 1000; /* answers to the one before are not this one's */
    *m = (struct master){.up = true, .tag = tag};
    m->watch = mob_node_watch_create(&(struct mob_node_watch_options){
        .silence_ns = SILENCE, .tick_ns = 2 * TICK, .end_after_ns = 60 * MS});
}

/* ---- nodes ---- */

static struct mob_node_log name_of(const struct process *p)
{
    struct mob_node_log log = {.start = p->start, .pid = (int64_t)p->start};
    log.node[0] = (char)('a' + p->node);
    return log;
}

static void given_out(struct process *p, uint64_t incarnation)
{
    struct chain_log *log = chain_log(&w.chain, incarnation);
    p->incarnation = incarnation;
    p->acked = 0;
    w.given++;
    TRACE("node %u: start %llu is incarnation %llu", p->node, (unsigned long long)p->start,
        (unsigned long long)incarnation);
    if (log != NULL)
        log->given = true;
    for (uint32_t i = 0; i < w.chain.count && w.chain_up; i++) {
        const struct chain_log *other = &w.chain.logs[i];
        if (other->node == p->node && other->given && other->live && other->incarnation < incarnation)
            fail("incarnation %llu of node %u is given out while %llu takes blocks",
                (unsigned long long)incarnation, p->node, (unsigned long long)other->incarnation);
    }
    if (incarnation > w.newest_given[p->node])
        w.newest_given[p->node] = incarnation;
}

static void at_node(struct event *e)
{
    struct process *p = &w.processes[e->to];
    if (!p->up)
        return;
    if (e->what == AT_NODE_ENROLLED && p->incarnation == 0) {
        if (e->status == MOB_OK)
            given_out(p, e->a);
        else
            p->up = false;
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
        start_next(p, (int64_t)below(100 * MS) + 1);
}

static void node_tick(uint32_t i)
{
    struct process *p = &w.processes[i];
    if (!p->up || p->paused_until > w.now)
        return;
    if (w.now >= p->next_beat) {
        p->next_beat = w.now + 40 * MS;
        for (uint32_t m = 0; m < MASTERS; m++)
            send_event((struct event){.what = p->incarnation == 0 ? AT_MASTER_ENROLL : AT_MASTER_BEAT,
                           .from = i,
                           .to = m,
                           .a = p->incarnation,
                           .log = name_of(p)},
                true);
    }
    bool again = p->asking && w.now - p->asked_at > 60 * MS;
    if (p->incarnation != 0 && (again || (!p->asking && w.now >= p->next_append))) {
        p->asking = true;
        p->asked_at = w.now;
        p->next_append = w.now + (int64_t)below(60 * MS);
        send_event(
            (struct event){.what = AT_CHAIN_APPEND, .from = i, .a = p->incarnation, .b = p->acked}, true);
    }
}

static void start_processes(void)
{
    for (uint32_t n = 0; n < NODES; n++) {
        if (w.start_at[n] == 0 || w.now < w.start_at[n] || w.process_count == PROCESSES_MAX)
            continue;
        w.start_at[n] = 0;
        w.processes[w.process_count++] = (struct process){.node = n, .start = ++w.next_start, .up = true};
    }
}

/* ---- what goes wrong ---- */

static void fault(void)
{
    struct master *m = &w.masters[below(MASTERS)];
    uint32_t node = (uint32_t)below(NODES);
    struct process *p = newest_process(node);
    int64_t pause = w.now + (int64_t)below(900 * MS);
    switch (below(6)) {
    case 0:
        if (p != NULL && p->up) {
            p->up = false;
            start_next(p, (int64_t)below(100 * MS) + 1);
        }
        break;
    case 1:
        if (p != NULL)
            p->paused_until = pause;
        break;
    case 2:
        master_start(m);
        break;
    case 3:
        m->paused_until = pause;
        break;
    case 4:
        if (w.chain_up) { /* everything of the chain dies */
            w.chain_up = false;
            w.deaths_of_all++;
            TRACE("the chain dies");
        }
        break;
    default: /* several at a time */
        for (uint32_t i = 0; i < w.process_count; i++)
            if (chance(0.3))
                w.processes[i].paused_until = pause;
        break;
    }
}

/* ---- the run ---- */

static bool is_whole(void)
{
    if (!w.chain_up)
        return false;
    for (uint32_t n = 0; n < NODES; n++) {
        const struct process *p = newest_process(n);
        const struct mob_node_log *row = p == NULL ? NULL : table_row(p->incarnation);
        if (p == NULL || !p->up || row == NULL || row->state != MOB_NODE_LOG_LIVE)
            return false;
    }
    for (uint32_t i = 0; i < w.table_count; i++) {
        const struct process *p = newest_process((uint32_t)(w.table[i].node[0] - 'a'));
        if (w.table[i].state != MOB_NODE_LOG_SEALED && w.table[i].incarnation != p->incarnation)
            return false;
    }
    return true;
}

static void deliver(struct event *e)
{
    int64_t until = 0;
    bool to_master = e->what <= AT_MASTER_REGISTERED;
    bool to_node = e->what == AT_NODE_ENROLLED || e->what == AT_NODE_OVER || e->what == AT_NODE_APPENDED;
    if (to_master)
        until = w.masters[e->to].paused_until;
    else if (to_node)
        until = w.processes[e->to].paused_until;
    if (until > w.now) { /* it reads it when it goes on */
        put(*e, until - w.now + (int64_t)below(MS));
        return;
    }
    if (to_master)
        at_master(e);
    else if (to_node)
        at_node(e);
    else if (e->what == AT_TABLE)
        at_table(e);
    else
        at_chain(e);
    free(e->logs);
}

static void deliver_until(int64_t until)
{
    while (!w.failed) {
        uint32_t first = UINT32_MAX;
        for (uint32_t i = 0; i < w.event_count; i++)
            if (w.events[i].at <= until &&
                (first == UINT32_MAX || w.events[i].at < w.events[first].at ||
                    (w.events[i].at == w.events[first].at && w.events[i].order < w.events[first].order)))
                first = i;
        if (first == UINT32_MAX)
            return;
        struct event e = w.events[first];
        w.events[first] = w.events[--w.event_count];
        w.now = e.at > w.now ? e.at : w.now;
        deliver(&e);
    }
}

static void run(uint64_t seed, bool trace)
{
    uint64_t seals = w.seals, deaths = w.deaths_of_all, given = w.given, zombies = w.zombies,
             takeovers = w.takeovers, wrong = w.wrong_verdicts, refused = w.refused;
    for (uint32_t i = 0; i < MASTERS; i++)
        mob_node_watch_destroy(w.masters[i].watch);
    for (uint32_t i = 0; i < w.event_count; i++)
        free(w.events[i].logs);
    memset(&w, 0, sizeof w);
    w.seals = seals, w.deaths_of_all = deaths, w.given = given, w.zombies = zombies;
    w.takeovers = takeovers, w.wrong_verdicts = wrong, w.refused = refused;
    w.trace = trace;
    w.rng[0] = seed * 0x9e3779b97f4a7c15ull + 1;
    w.rng[1] = seed ^ 0xd1b54a32d192ed03ull;
    for (int i = 0; i < 8; i++)
        (void)draw();
    w.now = 1000 * MS;
    w.chain_up = true;
    for (uint32_t i = 0; i < MASTERS; i++)
        master_start(&w.masters[i]);
    for (uint32_t n = 0; n < NODES; n++)
        w.start_at[n] = w.now + 1;
    int64_t begin = w.now;
    for (int64_t at = begin; !w.failed; at += TICK) {
        deliver_until(at);
        w.now = at;
        w.healing = at - begin > RUN_NS;
        start_processes();
        for (uint32_t i = 0; i < w.process_count; i++)
            node_tick(i);
        for (uint32_t i = 0; i < MASTERS; i++)
            master_tick(&w.masters[i]);
        if (w.chain_up && chance(0.05))
            w.disk = w.chain; /* synced */
        if (!w.healing && at >= w.fault_at) {
            fault();
            w.fault_at = at + 20 * MS + (int64_t)below(250 * MS);
        }
        if (w.healing && is_whole())
            return;
        if (at - begin > RUN_NS + HEAL_NS)
            fail("not whole %lld ms after the last fault", HEAL_NS / MS);
    }
}

int main(int argc, char **argv)
{
    static const struct option options[] = {{"seed", 1, NULL, 's'}, {"seeds", 1, NULL, 'k'},
        {"first", 1, NULL, 'f'}, {"trace", 0, NULL, 't'}, {"expect", 0, NULL, 'x'},
        {"without-index", 0, NULL, 'i'}, {NULL, 0, NULL, 0}};
    uint64_t first = 1, seeds = 1000;
    bool trace = false, expect = false;
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
            without_index = true;
        else
            return 2;
    }
    if (getenv("MOBULA_LOG") == NULL)
        mob_log_threshold = MOB_LOG_LEVEL_ERROR + 1;
    for (uint64_t seed = first; seed < first + seeds; seed++) {
        run(seed, trace);
        if (!w.failed)
            continue;
        printf("%s by seed %llu after %llu: %s\n", expect ? "caught" : "failed", (unsigned long long)seed,
            (unsigned long long)(seed - first), w.why);
        return expect ? 0 : 1;
    }
    printf("%llu seeds: %llu incarnations given out, %llu seals, %llu of nodes that lived, %llu zombies, "
           "%llu deaths of everything, %llu takeovers, %llu records refused\n",
        (unsigned long long)seeds, (unsigned long long)w.given, (unsigned long long)w.seals,
        (unsigned long long)w.wrong_verdicts, (unsigned long long)w.zombies,
        (unsigned long long)w.deaths_of_all, (unsigned long long)w.takeovers, (unsigned long long)w.refused);
    bool enough = seeds < 100 ||
        (w.given > 5 * seeds && w.seals > 4 * seeds && w.wrong_verdicts > seeds && w.zombies > seeds / 10 &&
            w.deaths_of_all > seeds && w.takeovers > 2 * seeds && w.refused > seeds / 10);
    if (!enough)
        printf("too little happened\n");
    return expect || !enough ? 1 : 0;
}
