#include "runtime/node/remade.h"

#include <stdlib.h>

#include "common/base/log.h"
#include "runtime/node/actors.h"
#include "runtime/node/alias.h"
#include "runtime/node/known.h"
#include "runtime/node/notices.h"
#include "runtime/node/task.h"

enum { WANTED_SORTED = 64 };

static struct node_stored_return stored_at(uint32_t slot, const struct mob_return_view *r)
{
    return (struct node_stored_return){
        .slot = slot, .hashed = !(r->flags & MOB_RETURN_HASH_LATER), .size = r->size, .hash = r->hash};
}

static uint32_t stored_returns(const struct mob_completion *completion, struct node_stored_return *out)
{
    struct mob_return_view r;
    uint32_t at = 0, count = 0;
    while (mob_completion_next(completion, &at, &r)) {
        if (!(r.flags & MOB_RETURN_STORED))
            continue; /* its value is in the log, and comes from there */
        if (out)
            out[count] = stored_at(r.slot, &r);
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

void *node_remade_room(void *array, uint32_t count, size_t size)
{
    if (count & (count - 1))
        return array;
    array = realloc(array, (count ? 2 * (size_t)count : 1) * size);
    MOB_ASSERT(array);
    return array;
}

void node_remade_note_item(struct node_stored_items *items, uint32_t item, const struct mob_return_view *r)
{
    if (item < items->items)
        return;
    items->items = item + 1;
    if (!(r->flags & MOB_RETURN_STORED))
        return;
    items->stored = node_remade_room(items->stored, items->count, sizeof *items->stored);
    items->stored[items->count++] = stored_at(item, r);
}

struct mob_return_view node_remade_view_of_put(const struct mob_out_put *put)
{
    bool later = (put->flags & MOB_PUT_HASH_LATER) != 0;
    return (struct mob_return_view){.slot = put->id.slot,
        .type = put->type,
        .flags = MOB_RETURN_STORED | (later ? MOB_RETURN_HASH_LATER : 0),
        .size = put->size,
        .hash = put->hash};
}

static bool is_page(uint32_t slot)
{
    return slot - MOB_SLOT_ARG_PAGE < MOB_ARG_PAGES_MAX;
}

void node_remade_note_put(struct node_stored_puts *puts, const struct mob_out_put *put)
{
    if (put->inline_bytes == put->size || put->flags & (MOB_PUT_PROMISE | MOB_PUT_DELETED) ||
        is_page(put->id.slot))
        return; /* in the log, or nothing that a run makes */
    struct mob_return_view view = node_remade_view_of_put(put);
    struct node_stored_return now = stored_at(put->id.slot, &view);
    for (uint32_t i = 0; i < puts->count; i++) {
        struct node_stored_return *before = &puts->puts[i];
        if (before->slot != now.slot)
            continue;
        bool same = before->size == now.size && before->hashed == now.hashed &&
            (!now.hashed || mob_hash128_eq(before->hash, now.hash));
        before->ambiguous = before->ambiguous || !same;
        return;
    }
    puts->puts = node_remade_room(puts->puts, puts->count, sizeof *puts->puts);
    puts->puts[puts->count++] = now;
}

void node_remade_put_hashed(struct node_stored_puts *puts, uint32_t slot, struct mob_hash128 hash)
{
    for (uint32_t i = 0; i < puts->count; i++)
        if (puts->puts[i].slot == slot && !puts->puts[i].hashed) {
            puts->puts[i].hashed = true;
            puts->puts[i].hash = hash;
        }
}

static int in_order(const void *a, const void *b)
{
    uint32_t x = ((const struct node_stored_return *)a)->slot,
             y = ((const struct node_stored_return *)b)->slot;
    return x < y ? -1 : x > y;
}

void node_remade_add_puts(
    struct node_stored_return **stored, uint32_t *count, const struct node_stored_puts *puts)
{
    if (puts->count == 0)
        return;
    *stored = realloc(*stored, (*count + puts->count) * sizeof **stored);
    MOB_ASSERT(*stored);
    memcpy(*stored + *count, puts->puts, puts->count * sizeof **stored);
    *count += puts->count;
    qsort(*stored, *count, sizeof **stored, in_order);
}

static int by_slot(const void *key, const void *element)
{
    uint32_t slot = *(const uint32_t *)key, other = ((const struct node_stored_return *)element)->slot;
    return slot < other ? -1 : slot > other;
}

static struct node_stored_return *find(struct node_stored_return *stored, uint32_t count, uint32_t slot)
{
    return count > 0 ? bsearch(&slot, stored, count, sizeof *stored, by_slot) : NULL;
}

void node_remade_hashed(
    struct node_stored_return *stored, uint32_t count, uint32_t slot, struct mob_hash128 hash)
{
    struct node_stored_return *r = find(stored, count, slot);
    if (!r || r->hashed)
        return;
    r->hashed = true;
    r->hash = hash;
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

void node_remade_expect(struct node *node, struct node_task *task, const struct node_stored_return *stored,
    uint32_t count, uint32_t items)
{
    struct node_task_extra *extra = node_task_extra(node, task);
    if (task->template->head.flags & MOB_SPEC_RESTART_ON_DIVERGENCE)
        return;
    extra->logged = true;
    extra->items = items;
    if (count == 0 || extra->stored)
        return;
    extra->stored = malloc(count * sizeof *extra->stored);
    MOB_ASSERT(extra->stored);
    memcpy(extra->stored, stored, count * sizeof *stored);
    extra->stored_count = count;
}

static const struct node_stored_return *expected_at(const struct node_task_extra *extra, uint32_t slot)
{
    return find(extra->stored, extra->stored_count, slot);
}

bool node_remade_expects(const struct node_task *task, uint32_t slot)
{
    const struct node_task_extra *extra = node_extra_of(task);
    return extra && expected_at(extra, slot);
}

bool node_remade_in_log(const struct node_task *task, uint32_t slot)
{
    const struct node_task_extra *extra = node_extra_of(task);
    return extra && extra->logged && !expected_at(extra, slot);
}

static bool is_waited_for(struct node *node, struct mob_object_id id)
{
    return node_watched(node, id) || node_alias_awaits(node, id) || mob_sched_object_awaited(node->sched, id);
}

/* The answer comes when the lineage was read: by then the task is gone, and is not waited for. */
void node_remade_from_log(struct node *node, const struct node_task *task, uint32_t slot)
{
    struct mob_object_id id = mob_object_of(task->sched.id, slot);
    bool submitted = task->submitter != TASK_NO_SUBMITTER &&
        node_client_is(node, task->submitter, task->submitter_session);
    if (submitted)
        node_watch_made(node, node_client_at(node, task->submitter), id);
    if (submitted || is_waited_for(node, id))
        node_resolve(node, id);
}

static int by_number(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

static uint32_t each_once(uint32_t *slots, uint32_t count)
{
    uint32_t kept = 0;
    qsort(slots, count, sizeof *slots, by_number);
    for (uint32_t i = 0; i < count; i++)
        if (kept == 0 || slots[kept - 1] != slots[i])
            slots[kept++] = slots[i];
    return kept;
}

void node_remade_want_put(struct node *node, struct node_task *task, uint32_t slot)
{
    struct node_task_extra *extra = node_task_extra(node, task);
    if (extra->wanted_count >= WANTED_SORTED && (extra->wanted_count & (extra->wanted_count - 1)) == 0)
        extra->wanted_count = each_once(extra->wanted, extra->wanted_count);
    extra->wanted = node_remade_room(extra->wanted, extra->wanted_count, sizeof *extra->wanted);
    extra->wanted[extra->wanted_count++] = slot;
}

static bool is_missing(struct node *node, const struct node_task *task, uint32_t slot)
{
    struct mob_object_info info;
    struct mob_object_id id = mob_object_of(task->sched.id, slot);
    bool there = mob_store_object_info(node->store, id, &info) && info.sealed;
    return !there && is_waited_for(node, id);
}

void node_remade_each_missing_put(struct node *node, struct node_task *task,
    void (*missing)(struct node *node, struct node_task *task, uint32_t slot, void *arg), void *arg)
{
    const struct node_task_extra *extra = node_extra_of(task);
    if (!extra)
        return;
    for (uint32_t i = 0; i < extra->stored_count; i++) /* what waits for one as an input has not asked */
        if ((extra->stored[i].slot & MOB_SLOT_PUT) && is_missing(node, task, extra->stored[i].slot))
            missing(node, task, extra->stored[i].slot, arg);
    for (uint32_t i = 0; i < extra->wanted_count; i++)
        if (is_missing(node, task, extra->wanted[i]))
            missing(node, task, extra->wanted[i], arg);
}

/* A run that is compared hashes what is large, too, and says so beside the flag. */
static bool has_hash(const struct mob_return_view *r)
{
    return !(r->flags & MOB_RETURN_HASH_LATER) || (r->hash.lo | r->hash.hi) != 0;
}

bool node_remade_counts(const struct node_task *task, uint32_t slot)
{
    const struct node_task_extra *extra = node_extra_of(task);
    return !node_remade_in_log(task, slot) ||
        (extra->compared && !extra->shadow && task->template->head.num_returns != MOB_RETURNS_STREAM);
}

bool node_remade_hash_known(const struct node_task *task, const struct mob_return_view *r)
{
    const struct node_task_extra *extra = node_extra_of(task);
    const struct node_stored_return *before = extra ? expected_at(extra, r->slot) : NULL;
    return before && before->hashed && has_hash(r);
}

static bool same(const struct node_stored_return *before, const struct mob_return_view *now)
{
    if (before->ambiguous)
        return true;
    bool hashed = before->hashed && has_hash(now);
    return (now->flags & MOB_RETURN_STORED) && before->size == now->size &&
        (!hashed || mob_hash128_eq(before->hash, now->hash));
}

bool node_remade_item_differs(const struct node_task *task, const struct mob_return_view *r)
{
    const struct node_task_extra *extra = node_extra_of(task);
    const struct node_stored_return *before = extra ? expected_at(extra, r->slot) : NULL;
    return before && !same(before, r);
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

void node_remade_seal(struct node *node, const struct node_task *task, const struct node_client *maker,
    const struct mob_return_view *r)
{
    if (task->flags & TASK_REMAKE)
        (void)mob_store_seal_published(node->store, mob_object_of(task->sched.id, r->slot), maker->slot);
}

/* What lies there sealed is of an earlier run that came to no end, unless the log speaks of it. */
void node_remade_drop(struct node *node, const struct node_task *task, const struct node_client *maker,
    const struct mob_return_view *r)
{
    struct mob_object_id id = mob_object_of(task->sched.id, r->slot);
    if (!mob_store_drop_published(node->store, id, maker->slot) && !node_remade_in_log(task, r->slot) &&
        !node_remade_kept(node, task, r->slot))
        mob_store_object_free(node->store, id);
}

void node_remade_drop_all(struct node *node, const struct node_task *task, const struct node_client *maker,
    const struct mob_completion *completion)
{
    struct mob_return_view r;
    uint32_t at = 0;
    while (mob_completion_next(completion, &at, &r))
        node_remade_drop(node, task, maker, &r);
}

bool node_remade_the_same(struct node *node, const struct node_task *task, const struct node_client *maker,
    const struct mob_completion *completion)
{
    const struct node_task_extra *extra = node_extra_of(task);
    if (!extra || extra->stored_count == 0 || task->template->head.num_returns == MOB_RETURNS_STREAM)
        return true; /* items are compared one by one */
    struct mob_return_view r;
    uint32_t at = 0, found = 0, returns = 0;
    bool all = true;
    while (returns < extra->stored_count && !(extra->stored[returns].slot & MOB_SLOT_PUT))
        returns++; /* puts were compared when they came */
    while (mob_completion_next(completion, &at, &r)) {
        const struct node_stored_return *before = expected_at(extra, r.slot);
        found += before != NULL;
        all = all && (!before || same(before, &r));
    }
    all = all && found == returns;
    if (!all)
        node_remade_drop_all(node, task, maker, completion);
    return all;
}
