#include "gcs/flush/maintain.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/wire/block.h"
#include "gcs/client/client_sync.h"
#include "gcs/flush/cold.h"
#include "gcs/flush/kept.h"

#define ANSWER_NS (20 * MOB_SEC)
#define DAY_NS (86400 * MOB_SEC)
#define DAYS_MAX 512
#define LEAVE_NS (10 * MOB_SEC) /* as long as a restarted member waits at most */

/* Streams, of jobs or of tasks: both are twelve bytes. */
struct streams {
    struct mob_stream *rows;
    size_t count, capacity;
    enum mob_status status;
};
struct maintain {
    const struct mob_maintain_options *options;
    struct mob_database *db;
    struct mob_gcs *gcs;
    struct streams jobs, kept, gone;
    struct kept_needs needs; /* of living actors */
};

static void add(struct streams *s, const void *bytes)
{
    if (s->count == s->capacity) {
        size_t capacity = s->capacity == 0 ? 256 : s->capacity * 2;
        struct mob_stream *rows = realloc(s->rows, capacity * sizeof *rows);
        if (rows == NULL) {
            s->status = MOB_NO_MEMORY;
            return;
        }
        s->rows = rows;
        s->capacity = capacity;
    }
    memcpy(&s->rows[s->count++], bytes, sizeof s->rows[0]);
}

/* ---- jobs that were deleted ---- */

static void on_kv(void *arg, const struct mob_gcs_kv *kv)
{
    struct maintain *m = arg;
    size_t prefix = sizeof MOB_GCS_KEY_FLUSH_GONE - 1;
    if (kv->key_length == prefix + sizeof(struct mob_job_id) &&
        memcmp(kv->key, MOB_GCS_KEY_FLUSH_GONE, prefix) == 0)
        add(&m->gone, kv->key + prefix);
}

/* Each batch notes what it has lost (mobula.deleted), and its days where in the log that was (mobula.hole).
 * In one statement with the deletion: another shard's flusher may be inserting. What is kept for actors is
 * not of the batches any more. */
static const char delete_text[] =
    "WITH b AS (DELETE FROM mobula.bucket WHERE job = $1 RETURNING shard, upto, day, seq_min, seq_max, "
    "specs, "
    "finals, failed, others), "
    "f AS (DELETE FROM mobula.failure WHERE job = $1 RETURNING shard, upto, day), "
    "h AS (INSERT INTO mobula.hole (shard, upto, job, day, seq_min, seq_max) "
    "SELECT shard, upto, $1::bytea, day, min(seq_min), max(seq_max) FROM b WHERE day < 2000000 "
    "GROUP BY shard, upto, day ON CONFLICT DO NOTHING) "
    "INSERT INTO mobula.deleted AS d SELECT shard, upto, day, sum(buckets), sum(specs), sum(finals), "
    "sum(failed), sum(others), sum(failures) FROM ("
    "SELECT shard, upto, day, 1 AS buckets, specs, finals, failed, others, 0 AS failures FROM b WHERE day < "
    "2000000 UNION ALL SELECT shard, upto, day, 0, 0, 0, 0, 0, 1 FROM f) x GROUP BY shard, upto, day "
    "ON CONFLICT (shard, upto, day) DO UPDATE SET buckets = d.buckets + excluded.buckets, "
    "specs = d.specs + excluded.specs, finals = d.finals + excluded.finals, failed = d.failed + "
    "excluded.failed, others = d.others + excluded.others, failures = d.failures + excluded.failures";
_Static_assert(MOB_COLD_DAY_KEPT == 2000000, "as in the statements");

static enum mob_status delete_job(struct maintain *m, const struct mob_stream *job)
{
    static const char *const statements[] = {
        delete_text, /* first: what is gone is counted from what was there */
        "INSERT INTO mobula.job_gone_day SELECT job, day FROM mobula.job_day WHERE job = $1 ON CONFLICT DO "
        "NOTHING",
        "DELETE FROM mobula.job_day WHERE job = $1",
        "INSERT INTO mobula.job_gone (job) VALUES ($1) ON CONFLICT DO NOTHING"};
    uint8_t key[sizeof MOB_GCS_KEY_FLUSH_GONE - 1 + sizeof *job];
    struct mob_database_param p;
    enum mob_status status = mob_database_run(m->db, "BEGIN");
    for (size_t i = 0; i < sizeof statements / sizeof statements[0] && status == MOB_OK; i++)
        status = mob_database_query(m->db, statements[i], mob_param_bytes(&p, job, sizeof *job), 1, NULL);
    if (status == MOB_OK)
        status = mob_database_run(m->db, "COMMIT");
    if (status != MOB_OK) {
        mob_database_rollback(m->db);
        return status;
    }
    memcpy(key, MOB_GCS_KEY_FLUSH_GONE, sizeof MOB_GCS_KEY_FLUSH_GONE - 1);
    memcpy(key + sizeof MOB_GCS_KEY_FLUSH_GONE - 1, job, sizeof *job);
    struct mob_gcs_put row = {
        .table = MOB_GCS_KV, .key = key, .key_length = sizeof key, .if_version = MOB_GCS_ANY_VERSION};
    struct mob_gcs_call *call = mob_gcs_call_create();
    status = mob_gcs_delete(m->gcs, &row, mob_gcs_call_done, call);
    status = mob_gcs_call_wait(m->gcs, call, status, mob_now() + ANSWER_NS, NULL);
    return status == MOB_NOT_FOUND ? MOB_OK : status;
}

static enum mob_status delete_jobs(struct maintain *m, uint32_t *count_out)
{
    enum mob_status status = mob_gcs_each_row_wait(m->gcs, MOB_GCS_KV, mob_now() + ANSWER_NS, on_kv, m);
    status = status == MOB_OK ? m->gone.status : status;
    for (size_t i = 0; i < m->gone.count && status == MOB_OK; i++) {
        status = delete_job(m, &m->gone.rows[i]);
        *count_out += status == MOB_OK;
    }
    return status;
}

/* From now on those rows are read. */
static enum mob_status say_present(struct maintain *m)
{
    struct mob_gcs_put put = {.table = MOB_GCS_KV,
        .key = MOB_GCS_KEY_FLUSH_PRESENT,
        .key_length = sizeof MOB_GCS_KEY_FLUSH_PRESENT - 1,
        .value = "1",
        .value_length = 1};
    enum mob_status status = mob_gcs_put_wait(m->gcs, &put, mob_now() + ANSWER_NS, NULL);
    return status == MOB_CONFLICT ? MOB_OK : status; /* it was said before */
}

/* ---- what is needed ---- */

static void on_job(void *arg, const struct mob_gcs_kv *kv)
{
    struct maintain *m = arg;
    json_t *row = json_loadb((const char *)kv->value, kv->value_length, 0, NULL);
    const char *state = "";
    int standing = 0;
    json_int_t ended_us = 0;
    int64_t since_us = m->options->now_wall_ns / 1000 - m->options->retention_s * 1000000;
    bool read = row != NULL &&
        json_unpack(row, "{s:s,s:b,s:I}", "state", &state, "standing", &standing, "ended_us", &ended_us) == 0;
    bool over = read && (standing || (strcmp(state, "ended") == 0 && ended_us < since_us));
    if (kv->key_length == sizeof(struct mob_job_id) && !over)
        add(&m->jobs, kv->key);
    json_decref(row);
}

static void add_unfinished(struct maintain *m, const struct mob_gcs_answer *a)
{
    static _Thread_local struct mob_zone_map zone;
    struct mob_block_header header;
    for (uint32_t i = 0; i < a->block_count; i++) {
        if (mob_block_peek(a->blocks[i].bytes, a->blocks[i].length, &header, &zone) != MOB_OK)
            continue;
        for (uint32_t g = 0; g < zone.group_count; g++)
            add(&m->kept, &zone.groups[g].stream);
    }
    for (uint32_t i = 0; i < a->group_count; i++)
        add(&m->kept, &a->groups[i].stream);
}

static enum mob_status read_unfinished(struct maintain *m)
{
    uint64_t position = 0;
    enum mob_status status;
    do {
        struct mob_gcs_call *call = mob_gcs_call_create();
        struct mob_gcs_result *result = NULL;
        status = mob_gcs_unfinished(m->gcs, 0, position, mob_gcs_call_done, call);
        status = mob_gcs_call_wait(m->gcs, call, status, mob_now() + ANSWER_NS, &result);
        position = 0;
        if (status == MOB_OK) {
            add_unfinished(m, mob_gcs_result_answer(result));
            position = mob_gcs_result_answer(result)->next;
        }
        mob_gcs_result_destroy(result);
    } while (position != 0 && status == MOB_OK);
    return status == MOB_NOT_FOUND ? MOB_OK : status;
}

static enum mob_status read_needed(struct maintain *m)
{
    int64_t deadline = mob_now() + ANSWER_NS;
    enum mob_status status = mob_gcs_each_row_wait(m->gcs, MOB_GCS_JOBS, deadline, on_job, m);
    if (status == MOB_OK)
        status = kept_read_needs(m->gcs, &m->needs);
    if (status == MOB_OK)
        status = read_unfinished(m);
    return status != MOB_OK ? status : m->jobs.status != MOB_OK ? m->jobs.status : m->kept.status;
}

/* ---- days ---- */

static enum mob_status copy_streams(struct maintain *m, const char *table, const struct streams *s)
{
    char sql[128];
    snprintf(sql, sizeof sql, "CREATE TEMP TABLE %s (stream bytea) ON COMMIT DROP", table);
    enum mob_status status = mob_database_run(m->db, sql);
    snprintf(sql, sizeof sql, "COPY %s FROM STDIN (FORMAT binary)", table);
    if (status == MOB_OK)
        status = mob_copy_begin(m->db, sql);
    if (status != MOB_OK)
        return status;
    for (size_t i = 0; i < s->count; i++) {
        mob_copy_row(m->db, 1);
        mob_copy_bytes(m->db, &s->rows[i], sizeof s->rows[i]);
    }
    return mob_copy_end(m->db);
}

/* Days before `first_kept` that have a partition; all of them, or those that nobody needs (in a transaction
 * with the two tables). */
static enum mob_status list_days(
    struct maintain *m, int32_t first_kept, bool unneeded, int32_t days[DAYS_MAX], int *count_out)
{
    static const char all[] =
        "SELECT day FROM (SELECT replace(substring(c.relname FROM 'bucket_d(m?[0-9]+)$'), 'm', '-')::integer "
        "AS day FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid WHERE i.inhparent = "
        "'mobula.bucket'::regclass) d WHERE day < $1 ORDER BY day LIMIT 512";
    static const char only[] =
        "SELECT day FROM (SELECT replace(substring(c.relname FROM 'bucket_d(m?[0-9]+)$'), 'm', '-')::integer "
        "AS day FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid WHERE i.inhparent = "
        "'mobula.bucket'::regclass) d WHERE day < $1 "
        "AND NOT EXISTS (SELECT FROM mobula.job_day j JOIN job_kept k ON k.stream = j.job WHERE j.day = "
        "d.day) "
        "AND NOT EXISTS (SELECT FROM mobula.stream_day s JOIN stream_kept k ON k.stream = s.stream WHERE "
        "s.day = d.day) ORDER BY day LIMIT 512";
    struct mob_database_param p;
    struct mob_database_result *rows = NULL;
    enum mob_status status =
        mob_database_query_once(m->db, unneeded ? only : all, mob_param_i32(&p, first_kept), 1, &rows);
    *count_out = status == MOB_OK ? mob_database_rows(rows) : 0;
    for (int i = 0; i < *count_out && i < DAYS_MAX; i++)
        days[i] = (int32_t)mob_database_number(rows, i, 0);
    mob_database_result_destroy(rows);
    return status;
}

/* Batches that lie on other days as well note what they lose with this one. */
static enum mob_status note_day(struct maintain *m, int32_t day)
{
    static const char sql[] =
        "INSERT INTO mobula.deleted AS d SELECT shard, upto, $1::integer, sum(x.buckets), sum(x.specs), "
        "sum(x.finals), sum(x.failed), sum(x.others), sum(x.failures) FROM ("
        "SELECT shard, upto, 1 AS buckets, specs, finals, failed, others, 0 AS failures FROM mobula.bucket "
        "WHERE day = $1 UNION ALL SELECT shard, upto, 0, 0, 0, 0, 0, 1 FROM mobula.failure WHERE day = $1) x "
        "JOIN mobula.batch t USING (shard, upto) WHERE t.day_min < t.day_max GROUP BY shard, upto "
        "ON CONFLICT (shard, upto, day) DO UPDATE SET buckets = d.buckets + excluded.buckets, "
        "specs = d.specs + excluded.specs, finals = d.finals + excluded.finals, failed = d.failed + "
        "excluded.failed, others = d.others + excluded.others, failures = d.failures + excluded.failures";
    struct mob_database_param p;
    return mob_database_query(m->db, sql, mob_param_i32(&p, day), 1, NULL);
}

static enum mob_status drop_day(struct maintain *m, int32_t day)
{
    static const char *const parents[] = {"bucket", "stream_day", "failure"};
    char sql[512], table[MOB_COLD_TABLE_MAX];
    size_t n = 0;
    for (size_t i = 0; i < 3; i++)
        n += (size_t)snprintf(
            sql + n, sizeof sql - n, "DROP TABLE mobula.%s; ", mob_cold_table(table, parents[i], day));
    snprintf(sql + n, sizeof sql - n,
        "DELETE FROM mobula.job_day WHERE day = %" PRId32 "; DELETE FROM mobula.job_gone_day WHERE day = "
        "%" PRId32 "; DELETE FROM mobula.hole WHERE day = %" PRId32,
        day, day, day);
    MOB_LOG_INFO("flush", "day_dropped", "day=%" PRId32, day);
    return mob_database_run(m->db, sql);
}

/* Deleted jobs of which nothing can be in any row any more. Not at once: a batch that is being written may
 * still have some of theirs. */
static enum mob_status forget_jobs(struct maintain *m)
{
    return mob_database_run(m->db,
        "DELETE FROM mobula.job_gone g WHERE gone_at < now() - interval '1 day' "
        "AND NOT EXISTS (SELECT FROM mobula.job_gone_day d WHERE d.job = g.job) "
        "AND NOT EXISTS (SELECT FROM mobula.job_day d WHERE d.job = g.job) "
        "AND NOT EXISTS (SELECT FROM mobula.job_copied c WHERE c.job = g.job)");
}

/* What other shards need of a day is not known to a flusher that knows of no others. */
static enum mob_status others_flush(struct maintain *m, bool *out)
{
    static const char sql[] = "SELECT count(*) FROM mobula.watermark WHERE shard <> $1";
    struct mob_database_param p;
    struct mob_database_result *rows = NULL;
    enum mob_status status =
        mob_database_query(m->db, sql, mob_param_i32(&p, (int32_t)m->options->shard), 1, &rows);
    *out = status != MOB_OK || mob_database_number(rows, 0, 0) > 0;
    mob_database_result_destroy(rows);
    return status;
}

/* In a transaction. Everything is copied before the first table goes, which keeps readers out. */
static enum mob_status keep_and_drop(struct maintain *m, int32_t first_kept, int *count_out)
{
    int32_t days[DAYS_MAX];
    enum mob_status status = copy_streams(m, "job_kept", &m->jobs);
    if (status == MOB_OK)
        status = copy_streams(m, "stream_kept", &m->kept);
    if (status == MOB_OK)
        status = kept_begin(m->db, &m->needs);
    if (status == MOB_OK)
        status = list_days(m, first_kept, true, days, count_out);
    for (int i = 0; i < *count_out && status == MOB_OK; i++)
        status = kept_copy_day(m->db, days[i]);
    for (int i = 0; i < *count_out && status == MOB_OK; i++)
        status = note_day(m, days[i]);
    for (int i = 0; i < *count_out && status == MOB_OK; i++)
        status = drop_day(m, days[i]);
    if (status == MOB_OK)
        status = kept_tidy(m->db);
    return status == MOB_OK ? forget_jobs(m) : status;
}

static enum mob_status drop_days(struct maintain *m, uint32_t *count_out)
{
    bool others, any = false;
    int32_t days[DAYS_MAX];
    int count = 0;
    int64_t kept_from_ns = m->options->now_wall_ns - m->options->retention_s * MOB_SEC;
    int32_t first_kept = (int32_t)(kept_from_ns / DAY_NS);
    enum mob_status status = others_flush(m, &others);
    if (status != MOB_OK || (others && m->options->all_shards == NULL))
        return status;
    status = list_days(m, first_kept, false, days, &count);
    if (status == MOB_OK && m->options->tidy)
        status = kept_any(m->db, &any);
    if (status != MOB_OK || (count == 0 && !any))
        return status;
    status = read_needed(m);
    if (status == MOB_OK)
        status = kept_make_tables(m->db);
    if (status == MOB_OK)
        status = mob_database_run(m->db, "BEGIN");
    if (status == MOB_OK)
        status = keep_and_drop(m, first_kept, &count);
    if (status == MOB_OK)
        status = mob_database_run(m->db, "COMMIT");
    if (status != MOB_OK)
        mob_database_rollback(m->db);
    else
        *count_out = (uint32_t)count;
    return status;
}

enum mob_status mob_maintain(
    struct mob_database *db, const struct mob_maintain_options *options, struct mob_maintained *done_out)
{
    struct maintain m = {.options = options, .db = db};
    struct mob_gcs_options gcs = {.socket_path = options->gcs_socket,
        .cluster = options->cluster,
        .secret = options->secret,
        .shard = options->shard};
    *done_out = (struct mob_maintained){0};
    if (options->all_shards != NULL && options->shard != 0)
        return MOB_OK;
    if (options->all_shards != NULL)
        gcs.socket_path = options->all_shards;
    enum mob_status status = mob_gcs_create(&gcs, &m.gcs);
    if (status == MOB_OK)
        status = say_present(&m);
    if (status == MOB_OK)
        status = delete_jobs(&m, &done_out->jobs);
    if (status == MOB_OK)
        status = drop_days(&m, &done_out->days);
    /* The flusher lives on: a member that restarts would wait for a client of its that is there no more. */
    enum mob_status left = m.gcs == NULL ? MOB_OK : mob_gcs_leave_wait(m.gcs, mob_now() + LEAVE_NS);
    if (left != MOB_OK)
        MOB_LOG_INFO("flush", "client_left_behind", "status=%s", mob_status_code(left));
    mob_gcs_destroy(m.gcs);
    free(m.jobs.rows);
    free(m.kept.rows);
    free(m.gone.rows);
    kept_needs_fini(&m.needs);
    return status;
}
