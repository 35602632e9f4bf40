/* gcs_join: a fresh member joins a chain that holds 512 MiB, under load, several times; how long until it
 * serves, and what that costs a client. */
#include <signal.h>
#include <string.h>

#include "bench/chain_table.h"
#include "bench/gcs_putter.h"
#include "common/base/clock.h"

#define MIB (1ull << 20)
#define LATENCIES_MAX 2000000
#define LOOK_NS (50 * MOB_MS) /* between two looks whether it serves */
#define BEFORE_NS (3 * MOB_SEC)
#define JOINS_MAX 5

static double before_us[LATENCIES_MAX], during_us[LATENCIES_MAX];

static double put_us(struct gcs_putter *p, uint64_t *number)
{
    int64_t begin = bench_now();
    gcs_putter_put(p, (*number)++);
    return (double)(bench_now() - begin) / 1e3;
}

static void measure_before(struct gcs_putter *p, uint64_t *number, int *n)
{
    for (int64_t end = bench_now() + BEFORE_NS; bench_now() < end && *n < LATENCIES_MAX && !p->failed;)
        before_us[(*n)++] = put_us(p, number);
}

/* Until the chain has two members that serve. Returns how long that took, s; negative: it did not. */
static double measure_join(struct gcs_putter *p, struct chain_box *box, uint64_t *number, int *n)
{
    int64_t begin = bench_now(), look = begin + LOOK_NS;
    while (!p->failed && bench_now() - begin < GCS_START_NS) {
        double us = put_us(p, number);
        if (*n < LATENCIES_MAX)
            during_us[(*n)++] = us;
        if (bench_now() < look)
            continue;
        if (chain_box_wait_length(box, 2, mob_now() - 1))
            return (double)(bench_now() - begin) / 1e9;
        look = bench_now() + LOOK_NS;
    }
    return -1;
}

struct joins {
    uint64_t mib;
    int count;
    double seconds[JOINS_MAX]; /* until it served */
    int before, during; /* puts, of all of them */
};

static void tell(struct bench *b, struct joins *j, struct chain_table *table)
{
    char extra[400], where[128];
    double p99_before = bench_percentile(before_us, j->before, 99);
    double p99_during = bench_percentile(during_us, j->during, 99);
    chain_table_tell(table, where, sizeof where);
    snprintf(extra, sizeof extra,
        "\"resident_mib\": %llu, \"joins\": %d, \"longest_join_s\": %.2f, \"p99_before_us\": %.1f, "
        "\"p99_ratio\": %.2f, \"longest_us\": %.1f, %s",
        (unsigned long long)j->mib, j->count, bench_percentile(j->seconds, j->count, 100), p99_before,
        p99_during / p99_before, bench_percentile(during_us, j->during, 100), where);
    bench_row(b,
        &(struct bench_row){.name = "gcs_join",
            .value = bench_median(j->seconds, j->count),
            .unit = "s",
            .n = j->during,
            .p50_us = bench_percentile(during_us, j->during, 50),
            .p99_us = p99_during,
            .commit = "committed",
            .extra = extra});
}

/* Why there is no figure; NULL: there is one. */
static const char *kill_and_join(
    struct chain_box *box, struct gcs_putter *p, struct joins *j, uint64_t *number)
{
    measure_before(p, number, &j->before);
    /* On a machine that stood still, a member was left out and joins again: alone, the other's end is the
     * chain's. */
    bool whole = chain_box_wait_length(box, 2, mob_now() + GCS_START_NS);
    int slot = whole ? chain_box_place(box, true) : -1;
    if (slot < 0)
        return "the chain is not whole";
    gcs_box_end(&box->member[slot].gcs, SIGKILL);
    gcs_putter_put(p, (*number)++); /* the chain of one goes on */
    chain_box_start_member(box, (uint32_t)slot); /* its store is wiped: a new member */
    double seconds = measure_join(p, box, number, &j->during);
    j->seconds[j->count++] = seconds;
    return p->failed ? "a put failed" : seconds < 0 ? "it does not join" : NULL;
}

static const char *measure_joins(struct chain_box *box, struct gcs_putter *p, struct joins *j, int wanted)
{
    uint64_t number = 0;
    const char *wrong = NULL;
    for (int i = 0; i < 200; i++)
        gcs_putter_put(p, number++);
    while (wrong == NULL && j->count < wanted)
        wrong = kill_and_join(box, p, j, &number);
    return wrong;
}

static void measure(struct bench *b, struct chain_table *table)
{
    static struct chain_box box;
    struct joins j = {.mib = b->options.quick ? 32 : 512};
    struct gcs_chain chain = {.members = 2, .postgres = chain_table_postgres(table)};
    if (!gcs_chain_open(&box, &chain)) {
        bench_miss(b, "gcs_join", "the chain does not come up");
        chain_box_fini(&box);
        return;
    }
    gcs_chain_fill(&box, j.mib * MIB);
    struct gcs_putter p = {.gcs = chain_box_client(&box)};
    const char *wrong = measure_joins(&box, &p, &j, b->options.quick ? 1 : JOINS_MAX);
    if (wrong != NULL)
        bench_miss(b, "gcs_join", wrong);
    else
        tell(b, &j, table);
    mob_gcs_destroy(p.gcs);
    chain_box_fini(&box);
}

void gcs_measure_join(struct bench *b)
{
    static struct chain_table table;
    if (!bench_wanted(b, "gcs_join") || !chain_table_open(b, "gcs_join", &table))
        return;
    measure(b, &table);
    chain_table_close(&table);
}
