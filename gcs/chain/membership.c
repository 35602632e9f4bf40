#include "gcs/chain/membership.h"

#include <stdlib.h>

#include "common/base/log.h"
#include "gcs/chain/chain_rules.h"

#define ACTIONS_MAX 128u
#define MARGIN_NS (2 * 1000000ll) /* clocks that run apart */
#define FORGET_NS (60 * 1000000000ll) /* a member that is in no configuration and says nothing */

struct known {
    struct mob_member_report report;
    int64_t heard_ns;
    int64_t hears_ns; /* when it last showed that it had heard something new of this master */
    int64_t doubted_ns; /* silent, or known to be dead, since about then; 0 = it is not */
    int64_t hurried_ns; /* when it was last told to hurry; 0 = never */
    int64_t moved_ns; /* when it last came to another state, epoch or position */
};

struct mob_membership {
    struct mob_membership_options options;
    bool active;
    uint64_t term;
    struct mob_gcs_config config;
    struct mob_gcs_config pending; /* epoch 0: none */
    bool unknown; /* how the last INSTALL ended */
    int64_t begun_ns, tick_ns, pause_ns, reread_ns,
        died_ns; /* died: no synced member lives since then; 0 = one does */
    uint64_t leased; /* who got the last lease, which may last until leased_until_ns */
    int64_t leased_until_ns;
    bool quiet; /* a configuration is in the table that nobody may hear of before that */
    bool said_missing; /* after everything died: said who is waited for */
    struct known known[MOB_MEMBERSHIP_MEMBERS_MAX];
    uint32_t known_count;
    struct mob_membership_action actions[ACTIONS_MAX];
    uint32_t action_count, action_next;
};

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
static bool push_action(struct mob_membership *m, const struct mob_membership_action *action)
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
    (void)push_action(m,
        &(struct mob_membership_action){.type = MOB_MEMBERSHIP_PUSH, .member = member, .config = m->config});
}

static void tell_all(struct mob_membership *m)
{
    for (uint32_t i = 0; i < m->known_count; i++)
        tell(m, m->known[i].report.member);
}

static bool in_config(const struct mob_gcs_config *config, uint64_t member)
{
    for (uint32_t i = 0; i < config->count; i++)
        if (config->members[i] == member)
            return true;
    return false;
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

/* ---- who is there ---- */

static struct known *find(struct mob_membership *m, uint64_t member)
{
    for (uint32_t i = 0; i < m->known_count; i++)
        if (m->known[i].report.member == member)
            return &m->known[i];
    return NULL;
}

/* The newest life of the member at this place of the configuration that is not that member: it has restarted.
 */
static struct known *find_next_life(struct mob_membership *m, uint32_t place)
{
    struct known *newest = NULL;
    for (uint32_t i = 0; i < m->known_count; i++) {
        struct known *k = &m->known[i];
        uint64_t member = k->report.member, there = m->config.members[place];
        bool later = mob_gcs_member_store(member) == mob_gcs_member_store(there) && member > there;
        if (later && (newest == NULL || member > newest->report.member))
            newest = k;
    }
    return newest;
}

static bool has_store_of(const struct mob_gcs_config *config, uint64_t member)
{
    for (uint32_t i = 0; i < config->count; i++)
        if (mob_gcs_member_store(config->members[i]) == mob_gcs_member_store(member))
            return true;
    return false;
}

static void config_add(struct mob_gcs_config *config, uint64_t member)
{
    config->members[config->count++] = member;
}

/* From when on it means something that nothing has come since `since_ns`: after the pause that was announced,
 * or after it was told to hurry, whichever was first. Never before `since_ns`: so a read lease, which was
 * counted from before it, is over when the suspicion is. What this master has not heard itself may have
 * announced the longest pause to another one. */
static int64_t matters_from(const struct mob_membership *m, const struct known *k, int64_t since_ns)
{
    if (k == NULL || since_ns < m->begun_ns)
        return m->begun_ns + m->options.pause_max_ns;
    int64_t end_ns = since_ns + k->report.pause_ns;
    return k->hurried_ns > since_ns && k->hurried_ns < end_ns ? k->hurried_ns : end_ns;
}

static int64_t silence_ns(const struct mob_membership *m, const struct known *k, int64_t now_ns)
{
    return now_ns - matters_from(m, k, k == NULL ? 0 : k->heard_ns);
}

static bool silent(const struct mob_membership *m, const struct known *k, int64_t now_ns)
{
    return silence_ns(m, k, now_ns) >= m->options.suspicion_ns;
}

/* One that speaks and hears nothing is of no more use than one that is silent. */
static bool deaf(const struct mob_membership *m, const struct known *k, int64_t now_ns)
{
    return now_ns - matters_from(m, k, k->hears_ns) >= m->options.suspicion_ns;
}

static bool heard(const struct mob_membership *m, const struct known *k, int64_t now_ns)
{
    return k != NULL && k->heard_ns >= m->begun_ns && !silent(m, k, now_ns);
}

/* It is there, but something between it and its predecessor is not: it waits for what never comes, and the
 * chain with it. The first such one only: those behind it wait for it, and may go on when it has left. And
 * only beside a predecessor that lives: what one that is dead said last may have been the same, and who waits
 * for that one may be all that is left. */
static bool stalled(struct mob_membership *m, uint32_t place, int64_t now_ns)
{
    if (m->options.stall_ns == 0 || place == 0 || !MOB_RULE(STALLED))
        return false;
    const struct known *k = find(m, m->config.members[place]),
                       *before = find(m, m->config.members[place - 1]);
    return k != NULL && heard(m, before, now_ns) && find_next_life(m, place - 1) == NULL &&
        before->report.state == MOB_CHAIN_SERVING && before->report.epoch == m->config.epoch &&
        k->report.epoch == m->config.epoch && k->report.state == MOB_CHAIN_SYNCING &&
        now_ns - k->moved_ns >= m->options.stall_ns;
}

/* Dead for sure: it says so, or its store already serves its next life. */
static bool dead(struct mob_membership *m, uint32_t place, int64_t now_ns)
{
    const struct known *k = find(m, m->config.members[place]);
    if (k != NULL && k->report.state == MOB_CHAIN_EVICTED)
        return true;
    return find_next_life(m, place) != NULL || silent(m, k, now_ns) || (k != NULL && deaf(m, k, now_ns)) ||
        stalled(m, place, now_ns);
}

static bool alive(struct mob_membership *m, uint32_t place, int64_t now_ns)
{
    return heard(m, find(m, m->config.members[place]), now_ns) && !dead(m, place, now_ns);
}

static bool alive_and_synced(struct mob_membership *m, uint32_t place, int64_t now_ns)
{
    return alive(m, place, now_ns) && find(m, m->config.members[place])->report.synced != 0;
}

static bool chain_lives(struct mob_membership *m, int64_t now_ns)
{
    for (uint32_t i = 0; i < m->config.count; i++)
        if (alive_and_synced(m, i, now_ns))
            return true;
    return false;
}

/* ---- decisions ---- */

static void install(struct mob_membership *m, const struct mob_gcs_config *config)
{
    if (!push_action(m, &(struct mob_membership_action){.type = MOB_MEMBERSHIP_INSTALL, .config = *config}))
        return;
    m->pending = *config;
    MOB_LOG_DEBUG("master", "install", "epoch=%llu members=%u start=%u head=%llx tail=%llx",
        (unsigned long long)config->epoch, config->count, config->start,
        (unsigned long long)config->members[0], (unsigned long long)config->members[config->count - 1]);
}

static struct mob_gcs_config next_config(const struct mob_membership *m)
{
    return (struct mob_gcs_config){
        .epoch = m->config.epoch + 1, .term = m->term, .started = m->config.started};
}

/* The first chain: of empty members, when enough of them are there; or of the one that has data. */
static void decide_first(struct mob_membership *m, int64_t now_ns)
{
    struct mob_gcs_config next = next_config(m);
    for (uint32_t i = 0; i < m->known_count; i++) {
        const struct mob_member_report *r = &m->known[i].report;
        if (r->state != MOB_CHAIN_IDLE || !heard(m, &m->known[i], now_ns))
            continue;
        if (r->stored_synced != 0) {
            uint64_t epoch = r->stored_epoch + 1;
            next = (struct mob_gcs_config){.epoch = epoch, .term = m->term, .start = 1, .started = epoch};
            config_add(&next, r->member);
            break;
        }
        if (next.count < m->options.replicas)
            config_add(&next, r->member);
    }
    if (next.count == m->options.replicas || next.start != 0)
        install(m, &next);
}

/* After everything died: all of the last configuration have come back, or gone on waiting is of no use. */
/* Nobody but a person can say that they do not come: said once, with what that person may do. */
static void say_missing(struct mob_membership *m, uint32_t missing, const struct known *best)
{
    if (m->said_missing)
        return;
    m->said_missing = true;
    MOB_LOG_WARN("master", "waits_for_members",
        "epoch=%llu members=%u missing=%u best_epoch=%llu best_seq=%llu "
        "hint=\"their stores may have what the others lack; if they are lost: gcs-start-without-all\"",
        (unsigned long long)m->config.epoch, m->config.count, missing,
        (unsigned long long)(best == NULL ? 0 : best->report.stored_epoch),
        (unsigned long long)(best == NULL ? 0 : best->report.stored_seq));
}

static void decide_start(struct mob_membership *m, int64_t now_ns)
{
    if (m->died_ns == 0) {
        m->died_ns = now_ns;
        m->said_missing = false;
    }
    const struct known *best = NULL;
    uint32_t missing = 0;
    for (uint32_t i = 0; i < m->config.count; i++) {
        const struct known *k = find_next_life(m, i);
        /* It has answered something that was sent since, and not long ago: what it was before may be gone. */
        bool back = heard(m, k, now_ns) && k->report.state == MOB_CHAIN_IDLE &&
            k->report.heard_ns >= m->died_ns && now_ns - k->report.heard_ns < 3 * m->options.suspicion_ns;
        bool useless = alive(m, i, now_ns); /* it lives, and never was synced */
        missing += !back && !useless;
        /* The members of the first configuration of all began with nothing, so each had everything; and what
         * a chain was started again from is all that there was. */
        bool by_definition = m->config.epoch == 1 || m->config.start != 0;
        if (!back || (k->report.stored_synced == 0 && !by_definition))
            continue;
        const struct mob_member_report *r = &k->report, *b = best == NULL ? NULL : &best->report;
        bool more = b == NULL || r->stored_epoch > b->stored_epoch ||
            (r->stored_epoch == b->stored_epoch && r->stored_seq > b->stored_seq);
        if (more)
            best = k;
    }
    bool waited = now_ns - m->died_ns >= m->options.gather_ns;
    if (best == NULL || (missing > 0 && !(waited && m->options.start_without_all))) {
        if (waited)
            say_missing(m, missing, best);
        return;
    }
    struct mob_gcs_config next = next_config(m);
    next.start = 1;
    next.started = next.epoch;
    config_add(&next, best->report.member);
    install(m, &next);
}

/* Each of the chain that is quiet with leave, and was not told since it spoke, but for one. */
static void hurry(struct mob_membership *m, uint64_t but, int64_t now_ns)
{
    for (uint32_t i = 0; i < m->config.count; i++) {
        struct known *k = find(m, m->config.members[i]);
        bool quiet =
            k != NULL && k->report.member != but && k->report.pause_ns > 0 && k->hurried_ns <= k->heard_ns;
        struct mob_membership_action a = {
            .type = MOB_MEMBERSHIP_HURRY, .member = m->config.members[i], .heard_ns = now_ns};
        if (quiet && push_action(m, &a))
            k->hurried_ns = now_ns;
    }
}

/* One that rests and was told to hurry may not have heard it: once more, while there is time to answer. */
static void remind(struct mob_membership *m, const struct known *k, int64_t now_ns)
{
    if (k->report.pause_ns > 0)
        (void)push_action(m,
            &(struct mob_membership_action){
                .type = MOB_MEMBERSHIP_HURRY, .member = k->report.member, .heard_ns = now_ns});
}

/* Noted well before the verdict, so that the others' next heartbeats can show that they lived after it. */
static void doubt(struct mob_membership *m, int64_t now_ns)
{
    for (uint32_t i = 0; i < m->config.count; i++) {
        struct known *k = find(m, m->config.members[i]);
        if (k == NULL)
            continue;
        bool quiet = silence_ns(m, k, now_ns) >= m->options.suspicion_ns / 2;
        if (!quiet && !dead(m, i, now_ns)) {
            k->doubted_ns = 0;
        } else if (k->doubted_ns == 0) {
            k->doubted_ns = now_ns;
            remind(m, k, now_ns);
        }
        if (k->doubted_ns != 0)
            hurry(m, k->report.member, now_ns);
    }
}

static void name_stalled(struct mob_membership *m, int64_t now_ns)
{
    for (uint32_t i = 0; i < m->config.count; i++) {
        if (!stalled(m, i, now_ns))
            continue;
        const struct known *k = find(m, m->config.members[i]);
        MOB_LOG_WARN("master", "stalled", "member=%llx state=%s epoch=%llu applied=%llu for_ms=%lld",
            (unsigned long long)k->report.member, mob_chain_state_name(k->report.state),
            (unsigned long long)k->report.epoch, (unsigned long long)k->report.applied,
            (long long)((now_ns - k->moved_ns) / 1000000));
    }
}

/* Whoever is silent goes, but never so that no synced member is left, and none that is not becomes head. What
 * a master knows may be old when it was stopped itself: whoever stays must have answered something that was
 * sent after the others were doubted. */
static bool decide_eviction(struct mob_membership *m, int64_t now_ns)
{
    struct mob_gcs_config next = next_config(m);
    uint32_t head = m->config.count;
    int64_t doubted_ns = m->begun_ns;
    bool on_disk = false, alive_since = true;
    for (uint32_t i = 0; i < m->config.count; i++) {
        const struct known *k = find(m, m->config.members[i]);
        if (dead(m, i, now_ns)) {
            if (k != NULL && k->doubted_ns > doubted_ns)
                doubted_ns = k->doubted_ns;
            continue;
        }
        head = head < i ? head : i;
        on_disk = on_disk || (alive_and_synced(m, i, now_ns) && k->report.synced_on_disk != 0);
        config_add(&next, m->config.members[i]);
    }
    if (next.count == m->config.count)
        return false;
    for (uint32_t i = 0; i < next.count; i++) {
        const struct known *k = find(m, next.members[i]);
        alive_since = alive_since && k != NULL && k->report.heard_ns >= doubted_ns;
    }
    if (next.count > 0 && alive_since && on_disk && alive_and_synced(m, head, now_ns)) {
        name_stalled(m, now_ns);
        install(m, &next);
    }
    return true;
}

static void decide_append(struct mob_membership *m, int64_t now_ns)
{
    if (m->config.count >= m->options.replicas || m->config.count == MOB_GCS_MEMBERS_MAX)
        return;
    for (uint32_t i = 0; i < m->config.count; i++) {
        const struct known *k = find(m, m->config.members[i]);
        bool settled = k != NULL && k->report.epoch == m->config.epoch && k->report.synced_on_disk != 0 &&
            k->report.state == MOB_CHAIN_SERVING;
        if (!settled)
            return;
    }
    const struct mob_member_report *tail = &find(m, m->config.members[m->config.count - 1])->report;
    const struct known *joiner = find(m, tail->joiner);
    bool ready = tail->joiner != 0 && tail->joiner_lag < m->options.lag_max && joiner != NULL &&
        joiner->report.state == MOB_CHAIN_JOINING && heard(m, joiner, now_ns);
    if (!ready)
        return;
    struct mob_gcs_config next = m->config;
    next.epoch++;
    next.term = m->term;
    next.start = 0;
    config_add(&next, joiner->report.member);
    install(m, &next);
}

static void decide(struct mob_membership *m, int64_t now_ns)
{
    if (!m->active || m->pending.epoch != 0)
        return;
    if (m->config.epoch == 0) {
        decide_first(m, now_ns);
        return;
    }
    if (!chain_lives(m, now_ns)) {
        decide_start(m, now_ns);
        return;
    }
    m->died_ns = 0;
    doubt(m, now_ns);
    if (!decide_eviction(m, now_ns))
        decide_append(m, now_ns);
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
    struct known *k = find(m, member);
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
        same ? k->hurried_ns : 0, moved ? now_ns : k->moved_ns};
    if (k->report.pause_ns > m->options.pause_max_ns)
        k->report.pause_ns = m->options.pause_max_ns;
    if (report->busy != 0 && in_config(&m->config, report->member))
        hurry(m, report->member, now_ns);
    if (report->epoch < m->config.epoch)
        tell(m, report->member);
    bool lease = lease_ok && may_lease(m, report);
    if (lease) {
        m->leased = report->member;
        m->leased_until_ns = now_ns + m->options.lease_ns + MARGIN_NS;
    }
    (void)push_action(m,
        &(struct mob_membership_action){.type = MOB_MEMBERSHIP_ANSWER,
            .member = report->member,
            .lease = lease,
            .sent_ns = report->sent_ns,
            .heard_ns = now_ns});
    bool wanted = m->config.epoch != 0 && m->config.count < m->options.replicas;
    bool new_one = report->state == MOB_CHAIN_IDLE && !has_store_of(&m->config, report->member);
    if (new_one && wanted && lease_ok && m->pending.epoch == 0 && chain_lives(m, now_ns))
        (void)push_action(m,
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
        (void)push_action(m, &(struct mob_membership_action){.type = MOB_MEMBERSHIP_READ});
    }
    if (m->quiet)
        publish(m, now_ns);
    decide(m, now_ns);
}

/* Nobody of the chain is waited for. */
static bool at_rest(struct mob_membership *m)
{
    bool settled = m->active && m->config.epoch != 0 && m->pending.epoch == 0 && !m->unknown && !m->quiet &&
        m->died_ns == 0;
    for (uint32_t i = 0; i < m->config.count && settled; i++) {
        const struct known *k = find(m, m->config.members[i]);
        settled = k != NULL && k->heard_ns >= m->begun_ns && k->report.pause_ns > 0 &&
            k->hurried_ns <= k->heard_ns && k->doubted_ns == 0;
    }
    return settled || m->config.count == 1;
}

int64_t mob_membership_pause_ns(struct mob_membership *m)
{
    m->pause_ns = at_rest(m) ? m->options.tick_slow_ns : m->options.tick_ns;
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
