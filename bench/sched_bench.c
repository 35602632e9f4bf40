/* Cost of the local scheduler per task, without anything around it: ready tasks, a chain, a million that wait
 * for one object, fan-in. One JSON object a line: {"name","value","unit","n",...}; value = ns a task (or
 * bytes), best of three,
 * CPU time of this thread. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/clock.h"
#include "runtime/sched/local.h"

#define WORKERS 2u

struct record {
    struct mob_sched_task sched;
};

struct bench {
    struct mob_sched *s;
    uint16_t job, class_id, function;
    struct mob_stream stream;
    uint32_t batch[WORKERS][MOB_SCHED_BATCH_MAX];
    uint32_t load[WORKERS];
    uint64_t finished;
    int64_t now;
};

static void must(enum mob_status status)
{
    if (status) {
        fprintf(stderr, "sched_bench: %s\n", mob_status_code(status));
        exit(1);
    }
}

static void bench_init(struct bench *b)
{
    *b = (struct bench){.now = 1000000000};
    memset(&b->stream, 7, sizeof b->stream);
    struct mob_sched_options options = {.struct_size = sizeof options,
        .record_bytes = sizeof(struct record),
        .cpu = WORKERS * MOB_SCHED_UNIT};
    must(mob_sched_create(&options, &b->s));
    must(mob_sched_job_open(b->s, 1, &b->job));
    struct mob_sched_demand cpu = {MOB_SCHED_CPU, MOB_SCHED_UNIT};
    must(mob_sched_class(b->s, 1, &cpu, 1, &b->class_id));
    b->function = mob_sched_function(b->s, (struct mob_function_id){{1}});
    for (uint16_t w = 0; w < WORKERS; w++)
        must(mob_sched_worker_added(b->s, w, 1, b->now));
}

static struct mob_sched_task *submit(
    struct bench *b, uint32_t index, const struct mob_object_id *missing, uint32_t n)
{
    struct mob_sched_task *t = mob_sched_task_alloc(b->s);
    if (!t)
        must(MOB_QUEUE_FULL);
    struct mob_sched_submit in = {.id = {b->stream, index},
        .missing = missing,
        .missing_count = n,
        .job = b->job,
        .class_id = b->class_id,
        .function = b->function,
        .max_retries = 3};
    must(mob_sched_submit(b->s, t, &in, b->now));
    return t;
}

static void decide(struct bench *b)
{
    struct mob_decision d;
    while (mob_sched_next(b->s, b->now, &d))
        if (d.kind == MOB_DECIDE_DISPATCH)
            b->batch[d.worker][b->load[d.worker]++] = d.task->handle;
}

/* Every worker finishes what it has; results are announced as the node does. */
static void run_batches(struct bench *b)
{
    b->now += 100000;
    for (uint32_t w = 0; w < WORKERS; w++) {
        uint32_t n = b->load[w];
        b->load[w] = 0;
        for (uint32_t i = 0; i < n; i++) {
            struct mob_sched_task *t = mob_sched_task_of(b->s, b->batch[w][i]);
            (void)mob_sched_object_ready(b->s, mob_object_of(t->id, 0));
            (void)mob_sched_finished(b->s, t, MOB_OK, 300, b->now);
            mob_sched_task_free(b->s, t);
            b->finished++;
        }
    }
}

static void drain(struct bench *b, uint64_t until)
{
    while (b->finished < until) {
        decide(b);
        run_batches(b);
    }
}

static double best(double a, double b)
{
    return a == 0 || b < a ? b : a;
}

static void report(const char *name, double value, const char *unit, uint64_t n)
{
    if (value == 0)
        return; /* not asked for */
    printf("{\"name\":\"%s\",\"value\":%.1f,\"unit\":\"%s\",\"n\":%" PRIu64 "}\n", name, value, unit, n);
    fflush(stdout);
}

static double ready_tasks(uint32_t n, uint32_t window)
{
    struct bench b;
    bench_init(&b);
    int64_t start = mob_thread_cpu_now();
    uint32_t next = 0;
    while (b.finished < n) {
        for (; next < n && next - b.finished < window; next++)
            submit(&b, next, NULL, 0);
        decide(&b);
        run_batches(&b);
    }
    double ns = (double)(mob_thread_cpu_now() - start) / n;
    mob_sched_destroy(b.s);
    return ns;
}

static double chain(uint32_t n, uint32_t window)
{
    struct bench b;
    bench_init(&b);
    int64_t start = mob_thread_cpu_now();
    uint32_t next = 0;
    while (b.finished < n) {
        for (; next < n && next - b.finished < window; next++) {
            struct mob_object_id before = {{b.stream, next - 1}, 0};
            /* The node asks its store; here: what has finished is ready. */
            submit(&b, next, &before, next > b.finished);
        }
        decide(&b);
        run_batches(&b);
    }
    double ns = (double)(mob_thread_cpu_now() - start) / n;
    mob_sched_destroy(b.s);
    return ns;
}

static double wait_one(uint32_t n, double *bytes_out, double *release_out)
{
    struct bench b;
    bench_init(&b);
    struct mob_object_id object = {{b.stream, UINT32_MAX}, MOB_SLOT_PUT};
    struct mob_sched_stats before, after;
    mob_sched_stats(b.s, &before);
    int64_t start = mob_thread_cpu_now();
    for (uint32_t i = 0; i < n; i++)
        submit(&b, i, &object, 1);
    mob_sched_stats(b.s, &after);
    *bytes_out = (double)(after.bytes - before.bytes) / n;
    int64_t release = mob_thread_cpu_now();
    (void)mob_sched_object_ready(b.s, object);
    *release_out = (double)(mob_thread_cpu_now() - release) / n;
    drain(&b, n);
    double ns = (double)(mob_thread_cpu_now() - start) / n;
    mob_sched_destroy(b.s);
    return ns;
}

static double fan_in(uint32_t n)
{
    struct bench b;
    bench_init(&b);
    struct mob_object_id *inputs = malloc(n * sizeof *inputs);
    if (!inputs)
        must(MOB_NO_MEMORY);
    int64_t start = mob_thread_cpu_now();
    for (uint32_t i = 0; i < n; i++) {
        submit(&b, i, NULL, 0);
        inputs[i] = (struct mob_object_id){{b.stream, i}, 0};
    }
    submit(&b, n, inputs, n);
    drain(&b, n + 1);
    double ns = (double)(mob_thread_cpu_now() - start) / (n + 1);
    free(inputs);
    mob_sched_destroy(b.s);
    return ns;
}

/* Without arguments all, else those named: ready chain wait fan. */
static bool wanted(int argc, char **argv, const char *name)
{
    for (int i = 1; i < argc; i++)
        if (!strcmp(argv[i], name))
            return true;
    return argc == 1;
}

int main(int argc, char **argv)
{
    double ready = 0, chained = 0, one = 0, release = 0, bytes = 0, fan = 0;
    for (int round = 0; round < 3; round++) {
        double r = 0;
        if (wanted(argc, argv, "ready"))
            ready = best(ready, ready_tasks(2000000, 10000));
        if (wanted(argc, argv, "chain"))
            chained = best(chained, chain(1000000, 10000));
        if (wanted(argc, argv, "wait"))
            one = best(one, wait_one(1000000, &bytes, &r));
        release = best(release, r);
        if (wanted(argc, argv, "fan"))
            fan = best(fan, fan_in(10000));
    }
    report("sched_ready", ready, "ns", 2000000);
    report("sched_chain", chained, "ns", 1000000);
    report("sched_wait_one_1m", one, "ns", 1000000);
    report("sched_wait_one_1m_release", release, "ns", 1000000);
    report("sched_wait_one_1m_mem", bytes, "B", 1000000);
    report("sched_fan_in_10k", fan, "ns", 10001);
    return 0;
}
