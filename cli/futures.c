#include "cli/futures.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/decimal.h"

bool futures_deadline(const struct cli_call *call, int64_t *deadline_ns_out)
{
    const char *text = cli_option(call, "timeout");
    *deadline_ns_out = INT64_MAX;
    if (!text)
        return true;
    double seconds;
    size_t length = mob_decimal_fraction(text, &seconds);
    if (length == 0 || text[length] != '\0' || seconds >= 1e9) {
        cli_say("--timeout is %s, and must be a number of seconds", text);
        return false;
    }
    *deadline_ns_out = mob_deadline_after((int64_t)(seconds * 1e9));
    return true;
}

/* What Ctrl-C says: it leaves the work alone. */
static char interrupted_text[256];

static void on_interrupt(int number)
{
    ssize_t written = write(STDERR_FILENO, interrupted_text, strlen(interrupted_text));
    (void)written;
    _exit(128 + number);
}

static void detach_on_interrupt(const char *object_id)
{
    snprintf(interrupted_text, sizeof interrupted_text,
        "\nmobula: it goes on without you; mobula get %s waits for it\n", object_id);
    signal(SIGINT, on_interrupt);
}

void futures_detach_before_answer(void)
{
    snprintf(interrupted_text, sizeof interrupted_text,
        "\nmobula: it may have been submitted, and goes on then; mobula list tasks shows it\n");
    signal(SIGINT, on_interrupt);
}

static bool write_bytes(void *arg, const void *bytes, size_t length)
{
    (void)arg;
    return fwrite(bytes, 1, length, stdout) == length;
}

/* A value without a JSON form, or too large for one: its bytes as they are. */
static enum cli_exit print_bytes(struct api *api, const char *object_id)
{
    char path[API_PATH_MAX];
    snprintf(path, sizeof path, API_PREFIX "/objects/%s/data", object_id);
    struct http_request request = {.method = "GET", .path = path, .sink = write_bytes};
    return api_exchange(api, &request, 0);
}

static enum cli_exit print_object(
    const struct cli_call *call, struct api *api, const char *object_id, const json_t *object)
{
    const char *state = json_string_value(json_object_get(object, "state"));
    if (strcmp(state, "ready") != 0 && strcmp(state, "evicted") != 0) {
        if (call->format != CLI_TABLE)
            api_print_value(call, object);
        const json_t *error = json_object_get(object, "error");
        if (error)
            api_say_error(error);
        else
            cli_say("%s is %s", object_id, state);
        return CLI_FAILED;
    }
    const json_t *value = json_object_get(object, "value");
    if (call->format == CLI_NAME)
        puts(object_id);
    else if (call->format != CLI_TABLE)
        api_print_value(call, object);
    else if (value)
        api_print_value(call, value);
    else
        return print_bytes(api, object_id);
    return CLI_OK;
}

static bool is_pending(const json_t *object)
{
    const char *state = json_string_value(json_object_get(object, "state"));
    return state && (strcmp(state, "pending") == 0 || strcmp(state, "reconstructing") == 0);
}

enum cli_exit futures_print(
    const struct cli_call *call, struct api *api, const char *object_id, int64_t deadline_ns)
{
    detach_on_interrupt(object_id);
    api->deadline_ns = deadline_ns == INT64_MAX ? 0 : deadline_ns;
    for (;;) {
        char path[API_PATH_MAX];
        int64_t left_ns = deadline_ns == INT64_MAX ? INT64_MAX : deadline_ns - mob_now();
        double wait_s = left_ns <= 0              ? 0
            : left_ns / MOB_SEC >= API_WAIT_MAX_S ? API_WAIT_MAX_S
                                                  : (double)left_ns / 1e9;
        snprintf(path, sizeof path, API_PREFIX "/objects/%s?wait=%.3f", object_id, wait_s);
        json_t *object = NULL;
        enum cli_exit exit_code = api_json(api, "GET", path, NULL, NULL, &object);
        if (exit_code != CLI_OK)
            return exit_code;
        if (!json_string_value(json_object_get(object, "state"))) {
            cli_say("the gateway's answer has no state");
            json_decref(object);
            return CLI_FAILED;
        }
        if (!is_pending(object)) {
            exit_code = print_object(call, api, object_id, object);
            json_decref(object);
            return exit_code;
        }
        json_decref(object);
        if (left_ns <= 0) {
            cli_say("not ready yet; mobula get %s waits for it", object_id);
            return CLI_TIMEOUT;
        }
    }
}

enum cli_exit futures_print_all(
    const struct cli_call *call, struct api *api, const json_t *object_ids, int64_t deadline_ns)
{
    enum cli_exit exit_code = CLI_OK;
    size_t index;
    json_t *id;
    if (json_array_size(object_ids) == 0)
        cli_say("the task has no return");
    json_array_foreach(object_ids, index, id)
    {
        if (exit_code == CLI_OK && json_string_value(id))
            exit_code = futures_print(call, api, json_string_value(id), deadline_ns);
    }
    return exit_code;
}

enum cli_exit futures_print_task(
    const struct cli_call *call, struct api *api, const char *task_id, int64_t deadline_ns)
{
    struct mob_task_id task;
    char path[API_PATH_MAX], id[MOB_ID_TEXT_MAX];
    json_t *record = NULL;
    snprintf(path, sizeof path, API_PREFIX "/tasks/%s", task_id);
    enum cli_exit exit_code = api_json(api, "GET", path, NULL, NULL, &record);
    if (exit_code != CLI_OK || mob_task_id_parse(task_id, &task) != MOB_OK)
        return exit_code;
    bool is_stream = json_object_get(record, "stream") != NULL;
    const json_t *count = json_object_get(record, "num_returns");
    uint32_t returns = json_is_integer(count) ? (uint32_t)json_integer_value(count) : 1;
    json_decref(record);
    if (is_stream)
        return futures_print_items(call, api, task_id, deadline_ns);
    for (uint32_t i = 0; i < returns && exit_code == CLI_OK; i++)
        exit_code = futures_print(call, api, mob_object_id_format(mob_object_of(task, i), id), deadline_ns);
    return exit_code;
}

/* An item that has no JSON form, or is too large for one, is shown by its id. */
static void print_item(const struct cli_call *call, const json_t *item)
{
    const json_t *value = json_object_get(item, "value");
    const char *id = json_string_value(json_object_get(item, "id"));
    if (call->format == CLI_NAME)
        puts(id ? id : "");
    else if (call->format != CLI_TABLE)
        api_print_value(call, item);
    else
        api_print_value(call, value ? value : json_object_get(item, "id"));
}

static enum cli_exit print_page(const struct cli_call *call, const json_t *page, bool *ended_out)
{
    size_t index;
    json_t *item;
    json_array_foreach(json_object_get(page, "items"), index, item)
    {
        print_item(call, item);
    }
    fflush(stdout);
    *ended_out = json_is_true(json_object_get(page, "ended"));
    const json_t *error = json_object_get(page, "error");
    if (error)
        api_say_error(error);
    return error ? CLI_FAILED : CLI_OK;
}

enum cli_exit futures_print_items(
    const struct cli_call *call, struct api *api, const char *task_id, int64_t deadline_ns)
{
    char cursor[128] = "", path[API_PATH_MAX];
    bool ended = false;
    api->deadline_ns = deadline_ns == INT64_MAX ? 0 : deadline_ns;
    while (!ended) {
        int64_t left_ns = deadline_ns == INT64_MAX ? INT64_MAX : deadline_ns - mob_now();
        double wait_s = left_ns <= 0              ? 0
            : left_ns / MOB_SEC >= API_WAIT_MAX_S ? API_WAIT_MAX_S
                                                  : (double)left_ns / 1e9;
        snprintf(path, sizeof path, API_PREFIX "/tasks/%s/items?wait=%.3f%s%s", task_id, wait_s,
            cursor[0] ? "&cursor=" : "", cursor);
        json_t *page = NULL;
        enum cli_exit exit_code = api_json(api, "GET", path, NULL, NULL, &page);
        if (exit_code == CLI_OK)
            exit_code = print_page(call, page, &ended);
        const char *next = json_string_value(json_object_get(page, "next_cursor"));
        snprintf(cursor, sizeof cursor, "%s", next ? next : "");
        bool none = json_array_size(json_object_get(page, "items")) == 0;
        json_decref(page);
        if (exit_code != CLI_OK)
            return exit_code;
        if (!ended && none && left_ns <= 0) {
            cli_say("it goes on; /api/v1/tasks/%s/items has what comes", task_id);
            return CLI_TIMEOUT;
        }
    }
    return CLI_OK;
}
