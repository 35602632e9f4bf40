/* What a member keeps in its Redis, format 3. Big-endian numbers in keys, little-endian structs in values.
 *
 *   format          "mobula-gcs 3"; of 2 and 1, which have no journal, it becomes that; others are refused
 *   s               struct mob_redis_position, in every pass that is not in the journal alone: that says it,
 *                   too, and the later one counts
 *   m               struct mob_redis_meta: of which Redis process, whether it ended cleanly
 *   b <seq>         struct mob_redis_block, then the block
 *   k <table> <key> u64 version, then the value
 *   i <incarnation> struct mob_gcs_incarnation
 *   c <client>      struct mob_redis_identity
 *   f               u64: blocks up to here are in PostgreSQL, and not here
 *   N <part>        u64 upto, u64 parts, then struct mob_gcs_flush_group: what all blocks up to `upto` left
 *                   unfinished
 *   n <upto>        the same of one FLUSH; counts when it is above the sum's `upto`
 *   l               struct mob_redis_life: of which member, in a chain with masters
 *   r <client> <slot>  struct mob_gcs_reply: the replies that are kept for duplicates
 *   J               u64: the first segment of the journal; none: there is no journal
 *   j <number>      a segment (journal_rows.h): its rows stand over those of the keys above
 */
#ifndef MOB_GCS_SHARD_REDIS_KEYS_H
#define MOB_GCS_SHARD_REDIS_KEYS_H

#include <stdint.h>
#include <string.h>

#include "common/wire/gcs_msg.h"

#define MOB_REDIS_FORMAT "mobula-gcs 3"
#define MOB_REDIS_FORMAT_FLUSHED "mobula-gcs 2"
#define MOB_REDIS_FORMAT_UNFLUSHED "mobula-gcs 1"
#define MOB_REDIS_KEY_MAX (2u + MOB_GCS_KEY_MAX)
#define MOB_REDIS_RUN_ID_BYTES 40
#define MOB_REDIS_BASES_MAX 16

struct mob_redis_position {
    uint64_t epoch, seq;
};
struct mob_redis_meta {
    uint32_t clean; /* 1: stopped with everything synced, so nothing can be missing; else the number of the
                       life that wrote it (callers.h), or 0 of an earlier version */
    uint32_t base_count;
    char run_id[MOB_REDIS_RUN_ID_BYTES]; /* of the Redis process that this member last used; zero while it
                                            collects, since that one may lack something */
    /* Newest epochs and the last seq of the history before each: positions above it belong to what was lost.
     */
    struct mob_redis_position bases[MOB_REDIS_BASES_MAX];
};
struct mob_redis_block {
    uint64_t epoch, incarnation, number, zero;
};
/* The store of a member of a chain with masters. */
struct mob_redis_life {
    uint64_t member; /* its newest life; 0: none */
    uint64_t part_epoch; /* the newest configuration in which it was known to be synced */
    uint64_t synced; /* 1: it holds all that was ever committed, up to part_epoch */
};
/* Which process a client was, so that a restarted member does not wait for those of which it is proved that
 * they are dead: mob_process_is_over, in that boot. */
struct mob_redis_identity {
    int32_t pid; /* 0 = unknown */
    uint32_t zero;
    uint64_t pid_start;
    uint8_t boot[16]; /* mob_callers_boot */
};
_Static_assert(sizeof(struct mob_redis_position) == 16 && sizeof(struct mob_redis_meta) == 48 + 16 * 16 &&
        sizeof(struct mob_redis_block) == 32 && sizeof(struct mob_redis_identity) == 32,
    "stored layouts");

static inline void mob_redis_key_number(uint8_t out[8], uint64_t n)
{
    n = __builtin_bswap64(n);
    memcpy(out, &n, 8);
}
static inline uint64_t mob_redis_key_to_number(const uint8_t *bytes)
{
    uint64_t n;
    memcpy(&n, bytes, 8);
    return __builtin_bswap64(n);
}
/* <kind> <number>: 9 bytes. */
static inline void mob_redis_key(uint8_t out[9], char kind, uint64_t n)
{
    out[0] = (uint8_t)kind;
    mob_redis_key_number(out + 1, n);
}

#endif
