/* Who is there, by what members say and by what they show that they heard. */
#include "gcs/chain/chain_rules.h"
#include "gcs/chain/membership_inner.h"

struct known *membership_find(const struct mob_membership *m, uint64_t member)
{
    for (uint32_t i = 0; i < m->known_count; i++)
        if (m->known[i].report.member == member)
            return (struct known *)&m->known[i];
    return NULL;
}

/* The newest life of the member at this place of the configuration that is not that member: it has restarted.
 */
struct known *membership_next_life(struct mob_membership *m, uint32_t place)
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

int64_t membership_silence_ns(const struct mob_membership *m, const struct known *k, int64_t now_ns)
{
    return now_ns - matters_from(m, k, k == NULL ? 0 : k->heard_ns);
}

static bool silent(const struct mob_membership *m, const struct known *k, int64_t now_ns)
{
    return membership_silence_ns(m, k, now_ns) >= m->options.suspicion_ns;
}

/* One that speaks and hears nothing is of no more use than one that is silent. */
static bool deaf(const struct mob_membership *m, const struct known *k, int64_t now_ns)
{
    return now_ns - matters_from(m, k, k->hears_ns) >= m->options.suspicion_ns;
}

bool membership_heard(const struct mob_membership *m, const struct known *k, int64_t now_ns)
{
    return k != NULL && k->heard_ns >= m->begun_ns && !silent(m, k, now_ns);
}

/* It is there, but something between it and its predecessor is not: it waits for what never comes, and the
 * chain with it. The first such one only: those behind it wait for it, and may go on when it has left. And
 * only beside a predecessor that lives: what one that is dead said last may have been the same, and who waits
 * for that one may be all that is left. */
bool membership_stalled(struct mob_membership *m, uint32_t place, int64_t now_ns)
{
    if (m->options.stall_ns == 0 || place == 0 || !MOB_RULE(STALLED))
        return false;
    const struct known *k = membership_find(m, m->config.members[place]),
                       *before = membership_find(m, m->config.members[place - 1]);
    return k != NULL && membership_heard(m, before, now_ns) && membership_next_life(m, place - 1) == NULL &&
        before->report.state == MOB_CHAIN_SERVING && before->report.epoch == m->config.epoch &&
        k->report.epoch == m->config.epoch && k->report.state == MOB_CHAIN_SYNCING &&
        now_ns - k->moved_ns >= m->options.stall_ns;
}

/* Dead for sure: it says so, or its store already serves its next life. */
bool membership_dead(struct mob_membership *m, uint32_t place, int64_t now_ns)
{
    const struct known *k = membership_find(m, m->config.members[place]);
    if (k != NULL && k->report.state == MOB_CHAIN_EVICTED)
        return true;
    return membership_next_life(m, place) != NULL || silent(m, k, now_ns) ||
        (k != NULL && deaf(m, k, now_ns)) || membership_stalled(m, place, now_ns);
}

bool membership_alive(struct mob_membership *m, uint32_t place, int64_t now_ns)
{
    return membership_heard(m, membership_find(m, m->config.members[place]), now_ns) &&
        !membership_dead(m, place, now_ns);
}

bool membership_alive_and_synced(struct mob_membership *m, uint32_t place, int64_t now_ns)
{
    return membership_alive(m, place, now_ns) &&
        membership_find(m, m->config.members[place])->report.synced != 0;
}

bool membership_chain_lives(struct mob_membership *m, int64_t now_ns)
{
    for (uint32_t i = 0; i < m->config.count; i++)
        if (membership_alive_and_synced(m, i, now_ns))
            return true;
    return false;
}
