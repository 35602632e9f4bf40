#include "examples/train_policy/cartpole.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#define GRAVITY 9.8
#define POLE_MASS 0.1
#define TOTAL_MASS (POLE_MASS + 1.0)
#define LENGTH 0.5 /* half the pole's */
#define POLE_MASS_LENGTH (POLE_MASS * LENGTH)
#define FORCE 10.0
#define TAU 0.02
#define X_LIMIT 2.4
#define THETA_LIMIT (12 * 2 * 3.14159265358979323846 / 360)

void cartpole_reset(struct cartpole *env, const double state[CARTPOLE_OBSERVATIONS])
{
    memset(env, 0, sizeof *env);
    memcpy(env->state, state, sizeof env->state);
}

/* The order of operations is Gymnasium's: another one, or a fused multiply-add, changes the last bits, and
 * the pole amplifies them. */
void cartpole_step(struct cartpole *env, int action)
{
    assert(!cartpole_done(env));
    const double x = env->state[0], x_dot = env->state[1], theta = env->state[2], theta_dot = env->state[3];
    const double force = action == 1 ? FORCE : -FORCE;
    const double cosine = cos(theta), sine = sin(theta);
    const double temp = (force + POLE_MASS_LENGTH * (theta_dot * theta_dot) * sine) / TOTAL_MASS;
    const double theta_acc = (GRAVITY * sine - cosine * temp) /
        (LENGTH * (4.0 / 3.0 - POLE_MASS * (cosine * cosine) / TOTAL_MASS));
    const double x_acc = temp - POLE_MASS_LENGTH * theta_acc * cosine / TOTAL_MASS;

    /* Explicit Euler: positions move by the old velocities. */
    env->state[0] = x + TAU * x_dot;
    env->state[1] = x_dot + TAU * x_acc;
    env->state[2] = theta + TAU * theta_dot;
    env->state[3] = theta_dot + TAU * theta_acc;
    env->steps++;
    env->terminated = fabs(env->state[0]) > X_LIMIT || fabs(env->state[2]) > THETA_LIMIT;
    env->truncated = env->steps >= CARTPOLE_STEPS_MAX;
}

bool cartpole_done(const struct cartpole *env)
{
    return env->terminated || env->truncated;
}

void cartpole_observe(const struct cartpole *env, float observation_out[CARTPOLE_OBSERVATIONS])
{
    for (int i = 0; i < CARTPOLE_OBSERVATIONS; i++)
        observation_out[i] = (float)env->state[i];
}
