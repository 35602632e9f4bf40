/* Lists of a task's children, newest first or by a field, through the groups that their ids are in.
 *
 * Children of one generation have the indices 0, 1, 2... of a stream that follows from the parent
 * (common/base/id.h), so the order of submission is that of (generation, continuation, index), and a cursor
 * is a place in it, which nothing moves. How far a stream goes is found by doubling and halving: there is no
 * group without a child before its last one, as long as nothing of it aged out. What an application error
 * made begin again, and so how many generations there may be, stands in the parent's lineage.
 *
 * So this is for parents whose spec is in the log, and younger than the retention. A session's root has no
 * spec, and may have calls between its children that are never logged; of an old parent early children may be
 * gone. Their lists are read from the log (engine_lists.c), and a list goes on as it began.
 */
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "server/api/engine_list.h"
#include "server/api/engine_reading.h"
#include "server/api/engine_whole.h"
#include "server/api/task_row.h"

/* That one request reads, beside those that it looks for the end of a stream in: 65,536 children. A sorted
 * list is read whole, and bounded by time (engine_whole.h). */
#define GROUPS_MAX 256u
#define GROUP_TASKS (1u << MOB_GROUP_SHIFT)
#define STREAM_END (MOB_CHILD_INDEX_MAX + 1u)
#define STREAM_GROUPS (STREAM_END >> MOB_GROUP_SHIFT)
#define END_UNKNOWN UINT32_MAX

/* Behind it are the children with smaller indices, smaller continuations and smaller generations. */
struct spot {
    uint32_t generation, continuation, end;
};

struct children {
    struct flight *flight;
    struct mob_filter filter;
    struct mob_task_id parent;
    uint64_t name; /* what its cursors are bound to */
    bool sorted;
    struct list_after after; /* of a sorted list */
    struct whole whole; /* of a sorted list: its turn */
    struct spot top, at; /* where the list begins, once it `begun`; how far it was read */
    bool begun;
    uint32_t groups; /* read so far */
    struct reading *reading;
    bool names_read, asked; /* of the group that is read: the node */
    struct mob_live_task live[GROUP_TASKS];
    uint32_t low, high; /* the stream has more than `low` groups or as many, and at most `high` */
    bool doubling;
    json_t *items;
    bool more; /* a row that matches did not fit in: `next` is before it */
    struct spot next;
};

static void step(struct children *c);

/* ---- ends ---- */

static void end_reading(struct children *c)
{
    if (c->reading)
        reading_end(c->reading);
    c->reading = NULL;
}

static void destroy(struct children *c)
{
    whole_end(&c->whole);
    end_reading(c);
    json_decref(c->items);
    list_after_fini(&c->after);
    free(c);
}

static void fail(struct children *c, enum mob_status status)
{
    struct flight *flight = c->flight;
    destroy(c);
    flight_fail(flight, status, NULL, "the control store does not answer");
}

static void end_late(struct children *c)
{
    struct flight *flight = c->flight;
    destroy(c);
    flight_fail(flight, MOB_TOO_MUCH, NULL,
        "there are more children than can be sorted in %lld s: ask without sort, page by page",
        (long long)(WHOLE_NS / MOB_SEC));
}

static struct scan_mark mark_of(struct spot spot)
{
    return (struct scan_mark){.kind = SCAN_MARK_BLOCK,
        .position = ((uint64_t)spot.generation << 32 | spot.continuation) + 1,
        .index = spot.end};
}

static char *cursor_text(const struct children *c, struct spot spot)
{
    struct scan_mark mark = mark_of(spot);
    char *text = malloc(SCAN_CURSOR_MAX);
    MOB_ASSERT(text != NULL);
    scan_cursor_write(&mark, 1, c->name, text);
    return text;
}

static bool read_cursor(struct children *c, const char *text)
{
    struct scan_mark mark;
    bool read = c->sorted ? list_sorted_cursor_read(text, &mark, 1, c->name, &c->after)
                          : scan_cursor_read(text, c->name, &mark, 1);
    if (!read || mark.kind != SCAN_MARK_BLOCK)
        return false;
    uint64_t place = mark.position - 1;
    c->top = c->at = (struct spot){(uint32_t)(place >> 32), (uint32_t)place, mark.index};
    c->begun = true;
    return true;
}

static void answer(struct children *c, bool cut_short)
{
    struct flight *flight = c->flight;
    struct mob_engine_query *query = &flight->op->query;
    char *cursor = NULL;
    if (c->sorted) {
        struct scan_mark top = mark_of(c->top);
        cursor = list_page_of_sorted(query, c->items) ? list_sorted_cursor(query, &top, 1, c->name, c->items)
                                                      : NULL;
    } else if (c->more || cut_short) {
        cursor = cursor_text(c, c->more ? c->next : c->at);
    }
    json_t *out = mob_engine_page(query, c->items, cursor, cut_short);
    destroy(c);
    flight_done_json(flight, out);
}

/* ---- groups ---- */

static struct mob_task_id child_at(const struct children *c, uint32_t index)
{
    return (struct mob_task_id){
        mob_stream_of_children(c->parent, c->at.generation, c->at.continuation), index};
}

/* Nothing of `c` is to be looked at behind it: an error that comes at once frees it. */
static void read_group(struct children *c, uint32_t group,
    void (*done)(struct reading *reading, enum mob_status status),
    bool (*has_enough)(const struct reading *reading))
{
    c->reading = reading_begin(c->flight, done, c);
    c->reading->has_enough = has_enough;
    (void)reading_group(c->reading, child_at(c, 0).stream, group);
}

/* NULL: it was not submitted, as far as what was read of its group says. */
static const struct task_record *record_of(const struct reading *reading, uint32_t index)
{
    const struct task_record *record =
        lineage_set_find(reading->set, (struct mob_task_id){reading->stream, index});
    return record && record->has_spec ? record : NULL;
}

static uint32_t first_of(uint32_t group)
{
    return group << MOB_GROUP_SHIFT;
}

/* The last child's index + 1, or the group's first index. */
static uint32_t end_in(const struct reading *reading)
{
    uint32_t first = first_of(reading->group), end = first + GROUP_TASKS;
    while (end > first && !record_of(reading, end - 1))
        end--;
    return end;
}

/* ---- how many groups a stream has ---- */

static void on_probe(struct reading *reading, enum mob_status status);

static bool has_any(const struct reading *reading)
{
    return end_in(reading) > first_of(reading->group);
}

static void probe(struct children *c)
{
    uint32_t middle = c->low + (c->high - c->low) / 2;
    uint32_t twice = c->low > 0 ? 2 * c->low - 1 : 0;
    read_group(c, c->doubling ? twice : middle, on_probe, has_any);
}

static void look_for_end(struct children *c)
{
    c->low = 0;
    c->high = STREAM_GROUPS;
    c->doubling = true;
    probe(c);
}

static void on_probe(struct reading *reading, enum mob_status status)
{
    struct children *c = reading->context;
    if (status != MOB_OK) {
        fail(c, status);
        return;
    }
    bool found = has_any(reading);
    if (found)
        c->low = reading->group + 1;
    else
        c->high = reading->group;
    c->doubling &= found;
    end_reading(c);
    if (c->low < c->high) {
        probe(c);
    } else if (c->low == STREAM_GROUPS) {
        c->at.continuation++;
        look_for_end(c);
    } else {
        c->at.end = first_of(c->low);
        c->groups++;
        step(c);
    }
}

/* ---- a group's rows ---- */

static bool is_open(const struct task_record *record)
{
    return !record->has_completion || !(record->completion.flags & MOB_COMPLETION_FINAL);
}

static json_t *row_of(const struct children *c, const struct task_record *record)
{
    json_t *row = engine_record_row(c->flight->engine, record);
    if (is_open(record))
        task_row_live(row, &c->live[record->id.index % GROUP_TASKS]);
    else
        engine_record_end(record, row);
    return row;
}

/* False: there is no room for it on this page. */
static bool take_row(struct children *c, const struct task_record *record)
{
    json_t *row = row_of(c, record);
    bool matches = mob_filter_matches(&c->filter, row) &&
        (!c->sorted || list_comes_after(&c->flight->op->query, &c->after, row));
    bool fits = c->sorted || json_array_size(c->items) < c->flight->op->query.limit;
    if (matches && fits)
        json_array_append(c->items, row);
    json_decref(row);
    return !matches || fits;
}

static void take_group(struct children *c)
{
    const struct reading *reading = c->reading;
    uint32_t first = first_of(reading->group);
    for (uint32_t end = c->at.end; end > first && !c->more; end--) {
        const struct task_record *record = record_of(reading, end - 1);
        if (record && !take_row(c, record)) {
            c->next = (struct spot){c->at.generation, c->at.continuation, end};
            c->more = true;
        }
    }
    if (c->sorted)
        (void)list_trim_sorted(&c->flight->op->query, c->items);
    c->at.end = first;
    c->groups++;
    c->asked = false;
    memset(c->live, 0, sizeof c->live);
    end_reading(c);
    if (c->more)
        answer(c, false);
    else
        step(c);
}

static void on_group(struct reading *reading, enum mob_status status);

/* Children without an end in the group that was read. */
static uint32_t open_children(const struct children *c, struct mob_task_id out[GROUP_TASKS])
{
    uint32_t count = 0;
    for (uint32_t end = c->at.end, first = first_of(c->reading->group); end > first; end--) {
        const struct task_record *record = record_of(c->reading, end - 1);
        if (record && is_open(record))
            out[count++] = record->id;
    }
    return count;
}

/* Those that the node does not have may have ended since: then that is in the log now. */
static void on_live(void *arg, enum mob_status status, const char *text, size_t size)
{
    struct children *c = arg;
    struct mob_task_id ids[GROUP_TASKS];
    uint32_t count = open_children(c, ids);
    bool again = false;
    for (uint32_t i = 0; i < count; i++) {
        struct mob_live_task live = {0};
        if (status == MOB_OK && (i + 1) * sizeof live <= size)
            memcpy(&live, text + i * sizeof live, sizeof live);
        c->live[ids[i].index % GROUP_TASKS] = live;
        again |= live.state == MOB_LIVE_NOT;
    }
    if (!again) {
        take_group(c);
        return;
    }
    uint32_t group = c->reading->group;
    end_reading(c);
    read_group(c, group, on_group, NULL);
}

static void ask_node(struct children *c)
{
    struct mob_task_id ids[GROUP_TASKS];
    uint32_t count = c->asked ? 0 : open_children(c, ids);
    c->asked = true;
    if (count == 0 ||
        mob_ask(c->flight->client, MOB_REQ_LIVE, ids, count * (uint32_t)sizeof *ids, on_live, c) != MOB_OK)
        take_group(c);
}

static bool lacks_name(const struct children *c)
{
    bool lacks = false;
    for (uint32_t end = c->at.end, first = first_of(c->reading->group); end > first && !lacks; end--) {
        const struct task_record *record = record_of(c->reading, end - 1);
        lacks = record && engine_function_is_missing(c->flight->engine, record->spec.function);
    }
    return lacks;
}

static void on_names(void *arg)
{
    ask_node(arg);
}

static void on_group(struct reading *reading, enum mob_status status)
{
    struct children *c = reading->context;
    if (status != MOB_OK) {
        fail(c, status);
        return;
    }
    if (!c->begun) { /* what is submitted from now on is not in the list */
        c->at.end = end_in(reading);
        c->top = c->at;
        c->begun = true;
        c->groups = 0;
    }
    if (!c->names_read && lacks_name(c)) {
        c->names_read = true;
        engine_functions_refresh(c->flight->engine, on_names, c);
    } else {
        ask_node(c);
    }
}

/* ---- the way down ---- */

/* False: this was the oldest stream. */
static bool go_below(struct children *c)
{
    struct spot *at = &c->at;
    if (at->continuation > 0)
        *at = (struct spot){at->generation, at->continuation - 1, STREAM_END};
    else if (at->generation > 0)
        *at = (struct spot){at->generation - 1, 0, END_UNKNOWN};
    else
        return false;
    return true;
}

static void step(struct children *c)
{
    bool more = true;
    while (more && c->at.end == 0)
        more = go_below(c);
    if (!more)
        answer(c, false);
    else if (c->sorted && whole_is_late(&c->whole))
        end_late(c);
    else if (!c->sorted && c->groups >= GROUPS_MAX)
        answer(c, true);
    else if (c->at.end == END_UNKNOWN)
        look_for_end(c);
    else
        read_group(c, (c->at.end - 1) >> MOB_GROUP_SHIFT, on_group, NULL);
}

/* ---- what is asked ---- */

/* The parent's word: of attempts that ended each may have begun a generation. */
static uint32_t newest_generation(const struct task_record *record)
{
    uint32_t newest = record->spec.generation;
    if (record->has_completion && record->completion.generation + is_open(record) > newest)
        newest = record->completion.generation + is_open(record);
    return record->retried_count > newest ? (uint32_t)record->retried_count : newest;
}

static void on_parent(struct reading *reading, enum mob_status status)
{
    struct children *c = reading->context;
    struct flight *flight = c->flight;
    const struct task_record *record = lineage_set_find(reading->set, c->parent);
    if (status != MOB_OK) {
        fail(c, status);
    } else if (record && record->has_spec &&
        record->submitted_wall_ns > mob_wall_now() - flight->engine->options.retention_ns) {
        c->at = (struct spot){newest_generation(record), 0, END_UNKNOWN};
        end_reading(c);
        step(c);
    } else {
        destroy(c);
        engine_list_log(flight);
    }
}

static bool parent_in(const struct mob_filter *filter, struct mob_task_id *out)
{
    for (size_t i = 0; i < filter->count; i++)
        if (strcmp(filter->terms[i].field, "parent") == 0)
            return mob_task_id_parse(filter->terms[i].value, out) == MOB_OK;
    return false;
}

static void start(void *context)
{
    struct children *c = context;
    if (c->begun) {
        step(c);
        return;
    }
    c->reading = reading_begin(c->flight, on_parent, c);
    (void)reading_group(c->reading, c->parent.stream, c->parent.index >> MOB_GROUP_SHIFT);
}

static void refused(void *context, enum mob_status status)
{
    struct children *c = context;
    struct flight *flight = c->flight;
    destroy(c);
    whole_fail(flight, status);
}

bool engine_list_children(struct flight *flight)
{
    const struct mob_engine_query *query = &flight->op->query;
    struct children *c = calloc(1, sizeof *c);
    MOB_ASSERT(c != NULL);
    *c = (struct children){.flight = flight,
        .name = ~list_name_of(query),
        .sorted = query->sort && *query->sort,
        .items = json_array()};
    if (query->kind != MOB_ITEM_TASK || mob_filter_parse(query->filter, &c->filter) != MOB_OK ||
        !parent_in(&c->filter, &c->parent) || (query->cursor && !read_cursor(c, query->cursor))) {
        destroy(c);
        return false;
    }
    if (c->sorted)
        whole_begin(&c->whole, flight, start, refused, c);
    else
        start(c);
    return true;
}
