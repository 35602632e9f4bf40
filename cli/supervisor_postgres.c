/* PostgreSQL under the supervisor: its programs, its data directory, its configuration. */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/supervisor.h"
#include "common/base/log.h"
#include "common/base/process.h"
#include "gcs/flush/postgres_conf.h"

#define PROGRAMS "/usr/lib/postgresql" /* where Debian's packages are, one folder a version */
#define VERSION_WANTED "15" /* of those that are there; else the newest */

static void in_directory(const struct supervisor *supervisor, const char *name, char out[STATE_PATH_MAX])
{
    char below[64];
    snprintf(below, sizeof below, STATE_POSTGRES_DIR_NAME "/%s", name);
    state_path(supervisor->directory, below, out);
}

bool postgres_is_made(const struct supervisor *supervisor)
{
    char path[STATE_PATH_MAX];
    in_directory(supervisor, "PG_VERSION", path);
    return access(path, F_OK) == 0;
}

static bool newest_version(char out[16])
{
    long best = 0;
    DIR *listing = opendir(PROGRAMS);
    if (listing == NULL)
        return false;
    for (struct dirent *e; (e = readdir(listing)) != NULL;)
        if (isdigit((unsigned char)e->d_name[0]) && strtol(e->d_name, NULL, 10) > best)
            best = strtol(e->d_name, NULL, 10);
    closedir(listing);
    snprintf(out, 16, "%ld", best);
    return best > 0;
}

/* A data directory belongs to one major version: another one's programs are never tried on it. */
bool postgres_find(const struct supervisor *supervisor, const char *program, char path[STATE_PATH_MAX])
{
    char version_path[STATE_PATH_MAX], version[16] = VERSION_WANTED;
    in_directory(supervisor, "PG_VERSION", version_path);
    bool made = state_read_line(version_path, version, sizeof version) == MOB_OK;
    snprintf(path, STATE_PATH_MAX, PROGRAMS "/%.15s/bin/%s", version, program);
    if (access(path, X_OK) == 0 || made)
        return access(path, X_OK) == 0;
    char newest[16];
    if (newest_version(newest))
        snprintf(path, STATE_PATH_MAX, PROGRAMS "/%.15s/bin/%s", newest, program);
    return access(path, X_OK) == 0;
}

enum mob_status postgres_prepare(struct process *process)
{
    const char *directory = process->supervisor->directory;
    /* What was begun and not ended is worth nothing. */
    enum mob_status status = system_user_remove_tree(directory, STATE_POSTGRES_NEW_DIR_NAME);
    if (status == MOB_OK)
        status = system_user_own_tree(directory, STATE_POSTGRES_NEW_DIR_NAME, &process->user);
    if (status != MOB_OK)
        snprintf(process->last_line, sizeof process->last_line, "cannot make its data directory: %s",
            strerror(errno));
    return status;
}

enum mob_status postgres_prepared(struct process *process)
{
    char from[STATE_PATH_MAX], to[STATE_PATH_MAX];
    const char *directory = process->supervisor->directory;
    int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool moved = fd >= 0 &&
        rename(state_path(directory, STATE_POSTGRES_NEW_DIR_NAME, from),
            state_path(directory, STATE_POSTGRES_DIR_NAME, to)) == 0 &&
        fsync(fd) == 0;
    if (fd >= 0)
        close(fd);
    return moved ? MOB_OK : MOB_IO;
}

static bool replace_text(int directory, const char *name, const char *text, size_t length)
{
    char temporary[64];
    snprintf(temporary, sizeof temporary, "%s.new", name);
    unlinkat(directory, temporary, 0);
    int fd = openat(directory, temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    bool written = fd >= 0 && write(fd, text, length) == (ssize_t)length;
    if (fd >= 0)
        close(fd);
    return written && renameat(directory, temporary, directory, name) == 0;
}

/* A killed PostgreSQL leaves lock files that name its process. As long as nobody has taken that one's exit
 * status, which in a container may be for ever, the next PostgreSQL believes that it runs. Where it runs no
 * more, its place in the file is given to us, the next one's parent, which PostgreSQL knows cannot be another
 * PostgreSQL; the rest, by which it finds memory that is still in use, stays. */
static void release_lock(const struct process *process, const char *name)
{
    char folder[STATE_PATH_MAX], old[1024], text[1100];
    in_directory(process->supervisor, "", folder);
    int directory = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int fd = directory < 0 ? -1 : openat(directory, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    ssize_t length = fd < 0 ? -1 : read(fd, old, sizeof old - 1);
    if (fd >= 0)
        close(fd);
    old[length > 0 ? length : 0] = '\0';
    char *rest;
    long pid = strtol(old, &rest, 10);
    bool names_dead =
        length > 0 && rest > old && pid > 1 && pid < INT_MAX && mob_process_started((pid_t)pid) == 0;
    if (names_dead) {
        int size = snprintf(text, sizeof text, "%ld%s", (long)getpid(), rest);
        if (!replace_text(directory, name, text, (size_t)size) ||
            system_user_give(folder, name, &process->user) != MOB_OK)
            MOB_LOG_WARN("supervisor", "lock_not_released", "file=%s pid=%ld errno=%d", name, pid, errno);
    }
    if (directory >= 0)
        close(directory);
}

enum mob_status postgres_configure(struct process *process)
{
    static const char *const files[] = {
        MOB_POSTGRES_CONF_NAME, MOB_POSTGRES_HBA_NAME, MOB_POSTGRES_IDENT_NAME};
    char path[STATE_PATH_MAX], user[64];
    struct mob_postgres_conf conf = {.title = process->supervisor->directory, .user = user};
    if (!system_user_own_name(user, sizeof user)) {
        snprintf(process->last_line, sizeof process->last_line, "user %u has no name", geteuid());
        return MOB_NOT_FOUND;
    }
    release_lock(process, "postmaster.pid");
    release_lock(process, MOB_POSTGRES_SOCKET_NAME ".lock");
    state_path(process->supervisor->directory, STATE_POSTGRES_DIR_NAME, path);
    enum mob_status status = mob_postgres_conf_write(path, &conf);
    for (size_t i = 0; i < sizeof files / sizeof files[0] && status == MOB_OK; i++)
        status = system_user_give(path, files[i], &process->user);
    if (status != MOB_OK)
        snprintf(process->last_line, sizeof process->last_line, "cannot write its configuration: %s",
            mob_status_text(status));
    return status;
}

/* Its file of eight lines: the first is the process, the last its state. A killed one leaves its own behind.
 */
bool postgres_is_ready(const struct process *process)
{
    char path[STATE_PATH_MAX], text[1024];
    in_directory(process->supervisor, "postmaster.pid", path);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t length = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (fd >= 0)
        close(fd);
    if (length <= 0)
        return false;
    text[length] = '\0';
    const char *line = text;
    for (int i = 1; i < 8 && line != NULL; i++) {
        line = strchr(line, '\n');
        line = line == NULL ? NULL : line + 1;
    }
    return line != NULL && strtol(text, NULL, 10) == process->pid && strncmp(line, "ready", 5) == 0;
}
