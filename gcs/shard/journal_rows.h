/* The journal of a member's store: what passes write to small rows, in the order of the log. A row under a
 * key of its own costs Redis 1.5 us; in the journal a pass is appended to one value in one command, and the
 * rows are only written of what is still the newest when the oldest segment of the journal goes.
 *
 * A segment is passes, one behind the other: u32 bytes of the pass with this head, u32 zero, u64 epoch, u64
 * seq (how far the store is with it), then rows: u8 kind, u8 zero, u16 length of the key, u32 length of the
 * value, key, value. Keys are those of redis_keys.h, with the values that they have there. Pure, nothing is
 * kept.
 */
#ifndef MOB_GCS_SHARD_JOURNAL_ROWS_H
#define MOB_GCS_SHARD_JOURNAL_ROWS_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/status.h"

#define MOB_JOURNAL_PASS_BYTES 24u
#define MOB_JOURNAL_ROW_BYTES 8u

enum mob_journal_kind {
    MOB_JOURNAL_SET = 1,
    MOB_JOURNAL_GONE = 2, /* of a client: with all its replies */
    MOB_JOURNAL_OUTSIDE = 3 /* its value, too large for the journal, is under its own key */
};
struct mob_journal_row {
    uint8_t kind;
    const uint8_t *key, *value;
    uint32_t key_length, value_length;
};
struct mob_journal_pass {
    uint64_t epoch, seq;
    const uint8_t *rows;
    size_t length;
};

/* Of what stands before the key. */
void mob_journal_row_encode(const struct mob_journal_row *row, uint8_t head_out[MOB_JOURNAL_ROW_BYTES]);
/* `pass->length`: of the rows behind the head. */
void mob_journal_pass_encode(const struct mob_journal_pass *pass, uint8_t head_out[MOB_JOURNAL_PASS_BYTES]);

/* The pass, or row, at `*at`, which moves behind it; they point into `bytes`. MOB_FINISHED at the end,
 * MOB_CORRUPT. */
MOB_MUST_USE enum mob_status mob_journal_pass_next(
    const uint8_t *bytes, size_t length, size_t *at, struct mob_journal_pass *pass_out);
MOB_MUST_USE enum mob_status mob_journal_row_next(
    const struct mob_journal_pass *pass, size_t *at, struct mob_journal_row *row_out);

#endif
