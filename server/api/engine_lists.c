/* Lists of tasks and objects, newest first or by a field, out of the blocks of the control store.
 *
 * From the newest block on, a task's completion is seen before its spec, so what has ended is known when its
 * row is made. What has not is asked for at the node, all rows of a page at once (`page_end`). A page that
 * begins at a cursor has not seen the newer blocks: ends that it misses are looked for behind their specs. A
 * sorted list keeps the best rows of all blocks that come behind the page before, over the blocks that were
 * there for the first. A cursor has a place in each shard.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/hash.h"
#include "common/base/log.h"
#include "server/api/engine_list.h"

/* Rows that wait for their states before the scan goes on. */
#define CANDIDATES_MAX 1000u

/* --- taking them --- */

/* Rows of one entry, neighbours in their list? */
static bool same_entry(struct place a, struct place b)
{
    return a.shard == b.shard && a.seq == b.seq && a.incarnation == b.incarnation && a.number == b.number &&
        a.index >> PLACE_SUB_BITS == b.index >> PLACE_SUB_BITS;
}

/* How many rows, from this on, come from one entry: a page does not end between them if it can be helped, for
 * the entry may be somewhere else when the next page is read. */
static size_t rows_of_entry(const struct row *row)
{
    size_t n = 1;
    for (const struct row *next = row->next; next && same_entry(next->place, row->place); next = next->next)
        n++;
    return n;
}

static size_t wanted_rows(const struct scan *scan)
{
    return scan->flight->op->query.limit;
}

/* --- rows --- */

/* The next page begins with it, among those of its shard. */
static void leave_row(struct scan *scan, const struct row *row)
{
    struct list *list = scan->context;
    uint32_t shard = row->place.shard;
    if (!list->has_left[shard])
        list->left[shard] = row->place;
    list->has_left[shard] = scan->more = true;
}

/* The list's worst row may be better now: what is behind it need not be read. */
static void trim(struct scan *scan)
{
    struct list *list = scan->context;
    const struct mob_engine_query *query = &scan->flight->op->query;
    if (!list_trim_sorted(query, list->items))
        return;
    list_order_note(&list->order, query, list->items);
    if (list->order.by != LIST_SUBMITTED || !list->order.down || !list->order.has_last)
        return;
    for (uint32_t i = 0; i < scan->lane_count; i++)
        scan_lane_narrow(&scan->lanes[i], (int64_t)-list->order.last * 1000);
}

/* All that is to be known of these rows is known. Takes them, newest first. */
static void take_rows(struct scan *scan, struct row *rows)
{
    struct list *list = scan->context;
    for (struct row *row = rows, *next; row; row = next) {
        next = row->next;
        size_t have = json_array_size(list->items);
        bool begins = !same_entry(list->last, row->place);
        if (!scan->full && !list->sorted && begins && have > 0 &&
            have + rows_of_entry(row) > wanted_rows(scan))
            scan->full = true;
        if (scan->full) {
            leave_row(scan, row);
        } else {
            if (scan->flight->op->query.kind == MOB_ITEM_TASK)
                list_fill_state(scan, row);
            else if (list_find_deleted(list, mob_object_of(row->task, row->slot)))
                json_object_set_new(row->json, "state", json_string("lost"));
            if (mob_filter_matches(&list->all, row->json) &&
                list_comes_after(&scan->flight->op->query, &list->after, row->json))
                json_array_append(list->items, row->json);
            list->last = row->place;
            scan->full = !list->sorted && json_array_size(list->items) >= wanted_rows(scan);
        }
        if (list->sorted)
            scan_seen_drop(scan, row->task);
        list_row_free(row);
    }
    if (list->sorted)
        trim(scan);
}

/* Their turn has come, newest first. */
static void give_rows(struct scan *scan, struct row *rows)
{
    struct list *list = scan->context;
    if (!list->resumed && !list->asks_node) {
        take_rows(scan, rows);
        return;
    }
    *list->waiting_end = rows;
    for (struct row *row = rows; row; row = row->next) {
        list->waiting_end = &row->next;
        list->waiting_count++;
    }
    /* What is in excess is read again by the next page. */
    scan->full = list->waiting_count >= CANDIDATES_MAX ||
        (!list->late_terms && !list->sorted &&
            json_array_size(list->items) + list->waiting_count >= wanted_rows(scan));
}

void list_take_waiting(struct scan *scan)
{
    struct list *list = scan->context;
    struct row *rows = list->waiting;
    list->waiting = NULL;
    list->waiting_end = &list->waiting;
    list->waiting_count = 0;
    scan->full = false;
    take_rows(scan, rows);
}

static void hold_rows(struct scan_lane *lane, struct row *rows)
{
    struct list *list = lane->scan->context;
    list->held[lane->request.shard] = rows;
    lane->held = rows != NULL;
    if (!rows)
        return;
    scan_lane_move(lane, rows->place.turn_ns);
    rows->place.turn_ns = lane->time_ns;
}

/* As many as are newer than what other shards have next. */
static void take_held(struct scan *scan, struct scan_lane *lane)
{
    struct list *list = scan->context;
    struct row *rows = list->held[lane->request.shard], *last = rows;
    hold_rows(lane, last->next);
    while (lane->held && scan_is_turn_of(scan, lane)) {
        last = last->next;
        hold_rows(lane, last->next);
    }
    last->next = NULL;
    give_rows(scan, rows);
}

static void block_end(struct scan *scan, struct scan_lane *lane)
{
    struct list *list = scan->context;
    struct row *rows = list->block;
    list->block = NULL;
    list_block_end(scan);
    /* In what was flushed an end may come behind its beginning, and so it may from another shard. */
    list->resumed |= scan->recut || scan->lane_count > 1;
    if (scan->lane_count > 1 && !list->sorted)
        hold_rows(lane, rows);
    else
        give_rows(scan, rows);
}

/* --- the answer --- */

/* A sorted list is read again from where its first page began. */
static char *next_cursor(const struct scan *scan)
{
    const struct list *list = scan->context;
    struct scan_mark marks[MOB_GCS_SHARDS_MAX];
    for (uint32_t i = 0; i < scan->lane_count; i++)
        marks[i] = list->sorted ? scan->lanes[i].begin
            : list->has_left[i] ? scan_mark_at(scan, list->left[i])
            : list->held[i]     ? scan_mark_at(scan, list->held[i]->place)
                                : scan_mark_now(scan, i);
    if (list->sorted)
        return list_sorted_cursor(&scan->flight->op->query, marks, scan->lane_count, list->name, list->items);
    char *cursor = malloc(SCAN_CURSOR_MAX);
    MOB_ASSERT(cursor != NULL);
    scan_cursor_write(marks, scan->lane_count, list->name, cursor);
    return cursor;
}

static void finish_list(struct scan *scan)
{
    struct list *list = scan->context;
    struct mob_engine_query *query = &scan->flight->op->query;
    bool more = list->sorted ? list_page_of_sorted(query, list->items) : scan_has_more(scan),
         truncated = more && !list->sorted && !scan->full;
    json_t *out = mob_engine_page(query, list->items, more ? next_cursor(scan) : NULL, truncated);
    char *text = json_dumps(out, JSON_COMPACT);
    json_decref(out);
    mob_text_puts(&scan->flight->op->json, text ? text : "{}");
    free(text);
}

static void restart_list(struct scan *scan)
{
    struct list *list = scan->context;
    list_rows_free(list->block);
    list_rows_free(list->waiting);
    list->block = list->waiting = NULL;
    list->waiting_end = &list->waiting;
    list->waiting_count = 0;
    list->passed_count = list->order.block_rows = 0;
    list->order.has_last = false;
    for (uint32_t i = 0; i < MOB_GCS_SHARDS_MAX; i++) {
        list_rows_free(list->held[i]);
        list->held[i] = NULL;
    }
    memset(list->has_left, 0, sizeof list->has_left);
    json_array_clear(list->items);
}

static void destroy_list(struct scan *scan)
{
    struct list *list = scan->context;
    list_rows_free(list->block);
    list_rows_free(list->waiting);
    for (uint32_t i = 0; i < MOB_GCS_SHARDS_MAX; i++)
        list_rows_free(list->held[i]);
    list_deleted_free(list);
    json_decref(list->items);
    list_after_fini(&list->after);
    free(list);
}

static const struct scan_methods methods = {.entry = list_entry,
    .block_end = block_end,
    .take = take_held,
    .page_end = list_page_end,
    .finish = finish_list,
    .restart = restart_list,
    .destroy = destroy_list};

/* While scanning only what is in the spec can be tested. */
static void split_terms(struct list *list)
{
    static const char *const late[] = {"state", "started_us", "finished_us", "worker", "attempt", "code"};
    list->early = (struct mob_filter){0};
    for (size_t i = 0; i < list->all.count; i++) {
        bool is_late = false;
        for (size_t k = 0; k < sizeof late / sizeof *late; k++)
            is_late |= strcmp(list->all.terms[i].field, late[k]) == 0;
        if (!is_late)
            list->early.terms[list->early.count++] = list->all.terms[i];
        list->late_terms |= is_late;
    }
}

uint64_t list_name_of(const struct mob_engine_query *query)
{
    struct mob_text t = {0};
    mob_text_printf(&t, "%d\n%s\n%s", (int)query->kind, query->filter ? query->filter : "",
        query->sort ? query->sort : "");
    size_t length;
    char *text = mob_text_take(&t, &length);
    MOB_ASSERT(text != NULL);
    uint64_t name = mob_hash64(text, length);
    free(text);
    return name;
}

static bool read_cursor(struct scan *scan, const char *cursor)
{
    struct list *list = scan->context;
    struct scan_mark marks[MOB_GCS_SHARDS_MAX];
    bool read = list->sorted
        ? list_sorted_cursor_read(cursor, marks, scan->lane_count, list->name, &list->after)
        : scan_cursor_read(cursor, list->name, marks, scan->lane_count);
    if (!read)
        return false;
    scan_begin_at(scan, marks);
    list->resumed = !list->sorted;
    return true;
}

/* A task's spec and its end stand in blocks of their times. Ends that come later than the filter wants the
 * tasks to be submitted are looked for behind their specs, when the task took longer than this. */
#define TIME_MARGIN_US (60 * 1000000ll)
/* Microseconds of which the nanoseconds are a number. */
#define TIME_MAX_US (INT64_MAX / 1000 - TIME_MARGIN_US)

/* What is read of the log, by the filter's times. */
static void bound_times(struct scan *scan)
{
    const struct list *list = scan->context;
    int64_t from_us = TIME_MARGIN_US, to_us = TIME_MAX_US, any = 0;
    if (scan->flight->op->query.kind != MOB_ITEM_TASK)
        return;
    mob_filter_bounds(&list->all, "submitted_us", &from_us, &to_us);
    mob_filter_bounds(&list->all, "finished_us", &any, &to_us);
    if (from_us == TIME_MARGIN_US && to_us == TIME_MAX_US)
        return;
    from_us = from_us < TIME_MAX_US ? from_us : TIME_MAX_US;
    to_us = to_us > 0 ? to_us : 0;
    scan->request.from_wall_ns = (from_us - TIME_MARGIN_US) * 1000;
    scan->request.to_wall_ns = to_us == TIME_MAX_US ? INT64_MAX : (to_us + TIME_MARGIN_US) * 1000;
}

void engine_list_tasks(struct flight *flight)
{
    if (!engine_list_children(flight))
        engine_list_log(flight);
}

void engine_list_log(struct flight *flight)
{
    struct mob_engine_query *query = &flight->op->query;
    if (engine_list_failures(flight))
        return;
    struct list *list = calloc(1, sizeof *list);
    MOB_ASSERT(list != NULL);
    list->name = list_name_of(query);
    list->waiting_end = &list->waiting;
    list->items = json_array();
    list->sorted = query->sort && *query->sort;
    list->asks_node = query->kind == MOB_ITEM_TASK;
    struct scan *scan = scan_create(flight, &methods, list);
    if (mob_filter_parse(query->filter, &list->all) != MOB_OK) {
        scan_refuse(scan, MOB_BAD_REQUEST, "a filter is field:value [AND field:value]...");
        return;
    }
    if (query->cursor && !read_cursor(scan, query->cursor)) {
        scan_refuse(scan, MOB_BAD_REQUEST, "cursor: not one that this list gave; begin without one");
        return;
    }
    split_terms(list);
    for (size_t i = 0; i < list->all.count; i++)
        if (strcmp(list->all.terms[i].field, "job") == 0)
            (void)!mob_job_id_parse(list->all.terms[i].value, &scan->request.job);
    scan->request.newest_first = true;
    if (!list->sorted) {
        scan_start(scan);
        return;
    }
    list_order_begin(list, query);
    bound_times(scan);
    scan_start_whole(scan);
}
