#include "runtime/node/value_cache.h"

#include <stdlib.h>
#include <string.h>

enum {
    PLACES = 8192, /* 32 groups; 330 KB */
    RING_BYTES = 4 << 20, /* 8 groups of values of 2 KB */
};
_Static_assert(RING_BYTES % VALUE_CACHE_BYTES_MAX == 0, "the ring's end is a place for the largest one");

struct place {
    struct mob_object_id id;
    uint8_t type; /* enum mob_value_type; 0 = empty */
    uint8_t zero;
    uint16_t bytes;
    uint64_t at; /* of the payload, in all that was ever written into the ring */
};
_Static_assert(MOB_TYPE_NONE == 0, "0 marks an empty place");

struct value_cache {
    struct place *places; /* PLACES, or NULL */
    uint8_t *ring; /* RING_BYTES; NULL exactly when `places` is */
    uint64_t written;
};

struct value_cache *value_cache_create(void)
{
    return calloc(1, sizeof(struct value_cache));
}

void value_cache_clear(struct value_cache *cache)
{
    free(cache->places);
    free(cache->ring);
    *cache = (struct value_cache){0};
}

void value_cache_destroy(struct value_cache *cache)
{
    if (cache)
        value_cache_clear(cache);
    free(cache);
}

static bool has_room(struct value_cache *cache)
{
    if (cache->places)
        return true;
    cache->places = calloc(PLACES, sizeof *cache->places);
    cache->ring = malloc(RING_BYTES);
    if (!cache->places || !cache->ring)
        value_cache_clear(cache);
    return cache->places != NULL;
}

/* Neighbours of a stream, and puts of a task, lie side by side. */
static struct place *place_of(const struct value_cache *cache, struct mob_object_id id)
{
    uint64_t stream = mob_stream_mix(id.task.stream);
    return &cache->places[((stream >> 32) + id.task.index + id.slot) % PLACES];
}

/* Of this object, and its payload has not been written over. */
static bool holds(const struct value_cache *cache, const struct place *place, struct mob_object_id id)
{
    return place->type != MOB_TYPE_NONE && mob_object_id_eq(place->id, id) &&
        cache->written - place->at <= RING_BYTES;
}

/* Where so many bytes in one piece go. */
static uint64_t ring_take(struct value_cache *cache, uint32_t bytes)
{
    uint64_t left = RING_BYTES - cache->written % RING_BYTES;
    if (left < bytes)
        cache->written += left;
    uint64_t at = cache->written;
    cache->written += bytes;
    return at;
}

void value_cache_note(struct value_cache *cache, struct mob_object_id id, enum mob_value_type type,
    const uint8_t *payload, uint32_t bytes)
{
    if (bytes > VALUE_CACHE_BYTES_MAX || type == MOB_TYPE_NONE || !has_room(cache))
        return;
    struct place *place = place_of(cache, id);
    if (holds(cache, place, id))
        return;
    *place = (struct place){
        .id = id, .type = (uint8_t)type, .bytes = (uint16_t)bytes, .at = ring_take(cache, bytes)};
    if (bytes > 0)
        memcpy(cache->ring + place->at % RING_BYTES, payload, bytes);
}

const uint8_t *value_cache_find(const struct value_cache *cache, struct mob_object_id id,
    enum mob_value_type *type_out, uint32_t *bytes_out)
{
    const struct place *place = cache->places ? place_of(cache, id) : NULL;
    if (!place || !holds(cache, place, id))
        return NULL;
    *type_out = (enum mob_value_type)place->type;
    *bytes_out = place->bytes;
    return cache->ring + place->at % RING_BYTES;
}

void value_cache_drop(struct value_cache *cache, struct mob_object_id id)
{
    struct place *place = cache->places ? place_of(cache, id) : NULL;
    if (place && mob_object_id_eq(place->id, id))
        place->type = MOB_TYPE_NONE;
}
