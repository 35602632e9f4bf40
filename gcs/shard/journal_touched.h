/* What is kept in memory of the journal's rows until their segment goes: the key and version of each, and
 * which of them a later row has replaced.
 *
 * Of a row that was replaced nothing is written when its segment goes, and mostly all are; to ask the tables
 * for each would touch the memory of a key that has gone cold once more. So a row that is added looks for the
 * one before it with its key: in a hash table of places without chains, each of which the last comer takes.
 * Who is not found there is asked for in the tables after all. One owner, no locks.
 */
#ifndef MOB_GCS_SHARD_JOURNAL_TOUCHED_H
#define MOB_GCS_SHARD_JOURNAL_TOUCHED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MOB_TOUCHED_TOGETHER 16u /* rows that are added at a time, at most */

struct mob_touched_row {
    const uint8_t *key;
    uint32_t key_length; /* at most 32767 */
    uint64_t version; /* of a reply its seq; 0: the key is gone */
};
struct mob_touched_segment {
    uint64_t bytes; /* of the segment in Redis: its owner's */
    uint8_t *rows;
    size_t length, capacity;
};
struct mob_touched_place {
    uint32_t segment, row; /* the last bits of its number; where in its rows */
};
/* Zero and `first` = 1 at the start. */
struct mob_touched {
    struct mob_touched_segment *segments; /* numbered from `first` on */
    uint32_t count, capacity;
    uint64_t first;
    struct mob_touched_place *places;
    size_t place_count, row_count;
    struct mob_touched_segment spare; /* memory of the segment that went last, for the next one's rows */
};

/* What is added from now on belongs to a new segment. */
void mob_touched_begin(struct mob_touched *t);
/* NULL: there is none. */
struct mob_touched_segment *mob_touched_newest(struct mob_touched *t);
/* Copies; there must be a segment. For each, in their order, the row with its key that was added before
 * counts as replaced. */
void mob_touched_add(struct mob_touched *t, const struct mob_touched_row *rows, size_t count);
/* The next row of the oldest segment that is not known to have been replaced, from `*at` on, which moves
 * behind it; it borrows until the next change. False: no more. */
bool mob_touched_left(const struct mob_touched *t, size_t *at, struct mob_touched_row *row_out);
/* The oldest segment goes, with its rows; there must be one. */
void mob_touched_drop(struct mob_touched *t);
void mob_touched_fini(struct mob_touched *t);

#endif
