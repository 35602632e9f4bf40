/* Inside of the block codec: what encoder and decoder share. Not for other folders.
 *
 * A block: struct block_front | namespace text | zone map | entries. Every entry starts with one byte: its
 * type in the low four bits, flags of the type above. Integers are LEB128 varints, signed differences zigzag;
 * arithmetic on times and counters wraps, so any bit pattern survives.
 *
 * Both sides keep the same predictors, and the encoder names the one it uses, so the decoder searches
 * nothing:
 *  - streams: 64 streams; a task id is (stream slot, or 0x40 | slot ++ 12 bytes), then the index as a
 * difference to the last index coded with that stream;
 *  - functions: 16 of them, (slot) or (0x40 | slot ++ 16 bytes);
 *  - spec contexts: the last spec of 16 streams;
 *  - worker contexts: the last completion of 64 workers;
 *  - edge contexts: the last position of 64 actors.
 * A context that is named for the first time (flag CONTEXT_NEW) starts as a copy of the one used last.
 */
#ifndef MOB_COMMON_WIRE_BLOCK_FORMAT_H
#define MOB_COMMON_WIRE_BLOCK_FORMAT_H

#include "common/wire/block.h"

#define BLOCK_MAGIC 0x4b4c424du /* "MBLK" */
enum {
    SPEC_CONTEXTS = 16,
    WORKER_CONTEXTS = 64,
    EDGE_CONTEXTS = 64,
    STREAM_SLOTS = 64,
    FUNCTION_SLOTS = 16,
    CONTEXT_I64S = 4,
    CONTEXT_EXT_MAX = 256,
    CONTEXT_NEW = 0x80,
    STREAM_NEW = 0x40,
    ENTRY_TYPE_MASK = 15,
    ENTRY_OVERHEAD_MAX = 320, /* what coding may add to an entry's own bytes */
    /* front, namespace, function ids and groups at their largest */
    BLOCK_FRONT_MAX = 256 + 64 + (int)MOB_ZONE_FUNCTIONS_MAX * 16 + (int)MOB_ZONE_GROUPS_MAX * 28,
    BLOCK_ENTRIES_BYTES_MAX = (int)MOB_BLOCK_BYTES_MAX - BLOCK_FRONT_MAX,
    /* the decoder may look this far behind the entries before it notices the end */
    DECODE_SLACK = 1024
};

struct block_front {
    uint32_t magic;
    uint16_t version;
    uint16_t front_bytes; /* this and the namespace; a later writer may put more behind it */
    uint32_t front_crc; /* CRC-32C of what follows this field, up to the entries */
    uint32_t entries_crc;
    uint32_t zone_bytes;
    uint32_t entries_bytes;
    uint32_t entry_count;
    uint32_t ns_bytes;
    struct mob_cluster_id cluster;
    uint64_t incarnation, sequence;
    struct mob_job_id job;
    uint32_t zero;
    int64_t wall_ns, mono_ns;
};
_Static_assert(sizeof(struct block_front) == 96, "block front layout");
#define BLOCK_CRC_FROM 12

/* Flags of a spec's and a completion's first byte. */
enum { ENTRY_CONTEXT = 0x10, ENTRY_HEAD = 0x20, ENTRY_MODE_SHIFT = 6 };

enum spec_tail_mode { TAIL_ONE_I64 = 0, TAIL_EMPTY = 1, TAIL_ARGS = 2, TAIL_RAW = 3 };
enum spec_field {
    SPEC_KIND = 1,
    SPEC_RETURNS = 2,
    SPEC_FLAGS = 4,
    SPEC_TASK = 8, /* whole id; else same stream */
    SPEC_INDEX = 16,
    SPEC_SEQ = 32,
    SPEC_ACTOR = 64,
    SPEC_METHOD = 128,
    SPEC_PARENT = 256,
    SPEC_FUNCTION = 512,
    SPEC_JOB = 1024,
    SPEC_GENERATION = 2048,
    SPEC_RETRIES = 4096,
    SPEC_PRIORITY = 8192,
    SPEC_CPU = 16384,
    SPEC_ATTEMPT = 32768,
    SPEC_DEADLINE = 65536,
    SPEC_NOT_BEFORE = 131072,
    SPEC_FIELDS = 262144
};

enum return_mode { RETURN_ONE_I64 = 0, RETURN_NONE = 1, RETURN_LIST = 2 };
enum completion_field {
    COMPLETION_FLAGS = 1,
    COMPLETION_STATUS = 2,
    COMPLETION_TASK = 4, /* whole id; else same stream */
    COMPLETION_PEAK = 8,
    COMPLETION_POSITION = 16,
    COMPLETION_ATTEMPT = 32,
    COMPLETION_GENERATION = 64,
    COMPLETION_ACTOR = 128,
    COMPLETION_INCARNATION = 256,
    COMPLETION_FIELDS = 512
};
/* A completion's second byte. */
enum time_bits {
    TIME_READY_SAME = 1, /* as the worker's previous one: taken once per pass */
    TIME_DISPATCHED_SAME = 2, /* likewise */
    TIME_INDEX_NEXT = 4, /* index = the worker's previous + 1 */
    TIME_CPU_IS_RUN = 8, /* cpu = finished - started */
    TIME_CPU_ZERO = 16,
    TIME_ODD = 32, /* some time is unknown (0): a byte says which */
    TIME_MICRO = 64, /* ready and dispatched are whole microseconds after submitted, as the node keeps them */
    TIME_STARTED_NEXT = 128 /* started = the worker's previous finished: it reads the clock once */
};
#define MICRO_OFFSET_MAX (1ull << 40) /* larger offsets are not coded as TIME_MICRO */
enum { SUBMITTED, READY, DISPATCHED, STARTED, FINISHED, TIMES };

/* An inline argument or return in a list: its type, with these flags. */
enum { ITEM_REF = 0x80, ITEM_STORED = 0x80, ITEM_HASH_LATER = 0x40, ITEM_SLOT = 0x20, ITEM_TYPE_MASK = 0x1f };
/* Flags of the other entries' first byte. */
enum { PUT_HASHED = 0x10, PUT_HASH_DERIVED = 0x20, PUT_INLINE = 0x40 };
enum { EDGE_NEW = 0x10, EDGE_JUMP = 0x20 };
enum { EVENT_ATTEMPT = 0x10, EVENT_OF_CALL = 0x20 }; /* neither in version 1 */

struct spec_context {
    struct mob_spec_head head;
    uint32_t seq_step;
    uint32_t ext_bytes;
    uint64_t i64s[CONTEXT_I64S];
    uint8_t exts[CONTEXT_EXT_MAX];
};
struct worker_context {
    struct mob_completion_head head; /* its times are not used */
    uint64_t times[TIMES]; /* last known ones */
    uint64_t ready_us, gap_us; /* of the last TIME_MICRO: submitted to ready, ready to dispatched */
    uint64_t position_step;
    uint64_t i64;
};
struct edge_context {
    struct mob_actor_id actor;
    uint64_t position;
    uint32_t incarnation;
};

struct predictors {
    uint64_t spec_used, worker_used, stream_used, function_used, edge_used; /* bit per slot */
    uint32_t spec_last, worker_last;
    uint64_t submitted;
    uint64_t base_ns;
    uint32_t put_slot;
    uint32_t last_index[STREAM_SLOTS];
    struct mob_stream streams[STREAM_SLOTS];
    struct mob_function_id functions[FUNCTION_SLOTS];
    struct spec_context specs[SPEC_CONTEXTS];
    struct worker_context workers[WORKER_CONTEXTS];
    struct edge_context edges[EDGE_CONTEXTS];
};
/* As at the start of every block. */
void block_predictors_init(struct predictors *p, const struct mob_block_header *header);

/* A context's first use: a copy of the one used last, without its extensions. */
static inline void block_spec_context_start(struct predictors *p, uint32_t slot)
{
    if (slot != p->spec_last)
        memcpy(&p->specs[slot], &p->specs[p->spec_last], offsetof(struct spec_context, exts));
    p->specs[slot].ext_bytes = 0;
    p->spec_used |= 1ull << slot;
}
static inline void block_worker_context_start(struct predictors *p, uint32_t slot)
{
    if (slot != p->worker_last)
        p->workers[slot] = p->workers[p->worker_last];
    p->worker_used |= 1ull << slot;
}

/* Zone map under construction. */
enum { ZONE_TABLE_SLOTS = 1024 };
struct zone_builder {
    struct mob_zone_map map;
    uint32_t last_spec, last_final, last_put, last_edge; /* group found last; neighbours mostly share it */
    struct mob_task_id putter; /* `puts` is the stream of this task's puts */
    struct mob_stream puts;
    uint16_t table[ZONE_TABLE_SLOTS]; /* group number + 1 */
};
void block_zone_init(struct zone_builder *z); /* once, before the first begin */
void block_zone_begin(struct zone_builder *z);
struct mob_zone_group *block_zone_find(struct zone_builder *z, struct mob_task_id task, uint32_t *last);
void block_zone_function(struct zone_builder *z, struct mob_function_id function);
/* Writes at most BLOCK_FRONT_MAX - 256 bytes; returns their number. */
uint32_t block_zone_encode(const struct zone_builder *z, int64_t base_ns, uint8_t *out);
MOB_MUST_USE enum mob_status block_zone_decode(
    const uint8_t *bytes, uint32_t length, int64_t base_ns, struct mob_zone_map *out);

static inline struct mob_zone_group *block_zone_group(
    struct zone_builder *z, struct mob_task_id task, uint32_t *last)
{
    struct mob_zone_group *g = &z->map.groups[*last];
    if (z->map.group_count > 0 && g->group == task.index >> MOB_GROUP_SHIFT &&
        mob_stream_eq(g->stream, task.stream))
        return g;
    return block_zone_find(z, task, last);
}
static inline void block_zone_time(struct zone_builder *z, int64_t at_ns)
{
    if (at_ns == 0)
        return;
    if (at_ns < z->map.time_min_ns)
        z->map.time_min_ns = at_ns;
    if (at_ns > z->map.time_max_ns)
        z->map.time_max_ns = at_ns;
}

struct mob_block_encoder {
    struct mob_block_header header;
    uint32_t entry_count;
    uint8_t *at; /* in bytes */
    struct predictors p;
    struct zone_builder zone;
    uint8_t bytes[MOB_BLOCK_BYTES_MAX];
};
/* Room for an entry with `own_bytes` of payload? */
static inline enum mob_status block_room(const struct mob_block_encoder *e, uint64_t own_bytes)
{
    uint64_t used = (uint64_t)(e->at - e->bytes);
    if (__builtin_expect(e->entry_count < MOB_BLOCK_ENTRIES_MAX &&
                used + own_bytes + ENTRY_OVERHEAD_MAX <= BLOCK_ENTRIES_BYTES_MAX,
            1))
        return MOB_OK;
    return e->entry_count == 0 ? MOB_TOO_LARGE : MOB_QUEUE_FULL;
}

/* So many entries fit for certain, each coded in ENTRY_SHORT_MAX bytes or less. */
enum { ENTRY_SHORT_MAX = 128 };
static inline uint32_t block_room_of_short(const struct mob_block_encoder *e)
{
    uint32_t used = (uint32_t)(e->at - e->bytes), most = BLOCK_ENTRIES_BYTES_MAX - ENTRY_OVERHEAD_MAX;
    uint32_t by_bytes = used < most ? (most - used) / ENTRY_SHORT_MAX : 0;
    uint32_t by_count = MOB_BLOCK_ENTRIES_MAX - e->entry_count;
    return by_bytes < by_count ? by_bytes : by_count;
}

enum { DECODE_SCRATCH = MOB_RECORD_MAX + 4096 };
struct mob_block_decoder {
    const uint8_t *at, *end; /* in bytes; reads may pass `end` by DECODE_SLACK, which is zero */
    uint32_t entries_left;
    uint64_t opened; /* blocks */
    struct predictors p;
    uint8_t bytes[MOB_BLOCK_BYTES_MAX + DECODE_SLACK];
    _Alignas(8) uint8_t scratch[DECODE_SCRATCH];
};

/* Whether payloads of that type have one length only, which then is not coded. */
static inline bool block_fixed_bytes(unsigned type, uint32_t *bytes_out)
{
    static const uint8_t bytes[MOB_TYPE_COUNT] = {[MOB_TYPE_NULL] = 1,
        [MOB_TYPE_I64] = 9,
        [MOB_TYPE_F64] = 9,
        [MOB_TYPE_BOOL] = 2,
        [MOB_TYPE_ACTOR] = 17,
        [MOB_TYPE_FUTURE] = 21};
    if (type >= MOB_TYPE_COUNT || bytes[type] == 0)
        return false;
    if (bytes_out)
        *bytes_out = bytes[type] - 1u;
    return true;
}

bool block_decode_completion(struct mob_block_decoder *d, uint8_t first, struct mob_entry *out);
/* The entries that are neither spec nor completion. On success `d->at` stands behind the entry. */
bool block_decode_other(struct mob_block_decoder *d, uint8_t first, struct mob_entry *out);
bool block_decode_returns(struct mob_block_decoder *d, uint32_t count, uint32_t *bytes_out);
uint8_t *block_encode_return(uint8_t *at, const struct mob_return_view *r);

/* ---- integers: no bounds, the caller has room or slack ---- */
static inline uint64_t zigzag(uint64_t difference)
{
    return difference << 1 ^ (uint64_t)((int64_t)difference >> 63);
}
static inline uint64_t unzigzag(uint64_t v)
{
    return v >> 1 ^ (0 - (v & 1));
}
static inline uint64_t load64(const void *from)
{
    uint64_t v;
    memcpy(&v, from, 8);
    return v;
}
uint8_t *block_put_long(uint8_t *at, uint64_t v);
const uint8_t *block_get_long(const uint8_t *at, uint64_t *out);

/* Without a loop: lengths vary from entry to entry, and a mispredicted branch costs more than the whole
 * spread. One byte or two are nearly all there is. May write eight bytes whatever the length. */
static inline uint8_t *put_varint(uint8_t *at, uint64_t v)
{
    if (__builtin_expect(v >> 14 == 0, 1)) {
        uint32_t two_bytes = v > 0x7f;
        /* added to itself, what is above seven bits moves up by one */
        uint16_t both = (uint16_t)((uint32_t)v + ((uint32_t)v & 0x3f80) + (two_bytes << 7));
        memcpy(at, &both, sizeof both);
        return at + 1 + two_bytes;
    }
    if (__builtin_expect(v >> 28 != 0, 0))
        return block_put_long(at, v);
    uint32_t x = (uint32_t)v;
    uint32_t spread = (x & 0x7f) | (x & 0x3f80) << 1 | (x & 0x1fc000) << 2 | (x & 0xfe00000) << 3;
    uint32_t more = (uint32_t)((31 - __builtin_clz(x | 1)) * 37 >> 8); /* / 7, for 0..31 */
    uint32_t marks = (uint32_t)(0x80808080u & ((1ull << (8 * more)) - 1));
    spread |= marks;
    memcpy(at, &spread, 4);
    return at + more + 1;
}
static inline uint8_t *put_zigzag(uint8_t *at, uint64_t difference)
{
    return put_varint(at, zigzag(difference));
}
static inline const uint8_t *get_varint(const uint8_t *at, uint64_t *out)
{
    uint32_t x;
    memcpy(&x, at, 4);
    uint32_t stops = ~x & 0x80808080u;
    if (__builtin_expect(stops == 0, 0))
        return block_get_long(at, out);
    uint32_t upto = stops ^ (stops - 1); /* the last byte's mark and all below it */
    x &= upto & 0x7f7f7f7fu;
    *out = (x & 0x7f) | (x & 0x7f00) >> 1 | (x & 0x7f0000) >> 2 | (x & 0x7f000000) >> 3;
    return at + ((unsigned)__builtin_ctz(stops) >> 3) + 1;
}
static inline const uint8_t *get_zigzag(const uint8_t *at, uint64_t *out)
{
    uint64_t v;
    at = get_varint(at, &v);
    *out = unzigzag(v);
    return at;
}

static inline const uint8_t *get_u32(const uint8_t *at, uint32_t *out)
{
    uint64_t v;
    at = get_varint(at, &v);
    *out = (uint32_t)v;
    return at;
}

static inline const uint8_t *get_u16(const uint8_t *at, uint16_t *out)
{
    uint64_t v;
    at = get_varint(at, &v);
    *out = (uint16_t)v;
    return at;
}

/* ---- ids ---- */
static inline uint8_t *put_task_id(struct predictors *p, uint8_t *at, struct mob_task_id id)
{
    uint32_t slot = (uint32_t)(mob_stream_mix(id.stream) >> 58);
    if ((p->stream_used >> slot & 1) != 0 && mob_stream_eq(p->streams[slot], id.stream)) {
        *at++ = (uint8_t)slot;
    } else {
        *at++ = (uint8_t)(slot | STREAM_NEW);
        memcpy(at, &id.stream, sizeof id.stream);
        at += sizeof id.stream;
        p->streams[slot] = id.stream;
        p->last_index[slot] = 0;
        p->stream_used |= 1ull << slot;
    }
    at = put_zigzag(at, (uint64_t)(int64_t)(int32_t)(id.index - p->last_index[slot]));
    p->last_index[slot] = id.index;
    return at;
}
/* NULL when corrupt. */
static inline const uint8_t *get_task_id(struct predictors *p, const uint8_t *at, struct mob_task_id *out)
{
    uint32_t slot = *at++;
    if (slot & STREAM_NEW) {
        slot ^= STREAM_NEW;
        if (slot >= STREAM_SLOTS)
            return NULL;
        memcpy(&p->streams[slot], at, sizeof p->streams[slot]);
        at += sizeof p->streams[slot];
        p->last_index[slot] = 0;
        p->stream_used |= 1ull << slot;
    } else if (slot >= STREAM_SLOTS || (p->stream_used >> slot & 1) == 0) {
        return NULL;
    }
    uint64_t difference;
    at = get_zigzag(at, &difference);
    p->last_index[slot] += (uint32_t)difference;
    *out = (struct mob_task_id){p->streams[slot], p->last_index[slot]};
    return at;
}

static inline uint8_t *put_function(struct predictors *p, uint8_t *at, const struct mob_function_id *id)
{
    uint32_t slot = id->b[0] % FUNCTION_SLOTS;
    if ((p->function_used >> slot & 1) != 0 && memcmp(&p->functions[slot], id, sizeof *id) == 0) {
        *at++ = (uint8_t)slot;
        return at;
    }
    *at++ = (uint8_t)(slot | STREAM_NEW);
    memcpy(at, id, sizeof *id);
    p->functions[slot] = *id;
    p->function_used |= 1ull << slot;
    return at + sizeof *id;
}
/* NULL when corrupt. */
static inline const uint8_t *get_function(
    struct predictors *p, const uint8_t *at, struct mob_function_id *out)
{
    uint32_t slot = *at++;
    bool is_new = (slot & STREAM_NEW) != 0;
    slot &= ~(uint32_t)STREAM_NEW;
    if (slot >= FUNCTION_SLOTS || (!is_new && (p->function_used >> slot & 1) == 0))
        return NULL;
    if (is_new) {
        memcpy(&p->functions[slot], at, sizeof p->functions[slot]);
        p->function_used |= 1ull << slot;
        at += sizeof p->functions[slot];
    }
    *out = p->functions[slot];
    return at;
}

#endif
