#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "server/serve/batch.h"

static struct mob_batch_entry calls[16], *taken[MOB_BATCH_CALLS_MAX];

static void idle_replica_gets_a_call_at_once(void **state)
{
    (void)state;
    struct mob_batcher b;
    mob_batch_init(&b, 8, 0);
    assert_true(mob_batch_add(&b, &calls[0], 1, 0, 0));
    assert_int_equal(mob_batch_take(&b, 0, taken), 1);
    /* A busy one lets them gather. */
    for (int i = 1; i < 8; i++)
        assert_true(mob_batch_add(&b, &calls[i], 1, 0, 0));
    assert_int_equal(mob_batch_take(&b, 0, taken), 0);
    mob_batch_ended(&b);
    assert_int_equal(mob_batch_take(&b, 0, taken), 7);
    assert_ptr_equal(taken[0], &calls[1]);
    assert_ptr_equal(taken[6], &calls[7]);
}

static void full_batch_leaves_behind_a_running_one(void **state)
{
    (void)state;
    struct mob_batcher b;
    mob_batch_init(&b, 4, 0);
    for (int i = 0; i < 10; i++)
        assert_true(mob_batch_add(&b, &calls[i], 1, 0, 0));
    assert_int_equal(mob_batch_take(&b, 0, taken), 4);
    assert_int_equal(mob_batch_take(&b, 0, taken), 4);
    assert_int_equal(mob_batch_take(&b, 0, taken), 0); /* two in flight */
    mob_batch_ended(&b);
    assert_int_equal(mob_batch_take(&b, 0, taken), 0); /* two rows do not fill a batch behind a running one */
    mob_batch_ended(&b);
    assert_int_equal(mob_batch_take(&b, 0, taken), 2);
}

static void who_leaves_is_not_taken(void **state)
{
    (void)state;
    struct mob_batcher b;
    mob_batch_init(&b, 8, 100);
    for (int i = 0; i < 4; i++)
        assert_true(mob_batch_add(&b, &calls[i], 2, 0, i));
    mob_batch_remove(&b, &calls[3]); /* the last, one in the middle, the first */
    mob_batch_remove(&b, &calls[1]);
    mob_batch_remove(&b, &calls[0]);
    mob_batch_remove(&b, &calls[0]); /* it is not there */
    assert_int_equal(b.count, 1);
    assert_int_equal(b.rows, 2);
    assert_int_equal(mob_batch_deadline(&b), 100002);
    assert_true(mob_batch_add(&b, &calls[4], 1, 0, 50));
    assert_int_equal(mob_batch_take(&b, 100002, taken), 2);
    assert_ptr_equal(taken[0], &calls[2]);
    assert_ptr_equal(taken[1], &calls[4]);
}

static void delay_waits_for_more_calls(void **state)
{
    (void)state;
    struct mob_batcher b;
    mob_batch_init(&b, 4, 100);
    assert_true(mob_batch_add(&b, &calls[0], 1, 0, 1000));
    assert_int_equal(mob_batch_deadline(&b), 101000);
    assert_int_equal(mob_batch_take(&b, 100999, taken), 0);
    assert_int_equal(mob_batch_take(&b, 101000, taken), 1);
    assert_true(mob_batch_add(&b, &calls[1], 3, 0, 2000));
    assert_true(mob_batch_add(&b, &calls[2], 1, 0, 2000));
    assert_int_equal(mob_batch_take(&b, 2000, taken), 2); /* full: no reason to wait */
}

static void only_equal_shapes_stack_and_order_is_kept(void **state)
{
    (void)state;
    struct mob_batcher b;
    mob_batch_init(&b, 8, 0);
    assert_true(mob_batch_add(&b, &calls[0], 2, 7, 0));
    assert_true(mob_batch_add(&b, &calls[1], 2, 7, 0));
    assert_true(mob_batch_add(&b, &calls[2], 4, 9, 0));
    assert_true(mob_batch_add(&b, &calls[3], 8, 9, 0)); /* as large as a batch may be: alone */
    assert_int_equal(mob_batch_take(&b, 0, taken), 2);
    assert_int_equal(mob_batch_take(&b, 0, taken), 1);
    assert_ptr_equal(taken[0], &calls[2]);
    mob_batch_ended(&b);
    assert_int_equal(mob_batch_take(&b, 0, taken), 1);
    assert_ptr_equal(taken[0], &calls[3]);
}

static void a_batch_comes_again_in_halves(void **state)
{
    (void)state;
    struct mob_batcher b;
    mob_batch_init(&b, 5, 1000);
    for (int i = 0; i < 7; i++)
        assert_true(mob_batch_add(&b, &calls[i], 1, 0, 0));
    assert_int_equal(mob_batch_take(&b, 0, taken), 5);
    struct mob_batch_entry *failed[] = {taken[0], taken[1], taken[2], taken[4]}; /* one has left */
    mob_batch_again(&b, failed, 4);
    mob_batch_ended(&b);
    assert_int_equal(b.count, 6);
    assert_int_equal(b.rows, 6);
    /* Before the others, which would fit, and not with each other. */
    assert_int_equal(mob_batch_take(&b, 0, taken), 2);
    assert_ptr_equal(taken[0], &calls[0]);
    assert_ptr_equal(taken[1], &calls[1]);
    mob_batch_again(&b, taken, 2);
    mob_batch_ended(&b);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(mob_batch_take(&b, 0, taken), 1);
        assert_ptr_equal(taken[0], &calls[i]);
        mob_batch_ended(&b);
    }
    assert_int_equal(mob_batch_take(&b, 0, taken), 2);
    assert_ptr_equal(taken[0], &calls[2]);
    assert_ptr_equal(taken[1], &calls[4]);
    mob_batch_ended(&b);
    assert_int_equal(mob_batch_take(&b, 0, taken), 0); /* these wait for their delay as before */
    assert_int_equal(mob_batch_take(&b, 1000000, taken), 2);
    assert_ptr_equal(taken[0], &calls[5]);
}

static void one_that_comes_again_may_be_the_last(void **state)
{
    (void)state;
    struct mob_batcher b;
    mob_batch_init(&b, 4, 0);
    assert_true(mob_batch_add(&b, &calls[0], 1, 0, 0));
    assert_int_equal(mob_batch_take(&b, 0, taken), 1);
    mob_batch_again(&b, taken, 1);
    mob_batch_ended(&b);
    assert_true(mob_batch_add(&b, &calls[1], 1, 0, 0)); /* behind it */
    assert_int_equal(mob_batch_take(&b, 0, taken), 1);
    assert_ptr_equal(taken[0], &calls[0]);
    mob_batch_ended(&b);
    assert_int_equal(mob_batch_take(&b, 0, taken), 1);
    assert_ptr_equal(taken[0], &calls[1]);
}

static void queue_is_bounded(void **state)
{
    (void)state;
    struct mob_batcher b;
    struct mob_batch_entry *many = calloc(MOB_BATCH_QUEUE_MAX + 1, sizeof *many);
    mob_batch_init(&b, 1, 0);
    for (int i = 0; i < MOB_BATCH_QUEUE_MAX; i++)
        assert_true(mob_batch_add(&b, &many[i], 1, 0, 0));
    assert_false(mob_batch_add(&b, &many[MOB_BATCH_QUEUE_MAX], 1, 0, 0));
    assert_ptr_equal(mob_batch_drain(&b), &many[0]);
    assert_int_equal(mob_batch_take(&b, 0, taken), 0);
    free(many);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(idle_replica_gets_a_call_at_once),
        cmocka_unit_test(full_batch_leaves_behind_a_running_one),
        cmocka_unit_test(who_leaves_is_not_taken),
        cmocka_unit_test(delay_waits_for_more_calls),
        cmocka_unit_test(only_equal_shapes_stack_and_order_is_kept),
        cmocka_unit_test(a_batch_comes_again_in_halves),
        cmocka_unit_test(one_that_comes_again_may_be_the_last),
        cmocka_unit_test(queue_is_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
