#include "runtime/worker/worker_log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/log.h"

static struct {
    char dir[256];
    uint32_t worker;
    uint64_t file_max;
    int fd;
    int index_fd; /* -1 until something has been written: a file less for who writes nothing */
    uint64_t base; /* bytes of the files before this one */
    uint64_t written; /* base + what is in this file */
    struct mob_task_id task; /* that runs */
    uint32_t attempt;
    bool marked; /* in this file's index */
} log_file = {.fd = -1, .index_fd = -1};

void mob_worker_log_name(const char *log_dir, uint32_t worker, const char *suffix, char out[MOB_LOG_NAME_MAX])
{
    snprintf(out, MOB_LOG_NAME_MAX, "%s/worker-%u.%s", log_dir, worker, suffix);
}

static int open_one(const char *suffix)
{
    char name[MOB_LOG_NAME_MAX];
    mob_worker_log_name(log_file.dir, log_file.worker, suffix, name);
    return open(name, O_RDWR | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0600);
}

static void close_one(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

static bool open_log(void)
{
    int fd = open_one("log");
    if (fd < 0 || dup2(fd, 1) < 0 || dup2(fd, 2) < 0) {
        close_one(&fd);
        return false;
    }
    close_one(&log_file.fd);
    close_one(&log_file.index_fd);
    log_file.fd = fd;
    return true;
}

/* What has no older file leaves none behind: a log would have an index that is not its own. */
static void rotate_one(const char *from, const char *to)
{
    char old_name[MOB_LOG_NAME_MAX], new_name[MOB_LOG_NAME_MAX];
    mob_worker_log_name(log_file.dir, log_file.worker, from, old_name);
    mob_worker_log_name(log_file.dir, log_file.worker, to, new_name);
    if (rename(old_name, new_name) != 0 && errno == ENOENT)
        unlink(new_name);
}

static bool rotate(void)
{
    rotate_one("log", "log.1");
    rotate_one("idx", "idx.1");
    if (!open_log())
        return false;
    log_file.base = log_file.written;
    log_file.marked = false;
    return true;
}

static void add_to_index(const struct mob_log_index *entry)
{
    if (log_file.index_fd < 0)
        log_file.index_fd = open_one("idx");
    if (write(log_file.index_fd, entry, sizeof *entry) != (ssize_t)sizeof *entry)
        MOB_LOG_WARN("worker", "log_index_not_written", "errno=%d", errno);
}

/* In front of its first bytes in this file. */
static void mark(void)
{
    struct mob_log_index index = {log_file.task, log_file.written - log_file.base, 0, log_file.attempt};
    log_file.marked = true;
    if (!mob_task_id_is_zero(log_file.task))
        add_to_index(&index);
}

void mob_worker_log_task(struct mob_task_id task, uint32_t attempt)
{
    log_file.task = task;
    log_file.attempt = attempt;
    log_file.marked = false;
}

static ssize_t cookie_write(void *cookie, const char *bytes, size_t size)
{
    (void)cookie;
    if (log_file.written - log_file.base >= log_file.file_max)
        rotate();
    if (!log_file.marked)
        mark();
    ssize_t n = write(log_file.fd, bytes, size);
    if (n > 0)
        log_file.written += (uint64_t)n;
    return n;
}

enum mob_status mob_worker_log_open(const struct mob_worker_config *config, uint32_t worker)
{
    snprintf(log_file.dir, sizeof log_file.dir, "%s", config->log_dir);
    log_file.worker = worker;
    log_file.file_max = config->log_bytes_max;
    if (!rotate()) /* the number may have been another worker's, whose log stays as the older file */
        return MOB_IO;
    cookie_io_functions_t functions = {.write = cookie_write};
    FILE *out = fopencookie(NULL, "w", functions), *err = fopencookie(NULL, "w", functions);
    if (out == NULL || err == NULL)
        return MOB_NO_MEMORY;
    setvbuf(out, NULL, _IOLBF, 4096);
    setvbuf(err, NULL, _IONBF, 0);
    stdout = out;
    stderr = err;
    return MOB_OK;
}

uint64_t mob_worker_log_written(void)
{
    return log_file.written;
}

void mob_worker_log_measure(void)
{
    struct stat st;
    if (fstat(log_file.fd, &st) == 0 && log_file.base + (uint64_t)st.st_size > log_file.written)
        log_file.written = log_file.base + (uint64_t)st.st_size;
}

uint32_t mob_worker_log_note(uint64_t written, char *tail_out, uint32_t size)
{
    uint64_t from = written > log_file.base ? written - log_file.base : 0;
    uint64_t wrote = log_file.written - log_file.base - from;
    struct mob_log_index index = {
        log_file.task, from, wrote < UINT32_MAX ? (uint32_t)wrote : UINT32_MAX, log_file.attempt};
    if (index.bytes == 0)
        return 0;
    add_to_index(&index);
    uint32_t bytes = index.bytes < size ? index.bytes : size;
    ssize_t n = pread(log_file.fd, tail_out, bytes, (off_t)(index.offset + index.bytes - bytes));
    return n > 0 ? (uint32_t)n : 0;
}
