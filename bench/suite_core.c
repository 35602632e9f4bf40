/* Suite core: tasks, actors, lineage, start and idleness. docs/performance.md says what each row does and
 * what bounds it. */
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "bench/harness.h"

#define SECOND 1000000000ll
#define WINDOW 10000

/* A window of futures in flight, taken in order. */
struct window {
    struct mob_future *futures[WINDOW];
    int64_t arguments[WINDOW];
    uint64_t submitted, taken;
};

static enum mob_status take_one(struct window *w, struct bench_samples *samples, int64_t *sum)
{
    uint64_t i = w->taken % WINDOW;
    int64_t result = 0;
    enum mob_status status = mob_get_i64(w->futures[i], MOB_FOREVER, &result);
    if (status != MOB_OK)
        return status;
    *sum += result;
    /* sampling every task would cost more than the task: offer one in 61 */
    if (samples && w->taken % 61 == 0)
        bench_sample_offer(samples, w->futures[i], w->arguments[i], result);
    mob_release(w->futures[i]);
    w->taken++;
    return MOB_OK;
}

/* ---- tasks ---- */

static void tasks_async(struct bench *b, struct mob_client *client)
{
    static struct window w;
    static struct bench_samples samples;
    const uint64_t count = b->options.quick ? 200000 : 10000000;
    const struct mob_function *echo;
    int64_t sum = 0, expected = 0;
    memset(&samples, 0, sizeof samples);
    memset(&w, 0, sizeof w);
    BENCH_TRY(b, "tasks_async", mob_function_find(client, "noop.echo", &echo));
    double memory_before = bench_stat(client, "gcs.memory_bytes");
    int64_t begin = bench_now();
    while (w.taken < count) {
        while (w.submitted < count && w.submitted - w.taken < WINDOW) {
            uint64_t i = w.submitted % WINDOW;
            w.arguments[i] = (int64_t)(w.submitted * 7 + 1);
            expected += w.arguments[i];
            BENCH_TRY(b, "tasks_async",
                mob_submit_function(client, echo, MOB_ARGS(mob_i64(w.arguments[i])), NULL, &w.futures[i]));
            w.submitted++;
        }
        BENCH_TRY(b, "tasks_async", take_one(&w, &samples, &sum));
    }
    double seconds = (double)(bench_now() - begin) / 1e9;
    if (sum != expected) {
        bench_miss(b, "tasks_async", "the sum of all results is wrong");
        return;
    }
    usleep(300000); /* the member reports its memory a few times a second */
    double memory_after = bench_stat(client, "gcs.memory_bytes");
    if (!bench_samples_check(b, "tasks_async", &samples, 2))
        return;
    bench_row(b,
        &(struct bench_row){.name = "tasks_async",
            .value = (double)count / seconds,
            .unit = "1/s",
            .baseline = b->ring_msgs,
            .against = "ring messages/s",
            .n = (double)count,
            .commit = "committed"});
    bench_row(b,
        &(struct bench_row){.name = "lineage_bytes",
            .value = (memory_after - memory_before) / (double)count,
            .unit = "B",
            .n = (double)count,
            .commit = "committed"});
}

static void tasks_tree_of(
    struct bench *b, struct mob_client *client, const char *row, const char *function, int depth)
{
    struct mob_future *future;
    int64_t leaves = 0, begin = bench_now();
    BENCH_TRY(b, row, mob_submit(client, function, MOB_ARGS(mob_i64(depth)), NULL, &future));
    BENCH_TRY(b, row, mob_get_i64(future, 600 * SECOND, &leaves));
    double seconds = (double)(bench_now() - begin) / 1e9;
    static struct bench_samples samples;
    memset(&samples, 0, sizeof samples);
    bench_sample_offer(&samples, future, depth, leaves);
    mob_release(future);
    if (leaves != 1ll << depth) {
        bench_miss(b, row, "the number of leaves is wrong");
        return;
    }
    if (!bench_samples_check(b, row, &samples, 1))
        return;
    double tasks =
        strcmp(row, "tasks_tree") == 0 ? 3.0 * (double)(1ll << depth) - 2 : 2.0 * (double)(1ll << depth) - 1;
    bench_row(b,
        &(struct bench_row){.name = row,
            .value = tasks / seconds,
            .unit = "1/s",
            .baseline = b->ring_msgs,
            .against = "ring messages/s",
            .n = tasks,
            .commit = "committed"});
}

/* A JSON result {"n":..,"p50_us":..,"p99_us":..} of sync_child and sync_actor. */
static bool latencies(struct mob_future *future, double *n, double *p50, double *p99)
{
    struct mob_value *value;
    const void *data;
    size_t size;
    char text[512];
    if (mob_get(future, 300 * SECOND, &value) != MOB_OK)
        return false;
    bool ok = mob_value_data(value, &data, &size) == MOB_OK && size < sizeof text;
    if (ok) {
        memcpy(text, data, size);
        text[size] = '\0';
        const char *a = strstr(text, "\"n\":"), *p = strstr(text, "\"p50_us\":"),
                   *q = strstr(text, "\"p99_us\":");
        ok = a && p && q;
        if (ok) {
            *n = atof(a + 4);
            *p50 = atof(p + 9);
            *p99 = atof(q + 9);
        }
    }
    mob_value_release(value);
    return ok;
}

static void sync_row(struct bench *b, const char *row, double n, double p50, double p99, const char *commit)
{
    bench_row(b,
        &(struct bench_row){.name = row,
            .value = 1e6 / p50,
            .unit = "1/s",
            .baseline = 0,
            .n = n,
            .p50_us = p50,
            .p99_us = p99,
            .commit = commit});
}

static void tasks_sync(struct bench *b, struct mob_client *client)
{
    struct mob_future *future;
    double n, p50, p99;
    int64_t count = b->options.quick ? 500 : 20000;
    BENCH_TRY(
        b, "tasks_sync", mob_submit(client, "noop.sync_child", MOB_ARGS(mob_i64(count)), NULL, &future));
    if (!latencies(future, &n, &p50, &p99)) {
        bench_miss(b, "tasks_sync", mob_future_error(future));
        return;
    }
    mob_release(future);
    sync_row(b, "tasks_sync", n, p50, p99, "local");
}

static void sync_committed(
    struct bench *b, struct mob_client *client, struct mob_actor *actor, const char *row)
{
    int count = b->options.quick ? 200 : 5000;
    double *us = malloc((size_t)count * sizeof *us);
    static struct bench_samples samples;
    memset(&samples, 0, sizeof samples);
    for (int i = 0; i < count; i++) {
        struct mob_future *future;
        int64_t result = 0, begin = bench_now();
        BENCH_TRY(b, row,
            actor ? mob_actor_call(actor, "inc", MOB_ARGS(mob_i64(1)), NULL, &future)
                  : mob_submit(client, "noop.echo", MOB_ARGS(mob_i64(i)), NULL, &future));
        BENCH_TRY(b, row, mob_get_i64(future, 10 * SECOND, &result));
        us[i] = (double)(bench_now() - begin) / 1e3;
        bench_sample_offer(&samples, future, i, result);
        mob_release(future);
        if (!actor && result != i) {
            bench_miss(b, row, "a result is wrong");
            return;
        }
    }
    if (bench_samples_check(b, row, &samples, 1))
        sync_row(
            b, row, count, bench_percentile(us, count, 50), bench_percentile(us, count, 99), "committed");
    free(us);
}

static void tasks_chain(struct bench *b, struct mob_client *client)
{
    int count = b->options.quick ? 20000 : 1000000;
    struct mob_future *before, *next;
    int64_t result = 0, begin = bench_now();
    const struct mob_function *sum;
    BENCH_TRY(b, "tasks_chain", mob_function_find(client, "noop.sum", &sum));
    BENCH_TRY(
        b, "tasks_chain", mob_submit_function(client, sum, MOB_ARGS(mob_i64(0), mob_i64(1)), NULL, &before));
    for (int i = 1; i < count; i++) {
        BENCH_TRY(b, "tasks_chain",
            mob_submit_function(client, sum, MOB_ARGS(mob_ref(before), mob_i64(1)), NULL, &next));
        mob_release(before);
        before = next;
    }
    BENCH_TRY(b, "tasks_chain", mob_get_i64(before, 600 * SECOND, &result));
    double seconds = (double)(bench_now() - begin) / 1e9;
    mob_release(before);
    if (result != count) {
        bench_miss(b, "tasks_chain", "the end of the chain is wrong");
        return;
    }
    bench_row(b,
        &(struct bench_row){.name = "tasks_chain",
            .value = count / seconds,
            .unit = "1/s",
            .baseline = b->ring_msgs,
            .against = "ring messages/s",
            .n = count,
            .commit = "committed"});
}

static void tasks_queued(struct bench *b, struct mob_client *client)
{
    int count = b->options.quick ? 20000 : 1000000;
    struct mob_future **futures = malloc((size_t)count * sizeof *futures), *gate;
    const struct mob_function *echo;
    static struct bench_samples samples;
    memset(&samples, 0, sizeof samples);
    BENCH_TRY(b, "tasks_queued_1m", mob_function_find(client, "noop.echo", &echo));
    BENCH_TRY(b, "tasks_queued_1m", mob_promise(client, &gate));
    memset(futures, 0, (size_t)count * sizeof *futures);
    double before = bench_memory(b, true);
    int64_t begin = bench_now();
    for (int i = 0; i < count; i++)
        BENCH_TRY(b, "tasks_queued_1m",
            mob_submit_function(client, echo, MOB_ARGS(mob_ref(gate)), NULL, &futures[i]));
    int64_t submitted = bench_now();
    double after = bench_memory(b, true);
    int64_t resumed = bench_now();
    BENCH_TRY(b, "tasks_queued_1m", mob_fulfil(gate, mob_i64(42)));
    int64_t sum = 0;
    for (int i = 0; i < count; i++) {
        int64_t result = 0;
        BENCH_TRY(b, "tasks_queued_1m", mob_get_i64(futures[i], 600 * SECOND, &result));
        sum += result;
        if (i % 61 == 0)
            bench_sample_offer(&samples, futures[i], 42, result);
        mob_release(futures[i]);
    }
    double seconds = (double)(submitted - begin + bench_now() - resumed) / 1e9;
    free(futures);
    if (sum != 42ll * count) {
        bench_miss(b, "tasks_queued_1m", "the sum of all results is wrong");
        return;
    }
    if (!bench_samples_check(b, "tasks_queued_1m", &samples, 2))
        return;
    bench_row(b,
        &(struct bench_row){
            .name = "tasks_queued_1m", .value = seconds, .unit = "s", .n = count, .commit = "committed"});
    bench_row(b,
        &(struct bench_row){.name = "tasks_queued_1m_mem",
            .value = (after - before) / count,
            .unit = "B",
            .n = count,
            .commit = "committed"});
}

static void fan_in(struct bench *b, struct mob_client *client)
{
    enum { INPUTS = 10000 };
    int rounds = b->options.quick ? 3 : 21;
    double us[32];
    static struct mob_future *inputs[INPUTS];
    static struct mob_arg args[INPUTS];
    for (int i = 0; i < INPUTS; i++) {
        BENCH_TRY(b, "fan_in", mob_put(client, mob_i64(i), &inputs[i]));
        args[i] = mob_ref(inputs[i]);
    }
    BENCH_TRY(b, "fan_in", mob_flush(client, 30 * SECOND));
    for (int r = 0; r < rounds; r++) {
        struct mob_future *future;
        int64_t result = 0, begin = bench_now();
        BENCH_TRY(
            b, "fan_in", mob_submit(client, "noop.sum_many", (struct mob_args){args, INPUTS}, NULL, &future));
        BENCH_TRY(b, "fan_in", mob_get_i64(future, 60 * SECOND, &result));
        us[r] = (double)(bench_now() - begin) / 1e3;
        mob_release(future);
        if (result != (int64_t)INPUTS * (INPUTS - 1) / 2) {
            bench_miss(b, "fan_in", "the sum is wrong");
            return;
        }
    }
    for (int i = 0; i < INPUTS; i++)
        mob_release(inputs[i]);
    double median = bench_median(us, rounds);
    bench_row(b,
        &(struct bench_row){.name = "fan_in",
            .value = median,
            .unit = "us",
            .n = rounds,
            .p50_us = median,
            .p99_us = bench_percentile(us, rounds, 99),
            .commit = "committed"});
}

static void returns(struct bench *b, struct mob_client *client)
{
    enum { RETURNS = 3000 };
    int rounds = b->options.quick ? 3 : 21;
    double us[32];
    static struct mob_future *futures[RETURNS];
    struct mob_submit_options options = {.struct_size = sizeof options, .num_returns = RETURNS};
    for (int r = 0; r < rounds; r++) {
        int64_t begin = bench_now(), sum = 0;
        BENCH_TRY(
            b, "returns", mob_submit(client, "noop.many", MOB_ARGS(mob_i64(RETURNS)), &options, futures));
        for (int i = 0; i < RETURNS; i++) {
            int64_t result = 0;
            BENCH_TRY(b, "returns", mob_get_i64(futures[i], 60 * SECOND, &result));
            sum += result;
            mob_release(futures[i]);
        }
        us[r] = (double)(bench_now() - begin) / 1e3;
        if (sum != (int64_t)RETURNS * (RETURNS - 1) / 2) {
            bench_miss(b, "returns", "the sum is wrong");
            return;
        }
    }
    double median = bench_median(us, rounds);
    bench_row(b,
        &(struct bench_row){.name = "returns",
            .value = median,
            .unit = "us",
            .n = rounds,
            .p50_us = median,
            .p99_us = bench_percentile(us, rounds, 99),
            .commit = "committed"});
}

static void wait_1k(struct bench *b, struct mob_client *client)
{
    enum { TASKS = 1000 };
    int rounds = b->options.quick ? 5 : 500;
    struct mob_waitset *set;
    const struct mob_function *echo;
    BENCH_TRY(b, "wait_1k", mob_function_find(client, "noop.echo", &echo));
    BENCH_TRY(b, "wait_1k", mob_waitset_create(client, &set));
    int64_t begin = bench_now(), sum = 0;
    for (int r = 0; r < rounds; r++) {
        struct mob_future *future;
        for (int i = 0; i < TASKS; i++) {
            BENCH_TRY(b, "wait_1k", mob_submit_function(client, echo, MOB_ARGS(mob_i64(i)), NULL, &future));
            BENCH_TRY(b, "wait_1k", mob_waitset_add(set, future));
        }
        for (int i = 0; i < TASKS; i++) {
            int64_t result = 0;
            BENCH_TRY(b, "wait_1k", mob_waitset_next(set, 60 * SECOND, &future));
            BENCH_TRY(b, "wait_1k", mob_get_i64(future, SECOND, &result));
            sum += result;
            mob_release(future);
        }
    }
    double seconds = (double)(bench_now() - begin) / 1e9;
    mob_waitset_destroy(set);
    if (sum != (int64_t)rounds * TASKS * (TASKS - 1) / 2) {
        bench_miss(b, "wait_1k", "the sum is wrong");
        return;
    }
    bench_row(b,
        &(struct bench_row){
            .name = "wait_1k", .value = rounds / seconds, .unit = "1/s", .n = rounds, .commit = "committed"});
}

/* ---- actors ---- */

static enum mob_status make_counter(struct mob_client *client, struct mob_actor **out)
{
    struct mob_future *created;
    struct mob_value *value;
    enum mob_status status = mob_actor_create(client, "noop.Counter", MOB_NO_ARGS, NULL, out);
    if (status == MOB_OK)
        status = mob_actor_created(*out, &created);
    if (status == MOB_OK)
        status = mob_get(created, 30 * SECOND, &value);
    if (status == MOB_OK)
        mob_value_release(value);
    return status;
}

static void actor_sync(struct bench *b, struct mob_client *client, struct mob_actor *actor)
{
    struct mob_future *future;
    double n, p50, p99;
    int64_t count = b->options.quick ? 500 : 20000;
    BENCH_TRY(b, "actor_sync",
        mob_submit(
            client, "noop.sync_actor", MOB_ARGS(mob_i64(count), mob_actor_handle(actor)), NULL, &future));
    if (!latencies(future, &n, &p50, &p99)) {
        bench_miss(b, "actor_sync", mob_future_error(future));
        return;
    }
    mob_release(future);
    sync_row(b, "actor_sync", n, p50, p99, "local");
}

static void actor_async(struct bench *b, struct mob_client *client)
{
    static struct window w;
    struct mob_actor *actor;
    uint64_t count = b->options.quick ? 50000 : 3000000;
    int64_t last = 0, sum = 0;
    memset(&w, 0, sizeof w);
    BENCH_TRY(b, "actor_async", make_counter(client, &actor));
    int64_t begin = bench_now();
    while (w.taken < count) {
        while (w.submitted < count && w.submitted - w.taken < WINDOW) {
            BENCH_TRY(b, "actor_async",
                mob_actor_call(actor, "inc", MOB_ARGS(mob_i64(1)), NULL, &w.futures[w.submitted % WINDOW]));
            w.submitted++;
        }
        sum = 0;
        BENCH_TRY(b, "actor_async", take_one(&w, NULL, &sum));
        if (sum != last + 1) {
            bench_miss(b, "actor_async", "calls ran out of order");
            return;
        }
        last = sum;
    }
    double seconds = (double)(bench_now() - begin) / 1e9;
    BENCH_TRY(b, "actor_async", mob_actor_kill(actor, true));
    mob_actor_release(actor);
    bench_row(b,
        &(struct bench_row){.name = "actor_async",
            .value = (double)count / seconds,
            .unit = "1/s",
            .baseline = b->ring_msgs,
            .against = "ring messages/s",
            .n = (double)count,
            .commit = "committed"});
}

static void actor_n_n(struct bench *b, struct mob_client *client)
{
    enum { ACTORS = 32, CALLERS = 4 };
    int64_t calls = b->options.quick ? 10000 : 500000;
    struct mob_actor *actors[ACTORS];
    struct mob_arg args[ACTORS + 1];
    struct mob_future *futures[CALLERS];
    args[0] = mob_i64(calls);
    for (int i = 0; i < ACTORS; i++) {
        BENCH_TRY(b, "actor_n_n", make_counter(client, &actors[i]));
        args[i + 1] = mob_actor_handle(actors[i]);
    }
    int64_t begin = bench_now();
    for (int i = 0; i < CALLERS; i++)
        BENCH_TRY(b, "actor_n_n",
            mob_submit(client, "noop.actor_caller", (struct mob_args){args, ACTORS + 1}, NULL, &futures[i]));
    for (int i = 0; i < CALLERS; i++) {
        int64_t result = 0;
        BENCH_TRY(b, "actor_n_n", mob_get_i64(futures[i], 300 * SECOND, &result));
        mob_release(futures[i]);
    }
    double seconds = (double)(bench_now() - begin) / 1e9;
    int64_t total = 0;
    for (int i = 0; i < ACTORS; i++) {
        struct mob_future *future;
        int64_t count = 0;
        BENCH_TRY(b, "actor_n_n", mob_actor_call(actors[i], "get", MOB_NO_ARGS, NULL, &future));
        BENCH_TRY(b, "actor_n_n", mob_get_i64(future, 10 * SECOND, &count));
        total += count;
        mob_release(future);
        BENCH_TRY(b, "actor_n_n", mob_actor_kill(actors[i], true));
        mob_actor_release(actors[i]);
    }
    if (total != calls * CALLERS) {
        bench_miss(b, "actor_n_n", "calls were lost or doubled");
        return;
    }
    bench_row(b,
        &(struct bench_row){.name = "actor_n_n",
            .value = (double)(calls * CALLERS) / seconds,
            .unit = "1/s",
            .baseline = b->ring_msgs,
            .against = "ring messages/s",
            .n = (double)(calls * CALLERS),
            .commit = "committed"});
}

static void actor_create(struct bench *b, struct mob_client *client)
{
    enum { ACTORS = 1000 };
    int count = b->options.quick ? 20 : ACTORS;
    static struct mob_actor *actors[ACTORS];
    static struct mob_future *pings[ACTORS];
    int64_t begin = bench_now();
    for (int i = 0; i < count; i++) {
        BENCH_TRY(b, "actor_create", mob_actor_create(client, "noop.Counter", MOB_NO_ARGS, NULL, &actors[i]));
        BENCH_TRY(
            b, "actor_create", mob_actor_call(actors[i], "ping", MOB_ARGS(mob_i64(i)), NULL, &pings[i]));
    }
    for (int i = 0; i < count; i++) {
        struct mob_value *value;
        BENCH_TRY(b, "actor_create", mob_get(pings[i], 120 * SECOND, &value));
        mob_value_release(value);
        mob_release(pings[i]);
    }
    double seconds = (double)(bench_now() - begin) / 1e9;
    for (int i = 0; i < count; i++) {
        BENCH_TRY(b, "actor_create", mob_actor_kill(actors[i], true));
        mob_actor_release(actors[i]);
    }
    bench_row(b,
        &(struct bench_row){
            .name = "actor_create", .value = seconds, .unit = "s", .n = count, .commit = "committed"});
}

/* ---- the whole cluster ---- */

static void start(struct bench *b)
{
    struct bench fresh = {.options = b->options};
    int64_t begin = bench_now();
    bool ok = bench_cluster_start(&fresh, NULL);
    struct mob_client *client = ok ? bench_connect(&fresh) : NULL;
    struct mob_future *future;
    int64_t result = 0;
    ok = client && bench_deploy(&fresh, client, "noop") &&
        mob_submit(client, "noop.echo", MOB_ARGS(mob_i64(5)), NULL, &future) == MOB_OK &&
        mob_get_i64(future, 30 * SECOND, &result) == MOB_OK && result == 5;
    double seconds = (double)(bench_now() - begin) / 1e9;
    mob_disconnect(client);
    bench_cluster_stop(&fresh);
    if (ok)
        bench_row(b,
            &(struct bench_row){
                .name = "start", .value = seconds, .unit = "s", .n = 1, .commit = "committed"});
    else
        bench_miss(b, "start", "no first result");
}

static void idle(struct bench *b)
{
    int seconds = b->options.quick ? 2 : 30;
    sleep(b->options.quick ? 1 : 12); /* idle workers are reaped, pages are warm */
    double cpu = bench_cpu_seconds(b);
    int64_t begin = bench_now();
    sleep((unsigned)seconds);
    double used = bench_cpu_seconds(b) - cpu;
    double elapsed = (double)(bench_now() - begin) / 1e9;
    bench_row(
        b, &(struct bench_row){.name = "idle", .value = bench_memory(b, false) / 1e6, .unit = "MB", .n = 1});
    bench_row(b, &(struct bench_row){.name = "idle_cpu", .value = 100 * used / elapsed, .unit = "%", .n = 1});
}

void suite_core(struct bench *b)
{
    struct mob_client *client = bench_connect(b);
    struct mob_actor *counter;
    if (!client || !bench_deploy(b, client, "noop")) {
        bench_miss(b, "core", "the cluster cannot be used");
        mob_disconnect(client);
        return;
    }
    tasks_async(b, client);
    tasks_sync(b, client);
    sync_committed(b, client, NULL, "tasks_sync_committed");
    tasks_chain(b, client);
    tasks_queued(b, client);
    fan_in(b, client);
    returns(b, client);
    wait_1k(b, client);
    tasks_tree_of(b, client, "tasks_tree", "noop.tree", b->options.quick ? 12 : 20);
    tasks_tree_of(b, client, "tasks_tree_get", "noop.tree_get", b->options.quick ? 6 : 14);
    if (make_counter(client, &counter) == MOB_OK) {
        actor_sync(b, client, counter);
        sync_committed(b, client, counter, "actor_sync_committed");
        (void)!mob_actor_kill(counter, true);
        mob_actor_release(counter);
    } else {
        bench_miss(b, "actor_sync", "the actor was not created");
    }
    actor_async(b, client);
    actor_n_n(b, client);
    actor_create(b, client);
    mob_disconnect(client);
    start(b);
    idle(b);
}
