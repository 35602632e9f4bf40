/* Evolution strategies (Salimans et al. 2017): try the policy with random changes, move along those that
 * paid.
 *
 * A sample is one change, tried in both directions ("mirrored"), and named by a key from which anybody can
 * make the change again: rollouts send 24 bytes a sample and not a vector as long as the policy. Key 0 is no
 * change: its two returns are plain episodes of the policy itself.
 */
#ifndef EXAMPLES_TRAIN_POLICY_ES_H
#define EXAMPLES_TRAIN_POLICY_ES_H

#include <stddef.h>
#include <stdint.h>

#include "examples/train_policy/mlp_policy.h"

#define ES_KEY_BITS 53 /* keys are exact as doubles, since a rollout is one f64 tensor */
#define ES_SAMPLES_MAX 1024 /* of one update: 200 simulators x 5, in 72 KiB of stack */

struct es_sample {
    uint64_t key;
    double plus, minus; /* returns of policy + sigma * change and policy - sigma * change */
};
struct es_options {
    float sigma; /* size of a change */
    float learning_rate; /* size of an update */
};
extern const struct es_options es_defaults;

/* policy + sign * sigma * change(key); sign is +1 or -1. */
void es_perturb(const struct policy *policy, uint64_t key, float sign, float sigma, struct policy *out);
/* One step along the estimated gradient. Returns count by rank only, equal ones equally, so it does not
 * matter how large they are. Samples add up in the given order: the same samples in the same order give the
 * same bits. */
void es_update(
    struct policy *policy, const struct es_sample *samples, size_t count, const struct es_options *options);

#endif
