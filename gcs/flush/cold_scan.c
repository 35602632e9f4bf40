/* Scans over flushed lineage: along the batches with the summaries of buckets as a sieve, and along the index
 * of failures. */
#include <stdlib.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "gcs/flush/cold_inner.h"

#define ROWS_AT_ONCE 8
#define DAY_US (86400ll * 1000000)

/* ---- what is common: days and times ---- */

struct bounds {
    int64_t from_us, to_us; /* [from, to] */
    int32_t day_min, day_max;
};

/* A block's entries lie within some seconds of when it was opened, and a day has room to spare. */
static int32_t day_near(int64_t us, int32_t margin)
{
    int64_t day = us / DAY_US + margin;
    return day < -1000000 ? -1000000 : day > 1000000 ? 1000000 : (int32_t)day;
}

static struct bounds bounds_of(const struct cold_wanted *w)
{
    bool any = w->from_wall_ns == 0 && w->to_wall_ns == 0;
    struct bounds b = {.from_us = any ? INT64_MIN : w->from_wall_ns / 1000,
        .to_us = any || w->to_wall_ns == INT64_MAX ? INT64_MAX : w->to_wall_ns / 1000,
        .day_min = -1000000,
        .day_max = 1000000};
    if (b.from_us != INT64_MIN)
        b.day_min = day_near(b.from_us, -1);
    if (b.to_us != INT64_MAX)
        b.day_max = day_near(b.to_us, 1);
    return b;
}

/* A job's days narrow them further; false: it has none. */
static enum mob_status narrow_by_job(
    struct mob_database *db, struct mob_job_id job, struct bounds *b, bool *any_out)
{
    static const char sql[] = "SELECT min(day), max(day) FROM mobula.job_day WHERE job = $1";
    struct mob_database_param p;
    struct mob_database_result *rows = NULL;
    enum mob_status status = mob_database_query(db, sql, mob_param_bytes(&p, &job, sizeof job), 1, &rows);
    *any_out = status == MOB_OK && mob_database_rows(rows) == 1 && !mob_database_null(rows, 0, 0);
    if (*any_out) {
        int32_t first = (int32_t)mob_database_number(rows, 0, 0),
                last = (int32_t)mob_database_number(rows, 0, 1);
        b->day_min = first > b->day_min ? first : b->day_min;
        b->day_max = last < b->day_max ? last : b->day_max;
    }
    mob_database_result_destroy(rows);
    return status;
}

/* ---- along the batches ---- */

#define SCAN_SELECT \
    "SELECT b.upto, b.row_number, b.payload FROM mobula.bucket b WHERE b.shard = $1 " \
    "AND b.upto <= $4 AND b.day >= $5 AND b.day <= $6 AND b.time_max_us >= $7 AND b.time_min_us <= $8 " \
    "AND ($9::bytea IS NULL OR b.job IS NULL OR b.job = $9) " \
    "AND ($10::bigint IS NULL OR mobula.filter_has(b.function_filter, $10, $11, true)) "
static const char scan_down[] = SCAN_SELECT
    "AND (b.upto, b.row_number) < ($2::bigint, $3::integer) ORDER BY b.upto DESC, b.row_number DESC LIMIT 8";
static const char scan_up[] = SCAN_SELECT
    "AND (b.upto, b.row_number) >= ($2::bigint, $3::integer) ORDER BY b.upto, b.row_number LIMIT 8";
_Static_assert(ROWS_AT_ONCE == 8, "as in the statements");

struct scan {
    struct mob_cold *c;
    struct mob_database *db;
    const struct cold_wanted *w;
    struct bounds bounds;
    bool down;
    int64_t batch; /* rows from here, or below here */
    int32_t row;
    int64_t last_batch;
};

static enum mob_status scan_rows(const struct scan *s, struct mob_database_result **rows_out)
{
    struct mob_database_param p[11];
    const struct cold_wanted *w = s->w;
    struct mob_bloom_hash hash = mob_bucket_function_hash(w->function);
    mob_param_i32(&p[0], s->c->shard);
    mob_param_i64(&p[1], s->batch);
    mob_param_i32(&p[2], s->row);
    mob_param_i64(&p[3], s->last_batch);
    mob_param_i32(&p[4], s->bounds.day_min);
    mob_param_i32(&p[5], s->bounds.day_max);
    mob_param_i64(&p[6], s->bounds.from_us);
    mob_param_i64(&p[7], s->bounds.to_us);
    if (w->by_job)
        mob_param_bytes(&p[8], &w->job, sizeof w->job);
    else
        mob_param_null(&p[8]);
    if (w->by_function)
        mob_param_i64(&p[9], hash.a);
    else
        mob_param_null(&p[9]);
    mob_param_i64(&p[10], hash.b);
    return mob_database_query(s->db, s->down ? scan_down : scan_up, p, 11, rows_out);
}

enum mob_status cold_read_scan(struct mob_cold *c, struct mob_database *db, const struct mob_gcs_cold_get *q,
    const struct cold_wanted *w, struct cold_place place, uint64_t *next_out)
{
    int64_t deadline = mob_now() + COLD_SCAN_NS;
    struct scan s = {.c = c, .db = db, .w = w, .bounds = bounds_of(w), .down = q->get.newest_first != 0};
    bool any = true, more = true;
    enum mob_status status = w->by_job ? narrow_by_job(db, w->job, &s.bounds, &any) : MOB_OK;
    *next_out = 0;
    if (status == MOB_OK && any)
        status = cold_place(c, db, s.down, &place);
    if (status != MOB_OK || !any)
        return status;
    s.batch = place.batch;
    s.row = (int32_t)place.row;
    s.last_batch = place.last_batch;
    do { /* at least once: a page that ends by its deadline says from where to go on */
        struct mob_database_result *rows = NULL;
        int at = 0;
        status = scan_rows(&s, &rows);
        if (status == MOB_OK)
            status = cold_take_rows(c, rows, w, q->get.limit, &at);
        int count = status == MOB_OK ? mob_database_rows(rows) : 0;
        more = at < count || count == ROWS_AT_ONCE;
        if (at > 0) {
            s.batch = mob_database_number(rows, at - 1, 0);
            s.row = (int32_t)mob_database_number(rows, at - 1, 1);
            if (status == MOB_OK && more)
                status = cold_next(c, db, s.down, &place, s.batch, s.row, next_out);
            s.row += !s.down; /* oldest first begins at a row */
        }
        mob_database_result_destroy(rows);
        if (at == 0 && count > 0)
            break; /* the page was full before */
    } while (status == MOB_OK && more && !cold_page_full(c->page, q->get.limit) && mob_now() < deadline);
    if (!more)
        *next_out = 0;
    return status;
}

/* ---- along the failures. Their positions are times, with MOB_GCS_COLD_TIME_BIT: finished_us << 11 | how
 * many of that microsecond were given. The first page has a position of batches, which says up to where to
 * look. ---- */

#define TIE_BITS 11
#define TIE_MAX ((1u << TIE_BITS) - 1)
#define FAILURES_AT_ONCE 100

#define FAILURES(terms, order) \
    "SELECT f.finished_us, f.task, (SELECT b.payload FROM mobula.bucket b WHERE b.shard = f.shard " \
    "AND b.upto = f.upto AND b.row_number = f.row_number AND b.day = f.day) FROM (SELECT * FROM " \
    "mobula.failure " \
    "WHERE shard = $1 AND seq <= $2 AND day >= $3 AND day <= $4 AND finished_us >= $5 AND finished_us <= " \
    "$6 " terms "ORDER BY finished_us " order ", seq, task OFFSET $7 LIMIT 100) f"
/* by what it is asked: nothing, function, job, both; newest first, oldest first */
static const char *const failures_sql[4][2] = {
    {FAILURES("", "DESC"), FAILURES("", "")},
    {FAILURES("AND function = $8 ", "DESC"), FAILURES("AND function = $8 ", "")},
    {FAILURES("AND job = $8 ", "DESC"), FAILURES("AND job = $8 ", "")},
    {FAILURES("AND function = $8 AND job = $9 ", "DESC"), FAILURES("AND function = $8 AND job = $9 ", "")},
};
_Static_assert(FAILURES_AT_ONCE == 100, "as in the statements");

struct failure_place {
    int64_t time_us; /* from or up to here */
    uint32_t tie; /* so many of exactly that time were given */
};

static struct failure_place failure_place(const struct mob_gcs_get *g, const struct bounds *b)
{
    uint64_t p = g->position;
    if ((p & MOB_GCS_COLD_TIME_BIT) == 0)
        return (struct failure_place){g->newest_first ? b->to_us : b->from_us, 0};
    p &= ~(MOB_GCS_COLD_BIT | MOB_GCS_COLD_TIME_BIT);
    return (struct failure_place){(int64_t)(p >> TIE_BITS), (uint32_t)p & TIE_MAX};
}

static enum mob_status failure_rows(struct mob_cold *c, struct mob_database *db, const struct mob_gcs_get *g,
    const struct cold_wanted *w, const struct bounds *b, const struct failure_place *place,
    struct mob_database_result **rows_out)
{
    struct mob_database_param p[9];
    int n = 7, kind = (w->by_function ? 1 : 0) + (w->by_job ? 2 : 0);
    mob_param_i32(&p[0], c->shard);
    mob_param_i64(&p[1], (int64_t)w->upto);
    mob_param_i32(&p[2], b->day_min);
    mob_param_i32(&p[3], b->day_max);
    mob_param_i64(&p[4], g->newest_first ? b->from_us : place->time_us);
    mob_param_i64(&p[5], g->newest_first ? place->time_us : b->to_us);
    mob_param_i64(&p[6], place->tie);
    if (w->by_function)
        mob_param_bytes(&p[n++], &w->function, sizeof w->function);
    if (w->by_job)
        mob_param_bytes(&p[n++], &w->job, sizeof w->job);
    return mob_database_query(db, failures_sql[kind][g->newest_first ? 0 : 1], p, n, rows_out);
}

static bool task_of_row(const struct mob_database_result *rows, int row, struct mob_task_id *out)
{
    size_t length;
    const uint8_t *key = mob_database_bytes(rows, row, 1, &length);
    if (length != sizeof(struct mob_bucket_key))
        return false;
    memcpy(&out->stream, key, sizeof out->stream);
    out->index = (uint32_t)key[12] << 24 | (uint32_t)key[13] << 16 | (uint32_t)key[14] << 8 | key[15];
    return true;
}

/* All entries of one task: mostly its spec lies beside its completion, else the group is read. */
static enum mob_status add_task(struct mob_cold *c, struct mob_database *db, const struct cold_wanted *w,
    const struct mob_database_result *rows, int row)
{
    struct cold_wanted one = {.upto = w->upto, .by_task = true, .gone = w->gone, .gone_arg = w->gone_arg};
    size_t length, used = c->page->used;
    uint32_t count = c->page->count;
    uint64_t next;
    if (mob_database_null(rows, row, 2) || !task_of_row(rows, row, &one.task))
        return MOB_OK; /* its day or its job went meanwhile */
    const uint8_t *payload = mob_database_bytes(rows, row, 2, &length);
    enum mob_status status = cold_page_add(c->page, payload, length, &one);
    if (status != MOB_OK || c->page->has_spec || c->page->count == count)
        return status;
    c->page->count = count;
    c->page->used = used;
    one.by_group = true;
    one.stream = one.task.stream;
    one.group = one.task.index >> MOB_GROUP_SHIFT;
    return cold_read_group(c, db, &one, (struct cold_place){.upto = w->upto}, &next);
}

static uint64_t position_behind(
    const struct mob_database_result *rows, int taken, const struct failure_place *from)
{
    int64_t time = mob_database_number(rows, taken - 1, 0);
    uint32_t tie = time == from->time_us ? from->tie : 0;
    for (int i = taken; i-- > 0 && mob_database_number(rows, i, 0) == time;)
        tie++;
    return MOB_GCS_COLD_BIT | MOB_GCS_COLD_TIME_BIT | (uint64_t)time << TIE_BITS |
        (tie < TIE_MAX ? tie : TIE_MAX);
}

enum mob_status cold_read_failures(struct mob_cold *c, struct mob_database *db,
    const struct mob_gcs_cold_get *q, const struct cold_wanted *w, uint64_t *next_out)
{
    struct bounds b = bounds_of(w);
    bool any = true;
    enum mob_status status = w->by_job ? narrow_by_job(db, w->job, &b, &any) : MOB_OK;
    struct failure_place place = failure_place(&q->get, &b);
    struct mob_database_result *rows = NULL;
    *next_out = 0;
    if (status != MOB_OK || !any)
        return status;
    status = failure_rows(c, db, &q->get, w, &b, &place, &rows);
    int count = status == MOB_OK ? mob_database_rows(rows) : 0, at = 0;
    for (; at < count && status == MOB_OK && !cold_page_full(c->page, q->get.limit); at++)
        status = add_task(c, db, w, rows, at);
    if (status == MOB_QUEUE_FULL && at > 1) { /* the last one did not fit any more */
        status = MOB_OK;
        at--;
    }
    if (status == MOB_OK && at > 0 && (at < count || count == FAILURES_AT_ONCE))
        *next_out = position_behind(rows, at, &place);
    mob_database_result_destroy(rows);
    return status;
}
