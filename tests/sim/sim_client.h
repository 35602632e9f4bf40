/* Clients, nodes with their logs, subscribers and flushers: sim_client.c. Part of the simulator
 * (sim_world.h). */
#ifndef MOB_TESTS_SIM_SIM_CLIENT_H
#define MOB_TESTS_SIM_SIM_CLIENT_H

#include "tests/sim/sim_flush.h"
#include "tests/sim/sim_recover.h"
#include "tests/sim/sim_stream.h"
#include "tests/sim/sim_sub.h"

/* Request number of the block. */
uint64_t sim_client_append(struct sim *s, struct sim_client *c, const struct sim_record *record);
struct sim_get {
    bool active, by_chain;
    uint64_t tag;
    uint32_t key;
    size_t history;
    int64_t sent_at;
};
#define SIM_GETS 4u
struct sim_client {
    struct sim_node *node;
    uint8_t number; /* node number */
    struct sim_stream keys, log;
    bool has_log;
    uint32_t window;
    double get_share;
    int64_t think_until, think_ns, ask_at, leave_at; /* leave_at: its program ends well */
    struct mob_gcs_config config;
    uint64_t floor_epoch; /* nothing is heard from links that were closed: those of older chains that died */
    uint64_t durable;
    struct sim_get gets[SIM_GETS];
    uint64_t next_tag;
    uint64_t known_version[SIM_KEYS];
    uint64_t operations;
    uint64_t log_registering; /* request of the REGISTER under way */
    bool watches, flushes;
    struct sim_sub watch;
    struct sim_flusher flusher;
    struct sim_task *tasks;
    size_t task_count, task_capacity;
    struct sim_recovery recovery;
    uint64_t sealing, sealing_log; /* request of the SEAL under way, and what it seals */
    uint64_t overtaken; /* the log that it had when that last happened */
};
void sim_client_start(struct sim *s, struct sim_client *c);
void sim_client_stop(struct sim *s, struct sim_client *c);
void sim_client_message(struct sim *s, struct sim_client *c, const struct sim_msg *msg);
void sim_client_tick(struct sim *s, struct sim_client *c);
void sim_client_fini(struct sim_client *c);
bool sim_client_idle(const struct sim_client *c);
struct sim_request *sim_client_submit(struct sim *s, struct sim_client *c, const struct mob_gcs_request *head,
    const void *body, uint32_t bytes);
/* Another client has that log sealed, though its node lives; false: none could be asked to. */
bool sim_client_seal_of(struct sim *s, const struct sim_client *owner);
uint64_t sim_block_hash(uint64_t incarnation, uint64_t number);

#endif
