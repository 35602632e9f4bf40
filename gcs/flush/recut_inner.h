/* Between recut.c (classes and rows) and recut_sort.c (the entries of a class). Internal to gcs/flush. */
#ifndef MOB_GCS_FLUSH_RECUT_INNER_H
#define MOB_GCS_FLUSH_RECUT_INNER_H

#include <stddef.h>

#include "gcs/flush/recut.h"

/* An entry of a class. What it says is in the arena, as the encoder wants it. */
struct recut_item {
    uint32_t group; /* of recut_sort.groups; after sorting its rank */
    uint32_t at; /* in the arena, in units of 8 bytes */
    uint32_t source; /* of recut.sources */
    uint16_t ordinal; /* in that block */
    uint8_t low; /* index in the group */
    uint8_t type; /* enum mob_entry_type */
};
struct recut_group {
    uint64_t stream_high; /* big-endian value of the stream's first bytes */
    uint32_t stream_low, group;
    uint32_t rank;
    struct mob_stream stream;
};
/* The entries of one class, decoded. All arrays grow as needed and are used again. */
struct recut_sort {
    struct recut_item *items, *other;
    size_t item_count, item_capacity;
    struct recut_group *groups;
    size_t group_count, group_capacity;
    uint32_t *slots; /* open addressing: group + 1 */
    size_t slot_capacity;
    uint32_t *order, *starts; /* of groups */
    size_t order_capacity;
    uint8_t *arena;
    size_t arena_used, arena_capacity;
    uint32_t last_group;
    struct mob_task_id putter; /* of the last put that has a group of its own */
    struct mob_stream puts;
    struct mob_entry entry;
};

void recut_sort_fini(struct recut_sort *s);
void recut_sort_begin(struct recut_sort *s);
/* Decodes a block into the arena. MOB_CORRUPT, MOB_NO_MEMORY. */
MOB_MUST_USE enum mob_status recut_sort_add(struct recut_sort *s, struct mob_block_decoder *decoder,
    uint32_t source, const uint8_t *block, uint32_t length);
/* Sorts items by group, index and place in the log. */
MOB_MUST_USE enum mob_status recut_sort_items(struct recut_sort *s);
/* Adds an item to a block: the encoder's answer. */
MOB_MUST_USE enum mob_status recut_sort_encode(
    const struct recut_sort *s, const struct recut_item *item, struct mob_block_encoder *encoder);
/* For items of that type. Borrowed. */
const struct mob_spec_head *recut_item_spec(const struct recut_sort *s, const struct recut_item *item);
const struct mob_completion_head *recut_item_completion(
    const struct recut_sort *s, const struct recut_item *item);

#endif
