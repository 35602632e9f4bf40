/* Cursors that the other side cannot have written: whoever meets them says so, and neither waits for ever nor
 * counts what was never acknowledged. */
#include "tests/unit/runtime/store/store_support.h"

#include "common/base/clock.h"

struct pair {
    struct mob_store *store;
    uint32_t slot;
    struct mob_store_client *client;
};

static struct pair pair_of(enum mob_client_kind kind)
{
    struct pair p = {.store = test_store(4 << 20, NULL, 0)};
    p.slot = test_open(p.store, kind);
    p.client = test_attach(p.store, p.slot);
    return p;
}

static void pair_end(struct pair *p)
{
    mob_store_client_close(p->store, p->slot);
    mob_store_detach(p->client);
    mob_store_destroy(p->store);
}

static void publish(struct pair *p)
{
    struct mob_piece piece = {"one", 3};
    assert_status(MOB_OK, mob_store_publish(p->client, MOB_OUT_EVENT, 0, 0, &piece, 1));
}

/* How often it was asked. */
static bool ask(void *count)
{
    return ++*(int *)count < 3;
}

static void a_client_finds_an_impossible_inbound_cursor(void **state)
{
    (void)state;
    struct pair p = pair_of(MOB_CLIENT_DRIVER);
    struct mob_record record;
    assert_null(mob_store_in_peek(p.client, &record));
    assert_false(mob_store_rings_damaged(p.client)); /* empty is not damaged */
    MOB_SEG_STORE(&p.client->seg_client->in_head, 0x1234567890abcdefu);
    assert_null(mob_store_in_peek(p.client, &record));
    assert_true(mob_store_rings_damaged(p.client));
    int asked = 0; /* the cursor looks like news, which must not keep it from asking after the node */
    assert_status(MOB_UNAVAILABLE, mob_store_sleep(p.client, mob_now() + 100 * MOB_SEC, ask, &asked));
    assert_int_equal(asked, 3);
    pair_end(&p);
}

static void a_client_finds_an_inbound_record_that_does_not_parse(void **state)
{
    (void)state;
    struct pair p = pair_of(MOB_CLIENT_WORKER);
    assert_non_null(mob_store_in_append(p.store, p.slot, MOB_IN_READY, 0, 0, 64));
    mob_store_in_flush(p.store, p.slot);
    memset((void *)(uintptr_t)p.client->in.bytes, 0xa5, 80);
    struct mob_record record;
    assert_null(mob_store_in_peek(p.client, &record));
    assert_true(mob_store_rings_damaged(p.client));
    pair_end(&p);
}

static void nothing_counts_as_acknowledged_that_was_not_published(void **state)
{
    (void)state;
    struct pair p = pair_of(MOB_CLIENT_DRIVER);
    publish(&p);
    uint64_t at = mob_store_out_acked(p.client);
    MOB_SEG_STORE(&p.client->seg_client->out_released, mob_store_out_published(p.client) + 8);
    assert_int_equal(mob_store_out_acked(p.client), at);
    struct mob_record record;
    const uint8_t *body;
    assert_true(mob_store_out_unacked(p.client, &at, &record, &body)); /* so it is sent again */
    assert_memory_equal(body, "one", 3);
    pair_end(&p);
}

static void a_full_ring_with_an_impossible_release_is_damaged(void **state)
{
    (void)state;
    struct pair p = pair_of(MOB_CLIENT_DRIVER);
    while (mob_store_out_reserve(p.client, 1000))
        mob_store_out_commit(p.client, MOB_OUT_EVENT, 0, 0, 1000);
    assert_false(mob_store_rings_damaged(p.client)); /* full is not damaged */
    MOB_SEG_STORE(&p.client->seg_client->out_released, UINT64_MAX / 2);
    assert_null(mob_store_out_reserve(p.client, 1000));
    assert_true(mob_store_rings_damaged(p.client));
    pair_end(&p);
}

static void the_node_ends_a_client_that_claims_to_have_read_what_it_was_not_given(void **state)
{
    (void)state;
    struct pair p = pair_of(MOB_CLIENT_WORKER);
    while (mob_store_in_reserve(p.store, p.slot, MOB_IN_READY, 0, 0, 1000))
        mob_store_in_flush(p.store, p.slot);
    assert_false(mob_store_client_damaged(p.store, p.slot));
    MOB_SEG_STORE(&p.client->seg_client->in_released, 0x1234567890abcdefu);
    assert_null(mob_store_in_reserve(p.store, p.slot, MOB_IN_READY, 0, 0, 1000));
    assert_true(mob_store_client_damaged(p.store, p.slot));
    uint32_t from, damaged;
    struct mob_record record;
    const uint8_t *body;
    mob_store_pass_begin(p.store);
    assert_false(mob_store_next(p.store, &from, &record, &body, &damaged));
    assert_int_equal(damaged, p.slot); /* the node is told */
    mob_store_pass_end(p.store);
    pair_end(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_client_finds_an_impossible_inbound_cursor),
        cmocka_unit_test(a_client_finds_an_inbound_record_that_does_not_parse),
        cmocka_unit_test(nothing_counts_as_acknowledged_that_was_not_published),
        cmocka_unit_test(a_full_ring_with_an_impossible_release_is_damaged),
        cmocka_unit_test(the_node_ends_a_client_that_claims_to_have_read_what_it_was_not_given),
    };
    return cmocka_run_group_tests_name("written_over", tests, NULL, NULL);
}
