/* One member of the control store, asked for what it has itself, whatever its place in the chain: for tools
 * that compare members. What it says is not a read in the sense of the protocol, and may be older than the
 * tail's. Blocks; a link is one thread's.
 */
#ifndef MOB_GCS_CLIENT_MEMBER_LINK_H
#define MOB_GCS_CLIENT_MEMBER_LINK_H

#include <stdbool.h>

#include "common/base/id.h"
#include "common/base/status.h"
#include "common/wire/gcs_link.h"
#include "common/wire/gcs_msg.h"

#define MOB_MEMBER_INDEX_MAX 2048u /* rows in one answer */

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
/* Its digests at some of the newest positions, in no order. Of a member whose figures say that it has any. */
MOB_MUST_USE enum mob_status mob_member_marks(
    struct mob_member_link *link, struct mob_gcs_mark out[MOB_GCS_MARKS_MAX], uint32_t *count_out);
/* Its blocks behind a commit position, oldest first; *next_out: the position to go on from, 0 at the end.
 * `rows` has room for MOB_GCS_ROWS_MAX; their bytes are borrowed until the next call. MOB_UNAVAILABLE also
 * when one of them is in the index and not in its Redis. */
MOB_MUST_USE enum mob_status mob_member_scan(struct mob_member_link *link, uint64_t position, uint32_t limit,
    struct mob_gcs_block_row *rows, uint32_t *count_out, uint64_t *next_out);
/* Where its index has blocks of some groups, at most MOB_GCS_GROUPS_MAX, behind a commit position. Of a
 * member whose figures say that it tells. */
struct mob_member_index {
    struct mob_gcs_index_row rows[MOB_MEMBER_INDEX_MAX]; /* by position */
    uint32_t count;
    uint64_t next; /* the position to go on from, 0 at the end */
};
MOB_MUST_USE enum mob_status mob_member_index(struct mob_member_link *link,
    const struct mob_gcs_group_key *keys, uint32_t count, uint64_t position, struct mob_member_index *out);

/* ---- all members of a shard ---- */

#define MOB_MEMBER_PATH_MAX 108u
struct mob_member_place {
    char path[MOB_MEMBER_PATH_MAX]; /* of its socket */
    const char *name; /* in the path: what people call it */
};
/* Of one shard of `addresses`, which are as in mob_gcs_options.socket_path: how many there are, at most
 * `max`. The names point into `out`. */
uint32_t mob_members_of(const char *addresses, uint32_t shard, struct mob_member_place *out, uint32_t max);
/* "head", "middle", "tail" or "sole"; NULL: it has no place in the chain. */
const char *mob_member_role(const struct mob_gcs_config *chain, uint64_t member);
struct mob_member_answer {
    enum mob_status status; /* MOB_UNAVAILABLE: not by the deadline, too */
    struct mob_gcs_stats stats;
};
#define MOB_MEMBERS_ASKED_MAX 32u
/* Asks all of them for their figures at once, and returns when they have answered, or at the deadline without
 * those that have not. options.silence_s is nothing here. */
void mob_members_ask(const struct mob_member_options *options, uint32_t count, int64_t deadline_ns,
    struct mob_member_answer *out);

#endif
