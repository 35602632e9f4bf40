/* CLOCK_MONOTONIC for who reads it millions of times a second: between two readings of the clock itself the
 * processor's counter says how much later it is. A reading of the clock waits until everything before it has
 * come from memory (25 ns here by itself, LIMITS); one of the counter waits for nothing (10 ns).
 *
 * At most MOB_NEAR_FOR_NS behind a reading, and within about 50 ns of the clock; never before an earlier
 * answer of the same struct. Where the counter is no clock (another architecture, a rate that is not
 * plausible or changes), each answer is a reading. One thread; zeroed at the start.
 */
#ifndef MOB_COMMON_BASE_NEAR_CLOCK_H
#define MOB_COMMON_BASE_NEAR_CLOCK_H

#include "common/base/clock.h"

#define MOB_NEAR_FOR_NS (50 * MOB_US)

struct mob_near_clock {
    uint64_t ticks; /* at the newest reading, */
    int64_t ns; /* which was this */
    uint64_t good_ticks; /* it is good for so many; 0 = for none */
    uint64_t rate; /* ns a tick, in 1/2^32; 0 = not measured */
    uint64_t from_ticks; /* the reading that the rate is measured from */
    int64_t from_ns;
    int64_t told; /* newest answer */
};

#if defined(__x86_64__)
static inline uint64_t mob_ticks(void)
{
    return __builtin_ia32_rdtsc();
}
#else
static inline uint64_t mob_ticks(void)
{
    return 0; /* does not advance: never measured */
}
#endif

/* Reads the clock. */
int64_t mob_near_read(struct mob_near_clock *clock);
/* The same of a reading that was taken: between `before` and `after` ticks the clock showed `ns`. For tests,
 * too. */
int64_t mob_near_note(struct mob_near_clock *clock, uint64_t before, int64_t ns, uint64_t after);

/* The answer at `ticks`; -1 = read the clock. */
static inline int64_t mob_near_at(struct mob_near_clock *clock, uint64_t ticks)
{
    uint64_t later = ticks - clock->ticks;
    if (__builtin_expect(later >= clock->good_ticks, 0))
        return -1;
    int64_t now = clock->ns + (int64_t)(later * clock->rate >> 32);
    clock->told = now > clock->told ? now : clock->told;
    return clock->told;
}

static inline int64_t mob_near_now(struct mob_near_clock *clock)
{
    int64_t now = mob_near_at(clock, mob_ticks());
    return __builtin_expect(now < 0, 0) ? mob_near_read(clock) : now;
}

#endif
