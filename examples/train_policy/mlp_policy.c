#include "examples/train_policy/mlp_policy.h"

#include <math.h>
#include <string.h>

#include "examples/train_policy/noise.h"

#define HIDDEN_ROW (CARTPOLE_OBSERVATIONS + 1)
#define OUTPUT_ROW (POLICY_HIDDEN + 1)
#define OUTPUT_START (POLICY_HIDDEN * HIDDEN_ROW)

static void init_rows(float *rows, size_t count, size_t inputs, struct noise_stream *stream)
{
    const float scale = 1.0f / sqrtf((float)inputs);
    for (size_t r = 0; r < count; r++) {
        float *row = rows + r * (inputs + 1);
        noise_normal(stream, row, inputs);
        for (size_t i = 0; i < inputs; i++)
            row[i] *= scale;
        row[inputs] = 0.0f;
    }
}

void policy_init(struct policy *policy, uint64_t seed)
{
    struct noise_stream stream = noise_stream_init(seed, UINT64_MAX);
    init_rows(policy->weights, POLICY_HIDDEN, CARTPOLE_OBSERVATIONS, &stream);
    init_rows(policy->weights + OUTPUT_START, CARTPOLE_ACTIONS, POLICY_HIDDEN, &stream);
}

static float dot_plus_bias(const float *row, const float *inputs, size_t n)
{
    float sum = row[n];
    for (size_t i = 0; i < n; i++)
        sum += row[i] * inputs[i];
    return sum;
}

static void policy_logits(const struct policy *policy, const float observation[CARTPOLE_OBSERVATIONS],
    float logits_out[CARTPOLE_ACTIONS])
{
    float hidden[POLICY_HIDDEN];
    for (size_t h = 0; h < POLICY_HIDDEN; h++)
        hidden[h] =
            tanhf(dot_plus_bias(policy->weights + h * HIDDEN_ROW, observation, CARTPOLE_OBSERVATIONS));
    for (size_t a = 0; a < CARTPOLE_ACTIONS; a++)
        logits_out[a] = dot_plus_bias(policy->weights + OUTPUT_START + a * OUTPUT_ROW, hidden, POLICY_HIDDEN);
}

int policy_act(const struct policy *policy, const float observation[CARTPOLE_OBSERVATIONS])
{
    float logits[CARTPOLE_ACTIONS];
    policy_logits(policy, observation, logits);
    return logits[1] > logits[0];
}

void policy_probabilities(const struct policy *policy, const float observation[CARTPOLE_OBSERVATIONS],
    float probabilities_out[CARTPOLE_ACTIONS])
{
    float logits[CARTPOLE_ACTIONS];
    policy_logits(policy, observation, logits);
    probabilities_out[1] = 1.0f / (1.0f + expf(logits[0] - logits[1]));
    probabilities_out[0] = 1.0f - probabilities_out[1];
}

uint64_t policy_fingerprint(const struct policy *policy)
{
    unsigned char bytes[sizeof policy->weights];
    memcpy(bytes, policy->weights, sizeof bytes);
    uint64_t hash = 0xcbf29ce484222325u;
    for (size_t i = 0; i < sizeof bytes; i++)
        hash = (hash ^ bytes[i]) * 0x100000001b3u;
    return hash;
}
