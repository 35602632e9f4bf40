/* A pool of workers that are the test: it defines what runtime/node calls of runtime/worker's pool. Started
 * ones are there at once; they end when the test says so. One thread. */
#ifndef MOB_TESTS_UNIT_RUNTIME_NODE_FAKE_POOL_H
#define MOB_TESTS_UNIT_RUNTIME_NODE_FAKE_POOL_H

#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "common/base/log.h"
#include "runtime/worker/pool.h"

enum { FAKE_WORKERS_MAX = 64 };

struct fake_worker {
    struct mob_session_welcome welcome;
    uint32_t number;
};
struct mob_pool {
    int fd;
    struct mob_pool_event events[FAKE_WORKERS_MAX];
    uint32_t event_count;
    struct fake_worker started[FAKE_WORKERS_MAX]; /* oldest first */
    uint32_t started_count;
};

enum mob_status mob_pool_create(const struct mob_pool_options *options, struct mob_pool **pool_out)
{
    (void)options;
    struct mob_pool *pool = calloc(1, sizeof *pool);
    MOB_ASSERT(pool);
    pool->fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    *pool_out = pool;
    return MOB_OK;
}

void mob_pool_destroy(struct mob_pool *pool)
{
    if (!pool)
        return;
    close(pool->fd);
    free(pool);
}

int mob_pool_fd(const struct mob_pool *pool)
{
    return pool->fd;
}

static inline void fake_pool_add(struct mob_pool *pool, struct mob_pool_event event)
{
    uint64_t one = 1;
    MOB_ASSERT(pool->event_count < FAKE_WORKERS_MAX && write(pool->fd, &one, sizeof one) == sizeof one);
    pool->events[pool->event_count++] = event;
}

static inline void fake_pool_say(struct mob_pool *pool, enum mob_pool_event_kind kind, uint32_t worker)
{
    fake_pool_add(pool, (struct mob_pool_event){.kind = kind, .worker = worker, .wait_status = 9});
}

enum mob_status mob_pool_start(struct mob_pool *pool, uint32_t worker,
    const struct mob_session_welcome *welcome, int memfd, int event_fd)
{
    (void)memfd;
    (void)event_fd;
    MOB_ASSERT(pool->started_count < FAKE_WORKERS_MAX);
    pool->started[pool->started_count++] = (struct fake_worker){*welcome, worker};
    fake_pool_say(pool, MOB_POOL_STARTED, worker);
    return MOB_OK;
}

bool mob_pool_step(struct mob_pool *pool, struct mob_pool_event *event_out)
{
    uint64_t count;
    ssize_t n = read(pool->fd, &count, sizeof count);
    (void)n;
    if (pool->event_count == 0)
        return false;
    *event_out = pool->events[0];
    memmove(pool->events, pool->events + 1, --pool->event_count * sizeof *pool->events);
    return true;
}

size_t mob_pool_log_tail(struct mob_pool *pool, uint32_t worker, unsigned lines, char *out, size_t size)
{
    (void)pool, (void)worker, (void)lines, (void)out, (void)size;
    return 0;
}

size_t mob_pool_log_read(struct mob_pool *pool, const struct mob_pool_output *output, uint64_t offset,
    void *out, size_t size, uint64_t *total_out)
{
    (void)pool, (void)output, (void)offset, (void)out, (void)size;
    *total_out = 0;
    return 0;
}

void mob_pool_log_died(struct mob_pool *pool, uint32_t worker, struct mob_task_id task, uint32_t attempt)
{
    (void)pool, (void)worker, (void)task, (void)attempt;
}

void mob_pool_check_logs(struct mob_pool *pool)
{
    (void)pool;
}

#endif
