/* Who is the master: when a standby looks at the row, and when it takes it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/base/clock.h"
#include "gcs/chain/membership.h"

#define BEGIN (7 * MOB_SEC)

static const struct mob_mastership_times times = MOB_MASTERSHIP_TIMES;

/* The first look of a standby, answered at once. */
static int64_t look(struct mob_mastership *m, struct mob_master_row row)
{
    assert_int_equal(mob_mastership_step(m, &times, BEGIN), MOB_MASTERSHIP_LOOK);
    mob_mastership_on_row(m, &row, BEGIN);
    return BEGIN;
}

static void takes_at_once(struct mob_master_row row)
{
    struct mob_mastership m = {0};
    int64_t now = look(&m, row);
    assert_int_equal(mob_mastership_pause_ns(&m, now), 0);
    assert_int_equal(mob_mastership_step(&m, &times, now), MOB_MASTERSHIP_TAKE);
    assert_int_equal(m.next.term, row.term + 1);
    mob_mastership_on_set(&m, MOB_OK, now);
    assert_true(m.active);
}

static void a_row_that_nobody_had_is_taken_at_once(void **state)
{
    (void)state;
    takes_at_once((struct mob_master_row){0, 0});
}

static void a_row_that_was_given_back_is_taken_at_once(void **state)
{
    (void)state;
    takes_at_once((struct mob_master_row){3, MOB_MASTER_RELEASED});
}

/* It may live: its beat must stand still for the whole time by this one's clock. */
static void a_row_that_is_held_is_waited_for(void **state)
{
    (void)state;
    struct mob_mastership m = {0};
    struct mob_master_row row = {3, 17};
    int64_t now = look(&m, row), looks = 0;
    enum mob_mastership_step step;
    while ((step = mob_mastership_step(&m, &times, now)) != MOB_MASTERSHIP_TAKE && looks < 100) {
        looks += step == MOB_MASTERSHIP_LOOK;
        if (step == MOB_MASTERSHIP_LOOK)
            mob_mastership_on_row(&m, &row, now);
        now += mob_mastership_pause_ns(&m, now);
    }
    assert_int_equal(now - BEGIN, times.takeover_ns);
    assert_int_equal(looks, times.takeover_ns / times.beat_ns - 1);
}

/* Two found it free; the other was first, and has it. */
static void who_comes_second_looks_again_and_waits(void **state)
{
    (void)state;
    struct mob_mastership m = {0};
    int64_t now = look(&m, (struct mob_master_row){3, MOB_MASTER_RELEASED});
    assert_int_equal(mob_mastership_step(&m, &times, now), MOB_MASTERSHIP_TAKE);
    mob_mastership_on_set(&m, MOB_CONFLICT, now);
    assert_int_equal(mob_mastership_step(&m, &times, now), MOB_MASTERSHIP_LOOK);
    mob_mastership_on_row(&m, &(struct mob_master_row){4, 0}, now);
    assert_int_equal(mob_mastership_step(&m, &times, now), MOB_MASTERSHIP_WAIT);
    assert_int_equal(mob_mastership_pause_ns(&m, now), times.beat_ns);
}

/* While its database starts a standby looks often, and never more seldom than one that gets answers. */
static void a_table_that_does_not_answer_is_asked_again_soon(void **state)
{
    (void)state;
    struct mob_mastership m = {0};
    int64_t now = BEGIN, longest = 0, early = 0;
    for (int looks = 0; looks < 400; looks++) {
        assert_int_equal(mob_mastership_step(&m, &times, now), MOB_MASTERSHIP_LOOK);
        mob_mastership_on_no_row(&m, now);
        int64_t pause = mob_mastership_pause_ns(&m, now);
        longest = pause > longest ? pause : longest;
        early = now - BEGIN < 300 * MOB_MS ? longest : early;
        now += pause;
    }
    assert_in_range(early, 1 * MOB_MS, 25 * MOB_MS);
    assert_int_equal(longest, times.beat_ns);
    /* and one answer is enough to forget that */
    assert_int_equal(mob_mastership_step(&m, &times, now), MOB_MASTERSHIP_LOOK);
    mob_mastership_on_row(&m, &(struct mob_master_row){3, 17}, now);
    now += times.beat_ns;
    assert_int_equal(mob_mastership_step(&m, &times, now), MOB_MASTERSHIP_LOOK);
    mob_mastership_on_no_row(&m, now);
    assert_true(mob_mastership_pause_ns(&m, now) < 10 * MOB_MS);
}

/* An active one whose set ended nobody knows how asks as often as it beats: its lease runs out by itself. */
static void an_active_one_that_hears_nothing_goes_on_in_its_time(void **state)
{
    (void)state;
    struct mob_mastership m = {0};
    int64_t now = look(&m, (struct mob_master_row){0, 0});
    assert_int_equal(mob_mastership_step(&m, &times, now), MOB_MASTERSHIP_TAKE);
    mob_mastership_on_set(&m, MOB_OK, now);
    now += times.beat_ns;
    assert_int_equal(mob_mastership_step(&m, &times, now), MOB_MASTERSHIP_BEAT);
    mob_mastership_on_set(&m, MOB_TIMEOUT, now);
    assert_int_equal(mob_mastership_step(&m, &times, now), MOB_MASTERSHIP_LOOK);
    mob_mastership_on_no_row(&m, now);
    assert_int_equal(mob_mastership_pause_ns(&m, now), times.beat_ns);
    assert_false(mob_mastership_fresh(&m, &times, BEGIN + times.fresh_ns));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_row_that_nobody_had_is_taken_at_once),
        cmocka_unit_test(a_row_that_was_given_back_is_taken_at_once),
        cmocka_unit_test(a_row_that_is_held_is_waited_for),
        cmocka_unit_test(who_comes_second_looks_again_and_waits),
        cmocka_unit_test(a_table_that_does_not_answer_is_asked_again_soon),
        cmocka_unit_test(an_active_one_that_hears_nothing_goes_on_in_its_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
