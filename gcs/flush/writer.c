#include "gcs/flush/writer.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/failpoint.h"
#include "common/base/log.h"
#include "gcs/flush/recut.h"
#include "gcs/flush/watermark.h"

#define DAYS_KNOWN_MAX 64
#define SEEN_SLOTS (1u << 16) /* streams and jobs whose day is there already; a collision costs a row */
#define DAYS_BATCH_MAX 32

struct stream_row {
    struct mob_stream stream;
    int32_t day;
};
struct failure_row {
    struct mob_recut_failure f;
    int32_t row_number;
};

struct mob_writer_state {
    uint32_t shard;
    struct mob_recut *recut;
    struct mob_cold *cold;
    int32_t days_known[DAYS_KNOWN_MAX]; /* partitions that are there; a ring */
    int days_next;
    struct stream_row *seen; /* by hash: committed with its day */
    struct stream_row *seen_jobs;
    /* Of the batch under way. */
    struct mob_database *db;
    const struct mob_flush_batch *batch;
    struct mob_flush_written written;
    int32_t day_min, day_max;
    int32_t cut_row; /* rows before the present cut */
    struct stream_row *streams;
    size_t stream_count, stream_capacity;
    struct stream_row *jobs;
    size_t job_count, job_capacity;
    struct failure_row *failures;
    size_t failure_count, failure_capacity;
    bool *left_out; /* blocks that do not decode */
    size_t left_out_capacity;
};

struct mob_writer_state *mob_flush_writer_create(uint32_t shard)
{
    struct mob_writer_state *w = calloc(1, sizeof *w);
    if (w == NULL)
        return NULL;
    w->shard = shard;
    w->recut = mob_recut_create();
    w->cold = mob_cold_create(shard);
    w->seen = calloc(SEEN_SLOTS, sizeof *w->seen);
    w->seen_jobs = calloc(SEEN_SLOTS, sizeof *w->seen_jobs);
    for (int i = 0; i < DAYS_KNOWN_MAX; i++)
        w->days_known[i] = INT32_MIN;
    if (w->recut == NULL || w->cold == NULL || w->seen == NULL || w->seen_jobs == NULL) {
        mob_flush_writer_destroy(w);
        return NULL;
    }
    return w;
}

void mob_flush_writer_destroy(struct mob_writer_state *w)
{
    if (w == NULL)
        return;
    mob_recut_destroy(w->recut);
    mob_cold_destroy(w->cold);
    free(w->seen);
    free(w->seen_jobs);
    free(w->streams);
    free(w->jobs);
    free(w->failures);
    free(w->left_out);
    free(w);
}

static bool grow(void **array, size_t count, size_t *capacity, size_t size)
{
    if (count < *capacity)
        return true;
    size_t wanted = *capacity == 0 ? 1024 : 2 * *capacity;
    void *grown = realloc(*array, wanted * size);
    if (grown == NULL)
        return false;
    *array = grown;
    *capacity = wanted;
    return true;
}

/* ---- partitions: made before the batch, in a transaction of their own, which holds its locks for a moment
 * only. An empty one that is left over does no harm ---- */

static bool day_is_known(const struct mob_writer_state *w, int32_t day)
{
    for (int i = 0; i < DAYS_KNOWN_MAX; i++)
        if (w->days_known[i] == day)
            return true;
    return false;
}

static enum mob_status make_partitions(struct mob_writer_state *w, int32_t day)
{
    static const char *const parents[] = {"bucket", "stream_day", "failure"};
    char sql[1024], table[MOB_COLD_TABLE_MAX];
    size_t n = (size_t)snprintf(sql, sizeof sql, "BEGIN; SELECT pg_advisory_xact_lock(7238548); ");
    for (size_t i = 0; i < 3; i++) /* rows are never changed, so there is little to vacuum but for freezing */
        n += (size_t)snprintf(sql + n, sizeof sql - n,
            "CREATE TABLE IF NOT EXISTS mobula.%s PARTITION OF mobula.%s FOR VALUES FROM (%" PRId32
            ") TO (%" PRId32 ") WITH (autovacuum_vacuum_insert_threshold = -1); ",
            mob_cold_table(table, parents[i], day), parents[i], day, day + 1);
    snprintf(sql + n, sizeof sql - n, "COMMIT");
    enum mob_status status = mob_database_run(w->db, sql);
    if (status != MOB_OK) {
        mob_database_rollback(w->db);
        return status;
    }
    w->days_known[w->days_next] = day;
    w->days_next = (w->days_next + 1) % DAYS_KNOWN_MAX;
    return MOB_OK;
}

/* Every day that a block of the batch was opened on. */
static enum mob_status ensure_days(struct mob_writer_state *w)
{
    static _Thread_local struct mob_zone_map zone;
    enum mob_status status = MOB_OK;
    int made = 0;
    w->day_min = INT32_MAX;
    w->day_max = INT32_MIN;
    for (uint32_t i = 0; i < w->batch->count && status == MOB_OK; i++) {
        struct mob_block_header h;
        if (w->left_out[i])
            continue;
        status = mob_block_peek(w->batch->blocks[i].bytes, w->batch->blocks[i].length, &h, &zone);
        if (status != MOB_OK)
            break;
        int32_t day = mob_recut_day(h.wall_ns);
        w->day_min = day < w->day_min ? day : w->day_min;
        w->day_max = day > w->day_max ? day : w->day_max;
        w->written.block_bytes += w->batch->blocks[i].length;
        w->written.specs += zone.specs;
        w->written.finals += zone.finals;
        w->written.failed += zone.failed;
        w->written.others += zone.others;
        if (day_is_known(w, day))
            continue;
        status = made++ < DAYS_BATCH_MAX ? make_partitions(w, day) : MOB_INVALID;
    }
    return status;
}

/* ---- what the cuts give ---- */

static void copy_bucket(struct mob_writer_state *w, const struct mob_recut_row *row)
{
    const struct mob_bucket_summary *s = &row->summary;
    struct mob_database *db = w->db;
    mob_copy_row(db, 18);
    mob_copy_i32(db, (int32_t)w->shard);
    mob_copy_i64(db, (int64_t)w->batch->upto);
    mob_copy_i32(db, (int32_t)w->written.buckets);
    mob_copy_i32(db, row->day);
    if (row->shared)
        mob_copy_null(db);
    else
        mob_copy_bytes(db, &row->job, sizeof row->job);
    mob_copy_range(db, &s->first, &s->last, sizeof s->first, s->groups == 0);
    mob_copy_i64(db, (int64_t)s->seq_min);
    mob_copy_i64(db, (int64_t)s->seq_max);
    mob_copy_i64(db, s->time_min_ns / 1000);
    mob_copy_i64(db, s->time_max_ns / 1000);
    mob_copy_i64(db, s->longest_ns / 1000);
    mob_copy_i32(db, (int32_t)s->specs);
    mob_copy_i32(db, (int32_t)s->finals);
    mob_copy_i32(db, (int32_t)s->failed);
    mob_copy_i32(db, (int32_t)s->others);
    mob_copy_bytes(db, s->group_filter, s->group_filter_bytes);
    mob_copy_bytes(db, s->function_filter, s->function_filter_bytes);
    mob_copy_bytes(db, row->payload, row->payload_bytes);
}

static enum mob_status on_row(void *arg, const struct mob_recut_row *row)
{
    struct mob_writer_state *w = arg;
    copy_bucket(w, row);
    w->written.buckets++;
    w->written.payload_bytes += row->payload_bytes;
    return MOB_OK;
}

static enum mob_status on_failure(void *arg, const struct mob_recut_failure *failure)
{
    struct mob_writer_state *w = arg;
    if (!grow((void **)&w->failures, w->failure_count, &w->failure_capacity, sizeof *w->failures))
        return MOB_NO_MEMORY;
    w->failures[w->failure_count++] =
        (struct failure_row){.f = *failure, .row_number = w->cut_row + (int32_t)failure->row};
    return MOB_OK;
}

static size_t slot_of(struct mob_stream stream, int32_t day)
{
    return (size_t)(mob_stream_mix(stream) + (uint32_t)day) % SEEN_SLOTS;
}

static enum mob_status note(struct stream_row *seen, struct stream_row **rows, size_t *count,
    size_t *capacity, struct mob_stream stream, int32_t day)
{
    struct stream_row row = {stream, day};
    struct stream_row *slot = &seen[slot_of(stream, day)];
    if (memcmp(slot, &row, sizeof row) == 0)
        return MOB_OK;
    if (!grow((void **)rows, *count, capacity, sizeof row))
        return MOB_NO_MEMORY;
    (*rows)[(*count)++] = row;
    *slot = row;
    return MOB_OK;
}

static enum mob_status on_stream(void *arg, int32_t day, struct mob_stream stream)
{
    struct mob_writer_state *w = arg;
    return note(w->seen, &w->streams, &w->stream_count, &w->stream_capacity, stream, day);
}

static enum mob_status on_job(struct mob_writer_state *w, const struct mob_block_header *h)
{
    return note(
        w->seen_jobs, &w->jobs, &w->job_count, &w->job_capacity, h->job.root, mob_recut_day(h->wall_ns));
}

/* What was noted is not there after all. */
static void forget_seen(struct mob_writer_state *w)
{
    memset(w->seen, 0, SEEN_SLOTS * sizeof *w->seen);
    memset(w->seen_jobs, 0, SEEN_SLOTS * sizeof *w->seen_jobs);
}

void mob_flush_writer_forget(struct mob_writer_state *w)
{
    forget_seen(w);
    for (int i = 0; i < DAYS_KNOWN_MAX; i++)
        w->days_known[i] = INT32_MIN;
}

/* A failure whose spec is in another class of the same cut. */
static void find_in_cut(struct mob_writer_state *w, size_t from)
{
    for (size_t i = from; i < w->failure_count; i++) {
        struct mob_recut_failure *f = &w->failures[i].f;
        if (!f->has_function)
            f->has_function = mob_recut_function(w->recut, f->task, &f->function) == MOB_OK;
    }
}

/* Blocks [*at, ...) until there are enough for a cut. */
static enum mob_status add_cut(struct mob_writer_state *w, uint32_t *at)
{
    static _Thread_local struct mob_zone_map zone;
    enum mob_status status = MOB_OK;
    uint64_t bytes = 0;
    mob_recut_begin(w->recut);
    for (; *at < w->batch->count && bytes < MOB_RECUT_TARGET_BYTES && status == MOB_OK; ++*at) {
        const struct mob_flush_block *b = &w->batch->blocks[*at];
        struct mob_block_header h;
        if (w->left_out[*at])
            continue;
        status = mob_block_peek(b->bytes, b->length, &h, &zone);
        if (status == MOB_OK)
            status = on_job(w, &h);
        if (status == MOB_OK)
            status = mob_recut_add(w->recut, b->seq, b->bytes, b->length);
        if (status == MOB_QUEUE_FULL)
            return MOB_OK; /* many small ones: the next cut goes on here */
        bytes += b->length;
    }
    return status;
}

static enum mob_status copy_buckets(struct mob_writer_state *w)
{
    static const char sql[] =
        "COPY mobula.bucket (shard, upto, row_number, day, job, ids, seq_min, seq_max, time_min_us, "
        "time_max_us, longest_us, specs, finals, failed, others, group_filter, function_filter, payload) "
        "FROM STDIN (FORMAT binary)";
    const struct mob_recut_events events = {on_row, on_failure, on_stream, w};
    enum mob_status status = mob_copy_begin(w->db, sql);
    if (status != MOB_OK)
        return status;
    for (uint32_t at = 0; at < w->batch->count && status == MOB_OK;) {
        size_t failures_before = w->failure_count;
        w->cut_row = (int32_t)w->written.buckets;
        status = add_cut(w, &at);
        if (status == MOB_OK)
            status = mob_recut_finish(w->recut, &events);
        if (status == MOB_OK)
            find_in_cut(w, failures_before);
    }
    enum mob_status end = mob_copy_end(w->db); /* ends it in any case; the transaction is rolled back then */
    return status != MOB_OK ? status : end;
}

/* ---- the narrow tables ---- */

static enum mob_status copy_streams(struct mob_writer_state *w)
{
    if (w->stream_count == 0)
        return MOB_OK;
    enum mob_status status =
        mob_copy_begin(w->db, "COPY mobula.stream_day (stream, day) FROM STDIN (FORMAT binary)");
    if (status != MOB_OK)
        return status;
    for (size_t i = 0; i < w->stream_count; i++) {
        mob_copy_row(w->db, 2);
        mob_copy_bytes(w->db, &w->streams[i].stream, sizeof w->streams[i].stream);
        mob_copy_i32(w->db, w->streams[i].day);
    }
    w->written.streams = (uint32_t)w->stream_count;
    return mob_copy_end(w->db);
}

/* Specs that were flushed before: read back, through this very transaction. */
static enum mob_status find_functions(struct mob_writer_state *w)
{
    for (size_t i = 0; i < w->failure_count; i++) {
        struct mob_recut_failure *f = &w->failures[i].f;
        if (f->has_function)
            continue;
        enum mob_status status = mob_cold_function(w->cold, w->db, f->task, &f->function);
        if (status != MOB_OK && status != MOB_NOT_FOUND)
            return status;
        f->has_function = status == MOB_OK;
    }
    return MOB_OK;
}

static void copy_failure(struct mob_writer_state *w, const struct failure_row *row)
{
    const struct mob_recut_failure *f = &row->f;
    struct mob_bucket_key key = mob_bucket_key(f->task.stream, f->task.index);
    mob_copy_row(w->db, 10);
    mob_copy_i32(w->db, (int32_t)w->shard);
    mob_copy_i64(w->db, (int64_t)w->batch->upto);
    mob_copy_i32(w->db, row->row_number);
    mob_copy_i32(w->db, f->day);
    mob_copy_i64(w->db, f->finished_wall_ns / 1000);
    if (f->has_function)
        mob_copy_bytes(w->db, &f->function, sizeof f->function);
    else
        mob_copy_null(w->db);
    mob_copy_bytes(w->db, &f->job, sizeof f->job);
    mob_copy_bytes(w->db, &key, sizeof key);
    mob_copy_i16(w->db, (int16_t)f->status);
    mob_copy_i64(w->db, (int64_t)f->seq);
}

static enum mob_status copy_failures(struct mob_writer_state *w)
{
    if (w->failure_count == 0)
        return MOB_OK;
    enum mob_status status = find_functions(w);
    if (status == MOB_OK)
        status = mob_copy_begin(w->db,
            "COPY mobula.failure (shard, upto, row_number, day, finished_us, function, job, task, status, "
            "seq) "
            "FROM STDIN (FORMAT binary)");
    if (status != MOB_OK)
        return status;
    for (size_t i = 0; i < w->failure_count; i++)
        copy_failure(w, &w->failures[i]);
    w->written.failures = (uint32_t)w->failure_count;
    return mob_copy_end(w->db);
}

static enum mob_status insert_jobs(struct mob_writer_state *w)
{
    static const char sql[] = "INSERT INTO mobula.job_day (job, day) VALUES ($1, $2) ON CONFLICT DO NOTHING";
    enum mob_status status = MOB_OK;
    for (size_t i = 0; i < w->job_count && status == MOB_OK; i++) {
        struct mob_database_param p[2];
        mob_param_bytes(&p[0], &w->jobs[i].stream, sizeof w->jobs[i].stream);
        mob_param_i32(&p[1], w->jobs[i].day);
        status = mob_database_query(w->db, sql, p, 2, NULL);
    }
    return status;
}

static enum mob_status insert_batch(struct mob_writer_state *w)
{
    static const char sql[] = "INSERT INTO mobula.batch (shard, upto, after, epoch, day_min, day_max, "
                              "blocks, buckets, specs, finals, "
                              "failed, others, block_bytes, payload_bytes) VALUES ($1, $2, $3, $4, $5, $6, "
                              "$7, $8, $9, $10, $11, $12, $13, $14)";
    const struct mob_flush_batch *b = w->batch;
    const struct mob_flush_written *d = &w->written;
    struct mob_database_param p[14];
    bool any = w->day_min <= w->day_max;
    mob_param_i32(&p[0], (int32_t)w->shard);
    mob_param_i64(&p[1], (int64_t)b->upto);
    mob_param_i64(&p[2], (int64_t)b->after);
    mob_param_i64(&p[3], (int64_t)b->epoch);
    mob_param_i32(&p[4], any ? w->day_min : 0);
    mob_param_i32(&p[5], any ? w->day_max : 0);
    mob_param_i32(&p[6], (int32_t)(b->count - d->damaged));
    mob_param_i32(&p[7], (int32_t)d->buckets);
    mob_param_i64(&p[8], (int64_t)d->specs);
    mob_param_i64(&p[9], (int64_t)d->finals);
    mob_param_i64(&p[10], (int64_t)d->failed);
    mob_param_i64(&p[11], (int64_t)d->others);
    mob_param_i64(&p[12], (int64_t)d->block_bytes);
    mob_param_i64(&p[13], (int64_t)d->payload_bytes);
    return mob_database_query(w->db, sql, p, 14, NULL);
}

static enum mob_status insert_damaged(struct mob_writer_state *w)
{
    enum mob_status status = MOB_OK;
    for (uint32_t i = 0; i < w->batch->count && w->written.damaged > 0 && status == MOB_OK; i++)
        if (w->left_out[i])
            status = mob_watermark_gap(w->db, w->shard, w->batch->blocks[i].seq - 1, w->batch->blocks[i].seq);
    return status;
}

/* ---- the transaction ---- */

static enum mob_status write_once(struct mob_writer_state *w)
{
    const struct mob_flush_batch *b = w->batch;
    enum mob_status status = ensure_days(w);
    (void)MOB_FAILPOINT("flush.before_watermark");
    if (status == MOB_OK)
        status = mob_database_run(w->db, "BEGIN");
    if (status == MOB_OK)
        status = mob_watermark_move(w->db, w->shard, b->after, b->upto, b->epoch);
    if (status == MOB_OK)
        status = copy_buckets(w);
    if (status == MOB_OK)
        status = copy_streams(w);
    if (status == MOB_OK)
        status = copy_failures(w);
    if (status == MOB_OK)
        status = insert_jobs(w);
    if (status == MOB_OK)
        status = insert_batch(w);
    if (status == MOB_OK)
        status = insert_damaged(w);
    (void)MOB_FAILPOINT("flush.before_commit");
    if (status == MOB_OK)
        status = mob_database_run(w->db, "COMMIT");
    (void)MOB_FAILPOINT("flush.after_commit");
    if (status != MOB_OK) {
        mob_database_rollback(w->db);
        mob_flush_writer_forget(w); /* a day may have been dropped */
    }
    return status;
}

static void begin(struct mob_writer_state *w, struct mob_database *db, const struct mob_flush_batch *batch)
{
    uint32_t damaged = w->written.damaged;
    w->db = db;
    w->batch = batch;
    w->written = (struct mob_flush_written){.damaged = damaged};
    w->stream_count = w->job_count = w->failure_count = 0;
}

/* Which blocks do not decode; true when there is one that was not known. */
static bool find_damaged(struct mob_writer_state *w)
{
    static _Thread_local struct mob_zone_map zone;
    static _Thread_local struct mob_entry entry;
    struct mob_block_decoder *decoder = mob_block_decoder_create();
    bool found = false;
    for (uint32_t i = 0; decoder != NULL && i < w->batch->count; i++) {
        const struct mob_flush_block *b = &w->batch->blocks[i];
        struct mob_block_header h;
        if (w->left_out[i])
            continue;
        enum mob_status status = mob_block_open(decoder, b->bytes, b->length, &h, &zone);
        while (status == MOB_OK)
            status = mob_block_next(decoder, &entry);
        if (status == MOB_CLOSED)
            continue;
        MOB_LOG_ERROR("flush", "block_damaged", "shard=%u seq=%llu why=%s", w->shard,
            (unsigned long long)b->seq, mob_status_code(status));
        w->left_out[i] = found = true;
        w->written.damaged++;
    }
    mob_block_decoder_destroy(decoder);
    return found;
}

enum mob_status mob_flush_write(struct mob_writer_state *w, struct mob_database *db,
    const struct mob_flush_batch *batch, struct mob_flush_written *written_out)
{
    if (batch->count > w->left_out_capacity) {
        bool *left_out = realloc(w->left_out, batch->count * sizeof *left_out);
        if (left_out == NULL)
            return MOB_NO_MEMORY;
        w->left_out = left_out;
        w->left_out_capacity = batch->count;
    }
    for (uint32_t i = 0; i < batch->count; i++)
        w->left_out[i] = false;
    w->written.damaged = 0;
    begin(w, db, batch);
    enum mob_status status = write_once(w);
    bool unreadable = status == MOB_CORRUPT || status == MOB_VERSION || status == MOB_TRUNCATED;
    if (unreadable && find_damaged(w)) {
        begin(w, db, batch);
        status = write_once(w);
    }
    if (status == MOB_OK)
        *written_out = w->written;
    return status;
}
