/* What a run of nodesim counts, and how often each must occur in a thousand seeds, as in sim_cover.h. */
#ifndef MOB_TESTS_SIM_NODESIM_COVER_H
#define MOB_TESTS_SIM_NODESIM_COVER_H

#include "tests/sim/sim_runner.h"

/* Every message that there is (enum what, in its order), each time somebody reads one. */
#define NODESIM_MESSAGES(X) \
    X(MASTER_ENROLL, "ENROLL", 160000) \
    X(MASTER_BEAT, "NODE_BEAT", 170000) \
    X(MASTER_GONE, "a link to a node was closed", 6900) \
    X(MASTER_TABLE, "answer of the table", 170000) \
    X(MASTER_CUT, "answer to SEAL", 3900) \
    X(MASTER_REGISTERED, "answer to REGISTER", 5800) \
    X(TABLE, "question to the table", 170000) \
    X(CHAIN_SEAL, "SEAL", 6300) \
    X(CHAIN_REGISTER, "REGISTER", 7100) \
    X(CHAIN_APPEND, "a block", 83000) \
    X(CHAIN_LIST, "which incarnations had this node?", 14000) \
    X(CHAIN_LEFT, "what have they left unfinished?", 10000) \
    X(CHAIN_RECORD, "a RECOVER record", 13000) \
    X(CHAIN_RECOVERED, "RECOVERED", 4600) \
    X(CHAIN_RECORDS, "which RECOVER records are there?", 14000) \
    X(CHAIN_LOG, "is the log of a record RECOVERED?", 5700) \
    X(NODE_ENROLLED, "ENROLLED", 12000) \
    X(NODE_OVER, "a node hears that it is over", 910) \
    X(NODE_APPENDED, "answer to a block", 73000) \
    X(NODE_SEALED, "answer to a node's SEAL", 730) \
    X(NODE_LISTED, "incarnations of a node", 10000) \
    X(NODE_LEFT, "unfinished tasks of a node", 8800) \
    X(NODE_RECORD, "answer about a RECOVER record", 11000) \
    X(NODE_RECOVERED, "answer to RECOVERED", 4200) \
    X(NODE_RECORDS, "RECOVER records", 12000) \
    X(NODE_LOG, "what the log of a record is", 5300)

/* Every question to the table (enum table_op, in its order). */
#define NODESIM_QUESTIONS(X) \
    X(ROW, "table: who is master?", 76000) \
    X(SET_ROW, "table: compare-and-set of the master's row", 60000) \
    X(LOGS, "table: all logs", 5500) \
    X(NOTE, "table: the state of a log", 12000) \
    X(HOME, "table: where is this node at home?", 19000)

/* Faults, each counted when it took effect. */
#define NODESIM_FAULTS(X) \
    X(KILL_NODE, "a node's process dies", 3300) \
    X(PAUSE_NODE, "a node's process is stopped and goes on", 2400) \
    X(PAUSE_SOME, "several are stopped at a time", 940) \
    X(SECOND_NODE, "another process under the name of one that lives", 1100) \
    X(KILL_MASTER, "a master dies", 3400) \
    X(KILL_ACTIVE, "the active one", 1400) \
    X(PAUSE_MASTER, "a master is stopped and goes on", 2900) \
    X(PAUSE_ACTIVE, "the active one", 1200) \
    X(KILL_CHAIN, "everything of the chain dies", 2000) \
    X(FAIL_OVER, "a chain loses a member, and is silent for a while", 910) \
    X(RECOVERER, "a node dies that recovers a log", 110) \
    X(RECORD_SHARD, "the shard of the record goes, whose log is on another", 49) \
    X(HOME_SHARD, "the log's shard goes, whose record is on another", 45) \
    X(TIDIER, "a node dies, or is stopped, that tidies a record", 150) \
    X(TIDY_SHARD, "the shard of that record goes, or that of its log", 120) \
    X(TIDY_LATE, "or its log's, and the log's node starts, while who tidies stands still", 17) \
    X(LOST, "a message is lost", 31000) \
    X(DOUBLED, "a message is doubled", 15000) \
    X(LATE, "a message is overtaken", 47000)

#define NODESIM_COVER(X) \
    X(NONE_LIVE, "recorded: an incarnation is live", 5200) \
    X(LIVE_DEAD, "recorded: it is dead", 3500) \
    X(DEAD_SEALED, "recorded: it is sealed", 3500) \
    X(NOTES_REFUSED, "records refused: by term, state or index", 420) \
    X(NOTES_ANOTHER, "of these: another incarnation of the node lives", 95) \
    X(NOTES_UNKNOWN, "records whose answer did not come", 1000) \
    X(LOGS_READ, "tables read again by an active master", 2300) \
    X(TAKEOVERS, "a master becomes active", 2800) \
    X(TWO_MASTERS, "another believed so, too", 580) \
    X(GIVEN, "incarnations given out", 4600) \
    X(SEALED, "live logs sealed", 3100) \
    X(SEALED_AGAIN, "seals of what was sealed, or is not there", 1600) \
    X(WRONG_VERDICTS, "nodes declared dead that lived", 1200) \
    X(CALM_VERDICTS, "of these: whom nobody had disturbed, nor their masters", SIM_AT_MOST(2)) \
    X(OVER, "nodes that heard so, and ended", 450) \
    X(REFUSED, "second processes refused", 1400) \
    X(ENDED, "processes that the supervisor was to end, and did", 440) \
    X(ZOMBIES, "processes that it did not end, beside the next one", 440) \
    X(STARTS, "a chain that died starts again", 2000) \
    X(STARTS_TOLD, "and is told of seals that it lacks", 320) \
    X(STARTS_LATER, "or not yet, because a record is under way", 280) \
    X(BLOCKS_BACK, "logs whose node has blocks that the chain lacks", 1500) \
    X(SEALS_BACK, "logs that a master has sealed, and the chain not", 200) \
    X(ABSENT, "logs sealed because their node did not answer", 580) \
    X(OLD_ANSWERS, "answers of the history before that nobody hears", 40) \
    X(HOMES_MADE, "a new node has a home", 1600) \
    X(HOMES_KEPT, "a node that had one has it again", 2900) \
    X(MISDIRECTED, "nodes sent on to their home", 3200) \
    X(HOME_AWAY, "nodes that lived while their home was away", 1600) \
    X(RECORDS_TAKEN, "RECOVER records taken", 4800) \
    X(RECORDS_TAKEN_OVER, "of these: from a recoverer that had died", 600) \
    X(RECORDS_ELSEWHERE, "of these: on another shard than the log's home", 2600) \
    X(RECORDS_REFUSED, "refused: not as it was found", 630) \
    X(RECORDS_ENDED, "records that say that all tasks have an owner", 1100) \
    X(RECORDS_REMOVED, "records removed, all tasks having ended", 4100) \
    X(RECORDS_BACK, "records that a client has, and the chain not", 370) \
    X(RECORDS_LOST, "records of which their recoverer knows nothing any more", 19) \
    X(RECORDS_STALE, "records at the end that nobody is at", SIM_AT_MOST(20)) \
    X(TIDIED_RECOVERED, "a record was tidied: recovered log", 19) \
    X(TIDIED_GONE, "a record was tidied: log that is gone", 2) \
    X(TIDY_NEEDED, "records that a start left: their logs are recovered by somebody", 4300) \
    X(TIDY_REFUSED, "records that were to be tidied, and not as they were listed", 700) \
    X(LAST_STARTS, "nodes that started once more when all was whole", 1600) \
    X(EXPIRED, "requests of recoverers that were away when everything had died", 18) \
    X(RECOVERED, "logs recovered", 4000) \
    X(RECOVERIES_REFUSED, "nodes that end: a later one has the record", 4) \
    X(TASKS_BEGUN, "tasks that begin", 8300) \
    X(TASKS_ENDED, "tasks that are seen to end", 8200) \
    X(TASKS_TAKEN, "unfinished tasks that the next incarnation owns", 2200) \
    X(TASKS_LOST, "tasks of which blocks were lost with everything", 330)
enum nodesim_cover {
#define NODESIM_ENUM(name, text, minimum) NODESIM_##name,
    NODESIM_COVER(NODESIM_ENUM)
#undef NODESIM_ENUM
#define NODESIM_ENUM(name, text, minimum) NODESIM_MSG_##name,
        NODESIM_MESSAGES(NODESIM_ENUM)
#undef NODESIM_ENUM
#define NODESIM_ENUM(name, text, minimum) NODESIM_ASKED_##name,
            NODESIM_QUESTIONS(NODESIM_ENUM)
#undef NODESIM_ENUM
#define NODESIM_ENUM(name, text, minimum) NODESIM_FAULT_##name,
                NODESIM_FAULTS(NODESIM_ENUM)
#undef NODESIM_ENUM
                    NODESIM_COVERS
};
_Static_assert(NODESIM_COVERS <= SIM_COVERS_MAX, "more counters than a result has room for");

#endif
