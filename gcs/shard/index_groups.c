#include "gcs/shard/index_groups.h"

#include <stdlib.h>

#include "common/base/failpoint.h"
#include "common/base/log.h"

static size_t slot_of(const struct mob_index_groups *t, struct mob_stream stream, uint32_t group)
{
    uint64_t h = (mob_stream_mix(stream) + group) * 0xbf58476d1ce4e5b9ull;
    return (size_t)(h ^ h >> 29) & (t->capacity - 1);
}

static bool more_refs(const struct mob_index_group *g)
{
    return g->ref_count > MOB_GROUP_REFS_INLINE;
}

void mob_index_groups_fini(struct mob_index_groups *t)
{
    for (size_t i = 0; i < t->capacity; i++)
        if (more_refs(&t->slots[i]))
            free(t->slots[i].u.more.refs);
    free(t->slots);
    *t = (struct mob_index_groups){0};
}

static struct mob_index_group *probe(
    const struct mob_index_groups *t, struct mob_stream stream, uint32_t group)
{
    size_t i = slot_of(t, stream, group);
    while (
        t->slots[i].used != 0 && (t->slots[i].group != group || !mob_stream_eq(t->slots[i].stream, stream)))
        i = (i + 1) & (t->capacity - 1);
    return &t->slots[i];
}

struct mob_index_group *mob_index_groups_find(
    const struct mob_index_groups *t, struct mob_stream stream, uint32_t group)
{
    struct mob_index_group *g = t->capacity == 0 ? NULL : probe(t, stream, group);
    return g != NULL && g->used != 0 ? g : NULL;
}

static void resize(struct mob_index_groups *t, size_t capacity)
{
    struct mob_index_groups next = *t;
    next.capacity = capacity;
    next.slots = calloc(capacity, sizeof *next.slots);
    MOB_ASSERT(next.slots != NULL);
    for (size_t i = 0; i < t->capacity; i++)
        if (t->slots[i].used != 0)
            *probe(&next, t->slots[i].stream, t->slots[i].group) = t->slots[i];
    free(t->slots);
    *t = next;
}

static void ref_add(struct mob_index_groups *t, struct mob_index_group *g, uint32_t ordinal)
{
    if (g->ref_count < MOB_GROUP_REFS_INLINE) {
        g->u.here[g->ref_count++] = ordinal;
        return;
    }
    if (g->ref_count == MOB_GROUP_REFS_INLINE) {
        uint32_t *refs = malloc(2 * MOB_GROUP_REFS_INLINE * sizeof *refs);
        MOB_ASSERT(refs != NULL);
        memcpy(refs, g->u.here, sizeof g->u.here);
        g->u.more.refs = refs;
        g->u.more.capacity = 2 * MOB_GROUP_REFS_INLINE;
        t->more_bytes += g->u.more.capacity * sizeof *refs;
    } else if (g->ref_count == g->u.more.capacity) {
        uint32_t *refs = realloc(g->u.more.refs, 2 * g->u.more.capacity * sizeof *refs);
        MOB_ASSERT(refs != NULL);
        t->more_bytes += g->u.more.capacity * sizeof *refs;
        g->u.more.refs = refs;
        g->u.more.capacity *= 2;
    }
    g->u.more.refs[g->ref_count++] = ordinal;
}

/* New when it is not there. */
static struct mob_index_group *group_of(struct mob_index_groups *t, struct mob_stream stream, uint32_t group)
{
    if (4 * (t->count + 1) > 3 * t->capacity)
        resize(t, t->capacity == 0 ? 256 : 2 * t->capacity);
    struct mob_index_group *g = probe(t, stream, group);
    if (g->used == 0) {
        *g = (struct mob_index_group){.stream = stream, .group = group, .used = 1};
        t->count++;
    }
    return g;
}

void mob_index_groups_fetch(const struct mob_index_groups *t, const struct mob_zone_group *zone)
{
    if (t->capacity > 0)
        __builtin_prefetch(&t->slots[slot_of(t, zone->stream, zone->group)], 1);
}

void mob_index_groups_add(struct mob_index_groups *t, const struct mob_zone_group *zone, uint32_t ordinal)
{
    if (MOB_FAILPOINT("index.lacks"))
        return;
    bool foreign = MOB_FAILPOINT("index.has_more");
    struct mob_index_group *g = group_of(t, zone->stream, zone->group);
    if (foreign) { /* what tools must find: a group with a block that has nothing of it */
        ref_add(t, group_of(t, zone->stream, zone->group + 1), ordinal);
        g = group_of(t, zone->stream, zone->group); /* the table may have moved */
    }
    g->open += (int32_t)zone->specs - (int32_t)zone->finals;
    if (g->ref_count == 0 || mob_index_group_refs(g)[g->ref_count - 1] != ordinal)
        ref_add(t, g, ordinal);
}

static struct mob_index_group *add_cold(
    struct mob_index_groups *t, struct mob_stream stream, uint32_t group, int32_t net)
{
    struct mob_index_group *g = group_of(t, stream, group);
    t->cold_count -= g->cold != 0;
    g->cold += net;
    t->cold_count += g->cold != 0;
    return g;
}

void mob_index_groups_flush(struct mob_index_groups *t, struct mob_stream stream, uint32_t group, int32_t net)
{
    add_cold(t, stream, group, net);
}

void mob_index_groups_load(struct mob_index_groups *t, struct mob_stream stream, uint32_t group, int32_t net)
{
    add_cold(t, stream, group, net)->open += net;
}

static void filter_refs(struct mob_index_groups *t, struct mob_index_group *g,
    bool (*keep)(const void *arg, uint32_t ordinal), const void *arg)
{
    uint32_t *refs = (uint32_t *)(uintptr_t)mob_index_group_refs(g), kept = 0;
    for (uint32_t i = 0; i < g->ref_count; i++)
        if (keep(arg, refs[i]))
            refs[kept++] = refs[i];
    if (more_refs(g) && kept <= MOB_GROUP_REFS_INLINE) {
        t->more_bytes -= g->u.more.capacity * sizeof *refs;
        memcpy(g->u.here, refs, kept * sizeof *refs);
        free(refs);
    }
    g->ref_count = kept;
    /* Without blocks here only what was flushed counts; what was dropped with its job does not any more. */
    if (kept == 0)
        g->open = g->cold;
    g->used = kept > 0 || g->cold != 0;
}

void mob_index_groups_filter(
    struct mob_index_groups *t, bool (*keep)(const void *arg, uint32_t ordinal), const void *arg)
{
    size_t live = 0;
    for (size_t i = 0; i < t->capacity; i++) {
        if (t->slots[i].used == 0)
            continue;
        filter_refs(t, &t->slots[i], keep, arg);
        live += t->slots[i].used != 0;
    }
    t->count = live;
    size_t capacity = 256;
    while (3 * capacity < 4 * (live + 1) * 3 / 2)
        capacity *= 2;
    if (t->capacity != 0)
        resize(t, capacity); /* also closes the holes in probe runs */
}
