/* mobula-nodesim: the liveness of nodes, simulated (nodesim.h); arguments: sim_runner.h. */
#include "tests/sim/nodesim.h"

static const struct sim_cover_row rows[NODESIM_COVERS] = {
#define NODESIM_ROW(name, text, minimum) [NODESIM_##name] = {#name, text, minimum},
    NODESIM_COVER(NODESIM_ROW)
#undef NODESIM_ROW
#define NODESIM_ROW(name, text, minimum) [NODESIM_MSG_##name] = {"MSG_" #name, text, minimum},
        NODESIM_MESSAGES(NODESIM_ROW)
#undef NODESIM_ROW
#define NODESIM_ROW(name, text, minimum) [NODESIM_ASKED_##name] = {"ASKED_" #name, text, minimum},
            NODESIM_QUESTIONS(NODESIM_ROW)
#undef NODESIM_ROW
#define NODESIM_ROW(name, text, minimum) [NODESIM_FAULT_##name] = {"FAULT_" #name, text, minimum},
                NODESIM_FAULTS(NODESIM_ROW)
#undef NODESIM_ROW
};

int main(int argc, char **argv)
{
    static const struct sim_runner_rule rules[] = {{"none", NODESIM_RULE_NONE}, {"index", NODESIM_RULE_INDEX},
        {"home-seal", NODESIM_RULE_HOME_SEAL}, {"home-id", NODESIM_RULE_HOME_ID},
        {"home-watch", NODESIM_RULE_HOME_WATCH}, {"home-kept", NODESIM_RULE_HOME_KEPT},
        {"earlier", NODESIM_RULE_EARLIER}, {"all-logs", NODESIM_RULE_ALL_LOGS},
        {"take-over", NODESIM_RULE_TAKE_OVER}, {"record", NODESIM_RULE_RECORD},
        {"tidy-state", NODESIM_RULE_TIDY_STATE}, {"tidy-listed", NODESIM_RULE_TIDY_LISTED},
        {"old-answers", NODESIM_RULE_OLD_ANSWERS}, {NULL, 0}};
    static const struct sim_runner runner = {
        .run = nodesim_run, .rows = rows, .covers = NODESIM_COVERS, .rules = rules};
    return sim_runner_main(&runner, argc, argv);
}
