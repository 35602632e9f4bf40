#include "gcs/flush/kept.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/array.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/wire/bucket.h"
#include "common/wire/checkpoint_row.h"
#include "gcs/client/client_sync.h"
#include "gcs/flush/cold.h"
#include "gcs/flush/kept_refs.h"

#define ANSWER_NS (20 * MOB_SEC)

/* ---- what is needed: from the control store ---- */

struct edge {
    struct mob_task_id call;
    uint64_t position;
    int32_t shard;
    int64_t seq; /* of its block */
};
struct actors {
    struct mob_actor_id *rows;
    size_t count, capacity;
    enum mob_status status;
};
struct reader {
    struct mob_gcs *gcs;
    struct mob_block_decoder *decoder;
    struct kept_needs *needs;
    struct kept_refs *refs;
    struct mob_actor_id actor;
    struct edge *edges; /* of this actor */
    size_t edge_count, edge_capacity;
};

static void on_actor(void *arg, const struct mob_gcs_kv *kv)
{
    struct actors *a = arg;
    if (kv->key_length != sizeof a->rows[0] || a->status != MOB_OK)
        return;
    struct mob_actor_id id;
    memcpy(&id, kv->key, sizeof id);
    if (!mob_array_room((void **)&a->rows, a->count + 1, &a->capacity, sizeof *a->rows) || a->rows == NULL)
        a->status = MOB_NO_MEMORY;
    else
        a->rows[a->count++] = id;
}

static enum mob_status add_need(struct kept_needs *needs, struct kept_need need)
{
    const struct kept_need *last = needs->count > 0 ? &needs->rows[needs->count - 1] : NULL;
    bool same = last != NULL && mob_stream_eq(last->stream, need.stream) && last->group == need.group &&
        last->shard == need.shard && last->seq_from <= need.seq_from;
    if (same) /* as with calls of one caller, one after the other */
        return MOB_OK;
    if (!mob_array_room((void **)&needs->rows, needs->count + 1, &needs->capacity, sizeof *needs->rows) ||
        needs->rows == NULL)
        return MOB_NO_MEMORY;
    needs->rows[needs->count++] = need;
    return MOB_OK;
}

enum mob_status kept_need_group(struct kept_needs *needs, struct mob_task_id task)
{
    return add_need(needs,
        (struct kept_need){.stream = task.stream, .group = task.index >> MOB_GROUP_SHIFT, .shard = -1});
}

/* The call from which on a replay repeats them. */
static enum mob_status first_position(struct reader *r, uint64_t *out)
{
    struct mob_gcs_result *result = NULL;
    struct mob_checkpoint_row row;
    enum mob_status status = mob_gcs_get_wait(
        r->gcs, MOB_GCS_CHECKPOINTS, &r->actor, sizeof r->actor, mob_now() + ANSWER_NS, &result);
    *out = 0;
    if (status == MOB_OK) {
        const struct mob_gcs_kv *kv = mob_gcs_result_answer(result)->kvs;
        enum mob_status opened = mob_checkpoint_row_open(kv->value, kv->value_length, &row);
        if (opened == MOB_OK)
            *out = row.position + 1;
        else /* all that a replay from the beginning needs is kept */
            MOB_LOG_ERROR("flush", "checkpoint_unusable", "status=%s checkpoint=%u supported=%u",
                mob_status_code(opened), row.version, MOB_CHECKPOINT_ROW_VERSION);
    }
    mob_gcs_result_destroy(result);
    return status == MOB_NOT_FOUND ? MOB_OK : status;
}

static enum mob_status note_edges(struct reader *r, const struct mob_gcs_block_row *row)
{
    static _Thread_local struct mob_zone_map zone;
    static _Thread_local struct mob_entry entry;
    struct mob_block_header header;
    uint32_t shard;
    uint64_t seq = mob_gcs_position_in_shard(row->seq, &shard);
    enum mob_status status = mob_block_open(r->decoder, row->bytes, row->length, &header, &zone);
    while (status == MOB_OK && (status = mob_block_next(r->decoder, &entry)) == MOB_OK) {
        bool is_edge = entry.type == MOB_ENTRY_EDGE || entry.type == MOB_ENTRY_SKIP;
        if (!is_edge || !mob_actor_id_eq(entry.edge.actor, r->actor))
            continue;
        if (!mob_array_room((void **)&r->edges, r->edge_count + 1, &r->edge_capacity, sizeof *r->edges))
            return MOB_NO_MEMORY;
        r->edges[r->edge_count++] = (struct edge){.call = entry.edge.task,
            .position = entry.edge.position,
            .shard = (int32_t)shard,
            .seq = (int64_t)seq};
    }
    return status == MOB_CLOSED ? MOB_OK : status;
}

static enum mob_status read_edges_in(struct reader *r, struct mob_task_id group)
{
    uint64_t position = 0;
    enum mob_status status;
    do {
        struct mob_gcs_call *call = mob_gcs_call_create();
        struct mob_gcs_result *result = NULL;
        status = mob_gcs_group_blocks(
            r->gcs, group.stream, group.index >> MOB_GROUP_SHIFT, position, mob_gcs_call_done, call);
        status = mob_gcs_call_wait(r->gcs, call, status, mob_now() + ANSWER_NS, &result);
        const struct mob_gcs_answer *a = result != NULL ? mob_gcs_result_answer(result) : NULL;
        for (uint32_t i = 0; status == MOB_OK && a != NULL && i < a->block_count; i++)
            status = note_edges(r, &a->blocks[i]);
        position = status == MOB_OK && a != NULL ? a->next : 0;
        mob_gcs_result_destroy(result);
    } while (position != 0);
    return status == MOB_NOT_FOUND ? MOB_OK : status;
}

/* The calls, and of the edges' own groups what is not older than the oldest of them that is needed. An edge
 * that was written by an older version lies in the creation's group, which is needed as a whole. */
static enum mob_status need_calls(struct reader *r, uint64_t from)
{
    int64_t oldest[MOB_GCS_SHARDS_MAX];
    enum mob_status status = MOB_OK;
    for (uint32_t i = 0; i < MOB_GCS_SHARDS_MAX; i++)
        oldest[i] = INT64_MAX;
    for (size_t i = 0; i < r->edge_count && status == MOB_OK; i++) {
        const struct edge *e = &r->edges[i];
        if (e->position < from)
            continue;
        if (e->seq < oldest[e->shard])
            oldest[e->shard] = e->seq;
        status = kept_need_group(r->needs, e->call);
        if (status == MOB_OK)
            status = kept_refs_add(r->refs, e->call);
    }
    struct mob_task_id group = mob_edge_group(r->actor);
    for (int32_t i = 0; i < (int32_t)MOB_GCS_SHARDS_MAX && status == MOB_OK; i++)
        if (oldest[i] != INT64_MAX)
            status = add_need(r->needs,
                (struct kept_need){.stream = group.stream,
                    .group = group.index >> MOB_GROUP_SHIFT,
                    .shard = i,
                    .seq_from = oldest[i]});
    return status;
}

static enum mob_status need_actor(struct reader *r, struct mob_actor_id actor)
{
    uint64_t from = 0;
    r->actor = actor;
    r->edge_count = 0;
    enum mob_status status = first_position(r, &from);
    if (status == MOB_OK)
        status = kept_need_group(r->needs, actor.creation);
    if (status == MOB_OK && from == 0)
        status = kept_refs_add(r->refs, actor.creation);
    if (status == MOB_OK)
        status = kept_refs_actor_read(r->refs, actor);
    if (status == MOB_OK)
        status = read_edges_in(r, actor.creation);
    if (status == MOB_OK)
        status = read_edges_in(r, mob_edge_group(actor));
    return status == MOB_OK ? need_calls(r, from) : status;
}

static int by_group(const void *a, const void *b)
{
    const struct kept_need *x = a, *y = b;
    int order = memcmp(&x->stream, &y->stream, sizeof x->stream);
    if (order == 0)
        order = (x->group > y->group) - (x->group < y->group);
    if (order == 0)
        order = (x->shard > y->shard) - (x->shard < y->shard);
    return order != 0 ? order : (x->seq_from > y->seq_from) - (x->seq_from < y->seq_from);
}

/* One row of each. */
static void sort_needs(struct kept_needs *needs)
{
    size_t count = 0;
    if (needs->count > 0)
        qsort(needs->rows, needs->count, sizeof *needs->rows, by_group);
    for (size_t i = 0; i < needs->count; i++) {
        const struct kept_need *last = count > 0 ? &needs->rows[count - 1] : NULL;
        bool same = last != NULL && mob_stream_eq(last->stream, needs->rows[i].stream) &&
            last->group == needs->rows[i].group && last->shard == needs->rows[i].shard;
        if (!same)
            needs->rows[count++] = needs->rows[i];
    }
    needs->count = count;
}

/* What calls were given may have come of other actors, which have calls in their turn. */
static enum mob_status need_references(struct reader *r)
{
    struct mob_actor_id actor;
    enum mob_status status;
    bool more;
    do {
        more = false;
        status = kept_refs_follow(r->refs, r->needs);
        while (status == MOB_OK && kept_refs_next_actor(r->refs, &actor)) {
            status = need_actor(r, actor);
            more = true;
        }
    } while (status == MOB_OK && more);
    return status;
}

enum mob_status kept_read_needs(struct mob_gcs *gcs, struct kept_needs *needs)
{
    struct actors actors = {0};
    struct reader r = {
        .gcs = gcs, .needs = needs, .decoder = mob_block_decoder_create(), .refs = kept_refs_create(gcs)};
    enum mob_status status =
        mob_gcs_each_row_wait(gcs, MOB_GCS_ACTORS, mob_now() + ANSWER_NS, on_actor, &actors);
    if (status == MOB_OK)
        status = r.decoder == NULL || r.refs == NULL ? MOB_NO_MEMORY : actors.status;
    for (size_t i = 0; i < actors.count && status == MOB_OK; i++)
        status = need_actor(&r, actors.rows[i]);
    if (status == MOB_OK)
        status = need_references(&r);
    sort_needs(needs);
    mob_block_decoder_destroy(r.decoder);
    kept_refs_destroy(r.refs);
    free(actors.rows);
    free(r.edges);
    return status;
}

void kept_needs_fini(struct kept_needs *needs)
{
    free(needs->rows);
    *needs = (struct kept_needs){0};
}

/* ---- in PostgreSQL ---- */

#define KEPT_TEXT "2000000"
_Static_assert(MOB_COLD_DAY_KEPT == 2000000, "as in the statements");

/* Buckets of a day that hold something of a group that is needed, by the tables' suffix. */
#define NEEDED_ROWS \
    "(SELECT b.shard, b.upto, b.row_number FROM kept_need n JOIN mobula.stream_day_d%s s ON s.stream = " \
    "n.stream JOIN mobula.bucket_d%s b ON b.ids @> n.key AND (n.shard < 0 OR (b.shard = n.shard AND " \
    "b.seq_max >= n.seq_from)) AND mobula.filter_has(b.group_filter, n.a, n.b, false)) "
#define BUCKET_COLUMNS \
    "job, ids, seq_min, seq_max, time_min_us, time_max_us, longest_us, specs, finals, failed, others, " \
    "group_filter, function_filter, payload"

static enum mob_status copy_needs(struct mob_database *db, const struct kept_needs *needs)
{
    enum mob_status status = mob_copy_begin(db, "COPY kept_need FROM STDIN (FORMAT binary)");
    if (status != MOB_OK)
        return status;
    for (size_t i = 0; i < needs->count; i++) {
        const struct kept_need *n = &needs->rows[i];
        struct mob_bucket_key key = mob_bucket_key(n->stream, n->group << MOB_GROUP_SHIFT);
        struct mob_bloom_hash hash = mob_bucket_group_hash(n->stream, n->group);
        mob_copy_row(db, 6);
        mob_copy_bytes(db, &n->stream, sizeof n->stream);
        mob_copy_bytes(db, &key, sizeof key);
        mob_copy_i64(db, hash.a);
        mob_copy_i64(db, hash.b);
        mob_copy_i32(db, n->shard);
        mob_copy_i64(db, n->seq_from);
    }
    return mob_copy_end(db);
}

enum mob_status kept_make_tables(struct mob_database *db)
{
    enum mob_status status = mob_database_run(db,
        "BEGIN; CREATE TABLE IF NOT EXISTS mobula.bucket_d" KEPT_TEXT
        " PARTITION OF mobula.bucket FOR VALUES FROM (" KEPT_TEXT ") TO (" KEPT_TEXT " + 1); "
        "CREATE TABLE IF NOT EXISTS mobula.stream_day_d" KEPT_TEXT
        " PARTITION OF mobula.stream_day FOR VALUES FROM (" KEPT_TEXT ") TO (" KEPT_TEXT " + 1); COMMIT");
    if (status != MOB_OK)
        mob_database_rollback(db);
    return status;
}

enum mob_status kept_begin(struct mob_database *db, const struct kept_needs *needs)
{
    enum mob_status status = mob_database_run(db,
        "CREATE TEMP TABLE kept_need (stream bytea, key bytea, a bigint, b bigint, shard integer, "
        "seq_from bigint) ON COMMIT DROP");
    return status == MOB_OK ? copy_needs(db, needs) : status;
}

enum mob_status kept_copy_day(struct mob_database *db, int32_t day)
{
    char sql[3072], table[MOB_COLD_TABLE_MAX];
    const char *suffix = mob_cold_table(table, "", day) + sizeof "_d" - 1;
    size_t n = (size_t)snprintf(sql, sizeof sql,
        "INSERT INTO mobula.bucket_d" KEPT_TEXT " (shard, upto, row_number, day, " BUCKET_COLUMNS
        ") SELECT shard, upto, row_number, " KEPT_TEXT ", " BUCKET_COLUMNS
        " FROM mobula.bucket_d%s WHERE (shard, upto, row_number) IN " NEEDED_ROWS "ON CONFLICT DO NOTHING; ",
        suffix, suffix, suffix);
    snprintf(sql + n, sizeof sql - n,
        "INSERT INTO mobula.stream_day_d" KEPT_TEXT " (stream, day) SELECT DISTINCT s.stream, " KEPT_TEXT
        " FROM mobula.stream_day_d%s s JOIN kept_need n ON n.stream = s.stream WHERE NOT EXISTS "
        "(SELECT FROM mobula.stream_day_d" KEPT_TEXT " k WHERE k.stream = s.stream); "
        /* whoever may have something in shared rows that were copied */
        "INSERT INTO mobula.job_copied SELECT job FROM (SELECT job, day FROM mobula.job_day UNION ALL SELECT "
        "job, day FROM mobula.job_gone_day) j WHERE day = %" PRId32
        " AND EXISTS (SELECT FROM mobula.bucket_d%s "
        "b JOIN mobula.bucket_d" KEPT_TEXT " k USING (shard, upto, row_number) WHERE k.job IS NULL) "
        "ON CONFLICT DO NOTHING",
        suffix, day, suffix);
    return mob_database_run(db, sql);
}

enum mob_status kept_tidy(struct mob_database *db)
{
    char sql[2048];
    snprintf(sql, sizeof sql,
        "DELETE FROM mobula.bucket_d" KEPT_TEXT " WHERE (shard, upto, row_number) NOT IN " NEEDED_ROWS
        "; DELETE FROM mobula.stream_day_d" KEPT_TEXT
        " k WHERE NOT EXISTS (SELECT FROM kept_need n WHERE n.stream = k.stream); "
        "DELETE FROM mobula.batch t WHERE t.day_min <= t.day_max AND to_regclass('mobula.bucket_d' || "
        "replace(t.day_min::text, '-', "
        "'m')) IS NULL AND to_regclass('mobula.bucket_d' || replace(t.day_max::text, '-', 'm')) IS NULL "
        "AND NOT EXISTS (SELECT FROM mobula.bucket b WHERE b.shard = t.shard AND b.upto = t.upto); "
        "DELETE FROM mobula.deleted d WHERE NOT EXISTS (SELECT FROM mobula.batch t WHERE t.shard = d.shard "
        "AND t.upto = d.upto)",
        KEPT_TEXT, KEPT_TEXT);
    enum mob_status status = mob_database_run(db, sql);
    bool any = true;
    if (status == MOB_OK)
        status = kept_any(db, &any);
    if (status == MOB_OK && !any)
        status = mob_database_run(db,
            "DROP TABLE mobula.bucket_d" KEPT_TEXT "; DROP TABLE mobula.stream_day_d" KEPT_TEXT
            "; DELETE FROM mobula.job_copied");
    return status;
}

enum mob_status kept_any(struct mob_database *db, bool *out)
{
    static const char sql[] = "SELECT EXISTS (SELECT FROM mobula.bucket WHERE day = " KEPT_TEXT ")";
    struct mob_database_result *rows = NULL;
    enum mob_status status = mob_database_query(db, sql, NULL, 0, &rows);
    *out = status == MOB_OK && mob_database_number(rows, 0, 0) != 0;
    mob_database_result_destroy(rows);
    return status;
}
