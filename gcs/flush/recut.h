/* Re-cutting committed blocks for look-up (GCS.md "Flushing"): the entries of many blocks, sorted by task id,
 * in a few buckets (common/wire/bucket.h).
 *
 * Blocks of one node incarnation, job, namespace and day form a class; within it entries are sorted by the
 * task that they belong to and cut into blocks again, each of which takes over number, clock pair and
 * commit position of one block of its class, so that positions stay unique. A job with enough bytes has
 * buckets of its own, so that deleting it deletes rows; small ones share. A class with a large block is kept
 * as it is: there is little to gain, and entries could end up in more blocks than there were.
 *
 *   mob_recut_begin(r);
 *   while (...) mob_recut_add(r, seq, block, length);          // in order of seq; kept until finish
 *   mob_recut_finish(r, &events);
 *
 * Pure. One owner; memory is about 25 times the bytes of the largest class of one cut, so a cut should be
 * MOB_RECUT_TARGET_BYTES. Running out of memory is MOB_NO_MEMORY, and nothing is lost: begin again.
 */
#ifndef MOB_GCS_FLUSH_RECUT_H
#define MOB_GCS_FLUSH_RECUT_H

#include "common/wire/bucket.h"

#define MOB_RECUT_TARGET_BYTES (1u << 20)
#define MOB_RECUT_BLOCKS_MAX 8192u
#define MOB_RECUT_OWN_BYTES (16u << 10) /* a job with less in a cut shares its buckets with others */
#define MOB_RECUT_WHOLE_BYTES (48u << 10) /* a block of this size keeps its class as it is */

struct mob_recut_row {
    const uint8_t *payload;
    uint32_t payload_bytes;
    int32_t day; /* since 1970-01-01 UTC, by the wall clock of the blocks */
    bool shared; /* by several jobs; else `job` */
    struct mob_job_id job;
    struct mob_bucket_summary summary;
};
/* A final completion that was no success. */
struct mob_recut_failure {
    uint32_t row; /* that has it: how many come before that in this cut */
    int32_t day;
    struct mob_job_id job;
    struct mob_task_id task;
    bool has_function; /* its spec is in the same cut */
    struct mob_function_id function;
    uint16_t status; /* enum mob_status */
    int64_t finished_wall_ns;
    uint64_t seq;
};
/* Events; all are borrowed. What a callback returns other than MOB_OK ends the cut. */
struct mob_recut_events {
    enum mob_status (*row)(void *arg, const struct mob_recut_row *row);
    enum mob_status (*failure)(void *arg, const struct mob_recut_failure *failure);
    /* A stream with tasks in this cut; may be told more than once. */
    enum mob_status (*stream)(void *arg, int32_t day, struct mob_stream stream);
    void *arg;
};

/* The day of a wall clock. */
int32_t mob_recut_day(int64_t wall_ns);

struct mob_recut;
struct mob_recut *mob_recut_create(void); /* gives (destroy); NULL when out of memory */
void mob_recut_destroy(struct mob_recut *r); /* NULL is fine */
/* A cut; forgets the one before, finished or not. */
void mob_recut_begin(struct mob_recut *r);
/* Keeps `block` until finish. MOB_QUEUE_FULL at MOB_RECUT_BLOCKS_MAX; MOB_CORRUPT, MOB_VERSION. */
MOB_MUST_USE enum mob_status mob_recut_add(
    struct mob_recut *r, uint64_t seq, const uint8_t *block, uint32_t length);
/* Calls `events` from within. MOB_CORRUPT, MOB_NO_MEMORY, or what a callback returned: rows that were given
 * until then are no cut. */
MOB_MUST_USE enum mob_status mob_recut_finish(struct mob_recut *r, const struct mob_recut_events *events);
/* The function of a task whose spec is in one of the blocks that were added. MOB_NOT_FOUND. */
MOB_MUST_USE enum mob_status mob_recut_function(
    struct mob_recut *r, struct mob_task_id task, struct mob_function_id *out);

#endif
