/* Several chains of two, one for each shard of a store. One thread. */
#ifndef MOB_BENCH_GCS_SHARDS_H
#define MOB_BENCH_GCS_SHARDS_H

#include "bench/gcs_putter.h"

#define GCS_SHARDS_MAX 2u
#define GCS_SHARD_MEMBERS 2u

struct gcs_shards {
    uint32_t count; /* of those that were begun */
    struct chain_box box[GCS_SHARDS_MAX];
    char clients[1024]; /* of mob_gcs_options, of the whole store */
};
struct gcs_shards_options {
    uint32_t count;
    const cpu_set_t *cores; /* of each shard: all of its processes are bound to them, its Redis and its master
                             * among them; NULL: as scheduled */
    bool normal; /* of struct gcs_chain */
};
/* Waits until all serve. False: they do not come up, or may not be bound. Close it anyway. */
bool gcs_shards_open(struct gcs_shards *shards, const struct gcs_shards_options *options);
/* Every thread of every process of theirs keeps to `cores`. */
bool gcs_shards_hold(const struct gcs_shards *shards, const cpu_set_t *cores);
/* The sum of their epochs, which tells whether any of them changed meanwhile; 0: one has lost a member. */
uint64_t gcs_shards_epochs(struct gcs_shards *shards);
void gcs_shards_close(struct gcs_shards *shards);

#endif
