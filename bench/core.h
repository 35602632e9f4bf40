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

/* A client of a cluster of its own with `noop`, which *fresh, a copy of *b, is about; NULL = none.
 * bench_core_fresh_end stops it, and takes what was told over into *b; call it in either case. */
struct mob_client *bench_core_fresh(struct bench *b, struct bench *fresh, int nest_max);
void bench_core_fresh_end(struct bench *b, struct bench *fresh, struct mob_client *client);

/* tasks_queued_1m; tasks_queued_1m_mem on a cluster of its own (core_queued.c). */
void bench_core_queued(struct bench *b, struct mob_client *client);
/* One in flight: tasks_sync, tasks_sync_committed, actor_sync, actor_sync_committed. */
void bench_core_sync(struct bench *b, struct mob_client *client);
/* actor_async, actor_n_n, actor_create. */
void bench_core_actors(struct bench *b, struct mob_client *client);
/* start, idle, idle_cpu: on clusters of their own. */
void bench_core_cluster(struct bench *b);

#endif
