/* The node's log: every spec, completion, put, edge and event of this incarnation in ticket order, in blocks
 * that the GCS acknowledges in order (ARCHITECTURE "A task's way" 3, "Output commit").
 *
 * Effects (what leaves the node) are queued behind the block that explains them and run when it, and so each
 * before it, is acknowledged. A block is sent when it is full, when it is older than a millisecond, or, when
 * nothing is in flight, at the end of a pass: if somebody waits for it, or if only one task seems to be
 * about. So who waits is served at once, and under load a block has a task's spec and its completion.
 *
 * Node thread only. Bounds: LOG_BLOCKS_MAX blocks unacknowledged, then lineage_log_blocked() is true and the
 * node takes nothing more from the rings until acknowledgements come.
 */
#ifndef MOB_RUNTIME_NODE_LINEAGE_LOG_H
#define MOB_RUNTIME_NODE_LINEAGE_LOG_H

#include "common/wire/block.h"
#include "gcs/client/client.h"

#define LOG_BLOCKS_IN_FLIGHT_MAX 32u
/* Full ones that wait for company leave when they are so many: a quarter of what may be in flight. */
#define LOG_BLOCKS_GATHERED 8u
/* So far the distance between the clocks may go from that of the blocks before a new one is taken. */
#define LOG_CLOCK_DRIFT_NS (1000 * 1000ll)
#define LOG_BLOCK_AGE_NS_MAX 1000000 /* 1 ms */
#define EFFECT_INLINE_MAX 16u

enum effect_kind {
    EFFECT_READY = 1, /* an object became committed: mark it, and tell the client in `slot` if there is one */
    EFFECT_RING_ACK = 2, /* everything the client published up to `position` is committed */
    EFFECT_CALL = 3, /* call back */
    EFFECT_RUN = 4 /* as READY, for results that came one after another: lineage_log_results */
};
/* Results of `count` tasks of one stream, from index `first` on: return 0 of each, a small value of eight
 * bytes. */
#define EFFECT_RUN_MAX 32u
struct effect_run {
    union {
        struct mob_stream stream;
        struct effect_run *next_free; /* the log's own */
    };
    uint32_t first, count;
    uint64_t values[EFFECT_RUN_MAX];
};
struct effect {
    uint64_t block; /* runs when acked > block */
    uint8_t kind; /* enum effect_kind */
    uint8_t type; /* READY, RUN: enum mob_value_type */
    uint8_t flags; /* READY: MOB_READY_* */
    uint8_t remakeable;
    uint16_t status;
    uint16_t inline_bytes;
    uint32_t slot; /* client, UINT32_MAX = nobody */
    uint32_t session; /* generation of the slot, so that a new client in it gets nothing of the old one */
    union {
        struct {
            struct mob_object_id id;
            uint8_t small[EFFECT_INLINE_MAX];
            uint64_t size;
        } ready;
        uint64_t position;
        struct effect_run *run;
        struct {
            void (*fn)(void *arg);
            void (*drop)(void *arg); /* the log ends first: frees arg */
            void *arg;
        } call;
    };
};

struct lineage_log;
struct lineage_log_options {
    struct mob_gcs *gcs; /* keeps */
    struct mob_cluster_id cluster;
    uint64_t incarnation;
    void (*run_effect)(void *arg, const struct effect *effect);
    void (*fetch_effect)(void *arg, const struct effect *effect); /* a hint: it runs soon */
    void (*sealed)(void *arg); /* the log was sealed by someone: this incarnation is over */
    void (*before_close)(void *arg); /* a block is about to close: add its ring acknowledgements */
    void *arg;
};
MOB_MUST_USE enum mob_status lineage_log_create(
    const struct lineage_log_options *options, struct lineage_log **out);
void lineage_log_destroy(struct lineage_log *log);

/* The job whose entries follow; closes the open block when it is another one's. */
void lineage_log_job(struct lineage_log *log, struct mob_job_id job, const char *ns);
/* Append. A full block is closed and the entry goes to the next one: never fails. */
void lineage_log_spec(struct lineage_log *log, const struct mob_spec_head *head, const uint8_t *tail,
    uint32_t tail_bytes, int64_t submitted_ns);
void lineage_log_completion(
    struct lineage_log *log, const struct mob_completion_head *head, const uint8_t *body);
/* Runs, as mob_block_add_specs and mob_block_add_completions. Of the specs those that fit into one block, the
 * open one or a fresh one: gives how many that were, one at least. */
MOB_MUST_USE uint32_t lineage_log_specs(struct lineage_log *log, const struct mob_spec_head *head,
    const struct mob_sibling_word *siblings, uint32_t count);
void lineage_log_completions(struct lineage_log *log, uint32_t worker,
    const struct mob_completion_word *words, const struct mob_queue_times *times, uint32_t count);
void lineage_log_put(struct lineage_log *log, const struct mob_out_put *put, const uint8_t *inline_payload);
void lineage_log_edge(struct lineage_log *log, const struct mob_entry_edge *edge);
void lineage_log_other(struct lineage_log *log, enum mob_entry_type type, const void *fixed,
    uint32_t fixed_bytes, const void *payload, uint32_t payload_bytes);

/* Queue an effect behind everything that was appended so far (runs at once when all of it is acknowledged).
 */
void lineage_log_effect(struct lineage_log *log, struct effect *effect);
/* The same, but never from inside this call: at the earliest in the next pump. */
void lineage_log_effect_later(struct lineage_log *log, struct effect *effect);
/* An effect as READY for return 0 of a task that ended well, queued behind what was appended so far: its
 * completion is part of that. Such results are kept together by worker, which is any number that tells the
 * workers apart: between two holds and two ends of blocks their order does not matter to anybody. */
struct log_result {
    uint32_t worker;
    uint32_t slot, session; /* who is told; UINT32_MAX = nobody */
    uint8_t type; /* enum mob_value_type, of eight bytes */
    struct mob_task_id task;
    uint64_t value;
};
/* Results of neighbours of one stream from `first` on, one after the other. */
void lineage_log_results(
    struct lineage_log *log, const struct log_result *first, const uint64_t *values, uint32_t count);
/* Calls fn when everything that was appended so far is acknowledged, whatever holds there are: for what stays
 * in the node, as reading the log back. Never from inside this call; in the order of the calls. A log that
 * ends before calls drop instead. */
void lineage_log_then(struct lineage_log *log, void (*fn)(void *arg), void (*drop)(void *arg), void *arg);
/* From here on effects wait until the hold is released, whatever is acknowledged. Holds may be released in
 * any order. */
uint64_t lineage_log_hold(struct lineage_log *log);
void lineage_log_release(struct lineage_log *log, uint64_t hold);
/* Blocks from this number on are kept until another number is set (UINT64_MAX: all may leave). */
void lineage_log_keep_from(struct lineage_log *log, uint64_t block);
bool lineage_log_idle(const struct lineage_log *log); /* nothing open, nothing in flight */
bool lineage_log_open(const struct lineage_log *log); /* a block is open, and will close by itself */
bool lineage_log_blocked(const struct lineage_log *log); /* take nothing more from the rings */
enum lineage_log_turn {
    LOG_TURN_BUSY, /* more records are likely to come */
    LOG_TURN_QUIET, /* none came for a while */
    LOG_TURN_FLUSH /* everything is to leave, the open block too */
};
/* The wall time (ns) that a reader of this log makes of a monotonic one: who tells a time before it is logged
 * tells the same as the record will. */
int64_t lineage_log_wall(struct lineage_log *log, int64_t mono_ns);
/* The wall time of what a block says in the monotonic clock of its own boot, which says nothing in another;
 * 0: it does not say when. */
static inline int64_t lineage_log_wall_of(const struct mob_block_header *block, int64_t mono_ns)
{
    return mono_ns == 0 ? 0 : (int64_t)((uint64_t)mono_ns + (uint64_t)(block->wall_ns - block->mono_ns));
}
/* That time by the monotonic clock of this boot, for what goes on here: negative when it was before the boot,
 * and no later than `now_ns`, which it would be when the wall clock was set back meanwhile. 0 stays 0. */
int64_t lineage_log_mono(struct lineage_log *log, int64_t wall_ns, int64_t now_ns);
/* End of a pass. Sends what is due; returns when it wants to be called again (monotonic ns). A full block
 * leaves within LOG_BLOCK_AGE_NS_MAX of its opening, and before that when LOG_BLOCKS_GATHERED are full, or
 * nothing comes and none is on its way. */
int64_t lineage_log_pump(struct lineage_log *log, int64_t now_ns, enum lineage_log_turn turn);
/* The loop goes to sleep: what a quiet turn sends. */
void lineage_log_rest(struct lineage_log *log);
/* When the pump has something to do at the latest; 0 = at once. */
int64_t lineage_log_next(const struct lineage_log *log);
struct lineage_log_stats {
    uint64_t entries, blocks, bytes, handed, acked, durable, in_flight,
        effects_waiting; /* handed: sent, or about to be */
};
void lineage_log_stats(const struct lineage_log *log, struct lineage_log_stats *out);

#endif
