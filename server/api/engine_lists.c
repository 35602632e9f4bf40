/* Lists of tasks and objects, newest first or by a field, out of the blocks of the control store.
 *
 * From the newest block on, a task's completion is seen before its spec, so what has ended is known when its
 * row is made. What has not is asked for at the node, all rows of a page at once (`page_end`). A page that
 * begins at a cursor has not seen the newer blocks: ends that it misses are looked up a group at a time. A
 * sorted list keeps the best rows of all blocks in reach; its pages go on by number, over the blocks that
 * were there for the first.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
    struct place after; /* only rows older than this; of a sorted list: not newer than this block */
    size_t skip; /* of a sorted list */
    struct row *block; /* rows of the block that is read, newest first */
    struct row *waiting, **waiting_end; /* for their states, newest first */
    size_t waiting_count;
    struct deleted *deleted[DELETED_BUCKETS];
    json_t *items;
    struct place last; /* of the last row that was looked at */
    struct place newest; /* block that the scan began with */
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

static bool is_older(struct place a, struct place b)
{
    return a.seq < b.seq || (a.seq == b.seq && a.index < b.index);
}

static void add_row(struct scan *scan, json_t *json, struct mob_object_id id, struct place place)
{
    struct list *list = scan->context;
    if (list->newest.seq < place.seq)
        list->newest = place;
    bool behind = place.recut ? scan_is_behind(scan, place)
        : list->sorted        ? place.seq <= list->after.seq
                              : is_older(place, list->after);
    if (!behind || !mob_filter_matches(&list->early, json)) {
        json_decref(json);
        return;
    }
    struct row *row = malloc(sizeof *row);
    MOB_ASSERT(row != NULL);
    *row = (struct row){.next = list->block, .place = place, .task = id.task, .slot = id.slot, .json = json};
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
    json_t *row =
        task_row(name, head, entry->spec.tail, header->job, scan_wall_us(header, entry->submitted_ns));
    add_row(scan, row, mob_object_of(head->task, 0), place);
}

static void object_row(struct scan *scan, const struct mob_block_header *header, struct place place,
    struct mob_object_id object, const char *state, enum mob_value_type type, uint64_t size)
{
    char id[MOB_ID_TEXT_MAX], task[MOB_ID_TEXT_MAX], job[MOB_ID_TEXT_MAX];
    add_row(scan,
        json_pack("{s:s,s:s,s:s,s:s,s:s,s:I}", "id", mob_object_id_format(object, id), "task",
            mob_task_id_format(object.task, task), "job", mob_job_id_format(header->job, job), "state", state,
            "type", mob_value_type_name(type), "size", (json_int_t)size),
        object, place);
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
            object_row(scan, header, place, entry->put.id, "ready", (enum mob_value_type)entry->put.type,
                entry->put.size);
        break;
    case MOB_ENTRY_YIELD:
        object_row(scan, header, place, mob_object_of(entry->yield.task, entry->yield.item), "ready",
            entry->ret.type, entry->ret.size);
        break;
    case MOB_ENTRY_COMPLETION:
        for (; entry->completion.head.flags & MOB_COMPLETION_FINAL &&
             mob_completion_next(&entry->completion, &at, &ret);
             place.index++)
            object_row(scan, header, place, mob_object_of(entry->completion.head.task, ret.slot),
                entry->completion.head.status == MOB_OK ? "ready" : "failed", ret.type, ret.size);
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

/* How many rows, from this on, come from one entry: a page does not end between them if it can be helped, for
 * the entry may be somewhere else when the next page is read. */
static size_t rows_of_entry(const struct row *row)
{
    size_t n = 1;
    for (const struct row *next = row->next;
         next && next->place.seq == row->place.seq && next->place.number == row->place.number &&
         next->place.index >> PLACE_SUB_BITS == row->place.index >> PLACE_SUB_BITS;
         next = next->next)
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

/* All that is to be known of these rows is known. Takes them, newest first. */
static void take_rows(struct scan *scan, struct row *rows)
{
    struct list *list = scan->context;
    for (struct row *row = rows, *next; row; row = next) {
        next = row->next;
        size_t have = json_array_size(list->items);
        bool begins = list->last.seq != row->place.seq || list->last.number != row->place.number ||
            list->last.index >> PLACE_SUB_BITS != row->place.index >> PLACE_SUB_BITS;
        if (!scan->full && !list->sorted && begins && have > 0 &&
            have + rows_of_entry(row) > wanted_rows(scan))
            scan->full = scan->more = true;
        if (!scan->full) {
            if (scan->flight->op->query.kind == MOB_ITEM_TASK)
                fill_state(scan, row);
            else if (find_deleted(list, mob_object_of(row->task, row->slot)))
                json_object_set_new(row->json, "state", json_string("lost"));
            if (mob_filter_matches(&list->all, row->json))
                json_array_append(list->items, row->json);
            list->last = row->place;
            scan->full = !list->sorted && json_array_size(list->items) >= wanted_rows(scan);
            scan->more |= scan->full && next;
        }
        row_free(row);
    }
    if (list->sorted)
        trim_sorted(scan, 4 * CANDIDATES_MAX);
}

static void block_end(struct scan *scan)
{
    struct list *list = scan->context;
    struct row *rows = list->block;
    list->block = NULL;
    list->resumed |= scan->recut; /* in what was flushed an end may come behind its beginning */
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

static char *next_cursor(const struct scan *scan, bool more)
{
    const struct list *list = scan->context;
    char *cursor = NULL;
    int n = 0;
    if (list->sorted && more)
        n = asprintf(&cursor, "%llu.0.%zu", (unsigned long long)list->after.seq, wanted_rows(scan));
    else if (more && scan->full && !list->last.recut)
        n = asprintf(&cursor, "%llu.%u", (unsigned long long)list->last.seq, (unsigned)list->last.index);
    else if (more) /* NULL: the search ended at its bound */
        return scan_cursor(scan, scan->full ? &list->last : NULL);
    return n < 0 ? NULL : cursor;
}

/* A sorted list cannot say where its next page begins when the blocks in reach were not all. */
static void finish_list(struct scan *scan)
{
    struct list *list = scan->context;
    struct mob_engine_query *query = &scan->flight->op->query;
    bool more = scan->more, truncated = scan->more && !scan->full;
    if (list->sorted) {
        if (list->after.seq == UINT64_MAX)
            list->after.seq = list->newest.seq;
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
    free(query->cursor);
    query->cursor = next_cursor(scan, more);
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
    json_array_clear(list->items);
}

static void destroy_list(struct scan *scan)
{
    struct list *list = scan->context;
    rows_free(list->block);
    rows_free(list->waiting);
    for (size_t b = 0; b < DELETED_BUCKETS; b++)
        for (struct deleted *d = list->deleted[b], *next; d; d = next) {
            next = d->next;
            free(d);
        }
    json_decref(list->items);
    free(list);
}

static const struct scan_methods methods = {
    list_entry, block_end, page_end, finish_list, restart_list, destroy_list};

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

/* "SEQ.INDEX", or of a sorted list "SEQ.0.SKIP". */
static bool read_cursor(struct scan *scan, const char *cursor)
{
    struct list *list = scan->context;
    unsigned long long seq, skip = 0;
    unsigned index;
    int end = 0;
    if (!list->sorted && scan_read_cursor(scan, cursor)) {
        list->after = (struct place){.seq = UINT64_MAX, .index = UINT32_MAX};
        return list->resumed = true;
    }
    if (list->sorted)
        (void)!sscanf(cursor, "%20llu.%10u.%10llu%n", &seq, &index, &skip, &end);
    else
        (void)!sscanf(cursor, "%20llu.%10u%n", &seq, &index, &end);
    if (end == 0 || cursor[end] != 0 || skip >= SORTED_MAX)
        return false;
    list->after = (struct place){.seq = seq, .index = index};
    list->skip = (size_t)skip;
    list->resumed = !list->sorted;
    if (list->resumed) { /* the block itself, too, when there is something left of it */
        uint32_t of_entry = (1u << PLACE_SUB_BITS) - 1; /* some of its rows are left: the entry, too */
        uint32_t entries = (uint32_t)(((uint64_t)index + of_entry) >> PLACE_SUB_BITS);
        return scan_begin_before(scan, seq, index > 0, entries);
    }
    return true;
}

void engine_list_tasks(struct flight *flight)
{
    struct mob_engine_query *query = &flight->op->query;
    if (engine_list_failures(flight))
        return;
    struct list *list = calloc(1, sizeof *list);
    MOB_ASSERT(list != NULL);
    list->after = (struct place){.seq = UINT64_MAX, .index = UINT32_MAX};
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
        scan_refuse(scan, MOB_BAD_REQUEST, "cursor is not one that this list gave");
        return;
    }
    split_terms(list);
    for (size_t i = 0; i < list->all.count; i++)
        if (strcmp(list->all.terms[i].field, "job") == 0)
            (void)!mob_job_id_parse(list->all.terms[i].value, &scan->request.job);
    scan->request.newest_first = true;
    scan_start(scan);
}
