#include "server/api/lineage_wants.h"

#include <stdlib.h>

#include "common/base/log.h"

#define CAPACITY_MIN 64u

void lineage_wants_fini(struct lineage_wants *w)
{
    free(w->slots);
    *w = (struct lineage_wants){0};
}

/* Where it is, or the free slot where it would be. */
static struct lineage_want *slot_of(
    const struct lineage_wants *w, enum lineage_wants_kind kind, struct mob_stream stream, uint32_t number)
{
    size_t i = (mob_stream_mix(stream) + number) * 0xbf58476d1ce4e5b9ull >> 20;
    for (i &= w->capacity - 1; w->slots[i].kind != 0; i = (i + 1) & (w->capacity - 1))
        if (w->slots[i].kind == kind && w->slots[i].number == number &&
            mob_stream_eq(w->slots[i].stream, stream))
            break;
    return &w->slots[i];
}

static void grow(struct lineage_wants *w)
{
    struct lineage_wants more = *w;
    more.capacity = w->capacity == 0 ? CAPACITY_MIN : 2 * w->capacity;
    more.slots = calloc(more.capacity, sizeof *more.slots);
    MOB_ASSERT(more.slots != NULL);
    for (size_t i = 0; i < w->capacity; i++) {
        const struct lineage_want *old = &w->slots[i];
        if (old->kind != 0)
            *slot_of(&more, (enum lineage_wants_kind)old->kind, old->stream, old->number) = *old;
    }
    free(w->slots);
    *w = more;
}

bool lineage_wants_add(
    struct lineage_wants *w, enum lineage_wants_kind kind, struct mob_stream stream, uint32_t number)
{
    if (2 * (w->count + 1) > w->capacity)
        grow(w);
    struct lineage_want *slot = slot_of(w, kind, stream, number);
    if (slot->kind != 0)
        return false;
    *slot = (struct lineage_want){stream, number, kind};
    w->count++;
    w->tasks += kind == LINEAGE_WANTS_TASK;
    return true;
}

static bool has(
    const struct lineage_wants *w, enum lineage_wants_kind kind, struct mob_stream stream, uint32_t number)
{
    return slot_of(w, kind, stream, number)->kind != 0;
}

bool lineage_wants(const struct lineage_wants *w, struct mob_task_id id)
{
    if (w->count == 0)
        return false;
    return (w->count > w->tasks && has(w, LINEAGE_WANTS_GROUP, id.stream, id.index >> MOB_GROUP_SHIFT)) ||
        (w->tasks > 0 && has(w, LINEAGE_WANTS_TASK, id.stream, id.index));
}
