/* Replays episodes that tests/data/cartpole/record.py recorded from the real Gymnasium package. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "examples/train_policy/cartpole.h"

#define LINE_MAX_BYTES 256

struct replay {
    FILE *file;
    char line[LINE_MAX_BYTES];
    int line_number;
    int episodes, terminated, truncated, steps;
};

static bool next_line(struct replay *r)
{
    do {
        if (fgets(r->line, sizeof r->line, r->file) == NULL)
            return false;
        r->line_number++;
    } while (r->line[0] == '#');
    return true;
}

static void parse_state(const char *text, double state_out[CARTPOLE_OBSERVATIONS])
{
    char *end;
    for (int i = 0; i < CARTPOLE_OBSERVATIONS; i++, text = end) {
        uint64_t bits = strtoull(text, &end, 16);
        memcpy(&state_out[i], &bits, sizeof bits);
    }
}

static void assert_same_bits(const struct replay *r, const void *got, const void *recorded, size_t size)
{
    if (memcmp(got, recorded, size) != 0)
        fail_msg("trajectories.txt:%d: not the recorded bits", r->line_number);
}

static void replay_step(struct replay *r, struct cartpole *env)
{
    char *at;
    int action = (int)strtol(r->line, &at, 10);
    float recorded[CARTPOLE_OBSERVATIONS], observed[CARTPOLE_OBSERVATIONS];
    for (int i = 0; i < CARTPOLE_OBSERVATIONS; i++) {
        uint32_t bits = (uint32_t)strtoul(at, &at, 16);
        memcpy(&recorded[i], &bits, sizeof bits);
    }
    cartpole_step(env, action);
    cartpole_observe(env, observed);
    assert_same_bits(r, observed, recorded, sizeof observed);
    const char *end = env->terminated ? " terminated\n" : env->truncated ? " truncated\n" : " -\n";
    assert_string_equal(at, end);
    r->steps++;
}

static void replay_episode(struct replay *r)
{
    struct cartpole env;
    double state[CARTPOLE_OBSERVATIONS];
    int name_end = 0;
    assert_int_equal(sscanf(r->line, "episode %*s %*d%n", &name_end), 0);
    assert_true(name_end > 0);
    parse_state(r->line + name_end, state);
    cartpole_reset(&env, state);
    while (next_line(r) && strncmp(r->line, "final", 5) != 0)
        replay_step(r, &env);
    parse_state(r->line + 5, state);
    assert_same_bits(r, env.state, state, sizeof state);
    assert_true(cartpole_done(&env));
    r->episodes++;
    r->terminated += env.terminated;
    r->truncated += env.truncated;
}

static void recorded_episodes_of_gymnasium_replay_bit_for_bit(void **state)
{
    (void)state;
    const char *source = getenv("MOBULA_SOURCE_DIR");
    char path[4096];
    snprintf(path, sizeof path, "%s/tests/data/cartpole/trajectories.txt", source != NULL ? source : ".");
    struct replay r = {.file = fopen(path, "r")};
    assert_non_null(r.file);
    while (next_line(&r))
        replay_episode(&r);
    fclose(r.file);
    assert_int_equal(r.episodes, 12);
    assert_int_equal(r.terminated, 10);
    assert_int_equal(r.truncated, 2);
    assert_int_equal(r.steps, 1941);
}

static void episode_ends_at_500_steps_and_not_before(void **state)
{
    (void)state;
    struct cartpole env;
    cartpole_reset(&env, (const double[]){0, 0, 0.01, 0});
    for (int i = 0; i < CARTPOLE_STEPS_MAX; i++) {
        assert_false(cartpole_done(&env));
        cartpole_step(&env, env.state[2] + env.state[3] + 0.1 * env.state[0] + 0.2 * env.state[1] > 0);
    }
    assert_true(env.truncated);
    assert_false(env.terminated);
}

static void episode_ends_off_the_track_and_past_twelve_degrees(void **state)
{
    (void)state;
    struct cartpole env;
    cartpole_reset(&env, (const double[]){2.39, 1, 0, 0});
    cartpole_step(&env, 1);
    assert_true(env.terminated);
    cartpole_reset(&env, (const double[]){-2.39, -1, 0, 0});
    cartpole_step(&env, 0);
    assert_true(env.terminated);
    cartpole_reset(&env, (const double[]){0, 0, 0.2094, 0.1});
    cartpole_step(&env, 0);
    assert_true(env.terminated);
    cartpole_reset(&env, (const double[]){0, 0, -0.2094, 0});
    cartpole_step(&env, 0);
    assert_false(env.terminated); /* 12 degrees are 0.20944 */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(recorded_episodes_of_gymnasium_replay_bit_for_bit),
        cmocka_unit_test(episode_ends_at_500_steps_and_not_before),
        cmocka_unit_test(episode_ends_off_the_track_and_past_twelve_degrees),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
