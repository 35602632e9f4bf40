#include "runtime/store/spill_home.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/log.h"

#define HOME_PREFIX "run-"
#define OPEN_ATTEMPTS_MAX 16
#define CLOSE_NS_MAX (MOB_SEC / 2)

struct mob_spill_home {
    char path[PATH_MAX - 256 + MOB_SPILL_HOME_NAME_MAX];
    int parent, fd; /* the spill directory, and ours in it, which is locked */
    pthread_t sweeper;
    bool sweeps;
    atomic_bool stop; /* between this process' threads */
};

static bool ends_with(const char *name, const char *suffix)
{
    size_t length = strlen(name), tail = strlen(suffix);
    return length > tail && strcmp(name + length - tail, suffix) == 0;
}

static bool starts_with(const char *name, const char *prefix)
{
    return strncmp(name, prefix, strlen(prefix)) == 0;
}

/* Removes the files of a store in `fd`. False = told to stop, or out of time. */
static bool remove_files(int fd, const atomic_bool *stop, int64_t deadline_ns)
{
    int again = dup(fd); /* closedir() closes it */
    DIR *directory = again < 0 ? NULL : fdopendir(again);
    if (!directory) {
        if (again >= 0)
            close(again);
        return false;
    }
    rewinddir(directory);
    bool all = true;
    for (struct dirent *entry = readdir(directory); entry && all; entry = readdir(directory)) {
        if (ends_with(entry->d_name, MOB_SPILL_SUFFIX))
            unlinkat(fd, entry->d_name, 0);
        all = !(stop && atomic_load(stop)) && mob_now() < deadline_ns;
    }
    closedir(directory);
    return all;
}

static int open_folder(int parent, const char *name)
{
    return openat(parent, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
}

/* Whose lock is free, its store is dead. */
static void remove_if_dead(const struct mob_spill_home *home, const char *name)
{
    int fd = open_folder(home->parent, name);
    if (fd < 0)
        return;
    if (flock(fd, LOCK_EX | LOCK_NB) == 0 && remove_files(fd, &home->stop, INT64_MAX))
        unlinkat(home->parent, name, AT_REMOVEDIR);
    close(fd);
}

static void *sweep(void *argument)
{
    const struct mob_spill_home *home = argument;
    int again = open_folder(home->parent, ".");
    DIR *directory = again < 0 ? NULL : fdopendir(again);
    if (!directory) {
        if (again >= 0)
            close(again);
        return NULL;
    }
    for (struct dirent *entry = readdir(directory); entry && !atomic_load(&home->stop);
         entry = readdir(directory)) {
        if (starts_with(entry->d_name, HOME_PREFIX))
            remove_if_dead(home, entry->d_name); /* not ours: its lock is held */
        else if (ends_with(entry->d_name, MOB_SPILL_SUFFIX)) /* of a version that had no folders */
            unlinkat(home->parent, entry->d_name, 0);
    }
    closedir(directory);
    return NULL;
}

static bool anything_else_there(const struct mob_spill_home *home)
{
    const char *own = strrchr(home->path, '/') + 1;
    int again = open_folder(home->parent, ".");
    DIR *directory = again < 0 ? NULL : fdopendir(again);
    if (!directory) {
        if (again >= 0)
            close(again);
        return false;
    }
    bool found = false;
    for (struct dirent *entry = readdir(directory); entry && !found; entry = readdir(directory))
        found = entry->d_name[0] != '.' && strcmp(entry->d_name, own) != 0;
    closedir(directory);
    return found;
}

static void start_sweeper(struct mob_spill_home *home)
{
    sigset_t all, before;
    if (!anything_else_there(home))
        return;
    sigfillset(&all); /* the node's signals are the node's */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&home->sweeper, NULL, sweep, home);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    home->sweeps = error == 0;
    if (error != 0)
        MOB_LOG_WARN("store", "spill_sweeper", "path=%s error=\"%s\"", home->path, strerror(error));
}

/* A new folder, locked. The sweeper of another store may have taken it in between, for that of a dead one. */
static bool make_folder(struct mob_spill_home *home, const char *directory)
{
    for (int i = 0; i < OPEN_ATTEMPTS_MAX; i++) {
        struct stat info;
        snprintf(home->path, sizeof home->path, "%s/" HOME_PREFIX "XXXXXX", directory);
        if (!mkdtemp(home->path))
            return false;
        home->fd = open_folder(home->parent, strrchr(home->path, '/') + 1);
        if (home->fd >= 0 && flock(home->fd, LOCK_EX | LOCK_NB) == 0 && fstat(home->fd, &info) == 0 &&
            info.st_nlink > 0)
            return true;
        if (home->fd >= 0)
            close(home->fd);
        home->fd = -1;
    }
    return false;
}

enum mob_status mob_spill_home_open(const char *directory, struct mob_spill_home **home_out)
{
    if (strlen(directory) >= PATH_MAX - 256)
        return MOB_INVALID;
    struct mob_spill_home *home = calloc(1, sizeof *home);
    if (!home)
        return MOB_NO_MEMORY;
    home->parent = home->fd = -1;
    if (mkdir(directory, 0700) != 0 && errno != EEXIST)
        goto err_io;
    home->parent = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (home->parent < 0 || !make_folder(home, directory))
        goto err_io;
    start_sweeper(home);
    *home_out = home;
    return MOB_OK;
err_io:
    MOB_LOG_ERROR("store", "spill_directory", "path=%s error=\"%s\"", directory, strerror(errno));
    if (home->parent >= 0)
        close(home->parent);
    free(home);
    return MOB_IO;
}

const char *mob_spill_home_path(const struct mob_spill_home *home)
{
    return home->path;
}

void mob_spill_home_close(struct mob_spill_home *home)
{
    if (!home)
        return;
    atomic_store(&home->stop, true /* private: a flag between threads of this process */);
    if (home->sweeps)
        pthread_join(home->sweeper, NULL);
    if (remove_files(home->fd, NULL, mob_now() + CLOSE_NS_MAX))
        unlinkat(home->parent, strrchr(home->path, '/') + 1, AT_REMOVEDIR);
    close(home->fd); /* and with it the lock */
    close(home->parent);
    free(home);
}
