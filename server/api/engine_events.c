/* Committed blocks to events. Subscriptions, one of each shard, exist only while the hub wants events.
 *
 * Whom an entry belongs to is told by the spec of its task, which was logged earlier: the last few are
 * remembered, others are read from the lineage (engine_event_specs.c). A block with an entry that nobody can
 * place yet, or with functions that were deployed a moment ago, is held, and all behind it with it: the order
 * of events is that of the log. Shards' blocks take turns as they come.
 */
#include <stdlib.h>

#include "common/base/log.h"
#include "server/api/engine_event_entries.h"
#include "server/events/events.h"

_Static_assert(MOB_EVENTS_SHARDS_MAX == MOB_GCS_SHARDS_MAX, "a place in each shard");

/* --- blocks that wait: for names of functions, for specs --- */

#define HELD_MAX 1024u
struct held_block {
    struct held_block *next;
    uint32_t shard;
    uint64_t seq;
    uint32_t from; /* entries before it are published */
    bool named; /* its names were asked for */
    size_t length;
    uint8_t bytes[];
};

static bool publish(void *arg, const struct mob_event *event)
{
    struct engine *engine = arg;
    mob_events_publish(engine->options.events, event);
    return true;
}

/* From entry `from` on. True: all of it; false: specs have to be read first, for entry *from and others. */
static bool translate_block(struct engine *engine, const struct event_block *block, uint32_t *from)
{
    const struct event_sink sink = {engine, engine->event_specs, publish, engine};
    if (engine_event_block(&sink, block, from) != EVENT_BLOCK_DONE)
        return false;
    mob_events_pass(engine->options.events, block->shard, block->seq);
    return true;
}

static void hold(struct engine *engine, const struct event_block *block, uint32_t from)
{
    struct held_block *held = malloc(sizeof *held + block->length);
    MOB_ASSERT(held != NULL);
    *held =
        (struct held_block){.shard = block->shard, .seq = block->seq, .from = from, .length = block->length};
    memcpy(held->bytes, block->bytes, block->length);
    *engine->held_end = held;
    engine->held_end = &held->next;
    engine->held_count++;
}

static void drop_first(struct engine *engine)
{
    struct held_block *held = engine->held;
    engine->held = held->next;
    if (!engine->held)
        engine->held_end = &engine->held;
    engine->held_count--;
    free(held);
}

static void go_on(struct engine *engine);

/* What was asked for the first of the held blocks. Another subscription may have begun since. */
struct held_wait {
    struct engine *engine;
    uint64_t serial;
};

static struct held_wait *wait_begin(struct engine *engine)
{
    struct held_wait *wait = malloc(sizeof *wait);
    MOB_ASSERT(wait != NULL);
    *wait = (struct held_wait){engine, ++engine->held_serial};
    engine->held_waits = true;
    return wait;
}

static void wait_over(void *arg)
{
    struct held_wait *wait = arg;
    struct engine *engine = wait->engine;
    bool mine = wait->serial == engine->held_serial;
    free(wait);
    if (!mine)
        return;
    engine->held_waits = false;
    go_on(engine);
}

static void learn_names(struct engine *engine)
{
    MOB_ASSERT(engine->held != NULL);
    engine->held->named = true;
    engine_functions_refresh(engine, wait_over, wait_begin(engine));
}

/* True: the first held block is done. */
static bool first_goes(struct engine *engine)
{
    struct held_block *held = engine->held;
    struct event_block block = {
        .shard = held->shard, .seq = held->seq, .bytes = held->bytes, .length = held->length};
    if (!held->named && engine_event_names_missing(engine, held->bytes, held->length)) {
        learn_names(engine);
        return false;
    }
    if (translate_block(engine, &block, &held->from)) {
        drop_first(engine);
        return true;
    }
    event_specs_read(engine->event_specs, &block, wait_over, wait_begin(engine));
    return false;
}

static void go_on(struct engine *engine)
{
    while (engine->held && !engine->held_waits && first_goes(engine))
        continue;
}

/* Node or control store are slow: begin again from where we are. Of each shard, what was held is for those
 * who read the log. */
static void give_up_held(struct engine *engine, const struct event_block *now)
{
    for (uint32_t shard = 0; shard < mob_gcs_shard_count(engine->gcs); shard++) {
        uint64_t behind = 0;
        for (const struct held_block *held = engine->held; held; held = held->next)
            if (held->shard == shard)
                behind = held->seq + 1;
        if (behind)
            mob_events_missed(engine->options.events, shard, shard == now->shard ? now->seq : behind);
    }
    engine_events_end(engine);
}

static void on_block(void *arg, const struct mob_gcs_block_row *row)
{
    struct event_source *source = arg;
    struct engine *engine = source->engine;
    struct event_block block = {.shard = (uint32_t)(source - engine->event_sources),
        .seq = row->seq,
        .bytes = row->bytes,
        .length = row->length};
    uint32_t from = 0;
    /* Asked once: a name that is missing counts as unknown from then on, until it was read. */
    bool nameless = !engine->held && engine_event_names_missing(engine, row->bytes, row->length);
    if (!engine->held && !nameless && translate_block(engine, &block, &from))
        return;
    if (engine->held && engine->held_count == HELD_MAX)
        give_up_held(engine, &block);
    hold(engine, &block, from);
    if (nameless)
        learn_names(engine);
    else
        go_on(engine);
}

void engine_events_end(struct engine *engine)
{
    while (engine->held) {
        struct held_block *held = engine->held;
        engine->held = held->next;
        free(held);
    }
    engine->held_end = &engine->held;
    engine->held_count = 0;
    engine->held_serial++; /* what is on its way is nobody's */
    engine->held_waits = false;
    event_specs_block_end(engine->event_specs);
}

/* What is between was flushed before this gateway had read it, or lost with everything. */
static void on_resync(void *arg, uint64_t after, uint64_t next)
{
    struct event_source *source = arg;
    struct engine *engine = source->engine;
    (void)after;
    mob_events_missed(engine->options.events, (uint32_t)(source - engine->event_sources), next);
}

void engine_events_unsubscribe(struct engine *engine)
{
    for (uint32_t i = 0; i < MOB_GCS_SHARDS_MAX; i++) {
        mob_gcs_unsubscribe(engine->event_sources[i].subscription);
        engine->event_sources[i].subscription = NULL;
    }
}

static void subscribe(struct engine *engine, const uint64_t *after)
{
    engine_events_unsubscribe(engine);
    engine_events_end(engine);
    enum mob_status status = MOB_OK;
    for (uint32_t i = 0; i < mob_gcs_shard_count(engine->gcs) && status == MOB_OK; i++) {
        struct event_source *source = &engine->event_sources[i];
        source->engine = engine;
        struct mob_gcs_sub_events events = {on_block, on_resync, source};
        status = mob_gcs_subscribe(mob_gcs_shard(engine->gcs, i), after[i], &events, &source->subscription);
    }
    if (status == MOB_OK)
        mob_events_started(engine->options.events, after);
    else
        MOB_LOG_WARN("engine", "subscribe_failed", "code=%s", mob_status_code(status));
}

/* --- from now on: where is that, in each shard? Readers of what was before: engine_history.c --- */

struct newest_wait {
    struct engine *engine;
    uint64_t serial;
    uint32_t shard;
    uint64_t committed[MOB_GCS_SHARDS_MAX];
};

static void ask_newest(struct newest_wait *wait);

static void on_newest(void *arg, const struct mob_gcs_answer *answer)
{
    struct newest_wait *wait = arg;
    struct engine *engine = wait->engine;
    bool good = answer->status == MOB_OK && answer->stats;
    bool mine = wait->serial == engine->events_serial;
    if (good)
        wait->committed[wait->shard] = answer->stats->committed;
    if (good && mine && ++wait->shard < mob_gcs_shard_count(engine->gcs)) {
        ask_newest(wait);
        return;
    }
    if (good && mine)
        subscribe(engine, wait->committed);
    else if (mine)
        atomic_store(&engine->events_wanted, true); /* again */
    free(wait);
}

static void ask_newest(struct newest_wait *wait)
{
    struct engine *engine = wait->engine;
    if (mob_gcs_stats(mob_gcs_shard(engine->gcs, wait->shard), on_newest, wait) == MOB_OK)
        return;
    atomic_store(&engine->events_wanted, true);
    free(wait);
}

void engine_events_step(struct engine *engine)
{
    if (atomic_load_explicit(&engine->events_unwanted, memory_order_relaxed) &&
        atomic_exchange(&engine->events_unwanted, false)) {
        engine_events_unsubscribe(engine);
        engine_events_end(engine);
    }
    if (!atomic_load_explicit(&engine->events_wanted, memory_order_relaxed) || !engine->gcs_up)
        return;
    atomic_store(&engine->events_wanted, false); /* before the hub is asked: it may want more at once */
    engine->worked++;
    engine->events_serial++;
    struct newest_wait *wait = calloc(1, sizeof *wait);
    MOB_ASSERT(wait != NULL);
    wait->engine = engine;
    wait->serial = engine->events_serial;
    ask_newest(wait);
}
