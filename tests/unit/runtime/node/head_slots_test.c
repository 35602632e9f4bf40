/* Siblings and the slots of the heads that they repeat, from a client to the node and from it to a worker. */
#include "runtime/node/task.h"
#include "tests/unit/runtime/node/node_fixture.h"

enum { HEADS = 3 * MOB_HEAD_SLOTS / 2, TASKS = 3000, BATCH = 30 };

static uint32_t random_state = 12345;
static uint32_t random_below(uint32_t n)
{
    random_state = random_state * 1664525u + 1013904223u;
    return (random_state >> 8) % n;
}

static void publish(struct nx_driver *driver, uint8_t type, uint16_t slot, const void *body, uint32_t bytes)
{
    struct mob_piece piece = {body, bytes};
    assert_int_equal(mob_store_publish(driver->store, type, 0, slot, &piece, 1), MOB_OK);
}

static uint32_t put_tail(uint8_t *at)
{
    int64_t value = 1;
    struct mob_tail_builder tail;
    mob_tail_begin(&tail, at, 64);
    mob_tail_add_value(&tail, MOB_TYPE_I64, &value, sizeof value);
    return mob_tail_end(&tail);
}

static void publish_spec(struct nx_driver *driver, uint16_t slot, const struct mob_spec_head *head)
{
    _Alignas(8) uint8_t body[8 + sizeof *head + 64];
    int64_t now = mob_now();
    memcpy(body, &now, 8);
    memcpy(body + 8, head, sizeof *head);
    publish(
        driver, MOB_OUT_SPEC, slot, body, (uint32_t)(8 + sizeof *head) + put_tail(body + 8 + sizeof *head));
}

static void publish_sibling(struct nx_driver *driver, uint16_t slot, uint32_t index)
{
    _Alignas(8) uint8_t body[16 + 64] = {0};
    int64_t now = mob_now();
    memcpy(body, &now, 8);
    memcpy(body + 8, &index, 4);
    publish(driver, MOB_OUT_SIBLING, slot, body, 16 + put_tail(body + 16));
}

/* Heads differ in their number of retries; the driver puts each into a slot of its own choice, and repeats
 * what stands where. What a worker gets must be what was meant, though it has fewer slots than there are
 * heads. */
static void a_sibling_has_the_head_of_its_slot(void **state)
{
    (void)state;
    static int32_t meant[TASKS];
    struct nx nx;
    struct nx_driver driver;
    nx_open_with(&nx, 1, &driver);
    int32_t stands[MOB_HEAD_SLOTS] = {0}; /* retries + 1 */
    uint32_t specs = 0, done = 0;
    struct nx_worker worker = {0};
    while (driver.next < TASKS) {
        for (int i = 0; i < BATCH; i++) {
            uint16_t slot = (uint16_t)random_below(MOB_HEAD_SLOTS);
            struct mob_spec_head head = nx_next(&driver, MOB_KIND_TASK);
            if (stands[slot] == 0 || random_below(10) == 0) {
                head.max_retries = (int32_t)random_below(HEADS);
                stands[slot] = head.max_retries + 1;
                publish_spec(&driver, slot, &head);
                specs++;
            } else {
                publish_sibling(&driver, slot, head.task.index);
            }
            meant[head.task.index] = stands[slot] - 1;
        }
        nx_turn(&nx, 2);
        if (!worker.store)
            nx_worker(&nx, &worker);
        for (int i = 0; i < BATCH && nx_take_task(&worker); i++) {
            assert_int_equal(worker.head.max_retries, meant[worker.head.task.index]);
            nx_complete(&worker, 1, MOB_OK);
            done++;
        }
    }
    for (int idle = 0; idle < 5; idle++) {
        nx_turn(&nx, 2);
        for (; nx_take_task(&worker); done++, idle = 0) {
            assert_int_equal(worker.head.max_retries, meant[worker.head.task.index]);
            nx_complete(&worker, 1, MOB_OK);
        }
    }
    assert_int_equal(done, TASKS);
    assert_in_range(specs, TASKS / 20, TASKS / 5);
    assert_true(worker.specs < TASKS);
    nx_let_go(&worker);
    nx_close_with(&nx, &driver);
}

/* Callers that take turns: each head goes to the worker once. */
static void heads_in_turn_go_to_a_worker_once(void **state)
{
    (void)state;
    enum { CALLERS = 40, ROUNDS = 20 };
    struct nx nx;
    struct nx_driver driver;
    nx_open_with(&nx, 1, &driver);
    struct nx_worker worker = {0};
    uint32_t done = 0;
    for (int round = 0; round < ROUNDS; round++) {
        for (uint16_t caller = 0; caller < CALLERS; caller++) {
            struct mob_spec_head head = nx_next(&driver, MOB_KIND_TASK);
            head.max_retries = caller;
            if (round == 0)
                publish_spec(&driver, caller, &head);
            else
                publish_sibling(&driver, caller, head.task.index);
        }
        nx_turn(&nx, 2);
        if (!worker.store)
            nx_worker(&nx, &worker);
        for (int idle = 0; idle < 3; idle++, nx_turn(&nx, 1))
            for (; nx_take_task(&worker); done++, idle = 0) {
                assert_int_equal(worker.head.max_retries, worker.head.task.index % CALLERS);
                nx_complete(&worker, 1, MOB_OK);
            }
    }
    assert_int_equal(done, CALLERS * ROUNDS);
    assert_int_equal(worker.specs, CALLERS);
    nx_let_go(&worker);
    nx_close_with(&nx, &driver);
}

/* ---- hostile clients ---- */

static bool session_lives(struct nx *nx, const struct nx_driver *driver)
{
    return nx->node->clients[driver->welcome.slot] != NULL;
}

static void expect_its_session_ends(void (*attack)(struct nx_driver *driver))
{
    struct nx nx;
    struct nx_driver hostile, other;
    nx_open_with(&nx, 1, &hostile);
    nx_connect(&nx, &other, NULL);
    attack(&hostile);
    nx_turn(&nx, 3);
    assert_false(session_lives(&nx, &hostile));
    assert_true(session_lives(&nx, &other));
    struct mob_task_id task = nx_submit(&other);
    nx_turn(&nx, 3);
    assert_non_null(node_task_find(nx.node, task));
    nx_disconnect(&hostile);
    nx_disconnect(&other);
    nx_close(&nx);
}

static void attack_spec_behind_the_last_slot(struct nx_driver *driver)
{
    struct mob_spec_head head = nx_next(driver, MOB_KIND_TASK);
    publish_spec(driver, MOB_HEAD_SLOTS, &head);
}

static void attack_sibling_behind_the_last_slot(struct nx_driver *driver)
{
    nx_submit(driver);
    publish_sibling(driver, UINT16_MAX, driver->next++);
}

static void attack_sibling_of_an_empty_slot(struct nx_driver *driver)
{
    nx_submit(driver); /* fills slot 0 */
    publish_sibling(driver, 1, driver->next++);
}

static void slots_that_are_none_end_the_session(void **state)
{
    (void)state;
    expect_its_session_ends(attack_spec_behind_the_last_slot);
    expect_its_session_ends(attack_sibling_behind_the_last_slot);
    expect_its_session_ends(attack_sibling_of_an_empty_slot);
}

/* A head outlives its task in the slot: repeated later it would make children of nobody. */
static void a_worker_submits_nothing_for_a_task_that_ended(void **state)
{
    (void)state;
    struct nx nx;
    struct nx_driver driver;
    struct nx_worker worker;
    nx_open_with(&nx, 1, &driver);
    nx_submit(&driver);
    nx_turn(&nx, 3);
    nx_worker(&nx, &worker);
    assert_true(nx_take_task(&worker));
    struct mob_spec_head child = nx_head(worker.head.task, driver.welcome.job, 0, MOB_KIND_TASK);
    nx_spec(worker.store, &child, NULL);
    struct nx_driver as_worker = {.store = worker.store};
    publish_sibling(&as_worker, 0, 1);
    nx_turn(&nx, 2);
    assert_non_null(node_task_find(nx.node, (struct mob_task_id){child.task.stream, 1}));
    nx_complete(&worker, 1, MOB_OK);
    publish_sibling(&as_worker, 0, 2);
    nx_turn(&nx, 2);
    assert_null(node_task_find(nx.node, (struct mob_task_id){child.task.stream, 2}));
    assert_non_null(
        nx.node->workers[1] ? nx.node->workers[1]->kill_reason : nx.node->workers[0]->kill_reason);
    nx_let_go(&worker);
    nx_close_with(&nx, &driver);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sibling_has_the_head_of_its_slot),
        cmocka_unit_test(heads_in_turn_go_to_a_worker_once),
        cmocka_unit_test(slots_that_are_none_end_the_session),
        cmocka_unit_test(a_worker_submits_nothing_for_a_task_that_ended),
    };
    cmocka_set_test_filter(getenv("MOBULA_TEST"));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
