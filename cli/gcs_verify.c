/* Does the control store have what it says it has? Blocks that are there are decoded and looked up by a group
 * of theirs; what was flushed is decoded and counted against what its batches took in; what is in both places
 * is compared batch by batch. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/gcs_verify.h"
#include "common/base/hash.h"
#include "gcs/flush/cold_page.h"

#define LOOKUPS_MAX 4000u

void verify_add_entry(struct verify_sums *s, const struct mob_entry *e)
{
    bool final = e->type == MOB_ENTRY_COMPLETION && (e->completion.head.flags & MOB_COMPLETION_FINAL) != 0;
    s->specs += e->type == MOB_ENTRY_SPEC;
    s->finals += final;
    s->failed += final && e->completion.head.status != MOB_OK;
    s->others += e->type != MOB_ENTRY_SPEC && !final; /* an attempt's end, too */
}

uint64_t verify_digest(struct verify *v, const struct mob_entry *e)
{
    static uint8_t bytes[MOB_BLOCK_BYTES_MAX];
    static const struct mob_block_header none = {.ns = "v"};
    mob_block_begin(v->encoder, &none);
    if (cold_page_encode(v->encoder, e) != MOB_OK)
        return 0;
    return mob_hash64(bytes, mob_block_end(v->encoder, bytes));
}

/* Decodes every entry. */
static struct verify_sums sums_of(
    struct verify *v, const struct mob_gcs_block_row *row, struct mob_zone_map *zone)
{
    static struct mob_entry entry;
    struct mob_block_header header;
    struct verify_sums s = {.blocks = 1};
    enum mob_status status = mob_block_open(v->decoder, row->bytes, row->length, &header, zone);
    while (status == MOB_OK && (status = mob_block_next(v->decoder, &entry)) == MOB_OK)
        verify_add_entry(&s, &entry);
    s.damaged = status != MOB_CLOSED;
    if (s.damaged)
        cli_say("the block at %" PRIu64 " does not decode: %s", row->seq, mob_status_text(status));
    return s;
}

static void add(struct verify_sums *to, const struct verify_sums *s)
{
    to->blocks += s->blocks;
    to->specs += s->specs;
    to->finals += s->finals;
    to->failed += s->failed;
    to->others += s->others;
    to->damaged += s->damaged;
}

void verify_say(struct verify *v, bool good, const char *what, const char *figures)
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

/* The index in both directions: the block at `seq` is among those of its group, and whatever is among them
 * has something of the group. */
static bool group_is_right(struct verify *v, const struct mob_zone_group *g, uint64_t seq)
{
    static struct mob_zone_map zone; /* too large for the stack */
    struct mob_block_header header;
    bool found = false, foreign = false;
    uint64_t position = 0;
    do {
        struct mob_gcs_sync sync = {0};
        struct mob_gcs_result *r = gcs_wait(v->g,
            mob_gcs_group_here(v->g->gcs, g->stream, g->group, position, mob_gcs_sync_done, &sync), &sync);
        if (r == NULL)
            return false;
        const struct mob_gcs_answer *a = mob_gcs_result_answer(r);
        for (uint32_t i = 0; i < a->block_count; i++) {
            const struct mob_gcs_block_row *row = &a->blocks[i];
            bool has = mob_block_peek(row->bytes, row->length, &header, &zone) != MOB_OK;
            for (uint32_t k = 0; k < zone.group_count && !has; k++)
                has = zone.groups[k].group == g->group && mob_stream_eq(zone.groups[k].stream, g->stream);
            found |= row->seq == seq;
            if (!has)
                cli_say("the index has the block at %" PRIu64 " in a group that it has nothing of", row->seq);
            foreign |= !has;
        }
        position = a->next;
        mob_gcs_result_destroy(r);
    } while (position != 0);
    if (!found)
        cli_say("the index lacks the block at %" PRIu64 " in a group of it", seq);
    return found && !foreign;
}

static void look_up(struct verify *v, const struct mob_zone_map *zone, uint64_t seq)
{
    for (uint32_t i = 0; i < zone->group_count && v->lookups < LOOKUPS_MAX; i++) {
        v->lookups++;
        v->lookups_failed += !group_is_right(v, &zone->groups[i], seq);
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
            struct verify_sums s = sums_of(v, row, &zone);
            add(row->recut && row->seq <= flushed ? &v->flushed : &v->here, &s);
            if (row->recut)
                continue;
            look_up(v, &zone, row->seq);
        }
        scan.position = a->next;
        mob_gcs_result_destroy(r);
    } while (scan.position != 0);
    return true;
}

/* ---- PostgreSQL ---- */

/* What a statement counts, against what was counted here. `gone`: jobs were deleted, so less may be there. */
static bool same_sums(struct verify *v, const char *sql, int64_t upto, const struct verify_sums *s, bool gone,
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

/* Deleted with their job, or with their day while the batch had others. */
static bool less_is_there(struct verify *v)
{
    return gcs_number(v->g, "SELECT count(*) FROM mobula.job_gone") > 0 ||
        gcs_shard_number(v->g,
            "SELECT count(*) FROM mobula.batch WHERE shard = $1 AND day_min < (SELECT min(day) FROM "
            "mobula.bucket)") > 0;
}

static void check_database(struct verify *v, uint64_t flushed, bool gone)
{
    char figures[VERIFY_FIGURES_MAX];
    /* Behind a batch of an earlier day, or of one that is gone, others may have been dropped. */
    int64_t holes = gcs_shard_number(v->g,
        "SELECT count(*) FROM mobula.batch b WHERE shard = $1 AND after <> 0 AND NOT EXISTS (SELECT FROM "
        "mobula.batch a WHERE a.shard = b.shard AND a.upto = b.after) AND NOT EXISTS "
        "(SELECT FROM mobula.gap g WHERE g.shard = b.shard AND g.upto = b.after) AND "
        "EXISTS (SELECT FROM mobula.batch a WHERE a.shard = b.shard AND a.upto = (SELECT max(p.upto) FROM "
        "mobula.batch p WHERE p.shard = b.shard AND p.upto < b.upto) AND a.day_max >= b.day_min AND "
        "to_regclass('mobula.bucket_d' || replace(a.day_max::text, '-', 'm')) IS NOT NULL)");
    int64_t gaps = gcs_shard_number(v->g, "SELECT count(*) FROM mobula.gap WHERE shard = $1");
    snprintf(figures, sizeof figures, "%" PRId64 " batches, %" PRId64 " holes, %" PRId64 " named gaps",
        gcs_shard_number(v->g, "SELECT count(*) FROM mobula.batch WHERE shard = $1"), holes, gaps);
    verify_say(v, holes == 0, "batches follow each other", figures);
    bool good = same_sums(v,
        "SELECT sum(specs)::bigint, sum(finals)::bigint, sum(failed)::bigint, sum(others)::bigint FROM "
        "mobula.batch WHERE upto <= $1 AND shard = $2",
        (int64_t)flushed, &v->flushed, gone, figures, sizeof figures);
    verify_say(v, good && v->flushed.damaged == 0, "what was flushed is in PostgreSQL", figures);
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
    if (!scan(v, before.flushed) || !gcs_stats(v->g, &after)) /* perhaps because of what was found */
        return v->failed_checks == 0 ? CLI_UNREACHABLE : CLI_FAILED;
    bool quiet = before.applied == after.applied && before.flushed == after.flushed;
    snprintf(figures, sizeof figures, "%" PRIu64 " of %" PRIu64 " blocks, %" PRIu64 " damaged%s",
        v->here.blocks, after.blocks, v->here.damaged,
        quiet ? "" : " (and it went on meanwhile: not compared)");
    verify_say(v, v->here.damaged == 0 && (!quiet || v->here.blocks == after.blocks), "blocks of the member",
        figures);
    snprintf(figures, sizeof figures, "%" PRIu64 " of %" PRIu64 " groups of blocks are wrong",
        v->lookups_failed, v->lookups);
    verify_say(v, v->lookups_failed == 0 || !quiet, "index of the member", figures);
    if (database && before.flushed == after.flushed) {
        bool gone = less_is_there(v);
        check_database(v, before.flushed, gone);
        if (!verify_database(v, before.flushed, gone))
            return CLI_UNREACHABLE;
    }
    return v->failed_checks == 0 ? CLI_OK : CLI_FAILED;
}

enum cli_exit gcs_verify(struct gcs_call *g)
{
    struct verify v = {.g = g, .decoder = mob_block_decoder_create(), .encoder = mob_block_encoder_create()};
    enum cli_exit code = CLI_FAILED;
    if (v.decoder != NULL && v.encoder != NULL)
        code = verify_members(&v) ? verify(&v) : CLI_FAILED;
    mob_block_decoder_destroy(v.decoder);
    mob_block_encoder_destroy(v.encoder);
    return code;
}
