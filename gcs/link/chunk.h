/* Counted receive buffers. Frames are parsed where they were received; an entry holds the buffer that its
 * bytes are in until it is durable, so a block is never copied between the socket and Redis. One owner, no
 * locks.
 */
#ifndef MOB_GCS_LINK_CHUNK_H
#define MOB_GCS_LINK_CHUNK_H

#include <stddef.h>
#include <stdint.h>

#define MOB_CHUNK_BYTES (256u << 10)

struct mob_chunk_pool;
struct mob_chunk {
    struct mob_chunk_pool *pool;
    struct mob_chunk *next; /* in the pool */
    uint32_t refs;
    uint32_t capacity, used;
    uint8_t bytes[];
};
struct mob_chunk_pool {
    struct mob_chunk *free;
    size_t free_count, free_low; /* low: since the last trim */
    size_t live_bytes; /* held by anybody */
};

/* With one reference; capacity is at least `bytes`. NULL when out of memory. */
struct mob_chunk *mob_chunk_create(struct mob_chunk_pool *pool, uint32_t bytes);
void mob_chunk_hold(struct mob_chunk *chunk);
/* With the last reference it goes back to its pool, or, when it is larger than MOB_CHUNK_BYTES, to the
 * system. NULL is fine. */
void mob_chunk_release(struct mob_chunk *chunk);
/* Gives back to the system what was not used since the last call. */
void mob_chunk_pool_trim(struct mob_chunk_pool *pool);
/* After the last chunk came back. */
void mob_chunk_pool_fini(struct mob_chunk_pool *pool);

#endif
