/* gcs_failover, the paper's Figure 10a: one client with one put in flight, a member that is killed, stopped
 * or cut off; the longest time that a put took. Chains of two, for the middle of three; the data stays loaded
 * between the runs of a cell.
 *
 * A run counts when it shows what its cell says: at the moment of the fault the chain was whole and the
 * member at that place, the next configuration is the chain without that member, and a put had to wait for
 * it. A run that does not (a loaded machine had already made the master leave somebody out) is repeated, and
 * counted as `missed`. One beside which a bare timer of 1 ms at the heartbeats' priority was late by more
 * than 5 ms is void: it is repeated, and counted, too.
 *
 * gcs_failover_normal is the same with processes that may not take real-time priority, and so with
 * the lease and suspicion of such machines (GCS.md, "Detection").
 *
 * Where too many runs were void or missed the row has no figure; of the missed ones it says the longest put,
 * which is in no other figure. The masters' table is PostgreSQL's (chain_table.h).
 *
 * MOBULA_BENCH_RESIDENT_MIB=512 runs one size, MOBULA_BENCH_FAILOVER_CELLS=head_kill,tail_stop some cells. */
#include <dirent.h>
#include <linux/capability.h>
#include <linux/securebits.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "bench/chain_table.h"
#include "bench/failover_svg.h"
#include "bench/gcs_putter.h"
#include "common/base/clock.h"
#include "common/base/log.h"

#define LATE_NS (5 * MOB_MS)
#define REPEATED_PERCENT_MAX 10.0 /* of all runs, void and missed each; above, the row says nothing */
#define RUNS_MAX 1000
#define KEYS 64u
/* Nobody is left out sooner than the suspicion after he was heard, which is less than a beat, a sixth of it,
 * before the fault. A put that waited less than this part of it did not wait for that. */
#define WAITED_OF_SUSPICION (4.0 / 6.0)
#define MIB (1ull << 20)

enum place { HEAD, MIDDLE, TAIL };
enum fault { KILL, STOP, LINK_DOWN };
static const char *const place_names[] = {"head", "middle", "tail"};
static const char *const fault_names[] = {"kill", "stop", "link"};

struct failover {
    struct bench *b;
    bool realtime; /* the heartbeats' priority, and the timer's */
    int each; /* runs of a cell */
    double pauses[RUNS_MAX], left_out[RUNS_MAX];
    int n, voided, missed;
    double missed_longest_ms;
    struct chain_table table;
    uint64_t number; /* of puts */
    uint64_t versions[KEYS]; /* of each key, in the present chain */
    const char *wrong;
    char extra[2048];
    struct failover_trace traces[FAILOVER_FAULTS][FAILOVER_PLACES];
};

/* ---- a timer beside the run ---- */

struct timer {
    pthread_t thread;
    bool realtime;
    volatile bool stop;
    int64_t latest_ns;
};

static void *run_timer(void *arg)
{
    struct timer *t = arg;
    struct sched_param priority = {.sched_priority = 10}; /* the heartbeats' */
    if (t->realtime)
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

enum outcome { GOOD, VOID, MISSED, WRONG };

struct run {
    struct chain_box *box;
    struct fault_proxy *proxy;
    struct gcs_putter *putter;
    enum place place;
    enum fault fault;
    struct chain_box_config before; /* at the moment of the fault */
    pid_t victim; /* 0: not struck, since the chain was not whole */
    double pause_ms, before_ms, waited_ms; /* the longest put of all, before the fault, from it on */
    int64_t struck_wall_ns;
    double left_out_ms; /* from the fault until the configuration without the member was made */
    struct failover_trace trace;
};

static bool put_once(struct failover *f, struct gcs_putter *p)
{
    uint64_t number = f->number++ % KEYS;
    gcs_putter_put_next(p, number, f->versions[number]);
    f->versions[number] = p->version;
    return !p->failed;
}

static void strike_member(struct run *r)
{
    struct chain_box_config *c = &r->before;
    *c = chain_box_config(r->box, 0);
    if (c->members != r->box->members || c->head < 0 || c->tail < 0)
        return;
    int slot = r->place == HEAD ? c->head : r->place == TAIL ? c->tail : 3 - c->head - c->tail;
    r->victim = r->box->member[slot].gcs;
    r->struck_wall_ns = mob_wall_now();
    if (r->victim > 0)
        strike(r->proxy, r->victim, r->fault);
}

/* Puts for half a second, with the fault at its time. */
static void put_and_strike(struct failover *f, struct run *r)
{
    int64_t begin = bench_now();
    bool hit = false;
    r->trace = (struct failover_trace){.measured = true};
    while (bench_now() - begin < FAILOVER_TRACE_MS * MOB_MS && !r->putter->failed) {
        if (!hit && bench_now() - begin > FAILOVER_FAULT_MS * MOB_MS) {
            strike_member(r);
            hit = true;
        }
        int64_t sent = bench_now();
        put_once(f, r->putter);
        double took_ms = (double)(bench_now() - sent) / 1e6;
        note(&r->trace, bench_now() - begin, took_ms);
        r->pause_ms = took_ms > r->pause_ms ? took_ms : r->pause_ms;
        double *longest = hit ? &r->waited_ms : &r->before_ms;
        *longest = took_ms > *longest ? took_ms : *longest;
    }
}

static bool was_hit(struct run *r)
{
    const struct chain_box_config *b = &r->before, a = chain_box_config(r->box, b->epoch + 1);
    r->left_out_ms = a.epoch == 0 ? 0 : (double)(a.wall_ns - r->struck_wall_ns) / 1e6;
    bool head_left = a.head_id != b->head_id, tail_left = a.tail_id != b->tail_id;
    return r->victim > 0 && a.members + 1 == b->members && head_left == (r->place == HEAD) &&
        tail_left == (r->place == TAIL) && r->waited_ms >= r->box->suspicion_ms * WAITED_OF_SUSPICION;
}

static void mend(struct run *r)
{
    if (r->fault == STOP && r->victim > 0)
        kill(r->victim, SIGCONT);
    if (r->fault == LINK_DOWN)
        fault_proxy_heal(r->proxy);
}

/* Of what the run before did, or the filling: a load may cost a member, which then joins again. */
static bool wait_whole(struct run *r)
{
    int64_t begin = bench_now();
    bool whole = chain_box_wait_length(r->box, r->box->members, mob_now() + GCS_START_NS);
    fprintf(stderr, "gcs_failover: whole after %.1f s\n", (double)(bench_now() - begin) / 1e9);
    return whole;
}

static enum outcome one_run(struct failover *f, struct run *r, uint64_t mib)
{
    static const char *const outcomes[] = {"", ", void", ", missed", ", wrong"};
    struct timer timer = {.realtime = f->realtime};
    if (!wait_whole(r))
        return WRONG;
    MOB_ASSERT(pthread_create(&timer.thread, NULL, run_timer, &timer) == 0);
    put_and_strike(f, r);
    timer.stop = true;
    pthread_join(timer.thread, NULL);
    bool hit = was_hit(r);
    mend(r);
    enum outcome outcome = r->putter->failed ? WRONG
        : timer.latest_ns > LATE_NS          ? VOID
        : !hit                               ? MISSED
                                             : GOOD;
    if (outcome == GOOD)
        f->traces[r->fault][r->place] = r->trace;
    fprintf(stderr,
        "gcs_failover%s %s_%s, %llu MiB: %.1f ms (%.1f before the fault; left out after %.1f), timer %.1f ms "
        "late%s\n",
        f->realtime ? "" : "_normal", place_names[r->place], fault_names[r->fault], (unsigned long long)mib,
        r->pause_ms, r->before_ms, r->left_out_ms, (double)timer.latest_ns / 1e6, outcomes[outcome]);
    return outcome;
}

/* ---- the matrix ---- */

static void cell_name(char *out, size_t capacity, enum place place, enum fault fault)
{
    snprintf(out, capacity, "%s_%s", place_names[place], fault_names[fault]);
}

/* In the setting's list, or there is none. */
static bool cell_wanted(enum place place, enum fault fault)
{
    char name[32];
    const char *cells = getenv("MOBULA_BENCH_FAILOVER_CELLS");
    cell_name(name, sizeof name, place, fault);
    return cells == NULL || strstr(cells, name) != NULL;
}

/* Only the timer beside them says that the machine was at fault: runs that missed their fault may be the
 * store's. */
static const char too_busy[] = "too many runs were void";
static const char too_many_missed[] = "too many runs missed their fault";

static void run_cell(struct failover *f, const struct run *like, uint64_t mib)
{
    double worst = 0;
    char name[32];
    int good = 0, bad = 0, missed_before = f->missed;
    while (good < f->each) {
        struct run r = *like;
        enum outcome outcome = one_run(f, &r, mib);
        f->voided += outcome == VOID;
        f->missed += outcome == MISSED;
        if (outcome == MISSED && r.pause_ms > f->missed_longest_ms)
            f->missed_longest_ms = r.pause_ms;
        if (outcome == WRONG || (outcome != GOOD && ++bad > 3 * f->each + 5)) {
            f->wrong = r.putter->failed      ? "a put failed"
                : outcome == WRONG           ? "the chain does not come up again"
                : f->missed == missed_before ? too_busy
                                             : too_many_missed;
            return;
        }
        if (outcome != GOOD)
            continue;
        good++;
        if (f->n < RUNS_MAX)
            f->left_out[f->n] = r.left_out_ms;
        f->pauses[f->n++] = r.pause_ms;
        worst = r.pause_ms > worst ? r.pause_ms : worst;
    }
    cell_name(name, sizeof name, like->place, like->fault);
    size_t used = strlen(f->extra);
    snprintf(f->extra + used, sizeof f->extra - used, "\"%s_%llu_ms\": %.1f, ", name, (unsigned long long)mib,
        worst);
}

static bool is_of_box(enum place place, enum fault fault, uint32_t members, bool proxied)
{
    return (place == MIDDLE) == (members == 3) && (fault == LINK_DOWN) == proxied &&
        cell_wanted(place, fault);
}

static void run_cells(struct failover *f, struct run *r, bool proxied, uint64_t mib)
{
    for (r->place = HEAD; r->place <= TAIL; r->place++)
        for (r->fault = KILL; r->fault <= LINK_DOWN; r->fault++)
            if (f->wrong == NULL && is_of_box(r->place, r->fault, r->box->members, proxied))
                run_cell(f, r, mib);
}

static bool box_wanted(uint32_t members, bool proxied)
{
    for (int place = HEAD; place <= TAIL; place++)
        for (int fault = KILL; fault <= LINK_DOWN; fault++)
            if (is_of_box((enum place)place, (enum fault)fault, members, proxied))
                return true;
    return false;
}

/* One of the process's threads has real-time priority. */
static bool beats_are_realtime(pid_t pid)
{
    char path[64];
    bool found = false;
    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    DIR *threads = opendir(path);
    for (struct dirent *d; threads != NULL && (d = readdir(threads)) != NULL;)
        found |= d->d_name[0] != '.' && sched_getscheduler((pid_t)atoi(d->d_name)) == SCHED_FIFO;
    if (threads != NULL)
        closedir(threads);
    return found;
}

static void run_box(struct failover *f, uint32_t members, bool proxied, uint64_t mib)
{
    static struct chain_box box;
    int64_t begin = bench_now();
    struct fault_proxy *proxy = proxied ? fault_proxy_create(1) : NULL;
    if (proxied && f->realtime)
        fault_proxy_realtime(proxy);
    struct gcs_chain chain = {.members = members,
        .proxy = proxy,
        .normal = !f->realtime,
        .postgres = chain_table_postgres(&f->table)};
    chain_table_clear(&f->table);
    if (!gcs_chain_open(&box, &chain)) {
        f->wrong = "the chain does not come up";
    } else if (beats_are_realtime(box.member[0].gcs) != f->realtime) {
        f->wrong =
            f->realtime ? "real-time priority is not allowed here" : "heartbeats have real-time priority";
    } else {
        gcs_chain_fill(&box, mib * MIB);
        fprintf(stderr, "gcs_failover: a chain of %u%s with %llu MiB after %.1f s\n", members,
            proxied ? " behind a proxy" : "", (unsigned long long)mib, (double)(bench_now() - begin) / 1e9);
        struct gcs_putter p = {.gcs = chain_box_client(&box)};
        struct run r = {.box = &box, .proxy = proxy, .putter = &p};
        memset(f->versions, 0, sizeof f->versions);
        run_cells(f, &r, proxied, mib);
        for (uint32_t i = 0; i < KEYS && f->wrong == NULL; i++) /* of the last puts, too */
            if (!put_once(f, &p))
                f->wrong = "a put was lost or done twice";
        mob_gcs_destroy(p.gcs);
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
            if (box_wanted(members, proxied != 0))
                run_box(f, members, proxied != 0, mib);
}

static double percent_of(int part, const struct failover *f)
{
    int all = f->n + f->voided + f->missed;
    return all == 0 ? 0 : 100.0 * part / all;
}

/* What was repeated, and where configurations were written. */
static void write_extra(struct failover *f, const char *name)
{
    char table[128];
    size_t used = strlen(f->extra);
    chain_table_tell(&f->table, table, sizeof table);
    snprintf(f->extra + used, sizeof f->extra - used,
        "\"left_out_p50_ms\": %.1f, \"left_out_longest_ms\": %.1f, \"void_runs\": %d, \"void_percent\": "
        "%.1f, \"missed_runs\": %d, \"missed_percent\": %.1f, \"missed_longest_ms\": %.1f, %s",
        bench_percentile(f->left_out, f->n, 50), bench_percentile(f->left_out, f->n, 100), f->voided,
        percent_of(f->voided, f), f->missed, percent_of(f->missed, f), f->missed_longest_ms, table);
    fprintf(stderr, "%s: of %d runs %d void, %d missed (longest put of those %.1f ms)\n", name,
        f->n + f->voided + f->missed, f->voided, f->missed, f->missed_longest_ms);
}

/* Why the row has no figure; NULL: it has one. */
static const char *why_not(const struct failover *f)
{
    if (f->wrong != NULL || f->n == 0)
        return f->wrong != NULL ? f->wrong : "no run";
    if (percent_of(f->voided, f) > REPEATED_PERCENT_MAX)
        return too_busy;
    return percent_of(f->missed, f) > REPEATED_PERCENT_MAX ? too_many_missed : NULL;
}

/* One void run of nine is too much already: that a quick row ran is all that is asked of it. */
static bool is_forgiven(const struct failover *f, const char *why)
{
    return f->b->options.quick && (why == too_busy || (why == too_many_missed && f->wrong == NULL));
}

static void write_row(struct failover *f, const char *name)
{
    const char *why = why_not(f);
    write_extra(f, name);
    if (why != NULL && is_forgiven(f, why)) {
        bench_void(f->b, name, why);
        return;
    }
    if (why != NULL) {
        bench_miss(f->b, name, why);
        return;
    }
    bench_row(f->b,
        &(struct bench_row){.name = name,
            .value = bench_percentile(f->pauses, f->n, 100),
            .unit = "ms",
            .n = f->n,
            .p50_us = bench_percentile(f->pauses, f->n, 50) * 1e3,
            .p99_us = bench_percentile(f->pauses, f->n, 99) * 1e3,
            .commit = "committed",
            .extra = f->extra});
}

static void measure_realtime(struct bench *b, struct failover *f)
{
    char path[600];
    run_size(f, 1);
    if (!b->options.quick && f->wrong == NULL)
        run_size(f, 512);
    snprintf(path, sizeof path, "%s/../gcs_failover.svg", b->options.binaries);
    if (f->n > 0 && failover_svg_write(path, f->traces))
        fprintf(stderr, "mobula-bench: picture: %s\n", path);
    write_row(f, "gcs_failover");
}

/* Of what is started from now on: CAP_DAC_OVERRIDE, or no capability more than others. */
static bool let_pass(bool allowed)
{
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct sets[2];
    const uint32_t bit = 1u << CAP_DAC_OVERRIDE;
    if (syscall(SYS_capget, &head, sets) != 0)
        return false;
    sets[0].inheritable = allowed ? sets[0].inheritable | bit : sets[0].inheritable & ~bit;
    if (syscall(SYS_capset, &head, sets) != 0) /* what is not inheritable is not ambient either */
        return false;
    return !allowed || prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_DAC_OVERRIDE, 0, 0) == 0;
}

/* What is started meanwhile may not take real-time priority though it is root's, as on a machine where that
 * is not allowed: of root's capabilities it has the one without which it does not reach PostgreSQL, whose
 * socket is another user's. */
static void measure_normal(struct failover *f)
{
    bool root = geteuid() == 0;
    int before = prctl(PR_GET_SECUREBITS);
    if (root && (!let_pass(true) || prctl(PR_SET_SECUREBITS, before | SECBIT_NOROOT) != 0)) {
        bench_miss(
            f->b, "gcs_failover_normal", "root's capabilities cannot be taken from what it starts here");
        return;
    }
    run_size(f, 1);
    if (!f->b->options.quick && f->wrong == NULL)
        run_size(f, 512);
    if (root)
        MOB_ASSERT(prctl(PR_SET_SECUREBITS, before) == 0 && let_pass(false));
    write_row(f, "gcs_failover_normal");
}

static void measure(struct bench *b, const char *row, bool realtime)
{
    static struct failover f;
    int each = b->options.runs > 0 ? b->options.runs : b->options.quick ? 1 : 5;
    if (!bench_wanted(b, row))
        return;
    f = (struct failover){.b = b, .each = each, .realtime = realtime};
    if (!chain_table_open(b, row, &f.table))
        return;
    if (realtime)
        measure_realtime(b, &f);
    else
        measure_normal(&f);
    chain_table_close(&f.table);
}

void gcs_measure_failover(struct bench *b)
{
    measure(b, "gcs_failover", true);
    measure(b, "gcs_failover_normal", false);
}
