/* Tasks that run on top of the one that waits for them. */
#include "tests/unit/runtime/sched/sched_fixture.h"

static void open_nesting(struct fx *fx, uint32_t nest_max)
{
    fx_open_with(fx, (struct mob_sched_options){.nest_max = nest_max});
    fx_worker(fx, 0);
}

static enum mob_status nest(struct fx *fx, struct mob_sched_task *task, struct mob_sched_task *awaited)
{
    uint32_t revoked;
    return mob_sched_nest(fx->s, task, awaited, &revoked, fx->now);
}

static struct mob_sched_task *running_root(struct fx *fx)
{
    struct mob_sched_task *root =
        fx_submit(fx, (struct mob_sched_submit){.class_id = fx->cpu1, .max_retries = 3});
    fx_decide(fx);
    assert_int_equal(root->state, MOB_SCHED_DISPATCHED);
    return root;
}

static struct mob_sched_task *child(struct fx *fx, struct mob_sched_task *parent, uint32_t index)
{
    return fx_submit(fx,
        (struct mob_sched_submit){
            .parent = parent, .id.index = index, .class_id = fx->cpu1, .max_retries = 3});
}

static void an_awaited_child_runs_where_its_parent_waits(void **state)
{
    (void)state;
    struct fx fx;
    open_nesting(&fx, 4);
    struct mob_sched_task *root = running_root(&fx), *a = child(&fx, root, 0), *b = child(&fx, root, 1);
    int64_t total, left;
    assert_int_equal(nest(&fx, root, a), MOB_OK);
    assert_int_equal(root->state, MOB_SCHED_BLOCKED);
    fx_decide(&fx);
    fx_expect_dispatch(&fx, a);
    assert_int_equal(fx_about(&fx, a)->worker, 0);
    mob_sched_resource_get(fx.s, MOB_SCHED_CPU, &total, &left);
    assert_int_equal(left, MOB_SCHED_UNIT); /* of two: the one on top has the other's */
    struct mob_sched_stats stats;
    mob_sched_stats(fx.s, &stats);
    assert_int_equal(stats.blocked, 0);
    assert_int_equal(stats.nested, 1);
    struct mob_why why;
    mob_sched_why(fx.s, root, &why);
    assert_int_equal(why.reason, MOB_WHY_BLOCKED);
    assert_int_equal(why.worker, 0);
    fx_finish(&fx, a, MOB_OK);
    assert_int_equal(root->state, MOB_SCHED_DISPATCHED); /* and so its turn has come again */
    assert_int_equal(nest(&fx, root, b), MOB_OK);
    fx_decide(&fx);
    fx_expect_dispatch(&fx, b);
    fx_finish(&fx, b, MOB_OK);
    fx_finish(&fx, root, MOB_OK);
    mob_sched_stats(fx.s, &stats);
    assert_int_equal(stats.idle, 1);
    fx_close(&fx);
}

static void there_is_a_bound_to_it(void **state)
{
    (void)state;
    struct fx fx;
    open_nesting(&fx, 3);
    struct mob_sched_task *t[5] = {running_root(&fx)};
    for (int i = 1; i < 5; i++) {
        t[i] = child(&fx, t[i - 1], 0);
        assert_int_equal(nest(&fx, t[i - 1], t[i]), i <= 3 ? MOB_OK : MOB_CONFLICT);
        fx_decide(&fx);
    }
    /* The last one waits as ever: its CPU goes to another worker. */
    uint32_t revoked;
    assert_int_equal(mob_sched_blocked(fx.s, t[3], &revoked, fx.now), MOB_OK);
    fx_worker(&fx, 1);
    fx_decide(&fx);
    fx_expect_dispatch(&fx, t[4]);
    fx_finish(&fx, t[4], MOB_OK);
    mob_sched_unblocked(fx.s, t[3], fx.now);
    for (int i = 3; i >= 0; i--) {
        assert_int_equal(t[i]->state, MOB_SCHED_DISPATCHED);
        fx_finish(&fx, t[i], MOB_OK);
    }
    fx_close(&fx);
    open_nesting(&fx, 0);
    struct mob_sched_task *root = running_root(&fx);
    assert_int_equal(nest(&fx, root, child(&fx, root, 0)), MOB_CONFLICT); /* switched off */
    fx_close(&fx);
}

static void only_what_is_alike_runs_on_top(void **state)
{
    (void)state;
    struct fx fx;
    uint16_t camera, class_id, job;
    uint32_t actor;
    open_nesting(&fx, 4);
    assert_int_equal(mob_sched_resource(fx.s, "camera", 6, &camera), MOB_OK);
    mob_sched_resource_total(fx.s, camera, 5 * MOB_SCHED_UNIT);
    struct mob_sched_demand demands[] = {{MOB_SCHED_CPU, MOB_SCHED_UNIT}, {camera, MOB_SCHED_UNIT}};
    assert_int_equal(mob_sched_class(fx.s, 1, demands, 2, &class_id), MOB_OK);
    assert_int_equal(mob_sched_job_open(fx.s, 1, &job), MOB_OK);
    assert_int_equal(mob_sched_actor_open(fx.s, &actor), MOB_OK);
    struct mob_sched_task *root = running_root(&fx);
    struct mob_object_id input = {{fx_stream(4, 4), 4}, 0};
    struct mob_sched_submit wrong[] = {
        {.class_id = class_id, .max_retries = 3}, /* holds more than CPU */
        {.class_id = fx.cpu0, .max_retries = 3}, /* another demand */
        {.class_id = fx.cpu1, .max_retries = 3, .job = job},
        {.class_id = fx.cpu1, .max_retries = 3, .actor = actor},
        {.class_id = fx.cpu1, .max_retries = 3, .flags = MOB_SCHED_ACTOR_CREATE},
        {.class_id = fx.cpu1, .max_retries = 3, .missing = &input, .missing_count = 1}, /* not ready */
        {.class_id = fx.cpu1, .max_retries = 0}, /* must not run twice */
    };
    for (uint32_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        wrong[i].parent = root;
        wrong[i].id.index = i;
        assert_int_equal(nest(&fx, root, fx_submit(&fx, wrong[i])), MOB_CONFLICT);
    }
    assert_int_equal(nest(&fx, root, fx_task(&fx)), MOB_CONFLICT); /* of nobody's tree */
    assert_int_equal(nest(&fx, root, root), MOB_CONFLICT);
    assert_int_equal(root->state, MOB_SCHED_DISPATCHED);
    struct mob_sched_task *cancelled = child(&fx, root, 20);
    mob_sched_cancel(fx.s, cancelled, false, false, fx.now);
    assert_int_equal(nest(&fx, root, cancelled), MOB_CONFLICT);
    fx_close(&fx);
}

static void a_crash_is_paid_by_the_one_that_ran(void **state)
{
    (void)state;
    struct fx fx;
    open_nesting(&fx, 4);
    struct mob_sched_task *root = running_root(&fx), *a = child(&fx, root, 0), *b = child(&fx, a, 0);
    assert_int_equal(nest(&fx, root, a), MOB_OK);
    fx_decide(&fx);
    b = child(&fx, a, 1);
    assert_int_equal(nest(&fx, a, b), MOB_OK);
    fx_decide(&fx);
    mob_sched_worker_gone(fx.s, 0, false, fx.now);
    fx_decide(&fx);
    struct mob_sched_task *all[] = {b, a, root};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(fx_about(&fx, all[i])->kind, MOB_DECIDE_RETRY);
        assert_int_equal(all[i]->state, MOB_SCHED_DELAYED);
        assert_int_equal(all[i]->retries_left, all[i] == b ? 2 : 3);
    }
    /* Once it has failed, it runs alone. */
    fx.now += MOB_SEC;
    fx_worker(&fx, 1);
    fx_decide(&fx);
    for (int i = 0; i < 3; i++)
        assert_true(all[i]->state == MOB_SCHED_DISPATCHED || all[i]->state == MOB_SCHED_READY);
    struct mob_sched_task *first = b->state == MOB_SCHED_DISPATCHED ? b : a;
    struct mob_sched_task *second = first == b ? a : b;
    assert_int_equal(nest(&fx, first, second), MOB_CONFLICT);
    fx_close(&fx);
}

static void a_worker_killed_for_one_costs_the_others_nothing(void **state)
{
    (void)state;
    struct fx fx;
    open_nesting(&fx, 4);
    struct mob_sched_task *root = running_root(&fx);
    struct mob_sched_task *late = fx_submit(&fx,
        (struct mob_sched_submit){
            .parent = root, .class_id = fx.cpu1, .max_retries = 3, .deadline = fx.now + MOB_SEC});
    assert_int_equal(nest(&fx, root, late), MOB_OK);
    fx_decide(&fx);
    struct mob_sched_task *top = child(&fx, late, 0);
    assert_int_equal(nest(&fx, late, top), MOB_OK);
    fx_decide(&fx);
    fx.now += 2 * MOB_SEC;
    fx_decide(&fx);
    assert_int_equal(fx_about(&fx, late)->kind, MOB_DECIDE_STOP);
    fx.now += 6 * MOB_SEC;
    fx_decide(&fx);
    assert_int_equal(fx_about(&fx, late)->kind, MOB_DECIDE_KILL);
    mob_sched_worker_gone(fx.s, 0, false, fx.now);
    fx_decide(&fx);
    fx_expect_fail(&fx, late, MOB_DEADLINE);
    assert_int_equal(top->state, MOB_SCHED_DELAYED);
    assert_int_equal(top->retries_left, 3);
    assert_int_equal(root->state, MOB_SCHED_DELAYED);
    assert_int_equal(root->retries_left, 3);
    fx_close(&fx);
}

static void who_goes_on_before_the_other_began_keeps_it_behind(void **state)
{
    (void)state;
    struct fx fx;
    struct mob_sched_task *batch[4];
    open_nesting(&fx, 4);
    struct mob_sched_task *root = running_root(&fx), *a = child(&fx, root, 0);
    assert_int_equal(nest(&fx, root, a), MOB_OK);
    fx_decide(&fx);
    mob_sched_unblocked(fx.s, root, fx.now);
    assert_int_equal(mob_sched_batch(fx.s, 0, batch, 4), 2);
    assert_ptr_equal(batch[0], root);
    assert_ptr_equal(batch[1], a);
    fx_finish(&fx, root, MOB_OK);
    assert_int_equal(mob_sched_batch(fx.s, 0, batch, 4), 1);
    fx_finish(&fx, a, MOB_OK);
    /* A block takes it away again. */
    root = running_root(&fx);
    a = child(&fx, root, 0);
    assert_int_equal(nest(&fx, root, a), MOB_OK);
    fx_decide(&fx);
    uint32_t revoked = 0;
    assert_int_equal(mob_sched_blocked(fx.s, root, &revoked, fx.now), MOB_OK);
    assert_int_equal(revoked, 1);
    assert_int_equal(a->state, MOB_SCHED_READY);
    fx_close(&fx);
}

struct levels {
    struct fx fx;
    struct mob_sched_task *bottom, *middle, *top;
};

/* Three levels, of which the middle one went on before the top one had begun. */
static void open_levels(struct levels *l, bool cancel_first)
{
    struct fx *fx = &l->fx;
    open_nesting(fx, 4);
    l->bottom = running_root(fx);
    l->middle = child(fx, l->bottom, 0);
    assert_int_equal(nest(fx, l->bottom, l->middle), MOB_OK);
    fx_decide(fx);
    l->top = child(fx, l->middle, 0);
    assert_int_equal(nest(fx, l->middle, l->top), MOB_OK);
    fx_decide(fx);
    if (cancel_first) { /* while it seems to be the one that runs */
        mob_sched_cancel(fx->s, l->top, false, false, fx->now);
        fx_decide(fx);
        assert_ptr_equal(fx_of_kind(fx, MOB_DECIDE_STOP)->task, l->top);
    }
    mob_sched_unblocked(fx->s, l->middle, fx->now);
}

static void close_levels(struct levels *l)
{
    fx_finish(&l->fx, l->middle, MOB_OK);
    fx_finish(&l->fx, l->bottom, MOB_OK);
    fx_close(&l->fx);
}

/* However long the one before it goes on. */
static void what_stays_behind_is_told_of_its_cancel_at_once(void **state)
{
    (void)state;
    for (int cancel_first = 0; cancel_first < 2; cancel_first++) {
        struct levels l;
        struct mob_decision d;
        open_levels(&l, cancel_first);
        if (!cancel_first)
            mob_sched_cancel(l.fx.s, l.top, false, false, l.fx.now);
        assert_true(mob_sched_next(l.fx.s, l.fx.now, &d));
        assert_int_equal(d.kind, MOB_DECIDE_TAKE_BACK);
        assert_int_equal(mob_sched_told(l.fx.s, 0), 2);
        assert_int_equal(mob_sched_take_back(l.fx.s, 0, 1, l.fx.now), 1);
        fx_decide(&l.fx);
        fx_expect_fail(&l.fx, l.top, MOB_CANCELLED);
        mob_sched_task_free(l.fx.s, l.top);
        close_levels(&l);
    }
}

static void what_stays_behind_goes_elsewhere(void **state)
{
    (void)state;
    struct levels l;
    open_levels(&l, false);
    fx_worker(&l.fx, 1);
    l.fx.now += 10 * MOB_MS;
    fx_decide(&l.fx);
    assert_non_null(fx_of_kind(&l.fx, MOB_DECIDE_TAKE_BACK));
    assert_int_equal(mob_sched_take_back(l.fx.s, 0, 1, l.fx.now), 1);
    fx_decide(&l.fx);
    fx_expect_dispatch(&l.fx, l.top);
    assert_int_equal(l.top->worker, 1);
    fx_finish(&l.fx, l.top, MOB_OK);
    close_levels(&l);
}

static void what_is_below_a_started_task_can_say_nothing(void **state)
{
    (void)state;
    struct fx fx;
    open_nesting(&fx, 4);
    struct mob_sched_task *root = running_root(&fx), *a = child(&fx, root, 0);
    assert_int_equal(nest(&fx, root, a), MOB_OK);
    fx_decide(&fx);
    assert_false(mob_sched_buried(fx.s, root));
    struct mob_sched_task *b = child(&fx, a, 0); /* it has begun */
    assert_true(mob_sched_buried(fx.s, root));
    mob_sched_unblocked(fx.s, root, fx.now);
    assert_int_equal(root->state, MOB_SCHED_BLOCKED);
    assert_int_equal(nest(&fx, a, b), MOB_OK);
    fx_decide(&fx);
    assert_true(mob_sched_buried(fx.s, root));
    assert_false(mob_sched_buried(fx.s, a));
    assert_false(mob_sched_buried(fx.s, b));
    fx_close(&fx);
}

static void a_child_in_its_parents_batch_is_taken_from_there(void **state)
{
    (void)state;
    struct fx fx;
    struct mob_sched_task *batch[8];
    open_nesting(&fx, 4);
    fx_measure(&fx);
    struct mob_sched_submit quick = {.class_id = fx.cpu1, .function = fx.quick, .max_retries = 3};
    struct mob_sched_task *root = fx_submit(&fx, quick);
    fx_decide(&fx);
    quick.parent = root;
    for (quick.id.index = 0; quick.id.index < 5; quick.id.index++)
        fx_submit(&fx, quick);
    fx_decide(&fx);
    assert_int_equal(mob_sched_batch(fx.s, 0, batch, 8), 6);
    uint32_t revoked = 0;
    assert_int_equal(mob_sched_nest(fx.s, root, batch[3], &revoked, fx.now), MOB_OK);
    assert_int_equal(revoked, 5);
    fx_decide(&fx);
    struct mob_sched_task *on_top = batch[3];
    assert_int_equal(mob_sched_batch(fx.s, 0, batch, 8), 1); /* and nothing joins it */
    assert_ptr_equal(batch[0], on_top);
    fx_close(&fx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_awaited_child_runs_where_its_parent_waits),
        cmocka_unit_test(there_is_a_bound_to_it),
        cmocka_unit_test(only_what_is_alike_runs_on_top),
        cmocka_unit_test(a_crash_is_paid_by_the_one_that_ran),
        cmocka_unit_test(a_worker_killed_for_one_costs_the_others_nothing),
        cmocka_unit_test(who_goes_on_before_the_other_began_keeps_it_behind),
        cmocka_unit_test(what_stays_behind_is_told_of_its_cancel_at_once),
        cmocka_unit_test(what_stays_behind_goes_elsewhere),
        cmocka_unit_test(what_is_below_a_started_task_can_say_nothing),
        cmocka_unit_test(a_child_in_its_parents_batch_is_taken_from_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
