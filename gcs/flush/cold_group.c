/* Buckets of a group: the stream's days, then the ranges of ids of those days. A stream may have tasks on any
 * number of days, and its rows come in commit order whichever day they lie on; so a statement names some of
 * the days, and what all statements give is merged. */
#include <stdio.h>
#include <stdlib.h>

#include "gcs/flush/cold_inner.h"

#define COLUMNS "b.upto, b.row_number, b.payload"
#define ROWS_MAX 32 /* of one page */
#define TEXT(number) #number
#define LIMIT_OF(number) " ORDER BY 1, 2 LIMIT " TEXT(number)

/* What one statement gave, and how much of it was taken. */
struct part {
    struct mob_database_result *rows;
    int count, at;
};
struct parts {
    struct part *list;
    int count;
};

static void parts_fini(struct parts *p)
{
    for (int i = 0; i < p->count; i++)
        mob_database_result_destroy(p->list[i].rows);
    free(p->list);
}

/* One query over the partitions of `count` days, named: that is planned and locked in no time. `days`: rows
 * of one column, from `first` on. */
static enum mob_status rows_of_days(struct mob_cold *c, struct mob_database *db,
    const struct mob_database_result *days, int first, int count, const struct cold_wanted *w,
    const struct cold_place *place, struct mob_database_result **rows_out)
{
    char sql[COLD_DAYS_MAX * 320 + 200], table[MOB_COLD_TABLE_MAX];
    size_t n = 0;
    for (int i = first; i < first + count; i++)
        n += (size_t)snprintf(sql + n, sizeof sql - n,
            "%sSELECT " COLUMNS " FROM mobula.%s b WHERE b.shard = $1 AND b.ids @> $2::bytea "
            "AND (b.upto, b.row_number) >= ($3::bigint, $4::integer) AND b.upto <= $5 "
            "AND mobula.filter_has(b.group_filter, $6, $7, false)",
            i > first ? " UNION ALL " : "",
            mob_cold_table(table, "bucket", (int32_t)mob_database_number(days, i, 0)));
    snprintf(sql + n, sizeof sql - n, "%s", LIMIT_OF(ROWS_MAX));
    struct mob_bucket_key key = mob_bucket_key(w->stream, w->group << MOB_GROUP_SHIFT);
    struct mob_bloom_hash hash = mob_bucket_group_hash(w->stream, w->group);
    struct mob_database_param p[7];
    mob_param_i32(&p[0], c->shard);
    mob_param_bytes(&p[1], &key, sizeof key);
    mob_param_i64(&p[2], place->batch);
    mob_param_i32(&p[3], (int32_t)place->row);
    mob_param_i64(&p[4], place->last_batch);
    mob_param_i64(&p[5], hash.a);
    mob_param_i64(&p[6], hash.b);
    return mob_database_query_once(db, sql, p, 7, rows_out);
}

static enum mob_status ask_all(struct mob_cold *c, struct mob_database *db,
    const struct mob_database_result *days, const struct cold_wanted *w, const struct cold_place *place,
    struct parts *out)
{
    int count = mob_database_rows(days);
    enum mob_status status = MOB_OK;
    out->list = calloc((size_t)(count / COLD_DAYS_MAX + 1), sizeof *out->list);
    if (out->list == NULL)
        return MOB_NO_MEMORY;
    for (int first = 0; first < count && status == MOB_OK; first += COLD_DAYS_MAX) {
        struct part *part = &out->list[out->count];
        int some = count - first < COLD_DAYS_MAX ? count - first : COLD_DAYS_MAX;
        status = rows_of_days(c, db, days, first, some, w, place, &part->rows);
        if (status == MOB_OK) {
            part->count = mob_database_rows(part->rows);
            out->count++;
        }
    }
    return status;
}

static bool before(const struct part *a, const struct part *b)
{
    int64_t x = mob_database_number(a->rows, a->at, 0), y = mob_database_number(b->rows, b->at, 0);
    return x != y ? x < y : mob_database_number(a->rows, a->at, 1) < mob_database_number(b->rows, b->at, 1);
}

/* The one whose next row is the first in commit order; NULL: none has any more. */
static struct part *next_part(struct parts *p)
{
    struct part *first = NULL;
    for (int i = 0; i < p->count; i++) {
        struct part *part = &p->list[i];
        if (part->at < part->count && (first == NULL || before(part, first)))
            first = part;
    }
    return first;
}

/* As many as one page takes. A statement that gave all that it may has perhaps more, and none of that comes
 * before its last row: so no more are taken than one statement gives. */
static enum mob_status merge(struct mob_cold *c, struct mob_database *db, const struct cold_wanted *w,
    const struct cold_place *place, struct parts *p, uint64_t *next_out)
{
    int64_t batch = 0;
    int32_t row = 0;
    int taken = 0;
    struct part *part;
    enum mob_status status = MOB_OK;
    while (taken < ROWS_MAX && !cold_page_full(c->page, 0) && (part = next_part(p)) != NULL) {
        status = cold_take_row(c, part->rows, part->at, w);
        if (status != MOB_OK)
            break;
        batch = mob_database_number(part->rows, part->at, 0);
        row = (int32_t)mob_database_number(part->rows, part->at++, 1);
        taken++;
    }
    if (status != MOB_OK && status != MOB_QUEUE_FULL)
        return status;
    bool more = taken == ROWS_MAX || next_part(p) != NULL;
    return taken > 0 && more ? cold_next(c, db, false, place, batch, row, next_out) : MOB_OK;
}

enum mob_status cold_read_group(struct mob_cold *c, struct mob_database *db, const struct cold_wanted *w,
    struct cold_place place, uint64_t *next_out)
{
    static const char sql[] = "SELECT DISTINCT day FROM mobula.stream_day WHERE stream = $1 ORDER BY day";
    struct mob_database_param p;
    struct mob_database_result *days = NULL;
    struct parts parts = {0};
    *next_out = 0;
    enum mob_status status =
        mob_database_query(db, sql, mob_param_bytes(&p, &w->stream, sizeof w->stream), 1, &days);
    bool any = status == MOB_OK && mob_database_rows(days) > 0;
    if (any)
        status = cold_place(c, db, false, &place);
    if (any && status == MOB_OK && place.batch <= place.last_batch) {
        status = ask_all(c, db, days, w, &place, &parts);
        if (status == MOB_OK)
            status = merge(c, db, w, &place, &parts, next_out);
    }
    parts_fini(&parts);
    mob_database_result_destroy(days);
    return status;
}
