/* The policy: a small network, observation[4] -> 16 tanh units -> one logit for each action.
 *
 * It is a plain array of POLICY_WEIGHTS floats (the hidden layer's rows of 4 weights and a bias, then the
 * output layer's rows of 16 weights and a bias), so it travels between tasks as one tensor. Sums run in index
 * order: equal weights and observations give equal bits.
 */
#ifndef EXAMPLES_TRAIN_POLICY_MLP_POLICY_H
#define EXAMPLES_TRAIN_POLICY_MLP_POLICY_H

#include <stdint.h>

#include "examples/train_policy/cartpole.h"

#define POLICY_HIDDEN 16
#define POLICY_WEIGHTS (POLICY_HIDDEN * (CARTPOLE_OBSERVATIONS + 1) + CARTPOLE_ACTIONS * (POLICY_HIDDEN + 1))

struct policy {
    float weights[POLICY_WEIGHTS];
};

/* Random weights: normal, scaled by the layer's inputs; biases zero. */
void policy_init(struct policy *policy, uint64_t seed);
/* The likelier action. */
int policy_act(const struct policy *policy, const float observation[CARTPOLE_OBSERVATIONS]);
/* Softmax of the logits: what a served policy answers. */
void policy_probabilities(const struct policy *policy, const float observation[CARTPOLE_OBSERVATIONS],
    float probabilities_out[CARTPOLE_ACTIONS]);
/* FNV-1a of the weights' bytes: two runs are compared by it. */
uint64_t policy_fingerprint(const struct policy *policy);

#endif
