/* The invariants: sim_check.c. Part of the simulator (sim_world.h). */
#ifndef MOB_TESTS_SIM_SIM_CHECK_H
#define MOB_TESTS_SIM_SIM_CHECK_H

#include "tests/sim/sim_member.h"

void sim_check_member(struct sim *s, struct sim_member *m);
void sim_check_step(struct sim *s);
void sim_check_appended(struct sim *s, struct sim_member *m, const struct mob_chain_entry *e);
void sim_check_registered(struct sim *s, const struct mob_chain_entry *e);
void sim_check_replied(
    struct sim *s, struct sim_member *m, const struct mob_gcs_reply *reply, uint64_t client);
void sim_check_config(struct sim *s, const struct mob_gcs_config *config);
/* A chain was started again from m, which has what is on its disk; later: it has collected, and nothing of
 * that is stored yet (it may die before it is); and then it is stored. */
void sim_check_started(struct sim *s, struct sim_member *m);
void sim_check_collected(struct sim *s, struct sim_member *m);
void sim_check_named(struct sim *s, const struct sim_member *m);
void sim_check_whole(struct sim *s);
bool sim_is_whole(struct sim *s);
void sim_tell_missing(struct sim *s, char *out, size_t size);
/* Its node did not answer after everything had died: acknowledged blocks may be gone, and were named. */
bool sim_log_is_excused(const struct sim *s, uint64_t incarnation);

#endif
