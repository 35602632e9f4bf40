/* One batch of committed blocks into PostgreSQL: re-cut, inserted, and the watermark moved, in one
 * transaction.
 *
 * The transaction begins with the compare-and-set of the watermark, so of two flushers that hold the same
 * batch one inserts it, and the other, which waits for the row, nothing. One thread; blocks.
 */
#ifndef MOB_GCS_FLUSH_WRITER_H
#define MOB_GCS_FLUSH_WRITER_H

#include "gcs/flush/cold.h"
#include "gcs/flush/database.h"

struct mob_flush_block {
    uint64_t seq;
    const uint8_t *bytes;
    uint32_t length;
};
struct mob_flush_batch {
    uint64_t after, upto; /* the watermark before and then; upto = the last block's seq */
    uint64_t epoch; /* of the chain that committed them */
    const struct mob_flush_block *blocks; /* in order of seq */
    uint32_t count;
};
struct mob_flush_written {
    uint32_t buckets, streams, failures;
    uint64_t block_bytes, payload_bytes;
    uint64_t specs, finals, failed, others;
    uint32_t damaged; /* blocks that do not decode: named in the table of gaps, and left out */
};

struct mob_writer_state;
/* NULL when out of memory. */
struct mob_writer_state *mob_flush_writer_create(uint32_t shard);
void mob_flush_writer_destroy(struct mob_writer_state *w);
/* Partitions were dropped: nothing is taken to be there any more. */
void mob_flush_writer_forget(struct mob_writer_state *w);
/* MOB_OK: committed. MOB_CONFLICT: the watermark is not at `after`, or a later epoch has moved it: nothing
 * was inserted, another flusher is at work. MOB_UNAVAILABLE: the connection ended, perhaps behind the commit:
 * look at the watermark. Others: nothing was inserted, try again later. */
MOB_MUST_USE enum mob_status mob_flush_write(struct mob_writer_state *w, struct mob_database *db,
    const struct mob_flush_batch *batch, struct mob_flush_written *written_out);

#endif
