/* The parts of suite core. */
#ifndef MOB_BENCH_CORE_H
#define MOB_BENCH_CORE_H

#include "bench/harness.h"

#define BENCH_SECOND 1000000000ll
#define BENCH_WINDOW 10000

/* A window of futures in flight, taken in order. */
struct bench_window {
    struct mob_future *futures[BENCH_WINDOW];
    int64_t arguments[BENCH_WINDOW];
    uint64_t submitted, taken;
};
/* Reads the oldest one's result, adds it to *sum, releases it. */
enum mob_status bench_window_take(struct bench_window *w, struct bench_samples *samples, int64_t *sum);
/* `count` committed things in `seconds`, against messages through a ring. */
void bench_rate_row(struct bench *b, const char *row, double count, double seconds);

/* One in flight: tasks_sync, tasks_sync_committed, actor_sync, actor_sync_committed. */
void bench_core_sync(struct bench *b, struct mob_client *client);
/* actor_async, actor_n_n, actor_create. */
void bench_core_actors(struct bench *b, struct mob_client *client);
/* start, idle, idle_cpu: on clusters of their own. */
void bench_core_cluster(struct bench *b);

#endif
