/* The flusher, which moves blocks to the database, and what is to hold there: sim_flush.c. Part of the
 * simulator (sim_world.h). */
#ifndef MOB_TESTS_SIM_SIM_FLUSH_H
#define MOB_TESTS_SIM_SIM_FLUSH_H

#include "tests/sim/sim_sub.h"

enum sim_flush_state { SIM_FLUSH_NONE, SIM_FLUSH_ASKS, SIM_FLUSH_OPENS, SIM_FLUSH_RUNS };
struct sim_flusher {
    enum sim_flush_state state;
    uint64_t tag;
    int64_t next_at, give_up_at;
    uint64_t flushed, flushed_rows; /* by the members */
    uint64_t written, rows; /* in the database */
    struct sim_block *batch; /* gathered, not written */
    size_t batch_count, batch_capacity, writing; /* blocks of it that are being written; 0: none are */
    bool busy;
    uint64_t write_upto;
    uint64_t request, request_upto, request_rows; /* FLUSH under way; 0: none is */
    struct sim_sub stream;
};
void sim_flusher_start(struct sim *s, struct sim_client *c);
void sim_flusher_stop(struct sim_client *c);
void sim_flusher_tick(struct sim *s, struct sim_client *c);
/* Everything had died. */
void sim_flusher_started(struct sim *s, struct sim_client *c);
void sim_flusher_message(struct sim *s, struct sim_client *c, const struct sim_msg *msg);
/* FLUSH was answered; reply NULL: it never will be. */
void sim_flusher_flushed(struct sim *s, struct sim_client *c, const struct mob_gcs_reply *reply);
/* A FLUSH is about to be applied by a member: what it drops is in the database. */
void sim_check_flush(struct sim *s, const struct sim_member *m, const struct mob_chain_entry *e);
void sim_check_dropped(struct sim *s, const struct sim_member *m, const struct mob_chain_entry *e);
bool sim_was_dropped(const struct sim *s, const struct sim_block *block);
const struct sim_block *sim_cold_find(const struct sim *s, uint64_t seq);
/* The database has what the members dropped and nothing else, each block once and at its place. */
void sim_check_cold(struct sim *s, const struct sim_member *head);

#endif
