/* What stands behind a task that turns out to be long, or is cancelled there, is taken back. */
#include "tests/unit/runtime/sched/sched_fixture.h"

enum { QUICK = 40 };

/* Worker 0 has a batch of quick tasks, of which it is asked nothing yet. */
struct batch {
    struct fx fx;
    struct mob_sched_task *task[QUICK];
};

static struct mob_sched_task *quick(struct fx *fx)
{
    return fx_submit(fx, (struct mob_sched_submit){.class_id = fx->cpu1, .function = fx->quick});
}

static void open_batch(struct batch *b, uint16_t workers)
{
    struct fx *fx = &b->fx;
    fx_open(fx);
    fx_worker(fx, 0);
    fx_measure(fx);
    for (int i = 0; i < QUICK; i++)
        b->task[i] = quick(fx);
    fx_decide(fx);
    for (int i = 0; i < QUICK; i++) {
        fx_expect_dispatch(fx, b->task[i]);
        assert_int_equal(b->task[i]->worker, 0);
    }
    for (uint16_t i = 1; i < workers; i++)
        fx_worker(fx, i);
    fx_decide(fx);
    assert_int_equal(mob_sched_told(fx->s, 0), QUICK);
}

static void finish_all(struct batch *b, int from)
{
    for (int i = from; i < QUICK; i++) {
        assert_int_equal(b->task[i]->state, MOB_SCHED_DISPATCHED);
        fx_finish(&b->fx, b->task[i], MOB_OK);
        fx_decide(&b->fx);
    }
    fx_close(&b->fx);
}

static void what_stands_behind_a_long_task_runs_elsewhere(void **state)
{
    (void)state;
    struct batch b;
    open_batch(&b, 2);
    assert_true(mob_sched_next_timer(b.fx.s) <= b.fx.now + 10 * MOB_MS);
    b.fx.now += 9 * MOB_MS;
    fx_decide(&b.fx);
    assert_null(fx_of_kind(&b.fx, MOB_DECIDE_TAKE_BACK));
    b.fx.now += MOB_MS;
    fx_decide(&b.fx);
    struct mob_decision *d = fx_of_kind(&b.fx, MOB_DECIDE_TAKE_BACK);
    assert_non_null(d);
    assert_int_equal(d->worker, 0);
    assert_int_equal(mob_sched_take_back(b.fx.s, 0, 2, b.fx.now), QUICK - 2);
    fx_decide(&b.fx);
    assert_int_equal(b.task[0]->worker, 0);
    assert_int_equal(b.task[1]->worker, 0); /* it may have begun */
    for (int i = 2; i < QUICK; i++) {
        fx_expect_dispatch(&b.fx, b.task[i]);
        assert_int_equal(b.task[i]->worker, 1);
        assert_true(i == 2 || fx_about(&b.fx, b.task[i]) > fx_about(&b.fx, b.task[i - 1])); /* in order */
    }
    finish_all(&b, 2);
}

/* Nobody else is free: they wait in the queue, and not behind it. */
static void what_is_taken_back_waits_in_the_queue(void **state)
{
    (void)state;
    struct batch b;
    open_batch(&b, 1);
    b.fx.now += 10 * MOB_MS;
    fx_decide(&b.fx);
    assert_int_equal(mob_sched_take_back(b.fx.s, 0, 0, b.fx.now), QUICK - 1); /* the first stays */
    fx_decide(&b.fx);
    struct mob_why why;
    mob_sched_why(b.fx.s, b.task[1], &why);
    assert_int_equal(why.state, MOB_SCHED_READY);
    assert_int_equal(b.task[QUICK - 1]->state, MOB_SCHED_READY);
    fx_finish(&b.fx, b.task[0], MOB_OK);
    fx_decide(&b.fx);
    finish_all(&b, 1);
}

/* Whoever cannot ask now is asked again, not at once. */
static void an_unanswered_question_comes_again(void **state)
{
    (void)state;
    struct batch b;
    open_batch(&b, 1);
    b.fx.now += 10 * MOB_MS;
    fx_decide(&b.fx);
    assert_non_null(fx_of_kind(&b.fx, MOB_DECIDE_TAKE_BACK));
    fx_decide(&b.fx);
    assert_null(fx_of_kind(&b.fx, MOB_DECIDE_TAKE_BACK));
    assert_int_equal(mob_sched_next_timer(b.fx.s), b.fx.now + 10 * MOB_MS);
    b.fx.now += 10 * MOB_MS;
    fx_decide(&b.fx);
    assert_non_null(fx_of_kind(&b.fx, MOB_DECIDE_TAKE_BACK));
    fx_finish(&b.fx, b.task[0], MOB_OK); /* it went on meanwhile */
    b.fx.now += 9 * MOB_MS;
    fx_decide(&b.fx);
    assert_null(fx_of_kind(&b.fx, MOB_DECIDE_TAKE_BACK));
    finish_all(&b, 1);
}

static void a_batch_that_goes_on_is_left_alone(void **state)
{
    (void)state;
    struct batch b;
    open_batch(&b, 2);
    for (int i = 0; i < QUICK; i++) {
        b.fx.now += 3 * MOB_MS;
        fx_finish(&b.fx, b.task[i], MOB_OK);
        fx_decide(&b.fx);
        assert_null(fx_of_kind(&b.fx, MOB_DECIDE_TAKE_BACK));
    }
    b.fx.now += MOB_SEC;
    fx_decide(&b.fx);
    assert_int_equal(mob_sched_next_timer(b.fx.s), MOB_FOREVER_NS); /* nothing is left to look at */
    fx_close(&b.fx);
}

/* One that stands behind others ends at once, and before anybody is told to stop it. */
static void what_is_cancelled_behind_others_ends_at_once(void **state)
{
    (void)state;
    struct batch b;
    open_batch(&b, 1);
    mob_sched_cancel(b.fx.s, b.task[5], false, false, b.fx.now);
    mob_sched_cancel(b.fx.s, b.task[7], false, false, b.fx.now);
    struct mob_decision d;
    assert_true(mob_sched_next(b.fx.s, b.fx.now, &d));
    assert_int_equal(d.kind, MOB_DECIDE_TAKE_BACK);
    assert_int_equal(mob_sched_take_back(b.fx.s, 0, 1, b.fx.now), QUICK - 1);
    fx_decide(&b.fx);
    assert_null(fx_of_kind(&b.fx, MOB_DECIDE_TAKE_BACK)); /* once for both */
    assert_null(fx_of_kind(&b.fx, MOB_DECIDE_STOP));
    fx_expect_fail(&b.fx, b.task[5], MOB_CANCELLED);
    fx_expect_fail(&b.fx, b.task[7], MOB_CANCELLED);
    fx_expect_dispatch(&b.fx, b.task[6]); /* others go on, there */
    mob_sched_task_free(b.fx.s, b.task[5]);
    mob_sched_task_free(b.fx.s, b.task[7]);
    for (int i = 0; i < QUICK; i++)
        if (i != 5 && i != 7)
            fx_finish(&b.fx, b.task[i], MOB_OK);
    fx_close(&b.fx);
}

/* It began just before: then it is asked to stop, as what runs is. */
static void what_had_begun_is_asked_to_stop(void **state)
{
    (void)state;
    struct batch b;
    open_batch(&b, 1);
    mob_sched_cancel(b.fx.s, b.task[1], false, false, b.fx.now);
    struct mob_decision d;
    assert_true(mob_sched_next(b.fx.s, b.fx.now, &d));
    assert_int_equal(d.kind, MOB_DECIDE_TAKE_BACK);
    mob_sched_take_back(b.fx.s, 0, 2, b.fx.now);
    fx_decide(&b.fx);
    assert_non_null(fx_of_kind(&b.fx, MOB_DECIDE_STOP));
    assert_ptr_equal(fx_of_kind(&b.fx, MOB_DECIDE_STOP)->task, b.task[1]);
    fx_finish(&b.fx, b.task[0], MOB_OK);
    fx_finish(&b.fx, b.task[1], MOB_CANCELLED);
    fx_decide(&b.fx);
    finish_all(&b, 2);
}

static void a_deadline_behind_others_is_told_at_once(void **state)
{
    (void)state;
    struct fx fx;
    fx_open_with_worker(&fx);
    fx_measure(&fx);
    struct mob_sched_task *first = quick(&fx);
    struct mob_sched_task *late = fx_submit(&fx,
        (struct mob_sched_submit){.class_id = fx.cpu1, .function = fx.quick, .deadline = fx.now + MOB_MS});
    fx_decide(&fx);
    assert_int_equal(late->state, MOB_SCHED_DISPATCHED);
    fx.now += MOB_MS;
    struct mob_decision d;
    assert_true(mob_sched_next(fx.s, fx.now, &d));
    assert_int_equal(d.kind, MOB_DECIDE_TAKE_BACK);
    assert_int_equal(mob_sched_take_back(fx.s, 0, 1, fx.now), 1);
    fx_decide(&fx);
    fx_expect_fail(&fx, late, MOB_DEADLINE);
    mob_sched_task_free(fx.s, late);
    fx_finish(&fx, first, MOB_OK);
    fx_close(&fx);
}

/* Its calls have nowhere else to go, so time is no reason; a cancel is. They come back in order. */
static void calls_of_an_actor_come_back_to_it(void **state)
{
    (void)state;
    struct fx fx;
    uint32_t actor;
    struct mob_sched_task *call[4];
    fx_open_with_worker(&fx);
    assert_int_equal(mob_sched_actor_open(fx.s, &actor), MOB_OK);
    struct mob_sched_task *create =
        fx_submit(&fx, (struct mob_sched_submit){.class_id = fx.cpu1, .flags = MOB_SCHED_ACTOR_CREATE});
    fx_decide(&fx);
    assert_int_equal(mob_sched_actor_up(fx.s, actor, 0), MOB_OK);
    fx_finish(&fx, create, MOB_OK);
    for (int i = 0; i < 4; i++)
        call[i] = fx_submit(&fx, (struct mob_sched_submit){.actor = actor});
    fx_decide(&fx);
    assert_int_equal(mob_sched_told(fx.s, 0), 4);
    fx.now += MOB_SEC;
    fx_decide(&fx);
    assert_null(fx_of_kind(&fx, MOB_DECIDE_TAKE_BACK));
    mob_sched_cancel(fx.s, call[2], false, false, fx.now);
    struct mob_decision d;
    assert_true(mob_sched_next(fx.s, fx.now, &d));
    assert_int_equal(d.kind, MOB_DECIDE_TAKE_BACK);
    assert_int_equal(mob_sched_take_back(fx.s, 0, 1, fx.now), 3);
    fx_decide(&fx);
    fx_expect_fail(&fx, call[2], MOB_CANCELLED);
    mob_sched_task_free(fx.s, call[2]);
    fx_expect_dispatch(&fx, call[1]);
    fx_expect_dispatch(&fx, call[3]);
    assert_true(fx_about(&fx, call[1]) < fx_about(&fx, call[3]));
    for (int i = 0; i < 4; i++)
        if (i != 2)
            fx_finish(&fx, call[i], MOB_OK);
    fx_close(&fx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_stands_behind_a_long_task_runs_elsewhere),
        cmocka_unit_test(what_is_taken_back_waits_in_the_queue),
        cmocka_unit_test(an_unanswered_question_comes_again),
        cmocka_unit_test(a_batch_that_goes_on_is_left_alone),
        cmocka_unit_test(what_is_cancelled_behind_others_ends_at_once),
        cmocka_unit_test(what_had_begun_is_asked_to_stop),
        cmocka_unit_test(a_deadline_behind_others_is_told_at_once),
        cmocka_unit_test(calls_of_an_actor_come_back_to_it),
    };
    return cmocka_run_group_tests_name("runtime/sched/local_take_back", tests, NULL, NULL);
}
