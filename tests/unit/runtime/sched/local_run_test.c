/* Running tasks: batches, followers, blocking, retries, deaths of workers. */
#include "tests/unit/runtime/sched/sched_fixture.h"

/* As many as a worker gets: fewer than MOB_SCHED_BATCH_MAX, when their work is more than batch_ns_max. */
enum { MANY = 3 * MOB_SCHED_BATCH_MAX };

static struct mob_sched_task *quick_task(struct fx *fx)
{
    return fx_submit(fx, (struct mob_sched_submit){.class_id = fx->cpu1, .function = fx->quick});
}

/* ---- batches ---- */

static void short_tasks_go_in_batches(void **state)
{
    (void)state;
    struct fx fx;
    fx_open_with_worker(&fx);
    fx_measure_as(&fx, 100);
    for (int i = 0; i < MANY; i++)
        quick_task(&fx);
    fx_decide(&fx);
    uint32_t told = 0, last = 0;
    for (uint32_t i = 0; i < fx.count; i++) {
        told += fx.log[i].kind == MOB_DECIDE_DISPATCH;
        last += fx.log[i].last;
    }
    assert_int_equal(told, MOB_SCHED_BATCH_MAX);
    assert_int_equal(last, 1);
    fx_close(&fx);
}

static void half_empty_worker_is_refilled(void **state)
{
    (void)state;
    struct fx fx;
    fx_open_with_worker(&fx);
    fx_measure_as(&fx, 100);
    static struct mob_sched_task *t[MANY];
    for (int i = 0; i < MANY; i++)
        t[i] = quick_task(&fx);
    fx_decide(&fx);
    const int most = (int)MOB_SCHED_BATCH_MAX / 2 - 28;
    for (int i = 0; i < most; i++)
        mob_sched_finished(fx.s, t[i], MOB_OK, 100, fx.now);
    fx_decide(&fx);
    assert_int_equal(mob_sched_batch(fx.s, 0, t, 0), MOB_SCHED_BATCH_MAX - most);
    for (int i = most; i < (int)MOB_SCHED_BATCH_MAX / 2; i++)
        mob_sched_finished(fx.s, t[i], MOB_OK, 100, fx.now);
    fx_decide(&fx);
    assert_int_equal(mob_sched_batch(fx.s, 0, t, 0), MOB_SCHED_BATCH_MAX);
    fx_close(&fx);
}

static void long_tasks_are_never_queued_behind_each_other(void **state)
{
    (void)state;
    struct fx fx;
    fx_open_with_worker(&fx);
    for (int i = 0; i < 3; i++) {
        struct mob_sched_task *t = fx_task(&fx);
        fx_decide(&fx);
        mob_sched_finished(fx.s, t, MOB_OK, 20 * MOB_MS, fx.now);
        mob_sched_task_free(fx.s, t);
    }
    for (int i = 0; i < 8; i++)
        fx_task(&fx);
    fx_decide(&fx);
    struct mob_sched_task *none;
    assert_int_equal(mob_sched_batch(fx.s, 0, &none, 0), 1);
    fx_close(&fx);
}

static void one_long_run_makes_the_next_batches_short(void **state)
{
    (void)state;
    struct fx fx;
    fx_open_with_worker(&fx);
    fx_measure(&fx);
    struct mob_sched_task *t = quick_task(&fx), *none;
    fx_decide(&fx);
    mob_sched_finished(fx.s, t, MOB_OK, MOB_SEC, fx.now);
    for (int i = 0; i < 20; i++)
        quick_task(&fx);
    fx_decide(&fx);
    assert_int_equal(mob_sched_batch(fx.s, 0, &none, 0), 1);
    fx_close(&fx);
}

static void nothing_is_queued_behind_a_task_that_lasts(void **state)
{
    (void)state;
    struct fx fx;
    fx_open_with_worker(&fx);
    fx_measure(&fx);
    quick_task(&fx);
    fx_decide(&fx);
    fx.now += MOB_SEC; /* this time it is not quick */
    fx_worker(&fx, 1);
    struct mob_sched_task *t = quick_task(&fx);
    fx_decide(&fx);
    assert_int_equal(fx_about(&fx, t)->worker, 1);
    fx_close(&fx);
}

static void big_work_is_split_between_workers(void **state)
{
    (void)state;
    struct fx fx;
    fx_open_with_worker(&fx);
    fx_measure(&fx);
    fx_worker(&fx, 1);
    struct mob_sched_task *none;
    for (int i = 0; i < 200; i++)
        quick_task(&fx);
    fx_decide(&fx);
    assert_int_equal(mob_sched_batch(fx.s, 0, &none, 0), 100);
    assert_int_equal(mob_sched_batch(fx.s, 1, &none, 0), 100);
    fx_close(&fx);
}

static void chain_flows_through_one_worker_in_batches(void **state)
{
    (void)state;
    struct fx fx;
    fx_open_with_worker(&fx);
    fx_measure(&fx);
    static struct mob_sched_task *t[2000];
    for (uint32_t i = 0; i < 2000; i++) {
        struct mob_object_id before = mob_object_of((struct mob_task_id){fx_stream(3, 3), i - 1}, 0);
        t[i] = fx_submit(&fx,
            (struct mob_sched_submit){.id = {fx_stream(3, 3), i},
                .class_id = fx.cpu1,
                .function = fx.quick,
                .missing = &before,
                .missing_count = i > 0});
    }
    uint32_t rounds = 0;
    for (uint32_t done = 0; done < 2000; rounds++) {
        fx_decide(&fx);
        uint32_t n = 0;
        for (uint32_t i = 0; i < fx.count; i++)
            n += fx.log[i].kind == MOB_DECIDE_DISPATCH;
        assert_true(n > 0);
        /* It has run all it was told, in order. */
        for (uint32_t i = 0; i < n; i++, done++) {
            mob_sched_object_ready(fx.s, mob_object_of(t[done]->id, 0));
            mob_sched_finished(fx.s, t[done], MOB_OK, MOB_US, fx.now);
        }
    }
    assert_in_range(rounds, 1, 10); /* 2000 / 256 */
    fx_close(&fx);
}

static void followers_wait_again_when_their_worker_dies(void **state)
{
    (void)state;
    struct fx fx;
    fx_open_with_worker(&fx);
    fx_measure(&fx);
    struct mob_sched_task *a = fx_submit(
        &fx, (struct mob_sched_submit){.class_id = fx.cpu1, .function = fx.quick, .max_retries = 3});
    struct mob_object_id out = mob_object_of(a->id, 0);
    struct mob_sched_submit in = {
        .class_id = fx.cpu1, .function = fx.quick, .missing = &out, .missing_count = 1};
    struct mob_sched_task *b = fx_submit(&fx, in);
    fx_decide(&fx);
    struct mob_sched_task *c = fx_submit(&fx, in); /* straight into the running batch */
    fx_decide(&fx);
    fx_expect_dispatch(&fx, c);
    assert_int_equal(b->state, MOB_SCHED_DISPATCHED);
    mob_sched_worker_gone(fx.s, 0, false, fx.now);
    assert_int_equal(a->state, MOB_SCHED_DELAYED);
    assert_int_equal(b->state, MOB_SCHED_WAITING);
    assert_int_equal(c->state, MOB_SCHED_WAITING);
    fx_decide(&fx);
    assert_int_equal(fx_about(&fx, a)->kind, MOB_DECIDE_RETRY);
    mob_sched_object_ready(fx.s, out);
    assert_int_equal(b->state, MOB_SCHED_READY);
    fx_close(&fx);
}

static void nothing_follows_a_function_that_returns_futures(void **state)
{
    (void)state;
    struct fx fx;
    fx_open_with_worker(&fx);
    fx_measure(&fx);
    for (int round = 0; round < 2; round++) {
        struct mob_sched_task *a = quick_task(&fx);
        struct mob_object_id out = mob_object_of(a->id, 0);
        struct mob_sched_task *b = fx_submit(&fx,
            (struct mob_sched_submit){
                .class_id = fx.cpu1, .function = fx.quick, .missing = &out, .missing_count = 1});
        fx_decide(&fx);
        assert_int_equal(b->state, round ? MOB_SCHED_WAITING : MOB_SCHED_DISPATCHED);
        /* a ends, and its result will be another task's. */
        mob_sched_finished(fx.s, a, MOB_OK, MOB_US, fx.now);
        uint32_t revoked;
        if (round == 0) {
            assert_int_equal(mob_sched_blocked(fx.s, b, &revoked, fx.now), MOB_OK);
            mob_sched_object_ready(fx.s, out);
            mob_sched_finished(fx.s, b, MOB_OK, MOB_US, fx.now);
        }
    }
    fx_close(&fx);
}

static void tasks_may_end_while_all_are_looked_through(void **state)
{
    (void)state;
    struct fx fx;
    fx_open(&fx);
    for (int i = 0; i < 5000; i++)
        fx_task(&fx);
    uint32_t at = 0, seen = 0;
    for (struct mob_sched_task *t; (t = mob_sched_each(fx.s, &at)); seen++)
        mob_sched_cancel(fx.s, t, false, false, fx.now);
    assert_int_equal(seen, 5000);
    struct mob_sched_stats stats;
    mob_sched_stats(fx.s, &stats);
    assert_int_equal(stats.tasks, 5000); /* known until somebody has heard of their outcome */
    assert_int_equal(fx_decide(&fx), 5000);
    mob_sched_stats(fx.s, &stats);
    assert_int_equal(stats.tasks, 0);
    fx_close(&fx);
}

static void full_ring_is_told_again_later(void **state)
{
    (void)state;
    struct fx fx;
    fx_open_with_worker(&fx);
    fx_measure(&fx);
    struct mob_sched_task *t[10];
    for (int i = 0; i < 10; i++)
        t[i] = quick_task(&fx);
    fx_decide(&fx);
    mob_sched_no_room(fx.s, t[4]);
    assert_int_equal(fx_decide(&fx), 0);
    mob_sched_finished(fx.s, t[0], MOB_OK, MOB_US, fx.now);
    assert_int_equal(fx_decide(&fx), 6);
    assert_ptr_equal(fx.log[0].task, t[4]);
    mob_sched_no_room(fx.s, t[9]);
    mob_sched_room(fx.s, 0);
    assert_int_equal(fx_decide(&fx), 1);
    fx_close(&fx);
}

/* ---- blocking ---- */

static void blocked_task_gives_back_its_cpu_and_its_batch(void **state)
{
    (void)state;
    struct fx fx;
    fx_open_with(&fx, (struct mob_sched_options){.cpu = MOB_SCHED_UNIT});
    fx_worker(&fx, 0);
    fx_measure(&fx);
    struct mob_sched_task *t[4];
    for (int i = 0; i < 4; i++)
        t[i] = quick_task(&fx);
    fx_decide(&fx);
    uint32_t revoked;
    assert_int_equal(mob_sched_blocked(fx.s, t[1], &revoked, fx.now), MOB_CONFLICT); /* it does not run */
    assert_int_equal(mob_sched_blocked(fx.s, t[0], &revoked, fx.now), MOB_OK);
    assert_int_equal(revoked, 3);
    fx_decide(&fx);
    assert_int_equal(fx_of_kind(&fx, MOB_DECIDE_SPAWN)->count, 1);
    fx_worker(&fx, 1);
    fx_decide(&fx);
    for (uint32_t i = 0; i < 3; i++)
        assert_ptr_equal(fx.log[i].task, t[1 + i]); /* in their old order */
    /* It goes on: over the limit, so that nothing else starts until somebody has ended. */
    mob_sched_unblocked(fx.s, t[0], fx.now);
    int64_t total, rest;
    mob_sched_resource_get(fx.s, MOB_SCHED_CPU, &total, &rest);
    assert_int_equal(rest, -MOB_SCHED_UNIT);
    struct mob_sched_task *late = quick_task(&fx);
    fx_decide(&fx);
    assert_int_equal(late->state, MOB_SCHED_READY);
    fx_finish(&fx, t[0], MOB_OK);
    fx_decide(&fx);
    assert_int_equal(late->state, MOB_SCHED_DISPATCHED);
    fx_close(&fx);
}

static void children_of_a_blocked_task_go_first(void **state)
{
    (void)state;
    struct fx fx;
    fx_open_with_worker(&fx);
    fx_worker(&fx, 1);
    struct mob_sched_task *root = fx_task(&fx);
    fx_decide(&fx);
    struct mob_sched_task *a = fx_child(&fx, root, 0), *b = fx_child(&fx, root, 1);
    fx_finish(&fx, root, MOB_OK);
    fx_decide(&fx);
    struct mob_sched_task *of_a = fx_child(&fx, a, 0), *of_a2 = fx_child(&fx, a, 1),
                          *of_b = fx_child(&fx, b, 0), *of_b2 = fx_child(&fx, b, 1);
    uint32_t revoked;
    /* The newest family, b's, is on top; then a blocks. */
    assert_int_equal(mob_sched_blocked(fx.s, a, &revoked, fx.now), MOB_OK);
    fx_worker(&fx, 2);
    struct mob_sched_task *order[] = {of_a, of_a2, of_b, of_b2};
    for (int i = 0; i < 4; i++) {
        fx_decide(&fx);
        assert_int_equal(order[i]->state, MOB_SCHED_DISPATCHED);
        fx_finish(&fx, order[i], MOB_OK);
    }
    fx_close(&fx);
}

static void nested_tasks_need_memory_for_their_depth(void **state)
{
    (void)state;
    struct fx fx;
    fx_open(&fx);
    fx.auto_spawn = true;
    /* A tree of 8 levels, 4 children each, all blocking: queued at most depth x 4 per slot. */
    struct {
        struct mob_sched_task *task;
        uint32_t level, left;
    } nodes[4096] = {{fx_task(&fx), 0, 0}};
    uint32_t count = 1, most = 0, done = 0;
    while (done < 1 + 4 + 16 + 64 + 256 + 1024) {
        fx_decide(&fx);
        for (uint32_t d = 0, n = fx.count; d < n; d++) {
            if (fx.log[d].kind != MOB_DECIDE_DISPATCH)
                continue;
            struct mob_sched_task *t = fx.log[d].task;
            uint32_t i = 0, revoked;
            while (nodes[i].task != t)
                i++;
            for (uint32_t k = 0; k < 4 && nodes[i].level < 5; k++) {
                uint32_t c = 0;
                while (c < count && nodes[c].task)
                    c++;
                nodes[c].task = fx_child(&fx, t, k);
                nodes[c].level = nodes[i].level + 1;
                nodes[c].left = i;
                count = c == count ? c + 1 : count;
            }
            if (nodes[i].level < 5) {
                assert_int_equal(mob_sched_blocked(fx.s, t, &revoked, fx.now), MOB_OK);
                nodes[i].level |= 4 << 8; /* children to come */
                continue;
            }
            for (bool ended = true; ended;
                 done++) { /* a leaf ends, and so do those who waited for the last child */
                uint32_t parent = nodes[i].left;
                fx_finish(&fx, nodes[i].task, MOB_OK);
                nodes[i].task = NULL;
                ended = i != 0 && (nodes[parent].level -= 1 << 8) < 1 << 8;
                i = parent;
            }
        }
        struct mob_sched_stats stats;
        mob_sched_stats(fx.s, &stats);
        most = stats.tasks > most ? stats.tasks : most;
    }
    assert_in_range(most, 1, 2 * 6 * 4);
    fx_close(&fx);
}

static void too_many_blocked_is_a_typed_error(void **state)
{
    (void)state;
    struct fx fx;
    fx_open_with(&fx, (struct mob_sched_options){.blocked_max = 2});
    fx.auto_spawn = true;
    uint32_t revoked;
    for (int i = 0; i < 3; i++) {
        struct mob_sched_task *t = fx_task(&fx);
        fx_decide(&fx);
        assert_int_equal(mob_sched_blocked(fx.s, t, &revoked, fx.now), i < 2 ? MOB_OK : MOB_TOO_MANY_BLOCKED);
        assert_int_equal(t->state, i < 2 ? MOB_SCHED_BLOCKED : MOB_SCHED_DISPATCHED);
    }
    fx_close(&fx);
}

/* ---- retries ---- */

static void dead_worker_costs_a_retry_and_then_the_task(void **state)
{
    (void)state;
    struct fx fx;
    fx_open(&fx);
    struct mob_sched_task *t =
        fx_submit(&fx, (struct mob_sched_submit){.class_id = fx.cpu1, .max_retries = 2});
    int64_t waited = 0;
    for (int i = 0; i < 3; i++) {
        fx_worker(&fx, 0);
        fx_decide(&fx);
        assert_int_equal(t->state, MOB_SCHED_DISPATCHED);
        mob_sched_worker_gone(fx.s, 0, false, fx.now);
        fx_decide(&fx);
        if (i == 2)
            break;
        assert_int_equal(fx_about(&fx, t)->kind, MOB_DECIDE_RETRY);
        assert_int_equal(fx_about(&fx, t)->status, MOB_WORKER_DIED);
        struct mob_why why;
        mob_sched_why(fx.s, t, &why);
        assert_int_equal(why.reason, MOB_WHY_DELAYED);
        assert_int_equal(why.until, mob_sched_next_timer(fx.s));
        assert_true(why.until - fx.now > waited); /* longer every time */
        waited = why.until - fx.now;
        fx.now = why.until;
    }
    fx_expect_fail(&fx, t, MOB_WORKER_DIED);
    fx_close(&fx);
}

static void errors_are_retried_only_when_asked(void **state)
{
    (void)state;
    struct fx fx;
    fx_open_with_worker(&fx);
    struct mob_sched_task *t =
        fx_submit(&fx, (struct mob_sched_submit){.class_id = fx.cpu1, .max_retries = 3});
    fx_decide(&fx);
    assert_int_equal(fx_finish(&fx, t, MOB_TASK_FAILED), MOB_SCHED_FINAL);
    t = fx_submit(&fx,
        (struct mob_sched_submit){.class_id = fx.cpu1, .max_retries = -1, .flags = MOB_SCHED_RETRY_ON_ERROR});
    for (int i = 0; i < 50; i++) {
        fx_decide(&fx);
        assert_int_equal(mob_sched_finished(fx.s, t, MOB_TASK_FAILED, -1, fx.now), MOB_SCHED_RETRY);
        fx.now += 20 * MOB_SEC;
    }
    fx_decide(&fx);
    assert_int_equal(fx_finish(&fx, t, MOB_OK), MOB_SCHED_FINAL);
    fx_close(&fx);
}

static void replay_that_differs_runs_again_and_pays_nothing(void **state)
{
    (void)state;
    struct fx fx;
    fx_open_with_worker(&fx);
    struct mob_sched_task *t = fx_submit(&fx, (struct mob_sched_submit){.class_id = fx.cpu1});
    fx_decide(&fx);
    assert_int_equal(mob_sched_diverged(fx.s, t, -1, fx.now), MOB_SCHED_RETRY);
    assert_int_equal(t->state, MOB_SCHED_DELAYED);
    fx.now += 20 * MOB_SEC;
    fx_decide(&fx);
    assert_int_equal(t->state, MOB_SCHED_DISPATCHED);
    mob_sched_cancel(fx.s, t, false, false, fx.now);
    assert_int_equal(mob_sched_diverged(fx.s, t, -1, fx.now), MOB_SCHED_FINAL); /* it was to stop */
    fx_close(&fx);
}

static void only_the_running_task_pays_for_its_worker(void **state)
{
    (void)state;
    struct fx fx;
    fx_open_with_worker(&fx);
    fx_measure(&fx);
    struct mob_sched_task *t[3];
    for (int i = 0; i < 3; i++)
        t[i] = quick_task(&fx); /* max_retries 0 */
    fx_decide(&fx);
    mob_sched_worker_gone(fx.s, 0, false, fx.now);
    fx_decide(&fx);
    fx_expect_fail(&fx, t[0], MOB_WORKER_DIED);
    assert_int_equal(t[1]->state, MOB_SCHED_READY);
    fx_worker(&fx, 1);
    fx_decide(&fx);
    assert_ptr_equal(fx.log[0].task, t[1]);
    assert_ptr_equal(fx.log[1].task, t[2]);
    fx_close(&fx);
}

/* What kills again and again what runs beside it, or its own worker by killing that one's parent, pays some
 * day. */
static void deaths_without_blame_are_free_for_so_long(void **state)
{
    (void)state;
    struct fx fx;
    fx_open(&fx);
    struct mob_sched_task *t =
        fx_submit(&fx, (struct mob_sched_submit){.class_id = fx.cpu1, .max_retries = 2});
    uint32_t deaths = 0, unpaid = 0;
    for (; t->state != MOB_SCHED_DONE; deaths++) {
        assert_true(deaths < 100);
        fx_worker(&fx, 0);
        fx_decide(&fx);
        fx_expect_dispatch(&fx, t);
        mob_sched_worker_gone(fx.s, 0, true, fx.now);
        fx_decide(&fx);
        unpaid += fx_about(&fx, t)->kind == MOB_DECIDE_RETRY && fx_about(&fx, t)->unpaid;
        fx.now += 10 * MOB_SEC;
    }
    fx_expect_fail(&fx, t, MOB_WORKER_DIED);
    assert_int_equal(unpaid, MOB_SCHED_UNPAID_MAX);
    assert_int_equal(deaths, MOB_SCHED_UNPAID_MAX + 2 + 1);
    mob_sched_task_free(fx.s, t);
    fx_close(&fx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(short_tasks_go_in_batches),
        cmocka_unit_test(half_empty_worker_is_refilled),
        cmocka_unit_test(long_tasks_are_never_queued_behind_each_other),
        cmocka_unit_test(one_long_run_makes_the_next_batches_short),
        cmocka_unit_test(nothing_is_queued_behind_a_task_that_lasts),
        cmocka_unit_test(big_work_is_split_between_workers),
        cmocka_unit_test(chain_flows_through_one_worker_in_batches),
        cmocka_unit_test(followers_wait_again_when_their_worker_dies),
        cmocka_unit_test(nothing_follows_a_function_that_returns_futures),
        cmocka_unit_test(tasks_may_end_while_all_are_looked_through),
        cmocka_unit_test(full_ring_is_told_again_later),
        cmocka_unit_test(blocked_task_gives_back_its_cpu_and_its_batch),
        cmocka_unit_test(children_of_a_blocked_task_go_first),
        cmocka_unit_test(nested_tasks_need_memory_for_their_depth),
        cmocka_unit_test(too_many_blocked_is_a_typed_error),
        cmocka_unit_test(dead_worker_costs_a_retry_and_then_the_task),
        cmocka_unit_test(errors_are_retried_only_when_asked),
        cmocka_unit_test(replay_that_differs_runs_again_and_pays_nothing),
        cmocka_unit_test(only_the_running_task_pays_for_its_worker),
        cmocka_unit_test(deaths_without_blame_are_free_for_so_long),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
