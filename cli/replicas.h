/* How many chains the control store has at the next start and how many members each of them: what is asked
 * for (gcs-shards, gcs-replicas), what the directory was made with, and what there is to keep configurations
 * in.
 *
 * - A directory keeps its number of chains, and no other one may be asked for: data does not move between
 * them.
 * - It keeps its number of members, too: it stands in DIR/gcs-replicas from the first time that the cluster
 * was ready, and without a word about it that number is used.
 * - More may be asked for: members join. Fewer not, since those that are left out may have more.
 * - Who is in a chain of several is decided in PostgreSQL (GCS.md "Master"), so without PostgreSQL there is
 *   one member.
 *
 * One thread; blocks on the file system only.
 */
#ifndef MOB_CLI_REPLICAS_H
#define MOB_CLI_REPLICAS_H

#include "cli/state_dir.h"
#include "common/settings/settings.h"

/* Puts both numbers into `settings`, unless they were asked for; settings are otherwise complete.
 * MOB_CONFLICT: what is asked for cannot be, with one sentence about why; MOB_CORRUPT, MOB_TOO_LARGE as of
 * state_dir.h. */
MOB_MUST_USE enum mob_status replicas_choose(struct mob_settings *settings, char error[STATE_ERROR_MAX]);
/* How many the directory has been made with; 0: it has no control store yet. MOB_CORRUPT. */
MOB_MUST_USE enum mob_status replicas_of_directory(const char *directory, uint32_t *out);
/* The directory's cluster has been ready with a member of a chain of several whose data is not there, and
 * there is a PostgreSQL that may know it: the folder of the first such one. `path_out` is touched anyway. */
bool replicas_lost(const char *directory, uint32_t shards, char path_out[STATE_PATH_MAX]);
/* The same of all members of a shard, the first such one: there is nothing to go on with. */
bool replicas_lost_all(const char *directory, uint32_t shards, uint32_t *shard_out);
/* The cluster of this directory has been ready with so many. For the holder of the lock. MOB_IO. */
MOB_MUST_USE enum mob_status replicas_record(const char *directory, uint32_t replicas);

#endif
