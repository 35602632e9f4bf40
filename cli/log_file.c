#include "cli/log_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static enum mob_status open_present(struct log_file *log)
{
    log->fd = open(log->path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (log->fd < 0)
        return MOB_IO;
    struct stat st;
    log->size = fstat(log->fd, &st) == 0 ? (uint64_t)st.st_size : 0;
    return MOB_OK;
}

enum mob_status log_file_open(struct log_file *log, const char *path, uint64_t size_max, uint32_t files)
{
    if (strlen(path) >= sizeof log->path - 12) /* room for .n */
        return MOB_TOO_LARGE;
    *log = (struct log_file){.fd = -1, .size_max = size_max, .files = files};
    memcpy(log->path, path, strlen(path) + 1);
    return open_present(log);
}

static void rotate(struct log_file *log)
{
    int kept = log->fd; /* who writes through this number goes on in the new file */
    for (uint32_t i = log->files; i-- > 1;) {
        char from[LOG_FILE_PATH_MAX + 12], to[LOG_FILE_PATH_MAX + 12];
        if (i == 1)
            snprintf(from, sizeof from, "%s", log->path);
        else
            snprintf(from, sizeof from, "%s.%u", log->path, i - 1);
        snprintf(to, sizeof to, "%s.%u", log->path, i);
        if (rename(from, to) != 0 && errno != ENOENT)
            break; /* then what is there goes on growing in place of being lost */
    }
    if (log->files <= 1)
        unlink(log->path);
    if (open_present(log) != MOB_OK) {
        log->fd = kept;
        log->size = 0; /* try again after another round of bytes, not at each line */
        return;
    }
    if (log->fd != kept && kept >= 0) {
        dup3(log->fd, kept, O_CLOEXEC);
        close(log->fd);
        log->fd = kept;
    }
}

void log_file_write(struct log_file *log, const char *bytes, size_t length)
{
    if (log->fd < 0)
        return;
    if (log->size > 0 && log->size + length > log->size_max)
        rotate(log);
    ssize_t written = write(log->fd, bytes, length);
    if (written > 0)
        log->size += (uint64_t)written;
    if (written < (ssize_t)length)
        log->dropped_bytes += length - (written > 0 ? (size_t)written : 0);
}

void log_file_check(struct log_file *log)
{
    struct stat st;
    if (log->fd >= 0 && fstat(log->fd, &st) == 0 && (uint64_t)st.st_size >= log->size_max)
        rotate(log);
}

void log_file_close(struct log_file *log)
{
    if (log->fd >= 0)
        close(log->fd);
    log->fd = -1;
}
