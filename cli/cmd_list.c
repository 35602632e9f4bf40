#include <stdio.h>
#include <string.h>

#include "cli/api_client.h"
#include "cli/table.h"

enum { PAGE_MAX = 1000, LIMIT_DEFAULT = 100, LIMIT_MAX = 1000000 };

static const struct {
    const char *kind, *columns[8];
} kinds[] = {
    {"tasks", {"id", "state", "function", "attempt", "worker", "started_us", NULL}},
    {"objects", {"id", "state", "type", "size", "task", NULL}},
    {"actors", {"id", "state", "class", "name", "incarnation", "pid", NULL}},
    {"functions", {"name", "kind", "signature", "id", NULL}},
    {"jobs", {"id", "state", "name", "submitted", "finished", "failed", "started_us", NULL}},
    {"nodes", {"id", "state", "incarnation", "submitted", "finished", "failed", NULL}},
    {"endpoints", {"name", "state", "class", "actor", NULL}},
};

static int kind_of(const char *name)
{
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (strcmp(kinds[i].kind, name) == 0)
            return (int)i;
    /* "task" for "tasks" */
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (strlen(name) + 1 == strlen(kinds[i].kind) && strncmp(kinds[i].kind, name, strlen(name)) == 0)
            return (int)i;
    return -1;
}

static bool page_path(
    const struct cli_call *call, const char *kind, long long limit, const char *cursor, char *out)
{
    static const char *const passed[] = {"filter", "sort"};
    char encoded[API_PATH_MAX / 2];
    int n =
        snprintf(out, API_PATH_MAX, API_PREFIX "/%s?limit=%lld", kind, limit < PAGE_MAX ? limit : PAGE_MAX);
    for (size_t i = 0; i < 2; i++) {
        const char *value = cli_option(call, passed[i]);
        if (!value)
            continue;
        if (!http_encode(value, encoded, sizeof encoded))
            return false;
        n += snprintf(
            out + n, (size_t)(n < API_PATH_MAX ? API_PATH_MAX - n : 0), "&%s=%s", passed[i], encoded);
    }
    if (cursor && !http_encode(cursor, encoded, sizeof encoded))
        return false;
    if (cursor)
        n += snprintf(out + n, (size_t)(n < API_PATH_MAX ? API_PATH_MAX - n : 0), "&cursor=%s", encoded);
    return n < API_PATH_MAX;
}

static void print_items(const struct cli_call *call, const json_t *items, const char *const *columns)
{
    size_t index;
    json_t *item;
    if (call->format == CLI_TABLE) {
        if (json_array_size(items) > 0)
            table_print(items, columns);
        else
            cli_say("none"); /* not on stdout, where only items are */
        return;
    }
    json_array_foreach(items, index, item)
    {
        const char *id = json_string_value(json_object_get(item, "id"));
        if (call->format == CLI_NAME)
            puts(id ? id
                    : json_string_value(json_object_get(item, "name"))
                    ? json_string_value(json_object_get(item, "name"))
                    : "-");
        else
            api_print_value(call, item);
    }
}

/* Pages until `limit` items are there or no more exist. `*more_out`: there were more. */
static enum cli_exit fetch(
    struct cli_call *call, struct api *api, const char *kind, long long limit, json_t *all, bool *more_out)
{
    char cursor[1024] = "";
    for (;;) {
        char path[API_PATH_MAX];
        json_t *page = NULL;
        if (!page_path(
                call, kind, limit - (long long)json_array_size(all), cursor[0] ? cursor : NULL, path)) {
            cli_say("the filter is too long");
            return CLI_USAGE;
        }
        enum cli_exit exit_code = api_json(api, "GET", path, NULL, NULL, &page);
        if (exit_code != CLI_OK)
            return exit_code;
        json_t *items = json_object_get(page, "items");
        const char *next = json_string_value(json_object_get(page, "next_cursor"));
        json_array_extend(all, items);
        size_t got = json_array_size(items);
        *more_out = next != NULL || json_is_true(json_object_get(page, "truncated"));
        snprintf(cursor, sizeof cursor, "%s", next ? next : "");
        json_decref(page);
        if (!cursor[0] || got == 0 || (long long)json_array_size(all) >= limit)
            return CLI_OK;
    }
}

enum cli_exit cmd_list(struct cli_call *call)
{
    static struct api api;
    long long limit;
    int kind = kind_of(call->arguments[0]);
    if (kind < 0) {
        cli_say("cannot list %s; there are tasks, objects, actors, functions, jobs, nodes and endpoints",
            call->arguments[0]);
        return CLI_USAGE;
    }
    if (!cli_option_number(call, "limit", LIMIT_DEFAULT, 1, LIMIT_MAX, &limit))
        return CLI_USAGE;
    enum cli_exit exit_code = api_open(call, &api);
    if (exit_code != CLI_OK)
        return exit_code;
    json_t *all = json_array();
    bool more = false;
    exit_code = fetch(call, &api, kinds[kind].kind, limit, all, &more);
    if (exit_code == CLI_OK && call->format == CLI_JSON)
        api_print_value(call, all);
    else if (exit_code == CLI_OK)
        print_items(call, all, kinds[kind].columns);
    if (exit_code == CLI_OK && more)
        cli_say("there are more; --limit %lld shows them", limit * 10 < LIMIT_MAX ? limit * 10 : LIMIT_MAX);
    json_decref(all);
    api_close(&api);
    return exit_code;
}
