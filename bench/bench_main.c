/* mobula-bench: `./dev bench [SUITE...] [--json] [--quick]`. Starts a cluster of its own in a fresh
 * directory; exit 0 when everything was measured, whether goals were met or not. A quick run only has to get
 * through: the rows that it could not measure, on a machine that does other things too, are named. */
#include <libgen.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/harness.h"

static const struct suite {
    const char *name;
    void (*run)(struct bench *b);
    bool needs_cluster;
} suites[] = {
    {"limits", suite_limits, false},
    {"core", suite_core, true},
    {"store", suite_store, true},
    {"http", suite_http, true},
    {"serve", suite_serve, true},
};
enum { SUITES = sizeof suites / sizeof *suites };

static int usage(FILE *to, int status)
{
    fprintf(to,
        "usage: mobula-bench [limits|core|store|http|serve ...] [--json] [--quick] [--only=ROW]\n"
        "Without a suite all run. --json: one object a line. --quick: small counts, only to see that it "
        "runs. --only: of suites core and store, this row and those measured with it.\n");
    return status;
}

static bool find_binaries(struct bench *b)
{
    char self[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    if (n <= 0)
        return false;
    self[n] = '\0';
    char *directory = dirname(self);
    if (snprintf(b->options.binaries, sizeof b->options.binaries, "%s", directory) >=
        (int)sizeof b->options.binaries)
        return false;
    return snprintf(b->options.modules, sizeof b->options.modules, "%s/../modules", b->options.binaries) <
        (int)sizeof b->options.modules;
}

static const struct suite *suite_named(const char *name)
{
    for (int i = 0; i < SUITES; i++)
        if (strcmp(suites[i].name, name) == 0)
            return &suites[i];
    return NULL;
}

int main(int argc, char **argv)
{
    static struct bench b;
    bool wanted[SUITES] = {false}, any = false, cluster = false;
    for (int i = 1; i < argc; i++) {
        const struct suite *suite = suite_named(argv[i]);
        if (strcmp(argv[i], "--json") == 0)
            b.options.json = true;
        else if (strcmp(argv[i], "--quick") == 0)
            b.options.quick = true;
        else if (strncmp(argv[i], "--only=", 7) == 0)
            b.options.only = argv[i] + 7;
        else if (strcmp(argv[i], "--help") == 0)
            return usage(stdout, 0);
        else if (suite)
            wanted[suite - suites] = any = true;
        else
            return usage(stderr, 2);
    }
    if (!find_binaries(&b))
        return 1;
    for (int i = 0; i < SUITES; i++)
        cluster |= suites[i].needs_cluster && (wanted[i] || !any);
    suite_limits(&b); /* baselines of everything else, so always first */
    if (cluster && !bench_cluster_start(&b))
        return 1;
    for (int i = 0; i < SUITES; i++)
        if (suites[i].needs_cluster && (wanted[i] || !any))
            suites[i].run(&b);
    bench_cluster_stop(&b);
    if (b.misses > 0)
        fprintf(stderr, "mobula-bench: %d rows were not measured\n", b.misses);
    return b.misses > 0 && !b.options.quick ? 1 : 0;
}
