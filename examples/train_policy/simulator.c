#include "examples/train_policy/simulator.h"

#include <string.h>

void simulator_init(struct simulator *simulator, uint64_t seed, uint64_t index)
{
    memset(simulator, 0, sizeof *simulator);
    simulator->stream = noise_stream_init(seed, index);
}

static void random_start(struct noise_stream *stream, double state_out[CARTPOLE_OBSERVATIONS])
{
    for (int i = 0; i < CARTPOLE_OBSERVATIONS; i++)
        state_out[i] = CARTPOLE_RESET_BOUND * (2 * noise_uniform(stream) - 1);
}

static double run_episode(struct simulator *simulator, const struct policy *policy,
    const double start[CARTPOLE_OBSERVATIONS], uint32_t num_steps)
{
    struct cartpole *env = &simulator->env;
    cartpole_reset(env, start);
    while (!cartpole_done(env) && env->steps < num_steps) {
        float observation[CARTPOLE_OBSERVATIONS];
        cartpole_observe(env, observation);
        cartpole_step(env, policy_act(policy, observation));
    }
    simulator->episodes++;
    simulator->steps += env->steps;
    return (double)env->steps; /* reward 1 a step */
}

static double run_fresh_episode(struct simulator *simulator, const struct policy *policy, uint32_t num_steps)
{
    double start[CARTPOLE_OBSERVATIONS];
    random_start(&simulator->stream, start);
    return run_episode(simulator, policy, start, num_steps);
}

/* Both directions start in the same state: then they differ by the change alone. */
static struct es_sample run_pair(struct simulator *simulator, const struct policy *policy, uint32_t num_steps)
{
    struct es_sample sample = {.key = (noise_next(&simulator->stream) >> (64 - ES_KEY_BITS)) | 1};
    double start[CARTPOLE_OBSERVATIONS];
    random_start(&simulator->stream, start);
    struct policy changed;
    es_perturb(policy, sample.key, +1, es_defaults.sigma, &changed);
    sample.plus = run_episode(simulator, &changed, start, num_steps);
    es_perturb(policy, sample.key, -1, es_defaults.sigma, &changed);
    sample.minus = run_episode(simulator, &changed, start, num_steps);
    return sample;
}

void simulator_rollout(struct simulator *simulator, const struct policy *policy, uint32_t num_steps,
    struct es_sample samples_out[SIMULATOR_SAMPLES])
{
    samples_out[0].key = 0;
    samples_out[0].plus = run_fresh_episode(simulator, policy, num_steps);
    samples_out[0].minus = run_fresh_episode(simulator, policy, num_steps);
    for (size_t i = 1; i < SIMULATOR_SAMPLES; i++)
        samples_out[i] = run_pair(simulator, policy, num_steps);
}

double simulator_evaluate(struct simulator *simulator, const struct policy *policy, uint32_t episodes)
{
    double sum = 0;
    for (uint32_t i = 0; i < episodes; i++)
        sum += run_fresh_episode(simulator, policy, CARTPOLE_STEPS_MAX);
    return sum;
}
