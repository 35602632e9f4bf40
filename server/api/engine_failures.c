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
#include "server/api/engine_specs.h"
#include "server/api/filter.h"
#include "server/api/place_in_time.h"
#include "server/api/task_row.h"

#define SEARCH_BLOCKS_MAX 4096u
#define PAGE_BLOCKS_MAX 128u /* a page of the member's blocks, which are whole ones */
#define FOUND_MAX 16384u /* failures that wait for their specs */
#define FUNCTIONS_MAX 16 /* versions of one name that are looked for one after the other */

struct found {
    struct place_in_time place;
    struct task_row_end end;
    uint64_t position; /* of its block, for spec_search_seek */
    bool noted; /* its spec is taken out of what comes by */
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
    bool names_read;
    bool by_end; /* the filter asks for nothing but what an end says */
    bool cut_short; /* see cut_us */
    bool read_all, more; /* more: by_end, there are others behind the last one found */
    struct failure *rows; /* the best ones so far, in order */
    size_t count, capacity; /* one more than are wanted: it says that there are more */
    int64_t lowest_us; /* end of anything that was read */
    int64_t cut_us; /* older ones were not all looked at */
    struct found *found; /* in order but for the page that is worked on; by_end: the best ones */
    size_t found_count, found_capacity, settled; /* settled: in order */
    struct spec_search *specs;
    struct place_in_time last; /* when there are more */
    uint64_t block_position; /* of the block that is read */
    uint64_t next;
    uint32_t blocks; /* read */
    uint32_t pages, pages_wanted; /* before specs are read */
    uint32_t next_tie;
};

/* ---- the best rows ---- */

/* The last of as many as are wanted; NULL: there are fewer. */
static const struct place_in_time *worst_place(const struct failures *f)
{
    if (f->by_end)
        return f->settled == f->capacity ? &f->found[f->settled - 1].place : NULL;
    return f->count == f->capacity ? &f->rows[f->count - 1].place : NULL;
}

/* Could a failure at this place be among them? */
static bool is_wanted(const struct failures *f, struct place_in_time p)
{
    const struct place_in_time *worst = worst_place(f);
    return p.finished_us >= f->from_us && p.finished_us <= f->to_us && place_is_before(f->cursor, p) &&
        !(worst && !place_is_before(p, *worst));
}

/* Takes json. One that is there already came twice: from the member, and flushed a moment later. */
static void add_row(struct failures *f, struct place_in_time place, json_t *json)
{
    size_t low = 0, high = f->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (place_is_before(f->rows[middle].place, place))
            low = middle + 1;
        else
            high = middle;
    }
    bool twice = low < f->count && !place_is_before(place, f->rows[low].place);
    if (twice || low == f->capacity) {
        json_decref(json);
        return;
    }
    if (f->count == f->capacity)
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
    spec_search_destroy(f->specs);
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
    bool more = f->by_end ? f->more : f->count == f->capacity;
    size_t limit = more && !f->by_end ? f->count - 1 : f->count, given = 0;
    for (; given < limit && !(f->cut_short && f->rows[given].place.finished_us < f->cut_us); given++)
        json_array_append(items, f->rows[given].json);
    bool truncated = f->cut_short && !(more && given == limit);
    /* Behind all that ended at cut_us or later. */
    struct place_in_time last = {.finished_us = f->cut_us};
    if (!truncated && more)
        last = f->by_end ? f->last : f->rows[given - 1].place;
    json_t *out = mob_engine_page(query, items, more || truncated ? place_cursor(last) : NULL, truncated);
    json_decref(items);
    destroy(f);
    flight_done_json(flight, out);
}

/* ---- a page of blocks ---- */

/* Of a filter that asks for nothing else. */
static bool end_matches(const struct failures *f, struct mob_job_id job, const struct task_row_end *end)
{
    char text[MOB_ID_TEXT_MAX];
    json_t *row = json_pack("{s:s}", "job", mob_job_id_format(job, text));
    task_row_end(row, end);
    bool matches = mob_filter_matches(&f->filter, row);
    json_decref(row);
    return matches;
}

static void note_entry(void *arg, const struct mob_entry *entry, const struct mob_block_header *header)
{
    struct failures *f = arg;
    const struct mob_completion_head *c = &entry->completion.head;
    if (entry->type != MOB_ENTRY_COMPLETION || !(c->flags & MOB_COMPLETION_FINAL) || c->status == MOB_OK)
        return;
    struct found found = {.position = f->block_position,
        .end = {.status = (enum mob_status)c->status,
            .worker = c->worker,
            .attempt = c->attempt,
            .started_us = scan_wall_us(header, c->started_ns),
            .finished_us = scan_wall_us(header, c->finished_ns)}};
    found.place = (struct place_in_time){found.end.finished_us, c->task};
    f->lowest_us = found.end.finished_us < f->lowest_us ? found.end.finished_us : f->lowest_us;
    if (!is_wanted(f, found.place) || (f->by_end && !end_matches(f, header->job, &found.end)))
        return;
    if (f->found_count == f->found_capacity) {
        f->found_capacity = f->found_capacity ? 2 * f->found_capacity : 128;
        f->found = realloc(f->found, f->found_capacity * sizeof *f->found);
        MOB_ASSERT(f->found != NULL);
    }
    f->found[f->found_count++] = found;
}

/* What was flushed is not looked for by its position: its spec is beside it. */
static void note_block(struct failures *f, const struct mob_gcs_block_row *row)
{
    uint32_t shards = mob_gcs_shard_count(f->flight->engine->gcs);
    f->block_position = row->recut ? 0 : mob_gcs_shard_position(shards, f->request.shard, row->seq);
    scan_each_entry(f->flight->engine, row, note_entry, f);
    f->blocks++;
}

static int newest_first(const void *a, const void *b)
{
    struct place_in_time x = ((const struct found *)a)->place, y = ((const struct found *)b)->place;
    return place_is_before(y, x) - place_is_before(x, y);
}

/* Each once, in order; and of those that are known by their ends alone no more than are wanted. */
static void settle(struct failures *f)
{
    size_t kept = 0;
    if (f->found_count > 0)
        qsort(f->found, f->found_count, sizeof *f->found, newest_first);
    for (size_t i = 0; i < f->found_count; i++)
        if (kept == 0 || place_is_before(f->found[kept - 1].place, f->found[i].place))
            f->found[kept++] = f->found[i];
    f->found_count = f->by_end && kept > f->capacity ? f->capacity : kept;
    f->settled = f->found_count;
}

static void note_specs(struct failures *f, const struct mob_gcs_answer *answer)
{
    for (size_t i = 0; i < f->found_count; i++) {
        if (!f->found[i].noted)
            spec_search_want(f->specs, f->found[i].place.task);
        f->found[i].noted = true;
    }
    for (uint32_t i = 0; i < answer->block_count && f->found_count > 0; i++)
        spec_search_block(f->specs, &answer->blocks[i]);
}

/* ---- their specs, and the rows ---- */

static void read_page(struct failures *f);
static void go_on(struct failures *f);

static void make_row(struct failures *f, const struct found *found)
{
    const struct task_record *record = spec_search_find(f->specs, found->place.task);
    if (!record || !is_wanted(f, found->place))
        return;
    json_t *json = engine_record_row(f->flight->engine, record);
    task_row_end(json, &found->end);
    if (mob_filter_matches(&f->filter, json))
        add_row(f, found->place, json);
    else
        json_decref(json);
}

/* All that is known is used up. */
static void make_rows(void *arg)
{
    struct failures *f = arg;
    struct found *found = f->found;
    size_t count = f->found_count;
    f->found = NULL;
    f->found_count = f->found_capacity = f->settled = 0;
    for (size_t i = 0; i < count; i++)
        make_row(f, &found[i]);
    free(found);
    spec_search_destroy(f->specs);
    f->specs = spec_search_create(f->flight->engine);
    f->pages = 0;
    f->pages_wanted *= 2;
    go_on(f);
}

static void on_specs(void *arg, enum mob_status status)
{
    struct failures *f = arg;
    bool missing = false;
    if (status != MOB_OK) {
        fail(f, status);
        return;
    }
    for (size_t i = 0; i < f->found_count && !f->names_read && !missing; i++) {
        const struct task_record *record = spec_search_find(f->specs, f->found[i].place.task);
        missing = record && engine_function_is_missing(f->flight->engine, record->spec.function);
    }
    f->names_read |= missing;
    if (missing)
        engine_functions_refresh(f->flight->engine, make_rows, f);
    else
        make_rows(f);
}

static void read_specs(struct failures *f)
{
    f->more = f->by_end && f->found_count == f->capacity;
    if (f->more)
        f->last = f->found[--f->found_count - 1].place;
    for (size_t i = 0; i < f->found_count; i++)
        if (!spec_search_find(f->specs, f->found[i].place.task))
            spec_search_seek(f->specs, f->found[i].place.task, f->found[i].position);
    spec_search_read(f->specs, on_specs, f);
}

/* ---- page after page ---- */

static void begin_shard(struct failures *f, uint32_t shard)
{
    f->request.shard = shard;
    f->function_at = 0;
    f->request.function = f->function_count > 0 ? f->functions[0] : (struct mob_function_id){0};
    f->request.position = 0;
    f->request.tie = 0;
}

/* Where to read on, and down to when. False: nowhere. */
static bool next_place(struct failures *f)
{
    const struct place_in_time *worst = worst_place(f);
    int64_t floor_us = worst ? worst->finished_us : f->from_us;
    f->request.position = f->next;
    f->request.tie = f->next_tie;
    if (!worst && !f->cut_short && f->blocks >= SEARCH_BLOCKS_MAX) {
        f->cut_short = true;
        f->cut_us = f->lowest_us;
    }
    if (f->cut_short && f->cut_us > floor_us)
        floor_us = f->cut_us;
    f->request.from_wall_ns = floor_us * 1000;
    bool behind = f->next & MOB_GCS_COLD_TIME_BIT &&
        (int64_t)(f->next & ~(MOB_GCS_COLD_BIT | MOB_GCS_COLD_TIME_BIT)) < floor_us;
    if (f->next != 0 && !behind)
        return true;
    if (f->function_at + 1 < f->function_count) { /* in PostgreSQL; the member was read for all */
        f->request.function = f->functions[++f->function_at];
        f->request.position = mob_gcs_cold_position(MOB_GCS_COLD_SEQ_MAX, MOB_GCS_COLD_ROW_MAX);
        f->request.tie = 0;
        return true;
    }
    if (f->request.shard + 1 < mob_gcs_shard_count(f->flight->engine->gcs)) {
        begin_shard(f, f->request.shard + 1);
        return true;
    }
    return false;
}

/* Those that wait for their specs come first when there are enough of them, or a bound is reached. */
static void go_on(struct failures *f)
{
    bool enough = !f->by_end && f->found_count > 0 &&
        (f->pages >= f->pages_wanted || f->found_count >= FOUND_MAX || f->blocks >= SEARCH_BLOCKS_MAX);
    if (enough) {
        read_specs(f);
        return;
    }
    f->read_all = f->read_all || !next_place(f);
    if (!f->read_all)
        read_page(f);
    else if (f->found_count > 0)
        read_specs(f);
    else
        answer(f);
}

static void on_page(void *arg, const struct mob_gcs_answer *answer)
{
    struct failures *f = arg;
    if (answer->status != MOB_OK && answer->status != MOB_NOT_FOUND) {
        fail(f, answer->status);
        return;
    }
    for (uint32_t i = 0; i < answer->block_count; i++)
        note_block(f, &answer->blocks[i]);
    settle(f);
    note_specs(f, answer);
    f->next = answer->next;
    f->next_tie = answer->tie;
    f->pages++;
    go_on(f);
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

static void start(void *arg)
{
    struct failures *f = arg;
    f->names_read = term(&f->filter, "function") != NULL;
    look_up_functions(f);
    begin_shard(f, 0);
    f->request.from_wall_ns = f->from_us * 1000;
    read_page(f);
}

/* Nothing but these fields? */
static bool uses_only(const struct mob_filter *filter, const char *const *fields, size_t count)
{
    for (size_t i = 0; i < filter->count; i++) {
        bool is_one = false;
        for (size_t k = 0; k < count; k++)
            is_one |= strcmp(filter->terms[i].field, fields[k]) == 0;
        if (!is_one)
            return false;
    }
    return true;
}

/* What an end says; `function` is behind the others: PostgreSQL's index has it, blocks do not. */
static const char *const indexed[] = {"state", "job", "finished_us", "function"};
#define INDEXED (sizeof indexed / sizeof *indexed)

/* Each row that comes through the indexes is one of the list. */
static bool is_exact(const struct failures *f)
{
    const char *name = term(&f->filter, "function");
    return uses_only(&f->filter, indexed, INDEXED) && !(name && strchr(name, '*'));
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
        .by_end = uses_only(&filter, indexed, INDEXED - 1),
        .lowest_us = INT64_MAX,
        .pages_wanted = 1,
        .request = {.failed = true, .newest_first = true}};
    if (query->cursor && !place_of_cursor(query->cursor, &f->cursor)) {
        destroy(f);
        flight_fail(flight, MOB_BAD_REQUEST, NULL, "cursor: not one that this list gave; begin without one");
        return true;
    }
    f->rows = calloc(f->capacity, sizeof *f->rows);
    MOB_ASSERT(f->rows != NULL);
    f->specs = spec_search_create(flight->engine);
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
