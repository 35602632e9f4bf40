/* Tasks of a sample as PostgreSQL has them: read there by their id, with nothing of the members in between,
 * and compared with what was submitted. Blocks; one thread.
 */
#ifndef MOB_BENCH_FLUSH_CHECK_H
#define MOB_BENCH_FLUSH_CHECK_H

#include "bench/harness.h"
#include "gcs/flush/database.h"

/* How many of them have their spec with that argument and their end with that result; *us_out: a look-up's
 * time, p50. */
int bench_flush_check(struct mob_database *db, const struct bench_samples *samples, double *us_out);

#endif
