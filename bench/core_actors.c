#include <stdlib.h>
#include <string.h>

#include "bench/core.h"
#include "bench/modules/kept_answers.h"

enum mob_status bench_window_take(struct bench_window *w, struct bench_samples *samples, int64_t *sum)
{
    uint64_t i = w->taken % BENCH_WINDOW;
    int64_t result = 0;
    enum mob_status status = mob_get_i64(w->futures[i], MOB_FOREVER, &result);
    if (status != MOB_OK)
        return status;
    *sum += result;
    bench_sample_offer(samples, w->futures[i], w->arguments[i], result);
    mob_release(w->futures[i]);
    w->taken++;
    return MOB_OK;
}

void bench_rate_row(struct bench *b, const char *row, double count, double seconds)
{
    bench_row(b,
        &(struct bench_row){.name = row,
            .value = count / seconds,
            .unit = "1/s",
            .baseline = b->ring_msgs,
            .against = "ring messages/s",
            .n = count,
            .commit = "committed"});
}

static enum mob_status make_counter(struct mob_client *client, struct mob_actor **out)
{
    struct mob_future *created;
    struct mob_value *value;
    enum mob_status status = mob_actor_create(client, "noop.Counter", MOB_NO_ARGS, NULL, out);
    if (status == MOB_OK)
        status = mob_actor_created(*out, &created);
    if (status != MOB_OK)
        return status;
    status = mob_get(created, 30 * BENCH_SECOND, &value);
    if (status == MOB_OK)
        mob_value_release(value);
    mob_release(created);
    return status;
}

/* ---- one in flight ---- */

/* Members of the JSON that sync_child and sync_actor return. */
static bool latencies(struct mob_future *future, double *n, double *p50, double *p99)
{
    struct mob_value *value;
    const void *data;
    size_t size;
    char text[512];
    if (mob_get(future, 300 * BENCH_SECOND, &value) != MOB_OK)
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

/* Against as many round trips of a byte between two processes, or of a SET to Redis when the result is
 * committed. */
static void sync_row(struct bench *b, const char *row, double n, double p50, double p99, bool committed)
{
    double primitive_us = committed ? b->redis_set_us : b->socket_rtt_us;
    bench_row(b,
        &(struct bench_row){.name = row,
            .value = 1e6 / p50,
            .unit = "1/s",
            .baseline = primitive_us > 0 ? 1e6 / primitive_us : 0,
            .against = committed ? "Redis SETs a second, one at a time" : "socket round trips a second",
            .n = n,
            .p50_us = p50,
            .p99_us = p99,
            .commit = committed ? "committed" : "local"});
}

/* A task that submits children, or calls `actor`, one at a time. */
static void sync_in_task(struct bench *b, struct mob_client *client, struct mob_actor *actor, const char *row)
{
    static struct bench_samples samples;
    struct mob_future *future;
    double n, p50, p99;
    char task[MOB_TEXT_ID_MAX];
    int64_t count = b->options.quick ? 500 : 20000;
    BENCH_TRY(b, row,
        actor ? mob_submit(client, "noop.sync_actor", MOB_ARGS(mob_i64(count), mob_actor_handle(actor)), NULL,
                    &future)
              : mob_submit(client, "noop.sync_child", MOB_ARGS(mob_i64(count)), NULL, &future));
    if (!latencies(future, &n, &p50, &p99)) {
        bench_miss(b, row, mob_future_error(future));
        return;
    }
    mob_future_task_id(future, task);
    mob_release(future);
    bench_samples_init(&samples, actor ? "noop.Counter.ping" : "noop.echo");
    if (!bench_children_check(b, row, task, &samples, count, BENCH_SAMPLES, BENCH_RESULT_ECHO))
        return;
    bench_note_worker(b, &samples, task);
    if (samples.workers < 2)
        bench_miss(b, row, "parent and children ran in one process");
    else
        sync_row(b, row, n, p50, p99, false);
}

static enum mob_status one_call(struct mob_client *client, struct mob_actor *actor, int64_t argument,
    struct bench_samples *samples, double *us_out, int64_t *result_out)
{
    struct mob_future *future;
    int64_t begin = bench_now();
    enum mob_status status = actor
        ? mob_actor_call(actor, "inc", MOB_ARGS(mob_i64(argument)), NULL, &future)
        : mob_submit(client, "noop.echo", MOB_ARGS(mob_i64(argument)), NULL, &future);
    if (status != MOB_OK)
        return status;
    status = mob_get_i64(future, 10 * BENCH_SECOND, result_out);
    *us_out = (double)(bench_now() - begin) / 1e3;
    if (status == MOB_OK)
        bench_sample_offer(samples, future, argument, *result_out);
    mob_release(future);
    return status;
}

static void sync_by_driver(
    struct bench *b, struct mob_client *client, struct mob_actor *actor, const char *row)
{
    enum { COUNT_MAX = 5000 };
    static double us[COUNT_MAX];
    static struct bench_samples samples;
    int count = b->options.quick ? 200 : COUNT_MAX;
    bench_samples_init(&samples, actor ? "noop.Counter.inc" : "noop.echo");
    for (int i = 0; i < count; i++) {
        int64_t result = 0, argument = actor ? 1 : i;
        BENCH_TRY(b, row, one_call(client, actor, argument, &samples, &us[i], &result));
        if (result != (actor ? i + 1 : i)) {
            bench_miss(b, row, "a result is wrong");
            return;
        }
    }
    if (bench_samples_check(b, row, &samples, 1))
        sync_row(b, row, count, bench_percentile(us, count, 50), bench_percentile(us, count, 99), true);
}

void bench_core_sync(struct bench *b, struct mob_client *client)
{
    struct mob_actor *counter;
    sync_in_task(b, client, NULL, "tasks_sync");
    sync_by_driver(b, client, NULL, "tasks_sync_committed");
    BENCH_TRY(b, "actor_sync", make_counter(client, &counter));
    sync_in_task(b, client, counter, "actor_sync");
    sync_by_driver(b, client, counter, "actor_sync_committed");
    BENCH_TRY(b, "actor_sync", mob_actor_kill(counter, true));
    mob_actor_release(counter);
}

/* ---- many in flight ---- */

static void actor_async(struct bench *b, struct mob_client *client)
{
    static const char row[] = "actor_async";
    static struct bench_window w;
    static struct bench_samples samples;
    struct mob_actor *actor;
    uint64_t count = b->options.quick ? 50000 : 3000000;
    int64_t last = 0;
    memset(&w, 0, sizeof w);
    bench_samples_init(&samples, "noop.Counter.inc");
    BENCH_TRY(b, row, make_counter(client, &actor));
    int64_t begin = bench_now();
    while (w.taken < count) {
        while (w.submitted < count && w.submitted - w.taken < BENCH_WINDOW) {
            uint64_t i = w.submitted++ % BENCH_WINDOW;
            w.arguments[i] = 1;
            BENCH_TRY(b, row, mob_actor_call(actor, "inc", MOB_ARGS(mob_i64(1)), NULL, &w.futures[i]));
        }
        int64_t result = 0;
        BENCH_TRY(b, row, bench_window_take(&w, &samples, &result));
        if (result != last + 1) {
            bench_miss(b, row, "calls ran out of order");
            return;
        }
        last = result;
    }
    double seconds = (double)(bench_now() - begin) / 1e9;
    BENCH_TRY(b, row, mob_actor_kill(actor, true));
    mob_actor_release(actor);
    if (bench_samples_check(b, row, &samples, 1))
        bench_rate_row(b, row, (double)count, seconds);
}

enum { ACTORS = 32, CALLERS = 4, KEPT = BENCH_SAMPLES / CALLERS };

struct caller {
    char task[MOB_TEXT_ID_MAX];
    uint64_t seed;
    int64_t total, answers[KEPT]; /* what it was told, of the calls that kept_answer_index names */
};

static enum mob_status submit_caller(struct mob_client *client, struct mob_actor *const *actors,
    int64_t calls, struct caller *caller, struct mob_future *futures_out[1 + KEPT])
{
    enum { FIRST_ACTOR = 3 };
    struct mob_arg args[FIRST_ACTOR + ACTORS] = {
        mob_i64(calls), mob_i64(KEPT), mob_i64((int64_t)caller->seed)};
    struct mob_submit_options options = {.struct_size = sizeof options, .num_returns = 1 + KEPT};
    for (int i = 0; i < ACTORS; i++)
        args[FIRST_ACTOR + i] = mob_actor_handle(actors[i]);
    return mob_submit(
        client, "noop.actor_caller", (struct mob_args){args, FIRST_ACTOR + ACTORS}, &options, futures_out);
}

static enum mob_status take_kept(struct caller *caller, struct mob_future *futures[1 + KEPT])
{
    enum mob_status status = MOB_OK;
    for (int k = 0; k < KEPT && status == MOB_OK; k++)
        status = mob_get_i64(futures[1 + k], 10 * BENCH_SECOND, &caller->answers[k]);
    for (int k = 0; k < 1 + KEPT; k++)
        mob_release(futures[k]);
    return status;
}

static enum mob_status run_callers(struct mob_client *client, struct mob_actor *const *actors, int64_t calls,
    struct caller callers[CALLERS], double *seconds_out)
{
    static struct mob_future *futures[CALLERS][1 + KEPT];
    enum mob_status status = MOB_OK;
    int64_t begin = bench_now();
    for (int i = 0; i < CALLERS && status == MOB_OK; i++) {
        callers[i].seed = (uint64_t)begin + (uint64_t)i;
        status = submit_caller(client, actors, calls, &callers[i], futures[i]);
    }
    for (int i = 0; i < CALLERS && status == MOB_OK; i++)
        status = mob_get_i64(futures[i][0], 300 * BENCH_SECOND, &callers[i].total);
    *seconds_out = (double)(bench_now() - begin) / 1e9;
    for (int i = 0; i < CALLERS && status == MOB_OK; i++) {
        mob_future_task_id(futures[i][0], callers[i].task);
        status = take_kept(&callers[i], futures[i]);
    }
    return status;
}

/* What the callers were told is what the log says of the same calls. */
static bool answers_are_logged(struct bench *b, const char *row, int64_t calls,
    const struct caller callers[CALLERS], struct bench_samples *samples)
{
    const int step = b->options.quick ? 20 : 1;
    int64_t indices[KEPT], results[KEPT];
    for (int i = 0; i < CALLERS; i++) {
        int n = 0;
        for (int k = 0; k < KEPT; k += step, n++) {
            indices[n] = kept_answer_index(calls, KEPT, callers[i].seed, k);
            results[n] = callers[i].answers[k];
        }
        if (!bench_children_compare(b, row, callers[i].task, samples, n, indices, 1, results))
            return false;
        bench_note_worker(b, samples, callers[i].task);
    }
    return true;
}

/* An actor that was called n times has answered 1, 2, ... n. */
static enum mob_status count_and_kill(struct mob_actor *actor, int64_t *total, uint64_t *answers)
{
    struct mob_future *future;
    int64_t count = 0;
    enum mob_status status = mob_actor_call(actor, "get", MOB_NO_ARGS, NULL, &future);
    if (status == MOB_OK)
        status = mob_get_i64(future, 10 * BENCH_SECOND, &count);
    if (status != MOB_OK)
        return status;
    mob_release(future);
    *total += count;
    *answers += (uint64_t)count * (uint64_t)(count + 1) / 2;
    status = mob_actor_kill(actor, true);
    mob_actor_release(actor);
    return status;
}

static void actor_n_n(struct bench *b, struct mob_client *client)
{
    static const char row[] = "actor_n_n";
    static struct bench_samples samples;
    static struct caller callers[CALLERS];
    int64_t calls = b->options.quick ? 10000 : 500000, total = 0;
    struct mob_actor *actors[ACTORS];
    uint64_t answers = 0, expected = 0;
    double seconds;
    for (int i = 0; i < ACTORS; i++)
        BENCH_TRY(b, row, make_counter(client, &actors[i]));
    BENCH_TRY(b, row, run_callers(client, actors, calls, callers, &seconds));
    for (int i = 0; i < CALLERS; i++)
        answers += (uint64_t)callers[i].total;
    for (int i = 0; i < ACTORS; i++)
        BENCH_TRY(b, row, count_and_kill(actors[i], &total, &expected));
    if (total != calls * CALLERS || answers != expected) {
        bench_miss(b, row, "calls were lost or doubled, or an answer is wrong");
        return;
    }
    bench_samples_init(&samples, "noop.Counter.inc");
    if (!answers_are_logged(b, row, calls, callers, &samples))
        return;
    if (samples.workers < 2 && !b->options.quick)
        bench_miss(b, row, "fewer than two worker processes took part");
    else
        bench_rate_row(b, row, (double)total, seconds);
}

static void actor_create(struct bench *b, struct mob_client *client)
{
    enum { ACTORS_MAX = 1000 };
    static const char row[] = "actor_create";
    static struct bench_samples samples;
    int count = b->options.quick ? 20 : ACTORS_MAX;
    static struct mob_actor *actors[ACTORS_MAX];
    static struct mob_future *pings[ACTORS_MAX];
    bench_samples_init(&samples, "noop.Counter.ping");
    int64_t begin = bench_now();
    for (int i = 0; i < count; i++) {
        BENCH_TRY(b, row, mob_actor_create(client, "noop.Counter", MOB_NO_ARGS, NULL, &actors[i]));
        BENCH_TRY(b, row, mob_actor_call(actors[i], "ping", MOB_ARGS(mob_i64(i)), NULL, &pings[i]));
    }
    int wrong = 0;
    for (int i = 0; i < count; i++) {
        int64_t result = -1;
        BENCH_TRY(b, row, mob_get_i64(pings[i], 120 * BENCH_SECOND, &result));
        wrong += result != i;
    }
    double seconds = (double)(bench_now() - begin) / 1e9;
    for (int i = 0; i < count; i++) {
        bench_sample_offer(&samples, pings[i], i, i);
        mob_release(pings[i]);
        BENCH_TRY(b, row, mob_actor_kill(actors[i], true));
        mob_actor_release(actors[i]);
    }
    if (wrong > 0)
        bench_miss(b, row, "an answer is wrong");
    else if (bench_samples_check(b, row, &samples, 2))
        bench_row(b,
            &(struct bench_row){.name = row,
                .value = seconds,
                .unit = "s",
                .baseline = count * b->fork_us / 1e6,
                .against = "as many forks that end at once",
                .n = count,
                .commit = "committed"});
}

void bench_core_actors(struct bench *b, struct mob_client *client)
{
    if (bench_wanted(b, "actor_async"))
        actor_async(b, client);
    if (bench_wanted(b, "actor_n_n"))
        actor_n_n(b, client);
    if (bench_wanted(b, "actor_create"))
        actor_create(b, client);
}
