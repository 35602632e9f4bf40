#include "tests/unit/runtime/sched/sched_fixture.h"

static void ready_task_goes_to_an_idle_worker(void **state)
{
    (void)state;
    struct fx fx;
    fx_open(&fx);
    fx_worker(&fx, 3);
    struct mob_sched_task *t = fx_task(&fx);
    assert_ptr_equal(mob_sched_find(fx.s, t->id), t);
    assert_int_equal(fx_decide(&fx), 1);
    fx_expect_dispatch(&fx, t);
    assert_int_equal(fx.log[0].worker, 3);
    assert_true(fx.log[0].last);
    struct mob_task_id id = t->id;
    assert_int_equal(fx_finish(&fx, t, MOB_OK), MOB_SCHED_FINAL);
    assert_null(mob_sched_find(fx.s, id));
    assert_int_equal(fx_decide(&fx), 0);
    fx_close(&fx);
}

static void workers_are_asked_for_up_to_the_free_cpus(void **state)
{
    (void)state;
    struct fx fx;
    fx_open(&fx);
    for (int i = 0; i < 5; i++)
        fx_task(&fx);
    assert_int_equal(fx_decide(&fx), 1);
    assert_int_equal(fx.log[0].kind, MOB_DECIDE_SPAWN);
    assert_int_equal(fx.log[0].count, 2);
    assert_int_equal(fx_decide(&fx), 0); /* they are on their way */
    fx_worker(&fx, 0);
    fx_worker(&fx, 1);
    assert_int_equal(fx_decide(&fx), 2);
    fx_close(&fx);
}

static void failed_spawn_is_tried_again_later(void **state)
{
    (void)state;
    struct fx fx;
    fx_open(&fx);
    fx_task(&fx);
    assert_int_equal(fx_decide(&fx), 1);
    mob_sched_spawn_failed(fx.s, 1, 1, fx.now);
    assert_int_equal(fx_decide(&fx), 0);
    int64_t timer = mob_sched_next_timer(fx.s);
    assert_true(timer > fx.now && timer <= fx.now + MOB_SEC);
    fx.now = timer;
    assert_int_equal(fx_decide(&fx), 1);
    assert_int_equal(fx.log[0].kind, MOB_DECIDE_SPAWN);
    fx_close(&fx);
}

static void task_waits_for_all_its_inputs_also_repeated_ones(void **state)
{
    (void)state;
    struct fx fx;
    fx_open_with_worker(&fx);
    struct mob_object_id a = {{fx_stream(9, 9), 1}, 0}, b = {{fx_stream(9, 9), 2}, 0};
    struct mob_object_id missing[] = {a, b, a, a, b};
    struct mob_sched_task *t = fx_submit(
        &fx, (struct mob_sched_submit){.class_id = fx.cpu1, .missing = missing, .missing_count = 5});
    assert_int_equal(fx_decide(&fx), 0);
    assert_int_equal(mob_sched_object_ready(fx.s, a), 3);
    assert_int_equal(mob_sched_object_ready(fx.s, a), 0);
    assert_int_equal(fx_decide(&fx), 0);
    struct mob_why why;
    mob_sched_why(fx.s, t, &why);
    assert_int_equal(why.reason, MOB_WHY_INPUTS);
    assert_int_equal(why.input_count, 2);
    assert_true(mob_object_id_eq(why.inputs[0], b));
    assert_int_equal(mob_sched_object_ready(fx.s, b), 2);
    assert_int_equal(fx_decide(&fx), 1);
    fx_expect_dispatch(&fx, t);
    fx_close(&fx);
}

/* As the caller of the core keeps it: which task, and how often. */
struct came {
    const struct mob_sched_task *task;
    uint32_t times;
};

static void note_inputs(void *arg, struct mob_sched_task *task)
{
    struct came *came = arg;
    assert_true(task->state == MOB_SCHED_WAITING || task->state == MOB_SCHED_DELAYED);
    came->task = task;
    came->times++;
}

static void caller_is_told_once_when_the_last_input_has_come(void **state)
{
    (void)state;
    struct fx fx;
    struct came came = {0};
    fx_open_with(&fx, (struct mob_sched_options){.inputs_came = note_inputs, .arg = &came});
    struct mob_object_id a = {{fx_stream(9, 9), 1}, 0}, b = {{fx_stream(9, 9), 2}, 0};
    struct mob_object_id both[] = {a, b, a};
    struct mob_sched_task *t =
        fx_submit(&fx, (struct mob_sched_submit){.class_id = fx.cpu1, .missing = both, .missing_count = 3});
    struct mob_sched_task *late = fx_submit(&fx,
        (struct mob_sched_submit){
            .class_id = fx.cpu1, .missing = &b, .missing_count = 1, .not_before = fx.now + MOB_SEC});
    fx_submit(&fx, (struct mob_sched_submit){.class_id = fx.cpu1}); /* misses nothing */
    mob_sched_object_ready(fx.s, a);
    assert_int_equal(came.times, 0);
    assert_int_equal(mob_sched_object_ready(fx.s, b), 2);
    assert_int_equal(came.times, 2);
    assert_true(came.task == t || came.task == late); /* also the one that is delayed */
    assert_int_equal(t->state, MOB_SCHED_READY);
    assert_int_equal(late->state, MOB_SCHED_DELAYED);
    fx_close(&fx);
}

static void ten_thousand_arguments_of_one_task_are_counted(void **state)
{
    (void)state;
    struct fx fx;
    fx_open_with_worker(&fx);
    static struct mob_object_id missing[10000];
    for (uint32_t i = 0; i < 10000; i++)
        missing[i] = (struct mob_object_id){{fx_stream(8, 8), i}, i % 3};
    struct mob_sched_task *t = fx_submit(
        &fx, (struct mob_sched_submit){.class_id = fx.cpu1, .missing = missing, .missing_count = 10000});
    for (uint32_t i = 0; i < 9999; i++)
        assert_int_equal(mob_sched_object_ready(fx.s, missing[i]), 1);
    assert_int_equal(fx_decide(&fx), 0);
    assert_int_equal(mob_sched_object_ready(fx.s, missing[9999]), 1);
    fx_decide(&fx);
    fx_expect_dispatch(&fx, t);
    fx_close(&fx);
}

/* In this order, each when the one before has ended. */
static void expect_one_by_one(struct fx *fx, struct mob_sched_task *const *tasks, int count)
{
    for (int i = 0; i < count; i++) {
        fx_decide(fx);
        fx_expect_dispatch(fx, tasks[i]);
        fx_finish(fx, tasks[i], MOB_OK);
    }
}

static void equal_tasks_run_in_order_of_submission(void **state)
{
    (void)state;
    struct fx fx;
    fx_open_with_worker(&fx);
    struct mob_sched_task *t[20];
    for (int i = 0; i < 20; i++)
        t[i] = fx_task(&fx);
    expect_one_by_one(&fx, t, 20);
    fx_close(&fx);
}

static void higher_priority_goes_first(void **state)
{
    (void)state;
    struct fx fx;
    fx_open_with_worker(&fx);
    struct mob_sched_task *low =
        fx_submit(&fx, (struct mob_sched_submit){.class_id = fx.cpu1, .priority = -1});
    struct mob_sched_task *plain = fx_task(&fx);
    struct mob_sched_task *high =
        fx_submit(&fx, (struct mob_sched_submit){.class_id = fx.cpu1, .priority = 7});
    struct mob_sched_task *order[] = {high, plain, low};
    expect_one_by_one(&fx, order, 3);
    fx_close(&fx);
}

static void jobs_share_by_weight(void **state)
{
    (void)state;
    struct fx fx;
    fx_open_with_worker(&fx);
    uint16_t heavy;
    assert_int_equal(mob_sched_job_open(fx.s, 3, &heavy), MOB_OK);
    uint32_t of_heavy = 0;
    for (int i = 0; i < 400; i++) {
        fx_submit(&fx, (struct mob_sched_submit){.class_id = fx.cpu1});
        fx_submit(&fx, (struct mob_sched_submit){.class_id = fx.cpu1, .job = heavy, .priority = 1});
    }
    for (int i = 0; i < 200; i++) {
        fx_decide(&fx);
        struct mob_decision *d = fx_of_kind(&fx, MOB_DECIDE_DISPATCH);
        of_heavy += d->task->id.index & 1;
        fx_finish(&fx, d->task, MOB_OK);
    }
    assert_in_range(of_heavy, 149, 151); /* three of four */
    fx_close(&fx);
}

/* Its tasks are known by their stream. */
static void submit_of_other(struct fx *fx, uint16_t other, uint32_t index)
{
    fx_submit(
        fx, (struct mob_sched_submit){.class_id = fx->cpu1, .job = other, .id = {fx_stream(5, 5), index}});
}

/* So many tasks run, one after the other: how many of them are that job's? */
static uint32_t run_of_other(struct fx *fx, int count)
{
    uint32_t of_other = 0;
    for (int i = 0; i < count; i++) {
        fx_decide(fx);
        struct mob_sched_task *task = fx_of_kind(fx, MOB_DECIDE_DISPATCH)->task;
        of_other += mob_stream_eq(task->id.stream, fx_stream(5, 5));
        fx_finish(fx, task, MOB_OK);
    }
    return of_other;
}

static void a_job_may_get_another_weight(void **state)
{
    (void)state;
    struct fx fx;
    fx_open_with_worker(&fx);
    uint16_t other;
    assert_int_equal(mob_sched_job_open(fx.s, 1, &other), MOB_OK);
    assert_int_equal(mob_sched_job_weight(fx.s, other, 0), MOB_INVALID);
    assert_int_equal(mob_sched_job_weight(fx.s, other, MOB_SCHED_WEIGHT_MAX + 1), MOB_INVALID);
    assert_int_equal(mob_sched_job_weight(fx.s, 77, 1), MOB_INVALID);
    assert_int_equal(mob_sched_job_weight(fx.s, other, 4), MOB_OK);
    for (uint32_t i = 0; i < 200; i++) {
        fx_task(&fx);
        submit_of_other(&fx, other, i);
    }
    uint32_t of_other = run_of_other(&fx, 100);
    assert_in_range(of_other, 79, 81); /* four of five */
    fx_close(&fx);
}

static void a_job_that_slept_has_saved_nothing(void **state)
{
    (void)state;
    struct fx fx;
    fx_open_with_worker(&fx);
    uint16_t other;
    assert_int_equal(mob_sched_job_open(fx.s, 1, &other), MOB_OK);
    for (int i = 0; i < 300; i++)
        fx_task(&fx);
    for (int i = 0; i < 100; i++) {
        fx_decide(&fx);
        fx_finish(&fx, fx_of_kind(&fx, MOB_DECIDE_DISPATCH)->task, MOB_OK);
    }
    for (uint32_t i = 0; i < 50; i++)
        submit_of_other(&fx, other, i);
    uint32_t of_other = run_of_other(&fx, 40);
    assert_in_range(of_other, 19, 21);
    fx_close(&fx);
}

static void fractional_and_named_resources_bound_what_runs(void **state)
{
    (void)state;
    struct fx fx;
    fx_open(&fx);
    fx.auto_spawn = true;
    uint16_t kind, class_id;
    assert_int_equal(mob_sched_resource(fx.s, "camera", 6, &kind), MOB_OK);
    mob_sched_resource_total(fx.s, kind, MOB_SCHED_UNIT);
    struct mob_sched_demand demands[] = {{kind, 2500}, {MOB_SCHED_CPU, 1000}, {kind, 500}};
    assert_int_equal(mob_sched_class(fx.s, 1, demands, 3, &class_id), MOB_OK);
    for (int i = 0; i < 10; i++)
        fx_submit(&fx, (struct mob_sched_submit){.class_id = class_id});
    fx_decide(&fx);
    struct mob_sched_stats stats;
    mob_sched_stats(fx.s, &stats);
    assert_int_equal(stats.by_state[MOB_SCHED_DISPATCHED], 3); /* 3 x 0.3 <= 1 */
    int64_t total, rest;
    mob_sched_resource_get(fx.s, kind, &total, &rest);
    assert_int_equal(rest, 1000);
    fx_close(&fx);
}

static void unsatisfiable_task_stays_with_its_reason_or_is_refused(void **state)
{
    (void)state;
    struct fx fx;
    fx_open(&fx);
    uint16_t class_id, kind;
    struct mob_sched_demand gpu = {MOB_SCHED_GPU, MOB_SCHED_UNIT};
    assert_int_equal(mob_sched_class(fx.s, 1, &gpu, 1, &class_id), MOB_OK);
    struct mob_sched_task *t = fx_submit(&fx, (struct mob_sched_submit){.class_id = class_id});
    assert_int_equal(fx_decide(&fx), 0);
    struct mob_why why;
    mob_sched_why(fx.s, t, &why);
    assert_int_equal(why.reason, MOB_WHY_UNSATISFIABLE);
    assert_string_equal(mob_sched_resource_name(fx.s, why.resource), "GPU");
    assert_int_equal(why.needed, MOB_SCHED_UNIT);
    assert_int_equal(why.total, 0);
    assert_int_equal(mob_sched_class_check(fx.s, class_id, &kind), MOB_UNSATISFIABLE);
    mob_sched_resource_total(fx.s, MOB_SCHED_GPU, MOB_SCHED_UNIT);
    fx.auto_spawn = true;
    fx_decide(&fx);
    fx_expect_dispatch(&fx, t);
    fx_close(&fx);

    fx_open_with(&fx, (struct mob_sched_options){.refuse_unsatisfiable = true});
    assert_int_equal(mob_sched_class(fx.s, 1, &gpu, 1, &class_id), MOB_OK);
    struct mob_sched_task *refused = mob_sched_task_alloc(fx.s);
    struct mob_sched_submit in = {.class_id = class_id};
    assert_int_equal(mob_sched_submit(fx.s, refused, &in, fx.now), MOB_UNSATISFIABLE);
    mob_sched_task_free(fx.s, refused);
    fx_close(&fx);
}

static void full_table_refuses_more_tasks(void **state)
{
    (void)state;
    struct fx fx;
    fx_open_with(&fx, (struct mob_sched_options){.tasks_max = 3});
    for (int i = 0; i < 3; i++)
        fx_task(&fx);
    assert_null(mob_sched_task_alloc(fx.s));
    fx_close(&fx);
}

static uint16_t class_of_both(struct fx *fx)
{
    uint16_t both;
    struct mob_sched_demand two = {MOB_SCHED_CPU, 2 * MOB_SCHED_UNIT};
    assert_int_equal(mob_sched_class(fx->s, 1, &two, 1, &both), MOB_OK);
    return both;
}

static void big_demand_is_not_starved_by_small_ones(void **state)
{
    (void)state;
    struct fx fx;
    fx_open(&fx);
    fx.auto_spawn = true;
    uint16_t both = class_of_both(&fx);
    struct mob_sched_task *running[2] = {fx_task(&fx), fx_task(&fx)};
    fx_decide(&fx);
    struct mob_sched_task *big = fx_submit(&fx, (struct mob_sched_submit){.class_id = both});
    bool went = false;
    for (int i = 0; i < 100 && !went; i++) {
        /* One small task ends after the other, and there are always more. */
        struct mob_sched_task *more = fx_task(&fx);
        fx.now += 100 * MOB_MS;
        if (running[i & 1]) {
            fx_finish(&fx, running[i & 1], MOB_OK);
            running[i & 1] = NULL;
        }
        fx_decide(&fx);
        if (more->state == MOB_SCHED_DISPATCHED)
            running[i & 1] = more;
        went = big->state == MOB_SCHED_DISPATCHED;
    }
    assert_true(went);
    fx_close(&fx);
}

/* One CPU is held by a task that never ends: who needs both must not keep the other one for ever. */
static void what_is_kept_for_a_big_demand_is_lent_in_between(void **state)
{
    (void)state;
    struct fx fx;
    fx_open(&fx);
    fx.auto_spawn = true;
    uint16_t both = class_of_both(&fx);
    struct mob_sched_task *endless = fx_task(&fx);
    fx_decide(&fx);
    struct mob_sched_task *big = fx_submit(&fx, (struct mob_sched_submit){.class_id = both});
    fx_decide(&fx);
    for (int64_t begun = fx.now, round = MOB_SEC; round <= 512 * MOB_SEC; round *= 2) {
        fx.now = begun + 2 * round - MOB_SEC; /* the next round has begun */
        struct mob_sched_task *small = fx_task(&fx);
        fx_decide(&fx);
        assert_int_equal(small->state, MOB_SCHED_READY);
        while (small->state != MOB_SCHED_DISPATCHED) {
            int64_t timer = mob_sched_next_timer(fx.s);
            assert_in_range(timer - fx.now, 1, 64 * MOB_SEC);
            fx.now = timer;
            fx_decide(&fx);
        }
        fx_finish(&fx, small, MOB_OK);
        fx_decide(&fx);
        assert_int_equal(big->state, MOB_SCHED_READY);
    }
    fx_finish(&fx, endless, MOB_OK);
    fx_decide(&fx);
    assert_int_equal(big->state, MOB_SCHED_DISPATCHED);
    fx_close(&fx);
}

static void idle_workers_above_the_slots_are_reaped(void **state)
{
    (void)state;
    struct fx fx;
    fx_open_with(&fx, (struct mob_sched_options){.idle_keep = 1, .reap_after_ns = MOB_SEC});
    fx_worker(&fx, 0);
    fx_worker(&fx, 1);
    assert_int_equal(fx_decide(&fx), 0);
    assert_int_equal(mob_sched_next_timer(fx.s), fx.now + MOB_SEC);
    fx.now += MOB_SEC;
    assert_int_equal(fx_decide(&fx), 1);
    assert_int_equal(fx.log[0].kind, MOB_DECIDE_REAP);
    assert_int_equal(fx.log[0].worker, 0); /* the one that was idle longest */
    fx_task(&fx);
    fx_decide(&fx);
    assert_int_equal(fx.log[0].worker, 1); /* nothing goes to one that leaves */
    mob_sched_worker_gone(fx.s, 0, false, fx.now);
    assert_int_equal(mob_sched_next_timer(fx.s), MOB_FOREVER_NS);
    fx_close(&fx);
}

static void idle_workers_end_at_once_when_room_is_wanted(void **state)
{
    (void)state;
    struct fx fx;
    fx_open_with(&fx, (struct mob_sched_options){.idle_keep = 1, .reap_after_ns = MOB_SEC});
    for (uint16_t i = 0; i < 4; i++)
        fx_worker(&fx, i);
    assert_int_equal(fx_decide(&fx), 0);
    mob_sched_reap_now(fx.s, 2);
    assert_int_equal(mob_sched_next_timer(fx.s), fx.now);
    assert_int_equal(fx_decide(&fx), 2);
    for (uint16_t i = 0; i < 2; i++) {
        assert_int_equal(fx.log[i].kind, MOB_DECIDE_REAP);
        assert_int_equal(fx.log[i].worker, i);
    }
    assert_int_equal(mob_sched_next_timer(fx.s), fx.now + MOB_SEC);
    mob_sched_reap_now(fx.s, 5); /* one stays for the next task */
    assert_int_equal(fx_decide(&fx), 1);
    assert_int_equal(mob_sched_next_timer(fx.s), MOB_FOREVER_NS);
    fx_close(&fx);
}

static void queued_task_knows_what_is_ahead(void **state)
{
    (void)state;
    struct fx fx;
    fx_open_with_worker(&fx);
    struct mob_sched_task *t[5];
    for (int i = 0; i < 5; i++)
        t[i] = fx_task(&fx);
    fx_decide(&fx);
    struct mob_why why;
    mob_sched_why(fx.s, t[4], &why);
    assert_int_equal(why.reason, MOB_WHY_QUEUED);
    assert_int_equal(why.ahead, 3);
    mob_sched_why(fx.s, t[1], &why);
    assert_int_equal(why.reason, MOB_WHY_WORKERS);
    mob_sched_resource_total(fx.s, MOB_SCHED_CPU, MOB_SCHED_UNIT);
    mob_sched_why(fx.s, t[1], &why);
    assert_int_equal(why.reason, MOB_WHY_RESOURCES);
    assert_int_equal(why.free, 0);
    assert_int_equal(why.needed, MOB_SCHED_UNIT);
    mob_sched_why(fx.s, t[0], &why);
    assert_int_equal(why.reason, MOB_WHY_RUNNING);
    assert_int_equal(why.since, fx.now);
    assert_string_equal(mob_why_text(why.reason), "running");
    fx_close(&fx);
}

static void only_with_a_global_scheduler_tasks_are_forwarded(void **state)
{
    (void)state;
    struct fx fx;
    fx_open_with(&fx, (struct mob_sched_options){.may_forward = true, .forward_threshold = 2});
    uint16_t gpus;
    struct mob_sched_demand gpu = {MOB_SCHED_GPU, MOB_SCHED_UNIT};
    assert_int_equal(mob_sched_class(fx.s, 1, &gpu, 1, &gpus), MOB_OK);
    struct mob_sched_task *elsewhere = fx_submit(&fx, (struct mob_sched_submit){.class_id = gpus});
    fx_task(&fx);
    fx_task(&fx);
    struct mob_sched_task *third = fx_task(&fx);
    fx_decide(&fx);
    assert_int_equal(fx_about(&fx, elsewhere)->kind, MOB_DECIDE_FORWARD);
    assert_int_equal(fx_about(&fx, third)->kind, MOB_DECIDE_FORWARD);
    assert_int_equal(third->state, MOB_SCHED_DONE);
    fx_close(&fx);
}

static void closed_job_leaves_no_lanes_behind(void **state)
{
    (void)state;
    struct fx fx;
    fx_open_with_worker(&fx);
    struct mob_sched_stats stats;
    for (int round = 0; round < 200; round++) {
        uint16_t job;
        assert_int_equal(mob_sched_job_open(fx.s, 1, &job), MOB_OK);
        for (int16_t p = 0; p < 4; p++) {
            struct mob_sched_task *t =
                fx_submit(&fx, (struct mob_sched_submit){.class_id = fx.cpu1, .job = job, .priority = p});
            fx_decide(&fx);
            if (p == 3)
                mob_sched_job_close(fx.s, job);
            fx_finish(&fx, t, MOB_OK);
        }
    }
    mob_sched_stats(fx.s, &stats);
    assert_int_equal(stats.jobs, 1);
    assert_in_range(stats.lanes, 0, 1);
    fx_close(&fx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ready_task_goes_to_an_idle_worker),
        cmocka_unit_test(workers_are_asked_for_up_to_the_free_cpus),
        cmocka_unit_test(failed_spawn_is_tried_again_later),
        cmocka_unit_test(task_waits_for_all_its_inputs_also_repeated_ones),
        cmocka_unit_test(caller_is_told_once_when_the_last_input_has_come),
        cmocka_unit_test(ten_thousand_arguments_of_one_task_are_counted),
        cmocka_unit_test(equal_tasks_run_in_order_of_submission),
        cmocka_unit_test(higher_priority_goes_first),
        cmocka_unit_test(jobs_share_by_weight),
        cmocka_unit_test(a_job_may_get_another_weight),
        cmocka_unit_test(a_job_that_slept_has_saved_nothing),
        cmocka_unit_test(fractional_and_named_resources_bound_what_runs),
        cmocka_unit_test(unsatisfiable_task_stays_with_its_reason_or_is_refused),
        cmocka_unit_test(full_table_refuses_more_tasks),
        cmocka_unit_test(big_demand_is_not_starved_by_small_ones),
        cmocka_unit_test(what_is_kept_for_a_big_demand_is_lent_in_between),
        cmocka_unit_test(idle_workers_above_the_slots_are_reaped),
        cmocka_unit_test(idle_workers_end_at_once_when_room_is_wanted),
        cmocka_unit_test(queued_task_knows_what_is_ahead),
        cmocka_unit_test(only_with_a_global_scheduler_tasks_are_forwarded),
        cmocka_unit_test(closed_job_leaves_no_lanes_behind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
