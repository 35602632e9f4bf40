/* All tasks of a job, found among others'. */
#include "tests/unit/runtime/sched/sched_fixture.h"

#include <stdlib.h>

enum { OTHERS = 5000, TASKS = 60 };

static void others(struct fx *fx)
{
    for (int i = 0; i < OTHERS; i++)
        fx_task(fx);
}

static uint16_t open_job(struct fx *fx)
{
    uint16_t job;
    assert_int_equal(mob_sched_job_open(fx->s, 1, &job), MOB_OK);
    return job;
}

/* Returns how many there were. */
static uint32_t cancel_all(struct fx *fx, struct mob_sched_job_walk *walk)
{
    struct mob_sched_task *t;
    uint32_t count = 0;
    while ((t = mob_sched_job_next(fx->s, walk)) != NULL) {
        mob_sched_cancel(fx->s, t, false, true, fx->now);
        count++;
    }
    return count;
}

static void who_has_no_tasks_passes_by_nobodys(void **state)
{
    (void)state;
    struct fx fx;
    fx_open(&fx);
    uint16_t job = open_job(&fx);
    others(&fx);
    struct mob_sched_job_walk walk = mob_sched_job_walk(fx.s, job, false);
    assert_int_equal(cancel_all(&fx, &walk), 0);
    assert_int_equal(walk.at, 0);
    fx_close(&fx);
}

/* One that runs, with a child, and one that waits; behind them others'. */
static void the_walk_ends_with_the_last_of_the_job(void **state)
{
    (void)state;
    struct fx fx;
    fx_open(&fx);
    uint16_t job = open_job(&fx);
    fx_worker(&fx, 0);
    struct mob_object_id missing = {{fx_stream(9, 9), 1}, 0};
    struct mob_sched_task *runs = fx_submit(&fx, (struct mob_sched_submit){.job = job, .class_id = fx.cpu1});
    fx_decide(&fx);
    fx_expect_dispatch(&fx, runs);
    struct mob_sched_task *child =
        fx_submit(&fx, (struct mob_sched_submit){.parent = runs, .job = job, .class_id = fx.cpu1});
    struct mob_sched_task *waits = fx_submit(&fx,
        (struct mob_sched_submit){.job = job, .class_id = fx.cpu1, .missing = &missing, .missing_count = 1});
    others(&fx);
    struct mob_sched_job_walk walk = mob_sched_job_walk(fx.s, job, false);
    assert_int_equal(cancel_all(&fx, &walk), 2); /* the child went with its parent */
    assert_true(walk.at < 10);
    fx_decide(&fx);
    fx_expect_fail(&fx, child, MOB_CANCELLED);
    fx_expect_fail(&fx, waits, MOB_CANCELLED);
    const struct mob_decision *stop = fx_of_kind(&fx, MOB_DECIDE_STOP);
    assert_true(stop != NULL && stop->task == runs);
    fx_close(&fx);
}

static void calls_are_found_wherever_they_are(void **state)
{
    (void)state;
    struct fx fx;
    uint32_t actor;
    fx_open(&fx);
    uint16_t job = open_job(&fx);
    others(&fx);
    assert_int_equal(mob_sched_actor_open(fx.s, &actor), MOB_OK);
    struct mob_sched_task *call = fx_submit(&fx, (struct mob_sched_submit){.actor = actor, .job = job});
    struct mob_sched_job_walk walk = mob_sched_job_walk(fx.s, job, true), none = walk;
    assert_ptr_equal(mob_sched_job_next(fx.s, &walk), call);
    assert_null(mob_sched_job_next(fx.s, &walk));
    none = mob_sched_job_walk(fx.s, MOB_SCHED_NO_JOB, true);
    assert_ptr_equal(mob_sched_job_next(fx.s, &none), call);
    fx_close(&fx);
}

/* What a worker runs now; NULL: nothing. */
static struct mob_sched_task *running(struct fx *fx, uint16_t worker)
{
    struct mob_sched_task *first;
    return mob_sched_batch(fx->s, worker, &first, 1) == 1 ? first : NULL;
}

static struct mob_sched_task *any_task(struct fx *fx, uint16_t job, struct mob_sched_task *parent)
{
    struct mob_object_id missing = {{fx_stream(9, 9), 1}, 0};
    struct mob_sched_submit in = {.job = job, .class_id = rand() % 2 ? fx->cpu1 : fx->cpu0};
    if (parent) {
        in.parent = parent;
        in.id.index = mob_sched_children(parent);
    } else if (rand() % 3 == 0) {
        in.missing = &missing;
        in.missing_count = 1;
    } else if (rand() % 3 == 0) {
        in.not_before = fx->now + MOB_SEC;
    }
    return fx_submit(fx, in);
}

static bool is_cancelled(const struct fx *fx, const struct mob_sched_task *t)
{
    struct mob_why why;
    mob_sched_why(fx->s, t, &why);
    return t->state == MOB_SCHED_DONE || why.stopping;
}

/* In whatever state: each has failed then, or is asked to stop, and nothing of the other job is. */
static void none_of_the_job_is_left_out(void **state)
{
    (void)state;
    for (unsigned seed = 1; seed <= 200; seed++) {
        struct fx fx;
        struct mob_sched_task *tasks[TASKS];
        uint32_t job_of[TASKS], next = 0;
        srand(seed);
        fx_open(&fx);
        uint16_t jobs[2] = {open_job(&fx), open_job(&fx)};
        for (uint16_t w = 0; w < 4; w++)
            fx_worker(&fx, w);
        for (; next < TASKS; next++) {
            struct mob_sched_task *parent = rand() % 3 == 0 ? running(&fx, (uint16_t)(rand() % 4)) : NULL;
            job_of[next] = (uint32_t)rand() % 2;
            for (uint32_t i = 0; parent && i < next; i++)
                job_of[next] = tasks[i] == parent ? job_of[i] : job_of[next];
            tasks[next] = any_task(&fx, jobs[job_of[next]], parent);
            if (rand() % 5 == 0)
                fx_decide(&fx);
        }
        struct mob_sched_job_walk walk = mob_sched_job_walk(fx.s, jobs[1], false);
        assert_true(cancel_all(&fx, &walk) > 0);
        for (uint32_t i = 0; i < TASKS; i++)
            assert_int_equal(is_cancelled(&fx, tasks[i]), job_of[i]);
        fx_decide(&fx);
        fx_close(&fx);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_has_no_tasks_passes_by_nobodys),
        cmocka_unit_test(the_walk_ends_with_the_last_of_the_job),
        cmocka_unit_test(calls_are_found_wherever_they_are),
        cmocka_unit_test(none_of_the_job_is_left_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
