/* The timeline: Chrome's trace events out of the blocks of the control store, as many of the newest as one
 * answer takes.
 *
 * Two readings. The first goes from the newest block back and only counts, until it has enough: it finds from
 * when on. The second goes from there forward, since what an event belongs to is told by what comes before
 * and behind it, and writes. Names of tasks that were submitted before that are looked up at its end.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/failpoint.h"
#include "common/base/log.h"
#include "server/api/engine_reading.h"
#include "server/api/engine_scan.h"
#include "server/api/failure.h"
#include "server/api/trace_items.h"
#include "server/api/trace_lanes.h"
#include "server/api/trace_tracks.h"
#include "server/events/events.h"

/* Of one reading. Fewer are read backwards: the second reading finds some more that reach into the same time.
 * One that ends before the newest all the same begins again later (begin_later).
 */
#define BLOCKS_MAX 4096u
#define COUNTED_BLOCKS_MAX (BLOCKS_MAX / 4 * 3)
#define READINGS_MAX 8u /* that begin later, each with half the time */
#define NAME_GROUPS_MAX 1024u /* that are read for names, of 256 tasks each */
#define HELD_BUCKETS 4096u
#define FAILURE_BYTES_MAX \
    (64u << 20) /* of one answer, where each may have some KiB of log; then it is truncated */

/* An event stands in the log before the completion that says in which worker its task ran. */
struct held {
    struct held *next;
    struct mob_task_id task;
    struct trace_slice slice; /* of a point: of no length */
    char *text; /* of the trace event, up to its place */
};

struct timeline {
    int64_t from_us, to_us;
    uint32_t limit;
    bool counting; /* the first reading */
    int64_t newest_us, logged_us; /* of the block that is counted */
    int64_t since_us; /* the newest of the block where that is oldest */
    int64_t last_us, last_logged_us; /* the newest that was counted, and when the last was logged */
    unsigned readings; /* that began later */
    bool cut; /* there is more before from_us */
    struct trace_items items; /* while counting without text */
    size_t named; /* so many have their name, or will not have one */
    uint32_t groups_read;
    struct reading *reading; /* for names */
    size_t failure_bytes; /* of all errors together */
    struct held *held[HELD_BUCKETS];
    struct trace_tracks tracks;
};

/* --- events that wait for their task's completion --- */

static void hold(struct timeline *line, struct mob_task_id task, const struct trace_slice *slice, char *text)
{
    struct held **bucket = &line->held[mob_task_id_mix(task) % HELD_BUCKETS];
    struct held *h = malloc(sizeof *h);
    MOB_ASSERT(h != NULL);
    *h = (struct held){*bucket, task, *slice, text};
    *bucket = h;
}

static void write_event(
    struct scan *scan, struct mob_task_id task, struct trace_slice slice, const char *text, uint32_t worker)
{
    struct timeline *line = scan->context;
    struct mob_text *t = &scan->flight->op->json;
    slice.worker = worker;
    trace_tracks_note(&line->tracks, slice.incarnation, worker, 0);
    trace_items_begin(&line->items, t, slice.begin_us);
    mob_text_puts(t, text);
    if (slice.is_span)
        trace_items_slice(&line->items, task, &slice);
    else
        mob_text_printf(t, ",\"ts\":%lld,\"tid\":%u}", (long long)slice.begin_us, worker);
    trace_items_end(&line->items, t);
}

/* Of this task; NULL: all. */
static void write_held(
    struct scan *scan, struct held **place, const struct mob_task_id *task, uint32_t worker)
{
    while (*place) {
        struct held *h = *place;
        if (task && !mob_task_id_eq(h->task, *task)) {
            place = &h->next;
            continue;
        }
        *place = h->next;
        write_event(scan, h->task, h->slice, h->text, worker);
        free(h->text);
        free(h);
    }
}

static void free_held(struct timeline *line)
{
    for (size_t b = 0; b < HELD_BUCKETS; b++)
        for (struct held *h = line->held[b], *next; h; h = next) {
            next = h->next;
            free(h->text);
            free(h);
        }
    memset(line->held, 0, sizeof line->held);
}

/* --- entries --- */

/* Its failure, in the form of answers. */
static void write_failure(struct scan *scan, const struct mob_completion *completion)
{
    struct timeline *line = scan->context;
    struct mob_text *t = &scan->flight->op->json;
    size_t before = t->length;
    mob_text_puts(t, ",\"error\":");
    mob_failure_write_completion(t, completion);
    line->failure_bytes += t->length - before;
    scan->full |= line->failure_bytes >= FAILURE_BYTES_MAX;
}

static void trace_task(
    struct scan *scan, const struct mob_completion *completion, const struct mob_block_header *header)
{
    const struct mob_completion_head *c = &completion->head;
    struct timeline *line = scan->context;
    struct mob_text *t = &scan->flight->op->json;
    struct seen *s = scan_seen(scan, c->task, true);
    s->final = true;
    s->worker = c->worker;
    write_held(scan, &line->held[mob_task_id_mix(c->task) % HELD_BUCKETS], &c->task, c->worker);
    int64_t begin = scan_wall_us(header, c->started_ns), end = scan_wall_us(header, c->finished_ns);
    if (!c->started_ns || end < line->from_us || begin > line->to_us)
        return;
    char id[MOB_ID_TEXT_MAX], name[ENGINE_FULL_NAME_MAX] = "";
    trace_tracks_note(&line->tracks, header->incarnation, c->worker, 0);
    trace_items_begin(&line->items, t, end);
    trace_items_slice(&line->items, c->task,
        &(struct trace_slice){
            .incarnation = header->incarnation, .worker = c->worker, .begin_us = begin, .end_us = end});
    mob_text_puts(t, "{\"ph\":\"X\",\"cat\":\"task\",\"name\":");
    if (s->listed) {
        scan_full_name(scan, s->function, s->kind, s->method, name, sizeof name);
        mob_text_json_cstring(t, name[0] ? name : "task");
    } else {
        trace_items_name_here(&line->items, t, c->task);
    }
    mob_text_printf(t,
        ",\"ts\":%lld,\"dur\":%lld,\"pid\":%llu,\"tid\":%u,\"args\":{\"task\":\"%s\",\"attempt\":%u,"
        "\"status\":\"%s\","
        "\"queued_us\":%lld",
        (long long)begin, (long long)(end - begin), (unsigned long long)header->incarnation, c->worker,
        mob_task_id_format(c->task, id), c->attempt, mob_status_code((enum mob_status)c->status),
        (long long)((c->started_ns - c->submitted_ns) / 1000));
    if (c->status != MOB_OK)
        write_failure(scan, completion);
    mob_text_puts(t, "}}");
    trace_items_end(&line->items, t);
}

/* What the event says: behind its type. */
static void write_data(const struct mob_entry *entry, struct mob_text *t)
{
    const struct mob_out_event *e = &entry->event;
    uint32_t bytes = entry->payload_bytes - e->type_bytes;
    char *data =
        strndup((const char *)entry->payload + e->type_bytes, e->json_bytes < bytes ? e->json_bytes : bytes);
    MOB_ASSERT(data != NULL);
    mob_event_data_write(t, *data ? data : "{}");
    free(data);
}

/* Of a node or a worker: on a track of the node. */
static void trace_node_event(
    struct scan *scan, const struct mob_entry *entry, const struct mob_block_header *header, int64_t at_us)
{
    const struct mob_out_event *e = &entry->event;
    struct timeline *line = scan->context;
    struct mob_text *t = &scan->flight->op->json;
    trace_tracks_note(&line->tracks, header->incarnation, TRACE_TRACK_OF_NODE, 0);
    trace_items_begin(&line->items, t, at_us);
    mob_text_puts(t, "{\"ph\":\"i\",\"cat\":\"node\",\"name\":");
    mob_text_json_string(t, (const char *)entry->payload, e->type_bytes);
    mob_text_printf(t, ",\"ts\":%lld,\"s\":\"p\",\"pid\":%llu,\"tid\":%u,\"args\":", (long long)at_us,
        (unsigned long long)header->incarnation, TRACE_TRACK_OF_NODE);
    write_data(entry, t);
    mob_text_putc(t, '}');
    trace_items_end(&line->items, t);
}

static void trace_event(
    struct scan *scan, const struct mob_entry *entry, const struct mob_block_header *header)
{
    struct timeline *line = scan->context;
    const struct mob_out_event *e = &entry->event;
    int64_t at = scan_wall_us(header, e->at_ns);
    if (at < line->from_us || at > line->to_us || e->type_bytes > entry->payload_bytes)
        return;
    const struct seen *s = scan_seen(scan, e->task, false);
    struct trace_slice slice = {.incarnation = header->incarnation,
        .begin_us = at,
        .end_us = scan_wall_us(header, e->at_ns + e->span_ns),
        .is_span = e->span_ns > 0};
    char id[MOB_ID_TEXT_MAX];
    struct mob_text t = {0};
    size_t length;
    if (mob_task_id_is_zero(e->task)) {
        trace_node_event(scan, entry, header, at);
        return;
    }
    mob_text_printf(&t, "{\"ph\":\"%s\",\"cat\":\"event\",\"name\":", slice.is_span ? "X" : "i");
    mob_text_json_string(&t, (const char *)entry->payload, e->type_bytes);
    mob_text_printf(&t, "%s,\"pid\":%llu,\"args\":{\"task\":\"%s\"", slice.is_span ? "" : ",\"s\":\"t\"",
        (unsigned long long)header->incarnation, mob_task_id_format(e->task, id));
    if (e->attempt != 0)
        mob_text_printf(&t, ",\"attempt\":%u", e->attempt);
    if (e->json_bytes > 0) {
        mob_text_puts(&t, ",\"data\":");
        write_data(entry, &t);
    }
    mob_text_putc(&t, '}');
    char *text = mob_text_take(&t, &length);
    MOB_ASSERT(text != NULL);
    if (!(s && s->final)) {
        hold(line, e->task, &slice, text);
        return;
    }
    write_event(scan, e->task, slice, text, s->worker);
    free(text);
}

/* --- how far back --- */

/* The first reading: what the second one would write. */
static void count_entry(
    struct scan *scan, const struct mob_entry *entry, const struct mob_block_header *header)
{
    struct timeline *line = scan->context;
    int64_t begin, end;
    line->logged_us = header->wall_ns / 1000;
    if (line->logged_us > line->last_logged_us)
        line->last_logged_us = line->logged_us;
    if (entry->type == MOB_ENTRY_COMPLETION && entry->completion.head.started_ns) {
        begin = scan_wall_us(header, entry->completion.head.started_ns);
        end = scan_wall_us(header, entry->completion.head.finished_ns);
        if (entry->completion.head.status != MOB_OK)
            line->failure_bytes += entry->completion.head.body_bytes;
    } else if (entry->type == MOB_ENTRY_EVENT) {
        begin = end = scan_wall_us(header, entry->event.at_ns);
    } else {
        return;
    }
    if (end < line->from_us || begin > line->to_us)
        return;
    trace_items_begin(&line->items, &scan->flight->op->json, end);
    if (end > line->last_us)
        line->last_us = end;
    int64_t turn_us =
        scan_turn_ns(header, end * 1000) / 1000; /* one that is told late does not reach far back */
    if (turn_us > line->newest_us)
        line->newest_us = turn_us;
}

static void end_block(struct scan *scan, struct scan_lane *lane)
{
    (void)lane;
    struct timeline *line = scan->context;
    if (!line->counting) {
        scan->full |= MOB_FAILPOINT("timeline.full");
        return;
    }
    int64_t block_us = line->newest_us ? line->newest_us : line->logged_us;
    if (block_us > 0 && block_us < line->since_us)
        line->since_us = block_us;
    line->newest_us = line->logged_us = 0;
    scan->full = line->items.count > line->limit || scan->blocks >= COUNTED_BLOCKS_MAX ||
        line->failure_bytes >= FAILURE_BYTES_MAX / 2;
}

static void begin_text(struct scan *scan)
{
    struct timeline *line = scan->context;
    free_held(line);
    trace_tracks_fini(&line->tracks);
    trace_items_fini(&line->items);
    if (line->reading)
        reading_end(line->reading);
    line->reading = NULL;
    line->named = line->groups_read = 0;
    line->failure_bytes = 0;
}

/* Forward, with all that ended since then. */
static void write_since(struct scan *scan, int64_t since_us)
{
    struct timeline *line = scan->context;
    if (since_us > line->from_us) {
        line->from_us = since_us;
        scan->request.from_wall_ns = since_us * 1000;
        if (scan->request.to_wall_ns == 0)
            scan->request.to_wall_ns = INT64_MAX;
    }
    scan->request.newest_first = false;
    mob_text_fini(&scan->flight->op->json);
    begin_text(scan);
    scan_start_over(scan);
}

/* What comes while it is read is not waited for: a busy log would be read for ever. */
static void end_at_newest(struct scan *scan)
{
    struct timeline *line = scan->context;
    if (line->last_us == 0 || line->last_us >= line->to_us)
        return;
    line->to_us = line->last_us;
    /* Of some entries a block tells only when they were logged. */
    int64_t last_us = line->last_us > line->last_logged_us ? line->last_us : line->last_logged_us;
    scan->request.to_wall_ns = (last_us + 1) * 1000;
}

/* From the oldest of those that were counted on. */
static void begin_writing(struct scan *scan)
{
    struct timeline *line = scan->context;
    line->counting = false;
    line->cut = scan_has_more(scan);
    line->cut |= trace_items_keep_newest(&line->items, line->limit, &line->since_us);
    if (line->since_us == INT64_MAX) /* nothing was counted */
        line->since_us = line->from_us;
    end_at_newest(scan);
    write_since(scan, line->cut ? line->since_us : line->from_us);
}

/* The second reading was full before it came to the newest, which are what is wanted: what it has goes, and
 * half the time that it was to show. False: there is nothing left to halve. */
static bool begin_later(struct scan *scan)
{
    struct timeline *line = scan->context;
    int64_t since_us = line->from_us > line->since_us ? line->from_us : line->since_us;
    line->cut = true;
    if (since_us >= line->last_us || line->readings++ == READINGS_MAX) {
        line->from_us = line->last_us + 1; /* nothing is whole */
        return false;
    }
    write_since(scan, line->last_us - (line->last_us - since_us) / 2);
    return true;
}

/* --- which are given, and their names --- */

static void choose(struct scan *scan)
{
    struct timeline *line = scan->context;
    for (size_t b = 0; b < HELD_BUCKETS; b++)
        write_held(scan, &line->held[b], NULL, TRACE_TRACK_OF_RUNNING);
    int64_t oldest_us = 0;
    line->cut |= trace_items_keep_newest(&line->items, line->limit, &oldest_us);
    if (oldest_us > line->from_us)
        line->from_us = oldest_us;
    trace_lanes_assign(&line->items);
    for (size_t i = 0; i < line->items.count; i++) {
        const struct trace_slice *slice = &line->items.items[i].slice;
        if (slice->lane > 0)
            trace_tracks_note(&line->tracks, slice->incarnation, slice->worker, slice->lane);
    }
}

static void give_name(struct scan *scan, struct trace_item *item, const struct task_record *record)
{
    char name[ENGINE_FULL_NAME_MAX] = "";
    scan_full_name(scan, record->spec.function, record->spec.kind, record->spec.method, name, sizeof name);
    if (name[0])
        item->name = strdup(name);
}

/* True: all are known that will be; false: a group is being read, and it goes on behind that. */
static bool look_up_names(struct scan *scan)
{
    struct timeline *line = scan->context;
    for (; line->named < line->items.count; line->named++) {
        struct trace_item *item = &line->items.items[line->named];
        if (!item->name_at)
            continue;
        const struct task_record *record = lineage_set_find(line->reading->set, item->task);
        if (record && record->has_spec) {
            give_name(scan, item, record);
        } else if (line->groups_read < NAME_GROUPS_MAX &&
            reading_group(line->reading, item->task.stream, item->task.index >> MOB_GROUP_SHIFT)) {
            line->groups_read++;
            return false;
        }
    }
    return true;
}

static void on_group(struct reading *reading, enum mob_status status)
{
    scan_go_on(reading->context, status); /* looks on */
}

static bool end_reading(struct scan *scan)
{
    struct timeline *line = scan->context;
    if (line->counting) {
        begin_writing(scan);
        return true;
    }
    if (!line->reading && scan_has_more(scan) && begin_later(scan))
        return true;
    if (!line->reading) {
        choose(scan);
        line->reading = reading_begin(scan->flight, on_group, scan);
    }
    return look_up_names(scan);
}

/* --- the whole --- */

static void trace_entry(struct scan *scan, const struct mob_entry *entry,
    const struct mob_block_header *header, struct place place)
{
    (void)place;
    struct timeline *line = scan->context;
    if (line->counting) {
        count_entry(scan, entry, header);
    } else if (entry->type == MOB_ENTRY_SPEC) {
        struct seen *s = scan_seen(scan, entry->spec.head.task, true);
        s->listed = true;
        s->function = entry->spec.head.function;
        s->kind = entry->spec.head.kind;
        s->method = entry->spec.head.method;
    } else if (entry->type == MOB_ENTRY_COMPLETION) {
        trace_task(scan, &entry->completion, header);
    } else if (entry->type == MOB_ENTRY_EVENT) {
        trace_event(scan, entry, header);
    }
}

static void finish_trace(struct scan *scan)
{
    struct timeline *line = scan->context;
    struct mob_text whole = {0};
    mob_text_puts(&whole, "{\"traceEvents\":[");
    trace_items_compose(&line->items, &scan->flight->op->json, &whole);
    trace_tracks_write(&line->tracks, line->items.count == 0, &whole);
    mob_text_printf(
        &whole, "],\"displayTimeUnit\":\"ms\",\"otherData\":{\"truncated\":%s", line->cut ? "true" : "false");
    if (line->cut)
        mob_text_printf(&whole, ",\"complete_from\":%lld", (long long)line->from_us);
    mob_text_puts(&whole, "}}\n");
    mob_text_fini(&scan->flight->op->json);
    scan->flight->op->json = whole;
}

static void destroy_trace(struct scan *scan)
{
    begin_text(scan); /* frees what it holds */
    free(scan->context);
}

static const struct scan_methods methods = {.entry = trace_entry,
    .block_end = end_block,
    .over = end_reading,
    .finish = finish_trace,
    .restart = begin_text,
    .destroy = destroy_trace};

static void start_scan(struct flight *flight)
{
    struct mob_engine_query *query = &flight->op->query;
    struct timeline *line = calloc(1, sizeof *line);
    MOB_ASSERT(line != NULL);
    line->from_us = query->from_us;
    line->to_us = query->to_us;
    line->limit = query->limit;
    line->counting = true;
    line->since_us = INT64_MAX;
    struct scan *scan = scan_create(flight, &methods, line);
    scan->request.newest_first = true;
    scan->blocks_max = BLOCKS_MAX;
    if (query->id && mob_job_id_parse(query->id, &scan->request.job) != MOB_OK) {
        scan_refuse(scan, MOB_NOT_FOUND, "no such job");
        return;
    }
    if (query->from_us > 0 || query->to_us < INT64_MAX / 1000) {
        scan->request.from_wall_ns = query->from_us * 1000;
        scan->request.to_wall_ns =
            query->to_us >= INT64_MAX / 1000 - 1 ? INT64_MAX : (query->to_us + 1) * 1000;
    }
    scan_start(scan);
}

static void on_job_row(void *arg, const struct mob_gcs_answer *answer)
{
    struct flight *flight = arg;
    flight->engine->worked++;
    if (answer->status == MOB_OK)
        start_scan(flight);
    else if (answer->status == MOB_NOT_FOUND)
        flight_fail(flight, MOB_NOT_FOUND, NULL, "no such job");
    else
        flight_fail(flight, MOB_UNAVAILABLE, NULL, "the control store does not answer");
}

void engine_start_timeline(struct flight *flight)
{
    struct mob_job_id job;
    if (!flight->op->query.id) {
        start_scan(flight);
        return;
    }
    enum mob_status status = mob_job_id_parse(flight->op->query.id, &job);
    if (status == MOB_OK)
        status = mob_gcs_get(flight->engine->gcs, MOB_GCS_JOBS, &job, sizeof job, on_job_row, flight);
    if (status != MOB_OK)
        flight_fail(flight, status, NULL, "the control store does not answer");
}
