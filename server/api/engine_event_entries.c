/* Entries of committed blocks to events. */
#include "server/api/engine_event_entries.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/cstring.h"
#include "server/api/failure.h"
#include "server/events/events.h"

enum { EVENT_TYPE_MAX = 255 }; /* as mob_event takes it */

struct translation {
    const struct event_sink *sink;
    const struct mob_block_header *header;
    uint32_t shard;
    struct mob_event_place place;
    char job[MOB_ID_TEXT_MAX];
    bool stopped;
};

/* What is `given` is its type, data and what else is of it alone. At 0: when the block was opened. */
static void publish(
    struct translation *t, struct mob_task_id task, int64_t mono_ns, const struct mob_event *given)
{
    char id[MOB_ID_TEXT_MAX], actor[MOB_ID_TEXT_MAX], call[ENGINE_FULL_NAME_MAX];
    struct event_spec spec;
    bool known = event_spec_of(t->sink->specs, task, &spec);
    const struct function_name *function = known ? engine_function_of(t->sink->engine, spec.function) : NULL;
    bool of_actor = known && !mob_task_id_is_zero(spec.actor.creation);
    struct mob_event event = *given;
    event.shard = t->shard;
    event.place = t->place;
    event.wall_us =
        ((mono_ns ? mono_ns : t->header->mono_ns) + t->header->wall_ns - t->header->mono_ns) / 1000;
    event.task = mob_task_id_format(task, id);
    event.subject = given->subject ? given->subject : id;
    event.job = t->job[0] ? t->job : NULL;
    event.function = function ? function->name : NULL;
    if (known && spec.is_call) {
        engine_full_name(t->sink->engine, spec.function, MOB_KIND_ACTOR_CALL, spec.method, call, sizeof call);
        event.call = call;
    }
    event.actor = of_actor ? mob_actor_id_format(spec.actor, actor) : NULL;
    t->stopped |= !t->sink->give(t->sink->arg, &event);
}

static void on_spec(struct translation *t, const struct mob_entry *entry)
{
    const struct mob_spec_head *head = &entry->spec.head;
    event_specs_note(t->sink->specs, head);
    char name[ENGINE_FULL_NAME_MAX];
    engine_full_name(t->sink->engine, head->function, head->kind, head->method, name, sizeof name);
    struct mob_text data = {0};
    size_t length;
    mob_text_puts(&data, "{\"function\":");
    mob_text_json_cstring(&data, name);
    mob_text_printf(&data, ",\"attempt\":%u}", head->attempt);
    char *text = mob_text_take(&data, &length);
    publish(t, head->task, entry->submitted_ns,
        &(struct mob_event){.type = "task.submitted", .data = text, .per_task = true});
    free(text);
}

static void on_completion(struct translation *t, const struct mob_entry *entry)
{
    const struct mob_completion_head *c = &entry->completion.head;
    struct mob_text data = {0};
    size_t length;
    mob_text_printf(&data, "{\"attempt\":%u,\"status\":\"%s\",\"worker\":%u", c->attempt,
        mob_status_code((enum mob_status)c->status), c->worker);
    if (c->started_ns != 0) /* else it never began */
        mob_text_printf(&data, ",\"duration_us\":%lld", (long long)((c->finished_ns - c->started_ns) / 1000));
    if (!mob_task_id_is_zero(c->actor.creation) && c->incarnation > 0) /* a call that got its turn */
        mob_text_printf(
            &data, ",\"incarnation\":%u,\"position\":%llu", c->incarnation, (unsigned long long)c->position);
    if (c->status != MOB_OK) {
        mob_text_puts(&data, ",\"error\":");
        mob_failure_write_completion(&data, &entry->completion);
    }
    mob_text_putc(&data, '}');
    const char *type = !(c->flags & MOB_COMPLETION_FINAL) ? "task.retrying"
        : c->status == MOB_OK                             ? "task.finished"
        : c->status == MOB_CANCELLED                      ? "task.cancelled"
                                                          : "task.failed";
    char *text = mob_text_take(&data, &length);
    publish(t, c->task, c->finished_ns, &(struct mob_event){.type = type, .data = text, .per_task = true});
    free(text);
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
    struct mob_event event = {.type = type,
        .subject = named ? node : NULL,
        .data = data && *data ? data : NULL,
        .per_task = !of_node,
        .attempt = e->attempt,
        .incarnation = e->incarnation,
        .actor_position = e->position};
    publish(t, e->task, e->at_ns, &event);
    free(data);
}

static void on_actor(struct translation *t, const struct mob_entry *entry)
{
    static const char *const types[] = {[MOB_ACTOR_EV_STARTED] = "actor.started",
        [MOB_ACTOR_EV_DIED] = "actor.died",
        [MOB_ACTOR_EV_ENDED] = "actor.ended"};
    const struct mob_entry_actor *a = &entry->actor;
    const char *type = a->event < sizeof types / sizeof types[0] ? types[a->event] : NULL;
    if (type == NULL) /* nothing of its life: MOB_ACTOR_EV_UNLOGGED is for replays */
        return;
    char id[MOB_ID_TEXT_MAX], data[128];
    snprintf(data, sizeof data, "{\"incarnation\":%u,\"position\":%llu,\"reason\":\"%s\"}", a->incarnation,
        (unsigned long long)a->position, mob_status_code((enum mob_status)a->reason));
    publish(t, a->actor.creation, 0,
        &(struct mob_event){.type = type, .subject = mob_actor_id_format(a->actor, id), .data = data});
}

static void on_job(struct translation *t, const struct mob_entry *entry)
{
    char *data = mob_cstring_copy(entry->payload, entry->payload_bytes);
    struct mob_task_id none = {0};
    publish(t, none, 0, &(struct mob_event){.type = "job", .subject = t->job, .data = data});
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

static bool lacks_spec(const struct event_sink *sink, const struct mob_entry *entry)
{
    struct mob_task_id task = task_of(entry);
    return !mob_task_id_is_zero(task) && !event_specs_know(sink->specs, task);
}

/* Of this entry and all behind it. */
static void want_specs(const struct event_sink *sink, struct mob_entry *entry)
{
    do {
        if (lacks_spec(sink, entry))
            event_specs_want(sink->specs, task_of(entry));
    } while (mob_block_next(sink->engine->event_decoder, entry) == MOB_OK);
}

enum event_block_end engine_event_block(
    const struct event_sink *sink, const struct event_block *block, uint32_t *from)
{
    struct mob_block_header header;
    static struct mob_zone_map zone; /* too large for the stack; the engine's thread only */
    static struct mob_entry entry;
    struct translation t = {.sink = sink, .header = &header, .shard = block->shard, .place = {block->seq, 0}};
    struct mob_block_decoder *decoder = sink->engine->event_decoder;
    enum mob_status status = mob_block_open(decoder, block->bytes, block->length, &header, &zone);
    if (status == MOB_OK && !mob_job_is_system(header.job))
        mob_job_id_format(header.job, t.job);
    sink->engine->worked++;
    while (status == MOB_OK && (status = mob_block_next(decoder, &entry)) == MOB_OK) {
        if (++t.place.index <= *from)
            continue;
        if (lacks_spec(sink, &entry)) {
            want_specs(sink, &entry);
            return EVENT_BLOCK_LACKS_SPECS;
        }
        translate(&t, &entry);
        if (t.stopped)
            return EVENT_BLOCK_STOPPED;
        *from = t.place.index;
    }
    event_specs_block_end(sink->specs);
    return EVENT_BLOCK_DONE;
}

bool engine_event_names_missing(struct engine *engine, const uint8_t *bytes, size_t length)
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
