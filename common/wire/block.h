/* Lineage blocks: the node's log, up to 256 entries in ticket order, delta-encoded, with a zone map in front.
 *
 * A block belongs to one namespace and one job, and is immutable. Layout: fixed header (versioned, crc), zone
 * map (uncompressed, so that a GCS member indexes and filters without decoding entries), entries. A spec
 * repeats only what differs from the spec before it; a completion is coded against the spec/completion before
 * it; times are deltas from the block's clock pair. Encoder: one owner, no allocation after init. Decoder:
 * checks everything, never reads outside, scratch inside the struct. Pure.
 */
#ifndef MOB_COMMON_WIRE_BLOCK_H
#define MOB_COMMON_WIRE_BLOCK_H

#include "common/wire/record.h"
#include "common/wire/sibling.h"

/* 2: events say the attempt that sent them, of an actor's call its turn too. Both are read. */
#define MOB_BLOCK_VERSION 2
#define MOB_BLOCK_VERSION_MIN 1
#define MOB_BLOCK_ENTRIES_MAX 256u
#define MOB_BLOCK_BYTES_MAX (192u * 1024u) /* an entry that would pass it opens the next block */
#define MOB_ZONE_FUNCTIONS_MAX 16u
#define MOB_ZONE_GROUPS_MAX 256u
#define MOB_NAMESPACE_MAX 64u

struct mob_block_header {
    uint16_t version;
    struct mob_cluster_id cluster;
    uint64_t incarnation; /* of the node */
    uint64_t sequence; /* gap-free from 0 within the incarnation */
    struct mob_job_id job;
    char ns[MOB_NAMESPACE_MAX]; /* NUL-terminated */
    int64_t wall_ns, mono_ns; /* one pair, read together when the block was opened */
    uint32_t entry_count;
};

/* What a group (256 neighbours of one stream) has in this block. Puts past the first 256 of a task have
 * groups of their own (mob_put_group), and so have the edges of an actor (mob_edge_group); blocks that were
 * written before that have them in the group of the creation, so who looks for edges looks in both. */
struct mob_zone_group {
    struct mob_stream stream;
    uint32_t group; /* index >> 8 */
    uint16_t specs; /* SPEC entries */
    uint16_t finals; /* COMPLETION entries with MOB_COMPLETION_FINAL */
    uint16_t others; /* puts, yields, outcomes ... of its tasks */
};
struct mob_zone_map {
    int64_t time_min_ns, time_max_ns; /* of completions' finished and specs' submitted; monotonic */
    int64_t longest_ns; /* longest started..finished */
    uint32_t specs, finals, failed, others;
    uint32_t function_count; /* MOB_ZONE_FUNCTIONS_MAX + 1 = more than fit */
    struct mob_function_id functions[MOB_ZONE_FUNCTIONS_MAX];
    uint32_t group_count;
    struct mob_zone_group groups[MOB_ZONE_GROUPS_MAX];
};

enum mob_entry_type {
    MOB_ENTRY_SPEC = 1,
    MOB_ENTRY_COMPLETION = 2,
    MOB_ENTRY_PUT = 3, /* with its small value inline when <= MOB_PUT_INLINE_MAX */
    MOB_ENTRY_YIELD = 4,
    MOB_ENTRY_OUTCOME = 5,
    MOB_ENTRY_EVENT = 6,
    MOB_ENTRY_EDGE = 7, /* stateful edge: actor, incarnation, position, task */
    MOB_ENTRY_SKIP = 8, /* an actor position that did not return: reason */
    MOB_ENTRY_ACTOR = 9, /* actor life: created, restarted, died, checkpoint */
    MOB_ENTRY_HASH = 10, /* content hash of a large object, computed later */
    MOB_ENTRY_CANCEL = 11,
    MOB_ENTRY_JOB = 12
};

struct mob_entry_edge {
    struct mob_actor_id actor;
    struct mob_task_id task;
    uint64_t position;
    uint32_t incarnation;
    uint32_t reason; /* SKIP: enum mob_status */
};
enum mob_actor_event {
    MOB_ACTOR_EV_STARTED = 1,
    MOB_ACTOR_EV_DIED = 2,
    MOB_ACTOR_EV_ENDED = 4,
    /* Of logs from when calls that are not logged had positions: `reason` of them right below `position`. */
    MOB_ACTOR_EV_UNLOGGED = 5
};
struct mob_entry_actor {
    struct mob_actor_id actor;
    uint32_t incarnation;
    uint32_t event; /* enum mob_actor_event */
    uint64_t position;
    uint32_t reason; /* enum mob_status; UNLOGGED: how many */
    uint32_t zero;
};
struct mob_entry_hash {
    struct mob_object_id id;
    uint32_t zero;
    struct mob_hash128 hash;
};

/* One decoded entry. Pointers are into the block or the decoder's scratch, valid until the next
 * mob_block_next. */
struct mob_entry {
    enum mob_entry_type type;
    int64_t submitted_ns; /* SPEC */
    struct mob_spec spec; /* SPEC */
    struct mob_completion completion; /* COMPLETION */
    struct mob_out_put put; /* PUT */
    struct mob_out_yield yield; /* YIELD; its one return is in `ret` */
    struct mob_return_view ret;
    struct mob_out_outcome outcome; /* OUTCOME */
    struct mob_out_event event; /* EVENT: type text then JSON in `payload` */
    struct mob_entry_edge edge; /* EDGE, SKIP */
    struct mob_entry_actor actor; /* ACTOR */
    struct mob_entry_hash hash; /* HASH */
    struct mob_out_cancel cancel; /* CANCEL */
    const uint8_t *payload; /* PUT inline value, OUTCOME, EVENT, JOB (JSON) */
    uint32_t payload_bytes;
};

struct mob_block_encoder;
/* NULL when out of memory. ~200 KiB. */
struct mob_block_encoder *mob_block_encoder_create(void);
void mob_block_encoder_destroy(struct mob_block_encoder *e);
/* Start a block; forgets what was there. entry_count of `header` is ignored. */
void mob_block_begin(struct mob_block_encoder *e, const struct mob_block_header *header);
uint32_t mob_block_entries(const struct mob_block_encoder *e);
uint32_t mob_block_bytes(const struct mob_block_encoder *e); /* about what end() will give */
/* Append; MOB_QUEUE_FULL = does not fit, close this block and add it to the next. Inputs were opened
 * (checked). */
MOB_MUST_USE enum mob_status mob_block_add_spec(struct mob_block_encoder *e, const struct mob_spec_head *head,
    const uint8_t *tail, uint32_t tail_bytes, int64_t submitted_ns);
MOB_MUST_USE enum mob_status mob_block_add_completion(
    struct mob_block_encoder *e, const struct mob_completion_head *head, const uint8_t *body);
/* Runs: as one call of the above for each, until one does not fit, to the byte. They give how many were
 * added; fewer than `count`: MOB_QUEUE_FULL. What is the same for all is looked at once. Siblings of `head`,
 * whose own index and caller_seq do not matter. */
MOB_MUST_USE uint32_t mob_block_add_specs(struct mob_block_encoder *e, const struct mob_spec_head *head,
    const struct mob_sibling_word *siblings, uint32_t count);
/* When the node had a task: whole microseconds after its submission. Ready at UINT32_MAX: never. */
struct mob_queue_times {
    int64_t submitted_ns;
    uint32_t ready_us, dispatched_us;
};
/* Ends of tasks, no calls of actors, that ran in one worker: mob_completion_of_word with its number and these
 * times. */
MOB_MUST_USE uint32_t mob_block_add_completions(struct mob_block_encoder *e, uint32_t worker,
    const struct mob_completion_word *words, const struct mob_queue_times *times, uint32_t count);
MOB_MUST_USE enum mob_status mob_block_add_put(
    struct mob_block_encoder *e, const struct mob_out_put *put, const uint8_t *inline_payload);
/* The edge of an actor's call. */
MOB_MUST_USE enum mob_status mob_block_add_edge(
    struct mob_block_encoder *e, const struct mob_entry_edge *edge);
/* Every other entry type: its fixed struct (as in struct mob_entry) and payload. */
MOB_MUST_USE enum mob_status mob_block_add_other(struct mob_block_encoder *e, enum mob_entry_type type,
    const void *fixed, uint32_t fixed_bytes, const uint8_t *payload, uint32_t payload_bytes);
/* Finish into `out` (capacity >= MOB_BLOCK_BYTES_MAX); returns the bytes written. */
uint32_t mob_block_end(struct mob_block_encoder *e, uint8_t *out);

/* Header and zone map only: all a GCS member needs. MOB_VERSION (names both in the log), MOB_CORRUPT,
 * MOB_TRUNCATED. */
MOB_MUST_USE enum mob_status mob_block_peek(
    const uint8_t *block, size_t length, struct mob_block_header *header_out, struct mob_zone_map *zone_out);
struct mob_block_decoder;
struct mob_block_decoder *mob_block_decoder_create(void);
void mob_block_decoder_destroy(struct mob_block_decoder *d);
/* Borrows `block` until the next open. Checks crc and version. */
MOB_MUST_USE enum mob_status mob_block_open(struct mob_block_decoder *d, const uint8_t *block, size_t length,
    struct mob_block_header *header_out, struct mob_zone_map *zone_out);
/* Blocks that were opened so far. */
uint64_t mob_block_decoder_opened(const struct mob_block_decoder *d);
/* MOB_OK with an entry, MOB_CLOSED at the end, MOB_CORRUPT. */
MOB_MUST_USE enum mob_status mob_block_next(struct mob_block_decoder *d, struct mob_entry *out);

#endif
