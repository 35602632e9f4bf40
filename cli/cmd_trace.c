/* The commands that ask what happened: why, lineage, timeline. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cli/api_client.h"
#include "cli/lineage_tree.h"
#include "cli/tree.h"

static enum cli_exit ask(struct cli_call *call, struct api *api, const char *kind, const char *which,
    const char *question, json_t **out)
{
    char id[API_PATH_MAX / 2], path[API_PATH_MAX];
    if (!http_encode(which, id, sizeof id)) {
        cli_say("that is no id");
        return CLI_USAGE;
    }
    snprintf(path, sizeof path, API_PREFIX "/%s/%s/%s", kind, id, question);
    enum cli_exit exit_code = api_open(call, api);
    return exit_code == CLI_OK ? api_json(api, "GET", path, NULL, NULL, out) : exit_code;
}

/* A live task has a reason; of one that has ended the answer is its record, whose state is how it ended. */
static void say_how_it_ended(const json_t *answer)
{
    static const char *const ends[] = {"finished", "failed", "cancelled"};
    const char *state = json_string_value(json_object_get(answer, "state"));
    for (size_t i = 0; state && i < sizeof ends / sizeof ends[0]; i++)
        if (strcmp(state, ends[i]) == 0 && !json_object_get(answer, "reason"))
            printf("It does not wait: it has %s%s. Its record:\n", i == 2 ? "been " : "", state);
}

enum cli_exit cmd_why(struct cli_call *call)
{
    static struct api api;
    struct mob_task_id task;
    json_t *answer = NULL;
    if (mob_task_id_parse(call->arguments[0], &task) != MOB_OK) {
        cli_say("%s is no task id", call->arguments[0]);
        return CLI_USAGE;
    }
    enum cli_exit exit_code = ask(call, &api, "tasks", call->arguments[0], "why", &answer);
    if (exit_code == CLI_OK && call->format != CLI_TABLE) {
        api_print_value(call, answer);
    } else if (exit_code == CLI_OK) {
        say_how_it_ended(answer);
        tree_print_fields(answer, 0);
    }
    json_decref(answer);
    api_close(&api);
    return exit_code;
}

enum cli_exit cmd_lineage(struct cli_call *call)
{
    static struct api api;
    json_t *answer = NULL;
    long long depth;
    char question[64], object[MOB_ID_TEXT_MAX];
    if (!api_object_of(call->arguments[0], object))
        return CLI_USAGE;
    if (!cli_option_number(call, "depth", 8, 1, TREE_DEPTH_MAX, &depth))
        return CLI_USAGE;
    snprintf(question, sizeof question, "lineage?depth=%lld&limit=1000", depth);
    enum cli_exit exit_code = ask(call, &api, "objects", object, question, &answer);
    if (exit_code == CLI_OK && call->format != CLI_TABLE) {
        api_print_value(call, answer);
    } else if (exit_code == CLI_OK) {
        json_t *root = lineage_tree(json_object_get(answer, "nodes"));
        if (root)
            tree_print_lineage(root);
        json_decref(root);
        if (json_is_string(json_object_get(answer, "next_cursor")) ||
            json_is_true(json_object_get(answer, "truncated")))
            cli_say("there is more; -o json has the whole answer, --depth goes further");
    }
    json_decref(answer);
    api_close(&api);
    return exit_code;
}

struct output {
    FILE *file;
};

static bool write_bytes(void *arg, const void *bytes, size_t length)
{
    struct output *output = arg;
    return fwrite(bytes, 1, length, output->file) == length;
}

/* With other commands --output picks a form, so who writes one here hardly means a file. */
static bool is_form_elsewhere(const char *output)
{
    return strcmp(output, "json") == 0 || strcmp(output, "jsonl") == 0 || strcmp(output, "table") == 0 ||
        strcmp(output, "name") == 0;
}

enum cli_exit cmd_timeline(struct cli_call *call)
{
    static struct api api;
    const char *path_out = cli_option(call, "output"), *job = cli_option(call, "job");
    char path[API_PATH_MAX], encoded[API_PATH_MAX / 2] = "";
    long long limit;
    if (!cli_option_number(call, "limit", 100000, 1, 1000000, &limit))
        return CLI_USAGE;
    if (path_out && is_form_elsewhere(path_out)) {
        cli_say("--output of timeline is a file, - for standard output; ./%s is one of that name", path_out);
        return CLI_USAGE;
    }
    if (job && !http_encode(job, encoded, sizeof encoded)) {
        cli_say("that is no job");
        return CLI_USAGE;
    }
    snprintf(path, sizeof path, API_PREFIX "/timeline?limit=%lld%s%s", limit, job ? "&job=" : "", encoded);
    enum cli_exit exit_code = api_open(call, &api);
    if (exit_code != CLI_OK)
        return exit_code;
    struct output output = {path_out && strcmp(path_out, "-") != 0 ? fopen(path_out, "we") : stdout};
    if (!output.file) {
        cli_say("cannot write %s: %s", path_out, strerror(errno));
        return CLI_FAILED;
    }
    struct http_request request = {
        .method = "GET", .path = path, .sink = write_bytes, .arg = &output, .timeout_ns = 4 * API_TIMEOUT_NS};
    exit_code = api_exchange(&api, &request, 0);
    if (output.file != stdout && fclose(output.file) != 0 && exit_code == CLI_OK) {
        cli_say("cannot write %s: %s", path_out, strerror(errno));
        exit_code = CLI_FAILED;
    }
    if (exit_code == CLI_OK && output.file != stdout)
        cli_say("wrote %s; open it in https://ui.perfetto.dev", path_out);
    api_close(&api);
    return exit_code;
}
