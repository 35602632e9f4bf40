/* What subscribers are told. Under faults: sim/chain, sim/without-stream-*. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "gcs/chain/chain_stream.h"

static void only_a_tail_serves_and_none_whose_epoch_is_older_than_the_subscribers(void **state)
{
    (void)state;
    struct mob_state *tables = mob_state_create();
    struct mob_chain *sole = mob_chain_create(&(struct mob_chain_options){.state = tables});
    assert_int_equal(mob_chain_epoch(sole), 1);
    assert_true(mob_chain_stream_may_serve(sole, UINT64_MAX));
    assert_true(mob_chain_stream_may_serve(sole, 1));
    assert_false(mob_chain_stream_may_serve(sole, 2));
    mob_chain_destroy(sole);
    struct mob_chain *idle = mob_chain_create(&(struct mob_chain_options){.self = 7, .state = tables});
    assert_false(mob_chain_stream_may_serve(idle, UINT64_MAX));
    mob_chain_destroy(idle);
    mob_state_destroy(tables);
}

static void a_position_is_good_up_to_the_lowest_restart_that_it_has_not_seen(void **state)
{
    (void)state;
    const struct mob_chain_stream_base bases[] = {{3, 340}, {5, 300}, {8, 420}};
    assert_int_equal(mob_chain_stream_end(bases, 3, 2, 500), 300);
    assert_int_equal(mob_chain_stream_end(bases, 3, 5, 500), 420);
    assert_int_equal(mob_chain_stream_end(bases, 3, 8, 500), 500);
    assert_int_equal(mob_chain_stream_end(bases, 3, 5, 410), 410);
    assert_int_equal(mob_chain_stream_end(bases, 3, UINT64_MAX, 500), 500);
}

static void blocks_come_when_they_are_committed_and_a_hole_before_what_is_behind_it(void **state)
{
    (void)state;
    assert_int_equal(mob_chain_stream_next(10, 0, 20, 5), MOB_CHAIN_STREAM_WAIT);
    assert_int_equal(mob_chain_stream_next(10, 21, 20, 5), MOB_CHAIN_STREAM_WAIT);
    assert_int_equal(mob_chain_stream_next(10, 20, 20, 5), MOB_CHAIN_STREAM_BLOCK);
    assert_int_equal(mob_chain_stream_next(10, 20, 20, 10), MOB_CHAIN_STREAM_BLOCK);
    assert_int_equal(mob_chain_stream_next(10, 20, 20, 11), MOB_CHAIN_STREAM_HOLE);
    assert_int_equal(mob_chain_stream_next(10, 0, 20, 11), MOB_CHAIN_STREAM_HOLE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_a_tail_serves_and_none_whose_epoch_is_older_than_the_subscribers),
        cmocka_unit_test(a_position_is_good_up_to_the_lowest_restart_that_it_has_not_seen),
        cmocka_unit_test(blocks_come_when_they_are_committed_and_a_hole_before_what_is_behind_it),
    };
    return cmocka_run_group_tests_name("chain_stream", tests, NULL, NULL);
}
