/* The timeline: Chrome's trace events out of the blocks of the control store, oldest first. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"
#include "server/api/engine_scan.h"
#include "server/api/failure.h"
#include "server/events/events.h"

#define HELD_BUCKETS 4096u
#define FAILURE_BYTES_MAX \
    (64u << 20) /* of one answer, where each may have some KiB of log; then it is truncated */

/* An event stands in the log before the completion that says in which worker its task ran. */
struct held {
    struct held *next;
    struct mob_task_id task;
    uint64_t incarnation;
    char *text; /* of the trace event, up to that number */
};

/* Where something was shown: a node's incarnation is a process of the trace, a worker a thread of it. */
#define TRACK_BUCKETS 1024u
struct track {
    struct track *next;
    uint64_t incarnation;
    uint32_t worker;
};

struct timeline {
    int64_t from_us, to_us;
    uint32_t items, limit; /* held ones included */
    uint32_t written;
    size_t failure_bytes; /* of all errors together */
    struct held *held[HELD_BUCKETS];
    struct track *tracks[TRACK_BUCKETS];
};

/* Events of tasks that still run: their worker is not known here. */
#define TRACK_OF_RUNNING UINT32_MAX
#define TRACK_OF_NODE 0u /* workers count from 1 */

static void count_item(struct scan *scan)
{
    struct timeline *line = scan->context;
    scan->full = ++line->items >= line->limit;
}

static void separate(struct scan *scan)
{
    struct timeline *line = scan->context;
    if (line->written++ > 0)
        mob_text_puts(&scan->flight->op->json, ",\n");
}

/* --- tracks --- */

static void note_track(struct timeline *line, uint64_t incarnation, uint32_t worker)
{
    struct track **bucket = &line->tracks[(incarnation * 31 + worker) % TRACK_BUCKETS];
    for (const struct track *t = *bucket; t; t = t->next)
        if (t->incarnation == incarnation && t->worker == worker)
            return;
    struct track *track = malloc(sizeof *track);
    MOB_ASSERT(track != NULL);
    *track = (struct track){*bucket, incarnation, worker};
    *bucket = track;
}

/* Each process that anything was shown of has its name, which goes with the node's own track. */
static void name_nodes(struct timeline *line)
{
    for (size_t b = 0; b < TRACK_BUCKETS; b++)
        for (const struct track *track = line->tracks[b]; track; track = track->next)
            note_track(line, track->incarnation, TRACK_OF_NODE);
}

/* Names, as viewers show them. The track of the node itself stands for its process. */
static void write_names(struct scan *scan)
{
    struct timeline *line = scan->context;
    struct mob_text *t = &scan->flight->op->json;
    for (size_t b = 0; b < TRACK_BUCKETS; b++)
        for (const struct track *track = line->tracks[b]; track; track = track->next) {
            unsigned long long pid = track->incarnation;
            separate(scan);
            if (track->worker == TRACK_OF_NODE)
                mob_text_printf(t,
                    "{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":%llu,\"args\":{\"name\":\"node, "
                    "incarnation "
                    "%llu\"}},\n",
                    pid, pid);
            mob_text_printf(t,
                "{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":%llu,\"tid\":%u,\"args\":{\"name\":\"", pid,
                track->worker);
            if (track->worker == TRACK_OF_NODE)
                mob_text_puts(t, "node\"}}");
            else if (track->worker == TRACK_OF_RUNNING)
                mob_text_puts(t, "not finished\"}}");
            else
                mob_text_printf(t, "worker %u\"}}", track->worker);
        }
}

static void free_tracks(struct timeline *line)
{
    for (size_t b = 0; b < TRACK_BUCKETS; b++)
        for (struct track *track = line->tracks[b], *next; track; track = next) {
            next = track->next;
            free(track);
        }
    memset(line->tracks, 0, sizeof line->tracks);
}

/* --- events that wait for their task's completion --- */

static void hold(struct timeline *line, struct mob_task_id task, uint64_t incarnation, char *text)
{
    struct held **bucket = &line->held[mob_task_id_mix(task) % HELD_BUCKETS];
    struct held *h = malloc(sizeof *h);
    MOB_ASSERT(h != NULL);
    *h = (struct held){*bucket, task, incarnation, text};
    *bucket = h;
}

static void write_event(struct scan *scan, const char *text, uint64_t incarnation, uint32_t worker)
{
    note_track(scan->context, incarnation, worker);
    separate(scan);
    mob_text_printf(&scan->flight->op->json, "%s%u}", text, worker);
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
        write_event(scan, h->text, h->incarnation, worker);
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
    if (scan->full) {
        scan->more = true;
        return;
    }
    int64_t begin = scan_wall_us(header, c->started_ns), end = scan_wall_us(header, c->finished_ns);
    if (!c->started_ns || end < line->from_us || begin > line->to_us)
        return;
    char id[MOB_ID_TEXT_MAX], name[640] = "";
    scan_full_name(scan, s->function, s->kind, s->method, name, sizeof name);
    count_item(scan);
    note_track(line, header->incarnation, c->worker);
    separate(scan);
    mob_text_puts(t, "{\"ph\":\"X\",\"cat\":\"task\",\"name\":");
    mob_text_json_cstring(t, name[0] ? name : "task");
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
    struct mob_text *t = &scan->flight->op->json;
    note_track(scan->context, header->incarnation, TRACK_OF_NODE);
    separate(scan);
    mob_text_puts(t, "{\"ph\":\"i\",\"cat\":\"node\",\"name\":");
    mob_text_json_string(t, (const char *)entry->payload, e->type_bytes);
    mob_text_printf(t, ",\"ts\":%lld,\"s\":\"p\",\"pid\":%llu,\"tid\":%u,\"args\":", (long long)at_us,
        (unsigned long long)header->incarnation, TRACK_OF_NODE);
    write_data(entry, t);
    mob_text_putc(t, '}');
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
    char id[MOB_ID_TEXT_MAX];
    struct mob_text t = {0};
    size_t length;
    count_item(scan);
    if (mob_task_id_is_zero(e->task)) {
        trace_node_event(scan, entry, header, at);
        return;
    }
    mob_text_printf(&t, "{\"ph\":\"%s\",\"cat\":\"event\",\"name\":", e->span_ns > 0 ? "X" : "i");
    mob_text_json_string(&t, (const char *)entry->payload, e->type_bytes);
    mob_text_printf(&t, ",\"ts\":%lld,\"dur\":%lld,\"s\":\"t\",\"pid\":%llu,\"args\":{\"task\":\"%s\"",
        (long long)at, (long long)(e->span_ns / 1000), (unsigned long long)header->incarnation,
        mob_task_id_format(e->task, id));
    if (e->json_bytes > 0) {
        mob_text_puts(&t, ",\"data\":");
        write_data(entry, &t);
    }
    mob_text_puts(&t, "},\"tid\":");
    char *text = mob_text_take(&t, &length);
    MOB_ASSERT(text != NULL);
    if (!(s && s->final)) {
        hold(line, e->task, header->incarnation, text);
        return;
    }
    write_event(scan, text, header->incarnation, s->worker);
    free(text);
}

static void trace_entry(struct scan *scan, const struct mob_entry *entry,
    const struct mob_block_header *header, struct place place)
{
    (void)place;
    if (entry->type == MOB_ENTRY_SPEC) {
        struct seen *s = scan_seen(scan, entry->spec.head.task, true);
        s->function = entry->spec.head.function;
        s->kind = entry->spec.head.kind;
        s->method = entry->spec.head.method;
    } else if (entry->type == MOB_ENTRY_COMPLETION) {
        trace_task(scan, &entry->completion, header);
    } else if (scan->full) {
        scan->more = true;
    } else if (entry->type == MOB_ENTRY_EVENT) {
        trace_event(scan, entry, header);
    }
}

static void begin_text(struct scan *scan)
{
    struct timeline *line = scan->context;
    free_held(line);
    free_tracks(line);
    line->items = line->written = 0;
    line->failure_bytes = 0;
    mob_text_puts(&scan->flight->op->json, "{\"traceEvents\":[");
}

static void finish_trace(struct scan *scan)
{
    struct timeline *line = scan->context;
    for (size_t b = 0; b < HELD_BUCKETS; b++)
        write_held(scan, &line->held[b], NULL, TRACK_OF_RUNNING);
    name_nodes(line);
    write_names(scan);
    mob_text_printf(&scan->flight->op->json,
        "],\"displayTimeUnit\":\"ms\",\"otherData\":{\"truncated\":%s}}\n",
        scan_has_more(scan) ? "true" : "false");
}

static void destroy_trace(struct scan *scan)
{
    free_held(scan->context);
    free_tracks(scan->context);
    free(scan->context);
}

static const struct scan_methods methods = {
    trace_entry, NULL, NULL, NULL, finish_trace, begin_text, destroy_trace};

static void start_scan(struct flight *flight)
{
    struct mob_engine_query *query = &flight->op->query;
    struct timeline *line = calloc(1, sizeof *line);
    MOB_ASSERT(line != NULL);
    line->from_us = query->from_us;
    line->to_us = query->to_us;
    line->limit = query->limit;
    struct scan *scan = scan_create(flight, &methods, line);
    if (query->id && mob_job_id_parse(query->id, &scan->request.job) != MOB_OK) {
        scan_refuse(scan, MOB_NOT_FOUND, "no such job");
        return;
    }
    if (query->from_us > 0 || query->to_us < INT64_MAX / 1000) {
        scan->request.from_wall_ns = query->from_us * 1000;
        scan->request.to_wall_ns =
            query->to_us >= INT64_MAX / 1000 - 1 ? INT64_MAX : (query->to_us + 1) * 1000;
    }
    begin_text(scan);
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
