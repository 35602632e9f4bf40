/* A run as a whole: the parts of the simulator, and what they share. */
#ifndef MOB_TESTS_SIM_SIM_WORLD_H
#define MOB_TESTS_SIM_SIM_WORLD_H

#include "tests/sim/sim_check.h"
#include "tests/sim/sim_client.h"
#include "tests/sim/sim_core.h"
#include "tests/sim/sim_faults.h"
#include "tests/sim/sim_history.h"
#include "tests/sim/sim_master.h"
#include "tests/sim/sim_net.h"

struct sim_plan { /* drawn from the seed */
    uint32_t replicas, slots, clients;
    int64_t duration, fault_every;
    double faults[SIM_FAULT_KINDS]; /* weights */
    double dies_between; /* in the middle of a pass */
    enum mob_gcs_durability durability;
    int64_t sync_every, store_low, store_high;
    int64_t restart_low, restart_high;
};
struct sim_answer {
    uint64_t seq, client, request;
};
struct sim_named { /* who a client id belongs to */
    uint64_t client;
    uint8_t node;
    uint32_t life;
};
struct sim {
    struct sim_setup setup;
    struct sim_result *result;
    struct sim_plan plan;
    uint64_t rng[4];
    int64_t now;
    struct sim_event *heap;
    size_t heap_count, heap_capacity;
    uint64_t next_order;
    struct sim_node nodes[SIM_NODES_MAX];
    uint32_t node_count;
    struct sim_net net;
    struct sim_member members[SIM_SLOTS_MAX];
    struct sim_master masters[SIM_MASTERS];
    struct sim_database database;
    struct sim_client clients[SIM_CLIENTS_MAX];
    struct sim_named *named;
    size_t named_count, named_capacity;
    uint64_t next_store, next_value;
    uint32_t muted; /* links that sim_mute has chosen */
    bool healing; /* no more faults; everything must become whole */

    struct sim_op *history;
    size_t history_count, history_capacity;
    bool tainted[SIM_KEYS];

    /* Of the chain as it is since it was last started. */
    struct {
        uint64_t seq, digest;
    } replied;
    uint64_t started_seq; /* what the newest start had */
    struct sim_answer *answers; /* everything that was replied, but what is lost and named */
    size_t answer_count, answer_capacity;
    uint32_t next_task;
    uint32_t task_seen[SIM_TASKS_MAX]; /* how often the world outside saw it end */
    bool task_dropped[SIM_TASKS_MAX]; /* some record of it went with its job */
    bool tasks_tainted; /* something was lost with everything, and named: records may be missing */
    uint64_t dead_logs[SIM_SEALS_MAX]; /* whose node died, not sealed yet */
    uint32_t dead_log_count;
    struct sim_block *dropped; /* with their jobs */
    size_t dropped_count, dropped_capacity;
    struct sim_lost { /* answers that did not come back, until it is checked that they are named */
        struct sim_answer answer;
        bool alive, known; /* its client answered; it was in the tables */
    } * lost;
    size_t lost_count, lost_capacity;
    struct sim_answer *gone; /* answers that clients heard, and that an earlier start did not get back */
    size_t gone_count, gone_capacity;
    size_t gone_for_good; /* so many of them before that start answered somebody */
    struct sim_registered { /* which request a log is from */
        uint64_t log, client, request;
    } * registered;
    size_t registered_count, registered_capacity;
    struct sim_version { /* which write has it; all that ever were, of those that were lost too */
        uint64_t version, client, request;
    } * versions;
    size_t version_count, version_capacity;
    uint64_t *excused; /* logs whose node, or who registered them, was not there to send again */
    size_t excused_count, excused_capacity;
};
uint8_t sim_node_of_member(uint64_t member_id);
void sim_name_client(struct sim *s, uint64_t client, uint8_t node);
/* The node behind a client id or nonce; 255: none. */
uint8_t sim_node_of_client(const struct sim *s, uint64_t client);

#endif
