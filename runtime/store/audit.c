/* What clients may not have changed, looked at while the node runs. A client that writes where it should not
 * is found here or by what the pass reads (pass.c); until then the node takes every word of the segment for a
 * stranger's. Only what no honest client can bring about counts: sealed entries do not change but by the
 * node, which is who looks, and the header's constants not at all.
 */
#include "runtime/store/store_internal.h"

#include <string.h>

#include "common/base/log.h"

enum { TAG_STATE_NONE = 7 };

void mob_audit_begin(struct mob_store *store)
{
    memcpy(store->constants, store->view.seg_header, sizeof store->constants);
}

static bool entry_is_sound(const struct mob_view *view, uint32_t index)
{
    uint32_t tag = MOB_SEG_LOAD(&view->seg_tags[index].v), state = mob_tag_state(tag);
    uint64_t offset, size;
    if (state == TAG_STATE_NONE)
        return false;
    if ((state != MOB_TAG_SEALED && state != MOB_TAG_COMMITTED) || mob_tag_is_inline(tag))
        return true;
    return mob_entry_range(view, &view->seg_table[index], &offset, &size);
}

static bool table_is_sound(struct mob_store *store, uint32_t entries)
{
    const struct mob_view *view = &store->view;
    for (uint32_t i = 0; i < entries && i < view->entries; i++) {
        uint32_t index = store->audit_at++ & (view->entries - 1);
        if (entry_is_sound(view, index))
            continue;
        MOB_LOG_ERROR(
            "store", "segment_damaged", "entry=%u tag=%x", index, MOB_SEG_LOAD(&view->seg_tags[index].v));
        return false;
    }
    return true;
}

static bool header_is_sound(const struct mob_store *store)
{
    if (memcmp(store->constants, store->view.seg_header, sizeof store->constants) == 0)
        return true;
    MOB_LOG_ERROR("store", "segment_damaged", "why=\"its header was written\"");
    return false;
}

bool mob_store_audit(struct mob_store *store, uint32_t entries)
{
    if (!store->damaged && (!header_is_sound(store) || !table_is_sound(store, entries)))
        store->damaged = true;
    return !store->damaged;
}
