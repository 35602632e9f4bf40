/* Committed blocks to events. The subscription exists only while the hub wants events. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/cstring.h"
#include "common/base/log.h"
#include "server/api/engine_inner.h"
#include "server/events/events.h"

/* Whom a completion belongs to is only in its spec, which was in an earlier entry: the last few are
 * remembered. */
#define RECENT 65536u

struct recent {
    struct mob_task_id task;
    struct mob_function_id function;
    struct mob_actor_id actor;
};

struct translation {
    struct engine *engine;
    const struct mob_block_header *header;
    struct mob_event_position position;
    char job[MOB_ID_TEXT_MAX];
};

static struct recent *recent_of(struct mob_task_id task)
{
    static struct recent *table; /* the engine's thread only; lives as long as the process */
    if (!table)
        table = calloc(RECENT, sizeof *table);
    MOB_ASSERT(table != NULL);
    return &table[mob_task_id_mix(task) % RECENT];
}

static void publish(struct translation *t, struct mob_task_id task, const char *type, int64_t mono_ns,
    const char *data, bool per_task, const char *subject)
{
    char id[MOB_ID_TEXT_MAX], actor[MOB_ID_TEXT_MAX];
    const struct recent *recent = recent_of(task);
    bool known = mob_task_id_eq(recent->task, task);
    const struct function_name *function = known ? engine_function_of(t->engine, recent->function) : NULL;
    bool of_actor = known && !mob_task_id_is_zero(recent->actor.creation);
    mob_task_id_format(task, id);
    struct mob_event event = {.position = t->position,
        .wall_us =
            ((mono_ns ? mono_ns : t->header->mono_ns) + t->header->wall_ns - t->header->mono_ns) / 1000,
        .type = type,
        .subject = subject ? subject : id,
        .task = id,
        .job = t->job,
        .function = function ? function->name : NULL,
        .actor = of_actor ? mob_actor_id_format(recent->actor, actor) : NULL,
        .data = data,
        .per_task = per_task};
    mob_events_publish(t->engine->options.events, &event);
}

static void on_spec(struct translation *t, const struct mob_entry *entry)
{
    const struct mob_spec_head *head = &entry->spec.head;
    struct recent *recent = recent_of(head->task);
    *recent = (struct recent){head->task, head->function, head->actor};
    if (head->kind == MOB_KIND_ACTOR_CREATE)
        recent->actor = (struct mob_actor_id){head->task};
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
    char data[256];
    snprintf(data, sizeof data, "{\"attempt\":%u,\"status\":\"%s\",\"worker\":%u,\"duration_us\":%lld}",
        c->attempt, mob_status_code((enum mob_status)c->status), c->worker,
        (long long)((c->finished_ns - c->started_ns) / 1000));
    const char *type = !(c->flags & MOB_COMPLETION_FINAL) ? "task.retrying"
        : c->status == MOB_OK                             ? "task.finished"
        : c->status == MOB_CANCELLED                      ? "task.cancelled"
                                                          : "task.failed";
    publish(t, c->task, type, c->finished_ns, data, true, NULL);
}

static void on_function_event(struct translation *t, const struct mob_entry *entry)
{
    const struct mob_out_event *e = &entry->event;
    if (e->type_bytes + (uint64_t)e->json_bytes > entry->payload_bytes || e->type_bytes > 200)
        return;
    char type[208];
    memcpy(type, entry->payload, e->type_bytes);
    type[e->type_bytes] = 0;
    char *data = mob_cstring_copy(entry->payload + e->type_bytes, e->json_bytes);
    publish(t, e->task, type, e->at_ns, data && *data ? data : NULL, true, NULL);
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

static void translate_block(struct engine *engine, uint64_t seq, const uint8_t *bytes, size_t length)
{
    struct mob_block_header header;
    static struct mob_zone_map zone; /* too large for the stack; the engine's thread only */
    static struct mob_entry entry;
    struct translation t = {.engine = engine, .header = &header, .position = {seq, 0}};
    enum mob_status status = mob_block_open(engine->event_decoder, bytes, length, &header, &zone);
    if (status == MOB_OK)
        mob_job_id_format(header.job, t.job);
    while (status == MOB_OK && (status = mob_block_next(engine->event_decoder, &entry)) == MOB_OK) {
        t.position.index++;
        translate(&t, &entry);
    }
    mob_events_pass(engine->options.events, seq);
    engine->worked++;
}

/* --- blocks with functions that were deployed a moment ago wait for their names --- */

#define HELD_MAX 1024u
struct held_block {
    struct held_block *next;
    uint64_t seq;
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

static void hold(struct engine *engine, const struct mob_gcs_block_row *row)
{
    struct held_block *held = malloc(sizeof *held + row->length);
    MOB_ASSERT(held != NULL);
    held->next = NULL;
    held->seq = row->seq;
    held->length = row->length;
    memcpy(held->bytes, row->bytes, row->length);
    *engine->held_end = held;
    engine->held_end = &held->next;
    engine->held_count++;
}

static void release_first(struct engine *engine)
{
    struct held_block *held = engine->held;
    translate_block(engine, held->seq, held->bytes, held->length);
    engine->held = held->next;
    if (!engine->held)
        engine->held_end = &engine->held;
    engine->held_count--;
    free(held);
}

static void on_names(void *arg)
{
    struct engine *engine = arg;
    bool first = true; /* it waited for this reading; a later one may need another */
    while (engine->held) {
        if (!first && has_missing_names(engine, engine->held->bytes, engine->held->length)) {
            engine_functions_refresh(engine, on_names, engine);
            return;
        }
        release_first(engine);
        first = false;
    }
}

static void on_block(void *arg, const struct mob_gcs_block_row *row)
{
    struct engine *engine = arg;
    if (engine->held) {
        if (engine->held_count == HELD_MAX)
            release_first(engine); /* the node is slow: without a name rather than without an end */
        hold(engine, row);
    } else if (has_missing_names(engine, row->bytes, row->length)) {
        hold(engine, row);
        engine_functions_refresh(engine, on_names, engine);
    } else {
        translate_block(engine, row->seq, row->bytes, row->length);
    }
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
}

static void on_resync(void *arg, uint64_t after, uint64_t next)
{
    struct engine *engine = arg;
    mob_events_gap(engine->options.events, after, next);
}

static void subscribe(struct engine *engine, uint64_t after)
{
    if (engine->subscription)
        mob_gcs_unsubscribe(engine->subscription);
    engine->subscription = NULL;
    engine_events_end(engine);
    struct mob_gcs_sub_events events = {on_block, on_resync, engine};
    enum mob_status status = mob_gcs_subscribe(engine->gcs, after, &events, &engine->subscription);
    if (status == MOB_OK)
        mob_events_started(engine->options.events, after);
    else
        MOB_LOG_WARN("engine", "subscribe_failed", "code=%s", mob_status_code(status));
}

static void on_newest(void *arg, const struct mob_gcs_answer *answer)
{
    struct engine *engine = arg;
    if (answer->status == MOB_OK && answer->stats)
        subscribe(engine, answer->stats->committed);
    else
        atomic_store(&engine->events_wanted, UINT64_MAX); /* again */
}

void engine_events_step(struct engine *engine)
{
    if (atomic_load_explicit(&engine->events_unwanted, memory_order_relaxed) &&
        atomic_exchange(&engine->events_unwanted, false)) {
        if (engine->subscription)
            mob_gcs_unsubscribe(engine->subscription);
        engine->subscription = NULL;
        engine_events_end(engine);
    }
    if (!atomic_load_explicit(&engine->events_wanted, memory_order_relaxed) || !engine->gcs_up)
        return;
    uint64_t wanted = atomic_exchange(&engine->events_wanted, 0);
    engine->worked++;
    if (wanted != UINT64_MAX)
        subscribe(engine, wanted - 1);
    else if (mob_gcs_stats(engine->gcs, on_newest, engine) != MOB_OK)
        atomic_store(&engine->events_wanted, UINT64_MAX);
}
