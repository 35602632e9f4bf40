/* Lists of tasks that failed or were cancelled, newest first, through the indexes of failures: of the member,
 * which knows the blocks with failures in them, and of PostgreSQL, which has failures one by one.
 *
 * Their order is (time of the end, task), both of which stay what they are when a block is flushed, and a
 * cursor is the place of a row in it. So a page is the best rows behind that place, wherever they lie: blocks
 * of the member from the newest on, then what was flushed, shard after shard. Once there are enough rows only
 * what is not older than the last of them is asked for, so most reads end after a page of blocks. A search
 * that finds too little in SEARCH_BLOCKS_MAX of them gives what it has, and a cursor to go on from.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/base/log.h"
#include "server/api/engine_reading.h"
#include "server/api/engine_scan.h"
#include "server/api/filter.h"
#include "server/api/task_row.h"

#define SEARCH_BLOCKS_MAX 4096u
#define PAGE_BLOCKS_MAX 128u /* a page of the member's blocks, which are whole ones */
#define FUNCTIONS_MAX 16 /* versions of one name that are looked for one after the other */

struct place_in_time {
    int64_t finished_us;
    struct mob_task_id task;
};
struct found {
    struct mob_task_id task;
    struct task_row_end end;
};
struct failure {
    struct place_in_time place;
    json_t *json;
};

struct failures {
    struct flight *flight;
    struct mob_filter filter;
    struct place_in_time cursor; /* rows behind it are wanted */
    int64_t from_us, to_us; /* of ends, by the filter */
    struct mob_gcs_scan request;
    struct mob_function_id functions[FUNCTIONS_MAX]; /* that have the name; none: all are read and compared */
    uint32_t function_count, function_at;
    bool names_read, names_missing;
    struct failure *rows; /* the best ones so far, in order */
    size_t count, capacity; /* one more than are wanted: it says that there are more */
    uint32_t blocks; /* read */
    int64_t lowest_us; /* end of anything that was read */
    bool cut_short;
    int64_t cut_us; /* older ones were not all looked at */
    /* The page that is worked on. */
    struct found *found;
    size_t found_count, found_capacity, at;
    struct lineage_set *set;
    struct reading *reading; /* specs in other blocks */
    uint64_t next;
    uint32_t next_tie;
};

/* ---- the order ---- */

static int compare_tasks(struct mob_task_id a, struct mob_task_id b)
{
    int order = memcmp(&a.stream, &b.stream, sizeof a.stream);
    return order != 0 ? order : (a.index > b.index) - (a.index < b.index);
}

static bool is_before(struct place_in_time a, struct place_in_time b)
{
    return a.finished_us != b.finished_us ? a.finished_us > b.finished_us : compare_tasks(a.task, b.task) > 0;
}

static char *cursor_text(struct place_in_time p)
{
    uint64_t high;
    uint32_t low;
    char *text = NULL;
    memcpy(&high, p.task.stream.b, sizeof high);
    memcpy(&low, p.task.stream.b + sizeof high, sizeof low);
    int n = asprintf(&text, "f%lld.%llu.%u.%u", (long long)p.finished_us, (unsigned long long)high, low,
        (unsigned)p.task.index);
    return n < 0 ? NULL : text;
}

static bool read_cursor(const char *text, struct place_in_time *out)
{
    unsigned long long time, high;
    unsigned low, index;
    int end = 0;
    (void)!sscanf(text, "f%18llu.%20llu.%10u.%10u%n", &time, &high, &low, &index, &end);
    if (end == 0 || text[end] != '\0')
        return false;
    uint64_t first = high;
    *out = (struct place_in_time){.finished_us = (int64_t)time, .task.index = index};
    memcpy(out->task.stream.b, &first, sizeof first);
    memcpy(out->task.stream.b + sizeof first, &low, sizeof low);
    return true;
}

/* ---- the best rows ---- */

static bool is_full(const struct failures *f)
{
    return f->count == f->capacity;
}

/* Could a failure at this place be among them? */
static bool is_wanted(const struct failures *f, struct place_in_time p)
{
    return p.finished_us >= f->from_us && p.finished_us <= f->to_us && is_before(f->cursor, p) &&
        !(is_full(f) && !is_before(p, f->rows[f->count - 1].place));
}

/* Takes json. One that is there already came twice: from the member, and flushed a moment later. */
static void add_row(struct failures *f, struct place_in_time place, json_t *json)
{
    size_t low = 0, high = f->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (is_before(f->rows[middle].place, place))
            low = middle + 1;
        else
            high = middle;
    }
    bool twice = low < f->count && !is_before(place, f->rows[low].place);
    if (twice || low == f->capacity) {
        json_decref(json);
        return;
    }
    if (is_full(f))
        json_decref(f->rows[--f->count].json);
    memmove(f->rows + low + 1, f->rows + low, (f->count - low) * sizeof *f->rows);
    f->rows[low] = (struct failure){place, json};
    f->count++;
}

static void drop_rows(struct failures *f)
{
    while (f->count > 0)
        json_decref(f->rows[--f->count].json);
}

/* ---- ends ---- */

static void destroy(struct failures *f)
{
    drop_rows(f);
    if (f->reading)
        reading_end(f->reading);
    lineage_set_destroy(f->set);
    free(f->rows);
    free(f->found);
    free(f);
}

static void fail(struct failures *f, enum mob_status status)
{
    struct flight *flight = f->flight;
    destroy(f);
    flight_fail(flight, status, NULL, "the control store does not answer");
}

static void answer(struct failures *f)
{
    struct flight *flight = f->flight;
    struct mob_engine_query *query = &flight->op->query;
    json_t *items = json_array();
    bool more = is_full(f);
    size_t limit = more ? f->count - 1 : f->count, given = 0;
    for (; given < limit && !(f->cut_short && f->rows[given].place.finished_us < f->cut_us); given++)
        json_array_append(items, f->rows[given].json);
    bool truncated = f->cut_short && !(more && given == limit);
    /* Behind all that ended at cut_us or later. */
    struct place_in_time last = {.finished_us = f->cut_us};
    if (!truncated && more)
        last = f->rows[given - 1].place;
    mob_engine_next_cursor(query, more || truncated ? cursor_text(last) : NULL);
    json_t *out = json_pack("{s:o,s:s?,s:n,s:b,s:n}", "items", items, "next_cursor", query->cursor,
        "total_estimate", "truncated", (int)truncated, "dropped_before");
    destroy(f);
    flight_done_json(flight, out);
}

/* ---- a page of blocks ---- */

static void note_entry(void *arg, const struct mob_entry *entry, const struct mob_block_header *header)
{
    struct failures *f = arg;
    const struct mob_completion_head *c = &entry->completion.head;
    if (entry->type != MOB_ENTRY_COMPLETION || !(c->flags & MOB_COMPLETION_FINAL) || c->status == MOB_OK)
        return;
    struct found found = {c->task,
        {.status = (enum mob_status)c->status,
            .worker = c->worker,
            .attempt = c->attempt,
            .started_us = scan_wall_us(header, c->started_ns),
            .finished_us = scan_wall_us(header, c->finished_ns)}};
    f->lowest_us = found.end.finished_us < f->lowest_us ? found.end.finished_us : f->lowest_us;
    if (!is_wanted(f, (struct place_in_time){found.end.finished_us, found.task}))
        return;
    if (f->found_count == f->found_capacity) {
        f->found_capacity = f->found_capacity ? 2 * f->found_capacity : 128;
        f->found = realloc(f->found, f->found_capacity * sizeof *f->found);
        MOB_ASSERT(f->found != NULL);
    }
    f->found[f->found_count++] = found;
    lineage_set_want(f->set, found.task.stream, found.task.index >> MOB_GROUP_SHIFT);
}

static void note_block(struct failures *f, const struct mob_gcs_block_row *row)
{
    scan_each_entry(f->flight->engine, row, note_entry, f);
    f->blocks++;
}

static void make_row(struct failures *f, const struct found *found, const struct task_record *record)
{
    struct engine *engine = f->flight->engine;
    struct mob_function_id function = record->spec.function;
    if (!f->names_read && !engine_function_of(engine, function))
        f->names_missing |= engine_function_is_missing(engine, function);
    json_t *json = engine_record_row(engine, record);
    task_row_end(json, &found->end);
    if (mob_filter_matches(&f->filter, json))
        add_row(f, (struct place_in_time){found->end.finished_us, found->task}, json);
    else
        json_decref(json);
}

static void read_page(struct failures *f);
static void start(void *arg);

static void begin_shard(struct failures *f, uint32_t shard)
{
    f->request.shard = shard;
    f->function_at = 0;
    f->request.function = f->function_count > 0 ? f->functions[0] : (struct mob_function_id){0};
    f->request.position = 0;
    f->request.tie = 0;
}

/* Where to read on, and down to when. */
static void go_on(struct failures *f)
{
    f->request.position = f->next;
    f->request.tie = f->next_tie;
    int64_t floor_us = is_full(f) ? f->rows[f->count - 1].place.finished_us : f->from_us;
    if (!is_full(f) && !f->cut_short && f->blocks >= SEARCH_BLOCKS_MAX) {
        f->cut_short = true;
        f->cut_us = f->lowest_us;
    }
    if (f->cut_short && f->cut_us > floor_us)
        floor_us = f->cut_us;
    f->request.from_wall_ns = floor_us * 1000;
    bool behind = f->next & MOB_GCS_COLD_TIME_BIT &&
        (int64_t)(f->next & ~(MOB_GCS_COLD_BIT | MOB_GCS_COLD_TIME_BIT)) < floor_us;
    bool more = f->next != 0 && !behind;
    if (!more && f->function_at + 1 < f->function_count) { /* in PostgreSQL; the member was read for all */
        f->request.function = f->functions[++f->function_at];
        f->request.position = mob_gcs_cold_position(MOB_GCS_COLD_SEQ_MAX, MOB_GCS_COLD_ROW_MAX);
        f->request.tie = 0;
        more = true;
    }
    if (!more && f->request.shard + 1 < mob_gcs_shard_count(f->flight->engine->gcs)) {
        begin_shard(f, f->request.shard + 1);
        more = true;
    }
    if (more)
        read_page(f);
    else if (f->names_missing)
        engine_functions_refresh(f->flight->engine, start, f);
    else
        answer(f);
}

static void end_page(struct failures *f)
{
    reading_end(f->reading);
    f->reading = NULL;
    lineage_set_destroy(f->set);
    f->set = NULL;
}

static void on_group(struct reading *reading, enum mob_status status)
{
    struct failures *f = reading->context;
    for (; status == MOB_OK && f->at < f->found_count; f->at++) {
        const struct found *found = &f->found[f->at];
        const struct task_record *record = lineage_set_find(f->set, found->task);
        if (!is_wanted(f, (struct place_in_time){found->end.finished_us, found->task}))
            continue;
        if (!record || !record->has_spec) {
            if (reading_group(reading, found->task.stream, found->task.index >> MOB_GROUP_SHIFT))
                return;
            record = lineage_set_find(reading->set, found->task);
        }
        if (record && record->has_spec)
            make_row(f, found, record);
    }
    end_page(f);
    if (status == MOB_OK)
        go_on(f);
    else
        fail(f, status);
}

static void on_page(void *arg, const struct mob_gcs_answer *answer)
{
    struct failures *f = arg;
    if (answer->status != MOB_OK && answer->status != MOB_NOT_FOUND) {
        fail(f, answer->status);
        return;
    }
    f->set = lineage_set_create();
    MOB_ASSERT(f->set != NULL);
    f->found_count = f->at = 0;
    for (uint32_t i = 0; i < answer->block_count; i++)
        note_block(f, &answer->blocks[i]);
    for (uint32_t i = 0; i < answer->block_count && f->found_count > 0; i++)
        lineage_set_block(f->set, f->flight->engine->decoder, answer->blocks[i].seq, answer->blocks[i].bytes,
            answer->blocks[i].length);
    f->next = answer->next;
    f->next_tie = answer->tie;
    f->reading = reading_begin(f->flight, on_group, f);
    on_group(f->reading, MOB_OK);
}

static void read_page(struct failures *f)
{
    enum mob_status status = mob_gcs_scan(f->flight->engine->gcs, &f->request, on_page, f);
    if (status != MOB_OK)
        fail(f, status);
}

/* ---- what is asked ---- */

static const char *term(const struct mob_filter *filter, const char *field)
{
    for (size_t i = 0; i < filter->count; i++)
        if (strcmp(filter->terms[i].field, field) == 0)
            return filter->terms[i].value;
    return NULL;
}

/* The functions that a name stands for, or for a call the class that has the method. */
static void look_up_functions(struct failures *f)
{
    const char *name = term(&f->filter, "function");
    f->function_count = f->function_at = 0;
    if (!name || strchr(name, '*'))
        return;
    size_t count = engine_functions_named(f->flight->engine, name, f->functions, FUNCTIONS_MAX);
    f->function_count = count <= FUNCTIONS_MAX ? (uint32_t)count : 0;
}

/* From the newest failure on. Also the second time, when all names are known. */
static void start(void *arg)
{
    struct failures *f = arg;
    drop_rows(f);
    f->blocks = 0;
    f->cut_short = false;
    f->lowest_us = INT64_MAX;
    f->names_read |= f->names_missing || term(&f->filter, "function") != NULL;
    f->names_missing = false;
    look_up_functions(f);
    begin_shard(f, 0);
    f->request.from_wall_ns = f->from_us * 1000;
    read_page(f);
}

/* Nothing but what the indexes are read by, so that each row that comes is one of the list. */
static bool is_exact(const struct failures *f)
{
    static const char *const used[] = {"state", "job", "function", "finished_us"};
    for (size_t i = 0; i < f->filter.count; i++) {
        bool is_used = false;
        for (size_t k = 0; k < sizeof used / sizeof *used; k++)
            is_used |= strcmp(f->filter.terms[i].field, used[k]) == 0;
        if (!is_used)
            return false;
    }
    const char *name = term(&f->filter, "function");
    return !name || !strchr(name, '*');
}

static bool is_of_failures(const struct mob_engine_query *query, const struct mob_filter *filter)
{
    const char *state = term(filter, "state");
    return query->kind == MOB_ITEM_TASK && !(query->sort && *query->sort) && state &&
        (strcasecmp(state, "failed") == 0 || strcasecmp(state, "cancelled") == 0);
}

/* Times that the filter names; microseconds that are none are as good as the first or the last. */
#define TIME_MAX_US (INT64_MAX / 1000 - 2)
static void bound_times(struct failures *f)
{
    f->from_us = 0;
    f->to_us = TIME_MAX_US;
    int64_t submitted_to = TIME_MAX_US;
    mob_filter_bounds(&f->filter, "finished_us", &f->from_us, &f->to_us);
    mob_filter_bounds(&f->filter, "submitted_us", &f->from_us, &submitted_to); /* it ends behind that */
    f->from_us = f->from_us > TIME_MAX_US ? TIME_MAX_US : f->from_us;
    int64_t last_us = f->to_us < f->cursor.finished_us ? f->to_us : f->cursor.finished_us;
    f->request.to_wall_ns = last_us >= TIME_MAX_US ? INT64_MAX : last_us < 0 ? 1 : (last_us + 1) * 1000;
}

bool engine_list_failures(struct flight *flight)
{
    const struct mob_engine_query *query = &flight->op->query;
    struct mob_filter filter;
    if (mob_filter_parse(query->filter, &filter) != MOB_OK || !is_of_failures(query, &filter))
        return false;
    struct failures *f = calloc(1, sizeof *f);
    MOB_ASSERT(f != NULL);
    *f = (struct failures){.flight = flight,
        .filter = filter,
        .capacity = query->limit + 1,
        .cursor = {.finished_us = INT64_MAX},
        .request = {.failed = true, .newest_first = true}};
    if (query->cursor && !read_cursor(query->cursor, &f->cursor)) {
        destroy(f);
        flight_fail(flight, MOB_BAD_REQUEST, NULL, "cursor: not one that this list gave; begin without one");
        return true;
    }
    f->rows = calloc(f->capacity, sizeof *f->rows);
    MOB_ASSERT(f->rows != NULL);
    bool few = f->capacity < PAGE_BLOCKS_MAX && is_exact(f);
    f->request.limit = few ? (uint32_t)f->capacity : PAGE_BLOCKS_MAX;
    bound_times(f);
    const char *job = term(&f->filter, "job");
    if (job)
        (void)!mob_job_id_parse(job, &f->request.job);
    if (term(&f->filter, "function")) /* a driver may have deployed another version */
        engine_functions_refresh(flight->engine, start, f);
    else
        start(f);
    return true;
}
