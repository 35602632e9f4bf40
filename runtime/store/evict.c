/* Dropping objects: the batch that looks for pins.
 *
 * A full object goes in three steps: its tag becomes EVICT_*, all pin journals are looked through
 * (client_object.c says why no pin is missed), and what is pinned gets its tag back. Many victims share one
 * look. Inline objects are copied by their readers, who look again afterwards, so they just go.
 */
#include "runtime/store/store_internal.h"

#include "common/base/clock.h"

enum { SWEEP_STEP = 1024 };

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

bool mob_evict_mark(struct mob_store *store, uint32_t index)
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

uint32_t mob_evict_batch(struct mob_store *store, struct mob_evict_batch *batch)
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
    struct mob_evict_batch batch = {.count = 1, .index = {entry_index}};
    return mob_evict_mark(store, entry_index) && mob_evict_batch(store, &batch) == 1;
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

static bool maintain(struct mob_store *store, int64_t budget_ns, bool hash)
{
    int64_t end = 0;
    for (;;) {
        bool more = mob_sweep_step(store, SWEEP_STEP);
        more |= hash && mob_hash_queue_step(store);
        if (!more)
            return false;
        int64_t now = mob_now();
        end = end == 0 ? now + budget_ns : end;
        if (now >= end)
            return true;
    }
}

bool mob_store_maintain(struct mob_store *store, int64_t budget_ns)
{
    return maintain(store, budget_ns, true);
}

bool mob_store_sweep(struct mob_store *store, int64_t budget_ns)
{
    return maintain(store, budget_ns, false);
}
