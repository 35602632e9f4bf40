/* Which task the node lets run on top of one that waits, and what it does when that goes wrong. */
#include "tests/unit/runtime/node/node_fixture.h"

#include "runtime/node/suspended.h"
#include "runtime/node/task.h"
#include "runtime/node/workers.h"

/* One slot, one worker, which runs a driver's task. */
struct scene {
    struct nx nx;
    struct nx_driver driver;
    struct nx_worker worker;
    struct mob_task_id root;
    uint32_t children; /* of the root */
};

static void open_scene(struct scene *s, uint32_t nest_max)
{
    nx_nest_max = nest_max;
    nx_open_with(&s->nx, 1, &s->driver);
    s->children = 0;
    s->root = nx_submit(&s->driver);
    nx_turn(&s->nx, 3);
    nx_worker(&s->nx, &s->worker);
    nx_turn(&s->nx, 3);
    assert_true(nx_take_task(&s->worker));
    assert_true(mob_task_id_eq(s->worker.head.task, s->root));
}

static void close_scene(struct scene *s)
{
    nx_let_go(&s->worker);
    nx_close_with(&s->nx, &s->driver);
    nx_nest_max = 0;
}

/* A child of the task that runs, whose children begin at `index`. */
static struct mob_task_id submit_below(struct scene *s, struct mob_task_id parent, uint32_t index,
    const struct mob_object_id *input, const struct mob_spec_head *like)
{
    struct mob_spec_head head = nx_head(parent, s->driver.welcome.job, index, MOB_KIND_TASK);
    if (like) {
        head.num_returns = like->num_returns;
        head.max_retries = like->max_retries;
    }
    nx_spec(s->worker.store, &head, input);
    return head.task;
}

static struct mob_task_id child(struct scene *s, const struct mob_object_id *input)
{
    return submit_below(s, s->root, s->children++, input, NULL);
}

static void suspend(struct scene *s, struct mob_task_id task, uint32_t number, struct mob_object_id needed)
{
    struct mob_out_suspended head = {.task = task, .number = number};
    struct mob_piece pieces[] = {{&head, sizeof head}, {&needed, sizeof needed}};
    assert_int_equal(mob_store_publish(s->worker.store, MOB_OUT_SUSPENDED, 0, 1, pieces, 2), MOB_OK);
    nx_turn(&s->nx, 3);
}

/* The node's answer, which is there; what came before it is dropped. */
static struct mob_in_nest answer(struct scene *s)
{
    struct mob_in_nest nest = {0};
    struct mob_record record;
    const uint8_t *body;
    while ((body = mob_store_in_peek(s->worker.store, &record)) != NULL) {
        bool found = record.type == MOB_IN_NEST;
        if (found)
            memcpy(&nest, body, sizeof nest);
        mob_store_in_pop(s->worker.store);
        if (found)
            return nest;
    }
    fail_msg("there is no answer");
    return nest;
}

static void expect_on_top(struct scene *s, uint32_t number, struct mob_task_id task)
{
    struct mob_in_nest nest = answer(s);
    assert_int_equal(nest.status, MOB_OK);
    assert_int_equal(nest.number, number);
    assert_true(mob_task_id_eq(nest.task, task));
    assert_true(nx_take_task(&s->worker));
    assert_true(mob_task_id_eq(s->worker.head.task, task));
}

static void expect_refused(struct scene *s, uint32_t number)
{
    struct mob_in_nest nest = answer(s);
    assert_int_equal(nest.number, number);
    assert_int_not_equal(nest.status, MOB_OK);
}

static enum mob_sched_state state_of(struct scene *s, struct mob_task_id task)
{
    struct node_task *record = node_task_find(s->nx.node, task);
    return record ? (enum mob_sched_state)record->sched.state : MOB_SCHED_DONE;
}

static struct mob_object_id result(struct mob_task_id task)
{
    return mob_object_of(task, 0);
}

/* ---- whom it finds ---- */

static void a_queued_child_runs_on_top_of_its_parent(void **state)
{
    (void)state;
    struct scene s;
    open_scene(&s, 4);
    struct mob_task_id first = child(&s, NULL), second = child(&s, NULL);
    suspend(&s, s.root, 1, result(second));
    expect_on_top(&s, 1, second);
    assert_int_equal(state_of(&s, s.root), MOB_SCHED_BLOCKED);
    nx_complete(&s.worker, 2, MOB_OK);
    nx_turn(&s.nx, 2);
    assert_int_equal(state_of(&s, s.root), MOB_SCHED_DISPATCHED);
    suspend(&s, s.root, 2, result(first));
    expect_on_top(&s, 2, first);
    nx_complete(&s.worker, 1, MOB_OK);
    s.worker.head.task = s.root;
    nx_complete(&s.worker, 3, MOB_OK);
    nx_settle(&s.nx);
    enum mob_status status;
    assert_true(nx_told(s.driver.store, result(s.root), &status));
    assert_int_equal(status, MOB_OK);
    close_scene(&s);
}

static void missing_inputs_lead_to_what_is_queued(void **state)
{
    (void)state;
    struct scene s;
    open_scene(&s, 4);
    struct mob_task_id made = child(&s, NULL);
    struct mob_object_id first = result(made);
    struct mob_task_id middle = child(&s, &first);
    struct mob_object_id second = result(middle);
    struct mob_task_id last = child(&s, &second);
    suspend(&s, s.root, 1, result(last));
    expect_on_top(&s, 1, made);
    nx_complete(&s.worker, 1, MOB_OK);
    nx_turn(&s.nx, 2);
    suspend(&s, s.root, 2, result(last));
    expect_on_top(&s, 2, middle);
    close_scene(&s);
}

static void a_tail_call_leads_to_what_the_task_became(void **state)
{
    (void)state;
    struct scene s;
    open_scene(&s, 4);
    struct mob_task_id caller = child(&s, NULL);
    suspend(&s, s.root, 1, result(caller));
    expect_on_top(&s, 1, caller);
    struct mob_task_id target = submit_below(&s, caller, 0, NULL, NULL);
    nx_complete_as(&s.worker, result(target));
    nx_turn(&s.nx, 2);
    assert_int_equal(state_of(&s, caller), MOB_SCHED_DONE);
    suspend(&s, s.root, 2, result(caller));
    expect_on_top(&s, 2, target);
    close_scene(&s);
}

/* ---- whom it refuses ---- */

static void what_is_there_before_its_task_ends_runs_elsewhere(void **state)
{
    (void)state;
    struct scene s;
    struct mob_spec_head stream = {.num_returns = MOB_RETURNS_STREAM, .max_retries = 3};
    open_scene(&s, 4);
    struct mob_task_id generator = submit_below(&s, s.root, s.children++, NULL, &stream);
    struct mob_task_id plain = child(&s, NULL);
    suspend(&s, s.root, 1, result(generator));
    expect_refused(&s, 1);
    suspend(&s, s.root, 2, mob_object_of(plain, MOB_SLOT_PUT | 1)); /* what it may put on its way */
    expect_refused(&s, 2);
    suspend(&s, s.root, 3, mob_object_of(plain, 1)); /* it has no such return */
    expect_refused(&s, 3);
    suspend(&s, s.root, 4, result(s.root)); /* itself */
    expect_refused(&s, 4);
    suspend(&s, plain, 5, result(generator)); /* it does not run */
    expect_refused(&s, 5);
    assert_int_equal(state_of(&s, s.root), MOB_SCHED_DISPATCHED);
    suspend(&s, s.root, 6, result(plain));
    expect_on_top(&s, 6, plain);
    close_scene(&s);
}

static void it_can_be_switched_off(void **state)
{
    (void)state;
    struct scene s;
    open_scene(&s, 0);
    struct mob_task_id one = child(&s, NULL);
    suspend(&s, s.root, 1, result(one));
    expect_refused(&s, 1);
    close_scene(&s);
}

static void a_record_that_does_not_parse_ends_its_worker(void **state)
{
    (void)state;
    struct scene s;
    open_scene(&s, 4);
    struct mob_out_suspended head = {.task = s.root, .number = 1};
    struct mob_piece piece = {&head, sizeof head};
    assert_int_equal(mob_store_publish(s.worker.store, MOB_OUT_SUSPENDED, 0, 3, &piece, 1), MOB_OK);
    nx_turn(&s.nx, 2);
    assert_non_null(s.nx.node->workers[0]->kill_reason);
    close_scene(&s);
}

/* ---- what goes on ---- */

static void who_goes_on_first_keeps_the_other_behind(void **state)
{
    (void)state;
    struct scene s;
    open_scene(&s, 4);
    struct mob_task_id one = child(&s, NULL);
    suspend(&s, s.root, 1, result(one));
    nx_publish(s.worker.store, MOB_OUT_UNBLOCKED, &s.root, sizeof s.root, NULL, 0);
    s.worker.head.task = s.root;
    nx_complete(&s.worker, 5, MOB_OK);
    nx_turn(&s.nx, 2);
    assert_int_equal(state_of(&s, s.root), MOB_SCHED_DONE);
    assert_int_equal(state_of(&s, one), MOB_SCHED_DISPATCHED);
    expect_on_top(&s, 1, one); /* in the ring as before, and nothing is below it */
    nx_complete(&s.worker, 5, MOB_OK);
    nx_turn(&s.nx, 2);
    assert_int_equal(state_of(&s, one), MOB_SCHED_DONE);
    close_scene(&s);
}

/* A driver's cancel; `begun` tells whether the worker had begun the one that stands behind. */
static void cancel_behind(bool begun)
{
    struct scene s;
    open_scene(&s, 4);
    assert_true(mob_store_in_begin(s.worker.store));
    struct mob_task_id middle = child(&s, NULL);
    suspend(&s, s.root, 1, result(middle));
    expect_on_top(&s, 1, middle);
    assert_true(mob_store_in_begin(s.worker.store));
    struct mob_task_id top = submit_below(&s, middle, 0, NULL, NULL);
    suspend(&s, middle, 1, result(top));
    nx_publish(s.worker.store, MOB_OUT_UNBLOCKED, &middle, sizeof middle, NULL, 0); /* it runs, for long */
    nx_turn(&s.nx, 2);
    if (begun) /* the middle one ended, which is not published yet, and so did the root */
        assert_true(mob_store_in_begin(s.worker.store));
    struct mob_out_cancel cancel = {.task = top};
    nx_publish(s.driver.store, MOB_OUT_CANCEL, &cancel, sizeof cancel, NULL, 0);
    nx_turn(&s.nx, 2);
    assert_int_equal(state_of(&s, top), begun ? MOB_SCHED_DISPATCHED : MOB_SCHED_DONE);
    assert_int_equal(state_of(&s, middle), MOB_SCHED_DISPATCHED);
    assert_int_equal(state_of(&s, s.root), MOB_SCHED_BLOCKED);
    close_scene(&s);
}

static void a_cancel_behind_the_running_level_is_told_at_once(void **state)
{
    (void)state;
    cancel_behind(false);
    cancel_behind(true);
}

static void a_buried_task_cannot_end(void **state)
{
    (void)state;
    struct scene s;
    open_scene(&s, 4);
    struct mob_task_id one = child(&s, NULL);
    suspend(&s, s.root, 1, result(one));
    expect_on_top(&s, 1, one);
    submit_below(&s, one, 0, NULL, NULL); /* so it has started */
    struct nx_worker liar = s.worker;
    liar.head.task = s.root;
    nx_complete(&liar, 5, MOB_OK);
    nx_turn(&s.nx, 2);
    assert_int_equal(state_of(&s, s.root), MOB_SCHED_BLOCKED);
    assert_non_null(s.nx.node->workers[0]->kill_reason);
    close_scene(&s);
}

static void all_levels_of_a_dead_worker_run_again(void **state)
{
    (void)state;
    struct scene s;
    open_scene(&s, 4);
    struct mob_task_id task[4] = {s.root};
    for (uint32_t i = 1; i < 4; i++) {
        task[i] = submit_below(&s, task[i - 1], 0, NULL, NULL);
        suspend(&s, task[i - 1], i, result(task[i]));
        expect_on_top(&s, i, task[i]);
    }
    fake_pool_say(s.nx.node->pool, MOB_POOL_EXITED, s.worker.number);
    nx_turn(&s.nx, 2);
    for (int i = 0; i < 4; i++) {
        struct node_task *record = node_task_find(s.nx.node, task[i]);
        assert_non_null(record);
        assert_int_equal(node_task_attempt(record), 2);
        assert_int_equal(node_task_generation(record), 0); /* and finds its children */
        assert_int_equal(record->sched.retries_left, i == 3 ? 2 : 3); /* the crash was the uppermost's */
    }
    close_scene(&s);
}

static void one_blocked_too_many_costs_those_below_a_run(void **state)
{
    (void)state;
    struct scene s;
    open_scene(&s, 4);
    struct mob_task_id upper = child(&s, NULL);
    suspend(&s, s.root, 1, result(upper));
    expect_on_top(&s, 1, upper);
    nx_publish(s.worker.store, MOB_OUT_BLOCKED, &upper, sizeof upper, NULL, 0);
    nx_turn(&s.nx, 2);
    node_worker_over_bound(s.nx.node, s.nx.node->workers[0]);
    fake_pool_say(s.nx.node->pool, MOB_POOL_EXITED, s.worker.number);
    nx_turn(&s.nx, 2);
    struct mob_object_info info;
    assert_int_equal(state_of(&s, upper), MOB_SCHED_DONE);
    assert_true(mob_store_object_info(s.nx.node->store, result(upper), &info));
    assert_int_equal(info.type, MOB_TYPE_ERROR);
    struct node_task *lower = node_task_find(s.nx.node, s.root);
    assert_non_null(lower);
    assert_int_equal(node_task_attempt(lower), 2);
    close_scene(&s);
}

/* A cancel ends what stood between the two: the lower one waits for nothing any more. If the upper one
 * sleeps, that may be for ever. */
static void who_is_held_up_by_a_sleeper_runs_again(void **state)
{
    (void)state;
    struct scene s;
    open_scene(&s, 4);
    struct mob_task_id upper = child(&s, NULL);
    struct mob_object_id made = result(upper);
    struct mob_task_id middle = child(&s, &made);
    suspend(&s, s.root, 1, result(middle));
    expect_on_top(&s, 1, upper);
    struct mob_out_cancel cancel = {.task = middle};
    nx_publish(s.driver.store, MOB_OUT_CANCEL, &cancel, sizeof cancel, NULL, 0);
    nx_turn(&s.nx, 2);
    assert_int_equal(state_of(&s, middle), MOB_SCHED_DONE);
    s.nx.node->now_ns += 10 * MOB_SEC;
    node_suspended_tick(s.nx.node);
    assert_null(s.nx.node->workers[0]->kill_reason); /* it computes, and will end */
    nx_publish(s.worker.store, MOB_OUT_BLOCKED, &upper, sizeof upper, NULL, 0);
    nx_turn(&s.nx, 2);
    node_suspended_tick(s.nx.node);
    assert_null(s.nx.node->workers[0]->kill_reason); /* perhaps not for long */
    s.nx.node->now_ns += 10 * MOB_SEC;
    s.nx.node->stacks = true;
    node_suspended_tick(s.nx.node);
    assert_non_null(s.nx.node->workers[0]->kill_reason);
    close_scene(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_queued_child_runs_on_top_of_its_parent),
        cmocka_unit_test(missing_inputs_lead_to_what_is_queued),
        cmocka_unit_test(a_tail_call_leads_to_what_the_task_became),
        cmocka_unit_test(what_is_there_before_its_task_ends_runs_elsewhere),
        cmocka_unit_test(it_can_be_switched_off),
        cmocka_unit_test(a_record_that_does_not_parse_ends_its_worker),
        cmocka_unit_test(who_goes_on_first_keeps_the_other_behind),
        cmocka_unit_test(a_cancel_behind_the_running_level_is_told_at_once),
        cmocka_unit_test(a_buried_task_cannot_end),
        cmocka_unit_test(all_levels_of_a_dead_worker_run_again),
        cmocka_unit_test(one_blocked_too_many_costs_those_below_a_run),
        cmocka_unit_test(who_is_held_up_by_a_sleeper_runs_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
