/* Every entry that says something of one task, object or actor, in commit order, as JSON lines. */
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "cli/cmd_gcs.h"
#include "common/base/hash.h"
#include "common/wire/block.h"

struct dump {
    struct gcs_call *g;
    bool by_object, by_actor;
    struct mob_task_id task;
    struct mob_object_id object;
    uint64_t printed;
};

static bool concerns(const struct dump *d, const struct mob_entry *e)
{
    struct mob_task_id none = {0}, task = none;
    struct mob_object_id object = {none, 0};
    switch (e->type) {
    case MOB_ENTRY_SPEC:
        task = e->spec.head.task;
        break;
    case MOB_ENTRY_COMPLETION:
        task = e->completion.head.task;
        break;
    case MOB_ENTRY_PUT:
        object = e->put.id;
        break;
    case MOB_ENTRY_YIELD:
        object = mob_object_of(e->yield.task, e->yield.item);
        break;
    case MOB_ENTRY_HASH:
        object = e->hash.id;
        break;
    case MOB_ENTRY_OUTCOME:
        task = e->outcome.task;
        break;
    case MOB_ENTRY_EVENT:
        task = e->event.task;
        break;
    case MOB_ENTRY_EDGE:
    case MOB_ENTRY_SKIP:
        if (d->by_actor && mob_task_id_eq(e->edge.actor.creation, d->task))
            return true;
        task = e->edge.task;
        break;
    case MOB_ENTRY_ACTOR:
        task = e->actor.actor.creation;
        break;
    case MOB_ENTRY_CANCEL:
        task = e->cancel.task;
        break;
    case MOB_ENTRY_JOB:
    default:
        break;
    }
    if (mob_task_id_is_zero(task))
        return d->by_object ? mob_object_id_eq(object, d->object) : mob_task_id_eq(object.task, d->task);
    return mob_task_id_eq(task, d->task);
}

static void add_id(json_t *line, const char *key, struct mob_task_id id)
{
    char text[MOB_ID_TEXT_MAX];
    json_object_set_new(line, key, json_string(mob_task_id_format(id, text)));
}

static void add_object(json_t *line, struct mob_object_id id)
{
    char text[MOB_ID_TEXT_MAX];
    json_object_set_new(line, "object", json_string(mob_object_id_format(id, text)));
}

/* As GET /objects/{id} shows it. */
static void add_hash(json_t *line, struct mob_hash128 hash)
{
    char text[33];
    snprintf(text, sizeof text, "%016llx%016llx", (unsigned long long)hash.hi, (unsigned long long)hash.lo);
    json_object_set_new(line, "hash", json_string(text));
}

static void add_number(json_t *line, const char *key, uint64_t value)
{
    json_object_set_new(line, key, json_integer((json_int_t)value));
}

static void add_completion(
    json_t *line, const struct mob_block_header *h, const struct mob_completion_head *c)
{
    int64_t to_wall = h->wall_ns - h->mono_ns;
    add_id(line, "task", c->task);
    add_number(line, "attempt", c->attempt);
    json_object_set_new(line, "status", json_string(mob_status_code((enum mob_status)c->status)));
    json_object_set_new(line, "final", json_boolean(c->flags & MOB_COMPLETION_FINAL));
    add_number(line, "worker", c->worker);
    add_number(line, "started_us", c->started_ns ? (uint64_t)((c->started_ns + to_wall) / 1000) : 0);
    add_number(line, "finished_us", c->finished_ns ? (uint64_t)((c->finished_ns + to_wall) / 1000) : 0);
}

static void add_edge(json_t *line, const struct mob_entry_edge *e)
{
    add_id(line, "task", e->task);
    add_number(line, "incarnation_of_actor", e->incarnation);
    add_number(line, "position", e->position);
}

static const char *add_fields(json_t *line, const struct mob_block_header *h, const struct mob_entry *e)
{
    char text[MOB_ID_TEXT_MAX];
    switch (e->type) {
    case MOB_ENTRY_SPEC:
        add_id(line, "task", e->spec.head.task);
        add_id(line, "parent", e->spec.head.parent);
        add_number(line, "attempt", e->spec.head.attempt);
        json_object_set_new(
            line, "function", json_string(mob_function_id_format(e->spec.head.function, text)));
        add_number(line, "submitted_us", (uint64_t)((e->submitted_ns + h->wall_ns - h->mono_ns) / 1000));
        return "spec";
    case MOB_ENTRY_COMPLETION:
        add_completion(line, h, &e->completion.head);
        return "completion";
    case MOB_ENTRY_PUT:
        add_object(line, e->put.id);
        add_number(line, "size", e->put.size);
        add_number(line, "flags", e->put.flags);
        return "put";
    case MOB_ENTRY_YIELD:
        add_object(line, mob_object_of(e->yield.task, e->yield.item));
        return "yield";
    case MOB_ENTRY_OUTCOME:
        add_id(line, "task", e->outcome.task);
        return "outcome";
    case MOB_ENTRY_EVENT:
        add_id(line, "task", e->event.task);
        add_number(line, "attempt", e->event.attempt);
        return "event";
    case MOB_ENTRY_EDGE:
        add_edge(line, &e->edge);
        return "edge";
    case MOB_ENTRY_SKIP:
        add_edge(line, &e->edge);
        json_object_set_new(line, "reason", json_string(mob_status_code((enum mob_status)e->edge.reason)));
        return "skip";
    case MOB_ENTRY_ACTOR:
        add_number(line, "incarnation_of_actor", e->actor.incarnation);
        add_number(line, "event", e->actor.event);
        add_number(line, "position", e->actor.position);
        return "actor";
    case MOB_ENTRY_HASH:
        add_object(line, e->hash.id);
        add_hash(line, e->hash.hash);
        return "hash";
    case MOB_ENTRY_CANCEL:
        add_id(line, "task", e->cancel.task);
        return "cancel";
    case MOB_ENTRY_JOB:
    default:
        return "job";
    }
}

static void print_block(
    struct dump *d, struct mob_block_decoder *decoder, const struct mob_gcs_block_row *row)
{
    static struct mob_zone_map zone;
    static struct mob_entry entry;
    struct mob_block_header header;
    uint32_t shard;
    uint64_t seq = mob_gcs_position_in_shard(row->seq, &shard);
    enum mob_status status = mob_block_open(decoder, row->bytes, row->length, &header, &zone);
    while (status == MOB_OK && (status = mob_block_next(decoder, &entry)) == MOB_OK) {
        if (!concerns(d, &entry))
            continue;
        json_t *line = json_pack("{s:i,s:I,s:I,s:I,s:s}", "shard", (int)shard, "seq", (json_int_t)seq,
            "incarnation", (json_int_t)row->incarnation, "block", (json_int_t)row->number, "from",
            row->recut ? "postgres" : "redis");
        const char *type = add_fields(line, &header, &entry);
        json_object_set_new(line, "entry", json_string(type));
        json_dumpf(line, stdout, JSON_COMPACT);
        putchar('\n');
        json_decref(line);
        d->printed++;
    }
    if (status != MOB_CLOSED)
        cli_say(
            "the block at %" PRIu64 " of shard %u does not decode: %s", seq, shard, mob_status_text(status));
}

static bool print_group(struct dump *d, struct mob_block_decoder *decoder, struct mob_task_id group)
{
    uint64_t position = 0;
    do {
        struct mob_gcs_sync sync = {0};
        struct mob_gcs_result *r = gcs_wait(d->g,
            mob_gcs_group_blocks(
                d->g->gcs, group.stream, group.index >> MOB_GROUP_SHIFT, position, mob_gcs_sync_done, &sync),
            &sync);
        if (r == NULL)
            return false;
        const struct mob_gcs_answer *a = mob_gcs_result_answer(r);
        for (uint32_t i = 0; i < a->block_count; i++)
            print_block(d, decoder, &a->blocks[i]);
        position = a->next;
        mob_gcs_result_destroy(r);
    } while (position != 0);
    return true;
}

enum cli_exit gcs_dump(struct gcs_call *g, const char *id)
{
    struct dump d = {.g = g};
    struct mob_actor_id actor;
    struct mob_task_id group;
    if (mob_object_id_parse(id, &d.object) == MOB_OK) {
        d.by_object = true;
        d.task = d.object.task;
        group = mob_put_group(d.object);
    } else if (mob_actor_id_parse(id, &actor) == MOB_OK) {
        d.by_actor = true;
        group = d.task = actor.creation;
    } else if (mob_task_id_parse(id, &d.task) == MOB_OK) {
        group = d.task;
    } else {
        cli_say("%s is no id of a task, an object or an actor", id);
        return CLI_USAGE;
    }
    struct mob_block_decoder *decoder = mob_block_decoder_create();
    bool read = decoder != NULL && print_group(&d, decoder, group);
    mob_block_decoder_destroy(decoder);
    if (!read)
        return CLI_UNREACHABLE;
    if (d.printed == 0)
        cli_say("nothing is known of %s", id);
    return d.printed > 0 ? CLI_OK : CLI_NOT_FOUND;
}
