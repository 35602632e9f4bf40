/* A million tasks that wait for one object: how long they take, and in a run of its own what they weigh. */
#include <malloc.h>
#include <string.h>
#include <unistd.h>

#include "bench/core.h"

enum { COUNT_MAX = 1000000, COUNT_QUICK = 20000 };

/* One run. */
struct queued {
    struct mob_future *gate;
    const struct mob_function *echo;
    struct bench_samples samples;
    char gate_id[MOB_TEXT_ID_MAX];
    int count;
    int64_t sum;
    struct mob_future *futures[COUNT_MAX];
};

struct mob_client *bench_core_fresh(struct bench *b, struct bench *fresh, int nest_max)
{
    *fresh = *b;
    fresh->running = false;
    fresh->nest_max = nest_max;
    struct mob_client *client = bench_cluster_start(fresh) ? bench_connect(fresh) : NULL;
    if (client && bench_deploy(fresh, client, "noop"))
        return client;
    mob_disconnect(client);
    return NULL;
}

void bench_core_fresh_end(struct bench *b, struct bench *fresh, struct mob_client *client)
{
    mob_disconnect(client);
    bench_cluster_stop(fresh);
    b->misses = fresh->misses;
    b->told_count = fresh->told_count;
    memcpy(b->told, fresh->told, sizeof b->told);
}

static enum mob_status prepare(struct queued *q, struct mob_client *client, bool quick)
{
    q->count = quick ? COUNT_QUICK : COUNT_MAX;
    q->sum = 0;
    bench_samples_init(&q->samples, "noop.echo");
    enum mob_status status = mob_function_find(client, "noop.echo", &q->echo);
    if (status == MOB_OK)
        status = mob_promise(client, &q->gate);
    if (status != MOB_OK)
        return status;
    mob_future_id(q->gate, q->gate_id);
    q->samples.argument_object = q->gate_id;
    memset(q->futures, 0xff, sizeof q->futures); /* its pages are there before anything is measured */
    return MOB_OK;
}

static enum mob_status submit_all(struct queued *q, struct mob_client *client)
{
    enum mob_status status = MOB_OK;
    for (int i = 0; i < q->count && status == MOB_OK; i++)
        status = mob_submit_function(client, q->echo, MOB_ARGS(mob_ref(q->gate)), NULL, &q->futures[i]);
    return status;
}

/* Puts the object and reads all results, committed. */
static enum mob_status open_gate(struct queued *q)
{
    enum mob_status status = mob_fulfil(q->gate, mob_i64(42));
    for (int i = 0; i < q->count && status == MOB_OK; i++) {
        int64_t result = 0;
        status = mob_get_i64(q->futures[i], 600 * BENCH_SECOND, &result);
        q->sum += result;
        bench_sample_offer(&q->samples, q->futures[i], 0, result);
        mob_release(q->futures[i]);
    }
    mob_release(q->gate);
    return status;
}

static bool run_fits(struct bench *b, const char *row, struct queued *q)
{
    if (q->sum == 42ll * q->count)
        return bench_samples_check(b, row, &q->samples, 2);
    bench_miss(b, row, "the sum of all results is wrong");
    return false;
}

static void timed_run(struct bench *b, struct mob_client *client, struct queued *q)
{
    static const char row[] = "tasks_queued_1m";
    BENCH_TRY(b, row, prepare(q, client, b->options.quick));
    int64_t begin = bench_now();
    BENCH_TRY(b, row, submit_all(q, client));
    BENCH_TRY(b, row, open_gate(q));
    double seconds = (double)(bench_now() - begin) / 1e9;
    if (run_fits(b, row, q))
        bench_row(b,
            &(struct bench_row){.name = row,
                .value = seconds,
                .unit = "s",
                .baseline = q->count / b->ring_msgs,
                .against = "as many ring messages",
                .n = q->count,
                .commit = "committed"});
}

static const char *const programs[] = {"mobula-node", "redis-server", "mobula-gcs", "mobula-worker"};
enum { PROGRAMS = sizeof programs / sizeof *programs };

/* Of those that the row is about: the gateway and the supervisor have no part in it, and what they give back
 * meanwhile would be taken off. */
struct weight {
    double all, driver, of[PROGRAMS];
};

static struct weight weigh(struct bench *b)
{
    struct weight w = {.driver = bench_process_pss(getpid())};
    w.all = w.driver;
    for (int i = 0; i < PROGRAMS; i++)
        w.all += w.of[i] = bench_program_memory(b, programs[i]);
    return w;
}

/* Whose bytes a task they are, as JSON members. */
static void write_shares(
    const struct weight *before, const struct weight *after, int count, char *out, size_t capacity)
{
    int n = snprintf(out, capacity, "\"driver_bytes\":%.1f", (after->driver - before->driver) / count);
    for (int i = 0; i < PROGRAMS && n > 0 && (size_t)n < capacity; i++)
        n += snprintf(out + n, capacity - (size_t)n, ",\"%s_bytes\":%.1f", programs[i],
            (after->of[i] - before->of[i]) / count);
}

/* Memory that earlier rows made the processes keep would hide what these tasks need. */
static void weighed_run(struct bench *b, struct mob_client *client, struct queued *q)
{
    static const char row[] = "tasks_queued_1m_mem";
    BENCH_TRY(b, row, prepare(q, client, b->options.quick));
    char shares[256];
    malloc_trim(0); /* nor what this process has freed */
    const struct weight before = weigh(b);
    BENCH_TRY(b, row, submit_all(q, client));
    const struct weight after = weigh(b);
    BENCH_TRY(b, row, open_gate(q));
    write_shares(&before, &after, q->count, shares, sizeof shares);
    if (run_fits(b, row, q))
        bench_row(b,
            &(struct bench_row){.name = row,
                .extra = shares,
                .value = (after.all - before.all) / q->count,
                .unit = "B",
                .baseline = b->redis_block_bytes,
                .against = "bytes that Redis needs for a spec of 200",
                .n = q->count,
                .commit = "committed"});
}

void bench_core_queued(struct bench *b, struct mob_client *client)
{
    static struct queued q;
    struct bench fresh;
    timed_run(b, client, &q);
    struct mob_client *alone = bench_core_fresh(b, &fresh, b->nest_max);
    if (alone)
        weighed_run(&fresh, alone, &q);
    else
        bench_miss(&fresh, "tasks_queued_1m_mem", "no cluster");
    bench_core_fresh_end(b, &fresh, alone);
}
