#include "gcs/flush/flush_thread.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "gcs/flush/figures.h"
#include "gcs/flush/maintain.h"
#include "gcs/flush/migrate.h"
#include "gcs/flush/watermark.h"

#define ENDS_AT_ONCE 1024
#define SIZE_NS (10 * MOB_SEC) /* between two looks at the size */
#define LOCK_SECONDS 2u
#define TIDY_EVERY 16u /* times that it maintains */

struct flush_thread {
    struct flush_thread_options options;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t given;
    struct flush_job *job, *ended;
    bool stop;
    /* The thread's own. */
    struct mob_database *db;
    struct mob_writer_state *writer;
    uint32_t maintained; /* so often */
    struct mob_gcs_database figures;
    int64_t sized_ns; /* when the database's size was asked for */
};

/* ---- jobs ---- */

static void forget_connection(struct flush_thread *t)
{
    mob_database_close(t->db);
    t->db = NULL;
}

/* A flusher that stopped inside of a transaction (the zombie's case) holds the watermark's row. Nobody waits
 * for it longer than this, and then its connection goes, so that the row is free; it can commit no more. */
static enum mob_status end_stopped_ones(struct flush_thread *t)
{
    char name[32];
    snprintf(name, sizeof name, "mobula-flush-%u", t->options.shard);
    enum mob_status status = mob_database_name(t->db, name, LOCK_SECONDS);
    return status == MOB_OK ? mob_database_end_stopped(t->db, LOCK_SECONDS) : status;
}

static enum mob_status connect_and_migrate(struct flush_thread *t)
{
    int from = 0, to = 0;
    if (t->db != NULL && mob_database_good(t->db))
        return end_stopped_ones(t);
    forget_connection(t);
    enum mob_status status = mob_database_open(t->options.directory, &t->db);
    if (status == MOB_OK) {
        mob_database_leave_stopped(t->db);
        status = end_stopped_ones(t);
    }
    if (status == MOB_OK)
        status = mob_migrate(t->db, mob_migrations, &from, &to);
    if (status == MOB_OK)
        status = mob_migrate_claim(t->db, t->options.cluster);
    return status;
}

/* Ends of the batches in (flushed, upto], all of them. */
static enum mob_status list_ends(struct flush_thread *t, struct flush_job *job)
{
    uint64_t after = job->flushed;
    int count = ENDS_AT_ONCE;
    enum mob_status status = MOB_OK;
    while (status == MOB_OK && count == ENDS_AT_ONCE && after < job->upto) {
        uint64_t *ends = realloc(job->ends, (job->end_count + ENDS_AT_ONCE) * sizeof *ends);
        if (ends == NULL)
            return MOB_NO_MEMORY;
        job->ends = ends;
        status = mob_watermark_batches(
            t->db, t->options.shard, after, job->upto, ends + job->end_count, ENDS_AT_ONCE, &count);
        job->end_count += (uint32_t)count;
        after = job->end_count > 0 ? ends[job->end_count - 1] : job->upto;
    }
    return status;
}

static void do_open(struct flush_thread *t, struct flush_job *job)
{
    uint64_t epoch = 0;
    job->status = connect_and_migrate(t);
    if (job->status == MOB_OK)
        job->status = mob_watermark_read(t->db, t->options.shard, &job->upto, &epoch);
    if (job->status == MOB_OK && job->upto < job->flushed) {
        MOB_LOG_ERROR("flush", "database_is_older",
            "watermark=%" PRIu64 " flushed=%" PRIu64
            " why=\"members dropped what this database does not have; the gap is named in mobula.gap\"",
            job->upto, job->flushed);
        job->status = mob_watermark_skip(t->db, t->options.shard, job->upto, job->flushed, job->epoch);
        job->upto = job->flushed;
    }
    if (job->status == MOB_OK)
        job->status = list_ends(t, job);
}

static void do_maintain(struct flush_thread *t, struct flush_job *job)
{
    const struct mob_maintain_options options = {.gcs_socket = t->options.gcs_socket,
        .all_shards = t->options.all_shards,
        .cluster = t->options.cluster,
        .secret = t->options.secret,
        .shard = t->options.shard,
        .retention_s = t->options.retention_s,
        .now_wall_ns = mob_wall_now(),
        .tidy = t->maintained++ % TIDY_EVERY == TIDY_EVERY - 1};
    struct mob_maintained done;
    job->status = mob_maintain(t->db, &options, &done);
    if (done.days > 0)
        mob_flush_writer_forget(t->writer);
    if (done.days + done.jobs > 0 || job->status != MOB_OK)
        MOB_LOG_INFO("flush", "maintained", "days=%u jobs=%u status=%s", done.days, done.jobs,
            mob_status_code(job->status));
}

/* What the status of the tools shows, for figures: counted when a session begins and with each look at what
 * may go, and in between carried on. A size is asked for seldom, since it looks at every file. */
static void tell_figures(struct flush_thread *t, struct flush_job *job)
{
    struct mob_gcs_database *f = &t->figures;
    bool all = job->kind != FLUSH_JOB_WRITE;
    if (job->status == MOB_OK && !all) {
        f->batches++;
        f->tasks += job->written.specs;
        f->failed += job->written.failed;
    }
    if (t->db != NULL && mob_database_good(t->db)) {
        enum mob_status status = all ? mob_figures_count(t->db, t->options.shard, f) : MOB_OK;
        if (status == MOB_OK)
            status = mob_figures_days(t->db, t->options.shard, f);
        if (status == MOB_OK && (all || mob_now() - t->sized_ns > SIZE_NS)) {
            status = mob_figures_size(t->db, f);
            t->sized_ns = mob_now();
        }
        if (status != MOB_OK)
            MOB_LOG_WARN("flush", "no_figures", "status=%s", mob_status_code(status));
    }
    job->figures = *f;
}

static void do_job(struct flush_thread *t, struct flush_job *job)
{
    if (job->kind == FLUSH_JOB_OPEN) {
        do_open(t, job);
    } else if (t->db == NULL) {
        job->status = MOB_UNAVAILABLE;
    } else if (job->kind == FLUSH_JOB_MAINTAIN) {
        do_maintain(t, job);
    } else {
        struct mob_flush_batch batch = flush_batch_of(job->batch);
        job->status = mob_flush_write(t->writer, t->db, &batch, &job->written);
    }
    tell_figures(t, job);
    if (job->status == MOB_UNAVAILABLE)
        forget_connection(t);
}

static void *run(void *arg)
{
    struct flush_thread *t = arg;
    pthread_mutex_lock(&t->lock);
    for (;;) {
        while (t->job == NULL && !t->stop)
            pthread_cond_wait(&t->given, &t->lock);
        if (t->stop)
            break;
        struct flush_job *job = t->job;
        pthread_mutex_unlock(&t->lock);
        do_job(t, job);
        pthread_mutex_lock(&t->lock);
        t->job = NULL;
        t->ended = job;
        uint64_t one = 1;
        ssize_t written = write(t->options.event_fd, &one, sizeof one);
        (void)written; /* full: it is readable */
    }
    pthread_mutex_unlock(&t->lock);
    forget_connection(t);
    return NULL;
}

/* ---- for the loop ---- */

enum mob_status flush_thread_start(
    const struct flush_thread_options *options, struct flush_thread **thread_out)
{
    struct flush_thread *t = calloc(1, sizeof *t);
    if (t == NULL)
        return MOB_NO_MEMORY;
    t->options = *options;
    t->writer = mob_flush_writer_create(options->shard);
    pthread_mutex_init(&t->lock, NULL);
    pthread_cond_init(&t->given, NULL);
    if (t->writer == NULL || pthread_create(&t->thread, NULL, run, t) != 0) {
        mob_flush_writer_destroy(t->writer);
        free(t);
        return MOB_NO_MEMORY;
    }
    *thread_out = t;
    return MOB_OK;
}

void flush_thread_give(struct flush_thread *t, struct flush_job *job)
{
    pthread_mutex_lock(&t->lock);
    MOB_ASSERT(t->job == NULL && t->ended == NULL);
    t->job = job;
    pthread_cond_signal(&t->given);
    pthread_mutex_unlock(&t->lock);
}

struct flush_job *flush_thread_take(struct flush_thread *t)
{
    pthread_mutex_lock(&t->lock);
    struct flush_job *job = t->ended;
    t->ended = NULL;
    pthread_mutex_unlock(&t->lock);
    return job;
}

bool flush_thread_stop(struct flush_thread *t, int64_t wait_ns)
{
    int64_t until_ns = mob_now() + wait_ns;
    const struct timespec until = {until_ns / MOB_SEC, until_ns % MOB_SEC};
    pthread_mutex_lock(&t->lock);
    t->stop = true;
    pthread_cond_signal(&t->given);
    pthread_mutex_unlock(&t->lock);
    if (pthread_clockjoin_np(t->thread, NULL, CLOCK_MONOTONIC, &until) != 0)
        return false;
    mob_flush_writer_destroy(t->writer);
    free(t);
    return true;
}
