/* Large objects: runs of whole units, first fit, claimed unit by unit by compare-and-set.
 *
 * Before the first unit of a range is marked, the range stands in the object's entry. A client that dies
 * while claiming or giving up a range therefore leaves marks only inside the range that its entry names.
 */
#include "runtime/store/store_internal.h"

/* Mark units [first, first + count). false = somebody else got one, at *lost_out; own marks are taken back.
 */
static bool claim_range(
    const struct mob_view *view, uint32_t first, uint32_t count, uint32_t mark, uint32_t *lost_out)
{
    for (uint32_t i = 0; i < count; i++) {
        uint32_t expected = 0;
        if (MOB_SEG_CAS(&view->unit_map[first + i].v, &expected, mark))
            continue;
        for (uint32_t j = 0; j < i; j++)
            MOB_SEG_STORE(&view->unit_map[first + j].v, 0);
        *lost_out = first + i;
        return false;
    }
    return true;
}

static uint32_t claim_from(const struct mob_view *view, uint32_t from, uint32_t count, uint32_t mark,
    struct mob_seg_entry *note, bool *first_free_out)
{
    uint32_t run = 0;
    *first_free_out = true;
    for (uint32_t unit = from; unit < view->units; unit++) {
        if (MOB_SEG_LOAD_RELAXED(&view->unit_map[unit].v) != 0) {
            run = 0;
            continue;
        }
        if (++run < count)
            continue;
        uint32_t first = unit + 1 - count, lost;
        if (note)
            MOB_SEG_STORE(&note->offset, view->arena_offset + (uint64_t)first * MOB_UNIT_BYTES);
        if (claim_range(view, first, count, mark, &lost))
            return first;
        unit = lost;
        run = 0;
        *first_free_out = false;
    }
    return UINT32_MAX;
}

uint32_t mob_extent_claim(
    const struct mob_view *view, uint32_t units, uint32_t mark, struct mob_seg_entry *note)
{
    /* Low addresses first: they are warm. The hint only saves a scan; when it misleads, the scan starts over
     * at 0. */
    uint32_t hint = MOB_SEG_LOAD_RELAXED(&view->seg_header->free_hint);
    if (hint >= view->units)
        hint = 0;
    bool clean;
    uint32_t first = claim_from(view, hint, units, mark, note, &clean);
    if (first == UINT32_MAX && hint != 0)
        first = claim_from(view, 0, units, mark, note, &clean);
    else if (units == 1 && first != UINT32_MAX)
        MOB_SEG_STORE_RELAXED(
            &view->seg_header->free_hint, first + 1); /* the first free unit at or above the hint */
    if (first == UINT32_MAX && note)
        MOB_SEG_STORE(&note->offset, 0);
    return first;
}

void mob_extent_free(const struct mob_view *view, uint64_t first_unit, uint64_t units, uint32_t mark)
{
    for (uint64_t unit = first_unit; unit < first_unit + units && unit < view->units; unit++)
        if (MOB_SEG_LOAD_RELAXED(&view->unit_map[unit].v) == mark)
            MOB_SEG_STORE(&view->unit_map[unit].v, 0);
    if (MOB_SEG_LOAD_RELAXED(&view->seg_header->free_hint) > first_unit)
        MOB_SEG_STORE_RELAXED(&view->seg_header->free_hint, (uint32_t)first_unit);
}

uint32_t mob_extent_largest(const struct mob_view *view, uint32_t *free_units_out)
{
    uint32_t run = 0, largest = 0, all = 0;
    for (uint32_t unit = 0; unit < view->units; unit++) {
        bool is_free = MOB_SEG_LOAD_RELAXED(&view->unit_map[unit].v) == 0;
        run = is_free ? run + 1 : 0;
        all += is_free;
        largest = run > largest ? run : largest;
    }
    *free_units_out = all;
    return largest;
}

uint64_t mob_arena_alloc(struct mob_arena_user *user, uint32_t entry_index, uint64_t size)
{
    const struct mob_view *view = user->view;
    struct mob_seg_entry *entry = &view->seg_table[entry_index];
    MOB_SEG_STORE(&entry->meta, 0);
    MOB_SEG_STORE(&entry->value[0], size);
    if (size <= MOB_SLAB_OBJECT_MAX)
        return mob_slab_alloc(user, entry, size);
    uint64_t units = (size - 1) / MOB_UNIT_BYTES + 1;
    if (units > view->units)
        return 0;
    uint32_t first = mob_extent_claim(view, (uint32_t)units, entry_index + 1, entry);
    if (first == UINT32_MAX && mob_slab_trim(user) > 0)
        first = mob_extent_claim(view, (uint32_t)units, entry_index + 1, entry);
    return first == UINT32_MAX ? 0 : view->arena_offset + (uint64_t)first * MOB_UNIT_BYTES;
}

void mob_arena_free(const struct mob_view *view, uint32_t entry_index)
{
    struct mob_seg_entry *entry = &view->seg_table[entry_index];
    uint64_t offset = MOB_SEG_LOAD(&entry->offset), size = MOB_SEG_LOAD(&entry->value[0]);
    if (offset == 0)
        return;
    uint64_t in_arena = offset - view->arena_offset;
    if (offset >= view->arena_offset && in_arena / MOB_UNIT_BYTES < view->units) {
        if (in_arena % MOB_UNIT_BYTES != 0)
            mob_slab_free(
                view, offset); /* a block is never at the start of a unit: the chunk's header is there */
        else if (size > 0)
            mob_extent_free(
                view, in_arena / MOB_UNIT_BYTES, (size - 1) / MOB_UNIT_BYTES + 1, entry_index + 1);
    }
    MOB_SEG_STORE(&entry->offset, 0);
}
