/* What clients hear of objects that come later: promises kept and broken, tail calls that stand for each
 * other, and replies to a client whose ring is full. */
#include "runtime/node/alias.h"
#include "runtime/node/notices.h"
#include "tests/unit/runtime/node/node_fixture.h"

static struct mob_object_id promise(struct nx_driver *driver, uint32_t counter)
{
    struct mob_object_id id = mob_object_of(driver->welcome.root, MOB_SLOT_PUT | counter);
    nx_promise(driver, id);
    return id;
}

static void open_two(struct nx *nx, struct nx_driver *one, struct nx_driver *other)
{
    nx_open_with(nx, 0, one);
    nx_connect(nx, other, NULL);
}

static void kept_promise_is_told_to_who_watches(void **state)
{
    (void)state;
    struct nx nx;
    struct nx_driver one, other;
    enum mob_status status = MOB_IO;
    open_two(&nx, &one, &other);
    struct mob_object_id id = promise(&one, 1);
    nx_turn(&nx, 3);
    assert_true(node_promised(nx.node, id));
    nx_watch(other.store, id);
    nx_settle(&nx);
    assert_false(nx_told(other.store, id, &status));
    nx_keep_promise(&one, id, 5);
    nx_settle(&nx);
    assert_true(nx_told(other.store, id, &status));
    assert_int_equal(status, MOB_OK);
    assert_false(node_promised(nx.node, id));
    assert_int_equal(nx.node->promise_count, 0);
    nx_disconnect(&one);
    nx_disconnect(&other);
    nx_close(&nx);
}

static void promise_of_one_who_leaves_is_broken(void **state)
{
    (void)state;
    struct nx nx;
    struct nx_driver one, other;
    enum mob_status status = MOB_OK;
    open_two(&nx, &one, &other);
    struct mob_object_id broken = promise(&one, 1), good = promise(&other, 1);
    nx_turn(&nx, 3);
    nx_watch(other.store, broken);
    nx_turn(&nx, 3);
    nx_disconnect(&one);
    nx_settle(&nx);
    assert_true(nx_told(other.store, broken, &status));
    assert_int_equal(status, MOB_OBJECT_LOST);
    assert_false(node_promised(nx.node, broken));
    assert_true(node_promised(nx.node, good));
    nx_close_with(&nx, &other);
}

static int64_t value_of(struct nx *nx, struct mob_object_id id)
{
    enum mob_value_type type;
    const uint8_t *bytes;
    uint64_t size;
    int64_t value = 0;
    assert_int_equal(mob_store_object_bytes(nx->node->store, id, false, &type, &bytes, &size), MOB_OK);
    assert_int_equal(type, MOB_TYPE_I64);
    assert_int_equal(size, sizeof value);
    memcpy(&value, bytes, sizeof value);
    return value;
}

/* Each stands for the one before it; the first is a promise. All become what it becomes, in one go and
 * without recursion. */
static void chain_of_tail_calls_becomes_its_end(void **state)
{
    (void)state;
    enum { LENGTH = 5000 };
    struct nx nx;
    struct nx_driver one, other;
    enum mob_status status = MOB_IO;
    open_two(&nx, &one, &other);
    struct mob_object_id end = promise(&one, 1), target = end, id = end;
    nx_turn(&nx, 3);
    for (uint32_t i = 0; i < LENGTH; i++, target = id) {
        id = mob_object_of((struct mob_task_id){mob_stream_of_children(one.welcome.root, 0, 0), i}, 0);
        struct mob_object_id found;
        struct node_tail_call call = {.id = id,
            .target = target,
            .submitter = i + 1 == LENGTH ? one.welcome.slot : NODE_NOBODY,
            .session = nx.node->clients[one.welcome.slot]->session,
            .children = NODE_CHILDREN_UNKNOWN};
        node_alias(nx.node, &call);
        assert_true(node_tail_target(nx.node, id, &found));
        assert_true(mob_object_id_eq(found, target));
        assert_non_null(node_tail_call_of(nx.node, id.task));
    }
    nx_keep_promise(&one, end, 7);
    nx_settle(&nx);
    assert_true(nx_told(one.store, id, &status));
    assert_int_equal(status, MOB_OK);
    assert_int_equal(value_of(&nx, id), 7);
    assert_null(node_tail_call_of(nx.node, id.task)); /* it stands for nobody any more */
    nx_disconnect(&one);
    nx_disconnect(&other);
    nx_close(&nx);
}

/* A task that became another: it goes on while that one lives. When both are over and the node knows them no
 * more, whoever asks for the result has it looked up, and that is not a task that goes on. */
static void what_is_looked_up_does_not_live(void **state)
{
    (void)state;
    struct nx nx;
    struct nx_driver driver, again;
    struct nx_worker worker;
    enum mob_status status = MOB_IO;
    nx_open_with(&nx, 1, &driver);
    struct mob_task_id first = nx_submit(&driver);
    assert_true(nx_worker_takes(&nx, &worker));
    struct mob_spec_head next = nx_head(first, worker.head.job, 0, MOB_KIND_TASK);
    nx_spec(worker.store, &next, NULL);
    nx_complete_as(&worker, mob_object_of(next.task, 0));
    nx_turn(&nx, 5);
    const struct node_tail_call *call = node_tail_call_of(nx.node, first);
    assert_non_null(call);
    assert_true(node_tail_call_lives(nx.node, call));
    assert_true(nx_take_task(&worker));
    assert_true(mob_task_id_eq(worker.head.task, next.task));
    nx_complete(&worker, 7, MOB_OK);
    nx_settle(&nx);
    assert_null(node_tail_call_of(nx.node, first));
    nx_let_go(&worker);
    nx_restart(&nx, 0);
    nx_turn(&nx, 20);
    nx_connect(&nx, &again, &driver);
    FAKE.hold_reads = true;
    nx_watch(again.store, mob_object_of(first, 0));
    nx_turn(&nx, 5);
    assert_int_equal(fake_gcs_reads_waiting(nx.node->gcs), 1);
    fake_gcs_answer_read(nx.node->gcs, 0);
    nx_turn(&nx, 5);
    call = node_tail_call_of(nx.node, first);
    assert_non_null(call);
    assert_false(node_tail_call_lives(nx.node, call));
    FAKE.hold_reads = false;
    nx_settle(&nx);
    assert_true(nx_told(again.store, mob_object_of(first, 0), &status));
    assert_int_equal(status, MOB_OK);
    assert_int_equal(value_of(&nx, mob_object_of(next.task, 0)), 7);
    nx_disconnect(&again);
    nx_disconnect(&driver);
    nx_close(&nx);
}

static void object_that_stands_for_itself_is_a_cycle(void **state)
{
    (void)state;
    struct nx nx;
    struct nx_driver one, other;
    enum mob_status status = MOB_OK;
    open_two(&nx, &one, &other);
    struct mob_object_id id =
        mob_object_of((struct mob_task_id){mob_stream_of_children(one.welcome.root, 0, 0), 3}, 0);
    struct node_tail_call call = {.id = id,
        .target = id,
        .submitter = one.welcome.slot,
        .session = nx.node->clients[one.welcome.slot]->session};
    node_alias(nx.node, &call);
    nx_settle(&nx);
    assert_true(nx_told(one.store, id, &status));
    assert_int_equal(status, MOB_CYCLE);
    nx_disconnect(&one);
    nx_disconnect(&other);
    nx_close(&nx);
}

/* More than its ring holds: kept, given in order when there is room, and then the word that notices may be
 * missing. */
static void replies_wait_for_room_in_the_ring(void **state)
{
    (void)state;
    enum { REPLIES = 400, BYTES = 20000 };
    static uint8_t payload[BYTES];
    struct nx nx;
    struct nx_driver one, other;
    open_two(&nx, &one, &other);
    struct node_client *client = nx.node->clients[one.welcome.slot];
    for (uint32_t i = 0; i < REPLIES; i++)
        node_reply(nx.node, client->slot, client->session, i, MOB_OK, payload, BYTES);
    assert_true(client->missed); /* the ring was full, or this tests nothing */
    uint32_t next = 0, missed = 0;
    for (int turn = 0; turn < 2000 && missed == 0; turn++) {
        struct mob_record record;
        const uint8_t *body;
        nx_turn(&nx, 1);
        while ((body = mob_store_in_peek(one.store, &record)) != NULL) {
            struct mob_in_reply reply;
            if (record.type == MOB_IN_REPLY) {
                memcpy(&reply, body, sizeof reply);
                assert_int_equal(reply.request, next++);
                assert_int_equal(reply.payload_bytes, BYTES);
            }
            missed += record.type == MOB_IN_MISSED;
            mob_store_in_pop(one.store);
            mob_store_in_release(one.store);
        }
    }
    assert_int_equal(next, REPLIES);
    assert_int_equal(missed, 1);
    assert_false(client->missed);
    assert_int_equal(nx.node->missed_clients, 0);
    nx_disconnect(&one);
    nx_disconnect(&other);
    nx_close(&nx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kept_promise_is_told_to_who_watches),
        cmocka_unit_test(promise_of_one_who_leaves_is_broken),
        cmocka_unit_test(chain_of_tail_calls_becomes_its_end),
        cmocka_unit_test(what_is_looked_up_does_not_live),
        cmocka_unit_test(object_that_stands_for_itself_is_a_cycle),
        cmocka_unit_test(replies_wait_for_room_in_the_ring),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
