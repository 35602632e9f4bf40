/* PostgreSQL: every batch against its own rows (each entry of each block that it took in once, what the rows
 * and the batch say of themselves, failures, streams). What a batch says it took in is there, or it is noted
 * as deleted (mobula.deleted), to the entry. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/gcs_verify.h"
#include "common/base/array.h"
#include "common/base/hash.h"
#include "common/wire/bucket.h"
#include "gcs/flush/cold.h"

struct place {
    uint64_t seq;
    uint32_t ordinal;
};
struct stream_day {
    struct mob_stream stream;
    int32_t day;
};
struct batch {
    int64_t after, upto;
    uint64_t blocks, buckets;
    struct verify_sums says;
    int32_t day_min, day_max;
};
/* What was deleted of a batch. */
struct deleted {
    uint64_t buckets, failures;
    struct verify_sums sums;
};
struct database {
    struct verify *v;
    struct mob_job_id *gone; /* jobs that were deleted; sorted */
    size_t gone_count;
    bool naming; /* else what is wrong is only counted */
    struct mob_bucket_reader *reader;
    struct mob_bucket_origin *origins; /* MOB_BLOCK_ENTRIES_MAX */
    struct place *places; /* of the batch in hand */
    size_t place_count, place_capacity;
    struct stream_day *streams;
    size_t stream_count, stream_capacity;
    struct verify_sums visible; /* of the batch in hand: what is to be given of it */
    uint64_t batches, rows, wrong, named;
    bool no_memory;
};

static void name(struct database *d, const struct batch *batch, const char *what, int64_t row)
{
    d->wrong++;
    if (!d->naming || d->named++ >= VERIFY_NAMED_MAX)
        return;
    if (row >= 0)
        cli_say("PostgreSQL, batch %" PRId64 " row %" PRId64 ": %s", batch->upto, row, what);
    else
        cli_say("PostgreSQL, batch %" PRId64 ": %s", batch->upto, what);
}

/* ---- a row ---- */

static void note_streams(struct database *d, const struct mob_zone_map *zone, int32_t day)
{
    if (!mob_array_room((void **)&d->streams, d->stream_count + zone->group_count, &d->stream_capacity,
            sizeof *d->streams)) {
        d->no_memory = true;
        return;
    }
    for (uint32_t i = 0; i < zone->group_count; i++) {
        const struct mob_zone_group *g = &zone->groups[i];
        bool last = d->stream_count > 0 && d->streams[d->stream_count - 1].day == day &&
            mob_stream_eq(d->streams[d->stream_count - 1].stream, g->stream);
        if (!last)
            d->streams[d->stream_count++] = (struct stream_day){g->stream, day};
    }
}

static int by_bytes(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(struct mob_job_id));
}

/* In rows that it shares, which stay. */
static bool was_deleted(const struct database *d, struct mob_job_id job)
{
    return d->gone_count > 0 && bsearch(&job, d->gone, d->gone_count, sizeof job, by_bytes) != NULL;
}

static enum mob_status read_block(
    struct database *d, const struct mob_bucket_block *b, int32_t day, struct verify_sums *sums)
{
    static struct mob_zone_map zone; /* too large for the stack */
    static struct mob_entry entry;
    struct mob_block_header h;
    enum mob_status status = mob_block_open(d->v->decoder, b->bytes, b->length, &h, &zone);
    if (status == MOB_OK)
        status = mob_bucket_origins(b, d->origins, h.entry_count);
    if (status == MOB_OK &&
        !mob_array_room(
            (void **)&d->places, d->place_count + h.entry_count, &d->place_capacity, sizeof *d->places))
        status = MOB_NO_MEMORY;
    if (status != MOB_OK)
        return status;
    for (uint32_t i = 0; i < h.entry_count; i++)
        d->places[d->place_count++] = (struct place){d->origins[i].seq, d->origins[i].ordinal};
    note_streams(d, &zone, day);
    bool deleted = was_deleted(d, h.job);
    while ((status = mob_block_next(d->v->decoder, &entry)) == MOB_OK) {
        verify_add_entry(sums, &entry);
        if (!deleted)
            verify_add_entry(&d->visible, &entry);
    }
    return status == MOB_CLOSED ? MOB_OK : status;
}

static void add_sums(struct verify_sums *to, const struct verify_sums *s)
{
    to->specs += s->specs;
    to->finals += s->finals;
    to->failed += s->failed;
    to->others += s->others;
}

/* Columns: row_number, day, specs, finals, failed, others, payload. */
static void read_row(struct database *d, const struct batch *batch, const struct mob_database_result *rows,
    int at, struct verify_sums *of_batch)
{
    size_t length;
    uint32_t blocks;
    struct mob_bucket_block b;
    struct verify_sums sums = {0};
    const uint8_t *payload = mob_database_bytes(rows, at, 6, &length);
    int64_t number = mob_database_number(rows, at, 0);
    enum mob_status status = mob_bucket_open(d->reader, payload, length, &blocks);
    while (status == MOB_OK && mob_bucket_next(d->reader, &b))
        status = read_block(d, &b, (int32_t)mob_database_number(rows, at, 1), &sums);
    d->rows++;
    if (status == MOB_NO_MEMORY)
        d->no_memory = true;
    if (status != MOB_OK)
        name(d, batch, mob_status_text(status), number);
    else if (sums.specs != (uint64_t)mob_database_number(rows, at, 2) ||
        sums.finals != (uint64_t)mob_database_number(rows, at, 3) ||
        sums.failed != (uint64_t)mob_database_number(rows, at, 4) ||
        sums.others != (uint64_t)mob_database_number(rows, at, 5))
        name(d, batch, "it does not hold what it says", number);
    add_sums(of_batch, &sums);
}

/* ---- a batch ---- */

static int by_place(const void *a, const void *b)
{
    const struct place *x = a, *y = b;
    return x->seq != y->seq ? (x->seq > y->seq) - (x->seq < y->seq)
                            : (x->ordinal > y->ordinal) - (x->ordinal < y->ordinal);
}

/* Each block that is there has each of its entries once. How many blocks there are. */
static uint64_t check_places(struct database *d, const struct batch *batch)
{
    char what[96];
    uint64_t blocks = 0;
    uint32_t expected = 0;
    if (d->place_count > 0)
        qsort(d->places, d->place_count, sizeof *d->places, by_place);
    for (size_t i = 0; i < d->place_count; i++) {
        const struct place *p = &d->places[i];
        bool new_block = i == 0 || p->seq != p[-1].seq;
        blocks += new_block;
        expected = new_block ? 0 : expected;
        if (p->ordinal != expected) {
            bool twice = !new_block && p->ordinal == p[-1].ordinal;
            snprintf(what, sizeof what, "entry %u of the block at %" PRIu64 " is %s",
                twice ? p->ordinal : expected, p->seq, twice ? "there twice" : "missing");
            name(d, batch, what, -1);
        }
        expected = p->ordinal + 1;
        if (new_block && (p->seq <= (uint64_t)batch->after || p->seq > (uint64_t)batch->upto)) {
            snprintf(what, sizeof what, "the block at %" PRIu64 " belongs to another batch", p->seq);
            name(d, batch, what, -1);
        }
    }
    return blocks;
}

static int by_stream(const void *a, const void *b)
{
    const struct stream_day *x = a, *y = b;
    return x->day != y->day ? (x->day > y->day) - (x->day < y->day)
                            : memcmp(&x->stream, &y->stream, sizeof x->stream);
}

/* Streams of one day, those from `at` on, which PostgreSQL would not look for there. */
static int64_t lost_streams(struct database *d, size_t at, size_t *end_out)
{
    static const char sql[] =
        "SELECT count(*) FROM generate_series(0, $2::integer - 1) i WHERE NOT EXISTS (SELECT FROM "
        "mobula.stream_day s WHERE s.day = $3 AND s.stream = substring($1::bytea FROM i * 12 + 1 FOR 12))";
    struct mob_stream list[4096];
    struct mob_database_param p[3];
    struct mob_database_result *rows = NULL;
    size_t count = 0, i = at;
    for (; i < d->stream_count && count < 4096 && d->streams[i].day == d->streams[at].day; i++)
        if (count == 0 || !mob_stream_eq(list[count - 1], d->streams[i].stream))
            list[count++] = d->streams[i].stream;
    *end_out = i;
    mob_param_bytes(&p[0], list, count * sizeof list[0]);
    mob_param_i32(&p[1], (int32_t)count);
    mob_param_i32(&p[2], d->streams[at].day);
    bool good = mob_database_query_once(d->v->g->db, sql, p, 3, &rows) == MOB_OK;
    int64_t lost = good ? mob_database_number(rows, 0, 0) : 1;
    mob_database_result_destroy(rows);
    return lost;
}

static void check_streams(struct database *d, const struct batch *batch)
{
    int64_t lost = 0;
    _Static_assert(sizeof(struct mob_stream) == 12, "as in the statement");
    if (d->stream_count > 0)
        qsort(d->streams, d->stream_count, sizeof *d->streams, by_stream);
    for (size_t at = 0; at < d->stream_count;)
        lost += lost_streams(d, at, &at);
    if (lost > 0)
        name(d, batch, "tasks of it are not found by their id: mobula.stream_day lacks a row", -1);
}

/* Numbers of one row, from a statement about the batch; NULL is 0. */
static bool batch_numbers(
    struct database *d, const struct batch *batch, const char *sql, uint64_t *out, int count)
{
    struct mob_database_param p[4];
    struct mob_database_result *rows = NULL;
    mob_param_i32(&p[0], (int32_t)d->v->g->shard);
    mob_param_i64(&p[1], batch->upto);
    mob_param_i32(&p[2], batch->day_min);
    mob_param_i32(&p[3], batch->day_max);
    bool good = mob_database_query(d->v->g->db, sql, p, 4, &rows) == MOB_OK && mob_database_rows(rows) == 1;
    for (int i = 0; i < count && good; i++)
        out[i] = mob_database_null(rows, 0, i) ? 0 : (uint64_t)mob_database_number(rows, 0, i);
    mob_database_result_destroy(rows);
    return good;
}

static bool read_deleted(struct database *d, const struct batch *batch, struct deleted *out)
{
    static const char sql[] =
        "SELECT sum(buckets)::bigint, sum(specs)::bigint, sum(finals)::bigint, sum(failed)::bigint, "
        "sum(others)::bigint, sum(failures)::bigint FROM mobula.deleted WHERE shard = $1 AND upto = $2 AND "
        "$3::integer <= $4::integer";
    uint64_t n[6];
    if (!batch_numbers(d, batch, sql, n, 6))
        return false;
    *out = (struct deleted){n[0], n[5], {.specs = n[1], .finals = n[2], .failed = n[3], .others = n[4]}};
    return true;
}

/* *failures_out: those that are there once, less those that are there again. *day_out: the first one's
 * partition is there. */
static bool read_failures(struct database *d, const struct batch *batch, int64_t *failures_out, bool *day_out)
{
    static const char sql[] = "SELECT count(DISTINCT (finished_us, task, seq)) - 2 * (count(*) - "
                              "count(DISTINCT (finished_us, task, "
                              "seq))), (to_regclass('mobula.bucket_d' || replace(($3::integer)::text, '-', "
                              "'m')) IS NOT NULL)::integer "
                              "FROM mobula.failure WHERE shard = $1 AND upto = $2 AND day BETWEEN $3 AND $4";
    uint64_t n[2];
    if (!batch_numbers(d, batch, sql, n, 2))
        return false;
    *failures_out = (int64_t)n[0];
    *day_out = n[1] != 0;
    return true;
}

static bool check_sums(struct database *d, const struct batch *batch, const struct verify_sums *there,
    uint64_t buckets, uint64_t blocks)
{
    struct deleted gone;
    int64_t failures;
    bool day;
    if (!read_deleted(d, batch, &gone) || !read_failures(d, batch, &failures, &day))
        return false;
    if (!day && batch->day_min == batch->day_max)
        return true; /* the day was dropped */
    const struct verify_sums *says = &batch->says, *g = &gone.sums;
    bool same = buckets + gone.buckets == batch->buckets && there->specs + g->specs == says->specs &&
        there->finals + g->finals == says->finals && there->failed + g->failed == says->failed &&
        there->others + g->others == says->others && blocks <= batch->blocks &&
        (blocks == batch->blocks || gone.buckets > 0);
    if (!same)
        name(d, batch, "its rows are not what it took in", -1);
    if (failures + (int64_t)gone.failures != (int64_t)says->failed)
        name(d, batch, "mobula.failure has not each of its failures once", -1);
    return true;
}

static bool check_rows(struct database *d, const struct batch *batch)
{
    static const char sql[] = "SELECT row_number, day, specs, finals, failed, others, payload FROM "
                              "mobula.bucket WHERE shard = $1 AND upto = $2 AND day < 2000000 ORDER BY "
                              "row_number";
    /* What is kept for actors are single buckets of days that are gone. */
    _Static_assert(MOB_COLD_DAY_KEPT == 2000000, "as in the statement");
    struct mob_database_param p[2];
    struct mob_database_result *rows = NULL;
    struct verify_sums sums = {0};
    mob_param_i32(&p[0], (int32_t)d->v->g->shard);
    mob_param_i64(&p[1], batch->upto);
    if (mob_database_query(d->v->g->db, sql, p, 2, &rows) != MOB_OK)
        return false;
    d->place_count = d->stream_count = 0;
    d->visible = (struct verify_sums){0};
    uint64_t buckets = (uint64_t)mob_database_rows(rows);
    for (uint64_t i = 0; i < buckets; i++)
        read_row(d, batch, rows, (int)i, &sums);
    mob_database_result_destroy(rows);
    uint64_t blocks = check_places(d, batch);
    check_streams(d, batch);
    return check_sums(d, batch, &sums, buckets, blocks) && !d->no_memory;
}

/* As of one moment, so that a job's deletion is seen with what it says of itself. In a transaction for each
 * batch: who waits to drop a day does not wait for all. A day may be dropped between the moment and the rows:
 * so what seems wrong is looked at once more. */
static bool check_batch(struct database *d, const struct batch *batch)
{
    struct mob_database *db = d->v->g->db;
    uint64_t wrong = d->wrong, rows = d->rows;
    bool good = true;
    for (int times = 0; times < 2 && good && (times == 0 || d->wrong > wrong); times++) {
        d->wrong = wrong;
        d->rows = rows;
        d->naming = times > 0;
        good =
            mob_database_run(db, "BEGIN ISOLATION LEVEL REPEATABLE READ") == MOB_OK && check_rows(d, batch);
        if (good)
            good = mob_database_run(db, "COMMIT") == MOB_OK;
        else
            mob_database_rollback(db);
    }
    d->batches++;
    if ((uint64_t)batch->upto <= d->v->flushed_upto)
        add_sums(&d->v->visible, &d->visible);
    return good;
}

static bool check_batches(struct database *d)
{
    static const char sql[] =
        "SELECT after, upto, blocks, specs, finals, failed, others, buckets, day_min, day_max "
        "FROM mobula.batch WHERE shard = $1 ORDER BY upto";
    struct mob_database_param p;
    struct mob_database_result *rows = NULL;
    mob_param_i32(&p, (int32_t)d->v->g->shard);
    if (mob_database_query_once(d->v->g->db, sql, &p, 1, &rows) != MOB_OK)
        return false;
    bool good = true;
    for (int i = 0; i < mob_database_rows(rows) && good; i++) {
        const struct batch batch = {.after = mob_database_number(rows, i, 0),
            .upto = mob_database_number(rows, i, 1),
            .blocks = (uint64_t)mob_database_number(rows, i, 2),
            .says = {.specs = (uint64_t)mob_database_number(rows, i, 3),
                .finals = (uint64_t)mob_database_number(rows, i, 4),
                .failed = (uint64_t)mob_database_number(rows, i, 5),
                .others = (uint64_t)mob_database_number(rows, i, 6)},
            .buckets = (uint64_t)mob_database_number(rows, i, 7),
            .day_min = (int32_t)mob_database_number(rows, i, 8),
            .day_max = (int32_t)mob_database_number(rows, i, 9)};
        good = check_batch(d, &batch);
    }
    mob_database_result_destroy(rows);
    return good;
}

/* Rows of batches that there are none of. */
static int64_t orphans(struct database *d)
{
    return gcs_shard_number(d->v->g,
        "SELECT count(*) FROM mobula.bucket b WHERE shard = $1 AND NOT EXISTS (SELECT FROM mobula.batch t "
        "WHERE t.shard = b.shard AND t.upto = b.upto)");
}

static bool read_gone(struct database *d)
{
    struct mob_database_result *rows = NULL;
    if (mob_database_query_once(d->v->g->db, "SELECT job FROM mobula.job_gone", NULL, 0, &rows) != MOB_OK)
        return false;
    int count = mob_database_rows(rows);
    d->gone = calloc((size_t)count + 1, sizeof *d->gone);
    for (int i = 0; i < count && d->gone != NULL; i++) {
        size_t length;
        const uint8_t *bytes = mob_database_bytes(rows, i, 0, &length);
        if (length == sizeof d->gone[0])
            memcpy(&d->gone[d->gone_count++], bytes, length);
    }
    if (d->gone_count > 0)
        qsort(d->gone, d->gone_count, sizeof *d->gone, by_bytes);
    mob_database_result_destroy(rows);
    return d->gone != NULL;
}

bool verify_database(struct verify *v)
{
    char figures[VERIFY_FIGURES_MAX];
    struct database d = {.v = v,
        .reader = mob_bucket_reader_create(),
        .origins = calloc(MOB_BLOCK_ENTRIES_MAX, sizeof *d.origins)};
    bool good = d.reader != NULL && d.origins != NULL && read_gone(&d) && check_batches(&d);
    if (good) {
        int64_t lost = orphans(&d);
        snprintf(figures, sizeof figures,
            "%" PRIu64 " batches, %" PRIu64 " rows, %" PRIu64 " things wrong, %" PRId64 " rows of no batch",
            d.batches, d.rows, d.wrong, lost);
        verify_say(v, d.wrong == 0 && lost == 0 ? VERIFY_GOOD : VERIFY_BAD, "rows of PostgreSQL", figures);
    } else {
        cli_say("PostgreSQL does not answer");
    }
    mob_bucket_reader_destroy(d.reader);
    free(d.origins);
    free(d.gone);
    free(d.places);
    free(d.streams);
    return good;
}
