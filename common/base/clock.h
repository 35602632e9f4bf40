/* Clocks. Inside the system time is int64_t nanoseconds of CLOCK_MONOTONIC; wall time only for people and
 * deadlines that cross restarts. Thread-safe.
 */
#ifndef MOB_COMMON_BASE_CLOCK_H
#define MOB_COMMON_BASE_CLOCK_H

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#define MOB_US 1000ll
#define MOB_MS 1000000ll
#define MOB_SEC 1000000000ll
#define MOB_FOREVER_NS INT64_MAX

static inline int64_t mob_clock_of(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (int64_t)t.tv_sec * MOB_SEC + t.tv_nsec;
}
/* Monotonic now: 25 ns here (LIMITS). Shared by all processes of one machine. */
static inline int64_t mob_now(void)
{
    return mob_clock_of(CLOCK_MONOTONIC);
}
/* By how much the wall clock of this process is wrong: 0, or what a test said in MOBULA_TEST_WALL_OFFSET_S.
 * Read before main. */
extern int64_t mob_wall_offset_ns;
static inline int64_t mob_wall_now(void)
{
    return mob_clock_of(CLOCK_REALTIME) + mob_wall_offset_ns;
}
/* What a wall clock shows more than a monotonic one: by two readings of the monotonic clock around one of the
 * other. A process may be switched off between readings, so those that lie more than a few microseconds apart
 * are taken again, 16 times at most; the closest count. Pass other clocks to test. */
int64_t mob_clocks_apart(int64_t (*mono)(void), int64_t (*wall)(void));
/* Of this machine's clocks. */
int64_t mob_wall_minus_mono(void);

static inline int64_t mob_thread_cpu_now(void)
{
    return mob_clock_of(CLOCK_THREAD_CPUTIME_ID);
}
/* now + timeout without overflow; negative or MOB_FOREVER_NS timeouts mean for ever. */
static inline int64_t mob_deadline_after(int64_t timeout_ns)
{
    int64_t now = mob_now();
    return timeout_ns < 0 || timeout_ns > INT64_MAX - now ? INT64_MAX : now + timeout_ns;
}

/* One sched_yield in a polling loop. False: it took so long that others fill the cores, and who goes on
 * polling only waits for their time slices (3 ms each): sleep instead. */
#define MOB_YIELD_LONG_NS (100 * MOB_US)
static inline bool mob_yield_briefly(void)
{
    int64_t before = mob_now();
    sched_yield();
    return mob_now() - before < MOB_YIELD_LONG_NS;
}

/* The same for who yields again and again over a long time: when a yield took as long as a good part of a
 * time slice, the next ones are left out for so long that waiting for others' time slices takes at most a
 * fiftieth of the time. Shorter ones are the turns of those that it waits for, and each yield that is left
 * out may let a core halt that somebody must then wake. Zero at the start. */
#define MOB_YIELD_SLICE_NS (600 * MOB_US)
struct mob_yielder {
    int64_t not_before_ns;
};
static inline bool mob_yield_seldom_long(struct mob_yielder *y)
{
    int64_t before = mob_now();
    if (before < y->not_before_ns)
        return false;
    sched_yield();
    int64_t took = mob_now() - before;
    if (took < MOB_YIELD_SLICE_NS)
        return true;
    y->not_before_ns = before + 50 * took;
    return false;
}

#endif
