/* What a driver hears, and when: never of an object whose record the node has not taken yet, although its
 * maker, who published the record after the pass began, has sealed it. ctest: threads */
#include "tests/unit/runtime/node/node_fixture.h"

#include "runtime/node/alias.h"
#include "runtime/node/large_hashes.h"
#include "runtime/node/resolve.h"
#include "runtime/node/task.h"

enum { SMALL = 77, LARGE = 3 << 20 };

/* A driver's task in a worker's hands, its result sealed, its completion not published: what a pass sees that
 * began before. A second driver asks. */
struct world {
    struct nx nx;
    struct nx_driver driver, other;
    struct nx_worker worker;
    struct mob_object_id id;
    uint64_t bytes; /* of the full value */
};

static void take_task(struct world *w)
{
    nx_turn(&w->nx, 2);
    nx_worker(&w->nx, &w->worker);
    nx_await_task(&w->nx, &w->worker);
}

static struct mob_object_ref make_result(struct world *w, uint32_t payload_bytes)
{
    struct mob_object_ref ref;
    void *full;
    uint8_t *payload;
    assert_int_equal(mob_value_full_size(payload_bytes, 0, 0, &w->bytes), MOB_OK);
    assert_int_equal(mob_store_object_create(w->worker.store, w->id, w->bytes, &ref, &full), MOB_OK);
    assert_int_equal(
        mob_value_init(full, w->bytes, MOB_TYPE_BYTES, payload_bytes, NULL, 0, NULL, 0, &payload), MOB_OK);
    memset(payload, 5, payload_bytes);
    return ref;
}

static void open_taken(struct world *w)
{
    *w = (struct world){0};
    nx_open_with(&w->nx, 1, &w->driver);
    nx_connect(&w->nx, &w->other, NULL);
    w->id = mob_object_of(nx_submit(&w->driver), 0);
    take_task(w);
}

static void open_sealed(struct world *w, uint32_t payload_bytes)
{
    open_taken(w);
    mob_store_object_seal(w->worker.store, make_result(w, payload_bytes));
    nx_settle(&w->nx); /* nothing is open in the log: what is queued behind it runs at once */
}

static void complete(struct world *w)
{
    struct mob_return_view view = {
        .type = MOB_TYPE_BYTES, .flags = MOB_RETURN_STORED, .size = w->bytes, .hash = {1, 2}};
    if (w->bytes > 1 << 20)
        view.flags |= MOB_RETURN_HASH_LATER;
    nx_publish_completion(&w->worker, &view, MOB_OK);
}

static void close_world(struct world *w)
{
    nx_let_go(&w->worker);
    nx_disconnect(&w->other);
    nx_disconnect(&w->driver);
    nx_close(&w->nx);
}

static struct mob_object_info info_of(const struct world *w, struct mob_object_id id)
{
    struct mob_object_info info;
    assert_true(mob_store_object_info(w->nx.node->store, id, &info));
    return info;
}

static enum mob_status until_told(struct world *w, struct mob_store_client *store, struct mob_object_id id)
{
    enum mob_status status;
    for (int64_t end = mob_now() + NX_PATIENCE_NS; !nx_told(store, id, &status); nx_turn(&w->nx, 1))
        assert_true(mob_now() < end);
    return status;
}

static void a_watch_waits_for_the_record_behind_the_seal(void **state)
{
    (void)state;
    struct world w;
    enum mob_status status;
    open_sealed(&w, SMALL);
    nx_watch(w.other.store, w.id);
    nx_settle(&w.nx);
    assert_false(nx_told(w.other.store, w.id, &status));
    assert_false(info_of(&w, w.id).committed);
    FAKE.hold_acks = true;
    complete(&w);
    nx_settle(&w.nx);
    assert_false(nx_told(w.other.store, w.id, &status)); /* in the log, and not acknowledged */
    FAKE.hold_acks = false;
    assert_int_equal(until_told(&w, w.other.store, w.id), MOB_OK);
    assert_true(info_of(&w, w.id).committed);
    close_world(&w);
}

static void a_large_value_is_told_with_its_hash(void **state)
{
    (void)state;
    struct world w;
    enum mob_status status;
    open_sealed(&w, LARGE);
    nx_watch(w.other.store, w.id);
    nx_settle(&w.nx);
    assert_false(nx_told(w.other.store, w.id, &status));
    complete(&w);
    assert_int_equal(until_told(&w, w.other.store, w.id), MOB_OK);
    struct mob_object_info info = info_of(&w, w.id);
    assert_true(info.committed);
    assert_true((info.hash.lo | info.hash.hi) != 0);
    close_world(&w);
}

/* The reply to this request; false = none came. */
static bool replied(struct mob_store_client *store, uint32_t request, enum mob_status *status_out)
{
    struct mob_record record;
    const uint8_t *body;
    bool found = false;
    while (!found && (body = mob_store_in_peek(store, &record)) != NULL) {
        struct mob_in_reply reply = {0};
        if (record.type == MOB_IN_REPLY)
            memcpy(&reply, body, sizeof reply);
        found = record.type == MOB_IN_REPLY && reply.request == request;
        *status_out = (enum mob_status)reply.status;
        mob_store_in_pop(store);
    }
    mob_store_in_release(store);
    return found;
}

static void fetch(struct mob_store_client *store, uint32_t request, struct mob_object_id id)
{
    struct mob_out_request head = {.request = request, .op = MOB_REQ_FETCH, .payload_bytes = sizeof id};
    nx_publish(store, MOB_OUT_REQUEST, &head, sizeof head, &id, sizeof id);
}

static void a_fetch_is_answered_behind_the_commit(void **state)
{
    (void)state;
    struct world w;
    enum mob_status status;
    open_sealed(&w, SMALL);
    fetch(w.other.store, 1, w.id);
    nx_settle(&w.nx);
    assert_false(replied(w.other.store, 1, &status));
    FAKE.hold_acks = true;
    complete(&w);
    nx_settle(&w.nx);
    fetch(w.other.store, 2, w.id); /* its record is taken now, and in no acknowledged block */
    nx_settle(&w.nx);
    assert_false(replied(w.other.store, 2, &status));
    FAKE.hold_acks = false;
    for (int64_t end = mob_now() + NX_PATIENCE_NS; !replied(w.other.store, 2, &status); nx_turn(&w.nx, 1))
        assert_true(mob_now() < end);
    assert_int_equal(status, MOB_OK);
    assert_true(info_of(&w, w.id).committed);
    close_world(&w);
}

/* Another task ends as this one, whose end the node has not seen. */
/* A commit seals, too, and is held back here: as while the file of a large put is written. */
static void expect_sealed_by_a_fetch(struct world *w, uint64_t hold)
{
    enum mob_status status;
    nx_settle(&w->nx);
    assert_null(node_task_find(w->nx.node, w->id.task));
    assert_false(info_of(w, w->id).sealed);
    fetch(w->other.store, 1, w->id);
    nx_settle(&w->nx);
    assert_true(info_of(w, w->id).sealed); /* else whoever asked asks again, eight times, and fails */
    assert_null(node_task_find(w->nx.node, w->id.task)); /* nor is it made again */
    lineage_log_release(w->nx.node->log, hold);
    for (int64_t end = mob_now() + NX_PATIENCE_NS; !replied(w->other.store, 1, &status); nx_turn(&w->nx, 1))
        assert_true(mob_now() < end);
    assert_int_equal(status, MOB_OK);
}

/* Its maker lost its core between the record and the seal. */
static void a_fetch_seals_what_its_maker_has_not_come_to(void **state)
{
    (void)state;
    struct world w;
    struct mob_object_ref ref;
    int64_t value = 77;
    struct mob_return_view view = {
        .type = MOB_TYPE_I64, .size = sizeof value, .payload = (const uint8_t *)&value};
    open_taken(&w);
    uint64_t hold = lineage_log_hold(w.nx.node->log);
    assert_int_equal(
        mob_store_put_small(w.worker.store, w.id, MOB_TYPE_I64, &value, sizeof value, &ref), MOB_OK);
    nx_publish_completion(&w.worker, &view, MOB_OK);
    expect_sealed_by_a_fetch(&w, hold);
    mob_store_object_seal(w.worker.store, ref); /* comes late, and does no harm */
    close_world(&w);
    open_taken(&w);
    hold = lineage_log_hold(w.nx.node->log);
    ref = make_result(&w, SMALL);
    complete(&w);
    expect_sealed_by_a_fetch(&w, hold);
    mob_store_object_seal(w.worker.store, ref);
    close_world(&w);
}

/* A look-up finds the record, and the value is there already, with nobody's seal: whoever asked is told of
 * one that can be read, with its size. */
static void what_a_look_up_finds_is_sealed_before_it_is_told(void **state)
{
    (void)state;
    struct world w;
    struct mob_object_ref ref;
    int64_t value = 79;
    struct mob_return_view view = {
        .type = MOB_TYPE_I64, .size = sizeof value, .payload = (const uint8_t *)&value};
    _Alignas(8) uint8_t logged[sizeof(struct mob_completion_head) + 64];
    open_taken(&w);
    uint64_t hold = lineage_log_hold(w.nx.node->log);
    assert_int_equal(
        mob_store_put_small(w.worker.store, w.id, MOB_TYPE_I64, &value, sizeof value, &ref), MOB_OK);
    nx_publish_completion(&w.worker, &view, MOB_OK);
    nx_settle(&w.nx);
    assert_false(info_of(&w, w.id).sealed);
    struct mob_completion_head head = {.version = MOB_COMPLETION_VERSION,
        .flags = MOB_COMPLETION_FINAL,
        .return_count = 1,
        .task = w.id.task,
        .attempt = 1};
    head.body_bytes = mob_return_encode(logged + sizeof head, 0, 64, &view);
    memcpy(logged, &head, sizeof head);
    struct known known = {.id = w.id, .completion = (struct mob_completion_head *)logged};
    node_result_known(
        w.nx.node, &known, w.other.welcome.slot, w.nx.node->clients[w.other.welcome.slot]->session);
    assert_true(info_of(&w, w.id).sealed);
    lineage_log_release(w.nx.node->log, hold);
    assert_int_equal(until_told(&w, w.other.store, w.id), MOB_OK);
    mob_store_object_seal(w.worker.store, ref); /* comes late, and does no harm */
    close_world(&w);
}

/* Who runs may be writing it. */
static void a_fetch_leaves_what_has_no_record(void **state)
{
    (void)state;
    struct world w;
    enum mob_status status;
    open_taken(&w);
    struct mob_object_ref ref = make_result(&w, SMALL);
    fetch(w.other.store, 1, w.id);
    nx_settle(&w.nx);
    assert_false(replied(w.other.store, 1, &status));
    assert_false(info_of(&w, w.id).sealed);
    mob_store_object_seal(w.worker.store, ref);
    close_world(&w);
}

static void a_tail_call_waits_for_the_record_too(void **state)
{
    (void)state;
    struct world w;
    enum mob_status status;
    open_sealed(&w, SMALL);
    struct mob_object_id alias =
        mob_object_of(nx_head(w.driver.welcome.root, w.driver.welcome.job, 99, MOB_KIND_TASK).task, 0);
    struct node_tail_call call = {.id = alias,
        .target = w.id,
        .submitter = w.other.welcome.slot,
        .session = w.nx.node->clients[w.other.welcome.slot]->session,
        .children = NODE_CHILDREN_UNKNOWN};
    node_alias(w.nx.node, &call);
    nx_settle(&w.nx);
    assert_false(nx_told(w.other.store, alias, &status));
    complete(&w);
    assert_int_equal(until_told(&w, w.other.store, alias), MOB_OK);
    assert_true(info_of(&w, w.id).committed);
    close_world(&w);
}

/* It was asked for before the node knew its task, and the look-up ends while the task's result is sealed. */
static void a_look_up_that_ends_late_commits_nothing(void **state)
{
    (void)state;
    struct world w = {0};
    enum mob_status status;
    nx_open_with(&w.nx, 1, &w.driver);
    nx_connect(&w.nx, &w.other, NULL);
    struct mob_spec_head head = nx_next(&w.driver, MOB_KIND_TASK);
    w.id = mob_object_of(head.task, 0);
    FAKE.hold_reads = true;
    nx_watch(w.other.store, w.id);
    nx_turn(&w.nx, 3);
    nx_spec(w.driver.store, &head, NULL);
    take_task(&w);
    mob_store_object_seal(w.worker.store, make_result(&w, SMALL));
    FAKE.hold_reads = false;
    nx_settle(&w.nx);
    assert_false(nx_told(w.other.store, w.id, &status));
    assert_false(info_of(&w, w.id).committed);
    complete(&w);
    assert_int_equal(until_told(&w, w.other.store, w.id), MOB_OK);
    assert_true(info_of(&w, w.id).committed);
    close_world(&w);
}

/* Looked up in vain while it is being written: what is half written stays so. */
static void a_look_up_in_vain_leaves_what_is_being_written(void **state)
{
    (void)state;
    struct world w = {0};
    struct mob_object_ref ref;
    struct nx_driver late;
    enum mob_status status = MOB_OK;
    void *full;
    uint8_t *payload;
    nx_open_with(&w.nx, 0, &w.driver);
    nx_connect(&w.nx, &late, NULL);
    struct mob_object_id id = mob_object_of(w.driver.welcome.root, MOB_SLOT_PUT | 1);
    assert_int_equal(mob_value_full_size(SMALL, 0, 0, &w.bytes), MOB_OK);
    assert_int_equal(mob_store_object_create(w.driver.store, id, w.bytes, &ref, &full), MOB_OK);
    assert_int_equal(
        mob_value_init(full, w.bytes, MOB_TYPE_BYTES, SMALL, NULL, 0, NULL, 0, &payload), MOB_OK);
    nx_watch(late.store, id);
    for (int64_t end = mob_now() + NX_PATIENCE_NS; !nx_told(late.store, id, &status); nx_turn(&w.nx, 1))
        assert_true(mob_now() < end);
    assert_int_equal(status, MOB_NOT_FOUND);
    assert_false(info_of(&w, id).sealed);
    nx_disconnect(&late);
    nx_disconnect(&w.driver);
    nx_close(&w.nx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_watch_waits_for_the_record_behind_the_seal),
        cmocka_unit_test(a_large_value_is_told_with_its_hash),
        cmocka_unit_test(a_fetch_is_answered_behind_the_commit),
        cmocka_unit_test(a_fetch_seals_what_its_maker_has_not_come_to),
        cmocka_unit_test(what_a_look_up_finds_is_sealed_before_it_is_told),
        cmocka_unit_test(a_fetch_leaves_what_has_no_record),
        cmocka_unit_test(a_tail_call_waits_for_the_record_too),
        cmocka_unit_test(a_look_up_that_ends_late_commits_nothing),
        cmocka_unit_test(a_look_up_in_vain_leaves_what_is_being_written),
    };
    return cmocka_run_group_tests_name("node notices", tests, NULL, NULL);
}
