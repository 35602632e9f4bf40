#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/api/api.h"

#define JSON "application/json"
#define V1 "/api/v1"
#define READ MOB_ROLE_READ
#define SUBMIT MOB_ROLE_SUBMIT
#define DEPLOY MOB_ROLE_DEPLOY
#define CREATES MOB_ROUTE_CREATES
#define ANY MOB_ROUTE_ANY_MEDIA

/* The whole surface. tests/unit/server/api/routes_test.c compares it with api/openapi.yaml. */
const struct mob_route mob_routes[] = {
    {MOB_HTTP_GET, "/livez", MOB_ROLE_NONE, mob_api_livez, 0, NULL, MOB_ROUTE_NO_HOST | ANY},
    {MOB_HTTP_GET, "/readyz", MOB_ROLE_NONE, mob_api_readyz, 0, NULL, MOB_ROUTE_NO_HOST | ANY},
    {MOB_HTTP_GET, "/metrics", READ, mob_api_metrics, 0, NULL, ANY},
    {MOB_HTTP_GET, "/openapi.yaml", READ, mob_api_openapi, 0, NULL, ANY},
    {MOB_HTTP_GET, "/openapi.json", READ, mob_api_openapi_json, 0, NULL, 0},

    {MOB_HTTP_POST, V1 "/functions", DEPLOY, mob_api_function_put, MOB_API_MODULE_BODY_MAX, NULL, CREATES},
    {MOB_HTTP_GET, V1 "/functions", READ, mob_api_function_list, 0, NULL, 0},
    {MOB_HTTP_GET, V1 "/functions/{name}", READ, mob_api_function_get, 0, NULL, 0},
    {MOB_HTTP_DELETE, V1 "/functions/{name}", DEPLOY, mob_api_function_delete, 0, NULL, 0},

    {MOB_HTTP_POST, V1 "/tasks", SUBMIT, mob_api_task_submit, MOB_API_JSON_BODY_MAX, JSON, CREATES},
    {MOB_HTTP_POST, V1 "/tasks:batch", SUBMIT, mob_api_task_batch, MOB_API_JSON_BODY_MAX, JSON, CREATES},
    {MOB_HTTP_GET, V1 "/tasks", READ, mob_api_task_list, 0, NULL, 0},
    {MOB_HTTP_GET, V1 "/tasks/{id}", READ, mob_api_task_get, 0, NULL, 0},
    {MOB_HTTP_POST, V1 "/tasks/{id}:cancel", SUBMIT, mob_api_task_cancel, 4096, JSON, 0},
    {MOB_HTTP_GET, V1 "/tasks/{id}/why", READ, mob_api_task_why, 0, NULL, 0},
    {MOB_HTTP_GET, V1 "/tasks/{id}/logs", READ, mob_api_task_logs, 0, NULL, ANY},
    {MOB_HTTP_GET, V1 "/tasks/{id}/items", READ, mob_api_task_items, 0, NULL, 0},

    {MOB_HTTP_POST, V1 "/objects", SUBMIT, mob_api_object_put, MOB_API_OBJECT_BODY_MAX, NULL, CREATES},
    {MOB_HTTP_GET, V1 "/objects", READ, mob_api_object_list, 0, NULL, 0},
    {MOB_HTTP_POST, V1 "/objects:wait", READ, mob_api_object_wait, MOB_API_JSON_BODY_MAX, JSON, 0},
    {MOB_HTTP_GET, V1 "/objects/{id}", READ, mob_api_object_get, 0, NULL, 0},
    {MOB_HTTP_GET, V1 "/objects/{id}/data", READ, mob_api_object_data, 0, NULL, ANY},
    {MOB_HTTP_GET, V1 "/objects/{id}/lineage", READ, mob_api_object_lineage, 0, NULL, 0},
    {MOB_HTTP_DELETE, V1 "/objects/{id}", SUBMIT, mob_api_object_delete, 0, NULL, 0},

    {MOB_HTTP_POST, V1 "/actors", SUBMIT, mob_api_actor_create, MOB_API_JSON_BODY_MAX, JSON, CREATES},
    {MOB_HTTP_GET, V1 "/actors", READ, mob_api_actor_list, 0, NULL, 0},
    {MOB_HTTP_GET, V1 "/actors/{id}", READ, mob_api_actor_get, 0, NULL, 0},
    {MOB_HTTP_DELETE, V1 "/actors/{id}", SUBMIT, mob_api_actor_delete, 0, NULL, 0},
    {MOB_HTTP_POST, V1 "/actors/{id}/methods/{method}", SUBMIT, mob_api_actor_call, MOB_API_JSON_BODY_MAX,
        JSON, CREATES},
    {MOB_HTTP_GET, V1 "/actors/{id}/logs", READ, mob_api_actor_logs, 0, NULL, ANY},

    {MOB_HTTP_POST, V1 "/jobs", SUBMIT, mob_api_job_open, 65536, JSON, CREATES},
    {MOB_HTTP_GET, V1 "/jobs", READ, mob_api_job_list, 0, NULL, 0},
    {MOB_HTTP_GET, V1 "/jobs/{id}", READ, mob_api_job_get, 0, NULL, 0},
    {MOB_HTTP_DELETE, V1 "/jobs/{id}", SUBMIT, mob_api_job_end, 0, NULL, 0},

    {MOB_HTTP_GET, V1 "/nodes", READ, mob_api_node_list, 0, NULL, 0},
    {MOB_HTTP_GET, V1 "/cluster", READ, mob_api_cluster, 0, NULL, 0},
    {MOB_HTTP_GET, V1 "/events", READ, mob_api_events, 0, NULL, MOB_ROUTE_STREAMS},
    {MOB_HTTP_GET, V1 "/timeline", READ, mob_api_timeline, 0, NULL, 0},

    {MOB_HTTP_PUT, V1 "/endpoints/{name}", DEPLOY, mob_api_endpoint_put, MOB_API_JSON_BODY_MAX, JSON, 0},
    {MOB_HTTP_GET, V1 "/endpoints", READ, mob_api_endpoint_list, 0, NULL, 0},
    {MOB_HTTP_GET, V1 "/endpoints/{name}", READ, mob_api_endpoint_get, 0, NULL, 0},
    {MOB_HTTP_DELETE, V1 "/endpoints/{name}", DEPLOY, mob_api_endpoint_delete, 0, NULL, 0},

    {MOB_HTTP_GET, "/v2", READ, mob_api_v2_server, 0, NULL, 0},
    {MOB_HTTP_GET, "/v2/health/live", READ, mob_api_v2_live, 0, NULL, ANY},
    {MOB_HTTP_GET, "/v2/health/ready", READ, mob_api_v2_ready, 0, NULL, ANY},
    {MOB_HTTP_GET, "/v2/models/stats", READ, mob_api_v2_all_stats, 0, NULL, 0}, /* before a model's name */
    {MOB_HTTP_GET, "/v2/models/{model}", READ, mob_api_v2_model, 0, NULL, 0},
    {MOB_HTTP_GET, "/v2/models/{model}/versions/{version}", READ, mob_api_v2_model, 0, NULL, 0},
    {MOB_HTTP_GET, "/v2/models/{model}/ready", READ, mob_api_v2_model_ready, 0, NULL, ANY},
    {MOB_HTTP_GET, "/v2/models/{model}/versions/{version}/ready", READ, mob_api_v2_model_ready, 0, NULL, ANY},
    {MOB_HTTP_GET, "/v2/models/{model}/config", READ, mob_api_v2_config, 0, NULL, 0},
    {MOB_HTTP_GET, "/v2/models/{model}/versions/{version}/config", READ, mob_api_v2_config, 0, NULL, 0},
    {MOB_HTTP_GET, "/v2/models/{model}/stats", READ, mob_api_v2_stats, 0, NULL, 0},
    {MOB_HTTP_GET, "/v2/models/{model}/versions/{version}/stats", READ, mob_api_v2_stats, 0, NULL, 0},
    {MOB_HTTP_POST, "/v2/models/{model}/infer", READ, mob_api_v2_infer, MOB_API_INFER_BODY_MAX, NULL,
        ANY | MOB_ROUTE_INFLATES},
    {MOB_HTTP_POST, "/v2/models/{model}/versions/{version}/infer", READ, mob_api_v2_infer,
        MOB_API_INFER_BODY_MAX, NULL, ANY | MOB_ROUTE_INFLATES},
    {MOB_HTTP_GET, NULL, MOB_ROLE_NONE, NULL, 0, NULL, 0},
};

size_t mob_route_count(void)
{
    return sizeof mob_routes / sizeof *mob_routes - 1;
}

size_t mob_route_index(const struct mob_route *route)
{
    return (size_t)(route - mob_routes);
}

struct span {
    const char *at;
    size_t length;
};

static bool next_segment(const char **path, struct span *out)
{
    if (**path != '/')
        return false;
    out->at = *path + 1;
    out->length = strcspn(out->at, "/");
    *path = out->at + out->length;
    return true;
}

/* "{name}" or "{name}:verb" against a raw segment; *parameter_out is the part that the name stands for. */
static bool match_parameter(struct span pattern, struct span segment, struct span *parameter_out)
{
    const char *close = memchr(pattern.at, '}', pattern.length);
    size_t verb_length = pattern.length - (size_t)(close + 1 - pattern.at);
    if (segment.length <= verb_length)
        return false;
    if (memcmp(segment.at + segment.length - verb_length, close + 1, verb_length) != 0)
        return false;
    *parameter_out = (struct span){segment.at, segment.length - verb_length};
    return true;
}

/* Up to its first parameter. Nearly all routes differ here already, and each request asks all of them. */
static bool begins_as(const char *pattern, const char *path)
{
    while (*pattern && *pattern != '{' && *pattern == *path) {
        pattern++;
        path++;
    }
    return *pattern == '{' || *pattern == *path;
}

static bool match(const char *pattern, const char *path, struct span *parameters, unsigned *count_out)
{
    struct span want, have;
    unsigned count = 0;
    if (!begins_as(pattern, path))
        return false;
    for (;;) {
        bool more_pattern = next_segment(&pattern, &want), more_path = next_segment(&path, &have);
        if (more_pattern != more_path)
            return false;
        if (!more_pattern)
            break;
        if (want.length > 0 && want.at[0] == '{') {
            if (count == MOB_HTTP_SEGMENTS_MAX || !match_parameter(want, have, &parameters[count]))
                return false;
            count++;
        } else if (want.length != have.length || memcmp(want.at, have.at, want.length) != 0) {
            return false;
        }
    }
    *count_out = count;
    return *path == 0;
}

/* Decoded names go on to look-ups and logs, so what could be read as a path is refused here already. */
static enum mob_status keep_parameters(
    struct mob_http_request *request, const struct span *parameters, unsigned count)
{
    size_t total = 0;
    for (unsigned i = 0; i < count; i++)
        total += parameters[i].length + 1;
    request->segment_memory = malloc(total + 1);
    if (!request->segment_memory)
        return MOB_NO_MEMORY;
    char *at = request->segment_memory;
    for (unsigned i = 0; i < count; i++) {
        if (mob_http_decode(parameters[i].at, parameters[i].length, false, at) != MOB_OK || strchr(at, '/') ||
            strchr(at, '\\') || strcmp(at, ".") == 0 || strcmp(at, "..") == 0)
            return MOB_BAD_REQUEST;
        request->segment_values[i] = at;
        at += parameters[i].length + 1;
    }
    return MOB_OK;
}

static void allow(enum mob_http_method method, char *out, size_t capacity)
{
    size_t length = strlen(out);
    snprintf(out + length, capacity - length, "%s%s", length ? ", " : "", mob_http_method_name(method));
    if (method == MOB_HTTP_GET)
        allow(MOB_HTTP_HEAD, out, capacity);
}

/* "/tasks/{id}:explode" and "/tasks:explode" ask for a verb. */
static bool has_verb(const char *path)
{
    return strchr(strrchr(path, '/') ? strrchr(path, '/') : path, ':') != NULL;
}

static char *without_verb(const char *text)
{
    const char *colon = strrchr(text, ':');
    return colon ? strndup(text, (size_t)(colon - text)) : NULL;
}

/* ":cancel, ..": those of what the path names before its colon. */
static void verbs_at(const char *path, char *out, size_t capacity)
{
    char *thing = without_verb(path);
    size_t length = 0;
    out[0] = 0;
    for (const struct mob_route *route = mob_routes; thing && route->pattern; route++) {
        struct span ignored[MOB_HTTP_SEGMENTS_MAX];
        unsigned n;
        char *pattern = has_verb(route->pattern) ? without_verb(route->pattern) : NULL;
        if (pattern && match(pattern, thing, ignored, &n) && length < capacity)
            length += (size_t)snprintf(out + length, capacity - length, "%s%s", length > 0 ? ", " : "",
                strrchr(route->pattern, ':'));
        free(pattern);
    }
    free(thing);
}

enum mob_status mob_route_find(struct mob_http_request *request, const struct mob_route **route_out,
    char *allow_out, size_t allow_capacity)
{
    enum mob_http_method method = request->method == MOB_HTTP_HEAD ? MOB_HTTP_GET : request->method;
    allow_out[0] = 0;
    struct span parameters[MOB_HTTP_SEGMENTS_MAX];
    unsigned count = 0;
    const struct mob_route *found = NULL;
    bool found_verb = false;
    for (const struct mob_route *route = mob_routes; route->pattern; route++) {
        struct span these[MOB_HTTP_SEGMENTS_MAX];
        unsigned n = 0;
        if (!match(route->pattern, request->path, these, &n))
            continue;
        /* "{id}:cancel" is nearer than "{id}". */
        bool verb = strstr(route->pattern, "}:") != NULL;
        if (found_verb && !verb)
            continue;
        if (verb && !found_verb) {
            found_verb = true;
            found = NULL;
            allow_out[0] = 0;
        }
        if (route->method != method) {
            allow(route->method, allow_out, allow_capacity);
        } else if (!found) {
            found = route;
            count = n;
            memcpy(parameters, these, n * sizeof *these);
        }
    }
    if (!found && method == MOB_HTTP_POST && has_verb(request->path)) {
        verbs_at(request->path, allow_out, allow_capacity);
        return MOB_NOT_FOUND;
    }
    if (!found && !allow_out[0])
        return MOB_NOT_FOUND;
    if (!found) {
        allow(MOB_HTTP_OPTIONS, allow_out, allow_capacity);
        return MOB_METHOD_NOT_ALLOWED;
    }
    *route_out = found;
    return count > 0 ? keep_parameters(request, parameters, count) : MOB_OK;
}
