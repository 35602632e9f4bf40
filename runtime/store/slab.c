/* Small objects: chunks of one unit, one size class each, owned by one client (or the node).
 *
 * Only the owner takes blocks (clears bits), only the node gives them back (sets bits), so neither needs a
 * lock nor a message. An object's entry names its block before the bit is cleared: a client that dies in
 * between leaves a bit that the node sets once more.
 *
 * A client takes only from the chunk that it announced as current for the class: it announces, then looks
 * whether the chunk is still its own. The node takes back an empty chunk of a live client by changing its
 * mark to "being looked at", then looking whether it is announced. Store, then look, on both sides: one of
 * them sees the other. While it is being looked at, its blocks can be taken and come back, but nobody adopts
 * or frees it: when it was announced after all, its owner goes on in it and never learns of the look. Chunks
 * of a dead client that still hold objects become orphans, and go to whoever next needs that class and finds
 * no free unit, or back when their last object goes.
 */
#include "runtime/store/store_internal.h"

#include <stdlib.h>

enum { LOOKS = 8 };

/* Powers of two plus the 64-byte value header, and even divisions of a chunk. */
static const uint16_t class_bytes[MOB_CLASS_COUNT] = {64, 128, 192, 256, 320, 384, 448, 512, 640, 768, 896,
    1088, 1344, 1600, 2112, 3136, 4160, 5440, 9280, 10880, 13056, 16320, 21760};

uint32_t mob_slab_class_bytes(uint32_t class_index)
{
    return class_bytes[class_index];
}

uint32_t mob_slab_class_blocks(uint32_t class_index)
{
    return (MOB_UNIT_BYTES - MOB_CHUNK_HEADER_BYTES) / class_bytes[class_index];
}

static uint32_t class_of(uint64_t size)
{
    if (size <= 512)
        return (uint32_t)((size + 63) / 64) - 1;
    uint32_t class_index = 8;
    while (class_bytes[class_index] < size)
        class_index++;
    return class_index;
}

static uint64_t full_word(uint32_t blocks, uint32_t word)
{
    if (blocks >= (word + 1) * 64)
        return UINT64_MAX;
    return blocks <= word * 64 ? 0 : (1ull << (blocks - word * 64)) - 1;
}

static bool mob_slab_chunk_empty(const struct mob_view *view, uint32_t unit, uint32_t class_index)
{
    const struct mob_seg_chunk *chunk = mob_view_chunk(view, unit);
    uint32_t blocks = mob_slab_class_blocks(class_index);
    for (uint32_t word = 0; word * 64 < blocks; word++)
        if (MOB_SEG_LOAD(&chunk->free_bits[word]) != full_word(blocks, word))
            return false;
    return true;
}

void mob_arena_user_init(
    struct mob_arena_user *user, const struct mob_view *view, uint32_t slot, struct mob_seg_client *shared)
{
    *user = (struct mob_arena_user){.view = view, .slot = slot, .seg_client = shared};
}

void mob_arena_user_fini(struct mob_arena_user *user)
{
    for (int i = 0; i < MOB_CLASS_COUNT; i++)
        free(user->classes[i].units);
    memset(user, 0, sizeof *user);
}

/* Block of this chunk for the entry; 0 = chunk is full. */
static uint64_t take_block(
    const struct mob_view *view, uint32_t unit, uint32_t class_index, struct mob_seg_entry *entry)
{
    struct mob_seg_chunk *chunk = mob_view_chunk(view, unit);
    uint32_t blocks = mob_slab_class_blocks(class_index);
    for (uint32_t word = 0; word * 64 < blocks; word++) {
        uint64_t bits = MOB_SEG_LOAD(&chunk->free_bits[word]) & full_word(blocks, word);
        if (bits == 0)
            continue;
        uint32_t bit = (uint32_t)__builtin_ctzll(bits);
        uint64_t offset = view->arena_offset + (uint64_t)unit * MOB_UNIT_BYTES + MOB_CHUNK_HEADER_BYTES +
            (uint64_t)(word * 64 + bit) * class_bytes[class_index];
        MOB_SEG_STORE(&entry->offset, offset);
        MOB_SEG_AND(&chunk->free_bits[word], ~(1ull << bit));
        return offset;
    }
    return 0;
}

static bool list_add(struct mob_chunk_list *list, uint32_t unit)
{
    if (list->count == list->capacity) {
        uint32_t capacity = list->capacity == 0 ? 8 : list->capacity * 2;
        uint32_t *units = realloc(list->units, capacity * sizeof *units);
        if (!units)
            return false;
        list->units = units;
        list->capacity = capacity;
    }
    list->units[list->count++] = unit;
    return true;
}

/* A new chunk from a free unit. In state INIT no block of it is handed out, so whoever dies there leaves
 * nothing. */
static bool chunk_from_free_unit(struct mob_arena_user *user, uint32_t class_index)
{
    const struct mob_view *view = user->view;
    uint32_t init = MOB_UNIT_MARK(MOB_UNIT_CHUNK_INIT, class_index, user->slot);
    uint32_t unit = mob_extent_claim(view, 1, init, NULL);
    if (unit == UINT32_MAX)
        return false;
    struct mob_seg_chunk *chunk = mob_view_chunk(view, unit);
    uint32_t blocks = mob_slab_class_blocks(class_index);
    for (uint32_t word = 0; word < 16; word++)
        MOB_SEG_STORE(&chunk->free_bits[word], full_word(blocks, word));
    MOB_SEG_STORE(&view->unit_map[unit].v, MOB_UNIT_MARK(MOB_UNIT_CHUNK, class_index, user->slot));
    return list_add(&user->classes[class_index], unit); /* no memory: the node takes the empty chunk back */
}

static bool chunk_from_orphans(struct mob_arena_user *user, uint32_t class_index)
{
    const struct mob_view *view = user->view;
    uint32_t wanted = MOB_UNIT_MARK(MOB_UNIT_CHUNK_ORPHAN, class_index, 0);
    for (uint32_t unit = 0; unit < view->units; unit++) {
        uint32_t mark = MOB_SEG_LOAD_RELAXED(&view->unit_map[unit].v);
        if (mark != wanted)
            continue;
        const struct mob_seg_chunk *chunk = mob_view_chunk(view, unit);
        uint64_t any = 0;
        for (uint32_t word = 0; word < 16; word++)
            any |= MOB_SEG_LOAD(&chunk->free_bits[word]);
        if (any == 0)
            continue;
        if (MOB_SEG_CAS(
                &view->unit_map[unit].v, &mark, MOB_UNIT_MARK(MOB_UNIT_CHUNK, class_index, user->slot)))
            return list_add(&user->classes[class_index], unit);
    }
    return false;
}

/* Make the chunk at `at` the current one. false = the node took it back. */
static bool switch_to(struct mob_arena_user *user, uint32_t class_index, uint32_t at)
{
    struct mob_chunk_list *list = &user->classes[class_index];
    uint32_t unit = list->units[at];
    list->current = at;
    list->announced = unit + 1;
    if (user->seg_client)
        MOB_SEG_XCHG(&user->seg_client->current_chunk[class_index], unit + 1);
    uint32_t mark = MOB_SEG_LOAD_SC(&user->view->unit_map[unit].v);
    return mark == MOB_UNIT_MARK(MOB_UNIT_CHUNK, class_index, user->slot);
}

static uint64_t take_from(
    struct mob_arena_user *user, uint32_t class_index, uint32_t at, struct mob_seg_entry *entry)
{
    struct mob_chunk_list *list = &user->classes[class_index];
    uint32_t unit = list->units[at];
    if (list->announced != unit + 1 && !switch_to(user, class_index, at)) {
        list->units[at] = list->units[--list->count];
        list->announced = 0;
        return 0;
    }
    return take_block(user->view, unit, class_index, entry);
}

static bool has_free_block(const struct mob_view *view, uint32_t unit, uint32_t class_index)
{
    const struct mob_seg_chunk *chunk = mob_view_chunk(view, unit);
    uint32_t blocks = mob_slab_class_blocks(class_index);
    for (uint32_t word = 0; word * 64 < blocks; word++)
        if (MOB_SEG_LOAD_RELAXED(&chunk->free_bits[word]) & full_word(blocks, word))
            return true;
    return false;
}

/* From the current chunk, else from the next ones with space, of `looks` that are looked at in turn. A client
 * that holds a gigabyte of small objects has too many chunks to look at all of them for each new one. */
static uint64_t take_from_list(
    struct mob_arena_user *user, uint32_t class_index, uint32_t looks, struct mob_seg_entry *entry)
{
    struct mob_chunk_list *list = &user->classes[class_index];
    uint64_t offset = list->current < list->count ? take_from(user, class_index, list->current, entry) : 0;
    for (uint32_t i = 0; offset == 0 && i < looks && list->count > 0; i++) {
        list->probe = list->probe + 1 < list->count ? list->probe + 1 : 0;
        /* The node may have taken it back, and somebody else may write there: then this reads noise, and
         * take_from finds that it is not ours. */
        if (has_free_block(user->view, list->units[list->probe], class_index))
            offset = take_from(user, class_index, list->probe, entry);
    }
    return offset;
}

uint64_t mob_slab_alloc(struct mob_arena_user *user, struct mob_seg_entry *entry, uint64_t size)
{
    uint32_t class_index = class_of(size);
    struct mob_chunk_list *list = &user->classes[class_index];
    uint64_t offset = take_from_list(user, class_index, LOOKS, entry);
    if (offset != 0)
        return offset;
    if (chunk_from_free_unit(user, class_index))
        return take_from(user, class_index, list->count - 1, entry);
    /* Nothing new: all own chunks, then those that dead clients left, then own chunks of other classes that
     * lie empty. */
    offset = take_from_list(user, class_index, list->count, entry);
    if (offset != 0)
        return offset;
    if (!chunk_from_orphans(user, class_index) &&
        (mob_slab_trim(user) == 0 || !chunk_from_free_unit(user, class_index)))
        return 0;
    return take_from(user, class_index, list->count - 1, entry);
}

uint32_t mob_slab_trim(struct mob_arena_user *user)
{
    const struct mob_view *view = user->view;
    uint32_t freed = 0;
    for (uint32_t class_index = 0; class_index < MOB_CLASS_COUNT; class_index++) {
        struct mob_chunk_list *list = &user->classes[class_index];
        for (uint32_t i = 0; i < list->count;) {
            uint32_t unit = list->units[i];
            /* All bits set: no entry names a block here, and only this user could take one. */
            if (!mob_slab_chunk_empty(view, unit, class_index)) {
                i++;
                continue;
            }
            list->units[i] = list->units[--list->count];
            if (list->announced == unit + 1)
                list->announced = 0;
            uint32_t mark = MOB_UNIT_MARK(MOB_UNIT_CHUNK, class_index, user->slot);
            if (!MOB_SEG_CAS(&view->unit_map[unit].v, &mark, 0))
                continue; /* the node was faster */
            if (MOB_SEG_LOAD_RELAXED(&view->seg_header->free_hint) > unit)
                MOB_SEG_STORE_RELAXED(&view->seg_header->free_hint, unit);
            freed++;
        }
    }
    return freed;
}

static bool free_orphan_if_empty(const struct mob_view *view, uint32_t unit, uint32_t mark)
{
    /* The exchange fails when somebody just adopted it: fine. */
    return mob_slab_chunk_empty(view, unit, MOB_UNIT_CLASS(mark)) &&
        MOB_SEG_CAS(&view->unit_map[unit].v, &mark, 0);
}

void mob_slab_free(const struct mob_view *view, uint64_t offset)
{
    uint64_t in_arena = offset - view->arena_offset;
    uint32_t unit = (uint32_t)(in_arena / MOB_UNIT_BYTES);
    uint32_t mark = MOB_SEG_LOAD(&view->unit_map[unit].v);
    uint32_t class_index = MOB_UNIT_CLASS(mark);
    bool chunk = MOB_UNIT_KIND(mark) == MOB_UNIT_CHUNK || MOB_UNIT_KIND(mark) == MOB_UNIT_CHUNK_ORPHAN;
    uint32_t in_unit = (uint32_t)(in_arena % MOB_UNIT_BYTES);
    if (!chunk || class_index >= MOB_CLASS_COUNT || in_unit < MOB_CHUNK_HEADER_BYTES)
        return; /* a client wrote nonsense here; at worst it loses space */
    uint32_t block = (in_unit - MOB_CHUNK_HEADER_BYTES) / class_bytes[class_index];
    if ((in_unit - MOB_CHUNK_HEADER_BYTES) % class_bytes[class_index] != 0 ||
        block >= mob_slab_class_blocks(class_index))
        return;
    MOB_SEG_OR(&mob_view_chunk(view, unit)->free_bits[block / 64], 1ull << (block % 64));
    /* The mark only now: whoever just made it an orphan looks at the bits after that. */
    uint32_t orphan = MOB_UNIT_MARK(MOB_UNIT_CHUNK_ORPHAN, class_index, 0);
    if (MOB_SEG_LOAD_SC(&view->unit_map[unit].v) == orphan)
        free_orphan_if_empty(view, unit, orphan);
}

void mob_slab_disown(const struct mob_view *view, uint32_t slot)
{
    for (uint32_t unit = 0; unit < view->units; unit++) {
        uint32_t mark = MOB_SEG_LOAD(&view->unit_map[unit].v);
        uint32_t kind = MOB_UNIT_KIND(mark);
        if (mark < MOB_UNIT_CHUNK_INIT || MOB_UNIT_SLOT(mark) != slot)
            continue;
        if (kind == MOB_UNIT_CHUNK_INIT ||
            (kind == MOB_UNIT_CHUNK && MOB_UNIT_CLASS(mark) >= MOB_CLASS_COUNT)) {
            MOB_SEG_STORE(&view->unit_map[unit].v, 0);
        } else if (kind == MOB_UNIT_CHUNK) {
            uint32_t orphan = MOB_UNIT_MARK(MOB_UNIT_CHUNK_ORPHAN, MOB_UNIT_CLASS(mark), 0);
            MOB_SEG_STORE(&view->unit_map[unit].v, orphan);
            free_orphan_if_empty(view, unit, orphan);
        }
    }
    MOB_SEG_STORE_RELAXED(&view->seg_header->free_hint, 0);
}

uint32_t mob_slab_reclaim(struct mob_store *store)
{
    const struct mob_view *view = &store->view;
    uint32_t freed = 0;
    for (uint32_t unit = 0; unit < view->units; unit++) {
        uint32_t mark = MOB_SEG_LOAD(&view->unit_map[unit].v);
        uint32_t class_index = MOB_UNIT_CLASS(mark), slot = MOB_UNIT_SLOT(mark);
        if (MOB_UNIT_KIND(mark) != MOB_UNIT_CHUNK || class_index >= MOB_CLASS_COUNT ||
            slot >= view->clients_max || !mob_slab_chunk_empty(view, unit, class_index))
            continue;
        if (!MOB_SEG_CAS(&view->unit_map[unit].v, &mark, MOB_UNIT_LOOKED_AT(class_index)))
            continue;
        uint32_t announced = MOB_SEG_LOAD_SC(&view->seg_clients[slot].current_chunk[class_index]);
        if (announced == unit + 1) {
            MOB_SEG_STORE(&view->unit_map[unit].v, mark);
            continue;
        }
        uint32_t orphan = MOB_UNIT_MARK(MOB_UNIT_CHUNK_ORPHAN, class_index, 0);
        MOB_SEG_XCHG(&view->unit_map[unit].v, orphan);
        freed += free_orphan_if_empty(view, unit, orphan);
    }
    if (freed > 0)
        MOB_SEG_STORE_RELAXED(&view->seg_header->free_hint, 0);
    return freed;
}
