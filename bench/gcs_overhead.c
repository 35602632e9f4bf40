/* gcs_overhead: tasks_async on a cluster with a chain of two against one with a chain of one, in turn. */
#include <stdlib.h>
#include <string.h>

#include "bench/core.h"
#include "bench/gcs_putter.h"

#define ROUNDS_MAX 3

/* Tasks a second, all read back by their results; 0: it did not work. */
static double echo_rate(struct mob_client *client, uint64_t count)
{
    static struct bench_window w;
    static struct bench_samples samples;
    const struct mob_function *echo;
    int64_t sum = 0, expected = 0;
    memset(&w, 0, sizeof w);
    bench_samples_init(&samples, "noop.echo");
    if (mob_function_find(client, "noop.echo", &echo) != MOB_OK)
        return 0;
    int64_t begin = bench_now();
    while (w.taken < count) {
        while (w.submitted < count && w.submitted - w.taken < BENCH_WINDOW) {
            int64_t argument = (int64_t)(w.submitted * 7 + 1);
            struct mob_future **future = &w.futures[w.submitted % BENCH_WINDOW];
            expected += argument;
            w.arguments[w.submitted % BENCH_WINDOW] = argument;
            if (mob_submit_function(client, echo, MOB_ARGS(mob_i64(argument)), NULL, future) != MOB_OK)
                return 0;
            w.submitted++;
        }
        if (bench_window_take(&w, &samples, &sum) != MOB_OK)
            return 0;
    }
    double seconds = (double)(bench_now() - begin) / 1e9;
    return sum == expected ? (double)count / seconds : 0;
}

/* A chain of two has its configurations in PostgreSQL; so that this is all that PostgreSQL does in either
 * cluster, nothing is flushed while they run. */
static double cluster_rate(struct bench *b, int replicas, uint64_t count)
{
    double rate = 0;
    b->replicas = replicas;
    b->postgres = true;
    bench_flush_nothing();
    if (bench_cluster_start(b)) {
        struct mob_client *client = bench_connect(b);
        if (client != NULL && bench_deploy_everywhere(b, client, "noop")) {
            bench_wait_warm(client);
            (void)echo_rate(client, count / 10);
            rate = echo_rate(client, count);
        }
        mob_disconnect(client);
    }
    bench_cluster_stop(b);
    bench_flush_again();
    b->postgres = false;
    b->replicas = 0;
    return rate;
}

void gcs_measure_overhead(struct bench *b)
{
    double one[ROUNDS_MAX], two[ROUNDS_MAX];
    int rounds = b->options.quick ? 1 : ROUNDS_MAX;
    uint64_t count = b->options.quick ? 100000 : 2000000;
    if (!bench_wanted(b, "gcs_overhead"))
        return;
    for (int i = 0; i < rounds; i++) {
        one[i] = cluster_rate(b, 1, count);
        two[i] = cluster_rate(b, 2, count);
        if (one[i] <= 0 || two[i] <= 0) {
            bench_miss(b, "gcs_overhead", "a cluster did not start, or its tasks failed");
            return;
        }
    }
    bench_row(b,
        &(struct bench_row){.name = "gcs_overhead",
            .value = bench_median(two, rounds),
            .unit = "1/s",
            .baseline = bench_median(one, rounds),
            .against = "the same tasks a second with a chain of one",
            .n = (double)count * rounds,
            .commit = "committed"});
}
