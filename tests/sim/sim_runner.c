/* Runs seeds on all cores, counts, and says which one failed: sim_runner.h. */
#include "tests/sim/sim_runner.h"

#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/base/log.h"

#define JOBS_MAX 64

struct board { /* shared by the jobs */
    _Atomic uint64_t next_seed, done, voids, failures, first_failed, events, operations, virtual_ns;
    _Atomic uint64_t cover[SIM_COVERS_MAX];
    _Atomic uint64_t running[JOBS_MAX]; /* seed of each job */
    _Atomic int stop, crashed;
    char why[512];
};
enum expect { EXPECT_NOTHING, EXPECT_UNSAFE, EXPECT_STUCK };
struct arguments {
    const struct sim_runner *runner;
    uint64_t seed, first, seeds, minutes, jobs;
    bool one, trace;
    enum expect expect;
    int without;
};

static double seconds_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static bool counts(const struct arguments *a, const struct sim_result *r)
{
    return r->failed && (a->expect == EXPECT_NOTHING || r->stuck == (a->expect == EXPECT_STUCK));
}

static void record(struct board *b, const struct arguments *a, uint64_t seed, const struct sim_result *r)
{
    atomic_fetch_add(&b->done, 1);
    atomic_fetch_add(&b->voids, r->is_void);
    atomic_fetch_add(&b->events, r->events);
    atomic_fetch_add(&b->operations, r->operations);
    atomic_fetch_add(&b->virtual_ns, (uint64_t)r->virtual_ns);
    for (unsigned i = 0; i < a->runner->covers && !r->is_void; i++)
        atomic_fetch_add(&b->cover[i], r->cover[i]);
    if (counts(a, r) && atomic_fetch_add(&b->failures, 1) == 0) {
        atomic_store(&b->first_failed, seed);
        memcpy(b->why, r->why, sizeof b->why);
        atomic_store(&b->stop, 1);
    }
}

static void work(struct board *b, const struct arguments *a, unsigned job, double until)
{
    for (;;) {
        uint64_t seed = atomic_fetch_add(&b->next_seed, 1);
        bool over = a->minutes > 0 ? seconds_now() >= until : seed >= a->first + a->seeds;
        if (over || atomic_load(&b->stop))
            return;
        struct sim_result result;
        atomic_store(&b->running[job], seed);
        a->runner->run(&(struct sim_setup){.seed = seed, .without = a->without}, &result);
        atomic_store(&b->running[job], 0);
        record(b, a, seed, &result);
    }
}

/* A job that ends by a signal (a failed assertion) has found something, too. */
static void reap(struct board *b, const pid_t *pids, unsigned jobs)
{
    for (unsigned done = 0; done < jobs; done++) {
        int status;
        pid_t pid = wait(&status);
        if (pid < 0 || (WIFEXITED(status) && WEXITSTATUS(status) == 0))
            continue;
        atomic_store(&b->crashed, 1);
        for (unsigned j = 0; j < jobs; j++)
            if (pids[j] == pid && atomic_fetch_add(&b->failures, 1) == 0) {
                atomic_store(&b->first_failed, atomic_load(&b->running[j]));
                snprintf(
                    b->why, sizeof b->why, "the process ended with status %d (a failed assertion?)", status);
                atomic_store(&b->stop, 1);
            }
    }
}

static bool report(const struct board *b, const struct arguments *a, double seconds)
{
    uint64_t done = atomic_load(&b->done), voids = atomic_load(&b->voids), count = done - voids;
    bool good = true;
    for (unsigned i = 0; i < a->runner->covers; i++) {
        const struct sim_cover_row *row = &a->runner->rows[i];
        double need = row->minimum * (double)count / 1000;
        uint64_t n = atomic_load(&b->cover[i]);
        bool low = (double)n < need && done >= 500, high = need < 0 && (double)n > -need && done >= 500;
        good = good && !low && !high;
        printf("%-22s %12llu  %s%s\n", row->name, (unsigned long long)n, row->text,
            low        ? "   TOO SELDOM"
                : high ? "   TOO OFTEN"
                       : "");
    }
    printf("%llu seeds from %llu, %llu void, %.1f s, %.1f million events, %llu operations, %.1f virtual s\n",
        (unsigned long long)done, (unsigned long long)a->first, (unsigned long long)voids, seconds,
        (double)atomic_load(&b->events) / 1e6, (unsigned long long)atomic_load(&b->operations),
        (double)atomic_load(&b->virtual_ns) / 1e9);
    if (voids * 10 > done) {
        printf("too many seeds are void\n");
        good = false;
    }
    return good;
}

static bool report_catch(const struct board *b, bool caught)
{
    unsigned long long seed = atomic_load(&b->first_failed), done = atomic_load(&b->done);
    if (caught)
        printf("caught by seed %llu after %llu seeds: %s\n", seed, done, b->why);
    else
        printf("not caught by %llu seeds %s\n", done, b->why);
    return caught;
}

static int run_many(const struct arguments *a, const char *program)
{
    struct board *b = mmap(NULL, sizeof *b, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (b == MAP_FAILED)
        return 1;
    atomic_store(&b->next_seed, a->first);
    double start = seconds_now();
    pid_t pids[JOBS_MAX];
    fflush(stdout);
    for (unsigned j = 0; j < a->jobs; j++) {
        pids[j] = fork();
        if (pids[j] == 0) {
            work(b, a, j, start + (double)a->minutes * 60);
            _exit(0);
        }
    }
    reap(b, pids, (unsigned)a->jobs);
    bool failed = atomic_load(&b->failures) > 0;
    if (a->expect != EXPECT_NOTHING)
        return report_catch(b, failed && !atomic_load(&b->crashed)) ? 0 : 1;
    bool good = report(b, a, seconds_now() - start);
    if (failed)
        printf("seed %llu FAILED %s\nreplay: %s --seed %llu --trace\n",
            (unsigned long long)atomic_load(&b->first_failed), b->why, program,
            (unsigned long long)atomic_load(&b->first_failed));
    return failed || !good ? 1 : 0;
}

static int run_one(const struct arguments *a)
{
    struct sim_result r;
    a->runner->run(&(struct sim_setup){.seed = a->seed, .trace = a->trace, .without = a->without}, &r);
    printf("seed %llu %s%s: %llu events, %llu operations, %.3f virtual s %s\n", (unsigned long long)a->seed,
        r.failed ? "FAILED" : "passed", r.is_void ? " (void)" : "", (unsigned long long)r.events,
        (unsigned long long)r.operations, (double)r.virtual_ns / 1e9, r.why);
    return r.failed ? 1 : 0;
}

static uint64_t number(const char *text)
{
    char *rest;
    errno = 0;
    unsigned long long n = strtoull(text, &rest, 10);
    if (errno != 0 || *text == 0 || *rest != 0) {
        fprintf(stderr, "sim: not a number: %s\n", text);
        exit(2);
    }
    return n;
}

static enum expect expectation(const char *text)
{
    if (strcmp(text, "unsafe") == 0)
        return EXPECT_UNSAFE;
    if (strcmp(text, "stuck") == 0)
        return EXPECT_STUCK;
    fprintf(stderr, "sim: not unsafe or stuck: %s\n", text);
    exit(2);
}

static int rule(const struct sim_runner *runner, const char *text)
{
    for (const struct sim_runner_rule *r = runner->rules; r->name != NULL; r++)
        if (strcmp(text, r->name) == 0)
            return r->rule;
    fprintf(stderr, "sim: no such rule: %s\n", text);
    exit(2);
}

int sim_runner_main(const struct sim_runner *runner, int argc, char **argv)
{
    static const struct option options[] = {{"seed", 1, NULL, 's'}, {"trace", 0, NULL, 't'},
        {"seeds", 1, NULL, 'k'}, {"first", 1, NULL, 'f'}, {"minutes", 1, NULL, 'm'}, {"jobs", 1, NULL, 'j'},
        {"expect", 1, NULL, 'x'}, {"without", 1, NULL, 'w'}, {NULL, 0, NULL, 0}};
    struct arguments a = {
        .runner = runner, .first = 1, .seeds = 2000, .jobs = (uint64_t)sysconf(_SC_NPROCESSORS_ONLN)};
    for (int o; (o = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        switch (o) {
        case 's':
            a.seed = number(optarg);
            a.one = true;
            break;
        case 't':
            a.trace = true;
            break;
        case 'k':
            a.seeds = number(optarg);
            break;
        case 'f':
            a.first = number(optarg);
            break;
        case 'm':
            a.minutes = number(optarg);
            break;
        case 'j':
            a.jobs = number(optarg);
            break;
        case 'x':
            a.expect = expectation(optarg);
            break;
        case 'w':
            a.without = rule(runner, optarg);
            break;
        default:
            fprintf(stderr,
                "usage: %s [--seed N] [--trace] [--seeds K] [--first N] [--minutes M] [--jobs J]\n"
                "       [--expect unsafe|stuck] [--without RULE]\n",
                argv[0]);
            return 2;
        }
    }
    if (a.jobs == 0 || a.jobs > JOBS_MAX)
        a.jobs = 1;
    if (getenv("MOBULA_LOG") == NULL)
        mob_log_threshold = MOB_LOG_LEVEL_ERROR + 1; /* what a member logs is part of many a good run */
    return a.one ? run_one(&a) : run_many(&a, argv[0]);
}
