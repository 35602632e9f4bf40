#include "gcs/chain/membership.h"

#include <stdlib.h>

#include "gcs/chain/membership_inner.h"

#define MARGIN_NS (2 * 1000000ll) /* clocks that run apart */
#define FORGET_NS (60 * 1000000000ll) /* a member that is in no configuration and says nothing */

struct mob_membership *mob_membership_create(const struct mob_membership_options *options)
{
    struct mob_membership *m = calloc(1, sizeof *m);
    if (m == NULL)
        return NULL;
    m->options = *options;
    if (m->options.pause_max_ns == 0)
        m->options.pause_max_ns = MOB_MEMBERSHIP_PAUSE_MAX_NS;
    if (m->options.lag_max == 0)
        m->options.lag_max = MOB_MEMBERSHIP_LAG_MAX;
    return m;
}

void mob_membership_destroy(struct mob_membership *m)
{
    free(m);
}

const struct mob_gcs_config *mob_membership_config(const struct mob_membership *m)
{
    return &m->config;
}

bool mob_membership_may_tell(const struct mob_membership *m)
{
    return !m->quiet;
}

/* ---- actions ---- */

/* Dropped when there are too many: a member reports again, a decision is made again at the next tick. */
bool membership_push(struct mob_membership *m, const struct mob_membership_action *action)
{
    if (m->action_count == ACTIONS_MAX)
        return false;
    m->actions[m->action_count++] = *action;
    return true;
}

bool mob_membership_next(struct mob_membership *m, struct mob_membership_action *action_out)
{
    if (m->action_next == m->action_count) {
        m->action_next = m->action_count = 0;
        return false;
    }
    *action_out = m->actions[m->action_next++];
    return true;
}

static void tell(struct mob_membership *m, uint64_t member)
{
    if (m->quiet)
        return;
    (void)membership_push(m,
        &(struct mob_membership_action){.type = MOB_MEMBERSHIP_PUSH, .member = member, .config = m->config});
}

static void tell_all(struct mob_membership *m)
{
    for (uint32_t i = 0; i < m->known_count; i++)
        tell(m, m->known[i].report.member);
}

/* A new chain may commit as soon as its members know of it, so it stays secret while one that is not in it
 * may still answer reads. After an eviction that time has passed; not so when an INSERT that seemed lost came
 * to the table after all. */
static void publish(struct mob_membership *m, int64_t now_ns)
{
    bool leased = m->leased != 0 && now_ns < m->leased_until_ns && !in_config(&m->config, m->leased);
    m->quiet = leased;
    tell_all(m);
}

/* Each of the chain that is quiet with leave, and was not told since it spoke, but for one. */
void membership_hurry(struct mob_membership *m, uint64_t but, int64_t now_ns)
{
    for (uint32_t i = 0; i < m->config.count; i++) {
        struct known *k = membership_find(m, m->config.members[i]);
        bool quiet =
            k != NULL && k->report.member != but && k->report.pause_ns > 0 && k->hurried_ns <= k->heard_ns;
        struct mob_membership_action a = {
            .type = MOB_MEMBERSHIP_HURRY, .member = m->config.members[i], .heard_ns = now_ns};
        if (quiet && membership_push(m, &a))
            k->hurried_ns = now_ns;
    }
}

/* ---- events ---- */

void mob_membership_begin(
    struct mob_membership *m, uint64_t term, const struct mob_gcs_config *newest, int64_t now_ns)
{
    m->active = true;
    m->term = term;
    m->config = *newest;
    m->pending.epoch = 0;
    m->unknown = false;
    m->begun_ns = m->tick_ns = m->reread_ns = now_ns;
    m->pause_ns = m->options.tick_ns;
    m->died_ns = 0;
    m->leased = 0;
    m->quiet = false;
    tell_all(m);
}

void mob_membership_end(struct mob_membership *m)
{
    m->active = false;
    m->action_count = m->action_next = 0;
}

/* An earlier life of the same store, or one that has said nothing for long; never one of the chain. */
static bool may_forget(
    const struct mob_membership *m, const struct known *k, uint64_t newcomer, int64_t now_ns)
{
    uint64_t member = k->report.member;
    bool earlier = mob_gcs_member_store(member) == mob_gcs_member_store(newcomer) && member < newcomer;
    return !in_config(&m->config, member) && !in_config(&m->pending, member) &&
        (earlier || now_ns - k->heard_ns > FORGET_NS);
}

static struct known *hear(struct mob_membership *m, uint64_t member, int64_t now_ns)
{
    struct known *k = membership_find(m, member);
    if (k != NULL)
        return k;
    for (uint32_t i = m->known_count; i-- > 0;)
        if (may_forget(m, &m->known[i], member, now_ns))
            m->known[i] = m->known[--m->known_count];
    if (m->known_count == MOB_MEMBERSHIP_MEMBERS_MAX)
        return NULL;
    k = &m->known[m->known_count++];
    *k = (struct known){0};
    return k;
}

static bool may_lease(const struct mob_membership *m, const struct mob_member_report *r)
{
    const struct mob_gcs_config *c = &m->config, *p = &m->pending;
    bool tail = c->count > 0 && c->members[c->count - 1] == r->member && r->epoch == c->epoch &&
        r->state == MOB_CHAIN_SERVING;
    /* What may be in the table counts, whether this master has heard of it or not. */
    bool stays = p->epoch == 0 || in_config(p, r->member);
    return tail && stays;
}

static bool has_store_of(const struct mob_gcs_config *config, uint64_t member)
{
    for (uint32_t i = 0; i < config->count; i++)
        if (mob_gcs_member_store(config->members[i]) == mob_gcs_member_store(member))
            return true;
    return false;
}

static void answer(struct mob_membership *m, struct known *k, bool lease, int64_t now_ns)
{
    if (mob_membership_even(m) && now_ns - k->answered_ns < membership_beat_ns(m) * 3 / 2)
        return; /* its lease, and what it heard, are fresh enough */
    if (lease) {
        m->leased = k->report.member;
        m->leased_until_ns = now_ns + m->options.lease_ns + MARGIN_NS;
    }
    const struct mob_membership_action a = {.type = MOB_MEMBERSHIP_ANSWER,
        .member = k->report.member,
        .lease = lease,
        .sent_ns = k->report.sent_ns,
        .heard_ns = now_ns};
    if (membership_push(m, &a))
        k->answered_ns = now_ns;
}

void mob_membership_on_report(
    struct mob_membership *m, const struct mob_member_report *report, bool lease_ok, int64_t now_ns)
{
    if (!m->active || report->member == 0)
        return;
    struct known *k = hear(m, report->member, now_ns);
    if (k == NULL)
        return;
    bool same = k->report.member == report->member;
    bool hears = !same || (report->heard_ns != 0 && report->heard_ns != k->report.heard_ns);
    bool moved = !same || report->state != k->report.state || report->epoch != k->report.epoch ||
        report->applied != k->report.applied;
    *k = (struct known){*report, now_ns, hears ? now_ns : k->hears_ns, same ? k->doubted_ns : 0,
        same ? k->hurried_ns : 0, moved ? now_ns : k->moved_ns, same ? k->answered_ns : 0};
    if (k->report.pause_ns > m->options.pause_max_ns)
        k->report.pause_ns = m->options.pause_max_ns;
    if (report->busy != 0 && in_config(&m->config, report->member))
        membership_hurry(m, report->member, now_ns);
    if (report->epoch < m->config.epoch)
        tell(m, report->member);
    answer(m, k, lease_ok && may_lease(m, report), now_ns);
    bool wanted = m->config.epoch != 0 && m->config.count < m->options.replicas;
    bool new_one = report->state == MOB_CHAIN_IDLE && !has_store_of(&m->config, report->member);
    if (new_one && wanted && lease_ok && m->pending.epoch == 0 && membership_chain_lives(m, now_ns))
        (void)membership_push(m,
            &(struct mob_membership_action){
                .type = MOB_MEMBERSHIP_JOIN, .member = report->member, .config = m->config});
}

void mob_membership_on_tick(struct mob_membership *m, int64_t now_ns)
{
    if (!m->active)
        return;
    /* What arrived while this process was not running has not been read yet. */
    int64_t late = now_ns - m->tick_ns - m->pause_ns;
    m->tick_ns = now_ns;
    for (uint32_t i = 0; late > 0 && i < m->known_count; i++) {
        m->known[i].heard_ns += late;
        m->known[i].hears_ns += late;
        m->known[i].hurried_ns += late;
        m->known[i].moved_ns += late;
    }
    if (late > 0)
        m->begun_ns += late;
    if (m->unknown || now_ns - m->reread_ns >= m->options.reread_ns) {
        m->reread_ns = now_ns;
        (void)membership_push(m, &(struct mob_membership_action){.type = MOB_MEMBERSHIP_READ});
    }
    if (m->quiet)
        publish(m, now_ns);
    membership_decide(m, now_ns);
}

/* Nothing is to be decided, made or told. */
static bool decided(const struct mob_membership *m)
{
    return m->active && m->config.epoch != 0 && m->pending.epoch == 0 && !m->unknown && !m->quiet &&
        m->died_ns == 0;
}

/* Nobody of the chain is waited for. */
static bool at_rest(struct mob_membership *m)
{
    bool settled = decided(m);
    for (uint32_t i = 0; i < m->config.count && settled; i++) {
        const struct known *k = membership_find(m, m->config.members[i]);
        settled = k != NULL && k->heard_ns >= m->begun_ns && k->report.pause_ns > 0 &&
            k->hurried_ns <= k->heard_ns && k->doubted_ns == 0;
    }
    return settled || m->config.count == 1;
}

/* By the last tick: two heartbeats that fall between three of its own are no delay. */
bool mob_membership_even(const struct mob_membership *m)
{
    bool even = decided(m) && m->config.count == m->options.replicas && m->config.count > 1;
    for (uint32_t i = 0; i < m->config.count && even; i++) {
        const struct known *k = membership_find(m, m->config.members[i]);
        even = k != NULL && k->heard_ns >= m->begun_ns && k->report.pause_ns == 0 &&
            k->report.state == MOB_CHAIN_SERVING && k->report.epoch == m->config.epoch &&
            m->tick_ns - k->heard_ns < membership_beat_ns(m) * 5 / 2;
    }
    return even;
}

int64_t mob_membership_pause_ns(struct mob_membership *m)
{
    int64_t fast_ns = mob_membership_even(m) ? membership_beat_ns(m) : m->options.tick_ns;
    m->pause_ns = at_rest(m) ? m->options.tick_slow_ns : fast_ns;
    return m->pause_ns;
}

static void adopt(struct mob_membership *m, const struct mob_gcs_config *config, int64_t now_ns)
{
    m->pending.epoch = 0;
    m->unknown = false;
    m->died_ns = 0;
    if (config->epoch <= m->config.epoch)
        return;
    m->config = *config;
    publish(m, now_ns);
}

void mob_membership_on_installed(struct mob_membership *m, enum mob_status status, int64_t now_ns)
{
    if (m->pending.epoch == 0)
        return;
    if (status == MOB_OK) {
        struct mob_gcs_config made = m->pending;
        adopt(m, &made, now_ns);
    } else {
        m->unknown = true; /* also after a conflict: somebody else's is there */
    }
}

void mob_membership_on_newest(struct mob_membership *m, const struct mob_gcs_config *newest, int64_t now_ns)
{
    if (m->unknown || (m->pending.epoch == 0 && newest->epoch > m->config.epoch))
        adopt(m, newest, now_ns);
}
