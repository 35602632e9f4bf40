/* What the state directory is, and the programs that a cluster in it is made of. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/doctor.h"
#include "cli/replicas.h"
#include "cli/supervisor.h"
#include "cli/system_user.h"
#include "common/base/clock.h"
#include "common/base/process.h"

#define SYNCS 5
#define SYNC_BYTES 4096
#define VERSION_WAIT_MS 3000

extern char **environ;

/* ---- the disk ---- */

static void nearest(struct doctor_directory *d)
{
    struct stat st;
    snprintf(d->looked_at, sizeof d->looked_at, "%s", d->path);
    d->exists = stat(d->looked_at, &st) == 0;
    while (stat(d->looked_at, &st) != 0) {
        char *slash = strrchr(d->looked_at, '/');
        if (slash == NULL)
            break;
        slash[slash == d->looked_at] = '\0';
    }
    d->writable = S_ISDIR(st.st_mode) && access(d->looked_at, W_OK | X_OK) == 0;
}

static int by_length(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* Of a file without a name, if the file system knows such; else of one that is taken away at once. */
static int small_file(const char *directory)
{
    char path[STATE_PATH_MAX + 24];
    int fd = open(directory, O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);
    if (fd >= 0)
        return fd;
    snprintf(path, sizeof path, "%s/.doctor-XXXXXX", directory);
    fd = mkostemp(path, O_CLOEXEC);
    if (fd >= 0)
        unlink(path);
    return fd;
}

static void look_sync(struct doctor_directory *d)
{
    static const char bytes[SYNC_BYTES];
    int64_t took[SYNCS];
    d->sync_ns = -1;
    int fd = d->writable ? small_file(d->looked_at) : -1;
    for (int i = 0; fd >= 0 && i < SYNCS; i++) {
        int64_t begin = mob_now();
        if (write(fd, bytes, sizeof bytes) != sizeof bytes || fdatasync(fd) != 0)
            break;
        took[i] = mob_now() - begin;
        if (i + 1 < SYNCS)
            continue;
        qsort(took, SYNCS, sizeof took[0], by_length);
        d->sync_ns = took[SYNCS / 2];
    }
    d->sync_errno = d->sync_ns < 0 ? errno : 0;
    if (fd >= 0)
        close(fd);
}

/* ---- files ---- */

static bool is_foreign(uid_t owner, const char *user)
{
    struct system_user other;
    return owner != geteuid() &&
        !(user != NULL && system_user_find(user, &other) == MOB_OK && owner == other.uid);
}

static void look_file(struct doctor_directory *d, const char *name, int64_t bytes_wanted, const char *user)
{
    char path[STATE_PATH_MAX];
    struct stat st;
    if (d->file_count == DOCTOR_FILES_MAX || stat(state_path(d->path, name, path), &st) != 0)
        return;
    struct doctor_file *f = &d->files[d->file_count++];
    *f = (struct doctor_file){.mode = st.st_mode & 07777,
        .is_directory = S_ISDIR(st.st_mode),
        .foreign = is_foreign(st.st_uid, user),
        .bytes = st.st_size,
        .bytes_wanted = bytes_wanted};
    snprintf(f->name, sizeof f->name, "%s", name[0] != 0 ? name : ".");
}

static void look_files(struct doctor_directory *d, const struct doctor_wants *wants)
{
    char name[STATE_NAME_MAX];
    look_file(d, "", -1, NULL);
    look_file(d, STATE_CLUSTER_ID_NAME, sizeof(struct mob_cluster_id), NULL);
    look_file(d, STATE_SECRET_NAME, STATE_SECRET_BYTES, NULL);
    look_file(d, STATE_TOKEN_NAME, -1, NULL);
    look_file(d, STATE_LOGS_NAME, -1, NULL);
    look_file(d, STATE_POSTGRES_DIR_NAME, -1, "postgres");
    for (uint32_t i = 0; i < wants->shards * wants->replicas; i++) {
        uint32_t shard = i / wants->replicas, replica = i % wants->replicas;
        look_file(d, state_member_name("gcs", shard, replica, "", name), -1, "redis");
        look_file(d, state_member_name("gcs", shard, replica, "/redis.pass", name), -1, "redis");
    }
}

/* Whose supervisor has left them. */
static void look_left(struct doctor_directory *d)
{
    static struct cluster_state state;
    char path[STATE_PATH_MAX];
    d->pid_file = access(state_path(d->path, STATE_PID_NAME, path), F_OK) == 0;
    d->pid_lives = state_dir_supervisor(d->path) != 0;
    if (d->pid_lives || cluster_state_read(d->path, &state) != MOB_OK)
        return;
    for (int i = 0; i < state.count; i++) {
        const struct cluster_process *p = &state.processes[i];
        d->leftovers += p->pid > 0 && p->start_time != 0 && mob_process_started(p->pid) == p->start_time;
    }
}

/* ---- programs ---- */

/* The first line that it prints when asked for its version. */
static void ask_version(const char *path, char *out, size_t capacity)
{
    int ends[2];
    pid_t pid;
    size_t length = 0;
    char *const argv[] = {(char *)(uintptr_t)path, (char *)(uintptr_t) "--version", NULL};
    posix_spawn_file_actions_t actions;
    if (pipe2(ends, O_CLOEXEC) != 0)
        return;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    bool runs = posix_spawn(&pid, path, &actions, NULL, argv, environ) == 0;
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    struct pollfd readable = {.fd = ends[0], .events = POLLIN};
    for (ssize_t n; runs && length + 1 < capacity && poll(&readable, 1, VERSION_WAIT_MS) == 1;
         length += (size_t)n)
        if ((n = read(ends[0], out + length, capacity - 1 - length)) <= 0)
            break;
    out[length] = '\0';
    out[strcspn(out, "\n")] = '\0';
    close(ends[0]);
    if (runs) {
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
    }
}

static struct doctor_program *add_program(struct doctor_directory *d, const char *name)
{
    struct doctor_program *p = &d->programs[d->program_count++];
    *p = (struct doctor_program){.name = name};
    return p;
}

static void look_programs(struct doctor_directory *d, const struct doctor_wants *wants)
{
    static struct supervisor places; /* some 100 KiB, and only where things are matters here */
    static const struct {
        const char *name;
        enum supervised which;
        bool of_postgres, of_chains;
    } ours[] = {{"mobula-gcs", SUPERVISED_GCS, false, false}, {"mobula-node", SUPERVISED_NODE, false, false},
        {"mobula-gateway", SUPERVISED_GATEWAY, false, false}, {"mobula-flush", SUPERVISED_FLUSH, true, false},
        {"mobula-master", SUPERVISED_MASTER, false, true}, {"redis-server", SUPERVISED_REDIS, false, false}};
    places.directory = d->path;
    if (supervisor_find_binaries(&places) != MOB_OK)
        return;
    for (size_t i = 0; i < sizeof ours / sizeof ours[0]; i++) {
        if ((ours[i].of_postgres && !wants->postgres) || (ours[i].of_chains && wants->replicas == 1))
            continue;
        struct doctor_program *p = add_program(d, ours[i].name);
        p->found = process_find_binary(&places, ours[i].which, p->path);
        if (p->found && ours[i].which == SUPERVISED_REDIS)
            ask_version(p->path, p->version, sizeof p->version);
    }
    for (int i = 0; wants->postgres && i < 2; i++) {
        struct doctor_program *p = add_program(d, i == 0 ? "postgres" : "initdb");
        p->found = postgres_find(&places, p->name, p->path);
        if (p->found)
            ask_version(p->path, p->version, sizeof p->version);
    }
}

/* "postgres (PostgreSQL) 15.3 (Debian ...)": 15. */
static void look_postgres(struct doctor_directory *d)
{
    char path[STATE_PATH_MAX];
    if (state_read_line(state_path(d->path, STATE_POSTGRES_DIR_NAME "/PG_VERSION", path), d->postgres_made,
            sizeof d->postgres_made) != MOB_OK)
        d->postgres_made[0] = '\0';
    for (int i = 0; i < d->program_count; i++) {
        const char *digit = strpbrk(d->programs[i].version, "0123456789");
        if (strcmp(d->programs[i].name, "postgres") == 0 && digit != NULL)
            snprintf(
                d->postgres_have, sizeof d->postgres_have, "%.*s", (int)strspn(digit, "0123456789"), digit);
    }
}

void doctor_look_directory(
    const struct mob_settings *settings, const struct doctor_wants *wants, struct doctor_directory *out)
{
    char path[STATE_PATH_MAX];
    struct statvfs room;
    struct system_user user;
    *out = (struct doctor_directory){0};
    snprintf(out->path, sizeof out->path, "%s", mob_setting_text(settings, MOB_SETTING_DIR));
    nearest(out);
    if (statvfs(out->looked_at, &room) == 0)
        out->free_bytes = (uint64_t)room.f_bavail * room.f_frsize;
    look_sync(out);
    look_files(out, wants);
    look_left(out);
    if (state_read_line(state_path(out->path, "version", path), out->layout, sizeof out->layout) != MOB_OK)
        out->layout[0] = '\0';
    static struct mob_settings next; /* the check completes them */
    next = *settings;
    if (replicas_choose(&next, out->shape) == MOB_OK)
        out->shape[0] = '\0';
    if (system_user_find("redis", &user) != MOB_OK)
        out->user_lacks = "redis";
    else if (wants->postgres && system_user_find("postgres", &user) != MOB_OK)
        out->user_lacks = "postgres";
    look_programs(out, wants);
    look_postgres(out);
}
