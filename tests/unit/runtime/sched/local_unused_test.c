/* Numbers of demands and resources are used again when nobody needs them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/runtime/sched/sched_fixture.h"

enum { DEMANDS = 20000, KEPT = 40 };

static uint16_t memory_class(struct fx *fx, int64_t bytes)
{
    struct mob_sched_demand demand = {MOB_SCHED_MEMORY, bytes};
    uint16_t class_id;
    assert_int_equal(mob_sched_class(fx->s, 1, &demand, 1, &class_id), MOB_OK);
    return class_id;
}

static uint16_t named_class(struct fx *fx, const char *name)
{
    struct mob_sched_demand demand = {.amount = 1};
    uint16_t class_id;
    assert_int_equal(mob_sched_resource(fx->s, name, strlen(name), &demand.kind), MOB_OK);
    assert_int_equal(mob_sched_class(fx->s, 1, &demand, 1, &class_id), MOB_OK);
    return class_id;
}

/* As the node does: the number is the template's, and its tasks hold it beyond that. */
static struct mob_sched_task *submit_of_class(struct fx *fx, uint16_t class_id)
{
    struct mob_sched_task *task = fx_submit(fx, (struct mob_sched_submit){.class_id = class_id});
    mob_sched_class_release(fx->s, class_id);
    return task;
}

static int64_t needs_of(const struct fx *fx, const struct mob_sched_task *task)
{
    struct mob_why why;
    mob_sched_why(fx->s, task, &why);
    return why.reason == MOB_WHY_RESOURCES || why.reason == MOB_WHY_UNSATISFIABLE ? why.needed : 0;
}

/* Twenty thousand tasks with demands of their own run one after another beside some that stay: on an actor's
 * worker, in a queue that nothing can serve, on a worker that blocks. */
static void each_of_many_demands_runs(void **state)
{
    (void)state;
    struct fx fx;
    fx_open_with(&fx, (struct mob_sched_options){.memory = 1000000});
    for (uint16_t w = 0; w < 4; w++)
        fx_worker(&fx, w);
    uint16_t kept = memory_class(&fx, 77); /* nobody releases it */
    struct mob_sched_task *waiting[KEPT];
    for (int i = 0; i < KEPT; i++)
        waiting[i] = submit_of_class(&fx, memory_class(&fx, 2000000 + i));
    struct mob_sched_task *blocked = submit_of_class(&fx, memory_class(&fx, 555));
    fx_decide(&fx);
    uint32_t revoked;
    assert_int_equal(mob_sched_blocked(fx.s, blocked, &revoked, fx.now), MOB_OK);
    uint32_t actor;
    struct mob_sched_submit create = {.class_id = memory_class(&fx, 333), .flags = MOB_SCHED_ACTOR_CREATE};
    struct mob_sched_task *made = fx_submit(&fx, create);
    mob_sched_class_release(fx.s, create.class_id);
    fx_decide(&fx);
    fx_expect_dispatch(&fx, made);
    assert_int_equal(mob_sched_actor_open(fx.s, &actor), MOB_OK);
    assert_int_equal(mob_sched_actor_up(fx.s, actor, made->worker), MOB_OK);
    fx_finish(&fx, made, MOB_OK);
    fx_decide(&fx);
    int64_t total, free_before;
    mob_sched_resource_get(fx.s, MOB_SCHED_MEMORY, &total, &free_before);
    for (int i = 1; i <= DEMANDS; i++) {
        struct mob_sched_task *task = submit_of_class(&fx, memory_class(&fx, 1000 + i));
        fx.count = 0;
        while (mob_sched_next(fx.s, fx.now, &fx.log[fx.count]))
            fx.count++;
        fx_expect_dispatch(&fx, task);
        int64_t free_now;
        mob_sched_resource_get(fx.s, MOB_SCHED_MEMORY, &total, &free_now);
        assert_int_equal(free_now, free_before - 1000 - i);
        fx_finish(&fx, task, MOB_OK);
        if (i % 500 == 0)
            fx_check(&fx);
    }
    for (int i = 0; i < KEPT; i++)
        assert_int_equal(needs_of(&fx, waiting[i]), 2000000 + i);
    assert_int_equal(memory_class(&fx, 77), kept);
    mob_sched_unblocked(fx.s, blocked, fx.now);
    fx_finish(&fx, blocked, MOB_OK);
    mob_sched_actor_close(fx.s, actor, MOB_ACTOR_DIED);
    fx_decide(&fx);
    int64_t free_after;
    mob_sched_worker_gone(fx.s, fx_of_kind(&fx, MOB_DECIDE_REAP)->worker, false, fx.now);
    mob_sched_resource_get(fx.s, MOB_SCHED_MEMORY, &total, &free_after);
    assert_int_equal(free_after, total);
    fx_close(&fx);
}

static void so_many_demands_at_a_time_are_refused(void **state)
{
    (void)state;
    struct fx fx;
    fx_open(&fx);
    uint16_t class_id, last = 0;
    struct mob_sched_demand demand = {MOB_SCHED_MEMORY, 0};
    uint32_t given = 2; /* the fixture's */
    for (; given < MOB_SCHED_CLASSES_MAX; given++)
        last = memory_class(&fx, given);
    demand.amount = 1;
    assert_int_equal(mob_sched_class(fx.s, 1, &demand, 1, &class_id), MOB_QUEUE_FULL);
    mob_sched_class_release(fx.s, last);
    assert_int_equal(mob_sched_class(fx.s, 1, &demand, 1, &class_id), MOB_OK);
    assert_int_equal(class_id, last);
    demand.amount = 2;
    assert_int_equal(mob_sched_class(fx.s, 1, &demand, 1, &class_id), MOB_OK); /* known */
    demand.amount = MOB_SCHED_CLASSES_MAX + 1;
    assert_int_equal(mob_sched_class(fx.s, 1, &demand, 1, &class_id), MOB_QUEUE_FULL);
    fx_close(&fx);
}

static void names_of_resources_that_nobody_asks_for_go(void **state)
{
    (void)state;
    struct fx fx;
    uint16_t camera;
    fx_open(&fx);
    assert_int_equal(mob_sched_resource(fx.s, "camera", 6, &camera), MOB_OK);
    mob_sched_resource_total(fx.s, camera, MOB_SCHED_UNIT);
    struct mob_sched_task *waits = submit_of_class(&fx, named_class(&fx, "lathe"));
    for (int i = 0; i < 1000; i++) {
        char name[32];
        snprintf(name, sizeof name, "thing-%d", i);
        mob_sched_class_release(fx.s, named_class(&fx, name));
    }
    struct mob_why why;
    fx_decide(&fx);
    mob_sched_why(fx.s, waits, &why);
    assert_string_equal(mob_sched_resource_name(fx.s, why.resource), "lathe");
    assert_string_equal(mob_sched_resource_name(fx.s, camera), "camera");
    fx_close(&fx);
}

/* A demand for several new names takes their numbers one after another: the last must not get the first
 * one's. */
static void names_that_were_just_asked_for_stay_until_their_demand(void **state)
{
    (void)state;
    struct fx fx;
    uint16_t class_id;
    fx_open(&fx);
    for (int i = 0; i < 200; i++) {
        struct mob_sched_demand demands[MOB_SCHED_DEMANDS_MAX];
        for (uint32_t d = 0; d < MOB_SCHED_DEMANDS_MAX; d++) {
            char name[32];
            int bytes = snprintf(name, sizeof name, "set-%d-of-%u", i, d);
            demands[d].amount = 1;
            assert_int_equal(mob_sched_resource(fx.s, name, (size_t)bytes, &demands[d].kind), MOB_OK);
            for (uint32_t e = 0; e < d; e++)
                assert_int_not_equal(demands[e].kind, demands[d].kind);
        }
        assert_int_equal(mob_sched_class(fx.s, 1, demands, MOB_SCHED_DEMANDS_MAX, &class_id), MOB_OK);
        mob_sched_class_release(fx.s, class_id);
    }
    fx_close(&fx);
}

static void so_many_names_at_a_time_are_refused(void **state)
{
    (void)state;
    struct fx fx;
    uint16_t kind, classes[MOB_SCHED_RESOURCES_MAX];
    fx_open(&fx);
    char name[32];
    for (uint32_t i = 3; i < MOB_SCHED_RESOURCES_MAX; i++) {
        snprintf(name, sizeof name, "thing-%u", i);
        classes[i] = named_class(&fx, name);
    }
    assert_int_equal(mob_sched_resource(fx.s, "one more", 8, &kind), MOB_QUEUE_FULL);
    mob_sched_class_release(fx.s, classes[9]);
    assert_int_equal(mob_sched_resource(fx.s, "one more", 8, &kind), MOB_OK);
    assert_int_equal(kind, 9);
    fx_close(&fx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_of_many_demands_runs),
        cmocka_unit_test(so_many_demands_at_a_time_are_refused),
        cmocka_unit_test(names_of_resources_that_nobody_asks_for_go),
        cmocka_unit_test(names_that_were_just_asked_for_stay_until_their_demand),
        cmocka_unit_test(so_many_names_at_a_time_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
