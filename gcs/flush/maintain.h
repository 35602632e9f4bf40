/* What the flusher does beside flushing: days past their retention go, and jobs that were deleted.
 *
 * A day's partitions are dropped when it ended longer than the retention ago and nothing of it is needed: no
 * job with lineage of that day is running or ended within the retention (of a standing job what has ended
 * ages by itself), no task of it is unfinished. What living actors need of it is copied before it goes, and
 * goes when they do (kept.h). What is needed is read
 * from the control store first, so an answer that is missing keeps everything. With several shards in one
 * database the first one's flusher does this for all, and asks all; one that cannot ask the others drops
 * nothing. Whoever deletes a job leaves a
 * row (MOB_GCS_KEY_FLUSH_GONE ++ job id, in MOB_GCS_KV), if there is one that says that somebody reads such
 * rows (MOB_GCS_KEY_FLUSH_PRESENT). One thread; blocks, also on the control store.
 */
#ifndef MOB_GCS_FLUSH_MAINTAIN_H
#define MOB_GCS_FLUSH_MAINTAIN_H

#include "common/base/id.h"
#include "gcs/flush/database.h"

struct mob_maintain_options {
    const char *gcs_socket;
    const char *all_shards; /* flusher.h */
    struct mob_cluster_id cluster;
    const uint8_t *secret; /* the cluster's; keeps */
    uint32_t shard;
    int64_t retention_s;
    int64_t now_wall_ns;
    bool tidy; /* look at what was kept for actors, though no day goes: reads the edges of all of them */
};
struct mob_maintained {
    uint32_t days, jobs; /* that went */
};
/* MOB_UNAVAILABLE, MOB_TIMEOUT and others: what was not done is done the next time. */
MOB_MUST_USE enum mob_status mob_maintain(
    struct mob_database *db, const struct mob_maintain_options *options, struct mob_maintained *done_out);

#endif
