/* Lists of tasks and objects, newest first or by a field, out of the blocks of the control store.
 *
 * From the newest block on, a task's completion is seen before its spec, so what has ended is known when its
 * row is made. What has not is asked for at the node, all rows of a page at once (`page_end`). A page that
 * begins at a cursor has not seen the newer blocks: ends that it misses are looked up a group at a time. A
 * sorted list keeps the best rows of all blocks in reach; its pages go on by number, over the blocks that
 * were there for the first. A cursor has a place in each shard.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/hash.h"
#include "common/base/log.h"
#include "server/api/engine_reading.h"
#include "server/api/engine_scan.h"
#include "server/api/filter.h"
#include "server/api/task_row.h"

/* Rows of a sorted list that can be paged through. */
#define SORTED_MAX 10000u
/* Rows that wait for their states before the scan goes on. */
#define CANDIDATES_MAX 1000u

struct row {
    struct row *next; /* older */
    struct place place;
    struct mob_task_id task;
    uint32_t slot; /* of an object */
    uint8_t live; /* enum mob_live_state: of a task whose end was not seen, the node's word */
    json_t *json;
};

/* An object that a newer block says is deleted. */
struct deleted {
    struct deleted *next;
    struct mob_object_id id;
};
#define DELETED_BUCKETS 256u

struct list {
    struct mob_filter early, all; /* what can be tested on a row without its state; everything */
    bool late_terms, sorted, resumed;
    bool asks_node; /* rows of tasks: those without an end are asked for at the node */
    uint64_t name; /* of this list among lists: what its cursors are bound to */
    uint32_t skip; /* of a sorted list */
    struct row *block; /* rows of the block that is read, newest first */
    struct row *held[MOB_GCS_SHARDS_MAX]; /* of each shard's last block, newest first: not their turn yet */
    struct row *waiting, **waiting_end; /* for their states, newest first */
    size_t waiting_count;
    struct deleted *deleted[DELETED_BUCKETS];
    json_t *items;
    struct place last; /* of the last row that was looked at */
    struct place left[MOB_GCS_SHARDS_MAX]; /* the newest row that was not, where has_left says so */
    bool has_left[MOB_GCS_SHARDS_MAX];
};

static void row_free(struct row *row)
{
    json_decref(row->json);
    free(row);
}

static void rows_free(struct row *rows)
{
    for (struct row *row = rows, *next; row; row = next) {
        next = row->next;
        row_free(row);
    }
}

/* --- making rows --- */

static void add_row(
    struct scan *scan, json_t *json, struct mob_object_id id, struct place place, int64_t turn_ns)
{
    struct list *list = scan->context;
    if (!scan_is_behind(scan, place) || !mob_filter_matches(&list->early, json)) {
        json_decref(json);
        return;
    }
    struct row *row = malloc(sizeof *row);
    MOB_ASSERT(row != NULL);
    *row = (struct row){.next = list->block, .place = place, .task = id.task, .slot = id.slot, .json = json};
    row->place.turn_ns = turn_ns;
    list->block = row; /* entries come oldest first, so the newest is in front */
}

static void note_completion(
    struct scan *scan, const struct mob_entry *entry, const struct mob_block_header *header)
{
    const struct mob_completion_head *c = &entry->completion.head;
    struct seen *s = scan_seen(scan, c->task, true);
    if (s->final)
        return;
    s->final = c->flags & MOB_COMPLETION_FINAL;
    s->status = c->status;
    s->worker = c->worker;
    s->attempt = c->attempt;
    s->started_us = scan_wall_us(header, c->started_ns);
    s->finished_us = scan_wall_us(header, c->finished_ns);
}

static void task_entry(struct scan *scan, const struct mob_entry *entry,
    const struct mob_block_header *header, struct place place)
{
    if (entry->type == MOB_ENTRY_COMPLETION)
        note_completion(scan, entry, header);
    if (entry->type != MOB_ENTRY_SPEC || entry->spec.head.attempt > 1)
        return;
    const struct mob_spec_head *head = &entry->spec.head;
    char name[640];
    scan_full_name(scan, head->function, head->kind, head->method, name, sizeof name);
    int64_t submitted_us = scan_wall_us(header, entry->submitted_ns);
    json_t *row = task_row(name, head, entry->spec.tail, header->job, submitted_us);
    add_row(scan, row, mob_object_of(head->task, 0), place, scan_turn_ns(header, submitted_us * 1000));
}

static void object_row(struct scan *scan, const struct mob_block_header *header, struct place place,
    struct mob_object_id object, const char *state, const struct mob_return_view *ret, int64_t made_us)
{
    char id[MOB_ID_TEXT_MAX], task[MOB_ID_TEXT_MAX], job[MOB_ID_TEXT_MAX];
    add_row(scan,
        json_pack("{s:s,s:s,s:s,s:s,s:s,s:I}", "id", mob_object_id_format(object, id), "task",
            mob_task_id_format(object.task, task), "job", mob_job_id_format(header->job, job), "state", state,
            "type", mob_value_type_name(ret->type), "size", (json_int_t)ret->size),
        object, place, scan_turn_ns(header, made_us * 1000));
}

static struct deleted *find_deleted(const struct list *list, struct mob_object_id id)
{
    struct deleted *d = list->deleted[(mob_task_id_mix(id.task) ^ id.slot) % DELETED_BUCKETS];
    while (d && !mob_object_id_eq(d->id, id))
        d = d->next;
    return d;
}

static void note_deleted(struct list *list, struct mob_object_id id)
{
    if (find_deleted(list, id))
        return;
    struct deleted **bucket = &list->deleted[(mob_task_id_mix(id.task) ^ id.slot) % DELETED_BUCKETS];
    struct deleted *d = malloc(sizeof *d);
    MOB_ASSERT(d != NULL);
    *d = (struct deleted){*bucket, id};
    *bucket = d;
}

static void object_entry(struct scan *scan, const struct mob_entry *entry,
    const struct mob_block_header *header, struct place place)
{
    struct mob_return_view ret;
    uint32_t at = 0;
    switch ((int)entry->type) {
    case MOB_ENTRY_PUT:
        if (entry->put.flags & MOB_PUT_DELETED)
            note_deleted(scan->context, entry->put.id);
        else if ((entry->put.id.slot & MOB_SLOT_ARG_PAGE) == MOB_SLOT_PUT)
            object_row(scan, header, place, entry->put.id, "ready",
                &(struct mob_return_view){
                    .type = (enum mob_value_type)entry->put.type, .size = entry->put.size},
                header->wall_ns / 1000);
        break;
    case MOB_ENTRY_YIELD:
        object_row(scan, header, place, mob_object_of(entry->yield.task, entry->yield.item), "ready",
            &entry->ret, header->wall_ns / 1000);
        break;
    case MOB_ENTRY_COMPLETION:
        for (; entry->completion.head.flags & MOB_COMPLETION_FINAL &&
             mob_completion_next(&entry->completion, &at, &ret);
             place.index++)
            object_row(scan, header, place, mob_object_of(entry->completion.head.task, ret.slot),
                entry->completion.head.status == MOB_OK ? "ready" : "failed", &ret,
                scan_wall_us(header, entry->completion.head.finished_ns));
        break;
    default:
        break;
    }
}

static void list_entry(struct scan *scan, const struct mob_entry *entry,
    const struct mob_block_header *header, struct place place)
{
    if (scan->flight->op->query.kind == MOB_ITEM_TASK)
        task_entry(scan, entry, header, place);
    else
        object_entry(scan, entry, header, place);
}

/* --- taking them --- */

static void fill_state(struct scan *scan, const struct row *row)
{
    const struct seen *s = scan_seen(scan, row->task, false);
    json_t *json = row->json;
    if (!s || !s->final) {
        static const char *const texts[MOB_LIVE_STATES] = {
            "submitted", "waiting", "delayed", "ready", "running", "blocked", "continued"};
        json_object_set_new(json, "state", json_string(texts[row->live < MOB_LIVE_STATES ? row->live : 0]));
        return;
    }
    task_row_end(json,
        &(struct task_row_end){.status = (enum mob_status)s->status,
            .worker = s->worker,
            .attempt = s->attempt,
            .started_us = s->started_us,
            .finished_us = s->finished_us});
}

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
    const struct list *list = scan->context;
    return scan->flight->op->query.limit + list->skip;
}

/* The best rows stay; now and then the rest is thrown away. */
static void trim_sorted(struct scan *scan, size_t over)
{
    struct list *list = scan->context;
    size_t most = wanted_rows(scan) + 1; /* one more says that there are more */
    if (json_array_size(list->items) <= most + over)
        return;
    mob_json_sort(list->items, scan->flight->op->query.sort);
    while (json_array_size(list->items) > most)
        json_array_remove(list->items, json_array_size(list->items) - 1);
}

/* The next page begins with it, among those of its shard. */
static void leave_row(struct scan *scan, const struct row *row)
{
    struct list *list = scan->context;
    uint32_t shard = row->place.shard;
    if (!list->has_left[shard])
        list->left[shard] = row->place;
    list->has_left[shard] = scan->more = true;
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
                fill_state(scan, row);
            else if (find_deleted(list, mob_object_of(row->task, row->slot)))
                json_object_set_new(row->json, "state", json_string("lost"));
            if (mob_filter_matches(&list->all, row->json))
                json_array_append(list->items, row->json);
            list->last = row->place;
            scan->full = !list->sorted && json_array_size(list->items) >= wanted_rows(scan);
        }
        row_free(row);
    }
    if (list->sorted)
        trim_sorted(scan, 4 * CANDIDATES_MAX);
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
    /* In what was flushed an end may come behind its beginning, and so it may from another shard. */
    list->resumed |= scan->recut || scan->lane_count > 1;
    if (scan->lane_count > 1 && !list->sorted)
        hold_rows(lane, rows);
    else
        give_rows(scan, rows);
}

/* --- states that newer blocks hold --- */

static void note_record(struct scan *scan, const struct task_record *record)
{
    struct seen *s = scan_seen(scan, record->id, true);
    const struct mob_completion_head *c = &record->completion;
    if (s->final || !record->has_completion)
        return;
    s->final = c->flags & MOB_COMPLETION_FINAL;
    s->status = c->status;
    s->worker = c->worker;
    s->attempt = c->attempt;
    s->started_us = c->started_ns ? (c->started_ns + record->wall_minus_mono_ns) / 1000 : 0;
    s->finished_us = c->finished_ns ? (c->finished_ns + record->wall_minus_mono_ns) / 1000 : 0;
}

/* A newer block may have to say something of this row. */
static bool is_open(struct scan *scan, const struct row *row)
{
    if (scan->flight->op->query.kind != MOB_ITEM_TASK)
        return row->slot & MOB_SLOT_PUT;
    const struct seen *s = scan_seen(scan, row->task, false);
    return !s || !s->final;
}

/* True: all is known; false: a group is being read. */
static bool know_states(struct reading *reading)
{
    struct scan *scan = reading->context;
    struct list *list = scan->context;
    for (struct row *row = list->waiting; row; row = row->next) {
        struct mob_object_id id = mob_object_of(row->task, row->slot);
        if (row->live || !is_open(scan, row))
            continue;
        struct mob_task_id group = mob_put_group(id);
        if (reading_group(reading, group.stream, group.index >> MOB_GROUP_SHIFT))
            return false;
        const struct task_record *record = lineage_set_find(reading->set, id.task);
        if (record && scan->flight->op->query.kind == MOB_ITEM_TASK)
            note_record(scan, record);
        else if (record && task_record_put_state(record, id) == LINEAGE_PUT_DELETED)
            note_deleted(list, id);
    }
    return true;
}

static void take_waiting(struct scan *scan)
{
    struct list *list = scan->context;
    struct row *rows = list->waiting;
    list->waiting = NULL;
    list->waiting_end = &list->waiting;
    list->waiting_count = 0;
    scan->full = false;
    take_rows(scan, rows);
}

static void on_group(struct reading *reading, enum mob_status status)
{
    struct scan *scan = reading->context;
    if (status == MOB_OK && !know_states(reading))
        return;
    reading_end(reading);
    if (status == MOB_OK)
        take_waiting(scan);
    scan_go_on(scan, status);
}

/* Those that the node does not have, either, ended a moment ago, or before the page that begins here. */
static void look_for_ends(struct scan *scan)
{
    on_group(reading_begin(scan->flight, on_group, scan), MOB_OK);
}

/* --- states that only the node knows --- */

static void on_live(void *arg, enum mob_status status, const char *text, size_t size)
{
    struct scan *scan = arg;
    struct list *list = scan->context;
    size_t at = 0;
    for (struct row *row = list->waiting; row && status == MOB_OK; row = row->next)
        if (is_open(scan, row) && at < size)
            row->live = (uint8_t)text[at++];
    look_for_ends(scan);
}

/* Asks for all rows without an end, in their order. False: there is none. */
static bool ask_node(struct scan *scan)
{
    struct list *list = scan->context;
    struct mob_task_id *ids = malloc((list->waiting_count + 1) * sizeof *ids);
    uint32_t count = 0;
    MOB_ASSERT(ids != NULL);
    for (struct row *row = list->waiting; row; row = row->next)
        if (is_open(scan, row))
            ids[count++] = row->task;
    bool asked = count > 0 &&
        mob_ask(scan->flight->client, MOB_REQ_TASK_STATES, ids, count * (uint32_t)sizeof *ids, on_live,
            scan) == MOB_OK;
    free(ids);
    return asked;
}

static bool page_end(struct scan *scan)
{
    struct list *list = scan->context;
    if (!list->waiting)
        return true;
    if (!list->asks_node || !ask_node(scan))
        look_for_ends(scan);
    return false;
}

/* --- the answer --- */

/* A sorted list is read again from where its first page began, and what was given is left out. */
static char *next_cursor(const struct scan *scan)
{
    const struct list *list = scan->context;
    struct scan_mark marks[MOB_GCS_SHARDS_MAX];
    for (uint32_t i = 0; i < scan->lane_count; i++)
        marks[i] = list->sorted ? scan->lanes[i].begin
            : list->has_left[i] ? scan_mark_at(scan, list->left[i])
            : list->held[i]     ? scan_mark_at(scan, list->held[i]->place)
                                : scan_mark_now(scan, i);
    char *cursor = malloc(SCAN_CURSOR_MAX);
    MOB_ASSERT(cursor != NULL);
    scan_cursor_write(
        marks, scan->lane_count, list->sorted ? (uint32_t)wanted_rows(scan) : 0, list->name, cursor);
    return cursor;
}

/* A sorted list cannot say where its next page begins when the blocks in reach were not all. */
static void finish_list(struct scan *scan)
{
    struct list *list = scan->context;
    struct mob_engine_query *query = &scan->flight->op->query;
    bool more = scan_has_more(scan), truncated = more && !scan->full;
    if (list->sorted) {
        trim_sorted(scan, 0);
        mob_json_sort(list->items, query->sort);
        for (size_t i = 0; i < list->skip && json_array_size(list->items) > 0; i++)
            json_array_remove(list->items, 0);
        more = json_array_size(list->items) > query->limit;
        if (more)
            json_array_remove(list->items, query->limit);
        if (more && wanted_rows(scan) >= SORTED_MAX) {
            truncated = true;
            more = false;
        }
    }
    mob_engine_next_cursor(query, more ? next_cursor(scan) : NULL);
    json_t *out = json_pack("{s:O,s:s?,s:n,s:b,s:n}", "items", list->items, "next_cursor", query->cursor,
        "total_estimate", "truncated", (int)truncated, "dropped_before");
    char *text = json_dumps(out, JSON_COMPACT);
    json_decref(out);
    mob_text_puts(&scan->flight->op->json, text ? text : "{}");
    free(text);
}

static void restart_list(struct scan *scan)
{
    struct list *list = scan->context;
    rows_free(list->block);
    list->block = NULL;
    for (uint32_t i = 0; i < MOB_GCS_SHARDS_MAX; i++) {
        rows_free(list->held[i]);
        list->held[i] = NULL;
    }
    memset(list->has_left, 0, sizeof list->has_left);
    json_array_clear(list->items);
}

static void destroy_list(struct scan *scan)
{
    struct list *list = scan->context;
    rows_free(list->block);
    rows_free(list->waiting);
    for (uint32_t i = 0; i < MOB_GCS_SHARDS_MAX; i++)
        rows_free(list->held[i]);
    for (size_t b = 0; b < DELETED_BUCKETS; b++)
        for (struct deleted *d = list->deleted[b], *next; d; d = next) {
            next = d->next;
            free(d);
        }
    json_decref(list->items);
    free(list);
}

static const struct scan_methods methods = {
    list_entry, block_end, take_held, page_end, finish_list, restart_list, destroy_list};

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

/* Kind, filter and sort: another list has other places. */
static uint64_t name_of(const struct mob_engine_query *query)
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
    if (!scan_cursor_read(cursor, list->name, marks, scan->lane_count, &list->skip) ||
        list->skip >= SORTED_MAX)
        return false;
    scan_begin_at(scan, marks);
    list->resumed = !list->sorted;
    return true;
}

void engine_list_tasks(struct flight *flight)
{
    struct mob_engine_query *query = &flight->op->query;
    if (engine_list_failures(flight))
        return;
    struct list *list = calloc(1, sizeof *list);
    MOB_ASSERT(list != NULL);
    list->name = name_of(query);
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
    scan_start(scan);
}
