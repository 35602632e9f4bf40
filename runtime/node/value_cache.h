/* Small values that the last look-ups of the lineage came by.
 *
 * A group is read and decoded as a whole, 256 neighbours for the one that was asked for. Whoever asks for one
 * mostly asks for the next, so what else was found is kept here for a while. Values never change, so an entry
 * is true until its lineage is deleted; then the owner clears the cache. A fixed number of entries, each in
 * one place, and of bytes, in a ring: a newer one takes the place, and the bytes of the oldest. The first
 * value of an id stands while it is here. Node thread only.
 */
#ifndef MOB_RUNTIME_NODE_VALUE_CACHE_H
#define MOB_RUNTIME_NODE_VALUE_CACHE_H

#include "common/base/id.h"
#include "common/wire/value.h"

#define VALUE_CACHE_BYTES_MAX 4096u /* of a payload; larger ones are not kept */

struct value_cache;

/* Takes no memory until something is noted. NULL = no memory. */
struct value_cache *value_cache_create(void);
void value_cache_destroy(struct value_cache *cache);
void value_cache_note(struct value_cache *cache, struct mob_object_id id, enum mob_value_type type,
    const uint8_t *payload, uint32_t bytes);
/* The payload, borrowed until the next note; NULL = not here. */
const uint8_t *value_cache_find(const struct value_cache *cache, struct mob_object_id id,
    enum mob_value_type *type_out, uint32_t *bytes_out);
/* This object is no more. */
void value_cache_drop(struct value_cache *cache, struct mob_object_id id);
void value_cache_clear(struct value_cache *cache);

#endif
