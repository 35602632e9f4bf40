/* Suite core, its tasks. Actors and the cluster as a whole: core_actors.c, core_cluster.c.
 * docs/performance.md says what each row does and what bounds it. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/core.h"

static void tasks_async(struct bench *b, struct mob_client *client)
{
    static const char row[] = "tasks_async";
    static struct bench_window w;
    static struct bench_samples samples;
    const uint64_t count = b->options.quick ? 200000 : 5000000;
    const struct mob_function *echo;
    int64_t sum = 0, expected = 0;
    bench_samples_init(&samples, "noop.echo");
    memset(&w, 0, sizeof w);
    BENCH_TRY(b, row, mob_function_find(client, "noop.echo", &echo));
    double memory_before = bench_stat(client, "gcs.memory_bytes");
    int64_t begin = bench_now();
    while (w.taken < count) {
        while (w.submitted < count && w.submitted - w.taken < BENCH_WINDOW) {
            uint64_t i = w.submitted % BENCH_WINDOW;
            w.arguments[i] = (int64_t)(w.submitted * 7 + 1);
            expected += w.arguments[i];
            BENCH_TRY(b, row,
                mob_submit_function(client, echo, MOB_ARGS(mob_i64(w.arguments[i])), NULL, &w.futures[i]));
            w.submitted++;
        }
        BENCH_TRY(b, row, bench_window_take(&w, &samples, &sum));
    }
    double seconds = (double)(bench_now() - begin) / 1e9;
    if (sum != expected) {
        bench_miss(b, row, "the sum of all results is wrong");
        return;
    }
    usleep(3000000); /* until all is durable, and the member has given its buffers back and looked again */
    double memory_after = bench_stat(client, "gcs.memory_bytes");
    if (!bench_samples_check(b, row, &samples, 2))
        return;
    bench_rate_row(b, row, (double)count, seconds);
    bench_row(b,
        &(struct bench_row){.name = "lineage_bytes",
            .value = (memory_after - memory_before) / (double)count,
            .unit = "B",
            .baseline = b->redis_block_bytes,
            .against = "bytes that Redis needs for a spec of 200",
            .n = (double)count,
            .commit = "committed"});
}

static bool tree_get_check(struct bench *b, const char *row, int depth)
{
    static struct bench_samples samples;
    bench_samples_init(&samples, "noop.tree_get");
    return bench_list_check(
        b, row, "function:noop.tree_get", &samples, (2ull << depth) - 1, BENCH_RESULT_LEAVES);
}

/* `follows`: inner tasks return the future of a sum; otherwise they block in get. */
static void tasks_tree(struct bench *b, struct mob_client *client, const char *row, bool follows, int depth)
{
    struct mob_future *future;
    char root[MOB_TEXT_ID_MAX];
    int64_t leaves = 0, begin = bench_now();
    BENCH_TRY(b, row,
        mob_submit(client, follows ? "noop.tree" : "noop.tree_get", MOB_ARGS(mob_i64(depth)), NULL, &future));
    if (mob_get_i64(future, 300 * BENCH_SECOND, &leaves) != MOB_OK) {
        bench_miss(b, row, mob_future_error(future));
        return;
    }
    double seconds = (double)(bench_now() - begin) / 1e9;
    mob_future_task_id(future, root);
    mob_release(future);
    if (leaves != 1ll << depth) {
        bench_miss(b, row, "the number of leaves is wrong");
        return;
    }
    if (follows ? bench_tree_check(b, row, root, depth, BENCH_SAMPLES) : tree_get_check(b, row, depth))
        bench_rate_row(b, row, (follows ? 3.0 : 2.0) * (double)leaves - (follows ? 2 : 1), seconds);
}

#define TREE_NEST_MAX 16

/* On a cluster of its own, in which a task that blocks may have what it waits for run on its stack. */
static void tasks_tree_get(struct bench *b)
{
    static const char row[] = "tasks_tree_get";
    struct bench fresh;
    struct mob_client *client = bench_core_fresh(b, &fresh, TREE_NEST_MAX);
    if (client)
        tasks_tree(&fresh, client, row, false, b->options.quick ? 6 : 14);
    else
        bench_miss(&fresh, row, "no cluster");
    bench_core_fresh_end(b, &fresh, client);
}

static void tasks_chain(struct bench *b, struct mob_client *client)
{
    static const char row[] = "tasks_chain";
    static struct bench_samples samples;
    int count = b->options.quick ? 20000 : 1000000;
    struct mob_future *before, *next;
    int64_t result = 0;
    const struct mob_function *sum;
    bench_samples_init(&samples, "noop.sum");
    BENCH_TRY(b, row, mob_function_find(client, "noop.sum", &sum));
    int64_t begin = bench_now();
    BENCH_TRY(b, row, mob_submit_function(client, sum, MOB_ARGS(mob_i64(0), mob_i64(1)), NULL, &before));
    for (int i = 1; i < count; i++) {
        BENCH_TRY(
            b, row, mob_submit_function(client, sum, MOB_ARGS(mob_ref(before), mob_i64(1)), NULL, &next));
        bench_sample_offer_needing(&samples, next, before, i + 1);
        mob_release(before);
        before = next;
    }
    BENCH_TRY(b, row, mob_get_i64(before, 600 * BENCH_SECOND, &result));
    double seconds = (double)(bench_now() - begin) / 1e9;
    mob_release(before);
    if (result != count)
        bench_miss(b, row, "the end of the chain is wrong");
    else if (bench_samples_check(b, row, &samples, 1))
        bench_rate_row(b, row, count, seconds);
}

/* A time: the median of several rounds, against `messages` ring messages. */
static void time_row(struct bench *b, const char *row, double *us, int rounds, double messages)
{
    double median = bench_median(us, rounds);
    bench_row(b,
        &(struct bench_row){.name = row,
            .value = median,
            .unit = "us",
            .baseline = messages / b->ring_msgs * 1e6,
            .against = "as many ring messages",
            .n = rounds,
            .p50_us = median,
            .p99_us = bench_percentile(us, rounds, 99),
            .commit = "committed"});
}

static void fan_in(struct bench *b, struct mob_client *client)
{
    enum { INPUTS = 10000 };
    static const char row[] = "fan_in";
    static struct bench_samples samples;
    int rounds = b->options.quick ? 3 : 21;
    double us[32];
    static struct mob_future *inputs[INPUTS];
    static struct mob_arg args[INPUTS];
    bench_samples_init(&samples, "noop.sum_many");
    samples.many_arguments = true;
    for (int i = 0; i < INPUTS; i++) {
        BENCH_TRY(b, row, mob_put(client, mob_i64(i), &inputs[i]));
        args[i] = mob_ref(inputs[i]);
    }
    BENCH_TRY(b, row, mob_flush(client, 30 * BENCH_SECOND));
    for (int r = 0; r < rounds; r++) {
        struct mob_future *future;
        int64_t result = 0, begin = bench_now();
        BENCH_TRY(
            b, row, mob_submit(client, "noop.sum_many", (struct mob_args){args, INPUTS}, NULL, &future));
        BENCH_TRY(b, row, mob_get_i64(future, 60 * BENCH_SECOND, &result));
        us[r] = (double)(bench_now() - begin) / 1e3;
        bench_sample_offer(&samples, future, INPUTS, result);
        mob_release(future);
        if (result != (int64_t)INPUTS * (INPUTS - 1) / 2) {
            bench_miss(b, row, "the sum is wrong");
            return;
        }
    }
    for (int i = 0; i < INPUTS; i++)
        mob_release(inputs[i]);
    if (bench_samples_check(b, row, &samples, 1))
        time_row(b, row, us, rounds, INPUTS);
}

static void returns(struct bench *b, struct mob_client *client)
{
    enum { RETURNS = 3000 };
    static const char row[] = "returns";
    static struct bench_samples samples;
    int rounds = b->options.quick ? 3 : 21;
    double us[32];
    static struct mob_future *futures[RETURNS];
    struct mob_submit_options options = {.struct_size = sizeof options, .num_returns = RETURNS};
    bench_samples_init(&samples, "noop.many");
    for (int r = 0; r < rounds; r++) {
        int64_t begin = bench_now(), sum = 0;
        BENCH_TRY(b, row, mob_submit(client, "noop.many", MOB_ARGS(mob_i64(RETURNS)), &options, futures));
        for (int i = 0; i < RETURNS; i++) {
            int64_t result = 0;
            BENCH_TRY(b, row, mob_get_i64(futures[i], 60 * BENCH_SECOND, &result));
            sum += result;
        }
        us[r] = (double)(bench_now() - begin) / 1e3;
        bench_sample_offer(&samples, futures[r * 131], RETURNS, r * 131);
        for (int i = 0; i < RETURNS; i++)
            mob_release(futures[i]);
        if (sum != (int64_t)RETURNS * (RETURNS - 1) / 2) {
            bench_miss(b, row, "the sum is wrong");
            return;
        }
    }
    if (bench_samples_check(b, row, &samples, 1))
        time_row(b, row, us, rounds, RETURNS);
}

enum { WAIT_TASKS = 1000 };

/* A round: a thousand tasks, then a thousand waits, each for one of those that have not come yet. */
static enum mob_status wait_round(struct mob_client *client, const struct mob_function *echo,
    struct mob_waitset *set, struct bench_samples *samples, int tasks, int64_t *sum)
{
    enum mob_status status = MOB_OK;
    struct mob_future *future;
    for (int i = 0; i < tasks && status == MOB_OK; i++) {
        status = mob_submit_function(client, echo, MOB_ARGS(mob_i64(i)), NULL, &future);
        if (status == MOB_OK)
            status = mob_waitset_add(set, future);
    }
    for (int i = 0; i < tasks && status == MOB_OK; i++) {
        int64_t result = 0;
        status = mob_waitset_next(set, 60 * BENCH_SECOND, &future);
        if (status == MOB_OK)
            status = mob_get_i64(future, BENCH_SECOND, &result);
        if (status != MOB_OK)
            break;
        *sum += result;
        bench_sample_offer(samples, future, result, result);
        mob_release(future);
    }
    return status;
}

/* The same through mob_wait, which is given all that have not come yet again and again. */
static enum mob_status array_round(struct mob_client *client, const struct mob_function *echo,
    struct bench_samples *samples, size_t tasks, int64_t *sum)
{
    struct mob_future *futures[WAIT_TASKS];
    bool ready[WAIT_TASKS];
    enum mob_status status = MOB_OK;
    for (size_t i = 0; i < tasks && status == MOB_OK; i++)
        status = mob_submit_function(client, echo, MOB_ARGS(mob_i64((int64_t)i)), NULL, &futures[i]);
    for (size_t left = tasks; left > 0 && status == MOB_OK; left--) {
        int64_t result = 0;
        size_t count = 0, i = 0;
        status = mob_wait(futures, left, 1, 60 * BENCH_SECOND, ready, &count);
        if (status == MOB_OK && count == 0)
            status = MOB_TIMEOUT;
        while (status == MOB_OK && !ready[i])
            i++;
        if (status == MOB_OK)
            status = mob_get_i64(futures[i], BENCH_SECOND, &result);
        if (status != MOB_OK)
            break;
        *sum += result;
        bench_sample_offer(samples, futures[i], result, result);
        mob_release(futures[i]);
        futures[i] = futures[left - 1];
    }
    return status;
}

/* `set`: NULL = with mob_wait. */
static void wait_1k(struct bench *b, struct mob_client *client, const char *row, struct mob_waitset *set)
{
    static struct bench_samples samples;
    int rounds = b->options.quick ? 5 : 1000;
    const struct mob_function *echo;
    bench_samples_init(&samples, "noop.echo");
    BENCH_TRY(b, row, mob_function_find(client, "noop.echo", &echo));
    int64_t begin = bench_now(), sum = 0;
    for (int r = 0; r < rounds; r++)
        BENCH_TRY(b, row,
            set == NULL ? array_round(client, echo, &samples, WAIT_TASKS, &sum)
                        : wait_round(client, echo, set, &samples, WAIT_TASKS, &sum));
    double seconds = (double)(bench_now() - begin) / 1e9;
    if (sum != (int64_t)rounds * WAIT_TASKS * (WAIT_TASKS - 1) / 2) {
        bench_miss(b, row, "the sum is wrong");
        return;
    }
    if (bench_samples_check(b, row, &samples, 1))
        bench_row(b,
            &(struct bench_row){.name = row,
                .value = rounds / seconds,
                .unit = "1/s",
                .baseline = b->ring_msgs / WAIT_TASKS,
                .against = "a thousand ring messages",
                .n = rounds,
                .commit = "committed"});
}

static void wait_rows(struct bench *b, struct mob_client *client)
{
    struct mob_waitset *set;
    BENCH_TRY(b, "wait_1k", mob_waitset_create(client, &set));
    if (bench_wanted(b, "wait_1k"))
        wait_1k(b, client, "wait_1k", set);
    mob_waitset_destroy(set);
    if (bench_wanted(b, "wait_1k_array"))
        wait_1k(b, client, "wait_1k_array", NULL);
}

void suite_core(struct bench *b)
{
    struct mob_client *client = bench_connect(b);
    if (!client || !bench_deploy_everywhere(b, client, "noop")) {
        bench_miss(b, "core", "the cluster cannot be used");
        mob_disconnect(client);
        return;
    }
    bench_wait_warm(client);
    if (bench_wanted(b, "tasks_async"))
        tasks_async(b, client);
    if (bench_wanted(b, "tasks_sync"))
        bench_core_sync(b, client);
    if (bench_wanted(b, "tasks_chain"))
        tasks_chain(b, client);
    if (bench_wanted(b, "tasks_queued_1m"))
        bench_core_queued(b, client);
    if (bench_wanted(b, "fan_in"))
        fan_in(b, client);
    if (bench_wanted(b, "returns"))
        returns(b, client);
    wait_rows(b, client);
    if (bench_wanted(b, "tasks_tree"))
        tasks_tree(b, client, "tasks_tree", true, b->options.quick ? 12 : 20);
    if (bench_wanted(b, "tasks_tree_get"))
        tasks_tree_get(b);
    bench_core_actors(b, client);
    mob_disconnect(client);
    bench_core_cluster(b);
}
