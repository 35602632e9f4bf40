/* One member of the control store, asked for what it has itself, whatever its place in the chain: for tools
 * that compare members. What it says is not a read in the sense of the protocol, and may be older than the
 * tail's. Blocks; one thread.
 */
#ifndef MOB_GCS_CLIENT_MEMBER_LINK_H
#define MOB_GCS_CLIENT_MEMBER_LINK_H

#include <stdbool.h>

#include "common/base/id.h"
#include "common/base/status.h"
#include "common/wire/gcs_msg.h"

struct mob_member_link;
struct mob_member_options {
    const char *path; /* of its socket */
    uint32_t shard;
    struct mob_cluster_id cluster;
    const uint8_t *secret; /* MOB_MAC_KEY_BYTES, the cluster's; copies */
    int silence_s; /* after which each call gives up; 0: 20 */
};
/* MOB_UNAVAILABLE, or why the member, or this end, refuses. Gives
 * (close). */
MOB_MUST_USE enum mob_status mob_member_open(
    const struct mob_member_options *options, struct mob_member_link **link_out);
void mob_member_close(struct mob_member_link *link); /* NULL is fine */
/* A call found the member gone, or silent: nothing more comes over this link. */
bool mob_member_broken(const struct mob_member_link *link);
MOB_MUST_USE enum mob_status mob_member_stats(struct mob_member_link *link, struct mob_gcs_stats *out);
/* Its blocks behind a commit position, oldest first; *next_out: the position to go on from, 0 at the end.
 * `rows` has room for MOB_GCS_ROWS_MAX; their bytes are borrowed until the next call. MOB_UNAVAILABLE also
 * when one of them is in the index and not in its Redis. */
MOB_MUST_USE enum mob_status mob_member_scan(struct mob_member_link *link, uint64_t position, uint32_t limit,
    struct mob_gcs_block_row *rows, uint32_t *count_out, uint64_t *next_out);

#endif
