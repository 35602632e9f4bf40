/* Was this id ever? The node is asked first, then the log; and what they say of one task. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"
#include "server/api/engine_reading.h"
#include "server/api/task_row.h"

/* --- groups of the lineage --- */

struct reading *reading_begin(
    struct flight *flight, void (*done)(struct reading *reading, enum mob_status status), void *context)
{
    struct reading *reading = calloc(1, sizeof *reading);
    MOB_ASSERT(reading != NULL);
    *reading =
        (struct reading){.flight = flight, .done = done, .context = context, .set = lineage_set_create()};
    MOB_ASSERT(reading->set != NULL);
    return reading;
}

void reading_end(struct reading *reading)
{
    lineage_set_destroy(reading->set);
    free(reading);
}

#define FEW_BLOCKS 16u /* of a search, to begin with */

static void on_blocks(void *arg, const struct mob_gcs_answer *answer);

static void ask_blocks(struct reading *reading, uint64_t position)
{
    enum mob_status status = mob_gcs_group_page(reading->flight->engine->gcs, reading->stream, reading->group,
        position, reading->limit, on_blocks, reading);
    if (status != MOB_OK)
        reading->done(reading, status);
}

static void on_blocks(void *arg, const struct mob_gcs_answer *answer)
{
    struct reading *reading = arg;
    bool enough = answer->status != MOB_OK;
    for (uint32_t i = 0; !enough && i < answer->block_count; i++) {
        lineage_set_block(reading->set, reading->flight->engine->decoder, answer->blocks[i].seq,
            answer->blocks[i].bytes, answer->blocks[i].length);
        enough = reading->has_enough && reading->has_enough(reading);
    }
    if (reading->limit > 0)
        reading->limit = 2 * reading->limit < MOB_GCS_ROWS_MAX ? 2 * reading->limit : 0;
    if (!enough && answer->next != 0)
        ask_blocks(reading, answer->next);
    else
        reading->done(reading, answer->status == MOB_NOT_FOUND ? MOB_OK : answer->status);
}

bool reading_group(struct reading *reading, struct mob_stream stream, uint32_t group)
{
    return reading_group_behind(reading, stream, group, 0);
}

bool reading_group_behind(
    struct reading *reading, struct mob_stream stream, uint32_t group, uint64_t position)
{
    if (!lineage_set_want(reading->set, stream, group))
        return false;
    reading->stream = stream;
    reading->group = group;
    reading->limit = 0;
    ask_blocks(reading, position);
    return true;
}

void reading_tasks_behind(
    struct reading *reading, struct mob_stream stream, uint32_t group, uint64_t position)
{
    reading->stream = stream;
    reading->group = group;
    reading->limit = FEW_BLOCKS;
    ask_blocks(reading, position);
}

/* --- edges of an actor --- */

#define EDGE_BLOCKS_BACK 32u

static void on_edges(void *arg, const struct mob_gcs_answer *answer);

static enum mob_status ask_edges(struct reading *reading, uint64_t after)
{
    struct mob_actor_id actor = reading->edge.actor;
    struct mob_task_id group = reading->edge.old ? actor.creation : mob_edge_group(actor);
    return mob_gcs_group_blocks(
        reading->flight->engine->gcs, group.stream, group.index >> MOB_GROUP_SHIFT, after, on_edges, reading);
}

static uint64_t edge_search_begin(const struct reading *reading)
{
    uint32_t shard;
    uint64_t in_shard = mob_gcs_position_in_shard(reading->edge.until, &shard);
    return in_shard > reading->edge.back ? reading->edge.until - reading->edge.back : 0;
}

static bool edge_found(struct reading *reading)
{
    return lineage_set_edge(reading->set, reading->edge.actor, reading->edge.position) != NULL;
}

static void on_edges(void *arg, const struct mob_gcs_answer *answer)
{
    struct reading *reading = arg;
    enum mob_status status = answer->status == MOB_NOT_FOUND ? MOB_OK : answer->status;
    bool passed = false; /* the block that the search began at */
    for (uint32_t i = 0; status == MOB_OK && i < answer->block_count && !edge_found(reading) && !passed;
         i++) {
        const struct mob_gcs_block_row *row = &answer->blocks[i];
        lineage_set_block(reading->set, reading->flight->engine->decoder, row->seq, row->bytes, row->length);
        passed = row->seq >= reading->edge.until;
    }
    passed |= answer->next == 0;
    bool found = edge_found(reading);
    if (status == MOB_OK && !found && !passed)
        status = ask_edges(reading, answer->next);
    else if (status == MOB_OK && !found && edge_search_begin(reading) > 0) {
        reading->edge.back *= 8;
        status = ask_edges(reading, edge_search_begin(reading));
    } else if (status == MOB_OK && !found && !reading->edge.old) {
        reading->edge.old = true; /* logged when edges lay in the group of the creation */
        reading->edge.back = EDGE_BLOCKS_BACK;
        status = ask_edges(reading, edge_search_begin(reading));
    } else {
        reading->done(reading, status);
        return;
    }
    if (status != MOB_OK)
        reading->done(reading, status);
}

bool reading_edge(struct reading *reading, struct mob_actor_id actor, uint64_t position, uint64_t until)
{
    bool again = mob_actor_id_eq(reading->edge.actor, actor) && reading->edge.position == position;
    if (again || lineage_set_edge(reading->set, actor, position))
        return false;
    lineage_set_want_edges(reading->set, actor);
    reading->edge.actor = actor;
    reading->edge.position = position;
    reading->edge.until = until;
    reading->edge.back = EDGE_BLOCKS_BACK;
    reading->edge.old = false;
    enum mob_status status = ask_edges(reading, edge_search_begin(reading));
    if (status != MOB_OK)
        reading->done(reading, status);
    return true;
}

/* --- one id --- */

struct search {
    struct mob_task_id id;
    struct mob_object_id object; /* of engine_find_object; else slot 0 */
    struct task_record *record;
    uint32_t page, next_page; /* of arguments: the one that is fetched, the next to look at */
    enum engine_find_how how;
    json_t *live;
    void (*found)(struct flight *flight, const struct engine_found *found);
};

static void search_end(struct search *search)
{
    json_decref(search->live);
    free(search);
}

static enum engine_known known_of(const struct search *search, const struct task_record *record)
{
    if (record && record->has_completion && (record->completion.flags & MOB_COMPLETION_FINAL))
        return ENGINE_FINISHED;
    return search->live || (record && (record->has_spec || record->has_completion)) ? ENGINE_UNFINISHED
                                                                                    : ENGINE_NEVER;
}

static void tell(void *arg)
{
    struct reading *reading = arg;
    struct search *search = reading->context;
    struct engine_found found = {.known = known_of(search, search->record),
        .live = search->live,
        .record = search->record,
        .set = reading->set};
    search->found(reading->flight, &found);
    search_end(search);
    reading_end(reading);
}

/* Where it ran. */
static void learn_node(struct reading *reading)
{
    const struct search *search = reading->context;
    struct engine *engine = reading->flight->engine;
    if (search->record && search->how == ENGINE_FIND_RECORD &&
        !engine_node_name(engine, search->record->incarnation))
        engine_node_learn(engine, search->record->incarnation, tell, reading);
    else
        tell(reading);
}

static void fetch_pages(struct reading *reading);

static void on_page(void *arg, enum mob_status status, const char *text, size_t size)
{
    struct reading *reading = arg;
    struct search *search = reading->context;
    struct mob_client *client = reading->flight->client;
    struct mob_object_id id = mob_object_of(search->id, MOB_SLOT_ARG_PAGE | search->page);
    struct mob_value *value = NULL;
    (void)text;
    (void)size;
    if (status == MOB_OK && mob_value_of_object(client, &id, &value) == MOB_OK) {
        struct mob_value_look look = mob_value_look(value);
        if (look.bytes <= UINT32_MAX)
            task_record_add_page(search->record, search->page, look.payload, (uint32_t)look.bytes);
        mob_value_release(value);
    }
    fetch_pages(reading);
}

/* Long argument lists of nested tasks: pages in the store. One that cannot be had leaves the list cut, which
 * the record says. */
static void fetch_pages(struct reading *reading)
{
    struct search *search = reading->context;
    while (search->record && search->how != ENGINE_FIND_LIVE &&
        task_record_missing_page(search->record, search->next_page, &search->page)) {
        struct mob_object_id id = mob_object_of(search->id, MOB_SLOT_ARG_PAGE | search->page);
        search->next_page = search->page + 1;
        if (mob_ask(reading->flight->client, MOB_REQ_FETCH, &id, sizeof id, on_page, reading) == MOB_OK)
            return;
    }
    learn_node(reading);
}

static void on_names(void *arg)
{
    fetch_pages(arg);
}

static void on_group(struct reading *reading, enum mob_status status)
{
    struct search *search = reading->context;
    search->record = lineage_set_find(reading->set, search->id);
    if (status != MOB_OK) {
        flight_fail(reading->flight, status, NULL, "the control store does not answer");
        search_end(search);
        reading_end(reading);
        return;
    }
    struct engine *engine = reading->flight->engine;
    struct mob_task_id puts = mob_put_group(search->object);
    if (mob_put_has_group(search->object) &&
        reading_group(reading, puts.stream, puts.index >> MOB_GROUP_SHIFT))
        return;
    if (search->record && search->record->has_spec &&
        engine_function_is_missing(engine, search->record->spec.function))
        engine_functions_refresh(engine, on_names, reading);
    else
        fetch_pages(reading);
}

static void on_live(void *arg, enum mob_status status, const char *text, size_t size)
{
    struct reading *reading = arg;
    struct search *search = reading->context;
    if (status == MOB_OK)
        search->live = json_loadb(text, size, 0, NULL);
    if (search->live && search->how == ENGINE_FIND_LIVE) {
        search->found(reading->flight,
            &(struct engine_found){.known = ENGINE_UNFINISHED, .live = search->live, .set = reading->set});
        search_end(search);
        reading_end(reading);
        return;
    }
    reading_group(reading, search->id.stream, search->id.index >> MOB_GROUP_SHIFT);
}

static void find(struct flight *flight, struct mob_object_id object, enum engine_find_how how,
    void (*found)(struct flight *flight, const struct engine_found *found))
{
    char text[MOB_ID_TEXT_MAX];
    struct search *search = calloc(1, sizeof *search);
    MOB_ASSERT(search != NULL);
    *search = (struct search){.id = object.task, .object = object, .how = how, .found = found};
    struct reading *reading = reading_begin(flight, on_group, search);
    if (how == ENGINE_FIND_CALLS)
        lineage_set_want_edges(reading->set, (struct mob_actor_id){object.task});
    enum mob_status status =
        mob_query_async(flight->client, "task", mob_task_id_format(search->id, text), on_live, reading);
    if (status != MOB_OK) {
        search_end(search);
        reading_end(reading);
        flight_fail_client(flight, status, NULL);
    }
}

void engine_find(struct flight *flight, struct mob_task_id id, enum engine_find_how how,
    void (*found)(struct flight *flight, const struct engine_found *found))
{
    find(flight, mob_object_of(id, 0), how, found);
}

void engine_find_object(struct flight *flight, struct mob_object_id id,
    void (*found)(struct flight *flight, const struct engine_found *found))
{
    find(flight, id, ENGINE_FIND_RECORD, found);
}

bool engine_is_actor(const struct engine_found *found)
{
    if (found->record && found->record->has_spec)
        return found->record->spec.kind == MOB_KIND_ACTOR_CREATE;
    const char *kind = json_string_value(json_object_get(found->live, "kind"));
    return kind && strcmp(kind, "actor_create") == 0;
}

/* --- a row of a list --- */

json_t *engine_record_row(struct engine *engine, const struct task_record *record)
{
    const struct mob_spec_head *head = &record->spec;
    char name[ENGINE_FULL_NAME_MAX];
    engine_full_name(engine, head->function, head->kind, head->method, name, sizeof name);
    return task_row(name, head, record->tail, record->job, record->submitted_wall_ns / 1000);
}

static int64_t wall_us(const struct task_record *record, int64_t mono_ns)
{
    return mono_ns ? (mono_ns + record->wall_minus_mono_ns) / 1000 : 0;
}

void engine_record_end(const struct task_record *record, json_t *row)
{
    const struct mob_completion_head *c = &record->completion;
    task_row_end(row,
        &(struct task_row_end){.status = (enum mob_status)c->status,
            .worker = c->worker,
            .attempt = c->attempt,
            .started_us = wall_us(record, c->started_ns),
            .finished_us = wall_us(record, c->finished_ns)});
}

/* --- one task, or an actor that has ended, as JSON --- */

static void write_task(struct flight *flight, const struct engine_found *found)
{
    if (found->known == ENGINE_NEVER) {
        flight_fail_unknown(flight, "task");
        return;
    }
    if (found->record && (found->record->has_spec || found->record->has_completion)) {
        struct lineage_names names = engine_names(flight->engine);
        task_record_write(found->record, &names, found->live, &flight->op->json);
    } else { /* not logged yet */
        char *text = json_dumps(found->live, JSON_COMPACT);
        mob_text_puts(&flight->op->json, text ? text : "{}");
        free(text);
    }
    mob_text_putc(&flight->op->json, '\n');
    flight_done(flight);
}

void engine_describe_task(struct flight *flight, struct mob_task_id id)
{
    engine_find(flight, id, ENGINE_FIND_RECORD, write_task);
}

static void write_actor(struct flight *flight, const struct engine_found *found)
{
    struct mob_text *t = &flight->op->json;
    const struct task_record *record = found->record;
    if (!engine_is_actor(found) || !record) {
        engine_fail_no_actor(flight, found);
        return;
    }
    struct lineage_names names = engine_names(flight->engine);
    char job[MOB_ID_TEXT_MAX];
    mob_text_printf(t, "{\"id\":\"%s\",\"class\":", flight->op->query.id);
    task_record_write_name(record, &names, t);
    mob_text_printf(t, ",\"state\":\"%s\",\"job\":\"%s\"",
        found->known == ENGINE_FINISHED ? "dead" : "pending", mob_job_id_format(record->job, job));
    struct mob_ext_view name;
    if (record->has_spec && !mob_spec_find_ext(record->tail, MOB_EXT_NAME, &name))
        mob_text_puts(t, ",\"name\":\"\"");
    if (record->has_spec)
        task_record_write_options(record, t);
    mob_text_puts(t, "}\n");
    flight_done(flight);
}

void engine_describe_ended_actor(struct flight *flight, struct mob_actor_id id)
{
    engine_find(flight, id.creation, ENGINE_FIND_RECORD, write_actor);
}
