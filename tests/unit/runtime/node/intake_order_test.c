/* What must keep its order though some of it has to be looked up first: a caller's calls to an actor, the
 * log, a client's requests behind its submissions. */
#include "tests/unit/runtime/node/node_fixture.h"

enum { CALLS = 700 }; /* three groups of 256 */

/* ---- calls of a driver that outlived its node ---- */

struct edges {
    struct mob_actor_id actor;
    uint32_t last_index; /* of the call that has the newest edge */
    uint64_t next_position;
    uint32_t count;
};

static void see_edge(void *arg, const struct mob_entry *entry)
{
    struct edges *edges = arg;
    if (entry->type != MOB_ENTRY_EDGE)
        return;
    assert_true(mob_actor_id_eq(entry->edge.actor, edges->actor));
    assert_int_equal(entry->edge.position, edges->next_position++);
    if (edges->count++ > 0)
        assert_int_equal(entry->edge.task.index, edges->last_index + 1);
    edges->last_index = entry->edge.task.index;
}

static void assert_calls_in_order(struct mob_actor_id actor)
{
    struct edges edges = {.actor = actor};
    nx_each_entry(see_edge, &edges);
    assert_int_equal(edges.count, CALLS);
}

/* All answers there are to be, the newest question's first. */
static void answer_backwards(struct nx *nx)
{
    for (int rounds = 0; rounds < 100; rounds++) {
        uint32_t waiting = fake_gcs_reads_waiting(nx->node->gcs);
        for (uint32_t i = waiting; i-- > 0;)
            fake_gcs_answer_read(nx->node->gcs, i);
        nx_turn(nx, 2);
    }
}

/* The node dies when `lost` of its newest blocks are not stored; the driver goes to the next one. */
static void calls_survive(uint32_t lost_of_ten)
{
    struct nx nx;
    struct nx_driver first, again;
    nx_open_with(&nx, 0, &first);
    FAKE.hold_acks = true; /* the driver hears of nothing */
    uint32_t before = FAKE.block_count;
    struct mob_actor_id actor = nx_create(&first);
    for (int i = 0; i < CALLS; i++) {
        nx_call(&first, actor);
        if (i % 20 == 0)
            nx_turn(&nx, 1);
    }
    nx_settle(&nx);
    nx_end(&nx);
    FAKE.hold_acks = false;
    nx_cut((FAKE.block_count - before) * lost_of_ten / 10);
    nx_start(&nx, 0);
    FAKE.hold_reads = true;
    nx_connect(&nx, &again, &first);
    uint32_t sent = nx_resend(&again, &first);
    assert_int_equal(sent, CALLS + 1);
    nx_turn(&nx, 5);
    answer_backwards(&nx);
    assert_int_equal(mob_store_out_acked(again.store), mob_store_out_published(again.store));
    assert_calls_in_order(actor);
    nx_disconnect(&first);
    nx_disconnect(&again);
    nx_close(&nx);
}

static void calls_that_no_log_knows_keep_their_order(void **state)
{
    (void)state;
    calls_survive(10);
}

static void calls_behind_the_cut_keep_their_order(void **state)
{
    (void)state;
    for (uint32_t lost = 0; lost < 10; lost++)
        calls_survive(lost);
}

/* A cut between the spec of a call and its edge: the call is in the log and has no position. */
static void calls_without_an_edge_get_one_in_their_order(void **state)
{
    (void)state;
    static uint8_t block[MOB_BLOCK_BYTES_MAX];
    static struct mob_zone_map zone;
    struct nx nx;
    struct nx_driver driver;
    nx_open_with(&nx, 0, &driver);
    struct mob_actor_id actor = nx_create(&driver);
    for (int i = 0; i < CALLS; i++) {
        nx_call(&driver, actor);
        if (i % 20 == 0)
            nx_turn(&nx, 3);
    }
    nx_settle(&nx);
    nx_end(&nx);
    /* the same blocks without their edges */
    struct mob_block_encoder *encoder = mob_block_encoder_create();
    struct mob_block_decoder *decoder = mob_block_decoder_create();
    for (uint32_t i = 0; i < FAKE.block_count; i++) {
        struct mob_block_header header;
        struct mob_entry e;
        assert_int_equal(
            mob_block_open(decoder, FAKE.blocks[i].bytes, FAKE.blocks[i].length, &header, &zone), MOB_OK);
        mob_block_begin(encoder, &header);
        while (mob_block_next(decoder, &e) == MOB_OK)
            if (e.type == MOB_ENTRY_SPEC)
                assert_int_equal(
                    mob_block_add_spec(encoder, &e.spec.head, e.spec.tail, e.spec.tail_bytes, e.submitted_ns),
                    MOB_OK);
        uint32_t length = mob_block_end(encoder, block);
        FAKE.blocks[i].bytes = realloc(FAKE.blocks[i].bytes, length);
        FAKE.blocks[i].length = length;
        memcpy(FAKE.blocks[i].bytes, block, length);
    }
    mob_block_encoder_destroy(encoder);
    mob_block_decoder_destroy(decoder);
    nx_start(&nx, 0);
    nx_turn(&nx, 20);
    assert_calls_in_order(actor);
    nx_close_with(&nx, &driver);
}

/* ---- what stands behind a submission ---- */

struct seen {
    struct mob_task_id first, second;
    uint32_t specs, completions;
    bool completion_before_spec; /* completion of `first`, spec of `second` */
};

static void see(void *arg, const struct mob_entry *entry)
{
    struct seen *seen = arg;
    if (entry->type == MOB_ENTRY_SPEC && mob_task_id_eq(entry->spec.head.task, seen->second))
        seen->specs++;
    if (entry->type == MOB_ENTRY_COMPLETION && mob_task_id_eq(entry->completion.head.task, seen->first) &&
        (entry->completion.head.flags & MOB_COMPLETION_FINAL)) {
        seen->completions++;
        seen->completion_before_spec |= seen->specs == 0;
    }
}

static bool replied(struct nx_driver *driver, uint32_t request)
{
    struct mob_record record;
    const uint8_t *body;
    bool found = false;
    while ((body = mob_store_in_peek(driver->store, &record)) != NULL) {
        struct mob_in_reply reply;
        memcpy(&reply, body, sizeof reply);
        found |= record.type == MOB_IN_REPLY && reply.request == request;
        mob_store_in_pop(driver->store);
    }
    mob_store_in_release(driver->store);
    return found;
}

static void flush_waits_for_what_is_looked_up(void **state)
{
    (void)state;
    struct nx nx;
    struct nx_driver first, again;
    nx_open_with(&nx, 0, &first);
    nx_turn(&nx, 2);
    struct mob_task_id task = nx_submit(&first); /* nobody took it */
    nx_restart(&nx, 0);
    nx_connect(&nx, &again, &first);
    FAKE.hold_reads = true;
    nx_resend(&again, &first);
    struct mob_out_request flush = {.op = MOB_REQ_FLUSH, .request = 77};
    nx_publish(again.store, MOB_OUT_REQUEST, &flush, sizeof flush, NULL, 0);
    nx_turn(&nx, 10);
    assert_false(replied(&again, 77));
    assert_int_equal(fake_gcs_reads_waiting(nx.node->gcs), 1);
    fake_gcs_answer_read(nx.node->gcs, 0);
    nx_turn(&nx, 10);
    assert_true(replied(&again, 77));
    struct seen seen = {.second = task};
    nx_each_entry(see, &seen);
    assert_int_equal(seen.specs, 1);
    nx_disconnect(&first);
    nx_disconnect(&again);
    nx_close(&nx);
}

/* A task that runs again: its child is looked up, and its end comes behind. Were it logged first, and the
 * node died then, nobody would submit the child any more. */
static void end_of_a_task_stands_behind_its_children(void **state)
{
    (void)state;
    struct nx nx;
    struct nx_driver driver;
    struct nx_worker worker;
    nx_open_with(&nx, 1, &driver);
    struct seen seen = {.first = nx_submit(&driver)};
    assert_true(nx_worker_takes(&nx, &worker));
    nx_kill(&nx, &worker);
    usleep(20000); /* the retry's back-off is real time */
    nx_turn(&nx, 10);
    nx_worker(&nx, &worker);
    assert_true(nx_take_task(&worker));
    assert_int_equal(worker.head.attempt, 2);
    FAKE.hold_reads = true;
    struct mob_spec_head child = nx_head(seen.first, worker.head.job, 0, MOB_KIND_TASK);
    seen.second = child.task;
    nx_spec(worker.store, &child, NULL);
    nx_complete(&worker, 5, MOB_OK);
    nx_turn(&nx, 10);
    nx_each_entry(see, &seen);
    assert_int_equal(seen.specs + seen.completions, 0);
    /* not even when the worker dies: what it published counts, when its turn comes */
    nx_kill(&nx, &worker);
    nx_turn(&nx, 10);
    FAKE.hold_reads = false;
    nx_turn(&nx, 10);
    nx_each_entry(see, &seen);
    assert_int_equal(seen.specs, 1);
    assert_int_equal(seen.completions, 1);
    assert_false(seen.completion_before_spec);
    nx_close_with(&nx, &driver);
}

/* Twice the same submission, from two sessions of one driver: the second was looked up when nothing was known
 * yet, and meanwhile the first has run to its end. */
static void answer_that_is_out_of_date_is_not_used(void **state)
{
    (void)state;
    struct nx nx;
    struct nx_driver first, again, third;
    nx_open_with(&nx, 0, &first);
    first.next = 2;
    nx_restart(&nx, 0);
    nx_connect(&nx, &again, &first);
    nx_connect(&nx, &third, &first);
    FAKE.hold_reads = true;
    struct mob_spec_head head = nx_head(first.welcome.root, first.welcome.job, 0, MOB_KIND_TASK);
    head.function = (struct mob_function_id){{'n', 'o', 'n', 'e'}}; /* it fails when it is submitted */
    nx_spec(again.store, &head, NULL);
    struct mob_spec_head other = nx_head(first.welcome.root, first.welcome.job, 1, MOB_KIND_TASK);
    nx_spec(again.store, &other, NULL);
    nx_spec(third.store, &head, NULL);
    nx_turn(&nx, 5);
    FAKE.hold_reads = false;
    nx_turn(&nx, 20);
    struct seen seen = {.first = head.task, .second = head.task};
    nx_each_entry(see, &seen);
    assert_int_equal(seen.specs, 1);
    assert_int_equal(seen.completions, 1);
    assert_int_equal(mob_store_out_acked(third.store), mob_store_out_published(third.store));
    nx_disconnect(&first);
    nx_disconnect(&again);
    nx_disconnect(&third);
    nx_close(&nx);
}

/* Ids that the driver had not used when it came again are nobody's. */
static void fresh_ids_are_not_looked_up(void **state)
{
    (void)state;
    struct nx nx;
    struct nx_driver first, again;
    nx_open_with(&nx, 0, &first);
    nx_submit(&first);
    nx_restart(&nx, 0);
    nx_connect(&nx, &again, &first);
    nx_turn(&nx, 5);
    uint32_t before = FAKE.reads;
    struct seen seen = {.second = nx_submit(&again)};
    nx_turn(&nx, 5);
    assert_int_equal(FAKE.reads, before);
    nx_each_entry(see, &seen);
    assert_int_equal(seen.specs, 1);
    nx_disconnect(&first);
    nx_disconnect(&again);
    nx_close(&nx);
}

/* A driver that only asks writes nothing into the log, and its ring is given back all the same. */
static void ring_of_a_driver_that_only_asks_is_given_back(void **state)
{
    (void)state;
    struct nx nx;
    struct nx_driver driver;
    nx_open_with(&nx, 0, &driver);
    struct mob_object_id never = {{{{9}}, 0}, 0};
    uint32_t blocks = FAKE.block_count;
    for (int i = 0; i < 100; i++) {
        nx_publish(driver.store, MOB_OUT_RELEASE, &never, sizeof never, NULL, 0);
        nx_turn(&nx, 2);
        assert_int_equal(mob_store_out_acked(driver.store), mob_store_out_published(driver.store));
    }
    assert_int_equal(FAKE.block_count, blocks);
    nx_close_with(&nx, &driver);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls_that_no_log_knows_keep_their_order),
        cmocka_unit_test(calls_behind_the_cut_keep_their_order),
        cmocka_unit_test(calls_without_an_edge_get_one_in_their_order),
        cmocka_unit_test(flush_waits_for_what_is_looked_up),
        cmocka_unit_test(end_of_a_task_stands_behind_its_children),
        cmocka_unit_test(answer_that_is_out_of_date_is_not_used),
        cmocka_unit_test(fresh_ids_are_not_looked_up),
        cmocka_unit_test(ring_of_a_driver_that_only_asks_is_given_back),
    };
    cmocka_set_test_filter(getenv("MOBULA_TEST"));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
