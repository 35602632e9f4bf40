#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "cli/futures.h"
#include "common/base/id.h"
#include "common/settings/settings_forms.h"

/* What is done by then needs one request; for the rest, there is an id to come back to. */
enum { SUBMIT_WAIT_S = 2 };

/* An argument is JSON if it reads as JSON, an object id is that object, and all else is a string. */
static json_t *argument_of(const char *text)
{
    struct mob_object_id id;
    if (mob_object_id_parse(text, &id) == MOB_OK)
        return json_pack("{s:s}", "$ref", text);
    const size_t flags = JSON_DECODE_ANY | JSON_REJECT_DUPLICATES;
    json_error_t error;
    json_t *value = json_loads(text, flags, &error);
    if (!value && json_error_code(&error) == json_error_numeric_overflow) /* more than 64 bits: for f64 */
        value = json_loads(text, flags | JSON_DECODE_INT_AS_REAL, &error);
    return value ? value : json_string(text);
}

/* "CPU=2,GPU=0.5"; NULL: it has been said what is wrong with it. */
static json_t *resources_of(const char *text)
{
    struct mob_listed_resource one;
    char message[MOB_FORM_MESSAGE_MAX];
    if (mob_resources_check(text, message) != MOB_OK) {
        cli_say("--resources: %s", message);
        return NULL;
    }
    json_t *resources = json_object();
    while (mob_resources_next(&text, &one, message) == MOB_OK)
        json_object_set_new(resources, one.name, json_real(one.amount));
    return resources;
}

static json_t *options_of(const struct cli_call *call)
{
    json_t *options = json_object();
    const char *name = cli_option(call, "name"), *resources = cli_option(call, "resources");
    long long retries;
    if (!cli_option_number(call, "retries", 3, -1, 1000000, &retries)) {
        json_decref(options);
        return NULL;
    }
    if (cli_option(call, "retries"))
        json_object_set_new(options, "max_retries", json_integer(retries));
    if (name)
        json_object_set_new(options, "name", json_string(name));
    if (resources) {
        json_t *read = resources_of(resources);
        if (!read) {
            json_decref(options);
            return NULL;
        }
        json_object_set_new(options, "resources", read);
    }
    return options;
}

static json_t *body_of(const struct cli_call *call)
{
    json_t *options = options_of(call);
    if (!options)
        return NULL;
    json_t *arguments = json_array();
    for (int i = 1; i < call->count; i++)
        json_array_append_new(arguments, argument_of(call->arguments[i]));
    json_t *body = json_pack("{s:s, s:o}", "function", call->arguments[0], "arguments", arguments);
    if (json_object_size(options) > 0)
        json_object_set(body, "options", options);
    json_decref(options);
    if (cli_option(call, "job"))
        json_object_set_new(body, "job", json_string(cli_option(call, "job")));
    return body;
}

/* What goes with the request: a key of its own, so that it may be sent twice, and how long to wait for the
 * result. False, after saying so: there is none. A key that another submission has gives that one's result.
 */
static bool headers_of(bool wait, char out[192])
{
    uint8_t key[16];
    if (getrandom(key, sizeof key, 0) != (ssize_t)sizeof key) {
        cli_say("no random numbers, which the request's key is made of: %s", strerror(errno));
        return false;
    }
    int n = snprintf(out, 192, "Idempotency-Key: cli-");
    for (size_t i = 0; i < sizeof key; i++)
        n += snprintf(out + n, 192 - (size_t)n, "%02x", key[i]);
    n += snprintf(out + n, 192 - (size_t)n, "\r\n");
    if (wait)
        snprintf(out + n, 192 - (size_t)n, "Prefer: wait=%d\r\n", SUBMIT_WAIT_S);
    return true;
}

static void print_submitted(const struct cli_call *call, const json_t *answer)
{
    const char *id = json_string_value(json_object_get(answer, "id"));
    if (call->format == CLI_NAME) {
        puts(id ? id : "");
        return;
    }
    if (call->format != CLI_TABLE) {
        api_print_value(call, answer);
        return;
    }
    printf("task     %s\n", id ? id : "-");
    size_t index;
    json_t *item;
    json_array_foreach(json_object_get(answer, "returns"), index, item)
    {
        printf("return   %s\n", json_string_value(item));
    }
}

/* The values of several returns, a line each. */
static void print_each(const struct cli_call *call, const json_t *values)
{
    size_t index;
    json_t *value;
    json_array_foreach(values, index, value)
    {
        api_print_value(call, value);
    }
}

/* The answer of a submit that waited: the result, the error, or that it takes longer. */
static enum cli_exit print_result(
    const struct cli_call *call, struct api *api, const json_t *answer, int64_t deadline_ns)
{
    const json_t *error = json_object_get(answer, "error"), *result = json_object_get(answer, "result");
    const json_t *results = json_object_get(answer, "results");
    bool whole = result &&
        (!results || json_array_size(results) == json_array_size(json_object_get(answer, "returns")));
    if (error || (whole && call->format != CLI_NAME)) {
        if (call->format != CLI_TABLE)
            api_print_value(call, answer);
        else if (results)
            print_each(call, results);
        else if (result)
            api_print_value(call, result);
        if (error)
            api_say_error(error);
        return error ? CLI_FAILED : CLI_OK;
    }
    if (json_object_get(answer, "stream"))
        return futures_print_items(call, api, json_string_value(json_object_get(answer, "id")), deadline_ns);
    return futures_print_all(call, api, json_object_get(answer, "returns"), deadline_ns);
}

enum cli_exit cmd_submit(struct cli_call *call)
{
    static struct api api;
    int64_t deadline_ns;
    bool wait = cli_option(call, "wait") || cli_option(call, "timeout");
    if (!futures_deadline(call, &deadline_ns))
        return CLI_USAGE;
    char headers[192];
    /* with a deadline of its own, the waiting is done by futures_print */
    if (!headers_of(wait && deadline_ns == INT64_MAX, headers))
        return CLI_FAILED;
    json_t *body = body_of(call), *answer = NULL;
    if (!body)
        return CLI_USAGE;
    enum cli_exit exit_code = api_open(call, &api);
    api.deadline_ns = deadline_ns == INT64_MAX ? 0 : deadline_ns;
    futures_detach_before_answer();
    if (exit_code == CLI_OK)
        exit_code = api_json(&api, "POST", API_PREFIX "/tasks", headers, body, &answer);
    if (exit_code == CLI_OK && wait)
        exit_code = print_result(call, &api, answer, deadline_ns);
    else if (exit_code == CLI_OK)
        print_submitted(call, answer);
    json_decref(answer);
    json_decref(body);
    api_close(&api);
    return exit_code;
}

/* Of several those that can be are cancelled, and the exit code is of the first that could not. */
enum cli_exit cmd_cancel(struct cli_call *call)
{
    static struct api api;
    for (int i = 0; i < call->count; i++) {
        struct mob_task_id task;
        if (mob_task_id_parse(call->arguments[i], &task) != MOB_OK) {
            cli_say("%s is no task id", call->arguments[i]);
            return CLI_USAGE;
        }
    }
    enum cli_exit first = api_open(call, &api);
    if (first != CLI_OK)
        return first;
    json_t *body = json_pack("{s:b}", "force", cli_option(call, "force") != NULL);
    for (int i = 0; i < call->count; i++) {
        char path[API_PATH_MAX];
        json_t *answer = NULL;
        snprintf(path, sizeof path, API_PREFIX "/tasks/%s:cancel", call->arguments[i]);
        enum cli_exit exit_code = api_json(&api, "POST", path, NULL, body, &answer);
        if (exit_code != CLI_OK && call->count > 1)
            cli_say("  it was %s", call->arguments[i]);
        first = first == CLI_OK ? exit_code : first;
        json_decref(answer);
    }
    json_decref(body);
    api_close(&api);
    return first;
}

enum cli_exit cmd_get(struct cli_call *call)
{
    static struct api api;
    int64_t deadline_ns;
    if (!futures_deadline(call, &deadline_ns))
        return CLI_USAGE;
    enum cli_exit exit_code = api_open(call, &api);
    for (int i = 0; i < call->count && exit_code == CLI_OK; i++) {
        struct mob_task_id task;
        char id[MOB_ID_TEXT_MAX];
        if (mob_task_id_parse(call->arguments[i], &task) == MOB_OK)
            exit_code = futures_print_task(call, &api, call->arguments[i], deadline_ns);
        else if (api_object_of(call->arguments[i], id))
            exit_code = futures_print(call, &api, id, deadline_ns);
        else
            exit_code = CLI_USAGE;
    }
    api_close(&api);
    return exit_code;
}
