/* Does the control store have what it says it has? Members are compared with each other and with their Redis;
 * blocks that are there are decoded and looked up by groups of theirs; what was flushed is decoded and
 * counted against what its batches took in; what is in both places is compared entry by entry. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "cli/gcs_verify.h"

#define SETTLED_S "3" /* later than that no reader gives anything of a deleted job */
#define SETTLED_TIMES 100u

void verify_add_entry(struct verify_sums *s, const struct mob_entry *e)
{
    bool final = e->type == MOB_ENTRY_COMPLETION && (e->completion.head.flags & MOB_COMPLETION_FINAL) != 0;
    s->specs += e->type == MOB_ENTRY_SPEC;
    s->finals += final;
    s->failed += final && e->completion.head.status != MOB_OK;
    s->others += e->type != MOB_ENTRY_SPEC && !final; /* an attempt's end, too */
}

void verify_pause(void)
{
    nanosleep(&(struct timespec){.tv_nsec = VERIFY_PAUSE_NS}, NULL);
}

bool verify_again(size_t count, unsigned times, unsigned most)
{
    return count > 0 && times < (count > VERIFY_AGAIN_MANY ? most / 5 : most);
}

void verify_say(struct verify *v, enum verify_verdict verdict, const char *what, const char *figures)
{
    static const char *const words[] = {"ok", "FAILED", "PARTLY"},
                             *const values[] = {"true", "false", "null"};
    char shard[24] = "";
    bool json = v->g->call->format == CLI_JSON || v->g->call->format == CLI_JSONL;
    v->failed_checks += verdict == VERIFY_BAD;
    v->not_compared += verdict == VERIFY_NOT_COMPARED;
    if (v->g->shards > 1)
        snprintf(shard, sizeof shard, json ? "\"shard\":%u," : "shard %u: ", v->g->shard);
    if (json)
        printf("{%s\"check\":\"%s\",\"ok\":%s,\"figures\":\"%s\"}\n", shard, what, values[verdict], figures);
    else
        printf("%-6s %s%s: %s\n", words[verdict], shard, what, figures);
}

/* ---- PostgreSQL ---- */

static void check_batches_follow(struct verify *v)
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
    verify_say(v, holes == 0 ? VERIFY_GOOD : VERIFY_BAD, "batches follow each other", figures);
}

/* Changes with each job that is deleted, and with each day that goes or comes. */
static int64_t deletions(struct verify *v)
{
    return gcs_number(v->g,
        "SELECT version * 1000003 + (SELECT coalesce(sum(inhrelid::bigint), 0)::bigint FROM pg_inherits "
        "WHERE "
        "inhparent = 'mobula.bucket'::regclass) FROM mobula.job_gone_version");
}

/* What was read through the members, against what lies in PostgreSQL, row by row. */
static void check_flushed(struct verify *v, bool deleted_meanwhile)
{
    char figures[VERIFY_FIGURES_MAX];
    const struct verify_sums *s = &v->flushed, *n = &v->visible;
    bool same =
        s->specs == n->specs && s->finals == n->finals && s->failed == n->failed && s->others == n->others;
    snprintf(figures, sizeof figures,
        "specs %" PRIu64 " of %" PRIu64 ", ends %" PRIu64 " of %" PRIu64 ", failed %" PRIu64 " of %" PRIu64
        ", others %" PRIu64 " of %" PRIu64 "%s",
        s->specs, n->specs, s->finals, n->finals, s->failed, n->failed, s->others, n->others,
        !same && deleted_meanwhile ? " (a job or a day was deleted meanwhile: not compared)" : "");
    bool good = same && s->damaged == 0;
    verify_say(v,
        good                                       ? VERIFY_GOOD
            : s->damaged == 0 && deleted_meanwhile ? VERIFY_NOT_COMPARED
                                                   : VERIFY_BAD,
        "what was flushed is in PostgreSQL", figures);
}

static void wait_for_readers(struct verify *v)
{
    for (unsigned i = 0; i < SETTLED_TIMES &&
         gcs_number(v->g,
             "SELECT count(*) FROM mobula.job_gone WHERE gone_at > now() - interval '" SETTLED_S
             " seconds'") > 0;
         i++)
        verify_pause();
}

/* ---- the whole ---- */

static enum cli_exit unreachable(const struct verify *v)
{
    return v->failed_checks == 0 ? CLI_UNREACHABLE : CLI_FAILED; /* perhaps because of what was found */
}

static enum cli_exit verify(struct verify *v)
{
    struct mob_gcs_stats before;
    if (!gcs_stats(v->g, &before))
        return unreachable(v);
    v->flushed_upto = before.flushed;
    if (before.flushed > 0 && v->g->db == NULL) {
        cli_say("lineage was flushed, and no PostgreSQL runs here");
        return CLI_UNREACHABLE;
    }
    bool database = v->g->db != NULL &&
        gcs_number(v->g,
            "SELECT count(*) FROM pg_tables WHERE schemaname = 'mobula' AND tablename = 'job_gone_version'") >
            0;
    if (database)
        wait_for_readers(v);
    int64_t deletions_before = database ? deletions(v) : 0;
    if (!verify_chain(v))
        return unreachable(v);
    if (database) {
        check_batches_follow(v);
        if (!verify_database(v))
            return unreachable(v);
        check_flushed(v, deletions(v) != deletions_before);
        if (!verify_both(v))
            return unreachable(v);
    }
    return v->failed_checks > 0 ? CLI_FAILED : v->not_compared > 0 ? CLI_PARTIAL : CLI_OK;
}

enum cli_exit gcs_verify(struct gcs_call *g)
{
    struct verify v = {.g = g, .decoder = mob_block_decoder_create(), .encoder = mob_block_encoder_create()};
    enum cli_exit code = CLI_FAILED;
    if (v.decoder != NULL && v.encoder != NULL)
        code = verify_members(&v) ? verify(&v) : CLI_FAILED;
    mob_block_decoder_destroy(v.decoder);
    mob_block_encoder_destroy(v.encoder);
    free(v.known);
    return code;
}
