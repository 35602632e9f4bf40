#include "server/api/trace_lanes.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"

static int compare(int64_t a, int64_t b)
{
    return (a > b) - (a < b);
}

/* --- spans lie within their tasks --- */

static int by_task(const void *a, const void *b)
{
    const struct trace_item *x = *(struct trace_item *const *)a, *y = *(struct trace_item *const *)b;
    int order = memcmp(&x->task, &y->task, sizeof x->task);
    return order ? order : x->slice.is_span - y->slice.is_span; /* the task first */
}

static void cut(struct trace_slice *span, const struct trace_slice *task)
{
    int64_t early_us = task->begin_us - span->begin_us, late_us = span->end_us - task->end_us;
    bool is_of_it = early_us <= TRACE_SLACK_US && late_us <= TRACE_SLACK_US &&
        span->begin_us <= task->end_us && span->end_us >= task->begin_us;
    if (!is_of_it) /* of another attempt */
        return;
    if (early_us > 0)
        span->begin_us = task->begin_us;
    if (late_us > 0)
        span->end_us = task->end_us;
}

static void cut_spans(struct trace_item **slices, size_t count)
{
    qsort(slices, count, sizeof *slices, by_task);
    for (size_t i = 0, first = 0; i < count; i++) {
        if (!mob_task_id_eq(slices[i]->task, slices[first]->task))
            first = i;
        for (size_t t = first; slices[i]->slice.is_span && t < i && !slices[t]->slice.is_span; t++)
            cut(&slices[i]->slice, &slices[t]->slice);
    }
}

/* --- lanes --- */

/* What of a lane has not ended: each within the one before it. */
struct lane {
    int64_t *ends;
    size_t count, capacity;
};

static bool takes(struct lane *lane, const struct trace_slice *slice)
{
    while (lane->count > 0 && lane->ends[lane->count - 1] <= slice->begin_us)
        lane->count--;
    return lane->count == 0 || lane->ends[lane->count - 1] >= slice->end_us;
}

static void open_slice(struct lane *lane, const struct trace_slice *slice)
{
    if (lane->count == lane->capacity) {
        lane->capacity = lane->capacity ? 2 * lane->capacity : 16;
        lane->ends = realloc(lane->ends, lane->capacity * sizeof *lane->ends);
        MOB_ASSERT(lane->ends != NULL);
    }
    lane->ends[lane->count++] = slice->end_us;
}

static void place(struct lane *lanes, struct trace_slice *slice)
{
    uint32_t at = 0;
    while (!takes(&lanes[at], slice) && slice->is_span && at < TRACE_LANES_MAX - 1)
        at++;
    slice->lane = at;
    open_slice(&lanes[at], slice);
}

static int by_track(const void *a, const void *b)
{
    const struct trace_slice *x = &(*(struct trace_item *const *)a)->slice,
                             *y = &(*(struct trace_item *const *)b)->slice;
    if (x->incarnation != y->incarnation)
        return x->incarnation < y->incarnation ? -1 : 1;
    if (x->worker != y->worker)
        return x->worker < y->worker ? -1 : 1;
    int order = compare(x->begin_us, y->begin_us);
    if (order == 0)
        order = compare(y->end_us, x->end_us); /* the longer one is around the other; */
    return order ? order : x->is_span - y->is_span; /* a task is around its span */
}

static bool is_same_track(const struct trace_slice *a, const struct trace_slice *b)
{
    return a->incarnation == b->incarnation && a->worker == b->worker;
}

static void place_all(struct trace_item **slices, size_t count)
{
    struct lane lanes[TRACE_LANES_MAX] = {0};
    qsort(slices, count, sizeof *slices, by_track);
    for (size_t i = 0; i < count; i++) {
        bool begins = i == 0 || !is_same_track(&slices[i]->slice, &slices[i - 1]->slice);
        for (size_t l = 0; begins && l < TRACE_LANES_MAX; l++)
            lanes[l].count = 0;
        place(lanes, &slices[i]->slice);
    }
    for (size_t l = 0; l < TRACE_LANES_MAX; l++)
        free(lanes[l].ends);
}

void trace_lanes_assign(struct trace_items *items)
{
    struct trace_item **slices = malloc((items->count + 1) * sizeof *slices);
    MOB_ASSERT(slices != NULL);
    size_t count = 0;
    for (size_t i = 0; i < items->count; i++)
        if (items->items[i].is_slice)
            slices[count++] = &items->items[i];
    cut_spans(slices, count);
    place_all(slices, count);
    free(slices);
}
