#include "bench/gcs_setter.h"

#include <stdint.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "bench/gcs_putter.h"
#include "bench/harness.h"
#include "common/base/clock.h"

#define KEYS 20000u

redisContext *gcs_plain_redis(const char *directory)
{
    char path[128], password[160];
    snprintf(path, sizeof path, "%s/redis.pass", directory);
    FILE *file = fopen(path, "re");
    char *line = file == NULL ? NULL : fgets(password, sizeof password, file);
    if (file != NULL)
        fclose(file);
    snprintf(path, sizeof path, "%s/redis.sock", directory);
    redisContext *redis = line == NULL ? NULL : redisConnectUnix(path);
    if (redis != NULL && !redis->err)
        freeReplyObject(redisCommand(redis, "AUTH mobula %s", password));
    return redis;
}

static struct setters {
    redisContext *each[GCS_CONNECTIONS];
    int epoll_fd;
    uint64_t number; /* of the next SET */
    struct mob_yielder yielder;
} setters;

bool gcs_setters_open(const char *directory)
{
    setters = (struct setters){.epoll_fd = epoll_create1(EPOLL_CLOEXEC)};
    for (uint32_t i = 0; i < GCS_CONNECTIONS; i++) {
        redisContext *redis = setters.each[i] = gcs_plain_redis(directory);
        if (redis == NULL || redis->err)
            return false;
        struct epoll_event event = {.events = EPOLLIN, .data.u32 = i};
        epoll_ctl(setters.epoll_fd, EPOLL_CTL_ADD, redis->fd, &event);
        redis->flags &= ~REDIS_BLOCK;
    }
    return true;
}

static void next_set(redisContext *redis)
{
    static uint8_t value[GCS_PUTTER_VALUE_BYTES];
    int written = 0;
    redisAppendCommand(redis, "SET key-%020llu %b", (unsigned long long)(setters.number++ % KEYS), value,
        (size_t)GCS_PUTTER_VALUE_BYTES);
    redisBufferWrite(redis, &written);
}

/* Whoever has its answer sets again. Returns how many had. */
static uint64_t setters_turn(void)
{
    struct epoll_event events[GCS_CONNECTIONS];
    uint64_t answers = 0;
    int n = gcs_generator_wait(setters.epoll_fd, &setters.yielder, events);
    for (int i = 0; i < n; i++) {
        redisContext *redis = setters.each[events[i].data.u32];
        void *reply = NULL;
        if (redisBufferRead(redis) != REDIS_OK || redisGetReplyFromReader(redis, &reply) != REDIS_OK ||
            reply == NULL)
            continue;
        freeReplyObject(reply);
        answers++;
        next_set(redis);
    }
    return answers;
}

double gcs_setters_run(double seconds)
{
    uint64_t done = 0;
    int64_t begin = bench_now(), end = begin + (int64_t)(seconds * 1e9);
    for (uint32_t i = 0; i < GCS_CONNECTIONS; i++)
        next_set(setters.each[i]);
    while (bench_now() < end)
        done += setters_turn();
    return (double)done / ((double)(bench_now() - begin) / 1e9);
}

void gcs_setters_close(void)
{
    for (uint32_t i = 0; i < GCS_CONNECTIONS; i++)
        redisFree(setters.each[i]);
    close(setters.epoll_fd);
}

double gcs_setters_rate(const char *directory, double seconds)
{
    double rate = gcs_setters_open(directory) ? gcs_setters_run(seconds) : 0;
    gcs_setters_close();
    return rate;
}
