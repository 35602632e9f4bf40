/* The log is closed under "depends on" (ARCHITECTURE "Tickets"): whatever the order in which clients publish
 * and passes come, nothing stands in it before what it needs; so a crash after any block leaves no task
 * without the tasks whose results it takes. Random interleavings by seed; MOBULA_SEED=n replays one. */
#include "tests/unit/runtime/node/node_fixture.h"

enum { DRIVERS = 3, ROUNDS = 120, PUBLISHED_MAX = DRIVERS * ROUNDS * 4, SEEDS = 60 };

struct published {
    struct mob_task_id task, needs; /* zero: nothing */
    uint32_t logged; /* 1 + its place in the log */
};
static struct published all[PUBLISHED_MAX];
static uint32_t count;

static struct published *find(struct mob_task_id task)
{
    for (uint32_t i = 0; i < count; i++)
        if (mob_task_id_eq(all[i].task, task))
            return &all[i];
    return NULL;
}

/* Of another client, or its own; the newest of all every second time. */
static void publish(struct nx_driver *driver, uint64_t seed)
{
    struct mob_spec_head head = nx_next(driver, MOB_KIND_TASK);
    struct published *p = &all[count];
    *p = (struct published){.task = head.task};
    if (count > 0 && rand() % 4) {
        p->needs = all[rand() % 2 ? count - 1 : (uint32_t)rand() % count].task;
        struct mob_object_id input = mob_object_of(p->needs, 0);
        nx_spec(driver->store, &head, &input);
    } else {
        nx_spec(driver->store, &head, NULL);
    }
    if (++count == PUBLISHED_MAX)
        fail_msg("seed %llu: too many", (unsigned long long)seed);
}

static void check_log(uint64_t seed)
{
    static struct mob_zone_map zone;
    struct mob_block_decoder *decoder = mob_block_decoder_create();
    uint32_t place = 0;
    for (uint32_t b = 0; b < FAKE.block_count; b++) {
        struct mob_block_header header;
        struct mob_entry entry;
        enum mob_status status =
            mob_block_open(decoder, FAKE.blocks[b].bytes, FAKE.blocks[b].length, &header, &zone);
        while (status == MOB_OK && (status = mob_block_next(decoder, &entry)) == MOB_OK) {
            struct published *p = entry.type == MOB_ENTRY_SPEC ? find(entry.spec.head.task) : NULL;
            if (!p)
                continue;
            p->logged = ++place;
            const struct published *needed = mob_task_id_is_zero(p->needs) ? NULL : find(p->needs);
            if (needed && !needed->logged)
                fail_msg(
                    "seed %llu: block %u has a task before the one it needs", (unsigned long long)seed, b);
        }
        assert_int_equal(status, MOB_CLOSED);
    }
    assert_int_equal(place, count); /* and all of it is there */
    mob_block_decoder_destroy(decoder);
}

static void run_seed(uint64_t seed)
{
    struct nx nx;
    struct nx_driver drivers[DRIVERS];
    srand((unsigned)seed);
    count = 0;
    nx_open(&nx, 0);
    for (int d = 0; d < DRIVERS; d++)
        nx_connect(&nx, &drivers[d], NULL);
    for (int round = 0; round < ROUNDS; round++) {
        for (int n = rand() % 6; n > 0; n--)
            publish(&drivers[rand() % DRIVERS], seed);
        if (rand() % 3)
            nx_turn(&nx, 1);
    }
    nx_settle(&nx);
    check_log(seed);
    for (int d = 0; d < DRIVERS; d++)
        nx_disconnect(&drivers[d]);
    nx_close(&nx);
}

static void nothing_is_in_the_log_before_what_it_needs(void **state)
{
    (void)state;
    const char *seed = getenv("MOBULA_SEED");
    if (seed)
        run_seed(strtoull(seed, NULL, 10));
    for (uint64_t i = 1; !seed && i <= SEEDS; i++)
        run_seed(i);
}

/* ---- room in rings ---- */

/* Of the spec that went whole last. */
static void publish_siblings(struct nx_driver *driver, uint32_t siblings)
{
    while (siblings-- > 0) {
        struct mob_sibling_word s = {.submitted_ns = mob_now(), .index = driver->next++};
        mob_spec_word_tail(MOB_TYPE_I64, siblings, s.tail);
        nx_publish(driver->store, MOB_OUT_SIBLING, &s, sizeof s, NULL, 0);
    }
}

/* What one driver has said is in a block that closes because another one's job follows: the other's records
 * are in none yet, and stay in its ring, however far the first has got in its own. */
static void a_block_gives_room_back_for_what_is_in_it(void **state)
{
    (void)state;
    struct nx nx;
    struct nx_driver first, other;
    nx_open_with(&nx, 0, &first);
    nx_connect(&nx, &other, NULL);
    nx_submit(&first);
    nx_submit(&other);
    nx_settle(&nx);
    FAKE.hold_acks = true;
    uint64_t acked = mob_store_out_acked(other.store);
    struct mob_gcs_log *log = &nx.node->gcs->log;
    uint64_t blocks = log->appended;
    publish_siblings(&first, 40);
    publish_siblings(&other, 200);
    nx_settle(&nx);
    assert_in_range(log->appended, blocks + 2, UINT64_MAX);
    log->events.acked(log->events.arg, blocks + 1); /* the first one's alone */
    assert_int_equal(mob_store_out_acked(other.store), acked);
    fake_acknowledge(nx.node->gcs);
    assert_in_range(
        mob_store_out_acked(other.store), acked + 200 * sizeof(struct mob_sibling_word), UINT64_MAX);
    nx_disconnect(&other);
    nx_close_with(&nx, &first);
}

/* ---- when blocks leave ---- */

/* Appends specs until so many blocks more are full; the open one behind them holds one. */
static void fill(struct lineage_log *log, struct nx_driver *driver, uint32_t blocks)
{
    uint64_t tail[3];
    struct mob_tail_builder builder;
    struct lineage_log_stats stats;
    lineage_log_stats(log, &stats);
    const uint64_t wanted = stats.blocks + blocks;
    while (stats.blocks < wanted) {
        struct mob_spec_head head = nx_next(driver, MOB_KIND_TASK);
        int64_t value = head.task.index;
        mob_tail_begin(&builder, (uint8_t *)tail, sizeof tail);
        mob_tail_add_value(&builder, MOB_TYPE_I64, &value, sizeof value);
        lineage_log_spec(log, &head, (const uint8_t *)tail, mob_tail_end(&builder), 1);
        lineage_log_stats(log, &stats);
    }
}

static uint32_t left_after(struct lineage_log *log, enum lineage_log_turn turn)
{
    (void)lineage_log_pump(log, 0, turn); /* at time 0 nothing is old */
    return FAKE.block_count;
}

static void full_blocks_leave_together_and_never_wait_for_long(void **state)
{
    (void)state;
    struct nx nx;
    struct nx_driver driver;
    nx_open_with(&nx, 0, &driver);
    nx_settle(&nx);
    struct lineage_log *log = nx.node->log;
    assert_true(lineage_log_idle(log));
    uint32_t gone = FAKE.block_count;

    fill(log, &driver, 3); /* while more comes they wait; then all of them go */
    assert_int_equal(left_after(log, LOG_TURN_BUSY), gone);
    assert_int_equal(left_after(log, LOG_TURN_QUIET), gone += 3);

    fill(log, &driver, 1); /* for the acknowledgement of those */
    assert_int_equal(left_after(log, LOG_TURN_QUIET), gone);
    lineage_log_rest(log);
    assert_int_equal(FAKE.block_count, gone);
    fake_acknowledge(nx.node->gcs);
    assert_int_equal(left_after(log, LOG_TURN_QUIET), gone += 1);
    fake_acknowledge(nx.node->gcs);
    fill(log, &driver, 1); /* a loop that goes to sleep does not wait, either */
    lineage_log_rest(log);
    assert_int_equal(FAKE.block_count, gone += 1);

    fill(log, &driver, LOG_BLOCKS_GATHERED); /* so many wait for nothing */
    assert_int_equal(FAKE.block_count, gone += LOG_BLOCKS_GATHERED);

    fill(log, &driver, 1); /* nor does what is old, */
    assert_int_equal(left_after(log, LOG_TURN_BUSY), gone);
    assert_true(lineage_log_next(log) < INT64_MAX);
    (void)lineage_log_pump(log, lineage_log_next(log), LOG_TURN_BUSY);
    assert_true(FAKE.block_count > gone);
    gone = FAKE.block_count;

    fill(log, &driver, 1); /* nor what is flushed, with the open block */
    assert_int_equal(left_after(log, LOG_TURN_FLUSH), gone += 2);
    fake_acknowledge(nx.node->gcs);
    assert_true(lineage_log_idle(log));
    nx_close_with(&nx, &driver);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(nothing_is_in_the_log_before_what_it_needs),
        cmocka_unit_test(a_block_gives_room_back_for_what_is_in_it),
        cmocka_unit_test(full_blocks_leave_together_and_never_wait_for_long)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
