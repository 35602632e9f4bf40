/* The tree of what made an object: groups of lineage read one after the other. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"
#include "common/wire/signature.h"
#include "server/api/engine_reading.h"

/* Tasks that one lineage request may visit, all pages together. */
#define VISITED_MAX 20000u

/* --- names --- */

static const char *function_name(void *cls, struct mob_function_id id)
{
    const struct function_name *f = engine_function_of(cls, id);
    return f ? f->name : NULL;
}

static const char *module_hash(void *cls, struct mob_function_id id)
{
    const struct function_name *f = engine_function_of(cls, id);
    return f ? f->module_hash : NULL;
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

static const char *node_name(void *cls, uint64_t incarnation)
{
    return engine_node_name(cls, incarnation);
}

void engine_full_name(struct engine *engine, struct mob_function_id id, uint8_t kind, uint16_t method,
    char *out, size_t capacity)
{
    const struct function_name *f = engine_function_of(engine, id);
    char called[128];
    const char *name =
        kind == MOB_KIND_ACTOR_CALL ? method_name(engine, id, method, called, sizeof called) : NULL;
    snprintf(out, capacity, "%s%s%s", f ? f->name : "", name ? "." : "", name ? name : "");
}

struct lineage_names engine_names(struct engine *engine)
{
    return (struct lineage_names){engine, function_name, module_hash, method_name, node_name};
}

/* --- the tree of producers --- */

struct visit {
    struct mob_object_id object; /* why it was visited; slot UINT32_MAX: as a stateful parent */
    uint32_t depth;
    uint32_t next; /* of its bucket, + 1 */
};

#define VISIT_BUCKETS 4096u
struct tree {
    struct visit *visits;
    size_t count, capacity, next;
    size_t begin; /* of the page */
    bool truncated; /* there is more than VISITED_MAX */
    uint32_t buckets[VISIT_BUCKETS]; /* first visit + 1, by task */
};

static void tree_destroy(struct reading *reading)
{
    struct tree *tree = reading->context;
    free(tree->visits);
    free(tree);
    reading_end(reading);
}

/* A task is one node of the tree, however many of its objects are used. */
static void visit(struct tree *tree, struct mob_object_id object, uint32_t depth)
{
    uint32_t *bucket = &tree->buckets[mob_task_id_mix(object.task) % VISIT_BUCKETS];
    const uint32_t first = *bucket;
    MOB_ASSERT(first == 0 || tree->visits != NULL);
    for (uint32_t at = first; at > 0; at = tree->visits[at - 1].next)
        if (mob_task_id_eq(tree->visits[at - 1].object.task, object.task))
            return;
    if (tree->count == VISITED_MAX) {
        tree->truncated = true;
        return;
    }
    if (tree->count == tree->capacity) {
        tree->capacity = tree->capacity ? tree->capacity * 2 : 64;
        tree->visits = realloc(tree->visits, tree->capacity * sizeof *tree->visits);
        MOB_ASSERT(tree->visits != NULL);
    }
    tree->visits[tree->count++] = (struct visit){object, depth, first};
    *bucket = (uint32_t)tree->count;
}

struct expansion {
    struct tree *tree;
    uint32_t depth;
};

static void visit_input(void *cls, struct mob_object_id id)
{
    struct expansion *expansion = cls;
    visit(expansion->tree, id, expansion->depth);
}

static void list_input(void *cls, struct mob_object_id id)
{
    struct mob_text *t = cls;
    char text[MOB_ID_TEXT_MAX];
    mob_text_puts(t, t->bytes[t->length - 1] == '[' ? "\"" : ",\"");
    mob_text_puts(t, mob_object_id_format(id, text));
    mob_text_putc(t, '"');
}

/* The state that an actor's call started from: the call before it, or the actor's creation. */
static struct mob_task_id stateful_parent(const struct reading *reading, const struct task_record *record)
{
    uint64_t position = record->completion.position;
    const struct actor_edge *edge =
        position > 0 ? lineage_set_edge(reading->set, record->spec.actor, position - 1) : NULL;
    return edge ? edge->task : record->spec.actor.creation;
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
    if (record->spec.kind == MOB_KIND_ACTOR_CALL)
        mob_text_printf(t, ",\"actor\":\"%s\",\"position\":%llu,\"stateful_parent\":\"%s\"",
            mob_actor_id_format(record->spec.actor, actor), (unsigned long long)record->completion.position,
            mob_task_id_format(stateful_parent(reading, record), task));
    mob_text_puts(t, ",\"inputs\":[");
    task_record_inputs(record, list_input, t);
    mob_text_puts(t, "]}");
}

/* What a task needed: its inputs, and the state of its actor. */
static void expand(struct reading *reading, const struct visit *v, const struct task_record *record)
{
    struct tree *tree = reading->context;
    if (!record || !record->has_spec || v->depth >= reading->flight->op->query.depth)
        return;
    struct expansion expansion = {tree, v->depth + 1};
    task_record_inputs(record, visit_input, &expansion);
    if (record->spec.kind == MOB_KIND_ACTOR_CALL)
        visit(tree, mob_object_of(stateful_parent(reading, record), UINT32_MAX), v->depth + 1);
}

static void tree_end(struct reading *reading)
{
    struct flight *flight = reading->flight;
    const struct tree *tree = reading->context;
    struct mob_text *t = &flight->op->json;
    free(flight->op->query.cursor);
    flight->op->query.cursor = NULL;
    mob_text_puts(t, "],\"next_cursor\":");
    if (tree->next < tree->count) {
        char own[24], tag[MOB_CURSOR_TAG_MAX];
        snprintf(own, sizeof own, "%zu", tree->begin + flight->op->query.limit);
        mob_engine_cursor_tag(&flight->op->query, own, tag);
        mob_text_printf(t, "\"%s%s\"", tag, own);
    } else {
        mob_text_puts(t, "null");
    }
    mob_text_printf(t, ",\"truncated\":%s}\n", tree->truncated ? "true" : "false");
    tree_destroy(reading);
    flight_done(flight);
}

static void tree_fail(struct reading *reading, enum mob_status status, const char *why)
{
    struct flight *flight = reading->flight;
    mob_text_fini(&flight->op->json);
    tree_destroy(reading);
    flight_fail(flight, status, NULL, "%s", why);
}

/* What is known of its task says that it never was, or nothing is. */
static void tree_fail_no_object(struct reading *reading, const struct task_record *record)
{
    struct flight *flight = reading->flight;
    if (record && (record->has_spec || record->has_completion)) {
        tree_fail(reading, MOB_NOT_FOUND, "no such object");
        return;
    }
    mob_text_fini(&flight->op->json);
    tree_destroy(reading);
    flight_fail_unknown(flight, "object");
}

/* A return of a task that the log knows, or a put that it knows. */
static bool object_was(const struct task_record *record, struct mob_object_id id)
{
    if (!record)
        return false;
    return id.slot & MOB_SLOT_PUT ? task_record_put_state(record, id) != LINEAGE_PUT_NEVER
                                  : task_record_returns(record, id);
}

/* Breadth first; stops to read a group that is not there yet and goes on when it is. */
static void tree_step(struct reading *reading, enum mob_status status)
{
    struct flight *flight = reading->flight;
    struct tree *tree = reading->context;
    if (status != MOB_OK) {
        tree_fail(reading, status, "the control store does not answer");
        return;
    }
    size_t end = tree->begin + flight->op->query.limit;
    while (tree->next < tree->count && tree->next < end) {
        struct visit v = tree->visits[tree->next]; /* visits may move */
        struct mob_task_id id = v.object.task;
        if (reading_group(reading, id.stream, id.index >> MOB_GROUP_SHIFT))
            return;
        struct mob_task_id puts = mob_put_group(v.object);
        if (tree->next == 0 && mob_put_has_group(v.object) &&
            reading_group(reading, puts.stream, puts.index >> MOB_GROUP_SHIFT))
            return;
        struct task_record *record = lineage_set_find(reading->set, id);
        if (record && record->has_spec && record->spec.kind == MOB_KIND_ACTOR_CALL &&
            record->completion.position > 0 &&
            reading_edge(reading, record->spec.actor, record->completion.position - 1, record->seq))
            return;
        if (tree->next == 0 && !object_was(record, v.object)) {
            tree_fail_no_object(reading, record);
            return;
        }
        if (tree->next >= tree->begin) {
            if (tree->next > tree->begin)
                mob_text_putc(&flight->op->json, ',');
            write_node(reading, &v, record);
        }
        tree->next++;
        expand(reading, &v, record);
    }
    tree_end(reading);
}

void engine_start_lineage(struct flight *flight)
{
    struct mob_object_id id;
    if (mob_object_id_parse(flight->op->query.id, &id) != MOB_OK) {
        flight_fail(flight, MOB_NOT_FOUND, NULL, "no such object");
        return;
    }
    struct tree *tree = calloc(1, sizeof *tree);
    MOB_ASSERT(tree != NULL);
    tree->begin = flight->op->query.cursor ? strtoull(flight->op->query.cursor, NULL, 10) : 0;
    visit(tree, id, 0);
    mob_text_printf(&flight->op->json, "{\"object\":\"%s\",\"nodes\":[", flight->op->query.id);
    tree_step(reading_begin(flight, tree_step, tree), MOB_OK);
}
