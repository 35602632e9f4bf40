/* What a run counts, and how often each must occur in a thousand seeds for the simulation to mean anything.
 */
#ifndef MOB_TESTS_SIM_SIM_COVER_H
#define MOB_TESTS_SIM_SIM_COVER_H

/* Kinds of faults: name, minimum per 1,000 seeds. */
#define SIM_FAULTS(X) \
    X(KILL_MEMBER, "kill -9 of a member", 500) \
    X(POWER_MEMBER, "power cut of a member", 200) \
    X(WIPE_MEMBER, "its store restarted empty", 100) \
    X(PAUSE_MEMBER, "a member is stopped and goes on", 500) \
    X(CUT_ONE_WAY, "one-way partition", 300) \
    X(CUT_BOTH_WAYS, "full partition", 300) \
    X(ISOLATE, "a process loses all its links", 100) \
    X(POWER_ALL, "power cut of everything", 50) \
    X(KILL_ALL, "all members killed at once", 50) \
    X(KILL_MASTER, "kill -9 of a master", 100) \
    X(PAUSE_MASTER, "a master is stopped and goes on", 100) \
    X(PAUSE_DATABASE, "the database is stopped and goes on", 100) \
    X(KILL_CLIENT, "kill -9 of a client", 100) \
    X(PAUSE_CLIENT, "a client is stopped and goes on", 100) \
    X(STORM, "loss, doubling and reordering rise", 100)
enum sim_fault_kind {
#define SIM_FAULT_ENUM(name, text, minimum) SIM_FAULT_##name,
    SIM_FAULTS(SIM_FAULT_ENUM)
#undef SIM_FAULT_ENUM
        SIM_FAULT_KINDS
};

/* Everything else: name, what, minimum per 1,000 seeds. */
#define SIM_COVER(X) \
    X(IDLE_JOINING, "state idle -> joining", 1000) \
    X(IDLE_SYNCING, "state idle -> syncing", 400) \
    X(IDLE_COLLECTING, "state idle -> collecting", 100) \
    X(IDLE_SERVING, "state idle -> serving", 900) \
    X(JOINING_SYNCING, "state joining -> syncing", 800) \
    X(JOINING_EVICTED, "state joining -> evicted", 10) \
    X(SYNCING_SERVING, "state syncing -> serving", 1500) \
    X(SYNCING_EVICTED, "state syncing -> evicted", 5) \
    X(COLLECTING_SERVING, "state collecting -> serving", 100) \
    X(COLLECTING_EVICTED, "state collecting -> evicted", 0) \
    X(SERVING_SYNCING, "state serving -> syncing", 200) \
    X(SERVING_EVICTED, "state serving -> evicted (safe when wrong)", 200) \
    X(IDLE_EVICTED, "state idle -> evicted", 0) \
    X(MSG_UPD, "UPD received", 10000) \
    X(MSG_ACK, "ACK received", 10000) \
    X(MSG_SYNC, "SYNC received", 1000) \
    X(MSG_SYNCEND, "SYNCEND received", 1000) \
    X(MSG_POSITION, "POSITION received", 1000) \
    X(MSG_RESEND, "RESEND received", 500) \
    X(MSG_READ, "READ received", 100) \
    X(MSG_CONFIG, "CONFIG received", 50) \
    X(MSG_JOIN, "JOIN received", 1000) \
    X(MSG_SNAPSHOT, "SNAPSHOT received", 1000) \
    X(MSG_LOG, "LOG received", 500) \
    X(MSG_JOINED, "JOINED received", 1000) \
    X(MSG_LEAVE, "LEAVE received", 1) \
    X(MSG_PUT, "PUT received", 10000) \
    X(MSG_REPLY, "REPLY received", 10000) \
    X(MSG_NACK, "NACK received", 500) \
    X(MSG_GAP, "GAP received", 100) \
    X(MSG_EXPIRED, "EXPIRED received", 20) \
    X(MSG_ATTACH, "ATTACH received", 1000) \
    X(MSG_GET, "GET received", 2000) \
    X(MSG_REPORT, "heartbeat received by a master", 10000) \
    X(MSG_LEASE, "lease granted", 5000) \
    X(NET_LOST, "message lost", 5000) \
    X(NET_DOUBLED, "message doubled", 2000) \
    X(NET_REORDERED, "message overtaken", 2000) \
    X(NET_CORRUPTED, "frame corrupted, and refused", 20) \
    X(NET_CUT, "message into a cut link", 2000) \
    X(NET_MUTE, "message into a link that carries nothing until its end starts again", 1000) \
    X(MUTED_SYNCING, "such a link to a member that waits for SYNCEND", 20) \
    X(MUTED_JOINING, "such a link to a joiner", 20) \
    X(STALLED_SYNCING, "left out because it got no further", 10) \
    X(STALLED_JOINING, "joiner that gave up", 10) \
    X(DIES_BEFORE_STORE, "member dies before its store write", 20) \
    X(DIES_BEFORE_SEND, "member dies after apply, before it forwards", 20) \
    X(DIES_BEFORE_REPLY, "tail dies before its reply", 20) \
    X(DIES_BEFORE_OTHER, "member dies between other actions", 5) \
    X(HEAD_DIES, "head dies", 200) \
    X(MIDDLE_DIES, "middle dies", 50) \
    X(TAIL_DIES, "tail dies", 200) \
    X(SOLE_DIES, "sole member dies", 100) \
    X(JOINER_DIES, "joiner dies", 50) \
    X(SOURCE_DIES, "the member that gives the snapshot dies", 30) \
    X(EVICTIONS, "members evicted", 500) \
    X(FALSE_EVICTIONS, "evicted while alive", 200) \
    X(APPENDS, "joiners appended", 500) \
    X(STARTS, "chains started again after everything died", 100) \
    X(COLLECTED_AGAIN, "requests put back after that", 100) \
    X(COLLECT_ABSENT, "clients that did not answer then", 5) \
    X(LOSSES, "losses named", 5) \
    X(SEALS, "logs sealed", 100) \
    X(SEALED_LIVE, "logs sealed under a live node", 20) \
    X(EXPIRED_CLIENTS, "clients expired", 50) \
    X(DUPLICATES, "duplicates answered from the table", 500) \
    X(OPENED_BEFORE, "clients that asked again for their id", 100) \
    X(READS_LEASE, "reads answered under the lease", 5000) \
    X(READS_SOLE, "reads answered by a sole member", 500) \
    X(READS_CHAIN, "reads answered through the chain", 100) \
    X(READS_NO_LEASE, "reads refused for lack of the lease", 100) \
    X(READS_LATE, "reads whose lease ended before the answer", 50) \
    X(TAKEOVERS, "a standby became master", 50) \
    X(BEATS_FAST, "heartbeats at the full rate", 50000) \
    X(BEATS_SLOW, "heartbeats of members at rest", 1000) \
    X(HURRIED, "members at rest told to hurry", 500) \
    X(TWO_MASTERS, "two masters believed themselves active", 5) \
    X(INSERT_CONFLICTS, "configurations refused by compare-and-set", 10) \
    X(INSERT_UNKNOWN, "configurations with an unknown outcome", 5) \
    X(MSG_SUB, "SUB received", 1000) \
    X(MSG_BLOCK, "BLOCK received in its order", 10000) \
    X(MSG_RESYNC, "RESYNC received in its order", 100) \
    X(MSG_STATS, "a flusher asked what was flushed", 500) \
    X(STREAMS_MOVED, "streams that went on at another member", 500) \
    X(STREAMS_BROKEN, "streams broken by the network, and resumed", 200) \
    X(STREAMS_VOID, "streams told that what they gave is void", 3) \
    X(STREAMS_BEHIND, "streams told that what they lack was flushed", 50) \
    X(SESSIONS, "sessions of a flusher", 500) \
    X(BATCHES, "batches written, and the watermark moved", 1000) \
    X(WATERMARK_CONFLICTS, "flushers that were overtaken", 20) \
    X(FLUSHES, "FLUSH that dropped blocks", 500) \
    X(FLUSHES_LATE, "FLUSH that came behind another flusher's", 10) \
    X(FLUSHER_DIES, "a flusher dies between COMMIT and FLUSH", 20) \
    X(TASKS_ENDED, "tasks seen to end", 1000) \
    X(TASKS_MOVED, "unfinished tasks that got a new owner", 100) \
    X(TASKS_TAINTED, "runs whose tasks are not checked: something was named as lost", 0) \
    X(OWNER_CONFLICTS, "a new owner was too late", 0) \
    X(RECOVERIES, "recoveries of a log begun", 300) \
    X(RECOVERIES_TAKEN, "taken over from a dead recoverer", 5) \
    X(RECOVERER_DIES, "a recoverer dies, or its log is sealed", 20) \
    X(RECOVERED, "logs recovered", 200) \
    X(CONDITIONS_FAILED, "compare-and-set of a key refused", 500) \
    X(CHECKS_DONE, "histories of a key checked", 4000) \
    X(CHECKS_TAINTED, "histories not checked: some of it was named as lost", 0) \
    X(CHECKS_GIVEN_UP, "histories with too many possible orders", 0) \
    X(LARGE_VALUES, "values that the tables do not hold", 100)
enum sim_cover {
#define SIM_COVER_ENUM(name, text, minimum) SIM_##name,
    SIM_COVER(SIM_COVER_ENUM)
#undef SIM_COVER_ENUM
        SIM_COVER_FAULT_FIRST,
    SIM_COVERS = SIM_COVER_FAULT_FIRST + SIM_FAULT_KINDS
};
struct sim_cover_row {
    const char *name, *text;
    double minimum; /* in 1,000 seeds */
};
extern const struct sim_cover_row sim_cover_rows[SIM_COVERS];

#endif
