/* What a run counts, and how often each must occur in a thousand seeds for the simulation to mean anything.
 */
#ifndef MOB_TESTS_SIM_SIM_COVER_H
#define MOB_TESTS_SIM_SIM_COVER_H

/* A row that a run must not have more often: what was not checked. About three times what occurs. */
#define SIM_AT_MOST(n) (-(n))
/* About a third of what occurs, so that a path that stops occurring is noticed, and another sequence of
 * random numbers is not. Kinds of faults: name, minimum per 1,000 seeds. */
#define SIM_FAULTS(X) \
    X(KILL_MEMBER, "kill -9 of a member", 500) \
    X(POWER_MEMBER, "power cut of a member", 310) \
    X(WIPE_MEMBER, "its store restarted empty", 270) \
    X(PAUSE_MEMBER, "a member is stopped and goes on", 500) \
    X(CUT_ONE_WAY, "one-way partition", 300) \
    X(CUT_BOTH_WAYS, "full partition", 360) \
    X(ISOLATE, "a process loses all its links", 330) \
    X(POWER_ALL, "power cut of everything", 92) \
    X(KILL_ALL, "all members killed at once", 100) \
    X(KILL_MASTER, "kill -9 of a master", 270) \
    X(PAUSE_MASTER, "a master is stopped and goes on", 320) \
    X(PAUSE_DATABASE, "the database is stopped and goes on", 320) \
    X(KILL_CLIENT, "kill -9 of a client", 310) \
    X(PAUSE_CLIENT, "a client is stopped and goes on", 290) \
    X(STORM, "loss, doubling and reordering rise", 320)
enum sim_fault_kind {
#define SIM_FAULT_ENUM(name, text, minimum) SIM_FAULT_##name,
    SIM_FAULTS(SIM_FAULT_ENUM)
#undef SIM_FAULT_ENUM
        SIM_FAULT_KINDS
};

/* Everything else: name, what, minimum per 1,000 seeds. */
#define SIM_COVER(X) \
    X(IDLE_JOINING, "state idle -> joining", 1700) \
    X(IDLE_SYNCING, "state idle -> syncing", 400) \
    X(IDLE_COLLECTING, "state idle -> collecting", 370) \
    X(IDLE_SERVING, "state idle -> serving", 900) \
    X(JOINING_SYNCING, "state joining -> syncing", 860) \
    X(JOINING_EVICTED, "state joining -> evicted", 100) \
    X(JOINER_EVICTED, "a joiner that was taken in without its source, and ends", 45) \
    X(SYNCING_SERVING, "state syncing -> serving", 1600) \
    X(SYNCING_EVICTED, "state syncing -> evicted", 42) \
    X(COLLECTING_SERVING, "state collecting -> serving", 260) \
    X(COLLECTING_EVICTED, \
        "state collecting -> evicted (only beside its own next life: unit/gcs/chain/chain_join)", 0) \
    X(SERVING_SYNCING, "state serving -> syncing", 450) \
    X(SERVING_EVICTED, "state serving -> evicted (safe when wrong)", 200) \
    X(IDLE_EVICTED, "state idle -> evicted", 32) \
    X(MSG_UPD, "UPD received", 100000) \
    X(MSG_ACK, "ACK received", 89000) \
    X(MSG_SYNC, "SYNC received", 8400) \
    X(MSG_SYNCEND, "SYNCEND received", 1800) \
    X(MSG_POSITION, "POSITION received", 18000) \
    X(MSG_RESEND, "RESEND received", 3400) \
    X(MSG_READ, "READ received", 10000) \
    X(MSG_CONFIG, "CONFIG received", 120) \
    X(MSG_JOIN, "JOIN received", 22000) \
    X(MSG_SNAPSHOT, "SNAPSHOT received", 9200) \
    X(MSG_LOG, "LOG received", 52000) \
    X(MSG_JOINED, "JOINED received", 59000) \
    X(MSG_LEAVE, "LEAVE received", 6200) \
    X(MSG_PUT, "PUT received", 190000) \
    X(MSG_REPLY, "REPLY received", 110000) \
    X(MSG_NACK, "NACK received", 120000) \
    X(MSG_GAP, "GAP received", 8100) \
    X(MSG_EXPIRED, "EXPIRED received", 220) \
    X(MSG_ATTACH, "ATTACH received", 20000) \
    X(MSG_GET, "GET received", 110000) \
    X(MSG_REPORT, "heartbeat received by a master", 810000) \
    X(MSG_LEASE, "lease granted", 63000) \
    X(NET_LOST, "message lost", 58000) \
    X(NET_DOUBLED, "message doubled", 52000) \
    X(NET_REORDERED, "message overtaken", 67000) \
    X(NET_CORRUPTED, "frame corrupted, and refused", 340) \
    X(NET_CUT, "message into a cut link", 27000) \
    X(NET_MUTE, "message into a link that carries nothing until one of its ends starts again", 270000) \
    X(MUTED_SYNCING, "such a link to a member that waits for SYNCEND", 38) \
    X(MUTED_JOINING, "such a link to a joiner", 48) \
    X(STALLED_SYNCING, "left out because it got no further", 30) \
    X(STALLED_JOINING, "joiner that gave up", 52) \
    X(MUTED_LOG, "such a link to a joiner that has its snapshot", 60) \
    X(STALLED_LOG, "such a joiner that gave up", 11) \
    X(MISSED_CONFIG, "a member misses the configuration that takes it in, and its neighbour dies", 87) \
    X(DEAF_CLIENTS, "clients that hear nothing until a started chain is longer", 85) \
    X(DIES_BEFORE_STORE, "member dies before its store write", 23) \
    X(DIES_BEFORE_SEND, "member dies after apply, before it forwards", 65) \
    X(DIES_BEFORE_REPLY, "tail dies before its reply", 80) \
    X(DIES_BEFORE_OTHER, "member dies between other actions", 18) \
    X(HEAD_DIES, "head dies", 240) \
    X(MIDDLE_DIES, "middle dies", 82) \
    X(TAIL_DIES, "tail dies", 360) \
    X(SOLE_DIES, "sole member dies", 260) \
    X(JOINER_DIES, "joiner dies", 370) \
    X(SOURCE_DIES, "the member that gives the snapshot dies", 300) \
    X(EVICTIONS, "members evicted", 760) \
    X(FALSE_EVICTIONS, "evicted while alive", 200) \
    X(APPENDS, "joiners appended", 920) \
    X(STARTS, "chains started again after everything died", 380) \
    X(STARTS_HEARD_LATE, "clients that heard of that from a later configuration", 5) \
    X(COLLECTED_AGAIN, "requests put back after that", 6600) \
    X(COLLECT_ABSENT, "clients that did not answer then", 210) \
    X(LOSSES, "losses named", 220) \
    X(SEALS, "logs sealed", 430) \
    X(SEALED_LIVE, "logs sealed under a live node", 190) \
    X(EXPIRED_CLIENTS, "clients expired", 170) \
    X(DUPLICATES, "duplicates answered from the table", 35000) \
    X(OPENED_BEFORE, "clients that asked again for their id", 1600) \
    X(READS_LEASE, "reads answered under the lease", 28000) \
    X(READS_SOLE, "reads answered by a sole member", 17000) \
    X(READS_CHAIN, "reads answered through the chain", 8900) \
    X(READS_NO_LEASE, "reads refused for lack of the lease", 5600) \
    X(READS_LATE, "reads whose lease ended before the answer", 110) \
    X(TAKEOVERS, "a standby became master", 520) \
    X(BEATS_FAST, "heartbeats at the full rate", 410000) \
    X(BEATS_SLOW, "heartbeats of members at rest", 4300) \
    X(HURRIED, "members at rest told to hurry", 2400) \
    X(TWO_MASTERS, "two masters believed themselves active", 190) \
    X(INSERT_CONFLICTS, "configurations refused by compare-and-set", 48) \
    X(INSERT_UNKNOWN, "configurations with an unknown outcome", 110) \
    X(MSG_SUB, "SUB received", 28000) \
    X(MSG_BLOCK, "BLOCK received in its order", 77000) \
    X(MSG_RESYNC, "RESYNC received in its order", 230) \
    X(MSG_STATS, "a flusher asked what was flushed", 3600) \
    X(STREAMS_MOVED, "streams that went on at another member", 1300) \
    X(STREAMS_BROKEN, "streams broken by the network, and resumed", 2300) \
    X(STREAMS_VOID, "streams told that what they gave is void", 3) \
    X(STREAMS_BEHIND, "streams told that what they lack was flushed", 230) \
    X(SESSIONS, "sessions of a flusher", 1700) \
    X(BATCHES, "batches written, and the watermark moved", 3300) \
    X(WATERMARK_CONFLICTS, "flushers that were overtaken", 820) \
    X(FLUSHES, "FLUSH that dropped blocks", 5500) \
    X(FLUSHES_LATE, "FLUSH that came behind another flusher's", 75) \
    X(FLUSHER_DIES, "a flusher dies between COMMIT and FLUSH", 24) \
    X(TASKS_ENDED, "tasks seen to end", 6400) \
    X(TASKS_MOVED, "unfinished tasks that got a new owner", 510) \
    X(TASKS_TAINTED, "runs whose tasks are not checked: something was named as lost", SIM_AT_MOST(115)) \
    X(OWNER_CONFLICTS, "a new owner was too late", 16) \
    X(RECOVERIES, "recoveries of a log begun", 480) \
    X(RECOVERIES_TAKEN, "taken over from a dead recoverer", 130) \
    X(RECOVERER_DIES, "a recoverer dies, or its log is sealed", 125) \
    X(RECOVERED, "logs recovered", 220) \
    X(CONDITIONS_FAILED, "compare-and-set of a key refused", 16000) \
    X(CHECKS_DONE, "histories of a key checked", 4000) \
    X(CHECKS_TAINTED, "histories not checked: some of it was named as lost", SIM_AT_MOST(200)) \
    X(CHECKS_GIVEN_UP, "histories with too many possible orders", SIM_AT_MOST(4)) \
    X(LARGE_VALUES, "values that the tables do not hold", 2900)
enum sim_cover {
#define SIM_COVER_ENUM(name, text, minimum) SIM_##name,
    SIM_COVER(SIM_COVER_ENUM)
#undef SIM_COVER_ENUM
        SIM_COVER_FAULT_FIRST,
    SIM_COVERS = SIM_COVER_FAULT_FIRST + SIM_FAULT_KINDS
};
struct sim_cover_row {
    const char *name, *text;
    double minimum; /* in 1,000 seeds; below 0: at most so many */
};
extern const struct sim_cover_row sim_cover_rows[SIM_COVERS];

#endif
