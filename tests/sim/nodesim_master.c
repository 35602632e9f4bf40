/* Masters of nodesim, around the real machines. */
#include "common/base/hash.h"
#include "tests/sim/nodesim.h"

static const struct mob_mastership_times times = {
    .beat_ns = 40 * MS, .takeover_ns = 300 * MS, .fresh_ns = 200 * MS};

/* ---- masters ---- */

static struct shard *shard_of(const struct master *m)
{
    return &world.shard[m->shard];
}

static uint32_t number_of(const struct master *m)
{
    return (uint32_t)(m - shard_of(m)->masters);
}

static struct event question(struct master *m, enum table_op op, uint64_t *tag_out, int64_t *deadline_out)
{
    *tag_out = ++m->tag;
    *deadline_out = world.now + PATIENCE;
    return (struct event){.what = AT_TABLE, .shard = m->shard, .from = number_of(m), .op = op, .tag = m->tag};
}

static void tell_book(struct master *m)
{
    struct mob_gcs_seal *seals = malloc(MOB_GCS_SEALS_MAX * sizeof *seals);
    struct event e = {.seals = seals};
    /* Its configuration is made under its term, which the table checks: here in one step. */
    bool mine = m->mastership.row.term == shard_of(m)->row.term, settled = mob_node_watch_settled(m->watch);
    if (mine && !settled)
        nodesim_count(NODESIM_STARTS_LATER);
    if (!mine || !settled) {
        free(seals);
        return;
    }
    e.count = mob_node_watch_seals(m->watch, seals);
    nodesim_at_chain_book(m->shard, &e);
    free(seals);
}

struct process *nodesim_newest_process(uint32_t node)
{
    for (uint32_t i = world.process_count; i-- > 0;)
        if (world.processes[i].node == node && !world.processes[i].refused)
            return &world.processes[i];
    return NULL;
}

/* A supervisor has one process of its node, and starts the next when that one has ended, or was given up. */
void nodesim_start_next(const struct process *p, int64_t delay)
{
    if (nodesim_newest_process(p->node) == p && world.start_at[p->node] == 0)
        world.start_at[p->node] = world.now + delay;
}

#define OUTDATED_SEEDS 8u /* one of so many has such records */
#define OUTDATED_OF 4u /* and there one of so many */

/* The record of a new incarnation is on its way to the table for longer than the master waits, and the start
 * that it is for dies: the next one's is there before it. Another source of randomness than all else: other
 * seeds play as they did. */
static bool send_outdated(const struct event *e)
{
    uint64_t dice[] = {world.seed, e->log.incarnation};
    uint64_t drawn = mob_hash64(dice, sizeof dice);
    if (world.healing || world.seed % OUTDATED_SEEDS != 5 || e->old_state != MOB_NODE_LOG_NONE ||
        drawn % OUTDATED_OF != 0)
        return false;
    for (uint32_t i = 0; i < world.process_count; i++)
        if (world.processes[i].up && world.processes[i].start == e->log.start)
            nodesim_kill_process(&world.processes[i]);
    nodesim_put(*e, 2 * PATIENCE + (int64_t)(drawn / OUTDATED_OF % (3 * PATIENCE)));
    return true;
}

/* Of a node whose process and masters nobody has disturbed: its beats were lost one after the other. */
static void count_wrong_verdict(const struct master *m, const struct process *p)
{
    int64_t calm = world.now - 3 * SILENCE;
    bool other = p != nodesim_newest_process(p->node) || world.start_at[p->node] != 0;
    nodesim_count(NODESIM_WRONG_VERDICTS);
    if (!other && p->paused_until < calm && shard_of(m)->disturbed_at < calm)
        nodesim_count(NODESIM_CALM_VERDICTS);
}

static void obey(struct master *m, const struct mob_node_watch_action *a)
{
    struct event e = {.shard = m->shard, .log = a->log};
    switch (a->type) {
    case MOB_NODE_WATCH_NOTE:
        e = question(m, TABLE_NOTE, &m->note_tag, &m->note_deadline);
        e.row = m->mastership.row;
        e.log = a->log;
        e.old_state = a->old_state;
        if (!send_outdated(&e))
            nodesim_send_event(e, false);
        for (uint32_t i = 0; i < world.process_count; i++)
            if (a->log.state == MOB_NODE_LOG_DEAD && world.processes[i].up &&
                world.processes[i].incarnation == a->log.incarnation)
                count_wrong_verdict(m, &world.processes[i]);
        break;
    case MOB_NODE_WATCH_READ:
        if (m->logs_tag == 0)
            nodesim_send_event(question(m, TABLE_LOGS, &m->logs_tag, &m->logs_deadline), false);
        break;
    case MOB_NODE_WATCH_SEAL:
        m->sealing[nodesim_slot(m->shard, a->log.incarnation)] = true;
        m->sealed_at[nodesim_slot(m->shard, a->log.incarnation)] = 0;
        break;
    case MOB_NODE_WATCH_REGISTER:
        if (m->registered_at != 0) {
            mob_node_watch_on_registered(m->watch, a->log.node, MOB_UNAVAILABLE, 0, world.now);
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
        nodesim_send_event(e, true);
        break;
    case MOB_NODE_WATCH_END: /* the supervisor ends it, or only starts another beside it: a zombie */
        for (uint32_t i = 0; i < world.process_count; i++)
            if ((int64_t)world.processes[i].start == a->log.pid) {
                bool up = world.processes[i].up, ends = nodesim_chance(0.5);
                if (up)
                    nodesim_count(ends ? NODESIM_ENDED : NODESIM_ZOMBIES);
                world.processes[i].up = up && !ends;
                nodesim_start_next(&world.processes[i], 1);
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
    if (m->row_tag != 0 && world.now >= m->row_deadline) {
        m->row_tag = 0;
        if (m->step == MOB_MASTERSHIP_LOOK)
            mob_mastership_on_no_row(&m->mastership, world.now);
        else
            mob_mastership_on_set(&m->mastership, MOB_TIMEOUT, world.now);
    }
    enum mob_mastership_step step = mob_mastership_step(&m->mastership, &times, world.now);
    if (step == MOB_MASTERSHIP_WAIT)
        return;
    m->step = step;
    struct event e =
        question(m, step == MOB_MASTERSHIP_LOOK ? TABLE_ROW : TABLE_SET_ROW, &m->row_tag, &m->row_deadline);
    e.old_row = m->mastership.row;
    e.row = m->mastership.next;
    nodesim_send_event(e, false);
}

/* Requests to the chain are kept until they are answered. */
static void ask_chain(struct master *m)
{
    struct event e = {.what = AT_CHAIN_SEAL, .shard = m->shard, .from = number_of(m), .asker = m->shard};
    for (uint32_t i = 0; i < shard_of(m)->id_count; i++)
        if (m->sealing[i] && world.now - m->sealed_at[i] > 50 * MS) {
            m->sealed_at[i] = world.now;
            e.a = shard_of(m)->ids[i];
            if (world.without == NODESIM_RULE_HOME_SEAL)
                e.shard = (m->shard + 1) % world.shards;
            nodesim_send_event(e, true);
        }
    e = (struct event){
        .what = AT_CHAIN_REGISTER, .shard = m->shard, .from = number_of(m), .log = m->registering};
    if (m->registered_at != 0 && world.now - m->registered_at > 100 * MS &&
        shard_of(m)->id_count + 20 < LOGS_MAX) {
        m->registered_at = world.now;
        nodesim_send_event(e, false);
    }
}

void nodesim_master_tick(struct master *m)
{
    if (!m->up || m->paused_until > world.now)
        return;
    step_mastership(m);
    if (m->logs_tag != 0 && world.now >= m->logs_deadline)
        m->logs_tag = 0;
    if (m->home_tag != 0 && world.now >= m->home_deadline)
        m->home_tag = 0;
    if (m->note_tag != 0 && world.now >= m->note_deadline) {
        m->note_tag = 0;
        nodesim_count(NODESIM_NOTES_UNKNOWN);
        mob_node_watch_on_noted(m->watch, MOB_TIMEOUT, world.now);
    }
    if (m->mastership.active && !m->began && m->logs_tag == 0)
        nodesim_send_event(question(m, TABLE_LOGS, &m->logs_tag, &m->logs_deadline), false);
    if (!m->mastership.active && m->began) {
        m->began = false;
        mob_node_watch_end(m->watch);
    }
    mob_node_watch_on_tick(m->watch, world.now);
    drain(m);
    ask_chain(m);
    if (m->began && !shard_of(m)->up && nodesim_chance(0.1))
        tell_book(m);
}

static void enroll(struct master *m, const struct mob_node_log *log, uint32_t from)
{
    if (mob_node_watch_on_enroll(m->watch, log, from, world.now) != MOB_OK)
        TRACE("start %llu of %s asks again", (unsigned long long)log->start, log->node);
}

/* Whoever speaks with another shard than its home is sent there (gcs/master/master_nodes.c). */
static void on_home(struct master *m, uint32_t home)
{
    if (!m->began)
        return;
    if (home == m->shard) {
        enroll(m, &m->homeless, m->homeless_from);
        return;
    }
    struct event e = {.what = AT_NODE_ENROLLED,
        .shard = m->shard,
        .to = m->homeless_from,
        .status = MOB_MISDIRECTED,
        .b = home};
    nodesim_send_event(e, true);
}

static void on_enroll(struct master *m, const struct event *e)
{
    if (m->shard != 0) { /* it was sent here */
        enroll(m, &e->log, e->from);
    } else if (m->began && m->home_tag == 0) {
        struct event q = question(m, TABLE_HOME, &m->home_tag, &m->home_deadline);
        m->homeless = e->log;
        m->homeless_from = e->from;
        q.row = m->mastership.row;
        q.log = e->log;
        nodesim_send_event(q, false);
    }
}

static void on_cut(struct master *m, const struct event *e)
{
    uint32_t slot = nodesim_slot(m->shard, e->a);
    if (!m->sealing[slot])
        return;
    m->sealing[slot] = false;
    if (e->status == MOB_OK)
        m->cuts[slot] = e->b + 1;
    mob_node_watch_on_cut(m->watch, e->a, e->status, e->b, world.now);
}

static void master_table(struct master *m, struct event *e)
{
    if (e->tag == m->row_tag) {
        bool was = m->mastership.active;
        m->row_tag = 0;
        if (m->step != MOB_MASTERSHIP_LOOK)
            mob_mastership_on_set(&m->mastership, e->status, world.now);
        else
            mob_mastership_on_row(&m->mastership, &e->row, world.now);
        if (m->mastership.active && !was) {
            m->logs_tag = 0;
            nodesim_count(NODESIM_TAKEOVERS);
            for (uint32_t i = 0; i < MASTERS; i++)
                if (i != number_of(m) && shard_of(m)->masters[i].mastership.active)
                    nodesim_count(NODESIM_TWO_MASTERS);
            TRACE("master %u of shard %u is active, term %llu", number_of(m), m->shard,
                (unsigned long long)m->mastership.row.term);
        }
    } else if (e->tag == m->note_tag) {
        m->note_tag = 0;
        mob_node_watch_on_noted(m->watch, e->status, world.now);
    } else if (e->tag == m->home_tag) {
        m->home_tag = 0;
        if (e->status == MOB_OK)
            on_home(m, (uint32_t)e->b);
    } else if (e->tag == m->logs_tag) {
        m->logs_tag = 0;
        if (m->began) {
            nodesim_count(NODESIM_LOGS_READ);
            mob_node_watch_on_logs(m->watch, e->logs, e->count, world.now);
        } else if (m->mastership.active) {
            m->began = true;
            mob_node_watch_begin(m->watch, e->logs, e->count, world.now);
        }
    }
}

void nodesim_at_master(struct event *e)
{
    struct master *m = &world.shard[e->shard].masters[e->to];
    struct event answer = {.what = AT_NODE_OVER, .shard = e->shard, .to = e->from, .a = e->a};
    if (!m->up)
        return;
    switch (e->what) {
    case AT_MASTER_TABLE:
        master_table(m, e);
        break;
    case AT_MASTER_ENROLL:
        on_enroll(m, e);
        break;
    case AT_MASTER_BEAT:
        if (mob_node_watch_on_beat(m->watch, e->a, false, world.now))
            nodesim_send_event(answer, true);
        break;
    case AT_MASTER_GONE:
        mob_node_watch_on_gone(m->watch, e->a, world.now);
        break;
    case AT_MASTER_CUT:
        on_cut(m, e);
        break;
    default:
        if (m->registered_at == 0 || m->registering.start != e->log.start)
            break;
        m->registered_at = 0;
        mob_node_watch_on_registered(m->watch, e->log.node, MOB_OK, e->a, world.now);
        break;
    }
    drain(m);
}

void nodesim_master_start(struct master *m)
{
    mob_node_watch_destroy(m->watch);
    uint64_t tag = m->tag + 1000; /* answers to the one before are not this one's */
    uint32_t shard = m->shard;
    *m = (struct master){.up = true, .shard = shard, .tag = tag};
    m->watch = mob_node_watch_create(&(struct mob_node_watch_options){
        .silence_ns = SILENCE, .tick_ns = 2 * TICK, .end_after_ns = 60 * MS});
}
