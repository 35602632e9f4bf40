/* Buckets: the rows in which flushed lineage lies (GCS.md "Flushing"). A bucket holds blocks (block.h) whose
 * entries were sorted by task id, and knows of each entry where in the log it was.
 *
 *   front | LZ4 of: directory | blocks | origins
 *
 * front: u32 magic "MBKT" | u16 version | u16 front bytes | u32 crc32c of all behind it | u32 raw bytes |
 *        u32 packed bytes (= raw bytes: not compressed) | u32 blocks
 * directory, for each block: zigzag of its seq less that of the one before | varint bytes | varint bytes of
 *        its origins, 0 = they are (seq, 0), (seq, 1), ...
 * origins: a token for each entry, bucket.c.
 *
 * The summary is what an index over buckets needs: range of ids, zone map, filters of groups and functions.
 * Builder and reader: one owner, everything allocated at the start but for the list of groups. Decoding
 * checks everything and never reads outside. Pure.
 */
#ifndef MOB_COMMON_WIRE_BUCKET_H
#define MOB_COMMON_WIRE_BUCKET_H

#include "common/wire/block.h"
#include "common/wire/bloom.h"

#define MOB_BUCKET_VERSION 1
#define MOB_BUCKET_TARGET_BYTES (64u << 10) /* of blocks; a bucket with so much takes no more */
#define MOB_BUCKET_BLOCKS_MAX 1024u
#define MOB_BUCKET_RAW_MAX (512u << 10)
#define MOB_BUCKET_BYTES_MAX (MOB_BUCKET_RAW_MAX + 64u) /* of a whole bucket: stored at worst */

/* A task id whose bytes sort as its numbers do: the stream, then the index big-endian. */
struct mob_bucket_key {
    uint8_t b[16];
};
struct mob_bucket_key mob_bucket_key(struct mob_stream stream, uint32_t index);

/* Where an entry was: in the block at `seq`, after `ordinal` others. */
struct mob_bucket_origin {
    uint64_t seq;
    uint32_t ordinal; /* below MOB_BLOCK_ENTRIES_MAX */
};

struct mob_bucket_summary {
    uint32_t blocks, entries, raw_bytes;
    uint32_t groups; /* 0: no entry belongs to a task; then first and last mean nothing */
    struct mob_bucket_key first, last; /* whole groups: index 0 of the first, 255 of the last */
    uint64_t seq_min, seq_max; /* of the origins */
    int64_t time_min_ns, time_max_ns; /* wall clock, as of the zone maps */
    int64_t longest_ns;
    uint32_t specs, finals, failed, others;
    const uint8_t *group_filter, *function_filter; /* Bloom filters; valid until the next mob_bucket_begin */
    size_t group_filter_bytes, function_filter_bytes; /* functions: 0 = too many to say */
};
struct mob_bloom_hash mob_bucket_group_hash(struct mob_stream stream, uint32_t group);
struct mob_bloom_hash mob_bucket_function_hash(struct mob_function_id function);

struct mob_bucket_builder;
/* NULL when out of memory. About 1.3 MiB. */
struct mob_bucket_builder *mob_bucket_builder_create(void);
void mob_bucket_builder_destroy(struct mob_bucket_builder *b);
/* Starts a bucket; forgets what was there. */
void mob_bucket_begin(struct mob_bucket_builder *b);
/* Bytes of blocks in it: at MOB_BUCKET_TARGET_BYTES it is time to end. */
uint32_t mob_bucket_bytes(const struct mob_bucket_builder *b);
uint32_t mob_bucket_blocks(const struct mob_bucket_builder *b);
/* Copies a block. `origins`: one for each of its entries, or NULL for a block as it was in the log at `seq`;
 * seqs of a bucket need not grow. MOB_QUEUE_FULL: end this bucket first; MOB_CORRUPT, MOB_NO_MEMORY. */
MOB_MUST_USE enum mob_status mob_bucket_add(struct mob_bucket_builder *b, uint64_t seq, const uint8_t *block,
    uint32_t length, const struct mob_bucket_origin *origins);
/* Finishes into `out` (MOB_BUCKET_BYTES_MAX); returns the bytes. */
uint32_t mob_bucket_end(struct mob_bucket_builder *b, uint8_t *out, struct mob_bucket_summary *summary_out);

/* One block of a bucket; borrowed until the reader's next open. */
struct mob_bucket_block {
    uint64_t seq;
    const uint8_t *bytes;
    uint32_t length;
    bool whole; /* as it was in the log: its entries' origins are (seq, 0), (seq, 1), ... */
    const uint8_t *origins; /* encoded: mob_bucket_origins */
    uint32_t origin_bytes;
};
struct mob_bucket_reader;
struct mob_bucket_reader *mob_bucket_reader_create(void); /* NULL when out of memory */
void mob_bucket_reader_destroy(struct mob_bucket_reader *r);
/* Checks all but the blocks themselves. MOB_VERSION, MOB_CORRUPT, MOB_TRUNCATED. */
MOB_MUST_USE enum mob_status mob_bucket_open(
    struct mob_bucket_reader *r, const uint8_t *bytes, size_t length, uint32_t *blocks_out);
/* The blocks in order; false behind the last. */
bool mob_bucket_next(struct mob_bucket_reader *r, struct mob_bucket_block *out);
/* Where the first `count` entries of the block were; count is what its header says. MOB_CORRUPT. */
MOB_MUST_USE enum mob_status mob_bucket_origins(
    const struct mob_bucket_block *block, struct mob_bucket_origin *out, uint32_t count);

#endif
