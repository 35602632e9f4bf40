/* The control store's row of an actor's newest checkpoint (MOB_GCS_CHECKPOINTS, by actor id): this, then the
 * state. In host order, as all rows of nodes of one machine type.
 */
#ifndef MOB_COMMON_WIRE_CHECKPOINT_ROW_H
#define MOB_COMMON_WIRE_CHECKPOINT_ROW_H

#include <stddef.h>
#include <string.h>

#include "common/base/hash.h"
#include "common/base/status.h"

#define MOB_CHECKPOINT_ROW_VERSION 1

struct mob_checkpoint_row {
    uint16_t version;
    uint16_t type; /* enum mob_value_type */
    uint32_t bytes; /* of the state */
    uint64_t position; /* of the last call in it */
    struct mob_hash128 hash; /* of the state */
};

/* Copies the head out. MOB_CORRUPT: no checkpoint that can be used. MOB_VERSION: one of a program that knows
 * more, and then of the head only `version` means something. The head is 0 in both cases but for that. */
MOB_MUST_USE static inline enum mob_status mob_checkpoint_row_open(
    const uint8_t *value, size_t length, struct mob_checkpoint_row *row_out)
{
    struct mob_checkpoint_row row;
    uint16_t version = 0; /* which no row has */
    *row_out = (struct mob_checkpoint_row){0};
    if (length >= sizeof version)
        memcpy(&version, value, sizeof version);
    if (version != 0 && version != MOB_CHECKPOINT_ROW_VERSION) {
        row_out->version = version;
        return MOB_VERSION;
    }
    if (version == 0 || length < sizeof row)
        return MOB_CORRUPT;
    memcpy(&row, value, sizeof row);
    if (row.bytes != length - sizeof row ||
        !mob_hash128_eq(row.hash, mob_hash128(value + sizeof row, row.bytes)))
        return MOB_CORRUPT;
    *row_out = row;
    return MOB_OK;
}

#endif
