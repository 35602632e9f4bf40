/* What goes wrong, and when: sim_faults.c. Part of the simulator (sim_world.h). */
#ifndef MOB_TESTS_SIM_SIM_FAULTS_H
#define MOB_TESTS_SIM_SIM_FAULTS_H

#include "tests/sim/sim_member.h"

struct sim_client;
void sim_faults_plan(struct sim *s);
void sim_fault(struct sim *s);
void sim_heal(struct sim *s);
/* False: it was down. */
bool sim_kill_member(struct sim *s, struct sim_member *m, bool power, bool wipe);
/* By a kill, or well: its supervisor starts the next one. */
void sim_client_ends(struct sim *s, struct sim_client *c);
/* Another synced live member has what this one has. */
bool sim_others_hold(struct sim *s, const struct mob_gcs_config *config, const struct sim_member *m);
/* Draws whether the link to a member that has just come to this state carries nothing for the rest of its
 * life, as one whose opening never ends. Another source of randomness than all else: other seeds play as they
 * did. */
void sim_mute(struct sim *s, struct sim_member *m, enum mob_chain_state state);
/* The same for a joiner whose snapshot has just become whole. */
void sim_mute_log(struct sim *s, struct sim_member *m);
/* Draws in the same way what follows a configuration that was just made. The one that takes in a member is
 * lost on its way to that, and somebody beside it dies, so that it hears of the next one first. Or, when the
 * chain starts again: a client hears nothing more until it is longer. */
void sim_config_made(struct sim *s, const struct mob_gcs_config *config, const struct mob_gcs_config *before);
/* Draws in the same way whether, soon after a start in which a client heard nothing, the power of all members
 * fails again, before much of what they have written since is on their disks. */
void sim_start_served(struct sim *s, uint64_t epoch);
void sim_all_off(struct sim *s);
/* Draws in the same way whether a node that is about to become the owner of `task` is stopped just then, for
 * so long that its own log is sealed and another node takes its recovery over: true. */
bool sim_is_overtaken(struct sim *s, struct sim_client *c, uint32_t task);
bool sim_is_muted(const struct sim *s, const struct sim_member *m);
/* Draws in the same way whether a member that is about to put back what it has collected dies in the middle
 * of that. */
void sim_collect_ends(struct sim *s, struct sim_member *m);
bool sim_dies_here(struct sim *s, struct sim_member *m, enum mob_chain_action_type next);

#endif
