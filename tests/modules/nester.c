/* Functions that wait for their children, for tests of tasks on one stack. Those that leave lines write
 * "WORD PID ID" into a file, so that a test sees which process ran what, and how often. */
#include <mobula/mobula.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/modules/nester_model.h"

#define PATIENCE_NS (120ll * 1000000000)

struct paths {
    char trace[256], gate[256];
};

static void read_path(struct mob_call *call, size_t i, char out[256])
{
    size_t size;
    const char *text = mob_arg_utf8(call, i, &size);
    snprintf(out, 256, "%.*s", (int)size, text);
}

static void leave_line(struct mob_call *call, const char *trace, const char *word)
{
    char id[MOB_TEXT_ID_MAX], line[512];
    mob_call_task_id(call, id);
    int n = snprintf(line, sizeof line, "%s %d %s\n", word, getpid(), id);
    int fd = open(trace, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    ssize_t written = write(fd, line, (size_t)n);
    (void)written;
    close(fd);
}

static bool there(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0;
}

/* ---- chains ---- */

/* n levels, each waits for the next. */
static enum mob_status deep(struct mob_call *call)
{
    int64_t n = mob_arg_i64(call, 0), below = 0;
    struct mob_future *future;
    if (n == 0)
        return mob_return_i64(call, 0);
    enum mob_status status =
        mob_submit(mob_call_client(call), "nester.deep", MOB_ARGS(mob_i64(n - 1)), NULL, &future);
    if (status == MOB_OK)
        status = mob_get_i64(future, MOB_FOREVER, &below);
    return status == MOB_OK ? mob_return_i64(call, below + 1) : status;
}

/* The same with a line at each level; the last one waits for the gate, or fails (`fails`). */
static enum mob_status traced(struct mob_call *call)
{
    struct paths p;
    read_path(call, 0, p.trace);
    read_path(call, 1, p.gate);
    int64_t n = mob_arg_i64(call, 2), fails = mob_arg_i64(call, 3), below = 0;
    struct mob_future *future;
    printf("before %lld\n", (long long)n);
    leave_line(call, p.trace, n == 0 ? "bottom" : "level");
    if (n == 0 && fails)
        return mob_fail(call, "the bottom gives way");
    while (n == 0 && !there(p.gate) && !mob_call_cancelled(call))
        usleep(1000);
    if (n == 0)
        return mob_call_cancelled(call) ? MOB_CANCELLED : mob_return_i64(call, 0);
    enum mob_status status = mob_submit(mob_call_client(call), "nester.traced",
        MOB_ARGS(mob_utf8(p.trace), mob_utf8(p.gate), mob_i64(n - 1), mob_i64(fails)), NULL, &future);
    if (status == MOB_OK)
        status = mob_get_i64(future, MOB_FOREVER, &below);
    printf("after %lld\n", (long long)n);
    return status == MOB_OK ? mob_return_i64(call, below + 1) : status;
}

/* ---- ended from outside ---- */

/* Runs until it is cancelled (`deaf`: does not listen), or for ten minutes. */
static enum mob_status stays(struct mob_call *call)
{
    struct paths p;
    read_path(call, 0, p.trace);
    leave_line(call, p.trace, "stays");
    for (int i = 0; i < 600000; i++) {
        if (mob_call_cancelled(call) && mob_arg_i64(call, 1) == 0)
            return MOB_CANCELLED;
        usleep(1000);
    }
    return mob_return_i64(call, 0);
}

/* Waits for such a child, which has a deadline (ms; 0 = none); the child's end is its result. */
static enum mob_status minds(struct mob_call *call)
{
    struct paths p;
    read_path(call, 0, p.trace);
    int64_t v, timeout_ms = mob_arg_i64(call, 2);
    struct mob_future *future;
    struct mob_submit_options options = {.struct_size = sizeof options, .timeout_ns = timeout_ms * 1000000};
    leave_line(call, p.trace, "minds");
    enum mob_status status = mob_submit(mob_call_client(call), "nester.stays",
        MOB_ARGS(mob_utf8(p.trace), mob_i64(mob_arg_i64(call, 1))), &options, &future);
    if (status == MOB_OK)
        return mob_return_i64(call, (int64_t)mob_get_i64(future, MOB_FOREVER, &v));
    return status;
}

/* ---- sums ---- */

/* n children that take no time, all waited for at once. */
static enum mob_status wide(struct mob_call *call)
{
    struct mob_client *client = mob_call_client(call);
    size_t n = (size_t)mob_arg_i64(call, 0), count = 0;
    struct mob_future **futures = calloc(n + 1, sizeof(struct mob_future *));
    bool *ready = calloc(n + 1, sizeof *ready);
    enum mob_status status = MOB_OK;
    int64_t sum = 0, v = 0;
    for (size_t i = 0; i < n && status == MOB_OK; i++)
        status = mob_submit(client, "nester.deep", MOB_ARGS(mob_i64((int64_t)i % 3)), NULL, &futures[i]);
    if (status == MOB_OK)
        status = mob_wait(futures, n, n, MOB_FOREVER, ready, &count);
    for (size_t i = 0; i < n && status == MOB_OK; i++, sum += v)
        status = mob_get_i64(futures[i], MOB_FOREVER, &v);
    free(futures);
    free(ready);
    return status == MOB_OK ? mob_return_i64(call, sum) : status;
}

/* ---- an input between two that wait ---- */

static enum mob_status add(struct mob_call *call)
{
    return mob_return_i64(call, mob_arg_i64(call, 0) + mob_arg_i64(call, 1));
}

/* Waits for the object of this id. */
static enum mob_status awaits(struct mob_call *call)
{
    struct paths p;
    char id[256];
    struct mob_future *future;
    int64_t v = 0;
    read_path(call, 0, p.trace);
    read_path(call, 1, id);
    leave_line(call, p.trace, "awaits");
    enum mob_status status = mob_future_from_id(mob_call_client(call), id, &future);
    if (status == MOB_OK)
        status = mob_get_i64(future, MOB_FOREVER, &v);
    return status == MOB_OK ? mob_return_i64(call, v) : status;
}

/* Gets a sum that needs what its other child makes, which waits for a promise of this task. The promise is
 * kept when the sum has been cancelled: so this must go on though that child has not ended. */
static enum mob_status lets_go(struct mob_call *call)
{
    struct mob_client *client = mob_call_client(call);
    struct paths p;
    char id[MOB_TEXT_ID_MAX], word[128];
    struct mob_future *promise, *waits, *sum;
    int64_t v = 0;
    read_path(call, 0, p.trace);
    enum mob_status status = mob_promise(client, &promise);
    if (status == MOB_OK) {
        mob_future_id(promise, id);
        status = mob_submit(client, "nester.awaits", MOB_ARGS(mob_utf8(p.trace), mob_utf8(id)), NULL, &waits);
    }
    if (status == MOB_OK)
        status = mob_submit(client, "nester.add", MOB_ARGS(mob_ref(waits), mob_i64(1)), NULL, &sum);
    if (status != MOB_OK)
        return status;
    mob_future_id(sum, id);
    snprintf(word, sizeof word, "sum:%s", id);
    leave_line(call, p.trace, word);
    enum mob_status got = mob_get_i64(sum, MOB_FOREVER, &v);
    leave_line(call, p.trace, "goes-on");
    status = mob_fulfil(promise, mob_i64(23));
    if (status == MOB_OK)
        status = mob_get_i64(waits, MOB_FOREVER, &v);
    return status == MOB_OK ? mob_return_i64(call, got == MOB_CANCELLED ? v : -v) : status;
}

/* ---- random programs ---- */

static enum mob_status fails(struct mob_call *call)
{
    return mob_fail(call, "as planned");
}

static enum mob_status items(struct mob_call *call)
{
    int64_t seed = mob_arg_i64(call, 0);
    for (int64_t n = 0; n < nester_items(seed); n++)
        if (mob_yield(call, mob_i64(chaos_mix(seed, n) % 1000)) != MOB_OK)
            return MOB_OK;
    return MOB_OK;
}

static enum mob_status tail(struct mob_call *call)
{
    struct mob_future *future;
    enum mob_status status = mob_submit(mob_call_client(call), "nester.random",
        MOB_ARGS(mob_i64(chaos_mix(mob_arg_i64(call, 0), 5)), mob_i64(mob_arg_i64(call, 1)), mob_i64(0)),
        NULL, &future);
    return status == MOB_OK ? mob_return_future(call, future) : status;
}

static enum mob_status submit_child(struct mob_client *client, const struct nester_plan *plan, int i,
    int64_t depth, struct mob_future **futures)
{
    struct mob_arg seed = mob_i64(plan->seed[i]), less = mob_i64(depth - 1);
    switch (plan->kind[i]) {
    case NESTER_NEEDS:
        return mob_submit(client, "nester.random", MOB_ARGS(seed, less, mob_ref(futures[plan->needs[i]])),
            NULL, &futures[i]);
    case NESTER_TAIL:
        return mob_submit(client, "nester.tail", MOB_ARGS(seed, less), NULL, &futures[i]);
    case NESTER_FAILS:
        return mob_submit(client, "nester.fails", MOB_NO_ARGS, NULL, &futures[i]);
    case NESTER_STREAM:
        return mob_submit(client, "nester.items", MOB_ARGS(seed), NULL, &futures[i]);
    case NESTER_PLAIN:
    case NESTER_KINDS:
    default:
        return mob_submit(client, "nester.random", MOB_ARGS(seed, less, mob_i64(0)), NULL, &futures[i]);
    }
}

static enum mob_status sum_items(struct mob_future *stream, int64_t *sum_out)
{
    struct mob_future *item;
    int64_t v;
    enum mob_status status;
    *sum_out = 0;
    while ((status = mob_stream_next(stream, MOB_FOREVER, &item)) == MOB_OK) {
        if ((status = mob_get_i64(item, MOB_FOREVER, &v)) != MOB_OK)
            return status;
        *sum_out += v;
        mob_release(item);
    }
    return status == MOB_NOT_FOUND ? MOB_OK : status;
}

static enum mob_status get_child(
    const struct nester_plan *plan, int i, struct mob_future *future, int64_t *value_out)
{
    if (plan->kind[i] == NESTER_STREAM)
        return sum_items(future, value_out);
    enum mob_status status =
        mob_get_i64(future, plan->get == NESTER_TIMED ? PATIENCE_NS : MOB_FOREVER, value_out);
    if (status != MOB_TASK_FAILED && status != MOB_DEPENDENCY_FAILED)
        return status;
    *value_out = NESTER_FAILED;
    return MOB_OK;
}

/* Before the gets: waits for all at once, or for one after the other as they come. */
static enum mob_status wait_first(const struct nester_plan *plan, struct mob_future **futures)
{
    bool ready[NESTER_CHILDREN_MAX];
    struct mob_future *waited[NESTER_CHILDREN_MAX] = {NULL};
    size_t n = 0, count = 0;
    for (int i = 0; i < plan->count; i++)
        if (plan->kind[i] != NESTER_STREAM)
            waited[n++] = futures[i];
    enum mob_status status = MOB_OK;
    for (size_t k = plan->get == NESTER_ALL ? n : 1; k <= n && n > 0 && status == MOB_OK; k++)
        status = mob_wait(waited, n, k, MOB_FOREVER, ready, &count);
    return status;
}

static enum mob_status random_program(struct mob_call *call)
{
    int64_t seed = mob_arg_i64(call, 0), depth = mob_arg_i64(call, 1);
    struct nester_plan plan = nester_plan(seed, depth);
    struct mob_future *futures[NESTER_CHILDREN_MAX] = {NULL};
    int64_t values[NESTER_CHILDREN_MAX] = {0}, result = chaos_mix(seed, mob_arg_i64(call, 2));
    enum mob_status status = MOB_OK;
    for (int i = 0; i < plan.count && status == MOB_OK; i++)
        status = submit_child(mob_call_client(call), &plan, i, depth, futures);
    if (status == MOB_OK && (plan.get == NESTER_ALL || plan.get == NESTER_ANY))
        status = wait_first(&plan, futures);
    for (int i = 0; i < plan.count && status == MOB_OK; i++) {
        int at = plan.get == NESTER_BACKWARDS ? plan.count - 1 - i : i;
        status = get_child(&plan, at, futures[at], &values[at]);
    }
    for (int i = 0; i < plan.count; i++)
        result = chaos_mix(result, values[i]);
    return status == MOB_OK ? mob_return_i64(call, result) : status;
}

MOB_MODULE("nester", MOB_FUNCTION("deep", deep, "i64 n -> i64"),
    MOB_FUNCTION("traced", traced, "utf8 trace, utf8 gate, i64 n, i64 fails -> i64"),
    MOB_FUNCTION("stays", stays, "utf8 trace, i64 deaf -> i64"),
    MOB_FUNCTION("minds", minds, "utf8 trace, i64 deaf, i64 timeout_ms -> i64"),
    MOB_FUNCTION("wide", wide, "i64 n -> i64"), MOB_FUNCTION("add", add, "i64 a, i64 b -> i64"),
    MOB_FUNCTION("awaits", awaits, "utf8 trace, utf8 id -> i64"),
    MOB_FUNCTION("lets_go", lets_go, "utf8 trace -> i64"), MOB_FUNCTION("fails", fails, "-> i64"),
    MOB_FUNCTION("items", items, "i64 seed -> stream i64"),
    MOB_FUNCTION("tail", tail, "i64 seed, i64 depth -> i64"),
    MOB_FUNCTION("random", random_program, "i64 seed, i64 depth, i64 input -> i64"))
