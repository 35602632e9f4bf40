/* What blocks leave unfinished, group by group: specs less final completions, as a FLUSH tells it to the
 * members (struct mob_gcs_flush). One owner, no locks.
 */
#ifndef MOB_GCS_FLUSH_FLUSH_NETS_H
#define MOB_GCS_FLUSH_FLUSH_NETS_H

#include "common/wire/block.h"
#include "common/wire/gcs_msg.h"

struct flush_nets {
    struct mob_gcs_flush_group *rows; /* any order; net may be 0 */
    uint32_t count, capacity;
    uint32_t *slots; /* open addressing: row + 1 */
    uint32_t slot_capacity;
};

void flush_nets_fini(struct flush_nets *n); /* zeroed is fine */
/* MOB_NO_MEMORY: some of it may have been added. */
MOB_MUST_USE enum mob_status flush_nets_add_block(struct flush_nets *n, const struct mob_zone_map *zone);
MOB_MUST_USE enum mob_status flush_nets_add(struct flush_nets *n, const struct flush_nets *other);
/* Drops the groups that come to 0, and the table: nothing is added after it. */
void flush_nets_close(struct flush_nets *n);

#endif
