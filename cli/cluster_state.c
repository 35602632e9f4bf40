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

enum mob_status cluster_state_read(const char *directory, struct cluster_state *out)
{
    char path[STATE_PATH_MAX];
    json_t *root =
        json_load_file(state_path(directory, STATE_STATUS_NAME, path), JSON_REJECT_DUPLICATES, NULL);
    if (!root) {
        FILE *file = fopen(path, "re");
        if (!file)
            return errno == ENOENT ? MOB_NOT_FOUND : MOB_IO;
        fclose(file);
        return MOB_CORRUPT;
    }
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
