#include "runtime/node/shadow_wants.h"

#include <stdlib.h>

#include "common/base/log.h"
#include "runtime/node/replay.h"

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

bool shadow_wants_add(
    struct shadow_wants *wants, struct mob_object_id id, uint64_t position, struct replay_call *read)
{
    const struct shadow_want *same = wants->buckets ? *bucket_of(wants, id) : NULL;
    while (same && !mob_object_id_eq(same->id, id))
        same = same->in_bucket;
    if (same) {
        node_replay_call_free(read);
        return false;
    }
    struct shadow_want *want = malloc(sizeof *want);
    MOB_ASSERT(want);
    *want = (struct shadow_want){.id = id, .position = position, .read = read};
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

void shadow_want_free(struct shadow_want *want)
{
    node_replay_call_free(want->read);
    free(want);
}

struct shadow_range shadow_wants_range(const struct shadow_wants *wants)
{
    struct shadow_range range = {.first = UINT64_MAX, .least = UINT64_MAX};
    for (const struct shadow_want *want = wants->first; want; want = want->next) {
        uint64_t upto = shadow_want_upto(want);
        range.first = want->position < range.first ? want->position : range.first;
        range.least = upto < range.least ? upto : range.least;
        range.upto = upto > range.upto ? upto : range.upto;
    }
    return range;
}

void shadow_wants_fini(struct shadow_wants *wants)
{
    struct shadow_want *all = shadow_wants_take(wants);
    while (all) {
        struct shadow_want *next = all->next;
        shadow_want_free(all);
        all = next;
    }
}
