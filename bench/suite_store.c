/* Suite store: what putting and getting costs. docs/performance.md says what each row does. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/harness.h"
#include "bench/sweep_svg.h"

#define SECOND 1000000000ll
#define LARGE_BYTES 100000000u
#define SPLIT_BYTES_MIN 1000000u /* smaller objects are copied by one thread */

/* ---- small ---- */

static void put_small(struct bench *b, struct mob_client *client)
{
    const int64_t wanted = b->options.quick ? SECOND / 2 : 5 * SECOND;
    int64_t count = 0, begin = bench_now(), now = begin;
    while (now - begin < wanted) {
        for (int i = 0; i < 1000; i++) {
            struct mob_future *future;
            BENCH_TRY(b, "put_small", mob_put(client, mob_i64(count++), &future));
            mob_release(future);
        }
        now = bench_now();
    }
    BENCH_TRY(b, "put_small", mob_flush(client, 120 * SECOND));
    double seconds = (double)(bench_now() - begin) / 1e9;
    bench_row(b,
        &(struct bench_row){.name = "put_small",
            .value = (double)count / seconds,
            .unit = "1/s",
            .baseline = b->ring_msgs,
            .against = "ring messages/s",
            .n = (double)count,
            .commit = "committed"});
}

static void get_small(struct bench *b, struct mob_client *client)
{
    enum { OBJECTS = 10000 };
    static struct mob_future *futures[OBJECTS];
    const int rounds = b->options.quick ? 20 : 1000;
    for (int i = 0; i < OBJECTS; i++)
        BENCH_TRY(b, "get_small", mob_put(client, mob_i64(i), &futures[i]));
    BENCH_TRY(b, "get_small", mob_flush(client, 60 * SECOND));
    int64_t begin = bench_now(), sum = 0;
    for (int r = 0; r < rounds; r++)
        for (int i = 0; i < OBJECTS; i++) {
            struct mob_value *value;
            int64_t v = 0;
            BENCH_TRY(b, "get_small", mob_get(futures[i], MOB_FOREVER, &value));
            BENCH_TRY(b, "get_small", mob_value_i64(value, &v));
            mob_value_release(value);
            sum += v;
        }
    double seconds = (double)(bench_now() - begin) / 1e9, count = (double)rounds * OBJECTS;
    for (int i = 0; i < OBJECTS; i++)
        mob_release(futures[i]);
    if (sum != (int64_t)rounds * OBJECTS * (OBJECTS - 1) / 2) {
        bench_miss(b, "get_small", "the sum is wrong");
        return;
    }
    bench_row(b,
        &(struct bench_row){.name = "get_small",
            .value = count / seconds,
            .unit = "1/s",
            .baseline = 1e9 / b->locked_add_ns,
            .against = "locked additions a second",
            .n = count,
            .commit = "committed"});
}

/* ---- large ---- */

/* A copy in two halves: the second one by a thread that waits for work. */
struct copier {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake, done;
    char *to;
    const char *from;
    size_t bytes;
    bool busy, stop;
};

static void *copier_main(void *arg)
{
    struct copier *c = arg;
    pthread_mutex_lock(&c->lock);
    for (;;) {
        while (!c->busy && !c->stop)
            pthread_cond_wait(&c->wake, &c->lock);
        if (c->stop)
            break;
        pthread_mutex_unlock(&c->lock);
        memcpy(c->to, c->from, c->bytes);
        pthread_mutex_lock(&c->lock);
        c->busy = false;
        pthread_cond_signal(&c->done);
    }
    pthread_mutex_unlock(&c->lock);
    return NULL;
}

static bool copier_start(struct copier *c)
{
    memset(c, 0, sizeof *c);
    pthread_mutex_init(&c->lock, NULL);
    pthread_cond_init(&c->wake, NULL);
    pthread_cond_init(&c->done, NULL);
    return pthread_create(&c->thread, NULL, copier_main, c) == 0;
}

static void copier_stop(struct copier *c)
{
    pthread_mutex_lock(&c->lock);
    c->stop = true;
    pthread_cond_signal(&c->wake);
    pthread_mutex_unlock(&c->lock);
    pthread_join(c->thread, NULL);
}

static void copy(struct copier *c, int threads, char *to, const char *from, size_t bytes)
{
    size_t half = threads == 2 && bytes >= SPLIT_BYTES_MIN ? bytes / 2 / 64 * 64 : 0;
    if (half > 0) {
        pthread_mutex_lock(&c->lock);
        c->to = to + half;
        c->from = from + half;
        c->bytes = bytes - half;
        c->busy = true;
        pthread_cond_signal(&c->wake);
        pthread_mutex_unlock(&c->lock);
    }
    memcpy(to, from, half > 0 ? half : bytes);
    if (half > 0) {
        pthread_mutex_lock(&c->lock);
        while (c->busy)
            pthread_cond_wait(&c->done, &c->lock);
        pthread_mutex_unlock(&c->lock);
    }
}

/* Deletes the object and waits until its room can be used again: what is measured is the copy into warm room,
 * not the eviction of what was put before. */
static void drop(struct bench *b, struct mob_client *client, struct mob_future *future)
{
    char path[128] = "/api/v1/objects/";
    double before = bench_stat(client, "store.used_bytes");
    (void)!mob_flush(client, 60 * SECOND);
    mob_future_id(future, path + strlen(path));
    mob_release(future);
    free(bench_http(b, "DELETE", path, NULL));
    for (int i = 0; i < 500 && bench_stat(client, "store.used_bytes") >= before; i++)
        usleep(2000);
}

/* The same copy without a store. As there, each goes to room that was not used just before, out of `span`
 * bytes. */
static double memcpy_gbs(
    struct copier *c, int threads, char *to, size_t span, const char *from, size_t bytes, int rounds)
{
    double rates[64];
    size_t at = 0;
    for (int r = 0; r < rounds; r++, at = at + 2 * bytes <= span ? at + bytes : 0) {
        int64_t begin = bench_now();
        copy(c, threads, to + at, from, bytes);
        __asm__ volatile("" ::"r"(to) : "memory");
        rates[r] = (double)bytes / (double)(bench_now() - begin);
    }
    return bench_median(rates, rounds);
}

/* One put of `bytes`: seconds it took, below 0 on failure. */
static double timed_put(struct mob_client *client, struct copier *c, int threads, const char *from,
    size_t bytes, struct mob_future **future_out)
{
    void *data;
    struct mob_put_buffer *buffer;
    int64_t begin = bench_now();
    if (mob_put_begin(client, bytes, &data, &buffer) != MOB_OK)
        return -1;
    copy(c, threads, data, from, bytes);
    if (mob_put_finish(buffer, future_out) != MOB_OK)
        return -1;
    return (double)(bench_now() - begin) / 1e9;
}

static void put_large(struct bench *b, struct mob_client *client)
{
    enum { ROUNDS_MAX = 21 };
    const int rounds = b->options.quick ? 3 : ROUNDS_MAX;
    double rates[ROUNDS_MAX], us[ROUNDS_MAX], copies[ROUNDS_MAX];
    char *from = malloc(LARGE_BYTES), *to = malloc(LARGE_BYTES);
    struct copier unused = {.stop = false};
    if (!from || !to)
        goto out;
    memset(from, 1, LARGE_BYTES);
    memset(to, 2, LARGE_BYTES);
    for (int r = -1; r < rounds; r++) { /* the first one warms up */
        struct mob_future *future;
        int64_t begin = bench_now();
        if (mob_put(client, mob_bytes(from, LARGE_BYTES), &future) != MOB_OK) {
            bench_miss(b, "put_large", mob_client_error(client));
            goto out;
        }
        int64_t took = bench_now() - begin;
        drop(b, client, future);
        double copied = memcpy_gbs(
            &unused, 1, to, LARGE_BYTES, from, LARGE_BYTES, 1); /* beside it: machines vary by the second */
        if (r < 0)
            continue;
        copies[r] = copied;
        rates[r] = LARGE_BYTES / (double)took;
        us[r] = (double)took / 1e3;
    }
    bench_row(b,
        &(struct bench_row){.name = "put_large",
            .value = bench_median(rates, rounds),
            .unit = "GB/s",
            .baseline = bench_median(copies, rounds),
            .against = "memcpy of 100 MB",
            .n = rounds,
            .p50_us = bench_percentile(us, rounds, 50),
            .p99_us = bench_percentile(us, rounds, 99),
            .commit = "local"});
out:
    free(from);
    free(to);
}

static void get_large(struct bench *b, struct mob_client *client)
{
    enum { ROUNDS = 10000 };
    static double us[ROUNDS];
    struct mob_future *future;
    char *from = malloc(LARGE_BYTES);
    if (!from) {
        bench_miss(b, "get_large", "no memory");
        return;
    }
    memset(from, 7, LARGE_BYTES);
    enum mob_status status = mob_put(client, mob_bytes(from, LARGE_BYTES), &future);
    free(from);
    BENCH_TRY(b, "get_large", status);
    BENCH_TRY(b, "get_large", mob_flush(client, 60 * SECOND));
    const void *first = NULL;
    for (int r = 0; r < ROUNDS; r++) {
        struct mob_value *value;
        const void *data;
        size_t size;
        int64_t begin = bench_now();
        BENCH_TRY(b, "get_large", mob_get(future, 10 * SECOND, &value));
        BENCH_TRY(b, "get_large", mob_value_data(value, &data, &size));
        bool right = size == LARGE_BYTES && ((const char *)data)[size - 1] == 7;
        mob_value_release(value);
        us[r] = (double)(bench_now() - begin) / 1e3;
        first = r == 0 ? data : first;
        if (!right || data != first) {
            bench_miss(b, "get_large", "the bytes are wrong, or are not the same ones each time");
            return;
        }
    }
    drop(b, client, future);
    double p50 = bench_percentile(us, ROUNDS, 50);
    bench_row(b,
        &(struct bench_row){.name = "get_large",
            .value = 1e6 / p50,
            .unit = "1/s",
            .baseline = 1e9 / b->locked_add_ns,
            .against = "locked additions a second",
            .n = ROUNDS,
            .p50_us = p50,
            .p99_us = bench_percentile(us, ROUNDS, 99),
            .commit = "committed"});
}

/* ---- the sweep: Figure 9 of the paper ---- */

static bool sweep_point(struct bench *b, struct mob_client *client, struct copier *c, const char *from,
    char *to, size_t span, struct sweep_point *p)
{
    enum { ROUNDS_MAX = 4000 };
    static double seconds[ROUNDS_MAX];
    int rounds = (int)((b->options.quick ? 1e8 : 3e8) / (double)p->bytes);
    rounds = rounds > ROUNDS_MAX ? ROUNDS_MAX : rounds < 5 ? (b->options.quick ? 3 : 5) : rounds;
    for (int r = -1; r < rounds; r++) {
        struct mob_future *future = NULL;
        double took = timed_put(client, c, p->threads, from, p->bytes, &future);
        if (took < 0 || !future)
            return false;
        if (r >= 0)
            seconds[r] = took;
        if (p->bytes >= SPLIT_BYTES_MIN)
            drop(b, client, future);
        else
            mob_release(future);
    }
    p->p99_us = bench_percentile(seconds, rounds, 99) * 1e6;
    p->p50_us = bench_median(seconds, rounds) * 1e6;
    p->rounds = rounds;
    p->gbs = (double)p->bytes / p->p50_us / 1e3;
    p->memcpy_gbs = memcpy_gbs(c, p->threads, to, span, from, p->bytes, rounds > 51 ? 51 : rounds);
    return true;
}

static void sweep_row(struct bench *b, const struct sweep_point *p)
{
    char extra[128];
    snprintf(extra, sizeof extra, "\"bytes\":%zu,\"threads\":%d,\"iops\":%.6g", p->bytes, p->threads,
        1e6 / p->p50_us);
    bench_row(b,
        &(struct bench_row){.name = "put_sweep",
            .value = p->gbs,
            .unit = "GB/s",
            .baseline = p->memcpy_gbs,
            .against = "memcpy, same size and threads",
            .n = p->rounds,
            .p50_us = p->p50_us,
            .p99_us = p->p99_us,
            .commit = "local",
            .extra = extra});
}

/* Sizes that the segment holds twice: the next put finds room while the last one is dropped. */
static void put_sweep(struct bench *b, struct mob_client *client)
{
    static struct sweep_point points[SWEEP_POINTS_MAX];
    struct copier c;
    int count = 0;
    const size_t most = b->options.quick ? 100000000 : 1000000000;
    double segment = bench_stat(client, "store.segment_bytes");
    char *from = malloc(most), *to = malloc(most);
    bool ok = from && to && copier_start(&c);
    if (ok) {
        memset(from, 1, most);
        memset(to, 2, most);
    }
    for (int threads = 1; ok && threads <= 2; threads++)
        for (size_t bytes = 1000; ok && bytes <= most; bytes *= 10) {
            if ((double)bytes * 2 > segment) {
                bench_miss(
                    b, "put_sweep", "memory is short: the segment does not hold the largest size twice");
                break;
            }
            struct sweep_point *p = &points[count];
            *p = (struct sweep_point){.bytes = bytes, .threads = threads};
            ok = sweep_point(b, client, &c, from, to, most, p);
            if (ok) {
                sweep_row(b, p);
                count++;
            }
        }
    if (!ok)
        bench_miss(b, "put_sweep", mob_client_error(client));
    if (from && to && ok)
        copier_stop(&c);
    free(from);
    free(to);
    char path[700];
    snprintf(path, sizeof path, "%s/../put_sweep.svg", b->options.binaries);
    if (ok && sweep_svg_write(path, points, count))
        fprintf(stderr, "mobula-bench: put_sweep is drawn in %s\n", path);
}

void suite_store(struct bench *b)
{
    struct mob_client *client = bench_connect(b);
    if (!client) {
        bench_miss(b, "store", "the cluster cannot be used");
        return;
    }
    bench_wait_warm(client);
    static const struct {
        const char *name;
        void (*run)(struct bench *b, struct mob_client *client);
    } rows[] = {{"put_small", put_small}, {"get_small", get_small}, {"put_large", put_large},
        {"get_large", get_large}, {"put_sweep", put_sweep}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (bench_wanted(b, rows[i].name))
            rows[i].run(b, client);
    mob_disconnect(client);
}
