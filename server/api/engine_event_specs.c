#include "server/api/engine_event_specs.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"

#define RECENT 65536u /* direct-mapped: 44 bytes each, touched as they come */
#define READ_BUCKETS 1024u

/* Of a group that was read for the block in hand. */
struct read_spec {
    struct read_spec *next;
    struct event_spec spec;
};
struct read_group {
    struct read_group *next;
    struct mob_stream stream;
    uint32_t group;
};

struct event_specs {
    struct engine *engine;
    struct event_spec *recent;
    struct read_spec *read[READ_BUCKETS];
    struct read_group *groups;
};

/* A read on its way. It may outlive the block that it was for. */
struct spec_reading {
    struct event_specs *specs;
    struct mob_stream stream;
    uint32_t group;
    void (*then)(void *arg);
    void *arg;
};

struct event_specs *event_specs_create(struct engine *engine)
{
    struct event_specs *specs = calloc(1, sizeof *specs);
    if (!specs)
        return NULL;
    specs->engine = engine;
    specs->recent = calloc(RECENT, sizeof *specs->recent);
    if (!specs->recent) {
        free(specs);
        return NULL;
    }
    return specs;
}

void event_specs_destroy(struct event_specs *specs)
{
    if (!specs)
        return;
    event_specs_block_end(specs);
    free(specs->recent);
    free(specs);
}

static struct event_spec spec_of(const struct mob_spec_head *head)
{
    struct event_spec spec = {head->task, head->function, head->actor};
    if (head->kind == MOB_KIND_ACTOR_CREATE)
        spec.actor = (struct mob_actor_id){head->task};
    return spec;
}

void event_specs_note(struct event_specs *specs, const struct mob_spec_head *head)
{
    specs->recent[mob_task_id_mix(head->task) % RECENT] = spec_of(head);
}

const struct event_spec *event_spec_of(const struct event_specs *specs, struct mob_task_id task)
{
    const struct event_spec *recent = &specs->recent[mob_task_id_mix(task) % RECENT];
    if (mob_task_id_eq(recent->task, task))
        return recent;
    const struct read_spec *read = specs->read[mob_task_id_mix(task) % READ_BUCKETS];
    while (read && !mob_task_id_eq(read->spec.task, task))
        read = read->next;
    return read ? &read->spec : NULL;
}

bool event_specs_know(const struct event_specs *specs, struct mob_task_id task)
{
    if (event_spec_of(specs, task))
        return true;
    const struct read_group *g = specs->groups;
    while (g && !(g->group == task.index >> MOB_GROUP_SHIFT && mob_stream_eq(g->stream, task.stream)))
        g = g->next;
    return g != NULL;
}

/* --- reading --- */

static void keep(struct event_specs *specs, const struct mob_spec_head *head)
{
    struct read_spec **bucket = &specs->read[mob_task_id_mix(head->task) % READ_BUCKETS];
    struct read_spec *read = malloc(sizeof *read);
    MOB_ASSERT(read != NULL);
    *read = (struct read_spec){*bucket, spec_of(head)};
    *bucket = read;
}

static void take_block(struct spec_reading *reading, const struct mob_gcs_block_row *row)
{
    struct mob_block_decoder *decoder = reading->specs->engine->decoder;
    struct mob_block_header header;
    static struct mob_zone_map zone; /* too large for the stack; the engine's thread only */
    static struct mob_entry entry;
    enum mob_status status = mob_block_open(decoder, row->bytes, row->length, &header, &zone);
    while (status == MOB_OK && (status = mob_block_next(decoder, &entry)) == MOB_OK) {
        const struct mob_spec_head *head = &entry.spec.head;
        if (entry.type == MOB_ENTRY_SPEC && head->task.index >> MOB_GROUP_SHIFT == reading->group &&
            mob_stream_eq(head->task.stream, reading->stream) && !event_spec_of(reading->specs, head->task))
            keep(reading->specs, head);
    }
}

static void read_end(struct spec_reading *reading)
{
    struct read_group *group = malloc(sizeof *group);
    MOB_ASSERT(group != NULL);
    *group = (struct read_group){reading->specs->groups, reading->stream, reading->group};
    reading->specs->groups = group;
    reading->then(reading->arg);
    free(reading);
}

static void on_blocks(void *arg, const struct mob_gcs_answer *answer)
{
    struct spec_reading *reading = arg;
    enum mob_status status = answer->status;
    for (uint32_t i = 0; status == MOB_OK && i < answer->block_count; i++)
        take_block(reading, &answer->blocks[i]);
    if (status == MOB_OK && answer->next != 0)
        status = mob_gcs_group_blocks(
            reading->specs->engine->gcs, reading->stream, reading->group, answer->next, on_blocks, reading);
    if (status != MOB_OK || answer->next == 0) /* what could not be read is published without */
        read_end(reading);
}

void event_specs_read(struct event_specs *specs, struct mob_task_id task, void (*then)(void *arg), void *arg)
{
    struct spec_reading *reading = malloc(sizeof *reading);
    MOB_ASSERT(reading != NULL);
    *reading = (struct spec_reading){specs, task.stream, task.index >> MOB_GROUP_SHIFT, then, arg};
    if (mob_gcs_group_blocks(specs->engine->gcs, reading->stream, reading->group, 0, on_blocks, reading) !=
        MOB_OK)
        read_end(reading);
}

void event_specs_block_end(struct event_specs *specs)
{
    if (!specs->groups)
        return;
    for (size_t b = 0; b < READ_BUCKETS; b++) {
        for (struct read_spec *read = specs->read[b], *next; read; read = next) {
            next = read->next;
            free(read);
        }
        specs->read[b] = NULL;
    }
    while (specs->groups) {
        struct read_group *group = specs->groups;
        specs->groups = group->next;
        free(group);
    }
}
