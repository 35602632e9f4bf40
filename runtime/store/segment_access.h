/* The only way to store to the shared segment.
 *
 * Every macro is also a failpoint: in builds with MOB_SEGMENT_FAILPOINTS (all but release) each passage is
 * counted, and the process kills itself right before passage n when a test asked for it. Killing at every n
 * therefore kills between every two stores. scripts/check_segment_stores.py refuses any other store. In
 * release these are plain atomics.
 *
 * Pointers are to _Atomic fields of `struct mob_seg_*`. Copies of bulk bytes (ring records, values) are not
 * atomic: they become visible through a later release store of a cursor or tag; with failpoints they pass in
 * two halves, so that a torn copy is tested as well.
 */
#ifndef MOB_RUNTIME_STORE_SEGMENT_ACCESS_H
#define MOB_RUNTIME_STORE_SEGMENT_ACCESS_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef MOB_SEGMENT_FAILPOINTS
#define MOB_SEG_POINT() mob_segment_passage()
#else
#define MOB_SEG_POINT() ((void)0)
#endif

/* Count a passage; SIGKILL to itself when it is the one that was asked for. */
void mob_segment_passage(void);
/* 0 = off, UINT64_MAX = only count. Resets the count. Per process, not thread-safe: for single-threaded
 * tests. */
void mob_segment_kill_at(uint64_t passage);
uint64_t mob_segment_passages(void);

/* Loads never fail and never kill; named for symmetry. */
#define MOB_SEG_LOAD(p) atomic_load_explicit((p), memory_order_acquire)
#define MOB_SEG_LOAD_RELAXED(p) atomic_load_explicit((p), memory_order_relaxed)
/* In the single total order of all sequentially consistent operations: the second half of a store-then-look
 * pair. */
#define MOB_SEG_LOAD_SC(p) atomic_load_explicit((p), memory_order_seq_cst)

#define MOB_SEG_STORE(p, v) (MOB_SEG_POINT(), atomic_store_explicit((p), (v), memory_order_release))
#define MOB_SEG_STORE_RELAXED(p, v) (MOB_SEG_POINT(), atomic_store_explicit((p), (v), memory_order_relaxed))
/* Read-modify-writes are sequentially consistent: on x86 a locked instruction whatever the order says. */
#define MOB_SEG_XCHG(p, v) (MOB_SEG_POINT(), atomic_exchange_explicit((p), (v), memory_order_seq_cst))
#define MOB_SEG_ADD(p, v) (MOB_SEG_POINT(), atomic_fetch_add_explicit((p), (v), memory_order_seq_cst))
#define MOB_SEG_OR(p, v) (MOB_SEG_POINT(), atomic_fetch_or_explicit((p), (v), memory_order_seq_cst))
#define MOB_SEG_AND(p, v) (MOB_SEG_POINT(), atomic_fetch_and_explicit((p), (v), memory_order_seq_cst))
#define MOB_SEG_CAS(p, expected, v) \
    (MOB_SEG_POINT(), \
        atomic_compare_exchange_strong_explicit( \
            (p), (expected), (v), memory_order_seq_cst, memory_order_seq_cst))
#define MOB_SEG_COPY(to, from, bytes) mob_segment_copy((to), (from), (bytes))

static inline void mob_segment_copy(void *to, const void *from, size_t bytes)
{
#ifdef MOB_SEGMENT_FAILPOINTS
    size_t half = bytes / 2;
    MOB_SEG_POINT();
    memcpy(to, from, half);
    MOB_SEG_POINT();
    memcpy((char *)to + half, (const char *)from + half, bytes - half);
#else
    memcpy(to, from, bytes);
#endif
}

#endif
