/* Between gcs_verify_members.c, gcs_verify_blocks.c and gcs_verify_index.c. */
#ifndef MOB_CLI_GCS_VERIFY_MEMBERS_H
#define MOB_CLI_GCS_VERIFY_MEMBERS_H

#include "cli/gcs_members.h"
#include "cli/gcs_verify.h"

struct member_block {
    uint64_t seq, digest;
};
/* A block that has something of a group. */
struct member_ref {
    struct mob_gcs_group_key group;
    uint64_t seq;
};
struct member {
    const char *path, *name;
    struct mob_member_link *link;
    struct mob_gcs_stats stats;
    struct mob_gcs_mark *marks; /* MOB_GCS_MARKS_MAX + 1 */
    uint32_t mark_count;
    struct member_block *blocks;
    size_t count, capacity;
    uint64_t damaged;
    uint64_t self; /* who had these blocks */
    /* Of one group in 2^ref_part, with equal chances; by group and position when all are read. */
    struct member_ref *refs;
    size_t ref_count, ref_capacity;
    unsigned ref_part;
};
struct members {
    struct verify *v;
    struct mob_member_place places[STATE_REPLICAS_MAX];
    struct member all[STATE_REPLICAS_MAX];
    uint32_t count;
    struct mob_gcs_block_row *rows;
    struct mob_member_options options;
    uint8_t secret[STATE_SECRET_BYTES];
    struct blocks_check *blocks; /* gcs_verify_blocks.c */
    struct index_check *index; /* gcs_verify_index.c */
    uint64_t upto; /* blocks up to here are compared */
    uint64_t salt; /* other groups each time, where they are too many */
};
typedef enum mob_status (*ask_fn)(struct members *m, struct member *one);

/* A member that was left out of its chain, rightly or not, ends and is back within seconds as another one at
 * the same place. So one that is not there is asked again, over a new link. False: after a message. */
bool members_ask(struct members *m, struct member *one, ask_fn ask);
/* The figures of all of them. */
bool members_read_stats(struct members *m);
/* It joins, or has not begun to: what it lacks is on its way. */
bool members_lacks_some(const struct mob_gcs_stats *s);
/* Their blocks against each other and against what the Redis of each has. False: one does not answer. */
bool members_check_blocks(struct members *m);
/* One block more of a member, for the following. False: out of memory. */
bool members_index_take(struct members *m, struct member *one, const struct mob_zone_map *zone, uint64_t seq);
/* The index of each by groups, against its blocks, which were read. False: one does not answer. */
bool members_check_index(struct members *m);

#endif
