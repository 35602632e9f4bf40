/* The clock that is read from the processor's counter: within the clock's own reading, never backwards, and
 * not at all where the counter is no clock. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "common/base/near_clock.h"

enum { TICKS_PER_US = 3000 }; /* of the counter that the notes below pretend */

static int64_t note_at(struct mob_near_clock *clock, int64_t us)
{
    uint64_t ticks = (uint64_t)us * TICKS_PER_US;
    return mob_near_note(clock, ticks, us * MOB_US, ticks);
}

/* Read often enough for the rate to be known, until `us`. */
static void measure_until(struct mob_near_clock *clock, int64_t us)
{
    for (int64_t at = us - 200; at <= us; at += 20)
        note_at(clock, at);
}

static void nothing_is_told_before_the_rate_is_known(void **state)
{
    (void)state;
    struct mob_near_clock clock = {0};
    note_at(&clock, 1000);
    assert_int_equal(mob_near_at(&clock, 1000 * TICKS_PER_US + 1), -1);
    note_at(&clock, 1050);
    assert_int_equal(mob_near_at(&clock, 1050 * TICKS_PER_US + 1), -1);
}

static void a_counter_is_read_as_time_for_a_while(void **state)
{
    (void)state;
    struct mob_near_clock clock = {0};
    measure_until(&clock, 5000);
    assert_int_equal(mob_near_at(&clock, 5000 * TICKS_PER_US), 5000 * MOB_US);
    int64_t told = mob_near_at(&clock, 5040 * TICKS_PER_US);
    assert_in_range(told, 5040 * MOB_US - 2, 5040 * MOB_US + 2);
    assert_int_equal(mob_near_at(&clock, 5051 * TICKS_PER_US), -1); /* MOB_NEAR_FOR_NS are over */
    assert_int_equal(mob_near_at(&clock, 4999 * TICKS_PER_US), -1); /* another counter, behind ours */
}

static void no_answer_is_before_another(void **state)
{
    (void)state;
    struct mob_near_clock clock = {0};
    measure_until(&clock, 5000);
    int64_t told = mob_near_at(&clock, 5040 * TICKS_PER_US);
    /* the clock was a little slower than foreseen */
    uint64_t ticks = 5040 * TICKS_PER_US + 30;
    assert_int_equal(mob_near_note(&clock, ticks, told - 10, ticks), told);
    assert_int_equal(mob_near_at(&clock, ticks), told);
    assert_true(mob_near_at(&clock, ticks + TICKS_PER_US) > told);
}

static void a_reading_that_was_interrupted_is_not_built_on(void **state)
{
    (void)state;
    struct mob_near_clock clock = {0};
    measure_until(&clock, 5000);
    uint64_t before = 5010 * TICKS_PER_US, after = 5020 * TICKS_PER_US;
    assert_int_equal(mob_near_note(&clock, before, 5011 * MOB_US, after), 5011 * MOB_US);
    assert_int_equal(mob_near_at(&clock, after), -1);
    note_at(&clock, 5021);
    assert_int_equal(mob_near_at(&clock, 5021 * TICKS_PER_US), 5021 * MOB_US);
}

static void a_counter_whose_rate_changes_is_measured_anew(void **state)
{
    (void)state;
    struct mob_near_clock clock = {0};
    measure_until(&clock, 5000);
    /* a jump of the counter by a tenth of the time that the rate is measured over */
    const uint64_t jump = 100 * TICKS_PER_US;
    uint64_t ticks = 5800 * TICKS_PER_US + jump;
    mob_near_note(&clock, ticks, 5800 * MOB_US, ticks);
    assert_int_equal(mob_near_at(&clock, ticks), -1);
    ticks += 50 * TICKS_PER_US;
    mob_near_note(&clock, ticks, 5850 * MOB_US, ticks);
    assert_int_equal(mob_near_at(&clock, ticks), -1);
    ticks += 100 * TICKS_PER_US;
    mob_near_note(&clock, ticks, 5950 * MOB_US, ticks);
    int64_t told = mob_near_at(&clock, ticks + 10 * TICKS_PER_US);
    assert_in_range(told, 5960 * MOB_US - 2, 5960 * MOB_US + 2);
}

static void an_implausible_counter_is_never_used(void **state)
{
    (void)state;
    struct mob_near_clock still = {0}, slow = {0};
    for (int64_t us = 1000; us < 3000; us += 50) {
        mob_near_note(&still, 7, us * MOB_US, 7);
        assert_int_equal(mob_near_at(&still, 7), -1);
        mob_near_note(&slow, (uint64_t)us, us * MOB_US, (uint64_t)us); /* a megahertz */
        assert_int_equal(mob_near_at(&slow, (uint64_t)us), -1);
    }
}

/* Both around it: whatever the machine does in between, the answer lies near one of them or between them. */
static void it_shows_what_the_clock_shows(void **state)
{
    (void)state;
    const int64_t off_by_ns = 20 * MOB_US; /* 50 ns, were it not for machines that are moved and slowed */
    struct mob_near_clock clock = {0};
    int64_t last = 0, until = mob_now() + 20 * MOB_MS;
    for (int64_t before = 0; before < until;) {
        before = mob_now();
        int64_t told = mob_near_now(&clock), after = mob_now();
        assert_true(told >= last);
        assert_true(told >= before - off_by_ns && told <= after + off_by_ns);
        last = told;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_told_before_the_rate_is_known),
        cmocka_unit_test(a_counter_is_read_as_time_for_a_while),
        cmocka_unit_test(no_answer_is_before_another),
        cmocka_unit_test(a_reading_that_was_interrupted_is_not_built_on),
        cmocka_unit_test(a_counter_whose_rate_changes_is_measured_anew),
        cmocka_unit_test(an_implausible_counter_is_never_used),
        cmocka_unit_test(it_shows_what_the_clock_shows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
