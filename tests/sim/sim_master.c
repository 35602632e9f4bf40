/* The database, and masters around the real membership machine. */
#include <stdlib.h>

#include "tests/sim/sim_internal.h"

#define TICK_NS (1 * SIM_MS)
#define DB_PATIENCE_NS (15 * SIM_MS)

/* Scaled down, so that a run of a second sees masters come and go. */
static const struct mob_mastership_times times = {
    .beat_ns = 10 * SIM_MS, .takeover_ns = 90 * SIM_MS, .fresh_ns = 50 * SIM_MS};

/* ---- the database: each request is one transaction ---- */

static void insert(struct sim *s, const struct sim_msg *msg, struct sim_msg *answer)
{
    struct sim_database *d = &s->database;
    const struct mob_gcs_config *config = &msg->config;
    bool mine = config->term == d->row.term;
    if (!mine || config->epoch <= d->newest || config->epoch >= SIM_EPOCHS_MAX) {
        answer->status = MOB_CONFLICT;
        sim_cover_add(s, SIM_INSERT_CONFLICTS);
        return;
    }
    d->configs[config->epoch] = *config;
    d->newest = config->epoch;
    SIM_TRACE(s, "epoch %llu: %u members, head %llx, tail %llx, start %u, term %llu",
        (unsigned long long)config->epoch, config->count, (unsigned long long)config->members[0],
        (unsigned long long)config->members[config->count - 1], config->start,
        (unsigned long long)config->term);
    sim_check_config(s, config);
    sim_config_made(s, config, &d->configs[config->epoch - 1]);
}

/* One transaction: the watermark's compare-and-set, then the rows. */
static void write_blocks(struct sim *s, const struct sim_msg *msg, struct sim_msg *answer)
{
    struct sim_database *d = &s->database;
    if (d->watermark != msg->b && s->setup.without != SIM_RULE_WATERMARK) {
        answer->status = MOB_CONFLICT;
        sim_cover_add(s, SIM_WATERMARK_CONFLICTS);
        return;
    }
    size_t n = msg->body_bytes / sizeof(struct sim_block);
    for (size_t i = 0; i < n; i++)
        memcpy(SIM_GROW(d->cold, d->cold_count, d->cold_capacity), msg->body + i * sizeof *d->cold,
            sizeof *d->cold);
    d->watermark = msg->c;
    sim_cover_add(s, SIM_BATCHES);
    SIM_TRACE(
        s, "watermark %llu -> %llu, %zu blocks", (unsigned long long)msg->b, (unsigned long long)msg->c, n);
}

/* The blocks of a log. */
static struct sim_msg *rows_of(struct sim *s, const struct sim_msg *msg)
{
    struct sim_database *d = &s->database;
    struct sim_block *rows = malloc((d->cold_count + 1) * sizeof *rows);
    size_t n = 0;
    for (size_t i = 0; i < d->cold_count; i++)
        if (d->cold[i].incarnation == msg->b)
            rows[n++] = d->cold[i];
    struct sim_msg *answer =
        sim_msg_create(SIM_DB_ANSWER, d->number, msg->from, rows, (uint32_t)(n * sizeof *rows));
    free(rows);
    return answer;
}

#define COUNTED(name, text, minimum) \
    _Static_assert((int)SIM_ASKED_##name - (int)SIM_ASKED_ROW == (int)SIM_DB_##name - (int)SIM_DB_ROW, #name);
SIM_QUESTIONS(COUNTED)
#undef COUNTED
_Static_assert(SIM_ASKED_WRITE - SIM_ASKED_ROW == SIM_DB_OPS - 1 - SIM_DB_ROW, "a question is not counted");

void sim_database_message(struct sim *s, const struct sim_msg *msg)
{
    struct sim_database *d = &s->database;
    struct sim_msg *answer = msg->a == SIM_DB_ROWS
        ? rows_of(s, msg)
        : sim_msg_create(SIM_DB_ANSWER, d->number, msg->from, NULL, 0);
    answer->tag = msg->tag;
    answer->a = msg->a;
    answer->status = MOB_OK;
    sim_cover_add(s, (enum sim_cover)(SIM_ASKED_ROW + (msg->a - SIM_DB_ROW)));
    switch ((enum sim_db_op)msg->a) {
    case SIM_DB_ROW:
        answer->row.old_row = d->row;
        break;
    case SIM_DB_SET_ROW:
        if (memcmp(&d->row, &msg->row.old_row, sizeof d->row) == 0)
            d->row = msg->row.new_row;
        else
            answer->status = MOB_CONFLICT;
        break;
    case SIM_DB_NEWEST:
        answer->config = d->configs[d->newest];
        break;
    case SIM_DB_INSERT:
        insert(s, msg, answer);
        break;
    case SIM_DB_WATERMARK:
        answer->b = d->watermark;
        answer->c = d->cold_count;
        break;
    case SIM_DB_ROWS:
        break;
    case SIM_DB_WRITE:
        write_blocks(s, msg, answer);
        break;
    case SIM_DB_OPS:
        break;
    }
    sim_send(s, answer);
}

bool sim_database_seal(struct sim *s, uint64_t incarnation, uint64_t cut)
{
    struct sim_database *d = &s->database;
    for (uint32_t i = 0; i < d->seal_count; i++)
        if (d->seals[i].incarnation == incarnation) {
            SIM_CHECK(s,
                cut == UINT64_MAX || d->seals[i].cut == UINT64_MAX || d->seals[i].cut == cut ||
                    sim_log_is_excused(s, incarnation),
                "log %llu was cut at %llu and at %llu", (unsigned long long)incarnation,
                (unsigned long long)d->seals[i].cut, (unsigned long long)cut);
            if (cut != UINT64_MAX)
                d->seals[i].cut = cut;
            return true;
        }
    if (d->seal_count == sizeof d->seals / sizeof d->seals[0])
        return false;
    d->seals[d->seal_count++] = (struct sim_seal){.incarnation = incarnation, .cut = cut};
    return true;
}

/* ---- a master ---- */

static void tick_later(struct sim *s, struct sim_master *m)
{
    int64_t pause = m->membership == NULL || !m->began ? TICK_NS : mob_membership_pause_ns(m->membership);
    sim_at(s, pause, (struct sim_event){.type = SIM_EV_TICK, .node = m->number, .life = m->node->life});
}

void sim_master_start(struct sim *s, struct sim_master *m)
{
    m->mastership = (struct mob_mastership){0};
    m->membership = mob_membership_create(&(struct mob_membership_options){.replicas = s->plan.replicas,
        .suspicion_ns = MOB_MEMBERSHIP_SUSPICION_NS,
        .lease_ns = MOB_CHAIN_LEASE_NS,
        .tick_ns = TICK_NS,
        .lag_max = 10,
        .stall_ns = 300 * SIM_MS,
        .pause_max_ns = 100 * SIM_MS,
        .tick_slow_ns = 10 * TICK_NS,
        .reread_ns = 20 * SIM_MS,
        .gather_ns = 300 * SIM_MS,
        .start_without_all =
            true}); /* else a store that was wiped at the wrong moment is waited for for ever */
    m->began = false;
    m->row_tag = m->read_tag = m->insert_tag = 0;
    tick_later(s, m);
}

void sim_master_stop(struct sim *s, struct sim_master *m)
{
    (void)s;
    mob_membership_destroy(m->membership);
    m->membership = NULL;
}

static struct sim_msg *ask(struct sim *s, struct sim_master *m, enum sim_db_op op, uint64_t *tag_out)
{
    struct sim_msg *msg = sim_msg_create(SIM_DB, m->number, s->database.number, NULL, 0);
    msg->a = op;
    msg->tag = *tag_out = ++m->next_tag;
    return msg;
}

static void ask_newest(struct sim *s, struct sim_master *m)
{
    if (m->read_tag != 0 && sim_clock(s, m->node) < m->read_deadline)
        return;
    sim_send(s, ask(s, m, SIM_DB_NEWEST, &m->read_tag));
    m->read_deadline = sim_clock(s, m->node) + DB_PATIENCE_NS;
}

static void push_config(struct sim *s, struct sim_master *m, const struct mob_membership_action *a)
{
    uint32_t seals = a->config.start != 0 ? s->database.seal_count : 0;
    struct sim_msg *msg = sim_msg_create(SIM_BOOK, m->number, sim_node_of_member(a->member),
        s->database.seals, seals * (uint32_t)sizeof s->database.seals[0]);
    msg->config = a->config;
    sim_send(s, msg);
}

static void drain(struct sim *s, struct sim_master *m)
{
    struct mob_membership_action a;
    while (mob_membership_next(m->membership, &a)) {
        struct sim_msg *msg;
        switch (a.type) {
        case MOB_MEMBERSHIP_INSTALL:
            msg = ask(s, m, SIM_DB_INSERT, &m->insert_tag);
            msg->config = a.config;
            sim_send(s, msg);
            m->insert_deadline = sim_clock(s, m->node) + DB_PATIENCE_NS;
            break;
        case MOB_MEMBERSHIP_READ:
            ask_newest(s, m);
            break;
        case MOB_MEMBERSHIP_PUSH:
            push_config(s, m, &a);
            break;
        case MOB_MEMBERSHIP_ANSWER:
            msg = sim_msg_create(SIM_LEASE, m->number, sim_node_of_member(a.member), NULL, 0);
            msg->epoch = mob_membership_config(m->membership)->epoch;
            msg->client = a.member;
            msg->a = (uint64_t)a.sent_ns;
            msg->b = (uint64_t)a.heard_ns;
            msg->c = a.lease;
            if (a.lease)
                sim_cover_add(s, SIM_LEASES);
            sim_send(s, msg);
            break;
        case MOB_MEMBERSHIP_HURRY:
            msg = sim_msg_create(SIM_LEASE, m->number, sim_node_of_member(a.member), NULL, 0);
            msg->client = a.member;
            msg->b = (uint64_t)a.heard_ns;
            msg->c = SIM_LEASE_HURRY;
            sim_send(s, msg);
            break;
        case MOB_MEMBERSHIP_BEGIN_ANEW: /* the stores of all are never lost here */
            SIM_CHECK(s, false, "member %llx is told to begin with nothing", (unsigned long long)a.member);
            break;
        case MOB_MEMBERSHIP_JOIN:
            msg = sim_msg_create(SIM_ENTER, m->number, sim_node_of_member(a.member), NULL, 0);
            msg->client = a.member;
            msg->epoch = a.config.epoch;
            sim_send(s, msg);
            break;
        }
    }
}

static void step_mastership(struct sim *s, struct sim_master *m, int64_t now)
{
    if (m->row_tag != 0 && now >= m->row_deadline) { /* no answer: unknown */
        m->row_tag = 0;
        if (m->step == MOB_MASTERSHIP_LOOK)
            mob_mastership_on_no_row(&m->mastership, now);
        else
            mob_mastership_on_set(&m->mastership, MOB_TIMEOUT, now);
    }
    enum mob_mastership_step step = mob_mastership_step(&m->mastership, &times, now);
    if (step == MOB_MASTERSHIP_WAIT)
        return;
    m->step = step;
    m->row_deadline = now + DB_PATIENCE_NS;
    struct sim_msg *msg = ask(s, m, step == MOB_MASTERSHIP_LOOK ? SIM_DB_ROW : SIM_DB_SET_ROW, &m->row_tag);
    msg->row.old_row = m->mastership.row;
    msg->row.new_row = m->mastership.next;
    sim_send(s, msg);
}

static void count_masters(struct sim *s)
{
    uint32_t active = 0;
    for (uint32_t i = 0; i < SIM_MASTERS; i++)
        active += s->masters[i].node->up && s->masters[i].mastership.active;
    if (active > 1)
        sim_cover_add(s, SIM_TWO_MASTERS);
}

void sim_master_tick(struct sim *s, struct sim_master *m)
{
    int64_t now = sim_clock(s, m->node);
    tick_later(s, m);
    step_mastership(s, m, now);
    if (m->mastership.active && !m->began) {
        ask_newest(s, m);
    } else if (!m->mastership.active && m->began) {
        m->began = false;
        mob_membership_end(m->membership);
    }
    if (m->insert_tag != 0 && now >= m->insert_deadline) {
        m->insert_tag = 0;
        sim_cover_add(s, SIM_INSERT_UNKNOWN);
        mob_membership_on_installed(m->membership, MOB_TIMEOUT, now);
    }
    mob_membership_on_tick(m->membership, now);
    drain(s, m);
}

static void on_db_answer(struct sim *s, struct sim_master *m, const struct sim_msg *msg)
{
    int64_t now = sim_clock(s, m->node);
    if (msg->tag == m->row_tag) {
        m->row_tag = 0;
        if (m->step == MOB_MASTERSHIP_LOOK)
            mob_mastership_on_row(&m->mastership, &msg->row.old_row, now);
        else
            mob_mastership_on_set(&m->mastership, (enum mob_status)msg->status, now);
        if (m->step == MOB_MASTERSHIP_TAKE && m->mastership.active) {
            SIM_TRACE(s, "master %u is active, term %llu", m->number - s->plan.slots,
                (unsigned long long)m->mastership.row.term);
            sim_cover_add(s, SIM_TAKEOVERS);
            m->read_tag = 0; /* what was read before may be old */
        }
        count_masters(s);
    } else if (msg->tag == m->read_tag) {
        m->read_tag = 0;
        if (m->mastership.active && !m->began) {
            m->began = true;
            mob_membership_begin(m->membership, m->mastership.row.term, &msg->config, now);
        } else {
            mob_membership_on_newest(m->membership, &msg->config, now);
        }
    } else if (msg->tag == m->insert_tag) {
        m->insert_tag = 0;
        mob_membership_on_installed(m->membership, (enum mob_status)msg->status, now);
    }
    drain(s, m);
}

void sim_master_message(struct sim *s, struct sim_master *m, const struct sim_msg *msg)
{
    int64_t now = sim_clock(s, m->node);
    if (msg->type == SIM_DB_ANSWER) {
        on_db_answer(s, m, msg);
    } else if (msg->type == SIM_REPORT) {
        bool fresh = mob_mastership_fresh(&m->mastership, &times, now);
        mob_membership_on_report(m->membership, &msg->report, fresh, now);
        drain(s, m);
    } else if (msg->type == SIM_WHERE && m->began) {
        const struct mob_gcs_config *config = mob_membership_config(m->membership);
        if (config->epoch == 0 || !mob_membership_may_tell(m->membership))
            return;
        struct sim_msg *answer = sim_msg_create(SIM_NACK, m->number, msg->from, NULL, 0);
        answer->config = *config;
        sim_send(s, answer);
    }
}
