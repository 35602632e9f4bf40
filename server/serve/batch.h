/* Dynamic batching: which waiting calls run together, and when. Pure: no threads, no clock, no runtime.
 *
 *   mob_batch_add(&b, &entry, rows, now);
 *   while ((n = mob_batch_take(&b, now, entries)) > 0) run(entries, n);   // after adds, after a batch ended,
 * at the deadline mob_batch_ended(&b);
 *
 * A batch leaves when max_batch_size rows wait, or the oldest has waited max_queue_delay, or (delay 0) at
 * once, while fewer than MOB_BATCH_IN_FLIGHT_MAX run. So a busy replica collects by itself and an idle one
 * adds no delay. No call has more rows than max_batch_size. Order is kept. Calls of a batch that
 * failed may come again in halves, before all others (mob_batch_again). Limits: MOB_BATCH_QUEUE_MAX waiting
 * calls, besides those that come again, of which there are MOB_BATCH_IN_FLIGHT_MAX batches at most.
 */
#ifndef MOB_SERVER_SERVE_BATCH_H
#define MOB_SERVER_SERVE_BATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MOB_BATCH_QUEUE_MAX 4096
#define MOB_BATCH_CALLS_MAX 256
/* One runs, one waits in the worker's ring: the replica never idles between two. */
#define MOB_BATCH_IN_FLIGHT_MAX 2

struct mob_batch_entry {
    struct mob_batch_entry *next;
    uint64_t rows, shape_hash; /* only calls whose tensors agree behind the first dimension stack */
    uint64_t group; /* of one that comes again: runs with those of this number only; else 0 */
    int64_t since_ns;
};

struct mob_batcher {
    uint32_t max_batch_size;
    int64_t max_delay_ns;
    struct mob_batch_entry *head, *tail;
    size_t count;
    uint64_t rows;
    uint64_t groups; /* given so far */
    unsigned in_flight;
};

void mob_batch_init(struct mob_batcher *batcher, uint32_t max_batch_size, uint32_t max_queue_delay_us);
/* False: the queue is full. */
bool mob_batch_add(struct mob_batcher *batcher, struct mob_batch_entry *entry, uint64_t rows,
    uint64_t shape_hash, int64_t now_ns);
/* The next batch, oldest first, in `entries` (MOB_BATCH_CALLS_MAX); 0: none may leave yet. Counts as in
 * flight. */
size_t mob_batch_take(struct mob_batcher *batcher, int64_t now_ns, struct mob_batch_entry **entries);
/* Some calls of a batch that failed, in its order: they run again in two halves, before what waits and
 * without waiting for more. So whose fault it was is found in 2 log2(n) batches for each guilty one. */
void mob_batch_again(struct mob_batcher *batcher, struct mob_batch_entry *const *entries, size_t n);
/* One that waits leaves without having run. */
void mob_batch_remove(struct mob_batcher *batcher, struct mob_batch_entry *entry);
void mob_batch_ended(struct mob_batcher *batcher);
/* When to call take again if nothing happens; INT64_MAX: not by time. */
int64_t mob_batch_deadline(const struct mob_batcher *batcher);
/* Takes everything that waits, for the end. */
struct mob_batch_entry *mob_batch_drain(struct mob_batcher *batcher);

#endif
