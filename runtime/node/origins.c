#include "runtime/node/origins.h"

#include <stdlib.h>

#include "common/base/log.h"

enum { PLACES_FIRST = 1024 };

struct origin *origins_place(const struct origins *origins, struct mob_stream stream)
{
    uint32_t at = (uint32_t)mob_stream_mix(stream) & origins->mask;
    while (origins->places[at].used && !mob_stream_eq(origins->places[at].stream, stream))
        at = (at + 1) & origins->mask;
    return &origins->places[at];
}

static void grow(struct origins *origins)
{
    struct origins bigger = {
        .mask = origins->mask ? origins->mask * 2 + 1 : PLACES_FIRST - 1, .count = origins->count};
    bigger.places = calloc((size_t)bigger.mask + 1, sizeof *bigger.places);
    MOB_ASSERT(bigger.places);
    for (uint32_t i = 0; origins->places && i <= origins->mask; i++)
        if (origins->places[i].used)
            *origins_place(&bigger, origins->places[i].stream) = origins->places[i];
    free(origins->places);
    *origins = bigger;
}

bool origins_add(struct origins *origins, struct mob_stream stream, struct mob_task_id parent)
{
    if (origins->count * 2 >= origins->mask)
        grow(origins);
    struct origin *origin = origins_place(origins, stream);
    if (origin->used && (!mob_task_id_is_zero(origin->parent) || mob_task_id_is_zero(parent)))
        return false;
    origins->count += !origin->used;
    *origin = (struct origin){.stream = stream, .used = true, .parent = parent};
    return true;
}

struct mob_task_id origins_parent(const struct origins *origins, struct mob_stream stream)
{
    return origins->places ? origins_place(origins, stream)->parent : (struct mob_task_id){0};
}

void origins_free(struct origins *origins)
{
    free(origins->places);
    *origins = (struct origins){0};
}
