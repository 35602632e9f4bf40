/* What the files of runtime/store share. Nobody else includes this (tests of the store do). */
#ifndef MOB_RUNTIME_STORE_STORE_INTERNAL_H
#define MOB_RUNTIME_STORE_STORE_INTERNAL_H

#include <pthread.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "runtime/store/segment_layout.h"

/* segment.c */
uint8_t *mob_segment_map(int memfd, uint64_t bytes); /* NULL = no memory */
void mob_segment_unmap(uint8_t *base, uint64_t bytes);

/* ---- arena (slab.c, extent.c): used by clients and by the node alike ---- */
/* Chunks of one user, by class. Private memory; lost with the process, derived again from the unit map by the
 * node. */
struct mob_chunk_list {
    uint32_t *units;
    uint32_t count, capacity, current;
    uint32_t probe; /* last one looked at for free blocks */
    uint32_t announced; /* unit + 1 of the chunk that may be taken from */
};
struct mob_arena_user {
    const struct mob_view *view;
    uint32_t slot; /* MOB_OWNER_NODE for the node */
    struct mob_seg_client *seg_client; /* NULL for the node */
    struct mob_chunk_list classes[MOB_CLASS_COUNT];
};
void mob_arena_user_init(
    struct mob_arena_user *user, const struct mob_view *view, uint32_t slot, struct mob_seg_client *shared);
void mob_arena_user_fini(struct mob_arena_user *user);
/* Space for `size` bytes, named in entry->offset (and value[0] = size) before it is taken. 0 = no space. */
uint64_t mob_arena_alloc(struct mob_arena_user *user, uint32_t entry_index, uint64_t size);
/* Give back what entry->offset names and reset it; idempotent, checks every number. By the node, or by the
 * client that owns a still unsealed object. */
void mob_arena_free(const struct mob_view *view, uint32_t entry_index);
/* Give back own chunks without a taken block. Returns how many. */
uint32_t mob_slab_trim(struct mob_arena_user *user);

uint64_t mob_slab_alloc(struct mob_arena_user *user, struct mob_seg_entry *entry, uint64_t size);
void mob_slab_free(const struct mob_view *view, uint64_t offset);
/* Node, after a client ended: its empty chunks become free units, the others orphans. */
void mob_slab_disown(const struct mob_view *view, uint32_t slot);
uint32_t mob_slab_class_bytes(uint32_t class_index);
uint32_t mob_slab_class_blocks(uint32_t class_index);

/* First run of `units` free units, marked. UINT32_MAX = none. With an entry the range is noted in it before
 * each try. */
uint32_t mob_extent_claim(
    const struct mob_view *view, uint32_t units, uint32_t mark, struct mob_seg_entry *note);
/* Free the units of a range that carry `mark`. */
void mob_extent_free(const struct mob_view *view, uint64_t first_unit, uint64_t units, uint32_t mark);
uint32_t mob_extent_largest(const struct mob_view *view, uint32_t *free_units_out);

/* ---- object table (object_table.c) ---- */
struct mob_object_key {
    uint32_t group; /* home group */
    uint32_t position; /* preferred place in a group */
    uint32_t fingerprint;
};
struct mob_object_key mob_object_key(const struct mob_view *view, struct mob_object_id id);
/* The i-th group of its window: the same place in the runs that follow, so that a run which has to move stays
 * together. A table of fewer runs goes round more than once, a place further each time. */
static inline uint32_t mob_key_group(const struct mob_view *view, struct mob_object_key key, uint32_t i)
{
    uint32_t further = i * MOB_RUN_GROUPS;
    if (further > view->group_mask)
        further += further / (view->group_mask + 1);
    return (key.group + further) & view->group_mask;
}
static inline uint32_t mob_key_index(
    const struct mob_view *view, struct mob_object_key key, uint32_t group, uint32_t i)
{
    return mob_key_group(view, key, group) * MOB_GROUP_ENTRIES +
        ((key.position + i) & (MOB_GROUP_ENTRIES - 1));
}
/* Entry of a published id (not of one that is only claimed). UINT32_MAX = none. The tag is as it was when it
 * matched. */
uint32_t mob_table_find(const struct mob_view *view, struct mob_object_id id, uint32_t *tag_out);
/* Of the first returns of `count` neighbours, from that of `id` on: those as far as their group goes, each in
 * the place that it likes best. An index UINT32_MAX says nothing: mob_table_find may find it. Returns how
 * many of them. */
struct mob_found {
    uint32_t index, tag;
};
uint32_t mob_table_find_run(const struct mob_view *view, struct mob_object_id id, uint32_t count,
    struct mob_found found_out[MOB_GROUP_ENTRIES]);
void mob_table_count(const struct mob_view *view, uint32_t *used_out, uint32_t *inline_out);
uint32_t mob_table_used(const struct mob_view *view); /* tags that are taken */
/* Which tags of a group (8, half a line) equal `value` in the bits of `mask`. Only a filter: a hit is loaded
 * again, as an atomic. Thread sanitizers take a vector load for a race, so they get the plain loop. */
static inline uint32_t mob_group_matches(const struct mob_seg_word *group, uint32_t value, uint32_t mask)
{
#if defined(__SSE2__) && !defined(__SANITIZE_THREAD__)
    __m128i wanted = _mm_set1_epi32((int)value), bits = _mm_set1_epi32((int)mask);
    __m128i low = _mm_load_si128((const __m128i *)group), high = _mm_load_si128((const __m128i *)group + 1);
    low = _mm_cmpeq_epi32(_mm_and_si128(low, bits), wanted);
    high = _mm_cmpeq_epi32(_mm_and_si128(high, bits), wanted);
    return (uint32_t)_mm_movemask_ps(_mm_castsi128_ps(low)) |
        (uint32_t)_mm_movemask_ps(_mm_castsi128_ps(high)) << 4;
#else
    uint32_t hits = 0;
    for (uint32_t i = 0; i < MOB_GROUP_ENTRIES; i++)
        hits |= (uint32_t)((MOB_SEG_LOAD_RELAXED(&group[i].v) & mask) == value) << i;
    return hits;
#endif
}
/* How many of `count` tags, whole groups of them, are nobody's. */
static inline uint32_t mob_tags_unused(const struct mob_seg_word *tags, uint32_t count)
{
#if defined(__SSE2__) && !defined(__SANITIZE_THREAD__)
    __m128i sums = _mm_setzero_si128(); /* less one for each, in four lanes */
    for (const struct mob_seg_word *end = tags + count; tags < end; tags += MOB_GROUP_ENTRIES) {
        const __m128i *group = (const __m128i *)tags;
        sums = _mm_add_epi32(sums, _mm_cmpeq_epi32(_mm_load_si128(group), _mm_setzero_si128()));
        sums = _mm_add_epi32(sums, _mm_cmpeq_epi32(_mm_load_si128(group + 1), _mm_setzero_si128()));
    }
    sums = _mm_add_epi32(sums, _mm_shuffle_epi32(sums, 0x4e));
    sums = _mm_add_epi32(sums, _mm_shuffle_epi32(sums, 0xb1));
    return 0u - (uint32_t)_mm_cvtsi128_si32(sums);
#else
    uint32_t unused = 0;
    for (uint32_t i = 0; i < count; i++)
        unused += MOB_SEG_LOAD_RELAXED(&tags[i].v) == 0;
    return unused;
#endif
}
struct mob_object_id mob_entry_id(const struct mob_seg_entry *entry);
/* Offset and size of a full value, checked against the arena. */
bool mob_entry_range(
    const struct mob_view *view, const struct mob_seg_entry *entry, uint64_t *offset_out, uint64_t *size_out);
/* A checked view of the full value that the entry names. */
enum mob_status mob_entry_value(
    const struct mob_view *view, const struct mob_seg_entry *entry, struct mob_value_view *value_out);
/* Its content hash: from its header, or as the node computed it later; zero while unknown. */
struct mob_hash128 mob_entry_hash(const struct mob_seg_entry *entry, const struct mob_value_view *value);
void mob_entry_set_hash(struct mob_seg_entry *entry, struct mob_hash128 hash);
/* The two ways of making an object; used by clients and by the node. */
struct mob_table_user {
    const struct mob_view *view;
    struct mob_arena_user *arena;
    uint32_t owner;
};
enum mob_status mob_table_put_small(const struct mob_table_user *user, struct mob_object_id id,
    enum mob_value_type type, const void *payload, uint32_t bytes, struct mob_object_ref *ref_out);
enum mob_status mob_table_create(const struct mob_table_user *user, struct mob_object_id id, uint64_t size,
    struct mob_object_ref *ref_out, void **bytes_out);
void mob_table_abort(const struct mob_view *view, uint32_t entry_index);

/* ---- rings (ring.c) ---- */
/* The writing end, private to its process. */
struct mob_ring_writer {
    uint8_t *bytes;
    uint64_t size;
    uint64_t head; /* end of what is committed */
    uint64_t flushed; /* end of what is published */
    uint64_t released; /* last seen; space before it is free */
    uint64_t reserved; /* where the reserved record's header goes; differs from head by a PAD */
    bool damaged; /* the reader's cursor is none that it can have written */
};
/* The reading end. Cursors of the other side are checked; false from peek with *damaged when they cannot be.
 */
struct mob_ring_reader {
    const uint8_t *bytes;
    uint64_t size;
    uint64_t taken; /* end of what was consumed */
    uint64_t head; /* last seen */
};
/* `released_at` is read when the space known so far does not do. NULL = full, or damaged: the writer says. */
void *mob_ring_reserve(struct mob_ring_writer *ring, _Atomic uint64_t *released_at, uint32_t body_bytes);
/* Returns the record's whole size. */
uint32_t mob_ring_commit(struct mob_ring_writer *ring, uint8_t type, uint8_t flags, uint16_t aux,
    uint32_t body_bytes, uint64_t ticket);
/* The reserved record and others like it behind it, `count` in all or as many as have room in one piece;
 * their bodies, a multiple of 8 bytes long, are written before they are published. Returns how many. */
uint32_t mob_ring_commit_run(
    struct mob_ring_writer *ring, uint8_t type, uint16_t aux, uint32_t body_bytes, uint32_t count);
/* Of a body that goes in parts: how much of what is left goes next. All parts but the last are a multiple
 * of 8. */
static inline uint32_t mob_part_bytes(uint64_t ring_bytes, uint32_t left)
{
    uint32_t most = (uint32_t)(ring_bytes / 4); /* two of them are under way, and each fits at any position */
    return left < most ? left : most;
}
/* Parts of one record that came, in private memory. */
struct mob_parts {
    uint8_t *bytes; /* MOB_RECORD_MAX, header included; NULL = none came yet */
    uint32_t used; /* of the body */
};
/* false = more than a record may have, or no memory. */
bool mob_parts_add(struct mob_parts *parts, const void *body, uint32_t bytes);
/* Bytes behind a record that its reader will want, and that another core has written. */
#define MOB_RING_FETCH_AHEAD 256u
enum mob_ring_peek { MOB_RING_EMPTY, MOB_RING_RECORD, MOB_RING_DAMAGED };
/* Skips PADs; copies and checks the header of the next record below ring->head. */
enum mob_ring_peek mob_ring_peek(struct mob_ring_reader *ring, struct mob_record *record_out);
/* The same for what the next record mostly is: whole, and in its place. False: mob_ring_peek says what it is.
 */
static inline bool mob_ring_peek_whole(const struct mob_ring_reader *ring, struct mob_record *record_out)
{
    uint64_t position = ring->taken & (ring->size - 1);
    uint64_t left = ring->head - ring->taken, contiguous = ring->size - position;
    left = contiguous < left ? contiguous : left;
    if (left < sizeof *record_out)
        return false;
    memcpy(record_out, ring->bytes + position, sizeof *record_out);
    if (record_out->type == MOB_REC_PAD || record_out->bytes < sizeof *record_out ||
        record_out->bytes > left || record_out->bytes % 8 != 0 || record_out->bytes > MOB_RECORD_MAX)
        return false;
    __builtin_prefetch(ring->bytes + position + record_out->bytes + MOB_RING_FETCH_AHEAD);
    return true;
}

/* ---- doorbell (doorbell.c) ---- */
/* Node: news of these kinds (MOB_ASLEEP_*) were just stored, sequentially consistent. Wakes the client if it
 * sleeps. */
void mob_bell_ring(struct mob_seg_client *client, uint32_t kinds);

/* ---- node side ---- */
struct mob_prefault {
    const struct mob_view *view;
    _Atomic uint32_t stop; /* private: same process */
};
void *mob_segment_prefault_main(void *arg);

enum {
    MOB_NODE_KEEP = 1,
    MOB_NODE_REMAKEABLE = 2,
    MOB_NODE_UNWANTED = 4,
    MOB_NODE_FREED = 8 /* nobody can ask for its bytes any more: never worth a file */
};

#define MOB_SWEEP_AGES 256u /* epochs that the sweep tells apart */
/* The sweep of committed small objects (sweep.c). */
struct mob_sweep {
    uint32_t hand, left; /* of the turn that it is on: next tag, and tags to go; left 0 = none */
    uint32_t limit; /* of that turn: last used in this epoch or before goes */
    bool spares; /* and in that turn what is needed stays */
    bool trusts; /* and the last use that is noted here is as good as that in the entry, where it is young */
    uint32_t paid; /* tags that commits have paid for */
    uint64_t used, commits; /* taken tags when last counted, and commits since */
    /* What may be swept, by the epoch of its last use (index: epoch % AGES; the oldest holds older ones too),
     * as the last turn saw it, and as the present one does. */
    uint32_t ages[MOB_SWEEP_AGES], seen[MOB_SWEEP_AGES];
    uint64_t sweepable; /* sum of ages */
};

/* Inbound records that wait for room in their ring (inbound.c). */
struct mob_backlog {
    uint8_t *bytes; /* NULL = none wait */
    uint32_t used, at; /* records stand in [at, used) */
    uint32_t part; /* how much of the first one's body has gone */
};

struct mob_node_client {
    struct mob_seg_client *seg_client;
    enum mob_client_kind kind;
    bool open, damaged, damage_reported, touched;
    bool urgent; /* the end of what it is given is to be told as such */
    bool waited; /* its next ticket was above the counter in the last pass; it cannot be in this one */
    uint32_t first_unit, units, pins_max;
    uint64_t out_released;
    struct mob_seg_pin *seg_pins;
    struct mob_ring_reader out;
    struct mob_ring_writer in;
    uint64_t last_ticket, next_ticket;
    struct mob_record next; /* header at out.taken, while the slot is active */
    struct mob_parts parts; /* of its next record */
    struct mob_backlog backlog;
};

struct mob_store;
/* pass.c: nothing more is taken from this client or given to it; the node is told at its next pass. */
void mob_client_mark_damaged(struct mob_store *store, struct mob_node_client *client);
/* inbound.c: end of a pass; what waits goes on. */
void mob_inbound_push(struct mob_store *store);
void mob_inbound_close(struct mob_store *store, struct mob_node_client *client);

struct mob_spill; /* spill.c */
struct mob_hash_queue; /* hash_later.c */

struct mob_store {
    struct mob_view view;
    struct mob_store_options options;
    int memfd, eventfd;
    bool damaged;
    uint8_t constants[offsetof(struct mob_seg_header, ticket)]; /* of the header, as they were made */
    uint32_t audit_at; /* entry that is looked at next */
    struct mob_prefault prefault;
    pthread_t prefault_thread;
    bool prefault_runs;

    struct mob_node_client *clients;
    uint32_t clients_open, clients_top; /* slots at or above were never open */
    uint32_t backlogs; /* clients with a backlog */

    /* The pass. */
    uint64_t counter; /* the pass' limit */
    uint64_t pending[MOB_DIRTY_WORDS];
    uint32_t *active; /* slots that have a record at or below the counter */
    uint32_t active_count, current;
    uint64_t current_until; /* smallest next ticket of the other active rings */
    uint32_t damages; /* damaged clients not yet reported */
    uint32_t *touched; /* slots from which this pass took something */
    uint32_t touched_count;
    uint8_t *record; /* private copy of the record in hand, or of a run of them */
    uint64_t taken_from; /* where the (last part of the) record that was taken last stood in its ring */

    /* Objects. */
    struct mob_arena_user arena;
    uint8_t *entry_flags; /* MOB_NODE_*, by entry */
    uint16_t *entry_epochs; /* the last use that is known, an epoch modulo 2^16, by entry (sweep.c) */
    uint64_t committed; /* entries in state COMMITTED, as counted here */
    uint64_t commits_in_epoch;
    uint32_t epoch;
    struct mob_sweep sweep;
    uint64_t evictions, restores;
    uint64_t needed_bytes; /* of the last failed request for room */
    struct mob_spill *spill;
    struct mob_hash_queue *hashes;
};

/* sweep.c */
void mob_epoch_advance(struct mob_store *store);
/* An entry became COMMITTED, and its flags are set. Pays for a few tags of a turn, if one is due. */
void mob_sweep_committed(struct mob_store *store, uint32_t index);
#define MOB_UNWANTED_AGE (1u << 20) /* that only what nobody wants has */
/* Nobody wants it: it goes before all others, unless it is read again. */
void mob_sweep_make_old(struct mob_store *store, uint32_t index);
bool mob_sweep_step(struct mob_store *store, uint32_t tags); /* multiple of 64; true = more to do */
/* At once, down to so many taken tags, if that much may go. */
void mob_sweep_now(struct mob_store *store, uint64_t to_used);

/* evict.c */
#define MOB_EVICT_BATCH 256u
struct mob_evict_batch {
    uint32_t index[MOB_EVICT_BATCH];
    uint32_t count;
};
/* Mark a sealed full object as a victim; then the whole batch looks for pins once, and drops what has none.
 * Returns how many went. */
bool mob_evict_mark(struct mob_store *store, uint32_t entry_index);
uint32_t mob_evict_batch(struct mob_store *store, struct mob_evict_batch *batch);
/* Free what the entry names and the entry itself. */
void mob_entry_drop(struct mob_store *store, uint32_t entry_index, uint32_t tag);
/* Drop a sealed object unless somebody has pinned it. */
bool mob_evict_unpinned(struct mob_store *store, uint32_t entry_index);
/* Whether its bytes may go without a copy of them. */
static inline bool mob_entry_droppable(const struct mob_store *store, uint32_t entry_index, uint32_t tag)
{
    uint8_t flags = store->entry_flags[entry_index];
    if (flags & MOB_NODE_FREED)
        return true;
    return mob_tag_state(tag) == MOB_TAG_COMMITTED &&
        (mob_tag_is_inline(tag) || (flags & MOB_NODE_REMAKEABLE) != 0);
}
/* Calls visit for each entry that stands in the journal of a live client. */
void mob_each_pin(
    const struct mob_store *store, void (*visit)(const struct mob_store *, uint32_t, void *), void *arg);
uint64_t mob_pins_count(const struct mob_store *store);
uint64_t mob_pins_bytes(const struct mob_store *store);
/* slab.c: take empty chunks back from live clients. Returns how many units became free. */
uint32_t mob_slab_reclaim(struct mob_store *store);

/* node_object.c: as mob_table_create, with one attempt to make room. */
enum mob_status mob_node_create(struct mob_store *store, struct mob_object_id id, uint64_t size,
    struct mob_object_ref *ref_out, void **bytes_out);

/* spill.c: files of objects whose bytes left the segment. `spill` NULL = nothing is ever there. */
enum mob_status mob_spill_create(const char *directory, uint64_t quota_bytes, struct mob_spill **spill_out);
void mob_spill_destroy(struct mob_spill *spill);
/* Write the object of a sealed entry, unless its file is there. MOB_DISK_FULL, MOB_IO, MOB_STORE_FULL without
 * spilling. */
enum mob_status mob_spill_write(struct mob_store *store, uint32_t entry_index);
/* Bring it back. MOB_NOT_FOUND, MOB_CORRUPT (file dropped), MOB_STORE_FULL, MOB_IO. */
enum mob_status mob_spill_restore(struct mob_store *store, struct mob_object_id id);
bool mob_spill_info(const struct mob_spill *spill, struct mob_object_id id, struct mob_object_info *info_out);
void mob_spill_committed(struct mob_spill *spill, struct mob_object_id id, bool remakeable);
void mob_spill_keep(struct mob_spill *spill, struct mob_object_id id, bool keep);
bool mob_spill_forget(struct mob_spill *spill, struct mob_object_id id);
void mob_spill_count(const struct mob_spill *spill, uint64_t *objects_out, uint64_t *bytes_out);

/* hash_later.c */
enum mob_status mob_hash_queue_create(struct mob_hash_queue **queue_out);
void mob_hash_queue_destroy(struct mob_hash_queue *queue);
bool mob_hash_queue_step(struct mob_store *store); /* hash up to 1 MiB; true = more to do */

/* doorbell.c: sleep until the node has released something of the outbound ring. */
void mob_store_wait_space(struct mob_store_client *client);

/* client side */
#define CLIENT_HAS_SPACE UINT64_MAX
struct mob_store_client {
    struct mob_view view;
    uint32_t slot;
    enum mob_client_kind kind;
    uint64_t incarnation;
    int eventfd;
    struct mob_seg_client *seg_client;
    struct mob_seg_pin *seg_pins;
    uint32_t pins_max, pins_free, pins_top;
    uint32_t *pin_stack; /* free journal slots, last freed on top */
    struct mob_ring_writer out;
    struct mob_ring_reader in;
    uint32_t in_peeked; /* bytes of the inbound record, or last part of one, in hand; 0 = none */
    uint8_t *large; /* private: the body of a record that will go in parts; MOB_RECORD_MAX */
    uint32_t large_bytes; /* reserved there; 0 = the reservation is in the ring */
    struct mob_parts parts; /* of the inbound record in hand */
    bool parts_whole; /* its last part is there as well */
    bool shares_mapping; /* of the node's process */
    /* What had been released of the outbound ring when it was found full; CLIENT_HAS_SPACE = nobody waits.
     * Relaxed: the owner's word to itself, and to its watcher (mob_store_watch), who comes after a semaphore.
     */
    _Atomic uint64_t full_at;
    /* The inbound ring, or the node's word on the outbound one, does not parse. Relaxed: never taken back. */
    _Atomic bool damaged;
    uint64_t creates_begun, creates_ended;
    uint64_t begun; /* things of the inbound ring: begun.c */
    bool fences; /* before it begins one: the node cannot do it in its place */
    struct mob_arena_user arena;
    struct mob_table_user table;
};

/* A client in the node's own process that uses its mapping: for thread sanitizers, which know memory by its
 * address. */
enum mob_status mob_store_attach_inside(
    struct mob_store *store, uint32_t slot, struct mob_store_client **out);

/* ---- begun.c ---- */
/* Of a client that is being attached. */
void mob_begun_open(struct mob_store_client *client);

/* ---- audit.c ---- */
/* Notes what the header must say from here on. */
void mob_audit_begin(struct mob_store *store);

#endif
