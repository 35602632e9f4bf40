/* What all suites of mobula-bench share: a cluster of their own, rows of results, checks over HTTP.
 *
 * Every figure stands beside a primitive measured in the same run (`baseline`), because machines differ and
 * are shared. One thread.
 */
#ifndef MOB_BENCH_HARNESS_H
#define MOB_BENCH_HARNESS_H

#include <mobula/mobula.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct bench_options {
    bool json, quick;
    char binaries[512]; /* build/<preset>/bin */
    char modules[512];
};
struct bench {
    struct bench_options options;
    char directory[256]; /* state directory of the cluster */
    char address[64], token[256];
    bool running;
    int misses; /* rows that could not be measured or whose check failed */
    /* primitives of this run; 0 = not measured yet */
    double clock_ns, locked_add_ns, memcpy_1m_gbs, memcpy_100m_gbs, ring_msgs, yield_pair_us, redis_set_us,
        redis_set_rate;
};
struct bench_row {
    const char *name, *unit;
    double value, baseline; /* baseline 0 = none */
    const char *against; /* what the baseline is */
    double n, p50_us, p99_us; /* 0 = does not apply */
    const char *commit; /* "committed", "local", "" */
};

int64_t bench_now(void);
void bench_row(struct bench *b, const struct bench_row *row);
/* A row that has no figure: says why, counts as a miss. */
void bench_miss(struct bench *b, const char *name, const char *why);
double bench_median(double *values, int n);
/* Sorts; percent 0..100. */
double bench_percentile(double *values, int n, double percent);

/* Start a cluster in a fresh directory; false after a message. Extra flags may be NULL. */
bool bench_cluster_start(struct bench *b, const char *const *extra_flags);
void bench_cluster_stop(struct bench *b);
struct mob_client *bench_connect(struct bench *b);
bool bench_deploy(struct bench *b, struct mob_client *client, const char *module);

/* Summed proportional set size of the cluster's processes and this one, without the segment; bytes. */
double bench_memory(struct bench *b, bool with_this_process);
/* CPU seconds of the cluster's processes so far. */
double bench_cpu_seconds(struct bench *b);
/* Number at `path` ("gcs.memory_bytes") in the node's stats. */
double bench_stat(struct mob_client *client, const char *path);

/* Tasks that are read back over HTTP after a run: a reservoir of random ones. */
#define BENCH_SAMPLES 1000
struct bench_sample {
    char task[MOB_TEXT_ID_MAX], object[MOB_TEXT_ID_MAX];
    int64_t argument, result;
};
struct bench_samples {
    struct bench_sample items[BENCH_SAMPLES];
    uint64_t seen;
    int count;
    uint64_t random;
};
/* Offer one finished task; kept with the right probability. `future` is still held. */
void bench_sample_offer(struct bench_samples *s, struct mob_future *future, int64_t argument, int64_t result);
/* Read each over HTTP and compare argument, result, state, times; at least `workers_min` worker processes. */
bool bench_samples_check(struct bench *b, const char *row, struct bench_samples *s, int workers_min);

#define BENCH_TRY(b, row, expression) \
    do { \
        enum mob_status bench_status_ = (expression); \
        if (bench_status_ != MOB_OK) { \
            char bench_why_[512]; \
            snprintf(bench_why_, sizeof bench_why_, "%s: %s", #expression, mob_status_code(bench_status_)); \
            bench_miss(b, row, bench_why_); \
            return; \
        } \
    } while (0)

void suite_limits(struct bench *b);
void suite_core(struct bench *b);
void suite_store(struct bench *b);
void suite_http(struct bench *b);
void suite_serve(struct bench *b);

#endif
