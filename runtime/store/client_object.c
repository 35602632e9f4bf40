/* Client side of objects: create, seal, get, release; no message to anyone.
 *
 * A pin is a hazard pointer: the client writes (entry, generation) into its journal, then looks again whether
 * the entry is still that object. The node marks victims EVICT_*, then looks into all journals. Both are
 * stores followed by a look, all in the total order, so at least one of the two sees the other. A pin needs
 * no undoing when its client dies: the journal goes with it.
 */
#include "runtime/store/store_internal.h"

enum { MAP_AHEAD_BYTES = 16 * 4096 };

enum { GET_RETRIES = 64 };

static void begin_create(struct mob_store_client *client)
{
    MOB_SEG_STORE(&client->seg_client->creates_begun, ++client->creates_begun);
}

static void end_create(struct mob_store_client *client)
{
    MOB_SEG_STORE(&client->seg_client->creates_ended, ++client->creates_ended);
}

enum mob_status mob_store_put_small(struct mob_store_client *client, struct mob_object_id id,
    enum mob_value_type type, const void *payload, uint32_t bytes, struct mob_object_ref *ref_out)
{
    begin_create(client);
    enum mob_status status = mob_table_put_small(&client->table, id, type, payload, bytes, ref_out);
    if (status != MOB_OK)
        end_create(client);
    return status;
}

/* A write maps one warm page of the segment into this process, a read maps the 64 KiB around it (the kernel's
 * fault-around), for the same price. So room of some size is read here and there before it is written. */
static void map_ahead(const volatile uint8_t *bytes, uint64_t size)
{
    if (size < MAP_AHEAD_BYTES)
        return;
    for (uint64_t at = 0; at < size; at += MAP_AHEAD_BYTES)
        (void)bytes[at];
}

enum mob_status mob_store_object_create(struct mob_store_client *client, struct mob_object_id id,
    uint64_t size, struct mob_object_ref *ref_out, void **bytes_out)
{
    begin_create(client);
    enum mob_status status = mob_table_create(&client->table, id, size, ref_out, bytes_out);
    if (status != MOB_OK)
        end_create(client);
    else
        map_ahead(*bytes_out, size);
    return status;
}

/* Whether `ref` is still this client's unsealed object; its tag then. */
static bool own_creating(const struct mob_store_client *client, struct mob_object_ref ref, uint32_t *tag_out)
{
    const struct mob_view *view = &client->view;
    if (ref.entry >= view->entries || MOB_SEG_LOAD(&view->seg_table[ref.entry].generation) != ref.generation)
        return false;
    uint32_t tag = MOB_SEG_LOAD(&view->seg_tags[ref.entry].v);
    *tag_out = tag;
    return mob_tag_state(tag) == MOB_TAG_CREATING && mob_tag_owner(tag) == client->slot;
}

void mob_store_object_abort(struct mob_store_client *client, struct mob_object_ref ref)
{
    uint32_t tag;
    /* CLAIMED first: from there the node does not seal it any more. */
    if (own_creating(client, ref, &tag) &&
        MOB_SEG_CAS(&client->view.seg_tags[ref.entry].v, &tag, mob_tag_with(tag, MOB_TAG_CLAIMED)))
        mob_table_abort(&client->view, ref.entry);
    end_create(client);
}

enum mob_status mob_store_object_seal(struct mob_store_client *client, struct mob_object_ref ref)
{
    const struct mob_view *view = &client->view;
    uint32_t tag;
    struct mob_value_view value;
    /* Once published, the node may seal it, and drop it, at any moment, even while this looks. So nothing is
     * written to the entry here; what a reader needs to know stands in the value's own header. */
    if (own_creating(client, ref, &tag)) {
        enum mob_status status =
            mob_tag_is_inline(tag) ? MOB_OK : mob_entry_value(view, &view->seg_table[ref.entry], &value);
        if (status != MOB_OK && own_creating(client, ref, &tag))
            return status; /* not a value: fix it or abort */
        if (status == MOB_OK)
            MOB_SEG_CAS(&view->seg_tags[ref.entry].v, &tag, mob_tag_with(tag, MOB_TAG_SEALED));
    }
    end_create(client);
    return MOB_OK;
}

static void note_use(const struct mob_view *view, struct mob_seg_entry *entry)
{
    uint32_t epoch = MOB_SEG_LOAD_RELAXED(&view->seg_header->epoch);
    if (MOB_SEG_LOAD_RELAXED(&entry->used_epoch) != epoch)
        MOB_SEG_STORE_RELAXED(&entry->used_epoch, epoch);
}

/* Whether the entry is still the object that was found: same generation, and not on its way out. */
static bool still_there(const struct mob_view *view, uint32_t index, uint32_t generation, uint32_t tag)
{
    uint32_t now = MOB_SEG_LOAD_SC(&view->seg_tags[index].v);
    if (MOB_SEG_LOAD_SC(&view->seg_table[index].generation) != generation)
        return false;
    /* SEALED may have become COMMITTED. */
    return (now & 0x8fffffffu) == (tag & 0x8fffffffu) &&
        (mob_tag_state(now) == MOB_TAG_SEALED || mob_tag_state(now) == MOB_TAG_COMMITTED);
}

static bool id_matches(const struct mob_seg_entry *entry, struct mob_object_id id)
{
    return mob_object_id_eq(mob_entry_id(entry), id);
}

/* Copy and look again, no pin. */
static bool get_inline(struct mob_store_client *client, struct mob_object_id id, uint32_t index, uint32_t tag,
    enum mob_value_type *type_out, void *small, uint64_t *size_out)
{
    struct mob_seg_entry *entry = &client->view.seg_table[index];
    uint32_t generation = MOB_SEG_LOAD(&entry->generation);
    if (!id_matches(entry, id))
        return false;
    uint64_t words[3];
    for (int i = 0; i < 3; i++)
        words[i] = MOB_SEG_LOAD(&entry->value[i]);
    uint32_t meta = MOB_SEG_LOAD(&entry->meta), bytes = meta >> 8;
    if (!still_there(&client->view, index, generation, tag))
        return false;
    bytes = bytes > MOB_OBJECT_INLINE_MAX ? MOB_OBJECT_INLINE_MAX : bytes;
    note_use(&client->view, entry);
    memcpy(small, words, MOB_OBJECT_INLINE_MAX);
    *type_out = (enum mob_value_type)(meta & 0xffu);
    *size_out = bytes;
    return true;
}

static void unpin(struct mob_store_client *client, uint32_t journal)
{
    MOB_SEG_STORE(&client->seg_pins[journal].v, 0);
    client->pin_stack[client->pins_free++] = journal;
}

static bool get_pinned(struct mob_store_client *client, struct mob_object_id id, uint32_t index, uint32_t tag,
    enum mob_value_type *type_out, const void **bytes_out, uint64_t *size_out, struct mob_object_ref *pin_out)
{
    const struct mob_view *view = &client->view;
    struct mob_seg_entry *entry = &view->seg_table[index];
    uint32_t generation = MOB_SEG_LOAD(&entry->generation);
    uint32_t journal = client->pin_stack[--client->pins_free];
    if (journal >= client->pins_top) {
        client->pins_top = journal + 1;
        MOB_SEG_STORE(&client->seg_client->pins_top, client->pins_top);
    }
    MOB_SEG_XCHG(&client->seg_pins[journal].v, (uint64_t)generation << 32 | (index + 1));
    uint64_t offset, size;
    if (!id_matches(entry, id) || !mob_entry_range(view, entry, &offset, &size) ||
        !still_there(view, index, generation, tag)) {
        unpin(client, journal);
        return false;
    }
    note_use(view, entry);
    *type_out = (enum mob_value_type)view->base[offset + offsetof(struct mob_value_header, type)];
    *bytes_out = view->base + offset;
    *size_out = size;
    *pin_out = (struct mob_object_ref){.entry = index, .generation = generation, .journal = journal};
    return true;
}

enum mob_status mob_store_object_get(struct mob_store_client *client, struct mob_object_id id,
    bool committed_only, enum mob_value_type *type_out, void *small, const void **bytes_out,
    uint64_t *size_out, struct mob_object_ref *pin_out)
{
    for (int i = 0; i < GET_RETRIES; i++) {
        uint32_t tag;
        uint32_t index = mob_table_find(&client->view, id, &tag);
        if (index == UINT32_MAX)
            return MOB_NOT_FOUND;
        uint32_t state = mob_tag_state(tag);
        if (state == MOB_TAG_CREATING || (committed_only && state == MOB_TAG_SEALED))
            return MOB_NOT_READY;
        if (state != MOB_TAG_SEALED && state != MOB_TAG_COMMITTED)
            continue; /* the node is looking for pins: it goes or stays in a moment */
        if (mob_tag_is_inline(tag)) {
            if (get_inline(client, id, index, tag, type_out, small, size_out)) {
                *pin_out = (struct mob_object_ref){.entry = UINT32_MAX, .journal = UINT32_MAX};
                return MOB_OK;
            }
            continue;
        }
        if (client->pins_free == 0)
            return MOB_QUEUE_FULL;
        if (get_pinned(client, id, index, tag, type_out, bytes_out, size_out, pin_out))
            return MOB_OK;
    }
    return MOB_NOT_FOUND; /* going: whoever asks the node gets it back */
}

void mob_store_object_release(struct mob_store_client *client, struct mob_object_ref pin)
{
    if (pin.journal < client->pins_max && pin.entry != UINT32_MAX && client->pins_free < client->pins_max)
        unpin(client, pin.journal);
}

bool mob_store_object_hash(
    const struct mob_store_client *client, struct mob_object_ref pin, struct mob_hash128 *hash_out)
{
    struct mob_value_view value;
    if (pin.entry >= client->view.entries ||
        mob_entry_value(&client->view, &client->view.seg_table[pin.entry], &value) != MOB_OK)
        return false;
    *hash_out = mob_entry_hash(&client->view.seg_table[pin.entry], &value);
    return (hash_out->lo | hash_out->hi) != 0;
}

void mob_store_rest(struct mob_store_client *client)
{
    enum { CHUNKS_MAX = 64 }; /* with more of them it is no small client, and looking at all takes long */
    uint32_t chunks = 0;
    for (int i = 0; i < MOB_CLASS_COUNT; i++)
        chunks += client->arena.classes[i].count;
    if (chunks > 0 && chunks <= CHUNKS_MAX)
        mob_slab_trim(&client->arena);
}
