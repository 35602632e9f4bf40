#include <stdio.h>
#include <string.h>
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

/* It is made behind a cluster that runs already. */
static bool postgres_comes(struct bench *b)
{
    char pid_file[400];
    snprintf(pid_file, sizeof pid_file, "%s/pg/postmaster.pid", b->directory);
    for (int64_t deadline = bench_now() + 60 * BENCH_SECOND; bench_now() < deadline; usleep(2000)) {
        char line[128];
        bool ready = false;
        FILE *f = fopen(pid_file, "r"); /* its last line is its state */
        while (f && fgets(line, sizeof line, f))
            ready = strncmp(line, "ready", 5) == 0;
        if (f)
            fclose(f);
        if (ready)
            return true;
    }
    return false;
}

/* s; [0] in a fresh directory, with everything that is made there once, PostgreSQL too, [1] in the same
 * again.
 */
static bool start_twice(struct bench *b, double seconds[2])
{
    struct bench fresh = {.options = b->options, .postgres = true};
    int64_t begin = bench_now();
    bool ok = bench_cluster_start(&fresh) && first_task(&fresh) && postgres_comes(&fresh);
    seconds[0] = (double)(bench_now() - begin) / 1e9;
    if (ok) {
        bench_cluster_down(&fresh);
        begin = bench_now();
        ok = bench_cluster_again(&fresh) && first_task(&fresh);
        seconds[1] = (double)(bench_now() - begin) / 1e9;
    }
    bench_cluster_stop(&fresh);
    return ok;
}

/* The same of the default, a chain of two: nothing of it is there before PostgreSQL is, which initdb makes
 * first. */
static bool start_of_two(struct bench *b, double *seconds)
{
    struct bench fresh = {.options = b->options, .postgres = true, .replicas = 2};
    int64_t begin = bench_now();
    bool ok = bench_cluster_start(&fresh) && first_task(&fresh) && postgres_comes(&fresh);
    *seconds = (double)(bench_now() - begin) / 1e9;
    bench_cluster_stop(&fresh);
    return ok;
}

enum { START_ROUNDS_MAX = 3 };

static void tell_start(struct bench *b, const char *name, double *seconds, int rounds)
{
    bench_row(b,
        &(struct bench_row){.name = name,
            .value = bench_median(seconds, rounds),
            .unit = "s",
            .baseline = b->redis_start_s,
            .against = "a redis-server until its first answer",
            .n = rounds,
            .commit = "committed"});
}

static void start(struct bench *b)
{
    static const char *const names[3] = {"start_first", "start", "start_first_2"};
    int rounds = b->options.quick ? 1 : START_ROUNDS_MAX;
    double seconds[3][START_ROUNDS_MAX];
    for (int r = 0; r < rounds; r++) {
        double both[2];
        if (!start_twice(b, both) || !start_of_two(b, &seconds[2][r])) {
            bench_miss(b, "start", "no first result");
            return;
        }
        seconds[0][r] = both[0];
        seconds[1][r] = both[1];
    }
    for (int i = 0; i < 3; i++)
        tell_start(b, names[i], seconds[i], rounds);
}

static void idle(struct bench *b)
{
    struct bench fresh = {.options = b->options, .postgres = true};
    unsigned seconds = b->options.quick ? 2 : 30;
    if (!bench_cluster_start(&fresh) || !first_task(&fresh) || !postgres_comes(&fresh)) {
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
    double memory = bench_memory(&fresh);
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
