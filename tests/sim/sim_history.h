/* What clients saw: sim_history.c. Part of the simulator (sim_world.h). */
#ifndef MOB_TESTS_SIM_SIM_HISTORY_H
#define MOB_TESTS_SIM_SIM_HISTORY_H

#include "tests/sim/sim.h"

enum sim_op_type { SIM_OP_PUT, SIM_OP_CAS, SIM_OP_DELETE, SIM_OP_GET };
struct sim_op {
    uint8_t type; /* enum sim_op_type */
    uint8_t key, client;
    uint64_t value; /* put; GET: what it returned, 0 = absent */
    uint64_t expect; /* CAS: version */
    uint32_t status;
    uint64_t version; /* returned */
    int64_t call_at, return_at; /* INT64_MAX: unknown */
    uint64_t seq;
    uint64_t chain_client, request;
};
size_t sim_history_call(struct sim *s, const struct sim_op *op);
void sim_history_return(
    struct sim *s, size_t index, uint32_t status, uint64_t version, uint64_t value, uint64_t seq);
void sim_history_check(struct sim *s);
/* What this key's clients saw may be gone, and was named: its history is not checked. */
void sim_history_taint(struct sim *s, uint8_t key);

#endif
