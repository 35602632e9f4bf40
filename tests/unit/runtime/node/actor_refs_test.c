/* What an actor's calls were given is needed like the calls, whosever it is: until a checkpoint covers them.
 */
#include "tests/unit/runtime/node/node_fixture.h"

#include "runtime/node/actor_needs.h"
#include "runtime/node/actor_refs.h"
#include "runtime/node/jobs.h"

struct world {
    struct nx nx;
    struct nx_driver owner, giver, source, stranger;
    struct nx_worker worker;
    struct mob_actor_id actor;
    int settled;
    enum mob_status status;
};

static void open_world(struct world *w)
{
    *w = (struct world){0};
    nx_open_with(&w->nx, 1, &w->owner);
    w->actor = nx_create(&w->owner);
    assert_true(nx_worker_takes(&w->nx, &w->worker));
    nx_complete(&w->worker, 0, MOB_OK);
    nx_turn(&w->nx, 5);
    nx_connect(&w->nx, &w->giver, NULL);
    nx_connect(&w->nx, &w->source, NULL);
    nx_connect(&w->nx, &w->stranger, NULL);
}

static void close_world(struct world *w)
{
    assert_int_equal(node_actor_kill(w->nx.node, w->actor, true), MOB_OK);
    nx_turn(&w->nx, 5);
    if (w->worker.store)
        nx_let_go(&w->worker);
    nx_disconnect(&w->giver);
    nx_disconnect(&w->source);
    nx_disconnect(&w->stranger);
    nx_close_with(&w->nx, &w->owner);
}

static void on_settled(void *arg, enum mob_status status)
{
    struct world *w = arg;
    w->settled++;
    w->status = status;
}

static void on_drop(void *arg)
{
    (void)arg;
}

static void settle(struct world *w)
{
    int before = w->settled;
    if (actor_refs_settle(w->nx.node, on_settled, on_drop, w))
        return;
    for (int64_t deadline = mob_now() + 30 * MOB_SEC; w->settled == before && mob_now() < deadline;)
        nx_turn(&w->nx, 1);
    assert_int_equal(w->settled, before + 1);
}

static struct node_job *job_of(const struct world *w, const struct nx_driver *driver)
{
    return node_job_by_id(w->nx.node, driver->welcome.job);
}

static bool is_needed(const struct world *w, const struct nx_driver *driver)
{
    const struct node_actor *actor = node_actor_needing(w->nx.node, job_of(w, driver));
    return actor && mob_actor_id_eq(actor->id, w->actor);
}

/* A task or a call with the result of this task. */
static struct mob_task_id submit_with(
    struct nx_driver *driver, uint8_t kind, struct mob_actor_id actor, struct mob_task_id input)
{
    struct mob_object_id id = mob_object_of(input, 0);
    struct mob_spec_head head = nx_next(driver, kind);
    if (kind == MOB_KIND_ACTOR_CALL)
        head.actor = actor;
    nx_spec(driver->store, &head, &id);
    return head.task;
}

/* The call waits for a task of one job, and that for one of another. */
static void what_a_call_was_given_is_needed_and_what_that_was_made_of(void **state)
{
    (void)state;
    struct world w;
    open_world(&w);
    struct mob_task_id source = nx_submit(&w.source);
    nx_turn(&w.nx, 3);
    struct mob_task_id given = submit_with(&w.giver, MOB_KIND_TASK, w.actor, source);
    nx_turn(&w.nx, 3);
    submit_with(&w.owner, MOB_KIND_ACTOR_CALL, w.actor, given);
    nx_settle(&w.nx);
    for (int again = 0; again < 2; again++) {
        settle(&w);
        assert_int_equal(w.status, MOB_OK);
        assert_true(is_needed(&w, &w.giver) && is_needed(&w, &w.source));
        assert_int_equal(node_actors_need_since(w.nx.node, job_of(&w, &w.giver)), 0);
        assert_null(node_actor_needing(w.nx.node, job_of(&w, &w.stranger)));
        assert_true(actor_refs_settle(w.nx.node, on_settled, on_drop, &w)); /* nothing is new */
        if (again)
            break;
        nx_end(&w.nx);
        nx_let_go(&w.worker);
        w.worker.store = NULL;
        nx_start(&w.nx, 1);
        nx_turn(&w.nx, 10);
    }
    struct node_actor *actor = node_actor_find(w.nx.node, w.actor);
    mob_actor_life_checkpointed(&actor->life, 1);
    assert_false(is_needed(&w, &w.giver) || is_needed(&w, &w.source));
    close_world(&w);
}

/* Nothing goes while it is not known. */
static void who_waits_hears_that_the_log_cannot_be_read(void **state)
{
    (void)state;
    struct world w;
    nx_look_up_patience_ns = 1;
    open_world(&w);
    nx_look_up_patience_ns = 0;
    struct mob_task_id given = nx_submit(&w.giver);
    submit_with(&w.owner, MOB_KIND_ACTOR_CALL, w.actor, given);
    nx_settle(&w.nx);
    FAKE.group_reads = MOB_UNAVAILABLE;
    settle(&w);
    assert_int_not_equal(w.status, MOB_OK);
    assert_false(is_needed(&w, &w.giver));
    FAKE.group_reads = MOB_OK;
    settle(&w);
    assert_int_equal(w.status, MOB_OK);
    assert_true(is_needed(&w, &w.giver));
    close_world(&w);
}

/* However long an actor with checkpoints is given values of one job, the old ones go. */
static void what_a_checkpoint_covers_is_not_needed(void **state)
{
    (void)state;
    enum { CALLS = 100 };
    struct world w;
    open_world(&w);
    struct node_actor *actor = node_actor_find(w.nx.node, w.actor);
    const struct node_job *job = job_of(&w, &w.giver);
    actor->life.next_position = 2 * CALLS;
    for (uint64_t i = 0; i < CALLS; i++) {
        node_actor_refers(actor, job->id, i, 1000 + (int64_t)i);
        if (i > 0)
            mob_actor_life_checkpointed(&actor->life, i); /* the newest call is not in it yet */
        int64_t since = node_actors_need_since(w.nx.node, job), newest = 1000 + (int64_t)i;
        if (since > newest || since < newest - 2)
            fail_msg("since %ld after the call of %ld", since, newest);
    }
    assert_true(actor->caller_count < 8);
    for (uint64_t i = CALLS; i < 2 * CALLS; i++) { /* far behind the checkpoint */
        mob_actor_life_checkpointed(&actor->life, CALLS - 1);
        node_actor_refers(actor, job->id, i, 5000 - (int64_t)i);
    }
    assert_int_equal(node_actors_need_since(w.nx.node, job), 1000 + CALLS - 1);
    close_world(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_a_call_was_given_is_needed_and_what_that_was_made_of),
        cmocka_unit_test(who_waits_hears_that_the_log_cannot_be_read),
        cmocka_unit_test(what_a_checkpoint_covers_is_not_needed),
    };
    return cmocka_run_group_tests_name("actor_refs", tests, NULL, NULL);
}
