/* Values over 1 MiB: hashed off everybody's path, the hash an entry of its own, the commit behind it; over
 * the end of the node, too. ctest: threads */
#include "tests/unit/runtime/node/node_fixture.h"

#include "runtime/node/large_hashes.h"

enum { BYTES = 24 << 20 };
#define PATIENCE_NS (30 * MOB_SEC)

static struct mob_object_id put_id(const struct nx_driver *driver, uint32_t counter)
{
    return mob_object_of(driver->welcome.root, MOB_SLOT_PUT | counter);
}

/* Filled with `with`; its content's hash. */
static struct mob_hash128 make_large(
    struct mob_store_client *store, struct mob_object_id id, uint8_t with, struct mob_object_ref *ref_out)
{
    uint64_t size;
    void *full;
    uint8_t *payload;
    assert_int_equal(mob_value_full_size(BYTES, 0, 0, &size), MOB_OK);
    assert_int_equal(mob_store_object_create(store, id, size, ref_out, &full), MOB_OK);
    assert_int_equal(mob_value_init(full, size, MOB_TYPE_BYTES, BYTES, NULL, 0, NULL, 0, &payload), MOB_OK);
    memset(payload, with, BYTES);
    return mob_hash128(payload, BYTES);
}

static struct mob_hash128 put_large(struct nx_driver *driver, struct mob_object_id id)
{
    struct mob_object_ref ref;
    struct mob_hash128 hash = make_large(driver->store, id, 7, &ref);
    struct mob_out_put put = {.id = id,
        .type = MOB_TYPE_BYTES,
        .flags = MOB_PUT_HASH_LATER,
        .size = BYTES + MOB_VALUE_HEADER_BYTES};
    nx_publish(driver->store, MOB_OUT_PUT, &put, sizeof put, NULL, 0);
    mob_store_object_seal(driver->store, ref);
    return hash;
}

/* HASH entries of this object in the log; the last one's hash. */
static uint32_t logged(struct mob_object_id id, struct mob_hash128 *hash_out)
{
    static struct mob_zone_map zone;
    static struct mob_entry entry;
    struct mob_block_decoder *decoder = mob_block_decoder_create();
    uint32_t count = 0;
    for (uint32_t i = 0; i < FAKE.block_count; i++) {
        struct mob_block_header header;
        assert_int_equal(
            mob_block_open(decoder, FAKE.blocks[i].bytes, FAKE.blocks[i].length, &header, &zone), MOB_OK);
        while (mob_block_next(decoder, &entry) == MOB_OK)
            if (entry.type == MOB_ENTRY_HASH && mob_object_id_eq(entry.hash.id, id)) {
                count++;
                *hash_out = entry.hash.hash;
            }
    }
    mob_block_decoder_destroy(decoder);
    return count;
}

static void until_logged(struct nx *nx, struct mob_object_id id, struct mob_hash128 *hash_out)
{
    for (int64_t end = mob_now() + PATIENCE_NS; logged(id, hash_out) == 0; nx_turn(nx, 1))
        assert_true(mob_now() < end);
}

static enum mob_status until_told(struct nx *nx, struct mob_store_client *store, struct mob_object_id id)
{
    enum mob_status status;
    int64_t end = mob_now() + PATIENCE_NS;
    while (!nx_told(store, id, &status)) {
        assert_true(mob_now() < end);
        nx_turn(nx, 1);
    }
    return status;
}

static bool is_committed(struct nx *nx, struct mob_object_id id)
{
    struct mob_object_info info;
    assert_true(mob_store_object_info(nx->node->store, id, &info));
    return info.committed;
}

static void the_commit_of_a_put_comes_behind_its_hash(void **state)
{
    (void)state;
    struct nx nx;
    struct nx_driver driver;
    struct mob_hash128 hash, found;
    enum mob_status status;
    nx_open_with(&nx, 0, &driver);
    struct mob_object_id id = put_id(&driver, 1);
    hash = put_large(&driver, id);
    nx_watch(driver.store, id);
    until_logged(&nx, id, &found);
    assert_true(mob_hash128_eq(hash, found));
    FAKE.hold_acks = true; /* the entry is sent, and not acknowledged */
    nx_settle(&nx);
    assert_false(nx_told(driver.store, id, &status));
    assert_false(is_committed(&nx, id));
    assert_true(large_hashes_any(nx.node));
    FAKE.hold_acks = false;
    assert_int_equal(until_told(&nx, driver.store, id), MOB_OK);
    assert_true(is_committed(&nx, id));
    assert_false(large_hashes_any(nx.node));
    assert_int_equal(logged(id, &found), 1);
    nx_close_with(&nx, &driver);
}

/* Released by everybody before its turn came: who waits is told as for any other. */
static void one_that_goes_before_it_is_hashed_hangs_nobody(void **state)
{
    (void)state;
    struct nx nx;
    struct nx_driver driver;
    struct mob_hash128 found;
    nx_open_with(&nx, 1, &driver);
    struct nx_worker worker;
    struct mob_object_ref ref;
    struct mob_task_id task = nx_submit(&driver);
    nx_settle(&nx);
    nx_worker(&nx, &worker);
    nx_turn(&nx, 2);
    assert_true(nx_take_task(&worker));
    struct mob_object_id id = mob_object_of(task, 0);
    (void)make_large(worker.store, id, 1, &ref);
    struct mob_return_view view = {
        .type = MOB_TYPE_BYTES, .flags = MOB_RETURN_STORED | MOB_RETURN_HASH_LATER, .size = BYTES};
    nx_publish_completion(&worker, &view, MOB_OK);
    mob_store_object_seal(worker.store, ref);
    nx_turn(&nx, 1);
    assert_true(large_hashes_waits(nx.node, id));
    mob_store_object_free(nx.node->store, id);
    assert_int_equal(until_told(&nx, driver.store, id), MOB_OK);
    assert_false(large_hashes_any(nx.node));
    assert_int_equal(logged(id, &found), 0);
    mob_store_detach(worker.store);
    nx_close_with(&nx, &driver);
}

static void file_of(const struct nx *nx, struct mob_object_id id, char path[256])
{
    char text[MOB_ID_TEXT_MAX];
    snprintf(path, 256, "%s/objects/%s", nx->directory, mob_object_id_format(id, text));
}

/* The next incarnation; who asks it for the object. */
static void restart(struct nx *nx, struct nx_driver *driver, struct mob_object_id id)
{
    nx_end(nx);
    nx_disconnect(driver);
    nx_start(nx, 0);
    nx_connect(nx, driver, NULL);
    nx_watch(driver->store, id);
}

static void a_put_whose_hash_was_not_logged_gets_it_from_its_file(void **state)
{
    (void)state;
    struct nx nx;
    struct nx_driver driver;
    struct mob_hash128 hash, found;
    nx_open_with(&nx, 0, &driver);
    struct mob_object_id id = put_id(&driver, 1);
    hash = put_large(&driver, id);
    nx_settle(&nx); /* in the log, and by its end on disk: but too few steps for the hash */
    assert_int_equal(logged(id, &found), 0);
    restart(&nx, &driver, id);
    assert_int_equal(until_told(&nx, driver.store, id), MOB_OK);
    assert_int_equal(logged(id, &found), 1);
    assert_true(mob_hash128_eq(hash, found));
    assert_true(is_committed(&nx, id));

    restart(&nx, &driver, id); /* and once more: the log has it now */
    assert_int_equal(until_told(&nx, driver.store, id), MOB_OK);
    assert_int_equal(logged(id, &found), 1);

    char path[256]; /* other bytes than those of the log are not its value */
    file_of(&nx, id, path);
    FILE *file = fopen(path, "r+");
    assert_non_null(file);
    assert_int_equal(fseek(file, 5 << 20, SEEK_SET), 0);
    assert_int_equal(fputc('x', file), 'x');
    assert_int_equal(fclose(file), 0);
    restart(&nx, &driver, id);
    assert_int_equal(until_told(&nx, driver.store, id), MOB_REPLAY_DIVERGED);
    nx_close_with(&nx, &driver);
}

static void return_large(struct nx *nx, struct nx_worker *worker, uint8_t with)
{
    struct mob_object_ref ref;
    for (int64_t end = mob_now() + PATIENCE_NS; !nx_take_task(worker); nx_turn(nx, 1))
        assert_true(mob_now() < end);
    (void)make_large(worker->store, mob_object_of(worker->head.task, 0), with, &ref);
    struct mob_return_view view = {
        .type = MOB_TYPE_BYTES, .flags = MOB_RETURN_STORED | MOB_RETURN_HASH_LATER, .size = BYTES};
    nx_publish_completion(worker, &view, MOB_OK);
    mob_store_object_seal(worker->store, ref);
}

/* Runs again with the same bytes, then with others. */
static void a_result_that_is_made_again_has_the_hash_of_the_first(void **state)
{
    (void)state;
    static const struct {
        uint8_t with;
        enum mob_status status;
    } runs[] = {{3, MOB_OK}, {3, MOB_OK}, {4, MOB_REPLAY_DIVERGED}};
    struct nx nx;
    struct nx_driver driver;
    struct mob_hash128 found;
    nx_open_with(&nx, 1, &driver);
    struct mob_object_id id = mob_object_of(nx_submit(&driver), 0);
    nx_settle(&nx);
    for (int i = 0; i < 3; i++) {
        struct nx_worker worker;
        for (int64_t end = mob_now() + PATIENCE_NS; nx.node->pool->started_count == 0; nx_turn(&nx, 1))
            assert_true(mob_now() < end);
        nx_worker(&nx, &worker);
        return_large(&nx, &worker, runs[i].with);
        assert_int_equal(until_told(&nx, driver.store, id), runs[i].status);
        assert_int_equal(logged(id, &found), 1);
        assert_true(is_committed(&nx, id));
        mob_store_detach(worker.store);
        if (i == 2)
            break;
        nx_end(&nx);
        nx_disconnect(&driver);
        nx_start(&nx, 1);
        nx_connect(&nx, &driver, NULL);
        nx_watch(driver.store, id);
    }
    nx_close_with(&nx, &driver);
}

/* What follows is committed before it, and a task that takes it starts before it. */
static void nothing_else_waits(void **state)
{
    (void)state;
    struct nx nx;
    struct nx_driver driver;
    struct nx_worker worker;
    enum mob_status status;
    struct mob_hash128 found;
    nx_open_with(&nx, 1, &driver);
    struct mob_object_id large = mob_object_of(nx_submit(&driver), 0);
    struct mob_spec_head head = nx_next(&driver, MOB_KIND_TASK);
    nx_spec(driver.store, &head, &large);
    nx_settle(&nx);
    nx_worker(&nx, &worker);
    return_large(&nx, &worker, 5);
    for (int i = 0; i < 4 && !nx_take_task(&worker); i++)
        nx_turn(&nx, 1);
    assert_true(mob_task_id_eq(worker.head.task, head.task)); /* a step a turn: it is not hashed yet */
    nx_complete(&worker, 1, MOB_OK);
    nx_turn(&nx, 6);
    assert_int_equal(logged(large, &found), 0);
    assert_true(nx_told(driver.store, mob_object_of(head.task, 0), &status));
    assert_int_equal(until_told(&nx, driver.store, large), MOB_OK);
    assert_int_equal(logged(large, &found), 1);
    mob_store_detach(worker.store);
    nx_close_with(&nx, &driver);
}

/* More than the store's queue takes at a time: none is forgotten. */
static void those_beyond_the_queue_get_their_turn(void **state)
{
    (void)state;
    enum { COUNT = 4200, VALUE_BYTES = 1000 };
    uint8_t value[VALUE_BYTES + 2 * MOB_VALUE_HEADER_BYTES] __attribute__((aligned(64))), *payload;
    struct nx nx;
    struct nx_driver driver;
    uint64_t size;
    nx_open_with(&nx, 0, &driver);
    assert_int_equal(mob_value_full_size(VALUE_BYTES, 0, 0, &size), MOB_OK);
    assert_true(size <= sizeof value);
    assert_int_equal(
        mob_value_init(value, size, MOB_TYPE_BYTES, VALUE_BYTES, NULL, 0, NULL, 0, &payload), MOB_OK);
    memset(payload, 1, VALUE_BYTES);
    for (uint32_t i = 0; i < COUNT; i++) {
        struct large_hash_wanted wanted = {
            .id = put_id(&driver, i), .job = driver.welcome.job, .ns = "default", .slot = NODE_NOBODY};
        assert_int_equal(
            mob_store_object_put(nx.node->store, wanted.id, MOB_TYPE_BYTES, false, value, size), MOB_OK);
        assert_true(large_hashes_want(nx.node, &wanted));
    }
    for (int64_t end = mob_now() + PATIENCE_NS; large_hashes_any(nx.node); nx_turn(&nx, 1))
        assert_true(mob_now() < end);
    for (uint32_t i = 0; i < COUNT; i++)
        assert_true(is_committed(&nx, put_id(&driver, i)));
    struct mob_hash128 found;
    assert_int_equal(logged(put_id(&driver, COUNT - 1), &found), 1);
    assert_true(mob_hash128_eq(found, mob_hash128(payload, VALUE_BYTES)));
    nx_close_with(&nx, &driver);
}

/* Its putter may be off its core, which the node's wake took: it goes on first, unless it waits already. */
static void a_put_is_hashed_when_its_putter_has_gone_on(void **state)
{
    (void)state;
    struct nx nx;
    struct nx_driver driver;
    struct mob_hash128 found;
    nx_open_with(&nx, 0, &driver);
    (void)put_large(&driver, put_id(&driver, 1));
    nx_turn(&nx, 1);
    assert_true(large_hashes_rest(nx.node));
    until_logged(&nx, put_id(&driver, 1), &found); /* a millisecond later, without a word from anybody */
    nx_watch(driver.store, put_id(&driver, 1));
    assert_int_equal(until_told(&nx, driver.store, put_id(&driver, 1)), MOB_OK);
    assert_false(large_hashes_any(nx.node));
    (void)put_large(&driver, put_id(&driver, 2));
    nx_watch(driver.store, put_id(&driver, 2));
    nx_turn(&nx, 1);
    assert_true(large_hashes_waits(nx.node, put_id(&driver, 2)));
    assert_false(large_hashes_rest(nx.node));
    assert_int_equal(until_told(&nx, driver.store, put_id(&driver, 2)), MOB_OK);
    nx_close_with(&nx, &driver);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_commit_of_a_put_comes_behind_its_hash),
        cmocka_unit_test(a_put_is_hashed_when_its_putter_has_gone_on),
        cmocka_unit_test(one_that_goes_before_it_is_hashed_hangs_nobody),
        cmocka_unit_test(a_put_whose_hash_was_not_logged_gets_it_from_its_file),
        cmocka_unit_test(a_result_that_is_made_again_has_the_hash_of_the_first),
        cmocka_unit_test(nothing_else_waits),
        cmocka_unit_test(those_beyond_the_queue_get_their_turn),
    };
    return cmocka_run_group_tests_name("node large hashes", tests, NULL, NULL);
}
