#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/supervisor.h"
#include "common/base/clock.h"
#include "common/base/id.h"
#include "common/base/log.h"
#include "common/base/log_value.h"
#include "gcs/shard/redis_conf.h"

enum mob_status supervisor_find_binaries(struct supervisor *supervisor)
{
    char path[STATE_PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", supervisor->binaries, sizeof supervisor->binaries - 1);
    if (length <= 0)
        return MOB_IO;
    supervisor->binaries[length] = '\0';
    *strrchr(supervisor->binaries, '/') = '\0';
    for (int i = 0; i < SUPERVISED_COUNT; i++) {
        if (!supervisor->processes[i].enabled || process_find_binary(supervisor, (enum supervised)i, path))
            continue;
        MOB_LOG_ERROR("supervisor", "no_program", "path=%s", path);
        snprintf(supervisor->failure, sizeof supervisor->failure, "there is no program %s%s", path,
            i == SUPERVISED_POSTGRES ? "; install it, or use --no-postgres" : "");
        return MOB_NOT_FOUND;
    }
    return MOB_OK;
}

/* Which programs there are, and as whom they run. */
static enum mob_status find_users(struct supervisor *supervisor)
{
    for (int i = 0; i < SUPERVISED_COUNT; i++) {
        struct process *process = &supervisor->processes[i];
        process->user = (struct system_user){.uid = geteuid(), .gid = getegid()};
        process->enabled = true;
    }
    struct process *redis = &supervisor->processes[SUPERVISED_REDIS],
                   *postgres = &supervisor->processes[SUPERVISED_POSTGRES];
    if (system_user_find("redis", &redis->user) != MOB_OK)
        MOB_LOG_WARN("supervisor", "no_system_user", "user=redis process=redis as=root");
    postgres->enabled = strcmp(mob_setting_text(supervisor->settings, MOB_SETTING_POSTGRES), "on") == 0;
    for (int i = SUPERVISED_FLUSH; i < SUPERVISED_REDIS; i++)
        supervisor->processes[i].enabled = postgres->enabled;
    chain_choose(supervisor);
    if (!postgres->enabled || system_user_find("postgres", &postgres->user) == MOB_OK)
        return MOB_OK;
    snprintf(supervisor->failure, sizeof supervisor->failure,
        "PostgreSQL refuses to run as root, and there is no user postgres: install it, or use --no-postgres");
    return MOB_NOT_FOUND;
}

static void on_child(uv_signal_t *handle, int number)
{
    (void)number;
    supervisor_reap(handle->data);
    supervisor_note_stopped(handle->data);
}

static void on_stop(uv_signal_t *handle, int number)
{
    supervisor_stop(handle->data, number);
}

static void ignore_signal(uv_signal_t *handle, int number)
{
    (void)handle;
    (void)number;
}

/* `path`: the folder, to say so when it fails. */
static enum mob_status configure_redis(
    struct supervisor *supervisor, enum supervised which, char path[STATE_PATH_MAX])
{
    char folder[STATE_NAME_MAX];
    const struct system_user *redis = &supervisor->processes[which].user;
    state_path(supervisor->directory, process_file(which, STATE_GCS_DIR_NAME, "", folder), path);
    if (mkdir(path, 0700) != 0 && errno != EEXIST)
        return MOB_IO;
    enum mob_status status = mob_redis_conf_write_seen_as(path, redis->other ? SUPERVISED_DIRECTORY : path);
    return status == MOB_OK ? system_user_own_tree(supervisor->directory, folder, redis) : status;
}

/* What is made for each start, or must be there. */
static enum mob_status write_configuration(struct supervisor *supervisor)
{
    char path[STATE_PATH_MAX];
    uint8_t id[sizeof(struct mob_cluster_id)];
    FILE *file = fopen(state_path(supervisor->directory, STATE_CLUSTER_ID_NAME, path), "re");
    size_t length = file ? fread(id, 1, sizeof id, file) : 0;
    if (file)
        fclose(file);
    for (size_t i = 0; i < length; i++)
        snprintf(supervisor->cluster + 2 * i, 3, "%02x", id[i]);
    if (length != sizeof id) {
        snprintf(supervisor->failure, sizeof supervisor->failure, "cannot read %s", path);
        return MOB_IO;
    }
    enum mob_status status = MOB_OK;
    for (int i = SUPERVISED_REDIS; i < SUPERVISED_GCS && status == MOB_OK; i++)
        if (supervisor->processes[i].enabled)
            status = configure_redis(supervisor, (enum supervised)i, path);
    if (status != MOB_OK)
        snprintf(supervisor->failure, sizeof supervisor->failure, "cannot configure Redis in %s: %s", path,
            status == MOB_INVALID ? "its configuration takes only plain characters in a path"
                                  : mob_status_text(status));
    return status;
}

/* Later than the removal: whoever removes the whole directory is not to find a new file in it. */
enum { MENDED_AFTER_MS = 1000 };

static void mend_directory(uv_timer_t *timer)
{
    struct supervisor *supervisor = timer->data;
    if (!state_dir_is(supervisor->directory, supervisor->lock_fd)) {
        MOB_LOG_ERROR("supervisor", "directory_removed", "path=%s then=\"the cluster ends\"",
            MOB_LOG_VALUE(supervisor->directory));
        supervisor_stop(supervisor, SIGTERM);
        return;
    }
    if (state_dir_supervisor(supervisor->directory) == getpid())
        return;
    enum mob_status status = state_dir_write_pid(supervisor->directory);
    MOB_LOG_WARN("supervisor", "pid_file_written_again", "status=%s", mob_status_code(status));
    if (status != MOB_OK) /* the disk is full, perhaps */
        uv_timer_start(timer, mend_directory, MENDED_AFTER_MS, 0);
}

static void on_file(uv_fs_event_t *handle, const char *name, int events, int status)
{
    struct supervisor *supervisor = handle->data;
    uv_timer_t *timer = &supervisor->mending;
    (void)events;
    if (status != 0 || uv_is_active((uv_handle_t *)timer))
        return;
    bool pid_file = name && strcmp(name, STATE_PID_NAME) == 0;
    if ((pid_file && state_dir_supervisor(supervisor->directory) != getpid()) ||
        !state_dir_is(supervisor->directory, supervisor->lock_fd))
        uv_timer_start(timer, mend_directory, MENDED_AFTER_MS, 0);
}

static void watch_directory(struct supervisor *supervisor)
{
    uv_timer_init(&supervisor->loop, &supervisor->mending);
    supervisor->mending.data = supervisor;
    uv_fs_event_init(&supervisor->loop, &supervisor->files);
    supervisor->files.data = supervisor;
    int error = uv_fs_event_start(&supervisor->files, on_file, supervisor->directory, 0);
    if (error != 0)
        MOB_LOG_WARN("supervisor", "directory_not_watched", "why=\"%s\"", uv_strerror(error));
}

/* Signals, logs and limits. What it has opened by the time that it fails is closed by fini. */
static enum mob_status prepare(struct supervisor *supervisor, const struct supervisor_options *options)
{
    static const int numbers[] = {SIGCHLD, SIGTERM, SIGINT, SIGHUP};
    static const uv_signal_cb handlers[] = {on_child, on_stop, on_stop, ignore_signal};
    signal(SIGPIPE, SIG_IGN);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        uv_signal_init(&supervisor->loop, &supervisor->signals[i]);
        supervisor->signals[i].data = supervisor;
        /* a terminal that closes ends a supervisor in the foreground, and not one in the background */
        uv_signal_start(&supervisor->signals[i],
            numbers[i] == SIGHUP && !options->own_log ? on_stop : handlers[i], numbers[i]);
    }
    watch_directory(supervisor);
    uv_timer_init(&supervisor->loop, &supervisor->watch);
    supervisor->watch.data = supervisor;
    supervisor->probe.arg = supervisor;
    for (int i = 0; i < SUPERVISED_COUNT; i++)
        supervisor->processes[i].output_fd = -1;
    for (int i = 0; i < SUPERVISED_COUNT; i++) {
        struct process *process = &supervisor->processes[i];
        uv_timer_init(&supervisor->loop, &process->timer);
        process->timer.data = process;
        if (process->enabled && process_log_open(process) != MOB_OK)
            return MOB_IO;
    }
    /* Thousands of parked connections each hold a descriptor; the children inherit this. */
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < files.rlim_max) {
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
    }
    if (chain_prepare(supervisor) != MOB_OK)
        return MOB_IO;
    setenv("MOBULA_LOG", mob_setting_text(supervisor->settings, MOB_SETTING_LOG), 1);
    return MOB_OK;
}

static void close_handle(uv_handle_t *handle, void *arg)
{
    (void)arg;
    if (!uv_is_closing(handle))
        uv_close(handle, NULL);
}

/* Everything has stopped, or nothing has been started. */
static void fini(struct supervisor *supervisor)
{
    for (int i = 0; i < SUPERVISED_COUNT; i++)
        process_log_close(&supervisor->processes[i]);
    node_seal_stop(&supervisor->seal);
    chain_fini(supervisor);
    uv_walk(&supervisor->loop, close_handle, NULL);
    uv_run(&supervisor->loop, UV_RUN_DEFAULT);
    int status = uv_loop_close(&supervisor->loop);
    MOB_ASSERT(status == 0);
    if (state_dir_is(supervisor->directory, supervisor->lock_fd)) /* else it is another cluster's */
        state_dir_clean(supervisor->directory);
}

enum mob_status supervisor_run(const struct supervisor_options *options)
{
    struct supervisor *supervisor = calloc(1, sizeof *supervisor);
    if (!supervisor)
        return MOB_NO_MEMORY;
    supervisor->settings = options->settings;
    supervisor->directory = mob_setting_text(options->settings, MOB_SETTING_DIR);
    supervisor->lock_fd = options->lock_fd;
    supervisor->notice = options->notice;
    supervisor->notice_arg = options->arg;
    supervisor->started_ns = mob_now();
    supervisor->started_wall_ns = mob_wall_now();
    snprintf(supervisor->listen, sizeof supervisor->listen, "%s",
        mob_setting_text(options->settings, MOB_SETTING_LISTEN));
    supervisor->own_log = options->own_log ? *options->own_log : (struct log_file){.fd = -1};
    for (int i = 0; i < SUPERVISED_COUNT; i++) {
        supervisor->processes[i].supervisor = supervisor;
        supervisor->processes[i].which = (enum supervised)i;
        supervisor->processes[i].backoff.longest_ms =
            (uint32_t)mob_setting_number(supervisor->settings, MOB_SETTING_RESTART_PAUSE_MAX_MS);
    }
    enum mob_status status = find_users(supervisor);
    if (status == MOB_OK)
        status = supervisor_find_binaries(supervisor);
    if (status == MOB_OK)
        status = write_configuration(supervisor);
    if (status == MOB_OK && uv_loop_init(&supervisor->loop) == 0) {
        status = prepare(supervisor, options);
        for (int i = 0; i < SUPERVISED_COUNT && status == MOB_OK; i++)
            if (supervisor->processes[i].enabled &&
                process_kind((enum supervised)i) != SUPERVISED_FLUSH) /* that has its time */
                process_start(&supervisor->processes[i]);
        if (status == MOB_OK)
            uv_run(&supervisor->loop, UV_RUN_DEFAULT);
        fini(supervisor);
    }
    if (supervisor->failed)
        status = MOB_UNAVAILABLE;
    /* After the fact, so that whoever hears it can start again at once. */
    supervisor_notify(
        supervisor, "%s", supervisor->failure[0] ? supervisor->failure : mob_status_text(status));
    free(supervisor);
    return status;
}
