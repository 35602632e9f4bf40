/* The liveness of nodes and what becomes of their logs, simulated: between the files of nodesim
 * (nodesim_run.c says what is in it, and what must hold). One world, which a seed decides. */
#ifndef MOB_TESTS_SIM_NODESIM_H
#define MOB_TESTS_SIM_NODESIM_H

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"
#include "common/wire/gcs_msg.h"
#include "common/wire/home.h"
#include "common/wire/recover_row.h"
#include "gcs/chain/incarnation.h"
#include "gcs/chain/membership.h"
#include "gcs/chain/node_watch.h"
#include "tests/sim/nodesim_cover.h"

#define MS 1000000ll
#define TICK (10 * MS)
#define RUN_NS (4000 * MS) /* with faults */
#define HEAL_NS (6000 * MS) /* without */
#define MASTERS 2u /* of each shard */
#define SHARDS_MAX 3u
#define NODES_MAX (SHARDS_MAX + 2u) /* some shard is home to two */
#define LOGS_MAX 200u /* of a shard */
#define PROCESSES_MAX 400u
#define BLOCKS_MAX 320u /* of a log */
#define TASKS_MAX 512u
#define OWNED_MAX 96u
#define RECOVERED_MAX 40u /* logs that one incarnation recovers */
#define WRITES_MAX 160u
#define RECORDS_MAX 120u
#define TIDY_MAX 60u /* records that one incarnation looks at */
#define EVENTS_MAX 8192u
#define SILENCE (300 * MS)
#define BLOCKS_LEAST 60u /* with fewer a run means nothing */
#define PATIENCE (150 * MS)
#define ASK_AGAIN (60 * MS) /* what a chain has not answered */
#define QUIET (200 * MS) /* then no message is under way any more of whom is dead */

/* In the order of where they are read: masters, the table, chains, nodes. */
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
    AT_CHAIN_LIST, /* the incarnations of a node */
    AT_CHAIN_LEFT, /* what they have left unfinished */
    AT_CHAIN_RECORD, /* RECOVER: enum record_op */
    AT_CHAIN_RECOVERED,
    AT_CHAIN_RECORDS, /* all RECOVER records */
    AT_CHAIN_LOG, /* is it there, and RECOVERED? */
    AT_NODE_ENROLLED,
    AT_NODE_OVER,
    AT_NODE_APPENDED,
    AT_NODE_SEALED,
    AT_NODE_LISTED,
    AT_NODE_LEFT,
    AT_NODE_RECORD,
    AT_NODE_RECOVERED,
    AT_NODE_RECORDS,
    AT_NODE_LOG
};
enum table_op { TABLE_ROW = 1, TABLE_SET_ROW, TABLE_LOGS, TABLE_NOTE, TABLE_HOME };
enum record_op { RECORD_GET = 1, RECORD_PUT, RECORD_DELETE, RECORD_TIDY /* a DELETE as well */ };
enum nodesim_rule {
    NODESIM_RULE_NONE = 0,
    NODESIM_RULE_INDEX, /* the table refuses a second live incarnation of a node */
    NODESIM_RULE_HOME_SEAL, /* a seal is asked of the log's home */
    NODESIM_RULE_HOME_ID, /* an id names the home that gave it out */
    NODESIM_RULE_HOME_WATCH, /* a master reads and records the logs of its own shard only */
    NODESIM_RULE_HOME_KEPT, /* a node keeps its home over its lives */
    NODESIM_RULE_EARLIER, /* a node seals only logs that are earlier than its own */
    NODESIM_RULE_ALL_LOGS, /* what all earlier logs left unfinished is recovered, not what the last one did */
    NODESIM_RULE_TAKE_OVER, /* a RECOVER record is not taken from a later incarnation */
    NODESIM_RULE_RECORD, /* a RECOVER record is changed only as it was found */
    NODESIM_RULE_TIDY_STATE, /* one is tidied only if its log is RECOVERED, or is not there */
    NODESIM_RULE_TIDY_LISTED, /* and only as it was listed */
    /* A bug that this model had (docs/gcs-bugs.md). */
    NODESIM_RULE_OLD_ANSWERS /* answers of the history before are not heard when the chain starts again */
};
struct event {
    int64_t at;
    uint64_t order;
    uint32_t what; /* enum what */
    uint32_t shard; /* whose master, table row or chain this is from or to */
    uint32_t to, from; /* master or process */
    uint64_t a, b;
    uint64_t tag;
    enum mob_status status;
    uint32_t op, old_state; /* op: enum table_op, enum record_op */
    struct mob_master_row old_row, row;
    struct mob_node_log log;
    bool by_node; /* SEAL: not by a master */
    uint32_t asker; /* SEAL: the shard of that master, or of the log */
    uint64_t request, start, first_start; /* of a client's: which, in which life of the chain, and at first */
    struct mob_recover_row record;
    uint32_t count;
    struct mob_node_log *logs; /* LEFT: start is a task of log incarnation; RECORDS: the version */
    uint64_t home_start; /* LOG, RECORD_TIDY: the life of the chain that said so of the log */
    bool gone; /* RECORD_TIDY: the log is not there */
    struct mob_gcs_seal *seals;
};

/* ---- a shard: its chain as one object, its masters, its rows of the table ---- */

struct chain_log {
    uint64_t incarnation, blocks;
    uint32_t node;
    bool live, recovered;
    bool was_recovered; /* which was lost with everything: the next start recovers it again */
    int64_t recovered_at;
};
struct record {
    struct mob_recover_row row;
    uint64_t version;
    bool is_back; /* its removal was lost with everything: nobody knows of it */
    int64_t since; /* it is there as it is */
};
struct answered { /* a client's newest request, which is answered once */
    uint64_t request, version;
    enum mob_status status;
};
struct chain {
    struct chain_log logs[LOGS_MAX];
    uint32_t count;
    struct record records[RECORDS_MAX];
    uint32_t record_count;
    struct answered answered[PROCESSES_MAX];
    uint64_t seq; /* of records: their versions */
    uint64_t last_id;
};
struct master {
    bool up;
    uint32_t shard;
    int64_t paused_until, row_deadline, note_deadline, logs_deadline, home_deadline;
    struct mob_mastership mastership;
    enum mob_mastership_step step;
    struct mob_node_watch *watch;
    bool began;
    uint64_t tag, row_tag, note_tag, logs_tag, home_tag;
    struct mob_node_log homeless; /* whose home is asked for */
    uint32_t homeless_from;
    /* By nodesim_slot(). */
    uint64_t cuts[LOGS_MAX]; /* that the chain told it, + 1: its requests, which it keeps */
    bool sealing[LOGS_MAX];
    int64_t sealed_at[LOGS_MAX];
    struct mob_node_log registering;
    int64_t registered_at; /* 0: nothing is being registered */
};
struct shard {
    struct chain chain, disk; /* disk: what a power cut leaves */
    bool up;
    int64_t silent_until; /* it lost a member, and has no next configuration yet */
    uint64_t epoch, start;
    int64_t started_at; /* again */
    uint64_t ids[LOGS_MAX]; /* that it ever gave out, or that it was asked for */
    uint32_t id_count;
    bool
        expired[PROCESSES_MAX]; /* clients that did not answer when it started again, and have not heard so */
    bool was_expired[PROCESSES_MAX];
    struct master masters[MASTERS];
    int64_t disturbed_at; /* one of them was stopped, or died, until then */
    struct mob_master_row row;
    struct mob_node_log table[LOGS_MAX];
    uint32_t table_count;
};

/* ---- nodes ---- */

enum log_stage { /* of a sealed log that is recovered, as in runtime/node/recovery.c */
    LOG_SEALING,
    LOG_CLAIMING,
    LOG_LOOKING, /* who has the record? */
    LOG_TAKING, /* it over */
    LOG_TAKEN,
    LOG_ENDING,
    LOG_ENDED,
    LOG_REMOVING,
    LOG_SAYING, /* RECOVERED */
    LOG_OVER,
    LOG_LOST, /* the record is another's, or its fate is unknown */
    LOG_ASKING, /* a record that is not claimed: what is its log? */
    LOG_TIDYING
};
struct recovered {
    struct mob_recover_row row;
    uint64_t version;
    enum log_stage stage;
    uint64_t request, first_start; /* of this stage; 0: not asked yet */
    int64_t asked_at;
};
struct tidy { /* as in runtime/node/recovery_tidy.c */
    int64_t began;
    struct recovered rows[TIDY_MAX];
    uint32_t count, at;
    uint64_t home_start; /* of the row at `at` */
    bool gone;
    bool listed, whole; /* whole: no record that it had listed was left for the next start */
};
enum recovery_stage { RECOVERY_LIST, RECOVERY_CLAIM, RECOVERY_TIDY, RECOVERY_READ, RECOVERY_BEGUN };
struct recovery {
    enum recovery_stage stage;
    bool heard[SHARDS_MAX]; /* LIST, TIDY, READ: it has answered */
    int64_t asked_at[SHARDS_MAX];
    struct recovered logs[RECOVERED_MAX];
    uint32_t count;
    struct tidy tidy;
};
struct block {
    uint16_t task; /* 0: it says nothing of one */
    bool ends; /* else it begins */
};
struct owned {
    uint64_t log; /* where it begins */
    uint16_t task;
};
struct written { /* what a client keeps of what a chain has answered: RECOVERED or SEAL, or a record */
    uint32_t shard;
    uint64_t seq, request, log;
    bool removed, mark, recovered;
    uint64_t cut; /* of a SEAL */
    struct mob_recover_row row;
};
struct process {
    uint32_t node;
    uint32_t at; /* the shard whose masters it speaks with */
    uint64_t start, incarnation; /* 0: not enrolled */
    bool up;
    bool refused; /* another one that lives has the name */
    int64_t paused_until, next_beat, next_append;
    uint64_t acked;
    bool asking; /* an append is under way */
    int64_t asked_at;
    struct block blocks[BLOCKS_MAX]; /* what its log says */
    struct owned owned[OWNED_MAX]; /* tasks that it is to end */
    uint32_t owned_count;
    struct recovery recovery;
    uint64_t requests[SHARDS_MAX];
    struct recovered *busy[SHARDS_MAX]; /* one request of records at a time */
    struct written writes[WRITES_MAX];
    uint32_t write_count;
};
struct task {
    uint32_t node, seen; /* how often it was seen to end */
    bool lost; /* a block of it was lost with everything, and named: then nothing is said of it */
};

struct nodesim {
    uint64_t seed, rng[2];
    enum nodesim_rule without;
    bool trace, failed, stuck, healing;
    bool was_whole; /* and checked */
    uint64_t appended_until_then;
    int64_t quiet_since; /* nobody is left who is over; 0: somebody is */
    bool started_again; /* each node, once more */
    uint64_t before_that[NODES_MAX]; /* its incarnation */
    char why[400];
    uint64_t cover[NODESIM_COVERS], delivered, appended;
    int64_t now;
    uint64_t order;
    uint32_t shards, nodes;
    struct shard shard[SHARDS_MAX];
    uint32_t homes[NODES_MAX]; /* the table's, which all shards share; + 1 */
    uint64_t next_start;
    uint32_t process_count;
    int64_t start_at[NODES_MAX];
    uint64_t newest_given[NODES_MAX], newest_taken[NODES_MAX]; /* incarnations */
    struct task tasks[TASKS_MAX];
    uint32_t task_count; /* and one more: 0 is none */
    int64_t fault_at;
    uint32_t event_count;
    /* Written before they are read: a run does not clear them. */
    struct process processes[PROCESSES_MAX];
    struct event events[EVENTS_MAX];
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

/* nodesim_base.c: chance and messages */
void nodesim_count(enum nodesim_cover what);
uint64_t nodesim_draw(void);
uint64_t nodesim_below(uint64_t n);
bool nodesim_chance(double p);
void nodesim_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
void nodesim_put(struct event e, int64_t delay);
struct mob_node_log *nodesim_copy_of(const struct event *e);
void nodesim_send_event(struct event e, bool may_double);
/* nodesim_table.c */
struct mob_node_log *nodesim_table_row(uint64_t incarnation);
void nodesim_at_table(struct event *e);
/* nodesim_chain.c: a shard's chain */
uint32_t nodesim_home(uint64_t incarnation);
uint32_t nodesim_slot(uint32_t shard, uint64_t incarnation);
struct chain_log *nodesim_chain_log(struct chain *c, uint64_t incarnation);
bool nodesim_answers(uint32_t shard);
void nodesim_at_chain(struct event *e);
void nodesim_chain_dies(uint32_t shard);
void nodesim_at_chain_book(uint32_t shard, struct event *e);
/* nodesim_record.c: what it has for those who recover */
uint32_t nodesim_record_shard(uint64_t log);
void nodesim_at_chain_recovery(struct event *e, struct event *answer);
void nodesim_records_come_back(uint32_t shard, struct chain *before);
/* nodesim_task.c: what blocks say */
struct process *nodesim_process_of(uint64_t incarnation);
void nodesim_task_next_block(struct process *p);
void nodesim_task_acked(struct process *p, uint64_t number);
void nodesim_task_own(struct process *p, uint16_t task, uint64_t log);
uint32_t nodesim_tasks_left(const struct chain *c, uint32_t node, struct mob_node_log *out, uint32_t max);
void nodesim_tasks_lost(const struct process *p, uint64_t from, uint64_t to);
void nodesim_check_ended(const struct mob_recover_row *row);
void nodesim_check_recovered(const struct chain *c, const struct chain_log *log);
void nodesim_check_tidied(const struct record *r, const struct event *e);
struct process *nodesim_live_process(uint32_t node);
bool nodesim_tasks_whole(void);
void nodesim_check_whole(void);
void nodesim_check_tidy(void);
void nodesim_trace_what_is_left(void);
/* nodesim_recover.c: a node's side */
void nodesim_recovery_tick(struct process *p);
void nodesim_recovery_heard(struct process *p, struct event *e);
bool nodesim_recovers(const struct process *p);
void nodesim_ask(struct process *p, struct event e);
void nodesim_ask_all(struct process *p, enum what what);
bool nodesim_heard_all(struct process *p);
void nodesim_ask_record(struct process *p, struct recovered *log, enum record_op op);
void nodesim_ask_home(struct process *p, struct recovered *log, enum what what);
struct recovered *nodesim_recovered_log(struct process *p, uint64_t incarnation);
void nodesim_keep(struct process *p, struct written w);
/* nodesim_tidy.c: records that are of no use */
bool nodesim_tidy_tick(struct process *p);
void nodesim_tidy_heard(struct process *p, struct event *e);
struct recovered *nodesim_tidies(struct process *p);
/* nodesim_run.c */
void nodesim_run(const struct sim_setup *setup, struct sim_result *result_out);
void nodesim_kill_process(struct process *p);
/* nodesim_fault.c */
void nodesim_fault(void);
void nodesim_fault_of_recovery(void);
/* nodesim_master.c */
struct process *nodesim_newest_process(uint32_t node);
void nodesim_start_next(const struct process *p, int64_t delay);
void nodesim_master_tick(struct master *m);
void nodesim_at_master(struct event *e);
void nodesim_master_start(struct master *m);

#endif
