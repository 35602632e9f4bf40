#include "gcs/link/chunk.h"

#include <stdlib.h>
#include <sys/mman.h>

#include "common/base/log.h"

/* mmap, so that a trimmed chunk really leaves the process. */
static struct mob_chunk *chunk_map(uint32_t capacity)
{
    struct mob_chunk *chunk =
        mmap(NULL, sizeof *chunk + capacity, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (chunk == MAP_FAILED)
        return NULL;
    chunk->capacity = capacity;
    return chunk;
}

static void chunk_unmap(struct mob_chunk *chunk)
{
    munmap(chunk, sizeof *chunk + chunk->capacity);
}

struct mob_chunk *mob_chunk_create(struct mob_chunk_pool *pool, uint32_t bytes)
{
    uint32_t usual = MOB_CHUNK_BYTES - (uint32_t)sizeof(struct mob_chunk);
    struct mob_chunk *chunk = pool->free;
    if (bytes <= usual && chunk != NULL) {
        pool->free = chunk->next;
        if (--pool->free_count < pool->free_low)
            pool->free_low = pool->free_count;
    } else {
        chunk = chunk_map(bytes <= usual ? usual : bytes);
    }
    if (chunk == NULL)
        return NULL;
    chunk->pool = pool;
    chunk->refs = 1;
    chunk->used = 0;
    pool->live_bytes += chunk->capacity;
    return chunk;
}

void mob_chunk_hold(struct mob_chunk *chunk)
{
    chunk->refs++;
}

void mob_chunk_release(struct mob_chunk *chunk)
{
    if (chunk == NULL)
        return;
    MOB_ASSERT(chunk->refs > 0);
    if (--chunk->refs > 0)
        return;
    struct mob_chunk_pool *pool = chunk->pool;
    pool->live_bytes -= chunk->capacity;
    if (chunk->capacity > MOB_CHUNK_BYTES) {
        chunk_unmap(chunk);
        return;
    }
    chunk->next = pool->free;
    pool->free = chunk;
    pool->free_count++;
}

void mob_chunk_pool_trim(struct mob_chunk_pool *pool)
{
    for (size_t n = pool->free_low; n > 0; n--) {
        struct mob_chunk *chunk = pool->free;
        pool->free = chunk->next;
        pool->free_count--;
        chunk_unmap(chunk);
    }
    pool->free_low = pool->free_count;
}

void mob_chunk_pool_fini(struct mob_chunk_pool *pool)
{
    pool->free_low = pool->free_count;
    mob_chunk_pool_trim(pool);
}
