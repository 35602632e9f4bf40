/* gcs_scale_real: whether two shards get into each other's way. One shard that has the whole machine against
 * two that share it tells what cores are worth, not that. So each shard has as many cores here, alone and
 * beside the other one: its members, their Redis, its master and a generator of GCS_CONNECTIONS clients are
 * bound to these. The same of two plain Redis tells what the machine itself takes from two that are apart. */
#include <stdio.h>
#include <string.h>

#include "bench/cores.h"
#include "bench/gcs_setter.h"
#include "bench/gcs_shards.h"

#define SHARDS 2u
#define ROUNDS_MAX 3
#define VOIDS_MAX 5

_Static_assert(SHARDS <= GCS_SHARDS_MAX && SHARDS <= CORES_LOADS_MAX, "each has a box and a load");

struct terms {
    cpu_set_t cores[SHARDS];
    double seconds; /* of each load */
    bool normal; /* leases of 90 ms: a quick run is made beside others, too, and its figures are not kept */
};

/* A second and shard. */
struct round {
    double alone; /* one shard works, the mean of either's */
    double own; /* both, each with clients of it alone: the other shard is all that has changed */
    double spread; /* both, each generator with clients of the whole store: half of the puts change cores,
                    * too, which none of `alone` does */
    double alone_us, own_us, spread_us; /* CPU time a put, of all processes of its shard and its generator */
    double sets_alone, sets; /* a plain Redis, and two */
};

static double mean(const struct cores_rate rates[SHARDS])
{
    return (rates[0].done + rates[1].done) / SHARDS;
}

/* ---- puts ---- */

static struct gcs_putters *putters; /* of the process that a load is */

static bool open_putters(const void *arg)
{
    putters = gcs_putters_open(arg);
    return putters != NULL;
}

static double run_putters(double seconds)
{
    uint64_t puts;
    double rate = gcs_putters_run(putters, seconds, &puts);
    return gcs_putters_close(putters) ? rate : 0;
}

/* Of all processes of shards, since they began. */
static double shards_cpu_ns(const struct gcs_shards *shards)
{
    int64_t sum = 0;
    for (uint32_t i = 0; i < shards->count; i++) {
        sum += gcs_box_cpu_ns(shards->box[i].master[0]);
        for (uint32_t k = 0; k < GCS_SHARD_MEMBERS; k++)
            sum +=
                gcs_box_cpu_ns(shards->box[i].member[k].gcs) + gcs_box_cpu_ns(shards->box[i].member[k].redis);
    }
    return (double)sum;
}

/* Adds to `*cpu_us` what a put took. */
static bool run(const struct gcs_shards *shards, const struct cores_load *loads, uint32_t count,
    double seconds, struct cores_rate *rates_out, double *cpu_us)
{
    double before_ns = shards_cpu_ns(shards), ns = 0, done = 0;
    if (!cores_run(loads, count, seconds, rates_out))
        return false;
    for (uint32_t i = 0; i < count; i++) {
        ns += rates_out[i].cpu_ns;
        done += rates_out[i].done;
    }
    ns += (shards_cpu_ns(shards) - before_ns) / seconds;
    *cpu_us += ns / done / 1e3;
    return true;
}

struct loads {
    struct gcs_putters_options own_clients[SHARDS], all_clients[SHARDS];
    struct cores_load own[SHARDS], spread[SHARDS];
};

static void loads_of(const struct gcs_shards *shards, const cpu_set_t *cores, struct loads *out)
{
    for (uint32_t i = 0; i < SHARDS; i++) {
        out->own_clients[i] = (struct gcs_putters_options){.clients = shards->box[i].clients, .shard = i};
        out->all_clients[i] = (struct gcs_putters_options){.clients = shards->clients, .generator = i};
        out->own[i] = out->spread[i] =
            (struct cores_load){.cores = &cores[i], .open = open_putters, .run = run_putters};
        out->own[i].arg = &out->own_clients[i];
        out->spread[i].arg = &out->all_clients[i];
    }
}

/* All keys of either kind of client are there before any of them is measured: a new key costs more. */
static bool warm(const struct loads *loads, const struct terms *terms)
{
    struct cores_rate rates[SHARDS];
    return cores_run(loads->own, SHARDS, terms->seconds / 2, rates) &&
        cores_run(loads->spread, SHARDS, terms->seconds / 2, rates);
}

/* One alone is first and the other one last, so that a machine that becomes faster or slower favours none. */
static bool measure_puts(const struct gcs_shards *shards, const struct terms *terms, struct round *out)
{
    struct loads loads;
    struct cores_rate alone[SHARDS], own[SHARDS], spread[SHARDS];
    loads_of(shards, terms->cores, &loads);
    if (!warm(&loads, terms))
        return false;
    *out = (struct round){0};
    if (!run(shards, &loads.own[0], 1, terms->seconds, &alone[0], &out->alone_us) ||
        !run(shards, loads.own, SHARDS, terms->seconds, own, &out->own_us) ||
        !run(shards, loads.spread, SHARDS, terms->seconds, spread, &out->spread_us) ||
        !run(shards, &loads.own[1], 1, terms->seconds, &alone[1], &out->alone_us))
        return false;
    out->alone = mean(alone);
    out->alone_us /= SHARDS; /* there were so many runs */
    out->own = mean(own);
    out->spread = mean(spread);
    return true;
}

/* NULL: good; else why there is no figure, `left_out` when another round may have one. */
static const char left_out[] = "a member was left out, time and again";

static const char *puts_round(const struct terms *terms, struct round *out)
{
    static struct gcs_shards shards;
    struct gcs_shards_options options = {.count = SHARDS, .cores = terms->cores, .normal = terms->normal};
    const char *why = NULL;
    if (!gcs_shards_open(&shards, &options)) {
        gcs_shards_close(&shards);
        return "the chains do not come up, or may not be bound to cores";
    }
    uint64_t epochs = gcs_shards_epochs(&shards);
    bool measured = measure_puts(&shards, terms, out);
    if (epochs == 0 || gcs_shards_epochs(&shards) != epochs)
        why = left_out;
    else if (!measured)
        why = "clients do not come up, or a put failed";
    else if (!gcs_shards_hold(&shards, terms->cores))
        why = "a process is not bound to its shard's cores";
    gcs_shards_close(&shards);
    return why;
}

/* ---- the control ---- */

static bool open_setters(const void *arg)
{
    return gcs_setters_open(arg);
}

static bool start_redis(struct gcs_box *box, const cpu_set_t *cores)
{
    cpu_set_t before;
    gcs_box_init(box, BENCH_DURABILITY);
    if (!cores_bind(cores, &before))
        return false;
    gcs_box_start_redis(box);
    return cores_bind(&before, NULL) && cores_hold(box->redis, cores);
}

static bool measure_sets(struct gcs_box *boxes, const struct terms *terms, struct round *out)
{
    struct cores_load loads[SHARDS];
    struct cores_rate alone[SHARDS], both[SHARDS];
    for (uint32_t i = 0; i < SHARDS; i++)
        loads[i] = (struct cores_load){.cores = &terms->cores[i],
            .open = open_setters,
            .run = gcs_setters_run,
            .arg = boxes[i].directory};
    if (!cores_run(&loads[0], 1, terms->seconds, &alone[0]) ||
        !cores_run(loads, SHARDS, terms->seconds, both) ||
        !cores_run(&loads[1], 1, terms->seconds, &alone[1]))
        return false;
    out->sets_alone = mean(alone);
    out->sets = mean(both);
    return true;
}

static const char *sets_round(const struct terms *terms, struct round *out)
{
    static struct gcs_box boxes[SHARDS];
    bool good = true;
    for (uint32_t i = 0; i < SHARDS; i++)
        good &= start_redis(&boxes[i], &terms->cores[i]);
    good = good && measure_sets(boxes, terms, out);
    for (uint32_t i = 0; i < SHARDS; i++)
        gcs_box_fini(&boxes[i]);
    return good ? NULL : "the plain Redis do not answer, or may not be bound to cores";
}

/* ---- the row ---- */

static const char *run_rounds(const struct terms *terms, int n, struct round *rounds, int *voids_out)
{
    const char *why = NULL;
    for (int i = 0; i < n && why == NULL;) {
        why = puts_round(terms, &rounds[i]);
        if (why == left_out && ++*voids_out <= VOIDS_MAX) {
            why = NULL;
            continue;
        }
        if (why == NULL)
            why = sets_round(terms, &rounds[i++]);
    }
    return why;
}

/* Of the field at `offset` of each. */
static double median_of(const struct round *rounds, int n, size_t offset)
{
    double values[ROUNDS_MAX];
    for (int i = 0; i < n; i++)
        memcpy(&values[i], (const char *)&rounds[i] + offset, sizeof values[i]);
    return bench_median(values, n);
}
#define MEDIAN(field) median_of(rounds, n, offsetof(struct round, field))

/* "ratios": [0.97, ...] */
static void tell_ratios(char *out, size_t size, const struct round *rounds, int n)
{
    size_t at = (size_t)snprintf(out, size, "\"ratios\":[");
    for (int i = 0; i < n; i++)
        at += (size_t)snprintf(
            out + at, size - at, "%s%.3f", i > 0 ? "," : "", rounds[i].own / rounds[i].alone);
    snprintf(out + at, size - at, "]");
}

static void tell(struct bench *b, const struct round *rounds, int n, int voids)
{
    char extra[320], ratios[64];
    double alone = MEDIAN(alone), spread = MEDIAN(spread);
    tell_ratios(ratios, sizeof ratios, rounds, n);
    snprintf(extra, sizeof extra,
        "\"spread\":%.0f,\"spread_ratio\":%.3f,\"control_ratio\":%.3f,%s,\"us_alone\":%.2f,\"us_own\":%.2f,"
        "\"us_spread\":%.2f,\"voids\":%d",
        spread, spread / alone, MEDIAN(sets) / MEDIAN(sets_alone), ratios, MEDIAN(alone_us), MEDIAN(own_us),
        MEDIAN(spread_us), voids);
    bench_row(b,
        &(struct bench_row){.name = "gcs_scale_real",
            .value = MEDIAN(own),
            .unit = "1/s",
            .baseline = alone,
            .against = "puts a second and shard, each on cores of its own: two shards against one",
            .n = n,
            .commit = "committed",
            .extra = extra});
}

void gcs_measure_scale_real(struct bench *b)
{
    struct terms terms = {.seconds = b->options.quick ? 0.4 : 2, .normal = b->options.quick};
    struct round rounds[ROUNDS_MAX];
    int n = b->options.quick ? 1 : ROUNDS_MAX, voids = 0;
    if (!bench_wanted(b, "gcs_scale_real"))
        return;
    if (!cores_share(SHARDS, terms.cores)) {
        bench_miss(b, "gcs_scale_real", "there is one core only, and each shard is to have one");
        return;
    }
    const char *why = run_rounds(&terms, n, rounds, &voids);
    if (why != NULL)
        bench_miss(b, "gcs_scale_real", why);
    else
        tell(b, rounds, n, voids);
}
