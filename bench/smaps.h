/* Memory of a process, as the kernel lists it by region in /proc/PID/smaps. */
#ifndef MOB_BENCH_SMAPS_H
#define MOB_BENCH_SMAPS_H

#include <stdio.h>

/* Proportional set size in bytes of all regions of an open smaps file, without those of the shared segment. A
 * region that is listed twice counts once: the file is read piece by piece, and one that grew between two
 * pieces is told again, as a whole. */
double bench_smaps_pss(FILE *smaps);

#endif
