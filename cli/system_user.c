#include "cli/system_user.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Directories below directories: PostgreSQL has three levels, Redis one. */
enum { DEPTH_MAX = 32 };

enum mob_status system_user_find(const char *name, struct system_user *out)
{
    *out = (struct system_user){.uid = geteuid(), .gid = getegid()};
    if (out->uid != 0)
        return MOB_OK;
    const struct passwd *row = getpwnam(name);
    if (row == NULL || row->pw_uid == 0)
        return MOB_NOT_FOUND;
    *out = (struct system_user){.other = true, .uid = row->pw_uid, .gid = row->pw_gid};
    return MOB_OK;
}

bool system_user_own_name(char *out, size_t capacity)
{
    const struct passwd *row = getpwuid(geteuid());
    if (row == NULL || strlen(row->pw_name) >= capacity)
        return false;
    snprintf(out, capacity, "%s", row->pw_name);
    return true;
}

bool system_user_become(const struct system_user *user)
{
    if (!user->other)
        return true;
    /* The system calls themselves: the library's set the ids of all threads, with locks. There is one thread
     * after a fork. */
    return syscall(SYS_setgroups, 0, NULL) == 0 &&
        syscall(SYS_setresgid, user->gid, user->gid, user->gid) == 0 &&
        syscall(SYS_setresuid, user->uid, user->uid, user->uid) == 0;
}

/* Calls `visit` for every entry below, depth first, and for the top. */
struct walk {
    bool (*visit)(const struct walk *walk, int parent, const char *name, const struct stat *st);
    const struct system_user *user;
};

static bool walk_tree(const struct walk *walk, int parent, const char *name, int depth);

static bool walk_inside(const struct walk *walk, int parent, const char *name, int depth)
{
    int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *listing = fd < 0 ? NULL : fdopendir(fd);
    if (listing == NULL) {
        if (fd >= 0)
            close(fd);
        return false;
    }
    bool good = true;
    for (struct dirent *e; (e = readdir(listing)) != NULL;)
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            good &= walk_tree(walk, dirfd(listing), e->d_name, depth + 1);
    closedir(listing);
    return good;
}

static bool walk_tree(const struct walk *walk, int parent, const char *name, int depth)
{
    struct stat st;
    if (fstatat(parent, name, &st, AT_SYMLINK_NOFOLLOW) != 0)
        return errno == ENOENT; /* gone meanwhile */
    if (S_ISDIR(st.st_mode) && (depth == DEPTH_MAX || !walk_inside(walk, parent, name, depth)))
        return false;
    return walk->visit(walk, parent, name, &st);
}

static enum mob_status walk_below(const struct walk *walk, const char *directory, const char *name)
{
    int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return MOB_IO;
    bool good = walk_tree(walk, fd, name, 0);
    close(fd);
    return good ? MOB_OK : MOB_IO;
}

/* A file with a second name could be anybody's. */
static bool give(const struct walk *walk, int parent, const char *name, const struct stat *st)
{
    if (st->st_uid == walk->user->uid || (S_ISREG(st->st_mode) && st->st_nlink > 1))
        return true;
    return fchownat(parent, name, walk->user->uid, walk->user->gid, AT_SYMLINK_NOFOLLOW) == 0;
}

static bool take_away(const struct walk *walk, int parent, const char *name, const struct stat *st)
{
    (void)walk;
    return unlinkat(parent, name, S_ISDIR(st->st_mode) ? AT_REMOVEDIR : 0) == 0 || errno == ENOENT;
}

enum mob_status system_user_own_tree(const char *directory, const char *name, const struct system_user *user)
{
    int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return MOB_IO;
    bool made = mkdirat(fd, name, 0700) == 0 || errno == EEXIST;
    close(fd);
    if (!made)
        return MOB_IO;
    return user->other ? walk_below(&(struct walk){.visit = give, .user = user}, directory, name) : MOB_OK;
}

enum mob_status system_user_give(const char *directory, const char *name, const struct system_user *user)
{
    int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct stat st;
    bool good = fd >= 0 && fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
        (!user->other || give(&(struct walk){.user = user}, fd, name, &st));
    if (fd >= 0)
        close(fd);
    return good ? MOB_OK : MOB_IO;
}

enum mob_status system_user_remove_tree(const char *directory, const char *name)
{
    return walk_below(&(struct walk){.visit = take_away}, directory, name);
}
