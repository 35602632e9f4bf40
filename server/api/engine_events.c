/* Committed blocks to events. Subscriptions, one of each shard, exist only while the hub wants events.
 *
 * Whom an entry belongs to is told by the spec of its task, which was logged earlier: the last few are
 * remembered, others are read from the lineage (engine_event_specs.c). A block with an entry that nobody can
 * place yet, or with functions that were deployed a moment ago, is held, and all behind it with it: the order
 * of events is that of the log. Shards' blocks take turns as they come.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/cstring.h"
#include "common/base/log.h"
#include "server/api/engine_event_specs.h"
#include "server/api/engine_inner.h"
#include "server/events/events.h"

_Static_assert(MOB_EVENTS_SHARDS_MAX == MOB_GCS_SHARDS_MAX, "a place in each shard");

enum { EVENT_TYPE_MAX = 255 }; /* as mob_event takes it */

struct translation {
    struct engine *engine;
    const struct mob_block_header *header;
    uint32_t shard;
    struct mob_event_place place;
    char job[MOB_ID_TEXT_MAX];
};

static void publish(struct translation *t, struct mob_task_id task, const char *type, int64_t mono_ns,
    const char *data, bool per_task, const char *subject)
{
    char id[MOB_ID_TEXT_MAX], actor[MOB_ID_TEXT_MAX];
    const struct event_spec *spec = event_spec_of(t->engine->event_specs, task);
    const struct function_name *function = spec ? engine_function_of(t->engine, spec->function) : NULL;
    bool of_actor = spec && !mob_task_id_is_zero(spec->actor.creation);
    mob_task_id_format(task, id);
    struct mob_event event = {.shard = t->shard,
        .place = t->place,
        .wall_us =
            ((mono_ns ? mono_ns : t->header->mono_ns) + t->header->wall_ns - t->header->mono_ns) / 1000,
        .type = type,
        .subject = subject ? subject : id,
        .task = id,
        .job = t->job[0] ? t->job : NULL,
        .function = function ? function->name : NULL,
        .actor = of_actor ? mob_actor_id_format(spec->actor, actor) : NULL,
        .data = data,
        .per_task = per_task};
    mob_events_publish(t->engine->options.events, &event);
}

static void on_spec(struct translation *t, const struct mob_entry *entry)
{
    const struct mob_spec_head *head = &entry->spec.head;
    event_specs_note(t->engine->event_specs, head);
    const struct function_name *function = engine_function_of(t->engine, head->function);
    struct mob_text data = {0};
    size_t length;
    mob_text_puts(&data, "{\"function\":");
    mob_text_json_cstring(&data, function ? function->name : "");
    mob_text_printf(&data, ",\"attempt\":%u}", head->attempt);
    char *text = mob_text_take(&data, &length);
    publish(t, head->task, "task.submitted", entry->submitted_ns, text, true, NULL);
    free(text);
}

static void on_completion(struct translation *t, const struct mob_entry *entry)
{
    const struct mob_completion_head *c = &entry->completion.head;
    char data[256], duration[48] = "";
    if (c->started_ns > 0) /* else it never began */
        snprintf(duration, sizeof duration, ",\"duration_us\":%lld",
            (long long)((c->finished_ns - c->started_ns) / 1000));
    snprintf(data, sizeof data, "{\"attempt\":%u,\"status\":\"%s\",\"worker\":%u%s}", c->attempt,
        mob_status_code((enum mob_status)c->status), c->worker, duration);
    const char *type = !(c->flags & MOB_COMPLETION_FINAL) ? "task.retrying"
        : c->status == MOB_OK                             ? "task.finished"
        : c->status == MOB_CANCELLED                      ? "task.cancelled"
                                                          : "task.failed";
    publish(t, c->task, type, c->finished_ns, data, true, NULL);
}

static void on_function_event(struct translation *t, const struct mob_entry *entry)
{
    const struct mob_out_event *e = &entry->event;
    if (e->type_bytes + (uint64_t)e->json_bytes > entry->payload_bytes || e->type_bytes > EVENT_TYPE_MAX)
        return;
    char type[EVENT_TYPE_MAX + 1];
    memcpy(type, entry->payload, e->type_bytes);
    type[e->type_bytes] = 0;
    char *data = mob_cstring_copy(entry->payload + e->type_bytes, e->json_bytes), node[128];
    bool of_node = data && mob_task_id_is_zero(e->task); /* what happens to nodes and workers concerns all */
    bool named = of_node && mob_json_text_field(data, "node", node, sizeof node);
    publish(t, e->task, type, e->at_ns, data && *data ? data : NULL, !of_node, named ? node : NULL);
    free(data);
}

static void on_actor(struct translation *t, const struct mob_entry *entry)
{
    static const char *const types[] = {
        "actor.unknown", "actor.started", "actor.died", "actor.checkpoint", "actor.ended"};
    const struct mob_entry_actor *a = &entry->actor;
    char id[MOB_ID_TEXT_MAX], data[128];
    snprintf(data, sizeof data, "{\"incarnation\":%u,\"position\":%llu,\"reason\":\"%s\"}", a->incarnation,
        (unsigned long long)a->position, mob_status_code((enum mob_status)a->reason));
    publish(t, a->actor.creation, types[a->event < 5 ? a->event : 0], 0, data, false,
        mob_actor_id_format(a->actor, id));
}

static void on_job(struct translation *t, const struct mob_entry *entry)
{
    char *data = mob_cstring_copy(entry->payload, entry->payload_bytes);
    struct mob_task_id none = {0};
    publish(t, none, "job", 0, data, false, t->job);
    free(data);
}

static void translate(struct translation *t, const struct mob_entry *entry)
{
    switch (entry->type) {
    case MOB_ENTRY_SPEC:
        on_spec(t, entry);
        break;
    case MOB_ENTRY_COMPLETION:
        on_completion(t, entry);
        break;
    case MOB_ENTRY_EVENT:
        on_function_event(t, entry);
        break;
    case MOB_ENTRY_ACTOR:
        on_actor(t, entry);
        break;
    case MOB_ENTRY_JOB:
        on_job(t, entry);
        break;
    case MOB_ENTRY_PUT:
    case MOB_ENTRY_YIELD:
    case MOB_ENTRY_OUTCOME:
    case MOB_ENTRY_EDGE:
    case MOB_ENTRY_SKIP:
    case MOB_ENTRY_HASH:
    case MOB_ENTRY_CANCEL:
    default:
        break;
    }
}

/* The task whose spec has to be known, zero if there is none. */
static struct mob_task_id task_of(const struct mob_entry *entry)
{
    static const struct mob_task_id none;
    return entry->type == MOB_ENTRY_COMPLETION ? entry->completion.head.task
        : entry->type == MOB_ENTRY_EVENT       ? entry->event.task
        : entry->type == MOB_ENTRY_ACTOR       ? entry->actor.actor.creation
                                               : none;
}

/* A committed block; its bytes are borrowed. */
struct event_block {
    uint32_t shard;
    uint64_t seq;
    const uint8_t *bytes;
    size_t length;
};

/* From entry `from` on. True: all of it; false: the spec of *missing_out has to be read first, for entry
 * *from. */
static bool translate_block(
    struct engine *engine, const struct event_block *block, uint32_t *from, struct mob_task_id *missing_out)
{
    struct mob_block_header header;
    static struct mob_zone_map zone; /* too large for the stack; the engine's thread only */
    static struct mob_entry entry;
    struct translation t = {
        .engine = engine, .header = &header, .shard = block->shard, .place = {block->seq, 0}};
    enum mob_status status =
        mob_block_open(engine->event_decoder, block->bytes, block->length, &header, &zone);
    if (status == MOB_OK && !mob_job_is_system(header.job))
        mob_job_id_format(header.job, t.job);
    engine->worked++;
    while (status == MOB_OK && (status = mob_block_next(engine->event_decoder, &entry)) == MOB_OK) {
        if (++t.place.index <= *from)
            continue;
        struct mob_task_id task = task_of(&entry);
        if (!mob_task_id_is_zero(task) && !event_specs_know(engine->event_specs, task)) {
            *missing_out = task;
            return false;
        }
        translate(&t, &entry);
        *from = t.place.index;
    }
    mob_events_pass(engine->options.events, block->shard, block->seq);
    event_specs_block_end(engine->event_specs);
    return true;
}

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

static bool has_missing_names(struct engine *engine, const uint8_t *bytes, size_t length)
{
    struct mob_block_header header;
    static struct mob_zone_map zone;
    if (mob_block_peek(bytes, length, &header, &zone) != MOB_OK)
        return false;
    uint32_t n = zone.function_count < MOB_ZONE_FUNCTIONS_MAX ? zone.function_count : MOB_ZONE_FUNCTIONS_MAX;
    bool missing = false;
    for (uint32_t i = 0; i < n; i++)
        missing |= engine_function_is_missing(engine, zone.functions[i]);
    return missing;
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
    struct event_block block = {held->shard, held->seq, held->bytes, held->length};
    struct mob_task_id missing;
    if (!held->named && has_missing_names(engine, held->bytes, held->length)) {
        learn_names(engine);
        return false;
    }
    if (translate_block(engine, &block, &held->from, &missing)) {
        drop_first(engine);
        return true;
    }
    event_specs_read(engine->event_specs, missing, wait_over, wait_begin(engine));
    return false;
}

static void go_on(struct engine *engine)
{
    while (engine->held && !engine->held_waits && first_goes(engine))
        continue;
}

/* Node or control store are slow: begin again from where we are. Of each shard, what was held is missing. */
static void give_up_held(struct engine *engine, const struct event_block *now)
{
    for (uint32_t shard = 0; shard < mob_gcs_shard_count(engine->gcs); shard++) {
        uint64_t first = 0, behind = 0;
        for (const struct held_block *held = engine->held; held; held = held->next)
            if (held->shard == shard) {
                first = first ? first : held->seq;
                behind = held->seq + 1;
            }
        if (first)
            mob_events_gap(engine->options.events, shard, first - 1, shard == now->shard ? now->seq : behind);
    }
    engine_events_end(engine);
}

static void on_block(void *arg, const struct mob_gcs_block_row *row)
{
    struct event_source *source = arg;
    struct engine *engine = source->engine;
    struct event_block block = {
        (uint32_t)(source - engine->event_sources), row->seq, row->bytes, row->length};
    struct mob_task_id missing;
    uint32_t from = 0;
    /* Asked once: a name that is missing counts as unknown from then on, until it was read. */
    bool nameless = !engine->held && has_missing_names(engine, row->bytes, row->length);
    if (!engine->held && !nameless && translate_block(engine, &block, &from, &missing))
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

static void on_resync(void *arg, uint64_t after, uint64_t next)
{
    struct event_source *source = arg;
    struct engine *engine = source->engine;
    mob_events_gap(engine->options.events, (uint32_t)(source - engine->event_sources), after, next);
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

/* --- from now on: where is that, in each shard? --- */

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
    uint64_t after[MOB_EVENTS_SHARDS_MAX];
    if (mob_events_wanted(engine->options.events, after)) {
        subscribe(engine, after);
        return;
    }
    struct newest_wait *wait = calloc(1, sizeof *wait);
    MOB_ASSERT(wait != NULL);
    wait->engine = engine;
    wait->serial = engine->events_serial;
    ask_newest(wait);
}
