/* The only way to store to the shared segment.
 *
 * Every macro is also a failpoint: in builds with MOB_SEGMENT_FAILPOINTS (all but release) each passage is
 * counted, and the process kills itself right before passage n when a test asked for it. Killing at every n
 * therefore kills between every two stores. Each place in the source that stores is a site, known to the
 * linker, so that a test can say which ones it never passed. scripts/check_segment_stores.py refuses any
 * other store. In release these are plain atomics.
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

/* A place in the source that stores to the segment. */
struct mob_segment_site {
    const char *file, *function;
    int line;
    uint64_t passages; /* since mob_segment_kill_at; 0 unless that was called */
};

#ifdef MOB_SEGMENT_FAILPOINTS
/* The section holds a pointer to each site, and the linker names its two ends: mob_segment_sites. */
#define MOB_SEG_POINT() \
    __extension__({ \
        static struct mob_segment_site site_ = {__FILE__, __func__, __LINE__, 0}; \
        static struct mob_segment_site *const site_at_ __attribute__((section("mob_seg_sites"), used)) = \
            &site_; \
        mob_segment_passage(&site_); \
    })
#else
#define MOB_SEG_POINT() ((void)0)
#endif

/* Count a passage; SIGKILL to itself when it is the one that was asked for. */
void mob_segment_passage(struct mob_segment_site *site);
/* 0 = off, UINT64_MAX = only count. Resets the counts. All of these: per process, not thread-safe, for
 * single-threaded tests. */
void mob_segment_kill_at(uint64_t passage);
/* The same with SIGSTOP: whoever started it acts, and then kills it. */
void mob_segment_stop_at(uint64_t passage);
uint64_t mob_segment_passages(void);
/* While passages are counted, `rival` runs right before each of them, but for those that it makes itself:
 * what another client could do at that moment. NULL = none. */
void mob_segment_set_rival(void (*rival)(const struct mob_segment_site *site, void *arg), void *arg);
/* All sites of this program, in no order. *count_out = 0 in builds without failpoints. */
struct mob_segment_site *const *mob_segment_sites(size_t *count_out);

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

#ifdef MOB_SEGMENT_FAILPOINTS
#define MOB_SEG_COPY(to, from, bytes) \
    do { \
        char *const to_ = (char *)(to); \
        const char *const from_ = (const char *)(from); \
        const size_t bytes_ = (bytes), half_ = bytes_ / 2; \
        MOB_SEG_POINT(); \
        memcpy(to_, from_, half_); \
        MOB_SEG_POINT(); \
        memcpy(to_ + half_, from_ + half_, bytes_ - half_); \
    } while (0)
#else
#define MOB_SEG_COPY(to, from, bytes) memcpy((to), (from), (bytes))
#endif

#endif
