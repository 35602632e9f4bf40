/* Between snapshot.c, which gives a joiner its rows, and snapshot_load.c, which takes them. Internal to
 * gcs/shard; the loop's thread. */
#ifndef MOB_GCS_SHARD_SNAPSHOT_ROWS_H
#define MOB_GCS_SHARD_SNAPSHOT_ROWS_H

#include "gcs/shard/shard_internal.h"

/* The owner's kinds of rows. On the wire: append only. */
enum owner_row {
    ROW_BLOCK = MOB_CHAIN_ROW_OWNER, /* u64 seq, struct mob_redis_block, the block */
    ROW_IDENTITY = 17, /* u64 client, struct mob_redis_identity */
    ROW_BASES = 18, /* struct mob_redis_position each */
    ROW_COLD = 19, /* struct mob_gcs_flush_group each */
    ROW_COLD_UPTO = 20 /* u64: last of them */
};

#endif
