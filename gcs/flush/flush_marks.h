/* Batches that are in PostgreSQL and still in the members too, oldest first: where each ends, its size, and
 * what it leaves unfinished. Of those that were written before this session the last comes from the
 * subscription, which begins at the first of them. One owner, no locks.
 */
#ifndef MOB_GCS_FLUSH_FLUSH_MARKS_H
#define MOB_GCS_FLUSH_FLUSH_MARKS_H

#include "gcs/flush/flush_batch.h"

struct flush_mark {
    uint64_t upto, bytes;
    struct flush_nets nets;
};
struct flush_marks {
    struct flush_mark *rows;
    uint32_t count, capacity;
    uint32_t ready; /* how many, from the oldest, are known in full */
};

void marks_clear(struct flush_marks *m); /* zeroed is fine */
/* Ends of batches, oldest first, of which nothing else is known. */
MOB_MUST_USE enum mob_status marks_begin(struct flush_marks *m, const uint64_t *ends, uint32_t count);
/* A block of those batches; they come in order. */
MOB_MUST_USE enum mob_status marks_add_block(struct flush_marks *m, const struct mob_gcs_block_row *row);
/* All blocks up to here have come. */
void marks_seen(struct flush_marks *m, uint64_t upto);
/* One that was written now; takes its nets. */
MOB_MUST_USE enum mob_status marks_add_batch(struct flush_marks *m, struct flush_batch *batch);
uint32_t marks_ready(const struct flush_marks *m);
uint64_t marks_bytes(const struct flush_marks *m); /* of those that are ready */
/* The oldest that are ready and hold about `bytes`, at least one, as many as a FLUSH takes. `nets` (zeroed)
 * becomes what they leave unfinished, *upto_out where they end (0: none is ready). */
MOB_MUST_USE enum mob_status marks_oldest(
    const struct flush_marks *m, uint64_t bytes, struct flush_nets *nets, uint64_t *upto_out);
/* Those up to here are gone. */
void marks_drop(struct flush_marks *m, uint64_t upto);

#endif
