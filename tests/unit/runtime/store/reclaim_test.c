/* The node takes back empty chunks of clients that go on meanwhile: what others do between any two of its
 * steps. Needs failpoints: skipped in release. */
#include "tests/unit/runtime/store/store_support.h"

enum { SEGMENT_BYTES = 6 << 20, PAYLOAD = 21000, STREAM = 5, FILLER_STREAM = 6 };

struct others {
    struct mob_store_client *owner, *neighbour;
    void (*act)(struct others *);
    uint32_t steps, at; /* of the node, so far; act before this one */
    uint32_t next;
};

static void before_a_step(const struct mob_segment_site *site, void *arg)
{
    struct others *others = arg;
    if (strcmp(site->function, "mob_slab_reclaim") == 0 && ++others->steps == others->at)
        others->act(others);
}

static struct mob_object_id next_id(struct others *others)
{
    return test_id(STREAM, others->next++, 0);
}

static void take_and_abort(struct others *others)
{
    struct mob_object_ref ref;
    assert_status(MOB_OK, test_create(others->owner, next_id(others), PAYLOAD, 1, &ref));
    mob_store_object_abort(others->owner, ref);
}

static void take(struct others *others)
{
    struct mob_object_ref ref;
    assert_status(MOB_OK, test_create(others->owner, next_id(others), PAYLOAD, 2, &ref));
}

static void take_two_chunks_and_abort_the_first(struct others *others)
{
    struct mob_object_ref refs[4];
    for (int i = 0; i < 4; i++)
        assert_status(MOB_OK, test_create(others->owner, next_id(others), PAYLOAD, 3, &refs[i]));
    for (int i = 0; i < 3; i++)
        mob_store_object_abort(others->owner, refs[i]);
}

static void neighbour_finds_no_room(struct others *others)
{
    struct mob_object_ref ref;
    assert_status(MOB_STORE_FULL, test_create(others->neighbour, next_id(others), PAYLOAD, 4, &ref));
}

static void fill(struct mob_store_client *client)
{
    struct mob_object_ref ref;
    void *bytes;
    uint32_t index = 0;
    while (mob_store_object_create(client, test_id(FILLER_STREAM, index, 0), MOB_UNIT_BYTES, &ref, &bytes) ==
        MOB_OK)
        index++;
}

/* The owner's current chunk lies empty; the node looks at it, and `act` happens before its n-th step. */
static void go(void (*act)(struct others *), uint32_t at, bool full)
{
    struct mob_store *store = test_store(SEGMENT_BYTES, NULL, 0);
    uint32_t slots[2] = {test_open(store, MOB_CLIENT_WORKER), test_open(store, MOB_CLIENT_WORKER)};
    struct others others = {.owner = test_attach(store, slots[0]),
        .neighbour = test_attach(store, slots[1]),
        .act = act,
        .at = at};
    take_and_abort(&others);
    if (full)
        fill(others.neighbour);
    mob_segment_set_rival(before_a_step, &others);
    mob_segment_kill_at(UINT64_MAX);
    (void)mob_slab_reclaim(store);
    mob_segment_kill_at(0);
    mob_segment_set_rival(NULL, NULL);
    assert_true(others.steps >= at);
    assert_store_ok(store);
    /* Everyone goes on: no block and no unit is two objects'. */
    struct mob_object_ref ref;
    for (int i = 0; i < 5; i++) {
        (void)test_create(others.owner, next_id(&others), PAYLOAD, 5, &ref);
        (void)test_create(others.neighbour, next_id(&others), PAYLOAD, 6, &ref);
    }
    assert_store_ok(store);
    fill(others.neighbour);
    assert_store_ok(store);
    for (int i = 0; i < 2; i++)
        mob_store_client_ended(store, slots[i]);
    for (int i = 0; i < 2; i++)
        mob_store_client_close(store, slots[i]);
    assert_store_ok(store);
    mob_store_detach(others.owner);
    mob_store_detach(others.neighbour);
    mob_store_destroy(store);
}

static void an_owner_that_takes_and_gives_back_meanwhile_keeps_its_chunk(void **state)
{
    (void)state;
    size_t sites;
    mob_segment_sites(&sites);
    if (sites == 0)
        skip();
    for (uint32_t at = 1; at <= 2; at++) {
        go(take_and_abort, at, false);
        go(take_and_abort, at, true);
        go(take, at, true);
        go(take_two_chunks_and_abort_the_first, at, false);
    }
}

static void nobody_adopts_a_chunk_while_the_node_looks_at_it(void **state)
{
    (void)state;
    size_t sites;
    mob_segment_sites(&sites);
    if (sites == 0)
        skip();
    for (uint32_t at = 1; at <= 2; at++)
        go(neighbour_finds_no_room, at, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_owner_that_takes_and_gives_back_meanwhile_keeps_its_chunk),
        cmocka_unit_test(nobody_adopts_a_chunk_while_the_node_looks_at_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
