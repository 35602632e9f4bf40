/* RECOVER records: taken before a log's tasks run, from dead recoverers too, never from a later one; ended
 * when all that was left has an owner, and gone when all of that has ended. */
#include "tests/unit/runtime/node/node_fixture.h"

#include "common/wire/recover_row.h"
#include "runtime/node/actor_record.h"
#include "runtime/node/recovery.h"
#include "runtime/node/task.h"

/* The record of this incarnation's log; false: there is none. */
static bool record_of(uint64_t incarnation, struct mob_recover_row *row_out)
{
    uint8_t key[MOB_RECOVER_KEY_BYTES];
    mob_recover_key(incarnation, key);
    int i = fake_row_of(MOB_GCS_NODES, key, sizeof key);
    if (i < 0 || !FAKE.rows[i].value)
        return false;
    assert_int_equal(mob_recover_row_open(FAKE.rows[i].value, FAKE.rows[i].value_length, row_out), MOB_OK);
    return true;
}

static void set_record(const struct mob_recover_row *row)
{
    uint8_t key[MOB_RECOVER_KEY_BYTES];
    mob_recover_key(row->incarnation, key);
    fake_gcs_set(MOB_GCS_NODES, key, sizeof key, row, sizeof *row);
}

static void assert_record(uint64_t incarnation, uint16_t state, uint64_t by, uint64_t from, uint32_t tasks)
{
    struct mob_recover_row row;
    if (!record_of(incarnation, &row))
        fail_msg("there is no record of log %lu", (unsigned long)incarnation);
    assert_int_equal(row.incarnation, incarnation);
    assert_int_equal(row.by, by);
    assert_int_equal(row.taken_from, from);
    assert_int_equal(row.takeovers, from != 0);
    assert_int_equal(row.state, state);
    assert_int_equal(row.tasks, tasks);
}

/* Incarnation 1, with one task in its log that has not begun; nothing runs. */
static struct mob_task_id open_with_task(struct nx *nx, struct nx_driver *driver)
{
    nx_open_with(nx, 0, driver);
    memcpy(FAKE.node_name, "node", 5);
    struct mob_task_id task = nx_submit(driver);
    nx_settle(nx);
    return task;
}

/* A second of the node's life, for its tick. */
static void tick(struct nx *nx)
{
    nx->node->next_tick_ns = 0;
    nx_settle(nx);
}

static void finish(struct nx *nx, struct mob_task_id task)
{
    struct nx_worker worker;
    assert_true(nx_worker_takes(nx, &worker));
    assert_true(mob_task_id_eq(worker.head.task, task));
    nx_complete(&worker, 1, MOB_OK);
    nx_settle(nx);
    nx_let_go(&worker);
}

static void record_ends_with_an_owner_and_goes_with_the_tasks(void **state)
{
    (void)state;
    struct nx nx;
    struct nx_driver driver;
    struct mob_recover_row row;
    struct mob_task_id task = open_with_task(&nx, &driver);
    assert_false(record_of(1, &row)); /* it lives */
    nx_restart(&nx, 0);
    nx_settle(&nx);
    assert_record(1, MOB_RECOVER_ENDED, 2, 0, 1);
    nx_restart(&nx, 1); /* 2 is dead: what it owned is owned again */
    nx_settle(&nx);
    assert_record(1, MOB_RECOVER_ENDED, 3, 2, 1);
    assert_false(record_of(2, &row)); /* that log left nothing */
    assert_false(FAKE.recovered[0]);
    assert_true(FAKE.recovered[1]);
    tick(&nx);
    assert_record(1, MOB_RECOVER_ENDED, 3, 2, 1); /* the task has not ended */
    FAKE.hold_acks = true;
    finish(&nx, task);
    tick(&nx);
    assert_record(1, MOB_RECOVER_ENDED, 3, 2, 1); /* it has, and nobody else knows yet */
    assert_false(FAKE.recovered[0]);
    FAKE.hold_acks = false;
    tick(&nx);
    assert_false(record_of(1, &row));
    assert_true(FAKE.recovered[0]);
    assert_false(FAKE.recovered[2]);
    nx_close_with(&nx, &driver);
}

/* How a start ends, with this record of log 1. */
static enum mob_status start_with(struct nx *nx, const struct mob_recover_row *row)
{
    set_record(row);
    nx_end(nx);
    struct node *node = calloc(1, sizeof *node);
    assert_non_null(node);
    node->options = (struct node_options){.segment_bytes = 64u << 20, .name = "node", .retention_s = 86400};
    memcpy(node->options.directory, nx->directory, sizeof nx->directory);
    nx->node = node;
    return node_open(node);
}

static void record_of_a_later_incarnation_is_not_taken(void **state)
{
    (void)state;
    struct nx nx;
    struct nx_driver driver;
    struct mob_recover_row row = {
        .version = MOB_RECOVER_ROW_VERSION, .state = MOB_RECOVER_RUNS, .incarnation = 1, .by = 40};
    struct mob_task_id task = open_with_task(&nx, &driver);
    assert_int_equal(start_with(&nx, &row), MOB_SEALED);
    assert_record(1, MOB_RECOVER_RUNS, 40, 0, 0);
    assert_null(node_task_find(nx.node, task)); /* nothing of the log came to run */
    row.version = MOB_RECOVER_ROW_VERSION + 1; /* somebody who knows more than this program */
    assert_int_equal(start_with(&nx, &row), MOB_VERSION);
    assert_null(node_task_find(nx.node, task));
    nx_close_with(&nx, &driver);
}

/* An incarnation that stood still behind its registration, and goes on when the next one lives. */
static void later_incarnation_is_neither_sealed_nor_recovered(void **state)
{
    (void)state;
    struct nx nx;
    struct nx_driver driver;
    struct mob_recover_row row;
    (void)open_with_task(&nx, &driver);
    FAKE.superseded = true; /* 3, where this becomes 2 */
    nx_restart(&nx, 0);
    nx_settle(&nx);
    assert_record(1, MOB_RECOVER_ENDED, 2, 0, 1);
    assert_false(record_of(3, &row));
    if (FAKE.sealed >= 3)
        fail_msg("log %lu was sealed by incarnation 2", (unsigned long)FAKE.sealed);
    nx_close_with(&nx, &driver);
}

static void who_lost_its_record_says_nothing(void **state)
{
    (void)state;
    struct nx nx;
    struct nx_driver driver;
    struct mob_recover_row row;
    struct mob_task_id task = open_with_task(&nx, &driver);
    nx_restart(&nx, 1);
    nx_settle(&nx);
    assert_record(1, MOB_RECOVER_ENDED, 2, 0, 1);
    row = (struct mob_recover_row){.version = MOB_RECOVER_ROW_VERSION,
        .state = MOB_RECOVER_RUNS,
        .incarnation = 1,
        .by = 9,
        .taken_from = 2,
        .takeovers = 1};
    set_record(&row);
    finish(&nx, task);
    tick(&nx);
    assert_record(1, MOB_RECOVER_RUNS, 9, 2, 0);
    assert_false(FAKE.recovered[0]);
    assert_false(recovery_open(nx.node));
    nx_close_with(&nx, &driver);
}

static void set_record_of(uint64_t incarnation, uint64_t by)
{
    struct mob_recover_row row = {
        .version = MOB_RECOVER_ROW_VERSION, .state = MOB_RECOVER_RUNS, .incarnation = incarnation, .by = by};
    set_record(&row);
}

/* Of a log that is RECOVERED, or whose registration was lost: nobody else would look at them any more. What
 * is of use, or is of no earlier log, stays. */
static void records_that_are_of_no_use_go(void **state)
{
    (void)state;
    struct nx nx;
    struct nx_driver driver;
    struct mob_recover_row row;
    struct mob_task_id task = open_with_task(&nx, &driver);
    nx_restart(&nx, 1);
    finish(&nx, task);
    tick(&nx);
    assert_true(FAKE.recovered[0]);
    assert_false(record_of(1, &row));
    nx_restart(&nx, 0); /* becomes 3, and recovers 2, which has nothing left */
    nx_settle(&nx);
    set_record_of(1, 2); /* it is over, and goes on behind its successor */
    set_record_of(2, 2);
    FAKE.lost_registration = 2;
    set_record_of(9, 8);
    nx_restart(&nx, 0);
    nx_settle(&nx);
    assert_false(record_of(1, &row));
    assert_false(record_of(2, &row));
    assert_true(record_of(9, &row));
    FAKE.lost_registration = 0;
    nx_close_with(&nx, &driver);
}

static void keys_of_records_name_their_logs(void **state)
{
    (void)state;
    uint8_t key[MOB_RECOVER_KEY_BYTES + 1];
    for (uint64_t incarnation = 1; incarnation < 1ull << 60; incarnation *= 3) {
        mob_recover_key(incarnation, key);
        assert_int_equal(mob_recover_of_key(key, MOB_RECOVER_KEY_BYTES), incarnation);
        assert_int_equal(mob_recover_of_key(key, MOB_RECOVER_KEY_BYTES - 1), 0);
        assert_int_equal(mob_recover_of_key(key, MOB_RECOVER_KEY_BYTES + 1), 0);
        key[0] = 'R';
        assert_int_equal(mob_recover_of_key(key, MOB_RECOVER_KEY_BYTES), 0);
    }
}

static void record_waits_for_room_in_the_control_store(void **state)
{
    (void)state;
    struct nx nx;
    struct nx_driver driver;
    struct mob_recover_row row;
    struct mob_task_id task = open_with_task(&nx, &driver);
    nx_restart(&nx, 1);
    nx_settle(&nx);
    FAKE.full = true;
    finish(&nx, task);
    tick(&nx);
    assert_record(1, MOB_RECOVER_ENDED, 2, 0, 1);
    assert_true(recovery_open(nx.node)); /* it ticks for that */
    FAKE.full = false;
    tick(&nx);
    assert_false(record_of(1, &row));
    assert_true(FAKE.recovered[0]);
    nx_close_with(&nx, &driver);
}

/* What was flushed is in PostgreSQL, which does not answer for a while: neither a task nor an actor is lost.
 */
static void start_waits_for_what_cannot_be_read_now(void **state)
{
    (void)state;
    struct nx nx;
    struct nx_driver driver;
    struct nx_worker worker;
    struct mob_recover_row row;
    nx_look_up_patience_ns = 1; /* of the reads that give up */
    nx_open_with(&nx, 1, &driver);
    memcpy(FAKE.node_name, "node", 5);
    struct mob_actor_id actor = nx_create(&driver);
    assert_true(nx_worker_takes(&nx, &worker));
    nx_complete(&worker, 0, MOB_OK);
    struct mob_task_id task = nx_submit(&driver);
    nx_settle(&nx);
    nx_let_go(&worker);
    nx_end(&nx);
    FAKE.failing_reads = 6;
    nx_start(&nx, 0);
    assert_int_equal(FAKE.failing_reads, 0);
    assert_non_null(node_task_find(nx.node, task));
    assert_non_null(node_actor_find(nx.node, actor));
    assert_int_equal(node_actor_find(nx.node, actor)->life.state, MOB_ACTOR_RESTARTING);
    nx_settle(&nx);
    assert_true(record_of(1, &row));
    assert_int_equal(row.state, MOB_RECOVER_ENDED);
    assert_int_equal(row.waits_for, MOB_RECOVER_WAITS_NOT);
    nx_look_up_patience_ns = 0;
    nx_close_with(&nx, &driver);
}

/* Tasks with keys: each has a root of its own, which is no task, so each is alone in its group. */
enum { KEYED = 200 };

static void submit_keyed(struct nx *nx, struct nx_driver *driver, struct mob_task_id tasks_out[static KEYED])
{
    node_client_at(nx->node, driver->welcome.slot)->flags |= MOB_SESSION_GATEWAY; /* who may do so */
    for (uint32_t i = 0; i < KEYED; i++) {
        struct mob_task_id root = {.stream = {{7, (uint8_t)i}}, .index = i};
        struct mob_spec_head head = nx_head(root, driver->welcome.job, 0, MOB_KIND_TASK);
        nx_spec(driver->store, &head, NULL);
        tasks_out[i] = head.task;
    }
    nx_settle(nx);
}

static void assert_all_came_back(struct nx *nx, const struct mob_task_id tasks[static KEYED])
{
    for (uint32_t i = 0; i < KEYED; i++)
        if (!node_task_find(nx->node, tasks[i]))
            fail_msg("task %u of %u did not come back", i, KEYED);
}

static void start_asks_for_many_groups_at_once(void **state)
{
    (void)state;
    struct nx nx;
    struct nx_driver driver;
    struct mob_task_id tasks[KEYED];
    nx_open_with(&nx, 0, &driver);
    memcpy(FAKE.node_name, "node", 5);
    submit_keyed(&nx, &driver, tasks);
    uint32_t before = FAKE.reads;
    nx_restart(&nx, 0);
    assert_all_came_back(&nx, tasks);
    /* Their groups and their roots', MOB_GCS_GROUPS_MAX in a question; and the list of what is unfinished. */
    assert_in_range(FAKE.reads - before, 2, 2 * (KEYED / MOB_GCS_GROUPS_MAX + 1) + 1);
    FAKE.is_old = true; /* a member that knows no such question: all comes back, too */
    before = FAKE.lone_reads;
    nx_restart(&nx, 0);
    assert_all_came_back(&nx, tasks);
    assert_in_range(FAKE.lone_reads - before, 2 * KEYED, 2 * KEYED + 1);
    nx_close_with(&nx, &driver);
}

/* The same of an actor that starts again while the node lives. */
static void actor_waits_for_what_cannot_be_read_now(void **state)
{
    (void)state;
    struct nx nx;
    struct nx_driver driver;
    struct nx_worker worker;
    nx_look_up_patience_ns = 1;
    nx_open_with(&nx, 1, &driver);
    struct mob_actor_id actor = nx_create(&driver);
    assert_true(nx_worker_takes(&nx, &worker));
    nx_complete(&worker, 0, MOB_OK);
    nx_settle(&nx);
    FAKE.group_reads = MOB_UNAVAILABLE;
    nx_kill(&nx, &worker);
    for (int i = 0; i < 5; i++) {
        usleep(110 * 1000); /* as long as a read rests that has failed */
        nx_settle(&nx);
    }
    assert_int_equal(node_actor_find(nx.node, actor)->life.state, MOB_ACTOR_RESTARTING);
    FAKE.group_reads = MOB_OK;
    int64_t deadline = mob_now() + NX_PATIENCE_NS;
    nx.node->pool->started_count = 0;
    while (nx.node->pool->started_count == 0) {
        assert_true(mob_now() < deadline);
        nx_settle(&nx);
    }
    nx_look_up_patience_ns = 0;
    nx_close_with(&nx, &driver);
}

static void rows_that_are_none_are_told_apart(void **state)
{
    (void)state;
    struct mob_recover_row row = {
        .version = MOB_RECOVER_ROW_VERSION, .state = MOB_RECOVER_ENDED, .incarnation = 3, .by = 4};
    struct mob_recover_row out = {0}, bad = row;
    assert_int_equal(mob_recover_row_open(&row, sizeof row, &out), MOB_OK);
    assert_memory_equal(&out, &row, sizeof row);
    for (size_t n = 0; n < sizeof row; n++)
        assert_int_equal(mob_recover_row_open(&row, n, &out), MOB_TRUNCATED);
    bad.state = MOB_RECOVER_ENDED + 1;
    assert_int_equal(mob_recover_row_open(&bad, sizeof bad, &out), MOB_CORRUPT);
    bad = row;
    bad.by = 0;
    assert_int_equal(mob_recover_row_open(&bad, sizeof bad, &out), MOB_CORRUPT);
    bad = row;
    bad.version++;
    assert_int_equal(mob_recover_row_open(&bad, sizeof bad.version, &out), MOB_VERSION);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(record_ends_with_an_owner_and_goes_with_the_tasks),
        cmocka_unit_test(record_of_a_later_incarnation_is_not_taken),
        cmocka_unit_test(later_incarnation_is_neither_sealed_nor_recovered),
        cmocka_unit_test(who_lost_its_record_says_nothing),
        cmocka_unit_test(records_that_are_of_no_use_go),
        cmocka_unit_test(keys_of_records_name_their_logs),
        cmocka_unit_test(record_waits_for_room_in_the_control_store),
        cmocka_unit_test(start_waits_for_what_cannot_be_read_now),
        cmocka_unit_test(start_asks_for_many_groups_at_once),
        cmocka_unit_test(actor_waits_for_what_cannot_be_read_now),
        cmocka_unit_test(rows_that_are_none_are_told_apart),
    };
    return cmocka_run_group_tests_name("runtime/node/recovery", tests, NULL, NULL);
}
