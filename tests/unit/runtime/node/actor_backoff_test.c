/* Restarts of an actor that dies again and again wait longer and longer, until it does well. */
#include "tests/unit/runtime/node/node_fixture.h"

#include <jansson.h>

#include "runtime/node/actor_record.h"
#include "runtime/node/state_json.h"
#include "runtime/node/task.h"

enum { PATIENCE_S = 20 };

struct scene {
    struct nx nx;
    struct nx_driver driver;
    struct nx_worker worker;
    struct mob_actor_id actor;
};

static void wait_for_task(struct scene *s, struct mob_task_id task)
{
    int64_t deadline = mob_now() + PATIENCE_S * MOB_SEC;
    while (!nx_take_task(&s->worker)) {
        assert_true(mob_now() < deadline);
        nx_turn(&s->nx, 1);
        usleep(500);
    }
    assert_true(mob_task_id_eq(s->worker.head.task, task));
}

/* On a worker of its own, which the node starts for it. */
static void comes_up(struct scene *s)
{
    int64_t deadline = mob_now() + PATIENCE_S * MOB_SEC;
    while (s->nx.node->pool->started_count == 0) {
        assert_true(mob_now() < deadline);
        nx_turn(&s->nx, 1);
        usleep(500);
    }
    nx_worker(&s->nx, &s->worker);
    wait_for_task(s, s->actor.creation);
    nx_complete(&s->worker, 0, MOB_OK);
}

/* Its worker is killed. How long its restart waits from there on, in back-offs' units; 0 = not at all. */
static int64_t dies(struct scene *s)
{
    s->nx.node->pool->started_count = 0; /* what comes is the one after it */
    fake_pool_say(s->nx.node->pool, MOB_POOL_EXITED, s->worker.number);
    nx_turn(&s->nx, 1);
    mob_store_detach(s->worker.store);
    int64_t died_ns = s->nx.node->now_ns;
    struct node_task *creation;
    for (int i = 0; !(creation = node_task_find(s->nx.node, s->actor.creation)); i++) {
        assert_true(i < 100); /* its checkpoint and log are read first */
        nx_turn(&s->nx, 1);
    }
    struct mob_why why;
    mob_sched_why(s->nx.node->sched, &creation->sched, &why);
    return why.reason == MOB_WHY_DELAYED ? (why.until - died_ns) / (10 * MOB_MS) : 0;
}

static void open_scene(struct scene *s)
{
    nx_open_with(&s->nx, 1, &s->driver);
    s->actor = nx_create(&s->driver);
    comes_up(s);
}

static void close_scene(struct scene *s)
{
    nx_let_go(&s->worker);
    nx_close_with(&s->nx, &s->driver);
}

static void calls_that_crash_it_are_not_run_at_once_for_ever(void **state)
{
    (void)state;
    struct scene s;
    open_scene(&s);
    struct mob_task_id call = nx_call(&s.driver, s.actor);
    wait_for_task(&s, call);
    for (int64_t i = 0, least = 0; i < 5; i++, least = least ? 2 * least : 1) { /* 0, 1, 2, 4, 8 */
        assert_true(dies(&s) >= least);
        assert_true(i > 0 || node_task_find(s.nx.node, s.actor.creation)->sched.state != MOB_SCHED_DELAYED);
        comes_up(&s);
        wait_for_task(&s, call);
    }
    nx_complete(&s.worker, 1, MOB_OK); /* this time it does not */
    struct mob_task_id next = nx_call(&s.driver, s.actor);
    wait_for_task(&s, next);
    assert_int_equal(dies(&s), 0);
    comes_up(&s);
    close_scene(&s);
}

static void why_says_until_when_its_calls_wait(void **state)
{
    (void)state;
    struct scene s;
    open_scene(&s);
    struct mob_task_id call = nx_call(&s.driver, s.actor);
    wait_for_task(&s, call);
    for (int i = 0; i < 4; i++) {
        dies(&s);
        json_t *why = node_task_why_json(s.nx.node, node_task_find(s.nx.node, call));
        assert_string_equal(json_string_value(json_object_get(why, "reason")), "actor-pending");
        int64_t until_us = json_integer_value(json_object_get(why, "until_us"));
        json_decref(why);
        if (i > 0)
            assert_true(until_us > mob_wall_now() / 1000 - PATIENCE_S * 1000000);
        else
            assert_int_equal(until_us, 0); /* the first is not kept waiting */
        comes_up(&s);
        wait_for_task(&s, call);
    }
    close_scene(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls_that_crash_it_are_not_run_at_once_for_ever),
        cmocka_unit_test(why_says_until_when_its_calls_wait),
    };
    return cmocka_run_group_tests_name("actor_backoff", tests, NULL, NULL);
}
