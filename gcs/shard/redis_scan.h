/* What a member's Redis holds, read past the member: for tools that compare the two. Blocks. */
#ifndef MOB_GCS_SHARD_REDIS_SCAN_H
#define MOB_GCS_SHARD_REDIS_SCAN_H

#include <stdint.h>

#include "common/base/status.h"

/* The commit position of each block that lies in the Redis of this directory (redis_conf.h), in no order; one
 * may come twice. MOB_UNAVAILABLE. */
MOB_MUST_USE enum mob_status mob_redis_each_block(
    const char *directory, void (*block)(void *arg, uint64_t seq), void *arg);

#endif
