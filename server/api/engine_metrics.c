/* Figures of the control store and the node in Prometheus' text format: of each shard what its tail knows,
 * and of each member what it says of itself (engine_metrics_members.c), as `mobula gcs status` shows them; of
 * the node what GET /nodes shows (engine_metrics_node.c); and blocks of the log that this gateway opened to
 * answer requests. A shard that does not answer is mobula_gcs_up 0, and has no figures; nor has a node that
 * does not. */
#include <stdlib.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "server/api/engine_metrics.h"

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
    } of[MOB_GCS_SHARDS_MAX];
};

struct figure {
    const char *name, *type;
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
static uint64_t get_watermark_lag(const struct mob_gcs_stats *s)
{
    return s->newest_block > s->watermark ? s->newest_block - s->watermark : 0;
}

static const struct figure figures[] = {{"epoch", "gauge", get_epoch},
    {"applied_position", "gauge", get_applied}, {"committed_position", "gauge", get_committed},
    {"durable_position", "gauge", get_durable}, {"flushed_position", "gauge", get_flushed},
    {"commit_lag", "gauge", get_commit_lag}, {"durable_lag", "gauge", get_durable_lag},
    {"collecting", "gauge", get_collecting}, {"losses", "gauge", get_losses}, {"blocks", "gauge", get_blocks},
    {"block_bytes", "gauge", get_block_bytes}, {"groups", "gauge", get_groups},
    {"flushed_unfinished_groups", "gauge", get_cold_groups}, {"keys", "gauge", get_keys},
    {"jobs", "gauge", get_jobs}, {"incarnations", "gauge", get_incarnations},
    {"clients", "gauge", get_clients}, {"subscribers", "gauge", get_subscribers},
    {"redis_memory_bytes", "gauge", get_redis_bytes}, {"memory_soft_bytes", "gauge", get_soft_bytes},
    {"memory_hard_bytes", "gauge", get_hard_bytes}, {"aof_bytes", "gauge", get_aof_bytes},
    {"cold_readers", "gauge", get_cold_readers}, {"redis_restarts_total", "counter", get_redis_restarts},
    {"appends_total", "counter", get_appends}, {"append_bytes_total", "counter", get_append_bytes},
    {"puts_total", "counter", get_puts}, {"reads_total", "counter", get_reads},
    {"duplicates_total", "counter", get_duplicates}, {"syncs_total", "counter", get_syncs},
    {"rewrites_total", "counter", get_rewrites}, {"flushed_blocks_total", "counter", get_flushed_blocks},
    {"cold_reads_total", "counter", get_cold_reads}};
/* Of a shard whose flusher has said so since its tail became that. */
static const struct figure of_flusher[] = {
    {"watermark_position", "gauge", get_watermark}, {"watermark_lag", "gauge", get_watermark_lag}};

static void write_figure(
    const struct gathering *g, const struct figure *figure, bool of_watermark, struct mob_text *t)
{
    mob_text_printf(t, "# TYPE mobula_gcs_%s %s\n", figure->name, figure->type);
    for (uint32_t i = 0; i < g->count; i++)
        if (g->of[i].up && (!of_watermark || g->of[i].stats.watermark_known))
            mob_text_printf(t, "mobula_gcs_%s{shard=\"%u\"} %llu\n", figure->name, i,
                (unsigned long long)figure->value(&g->of[i].stats));
}

static void write_all(const struct gathering *g, struct mob_text *t)
{
    mob_text_puts(t, "# TYPE mobula_gcs_up gauge\n");
    for (uint32_t i = 0; i < g->count; i++)
        mob_text_printf(t, "mobula_gcs_up{shard=\"%u\"} %d\n", i, g->of[i].up);
    for (size_t f = 0; f < sizeof figures / sizeof *figures; f++)
        write_figure(g, &figures[f], false, t);
    for (size_t f = 0; f < sizeof of_flusher / sizeof *of_flusher; f++)
        write_figure(g, &of_flusher[f], true, t);
    engine_write_members(g->members, t);
    if (g->node)
        engine_write_node(g->node, t);
}

/* What lists and look-ups cost: a page of a list that opens thousands is a slow one. */
static void write_own(const struct engine *engine, struct mob_text *t)
{
    mob_text_printf(t,
        "# TYPE mobula_gateway_blocks_opened_total counter\nmobula_gateway_blocks_opened_total %llu\n",
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
    }
    if (flight->client)
        g->pending += mob_ask(flight->client, MOB_REQ_STATS, NULL, 0, on_node, g) == MOB_OK;
}
