/* The science of examples/train_policy, without Mobula. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "examples/train_policy/simulator.h"
#include "examples/train_policy/training.h"

#define SEEDS 20
#define SEEDS_SOLVED_MIN 19
#define SOLVED_RETURN 475.0
#define ROUND_SAMPLES (TRAINING_SIMULATORS * SIMULATOR_SAMPLES)

struct trained {
    struct policy policy;
    int iterations;
    double mean_return;
};

static double evaluate(struct simulator *simulators, const struct policy *policy)
{
    double sum = 0;
    for (int i = 0; i < TRAINING_SIMULATORS; i++)
        sum += simulator_evaluate(&simulators[i], policy, TRAINING_EVALUATION_EPISODES / TRAINING_SIMULATORS);
    return sum / TRAINING_EVALUATION_EPISODES;
}

/* What the train_policy task does, as a plain loop. `backwards`: the simulators run in the other order, as
 * they may on other workers. */
static struct trained train(uint64_t seed, bool backwards)
{
    struct trained t = {.iterations = 0};
    struct simulator simulators[TRAINING_SIMULATORS];
    policy_init(&t.policy, seed);
    for (int i = 0; i < TRAINING_SIMULATORS; i++)
        simulator_init(&simulators[i], seed, (uint64_t)i);
    while (t.mean_return < TRAINING_GOAL && t.iterations < TRAINING_ITERATIONS_MAX) {
        struct es_sample samples[ROUND_SAMPLES];
        double sum = 0;
        for (int n = 0; n < TRAINING_SIMULATORS; n++) {
            int i = backwards ? TRAINING_SIMULATORS - 1 - n : n;
            simulator_rollout(&simulators[i], &t.policy, CARTPOLE_STEPS_MAX, samples + i * SIMULATOR_SAMPLES);
            sum += samples[i * SIMULATOR_SAMPLES].plus + samples[i * SIMULATOR_SAMPLES].minus;
        }
        es_update(&t.policy, samples, ROUND_SAMPLES, &es_defaults);
        t.iterations++;
        if (sum / (2 * TRAINING_SIMULATORS) >= TRAINING_GOAL)
            t.mean_return = evaluate(simulators, &t.policy);
    }
    return t;
}

/* Another stream than any simulator's: the policy has not been chosen by these episodes. */
static double evaluate_elsewhere(const struct policy *policy)
{
    struct simulator simulator;
    simulator_init(&simulator, 0x5eed, 1u << 20);
    return simulator_evaluate(&simulator, policy, 100) / 100;
}

static void learns_to_balance_the_pole_with_nineteen_of_twenty_seeds(void **state)
{
    (void)state;
    int solved = 0;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct trained t = train(seed, false);
        double elsewhere = evaluate_elsewhere(&t.policy);
        print_message("seed %2d: %2d iterations, mean return %.1f, of 100 other episodes %.1f\n", (int)seed,
            t.iterations, t.mean_return, elsewhere);
        solved += t.mean_return >= SOLVED_RETURN && elsewhere >= SOLVED_RETURN;
    }
    assert_in_range(solved, SEEDS_SOLVED_MIN, SEEDS);
}

static void same_seed_gives_the_same_policy_in_any_order_of_simulators(void **state)
{
    (void)state;
    struct trained a = train(7, false), b = train(7, true);
    assert_int_equal(a.iterations, b.iterations);
    assert_memory_equal(&a.policy, &b.policy, sizeof a.policy);
    assert_int_equal(policy_fingerprint(&a.policy), policy_fingerprint(&b.policy));
    struct trained other = train(8, false);
    assert_int_not_equal(policy_fingerprint(&a.policy), policy_fingerprint(&other.policy));
}

static void copied_simulator_goes_on_like_the_original(void **state)
{
    (void)state;
    struct policy policy;
    struct simulator simulator, copy;
    struct es_sample a[SIMULATOR_SAMPLES], b[SIMULATOR_SAMPLES];
    policy_init(&policy, 3);
    simulator_init(&simulator, 3, 4);
    simulator_rollout(&simulator, &policy, CARTPOLE_STEPS_MAX, a);
    copy = simulator;
    simulator_rollout(&simulator, &policy, CARTPOLE_STEPS_MAX, a);
    simulator_rollout(&copy, &policy, CARTPOLE_STEPS_MAX, b);
    assert_memory_equal(a, b, sizeof a);
    assert_int_equal(simulator.episodes, 2 * 2 * SIMULATOR_SAMPLES);
    assert_int_equal(a[0].key, 0);
    assert_true(a[1].key != 0 && a[1].key < (uint64_t)1 << ES_KEY_BITS);
}

static void rollout_ends_its_episodes_after_num_steps(void **state)
{
    (void)state;
    struct policy policy;
    struct simulator simulator;
    struct es_sample samples[SIMULATOR_SAMPLES];
    policy_init(&policy, 3);
    simulator_init(&simulator, 3, 4);
    simulator_rollout(&simulator, &policy, 3, samples);
    for (int i = 0; i < SIMULATOR_SAMPLES; i++) {
        assert_true(samples[i].plus == 3);
        assert_true(samples[i].minus == 3);
    }
}

static double distance(const struct policy *a, const struct policy *b)
{
    double sum = 0;
    for (int i = 0; i < POLICY_WEIGHTS; i++)
        sum += pow((double)a->weights[i] - (double)b->weights[i], 2);
    return sqrt(sum);
}

static void update_goes_towards_the_change_that_paid(void **state)
{
    (void)state;
    const struct es_options options = {.sigma = 0.3f, .learning_rate = 0.02f};
    struct policy start, better, worse, updated;
    policy_init(&start, 1);
    es_perturb(&start, 99, +1, options.sigma, &better);
    es_perturb(&start, 99, -1, options.sigma, &worse);
    updated = start;
    es_update(&updated, &(struct es_sample){99, 50, 20}, 1, &options);
    assert_true(distance(&updated, &better) < distance(&start, &better));
    assert_true(distance(&updated, &worse) > distance(&start, &worse));
    /* A pair alone has the ranks 0.5 and -0.5: one whole learning rate along the change. */
    assert_float_equal(distance(&updated, &start) / distance(&better, &start),
        options.learning_rate / options.sigma / options.sigma, 1e-4);
}

static void update_ignores_plain_episodes_and_ties(void **state)
{
    (void)state;
    struct policy start, updated;
    policy_init(&start, 1);
    updated = start;
    es_update(&updated, (struct es_sample[]){{0, 500, 9}, {42, 500, 500}, {43, 500, 500}}, 3, &es_defaults);
    assert_memory_equal(&updated, &start, sizeof start);
    es_update(&updated, NULL, 0, &es_defaults);
    assert_memory_equal(&updated, &start, sizeof start);
}

/* A straightforward second implementation, with the order of the sum written out. */
static void update_adds_up_in_the_order_of_the_samples(void **state)
{
    (void)state;
    const struct es_sample samples[] = {{11, 30, 10}, {12, 10, 25}, {13, 40, 40}};
    /* 10 10 25 30 40 40 have the ranks .1 .1 .4 .6 .9 .9 of 5 places. */
    const double weights[] = {0.6 - 0.1, 0.1 - 0.4, 0};
    struct policy updated = {{0}}, zero = {{0}}, moved;
    es_update(&updated, samples, 3, &es_defaults);
    double gradient[POLICY_WEIGHTS] = {0};
    for (int s = 0; s < 3; s++) {
        es_perturb(&zero, samples[s].key, +1, 1.0f, &moved);
        for (int i = 0; i < POLICY_WEIGHTS; i++)
            gradient[i] += weights[s] * (double)moved.weights[i];
    }
    for (int i = 0; i < POLICY_WEIGHTS; i++) {
        double step = (double)es_defaults.learning_rate / (3 * (double)es_defaults.sigma) * gradient[i];
        assert_float_equal(updated.weights[i], step, 1e-6);
    }
}

static void noise_is_standard_normal_and_repeats(void **state)
{
    (void)state;
    enum { N = 20001 };
    static float values[N], again[N];
    struct noise_stream a = noise_stream_init(5, 6), b = noise_stream_init(5, 6);
    noise_normal(&a, values, N);
    noise_normal(&b, again, N);
    assert_memory_equal(values, again, sizeof values);
    double sum = 0, squares = 0;
    for (int i = 0; i < N; i++) {
        sum += (double)values[i];
        squares += (double)values[i] * (double)values[i];
    }
    assert_float_equal(sum / N, 0, 0.03);
    assert_float_equal(squares / N, 1, 0.03);
}

static void served_probabilities_agree_with_the_action(void **state)
{
    (void)state;
    struct trained t = train(1, false);
    struct cartpole env;
    cartpole_reset(&env, (const double[]){0.01, 0, 0.02, 0});
    while (!cartpole_done(&env)) {
        float observation[CARTPOLE_OBSERVATIONS], probabilities[CARTPOLE_ACTIONS];
        cartpole_observe(&env, observation);
        policy_probabilities(&t.policy, observation, probabilities);
        assert_float_equal(probabilities[0] + probabilities[1], 1, 1e-6);
        int action = policy_act(&t.policy, observation);
        assert_true(probabilities[action] >= 0.5f);
        cartpole_step(&env, action);
    }
    assert_true(env.truncated);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(learns_to_balance_the_pole_with_nineteen_of_twenty_seeds),
        cmocka_unit_test(same_seed_gives_the_same_policy_in_any_order_of_simulators),
        cmocka_unit_test(copied_simulator_goes_on_like_the_original),
        cmocka_unit_test(rollout_ends_its_episodes_after_num_steps),
        cmocka_unit_test(update_goes_towards_the_change_that_paid),
        cmocka_unit_test(update_ignores_plain_episodes_and_ties),
        cmocka_unit_test(update_adds_up_in_the_order_of_the_samples),
        cmocka_unit_test(noise_is_standard_normal_and_repeats),
        cmocka_unit_test(served_probabilities_agree_with_the_action),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
