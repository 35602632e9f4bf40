/* The example programs run against a real node and end well. */
#include <setjmp.h>
#include <spawn.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <cmocka.h>

#include "tests/support/node_box.h"

extern char **environ;
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

static int run(const char *example)
{
    char program[512], module[512];
    const char *binaries = getenv("MOBULA_BIN_DIR"), *modules = getenv("MOBULA_MODULE_DIR");
    snprintf(
        program, sizeof program, "%s/example_%s", binaries == NULL ? "build/release/bin" : binaries, example);
    snprintf(module, sizeof module, "%s/%s.so", modules == NULL ? "build/release/modules" : modules, example);
    char *argv[] = {program, module, NULL};
    pid_t pid;
    int status = -1;
    assert_int_equal(posix_spawn(&pid, program, NULL, NULL, argv, environ), 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status;
}

static void arith_runs(void **state)
{
    (void)state;
    assert_int_equal(run("arith"), 0);
}

static void nested_tasks_runs(void **state)
{
    (void)state;
    assert_int_equal(run("nested_tasks"), 0);
}

static void tree_reduce_runs(void **state)
{
    (void)state;
    assert_int_equal(run("tree_reduce"), 0);
}

static void search_wait_runs(void **state)
{
    (void)state;
    assert_int_equal(run("search_wait"), 0);
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
