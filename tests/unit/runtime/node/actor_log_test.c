/* The log decides which actors there are after the end of a node: their rows in the control store never say
 * more than it, and what it says stands whether or not a row had been changed. */
#include "tests/unit/runtime/node/node_fixture.h"

#include "runtime/node/actor_needs.h"
#include "runtime/node/jobs.h"
#include "runtime/node/row_writes.h"

static void request_kill(struct nx_driver *driver, struct mob_actor_id actor)
{
    struct {
        struct mob_actor_id id;
        uint32_t no_restart;
    } body = {actor, 1};
    struct mob_out_request head = {.op = MOB_REQ_ACTOR_KILL, .request = 5, .payload_bytes = sizeof body};
    nx_publish(driver->store, MOB_OUT_REQUEST, &head, sizeof head, &body, sizeof body);
}

static bool row_is_there(struct mob_actor_id actor)
{
    int row = fake_row_of(MOB_GCS_ACTORS, &actor, sizeof actor);
    return row >= 0 && FAKE.rows[row].value != NULL;
}

static enum mob_actor_state state_of(struct nx *nx, struct mob_actor_id id)
{
    const struct node_actor *actor = node_actor_find(nx->node, id);
    return actor ? actor->life.state : (enum mob_actor_state)0;
}

/* An actor that was up, with its creation and one call in the log. */
static struct mob_actor_id live_actor(struct nx *nx, struct nx_driver *driver, struct nx_worker *worker)
{
    nx_open_with(nx, 1, driver);
    struct mob_actor_id actor = nx_create(driver);
    assert_true(nx_worker_takes(nx, worker));
    nx_complete(worker, 0, MOB_OK);
    nx_turn(nx, 3);
    nx_call(driver, actor);
    nx_turn(nx, 3);
    assert_true(nx_take_task(worker));
    nx_complete(worker, 0, MOB_OK);
    nx_turn(nx, 5);
    assert_int_equal(state_of(nx, actor), MOB_ACTOR_ALIVE);
    return actor;
}

/* The worker ends with its node; what the control store has got it acknowledges from now on. */
static void next_incarnation(struct nx *nx, struct nx_worker *worker, uint32_t slots)
{
    nx_end(nx);
    nx_let_go(worker);
    FAKE.hold_acks = false;
    nx_start(nx, slots);
}

static void kill_that_was_not_stored_did_not_happen(void **state)
{
    (void)state;
    struct nx nx;
    struct nx_driver driver;
    struct nx_worker worker;
    struct mob_actor_id actor = live_actor(&nx, &driver, &worker);
    uint32_t before = FAKE.block_count;
    FAKE.hold_acks = true;
    request_kill(&driver, actor);
    nx_settle(&nx);
    assert_int_equal(state_of(&nx, actor), MOB_ACTOR_DEAD);
    assert_true(row_is_there(actor)); /* the log does not say it yet */
    nx_end(&nx);
    nx_let_go(&worker);
    FAKE.hold_acks = false;
    nx_cut(FAKE.block_count - before);
    nx_start(&nx, 0);
    assert_int_equal(state_of(&nx, actor), MOB_ACTOR_RESTARTING);
    nx_close_with(&nx, &driver);
}

/* Until then nobody knows whether it lives, nor what it has to do again. */
static void actor_whose_log_cannot_be_read_at_once_comes_back(void **state)
{
    (void)state;
    struct nx nx;
    struct nx_driver driver;
    struct nx_worker worker;
    struct mob_actor_id actor = live_actor(&nx, &driver, &worker);
    nx_settle(&nx);
    nx_end(&nx);
    nx_let_go(&worker);
    FAKE.failing_reads = 2;
    nx_start(&nx, 0);
    assert_int_equal(FAKE.failing_reads, 0);
    assert_int_equal(state_of(&nx, actor), MOB_ACTOR_RESTARTING);
    nx_close_with(&nx, &driver);
}

static void kill_that_was_stored_stands(void **state)
{
    (void)state;
    struct nx nx;
    struct nx_driver driver;
    struct nx_worker worker;
    struct mob_actor_id actor = live_actor(&nx, &driver, &worker);
    FAKE.hold_acks = true;
    request_kill(&driver, actor);
    nx_settle(&nx);
    assert_true(row_is_there(actor));
    next_incarnation(&nx, &worker, 0);
    nx_turn(&nx, 5);
    assert_int_equal(state_of(&nx, actor), MOB_ACTOR_DEAD);
    assert_false(row_is_there(actor)); /* taken out by the one after */
    nx_close_with(&nx, &driver);
}

/* Row written, creation lost: nobody knows of it but its driver, who sends it again. */
static void creation_that_was_not_stored_is_made_by_its_driver_again(void **state)
{
    (void)state;
    struct nx nx;
    struct nx_driver first, again;
    nx_open_with(&nx, 0, &first);
    nx_turn(&nx, 3);
    uint32_t before = FAKE.block_count;
    FAKE.hold_acks = true;
    struct mob_actor_id actor = nx_create(&first);
    nx_turn(&nx, 5);
    assert_true(row_is_there(actor));
    nx_end(&nx);
    FAKE.hold_acks = false;
    nx_cut(FAKE.block_count - before);
    nx_start(&nx, 0);
    nx_turn(&nx, 3);
    assert_int_equal(state_of(&nx, actor), 0);
    assert_false(row_is_there(actor));
    nx_connect(&nx, &again, &first);
    assert_int_equal(nx_resend(&again, &first), 1);
    nx_turn(&nx, 10);
    assert_int_equal(state_of(&nx, actor), MOB_ACTOR_PENDING);
    assert_true(row_is_there(actor));
    nx_disconnect(&first);
    nx_disconnect(&again);
    nx_close(&nx);
}

static struct mob_actor_id create_named(struct nx_driver *driver)
{
    struct mob_spec_head head = nx_next(driver, MOB_KIND_ACTOR_CREATE);
    uint8_t body[8 + sizeof head + 256] __attribute__((aligned(8)));
    struct mob_tail_builder tail;
    int64_t now = mob_now();
    memcpy(body, &now, 8);
    memcpy(body + 8, &head, sizeof head);
    mob_tail_begin(&tail, body + 8 + sizeof head, 256);
    mob_tail_add_ext(&tail, MOB_EXT_NAME, "ann", 3);
    uint32_t bytes = mob_tail_end(&tail);
    nx_publish(driver->store, MOB_OUT_SPEC, body, (uint32_t)(8 + sizeof head) + bytes, NULL, 0);
    return (struct mob_actor_id){head.task};
}

static void assert_named(struct mob_actor_id actor)
{
    int row = fake_row_of(MOB_GCS_NAMES, "default/ann", strlen("default/ann"));
    assert_true(row >= 0 && FAKE.rows[row].value != NULL);
    assert_memory_equal(FAKE.rows[row].value, &actor, sizeof actor);
}

/* Two that had one name, one after the other, and a node that ends before the control store heard of it. */
static void the_row_of_a_name_is_of_whom_the_log_says(void **state)
{
    (void)state;
    for (int stored = 0; stored < 2; stored++) {
        struct nx nx;
        struct nx_driver driver;
        nx_open_with(&nx, 0, &driver);
        struct mob_actor_id first = create_named(&driver);
        nx_settle(&nx);
        assert_named(first);
        uint32_t before = FAKE.block_count;
        FAKE.hold_acks = true;
        request_kill(&driver, first);
        nx_turn(&nx, 3);
        struct mob_actor_id second = create_named(&driver);
        nx_settle(&nx);
        assert_int_equal(state_of(&nx, second), MOB_ACTOR_PENDING);
        nx_end(&nx);
        FAKE.hold_acks = false;
        if (!stored)
            nx_cut(FAKE.block_count - before);
        nx_start(&nx, 0);
        nx_settle(&nx);
        assert_named(stored ? second : first);
        assert_true(row_is_there(stored ? second : first));
        assert_false(row_is_there(stored ? first : second));
        nx_close_with(&nx, &driver);
    }
}

/* An actor whose creation ended with `ended` in the log, while the change of its row is still to come. */
static struct mob_actor_id actor_whose_row_is_behind(
    struct nx *nx, struct nx_driver *driver, struct nx_worker *worker, enum mob_status ended)
{
    nx_open_with(nx, 1, driver);
    nx_turn(nx, 3);
    FAKE.hold_acks = true;
    struct mob_actor_id actor = nx_create(driver);
    assert_true(nx_worker_takes(nx, worker));
    nx_complete(worker, 0, ended);
    nx_settle(nx);
    return actor;
}

static void actor_whose_row_is_behind_comes_back(void **state)
{
    (void)state;
    struct nx nx;
    struct nx_driver driver;
    struct nx_worker worker;
    struct mob_actor_id actor = actor_whose_row_is_behind(&nx, &driver, &worker, MOB_OK);
    next_incarnation(&nx, &worker, 0);
    assert_int_equal(state_of(&nx, actor), MOB_ACTOR_RESTARTING);
    nx_close_with(&nx, &driver);
}

/* Up to the end of its constructor, with no room for its row in the control store. */
static struct mob_actor_id actor_without_row(
    struct nx *nx, struct nx_driver *driver, struct nx_worker *worker)
{
    nx_open_with(nx, 1, driver);
    nx_settle(nx);
    FAKE.full = true;
    struct mob_actor_id actor = nx_create(driver);
    assert_true(nx_worker_takes(nx, worker));
    nx_complete(worker, 0, MOB_OK);
    nx_turn(nx, 20);
    return actor;
}

/* Else it would be lost with the node: nothing says after a restart that there is such an actor. */
static void nobody_hears_of_an_actor_before_its_row_is_there(void **state)
{
    (void)state;
    struct nx nx;
    struct nx_driver driver;
    struct nx_worker worker;
    enum mob_status status = MOB_INTERNAL;
    struct mob_actor_id actor = actor_without_row(&nx, &driver, &worker);
    struct mob_object_id created = mob_object_of(actor.creation, 0);
    uint32_t blocks = FAKE.block_count;
    assert_false(row_is_there(actor));
    assert_false(nx_told(driver.store, created, &status));
    FAKE.full = false;
    nx_settle(&nx);
    assert_true(row_is_there(actor));
    assert_true(FAKE.block_count > blocks);
    assert_true(nx_told(driver.store, created, &status));
    assert_int_equal(status, MOB_OK);
    next_incarnation(&nx, &worker, 0);
    assert_int_equal(state_of(&nx, actor), MOB_ACTOR_RESTARTING);
    nx_close_with(&nx, &driver);
}

/* It may be what the blocks say that makes room. */
static void a_control_store_that_takes_no_rows_is_not_waited_for_for_ever(void **state)
{
    (void)state;
    struct nx nx;
    struct nx_driver driver;
    struct nx_worker worker;
    enum mob_status status = MOB_INTERNAL;
    struct mob_actor_id actor = actor_without_row(&nx, &driver, &worker);
    struct mob_object_id created = mob_object_of(actor.creation, 0);
    assert_false(nx_told(driver.store, created, &status));
    int64_t end = row_writes_patience_end(nx.node);
    assert_in_range(end, nx.node->now_ns, nx.node->now_ns + 3600 * MOB_SEC);
    nx.node->now_ns = end;
    row_writes_step(nx.node);
    lineage_log_pump(nx.node->log, end, LOG_TURN_FLUSH);
    nx_turn(&nx, 3);
    assert_true(nx_told(driver.store, created, &status));
    assert_false(row_is_there(actor));
    nx_end(&nx);
    nx_let_go(&worker);
    nx_disconnect(&driver);
    FAKE.full = false;
    nx_start(&nx, 0);
    nx_close(&nx);
}

static void actor_whose_constructor_failed_stays_dead(void **state)
{
    (void)state;
    struct nx nx;
    struct nx_driver driver;
    struct nx_worker worker;
    struct mob_actor_id actor = actor_whose_row_is_behind(&nx, &driver, &worker, MOB_TASK_FAILED);
    assert_true(row_is_there(actor));
    next_incarnation(&nx, &worker, 0);
    nx_turn(&nx, 3);
    assert_int_equal(state_of(&nx, actor), MOB_ACTOR_DEAD);
    nx_close_with(&nx, &driver);
}

/* What was cancelled before it ran is left out of replays, also when its SKIP lies behind the cut. */
static void cancelled_call_is_not_replayed(void **state)
{
    (void)state;
    struct nx nx;
    struct nx_driver driver;
    struct nx_worker worker;
    struct mob_actor_id actor = live_actor(&nx, &driver, &worker);
    struct mob_object_id never = mob_object_of(driver.welcome.root, MOB_SLOT_PUT | 9);
    nx_promise(&driver, never);
    struct mob_spec_head head = nx_next(&driver, MOB_KIND_ACTOR_CALL);
    head.actor = actor;
    nx_spec(driver.store, &head, &never);
    struct mob_out_cancel cancel = {.task = head.task};
    nx_publish(driver.store, MOB_OUT_CANCEL, &cancel, sizeof cancel, NULL, 0);
    nx_call(&driver, actor);
    nx_turn(&nx, 5);
    assert_true(nx_take_task(&worker));
    assert_int_equal(worker.position, 2);
    nx_complete(&worker, 2, MOB_OK);
    nx_turn(&nx, 5);
    next_incarnation(&nx, &worker, 1);
    nx_turn(&nx, 10);
    nx_worker(&nx, &worker);
    uint64_t expected[] = {0, 0, 2}; /* the creation, then the calls that returned */
    for (int i = 0; i < 3; i++) {
        assert_true(nx_take_task(&worker));
        assert_int_equal(worker.head.kind, i == 0 ? MOB_KIND_ACTOR_CREATE : MOB_KIND_ACTOR_CALL);
        assert_int_equal(worker.position, expected[i]);
        nx_complete(&worker, 0, MOB_OK);
        nx_turn(&nx, 5);
    }
    assert_false(nx_take_task(&worker));
    nx_let_go(&worker);
    nx_close_with(&nx, &driver);
}

/* The next task of the worker is this actor's call at `position`; it ends. */
static void run_call(struct nx *nx, struct nx_worker *worker, uint64_t position)
{
    assert_true(nx_take_task(worker));
    assert_int_equal(worker->head.kind, MOB_KIND_ACTOR_CALL);
    assert_int_equal(worker->position, position);
    nx_complete(worker, (int64_t)position, MOB_OK);
    nx_turn(nx, 5);
}

static void call_and_run(
    struct nx *nx, struct nx_driver *driver, struct nx_worker *worker, struct mob_actor_id actor, uint64_t at)
{
    nx_call(driver, actor);
    nx_turn(nx, 5);
    run_call(nx, worker, at);
}

/* A call that is not logged, as those of inference: behind so many. */
static void infer(struct nx *nx, struct nx_driver *driver, struct nx_worker *worker,
    struct mob_actor_id actor, uint64_t behind)
{
    struct mob_spec_head head = nx_next(driver, MOB_KIND_ACTOR_CALL);
    head.actor = actor;
    head.flags |= MOB_SPEC_UNLOGGED;
    nx_spec(driver->store, &head, NULL);
    nx_turn(nx, 5);
    run_call(nx, worker, behind);
}

static void lose_blocks(uint32_t from, uint32_t behind)
{
    assert_true(from < behind && behind <= FAKE.block_count);
    for (uint32_t i = from; i < behind; i++)
        free(FAKE.blocks[i].bytes);
    memmove(&FAKE.blocks[from], &FAKE.blocks[behind], (FAKE.block_count - behind) * sizeof FAKE.blocks[0]);
    FAKE.block_count -= behind - from;
}

/* What is left is no run of the actor: it ends, and says what it lacks. */
static void assert_lineage_gone(struct nx *nx, struct nx_driver *driver, struct mob_actor_id id)
{
    const struct node_actor *actor = node_actor_find(nx->node, id);
    assert_non_null(actor);
    assert_int_equal(actor->life.state, MOB_ACTOR_DEAD);
    assert_int_equal(actor->life.death, MOB_LINEAGE_GONE);
    assert_non_null(strstr(actor->why, "position 2"));
    nx_call(driver, id);
    nx_turn(nx, 5);
    assert_int_equal(nx->node->failed, 1);
}

static void a_replay_that_misses_a_call_ends_the_actor(void **state)
{
    for (int in_the_middle = 0; in_the_middle < 2; in_the_middle++) {
        (void)state;
        struct nx nx;
        struct nx_driver driver, again;
        struct nx_worker worker;
        struct mob_actor_id actor = live_actor(&nx, &driver, &worker);
        call_and_run(&nx, &driver, &worker, actor, 1);
        uint32_t before = FAKE.block_count;
        call_and_run(&nx, &driver, &worker, actor, 2);
        uint32_t behind = FAKE.block_count;
        if (in_the_middle)
            call_and_run(&nx, &driver, &worker, actor, 3);
        lose_blocks(before, behind);
        if (in_the_middle) { /* found by the next node, which knows only what the log says */
            next_incarnation(&nx, &worker, 1);
            nx_turn(&nx, 10);
            nx_connect(&nx, &again, NULL);
            assert_lineage_gone(&nx, &again, actor);
            nx_disconnect(&again);
        } else { /* the last one: this node knows that there was one */
            nx_kill(&nx, &worker);
            nx_turn(&nx, 10);
            assert_lineage_gone(&nx, &driver, actor);
        }
        nx_close_with(&nx, &driver);
    }
}

static void calls_that_are_not_logged_are_not_missed(void **state)
{
    (void)state;
    struct nx nx;
    struct nx_driver driver;
    struct nx_worker worker;
    struct mob_actor_id actor = live_actor(&nx, &driver, &worker);
    infer(&nx, &driver, &worker, actor, 1);
    infer(&nx, &driver, &worker, actor, 1);
    call_and_run(&nx, &driver, &worker, actor, 1);
    infer(&nx, &driver, &worker, actor, 2);
    nx_kill(&nx, &worker);
    for (int again = 0; again < 2; again++) {
        nx_turn(&nx, 10);
        assert_int_equal(state_of(&nx, actor), MOB_ACTOR_RESTARTING);
        nx_worker(&nx, &worker);
        assert_true(nx_take_task(&worker));
        assert_int_equal(worker.head.kind, MOB_KIND_ACTOR_CREATE);
        nx_complete(&worker, 0, MOB_OK);
        nx_turn(&nx, 5);
        run_call(&nx, &worker, 0);
        run_call(&nx, &worker, 1);
        assert_int_equal(state_of(&nx, actor), MOB_ACTOR_ALIVE);
        next_incarnation(&nx, &worker, 1);
    }
    nx_close_with(&nx, &driver);
}

/* An actor of one job, called by another: that one's lineage is needed while the actor lives, its end and the
 * node's notwithstanding. */
static void lineage_of_callers_is_needed(void **state)
{
    (void)state;
    struct nx nx;
    struct nx_driver owner, caller, stranger;
    struct nx_worker worker;
    struct mob_actor_id actor = live_actor(&nx, &owner, &worker);
    nx_connect(&nx, &caller, NULL);
    nx_connect(&nx, &stranger, NULL);
    int64_t before = mob_wall_now() - MOB_MS - 2 * LOG_CLOCK_DRIFT_NS;
    call_and_run(&nx, &caller, &worker, actor, 1);
    struct mob_job_id caller_job = caller.welcome.job, stranger_job = stranger.welcome.job;
    for (int again = 0; again < 2; again++) {
        struct node_job *job = node_job_by_id(nx.node, caller_job);
        const struct node_actor *needing = node_actor_needing(nx.node, job);
        assert_non_null(needing);
        assert_true(mob_actor_id_eq(needing->id, actor));
        int64_t since = node_actors_need_since(nx.node, job);
        assert_true(again ? since == 0 : since >= before && since <= mob_wall_now());
        assert_true(node_actors_need_since(nx.node, needing->job) <= since);
        job = node_job_by_id(nx.node, stranger_job);
        assert_null(node_actor_needing(nx.node, job));
        assert_true(node_actors_need_since(nx.node, job) == INT64_MAX);
        if (again)
            break;
        next_incarnation(&nx, &worker, 1);
        nx_turn(&nx, 10);
    }
    struct node_actor *found = node_actor_find(nx.node, actor);
    mob_actor_life_checkpointed(&found->life, 2);
    assert_null(node_actor_needing(nx.node, node_job_by_id(nx.node, caller_job)));
    assert_non_null(node_actor_needing(nx.node, found->job));
    assert_int_equal(node_actor_kill(nx.node, actor, true), MOB_OK);
    assert_null(node_actor_needing(nx.node, found->job));
    nx_turn(&nx, 5); /* the calls that it was to repeat end */
    nx_disconnect(&owner);
    nx_disconnect(&caller);
    nx_disconnect(&stranger);
    nx_close(&nx);
}

/* A block's clocks may differ from those that are read later: what is needed is not dropped for that. */
static void what_is_needed_is_no_later_than_a_block_says(void **state)
{
    (void)state;
    struct nx nx;
    nx_open(&nx, 1);
    int64_t now_ns = mob_now();
    assert_true(node_needed_since(now_ns) <= lineage_log_wall(nx.node->log, now_ns) - LOG_CLOCK_DRIFT_NS);
    nx_close(&nx);
}

/* The records of those that died first go, with what holds their job. */
static void only_so_many_dead_actors_are_remembered(void **state)
{
    (void)state;
    enum { ACTORS = 20, REMEMBERED = 3, LIVING = 2 };
    struct nx nx;
    struct nx_driver driver;
    struct mob_actor_id actors[ACTORS];
    nx_dead_actors_max = REMEMBERED;
    nx_open_with(&nx, 0, &driver);
    for (int i = 0; i < ACTORS; i++)
        actors[i] = nx_create(&driver);
    nx_settle(&nx);
    for (int i = LIVING; i < ACTORS; i++)
        request_kill(&driver, actors[i]);
    nx_settle(&nx);
    for (int i = 0; i < ACTORS; i++)
        assert_int_equal(state_of(&nx, actors[i]),
            i < LIVING                    ? MOB_ACTOR_PENDING
                : i < ACTORS - REMEMBERED ? (enum mob_actor_state)0
                                          : MOB_ACTOR_DEAD);
    struct node_job *job = node_job_by_id(nx.node, driver.welcome.job);
    nx_disconnect(&driver); /* with the job the others end, too */
    nx_settle(&nx);
    for (int i = LIVING; i < ACTORS - 1; i++)
        assert_int_equal(state_of(&nx, actors[i]), 0);
    assert_in_range(job->users, REMEMBERED, REMEMBERED + 1); /* and the head that the creations had */
    nx_close(&nx);
    nx_dead_actors_max = 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kill_that_was_not_stored_did_not_happen),
        cmocka_unit_test(kill_that_was_stored_stands),
        cmocka_unit_test(actor_whose_log_cannot_be_read_at_once_comes_back),
        cmocka_unit_test(creation_that_was_not_stored_is_made_by_its_driver_again),
        cmocka_unit_test(the_row_of_a_name_is_of_whom_the_log_says),
        cmocka_unit_test(actor_whose_row_is_behind_comes_back),
        cmocka_unit_test(nobody_hears_of_an_actor_before_its_row_is_there),
        cmocka_unit_test(a_control_store_that_takes_no_rows_is_not_waited_for_for_ever),
        cmocka_unit_test(actor_whose_constructor_failed_stays_dead),
        cmocka_unit_test(cancelled_call_is_not_replayed),
        cmocka_unit_test(a_replay_that_misses_a_call_ends_the_actor),
        cmocka_unit_test(calls_that_are_not_logged_are_not_missed),
        cmocka_unit_test(lineage_of_callers_is_needed),
        cmocka_unit_test(what_is_needed_is_no_later_than_a_block_says),
        cmocka_unit_test(only_so_many_dead_actors_are_remembered),
    };
    cmocka_set_test_filter(getenv("MOBULA_TEST"));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
