/* The process that moves lineage from a shard's members to PostgreSQL, and reads it back for them (GCS.md
 * "Flushing"). mobula-flush is mob_flusher_run() with flags.
 *
 * The calling thread is the loop: two clients of the member, one for the subscription alone (which is not
 * read while too much waits), one for FLUSH and the reads of others; it never waits for PostgreSQL. One
 * thread writes there (flush_thread.h), some read (cold_pool.h).
 *
 * Its work is a session: where is the member, where is the watermark, then block after block. Whatever goes
 * wrong ends the session, and the next one finds out how things are: a lost answer of a COMMIT is settled by
 * the watermark, a flusher that was overtaken begins where its successor came to. Only blocks that are
 * durable at the members are written, so a member that lost its newest blocks never meets their traces.
 */
#ifndef MOB_GCS_FLUSH_FLUSHER_H
#define MOB_GCS_FLUSH_FLUSHER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/id.h"
#include "common/base/status.h"

struct mob_flusher_options {
    const char *gcs_socket; /* of the member */
    const char *all_shards; /* of all shards' members, as gcs/client takes them; NULL: this is the only one */
    const char *database; /* folder of PostgreSQL's socket */
    struct mob_cluster_id cluster;
    uint8_t secret[32]; /* the cluster's */
    uint32_t shard;
    size_t batch_bytes; /* of blocks in one transaction, about */
    int64_t delay_ns; /* a block waits at most so long for others, then it is written */
    uint32_t hot_percent; /* of the member's soft cap: below it, what is written stays in its memory too */
    int64_t retention_s; /* of lineage, maintain.h */
    int64_t maintain_ns; /* between two looks at what may go */
    const char *ready_path; /* a file that is made when the first session has begun; NULL = none */
    const int *stop_fd; /* borrows: readable = return */
};
/* Blocks until stopped. MOB_OK. MOB_VERSION, MOB_CORRUPT, MOB_DENIED: the database is refused (migrate.h);
 * MOB_NO_MEMORY. *clean_out: false: threads still wait for PostgreSQL, and the process must end now. */
MOB_MUST_USE enum mob_status mob_flusher_run(const struct mob_flusher_options *options, bool *clean_out);

#endif
