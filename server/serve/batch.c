#include "server/serve/batch.h"

void mob_batch_init(struct mob_batcher *batcher, uint32_t max_batch_size, uint32_t max_queue_delay_us)
{
    *batcher = (struct mob_batcher){.max_batch_size = max_batch_size > 0 ? max_batch_size : 1,
        .max_delay_ns = (int64_t)max_queue_delay_us * 1000};
}

bool mob_batch_add(struct mob_batcher *batcher, struct mob_batch_entry *entry, uint64_t rows,
    uint64_t shape_hash, int64_t now_ns)
{
    if (batcher->count >= MOB_BATCH_QUEUE_MAX)
        return false;
    *entry = (struct mob_batch_entry){.rows = rows, .shape_hash = shape_hash, .since_ns = now_ns};
    if (batcher->tail)
        batcher->tail->next = entry;
    else
        batcher->head = entry;
    batcher->tail = entry;
    batcher->count++;
    batcher->rows += rows;
    return true;
}

static bool may_leave(const struct mob_batcher *batcher, int64_t now_ns)
{
    if (!batcher->head || batcher->in_flight >= MOB_BATCH_IN_FLIGHT_MAX)
        return false;
    if (batcher->head->group || batcher->rows >= batcher->max_batch_size)
        return true;
    if (batcher->max_delay_ns > 0)
        return now_ns - batcher->head->since_ns >= batcher->max_delay_ns;
    /* Without a delay a part of a batch leaves only to an idle replica; behind a running batch it goes on
     * filling. */
    return batcher->in_flight == 0;
}

size_t mob_batch_take(struct mob_batcher *batcher, int64_t now_ns, struct mob_batch_entry **entries)
{
    if (!may_leave(batcher, now_ns))
        return 0;
    size_t n = 0;
    uint64_t rows = 0;
    while (batcher->head && n < MOB_BATCH_CALLS_MAX) {
        struct mob_batch_entry *entry = batcher->head;
        bool fits = n == 0 ||
            (rows + entry->rows <= batcher->max_batch_size && entry->shape_hash == entries[0]->shape_hash &&
                entry->group == entries[0]->group);
        if (!fits)
            break;
        entries[n++] = entry;
        rows += entry->rows;
        batcher->head = entry->next;
    }
    if (!batcher->head)
        batcher->tail = NULL;
    batcher->count -= n;
    batcher->rows -= rows;
    batcher->in_flight++;
    return n;
}

static void put_first(struct mob_batcher *batcher, struct mob_batch_entry *const *entries, size_t n)
{
    uint64_t group = ++batcher->groups;
    for (size_t i = n; i-- > 0;) {
        entries[i]->group = group;
        entries[i]->next = batcher->head;
        batcher->head = entries[i];
        if (!batcher->tail)
            batcher->tail = entries[i];
        batcher->count++;
        batcher->rows += entries[i]->rows;
    }
}

void mob_batch_again(struct mob_batcher *batcher, struct mob_batch_entry *const *entries, size_t n)
{
    size_t half = n / 2;
    put_first(batcher, entries + half, n - half);
    put_first(batcher, entries, half);
}

void mob_batch_remove(struct mob_batcher *batcher, struct mob_batch_entry *entry)
{
    struct mob_batch_entry *before = NULL;
    for (struct mob_batch_entry **at = &batcher->head; *at; before = *at, at = &before->next) {
        if (*at != entry)
            continue;
        *at = entry->next;
        if (batcher->tail == entry)
            batcher->tail = before;
        batcher->count--;
        batcher->rows -= entry->rows;
        return;
    }
}

void mob_batch_ended(struct mob_batcher *batcher)
{
    batcher->in_flight--;
}

int64_t mob_batch_deadline(const struct mob_batcher *batcher)
{
    if (!batcher->head || batcher->max_delay_ns == 0 || batcher->in_flight >= MOB_BATCH_IN_FLIGHT_MAX)
        return INT64_MAX;
    return batcher->head->since_ns + batcher->max_delay_ns;
}

struct mob_batch_entry *mob_batch_drain(struct mob_batcher *batcher)
{
    struct mob_batch_entry *all = batcher->head;
    batcher->head = batcher->tail = NULL;
    batcher->count = 0;
    batcher->rows = 0;
    return all;
}
