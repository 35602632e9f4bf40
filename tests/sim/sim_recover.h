/* Tasks in node logs, and the recovery of a sealed one: sim_recover.c. Part of the simulator (sim_world.h).
 */
#ifndef MOB_TESTS_SIM_SIM_RECOVER_H
#define MOB_TESTS_SIM_SIM_RECOVER_H

#include "tests/sim/sim_member.h"

enum sim_task_state { SIM_TASK_BEGINS, SIM_TASK_OWNED, SIM_TASK_ENDS, SIM_TASK_ENDED };
struct sim_task {
    uint32_t id, attempt;
    enum sim_task_state state;
    uint64_t request; /* its newest block */
};
enum sim_recover_state {
    SIM_RECOVER_NONE,
    SIM_RECOVER_CLAIM, /* the record of who recovers: compare-and-set */
    SIM_RECOVER_WHO, /* it is somebody's: whose? */
    SIM_RECOVER_READ, /* the log's blocks at the tail, then in the database */
    SIM_RECOVER_READ_COLD,
    SIM_RECOVER_OWNER, /* of the task at hand: who owns it? */
    SIM_RECOVER_ACCEPT, /* own block */
    SIM_RECOVER_MOVE, /* the directory: compare-and-set */
    SIM_RECOVER_SAY /* RECOVERED */
};
struct sim_recovery {
    enum sim_recover_state state;
    uint64_t log, tag, version, request;
    uint32_t attempt;
    bool by_chain;
    int64_t since, asked_at, next_at;
    struct sim_block *blocks;
    size_t count, capacity, at;
};
struct sim_client;
uint32_t sim_record_write(uint8_t *body, const struct sim_record *record);
struct sim_record sim_tasks_next_record(struct sim *s, struct sim_client *c);
bool sim_tasks_want_a_block(const struct sim_client *c);
void sim_tasks_acknowledged(struct sim *s, struct sim_client *c);
void sim_tasks_forget(struct sim *s, struct sim_client *c); /* s NULL: at the end */
void sim_tasks_fini(struct sim_client *c);
void sim_recovery_tick(struct sim *s, struct sim_client *c);
void sim_recovery_message(struct sim *s, struct sim_client *c, const struct sim_msg *msg);
void sim_recovery_replied(struct sim *s, struct sim_client *c, const struct mob_gcs_reply *reply);
/* And the master has heard where. */
bool sim_log_is_sealed(struct sim *s, uint64_t log);
void sim_check_recovered(struct sim *s, const struct sim_member *m, uint64_t log);
void sim_check_tasks(struct sim *s, const struct sim_member *m);
bool sim_tasks_whole(struct sim *s);
void sim_owner_scan(struct sim *s, struct sim_member *m, const struct sim_msg *msg);

#endif
