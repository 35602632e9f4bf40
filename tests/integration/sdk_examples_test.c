/* The example programs run against a real node and print what is right. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "tests/support/node_box.h"

static struct node_box box;

static int set_up(void **state)
{
    (void)state;
    node_box_start(&box, 2);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    node_box_stop(&box);
    return 0;
}

/* Runs it; what it printed. It fails the test when its exit status is not 0. */
static const char *run(const char *example)
{
    static char output[4096];
    char command[1100];
    const char *binaries = getenv("MOBULA_BIN_DIR"), *modules = getenv("MOBULA_MODULE_DIR");
    assert_non_null(binaries); /* CTest sets both */
    assert_non_null(modules);
    snprintf(command, sizeof command, "%s/example_%s %s/%s.so 2>&1", binaries, example, modules, example);
    FILE *program = popen(command, "r");
    assert_non_null(program);
    output[fread(output, 1, sizeof output - 1, program)] = '\0';
    int status = pclose(program);
    if (status != 0)
        fail_msg("%s: wait status %d: %s", example, status, output);
    return output;
}

static void arith_runs(void **state)
{
    (void)state;
    assert_string_equal(run("arith"), "1 + 2 = 3\n17 = 3 * 5 + 2\n");
}

/* The samples are random, each mean is of 50. */
static void nested_tasks_runs(void **state)
{
    (void)state;
    const char *output = run("nested_tasks");
    double target, fitness;
    int found =
        sscanf(output, "20 tasks of 50 samples each: best target %lf, mean fitness %lf", &target, &fitness);
    if (found != 2 || target < 0.2 || target > 0.8 || fitness < 0.8 || fitness > 1)
        fail_msg("%s", output);
}

static void tree_reduce_runs(void **state)
{
    (void)state;
    assert_string_equal(run("tree_reduce"), "64 vectors of 1000, 63 aggregations: the sum is right\n");
}

static void search_wait_runs(void **state)
{
    (void)state;
    assert_string_equal(
        run("search_wait"), "20 experiments: best learning rate 0.0886, accuracy 0.996 after 8 steps\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arith_runs),
        cmocka_unit_test(nested_tasks_runs),
        cmocka_unit_test(tree_reduce_runs),
        cmocka_unit_test(search_wait_runs),
    };
    return cmocka_run_group_tests_name("sdk_examples", tests, set_up, tear_down);
}
