/* Rows of a snapshot, as a joiner gets them in batches (body of MOB_GCS_SNAPSHOT and of the action LOAD).
 *
 *   u16 cursor bytes | cursor | row...        a row: u8 kind | u32 bytes | content
 *
 * Kinds below MOB_CHAIN_ROW_OWNER are the chain's own, and its owner writes them to its store as they are;
 * KEY may also come from the owner, for values that the tables do not hold. Decoding never allocates, and
 * points into the input. Pure.
 */
#ifndef MOB_GCS_CHAIN_CHAIN_ROWS_H
#define MOB_GCS_CHAIN_CHAIN_ROWS_H

#include <stdbool.h>

#include "common/base/bytes.h"
#include "common/wire/gcs_msg.h"

enum mob_chain_row_kind {
    MOB_CHAIN_ROW_INCARNATION = 1,
    MOB_CHAIN_ROW_CLIENT = 2, /* and its replies */
    MOB_CHAIN_ROW_KEY = 3,
    MOB_CHAIN_ROW_FLUSHED = 4,
    MOB_CHAIN_ROW_OWNER = 16 /* and above: not looked at here */
};
struct mob_chain_row {
    uint8_t kind;
    const uint8_t *content;
    uint32_t bytes;
};
/* False at the end, or (reader failed) when the input is short. */
bool mob_chain_row_next(struct mob_reader *r, struct mob_chain_row *row_out);
/* Fails the writer when there is no room. */
void mob_chain_row_write(struct mob_writer *w, uint8_t kind, const void *content, uint32_t bytes);
void mob_chain_row_write_key(struct mob_writer *w, uint8_t table, const struct mob_gcs_kv *kv);

struct mob_chain_row_client {
    uint64_t id, last;
    uint32_t count; /* replies */
    const uint8_t *replies; /* struct mob_gcs_reply each, not aligned */
};
MOB_MUST_USE enum mob_status mob_chain_row_client(
    const struct mob_chain_row *row, struct mob_chain_row_client *out);
MOB_MUST_USE enum mob_status mob_chain_row_incarnation(
    const struct mob_chain_row *row, struct mob_gcs_incarnation *out);
MOB_MUST_USE enum mob_status mob_chain_row_key(
    const struct mob_chain_row *row, uint8_t *table_out, struct mob_gcs_kv *kv_out);

#endif
