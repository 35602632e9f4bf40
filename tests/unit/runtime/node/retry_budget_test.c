/* max_retries is one budget for all incarnations of a node: what was spent under one is not there again under
 * the next, and what did not pay for its retry has not spent any: the death of a zygote is nobody's fault.
 */
#include "tests/unit/runtime/node/node_fixture.h"

#include "runtime/node/actor_record.h"

enum { PATIENCE_S = 20 };

static struct mob_task_id submit(struct nx_driver *driver, int32_t max_retries, uint16_t flags)
{
    struct mob_spec_head head = nx_next(driver, MOB_KIND_TASK);
    head.max_retries = max_retries;
    head.flags = flags;
    nx_spec(driver->store, &head, NULL);
    return head.task;
}

/* Retries wait for their back-off. */
static void wait_for_task(struct nx *nx, struct nx_worker *worker, struct mob_task_id task)
{
    int64_t deadline = mob_now() + PATIENCE_S * MOB_SEC;
    while (!nx_take_task(worker)) {
        assert_true(mob_now() < deadline);
        nx_turn(nx, 1);
        usleep(500);
    }
    assert_true(mob_task_id_eq(worker->head.task, task));
}

/* On a worker that is started for it. */
static void begin(struct nx *nx, struct nx_worker *worker, struct mob_task_id task)
{
    int64_t deadline = mob_now() + PATIENCE_S * MOB_SEC;
    while (nx->node->pool->started_count == 0) {
        assert_true(mob_now() < deadline);
        nx_turn(nx, 1);
        usleep(500);
    }
    nx_worker(nx, worker);
    wait_for_task(nx, worker, task);
}

static void die(struct nx *nx, struct nx_worker *worker)
{
    nx->node->pool->started_count = 0; /* what comes is the one after it */
    nx_kill(nx, worker);
}

static void die_with_zygote(struct nx *nx, struct nx_worker *worker)
{
    nx->node->pool->started_count = 0;
    nx_kill_zygote(nx, worker);
}

/* `worker` ends with the node; what was logged until now is in the control store. */
static void next_incarnation(struct nx *nx, struct nx_worker *worker)
{
    nx_settle(nx);
    nx_let_go(worker);
    nx_restart(nx, 1);
    nx_turn(nx, 20);
}

struct ends {
    struct mob_task_id task;
    uint32_t retries, unpaid, finals;
    enum mob_status last;
};

static void see_end(void *arg, const struct mob_entry *e)
{
    struct ends *ends = arg;
    const struct mob_completion_head *head = &e->completion.head;
    if (e->type != MOB_ENTRY_COMPLETION || !mob_task_id_eq(head->task, ends->task))
        return;
    ends->retries += (head->flags & MOB_COMPLETION_WILL_RETRY) != 0;
    ends->unpaid += (head->flags & MOB_COMPLETION_UNPAID) != 0;
    ends->finals += (head->flags & MOB_COMPLETION_FINAL) != 0;
    ends->last = (enum mob_status)head->status;
}

static struct ends ends_of(struct nx *nx, struct mob_task_id task)
{
    struct ends ends = {.task = task};
    nx_settle(nx);
    nx_each_entry(see_end, &ends);
    return ends;
}

static void assert_ended_by_a_death(struct nx *nx, struct mob_task_id task, struct ends expected)
{
    struct ends ends = ends_of(nx, task);
    assert_null(mob_sched_find(nx->node->sched, task));
    assert_int_equal(ends.finals, 1);
    assert_int_equal(ends.last, MOB_WORKER_DIED);
    assert_int_equal(ends.retries, expected.retries);
    assert_int_equal(ends.unpaid, expected.unpaid);
}

/* A death of a worker under each of three incarnations, and an error: that was one too many. */
static void retries_do_not_come_back_with_the_node(void **state)
{
    (void)state;
    struct nx nx;
    struct nx_driver driver;
    struct nx_worker worker;
    nx_open_with(&nx, 1, &driver);
    struct mob_task_id task = submit(&driver, 3, MOB_SPEC_RETRY_ON_ERROR);
    begin(&nx, &worker, task);
    die(&nx, &worker);
    begin(&nx, &worker, task);
    nx_complete(&worker, 0, MOB_INVALID);
    wait_for_task(&nx, &worker, task);
    next_incarnation(&nx, &worker);
    begin(&nx, &worker, task);
    die(&nx, &worker);
    begin(&nx, &worker, task); /* the last one */
    next_incarnation(&nx, &worker);
    begin(&nx, &worker, task); /* the node's own end is no retry */
    die(&nx, &worker);
    assert_ended_by_a_death(&nx, task, (struct ends){.retries = 3});
    nx_close_with(&nx, &driver);
}

static void start_after_a_divergence_spends_none(void **state)
{
    (void)state;
    struct nx nx;
    struct nx_driver driver;
    struct nx_worker worker;
    nx_open_with(&nx, 1, &driver);
    struct mob_task_id task = submit(&driver, 1, MOB_SPEC_RESTART_ON_DIVERGENCE);
    begin(&nx, &worker, task);
    next_incarnation(&nx, &worker);
    begin(&nx, &worker, task);
    nx_complete(&worker, 0, MOB_REPLAY_DIVERGED);
    wait_for_task(&nx, &worker, task);
    next_incarnation(&nx, &worker);
    begin(&nx, &worker, task);
    die(&nx, &worker); /* the one that it has */
    begin(&nx, &worker, task);
    die(&nx, &worker);
    assert_ended_by_a_death(&nx, task, (struct ends){.retries = 2, .unpaid = 1});
    nx_close_with(&nx, &driver);
}

/* A task that nobody has gone on with is wanted: it does, with what it has left. */
static void a_task_that_was_left_has_no_other_budget(void **state)
{
    (void)state;
    struct nx nx;
    struct nx_driver driver;
    struct nx_worker worker;
    nx_open_with(&nx, 1, &driver);
    struct mob_task_id task = submit(&driver, 2, 0);
    begin(&nx, &worker, task);
    die(&nx, &worker);
    begin(&nx, &worker, task);
    FAKE.leaves_unfinished = true;
    next_incarnation(&nx, &worker);
    assert_null(mob_sched_find(nx.node->sched, task));
    nx_disconnect(&driver);
    nx_connect(&nx, &driver, NULL);
    nx_watch(driver.store, mob_object_of(task, 0));
    begin(&nx, &worker, task);
    die(&nx, &worker);
    begin(&nx, &worker, task); /* the last one */
    die(&nx, &worker);
    assert_ended_by_a_death(&nx, task, (struct ends){.retries = 2});
    nx_close_with(&nx, &driver);
}

static void for_ever_is_for_ever(void **state)
{
    (void)state;
    struct nx nx;
    struct nx_driver driver;
    struct nx_worker worker;
    nx_open_with(&nx, 1, &driver);
    struct mob_task_id task = submit(&driver, -1, 0);
    for (int i = 0; i < 3; i++) {
        begin(&nx, &worker, task);
        die(&nx, &worker);
        begin(&nx, &worker, task);
        next_incarnation(&nx, &worker);
    }
    begin(&nx, &worker, task);
    nx_complete(&worker, 7, MOB_OK);
    assert_int_equal(ends_of(&nx, task).last, MOB_OK);
    nx_let_go(&worker);
    nx_close_with(&nx, &driver);
}

/* Not under this incarnation of the node, and not as the next one counts. */
static void death_of_the_zygote_spends_none(void **state)
{
    (void)state;
    struct nx nx;
    struct nx_driver driver;
    struct nx_worker worker;
    nx_open_with(&nx, 1, &driver);
    struct mob_task_id task = submit(&driver, 1, 0);
    for (int i = 0; i < 3; i++) {
        begin(&nx, &worker, task);
        die_with_zygote(&nx, &worker);
    }
    begin(&nx, &worker, task);
    next_incarnation(&nx, &worker);
    begin(&nx, &worker, task);
    die(&nx, &worker); /* the one that it has */
    begin(&nx, &worker, task);
    die_with_zygote(&nx, &worker); /* none are left, and none is needed */
    begin(&nx, &worker, task);
    die(&nx, &worker);
    assert_ended_by_a_death(&nx, task, (struct ends){.retries = 5, .unpaid = 4});
    nx_close_with(&nx, &driver);
}

/* It creates actor, or runs one call of it: neither takes a restart, and it has none. */
static void death_of_the_zygote_spends_no_restart(void **state)
{
    (void)state;
    struct nx nx;
    struct nx_driver driver;
    struct nx_worker worker;
    nx_open_with(&nx, 1, &driver);
    struct mob_spec_head head = nx_next(&driver, MOB_KIND_ACTOR_CREATE);
    head.max_retries = 0;
    nx_spec(driver.store, &head, NULL);
    struct mob_actor_id actor = {head.task};
    begin(&nx, &worker, actor.creation);
    die_with_zygote(&nx, &worker);
    begin(&nx, &worker, actor.creation);
    nx_complete(&worker, 0, MOB_OK);
    struct mob_task_id call = nx_call(&driver, actor);
    for (int i = 0; i < 3; i++) {
        wait_for_task(&nx, &worker, call);
        die_with_zygote(&nx, &worker);
        begin(&nx, &worker, actor.creation);
        nx_complete(&worker, 0, MOB_OK);
    }
    wait_for_task(&nx, &worker, call);
    nx_complete(&worker, 7, MOB_OK);
    assert_int_equal(ends_of(&nx, call).last, MOB_OK);
    die(&nx, &worker);
    nx_turn(&nx, 3);
    assert_int_equal(node_actor_find(nx.node, actor)->life.state, MOB_ACTOR_DEAD);
    nx_close_with(&nx, &driver);
}

/* What it did to the instance stays done, and the log has the call once: asked to or not, it has ended. */
static void a_call_that_fails_is_not_run_again(void **state)
{
    (void)state;
    struct nx nx;
    struct nx_driver driver;
    struct nx_worker worker;
    nx_open_with(&nx, 1, &driver);
    struct mob_spec_head head = nx_next(&driver, MOB_KIND_ACTOR_CREATE);
    nx_spec(driver.store, &head, NULL);
    struct mob_actor_id actor = {head.task};
    begin(&nx, &worker, actor.creation);
    nx_complete(&worker, 0, MOB_OK);
    head = nx_next(&driver, MOB_KIND_ACTOR_CALL);
    head.actor = actor;
    head.max_retries = 3;
    head.flags |= MOB_SPEC_RETRY_ON_ERROR;
    nx_spec(driver.store, &head, NULL);
    wait_for_task(&nx, &worker, head.task);
    nx_complete(&worker, 0, MOB_TASK_FAILED);
    struct ends ends = ends_of(&nx, head.task);
    assert_int_equal(ends.retries, 0);
    assert_int_equal(ends.finals, 1);
    assert_int_equal(ends.last, MOB_TASK_FAILED);
    nx_let_go(&worker);
    nx_close_with(&nx, &driver);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(retries_do_not_come_back_with_the_node),
        cmocka_unit_test(start_after_a_divergence_spends_none),
        cmocka_unit_test(a_task_that_was_left_has_no_other_budget),
        cmocka_unit_test(for_ever_is_for_ever),
        cmocka_unit_test(death_of_the_zygote_spends_none),
        cmocka_unit_test(death_of_the_zygote_spends_no_restart),
        cmocka_unit_test(a_call_that_fails_is_not_run_again),
    };
    return cmocka_run_group_tests_name("retry_budget", tests, NULL, NULL);
}
