/* The object table: open addressing over a bounded window, no locks, no tombstones.
 *
 * An id has a home group of 8 tags and lies in one of the MOB_WINDOW_GROUPS groups from there on. The home
 * group's word holds how far any entry of that home ever lay (reach: how far a look-up must scan) and a
 * version that every insertion of that home changes by compare-and-set. Two creators of one id both take a
 * free tag, but only one of them gets the word from the version that it scanned under; the other scans again,
 * finds the winner and gives its entry back.
 */
#include "runtime/store/store_internal.h"

#define REACH(home_word) ((home_word)&0xffu)

enum { SCAN_RETRIES = 16, CLAIM_RETRIES = 1 << 16 };

/* Where a run of neighbours begins, and the place of one among them. */
struct run_place {
    uint64_t hash; /* of the run */
    uint32_t home; /* its first group, before the mask */
    uint32_t place;
};

/* Results of siblings come in runs, and so do the returns of one task. 64 of them share a page of entries,
 * and 8 of those a group; where in the page a run begins differs, since most runs are short.
 *
 * A stream, or a task with many returns, goes through the pages in steps of its own: an odd one comes to each
 * page once before it comes to any again. Were each run's page drawn by itself, a third of the runs would
 * find theirs taken in a table as full as the sweep keeps it, though by others of the same stream. */
static inline struct run_place run_of(struct mob_object_id id)
{
    uint64_t hash;
    uint32_t number;
    if (id.slot == 0) {
        hash = mob_stream_mix(id.task.stream);
        number = id.task.index;
    } else {
        hash = mob_task_id_mix(id.task) + 1;
        number = id.slot;
    }
    hash ^= hash >> 32;
    hash *= 0x94d049bb133111ebull; /* its upper half depends on every bit */
    uint32_t run = number / MOB_RUN_ENTRIES, step = (uint32_t)(hash >> 8) | 1u;
    return (struct run_place){
        .hash = hash + run * 0xd6e8feb86659fd93ull,
        .home = (uint32_t)(hash >> 36) + run * step * MOB_RUN_GROUPS,
        .place = number % MOB_RUN_ENTRIES,
    };
}

static inline uint32_t fingerprint_of(struct run_place at)
{
    uint32_t fingerprint = (uint32_t)((at.hash >> 24) + at.place * 0x1357u) & 0xffffu;
    return fingerprint == 0 ? 1 : fingerprint;
}

static inline uint32_t group_of(const struct mob_view *view, struct run_place at)
{
    uint32_t group_of_run = (at.home + at.place / MOB_GROUP_ENTRIES) % MOB_RUN_GROUPS;
    return ((at.home & ~(MOB_RUN_GROUPS - 1)) | group_of_run) & view->group_mask;
}

static inline struct mob_object_key key_of(const struct mob_view *view, struct mob_object_id id)
{
    struct run_place at = run_of(id);
    return (struct mob_object_key){
        .group = group_of(view, at),
        .position = at.place % MOB_GROUP_ENTRIES,
        .fingerprint = fingerprint_of(at),
    };
}

struct mob_object_key mob_object_key(const struct mob_view *view, struct mob_object_id id)
{
    return key_of(view, id);
}

struct packed_id {
    uint64_t a, b;
    uint32_t slot;
};

/* The index is the upper half of `b`. */
#define INDEX_ONE (1ull << 32)
_Static_assert(offsetof(struct mob_task_id, index) == 12, "packed ids of neighbours count up");

static struct packed_id pack(struct mob_object_id id)
{
    struct packed_id p = {.slot = id.slot};
    memcpy(&p.a, &id.task, 8);
    memcpy(&p.b, (const uint8_t *)&id.task + 8, 8);
    return p;
}

struct mob_object_id mob_entry_id(const struct mob_seg_entry *entry)
{
    uint64_t words[2] = {MOB_SEG_LOAD(&entry->id_a), MOB_SEG_LOAD(&entry->id_b)};
    struct mob_object_id id;
    memcpy(&id.task, words, sizeof words);
    id.slot = MOB_SEG_LOAD(&entry->id_slot);
    return id;
}

/* Whether the entry holds `id` under a tag with that fingerprint; *tag_io follows the tag. Tag and generation
 * are read again after the id, so an id that was torn by a re-use never matches. */
static inline bool entry_holds(
    const struct mob_view *view, uint32_t index, const struct packed_id *id, uint32_t *tag_io)
{
    const struct mob_seg_entry *entry = &view->seg_table[index];
    for (int i = 0; i < SCAN_RETRIES; i++) {
        uint32_t generation = MOB_SEG_LOAD(&entry->generation);
        if (MOB_SEG_LOAD(&entry->id_b) != id->b || MOB_SEG_LOAD(&entry->id_a) != id->a ||
            MOB_SEG_LOAD(&entry->id_slot) != id->slot)
            return false;
        uint32_t tag = MOB_SEG_LOAD(&view->seg_tags[index].v);
        if (tag == *tag_io && MOB_SEG_LOAD_RELAXED(&entry->generation) == generation)
            return true;
        if (((tag ^ *tag_io) & 0xffffu) != 0)
            return false;
        *tag_io = tag;
    }
    return false; /* only a client that writes at random gets here */
}

/* A million of them in 0.1 ms. */
uint32_t mob_table_used(const struct mob_view *view)
{
    return view->entries - mob_tags_unused(view->seg_tags, view->entries);
}

/* Tags that are taken, and those of them with the inline bit. Statistics: a million of them in 0.2 ms. */
void mob_table_count(const struct mob_view *view, uint32_t *used_out, uint32_t *inline_out)
{
    uint32_t used = 0, inlined = 0;
    for (uint32_t base = 0; base < view->entries; base += MOB_GROUP_ENTRIES) {
        uint32_t unused = mob_group_matches(&view->seg_tags[base], 0, UINT32_MAX);
        used += MOB_GROUP_ENTRIES - (uint32_t)__builtin_popcount(unused);
        if (unused != 0xff)
            inlined +=
                (uint32_t)__builtin_popcount(mob_group_matches(&view->seg_tags[base], 1u << 31, 1u << 31));
    }
    *used_out = used;
    *inline_out = inlined;
}

static inline uint32_t group_base(const struct mob_view *view, struct mob_object_key key, uint32_t group)
{
    return mob_key_group(view, key, group) * MOB_GROUP_ENTRIES;
}

static inline uint32_t scan(const struct mob_view *view, struct mob_object_key key,
    const struct packed_id *id, uint32_t reach, bool claimed_too, uint32_t not_this, uint32_t *tag_out)
{
    for (uint32_t group = 0; group <= reach && group < MOB_WINDOW_GROUPS; group++) {
        uint32_t base = group_base(view, key, group);
        uint32_t hits = mob_group_matches(&view->seg_tags[base], key.fingerprint, 0xffffu);
        for (; hits != 0; hits &= hits - 1) {
            uint32_t index = base + (uint32_t)__builtin_ctz(hits);
            uint32_t tag = MOB_SEG_LOAD(&view->seg_tags[index].v);
            if ((tag & 0xffffu) != key.fingerprint || index == not_this ||
                !entry_holds(view, index, id, &tag))
                continue;
            if (mob_tag_state(tag) == MOB_TAG_CLAIMED && !claimed_too)
                continue;
            *tag_out = tag;
            return index;
        }
    }
    return UINT32_MAX;
}

/* For writing: the line comes from the other core as ours at once. A processor that does not know it does
 * nothing. */
static inline void fetch_to_write(const void *at)
{
#ifdef __x86_64__
    __asm__ volatile("prefetchw %0" : : "m"(*(const char *)at));
#else
    __builtin_prefetch(at, 1);
#endif
}

/* Whoever comes to the first of a group of siblings soon comes to the next group: fetch what that takes
 * meanwhile. Not for the first sibling of all: of nested tasks most have one or two, and the ten lines would
 * be fetched for nobody, by each of the processes that look one up. */
static inline void prefetch_run(
    const struct mob_view *view, struct mob_object_id id, struct mob_object_key key, bool to_write)
{
    if (key.position != 0 || (id.slot == 0 && id.task.index == 0))
        return;
    if (id.slot == 0)
        id.task.index += MOB_GROUP_ENTRIES;
    else
        id.slot += MOB_GROUP_ENTRIES;
    uint32_t next = key_of(view, id).group;
    if (to_write)
        fetch_to_write(&view->seg_home[next]);
    else
        __builtin_prefetch(&view->seg_home[next]);
    fetch_to_write(&view->seg_tags[next * MOB_GROUP_ENTRIES]);
    for (uint32_t i = 0; i < MOB_GROUP_ENTRIES; i++) {
        const struct mob_seg_entry *entry = &view->seg_table[next * MOB_GROUP_ENTRIES + i];
        if (to_write)
            fetch_to_write(entry);
        else
            __builtin_prefetch(entry);
    }
}

uint32_t mob_table_find(const struct mob_view *view, struct mob_object_id id, uint32_t *tag_out)
{
    struct mob_object_key key = key_of(view, id);
    struct packed_id packed = pack(id);
    prefetch_run(view, id, key, false);
    /* Most lie where they like to. */
    uint32_t index = mob_key_index(view, key, 0, 0);
    uint32_t tag = MOB_SEG_LOAD(&view->seg_tags[index].v);
    if ((tag & 0xffffu) == key.fingerprint && mob_tag_state(tag) != MOB_TAG_CLAIMED &&
        entry_holds(view, index, &packed, &tag) && mob_tag_state(tag) != MOB_TAG_CLAIMED) {
        *tag_out = tag;
        return index;
    }
    uint32_t home = MOB_SEG_LOAD(&view->seg_home[key.group].v);
    return scan(view, key, &packed, REACH(home), false, UINT32_MAX, tag_out);
}

uint32_t mob_table_find_run(const struct mob_view *view, struct mob_object_id id, uint32_t count,
    struct mob_found found_out[MOB_GROUP_ENTRIES])
{
    struct run_place at = run_of(id);
    struct mob_object_key key = {group_of(view, at), at.place % MOB_GROUP_ENTRIES, 0};
    prefetch_run(view, id, key, false);
    uint32_t base = mob_key_index(view, key, 0, 0), left = MOB_GROUP_ENTRIES - key.position;
    count = count < left ? count : left;
    struct packed_id packed = pack(id);
    for (uint32_t i = 0; i < count; i++, at.place++, packed.b += INDEX_ONE) {
        uint32_t tag = MOB_SEG_LOAD(&view->seg_tags[base + i].v);
        bool there = (tag & 0xffffu) == fingerprint_of(at) && mob_tag_state(tag) != MOB_TAG_CLAIMED &&
            entry_holds(view, base + i, &packed, &tag) && mob_tag_state(tag) != MOB_TAG_CLAIMED;
        found_out[i] = (struct mob_found){there ? base + i : UINT32_MAX, tag};
    }
    return count;
}

/* Take the free tag nearest to the preferred place. Without a fingerprint: what the entry still says belongs
 * to the object before. */
static uint32_t take_free_tag(
    const struct mob_view *view, struct mob_object_key key, uint32_t owner, uint32_t *distance_out)
{
    uint32_t wanted = group_base(view, key, 0) + key.position, none = 0;
    if (MOB_SEG_LOAD_RELAXED(&view->seg_tags[wanted].v) == 0 &&
        MOB_SEG_CAS(&view->seg_tags[wanted].v, &none, MOB_TAG(MOB_TAG_CLAIMED, owner, 0))) {
        *distance_out = 0;
        return wanted;
    }
    for (uint32_t group = 0; group < MOB_WINDOW_GROUPS; group++) {
        uint32_t base = group_base(view, key, group);
        uint32_t hits = mob_group_matches(&view->seg_tags[base], 0, UINT32_MAX);
        while (hits != 0) {
            uint32_t at = hits >> key.position & 1u ? key.position : (uint32_t)__builtin_ctz(hits);
            uint32_t tag = 0;
            if (MOB_SEG_CAS(&view->seg_tags[base + at].v, &tag, MOB_TAG(MOB_TAG_CLAIMED, owner, 0))) {
                *distance_out = group;
                return base + at;
            }
            hits &= ~(1u << at);
        }
    }
    return UINT32_MAX;
}

/* Take an entry for `id`, as the only one of that id: MOB_OK (tag CREATING), MOB_EXISTS, MOB_STORE_FULL. */
static enum mob_status claim_entry(const struct mob_view *view, struct mob_object_id id, uint32_t owner,
    bool is_inline, struct mob_object_ref *ref_out)
{
    struct mob_object_key key = key_of(view, id);
    struct packed_id packed = pack(id);
    prefetch_run(view, id, key, true);
    struct mob_seg_word *home = &view->seg_home[key.group];
    uint32_t home_word = MOB_SEG_LOAD_SC(&home->v);
    uint32_t tag, distance;
    if (scan(view, key, &packed, REACH(home_word), true, UINT32_MAX, &tag) != UINT32_MAX)
        return MOB_EXISTS;
    uint32_t index = take_free_tag(view, key, owner, &distance);
    if (index == UINT32_MAX)
        return MOB_STORE_FULL;

    /* The generation first, and each store a release: who sees anything of the new object sees the new
     * generation. */
    struct mob_seg_entry *entry = &view->seg_table[index];
    uint32_t generation = MOB_SEG_LOAD_RELAXED(&entry->generation) + 1;
    MOB_SEG_STORE(&entry->generation, generation);
    MOB_SEG_STORE(&entry->id_a, packed.a);
    MOB_SEG_STORE(&entry->id_b, packed.b);
    MOB_SEG_STORE(&entry->id_slot, packed.slot);
    MOB_SEG_STORE(&entry->used_epoch, MOB_SEG_LOAD_RELAXED(&view->seg_header->epoch));
    MOB_SEG_STORE(&view->seg_tags[index].v, MOB_TAG(MOB_TAG_CLAIMED, owner, key.fingerprint));
    for (int i = 0; i < CLAIM_RETRIES; i++) {
        uint32_t reach = REACH(home_word) > distance ? REACH(home_word) : distance;
        uint32_t changed = (home_word & ~0xffu) + 0x100u + reach;
        if (MOB_SEG_CAS(&home->v, &home_word, changed)) {
            uint32_t state = MOB_TAG_CREATING | (is_inline ? MOB_TAG_INLINE : 0u);
            MOB_SEG_STORE(&view->seg_tags[index].v, MOB_TAG(state, owner, key.fingerprint));
            *ref_out =
                (struct mob_object_ref){.entry = index, .generation = generation, .journal = UINT32_MAX};
            return MOB_OK;
        }
        if (scan(view, key, &packed, REACH(home_word), true, index, &tag) != UINT32_MAX)
            break;
    }
    MOB_SEG_STORE(&view->seg_tags[index].v, 0);
    return MOB_EXISTS;
}

bool mob_entry_range(
    const struct mob_view *view, const struct mob_seg_entry *entry, uint64_t *offset_out, uint64_t *size_out)
{
    uint64_t offset = MOB_SEG_LOAD(&entry->offset), size = MOB_SEG_LOAD(&entry->value[0]);
    if (offset < view->arena_offset || offset >= view->bytes || size > view->bytes - offset ||
        size < MOB_VALUE_HEADER_BYTES || offset % MOB_VALUE_ALIGN != 0)
        return false;
    *offset_out = offset;
    *size_out = size;
    return true;
}

enum mob_status mob_entry_value(
    const struct mob_view *view, const struct mob_seg_entry *entry, struct mob_value_view *value_out)
{
    uint64_t offset, size;
    if (!mob_entry_range(view, entry, &offset, &size))
        return MOB_CORRUPT;
    return mob_value_open(view->base + offset, size, value_out);
}

struct mob_hash128 mob_entry_hash(const struct mob_seg_entry *entry, const struct mob_value_view *value)
{
    if (MOB_SEG_LOAD(&entry->meta) != MOB_META_HASHED)
        return value->hash;
    return (struct mob_hash128){MOB_SEG_LOAD(&entry->value[1]), MOB_SEG_LOAD(&entry->value[2])};
}

void mob_entry_set_hash(struct mob_seg_entry *entry, struct mob_hash128 hash)
{
    MOB_SEG_STORE(&entry->value[1], hash.lo);
    MOB_SEG_STORE(&entry->value[2], hash.hi);
    MOB_SEG_STORE(&entry->meta, MOB_META_HASHED);
}

enum mob_status mob_table_put_small(const struct mob_table_user *user, struct mob_object_id id,
    enum mob_value_type type, const void *payload, uint32_t bytes, struct mob_object_ref *ref_out)
{
    if (bytes > MOB_OBJECT_INLINE_MAX)
        return MOB_TOO_LARGE;
    struct mob_object_ref ref;
    enum mob_status status = claim_entry(user->view, id, user->owner, true, &ref);
    if (status != MOB_OK)
        return status;
    struct mob_seg_entry *entry = &user->view->seg_table[ref.entry];
    uint64_t words[3] = {0};
    if (bytes > 0)
        memcpy(words, payload, bytes);
    for (uint32_t i = 0; i * 8 < bytes; i++)
        MOB_SEG_STORE(&entry->value[i], words[i]);
    MOB_SEG_STORE(&entry->meta, ((uint32_t)type & 0xffu) | bytes << 8);
    *ref_out = ref;
    return MOB_OK;
}

enum mob_status mob_table_create(const struct mob_table_user *user, struct mob_object_id id, uint64_t size,
    struct mob_object_ref *ref_out, void **bytes_out)
{
    if (size < MOB_VALUE_HEADER_BYTES)
        return MOB_INVALID;
    struct mob_object_ref ref;
    enum mob_status status = claim_entry(user->view, id, user->owner, false, &ref);
    if (status != MOB_OK)
        return status;
    uint64_t offset = mob_arena_alloc(user->arena, ref.entry, size);
    if (offset == 0) {
        mob_table_abort(user->view, ref.entry);
        return MOB_STORE_FULL;
    }
    *ref_out = ref;
    *bytes_out = user->view->base + offset;
    return MOB_OK;
}

void mob_table_abort(const struct mob_view *view, uint32_t entry_index)
{
    mob_arena_free(view, entry_index);
    MOB_SEG_STORE(&view->seg_tags[entry_index].v, 0);
}
