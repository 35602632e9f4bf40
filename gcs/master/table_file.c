/* The table in a file: for masters on one machine without PostgreSQL. A change is made under a lock, to a
 * copy that replaces the file when it is on disk. Only the newest configuration is kept. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/base/hash.h"
#include "common/base/log.h"
#include "gcs/master/table_inner.h"

#define FILE_MAGIC 0x4c42544d42554f4dull /* "MOUBMTBL" */
#define FILE_VERSION 1u
#define LOCK_TRIES 100 /* a second: a change takes the time of one fsync */
#define LOCK_PAUSE_NS (10 * 1000000)

struct content {
    uint64_t magic, version;
    struct mob_master_row row;
    struct mob_gcs_config newest;
    uint64_t hash; /* of all before */
};

static uint64_t hash_of(const struct content *c)
{
    return mob_hash64(c, offsetof(struct content, hash));
}

static enum mob_status load(const char *path, struct content *out)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT) {
        *out = (struct content){.magic = FILE_MAGIC, .version = FILE_VERSION};
        return MOB_OK;
    }
    ssize_t n = fd < 0 ? -1 : read(fd, out, sizeof *out);
    if (fd >= 0)
        close(fd);
    if (n < 0)
        return MOB_IO;
    bool whole = n == (ssize_t)sizeof *out && out->magic == FILE_MAGIC && out->hash == hash_of(out);
    if (whole && out->version != FILE_VERSION)
        return MOB_VERSION;
    if (!whole)
        MOB_LOG_ERROR("master", "table_corrupt", "path=%s", path);
    return whole ? MOB_OK : MOB_CORRUPT;
}

static enum mob_status sync_folder(const char *path)
{
    char folder[4096];
    const char *slash = strrchr(path, '/');
    snprintf(
        folder, sizeof folder, "%.*s", slash == NULL ? 1 : (int)(slash - path), slash == NULL ? "." : path);
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool synced = fd >= 0 && fsync(fd) == 0;
    if (fd >= 0)
        close(fd);
    return synced ? MOB_OK : MOB_IO;
}

static enum mob_status store(const char *path, struct content *c)
{
    char temporary[4096];
    c->hash = hash_of(c);
    snprintf(temporary, sizeof temporary, "%s.new", path);
    int fd = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0)
        return MOB_IO;
    bool written = write(fd, c, sizeof *c) == (ssize_t)sizeof *c && fsync(fd) == 0;
    close(fd);
    if (!written)
        return MOB_IO;
    return rename(temporary, path) == 0 ? sync_folder(path) : MOB_IO;
}

static enum mob_status change(const char *path, const struct mob_table_question *q, struct content *c)
{
    if (q->op == MOB_TABLE_SET_ROW) {
        if (memcmp(&c->row, &q->old_row, sizeof c->row) != 0)
            return MOB_CONFLICT;
        bool beat_only = c->row.term == q->row.term;
        c->row = q->row;
        /* A beat says only that the master lives, which it does not after a power cut: not synced. */
        if (beat_only) {
            c->hash = hash_of(c);
            int fd = open(path, O_WRONLY | O_CLOEXEC);
            bool written = fd >= 0 && pwrite(fd, c, sizeof *c, 0) == (ssize_t)sizeof *c;
            if (fd >= 0)
                close(fd);
            return written ? MOB_OK : MOB_IO;
        }
        return store(path, c);
    }
    if (q->config.term != c->row.term || q->config.epoch <= c->newest.epoch)
        return MOB_CONFLICT;
    c->newest = q->config;
    return store(path, c);
}

/* A master that was stopped inside of a change would keep the others out until it goes on, and must not go on
 * behind their backs either: it is ended. One that is only slow is waited for. */
static void end_if_stopped(pid_t pid)
{
    char path[64], text[512];
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *file = fopen(path, "re");
    size_t length = file == NULL ? 0 : fread(text, 1, sizeof text - 1, file);
    if (file != NULL)
        fclose(file);
    text[length] = 0;
    const char *state = strrchr(text, ')');
    if (state == NULL || state[1] == 0 || (state[2] != 'T' && state[2] != 't'))
        return;
    MOB_LOG_WARN("master", "ended_a_stopped_master", "pid=%d why=\"it holds the lock of the table\"", pid);
    (void)kill(pid, SIGKILL);
}

/* Of this process, which has one table: released when `fd` is closed. */
static enum mob_status lock_table(int fd)
{
    for (int i = 0; i < LOCK_TRIES; i++) {
        struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
        if (fcntl(fd, F_SETLK, &lock) == 0)
            return MOB_OK;
        if (errno != EAGAIN && errno != EACCES && errno != EINTR)
            return MOB_IO;
        struct timespec pause = {0, LOCK_PAUSE_NS};
        nanosleep(&pause, NULL);
        if (i >= LOCK_TRIES / 2 && fcntl(fd, F_GETLK, &lock) == 0 && lock.l_type != F_UNLCK)
            end_if_stopped(lock.l_pid);
    }
    return MOB_TIMEOUT; /* nothing was asked */
}

void table_file_ask(const char *path, const struct mob_table_question *q, struct mob_table_answer *a)
{
    char lock_path[4096];
    struct content c;
    snprintf(lock_path, sizeof lock_path, "%s.lock", path);
    int lock = open(lock_path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    a->status = lock >= 0 ? lock_table(lock) : MOB_IO;
    if (a->status == MOB_OK)
        a->status = load(path, &c);
    if (a->status == MOB_OK && (q->op == MOB_TABLE_SET_ROW || q->op == MOB_TABLE_INSERT))
        a->status = change(path, q, &c);
    if (a->status == MOB_OK) {
        a->row = c.row;
        a->config = c.newest;
    }
    if (lock >= 0)
        close(lock);
}
