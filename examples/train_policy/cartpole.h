/* CartPole-v1 with the dynamics of the Gymnasium package, to the last bit.
 *
 * A cart on a track carries a pole; each step pushes the cart left (0) or right (1) by 10 N for 20 ms and
 * gives reward 1, the step that ends the episode included. The state is (x, x_dot, theta, theta_dot) in
 * metres and radians, kept in double; what a policy observes is that state rounded to float. An episode ends
 * when the cart leaves +-2.4 m or the pole leans beyond 12 degrees (terminated), or after 500 steps
 * (truncated). A plain struct: copy it, keep it, checkpoint it.
 */
#ifndef EXAMPLES_TRAIN_POLICY_CARTPOLE_H
#define EXAMPLES_TRAIN_POLICY_CARTPOLE_H

#include <stdbool.h>
#include <stdint.h>

#define CARTPOLE_OBSERVATIONS 4
#define CARTPOLE_ACTIONS 2
#define CARTPOLE_STEPS_MAX 500
#define CARTPOLE_RESET_BOUND 0.05 /* episodes start uniformly within +-this, in each component */

struct cartpole {
    double state[CARTPOLE_OBSERVATIONS];
    uint32_t steps; /* since the reset */
    bool terminated, truncated;
};

/* Start an episode in this state. */
void cartpole_reset(struct cartpole *env, const double state[CARTPOLE_OBSERVATIONS]);
/* One step; the episode must not have ended. */
void cartpole_step(struct cartpole *env, int action);
bool cartpole_done(const struct cartpole *env);
void cartpole_observe(const struct cartpole *env, float observation_out[CARTPOLE_OBSERVATIONS]);

#endif
