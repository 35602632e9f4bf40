/* gcs_join: a fresh member joins a chain that holds 512 MiB, under load, several times; how long until it
 * serves, and what that costs a client. gcs_join_busy: the same under clients that write as fast as they can.
 */
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

/* What writes all the time; each turn is short. */
struct writer {
    bool (*turn)(void *arg); /* false: a put failed */
    void *arg;
};

/* Kills the tail of a whole chain, which goes on alone. Returns its slot; negative: the chain is not whole.
 */
static int kill_tail(const struct writer *w, struct chain_box *box)
{
    /* On a machine that stood still, a member was left out and joins again: alone, the other's end is the
     * chain's. */
    bool whole = chain_box_wait_length(box, 2, mob_now() + GCS_START_NS);
    int slot = whole ? chain_box_place(box, true) : -1;
    if (slot < 0)
        return slot;
    gcs_box_end(&box->member[slot].gcs, SIGKILL);
    w->turn(w->arg);
    return slot;
}

/* A new member, its store is wiped. Returns how long it took until the chain had two members that serve, s;
 * negative: a put failed, or it does not join. */
static double join(const struct writer *w, struct chain_box *box, int slot)
{
    chain_box_start_member(box, (uint32_t)slot);
    int64_t begin = bench_now(), look = begin + LOOK_NS;
    while (bench_now() - begin < GCS_START_NS && w->turn(w->arg)) {
        if (bench_now() < look)
            continue;
        if (chain_box_wait_length(box, 2, mob_now() - 1))
            return (double)(bench_now() - begin) / 1e9;
        look = bench_now() + LOOK_NS;
    }
    return -1;
}

static void write_for(const struct writer *w, int64_t ns)
{
    for (int64_t end = bench_now() + ns; bench_now() < end && w->turn(w->arg);)
        ;
}

struct joins {
    uint64_t mib;
    int count, wanted;
    double seconds[JOINS_MAX]; /* until it served */
    const char *wrong; /* why there is no figure; NULL: there is one */
};

static void joined(struct joins *j, int slot, double seconds)
{
    if (slot < 0)
        j->wrong = "the chain is not whole";
    else if (seconds < 0)
        j->wrong = "a put failed, or the member does not join";
    else
        j->seconds[j->count++] = seconds;
}

/* ---- gcs_join: one client with one put in flight ---- */

struct one {
    struct gcs_putter putter;
    uint64_t number;
    double *into_us; /* NULL: not measured */
    int *count;
};

static bool one_turn(void *arg)
{
    struct one *one = arg;
    int64_t begin = bench_now();
    gcs_putter_put(&one->putter, one->number++);
    if (one->into_us != NULL && *one->count < LATENCIES_MAX)
        one->into_us[(*one->count)++] = (double)(bench_now() - begin) / 1e3;
    return !one->putter.failed;
}

static void tell_one(
    struct bench *b, const struct joins *j, int before, int during, struct chain_table *table)
{
    char extra[400], where[128];
    double p99_before = bench_percentile(before_us, before, 99);
    double p99_during = bench_percentile(during_us, during, 99);
    double seconds[JOINS_MAX];
    memcpy(seconds, j->seconds, sizeof seconds);
    chain_table_tell(table, where, sizeof where);
    snprintf(extra, sizeof extra,
        "\"resident_mib\": %llu, \"joins\": %d, \"longest_join_s\": %.2f, \"p99_before_us\": %.1f, "
        "\"p99_ratio\": %.2f, \"longest_us\": %.1f, %s",
        (unsigned long long)j->mib, j->count, bench_percentile(seconds, j->count, 100), p99_before,
        p99_during / p99_before, bench_percentile(during_us, during, 100), where);
    bench_row(b,
        &(struct bench_row){.name = "gcs_join",
            .value = bench_median(seconds, j->count),
            .unit = "s",
            .n = during,
            .p50_us = bench_percentile(during_us, during, 50),
            .p99_us = p99_during,
            .commit = "committed",
            .extra = extra});
}

static void measure_one(struct bench *b, struct chain_box *box, struct joins *j, struct chain_table *table)
{
    struct one one = {.putter = {.gcs = chain_box_client(box)}};
    const struct writer w = {one_turn, &one};
    int before = 0, during = 0;
    for (int i = 0; i < 200; i++)
        one_turn(&one);
    while (j->wrong == NULL && j->count < j->wanted) {
        one.into_us = before_us;
        one.count = &before;
        write_for(&w, BEFORE_NS);
        one.into_us = NULL;
        int slot = kill_tail(&w, box);
        one.into_us = during_us;
        one.count = &during;
        joined(j, slot, slot < 0 ? -1 : join(&w, box, slot));
    }
    mob_gcs_destroy(one.putter.gcs);
    if (j->wrong != NULL)
        bench_miss(b, "gcs_join", j->wrong);
    else
        tell_one(b, j, before, during, table);
}

/* ---- gcs_join_busy: GCS_CONNECTIONS clients that write as fast as they can ---- */

struct many {
    struct gcs_putters *putters;
    uint64_t answers;
};

static bool many_turn(void *arg)
{
    struct many *many = arg;
    many->answers += gcs_putters_turn(many->putters);
    return true;
}

struct busy {
    double before[JOINS_MAX], during[JOINS_MAX]; /* puts a second, of a join each */
    int before_count, during_count;
};

static void tell_many(struct bench *b, const struct joins *j, struct busy *busy, struct chain_table *table)
{
    char extra[400], where[128];
    double seconds[JOINS_MAX];
    memcpy(seconds, j->seconds, sizeof seconds);
    double p99_before = bench_percentile(before_us, busy->before_count, 99);
    double p99_during = bench_percentile(during_us, busy->during_count, 99);
    chain_table_tell(table, where, sizeof where);
    snprintf(extra, sizeof extra,
        "\"resident_mib\": %llu, \"joins\": %d, \"longest_join_s\": %.2f, \"puts_before\": %.0f, "
        "\"puts_during\": %.0f, \"p99_before_us\": %.0f, \"p99_ratio\": %.2f, \"longest_us\": %.0f, %s",
        (unsigned long long)j->mib, j->count, bench_percentile(seconds, j->count, 100),
        bench_median(busy->before, j->count), bench_median(busy->during, j->count), p99_before,
        p99_during / p99_before, bench_percentile(during_us, busy->during_count, 100), where);
    bench_row(b,
        &(struct bench_row){.name = "gcs_join_busy",
            .value = bench_median(seconds, j->count),
            .unit = "s",
            .n = busy->during_count,
            .p50_us = bench_percentile(during_us, busy->during_count, 50),
            .p99_us = p99_during,
            .commit = "committed",
            .extra = extra});
}

static void join_busily(struct chain_box *box, struct joins *j, struct many *many, struct busy *busy)
{
    const struct writer w = {many_turn, many};
    uint64_t answers = many->answers;
    gcs_putters_note(many->putters, before_us, &busy->before_count, LATENCIES_MAX);
    write_for(&w, BEFORE_NS);
    busy->before[j->count] = (double)(many->answers - answers) / ((double)BEFORE_NS / 1e9);
    gcs_putters_note(many->putters, NULL, NULL, 0);
    int slot = kill_tail(&w, box);
    gcs_putters_note(many->putters, during_us, &busy->during_count, LATENCIES_MAX);
    answers = many->answers;
    double seconds = slot < 0 ? -1 : join(&w, box, slot);
    busy->during[j->count] = (double)(many->answers - answers) / seconds;
    joined(j, slot, seconds);
}

static void measure_many(struct bench *b, struct chain_box *box, struct joins *j, struct chain_table *table)
{
    const struct gcs_putters_options clients = {.clients = box->clients};
    struct many many = {.putters = gcs_putters_open(&clients)};
    struct busy busy = {.before_count = 0};
    if (many.putters == NULL) {
        bench_miss(b, "gcs_join_busy", "the clients do not get their places");
        return;
    }
    gcs_putters_begin(many.putters);
    while (j->wrong == NULL && j->count < j->wanted)
        join_busily(box, j, &many, &busy);
    if (!gcs_putters_close(many.putters))
        j->wrong = "a put failed";
    if (j->wrong != NULL)
        bench_miss(b, "gcs_join_busy", j->wrong);
    else
        tell_many(b, j, &busy, table);
}

/* ---- both ---- */

typedef void measure_fn(struct bench *b, struct chain_box *box, struct joins *j, struct chain_table *table);

static void measure(struct bench *b, const char *name, int joins, measure_fn *with)
{
    static struct chain_box box;
    static struct chain_table table;
    if (!bench_wanted(b, name) || !chain_table_open(b, name, &table))
        return;
    struct joins j = {.mib = b->options.quick ? 32 : 512, .wanted = b->options.quick ? 1 : joins};
    struct gcs_chain chain = {.members = 2, .postgres = chain_table_postgres(&table)};
    if (gcs_chain_open(&box, &chain)) {
        gcs_chain_fill(&box, j.mib * MIB);
        with(b, &box, &j, &table);
    } else {
        bench_miss(b, name, "the chain does not come up");
    }
    chain_box_fini(&box);
    chain_table_close(&table);
}

void gcs_measure_join(struct bench *b)
{
    measure(b, "gcs_join", JOINS_MAX, measure_one);
    measure(b, "gcs_join_busy", 3, measure_many);
}
