/* Flushed lineage in the order in which it was committed: for who follows the log from a place that memory
 * does not hold any more. The buckets of one cut of the flusher hold a stretch of the log sorted by task; all
 * of them that reach behind the position are read, and their entries are put together as the blocks were.
 */
#include <stdlib.h>

#include "common/base/array.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "gcs/flush/cold_inner.h"
#include "gcs/flush/recut_inner.h"

/* An entry of the stretch. */
struct piece {
    uint64_t seq;
    uint32_t ordinal; /* in the block at seq */
    uint32_t item; /* of stretch.sort */
};
/* The header of a block as it was cut; the block at `seq` had this very one. */
struct cut_header {
    uint64_t seq;
    struct mob_block_header header;
};
struct stretch {
    struct recut_sort sort;
    struct piece *pieces;
    size_t count, capacity;
    struct cut_header *headers;
    size_t header_count, header_capacity;
    uint64_t gone; /* the first of which entries of a deleted job were passed over, or whose row is gone */
    struct mob_bucket_origin origins[MOB_BLOCK_ENTRIES_MAX];
};

/* How far a page has come. */
struct reading {
    uint64_t position;
    bool hole; /* something between where it began and its first block is gone */
    bool full;
};

/* A batch of the flusher. */
struct batch {
    int64_t after, upto;
    int32_t day_min, day_max;
    bool whole; /* no day of it was dropped */
};

static void stretch_destroy(struct stretch *s)
{
    recut_sort_fini(&s->sort);
    free(s->pieces);
    free(s->headers);
    free(s);
}

/* ---- reading ---- */

/* MOB_NOT_FOUND: none has anything behind the position. */
static enum mob_status next_batch(
    struct mob_cold *c, struct mob_database *db, uint64_t position, struct batch *out)
{
    static const char sql[] =
        "SELECT after, upto, day_min, day_max, "
        "to_regclass('mobula.bucket_d' || replace(day_min::text, '-', 'm')) IS NOT NULL AND "
        "to_regclass('mobula.bucket_d' || replace(day_max::text, '-', 'm')) IS NOT NULL "
        "FROM mobula.batch WHERE shard = $1 AND upto > $2 ORDER BY upto LIMIT 1";
    struct mob_database_param p[2];
    struct mob_database_result *rows = NULL;
    mob_param_i32(&p[0], c->shard);
    mob_param_i64(&p[1], (int64_t)position);
    enum mob_status status = mob_database_query(db, sql, p, 2, &rows);
    if (status == MOB_OK && mob_database_rows(rows) == 0)
        status = MOB_NOT_FOUND;
    if (status == MOB_OK)
        *out = (struct batch){.after = mob_database_number(rows, 0, 0),
            .upto = mob_database_number(rows, 0, 1),
            .day_min = (int32_t)mob_database_number(rows, 0, 2),
            .day_max = (int32_t)mob_database_number(rows, 0, 3),
            .whole = mob_database_number(rows, 0, 4) != 0};
    mob_database_result_destroy(rows);
    return status;
}

#define BUCKETS_OF_BATCH \
    "FROM mobula.bucket b WHERE b.shard = $1 AND b.upto = $2 AND b.day >= $3 AND b.day <= $4 " \
    "AND b.seq_max > $5 AND ($6::bytea IS NULL OR b.job IS NULL OR b.job = $6) "

static void job_param(struct mob_database_param *p, const struct cold_wanted *w)
{
    if (w->by_job)
        mob_param_bytes(p, &w->job, sizeof w->job);
    else
        mob_param_null(p);
}

static int batch_params(struct mob_database_param p[7], const struct mob_cold *c, const struct batch *batch,
    const struct cold_wanted *w, uint64_t position)
{
    mob_param_i32(&p[0], c->shard);
    mob_param_i64(&p[1], batch->upto);
    mob_param_i32(&p[2], batch->day_min);
    mob_param_i32(&p[3], batch->day_max);
    mob_param_i64(&p[4], (int64_t)position);
    job_param(&p[5], w);
    return 6;
}

/* Where the stretch that goes on behind the position ends: buckets whose ranges overlap are of one cut.
 * MOB_NOT_FOUND: the batch has nothing more. */
static enum mob_status stretch_end(struct mob_cold *c, struct mob_database *db, const struct batch *batch,
    const struct cold_wanted *w, uint64_t position, uint64_t *end_out)
{
    static const char sql[] = "SELECT b.seq_min, b.seq_max " BUCKETS_OF_BATCH "ORDER BY b.seq_min";
    struct mob_database_param p[7];
    struct mob_database_result *rows = NULL;
    enum mob_status status = mob_database_query(db, sql, p, batch_params(p, c, batch, w, position), &rows);
    int count = status == MOB_OK ? mob_database_rows(rows) : 0;
    int64_t end = count > 0 ? mob_database_number(rows, 0, 1) : 0;
    for (int i = 1; i < count && mob_database_number(rows, i, 0) <= end; i++)
        if (mob_database_number(rows, i, 1) > end)
            end = mob_database_number(rows, i, 1);
    mob_database_result_destroy(rows);
    if (status == MOB_OK && count == 0)
        return MOB_NOT_FOUND;
    *end_out = (uint64_t)end;
    return status;
}

/* The first position behind this one that may have been a deleted job's; UINT64_MAX: none. Asked for when
 * the rows were read: what had gone by then is known now. */
static enum mob_status first_deleted(struct mob_cold *c, struct mob_database *db, const struct batch *batch,
    const struct cold_wanted *w, uint64_t position, uint64_t *first_out)
{
    static const char sql[] =
        "SELECT min(greatest(seq_min, $3::bigint + 1)) FROM mobula.hole WHERE shard = $1 AND upto = $2 "
        "AND seq_max > $3 AND ($4::bytea IS NULL OR job = $4)";
    struct mob_database_param p[4];
    struct mob_database_result *rows = NULL;
    mob_param_i32(&p[0], c->shard);
    mob_param_i64(&p[1], batch->upto);
    mob_param_i64(&p[2], (int64_t)position);
    job_param(&p[3], w);
    enum mob_status status = mob_database_query(db, sql, p, 4, &rows);
    if (status == MOB_OK)
        *first_out = mob_database_null(rows, 0, 0) ? UINT64_MAX : (uint64_t)mob_database_number(rows, 0, 0);
    mob_database_result_destroy(rows);
    return status;
}

/* Of a deleted job, in a row that others have, too. */
static enum mob_status pass_over(
    struct stretch *s, const struct mob_bucket_block *b, uint32_t entries, const struct cold_wanted *w)
{
    enum mob_status status = mob_bucket_origins(b, s->origins, entries);
    for (uint32_t i = 0; i < entries && status == MOB_OK; i++) {
        uint64_t seq = s->origins[i].seq;
        if (seq > w->above && seq <= w->upto && seq < s->gone)
            s->gone = seq;
    }
    return status;
}

static enum mob_status take_block(
    struct mob_cold *c, struct stretch *s, const struct mob_bucket_block *b, const struct cold_wanted *w)
{
    struct cut_header cut = {.seq = b->seq};
    enum mob_status status = mob_block_peek(b->bytes, b->length, &cut.header, &c->page->zone);
    if (status != MOB_OK)
        return status;
    if (w->by_job && !mob_stream_eq(cut.header.job.root, w->job.root))
        return MOB_OK;
    if (w->gone(w->gone_arg, cut.header.job))
        return pass_over(s, b, cut.header.entry_count, w);
    size_t before = s->sort.item_count;
    status = mob_bucket_origins(b, s->origins, cut.header.entry_count);
    if (status == MOB_OK)
        status = recut_sort_add(&s->sort, c->page->decoder, (uint32_t)s->header_count, b->bytes, b->length);
    size_t count = s->sort.item_count;
    if (status == MOB_OK &&
        !(mob_array_room(
              (void **)&s->headers, s->header_count + 1, &s->header_capacity, sizeof *s->headers) &&
            mob_array_room((void **)&s->pieces, count, &s->capacity, sizeof *s->pieces)))
        status = MOB_NO_MEMORY;
    if (status != MOB_OK)
        return status;
    s->headers[s->header_count++] = cut;
    for (size_t i = before; i < count; i++) {
        const struct mob_bucket_origin *origin = &s->origins[s->sort.items[i].ordinal];
        if (origin->seq > w->above && origin->seq <= w->upto)
            s->pieces[s->count++] = (struct piece){origin->seq, origin->ordinal, (uint32_t)i};
    }
    return MOB_OK;
}

static enum mob_status take_bucket(
    struct mob_cold *c, struct stretch *s, const uint8_t *payload, size_t length, const struct cold_wanted *w)
{
    uint32_t blocks;
    struct mob_bucket_block b;
    enum mob_status status = mob_bucket_open(c->page->reader, payload, length, &blocks);
    while (status == MOB_OK && mob_bucket_next(c->page->reader, &b))
        status = take_block(c, s, &b, w);
    return status;
}

static enum mob_status read_stretch(struct mob_cold *c, struct mob_database *db, const struct batch *batch,
    const struct cold_wanted *w, uint64_t end, struct stretch *s)
{
    static const char sql[] = "SELECT b.payload " BUCKETS_OF_BATCH "AND b.seq_min <= $7";
    struct mob_database_param p[7];
    struct mob_database_result *rows = NULL;
    int count = batch_params(p, c, batch, w, w->above);
    mob_param_i64(&p[count++], (int64_t)end);
    enum mob_status status = mob_database_query(db, sql, p, count, &rows);
    for (int i = 0; status == MOB_OK && i < mob_database_rows(rows); i++) {
        size_t length;
        const uint8_t *payload = mob_database_bytes(rows, i, 0, &length);
        status = take_bucket(c, s, payload, length, w);
    }
    if (status == MOB_CORRUPT || status == MOB_VERSION)
        MOB_LOG_ERROR("flush", "bucket_bad", "shard=%d upto=%lld why=%s", c->shard, (long long)batch->upto,
            mob_status_code(status));
    mob_database_result_destroy(rows);
    return status;
}

/* ---- giving ---- */

static int by_place(const void *a, const void *b)
{
    const struct piece *x = a, *y = b;
    return x->seq != y->seq ? (x->seq > y->seq) - (x->seq < y->seq)
                            : (x->ordinal > y->ordinal) - (x->ordinal < y->ordinal);
}

static int by_seq(const void *a, const void *b)
{
    const struct cut_header *x = a, *y = b;
    return (x->seq > y->seq) - (x->seq < y->seq);
}

/* `own`: sorted by seq. A block's own header, or that of the neighbour which its entries lie with now. */
static const struct mob_block_header *header_of(
    const struct stretch *s, const struct cut_header *own, const struct piece *piece)
{
    const struct cut_header key = {.seq = piece->seq};
    const struct cut_header *found = bsearch(&key, own, s->header_count, sizeof *own, by_seq);
    return found != NULL ? &found->header : &s->headers[s->sort.items[piece->item].source].header;
}

/* The block whose entries begin at *at_out, which becomes the one behind them. */
static enum mob_status put_block(
    struct mob_cold *c, const struct stretch *s, const struct mob_block_header *header, size_t *at)
{
    struct cold_page *p = c->page;
    uint64_t seq = s->pieces[*at].seq;
    size_t i = *at;
    mob_block_begin(p->encoder, header);
    for (; i < s->count && s->pieces[i].seq == seq; i++) {
        enum mob_status status = recut_sort_encode(&s->sort, &s->sort.items[s->pieces[i].item], p->encoder);
        if (status != MOB_OK)
            return status == MOB_QUEUE_FULL ? MOB_CORRUPT : status; /* they were one block once */
    }
    enum mob_status status = cold_page_put(p, seq, header, p->block, mob_block_end(p->encoder, p->block));
    if (status == MOB_OK)
        *at = i;
    return status;
}

/* Those before `before`. The page's position: the last block that was given, or `end` when all were. */
static enum mob_status give_stretch(
    struct mob_cold *c, struct stretch *s, uint32_t limit, uint64_t before, uint64_t end, struct reading *r)
{
    struct cut_header *own = calloc(s->header_count + 1, sizeof *own);
    if (own == NULL)
        return MOB_NO_MEMORY;
    enum mob_status status = MOB_OK;
    size_t at = 0;
    if (s->header_count > 0)
        memcpy(own, s->headers, s->header_count * sizeof *own);
    qsort(own, s->header_count, sizeof *own, by_seq);
    while (at < s->count && s->pieces[at].seq < before && status == MOB_OK && !cold_page_full(c->page, limit))
        status = put_block(c, s, header_of(s, own, &s->pieces[at]), &at);
    if (status == MOB_QUEUE_FULL) /* the page is; what was put stays */
        status = MOB_OK;
    r->position = at == s->count ? end : at > 0 ? s->pieces[at - 1].seq : r->position;
    free(own);
    return status;
}

/* What is gone is told before a page's first block, so a page ends before it; and once, though more may be
 * gone behind that block: who was told goes on right before it. */
static enum mob_status give_around_hole(
    struct mob_cold *c, struct stretch *s, uint32_t limit, uint64_t gone, uint64_t end, struct reading *r)
{
    if (s->count > 0)
        qsort(s->pieces, s->count, sizeof *s->pieces, by_place);
    if (gone > end)
        return give_stretch(c, s, limit, UINT64_MAX, end, r);
    bool any_before = s->count > 0 && s->pieces[0].seq < gone;
    r->full = any_before || c->page->count > 0;
    if (any_before)
        return give_stretch(c, s, limit, gone, gone - 1, r);
    if (r->full)
        return MOB_OK;
    r->hole = true;
    return give_stretch(c, s, limit, UINT64_MAX, end, r);
}

static enum mob_status add_stretch(struct mob_cold *c, struct mob_database *db, const struct batch *batch,
    const struct cold_wanted *w, uint32_t limit, struct reading *r)
{
    uint64_t end = 0, gone = 0;
    enum mob_status status = stretch_end(c, db, batch, w, r->position, &end);
    bool empty = status == MOB_NOT_FOUND; /* deleted, or another job's */
    if (status != MOB_OK && !empty)
        return status;
    struct stretch *s = calloc(1, sizeof *s);
    if (s == NULL)
        return MOB_NO_MEMORY;
    struct cold_wanted wanted = *w;
    wanted.above = r->position;
    recut_sort_begin(&s->sort);
    s->gone = UINT64_MAX;
    end = empty ? (uint64_t)batch->upto : end;
    status = empty ? MOB_OK : read_stretch(c, db, batch, &wanted, end, s);
    if (status == MOB_OK)
        status = first_deleted(c, db, batch, w, r->position, &gone);
    if (status == MOB_OK)
        status = give_around_hole(c, s, limit, gone < s->gone ? gone : s->gone, end, r);
    stretch_destroy(s);
    return status;
}

/* The batch to go on in: *last_out when there is none; *hole_out when not all behind the position is there.
 */
static enum mob_status find_batch(struct mob_cold *c, struct mob_database *db, uint64_t position,
    uint64_t upto, struct batch *out, bool *hole_out, bool *last_out)
{
    enum mob_status status = next_batch(c, db, position, out);
    *last_out = status == MOB_NOT_FOUND || (status == MOB_OK && (uint64_t)out->after >= upto);
    *hole_out = *last_out || (uint64_t)out->after > position || !out->whole;
    return status == MOB_NOT_FOUND ? MOB_OK : status;
}

enum mob_status cold_read_history(struct mob_cold *c, struct mob_database *db,
    const struct mob_gcs_cold_get *q, const struct cold_wanted *w, struct cold_behind *next_out)
{
    int64_t deadline = mob_now() + COLD_SCAN_NS;
    uint64_t begin = mob_gcs_cold_seq(q->get.position);
    struct reading r = {.position = begin};
    enum mob_status status = MOB_OK;
    bool hole = false, last = false;
    while (status == MOB_OK && r.position < q->upto && !r.full && !last) {
        struct batch batch = {0};
        status = find_batch(c, db, r.position, q->upto, &batch, &hole, &last);
        if (status != MOB_OK || (hole && c->page->count > 0)) {
            last = false;
            break; /* what is gone is told before a page's first block */
        }
        r.hole |= hole;
        if (last)
            break;
        if ((uint64_t)batch.after > r.position)
            r.position = (uint64_t)batch.after;
        status = add_stretch(c, db, &batch, w, q->get.limit, &r);
        r.full = r.full || cold_page_full(c->page, q->get.limit) || mob_now() > deadline;
    }
    *next_out = (struct cold_behind){.tie = r.hole};
    if (r.position < q->upto && !last)
        next_out->position = mob_gcs_cold_position(r.position, 0);
    /* Nothing fits between: who was told comes again from right before that block, and is to get it. */
    if (c->page->count > 0 && c->page->rows[0].seq == begin + 1)
        next_out->tie = 0;
    return status;
}
