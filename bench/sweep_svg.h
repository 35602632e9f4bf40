/* The picture of put_sweep: what Figure 9 of the paper shows, throughput over object size. Pure but for its
 * file. */
#ifndef MOB_BENCH_SWEEP_SVG_H
#define MOB_BENCH_SWEEP_SVG_H

#include <stdbool.h>
#include <stddef.h>

#define SWEEP_POINTS_MAX 32

struct sweep_point {
    size_t bytes;
    int threads, rounds;
    double p50_us, p99_us, gbs, memcpy_gbs;
};

/* Two panels, GB/s and puts a second, each over the size; lines for one and two copying threads, and
 * memcpy's. */
bool sweep_svg_write(const char *path, const struct sweep_point *points, int count);

#endif
