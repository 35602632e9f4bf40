/* Rows and bounds of the control store's protocol, shared by gcs/client and gcs/shard: what its messages
 * mean.
 *
 * Messages travel in frames (gcs_frame.h). Layouts are fixed little-endian, written and read with bytes.h by
 * the functions here. Decoders check every length, never allocate, and point into the input. Pure.
 */
#ifndef MOB_COMMON_WIRE_GCS_MSG_H
#define MOB_COMMON_WIRE_GCS_MSG_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/bytes.h"
#include "common/base/id.h"
#include "common/base/status.h"

#define MOB_GCS_KEY_MAX 512u
#define MOB_GCS_VALUE_MAX (960u * 1024u) /* a put must fit in a frame of a chain link (1 MiB) */
#define MOB_GCS_ROWS_MAX 1024u /* rows in one page */
#define MOB_GCS_NAME_MAX 63u

/* Numbers are stored: append only. */
enum mob_gcs_table {
    MOB_GCS_KV = 1,
    MOB_GCS_FUNCTIONS = 2,
    MOB_GCS_MODULES = 3, /* module files, cut into values (client_sync.h: mob_gcs_blob_*) */
    MOB_GCS_ACTORS = 4,
    MOB_GCS_CHECKPOINTS = 5,
    MOB_GCS_NODES = 6,
    MOB_GCS_JOBS = 7,
    MOB_GCS_ENDPOINTS = 8,
    MOB_GCS_NAMES = 9,
    MOB_GCS_PLACEMENT = 10,
    MOB_GCS_LOSSES = 11, /* what may be missing after a loss, by seq; only the member writes it */
    MOB_GCS_TABLES = 12
};

struct mob_gcs_kv {
    const uint8_t *key;
    const uint8_t *value;
    uint32_t key_length, value_length;
    uint64_t version;
};
struct mob_gcs_block_row {
    uint64_t seq; /* commit position in the shard */
    uint64_t incarnation, number;
    const uint8_t *bytes; /* the block as it was appended */
    uint32_t length;
    uint32_t zero;
};
enum mob_gcs_incarnation_state { MOB_GCS_LIVE = 1, MOB_GCS_SEALED = 2, MOB_GCS_RECOVERED = 3 };
struct mob_gcs_incarnation {
    uint64_t id;
    uint64_t blocks; /* appended so far; of a sealed one: the cut */
    uint32_t state; /* enum mob_gcs_incarnation_state */
    uint32_t zero;
    char name[MOB_GCS_NAME_MAX + 1u];
};
enum mob_gcs_durability { MOB_GCS_EVERYSEC = 0, MOB_GCS_ALWAYS = 1, MOB_GCS_NO = 2 };
struct mob_gcs_stats {
    uint64_t epoch, applied, committed, durable;
    uint64_t durability; /* enum mob_gcs_durability */
    uint64_t blocks, block_bytes, groups, incarnations, jobs, keys, clients, subscribers;
    uint64_t redis_bytes; /* used_memory of Redis */
    uint64_t member_bytes; /* heap of the member: index, tables, buffers */
    uint64_t soft_bytes, hard_bytes;
    uint64_t appends, append_bytes, puts, reads, duplicates, syncs, rewrites, redis_restarts, losses;
    uint64_t aof_bytes;
    uint64_t collecting; /* 1 while a restarted member waits for its clients */
};

#endif
