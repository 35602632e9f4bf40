#include "common/wire/recover_row.h"

#include <string.h>

void mob_recover_key(uint64_t incarnation, uint8_t key_out[MOB_RECOVER_KEY_BYTES])
{
    const size_t prefix = sizeof MOB_RECOVER_PREFIX - 1;
    memcpy(key_out, MOB_RECOVER_PREFIX, prefix);
    for (size_t i = 0; i < 8; i++)
        key_out[prefix + i] = (uint8_t)(incarnation >> (56 - 8 * i));
}

uint64_t mob_recover_of_key(const void *key, uint32_t length)
{
    const size_t prefix = sizeof MOB_RECOVER_PREFIX - 1;
    const uint8_t *bytes = key;
    uint64_t incarnation = 0;
    if (length != MOB_RECOVER_KEY_BYTES || memcmp(key, MOB_RECOVER_PREFIX, prefix) != 0)
        return 0;
    for (size_t i = 0; i < 8; i++)
        incarnation = incarnation << 8 | bytes[prefix + i];
    return incarnation;
}

enum mob_status mob_recover_row_open(const void *bytes, size_t length, struct mob_recover_row *row_out)
{
    struct mob_recover_row row;
    if (length < sizeof row.version)
        return MOB_TRUNCATED;
    memcpy(&row.version, bytes, sizeof row.version);
    if (row.version != MOB_RECOVER_ROW_VERSION)
        return MOB_VERSION;
    if (length < sizeof row)
        return MOB_TRUNCATED;
    memcpy(&row, bytes, sizeof row);
    if (row.state < MOB_RECOVER_RUNS || row.state > MOB_RECOVER_ENDED || row.incarnation == 0 || row.by == 0)
        return MOB_CORRUPT;
    *row_out = row;
    return MOB_OK;
}

enum mob_status mob_recover_row_take_over(struct mob_recover_row *row, const struct mob_recover_row *held)
{
    if (held->by > row->by)
        return MOB_SEALED;
    if (held->by == row->by)
        return MOB_OK;
    row->taken_from = held->by;
    row->takeovers = held->takeovers + 1;
    return MOB_OK;
}

const char *mob_recover_state_text(uint16_t state)
{
    return state == MOB_RECOVER_ENDED ? "ended" : "running";
}
