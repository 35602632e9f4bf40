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
#include "bench/gcs_setter.h"
#include "bench/harness.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "tests/support/chain_box.h"

#define VALUE_BYTES GCS_PUTTER_VALUE_BYTES

/* ---- gcs_put_N: one request in flight ---- */

static double one_set_us(redisContext *redis, int i)
{
    static uint8_t value[VALUE_BYTES];
    int64_t begin = bench_now();
    freeReplyObject(redisCommand(redis, "SET key-%020d %b", i % 20000, value, (size_t)VALUE_BYTES));
    return (double)(bench_now() - begin) / 1e3;
}

/* The main thread of `redis`, and this thread, on one core (`together`), or as before. False: not allowed. */
static bool place_together(pid_t redis, bool together)
{
    static cpu_set_t before;
    cpu_set_t one;
    if (!together)
        return sched_setaffinity(0, sizeof before, &before) == 0 &&
            sched_setaffinity(redis, sizeof before, &before) == 0;
    int core = sched_getcpu();
    if (core < 0 || sched_getaffinity(0, sizeof before, &before) != 0)
        return false;
    CPU_ZERO(&one);
    CPU_SET((unsigned)core, &one);
    return sched_setaffinity(0, sizeof one, &one) == 0 && sched_setaffinity(redis, sizeof one, &one) == 0;
}

enum { PUTS_MAX = 5000, PUTS_A_TURN = 50 };
struct put_times {
    double put[PUTS_MAX], set[PUTS_MAX], set_together[PUTS_MAX];
};

/* One SET takes 16 us when the scheduler has client and Redis on one core, and 42 when it has them on two,
 * the other of which halts before each of the two wakes; which of the two a run gets is chance, and lasts for
 * seconds. Puts have no such choice. So it is measured both ways, and the faster one counts. All three in
 * turns of a few milliseconds, so that they see the same machine. */
static bool time_puts(struct put_times *t, int n, struct gcs_putter *p, redisContext *redis, pid_t redis_pid)
{
    for (int i = 0; i < 200; i++)
        gcs_putter_put(p, (uint64_t)i);
    for (int i = 0; i < n; i += PUTS_A_TURN) {
        for (int k = i; k < i + PUTS_A_TURN; k++)
            t->set[k] = one_set_us(redis, k);
        if (!place_together(redis_pid, true))
            return false;
        for (int k = i; k < i + PUTS_A_TURN; k++)
            t->set_together[k] = one_set_us(redis, k);
        if (!place_together(redis_pid, false))
            return false;
        for (int k = i; k < i + PUTS_A_TURN; k++) {
            int64_t begin = bench_now();
            gcs_putter_put(p, (uint64_t)k);
            t->put[k] = (double)(bench_now() - begin) / 1e3;
        }
    }
    return !p->failed;
}

static void tell_puts(struct bench *b, const char *name, struct put_times *t, int n)
{
    double put = bench_percentile(t->put, n, 50), set = bench_percentile(t->set, n, 50),
           together = bench_percentile(t->set_together, n, 50);
    char extra[96];
    snprintf(extra, sizeof extra, "\"set_us\":%.2f,\"set_same_core_us\":%.2f", set, together);
    bench_row(b,
        &(struct bench_row){.name = name,
            .value = put,
            .unit = "us",
            .baseline = set < together ? set : together,
            .against = "us, p50 of one Redis SET, the faster of as scheduled and on one core",
            .n = n,
            .p50_us = put,
            .p99_us = bench_percentile(t->put, n, 99),
            .commit = "committed",
            .extra = extra});
}

static void measure_put(struct bench *b, const char *name, uint32_t members, redisContext *redis, pid_t pid)
{
    static struct put_times times;
    static struct chain_box box;
    int n = b->options.quick ? PUTS_MAX / 10 : PUTS_MAX;
    if (!bench_wanted(b, name))
        return;
    if (!gcs_chain_open(&box, &(struct gcs_chain){.members = members})) {
        bench_miss(b, name, "the chain does not come up");
        chain_box_fini(&box);
        return;
    }
    struct gcs_putter p = {.gcs = chain_box_client(&box)};
    if (time_puts(&times, n, &p, redis, pid))
        tell_puts(b, name, &times, n);
    else
        bench_miss(b, name, "a put failed, or processes cannot be put on a core");
    mob_gcs_destroy(p.gcs);
    chain_box_fini(&box);
}

/* ---- gcs_ops: sixty connections with one request each in flight, from one thread ---- */

/* The loops of both members on the last core, those of their Redis on the first, as `gcs-cpus` binds them,
 * and this thread there too (`apart`); or all as before. False: not allowed, or there is one core only. */
static bool place_apart(const struct chain_box *box, bool apart)
{
    static cpu_set_t before;
    cpu_set_t first, last;
    if (apart && (sched_getaffinity(0, sizeof before, &before) != 0 || CPU_COUNT(&before) < 2))
        return false;
    first = last = before;
    if (apart) {
        unsigned low = 0, high = CPU_SETSIZE - 1;
        while (!CPU_ISSET(low, &before))
            low++;
        while (!CPU_ISSET(high, &before))
            high--;
        CPU_ZERO(&first);
        CPU_ZERO(&last);
        CPU_SET(low, &first);
        CPU_SET(high, &last);
    }
    bool placed = sched_setaffinity(0, sizeof first, &first) == 0;
    for (uint32_t i = 0; i < box->members; i++)
        placed = sched_setaffinity(box->member[i].gcs, sizeof last, &last) == 0 &&
            sched_setaffinity(box->member[i].redis, sizeof first, &first) == 0 && placed;
    return placed;
}

enum { OPS_ROUNDS = 3 };
struct ops_rates {
    double put[OPS_ROUNDS], put_apart[OPS_ROUNDS], set[OPS_ROUNDS];
    struct gcs_putters_sum sum, sum_apart;
};

/* Members and their client find two cores in more than one way, and which of them the scheduler keeps to for
 * seconds is chance; it never moves who yields. So puts are measured as scheduled, and with members bound to
 * a core, and the faster way counts. Redis has one loop, and nobody to share its core with. */
static bool time_ops(struct ops_rates *r, int n, double seconds, struct chain_box *box, struct gcs_box *plain)
{
    for (int i = 0; i < n; i++) {
        r->set[i] = gcs_setters_rate(plain->directory, seconds);
        r->put[i] = gcs_putters_rate(box, box->clients, seconds, &r->sum);
        bool apart = place_apart(box, true);
        r->put_apart[i] = apart ? gcs_putters_rate(box, box->clients, seconds, &r->sum_apart) : 0;
        if (apart && !place_apart(box, false))
            return false;
    }
    return true;
}

static void tell_ops(struct bench *b, struct ops_rates *r, int n)
{
    char extra[256];
    double put = bench_median(r->put, n), apart = bench_median(r->put_apart, n);
    struct gcs_chain_cpu each = gcs_putters_each(apart > put ? &r->sum_apart : &r->sum);
    snprintf(extra, sizeof extra,
        "\"as_scheduled\":%.0f,\"members_bound\":%.0f,\"us_client\":%.2f,\"us_head\":%.2f,"
        "\"us_head_store\":%.2f,\"us_tail\":%.2f,\"us_tail_store\":%.2f",
        put, apart, each.client / 1e3, each.head / 1e3, each.head_store / 1e3, each.tail / 1e3,
        each.tail_store / 1e3);
    bench_row(b,
        &(struct bench_row){.name = "gcs_ops",
            .value = apart > put ? apart : put,
            .unit = "1/s",
            .baseline = bench_median(r->set, n),
            .against = "Redis SETs a second from as many connections",
            .n = n,
            .commit = "committed",
            .extra = extra});
}

static void measure_ops(struct bench *b, struct gcs_box *plain)
{
    static struct chain_box box;
    static struct ops_rates rates;
    int n = b->options.quick ? 1 : OPS_ROUNDS;
    if (!bench_wanted(b, "gcs_ops"))
        return;
    if (!gcs_chain_open(&box, &(struct gcs_chain){.members = 2})) {
        bench_miss(b, "gcs_ops", "the chain does not come up");
        chain_box_fini(&box);
        return;
    }
    uint64_t epoch = chain_box_config(&box, 0).epoch;
    bool placed = time_ops(&rates, n, b->options.quick ? 0.5 : 2, &box, plain);
    if (!placed)
        bench_miss(b, "gcs_ops", "a process cannot be put on its cores");
    else if (rates.sum.failed || rates.sum_apart.failed)
        bench_miss(b, "gcs_ops", "a put failed");
    else if (chain_box_config(&box, 0).epoch != epoch)
        bench_miss(b, "gcs_ops", "a member was left out meanwhile");
    else
        tell_ops(b, &rates, n);
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
    if (!gcs_chain_open(&box, &(struct gcs_chain){.members = members})) {
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
    redisContext *redis = gcs_plain_redis(plain.directory);
    if (redis == NULL || redis->err) {
        bench_miss(b, "gcs_put_1", "the private redis-server does not answer");
    } else {
        measure_put(b, "gcs_put_1", 1, redis, plain.redis);
        measure_put(b, "gcs_put_2", 2, redis, plain.redis);
        measure_put(b, "gcs_put_3", 3, redis, plain.redis);
        measure_ops(b, &plain);
        measure_blocks(b, "gcs_blocks_1", 1);
        measure_blocks(b, "gcs_blocks", 2);
        gcs_measure_failover(b);
        gcs_measure_join(b);
        gcs_measure_overhead(b);
        gcs_measure_scale(b);
        gcs_measure_scale_real(b);
    }
    if (redis != NULL)
        redisFree(redis);
    gcs_box_fini(&plain);
}
