/* The log decides which actors there are after the end of a node: their rows in the control store never say
 * more than it, and what it says stands whether or not a row had been changed. */
#include "tests/unit/runtime/node/node_fixture.h"

#include "runtime/node/actor_record.h"

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
    nx_open(nx, 1);
    nx_connect(nx, driver, NULL);
    struct mob_actor_id actor = nx_create(driver);
    nx_turn(nx, 5);
    nx_worker(nx, worker);
    assert_true(nx_take_task(worker));
    nx_complete(worker, 0, MOB_OK);
    nx_turn(nx, 3);
    nx_call(driver, actor);
    nx_turn(nx, 3);
    assert_true(nx_take_task(worker));
    nx_complete(worker, 1, MOB_OK);
    nx_turn(nx, 5);
    assert_int_equal(state_of(nx, actor), MOB_ACTOR_ALIVE);
    return actor;
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
    nx_disconnect(&driver);
    nx_close(&nx);
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
    nx_end(&nx);
    nx_let_go(&worker);
    FAKE.hold_acks = false;
    nx_start(&nx, 0);
    nx_turn(&nx, 5);
    assert_int_equal(state_of(&nx, actor), MOB_ACTOR_DEAD);
    assert_false(row_is_there(actor)); /* taken out by the one after */
    nx_disconnect(&driver);
    nx_close(&nx);
}

/* Row written, creation lost: nobody knows of it but its driver, who sends it again. */
static void creation_that_was_not_stored_is_made_by_its_driver_again(void **state)
{
    (void)state;
    struct nx nx;
    struct nx_driver first, again;
    nx_open(&nx, 0);
    nx_connect(&nx, &first, NULL);
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

/* Creation finished in the log, and the row says that it is pending: the change of the row was still to come.
 */
static void actor_whose_row_is_behind_comes_back(void **state)
{
    (void)state;
    struct nx nx;
    struct nx_driver driver;
    struct nx_worker worker;
    nx_open(&nx, 1);
    nx_connect(&nx, &driver, NULL);
    nx_turn(&nx, 3);
    FAKE.hold_acks = true;
    struct mob_actor_id actor = nx_create(&driver);
    nx_turn(&nx, 5);
    nx_worker(&nx, &worker);
    assert_true(nx_take_task(&worker));
    nx_complete(&worker, 0, MOB_OK);
    nx_settle(&nx);
    nx_end(&nx);
    nx_let_go(&worker);
    FAKE.hold_acks = false;
    nx_start(&nx, 0);
    assert_int_equal(state_of(&nx, actor), MOB_ACTOR_RESTARTING);
    nx_disconnect(&driver);
    nx_close(&nx);
}

static void actor_whose_constructor_failed_stays_dead(void **state)
{
    (void)state;
    struct nx nx;
    struct nx_driver driver;
    struct nx_worker worker;
    nx_open(&nx, 1);
    nx_connect(&nx, &driver, NULL);
    nx_turn(&nx, 3);
    FAKE.hold_acks = true;
    struct mob_actor_id actor = nx_create(&driver);
    nx_turn(&nx, 5);
    nx_worker(&nx, &worker);
    assert_true(nx_take_task(&worker));
    nx_complete(&worker, 0, MOB_TASK_FAILED);
    nx_settle(&nx);
    assert_true(row_is_there(actor));
    nx_end(&nx);
    nx_let_go(&worker);
    FAKE.hold_acks = false;
    nx_start(&nx, 0);
    nx_turn(&nx, 3);
    assert_int_equal(state_of(&nx, actor), MOB_ACTOR_DEAD);
    nx_disconnect(&driver);
    nx_close(&nx);
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
    struct mob_out_put promise = {.id = never, .flags = MOB_PUT_PROMISE};
    nx_publish(driver.store, MOB_OUT_PUT, &promise, sizeof promise, NULL, 0);
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
    nx_end(&nx);
    nx_let_go(&worker);
    nx_start(&nx, 1);
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
    nx_disconnect(&driver);
    nx_close(&nx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kill_that_was_not_stored_did_not_happen),
        cmocka_unit_test(kill_that_was_stored_stands),
        cmocka_unit_test(creation_that_was_not_stored_is_made_by_its_driver_again),
        cmocka_unit_test(actor_whose_row_is_behind_comes_back),
        cmocka_unit_test(actor_whose_constructor_failed_stays_dead),
        cmocka_unit_test(cancelled_call_is_not_replayed),
    };
    cmocka_set_test_filter(getenv("MOBULA_TEST"));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
