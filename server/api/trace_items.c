#include "server/api/trace_items.h"
#include "server/api/trace_tracks.h"

#include <stdlib.h>

#include "common/base/log.h"

void trace_items_begin(struct trace_items *items, const struct mob_text *text, int64_t time_us)
{
    if (items->count == items->capacity) {
        items->capacity = items->capacity ? 2 * items->capacity : 256;
        items->items = realloc(items->items, items->capacity * sizeof *items->items);
        MOB_ASSERT(items->items != NULL);
    }
    items->items[items->count++] = (struct trace_item){.time_us = time_us, .begin = text->length};
}

void trace_items_name_here(struct trace_items *items, const struct mob_text *text, struct mob_task_id task)
{
    struct trace_item *last = &items->items[items->count - 1];
    last->name_at = text->length;
    last->task = task;
}

void trace_items_slice(struct trace_items *items, struct mob_task_id task, const struct trace_slice *slice)
{
    struct trace_item *last = &items->items[items->count - 1];
    last->task = task;
    last->slice = *slice;
    last->is_slice = true;
}

void trace_items_end(struct trace_items *items, const struct mob_text *text)
{
    items->items[items->count - 1].end = text->length;
}

static int newest_first(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x < y) - (x > y);
}

/* The time of the item that is number `limit` from the newest on; `at_bound_out`: how many of that time are
 * among the `limit` newest. */
static int64_t bound_of(const struct trace_items *items, size_t limit, size_t *at_bound_out)
{
    int64_t *times = malloc(items->count * sizeof *times);
    MOB_ASSERT(times != NULL);
    for (size_t i = 0; i < items->count; i++)
        times[i] = items->items[i].time_us;
    qsort(times, items->count, sizeof *times, newest_first);
    int64_t bound = times[limit - 1];
    size_t newer = limit;
    while (newer > 0 && times[newer - 1] == bound)
        newer--;
    free(times);
    *at_bound_out = limit - newer;
    return bound;
}

bool trace_items_keep_newest(struct trace_items *items, size_t limit, int64_t *oldest_us_out)
{
    if (items->count <= limit)
        return false;
    size_t at_bound, kept = 0;
    int64_t bound = bound_of(items, limit, &at_bound);
    for (size_t i = 0; i < items->count; i++) {
        struct trace_item *item = &items->items[i];
        bool keep = item->time_us > bound || (item->time_us == bound && at_bound > 0);
        at_bound -= keep && item->time_us == bound;
        if (keep)
            items->items[kept++] = *item;
        else
            free(item->name);
    }
    items->count = kept;
    *oldest_us_out = bound;
    return true;
}

static void write_place(const struct trace_slice *slice, struct mob_text *out)
{
    mob_text_printf(out, ",\"ts\":%lld,\"dur\":%lld,\"tid\":%u}", (long long)slice->begin_us,
        (long long)(slice->end_us - slice->begin_us), trace_track_of(slice->worker, slice->lane));
}

void trace_items_compose(const struct trace_items *items, const struct mob_text *text, struct mob_text *out)
{
    for (size_t i = 0; i < items->count; i++) {
        const struct trace_item *item = &items->items[i];
        size_t at = item->begin;
        if (i > 0)
            mob_text_puts(out, ",\n");
        if (item->name_at) {
            mob_text_put(out, text->bytes + at, item->name_at - at);
            mob_text_json_cstring(out, item->name ? item->name : "task");
            at = item->name_at;
        }
        mob_text_put(out, text->bytes + at, item->end - at);
        if (item->is_slice && item->slice.is_span)
            write_place(&item->slice, out);
    }
}

void trace_items_fini(struct trace_items *items)
{
    for (size_t i = 0; i < items->count; i++)
        free(items->items[i].name);
    free(items->items);
    *items = (struct trace_items){0};
}
