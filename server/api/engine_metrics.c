/* Figures of the control store and the node in Prometheus' text format: of each shard what its tail knows,
 * and of each member what it says of itself (engine_metrics_members.c), as `mobula gcs status` shows them; of
 * the node what GET /nodes shows (engine_metrics_node.c); and blocks of the log that this gateway opened to
 * answer requests. A shard that does not answer is mobula_gcs_up 0, and has no figures; nor has a node that
 * does not. */
#include <stdlib.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/wire/recover_row.h"
#include "server/api/engine_metrics.h"
#include "server/api/metrics.h"

#define ANSWER_NS (1800 * MOB_MS) /* a little less than the request waits */

/* Lives until all that were asked have answered, which may be after the flight's end. */
struct gathering {
    struct flight *flight; /* NULL: it has ended */
    uint32_t count, pending;
    struct member_figures *members;
    json_t *node; /* NULL: it has not answered */
    struct asked_shard {
        struct gathering *gathering;
        bool up;
        struct mob_gcs_stats stats;
        bool recoveries_known; /* all pages of them have come */
        uint64_t recoveries[MOB_RECOVER_ENDED + 1], waiting; /* by state; 0: of a record that does not open */
    } of[MOB_GCS_SHARDS_MAX];
};

struct figure {
    const char *name, *type, *help;
    uint64_t (*value)(const struct mob_gcs_stats *s);
};
#define FIGURE(name) \
    static uint64_t get_##name(const struct mob_gcs_stats *s) \
    { \
        return s->name; \
    }
FIGURE(epoch)
FIGURE(applied)
FIGURE(committed)
FIGURE(durable)
FIGURE(flushed)
FIGURE(collecting)
FIGURE(losses)
FIGURE(blocks)
FIGURE(block_bytes)
FIGURE(groups)
FIGURE(cold_groups)
FIGURE(keys)
FIGURE(jobs)
FIGURE(incarnations)
FIGURE(clients)
FIGURE(subscribers)
FIGURE(redis_bytes)
FIGURE(soft_bytes)
FIGURE(hard_bytes)
FIGURE(aof_bytes)
FIGURE(redis_restarts)
FIGURE(appends)
FIGURE(append_bytes)
FIGURE(puts)
FIGURE(reads)
FIGURE(duplicates)
FIGURE(syncs)
FIGURE(rewrites)
FIGURE(flushed_blocks)
FIGURE(cold_reads)
FIGURE(cold_readers)
static uint64_t get_durable_lag(const struct mob_gcs_stats *s)
{
    return s->committed > s->durable ? s->committed - s->durable : 0;
}
static uint64_t get_commit_lag(const struct mob_gcs_stats *s)
{
    return s->applied > s->committed ? s->applied - s->committed : 0;
}

/* Unlike `flushed`, which is up to where blocks have left the members' memory for it. */
FIGURE(watermark)
#undef FIGURE
#define FIGURE(name) \
    static uint64_t get_##name(const struct mob_gcs_stats *s) \
    { \
        return s->database.name; \
    }
FIGURE(batches)
FIGURE(tasks)
FIGURE(failed)
FIGURE(days)
FIGURE(gaps)
FIGURE(bytes)
#undef FIGURE
static uint64_t get_watermark_lag(const struct mob_gcs_stats *s)
{
    return s->newest_block > s->watermark ? s->newest_block - s->watermark : 0;
}

static const struct figure figures[] = {
    {"epoch", "gauge", "Epoch of the configuration of the chain.", get_epoch},
    {"applied_position", "gauge", "Newest entry that the tail has applied.", get_applied},
    {"committed_position", "gauge", "Newest entry that is committed.", get_committed},
    {"durable_position", "gauge", "Newest entry that is on disk.", get_durable},
    {"flushed_position", "gauge", "Up to here blocks are in PostgreSQL and have left memory.", get_flushed},
    {"commit_lag", "gauge", "Entries that are applied and not committed.", get_commit_lag},
    {"durable_lag", "gauge", "Entries that are committed and not on disk.", get_durable_lag},
    {"collecting", "gauge", "1: a restarted member waits for its clients.", get_collecting},
    {"losses", "gauge", "Records of what may have been lost with a store.", get_losses},
    {"blocks", "gauge", "Blocks of lineage in memory.", get_blocks},
    {"block_bytes", "gauge", "Bytes of the blocks in memory.", get_block_bytes},
    {"groups", "gauge", "Groups of 256 tasks in the index.", get_groups},
    {"flushed_unfinished_groups", "gauge", "Groups with unfinished tasks in blocks that have left memory.",
        get_cold_groups},
    {"keys", "gauge", "Rows of keys and values.", get_keys},
    {"jobs", "gauge", "Jobs with blocks in memory.", get_jobs},
    {"incarnations", "gauge", "Logs of nodes.", get_incarnations},
    {"clients", "gauge", "Clients of the chain.", get_clients},
    {"subscribers", "gauge", "Subscriptions to blocks.", get_subscribers},
    {"redis_memory_bytes", "gauge", "Memory of the Redis of the tail.", get_redis_bytes},
    {"memory_soft_bytes", "gauge", "Memory above which roots are refused.", get_soft_bytes},
    {"memory_hard_bytes", "gauge", "Memory above which all that is new is refused.", get_hard_bytes},
    {"aof_bytes", "gauge", "Size of the append-only file of the tail.", get_aof_bytes},
    {"cold_readers", "gauge", "1: it reads what is in PostgreSQL.", get_cold_readers},
    {"redis_restarts_total", "counter", "Times that the Redis of the tail came back.", get_redis_restarts},
    {"appends_total", "counter", "Blocks that were appended.", get_appends},
    {"append_bytes_total", "counter", "Bytes of the blocks that were appended.", get_append_bytes},
    {"puts_total", "counter", "Rows that were put or deleted.", get_puts},
    {"reads_total", "counter", "Questions.", get_reads},
    {"duplicates_total", "counter", "Requests that were answered from the table of those that are known.",
        get_duplicates},
    {"syncs_total", "counter", "Syncs of the append-only file.", get_syncs},
    {"rewrites_total", "counter", "Rewrites of the append-only file.", get_rewrites},
    {"flushed_blocks_total", "counter", "Blocks that left memory for PostgreSQL.", get_flushed_blocks},
    {"cold_reads_total", "counter", "Reads of blocks that are in PostgreSQL only.", get_cold_reads}};
/* Of a shard whose flusher has said so since its tail became that. */
static const struct figure of_flusher[] = {
    {"watermark_position", "gauge", "Up to here PostgreSQL has all blocks.", get_watermark},
    {"watermark_lag", "gauge", "How far the newest block is above the watermark.", get_watermark_lag}};
/* The same, of what it has in PostgreSQL. */
static const struct figure of_database[] = {
    {"postgres_batches", "gauge", "Batches of blocks in PostgreSQL.", get_batches},
    {"postgres_tasks", "gauge", "Tasks in those batches.", get_tasks},
    {"postgres_failed_tasks", "gauge", "Ends that were no success in those batches.", get_failed},
    {"postgres_days", "gauge",
        "Days with partitions in PostgreSQL, which all shards share: each says the same, or what it saw "
        "last.",
        get_days},
    {"postgres_gaps", "gauge", "Stretches of blocks that are nowhere.", get_gaps},
    {"postgres_bytes", "gauge", "Size of the database, which all shards share: each says what it saw last.",
        get_bytes}};

typedef bool known_fn(const struct mob_gcs_stats *s);
static bool always_known(const struct mob_gcs_stats *s)
{
    (void)s;
    return true;
}
static bool watermark_known(const struct mob_gcs_stats *s)
{
    return s->watermark_known != 0;
}
static bool database_known(const struct mob_gcs_stats *s)
{
    return s->database_known != 0;
}

static void write_figure(
    const struct gathering *g, const struct figure *figure, known_fn *known, struct mob_text *t)
{
    mob_text_family(t, "mobula_gcs_", figure->name, figure->type, figure->help);
    for (uint32_t i = 0; i < g->count; i++)
        if (g->of[i].up && known(&g->of[i].stats))
            mob_text_printf(t, "mobula_gcs_%s{shard=\"%u\"} %llu\n", figure->name, i,
                (unsigned long long)figure->value(&g->of[i].stats));
}

/* Who recovers which log of a node, without the names: those grow with each start of a node. */
static void write_recoveries(const struct gathering *g, struct mob_text *t)
{
    mob_text_family(t, "mobula_gcs_", "recoveries", "gauge", "Logs of dead nodes with unfinished tasks.");
    for (uint32_t i = 0; i < g->count; i++)
        for (uint16_t state = 0; g->of[i].up && g->of[i].recoveries_known && state <= MOB_RECOVER_ENDED;
             state++)
            mob_text_printf(t, "mobula_gcs_recoveries{shard=\"%u\",state=\"%s\"} %llu\n", i,
                state == 0 ? "unknown" : mob_recover_state_text(state),
                (unsigned long long)g->of[i].recoveries[state]);
    mob_text_family(
        t, "mobula_gcs_", "recoveries_waiting", "gauge", "Those of them that run, and wait for PostgreSQL.");
    for (uint32_t i = 0; i < g->count; i++)
        if (g->of[i].up && g->of[i].recoveries_known)
            mob_text_printf(t, "mobula_gcs_recoveries_waiting{shard=\"%u\"} %llu\n", i,
                (unsigned long long)g->of[i].waiting);
}

static void write_all(const struct gathering *g, struct mob_text *t)
{
    mob_text_family(t, "mobula_", MOB_METRICS_GCS_UP);
    for (uint32_t i = 0; i < g->count; i++)
        mob_text_printf(t, "mobula_gcs_up{shard=\"%u\"} %d\n", i, g->of[i].up);
    for (size_t f = 0; f < sizeof figures / sizeof *figures; f++)
        write_figure(g, &figures[f], always_known, t);
    for (size_t f = 0; f < sizeof of_flusher / sizeof *of_flusher; f++)
        write_figure(g, &of_flusher[f], watermark_known, t);
    for (size_t f = 0; f < sizeof of_database / sizeof *of_database; f++)
        write_figure(g, &of_database[f], database_known, t);
    write_recoveries(g, t);
    engine_write_members(g->members, t);
    if (g->node)
        engine_write_node(g->node, t);
}

/* What lists and look-ups cost: a page of a list that opens thousands is a slow one. */
static void write_own(const struct engine *engine, struct mob_text *t)
{
    mob_text_family(t, "mobula_gateway_", "blocks_opened_total", "counter",
        "Blocks of the log that this gateway opened to answer requests.");
    mob_text_printf(t, "mobula_gateway_blocks_opened_total %llu\n",
        (unsigned long long)mob_block_decoder_opened(engine->decoder));
}

static void tell(struct gathering *g)
{
    struct flight *flight = g->flight;
    g->flight = NULL;
    write_own(flight->engine, &flight->op->json);
    write_all(g, &flight->op->json);
    flight_done(flight);
}

static void destroy(struct gathering *g)
{
    json_decref(g->node);
    free(g->members);
    free(g);
}

static void one_less(struct gathering *g)
{
    if (--g->pending > 0)
        return;
    if (g->flight)
        tell(g);
    destroy(g);
}

static void on_stats(void *arg, const struct mob_gcs_answer *answer)
{
    struct asked_shard *one = arg;
    one->up = answer->status == MOB_OK && answer->stats;
    if (one->up)
        one->stats = *answer->stats;
    one_less(one->gathering);
}

static void ask_recoveries(struct asked_shard *one, const void *after, uint32_t after_length);

static void count_recovery(struct asked_shard *one, const struct mob_gcs_kv *kv)
{
    struct mob_recover_row row = {0}; /* as it stays when it does not open */
    enum mob_status status = mob_recover_row_open(kv->value, kv->value_length, &row);
    MOB_ASSERT(status == MOB_OK || row.state == 0);
    one->recoveries[row.state]++;
    one->waiting += row.waits_for == MOB_RECOVER_WAITS_POSTGRES;
}

static void on_recoveries(void *arg, const struct mob_gcs_answer *answer)
{
    struct asked_shard *one = arg;
    bool good = answer->status == MOB_OK;
    for (uint32_t i = 0; good && i < answer->kv_count; i++)
        count_recovery(one, &answer->kvs[i]);
    bool more = good && answer->next != 0 && answer->kv_count > 0;
    one->recoveries_known = good && !more;
    if (more && one->gathering->flight) {
        const struct mob_gcs_kv *last = &answer->kvs[answer->kv_count - 1];
        ask_recoveries(one, last->key, last->key_length);
    }
    one_less(one->gathering);
}

static void ask_recoveries(struct asked_shard *one, const void *after, uint32_t after_length)
{
    struct gathering *g = one->gathering;
    const struct mob_gcs_list list = {.table = MOB_GCS_NODES,
        .prefix = MOB_RECOVER_PREFIX,
        .prefix_length = sizeof MOB_RECOVER_PREFIX - 1,
        .after = after,
        .after_length = after_length};
    struct mob_gcs *shard = mob_gcs_shard(g->flight->engine->gcs, (uint32_t)(one - g->of));
    g->pending += mob_gcs_list(shard, &list, on_recoveries, one) == MOB_OK;
}

static void on_node(void *arg, enum mob_status status, const char *text, size_t size)
{
    struct gathering *g = arg;
    g->node = status == MOB_OK ? json_loadb(text, size, 0, NULL) : NULL;
    one_less(g);
}

void engine_metrics_forget(mob_answer_fn *answer, void *arg)
{
    struct gathering *g = arg;
    if (answer == on_node && --g->pending == 0)
        destroy(g); /* its flight is ended by whoever ends all */
}

static void on_members(void *arg)
{
    one_less(arg);
}

/* A shard or a node that hangs does not take the others' figures away. */
static void on_deadline(struct flight *flight)
{
    tell(flight->context);
}

void engine_start_metrics(struct flight *flight)
{
    struct gathering *g = calloc(1, sizeof *g);
    MOB_ASSERT(g != NULL);
    g->flight = flight;
    g->count = mob_gcs_shard_count(flight->engine->gcs);
    g->pending = 1;
    flight->context = g;
    flight_set_deadline(flight, mob_deadline_after(ANSWER_NS), on_deadline);
    g->members = engine_ask_members(flight->engine, on_members, g);
    for (uint32_t i = 0; i < g->count; i++) {
        g->of[i].gathering = g;
        g->pending += mob_gcs_stats(mob_gcs_shard(flight->engine->gcs, i), on_stats, &g->of[i]) == MOB_OK;
        ask_recoveries(&g->of[i], NULL, 0);
    }
    if (flight->client)
        g->pending += mob_ask(flight->client, MOB_REQ_STATS, NULL, 0, on_node, g) == MOB_OK;
}
