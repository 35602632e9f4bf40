/* What a run counts, and how often each must occur in a thousand seeds for the simulation to mean anything.
 */
#ifndef MOB_TESTS_SIM_SIM_COVER_H
#define MOB_TESTS_SIM_SIM_COVER_H

#include "tests/sim/sim_runner.h"

/* Void seeds count for nothing. A third to a half of what occurs in the others (of LOST_BEFORE, which is
 * rare, a fourth), so that a path that stops occurring is noticed, and another sequence of random numbers is
 * not. Kinds of faults, each counted when it took effect (who was down cannot be killed, and a link that
 * nobody uses cannot be cut): name, what, minimum per 1,000 seeds. */
#define SIM_FAULTS(X) \
    X(KILL_MEMBER, "kill -9 of a member", 440) \
    X(POWER_MEMBER, "power cut of a member", 430) \
    X(WIPE_MEMBER, "its store restarted empty", 200) \
    X(PAUSE_MEMBER, "a member is stopped and goes on", 460) \
    X(CUT_ONE_WAY, "one-way partition, into which somebody spoke", 230) \
    X(CUT_BOTH_WAYS, "full partition, into which somebody spoke", 310) \
    X(ISOLATE, "a member loses its links, in one way or both, and somebody spoke into one", 490) \
    X(POWER_ALL, "power cut of everything", 97) \
    X(KILL_ALL, "all members killed at once", 98) \
    X(KILL_MASTER, "kill -9 of a master", 480) \
    X(PAUSE_MASTER, "a master is stopped and goes on", 410) \
    X(PAUSE_DATABASE, "the database is stopped and goes on", 390) \
    X(KILL_CLIENT, "kill -9 of a client", 350) \
    X(PAUSE_CLIENT, "a client is stopped and goes on", 440) \
    X(STORM, "loss, doubling and reordering rise", 170)
enum sim_fault_kind {
#define SIM_FAULT_ENUM(name, text, minimum) SIM_FAULT_##name,
    SIM_FAULTS(SIM_FAULT_ENUM)
#undef SIM_FAULT_ENUM
        SIM_FAULT_KINDS
};

/* Every message that there is (enum sim_msg_type, in its order), each time a process reads one. */
#define SIM_MESSAGES(X) \
    X(CHAIN, "frame between members", 600000) \
    X(PUT, "PUT", 270000) \
    X(REPLY, "REPLY", 170000) \
    X(NACK, "NACK, or the configuration of whoever was asked", 170000) \
    X(GAP, "GAP", 9000) \
    X(EXPIRED, "EXPIRED", 570) \
    X(ATTACH, "ATTACH", 29000) \
    X(ATTACHED, "ATTACHED", 24000) \
    X(RESENT, "RESENT", 14000) \
    X(BYE, "BYE", 280) \
    X(GET, "GET", 170000) \
    X(VALUE, "its answer (ROWS)", 93000) \
    X(WHERE, "where is the chain?", 97000) \
    X(REPORT, "REPORT: heartbeat, read by a master", 1200000) \
    X(LEASE, "LEASE: its answer", 460000) \
    X(BOOK, "BOOK: configuration from a master", 22000) \
    X(ENTER, "ENTER: a master has a member join", 2500) \
    X(DB, "question to the database", 90000) \
    X(DB_ANSWER, "its answer", 90000) \
    X(SUB, "SUB", 43000) \
    X(BLOCK, "BLOCK", 160000) \
    X(RESYNC, "RESYNC", 440) \
    X(STATS, "a flusher asks what was flushed", 5900) \
    X(STATS_ANSWER, "its answer", 2700) \
    X(SCAN, "who recovers a log asks for its blocks", 1100) \
    X(ROWS, "its answer", 810)

/* Every frame between members (enum mob_gcs_link_type, in its order), when it was whole. */
#define SIM_LINKS(X) \
    X(UPD, "UPD between members", 160000) \
    X(ACK, "ACK", 140000) \
    X(SYNC, "SYNC", 8800) \
    X(SYNCEND, "SYNCEND", 2800) \
    X(POSITION, "POSITION", 30000) \
    X(RESEND, "RESEND", 4900) \
    X(READ, "READ", 17000) \
    X(CONFIG, "CONFIG", 200) \
    X(JOIN, "JOIN", 32000) \
    X(SNAPSHOT, "SNAPSHOT", 12000) \
    X(LOG, "LOG", 64000) \
    X(JOINED, "JOINED", 74000) \
    X(LEAVE, "LEAVE", 9100)

/* Every question to the database (enum sim_db_op, in its order), when that reads it. */
#define SIM_QUESTIONS(X) \
    X(ROW, "database: who is master?", 35000) \
    X(SET_ROW, "database: compare-and-set of the master's row", 25000) \
    X(NEWEST, "database: the newest configuration", 14000) \
    X(INSERT, "database: the next configuration", 3600) \
    X(WATERMARK, "database: the watermark", 3200) \
    X(ROWS, "database: the blocks of a log", 960) \
    X(WRITE, "database: a batch, and the watermark's compare-and-set", 5400)

/* Everything else: name, what, minimum per 1,000 seeds. */
#define SIM_COVER(X) \
    X(IDLE_JOINING, "state idle -> joining", 2400) \
    X(IDLE_SYNCING, "state idle -> syncing", 550) \
    X(IDLE_COLLECTING, "state idle -> collecting", 530) \
    X(IDLE_SERVING, "state idle -> serving", 490) \
    X(JOINING_SYNCING, "state joining -> syncing", 1200) \
    X(JOINING_EVICTED, "state joining -> evicted", 110) \
    X(JOINER_EVICTED, "a joiner that was taken in without its source, and ends", 58) \
    X(SYNCING_SERVING, "state syncing -> serving", 2400) \
    X(SYNCING_EVICTED, "state syncing -> evicted", 38) \
    X(COLLECTING_SERVING, "state collecting -> serving", 370) \
    X(SERVING_SYNCING, "state serving -> syncing", 990) \
    X(SERVING_EVICTED, "state serving -> evicted (safe when wrong)", 260) \
    X(IDLE_EVICTED, "state idle -> evicted", 34) \
    X(LEASES, "lease granted", 70000) \
    X(STARTS_AGAIN, "the power fails again soon after a start that a client missed", 29) \
    X(LOST_BEFORE, "a start behind one that had lost something, and answered", 1) \
    X(NET_LOST, "message lost", 88000) \
    X(NET_DOUBLED, "message doubled", 79000) \
    X(NET_REORDERED, "message overtaken", 99000) \
    X(NET_CORRUPTED, "frame corrupted, and refused", 550) \
    X(NET_CUT, "message into a cut link", 39000) \
    X(NET_CALMED, "a storm ends", 58) \
    X(NET_MUTE, "message into a link that carries nothing until one of its ends starts again", 260000) \
    X(MUTED_SYNCING, "such a link to a member that waits for SYNCEND", 39) \
    X(MUTED_JOINING, "such a link to a joiner", 43) \
    X(STALLED_SYNCING, "left out because it got no further", 25) \
    X(STALLED_JOINING, "joiner that gave up", 43) \
    X(MUTED_LOG, "such a link to a joiner that has its snapshot", 72) \
    X(STALLED_LOG, "such a joiner that gave up", 15) \
    X(MISSED_CONFIG, "a member misses the configuration that takes it in, and its neighbour dies", 99) \
    X(DEAF_CLIENTS, "clients that hear nothing until a started chain is longer", 200) \
    X(DIES_BEFORE_STORE, "member dies before its store write", 40) \
    X(DIES_BEFORE_SEND, "member dies after apply, before it forwards", 51) \
    X(DIES_BEFORE_REPLY, "tail dies before its reply", 99) \
    X(DIES_BEFORE_OTHER, "member dies between other actions", 27) \
    X(HEAD_DIES, "head dies", 360) \
    X(MIDDLE_DIES, "middle dies", 110) \
    X(TAIL_DIES, "tail dies", 530) \
    X(SOLE_DIES, "sole member dies", 380) \
    X(JOINER_DIES, "joiner dies", 480) \
    X(SOURCE_DIES, "the member that gives the snapshot dies", 440) \
    X(EVICTIONS, "members evicted", 1100) \
    X(FALSE_EVICTIONS, "evicted while alive", 300) \
    X(APPENDS, "joiners appended", 1300) \
    X(LONG, "configurations of 4 to 6 members", 130) \
    X(LONGEST, "configurations of 7", 15) \
    X(STARTS, "chains started again after everything died", 560) \
    X(STARTS_HEARD_LATE, "clients that heard of that from a later configuration", 6) \
    X(COLLECTED_AGAIN, "requests put back after that", 7000) \
    X(DIES_COLLECTING, "member dies while it puts them back", 15) \
    X(COLLECT_ABSENT, "clients that did not answer then", 310) \
    X(LOSSES, "losses named", 320) \
    X(SEALS, "logs sealed", 1100) \
    X(SEALED_LIVE, "logs sealed under a live node", 280) \
    X(EXPIRED_CLIENTS, "clients expired because nothing was heard of them", 190) \
    X(CLIENTS_LEFT, "clients that said good-bye, and whose place was free at once", 270) \
    X(PLACES_AGAIN, "clients that came after others had left", 240) \
    X(DUPLICATES, "duplicates answered from the table", 49000) \
    X(PACED, "requests that waited for a joiner, and came again", 100) \
    X(PACED_TOLD, "the same at a head, which its tail had told", 100) \
    X(OPENED_BEFORE, "clients that asked again for their id", 1800) \
    X(READS_LEASE, "reads answered under the lease", 45000) \
    X(READS_SOLE, "reads answered by a sole member", 24000) \
    X(READS_CHAIN, "reads answered through the chain", 14000) \
    X(READS_NO_LEASE, "reads refused for lack of the lease", 9900) \
    X(READS_LATE, "reads whose lease ended before the answer", 130) \
    X(ACTIVE_DIES, "the active master dies", 200) \
    X(ACTIVE_STOPS, "the active master is stopped", 190) \
    X(TAKEOVERS, "a standby became master", 810) \
    X(BEATS_FAST, "heartbeats at the full rate", 620000) \
    X(BEATS_SLOW, "heartbeats of members at rest", 6800) \
    X(HURRIED, "members at rest told to hurry", 3900) \
    X(TWO_MASTERS, "two masters believed themselves active", 210) \
    X(INSERT_CONFLICTS, "configurations refused by compare-and-set", 55) \
    X(INSERT_UNKNOWN, "configurations with an unknown outcome", 210) \
    X(BLOCKS_STREAMED, "BLOCK in its order", 110000) \
    X(RESYNCS_STREAMED, "RESYNC in its order", 400) \
    X(STREAMS_MOVED, "streams that went on at another member", 2000) \
    X(STREAMS_BROKEN, "streams broken by the network, and resumed", 2700) \
    X(STREAMS_VOID, "streams told that what they gave is void", 4) \
    X(STREAMS_BEHIND, "streams told that what they lack was flushed", 390) \
    X(SESSIONS, "sessions of a flusher", 2400) \
    X(BATCHES, "batches written, and the watermark moved", 5200) \
    X(WATERMARK_CONFLICTS, "flushers that were overtaken", 1400) \
    X(FLUSHES, "FLUSH that dropped blocks", 8600) \
    X(FLUSHES_LATE, "FLUSH that came behind another flusher's", 150) \
    X(FLUSHER_DIES, "a flusher dies between COMMIT and FLUSH", 46) \
    X(TASKS_ENDED, "tasks seen to end", 7100) \
    X(TASKS_MOVED, "unfinished tasks that got a new owner", 1300) \
    X(TASKS_TAINTED, "runs whose tasks are not checked: something was named as lost", SIM_AT_MOST(115)) \
    X(OWNER_CONFLICTS, "a new owner was too late", 26) \
    X(RECOVERIES, "recoveries of a log begun", 1300) \
    X(RECOVERIES_TAKEN, "taken over from a dead recoverer", 220) \
    X(RECOVERER_DIES, "a recoverer dies, or its log is sealed", 220) \
    X(RECOVERED, "logs recovered", 570) \
    X(CONDITIONS_FAILED, "compare-and-set of a key refused", 20000) \
    X(CHECKS_DONE, "histories of a key checked", 2900) \
    X(CHECKS_TAINTED, "histories not checked: some of it was named as lost", SIM_AT_MOST(200)) \
    X(CHECKS_TOO_LONG, "histories not checked: more operations than the checker takes", SIM_AT_MOST(1)) \
    X(CHECKS_GIVEN_UP, "histories with too many possible orders", SIM_AT_MOST(4)) \
    X(LARGE_VALUES, "values that the tables do not hold", 4500)
enum sim_cover {
#define SIM_COVER_ENUM(name, text, minimum) SIM_##name,
    SIM_COVER(SIM_COVER_ENUM)
#undef SIM_COVER_ENUM
#define SIM_COVER_ENUM(name, text, minimum) SIM_MSG_##name,
        SIM_MESSAGES(SIM_COVER_ENUM)
#undef SIM_COVER_ENUM
#define SIM_COVER_ENUM(name, text, minimum) SIM_LINK_##name,
            SIM_LINKS(SIM_COVER_ENUM)
#undef SIM_COVER_ENUM
#define SIM_COVER_ENUM(name, text, minimum) SIM_ASKED_##name,
                SIM_QUESTIONS(SIM_COVER_ENUM)
#undef SIM_COVER_ENUM
#define SIM_COVER_ENUM(name, text, minimum) SIM_COVER_FAULT_##name,
                    SIM_FAULTS(SIM_COVER_ENUM)
#undef SIM_COVER_ENUM
                        SIM_COVERS
};
_Static_assert(SIM_COVERS <= SIM_COVERS_MAX, "more counters than a result has room for");
extern const struct sim_cover_row sim_cover_rows[SIM_COVERS];

#endif
