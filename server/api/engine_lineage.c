/* One task, and the tree of what made an object: groups of lineage read one after the other. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"
#include "common/wire/signature.h"
#include "server/api/engine_inner.h"
#include "server/api/lineage.h"

/* Tasks that one lineage request may visit, all pages together. */
#define VISITED_MAX 20000u

/* --- names --- */

static const char *function_name(void *cls, struct mob_function_id id)
{
    const struct function_name *f = engine_function_of(cls, id);
    return f ? f->name : NULL;
}

/* A class' signature text has one line a method, the constructor first: "name signature". */
static const char *method_name(
    void *cls, struct mob_function_id id, uint16_t method, char *out, size_t capacity)
{
    const struct function_name *f = engine_function_of(cls, id);
    const char *line = f && f->is_class ? f->signature : NULL;
    for (uint32_t i = 0; line && i <= method; i++) {
        line = strchr(line, '\n');
        line = line ? line + 1 : NULL;
    }
    if (!line)
        return NULL;
    snprintf(out, capacity, "%.*s", (int)strcspn(line, " \n"), line);
    return out;
}

struct lineage_names engine_names(struct engine *engine)
{
    return (struct lineage_names){engine, function_name, method_name};
}

/* --- reading a group --- */

struct reading {
    struct flight *flight;
    struct lineage_set *set;
    struct mob_stream stream;
    uint32_t group;
    void (*done)(struct reading *reading, enum mob_status status);
    /* of a task */
    struct mob_task_id task;
    json_t *live;
    /* of an output */
    bool actor;
    void (*found)(
        struct flight *flight, const struct output_place *places, size_t count, bool exists, bool finished);
    /* of a tree */
    struct visit *visits;
    size_t visit_count, visit_capacity, next;
    size_t begin;
};

struct visit {
    struct mob_object_id object; /* why it was visited; slot UINT32_MAX: as a stateful parent */
    uint32_t depth;
    bool actor_read;
};

static void reading_end(struct reading *reading)
{
    lineage_set_destroy(reading->set);
    json_decref(reading->live);
    free(reading->visits);
    free(reading);
}

static void on_blocks(void *arg, const struct mob_gcs_answer *answer)
{
    struct reading *reading = arg;
    enum mob_status status = answer->status;
    for (uint32_t i = 0; status == MOB_OK && i < answer->block_count; i++)
        lineage_set_block(reading->set, reading->flight->engine->decoder, answer->blocks[i].bytes,
            answer->blocks[i].length);
    if (status == MOB_OK && answer->next != 0)
        status = mob_gcs_group_blocks(
            reading->flight->engine->gcs, reading->stream, reading->group, answer->next, on_blocks, reading);
    if (status != MOB_OK || answer->next == 0)
        reading->done(reading, status == MOB_NOT_FOUND ? MOB_OK : status);
}

/* True: `done` will be called; false: the group is there already. */
static bool read_group(struct reading *reading, struct mob_stream stream, uint32_t group)
{
    if (!lineage_set_want(reading->set, stream, group))
        return false;
    reading->stream = stream;
    reading->group = group;
    enum mob_status status =
        mob_gcs_group_blocks(reading->flight->engine->gcs, stream, group, 0, on_blocks, reading);
    if (status != MOB_OK)
        reading->done(reading, status);
    return true;
}

static struct reading *reading_begin(
    struct flight *flight, void (*done)(struct reading *reading, enum mob_status status))
{
    struct reading *reading = calloc(1, sizeof *reading);
    MOB_ASSERT(reading != NULL);
    reading->flight = flight;
    reading->done = done;
    reading->set = lineage_set_create();
    MOB_ASSERT(reading->set != NULL);
    return reading;
}

/* --- one task --- */

static void task_read(struct reading *reading, enum mob_status status)
{
    struct flight *flight = reading->flight;
    struct task_record *record = lineage_set_find(reading->set, reading->task);
    if (status == MOB_OK && record && (record->has_spec || record->has_completion)) {
        struct lineage_names names = engine_names(flight->engine);
        task_record_write(record, &names, reading->live, &flight->op->json);
        mob_text_putc(&flight->op->json, '\n');
        flight_done(flight);
    } else if (status == MOB_OK && reading->live) { /* not logged yet */
        char *text = json_dumps(reading->live, JSON_COMPACT);
        mob_text_puts(&flight->op->json, text ? text : "{}");
        free(text);
        flight_done(flight);
    } else {
        flight_fail(flight, status == MOB_OK ? MOB_NOT_FOUND : status, NULL, "%s",
            status == MOB_OK ? "no such task" : "the control store does not answer");
    }
    reading_end(reading);
}

static void on_live(void *arg, enum mob_status status, const char *text, size_t size)
{
    struct reading *reading = arg;
    if (status == MOB_OK)
        reading->live = json_loadb(text, size, 0, NULL);
    read_group(reading, reading->task.stream, reading->task.index >> MOB_GROUP_SHIFT);
}

void engine_describe_task(struct flight *flight, struct mob_task_id id)
{
    char text[MOB_ID_TEXT_MAX];
    struct reading *reading = reading_begin(flight, task_read);
    reading->task = id;
    enum mob_status status =
        mob_query_async(flight->client, "task", mob_task_id_format(id, text), on_live, reading);
    if (status != MOB_OK) {
        reading_end(reading);
        flight_fail_client(flight, status, NULL);
    }
}

/* --- where output was written --- */

/* An actor's calls ran in the worker that made it. */
static size_t places_of(
    const struct reading *reading, const struct task_record *record, struct output_place **places_out)
{
    struct actor_edge *edges = NULL;
    size_t n =
        reading->actor ? lineage_set_edges(reading->set, (struct mob_actor_id){reading->task}, &edges) : 0;
    struct output_place *places = calloc(n + 1, sizeof *places);
    MOB_ASSERT(places != NULL);
    places[0] = (struct output_place){reading->task, record->completion.worker};
    for (size_t i = 0; i < n; i++)
        places[i + 1] = (struct output_place){edges[i].task, record->completion.worker};
    free(edges);
    *places_out = places;
    return n + 1;
}

static void output_found(struct reading *reading, enum mob_status status)
{
    struct flight *flight = reading->flight;
    struct task_record *record = lineage_set_find(reading->set, reading->task);
    if (status != MOB_OK) {
        flight_fail(flight, status, NULL, "the control store does not answer");
    } else if (!record || !record->has_completion) {
        reading->found(flight, NULL, 0, record && record->has_spec, false);
    } else {
        struct output_place *places;
        size_t n = places_of(reading, record, &places);
        bool final = record->completion.flags & MOB_COMPLETION_FINAL;
        reading->found(flight, places, n, true, final && !reading->actor);
        free(places);
    }
    reading_end(reading);
}

void engine_find_output(struct flight *flight, struct mob_task_id task, bool actor,
    void (*found)(
        struct flight *flight, const struct output_place *places, size_t count, bool exists, bool finished))
{
    struct reading *reading = reading_begin(flight, output_found);
    reading->task = task;
    reading->actor = actor;
    reading->found = found;
    read_group(reading, task.stream, task.index >> MOB_GROUP_SHIFT);
}

/* --- the tree of producers --- */

static void visit(struct reading *reading, struct mob_object_id object, uint32_t depth)
{
    for (size_t i = 0; i < reading->visit_count; i++)
        if (mob_task_id_eq(reading->visits[i].object.task, object.task))
            return; /* a task is one node of the tree, however many of its objects are used */
    if (reading->visit_count == VISITED_MAX)
        return;
    if (reading->visit_count == reading->visit_capacity) {
        reading->visit_capacity = reading->visit_capacity ? reading->visit_capacity * 2 : 64;
        reading->visits = realloc(reading->visits, reading->visit_capacity * sizeof *reading->visits);
        MOB_ASSERT(reading->visits != NULL);
    }
    reading->visits[reading->visit_count++] = (struct visit){object, depth, false};
}

struct expansion {
    struct reading *reading;
    uint32_t depth;
};

static void visit_input(void *cls, struct mob_object_id id)
{
    struct expansion *expansion = cls;
    visit(expansion->reading, id, expansion->depth);
}

static void list_input(void *cls, struct mob_object_id id)
{
    struct mob_text *t = cls;
    char text[MOB_ID_TEXT_MAX];
    mob_text_puts(t, t->bytes[t->length - 1] == '[' ? "\"" : ",\"");
    mob_text_puts(t, mob_object_id_format(id, text));
    mob_text_putc(t, '"');
}

static void write_node(struct reading *reading, const struct visit *v, const struct task_record *record)
{
    struct mob_text *t = &reading->flight->op->json;
    struct lineage_names names = engine_names(reading->flight->engine);
    char task[MOB_ID_TEXT_MAX], actor[MOB_ID_TEXT_MAX];
    mob_text_printf(t, "{\"task\":\"%s\",\"depth\":%u", mob_task_id_format(v->object.task, task), v->depth);
    if (!record || !record->has_spec) {
        bool put = v->object.slot & MOB_SLOT_PUT && v->object.slot != UINT32_MAX;
        mob_text_printf(t, ",\"kind\":\"%s\",\"inputs\":[]}", put ? "put" : "unknown");
        return;
    }
    mob_text_puts(t, ",\"function\":");
    task_record_write_name(record, &names, t);
    mob_text_printf(t, ",\"kind\":\"%s\",\"state\":\"%s\"",
        record->spec.kind == MOB_KIND_ACTOR_CREATE     ? "actor_create"
            : record->spec.kind == MOB_KIND_ACTOR_CALL ? "actor_call"
                                                       : "task",
        task_record_state(record));
    if (record->spec.kind == MOB_KIND_ACTOR_CALL) {
        uint64_t position = record->completion.position;
        mob_text_printf(t, ",\"actor\":\"%s\",\"position\":%llu",
            mob_actor_id_format(record->spec.actor, actor), (unsigned long long)position);
        const struct actor_edge *edge =
            position > 0 ? lineage_set_edge(reading->set, record->spec.actor, position - 1) : NULL;
        if (edge)
            mob_text_printf(t, ",\"stateful_parent\":\"%s\"", mob_task_id_format(edge->task, task));
        else
            mob_text_printf(
                t, ",\"stateful_parent\":\"%s\"", mob_task_id_format(record->spec.actor.creation, task));
    }
    mob_text_puts(t, ",\"inputs\":[");
    task_record_inputs(record, list_input, t);
    mob_text_puts(t, "]}");
}

/* What a task needed: its inputs, and the state of its actor: the call before it, or its creation. */
static void expand(struct reading *reading, const struct visit *v, const struct task_record *record)
{
    if (!record || !record->has_spec || v->depth >= reading->flight->op->query.depth)
        return;
    struct expansion expansion = {reading, v->depth + 1};
    task_record_inputs(record, visit_input, &expansion);
    if (record->spec.kind != MOB_KIND_ACTOR_CALL)
        return;
    uint64_t position = record->completion.position;
    const struct actor_edge *edge =
        position > 0 ? lineage_set_edge(reading->set, record->spec.actor, position - 1) : NULL;
    visit(reading, mob_object_of(edge ? edge->task : record->spec.actor.creation, UINT32_MAX), v->depth + 1);
}

static void tree_end(struct reading *reading, bool more)
{
    struct flight *flight = reading->flight;
    struct mob_text *t = &flight->op->json;
    free(flight->op->query.cursor);
    flight->op->query.cursor = NULL;
    mob_text_puts(t, "],\"next_cursor\":");
    if (more)
        mob_text_printf(t, "\"%zu\"}\n", reading->begin + flight->op->query.limit);
    else
        mob_text_puts(t, "null}\n");
    flight_done(flight);
    reading_end(reading);
}

/* Breadth first; stops to read a group that is not there yet and goes on when it is. */
static void tree_step(struct reading *reading, enum mob_status status)
{
    struct flight *flight = reading->flight;
    if (status != MOB_OK) {
        mob_text_fini(&flight->op->json);
        flight_fail(flight, status, NULL, "the control store does not answer");
        reading_end(reading);
        return;
    }
    size_t end = reading->begin + flight->op->query.limit;
    while (reading->next < reading->visit_count && reading->next < end) {
        struct visit *v = &reading->visits[reading->next];
        struct mob_task_id id = v->object.task;
        if (read_group(reading, id.stream, id.index >> MOB_GROUP_SHIFT))
            return;
        struct task_record *record = lineage_set_find(reading->set, id);
        if (record && record->has_spec && record->spec.kind == MOB_KIND_ACTOR_CALL) {
            struct mob_task_id creation = record->spec.actor.creation;
            if (read_group(reading, creation.stream, creation.index >> MOB_GROUP_SHIFT))
                return;
        }
        if (reading->next >= reading->begin) {
            if (reading->next > reading->begin)
                mob_text_putc(&flight->op->json, ',');
            write_node(reading, v, record);
        }
        struct visit now = *v; /* visits may move */
        reading->next++;
        expand(reading, &now, record);
    }
    tree_end(reading, reading->next < reading->visit_count);
}

void engine_start_lineage(struct flight *flight)
{
    struct mob_object_id id;
    if (mob_object_id_parse(flight->op->query.id, &id) != MOB_OK) {
        flight_fail(flight, MOB_NOT_FOUND, NULL, "no such object");
        return;
    }
    struct reading *reading = reading_begin(flight, tree_step);
    reading->begin = flight->op->query.cursor ? strtoull(flight->op->query.cursor, NULL, 10) : 0;
    visit(reading, id, 0);
    mob_text_printf(&flight->op->json, "{\"object\":\"%s\",\"nodes\":[", flight->op->query.id);
    tree_step(reading, MOB_OK);
}
