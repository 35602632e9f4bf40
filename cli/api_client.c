#include "cli/api_client.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/state_dir.h"
#include "common/base/clock.h"
#include "common/wire/json_reals.h"

enum { RETRY_PAUSE_MS = 50 };

/* The first word of the first line: roles may stand behind the key. */
static enum mob_status read_token(const char *directory, char *out, size_t capacity)
{
    char path[STATE_PATH_MAX], line[256];
    enum mob_status status =
        state_read_line(state_path(directory, STATE_TOKEN_NAME, path), line, sizeof line);
    /* The file may have more keys than fit here; only the first line counts. */
    if (status != MOB_OK)
        return status;
    line[strcspn(line, " \t\r")] = '\0';
    if (strlen(line) >= capacity)
        return MOB_TOO_LARGE;
    memcpy(out, line, strlen(line) + 1);
    return MOB_OK;
}

static bool read_address(struct api *api)
{
    char path[STATE_PATH_MAX];
    return state_read_line(state_path(api->directory, STATE_ADDRESS_NAME, path), api->address,
               sizeof api->address) == MOB_OK;
}

enum cli_exit api_open(const struct cli_call *call, struct api *api)
{
    api->directory = cli_directory(call);
    api->response.body = NULL;
    api->deadline_ns = 0;
    enum mob_status status = read_token(api->directory, api->token, sizeof api->token);
    if (status == MOB_DENIED) {
        cli_say("%s/" STATE_TOKEN_NAME " may not be read by this user", api->directory);
        return CLI_DENIED;
    }
    if (state_dir_supervisor(api->directory) == 0 && !read_address(api)) {
        cli_say("nothing runs in %s; mobula up --detach starts it", api->directory);
        return CLI_UNREACHABLE;
    }
    if (status != MOB_OK) {
        cli_say("no key in %s/" STATE_TOKEN_NAME, api->directory);
        return CLI_DENIED;
    }
    return CLI_OK;
}

void api_close(struct api *api)
{
    http_response_fini(&api->response);
}

/* Exit code of an HTTP status. */
static enum cli_exit api_exit_of(int http_status, const char *code)
{
    if (code &&
        (strcmp(code, "task-failed") == 0 || strcmp(code, "worker-died") == 0 ||
            strcmp(code, "actor-died") == 0 || strcmp(code, "dependency-failed") == 0))
        return CLI_FAILED;
    switch (http_status) {
    case 200:
    case 201:
    case 202:
    case 204:
    case 206:
        return CLI_OK;
    case 400:
    case 405:
    case 413:
    case 415:
    case 416:
    case 422:
        return CLI_USAGE;
    case 401:
    case 403:
        return CLI_DENIED;
    case 404:
    case 410:
        return CLI_NOT_FOUND;
    case 408:
    case 504:
        return CLI_TIMEOUT;
    case 409:
        return CLI_CONFLICT;
    case 421:
    case 502:
    case 503:
        return CLI_UNREACHABLE;
    default:
        return CLI_FAILED;
    }
}

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

static const char *first_of(const json_t *object, const char *a, const char *b, const char *c)
{
    return *text_of(object, a) ? text_of(object, a)
        : *text_of(object, b)  ? text_of(object, b)
                               : text_of(object, c);
}

/* The first cause of a problem is often the problem itself, as the task said it: that is told once, with what
 * the cause knows besides. */
static const json_t *said_again(const json_t *error, const char *code, const char *message)
{
    const json_t *cause = json_object_get(error, "cause");
    return json_is_object(cause) && strcmp(text_of(cause, "message"), message) == 0 &&
            strcmp(text_of(cause, "code"), code) == 0
        ? cause
        : NULL;
}

void api_say_error(const json_t *error)
{
    for (int depth = 0; json_is_object(error) && depth <= 16; depth++) {
        const char *message = first_of(error, "detail", "message", "title");
        const char *code = text_of(error, "code");
        const json_t *again = said_again(error, code, message);
        error = again ? again : error;
        const char *task = text_of(error, "task");
        cli_say("%*s%s%s%s%s%s%s", depth * 2, "", depth ? "because " : "", code,
            *code && *message ? ": " : "", message, *task ? " in " : "", task);
        if (*text_of(error, "log"))
            cli_say("%*sits last lines: %s", depth * 2, "", text_of(error, "log"));
        error = json_object_get(error, "cause");
    }
}

static enum cli_exit say_problem(const struct api *api)
{
    const struct http_response *response = &api->response;
    json_t *problem = response->body ? json_loadb(response->body, response->body_length, 0, NULL) : NULL;
    enum cli_exit exit_code =
        api_exit_of(response->status, *text_of(problem, "code") ? text_of(problem, "code") : NULL);
    if (problem) {
        api_say_error(problem);
        size_t index;
        json_t *item;
        json_array_foreach(json_object_get(problem, "errors"), index, item)
        {
            /* The first is the problem's own detail. */
            if (!strstr(text_of(problem, "detail"), text_of(item, "message")))
                cli_say("  %s %s", text_of(item, "pointer"), text_of(item, "message"));
        }
    } else {
        cli_say("the gateway answered %d", response->status);
    }
    json_decref(problem);
    return exit_code;
}

/* Nothing of a refused connection can have arrived; a read may be asked twice, unless some of its answer is
 * out; so may what carries its own key. */
static bool may_repeat(const struct http_request *request, const struct http_response *response)
{
    if (response->taken)
        return false;
    return !response->sent || strcmp(request->method, "GET") == 0 ||
        (request->headers && strstr(request->headers, "Idempotency-Key:"));
}

/* Nobody there, or an answer that asks to come again. 408 does so too, but says that a wait is over. */
static bool is_away(enum mob_status status, const struct http_response *response)
{
    if (status != MOB_OK)
        return status == MOB_UNAVAILABLE;
    if (response->status == 503)
        return true;
    return (response->status == 409 || response->status == 429) && http_header(response, "Retry-After");
}

static int64_t sooner(int64_t a_ns, int64_t b_ns)
{
    return a_ns < b_ns ? a_ns : b_ns;
}

/* Asks until there is an answer that counts. */
static enum mob_status exchange_patiently(struct api *api, struct http_request *request)
{
    int64_t end_ns = request->timeout_ns > 0 ? mob_deadline_after(request->timeout_ns) : INT64_MAX;
    int64_t away_ns = 0;
    bool said = false;
    for (;;) {
        http_response_fini(&api->response);
        request->token = api->token;
        request->address = api->address;
        api->response.sent = api->response.taken = false;
        enum mob_status status = read_address(api) ? http_exchange(request, &api->response) : MOB_UNAVAILABLE;
        if (!is_away(status, &api->response) || !may_repeat(request, &api->response) ||
            state_dir_supervisor(api->directory) == 0)
            return status;
        int64_t now = mob_now();
        if (away_ns == 0)
            away_ns = now;
        int64_t give_up_ns = sooner(end_ns, away_ns + API_RETRY_NS);
        if (now >= give_up_ns || (api->deadline_ns != 0 && now >= api->deadline_ns))
            return status;
        if (!said && now >= away_ns + API_RETRY_SAY_NS) {
            cli_say("the cluster in %s does not answer yet; trying on", api->directory);
            said = true;
        }
        if (request->timeout_ns > 0)
            request->timeout_ns = end_ns - now;
        poll(NULL, 0, RETRY_PAUSE_MS);
    }
}

enum cli_exit api_exchange(struct api *api, struct http_request *request, int quiet_status)
{
    enum mob_status status = exchange_patiently(api, request);
    if (status == MOB_OK && api->response.status / 100 == 2)
        return CLI_OK;
    if (status == MOB_OK && api->response.status == quiet_status)
        return api_exit_of(api->response.status, NULL);
    if (status == MOB_OK)
        return say_problem(api);
    if (status == MOB_TIMEOUT) {
        cli_say("no answer from %s in time", api->address);
        return CLI_TIMEOUT;
    }
    if (status == MOB_IO) {
        cli_say("the output cannot be written");
        return CLI_FAILED;
    }
    cli_say("no answer from the gateway at %s: %s", api->address[0] ? api->address : "(no address)",
        mob_status_text(status));
    return status == MOB_UNAVAILABLE ? CLI_UNREACHABLE : CLI_FAILED;
}

enum cli_exit api_json(struct api *api, const char *method, const char *path, const char *headers,
    const json_t *body, json_t **out)
{
    struct http_request request = {
        .method = method, .path = path, .headers = headers, .timeout_ns = 2 * API_TIMEOUT_NS};
    char *text = body ? json_dumps(body, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;
    if (body && !text) {
        cli_say("out of memory");
        return CLI_FAILED;
    }
    if (text) {
        request.content_type = "application/json";
        request.body = text;
        request.body_length = strlen(text);
    }
    enum cli_exit exit_code = api_exchange(api, &request, 0);
    free(text);
    if (exit_code != CLI_OK)
        return exit_code;
    json_error_t error;
    *out = api->response.body
        ? json_loadb(api->response.body, api->response.body_length, JSON_DECODE_ANY, &error)
        : json_null();
    if (*out)
        return CLI_OK;
    cli_say("the gateway's answer is no JSON: %s", error.text);
    return CLI_FAILED;
}

bool api_object_of(const char *text, char out[MOB_ID_TEXT_MAX])
{
    struct mob_object_id object;
    struct mob_task_id task;
    if (mob_task_id_parse(text, &task) == MOB_OK) {
        object = mob_object_of(task, 0);
    } else if (mob_object_id_parse(text, &object) != MOB_OK) {
        cli_say("%s is neither a task nor an object id", text);
        return false;
    }
    mob_object_id_format(object, out);
    return true;
}

void api_print_value(const struct cli_call *call, const json_t *value)
{
    if (call->format == CLI_TABLE && json_is_string(value)) {
        puts(json_string_value(value));
        return;
    }
    char *text =
        json_dumps(value, JSON_ENCODE_ANY | (call->format == CLI_JSON ? JSON_INDENT(2) : JSON_COMPACT));
    if (!text) {
        cli_say("out of memory");
        return;
    }
    mob_json_shorten_reals(text);
    puts(text);
    free(text);
}
