/* In which state the rows of a list are: what newer blocks hold, and what only the node knows. */
#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"
#include "server/api/engine_list.h"
#include "server/api/engine_reading.h"
#include "server/api/task_row.h"

void list_fill_state(struct scan *scan, const struct row *row)
{
    const struct seen *s = scan_seen(scan, row->task, false);
    json_t *json = row->json;
    if (!s || !s->final) {
        task_row_live(json, &row->live);
        return;
    }
    task_row_end(json,
        &(struct task_row_end){.status = (enum mob_status)s->status,
            .worker = s->worker,
            .attempt = s->attempt,
            .started_us = s->started_us,
            .finished_us = s->finished_us});
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
        if (row->live.state != MOB_LIVE_NOT || !is_open(scan, row))
            continue;
        struct mob_task_id group = mob_put_group(id);
        if (reading_group(reading, group.stream, group.index >> MOB_GROUP_SHIFT))
            return false;
        const struct task_record *record = lineage_set_find(reading->set, id.task);
        if (record && scan->flight->op->query.kind == MOB_ITEM_TASK)
            note_record(scan, record);
        else if (record && task_record_put_state(record, id) == LINEAGE_PUT_DELETED)
            list_note_deleted(list, id);
    }
    return true;
}

static void on_group(struct reading *reading, enum mob_status status)
{
    struct scan *scan = reading->context;
    if (status == MOB_OK && !know_states(reading))
        return;
    reading_end(reading);
    if (status == MOB_OK)
        list_take_waiting(scan);
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
        if (is_open(scan, row) && at + sizeof row->live <= size) {
            memcpy(&row->live, text + at, sizeof row->live);
            at += sizeof row->live;
        }
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
        mob_ask(scan->flight->client, MOB_REQ_LIVE, ids, count * (uint32_t)sizeof *ids, on_live, scan) ==
            MOB_OK;
    free(ids);
    return asked;
}

bool list_page_end(struct scan *scan)
{
    struct list *list = scan->context;
    if (!list->waiting)
        return true;
    if (!list->asks_node || !ask_node(scan))
        look_for_ends(scan);
    return false;
}
