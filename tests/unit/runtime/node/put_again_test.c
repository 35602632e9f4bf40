/* Large puts of drivers over the end of their node: what the driver was not told is kept, it sends again, and
 * whoever needs it waits for that. ctest: threads */
#include "tests/unit/runtime/node/node_fixture.h"

#include "runtime/node/awaited_puts.h"
#include "runtime/node/jobs.h"

enum { BYTES = 100000 };

static struct mob_object_id put_id(const struct nx_driver *driver, uint32_t counter)
{
    return mob_object_of(driver->welcome.root, MOB_SLOT_PUT | counter);
}

static void put_large(struct nx_driver *driver, struct mob_object_id id)
{
    uint64_t size;
    struct mob_object_ref ref;
    void *full;
    uint8_t *payload;
    assert_int_equal(mob_value_full_size(BYTES, 0, 0, &size), MOB_OK);
    assert_int_equal(mob_store_object_create(driver->store, id, size, &ref, &full), MOB_OK);
    assert_int_equal(mob_value_init(full, size, MOB_TYPE_BYTES, BYTES, NULL, 0, NULL, 0, &payload), MOB_OK);
    memset(payload, 7, BYTES);
    mob_value_hash(full);
    struct mob_out_put put = {.id = id, .type = MOB_TYPE_BYTES, .size = size};
    nx_publish(driver->store, MOB_OUT_PUT, &put, sizeof put, NULL, 0);
    mob_store_object_seal(driver->store, ref);
}

static struct mob_task_id submit_on(struct nx_driver *driver, struct mob_object_id input)
{
    struct mob_spec_head head = nx_next(driver, MOB_KIND_TASK);
    nx_spec(driver->store, &head, &input);
    return head.task;
}

static void file_of(const struct nx *nx, struct mob_object_id id, char path[256])
{
    char text[MOB_ID_TEXT_MAX];
    snprintf(path, 256, "%s/objects/%s", nx->directory, mob_object_id_format(id, text));
}

static bool waits(struct nx *nx, struct mob_task_id task)
{
    struct mob_sched_task *t = mob_sched_find(nx->node->sched, task);
    assert_non_null(t);
    return t->state == MOB_SCHED_WAITING;
}

/* Put and dependent are in the log, and the node died before the bytes were on disk. */
static struct mob_task_id lose_a_put(struct nx *nx, struct nx_driver *driver, struct mob_object_id *id_out)
{
    char path[256];
    nx_open_with(nx, 0, driver);
    *id_out = put_id(driver, 1);
    FAKE.hold_acks = true;
    put_large(driver, *id_out);
    struct mob_task_id task = submit_on(driver, *id_out);
    nx_settle(nx);
    nx_end(nx);
    FAKE.hold_acks = false;
    file_of(nx, *id_out, path);
    assert_int_equal(unlink(path), 0); /* the writer ended with the node: undone */
    nx_start(nx, 0);
    nx_turn(nx, 20);
    return task;
}

static void put_that_was_not_on_disk_waits_for_its_driver(void **state)
{
    (void)state;
    struct nx nx;
    struct nx_driver first, again;
    struct mob_object_id id;
    struct mob_task_id task = lose_a_put(&nx, &first, &id);
    assert_true(waits(&nx, task));
    assert_true(awaited_puts_any(nx.node));
    nx_connect(&nx, &again, &first);
    assert_true(waits(&nx, task));
    put_large(&again, id);
    nx_turn(&nx, 5);
    assert_false(waits(&nx, task));
    assert_false(awaited_puts_any(nx.node));
    nx_disconnect(&first);
    nx_disconnect(&again);
    nx_close(&nx);
}

/* Nothing hangs: a driver that stays away for too long does not send it again. */
static void put_whose_driver_stays_away_is_lost(void **state)
{
    (void)state;
    struct nx nx;
    struct nx_driver first;
    struct mob_object_id id;
    struct mob_task_id task = lose_a_put(&nx, &first, &id);
    nx.node->now_ns += NODE_DRIVER_GRACE_NS - MOB_SEC;
    awaited_puts_tick(nx.node);
    assert_true(waits(&nx, task));
    nx.node->now_ns += 2 * MOB_SEC;
    awaited_puts_tick(nx.node);
    assert_false(waits(&nx, task));
    assert_false(awaited_puts_any(nx.node));
    nx_close_with(&nx, &first);
}

static void put_of_an_ended_job_is_lost(void **state)
{
    (void)state;
    struct nx nx;
    struct nx_driver first;
    struct mob_object_id id;
    (void)lose_a_put(&nx, &first, &id);
    node_job_end(nx.node, node_job_by_id(nx.node, first.welcome.job), false);
    awaited_puts_tick(nx.node);
    assert_false(awaited_puts_any(nx.node));
    assert_false(awaited_puts_add(nx.node, id));
    nx_close_with(&nx, &first);
}

/* On disk: nobody has to send it again. */
static void put_on_disk_is_there_again(void **state)
{
    (void)state;
    struct nx nx;
    struct nx_driver first;
    nx_open_with(&nx, 0, &first);
    struct mob_object_id id = put_id(&first, 1);
    put_large(&first, id);
    struct mob_task_id task = submit_on(&first, id);
    nx_settle(&nx);
    nx_end(&nx); /* waits for the writer */
    nx_start(&nx, 0);
    nx_turn(&nx, 20);
    assert_false(waits(&nx, task));
    struct mob_object_info info;
    assert_true(mob_store_object_info(nx.node->store, id, &info) && info.sealed);
    nx_close_with(&nx, &first);
}

/* Removed is removed: nobody waits for it to be sent again. */
static void put_that_was_removed_is_not_awaited(void **state)
{
    (void)state;
    struct nx nx;
    struct nx_driver first;
    nx_open_with(&nx, 0, &first);
    struct mob_object_id id = put_id(&first, 1);
    put_large(&first, id);
    nx_turn(&nx, 10);
    char path[256];
    file_of(&nx, id, path);
    for (int i = 0; i < 2000 && access(path, F_OK) != 0; i++)
        usleep(1000);
    struct mob_out_request request = {.op = MOB_REQ_DELETE, .request = 1, .payload_bytes = sizeof id};
    nx_publish(first.store, MOB_OUT_REQUEST, &request, sizeof request, &id, sizeof id);
    nx_settle(&nx);
    nx_restart(&nx, 0);
    struct nx_driver other;
    nx_connect(&nx, &other, NULL);
    nx_watch(other.store, id);
    nx_turn(&nx, 20);
    enum mob_status status = MOB_OK;
    assert_true(nx_told(other.store, id, &status));
    assert_int_equal(status, MOB_OBJECT_LOST);
    assert_false(awaited_puts_any(nx.node));
    nx_disconnect(&first);
    nx_disconnect(&other);
    nx_close(&nx);
}

/* ---- promises: kept by their driver also after the end of the node that heard them ---- */

/* The question about it was under way when it came: what the log says then is no reason to call it lost. */
static void promise_that_was_asked_for_first_is_waited_for(void **state)
{
    (void)state;
    struct nx nx;
    struct nx_driver driver;
    enum mob_status status;
    nx_open_with(&nx, 0, &driver);
    struct mob_object_id id = put_id(&driver, 1);
    nx_watch(driver.store, id);
    nx_promise(&driver, id);
    nx_settle(&nx);
    assert_false(nx_told(driver.store, id, &status));
    nx_keep_promise(&driver, id, 4);
    nx_settle(&nx);
    assert_true(nx_told(driver.store, id, &status));
    assert_int_equal(status, MOB_OK);
    nx_close_with(&nx, &driver);
}

/* A driver that opens another session and sends its promise again: the end of the first breaks nothing. */
static void promise_goes_with_its_driver_to_another_session(void **state)
{
    (void)state;
    struct nx nx;
    struct nx_driver first, again;
    nx_open_with(&nx, 0, &first);
    struct mob_object_id id = put_id(&first, 1);
    nx_promise(&first, id);
    struct mob_task_id task = submit_on(&first, id);
    nx_turn(&nx, 10);
    nx_connect(&nx, &again, &first);
    nx_promise(&again, id);
    nx_turn(&nx, 5);
    nx_disconnect(&first);
    nx_turn(&nx, 10);
    assert_true(waits(&nx, task));
    nx_keep_promise(&again, id, 4);
    nx_turn(&nx, 5);
    assert_false(waits(&nx, task));
    nx_close_with(&nx, &again);
}

static void promise_waits_for_its_driver(void **state)
{
    (void)state;
    struct nx nx;
    struct nx_driver first, again;
    nx_open_with(&nx, 0, &first);
    struct mob_object_id id = put_id(&first, 1);
    nx_promise(&first, id);
    struct mob_task_id task = submit_on(&first, id);
    nx_turn(&nx, 10);
    assert_int_equal(mob_store_out_acked(first.store), mob_store_out_published(first.store));
    nx_restart(&nx, 0);
    nx_turn(&nx, 20);
    assert_true(waits(&nx, task));
    nx_connect(&nx, &again, &first);
    nx_keep_promise(&again, id, 4);
    nx_turn(&nx, 5);
    assert_false(waits(&nx, task));
    nx_disconnect(&first);
    nx_disconnect(&again);
    nx_close(&nx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(put_that_was_not_on_disk_waits_for_its_driver),
        cmocka_unit_test(put_whose_driver_stays_away_is_lost),
        cmocka_unit_test(put_of_an_ended_job_is_lost),
        cmocka_unit_test(put_on_disk_is_there_again),
        cmocka_unit_test(put_that_was_removed_is_not_awaited),
        cmocka_unit_test(promise_waits_for_its_driver),
        cmocka_unit_test(promise_that_was_asked_for_first_is_waited_for),
        cmocka_unit_test(promise_goes_with_its_driver_to_another_session),
    };
    cmocka_set_test_filter(getenv("MOBULA_TEST"));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
