/* What is in PostgreSQL, in numbers (struct mob_gcs_database), as the flusher tells members and `mobula gcs
 * status` shows it. One thread; blocks. Each fills in its part, on MOB_OK only.
 */
#ifndef MOB_GCS_FLUSH_FIGURES_H
#define MOB_GCS_FLUSH_FIGURES_H

#include "common/wire/gcs_msg.h"
#include "gcs/flush/database.h"

/* Batches, tasks and failures of a shard: reads all its batches. */
MOB_MUST_USE enum mob_status mob_figures_count(
    struct mob_database *db, uint32_t shard, struct mob_gcs_database *figures);
/* Days that there are, of all shards, and the shard's gaps. */
MOB_MUST_USE enum mob_status mob_figures_days(
    struct mob_database *db, uint32_t shard, struct mob_gcs_database *figures);
/* Bytes on disk, of all shards: looks at each file. */
MOB_MUST_USE enum mob_status mob_figures_size(struct mob_database *db, struct mob_gcs_database *figures);

#endif
