/* A task's record as JSON. */
#include <stdlib.h>
#include <string.h>

#include "common/wire/json_value.h"
#include "common/wire/option_bounds.h"
#include "common/wire/spec_json.h"
#include "server/api/failure.h"
#include "server/api/lineage.h"

#define VALUE_JSON_MAX (256u << 10)
/* Of one task's text; HTTP submits at most 65,534. */
#define ARGUMENTS_SHOWN_MAX 65534u
/* All that a task may have; of a stream, whose items have a page of their own, the first. */
#define RETURNS_SHOWN_MAX MOB_RETURNS_MAX

static bool has_ended(const struct task_record *r)
{
    return r->has_completion && (r->completion.flags & MOB_COMPLETION_FINAL);
}

const char *task_record_state(const struct task_record *r)
{
    if (!has_ended(r))
        return "submitted";
    if (r->completion.status == MOB_OK)
        return "finished";
    return r->completion.status == MOB_CANCELLED ? "cancelled" : "failed";
}

static void write_value(
    enum mob_value_type type, const uint8_t *payload, uint64_t bytes, struct mob_text *out)
{
    char *json = NULL;
    uint64_t length = 0;
    if (mob_value_to_json(type, payload, bytes, VALUE_JSON_MAX, &json, &length) == MOB_OK)
        mob_text_put(out, json, length);
    else
        mob_text_puts(out, "null");
    free(json);
}

static void write_object_id(struct mob_object_id id, struct mob_text *out)
{
    char text[MOB_ID_TEXT_MAX];
    mob_text_putc(out, '"');
    mob_text_puts(out, mob_object_id_format(id, text));
    mob_text_putc(out, '"');
}

/* The list is cut: how long it is. */
static void write_argument_count(const struct task_record *r, struct mob_text *out)
{
    struct mob_ext_view ext;
    uint32_t total = 0;
    if (mob_spec_find_ext(r->tail, MOB_EXT_ARG_PAGES, &ext) && ext.payload_bytes >= 8)
        memcpy(&total, ext.payload + 4, sizeof total);
    mob_text_printf(out, ",\"arguments_truncated\":true,\"argument_count\":%u", total);
}

static void write_arguments(const struct task_record *r, struct mob_text *out)
{
    struct argument_walk walk = task_record_arguments(r);
    struct mob_arg_view arg;
    uint32_t count = 0;
    mob_text_puts(out, ",\"arguments\":[");
    for (; count < ARGUMENTS_SHOWN_MAX && argument_next(&walk, &arg); count++) {
        if (count > 0)
            mob_text_putc(out, ',');
        if (arg.is_ref) {
            mob_text_puts(out, "{\"$ref\":");
            write_object_id(arg.ref, out);
            mob_text_putc(out, '}');
        } else {
            write_value(arg.type, arg.payload, arg.payload_bytes, out);
        }
    }
    mob_text_putc(out, ']');
    if (walk.missing || count == ARGUMENTS_SHOWN_MAX)
        write_argument_count(r, out);
}

void task_record_write_options(const struct task_record *r, struct mob_text *out)
{
    char *json;
    uint64_t length;
    if (mob_spec_options_json(&r->spec, r->tail, &json, &length) != MOB_OK) {
        out->failed = true;
        return;
    }
    mob_text_putc(out, ',');
    mob_text_put(out, json + 1, length - 2); /* its members, without the braces */
    free(json);
}

static void write_return(
    struct mob_object_id id, const struct mob_return_view *ret, const char *separator, struct mob_text *out)
{
    mob_text_puts(out, separator);
    mob_text_puts(out, "{\"id\":");
    write_object_id(id, out);
    if (ret->type == MOB_TYPE_FUTURE && ret->payload && ret->size == sizeof id) {
        struct mob_object_id target;
        memcpy(&target, ret->payload, sizeof target);
        mob_text_puts(out, ",\"becomes\":");
        write_object_id(target, out);
        mob_text_putc(out, '}');
        return;
    }
    mob_text_printf(
        out, ",\"type\":\"%s\",\"size\":%llu", mob_value_type_name(ret->type), (unsigned long long)ret->size);
    if (!(ret->flags & MOB_RETURN_STORED)) {
        mob_text_puts(out, ",\"value\":");
        write_value(ret->type, ret->payload, ret->size, out);
    } else if (ret->hash.lo | ret->hash.hi) {
        mob_text_printf(out, ",\"hash\":\"%016llx%016llx\"", (unsigned long long)ret->hash.hi,
            (unsigned long long)ret->hash.lo);
    }
    mob_text_putc(out, '}');
}

static bool is_stream(const struct task_record *r)
{
    return r->has_spec && r->spec.num_returns == MOB_RETURNS_STREAM;
}

/* A generator's items are objects like returns; the page /tasks/{id}/items has their values. */
static void write_stream(const struct task_record *r, struct mob_text *out)
{
    uint32_t count = r->items_logged;
    for (uint32_t i = 0; i < count && i < RETURNS_SHOWN_MAX; i++) {
        mob_text_puts(out, i > 0 ? ",{\"id\":" : "{\"id\":");
        write_object_id(mob_object_of(r->id, i), out);
        mob_text_putc(out, '}');
    }
    mob_text_printf(out, "],\"stream\":{\"items\":%u,\"ended\":%s}", count, has_ended(r) ? "true" : "false");
}

static void write_returns(const struct task_record *r, struct mob_text *out)
{
    mob_text_puts(out, ",\"returns\":[");
    if (is_stream(r)) {
        write_stream(r, out);
        return;
    }
    if (has_ended(r)) {
        struct mob_completion completion = {r->completion, r->body};
        struct mob_return_view ret;
        uint32_t at = 0;
        for (bool first = true; mob_completion_next(&completion, &at, &ret); first = false)
            write_return(mob_object_of(r->id, ret.slot), &ret, first ? "" : ",", out);
    } else if (r->has_spec) {
        uint32_t count = r->spec.num_returns;
        for (uint32_t i = 0; i < count && i < RETURNS_SHOWN_MAX; i++) {
            mob_text_puts(out, i > 0 ? ",{\"id\":" : "{\"id\":");
            write_object_id(mob_object_of(r->id, i), out);
            mob_text_putc(out, '}');
        }
    }
    mob_text_putc(out, ']');
}

void lineage_item_write_value(const struct lineage_item *item, struct mob_text *out)
{
    write_value(item->type, item->payload, item->size, out);
}

void lineage_item_write(struct mob_task_id task, const struct lineage_item *item, struct mob_text *out)
{
    mob_text_printf(out, "{\"index\":%u,\"id\":", item->index);
    write_object_id(mob_object_of(task, item->index), out);
    mob_text_printf(out, ",\"type\":\"%s\",\"size\":%llu", mob_value_type_name(item->type),
        (unsigned long long)item->size);
    if (item->payload) {
        mob_text_puts(out, ",\"value\":");
        write_value(item->type, item->payload, item->size, out);
    }
    mob_text_putc(out, '}');
}

static void write_time(const struct task_record *r, const char *name, int64_t mono_ns, struct mob_text *out)
{
    if (mono_ns != 0)
        mob_text_printf(out, ",\"%s\":%lld", name, (long long)((mono_ns + r->wall_minus_mono_ns) / 1000));
}

/* Of an attempt that has not ended only the node knows. */
static void write_times_so_far(const json_t *live, struct mob_text *out)
{
    static const char *const names[] = {"inputs_ready_us", "dispatched_us", "started_us", "worker"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const json_t *value = json_object_get(live, names[i]);
        if (value)
            mob_text_printf(out, ",\"%s\":%lld", names[i], (long long)json_integer_value(value));
    }
}

static void write_times(const struct task_record *r, const json_t *live, struct mob_text *out)
{
    const struct mob_completion_head *c = &r->completion;
    if (r->submitted_wall_ns > 0)
        mob_text_printf(out, ",\"submitted_us\":%lld", (long long)(r->submitted_wall_ns / 1000));
    else if (r->has_completion)
        write_time(r, "submitted_us", c->submitted_ns, out);
    if (!has_ended(r)) {
        write_times_so_far(live, out);
        return;
    }
    write_time(r, "inputs_ready_us", c->ready_ns, out);
    write_time(r, "dispatched_us", c->dispatched_ns, out);
    write_time(r, "started_us", c->started_ns, out);
    write_time(r, "finished_us", c->finished_ns, out);
    mob_text_printf(out, ",\"cpu_us\":%lld,\"worker\":%u", (long long)(c->cpu_ns / 1000), c->worker);
    if (c->peak_kb > 0)
        mob_text_printf(out, ",\"peak_kb\":%u", c->peak_kb);
    else /* the task was too short to be measured */
        mob_text_puts(out, ",\"peak_kb\":null");
}

void task_record_write_error(const struct task_record *r, struct mob_text *out)
{
    struct mob_completion completion = {r->completion, r->body};
    mob_text_puts(out, ",\"error\":");
    mob_failure_write_completion(out, &completion);
}

void task_record_write_name(
    const struct task_record *r, const struct lineage_names *names, struct mob_text *out)
{
    const char *function = r->has_spec ? names->function(names->cls, r->spec.function) : NULL;
    char method[128];
    const char *called = r->has_spec && r->spec.kind == MOB_KIND_ACTOR_CALL
        ? names->method(names->cls, r->spec.function, r->spec.method, method, sizeof method)
        : NULL;
    char name[512];
    snprintf(name, sizeof name, "%s%s%s", function ? function : "", called ? "." : "", called ? called : "");
    mob_text_json_cstring(out, name);
}

static const char *kind_name(const struct task_record *r)
{
    switch (r->has_spec ? r->spec.kind : 0) {
    case MOB_KIND_ACTOR_CREATE:
        return "actor_create";
    case MOB_KIND_ACTOR_CALL:
        return "actor_call";
    default:
        return "task";
    }
}

/* Of a task that has not ended: the log knows only what earlier attempts were, the node counts on. */
static unsigned newest(const struct task_record *r, const json_t *live, const char *key, unsigned logged)
{
    json_int_t n = has_ended(r) ? 0 : json_integer_value(json_object_get(live, key));
    return n > (json_int_t)logged ? (unsigned)n : logged;
}

/* As GET /nodes names it, and which of its lives. */
static void write_node(const struct task_record *r, const struct lineage_names *names, struct mob_text *out)
{
    const char *node = names->node(names->cls, r->incarnation);
    mob_text_puts(out, ",\"node\":");
    if (node)
        mob_text_json_cstring(out, node);
    else
        mob_text_puts(out, "null");
    mob_text_printf(out, ",\"node_incarnation\":%llu", (unsigned long long)r->incarnation);
}

void task_record_write(
    const struct task_record *r, const struct lineage_names *names, const json_t *live, struct mob_text *out)
{
    char id[MOB_ID_TEXT_MAX], job[MOB_ID_TEXT_MAX], parent[MOB_ID_TEXT_MAX], actor[MOB_ID_TEXT_MAX];
    const char *state = live ? json_string_value(json_object_get(live, "state")) : NULL;
    mob_text_printf(out, "{\"id\":\"%s\",\"state\":\"%s\",\"kind\":\"%s\",\"job\":\"%s\",\"function\":",
        mob_task_id_format(r->id, id), state && !has_ended(r) ? state : task_record_state(r), kind_name(r),
        mob_job_id_format(r->job, job));
    task_record_write_name(r, names, out);
    if (r->has_spec) {
        const char *hash = names->hash(names->cls, r->spec.function);
        if (hash)
            mob_text_printf(out, ",\"module_hash\":\"%s\"", hash);
        mob_text_printf(out, ",\"parent\":\"%s\",\"generation\":%u,\"cpus\":%g",
            mob_task_id_format(r->spec.parent, parent),
            newest(r, live, "generation", r->has_completion ? r->completion.generation : r->spec.generation),
            (double)r->spec.cpu / MOB_AMOUNT_UNITS);
        task_record_write_options(r, out);
        if (r->spec.kind == MOB_KIND_ACTOR_CALL)
            mob_text_printf(out, ",\"actor\":\"%s\"", mob_actor_id_format(r->spec.actor, actor));
        write_arguments(r, out);
    }
    write_node(r, names, out);
    mob_text_printf(out, ",\"attempt\":%u",
        newest(r, live, "attempt",
            r->has_completion ? r->completion.attempt
                : r->has_spec ? r->spec.attempt
                              : 1));
    if (r->has_completion && r->spec.kind == MOB_KIND_ACTOR_CALL)
        mob_text_printf(out, ",\"position\":%llu,\"incarnation\":%u",
            (unsigned long long)r->completion.position, r->completion.incarnation);
    write_times(r, live, out);
    write_returns(r, out);
    if (r->has_completion && r->completion.status != MOB_OK)
        task_record_write_error(r, out);
    mob_text_putc(out, '}');
}
