/* What a shadow is to make (shadow.h): each object once, however many ask for it, found in constant time.
 * Zeros are an empty set. Node thread only.
 */
#ifndef MOB_RUNTIME_NODE_SHADOW_WANTS_H
#define MOB_RUNTIME_NODE_SHADOW_WANTS_H

#include <stdbool.h>

#include "common/base/id.h"

struct shadow_want {
    struct shadow_want *next; /* in no order */
    struct shadow_want *in_bucket;
    struct mob_object_id id;
    uint64_t position; /* of its call */
    uint32_t tries;
};
struct shadow_wants {
    struct shadow_want *first;
    struct shadow_want **buckets;
    uint32_t mask, count;
};

/* False: it is wanted already. */
bool shadow_wants_add(struct shadow_wants *wants, struct mob_object_id id, uint64_t position);
/* One that was taken off, and has not been added since. */
void shadow_wants_put(struct shadow_wants *wants, struct shadow_want *want);
/* Gives all of them (each goes with free), and is empty after that. */
struct shadow_want *shadow_wants_take(struct shadow_wants *wants);
/* Positions of the first and the last call; UINT64_MAX and 0 of none. */
void shadow_wants_range(const struct shadow_wants *wants, uint64_t *first_out, uint64_t *last_out);
void shadow_wants_fini(struct shadow_wants *wants);

#endif
