/* The functions that the benchmarks run. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "bench/modules/kept_answers.h"
#include "tests/unit/examples/module_double.h"

static int64_t number(struct mob_future *future)
{
    int64_t value = -1;
    assert_int_equal(mob_get_i64(future, MOB_FOREVER, &value), MOB_OK);
    return value;
}

static int64_t run(struct mob_client *client, const char *function, struct mob_args args)
{
    struct mob_future *future = NULL;
    assert_int_equal(mob_submit(client, function, args, NULL, &future), MOB_OK);
    return number(future);
}

static const char *text(struct mob_future *future)
{
    struct mob_value *value = NULL;
    const void *data = NULL;
    size_t size = 0;
    assert_int_equal(mob_get(future, MOB_FOREVER, &value), MOB_OK);
    assert_int_equal(mob_value_data(value, &data, &size), MOB_OK);
    return data;
}

static int setup(void **state)
{
    struct mob_client *client = double_create();
    double_load(client, "noop");
    *state = client;
    return 0;
}

static int teardown(void **state)
{
    double_destroy(*state);
    return 0;
}

static void sums_and_echoes(void **state)
{
    assert_int_equal(run(*state, "noop.echo", MOB_ARGS(mob_i64(-3))), -3);
    assert_int_equal(run(*state, "noop.sum", MOB_ARGS(mob_i64(40), mob_i64(2))), 42);
    assert_int_equal(run(*state, "noop.sum_many", MOB_NO_ARGS), 0);
    assert_int_equal(run(*state, "noop.sum_many", MOB_ARGS(mob_i64(1), mob_i64(2), mob_i64(4))), 7);
}

static void trees_count_their_leaves(void **state)
{
    struct mob_client *client = *state;
    assert_int_equal(run(client, "noop.tree", MOB_ARGS(mob_i64(0))), 1);
    uint64_t before = client->tasks;
    assert_int_equal(run(client, "noop.tree", MOB_ARGS(mob_i64(10))), 1024);
    assert_int_equal(client->tasks - before, 3 * 1024 - 2); /* leaves, inner tasks, sums */
    assert_int_equal(run(client, "noop.tree_get", MOB_ARGS(mob_i64(10))), 1024);
}

static void tree_refuses_a_depth_without_end(void **state)
{
    struct mob_future *future = NULL;
    struct mob_value *value = NULL;
    assert_int_equal(mob_submit(*state, "noop.tree", MOB_ARGS(mob_i64(-1)), NULL, &future), MOB_OK);
    assert_int_equal(mob_get(future, MOB_FOREVER, &value), MOB_TASK_FAILED);
}

static void many_returns_as_many_as_it_is_asked_for(void **state)
{
    static struct mob_future *futures[3000];
    assert_int_equal(mob_submit(*state, "noop.many", MOB_ARGS(mob_i64(3000)), NULL, futures), MOB_OK);
    for (int i = 0; i < 3000; i++)
        assert_int_equal(number(futures[i]), i);
}

static void sync_functions_report_latencies(void **state)
{
    struct mob_future *future = NULL;
    struct mob_actor *counter = NULL;
    assert_int_equal(mob_submit(*state, "noop.sync_child", MOB_ARGS(mob_i64(200)), NULL, &future), MOB_OK);
    assert_memory_equal(text(future), "{\"n\":200,\"mean_us\":", 19);
    assert_int_equal(mob_actor_create(*state, "noop.Counter", MOB_NO_ARGS, NULL, &counter), MOB_OK);
    assert_int_equal(
        mob_submit(*state, "noop.sync_actor", MOB_ARGS(mob_i64(1), mob_actor_handle(counter)), NULL, &future),
        MOB_OK);
    assert_memory_equal(text(future), "{\"n\":1,\"mean_us\":", 17);
}

static void counter_counts_and_survives_its_death(void **state)
{
    struct mob_client *client = *state;
    const struct mob_actor_options options = {.struct_size = sizeof options, .checkpoint_every = 4};
    struct mob_actor *counter = NULL;
    struct mob_future *future = NULL;
    client->kill_every = 3;
    assert_int_equal(mob_actor_create(client, "noop.Counter", MOB_NO_ARGS, &options, &counter), MOB_OK);
    for (int64_t i = 1; i <= 20; i++) {
        assert_int_equal(mob_actor_call(counter, "inc", MOB_ARGS(mob_i64(2)), NULL, &future), MOB_OK);
        assert_int_equal(number(future), 2 * i);
    }
    assert_int_equal(mob_actor_call(counter, "get", MOB_NO_ARGS, NULL, &future), MOB_OK);
    assert_int_equal(number(future), 40);
}

static void callers_visit_every_actor_in_turn(void **state)
{
    struct mob_actor *counters[4] = {NULL};
    struct mob_arg args[7] = {mob_i64(4 * 700), mob_i64(0), mob_i64(0)};
    for (int i = 0; i < 4; i++) {
        assert_int_equal(mob_actor_create(*state, "noop.Counter", MOB_NO_ARGS, NULL, &counters[i]), MOB_OK);
        args[3 + i] = mob_actor_handle(counters[i]);
    }
    assert_int_equal(run(*state, "noop.actor_caller", (struct mob_args){args, 7}), 4 * (700 * 701 / 2));
    args[0] = mob_i64(5);
    /* The next number of each counter, and one more of the first. */
    assert_int_equal(run(*state, "noop.actor_caller", (struct mob_args){args, 7}), 4 * 701 + 702);
}

static void callers_keep_some_answers(void **state)
{
    enum { CALLS = 3000, KEPT = 40 };
    struct mob_actor *counter = NULL;
    struct mob_future *futures[1 + KEPT] = {NULL};
    struct mob_submit_options options = {.struct_size = sizeof options, .num_returns = 1 + KEPT};
    int64_t before = -1;
    assert_int_equal(mob_actor_create(*state, "noop.Counter", MOB_NO_ARGS, NULL, &counter), MOB_OK);
    const struct mob_args args =
        MOB_ARGS(mob_i64(CALLS), mob_i64(KEPT), mob_i64(77), mob_actor_handle(counter));
    assert_int_equal(mob_submit(*state, "noop.actor_caller", args, &options, futures), MOB_OK);
    assert_int_equal(number(futures[0]), CALLS * (CALLS + 1) / 2);
    for (int k = 0; k < KEPT; k++) {
        int64_t index = kept_answer_index(CALLS, KEPT, 77, k);
        assert_true(index > before && index / (CALLS / KEPT) == k);
        assert_int_equal(number(futures[1 + k]), index + 1); /* the only caller of a counter */
        before = index;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(sums_and_echoes, setup, teardown),
        cmocka_unit_test_setup_teardown(trees_count_their_leaves, setup, teardown),
        cmocka_unit_test_setup_teardown(tree_refuses_a_depth_without_end, setup, teardown),
        cmocka_unit_test_setup_teardown(many_returns_as_many_as_it_is_asked_for, setup, teardown),
        cmocka_unit_test_setup_teardown(sync_functions_report_latencies, setup, teardown),
        cmocka_unit_test_setup_teardown(counter_counts_and_survives_its_death, setup, teardown),
        cmocka_unit_test_setup_teardown(callers_visit_every_actor_in_turn, setup, teardown),
        cmocka_unit_test_setup_teardown(callers_keep_some_answers, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
