/* LD_PRELOAD for a box whose wall clock is wrong: Redis and PostgreSQL get that of MOBULA_TEST_WALL_OFFSET_S,
 * as our own processes do by themselves (common/base/clock.h), in which this does nothing. Monotonic clocks
 * are left alone.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define EXPORTED __attribute__((visibility("default")))

static long offset_s;

__attribute__((constructor)) static void begin(void)
{
    const char *text = getenv("MOBULA_TEST_WALL_OFFSET_S"), *name = program_invocation_short_name;
    if (text != NULL && (strcmp(name, "redis-server") == 0 || strcmp(name, "postgres") == 0))
        offset_s = strtol(text, NULL, 10);
}

EXPORTED int clock_gettime(clockid_t clock, struct timespec *out)
{
    if (syscall(SYS_clock_gettime, clock, out) != 0)
        return -1;
    if (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)
        out->tv_sec += offset_s;
    return 0;
}

EXPORTED int gettimeofday(struct timeval *restrict out, void *restrict zone)
{
    struct timespec now;
    (void)zone;
    if (clock_gettime(CLOCK_REALTIME, &now) != 0)
        return -1;
    *out = (struct timeval){now.tv_sec, now.tv_nsec / 1000};
    return 0;
}

EXPORTED time_t time(time_t *out)
{
    struct timespec now;
    time_t seconds = clock_gettime(CLOCK_REALTIME, &now) == 0 ? now.tv_sec : -1;
    if (out != NULL)
        *out = seconds;
    return seconds;
}
