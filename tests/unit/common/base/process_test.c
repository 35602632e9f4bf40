/* What the kernel tells of processes: living, stopped, ended and not asked for, gone. */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "common/base/clock.h"
#include "common/base/process.h"

static pid_t fork_sleeper(void)
{
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        prctl(PR_SET_NAME, "a) R 1 (b");
        for (;;)
            pause();
    }
    assert_true(pid > 0);
    return pid;
}

static void a_process_sees_itself(void **state)
{
    struct mob_process p, again;
    (void)state;
    assert_true(mob_process_look(getpid(), &p));
    assert_int_equal(p.state, 'R');
    assert_int_equal(p.parent, getppid());
    assert_false(p.exits);
    assert_true(p.started > 0);
    assert_int_equal(mob_process_started(getpid()), p.started);
    volatile uint64_t work = 0;
    do {
        for (int i = 0; i < 100000; i++)
            work += (uint64_t)i;
        assert_true(mob_process_look(getpid(), &again));
    } while (again.cpu_ns < p.cpu_ns + 30 * MOB_MS);
    assert_int_equal(again.started, p.started);
}

static void one_with_a_bad_name_stops_and_ends(void **state)
{
    struct mob_process p;
    siginfo_t ended;
    (void)state;
    pid_t pid = fork_sleeper();
    uint64_t started = mob_process_started(pid);
    assert_true(started >= mob_process_started(getpid()));
    assert_false(mob_process_is_stopped(pid));
    kill(pid, SIGSTOP);
    assert_int_equal(waitpid(pid, NULL, WUNTRACED), pid);
    assert_true(mob_process_is_stopped(pid));
    assert_true(mob_process_look(pid, &p));
    assert_int_equal(p.parent, getpid());
    assert_false(p.exits);
    assert_int_equal(p.started, started);
    assert_false(mob_process_is_over(pid, started));
    assert_true(mob_process_is_over(pid, started + 1)); /* a later one has that number */
    kill(pid, SIGKILL);
    assert_int_equal(waitid(P_PID, (id_t)pid, &ended, WEXITED | WNOWAIT), 0);
    assert_true(mob_process_look(pid, &p));
    assert_int_equal(p.state, 'Z');
    assert_true(p.exits);
    assert_int_equal(mob_process_started(pid), 0);
    assert_true(mob_process_is_over(pid, started));
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    assert_true(mob_process_is_over(pid, started));
    assert_false(mob_process_look(pid, &p));
    assert_int_equal(p.started, 0);
    assert_int_equal(mob_process_started(pid), 0);
    assert_false(mob_process_is_stopped(pid));
}

static void *sleep_for_ever(void *arg)
{
    for (;;)
        pause();
    return arg;
}

/* It is a zombie, and runs: what its threads hold is not lost. */
static void one_whose_first_thread_has_ended_is_not_over(void **state)
{
    struct mob_process p;
    (void)state;
    pid_t pid = fork();
    if (pid == 0) {
        pthread_t thread;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (pthread_create(&thread, NULL, sleep_for_ever, NULL) == 0)
            pthread_exit(NULL);
        _exit(1);
    }
    for (int64_t deadline = mob_now() + 10 * MOB_SEC; mob_process_look(pid, &p) && p.state != 'Z';)
        assert_true(mob_now() < deadline);
    assert_int_equal(p.threads, 2);
    assert_false(mob_process_is_over(pid, p.started));
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    assert_true(mob_process_is_over(pid, p.started));
}

static void what_is_no_process_is_not_found(void **state)
{
    struct mob_process p;
    (void)state;
    assert_false(mob_process_look(0, &p));
    assert_false(mob_process_look(-1, &p));
    assert_int_equal(mob_process_started(0), 0);
    assert_false(mob_process_is_over(0, 5));
    assert_false(mob_process_is_over(getpid(), 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_process_sees_itself),
        cmocka_unit_test(one_with_a_bad_name_stops_and_ends),
        cmocka_unit_test(one_whose_first_thread_has_ended_is_not_over),
        cmocka_unit_test(what_is_no_process_is_not_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
