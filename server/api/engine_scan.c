/* Lists of tasks and objects, and the timeline: reads blocks of the control store page by page, newest or
 * oldest first, within a bound of blocks per request; beyond it the answer says truncated and its cursor goes
 * on.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "server/api/engine_inner.h"
#include "server/api/filter.h"
#include "server/api/lineage.h"

#define BLOCKS_MAX 1024u
#define SEEN_BUCKETS 65536u

/* Where an entry stands: block in commit order, entry in the block. */
struct place {
    uint64_t seq;
    uint32_t index;
};

/* What is known of a task so far: newest first a completion comes before its spec, oldest first after it. */
struct seen {
    struct seen *next;
    struct mob_task_id id;
    struct mob_function_id function;
    uint16_t status, method;
    uint8_t kind;
    bool final;
    uint32_t worker, attempt;
    int64_t started_us, finished_us;
};

struct scan {
    struct flight *flight;
    void (*entry)(struct scan *scan, const struct mob_entry *entry, const struct mob_block_header *header,
        struct place place);
    void (*finish)(struct scan *scan);
    struct mob_gcs_scan request;
    struct mob_filter filter;
    struct seen **seen;
    uint32_t blocks, items, limit;
    bool full, more;
    json_t *rows;
    uint64_t after_seq; /* cursor: only what is before this place */
    uint32_t after_index;
    uint64_t last_seq;
    uint32_t last_index;
    int64_t from_us, to_us;
};

static struct seen *seen_of(struct scan *scan, struct mob_task_id id, bool make)
{
    struct seen **bucket = &scan->seen[mob_task_id_mix(id) % SEEN_BUCKETS], *s = *bucket;
    while (s && !mob_task_id_eq(s->id, id))
        s = s->next;
    if (s || !make)
        return s;
    s = calloc(1, sizeof *s);
    MOB_ASSERT(s != NULL);
    s->id = id;
    s->next = *bucket;
    *bucket = s;
    return s;
}

static struct scan *scan_create(struct flight *flight)
{
    struct scan *scan = calloc(1, sizeof *scan);
    MOB_ASSERT(scan != NULL);
    scan->flight = flight;
    scan->seen = calloc(SEEN_BUCKETS, sizeof(struct seen *));
    MOB_ASSERT(scan->seen != NULL);
    scan->after_seq = UINT64_MAX;
    return scan;
}

static void scan_destroy(struct scan *scan)
{
    for (size_t b = 0; b < SEEN_BUCKETS; b++) {
        for (struct seen *s = scan->seen[b], *next; s; s = next) {
            next = s->next;
            free(s);
        }
    }
    free(scan->seen);
    json_decref(scan->rows);
    free(scan);
}

static void scan_block(struct scan *scan, const struct mob_gcs_block_row *row)
{
    struct mob_block_decoder *decoder = scan->flight->engine->decoder;
    struct mob_block_header header;
    struct mob_zone_map *zone = malloc(sizeof *zone);
    struct mob_entry *entry = malloc(sizeof *entry);
    MOB_ASSERT(zone && entry);
    enum mob_status status = mob_block_open(decoder, row->bytes, row->length, &header, zone);
    struct place place = {row->seq, 0};
    while (status == MOB_OK && (status = mob_block_next(decoder, entry)) == MOB_OK) {
        scan->entry(scan, entry, &header, place);
        place.index++;
    }
    free(zone);
    free(entry);
}

static void on_page(void *arg, const struct mob_gcs_answer *answer)
{
    struct scan *scan = arg;
    struct flight *flight = scan->flight;
    enum mob_status status = answer->status == MOB_NOT_FOUND ? MOB_OK : answer->status;
    for (uint32_t i = 0; status == MOB_OK && i < answer->block_count && !scan->full; i++) {
        scan_block(scan, &answer->blocks[i]);
        scan->blocks++;
    }
    scan->request.position = answer->next;
    scan->more = scan->full || answer->next != 0;
    bool on = status == MOB_OK && answer->next != 0 && !scan->full && scan->blocks < BLOCKS_MAX;
    if (on) {
        status = mob_gcs_scan(flight->engine->gcs, &scan->request, on_page, scan);
        if (status == MOB_OK)
            return;
    }
    if (status == MOB_OK)
        scan->finish(scan);
    else
        flight_fail(flight, status, NULL, "the control store does not answer");
    scan_destroy(scan);
}

static void scan_start(struct scan *scan)
{
    enum mob_status status = mob_gcs_scan(scan->flight->engine->gcs, &scan->request, on_page, scan);
    if (status == MOB_OK)
        return;
    flight_fail(scan->flight, status, NULL, "the control store does not answer");
    scan_destroy(scan);
}

/* --- lists --- */

static bool behind_cursor(const struct scan *scan, struct place place)
{
    return scan->after_seq == UINT64_MAX || place.seq < scan->after_seq ||
        (place.seq == scan->after_seq && place.index < scan->after_index);
}

static void add_row(struct scan *scan, json_t *row, struct place place)
{
    if (!mob_filter_matches(&scan->filter, row) || !behind_cursor(scan, place)) {
        json_decref(row);
        return;
    }
    /* Blocks come newest first, entries within one oldest first: rows of a block are put in front of each
     * other later, so each carries its place. */
    json_object_set_new(row, "_seq", json_integer((json_int_t)place.seq));
    json_object_set_new(row, "_index", json_integer(place.index));
    json_array_append_new(scan->rows, row);
}

static int64_t to_wall_us(const struct mob_block_header *header, int64_t mono_ns)
{
    return mono_ns ? (mono_ns + header->wall_ns - header->mono_ns) / 1000 : 0;
}

static void note_completion(
    struct scan *scan, const struct mob_entry *entry, const struct mob_block_header *header)
{
    const struct mob_completion_head *c = &entry->completion.head;
    struct seen *s = seen_of(scan, c->task, true);
    if (s->final)
        return;
    s->final = c->flags & MOB_COMPLETION_FINAL;
    s->status = c->status;
    s->worker = c->worker;
    s->attempt = c->attempt;
    s->started_us = to_wall_us(header, c->started_ns);
    s->finished_us = to_wall_us(header, c->finished_ns);
}

static const char *state_of(const struct seen *s)
{
    if (!s || !s->final)
        return "submitted";
    return s->status == MOB_OK ? "finished" : s->status == MOB_CANCELLED ? "cancelled" : "failed";
}

static void list_task(struct scan *scan, const struct mob_entry *entry, const struct mob_block_header *header,
    struct place place)
{
    if (entry->type == MOB_ENTRY_COMPLETION)
        note_completion(scan, entry, header);
    if (entry->type != MOB_ENTRY_SPEC || entry->spec.head.attempt > 1)
        return;
    const struct mob_spec_head *head = &entry->spec.head;
    struct lineage_names names = engine_names(scan->flight->engine);
    const char *function = names.function(names.cls, head->function);
    char method[128], id[MOB_ID_TEXT_MAX], job[MOB_ID_TEXT_MAX], parent[MOB_ID_TEXT_MAX], name[640];
    const char *called = head->kind == MOB_KIND_ACTOR_CALL
        ? names.method(names.cls, head->function, head->method, method, sizeof method)
        : NULL;
    snprintf(name, sizeof name, "%s%s%s", function ? function : "", called ? "." : "", called ? called : "");
    json_t *row = json_pack("{s:s,s:s,s:s,s:s,s:s,s:I}", "id", mob_task_id_format(head->task, id), "function",
        name, "name", name, "job", mob_job_id_format(header->job, job), "parent",
        mob_task_id_format(head->parent, parent), "submitted_us",
        (json_int_t)to_wall_us(header, entry->submitted_ns));
    if (head->kind == MOB_KIND_ACTOR_CALL) {
        char actor[MOB_ID_TEXT_MAX];
        json_object_set_new(row, "actor", json_string(mob_actor_id_format(head->actor, actor)));
    }
    struct mob_ext_view ext;
    if (mob_spec_find_ext(entry->spec.tail, MOB_EXT_NAME, &ext))
        json_object_set_new(row, "name", json_stringn((const char *)ext.payload, ext.payload_bytes));
    add_row(scan, row, place);
}

/* States are filled in when all of a block, and all newer ones, have been read. */
static void fill_state(struct scan *scan, json_t *row)
{
    struct mob_task_id id;
    if (mob_task_id_parse(json_string_value(json_object_get(row, "id")), &id) != MOB_OK)
        return;
    const struct seen *s = seen_of(scan, id, false);
    json_object_set_new(row, "state", json_string(state_of(s)));
    if (!s || !s->final)
        return;
    json_object_set_new(row, "started_us", json_integer(s->started_us));
    json_object_set_new(row, "finished_us", json_integer(s->finished_us));
    json_object_set_new(row, "worker", json_integer(s->worker));
    json_object_set_new(row, "attempt", json_integer(s->attempt));
    if (s->status != MOB_OK)
        json_object_set_new(row, "code", json_string(mob_status_code((enum mob_status)s->status)));
}

static void list_object(struct scan *scan, const struct mob_entry *entry,
    const struct mob_block_header *header, struct place place)
{
    char id[MOB_ID_TEXT_MAX], task[MOB_ID_TEXT_MAX], job[MOB_ID_TEXT_MAX];
    mob_job_id_format(header->job, job);
    if (entry->type == MOB_ENTRY_PUT && (entry->put.id.slot & 0xc0000000u) == MOB_SLOT_PUT) {
        add_row(scan,
            json_pack("{s:s,s:s,s:s,s:s,s:s,s:I}", "id", mob_object_id_format(entry->put.id, id), "task",
                mob_task_id_format(entry->put.id.task, task), "job", job, "state", "ready", "type",
                mob_value_type_name((enum mob_value_type)entry->put.type), "size",
                (json_int_t)entry->put.size),
            place);
        return;
    }
    if (entry->type != MOB_ENTRY_COMPLETION || !(entry->completion.head.flags & MOB_COMPLETION_FINAL))
        return;
    struct mob_return_view ret;
    uint32_t at = 0;
    while (mob_completion_next(&entry->completion, &at, &ret))
        add_row(scan,
            json_pack("{s:s,s:s,s:s,s:s,s:s,s:I}", "id",
                mob_object_id_format(mob_object_of(entry->completion.head.task, ret.slot), id), "task",
                mob_task_id_format(entry->completion.head.task, task), "job", job, "state",
                entry->completion.head.status == MOB_OK ? "ready" : "failed", "type",
                mob_value_type_name(ret.type), "size", (json_int_t)ret.size),
            place);
}

static int newest_first(const void *a, const void *b)
{
    const json_t *x = *(json_t *const *)a, *y = *(json_t *const *)b;
    json_int_t u = json_integer_value(json_object_get(x, "_seq")),
               v = json_integer_value(json_object_get(y, "_seq"));
    if (u == v) {
        u = json_integer_value(json_object_get(x, "_index"));
        v = json_integer_value(json_object_get(y, "_index"));
    }
    return (u < v) - (u > v);
}

static void finish_list(struct scan *scan)
{
    struct mob_engine_query *query = &scan->flight->op->query;
    size_t n = json_array_size(scan->rows), kept = 0;
    json_t **rows = calloc(n + 1, sizeof(json_t *)), *items = json_array(), *last = NULL;
    MOB_ASSERT(rows != NULL);
    for (size_t i = 0; i < n; i++)
        rows[i] = json_array_get(scan->rows, i);
    qsort(rows, n, sizeof(json_t *), newest_first);
    struct mob_filter full;
    enum mob_status status = mob_filter_parse(query->filter, &full);
    size_t i = 0;
    for (; status == MOB_OK && i < n && kept < query->limit; i++) {
        last = rows[i];
        if (query->kind == MOB_ITEM_TASK)
            fill_state(scan, rows[i]);
        if (!mob_filter_matches(&full, rows[i]))
            continue;
        json_array_append(items, rows[i]);
        kept++;
    }
    bool more = scan->more || i < n;
    free(query->cursor);
    query->cursor = NULL;
    if (more && last &&
        asprintf(&query->cursor, "%lld.%lld", (long long)json_integer_value(json_object_get(last, "_seq")),
            (long long)json_integer_value(json_object_get(last, "_index"))) < 0)
        query->cursor = NULL;
    for (size_t k = 0; k < json_array_size(items); k++) {
        json_object_del(json_array_get(items, k), "_seq");
        json_object_del(json_array_get(items, k), "_index");
    }
    mob_json_sort(items, query->sort);
    bool truncated = scan->more && kept < query->limit;
    json_t *out = json_pack("{s:o,s:s?,s:n,s:b,s:n}", "items", items, "next_cursor", query->cursor,
        "total_estimate", "truncated", (int)truncated, "dropped_before");
    char *text = json_dumps(out, JSON_COMPACT);
    json_decref(out);
    mob_text_puts(&scan->flight->op->json, text ? text : "{}");
    free(text);
    free(rows);
    flight_done(scan->flight);
}

/* Enough rows when a page's worth beyond the limit is there: states may still filter some out. */
static void list_entry(struct scan *scan, const struct mob_entry *entry,
    const struct mob_block_header *header, struct place place)
{
    if (scan->last_seq != place.seq) { /* a new block begins: everything of the newer ones is known */
        scan->last_seq = place.seq;
        scan->full = json_array_size(scan->rows) >= scan->limit;
        if (scan->full)
            return;
    }
    if (scan->full)
        return;
    if (scan->flight->op->query.kind == MOB_ITEM_TASK)
        list_task(scan, entry, header, place);
    else
        list_object(scan, entry, header, place);
}

/* While scanning only fields of the spec can be tested; state and times are tested at the end. */
static void keep_spec_terms(struct mob_filter *filter)
{
    static const char *const late[] = {"state", "started_us", "finished_us", "worker", "attempt", "code"};
    for (size_t i = 0; i < filter->count;) {
        bool is_late = false;
        for (size_t k = 0; k < sizeof late / sizeof *late; k++)
            is_late |= strcmp(filter->terms[i].field, late[k]) == 0;
        if (is_late)
            filter->terms[i] = filter->terms[--filter->count];
        else
            i++;
    }
}

void engine_list_tasks(struct flight *flight)
{
    struct mob_engine_query *query = &flight->op->query;
    struct scan *scan = scan_create(flight);
    if (mob_filter_parse(query->filter, &scan->filter) != MOB_OK) {
        scan_destroy(scan);
        flight_fail(flight, MOB_BAD_REQUEST, NULL, "a filter is field:value [AND field:value]...");
        return;
    }
    if (query->cursor) {
        char *dot;
        scan->after_seq = strtoull(query->cursor, &dot, 10);
        scan->after_index = *dot == '.' ? (uint32_t)strtoul(dot + 1, NULL, 10) : 0;
    }
    bool by_state = scan->filter.count > 0;
    for (size_t i = 0; i < scan->filter.count; i++)
        if (strcmp(scan->filter.terms[i].field, "job") == 0)
            (void)!mob_job_id_parse(scan->filter.terms[i].value, &scan->request.job);
    if (query->kind == MOB_ITEM_TASK)
        keep_spec_terms(&scan->filter);
    /* A filter by state is applied at the end, so it needs more candidates. */
    scan->limit = by_state ? UINT32_MAX : query->limit;
    scan->rows = json_array();
    scan->entry = list_entry;
    scan->finish = finish_list;
    scan->request.newest_first = true;
    scan_start(scan);
}

/* --- timeline: Chrome's trace events --- */

static void trace_begin(struct scan *scan, const char *phase, const char *category)
{
    struct mob_text *t = &scan->flight->op->json;
    mob_text_printf(
        t, "%s{\"ph\":\"%s\",\"cat\":\"%s\",\"name\":", scan->items++ > 0 ? ",\n" : "", phase, category);
}

static void trace_task(
    struct scan *scan, const struct mob_completion_head *c, const struct mob_block_header *header)
{
    struct mob_text *t = &scan->flight->op->json;
    int64_t begin = to_wall_us(header, c->started_ns), end = to_wall_us(header, c->finished_ns);
    if (!c->started_ns || end < scan->from_us || begin > scan->to_us)
        return;
    const struct seen *s = seen_of(scan, c->task, false);
    struct lineage_names names = engine_names(scan->flight->engine);
    const char *function = s ? names.function(names.cls, s->function) : NULL;
    char method[128], id[MOB_ID_TEXT_MAX], name[640];
    const char *called = s && s->kind == MOB_KIND_ACTOR_CALL
        ? names.method(names.cls, s->function, s->method, method, sizeof method)
        : NULL;
    snprintf(
        name, sizeof name, "%s%s%s", function ? function : "task", called ? "." : "", called ? called : "");
    trace_begin(scan, "X", "task");
    mob_text_json_cstring(t, name);
    mob_text_printf(t,
        ",\"ts\":%lld,\"dur\":%lld,\"pid\":%llu,\"tid\":%u,\"args\":{\"task\":\"%s\",\"attempt\":%u,"
        "\"status\":\"%s\","
        "\"queued_us\":%lld}}",
        (long long)begin, (long long)(end - begin), (unsigned long long)header->incarnation, c->worker,
        mob_task_id_format(c->task, id), c->attempt, mob_status_code((enum mob_status)c->status),
        (long long)((c->started_ns - c->submitted_ns) / 1000));
    scan->full = scan->items >= scan->limit;
}

static void trace_event(
    struct scan *scan, const struct mob_entry *entry, const struct mob_block_header *header)
{
    struct mob_text *t = &scan->flight->op->json;
    const struct mob_out_event *e = &entry->event;
    int64_t at = to_wall_us(header, e->at_ns);
    if (at < scan->from_us || at > scan->to_us || e->type_bytes > entry->payload_bytes)
        return;
    const struct seen *s = seen_of(scan, e->task, false);
    char id[MOB_ID_TEXT_MAX];
    trace_begin(scan, e->span_ns > 0 ? "X" : "i", "event");
    mob_text_json_string(t, (const char *)entry->payload, e->type_bytes);
    mob_text_printf(t,
        ",\"ts\":%lld,\"dur\":%lld,\"s\":\"t\",\"pid\":%llu,\"tid\":%u,\"args\":{\"task\":\"%s\"}}",
        (long long)at, (long long)(e->span_ns / 1000), (unsigned long long)header->incarnation,
        s ? s->worker : 0, mob_task_id_format(e->task, id));
}

static void trace_entry(struct scan *scan, const struct mob_entry *entry,
    const struct mob_block_header *header, struct place place)
{
    (void)place;
    if (entry->type == MOB_ENTRY_SPEC) {
        struct seen *s = seen_of(scan, entry->spec.head.task, true);
        s->function = entry->spec.head.function;
        s->kind = entry->spec.head.kind;
        s->method = entry->spec.head.method;
    } else if (entry->type == MOB_ENTRY_COMPLETION && !scan->full) {
        trace_task(scan, &entry->completion.head, header);
    } else if (entry->type == MOB_ENTRY_EVENT && !scan->full) {
        trace_event(scan, entry, header);
    }
}

static void finish_trace(struct scan *scan)
{
    mob_text_printf(&scan->flight->op->json,
        "],\"displayTimeUnit\":\"ms\",\"otherData\":{\"truncated\":%s}}\n", scan->more ? "true" : "false");
    flight_done(scan->flight);
}

void engine_start_timeline(struct flight *flight)
{
    struct mob_engine_query *query = &flight->op->query;
    struct scan *scan = scan_create(flight);
    scan->from_us = query->from_us;
    scan->to_us = query->to_us;
    scan->limit = query->limit;
    scan->entry = trace_entry;
    scan->finish = finish_trace;
    if (query->id && mob_job_id_parse(query->id, &scan->request.job) != MOB_OK) {
        scan_destroy(scan);
        flight_fail(flight, MOB_NOT_FOUND, NULL, "no such job");
        return;
    }
    if (query->from_us > 0 || query->to_us < INT64_MAX / 1000) {
        scan->request.from_wall_ns = query->from_us * 1000;
        scan->request.to_wall_ns =
            query->to_us >= INT64_MAX / 1000 - 1 ? INT64_MAX : (query->to_us + 1) * 1000;
    }
    mob_text_puts(&flight->op->json, "{\"traceEvents\":[");
    scan_start(scan);
}
