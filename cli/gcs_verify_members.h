/* Between gcs_verify_members.c and gcs_verify_blocks.c. */
#ifndef MOB_CLI_GCS_VERIFY_MEMBERS_H
#define MOB_CLI_GCS_VERIFY_MEMBERS_H

#include "cli/gcs_members.h"
#include "cli/gcs_verify.h"

struct member_block {
    uint64_t seq, digest;
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
};
typedef enum mob_status (*ask_fn)(struct members *m, struct member *one);

/* A member that was left out of its chain, rightly or not, ends and is back within seconds as another one at
 * the same place. So one that is not there is asked again, over a new link. False: after a message. */
bool members_ask(struct members *m, struct member *one, ask_fn ask);
/* The figures of all of them. */
bool members_read_stats(struct members *m);
/* Their blocks against each other and against what the Redis of each has. False: one does not answer. */
bool members_check_blocks(struct members *m);

#endif
