/* The picture of gcs_failover, like the paper's Figure 10a: the latency of one client over time, a fault at a
 * tenth of a second. Pure but for its file. */
#ifndef MOB_BENCH_FAILOVER_SVG_H
#define MOB_BENCH_FAILOVER_SVG_H

#include <stdbool.h>

#define FAILOVER_TRACE_MS 500
#define FAILOVER_FAULT_MS 100
#define FAILOVER_PLACES 3 /* head, middle, tail */
#define FAILOVER_FAULTS 3 /* kill -9, SIGSTOP, link down */

/* Of one run: the longest latency of the puts that were answered in each millisecond; 0: none was. */
struct failover_trace {
    bool measured;
    double latency_ms[FAILOVER_TRACE_MS];
};

bool failover_svg_write(
    const char *path, const struct failover_trace traces[FAILOVER_FAULTS][FAILOVER_PLACES]);

#endif
