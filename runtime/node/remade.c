/* Lost objects that are made again by running their task again: each future has one value, so a run that
 * gives other bytes than the first one did has not made them (ARCHITECTURE "Identity"). */
#include <stdlib.h>

#include "common/base/log.h"
#include "runtime/node/node.h"

static uint32_t stored_returns(const struct mob_completion *completion, struct node_stored_return *out)
{
    struct mob_return_view r;
    uint32_t at = 0, count = 0;
    while (mob_completion_next(completion, &at, &r)) {
        if (!(r.flags & MOB_RETURN_STORED))
            continue; /* its value is in the log, and comes from there */
        if (out)
            out[count] = (struct node_stored_return){
                .slot = r.slot, .hashed = !(r.flags & MOB_RETURN_HASH_LATER), .size = r.size, .hash = r.hash};
        count++;
    }
    return count;
}

void node_remade_expect(struct node *node, struct node_task *task, const struct mob_completion_head *first)
{
    struct mob_completion completion = {*first, (const uint8_t *)(first + 1)};
    if (first->status != MOB_OK || (task->template->head.flags & MOB_SPEC_RESTART_ON_DIVERGENCE))
        return;
    uint32_t count = stored_returns(&completion, NULL);
    struct node_task_extra *extra = count > 0 ? node_task_extra(node, task) : NULL;
    if (!extra || extra->stored)
        return;
    extra->stored = malloc(count * sizeof *extra->stored);
    MOB_ASSERT(extra->stored);
    extra->stored_count = stored_returns(&completion, extra->stored);
}

static const struct node_stored_return *expected_at(const struct node_task_extra *extra, uint32_t slot)
{
    for (uint32_t i = 0; i < extra->stored_count; i++)
        if (extra->stored[i].slot == slot)
            return &extra->stored[i];
    return NULL;
}

static bool same(const struct node_stored_return *before, const struct mob_return_view *now)
{
    bool hashed = before->hashed && !(now->flags & MOB_RETURN_HASH_LATER);
    return (now->flags & MOB_RETURN_STORED) && before->size == now->size &&
        (!hashed || mob_hash128_eq(before->hash, now->hash));
}

/* What this run has made. Bytes of the first run that are there still are what whoever asks for them gets. */
static void drop(struct node *node, const struct node_task_extra *extra, const struct node_client *maker,
    const struct mob_completion *completion)
{
    struct mob_return_view r;
    struct mob_object_info info;
    uint32_t at = 0;
    while (mob_completion_next(completion, &at, &r)) {
        struct mob_object_id id = mob_object_of(completion->head.task, r.slot);
        const struct node_stored_return *before = expected_at(extra, r.slot);
        (void)mob_store_seal_published(node->store, id, maker->slot);
        if (!before || !before->hashed || !mob_store_object_info(node->store, id, &info) ||
            !mob_hash128_eq(info.hash, before->hash))
            mob_store_object_free(node->store, id);
    }
}

bool node_remade_the_same(struct node *node, const struct node_task *task, const struct node_client *maker,
    const struct mob_completion *completion)
{
    const struct node_task_extra *extra = task->extra;
    if (!extra || extra->stored_count == 0)
        return true;
    struct mob_return_view r;
    uint32_t at = 0, found = 0;
    bool all = true;
    while (mob_completion_next(completion, &at, &r)) {
        const struct node_stored_return *before = expected_at(extra, r.slot);
        found += before != NULL;
        all = all && (!before || same(before, &r));
    }
    all = all && found == extra->stored_count;
    if (!all)
        drop(node, extra, maker, completion);
    return all;
}
