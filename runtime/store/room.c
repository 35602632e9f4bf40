/* Making room when somebody finds none: dropping what lineage can make again, spilling the rest, least
 * recently used first. There are three kinds of room: units of the arena, entries of the table, and entries
 * in the window of one id.
 */
#include "runtime/store/store_internal.h"

#include <stdlib.h>

#include "common/base/log.h"

enum { CANDIDATES = 2048 };

struct candidate {
    uint32_t index, age;
};

static int older_first(const void *a, const void *b)
{
    const struct candidate *x = a, *y = b;
    return x->age > y->age ? -1 : x->age < y->age ? 1 : x->index < y->index ? -1 : x->index > y->index;
}

static bool may_go(const struct mob_store *store, uint32_t index, uint32_t tag)
{
    uint32_t state = mob_tag_state(tag);
    if (mob_tag_is_inline(tag) || (state != MOB_TAG_SEALED && state != MOB_TAG_COMMITTED))
        return false;
    if (store->entry_flags[index] & MOB_NODE_KEEP)
        return false;
    return store->spill || mob_entry_droppable(store, index, tag);
}

/* Which objects are pinned now, as a bit each: not worth writing to disk. */
static void note_pinned(const struct mob_store *store, uint32_t index, void *arg)
{
    (void)store;
    uint64_t *bits = arg;
    bits[index / 64] |= 1ull << (index % 64);
}

/* The oldest evictable objects, sorted. A heap is not worth it: this runs when the store is full. */
static uint32_t collect(struct mob_store *store, struct candidate *out, const uint64_t *not_these)
{
    const struct mob_view *view = &store->view;
    uint32_t count = 0, youngest_kept = 0;
    for (uint32_t i = 0; i < view->entries; i++) {
        uint32_t tag = MOB_SEG_LOAD_RELAXED(&view->seg_tags[i].v);
        if (tag == 0 || (not_these[i / 64] >> (i % 64) & 1) || !may_go(store, i, tag))
            continue;
        uint32_t age = store->epoch - MOB_SEG_LOAD_RELAXED(&view->seg_table[i].used_epoch);
        if (count == 2 * CANDIDATES) {
            qsort(out, count, sizeof *out, older_first);
            count = CANDIDATES;
            youngest_kept = out[count - 1].age;
        }
        if (age >= youngest_kept)
            out[count++] = (struct candidate){.index = i, .age = age};
    }
    qsort(out, count, sizeof *out, older_first);
    return count;
}

/* Spill when its bytes must not be lost, then drop. */
static enum mob_status evict_one(struct mob_store *store, uint32_t index)
{
    uint32_t tag = MOB_SEG_LOAD(&store->view.seg_tags[index].v);
    if (!mob_entry_droppable(store, index, tag)) {
        enum mob_status status = mob_spill_write(store, index);
        if (status != MOB_OK)
            return status;
    }
    return mob_evict_unpinned(store, index) ? MOB_OK : MOB_AGAIN;
}

static bool has_room(struct mob_store *store, uint32_t units)
{
    uint32_t free_units;
    if (mob_extent_largest(&store->view, &free_units) >= units)
        return true;
    if (mob_slab_reclaim(store) + mob_slab_trim(&store->arena) == 0)
        return false;
    return mob_extent_largest(&store->view, &free_units) >= units;
}

static enum mob_status make_units(
    struct mob_store *store, uint32_t units, struct candidate *candidates, uint64_t *tried)
{
    mob_each_pin(store, note_pinned, tried);
    enum mob_status worst = MOB_STORE_FULL;
    if (has_room(store, units))
        return MOB_OK;
    for (;;) {
        uint32_t count = collect(store, candidates, tried);
        if (count == 0)
            return has_room(store, units) ? MOB_OK : worst;
        for (uint32_t i = 0; i < count; i++) {
            uint32_t index = candidates[i].index;
            bool large = MOB_SEG_LOAD_RELAXED(&store->view.seg_table[index].value[0]) > MOB_SLAB_OBJECT_MAX;
            tried[index / 64] |= 1ull << (index % 64);
            enum mob_status status = evict_one(store, index);
            if (status == MOB_DISK_FULL || status == MOB_IO)
                worst = status;
            if (status == MOB_OK && (large || i % 64 == 63) && has_room(store, units))
                return MOB_OK;
        }
    }
}

/* A request can also come because the table is full. Then down to half of it. */
static enum mob_status make_table_room(struct mob_store *store, struct candidate *candidates, uint64_t *tried)
{
    const struct mob_view *view = &store->view;
    uint64_t before = store->evictions;
    uint32_t half = view->entries / 2, used = mob_table_used(view);
    if (used <= half + view->entries / 16)
        return MOB_OK;
    mob_sweep_now(store, half);
    used = mob_table_used(view);
    while (used > half) {
        uint32_t count = collect(store, candidates, tried);
        if (count == 0)
            break;
        for (uint32_t i = 0; i < count && used > half; i++) {
            tried[candidates[i].index / 64] |= 1ull << (candidates[i].index % 64);
            used -= evict_one(store, candidates[i].index) == MOB_OK;
        }
    }
    return store->evictions > before ? MOB_OK : MOB_STORE_FULL;
}

static bool window_may_go(const struct mob_store *store, uint32_t index, uint32_t tag)
{
    if (mob_tag_is_inline(tag))
        return mob_tag_state(tag) == MOB_TAG_COMMITTED && (store->entry_flags[index] & MOB_NODE_KEEP) == 0;
    return may_go(store, index, tag);
}

static bool window_is_full(const struct mob_store *store, struct mob_object_key key)
{
    for (uint32_t i = 0; i < MOB_WINDOW_ENTRIES; i++)
        if (MOB_SEG_LOAD_RELAXED(
                &store->view
                     .seg_tags[mob_key_index(&store->view, key, i / MOB_GROUP_ENTRIES, i % MOB_GROUP_ENTRIES)]
                     .v) == 0)
            return false;
    return true;
}

/* The table as a whole has room, but an id can lie only in its window. An eighth of it goes, so that the next
 * neighbours find room as well. */
static enum mob_status make_window_room(
    struct mob_store *store, struct mob_object_id id, struct candidate *candidates)
{
    const struct mob_view *view = &store->view;
    struct mob_object_key key = mob_object_key(view, id);
    if (!window_is_full(store, key))
        return MOB_OK;
    uint32_t count = 0, gone = 0;
    for (uint32_t i = 0; i < MOB_WINDOW_ENTRIES; i++) {
        uint32_t index = mob_key_index(view, key, i / MOB_GROUP_ENTRIES, i % MOB_GROUP_ENTRIES);
        uint32_t age = store->epoch - MOB_SEG_LOAD_RELAXED(&view->seg_table[index].used_epoch);
        if (window_may_go(store, index, MOB_SEG_LOAD_RELAXED(&view->seg_tags[index].v)))
            candidates[count++] = (struct candidate){.index = index, .age = age};
    }
    qsort(candidates, count, sizeof *candidates, older_first);
    for (uint32_t i = 0; i < count && gone < MOB_WINDOW_ENTRIES / 8; i++)
        gone += evict_one(store, candidates[i].index) == MOB_OK;
    return gone > 0 ? MOB_OK : MOB_STORE_FULL;
}

static void log_failure(struct mob_store *store, enum mob_status status)
{
    struct mob_store_full full;
    mob_store_full_details(store, &full);
    MOB_LOG_WARN("store", "no_room",
        "status=%s needed=%llu free=%llu largest=%llu arena=%llu pinned=%llu spilled=%llu quota=%llu "
        "entries=%u used=%u",
        mob_status_code(status), (unsigned long long)full.needed_bytes, (unsigned long long)full.free_bytes,
        (unsigned long long)full.largest_free_bytes, (unsigned long long)full.arena_bytes,
        (unsigned long long)full.pinned_bytes, (unsigned long long)full.spilled_bytes,
        (unsigned long long)full.spill_quota_bytes, full.entries, full.entries_used);
}

enum mob_status mob_store_make_room(
    struct mob_store *store, const struct mob_object_id *id, uint64_t bytes, uint64_t *free_out)
{
    const struct mob_view *view = &store->view;
    uint64_t units = bytes == 0 ? 1 : (bytes - 1) / MOB_UNIT_BYTES + 1;
    store->needed_bytes = bytes;
    enum mob_status status = MOB_STORE_FULL;
    struct candidate *candidates = malloc((2 * CANDIDATES + 1) * sizeof *candidates);
    uint64_t *tried = calloc(view->entries / 64 + 1, sizeof *tried);
    if (!candidates || !tried)
        status = MOB_NO_MEMORY;
    else if (units <= view->units)
        status = make_units(store, (uint32_t)units, candidates, tried);
    if (status == MOB_OK)
        status = make_table_room(store, candidates, tried);
    if (status == MOB_OK && id)
        status = make_window_room(store, *id, candidates);
    free(candidates);
    free(tried);
    if (status != MOB_OK) {
        log_failure(store, status);
        return status;
    }
    uint32_t free_units;
    *free_out = (uint64_t)mob_extent_largest(view, &free_units) * MOB_UNIT_BYTES;
    return MOB_OK;
}
