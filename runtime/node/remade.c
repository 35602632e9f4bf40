#include "runtime/node/remade.h"

#include <stdlib.h>

#include "common/base/log.h"
#include "runtime/node/actors.h"

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

struct node_stored_return *node_remade_stored(const struct mob_completion *first, uint32_t *count_out)
{
    *count_out = first->head.status == MOB_OK ? stored_returns(first, NULL) : 0;
    if (*count_out == 0)
        return NULL;
    struct node_stored_return *stored = malloc(*count_out * sizeof *stored);
    MOB_ASSERT(stored);
    (void)stored_returns(first, stored);
    return stored;
}

void node_remade_hashed(
    struct node_stored_return *stored, uint32_t count, uint32_t slot, struct mob_hash128 hash)
{
    for (uint32_t i = 0; i < count; i++)
        if (stored[i].slot == slot) {
            stored[i].hashed = true;
            stored[i].hash = hash;
        }
}

struct mob_hash128 node_remade_digest(const struct mob_completion *completion)
{
    struct {
        struct mob_hash128 before, value;
        uint64_t size;
        uint32_t slot, type;
    } step = {0};
    struct mob_return_view r;
    uint32_t at = 0;
    while (mob_completion_next(completion, &at, &r)) {
        step.slot = r.slot;
        step.type = r.type;
        step.size = r.size;
        step.value = (struct mob_hash128){0};
        if (!(r.flags & MOB_RETURN_STORED))
            step.value = mob_hash128(r.payload, r.size);
        else if (!(r.flags & MOB_RETURN_HASH_LATER))
            step.value = r.hash;
        step.before = mob_hash128(&step, sizeof step);
    }
    return step.before;
}

bool node_remade_differs(const struct node_task *task, const struct mob_completion *completion)
{
    const struct node_task_extra *extra = node_extra_of(task);
    if (!extra || !extra->compared || extra->shadow || node_call_skipped(&completion->head))
        return false;
    return completion->head.status != MOB_OK ||
        !mob_hash128_eq(node_remade_digest(completion), extra->digest);
}

void node_remade_expect(
    struct node *node, struct node_task *task, const struct node_stored_return *stored, uint32_t count)
{
    if (count == 0 || (task->template->head.flags & MOB_SPEC_RESTART_ON_DIVERGENCE))
        return;
    struct node_task_extra *extra = node_task_extra(node, task);
    if (extra->stored)
        return;
    extra->stored = malloc(count * sizeof *extra->stored);
    MOB_ASSERT(extra->stored);
    memcpy(extra->stored, stored, count * sizeof *stored);
    extra->stored_count = count;
}

static const struct node_stored_return *expected_at(const struct node_task_extra *extra, uint32_t slot)
{
    for (uint32_t i = 0; i < extra->stored_count; i++)
        if (extra->stored[i].slot == slot)
            return &extra->stored[i];
    return NULL;
}

bool node_remade_in_log(const struct node_task *task, uint32_t slot)
{
    const struct node_task_extra *extra = node_extra_of(task);
    return extra && extra->logged && !expected_at(extra, slot);
}

/* The answer comes when the lineage was read: by then the task is gone, and is not waited for. */
void node_remade_from_log(struct node *node, const struct node_task *task, uint32_t slot)
{
    struct mob_object_id id = mob_object_of(task->sched.id, slot);
    bool submitted = task->submitter != TASK_NO_SUBMITTER &&
        node_client_is(node, task->submitter, task->submitter_session);
    if (submitted)
        node_watch_made(node, node_client_at(node, task->submitter), id);
    if (submitted || node_watched(node, id) || node_alias_awaits(node, id) ||
        mob_sched_object_awaited(node->sched, id))
        node_resolve(node, id);
}

static bool same(const struct node_stored_return *before, const struct mob_return_view *now)
{
    bool hashed = before->hashed && !(now->flags & MOB_RETURN_HASH_LATER);
    return (now->flags & MOB_RETURN_STORED) && before->size == now->size &&
        (!hashed || mob_hash128_eq(before->hash, now->hash));
}

bool node_remade_kept(struct node *node, const struct node_task *task, uint32_t slot)
{
    struct mob_object_info info;
    const struct node_task_extra *extra = node_extra_of(task);
    const struct node_stored_return *before = extra ? expected_at(extra, slot) : NULL;
    return before && before->hashed &&
        mob_store_object_info(node->store, mob_object_of(task->sched.id, slot), &info) && info.sealed &&
        mob_hash128_eq(info.hash, before->hash);
}

/* What this run has made. */
static void drop(struct node *node, const struct node_task *task, const struct node_client *maker,
    const struct mob_completion *completion)
{
    struct mob_return_view r;
    uint32_t at = 0;
    while (mob_completion_next(completion, &at, &r)) {
        struct mob_object_id id = mob_object_of(completion->head.task, r.slot);
        (void)mob_store_seal_published(node->store, id, maker->slot);
        if (!node_remade_kept(node, task, r.slot))
            mob_store_object_free(node->store, id);
    }
}

bool node_remade_the_same(struct node *node, const struct node_task *task, const struct node_client *maker,
    const struct mob_completion *completion)
{
    const struct node_task_extra *extra = node_extra_of(task);
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
        drop(node, task, maker, completion);
    return all;
}
