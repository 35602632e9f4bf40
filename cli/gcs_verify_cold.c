/* PostgreSQL: every batch against its own rows (each entry of each block that it took in once, what the rows
 * and the batch say of themselves, failures, streams), and what is in the member, too, entry by entry. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/gcs_verify.h"
#include "common/base/array.h"
#include "common/base/hash.h"
#include "common/wire/bucket.h"
#include "gcs/flush/cold.h"
#include "gcs/flush/cold_page.h"

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
    bool whole; /* no day of it was dropped */
};
struct database {
    struct verify *v;
    bool gone; /* jobs were deleted: less may be there */
    struct mob_bucket_reader *reader;
    struct mob_bucket_origin *origins; /* MOB_BLOCK_ENTRIES_MAX */
    struct place *places; /* of the batch in hand */
    size_t place_count, place_capacity;
    struct stream_day *streams;
    size_t stream_count, stream_capacity;
    uint64_t batches, rows, wrong, named;
    bool no_memory;
};

static void name(struct database *d, const struct batch *batch, const char *what, int64_t row)
{
    d->wrong++;
    if (d->named++ >= VERIFY_NAMED_MAX)
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
    while ((status = mob_block_next(d->v->decoder, &entry)) == MOB_OK)
        verify_add_entry(sums, &entry);
    return status == MOB_CLOSED ? MOB_OK : status;
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
    of_batch->specs += sums.specs;
    of_batch->finals += sums.finals;
    of_batch->failed += sums.failed;
    of_batch->others += sums.others;
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

static int64_t batch_number(struct database *d, const struct batch *batch, const char *sql)
{
    struct mob_database_param p[2];
    struct mob_database_result *rows = NULL;
    mob_param_i32(&p[0], (int32_t)d->v->g->shard);
    mob_param_i64(&p[1], batch->upto);
    bool good = mob_database_query(d->v->g->db, sql, p, 2, &rows) == MOB_OK;
    int64_t number = good ? mob_database_number(rows, 0, 0) : -1;
    mob_database_result_destroy(rows);
    return number;
}

static bool fewer_or_same(const struct verify_sums *a, const struct verify_sums *b)
{
    return a->specs <= b->specs && a->finals <= b->finals && a->failed <= b->failed && a->others <= b->others;
}

static void check_sums(
    struct database *d, const struct batch *batch, const struct verify_sums *there, uint64_t blocks)
{
    static const char failures_sql[] = "SELECT count(DISTINCT (finished_us, task, seq)) - 2 * (count(*) - "
                                       "count(DISTINCT (finished_us, task, seq))) "
                                       "FROM mobula.failure WHERE shard = $1 AND upto = $2";
    bool fewer = fewer_or_same(there, &batch->says) && blocks <= batch->blocks;
    bool same = fewer && fewer_or_same(&batch->says, there) && blocks == batch->blocks;
    int64_t failures = batch_number(d, batch, failures_sql);
    if (batch->whole && !(d->gone ? fewer : same))
        name(d, batch, "its rows are not what it took in", -1);
    if (batch->whole &&
        (d->gone ? failures > (int64_t)batch->says.failed || failures < 0
                 : failures != (int64_t)batch->says.failed))
        name(d, batch, "mobula.failure has not each of its failures once", -1);
}

static bool check_batch(struct database *d, const struct batch *batch)
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
    for (int i = 0; i < mob_database_rows(rows); i++)
        read_row(d, batch, rows, i, &sums);
    mob_database_result_destroy(rows);
    uint64_t blocks = check_places(d, batch);
    check_streams(d, batch);
    check_sums(d, batch, &sums, blocks);
    d->batches++;
    return !d->no_memory;
}

static bool check_batches(struct database *d)
{
    static const char sql[] =
        "SELECT after, upto, blocks, specs, finals, failed, others, "
        "to_regclass('mobula.bucket_d' || replace(day_min::text, '-', 'm')) IS NOT NULL AND "
        "to_regclass('mobula.bucket_d' || replace(day_max::text, '-', 'm')) IS NOT NULL "
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
            .whole = mob_database_number(rows, i, 7) != 0};
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

/* ---- what is in the member, too ---- */

/* What the flusher's reader gives of the blocks that the member still has, one by one. */
struct history {
    struct verify *v;
    struct mob_cold *cold;
    struct mob_gcs_cold_get query;
    struct mob_gcs_cold_answer page;
    uint32_t at;
    bool failed;
};

static const struct mob_gcs_block_row *history_row(struct history *h)
{
    while (h->at == h->page.block_count && h->query.get.position != 0 && !h->failed) {
        h->failed = mob_cold_read(h->cold, h->v->g->db, &h->query, &h->page) != MOB_OK;
        h->query.get.position = h->page.next;
        h->at = 0;
    }
    return h->failed || h->at == h->page.block_count ? NULL : &h->page.blocks[h->at];
}

static uint64_t content_of(struct verify *v, const struct mob_gcs_block_row *row)
{
    static struct mob_zone_map zone; /* too large for the stack */
    static struct mob_entry entry;
    struct mob_block_header h;
    uint64_t digest = 0;
    enum mob_status status = mob_block_open(v->decoder, row->bytes, row->length, &h, &zone);
    while (status == MOB_OK && (status = mob_block_next(v->decoder, &entry)) == MOB_OK) {
        uint64_t both[2] = {digest, verify_digest(v, &entry)};
        digest = mob_hash64(both, sizeof both);
    }
    return status == MOB_CLOSED ? digest : 0;
}

struct both_places {
    uint64_t same, wrong;
    bool gone;
};

static void compare_block(
    struct verify *v, struct history *h, const struct mob_gcs_block_row *here, struct both_places *b)
{
    const struct mob_gcs_block_row *there = history_row(h);
    while (there != NULL && there->seq < here->seq) { /* dropped with its job meanwhile, or never here */
        b->wrong += !b->gone;
        if (!b->gone)
            cli_say("the block at %" PRIu64 " is in PostgreSQL and not in the member", there->seq);
        h->at++;
        there = history_row(h);
    }
    bool found = there != NULL && there->seq == here->seq;
    bool same = found && content_of(v, here) == content_of(v, there);
    b->same += same;
    if (found)
        h->at++;
    if (!same && b->wrong++ < VERIFY_NAMED_MAX)
        cli_say("the block at %" PRIu64 " is %s in PostgreSQL", here->seq, found ? "another" : "not");
}

static bool compare_both(struct verify *v, uint64_t flushed, uint64_t watermark, struct both_places *b)
{
    struct history h = {.v = v, .cold = mob_cold_create(v->g->shard)};
    struct mob_gcs_scan scan = {.position = flushed};
    h.query = (struct mob_gcs_cold_get){.upto = watermark,
        .get = {.query = MOB_GCS_Q_HISTORY, .position = mob_gcs_cold_position(flushed, 0)}};
    bool good = h.cold != NULL, more = watermark > flushed;
    while (good && more) {
        struct mob_gcs_sync sync = {0};
        struct mob_gcs_result *r =
            gcs_wait(v->g, mob_gcs_scan(v->g->gcs, &scan, mob_gcs_sync_done, &sync), &sync);
        if (r == NULL) {
            good = false;
            break;
        }
        const struct mob_gcs_answer *a = mob_gcs_result_answer(r);
        for (uint32_t i = 0; i < a->block_count && a->blocks[i].seq <= watermark; i++)
            if (a->blocks[i].seq > flushed && !a->blocks[i].recut)
                compare_block(v, &h, &a->blocks[i], b);
        scan.position = a->next;
        more = a->next != 0 && a->next < watermark;
        mob_gcs_result_destroy(r);
    }
    b->wrong += h.failed;
    mob_cold_destroy(h.cold);
    return good;
}

bool verify_database(struct verify *v, uint64_t flushed, bool gone)
{
    char figures[VERIFY_FIGURES_MAX];
    struct database d = {.v = v,
        .gone = gone,
        .reader = mob_bucket_reader_create(),
        .origins = calloc(MOB_BLOCK_ENTRIES_MAX, sizeof *d.origins)};
    struct both_places both = {.gone = gone};
    uint64_t watermark =
        (uint64_t)gcs_shard_number(v->g, "SELECT upto FROM mobula.watermark WHERE shard = $1");
    bool good = d.reader != NULL && d.origins != NULL && check_batches(&d);
    if (good) {
        int64_t lost = orphans(&d);
        snprintf(figures, sizeof figures,
            "%" PRIu64 " batches, %" PRIu64 " rows, %" PRIu64 " things wrong, %" PRId64 " rows of no batch",
            d.batches, d.rows, d.wrong, lost);
        verify_say(v, d.wrong == 0 && lost == 0, "rows of PostgreSQL", figures);
        good = compare_both(v, flushed, watermark, &both);
    }
    if (good) {
        snprintf(
            figures, sizeof figures, "%" PRIu64 " blocks the same, %" PRIu64 " not", both.same, both.wrong);
        verify_say(v, both.wrong == 0, "what is in both places, entry by entry", figures);
    } else {
        cli_say("PostgreSQL or the member does not answer");
    }
    mob_bucket_reader_destroy(d.reader);
    free(d.origins);
    free(d.places);
    free(d.streams);
    return good;
}
