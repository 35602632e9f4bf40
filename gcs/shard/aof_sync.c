#include "gcs/shard/aof_sync.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/failpoint.h"
#include "common/base/log.h"

#define FILES_MAX 64 /* names seen in the last listing; a rewrite leaves 4 */
#define RESCANS_MAX 100

struct mob_aof_sync {
    char *directory;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    int event_fd;
    /* under lock */
    bool busy, stop, has_result;
    uint64_t seq;
    struct mob_aof_sync_result result;
    /* the thread's */
    char names[FILES_MAX][64];
    int name_count;
};

static bool is_temporary(const char *name)
{
    return name[0] == '.' || strncmp(name, "temp", 4) == 0;
}

static bool known(const struct mob_aof_sync *s, const char *name)
{
    for (int i = 0; i < s->name_count; i++)
        if (strcmp(s->names[i], name) == 0)
            return true;
    return false;
}

/* MOB_AGAIN: it vanished. */
static enum mob_status sync_file(int dir, const char *name)
{
    int fd = openat(dir, name, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT ? MOB_AGAIN : MOB_IO;
    bool failed = fdatasync(fd) != 0;
    if (MOB_FAILPOINT("gcs.aof_sync"))
        failed = true;
    close(fd);
    return failed ? MOB_IO : MOB_OK;
}

static enum mob_status sync_listing(struct mob_aof_sync *s, DIR *listing)
{
    int dir = dirfd(listing);
    char names[FILES_MAX][64];
    int count = 0;
    bool new_name = false;
    for (struct dirent *e; (e = readdir(listing)) != NULL;) {
        if (is_temporary(e->d_name))
            continue;
        if (count == FILES_MAX || strlen(e->d_name) >= sizeof names[0])
            return MOB_IO;
        enum mob_status status = sync_file(dir, e->d_name);
        if (status != MOB_OK)
            return status;
        new_name = new_name || !known(s, e->d_name);
        memcpy(names[count++], e->d_name, strlen(e->d_name) + 1);
    }
    if (new_name && fsync(dir) != 0)
        return MOB_IO;
    memcpy(s->names, names, sizeof names);
    s->name_count = count;
    return MOB_OK;
}

static enum mob_status sync_once(struct mob_aof_sync *s)
{
    enum mob_status status = MOB_AGAIN;
    for (int i = 0; i < RESCANS_MAX && status == MOB_AGAIN; i++) {
        DIR *listing = opendir(s->directory);
        if (listing == NULL)
            return MOB_IO;
        status = sync_listing(s, listing);
        closedir(listing);
    }
    return status == MOB_AGAIN ? MOB_IO : status;
}

static void *sync_thread(void *arg)
{
    struct mob_aof_sync *s = arg;
    pthread_mutex_lock(&s->lock);
    while (!s->stop) {
        if (!s->busy || s->has_result) {
            pthread_cond_wait(&s->wake, &s->lock);
            continue;
        }
        struct mob_aof_sync_result result = {.seq = s->seq};
        pthread_mutex_unlock(&s->lock);
        int64_t start = mob_now();
        result.status = sync_once(s);
        result.took_ns = mob_now() - start;
        if (result.status != MOB_OK)
            MOB_LOG_ERROR("gcs", "aof_sync_failed", "directory=%s errno=%d", s->directory, errno);
        pthread_mutex_lock(&s->lock);
        s->result = result;
        s->has_result = true;
        (void)!write(s->event_fd, &(uint64_t){1}, 8);
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

enum mob_status mob_aof_sync_create(const char *directory, struct mob_aof_sync **sync_out)
{
    enum mob_status status = MOB_NO_MEMORY;
    struct mob_aof_sync *s = calloc(1, sizeof *s);
    if (s == NULL)
        return status;
    s->directory = strdup(directory);
    if (s->directory == NULL)
        goto err_free;
    status = MOB_IO;
    s->event_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (s->event_fd < 0)
        goto err_directory;
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->wake, NULL);
    if (pthread_create(&s->thread, NULL, sync_thread, s) != 0)
        goto err_event;
    *sync_out = s;
    return MOB_OK;
err_event:
    pthread_cond_destroy(&s->wake);
    pthread_mutex_destroy(&s->lock);
    close(s->event_fd);
err_directory:
    free(s->directory);
err_free:
    free(s);
    return status;
}

void mob_aof_sync_destroy(struct mob_aof_sync *s)
{
    if (s == NULL)
        return;
    pthread_mutex_lock(&s->lock);
    s->stop = true;
    pthread_cond_signal(&s->wake);
    pthread_mutex_unlock(&s->lock);
    pthread_join(s->thread, NULL);
    pthread_cond_destroy(&s->wake);
    pthread_mutex_destroy(&s->lock);
    close(s->event_fd);
    free(s->directory);
    free(s);
}

int mob_aof_sync_fd(const struct mob_aof_sync *s)
{
    return s->event_fd;
}

bool mob_aof_sync_request(struct mob_aof_sync *s, uint64_t seq)
{
    pthread_mutex_lock(&s->lock);
    bool start = !s->busy;
    if (start) {
        s->busy = true;
        s->seq = seq;
        pthread_cond_signal(&s->wake);
    }
    pthread_mutex_unlock(&s->lock);
    return start;
}

bool mob_aof_sync_result(struct mob_aof_sync *s, struct mob_aof_sync_result *out)
{
    uint64_t n;
    (void)!read(s->event_fd, &n, sizeof n);
    pthread_mutex_lock(&s->lock);
    bool has = s->has_result;
    if (has) {
        *out = s->result;
        s->has_result = s->busy = false;
    }
    pthread_mutex_unlock(&s->lock);
    return has;
}
