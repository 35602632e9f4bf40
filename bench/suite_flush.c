/* Suite flush: what moving lineage to PostgreSQL costs, and what finding it there takes. Clusters of their
 * own, whose control store is a chain of two. docs/performance.md says what each row does. */
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/core.h"
#include "bench/flush_check.h"
#include "bench/flush_rows.h"
#include "bench/flush_sampler.h"
#include "bench/flush_svg.h"
#include "common/base/process.h"
#include "gcs/flush/database.h"

#define RETRY_US 1000
#define SAMPLE_SETS 10 /* of BENCH_SAMPLES tasks that are read back by their id */
#define FIXED_RATE 500000.0 /* tasks a second */
#define FLUSHED_NS (300 * BENCH_SECOND) /* for the flusher to have written all */

/* ---- tasks as in tasks_async; those that met the cap are submitted again ---- */

struct run {
    double rate, most_bytes, wal_bytes, disk_bytes, refused;
    double late_over_early; /* most memory of the second half over that of the first */
    double log_bytes; /* the most that the log of a member's Redis had */
    int replaced; /* processes of members that ended meanwhile */
    double flushed_at_end; /* tasks in PostgreSQL when the last result was there */
    double tail_s; /* from then on until all were */
    double flusher_us; /* CPU time of the flusher and of PostgreSQL for each task */
    double found, find_us; /* tasks of the samples that were read in PostgreSQL, and the time of a look-up */
    uint64_t done;
};
/* What to do. */
struct plan {
    uint64_t count;
    double rate; /* tasks submitted a second; 0 = as fast as it goes */
    bool draws; /* the picture, and reads back all sets of samples */
};
static struct bench_samples samples[SAMPLE_SETS];
static struct flush_sampler sampler;

static enum mob_status submit(
    struct mob_client *client, const struct mob_function *echo, int64_t argument, struct mob_future **out)
{
    return mob_submit_function(client, echo, MOB_ARGS(mob_i64(argument)), NULL, out);
}

/* The oldest in flight, until it has a result. */
static enum mob_status take(struct mob_client *client, const struct mob_function *echo,
    struct bench_window *w, int64_t *sum, double *refused)
{
    uint64_t i = w->taken % BENCH_WINDOW;
    for (;;) {
        int64_t result = 0;
        enum mob_status status = mob_get_i64(w->futures[i], MOB_FOREVER, &result);
        if (status == MOB_OK) {
            *sum += result;
            if (w->taken % 97 == 0)
                bench_sample_offer(
                    &samples[w->taken / 97 % SAMPLE_SETS], w->futures[i], w->arguments[i], result);
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

/* How many may be submitted by now. */
static uint64_t allowed(const struct plan *plan, int64_t begin)
{
    if (plan->rate == 0)
        return plan->count;
    double n = (double)(bench_now() - begin) / 1e9 * plan->rate;
    return n < (double)plan->count ? (uint64_t)n : plan->count;
}

static void tasks(
    struct bench *b, const char *row, struct mob_client *client, const struct plan *plan, struct run *out)
{
    static struct bench_window w;
    const struct mob_function *echo;
    int64_t sum = 0, expected = 0;
    memset(&w, 0, sizeof w);
    for (int i = 0; i < SAMPLE_SETS; i++)
        bench_samples_init(&samples[i], "noop.echo");
    BENCH_TRY(b, row, mob_function_find(client, "noop.echo", &echo));
    int64_t begin = bench_now();
    while (w.taken < plan->count) {
        uint64_t most = allowed(plan, begin);
        while (w.submitted < most && w.submitted - w.taken < BENCH_WINDOW) {
            uint64_t i = w.submitted % BENCH_WINDOW;
            w.arguments[i] = (int64_t)(w.submitted * 7 + 1);
            expected += w.arguments[i];
            BENCH_TRY(b, row, submit(client, echo, w.arguments[i], &w.futures[i]));
            w.submitted++;
        }
        if (w.taken < w.submitted)
            BENCH_TRY(b, row, take(client, echo, &w, &sum, &out->refused));
        else
            usleep(50); /* ahead of the rate */
        atomic_store_explicit(&sampler.taken, w.taken, memory_order_relaxed);
    }
    out->rate = (double)plan->count / ((double)(bench_now() - begin) / 1e9);
    out->done = sum == expected ? plan->count : 0;
}

static bool wait_flusher(const struct bench *b)
{
    for (int i = 0; i < 600; i++, usleep(100000))
        if (flush_pid_of(b, "flush") != 0)
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

/* CPU time of the flusher, and of PostgreSQL with its children. */
static double flusher_cpu_s(const struct bench *fresh)
{
    int postgres = flush_pid_of(fresh, "postgres"), flusher = flush_pid_of(fresh, "flush");
    double seconds = 0;
    DIR *d = opendir("/proc");
    for (struct dirent *e = d ? readdir(d) : NULL; e; e = readdir(d)) {
        struct mob_process process;
        int pid = atoi(e->d_name);
        if (mob_process_look(pid, &process) &&
            (pid == postgres || process.parent == postgres || pid == flusher))
            seconds += (double)process.cpu_ns / 1e9;
    }
    if (d)
        closedir(d);
    return seconds;
}

/* Until the watermark is behind every task: what was reported before that was not paid for yet. */
static bool wait_flushed(struct mob_database *db, const struct plan *plan, struct run *out)
{
    static const char tasks_there[] = "SELECT coalesce(sum(specs), 0)::bigint FROM mobula.batch";
    int64_t begin = bench_now();
    double there = out->flushed_at_end = database_number(db, tasks_there);
    while (there < (double)plan->count && bench_now() - begin < FLUSHED_NS) {
        usleep(100000);
        there = database_number(db, tasks_there);
    }
    out->tail_s = (double)(bench_now() - begin) / 1e9;
    return there >= (double)plan->count;
}

/* The samples, in PostgreSQL itself: what a gateway answers might come from memory. */
static bool found_in_postgres(
    struct mob_database *db, const struct bench *b, const struct plan *plan, struct run *out)
{
    int sets = plan->draws && !b->options.quick ? SAMPLE_SETS : 1, wanted = 0;
    for (int i = 0; i < sets; i++) {
        wanted += samples[i].count;
        out->found += bench_flush_check(db, &samples[i], &out->find_us);
    }
    return wanted > 0 && out->found == wanted;
}

static bool verified(const struct bench *b)
{
    char program[600];
    snprintf(program, sizeof program, "%s/mobula", b->options.binaries);
    char *argv[] = {
        program, (char *)"gcs", (char *)"verify", (char *)"--dir", (char *)(uintptr_t)b->directory, NULL};
    return bench_run(argv, NULL, 0) == 0;
}

static bool draw(struct bench *b, const char *row, double cap_bytes)
{
    char path[600];
    snprintf(path, sizeof path, "%s/../gcs_flush.svg", b->options.binaries);
    if (flush_svg_write(path, sampler.samples, sampler.count, cap_bytes))
        return true;
    bench_miss(b, row, "the picture cannot be written");
    return false;
}

/* A thousand of a quick run, ten thousand else: each over HTTP, by its id. */
static bool read_back(struct bench *fresh, const char *row, const struct plan *plan)
{
    int sets = plan->draws && !fresh->options.quick ? SAMPLE_SETS : 1;
    for (int i = 0; i < sets; i++)
        if (!bench_samples_check(fresh, row, &samples[i], 1))
            return false;
    return true;
}

static double cap_bytes_of(const struct bench *b)
{
    return (b->options.quick ? 192.0 : 480.0) * 1048576;
}

static void note_samples(struct run *out)
{
    out->most_bytes = flush_sampler_most(&sampler, 0, 1, false);
    out->log_bytes = flush_sampler_most(&sampler, 0, 1, true);
    out->replaced = sampler.replaced;
    double early = flush_sampler_most(&sampler, 0, 0.5, false);
    out->late_over_early = early > 0 ? flush_sampler_most(&sampler, 0.5, 1, false) / early : 0;
}

static void with_flusher(struct bench *b, const char *row, struct bench *fresh, struct mob_client *client,
    const struct plan *plan, struct run *out)
{
    static const char wal[] = "SELECT (pg_current_wal_lsn() - '0/0'::pg_lsn)::bigint";
    static const char disk[] = "SELECT pg_database_size(current_database())";
    char socket[300];
    struct mob_database *db = NULL;
    snprintf(socket, sizeof socket, "%s/pg", fresh->directory);
    if (mob_database_open(socket, &db) != MOB_OK || !flush_sampler_start(&sampler, fresh)) {
        mob_database_close(db);
        bench_miss(b, row, "no connection to PostgreSQL, or not all members are there");
        return;
    }
    double wal_before = database_number(db, wal), disk_before = database_number(db, disk);
    double cpu_before = flusher_cpu_s(fresh);
    tasks(b, row, client, plan, out);
    bool all = out->done > 0 && wait_flushed(db, plan, out);
    out->flusher_us = (flusher_cpu_s(fresh) - cpu_before) * 1e6 / (double)plan->count;
    out->wal_bytes = database_number(db, wal) - wal_before;
    out->disk_bytes = database_number(db, disk) - disk_before;
    flush_sampler_stop(&sampler);
    note_samples(out);
    bool found = all && found_in_postgres(db, b, plan, out);
    mob_database_close(db);
    if (out->done > 0 && !found) {
        bench_miss(
            b, row, all ? "a task is not in PostgreSQL as it was submitted" : "not all tasks were flushed");
        out->done = 0;
    }
    if (out->done > 0 && plan->draws && !draw(b, row, cap_bytes_of(b)))
        return;
    if (out->done > 0 && (!read_back(fresh, row, plan) || !verified(fresh))) {
        bench_miss(b, row, "a task is not as it was submitted, or mobula gcs verify failed");
        out->done = 0;
    }
}

/* A chain of two has a PostgreSQL, and so a flusher, which hears of every block and writes none. */
static void without_flushing(struct bench *b, const char *row, struct bench *fresh, struct mob_client *client,
    const struct plan *plan, struct run *out)
{
    char socket[300];
    struct mob_database *db = NULL;
    tasks(b, row, client, plan, out);
    snprintf(socket, sizeof socket, "%s/pg", fresh->directory);
    bool nothing = mob_database_open(socket, &db) == MOB_OK &&
        database_number(db, "SELECT count(*) FROM mobula.batch") == 0;
    mob_database_close(db);
    if (out->done > 0 && !nothing) {
        bench_miss(b, row, "something was flushed where nothing was to be");
        out->done = 0;
    }
}

static bool one_run(struct bench *b, const char *row, bool flushes, const struct plan *plan, struct run *out)
{
    struct bench fresh = {.options = b->options, .postgres = true, .replicas = FLUSH_REPLICAS};
    int misses = b->misses;
    *out = (struct run){0};
    if (flushes) {
        setenv("MOBULA_GCS_SOFT_BYTES", b->options.quick ? "160MiB" : "416MiB", 1);
        setenv("MOBULA_GCS_HARD_BYTES", b->options.quick ? "192MiB" : "480MiB", 1);
    } else {
        bench_flush_nothing();
    }
    bool up = bench_cluster_start(&fresh) && wait_flusher(&fresh);
    unsetenv("MOBULA_GCS_SOFT_BYTES");
    unsetenv("MOBULA_GCS_HARD_BYTES");
    bench_flush_again();
    struct mob_client *client = up ? bench_connect(&fresh) : NULL;
    if (!client || !bench_deploy_everywhere(&fresh, client, "noop")) {
        bench_miss(b, row, "no cluster");
    } else {
        bench_wait_warm(client);
        if (flushes)
            with_flusher(b, row, &fresh, client, plan, out);
        else
            without_flushing(b, row, &fresh, client, plan, out);
    }
    mob_disconnect(client);
    bench_cluster_stop(&fresh);
    if (b->misses == misses && fresh.misses == 0 && out->done == 0)
        bench_miss(b, row, "the sum of all results is wrong");
    b->misses += fresh.misses;
    return out->done > 0 && b->misses == misses;
}

static void tell(struct bench *b, const char *row, const char *against, const struct plan *with,
    const struct run *bare, const struct run *flushed)
{
    char extra[800];
    double count = (double)with->count;
    snprintf(extra, sizeof extra,
        "\"chain\":%d,\"replaced\":%d,\"tasks_per_s\":%.0f,\"without_per_s\":%.0f,\"most_mb\":%.1f,\"late_"
        "over_early\":%.3f,"
        "\"log_mb\":%.1f,\"wal_bytes_per_task\":%.1f,\"disk_bytes_per_task\":%.1f,\"refused\":%.0f,"
        "\"flushed_at_end\":%.0f,\"flush_tail_s\":%.1f,\"flusher_us_per_task\":%.3f,"
        "\"read_in_postgres\":%.0f,\"read_p50_us\":%.0f",
        FLUSH_REPLICAS, flushed->replaced, flushed->rate, bare->rate, flushed->most_bytes / 1e6,
        flushed->late_over_early, flushed->log_bytes / 1e6, flushed->wal_bytes / count,
        flushed->disk_bytes / count, flushed->refused, flushed->flushed_at_end, flushed->tail_s,
        flushed->flusher_us, flushed->found, flushed->find_us);
    bench_row(b,
        &(struct bench_row){.name = row,
            .unit = "",
            .value = flushed->rate / bare->rate,
            .baseline = 1,
            .against = against,
            .n = count,
            .commit = "committed",
            .extra = extra});
}

/* Tasks of a row's run with flushing: as stated, or what MOBULA_BENCH_FLUSH_TASKS says. */
static uint64_t tasks_of_flush(uint64_t stated)
{
    const char *text = getenv("MOBULA_BENCH_FLUSH_TASKS");
    uint64_t given = text ? strtoull(text, NULL, 10) : 0;
    return given > 0 ? given : stated;
}

static void gcs_flush(struct bench *b)
{
    static const char row[] = "gcs_flush";
    /* Without flushing all of it must fit. */
    struct plan without = {.count = b->options.quick ? 300000 : 5000000};
    struct plan with = {.count = tasks_of_flush(b->options.quick ? 3000000 : 50000000), .draws = true};
    struct run bare, flushed;
    if (!one_run(b, row, false, &without, &bare) || !one_run(b, row, true, &with, &flushed))
        return;
    tell(b, row, "the same tasks without flushing", &with, &bare, &flushed);
    char extra[96];
    snprintf(extra, sizeof extra, "\"chain\":%d,\"cap_mb\":%.1f,\"late_over_early\":%.3f", FLUSH_REPLICAS,
        cap_bytes_of(b) / 1e6, flushed.late_over_early);
    bench_row(b,
        &(struct bench_row){.name = "gcs_flush_mem",
            .unit = "MB",
            .value = flushed.most_bytes / 1e6,
            .n = (double)with.count,
            .commit = "committed",
            .extra = extra});
}

/* The same at a rate that both can hold, on a machine that is fast enough for it. */
static void gcs_flush_fixed(struct bench *b)
{
    static const char row[] = "gcs_flush_fixed";
    struct plan without = {.count = b->options.quick ? 500000 : 5000000, .rate = FIXED_RATE};
    struct plan with = {.count = tasks_of_flush(b->options.quick ? 1000000 : 20000000), .rate = FIXED_RATE};
    struct run bare, flushed;
    if (one_run(b, row, false, &without, &bare) && one_run(b, row, true, &with, &flushed))
        tell(b, row, "without flushing, at most 500,000 tasks/s each", &with, &bare, &flushed);
}

void suite_flush(struct bench *b)
{
    if (bench_wanted(b, "gcs_flush"))
        gcs_flush(b);
    if (bench_wanted(b, "gcs_flush_fixed"))
        gcs_flush_fixed(b);
    if (bench_wanted(b, "gcs_find"))
        bench_flush_find(b);
    if (bench_wanted(b, "gcs_find_http"))
        bench_find_http(b);
}
