/* The messages of the control store's protocol: what gcs/client and gcs/shard say to each other.
 *
 * A message is a frame (gcs_frame.h) with one of the heads below; on the one platform that is supported a
 * head's bytes are those of its struct. Decoders check every length, never allocate, and point into the
 * input. Pure.
 */
#ifndef MOB_COMMON_WIRE_GCS_MSG_H
#define MOB_COMMON_WIRE_GCS_MSG_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/bytes.h"
#include "common/base/id.h"
#include "common/base/status.h"

#define MOB_GCS_KEY_MAX 512u
#define MOB_GCS_VALUE_MAX (960u * 1024u) /* a put must fit in a frame of a chain link (1 MiB) */
#define MOB_GCS_ROWS_MAX 1024u /* rows in one page */
#define MOB_GCS_NAME_MAX 63u
/* Shards of one control store. A log's home is its incarnation modulo their number. */
#define MOB_GCS_SHARDS_MAX 4u

/* Numbers are stored: append only. 3 was of no use, and is not given again. */
enum mob_gcs_table {
    MOB_GCS_KV = 1,
    MOB_GCS_FUNCTIONS = 2,
    MOB_GCS_ACTORS = 4,
    MOB_GCS_CHECKPOINTS = 5,
    MOB_GCS_NODES = 6,
    MOB_GCS_JOBS = 7,
    MOB_GCS_ENDPOINTS = 8,
    MOB_GCS_NAMES = 9,
    MOB_GCS_PLACEMENT = 10,
    MOB_GCS_LOSSES = 11, /* what may be missing after a loss, by seq; only the member writes it */
    MOB_GCS_TABLES = 12
};

/* In MOB_GCS_KV: the flusher is at work (whoever deletes a job tells it), and a job that was deleted (behind
 * the prefix: its id). */
#define MOB_GCS_KEY_FLUSH_PRESENT "flush/present"
#define MOB_GCS_KEY_FLUSH_GONE "flush/gone/"

struct mob_gcs_kv {
    const uint8_t *key;
    const uint8_t *value;
    uint32_t key_length, value_length;
    uint64_t version;
};
struct mob_gcs_block_row {
    uint64_t seq; /* commit position in the shard */
    uint64_t incarnation, number;
    const uint8_t *bytes; /* the block as it was appended */
    uint32_t length;
    uint32_t
        recut; /* 1: read back from PostgreSQL, where entries lie in another order (bucket.h): only which
                  they are is as it was, and where an entry stands in here says nothing of when it came */
};
enum mob_gcs_incarnation_state { MOB_GCS_LIVE = 1, MOB_GCS_SEALED = 2, MOB_GCS_RECOVERED = 3 };
struct mob_gcs_incarnation {
    uint64_t id;
    uint64_t blocks; /* appended so far; of a sealed one: the cut */
    uint32_t state; /* enum mob_gcs_incarnation_state */
    uint32_t zero;
    char name[MOB_GCS_NAME_MAX + 1u];
};
/* What one shard's flusher has in PostgreSQL, for who asks for figures. Days and bytes are of all shards. */
struct mob_gcs_database {
    uint64_t batches, tasks, failed, days, gaps, bytes;
};
_Static_assert(sizeof(struct mob_gcs_database) == 48, "layout on the wire");
/* A member's digests as they were when it had applied `seq` and nothing behind it. */
struct mob_gcs_mark {
    uint64_t seq, history_digest, state_digest;
};
_Static_assert(sizeof(struct mob_gcs_mark) == 24, "layout on the wire");
#define MOB_GCS_MARKS_MAX 4096u /* in one answer */
/* A block that an index has for one of the groups that were asked for. */
struct mob_gcs_index_row {
    uint64_t seq;
    uint32_t key; /* which of them */
    uint32_t zero;
};
_Static_assert(sizeof(struct mob_gcs_index_row) == 16, "layout on the wire");
enum mob_gcs_durability { MOB_GCS_EVERYSEC = 0, MOB_GCS_ALWAYS = 1, MOB_GCS_NO = 2 };
struct mob_gcs_stats {
    uint64_t epoch, applied, committed, durable;
    uint64_t durability; /* enum mob_gcs_durability */
    uint64_t blocks, block_bytes, groups, incarnations, jobs, keys, clients, subscribers;
    uint64_t redis_bytes; /* used_memory of Redis */
    uint64_t member_bytes; /* of the member: index, tables, buffers; with redis_bytes what the caps hold */
    uint64_t soft_bytes, hard_bytes;
    uint64_t appends, append_bytes, puts, reads, duplicates, syncs, rewrites, redis_restarts, losses;
    uint64_t aof_bytes;
    uint64_t collecting; /* 1 while a restarted member waits for its clients */
    uint64_t flushed; /* blocks up to here are in PostgreSQL, and not here */
    uint64_t flushed_blocks; /* since the member started */
    uint64_t cold_groups; /* groups with unfinished tasks in flushed blocks */
    uint64_t cold_reads, cold_readers;
    uint64_t history_digest, state_digest; /* of all up to `applied`, and of the tables then */
    /* From here on not in what earlier versions say. */
    uint64_t self; /* the member's id; 0: the only one, without masters */
    char state[16]; /* in the chain, a word; padded with NUL, always one */
    uint64_t state_ms; /* since it came to that state; of a later version than the two before */
    /* Of a later version again. */
    uint64_t newest_block; /* its position */
    uint64_t watermark_known, watermark; /* 1: the flusher has told this member up to where PostgreSQL is */
    /* And of a later one: what keeps this member's Redis from keeping what it is given. A word, padded with
     * NUL, always one; "" of an earlier version. "ok"; "away": not connected; "refuses": its last write
     * (memory, or the disk is full); "cannot-write": it answers, and its file lacks what it answered. */
    char store[16];
    /* And of a later one. */
    uint64_t marks; /* it answers MOB_GCS_Q_MARKS, with so many now */
    uint64_t database_known; /* 1: the flusher has told this member the following */
    struct mob_gcs_database database;
    /* And of a later one, in a chain with masters: the times that it was started with, which are its masters'
     * too, and whether its heartbeats have the real-time priority that short ones need. All 0: of an earlier
     * version, or the only member, which sends none. */
    uint64_t lease_ms, suspicion_ms, realtime;
    /* And of a later one: the member that takes its state from this one, the tail (0: none), and for how
     * long, since this member started, clients of the head have waited for such a one. */
    uint64_t joiner, paced_ms;
    /* And of a later one. */
    uint64_t tells_index; /* it answers MOB_GCS_Q_INDEX */
};

/* ---- message heads. encode writes into `out` (MOB_GCS_HEAD_MAX bytes) and returns the length; decode gives
 * MOB_TRUNCATED or MOB_CORRUPT. What follows a head is the frame's body ---- */

#define MOB_GCS_HEAD_MAX 1280u
/* 1: clients chose their ids themselves; 2: links opened without a proof; 3: configurations did not say when
 * the chain was last started */
#define MOB_GCS_PROTOCOL 4u
/* Replies kept for each client of keys and values, and so the most it may have unanswered. */
#define MOB_GCS_WINDOW 64u
/* Blocks a log may have unanswered. */
#define MOB_GCS_LOG_WINDOW 64u
/* Client ids: logs are incarnations (small numbers), others have this bit and are random. */
#define MOB_GCS_CLIENT_BIT (1ull << 63)

#define MOB_GCS_WELCOME_COLLECTING 1u /* attach, send again what is kept, then wait */
#define MOB_GCS_WELCOME_CHAIN 2u /* a member of a chain: it says the configuration in a NACK */
struct mob_gcs_welcome {
    uint16_t protocol;
    uint8_t collecting; /* MOB_GCS_WELCOME_* */
    uint8_t durability; /* enum mob_gcs_durability */
    uint32_t zero;
    struct mob_cluster_id cluster;
    uint64_t committed, durable;
};
struct mob_gcs_attach {
    uint64_t answered; /* last request whose reply this client has had */
    uint64_t kept; /* first request it still keeps; answered + 1 when none */
    uint64_t known; /* 1: attached before, so if the member does not know it, it was expired */
};
struct mob_gcs_attached {
    uint64_t last; /* last request in the tables */
    uint32_t status; /* MOB_OK, MOB_SEALED or MOB_EXPIRED */
    uint32_t zero;
};

enum mob_gcs_op {
    MOB_GCS_OP_APPEND = 1, /* from = incarnation, request = block number + 1; body = block */
    MOB_GCS_OP_PUT = 2, /* key then value in the body */
    MOB_GCS_OP_DELETE = 3, /* key in the body */
    MOB_GCS_OP_REGISTER = 4, /* node name in the body; with several shards if_version says how many there are,
                                and target which of them this is */
    MOB_GCS_OP_SEAL = 5,
    MOB_GCS_OP_RECOVERED = 6,
    MOB_GCS_OP_JOB_DROP = 7,
    MOB_GCS_OP_EXPIRE = 8, /* only members make these two */
    MOB_GCS_OP_LOSS = 9,
    MOB_GCS_OP_OPEN = 10, /* a new client: from = a random number with MOB_GCS_CLIENT_BIT, request = 0; the
                             answer's number is its id */
    MOB_GCS_OP_FLUSH = 11, /* all blocks with seq <= target are in PostgreSQL; if_version = up to where that
                             was known before; body = what they leave unfinished, struct mob_gcs_flush_group
                             each */
    MOB_GCS_OPS
};
/* Specs less final completions of a group, in the blocks that a FLUSH makes go: not 0. */
struct mob_gcs_flush_group {
    struct mob_stream stream;
    uint32_t group;
    int32_t net;
};
_Static_assert(sizeof(struct mob_gcs_flush_group) == 20, "layout on the wire");
#define MOB_GCS_FLUSH_GROUPS_MAX 40000u /* in one FLUSH */
/* Which group is asked for. */
struct mob_gcs_group_key {
    struct mob_stream stream;
    uint32_t group;
};
_Static_assert(sizeof(struct mob_gcs_group_key) == 16, "layout on the wire");
/* In one question, whose body may have two keys of the longest. */
#define MOB_GCS_GROUPS_MAX 64u
_Static_assert(
    MOB_GCS_GROUPS_MAX * sizeof(struct mob_gcs_group_key) <= 2 * MOB_GCS_KEY_MAX, "they fit into its body");
/* An ordered operation. `old_*`: its answer, when it was given before a restart (old_seq != 0) and is sent
 * again. */
struct mob_gcs_request {
    uint64_t request;
    uint8_t op; /* enum mob_gcs_op */
    uint8_t table; /* PUT, DELETE */
    uint8_t finished_only; /* JOB_DROP */
    uint8_t zero;
    uint32_t key_length; /* PUT, DELETE: the rest of the body is the value */
    uint64_t if_version; /* PUT, DELETE */
    uint64_t target; /* SEAL, RECOVERED: incarnation; EXPIRE: client */
    struct mob_job_id job; /* JOB_DROP */
    uint32_t old_status;
    int64_t before_wall_ns;
    uint64_t old_seq, old_version, old_number;
};
/* `count` requests from `request` on, with consecutive seqs, all MOB_OK when count > 1. */
struct mob_gcs_reply {
    uint64_t request;
    uint32_t count;
    uint32_t status; /* enum mob_status */
    uint64_t seq; /* of `request` */
    uint64_t version, number, next;
    uint64_t durable;
};
struct mob_gcs_durable {
    uint64_t committed, durable;
    uint64_t memory_bytes, soft_bytes, hard_bytes;
};
struct mob_gcs_nack {
    uint64_t epoch;
    uint32_t reason; /* enum mob_status: MOB_WRONG_EPOCH; MOB_AGAIN: it collects what clients keep */
    uint32_t members; /* in a chain with masters the body is a struct mob_gcs_book (gcs_peer.h) */
};

enum mob_gcs_query {
    MOB_GCS_Q_GET = 1, /* body = key */
    /* body = prefix then after; newest_first = 1: keys and versions, of values not even the length. Earlier
     * versions give the values all the same. */
    MOB_GCS_Q_LIST = 2,
    MOB_GCS_Q_GROUP = 3, /* newest_first = 1: only what has not been flushed */
    MOB_GCS_Q_SCAN = 4,
    MOB_GCS_Q_UNFINISHED = 5,
    MOB_GCS_Q_LOG = 6,
    MOB_GCS_Q_INCARNATIONS = 7,
    MOB_GCS_Q_STATS = 8,
    /* SCAN, oldest first, in commit order in what was flushed too, where each block has its entries as it had
     * them (but recut: its number and clocks may be those of a neighbour). With `job` only. `tie` = 1: some
     * of what was behind the position is not there any more. */
    MOB_GCS_Q_HISTORY = 9,
    /* What this very member's digests were at some of the newest positions (`table` is MOB_GCS_HERE). Asked
     * only of who says in its figures that it has any: earlier versions do not know the question. */
    MOB_GCS_Q_MARKS = 10,
    /* GROUP, of several groups at once: the body is a struct mob_gcs_group_key each. Earlier versions do not
     * know the question, and say MOB_INVALID. */
    MOB_GCS_Q_GROUPS = 11,
    /* Where this very member's index has blocks of some groups (`table` is MOB_GCS_HERE); of those that it
     * has itself, and not their bytes. The body is a struct mob_gcs_group_key each. Asked only of who says in
     * its figures that it tells. */
    MOB_GCS_Q_INDEX = 12,
    MOB_GCS_QUERIES
};
/* `table` of SCAN, STATS, MARKS and INDEX: what this very member has, whatever its place in the chain (not a
 * read).
 */
#define MOB_GCS_HERE 255u
struct mob_gcs_get {
    uint64_t tag; /* comes back in MOB_GCS_ROWS */
    uint8_t query; /* enum mob_gcs_query */
    uint8_t table;
    uint8_t failed, newest_first;
    uint32_t limit;
    uint32_t prefix_length; /* LIST; SCAN of failures: `tie` of the page before */
    uint32_t group; /* GROUP; SCAN: of the block at `incarnation` only the first so many entries, 0 = all */
    struct mob_stream stream;
    struct mob_job_id job;
    struct mob_function_id function;
    int64_t from_wall_ns, to_wall_ns;
    uint64_t incarnation; /* UNFINISHED, LOG; INCARNATIONS: after; SCAN: a commit position */
    uint64_t position;
};
enum mob_gcs_rows_kind {
    MOB_GCS_ROWS_NONE = 0,
    MOB_GCS_ROWS_KV = 1,
    MOB_GCS_ROWS_BLOCKS = 2,
    MOB_GCS_ROWS_INCARNATIONS = 3,
    MOB_GCS_ROWS_STATS = 4,
    MOB_GCS_ROWS_GROUPS = 5, /* struct mob_gcs_flush_group */
    MOB_GCS_ROWS_MARKS = 6, /* struct mob_gcs_mark, in no order; one may come twice */
    MOB_GCS_ROWS_INDEX = 7 /* struct mob_gcs_index_row, by position */
};
struct mob_gcs_rows {
    uint64_t tag;
    uint32_t status;
    uint32_t kind; /* enum mob_gcs_rows_kind */
    uint32_t count;
    uint32_t tie; /* `next` is a time: so many failures of exactly that time were given */
    uint64_t seq, next;
};
/* COLD has this head when it is known up to where blocks are in PostgreSQL; it comes again when that moves.
 * Its body is a struct mob_gcs_database, or nothing (of an earlier version; an earlier one's member does not
 * read it). */
struct mob_gcs_cold {
    uint64_t watermark;
};
/* A GET whose rows were flushed, as the member gives it to the client that reads PostgreSQL; of GROUPS with
 * its body. */
struct mob_gcs_cold_get {
    uint64_t upto; /* blocks up to here only: the others are in the member */
    struct mob_gcs_get get; /* its tag is the member's; its position is 0 or a cold one */
};
/* Positions of pages in what was flushed, apart from those in the member, which are commit positions. A page
 * ends inside of a batch of the flusher: `row` says how far it came there. Oldest first: everything up to
 * `seq` was given, and of the batch behind it the rows below `row`. Newest first: everything from `seq` on,
 * and of the batch before it the rows from `row` on. */
#define MOB_GCS_COLD_BIT (1ull << 63)
/* Of failures, which come by the time of their end: the rest is microseconds since 1970. */
#define MOB_GCS_COLD_TIME_BIT (1ull << 62)
#define MOB_GCS_COLD_ROW_BITS 20
#define MOB_GCS_COLD_ROW_MAX ((1u << MOB_GCS_COLD_ROW_BITS) - 1)
#define MOB_GCS_COLD_SEQ_MAX ((1ull << (62 - MOB_GCS_COLD_ROW_BITS)) - 1)
static inline uint64_t mob_gcs_cold_position(uint64_t seq, uint32_t row)
{
    return MOB_GCS_COLD_BIT | seq << MOB_GCS_COLD_ROW_BITS | row;
}
static inline uint64_t mob_gcs_cold_seq(uint64_t position)
{
    return (position & ~MOB_GCS_COLD_BIT) >> MOB_GCS_COLD_ROW_BITS;
}
static inline uint32_t mob_gcs_cold_row(uint64_t position)
{
    return (uint32_t)position & MOB_GCS_COLD_ROW_MAX;
}
struct mob_gcs_sub_head {
    uint64_t tag;
    uint64_t after; /* SUB: after this seq; BLOCK: the one given before it; RESYNC: what is behind it ... */
    uint64_t next; /* RESYNC: ... and before this is not given */
};

/* Each head is a struct of fixed-width integers without holes, so its bytes are its encoding. */
#define MOB_GCS_HEADS(X) \
    X(welcome, 40) \
    X(attach, 24) \
    X(attached, 16) \
    X(request, 80) \
    X(reply, 56) X(durable, 40) X(nack, 16) X(get, 96) X(cold, 8) X(cold_get, 104) X(rows, 40) X(sub_head, 24)
#define MOB_GCS_HEAD_SIZE(name, n) _Static_assert(sizeof(struct mob_gcs_##name) == (n), "head layout");
MOB_GCS_HEADS(MOB_GCS_HEAD_SIZE)
#undef MOB_GCS_HEAD_SIZE
/* mob_gcs_NAME_decode(head, length, &out): MOB_TRUNCATED unless the length is exact. */
#define MOB_GCS_HEAD_DECODE(name, n) \
    MOB_MUST_USE static inline enum mob_status mob_gcs_##name##_decode( \
        const uint8_t *head, uint32_t length, struct mob_gcs_##name *out) \
    { \
        if (length != (n)) \
            return MOB_TRUNCATED; \
        memcpy(out, head, (n)); \
        return MOB_OK; \
    }
MOB_GCS_HEADS(MOB_GCS_HEAD_DECODE)
#undef MOB_GCS_HEAD_DECODE

/* ---- rows in the body of MOB_GCS_ROWS ---- */

/* u32 key | u32 value length | u64 version | key | value */
#define MOB_GCS_KV_ROW_HEAD 16u
/* u64 seq | u64 incarnation | u64 number | u32 length | u32 recut | bytes; the body of MOB_GCS_BLOCK is one
 */
#define MOB_GCS_BLOCK_ROW_HEAD 32u
void mob_gcs_kv_row_encode(const struct mob_gcs_kv *kv, uint8_t out[MOB_GCS_KV_ROW_HEAD]);
void mob_gcs_block_row_encode(const struct mob_gcs_block_row *row, uint8_t out[MOB_GCS_BLOCK_ROW_HEAD]);
MOB_MUST_USE enum mob_status mob_gcs_kv_row_decode(struct mob_reader *r, struct mob_gcs_kv *out);
MOB_MUST_USE enum mob_status mob_gcs_block_row_decode(struct mob_reader *r, struct mob_gcs_block_row *out);
/* Rows of the other kinds are their structs. The name of an incarnation is terminated. */
MOB_MUST_USE enum mob_status mob_gcs_incarnation_decode(
    struct mob_reader *r, struct mob_gcs_incarnation *out);
/* What a member of an earlier version does not say is 0. The state is terminated. */
MOB_MUST_USE enum mob_status mob_gcs_stats_decode(struct mob_reader *r, struct mob_gcs_stats *out);

#endif
