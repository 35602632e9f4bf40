/* Workers' logs, written by processes that do what a worker does with them, and read as the node does. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "runtime/worker/pool.h"
#include "runtime/worker/pool_internal.h"
#include "runtime/worker/worker_log.h"

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

enum { WORKER = 7 };

static struct mob_pool pool;
static const struct mob_task_id first = {.index = 1}, second = {.index = 2};

static int set_up(void **state)
{
    (void)state;
    pool = (struct mob_pool){.config = {.log_bytes_max = 64}};
    snprintf(pool.config.log_dir, sizeof pool.config.log_dir, "/tmp/mob-worker-log-XXXXXX");
    assert_non_null(mkdtemp(pool.config.log_dir));
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    char command[300];
    snprintf(command, sizeof command, "rm -rf -- %s", pool.config.log_dir);
    return system(command) == 0 ? 0 : -1;
}

/* A worker of that number lives for as long as `life` takes. */
static void run_worker(void (*life)(void))
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        if (mob_worker_log_open(&pool.config, WORKER) != MOB_OK)
            _exit(1);
        life();
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

static void say(struct mob_task_id task, const char *text)
{
    char tail[64];
    uint64_t written = mob_worker_log_written();
    mob_worker_log_task(task, 1);
    printf("%s", text);
    fflush(stdout);
    mob_worker_log_note(written, tail, sizeof tail);
}

static void is_quiet(void) {}

static void first_speaks(void)
{
    say(first, "one");
}

static void both_speak(void)
{
    say(first, "one");
    say(second, "two");
}

/* More than a file takes: the second begins in the next one. */
static void both_speak_at_length(void)
{
    say(first, "one, which is as long as a whole file of this test may be, and one more word");
    say(second, "two");
}

static void first_fills_a_file_around_stdio(void)
{
    say(first, "one, which is as long as a whole file of this test may be, and one more word");
    mob_worker_log_task(second, 1);
    if (write(1, " raw", 4) != 4)
        _exit(2);
}

static void speaks_around_stdio(void)
{
    mob_worker_log_task(first, 1);
    if (write(1, "raw", 3) != 3)
        _exit(2);
}

static bool there_is(const char *suffix)
{
    char name[MOB_LOG_NAME_MAX];
    struct stat st;
    mob_worker_log_name(pool.config.log_dir, WORKER, suffix, name);
    return stat(name, &st) == 0;
}

static void assert_said(struct mob_task_id task, bool runs, const char *text)
{
    char out[256];
    uint64_t total = 0;
    struct mob_pool_output output = {.task = task, .attempt = 1, .worker = WORKER, .runs = runs};
    size_t n = mob_pool_log_read(&pool, &output, 0, out, sizeof out - 1, &total);
    out[n] = 0;
    assert_string_equal(out, text);
    assert_int_equal(total, strlen(text));
}

static void who_writes_nothing_has_no_index(void **state)
{
    (void)state;
    run_worker(is_quiet);
    assert_true(there_is("log"));
    assert_false(there_is("idx"));
    assert_said(first, true, "");
    mob_pool_log_died(&pool, WORKER, first, 1);
    assert_false(there_is("idx"));
}

static void each_task_has_what_it_wrote(void **state)
{
    (void)state;
    run_worker(both_speak);
    assert_said(first, false, "one");
    assert_said(second, false, "two");
    run_worker(both_speak_at_length);
    assert_true(there_is("idx.1"));
    assert_said(second, false, "two");
}

static void a_quiet_worker_has_no_index_of_one_before(void **state)
{
    (void)state;
    run_worker(first_speaks);
    run_worker(is_quiet);
    assert_said(first, false, "one"); /* in the older file */
    run_worker(speaks_around_stdio);
    assert_true(there_is("log.1"));
    assert_false(there_is("idx.1"));
    assert_said(second, false, "");
}

static void what_stands_in_no_index_is_of_who_runs(void **state)
{
    (void)state;
    run_worker(speaks_around_stdio);
    assert_false(there_is("idx"));
    assert_said(first, true, "raw");
    assert_said(first, false, "");
}

static void what_stands_in_no_index_is_of_who_died(void **state)
{
    (void)state;
    run_worker(speaks_around_stdio);
    mob_pool_log_died(&pool, WORKER, first, 1);
    assert_said(first, false, "raw");
    run_worker(first_fills_a_file_around_stdio);
    mob_pool_log_died(&pool, WORKER, second, 1);
    assert_said(second, false, " raw");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(who_writes_nothing_has_no_index),
        TEST(each_task_has_what_it_wrote),
        TEST(a_quiet_worker_has_no_index_of_one_before),
        TEST(what_stands_in_no_index_is_of_who_runs),
        TEST(what_stands_in_no_index_is_of_who_died),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
