/* Suite gcs: chains of one, two and three members as processes on this machine, each member with its own
 * Redis, against a plain Redis on the same kind of socket in the same run. docs/performance.md says what each
 * row does. */
#include <errno.h>
#include <hiredis/hiredis.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "bench/block_load.h"
#include "bench/gcs_putter.h"
#include "bench/harness.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "tests/support/chain_box.h"

#define VALUE_BYTES GCS_PUTTER_VALUE_BYTES

/* ---- gcs_put_N: one request in flight ---- */

static redisContext *plain_redis(struct gcs_box *box)
{
    char path[128], password[160];
    snprintf(path, sizeof path, "%s/redis.pass", box->directory);
    FILE *file = fopen(path, "re");
    char *line = file == NULL ? NULL : fgets(password, sizeof password, file);
    if (file != NULL)
        fclose(file);
    snprintf(path, sizeof path, "%s/redis.sock", box->directory);
    redisContext *redis = line == NULL ? NULL : redisConnectUnix(path);
    if (redis != NULL && !redis->err)
        freeReplyObject(redisCommand(redis, "AUTH mobula %s", password));
    return redis;
}

static double one_set_us(redisContext *redis, int i)
{
    static uint8_t value[VALUE_BYTES];
    int64_t begin = bench_now();
    freeReplyObject(redisCommand(redis, "SET key-%020d %b", i % 20000, value, (size_t)VALUE_BYTES));
    return (double)(bench_now() - begin) / 1e3;
}

/* Sets and puts in turn, so that both see the same machine. */
static void measure_put(struct bench *b, const char *name, uint32_t members, redisContext *redis)
{
    enum { N_MAX = 5000 };
    static double put_us[N_MAX], set_us[N_MAX];
    static struct chain_box box;
    int n = b->options.quick ? 500 : N_MAX;
    if (!bench_wanted(b, name))
        return;
    if (!gcs_chain_open(&box, members)) {
        bench_miss(b, name, "the chain does not come up");
        chain_box_fini(&box);
        return;
    }
    struct gcs_putter p = {.gcs = chain_box_client(&box)};
    for (int i = 0; i < 200; i++)
        gcs_putter_put(&p, (uint64_t)i);
    for (int i = 0; i < n; i += 50) {
        for (int k = i; k < i + 50; k++)
            set_us[k] = one_set_us(redis, k);
        for (int k = i; k < i + 50; k++) {
            int64_t begin = bench_now();
            gcs_putter_put(&p, (uint64_t)k);
            put_us[k] = (double)(bench_now() - begin) / 1e3;
        }
    }
    double p50 = bench_percentile(put_us, n, 50);
    if (p.failed)
        bench_miss(b, name, "a put failed");
    else
        bench_row(b,
            &(struct bench_row){.name = name,
                .value = p50,
                .unit = "us",
                .baseline = bench_percentile(set_us, n, 50),
                .against = "us, p50 of one Redis SET",
                .n = n,
                .p50_us = p50,
                .p99_us = bench_percentile(put_us, n, 99),
                .commit = "committed"});
    mob_gcs_destroy(p.gcs);
    chain_box_fini(&box);
}

/* ---- gcs_ops: sixty connections with one request each in flight, from one thread ---- */

static double redis_ops(struct gcs_box *box, double seconds)
{
    static redisContext *redis[GCS_CONNECTIONS];
    static uint8_t value[VALUE_BYTES];
    int epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    for (uint32_t i = 0; i < GCS_CONNECTIONS; i++) {
        redis[i] = plain_redis(box);
        if (redis[i] == NULL || redis[i]->err)
            return 0;
        struct epoll_event event = {.events = EPOLLIN, .data.u32 = i};
        epoll_ctl(epoll_fd, EPOLL_CTL_ADD, redis[i]->fd, &event);
        redis[i]->flags &= ~REDIS_BLOCK;
    }
    int64_t begin = bench_now(), end = begin + (int64_t)(seconds * 1e9);
    uint64_t done = 0, number = 0;
    int written = 0;
    for (int i = 0; i < (int)GCS_CONNECTIONS; i++) {
        redisAppendCommand(redis[i], "SET key-%020llu %b", (unsigned long long)(number++ % 20000), value,
            (size_t)VALUE_BYTES);
        redisBufferWrite(redis[i], &written);
    }
    while (bench_now() < end) {
        struct epoll_event events[GCS_CONNECTIONS];
        int n = epoll_wait(epoll_fd, events, GCS_CONNECTIONS, 100);
        for (int i = 0; i < n; i++) {
            redisContext *r = redis[events[i].data.u32];
            void *reply = NULL;
            if (redisBufferRead(r) != REDIS_OK || redisGetReplyFromReader(r, &reply) != REDIS_OK ||
                reply == NULL)
                continue;
            freeReplyObject(reply);
            done++;
            redisAppendCommand(
                r, "SET key-%020llu %b", (unsigned long long)(number++ % 20000), value, (size_t)VALUE_BYTES);
            redisBufferWrite(r, &written);
        }
    }
    double rate = (double)done / ((double)(bench_now() - begin) / 1e9);
    for (int i = 0; i < (int)GCS_CONNECTIONS; i++)
        redisFree(redis[i]);
    close(epoll_fd);
    return rate;
}

static void measure_ops(struct bench *b, struct gcs_box *plain)
{
    static struct chain_box box;
    double rate[3], set[3];
    bool failed = false;
    int n = b->options.quick ? 1 : 3;
    if (!bench_wanted(b, "gcs_ops"))
        return;
    if (!gcs_chain_open(&box, 2)) {
        bench_miss(b, "gcs_ops", "the chain does not come up");
        chain_box_fini(&box);
        return;
    }
    for (int i = 0; i < n; i++) {
        set[i] = redis_ops(plain, b->options.quick ? 0.5 : 2);
        rate[i] = gcs_putters_rate(box.clients, b->options.quick ? 0.5 : 2, &failed);
    }
    if (failed)
        bench_miss(b, "gcs_ops", "a put failed");
    else
        bench_row(b,
            &(struct bench_row){.name = "gcs_ops",
                .value = bench_median(rate, n),
                .unit = "1/s",
                .baseline = bench_median(set, n),
                .against = "Redis SETs a second from as many connections",
                .n = n,
                .commit = "committed"});
    chain_box_fini(&box);
}

/* ---- gcs_blocks ---- */

static void measure_blocks(struct bench *b, const char *name, uint32_t members)
{
    static struct chain_box box;
    struct block_load load;
    double seconds = b->options.quick ? 0.5 : 3;
    if (!bench_wanted(b, name))
        return;
    if (!gcs_chain_open(&box, members)) {
        bench_miss(b, name, "the chain does not come up");
        chain_box_fini(&box);
        return;
    }
    block_load_open(&load, chain_box_client(&box), 32, 0);
    int64_t begin = bench_now();
    block_load_run(&load, seconds);
    double tasks = (double)load.acked * BLOCK_LOAD_TASKS, took = (double)(bench_now() - begin) / 1e9;
    bench_row(b,
        &(struct bench_row){.name = name,
            .value = tasks / took,
            .unit = "1/s",
            .baseline = b->redis_block_tasks,
            .against = "tasks a second, specs of 200 B in blocks into Redis",
            .n = tasks,
            .commit = "committed"});
    block_load_wait(&load, true);
    mob_gcs_destroy(load.gcs);
    block_load_fini(&load);
    chain_box_fini(&box);
}

void suite_gcs(struct bench *b)
{
    static struct gcs_box plain;
    setenv("MOBULA_BIN_DIR", b->options.binaries, 1);
    gcs_box_init(&plain, BENCH_DURABILITY);
    gcs_box_start_redis(&plain);
    redisContext *redis = plain_redis(&plain);
    if (redis == NULL || redis->err) {
        bench_miss(b, "gcs_put_1", "the private redis-server does not answer");
    } else {
        measure_put(b, "gcs_put_1", 1, redis);
        measure_put(b, "gcs_put_2", 2, redis);
        measure_put(b, "gcs_put_3", 3, redis);
        measure_ops(b, &plain);
        measure_blocks(b, "gcs_blocks_1", 1);
        measure_blocks(b, "gcs_blocks", 2);
        gcs_measure_failover(b);
        gcs_measure_join(b);
        gcs_measure_overhead(b);
        gcs_measure_scale(b);
    }
    if (redis != NULL)
        redisFree(redis);
    gcs_box_fini(&plain);
}
