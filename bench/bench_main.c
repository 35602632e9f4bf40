/* mobula-bench: `./dev bench [SUITE...] [--json] [--quick]`. Starts a cluster of its own in a fresh
 * directory; exit 0 when every row was measured, whether its goal was met or not, in a quick run too. Rows
 * that were not are named. */
#include <libgen.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/harness.h"

/* What a run must have told, one way or the other. */
static const char *const core_rows[] = {"tasks_async", "lineage_bytes", "tasks_sync", "tasks_sync_committed",
    "actor_sync", "actor_sync_committed", "tasks_chain", "tasks_queued_1m", "tasks_queued_1m_mem", "fan_in",
    "returns", "wait_1k", "wait_1k_array", "tasks_tree", "tasks_tree_get", "actor_async", "actor_n_n",
    "actor_create", "start_first", "start_first_2", "start", "idle", "idle_cpu", NULL};
static const char *const store_rows[] = {
    "put_small", "get_small", "put_large", "get_large", "put_sweep", NULL};
static const char *const http_rows[] = {"http_task", "http_batch", NULL};
static const char *const serve_rows[] = {"serve_4k", "serve_4k_b64", "serve_4k_inproc", NULL};
static const char *const gcs_rows[] = {"gcs_put_1", "gcs_put_2", "gcs_put_3", "gcs_ops", "gcs_blocks_1",
    "gcs_blocks", "gcs_failover", "gcs_failover_normal", "gcs_join", "gcs_join_busy", "gcs_overhead",
    "gcs_scale", "gcs_scale_real", NULL};
static const char *const flush_rows[] = {"gcs_flush", "gcs_flush_mem", "gcs_flush_fixed", "gcs_find",
    "gcs_find_failed", "gcs_find_failed_rare", "gcs_find_http", "gcs_find_http_failed", "gcs_find_http_rare",
    NULL};
static const char *const no_rows[] = {NULL};

static const struct suite {
    const char *name;
    void (*run)(struct bench *b);
    const char *const *rows;
    bool needs_cluster;
} suites[] = {
    {"limits", suite_limits, no_rows, false},
    {"gcs", suite_gcs, gcs_rows, false},
    {"core", suite_core, core_rows, true},
    {"store", suite_store, store_rows, true},
    {"http", suite_http, http_rows, true},
    {"serve", suite_serve, serve_rows, true},
    {"flush", suite_flush, flush_rows, false},
};
enum { SUITES = sizeof suites / sizeof *suites };

/* Rows that are measured with another. */
static const struct {
    const char *row, *with;
} measured_with[] = {{"lineage_bytes", "tasks_async"}, {"tasks_sync_committed", "tasks_sync"},
    {"actor_sync", "tasks_sync"}, {"actor_sync_committed", "tasks_sync"},
    {"tasks_queued_1m_mem", "tasks_queued_1m"}, {"start_first", "start"}, {"start_first_2", "start"},
    {"idle_cpu", "idle"}, {"gcs_flush_mem", "gcs_flush"}, {"gcs_find_failed", "gcs_find"},
    {"gcs_find_failed_rare", "gcs_find"}, {"gcs_find_http_failed", "gcs_find_http"},
    {"gcs_find_http_rare", "gcs_find_http"}};

static int usage(FILE *to, int status)
{
    fprintf(to,
        "usage: mobula-bench [limits|gcs|core|store|http|serve|flush ...] [--json] [--quick] "
        "[--only=ROW,...] [--runs=N]\n"
        "Without a suite all run. --json: one object a line. --quick: small counts, only to see that each "
        "row can be measured. --only: these rows and those measured with them, after the limits. --runs: of "
        "each "
        "cell of gcs_failover.\n"
        "       mobula-bench gcs-history --out FILE [--seed N] [--seconds S]: histories under faults, for a "
        "checker\n");
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

static const struct suite *suite_of(const char *row)
{
    for (int i = 0; i < SUITES; i++)
        for (const char *const *name = suites[i].rows; *name; name++)
            if (strcmp(*name, row) == 0)
                return &suites[i];
    return NULL;
}

static const char *row_that_measures(const char *row)
{
    for (size_t i = 0; i < sizeof measured_with / sizeof *measured_with; i++)
        if (strcmp(measured_with[i].row, row) == 0)
            return measured_with[i].with;
    return row;
}

/* `names`, split at commas, are the rows to measure, and their suites are wanted: of those that were named,
 * if any was. False: one is none of theirs, which it has said. */
static bool choose_rows(
    struct bench *b, char *names, const char *asked[BENCH_ONLY_MAX], bool wanted[SUITES], bool any)
{
    bool needed[SUITES] = {false};
    for (char *name = names, *end; name; name = end) {
        end = strchr(name, ',');
        if (end)
            *end++ = '\0';
        const struct suite *suite = suite_of(name);
        if (!suite || (any && !wanted[suite - suites]) || b->options.only_count == BENCH_ONLY_MAX) {
            fprintf(stderr, "mobula-bench: %s have no row %s; docs/performance.md lists them\n",
                suite ? "these suites" : "the suites", name);
            return false;
        }
        needed[suite - suites] = true;
        asked[b->options.only_count] = name;
        b->options.only[b->options.only_count++] = row_that_measures(name);
    }
    memcpy(wanted, needed, sizeof needed);
    return true;
}

static void run_suite(struct bench *b, const struct suite *suite)
{
    suite->run(b);
    for (const char *const *row = suite->rows; *row; row++)
        if (bench_wanted(b, *row) && !bench_told(b, *row))
            bench_miss(b, *row, "its suite ended before it, or the row it is measured with was not");
}

int main(int argc, char **argv)
{
    static struct bench b;
    char *names = NULL;
    if (argc > 1 && strcmp(argv[1], "gcs-history") == 0)
        return find_binaries(&b) ? bench_gcs_history(&b, argc - 1, argv + 1) : 1;
    bool wanted[SUITES] = {false}, any = false, cluster = false;
    for (int i = 1; i < argc; i++) {
        const struct suite *suite = suite_named(argv[i]);
        if (strcmp(argv[i], "--json") == 0)
            b.options.json = true;
        else if (strcmp(argv[i], "--quick") == 0)
            b.options.quick = true;
        else if (strncmp(argv[i], "--only=", 7) == 0)
            names = argv[i] + 7;
        else if (strncmp(argv[i], "--runs=", 7) == 0)
            b.options.runs = atoi(argv[i] + 7);
        else if (strcmp(argv[i], "--runs") == 0 && i + 1 < argc)
            b.options.runs = atoi(argv[++i]);
        else if (strcmp(argv[i], "--help") == 0)
            return usage(stdout, 0);
        else if (suite)
            wanted[suite - suites] = any = true;
        else
            return usage(stderr, 2);
    }
    const char *asked[BENCH_ONLY_MAX];
    if (names && !choose_rows(&b, names, asked, wanted, any))
        return 2;
    any |= names != NULL;
    if (!find_binaries(&b))
        return 1;
    for (int i = 0; i < SUITES; i++)
        cluster |= suites[i].needs_cluster && (wanted[i] || !any);
    suite_limits(&b); /* baselines of everything else, so always first */
    const struct suite *gcs = suite_named("gcs"); /* before there is a cluster beside it */
    if (wanted[gcs - suites] || !any)
        run_suite(&b, gcs);
    if (cluster && !bench_cluster_start(&b))
        return 1;
    for (int i = 0; i < SUITES; i++)
        if (suites[i].needs_cluster && (wanted[i] || !any))
            run_suite(&b, &suites[i]);
    bench_cluster_stop(&b);
    const struct suite *flush = suite_named("flush"); /* when there is none any more */
    if (wanted[flush - suites] || !any)
        run_suite(&b, flush);
    for (int i = 0; i < b.options.only_count; i++)
        if (!bench_told(&b, asked[i]))
            bench_miss(&b, asked[i], "the row it is measured with was not");
    if (b.misses > 0)
        fprintf(stderr, "mobula-bench: %d rows were not measured\n", b.misses);
    return b.misses > 0 ? 1 : 0;
}
