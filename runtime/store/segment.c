#include "runtime/store/store_internal.h"

#include <sched.h>
#include <sys/mman.h>
#include <time.h>

#include "common/base/bytes.h"
#include "common/base/clock.h"

bool mob_view_layout(
    struct mob_view *view, uint8_t *base, uint64_t bytes, uint32_t clients_max, uint32_t entries)
{
    /* Power of two, at least one window: a window then never meets itself. */
    if (entries < MOB_GROUP_ENTRIES * MOB_WINDOW_GROUPS || (entries & (entries - 1)) != 0)
        return false;
    if (clients_max == 0 || clients_max > MOB_STORE_CLIENTS_MAX || entries > 1u << 28)
        return false;
    uint64_t at = mob_round_up(sizeof(struct mob_seg_header), 4096);
    uint64_t clients_at = at;
    at += mob_round_up((uint64_t)clients_max * sizeof(struct mob_seg_client), 4096);
    uint64_t home_at = at;
    at += mob_round_up((uint64_t)entries / MOB_GROUP_ENTRIES * 4, 4096);
    uint64_t tags_at = at;
    at += mob_round_up((uint64_t)entries * 4, 4096);
    uint64_t map_at = at;
    at += mob_round_up(bytes / MOB_UNIT_BYTES * 4, 4096);
    uint64_t table_at = at;
    at += (uint64_t)entries * sizeof(struct mob_seg_entry);
    uint64_t arena_at = mob_round_up(at, MOB_UNIT_BYTES);
    if (arena_at + 4 * (uint64_t)MOB_UNIT_BYTES > bytes || bytes / MOB_UNIT_BYTES >= MOB_UNIT_CHUNK_INIT)
        return false;
    *view = (struct mob_view){
        .base = base,
        .bytes = bytes,
        .clients_max = clients_max,
        .entries = entries,
        .units = (uint32_t)((bytes - arena_at) / MOB_UNIT_BYTES),
        .group_mask = entries / MOB_GROUP_ENTRIES - 1,
        .seg_header = (struct mob_seg_header *)base,
        .seg_clients = (struct mob_seg_client *)(base + clients_at),
        .seg_home = (struct mob_seg_word *)(base + home_at),
        .seg_tags = (struct mob_seg_word *)(base + tags_at),
        .unit_map = (struct mob_seg_word *)(base + map_at),
        .seg_table = (struct mob_seg_entry *)(base + table_at),
        .arena_offset = arena_at,
    };
    return true;
}

enum { GUARD_BYTES = MOB_UNIT_BYTES, HUGE_BYTES = 2 << 20 };

/* Between two unreadable stretches: an offset that slipped through the checks faults instead of reading a
 * neighbour. Begins where a huge page may, in every process: only there can one be mapped as a whole. */
uint8_t *mob_segment_map(int memfd, uint64_t bytes)
{
    uint64_t guarded = bytes + 2 * GUARD_BYTES;
    uint8_t *reserved =
        mmap(NULL, guarded + HUGE_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (reserved == MAP_FAILED)
        return NULL;
    uint64_t skipped =
        mob_round_up((uintptr_t)reserved + GUARD_BYTES, HUGE_BYTES) - GUARD_BYTES - (uintptr_t)reserved;
    uint8_t *guard = reserved + skipped;
    if (skipped)
        munmap(reserved, skipped);
    if (skipped < HUGE_BYTES)
        munmap(guard + guarded, HUGE_BYTES - skipped);
    void *base = mmap(guard + GUARD_BYTES, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, memfd, 0);
    if (base != MAP_FAILED)
        return base;
    munmap(guard, guarded);
    return NULL;
}

void mob_segment_unmap(uint8_t *base, uint64_t bytes)
{
    munmap(base - GUARD_BYTES, bytes + 2 * GUARD_BYTES);
}

#ifndef MADV_COLLAPSE
enum { MADV_COLLAPSE = 25 }; /* Linux 6.1, which the C library's headers may be older than */
#endif

/* Entries, slabs and rings are looked up all over the segment, so with pages of 4 KiB most look-ups wait for
 * the translation of an address as well. Asked for here, since what the kernel does unasked is mostly no huge
 * pages for shared memory. A stretch without any page is refused, hence the one that is touched first; what
 * it holds already is kept. */
static bool touch_as_huge(uint8_t *at)
{
    return madvise(at, 4096, MADV_POPULATE_WRITE) == 0 && madvise(at, HUGE_BYTES, MADV_COLLAPSE) == 0;
}

static void pause_for(int64_t ns)
{
    nanosleep(&(struct timespec){ns / MOB_SEC, ns % MOB_SEC}, NULL);
}

/* What everybody looks into at random lies there: tables, rings, slabs. A huge page takes 0.5 to 4 ms to
 * make, so the rest of a large segment, for large objects, does without. */
static const uint64_t huge_arena_bytes = 128u << 20;
static const int64_t pause_max_ns = MOB_SEC / 100;
enum { REFUSALS_MAX = 8 };

/* First touch costs 3 us a page, so it is not done on anybody's path: metadata first, then units in the order
 * in which allocation takes them. Populating changes no byte, so it needs no agreement with whoever already
 * writes there. While a huge page is put in place, whoever touches a byte of it waits for this thread, so
 * that is done with the usual priority and with pauses; the rest takes only what nobody else wants. */
void *mob_segment_prefault_main(void *arg)
{
    struct mob_prefault *prefault = arg;
    const struct mob_view *view = prefault->view;
    const uint64_t huge_end = view->arena_offset + huge_arena_bytes;
    bool idle = false;
    int refusals = 0;
    for (uint64_t at = 0; at < view->bytes && !MOB_SEG_LOAD(&prefault->stop); at += HUGE_BYTES) {
        uint64_t length = view->bytes - at < HUGE_BYTES ? view->bytes - at : HUGE_BYTES;
        if (!idle && (at >= huge_end || length < HUGE_BYTES || refusals == REFUSALS_MAX)) {
            (void)sched_setscheduler(0, SCHED_IDLE, &(struct sched_param){0});
            idle = true;
        }
        int64_t began = mob_now();
        if (!idle && !touch_as_huge(view->base + at))
            refusals++;
        if (madvise(view->base + at, length, MADV_POPULATE_WRITE) != 0)
            break; /* an old kernel, or no memory: pages come when they are used */
        uint64_t end = at + length;
        if (end > view->arena_offset)
            MOB_SEG_STORE(
                &view->seg_header->warm_units, (uint32_t)((end - view->arena_offset) / MOB_UNIT_BYTES));
        int64_t took = mob_now() - began;
        if (!idle)
            pause_for(took < pause_max_ns ? took : pause_max_ns);
    }
    return NULL;
}
