/* Which configuration comes next: the first one, one after everything died, one without whoever is silent,
 * one with whoever has joined. */
#include "common/base/log.h"
#include "gcs/chain/chain_rules.h"
#include "gcs/chain/membership_inner.h"

#define BEGIN_ANEW_AGAIN_NS (1000 * 1000000ll) /* time for a member to do so, and to come back */

static void config_add(struct mob_gcs_config *config, uint64_t member)
{
    config->members[config->count++] = member;
}

static void install(struct mob_membership *m, const struct mob_gcs_config *config)
{
    if (!membership_push(
            m, &(struct mob_membership_action){.type = MOB_MEMBERSHIP_INSTALL, .config = *config}))
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
        if (r->state != MOB_CHAIN_IDLE || !membership_heard(m, &m->known[i], now_ns))
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

/* Nobody but a person can say that they do not come: said once of each kind, with what that person may do. */
static void say_waits(
    struct mob_membership *m, enum mob_membership_wait what, uint32_t missing, const struct known *best)
{
    static const char *const hints[] = {
        [MOB_MEMBERSHIP_WAITS_FOR_OTHERS] =
            "their stores may have what the others lack; if they are lost: gcs-start-without-all",
        [MOB_MEMBERSHIP_WAITS_FOR_A_WORD] = "only a member that had been left out has a store, and may lack "
                                            "what came later; if the stores of "
                                            "the others are lost: gcs-start-without-all",
        [MOB_MEMBERSHIP_WAITS_FOR_A_STORE] =
            "no member that is here has a store: put back the files of Redis (appendonlydir) of a member of "
            "the "
            "last chain; if all are lost: gcs-start-without-all, which begins with nothing but what "
            "PostgreSQL has"};
    bool said = (m->said_waits & 1u << what) != 0;
    m->waits = what;
    m->said_waits |= 1u << what;
    if (said)
        return;
    MOB_LOG_WARN("master", "waits_for_members",
        "epoch=%llu members=%u missing=%u best_epoch=%llu best_seq=%llu hint=\"%s\"",
        (unsigned long long)m->config.epoch, m->config.count, missing,
        (unsigned long long)(best == NULL ? 0 : best->report.stored_epoch),
        (unsigned long long)(best == NULL ? 0 : best->report.stored_seq), hints[what]);
}

enum mob_membership_wait mob_membership_waits(const struct mob_membership *m)
{
    return m->waits;
}

/* It has answered something that was sent since everything died, and not long ago: what it was before may be
 * gone. */
static bool is_back(const struct mob_membership *m, const struct known *k, int64_t now_ns)
{
    return membership_heard(m, k, now_ns) && k->report.state == MOB_CHAIN_IDLE &&
        k->report.heard_ns >= m->died_ns && now_ns - k->report.heard_ns < 3 * m->options.suspicion_ns;
}

static const struct known *further(const struct known *best, const struct known *k)
{
    if (best == NULL)
        return k;
    const struct mob_member_report *r = &k->report, *b = &best->report;
    bool more = r->stored_epoch > b->stored_epoch ||
        (r->stored_epoch == b->stored_epoch && r->stored_seq > b->stored_seq);
    return more ? k : best;
}

/* Of those of the newest configuration the one that got furthest; how many of them have not come. */
static const struct known *best_of_configuration(
    struct mob_membership *m, int64_t now_ns, uint32_t *missing_out)
{
    const struct known *best = NULL;
    *missing_out = 0;
    for (uint32_t i = 0; i < m->config.count; i++) {
        const struct known *k = membership_next_life(m, i);
        bool back = is_back(m, k, now_ns);
        bool useless = membership_alive(m, i, now_ns); /* it lives, and never was synced */
        *missing_out += !back && !useless;
        /* The members of the first configuration of all began with nothing, so each had everything; and what
         * a chain was started again from is all that there was. */
        bool by_definition = (m->config.epoch == 1 || m->config.start != 0) && MOB_RULE(START_FIRST);
        if (back && (k->report.stored_synced != 0 || by_definition))
            best = further(best, k);
    }
    return best;
}

/* One of the newest configuration that came back with its store has more than any other, and may only be out
 * of sight just now. */
static bool one_was_here(struct mob_membership *m, int64_t now_ns)
{
    for (uint32_t i = 0; i < m->config.count; i++) {
        const struct known *k = membership_next_life(m, i);
        if (k != NULL && k->report.stored_synced != 0 && now_ns - k->heard_ns < m->options.gather_ns)
            return true;
    }
    return false;
}

/* One that had been left out before everything died may be the last that has a store: a configuration that
 * the table took late may have left out who was the whole chain all the same. */
static const struct known *best_of_others(const struct mob_membership *m, int64_t now_ns)
{
    const struct known *best = NULL;
    for (uint32_t i = 0; i < m->known_count; i++)
        if (is_back(m, &m->known[i], now_ns) && m->known[i].report.stored_synced != 0)
            best = further(best, &m->known[i]);
    return best;
}

/* Members of the chain that live, and were never synced: they wait for what is gone. */
static uint32_t left_behind(struct mob_membership *m, int64_t now_ns)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < m->config.count; i++)
        count += membership_alive(m, i, now_ns) && !membership_alive_and_synced(m, i, now_ns);
    return count;
}

/* No store is left that could still come: as many members as the chain has are here, each with one that is
 * worth nothing, so there is no place from which another could come back. Gives one of them, always the same
 * as long as it is there. */
static const struct known *one_without_store(struct mob_membership *m, int64_t now_ns)
{
    const struct known *first = NULL;
    uint32_t count = left_behind(m, now_ns), needed = m->options.replicas;
    if (needed < m->config.count)
        needed = m->config.count;
    for (uint32_t i = 0; i < m->known_count; i++) {
        const struct known *k = &m->known[i];
        if (!is_back(m, k, now_ns))
            continue;
        if (k->report.stored_synced != 0)
            return NULL;
        if (first == NULL || k->report.member < first->report.member)
            first = k;
        count++;
    }
    return count >= needed ? first : NULL;
}

/* How far this master, which may be younger than the chain, knows that it had come. */
static uint64_t furthest_heard(const struct mob_membership *m)
{
    uint64_t seq = 0;
    for (uint32_t i = 0; i < m->known_count; i++)
        if (m->known[i].report.applied > seq)
            seq = m->known[i].report.applied;
    return seq;
}

/* Answered by a member that comes back with a store, as if it had been left out before. */
static void begin_anew(struct mob_membership *m, int64_t now_ns)
{
    const struct known *k = one_without_store(m, now_ns);
    if (k == NULL || now_ns - m->anew_ns < BEGIN_ANEW_AGAIN_NS)
        return;
    m->anew_ns = now_ns;
    (void)membership_push(m,
        &(struct mob_membership_action){.type = MOB_MEMBERSHIP_BEGIN_ANEW,
            .member = k->report.member,
            .seq = furthest_heard(m),
            .config = m->config});
}

/* `best`: of those of the newest configuration. */
static enum mob_membership_wait waits_for(struct mob_membership *m, const struct known *best, int64_t now_ns)
{
    if (best != NULL || one_was_here(m, now_ns))
        return MOB_MEMBERSHIP_WAITS_FOR_OTHERS;
    return best_of_others(m, now_ns) != NULL ? MOB_MEMBERSHIP_WAITS_FOR_A_WORD
                                             : MOB_MEMBERSHIP_WAITS_FOR_A_STORE;
}

/* After everything died: all of the last configuration have come back, or gone on waiting is of no use. */
static void decide_start(struct mob_membership *m, int64_t now_ns)
{
    if (m->died_ns == 0) {
        m->died_ns = now_ns;
        m->anew_ns = 0;
        m->said_waits = 0;
    }
    uint32_t missing;
    const struct known *best = best_of_configuration(m, now_ns, &missing), *begins = best;
    bool waited = now_ns - m->died_ns >= m->options.gather_ns;
    bool given_up = waited && m->options.start_without_all;
    if (begins == NULL && given_up && !one_was_here(m, now_ns))
        begins = best_of_others(m, now_ns);
    if (begins == NULL || (missing > 0 && !given_up)) {
        if (waited)
            say_waits(m, waits_for(m, best, now_ns), missing, best);
        if (given_up && m->waits == MOB_MEMBERSHIP_WAITS_FOR_A_STORE)
            begin_anew(m, now_ns);
        return;
    }
    struct mob_gcs_config next = next_config(m);
    if (next.epoch <= begins->report.stored_epoch) /* of a store that began anew */
        next.epoch = begins->report.stored_epoch + 1;
    next.start = 1;
    next.started = next.epoch;
    config_add(&next, begins->report.member);
    install(m, &next);
}

/* One that rests and was told to hurry may not have heard it: once more, while there is time to answer. */
static void remind(struct mob_membership *m, const struct known *k, int64_t now_ns)
{
    if (k->report.pause_ns > 0)
        (void)membership_push(m,
            &(struct mob_membership_action){
                .type = MOB_MEMBERSHIP_HURRY, .member = k->report.member, .heard_ns = now_ns});
}

/* Noted well before the verdict, so that the others' next heartbeats can show that they lived after it. */
static void doubt(struct mob_membership *m, int64_t now_ns)
{
    for (uint32_t i = 0; i < m->config.count; i++) {
        struct known *k = membership_find(m, m->config.members[i]);
        if (k == NULL)
            continue;
        bool quiet = membership_silence_ns(m, k, now_ns) >= m->options.suspicion_ns / 2;
        if (!quiet && !membership_dead(m, i, now_ns)) {
            k->doubted_ns = 0;
        } else if (k->doubted_ns == 0) {
            k->doubted_ns = now_ns;
            remind(m, k, now_ns);
        }
        if (k->doubted_ns != 0)
            membership_hurry(m, k->report.member, now_ns);
    }
}

static void name_stalled(struct mob_membership *m, int64_t now_ns)
{
    for (uint32_t i = 0; i < m->config.count; i++) {
        if (!membership_stalled(m, i, now_ns))
            continue;
        const struct known *k = membership_find(m, m->config.members[i]);
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
    bool on_disk = !MOB_RULE(EVICT_DISK), alive_since = true;
    for (uint32_t i = 0; i < m->config.count; i++) {
        const struct known *k = membership_find(m, m->config.members[i]);
        if (membership_dead(m, i, now_ns)) {
            if (k != NULL && k->doubted_ns > doubted_ns)
                doubted_ns = k->doubted_ns;
            continue;
        }
        head = head < i ? head : i;
        on_disk = on_disk || (membership_alive_and_synced(m, i, now_ns) && k->report.synced_on_disk != 0);
        config_add(&next, m->config.members[i]);
    }
    if (next.count == m->config.count)
        return false;
    for (uint32_t i = 0; i < next.count; i++) {
        const struct known *k = membership_find(m, next.members[i]);
        alive_since = alive_since && k != NULL && k->report.heard_ns >= doubted_ns;
    }
    if (next.count > 0 && alive_since && on_disk && membership_alive_and_synced(m, head, now_ns)) {
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
        const struct known *k = membership_find(m, m->config.members[i]);
        bool settled = k != NULL && k->report.epoch == m->config.epoch && k->report.synced_on_disk != 0 &&
            k->report.state == MOB_CHAIN_SERVING;
        if (!settled)
            return;
    }
    const struct mob_member_report *tail =
        &membership_find(m, m->config.members[m->config.count - 1])->report;
    const struct known *joiner = membership_find(m, tail->joiner);
    bool ready = tail->joiner != 0 && tail->joiner_lag < m->options.lag_max && joiner != NULL &&
        joiner->report.state == MOB_CHAIN_JOINING && membership_heard(m, joiner, now_ns);
    if (!ready)
        return;
    struct mob_gcs_config next = m->config;
    next.epoch++;
    next.term = m->term;
    next.start = 0;
    config_add(&next, joiner->report.member);
    install(m, &next);
}

void membership_decide(struct mob_membership *m, int64_t now_ns)
{
    if (!m->active || m->pending.epoch != 0)
        return;
    if (m->config.epoch == 0) {
        decide_first(m, now_ns);
        return;
    }
    if (!membership_chain_lives(m, now_ns)) {
        decide_start(m, now_ns);
        return;
    }
    m->died_ns = 0;
    m->waits = MOB_MEMBERSHIP_WAITS_NOT;
    doubt(m, now_ns);
    if (!decide_eviction(m, now_ns))
        decide_append(m, now_ns);
}
