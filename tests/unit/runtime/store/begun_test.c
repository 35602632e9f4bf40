/* A client takes things out of its inbound ring while the node takes back what has not begun: whatever the
 * moment, both agree on which is which. ctest: threads
 */
#include <pthread.h>
#include <sched.h>

#include "common/base/clock.h"

#include "tests/unit/runtime/store/store_support.h"

enum { ROUNDS = 3000, BURST = 24, ITEMS_MAX = ROUNDS * BURST };
enum { ITEM = MOB_IN_SIBLING, TAKEN_BACK = MOB_IN_TAKEN_BACK, END = MOB_IN_STOP };

/* ---- the client's thread ---- */

struct runner {
    struct mob_store_client *client;
    uint32_t ran[ITEMS_MAX], ran_count; /* numbers of items */
    uint32_t waiting[ITEMS_MAX], begin, end; /* read, not begun */
    bool over;
};
static struct runner runner;

static void read_all(struct runner *r)
{
    struct mob_record record;
    const uint8_t *body;
    uint64_t number;
    while ((body = mob_store_in_peek(r->client, &record)) != NULL) {
        if (record.type != END)
            memcpy(&number, body, sizeof number);
        if (record.type == ITEM) {
            r->waiting[r->end++] = (uint32_t)number;
        } else if (record.type == TAKEN_BACK) { /* all behind that number */
            while (r->end > r->begin && r->waiting[r->end - 1] > number)
                r->end--;
        } else {
            r->over = true;
        }
        mob_store_in_pop(r->client);
    }
    mob_store_in_release(r->client);
}

static void *run(void *arg)
{
    struct runner *r = arg;
    while (!r->over || r->begin < r->end) {
        if (r->begin == r->end || !mob_store_in_begin(r->client)) {
            enum mob_status status = mob_store_sleep(r->client, mob_now() + MOB_MS, NULL, NULL);
            (void)status; /* a record, or look again */
            read_all(r);
            continue;
        }
        r->ran[r->ran_count++] = r->waiting[r->begin++];
    }
    return NULL;
}

/* ---- the node's ---- */

static uint32_t given[ITEMS_MAX], given_count; /* and not taken back */

static void give(struct mob_store *store, uint32_t slot, uint8_t type, uint64_t number)
{
    void *body;
    while (!(body = mob_store_in_reserve(store, slot, type, 0, 0, sizeof number)))
        sched_yield();
    memcpy(body, &number, sizeof number);
}

/* Items have numbers from 1 on. */
static void take_back(struct mob_store *store, uint32_t slot)
{
    uint64_t begun, last;
    void *body;
    while (!(body = mob_store_in_halt(store, slot, TAKEN_BACK, sizeof last, &begun)))
        sched_yield();
    assert_true(begun <= given_count);
    given_count = (uint32_t)begun;
    last = begun > 0 ? given[begun - 1] : 0;
    memcpy(body, &last, sizeof last);
    mob_store_in_flush(store, slot);
}

static void both_sides_agree_on_what_has_begun(void **state)
{
    (void)state;
    struct mob_store *store = test_store(4 << 20, NULL, 0);
    uint32_t slot = test_open(store, MOB_CLIENT_WORKER), number = 0, taken = 0;
    runner.client = test_attach(store, slot);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, run, &runner), 0);
    for (uint32_t round = 0; round < ROUNDS; round++) {
        uint32_t burst = 1 + (round * 2654435761u >> 16) % BURST;
        for (uint32_t i = 0; i < burst; i++) {
            give(store, slot, ITEM, ++number);
            given[given_count++] = number;
        }
        mob_store_in_flush(store, slot);
        for (uint32_t i = 0; i < round % 7; i++)
            sched_yield();
        uint32_t before = given_count;
        take_back(store, slot);
        taken += before - given_count;
    }
    give(store, slot, END, 0);
    mob_store_in_flush(store, slot);
    assert_int_equal(pthread_join(thread, NULL), 0);
    print_message("%u items, %u of them taken back\n", number, taken);
    assert_true(taken > 0 && taken < number);
    assert_int_equal(runner.ran_count, given_count);
    for (uint32_t i = 0; i < given_count; i++)
        if (runner.ran[i] != given[i])
            fail_msg("place %u: %u ran, but %u was given", i, runner.ran[i], given[i]);
    mob_store_detach(runner.client);
    mob_store_destroy(store);
}

/* The same words without a second thread: what is not begun yet when the node asks stays not begun until the
 * record was read, however often it is tried. */
static void nothing_begins_before_the_record_is_read(void **state)
{
    (void)state;
    struct mob_store *store = test_store(4 << 20, NULL, 0);
    uint32_t slot = test_open(store, MOB_CLIENT_WORKER);
    struct mob_store_client *client = test_attach(store, slot);
    struct mob_record record;
    uint64_t begun = 99, last = 0;
    give(store, slot, ITEM, 1);
    give(store, slot, ITEM, 2);
    mob_store_in_flush(store, slot);
    assert_true(mob_store_in_begin(client));
    void *body = mob_store_in_halt(store, slot, TAKEN_BACK, sizeof last, &begun);
    assert_non_null(body);
    assert_int_equal(begun, 1);
    memcpy(body, &last, sizeof last);
    assert_false(mob_store_in_begin(client)); /* it is on its way */
    mob_store_in_flush(store, slot);
    for (int i = 0; i < 3; i++) {
        assert_false(mob_store_in_begin(client));
        assert_non_null(mob_store_in_peek(client, &record));
        assert_int_equal(record.type, i < 2 ? ITEM : TAKEN_BACK);
        mob_store_in_pop(client);
    }
    assert_true(mob_store_in_begin(client));
    assert_int_equal(MOB_SEG_LOAD(&store->view.seg_clients[slot].in_begun), 2);
    mob_store_detach(client);
    mob_store_destroy(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_begins_before_the_record_is_read),
        cmocka_unit_test(both_sides_agree_on_what_has_begun),
    };
    return cmocka_run_group_tests_name("runtime/store/begun", tests, NULL, NULL);
}
