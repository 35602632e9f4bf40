#include "cli/cluster_state.h"

#include <errno.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "cli/state_dir.h"
#include "common/base/log.h"
#include "common/base/process.h"

static void copy_text(const json_t *object, const char *key, char *out, size_t capacity)
{
    const char *text = json_string_value(json_object_get(object, key));
    snprintf(out, capacity, "%s", text ? text : "");
}

static bool is_gone(const json_t *process)
{
    pid_t pid = (pid_t)json_integer_value(json_object_get(process, "pid"));
    uint64_t started = (uint64_t)json_integer_value(json_object_get(process, "start_time"));
    return pid > 0 && started != 0 && (mob_process_started(pid) != started || state_process_ends(pid));
}

/* The supervisor writes the file at each change, but cannot on a disk that is full, or while it is stopped.
 */
static void mark_gone(json_t *root)
{
    bool any = false;
    size_t index;
    json_t *process;
    json_array_foreach(json_object_get(root, "processes"), index, process)
    {
        if (!is_gone(process))
            continue;
        any = true;
        json_object_set_new(process, "state", json_string(CLUSTER_PROCESS_GONE));
    }
    const char *state = json_string_value(json_object_get(root, "state"));
    if (any && state && strcmp(state, "ready") == 0)
        json_object_set_new(root, "state", json_string("degraded"));
}

static enum mob_status load(const char *directory, json_t **root_out)
{
    char path[STATE_PATH_MAX];
    *root_out = json_load_file(state_path(directory, STATE_STATUS_NAME, path), JSON_REJECT_DUPLICATES, NULL);
    if (*root_out) {
        mark_gone(*root_out);
        return MOB_OK;
    }
    FILE *file = fopen(path, "re");
    if (!file)
        return errno == ENOENT ? MOB_NOT_FOUND : MOB_IO;
    fclose(file);
    return MOB_CORRUPT;
}

char *cluster_state_json(const char *directory)
{
    json_t *root;
    if (load(directory, &root) != MOB_OK)
        return NULL;
    char *text = json_dumps(root, JSON_COMPACT);
    json_decref(root);
    return text;
}

enum mob_status cluster_state_read(const char *directory, struct cluster_state *out)
{
    json_t *root;
    enum mob_status status = load(directory, &root);
    if (status != MOB_OK)
        return status;
    memset(out, 0, sizeof *out);
    copy_text(root, "state", out->state, sizeof out->state);
    copy_text(root, "address", out->address, sizeof out->address);
    out->pid = (int)json_integer_value(json_object_get(root, "pid"));
    out->started_us = json_integer_value(json_object_get(root, "started_us"));
    size_t index;
    json_t *item;
    json_array_foreach(json_object_get(root, "processes"), index, item)
    {
        if (index >= CLUSTER_PROCESSES_MAX)
            break;
        struct cluster_process *process = &out->processes[out->count++];
        copy_text(item, "name", process->name, sizeof process->name);
        copy_text(item, "state", process->state, sizeof process->state);
        copy_text(item, "last_exit", process->last_exit, sizeof process->last_exit);
        copy_text(item, "last_line", process->last_line, sizeof process->last_line);
        process->pid = (int)json_integer_value(json_object_get(item, "pid"));
        process->start_time = (uint64_t)json_integer_value(json_object_get(item, "start_time"));
        process->restarts = (uint32_t)json_integer_value(json_object_get(item, "restarts"));
        process->started_us = json_integer_value(json_object_get(item, "started_us"));
    }
    json_decref(root);
    return MOB_OK;
}

void cluster_end_leftovers(const char *directory)
{
    static struct cluster_state state;
    if (cluster_state_read(directory, &state) != MOB_OK)
        return;
    for (int i = 0; i < state.count; i++) {
        const struct cluster_process *process = &state.processes[i];
        if (process->pid <= 1 || process->start_time == 0 ||
            mob_process_started(process->pid) != process->start_time)
            continue;
        MOB_LOG_WARN("supervisor", "leftover_killed", "process=%s pid=%d", process->name, process->pid);
        kill(-process->pid, SIGKILL); /* each leads a group of its own */
    }
}
