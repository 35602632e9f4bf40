/* What the master decides about the nodes whose home is its shard (GCS.md "Node logs and the cut"), as a pure
 * state machine: which incarnations live, whose log is to be sealed, who gets the next one.
 *
 * A node enrolls and then beats. One that is silent for `silence_ns`, or that says goodbye, is dead; so is
 * one whose node has started again, when its link was closed, or when this master has never heard it and does
 * not soon. When it beats after that, there are two processes under one name, and the living holder of the
 * name keeps it: the other is refused. That a node is dead is recorded in the master's table first, by
 * compare-and-set under its term (so two masters cannot both decide), then its log is sealed at its home
 * shard, then the cut is recorded, and only then the next incarnation of that node is given out. So at any
 * moment a next master can go on where this one stopped, a chain that starts again after everything died
 * knows all seals (mob_node_watch_seals), and no two incarnations of one node are live. A node that was
 * declared dead wrongly hears so when it beats, and from its home shard; its log takes nothing any more,
 * whatever it believes.
 *
 *            enroll            NOTE dead      SEAL, cut        NOTE sealed
 *   (none) ─────────► LIVE ───────────► DEAD ────────► (cut known) ────────► SEALED
 *
 *   mob_node_watch_begin(w, logs, count, now);            // active, and the table has been read
 *   over = mob_node_watch_on_beat(w, &beat, now);
 *   mob_node_watch_on_enroll(w, &log, token, now);
 *   mob_node_watch_on_tick(w, now);                       // at least every tick_ns
 *   while (mob_node_watch_next(w, &action)) ...
 *
 * Time is the master's own monotonic clock. One owner, no locks; bounded by MOB_NODE_LOGS_MAX logs and
 * MOB_NODE_ENROLLING_MAX nodes that wait.
 */
#ifndef MOB_GCS_CHAIN_NODE_WATCH_H
#define MOB_GCS_CHAIN_NODE_WATCH_H

#include <stdbool.h>

#include "common/wire/gcs_peer.h"

/* Live ones, those being sealed, and the newest sealed ones. What is older was durable long ago. */
#define MOB_NODE_LOGS_MAX MOB_GCS_SEALS_MAX
#define MOB_NODE_ENROLLING_MAX 16u
#define MOB_NODE_SILENCE_NS (3 * 1000000000ll)
#define MOB_NODE_SILENCE_MIN_NS (1 * 1000000000ll) /* five beats */
#define MOB_NODE_BEAT_NS (100 * 1000000ll) /* a node beats at least each second such time (node_life.h) */
/* A holder of a name whom this master has never heard, nor so long after another start asked for it, is not
 * there. */
#define MOB_NODE_CHALLENGE_NS (10 * MOB_NODE_BEAT_NS)

/* A row of the table. */
enum mob_node_log_state {
    MOB_NODE_LOG_NONE = 0, /* not there */
    MOB_NODE_LOG_LIVE = 1,
    MOB_NODE_LOG_DEAD = 2, /* decided; its log is being sealed */
    MOB_NODE_LOG_SEALED = 3
};
struct mob_node_log {
    uint64_t incarnation;
    uint64_t
        start; /* random number of one start of the node's process: asked twice, it gets one incarnation */
    int64_t pid;
    uint64_t cut; /* of a sealed one: its blocks */
    uint32_t state; /* enum mob_node_log_state */
    uint32_t zero;
    char node[MOB_GCS_NAME_MAX + 1];
};

enum mob_node_watch_action_type {
    MOB_NODE_WATCH_NOTE = 1, /* record `log` where `old_state` is recorded now */
    MOB_NODE_WATCH_READ, /* read all logs of this shard from the table */
    MOB_NODE_WATCH_SEAL, /* log.incarnation, at the chain */
    MOB_NODE_WATCH_REGISTER, /* log.node, at the chain: a new incarnation of it */
    /* To `token`: log.incarnation is its; or why not: MOB_SEALED, this start was declared dead; MOB_EXISTS,
     * log is a living one under the same name. */
    MOB_NODE_WATCH_ENROLLED,
    /* log.pid was declared dead a while ago, and nobody has taken its place; `again` and again */
    MOB_NODE_WATCH_END
};
struct mob_node_watch_action {
    enum mob_node_watch_action_type type;
    uint32_t old_state;
    uint64_t token;
    enum mob_status status;
    bool again;
    struct mob_node_log log;
};
struct mob_node_watch_options {
    int64_t silence_ns; /* well above the time between two beats */
    int64_t tick_ns;
    int64_t end_after_ns; /* its process may end by itself before that */
};

struct mob_node_watch;
/* NULL when out of memory. Passive until begin. */
struct mob_node_watch *mob_node_watch_create(const struct mob_node_watch_options *options);
void mob_node_watch_destroy(struct mob_node_watch *w);
/* This master is the active one, and the table holds these. */
void mob_node_watch_begin(
    struct mob_node_watch *w, const struct mob_node_log *logs, uint32_t count, int64_t now_ns);
/* It is not, or not any more: what waits is forgotten, nodes ask again. */
void mob_node_watch_end(struct mob_node_watch *w);

/* True: that incarnation is over, and its node is to be told. `leaving`: it ends, and its log with it. */
bool mob_node_watch_on_beat(struct mob_node_watch *w, uint64_t incarnation, bool leaving, int64_t now_ns);
/* The link over which it beat was closed: a hint that counts until it beats again. */
void mob_node_watch_on_gone(struct mob_node_watch *w, uint64_t incarnation, int64_t now_ns);
/* A start of a node wants its incarnation; `log`: node, start and pid. Answered by ENROLLED, to the newest
 * token that asked for it. MOB_QUEUE_FULL: too many wait or live. */
MOB_MUST_USE enum mob_status mob_node_watch_on_enroll(
    struct mob_node_watch *w, const struct mob_node_log *log, uint64_t token, int64_t now_ns);
void mob_node_watch_on_tick(struct mob_node_watch *w, int64_t now_ns);
/* Answer to NOTE. Anything but MOB_OK: READ follows until it is known what the table says. */
void mob_node_watch_on_noted(struct mob_node_watch *w, enum mob_status status, int64_t now_ns);
/* Answer to READ, which comes now and then by itself. */
void mob_node_watch_on_logs(
    struct mob_node_watch *w, const struct mob_node_log *logs, uint32_t count, int64_t now_ns);
/* Answer to SEAL. MOB_NOT_FOUND: the chain has no such log (it was never used, and is lost): cut 0. Else it
 * is asked again. */
void mob_node_watch_on_cut(
    struct mob_node_watch *w, uint64_t incarnation, enum mob_status status, uint64_t cut, int64_t now_ns);
/* Answer to REGISTER. */
void mob_node_watch_on_registered(
    struct mob_node_watch *w, const char *node, enum mob_status status, uint64_t incarnation, int64_t now_ns);
bool mob_node_watch_next(struct mob_node_watch *w, struct mob_node_watch_action *action_out);

/* No record is under way: what is in memory is what is in the table. */
bool mob_node_watch_settled(const struct mob_node_watch *w);
/* The newest incarnation that the table has; 0: none. */
uint64_t mob_node_watch_newest(const struct mob_node_watch *w);
/* All that is dead or sealed, with the cut where one is recorded (else UINT64_MAX): for a chain that starts
 * again. At most MOB_GCS_SEALS_MAX. */
uint32_t mob_node_watch_seals(const struct mob_node_watch *w, struct mob_gcs_seal *seals_out);

#endif
