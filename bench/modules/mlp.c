/* The model that is served in the benchmarks: 4 KB of state in, 16 numbers out, through 1024-64-64-16 with
 * tanh.
 *
 *   Mlp(seed)                      random weights; a second argument names a kernel instead of the
 * processor's best .infer(state[n,1024])        -> [n,16] .kernel()                    which one runs
 *   Caller(model)                  an actor that calls a model's actor on its node, without HTTP
 *     .run(rounds, rows, window, seed)   `rounds` calls with [rows,1024] each; what that took, as JSON, and
 *                                  how many answers are not what a model of `seed` says here (`wrong`)
 */
#include <mobula/mobula.h>

#include <assert.h>
#include <immintrin.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define STATE_FLOATS 1024
#define HIDDEN 64
#define OUTPUTS 16
#define BATCH_MAX 256 /* rows that go through the layers at once: hidden values stay in the nearest cache */
#define WINDOW_MAX 64
#define ROWS_MAX 4096
#define ROUNDS_MAX 1000000 /* whose numbers a float holds */

/* weights[input][output]: what one input is multiplied with lies together. */
struct mlp_layer {
    size_t inputs, outputs;
    bool is_last; /* no tanh */
    const float *weights, *bias;
};

/* ------------------------------------------------------------------------------------------------ kernels */

#if defined(__x86_64__)

#define MLP_NAME(x) avx512_##x
#define MLP_TARGET __attribute__((target("avx512f")))
#define MLP_VEC __m512
#define MLP_LANES 16
#define MLP_SET1 _mm512_set1_ps
#define MLP_LOAD _mm512_loadu_ps
#define MLP_STORE _mm512_storeu_ps
#define MLP_MUL _mm512_mul_ps
#define MLP_FMA _mm512_fmadd_ps
#define MLP_DIV _mm512_div_ps
#define MLP_MIN _mm512_min_ps
#define MLP_MAX _mm512_max_ps
#define MLP_ROWS 6 /* 24 sums, 4 weights and a broadcast, of 32 registers */
#define MLP_COLUMNS 4
#include "bench/modules/mlp_kernel.h"

#define MLP_NAME(x) avx2_##x
#define MLP_TARGET __attribute__((target("avx2,fma")))
#define MLP_VEC __m256
#define MLP_LANES 8
#define MLP_SET1 _mm256_set1_ps
#define MLP_LOAD _mm256_loadu_ps
#define MLP_STORE _mm256_storeu_ps
#define MLP_MUL _mm256_mul_ps
#define MLP_FMA _mm256_fmadd_ps
#define MLP_DIV _mm256_div_ps
#define MLP_MIN _mm256_min_ps
#define MLP_MAX _mm256_max_ps
#define MLP_ROWS 6 /* 12 sums, 2 weights and a broadcast, of 16 registers */
#define MLP_COLUMNS 2
#include "bench/modules/mlp_kernel.h"

#endif

static inline float plain_fma(float a, float b, float c)
{
    return a * b + c;
}
#define MLP_NAME(x) plain_##x
#define MLP_TARGET
#define MLP_VEC float
#define MLP_LANES 1
#define MLP_SET1(x) (x)
#define MLP_LOAD(at) (*(at))
#define MLP_STORE(at, x) (*(at) = (x))
#define MLP_MUL(a, b) ((a) * (b))
#define MLP_FMA plain_fma
#define MLP_DIV(a, b) ((a) / (b))
#define MLP_MIN(a, b) ((a) < (b) ? (a) : (b))
#define MLP_MAX(a, b) ((a) > (b) ? (a) : (b))
#define MLP_ROWS 1
#define MLP_COLUMNS 16 /* the compiler makes vectors of them */
#include "bench/modules/mlp_kernel.h"

typedef void (*layer_function)(const struct mlp_layer *layer, const float *in, float *out, size_t n);

/* The wanted kernel, or the best that this processor has; NULL when it lacks the wanted one. */
static layer_function choose_kernel(const char *wanted, const char **name_out)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f") && (wanted == NULL || strcmp(wanted, "avx512") == 0)) {
        *name_out = "avx512";
        return avx512_layer;
    }
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
        (wanted == NULL || strcmp(wanted, "avx2") == 0)) {
        *name_out = "avx2";
        return avx2_layer;
    }
#endif
    *name_out = "plain";
    return wanted == NULL || strcmp(wanted, "plain") == 0 ? plain_layer : NULL;
}

/* ------------------------------------------------------------------------------------------------ the model
 */

struct mlp {
    _Alignas(64) float weights1[STATE_FLOATS * HIDDEN];
    float weights2[HIDDEN * HIDDEN], weights3[HIDDEN * OUTPUTS];
    float bias1[HIDDEN], bias2[HIDDEN], bias3[OUTPUTS];
    float hidden1[BATCH_MAX * HIDDEN], hidden2[BATCH_MAX * HIDDEN];
    layer_function run_layer;
    const char *kernel;
};
_Static_assert(sizeof(struct mlp) % 64 == 0, "aligned_alloc wants it");

/* Uniform numbers from SplitMix64, of the variance that keeps signals at their size from layer to layer. */
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

static void infer_batch(struct mlp *mlp, const float *states, float *out, size_t n)
{
    const struct mlp_layer layer1 = {STATE_FLOATS, HIDDEN, false, mlp->weights1, mlp->bias1};
    const struct mlp_layer layer2 = {HIDDEN, HIDDEN, false, mlp->weights2, mlp->bias2};
    const struct mlp_layer layer3 = {HIDDEN, OUTPUTS, true, mlp->weights3, mlp->bias3};
    mlp->run_layer(&layer1, states, mlp->hidden1, n);
    mlp->run_layer(&layer2, mlp->hidden1, mlp->hidden2, n);
    mlp->run_layer(&layer3, mlp->hidden2, out, n);
}

/* Any number of states: BATCH_MAX of them at a time. */
static void infer_all(struct mlp *mlp, const float *states, float *out, size_t n)
{
    for (size_t row = 0; row < n; row += BATCH_MAX) {
        const size_t rows = n - row < BATCH_MAX ? n - row : BATCH_MAX;
        infer_batch(mlp, states + row * STATE_FLOATS, out + row * OUTPUTS, rows);
    }
}

/* NULL: no memory. */
static struct mlp *mlp_of_seed(int64_t seed)
{
    struct mlp *mlp = aligned_alloc(64, sizeof *mlp);
    if (mlp == NULL)
        return NULL;
    uint64_t random = (uint64_t)seed;
    fill(mlp->weights1, STATE_FLOATS * HIDDEN, STATE_FLOATS, &random);
    fill(mlp->weights2, HIDDEN * HIDDEN, HIDDEN, &random);
    fill(mlp->weights3, HIDDEN * OUTPUTS, HIDDEN, &random);
    fill(mlp->bias1, HIDDEN, STATE_FLOATS, &random);
    fill(mlp->bias2, HIDDEN, HIDDEN, &random);
    fill(mlp->bias3, OUTPUTS, HIDDEN, &random);
    return mlp;
}

static enum mob_status mlp_create(struct mob_call *call)
{
    const char *wanted = mob_arg_is_null(call, 1) ? NULL : mob_arg_utf8(call, 1, &(size_t){0});
    const char *name;
    layer_function run_layer = choose_kernel(wanted, &name);
    if (run_layer == NULL)
        return mob_fail(call, "this processor has no kernel %s", wanted);
    struct mlp *mlp = mlp_of_seed(mob_arg_i64(call, 0));
    if (mlp == NULL)
        return MOB_NO_MEMORY;
    mlp->run_layer = run_layer;
    mlp->kernel = name;
    mob_call_set_self(call, mlp);
    return MOB_OK;
}

static enum mob_status infer(struct mob_call *call)
{
    struct mlp *mlp = mob_call_self(call);
    const struct mob_tensor states = mob_arg_tensor(call, 0);
    const size_t n = (size_t)states.shape[0];
    if (n > ROWS_MAX)
        return mob_fail(call, "%zu states in one call; at most %d", n, ROWS_MAX);
    float few[BATCH_MAX * OUTPUTS];
    float *out = n <= BATCH_MAX ? few : malloc(n * OUTPUTS * sizeof(float));
    if (out == NULL)
        return MOB_NO_MEMORY;
    infer_all(mlp, states.data, out, n);
    enum mob_status status = mob_return(call, mob_tensor_f32(out, (int64_t)n, OUTPUTS));
    if (out != few)
        free(out);
    return status;
}

static enum mob_status kernel(struct mob_call *call)
{
    const struct mlp *mlp = mob_call_self(call);
    return mob_return(call, mob_utf8(mlp->kernel));
}

/* ------------------------------------------------------------------------------------------------ the caller
 */

struct caller {
    char model[MOB_TEXT_ID_MAX];
};

static enum mob_status caller_create(struct mob_call *call)
{
    struct mob_actor *model = mob_arg_actor(call, 0);
    struct caller *caller = model != NULL ? malloc(sizeof *caller) : NULL;
    if (caller == NULL)
        return MOB_NO_MEMORY;
    mob_actor_id(model, caller->model);
    mob_call_set_self(call, caller);
    return MOB_OK;
}

/* What was measured must not be the same on a replay, so this is not mob_clock_ns. */
static double now_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* Calls of one run. */
struct rounds {
    int64_t count, rows, window;
    float *states; /* [rows,1024] of each call, but for the first number, which is the call's */
    float *answers; /* [count,rows,16] */
};

static enum mob_status take_answer(struct mob_future *future, const struct rounds *rounds, int64_t i)
{
    struct mob_value *value;
    struct mob_tensor answer;
    enum mob_status status = mob_get(future, MOB_FOREVER, &value);
    if (status != MOB_OK)
        return status;
    status = mob_value_tensor(value, &answer);
    if (status == MOB_OK && (answer.shape[0] != rounds->rows || answer.shape[1] != OUTPUTS))
        status = MOB_TYPE_MISMATCH;
    const int64_t floats = rounds->rows * OUTPUTS;
    if (status == MOB_OK)
        memcpy(rounds->answers + i * floats, answer.data, (size_t)floats * sizeof(float));
    mob_value_release(value);
    mob_release(future);
    return status;
}

/* `window` calls are under way at any time. Each carries states of its own: they are put for it, and released
 * when it is answered, so that the store may use the memory again. */
static enum mob_status run_rounds(
    struct mob_client *client, struct mob_actor *model, const struct rounds *rounds)
{
    struct mob_future *inputs[WINDOW_MAX], *answers[WINDOW_MAX];
    enum mob_status status = MOB_OK;
    for (int64_t i = 0; i < rounds->count + rounds->window && status == MOB_OK; i++) {
        const int64_t slot = i % rounds->window;
        if (i >= rounds->window) {
            status = take_answer(answers[slot], rounds, i - rounds->window);
            mob_release(inputs[slot]);
        }
        if (i >= rounds->count || status != MOB_OK)
            continue;
        rounds->states[0] = (float)i;
        status = mob_put(client, mob_tensor_f32(rounds->states, rounds->rows, STATE_FLOATS), &inputs[slot]);
        if (status == MOB_OK)
            status = mob_actor_call(model, "infer", MOB_ARGS(mob_ref(inputs[slot])), NULL, &answers[slot]);
    }
    return status;
}

/* The calls whose answer is not, bit for bit, what a model of this seed says here. A row's answer does not
 * depend on its neighbours, so only the first one is computed for each call. */
static enum mob_status count_wrong(const struct rounds *rounds, int64_t seed, int64_t *wrong_out)
{
    const size_t floats = (size_t)rounds->rows * OUTPUTS;
    struct mlp *mlp = mlp_of_seed(seed);
    float *expected = malloc(floats * sizeof(float));
    const bool memory = mlp != NULL && expected != NULL;
    int64_t wrong = 0;
    if (memory) {
        mlp->run_layer = choose_kernel(NULL, &mlp->kernel);
        infer_all(mlp, rounds->states, expected, (size_t)rounds->rows);
        for (int64_t i = 0; i < rounds->count; i++) {
            rounds->states[0] = (float)i;
            infer_all(mlp, rounds->states, expected, 1);
            wrong += memcmp(rounds->answers + (size_t)i * floats, expected, floats * sizeof(float)) != 0;
        }
        *wrong_out = wrong;
    }
    free(expected);
    free(mlp);
    return memory ? MOB_OK : MOB_NO_MEMORY;
}

static enum mob_status run_and_check(struct mob_call *call, struct mob_actor *model, struct rounds *rounds)
{
    const size_t states = (size_t)rounds->rows * STATE_FLOATS;
    const size_t answers = (size_t)rounds->count * (size_t)rounds->rows * OUTPUTS;
    uint64_t random = 1;
    rounds->states = malloc(states * sizeof(float));
    rounds->answers = malloc(answers * sizeof(float));
    if (rounds->states == NULL || rounds->answers == NULL)
        return MOB_NO_MEMORY;
    fill(rounds->states, states, 3, &random);
    memset(rounds->answers, 0xff, answers * sizeof(float)); /* its pages are there before the clock runs */
    const double begin = now_seconds();
    enum mob_status status = run_rounds(mob_call_client(call), model, rounds);
    const double seconds = now_seconds() - begin;
    int64_t wrong = 0;
    if (status == MOB_OK)
        status = count_wrong(rounds, mob_arg_i64(call, 3), &wrong);
    if (status != MOB_OK)
        return status;
    const double done = (double)(rounds->count * rounds->rows);
    char text[160];
    snprintf(text, sizeof text,
        "{\"states\":%.0f,\"seconds\":%.6f,\"states_per_s\":%.0f,\"wrong\":%" PRId64 "}", done, seconds,
        done / seconds, wrong);
    return mob_return(call, mob_json(text));
}

static enum mob_status run(struct mob_call *call)
{
    const struct caller *caller = mob_call_self(call);
    struct rounds rounds = {
        .count = mob_arg_i64(call, 0), .rows = mob_arg_i64(call, 1), .window = mob_arg_i64(call, 2)};
    if (rounds.count < 1 || rounds.count > ROUNDS_MAX || rounds.rows < 1 || rounds.rows > ROWS_MAX ||
        rounds.window < 1 || rounds.window > WINDOW_MAX || rounds.window > rounds.count)
        return mob_fail(call, "rounds 1 to %d, rows 1 to %d, window 1 to %d and at most rounds", ROUNDS_MAX,
            ROWS_MAX, WINDOW_MAX);
    struct mob_actor *model;
    enum mob_status status = mob_actor_from_id(mob_call_client(call), caller->model, &model);
    if (status != MOB_OK)
        return status;
    status = run_and_check(call, model, &rounds);
    free(rounds.states);
    free(rounds.answers);
    mob_actor_release(model);
    return status;
}

/* clang-format off */
MOB_MODULE("mlp",
    MOB_ACTOR_CLASS("Mlp", mlp_create, "i64 seed, utf8? kernel -> ()", free,
        {.name = "infer", .main = infer, .signature = "tensor<f32>[n,1024] state -> tensor<f32>[n,16] output",
         .flags = MOB_METHOD_READ_ONLY},
        {.name = "kernel", .main = kernel, .signature = "-> utf8", .flags = MOB_METHOD_READ_ONLY}),
    MOB_ACTOR_CLASS("Caller", caller_create, "actor model -> ()", free,
        MOB_METHOD("run", run, "i64 rounds, i64 rows, i64 window, i64 seed -> json")))
/* clang-format on */
