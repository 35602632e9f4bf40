/* `mobula gcs status`: the chain and each of its members; the figures of the member that answers; what was
 * flushed. */
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "cli/gcs_members.h"
#include "cli/table.h"
#include "common/base/clock.h"
#include "common/wire/recover_row.h"
#include "gcs/flush/figures.h"

#define LOSS_KEY_BYTES 8
#define LOSSES_SHOWN 100
#define MEMBER_SILENCE_NS (2 * MOB_SEC) /* of one that hangs: the master has it replaced before long */

/* ---- the chain ---- */

static json_t *member_row(
    const struct mob_gcs_config *chain, const struct mob_gcs_stats *s, uint64_t newest, uint32_t places)
{
    char id[20];
    snprintf(id, sizeof id, "%" PRIx64, s->self);
    const char *role = places == 1 ? "sole" : mob_member_role(chain, s->self);
    const char *store = s->store[0] != 0 ? s->store : NULL; /* an earlier version does not say it */
    json_t *row = json_pack("{s:s? s:s s:I s:s? s:s s:I s:I s:I s:I s:I s:I s:I}", "role", role, "state",
        s->state, "for_ms", (json_int_t)s->state_ms, "store", store, "id", id, "epoch", (json_int_t)s->epoch,
        "applied", (json_int_t)s->applied, "lag", (json_int_t)(newest - s->applied), "committed",
        (json_int_t)s->committed, "durable", (json_int_t)s->durable, "redis_bytes",
        (json_int_t)s->redis_bytes, "member_bytes", (json_int_t)s->member_bytes);
    if (s->lease_ms == 0) /* it sends no heartbeats, or is of an earlier version */
        return row;
    if (s->joiner != 0) {
        snprintf(id, sizeof id, "%" PRIx64, s->joiner);
        json_object_set_new(row, "joiner", json_string(id));
    }
    json_object_set_new(row, "paced_ms", json_integer((json_int_t)s->paced_ms));
    json_object_set_new(row, "realtime", json_string(s->realtime != 0 ? "yes" : "no"));
    json_object_set_new(row, "lease_ms", json_integer((json_int_t)s->lease_ms));
    json_object_set_new(row, "suspicion_ms", json_integer((json_int_t)s->suspicion_ms));
    return row;
}

/* Each member by itself, in the order of their places: the others are known to the one that answers by their
 * ids only, and one that hangs says nothing. NULL after a message. */
static json_t *chain_members(struct gcs_call *g, const struct mob_gcs_config *chain)
{
    struct mob_member_place places[STATE_REPLICAS_MAX];
    struct mob_member_options options[STATE_REPLICAS_MAX];
    struct mob_member_answer said[STATE_REPLICAS_MAX];
    uint8_t secret[STATE_SECRET_BYTES];
    uint64_t newest = 0;
    uint32_t count = gcs_member_places(g, places);
    for (uint32_t i = 0; i < count; i++) {
        if (!gcs_member_options(g, secret, &options[i]))
            return NULL;
        options[i].path = places[i].path;
    }
    mob_members_ask(options, count, mob_deadline_after(MEMBER_SILENCE_NS), said);
    for (uint32_t i = 0; i < count; i++)
        if (said[i].status == MOB_OK && said[i].stats.applied > newest)
            newest = said[i].stats.applied;
    json_t *rows = json_array();
    for (uint32_t i = 0; i < count; i++) {
        json_t *row = said[i].status == MOB_OK
            ? member_row(chain, &said[i].stats, newest, count)
            : json_pack("{s:n s:s}", "role", "state", mob_status_code(said[i].status));
        json_object_set_new(row, "member", json_string(places[i].name));
        json_array_append_new(rows, row);
    }
    return rows;
}

static void print_chain(struct gcs_call *g, bool json)
{
    static const char *const shown[] = {"member", "role", "state", "for_ms", "store", "id", "epoch",
        "applied", "lag", "committed", "durable", "redis_bytes", "member_bytes", "realtime", "lease_ms",
        "suspicion_ms", NULL};
    struct mob_gcs_config chain;
    mob_gcs_chain(g->gcs, &chain);
    json_t *members = chain_members(g, &chain);
    if (members == NULL)
        members = json_array();
    /* Without masters there are no configurations, and the epoch is the member's own. */
    json_int_t epoch = chain.epoch != 0
        ? (json_int_t)chain.epoch
        : json_integer_value(json_object_get(json_array_get(members, 0), "epoch"));
    size_t in_chain = chain.count != 0 ? chain.count : json_array_size(members);
    if (json) {
        json_t *all = json_pack("{s:I s:o}", "epoch", epoch, "members", members);
        printf("\"chain\":");
        json_dumpf(all, stdout, JSON_COMPACT);
        json_decref(all);
        return;
    }
    if (chain.count == 0 && epoch == 0)
        printf("chain unknown: no member answers\n");
    else
        printf("chain of %zu, epoch %" JSON_INTEGER_FORMAT "\n", in_chain, epoch);
    table_print(members, shown);
    json_decref(members);
}

/* ---- figures ---- */

struct figure {
    const char *name;
    uint64_t value;
};

static void print_figures(
    const struct cli_call *call, const char *title, const struct figure *figures, int count)
{
    if (call->format == CLI_TABLE || call->format == CLI_NAME) {
        printf("%s\n", title);
        for (int i = 0; i < count; i++)
            printf("  %-18s %" PRIu64 "\n", figures[i].name, figures[i].value);
        return;
    }
    printf("\"%s\":{", title);
    for (int i = 0; i < count; i++)
        printf("%s\"%s\":%" PRIu64, i > 0 ? "," : "", figures[i].name, figures[i].value);
    printf("}");
}

static void print_member(const struct cli_call *call, const struct mob_gcs_stats *s)
{
    const struct figure figures[] = {{"epoch", s->epoch}, {"applied", s->applied},
        {"committed", s->committed}, {"durable", s->durable}, {"collecting", s->collecting},
        {"losses", s->losses}, {"blocks", s->blocks}, {"block_bytes", s->block_bytes}, {"groups", s->groups},
        {"keys", s->keys}, {"jobs", s->jobs}, {"incarnations", s->incarnations}, {"clients", s->clients},
        {"subscribers", s->subscribers}, {"redis_bytes", s->redis_bytes}, {"member_bytes", s->member_bytes},
        {"soft_bytes", s->soft_bytes}, {"hard_bytes", s->hard_bytes}, {"aof_bytes", s->aof_bytes},
        {"redis_restarts", s->redis_restarts}};
    print_figures(call, "member", figures, (int)(sizeof figures / sizeof figures[0]));
}

/* The position of the newest block: entries of other kinds go on behind it, if only for who asks this, and
 * are not flushed. */
static uint64_t newest_block(struct gcs_call *g)
{
    const struct mob_gcs_scan scan = {.newest_first = true, .limit = 1};
    struct mob_gcs_sync sync = {0};
    struct mob_gcs_result *r = gcs_wait(g, mob_gcs_scan(g->gcs, &scan, mob_gcs_sync_done, &sync), &sync);
    if (r == NULL)
        return 0;
    const struct mob_gcs_answer *a = mob_gcs_result_answer(r);
    uint64_t seq = a->block_count > 0 ? a->blocks[0].seq : 0;
    mob_gcs_result_destroy(r);
    return seq;
}

static void print_flush(struct gcs_call *g, const struct mob_gcs_stats *s)
{
    const struct figure member[] = {{"flushed", s->flushed}, {"blocks", s->flushed_blocks},
        {"unfinished_groups", s->cold_groups}, {"reads", s->cold_reads}, {"readers", s->cold_readers}};
    print_figures(g->call, "flush", member, (int)(sizeof member / sizeof member[0]));
    if (g->db == NULL ||
        gcs_number(g,
            "SELECT count(*) FROM pg_tables WHERE schemaname = 'mobula' AND "
            "tablename = 'watermark'") == 0)
        return;
    uint64_t newest = newest_block(g);
    uint64_t upto = (uint64_t)gcs_shard_number(g, "SELECT upto FROM mobula.watermark WHERE shard = $1");
    struct mob_gcs_database f = {0};
    enum mob_status status = mob_figures_count(g->db, g->shard, &f);
    if (status == MOB_OK)
        status = mob_figures_days(g->db, g->shard, &f);
    if (status == MOB_OK)
        status = mob_figures_size(g->db, &f);
    if (status != MOB_OK)
        cli_say("PostgreSQL does not say all that it has: %s", mob_status_text(status));
    const struct figure database[] = {{"watermark", upto}, {"behind", newest > upto ? newest - upto : 0},
        {"batches", f.batches}, {"tasks", f.tasks}, {"failed", f.failed}, {"days", f.days}, {"gaps", f.gaps},
        {"bytes", f.bytes}};
    if (g->call->format == CLI_JSON || g->call->format == CLI_JSONL)
        putchar(',');
    print_figures(g->call, "postgres", database, (int)(sizeof database / sizeof database[0]));
}

/* ---- who recovers which log of a node ---- */

/* Its state and, of one that has ended, how many tasks of it there were when it did: they may run still. */
static json_t *recovery_row(const struct mob_gcs_kv *kv)
{
    struct mob_recover_row r;
    enum mob_status status = mob_recover_row_open(kv->value, kv->value_length, &r);
    if (status != MOB_OK)
        return json_pack("{s:s}", "state", mob_status_code(status));
    json_t *row = json_pack("{s:I s:I s:s s:I s:I}", "incarnation", (json_int_t)r.incarnation, "by",
        (json_int_t)r.by, "state", mob_recover_state_text(r.state), "since_us",
        (json_int_t)(r.since_wall_ns / 1000), "takeovers", (json_int_t)r.takeovers);
    if (r.state == MOB_RECOVER_ENDED)
        json_object_set_new(row, "tasks", json_integer(r.tasks));
    if (r.waits_for == MOB_RECOVER_WAITS_POSTGRES)
        json_object_set_new(row, "waits_for", json_string("postgres"));
    if (r.taken_from != 0)
        json_object_set_new(row, "taken_from", json_integer((json_int_t)r.taken_from));
    return row;
}

static void print_recoveries(struct gcs_call *g, bool json)
{
    static const char *const shown[] = {
        "incarnation", "by", "state", "waits_for", "tasks", "since_us", "takeovers", "taken_from", NULL};
    json_t *rows = json_array();
    uint8_t after[MOB_RECOVER_KEY_BYTES];
    struct mob_gcs_list list = {.table = MOB_GCS_NODES,
        .prefix = MOB_RECOVER_PREFIX,
        .prefix_length = sizeof MOB_RECOVER_PREFIX - 1,
        .after = after};
    for (bool more = true; more;) {
        struct mob_gcs_sync sync = {0};
        struct mob_gcs_result *r = gcs_wait(g, mob_gcs_list(g->gcs, &list, mob_gcs_sync_done, &sync), &sync);
        if (r == NULL)
            break;
        const struct mob_gcs_answer *a = mob_gcs_result_answer(r);
        for (uint32_t i = 0; i < a->kv_count; i++)
            json_array_append_new(rows, recovery_row(&a->kvs[i]));
        more = a->next != 0 && a->kv_count > 0 && a->kvs[a->kv_count - 1].key_length == sizeof after;
        if (more) {
            memcpy(after, a->kvs[a->kv_count - 1].key, sizeof after);
            list.after_length = sizeof after;
        }
        mob_gcs_result_destroy(r);
    }
    if (json) {
        printf(",\"recoveries\":");
        json_dumpf(rows, stdout, JSON_COMPACT);
    } else if (json_array_size(rows) > 0) {
        puts("recoveries");
        table_print(rows, shown);
    }
    json_decref(rows);
}

/* ---- what was lost ---- */

/* An earlier version wrote ids of clients as numbers that are too large for the reader: then as text. */
static json_t *loss_row(const struct mob_gcs_kv *kv)
{
    const char *text = (const char *)kv->value;
    json_t *row = json_loadb(text, kv->value_length, 0, NULL);
    return row != NULL ? row : json_pack("{s:s%}", "text", text, (size_t)kv->value_length);
}

/* The newest ones: there is one for each client or log that missed something. */
static json_t *newest_losses(struct gcs_call *g)
{
    json_t *rows = json_array();
    uint8_t after[LOSS_KEY_BYTES];
    struct mob_gcs_list list = {.table = MOB_GCS_LOSSES, .after = after};
    for (bool more = true; more;) {
        struct mob_gcs_sync sync = {0};
        struct mob_gcs_result *r = gcs_wait(g, mob_gcs_list(g->gcs, &list, mob_gcs_sync_done, &sync), &sync);
        if (r == NULL)
            break;
        const struct mob_gcs_answer *a = mob_gcs_result_answer(r);
        for (uint32_t i = 0; i < a->kv_count; i++) {
            json_array_append_new(rows, loss_row(&a->kvs[i]));
            if (json_array_size(rows) > LOSSES_SHOWN)
                json_array_remove(rows, 0);
        }
        more = a->next != 0 && a->kv_count > 0 && a->kvs[a->kv_count - 1].key_length == sizeof after;
        if (more) {
            memcpy(after, a->kvs[a->kv_count - 1].key, sizeof after);
            list.after_length = sizeof after;
        }
        mob_gcs_result_destroy(r);
    }
    return rows;
}

static void print_losses(struct gcs_call *g, bool json)
{
    json_t *rows = newest_losses(g), *row;
    size_t i;
    if (json) {
        printf(",\"named_losses\":");
        json_dumpf(rows, stdout, JSON_COMPACT);
    } else if (json_array_size(rows) > 0) {
        puts("losses");
        json_array_foreach(rows, i, row)
        {
            printf("  ");
            json_dumpf(row, stdout, JSON_COMPACT);
            putchar('\n');
        }
    }
    json_decref(rows);
}

enum cli_exit gcs_status(struct gcs_call *g)
{
    struct mob_gcs_stats stats;
    bool json = g->call->format == CLI_JSON || g->call->format == CLI_JSONL;
    if (g->shards > 1 && !json)
        printf("shard %u\n", g->shard);
    if (json)
        putchar('{');
    if (g->shards > 1 && json)
        printf("\"shard\":%u,", g->shard);
    print_chain(g, json);
    bool answers = gcs_stats(g, &stats);
    if (answers) {
        if (json)
            putchar(',');
        print_member(g->call, &stats);
        if (json)
            putchar(',');
        print_flush(g, &stats);
        print_recoveries(g, json);
        print_losses(g, json);
    }
    if (json)
        puts("}");
    return answers ? CLI_OK : CLI_UNREACHABLE;
}
