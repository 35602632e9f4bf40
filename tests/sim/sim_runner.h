/* What is common to the simulators: runs of seeds on all cores, counters with minima, replay.
 *
 *   PROGRAM [--seed N] [--trace] [--seeds K] [--first N] [--minutes M] [--jobs J] [--expect unsafe|stuck]
 *           [--without RULE]
 *
 * Without a seed, --seeds (2,000) from --first (1) on. Prints how often each thing happened, and fails when a
 * rule is broken, when something happened too seldom (runs of at least 500 seeds), or when more than a tenth
 * of the seeds was void; what happened in those is not counted. A failing seed is printed with the line that
 * replays it.
 *
 * --expect is for machines with a rule left out: succeeds with the first seed that breaks an invariant
 * (unsafe), or that is not whole again after all faults have ended (stuck), and prints "caught by seed N". A
 * process that ends by a signal is no such catch. --without leaves out a rule of the processes beside the
 * machine.
 */
#ifndef MOB_TESTS_SIM_SIM_RUNNER_H
#define MOB_TESTS_SIM_SIM_RUNNER_H

#include <stdbool.h>
#include <stdint.h>

#define SIM_COVERS_MAX 192u
/* A row that a run must not have more often: what was not checked. About three times what occurs. */
#define SIM_AT_MOST(n) (-(n))

struct sim_setup {
    uint64_t seed;
    int without; /* a rule of the simulator's, 0: none */
    bool trace;
};
struct sim_result {
    bool failed; /* `why` says which rule was broken, and when */
    bool stuck; /* that rule: after all faults have ended everything is whole again */
    bool is_void; /* too little happened to mean anything */
    char why[512];
    uint64_t events, operations; /* operations: answered to clients */
    int64_t virtual_ns;
    uint64_t cover[SIM_COVERS_MAX];
};
struct sim_cover_row {
    const char *name, *text;
    double minimum; /* in 1,000 seeds that are not void; below 0: at most so many */
};
struct sim_runner_rule {
    const char *name; /* NULL: the end */
    int rule;
};
struct sim_runner {
    void (*run)(const struct sim_setup *setup, struct sim_result *result_out);
    const struct sim_cover_row *rows;
    unsigned covers;
    const struct sim_runner_rule *rules;
};
int sim_runner_main(const struct sim_runner *runner, int argc, char **argv);

#endif
