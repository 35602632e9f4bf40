/* gcs_scale: what several shards take in. Simulated with the service times of this run, each process on a
 * core of its own; and one and two shards for real, which share this machine's cores. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/gcs_shards.h"
#include "common/base/clock.h"
#include "tests/support/xorshift.h"

#define SHARDS_MAX 4u

/* ---- simulated: a closed network of single servers, first come first served ---- */

enum stage { AT_CLIENT, AT_HEAD, AT_TAIL, AT_STORE, AT_TAIL_AGAIN, STAGES };

struct job {
    double at_ns; /* when it comes to its next stage */
    enum stage stage;
    uint32_t client, shard;
};

static double exponential(uint64_t *state, double mean)
{
    double u = (double)(xorshift(state) >> 11) / 9007199254740992.0; /* [0, 1) */
    return -mean * log(1 - u);
}

static double mean_of(const struct gcs_chain_cpu *s, enum stage stage)
{
    switch (stage) {
    case AT_CLIENT:
        return s->client;
    case AT_HEAD:
        return s->head;
    case AT_TAIL:
    case AT_TAIL_AGAIN:
        return s->tail / 2; /* it takes an update in, and answers when its store has */
    case AT_STORE:
        return s->tail_store;
    case STAGES:
        break;
    }
    return 0;
}

/* The head's own store works beside the way of a put and waits for nobody: it is not here. */
static uint32_t server_of(const struct job *job, uint32_t shards)
{
    uint32_t kind = job->stage == AT_TAIL_AGAIN ? (uint32_t)AT_TAIL : (uint32_t)job->stage;
    uint32_t number = job->stage == AT_CLIENT ? job->client / GCS_CONNECTIONS : job->shard;
    return kind * shards + number;
}

/* Puts a second and shard; sixty connections and one generator for each shard, keys spread at random. */
static double simulate(const struct gcs_chain_cpu *s, uint32_t shards, uint64_t puts)
{
    static struct job jobs[GCS_CONNECTIONS * SHARDS_MAX];
    double free_ns[STAGES * SHARDS_MAX] = {0}, now = 0;
    uint64_t state = 88172645463325252ull, done = 0;
    uint32_t count = GCS_CONNECTIONS * shards;
    for (uint32_t i = 0; i < count; i++)
        jobs[i] = (struct job){.client = i};
    while (done < puts * shards) {
        struct job *job = &jobs[0];
        for (uint32_t i = 1; i < count; i++)
            if (jobs[i].at_ns < job->at_ns)
                job = &jobs[i];
        now = job->at_ns;
        uint32_t server = server_of(job, shards);
        double begin = free_ns[server] > now ? free_ns[server] : now;
        free_ns[server] = job->at_ns = begin + exponential(&state, mean_of(s, job->stage));
        if (job->stage == AT_CLIENT)
            job->shard = (uint32_t)(xorshift(&state) % shards);
        done += job->stage == AT_TAIL_AGAIN;
        job->stage = job->stage == AT_TAIL_AGAIN ? AT_CLIENT : (enum stage)(job->stage + 1);
    }
    return (double)done / (now / 1e9) / shards;
}

/* ---- real ---- */

/* Puts a second of all shards together; 0: they do not come up, or a put failed. */
static double real(uint32_t count, double seconds, struct gcs_chain_cpu *each_out)
{
    static struct gcs_shards shards;
    struct gcs_putters_sum sum = {0};
    double rate = 0;
    if (gcs_shards_open(&shards, &(struct gcs_shards_options){.count = count}))
        rate = gcs_putters_rate(&shards.box[0], shards.clients, seconds, &sum);
    if (each_out != NULL && rate > 0)
        *each_out = gcs_putters_each(&sum);
    gcs_shards_close(&shards);
    return sum.failed ? 0 : rate;
}

void gcs_measure_scale(struct bench *b)
{
    struct gcs_chain_cpu s = {0};
    char extra[320];
    double seconds = b->options.quick ? 0.5 : 3;
    uint64_t puts = b->options.quick ? 20000 : 100000;
    if (!bench_wanted(b, "gcs_scale"))
        return;
    double one = real(1, seconds, &s), two = real(2, seconds, NULL);
    if (one <= 0 || two <= 0 || s.head <= 0 || s.tail <= 0 || s.tail_store <= 0) {
        bench_miss(b, "gcs_scale", "the chains do not come up, or a put failed");
        return;
    }
    double simulated = simulate(&s, 1, puts);
    snprintf(extra, sizeof extra,
        "\"simulated_2\":%.0f,\"shared_cores_1\":%.0f,\"shared_cores_2\":%.0f,\"shared_cores_ratio\":%.3f,"
        "\"us_client\":%.2f,\"us_"
        "head\":%.2f,"
        "\"us_tail\":%.2f,\"us_store\":%.2f",
        simulate(&s, 2, puts), one, two / 2, two / 2 / one, s.client / 1e3, s.head / 1e3, s.tail / 1e3,
        s.tail_store / 1e3);
    bench_row(b,
        &(struct bench_row){.name = "gcs_scale",
            .value = simulate(&s, 4, puts),
            .unit = "1/s",
            .baseline = simulated,
            .against = "puts a second and shard, simulated: four shards against one",
            .n = (double)puts,
            .commit = "committed",
            .extra = extra});
}
