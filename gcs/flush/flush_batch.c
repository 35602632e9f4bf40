#include "gcs/flush/flush_batch.h"

#include <stdlib.h>

#define FIRST_BYTES (256u << 10)
#define FIRST_BLOCKS 64u

struct flush_batch *flush_batch_create(uint64_t after, int64_t now_ns)
{
    struct flush_batch *b = calloc(1, sizeof *b);
    if (b == NULL)
        return NULL;
    b->after = b->upto = after;
    b->opened_ns = now_ns;
    return b;
}

void flush_batch_destroy(struct flush_batch *b)
{
    if (b == NULL)
        return;
    flush_nets_fini(&b->nets);
    free(b->bytes);
    free(b->blocks);
    free(b);
}

static enum mob_status make_room(struct flush_batch *b, uint32_t length)
{
    if (b->used + length > b->capacity) {
        size_t capacity = b->capacity == 0 ? FIRST_BYTES : b->capacity;
        while (capacity < b->used + length)
            capacity *= 2;
        uint8_t *bytes = realloc(b->bytes, capacity);
        if (bytes == NULL)
            return MOB_NO_MEMORY;
        b->bytes = bytes;
        b->capacity = capacity;
    }
    if (b->count == b->block_capacity) {
        uint32_t capacity = b->block_capacity == 0 ? FIRST_BLOCKS : b->block_capacity * 2;
        struct mob_flush_block *blocks = realloc(b->blocks, capacity * sizeof *blocks);
        if (blocks == NULL)
            return MOB_NO_MEMORY;
        b->blocks = blocks;
        b->block_capacity = capacity;
    }
    return MOB_OK;
}

enum mob_status flush_batch_add(struct flush_batch *b, uint64_t seq, const uint8_t *bytes, uint32_t length)
{
    static _Thread_local struct mob_zone_map zone;
    struct mob_block_header header;
    enum mob_status status = make_room(b, length);
    if (status != MOB_OK)
        return status;
    memcpy(b->bytes + b->used, bytes, length);
    b->blocks[b->count++] =
        (struct mob_flush_block){.seq = seq, .bytes = (const uint8_t *)(uintptr_t)b->used, .length = length};
    b->used += length;
    b->upto = seq;
    status = mob_block_peek(bytes, length, &header, &zone);
    return status == MOB_OK ? flush_nets_add_block(&b->nets, &zone) : status;
}

bool flush_batch_full(const struct flush_batch *b, size_t bytes)
{
    return b->used >= bytes || b->nets.count + MOB_ZONE_GROUPS_MAX > MOB_GCS_FLUSH_GROUPS_MAX;
}

void flush_batch_close(struct flush_batch *b, uint64_t epoch)
{
    for (uint32_t i = 0; i < b->count; i++)
        b->blocks[i].bytes = b->bytes + (uintptr_t)b->blocks[i].bytes;
    b->epoch = epoch;
    flush_nets_close(&b->nets);
}

struct mob_flush_batch flush_batch_of(const struct flush_batch *b)
{
    return (struct mob_flush_batch){
        .after = b->after, .upto = b->upto, .epoch = b->epoch, .blocks = b->blocks, .count = b->count};
}
