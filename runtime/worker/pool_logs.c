/* The node's side of workers' logs: reading and bounding them. */
#include "common/base/log.h"
#include "runtime/worker/pool_internal.h"
#include "runtime/worker/worker_log.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *const suffixes[] = {"log", "log.1", "idx", "idx.1"};

void mob_pool_log_ended(struct mob_pool *pool, uint32_t worker)
{
    uint32_t *place = &pool->ended[pool->ended_next];
    bool in_use = false; /* numbers are used again */
    for (uint32_t i = 0; i < pool->count; i++)
        in_use |= pool->workers[i].number == *place;
    for (uint32_t i = 0; i < pool->ended_count; i++)
        if (pool->ended[i] == worker)
            return;
    if (pool->ended_count == MOB_POOL_OLD_LOGS && in_use)
        return;
    if (pool->ended_count == MOB_POOL_OLD_LOGS) {
        for (size_t i = 0; i < sizeof suffixes / sizeof suffixes[0]; i++) {
            char name[MOB_LOG_NAME_MAX];
            mob_worker_log_name(pool->config.log_dir, *place, suffixes[i], name);
            unlink(name);
        }
    } else {
        pool->ended_count++;
    }
    *place = worker;
    pool->ended_next = (pool->ended_next + 1) % MOB_POOL_OLD_LOGS;
}

static int open_log(struct mob_pool *pool, uint32_t worker, const char *suffix)
{
    char name[MOB_LOG_NAME_MAX];
    mob_worker_log_name(pool->config.log_dir, worker, suffix, name);
    return open(name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
}

/* Where what ended tasks wrote ends: behind it is only what the task wrote that the worker died in. */
static off_t end_of_noted(struct mob_pool *pool, uint32_t worker)
{
    struct mob_log_index last;
    int fd = open_log(pool, worker, "idx");
    off_t end = 0, at = fd < 0 ? 0 : lseek(fd, 0, SEEK_END) / (off_t)sizeof last * (off_t)sizeof last;
    if (at > 0 && pread(fd, &last, sizeof last, at - (off_t)sizeof last) == (ssize_t)sizeof last)
        end = (off_t)(last.offset + last.bytes);
    if (fd >= 0)
        close(fd);
    return end;
}

size_t mob_pool_log_tail(struct mob_pool *pool, uint32_t worker, unsigned lines, char *out, size_t size)
{
    if (size == 0)
        return 0;
    out[0] = 0;
    int fd = open_log(pool, worker, "log");
    struct stat st;
    if (fd < 0)
        return 0;
    if (fstat(fd, &st) != 0) {
        close(fd);
        return 0;
    }
    off_t from = (uint64_t)st.st_size > size - 1 ? st.st_size - (off_t)(size - 1) : 0;
    off_t noted = end_of_noted(pool, worker);
    if (from < noted && noted <= st.st_size)
        from = noted;
    ssize_t n = pread(fd, out, size - 1, from);
    close(fd);
    if (n <= 0)
        return 0;
    size_t begin = (size_t)n;
    unsigned seen = 0;
    while (begin > 0 && (out[begin - 1] != '\n' || begin == (size_t)n || ++seen < lines))
        begin--;
    memmove(out, out + begin, (size_t)n - begin);
    out[(size_t)n - begin] = 0;
    return (size_t)n - begin;
}

/* What one task wrote, out of both pairs of files. */
struct log_search {
    struct mob_task_id task;
    uint32_t attempt; /* 0: all */
    uint64_t offset; /* of its output; bytes before it are not wanted */
    uint8_t *out;
    size_t size, got;
    uint64_t total; /* of its output */
    bool runs; /* it is the one that runs: what nobody has noted is its */
};

/* An earlier version did not note the attempt: nearly every task has one. */
static bool is_wanted(const struct log_search *search, const struct mob_log_index *entry)
{
    uint32_t attempt = entry->attempt ? entry->attempt : 1;
    return mob_task_id_eq(entry->task, search->task) && (!search->attempt || attempt == search->attempt);
}

static void take_range(struct log_search *search, int log_fd, uint64_t begin, uint64_t bytes)
{
    uint64_t skip = search->offset > search->total ? search->offset - search->total : 0;
    search->total += bytes;
    if (skip >= bytes || search->got == search->size)
        return;
    uint64_t want = bytes - skip;
    if (want > search->size - search->got)
        want = search->size - search->got;
    ssize_t copied = pread(log_fd, search->out + search->got, want, (off_t)(begin + skip));
    search->got += copied > 0 ? (size_t)copied : 0;
}

/* A mark without the note of an end behind it: the task runs, its worker died of it, or it went on in the
 * next file. */
static void take_open(
    struct log_search *search, int log_fd, const struct mob_log_index *mark, uint64_t next_offset)
{
    if (is_wanted(search, mark) && next_offset > mark->offset)
        take_range(search, log_fd, mark->offset, next_offset - mark->offset);
}

/* index_fd: -1 when there is no index, since nothing was noted. */
static void read_entries(struct log_search *search, int index_fd, int log_fd, uint64_t log_bytes)
{
    struct mob_log_index entries[256], mark = {0};
    uint64_t noted = 0; /* up to here */
    bool open = false;
    ssize_t n;
    while (index_fd >= 0 && (n = read(index_fd, entries, sizeof entries)) > 0) {
        for (size_t i = 0; i < (size_t)n / sizeof entries[0]; i++) {
            const struct mob_log_index *e = &entries[i];
            bool ends =
                open && e->bytes > 0 && mob_task_id_eq(e->task, mark.task) && e->offset == mark.offset;
            if (open && !ends)
                take_open(search, log_fd, &mark, e->offset);
            open = e->bytes == 0;
            if (open)
                mark = *e;
            else if (is_wanted(search, e))
                take_range(search, log_fd, e->offset, e->bytes);
            noted = e->offset + e->bytes;
        }
    }
    if (open)
        take_open(search, log_fd, &mark, log_bytes);
    else if (search->runs && noted < log_bytes) /* it wrote around stdio, and so without a mark */
        take_range(search, log_fd, noted, log_bytes - noted);
}

static void read_pair(struct mob_pool *pool, uint32_t worker, const char *index_suffix,
    const char *log_suffix, struct log_search *search)
{
    int index_fd = open_log(pool, worker, index_suffix), log_fd = open_log(pool, worker, log_suffix);
    struct stat st;
    if (log_fd >= 0 && fstat(log_fd, &st) == 0)
        read_entries(search, index_fd, log_fd, (uint64_t)st.st_size);
    if (index_fd >= 0)
        close(index_fd);
    if (log_fd >= 0)
        close(log_fd);
}

size_t mob_pool_log_read(struct mob_pool *pool, const struct mob_pool_output *output, uint64_t offset,
    void *out, size_t size, uint64_t *total_out)
{
    struct log_search search = {
        .task = output->task, .attempt = output->attempt, .offset = offset, .out = out, .size = size};
    read_pair(pool, output->worker, "idx.1", "log.1", &search);
    search.runs = output->runs;
    read_pair(pool, output->worker, "idx", "log", &search);
    *total_out = search.total;
    return search.got;
}

void mob_pool_log_died(struct mob_pool *pool, uint32_t worker, struct mob_task_id task, uint32_t attempt)
{
    char name[MOB_LOG_NAME_MAX];
    struct stat log, index;
    struct mob_log_index last = {0};
    mob_worker_log_name(pool->config.log_dir, worker, "log", name);
    if (stat(name, &log) != 0)
        return;
    mob_worker_log_name(pool->config.log_dir, worker, "idx", name);
    int fd = open(name, O_RDWR | O_APPEND | O_CLOEXEC | O_NOFOLLOW | (log.st_size > 0 ? O_CREAT : 0), 0600);
    if (fd < 0)
        return;
    off_t end = fstat(fd, &index) == 0 ? index.st_size / (off_t)sizeof last * (off_t)sizeof last : 0;
    if (end > 0 && pread(fd, &last, sizeof last, end - (off_t)sizeof last) != (ssize_t)sizeof last)
        last = (struct mob_log_index){0};
    uint64_t noted = last.offset + last.bytes, size = (uint64_t)log.st_size;
    uint64_t unnoted = size > noted ? size - noted : 0;
    bool marked = end > 0 && last.bytes == 0; /* up to the file's end already */
    struct mob_log_index rest = {task, noted, unnoted < UINT32_MAX ? (uint32_t)unnoted : UINT32_MAX, attempt};
    /* after half an entry nothing could be read behind it */
    if (!marked && unnoted > 0 && index.st_size == end && write(fd, &rest, sizeof rest) < 0)
        MOB_LOG_WARN("pool", "log_index_not_written", "worker=%u", worker);
    close(fd);
}

void mob_pool_check_logs(struct mob_pool *pool)
{
    for (uint32_t i = 0; i < pool->count; i++) {
        char name[MOB_LOG_NAME_MAX];
        struct stat st;
        mob_worker_log_name(pool->config.log_dir, pool->workers[i].number, "log", name);
        if (stat(name, &st) == 0 && (uint64_t)st.st_size > 4 * pool->config.log_bytes_max &&
            truncate(name, 0) == 0)
            MOB_LOG_WARN(
                "pool", "log_cut", "worker=%u bytes=%lld", pool->workers[i].number, (long long)st.st_size);
    }
}
