/* Suite flush: what moving lineage to PostgreSQL costs, and what finding it there takes. Clusters of their
 * own. docs/performance.md says what each row does. */
#include <jansson.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/core.h"
#include "bench/flush_rows.h"
#include "gcs/flush/database.h"

#define RETRY_US 1000

/* ---- what the control store's processes hold, every 100 ms ---- */

struct sampler {
    pthread_t thread;
    int pids[2]; /* redis-server, mobula-gcs */
    _Atomic bool stop;
    double most_bytes;
};

static double rss_bytes(int pid)
{
    char path[64];
    long pages = 0;
    snprintf(path, sizeof path, "/proc/%d/statm", pid);
    FILE *f = fopen(path, "re");
    if (f && fscanf(f, "%*d %ld", &pages) != 1)
        pages = 0;
    if (f)
        fclose(f);
    return (double)pages * (double)sysconf(_SC_PAGESIZE);
}

static void *sample(void *arg)
{
    struct sampler *s = arg;
    while (!atomic_load(&s->stop)) {
        double bytes = rss_bytes(s->pids[0]) + rss_bytes(s->pids[1]);
        s->most_bytes = bytes > s->most_bytes ? bytes : s->most_bytes;
        usleep(100000);
    }
    return NULL;
}

static int pid_of(const struct bench *b, const char *name)
{
    char path[300];
    int pid = 0;
    size_t i;
    json_t *process;
    snprintf(path, sizeof path, "%s/supervisor.json", b->directory);
    json_t *root = json_load_file(path, 0, NULL);
    json_array_foreach(json_object_get(root, "processes"), i, process)
    {
        const char *text = json_string_value(json_object_get(process, "name"));
        const char *state = json_string_value(json_object_get(process, "state"));
        if (text && strcmp(text, name) == 0 && state && strcmp(state, "ready") == 0)
            pid = (int)json_integer_value(json_object_get(process, "pid"));
    }
    json_decref(root);
    return pid;
}

/* ---- tasks as in tasks_async; those that met the cap are submitted again ---- */

struct run {
    double rate, most_bytes, wal_bytes, disk_bytes, refused;
    uint64_t done;
};

static enum mob_status submit(
    struct mob_client *client, const struct mob_function *echo, int64_t argument, struct mob_future **out)
{
    return mob_submit_function(client, echo, MOB_ARGS(mob_i64(argument)), NULL, out);
}

/* The oldest in flight, until it has a result. */
static enum mob_status take(struct mob_client *client, const struct mob_function *echo,
    struct bench_window *w, struct bench_samples *samples, int64_t *sum, double *refused)
{
    uint64_t i = w->taken % BENCH_WINDOW;
    for (;;) {
        int64_t result = 0;
        enum mob_status status = mob_get_i64(w->futures[i], MOB_FOREVER, &result);
        if (status == MOB_OK) {
            *sum += result;
            if (w->taken % 97 == 0)
                bench_sample_offer(samples, w->futures[i], w->arguments[i], result);
            mob_release(w->futures[i]);
            w->taken++;
            return MOB_OK;
        }
        if (status != MOB_GCS_FULL)
            return status;
        ++*refused;
        mob_release(w->futures[i]);
        usleep(RETRY_US);
        status = submit(client, echo, w->arguments[i], &w->futures[i]);
        if (status != MOB_OK)
            return status;
    }
}

static void tasks(struct bench *b, const char *row, struct mob_client *client, uint64_t count,
    struct run *out, struct bench_samples *samples)
{
    static struct bench_window w;
    const struct mob_function *echo;
    int64_t sum = 0, expected = 0;
    memset(&w, 0, sizeof w);
    bench_samples_init(samples, "noop.echo");
    BENCH_TRY(b, row, mob_function_find(client, "noop.echo", &echo));
    int64_t begin = bench_now();
    while (w.taken < count) {
        while (w.submitted < count && w.submitted - w.taken < BENCH_WINDOW) {
            uint64_t i = w.submitted % BENCH_WINDOW;
            w.arguments[i] = (int64_t)(w.submitted * 7 + 1);
            expected += w.arguments[i];
            BENCH_TRY(b, row, submit(client, echo, w.arguments[i], &w.futures[i]));
            w.submitted++;
        }
        BENCH_TRY(b, row, take(client, echo, &w, samples, &sum, &out->refused));
    }
    out->rate = (double)count / ((double)(bench_now() - begin) / 1e9);
    out->done = sum == expected ? count : 0;
}

static bool wait_flusher(const struct bench *b)
{
    for (int i = 0; i < 600; i++, usleep(100000))
        if (pid_of(b, "flush") != 0)
            return true;
    return false;
}

static double database_number(struct mob_database *db, const char *sql)
{
    struct mob_database_result *rows = NULL;
    double value = 0;
    if (mob_database_query_once(db, sql, NULL, 0, &rows) == MOB_OK && mob_database_rows(rows) == 1)
        value = (double)mob_database_number(rows, 0, 0);
    mob_database_result_destroy(rows);
    return value;
}

static bool verified(const struct bench *b)
{
    char program[600];
    snprintf(program, sizeof program, "%s/mobula", b->options.binaries);
    char *argv[] = {
        program, (char *)"gcs", (char *)"verify", (char *)"--dir", (char *)(uintptr_t)b->directory, NULL};
    return bench_run(argv, NULL, 0) == 0;
}

static void with_flusher(struct bench *b, const char *row, struct bench *fresh, struct mob_client *client,
    uint64_t count, struct run *out)
{
    static struct bench_samples samples;
    static const char wal[] = "SELECT (pg_current_wal_lsn() - '0/0'::pg_lsn)::bigint";
    static const char disk[] = "SELECT pg_database_size(current_database())";
    char socket[300];
    struct mob_database *db = NULL;
    struct sampler sampler = {.pids = {pid_of(fresh, "redis"), pid_of(fresh, "gcs")}};
    snprintf(socket, sizeof socket, "%s/pg", fresh->directory);
    if (mob_database_open(socket, &db) != MOB_OK ||
        pthread_create(&sampler.thread, NULL, sample, &sampler) != 0) {
        mob_database_close(db);
        bench_miss(b, row, "no connection to PostgreSQL");
        return;
    }
    double wal_before = database_number(db, wal), disk_before = database_number(db, disk);
    tasks(b, row, client, count, out, &samples);
    out->wal_bytes = database_number(db, wal) - wal_before;
    out->disk_bytes = database_number(db, disk) - disk_before;
    atomic_store(&sampler.stop, true);
    pthread_join(sampler.thread, NULL);
    out->most_bytes = sampler.most_bytes;
    mob_database_close(db);
    if (out->done > 0 && (!bench_samples_check(fresh, row, &samples, 1) || !verified(fresh))) {
        bench_miss(b, row, "a task is not as it was submitted, or mobula gcs verify failed");
        out->done = 0;
    }
}

static bool one_run(struct bench *b, const char *row, bool flushes, uint64_t count, struct run *out)
{
    static struct bench_samples samples;
    struct bench fresh = {.options = b->options};
    int misses = b->misses;
    *out = (struct run){0};
    if (flushes) {
        setenv("MOBULA_POSTGRES", "on", 1);
        setenv("MOBULA_GCS_SOFT_BYTES", b->options.quick ? "160MiB" : "416MiB", 1);
        setenv("MOBULA_GCS_HARD_BYTES", b->options.quick ? "192MiB" : "480MiB", 1);
    }
    bool up = bench_cluster_start(&fresh) && (!flushes || wait_flusher(&fresh));
    unsetenv("MOBULA_POSTGRES");
    unsetenv("MOBULA_GCS_SOFT_BYTES");
    unsetenv("MOBULA_GCS_HARD_BYTES");
    struct mob_client *client = up ? bench_connect(&fresh) : NULL;
    if (!client || !bench_deploy_everywhere(&fresh, client, "noop")) {
        bench_miss(b, row, "no cluster");
    } else {
        bench_wait_warm(client);
        if (flushes)
            with_flusher(b, row, &fresh, client, count, out);
        else
            tasks(b, row, client, count, out, &samples);
    }
    mob_disconnect(client);
    bench_cluster_stop(&fresh);
    if (b->misses == misses && fresh.misses == 0 && out->done == 0)
        bench_miss(b, row, "the sum of all results is wrong");
    b->misses += fresh.misses;
    return out->done > 0 && b->misses == misses;
}

static void gcs_flush(struct bench *b)
{
    static const char row[] = "gcs_flush";
    /* Without flushing all of it must fit. */
    uint64_t without = b->options.quick ? 300000 : 5000000, with = b->options.quick ? 8000000 : 50000000;
    struct run bare, flushed;
    char extra[320];
    if (!one_run(b, row, false, without, &bare) || !one_run(b, row, true, with, &flushed))
        return;
    snprintf(extra, sizeof extra,
        "\"tasks_per_s\":%.0f,\"without_per_s\":%.0f,\"most_mb\":%.1f,\"wal_bytes_per_task\":%.1f,"
        "\"disk_bytes_per_task\":%.1f,\"refused\":%.0f",
        flushed.rate, bare.rate, flushed.most_bytes / 1e6, flushed.wal_bytes / (double)with,
        flushed.disk_bytes / (double)with, flushed.refused);
    bench_row(b,
        &(struct bench_row){.name = row,
            .unit = "",
            .value = flushed.rate / bare.rate,
            .baseline = 1,
            .against = "the same tasks without flushing",
            .n = (double)with,
            .commit = "committed",
            .extra = extra});
    bench_row(b,
        &(struct bench_row){.name = "gcs_flush_mem",
            .unit = "MB",
            .value = flushed.most_bytes / 1e6,
            .n = (double)with,
            .commit = "committed"});
}

void suite_flush(struct bench *b)
{
    if (bench_wanted(b, "gcs_flush"))
        gcs_flush(b);
    if (bench_wanted(b, "gcs_find"))
        bench_flush_find(b);
}
