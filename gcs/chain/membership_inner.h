/* The parts of a master's decisions about a chain: what it is told and tells (membership.c), who is there
 * (membership_alive.c), and which configuration comes next (membership_decide.c). Internal to gcs/chain.
 */
#ifndef MOB_GCS_CHAIN_MEMBERSHIP_INNER_H
#define MOB_GCS_CHAIN_MEMBERSHIP_INNER_H

#include "gcs/chain/membership.h"

#define ACTIONS_MAX 128u

struct known {
    struct mob_member_report report;
    int64_t heard_ns;
    int64_t hears_ns; /* when it last showed that it had heard something new of this master */
    int64_t doubted_ns; /* silent, or known to be dead, since about then; 0 = it is not */
    int64_t hurried_ns; /* when it was last told to hurry; 0 = never */
    int64_t moved_ns; /* when it last came to another state, epoch or position */
    int64_t answered_ns; /* 0: never */
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
    int64_t anew_ns; /* when somebody was last told to begin anew; 0: not since everything died */
    enum mob_membership_wait waits; /* after everything died */
    uint32_t said_waits; /* bits: which of them were said since */
    struct known known[MOB_MEMBERSHIP_MEMBERS_MAX];
    uint32_t known_count;
    struct mob_membership_action actions[ACTIONS_MAX];
    uint32_t action_count, action_next;
};

static inline bool in_config(const struct mob_gcs_config *config, uint64_t member)
{
    for (uint32_t i = 0; i < config->count; i++)
        if (config->members[i] == member)
            return true;
    return false;
}

/* membership.c. Dropped when there are too many actions: a member reports again, a decision is made again at
 * the next tick; false. */
bool membership_push(struct mob_membership *m, const struct mob_membership_action *action);
/* Tells each of the chain to hurry that is quiet with leave, and was not told since it spoke, but for one. */
void membership_hurry(struct mob_membership *m, uint64_t but, int64_t now_ns);

static inline int64_t membership_beat_ns(const struct mob_membership *m)
{
    return m->options.suspicion_ns / MOB_MEMBERSHIP_BEATS;
}

/* membership_alive.c. `place`: in the present configuration. NULL: nothing is known of it. */
struct known *membership_find(const struct mob_membership *m, uint64_t member);
/* The newest life of the member at this place that is not that member: it has restarted. */
struct known *membership_next_life(struct mob_membership *m, uint32_t place);
int64_t membership_silence_ns(const struct mob_membership *m, const struct known *k, int64_t now_ns);
bool membership_heard(const struct mob_membership *m, const struct known *k, int64_t now_ns);
bool membership_stalled(struct mob_membership *m, uint32_t place, int64_t now_ns);
bool membership_dead(struct mob_membership *m, uint32_t place, int64_t now_ns);
bool membership_alive(struct mob_membership *m, uint32_t place, int64_t now_ns);
bool membership_alive_and_synced(struct mob_membership *m, uint32_t place, int64_t now_ns);
bool membership_chain_lives(struct mob_membership *m, int64_t now_ns);

/* membership_decide.c. Gives at most one INSTALL. */
void membership_decide(struct mob_membership *m, int64_t now_ns);

#endif
