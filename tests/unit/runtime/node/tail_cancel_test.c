/* A cancel after the node's restart finds what is below its task: children of a task that has not run again
 * yet, and what ended ones among them became by tail calls. */
#include "tests/unit/runtime/node/node_fixture.h"
#include "runtime/node/cancel_below.h"

/* The task in worker->head submits another one. */
static struct mob_task_id submit_below(struct nx_worker *worker, uint32_t index)
{
    struct mob_spec_head head = nx_head(worker->head.task, worker->head.job, index, MOB_KIND_TASK);
    nx_spec(worker->store, &head, NULL);
    return head.task;
}

static void block(struct nx_worker *worker)
{
    nx_publish(worker->store, MOB_OUT_BLOCKED, &worker->head.task, sizeof worker->head.task, NULL, 0);
}

static void cancel(struct nx_driver *driver, struct mob_task_id task)
{
    struct mob_out_cancel body = {.task = task, .recursive = 1};
    nx_publish(driver->store, MOB_OUT_CANCEL, &body, sizeof body, NULL, 0);
}

struct seen {
    struct mob_task_id task;
    enum mob_status status;
    bool ended;
};

static void see_end(void *arg, const struct mob_entry *e)
{
    struct seen *seen = arg;
    if (e->type != MOB_ENTRY_COMPLETION || !mob_task_id_eq(e->completion.head.task, seen->task) ||
        !(e->completion.head.flags & MOB_COMPLETION_FINAL))
        return;
    seen->ended = true;
    seen->status = (enum mob_status)e->completion.head.status;
}

static void assert_cancelled(struct nx *nx, struct mob_task_id task)
{
    struct seen seen = {.task = task};
    assert_null(mob_sched_find(nx->node->sched, task));
    nx_each_entry(see_end, &seen);
    assert_true(seen.ended);
    assert_int_equal(seen.status, MOB_CANCELLED);
}

/* top waits; its child `middle` has ended as `bottom`, which waits for a worker. Then the node dies; nothing
 * runs in the next one. */
struct tree {
    struct mob_task_id top, middle, bottom;
};
static struct tree grow(struct nx *nx, struct nx_driver *driver, struct nx_driver *again)
{
    struct tree tree;
    struct nx_worker first, second;
    nx_open_with(nx, 1, driver);
    tree.top = nx_submit(driver);
    assert_true(nx_worker_takes(nx, &first));
    tree.middle = submit_below(&first, 0);
    block(&first);
    assert_true(nx_worker_takes(nx, &second));
    assert_true(mob_task_id_eq(second.head.task, tree.middle));
    tree.bottom = submit_below(&second, 0);
    nx_complete_as(&second, mob_object_of(tree.bottom, 0));
    nx_settle(nx);
    nx_let_go(&first);
    nx_let_go(&second);
    nx_restart(nx, 0);
    nx_turn(nx, 20);
    nx_connect(nx, again, driver);
    assert_non_null(mob_sched_find(nx->node->sched, tree.top));
    assert_null(mob_sched_find(nx->node->sched, tree.middle));
    assert_non_null(mob_sched_find(nx->node->sched, tree.bottom));
    return tree;
}

static void cancel_reaches_below_a_task_that_has_not_run_again(void **state)
{
    (void)state;
    struct nx nx;
    struct nx_driver driver, again;
    struct tree tree = grow(&nx, &driver, &again);
    cancel(&again, tree.top);
    nx_settle(&nx);
    assert_cancelled(&nx, tree.top);
    assert_cancelled(&nx, tree.bottom);
    nx_disconnect(&again);
    nx_disconnect(&driver);
    nx_close(&nx);
}

static void cancel_of_an_ended_task_reaches_what_it_became(void **state)
{
    (void)state;
    struct nx nx;
    struct nx_driver driver, again;
    struct tree tree = grow(&nx, &driver, &again);
    cancel(&again, tree.middle);
    nx_settle(&nx);
    assert_cancelled(&nx, tree.bottom);
    assert_non_null(mob_sched_find(nx.node->sched, tree.top));
    nx_disconnect(&again);
    nx_disconnect(&driver);
    nx_close(&nx);
}

/* Its actor's replay brings the call back, which has not ended: it does not run again. */
static void cancel_of_a_call_outlives_the_node(void **state)
{
    (void)state;
    struct nx nx;
    struct nx_driver driver;
    struct nx_worker worker;
    nx_open_with(&nx, 1, &driver);
    struct mob_actor_id actor = nx_create(&driver);
    assert_true(nx_worker_takes(&nx, &worker));
    nx_complete(&worker, 0, MOB_OK);
    struct mob_task_id cancelled = nx_call(&driver, actor), other = nx_call(&driver, actor);
    nx_turn(&nx, 5);
    assert_true(nx_take_task(&worker));
    assert_true(mob_task_id_eq(worker.head.task, cancelled));
    cancel(&driver, cancelled); /* it is asked to stop, and has not */
    nx_settle(&nx);
    nx_let_go(&worker);
    nx_restart(&nx, 1);
    assert_true(nx_worker_takes(&nx, &worker));
    nx_complete(&worker, 0, MOB_OK);
    nx_turn(&nx, 5);
    assert_true(nx_take_task(&worker));
    assert_true(mob_task_id_eq(worker.head.task, other));
    nx_complete(&worker, 1, MOB_OK);
    nx_settle(&nx);
    assert_cancelled(&nx, cancelled);
    nx_let_go(&worker);
    nx_close_with(&nx, &driver);
}

/* top and its child have ended with values; the grandchild waits. So does what is beside top. */
static void cancel_of_an_ended_task_reaches_what_it_left_running(void **state)
{
    (void)state;
    struct nx nx;
    struct nx_driver driver;
    struct nx_worker worker;
    nx_open_with(&nx, 1, &driver);
    struct mob_task_id top = nx_submit(&driver);
    assert_true(nx_worker_takes(&nx, &worker));
    struct mob_task_id middle = submit_below(&worker, 0);
    nx_complete(&worker, 1, MOB_OK);
    nx_turn(&nx, 5);
    assert_true(nx_take_task(&worker));
    assert_true(mob_task_id_eq(worker.head.task, middle));
    struct mob_spec_head head = nx_head(middle, worker.head.job, 0, MOB_KIND_TASK);
    head.cpu = 100 * 10000; /* more than there are: it waits */
    nx_spec(worker.store, &head, NULL);
    nx_complete(&worker, 1, MOB_OK);
    struct mob_spec_head beside = nx_next(&driver, MOB_KIND_TASK);
    beside.cpu = head.cpu;
    nx_spec(driver.store, &beside, NULL);
    nx_settle(&nx);
    assert_null(mob_sched_find(nx.node->sched, top));
    assert_null(mob_sched_find(nx.node->sched, middle));
    assert_non_null(mob_sched_find(nx.node->sched, head.task));
    cancel(&driver, middle);
    for (int i = 0; i < 100 && mob_sched_find(nx.node->sched, head.task); i++)
        nx_settle(&nx); /* several look-ups, one after the other */
    assert_cancelled(&nx, head.task);
    assert_non_null(mob_sched_find(nx.node->sched, beside.task));
    assert_null(nx.node->below);
    nx_let_go(&worker);
    nx_close_with(&nx, &driver);
}

/* The worker's task submits one that waits for more than there is. */
static struct mob_task_id leave_waiting(struct nx_worker *worker, uint32_t index)
{
    struct mob_spec_head head = nx_head(worker->head.task, worker->head.job, index, MOB_KIND_TASK);
    head.cpu = 100 * 10000;
    nx_spec(worker->store, &head, NULL);
    return head.task;
}

/* Ends the worker's task, and takes the next. */
static void end_and_take(struct nx *nx, struct nx_worker *worker, struct mob_task_id next)
{
    nx_complete(worker, 1, MOB_OK);
    nx_turn(nx, 5);
    assert_true(nx_take_task(worker));
    assert_true(mob_task_id_eq(worker->head.task, next));
}

/* Each top waits, its child has ended, and so has that one's child, which left one that waits. */
struct left {
    struct nx_worker worker;
    struct mob_task_id top, leaf;
};
static void leave_tree(struct nx *nx, struct left *left, struct nx_worker *below, bool first)
{
    if (first)
        nx_worker(nx, &left->worker);
    else
        left->worker = *below; /* idle, so it has the next one */
    assert_true(nx_take_task(&left->worker));
    left->top = left->worker.head.task;
    struct mob_task_id middle = submit_below(&left->worker, 0);
    block(&left->worker);
    assert_true(nx_worker_takes(nx, below));
    assert_true(mob_task_id_eq(below->head.task, middle));
    struct mob_task_id low = submit_below(below, 0);
    end_and_take(nx, below, low);
    left->leaf = leave_waiting(below, 0);
    nx_complete(below, 1, MOB_OK);
    nx_turn(nx, 5);
}

static void grow_three(struct nx *nx, struct nx_driver *driver, struct nx_worker *below, struct left left[3])
{
    nx_open_with(nx, 1, driver);
    for (int i = 0; i < 3; i++) {
        nx_submit(driver);
        nx_turn(nx, 5);
        leave_tree(nx, &left[i], below, i == 0);
    }
    nx_settle(nx);
}

static void end_three(struct nx *nx, struct nx_driver *driver, struct nx_worker *below, struct left left[3])
{
    assert_null(nx->node->below);
    assert_int_equal(nx->node->below_due_count, 0);
    for (int i = 0; i < 3; i++)
        nx_let_go(&left[i].worker);
    nx_let_go(below);
    nx_close_with(nx, driver);
}

static void settle_until_gone(struct nx *nx, struct mob_task_id task)
{
    for (int i = 0; i < 100 && mob_sched_find(nx->node->sched, task); i++)
        nx_settle(nx); /* several look-ups, one after the other */
}

/* Three such trees: two of them are cancelled in one go. */
static void cancel_of_a_living_task_reaches_below_its_ended_children(void **state)
{
    (void)state;
    struct nx nx;
    struct nx_driver driver;
    struct nx_worker below;
    struct left left[3];
    grow_three(&nx, &driver, &below, left);
    cancel(&driver, left[0].top);
    cancel(&driver, left[2].top);
    settle_until_gone(&nx, left[2].leaf);
    assert_cancelled(&nx, left[0].leaf);
    assert_cancelled(&nx, left[2].leaf);
    assert_non_null(mob_sched_find(nx.node->sched, left[1].leaf));
    assert_non_null(mob_sched_find(nx.node->sched, left[0].top)); /* it was asked to stop, and has not yet */
    end_three(&nx, &driver, &below, left);
}

/* One walk a job at a time, and what it has looked up the next one knows. */
static void cancels_that_come_during_a_walk_have_the_next_one(void **state)
{
    (void)state;
    struct nx nx;
    struct nx_driver driver;
    struct nx_worker below;
    struct left left[3];
    grow_three(&nx, &driver, &below, left);
    FAKE.hold_reads = true;
    cancel(&driver, left[0].top);
    nx_turn(&nx, 3);
    assert_non_null(nx.node->below);
    assert_int_equal(nx.node->below_due_count, 0);
    cancel(&driver, left[1].top);
    nx_turn(&nx, 3);
    cancel(&driver, left[2].top);
    nx_turn(&nx, 3);
    assert_int_equal(nx.node->below_due_count, 2);
    while (nx.node->below_due_count > 0) { /* of the first walk alone */
        assert_true(fake_gcs_reads_waiting(nx.node->gcs) > 0);
        fake_gcs_answer_read(nx.node->gcs, 0);
        nx_turn(&nx, 3);
    }
    assert_cancelled(&nx, left[0].leaf);
    uint32_t reads = FAKE.reads;
    FAKE.hold_reads = false;
    settle_until_gone(&nx, left[2].leaf);
    assert_cancelled(&nx, left[1].leaf);
    assert_cancelled(&nx, left[2].leaf);
    assert_in_range(FAKE.reads - reads, 0, 1); /* of the session's root, which has no spec to be found */
    end_three(&nx, &driver, &below, left);
}

static void count_told(struct node *node, void *arg, enum mob_status status, uint32_t told)
{
    (void)node;
    assert_int_equal(status, MOB_OK);
    assert_int_equal(told, 0);
    ++*(int *)arg;
}

/* All walks there may be are of those who ask how many were told; a cancel that waits for one of them goes
 * on. */
static void a_cancel_that_finds_no_walk_free_has_the_next(void **state)
{
    (void)state;
    struct nx nx;
    struct nx_driver driver;
    struct nx_worker below;
    struct left left[3];
    grow_three(&nx, &driver, &below, left);
    FAKE.hold_reads = true;
    const struct node_client *client = node_client_at(nx.node, driver.welcome.slot);
    struct mob_out_cancel nothing_below = {.task = left[1].leaf, .recursive = 1};
    int told = 0;
    for (int i = 0; i < BELOW_WALKS_MAX; i++)
        node_cancel_below(nx.node, client, &nothing_below, count_told, &told);
    cancel(&driver, left[0].top);
    nx_turn(&nx, 3);
    assert_int_equal(nx.node->below_due_count, 1);
    assert_int_equal(told, 0);
    FAKE.hold_reads = false;
    while (fake_gcs_reads_waiting(nx.node->gcs) > 0)
        fake_gcs_answer_read(nx.node->gcs, 0);
    settle_until_gone(&nx, left[0].leaf);
    assert_int_equal(told, BELOW_WALKS_MAX);
    assert_cancelled(&nx, left[0].leaf);
    end_three(&nx, &driver, &below, left);
}

/* Each has ended, and left one that waits; who cancels them all one after the other is never told of a bound.
 */
static void many_ended_tasks_are_cancelled_at_once(void **state)
{
    (void)state;
    enum { MANY = 40 };
    struct nx nx;
    struct nx_driver driver;
    struct nx_worker worker;
    struct mob_task_id tops[MANY], leaves[MANY];
    nx_open_with(&nx, 1, &driver);
    for (int i = 0; i < MANY; i++) {
        tops[i] = nx_submit(&driver);
        nx_turn(&nx, 5);
        if (i == 0)
            nx_worker(&nx, &worker);
        assert_true(nx_take_task(&worker));
        leaves[i] = leave_waiting(&worker, 0);
        nx_complete(&worker, 1, MOB_OK);
        nx_turn(&nx, 5);
    }
    nx_settle(&nx);
    for (int i = 0; i < MANY - 1; i++)
        cancel(&driver, tops[i]);
    for (int i = 0; i < MANY - 1; i++)
        settle_until_gone(&nx, leaves[i]);
    for (int i = 0; i < MANY - 1; i++)
        assert_cancelled(&nx, leaves[i]);
    assert_non_null(mob_sched_find(nx.node->sched, leaves[MANY - 1]));
    nx_let_go(&worker);
    nx_close_with(&nx, &driver);
}

/* It ended with the future of what it had put, which is no task that it became: it is looked up once, and
 * then what it left running. */
static void cancel_of_a_task_that_ended_as_its_own_put(void **state)
{
    (void)state;
    struct nx nx;
    struct nx_driver driver;
    struct nx_worker worker;
    nx_open_with(&nx, 1, &driver);
    struct mob_task_id top = nx_submit(&driver);
    assert_true(nx_worker_takes(&nx, &worker));
    struct mob_task_id leaf = leave_waiting(&worker, 0);
    int64_t value = 5;
    struct mob_out_put put = {.id = mob_object_of(top, MOB_SLOT_PUT),
        .type = MOB_TYPE_I64,
        .size = sizeof value,
        .inline_bytes = sizeof value,
        .hash = mob_hash128(&value, sizeof value)};
    nx_publish(worker.store, MOB_OUT_PUT, &put, sizeof put, &value, sizeof value);
    nx_complete_as(&worker, put.id);
    nx_settle(&nx);
    assert_null(mob_sched_find(nx.node->sched, top));
    assert_non_null(mob_sched_find(nx.node->sched, leaf));
    uint32_t reads = FAKE.reads;
    cancel(&driver, top);
    nx_turn(&nx, 100);
    nx_settle(&nx);
    assert_in_range(FAKE.reads - reads, 0, 20);
    assert_cancelled(&nx, leaf);
    nx_let_go(&worker);
    nx_close_with(&nx, &driver);
}

static uint32_t told_cycles(struct mob_store_client *store)
{
    struct mob_record record;
    const uint8_t *body;
    uint32_t told = 0;
    while ((body = mob_store_in_peek(store, &record)) != NULL) {
        struct mob_in_ready ready = {0};
        if (record.type == MOB_IN_READY)
            memcpy(&ready, body, sizeof ready);
        told += ready.status == MOB_CYCLE;
        mob_store_in_pop(store);
    }
    mob_store_in_release(store);
    return told;
}

/* Each of them ends with the future of the next, and the last with that of the first. */
static void tail_calls_in_a_circle(uint32_t count)
{
    struct nx nx;
    struct nx_driver driver;
    struct nx_worker worker;
    enum { COUNT_MAX = 8 };
    struct mob_task_id tasks[COUNT_MAX], leaf = {0};
    nx_open_with(&nx, 1, &driver);
    for (uint32_t i = 0; i < count; i++)
        tasks[i] = nx_submit(&driver);
    nx_turn(&nx, 5);
    nx_worker(&nx, &worker);
    for (uint32_t i = 0; i < count; i++) {
        assert_true(nx_take_task(&worker));
        assert_true(mob_task_id_eq(worker.head.task, tasks[i]));
        if (i == 0)
            leaf = leave_waiting(&worker, 0);
        nx_complete_as(&worker, mob_object_of(tasks[(i + 1) % count], 0));
        nx_turn(&nx, 5);
    }
    nx_settle(&nx);
    assert_int_equal(told_cycles(driver.store), count);
    cancel(&driver, tasks[0]);
    nx_turn(&nx, 100);
    nx_settle(&nx);
    assert_cancelled(&nx, leaf);
    nx_let_go(&worker);
    nx_close_with(&nx, &driver);
}

static void a_circle_of_tail_calls_is_an_error_and_its_cancel_ends(void **state)
{
    (void)state;
    tail_calls_in_a_circle(1);
    tail_calls_in_a_circle(2);
    tail_calls_in_a_circle(5);
}

/* Both read the same of the lineage, and each hears of it. */
static void who_asks_for_a_task_that_is_being_cancelled_is_answered(void **state)
{
    (void)state;
    struct nx nx;
    struct nx_driver driver;
    struct nx_worker worker;
    enum mob_status status = MOB_INTERNAL;
    nx_open_with(&nx, 1, &driver);
    struct mob_task_id task = nx_submit(&driver);
    assert_true(nx_worker_takes(&nx, &worker));
    nx_complete(&worker, 1, MOB_OK);
    nx_settle(&nx);
    struct mob_object_id id = mob_object_of(task, 0);
    assert_true(nx_told(driver.store, id, &status));
    mob_store_object_free(nx.node->store, id);
    FAKE.hold_reads = true;
    cancel(&driver, task);
    nx_turn(&nx, 3);
    nx_watch(driver.store, id);
    nx_turn(&nx, 3);
    assert_false(nx_told(driver.store, id, &status));
    FAKE.hold_reads = false;
    nx_turn(&nx, 20);
    assert_true(nx_told(driver.store, id, &status));
    assert_int_equal(status, MOB_OK);
    nx_let_go(&worker);
    nx_close_with(&nx, &driver);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cancel_reaches_below_a_task_that_has_not_run_again),
        cmocka_unit_test(cancel_of_an_ended_task_reaches_what_it_became),
        cmocka_unit_test(cancel_of_a_call_outlives_the_node),
        cmocka_unit_test(cancel_of_an_ended_task_reaches_what_it_left_running),
        cmocka_unit_test(cancel_of_a_living_task_reaches_below_its_ended_children),
        cmocka_unit_test(cancels_that_come_during_a_walk_have_the_next_one),
        cmocka_unit_test(a_cancel_that_finds_no_walk_free_has_the_next),
        cmocka_unit_test(many_ended_tasks_are_cancelled_at_once),
        cmocka_unit_test(cancel_of_a_task_that_ended_as_its_own_put),
        cmocka_unit_test(a_circle_of_tail_calls_is_an_error_and_its_cancel_ends),
        cmocka_unit_test(who_asks_for_a_task_that_is_being_cancelled_is_answered),
    };
    return cmocka_run_group_tests_name("tail_cancel", tests, NULL, NULL);
}
