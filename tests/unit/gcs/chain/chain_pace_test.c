/* What a source leaves of its time to clients, and clients of theirs to a joiner. */
#include "tests/unit/gcs/chain/join_fixture.h"

/* ---- rests between batches ---- */

/* Who writes meets one batch and not one after the other; where nobody writes the joiner has all of the time.
 */
static void a_source_rests_between_batches_while_clients_write(void **state)
{
    (void)state;
    struct fixture f;
    fixture_source(&f, 0);
    asks_for_batch(&f, 2);
    asks_for_batch(&f, 3);
    assert_int_equal(f.given, 3);
    pass_time(&f, 1000000);
    write_entries(&f, 1);
    asks_for_batch(&f, 4);
    assert_int_equal(f.given, 4);
    assert_int_equal(mob_chain_rests_until(f.chain), INT64_MAX);
    asks_for_batch(&f, 5);
    assert_int_equal(mob_chain_rests_until(f.chain), f.now_ns + MOB_CHAIN_JOIN_REST_NS);
    pass_time(&f, MOB_CHAIN_JOIN_REST_NS / 2);
    asks_for_batch(&f, 5); /* again, as the question may have been lost */
    assert_int_equal(f.given, 4);
    pass_time(&f, MOB_CHAIN_JOIN_REST_NS / 2);
    assert_int_equal(f.given, 5);
    assert_int_equal(mob_chain_rests_until(f.chain), INT64_MAX);
    pass_time(&f, MOB_CHAIN_JOIN_REST_NS);
    assert_int_equal(f.given, 5);
    asks_for_batch(&f, 6); /* nobody wrote meanwhile */
    assert_int_equal(f.given, 6);
    fixture_fini(&f);
}

/* A joiner for which too much would have to be kept begins anew, and clients wait when there is no room for
 * bodies: long before either it is given all of the time. */
static void a_source_that_keeps_much_does_not_rest(void **state)
{
    (void)state;
    static const struct {
        uint64_t bytes_max, entries; /* half of what may be kept for a joiner */
    } cases[] = {{0, MOB_CHAIN_ENTRIES_MAX / 4}, {2000, 1000}}; /* by number; by bytes, one each */
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct fixture f;
        fixture_source(&f, cases[i].bytes_max);
        pass_time_joining(&f, 5000000000ll, 1);
        write_entries(&f, cases[i].entries / 2);
        asks_for_batch(&f, 2);
        asks_for_batch(&f, 3); /* waits for half of the rest */
        assert_int_equal(f.given, 2);
        pass_time(&f, MOB_CHAIN_JOIN_REST_NS / 2);
        assert_int_equal(f.given, 3);
        write_entries(&f, cases[i].entries / 2);
        asks_for_batch(&f, 4);
        asks_for_batch(&f, 5);
        assert_int_equal(f.given, 5);
        fixture_fini(&f);
    }
}

/* Rests that make a snapshot last until its log is too much are worse than none: it begins anew, and again.
 */
static void a_source_of_a_fast_log_does_not_rest(void **state)
{
    (void)state;
    struct fixture f;
    fixture_source(&f, 0);
    pass_time(&f, 1000000);
    write_entries(&f, 50); /* 50,000 a second: there is time for rests */
    asks_for_batch(&f, 2);
    asks_for_batch(&f, 3);
    assert_int_equal(f.given, 2);
    pass_time(&f, MOB_CHAIN_JOIN_REST_NS);
    assert_int_equal(f.given, 3);
    pass_time(&f, 600000);
    write_entries(&f, 70); /* 60,000 */
    asks_for_batch(&f, 4);
    asks_for_batch(&f, 5);
    assert_int_equal(f.given, 5);
    fixture_fini(&f);
}

/* Nor does one rest for a joiner that has begun anew because of it. */
static void a_source_that_gave_a_joiner_up_does_not_rest(void **state)
{
    (void)state;
    struct fixture f;
    fixture_source(&f, 0);
    write_entries(&f, MOB_CHAIN_ENTRIES_MAX / 8 * 7 + 1);
    mob_chain_on_durable(f.chain, mob_chain_applied(f.chain)); /* so it is kept for the joiner only */
    drain(&f);
    tick(&f);
    assert_false(is_joined_by(&f));
    pass_time(&f, 2000000);
    joiner_says(&f, MOB_GCS_JOIN, &(struct mob_gcs_link){.prev = 1});
    assert_true(is_joined_by(&f));
    pass_time(&f, 1000000);
    f.given = 0;
    write_entries(&f, 1);
    asks_for_batch(&f, 2);
    asks_for_batch(&f, 3);
    assert_int_equal(f.given, 2);
    fixture_fini(&f);
}

/* ---- clients ---- */

/* Takes what may be written now; returns how much. */
static uint64_t write_until_paced(struct fixture *f)
{
    uint64_t written = 0;
    for (; !mob_chain_paced(f->chain); written++)
        write_entries(f, 1);
    return written;
}

static void fixture_paced(struct fixture *f, uint64_t kept_bytes_max)
{
    *f = (struct fixture){.tables = mob_state_create(), .now_ns = 1000};
    f->chain = mob_chain_create(&(struct mob_chain_options){.self = TAIL,
        .state = f->tables,
        .join_pace_ns = MOB_CHAIN_JOIN_PACE_NS,
        .kept_bytes_max = kept_bytes_max});
    fixture_config(f);
    assert_int_equal(mob_chain_load_client(f->chain, WRITER, 0), MOB_OK);
    tick(f);
}

static void joins(struct fixture *f)
{
    joiner_says(f, MOB_GCS_JOIN, &(struct mob_gcs_link){.prev = 1});
    assert_true(is_joined_by(f));
}

/* However long a snapshot takes its log is never too much; and nobody is ever stopped for good. */
static void a_log_that_is_kept_for_a_joiner_grows_more_and_more_slowly(void **state)
{
    (void)state;
    struct fixture f;
    fixture_paced(&f, 0);
    assert_false(mob_chain_paced(f.chain));
    joins(&f);
    uint64_t all = write_until_paced(&f), before = UINT64_MAX;
    for (int second = 0; second < 8; second++) {
        pass_time_joining(&f, 1000000000, 1);
        assert_false(mob_chain_paced(f.chain));
        uint64_t more = write_until_paced(&f);
        assert_true(more > 0 && more < before);
        before = more;
        all += more;
    }
    assert_in_range(
        all, MOB_CHAIN_JOIN_LOG_MAX / 100 * 72, MOB_CHAIN_JOIN_LOG_MAX / 100 * 74); /* 8 of 11 s */
    pass_time_joining(&f, 400 * 1000000000ll, 1);
    all += write_until_paced(&f);
    assert_in_range(all, MOB_CHAIN_JOIN_LOG_MAX / 100 * 98, MOB_CHAIN_JOIN_LOG_MAX / 100 * 101);
    assert_true(is_joined_by(&f));
    fixture_fini(&f);
}

/* One writer with one put in flight, 50,000 a second at most, is not what a joiner needs the time of. */
static void who_writes_little_does_not_wait_for_a_joiner(void **state)
{
    (void)state;
    struct fixture f;
    fixture_paced(&f, 0);
    joins(&f);
    for (int i = 0; i < 4 * 4; i++) { /* as long as 512 MiB take */
        pass_time_joining(&f, 250000000, 1);
        write_entries(&f, 12500);
        assert_false(mob_chain_paced(f.chain));
    }
    fixture_fini(&f);
}

/* Bodies have a bound of their own: of what the owner can hold one half, the other waits for its disk. */
static void large_bodies_are_paced_by_their_bytes(void **state)
{
    (void)state;
    struct fixture f;
    fixture_paced(&f, 20480); /* a byte each */
    joins(&f);
    pass_time_joining(&f, MOB_CHAIN_JOIN_PACE_NS, 1);
    uint64_t written = write_until_paced(&f);
    assert_in_range(written, 5120, 5120 + 25);
    fixture_fini(&f);
}

/* The log that it lacks becomes shorter whatever clients do, down to what its master appends it with. */
static void a_joiner_that_takes_the_log_catches_up(void **state)
{
    (void)state;
    struct fixture f;
    fixture_paced(&f, 0);
    joins(&f);
    pass_time_joining(&f, 1000000000, 1);
    write_entries(&f, 50000);
    uint64_t acked = 0, lag = 50000;
    int turns = 0;
    joiner_says(&f, MOB_GCS_JOINED, &(struct mob_gcs_link){.seq = 0});
    for (; lag >= 100 && turns < 1000; turns++) {
        (void)write_until_paced(&f);
        pass_time(&f, 1000000);
        acked += 500;
        if (acked > mob_chain_applied(f.chain))
            acked = mob_chain_applied(f.chain);
        joiner_says(&f, MOB_GCS_JOINED, &(struct mob_gcs_link){.seq = acked, .committed = acked + 1});
        uint64_t joiner, now;
        assert_true(mob_chain_join(f.chain, &joiner, &now));
        assert_true(now <= lag);
        lag = now;
    }
    assert_in_range(turns, 100, 250); /* 50,000 / 500 would do with nobody writing */
    fixture_fini(&f);
}

/* The snapshot is there, and not yet on the joiner's disk, which may take long: who writes is let on as fast
 * as the joiner takes it. */
static void who_writes_does_not_wait_for_the_joiners_disk(void **state)
{
    (void)state;
    struct fixture f;
    fixture_paced(&f, 0);
    joins(&f);
    write_entries(&f, 100);
    joiner_says(&f, MOB_GCS_JOINED, &(struct mob_gcs_link){.seq = 0});
    for (int i = 0; i < 2000; i++) {
        joiner_says(&f, MOB_GCS_JOINED, &(struct mob_gcs_link){.seq = mob_chain_applied(f.chain)});
        assert_true(write_until_paced(&f) > 0);
        pass_time(&f, 1000000);
    }
    fixture_fini(&f);
}

/* Nor for one that is gone. */
static void a_pace_ends_with_its_joiner(void **state)
{
    (void)state;
    struct fixture f;
    fixture_paced(&f, 0);
    joins(&f);
    for (int i = 0; i < 300 && is_joined_by(&f); i++) {
        (void)write_until_paced(&f);
        tick(&f);
    }
    assert_false(is_joined_by(&f));
    assert_false(mob_chain_paced(f.chain));
    fixture_fini(&f);
}

/* It says again and again that it has the snapshot, and hears nothing of the log: in no configuration yet, it
 * must not stop those that are. */
static void a_joiner_that_takes_nothing_holds_nobody_up(void **state)
{
    (void)state;
    struct fixture f;
    fixture_paced(&f, 0);
    joins(&f);
    joiner_says(&f, MOB_GCS_JOINED, &(struct mob_gcs_link){.seq = 0});
    (void)write_until_paced(&f);
    int waited = 0;
    for (int i = 0; i < 1000; i++) {
        pass_time(&f, 1000000);
        joiner_says(&f, MOB_GCS_JOINED, &(struct mob_gcs_link){.seq = 0});
        waited += mob_chain_paced(f.chain);
        write_entries(&f, 1);
    }
    assert_true(is_joined_by(&f));
    assert_in_range(waited, 40, 60);
    joiner_says(&f, MOB_GCS_JOINED, &(struct mob_gcs_link){.seq = 10}); /* now it does */
    assert_true(mob_chain_paced(f.chain));
    fixture_fini(&f);
}

/* Nor must one whose store stands still, though it has the whole log. */
static void a_joiner_whose_store_stands_still_holds_nobody_up(void **state)
{
    (void)state;
    struct fixture f;
    fixture_paced(&f, 0);
    joins(&f);
    joiner_says(&f, MOB_GCS_JOINED, &(struct mob_gcs_link){.seq = 0, .committed = 1});
    int waited = 0;
    for (int i = 0; i < 1000; i++) {
        pass_time(&f, 1000000);
        joiner_says(
            &f, MOB_GCS_JOINED, &(struct mob_gcs_link){.seq = mob_chain_applied(f.chain), .committed = 1});
        waited += mob_chain_paced(f.chain);
        if (!mob_chain_paced(f.chain))
            write_entries(&f, 20);
    }
    assert_in_range(waited, 30, 60);
    fixture_fini(&f);
}

#define HEAD ((3ull << 40) | 1)

/* Clients send to the head; the tail has the joiner. What it says holds for a moment, and it says it again.
 */
static void a_tail_tells_the_members_before_it(void **state)
{
    (void)state;
    struct fixture f = {.tables = mob_state_create(), .now_ns = 1000};
    f.chain = mob_chain_create(
        &(struct mob_chain_options){.self = HEAD, .state = f.tables, .join_pace_ns = MOB_CHAIN_JOIN_PACE_NS});
    mob_chain_on_config(
        f.chain, &(struct mob_gcs_config){.epoch = 1, .term = 1, .count = 2, .members = {HEAD, TAIL}});
    tick(&f);
    struct mob_gcs_link_msg ack = {
        .type = MOB_GCS_ACK, .epoch = 1, .from = TAIL, .link = {.to = HEAD, .prev = 1}};
    for (int i = 0; i < 100; i++) {
        assert_int_equal(mob_chain_on_message(f.chain, &ack, NULL), MOB_FINISHED);
        assert_true(mob_chain_paced(f.chain));
        tick(&f);
        assert_true(mob_chain_paced(f.chain));
    }
    for (int i = 0; i < 10; i++)
        tick(&f);
    assert_false(mob_chain_paced(f.chain));
    assert_int_equal(mob_chain_on_message(f.chain, &ack, NULL), MOB_FINISHED);
    ack.link.prev = 0;
    assert_int_equal(mob_chain_on_message(f.chain, &ack, NULL), MOB_FINISHED);
    assert_false(mob_chain_paced(f.chain));
    fixture_fini(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_source_rests_between_batches_while_clients_write),
        cmocka_unit_test(a_source_that_keeps_much_does_not_rest),
        cmocka_unit_test(a_source_of_a_fast_log_does_not_rest),
        cmocka_unit_test(a_source_that_gave_a_joiner_up_does_not_rest),
        cmocka_unit_test(a_log_that_is_kept_for_a_joiner_grows_more_and_more_slowly),
        cmocka_unit_test(who_writes_little_does_not_wait_for_a_joiner),
        cmocka_unit_test(large_bodies_are_paced_by_their_bytes),
        cmocka_unit_test(a_joiner_that_takes_the_log_catches_up),
        cmocka_unit_test(who_writes_does_not_wait_for_the_joiners_disk),
        cmocka_unit_test(a_pace_ends_with_its_joiner),
        cmocka_unit_test(a_joiner_that_takes_nothing_holds_nobody_up),
        cmocka_unit_test(a_joiner_whose_store_stands_still_holds_nobody_up),
        cmocka_unit_test(a_tail_tells_the_members_before_it),
    };
    return cmocka_run_group_tests_name("chain_pace", tests, NULL, NULL);
}
