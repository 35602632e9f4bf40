/* The deterministic simulator of the control store (GCS.md "Invariants").
 *
 * One seed is one exact run: members with the real gcs/chain machine on virtual disks, two masters with the
 * real membership machine, a database with compare-and-set, clients and node logs, all on a virtual network
 * that delays, loses, doubles, reorders and cuts, with clocks that drift, and everything that can die or stop
 * does. After each step the invariants are asserted; at the end everything is healed, must become whole
 * again, and each key's history is checked to be linearizable.
 *
 *   struct sim_result result;
 *   sim_run(&(struct sim_setup){.seed = 7}, &result);
 *
 * Nothing here reads a clock, a file or an address: only the seed decides. Single-threaded; several runs at
 * once take several processes (sim_runner.h).
 */
#ifndef MOB_TESTS_SIM_SIM_H
#define MOB_TESTS_SIM_SIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tests/sim/sim_cover.h"
#include "tests/sim/sim_runner.h"

#define SIM_US 1000ll
#define SIM_MS 1000000ll
#define SIM_SLOTS_MAX 9u
#define SIM_MASTERS 2u
#define SIM_CLIENTS_MAX 5u
#define SIM_NODES_MAX (SIM_SLOTS_MAX + SIM_MASTERS + 1u + SIM_CLIENTS_MAX)
#define SIM_KEYS 6u
#define SIM_EPOCHS_MAX 1024u
#define SIM_SEALS_MAX 24u
#define SIM_SUBS_MAX 16u /* at one member */
#define SIM_BASES_MAX 16u
#define SIM_TASKS_MAX 256u
#define SIM_TAG_RECOVERY 255u /* low byte of the tag of a question: not one of the gets */

struct sim;
/* Rules of processes beside the chain's machine, which a run may leave out; those of the machine are left out
 * by building it without them (gcs/chain/chain_rules.h). */
enum sim_rule {
    SIM_RULE_NONE = 0,
    SIM_RULE_WATERMARK, /* a batch is written only if the watermark is where its flusher found it */
    SIM_RULE_DURABLE, /* only blocks that are durable at the members are written */
    SIM_RULE_SESSION, /* a flusher begins anew after everything died */
    SIM_RULE_CUT, /* a log is recovered only when it is sealed */
    SIM_RULE_ACCEPT, /* the new owner's log says so first */
    SIM_RULE_TAKEOVER, /* who recovers is replaced when it is dead */
    SIM_RULE_LATE_OWNER, /* what a dead node told the directory last must not arrive behind its recovery */
    /* Bugs that this model had (docs/gcs-bugs.md). */
    SIM_RULE_LINK_ENDS, /* a link that carries nothing ends with either of its ends */
    SIM_RULE_REST_SAID /* a member says that it rests before it is silent for longer */
};
void sim_run(const struct sim_setup *setup, struct sim_result *result_out);

#endif
