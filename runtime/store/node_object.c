/* Node side of objects: looking, making, sealing, committing. What makes room is in evict.c. */
#include "runtime/store/store_internal.h"

enum { TAG_RETRIES = 8 };

static struct mob_table_user node_user(struct mob_store *store)
{
    return (struct mob_table_user){.view = &store->view, .arena = &store->arena, .owner = MOB_OWNER_NODE};
}

/* CREATING -> SEALED. */
static enum mob_status seal_entry(struct mob_store *store, uint32_t index, uint32_t *tag_io)
{
    const struct mob_view *view = &store->view;
    if (!mob_tag_is_inline(*tag_io)) {
        struct mob_value_view value;
        enum mob_status status = mob_entry_value(view, &view->seg_table[index], &value);
        if (status != MOB_OK)
            return status;
    }
    uint32_t sealed = mob_tag_with(*tag_io, MOB_TAG_SEALED);
    if (MOB_SEG_CAS(&view->seg_tags[index].v, tag_io, sealed))
        *tag_io = sealed;
    return MOB_OK; /* lost against the client: sealed as well */
}

enum mob_status mob_store_seal_published(struct mob_store *store, struct mob_object_id id, uint32_t slot)
{
    uint32_t tag;
    uint32_t index = mob_table_find(&store->view, id, &tag);
    if (index == UINT32_MAX)
        return MOB_NOT_FOUND;
    bool due = mob_tag_state(tag) == MOB_TAG_CREATING && mob_tag_owner(tag) == slot;
    return due ? seal_entry(store, index, &tag) : MOB_OK;
}

bool mob_store_drop_published(struct mob_store *store, struct mob_object_id id, uint32_t slot)
{
    uint32_t tag;
    uint32_t index = mob_table_find(&store->view, id, &tag);
    if (index == UINT32_MAX || mob_tag_state(tag) != MOB_TAG_CREATING || mob_tag_owner(tag) != slot)
        return false;
    /* CLAIMED first: from there nobody seals it. */
    uint32_t claimed = mob_tag_with(tag, MOB_TAG_CLAIMED);
    if (!MOB_SEG_CAS(&store->view.seg_tags[index].v, &tag, claimed))
        return false;
    mob_entry_drop(store, index, claimed);
    return true;
}

bool mob_store_object_info(struct mob_store *store, struct mob_object_id id, struct mob_object_info *info_out)
{
    const struct mob_view *view = &store->view;
    uint32_t tag;
    uint32_t index = mob_table_find(view, id, &tag);
    if (index == UINT32_MAX)
        return mob_spill_info(store->spill, id, info_out);
    const struct mob_seg_entry *entry = &view->seg_table[index];
    uint32_t state = mob_tag_state(tag), meta = MOB_SEG_LOAD(&entry->meta);
    struct mob_object_info info = {
        .inline_value = mob_tag_is_inline(tag),
        .sealed = state >= MOB_TAG_SEALED,
        .committed = state == MOB_TAG_COMMITTED || state == MOB_TAG_EVICT_COMMITTED,
        .slot_owner = mob_tag_owner(tag),
    };
    if (info.inline_value) {
        uint64_t words[3];
        for (int i = 0; i < 3; i++)
            words[i] = MOB_SEG_LOAD(&entry->value[i]);
        uint32_t bytes = meta >> 8;
        info.size = bytes > MOB_OBJECT_INLINE_MAX ? MOB_OBJECT_INLINE_MAX : bytes;
        info.hash = mob_hash128(words, info.size);
        info.type = (enum mob_value_type)(meta & 0xffu);
    } else {
        struct mob_value_view value;
        info.size = MOB_SEG_LOAD(&entry->value[0]);
        if (info.sealed && mob_entry_value(view, entry, &value) == MOB_OK) {
            info.type = value.type;
            info.hash = mob_entry_hash(entry, &value);
        }
    }
    *info_out = info;
    return true;
}

enum mob_status mob_store_object_bytes(struct mob_store *store, struct mob_object_id id, bool restore,
    enum mob_value_type *type_out, const uint8_t **bytes_out, uint64_t *size_out)
{
    const struct mob_view *view = &store->view;
    uint32_t tag;
    uint32_t index = mob_table_find(view, id, &tag);
    if (index == UINT32_MAX && restore) {
        enum mob_status status = mob_spill_restore(store, id);
        if (status != MOB_OK)
            return status;
        index = mob_table_find(view, id, &tag);
    }
    if (index == UINT32_MAX)
        return MOB_NOT_FOUND;
    if (mob_tag_state(tag) < MOB_TAG_SEALED)
        return MOB_NOT_READY;
    struct mob_seg_entry *entry = &view->seg_table[index];
    uint32_t meta = MOB_SEG_LOAD(&entry->meta);
    uint64_t offset, size = meta >> 8;
    MOB_SEG_STORE_RELAXED(&entry->used_epoch, MOB_SEG_LOAD_RELAXED(&view->seg_header->epoch));
    if (mob_tag_is_inline(tag)) {
        *bytes_out = (const uint8_t *)entry->value;
        *type_out = (enum mob_value_type)(meta & 0xffu);
        size = size > MOB_OBJECT_INLINE_MAX ? MOB_OBJECT_INLINE_MAX : size;
    } else {
        if (!mob_entry_range(view, entry, &offset, &size))
            return MOB_CORRUPT;
        *bytes_out = view->base + offset;
        *type_out = (enum mob_value_type)view->base[offset + offsetof(struct mob_value_header, type)];
    }
    *size_out = size;
    return MOB_OK;
}

enum mob_status mob_node_create(struct mob_store *store, struct mob_object_id id, uint64_t size,
    struct mob_object_ref *ref_out, void **bytes_out)
{
    struct mob_table_user user = node_user(store);
    enum mob_status status = mob_table_create(&user, id, size, ref_out, bytes_out);
    if (status != MOB_STORE_FULL)
        return status;
    uint64_t room;
    status = mob_store_make_room(store, &id, size, &room);
    return status == MOB_OK ? mob_table_create(&user, id, size, ref_out, bytes_out) : status;
}

static enum mob_status node_put_small(struct mob_store *store, struct mob_object_id id,
    enum mob_value_type type, const void *bytes, uint32_t size, struct mob_object_ref *ref_out)
{
    struct mob_table_user user = node_user(store);
    enum mob_status status = mob_table_put_small(&user, id, type, bytes, size, ref_out);
    if (status != MOB_STORE_FULL)
        return status;
    uint64_t room;
    status = mob_store_make_room(store, &id, 0, &room);
    return status == MOB_OK ? mob_table_put_small(&user, id, type, bytes, size, ref_out) : status;
}

enum mob_status mob_store_object_put(struct mob_store *store, struct mob_object_id id,
    enum mob_value_type type, bool small, const void *bytes, uint64_t size)
{
    struct mob_object_ref ref;
    enum mob_status status;
    if (small) {
        if (size > MOB_OBJECT_INLINE_MAX)
            return MOB_TOO_LARGE;
        status = node_put_small(store, id, type, bytes, (uint32_t)size, &ref);
    } else {
        void *at;
        status = mob_node_create(store, id, size, &ref, &at);
        if (status == MOB_OK)
            MOB_SEG_COPY(at, bytes, size);
    }
    if (status != MOB_OK)
        return status;
    uint32_t tag = MOB_SEG_LOAD(&store->view.seg_tags[ref.entry].v);
    status = seal_entry(store, ref.entry, &tag);
    if (status != MOB_OK)
        mob_entry_drop(store, ref.entry, tag);
    return status;
}

void mob_store_object_fetch(const struct mob_store *store, struct mob_object_id id)
{
    const struct mob_view *view = &store->view;
    uint32_t index = mob_key_index(view, mob_object_key(view, id), 0, 0);
    __builtin_prefetch(&view->seg_tags[index], 1);
    __builtin_prefetch(&view->seg_table[index]);
    __builtin_prefetch(&store->entry_flags[index], 1);
}

/* Every so many commits, or so much of the arena, a new epoch begins: what was not used since is older. */
static void count_commit(struct mob_store *store, uint32_t index, uint32_t tag)
{
    const struct mob_view *view = &store->view;
    store->committed++;
    store->commits_in_epoch++;
    if (!mob_tag_is_inline(tag)) {
        uint64_t size = MOB_SEG_LOAD_RELAXED(&view->seg_table[index].value[0]);
        uint64_t per_entry = (uint64_t)view->units * MOB_UNIT_BYTES / view->entries + 1;
        store->commits_in_epoch += size / per_entry;
    }
    if (store->commits_in_epoch >= view->entries / 64)
        mob_epoch_advance(store);
}

/* Entry of a sealed object. Notes about an entry are kept only for these, and only these are dropped: others
 * are being written by a client, which may still abort them, and the next object there would inherit the
 * notes. */
static uint32_t sealed_entry(struct mob_store *store, struct mob_object_id id, uint32_t *tag_out)
{
    uint32_t index = mob_table_find(&store->view, id, tag_out);
    return index != UINT32_MAX && mob_tag_state(*tag_out) == MOB_TAG_CREATING ? UINT32_MAX : index;
}

static void drop_if_unwanted(struct mob_store *store, uint32_t index)
{
    uint8_t flags = store->entry_flags[index];
    uint32_t tag = MOB_SEG_LOAD(&store->view.seg_tags[index].v);
    if ((flags & (MOB_NODE_UNWANTED | MOB_NODE_REMAKEABLE | MOB_NODE_KEEP)) ==
            (MOB_NODE_UNWANTED | MOB_NODE_REMAKEABLE) &&
        mob_tag_state(tag) == MOB_TAG_COMMITTED)
        (void)mob_evict_unpinned(store, index); /* pinned: it goes when there is need of room */
}

void mob_store_object_unwanted(struct mob_store *store, struct mob_object_id id)
{
    uint32_t tag;
    uint32_t index = sealed_entry(store, id, &tag);
    if (index == UINT32_MAX)
        return;
    mob_sweep_make_old(store, index);
    if (mob_tag_is_inline(tag))
        return; /* the sweep takes these first, many at a time; one by one is not worth it */
    store->entry_flags[index] |= MOB_NODE_UNWANTED;
    drop_if_unwanted(store, index);
}

void mob_store_object_free(struct mob_store *store, struct mob_object_id id)
{
    uint32_t tag;
    uint32_t index = sealed_entry(store, id, &tag);
    bool there = index != UINT32_MAX;
    if (there && (store->entry_flags[index] & MOB_NODE_KEEP))
        return;
    (void)mob_spill_forget(store->spill, id);
    if (!there || mob_evict_unpinned(store, index))
        return;
    /* Somebody still reads it: it goes when there is need of room. */
    mob_sweep_make_old(store, index);
    store->entry_flags[index] |= MOB_NODE_FREED;
}

void mob_store_object_committed(struct mob_store *store, struct mob_object_id id, bool remakeable)
{
    const struct mob_view *view = &store->view;
    uint32_t tag;
    uint32_t index = mob_table_find(view, id, &tag);
    bool became = false;
    if (index == UINT32_MAX) {
        mob_spill_committed(store->spill, id, remakeable);
        return;
    }
    for (int i = 0; i < TAG_RETRIES; i++) {
        uint32_t state = mob_tag_state(tag);
        if (state == MOB_TAG_CREATING) {
            if (seal_entry(store, index, &tag) != MOB_OK)
                return;
            continue;
        }
        if (state != MOB_TAG_SEALED)
            break;
        if (MOB_SEG_CAS(&view->seg_tags[index].v, &tag, mob_tag_with(tag, MOB_TAG_COMMITTED))) {
            count_commit(store, index, tag);
            became = true;
            break;
        }
    }
    if (remakeable)
        store->entry_flags[index] |= MOB_NODE_REMAKEABLE;
    else
        store->entry_flags[index] &= (uint8_t)~MOB_NODE_REMAKEABLE;
    if (store->entry_flags[index] & MOB_NODE_UNWANTED)
        drop_if_unwanted(store, index);
    if (became)
        mob_sweep_committed(store, index);
}

/* The usual case of mob_store_object_committed, of what can be made again. */
static bool commit_sealed(struct mob_store *store, struct mob_found found)
{
    uint32_t tag = found.tag;
    if (found.index == UINT32_MAX || mob_tag_state(tag) != MOB_TAG_SEALED ||
        (store->entry_flags[found.index] & MOB_NODE_UNWANTED) ||
        !MOB_SEG_CAS(&store->view.seg_tags[found.index].v, &tag, mob_tag_with(tag, MOB_TAG_COMMITTED)))
        return false;
    count_commit(store, found.index, tag);
    store->entry_flags[found.index] |= MOB_NODE_REMAKEABLE;
    mob_sweep_committed(store, found.index);
    return true;
}

void mob_store_results_committed(struct mob_store *store, struct mob_task_id first, uint32_t count)
{
    struct mob_object_id id = {.task = first};
    while (count > 0) {
        struct mob_found found[MOB_GROUP_ENTRIES];
        uint32_t some = mob_table_find_run(&store->view, id, count, found);
        for (uint32_t i = 0; i < some; i++, id.task.index++)
            if (!commit_sealed(store, found[i]))
                mob_store_object_committed(store, id, true);
        count -= some;
    }
}

void mob_store_object_keep(struct mob_store *store, struct mob_object_id id, bool keep)
{
    uint32_t tag;
    uint32_t index = sealed_entry(store, id, &tag);
    if (index == UINT32_MAX)
        mob_spill_keep(store->spill, id, keep);
    else if (keep)
        store->entry_flags[index] |= MOB_NODE_KEEP;
    else {
        store->entry_flags[index] &= (uint8_t)~MOB_NODE_KEEP;
        drop_if_unwanted(store, index);
    }
}

enum mob_status mob_store_object_delete(struct mob_store *store, struct mob_object_id id)
{
    const struct mob_view *view = &store->view;
    uint32_t tag;
    uint32_t index = mob_table_find(view, id, &tag);
    if (index == UINT32_MAX)
        return mob_spill_forget(store->spill, id) ? MOB_OK : MOB_NOT_FOUND;
    if (mob_tag_state(tag) < MOB_TAG_SEALED)
        return MOB_NOT_READY;
    if (!mob_evict_unpinned(store, index))
        return MOB_AGAIN;
    mob_spill_forget(store->spill, id);
    return MOB_OK;
}
