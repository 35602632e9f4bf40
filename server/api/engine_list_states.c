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

/* The node does not have it, and no newer block that was read. */
static bool is_sought(struct scan *scan, const struct row *row)
{
    return row->live.state == MOB_LIVE_NOT && is_open(scan, row);
}

/* ---- ends of tasks: most stand a few blocks behind their specs ---- */

static bool is_of_group(const struct reading *reading, const struct row *row)
{
    return row->task.index >> MOB_GROUP_SHIFT == reading->group &&
        mob_stream_eq(row->task.stream, reading->stream);
}

/* What was found in the group that was read. */
static void note_ends(struct reading *reading)
{
    struct scan *scan = reading->context;
    const struct list *list = scan->context;
    for (const struct row *row = list->sought; row; row = row->next) {
        const struct task_record *record =
            is_of_group(reading, row) ? lineage_set_find(reading->set, row->task) : NULL;
        if (record)
            note_record(scan, record);
    }
}

/* What stands behind it holds its end. Of several shards, and among what was flushed, that is not so. */
static uint64_t position_of(const struct scan *scan, const struct row *row)
{
    return scan->lane_count > 1 || row->place.recut ? 0 : row->place.seq - 1;
}

static bool has_end(const struct reading *reading, const struct row *row)
{
    const struct task_record *record = lineage_set_find(reading->set, row->task);
    return record && record->has_completion && record->completion.flags & MOB_COMPLETION_FINAL;
}

/* All ends that are looked for in this group are there. */
static bool has_ends(const struct reading *reading)
{
    struct scan *scan = reading->context;
    struct list *list = scan->context;
    for (; list->unended; list->unended = list->unended->next)
        if (is_of_group(reading, list->unended) && is_sought(scan, list->unended) &&
            !has_end(reading, list->unended))
            return false;
    return true;
}

/* For this row and the older ones of its group. */
static void look_behind(struct reading *reading, struct row *row)
{
    struct scan *scan = reading->context;
    struct list *list = scan->context;
    uint64_t position = position_of(scan, row);
    reading->stream = row->task.stream;
    reading->group = row->task.index >> MOB_GROUP_SHIFT;
    list->unended = row;
    for (struct row *each = row; each; each = each->next) {
        if (!is_of_group(reading, each) || !is_sought(scan, each))
            continue;
        each->looked = true;
        lineage_set_want_task(reading->set, each->task);
        uint64_t at = position_of(scan, each);
        position = at < position ? at : position;
    }
    reading->has_enough = has_ends;
    reading_tasks_behind(reading, reading->stream, reading->group, position);
}

/* True: a group is being read. What was not found behind its spec may stand before it, as when the task ran
 * again after a restart: its group is read whole. */
static bool reads_ends(struct reading *reading)
{
    struct scan *scan = reading->context;
    struct list *list = scan->context;
    for (; list->sought; list->sought = list->sought->next) {
        struct row *row = list->sought;
        if (!is_sought(scan, row))
            continue;
        reading->has_enough = NULL;
        if (!row->looked) {
            look_behind(reading, row);
            return true;
        }
        if (reading_group(reading, row->task.stream, row->task.index >> MOB_GROUP_SHIFT))
            return true;
    }
    return false;
}

/* ---- objects that were deleted ---- */

static bool reads_deletions(struct reading *reading)
{
    struct scan *scan = reading->context;
    struct list *list = scan->context;
    for (struct row *row = list->waiting; row; row = row->next) {
        struct mob_object_id id = mob_object_of(row->task, row->slot);
        if (!is_sought(scan, row))
            continue;
        struct mob_task_id group = mob_put_group(id);
        if (reading_group(reading, group.stream, group.index >> MOB_GROUP_SHIFT))
            return true;
        const struct task_record *record = lineage_set_find(reading->set, id.task);
        if (record && task_record_put_state(record, id) == LINEAGE_PUT_DELETED)
            list_note_deleted(list, id);
    }
    return false;
}

static bool reads_more(struct reading *reading)
{
    const struct scan *scan = reading->context;
    if (scan->flight->op->query.kind != MOB_ITEM_TASK)
        return reads_deletions(reading);
    note_ends(reading);
    return reads_ends(reading);
}

static void on_group(struct reading *reading, enum mob_status status)
{
    struct scan *scan = reading->context;
    if (status == MOB_OK && reads_more(reading))
        return;
    reading_end(reading);
    if (status == MOB_OK)
        list_take_waiting(scan);
    scan_go_on(scan, status);
}

/* Those that the node does not have, either, ended a moment ago, or before the page that begins here. */
static void look_for_ends(struct scan *scan)
{
    struct list *list = scan->context;
    list->sought = list->waiting;
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
