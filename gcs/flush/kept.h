/* What living actors need of days that go: a replay repeats their calls, from their newest checkpoint on or
 * from their creation, and those lie in the lineage of whoever called, which may have ended long ago; so does
 * what the calls' arguments refer to (kept_refs.h). It is
 * copied out of reach of DROP PARTITION before a day is dropped, bucket by bucket, into partitions of a day
 * that never comes (MOB_COLD_DAY_KEPT): look-ups by id find it there as on any other day, scans do not. What
 * no actor needs any more goes from there.
 *
 *   struct kept_needs needs = {0};
 *   status = kept_read_needs(gcs, deadline_ns, &needs);             // before the transaction
 *   status = kept_make_tables(db);                              // locks readers out, for a moment
 *   BEGIN; kept_begin(db, &needs); for each day: kept_copy_day(db, day); drop them; kept_tidy(db); COMMIT
 *   kept_needs_fini(&needs);
 *
 * One thread; blocks.
 */
#ifndef MOB_GCS_FLUSH_KEPT_H
#define MOB_GCS_FLUSH_KEPT_H

#include "gcs/client/client.h"
#include "gcs/flush/database.h"

/* A group of 256 tasks of which something is needed: an actor's creation, its edges, calls of it, what
 * these were given, or what they submitted. */
struct kept_need {
    struct mob_stream stream;
    uint32_t group;
    int32_t shard; /* -1: of all */
    int64_t seq_from; /* of that shard's log: nothing before it */
};
struct kept_needs {
    struct kept_need *rows;
    size_t count, capacity;
};
/* Of all actors that have a row. An answer that is missing is an error, so that nothing goes. */
MOB_MUST_USE enum mob_status kept_read_needs(struct mob_gcs *gcs, struct kept_needs *needs);
/* The whole group of this task. */
MOB_MUST_USE enum mob_status kept_need_group(struct kept_needs *needs, struct mob_task_id task);
void kept_needs_fini(struct kept_needs *needs);

MOB_MUST_USE enum mob_status kept_make_tables(struct mob_database *db);
/* In a transaction, in this order. */
MOB_MUST_USE enum mob_status kept_begin(struct mob_database *db, const struct kept_needs *needs);
MOB_MUST_USE enum mob_status kept_copy_day(struct mob_database *db, int32_t day);
/* Drops what is not needed, and batches that have nothing left. */
MOB_MUST_USE enum mob_status kept_tidy(struct mob_database *db);
/* Is anything kept? Then it is to be looked at again, whether a day goes or not. */
MOB_MUST_USE enum mob_status kept_any(struct mob_database *db, bool *out);

#endif
