/* Look-ups of the lineage: a group that is asked for again and again is read once, and what is remembered of
 * it is never out of date. */
#include "tests/unit/runtime/node/node_fixture.h"

#include "runtime/node/known.h"
#include "runtime/node/task.h"
#include "runtime/node/workers.h"

struct heard {
    int answers;
    bool spec, completion;
    struct node *node; /* asks for the one before in turn */
    struct mob_task_id next;
    int chain;
};

static void hear(void *arg, enum mob_status status, const struct known *known)
{
    struct heard *heard = arg;
    assert_int_equal(status, MOB_OK);
    heard->answers++;
    heard->spec = known->spec != NULL;
    heard->completion = known->completion != NULL;
    if (heard->chain-- > 0) {
        heard->next.index--;
        known_ask(heard->node, mob_object_of(heard->next, 0), hear, heard);
    }
}

static struct heard ask(struct nx *nx, struct mob_task_id task)
{
    struct heard heard = {0};
    known_ask(nx->node, mob_object_of(task, 0), hear, &heard);
    assert_int_equal(heard.answers, 0); /* never before the call has returned */
    nx_turn(nx, 10);
    assert_int_equal(heard.answers, 1);
    return heard;
}

static void group_that_is_asked_for_again_is_read_once(void **state)
{
    (void)state;
    struct nx nx;
    struct nx_driver driver;
    nx_open_with(&nx, 0, &driver);
    struct mob_task_id last = {0};
    for (int i = 0; i < 200; i++)
        last = nx_submit(&driver);
    nx_settle(&nx);
    uint32_t before = FAKE.reads;
    assert_true(ask(&nx, last).spec);
    assert_true(ask(&nx, last).spec);
    assert_int_equal(FAKE.reads - before, 2); /* from the second on it is remembered */
    struct heard heard = {.node = nx.node, .next = last, .chain = 199};
    known_ask(nx.node, mob_object_of(last, 0), hear, &heard);
    nx_turn(&nx, 3);
    assert_int_equal(heard.answers, 200);
    assert_true(heard.spec);
    struct mob_task_id nobody = last;
    nobody.index += 50;
    assert_false(ask(&nx, nobody).spec);
    assert_int_equal(FAKE.reads - before, 2);
    nx_close_with(&nx, &driver);
}

static void what_is_logged_ends_what_was_remembered(void **state)
{
    (void)state;
    struct nx nx;
    struct nx_driver driver;
    nx_open_with(&nx, 0, &driver);
    struct mob_task_id task = nx_submit(&driver), next = task;
    nx_settle(&nx);
    next.index++;
    for (int i = 0; i < 3; i++)
        assert_false(ask(&nx, next).spec);
    uint32_t before = FAKE.reads;
    assert_false(ask(&nx, next).spec);
    assert_int_equal(FAKE.reads, before);
    struct mob_spec_head head = nx_next(&driver, MOB_KIND_TASK);
    head.function = (struct mob_function_id){{'n', 'o', 'n', 'e'}}; /* it fails when it is submitted */
    nx_spec(driver.store, &head, NULL);
    nx_settle(&nx);
    struct heard heard = ask(&nx, next);
    assert_true(heard.spec);
    assert_true(heard.completion);
    /* logged while a remembered answer was on its way */
    for (int i = 0; i < 3; i++)
        ask(&nx, next);
    heard = (struct heard){0};
    struct mob_task_id third = {next.stream, next.index + 1};
    known_ask(nx.node, mob_object_of(third, 0), hear, &heard);
    head = nx_next(&driver, MOB_KIND_TASK);
    nx_spec(driver.store, &head, NULL);
    nx_turn(&nx, 10);
    assert_int_equal(heard.answers, 1);
    assert_true(heard.spec);
    nx_close_with(&nx, &driver);
}

/* ---- a control store that does not answer ---- */

/* A parent that runs for the second time, and so asks the lineage for what it submits. */
struct parent {
    struct nx nx;
    struct nx_driver driver;
    struct nx_worker worker;
    struct mob_task_id task, child;
};

#define PATIENCE_NS (30 * MOB_SEC)

static void run_again(struct parent *p, uint32_t attempt)
{
    struct mob_pool *pool = p->nx.node->pool;
    int64_t end = mob_now() + PATIENCE_NS;
    for (; pool->started_count == 0; nx_turn(&p->nx, 1))
        assert_true(mob_now() < end);
    nx_worker(&p->nx, &p->worker);
    for (; !nx_take_task(&p->worker); nx_turn(&p->nx, 1))
        assert_true(mob_now() < end);
    assert_true(mob_task_id_eq(p->worker.head.task, p->task));
    assert_int_equal(p->worker.head.attempt, attempt);
}

static void lose_worker(struct parent *p)
{
    p->nx.node->pool->started_count = 0; /* what comes is the one after it */
    nx_kill(&p->nx, &p->worker);
}

static void open_parent(struct parent *p)
{
    *p = (struct parent){0};
    nx_open_with(&p->nx, 1, &p->driver);
    p->task = nx_submit(&p->driver);
    run_again(p, 1);
    lose_worker(p);
    run_again(p, 2);
}

static void close_parent(struct parent *p)
{
    nx_let_go(&p->worker);
    nx_close_with(&p->nx, &p->driver);
}

static void submit_child(struct parent *p)
{
    struct mob_spec_head head = nx_head(p->task, p->driver.welcome.job, 0, MOB_KIND_TASK);
    p->child = head.task;
    nx_spec(p->worker.store, &head, NULL);
}

static void until_read(struct parent *p)
{
    int64_t end = mob_now() + PATIENCE_NS;
    for (uint32_t before = FAKE.reads; FAKE.reads == before; nx_turn(&p->nx, 1))
        assert_true(mob_now() < end);
}

static struct node_worker *worker_of(struct parent *p)
{
    struct node_task *task = node_task_find(p->nx.node, p->task);
    assert_non_null(task);
    return node_worker_at(p->nx.node, task->sched.worker);
}

static void a_read_that_fails_is_tried_again(void **state)
{
    (void)state;
    struct parent p;
    enum mob_status status;
    open_parent(&p);
    FAKE.group_reads = MOB_UNAVAILABLE;
    submit_child(&p);
    until_read(&p);
    until_read(&p);
    assert_false(nx_told(p.worker.store, mob_object_of(p.child, 0), &status));
    assert_null(worker_of(&p)->kill_reason);
    assert_null(mob_sched_find(p.nx.node->sched, p.child));
    FAKE.group_reads = MOB_OK;
    until_read(&p);
    nx_turn(&p.nx, 3);
    assert_non_null(mob_sched_find(p.nx.node->sched, p.child));
    close_parent(&p);
}

/* What it publishes behind the child that nobody can answer for is not taken: it may be its end. */
static void a_parent_whose_child_cannot_be_looked_up_runs_again(void **state)
{
    (void)state;
    struct parent p;
    enum mob_status status;
    nx_look_up_patience_ns = 1;
    open_parent(&p);
    FAKE.group_reads = MOB_UNAVAILABLE;
    submit_child(&p);
    until_read(&p);
    nx_complete(&p.worker, 1, MOB_OK);
    for (int64_t end = mob_now() + PATIENCE_NS; !worker_of(&p)->kill_reason; nx_turn(&p.nx, 1))
        assert_true(mob_now() < end);
    nx_turn(&p.nx, 3);
    assert_false(nx_told(p.worker.store, mob_object_of(p.child, 0), &status));
    FAKE.group_reads = MOB_OK;
    lose_worker(&p);
    run_again(&p, 3);
    submit_child(&p);
    until_read(&p);
    nx_turn(&p.nx, 3);
    assert_non_null(mob_sched_find(p.nx.node->sched, p.child));
    close_parent(&p);
    nx_look_up_patience_ns = 0;
}

/* Each in a pass of its own, as thousands do whose inputs have left memory. */
static void those_who_come_while_a_group_is_read_share_the_next_read(void **state)
{
    (void)state;
    enum { ASKERS = 6 };
    struct nx nx;
    struct nx_driver driver;
    struct heard heard[ASKERS] = {{0}};
    int answers = 0;
    nx_open_with(&nx, 0, &driver);
    struct mob_task_id first = nx_submit(&driver);
    for (int i = 1; i < ASKERS; i++)
        nx_submit(&driver);
    nx_settle(&nx);
    FAKE.group_reads = MOB_UNAVAILABLE; /* so it is asked for until it is there */
    for (int i = 0; i < ASKERS; i++) {
        struct mob_task_id task = {first.stream, first.index + (uint32_t)i};
        known_ask(nx.node, mob_object_of(task, 0), hear, &heard[i]);
        nx_turn(&nx, 1);
    }
    uint32_t before = FAKE.reads;
    FAKE.group_reads = MOB_OK;
    for (int64_t end = mob_now() + PATIENCE_NS; answers < ASKERS; nx_turn(&nx, 1)) {
        assert_true(mob_now() < end);
        answers = 0;
        for (int i = 0; i < ASKERS; i++)
            answers += heard[i].answers;
    }
    for (int i = 0; i < ASKERS; i++) {
        assert_int_equal(heard[i].answers, 1);
        assert_true(heard[i].spec);
    }
    assert_int_equal(FAKE.reads - before, 2); /* the first one's, and one for all others */
    nx_close_with(&nx, &driver);
}

/* Its own clock and time-outs are what they were before. */
static void a_task_is_not_sent_without_its_outcomes(void **state)
{
    (void)state;
    struct parent p;
    nx_look_up_patience_ns = 1;
    open_parent(&p);
    FAKE.group_reads = MOB_UNAVAILABLE;
    lose_worker(&p);
    for (int i = 0; i < 3; i++)
        until_read(&p); /* the second one is its reader's last, and the third a read of its own */
    nx_worker(&p.nx, &p.worker);
    assert_false(nx_take_task(&p.worker));
    nx_let_go(&p.worker);
    FAKE.group_reads = MOB_OK;
    run_again(&p, 3);
    close_parent(&p);
    nx_look_up_patience_ns = 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(group_that_is_asked_for_again_is_read_once),
        cmocka_unit_test(what_is_logged_ends_what_was_remembered),
        cmocka_unit_test(a_read_that_fails_is_tried_again),
        cmocka_unit_test(a_parent_whose_child_cannot_be_looked_up_runs_again),
        cmocka_unit_test(those_who_come_while_a_group_is_read_share_the_next_read),
        cmocka_unit_test(a_task_is_not_sent_without_its_outcomes),
    };
    cmocka_set_test_filter(getenv("MOBULA_TEST"));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
