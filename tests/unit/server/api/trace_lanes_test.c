#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>

#include "server/api/trace_lanes.h"
#include "server/api/trace_tracks.h"

static struct trace_items items;
static struct mob_text text;

static void add(uint32_t task, uint32_t worker, int64_t begin_us, int64_t end_us, bool is_span)
{
    trace_items_begin(&items, &text, end_us);
    trace_items_slice(&items, (struct mob_task_id){.index = task},
        &(struct trace_slice){
            .incarnation = 1, .worker = worker, .begin_us = begin_us, .end_us = end_us, .is_span = is_span});
    trace_items_end(&items, &text);
}

static void span(int64_t begin_us, int64_t end_us)
{
    add(1, 3, begin_us, end_us, true);
}

static void expect_lanes(const uint32_t *wanted, size_t count)
{
    trace_lanes_assign(&items);
    assert_int_equal(items.count, count);
    for (size_t i = 0; i < count; i++)
        if (items.items[i].slice.lane != wanted[i])
            fail_msg("slice %zu: lane %u, wanted %u", i, items.items[i].slice.lane, wanted[i]);
    trace_items_fini(&items);
    mob_text_fini(&text);
}

static void what_nests_stays_with_its_task(void **state)
{
    (void)state;
    span(10, 20); /* told in the order of their ends */
    span(20, 30);
    span(10, 40);
    span(50, 50);
    span(0, 100);
    add(1, 3, 0, 100, false);
    add(2, 3, 100, 130, false);
    add(2, 3, 100, 130, true);
    expect_lanes((uint32_t[]){0, 0, 0, 0, 0, 0, 0, 0}, 8);
}

static void what_overlaps_gets_the_lowest_lane_that_is_free(void **state)
{
    (void)state;
    add(1, 3, 0, 100, false);
    span(10, 30);
    span(20, 40); /* over the end of the first */
    span(21, 39); /* within that: as well as on a lane of its own, and below */
    span(35, 45);
    span(36, 44);
    span(50, 60); /* behind all */
    add(2, 4, 15, 35, false); /* on another worker */
    expect_lanes((uint32_t[]){0, 0, 1, 1, 0, 0, 0, 0}, 8);
}

static void spans_of_unfinished_tasks_do_not_hide_each_other(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < TRACE_LANES_MAX + 2; i++)
        add(i, TRACE_TRACK_OF_RUNNING, i, 1000 + i, true);
    trace_lanes_assign(&items);
    for (uint32_t i = 0; i < TRACE_LANES_MAX + 2; i++) {
        uint32_t wanted = i < TRACE_LANES_MAX ? i : TRACE_LANES_MAX - 1;
        assert_int_equal(items.items[i].slice.lane, wanted);
        assert_int_equal(trace_track_of(TRACE_TRACK_OF_RUNNING, wanted), UINT32_MAX - wanted);
    }
    trace_items_fini(&items);
    mob_text_fini(&text);
}

static void a_span_does_not_reach_beyond_its_task_for_a_clock(void **state)
{
    (void)state;
    span(999, 1501);
    add(1, 3, 1000, 1500, false); /* a second attempt */
    span(1100, 1100 + 2 * TRACE_SLACK_US); /* of something else than this run */
    add(1, 3, 100, 200, false);
    span(99, 200);
    trace_lanes_assign(&items);
    const struct trace_item *at = items.items;
    assert_int_equal(at[0].slice.begin_us, 1000);
    assert_int_equal(at[0].slice.end_us, 1500);
    assert_int_equal(at[0].slice.lane, 0);
    assert_int_equal(at[2].slice.end_us, 1100 + 2 * TRACE_SLACK_US);
    assert_int_equal(at[2].slice.lane, 1);
    assert_int_equal(at[4].slice.begin_us, 100);
    trace_items_fini(&items);
    mob_text_fini(&text);
}

static void a_span_is_written_with_its_place(void **state)
{
    (void)state;
    struct mob_text out = {0};
    size_t length;
    add(1, 3, 0, 50, false);
    for (int i = 0; i < 2; i++) {
        trace_items_begin(&items, &text, 30 + i);
        mob_text_puts(&text, "{\"name\":\"x\"");
        trace_items_slice(&items, (struct mob_task_id){.index = 1},
            &(struct trace_slice){
                .incarnation = 1, .worker = 3, .begin_us = 10 + i, .end_us = 30 + i, .is_span = true});
        trace_items_end(&items, &text);
    }
    trace_lanes_assign(&items);
    trace_items_compose(&items, &text, &out);
    char *got = mob_text_take(&out, &length), wanted[160];
    snprintf(wanted, sizeof wanted,
        ",\n{\"name\":\"x\",\"ts\":10,\"dur\":20,\"tid\":3},\n{\"name\":\"x\",\"ts\":11,\"dur\":20,\"tid\":%"
        "u}",
        trace_track_of(3, 1));
    assert_string_equal(got, wanted);
    free(got);
    trace_items_fini(&items);
    mob_text_fini(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_nests_stays_with_its_task),
        cmocka_unit_test(what_overlaps_gets_the_lowest_lane_that_is_free),
        cmocka_unit_test(spans_of_unfinished_tasks_do_not_hide_each_other),
        cmocka_unit_test(a_span_does_not_reach_beyond_its_task_for_a_clock),
        cmocka_unit_test(a_span_is_written_with_its_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
