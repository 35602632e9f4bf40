/* What a run of nodesim counts, and how often each must occur in a thousand seeds, as in sim_cover.h. */
#ifndef MOB_TESTS_SIM_NODESIM_COVER_H
#define MOB_TESTS_SIM_NODESIM_COVER_H

#include "tests/sim/sim_runner.h"

/* Every message that there is (enum what, in its order), each time somebody reads one. */
#define NODESIM_MESSAGES(X) \
    X(MASTER_ENROLL, "ENROLL", 96000) \
    X(MASTER_BEAT, "NODE_BEAT", 160000) \
    X(MASTER_GONE, "a link to a node was closed", 3900) \
    X(MASTER_TABLE, "answer of the table", 80000) \
    X(MASTER_CUT, "answer to SEAL", 2900) \
    X(MASTER_REGISTERED, "answer to REGISTER", 4500) \
    X(TABLE, "question to the table", 81000) \
    X(CHAIN_SEAL, "SEAL", 4000) \
    X(CHAIN_REGISTER, "REGISTER", 5400) \
    X(CHAIN_APPEND, "a block", 79000) \
    X(NODE_ENROLLED, "ENROLLED", 6900) \
    X(NODE_OVER, "a node hears that it is over", 770) \
    X(NODE_APPENDED, "answer to a block", 67000)

/* Every question to the table (enum table_op, in its order). */
#define NODESIM_QUESTIONS(X) \
    X(ROW, "table: who is master?", 39000) \
    X(SET_ROW, "table: compare-and-set of the master's row", 29000) \
    X(LOGS, "table: all logs", 3000) \
    X(NOTE, "table: the state of a log", 9500)

/* Faults, each counted when it took effect. */
#define NODESIM_FAULTS(X) \
    X(KILL_NODE, "a node's process dies", 2000) \
    X(PAUSE_NODE, "a node's process is stopped and goes on", 1700) \
    X(PAUSE_SOME, "several are stopped at a time", 340) \
    X(SECOND_NODE, "another process under the name of one that lives", 680) \
    X(KILL_MASTER, "a master dies", 2100) \
    X(KILL_ACTIVE, "the active one", 890) \
    X(PAUSE_MASTER, "a master is stopped and goes on", 1800) \
    X(PAUSE_ACTIVE, "the active one", 780) \
    X(KILL_CHAIN, "everything of the chain dies", 1800) \
    X(LOST, "a message is lost", 23000) \
    X(DOUBLED, "a message is doubled", 12000) \
    X(LATE, "a message is overtaken", 29000)

#define NODESIM_COVER(X) \
    X(NONE_LIVE, "recorded: an incarnation is live", 4100) \
    X(LIVE_DEAD, "recorded: it is dead", 2600) \
    X(DEAD_SEALED, "recorded: it is sealed", 2600) \
    X(NOTES_REFUSED, "records refused: by term, state or index", 190) \
    X(NOTES_ANOTHER, "of these: another incarnation of the node lives", 55) \
    X(NOTES_UNKNOWN, "records whose answer did not come", 630) \
    X(LOGS_READ, "tables read again by an active master", 1200) \
    X(TAKEOVERS, "a master becomes active", 1600) \
    X(TWO_MASTERS, "another believed so, too", 310) \
    X(GIVEN, "incarnations given out", 3800) \
    X(SEALED, "live logs sealed", 1800) \
    X(SEALED_AGAIN, "seals of what was sealed, or is not there", 1100) \
    X(WRONG_VERDICTS, "nodes declared dead that lived", 1000) \
    X(OVER, "nodes that heard so, and ended", 380) \
    X(REFUSED, "second processes refused", 920) \
    X(ENDED, "processes that the supervisor was to end, and did", 280) \
    X(ZOMBIES, "processes that it did not end, beside the next one", 270) \
    X(STARTS, "a chain that died starts again", 1800) \
    X(STARTS_TOLD, "and is told of seals that it lacks", 400) \
    X(STARTS_LATER, "or not yet, because a record is under way", 280) \
    X(BLOCKS_BACK, "logs whose node has blocks that the chain lacks", 2900) \
    X(SEALS_BACK, "logs that a master has sealed, and the chain not", 230) \
    X(ABSENT, "logs sealed because their node did not answer", 210) \
    X(OLD_ANSWERS, "answers of the history before that nobody hears", 40)
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
