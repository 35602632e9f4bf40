/* A simulator: an environment, its own stream of randomness and its count of episodes. This is what the actor
 * keeps between calls (the papers' stateful edge), a plain struct: a checkpoint is its bytes.
 *
 * Two simulators with the same (seed, index) that got the same calls in the same order are equal, wherever
 * they run.
 */
#ifndef EXAMPLES_TRAIN_POLICY_SIMULATOR_H
#define EXAMPLES_TRAIN_POLICY_SIMULATOR_H

#include "examples/train_policy/cartpole.h"
#include "examples/train_policy/es.h"
#include "examples/train_policy/noise.h"

/* A call is worth its cost when it runs many episodes: one plain pair and this many mirrored ones. */
#define SIMULATOR_PAIRS 4
#define SIMULATOR_SAMPLES (1 + SIMULATOR_PAIRS)

struct simulator {
    struct cartpole env;
    struct noise_stream stream;
    uint64_t episodes, steps; /* so far */
};

void simulator_init(struct simulator *simulator, uint64_t seed, uint64_t index);
/* Try the policy as it is and with random changes. Each episode lasts until it ends or num_steps. The first
 * sample has key 0. */
void simulator_rollout(struct simulator *simulator, const struct policy *policy, uint32_t num_steps,
    struct es_sample samples_out[SIMULATOR_SAMPLES]);
/* Sum of the returns of fresh episodes of the policy. */
double simulator_evaluate(struct simulator *simulator, const struct policy *policy, uint32_t episodes);

#endif
