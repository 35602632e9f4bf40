/* As many clients of one plain Redis as gcs_putter.h has of a chain, in the same loop: what puts are measured
 * against. One thread; a process has them once at a time. */
#ifndef MOB_BENCH_GCS_SETTER_H
#define MOB_BENCH_GCS_SETTER_H

#include <hiredis/hiredis.h>
#include <stdbool.h>

/* A connection to the Redis of the gcs_box in `directory`; NULL or with `err`: there is none. redisFree(). */
redisContext *gcs_plain_redis(const char *directory);

/* GCS_CONNECTIONS of them; false: Redis does not answer. */
bool gcs_setters_open(const char *directory);
/* SETs a second of 512-byte values, one in flight on each connection. */
double gcs_setters_run(double seconds);
void gcs_setters_close(void);
/* All three; 0: Redis does not answer. */
double gcs_setters_rate(const char *directory, double seconds);

#endif
