/* Tasks that failed, along their index. Positions are times, and how many of exactly that time were given.
 * The first page has a position of batches, which says up to where to look; the others may also give what was
 * flushed since.
 */
#include <stdlib.h>

#include "gcs/flush/cold_inner.h"

#define FAILURES_MAX 128 /* a page */

#define FAILURES(terms, order) \
    "SELECT finished_us, task, upto, row_number, day FROM mobula.failure " \
    "WHERE shard = $1 AND seq <= $2 AND day >= $3 AND day <= $4 AND finished_us >= $5 AND finished_us <= " \
    "$6 " terms "ORDER BY finished_us " order ", seq, task OFFSET $7 LIMIT $8"
/* by what it is asked: nothing, function, job, both; newest first, oldest first */
static const char *const failures_sql[4][2] = {
    {FAILURES("", "DESC"), FAILURES("", "")},
    {FAILURES("AND function = $9 ", "DESC"), FAILURES("AND function = $9 ", "")},
    {FAILURES("AND job = $9 ", "DESC"), FAILURES("AND job = $9 ", "")},
    {FAILURES("AND function = $9 AND job = $10 ", "DESC"), FAILURES("AND function = $9 AND job = $10 ", "")},
};

struct failure_place {
    int64_t time_us; /* from or up to here */
    uint32_t tie; /* so many of exactly that time were given */
};

static struct failure_place failure_place(const struct mob_gcs_get *g, const struct cold_bounds *b)
{
    uint64_t p = g->position;
    if ((p & MOB_GCS_COLD_TIME_BIT) == 0)
        return (struct failure_place){g->newest_first ? b->to_us : b->from_us, 0};
    p &= ~(MOB_GCS_COLD_BIT | MOB_GCS_COLD_TIME_BIT);
    return (struct failure_place){(int64_t)p, g->prefix_length};
}

static enum mob_status failure_rows(struct mob_cold *c, struct mob_database *db, const struct mob_gcs_get *g,
    const struct cold_wanted *w, const struct cold_bounds *b, const struct failure_place *place, int limit,
    struct mob_database_result **rows_out)
{
    struct mob_database_param p[10];
    int n = 8, kind = (w->by_function ? 1 : 0) + (w->by_job ? 2 : 0);
    mob_param_i32(&p[0], c->shard);
    mob_param_i64(&p[1], (int64_t)w->upto);
    mob_param_i32(&p[2], b->day_min);
    mob_param_i32(&p[3], b->day_max);
    mob_param_i64(&p[4], g->newest_first ? b->from_us : place->time_us);
    mob_param_i64(&p[5], g->newest_first ? place->time_us : b->to_us);
    mob_param_i64(&p[6], place->tie);
    mob_param_i64(&p[7], limit);
    if (w->by_function)
        mob_param_bytes(&p[n++], &w->function, sizeof w->function);
    if (w->by_job)
        mob_param_bytes(&p[n++], &w->job, sizeof w->job);
    return mob_database_query(db, failures_sql[kind][g->newest_first ? 0 : 1], p, n, rows_out);
}

/* ---- their entries: each bucket is read once ---- */

struct failed_task {
    int64_t upto; /* the bucket with its completion */
    int32_t row, day;
    struct mob_task_id id;
};

static bool task_of_row(const struct mob_database_result *rows, int row, struct failed_task *out)
{
    size_t length;
    const uint8_t *key = mob_database_bytes(rows, row, 1, &length);
    if (length != sizeof(struct mob_bucket_key))
        return false;
    memcpy(&out->id.stream, key, sizeof out->id.stream);
    out->id.index = (uint32_t)key[12] << 24 | (uint32_t)key[13] << 16 | (uint32_t)key[14] << 8 | key[15];
    out->upto = mob_database_number(rows, row, 2);
    out->row = (int32_t)mob_database_number(rows, row, 3);
    out->day = (int32_t)mob_database_number(rows, row, 4);
    return true;
}

static int by_bucket(const void *a, const void *b)
{
    const struct failed_task *x = a, *y = b;
    return x->upto != y->upto ? (x->upto > y->upto) - (x->upto < y->upto)
                              : (x->row > y->row) - (x->row < y->row);
}

static enum mob_status add_spec(
    struct mob_cold *c, struct mob_database *db, const struct cold_wanted *w, struct mob_task_id task)
{
    struct cold_task one = {.id = task};
    struct cold_wanted wanted = {.upto = w->upto,
        .by_group = true,
        .stream = task.stream,
        .group = task.index >> MOB_GROUP_SHIFT,
        .tasks = &one,
        .task_count = 1,
        .specs_only = true,
        .gone = w->gone,
        .gone_arg = w->gone_arg};
    uint64_t next;
    return cold_read_group(c, db, &wanted, (struct cold_place){.upto = w->upto}, &next);
}

/* The entries of tasks of one bucket. A bucket that is not there went meanwhile, with its day or its job. */
static enum mob_status add_bucket(struct mob_cold *c, struct mob_database *db, const struct cold_wanted *w,
    const struct failed_task *tasks, uint32_t count)
{
    static const char sql[] = "SELECT payload FROM mobula.bucket WHERE shard = $1 AND upto = $2 AND "
                              "row_number = $3 AND day = $4";
    struct cold_task some[FAILURES_MAX];
    struct cold_wanted wanted = {
        .upto = w->upto, .tasks = some, .task_count = count, .gone = w->gone, .gone_arg = w->gone_arg};
    struct mob_database_param p[4];
    struct mob_database_result *rows = NULL;
    for (uint32_t i = 0; i < count; i++)
        some[i] = (struct cold_task){.id = tasks[i].id};
    mob_param_i32(&p[0], c->shard);
    mob_param_i64(&p[1], tasks->upto);
    mob_param_i32(&p[2], tasks->row);
    mob_param_i32(&p[3], tasks->day);
    enum mob_status status = mob_database_query(db, sql, p, 4, &rows);
    bool there = status == MOB_OK && mob_database_rows(rows) == 1;
    if (there) {
        size_t length;
        const uint8_t *payload = mob_database_bytes(rows, 0, 0, &length);
        status = cold_page_add(c->page, payload, length, &wanted);
    }
    mob_database_result_destroy(rows);
    for (uint32_t i = 0; i < count && there && status == MOB_OK; i++)
        if (!some[i].has_spec)
            status = add_spec(c, db, w, some[i].id);
    return status;
}

/* The first `count` of the rows. */
static enum mob_status add_failures(struct mob_cold *c, struct mob_database *db, const struct cold_wanted *w,
    const struct mob_database_result *rows, int count)
{
    struct failed_task tasks[FAILURES_MAX];
    uint32_t n = 0;
    enum mob_status status = MOB_OK;
    for (int i = 0; i < count; i++)
        n += task_of_row(rows, i, &tasks[n]);
    qsort(tasks, n, sizeof *tasks, by_bucket);
    for (uint32_t from = 0, to; from < n && status == MOB_OK; from = to) {
        for (to = from + 1; to < n && by_bucket(&tasks[from], &tasks[to]) == 0;)
            to++;
        status = add_bucket(c, db, w, tasks + from, to - from);
    }
    return status;
}

static struct cold_behind place_behind(
    const struct mob_database_result *rows, int taken, const struct failure_place *from)
{
    int64_t time = mob_database_number(rows, taken - 1, 0);
    uint32_t tie = time == from->time_us ? from->tie : 0;
    for (int i = taken; i-- > 0 && mob_database_number(rows, i, 0) == time;)
        tie++;
    return (struct cold_behind){MOB_GCS_COLD_BIT | MOB_GCS_COLD_TIME_BIT | (uint64_t)time, tie};
}

enum mob_status cold_read_failures(struct mob_cold *c, struct mob_database *db,
    const struct mob_gcs_cold_get *q, const struct cold_wanted *w, struct cold_behind *next_out)
{
    struct cold_bounds b = cold_bounds_of(w);
    bool any = true;
    enum mob_status status = w->by_job ? cold_narrow_by_job(db, w->job, &b, &any) : MOB_OK;
    struct failure_place place = failure_place(&q->get, &b);
    struct mob_database_result *rows = NULL;
    *next_out = (struct cold_behind){0};
    if (status != MOB_OK || !any)
        return status;
    int limit = q->get.limit == 0 || q->get.limit > FAILURES_MAX ? FAILURES_MAX : (int)q->get.limit;
    status = failure_rows(c, db, &q->get, w, &b, &place, limit, &rows);
    int count = status == MOB_OK ? mob_database_rows(rows) : 0, taken = count;
    if (count > 0)
        status = add_failures(c, db, w, rows, taken);
    while (status == MOB_QUEUE_FULL && taken > 1) { /* fewer do fit */
        taken /= 2;
        cold_page_begin(c->page);
        status = add_failures(c, db, w, rows, taken);
    }
    if (status == MOB_OK && taken > 0 && (taken < count || count == limit))
        *next_out = place_behind(rows, taken, &place);
    mob_database_result_destroy(rows);
    return status;
}
