#include "tests/unit/runtime/sched/sched_fixture.h"

/* A creation, and all that is decided then. */
static struct mob_sched_task *begin_creation(struct fx *fx)
{
    struct mob_sched_task *create =
        fx_submit(fx, (struct mob_sched_submit){.class_id = fx->cpu1, .flags = MOB_SCHED_ACTOR_CREATE});
    fx_decide(fx);
    return create;
}

/* An actor on worker 0, as the node makes one. */
static uint32_t actor_up(struct fx *fx)
{
    uint32_t actor;
    assert_int_equal(mob_sched_actor_open(fx->s, &actor), MOB_OK);
    struct mob_sched_task *create = begin_creation(fx);
    fx_expect_dispatch(fx, create);
    uint16_t worker = fx_about(fx, create)->worker;
    assert_int_equal(fx_finish(fx, create, MOB_OK), MOB_SCHED_FINAL);
    assert_int_equal(mob_sched_actor_up(fx->s, actor, worker), MOB_OK);
    return actor;
}

static uint32_t open_actor(struct fx *fx)
{
    fx_open_with_worker(fx);
    return actor_up(fx);
}

static struct mob_sched_task *call(struct fx *fx, uint32_t actor, const struct mob_object_id *missing)
{
    return fx_submit(
        fx, (struct mob_sched_submit){.actor = actor, .missing = missing, .missing_count = missing != NULL});
}

static void actor_takes_a_cpu_to_be_placed_and_none_to_live(void **state)
{
    (void)state;
    struct fx fx;
    fx_open_with(&fx, (struct mob_sched_options){.cpu = MOB_SCHED_UNIT});
    fx_worker(&fx, 0);
    uint16_t gpu1;
    mob_sched_resource_total(fx.s, MOB_SCHED_GPU, MOB_SCHED_UNIT);
    struct mob_sched_demand demands[] = {{MOB_SCHED_CPU, MOB_SCHED_UNIT}, {MOB_SCHED_GPU, MOB_SCHED_UNIT}};
    assert_int_equal(mob_sched_class(fx.s, 1, demands, 2, &gpu1), MOB_OK);
    struct mob_sched_task *create =
        fx_submit(&fx, (struct mob_sched_submit){.class_id = gpu1, .flags = MOB_SCHED_ACTOR_CREATE});
    fx_decide(&fx);
    int64_t total, cpu, gpu;
    mob_sched_resource_get(fx.s, MOB_SCHED_CPU, &total, &cpu);
    assert_int_equal(cpu, 0);
    fx_finish(&fx, create, MOB_OK);
    mob_sched_resource_get(fx.s, MOB_SCHED_CPU, &total, &cpu);
    mob_sched_resource_get(fx.s, MOB_SCHED_GPU, &total, &gpu);
    assert_int_equal(cpu, MOB_SCHED_UNIT);
    assert_int_equal(gpu, 0); /* asked for, so held */
    mob_sched_worker_gone(fx.s, 0, false, fx.now);
    mob_sched_resource_get(fx.s, MOB_SCHED_GPU, &total, &gpu);
    assert_int_equal(gpu, MOB_SCHED_UNIT);
    fx_close(&fx);
}

static void failed_creation_gives_the_worker_back(void **state)
{
    (void)state;
    struct fx fx;
    fx_open_with_worker(&fx);
    struct mob_sched_task *create = begin_creation(&fx);
    fx_finish(&fx, create, MOB_TASK_FAILED);
    struct mob_sched_task *t = fx_task(&fx);
    fx_decide(&fx);
    fx_expect_dispatch(&fx, t);
    fx_close(&fx);
}

static void nothing_joins_the_creation_of_an_actor(void **state)
{
    (void)state;
    struct fx fx;
    fx_open_with_worker(&fx);
    fx_measure(&fx);
    struct mob_sched_task *create = fx_submit(&fx,
        (struct mob_sched_submit){
            .class_id = fx.cpu1, .function = fx.quick, .flags = MOB_SCHED_ACTOR_CREATE});
    fx_decide(&fx);
    struct mob_object_id out = mob_object_of(create->id, 0);
    struct mob_sched_task *t =
        fx_submit(&fx, (struct mob_sched_submit){.class_id = fx.cpu1, .function = fx.quick});
    struct mob_sched_task *follower = fx_submit(&fx,
        (struct mob_sched_submit){
            .class_id = fx.cpu1, .function = fx.quick, .missing = &out, .missing_count = 1});
    fx_decide(&fx);
    assert_int_equal(t->state, MOB_SCHED_READY);
    assert_int_equal(follower->state, MOB_SCHED_WAITING);
    fx_close(&fx);
}

static void worker_that_has_gone_is_not_told_to_leave(void **state)
{
    (void)state;
    struct fx fx;
    fx_open_with_worker(&fx);
    mob_sched_actor_close(fx.s, actor_up(&fx), MOB_ACTOR_DIED);
    mob_sched_worker_gone(fx.s, 0, false, fx.now);
    fx_worker(&fx, 0); /* the number is another's */
    fx_decide(&fx);
    assert_null(fx_of_kind(&fx, MOB_DECIDE_REAP));
    fx_close(&fx);
}

static void running_call_of_a_closed_actor_is_not_retried(void **state)
{
    (void)state;
    struct fx fx;
    uint32_t actor = open_actor(&fx);
    struct mob_sched_task *t = fx_submit(
        &fx, (struct mob_sched_submit){.actor = actor, .max_retries = -1, .flags = MOB_SCHED_RETRY_ON_ERROR});
    fx_decide(&fx);
    mob_sched_actor_close(fx.s, actor, MOB_ACTOR_DIED);
    assert_int_equal(fx_finish(&fx, t, MOB_TASK_FAILED), MOB_SCHED_FINAL);
    fx_close(&fx);
}

static void call_that_nobody_replays_spends_its_retries(void **state)
{
    (void)state;
    struct fx fx;
    fx_open(&fx);
    fx_worker(&fx, 0);
    uint32_t actor = actor_up(&fx);
    struct mob_sched_task *t = fx_submit(
        &fx, (struct mob_sched_submit){.actor = actor, .max_retries = 1, .flags = MOB_SCHED_SPENDS});
    struct mob_sched_task *other = fx_submit(
        &fx, (struct mob_sched_submit){.actor = actor, .max_retries = 0, .flags = MOB_SCHED_SPENDS});
    fx_decide(&fx);
    fx_expect_dispatch(&fx, t);
    mob_sched_worker_gone(fx.s, 0, false, fx.now);
    fx_decide(&fx);
    assert_ptr_equal(fx_of_kind(&fx, MOB_DECIDE_ACTOR_DOWN)->task, t);
    fx_worker(&fx, 1);
    struct mob_sched_task *create =
        fx_submit(&fx, (struct mob_sched_submit){.class_id = fx.cpu1, .flags = MOB_SCHED_ACTOR_CREATE});
    fx_decide(&fx);
    fx_finish(&fx, create, MOB_OK);
    assert_int_equal(mob_sched_actor_up(fx.s, actor, 1), MOB_OK);
    fx_decide(&fx);
    fx_expect_dispatch(&fx, t);
    mob_sched_worker_gone(fx.s, 1, false, fx.now);
    fx_decide(&fx);
    fx_expect_fail(&fx, t, MOB_WORKER_DIED);
    assert_null(fx_of_kind(&fx, MOB_DECIDE_ACTOR_DOWN)->task);
    assert_int_equal(other->state, MOB_SCHED_READY); /* it had not begun */
    fx_close(&fx);
}

static void workers_are_started_ahead_while_actors_are_made(void **state)
{
    (void)state;
    struct fx fx;
    fx_open(&fx);
    for (int i = 0; i < 100; i++)
        fx_submit(&fx, (struct mob_sched_submit){.class_id = fx.cpu1, .flags = MOB_SCHED_ACTOR_CREATE});
    fx_decide(&fx);
    assert_int_equal(fx_of_kind(&fx, MOB_DECIDE_SPAWN)->count, 16);
    fx_worker(&fx, 0);
    fx_worker(&fx, 1);
    fx_decide(&fx); /* both CPUs make one; 14 workers are on their way */
    struct mob_decision *spawn = fx_of_kind(&fx, MOB_DECIDE_SPAWN);
    assert_int_equal(spawn->count, 2);
    struct mob_sched_stats stats;
    mob_sched_stats(fx.s, &stats);
    assert_int_equal(stats.starting, 16);
    fx_close(&fx);
}

static void many_actors_get_a_worker_each(void **state)
{
    (void)state;
    struct fx fx;
    fx_open(&fx);
    fx.auto_spawn = true;
    for (int i = 0; i < 50; i++)
        actor_up(&fx);
    struct mob_sched_stats stats;
    mob_sched_stats(fx.s, &stats);
    assert_int_equal(stats.actors, 50);
    struct mob_sched_task *t = fx_task(&fx);
    fx_decide(&fx);
    fx_expect_dispatch(&fx, t);
    fx_close(&fx);
}

static void calls_keep_their_order_though_a_later_one_is_ready_first(void **state)
{
    (void)state;
    struct fx fx;
    uint32_t actor = open_actor(&fx);
    struct mob_object_id input = {{fx_stream(2, 2), 0}, 0};
    struct mob_sched_task *a = call(&fx, actor, NULL), *b = call(&fx, actor, &input),
                          *c = call(&fx, actor, NULL);
    assert_int_equal(fx_decide(&fx), 1);
    fx_expect_dispatch(&fx, a);
    struct mob_why why;
    mob_sched_why(fx.s, c, &why);
    assert_int_equal(why.reason, MOB_WHY_ACTOR_ORDER);
    assert_int_equal(why.ahead, 2); /* a runs, b waits */
    mob_sched_object_ready(fx.s, input);
    assert_int_equal(fx_decide(&fx), 2);
    assert_ptr_equal(fx.log[0].task, b);
    assert_ptr_equal(fx.log[1].task, c);
    fx_close(&fx);
}

static void call_that_needs_the_call_before_follows_it(void **state)
{
    (void)state;
    struct fx fx;
    uint32_t actor = open_actor(&fx);
    struct mob_sched_task *a = call(&fx, actor, NULL);
    struct mob_object_id out = mob_object_of(a->id, 0);
    struct mob_sched_task *b = call(&fx, actor, &out);
    assert_int_equal(fx_decide(&fx), 2);
    assert_int_equal(b->state, MOB_SCHED_DISPATCHED);
    fx_close(&fx);
}

static void calls_wait_for_an_actor_that_is_not_there_yet(void **state)
{
    (void)state;
    struct fx fx;
    fx_open(&fx);
    uint32_t actor;
    assert_int_equal(mob_sched_actor_open(fx.s, &actor), MOB_OK);
    struct mob_sched_task *a = call(&fx, actor, NULL);
    assert_int_equal(fx_decide(&fx), 0);
    struct mob_why why;
    mob_sched_why(fx.s, a, &why);
    assert_int_equal(why.reason, MOB_WHY_ACTOR_PENDING);
    fx_close(&fx);
}

static void cancelled_call_does_not_hold_up_the_others(void **state)
{
    (void)state;
    struct fx fx;
    uint32_t actor = open_actor(&fx);
    struct mob_object_id never = {{fx_stream(2, 2), 0}, 0};
    struct mob_sched_task *a = call(&fx, actor, &never), *b = call(&fx, actor, NULL);
    assert_int_equal(fx_decide(&fx), 0);
    mob_sched_cancel(fx.s, a, false, false, fx.now);
    fx_decide(&fx);
    fx_expect_fail(&fx, a, MOB_CANCELLED);
    fx_expect_dispatch(&fx, b);
    fx_close(&fx);
}

static void calls_of_a_dead_worker_run_in_order_on_the_next_one(void **state)
{
    (void)state;
    struct fx fx;
    uint32_t actor = open_actor(&fx);
    struct mob_sched_task *t[4];
    fx.next_position = 1;
    for (int i = 0; i < 4; i++)
        t[i] = call(&fx, actor, NULL);
    fx_decide(&fx);
    fx_finish(&fx, t[0], MOB_OK);
    mob_sched_worker_gone(fx.s, 0, false, fx.now);
    fx_decide(&fx);
    struct mob_decision *down = fx_of_kind(&fx, MOB_DECIDE_ACTOR_DOWN);
    assert_int_equal(down->actor, actor);
    assert_ptr_equal(down->task, t[1]);
    /* Its restart: the creation again, a replay of what had run, then the calls that had not. */
    fx_worker(&fx, 1);
    struct mob_sched_task *create = begin_creation(&fx);
    struct mob_sched_task *replay = fx_replay(&fx, actor, 1);
    assert_int_equal(mob_sched_actor_up(fx.s, actor, 1), MOB_OK); /* before `finished` is as good */
    fx_finish(&fx, create, MOB_OK);
    assert_int_equal(fx_decide(&fx), 4);
    struct mob_sched_task *order[] = {replay, t[1], t[2], t[3]};
    for (int i = 0; i < 4; i++)
        assert_ptr_equal(fx.log[i].task, order[i]);
    fx_close(&fx);
}

/* A worker that dies in the middle of its replay gives back what it had not replayed; the next replay lists
 * all of it again, and what was replayed already comes before what was given back. */
static void replay_that_was_interrupted_runs_in_order_again(void **state)
{
    (void)state;
    enum { CALLS = 6, DONE = 3 };
    struct fx fx;
    fx_open(&fx);
    uint32_t actor;
    assert_int_equal(mob_sched_actor_open(fx.s, &actor), MOB_OK);
    struct mob_sched_task *t[CALLS], *create;
    fx.next_position = CALLS;
    struct mob_sched_task *new_call = call(&fx, actor, NULL);
    for (int i = 0; i < CALLS; i++)
        t[i] = fx_replay(&fx, actor, (uint64_t)i);
    for (uint16_t worker = 0; worker < 2; worker++) {
        fx_worker(&fx, worker);
        create = begin_creation(&fx);
        fx_finish(&fx, create, MOB_OK);
        assert_int_equal(mob_sched_actor_up(fx.s, actor, worker), MOB_OK);
        assert_int_equal(fx_decide(&fx), CALLS + 1);
        for (int i = 0; i < CALLS; i++)
            assert_ptr_equal(fx.log[i].task, t[i]);
        assert_ptr_equal(fx.log[CALLS].task, new_call);
        if (worker == 1)
            break;
        for (int i = 0; i < DONE; i++)
            fx_finish(&fx, t[i], MOB_OK);
        mob_sched_worker_gone(fx.s, worker, false, fx.now);
        fx_decide(&fx);
        for (int i = 0; i < DONE; i++)
            t[i] = fx_replay(&fx, actor, (uint64_t)i);
        fx_check(&fx);
    }
    fx_close(&fx);
}

/* In whatever order they come, and whatever leaves the queue in between. */
static void replays_take_their_places(void **state)
{
    (void)state;
    enum { CALLS = 64 };
    struct fx fx;
    fx_open_with_worker(&fx);
    uint32_t actor;
    assert_int_equal(mob_sched_actor_open(fx.s, &actor), MOB_OK);
    struct mob_sched_task *t[CALLS];
    for (int i = 0; i < CALLS; i++) {
        uint64_t position = (uint64_t)(i * 37 % CALLS); /* each once */
        t[position] = fx_replay(&fx, actor, position);
        fx_check(&fx);
        if (i % 5 == 4) { /* the newest leaves and comes again */
            mob_sched_cancel(fx.s, t[position], false, false, fx.now);
            fx_decide(&fx);
            t[position] = fx_replay(&fx, actor, position);
            fx_check(&fx);
        }
    }
    struct mob_sched_task *create = begin_creation(&fx);
    fx_finish(&fx, create, MOB_OK);
    assert_int_equal(mob_sched_actor_up(fx.s, actor, 0), MOB_OK);
    assert_int_equal(fx_decide(&fx), CALLS);
    for (int i = 0; i < CALLS; i++)
        assert_ptr_equal(fx.log[i].task, t[i]);
    fx_close(&fx);
}

static void blocked_call_takes_back_its_successors(void **state)
{
    (void)state;
    struct fx fx;
    uint32_t actor = open_actor(&fx), revoked;
    struct mob_sched_task *t[3];
    for (int i = 0; i < 3; i++)
        t[i] = call(&fx, actor, NULL);
    fx_decide(&fx);
    assert_int_equal(mob_sched_blocked(fx.s, t[0], &revoked, fx.now), MOB_OK);
    assert_int_equal(revoked, 2);
    assert_int_equal(fx_decide(&fx), 0);
    mob_sched_unblocked(fx.s, t[0], fx.now);
    assert_int_equal(fx_decide(&fx), 2);
    assert_ptr_equal(fx.log[0].task, t[1]);
    fx_close(&fx);
}

static void closed_actor_fails_its_calls_and_leaves(void **state)
{
    (void)state;
    struct fx fx;
    uint32_t actor = open_actor(&fx);
    struct mob_object_id never = {{fx_stream(2, 2), 0}, 0};
    struct mob_sched_task *running = call(&fx, actor, NULL), *next = call(&fx, actor, NULL);
    struct mob_sched_task *waits = call(&fx, actor, &never);
    fx_decide(&fx);
    mob_sched_actor_close(fx.s, actor, MOB_ACTOR_DIED);
    fx_decide(&fx);
    assert_int_equal(fx_of_kind(&fx, MOB_DECIDE_REAP)->worker, 0);
    fx_expect_fail(&fx, next, MOB_ACTOR_DIED);
    fx_expect_fail(&fx, waits, MOB_ACTOR_DIED);
    struct mob_sched_task *late = mob_sched_task_alloc(fx.s);
    struct mob_sched_submit in = {.id = {fx_stream(6, 6), 0}, .actor = actor};
    assert_int_equal(mob_sched_submit(fx.s, late, &in, fx.now), MOB_NOT_FOUND);
    mob_sched_task_free(fx.s, late);
    mob_sched_worker_gone(fx.s, 0, false, fx.now);
    fx_decide(&fx);
    fx_expect_fail(&fx, running, MOB_ACTOR_DIED);
    assert_null(fx_of_kind(&fx, MOB_DECIDE_ACTOR_DOWN));
    uint32_t again;
    assert_int_equal(mob_sched_actor_open(fx.s, &again), MOB_OK);
    assert_int_equal(again, actor);
    fx_close(&fx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(actor_takes_a_cpu_to_be_placed_and_none_to_live),
        cmocka_unit_test(failed_creation_gives_the_worker_back),
        cmocka_unit_test(nothing_joins_the_creation_of_an_actor),
        cmocka_unit_test(worker_that_has_gone_is_not_told_to_leave),
        cmocka_unit_test(running_call_of_a_closed_actor_is_not_retried),
        cmocka_unit_test(call_that_nobody_replays_spends_its_retries),
        cmocka_unit_test(workers_are_started_ahead_while_actors_are_made),
        cmocka_unit_test(many_actors_get_a_worker_each),
        cmocka_unit_test(calls_keep_their_order_though_a_later_one_is_ready_first),
        cmocka_unit_test(call_that_needs_the_call_before_follows_it),
        cmocka_unit_test(calls_wait_for_an_actor_that_is_not_there_yet),
        cmocka_unit_test(cancelled_call_does_not_hold_up_the_others),
        cmocka_unit_test(calls_of_a_dead_worker_run_in_order_on_the_next_one),
        cmocka_unit_test(replay_that_was_interrupted_runs_in_order_again),
        cmocka_unit_test(replays_take_their_places),
        cmocka_unit_test(blocked_call_takes_back_its_successors),
        cmocka_unit_test(closed_actor_fails_its_calls_and_leaves),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
