/* Items of a generator, as they come: read from the lineage, so what is given is committed and is given again
 * to whoever asks again. Who waits for the next one is woken when it is there, or when the generator has
 * ended.
 *
 * A cursor is "INDEX.POSITION": the next item, and behind which block of the log to look for it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "server/api/engine_reading.h"

struct items {
    struct mob_task_id task;
    uint32_t first; /* item that is wanted first */
    uint64_t position; /* it is not in or before this block */
};

static void look(struct flight *flight);

static struct items *items_of(const struct flight *flight)
{
    return flight->context;
}

static void end(struct flight *flight)
{
    free(flight->context);
    flight->context = NULL;
    flight_done(flight);
}

static void refuse(struct flight *flight, enum mob_status status, const char *why)
{
    free(flight->context);
    flight->context = NULL;
    flight_fail(flight, status, NULL, "%s", why);
}

static void refuse_unknown(struct flight *flight)
{
    free(flight->context);
    flight->context = NULL;
    flight_fail_unknown(flight, "task");
}

/* --- answering --- */

/* It goes on. */
static void write_cursor(struct flight *flight)
{
    const struct items *items = items_of(flight);
    char own[48], tag[MOB_CURSOR_TAG_MAX];
    snprintf(own, sizeof own, "%u.%llu", items->first, (unsigned long long)items->position);
    mob_engine_cursor_tag(&flight->op->query, own, tag);
    mob_text_printf(&flight->op->json, "],\"next_cursor\":\"%s%s\",\"ended\":false", tag, own);
}

static void answer_none(struct flight *flight)
{
    mob_text_puts(&flight->op->json, "{\"items\":[");
    write_cursor(flight);
    mob_text_puts(&flight->op->json, "}\n");
    end(flight);
}

static const struct lineage_item *item_at(const struct task_record *record, uint32_t index)
{
    for (size_t i = 0; i < record->item_count; i++)
        if (record->items[i].index == index)
            return &record->items[i];
    return NULL;
}

static bool is_final(const struct task_record *record)
{
    return record->has_completion && (record->completion.flags & MOB_COMPLETION_FINAL);
}

/* Items in the record, in order and without a gap; moves `items` behind them. */
static uint32_t write_items(struct items *items, const struct task_record *record, struct mob_text *t)
{
    uint32_t count = 0;
    mob_text_puts(t, "{\"items\":[");
    /* Mostly they lie in the order in which they came, which is their own. */
    for (size_t i = 0; i < record->item_count; i++) {
        const struct lineage_item *item = &record->items[i];
        if (item->index != items->first)
            item = item_at(record, items->first);
        if (!item)
            break;
        if (count++ > 0)
            mob_text_putc(t, ',');
        lineage_item_write(record->id, item, t);
        items->position = item->seq - 1; /* the next may be in the same block */
        items->first++;
    }
    return count;
}

static void answer(struct flight *flight, const struct task_record *record)
{
    struct items *items = items_of(flight);
    struct mob_text *t = &flight->op->json;
    uint32_t count = write_items(items, record, t);
    bool failed = is_final(record) && record->completion.status != MOB_OK;
    bool ended = is_final(record) && items->first >= record->items_logged;
    if (count == 0 && !ended && mob_now() < flight->op->query.wait_deadline_ns) {
        mob_text_fini(t);
        look(flight);
        return;
    }
    if (ended)
        mob_text_puts(t, "],\"next_cursor\":null,\"ended\":true");
    else
        write_cursor(flight);
    if (ended && failed)
        task_record_write_error(record, t);
    mob_text_puts(t, "}\n");
    end(flight);
}

/* --- reading --- */

static void read_items(struct flight *flight);

/* In no log: then it runs and has given nothing yet, or it never was. */
static void on_found(struct flight *flight, const struct engine_found *found)
{
    if (found->known == ENGINE_NEVER)
        refuse_unknown(flight);
    else if (mob_now() < flight->op->query.wait_deadline_ns)
        look(flight);
    else
        answer_none(flight);
}

static void on_read(struct reading *reading, enum mob_status status)
{
    struct flight *flight = reading->flight;
    const struct items *items = items_of(flight);
    const struct task_record *record = lineage_set_find(reading->set, items->task);
    if (status != MOB_OK)
        refuse(flight, status, "the control store does not answer");
    else if (record && record->has_spec && record->spec.num_returns != MOB_RETURNS_STREAM)
        refuse(flight, MOB_NOT_FOUND, "this task gives no items: it is not a generator");
    else if (record)
        answer(flight, record);
    else
        engine_find(flight, items->task, ENGINE_FIND_RECORD, on_found);
    reading_end(reading);
}

/* A page more than it takes, so that it is known whether there is more. */
static bool has_enough(const struct reading *reading)
{
    const struct items *items = items_of(reading->flight);
    const struct task_record *record = lineage_set_find(reading->set, items->task);
    return record && record->items_logged > items->first + reading->flight->op->query.limit;
}

static void read_items(struct flight *flight)
{
    const struct items *items = items_of(flight);
    struct reading *reading = reading_begin(flight, on_read, NULL);
    reading->has_enough = has_enough;
    lineage_set_want_items(reading->set, items->task, items->first, flight->op->query.limit);
    reading_group_behind(reading, items->task.stream, items->task.index >> MOB_GROUP_SHIFT, items->position);
}

/* --- waiting --- */

static void on_ready(struct mob_future *future, void *arg)
{
    struct flight *flight = arg;
    flight->engine->worked++;
    flight_clear_deadline(flight);
    mob_release(future);
    flight->future = NULL;
    read_items(flight);
}

/* For the next item; its future ends, one way or the other, also when there is none. */
static void look(struct flight *flight)
{
    const struct items *items = items_of(flight);
    char id[MOB_ID_TEXT_MAX];
    mob_object_id_format(mob_object_of(items->task, items->first), id);
    enum mob_status status = mob_future_from_id(flight->client, id, &flight->future);
    if (status == MOB_OK)
        status = flight_listen(flight, on_ready);
    if (status != MOB_OK)
        refuse(flight, status, mob_client_error(flight->client));
    else
        flight_set_deadline(flight, flight->op->query.wait_deadline_ns, answer_none);
}

/* --- all of a short one, for an answer that waited for its end --- */

struct values {
    uint32_t count;
    void (*then)(struct flight *flight, char *json);
};

static bool write_values(const struct task_record *record, uint32_t count, struct mob_text *t)
{
    mob_text_putc(t, '[');
    for (uint32_t i = 0; i < count && t->length <= ENGINE_JSON_VALUE_MAX; i++) {
        const struct lineage_item *item =
            i < record->item_count && record->items[i].index == i ? &record->items[i] : item_at(record, i);
        if (!item || !item->payload)
            return false;
        if (i > 0)
            mob_text_putc(t, ',');
        lineage_item_write_value(item, t);
    }
    mob_text_putc(t, ']');
    return t->length <= ENGINE_JSON_VALUE_MAX;
}

static void on_all_read(struct reading *reading, enum mob_status status)
{
    struct flight *flight = reading->flight;
    struct values *values = reading->context;
    const struct task_record *record = lineage_set_find(reading->set, flight->op->submit.task);
    struct mob_text t = {0};
    size_t length;
    char *json = status == MOB_OK && record && write_values(record, values->count, &t)
        ? mob_text_take(&t, &length)
        : NULL;
    mob_text_fini(&t);
    void (*then)(struct flight * flight, char *json) = values->then;
    free(values);
    reading_end(reading);
    then(flight, json);
}

void engine_stream_values(
    struct flight *flight, uint32_t count, void (*then)(struct flight *flight, char *json))
{
    struct mob_task_id task = flight->op->submit.task;
    if (count > ENGINE_STREAM_VALUES_MAX) {
        then(flight, NULL);
        return;
    }
    struct values *values = malloc(sizeof *values);
    MOB_ASSERT(values != NULL);
    *values = (struct values){count, then};
    struct reading *reading = reading_begin(flight, on_all_read, values);
    lineage_set_want_items(reading->set, task, 0, count);
    reading_group(reading, task.stream, task.index >> MOB_GROUP_SHIFT);
}

void engine_start_items(struct flight *flight)
{
    const struct mob_engine_query *query = &flight->op->query;
    struct items *items = calloc(1, sizeof *items);
    unsigned long long position = 0;
    int length = 0;
    MOB_ASSERT(items != NULL);
    flight->context = items;
    if (mob_task_id_parse(query->id, &items->task) != MOB_OK) {
        refuse(flight, MOB_NOT_FOUND, "no such task");
        return;
    }
    if (query->cursor) {
        (void)!sscanf(query->cursor, "%10u.%20llu%n", &items->first, &position, &length);
        if (length == 0 || query->cursor[length] != 0) {
            refuse(flight, MOB_BAD_REQUEST, "cursor: not one that these items gave; begin without one");
            return;
        }
    }
    items->position = position;
    read_items(flight);
}
