/* How long and how hard to train; shared by the module and its tests. */
#ifndef EXAMPLES_TRAIN_POLICY_TRAINING_H
#define EXAMPLES_TRAIN_POLICY_TRAINING_H

#define TRAINING_SIMULATORS 10
#define TRAINING_ITERATIONS_MAX 100
/* CartPole counts as solved at a mean return of 475 over 100 episodes. We stop a little above it, so that the
 * figure holds for other episodes too. */
#define TRAINING_GOAL 485.0
#define TRAINING_EVALUATION_EPISODES 100

#endif
