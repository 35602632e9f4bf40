/* Invariants over the whole segment: what is taken is named by exactly one thing that lives. */
#include "runtime/store/store_internal.h"

#include <stdio.h>
#include <stdlib.h>

static char why[256];

#define FAIL(...) (snprintf(why, sizeof why, __VA_ARGS__), why)

static bool is_live_owner(const struct mob_store *store, uint32_t owner)
{
    return owner == MOB_OWNER_NODE || (owner < store->view.clients_max && store->clients[owner].open);
}

/* Per unit: how many blocks or whole units the entries name. */
static const char *check_full(const struct mob_store *store, uint32_t index, uint64_t *named, uint8_t *marked)
{
    const struct mob_view *view = &store->view;
    uint64_t offset, size;
    if (!mob_entry_range(view, &view->seg_table[index], &offset, &size))
        return FAIL("entry %u: range offset=%llu", index,
            (unsigned long long)MOB_SEG_LOAD(&view->seg_table[index].offset));
    uint64_t in_arena = offset - view->arena_offset;
    uint32_t unit = (uint32_t)(in_arena / MOB_UNIT_BYTES), in_unit = (uint32_t)(in_arena % MOB_UNIT_BYTES);
    if (in_unit == 0) {
        for (uint64_t i = 0; i <= (size - 1) / MOB_UNIT_BYTES; i++) {
            if (MOB_SEG_LOAD(&view->unit_map[unit + i].v) != index + 1)
                return FAIL("entry %u: unit %llu not marked", index, (unsigned long long)(unit + i));
            marked[unit + i] = 1;
        }
        return NULL;
    }
    uint32_t mark = MOB_SEG_LOAD(&view->unit_map[unit].v), class_index = MOB_UNIT_CLASS(mark);
    uint32_t kind = MOB_UNIT_KIND(mark);
    if ((kind != MOB_UNIT_CHUNK && kind != MOB_UNIT_CHUNK_ORPHAN) || class_index >= MOB_CLASS_COUNT)
        return FAIL("entry %u: unit %u with mark %x is no chunk", index, unit, mark);
    uint32_t block_bytes = mob_slab_class_bytes(class_index);
    uint32_t block = (in_unit - MOB_CHUNK_HEADER_BYTES) / block_bytes;
    if (in_unit < MOB_CHUNK_HEADER_BYTES || (in_unit - MOB_CHUNK_HEADER_BYTES) % block_bytes != 0 ||
        block >= mob_slab_class_blocks(class_index) || size > block_bytes)
        return FAIL(
            "entry %u: offset %u of unit %u is no block of class %u", index, in_unit, unit, class_index);
    if (MOB_SEG_LOAD(&mob_view_chunk(view, unit)->free_bits[block / 64]) >> (block % 64) & 1)
        return FAIL("entry %u: block %u of unit %u is free", index, block, unit);
    named[unit]++;
    return NULL;
}

static const char *check_entries(const struct mob_store *store, uint64_t *named, uint8_t *marked)
{
    const struct mob_view *view = &store->view;
    for (uint32_t index = 0; index < view->entries; index++) {
        uint32_t tag = MOB_SEG_LOAD(&view->seg_tags[index].v), state = mob_tag_state(tag);
        const struct mob_seg_entry *entry = &view->seg_table[index];
        if (tag == 0) {
            if (MOB_SEG_LOAD(&entry->offset) != 0)
                return FAIL("free entry %u names an offset", index);
            continue;
        }
        if (state != MOB_TAG_CREATING && state != MOB_TAG_SEALED && state != MOB_TAG_COMMITTED)
            return FAIL("entry %u rests in state %u", index, state);
        if (state == MOB_TAG_CREATING && !is_live_owner(store, mob_tag_owner(tag)))
            return FAIL("entry %u: half-made object of dead client %u", index, mob_tag_owner(tag));
        uint32_t found_tag, found = mob_table_find(view, mob_entry_id(entry), &found_tag);
        if (found != index)
            return FAIL("entry %u: look-up of its id gives %u", index, found);
        if (mob_tag_is_inline(tag) || (state == MOB_TAG_CREATING && MOB_SEG_LOAD(&entry->offset) == 0))
            continue;
        const char *problem = check_full(store, index, named, marked);
        if (problem)
            return problem;
    }
    return NULL;
}

static uint64_t taken_blocks(const struct mob_view *view, uint32_t unit, uint32_t class_index)
{
    uint64_t taken = 0;
    for (uint32_t block = 0; block < mob_slab_class_blocks(class_index); block++)
        taken += !(MOB_SEG_LOAD(&mob_view_chunk(view, unit)->free_bits[block / 64]) >> (block % 64) & 1);
    return taken;
}

static const char *check_units(const struct mob_store *store, const uint64_t *named, const uint8_t *marked)
{
    const struct mob_view *view = &store->view;
    for (uint32_t unit = 0; unit < view->units; unit++) {
        uint32_t mark = MOB_SEG_LOAD(&view->unit_map[unit].v), kind = MOB_UNIT_KIND(mark);
        uint32_t slot = MOB_UNIT_SLOT(mark);
        if (mark == 0)
            continue;
        if (mark < MOB_UNIT_CHUNK_INIT) {
            if (!marked[unit])
                return FAIL("unit %u: marked for entry %u, which does not name it", unit, mark - 1);
            continue;
        }
        if (kind != MOB_UNIT_CHUNK_ORPHAN && !is_live_owner(store, slot))
            return FAIL("unit %u: mark %x of dead client %u", unit, mark, slot);
        if (kind == MOB_UNIT_CLIENT) {
            const struct mob_node_client *client = &store->clients[slot];
            if (unit < client->first_unit || unit >= client->first_unit + client->units)
                return FAIL("unit %u: not among the units of client %u", unit, slot);
            continue;
        }
        if (kind == MOB_UNIT_CHUNK_INIT || MOB_UNIT_CLASS(mark) >= MOB_CLASS_COUNT)
            return FAIL("unit %u: chunk rests in mark %x", unit, mark);
        uint64_t taken = taken_blocks(view, unit, MOB_UNIT_CLASS(mark));
        if (taken != named[unit])
            return FAIL("unit %u: %llu blocks taken, %llu named by entries", unit, (unsigned long long)taken,
                (unsigned long long)named[unit]);
        if (kind == MOB_UNIT_CHUNK_ORPHAN && taken == 0)
            return FAIL("unit %u: empty orphan", unit);
    }
    return NULL;
}

static const char *check_clients(const struct mob_store *store)
{
    const struct mob_view *view = &store->view;
    for (uint32_t slot = 0; slot < store->clients_top; slot++) {
        const struct mob_node_client *client = &store->clients[slot];
        if (!client->open)
            continue;
        if (client->damaged)
            return FAIL("client %u: damaged", slot);
        uint64_t head = MOB_SEG_LOAD(&client->seg_client->out_head);
        if (head < client->out.taken || head - client->out_released > client->out.size)
            return FAIL("client %u: outbound cursors", slot);
        for (uint32_t i = 0; i < client->pins_max; i++) {
            uint64_t pin = MOB_SEG_LOAD(&client->seg_pins[i].v);
            uint32_t index = (uint32_t)pin - 1;
            if (pin == 0)
                continue;
            if (index >= view->entries || MOB_SEG_LOAD(&view->seg_tags[index].v) == 0 ||
                MOB_SEG_LOAD(&view->seg_table[index].generation) != (uint32_t)(pin >> 32))
                return FAIL("client %u: pin %u of an object that is gone", slot, i);
        }
    }
    return NULL;
}

const char *mob_store_check(struct mob_store *store)
{
    if (store->damaged)
        return FAIL("the segment is damaged");
    uint64_t *named = calloc(store->view.units, sizeof *named);
    uint8_t *marked = calloc(store->view.units, 1);
    const char *problem = FAIL("out of memory");
    if (named && marked) {
        problem = check_entries(store, named, marked);
        if (!problem)
            problem = check_units(store, named, marked);
        if (!problem)
            problem = check_clients(store);
    }
    free(named);
    free(marked);
    return problem;
}
