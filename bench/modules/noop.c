/* Functions that do next to nothing: what the benchmarks of tasks and actors run.
 *
 *   echo(x) -> x      sum(a, b)      sum_many(x...)      many(count) -> count numbers (ask for num_returns =
 * count) tree(depth)       2^depth leaves; inner tasks return the future of sum(left, right) tree_get(depth)
 * the same, but inner tasks block in get sync_child(n)     n times: submit an echo, get it; latencies as JSON
 *   sync_actor(n, counter)          the same with calls of an actor
 *   actor_caller(n, kept, seed, counters...)    n calls, on each actor in turn; the sum of the answers, then
 *                                   `kept` of them (kept_answers.h)
 *   Counter           inc(by), get(), ping()
 */
#include <mobula/mobula.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bench/modules/kept_answers.h"

#define DEPTH_MAX 40
#define SAMPLES_MAX 10000000 /* of latencies: 80 MB */
#define WINDOW 1024 /* calls that one actor_caller has under way */

/* ------------------------------------------------------------------------------------------------ numbers */

static enum mob_status echo(struct mob_call *call)
{
    return mob_return_i64(call, mob_arg_i64(call, 0));
}

/* Wraps around: what counts is that the same numbers give the same sum. */
static int64_t add(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a + (uint64_t)b);
}

static enum mob_status sum(struct mob_call *call)
{
    return mob_return_i64(call, add(mob_arg_i64(call, 0), mob_arg_i64(call, 1)));
}

static enum mob_status sum_many(struct mob_call *call)
{
    int64_t total = 0;
    for (size_t i = 0; i < mob_arg_count(call); i++)
        total = add(total, mob_arg_i64(call, i));
    return mob_return_i64(call, total);
}

static enum mob_status many(struct mob_call *call)
{
    const int64_t count = mob_arg_i64(call, 0);
    for (int64_t i = 0; i < count; i++) {
        enum mob_status status = mob_return_at(call, (size_t)i, mob_i64(i));
        if (status != MOB_OK)
            return status;
    }
    return MOB_OK;
}

/* ------------------------------------------------------------------------------------------------ trees */

static enum mob_status check_depth(struct mob_call *call, int64_t depth)
{
    if (depth < 0 || depth > DEPTH_MAX)
        return mob_fail(call, "depth is %" PRId64 ", not 0 to %d", depth, DEPTH_MAX);
    return MOB_OK;
}

/* Both subtrees, as tasks of `function`. */
static enum mob_status submit_subtrees(
    struct mob_client *client, const char *function, int64_t depth, struct mob_future *subtrees_out[2])
{
    const struct mob_function *resolved;
    enum mob_status status = mob_function_find(client, function, &resolved);
    for (int i = 0; i < 2 && status == MOB_OK; i++)
        status = mob_submit_function(client, resolved, MOB_ARGS(mob_i64(depth - 1)), NULL, &subtrees_out[i]);
    return status;
}

static enum mob_status tree(struct mob_call *call)
{
    const int64_t depth = mob_arg_i64(call, 0);
    if (depth == 0)
        return mob_return_i64(call, 1);
    struct mob_client *client = mob_call_client(call);
    struct mob_future *subtrees[2], *total;
    enum mob_status status = check_depth(call, depth);
    if (status == MOB_OK)
        status = submit_subtrees(client, "noop.tree", depth, subtrees);
    if (status == MOB_OK)
        status = mob_submit(
            client, "noop.sum", MOB_ARGS(mob_ref(subtrees[0]), mob_ref(subtrees[1])), NULL, &total);
    if (status != MOB_OK)
        return status;
    mob_release(subtrees[0]);
    mob_release(subtrees[1]);
    return mob_return_future(call, total);
}

static enum mob_status tree_get(struct mob_call *call)
{
    const int64_t depth = mob_arg_i64(call, 0);
    if (depth == 0)
        return mob_return_i64(call, 1);
    struct mob_future *subtrees[2];
    enum mob_status status = check_depth(call, depth);
    if (status == MOB_OK)
        status = submit_subtrees(mob_call_client(call), "noop.tree_get", depth, subtrees);
    int64_t total = 0;
    for (int i = 0; i < 2 && status == MOB_OK; i++) {
        int64_t leaves = 0;
        status = mob_get_i64(subtrees[i], MOB_FOREVER, &leaves);
        total = add(total, leaves);
        mob_release(subtrees[i]);
    }
    return status == MOB_OK ? mob_return_i64(call, total) : status;
}

/* ------------------------------------------------------------------------------------------------ latencies
 */

/* What is measured must not be the same on a replay, so this is not mob_clock_ns. */
static int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static int compare_i64(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static double percentile_us(const int64_t *sorted_ns, int64_t n, int64_t percent)
{
    const int64_t above = n * (100 - percent) / 100;
    return (double)sorted_ns[n - 1 - above] / 1e3;
}

/* Sorts. */
static enum mob_status return_latencies(struct mob_call *call, int64_t *latencies_ns, int64_t n)
{
    qsort(latencies_ns, (size_t)n, sizeof *latencies_ns, compare_i64);
    double total = 0;
    for (int64_t i = 0; i < n; i++)
        total += (double)latencies_ns[i];
    char text[256];
    snprintf(text, sizeof text,
        "{\"n\":%" PRId64
        ",\"mean_us\":%.3f,\"p50_us\":%.3f,\"p90_us\":%.3f,\"p99_us\":%.3f,\"max_us\":%.3f}",
        n, total / (double)n / 1e3, percentile_us(latencies_ns, n, 50), percentile_us(latencies_ns, n, 90),
        percentile_us(latencies_ns, n, 99), percentile_us(latencies_ns, n, 100));
    return mob_return(call, mob_json(text));
}

/* One echo in flight: of a child task, or of `counter` when there is one. */
static enum mob_status one_echo(struct mob_client *client, const struct mob_function *child,
    struct mob_actor *counter, int64_t value, int64_t *answer_out)
{
    struct mob_future *future;
    enum mob_status status = counter != NULL
        ? mob_actor_call(counter, "ping", MOB_ARGS(mob_i64(value)), NULL, &future)
        : mob_submit_function(client, child, MOB_ARGS(mob_i64(value)), NULL, &future);
    if (status != MOB_OK)
        return status;
    status = mob_get_i64(future, MOB_FOREVER, answer_out);
    mob_release(future);
    return status;
}

static enum mob_status measure(struct mob_call *call, struct mob_actor *counter)
{
    const int64_t n = mob_arg_i64(call, 0);
    if (n < 1 || n > SAMPLES_MAX)
        return mob_fail(call, "n is %" PRId64 ", not 1 to %d", n, SAMPLES_MAX);
    const struct mob_function *child;
    enum mob_status status = mob_function_find(mob_call_client(call), "noop.echo", &child);
    if (status != MOB_OK)
        return status;
    int64_t *latencies_ns = malloc((size_t)n * sizeof *latencies_ns);
    if (latencies_ns == NULL)
        return MOB_NO_MEMORY;
    for (int64_t i = 0; i < n && status == MOB_OK; i++) {
        int64_t answer = -1;
        const int64_t begin = now_ns();
        status = one_echo(mob_call_client(call), child, counter, i, &answer);
        latencies_ns[i] = now_ns() - begin;
        if (status == MOB_OK && answer != i)
            status = mob_fail(call, "echo of %" PRId64 " gave %" PRId64, i, answer);
    }
    if (status == MOB_OK)
        status = return_latencies(call, latencies_ns, n);
    free(latencies_ns);
    return status;
}

static enum mob_status sync_child(struct mob_call *call)
{
    return measure(call, NULL);
}

static enum mob_status sync_actor(struct mob_call *call)
{
    return measure(call, mob_arg_actor(call, 1));
}

/* ------------------------------------------------------------------------------------------------ actors */

static enum mob_status counter_create(struct mob_call *call)
{
    int64_t *count = calloc(1, sizeof *count);
    if (count == NULL)
        return MOB_NO_MEMORY;
    mob_call_set_self(call, count);
    return MOB_OK;
}

static enum mob_status counter_inc(struct mob_call *call)
{
    int64_t *count = mob_call_self(call);
    *count = add(*count, mob_arg_i64(call, 0));
    return mob_return_i64(call, *count);
}

static enum mob_status counter_get(struct mob_call *call)
{
    const int64_t *count = mob_call_self(call);
    return mob_return_i64(call, *count);
}

static enum mob_status counter_checkpoint(struct mob_call *call)
{
    return mob_return(call, mob_bytes(mob_call_self(call), sizeof(int64_t)));
}

static enum mob_status counter_restore(struct mob_call *call)
{
    size_t size = 0;
    const void *bytes = mob_arg_bytes(call, 0, &size);
    if (bytes == NULL || size != sizeof(int64_t))
        return mob_fail(call, "a checkpoint of %zu bytes is not a counter", size);
    enum mob_status status = counter_create(call);
    if (status == MOB_OK)
        memcpy(mob_call_self(call), bytes, size);
    return status;
}

/* Adds up the answers of `inc(1)`. Other callers' calls fall between ours, so the sum of one caller varies;
 * that of all callers does not, since each actor gives each number once. */
struct caller {
    struct mob_call *call;
    int64_t calls, kept, kept_so_far, total;
    uint64_t seed;
};

/* The answer of call `i`: added up, and returned by itself when it is one of those to be kept. */
static enum mob_status take_answer(struct caller *c, struct mob_future *future, int64_t i)
{
    int64_t answer = 0;
    enum mob_status status = mob_get_i64(future, MOB_FOREVER, &answer);
    mob_release(future);
    c->total = add(c->total, answer);
    if (status != MOB_OK || c->kept_so_far == c->kept ||
        kept_answer_index(c->calls, c->kept, c->seed, c->kept_so_far) != i)
        return status;
    return mob_return_at(c->call, (size_t)++c->kept_so_far, mob_i64(answer));
}

static enum mob_status actor_caller(struct mob_call *call)
{
    enum { FIRST_ACTOR = 3 };
    struct caller c = {.call = call,
        .calls = mob_arg_i64(call, 0),
        .kept = mob_arg_i64(call, 1),
        .seed = (uint64_t)mob_arg_i64(call, 2)};
    const size_t actors = mob_arg_count(call) - FIRST_ACTOR;
    if (c.calls < 0 || actors == 0 || c.kept < 0 || c.kept > c.calls)
        return mob_fail(
            call, "%" PRId64 " calls of %zu actors, %" PRId64 " of them kept", c.calls, actors, c.kept);
    struct mob_future *window[WINDOW];
    enum mob_status status = MOB_OK;
    for (int64_t i = 0; i < c.calls + WINDOW && status == MOB_OK; i++) {
        struct mob_future **slot = &window[i % WINDOW];
        if (i >= WINDOW && i - WINDOW < c.calls)
            status = take_answer(&c, *slot, i - WINDOW);
        if (i < c.calls && status == MOB_OK)
            status = mob_actor_call(mob_arg_actor(call, FIRST_ACTOR + (size_t)i % actors), "inc",
                MOB_ARGS(mob_i64(1)), NULL, slot);
    }
    return status == MOB_OK ? mob_return_at(call, 0, mob_i64(c.total)) : status;
}

/* clang-format off */
MOB_MODULE("noop",
    MOB_FUNCTION("echo", echo, "i64 x -> i64"),
    MOB_FUNCTION("sum", sum, "i64 a, i64 b -> i64"),
    MOB_FUNCTION("sum_many", sum_many, "i64... x -> i64"),
    MOB_FUNCTION("many", many, "i64 count -> i64..."),
    MOB_FUNCTION("tree", tree, "i64 depth -> i64"),
    MOB_FUNCTION("tree_get", tree_get, "i64 depth -> i64"),
    MOB_FUNCTION("sync_child", sync_child, "i64 n -> json"),
    MOB_FUNCTION("sync_actor", sync_actor, "i64 n, actor counter -> json"),
    MOB_FUNCTION("actor_caller", actor_caller, "i64 n, i64 kept, i64 seed, actor... counters -> i64..."),
    {.name = "Counter", .main = counter_create, .signature = "-> ()",
     .methods = MOB_METHODS(
         MOB_METHOD("inc", counter_inc, "i64 by -> i64"),
         MOB_METHOD("get", counter_get, "-> i64"),
         MOB_METHOD("ping", echo, "i64 x -> i64")),
     .destroy = free, .checkpoint = counter_checkpoint, .restore = counter_restore})
/* clang-format on */
