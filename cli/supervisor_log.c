#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/supervisor.h"
#include "common/base/log.h"

const char *process_state_name(enum process_state state)
{
    static const char *const names[] = {
        "down", "preparing", "sealing", "starting", "ready", "waiting", "stopping"};
    return names[state];
}

/* Keeps the end of the last line that is not empty. */
static void remember_line(struct process *process, const char *bytes, size_t length)
{
    while (length > 0 && (bytes[length - 1] == '\n' || bytes[length - 1] == '\r'))
        length--;
    if (length == 0)
        return;
    const char *newline = memrchr(bytes, '\n', length);
    size_t begin = newline ? (size_t)(newline - bytes) + 1 : 0;
    snprintf(process->last_line, sizeof process->last_line, "%.*s", (int)(length - begin), bytes + begin);
}

/* What is read is written out before anybody else reads: one buffer serves all. */
static void give_buffer(uv_handle_t *handle, size_t suggested, uv_buf_t *buffer)
{
    struct process *process = handle->data;
    (void)suggested;
    *buffer = uv_buf_init(process->supervisor->read_buffer, SUPERVISOR_READ_MAX);
}

static void on_output(uv_stream_t *stream, ssize_t length, const uv_buf_t *buffer)
{
    struct process *process = stream->data;
    if (length <= 0)
        return;
    log_file_write(&process->log, buffer->base, (size_t)length);
    remember_line(process, buffer->base, (size_t)length);
}

enum mob_status process_log_open(struct process *process)
{
    struct supervisor *supervisor = process->supervisor;
    char name[64], path[STATE_PATH_MAX];
    int ends[2];
    process->output_fd = -1;
    snprintf(name, sizeof name, STATE_LOGS_NAME "/%s.log", process_name(process->which));
    enum mob_status status = log_file_open(&process->log, state_path(supervisor->directory, name, path),
        (uint64_t)mob_setting_number(supervisor->settings, MOB_SETTING_LOG_FILE_BYTES),
        (uint32_t)mob_setting_number(supervisor->settings, MOB_SETTING_LOG_FILES));
    if (status != MOB_OK)
        return status;
    if (pipe2(ends, O_CLOEXEC) != 0) {
        log_file_close(&process->log);
        return MOB_IO;
    }
    process->output.data = process;
    process->output_fd = ends[1];
    if (uv_pipe_init(&supervisor->loop, &process->output, 0) == 0 &&
        uv_pipe_open(&process->output, ends[0]) == 0 &&
        uv_read_start((uv_stream_t *)&process->output, give_buffer, on_output) == 0)
        return MOB_OK;
    /* the loop is closed by the caller, who ends the program */
    return MOB_IO;
}

void process_log_close(struct process *process)
{
    if (process->output_fd < 0)
        return;
    close(process->output_fd);
    process->output_fd = -1;
    /* what is still in the pipe belongs into the file */
    uv_os_fd_t fd;
    ssize_t length;
    if (uv_fileno((uv_handle_t *)&process->output, &fd) == 0)
        while ((length = read(fd, process->supervisor->read_buffer, SUPERVISOR_READ_MAX)) > 0)
            log_file_write(&process->log, process->supervisor->read_buffer, (size_t)length);
    uv_close((uv_handle_t *)&process->output, NULL);
    log_file_close(&process->log);
}

/* JSON text of a log line: what is not plain becomes a blank. */
static void plain(const char *text, char *out, size_t capacity)
{
    size_t n = 0;
    for (; *text && n + 1 < capacity; text++)
        out[n++] = *text < ' ' || *text == '"' || *text == '\\' || *text > '~' ? ' ' : *text;
    out[n] = '\0';
}

/* It has died, and is not ready again. What is being started for the first time is not missing: nobody waits
 * for PostgreSQL and the flusher. */
static bool is_missing(const struct process *process)
{
    return process->enabled && process->state != PROCESS_READY && process->last_exit[0] != '\0';
}

static const char *overall_state(const struct supervisor *supervisor)
{
    if (supervisor->stopping)
        return "stopping";
    if (!supervisor_serves(supervisor))
        return supervisor->was_ready ? "degraded" : "starting";
    for (int i = 0; i < SUPERVISED_COUNT; i++)
        if (is_missing(&supervisor->processes[i]))
            return "degraded";
    return "ready";
}

void supervisor_write_status(struct supervisor *supervisor)
{
    static char text[SUPERVISOR_STATUS_MAX]; /* of the supervisor's only thread */
    char path[STATE_PATH_MAX], address[64];
    supervisor->stale = false;
    if (!state_dir_is(supervisor->directory, supervisor->lock_fd))
        return; /* it was removed, and what has its name may be another cluster's */
    if (state_read_line(
            state_path(supervisor->directory, STATE_ADDRESS_NAME, path), address, sizeof address) != MOB_OK)
        address[0] = '\0';
    int n = snprintf(text, sizeof text,
        "{\"state\":\"%s\",\"pid\":%d,\"started_us\":%lld,\"address\":\"%s\",\"processes\":[",
        overall_state(supervisor), (int)getpid(), (long long)(supervisor->started_wall_ns / 1000), address);
    const char *separator = "";
    for (int i = 0; i < SUPERVISED_COUNT; i++) {
        const struct process *process = &supervisor->processes[i];
        char line[SUPERVISED_LINE_MAX];
        if (!process->enabled)
            continue;
        plain(process->pid > 0 ? process->last_words : process->last_line, line, sizeof line);
        n += snprintf(text + n, sizeof text - (size_t)n,
            "%s{\"name\":\"%s\",\"state\":\"%s\",\"pid\":%d,\"start_time\":%llu,\"restarts\":%u,\"started_"
            "us\":%lld,\"last_exit\":\"%s\","
            "\"last_line\":\"%s\"}",
            separator, process_name(process->which), process_state_name(process->state), (int)process->pid,
            (unsigned long long)process->start_time, process->starts > 1 ? process->starts - 1 : 0,
            (long long)(process->started_wall_ns / 1000), process->last_exit,
            process->last_exit[0] ? line : "");
        separator = ",";
    }
    n += snprintf(text + n, sizeof text - (size_t)n, "]}\n");
    MOB_ASSERT((size_t)n < sizeof text);
    if (state_write(state_path(supervisor->directory, STATE_STATUS_NAME, path), text, (size_t)n) != MOB_OK)
        MOB_LOG_WARN("supervisor", "status_not_written", "path=%s errno=%d", path, errno);
    log_file_check(&supervisor->own_log);
}

void supervisor_notify(struct supervisor *supervisor, const char *format, ...)
{
    if (!supervisor->notice)
        return;
    char text[SUPERVISOR_NOTICE_MAX];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    supervisor->notice(supervisor->notice_arg, text);
    supervisor->notice = NULL;
}
