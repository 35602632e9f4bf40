/* Dropping objects: the batch that looks for pins, and the sweep of committed small ones.
 *
 * A full object goes in three steps: its tag becomes EVICT_*, all pin journals are looked through
 * (client_object.c says why no pin is missed), and what is pinned gets its tag back. Many victims share one
 * look. Inline objects are copied by their readers, who look again afterwards, so they just go.
 */
#include "runtime/store/store_internal.h"

#include "common/base/clock.h"

enum { BATCH = 256, SWEEP_STEP = 1024, SWEEP_STRIDE = 64 };

struct batch {
    uint32_t index[BATCH];
    uint32_t count;
};

void mob_epoch_advance(struct mob_store *store)
{
    store->commits_in_epoch = 0;
    store->epoch++;
    MOB_SEG_STORE_RELAXED(&store->view.seg_header->epoch, store->epoch);
}

static bool is_evicting(uint32_t tag)
{
    return mob_tag_state(tag) == MOB_TAG_EVICT_SEALED || mob_tag_state(tag) == MOB_TAG_EVICT_COMMITTED;
}

void mob_entry_drop(struct mob_store *store, uint32_t entry_index, uint32_t tag)
{
    uint32_t state = mob_tag_state(tag);
    if ((state == MOB_TAG_COMMITTED || state == MOB_TAG_EVICT_COMMITTED) && store->committed > 0)
        store->committed--;
    store->entry_flags[entry_index] = 0;
    if (!mob_tag_is_inline(tag))
        mob_arena_free(&store->view, entry_index);
    MOB_SEG_STORE(&store->view.seg_tags[entry_index].v, 0);
}

bool mob_entry_droppable(const struct mob_store *store, uint32_t entry_index, uint32_t tag)
{
    uint8_t flags = store->entry_flags[entry_index];
    if (flags & MOB_NODE_FREED)
        return true;
    return mob_tag_state(tag) == MOB_TAG_COMMITTED && (flags & MOB_NODE_REMAKEABLE) != 0;
}

static bool mark_victim(struct mob_store *store, uint32_t index)
{
    uint32_t tag = MOB_SEG_LOAD(&store->view.seg_tags[index].v), state = mob_tag_state(tag);
    if (state != MOB_TAG_SEALED && state != MOB_TAG_COMMITTED)
        return false;
    return MOB_SEG_CAS(
        &store->view.seg_tags[index].v, &tag, mob_tag_with(tag, (enum mob_tag_state)(state + 2)));
}

/* Calls visit for each entry that stands in the journal of a live client. */
void mob_each_pin(
    const struct mob_store *store, void (*visit)(const struct mob_store *, uint32_t, void *), void *arg)
{
    for (uint32_t slot = 0; slot < store->clients_top; slot++) {
        const struct mob_node_client *client = &store->clients[slot];
        if (!client->open)
            continue;
        uint32_t top = MOB_SEG_LOAD_SC(&client->seg_client->pins_top);
        top = top > client->pins_max ? client->pins_max : top;
        for (uint32_t i = 0; i < top; i++) {
            uint64_t pin = MOB_SEG_LOAD_SC(&client->seg_pins[i].v);
            uint32_t index = (uint32_t)pin - 1;
            if (pin != 0 && index < store->view.entries)
                visit(store, index, arg);
        }
    }
}

static void revert_if_victim(const struct mob_store *store, uint32_t index, void *arg)
{
    (void)arg;
    struct mob_seg_word *word = &store->view.seg_tags[index];
    uint32_t tag = MOB_SEG_LOAD(&word->v);
    if (is_evicting(tag))
        MOB_SEG_CAS(&word->v, &tag, mob_tag_with(tag, (enum mob_tag_state)(mob_tag_state(tag) - 2)));
}

static uint32_t evict_batch(struct mob_store *store, struct batch *batch)
{
    if (batch->count == 0)
        return 0;
    mob_each_pin(store, revert_if_victim, NULL);
    uint32_t dropped = 0;
    for (uint32_t i = 0; i < batch->count; i++) {
        uint32_t tag = MOB_SEG_LOAD(&store->view.seg_tags[batch->index[i]].v);
        if (!is_evicting(tag))
            continue;
        mob_entry_drop(store, batch->index[i], tag);
        dropped++;
    }
    batch->count = 0;
    store->evictions += dropped;
    return dropped;
}

bool mob_evict_unpinned(struct mob_store *store, uint32_t entry_index)
{
    uint32_t tag = MOB_SEG_LOAD(&store->view.seg_tags[entry_index].v);
    if (mob_tag_is_inline(tag)) {
        mob_entry_drop(store, entry_index, tag);
        return true;
    }
    struct batch batch = {.count = 1, .index = {entry_index}};
    return mark_victim(store, entry_index) && evict_batch(store, &batch) == 1;
}

static void count_one(const struct mob_store *store, uint32_t index, void *arg)
{
    (void)store;
    (void)index;
    ++*(uint64_t *)arg;
}

uint64_t mob_pins_count(const struct mob_store *store)
{
    uint64_t pins = 0;
    mob_each_pin(store, count_one, &pins);
    return pins;
}

static void count_bytes(const struct mob_store *store, uint32_t index, void *arg)
{
    *(uint64_t *)arg += MOB_SEG_LOAD_RELAXED(&store->view.seg_table[index].value[0]);
}

uint64_t mob_pins_bytes(const struct mob_store *store)
{
    uint64_t bytes = 0;
    mob_each_pin(store, count_bytes, &bytes);
    return bytes;
}

/* ---- the sweep ---- */

/* Committed, not kept, not used for `min_age` ages, and droppable without a trace: inline or remakeable. */
static void sweep_tags(
    struct mob_store *store, uint32_t from, uint32_t count, uint32_t min_age, struct batch *batch)
{
    const struct mob_view *view = &store->view;
    for (uint32_t i = from; i < from + count; i++)
        if (mob_tag_state(MOB_SEG_LOAD_RELAXED(&view->seg_tags[i].v)) == MOB_TAG_COMMITTED)
            __builtin_prefetch(&view->seg_table[i]);
    for (uint32_t i = from; i < from + count; i++) {
        uint32_t tag = MOB_SEG_LOAD(&view->seg_tags[i].v);
        if (mob_tag_state(tag) != MOB_TAG_COMMITTED || (store->entry_flags[i] & MOB_NODE_KEEP))
            continue;
        if (store->epoch - MOB_SEG_LOAD_RELAXED(&view->seg_table[i].used_epoch) < min_age)
            continue;
        if (mob_tag_is_inline(tag)) {
            if (MOB_SEG_CAS(&view->seg_tags[i].v, &tag, 0)) {
                store->entry_flags[i] = 0;
                store->committed -= store->committed > 0;
                store->evictions++;
            }
        } else if (mob_entry_droppable(store, i, tag) && mark_victim(store, i)) {
            batch->index[batch->count++] = i;
            if (batch->count == BATCH)
                evict_batch(store, batch);
        }
    }
}

/* A sweep is one whole turn of the hand. Turning it a bit at a time instead would leave the part that it
 * reaches last twice as full as the mean, and a full window somewhere long before the table is. */
static void start_turn(struct mob_store *store, uint32_t min_age)
{
    store->sweep_left = store->view.entries;
    store->sweep_age = min_age;
}

bool mob_sweep_step(struct mob_store *store, uint32_t tags)
{
    const struct mob_view *view = &store->view;
    if (store->sweep_left == 0) {
        if (store->committed < store->sweep_floor)
            store->sweep_floor = store->committed;
        uint64_t mark = view->entries / 8 * 3, futile = store->sweep_floor + view->entries / 32;
        if (store->committed <= (mark > futile ? mark : futile))
            return false;
        start_turn(store, MOB_SWEEP_AGE);
    }
    struct batch batch = {.count = 0};
    for (uint32_t done = 0; done < tags && store->sweep_left > 0; done += SWEEP_STRIDE) {
        sweep_tags(store, store->hand, SWEEP_STRIDE, store->sweep_age, &batch);
        store->hand = (store->hand + SWEEP_STRIDE) & (view->entries - 1);
        store->sweep_left -= SWEEP_STRIDE;
    }
    evict_batch(store, &batch);
    if (store->sweep_left == 0 && store->committed > view->entries / 16 * 5) {
        /* Not enough: take younger ones, down to those just used. What is kept or pinned then stays; no
         * further turn before there is more. */
        if (store->sweep_age > 0)
            start_turn(store, store->sweep_age - 1);
        else
            store->sweep_floor = store->committed;
    }
    return store->sweep_left > 0;
}

void mob_sweep_all(struct mob_store *store, uint32_t min_age)
{
    struct batch batch = {.count = 0};
    for (uint32_t at = 0; at < store->view.entries; at += SWEEP_STRIDE)
        sweep_tags(store, at, SWEEP_STRIDE, min_age, &batch);
    evict_batch(store, &batch);
}

bool mob_store_maintain(struct mob_store *store, int64_t budget_ns)
{
    int64_t end = 0;
    for (;;) {
        bool more = mob_sweep_step(store, SWEEP_STEP);
        more |= mob_hash_queue_step(store);
        if (!more)
            return false;
        int64_t now = mob_now();
        end = end == 0 ? now + budget_ns : end;
        if (now >= end)
            return true;
    }
}
