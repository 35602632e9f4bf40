/* Masters, and the database: sim_master.c. Part of the simulator (sim_world.h). */
#ifndef MOB_TESTS_SIM_SIM_MASTER_H
#define MOB_TESTS_SIM_SIM_MASTER_H

#include "tests/sim/sim_core.h"
#include "tests/sim/sim_disk.h"
#include "tests/sim/sim_net.h"

struct sim_master {
    struct sim_node *node;
    uint8_t number;
    struct mob_mastership mastership;
    struct mob_membership *membership;
    bool began;
    int64_t row_deadline, read_deadline, insert_deadline;
    uint64_t row_tag, read_tag, insert_tag, next_tag;
    enum mob_mastership_step step;
};
struct sim_database {
    struct sim_node *node;
    uint8_t number;
    struct mob_master_row row;
    struct mob_gcs_config configs[SIM_EPOCHS_MAX]; /* by epoch; epoch 0 = not made */
    uint64_t newest;
    struct sim_seal seals[SIM_SEALS_MAX];
    uint32_t seal_count;
    uint64_t watermark;
    struct sim_block *cold; /* in the order in which they were written */
    size_t cold_count, cold_capacity;
};
void sim_master_start(struct sim *s, struct sim_master *m);
void sim_master_stop(struct sim *s, struct sim_master *m);
void sim_master_message(struct sim *s, struct sim_master *m, const struct sim_msg *msg);
void sim_master_tick(struct sim *s, struct sim_master *m);
void sim_database_message(struct sim *s, const struct sim_msg *msg);
/* The master notes that a log is to be sealed (cut UINT64_MAX), and then where. False: no room. */
bool sim_database_seal(struct sim *s, uint64_t incarnation, uint64_t cut);

#endif
