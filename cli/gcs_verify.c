/* Does the control store have what it says it has? Blocks that are there are decoded and looked up by a group
 * of theirs; what was flushed is decoded and counted against what its batches took in; what is in both places
 * is compared batch by batch. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cmd_gcs.h"
#include "common/wire/block.h"

#define LOOKUPS_MAX 1000u

struct sums {
    uint64_t blocks, specs, finals, failed, others, damaged;
};
struct verify {
    struct gcs_call *g;
    struct mob_block_decoder *decoder;
    struct sums here, flushed;
    uint64_t lookups, lookups_failed;
    /* The batches that are in both places: where each ends, and what of it is here. */
    uint64_t *ends;
    struct sums *of_ends;
    int end_count;
    int failed_checks;
};

static void add_entry(struct sums *s, const struct mob_entry *e)
{
    bool final = e->type == MOB_ENTRY_COMPLETION && (e->completion.head.flags & MOB_COMPLETION_FINAL) != 0;
    s->specs += e->type == MOB_ENTRY_SPEC;
    s->finals += final;
    s->failed += final && e->completion.head.status != MOB_OK;
    s->others += e->type != MOB_ENTRY_SPEC && e->type != MOB_ENTRY_COMPLETION;
}

/* Decodes every entry. */
static struct sums sums_of(struct verify *v, const struct mob_gcs_block_row *row, struct mob_zone_map *zone)
{
    static struct mob_entry entry;
    struct mob_block_header header;
    struct sums s = {.blocks = 1};
    enum mob_status status = mob_block_open(v->decoder, row->bytes, row->length, &header, zone);
    while (status == MOB_OK && (status = mob_block_next(v->decoder, &entry)) == MOB_OK)
        add_entry(&s, &entry);
    s.damaged = status != MOB_CLOSED;
    if (s.damaged)
        cli_say("the block at %" PRIu64 " does not decode: %s", row->seq, mob_status_text(status));
    return s;
}

static void add(struct sums *to, const struct sums *s)
{
    to->blocks += s->blocks;
    to->specs += s->specs;
    to->finals += s->finals;
    to->failed += s->failed;
    to->others += s->others;
    to->damaged += s->damaged;
}

static void say(struct verify *v, bool good, const char *what, const char *figures)
{
    char shard[24] = "";
    bool json = v->g->call->format == CLI_JSON || v->g->call->format == CLI_JSONL;
    v->failed_checks += !good;
    if (v->g->shards > 1)
        snprintf(shard, sizeof shard, json ? "\"shard\":%u," : "shard %u: ", v->g->shard);
    if (json)
        printf("{%s\"check\":\"%s\",\"ok\":%s,\"figures\":\"%s\"}\n", shard, what, good ? "true" : "false",
            figures);
    else
        printf("%-6s %s%s: %s\n", good ? "ok" : "FAILED", shard, what, figures);
}

/* ---- blocks that are here ---- */

/* Is the block at `seq` among those of its first group? */
static void look_up(struct verify *v, const struct mob_zone_map *zone, uint64_t seq)
{
    bool found = false;
    uint64_t position = 0;
    if (zone->group_count == 0 || v->lookups == LOOKUPS_MAX)
        return;
    do {
        struct mob_gcs_sync sync = {0};
        struct mob_gcs_result *r = gcs_wait(v->g,
            mob_gcs_group_here(
                v->g->gcs, zone->groups[0].stream, zone->groups[0].group, position, mob_gcs_sync_done, &sync),
            &sync);
        if (r == NULL)
            break;
        const struct mob_gcs_answer *a = mob_gcs_result_answer(r);
        for (uint32_t i = 0; i < a->block_count; i++)
            found |= a->blocks[i].seq == seq;
        position = a->next;
        mob_gcs_result_destroy(r);
    } while (!found && position != 0);
    v->lookups++;
    v->lookups_failed += !found;
}

static void add_to_batch(struct verify *v, uint64_t seq, const struct sums *s)
{
    for (int i = 0; i < v->end_count; i++)
        if (seq <= v->ends[i]) {
            add(&v->of_ends[i], s);
            return;
        }
}

static bool scan(struct verify *v, uint64_t flushed)
{
    static struct mob_zone_map zone;
    struct mob_gcs_scan scan = {.position = 0};
    do {
        struct mob_gcs_sync sync = {0};
        struct mob_gcs_result *r =
            gcs_wait(v->g, mob_gcs_scan(v->g->gcs, &scan, mob_gcs_sync_done, &sync), &sync);
        if (r == NULL)
            return false;
        const struct mob_gcs_answer *a = mob_gcs_result_answer(r);
        for (uint32_t i = 0; i < a->block_count; i++) {
            const struct mob_gcs_block_row *row = &a->blocks[i];
            struct sums s = sums_of(v, row, &zone);
            add(row->recut && row->seq <= flushed ? &v->flushed : &v->here, &s);
            if (row->recut)
                continue;
            add_to_batch(v, row->seq, &s);
            if (row->seq % 16 == 0)
                look_up(v, &zone, row->seq);
        }
        scan.position = a->next;
        mob_gcs_result_destroy(r);
    } while (scan.position != 0);
    return true;
}

/* ---- PostgreSQL ---- */

static bool load_ends(struct verify *v, uint64_t flushed)
{
    static const char sql[] = "SELECT upto FROM mobula.batch WHERE shard = $2 AND upto > $1 ORDER BY upto";
    struct mob_database_param p[2];
    struct mob_database_result *rows = NULL;
    mob_param_i64(&p[0], (int64_t)flushed);
    mob_param_i32(&p[1], (int32_t)v->g->shard);
    if (mob_database_query_once(v->g->db, sql, p, 2, &rows) != MOB_OK)
        return false;
    v->end_count = mob_database_rows(rows);
    v->ends = calloc((size_t)v->end_count + 1, sizeof *v->ends);
    v->of_ends = calloc((size_t)v->end_count + 1, sizeof *v->of_ends);
    for (int i = 0; i < v->end_count && v->ends != NULL; i++)
        v->ends[i] = (uint64_t)mob_database_number(rows, i, 0);
    mob_database_result_destroy(rows);
    return v->ends != NULL && v->of_ends != NULL;
}

/* What a statement counts, against what was counted here. `gone`: jobs were deleted, so less may be there. */
static bool same_sums(struct verify *v, const char *sql, int64_t upto, const struct sums *s, bool gone,
    char *out, size_t capacity)
{
    struct mob_database_param p[2];
    struct mob_database_result *rows = NULL;
    mob_param_i64(&p[0], upto);
    mob_param_i32(&p[1], (int32_t)v->g->shard);
    if (mob_database_query_once(v->g->db, sql, p, 2, &rows) != MOB_OK)
        return false;
    uint64_t n[4] = {0};
    for (int i = 0; i < 4 && mob_database_rows(rows) == 1; i++)
        n[i] = mob_database_null(rows, 0, i) ? 0 : (uint64_t)mob_database_number(rows, 0, i);
    mob_database_result_destroy(rows);
    snprintf(out, capacity,
        "specs %" PRIu64 " of %" PRIu64 ", ends %" PRIu64 " of %" PRIu64 ", failed %" PRIu64 " of %" PRIu64
        ", others %" PRIu64 " of %" PRIu64,
        s->specs, n[0], s->finals, n[1], s->failed, n[2], s->others, n[3]);
    if (gone)
        return s->specs <= n[0] && s->finals <= n[1] && s->failed <= n[2] && s->others <= n[3];
    return s->specs == n[0] && s->finals == n[1] && s->failed == n[2] && s->others == n[3];
}

static void check_database(struct verify *v, uint64_t flushed)
{
    char figures[256];
    /* Deleted with their job, or with their day while the batch had others. */
    bool gone = gcs_number(v->g, "SELECT count(*) FROM mobula.job_gone") > 0 ||
        gcs_shard_number(v->g,
            "SELECT count(*) FROM mobula.batch WHERE shard = $1 AND day_min < (SELECT min(day) FROM "
            "mobula.bucket)") > 0;
    int64_t holes = gcs_shard_number(v->g,
        "SELECT count(*) FROM mobula.batch b WHERE shard = $1 AND after <> 0 AND NOT EXISTS (SELECT FROM "
        "mobula.batch a WHERE a.shard = b.shard AND a.upto = b.after) AND NOT EXISTS "
        "(SELECT FROM mobula.gap g WHERE g.shard = b.shard AND g.upto = b.after) AND "
        "EXISTS (SELECT FROM mobula.batch a WHERE a.shard = b.shard AND a.upto < b.upto)");
    int64_t gaps = gcs_shard_number(v->g, "SELECT count(*) FROM mobula.gap WHERE shard = $1");
    snprintf(figures, sizeof figures, "%" PRId64 " batches, %" PRId64 " holes, %" PRId64 " named gaps",
        gcs_shard_number(v->g, "SELECT count(*) FROM mobula.batch WHERE shard = $1"), holes, gaps);
    say(v, holes == 0, "batches follow each other", figures);
    bool good = same_sums(v,
        "SELECT sum(specs)::bigint, sum(finals)::bigint, sum(failed)::bigint, sum(others)::bigint FROM "
        "mobula.batch WHERE upto <= $1 AND shard = $2",
        (int64_t)flushed, &v->flushed, gone, figures, sizeof figures);
    say(v, good && v->flushed.damaged == 0, "what was flushed is in PostgreSQL", figures);
    int wrong = 0;
    for (int i = 0; i < v->end_count; i++)
        wrong += !same_sums(v,
            "SELECT specs, finals, failed, others FROM mobula.batch WHERE upto = $1 AND shard = $2",
            (int64_t)v->ends[i], &v->of_ends[i], true, figures, sizeof figures);
    snprintf(figures, sizeof figures, "%d of %d batches differ", wrong, v->end_count);
    say(v, wrong == 0, "what is in both places is the same", figures);
}

static enum cli_exit verify(struct verify *v)
{
    struct mob_gcs_stats before, after;
    char figures[256];
    if (!gcs_stats(v->g, &before))
        return CLI_UNREACHABLE;
    if (before.flushed > 0 && v->g->db == NULL) {
        cli_say("lineage was flushed, and no PostgreSQL runs here");
        return CLI_UNREACHABLE;
    }
    bool database = v->g->db != NULL &&
        gcs_number(
            v->g, "SELECT count(*) FROM pg_tables WHERE schemaname = 'mobula' AND tablename = 'batch'") > 0;
    if ((database && !load_ends(v, before.flushed)) || !scan(v, before.flushed) || !gcs_stats(v->g, &after))
        return CLI_UNREACHABLE;
    bool quiet = before.applied == after.applied && before.flushed == after.flushed;
    snprintf(figures, sizeof figures, "%" PRIu64 " of %" PRIu64 " blocks, %" PRIu64 " damaged%s",
        v->here.blocks, after.blocks, v->here.damaged,
        quiet ? "" : " (and it went on meanwhile: not compared)");
    say(v, v->here.damaged == 0 && (!quiet || v->here.blocks == after.blocks), "blocks of the member",
        figures);
    snprintf(figures, sizeof figures, "%" PRIu64 " of %" PRIu64 " looked up by a group were not found",
        v->lookups_failed, v->lookups);
    say(v, v->lookups_failed == 0 || !quiet, "index of the member", figures);
    if (database && before.flushed == after.flushed)
        check_database(v, before.flushed);
    return v->failed_checks == 0 ? CLI_OK : CLI_FAILED;
}

enum cli_exit gcs_verify(struct gcs_call *g)
{
    struct verify v = {.g = g, .decoder = mob_block_decoder_create()};
    enum cli_exit code = v.decoder == NULL ? CLI_FAILED : verify(&v);
    mob_block_decoder_destroy(v.decoder);
    free(v.ends);
    free(v.of_ends);
    return code;
}
