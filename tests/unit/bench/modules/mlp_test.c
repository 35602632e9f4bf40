/* The served model of the benchmarks: its kernels against a plain double-precision network. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/examples/module_double.h"

#define STATE 1024
#define HIDDEN 64
#define OUTPUTS 16
#define BATCH 67 /* no multiple of any tile */

static const char *const kernels[] = {"plain", "avx2", "avx512"};

static float states[BATCH][STATE];

static void fill(float *values, size_t n, size_t inputs, uint64_t *state)
{
    const float bound = sqrtf(3.0f / (float)inputs);
    for (size_t i = 0; i < n; i++) {
        uint64_t z = *state += 0x9e3779b97f4a7c15u;
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
        z ^= z >> 31;
        values[i] = bound * ((float)(z >> 40) * 0x1p-23f - 1.0f);
    }
}

static void layer(const float *weights, const float *bias, size_t inputs, size_t outputs, const double *in,
    double *out, bool last)
{
    for (size_t j = 0; j < outputs; j++) {
        double sum = (double)bias[j];
        for (size_t k = 0; k < inputs; k++)
            sum += in[k] * (double)weights[k * outputs + j];
        out[j] = last ? sum : tanh(sum);
    }
}

static void reference(uint64_t seed, const float *state, double out[OUTPUTS])
{
    static float w1[STATE * HIDDEN], w2[HIDDEN * HIDDEN], w3[HIDDEN * OUTPUTS], b1[HIDDEN], b2[HIDDEN],
        b3[OUTPUTS];
    double in[STATE], hidden1[HIDDEN], hidden2[HIDDEN];
    fill(w1, STATE * HIDDEN, STATE, &seed);
    fill(w2, HIDDEN * HIDDEN, HIDDEN, &seed);
    fill(w3, HIDDEN * OUTPUTS, HIDDEN, &seed);
    fill(b1, HIDDEN, STATE, &seed);
    fill(b2, HIDDEN, HIDDEN, &seed);
    fill(b3, OUTPUTS, HIDDEN, &seed);
    for (size_t i = 0; i < STATE; i++)
        in[i] = (double)state[i];
    layer(w1, b1, STATE, HIDDEN, in, hidden1, false);
    layer(w2, b2, HIDDEN, HIDDEN, hidden1, hidden2, false);
    layer(w3, b3, HIDDEN, OUTPUTS, hidden2, out, true);
}

/* NULL when this processor has no such kernel. */
static struct mob_actor *create(struct mob_client *client, const char *kernel)
{
    struct mob_actor *actor = NULL;
    enum mob_status status =
        mob_actor_create(client, "mlp.Mlp", MOB_ARGS(mob_i64(9), mob_utf8(kernel)), NULL, &actor);
    return status == MOB_OK ? actor : NULL;
}

static const float *infer(struct mob_actor *actor, const float *in, int64_t n)
{
    struct mob_future *future = NULL;
    struct mob_value *value = NULL;
    struct mob_tensor answer = {0};
    assert_int_equal(
        mob_actor_call(actor, "infer", MOB_ARGS(mob_tensor_f32(in, n, STATE)), NULL, &future), MOB_OK);
    assert_int_equal(mob_get(future, MOB_FOREVER, &value), MOB_OK);
    assert_int_equal(mob_value_tensor(value, &answer), MOB_OK);
    assert_int_equal(answer.shape[0], n);
    assert_int_equal(answer.shape[1], OUTPUTS);
    return answer.data;
}

static int setup(void **state)
{
    struct mob_client *client = double_create();
    uint64_t random = 77;
    fill(&states[0][0], BATCH * STATE, 3, &random);
    double_load(client, "mlp");
    *state = client;
    return 0;
}

static int teardown(void **state)
{
    double_destroy(*state);
    return 0;
}

static void every_kernel_computes_the_network(void **state)
{
    for (size_t k = 0; k < sizeof kernels / sizeof kernels[0]; k++) {
        struct mob_actor *actor = create(*state, kernels[k]);
        if (actor == NULL) {
            print_message("no %s here\n", kernels[k]);
            continue;
        }
        const float *answers = infer(actor, &states[0][0], BATCH);
        double worst = 0;
        for (size_t i = 0; i < BATCH; i++) {
            double expected[OUTPUTS];
            reference(9, states[i], expected);
            for (size_t j = 0; j < OUTPUTS; j++)
                worst = fmax(worst, fabs((double)answers[i * OUTPUTS + j] - expected[j]));
        }
        print_message("%s: off by at most %.1e\n", kernels[k], worst);
        assert_true(worst < 2e-5);
    }
}

static void answer_does_not_depend_on_the_rest_of_the_batch(void **state)
{
    for (size_t k = 0; k < sizeof kernels / sizeof kernels[0]; k++) {
        struct mob_actor *actor = create(*state, kernels[k]);
        if (actor == NULL)
            continue;
        const float *together = infer(actor, &states[0][0], BATCH);
        for (size_t i = 0; i < BATCH; i++)
            assert_memory_equal(infer(actor, states[i], 1), together + i * OUTPUTS, OUTPUTS * sizeof(float));
    }
}

/* One run of the caller: its report, or the error. */
static enum mob_status run(
    struct mob_actor *caller, int64_t rounds, int64_t seed, struct mob_value **value, const char **text)
{
    struct mob_future *future = NULL;
    const void *data = NULL;
    size_t size = 0;
    assert_int_equal(mob_actor_call(caller, "run",
                         MOB_ARGS(mob_i64(rounds), mob_i64(64), mob_i64(4), mob_i64(seed)), NULL, &future),
        MOB_OK);
    enum mob_status status = mob_get(future, MOB_FOREVER, value);
    if (status == MOB_OK)
        assert_int_equal(mob_value_data(*value, &data, &size), MOB_OK);
    *text = data;
    return status;
}

static void an_actor_calls_the_model_with_batches(void **state)
{
    struct mob_actor *model = NULL, *caller = NULL;
    struct mob_value *value = NULL;
    const char *text = NULL;
    assert_int_equal(
        mob_actor_create(*state, "mlp.Mlp", MOB_ARGS(mob_i64(1), mob_null()), NULL, &model), MOB_OK);
    assert_int_equal(
        mob_actor_create(*state, "mlp.Caller", MOB_ARGS(mob_actor_handle(model)), NULL, &caller), MOB_OK);
    assert_int_equal(run(caller, 50, 1, &value, &text), MOB_OK);
    assert(text != NULL && model != NULL);
    assert_non_null(strstr(text, "{\"states\":3200,"));
    assert_non_null(strstr(text, "\"wrong\":0}"));
    assert_int_equal(model->calls, 50);
    assert_int_equal(run(caller, 50, 2, &value, &text), MOB_OK); /* another model would say something else */
    assert_non_null(strstr(text, "\"wrong\":50}"));
    assert_int_equal(run(caller, 1, 1, &value, &text), MOB_TASK_FAILED);
}

static void unknown_kernel_is_refused(void **state)
{
    assert_null(create(*state, "abacus"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_kernel_computes_the_network, setup, teardown),
        cmocka_unit_test_setup_teardown(answer_does_not_depend_on_the_rest_of_the_batch, setup, teardown),
        cmocka_unit_test_setup_teardown(an_actor_calls_the_model_with_batches, setup, teardown),
        cmocka_unit_test_setup_teardown(unknown_kernel_is_refused, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
