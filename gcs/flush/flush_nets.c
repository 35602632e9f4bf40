#include "gcs/flush/flush_nets.h"

#include <stdlib.h>

void flush_nets_fini(struct flush_nets *n)
{
    free(n->rows);
    free(n->slots);
    *n = (struct flush_nets){0};
}

static uint32_t slot_of(const struct flush_nets *n, struct mob_stream stream, uint32_t group)
{
    uint32_t mask = n->slot_capacity - 1;
    uint64_t mix = mob_stream_mix(stream) ^ (uint64_t)group * 0x9e3779b97f4a7c15ull;
    uint32_t at = (uint32_t)(mix ^ mix >> 32) & mask;
    while (n->slots[at] != 0) {
        const struct mob_gcs_flush_group *row = &n->rows[n->slots[at] - 1];
        if (row->group == group && mob_stream_eq(row->stream, stream))
            break;
        at = (at + 1) & mask;
    }
    return at;
}

/* Twice as many slots as rows, at least. */
static enum mob_status grow(struct flush_nets *n)
{
    uint32_t capacity = n->capacity == 0 ? 256 : n->capacity * 2;
    struct mob_gcs_flush_group *rows = realloc(n->rows, capacity * sizeof *rows);
    if (rows == NULL)
        return MOB_NO_MEMORY;
    n->rows = rows;
    uint32_t *slots = calloc(capacity * 2, sizeof *slots);
    if (slots == NULL)
        return MOB_NO_MEMORY;
    free(n->slots);
    n->slots = slots;
    n->capacity = capacity;
    n->slot_capacity = capacity * 2;
    for (uint32_t i = 0; i < n->count; i++)
        n->slots[slot_of(n, n->rows[i].stream, n->rows[i].group)] = i + 1;
    return MOB_OK;
}

static enum mob_status add(struct flush_nets *n, struct mob_stream stream, uint32_t group, int32_t net)
{
    if (n->count == n->capacity && grow(n) != MOB_OK)
        return MOB_NO_MEMORY;
    uint32_t at = slot_of(n, stream, group);
    if (n->slots[at] == 0) {
        n->rows[n->count++] = (struct mob_gcs_flush_group){stream, group, 0};
        n->slots[at] = n->count;
    }
    n->rows[n->slots[at] - 1].net += net;
    return MOB_OK;
}

enum mob_status flush_nets_add_block(struct flush_nets *n, const struct mob_zone_map *zone)
{
    for (uint32_t i = 0; i < zone->group_count; i++) {
        const struct mob_zone_group *g = &zone->groups[i];
        int32_t net = (int32_t)g->specs - (int32_t)g->finals;
        if (net != 0 && add(n, g->stream, g->group, net) != MOB_OK)
            return MOB_NO_MEMORY;
    }
    return MOB_OK;
}

enum mob_status flush_nets_add(struct flush_nets *n, const struct flush_nets *other)
{
    for (uint32_t i = 0; i < other->count; i++) {
        const struct mob_gcs_flush_group *row = &other->rows[i];
        if (row->net != 0 && add(n, row->stream, row->group, row->net) != MOB_OK)
            return MOB_NO_MEMORY;
    }
    return MOB_OK;
}

void flush_nets_close(struct flush_nets *n)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < n->count; i++)
        if (n->rows[i].net != 0)
            n->rows[kept++] = n->rows[i];
    free(n->slots);
    n->slots = NULL;
    n->slot_capacity = 0;
    n->count = kept;
    if (kept == 0) {
        free(n->rows);
        n->rows = NULL;
        n->capacity = 0;
        return;
    }
    struct mob_gcs_flush_group *rows = realloc(n->rows, kept * sizeof *rows);
    n->rows = rows != NULL ? rows : n->rows;
    n->capacity = kept;
}
