#include "server/api/engine_event_specs.h"

#include <stdlib.h>

#include "common/base/log.h"
#include "server/api/engine_specs.h"
#include "server/api/lineage_wants.h"

struct event_specs {
    struct engine *engine;
    struct recent_specs *recent;
    /* Of the block in hand. */
    struct lineage_wants wanted; /* tasks */
    bool all_read; /* of those: what was not found is in no log */
    struct spec_search *search; /* NULL: nothing was read for it */
    struct spec_reading *reading; /* under way */
};

/* It may outlive the block that it is for, and then it has the search. */
struct spec_reading {
    struct event_specs *specs; /* NULL: nobody waits for what it finds */
    struct spec_search *search;
    void (*then)(void *arg);
    void *arg;
};

struct event_specs *event_specs_create(struct engine *engine)
{
    struct event_specs *specs = calloc(1, sizeof *specs);
    if (!specs)
        return NULL;
    specs->engine = engine;
    specs->recent = recent_specs_create();
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
    recent_specs_destroy(specs->recent);
    free(specs);
}

static struct event_spec spec_of(const struct mob_spec_head *head)
{
    struct event_spec spec = {
        head->task, head->function, head->actor, head->method, head->kind == MOB_KIND_ACTOR_CALL};
    if (head->kind == MOB_KIND_ACTOR_CREATE)
        spec.actor = (struct mob_actor_id){head->task};
    return spec;
}

void event_specs_note(struct event_specs *specs, const struct mob_spec_head *head)
{
    struct event_spec spec = spec_of(head);
    recent_specs_note(specs->recent, &spec);
}

bool event_spec_of(const struct event_specs *specs, struct mob_task_id task, struct event_spec *spec_out)
{
    const struct event_spec *recent = recent_specs_find(specs->recent, task);
    if (recent) {
        *spec_out = *recent;
        return true;
    }
    const struct task_record *record = specs->search ? spec_search_find(specs->search, task) : NULL;
    if (record)
        *spec_out = spec_of(&record->spec);
    return record != NULL;
}

bool event_specs_know(const struct event_specs *specs, struct mob_task_id task)
{
    struct event_spec spec;
    return event_spec_of(specs, task, &spec) || (specs->all_read && lineage_wants(&specs->wanted, task));
}

/* --- reading --- */

void event_specs_want(struct event_specs *specs, struct mob_task_id task)
{
    lineage_wants_add(&specs->wanted, LINEAGE_WANTS_TASK, task.stream, task.index);
    specs->all_read = false;
}

/* The next one that is wanted and was not found; NULL: that was the last. */
static const struct lineage_want *next_unknown(const struct event_specs *specs, size_t *at)
{
    while (*at < specs->wanted.capacity) {
        const struct lineage_want *want = &specs->wanted.slots[(*at)++];
        struct event_spec spec;
        if (want->kind != 0 && !event_spec_of(specs, (struct mob_task_id){want->stream, want->number}, &spec))
            return want;
    }
    return NULL;
}

static void note_passing(void *arg, const struct mob_spec_head *head)
{
    event_specs_note(arg, head);
}

/* What could not be read is published without. */
static void on_read(void *arg, enum mob_status status)
{
    struct spec_reading *reading = arg;
    (void)status;
    struct event_specs *specs = reading->specs;
    if (specs) {
        specs->reading = NULL;
        specs->all_read = true;
    } else {
        spec_search_destroy(reading->search);
    }
    reading->then(reading->arg);
    free(reading);
}

void event_specs_read(
    struct event_specs *specs, const struct event_block *block, void (*then)(void *arg), void *arg)
{
    uint32_t shards = mob_gcs_shard_count(specs->engine->gcs);
    uint64_t position = block->recut ? 0 : mob_gcs_shard_position(shards, block->shard, block->seq);
    const struct mob_gcs_block_row row = {
        .seq = position, .bytes = block->bytes, .length = (uint32_t)block->length, .recut = block->recut};
    const struct lineage_want *want;
    MOB_ASSERT(!specs->reading);
    if (!specs->search) {
        specs->search = spec_search_create(specs->engine);
        spec_search_each(specs->search, note_passing, specs);
    }
    for (size_t at = 0; (want = next_unknown(specs, &at)) != NULL;)
        spec_search_want(specs->search, (struct mob_task_id){want->stream, want->number});
    spec_search_block(specs->search, &row);
    for (size_t at = 0; (want = next_unknown(specs, &at)) != NULL;)
        spec_search_seek(specs->search, (struct mob_task_id){want->stream, want->number}, position);
    struct spec_reading *reading = malloc(sizeof *reading);
    MOB_ASSERT(reading != NULL);
    *reading = (struct spec_reading){specs, specs->search, then, arg};
    specs->reading = reading;
    spec_search_read(specs->search, on_read, reading);
}

void event_specs_block_end(struct event_specs *specs)
{
    if (specs->reading) {
        specs->reading->specs = NULL;
        spec_search_each(specs->search, NULL, NULL);
    } else {
        spec_search_destroy(specs->search);
    }
    specs->reading = NULL;
    specs->search = NULL;
    specs->all_read = false;
    lineage_wants_fini(&specs->wanted);
}
