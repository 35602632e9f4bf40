/* The timeline: Chrome's trace events out of the blocks of the control store, oldest first. */
#include <stdio.h>
#include <stdlib.h>

#include "common/base/log.h"
#include "server/api/engine_scan.h"

struct timeline {
    int64_t from_us, to_us;
    uint32_t items, limit;
};

static void trace_begin(struct scan *scan, const char *phase, const char *category)
{
    struct timeline *line = scan->context;
    mob_text_printf(&scan->flight->op->json,
        "%s{\"ph\":\"%s\",\"cat\":\"%s\",\"name\":", line->items++ > 0 ? ",\n" : "", phase, category);
    scan->full = line->items >= line->limit;
}

static void trace_task(
    struct scan *scan, const struct mob_completion_head *c, const struct mob_block_header *header)
{
    const struct timeline *line = scan->context;
    struct mob_text *t = &scan->flight->op->json;
    int64_t begin = scan_wall_us(header, c->started_ns), end = scan_wall_us(header, c->finished_ns);
    if (!c->started_ns || end < line->from_us || begin > line->to_us)
        return;
    const struct seen *s = scan_seen(scan, c->task, false);
    char id[MOB_ID_TEXT_MAX], name[640] = "";
    if (s)
        scan_full_name(scan, s->function, s->kind, s->method, name, sizeof name);
    trace_begin(scan, "X", "task");
    mob_text_json_cstring(t, name[0] ? name : "task");
    mob_text_printf(t,
        ",\"ts\":%lld,\"dur\":%lld,\"pid\":%llu,\"tid\":%u,\"args\":{\"task\":\"%s\",\"attempt\":%u,"
        "\"status\":\"%s\","
        "\"queued_us\":%lld}}",
        (long long)begin, (long long)(end - begin), (unsigned long long)header->incarnation, c->worker,
        mob_task_id_format(c->task, id), c->attempt, mob_status_code((enum mob_status)c->status),
        (long long)((c->started_ns - c->submitted_ns) / 1000));
}

static void trace_event(
    struct scan *scan, const struct mob_entry *entry, const struct mob_block_header *header)
{
    const struct timeline *line = scan->context;
    struct mob_text *t = &scan->flight->op->json;
    const struct mob_out_event *e = &entry->event;
    int64_t at = scan_wall_us(header, e->at_ns);
    if (at < line->from_us || at > line->to_us || e->type_bytes > entry->payload_bytes)
        return;
    const struct seen *s = scan_seen(scan, e->task, false);
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
        struct seen *s = scan_seen(scan, entry->spec.head.task, true);
        s->function = entry->spec.head.function;
        s->kind = entry->spec.head.kind;
        s->method = entry->spec.head.method;
    } else if (scan->full) {
        scan->more = true;
    } else if (entry->type == MOB_ENTRY_COMPLETION) {
        trace_task(scan, &entry->completion.head, header);
    } else if (entry->type == MOB_ENTRY_EVENT) {
        trace_event(scan, entry, header);
    }
}

static void begin_text(struct scan *scan)
{
    struct timeline *line = scan->context;
    line->items = 0;
    mob_text_puts(&scan->flight->op->json, "{\"traceEvents\":[");
}

static void finish_trace(struct scan *scan)
{
    mob_text_printf(&scan->flight->op->json,
        "],\"displayTimeUnit\":\"ms\",\"otherData\":{\"truncated\":%s}}\n", scan->more ? "true" : "false");
}

static void destroy_trace(struct scan *scan)
{
    free(scan->context);
}

static const struct scan_methods methods = {trace_entry, NULL, NULL, finish_trace, begin_text, destroy_trace};

void engine_start_timeline(struct flight *flight)
{
    struct mob_engine_query *query = &flight->op->query;
    struct timeline *line = calloc(1, sizeof *line);
    MOB_ASSERT(line != NULL);
    *line = (struct timeline){query->from_us, query->to_us, 0, query->limit};
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
