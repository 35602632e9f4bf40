/* Rows of lists of tasks and objects, out of the entries of a block. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

/* It makes no row: its end, which is known already or stands in the same block, is not needed. */
static void pass_over(struct scan *scan, struct mob_task_id task)
{
    struct list *list = scan->context;
    if (list->sorted && list->passed_count < MOB_BLOCK_ENTRIES_MAX)
        list->passed[list->passed_count++] = task;
}

void list_block_end(struct scan *scan)
{
    struct list *list = scan->context;
    list->order.block_rows = 0;
    while (list->passed_count > 0)
        scan_seen_drop(scan, list->passed[--list->passed_count]);
}

/* False: it is none of the list. */
static bool add_row(
    struct scan *scan, json_t *json, struct mob_object_id id, struct place place, int64_t turn_ns)
{
    struct list *list = scan->context;
    if (!scan_is_behind(scan, place) || !mob_filter_matches(&list->early, json)) {
        json_decref(json);
        pass_over(scan, id.task);
        return false;
    }
    struct row *row = malloc(sizeof *row);
    MOB_ASSERT(row != NULL);
    *row = (struct row){.next = list->block, .place = place, .task = id.task, .slot = id.slot, .json = json};
    row->place.turn_ns = turn_ns;
    list->block = row; /* entries come oldest first, so the newest is in front */
    return true;
}

static void note_completion(
    struct scan *scan, const struct mob_entry *entry, const struct mob_block_header *header)
{
    const struct mob_completion_head *c = &entry->completion.head;
    if (scan->is_whole && scan->seen_count >= SEEN_MAX)
        scan_seen_clear(scan); /* what is needed of them is looked for */
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

/* Two gateways that take one Idempotency-Key in the same moment both log it. */
static bool was_listed(struct scan *scan, struct mob_task_id task)
{
    if (scan->is_whole)
        return scan_met(scan, task);
    struct seen *s = scan_seen(scan, task, true);
    bool listed = s->listed;
    s->listed = true;
    return listed;
}

/* What the list is sorted by, if it is known already. */
static bool value_of(struct scan *scan, struct mob_task_id task, int64_t submitted_us, int64_t *out)
{
    const struct list *list = scan->context;
    if (list->order.by == LIST_OTHER || list->order.by == LIST_SIZE)
        return false;
    *out = submitted_us;
    if (list->order.by == LIST_SUBMITTED)
        return true;
    const struct seen *s = scan_seen(scan, task, false);
    if (!s || !s->final)
        return false;
    *out = list->order.by == LIST_STARTED ? s->started_us : s->finished_us;
    return list->order.by == LIST_FINISHED || s->started_us > 0;
}

static void task_entry(struct scan *scan, const struct mob_entry *entry,
    const struct mob_block_header *header, struct place place)
{
    if (entry->type == MOB_ENTRY_COMPLETION)
        note_completion(scan, entry, header);
    if (entry->type != MOB_ENTRY_SPEC || entry->spec.head.attempt > 1)
        return;
    const struct mob_spec_head *head = &entry->spec.head;
    if (was_listed(scan, head->task))
        return;
    struct list_order *order = &((struct list *)scan->context)->order;
    int64_t value, submitted_us = scan_wall_us(header, entry->submitted_ns);
    bool known = value_of(scan, head->task, submitted_us, &value);
    if (known && list_order_lacks(order, value)) {
        pass_over(scan, head->task);
        return;
    }
    char name[ENGINE_FULL_NAME_MAX];
    scan_full_name(scan, head->function, head->kind, head->method, name, sizeof name);
    json_t *row = task_row(name, head, entry->spec.tail, header->job, submitted_us);
    if (add_row(scan, row, mob_object_of(head->task, 0), place, scan_turn_ns(header, submitted_us * 1000)) &&
        known)
        list_order_count(order, value);
}

static void object_row(struct scan *scan, const struct mob_block_header *header, struct place place,
    struct mob_object_id object, const char *state, const struct mob_return_view *ret, int64_t made_us)
{
    char id[MOB_ID_TEXT_MAX], task[MOB_ID_TEXT_MAX], job[MOB_ID_TEXT_MAX];
    const struct list *list = scan->context;
    if (list->order.by == LIST_SIZE && list_order_lacks(&list->order, (int64_t)ret->size))
        return;
    (void)add_row(scan,
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
    list->deleted_count++;
}

void list_deleted_free(struct list *list)
{
    for (size_t b = 0; b < DELETED_BUCKETS; b++)
        for (struct deleted *d = list->deleted[b], *next; d; d = next) {
            next = d->next;
            free(d);
        }
    memset(list->deleted, 0, sizeof list->deleted);
    list->deleted_count = 0;
}

static void note_deletion(struct list *list, struct mob_object_id id)
{
    if (list->sorted && list->deleted_count >= DELETED_MAX) {
        list_deleted_free(list);
        list->resumed = true;
    }
    list_note_deleted(list, id);
}

static void object_entry(struct scan *scan, const struct mob_entry *entry,
    const struct mob_block_header *header, struct place place)
{
    struct mob_return_view ret;
    uint32_t at = 0;
    switch ((int)entry->type) {
    case MOB_ENTRY_PUT:
        if (entry->put.flags & MOB_PUT_DELETED)
            note_deletion(scan->context, entry->put.id);
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
