#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/cluster_state.h"
#include "cli/state_dir.h"
#include "common/base/clock.h"

static void print_json(const struct cli_call *call)
{
    char *text = cluster_state_json(cli_directory(call));
    if (text)
        puts(text);
    free(text);
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

static int name_width(const struct cluster_state *state)
{
    int width = 9;
    for (int i = 0; i < state->count; i++) {
        int length = (int)strlen(state->processes[i].name);
        width = length > width ? length : width;
    }
    return width;
}

static void print_table(const struct cli_call *call, const struct cluster_state *state)
{
    char age[24], pid[16];
    bool gone = false;
    const char *plain = call->color ? "\033[0m" : "";
    printf("cluster  %s%s%s, up for %s\n", colour_of(call, state->state), state->state, plain,
        ago(state->started_us, age));
    printf("gateway  %s%s\n", state->address[0] ? "http://" : "-", state->address);
    printf("state    %s\n\n", cli_directory(call));
    int width = name_width(state);
    printf("%-*s %-9s %8s %8s %9s  %s\n", width, "PROCESS", "STATE", "PID", "FOR", "RESTARTS", "LAST END");
    for (int i = 0; i < state->count; i++) {
        const struct cluster_process *process = &state->processes[i];
        snprintf(pid, sizeof pid, "%d", process->pid);
        printf("%-*s %s%-9s%s %8s %8s %9u  %s%s%s\n", width, process->name, colour_of(call, process->state),
            process->state, plain, process->pid > 0 ? pid : "-",
            process->pid > 0 ? ago(process->started_us, age) : "-", process->restarts, process->last_exit,
            process->last_line[0] ? ": " : "", process->last_line);
        gone |= strcmp(process->state, CLUSTER_PROCESS_GONE) == 0;
    }
    if (gone)
        cli_say("what is gone has ended, and the supervisor has not written so yet; if it stays gone, is the "
                "disk full? mobula doctor says");
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
        print_json(call);
    return CLI_OK;
}
