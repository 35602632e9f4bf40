/* The C API's log: lines of a program, the library's own, and who gets them. ctest: threads */
#include <mobula/mobula.h>

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "common/base/log.h"

enum { THREADS = 4, LINES = 200 };

static struct {
    int lines;
    bool inside;
    enum mob_log_level level;
    char line[256];
} got;

/* One at a time, so nothing here is locked. */
static void handler(void *arg, enum mob_log_level level, const char *line, size_t bytes)
{
    assert_ptr_equal(arg, &got);
    assert_false(got.inside);
    got.inside = true;
    got.lines++;
    got.level = level;
    snprintf(got.line, sizeof got.line, "%.*s", (int)bytes, line);
    got.inside = false;
}

static int set_up(void **state)
{
    (void)state;
    memset(&got, 0, sizeof got);
    mob_set_log_level(MOB_LOG_LEVEL_INFO);
    mob_set_log_handler(handler, &got);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    mob_set_log_handler(NULL, NULL);
    return 0;
}

static void a_driver_logs_beside_the_library(void **state)
{
    (void)state;
    mob_log(NULL, MOB_LOG_LEVEL_WARN, "batch %d of %s", 3, "nine");
    assert_int_equal(got.level, MOB_LOG_LEVEL_WARN);
    assert_string_equal(strchr(got.line, ' '), " WARN batch 3 of nine");
    MOB_LOG_INFO("sdk", "node_found", "x=%d", 1);
    assert_string_equal(strchr(got.line, ' '), " INFO sdk node_found x=1");
    assert_int_equal(got.lines, 2);
}

static void what_is_below_the_threshold_is_left_out(void **state)
{
    (void)state;
    mob_log(NULL, MOB_LOG_LEVEL_DEBUG, "not this");
    assert_int_equal(got.lines, 0);
    mob_set_log_level(MOB_LOG_LEVEL_DEBUG);
    mob_log(NULL, MOB_LOG_LEVEL_DEBUG, "this");
    assert_int_equal(got.lines, 1);
    mob_set_log_level(MOB_LOG_LEVEL_ERROR);
    mob_log(NULL, MOB_LOG_LEVEL_WARN, "not this");
    assert_int_equal(got.lines, 1);
}

static void *log_many(void *arg)
{
    for (int i = 0; i < LINES; i++)
        mob_log(NULL, MOB_LOG_LEVEL_INFO, "thread %d line %d", *(int *)arg, i);
    return NULL;
}

static void threads_log_one_at_a_time(void **state)
{
    (void)state;
    pthread_t threads[THREADS];
    int numbers[THREADS];
    for (int i = 0; i < THREADS; i++) {
        numbers[i] = i;
        assert_int_equal(pthread_create(&threads[i], NULL, log_many, &numbers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(got.lines, THREADS * LINES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_driver_logs_beside_the_library, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_is_below_the_threshold_is_left_out, set_up, tear_down),
        cmocka_unit_test_setup_teardown(threads_log_one_at_a_time, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
