/* Hash table from group (stream, index >> 8) to counts and block ordinals. Internal to index.c; one owner. */
#ifndef MOB_GCS_SHARD_INDEX_GROUPS_H
#define MOB_GCS_SHARD_INDEX_GROUPS_H

#include <stddef.h>
#include <stdint.h>

#include "common/wire/block.h"

#define MOB_GROUP_REFS_INLINE 4u

struct mob_index_group {
    struct mob_stream stream;
    uint32_t group;
    int32_t open; /* specs less final completions, in blocks that are here and in those that were flushed */
    int32_t cold; /* the part of `open` that was flushed */
    uint32_t ref_count;
    uint32_t used; /* 0 = free slot */
    union {
        uint32_t here[MOB_GROUP_REFS_INLINE];
        struct {
            uint32_t *refs; /* when ref_count > MOB_GROUP_REFS_INLINE */
            uint32_t capacity;
        } more;
    } u;
};
struct mob_index_groups {
    struct mob_index_group *slots;
    size_t capacity, count;
    size_t cold_count; /* groups with `cold` other than 0 */
    size_t more_bytes;
};

void mob_index_groups_fini(struct mob_index_groups *t);
struct mob_index_group *mob_index_groups_find(
    const struct mob_index_groups *t, struct mob_stream stream, uint32_t group);
/* A hint that the group is added soon: its place is anywhere in a table much larger than the cache. */
void mob_index_groups_fetch(const struct mob_index_groups *t, const struct mob_zone_group *zone);
/* Adds what `zone` says the block has of its group. */
void mob_index_groups_add(struct mob_index_groups *t, const struct mob_zone_group *zone, uint32_t ordinal);
/* Flushed blocks had so many more specs than final completions of the group. */
void mob_index_groups_flush(
    struct mob_index_groups *t, struct mob_stream stream, uint32_t group, int32_t net);
/* The same after a restart: those blocks were never counted here. */
void mob_index_groups_load(struct mob_index_groups *t, struct mob_stream stream, uint32_t group, int32_t net);
/* Keeps only references for which keep(arg, ordinal), and groups that have any or are open in what was
 * flushed. */
void mob_index_groups_filter(
    struct mob_index_groups *t, bool (*keep)(const void *arg, uint32_t ordinal), const void *arg);
static inline const uint32_t *mob_index_group_refs(const struct mob_index_group *g)
{
    return g->ref_count > MOB_GROUP_REFS_INLINE ? g->u.more.refs : g->u.here;
}

#endif
