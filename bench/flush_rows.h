/* The parts of suite flush. */
#ifndef MOB_BENCH_FLUSH_ROWS_H
#define MOB_BENCH_FLUSH_ROWS_H

#include "bench/harness.h"

/* gcs_find, gcs_find_failed: tasks of 30 days in PostgreSQL, looked up by id, and the failed ones of a
 * function in an hour. */
void bench_flush_find(struct bench *b);
/* gcs_find_http, gcs_find_http_failed, gcs_find_http_rare: the same asked of a gateway, in clusters of their
 * own that got the tasks as lineage. */
void bench_find_http(struct bench *b);

#endif
