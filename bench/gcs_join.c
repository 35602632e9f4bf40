/* gcs_join: a fresh member joins a chain that holds 512 MiB, under load; how long until it serves, and what
 * that costs a client. */
#include <signal.h>
#include <string.h>

#include "bench/gcs_putter.h"
#include "common/base/clock.h"

#define MIB (1ull << 20)
#define LATENCIES_MAX 2000000
#define LOOK_NS (50 * MOB_MS) /* between two looks whether it serves */
#define BEFORE_NS (3 * MOB_SEC)

static double before_us[LATENCIES_MAX], during_us[LATENCIES_MAX];

static double put_us(struct gcs_putter *p, uint64_t *number)
{
    int64_t begin = bench_now();
    gcs_putter_put(p, (*number)++);
    return (double)(bench_now() - begin) / 1e3;
}

static int measure_before(struct gcs_putter *p, uint64_t *number)
{
    int n = 0;
    for (int64_t end = bench_now() + BEFORE_NS; bench_now() < end && n < LATENCIES_MAX && !p->failed;)
        before_us[n++] = put_us(p, number);
    return n;
}

/* Until the chain has two members that serve. Returns how long that took, s; negative: it did not. */
static double measure_join(struct gcs_putter *p, struct chain_box *box, uint64_t *number, int *n_out)
{
    int64_t begin = bench_now(), look = begin + LOOK_NS;
    *n_out = 0;
    while (!p->failed && bench_now() - begin < GCS_START_NS) {
        double us = put_us(p, number);
        if (*n_out < LATENCIES_MAX)
            during_us[(*n_out)++] = us;
        if (bench_now() < look)
            continue;
        if (chain_box_wait_length(box, 2, mob_now() - 1))
            return (double)(bench_now() - begin) / 1e9;
        look = bench_now() + LOOK_NS;
    }
    return -1;
}

void gcs_measure_join(struct bench *b)
{
    static struct chain_box box;
    char extra[256];
    uint64_t mib = b->options.quick ? 32 : 512, number = 0;
    if (!bench_wanted(b, "gcs_join"))
        return;
    if (!gcs_chain_open(&box, 2)) {
        bench_miss(b, "gcs_join", "the chain does not come up");
        chain_box_fini(&box);
        return;
    }
    gcs_chain_fill(&box, mib * MIB);
    struct gcs_putter p = {.gcs = chain_box_client(&box)};
    for (int i = 0; i < 200; i++)
        gcs_putter_put(&p, number++);
    int before = measure_before(&p, &number), during = 0;
    /* On a machine that stood still, a member was left out and joins again: alone, the other's end is the
     * chain's. */
    bool whole = chain_box_wait_length(&box, 2, mob_now() + GCS_START_NS);
    int slot = whole ? chain_box_place(&box, true) : -1;
    double seconds = -1;
    if (slot >= 0) {
        gcs_box_end(&box.member[slot].gcs, SIGKILL);
        gcs_putter_put(&p, number++); /* the chain of one goes on */
        chain_box_start_member(&box, (uint32_t)slot); /* its store is wiped: a new member */
        seconds = measure_join(&p, &box, &number, &during);
    }
    if (p.failed || seconds < 0) {
        bench_miss(b, "gcs_join",
            p.failed       ? "a put failed"
                : slot < 0 ? "the chain is not whole"
                           : "it does not join");
    } else {
        double p99_before = bench_percentile(before_us, before, 99);
        double p99_during = bench_percentile(during_us, during, 99);
        snprintf(extra, sizeof extra,
            "\"resident_mib\": %llu, \"p99_before_us\": %.1f, \"p99_ratio\": %.2f, \"longest_us\": %.1f",
            (unsigned long long)mib, p99_before, p99_during / p99_before,
            bench_percentile(during_us, during, 100));
        bench_row(b,
            &(struct bench_row){.name = "gcs_join",
                .value = seconds,
                .unit = "s",
                .n = during,
                .p50_us = bench_percentile(during_us, during, 50),
                .p99_us = p99_during,
                .commit = "committed",
                .extra = extra});
    }
    mob_gcs_destroy(p.gcs);
    chain_box_fini(&box);
}
