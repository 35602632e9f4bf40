/* Depth and breadth on a node of two slots: nested chains, wide forks, chains of dependencies.
 * ctest: timeout=300 crowd */
#include <mobula/mobula.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "tests/support/driver.h"
#include "tests/support/node_box.h"

#define SECONDS 1000000000ll

static struct node_box box;
static struct mob_client *client;

static int set_up(void **state)
{
    (void)state;
    /* a thousand block at once */
    static const char *const args[] = {"--segment-bytes", "805306368", NULL};
    client = driver_box_start(&box, args, "probe");
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    driver_box_stop(&box, client);
    return 0;
}

static int64_t run(const char *function, int64_t argument)
{
    struct mob_future *future;
    int64_t result = -1;
    assert_int_equal(mob_submit(client, function, MOB_ARGS(mob_i64(argument)), NULL, &future), MOB_OK);
    enum mob_status status = mob_get_i64(future, 200 * SECONDS, &result);
    if (status != MOB_OK)
        print_error("%s(%ld): %s: %s\n", function, (long)argument, mob_status_code(status),
            status == MOB_TIMEOUT ? "" : mob_future_error(future));
    assert_int_equal(status, MOB_OK);
    mob_release(future);
    return result;
}

/* Each task blocks in get on its child: a worker each, two CPUs in all. */
static void nested_chain_1000_deep_finishes_on_two_slots(void **state)
{
    (void)state;
    int depth = driver_sanitized() ? 200 : 1000;
    assert_int_equal(run("probe.deep", depth), depth + 1);
}

static void fork_of_100000_children_finishes(void **state)
{
    (void)state;
    int64_t n = 100000;
    assert_int_equal(run("probe.nested_sum", n), n * (n + 1) / 2);
}

static void tree_of_tail_calls_finishes(void **state)
{
    (void)state;
    assert_int_equal(run("probe.tree", 12), 1 << 12);
}

static void chain_of_100000_dependencies_finishes(void **state)
{
    (void)state;
    const int n = 100000;
    struct mob_future *before, *next;
    int64_t result = 0;
    assert_int_equal(mob_submit(client, "probe.sum_all", MOB_ARGS(mob_i64(1)), NULL, &before), MOB_OK);
    for (int i = 1; i < n; i++) {
        assert_int_equal(
            mob_submit(client, "probe.sum_all", MOB_ARGS(mob_ref(before), mob_i64(1)), NULL, &next), MOB_OK);
        mob_release(before);
        before = next;
    }
    assert_int_equal(mob_get_i64(before, 100 * SECONDS, &result), MOB_OK);
    assert_int_equal(result, n);
    mob_release(before);
}

static void task_with_10000_object_arguments_sees_them_all(void **state)
{
    (void)state;
    enum { N = 10000 };
    static struct mob_future *inputs[N];
    static struct mob_arg args[N];
    struct mob_future *future;
    int64_t result = 0;
    for (int i = 0; i < N; i++) {
        assert_int_equal(mob_put(client, mob_i64(i), &inputs[i]), MOB_OK);
        args[i] = mob_ref(inputs[i]);
    }
    assert_int_equal(mob_submit(client, "probe.sum_all", (struct mob_args){args, N}, NULL, &future), MOB_OK);
    assert_int_equal(mob_get_i64(future, 60 * SECONDS, &result), MOB_OK);
    assert_int_equal(result, (int64_t)N * (N - 1) / 2);
    for (int i = 0; i < N; i++)
        mob_release(inputs[i]);
    mob_release(future);
}

/* More objects than the table has entries: what is committed and released makes room. */
static void many_more_results_than_table_entries_pass_through(void **state)
{
    (void)state;
    enum { WINDOW = 1000, N = 600000 };
    static struct mob_future *futures[WINDOW];
    int64_t sum = 0, submitted = 0;
    for (int64_t i = 0; i < N; i++) {
        for (; submitted < N && submitted < i + WINDOW; submitted++)
            assert_int_equal(mob_submit(client, "probe.echo_i64", MOB_ARGS(mob_i64(submitted)), NULL,
                                 &futures[submitted % WINDOW]),
                MOB_OK);
        int64_t result = -1;
        assert_int_equal(mob_get_i64(futures[i % WINDOW], 60 * SECONDS, &result), MOB_OK);
        assert_int_equal(result, i);
        mob_release(futures[i % WINDOW]);
        sum += result;
    }
    assert_int_equal(sum, (int64_t)N * (N - 1) / 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nested_chain_1000_deep_finishes_on_two_slots),
        cmocka_unit_test(fork_of_100000_children_finishes),
        cmocka_unit_test(tree_of_tail_calls_finishes),
        cmocka_unit_test(chain_of_100000_dependencies_finishes),
        cmocka_unit_test(task_with_10000_object_arguments_sees_them_all),
        cmocka_unit_test(many_more_results_than_table_entries_pass_through),
    };
    cmocka_set_test_filter(getenv("MOBULA_TEST")); /* one of them */
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
