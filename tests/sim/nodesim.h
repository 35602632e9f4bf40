/* The liveness of nodes, simulated: between the files of nodesim (nodesim_run.c). One world, which a seed
 * decides. */
#ifndef MOB_TESTS_SIM_NODESIM_H
#define MOB_TESTS_SIM_NODESIM_H

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"
#include "gcs/chain/membership.h"
#include "gcs/chain/node_watch.h"
#include "tests/sim/nodesim_cover.h"

#define MS 1000000ll
#define TICK (10 * MS)
#define RUN_NS (4000 * MS) /* with faults */
#define HEAL_NS (6000 * MS) /* without */
#define MASTERS 2u
#define NODES 3u
#define LOGS_MAX 200u
#define PROCESSES_MAX 200u
#define EVENTS_MAX 8192u
#define SILENCE (300 * MS)
#define BLOCKS_LEAST 60u /* with fewer a run means nothing */
#define PATIENCE (150 * MS)

enum what {
    AT_MASTER_ENROLL = 1,
    AT_MASTER_BEAT,
    AT_MASTER_GONE, /* a link was closed */
    AT_MASTER_TABLE, /* its answer */
    AT_MASTER_CUT,
    AT_MASTER_REGISTERED,
    AT_TABLE,
    AT_CHAIN_SEAL,
    AT_CHAIN_REGISTER,
    AT_CHAIN_APPEND,
    AT_NODE_ENROLLED,
    AT_NODE_OVER,
    AT_NODE_APPENDED
};
enum table_op { TABLE_ROW = 1, TABLE_SET_ROW, TABLE_LOGS, TABLE_NOTE };
enum nodesim_rule {
    NODESIM_RULE_NONE = 0,
    NODESIM_RULE_INDEX /* the table refuses a second live incarnation of a node */
};
struct event {
    int64_t at;
    uint64_t order;
    uint32_t what; /* enum what */
    uint32_t to, from; /* master or process */
    uint64_t a, b;
    uint64_t tag;
    enum mob_status status;
    uint32_t op, old_state; /* op: enum table_op */
    struct mob_master_row old_row, row;
    struct mob_node_log log;
    uint32_t count;
    struct mob_node_log *logs;
    struct mob_gcs_seal *seals;
};
struct chain_log {
    uint64_t incarnation, blocks;
    uint32_t node;
    bool live, given; /* given: some process has heard that it is its */
};
struct chain {
    struct chain_log logs[LOGS_MAX];
    uint32_t count;
};
struct process {
    uint32_t node;
    uint64_t start, incarnation; /* 0: not enrolled */
    bool up;
    bool refused; /* another one that lives has the name */
    int64_t paused_until, next_beat, next_append;
    uint64_t acked;
    bool asking; /* an append is under way */
    int64_t asked_at;
};
struct master {
    bool up;
    int64_t paused_until, row_deadline, note_deadline, logs_deadline;
    struct mob_mastership mastership;
    enum mob_mastership_step step;
    struct mob_node_watch *watch;
    bool began;
    uint64_t tag, row_tag, note_tag, logs_tag;
    uint64_t cuts[LOGS_MAX]; /* that the chain told it, + 1: its requests, which it keeps */
    bool sealing[LOGS_MAX];
    int64_t sealed_at[LOGS_MAX];
    struct mob_node_log registering;
    int64_t registered_at; /* 0: nothing is being registered */
};

struct nodesim {
    uint64_t seed, rng[2];
    bool trace, failed, stuck, healing, without_index;
    char why[400];
    uint64_t cover[NODESIM_COVERS], delivered, appended;
    int64_t now;
    uint64_t order;
    struct event events[EVENTS_MAX];
    uint32_t event_count;
    struct master masters[MASTERS];
    struct mob_master_row row;
    struct mob_node_log table[LOGS_MAX];
    uint32_t table_count;
    struct chain chain, disk; /* disk: what a power cut leaves */
    bool chain_up;
    uint64_t next_incarnation, next_start;
    struct process processes[PROCESSES_MAX];
    uint32_t process_count;
    int64_t start_at[NODES];
    uint64_t newest_given[NODES], newest_taken[NODES]; /* incarnations */
    int64_t fault_at;
};
extern struct nodesim world;

#define TRACE(...) \
    do { \
        if (world.trace) { \
            printf("%6lld ", (long long)(world.now / MS)); \
            printf(__VA_ARGS__); \
            printf("\n"); \
        } \
    } while (0)

/* nodesim_chain.c: chance, messages, the table, and the home chain as one object */
void nodesim_run(const struct sim_setup *setup, struct sim_result *result_out);
void nodesim_count(enum nodesim_cover what);
uint64_t nodesim_draw(void);
uint64_t nodesim_below(uint64_t n);
bool nodesim_chance(double p);
void nodesim_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
void nodesim_put(struct event e, int64_t delay);
struct mob_node_log *nodesim_copy_of(const struct event *e);
void nodesim_send_event(struct event e, bool may_double);
struct mob_node_log *nodesim_table_row(uint64_t incarnation);
struct chain_log *nodesim_chain_log(struct chain *c, uint64_t incarnation);
void nodesim_at_table(struct event *e);
void nodesim_at_chain(struct event *e);
void nodesim_at_chain_book(struct event *e);
/* nodesim_run.c */
void nodesim_kill_process(struct process *p);
/* nodesim_master.c */
struct process *nodesim_newest_process(uint32_t node);
void nodesim_start_next(const struct process *p, int64_t delay);
void nodesim_master_tick(struct master *m);
void nodesim_at_master(struct event *e);
void nodesim_master_start(struct master *m);

#endif
