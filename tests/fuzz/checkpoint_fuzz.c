/* The control store's row of a checkpoint, from any bytes: what is taken is as long as it says and has the
 * hash that it says; what is refused says nothing but, perhaps, its version. */
#include <string.h>

#include "common/base/log.h"
#include "common/wire/checkpoint_row.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void open_row(const uint8_t *data, size_t size)
{
    struct mob_checkpoint_row row;
    struct mob_checkpoint_row none = {0};
    memset(&row, 0x5a, sizeof row);
    enum mob_status status = mob_checkpoint_row_open(data, size, &row);
    if (status == MOB_OK) {
        MOB_ASSERT(row.version == MOB_CHECKPOINT_ROW_VERSION && sizeof row + row.bytes == size);
        MOB_ASSERT(mob_hash128_eq(row.hash, mob_hash128(data + sizeof row, row.bytes)));
        return;
    }
    none.version = row.version;
    MOB_ASSERT(memcmp(&row, &none, sizeof row) == 0);
    MOB_ASSERT(status == MOB_VERSION ? row.version != 0 && row.version != MOB_CHECKPOINT_ROW_VERSION
                                     : status == MOB_CORRUPT && row.version == 0);
}

/* The hash would keep a fuzzer out: the input is tried as it is, and again with the right head. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t copy[4096];
    struct mob_checkpoint_row row;
    open_row(data, size);
    if (size < sizeof row || size > sizeof copy)
        return 0;
    memcpy(&row, data, sizeof row);
    memcpy(copy, data, size);
    row.version = MOB_CHECKPOINT_ROW_VERSION;
    row.bytes = (uint32_t)(size - sizeof row);
    row.hash = mob_hash128(data + sizeof row, row.bytes);
    memcpy(copy, &row, sizeof row);
    MOB_ASSERT(mob_checkpoint_row_open(copy, size, &row) == MOB_OK);
    return 0;
}
