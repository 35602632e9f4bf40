/* The picture of gcs_flush, like the paper's Figure 10b: what the control store's processes hold over time,
 * and its log on disk. Pure but for its file. */
#ifndef MOB_BENCH_FLUSH_SVG_H
#define MOB_BENCH_FLUSH_SVG_H

#include <stdbool.h>

#define FLUSH_SAMPLES_MAX 20000

struct flush_sample {
    double seconds;
    double redis_bytes, member_bytes; /* resident */
    double log_bytes; /* Redis' append-only files */
    double tasks; /* taken so far */
};

bool flush_svg_write(const char *path, const struct flush_sample *samples, int count, double cap_bytes);

#endif
