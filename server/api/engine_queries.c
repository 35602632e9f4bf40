/* What the node answers from its tables: lists and single items of functions, jobs, actors and nodes; why,
 * cluster. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/wire/signature.h"
#include "server/api/engine_inner.h"
#include "server/api/filter.h"
#include "server/api/item_page.h"

#define SCHEMA_BYTES 16384u

/* --- lists --- */

static void send_page(struct flight *flight, json_t *rows)
{
    struct mob_engine_query *query = &flight->op->query;
    struct mob_filter filter;
    struct item_page page;
    if (mob_filter_parse(query->filter, &filter) != MOB_OK)
        flight_fail(flight, MOB_BAD_REQUEST, NULL, "a filter is field:value [AND field:value]...");
    else if (item_page_cut(rows, query->kind, &filter, query->sort, query->cursor, query->limit, &page) !=
        MOB_OK)
        flight_fail(flight, MOB_BAD_REQUEST, NULL, "cursor: not one that this list gave; begin without one");
    else {
        mob_engine_next_cursor(query, page.next);
        flight_done_json(flight,
            json_pack("{s:o,s:s?,s:I,s:b,s:n}", "items", page.items, "next_cursor", query->cursor,
                "total_estimate", (json_int_t)page.total, "truncated", 0, "dropped_before"));
    }
    json_decref(rows);
}

static void on_rows(void *arg, enum mob_status status, const char *text, size_t size)
{
    struct flight *flight = arg;
    json_t *rows = status == MOB_OK ? json_loadb(text, size, 0, NULL) : NULL;
    if (!rows) {
        flight_fail_reply(flight, status == MOB_OK ? MOB_INTERNAL : status, text, 0);
        return;
    }
    if (json_is_object(rows)) { /* the node describes itself */
        json_t *node = rows;
        json_object_set_new(node, "id", json_incref(json_object_get(node, "name")));
        json_object_set_new(node, "state", json_string("live"));
        rows = json_pack("[o]", node);
    }
    send_page(flight, rows);
}

void engine_start_list(struct flight *flight)
{
    switch (flight->op->query.kind) {
    case MOB_ITEM_TASK:
    case MOB_ITEM_OBJECT:
        engine_list_tasks(flight);
        return;
    case MOB_ITEM_ACTOR:
        flight_ask(flight, "job", "{\"op\":\"actors\"}", on_rows);
        return;
    case MOB_ITEM_FUNCTION:
        flight_ask(flight, "job", "{\"op\":\"functions\"}", on_rows);
        return;
    case MOB_ITEM_JOB:
        flight_ask(flight, "job", "{\"op\":\"list\"}", on_rows);
        return;
    case MOB_ITEM_NODE:
        flight_ask(flight, "stats", "", on_rows);
        return;
    case MOB_ITEM_ENDPOINT:
        if (engine_models_unknown(flight))
            return;
        send_page(flight, engine_models_json(flight->engine));
        return;
    }
}

/* --- one item --- */

/* JSON Schema of one signature's arguments and returns; NULL: it is none. The caller's. */
static json_t *schema_of(const char *text, size_t length)
{
    struct mob_signature *signature = malloc(sizeof *signature);
    char *schema = malloc(SCHEMA_BYTES);
    json_t *parsed = NULL;
    if (signature && schema && mob_signature_parse(text, length, signature, NULL) == MOB_OK) {
        uint32_t n = mob_signature_json_schema(signature, schema, SCHEMA_BYTES);
        parsed = n > 0 ? json_loadb(schema, n, 0, NULL) : NULL;
    }
    free(signature);
    free(schema);
    return parsed;
}

/* A line "name signature" of a class. */
static void add_method(json_t *methods, const char *line, size_t length)
{
    const char *blank = memchr(line, ' ', length);
    size_t name_length = blank ? (size_t)(blank - line) : 0;
    if (name_length == 0)
        return;
    const char *signature = blank + 1;
    size_t signature_length = length - name_length - 1;
    json_t *method = json_pack("{s:s%, s:o*}", "signature", signature, signature_length, "schema",
        schema_of(signature, signature_length));
    char name[256];
    snprintf(name, sizeof name, "%.*s", (int)name_length, line);
    json_object_set_new(methods, name, method);
}

/* A function's `schema`; of a class its constructor's, and `methods` with one each. The signature of a class
 * has a line for each of them (deploy.c). */
static void add_schema(json_t *function)
{
    const char *text = json_string_value(json_object_get(function, "signature"));
    if (!text)
        return;
    const char *end = strchrnul(text, '\n');
    json_t *schema = schema_of(text, (size_t)(end - text));
    if (schema)
        json_object_set_new(function, "schema", schema);
    if (*end == '\0')
        return;
    json_t *methods = json_object();
    while (*end != '\0') {
        const char *line = end + 1;
        end = strchrnul(line, '\n');
        add_method(methods, line, (size_t)(end - line));
    }
    json_object_set_new(function, "methods", methods);
}

/* "name@hash", or as much of the hash as tells. */
static bool is_pinned(const char *wanted, const char *name, const char *hash)
{
    const char *at = strchr(wanted, '@');
    size_t length = at ? (size_t)(at - wanted) : 0;
    return at && name && hash && strlen(name) == length && memcmp(name, wanted, length) == 0 &&
        strlen(at + 1) >= 8 && strncmp(hash, at + 1, strlen(at + 1)) == 0;
}

static const char *kind_word(enum mob_engine_kind kind)
{
    return kind == MOB_ITEM_JOB ? "job" : kind == MOB_ITEM_ENDPOINT ? "endpoint" : "function";
}

/* One row out of a list, by its id or name; of several the newest. */
static void on_rows_find(void *arg, enum mob_status status, const char *text, size_t size)
{
    struct flight *flight = arg;
    const char *wanted = flight->op->query.id;
    json_t *rows = status == MOB_OK ? json_loadb(text, size, 0, NULL) : NULL, *found = NULL;
    for (size_t i = 0; i < json_array_size(rows); i++) {
        json_t *row = json_array_get(rows, i);
        const char *id = json_string_value(json_object_get(row, "id"));
        const char *name = json_string_value(json_object_get(row, "name"));
        bool is = (id && strcmp(id, wanted) == 0) || (name && strcmp(name, wanted) == 0) ||
            is_pinned(wanted, name, json_string_value(json_object_get(row, "module_hash")));
        if (is && (!found || json_is_true(json_object_get(row, "newest"))))
            found = row;
    }
    json_incref(found);
    json_decref(rows);
    if (!found) {
        flight_fail(flight, status == MOB_OK ? MOB_NOT_FOUND : status, NULL, "no such %s: %.200s",
            kind_word(flight->op->query.kind), wanted);
        return;
    }
    if (flight->op->query.kind == MOB_ITEM_FUNCTION)
        add_schema(found);
    flight_done_json(flight, found);
}

static void on_text(void *arg, enum mob_status status, const char *text, size_t size)
{
    struct flight *flight = arg;
    if (status != MOB_OK) {
        flight_fail_reply(flight, status, text, 0);
        return;
    }
    mob_text_put(&flight->op->json, text, size);
    mob_text_putc(&flight->op->json, '\n');
    flight_done(flight);
}

static void on_actor(void *arg, enum mob_status status, const char *text, size_t size)
{
    struct flight *flight = arg;
    struct mob_actor_id id;
    if (status == MOB_NOT_FOUND && mob_actor_id_parse(flight->op->query.id, &id) == MOB_OK)
        engine_describe_ended_actor(flight, id);
    else
        on_text(arg, status, text, size);
}

void engine_start_describe(struct flight *flight)
{
    struct mob_task_id task;
    struct mob_actor_id actor;
    switch (flight->op->query.kind) {
    case MOB_ITEM_TASK:
        if (mob_task_id_parse(flight->op->query.id, &task) == MOB_OK)
            engine_describe_task(flight, task);
        else
            flight_fail(flight, MOB_NOT_FOUND, NULL, "no such task");
        return;
    case MOB_ITEM_ACTOR:
        if (mob_actor_id_parse(flight->op->query.id, &actor) == MOB_OK)
            flight_ask(flight, "actor", flight->op->query.id, on_actor);
        else
            flight_fail(flight, MOB_NOT_FOUND, NULL, "no such actor");
        return;
    case MOB_ITEM_FUNCTION:
        flight_ask(flight, "job", "{\"op\":\"functions\"}", on_rows_find);
        return;
    case MOB_ITEM_JOB:
        flight_ask(flight, "job", "{\"op\":\"list\"}", on_rows_find);
        return;
    case MOB_ITEM_ENDPOINT: {
        if (engine_models_unknown(flight))
            return;
        json_t *rows = engine_models_json(flight->engine);
        char *text = json_dumps(rows, JSON_COMPACT);
        json_decref(rows);
        on_rows_find(flight, MOB_OK, text, strlen(text));
        free(text);
        return;
    }
    case MOB_ITEM_OBJECT:
    case MOB_ITEM_NODE:
        flight_fail(flight, MOB_NOT_FOUND, NULL, "no such thing");
        return;
    }
}

/* --- why --- */

static void on_why(void *arg, enum mob_status status, const char *text, size_t size)
{
    struct flight *flight = arg;
    if (status != MOB_NOT_FOUND) {
        on_text(arg, status, text, size);
        return;
    }
    /* Not live: then it has finished, or never was. */
    struct mob_task_id task;
    if (mob_task_id_parse(flight->op->query.id, &task) == MOB_OK)
        engine_describe_task(flight, task);
    else
        flight_fail(flight, MOB_NOT_FOUND, NULL, "no such task");
}

void engine_start_why(struct flight *flight)
{
    flight_ask(flight, "why", flight->op->query.id, on_why);
}

/* --- cluster --- */

void engine_start_cluster(struct flight *flight)
{
    flight_ask(flight, "stats", "", on_text);
}
