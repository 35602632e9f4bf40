/* Suite limits, continued: system calls, yields, wakes of sleepers, a line polled between two cores,
 * allocation, new processes. */
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/harness.h"

extern char **environ;

enum { ROUNDS = 5, WAKES = 300, LINE_ROUNDS = 20000, ASLEEP_US = 200 };

#define ROW_NS 1000000000ll /* on a busy machine a row ends before its count is reached */

/* ---- what one thread does by itself ---- */

static _Atomic uint32_t nobody; /* no one waits for it */

static long futex(_Atomic uint32_t *word, int operation, uint32_t value)
{
    return syscall(SYS_futex, word, operation, value, NULL, NULL, 0);
}

static void bare_call(void)
{
    (void)syscall(SYS_getppid);
}

static void wake_of_nobody(void)
{
    (void)futex(&nobody, FUTEX_WAKE, 1);
}

static void yield(void)
{
    sched_yield();
}

static void pause_once(void)
{
    __builtin_ia32_pause();
}

static void allocate(void)
{
    void *volatile block = malloc(256);
    free(block);
}

static void call_row(struct bench *b, const char *row, void (*call)(void), int n)
{
    double ns[ROUNDS];
    for (int r = 0; r < ROUNDS; r++) {
        int64_t begin = bench_now();
        for (int i = 0; i < n; i++)
            call();
        ns[r] = (double)(bench_now() - begin) / n;
    }
    bench_row(b,
        &(struct bench_row){.name = row, .value = bench_median(ns, ROUNDS), .unit = "ns", .n = ROUNDS * n});
}

void bench_limits_calls(struct bench *b)
{
    call_row(b, "limit_getppid", bare_call, 20000);
    call_row(b, "limit_futex_nobody", wake_of_nobody, 20000);
    call_row(b, "limit_sched_yield", yield, 5000);
    call_row(b, "limit_pause", pause_once, 100000);
    call_row(b, "limit_malloc", allocate, 100000);
}

/* ---- two processes, each on a core ---- */

/* Shared by the waker and the sleeper. */
struct pair {
    _Alignas(64) _Atomic uint32_t there; /* count of wakes */
    _Alignas(64) _Atomic uint32_t back;
    _Alignas(64) _Atomic int64_t ran_at; /* when the sleeper ran again; 0 = not yet */
    int event; /* an eventfd that a sleeper reads */
};

static bool pin(pid_t pid, int core)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET((size_t)core, &set);
    return sched_setaffinity(pid, sizeof set, &set) == 0;
}

/* The first two cores that this process may use; how many of them there are. */
static int own_cores(int cores[2], cpu_set_t *all)
{
    int n = 0;
    if (sched_getaffinity(0, sizeof *all, all) != 0)
        return 0;
    for (int i = 0; i < CPU_SETSIZE && n < 2; i++)
        if (CPU_ISSET((size_t)i, all))
            cores[n++] = i;
    return n;
}

static void until(_Atomic uint32_t *word, uint32_t value)
{
    for (uint32_t seen; (seen = atomic_load(word)) != value;)
        (void)futex(word, FUTEX_WAIT, seen);
}

static void tell(_Atomic uint32_t *word, uint32_t value)
{
    atomic_store(word, value);
    (void)futex(word, FUTEX_WAKE, 1);
}

/* Sleeps on a futex, says when it runs, answers. */
static void futex_sleeper(struct pair *p, int n)
{
    for (uint32_t i = 1; i <= (uint32_t)n; i++) {
        until(&p->there, i);
        atomic_store(&p->ran_at, bench_now());
        tell(&p->back, i);
    }
}

static void event_sleeper(struct pair *p, int n)
{
    uint64_t count;
    for (uint32_t i = 1; i <= (uint32_t)n; i++) {
        if (read(p->event, &count, sizeof count) != sizeof count)
            return;
        atomic_store(&p->ran_at, bench_now());
        tell(&p->back, i);
    }
}

static void line_poller(struct pair *p, int n)
{
    for (uint32_t i = 1; i <= (uint32_t)n; i++) {
        while (atomic_load_explicit(&p->there, memory_order_acquire) != i)
            continue;
        atomic_store_explicit(&p->back, i, memory_order_release);
    }
}

/* A child on `core` that runs `other`; which ends by itself, or in end_pair. NULL after a failure. */
static struct pair *start_pair(int core, void (*other)(struct pair *, int), int n, pid_t *child_out)
{
    struct pair *p = mmap(NULL, sizeof *p, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        return NULL;
    p->event = eventfd(0, EFD_CLOEXEC);
    *child_out = fork();
    if (*child_out == 0) {
        pin(0, core);
        other(p, n);
        _exit(0);
    }
    if (*child_out > 0)
        return p;
    close(p->event);
    munmap(p, sizeof *p);
    return NULL;
}

static void end_pair(struct pair *p, pid_t child)
{
    kill(child, SIGKILL); /* when it has not ended by itself */
    waitpid(child, NULL, 0);
    close(p->event);
    munmap(p, sizeof *p);
}

static void latency_row(struct bench *b, const char *row, double *us, int n)
{
    double p50 = bench_percentile(us, n, 50);
    bench_row(b,
        &(struct bench_row){.name = row,
            .value = p50,
            .unit = "us",
            .n = n,
            .p50_us = p50,
            .p99_us = bench_percentile(us, n, 99)});
}

/* Waker and sleeper take turns on one core: half of a round is a wake and a change to the one that was woken.
 */
static void same_core(struct bench *b, int core)
{
    double us[WAKES];
    pid_t child;
    struct pair *p = start_pair(core, futex_sleeper, WAKES, &child);
    const int64_t end = bench_now() + ROW_NS;
    int i = 0;
    for (; p && i < WAKES && bench_now() < end; i++) {
        int64_t from = bench_now();
        tell(&p->there, (uint32_t)i + 1);
        until(&p->back, (uint32_t)i + 1);
        us[i] = (double)(bench_now() - from) / 2e3;
    }
    if (!p)
        return;
    end_pair(p, child);
    latency_row(b, "limit_futex_wake_same", us, i);
}

/* A sleeper on another core, asleep for a while: until it runs, and what the call takes from its waker. */
static void other_core(struct bench *b, int core, bool by_event)
{
    double us[WAKES], stolen[WAKES];
    const uint64_t one = 1;
    pid_t child;
    struct pair *p = start_pair(core, by_event ? event_sleeper : futex_sleeper, WAKES, &child);
    const int64_t end = bench_now() + ROW_NS;
    int i = 0;
    for (; p && i < WAKES && bench_now() < end; i++) {
        usleep(ASLEEP_US);
        int64_t from = bench_now();
        if (!by_event)
            tell(&p->there, (uint32_t)i + 1);
        else if (write(p->event, &one, sizeof one) != sizeof one)
            break;
        stolen[i] = (double)(bench_now() - from) / 1e3;
        until(&p->back, (uint32_t)i + 1);
        us[i] = (double)(atomic_load(&p->ran_at) - from) / 1e3;
    }
    if (!p)
        return;
    end_pair(p, child);
    latency_row(b, by_event ? "limit_eventfd_wake" : "limit_futex_wake_other", us, i);
    if (!by_event)
        latency_row(b, "limit_futex_wake_call", stolen, i);
}

/* Both look all the time: half of a round is one way of a cache line. */
static void polled_line(struct bench *b, int core)
{
    static double us[LINE_ROUNDS];
    pid_t child;
    struct pair *p = start_pair(core, line_poller, LINE_ROUNDS, &child);
    const int64_t end = bench_now() + ROW_NS;
    int i = 0;
    for (; p && i < LINE_ROUNDS && bench_now() < end; i++) {
        int64_t from = bench_now();
        atomic_store_explicit(&p->there, (uint32_t)i + 1, memory_order_release);
        while (atomic_load_explicit(&p->back, memory_order_acquire) != (uint32_t)i + 1)
            continue;
        us[i] = (double)(bench_now() - from) / 2e3;
    }
    if (!p)
        return;
    end_pair(p, child);
    latency_row(b, "limit_polled_line", us, i);
}

void bench_limits_wakes(struct bench *b)
{
    int cores[2] = {0, 0};
    cpu_set_t all;
    int n = own_cores(cores, &all);
    if (n == 0 || !pin(0, cores[0]))
        return;
    same_core(b, cores[0]);
    if (n == 2) { /* with one core there is no other */
        other_core(b, cores[1], false);
        other_core(b, cores[1], true);
        polled_line(b, cores[1]);
    }
    sched_setaffinity(0, sizeof all, &all);
}

/* ---- programs ---- */

void bench_limits_spawn(struct bench *b)
{
    enum { SPAWNS = 50 };
    double us[SPAWNS];
    char program[512];
    if (!bench_find_program("true", program, sizeof program))
        return;
    char *argv[] = {program, NULL};
    for (int i = 0; i < SPAWNS; i++) {
        pid_t child;
        int64_t from = bench_now();
        if (posix_spawn(&child, program, NULL, NULL, argv, environ) != 0)
            return;
        waitpid(child, NULL, 0);
        us[i] = (double)(bench_now() - from) / 1e3;
    }
    latency_row(b, "limit_spawn", us, SPAWNS);
}
