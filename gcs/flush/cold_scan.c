/* Scans over flushed lineage, along the batches with the summaries of buckets as a sieve. */
#include <stdlib.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "gcs/flush/cold_inner.h"

#define ROWS_AT_ONCE 8
#define DAY_US (86400ll * 1000000)

/* ---- what is common: days and times ---- */

/* A block's entries lie within some seconds of when it was opened, and a day has room to spare. */
static int32_t day_near(int64_t us, int32_t margin)
{
    int64_t day = us / DAY_US + margin;
    return day < -1000000 ? -1000000 : day > 1000000 ? 1000000 : (int32_t)day;
}

struct cold_bounds cold_bounds_of(const struct cold_wanted *w)
{
    bool any = w->from_wall_ns == 0 && w->to_wall_ns == 0;
    struct cold_bounds b = {.from_us = any ? INT64_MIN : w->from_wall_ns / 1000,
        .to_us = any || w->to_wall_ns == INT64_MAX ? INT64_MAX : w->to_wall_ns / 1000,
        .day_min = -1000000,
        .day_max = 1000000};
    if (b.from_us != INT64_MIN)
        b.day_min = day_near(b.from_us, -1);
    if (b.to_us != INT64_MAX)
        b.day_max = day_near(b.to_us, 1);
    return b;
}

enum mob_status cold_narrow_by_job(
    struct mob_database *db, struct mob_job_id job, struct cold_bounds *b, bool *any_out)
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
/* Of a batch the buckets with the newest times first, so that many jobs that were flushed together do not
 * come one after the other. */
static const char scan_down[] =
    SCAN_SELECT "AND b.upto <= $2::bigint AND (b.upto, b.time_max_us, b.row_number) < ($2::bigint, "
                "coalesce((SELECT o.time_max_us FROM mobula.bucket o WHERE o.shard = $1 AND o.upto = $2 AND "
                "o.row_number = $3 LIMIT 1), 9223372036854775807), $3::integer) "
                "ORDER BY b.upto DESC, b.time_max_us DESC, b.row_number DESC LIMIT 8";
static const char scan_up[] = SCAN_SELECT
    "AND (b.upto, b.row_number) >= ($2::bigint, $3::integer) ORDER BY b.upto, b.row_number LIMIT 8";
_Static_assert(ROWS_AT_ONCE == 8, "as in the statements");

struct scan {
    struct mob_cold *c;
    struct mob_database *db;
    const struct cold_wanted *w;
    struct cold_bounds bounds;
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
    struct scan s = {.c = c, .db = db, .w = w, .bounds = cold_bounds_of(w), .down = q->get.newest_first != 0};
    bool any = true, more = true;
    enum mob_status status = w->by_job ? cold_narrow_by_job(db, w->job, &s.bounds, &any) : MOB_OK;
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
