#include "runtime/node/shadow_wants.h"

#include <stdlib.h>

#include "common/base/log.h"

enum { BUCKETS_FIRST = 16 };

static struct shadow_want **bucket_of(const struct shadow_wants *wants, struct mob_object_id id)
{
    return &wants->buckets[(mob_task_id_mix(id.task) ^ id.slot) & wants->mask];
}

static void link_into(struct shadow_wants *wants, struct shadow_want *want)
{
    struct shadow_want **bucket = bucket_of(wants, want->id);
    want->in_bucket = *bucket;
    *bucket = want;
}

static void grow(struct shadow_wants *wants)
{
    uint32_t buckets = wants->buckets ? (wants->mask + 1) * 2 : BUCKETS_FIRST;
    free(wants->buckets);
    wants->buckets = calloc(buckets, sizeof(struct shadow_want *));
    MOB_ASSERT(wants->buckets);
    wants->mask = buckets - 1;
    for (struct shadow_want *want = wants->first; want; want = want->next)
        link_into(wants, want);
}

void shadow_wants_put(struct shadow_wants *wants, struct shadow_want *want)
{
    if (!wants->buckets || wants->count > wants->mask)
        grow(wants);
    want->next = wants->first;
    wants->first = want;
    wants->count++;
    link_into(wants, want);
}

bool shadow_wants_add(struct shadow_wants *wants, struct mob_object_id id, uint64_t position)
{
    const struct shadow_want *same = wants->buckets ? *bucket_of(wants, id) : NULL;
    while (same && !mob_object_id_eq(same->id, id))
        same = same->in_bucket;
    if (same)
        return false;
    struct shadow_want *want = malloc(sizeof *want);
    MOB_ASSERT(want);
    *want = (struct shadow_want){.id = id, .position = position};
    shadow_wants_put(wants, want);
    return true;
}

struct shadow_want *shadow_wants_take(struct shadow_wants *wants)
{
    struct shadow_want *all = wants->first;
    free(wants->buckets);
    *wants = (struct shadow_wants){0};
    return all;
}

void shadow_wants_range(const struct shadow_wants *wants, uint64_t *first_out, uint64_t *last_out)
{
    *first_out = UINT64_MAX;
    *last_out = 0;
    for (const struct shadow_want *want = wants->first; want; want = want->next) {
        *first_out = want->position < *first_out ? want->position : *first_out;
        *last_out = want->position > *last_out ? want->position : *last_out;
    }
}

void shadow_wants_fini(struct shadow_wants *wants)
{
    struct shadow_want *all = shadow_wants_take(wants);
    while (all) {
        struct shadow_want *next = all->next;
        free(all);
        all = next;
    }
}
