/* Failpoints. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/failpoint.h"

static int tear_down(void **state)
{
    (void)state;
    return mob_failpoints_configure(NULL) ? 0 : -1;
}

static void disarmed_ones_do_nothing(void **state)
{
    (void)state;
    assert_true(mob_failpoints_configure(""));
    assert_false(mob_failpoints_armed);
    assert_false(MOB_FAILPOINT("a.b"));
}

static void error_hits_only_its_own_name(void **state)
{
    (void)state;
    assert_true(mob_failpoints_configure("store.seal=error"));
    assert_true(MOB_FAILPOINT("store.seal"));
    assert_false(MOB_FAILPOINT("store.sea"));
    assert_false(MOB_FAILPOINT("store.seals"));
    assert_true(MOB_FAILPOINT("store.seal"));
}

static void error_at_the_nth_passage_only(void **state)
{
    (void)state;
    assert_true(mob_failpoints_configure("x=error@3,y=error@1"));
    assert_false(MOB_FAILPOINT("x"));
    assert_false(MOB_FAILPOINT("x"));
    assert_true(MOB_FAILPOINT("x"));
    assert_false(MOB_FAILPOINT("x"));
    assert_true(MOB_FAILPOINT("y"));
}

static void delay_waits_and_goes_on(void **state)
{
    (void)state;
    assert_true(mob_failpoints_configure("x=delay:20"));
    int64_t start = mob_now();
    assert_false(MOB_FAILPOINT("x"));
    assert_true(mob_now() - start >= 20 * MOB_MS);
}

static void kill_ends_the_process(void **state)
{
    (void)state;
    assert_true(mob_failpoints_configure("x=kill@2"));
    pid_t child = fork();
    if (child == 0) {
        (void)MOB_FAILPOINT("x");
        (void)MOB_FAILPOINT("x");
        _exit(0);
    }
    int how;
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_true(WIFSIGNALED(how) && WTERMSIG(how) == SIGKILL);
}

static void stop_pauses_the_process_until_it_is_continued(void **state)
{
    (void)state;
    assert_true(mob_failpoints_configure("x=stop"));
    pid_t child = fork();
    if (child == 0) {
        (void)MOB_FAILPOINT("x");
        _exit(7);
    }
    int how;
    assert_int_equal(waitpid(child, &how, WUNTRACED), child);
    assert_true(WIFSTOPPED(how));
    kill(child, SIGCONT);
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_true(WIFEXITED(how) && WEXITSTATUS(how) == 7);
}

static void *pass_once(void *arg)
{
    (void)MOB_FAILPOINT("x");
    atomic_store((atomic_int *)arg, 1);
    return NULL;
}

/* The thread at the failpoint does not run on while another one takes the signal for the process. */
static void stop_holds_the_thread_that_is_there(void **state)
{
    (void)state;
    assert_true(mob_failpoints_configure("x=stop"));
    atomic_int *passed =
        mmap(NULL, sizeof *passed, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(passed != MAP_FAILED);
    for (int i = 0; i < 50; i++) {
        atomic_store(passed, 0);
        pid_t child = fork();
        if (child == 0) {
            pthread_t thread;
            pthread_create(&thread, NULL, pass_once, passed);
            pthread_join(thread, NULL);
            _exit(0);
        }
        int how;
        assert_int_equal(waitpid(child, &how, WUNTRACED), child);
        bool held = WIFSTOPPED(how) && atomic_load(passed) == 0;
        kill(child, SIGKILL);
        assert_int_equal(waitpid(child, &how, 0), child);
        if (!held)
            fail_msg("round %d: it went on before the process was stopped", i);
    }
    munmap(passed, sizeof *passed);
}

static void syntax_errors_change_nothing(void **state)
{
    (void)state;
    assert_true(mob_failpoints_configure("x=error"));
    static const char *const bad[] = {"y", "=error", "y=", "y=fail", "y=error@0", "y=error@-1", "y=error@",
        "y=delay:", "y=delay:-1", "y=error,z"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (mob_failpoints_configure(bad[i]))
            fail_msg("accepted: %s", bad[i]);
    assert_true(MOB_FAILPOINT("x"));
    assert_false(MOB_FAILPOINT("y"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(disarmed_ones_do_nothing, tear_down),
        cmocka_unit_test_teardown(error_hits_only_its_own_name, tear_down),
        cmocka_unit_test_teardown(error_at_the_nth_passage_only, tear_down),
        cmocka_unit_test_teardown(delay_waits_and_goes_on, tear_down),
        cmocka_unit_test_teardown(kill_ends_the_process, tear_down),
        cmocka_unit_test_teardown(stop_pauses_the_process_until_it_is_continued, tear_down),
        cmocka_unit_test_teardown(stop_holds_the_thread_that_is_there, tear_down),
        cmocka_unit_test_teardown(syntax_errors_change_nothing, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
