#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/api_client.h"
#include "common/wire/utf8.h"

enum { FOLLOW_WAIT_S = 20, LINE_MAX_BYTES = 65536 };

/* -o json, jsonl: {"line": "..."} for each line, as it comes. A longer one is told in pieces. */
struct lines {
    bool as_json;
    size_t length;
    char text[LINE_MAX_BYTES + 1];
};

static bool end_line(struct lines *lines)
{
    char clean[LINE_MAX_BYTES + 1];
    lines->text[lines->length] = '\0';
    json_utf8_copy(clean, sizeof clean, lines->text);
    lines->length = 0;
    json_t *line = json_pack("{s:s}", "line", clean);
    bool written = line && json_dumpf(line, stdout, JSON_COMPACT) == 0 && putchar('\n') != EOF;
    json_decref(line);
    return written;
}

static bool write_bytes(void *arg, const void *bytes, size_t length)
{
    struct lines *lines = arg;
    if (!lines->as_json)
        return fwrite(bytes, 1, length, stdout) == length;
    for (const char *at = bytes, *end = at + length; at < end; at++) {
        if ((*at == '\n' || lines->length == LINE_MAX_BYTES) && !end_line(lines))
            return false;
        if (*at != '\n')
            lines->text[lines->length++] = *at == '\0' ? '?' : *at;
    }
    return true;
}

/* Reads on from `offset` until the log has ended, or, without following, until nothing more is there. */
static enum cli_exit read_on(
    struct api *api, const char *kind, const char *id, bool follow, struct lines *lines)
{
    unsigned long long offset = 0;
    for (;;) {
        char path[API_PATH_MAX];
        snprintf(path, sizeof path, API_PREFIX "/%s/%s/logs?offset=%llu", kind, id, offset);
        if (follow)
            snprintf(path + strlen(path), sizeof path - strlen(path), "&wait=%d", FOLLOW_WAIT_S);
        struct http_request request = {.method = "GET",
            .path = path,
            .sink = write_bytes,
            .arg = lines,
            .timeout_ns = 2 * API_TIMEOUT_NS};
        enum cli_exit exit_code = api_exchange(api, &request, 0);
        if (exit_code != CLI_OK)
            return exit_code;
        const char *next = http_header(&api->response, "Mobula-Log-Next");
        const char *ended = http_header(&api->response, "Mobula-Log-Ended");
        unsigned long long after = next ? strtoull(next, NULL, 10) : offset;
        bool grew = after > offset;
        offset = after;
        if (fflush(stdout) != 0)
            return CLI_FAILED;
        if (!grew && (!follow || (ended && strcmp(ended, "true") == 0)))
            return CLI_OK;
    }
}

enum cli_exit cmd_logs(struct cli_call *call)
{
    static struct api api;
    static struct lines lines;
    lines.as_json = call->format == CLI_JSON || call->format == CLI_JSONL;
    const char *id = call->arguments[0];
    struct mob_task_id task;
    struct mob_actor_id actor;
    bool of_actor = mob_actor_id_parse(id, &actor) == MOB_OK;
    if (!of_actor && mob_task_id_parse(id, &task) != MOB_OK) {
        cli_say("%s is neither a task nor an actor id", id);
        return CLI_USAGE;
    }
    enum cli_exit exit_code = api_open(call, &api);
    if (exit_code == CLI_OK)
        exit_code =
            read_on(&api, of_actor ? "actors" : "tasks", id, cli_option(call, "follow") != NULL, &lines);
    if (lines.length > 0 && !end_line(&lines)) /* the last one has no end yet */
        exit_code = CLI_FAILED;
    api_close(&api);
    return exit_code;
}
