#include "bench/smaps.h"

#include <stdbool.h>
#include <string.h>

double bench_smaps_pss(FILE *smaps)
{
    char line[512];
    double bytes = 0, region = 0;
    unsigned long end = 0, from, to, kb;
    bool segment = false;
    while (fgets(line, sizeof line, smaps)) {
        if (sscanf(line, "%lx-%lx ", &from, &to) == 2) {
            /* Told again: what it had when it was told first does not count. */
            if (from >= end)
                bytes += region;
            region = 0;
            end = to;
            segment = strstr(line, "memfd:") != NULL;
        } else if (!segment && sscanf(line, "Pss: %lu kB", &kb) == 1) {
            region = (double)kb * 1024;
        }
    }
    return bytes + region;
}
