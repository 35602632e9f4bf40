#include "gcs/flush/cold.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "gcs/flush/cold_inner.h"

#define GONE_FRESH_NS (2 * MOB_SEC)

struct mob_cold *mob_cold_create(uint32_t shard)
{
    struct mob_cold *c = calloc(1, sizeof *c);
    if (c == NULL)
        return NULL;
    c->shard = (int32_t)shard;
    c->page = cold_page_create();
    if (c->page == NULL) {
        free(c);
        return NULL;
    }
    return c;
}

void mob_cold_destroy(struct mob_cold *c)
{
    if (c == NULL)
        return;
    cold_page_destroy(c->page);
    free(c->gone);
    free(c);
}

const char *mob_cold_table(char out[MOB_COLD_TABLE_MAX], const char *parent, int32_t day)
{
    snprintf(
        out, MOB_COLD_TABLE_MAX, "%s_d%s%" PRId64, parent, day < 0 ? "m" : "", day < 0 ? -(int64_t)day : day);
    return out;
}

/* First column of the first row, or `fallback`. */
static enum mob_status one_number(struct mob_database *db, const char *sql,
    const struct mob_database_param *params, int count, int64_t fallback, int64_t *out)
{
    struct mob_database_result *rows = NULL;
    enum mob_status status = mob_database_query(db, sql, params, count, &rows);
    if (status == MOB_OK)
        *out = mob_database_rows(rows) == 0 || mob_database_null(rows, 0, 0)
            ? fallback
            : mob_database_number(rows, 0, 0);
    mob_database_result_destroy(rows);
    return status;
}

/* ---- deleted jobs ---- */

static int by_bytes(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(struct mob_job_id));
}

static bool is_gone(void *arg, struct mob_job_id job)
{
    const struct mob_cold *c = arg;
    return c->gone_count > 0 && bsearch(&job, c->gone, c->gone_count, sizeof job, by_bytes) != NULL;
}

/* Read anew only when the table has changed: it holds all that were deleted while any of their days is there.
 */
static enum mob_status load_gone(struct mob_cold *c, struct mob_database *db)
{
    static const char version_sql[] = "SELECT version FROM mobula.job_gone_version";
    static const char sql[] = "SELECT job FROM mobula.job_gone ORDER BY job";
    if (c->gone_ns != 0 && mob_now() - c->gone_ns < GONE_FRESH_NS)
        return MOB_OK;
    int64_t version = 0;
    struct mob_database_result *rows = NULL;
    enum mob_status status = one_number(db, version_sql, NULL, 0, 0, &version);
    if (status == MOB_OK && version == c->gone_version) {
        c->gone_ns = mob_now();
        return MOB_OK;
    }
    if (status == MOB_OK)
        status = mob_database_query(db, sql, NULL, 0, &rows);
    if (status != MOB_OK)
        return status;
    size_t count = (size_t)mob_database_rows(rows), length;
    struct mob_job_id *gone = realloc(c->gone, (count + 1) * sizeof *gone);
    if (gone == NULL) {
        mob_database_result_destroy(rows);
        return MOB_NO_MEMORY;
    }
    c->gone = gone;
    c->gone_count = 0;
    for (size_t i = 0; i < count; i++) {
        const uint8_t *bytes = mob_database_bytes(rows, (int)i, 0, &length);
        if (length == sizeof gone[0])
            memcpy(&gone[c->gone_count++], bytes, length);
    }
    c->gone_version = version;
    c->gone_ns = mob_now();
    mob_database_result_destroy(rows);
    return MOB_OK;
}

/* ---- batches and positions ---- */

enum mob_status cold_place(struct mob_cold *c, struct mob_database *db, bool down, struct cold_place *place)
{
    static const char last[] =
        "SELECT upto FROM mobula.batch WHERE shard = $1 AND upto >= $2 ORDER BY upto LIMIT 1";
    static const char behind[] =
        "SELECT upto FROM mobula.batch WHERE shard = $1 AND upto > $2 ORDER BY upto LIMIT 1";
    static const char before[] = "SELECT upto FROM mobula.batch WHERE shard = $1 AND after < $2::bigint - 1 "
                                 "ORDER BY upto DESC LIMIT 1";
    struct mob_database_param p[2];
    mob_param_i32(&p[0], c->shard);
    mob_param_i64(&p[1], (int64_t)place->upto);
    enum mob_status status = one_number(db, last, p, 2, (int64_t)place->upto, &place->last_batch);
    mob_param_i64(&p[1], (int64_t)place->seq);
    if (status == MOB_OK)
        status = one_number(db, down ? before : behind, p, 2, down ? 0 : INT64_MAX, &place->batch);
    return status;
}

enum mob_status cold_next(struct mob_cold *c, struct mob_database *db, bool down,
    const struct cold_place *place, int64_t batch, int32_t row, uint64_t *next_out)
{
    static const char after[] = "SELECT after FROM mobula.batch WHERE shard = $1 AND upto = $2";
    struct mob_database_param p[2];
    if (down) {
        uint64_t seq = (uint64_t)batch + 1 < place->seq ? (uint64_t)batch + 1 : place->seq;
        *next_out = mob_gcs_cold_position(seq, (uint32_t)row);
        return MOB_OK;
    }
    int64_t begin = 0;
    mob_param_i32(&p[0], c->shard);
    mob_param_i64(&p[1], batch);
    enum mob_status status = one_number(db, after, p, 2, 0, &begin);
    uint64_t seq = (uint64_t)begin > place->seq ? (uint64_t)begin : place->seq;
    *next_out = mob_gcs_cold_position(seq, (uint32_t)row + 1);
    return status;
}

static struct cold_wanted cold_wanted_of(struct mob_cold *c, const struct mob_gcs_cold_get *q)
{
    const struct mob_function_id any_function = {0};
    const struct mob_job_id any_job = {0};
    const struct mob_gcs_get *g = &q->get;
    struct cold_wanted w = {.upto = q->upto, .gone = is_gone, .gone_arg = c};
    if (g->query == MOB_GCS_Q_GROUP) {
        w.by_group = true;
        w.stream = g->stream;
        w.group = g->group;
        return w;
    }
    if (g->query == MOB_GCS_Q_GROUPS) {
        w.groups = c->groups;
        w.group_count = c->group_count;
        return w;
    }
    w.by_job = memcmp(&g->job, &any_job, sizeof any_job) != 0;
    w.job = g->job;
    w.by_function = memcmp(&g->function, &any_function, sizeof any_function) != 0;
    w.function = g->function;
    w.failed = g->failed != 0;
    w.cut_seq = g->incarnation;
    w.cut_entries = g->group;
    w.from_wall_ns = g->from_wall_ns;
    w.to_wall_ns = g->to_wall_ns;
    return w;
}

/* ---- rows that came: each a bucket. False: the page is full, and ends before `*at_out` ---- */

enum mob_status cold_take_row(
    struct mob_cold *c, const struct mob_database_result *rows, int at, const struct cold_wanted *wanted)
{
    size_t length;
    const uint8_t *payload = mob_database_bytes(rows, at, 2, &length);
    enum mob_status status = cold_page_add(c->page, payload, length, wanted);
    if (status != MOB_OK && status != MOB_QUEUE_FULL)
        MOB_LOG_ERROR("flush", "bucket_bad", "shard=%d upto=%lld row=%lld why=%s", c->shard,
            (long long)mob_database_number(rows, at, 0), (long long)mob_database_number(rows, at, 1),
            mob_status_code(status));
    return status;
}

enum mob_status cold_take_rows(struct mob_cold *c, const struct mob_database_result *rows,
    const struct cold_wanted *wanted, uint32_t limit, int *at_out)
{
    int count = mob_database_rows(rows);
    enum mob_status status = MOB_OK;
    for (*at_out = 0; *at_out < count && !cold_page_full(c->page, limit); ++*at_out) {
        status = cold_take_row(c, rows, *at_out, wanted);
        if (status != MOB_OK)
            break;
    }
    return status == MOB_QUEUE_FULL ? MOB_OK : status;
}

/* ---- one read ---- */

static enum mob_status read_page(struct mob_cold *c, struct mob_database *db,
    const struct mob_gcs_cold_get *q, struct cold_behind *next_out)
{
    struct cold_wanted wanted = cold_wanted_of(c, q);
    bool down = q->get.query == MOB_GCS_Q_SCAN && q->get.newest_first;
    struct cold_place place = {.upto = q->upto,
        .seq = q->get.position == 0 ? (down ? q->upto + 1 : 0) : mob_gcs_cold_seq(q->get.position),
        .row = q->get.position == 0 ? (down ? MOB_GCS_COLD_ROW_MAX : 0) : mob_gcs_cold_row(q->get.position)};
    bool by_time = (q->get.position & MOB_GCS_COLD_TIME_BIT) != 0;
    if (down && !by_time && place.seq > 0 && place.seq <= q->upto)
        wanted.upto = place.seq - 1;
    if (!down && !by_time)
        wanted.above = place.seq;
    wanted.down = down;
    enum mob_status status = load_gone(c, db);
    if (status != MOB_OK)
        return status;
    switch ((enum mob_gcs_query)q->get.query) {
    case MOB_GCS_Q_GROUPS:
        if (c->group_count == 0)
            return MOB_INVALID;
        return cold_read_group(c, db, &wanted, place, &next_out->position);
    case MOB_GCS_Q_GROUP:
        return cold_read_group(c, db, &wanted, place, &next_out->position);
    case MOB_GCS_Q_SCAN:
        return q->get.failed ? cold_read_failures(c, db, q, &wanted, next_out)
                             : cold_read_scan(c, db, q, &wanted, place, &next_out->position);
    case MOB_GCS_Q_HISTORY:
        return cold_read_history(c, db, q, &wanted, next_out);
    case MOB_GCS_Q_GET:
    case MOB_GCS_Q_LIST:
    case MOB_GCS_Q_UNFINISHED:
    case MOB_GCS_Q_LOG:
    case MOB_GCS_Q_INCARNATIONS:
    case MOB_GCS_Q_STATS:
    case MOB_GCS_Q_MARKS:
    case MOB_GCS_Q_INDEX:
    case MOB_GCS_QUERIES:
    default:
        return MOB_INVALID;
    }
}

enum mob_status mob_cold_read(struct mob_cold *c, struct mob_database *db,
    const struct mob_gcs_cold_get *query, struct mob_gcs_cold_answer *answer_out)
{
    enum mob_status status = MOB_OK;
    struct cold_behind next = {0};
    for (int attempt = 0; attempt < 3; attempt++) { /* a partition may go between two statements */
        cold_page_begin(c->page);
        next = (struct cold_behind){0};
        status = read_page(c, db, query, &next);
        if (status != MOB_NOT_FOUND)
            break;
    }
    cold_page_end(c->page);
    *answer_out = (struct mob_gcs_cold_answer){.tag = query->get.tag, .status = status};
    if (status != MOB_OK)
        return status;
    answer_out->blocks = c->page->rows;
    answer_out->block_count = c->page->count;
    answer_out->next = next.position;
    answer_out->tie = next.tie;
    return status;
}

enum mob_status mob_cold_read_groups(struct mob_cold *c, struct mob_database *db,
    const struct mob_gcs_cold_get *query, const struct mob_gcs_group_key *groups, uint32_t count,
    struct mob_gcs_cold_answer *answer_out)
{
    c->group_count = count < MOB_GCS_GROUPS_MAX ? count : MOB_GCS_GROUPS_MAX;
    if (c->group_count > 0)
        memcpy(c->groups, groups, c->group_count * sizeof *groups);
    qsort(c->groups, c->group_count, sizeof *groups, cold_by_group);
    enum mob_status status = mob_cold_read(c, db, query, answer_out);
    c->group_count = 0;
    return status;
}

enum mob_status mob_cold_function(
    struct mob_cold *c, struct mob_database *db, struct mob_task_id task, struct mob_function_id *out)
{
    struct cold_task one = {.id = task};
    struct cold_wanted wanted = {.upto = MOB_GCS_COLD_SEQ_MAX,
        .by_group = true,
        .tasks = &one,
        .task_count = 1,
        .stream = task.stream,
        .group = task.index >> MOB_GROUP_SHIFT};
    struct cold_place place = {.upto = MOB_GCS_COLD_SEQ_MAX};
    uint64_t next = 0;
    cold_page_begin(c->page);
    enum mob_status status = cold_read_group(c, db, &wanted, place, &next);
    cold_page_end(c->page);
    for (uint32_t i = 0; status == MOB_OK && i < c->page->count; i++) {
        struct mob_block_header h;
        struct cold_page *p = c->page;
        status = mob_block_open(p->decoder, p->rows[i].bytes, p->rows[i].length, &h, &p->zone);
        while (status == MOB_OK && (status = mob_block_next(p->decoder, &p->entry)) == MOB_OK) {
            if (p->entry.type != MOB_ENTRY_SPEC)
                continue;
            *out = p->entry.spec.head.function;
            return MOB_OK;
        }
        status = status == MOB_CLOSED ? MOB_OK : status;
    }
    return status == MOB_OK ? MOB_NOT_FOUND : status;
}
