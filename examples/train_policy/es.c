#include "examples/train_policy/es.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "examples/train_policy/noise.h"

const struct es_options es_defaults = {.sigma = 0.3f, .learning_rate = 0.2f};

static void change_of(uint64_t key, float change_out[POLICY_WEIGHTS])
{
    struct noise_stream stream = noise_stream_init(key, 0);
    noise_normal(&stream, change_out, POLICY_WEIGHTS);
}

void es_perturb(const struct policy *policy, uint64_t key, float sign, float sigma, struct policy *out)
{
    *out = *policy;
    if (key == 0)
        return;
    float change[POLICY_WEIGHTS];
    change_of(key, change);
    for (size_t i = 0; i < POLICY_WEIGHTS; i++)
        out->weights[i] += sign * sigma * change[i];
}

struct ranked {
    double value;
    size_t index; /* 2 * sample, + 1 for its minus side */
};

static int compare_ranked(const void *a, const void *b)
{
    double x = ((const struct ranked *)a)->value, y = ((const struct ranked *)b)->value;
    return (x > y) - (x < y);
}

/* Ranks of all returns, centred in [-0.5, 0.5]; equal returns share the mean of their ranks, so the order in
 * which qsort leaves them does not matter. */
static void centred_ranks(const struct es_sample *samples, size_t count, double *ranks_out)
{
    struct ranked order[2 * ES_SAMPLES_MAX];
    const size_t n = 2 * count;
    for (size_t i = 0; i < n; i++)
        order[i] = (struct ranked){i % 2 == 0 ? samples[i / 2].plus : samples[i / 2].minus, i};
    qsort(order, n, sizeof order[0], compare_ranked);
    for (size_t first = 0, end; first < n; first = end) {
        for (end = first + 1; end < n && order[end].value == order[first].value; end++)
            ;
        double rank = (double)(first + end - 1) / 2 / (double)(n - 1) - 0.5;
        for (size_t i = first; i < end; i++)
            ranks_out[order[i].index] = rank;
    }
}

void es_update(
    struct policy *policy, const struct es_sample *samples, size_t count, const struct es_options *options)
{
    struct es_sample changes[ES_SAMPLES_MAX];
    double ranks[2 * ES_SAMPLES_MAX];
    assert(count <= ES_SAMPLES_MAX);
    size_t tried = 0;
    for (size_t i = 0; i < count; i++) {
        if (samples[i].key != 0)
            changes[tried++] = samples[i];
    }
    if (tried == 0)
        return;
    centred_ranks(changes, tried, ranks);
    double gradient[POLICY_WEIGHTS] = {0};
    for (size_t s = 0; s < tried; s++) {
        float change[POLICY_WEIGHTS];
        change_of(changes[s].key, change);
        for (size_t i = 0; i < POLICY_WEIGHTS; i++)
            gradient[i] += (ranks[2 * s] - ranks[2 * s + 1]) * (double)change[i];
    }
    const double step = (double)options->learning_rate / ((double)tried * (double)options->sigma);
    for (size_t i = 0; i < POLICY_WEIGHTS; i++)
        policy->weights[i] = (float)((double)policy->weights[i] + step * gradient[i]);
}
