/* What a shadow is to make (shadow.h): each object once, however many ask for it, found in constant time.
 * Zeros are an empty set. Node thread only.
 */
#ifndef MOB_RUNTIME_NODE_SHADOW_WANTS_H
#define MOB_RUNTIME_NODE_SHADOW_WANTS_H

#include <stdbool.h>

#include "common/base/id.h"

struct replay_call;
struct shadow_want {
    struct shadow_want *next; /* in no order */
    struct shadow_want *in_bucket;
    struct mob_object_id id;
    uint64_t position; /* of its call: those below it are to run first */
    struct replay_call *read; /* a call that only reads, and has no edge; else NULL */
    uint32_t tries;
};
/* A shadow that makes one of them has run all calls below this. */
static inline uint64_t shadow_want_upto(const struct shadow_want *want)
{
    return want->read ? want->position : want->position + 1;
}
struct shadow_wants {
    struct shadow_want *first;
    struct shadow_want **buckets;
    uint32_t mask, count;
};

/* `read`: takes it, or NULL. False: it is wanted already. */
bool shadow_wants_add(
    struct shadow_wants *wants, struct mob_object_id id, uint64_t position, struct replay_call *read);
/* One that was taken off, and has not been added since. */
void shadow_wants_put(struct shadow_wants *wants, struct shadow_want *want);
/* Gives all of them, and is empty after that. */
struct shadow_want *shadow_wants_take(struct shadow_wants *wants);
void shadow_want_free(struct shadow_want *want);
struct shadow_range {
    uint64_t first; /* least position; UINT64_MAX of none */
    uint64_t least,
        upto; /* shadow_want_upto of the one that needs least, and most; UINT64_MAX and 0 of none */
};
struct shadow_range shadow_wants_range(const struct shadow_wants *wants);
void shadow_wants_fini(struct shadow_wants *wants);

#endif
