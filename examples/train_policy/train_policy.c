/* The program of the paper's Figure 3: learn to balance a pole, as a nested task with ten simulator actors.
 *
 *   create_policy()                     a random policy
 *   Simulator                           an actor: an environment that keeps its state from call to call
 *     .rollout(policy, num_steps)       tries the policy and random changes of it; the returns
 *     .evaluate(policy, episodes)       the sum of the returns of fresh episodes
 *   update_policy(policy, rollouts...)  moves the policy along the changes that paid
 *   train_policy(seed)                  the loop, itself a task
 *   CartpolePolicy                      an actor that serves the result: .infer(observation[n,4])
 *
 * Policies, rollouts and sums are futures that go straight from the task that makes them to the one that
 * needs them. The same seed gives the same policy to the last bit, with any number of workers and whatever is
 * killed meanwhile: all randomness follows from (seed, simulator, episodes so far), and updates add up in the
 * order of the simulators.
 */
#include <mobula/mobula.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "examples/train_policy/simulator.h"
#include "examples/train_policy/training.h"

/* Shapes as the signatures below write them. */
_Static_assert(POLICY_WEIGHTS == 114 && SIMULATOR_SAMPLES == 5, "signatures");
#define POLICY "tensor<f32>[114]"
#define ROLLOUT "tensor<f64>[5,3]" /* a row: key of the change, return with it, return against it */
#define ROLLOUT_COLUMNS 3

/* ------------------------------------------------------------------------------------------------ values */

static struct mob_arg policy_value(const struct policy *policy)
{
    return mob_tensor_f32(policy->weights, POLICY_WEIGHTS, 0);
}

static struct policy policy_from(struct mob_tensor tensor)
{
    struct policy policy;
    memcpy(policy.weights, tensor.data, sizeof policy.weights);
    return policy;
}

static struct mob_arg rollout_value(double rows[SIMULATOR_SAMPLES][ROLLOUT_COLUMNS])
{
    return mob_tensor((struct mob_tensor){
        .dtype = MOB_F64, .dims = 2, .shape = {SIMULATOR_SAMPLES, ROLLOUT_COLUMNS}, .data = rows});
}

static void samples_from(struct mob_tensor rollout, struct es_sample samples_out[SIMULATOR_SAMPLES])
{
    double rows[SIMULATOR_SAMPLES][ROLLOUT_COLUMNS];
    memcpy(rows, rollout.data, sizeof rows);
    for (size_t i = 0; i < SIMULATOR_SAMPLES; i++)
        samples_out[i] = (struct es_sample){(uint64_t)rows[i][0], rows[i][1], rows[i][2]};
}

/* ------------------------------------------------------------------------------------------------ policies
 */

static enum mob_status create_policy(struct mob_call *call)
{
    struct policy policy;
    policy_init(&policy, (uint64_t)mob_arg_i64(call, 0));
    return mob_return(call, policy_value(&policy));
}

static enum mob_status update_policy(struct mob_call *call)
{
    const size_t rollouts = mob_arg_count(call) - 1;
    if (rollouts > ES_SAMPLES_MAX / SIMULATOR_SAMPLES)
        return mob_fail(
            call, "%zu rollouts; an update takes at most %d", rollouts, ES_SAMPLES_MAX / SIMULATOR_SAMPLES);
    struct policy policy = policy_from(mob_arg_tensor(call, 0));
    struct es_sample samples[ES_SAMPLES_MAX];
    for (size_t i = 0; i < rollouts; i++)
        samples_from(mob_arg_tensor(call, 1 + i), samples + i * SIMULATOR_SAMPLES);
    es_update(&policy, samples, rollouts * SIMULATOR_SAMPLES, &es_defaults);
    return mob_return(call, policy_value(&policy));
}

/* ------------------------------------------------------------------------------------------------ class
 * Simulator */

static enum mob_status simulator_create(struct mob_call *call)
{
    struct simulator *simulator = malloc(sizeof *simulator);
    if (simulator == NULL)
        return MOB_NO_MEMORY;
    simulator_init(simulator, (uint64_t)mob_arg_i64(call, 0), (uint64_t)mob_arg_i64(call, 1));
    mob_call_set_self(call, simulator);
    return MOB_OK;
}

static enum mob_status rollout(struct mob_call *call)
{
    const struct policy policy = policy_from(mob_arg_tensor(call, 0));
    const int64_t num_steps = mob_arg_i64(call, 1);
    if (num_steps < 1 || num_steps > CARTPOLE_STEPS_MAX)
        return mob_fail(call, "num_steps is %" PRId64 ", not 1 to %d", num_steps, CARTPOLE_STEPS_MAX);
    struct es_sample samples[SIMULATOR_SAMPLES];
    simulator_rollout(mob_call_self(call), &policy, (uint32_t)num_steps, samples);
    double rows[SIMULATOR_SAMPLES][ROLLOUT_COLUMNS];
    for (size_t i = 0; i < SIMULATOR_SAMPLES; i++) {
        rows[i][0] = (double)samples[i].key;
        rows[i][1] = samples[i].plus;
        rows[i][2] = samples[i].minus;
    }
    return mob_return(call, rollout_value(rows));
}

static enum mob_status evaluate(struct mob_call *call)
{
    const struct policy policy = policy_from(mob_arg_tensor(call, 0));
    const int64_t episodes = mob_arg_i64(call, 1);
    if (episodes < 1 || episodes > UINT32_MAX)
        return mob_fail(call, "cannot run %" PRId64 " episodes", episodes);
    return mob_return_f64(call, simulator_evaluate(mob_call_self(call), &policy, (uint32_t)episodes));
}

/* A simulator is its bytes; a restarted one goes on from the newest checkpoint, and its later calls are
 * replayed. */
static enum mob_status simulator_checkpoint(struct mob_call *call)
{
    return mob_return(call, mob_bytes(mob_call_self(call), sizeof(struct simulator)));
}

static enum mob_status simulator_restore(struct mob_call *call)
{
    size_t size = 0;
    const void *bytes = mob_arg_bytes(call, 0, &size);
    if (bytes == NULL || size != sizeof(struct simulator))
        return mob_fail(call, "a checkpoint of %zu bytes is not a simulator", size);
    struct simulator *simulator = malloc(sizeof *simulator);
    if (simulator == NULL)
        return MOB_NO_MEMORY;
    memcpy(simulator, bytes, size);
    mob_call_set_self(call, simulator);
    return MOB_OK;
}

/* ------------------------------------------------------------------------------------------------ class
 * CartpolePolicy */

static enum mob_status serve_create(struct mob_call *call)
{
    struct policy *policy = malloc(sizeof *policy);
    if (policy == NULL)
        return MOB_NO_MEMORY;
    *policy = policy_from(mob_arg_tensor(call, 0));
    mob_call_set_self(call, policy);
    return MOB_OK;
}

static enum mob_status infer(struct mob_call *call)
{
    const struct policy *policy = mob_call_self(call);
    const struct mob_tensor observations = mob_arg_tensor(call, 0);
    const int64_t n = observations.shape[0];
    const size_t bytes = (size_t)n * CARTPOLE_ACTIONS * sizeof(float);
    float *probabilities = malloc(bytes > 0 ? bytes : 1);
    if (probabilities == NULL)
        return MOB_NO_MEMORY;
    for (int64_t i = 0; i < n; i++)
        policy_probabilities(policy, (const float *)observations.data + i * CARTPOLE_OBSERVATIONS,
            probabilities + i * CARTPOLE_ACTIONS);
    enum mob_status status = mob_return(call, mob_tensor_f32(probabilities, n, CARTPOLE_ACTIONS));
    free(probabilities);
    return status;
}

/* ------------------------------------------------------------------------------------------------
 * train_policy */

struct training {
    struct mob_call *call;
    struct mob_client *client;
    struct mob_actor *simulators[TRAINING_SIMULATORS];
    struct mob_future *policy;
    int64_t seed, iterations;
    double mean_return;
};

static enum mob_status create_simulators(struct training *t)
{
    const struct mob_actor_options options = {
        .struct_size = sizeof options, .max_restarts = -1, .checkpoint_every = 16};
    for (int64_t i = 0; i < TRAINING_SIMULATORS; i++) {
        enum mob_status status = mob_actor_create(t->client, "train_policy.Simulator",
            MOB_ARGS(mob_i64(t->seed), mob_i64(i)), &options, &t->simulators[i]);
        if (status != MOB_OK)
            return status;
    }
    return MOB_OK;
}

/* Their job may go on for long after the training (over HTTP it is the standing job), so we end them
 * ourselves. */
static enum mob_status end_simulators(struct training *t)
{
    enum mob_status result = MOB_OK;
    for (int i = 0; i < TRAINING_SIMULATORS; i++) {
        if (t->simulators[i] == NULL)
            continue;
        enum mob_status status = mob_actor_kill(t->simulators[i], true);
        result = result == MOB_OK ? status : result;
        mob_actor_release(t->simulators[i]);
    }
    return result;
}

/* Sum of the plain episodes of a rollout: how good its policy was. */
static enum mob_status plain_return(struct mob_future *rollout_id, double *sum_out)
{
    struct mob_value *value;
    enum mob_status status = mob_get(rollout_id, MOB_FOREVER, &value);
    if (status != MOB_OK)
        return status;
    struct mob_tensor tensor;
    status = mob_value_tensor(value, &tensor);
    if (status == MOB_OK) {
        struct es_sample samples[SIMULATOR_SAMPLES];
        samples_from(tensor, samples);
        *sum_out = samples[0].plus + samples[0].minus;
    }
    mob_value_release(value);
    return status;
}

/* One step of training: a rollout on each simulator, and an update with all of them. t->mean_return becomes
 * that of the policy before the update. */
static enum mob_status train_once(struct training *t)
{
    struct mob_future *rollout_ids[TRAINING_SIMULATORS] = {NULL};
    struct mob_arg args[1 + TRAINING_SIMULATORS] = {mob_ref(t->policy)};
    struct mob_future *updated = NULL;
    enum mob_status status = MOB_OK;
    /* Perform one rollout on each actor. */
    for (int i = 0; i < TRAINING_SIMULATORS && status == MOB_OK; i++) {
        status = mob_actor_call(t->simulators[i], "rollout",
            MOB_ARGS(mob_ref(t->policy), mob_i64(CARTPOLE_STEPS_MAX)), NULL, &rollout_ids[i]);
        if (status == MOB_OK)
            args[1 + i] = mob_ref(rollout_ids[i]);
    }
    /* Update the policy with the rollouts. */
    if (status == MOB_OK)
        status = mob_submit(t->client, "train_policy.update_policy",
            (struct mob_args){args, 1 + TRAINING_SIMULATORS}, NULL, &updated);
    double sum = 0;
    for (int i = 0; i < TRAINING_SIMULATORS && status == MOB_OK; i++) {
        double two_episodes = 0;
        status = plain_return(rollout_ids[i], &two_episodes);
        sum += two_episodes;
    }
    for (int i = 0; i < TRAINING_SIMULATORS; i++)
        mob_release(rollout_ids[i]);
    if (status != MOB_OK)
        return status; /* the task ends here, and its handles with it */
    mob_release(t->policy);
    t->policy = updated;
    t->mean_return = sum / (2 * TRAINING_SIMULATORS);
    t->iterations++;
    return MOB_OK;
}

/* t->mean_return becomes that of the newest policy over fresh episodes, shared out among the simulators. */
static enum mob_status evaluate_policy(struct training *t)
{
    const int64_t share = TRAINING_EVALUATION_EPISODES / TRAINING_SIMULATORS;
    struct mob_future *sums[TRAINING_SIMULATORS];
    for (int i = 0; i < TRAINING_SIMULATORS; i++) {
        enum mob_status status = mob_actor_call(
            t->simulators[i], "evaluate", MOB_ARGS(mob_ref(t->policy), mob_i64(share)), NULL, &sums[i]);
        if (status != MOB_OK)
            return status;
    }
    double total = 0;
    for (int i = 0; i < TRAINING_SIMULATORS; i++) {
        double sum;
        enum mob_status status = mob_get_f64(sums[i], MOB_FOREVER, &sum);
        if (status != MOB_OK)
            return status;
        total += sum;
        mob_release(sums[i]);
    }
    t->mean_return = total / (double)(share * TRAINING_SIMULATORS);
    return MOB_OK;
}

static enum mob_status report_iteration(const struct training *t)
{
    char text[128];
    snprintf(
        text, sizeof text, "{\"iteration\":%" PRId64 ",\"mean_return\":%.1f}", t->iterations, t->mean_return);
    enum mob_status status = mob_event(t->call, "iteration", text);
    if (status != MOB_OK)
        return status;
    snprintf(text, sizeof text, "iteration %" PRId64 ": mean return %.1f", t->iterations, t->mean_return);
    return mob_progress(t->call, t->mean_return / CARTPOLE_STEPS_MAX, text);
}

static enum mob_status return_policy(struct training *t)
{
    struct mob_value *value;
    enum mob_status status = mob_get(t->policy, MOB_FOREVER, &value);
    if (status != MOB_OK)
        return status;
    struct mob_tensor tensor;
    status = mob_value_tensor(value, &tensor);
    if (status == MOB_OK) {
        const struct policy policy = policy_from(tensor);
        char id[MOB_TEXT_ID_MAX], text[256];
        mob_future_id(t->policy, id);
        snprintf(text, sizeof text,
            "{\"mean_return\":%.1f,\"iterations\":%" PRId64 ",\"policy\":\"%s\",\"fingerprint\":\"%016" PRIx64
            "\"}",
            t->mean_return, t->iterations, id, policy_fingerprint(&policy));
        status = mob_return_at(t->call, 0, policy_value(&policy));
        if (status == MOB_OK)
            status = mob_return_at(t->call, 1, mob_json(text));
    }
    mob_value_release(value);
    return status;
}

/* With `iterations`: that many, solved or not. Without: until solved. */
static enum mob_status train_policy(struct mob_call *call)
{
    const bool until_solved = mob_arg_is_null(call, 1);
    const int64_t iterations_max = until_solved ? TRAINING_ITERATIONS_MAX : mob_arg_i64(call, 1);
    struct training t = {.call = call, .client = mob_call_client(call), .seed = mob_arg_i64(call, 0)};
    /* Create a policy. */
    enum mob_status status =
        mob_submit(t.client, "train_policy.create_policy", MOB_ARGS(mob_i64(t.seed)), NULL, &t.policy);
    /* Create 10 actors. */
    if (status == MOB_OK)
        status = create_simulators(&t);
    /* Do up to 100 steps of training. The few plain episodes of a step only hint that the goal is near. */
    bool evaluated = false, solved = false;
    while (status == MOB_OK && !solved && t.iterations < iterations_max) {
        status = train_once(&t);
        if (status == MOB_OK)
            status = report_iteration(&t);
        evaluated = status == MOB_OK && until_solved && t.mean_return >= TRAINING_GOAL;
        if (evaluated)
            status = evaluate_policy(&t);
        solved = evaluated && t.mean_return >= TRAINING_GOAL;
    }
    if (status == MOB_OK && !evaluated)
        status = evaluate_policy(&t);
    const enum mob_status ended = end_simulators(&t);
    if (status == MOB_OK)
        status = ended;
    return status == MOB_OK ? return_policy(&t) : status;
}

/* ------------------------------------------------------------------------------------------------ the module
 */

/* clang-format off */
MOB_MODULE("train_policy",
    MOB_FUNCTION("create_policy", create_policy, "i64 seed -> " POLICY),
    MOB_FUNCTION("update_policy", update_policy, POLICY " policy, " ROLLOUT "... rollouts -> " POLICY),
    MOB_FUNCTION("train_policy", train_policy, "i64 seed, i64? iterations -> (" POLICY " policy, json summary)"),
    {.name = "Simulator", .main = simulator_create, .signature = "i64 seed, i64 index -> ()",
     .methods = MOB_METHODS(
         MOB_METHOD("rollout", rollout, POLICY " policy, i64 num_steps -> " ROLLOUT),
         MOB_METHOD("evaluate", evaluate, POLICY " policy, i64 episodes -> f64")),
     .destroy = free, .checkpoint = simulator_checkpoint, .restore = simulator_restore},
    MOB_ACTOR_CLASS("CartpolePolicy", serve_create, POLICY " policy -> ()", free,
        {.name = "infer", .main = infer,
         .signature = "tensor<f32>[n,4] observation -> tensor<f32>[n,2] probabilities",
         .flags = MOB_METHOD_READ_ONLY}))
/* clang-format on */
