/* Up to where a shard's blocks are in PostgreSQL. One thread; blocks.
 */
#ifndef MOB_GCS_FLUSH_WATERMARK_H
#define MOB_GCS_FLUSH_WATERMARK_H

#include "gcs/flush/database.h"

/* Makes the shard's row the first time: 0, 0. */
MOB_MUST_USE enum mob_status mob_watermark_read(
    struct mob_database *db, uint32_t shard, uint64_t *upto_out, uint64_t *epoch_out);
/* In a transaction: compare-and-set (GCS.md "Flushing"). MOB_CONFLICT: it is not at `after`, or a later epoch
 * has moved it. */
MOB_MUST_USE enum mob_status mob_watermark_move(
    struct mob_database *db, uint32_t shard, uint64_t after, uint64_t upto, uint64_t epoch);
/* Ends of the batches in (after, upto], oldest first, at most `max`. */
MOB_MUST_USE enum mob_status mob_watermark_batches(struct mob_database *db, uint32_t shard, uint64_t after,
    uint64_t upto, uint64_t *uptos_out, int max, int *count_out);
/* Nothing is known of (after, upto]. */
MOB_MUST_USE enum mob_status mob_watermark_gap(
    struct mob_database *db, uint32_t shard, uint64_t after, uint64_t upto);
/* Members were told that all up to `upto` is here, and it is not: names the gap, and goes on behind it.
 * MOB_CONFLICT as above. */
MOB_MUST_USE enum mob_status mob_watermark_skip(
    struct mob_database *db, uint32_t shard, uint64_t after, uint64_t upto, uint64_t epoch);

#endif
