/* Tasks on top of those that wait for them. */
#include "tests/unit/runtime/worker/worker_fixture.h"

#include "common/base/clock.h"

static struct mob_out_suspended suspended;
static struct mob_object_id needed[MOB_SUSPENDED_IDS_MAX];

/* The next suspension, which comes before the task's end. */
static void take_suspended(void)
{
    do {
        assert_true(fake_node_take(&node));
        assert_int_not_equal(node.record.type, MOB_OUT_COMPLETION);
    } while (node.record.type != MOB_OUT_SUSPENDED);
    assert_true(node.record.aux <= MOB_SUSPENDED_IDS_MAX);
    memcpy(&suspended, node.body, sizeof suspended);
    memcpy(needed, node.body + sizeof suspended, node.record.aux * sizeof needed[0]);
}

static void give_nest(uint32_t number, enum mob_status status, struct mob_task_id task)
{
    struct mob_in_nest nest = {.task = task, .number = number, .status = status};
    fake_node_give(&node, MOB_IN_NEST, &nest, sizeof nest, NULL, 0, NULL, 0);
}

/* What the node does when it is asked, in order: the worker waits in this thread, so nobody else can. */
static struct answer {
    struct mob_spec_head spec; /* what runs on top, or (not MOB_OK) whose result comes instead */
    int64_t argument;
    enum mob_status status;
    bool cancelled; /* as soon as it runs */
} answers[4];
static uint32_t asked;
static struct mob_inbox_hooks own_hooks;
static bool (*worker_suspends)(struct mob_client *client);
static enum mob_status (*worker_on_top)(struct mob_client *client, uint32_t number);

static bool answer_next(struct mob_client *client)
{
    if (!worker_suspends(client))
        return false;
    const struct answer *a = &answers[asked++];
    struct mob_in_spec in = {0};
    give_nest(asked, a->status, a->spec.task);
    if (a->status != MOB_OK) {
        fake_node_ready_i64(&node, mob_object_of(a->spec.task, 0), a->argument);
        return true;
    }
    give_spec(&in, &a->spec, a->argument);
    if (a->cancelled)
        fake_node_give(&node, MOB_IN_CANCEL, &a->spec.task, sizeof a->spec.task, NULL, 0, NULL, 0);
    return true;
}

/* A failure is told by the node alone. */
static enum mob_status tell_failure(struct mob_client *client, uint32_t number)
{
    enum mob_status status = worker_on_top(client, number);
    const struct answer *a = &answers[asked - 1];
    if (status == MOB_OK && a->cancelled)
        fake_node_ready(&node, mob_object_of(a->spec.task, 0), MOB_CANCELLED, MOB_TYPE_ERROR, "", 0);
    return status;
}

static struct mob_spec_head give_parent(int64_t n)
{
    struct mob_in_spec in = {0};
    struct mob_spec_head parent = head_of("probe.nested_sum", 1);
    own_hooks = *worker.client->hooks;
    worker_suspends = own_hooks.suspends;
    worker_on_top = own_hooks.on_top;
    own_hooks.suspends = answer_next;
    own_hooks.on_top = tell_failure;
    worker.client->hooks = &own_hooks;
    worker.nest_max = 4;
    asked = 0;
    give_spec(&in, &parent, n);
    return parent;
}

static struct mob_spec_head child_of(const struct mob_spec_head *parent, uint32_t index, const char *name)
{
    struct mob_spec_head child = head_of(name, 1);
    child.parent = parent->task;
    child.task = (struct mob_task_id){mob_stream_of_children(parent->task, 0, 0), index};
    return child;
}

static void an_awaited_child_runs_on_top(void **state)
{
    (void)state;
    struct mob_in_spec in = {0};
    struct mob_spec_head parent = give_parent(2), other = head_of("probe.echo_i64", 1);
    give_spec(&in, &other, 500); /* taken back with the first answer */
    for (uint32_t i = 0; i < 2; i++)
        answers[i] =
            (struct answer){.spec = child_of(&parent, i, "probe.echo_i64"), .argument = 10 + (int64_t)i};
    step_all();
    assert_int_equal(worker.depth, 0);
    for (uint32_t i = 0; i < 2; i++) {
        take_suspended();
        assert_true(mob_task_id_eq(suspended.task, parent.task));
        assert_int_equal(suspended.number, i + 1);
        assert_int_equal(node.record.aux, 1);
        assert_int_equal(needed[0].task.index, i);
        take_completion();
        assert_int_equal(completion.head.task.index, i);
        assert_true(mob_stream_eq(completion.head.task.stream, needed[0].task.stream));
        assert_int_equal(returned_i64(), 10 + i);
    }
    /* It found the results in the store, and was on nobody's CPU but its own. */
    assert_true(fake_node_take(&node));
    assert_int_equal(node.record.type, MOB_OUT_COMPLETION);
    open_completion();
    assert_true(mob_task_id_eq(completion.head.task, parent.task));
    assert_int_equal(returned_i64(), 21);
    assert_false(fake_node_take(&node));
}

static void a_refusal_changes_nothing(void **state)
{
    (void)state;
    struct mob_in_spec in = {0};
    struct mob_spec_head parent = give_parent(1), other = head_of("probe.echo_i64", 1);
    give_spec(&in, &other, 500);
    answers[0] = (struct answer){
        .status = MOB_CONFLICT, .spec = child_of(&parent, 0, "probe.echo_i64"), .argument = 8};
    step_all();
    take_completion();
    assert_int_equal(returned_i64(), 8);
    take_completion(); /* what it had not started is still its own */
    assert_true(mob_task_id_eq(completion.head.task, other.task));
    assert_int_equal(returned_i64(), 500);
}

static void late_answers_are_kept_in_order(void **state)
{
    (void)state;
    struct mob_in_spec in = {0};
    struct mob_spec_head other = head_of("probe.echo_i64", 1), top = head_of("probe.echo_i64", 1);
    /* As if a task had asked and gone on before the answer: it has ended, and other work is there. */
    worker.suspends = 1;
    give_spec(&in, &other, 500);
    step_all();
    assert_false(fake_node_take(&node)); /* it may be taken back */
    give_nest(1, MOB_OK, top.task);
    give_spec(&in, &top, 7);
    step_all();
    take_completion();
    assert_true(mob_task_id_eq(completion.head.task, top.task)); /* behind the one that went on */
    assert_int_equal(returned_i64(), 7);
    assert_false(fake_node_take(&node));
}

static void a_blocked_task_wants_no_answer(void **state)
{
    (void)state;
    struct mob_in_spec in = {0};
    struct mob_spec_head parent = head_of("probe.echo_i64", 1), top = head_of("probe.echo_i64", 1);
    worker.nest_max = 4;
    worker.call->head = parent;
    worker.client->call = worker.call; /* as if it ran, had asked, and blocked then */
    assert_true(worker.client->hooks->suspends(worker.client));
    worker.client->hooks->blocked(worker.client);
    assert_false(worker.client->hooks->suspends(worker.client));
    worker.client->call = NULL;
    give_nest(1, MOB_OK, top.task);
    give_spec(&in, &top, 7); /* the node hears of the block afterwards, and takes it back */
    fake_node_give(&node, MOB_IN_REVOKED, NULL, 0, NULL, 0, NULL, 0);
    step_all();
    assert_int_equal(worker.suspends, 0);
    assert_int_equal(worker.revokes, 0);
    assert_false(fake_node_take(&node));
}

static void a_cancel_reaches_its_level(void **state)
{
    (void)state;
    struct mob_spec_head parent = give_parent(1);
    answers[0] =
        (struct answer){.spec = child_of(&parent, 0, "probe.sleeps"), .argument = 600000, .cancelled = true};
    step_all();
    assert_failed(MOB_CANCELLED, "cancelled");
    take_completion(); /* the one below was not cancelled: it failed for its child */
    assert_true(mob_task_id_eq(completion.head.task, parent.task));
    assert_int_equal(completion.head.status, MOB_CANCELLED);
}

/* Each task's CPU time is its own, and its times lie within those of the one below. */
static void times_are_divided_between_levels(void **state)
{
    (void)state;
    struct mob_spec_head parent = give_parent(1);
    answers[0] = (struct answer){.spec = child_of(&parent, 0, "probe.burns"), .argument = 30};
    step_all();
    take_completion();
    struct mob_completion_head upper = completion.head;
    assert_true(upper.cpu_ns >= 30 * MOB_MS);
    assert_int_equal(returned_i64(), 30);
    take_completion();
    struct mob_completion_head lower = completion.head;
    assert_true(lower.started_ns <= upper.started_ns && upper.finished_ns <= lower.finished_ns);
    if (lower.cpu_ns >= upper.cpu_ns)
        fail_msg("%lld of CPU below, %lld above", (long long)lower.cpu_ns, (long long)upper.cpu_ns);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(an_awaited_child_runs_on_top),
        TEST(a_refusal_changes_nothing),
        TEST(late_answers_are_kept_in_order),
        TEST(a_blocked_task_wants_no_answer),
        TEST(a_cancel_reaches_its_level),
        TEST(times_are_divided_between_levels),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
