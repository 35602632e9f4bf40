/* The deterministic simulator of the control store (GCS.md "Invariants").
 *
 * One seed is one exact run: members with the real gcs/chain machine on virtual disks, two masters with the
 * real membership machine, a database with compare-and-set, clients and node logs, all on a virtual network
 * that delays, loses, doubles, reorders and cuts, with clocks that drift, and everything that can die or stop
 * does. After each step the invariants are asserted; at the end everything is healed, must become whole
 * again, and each key's history is checked to be linearizable.
 *
 *   struct sim_result result;
 *   sim_run(&(struct sim_setup){.seed = 7}, &result);
 *
 * Nothing here reads a clock, a file or an address: only the seed decides. Single-threaded; several runs at
 * once take several processes (sim_main.c).
 */
#ifndef MOB_TESTS_SIM_SIM_H
#define MOB_TESTS_SIM_SIM_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gcs/chain/chain.h"
#include "gcs/chain/membership.h"
#include "gcs/chain/chain_stream.h"
#include "tests/sim/sim_cover.h"

#define SIM_US 1000ll
#define SIM_MS 1000000ll
#define SIM_SLOTS_MAX 6u
#define SIM_MASTERS 2u
#define SIM_CLIENTS_MAX 5u
#define SIM_NODES_MAX (SIM_SLOTS_MAX + SIM_MASTERS + 1u + SIM_CLIENTS_MAX)
#define SIM_KEYS 6u
#define SIM_EPOCHS_MAX 1024u
#define SIM_SEALS_MAX 24u
#define SIM_SUBS_MAX 16u /* at one member */
#define SIM_BASES_MAX 16u
#define SIM_TASKS_MAX 256u
#define SIM_TAG_RECOVERY 255u /* low byte of the tag of a question: not one of the gets */

struct sim;
/* Rules of processes beside the chain's machine, which a run may leave out; those of the machine are left out
 * by building it without them (gcs/chain/chain_rules.h). */
enum sim_rule {
    SIM_RULE_NONE = 0,
    SIM_RULE_WATERMARK, /* a batch is written only if the watermark is where its flusher found it */
    SIM_RULE_DURABLE, /* only blocks that are durable at the members are written */
    SIM_RULE_SESSION, /* a flusher begins anew after everything died */
    SIM_RULE_CUT, /* a log is recovered only when it is sealed */
    SIM_RULE_ACCEPT, /* the new owner's log says so first */
    SIM_RULE_TAKEOVER /* who recovers is replaced when it is dead */
};
struct sim_setup {
    uint64_t seed;
    enum sim_rule without;
    bool trace;
};
struct sim_result {
    bool failed; /* `why` says which rule was broken, and when */
    bool stuck; /* that rule: after all faults have ended everything is whole again */
    bool is_void; /* too little happened to mean anything */
    char why[512];
    uint64_t events, operations; /* operations: answered to clients */
    int64_t virtual_ns;
    uint64_t cover[SIM_COVERS];
};
void sim_run(const struct sim_setup *setup, struct sim_result *result_out);

/* ---- everything below is inside ---- */

/* ---- sim_core.c: random numbers, time, events ---- */

enum sim_node_kind { SIM_MEMBER, SIM_MASTER, SIM_DATABASE, SIM_CLIENT };
/* A process slot: what may be killed, stopped and cut off. */
struct sim_node {
    enum sim_node_kind kind;
    uint32_t index; /* among its kind */
    uint32_t life; /* events for an older one are void */
    bool up;
    int64_t paused_until;
    int64_t clock_offset;
    double clock_rate;
};

enum sim_event_type {
    SIM_EV_MESSAGE,
    SIM_EV_TICK, /* of a process */
    SIM_EV_HEARTBEAT,
    SIM_EV_STORED, /* the store of a member answered; a = write number */
    SIM_EV_SYNC, /* a member's disk: a sync begins or ends */
    SIM_EV_ROWS, /* the owner's rows of a snapshot are read */
    SIM_EV_RESTART, /* a process slot gets a new life */
    SIM_EV_FAULT,
    SIM_EV_HEAL
};
struct sim_msg;
struct sim_event {
    int64_t at;
    uint64_t order;
    uint8_t type; /* enum sim_event_type */
    uint8_t node;
    uint32_t life; /* of the node; 0 = any */
    uint64_t a;
    struct sim_msg *message;
};

uint64_t sim_random(struct sim *s);
uint64_t sim_below(struct sim *s, uint64_t n);
int64_t sim_between(struct sim *s, int64_t low, int64_t high);
bool sim_chance(struct sim *s, double p);
void sim_at(struct sim *s, int64_t delay, struct sim_event event);
/* A node's own monotonic clock. */
int64_t sim_clock(const struct sim *s, const struct sim_node *node);
void sim_cover_add(struct sim *s, enum sim_cover what);
/* A rule is broken: ends the run. */
_Noreturn void sim_fail(struct sim *s, const char *format, ...) __attribute__((format(printf, 2, 3)));
void sim_trace(struct sim *s, const char *format, ...) __attribute__((format(printf, 2, 3)));
#define SIM_TRACE(s, ...) \
    do { \
        if (sim_traces(s)) \
            sim_trace((s), __VA_ARGS__); \
    } while (0)
bool sim_traces(const struct sim *s);
#define SIM_CHECK(s, condition, ...) \
    do { \
        if (!(condition)) \
            sim_fail((s), __VA_ARGS__); \
    } while (0)

/* ---- sim_net.c ---- */

enum sim_msg_type {
    SIM_CHAIN = 1, /* frame between members */
    SIM_PUT, /* client to head: body = the request's */
    SIM_REPLY,
    SIM_NACK, /* and answer to WHERE, and the master's push: config */
    SIM_GAP,
    SIM_EXPIRED,
    SIM_ATTACH,
    SIM_ATTACHED,
    SIM_RESENT,
    SIM_GET,
    SIM_VALUE,
    SIM_WHERE,
    SIM_REPORT,
    SIM_LEASE,
    SIM_JOIN,
    SIM_DB,
    SIM_DB_ANSWER,
    SIM_SUB, /* client to tail: a = after, b = epoch of that history, tag = this attempt */
    SIM_BLOCK, /* a = after, b = how many blocks of this attempt were sent before; body = struct sim_block */
    SIM_RESYNC, /* a = after, b = as above, c = next */
    SIM_STATS, /* what has been flushed? */
    SIM_STATS_ANSWER, /* a = durable, b = flushed, c = rows flushed so far */
    SIM_SCAN, /* a = log: its blocks */
    SIM_ROWS, /* body = struct sim_block... */
    SIM_MSG_TYPES
};
enum sim_db_op {
    SIM_DB_ROW = 1,
    SIM_DB_SET_ROW,
    SIM_DB_NEWEST,
    SIM_DB_INSERT,
    SIM_DB_WATERMARK, /* answer: b = watermark, c = rows */
    SIM_DB_ROWS, /* b = log; answer: body = its blocks */
    SIM_DB_WRITE /* b = after, c = upto, body = blocks: moves the watermark and inserts them, or CONFLICT */
};
struct sim_msg {
    uint8_t type; /* enum sim_msg_type */
    uint8_t from, to; /* nodes */
    uint64_t epoch, client, tag;
    uint64_t a, b, c;
    uint32_t status;
    union {
        struct mob_gcs_request request;
        struct mob_gcs_reply reply;
        struct mob_gcs_config config;
        struct mob_member_report report;
        struct mob_gcs_attach attach;
        struct mob_gcs_attached attached;
        struct {
            struct mob_master_row old_row, new_row;
        } row;
    };
    uint32_t body_bytes; /* of a configuration: struct sim_seal..., of a start */
    uint8_t body[];
};
/* A log that the master has had sealed. */
struct sim_seal {
    uint64_t incarnation, cut; /* UINT64_MAX: nobody has heard it yet */
    bool recovered;
};
struct sim_msg *sim_msg_create(
    uint8_t type, uint32_t from, uint32_t to, const void *body, uint32_t body_bytes);
/* Takes the message. */
void sim_send(struct sim *s, struct sim_msg *message);
struct sim_net {
    double loss, doubling, reordering, corruption;
    int64_t delay_low, delay_high;
    int64_t cut_until[SIM_NODES_MAX][SIM_NODES_MAX]; /* from, to */
    int64_t last_at[SIM_NODES_MAX][SIM_NODES_MAX]; /* links keep their order unless told otherwise */
};

/* ---- sim_disk.c: what a member's Redis holds ---- */

struct sim_key {
    uint8_t table;
    uint32_t key_length, value_length;
    uint64_t version;
    uint8_t *bytes; /* key, then value */
};
/* What a block says of a task. */
enum sim_record_kind { SIM_RECORD_NONE = 0, SIM_RECORD_SPEC, SIM_RECORD_ACCEPT, SIM_RECORD_DONE };
struct sim_record {
    uint32_t task, attempt;
    uint32_t kind; /* enum sim_record_kind */
};
struct sim_block {
    uint64_t seq, incarnation, number, hash;
    struct sim_record record;
    uint32_t zero;
};
struct sim_disk_client {
    uint64_t id, last;
    struct mob_gcs_reply replies[MOB_GCS_WINDOW];
};
/* Contents after some number of writes. */
struct sim_image {
    uint64_t epoch, seq; /* of the newest entry */
    uint64_t member; /* whose store it is: the last start of it; 0 = never formatted */
    bool synced;
    uint64_t part_epoch; /* the newest in which it was synced */
    uint64_t flushed;
    struct { /* the newest FLUSH, and how many rows all of them told of: the owner's notes */
        uint64_t upto, rows;
    } notes;
    struct mob_chain_stream_base bases[SIM_BASES_MAX];
    uint32_t base_count;
    struct sim_key *keys;
    size_t key_count, key_capacity;
    struct sim_block *blocks;
    size_t block_count, block_capacity;
    struct sim_disk_client *clients;
    size_t client_count, client_capacity;
    struct mob_gcs_incarnation *incarnations;
    size_t incarnation_count, incarnation_capacity;
};
/* What a member keeps besides tables and blocks. As a row of a snapshot it has another size than a block. */
struct sim_notes {
    uint64_t upto, rows;
    struct mob_chain_stream_base bases[SIM_BASES_MAX];
    uint64_t base_count;
};
_Static_assert(sizeof(struct sim_notes) != sizeof(struct sim_block), "told apart by their size");
enum sim_write_type { SIM_WRITE_ENTRY, SIM_WRITE_ROWS, SIM_WRITE_WIPE, SIM_WRITE_META, SIM_WRITE_BASE };
struct sim_write {
    enum sim_write_type type;
    struct mob_chain_entry entry; /* body and drops copied */
    uint8_t *bytes;
    uint32_t length;
    uint64_t member, seq, part_epoch; /* META; seq of a snapshot's end, 0 = as it is */
    struct mob_chain_stream_base base; /* BASE */
    bool synced;
};
/* Writes [0, durable) survive a power cut, those up to `stored` were answered. `image` holds [0, folded). */
struct sim_disk {
    struct sim_image image;
    struct sim_write *writes;
    size_t count, capacity, first; /* writes[i] is number first + i */
    uint64_t stored, durable, folded, submitted;
    int64_t last_answer_at;
};
void sim_disk_write(struct sim_disk *d, const struct sim_write *write); /* takes bytes */
/* The process or the machine ended: everything from write number `cut` on is gone. */
void sim_disk_cut(struct sim_disk *d, uint64_t cut);
void sim_disk_wipe(struct sim_disk *d);
void sim_disk_fini(struct sim_disk *d);
void sim_image_apply_entry(struct sim_image *i, const struct mob_chain_entry *e);
void sim_image_add_base(struct sim_image *i, const struct mob_chain_stream_base *base);
struct sim_notes sim_image_notes(const struct sim_image *i);
void sim_image_apply_rows(struct sim_image *i, const uint8_t *rows, uint32_t length);
void sim_image_clear(struct sim_image *i);
void sim_image_copy(struct sim_image *to, const struct sim_image *from); /* to an empty one */
/* Contents that a client can see are equal. */
bool sim_image_same_blocks(const struct sim_image *a, const struct sim_image *b);

/* ---- sim_member.c ---- */

struct sim_hist {
    uint64_t seq, digest;
};
struct sim_read { /* waits until what it saw is committed */
    uint64_t gate, client, tag, version, value, more; /* more: the value's next 8 bytes */
    uint32_t status;
    uint8_t node;
    bool by_chain;
};
struct sim_client_seen {
    uint64_t client;
    int64_t heard_ns; /* true time */
    uint64_t last_request; /* in this life's history */
    bool answered; /* collecting */
    bool awaited;
};
struct sim_subscriber {
    uint8_t node;
    uint64_t tag, after, sent;
};
struct hold;
struct sim_member {
    struct sim *sim;
    struct sim_node *node;
    uint32_t slot;
    uint64_t id;
    struct mob_state *state;
    struct mob_chain *chain;
    struct sim_disk disk; /* survives the process */
    struct sim_image memory; /* what the owner keeps: blocks and keys as its Redis will have them */
    uint64_t stored_epoch, stored_seq;
    bool stored_synced, formatted;
    uint64_t written_seq; /* newest seq that the store answered */
    uint64_t sync_number, sync_seq; /* of the sync under way */
    int64_t heard_ns[SIM_MASTERS];
    uint64_t wiped_at; /* writes below this number are of what was forgotten */
    bool told_synced; /* META with synced was written */
    uint64_t synced_write; /* its number + 1 */

    struct sim_hist *hist;
    size_t hist_count, hist_capacity;
    uint64_t base_seq, base_digest;
    uint64_t seen_epoch, seen_committed;

    struct sim_read *reads;
    size_t read_count, read_capacity;
    struct sim_client_seen *clients;
    size_t client_count, client_capacity;
    int64_t collect_since, collect_until;
    struct sim_subscriber subs[SIM_SUBS_MAX];
    uint32_t sub_count;
    struct hold *holds; /* memory that the machine has not given back */
    int64_t expire_check;
    struct {
        uint64_t joiner, token;
        uint8_t cursor[16];
        uint32_t cursor_bytes;
    } rows;
};
void sim_member_start(struct sim *s, struct sim_member *m);
void sim_member_stop(struct sim *s, struct sim_member *m);
void sim_member_message(struct sim *s, struct sim_member *m, const struct sim_msg *msg);
void sim_member_event(struct sim *s, struct sim_member *m, const struct sim_event *event);
void sim_member_fini(struct sim_member *m);
/* The process ends by itself, and its supervisor starts it again. */
void sim_member_ends(struct sim *s, struct sim_member *m);
/* sim_owner.c: reads, clients' comings and goings, collecting, rows of a snapshot. */
void sim_owner_get(struct sim *s, struct sim_member *m, const struct sim_msg *msg);
void sim_owner_chain_read(struct sim *s, struct sim_member *m, const struct mob_gcs_link_msg *read);
void sim_owner_committed(struct sim *s, struct sim_member *m);
void sim_owner_attach(struct sim *s, struct sim_member *m, const struct sim_msg *msg);
void sim_owner_resent(struct sim *s, struct sim_member *m, const struct sim_msg *msg);
void sim_owner_tick(struct sim *s, struct sim_member *m);
void sim_owner_state(struct sim *s, struct sim_member *m, enum mob_chain_state from, enum mob_chain_state to);
void sim_owner_rows(struct sim *s, struct sim_member *m);
struct sim_client_seen *sim_owner_client(struct sim *s, struct sim_member *m, uint64_t client);
void sim_member_drain(struct sim *s, struct sim_member *m);

/* ---- sim_stream.c: one sequence of requests, of a client or a log ---- */

enum sim_stream_state { SIM_STREAM_NEW, SIM_STREAM_ATTACHING, SIM_STREAM_READY };
struct sim_request {
    struct mob_gcs_request head;
    uint8_t *body;
    uint32_t body_bytes;
    bool answered, sent;
    int64_t sent_at;
    uint64_t seq;
    size_t history; /* index + 1, or 0 */
};
struct sim_stream {
    uint8_t node;
    bool is_log;
    enum sim_stream_state state;
    uint64_t client; /* 0: none yet */
    uint64_t nonce;
    struct sim_request *kept; /* oldest first */
    size_t count, capacity;
    uint64_t next; /* request number */
    uint64_t answered; /* all up to here */
    int64_t attach_at, gap_at;
    uint64_t attach_tag, attach_answered; /* of the last ATTACH */
    uint64_t cut; /* log: sealed there; UINT64_MAX while it lives */
};

/* ---- sim_sub.c: streams of committed blocks, at both ends ---- */

/* One subscription of a client. Each attempt has a tag of its own, and what does not come in the order in
 * which it was sent breaks it, like a link. */
struct sim_sub {
    bool on, of_flusher;
    uint64_t tag, after, epoch, got; /* got: frames of this attempt */
    uint8_t at; /* node that served it last */
    int64_t heard_at;
    struct sim_block *blocks; /* that it gave, but what was said to be void since */
    size_t count, capacity;
    struct sim_hole { /* (after, next) was said to be missing */
        uint64_t after, next;
    } * holes;
    size_t hole_count, hole_capacity;
};
struct sim_client;
void sim_sub_start(struct sim *s, struct sim_client *c, struct sim_sub *sub, uint64_t after);
void sim_sub_stop(struct sim_sub *sub);
void sim_sub_tick(struct sim *s, struct sim_client *c, struct sim_sub *sub);
void sim_sub_config(struct sim *s, struct sim_client *c, struct sim_sub *sub);
/* BLOCK or RESYNC. True: it was taken, and is the next of the stream. */
bool sim_sub_message(struct sim *s, struct sim_client *c, struct sim_sub *sub, const struct sim_msg *msg);
/* All that was committed and is not named as missing has been seen, as it is. */
void sim_sub_check(struct sim *s, const struct sim_sub *sub, const struct sim_member *head);
/* It has all that this member has. */
bool sim_sub_is_whole(const struct sim_sub *sub, const struct sim_member *head);
void sim_owner_subscribe(struct sim *s, struct sim_member *m, const struct sim_msg *msg);
void sim_owner_feed(struct sim *s, struct sim_member *m);
void sim_owner_stats(struct sim *s, struct sim_member *m, const struct sim_msg *msg);
/* After collecting: the history is that of before only up to there. */
void sim_owner_add_base(struct sim *s, struct sim_member *m);

/* ---- sim_flush.c: the flusher, which moves blocks to the database ---- */

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
/* Another configuration than that of `before` was heard of. */
void sim_flusher_config(struct sim *s, struct sim_client *c, uint64_t before);
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

/* ---- sim_recover.c: tasks in node logs, and the recovery of a sealed one ---- */

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
void sim_check_recovered(struct sim *s, const struct sim_member *m, uint64_t log);
void sim_check_tasks(struct sim *s, const struct sim_member *m);
bool sim_tasks_whole(struct sim *s);
void sim_owner_scan(struct sim *s, struct sim_member *m, const struct sim_msg *msg);

/* ---- sim_client.c ---- */

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
    int64_t think_until, think_ns, ask_at;
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
};
void sim_client_start(struct sim *s, struct sim_client *c);
void sim_client_stop(struct sim *s, struct sim_client *c);
void sim_client_message(struct sim *s, struct sim_client *c, const struct sim_msg *msg);
void sim_client_tick(struct sim *s, struct sim_client *c);
void sim_client_fini(struct sim_client *c);
bool sim_client_idle(const struct sim_client *c);
/* From sim_stream.c. */
void sim_stream_reset(struct sim *s, struct sim_stream *st);
void sim_stream_fini(struct sim_stream *st);
struct sim_request *sim_stream_add(
    struct sim_stream *st, const struct mob_gcs_request *head, const void *body, uint32_t body_bytes);
struct sim_request *sim_stream_find(struct sim_stream *st, uint64_t request);
size_t sim_stream_unanswered(const struct sim_stream *st);
void sim_stream_tick(struct sim *s, struct sim_client *c, struct sim_stream *st);
void sim_stream_config(struct sim *s, struct sim_stream *st);
void sim_stream_attached(
    struct sim *s, struct sim_client *c, struct sim_stream *st, const struct sim_msg *msg);
void sim_stream_gap(struct sim *s, struct sim_client *c, struct sim_stream *st, uint64_t last);
void sim_stream_durable(struct sim_stream *st, uint64_t durable);
void sim_stream_push(struct sim *s, struct sim_client *c, struct sim_stream *st);
struct sim_request *sim_client_submit(struct sim *s, struct sim_client *c, const struct mob_gcs_request *head,
    const void *body, uint32_t bytes);
uint64_t sim_block_hash(uint64_t incarnation, uint64_t number);

/* ---- sim_master.c ---- */

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

/* ---- sim_history.c: what clients saw ---- */

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

/* ---- sim_check.c: invariants ---- */

void sim_check_member(struct sim *s, struct sim_member *m);
void sim_check_step(struct sim *s);
void sim_check_appended(struct sim *s, struct sim_member *m, const struct mob_chain_entry *e);
void sim_check_replied(
    struct sim *s, struct sim_member *m, const struct mob_gcs_reply *reply, uint64_t client);
void sim_check_config(struct sim *s, const struct mob_gcs_config *config);
/* A chain was started again from m, which has what is on its disk; later: it has collected. */
void sim_check_started(struct sim *s, struct sim_member *m);
void sim_check_collected(struct sim *s, struct sim_member *m);
void sim_check_whole(struct sim *s);
bool sim_is_whole(struct sim *s);
void sim_tell_missing(struct sim *s, char *out, size_t size);
/* Its node did not answer after everything had died: acknowledged blocks may be gone, and were named. */
bool sim_log_is_excused(const struct sim *s, uint64_t incarnation);

/* ---- sim_faults.c ---- */

void sim_faults_plan(struct sim *s);
void sim_fault(struct sim *s);
void sim_heal(struct sim *s);
void sim_kill_member(struct sim *s, struct sim_member *m, bool power, bool wipe);
/* Another synced live member has what this one has. */
bool sim_others_hold(struct sim *s, const struct mob_gcs_config *config, const struct sim_member *m);
bool sim_dies_here(struct sim *s, struct sim_member *m, enum mob_chain_action_type next);

/* ---- the run ---- */

struct sim_plan { /* drawn from the seed */
    uint32_t replicas, slots, clients;
    int64_t duration, fault_every;
    double faults[SIM_FAULT_KINDS]; /* weights */
    double dies_between; /* in the middle of a pass */
    enum mob_gcs_durability durability;
    int64_t sync_every, store_low, store_high;
    int64_t restart_low, restart_high;
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
    bool healing; /* no more faults; everything must become whole */

    struct sim_op *history;
    size_t history_count, history_capacity;
    bool tainted[SIM_KEYS];

    /* Of the chain as it is since it was last started. */
    struct {
        uint64_t seq, digest;
    } replied;
    uint64_t started_seq; /* what the newest start had */
    struct sim_answer { /* everything that was replied, but what is lost and named */
        uint64_t seq, client, request;
    } * answers;
    size_t answer_count, answer_capacity;
    uint32_t next_task;
    uint32_t task_seen[SIM_TASKS_MAX]; /* how often the world outside saw it end */
    bool task_dropped[SIM_TASKS_MAX]; /* some record of it went with its job */
    bool tasks_tainted; /* something was lost with everything, and named: records may be missing */
    uint64_t dead_logs[SIM_SEALS_MAX]; /* whose node died, not sealed yet */
    uint32_t dead_log_count;
    struct sim_block *dropped; /* with their jobs */
    size_t dropped_count, dropped_capacity;
    uint64_t *excused; /* logs whose node was not there to send again */
    size_t excused_count, excused_capacity;
};
uint8_t sim_node_of_member(uint64_t member_id);
void sim_name_client(struct sim *s, uint64_t client, uint8_t node);
/* The node behind a client id or nonce; 255: none. */
uint8_t sim_node_of_client(const struct sim *s, uint64_t client);

#endif
