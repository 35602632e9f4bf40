/* Results of an actor's calls that are lost and made again, by its restart or by its shadow: they are what
 * the log says they were, or an error. */
#include "tests/unit/runtime/node/node_fixture.h"

#include "runtime/node/actor_record.h"

enum { BYTES = 5000 };
#define PATIENCE_NS (30 * MOB_SEC)

struct world {
    struct nx nx;
    struct nx_driver driver;
    struct nx_worker worker;
    struct mob_actor_id actor;
    struct mob_object_id id; /* result of the call */
};

static void take(struct world *w)
{
    for (int64_t end = mob_now() + PATIENCE_NS; !nx_take_task(&w->worker); nx_turn(&w->nx, 1))
        assert_true(mob_now() < end);
}

static void start_worker(struct world *w, uint32_t started)
{
    for (int64_t end = mob_now() + PATIENCE_NS; w->nx.node->pool->started_count == started;
         nx_turn(&w->nx, 1))
        assert_true(mob_now() < end);
    nx_worker(&w->nx, &w->worker);
    take(w);
    assert_int_equal(w->worker.head.kind, MOB_KIND_ACTOR_CREATE);
    nx_complete(&w->worker, 0, MOB_OK);
}

/* What the worker does at the end of the call: when an earlier run's bytes are there, it only says what its
 * own would be. */
static void run_call(struct world *w, uint8_t with)
{
    static uint8_t own[BYTES + 256] __attribute__((aligned(64)));
    struct mob_object_ref ref;
    void *full;
    uint8_t *payload;
    uint64_t size;
    take(w);
    assert_true(mob_task_id_eq(w->worker.head.task, w->id.task));
    assert_int_equal(mob_value_full_size(BYTES, 0, 0, &size), MOB_OK);
    bool made = mob_store_object_create(w->worker.store, w->id, size, &ref, &full) == MOB_OK;
    if (!made)
        full = own;
    assert_int_equal(mob_value_init(full, size, MOB_TYPE_BYTES, BYTES, NULL, 0, NULL, 0, &payload), MOB_OK);
    memset(payload, with, BYTES);
    mob_value_hash(full);
    struct mob_return_view view = {.type = MOB_TYPE_BYTES,
        .flags = MOB_RETURN_STORED,
        .size = size,
        .hash = mob_hash128(payload, BYTES)};
    nx_publish_completion(&w->worker, &view, MOB_OK);
    if (made)
        mob_store_object_seal(w->worker.store, ref);
    nx_settle(&w->nx);
}

static void open_called(struct world *w)
{
    *w = (struct world){0};
    nx_open(&w->nx, 1);
    nx_connect(&w->nx, &w->driver, NULL);
    w->actor = nx_create(&w->driver);
    start_worker(w, 0);
    w->id = mob_object_of(nx_call(&w->driver, w->actor), 0);
    run_call(w, 3);
}

static void close_world(struct world *w)
{
    nx_let_go(&w->worker);
    nx_disconnect(&w->driver);
    nx_close(&w->nx);
}

static enum mob_status until_told(struct world *w)
{
    enum mob_status status;
    for (int64_t end = mob_now() + PATIENCE_NS; !nx_told(w->driver.store, w->id, &status); nx_turn(&w->nx, 1))
        assert_true(mob_now() < end);
    return status;
}

static int first_byte(struct world *w)
{
    enum mob_value_type type;
    const uint8_t *bytes;
    uint64_t size;
    struct mob_value_view view;
    if (mob_store_object_bytes(w->nx.node->store, w->id, true, &type, &bytes, &size) != MOB_OK)
        return -1;
    assert_int_equal(mob_value_open(bytes, size, &view), MOB_OK);
    return type == MOB_TYPE_BYTES ? view.payload[0] : -1;
}

static void lose_node(struct world *w)
{
    nx_let_go(&w->worker);
    nx_end(&w->nx);
    nx_disconnect(&w->driver);
    nx_start(&w->nx, 1);
    nx_connect(&w->nx, &w->driver, NULL);
}

/* The replay of its restart makes them. */
static void a_restart_after_the_nodes_end(void **state)
{
    (void)state;
    struct world w;
    open_called(&w);
    lose_node(&w);
    start_worker(&w, 0);
    nx_watch(w.driver.store, w.id);
    run_call(&w, 3);
    assert_int_equal(until_told(&w), MOB_OK);
    assert_int_equal(first_byte(&w), 3);
    lose_node(&w);
    start_worker(&w, 0);
    nx_watch(w.driver.store, w.id);
    run_call(&w, 4);
    assert_int_equal(until_told(&w), MOB_REPLAY_DIVERGED);
    assert_int_equal(first_byte(&w), -1);
    close_world(&w);
}

/* The bytes of the first run are there: they are what everybody gets, whatever a replay says. */
static void a_restart_beside_the_first_bytes(void **state)
{
    (void)state;
    struct world w;
    open_called(&w);
    uint32_t started = w.nx.node->pool->started_count;
    nx_kill(&w.nx, &w.worker);
    start_worker(&w, started);
    run_call(&w, 4);
    nx_watch(w.driver.store, w.id);
    assert_int_equal(until_told(&w), MOB_OK);
    assert_int_equal(first_byte(&w), 3);
    close_world(&w);
}

/* Of an actor that is dead. */
static void a_shadow(void **state)
{
    (void)state;
    struct world w;
    open_called(&w);
    assert_int_equal(node_actor_kill(w.nx.node, w.actor, true), MOB_OK);
    nx_settle(&w.nx);
    lose_node(&w);
    nx_watch(w.driver.store, w.id);
    start_worker(&w, 0);
    run_call(&w, 3);
    assert_int_equal(until_told(&w), MOB_OK);
    assert_int_equal(first_byte(&w), 3);
    lose_node(&w);
    nx_watch(w.driver.store, w.id);
    start_worker(&w, 0);
    run_call(&w, 4);
    assert_int_equal(until_told(&w), MOB_REPLAY_DIVERGED);
    assert_int_equal(first_byte(&w), -1);
    close_world(&w);
}

/* ---- outcomes that are in the log: no replay changes them, nor may one keep them from who waits ---- */

/* The call ends with `status`, as the test's worker says. */
static void end_call(struct world *w, enum mob_status status)
{
    take(w);
    assert_true(mob_task_id_eq(w->worker.head.task, w->id.task));
    nx_complete(&w->worker, 7, status);
    nx_settle(&w->nx);
}

/* A call that ended so, and the next node, whose replay of it has not begun. */
static void open_replaying(struct world *w, enum mob_status status, struct mob_spec_head *call_out)
{
    *w = (struct world){0};
    nx_open(&w->nx, 1);
    nx_connect(&w->nx, &w->driver, NULL);
    w->actor = nx_create(&w->driver);
    start_worker(w, 0);
    *call_out = nx_next(&w->driver, MOB_KIND_ACTOR_CALL);
    call_out->actor = w->actor;
    nx_spec(w->driver.store, call_out, NULL);
    w->id = mob_object_of(call_out->task, 0);
    end_call(w, status);
    assert_int_equal(until_told(w), status);
    struct nx_driver before = w->driver;
    nx_let_go(&w->worker);
    nx_end(&w->nx);
    nx_start(&w->nx, 1);
    nx_connect(&w->nx, &w->driver, &before);
    nx_disconnect(&before);
    start_worker(w, 0);
    nx_turn(&w->nx, 5);
    assert_non_null(node_task_find(w->nx.node, w->id.task));
}

static void a_watch_of_a_call_that_fails_again(void **state)
{
    (void)state;
    struct world w;
    struct mob_spec_head call;
    open_replaying(&w, MOB_TASK_FAILED, &call);
    nx_watch(w.driver.store, w.id);
    nx_turn(&w.nx, 5);
    end_call(&w, MOB_TASK_FAILED);
    assert_int_equal(until_told(&w), MOB_TASK_FAILED);
    close_world(&w);
}

/* A driver that had the notice before the node's end asks for the error's text. */
static void a_fetch_of_a_call_that_fails_again(void **state)
{
    (void)state;
    struct world w;
    struct mob_spec_head call;
    struct mob_record record;
    struct mob_in_reply reply = {0};
    const uint8_t *body;
    open_replaying(&w, MOB_TASK_FAILED, &call);
    struct mob_out_request head = {.op = MOB_REQ_FETCH, .request = 9, .payload_bytes = sizeof w.id};
    nx_publish(w.driver.store, MOB_OUT_REQUEST, &head, sizeof head, &w.id, sizeof w.id);
    nx_turn(&w.nx, 5);
    end_call(&w, MOB_TASK_FAILED);
    for (int64_t end = mob_now() + PATIENCE_NS; reply.request != 9; nx_turn(&w.nx, 1)) {
        assert_true(mob_now() < end);
        while ((body = mob_store_in_peek(w.driver.store, &record)) != NULL) {
            if (record.type == MOB_IN_REPLY)
                memcpy(&reply, body, sizeof reply);
            mob_store_in_pop(w.driver.store);
        }
        mob_store_in_release(w.driver.store);
    }
    assert_int_equal(reply.status, MOB_TASK_FAILED);
    close_world(&w);
}

static void a_call_that_fails_again_and_comes_again(void **state)
{
    (void)state;
    struct world w;
    struct mob_spec_head call;
    open_replaying(&w, MOB_TASK_FAILED, &call);
    nx_spec(w.driver.store, &call, NULL);
    nx_turn(&w.nx, 5);
    assert_int_equal(w.nx.node->duplicates, 1);
    end_call(&w, MOB_TASK_FAILED);
    assert_int_equal(until_told(&w), MOB_TASK_FAILED);
    close_world(&w);
}

static void an_input_that_fails_again(void **state)
{
    (void)state;
    struct world w;
    struct mob_spec_head call;
    open_replaying(&w, MOB_TASK_FAILED, &call);
    struct mob_spec_head next = nx_next(&w.driver, MOB_KIND_TASK);
    nx_spec(w.driver.store, &next, &w.id);
    for (int64_t end = mob_now() + PATIENCE_NS; !node_task_find(w.nx.node, next.task); nx_turn(&w.nx, 1))
        assert_true(mob_now() < end); /* it is looked up first */
    const struct node_task *waiting = node_task_find(w.nx.node, next.task);
    assert_int_equal(waiting->sched.state, MOB_SCHED_WAITING);
    end_call(&w, MOB_TASK_FAILED);
    for (int64_t end = mob_now() + PATIENCE_NS; waiting->sched.state == MOB_SCHED_WAITING; nx_turn(&w.nx, 1))
        assert_true(mob_now() < end); /* a worker gets it, and finds the error */
    close_world(&w);
}

/* What it gave stands, though its actor dies before it is repeated. */
static void a_watch_of_a_call_whose_actor_dies(void **state)
{
    (void)state;
    struct world w;
    struct mob_spec_head call;
    open_replaying(&w, MOB_OK, &call);
    nx_watch(w.driver.store, w.id);
    nx_turn(&w.nx, 5);
    assert_int_equal(node_actor_kill(w.nx.node, w.actor, true), MOB_OK);
    nx_kill(&w.nx, &w.worker);
    assert_int_equal(until_told(&w), MOB_OK);
    nx_disconnect(&w.driver);
    nx_close(&w.nx);
}

/* The other one ends the actor; who waits gets the first. */
static void a_watch_of_a_call_that_gives_another_value(void **state)
{
    (void)state;
    struct world w;
    struct mob_spec_head call;
    open_replaying(&w, MOB_OK, &call);
    nx_watch(w.driver.store, w.id);
    nx_turn(&w.nx, 5);
    take(&w);
    nx_complete(&w.worker, 8, MOB_OK);
    nx_settle(&w.nx);
    assert_int_equal(until_told(&w), MOB_OK);
    assert_int_equal(node_actor_find(w.nx.node, w.actor)->life.death, MOB_NONDETERMINISTIC);
    close_world(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_restart_after_the_nodes_end),
        cmocka_unit_test(a_restart_beside_the_first_bytes),
        cmocka_unit_test(a_shadow),
        cmocka_unit_test(a_watch_of_a_call_that_fails_again),
        cmocka_unit_test(a_fetch_of_a_call_that_fails_again),
        cmocka_unit_test(a_call_that_fails_again_and_comes_again),
        cmocka_unit_test(an_input_that_fails_again),
        cmocka_unit_test(a_watch_of_a_call_whose_actor_dies),
        cmocka_unit_test(a_watch_of_a_call_that_gives_another_value),
    };
    return cmocka_run_group_tests_name("node remade", tests, NULL, NULL);
}
