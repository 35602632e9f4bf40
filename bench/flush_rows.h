/* The parts of suite flush. */
#ifndef MOB_BENCH_FLUSH_ROWS_H
#define MOB_BENCH_FLUSH_ROWS_H

#include "bench/harness.h"

/* gcs_find, gcs_find_failed: tasks of 30 days in PostgreSQL, looked up by id, and the failed ones of a
 * function in an hour. */
void bench_flush_find(struct bench *b);

#endif
