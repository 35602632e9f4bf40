/* ctest: threads */
#include "tests/unit/runtime/store/store_support.h"

#include <sched.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/base/clock.h"

static void records_arrive_in_ticket_order_over_all_rings(void **state)
{
    (void)state;
    struct mob_store *store = test_store(4 << 20, NULL, 0);
    struct mob_store_client *clients[3];
    for (int i = 0; i < 3; i++)
        clients[i] = test_attach(store, test_open(store, MOB_CLIENT_WORKER));
    uint32_t published = 0, taken = 0;
    for (int round = 0; round < 200; round++) {
        for (int i = 0; i < 7; i++, published++) {
            struct mob_piece pieces[2] = {{&published, 4}, {&published, 4}};
            assert_status(
                MOB_OK, mob_store_publish(clients[published % 3], MOB_OUT_EVENT, 0, (uint16_t)i, pieces, 2));
        }
        assert_true(mob_store_has_news(store));
        mob_store_pass_begin(store);
        uint32_t slot, damaged;
        struct mob_record record;
        const uint8_t *body;
        while (mob_store_next(store, &slot, &record, &body, &damaged)) {
            uint32_t n;
            memcpy(&n, body, 4);
            assert_int_equal(taken, n);
            assert_int_equal(MOB_OUT_EVENT, record.type);
            assert_int_equal(UINT32_MAX, damaged);
            taken++;
        }
        mob_store_pass_end(store);
        assert_int_equal(published, taken);
        assert_false(mob_store_has_news(store));
    }
    assert_store_ok(store);
    for (int i = 0; i < 3; i++)
        mob_store_detach(clients[i]);
    mob_store_destroy(store);
}

/* Numbers from two rings, in batches of 1 to 5 of one kind; those of another kind, or another ring whose turn
 * it is, end a run. */
static void runs_are_of_one_ring_and_kind_and_lose_no_order(void **state)
{
    (void)state;
    struct mob_store *store = test_store(4 << 20, NULL, 0);
    uint32_t slots[2], published = 0, taken = 0, longest = 0, damaged;
    struct mob_store_client *clients[2];
    for (int i = 0; i < 2; i++) {
        slots[i] = test_open(store, MOB_CLIENT_WORKER);
        clients[i] = test_attach(store, slots[i]);
    }
    for (uint32_t round = 0; round < 3000; round++) {
        for (uint32_t batch = 0; batch < 4; batch++) {
            uint32_t from = (round + batch / (1 + round % 3)) % 2;
            for (uint32_t i = 0; i <= (round + batch) % 5; i++, published++) {
                uint32_t bytes = 8 * (1 + (published / 7) % 3);
                uint8_t *body = mob_store_out_reserve(clients[from], bytes);
                memset(body, 0, bytes);
                memcpy(body, &published, sizeof published);
                mob_store_out_commit(clients[from], MOB_OUT_EVENT, 0, (uint16_t)from, bytes);
            }
        }
        struct mob_store_run run;
        mob_store_pass_begin(store);
        while (mob_store_next_run(store, &run, 1 + round % MOB_STORE_RUN_MAX, &damaged)) {
            uint32_t body_bytes = run.record.bytes - (uint32_t)sizeof run.record;
            assert_in_range(run.count, 1, 1 + round % MOB_STORE_RUN_MAX);
            assert_int_equal(slots[run.record.aux], run.slot);
            assert_int_equal(UINT32_MAX, damaged);
            assert_true(
                run.from + (uint64_t)run.count * run.record.bytes <= mob_store_taken(store, run.slot));
            longest = run.count > longest ? run.count : longest;
            for (uint32_t i = 0; i < run.count; i++, taken++) {
                uint32_t number;
                memcpy(&number, run.bodies + (size_t)i * body_bytes, sizeof number);
                assert_int_equal(taken, number);
                assert_int_equal(8 * (1 + (number / 7) % 3), body_bytes);
            }
        }
        mob_store_pass_end(store);
        assert_int_equal(published, taken);
    }
    assert_true(longest > 4); /* else this has shown little */
    assert_store_ok(store);
    for (int i = 0; i < 2; i++)
        mob_store_detach(clients[i]);
    mob_store_destroy(store);
}

static void a_drivers_ring_is_freed_by_the_acknowledgement_only(void **state)
{
    (void)state;
    struct mob_store *store = test_store(4 << 20, NULL, 0);
    uint32_t slot = test_open(store, MOB_CLIENT_DRIVER), from, damaged;
    struct mob_store_client *client = test_attach(store, slot);
    uint8_t body[1000] = {1};
    struct mob_piece piece = {body, sizeof body};
    int published = 0;
    while (mob_store_publish(client, MOB_OUT_EVENT, 0, 0, &piece, 1) == MOB_OK)
        published++;
    assert_int_equal(8, published);
    struct mob_record record;
    const uint8_t *got;
    mob_store_pass_begin(store);
    for (int i = 0; i < published; i++)
        assert_true(mob_store_next(store, &from, &record, &got, &damaged));
    mob_store_pass_end(store);
    assert_status(MOB_AGAIN, mob_store_publish(client, MOB_OUT_EVENT, 0, 0, &piece, 1));
    uint64_t at = mob_store_out_acked(client);
    int unacked = 0;
    while (mob_store_out_unacked(client, &at, &record, &got))
        unacked++;
    assert_int_equal(published, unacked);
    mob_store_ack(store, slot, mob_store_taken(store, slot));
    assert_status(MOB_OK, mob_store_sleep(client, mob_now() + MOB_SEC, NULL, NULL));
    assert_status(MOB_OK, mob_store_publish(client, MOB_OUT_EVENT, 0, 0, &piece, 1));
    mob_store_detach(client);
    mob_store_destroy(store);
}

static void inbound_records_come_in_order_and_space_comes_back(void **state)
{
    (void)state;
    struct mob_store *store = test_store(4 << 20, NULL, 0);
    uint32_t slot = test_open(store, MOB_CLIENT_WORKER);
    struct mob_store_client *client = test_attach(store, slot);
    for (uint32_t round = 0; round < 500; round++) {
        uint32_t bytes = round % 900;
        assert_true(mob_store_in_room(store, slot, bytes));
        uint8_t *body = mob_store_in_reserve(store, slot, MOB_IN_REPLY, 1, 2, bytes);
        assert_non_null(body);
        memset(body, (int)round, bytes);
        struct mob_record record;
        assert_null(mob_store_in_peek(client, &record));
        mob_store_in_flush(store, slot);
        const uint8_t *got = mob_store_in_peek(client, &record);
        assert_non_null(got);
        for (uint32_t i = 0; i < bytes; i++)
            assert_int_equal((uint8_t)round, got[i]);
        mob_store_in_pop(client);
        mob_store_in_release(client);
    }
    mob_store_detach(client);
    mob_store_destroy(store);
}

static void fill(uint8_t *body, uint32_t bytes, uint32_t seed)
{
    for (uint32_t i = 0; i < bytes; i++)
        body[i] = (uint8_t)(seed * 31 + i * 7 + (i >> 8));
}

static void expect_filled(const uint8_t *body, uint32_t bytes, uint32_t seed)
{
    for (uint32_t i = 0; i < bytes; i++)
        if (body[i] != (uint8_t)(seed * 31 + i * 7 + (i >> 8)))
            fail_msg("byte %u of %u is %u", i, bytes, body[i]);
}

static const uint32_t large_sizes[] = {1, 4079, 4080, 4081, 4096, 20000, 65537, MOB_RECORD_MAX - 16};
enum { LARGE_SIZES = sizeof large_sizes / sizeof *large_sizes };

/* The node's side of a large outbound record: passes until it has come. */
struct large_reader {
    struct mob_store *store;
    _Atomic uint32_t wanted;
    uint32_t got;
    pthread_t thread;
};

static void *read_large(void *arg)
{
    struct large_reader *r = arg;
    while (r->got < r->wanted) {
        uint32_t slot, damaged;
        struct mob_record record;
        const uint8_t *body;
        mob_store_pass_begin(r->store);
        while (mob_store_next(r->store, &slot, &record, &body, &damaged)) {
            assert_int_equal(MOB_OUT_EVENT, record.type);
            assert_int_equal(r->got, record.aux);
            uint32_t bytes;
            memcpy(&bytes, body, sizeof bytes);
            assert_in_range(record.bytes - sizeof record, bytes, bytes + 7);
            if (bytes > sizeof bytes)
                expect_filled(body + sizeof bytes, bytes - (uint32_t)sizeof bytes, r->got);
            r->got++;
        }
        assert_int_equal(UINT32_MAX, damaged);
        mob_store_pass_end(r->store);
        sched_yield();
    }
    return NULL;
}

static void outbound_records_larger_than_the_ring_come_whole(void **state)
{
    (void)state;
    struct mob_store *store = test_store(4 << 20, NULL, 0);
    struct mob_store_client *client = test_attach(store, test_open(store, MOB_CLIENT_WORKER));
    struct large_reader reader = {.store = store, .wanted = 4 * LARGE_SIZES};
    static uint8_t body[MOB_RECORD_MAX];
    assert_int_equal(0, pthread_create(&reader.thread, NULL, read_large, &reader));
    for (uint32_t i = 0; i < reader.wanted;) {
        uint32_t bytes = large_sizes[i % LARGE_SIZES];
        bytes = bytes < 4 ? 4 : bytes;
        memcpy(body, &bytes, sizeof bytes);
        fill(body + sizeof bytes, bytes - (uint32_t)sizeof bytes, i);
        struct mob_piece piece = {body, bytes};
        enum mob_status status = mob_store_publish(client, MOB_OUT_EVENT, 0, (uint16_t)i, &piece, 1);
        if (status == MOB_AGAIN)
            assert_status(MOB_OK, mob_store_sleep(client, mob_now() + 60 * MOB_SEC, NULL, NULL));
        else
            assert_status(MOB_OK, status);
        i += status == MOB_OK;
    }
    pthread_join(reader.thread, NULL);
    assert_int_equal(4 * LARGE_SIZES, reader.got);
    struct mob_piece piece = {body, MOB_RECORD_MAX - 15};
    assert_status(MOB_TOO_LARGE, mob_store_publish(client, MOB_OUT_EVENT, 0, 0, &piece, 1));
    assert_store_ok(store);
    mob_store_detach(client);
    mob_store_destroy(store);
}

static void a_client_that_dies_between_parts_leaves_nothing_of_them(void **state)
{
    (void)state;
    struct mob_store *store = test_store(4 << 20, NULL, 0);
    uint32_t slot = test_open(store, MOB_CLIENT_WORKER), from, damaged;
    struct mob_store_client *client = test_attach(store, slot);
    for (int i = 0; i < 3; i++) { /* parts whose end never comes */
        memset(mob_store_out_reserve(client, 1000), i, 1000);
        mob_store_out_commit(client, MOB_REC_PART, 0, 0, 1000);
    }
    mob_store_detach(client);
    mob_store_client_ended(store, slot);
    struct mob_record record;
    const uint8_t *body;
    mob_store_pass_begin(store);
    assert_false(mob_store_next(store, &from, &record, &body, &damaged));
    mob_store_pass_end(store);
    mob_store_client_close(store, slot);
    assert_int_equal(slot, test_open(store, MOB_CLIENT_WORKER));
    client = test_attach(store, slot); /* the next owner of the slot begins anew */
    struct mob_piece piece = {"end", 3};
    assert_status(MOB_OK, mob_store_publish(client, MOB_OUT_EVENT, 0, 0, &piece, 1));
    mob_store_pass_begin(store);
    assert_true(mob_store_next(store, &from, &record, &body, &damaged));
    assert_int_equal(24, record.bytes);
    assert_memory_equal(body, "end", 3);
    mob_store_pass_end(store);
    for (int i = 0; i < 200; i++) { /* more than a record may have */
        mob_store_pass_begin(store);
        assert_false(mob_store_next(store, &from, &record, &body, &damaged));
        mob_store_pass_end(store);
        if (mob_store_client_damaged(store, slot))
            break;
        memset(mob_store_out_reserve(client, 1000), i, 1000);
        mob_store_out_commit(client, MOB_REC_PART, 0, 0, 1000);
    }
    assert_true(mob_store_client_damaged(store, slot));
    mob_store_client_close(store, slot);
    mob_store_detach(client);
    mob_store_destroy(store);
}

static void inbound_records_larger_than_the_ring_come_whole(void **state)
{
    (void)state;
    struct mob_store *store = test_store(4 << 20, NULL, 0);
    uint32_t slot = test_open(store, MOB_CLIENT_WORKER), sent = 0, got = 0;
    struct mob_store_client *client = test_attach(store, slot);
    while (got < 4 * LARGE_SIZES) {
        for (; sent < 4 * LARGE_SIZES; sent++) { /* as many as there is patience for */
            uint32_t bytes = large_sizes[sent % LARGE_SIZES];
            uint8_t *body = mob_store_in_reserve(store, slot, MOB_IN_REPLY, 3, (uint16_t)sent, bytes);
            if (!body)
                break;
            fill(body, bytes, sent);
        }
        mob_store_in_flush(store, slot);
        struct mob_record record;
        const uint8_t *body;
        while ((body = mob_store_in_peek(client, &record))) {
            uint32_t bytes = large_sizes[got % LARGE_SIZES];
            assert_int_equal(MOB_IN_REPLY, record.type);
            assert_int_equal(3, record.flags);
            assert_int_equal(got, record.aux);
            assert_in_range(record.bytes - sizeof record, bytes, bytes + 7);
            expect_filled(body, bytes, got);
            assert_ptr_equal(body, mob_store_in_peek(client, &record)); /* looking twice takes nothing */
            mob_store_in_pop(client);
            mob_store_in_release(client);
            got++;
        }
        assert_int_equal(got < sent, mob_store_in_backlog(store));
        assert_true(mob_store_in_room(store, slot, 16384) == !mob_store_in_backlog(store));
        mob_store_pass_begin(store);
        mob_store_pass_end(store); /* goes on with what waits */
    }
    assert_null(mob_store_in_reserve(store, slot, MOB_IN_REPLY, 0, 0, MOB_RECORD_MAX));
    assert_false(mob_store_in_backlog(store));
    mob_store_detach(client);
    mob_store_destroy(store);
}

static void what_must_arrive_keeps_its_place(void **state)
{
    (void)state;
    struct mob_store *store = test_store(4 << 20, NULL, 0);
    uint32_t slot = test_open(store, MOB_CLIENT_WORKER), sent = 0, got = 0, more;
    struct mob_store_client *client = test_attach(store, slot);
    while (mob_store_in_reserve(store, slot, MOB_IN_READY, 0, (uint16_t)sent, 100))
        sent++;
    for (more = 0; more < 50; more++)
        assert_non_null(mob_store_in_append(store, slot, MOB_IN_REVOKED, 0, (uint16_t)(sent + more), 0));
    assert_null(mob_store_in_reserve(store, slot, MOB_IN_READY, 0, 0, 8)); /* would overtake */
    while (got < sent + more) {
        mob_store_in_flush(store, slot);
        struct mob_record record;
        while (mob_store_in_peek(client, &record)) {
            assert_int_equal(got, record.aux);
            assert_int_equal(got < sent ? MOB_IN_READY : MOB_IN_REVOKED, record.type);
            mob_store_in_pop(client);
            mob_store_in_release(client);
            got++;
        }
    }
    assert_non_null(mob_store_in_reserve(store, slot, MOB_IN_READY, 0, 0, 8));
    mob_store_detach(client);
    mob_store_destroy(store);
}

static void rings_are_sized_with_the_segment(void **state)
{
    (void)state;
    struct mob_store *store = test_store(64 << 20, NULL, 0);
    struct mob_client_options options = {.kind = MOB_CLIENT_WORKER};
    uint32_t slot, workers = 0;
    while (mob_store_client_open(store, &options, &slot) == MOB_OK)
        workers++;
    assert_in_range(workers, 900, 1024); /* a unit each */
    mob_store_destroy(store);
    store = test_store(64 << 20, NULL, 0);
    options.kind = MOB_CLIENT_DRIVER;
    assert_status(MOB_OK, mob_store_client_open(store, &options, &slot));
    struct mob_store_stats stats;
    mob_store_stats(store, &stats);
    assert_in_range(stats.arena_used_bytes, 512 << 10, 1 << 20);
    mob_store_destroy(store);
}

static void a_sealed_object_is_read_and_an_unsealed_one_is_not(void **state)
{
    (void)state;
    struct mob_store *store = test_store(8 << 20, NULL, 0);
    struct mob_store_client *maker = test_attach(store, test_open(store, MOB_CLIENT_WORKER));
    struct mob_store_client *reader = test_attach(store, test_open(store, MOB_CLIENT_DRIVER));
    static const uint64_t sizes[] = {0, 1, 100, 1024, 5000, 21000, 70000, 1000000};
    for (uint32_t i = 0; i < 8; i++) {
        struct mob_object_id id = test_id(1, i, 0);
        struct mob_object_ref ref;
        assert_status(MOB_NOT_FOUND, test_get(reader, id).status);
        assert_status(MOB_OK, test_create(maker, id, sizes[i], (uint8_t)(i + 1), &ref));
        assert_status(MOB_NOT_READY, test_get(reader, id).status);
        struct mob_object_ref other;
        assert_status(MOB_EXISTS, test_create(reader, id, sizes[i], 99, &other));
        assert_status(MOB_OK, mob_store_object_seal(maker, ref));
        struct test_got got = test_get(reader, id);
        assert_status(MOB_OK, got.status);
        assert_int_equal(MOB_TYPE_BYTES, got.type);
        struct mob_value_view value;
        assert_status(MOB_OK, mob_value_open(got.bytes, got.size, &value));
        assert_int_equal(sizes[i], value.payload_bytes);
        for (uint64_t at = 0; at < sizes[i]; at++)
            assert_int_equal(i + 1, value.payload[at]);
        assert_status(MOB_AGAIN, mob_store_object_delete(store, id));
        mob_store_object_release(reader, got.pin);
        assert_store_ok(store);
    }
    for (uint32_t i = 0; i < 8; i++)
        assert_status(MOB_OK, mob_store_object_delete(store, test_id(1, i, 0)));
    assert_store_ok(store);
    struct mob_store_stats stats;
    mob_store_stats(store, &stats);
    assert_int_equal(0, stats.objects);
    mob_store_detach(maker);
    mob_store_detach(reader);
    mob_store_destroy(store);
}

static void small_values_live_in_the_table(void **state)
{
    (void)state;
    struct mob_store *store = test_store(4 << 20, NULL, 0);
    struct mob_store_client *client = test_attach(store, test_open(store, MOB_CLIENT_WORKER));
    for (uint32_t i = 0; i < 300; i++)
        test_put_i64(client, test_id(2, i, 0), (int64_t)i * 3);
    for (uint32_t i = 0; i < 300; i++) {
        struct test_got got = test_get(client, test_id(2, i, 0));
        assert_status(MOB_OK, got.status);
        int64_t n;
        memcpy(&n, got.small, sizeof n);
        assert_int_equal(i * 3, n);
        assert_int_equal(8, got.size);
        assert_int_equal(UINT32_MAX, got.pin.entry);
    }
    enum mob_value_type type;
    uint8_t small[MOB_OBJECT_INLINE_MAX];
    const void *bytes;
    uint64_t size;
    struct mob_object_ref pin;
    struct mob_object_id id = test_id(2, 5, 0);
    assert_status(MOB_NOT_READY, mob_store_object_get(client, id, true, &type, small, &bytes, &size, &pin));
    mob_store_object_committed(store, id, true);
    assert_status(MOB_OK, mob_store_object_get(client, id, true, &type, small, &bytes, &size, &pin));
    assert_store_ok(store);
    mob_store_detach(client);
    mob_store_destroy(store);
}

static void a_dead_client_leaves_nothing_but_what_it_published(void **state)
{
    (void)state;
    struct mob_store *store = test_store(8 << 20, NULL, 0);
    uint32_t slot = test_open(store, MOB_CLIENT_WORKER);
    struct mob_store_client *client = test_attach(store, slot);
    struct mob_store_client *other = test_attach(store, test_open(store, MOB_CLIENT_WORKER));
    struct mob_object_ref ref;
    test_put(other, test_id(3, 0, 0), 100, 1);
    assert_status(MOB_OK, test_create(client, test_id(3, 1, 0), 300, 1, &ref));
    assert_status(MOB_OK, test_create(client, test_id(3, 2, 0), 300000, 1, &ref));
    assert_status(MOB_OK, test_create(client, test_id(3, 3, 0), 200, 1, &ref)); /* published, not sealed */
    test_put(client, test_id(3, 4, 0), 200, 1);
    assert_status(MOB_OK, test_get(client, test_id(3, 0, 0)).status); /* pinned */
    mob_store_detach(client);
    assert_status(MOB_AGAIN, mob_store_object_delete(store, test_id(3, 0, 0)));
    assert_status(MOB_OK, mob_store_seal_published(store, test_id(3, 3, 0), slot));
    mob_store_client_ended(store, slot);
    mob_store_client_close(store, slot);
    mob_store_client_close(store, slot);
    assert_store_ok(store);
    assert_status(MOB_OK, mob_store_object_delete(store, test_id(3, 0, 0)));
    assert_status(MOB_NOT_FOUND, test_get(other, test_id(3, 1, 0)).status);
    assert_status(MOB_NOT_FOUND, test_get(other, test_id(3, 2, 0)).status);
    assert_status(MOB_OK, test_get(other, test_id(3, 3, 0)).status);
    assert_status(MOB_OK, test_get(other, test_id(3, 4, 0)).status);
    mob_store_detach(other);
    mob_store_destroy(store);
}

static void the_node_makes_and_reads_objects_itself(void **state)
{
    (void)state;
    struct mob_store *store = test_store(4 << 20, NULL, 0);
    struct mob_store_client *client = test_attach(store, test_open(store, MOB_CLIENT_WORKER));
    int64_t n = 42;
    assert_status(MOB_OK, mob_store_object_put(store, test_id(4, 0, 0), MOB_TYPE_I64, true, &n, sizeof n));
    uint64_t size;
    void *value = test_value(3000, 9, &size);
    assert_status(MOB_OK, mob_store_object_put(store, test_id(4, 1, 0), MOB_TYPE_BYTES, false, value, size));
    assert_status(
        MOB_EXISTS, mob_store_object_put(store, test_id(4, 1, 0), MOB_TYPE_BYTES, false, value, size));
    struct test_got got = test_get(client, test_id(4, 1, 0));
    assert_status(MOB_OK, got.status);
    assert_memory_equal(value, got.bytes, size);
    enum mob_value_type type;
    const uint8_t *bytes;
    assert_status(MOB_OK, mob_store_object_bytes(store, test_id(4, 0, 0), false, &type, &bytes, &size));
    assert_int_equal(MOB_TYPE_I64, type);
    assert_memory_equal(&n, bytes, 8);
    free(value);
    assert_store_ok(store);
    mob_store_detach(client);
    mob_store_destroy(store);
}

/* One pass; notes each damaged slot, which may be reported only once. */
static uint32_t pass_with_damage(struct mob_store *store, bool *seen)
{
    uint32_t slot, damaged, records = 0;
    struct mob_record record;
    const uint8_t *body;
    bool more = true;
    mob_store_pass_begin(store);
    while (more) {
        more = mob_store_next(store, &slot, &record, &body, &damaged);
        records += more;
        if (damaged != UINT32_MAX) {
            assert_true(damaged < 4 && !seen[damaged]);
            seen[damaged] = true;
            assert_true(mob_store_client_damaged(store, damaged));
        }
    }
    mob_store_pass_end(store);
    return records;
}

static void a_ring_that_does_not_parse_is_reported_once_and_others_go_on(void **state)
{
    (void)state;
    struct mob_store *store = test_store(4 << 20, NULL, 0);
    uint32_t slots[4];
    struct mob_store_client *clients[4];
    for (int i = 0; i < 4; i++) {
        slots[i] = test_open(store, MOB_CLIENT_WORKER);
        clients[i] = test_attach(store, slots[i]);
    }
    uint8_t body[64] = {0};
    struct mob_piece piece = {body, sizeof body};
    for (int i = 0; i < 4; i++)
        assert_status(MOB_OK, mob_store_publish(clients[i], MOB_OUT_EVENT, 0, 0, &piece, 1));
    struct mob_record bad = {.bytes = 4096, .type = MOB_OUT_EVENT, .ticket = 1};
    memcpy(clients[0]->out.bytes, &bad, sizeof bad); /* longer than what is published */
    MOB_SEG_STORE(&clients[1]->seg_client->out_head, (uint64_t)1 << 40); /* an impossible cursor */
    bad = (struct mob_record){.bytes = 80, .type = MOB_OUT_EVENT, .ticket = 1000};
    memcpy(clients[2]->out.bytes, &bad, sizeof bad); /* a ticket that nobody took */
    bool seen[4] = {false};
    uint32_t taken = 0;
    for (int i = 0; i < 6; i++) {
        taken += pass_with_damage(store, seen);
        if (i == 0) /* the ticket is not wrong until a second pass */
            assert_status(MOB_OK, mob_store_publish(clients[3], MOB_OUT_EVENT, 0, 0, &piece, 1));
    }
    assert_true(seen[0] && seen[1] && seen[2] && !seen[3]);
    assert_int_equal(2, taken);
    for (uint32_t i = 0; i < 3; i++)
        mob_store_client_close(store, i);
    assert_false(mob_store_has_news(store));
    assert_store_ok(store);
    for (int i = 0; i < 4; i++)
        mob_store_detach(clients[i]);
    mob_store_destroy(store);
}

static void a_ticket_counter_that_goes_back_means_a_damaged_segment(void **state)
{
    (void)state;
    struct mob_store *store = test_store(4 << 20, NULL, 0);
    MOB_SEG_STORE(&store->view.seg_header->ticket, 10);
    mob_store_pass_begin(store);
    assert_false(mob_store_damaged(store));
    MOB_SEG_STORE(&store->view.seg_header->ticket, 3);
    mob_store_pass_begin(store);
    assert_true(mob_store_damaged(store));
    assert_non_null(mob_store_check(store));
    mob_store_destroy(store);
}

static void the_segment_cannot_shrink_and_names_its_version(void **state)
{
    (void)state;
    struct mob_store *store = test_store(4 << 20, NULL, 0);
    uint32_t slot = test_open(store, MOB_CLIENT_WORKER);
    assert_int_equal(-1, ftruncate(mob_store_memfd(store), 4096));
    assert_int_equal(-1, ftruncate(mob_store_memfd(store), 1 << 30));
    struct mob_store_client *client = NULL;
    assert_status(MOB_INVALID, mob_store_attach(mob_store_memfd(store), -1, slot + 1, &client));
    assert_status(MOB_INVALID, mob_store_attach(mob_store_memfd(store), -1, 1u << 30, &client));
    uint32_t version = MOB_SEGMENT_VERSION + 1;
    memcpy(store->view.base + offsetof(struct mob_seg_header, version), &version, sizeof version);
    assert_status(MOB_VERSION, mob_store_attach(mob_store_memfd(store), -1, slot, &client));
    assert_null(client);
    mob_store_destroy(store);
}

static struct mob_store *warm_store(uint64_t bytes)
{
    struct mob_store_options options = {
        .struct_size = sizeof options, .segment_bytes = bytes, .prefault = true};
    struct mob_store *store = NULL;
    assert_status(MOB_OK, mob_store_create(&options, &store));
    struct mob_store_stats stats;
    int64_t end = mob_now() + 20 * MOB_SEC;
    do {
        mob_store_stats(store, &stats);
        sched_yield();
    } while (stats.warm_bytes < (uint64_t)store->view.units * MOB_UNIT_BYTES && mob_now() < end);
    assert_int_equal((uint64_t)store->view.units * MOB_UNIT_BYTES, stats.warm_bytes);
    return store;
}

static void the_segment_is_warmed_in_the_background(void **state)
{
    (void)state;
    mob_store_destroy(warm_store(16 << 20));
}

/* KiB of the mapping that begins at `base`, as huge pages of shared memory. */
static unsigned long huge_kib(const void *base)
{
    FILE *smaps = fopen("/proc/self/smaps", "r");
    assert_non_null(smaps);
    char line[512];
    unsigned long begin, end, kib, found = 0;
    bool this_one = false;
    while (fgets(line, sizeof line, smaps)) {
        if (sscanf(line, "%lx-%lx ", &begin, &end) == 2)
            this_one = begin == (uintptr_t)base;
        else if (this_one && sscanf(line, "ShmemPmdMapped: %lu kB", &kib) == 1)
            found = kib;
    }
    fclose(smaps);
    return found;
}

/* Whether this kernel makes a huge page of shared memory when it is asked to. */
static bool kernel_has_huge(void)
{
    enum { HUGE = 2 << 20, COLLAPSE = 25 };
    int fd = memfd_create("probe", MFD_CLOEXEC);
    assert_true(fd >= 0 && ftruncate(fd, HUGE) == 0);
    uint8_t *room = mmap(NULL, 2 * HUGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(MAP_FAILED, room);
    uint8_t *at = room + (HUGE - (uintptr_t)room % HUGE) % HUGE;
    assert_ptr_equal(at, mmap(at, HUGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0));
    *at = 1;
    bool has = madvise(at, HUGE, COLLAPSE) == 0;
    munmap(room, 2 * HUGE);
    close(fd);
    return has;
}

/* In the node and in a client, whose look-ups would mostly wait for page tables otherwise. */
static void a_warm_segment_is_of_huge_pages(void **state)
{
    (void)state;
    if (!kernel_has_huge())
        skip();
    struct mob_store *store = warm_store(16 << 20);
    struct mob_store_client *client = test_attach(store, test_open(store, MOB_CLIENT_WORKER));
    test_put_i64(client, test_id(1, 1, 0), 5);
    assert_ptr_not_equal(store->view.base, client->view.base);
    assert_true(huge_kib(store->view.base) >= 2048);
    /* Who comes while the kernel holds a page's lock gets it in small ones: look at each. */
    for (uint64_t at = 0; at < 16 << 20; at += 2 << 20)
        (void)*(volatile uint8_t *)(client->view.base + at);
#ifndef __SANITIZE_THREAD__ /* whose mappings the kernel fills page by page */
    assert_true(huge_kib(client->view.base) >= 2048);
#endif
    mob_store_detach(client);
    mob_store_destroy(store);
}

/* Close to full, siblings, returns of one task and puts all find their places, and look-ups stay exact. */
static void the_table_holds_mixed_ids_at_its_fill_mark(void **state)
{
    (void)state;
    struct mob_store_options options = {
        .struct_size = sizeof options, .segment_bytes = 8 << 20, .object_entries = 8192};
    struct mob_store *store = NULL;
    assert_status(MOB_OK, mob_store_create(&options, &store));
    struct mob_store_client *client = test_attach(store, test_open(store, MOB_CLIENT_WORKER));
    uint32_t fill = 8192 / 8 * 5, third = fill / 3;
    for (uint32_t i = 0; i < third; i++) {
        test_put_i64(client, test_id(1, i, 0), i);
        test_put_i64(client, test_id(2, 7, i), i);
        test_put_i64(client, test_id(3, i / 4, MOB_SLOT_PUT | (i % 4)), i);
    }
    for (uint32_t i = 0; i < third; i++) {
        assert_status(MOB_OK, test_get(client, test_id(1, i, 0)).status);
        assert_status(MOB_OK, test_get(client, test_id(2, 7, i)).status);
        assert_status(MOB_OK, test_get(client, test_id(3, i / 4, MOB_SLOT_PUT | (i % 4))).status);
        assert_status(MOB_NOT_FOUND, test_get(client, test_id(1, third + i, 0)).status);
        assert_status(MOB_NOT_FOUND, test_get(client, test_id(4, i, 0)).status);
    }
    assert_store_ok(store);
    mob_store_detach(client);
    mob_store_destroy(store);
}

/* Neither the node nor another client's record has anything to do with it yet. */
/* Published, and left for the node to seal or to drop; what it came to neither with goes with its maker. */
static void what_is_left_unsealed_is_the_nodes(void **state)
{
    (void)state;
    static const uint64_t payloads[] = {100, 5000, 200000};
    enum { SEALED, DROPPED, FORGOTTEN, FATES };
    struct mob_store *store = test_store(4 << 20, NULL, 0);
    uint32_t slot = test_open(store, MOB_CLIENT_WORKER), other = test_open(store, MOB_CLIENT_WORKER);
    struct mob_store_client *client = test_attach(store, slot);
    struct mob_object_ref ref;
    struct mob_object_info info;
    int64_t word = 7;
    for (uint32_t fate = 0; fate < FATES; fate++) {
        for (uint32_t i = 0; i < 3; i++)
            assert_status(MOB_OK, test_create(client, test_id(8, fate, i), payloads[i], 1, &ref));
        assert_status(
            MOB_OK, mob_store_put_small(client, test_id(8, fate, 3), MOB_TYPE_I64, &word, sizeof word, &ref));
    }
    for (uint32_t i = 0; i < 4; i++) {
        assert_false(mob_store_drop_published(store, test_id(8, DROPPED, i), other));
        assert_true(mob_store_drop_published(store, test_id(8, DROPPED, i), slot));
        assert_false(mob_store_drop_published(store, test_id(8, DROPPED, i), slot));
        assert_status(MOB_OK, mob_store_seal_published(store, test_id(8, SEALED, i), slot));
        assert_false(mob_store_drop_published(store, test_id(8, SEALED, i), slot));
    }
    assert_store_ok(store);
    mob_store_detach(client);
    mob_store_client_ended(store, slot);
    mob_store_client_close(store, slot);
    for (uint32_t fate = 0; fate < FATES; fate++)
        for (uint32_t i = 0; i < 4; i++)
            assert_int_equal(mob_store_object_info(store, test_id(8, fate, i), &info), fate == SEALED);
    assert_store_ok(store);
    mob_store_destroy(store);
}

static void what_is_being_written_is_left_alone(void **state)
{
    (void)state;
    struct mob_store *store = test_store(8 << 20, NULL, 0);
    uint32_t slot = test_open(store, MOB_CLIENT_WORKER), other = test_open(store, MOB_CLIENT_WORKER);
    struct mob_store_client *client = test_attach(store, slot);
    struct mob_object_id id = test_id(3, 1, 0);
    struct mob_object_ref ref;
    struct mob_object_info info;
    assert_status(MOB_OK, test_create(client, id, 300000, 1, &ref));
    mob_store_object_free(store, id);
    mob_store_object_unwanted(store, id);
    mob_store_object_keep(store, id, true);
    assert_status(MOB_OK, mob_store_seal_published(store, id, other));
    assert_true(mob_store_object_info(store, id, &info));
    assert_false(info.sealed);
    assert_status(MOB_OK, mob_store_seal_published(store, id, slot));
    assert_true(mob_store_object_info(store, id, &info));
    assert_true(info.sealed);
    assert_status(MOB_OK, mob_store_object_delete(store, id)); /* nothing was noted about it */
    mob_store_detach(client);
    mob_store_destroy(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(records_arrive_in_ticket_order_over_all_rings),
        cmocka_unit_test(runs_are_of_one_ring_and_kind_and_lose_no_order),
        cmocka_unit_test(a_drivers_ring_is_freed_by_the_acknowledgement_only),
        cmocka_unit_test(inbound_records_come_in_order_and_space_comes_back),
        cmocka_unit_test(outbound_records_larger_than_the_ring_come_whole),
        cmocka_unit_test(a_client_that_dies_between_parts_leaves_nothing_of_them),
        cmocka_unit_test(inbound_records_larger_than_the_ring_come_whole),
        cmocka_unit_test(what_must_arrive_keeps_its_place),
        cmocka_unit_test(rings_are_sized_with_the_segment),
        cmocka_unit_test(a_sealed_object_is_read_and_an_unsealed_one_is_not),
        cmocka_unit_test(small_values_live_in_the_table),
        cmocka_unit_test(a_dead_client_leaves_nothing_but_what_it_published),
        cmocka_unit_test(what_is_left_unsealed_is_the_nodes),
        cmocka_unit_test(what_is_being_written_is_left_alone),
        cmocka_unit_test(the_node_makes_and_reads_objects_itself),
        cmocka_unit_test(a_ring_that_does_not_parse_is_reported_once_and_others_go_on),
        cmocka_unit_test(a_ticket_counter_that_goes_back_means_a_damaged_segment),
        cmocka_unit_test(the_segment_cannot_shrink_and_names_its_version),
        cmocka_unit_test(the_segment_is_warmed_in_the_background),
        cmocka_unit_test(a_warm_segment_is_of_huge_pages),
        cmocka_unit_test(the_table_holds_mixed_ids_at_its_fill_mark),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
