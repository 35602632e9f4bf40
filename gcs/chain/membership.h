/* What the master decides about one shard's chain (GCS.md "Master"), as a pure state machine.
 *
 * Members report themselves; this says which configuration is to be made, who hears of it, who holds the read
 * lease and who is to join. It never promotes an unsynced member and never evicts the last synced one. Making
 * a configuration is a compare-and-set in the table of epochs, which the owner does (gcs/master, tests/sim)
 * and tells how it ended; two masters cannot make the same epoch, and one whose term is over makes none.
 *
 *   mob_membership_begin(m, term, &newest, now);               // became the active master
 *   mob_membership_on_report(m, &report, lease_ok, now);       // from a member
 *   mob_membership_on_tick(m, now);                            // after mob_membership_pause_ns(m)
 *   while (mob_membership_next(m, &action)) ...
 *
 * Time is the master's own monotonic clock. One owner, no locks; bounded by MOB_MEMBERSHIP_MEMBERS_MAX,
 * beyond which reports of others are not heard until older ones are forgotten.
 */
#ifndef MOB_GCS_CHAIN_MEMBERSHIP_H
#define MOB_GCS_CHAIN_MEMBERSHIP_H

#include "common/wire/gcs_link.h"
#include "gcs/chain/chain.h"

#define MOB_MEMBERSHIP_MEMBERS_MAX 32u
#define MOB_MEMBERSHIP_LAG_MAX 100u /* entries that a joiner may lack when it is appended */

/* A member with nothing to do need not speak each 2 ms: it says with each heartbeat how long it will be
 * quiet, and its silence counts from the end of that time. As soon as one has something to do it says so, and
 * the others are told to hurry: from then on the silence of all counts again, so whoever waits for a dead
 * member waits no longer than if all had been busy. */
#define MOB_MEMBERSHIP_PAUSE_MAX_NS (250 * 1000000ll)
#define MOB_MEMBERSHIP_BEATS \
    6 /* heartbeats in the time after which silence is death: one each 2 ms of 12 \
       */

/* A heartbeat. The read lease counts from sent_ns, so it is taken before the report is made. */
struct mob_member_report {
    uint64_t member, epoch;
    uint32_t state; /* enum mob_chain_state */
    uint32_t synced; /* mob_chain_synced() */
    uint32_t busy; /* somebody may wait for this chain */
    int64_t pause_ns; /* it may be silent for so long, without that meaning anything; 0: at the full rate */
    uint64_t synced_on_disk; /* and its disk says so, too: else, were it left alone and lost its power, nobody
                                would have what the others had on their disks */
    int64_t sent_ns; /* the member's clock; comes back with the lease */
    int64_t heard_ns; /* from the last answer that it got from this master: the master's clock; 0 = none */
    uint64_t applied, committed;
    uint64_t joiner, joiner_lag; /* of a tail: mob_chain_join() */
    uint64_t stored_epoch, stored_seq; /* of an IDLE member: the newest entry that it found in its store */
    uint64_t stored_synced; /* and whether that was the state of a synced member */
};

enum mob_membership_action_type {
    MOB_MEMBERSHIP_INSTALL = 1, /* insert `config`, if its epoch is new and the term is still this one */
    MOB_MEMBERSHIP_READ, /* read the newest configuration */
    MOB_MEMBERSHIP_PUSH, /* tell `member` the configuration */
    MOB_MEMBERSHIP_ANSWER, /* to `member`: heard_ns, and if `lease` the read lease for sent_ns. While all is
                              even, to every other heartbeat */
    MOB_MEMBERSHIP_JOIN, /* `member` is to be a new one: config.epoch is the newest */
    MOB_MEMBERSHIP_HURRY, /* `member` is to report at once, and at the full rate for a while; heard_ns: now */
    /* No store of the chain is left, and a person gave them up: `member`, whose store is worth nothing, is to
     * make one that is empty, behind all that was ever given out (beginning.h), and to come back with it as
     * its next life. `seq`: the chain had come at least so far. Said again and again until one is back. */
    MOB_MEMBERSHIP_BEGIN_ANEW
};
struct mob_membership_action {
    enum mob_membership_action_type type;
    uint64_t member;
    bool lease;
    int64_t sent_ns, heard_ns;
    uint64_t seq;
    struct mob_gcs_config config;
};

struct mob_membership_options {
    uint32_t replicas; /* length of the chain */
    int64_t suspicion_ns; /* at least lease + 2 ms */
    int64_t lease_ns;
    int64_t tick_ns; /* while somebody may fall silent */
    uint64_t
        lag_max; /* entries that a joiner lacks less than when it is appended; 0: MOB_MEMBERSHIP_LAG_MAX */
    int64_t stall_ns; /* a member of the chain that speaks, but gets no further for so long on its way to
                         serving, is left out, so that another can take its place; 0: never */
    int64_t pause_max_ns; /* longest pause that a member announces; 0: MOB_MEMBERSHIP_PAUSE_MAX_NS */
    int64_t tick_slow_ns; /* while all have said that they will be quiet, or nobody can be left out */
    int64_t reread_ns; /* how often to look for a configuration that seemed lost and came to the table late */
    int64_t gather_ns; /* after everything died: wait so long for all of the last configuration */
    bool start_without_all; /* then start with the best that is there: what only others had is lost. When as
                               many members as the chain has are there, and none has a store, with nothing */
};
#define MOB_MEMBERSHIP_SUSPICION_NS (12 * 1000000ll)
#define MOB_MEMBERSHIP_STALL_NS (5 * 1000000000ll)

struct mob_membership;
/* NULL when out of memory. Passive until begin. */
struct mob_membership *mob_membership_create(const struct mob_membership_options *options);
void mob_membership_destroy(struct mob_membership *m);
/* This master is the active one of `term`; `newest` is what the table holds (epoch 0: nothing). */
void mob_membership_begin(
    struct mob_membership *m, uint64_t term, const struct mob_gcs_config *newest, int64_t now_ns);
/* It is not, or not any more. */
void mob_membership_end(struct mob_membership *m);
const struct mob_gcs_config *mob_membership_config(const struct mob_membership *m);
/* Others may hear of that configuration: no old lease stands against it. */
bool mob_membership_may_tell(const struct mob_membership *m);

/* `lease_ok`: the master's own lease is fresh, so that nobody else can be one. */
void mob_membership_on_report(
    struct mob_membership *m, const struct mob_member_report *report, bool lease_ok, int64_t now_ns);
void mob_membership_on_tick(struct mob_membership *m, int64_t now_ns);
/* Answer to INSTALL. MOB_OK: it is in the table. MOB_CONFLICT: it is not. Anything else: unknown, READ
 * follows until it is known. */
void mob_membership_on_installed(struct mob_membership *m, enum mob_status status, int64_t now_ns);
/* Answer to READ, when there is one. READ comes now and then by itself. */
void mob_membership_on_newest(struct mob_membership *m, const struct mob_gcs_config *newest, int64_t now_ns);
/* After everything died, when the time for coming back is over: what is waited for, which its log says with
 * what a person can do. */
enum mob_membership_wait {
    MOB_MEMBERSHIP_WAITS_NOT = 0,
    MOB_MEMBERSHIP_WAITS_FOR_OTHERS, /* a member of the newest configuration is here with its store; others of
                                        it are not */
    MOB_MEMBERSHIP_WAITS_FOR_A_WORD, /* none is, but one that had been left out: start_without_all begins
                                        there */
    MOB_MEMBERSHIP_WAITS_FOR_A_STORE /* nobody who is here has one: start_without_all begins with nothing */
};
enum mob_membership_wait mob_membership_waits(const struct mob_membership *m);
/* How long the owner may wait until the next tick, if nothing comes. */
int64_t mob_membership_pause_ns(struct mob_membership *m);
/* All of the chain serve, and speak at the full rate: what comes until the next tick may be read with it, all
 * at once. Each wake of a process costs more than what it does then; and silence is noticed later by up to
 * the time between two heartbeats. As soon as one is late, nothing may wait any more. */
bool mob_membership_even(const struct mob_membership *m);
bool mob_membership_next(struct mob_membership *m, struct mob_membership_action *action_out);

/* ---- who is the master: a row {term, beat} in the database, by compare-and-set ---- */

struct mob_master_row {
    uint64_t term, beat;
};
/* The beat of a master that has stopped and said so: its leases are no longer than a suspicion, which the
 * next one counts from when it begins, so nobody waits for its row to stand still. */
#define MOB_MASTER_RELEASED ((1ull << 62))
enum mob_mastership_step {
    MOB_MASTERSHIP_WAIT = 0,
    MOB_MASTERSHIP_LOOK, /* read the row */
    MOB_MASTERSHIP_BEAT, /* set it to `next` if it is still `row` */
    MOB_MASTERSHIP_TAKE /* the same, as a new master */
};
struct mob_mastership {
    bool active, busy; /* busy: a step is under way */
    bool unsure; /* how the last set ended is not known */
    struct mob_master_row row, next;
    int64_t seen_ns; /* the row changed then, by this one's clock */
    int64_t sent_ns, fresh_ns; /* when the step under way, and the last beat that counted, were sent */
    int64_t step_ns;
    int64_t vain_ns; /* since then no look has brought the row; 0: the last one did */
};
struct mob_mastership_times {
    int64_t beat_ns; /* between beats, and looks of a standby */
    int64_t takeover_ns; /* a standby takes over when the row has not changed for so long */
    int64_t fresh_ns; /* leases are given only so long after a beat was sent; well below takeover */
};
#define MOB_MASTERSHIP_TIMES \
    ((struct mob_mastership_times){500 * 1000000ll, 3000 * 1000000ll, 2000 * 1000000ll})
/* What to do now; the owner does it and calls _on_row, _on_no_row or _on_set. */
enum mob_mastership_step mob_mastership_step(
    struct mob_mastership *m, const struct mob_mastership_times *times, int64_t now_ns);
/* Answer to LOOK. A row that nobody holds is taken with the next step, which is due at once. */
void mob_mastership_on_row(struct mob_mastership *m, const struct mob_master_row *row, int64_t now_ns);
/* The same, but the table did not answer. A standby looks again soon, and then less and less often. */
void mob_mastership_on_no_row(struct mob_mastership *m, int64_t now_ns);
/* MOB_OK: the row is `next`. MOB_CONFLICT: another took it. Else unknown. */
void mob_mastership_on_set(struct mob_mastership *m, enum mob_status status, int64_t now_ns);
/* How long there will be nothing to do, unless an answer comes; INT64_MAX: until then. */
int64_t mob_mastership_pause_ns(const struct mob_mastership *m, int64_t now_ns);
bool mob_mastership_fresh(
    const struct mob_mastership *m, const struct mob_mastership_times *times, int64_t now_ns);

#endif
