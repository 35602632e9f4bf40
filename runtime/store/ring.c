/* Single-producer single-consumer byte rings: cursors only grow, a record never wraps, and the reader
 * believes nothing. */
#include "runtime/store/store_internal.h"

#include <stdlib.h>

#include "common/base/bytes.h"
#include "common/base/log.h"

enum { HEADER = sizeof(struct mob_record), PAD_HEADER = 8 };

void *mob_ring_reserve(struct mob_ring_writer *ring, _Atomic uint64_t *released_at, uint32_t body_bytes)
{
    uint64_t total = mob_round_up((uint64_t)HEADER + body_bytes, 8);
    if (total > ring->size / 2 || total > MOB_RECORD_MAX)
        return NULL;
    uint64_t position = ring->head & (ring->size - 1);
    uint64_t pad = total > ring->size - position ? ring->size - position : 0;
    if (ring->head + pad + total - ring->released > ring->size) {
        uint64_t released = MOB_SEG_LOAD(released_at);
        if (released < ring->released || released > ring->flushed) {
            ring->damaged = true;
            return NULL;
        }
        ring->released = released;
        if (ring->head + pad + total - released > ring->size)
            return NULL;
    }
    if (pad > 0) {
        struct mob_record record = {.bytes = (uint32_t)pad, .type = MOB_REC_PAD};
        MOB_SEG_COPY(ring->bytes + position, &record, PAD_HEADER);
    }
    ring->reserved = ring->head + pad;
    return ring->bytes + (ring->reserved & (ring->size - 1)) + HEADER;
}

uint32_t mob_ring_commit(struct mob_ring_writer *ring, uint8_t type, uint8_t flags, uint16_t aux,
    uint32_t body_bytes, uint64_t ticket)
{
    uint32_t total = (uint32_t)mob_round_up((uint64_t)HEADER + body_bytes, 8);
    uint8_t *at = ring->bytes + (ring->reserved & (ring->size - 1));
    struct mob_record record = {.bytes = total, .type = type, .flags = flags, .aux = aux, .ticket = ticket};
    if (body_bytes % 8 != 0) {
        static const uint8_t zeros[8];
        MOB_SEG_COPY(at + HEADER + body_bytes, zeros, 8 - body_bytes % 8);
    }
    MOB_SEG_COPY(at, &record, HEADER);
    ring->head = ring->reserved + total;
    return total;
}

uint32_t mob_ring_commit_run(
    struct mob_ring_writer *ring, uint8_t type, uint16_t aux, uint32_t body_bytes, uint32_t count)
{
    struct mob_record record = {.bytes = HEADER + body_bytes, .type = type, .aux = aux};
    MOB_ASSERT(body_bytes % 8 == 0);
    uint64_t position = ring->reserved & (ring->size - 1), contiguous = ring->size - position;
    uint64_t room = ring->size - (ring->reserved - ring->released);
    uint64_t fit = (room < contiguous ? room : contiguous) / record.bytes;
    count = count < fit ? count : (uint32_t)fit;
    for (uint32_t i = 0; i < count; i++)
        MOB_SEG_COPY(ring->bytes + position + (uint64_t)i * record.bytes, &record, HEADER);
    ring->head = ring->reserved + (uint64_t)count * record.bytes;
    return count;
}

enum mob_ring_peek mob_ring_peek(struct mob_ring_reader *ring, struct mob_record *record_out)
{
    while (ring->taken != ring->head) {
        uint64_t position = ring->taken & (ring->size - 1);
        uint64_t left = ring->head - ring->taken, contiguous = ring->size - position;
        if (contiguous < left)
            left = contiguous;
        struct mob_record record = {0};
        memcpy(&record, ring->bytes + position, left < HEADER ? PAD_HEADER : HEADER);
        if (record.bytes % 8 != 0 || record.bytes > left || record.bytes < PAD_HEADER)
            return MOB_RING_DAMAGED;
        if (record.type == MOB_REC_PAD) {
            if (record.bytes != contiguous)
                return MOB_RING_DAMAGED;
            ring->taken += record.bytes;
            continue;
        }
        if (record.bytes < HEADER || record.bytes > MOB_RECORD_MAX)
            return MOB_RING_DAMAGED;
        __builtin_prefetch(ring->bytes + position + record.bytes + MOB_RING_FETCH_AHEAD);
        *record_out = record;
        return MOB_RING_RECORD;
    }
    return MOB_RING_EMPTY;
}

bool mob_parts_add(struct mob_parts *parts, const void *body, uint32_t bytes)
{
    if (!parts->bytes)
        parts->bytes = aligned_alloc(MOB_CACHE_LINE, mob_round_up(MOB_RECORD_MAX, MOB_CACHE_LINE));
    if (!parts->bytes || bytes > MOB_RECORD_MAX - HEADER - parts->used)
        return false;
    memcpy(parts->bytes + parts->used, body, bytes);
    parts->used += bytes;
    return true;
}
