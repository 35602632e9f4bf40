/* Functions that tests call: every kind of value, result, failure and API call that a function may make. */
#include <mobula/mobula.h>

#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static enum mob_status echo_i64(struct mob_call *call)
{
    return mob_return_i64(call, mob_arg_i64(call, 0));
}

static enum mob_status echo_utf8(struct mob_call *call)
{
    size_t size;
    const char *text = mob_arg_utf8(call, 0, &size);
    char *copy = strndup(text == NULL ? "" : text, size);
    enum mob_status status = mob_return(call, mob_utf8(copy));
    free(copy);
    return status;
}

static enum mob_status echo_bytes(struct mob_call *call)
{
    size_t size;
    const void *bytes = mob_arg_bytes(call, 0, &size);
    return mob_return(call, mob_bytes(bytes, size));
}

static enum mob_status rows(struct mob_call *call)
{
    return mob_return_i64(call, mob_arg_tensor(call, 0).shape[0]);
}

static enum mob_status scale(struct mob_call *call)
{
    struct mob_tensor x = mob_arg_tensor(call, 0);
    double factor = mob_arg_f64(call, 1);
    int64_t n = 1;
    for (int i = 0; i < x.dims; i++)
        n *= x.shape[i];
    float *y = malloc((size_t)n * sizeof *y + 1);
    for (int64_t i = 0; i < n; i++)
        y[i] = (float)(((const float *)x.data)[i] * factor);
    x.data = y;
    enum mob_status status = mob_return(call, mob_tensor(x));
    free(y);
    return status;
}

static enum mob_status sum_all(struct mob_call *call)
{
    int64_t sum = 0;
    for (size_t i = 0; i < mob_arg_count(call); i++)
        sum += mob_arg_i64(call, i);
    return mob_return_i64(call, sum);
}

static enum mob_status many(struct mob_call *call)
{
    for (int64_t i = 0; i < mob_arg_i64(call, 0); i++)
        mob_return_at(call, (size_t)i, mob_i64(i * i));
    return MOB_OK;
}

static enum mob_status many_texts(struct mob_call *call)
{
    size_t bytes = (size_t)mob_arg_i64(call, 1);
    char *text = malloc(bytes + 1);
    if (text == NULL)
        return MOB_NO_MEMORY;
    for (int64_t i = 0; i < mob_arg_i64(call, 0); i++) {
        snprintf(text, bytes + 1, "%0*lld", (int)bytes, (long long)i);
        mob_return_at(call, (size_t)i, mob_utf8(text));
    }
    free(text);
    return MOB_OK;
}

static enum mob_status optional(struct mob_call *call)
{
    return mob_return(call, mob_arg_is_null(call, 0) ? mob_utf8("nothing") : mob_i64(mob_arg_i64(call, 0)));
}

/* The types of its arguments, with a blank between two. */
static enum mob_status kinds(struct mob_call *call)
{
    char told[512] = "";
    size_t used = 0;
    for (size_t i = 0; i < mob_arg_count(call) && used < sizeof told; i++)
        used += (size_t)snprintf(
            told + used, sizeof told - used, "%s%s", i == 0 ? "" : " ", mob_arg_type(call, i));
    return mob_return(call, mob_utf8(told));
}

static enum mob_status nothing(struct mob_call *call)
{
    (void)call;
    return MOB_OK;
}

static enum mob_status fails(struct mob_call *call)
{
    return mob_fail(call, "asked to fail with %lld", (long long)mob_arg_i64(call, 0));
}

static enum mob_status crashes(struct mob_call *call)
{
    printf("about to crash\n");
    (void)call;
    raise(SIGSEGV);
    return MOB_OK;
}

/* Allocates for ever; what malloc does not give is written to all the same. */
static enum mob_status devours(struct mob_call *call)
{
    (void)call;
    printf("about to take all memory\n");
    for (int taken = 0; taken < INT_MAX; taken++) {
        volatile char *block = malloc(64u << 20);
        for (size_t i = 0; i < 64u << 20; i += 4096)
            block[i] = 1;
    }
    return MOB_OK;
}

static enum mob_status exits(struct mob_call *call)
{
    exit((int)mob_arg_i64(call, 0));
}

/* Memory of its own, which is gone when it ends. */
static enum mob_status touches(struct mob_call *call)
{
    size_t bytes = (size_t)mob_arg_i64(call, 0) << 20;
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return mob_fail(call, "no memory to touch");
    memset(memory, 1, bytes);
    munmap(memory, bytes);
    return mob_return_i64(call, mob_arg_i64(call, 0));
}

static enum mob_status sleeps(struct mob_call *call)
{
    int64_t ms = mob_arg_i64(call, 0);
    for (int64_t i = 0; i < ms && !mob_call_cancelled(call); i++)
        usleep(1000);
    return mob_call_cancelled(call) ? MOB_CANCELLED : mob_return_i64(call, ms);
}

/* That much CPU time of its thread. */
static enum mob_status burns(struct mob_call *call)
{
    struct timespec at;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &at);
    int64_t end = at.tv_sec * 1000000000ll + at.tv_nsec + mob_arg_i64(call, 0) * 1000000;
    do
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &at);
    while (at.tv_sec * 1000000000ll + at.tv_nsec < end);
    return mob_return_i64(call, mob_arg_i64(call, 0));
}

static enum mob_status talks(struct mob_call *call)
{
    printf("hello from a task\n");
    fprintf(stderr, "and on stderr\n");
    return mob_return(call, mob_null());
}

static enum mob_status returns_text(struct mob_call *call)
{
    return mob_return(call, mob_utf8("not a number"));
}

/* Declared as tensor<f32>[2]. */
static enum mob_status returns_shape(struct mob_call *call)
{
    static const float zeros[4];
    return mob_return(call, mob_tensor_f32(zeros, mob_arg_i64(call, 0), 0));
}

/* Declared as i64. */
static enum mob_status returns_buffer(struct mob_call *call)
{
    return mob_return_buffer(call, 0, 8) ? MOB_OK : MOB_TYPE_MISMATCH;
}

static enum mob_status big(struct mob_call *call)
{
    size_t size = (size_t)mob_arg_i64(call, 0);
    uint8_t *bytes = mob_return_buffer(call, 0, size);
    if (bytes == NULL)
        return MOB_OK;
    for (size_t i = 0; i < size; i++)
        bytes[i] = (uint8_t)(i * 7);
    return MOB_OK;
}

/* Nested: the sum of 1..n, one task for each. */
static enum mob_status nested_sum(struct mob_call *call)
{
    struct mob_client *client = mob_call_client(call);
    int64_t n = mob_arg_i64(call, 0), sum = 0;
    struct mob_future **futures = calloc((size_t)n + 1, sizeof(struct mob_future *));
    enum mob_status status = MOB_OK;
    for (int64_t i = 0; i < n && status == MOB_OK; i++)
        status = mob_submit(client, "probe.echo_i64", MOB_ARGS(mob_i64(i + 1)), NULL, &futures[i]);
    for (int64_t i = 0; i < n && status == MOB_OK; i++) {
        int64_t v;
        status = mob_get_i64(futures[i], MOB_FOREVER, &v);
        sum += status == MOB_OK ? v : 0;
    }
    free(futures);
    return status == MOB_OK ? mob_return_i64(call, sum) : status;
}

/* One child with n arguments: the list is longer than a spec. */
static enum mob_status fans_in(struct mob_call *call)
{
    int64_t n = mob_arg_i64(call, 0), sum = 0;
    struct mob_arg *items = calloc((size_t)n + 1, sizeof *items);
    struct mob_future *future;
    for (int64_t i = 0; i < n; i++)
        items[i] = mob_i64(i);
    enum mob_status status = mob_submit(
        mob_call_client(call), "probe.sum_all", (struct mob_args){items, (size_t)n}, NULL, &future);
    free(items);
    if (status == MOB_OK)
        status = mob_get_i64(future, MOB_FOREVER, &sum);
    return status == MOB_OK ? mob_return_i64(call, sum) : status;
}

/* A chain of blocked tasks, n deep. */
static enum mob_status deep(struct mob_call *call)
{
    int64_t n = mob_arg_i64(call, 0), below = 0;
    struct mob_future *future;
    if (n > 0) {
        enum mob_status status =
            mob_submit(mob_call_client(call), "probe.deep", MOB_ARGS(mob_i64(n - 1)), NULL, &future);
        if (status == MOB_OK)
            status = mob_get_i64(future, MOB_FOREVER, &below);
        if (status != MOB_OK)
            return status;
    }
    return mob_return_i64(call, below + 1);
}

/* Tail calls: inner nodes return the future of a sum. */
static enum mob_status tree(struct mob_call *call)
{
    struct mob_client *client = mob_call_client(call);
    int64_t depth = mob_arg_i64(call, 0);
    struct mob_future *left, *right, *sum;
    if (depth == 0)
        return mob_return_i64(call, 1);
    enum mob_status status = mob_submit(client, "probe.tree", MOB_ARGS(mob_i64(depth - 1)), NULL, &left);
    if (status == MOB_OK)
        status = mob_submit(client, "probe.tree", MOB_ARGS(mob_i64(depth - 1)), NULL, &right);
    if (status == MOB_OK)
        status = mob_submit(client, "probe.sum_all", MOB_ARGS(mob_ref(left), mob_ref(right)), NULL, &sum);
    return status == MOB_OK ? mob_return_future(call, sum) : status;
}

/* A tree that nobody waits for: each node ends at once, and two more come behind it. */
static enum mob_status sprawl(struct mob_call *call)
{
    struct mob_client *client = mob_call_client(call);
    int64_t depth = mob_arg_i64(call, 0);
    for (int i = 0; depth > 0 && i < 2; i++) {
        struct mob_future *child;
        enum mob_status status =
            mob_submit(client, "probe.sprawl", MOB_ARGS(mob_i64(depth - 1)), NULL, &child);
        if (status != MOB_OK)
            return status;
        mob_release(child);
    }
    return mob_return_i64(call, depth);
}

/* Ends at once, and leaves 2^depth sleepers below children that have ended as well: those take no core, or
 * they would wait behind sleepers. */
static enum mob_status leaves(struct mob_call *call)
{
    struct mob_client *client = mob_call_client(call);
    struct mob_submit_options coreless = {.struct_size = sizeof coreless, .cpus = -1};
    int64_t depth = mob_arg_i64(call, 0), ms = mob_arg_i64(call, 1);
    for (int i = 0; i < 2; i++) {
        struct mob_future *child;
        enum mob_status status = depth > 1
            ? mob_submit(client, "probe.leaves", MOB_ARGS(mob_i64(depth - 1), mob_i64(ms)), &coreless, &child)
            : mob_submit(client, "probe.sleeps", MOB_ARGS(mob_i64(ms)), NULL, &child);
        if (status != MOB_OK)
            return status;
        mob_release(child);
    }
    return mob_return_i64(call, depth);
}

static enum mob_status submit_named(
    struct mob_client *client, const char *name, const char *function, int64_t v, struct mob_future **out)
{
    struct mob_submit_options options = {.struct_size = sizeof options, .name = name};
    return mob_submit(client, function, MOB_ARGS(mob_i64(v)), &options, out);
}

/* n children, "<attempt>-<i>" by name, of which every fourth fails, and an attempt that fails if there are to
 * be more of them. With `ms`: two more behind them, "early" and "late", one after the other, that sleep for
 * so long. */
static enum mob_status broods(struct mob_call *call)
{
    struct mob_client *client = mob_call_client(call);
    int64_t n = mob_arg_i64(call, 0), failures = mob_arg_i64(call, 1), ms = mob_arg_i64(call, 2), slept;
    uint32_t attempt = mob_call_attempt(call);
    enum mob_status status = MOB_OK;
    struct mob_future *child;
    char name[48];
    for (int64_t i = 0; i < n && status == MOB_OK; i++) {
        snprintf(name, sizeof name, "%u-%lld", (unsigned)attempt, (long long)i);
        status = submit_named(client, name, i % 4 == 3 ? "probe.fails" : "probe.echo_i64", i, &child);
        if (status == MOB_OK)
            mob_release(child);
    }
    for (int i = 0; i < 2 && ms > 0 && status == MOB_OK; i++) {
        status = submit_named(client, i == 0 ? "early" : "late", "probe.sleeps", ms, &child);
        if (status == MOB_OK)
            status = mob_get_i64(child, MOB_FOREVER, &slept);
    }
    if (status == MOB_OK && attempt <= failures)
        return mob_fail(call, "attempt %u is to fail", (unsigned)attempt);
    return status == MOB_OK ? mob_return_i64(call, n) : status;
}

/* The first k of n children, by wait; the rest is left alone. */
static enum mob_status first_of(struct mob_call *call)
{
    struct mob_client *client = mob_call_client(call);
    struct mob_future *futures[16];
    bool ready[16];
    size_t count;
    enum mob_status status = MOB_OK;
    for (int i = 0; i < 16 && status == MOB_OK; i++)
        status = mob_submit(client, "probe.echo_i64", MOB_ARGS(mob_i64(i)), NULL, &futures[i]);
    if (status == MOB_OK)
        status = mob_wait(futures, 16, (size_t)mob_arg_i64(call, 0), MOB_FOREVER, ready, &count);
    return status == MOB_OK ? mob_return_i64(call, (int64_t)count) : status;
}

/* All children through a wait set. */
static enum mob_status in_any_order(struct mob_call *call)
{
    struct mob_client *client = mob_call_client(call);
    struct mob_waitset *set;
    int64_t sum = 0, v;
    enum mob_status status = mob_waitset_create(client, &set);
    if (status != MOB_OK)
        return status;
    for (int i = 0; i < 100 && status == MOB_OK; i++) {
        struct mob_future *future;
        status = mob_submit(client, "probe.echo_i64", MOB_ARGS(mob_i64(i)), NULL, &future);
        if (status == MOB_OK)
            status = mob_waitset_add(set, future);
    }
    for (int i = 0; i < 100 && status == MOB_OK; i++) {
        struct mob_future *future;
        status = mob_waitset_next(set, MOB_FOREVER, &future);
        if (status == MOB_OK)
            status = mob_get_i64(future, MOB_FOREVER, &v);
        if (status == MOB_OK) {
            sum += v;
            mob_release(future);
        }
    }
    mob_waitset_destroy(set);
    return status == MOB_OK ? mob_return_i64(call, sum) : status;
}

static enum mob_status puts_value(struct mob_call *call)
{
    struct mob_future *future;
    char text[4096];
    memset(text, 'p', sizeof text);
    enum mob_status status = mob_put(mob_call_client(call), mob_bytes(text, sizeof text), &future);
    return status == MOB_OK ? mob_return_future(call, future) : status;
}

static enum mob_status counts(struct mob_call *call)
{
    for (int64_t i = 0; i < mob_arg_i64(call, 0); i++)
        if (mob_yield(call, mob_i64(i * 10)) != MOB_OK)
            return MOB_OK;
    return MOB_OK;
}

/* Slowly, in items of that size, and then an error. */
static enum mob_status counts_down(struct mob_call *call)
{
    int64_t n = mob_arg_i64(call, 0), ms = mob_arg_i64(call, 1), bytes = mob_arg_i64(call, 2);
    uint8_t *item = calloc(1, (size_t)bytes + 1);
    enum mob_status status = MOB_OK;
    for (int64_t i = 0; i < n && status == MOB_OK && !mob_call_cancelled(call); i++) {
        usleep((useconds_t)ms * 1000);
        item[0] = (uint8_t)(n - i);
        status = mob_yield(call, mob_bytes(item, (size_t)bytes));
    }
    free(item);
    return mob_fail(call, "nothing is left of %lld", (long long)n);
}

static enum mob_status reports(struct mob_call *call)
{
    int64_t begin = mob_span_begin(call);
    mob_event(call, "test.event", "{\"n\":1}");
    mob_progress(call, 0.5, "half \"way\"");
    mob_span_end(call, begin, "test.span");
    return mob_return_i64(call, mob_clock_ns(call) > 0 && mob_random(call) != mob_random(call));
}

/* Spans of which the second begins in the first, and ends behind it; the third lies in both. */
static enum mob_status overlaps(struct mob_call *call)
{
    int64_t first = mob_span_begin(call);
    usleep(2000);
    int64_t second = mob_span_begin(call);
    usleep(2000);
    int64_t third = mob_span_begin(call);
    usleep(2000);
    mob_span_end(call, third, "test.third");
    mob_span_end(call, first, "test.first");
    usleep(2000);
    mob_span_end(call, second, "test.second");
    return mob_return_i64(call, 0);
}

/* What is no report is refused, and leaves none: how many of the refusals came, a bit each. */
static enum mob_status misreports(struct mob_call *call)
{
    char type[257], deep[200];
    memset(type, 't', 256);
    type[256] = 0;
    memset(deep, '[', sizeof deep - 1);
    deep[sizeof deep - 1] = 0;
    const enum mob_status got[] = {mob_event(call, "bad.event", "{bad"), mob_event(call, "bad.event", ""),
        mob_event(call, "bad.event", "{}{}"), mob_event(call, "bad.event", deep),
        mob_event(call, "bad.event", "\"\xff\""), mob_event(call, "", "{}"), mob_event(call, type, "{}"),
        mob_event(call, "\xff", "{}"), mob_progress(call, 1.5, "too much"), mob_progress(call, -0.1, ""),
        mob_progress(call, 0.0 / 0.0, ""), mob_span_end(call, 0, "bad.span"),
        mob_span_end(call, INT64_MAX, "bad.span")};
    int64_t refused = 0;
    for (size_t i = 0; i < sizeof got / sizeof *got; i++)
        refused |= (int64_t)(got[i] == MOB_INVALID) << i;
    /* what cannot be shown as it is: bytes that are no text, cut inside a letter */
    char message[600];
    memset(message, 'm', sizeof message);
    message[0] = (char)0xff;
    for (size_t at = 1; at + 2 < sizeof message; at += 2)
        memcpy(message + at, "\xc3\xa4", 2);
    message[sizeof message - 1] = 0;
    enum mob_status status = mob_progress(call, 1, message);
    return status == MOB_OK ? mob_return_i64(call, refused) : mob_fail(call, "the message was refused");
}

static enum mob_status about(struct mob_call *call)
{
    char id[MOB_TEXT_ID_MAX];
    mob_call_task_id(call, id);
    return mob_return(call, mob_utf8(id));
}

static enum mob_status calls_actor(struct mob_call *call)
{
    struct mob_actor *actor = mob_arg_actor(call, 0);
    struct mob_future *future = NULL;
    int64_t v = 0;
    enum mob_status status = MOB_OK;
    for (int64_t i = 0; i < mob_arg_i64(call, 1) && status == MOB_OK; i++) {
        if (future != NULL)
            mob_release(future);
        status = mob_actor_call(actor, "add", MOB_ARGS(mob_i64(1)), NULL, &future);
    }
    if (status == MOB_OK && future != NULL)
        status = mob_get_i64(future, MOB_FOREVER, &v);
    return status == MOB_OK ? mob_return_i64(call, v) : status;
}

/* ---- an actor ---- */

struct account {
    int64_t total;
};

static enum mob_status account_open(struct mob_call *call)
{
    struct account *account = calloc(1, sizeof *account);
    if (mob_arg_i64(call, 0) < 0) {
        free(account);
        return mob_fail(call, "an account cannot begin below zero");
    }
    account->total = mob_arg_i64(call, 0);
    mob_call_set_self(call, account);
    return MOB_OK;
}

static enum mob_status account_add(struct mob_call *call)
{
    struct account *account = mob_call_self(call);
    account->total += mob_arg_i64(call, 0);
    return mob_return_i64(call, account->total);
}

static enum mob_status account_total(struct mob_call *call)
{
    const struct account *account = mob_call_self(call);
    return mob_return_i64(call, account->total);
}

static enum mob_status account_crash(struct mob_call *call)
{
    (void)call;
    raise(SIGKILL);
    return MOB_OK;
}

static enum mob_status account_checkpoint(struct mob_call *call)
{
    const struct account *account = mob_call_self(call);
    return mob_return_i64(call, account->total);
}

static enum mob_status account_restore(struct mob_call *call)
{
    struct account *account = calloc(1, sizeof *account);
    account->total = mob_arg_i64(call, 0);
    mob_call_set_self(call, account);
    return MOB_OK;
}

static const struct mob_method_entry account_methods[] = {MOB_METHOD("add", account_add, "i64 n -> i64"),
    MOB_METHOD("total", account_total, "-> i64"), MOB_METHOD("crash", account_crash, "-> ()"),
    MOB_METHOD("many", many, "i64 n -> i64..."), MOB_METHOD("counts", counts, "i64 n -> stream i64"),
    {.name = NULL}};

MOB_MODULE("probe", MOB_FUNCTION("echo_i64", echo_i64, "i64 v -> i64"),
    MOB_FUNCTION("echo_utf8", echo_utf8, "utf8 v -> utf8"),
    MOB_FUNCTION("echo_bytes", echo_bytes, "bytes v -> bytes"),
    MOB_FUNCTION("scale", scale, "tensor<f32> x, f64 factor -> tensor<f32>"),
    MOB_FUNCTION("rows", rows, "tensor<f32>[n,4] x, tensor<f32>[n] w -> i64"),
    MOB_FUNCTION("sum_all", sum_all, "i64... -> i64"), MOB_FUNCTION("many", many, "i64 n -> i64..."),
    MOB_FUNCTION("many_texts", many_texts, "i64 n, i64 bytes -> utf8..."),
    MOB_FUNCTION("optional", optional, "i64? v -> any"), MOB_FUNCTION("kinds", kinds, "any... -> utf8"),
    MOB_FUNCTION("nothing", nothing, "-> ()"), MOB_FUNCTION("fails", fails, "i64 code -> i64"),
    MOB_FUNCTION("crashes", crashes, "-> i64"), MOB_FUNCTION("devours", devours, "-> i64"),
    MOB_FUNCTION("exits", exits, "i64 status -> i64"), MOB_FUNCTION("touches", touches, "i64 mib -> i64"),
    MOB_FUNCTION("sleeps", sleeps, "i64 ms -> i64"), MOB_FUNCTION("burns", burns, "i64 ms -> i64"),
    MOB_FUNCTION("talks", talks, "-> null"),
    {.name = "same", .main = echo_i64, .signature = "i64 v -> i64", .flags = MOB_FUNCTION_DETERMINISTIC},
    MOB_FUNCTION("returns_shape", returns_shape, "i64 n -> tensor<f32>[2]"),
    MOB_FUNCTION("returns_buffer", returns_buffer, "-> i64"),
    MOB_FUNCTION("returns_text", returns_text, "-> i64"), MOB_FUNCTION("big", big, "i64 bytes -> bytes"),
    MOB_FUNCTION("nested_sum", nested_sum, "i64 n -> i64"), MOB_FUNCTION("fans_in", fans_in, "i64 n -> i64"),
    MOB_FUNCTION("deep", deep, "i64 n -> i64"), MOB_FUNCTION("tree", tree, "i64 depth -> i64"),
    MOB_FUNCTION("sprawl", sprawl, "i64 depth -> i64"),
    MOB_FUNCTION("leaves", leaves, "i64 depth, i64 ms -> i64"),
    MOB_FUNCTION("broods", broods, "i64 n, i64 failures, i64 ms -> i64"),
    MOB_FUNCTION("first_of", first_of, "i64 k -> i64"), MOB_FUNCTION("in_any_order", in_any_order, "-> i64"),
    MOB_FUNCTION("puts_value", puts_value, "-> bytes"), MOB_FUNCTION("counts", counts, "i64 n -> stream i64"),
    MOB_FUNCTION("counts_down", counts_down, "i64 n, i64 ms, i64 bytes -> stream bytes"),
    MOB_FUNCTION("overlaps", overlaps, "-> i64"), MOB_FUNCTION("reports", reports, "-> i64"),
    MOB_FUNCTION("misreports", misreports, "-> i64"), MOB_FUNCTION("about", about, "-> utf8"),
    MOB_FUNCTION("calls_actor", calls_actor, "actor a, i64 n -> i64"),
    {.name = "Account",
        .main = account_open,
        .signature = "i64 start -> ()",
        .methods = account_methods,
        .destroy = free,
        .checkpoint = account_checkpoint,
        .restore = account_restore})
