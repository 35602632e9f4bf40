/* Shares of this machine's cores, and loads that run at the same time, each in a share of its own: so that
 * one thing alone and two of them beside each other have as much each. One thread. */
#ifndef MOB_BENCH_CORES_H
#define MOB_BENCH_CORES_H

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define CORES_LOADS_MAX 2u

/* `count` shares of equally many cores that this thread may use, without one in common: of hardware threads
 * that share a core only the first counts, since it is worth less while the other one works. False: there are
 * fewer cores than shares. */
bool cores_share(uint32_t count, cpu_set_t *shares_out);

/* This thread, and what it starts from now on; `before_out` (may be NULL): what it had. False: not allowed.
 */
bool cores_bind(const cpu_set_t *cores, cpu_set_t *before_out);
/* Every thread of the process may use cores of these only. False too when there is no such process. */
bool cores_hold(pid_t pid, const cpu_set_t *cores);

/* A load that a process of its own makes, bound to `cores` before anything else. */
struct cores_load {
    const cpu_set_t *cores;
    bool (*open)(const void *arg); /* what is not measured; false: it cannot be made */
    double (*run)(double seconds); /* what it did a second; 0: it failed */
    const void *arg; /* of `open` */
};
/* A second: what it did, and nanoseconds of CPU time of its own thread. */
struct cores_rate {
    double done, cpu_ns;
};
/* All at the same time: none runs before all are open. False: one could not be opened, or failed. */
bool cores_run(const struct cores_load *loads, uint32_t count, double seconds, struct cores_rate *rates_out);

#endif
