#include "runtime/node/durable_puts.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "runtime/node/large_hashes.h"

enum { WRITE_CHUNK_BYTES = 8 << 20, FAILED_MAX = 256, LONG_WRITE_BYTES = 1 << 20 };

/* One object on its way to disk. The thread reads only what stands above the line. */
struct durable_write {
    struct durable_write *next;
    char path[NODE_PATH_MAX + 80];
    const uint8_t *bytes; /* in the segment; kept from eviction until the write has ended */
    uint64_t size;
    int64_t begin_ns; /* not before */
    enum mob_status status;
    struct mob_object_id id;
    uint32_t slot, session; /* who put it */
    uint64_t hold;
};

struct durable_puts {
    struct node *node;
    struct durable_write *failed; /* nobody was told yet, newest first; at most FAILED_MAX */
    uint64_t newest_hold;
    int event_fd;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    bool stopping;
    struct durable_write *queue, **queue_end; /* under lock */
    struct durable_write *done; /* under lock */
};

static void path_of(const struct durable_puts *puts, struct mob_object_id id, char *out, size_t capacity)
{
    char text[MOB_ID_TEXT_MAX];
    snprintf(out, capacity, "%s/objects/%s", puts->node->options.directory, mob_object_id_format(id, text));
}

static enum mob_status disk_error(void)
{
    return errno == ENOSPC || errno == EDQUOT ? MOB_DISK_FULL : MOB_IO;
}

static enum mob_status write_bytes(int fd, const uint8_t *bytes, uint64_t size)
{
    while (size > 0) {
        ssize_t n = write(fd, bytes, size < WRITE_CHUNK_BYTES ? size : WRITE_CHUNK_BYTES);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return disk_error();
        bytes += n;
        size -= (uint64_t)n;
    }
    return MOB_OK;
}

/* Under its name only when it is whole: a torn file has another one. */
static enum mob_status write_file(const struct durable_write *w)
{
    char temporary[sizeof w->path + 8];
    snprintf(temporary, sizeof temporary, "%s.new", w->path);
    int fd = open(temporary, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600);
    if (fd < 0)
        return disk_error();
    enum mob_status status = write_bytes(fd, w->bytes, w->size);
    if (status == MOB_OK && fdatasync(fd) != 0)
        status = disk_error();
    close(fd);
    if (status == MOB_OK && rename(temporary, w->path) != 0)
        status = disk_error();
    if (status != MOB_OK)
        unlink(temporary);
    return status;
}

/* Its putter goes on first. */
static void rest(const struct durable_write *w)
{
    struct timespec until = {.tv_sec = w->begin_ns / MOB_SEC, .tv_nsec = w->begin_ns % MOB_SEC};
    while (
        w->size > LONG_WRITE_BYTES && clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
        continue;
}

static void *writer(void *arg)
{
    struct durable_puts *puts = arg;
    pthread_mutex_lock(&puts->lock);
    for (;;) {
        while (!puts->queue && !puts->stopping)
            pthread_cond_wait(&puts->wake, &puts->lock);
        struct durable_write *w = puts->queue;
        if (!w)
            break;
        puts->queue = w->next;
        if (!puts->queue)
            puts->queue_end = &puts->queue;
        pthread_mutex_unlock(&puts->lock);
        rest(w);
        w->status = write_file(w);
        pthread_mutex_lock(&puts->lock);
        w->next = puts->done;
        puts->done = w;
        uint64_t one = 1;
        ssize_t n = write(puts->event_fd, &one, sizeof one);
        (void)n; /* a full counter is readable all the same */
    }
    pthread_mutex_unlock(&puts->lock);
    return NULL;
}

enum mob_status durable_puts_create(struct node *node, struct durable_puts **out)
{
    char folder[NODE_PATH_MAX + 16];
    struct durable_puts *puts = calloc(1, sizeof *puts);
    if (!puts)
        return MOB_NO_MEMORY;
    puts->node = node;
    puts->queue_end = &puts->queue;
    snprintf(folder, sizeof folder, "%s/objects", node->options.directory);
    puts->event_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    pthread_mutex_init(&puts->lock, NULL);
    pthread_cond_init(&puts->wake, NULL);
    if ((mkdir(folder, 0700) != 0 && errno != EEXIST) || puts->event_fd < 0 ||
        pthread_create(&puts->thread, NULL, writer, puts) != 0) {
        MOB_LOG_ERROR("puts", "not_started", "folder=%s errno=%d", folder, errno);
        if (puts->event_fd >= 0)
            close(puts->event_fd);
        free(puts);
        return MOB_IO;
    }
    *out = puts;
    return MOB_OK;
}

static void free_list(struct durable_write *first)
{
    while (first) {
        struct durable_write *next = first->next;
        free(first);
        first = next;
    }
}

void durable_puts_destroy(struct durable_puts *puts)
{
    if (!puts)
        return;
    pthread_mutex_lock(&puts->lock);
    puts->stopping = true;
    pthread_cond_signal(&puts->wake);
    pthread_mutex_unlock(&puts->lock);
    pthread_join(puts->thread, NULL);
    free_list(puts->done);
    free_list(puts->failed);
    close(puts->event_fd);
    free(puts);
}

int durable_puts_fd(const struct durable_puts *puts)
{
    return puts->event_fd;
}

/* For its putter's next flush. It stays in memory and is never dropped for lineage; the next end of the node
 * would lose it. Those of sessions that have ended, and the oldest beyond the bound, are told to nobody. */
static void remember_failed(struct durable_puts *puts, struct durable_write *w)
{
    char id[MOB_ID_TEXT_MAX];
    MOB_LOG_ERROR("puts", "not_kept", "object=%s bytes=%lu status=%s", mob_object_id_format(w->id, id),
        w->size, mob_status_code(w->status));
    w->next = puts->failed;
    puts->failed = w;
    uint32_t count = 0;
    for (struct durable_write **at = &puts->failed; *at;) {
        struct durable_write *f = *at;
        if (count < FAILED_MAX && node_client_is(puts->node, f->slot, f->session)) {
            at = &f->next;
            count++;
            continue;
        }
        *at = f->next;
        free(f);
    }
}

static void ended(struct durable_puts *puts, struct durable_write *w)
{
    struct node *node = puts->node;
    uint64_t hold = w->hold;
    mob_store_object_keep(node->store, w->id, false);
    if (w->status == MOB_OK) {
        if (!large_hashes_copied(node, w->id)) /* the file is its other copy */
            mob_store_object_committed(node->store, w->id, true);
        free(w);
    } else {
        remember_failed(puts, w);
    }
    lineage_log_release(node->log, hold); /* who waits is told now */
}

uint64_t durable_puts_newest(const struct durable_puts *puts)
{
    return puts->newest_hold;
}

enum mob_status durable_puts_failed(
    struct durable_puts *puts, uint32_t slot, uint32_t session, uint64_t newest, char *text, size_t capacity)
{
    enum mob_status status = MOB_OK;
    size_t used = 0;
    char id[MOB_ID_TEXT_MAX];
    for (struct durable_write **at = &puts->failed; *at;) {
        struct durable_write *w = *at;
        if (w->slot != slot || w->session != session || w->hold > newest) {
            at = &w->next;
            continue;
        }
        status = w->status;
        if (used < capacity)
            used += (size_t)snprintf(text + used, capacity - used, "%s%s",
                used == 0 ? MOB_FLUSH_NOT_KEPT : " ", mob_object_id_format(w->id, id));
        *at = w->next;
        free(w);
    }
    return status;
}

void durable_puts_step(struct durable_puts *puts)
{
    uint64_t count;
    ssize_t n = read(puts->event_fd, &count, sizeof count);
    (void)n;
    pthread_mutex_lock(&puts->lock);
    struct durable_write *w = puts->done;
    puts->done = NULL;
    pthread_mutex_unlock(&puts->lock);
    while (w) {
        struct durable_write *next = w->next;
        ended(puts, w);
        w = next;
    }
}

void durable_puts_write(struct durable_puts *puts, const struct node_client *client, struct mob_object_id id)
{
    struct node *node = puts->node;
    enum mob_value_type type;
    struct durable_write *w = calloc(1, sizeof *w);
    MOB_ASSERT(w);
    w->id = id;
    w->slot = client->slot;
    w->session = client->session;
    w->begin_ns = node->now_ns + LARGE_REST_NS;
    mob_store_object_keep(node->store, id, true);
    if (mob_store_object_bytes(node->store, id, false, &type, &w->bytes, &w->size) != MOB_OK) {
        mob_store_object_keep(node->store, id, false);
        free(w);
        return; /* its maker took it back before it was sealed: nothing to keep */
    }
    path_of(puts, id, w->path, sizeof w->path);
    w->hold = puts->newest_hold = lineage_log_hold(node->log);
    pthread_mutex_lock(&puts->lock);
    *puts->queue_end = w;
    puts->queue_end = &w->next;
    pthread_cond_signal(&puts->wake);
    pthread_mutex_unlock(&puts->lock);
}

enum mob_status durable_puts_restore(struct durable_puts *puts, struct mob_object_id id)
{
    char path[NODE_PATH_MAX + 80];
    struct stat info;
    struct mob_value_view view;
    path_of(puts, id, path, sizeof path);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return MOB_NOT_FOUND;
    enum mob_status status = MOB_CORRUPT;
    void *bytes = MAP_FAILED;
    bool there = fstat(fd, &info) == 0;
    if (there && info.st_size == 0)
        status = MOB_OBJECT_LOST; /* removed */
    else if (there)
        bytes = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    close(fd);
    if (bytes == MAP_FAILED)
        return status;
    status = mob_value_open(bytes, (uint64_t)info.st_size, &view);
    if (status == MOB_OK)
        status = mob_value_verify(bytes, (uint64_t)info.st_size);
    if (status == MOB_OK)
        status = mob_store_object_put(puts->node->store, id, view.type, false, bytes, (uint64_t)info.st_size);
    munmap(bytes, (size_t)info.st_size);
    return status == MOB_EXISTS ? MOB_OK : status;
}

void durable_puts_remove(struct durable_puts *puts, struct mob_object_id id)
{
    char path[NODE_PATH_MAX + 80];
    path_of(puts, id, path, sizeof path);
    if (truncate(path, 0) != 0 && errno != ENOENT)
        MOB_LOG_WARN("puts", "not_removed", "path=%s errno=%d", path, errno);
}
