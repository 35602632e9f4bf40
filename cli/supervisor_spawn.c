#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/realtime.h"
#include "cli/supervisor.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/process.h"
#include "common/settings/settings_forms.h"
#include "gcs/flush/postgres_conf.h"
#include "gcs/shard/redis_conf.h"

/* Of each kind: binary; what its files are named after; what it makes when it is ready, and the directory
 * that is its own, as endings of that name. */
static const struct {
    const char *name, *binary, *file, *made, *directory;
} programs[SUPERVISED_COUNT] = {
    [SUPERVISED_POSTGRES] = {"postgres", "postgres", STATE_POSTGRES_DIR_NAME, NULL, ""},
    [SUPERVISED_FLUSH] = {"flush", "mobula-flush", "flush", ".ready", NULL},
    [SUPERVISED_REDIS] = {"redis", "redis-server", "gcs", "/redis.sock", ""},
    [SUPERVISED_GCS] = {"gcs", "mobula-gcs", "gcs", ".sock", ""},
    [SUPERVISED_MASTER] = {"master", "mobula-master", "master", ".sock", NULL},
    [SUPERVISED_NODE] = {"node", "mobula-node", "node", ".sock", NULL},
    [SUPERVISED_GATEWAY] = {"gateway", "mobula-gateway", "gateway", ".addr", NULL},
};

static char *made_by(enum supervised which, char out[STATE_NAME_MAX])
{
    enum supervised kind = process_kind(which);
    return process_file(which, programs[kind].file, programs[kind].made, out);
}

static char *directory_of(enum supervised which, char out[STATE_NAME_MAX])
{
    enum supervised kind = process_kind(which);
    return process_file(which, programs[kind].file, programs[kind].directory, out);
}

#define OWN_DIRECTORY_FD 3
#define OWN_DIRECTORY SUPERVISED_DIRECTORY

enum { ARGUMENTS_MAX = 64, ARGUMENT_BYTES_MAX = 8192 };

/* argv of fixed bounds. */
struct arguments {
    char *items[ARGUMENTS_MAX + 1];
    int count;
    char bytes[ARGUMENT_BYTES_MAX];
    size_t used;
};

__attribute__((format(printf, 2, 3))) static void add(struct arguments *arguments, const char *format, ...)
{
    MOB_ASSERT(arguments->count < ARGUMENTS_MAX);
    char *at = arguments->bytes + arguments->used;
    size_t left = sizeof arguments->bytes - arguments->used;
    va_list list;
    va_start(list, format);
    int length = vsnprintf(at, left, format, list);
    va_end(list);
    MOB_ASSERT(length >= 0 && (size_t)length < left); /* the bounds of the settings add up to less */
    arguments->items[arguments->count++] = at;
    arguments->items[arguments->count] = NULL;
    arguments->used += (size_t)length + 1;
}

/* --name value for each setting that this program knows, except one: what it gets is what `mobula config`
 * shows. */
static void add_settings(
    struct arguments *arguments, const struct mob_settings *settings, unsigned user, enum mob_setting except)
{
    for (int i = 0; i < MOB_SETTINGS_COUNT; i++) {
        const struct mob_setting_row *row = mob_setting_row((enum mob_setting)i);
        if (!(row->users & user) || i == (int)except)
            continue;
        add(arguments, "--%s", row->name);
        add(arguments, "%s", mob_setting_text(settings, (enum mob_setting)i));
    }
}

static void add_path(struct arguments *arguments, const char *flag, const char *directory, const char *name)
{
    add(arguments, "%s", flag);
    add(arguments, "%s/%s", directory, name);
}

/* Where members have cores of their own, their Redis leaves those to them. */
static void redis_cpus(const struct process *process, struct arguments *arguments)
{
    cpu_set_t members;
    char message[MOB_FORM_MESSAGE_MAX], others[MOB_CPUS_TEXT_MAX];
    const char *given = mob_setting_text(process->supervisor->settings, MOB_SETTING_GCS_CPUS);
    if (mob_cpus_parse(given, &members, message) != MOB_OK)
        return; /* refused before anything was started */
    mob_cpus_others(&members, others);
    if (others[0] == '\0')
        return;
    add(arguments, "--server_cpulist");
    add(arguments, "%s", others);
}

static void redis_arguments(const struct process *process, struct arguments *arguments)
{
    char own[STATE_NAME_MAX];
    if (process->user.other)
        add(arguments, OWN_DIRECTORY "/" MOB_REDIS_CONF_NAME);
    else
        add(arguments, "%s/%s/" MOB_REDIS_CONF_NAME, process->supervisor->directory,
            directory_of(process->which, own));
    redis_cpus(process, arguments);
}

static void initdb_arguments(struct arguments *arguments)
{
    static const char *const flags[] = {
        "-D", OWN_DIRECTORY, "-U", MOB_POSTGRES_ROLE, "-A", "peer", "-E", "UTF8", "--locale=C"};
    for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++)
        add(arguments, "%s", flags[i]);
}

static void postgres_arguments(const struct process *process, struct arguments *arguments)
{
    if (process->state == PROCESS_PREPARING) {
        initdb_arguments(arguments);
        return;
    }
    add(arguments, "-D");
    add(arguments, OWN_DIRECTORY);
    add(arguments, "-c");
    add(arguments, "config_file=" OWN_DIRECTORY "/" MOB_POSTGRES_CONF_NAME);
}

/* Members and master agree on these; short ones need real-time priority for the heartbeats. */
static void add_times(const struct supervisor *supervisor, struct arguments *arguments)
{
    struct realtime_times times = realtime_times(supervisor->realtime);
    add(arguments, "--lease-ms");
    add(arguments, "%u", times.lease_ms);
    add(arguments, "--suspicion-ms");
    add(arguments, "%u", times.suspicion_ms);
}

/* A store of one shard is started as one that knows of no others. */
static void add_shard(const struct process *process, struct arguments *arguments)
{
    if (process->supervisor->shards == 1)
        return;
    add(arguments, "--shard");
    add(arguments, "%u", process_shard(process->which));
}

static void add_chain(const struct process *process, struct arguments *arguments)
{
    const char *directory = process->supervisor->directory;
    char name[STATE_NAME_MAX];
    state_member_name("master", process_shard(process->which), 0, ".sock", name);
    add_path(arguments, "--masters", directory, name);
    add_path(arguments, "--link", directory, process_file(process->which, "gcs", ".link", name));
    add_times(process->supervisor, arguments);
}

static void master_arguments(const struct process *process, struct arguments *arguments)
{
    const struct supervisor *supervisor = process->supervisor;
    const char *directory = supervisor->directory;
    char name[STATE_NAME_MAX];
    add_path(arguments, "--listen", directory, made_by(process->which, name));
    MOB_ASSERT(supervisor->processes[SUPERVISED_POSTGRES].enabled); /* replicas_choose */
    add_path(arguments, "--postgres", directory, STATE_POSTGRES_DIR_NAME);
    add_path(arguments, "--replace-socket", directory, STATE_REPLACE_SOCKET_NAME);
    add(arguments, "--gcs-socket");
    add(arguments, "%s", supervisor->shard_addresses[process_shard(process->which)]);
    add(arguments, "--shards");
    add(arguments, "%u", supervisor->shards);
    add_path(arguments, "--secret-file", directory, STATE_SECRET_NAME);
    add(arguments, "--cluster");
    add(arguments, "%s", supervisor->cluster);
    add(arguments, "--replicas");
    add(arguments, "%u", supervisor->replicas);
    if (strcmp(mob_setting_text(supervisor->settings, MOB_SETTING_GCS_START_WITHOUT_ALL), "on") == 0)
        add(arguments, "--start-without-all");
    add_shard(process, arguments);
    add_times(supervisor, arguments);
}

static void gcs_arguments(const struct process *process, struct arguments *arguments)
{
    const struct supervisor *supervisor = process->supervisor;
    const char *directory = supervisor->directory;
    char own[STATE_NAME_MAX], name[STATE_NAME_MAX];
    directory_of(process->which, own);
    add_path(arguments, "--socket", directory, made_by(process->which, name));
    add(arguments, "--redis");
    add(arguments, "%s/%s/" MOB_REDIS_SOCKET_NAME, directory, own);
    add_path(arguments, "--redis-dir", directory, own);
    add(arguments, "--redis-user");
    add(arguments, MOB_REDIS_USER);
    add(arguments, "--redis-password-file");
    add(arguments, "%s/%s/" MOB_REDIS_PASSWORD_NAME, directory, own);
    add(arguments, "--cluster");
    add(arguments, "%s", supervisor->cluster);
    add_path(arguments, "--secret-file", directory, STATE_SECRET_NAME);
    add_shard(process, arguments);
    if (supervisor->replicas > 1)
        add_chain(process, arguments);
    add_settings(arguments, supervisor->settings, MOB_SETTINGS_GCS, MOB_SETTINGS_COUNT);
}

static void flush_arguments(const struct process *process, struct arguments *arguments)
{
    const struct supervisor *supervisor = process->supervisor;
    const char *directory = supervisor->directory;
    char name[STATE_NAME_MAX];
    uint32_t shard = process_shard(process->which);
    add_settings(arguments, supervisor->settings, MOB_SETTINGS_FLUSH, MOB_SETTINGS_COUNT);
    add(arguments, "--gcs-socket");
    add(arguments, "%s", supervisor->shard_addresses[shard]);
    if (supervisor->shards > 1) {
        add(arguments, "--all-shards");
        add(arguments, "%s", supervisor->gcs_addresses);
    }
    add_shard(process, arguments);
    add_path(arguments, "--postgres-dir", directory, STATE_POSTGRES_DIR_NAME);
    add_path(arguments, "--ready-file", directory, made_by(process->which, name));
    add(arguments, "--cluster");
    add(arguments, "%s", supervisor->cluster);
    add_path(arguments, "--secret-file", directory, STATE_SECRET_NAME);
}

static void node_arguments(const struct process *process, struct arguments *arguments)
{
    const struct supervisor *supervisor = process->supervisor;
    add_settings(arguments, supervisor->settings, MOB_SETTINGS_NODE, MOB_SETTINGS_COUNT);
    add(arguments, "--gcs-socket");
    add(arguments, "%s", supervisor->gcs_addresses);
    add_path(arguments, "--worker-binary", supervisor->binaries, "mobula-worker");
    if (chain_has_masters(supervisor)) {
        add(arguments, "--masters");
        add(arguments, "%s", supervisor->masters);
    }
}

static void gateway_arguments(const struct process *process, struct arguments *arguments)
{
    const struct supervisor *supervisor = process->supervisor;
    const char *directory = supervisor->directory;
    add_settings(arguments, supervisor->settings, MOB_SETTINGS_GATEWAY, MOB_SETTING_LISTEN);
    add(arguments, "--listen"); /* with the port that it had before */
    add(arguments, "%s", supervisor->listen);
    add_path(arguments, "--node-socket", directory, STATE_NODE_SOCKET_NAME);
    add(arguments, "--gcs-socket");
    add(arguments, "%s", supervisor->gcs_addresses);
    add_path(arguments, "--token-file", directory, STATE_TOKEN_NAME);
}

const char *process_name(enum supervised which)
{
    static char names[SUPERVISED_COUNT][STATE_NAME_MAX]; /* of the supervisor's only thread */
    if (names[which][0] == '\0')
        process_file(which, programs[process_kind(which)].name, "", names[which]);
    return names[which];
}

bool process_made_its_file(const struct process *process)
{
    char path[STATE_PATH_MAX], name[STATE_NAME_MAX];
    struct stat st;
    if (process->which == SUPERVISED_POSTGRES)
        return postgres_is_ready(process);
    return stat(state_path(process->supervisor->directory, made_by(process->which, name), path), &st) == 0 &&
        (S_ISSOCK(st.st_mode) || st.st_size > 0);
}

void process_remove_its_file(const struct process *process)
{
    char path[STATE_PATH_MAX], name[STATE_NAME_MAX];
    if (programs[process_kind(process->which)].made != NULL)
        unlink(state_path(process->supervisor->directory, made_by(process->which, name), path));
}

bool process_find_binary(
    const struct supervisor *supervisor, enum supervised which, char path[STATE_PATH_MAX])
{
    const char *binary = programs[process_kind(which)].binary;
    if (which == SUPERVISED_POSTGRES) {
        bool preparing = supervisor->processes[which].state == PROCESS_PREPARING;
        return postgres_find(supervisor, preparing ? "initdb" : binary, path);
    }
    if (!process_is_redis(which)) {
        snprintf(path, STATE_PATH_MAX, "%s/%s", supervisor->binaries, binary);
        return access(path, X_OK) == 0;
    }
    const char *at = getenv("PATH");
    for (at = at ? at : "/usr/local/bin:/usr/bin:/bin"; at;
         at = strchr(at, ':') ? strchr(at, ':') + 1 : NULL) {
        size_t length = strcspn(at, ":");
        snprintf(path, STATE_PATH_MAX, "%.*s/%s", (int)length, at, binary);
        if (length > 0 && access(path, X_OK) == 0)
            return true;
    }
    snprintf(path, STATE_PATH_MAX, "%s", binary);
    return false;
}

/* What the child becomes. */
struct launch {
    char *const *argv;
    const struct system_user *user;
    int output;
    int directory; /* its own, as OWN_DIRECTORY_FD; -1 = none */
    pid_t parent;
};

/* In the child, between fork and exec: only async-signal-safe calls. */
_Noreturn static void become(const struct launch *launch)
{
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    for (int number = 1; number < 32; number++)
        signal(number, SIG_DFL);
    setpgid(0, 0);
    bool other = system_user_become(launch->user);
    /* After that, which would undo it. The parent may have died before this line: then nobody would send the
     * signal. */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (!other || getppid() != launch->parent || null < 0 || dup2(null, 0) < 0 ||
        dup2(launch->output, 1) < 0 || dup2(launch->output, 2) < 0)
        _exit(127);
    bool placed = launch->directory < 0 || dup2(launch->directory, OWN_DIRECTORY_FD) == OWN_DIRECTORY_FD;
    if (!placed)
        _exit(127);
    close_range(launch->directory < 0 ? OWN_DIRECTORY_FD : OWN_DIRECTORY_FD + 1, ~0u, 0);
    execv(launch->argv[0], launch->argv);
    static const char text[] = "cannot be executed\n";
    ssize_t written = write(2, text, sizeof text - 1);
    (void)written;
    _exit(127);
}

/* A member only reads what is in its Redis' folder. */
static bool has_own_directory(enum supervised which)
{
    return programs[process_kind(which)].directory != NULL && !process_is_gcs(which);
}

/* -1 when the program has none. A descriptor below 4 could be overwritten on its way to its place. */
static int own_directory(const struct process *process)
{
    char path[STATE_PATH_MAX], own[STATE_NAME_MAX];
    if (!has_own_directory(process->which))
        return -1;
    const char *name =
        process->state == PROCESS_PREPARING ? STATE_POSTGRES_NEW_DIR_NAME : directory_of(process->which, own);
    int fd = open(state_path(process->supervisor->directory, name, path), O_PATH | O_DIRECTORY | O_CLOEXEC);
    int high = fcntl(fd, F_DUPFD_CLOEXEC, OWN_DIRECTORY_FD + 1);
    if (fd >= 0)
        close(fd);
    return high;
}

static enum mob_status fork_and_exec(struct process *process, char *const *argv)
{
    struct launch launch = {.argv = argv,
        .user = &process->user,
        .output = process->output_fd,
        .directory = own_directory(process),
        .parent = getpid()};
    if (launch.directory < 0 && has_own_directory(process->which))
        return MOB_IO;
    pid_t pid = fork();
    if (pid == 0)
        become(&launch);
    if (launch.directory >= 0)
        close(launch.directory);
    if (pid < 0)
        return MOB_IO;
    setpgid(pid, pid); /* here too: whoever comes first */
    process->pid = pid;
    return MOB_OK;
}

enum mob_status process_spawn(struct process *process)
{
    struct supervisor *supervisor = process->supervisor;
    char path[STATE_PATH_MAX];
    struct arguments arguments = {.count = 0};
    static void (*const fill[SUPERVISED_COUNT])(const struct process *, struct arguments *) = {
        [SUPERVISED_POSTGRES] = postgres_arguments,
        [SUPERVISED_FLUSH] = flush_arguments,
        [SUPERVISED_REDIS] = redis_arguments,
        [SUPERVISED_GCS] = gcs_arguments,
        [SUPERVISED_MASTER] = master_arguments,
        [SUPERVISED_NODE] = node_arguments,
        [SUPERVISED_GATEWAY] = gateway_arguments,
    };
    if (!process_find_binary(supervisor, process->which, path)) {
        snprintf(process->last_line, sizeof process->last_line, "%.200s is not there", path);
        return MOB_IO;
    }
    add(&arguments, "%s", path);
    fill[process_kind(process->which)](process, &arguments);
    process_remove_its_file(process);
    process->started_ns = mob_now();
    if (fork_and_exec(process, arguments.items) != MOB_OK)
        return MOB_IO;
    process->start_time = mob_process_started(process->pid);
    process->starts += process->state != PROCESS_PREPARING;
    process->started_wall_ns = mob_wall_now();
    return MOB_OK;
}
