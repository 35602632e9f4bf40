/* Cancel, deadlines, and whatever else waits for a time. */
#include "tests/unit/runtime/sched/sched_fixture.h"

static void cancelled_task_leaves_every_queue(void **state)
{
    (void)state;
    struct fx fx;
    fx_open(&fx);
    struct mob_object_id never = {{fx_stream(2, 2), 0}, 0}, more[2] = {never, {{fx_stream(2, 2), 1}, 0}};
    struct mob_sched_task *t[] = {
        fx_task(&fx),
        fx_submit(&fx, (struct mob_sched_submit){.class_id = fx.cpu1, .missing = &never, .missing_count = 1}),
        fx_submit(&fx, (struct mob_sched_submit){.class_id = fx.cpu1, .missing = more, .missing_count = 2}),
        fx_submit(&fx, (struct mob_sched_submit){.class_id = fx.cpu1, .not_before = fx.now + MOB_SEC}),
    };
    for (int i = 0; i < 4; i++)
        assert_int_equal(mob_sched_cancel(fx.s, t[i], false, true, fx.now), 1);
    assert_int_equal(fx_decide(&fx), 4);
    for (int i = 0; i < 4; i++)
        fx_expect_fail(&fx, t[i], MOB_CANCELLED);
    assert_int_equal(mob_sched_object_ready(fx.s, never), 0); /* nobody waits for it */
    assert_int_equal(mob_sched_next_timer(fx.s), MOB_FOREVER_NS);
    fx_close(&fx);
}

/* A finished call that an actor's replay repeats: without it the actor would come back with another state. */
static void a_repeated_call_is_not_cancelled(void **state)
{
    (void)state;
    struct fx fx;
    uint32_t actor;
    fx_open(&fx);
    assert_int_equal(mob_sched_actor_open(fx.s, &actor), MOB_OK);
    struct mob_sched_submit in = {.class_id = fx.cpu1, .actor = actor, .flags = MOB_SCHED_REPEATS};
    struct mob_sched_task *repeats = fx_submit(&fx, in);
    in.flags = 0;
    struct mob_sched_task *call = fx_submit(&fx, in);
    struct mob_sched_kin of_ended = {fx_children_of(NULL, call), 1, false};
    assert_int_equal(mob_sched_cancel_kin(fx.s, &of_ended, false, fx.now), 0);
    assert_true(mob_sched_cancel_met_ended(fx.s));
    assert_int_equal(mob_sched_cancel(fx.s, repeats, true, false, fx.now), 0);
    assert_false(mob_sched_cancel_met_ended(fx.s)); /* that was of the one before */
    assert_int_equal(mob_sched_cancel(fx.s, repeats, true, true, fx.now), 0);
    assert_int_equal(mob_sched_cancel(fx.s, call, false, true, fx.now), 1);
    assert_int_equal(fx_decide(&fx), 1);
    fx_expect_fail(&fx, call, MOB_CANCELLED);
    assert_int_equal(repeats->state, MOB_SCHED_READY);
    fx_close(&fx);
}

static void running_task_is_asked_and_then_killed(void **state)
{
    (void)state;
    struct fx fx;
    fx_open_with(&fx, (struct mob_sched_options){.kill_grace_ns = MOB_SEC});
    fx_worker(&fx, 0);
    struct mob_sched_task *t =
        fx_submit(&fx, (struct mob_sched_submit){.class_id = fx.cpu1, .max_retries = 3});
    fx_decide(&fx);
    mob_sched_cancel(fx.s, t, false, false, fx.now);
    mob_sched_cancel(fx.s, t, false, false, fx.now);
    assert_int_equal(fx_decide(&fx), 1);
    assert_int_equal(fx.log[0].kind, MOB_DECIDE_STOP);
    struct mob_why why;
    mob_sched_why(fx.s, t, &why);
    assert_true(why.stopping);
    fx.now = mob_sched_next_timer(fx.s);
    assert_int_equal(fx_decide(&fx), 1);
    assert_int_equal(fx.log[0].kind, MOB_DECIDE_KILL);
    assert_int_equal(fx.log[0].worker, 0);
    mob_sched_worker_gone(fx.s, 0, false, fx.now);
    fx_decide(&fx);
    fx_expect_fail(&fx, t, MOB_CANCELLED); /* and no retry */
    fx_close(&fx);
}

static void cancel_reaches_children_of_running_tasks(void **state)
{
    (void)state;
    struct fx fx;
    fx_open(&fx);
    fx.auto_spawn = true;
    struct mob_sched_task *root = fx_task(&fx);
    fx_decide(&fx);
    struct mob_sched_task *child = fx_child(&fx, root, 0);
    fx_decide(&fx);
    struct mob_sched_task *queued = fx_child(&fx, root, 1), *grandchild = fx_child(&fx, child, 5);
    struct mob_sched_task *stranger = fx_task(&fx);
    assert_int_equal(mob_sched_cancel(fx.s, root, false, true, fx.now), 4);
    fx_decide(&fx);
    fx_expect_fail(&fx, queued, MOB_CANCELLED);
    fx_expect_fail(&fx, grandchild, MOB_CANCELLED);
    assert_int_equal(fx_about(&fx, child)->kind, MOB_DECIDE_STOP);
    assert_int_equal(fx_about(&fx, root)->kind, MOB_DECIDE_STOP);
    assert_int_equal(stranger->state, MOB_SCHED_READY);
    fx_close(&fx);
}

/* Ended, and its outcome is left to another: here one task at a time. */
static struct {
    struct mob_task_id id;
    struct mob_sched_kin kin;
} ended;

static bool fx_continued(void *arg, struct mob_task_id id, struct mob_sched_kin *kin_out)
{
    (void)arg;
    if (!mob_task_id_eq(id, ended.id))
        return false;
    *kin_out = ended.kin;
    return true;
}

static void cancel_goes_through_tasks_that_others_continue(void **state)
{
    (void)state;
    struct fx fx;
    fx_open_with(&fx, (struct mob_sched_options){.continued = fx_continued});
    fx.auto_spawn = true;
    struct mob_sched_task *root = fx_task(&fx);
    fx_decide(&fx);
    struct mob_sched_task *child = fx_child(&fx, root, 0);
    fx_decide(&fx);
    struct mob_sched_task *left = fx_child(&fx, child, 0), *right = fx_child(&fx, child, 1);
    ended.id = child->id;
    ended.kin = (struct mob_sched_kin){fx_children_of(NULL, child), mob_sched_children(child), false};
    assert_int_equal(ended.kin.count, 2);
    fx_finish(&fx, child, MOB_OK);
    fx_decide(&fx);
    assert_int_equal(left->state, MOB_SCHED_DISPATCHED);
    assert_int_equal(mob_sched_cancel(fx.s, root, false, true, fx.now), 3);
    fx_decide(&fx);
    assert_int_equal(fx_about(&fx, left)->kind, MOB_DECIDE_STOP);
    assert_int_equal(fx_about(&fx, left)->status, MOB_CANCELLED);
    fx_expect_fail(&fx, right, MOB_CANCELLED);
    /* and directly, when the root has ended too */
    struct mob_sched_task *late =
        fx_submit(&fx, (struct mob_sched_submit){.id = {ended.kin.stream, 1}, .class_id = fx.cpu1});
    assert_int_equal(mob_sched_cancel_kin(fx.s, &ended.kin, false, fx.now), 2);
    fx_decide(&fx);
    fx_expect_fail(&fx, late, MOB_CANCELLED);
    memset(&ended, 0, sizeof ended);
    fx_close(&fx);
}

static void what_a_cancelled_task_submits_fails_at_once(void **state)
{
    (void)state;
    struct fx fx;
    fx_open(&fx);
    fx.auto_spawn = true;
    struct mob_sched_task *root = fx_task(&fx), *alone = fx_task(&fx);
    fx_decide(&fx);
    mob_sched_cancel(fx.s, root, false, true, fx.now);
    mob_sched_cancel(fx.s, alone, false, false, fx.now);
    uint32_t actor;
    assert_int_equal(mob_sched_actor_open(fx.s, &actor), MOB_OK);
    struct mob_object_id input = {{fx_stream(3, 3), 1}, 0};
    struct mob_sched_task *child = fx_child(&fx, root, 0), *kept = fx_child(&fx, alone, 0);
    struct mob_sched_task *waiting = fx_submit(&fx,
        (struct mob_sched_submit){
            .parent = root, .id.index = 1, .class_id = fx.cpu1, .missing = &input, .missing_count = 1});
    struct mob_sched_task *call = fx_submit(
        &fx, (struct mob_sched_submit){.parent = root, .id.index = 2, .class_id = fx.cpu0, .actor = actor});
    fx_decide(&fx);
    fx_expect_fail(&fx, child, MOB_CANCELLED);
    fx_expect_fail(&fx, waiting, MOB_CANCELLED);
    fx_expect_fail(&fx, call, MOB_CANCELLED);
    assert_int_equal(mob_sched_object_ready(fx.s, input), 0); /* nobody waits for it */
    assert_int_equal(kept->state, MOB_SCHED_READY); /* only that one task was cancelled */
    fx_close(&fx);
}

static void task_waits_for_its_time(void **state)
{
    (void)state;
    struct fx fx;
    fx_open_with_worker(&fx);
    struct mob_object_id input = {{fx_stream(2, 2), 0}, 0};
    struct mob_sched_task *t = fx_submit(&fx,
        (struct mob_sched_submit){
            .class_id = fx.cpu1, .not_before = fx.now + MOB_SEC, .missing = &input, .missing_count = 1});
    mob_sched_object_ready(fx.s, input);
    assert_int_equal(fx_decide(&fx), 0);
    assert_int_equal(mob_sched_next_timer(fx.s), fx.now + MOB_SEC);
    fx.now += MOB_SEC;
    fx_decide(&fx);
    fx_expect_dispatch(&fx, t);
    fx_close(&fx);
}

static void passed_deadline_drops_queued_and_stops_running_tasks(void **state)
{
    (void)state;
    struct fx fx;
    fx_open_with(&fx, (struct mob_sched_options){.cpu = MOB_SCHED_UNIT, .kill_grace_ns = MOB_SEC});
    fx_worker(&fx, 0);
    struct mob_sched_submit in = {.class_id = fx.cpu1, .deadline = fx.now + MOB_SEC, .max_retries = 3};
    struct mob_sched_task *running = fx_submit(&fx, in), *queued = fx_submit(&fx, in);
    fx_decide(&fx);
    fx.now = mob_sched_next_timer(fx.s);
    fx_decide(&fx);
    fx_expect_fail(&fx, queued, MOB_DEADLINE);
    assert_int_equal(fx_about(&fx, running)->kind, MOB_DECIDE_STOP);
    fx.now = mob_sched_next_timer(fx.s);
    fx_decide(&fx);
    assert_int_equal(fx.log[0].kind, MOB_DECIDE_KILL);
    mob_sched_worker_gone(fx.s, 0, false, fx.now);
    fx_decide(&fx);
    fx_expect_fail(&fx, running, MOB_DEADLINE);
    fx_close(&fx);
}

static void heap_keeps_order_among_many_times(void **state)
{
    (void)state;
    struct fx fx;
    fx_open(&fx);
    uint32_t seed = 12345;
    int64_t start = fx.now, last = 0;
    for (int i = 0; i < 500; i++) {
        seed = seed * 1664525 + 1013904223;
        struct mob_sched_task *t = fx_submit(&fx,
            (struct mob_sched_submit){.class_id = fx.cpu1, .not_before = start + 1 + (int64_t)(seed >> 12)});
        if (i % 3 == 0)
            mob_sched_cancel(fx.s, t, false, false, fx.now);
    }
    fx_decide(&fx);
    for (int64_t timer; (timer = mob_sched_next_timer(fx.s)) != MOB_FOREVER_NS;) {
        assert_true(timer > last);
        last = fx.now = timer;
        fx_decide(&fx);
    }
    fx_close(&fx);
}

/* It failed under another record: it waits as if it had failed under this one, and goes on from there. */
static void failures_before_its_submission_count(void **state)
{
    (void)state;
    struct fx fx;
    fx_open_with_worker(&fx);
    struct mob_sched_task *t =
        fx_submit(&fx, (struct mob_sched_submit){.class_id = fx.cpu1, .max_retries = -1, .failures = 3});
    struct mob_why why;
    mob_sched_why(fx.s, t, &why);
    assert_int_equal(why.reason, MOB_WHY_DELAYED);
    assert_int_equal(why.until, fx.now + 40 * MOB_MS); /* 10, 20, 40 */
    fx.now = why.until;
    fx_decide(&fx);
    fx_expect_dispatch(&fx, t);
    assert_int_equal(fx_finish(&fx, t, MOB_WORKER_DIED), MOB_SCHED_RETRY);
    mob_sched_why(fx.s, t, &why);
    assert_int_equal(why.until, fx.now + 80 * MOB_MS);
    struct mob_sched_task *later = fx_submit(
        &fx, (struct mob_sched_submit){.class_id = fx.cpu1, .failures = 1, .not_before = fx.now + MOB_SEC});
    mob_sched_why(fx.s, later, &why);
    assert_int_equal(why.until, fx.now + MOB_SEC);
    struct mob_sched_task *last =
        fx_submit(&fx, (struct mob_sched_submit){.class_id = fx.cpu1, .failures = 1000});
    mob_sched_why(fx.s, last, &why);
    assert_int_equal(why.until, fx.now + 10 * MOB_SEC);
    fx_close(&fx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cancelled_task_leaves_every_queue),
        cmocka_unit_test(a_repeated_call_is_not_cancelled),
        cmocka_unit_test(running_task_is_asked_and_then_killed),
        cmocka_unit_test(cancel_reaches_children_of_running_tasks),
        cmocka_unit_test(cancel_goes_through_tasks_that_others_continue),
        cmocka_unit_test(what_a_cancelled_task_submits_fails_at_once),
        cmocka_unit_test(task_waits_for_its_time),
        cmocka_unit_test(passed_deadline_drops_queued_and_stops_running_tasks),
        cmocka_unit_test(heap_keeps_order_among_many_times),
        cmocka_unit_test(failures_before_its_submission_count),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
