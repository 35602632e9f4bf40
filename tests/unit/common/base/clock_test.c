/* How far two clocks are apart, when who reads them is switched off in between. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "common/base/clock.h"

enum { APART = 5000000 };
/* Each reading of a clock takes 20 ns, and the ones named here so much longer. */
static int64_t now_ns, late_ns;
static int reading, late_until;

static int64_t mono(void)
{
    now_ns += 20;
    return now_ns;
}

static int64_t wall(void)
{
    int64_t then = mono() + APART;
    if (reading++ < late_until)
        now_ns += late_ns - reading; /* the later, the less */
    return then;
}

static int64_t apart_when(int late_readings, int64_t ns)
{
    reading = 0;
    late_until = late_readings;
    late_ns = ns;
    return mob_clocks_apart(mono, wall);
}

static void is_told_to_tens_of_nanoseconds(void **state)
{
    (void)state;
    assert_in_range(apart_when(0, 0), APART - 40, APART + 40);
    assert_int_equal(reading, 1);
}

static void readings_far_apart_are_taken_again(void **state)
{
    (void)state;
    assert_in_range(apart_when(3, 4 * MOB_MS), APART - 40, APART + 40);
    assert_int_equal(reading, 4);
}

/* On a machine on which every reading takes long the closest two count, and it ends. */
static void the_closest_count_when_all_are_far_apart(void **state)
{
    (void)state;
    assert_in_range(apart_when(1000, 3 * MOB_US), APART - 1600, APART + 40);
    assert_int_equal(reading, 16);
}

static void of_this_machine(void **state)
{
    (void)state;
    int64_t apart = mob_wall_minus_mono(), later = mob_wall_now() - mob_now();
    assert_in_range(later - apart + MOB_SEC, 0, 2 * MOB_SEC); /* unless somebody sets the clock meanwhile */
}

/* Seconds by which the wall clock of a process is wrong that begins with this in its environment; -1000: it
 * ended with an error. */
static long offset_of(const char *setting)
{
    char command[64], text[64] = "";
    setenv("MOBULA_TEST_WALL_OFFSET_S", setting, 1);
    snprintf(command, sizeof command, "/proc/%d/exe offset 2>&1", (int)getpid());
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    char *line = fgets(text, sizeof text, pipe);
    int status = pclose(pipe);
    unsetenv("MOBULA_TEST_WALL_OFFSET_S");
    return line != NULL && WIFEXITED(status) && WEXITSTATUS(status) == 0 ? strtol(text, NULL, 10) : -1000;
}

static int print_offset(void)
{
    int64_t apart = mob_clocks_apart(mob_now, mob_wall_now);
    int64_t right = mob_clock_of(CLOCK_REALTIME) - mob_now(), half = MOB_SEC / 2;
    int64_t wrong = apart - right;
    printf("%lld\n", (long long)((wrong + (wrong < 0 ? -half : half)) / MOB_SEC));
    return 0;
}

static void a_test_sets_the_clock_of_a_process(void **state)
{
    (void)state;
    assert_int_equal(offset_of("0"), 0);
    assert_int_equal(offset_of("3600"), 3600);
    assert_int_equal(offset_of("-3600"), -3600);
    assert_int_equal(offset_of("an hour"), -1000);
    assert_int_equal(offset_of("3600s"), -1000);
    assert_int_equal(offset_of(""), -1000);
}

int main(int argc, char **argv)
{
    (void)argv;
    if (argc > 1)
        return print_offset();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(is_told_to_tens_of_nanoseconds),
        cmocka_unit_test(readings_far_apart_are_taken_again),
        cmocka_unit_test(the_closest_count_when_all_are_far_apart),
        cmocka_unit_test(of_this_machine),
        cmocka_unit_test(a_test_sets_the_clock_of_a_process),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
