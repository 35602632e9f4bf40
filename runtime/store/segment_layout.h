/* What lies where in the shared segment. Internal to runtime/store.
 *
 *   header | clients | home words | tags | unit map | entries | arena (64 KiB units)
 *
 * Everything in it is an offset or an integer of fixed width. Both sides compute the same addresses from the
 * few numbers in the header; the node keeps its own copy of those numbers and never reads them back, since a
 * client may overwrite them. One cache line has one writer, apart from the words that are there to be
 * contended for.
 *
 * Crash safety is by derivation: nothing in the segment counts what can be derived by looking. A dead
 * client's
 * - half-made objects are the tags CLAIMED or CREATING with its slot as owner;
 * - pins are its journal, and vanish with it;
 * - blocks are those that a bitmap of its chunks shows as taken, each named by exactly one entry;
 * - large ranges are the units marked with an entry, inside the range which that entry noted before the first
 * mark.
 */
#ifndef MOB_RUNTIME_STORE_SEGMENT_LAYOUT_H
#define MOB_RUNTIME_STORE_SEGMENT_LAYOUT_H

#include <stdalign.h>
#include <stdbool.h>

#include "runtime/store/segment_access.h"
#include "runtime/store/store.h"

#define MOB_SEGMENT_MAGIC 0x474553424f4d0001ull
#define MOB_CACHE_LINE 64
#define MOB_UNIT_BYTES 65536u
#define MOB_DIRTY_WORDS 64u /* 4096 clients, a bit each */
#define MOB_OWNER_NODE 0xfffu /* owner of what the node itself makes */
#define MOB_GROUP_ENTRIES 8u /* neighbours of one stream share a group of tags: half a cache line */
#define MOB_RUN_GROUPS 8u /* neighbours of one stream share a page of entries: one miss of the TLB */
#define MOB_RUN_ENTRIES (MOB_RUN_GROUPS * MOB_GROUP_ENTRIES)
#define MOB_WINDOW_GROUPS \
    32u /* how far from its home group an entry may lie; at 5/8 fill 1e-13 need more \
         */
#define MOB_WINDOW_ENTRIES (MOB_WINDOW_GROUPS * MOB_GROUP_ENTRIES)
#define MOB_SLAB_OBJECT_MAX 21760u /* larger ones take whole units */
#define MOB_CHUNK_HEADER_BYTES 256u
#define MOB_CLASS_COUNT 23

struct mob_seg_header {
    /* Constants, written before any client exists. */
    uint64_t magic;
    uint32_t version, clients_max;
    uint64_t segment_bytes, incarnation;
    struct mob_cluster_id cluster;
    uint32_t entries, units;
    uint64_t reserved;
    /* Tickets: the number handed out so far. */
    alignas(MOB_CACHE_LINE) _Atomic uint64_t ticket;
    /* Node: 1 = about to sleep on its eventfd. The client that resets it writes the eventfd. */
    alignas(MOB_CACHE_LINE) _Atomic uint32_t node_sleeps;
    /* Node: advances as objects age; readers and creators note it in the entry. */
    alignas(MOB_CACHE_LINE) _Atomic uint32_t epoch;
    _Atomic uint32_t warm_units; /* prefault thread: units below are touched */
    alignas(MOB_CACHE_LINE) _Atomic uint32_t free_hint; /* no free unit below, probably */
    /* Clients set their bit after publishing; the node takes words. */
    alignas(MOB_CACHE_LINE) _Atomic uint64_t dirty[MOB_DIRTY_WORDS];
};

struct mob_seg_client {
    /* Node, before the slot is handed out. */
    _Atomic uint32_t kind; /* 0 = closed */
    _Atomic uint32_t out_bytes, in_bytes, pins_max;
    _Atomic uint64_t out_offset, in_offset, pins_offset;
    /* Node: end of the newest inbound record that is to be read before anything else is begun. It may not be
     * published yet. */
    _Atomic uint64_t in_urgent;
    /* Client: end of the published records. */
    alignas(MOB_CACHE_LINE) _Atomic uint64_t out_head;
    /* Node: space before this may be reused; for a driver also: acknowledged. */
    alignas(MOB_CACHE_LINE) _Atomic uint64_t out_released;
    /* Node: end of the inbound records. */
    alignas(MOB_CACHE_LINE) _Atomic uint64_t in_head;
    /* Client: inbound space before this may be reused; of what its ring gave it, how much it has begun. */
    alignas(MOB_CACHE_LINE) _Atomic uint64_t in_released;
    _Atomic uint64_t in_begun;
    /* Node: futex word, changed only when the client announced sleep. */
    alignas(MOB_CACHE_LINE) _Atomic uint32_t bell;
    /* Client: sleep announcement. */
    alignas(MOB_CACHE_LINE) _Atomic uint32_t asleep;
    /* Client: objects begun and ended. Equal in a dead client: it left no half-made object, no need to look.
     */
    alignas(MOB_CACHE_LINE) _Atomic uint64_t creates_begun;
    _Atomic uint64_t creates_ended;
    _Atomic uint32_t pins_top; /* journal slots at or above were never used */
    /* Client: per size class the chunk from which it takes blocks (unit + 1). The node takes back empty
     * chunks of a live client, but never one that stands here. */
    alignas(MOB_CACHE_LINE) _Atomic uint32_t current_chunk[MOB_CLASS_COUNT];
};
enum { MOB_ASLEEP_RECORDS = 1, MOB_ASLEEP_SPACE = 2 };

/* Tag: state 4 bits (with the inline bit) | owner 12 | fingerprint 16, never 0 in a published entry. */
enum mob_tag_state {
    MOB_TAG_FREE = 0,
    MOB_TAG_CLAIMED = 1, /* not yet known to be the only entry of its id: seen by creators, by nobody else */
    MOB_TAG_CREATING = 2,
    MOB_TAG_SEALED = 3,
    MOB_TAG_COMMITTED = 4,
    MOB_TAG_EVICT_SEALED = 5, /* state + 2: the node looks for pins; it goes back or to FREE */
    MOB_TAG_EVICT_COMMITTED = 6,
    MOB_TAG_STATE_MASK = 7,
    MOB_TAG_INLINE = 8 /* bit */
};
#define MOB_TAG(state, owner, fingerprint) \
    ((uint32_t)(state) << 28 | ((uint32_t)(owner)&0xfffu) << 16 | (uint32_t)(fingerprint))
static inline uint32_t mob_tag_state(uint32_t tag)
{
    return tag >> 28 & MOB_TAG_STATE_MASK;
}
static inline bool mob_tag_is_inline(uint32_t tag)
{
    return (tag >> 31) != 0;
}
static inline uint32_t mob_tag_owner(uint32_t tag)
{
    return tag >> 16 & 0xfffu;
}
static inline uint32_t mob_tag_with(uint32_t tag, enum mob_tag_state state)
{
    return (tag & 0x8fffffffu) | (uint32_t)state << 28;
}

struct mob_seg_entry {
    _Atomic uint32_t generation; /* changes before anything else does when the entry is taken again */
    _Atomic uint32_t id_slot;
    _Atomic uint64_t id_a, id_b; /* the task id */
    _Atomic uint32_t
        meta; /* inline: type | bytes << 8; full: MOB_META_HASHED when the node computed its hash */
    _Atomic uint32_t used_epoch;
    _Atomic uint64_t offset; /* of the full value from the segment's start; 0 in free and inline entries */
    _Atomic uint64_t value[3]; /* inline payload, or {size of the full value, hash.lo, hash.hi} */
};

#define MOB_META_HASHED 1u

/* Unit map. 0 = free, 1.. = entry + 1 of a large object, else kind | class << 16 | slot. */
#define MOB_UNIT_CHUNK_INIT 0x80000000u /* a slab chunk whose header is not written yet */
#define MOB_UNIT_CHUNK 0xa0000000u /* a slab chunk of a live client or the node */
#define MOB_UNIT_CLIENT 0xc0000000u /* rings and pin journal of a client */
#define MOB_UNIT_CHUNK_ORPHAN 0xe0000000u /* its client is gone, some blocks live */
/* An orphan that nobody may adopt or free: the node looks whether its owner still takes from it. */
#define MOB_UNIT_LOOKED_AT(class_index) MOB_UNIT_MARK(MOB_UNIT_CHUNK_ORPHAN, class_index, MOB_OWNER_NODE)
#define MOB_UNIT_KIND(mark) ((mark)&0xe0000000u)
#define MOB_UNIT_CLASS(mark) ((mark) >> 16 & 0xffu)
#define MOB_UNIT_SLOT(mark) ((mark)&0xfffu)
#define MOB_UNIT_MARK(kind, class_index, slot) ((kind) | (uint32_t)(class_index) << 16 | (slot))

struct mob_seg_chunk {
    _Atomic uint64_t free_bits[16]; /* owner clears (takes), node sets (frees) */
};

/* The word type of what is only ever an array of atomics, so that the store checker knows it for shared
 * memory. */
struct mob_seg_word {
    _Atomic uint32_t v;
};
struct mob_seg_pin {
    _Atomic uint64_t v; /* 0, or generation << 32 | entry + 1 */
};

_Static_assert(sizeof(struct mob_seg_entry) == 64, "entry layout");
_Static_assert(sizeof(struct mob_seg_client) == 640, "client layout");
_Static_assert(sizeof(struct mob_seg_header) == 320 + 512, "header layout");
_Static_assert(
    offsetof(struct mob_seg_entry, value) == 40 && MOB_OBJECT_INLINE_MAX == 24, "inline payload layout");
_Static_assert(
    MOB_STORE_CLIENTS_MAX < MOB_OWNER_NODE && MOB_STORE_CLIENTS_MAX <= MOB_DIRTY_WORDS * 64u, "slots");

/* Where things are in this process' mapping; private. Both sides use it. */
struct mob_view {
    uint8_t *base;
    uint64_t bytes;
    uint32_t clients_max, entries, units;
    uint32_t group_mask; /* groups - 1 */
    struct mob_seg_header *seg_header;
    struct mob_seg_client *seg_clients;
    struct mob_seg_word *seg_home; /* per group: version 24 | reach 8 */
    struct mob_seg_word *seg_tags;
    struct mob_seg_word *unit_map;
    struct mob_seg_entry *seg_table;
    uint64_t arena_offset;
};

/* Derive the layout of a segment of `bytes` with so many clients and entries. false = does not fit. */
bool mob_view_layout(
    struct mob_view *view, uint8_t *base, uint64_t bytes, uint32_t clients_max, uint32_t entries);

static inline struct mob_seg_chunk *mob_view_chunk(const struct mob_view *view, uint32_t unit)
{
    return (struct mob_seg_chunk *)(view->base + view->arena_offset + (uint64_t)unit * MOB_UNIT_BYTES);
}

#endif
