/* gcs_overhead: tasks_async on a cluster with a chain of two against one with a chain of one, in pairs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/core.h"
#include "bench/gcs_putter.h"

#define ROUNDS_MAX 5

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

/* One cluster with each, one behind the other: on a shared machine rates change by a quarter within minutes,
 * so only these two are compared. */
struct pair {
    double one, two; /* tasks a second */
};

static int by_ratio(const void *a, const void *b)
{
    const struct pair *x = a, *y = b;
    double p = x->two / x->one, q = y->two / y->one;
    return p < q ? -1 : p > q;
}

/* "ratios": [0.85, ...] */
static void tell_ratios(char *out, size_t size, const struct pair *pairs, int n)
{
    size_t at = (size_t)snprintf(out, size, "\"ratios\": [");
    for (int i = 0; i < n; i++)
        at += (size_t)snprintf(out + at, size - at, "%s%.3f", i > 0 ? ", " : "", pairs[i].two / pairs[i].one);
    snprintf(out + at, size - at, "]");
}

/* The row is the pair with the median ratio. */
void gcs_measure_overhead(struct bench *b)
{
    struct pair pairs[ROUNDS_MAX];
    char extra[ROUNDS_MAX * 8 + 32];
    int rounds = b->options.quick ? 1 : ROUNDS_MAX;
    uint64_t count = b->options.quick ? 100000 : 2000000;
    if (!bench_wanted(b, "gcs_overhead"))
        return;
    for (int i = 0; i < rounds; i++) {
        struct pair *p = &pairs[i];
        if (i % 2 != 0) /* what drifts favours neither */
            p->two = cluster_rate(b, 2, count);
        p->one = cluster_rate(b, 1, count);
        if (i % 2 == 0)
            p->two = cluster_rate(b, 2, count);
        if (p->one <= 0 || p->two <= 0) {
            bench_miss(b, "gcs_overhead", "a cluster did not start, or its tasks failed");
            return;
        }
    }
    qsort(pairs, (size_t)rounds, sizeof *pairs, by_ratio);
    tell_ratios(extra, sizeof extra, pairs, rounds);
    bench_row(b,
        &(struct bench_row){.name = "gcs_overhead",
            .value = pairs[rounds / 2].two,
            .unit = "1/s",
            .baseline = pairs[rounds / 2].one,
            .against = "the same tasks a second with a chain of one",
            .n = (double)count * rounds,
            .commit = "committed",
            .extra = extra});
}
