/* The module train_policy.so from end to end, on a stand-in for the cluster. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/examples/module_double.h"
#include "examples/train_policy/mlp_policy.h"

struct run {
    struct mob_client *client;
    struct mob_future *futures[2]; /* policy, summary */
    struct policy policy;
    int64_t iterations;
    double mean_return;
};

static struct run train_with(int64_t seed, struct mob_arg iterations, uint64_t kill_every)
{
    struct run r = {.client = double_create()};
    r.client->kill_every = kill_every;
    double_load(r.client, "train_policy");
    assert_int_equal(mob_submit(r.client, "train_policy.train_policy", MOB_ARGS(mob_i64(seed), iterations),
                         NULL, r.futures),
        MOB_OK);
    struct mob_value *value = NULL;
    struct mob_tensor tensor = {0};
    assert_int_equal(mob_get(r.futures[0], MOB_FOREVER, &value), MOB_OK);
    assert_int_equal(mob_value_tensor(value, &tensor), MOB_OK);
    assert_int_equal(tensor.shape[0], POLICY_WEIGHTS);
    assert(tensor.data != NULL);
    memcpy(&r.policy, tensor.data, sizeof r.policy);
    const void *text = NULL;
    size_t size = 0;
    assert_int_equal(mob_get(r.futures[1], MOB_FOREVER, &value), MOB_OK);
    assert_int_equal(mob_value_data(value, &text, &size), MOB_OK);
    uint64_t fingerprint = 0;
    assert_int_equal(sscanf(text,
                         "{\"mean_return\":%lf,\"iterations\":%" SCNd64
                         ",\"policy\":\"%*[a-z0-9_]\",\"fingerprint\":\"%" SCNx64 "\"}",
                         &r.mean_return, &r.iterations, &fingerprint),
        3);
    assert_int_equal(fingerprint, policy_fingerprint(&r.policy));
    return r;
}

static void train_policy_solves_cartpole_and_reports_each_iteration(void **state)
{
    (void)state;
    struct run r = train_with(1, mob_null(), 0);
    assert_true(r.mean_return >= 475);
    assert_int_equal(r.client->event_count, r.iterations);
    for (size_t i = 0; i < r.client->event_count; i++) {
        char expected[64];
        snprintf(expected, sizeof expected, "{\"iteration\":%zu,\"mean_return\":", i + 1);
        assert_string_equal(r.client->events[i].type, "iteration");
        assert_memory_equal(r.client->events[i].json, expected, strlen(expected));
    }
    assert_int_equal(r.client->actors, 10);
    assert_int_equal(r.client->ended, 10);
    double_destroy(r.client);
}

static void simulators_that_die_again_and_again_change_nothing(void **state)
{
    (void)state;
    struct run undisturbed = train_with(3, mob_null(), 0), disturbed = train_with(3, mob_null(), 7);
    assert_true(disturbed.client->kills >= 10);
    assert_memory_equal(&undisturbed.policy, &disturbed.policy, sizeof undisturbed.policy);
    assert_int_equal(undisturbed.iterations, disturbed.iterations);
    assert_true(undisturbed.mean_return == disturbed.mean_return);
    double_destroy(undisturbed.client);
    double_destroy(disturbed.client);
}

static void asked_for_a_number_of_iterations_it_does_so_many(void **state)
{
    (void)state;
    struct run r = train_with(1, mob_i64(60), 0);
    assert_int_equal(r.iterations, 60);
    assert_true(r.mean_return >= 475);
    double_destroy(r.client);
}

static void served_policy_answers_a_batch_of_observations(void **state)
{
    (void)state;
    struct run r = train_with(1, mob_null(), 0);
    struct mob_actor *actor = NULL;
    assert_int_equal(mob_actor_create(r.client, "train_policy.CartpolePolicy",
                         MOB_ARGS(mob_ref(r.futures[0])), NULL, &actor),
        MOB_OK);
    const float observations[3][4] = {{0, 0, 0.1f, 0.5f}, {0, 0, -0.1f, -0.5f}, {0.1f, 0, 0, 0}};
    struct mob_future *future = NULL;
    assert_int_equal(
        mob_actor_call(actor, "infer", MOB_ARGS(mob_tensor_f32(&observations[0][0], 3, 4)), NULL, &future),
        MOB_OK);
    struct mob_value *value = NULL;
    struct mob_tensor tensor = {0};
    assert_int_equal(mob_get(future, MOB_FOREVER, &value), MOB_OK);
    assert_int_equal(mob_value_tensor(value, &tensor), MOB_OK);
    assert_int_equal(tensor.shape[0], 3);
    assert_int_equal(tensor.shape[1], 2);
    for (int i = 0; i < 3; i++) {
        float expected[2];
        policy_probabilities(&r.policy, observations[i], expected);
        assert_memory_equal((const float *)tensor.data + 2 * i, expected, sizeof expected);
    }
    const float *probabilities = tensor.data;
    assert(probabilities != NULL);
    assert_true(probabilities[1] > 0.5f); /* falling to the right: push to the right */
    assert_true(probabilities[2] > 0.5f);
    double_destroy(r.client);
}

static void rollout_refuses_a_number_of_steps_it_cannot_run(void **state)
{
    (void)state;
    struct mob_client *client = double_create();
    double_load(client, "train_policy");
    struct mob_future *policy = NULL, *rollout = NULL;
    struct mob_actor *simulator = NULL;
    assert_int_equal(
        mob_submit(client, "train_policy.create_policy", MOB_ARGS(mob_i64(1)), NULL, &policy), 0);
    assert_int_equal(mob_actor_create(client, "train_policy.Simulator", MOB_ARGS(mob_i64(1), mob_i64(0)),
                         NULL, &simulator),
        MOB_OK);
    assert_int_equal(
        mob_actor_call(simulator, "rollout", MOB_ARGS(mob_ref(policy), mob_i64(501)), NULL, &rollout),
        MOB_OK);
    struct mob_value *value = NULL;
    assert_int_equal(mob_get(rollout, MOB_FOREVER, &value), MOB_TASK_FAILED);
    assert_non_null(strstr(mob_future_error(rollout), "num_steps is 501, not 1 to 500"));
    double_destroy(client);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(train_policy_solves_cartpole_and_reports_each_iteration),
        cmocka_unit_test(simulators_that_die_again_and_again_change_nothing),
        cmocka_unit_test(asked_for_a_number_of_iterations_it_does_so_many),
        cmocka_unit_test(served_policy_answers_a_batch_of_observations),
        cmocka_unit_test(rollout_refuses_a_number_of_steps_it_cannot_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
