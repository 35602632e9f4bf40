/* ctest: timeout=180
 * mobula-sim: the control store, simulated (sim.h); arguments: sim_runner.h. All seeds of a change in less
 * than three minutes. */
#include "tests/sim/sim.h"

int main(int argc, char **argv)
{
    static const struct sim_runner_rule rules[] = {{"watermark", SIM_RULE_WATERMARK},
        {"durable", SIM_RULE_DURABLE}, {"session", SIM_RULE_SESSION}, {"cut", SIM_RULE_CUT},
        {"accept", SIM_RULE_ACCEPT}, {"takeover", SIM_RULE_TAKEOVER}, {"late-owner", SIM_RULE_LATE_OWNER},
        {"link-ends", SIM_RULE_LINK_ENDS}, {"rest-said", SIM_RULE_REST_SAID}, {NULL, 0}};
    static const struct sim_runner runner = {
        .run = sim_run, .rows = sim_cover_rows, .covers = SIM_COVERS, .rules = rules};
    return sim_runner_main(&runner, argc, argv);
}
