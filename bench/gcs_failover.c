/* gcs_failover, the paper's Figure 10a: one client with one put in flight, a member that is killed, stopped
 * or cut off; the longest time that a put took. Chains of two, for the middle of three; the data stays loaded
 * between the runs of a cell. A run beside which a bare timer of 1 ms at the heartbeats' priority was late by
 * more than 5 ms is void: it is repeated, and counted. */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "bench/failover_svg.h"
#include "bench/gcs_putter.h"
#include "common/base/clock.h"
#include "common/base/log.h"

#define LATE_NS (5 * MOB_MS)
#define RUNS_MAX 1000
#define MIB (1ull << 20)

enum place { HEAD, MIDDLE, TAIL };
enum fault { KILL, STOP, LINK_DOWN };
static const char *const place_names[] = {"head", "middle", "tail"};
static const char *const fault_names[] = {"kill", "stop", "link"};

struct failover {
    struct bench *b;
    int each; /* runs of a cell */
    double pauses[RUNS_MAX];
    int n, voided;
    uint64_t number; /* of puts */
    const char *wrong;
    char extra[2048];
    struct failover_trace traces[FAILOVER_FAULTS][FAILOVER_PLACES];
};

/* ---- a timer beside the run ---- */

struct timer {
    pthread_t thread;
    volatile bool stop;
    int64_t latest_ns;
};

static void *run_timer(void *arg)
{
    struct timer *t = arg;
    struct sched_param priority = {.sched_priority = 10}; /* the heartbeats' */
    pthread_setschedparam(pthread_self(), SCHED_FIFO, &priority);
    for (int64_t next = mob_now() + MOB_MS; !t->stop; next = mob_now() + MOB_MS) {
        struct timespec at = {next / MOB_SEC, next % MOB_SEC};
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL);
        int64_t late = mob_now() - next;
        if (late > t->latest_ns)
            t->latest_ns = late;
    }
    return NULL;
}

/* ---- one run ---- */

static void strike(struct fault_proxy *proxy, pid_t victim, enum fault fault)
{
    if (fault == LINK_DOWN) {
        fault_proxy_mute(proxy, victim);
        fault_proxy_deafen(proxy, victim);
    } else {
        kill(victim, fault == KILL ? SIGKILL : SIGSTOP);
    }
}

static void note(struct failover_trace *t, int64_t at_ns, double latency_ms)
{
    int64_t ms = at_ns / MOB_MS;
    if (ms < FAILOVER_TRACE_MS && latency_ms > t->latency_ms[ms])
        t->latency_ms[ms] = latency_ms;
}

/* Puts for half a second; the longest time that one took, ms. */
static double longest_pause(struct failover *f, struct gcs_putter *p, struct fault_proxy *proxy, pid_t victim,
    enum fault fault, struct failover_trace *trace)
{
    int64_t begin = bench_now();
    double longest = 0;
    bool hit = false;
    *trace = (struct failover_trace){.measured = true};
    while (bench_now() - begin < FAILOVER_TRACE_MS * MOB_MS && !p->failed) {
        if (!hit && bench_now() - begin > FAILOVER_FAULT_MS * MOB_MS) {
            strike(proxy, victim, fault);
            hit = true;
        }
        int64_t sent = bench_now();
        gcs_putter_put(p, f->number++);
        double took_ms = (double)(bench_now() - sent) / 1e6;
        note(trace, bench_now() - begin, took_ms);
        longest = took_ms > longest ? took_ms : longest;
    }
    return longest;
}

static pid_t member_at(struct chain_box *box, enum place place)
{
    int head = chain_box_place(box, false), tail = chain_box_place(box, true);
    int slot = place == HEAD ? head : place == TAIL ? tail : 3 - head - tail;
    return slot < 0 ? 0 : box->member[slot].gcs;
}

/* False: the chain did not come back. */
static bool one_run(struct failover *f, struct chain_box *box, struct fault_proxy *proxy,
    struct gcs_putter *p, enum place place, enum fault fault, double *pause_out, bool *void_out)
{
    struct timer timer = {.stop = false};
    struct failover_trace trace;
    pid_t victim = member_at(box, place);
    if (victim <= 0)
        return false;
    gcs_putter_put(p, f->number++);
    MOB_ASSERT(pthread_create(&timer.thread, NULL, run_timer, &timer) == 0);
    *pause_out = longest_pause(f, p, proxy, victim, fault, &trace);
    timer.stop = true;
    pthread_join(timer.thread, NULL);
    *void_out = timer.latest_ns > LATE_NS;
    if (fault == STOP)
        kill(victim, SIGCONT);
    if (fault == LINK_DOWN)
        fault_proxy_heal(proxy);
    if (!*void_out)
        f->traces[fault][place] = trace;
    return !p->failed && chain_box_wait_length(box, box->members, mob_now() + GCS_START_NS);
}

/* ---- the matrix ---- */

static void run_cell(struct failover *f, struct chain_box *box, struct fault_proxy *proxy,
    struct gcs_putter *p, enum place place, enum fault fault, uint64_t mib)
{
    double worst = 0;
    int good = 0, voided = 0;
    while (good < f->each && f->wrong == NULL) {
        double pause;
        bool is_void;
        if (!one_run(f, box, proxy, p, place, fault, &pause, &is_void)) {
            f->wrong = p->failed ? "a put failed" : "the chain does not come up again";
            return;
        }
        if (is_void && voided < 2 * f->each) {
            voided++;
            continue;
        }
        good++;
        if (f->n < RUNS_MAX)
            f->pauses[f->n++] = pause;
        worst = pause > worst ? pause : worst;
    }
    f->voided += voided;
    size_t used = strlen(f->extra);
    snprintf(f->extra + used, sizeof f->extra - used, "\"%s_%s_%llu_ms\": %.1f, ", place_names[place],
        fault_names[fault], (unsigned long long)mib, worst);
}

static void run_box(struct failover *f, uint32_t members, bool proxied, uint64_t mib)
{
    static struct chain_box box;
    struct fault_proxy *proxy = proxied ? fault_proxy_create(1) : NULL;
    if (proxied)
        fault_proxy_realtime(proxy);
    if (gcs_chain_open_proxied(&box, members, proxy)) {
        gcs_chain_fill(&box, mib * MIB);
        struct gcs_putter p = {.gcs = chain_box_client(&box)};
        for (int place = HEAD; place <= TAIL; place++)
            for (int fault = KILL; fault <= LINK_DOWN; fault++)
                if ((place == MIDDLE) == (members == 3) && (fault == LINK_DOWN) == proxied)
                    run_cell(f, &box, proxy, &p, (enum place)place, (enum fault)fault, mib);
        mob_gcs_destroy(p.gcs);
    } else {
        f->wrong = "the chain does not come up";
    }
    chain_box_fini(&box);
    fault_proxy_destroy(proxy);
}

static void run_size(struct failover *f, uint64_t mib)
{
    const char *only = getenv("MOBULA_BENCH_RESIDENT_MIB");
    if (only != NULL && strtoull(only, NULL, 10) != mib)
        return;
    for (uint32_t members = 2; members <= 3; members++)
        for (int proxied = 0; proxied < 2 && f->wrong == NULL; proxied++)
            run_box(f, members, proxied != 0, mib);
}

void gcs_measure_failover(struct bench *b)
{
    static struct failover f;
    char path[600];
    if (!bench_wanted(b, "gcs_failover"))
        return;
    f = (struct failover){.b = b, .each = b->options.runs > 0 ? b->options.runs : b->options.quick ? 1 : 5};
    run_size(&f, 1);
    if (!b->options.quick && f.wrong == NULL)
        run_size(&f, 512);
    snprintf(path, sizeof path, "%s/../gcs_failover.svg", b->options.binaries);
    if (f.n > 0 && failover_svg_write(path, f.traces))
        fprintf(stderr, "mobula-bench: picture: %s\n", path);
    size_t used = strlen(f.extra);
    snprintf(f.extra + used, sizeof f.extra - used, "\"void_runs\": %d", f.voided);
    if (f.wrong != NULL || f.n == 0) {
        bench_miss(b, "gcs_failover", f.wrong != NULL ? f.wrong : "no run");
        return;
    }
    bench_row(b,
        &(struct bench_row){.name = "gcs_failover",
            .value = bench_percentile(f.pauses, f.n, 100),
            .unit = "ms",
            .n = f.n,
            .p50_us = bench_percentile(f.pauses, f.n, 50) * 1e3,
            .p99_us = bench_percentile(f.pauses, f.n, 99) * 1e3,
            .commit = "committed",
            .extra = f.extra});
}
