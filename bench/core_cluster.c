#include <unistd.h>

#include "bench/core.h"

static bool first_task(struct bench *b)
{
    struct mob_client *client = bench_connect(b);
    struct mob_future *future;
    int64_t result = 0;
    bool ok = client && bench_deploy(b, client, "noop") &&
        mob_submit(client, "noop.echo", MOB_ARGS(mob_i64(5)), NULL, &future) == MOB_OK &&
        mob_get_i64(future, 30 * BENCH_SECOND, &result) == MOB_OK && result == 5;
    mob_disconnect(client);
    return ok;
}

static void start(struct bench *b)
{
    enum { ROUNDS_MAX = 3 };
    int rounds = b->options.quick ? 1 : ROUNDS_MAX;
    double seconds[ROUNDS_MAX];
    for (int r = 0; r < rounds; r++) {
        struct bench fresh = {.options = b->options};
        int64_t begin = bench_now();
        bool ok = bench_cluster_start(&fresh) && first_task(&fresh);
        seconds[r] = (double)(bench_now() - begin) / 1e9;
        bench_cluster_stop(&fresh);
        if (!ok) {
            bench_miss(b, "start", "no first result");
            return;
        }
    }
    bench_row(b,
        &(struct bench_row){.name = "start",
            .value = bench_median(seconds, rounds),
            .unit = "s",
            .baseline = b->redis_start_s,
            .against = "a redis-server until its first answer",
            .n = rounds,
            .commit = "committed"});
}

static void idle(struct bench *b)
{
    struct bench fresh = {.options = b->options};
    unsigned seconds = b->options.quick ? 2 : 30;
    if (!bench_cluster_start(&fresh) || !first_task(&fresh)) {
        bench_cluster_stop(&fresh);
        bench_miss(b, "idle", "no cluster");
        return;
    }
    struct mob_client *client = bench_connect(&fresh);
    bench_wait_warm(client);
    mob_disconnect(client);
    sleep(b->options.quick ? 1 : 5); /* the session has ended, and the append-only file's second has passed */
    double cpu = bench_cpu_seconds(&fresh);
    int64_t begin = bench_now();
    sleep(seconds);
    double used = bench_cpu_seconds(&fresh) - cpu, elapsed = (double)(bench_now() - begin) / 1e9;
    double memory = bench_memory(&fresh, false);
    bench_cluster_stop(&fresh);
    bench_row(b,
        &(struct bench_row){.name = "idle",
            .value = memory / 1e6,
            .unit = "MB",
            .baseline = b->redis_idle_mb,
            .against = "an empty redis-server",
            .n = 1});
    bench_row(b, &(struct bench_row){.name = "idle_cpu", .value = 100 * used / elapsed, .unit = "%", .n = 1});
}

void bench_core_cluster(struct bench *b)
{
    if (bench_wanted(b, "start"))
        start(b);
    if (bench_wanted(b, "idle"))
        idle(b);
}
