/* What the members of a cluster's control store hold, each 100 ms, in a thread of its own: of the two in a
 * chain, the one that holds more. Resident memory of redis-server and mobula-gcs, and Redis' log on disk.
 *
 *   flush_sampler_start(&sampler, &cluster); ... flush_sampler_stop(&sampler);
 *   most = flush_sampler_most(&sampler, 0, 1, false);
 */
#ifndef MOB_BENCH_FLUSH_SAMPLER_H
#define MOB_BENCH_FLUSH_SAMPLER_H

#include <pthread.h>
#include <stdatomic.h>

#include "bench/flush_svg.h"
#include "bench/harness.h"

#define FLUSH_REPLICAS 2

struct flush_member {
    int redis, gcs; /* processes: redis-server, mobula-gcs */
    char log_directory[320]; /* of Redis */
};
struct flush_sampler {
    pthread_t thread;
    const struct bench *cluster;
    struct flush_member members[FLUSH_REPLICAS];
    int replaced; /* a process ended, or was ended, and another has its place */
    _Atomic bool stop;
    _Atomic uint64_t taken; /* tasks, by who takes them */
    struct flush_sample samples[FLUSH_SAMPLES_MAX];
    int count;
};

/* Keeps `cluster`. False: not all members are there. */
bool flush_sampler_start(struct flush_sampler *s, const struct bench *cluster);
void flush_sampler_stop(struct flush_sampler *s);
/* The most bytes in the samples of a part of the time (0 to 1): in memory, or of the log. */
double flush_sampler_most(const struct flush_sampler *s, double from, double to, bool of_log);
/* The process of that name that the supervisor calls ready; 0: none. */
int flush_pid_of(const struct bench *b, const char *name);

#endif
