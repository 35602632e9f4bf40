#include "runtime/node/value_cache.h"

#include <stdlib.h>
#include <string.h>

enum { PLACES = 8192 }; /* 32 groups; 400 KB */

struct place {
    struct mob_object_id id;
    uint8_t type; /* enum mob_value_type; 0 = empty */
    uint8_t bytes;
    uint16_t zero;
    uint8_t payload[VALUE_CACHE_BYTES_MAX];
};
_Static_assert(MOB_TYPE_NONE == 0, "0 marks an empty place");

struct value_cache {
    struct place *places; /* PLACES, or NULL */
};

struct value_cache *value_cache_create(void)
{
    return calloc(1, sizeof(struct value_cache));
}

void value_cache_destroy(struct value_cache *cache)
{
    if (cache)
        free(cache->places);
    free(cache);
}

/* Neighbours of a stream, and puts of a task, lie side by side. */
static struct place *place_of(const struct value_cache *cache, struct mob_object_id id)
{
    uint64_t stream = mob_stream_mix(id.task.stream);
    return &cache->places[((stream >> 32) + id.task.index + id.slot) % PLACES];
}

void value_cache_note(struct value_cache *cache, struct mob_object_id id, enum mob_value_type type,
    const uint8_t *payload, uint32_t bytes)
{
    if (bytes > VALUE_CACHE_BYTES_MAX || type == MOB_TYPE_NONE)
        return;
    if (!cache->places)
        cache->places = calloc(PLACES, sizeof *cache->places);
    if (!cache->places)
        return;
    struct place *place = place_of(cache, id);
    if (place->type != MOB_TYPE_NONE && mob_object_id_eq(place->id, id))
        return;
    *place = (struct place){.id = id, .type = (uint8_t)type, .bytes = (uint8_t)bytes};
    if (bytes > 0)
        memcpy(place->payload, payload, bytes);
}

const uint8_t *value_cache_find(const struct value_cache *cache, struct mob_object_id id,
    enum mob_value_type *type_out, uint32_t *bytes_out)
{
    const struct place *place = cache->places ? place_of(cache, id) : NULL;
    if (!place || place->type == MOB_TYPE_NONE || !mob_object_id_eq(place->id, id))
        return NULL;
    *type_out = (enum mob_value_type)place->type;
    *bytes_out = place->bytes;
    return place->payload;
}

void value_cache_drop(struct value_cache *cache, struct mob_object_id id)
{
    struct place *place = cache->places ? place_of(cache, id) : NULL;
    if (place && mob_object_id_eq(place->id, id))
        place->type = MOB_TYPE_NONE;
}

void value_cache_clear(struct value_cache *cache)
{
    free(cache->places);
    cache->places = NULL;
}
