/* A batch while it is gathered: copies of blocks, in order of seq, and what they leave unfinished. One owner
 * at a time: the flusher's loop, then the thread that writes it, then the loop again.
 */
#ifndef MOB_GCS_FLUSH_FLUSH_BATCH_H
#define MOB_GCS_FLUSH_FLUSH_BATCH_H

#include "gcs/flush/flush_nets.h"
#include "gcs/flush/writer.h"

struct flush_batch {
    struct flush_batch *next;
    uint64_t after, upto, epoch;
    int64_t opened_ns;
    uint8_t *bytes;
    size_t used, capacity;
    struct mob_flush_block *blocks; /* `bytes` of each is an offset until flush_batch_close */
    uint32_t count, block_capacity;
    struct flush_nets nets;
};

/* NULL when out of memory. */
struct flush_batch *flush_batch_create(uint64_t after, int64_t now_ns);
void flush_batch_destroy(struct flush_batch *b); /* NULL is fine */
/* Copies. MOB_NO_MEMORY; MOB_CORRUPT, MOB_VERSION: the block is in it all the same (the writer names it). */
MOB_MUST_USE enum mob_status flush_batch_add(
    struct flush_batch *b, uint64_t seq, const uint8_t *bytes, uint32_t length);
/* Has it what a FLUSH or a cut may have at most, or `bytes`? */
bool flush_batch_full(const struct flush_batch *b, size_t bytes);
/* No more blocks: pointers become pointers. */
void flush_batch_close(struct flush_batch *b, uint64_t epoch);
/* What mob_flush_write takes; borrows. */
struct mob_flush_batch flush_batch_of(const struct flush_batch *b);

#endif
