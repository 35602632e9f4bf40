/* Rooms of one size for records that come and go by the million: given back, one is taken again before any
 * other. Memory returns to the process when the pool ends, like that of the scheduler's records. All zero is
 * an empty pool. Thread: the node's.
 */
#ifndef MOB_RUNTIME_NODE_ROOM_POOL_H
#define MOB_RUNTIME_NODE_ROOM_POOL_H

#include <stddef.h>

struct room_pool {
    struct room {
        struct room *next;
    } * free;
    struct room_chunk *chunks;
};

/* More of them, all of `bytes`; ends the process when there is no memory. */
void room_pool_grow(struct room_pool *pool, size_t bytes);
void room_pool_free(struct room_pool *pool);

/* Holds anything; `bytes` is the same in all calls for one pool, and no less than a pointer. */
static inline void *room_take(struct room_pool *pool, size_t bytes)
{
    if (!pool->free)
        room_pool_grow(pool, bytes);
    struct room *room = pool->free;
    pool->free = room->next;
    if (pool->free)
        __builtin_prefetch(pool->free, 1);
    return room;
}

static inline void room_give(struct room_pool *pool, void *place)
{
    struct room *room = place;
    room->next = pool->free;
    pool->free = room;
}

#endif
