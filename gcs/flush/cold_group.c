/* Buckets of a group, or of several: the stream's days, then the ranges of ids of those days. A stream may
 * have tasks on any number of days, and its rows come in commit order whichever day they lie on; so a
 * statement names some of the days, and what all statements give is merged. */
#include <endian.h>
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

/* ---- the statements: over the partitions of `count` days, named, which is planned and locked in no time.
 * `days`: rows of one column, from `first` on ---- */

#define IN_PLACE "AND (b.upto, b.row_number) >= ($3::bigint, $4::integer) AND b.upto <= $5 "

static enum mob_status rows_of_days(struct mob_cold *c, struct mob_database *db,
    const struct mob_database_result *days, int first, int count, const struct cold_wanted *w,
    const struct cold_place *place, struct mob_database_result **rows_out)
{
    char sql[COLD_DAYS_MAX * 320 + 200], table[MOB_COLD_TABLE_MAX];
    size_t n = 0;
    for (int i = first; i < first + count; i++)
        n += (size_t)snprintf(sql + n, sizeof sql - n,
            "%sSELECT " COLUMNS " FROM mobula.%s b WHERE b.shard = $1 AND b.ids @> $2::bytea " IN_PLACE
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

/* Groups as a parameter: for each its stream, its first key, and its filter's hashes, big-endian. */
struct group_param {
    struct mob_stream stream;
    struct mob_bucket_key key;
    uint64_t a, b;
} __attribute__((packed));
_Static_assert(sizeof(struct group_param) == 44, "as in the statements");
#define GROUPS_AS_ROWS(bytes, count) \
    "(SELECT substring(" bytes "::bytea FROM 1 + 44 * i FOR 12) AS stream, substring(" bytes \
    "::bytea FROM 13 + 44 * i FOR 16) AS key, " GROUP_HASH(bytes, "29") " AS a, " GROUP_HASH( \
        bytes, "37") " AS b FROM generate_series(0, " count "::integer - 1) i)"
#define GROUP_HASH(bytes, at) \
    "('x' || encode(substring(" bytes "::bytea FROM " at " + 44 * i FOR 8), 'hex'))::bit(64)::bigint"

static void group_params(const struct cold_wanted *w, struct group_param out[static MOB_GCS_GROUPS_MAX])
{
    for (uint32_t i = 0; i < w->group_count; i++) {
        const struct mob_gcs_group_key *g = &w->groups[i];
        struct mob_bloom_hash hash = mob_bucket_group_hash(g->stream, g->group);
        out[i] = (struct group_param){.stream = g->stream,
            .key = mob_bucket_key(g->stream, g->group << MOB_GROUP_SHIFT),
            .a = htobe64((uint64_t)hash.a),
            .b = htobe64((uint64_t)hash.b)};
    }
}

/* Each bucket once, whatever of the groups it has; found group by group through the index of ids. */
static enum mob_status rows_of_groups(struct mob_cold *c, struct mob_database *db,
    const struct mob_database_result *days, int first, int count, const struct cold_wanted *w,
    const struct cold_place *place, struct mob_database_result **rows_out)
{
    char sql[COLD_DAYS_MAX * 400 + 1000], bucket[MOB_COLD_TABLE_MAX], stream[MOB_COLD_TABLE_MAX];
    size_t n = (size_t)snprintf(sql, sizeof sql,
        "WITH k AS MATERIALIZED " GROUPS_AS_ROWS("$2", "$6") " SELECT DISTINCT ON (1, 2) * FROM (");
    for (int i = first; i < first + count; i++) {
        int32_t day = (int32_t)mob_database_number(days, i, 0);
        n += (size_t)snprintf(sql + n, sizeof sql - n,
            "%sSELECT " COLUMNS " FROM k JOIN mobula.%s s ON s.stream = k.stream JOIN mobula.%s b "
            "ON b.ids @> k.key WHERE b.shard = $1 " IN_PLACE
            "AND mobula.filter_has(b.group_filter, k.a, k.b, false)",
            i > first ? " UNION ALL " : "", mob_cold_table(stream, "stream_day", day),
            mob_cold_table(bucket, "bucket", day));
    }
    snprintf(sql + n, sizeof sql - n, ") all_of_them%s", LIMIT_OF(ROWS_MAX));
    struct group_param groups[MOB_GCS_GROUPS_MAX];
    struct mob_database_param p[6];
    group_params(w, groups);
    mob_param_i32(&p[0], c->shard);
    mob_param_bytes(&p[1], groups, w->group_count * sizeof groups[0]);
    mob_param_i64(&p[2], place->batch);
    mob_param_i32(&p[3], (int32_t)place->row);
    mob_param_i64(&p[4], place->last_batch);
    mob_param_i32(&p[5], (int32_t)w->group_count);
    return mob_database_query_once(db, sql, p, 6, rows_out);
}

static enum mob_status days_of(
    struct mob_database *db, const struct cold_wanted *w, struct mob_database_result **days_out)
{
    static const char one[] = "SELECT DISTINCT day FROM mobula.stream_day WHERE stream = $1 ORDER BY day";
    static const char several[] = "SELECT DISTINCT s.day FROM " GROUPS_AS_ROWS(
        "$1", "$2") " k JOIN mobula.stream_day s ON s.stream = k.stream ORDER BY s.day";
    struct group_param groups[MOB_GCS_GROUPS_MAX];
    struct mob_database_param p[2];
    if (w->group_count == 0)
        return mob_database_query(db, one, mob_param_bytes(p, &w->stream, sizeof w->stream), 1, days_out);
    group_params(w, groups);
    mob_param_bytes(&p[0], groups, w->group_count * sizeof groups[0]);
    mob_param_i32(&p[1], (int32_t)w->group_count);
    return mob_database_query(db, several, p, 2, days_out);
}

/* ---- what they give ---- */

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
        status = w->group_count == 0 ? rows_of_days(c, db, days, first, some, w, place, &part->rows)
                                     : rows_of_groups(c, db, days, first, some, w, place, &part->rows);
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
    struct mob_database_result *days = NULL;
    struct parts parts = {0};
    *next_out = 0;
    enum mob_status status = days_of(db, w, &days);
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
