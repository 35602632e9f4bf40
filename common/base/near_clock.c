#include "common/base/near_clock.h"

/* A rate is measured over at least so long: a reading is known to 20 ns. */
#define MEASURED_OVER_NS (100 * MOB_US)
#define MEASURED_ANEW_NS MOB_SEC
/* Between the counter's two readings around the clock's; more: the process was switched off in between. */
#define READING_TICKS_MAX 2000u
/* Of two measurements of one rate, in parts of it. */
#define RATE_PARTS 256u

/* A counter of 0.5 to 20 GHz. */
static bool is_plausible(double rate)
{
    return rate > 0.05 && rate < 2.0;
}

static bool agree(uint64_t a, uint64_t b)
{
    uint64_t difference = a > b ? a - b : b - a;
    return difference <= b / RATE_PARTS;
}

static void start_measuring(struct mob_near_clock *clock)
{
    clock->from_ticks = clock->ticks;
    clock->from_ns = clock->ns;
}

/* From the older reading to the newest one. What does not agree with the measurement before is none. */
static void measure(struct mob_near_clock *clock)
{
    double rate = (double)(clock->ns - clock->from_ns) / (double)(clock->ticks - clock->from_ticks);
    uint64_t measured = is_plausible(rate) ? (uint64_t)(rate * 4294967296.0) : 0;
    bool steady = measured != 0 && (clock->rate == 0 || agree(measured, clock->rate));
    clock->rate = steady ? measured : 0;
    clock->good_ticks = steady ? (uint64_t)((double)MOB_NEAR_FOR_NS / rate) : 0;
    if (!steady || clock->ns - clock->from_ns >= MEASURED_ANEW_NS)
        start_measuring(clock);
}

int64_t mob_near_note(struct mob_near_clock *clock, uint64_t before, int64_t ns, uint64_t after)
{
    clock->told = ns > clock->told ? ns : clock->told;
    if (after - before > READING_TICKS_MAX) {
        clock->good_ticks = 0;
        return clock->told;
    }
    clock->ticks = before + (after - before) / 2;
    clock->ns = ns;
    if (clock->from_ns == 0 || clock->ticks <= clock->from_ticks) {
        clock->rate = clock->good_ticks = 0;
        start_measuring(clock);
    } else if (ns - clock->from_ns >= MEASURED_OVER_NS) {
        measure(clock);
    }
    return clock->told;
}

int64_t mob_near_read(struct mob_near_clock *clock)
{
    uint64_t before = mob_ticks();
    int64_t ns = mob_now();
    return mob_near_note(clock, before, ns, mob_ticks());
}
