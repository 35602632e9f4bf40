/* The thread of the flusher that changes the database: one connection, one job at a time.
 *
 * Everything here is for the flusher's loop, but for what the thread itself does. A job is given, its end is
 * told by an eventfd, and then it is taken; in between it, and the batch in it, belong to the thread. libpq
 * blocks in here and nowhere else, so a database that hangs stops nothing but flushing.
 */
#ifndef MOB_GCS_FLUSH_FLUSH_THREAD_H
#define MOB_GCS_FLUSH_FLUSH_THREAD_H

#include "gcs/flush/flush_batch.h"

enum flush_job_kind {
    FLUSH_JOB_OPEN, /* connect, migrate, claim; where is the watermark? */
    FLUSH_JOB_WRITE,
    FLUSH_JOB_MAINTAIN /* maintain.h */
};
struct flush_job {
    enum flush_job_kind kind;
    enum mob_status status; /* out: MOB_UNAVAILABLE: the connection is gone, OPEN comes next */
    struct mob_gcs_database figures; /* out: what is there now; bytes may be some seconds old */
    /* OPEN. `flushed`: up to where members have dropped what they had. */
    uint64_t flushed, epoch;
    uint64_t upto; /* out: the watermark; at least `flushed`, what lay between has become a gap */
    uint64_t *ends; /* out: of the batches in (flushed, upto], oldest first; the taker's (free) */
    uint32_t end_count;
    /* WRITE */
    struct flush_batch *batch;
    struct mob_flush_written written; /* out */
};

struct flush_thread_options {
    const char *directory; /* of the database's socket; keeps */
    struct mob_cluster_id cluster;
    const uint8_t *secret; /* the cluster's; keeps */
    uint32_t shard;
    const char *gcs_socket, *all_shards; /* flusher.h */ /* for FLUSH_JOB_MAINTAIN; keeps */
    int64_t retention_s;
    int event_fd; /* written when a job has ended; keeps */
};
struct flush_thread;
MOB_MUST_USE enum mob_status flush_thread_start(
    const struct flush_thread_options *options, struct flush_thread **thread_out);
/* Takes; there is none under way. */
void flush_thread_give(struct flush_thread *t, struct flush_job *job);
/* The job that has ended, or NULL. Gives. */
struct flush_job *flush_thread_take(struct flush_thread *t);
/* False when it is still busy after `wait_ns`: then it and all it uses live until the process ends. */
bool flush_thread_stop(struct flush_thread *t, int64_t wait_ns);

#endif
