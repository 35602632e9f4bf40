#include "server/api/recent_specs.h"

#include <stdlib.h>
#include <string.h>

/* The newest first. */
struct recent_specs {
    struct event_spec sets[RECENT_SPECS_SETS][RECENT_SPECS_WAYS];
};

struct recent_specs *recent_specs_create(void)
{
    return calloc(1, sizeof(struct recent_specs));
}

void recent_specs_destroy(struct recent_specs *recent)
{
    free(recent);
}

static size_t set_of(struct mob_task_id task)
{
    return mob_task_id_mix(task) % RECENT_SPECS_SETS;
}

/* Where it is, RECENT_SPECS_WAYS: nowhere. */
static size_t way_of(const struct event_spec *set, struct mob_task_id task)
{
    size_t way = 0;
    while (way < RECENT_SPECS_WAYS && !mob_task_id_eq(set[way].task, task))
        way++;
    return way;
}

void recent_specs_note(struct recent_specs *recent, const struct event_spec *spec)
{
    struct event_spec *set = recent->sets[set_of(spec->task)];
    size_t way = way_of(set, spec->task);
    if (way == RECENT_SPECS_WAYS)
        way--; /* the oldest one goes */
    memmove(set + 1, set, way * sizeof *set);
    set[0] = *spec;
}

const struct event_spec *recent_specs_find(const struct recent_specs *recent, struct mob_task_id task)
{
    const struct event_spec *set = recent->sets[set_of(task)];
    size_t way = way_of(set, task);
    return way < RECENT_SPECS_WAYS ? &set[way] : NULL;
}
