#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/cluster_state.h"
#include "cli/state_dir.h"
#include "common/base/clock.h"

static void print_file(const struct cli_call *call)
{
    char path[STATE_PATH_MAX], bytes[4096];
    FILE *file = fopen(state_path(cli_directory(call), STATE_STATUS_NAME, path), "re");
    if (!file)
        return;
    for (size_t length; (length = fread(bytes, 1, sizeof bytes, file)) > 0;)
        fwrite(bytes, 1, length, stdout);
    fclose(file);
}

/* "3 s", "5 min", "2 h", "9 d": the largest unit that is not zero. */
static const char *ago(int64_t started_us, char out[24])
{
    int64_t seconds = (mob_wall_now() / 1000 - started_us) / 1000000;
    if (seconds < 0)
        seconds = 0;
    if (seconds < 120)
        snprintf(out, 24, "%" PRId64 " s", seconds);
    else if (seconds < 7200)
        snprintf(out, 24, "%" PRId64 " min", seconds / 60);
    else if (seconds < 172800)
        snprintf(out, 24, "%" PRId64 " h", seconds / 3600);
    else
        snprintf(out, 24, "%" PRId64 " d", seconds / 86400);
    return out;
}

static const char *colour_of(const struct cli_call *call, const char *state)
{
    if (!call->color)
        return "";
    return strcmp(state, "ready") == 0 ? "\033[32m" : strcmp(state, "waiting") == 0 ? "\033[31m" : "\033[33m";
}

static void print_table(const struct cli_call *call, const struct cluster_state *state)
{
    char age[24], pid[16];
    const char *plain = call->color ? "\033[0m" : "";
    printf("cluster  %s%s%s, up for %s\n", colour_of(call, state->state), state->state, plain,
        ago(state->started_us, age));
    printf("gateway  %s%s\n", state->address[0] ? "http://" : "-", state->address);
    printf("state    %s\n\n", cli_directory(call));
    printf("%-9s %-9s %8s %8s %9s  %s\n", "PROCESS", "STATE", "PID", "FOR", "RESTARTS", "LAST END");
    for (int i = 0; i < state->count; i++) {
        const struct cluster_process *process = &state->processes[i];
        snprintf(pid, sizeof pid, "%d", process->pid);
        printf("%-9s %s%-9s%s %8s %8s %9u  %s%s%s\n", process->name, colour_of(call, process->state),
            process->state, plain, process->pid > 0 ? pid : "-",
            process->pid > 0 ? ago(process->started_us, age) : "-", process->restarts, process->last_exit,
            process->last_line[0] ? ": " : "", process->last_line);
    }
}

enum cli_exit cmd_status(struct cli_call *call)
{
    struct cluster_state state;
    pid_t supervisor = state_dir_supervisor(cli_directory(call));
    enum mob_status status =
        supervisor == 0 ? MOB_NOT_FOUND : cluster_state_read(cli_directory(call), &state);
    if (status != MOB_OK) {
        if (call->format == CLI_JSON || call->format == CLI_JSONL)
            puts("{\"state\":\"down\",\"processes\":[]}");
        cli_say(supervisor ? "%s: starting" : "nothing runs in %s; mobula up starts it", cli_directory(call));
        return CLI_UNREACHABLE;
    }
    if (call->format == CLI_NAME)
        puts(state.state);
    else if (call->format == CLI_TABLE)
        print_table(call, &state);
    else
        print_file(call);
    return CLI_OK;
}
