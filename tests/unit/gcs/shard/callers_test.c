/* Whom a member's next life may take for dead: only those of whom it is proved, and only when they are all.
 */
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/base/process.h"
#include "gcs/shard/callers.h"
#include "tests/support/scratch.h"

static struct {
    char directory[64], path[96];
    struct mob_callers *now;
    pid_t child;
    uint64_t started;
} f;

static void life(uint32_t before, uint32_t now)
{
    mob_callers_destroy(f.now);
    assert_int_equal(mob_callers_open(f.path, before, now, &f.now), MOB_OK);
}

static int set_up(void **state)
{
    (void)state;
    f.now = NULL;
    scratch_make(f.directory, sizeof f.directory, "mob-callers");
    snprintf(f.path, sizeof f.path, "%s/callers", f.directory);
    f.child = fork();
    if (f.child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;)
            pause();
    }
    f.started = mob_process_started(f.child);
    life(0, 2);
    return 0;
}

static void end_child(void)
{
    if (f.child == 0)
        return;
    kill(f.child, SIGKILL);
    waitpid(f.child, NULL, 0);
    f.child = 0;
}

static int tear_down(void **state)
{
    (void)state;
    end_child();
    mob_callers_destroy(f.now);
    scratch_remove(f.directory);
    return 0;
}

static void nothing_is_known_of_a_member_that_left_no_file(void **state)
{
    (void)state;
    assert_false(mob_callers_over(f.now));
}

static void a_caller_that_lives_is_waited_for_and_one_that_is_over_is_not(void **state)
{
    (void)state;
    mob_callers_vouch(f.now);
    assert_true(mob_callers_add(f.now, f.child, f.started));
    assert_true(mob_callers_add(f.now, f.child, f.started)); /* another connection of it */
    life(2, 3);
    assert_false(mob_callers_over(f.now));
    life(3, 4); /* and has not called since */
    assert_false(mob_callers_over(f.now));
    end_child();
    life(4, 5);
    assert_true(mob_callers_over(f.now));
}

static void a_member_that_collected_and_died_before_the_end_vouches_for_nobody(void **state)
{
    (void)state;
    assert_true(mob_callers_add(f.now, f.child, f.started));
    end_child();
    life(2, 3);
    assert_false(mob_callers_over(f.now));
    mob_callers_vouch(f.now);
    life(3, 4);
    assert_true(mob_callers_over(f.now));
}

static void a_caller_that_is_not_known_makes_all_unknown(void **state)
{
    (void)state;
    mob_callers_vouch(f.now);
    assert_true(mob_callers_add(f.now, 0, 0)); /* of another pid namespace, or behind a forwarder */
    mob_callers_vouch(f.now); /* too late for this life */
    life(2, 3);
    assert_false(mob_callers_over(f.now));
}

static void a_life_in_between_that_wrote_nothing_makes_all_unknown(void **state)
{
    (void)state;
    mob_callers_vouch(f.now);
    life(7, 8); /* the store was used by another, of a version that knows no such file */
    assert_false(mob_callers_over(f.now));
}

static void change_byte(off_t at)
{
    uint8_t byte;
    int fd = open(f.path, O_RDWR | O_CLOEXEC);
    assert_int_equal(pread(fd, &byte, 1, at), 1);
    byte ^= 1;
    assert_int_equal(pwrite(fd, &byte, 1, at), 1);
    close(fd);
}

static void the_file_of_another_boot_or_format_says_nothing(void **state)
{
    (void)state;
    mob_callers_vouch(f.now);
    change_byte(20); /* of the boot */
    life(2, 3);
    assert_false(mob_callers_over(f.now));
    mob_callers_vouch(f.now);
    change_byte(3); /* of the magic */
    life(3, 4);
    assert_false(mob_callers_over(f.now));
    mob_callers_vouch(f.now);
    assert_int_equal(truncate(f.path, 1000), 0);
    life(4, 5);
    assert_false(mob_callers_over(f.now));
    mob_callers_vouch(f.now);
    life(5, 6);
    assert_true(mob_callers_over(f.now)); /* as it is without all that */
}

static void the_file_is_bounded_and_forgets_only_those_that_are_over(void **state)
{
    (void)state;
    struct stat first, last;
    assert_int_equal(stat(f.path, &first), 0);
    mob_callers_vouch(f.now);
    assert_true(mob_callers_add(f.now, f.child, f.started));
    for (uint64_t i = 1; i <= 2 * MOB_CALLERS_MAX; i++) /* none of which ever was */
        assert_true(mob_callers_add(f.now, f.child, f.started + i));
    assert_int_equal(stat(f.path, &last), 0);
    assert_int_equal(last.st_size, first.st_size);
    life(2, 3);
    assert_false(mob_callers_over(f.now));
    end_child();
    life(3, 4);
    assert_true(mob_callers_over(f.now));
}

static void a_file_that_cannot_be_made_is_none(void **state)
{
    (void)state;
    mob_callers_vouch(f.now);
    mob_callers_destroy(f.now);
    f.now = NULL;
    struct mob_callers *none;
    char path[128];
    snprintf(path, sizeof path, "%s/no/callers", f.directory);
    assert_int_equal(mob_callers_open(path, 2, 3, &none), MOB_OK);
    assert_false(mob_callers_over(none));
    mob_callers_vouch(none);
    assert_true(mob_callers_add(none, f.child, f.started));
    mob_callers_destroy(none);
    assert_int_equal(access(path, F_OK), -1);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        CASE(nothing_is_known_of_a_member_that_left_no_file),
        CASE(a_caller_that_lives_is_waited_for_and_one_that_is_over_is_not),
        CASE(a_member_that_collected_and_died_before_the_end_vouches_for_nobody),
        CASE(a_caller_that_is_not_known_makes_all_unknown),
        CASE(a_life_in_between_that_wrote_nothing_makes_all_unknown),
        CASE(the_file_of_another_boot_or_format_says_nothing),
        CASE(the_file_is_bounded_and_forgets_only_those_that_are_over),
        CASE(a_file_that_cannot_be_made_is_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
