/* Between cold.c (pages), cold_group.c, cold_scan.c, cold_failures.c and cold_history.c. Internal to
 * gcs/flush. */
#ifndef MOB_GCS_FLUSH_COLD_INNER_H
#define MOB_GCS_FLUSH_COLD_INNER_H

#include "gcs/flush/cold.h"
#include "gcs/flush/cold_page.h"

#define COLD_DAYS_MAX 64 /* that one statement of a look-up by id names */
#define COLD_SCAN_NS (100 * 1000000ll)

struct mob_cold {
    int32_t shard;
    struct cold_page *page;
    struct mob_gcs_group_key groups[MOB_GCS_GROUPS_MAX]; /* of the read that runs, sorted */
    uint32_t group_count;
    struct mob_job_id *gone; /* sorted */
    size_t gone_count;
    int64_t gone_ns; /* when it was looked whether there are others; 0 = never */
    int64_t gone_version; /* of mobula.job_gone when they were read */
};
/* Where a page begins: as the position says (gcs_msg.h), and in terms of rows. */
struct cold_place {
    uint64_t upto; /* of the request */
    uint64_t seq;
    uint32_t row;
    int64_t batch; /* oldest first: rows from (batch, row) on; newest first: rows below it */
    int64_t last_batch; /* the newest batch with anything up to `upto` */
};

/* Where the next page begins: struct mob_gcs_rows. */
struct cold_behind {
    uint64_t position;
    uint32_t tie;
};

/* Days and times of a scan; all of them are in it. */
struct cold_bounds {
    int64_t from_us, to_us;
    int32_t day_min, day_max;
};
struct cold_bounds cold_bounds_of(const struct cold_wanted *w);
/* A job's days narrow them further; *any_out false: it has none. */
MOB_MUST_USE enum mob_status cold_narrow_by_job(
    struct mob_database *db, struct mob_job_id job, struct cold_bounds *b, bool *any_out);

/* Fills in batch and last_batch. */
MOB_MUST_USE enum mob_status cold_place(
    struct mob_cold *c, struct mob_database *db, bool down, struct cold_place *place);
/* The position behind a row that was taken. */
MOB_MUST_USE enum mob_status cold_next(struct mob_cold *c, struct mob_database *db, bool down,
    const struct cold_place *place, int64_t batch, int32_t row, uint64_t *next_out);
/* Adds one bucket (columns as below). MOB_QUEUE_FULL: the page is full without it. */
MOB_MUST_USE enum mob_status cold_take_row(
    struct mob_cold *c, const struct mob_database_result *rows, int at, const struct cold_wanted *wanted);
/* Adds buckets (columns: batch, row, payload) until the page is full; *at_out: the first that was not taken.
 */
MOB_MUST_USE enum mob_status cold_take_rows(struct mob_cold *c, const struct mob_database_result *rows,
    const struct cold_wanted *wanted, uint32_t limit, int *at_out);
/* Of the group, or of all of the groups. */
MOB_MUST_USE enum mob_status cold_read_group(struct mob_cold *c, struct mob_database *db,
    const struct cold_wanted *w, struct cold_place place, uint64_t *next_out);
MOB_MUST_USE enum mob_status cold_read_scan(struct mob_cold *c, struct mob_database *db,
    const struct mob_gcs_cold_get *q, const struct cold_wanted *w, struct cold_place place,
    uint64_t *next_out);
MOB_MUST_USE enum mob_status cold_read_failures(struct mob_cold *c, struct mob_database *db,
    const struct mob_gcs_cold_get *q, const struct cold_wanted *w, struct cold_behind *next_out);
/* Commit order: cold_history.c. tie: 1 = something between the position and the first block is gone. */
MOB_MUST_USE enum mob_status cold_read_history(struct mob_cold *c, struct mob_database *db,
    const struct mob_gcs_cold_get *q, const struct cold_wanted *w, struct cold_behind *next_out);

#endif
