#include "runtime/node/room_pool.h"

#include <stdint.h>
#include <stdlib.h>

#include "common/base/bytes.h"
#include "common/base/log.h"

enum { ROOMS_A_CHUNK = 256, ROOM_ALIGN = 16 };

struct room_chunk {
    struct room_chunk *next;
    uint8_t rooms[] __attribute__((aligned(ROOM_ALIGN)));
};

void room_pool_grow(struct room_pool *pool, size_t bytes)
{
    size_t step = mob_round_up(bytes, ROOM_ALIGN);
    struct room_chunk *chunk = malloc(sizeof *chunk + ROOMS_A_CHUNK * step);
    MOB_ASSERT(chunk);
    chunk->next = pool->chunks;
    pool->chunks = chunk;
    for (size_t i = ROOMS_A_CHUNK; i-- > 0;)
        room_give(pool, chunk->rooms + i * step);
}

void room_pool_free(struct room_pool *pool)
{
    while (pool->chunks) {
        struct room_chunk *next = pool->chunks->next;
        free(pool->chunks);
        pool->chunks = next;
    }
    pool->free = NULL;
}
