/* Rows of lists of tasks and objects, out of the entries of a block. */
#include <stdio.h>
#include <stdlib.h>

#include "common/base/log.h"
#include "server/api/engine_list.h"
#include "server/api/task_row.h"

void list_row_free(struct row *row)
{
    json_decref(row->json);
    free(row);
}

void list_rows_free(struct row *rows)
{
    for (struct row *row = rows, *next; row; row = next) {
        next = row->next;
        list_row_free(row);
    }
}

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
    /* Two gateways that take one Idempotency-Key in the same moment both log it. */
    struct seen *s = scan_seen(scan, head->task, true);
    if (s->listed)
        return;
    s->listed = true;
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

struct deleted *list_find_deleted(const struct list *list, struct mob_object_id id)
{
    struct deleted *d = list->deleted[(mob_task_id_mix(id.task) ^ id.slot) % DELETED_BUCKETS];
    while (d && !mob_object_id_eq(d->id, id))
        d = d->next;
    return d;
}

void list_note_deleted(struct list *list, struct mob_object_id id)
{
    if (list_find_deleted(list, id))
        return;
    struct deleted **bucket = &list->deleted[(mob_task_id_mix(id.task) ^ id.slot) % DELETED_BUCKETS];
    struct deleted *d = malloc(sizeof *d);
    MOB_ASSERT(d != NULL);
    *d = (struct deleted){*bucket, id};
    *bucket = d;
}

void list_deleted_free(struct list *list)
{
    for (size_t b = 0; b < DELETED_BUCKETS; b++)
        for (struct deleted *d = list->deleted[b], *next; d; d = next) {
            next = d->next;
            free(d);
        }
}

static void object_entry(struct scan *scan, const struct mob_entry *entry,
    const struct mob_block_header *header, struct place place)
{
    struct mob_return_view ret;
    uint32_t at = 0;
    switch ((int)entry->type) {
    case MOB_ENTRY_PUT:
        if (entry->put.flags & MOB_PUT_DELETED)
            list_note_deleted(scan->context, entry->put.id);
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

void list_entry(struct scan *scan, const struct mob_entry *entry, const struct mob_block_header *header,
    struct place place)
{
    if (scan->flight->op->query.kind == MOB_ITEM_TASK)
        task_entry(scan, entry, header, place);
    else
        object_entry(scan, entry, header, place);
}
