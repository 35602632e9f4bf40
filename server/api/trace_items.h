/* What a timeline shows, each item's text in one buffer, until it is known which are the newest.
 *
 *   trace_items_begin(items, text, end_us);  write the item into `text`;  trace_items_end(items, text);
 *   trace_items_keep_newest(items, limit);   trace_items_compose(items, text);
 *
 * A slice (a task, or a named span in one) says where it lies (trace_items_slice), and the text of a span
 * ends behind its arguments: its times and its track are written at the end, when its lane is known
 * (trace_lanes.h).
 *
 * An item whose name is not known when it is written says where the name goes (trace_items_name_here), and
 * gets it later. One thread.
 */
#ifndef MOB_SERVER_API_TRACE_ITEMS_H
#define MOB_SERVER_API_TRACE_ITEMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/id.h"
#include "server/http/text.h"

struct trace_slice {
    uint64_t incarnation;
    uint32_t worker;
    uint32_t lane; /* of the worker's tracks */
    int64_t begin_us, end_us;
    bool is_span; /* within a task */
};

struct trace_item {
    int64_t time_us; /* when it ended */
    size_t begin, end; /* of its text */
    size_t name_at; /* where its name is to be put in; 0: it is there */
    struct mob_task_id task; /* whose name that is, and of a slice */
    char *name; /* NULL: not known */
    bool is_slice;
    struct trace_slice slice;
};

struct trace_items {
    struct trace_item *items; /* in the order of their texts */
    size_t count, capacity;
};

void trace_items_begin(struct trace_items *items, const struct mob_text *text, int64_t time_us);
/* Of the item that was begun: its name, of this task, belongs here. */
void trace_items_name_here(struct trace_items *items, const struct mob_text *text, struct mob_task_id task);
/* Of the item that was begun: it is this slice, of this task. */
void trace_items_slice(struct trace_items *items, struct mob_task_id task, const struct trace_slice *slice);
void trace_items_end(struct trace_items *items, const struct mob_text *text);
/* Leaves the `limit` newest, in their order. True: some went; then `oldest_us_out` is the time of the oldest
 * that is left. */
bool trace_items_keep_newest(struct trace_items *items, size_t limit, int64_t *oldest_us_out);
/* The items with commas between them, behind what is in `out`. */
void trace_items_compose(const struct trace_items *items, const struct mob_text *text, struct mob_text *out);
/* Empties it. */
void trace_items_fini(struct trace_items *items);

#endif
