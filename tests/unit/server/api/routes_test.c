/* The route table is what the description says, role by role, and the keys guard all of it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <cmocka.h>

#include "server/api/api.h"
#include "server/api/openapi.h"

/* What the description says of one operation. */
struct described {
    char path[128], method[8], role[16];
    bool open;
    bool found;
};

static struct described operations[256];
static size_t operation_count;

/* The description is written one key a line, with the indentation that this reads. */
static void read_description(void)
{
    char *text = strndup(mob_openapi_yaml, mob_openapi_yaml_length), *save = NULL, path[128] = "";
    operation_count = 0;
    for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        char word[128];
        struct described *last = operation_count ? &operations[operation_count - 1] : NULL;
        if (strcmp(line, "components:") == 0)
            break;
        if (strncmp(line, "  /", 3) == 0) {
            snprintf(path, sizeof path, "%.*s", (int)strlen(line) - 3, line + 2);
        } else if (strncmp(line, "    ", 4) == 0 && line[4] != ' ' && sscanf(line, " %7[a-z]:", word) == 1) {
            operations[operation_count] = (struct described){0};
            snprintf(operations[operation_count].path, 128, "%s", path);
            snprintf(operations[operation_count++].method, 8, "%.7s", word);
        } else if (last && sscanf(line, "      x-role: %15s", word) == 1) {
            snprintf(last->role, sizeof last->role, "%.15s", word);
        } else if (last && strcmp(line, "      security: []") == 0) {
            last->open = true;
        }
    }
    free(text);
}

static void description_and_table_agree(void **state)
{
    (void)state;
    read_description();
    for (const struct mob_route *route = mob_routes; route->pattern; route++) {
        struct described *d = operations;
        while (d < operations + operation_count &&
            (strcmp(d->path, route->pattern) != 0 ||
                strcasecmp(d->method, mob_http_method_name(route->method)) != 0))
            d++;
        if (d == operations + operation_count)
            fail_msg("not described: %s %s", mob_http_method_name(route->method), route->pattern);
        d->found = true;
        if (d->open != (route->role == MOB_ROLE_NONE))
            fail_msg("security of %s", route->pattern);
        if (!d->open && strcmp(d->role, mob_role_name(route->role)) != 0)
            fail_msg(
                "role of %s %s: %s and %s", d->method, route->pattern, d->role, mob_role_name(route->role));
    }
    for (size_t i = 0; i < operation_count; i++)
        if (!operations[i].found)
            fail_msg("described, not there: %s %s", operations[i].method, operations[i].path);
    assert_int_equal(operation_count, mob_route_count());
}

static void only_health_answers_without_a_key(void **state)
{
    (void)state;
    for (const struct mob_route *route = mob_routes; route->pattern; route++)
        if (route->role == MOB_ROLE_NONE)
            assert_true(strcmp(route->pattern, "/livez") == 0 || strcmp(route->pattern, "/readyz") == 0);
        else if (route->method != MOB_HTTP_GET && strncmp(route->pattern, "/v2/", 4) != 0 &&
            strstr(route->pattern, ":wait") == NULL)
            assert_int_not_equal(route->role, MOB_ROLE_READ); /* what changes state needs more than reading */
}

static enum mob_status find(
    const char *path, enum mob_http_method method, const char **pattern_out, char *first)
{
    const struct mob_route *route = NULL;
    char allow[64];
    struct mob_http_request *request = mob_http_request_create(path, strlen(path));
    request->method = method;
    enum mob_status status = mob_route_find(request, &route, allow, sizeof allow);
    *pattern_out = status == MOB_OK ? route->pattern : allow;
    static char kept[64];
    snprintf(kept, sizeof kept, "%s", *pattern_out);
    *pattern_out = kept;
    snprintf(first, 64, "%s", request->segment_values[0] ? request->segment_values[0] : "");
    mob_http_release(request);
    return status;
}

static void paths_find_their_routes(void **state)
{
    (void)state;
    static const struct {
        const char *path;
        enum mob_http_method method;
        enum mob_status status;
        const char *pattern, *first;
    } cases[] = {
        {"/api/v1/tasks", MOB_HTTP_POST, MOB_OK, "/api/v1/tasks", ""},
        {"/api/v1/tasks:batch", MOB_HTTP_POST, MOB_OK, "/api/v1/tasks:batch", ""},
        {"/api/v1/tasks/x:cancel", MOB_HTTP_POST, MOB_OK, "/api/v1/tasks/{id}:cancel", "x"},
        {"/api/v1/tasks/x", MOB_HTTP_HEAD, MOB_OK, "/api/v1/tasks/{id}", "x"},
        {"/v2/models/a%20b/infer", MOB_HTTP_POST, MOB_OK, "/v2/models/{model}/infer", "a b"},
        {"/v2", MOB_HTTP_GET, MOB_OK, "/v2", ""},
        {"/v2/", MOB_HTTP_GET, MOB_NOT_FOUND, "", ""},
        {"/api/v1/tasks/", MOB_HTTP_GET, MOB_NOT_FOUND, "", ""},
        {"/api/v1/tasks/x/", MOB_HTTP_GET, MOB_NOT_FOUND, "", ""},
        {"/api/v1/tasks/a/b/c", MOB_HTTP_GET, MOB_NOT_FOUND, "", ""},
        {"/api/v1/tasks/..", MOB_HTTP_GET, MOB_BAD_REQUEST, "", ".."},
        {"/api/v1/tasks/%2e%2e", MOB_HTTP_GET, MOB_BAD_REQUEST, "", ".."},
        {"/api/v1/tasks/a%2fb", MOB_HTTP_GET, MOB_BAD_REQUEST, "", "a/b"},
        {"/api/v1/tasks/a%5cb", MOB_HTTP_GET, MOB_BAD_REQUEST, "", "a\\b"},
        {"/api/v1/objects/x", MOB_HTTP_PUT, MOB_METHOD_NOT_ALLOWED, "GET, HEAD, DELETE, OPTIONS", ""},
        {"", MOB_HTTP_GET, MOB_NOT_FOUND, "", ""},
        {"*", MOB_HTTP_OPTIONS, MOB_NOT_FOUND, "", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *pattern;
        char first[64];
        enum mob_status status = find(cases[i].path, cases[i].method, &pattern, first);
        bool same = status != MOB_OK && status != MOB_METHOD_NOT_ALLOWED;
        if (status != cases[i].status || (!same && strcmp(pattern, cases[i].pattern) != 0) ||
            (status == MOB_OK && strcmp(first, cases[i].first) != 0))
            fail_msg("%s: %d %s %s", cases[i].path, status, pattern, first);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(description_and_table_agree),
        cmocka_unit_test(only_health_answers_without_a_key),
        cmocka_unit_test(paths_find_their_routes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
