/* A member's index over the blocks it stores: by group, by job, by incarnation and number, by commit
 * position.
 *
 * Built from each block's header and zone map while the block is applied, and again from the store after a
 * restart; entries are never decoded. It holds no block bytes: about 80 bytes a block and 60 a group of 256
 * tasks. A slot is named by an ordinal, in commit order; ordinals live as long as the process. One owner, no
 * locks. Out of memory ends the process (MOB_ASSERT): an index with a hole would lose tasks.
 */
#ifndef MOB_GCS_SHARD_INDEX_H
#define MOB_GCS_SHARD_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/wire/block.h"
#include "common/wire/gcs_msg.h"

#define MOB_INDEX_NONE UINT32_MAX

struct mob_index;
/* What a block says that was added behind a hole in its log's numbers, after a restart: then nobody knows the
 * places of those that are missing. */
enum mob_index_gap {
    MOB_INDEX_WHOLE = 0,
    MOB_INDEX_GAP, /* they were dropped */
    MOB_INDEX_NO_BEGIN /* it is the first of its log that is here: the others were dropped, or flushed */
};
struct mob_index_slot {
    uint64_t seq, incarnation, number;
    int64_t time_min_ns, time_max_ns; /* wall clock */
    uint64_t functions; /* Bloom filter of 64 bits, 2 a function; all ones when they were too many */
    uint32_t length; /* of the block; 0 = dropped */
    uint16_t failed; /* failed completions; saturates */
    uint16_t gap; /* enum mob_index_gap */
    uint32_t job; /* row of the job table */
    uint32_t job_older; /* the job's block before this one */
};

struct mob_index *mob_index_create(void);
void mob_index_destroy(struct mob_index *ix);
/* The next block in commit order. */
void mob_index_add(struct mob_index *ix, uint64_t seq, uint32_t length, const struct mob_block_header *header,
    const struct mob_zone_map *zone);
/* What was read from a store is in it, which ended at `seq`: what is missing before a later block of a log
 * was before that. Not called: it may be up to the block. */
void mob_index_loaded(struct mob_index *ix, uint64_t seq);
/* Forgets a block; false when there is none. Its groups go when their last block goes (mob_index_sweep). */
bool mob_index_drop(struct mob_index *ix, uint64_t seq);
/* Forgets every block with seq <= upto, which PostgreSQL has; how many. What of a group was unfinished in
 * them is told by mob_index_flush_group, and keeps the group. */
uint64_t mob_index_flush(struct mob_index *ix, uint64_t upto);
void mob_index_flush_group(struct mob_index *ix, const struct mob_gcs_flush_group *group);
/* The same while loading: the flushed blocks were never here. */
void mob_index_load_group(struct mob_index *ix, const struct mob_gcs_flush_group *group);
/* Groups that the flushed blocks leave unfinished, in rows (gives: free()); `open`: only those with more
 * specs than final completions in all, whatever block they are in. */
struct mob_gcs_flush_group *mob_index_cold_groups(const struct mob_index *ix, bool open, size_t *count_out);
/* Removes groups and references of dropped blocks; call when many were dropped. O(groups + blocks). */
void mob_index_sweep(struct mob_index *ix);

/* NULL for ordinals out of range and dropped blocks. Borrowed until the next add. */
const struct mob_index_slot *mob_index_slot(const struct mob_index *ix, uint32_t ordinal);
uint32_t mob_index_end(const struct mob_index *ix); /* one above the newest ordinal */
uint64_t mob_index_newest(
    const struct mob_index *ix); /* its position, also when it was dropped; 0: none yet */
/* The first ordinal whose seq is above `seq`. */
uint32_t mob_index_after(const struct mob_index *ix, uint64_t seq);
/* Behind commit position `above`, was a block dropped here, or between here and the block before in the log
 * of the one that is here? */
struct mob_index_lookout {
    uint64_t above; /* at least where the flushed blocks end */
    bool flushed; /* some were: what is missing before a log's first block is taken for such */
    bool by_job; /* of this job, or of one that is not known any more */
    struct mob_job_id job;
};
bool mob_index_is_gone(const struct mob_index *ix, uint32_t ordinal, const struct mob_index_lookout *lookout);
/* The first block at or after `number` that is still there; MOB_INDEX_NONE. */
uint32_t mob_index_log_next(const struct mob_index *ix, uint64_t incarnation, uint64_t number);
/* Up to `max` ordinals above `after` (MOB_INDEX_NONE: from the start) of a group, oldest first; how many. */
size_t mob_index_group(const struct mob_index *ix, struct mob_stream stream, uint32_t group, uint32_t after,
    uint32_t *ordinals_out, size_t max);
/* Newest block of a job, MOB_INDEX_NONE when it has none; go on with job_older. */
uint32_t mob_index_job_newest(const struct mob_index *ix, struct mob_job_id job);
struct mob_job_id mob_index_job(const struct mob_index *ix, const struct mob_index_slot *slot);
uint64_t mob_index_function_bits(struct mob_function_id function);
/* Ordinals (sorted, gives: free()) of all blocks of groups that have a block of `incarnation` and more specs
 * than final completions; of every incarnation when it is 0. */
uint32_t *mob_index_unfinished(const struct mob_index *ix, uint64_t incarnation, size_t *count_out);

struct mob_index_figures {
    uint64_t blocks, block_bytes, groups, jobs, heap_bytes;
    uint64_t cold_groups; /* with a part that was flushed and is not balanced */
};
void mob_index_figures(const struct mob_index *ix, struct mob_index_figures *out);

#endif
