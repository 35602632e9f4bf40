/* The control store's row of an actor's newest checkpoint (MOB_GCS_CHECKPOINTS, by actor id): this, then the
 * state. In host order, as all rows of nodes of one machine type.
 */
#ifndef MOB_COMMON_WIRE_CHECKPOINT_ROW_H
#define MOB_COMMON_WIRE_CHECKPOINT_ROW_H

#include <stdbool.h>
#include <string.h>

#include "common/base/hash.h"

#define MOB_CHECKPOINT_ROW_VERSION 1

struct mob_checkpoint_row {
    uint16_t version;
    uint16_t type; /* enum mob_value_type */
    uint32_t bytes; /* of the state */
    uint64_t position; /* of the last call in it */
    struct mob_hash128 hash; /* of the state */
};

/* Copies the head out. False: no checkpoint that can be used; replay from the beginning. */
static inline bool mob_checkpoint_row_open(
    const uint8_t *value, size_t length, struct mob_checkpoint_row *row_out)
{
    struct mob_checkpoint_row row;
    if (length < sizeof row)
        return false;
    memcpy(&row, value, sizeof row);
    if (row.version != MOB_CHECKPOINT_ROW_VERSION || row.bytes != length - sizeof row ||
        !mob_hash128_eq(row.hash, mob_hash128(value + sizeof row, row.bytes)))
        return false;
    *row_out = row;
    return true;
}

#endif
