#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/cluster_state.h"
#include "cli/http_client.h"
#include "cli/places.h"
#include "cli/realtime.h"
#include "cli/replicas.h"
#include "cli/running_settings.h"
#include "cli/supervisor.h"
#include "common/base/clock.h"

/* A large control store reads its file first; whoever waits this long is told how to go on looking. */
enum { READY_WAIT_MS = 60000, RUNNING_POLL_MS = 10, READY_ANSWER_MS = 2000, ATTEMPTS_MAX = 50 };
/* Not an exit code: between our look and our start somebody else has started. */
#define UP_LOST_RACE ((enum cli_exit)100)

static const char notice_ready[] = "ready";
static const char notice_exists[] = "exists"; /* another supervisor has the directory */

static void print_where(const struct cli_call *call)
{
    char path[STATE_PATH_MAX], address[64];
    if (state_read_line(state_path(cli_directory(call), STATE_ADDRESS_NAME, path), address, sizeof address) !=
        MOB_OK)
        address[0] = '\0';
    state_path(cli_directory(call), STATE_TOKEN_NAME, path);
    if (call->format == CLI_NAME)
        printf("%s\n", address);
    else if (call->format == CLI_TABLE)
        printf("gateway  http://%s\ntoken    %s\n", address, path);
    else
        printf("{\"address\":\"%s\",\"token_file\":\"%s\"}\n", address, path);
    fflush(stdout);
}

/* Its word alone is not enough: a supervisor that is just being killed has left it behind, and so its gateway
 * may be for a moment, which ends with it. */
static bool gateway_is_ready(const char *address)
{
    static struct http_response response;
    struct http_request request = {
        .address = address, .method = "GET", .path = "/readyz", .timeout_ns = READY_ANSWER_MS * MOB_MS};
    bool ready = http_exchange(&request, &response) == MOB_OK && response.status == 200;
    http_response_fini(&response);
    return ready;
}

/* Flags that change nothing, since the cluster runs already with something else. */
static void say_what_is_not_in_force(const struct cli_call *call)
{
    static struct mob_settings running; /* some KiB */
    bool known[MOB_SETTINGS_COUNT];
    if (running_settings_read(cli_directory(call), &running, known) != MOB_OK)
        return;
    for (int id = 0; id < MOB_SETTINGS_COUNT; id++) {
        const struct mob_setting_value *asked = &call->settings.values[id], *is = &running.values[id];
        if (asked->source == MOB_SOURCE_FLAG && known[id] && strcmp(asked->text, is->text) != 0)
            cli_say("--%s %s is not in force, it runs with %s: mobula down, then up",
                mob_setting_row((enum mob_setting)id)->name, asked->text, is->text[0] ? is->text : "none");
    }
}

/* Somebody runs in the directory already: that is fine, once it is ready. False: it has ended meanwhile, so
 * start. */
static bool join_running(const struct cli_call *call, enum cli_exit *exit_out)
{
    static struct cluster_state state;
    int64_t deadline_ns = mob_now() + READY_WAIT_MS * MOB_MS;
    do {
        /* Degraded may be only PostgreSQL; the gateway knows whether work is taken. */
        bool serves = cluster_state_read(cli_directory(call), &state) == MOB_OK &&
            (strcmp(state.state, "ready") == 0 || strcmp(state.state, "degraded") == 0);
        pid_t supervisor = state_dir_supervisor(cli_directory(call));
        if (serves && gateway_is_ready(state.address) && supervisor != 0 && !state_process_ends(supervisor)) {
            cli_say("it runs already in %s", cli_directory(call));
            say_what_is_not_in_force(call);
            print_where(call);
            *exit_out = CLI_OK;
            return true;
        }
        if (supervisor == 0)
            return false;
        poll(NULL, 0, RUNNING_POLL_MS);
    } while (mob_now() < deadline_ns);
    cli_say("it runs already in %s, but is not ready; see mobula status", cli_directory(call));
    *exit_out = CLI_TIMEOUT;
    return true;
}

/* Cleans, runs and cleans. The lock is held by being open. */
static enum cli_exit supervise(const struct cli_call *call, const struct supervisor_options *options)
{
    char path[STATE_PATH_MAX], error[STATE_ERROR_MAX];
    cluster_end_leftovers(cli_directory(call));
    state_dir_clean(cli_directory(call));
    enum mob_status status = state_dir_init(cli_directory(call), error);
    if (status == MOB_OK)
        status = state_dir_set_shards(cli_directory(call),
            (uint32_t)mob_setting_number(options->settings, MOB_SETTING_GCS_SHARDS), error);
    if (status == MOB_OK && running_settings_write(options->settings) != MOB_OK)
        cli_say("%s/%s cannot be written: `mobula config` will not know what runs", cli_directory(call),
            STATE_SETTINGS_NAME);
    if (status != MOB_OK)
        options->notice(options->arg, error);
    else
        status = supervisor_run(options);
    if (state_dir_is(cli_directory(call), options->lock_fd)) {
        unlink(state_path(cli_directory(call), STATE_SETTINGS_NAME, path));
        unlink(state_path(cli_directory(call), STATE_PID_NAME, path));
    }
    return status == MOB_OK ? CLI_OK : CLI_FAILED;
}

static void print_notice(void *arg, const char *text)
{
    if (strcmp(text, notice_ready) == 0)
        print_where(arg);
    else
        cli_say("%s", text);
}

static enum cli_exit stay(struct cli_call *call)
{
    char error[STATE_ERROR_MAX];
    int lock;
    enum mob_status status = state_dir_lock(cli_directory(call), &lock, error);
    if (status == MOB_EXISTS)
        return UP_LOST_RACE;
    if (status != MOB_OK) {
        cli_say("%s", error);
        return CLI_FAILED;
    }
    struct supervisor_options options = {
        .settings = &call->settings, .notice = print_notice, .arg = call, .lock_fd = lock};
    return supervise(call, &options);
}

static void send_notice(void *arg, const char *text)
{
    int *fd = arg;
    ssize_t written = write(*fd, text, strlen(text));
    (void)written; /* whoever started us may have gone */
    close(*fd);
    *fd = -1;
}

/* The background process: its own session, its log in a file, nothing of the terminal left. */
_Noreturn static void detached(struct cli_call *call, int notice_fd)
{
    char error[STATE_ERROR_MAX], path[STATE_PATH_MAX];
    struct log_file log;
    int lock, null = open("/dev/null", O_RDWR | O_CLOEXEC);
    setsid();
    enum mob_status status = state_dir_lock(cli_directory(call), &lock, error);
    if (status != MOB_OK) {
        send_notice(&notice_fd, status == MOB_EXISTS ? notice_exists : error);
        exit(CLI_FAILED);
    }
    status = log_file_open(&log, state_path(cli_directory(call), STATE_LOGS_NAME "/supervisor.log", path),
        (uint64_t)mob_setting_number(&call->settings, MOB_SETTING_LOG_FILE_BYTES),
        (uint32_t)mob_setting_number(&call->settings, MOB_SETTING_LOG_FILES));
    if (status != MOB_OK || dup2(null, 0) < 0 || dup2(null, 1) < 0 || dup2(log.fd, 2) < 0) {
        send_notice(&notice_fd, "cannot write its log");
        exit(CLI_FAILED);
    }
    close(log.fd);
    log.fd = STDERR_FILENO;
    if (chdir("/") != 0) /* so that no file system is held */
        exit(CLI_FAILED);
    struct supervisor_options options = {.settings = &call->settings,
        .notice = send_notice,
        .arg = &notice_fd,
        .lock_fd = lock,
        .own_log = &log};
    exit((int)supervise(call, &options));
}

/* Reads the background process' notice: one text, then the end of the file. */
static enum cli_exit await_notice(const struct cli_call *call, int fd)
{
    char text[SUPERVISOR_NOTICE_MAX];
    size_t length = 0;
    int64_t deadline_ns = mob_now() + READY_WAIT_MS * MOB_MS;
    for (;;) {
        struct pollfd readable = {.fd = fd, .events = POLLIN};
        int64_t left_ms = (deadline_ns - mob_now()) / MOB_MS;
        if (left_ms <= 0 || poll(&readable, 1, (int)left_ms) == 0) {
            cli_say("not ready after %d s, and still starting; see mobula status", READY_WAIT_MS / 1000);
            return CLI_TIMEOUT;
        }
        ssize_t got = read(fd, text + length, sizeof text - 1 - length);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            break;
        length += (size_t)got;
    }
    text[length] = '\0';
    if (strcmp(text, notice_ready) == 0) {
        print_where(call);
        return CLI_OK;
    }
    if (strcmp(text, notice_exists) == 0)
        return UP_LOST_RACE;
    if (length == 0)
        snprintf(text, sizeof text, "the supervisor has died; see %.400s/logs/supervisor.log",
            cli_directory(call));
    cli_say("%s", text);
    return CLI_FAILED;
}

static enum cli_exit detach(struct cli_call *call)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) {
        cli_say("no pipe: %s", strerror(errno));
        return CLI_FAILED;
    }
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        close(ends[0]);
        detached(call, ends[1]);
    }
    close(ends[1]);
    if (pid < 0) {
        cli_say("no process: %s", strerror(errno));
        return CLI_FAILED;
    }
    return await_notice(call, ends[0]);
}

/* Before a start that may wait for it. */
static void say_what_is_lost(const struct cli_call *call)
{
    char path[STATE_PATH_MAX];
    bool waits = strcmp(mob_setting_text(&call->settings, MOB_SETTING_GCS_START_WITHOUT_ALL), "on") != 0;
    uint32_t shards = (uint32_t)mob_setting_number(&call->settings, MOB_SETTING_GCS_SHARDS);
    uint32_t shard;
    if (!replicas_lost(cli_directory(call), shards, path))
        return;
    if (replicas_lost_all(cli_directory(call), shards, &shard) && waits)
        cli_say(
            "no member of shard %u of the control store has data (%s), so nothing starts until one of them "
            "has it again: put back its appendonlydir. If all of it is lost for good: "
            "--gcs-start-without-all on, which begins with nothing but what PostgreSQL has",
            shard, path);
    else if (waits)
        cli_say("%s has no data, though the control store had a member there: if only that one may have what "
                "was written last, nothing starts until it is back. If it is lost for good: "
                "--gcs-start-without-all on",
            path);
}

/* Heartbeats of a chain without it are slower, so that a busy machine is not taken for a dead member. */
static void say_what_realtime_is(const struct cli_call *call)
{
    struct realtime_times slow = realtime_times(false), fast = realtime_times(true);
    if (mob_setting_number(&call->settings, MOB_SETTING_GCS_REPLICAS) > 1 && !realtime_is_allowed())
        cli_say("real-time priority is not allowed here, so the control store's lease is %u ms instead of %u "
                "and a dead member is suspected after %u ms instead of %u; mobula doctor says what to do",
            slow.lease_ms, fast.lease_ms, slow.suspicion_ms, fast.suspicion_ms);
}

enum cli_exit cmd_up(struct cli_call *call)
{
    char error[STATE_ERROR_MAX];
    if (cli_option(call, "detach") && cli_option(call, "foreground")) {
        cli_say("--detach and --foreground exclude each other");
        return CLI_USAGE;
    }
    if (cli_option(call, "no-postgres") &&
        mob_settings_set(&call->settings, "postgres", "off", MOB_SOURCE_FLAG) != MOB_OK)
        return CLI_USAGE;
    for (int attempt = 0; attempt < ATTEMPTS_MAX; attempt++) {
        enum cli_exit exit_code;
        if (state_dir_supervisor(cli_directory(call)) != 0 && join_running(call, &exit_code))
            return exit_code;
        if (places_check(&call->settings, error) != MOB_OK ||
            replicas_choose(&call->settings, error) != MOB_OK ||
            places_make(&call->settings, error) != MOB_OK) {
            cli_say("%s", error);
            return CLI_USAGE;
        }
        say_what_is_lost(call);
        if (attempt == 0)
            say_what_realtime_is(call);
        exit_code = cli_option(call, "detach") ? detach(call) : stay(call);
        if (exit_code != UP_LOST_RACE)
            return exit_code;
        poll(NULL, 0, RUNNING_POLL_MS); /* the other one has the lock, and writes its name next */
    }
    if (state_dir_supervisor(cli_directory(call)) == 0)
        cli_say("a supervisor holds %s, but does not write its supervisor.pid: it is stopped, or the disk is "
                "full; `ps ax | grep 'mobula up'` names it",
            cli_directory(call));
    else
        cli_say("others start and stop in %s all the time", cli_directory(call));
    return CLI_CONFLICT;
}
