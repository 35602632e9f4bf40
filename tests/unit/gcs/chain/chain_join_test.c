/* A joiner and what comes late. Everything else of joining: sim/chain. */
#include "tests/unit/gcs/chain/join_fixture.h"

/* The joiner, which has begun to ask it. */
static void fixture_join(struct fixture *f, int64_t stall_ns)
{
    fixture_init(f, stall_ns);
    fixture_config(f);
    mob_chain_on_join(f->chain, 1);
}

/* A batch without rows, from a snapshot that began at `seq`, and more behind it. */
static void give(struct fixture *f, uint64_t batch, uint64_t seq)
{
    uint8_t body[] = {1, 0, 1}; /* length of the cursor, and the cursor */
    struct mob_gcs_link_msg m = {.type = MOB_GCS_SNAPSHOT,
        .epoch = 1,
        .from = TAIL,
        .link = {.to = JOINER, .prev = batch, .seq = seq, .digest = seq * 7, .token = f->asked.link.token},
        .body = body,
        .body_bytes = sizeof body};
    assert_int_equal(mob_chain_on_message(f->chain, &m, NULL), MOB_FINISHED);
    drain(f);
}

static void a_snapshot_that_was_begun_anew_is_taken_from_its_beginning(void **state)
{
    (void)state;
    struct fixture f;
    fixture_join(&f, 0);
    tick(&f);
    assert_int_equal(mob_chain_state(f.chain), MOB_CHAIN_JOINING);
    assert_int_equal(f.asked.link.prev, 1);
    uint64_t token = f.asked.link.token;
    int wipes = f.wipes;
    give(&f, 1, 40);
    assert_int_equal(f.asked.link.prev, 2);
    assert_int_equal(f.asked.link.token, token);
    give(&f, 2, 50);
    assert_int_equal(mob_chain_state(f.chain), MOB_CHAIN_JOINING);
    assert_int_equal(f.wipes, wipes + 1);
    tick(&f);
    assert_int_equal(f.asked.link.prev, 1);
    assert_int_equal(f.asked.link.token, token + 1);
    fixture_fini(&f);
}

/* From the tail, about the log behind a snapshot that began at 40. */
static void say_position(struct fixture *f, uint64_t seq)
{
    struct mob_gcs_link_msg m = {.type = MOB_GCS_POSITION,
        .epoch = 1,
        .from = TAIL,
        .link = {.to = JOINER, .seq = seq, .token = f->asked.link.token}};
    assert_int_equal(mob_chain_on_message(f->chain, &m, NULL), MOB_FINISHED);
    drain(f);
}

#define STALL (50 * MOB_CHAIN_RESEND_NS)

/* Its snapshot is whole and nobody writes: the source says that there is nothing more, and is believed. When
 * it is not heard any more, or speaks of entries that do not come, another life is luckier. */
static void who_waits_for_a_log_that_does_not_come_gives_up(void **state)
{
    (void)state;
    static const uint64_t last_words[] = {0, 41}; /* nothing; what does not come */
    for (size_t i = 0; i < sizeof last_words / sizeof last_words[0]; i++) {
        struct fixture f;
        fixture_join(&f, STALL);
        tick(&f);
        uint8_t no_cursor[2] = {0};
        struct mob_gcs_link_msg whole = {.type = MOB_GCS_SNAPSHOT,
            .epoch = 1,
            .from = TAIL,
            .link = {.to = JOINER, .prev = 1, .seq = 40, .digest = 280, .token = f.asked.link.token},
            .body = no_cursor,
            .body_bytes = sizeof no_cursor};
        assert_int_equal(mob_chain_on_message(f.chain, &whole, NULL), MOB_FINISHED);
        drain(&f);
        assert_int_equal(mob_chain_applied(f.chain), 40);
        for (int k = 0; k < 200; k++) {
            tick(&f);
            if (k % 20 == 0)
                say_position(&f, 40);
            assert_int_equal(mob_chain_state(f.chain), MOB_CHAIN_JOINING);
        }
        int ticks = 0;
        for (; ticks < 100 && mob_chain_state(f.chain) == MOB_CHAIN_JOINING; ticks++) {
            tick(&f);
            if (last_words[i] != 0)
                say_position(&f, last_words[i]);
        }
        assert_int_equal(mob_chain_state(f.chain), MOB_CHAIN_EVICTED);
        assert_int_equal(mob_chain_failure(f.chain), MOB_CHAIN_STALLED);
        assert_in_range(ticks, 30, 50);
        fixture_fini(&f);
    }
}

/* A batch is work for the source, each time that it is asked for: the next one is asked for at once, one that
 * does not come again and again, but less and less often. */
static void a_batch_that_does_not_come_is_asked_for_less_and_less_often(void **state)
{
    (void)state;
    struct fixture f;
    fixture_join(&f, 0);
    for (uint64_t batch = 1; batch <= 3; batch++) {
        f.asks = 0;
        for (int k = 0; k < 200; k++) /* 400 ms */
            tick(&f);
        assert_in_range(f.asks, 10, 17);
        f.asks = 0;
        give(&f, batch, 40);
        assert_int_equal(f.asks, 1);
        assert_int_equal(f.asked.link.prev, batch + 1);
        tick(&f); /* this question may have been lost: at first it is not waited for long */
        assert_int_equal(f.asks, 2);
        give(&f, batch, 40); /* an answer to an earlier question is no news */
        assert_int_equal(f.asks, 2);
    }
    fixture_fini(&f);
}

/* A joiner that had no core finds what its source said meanwhile unread: its own pause is not the source's
 * silence, however often it comes. What counts is what it hears when it looks. */
static void its_own_pause_is_not_the_silence_of_its_source(void **state)
{
    (void)state;
    struct fixture f;
    fixture_join(&f, STALL);
    tick(&f);
    for (uint64_t batch = 1; batch <= 3; batch++) {
        f.now_ns += 2 * STALL;
        tick(&f);
        assert_int_equal(mob_chain_state(f.chain), MOB_CHAIN_JOINING);
        give(&f, batch, 40); /* which had been waiting */
        assert_int_equal(mob_chain_state(f.chain), MOB_CHAIN_JOINING);
        assert_int_equal(f.asked.link.prev, batch + 1);
    }
    int looks = 0;
    for (; looks < 100 && mob_chain_state(f.chain) == MOB_CHAIN_JOINING; looks++)
        tick(&f);
    assert_int_equal(mob_chain_failure(f.chain), MOB_CHAIN_STALLED);
    assert_in_range(looks, 45, 55);
    fixture_fini(&f);
}

/* It pauses again and again, and its source is dead: it sees that in time, counted in its looks. */
static void a_joiner_that_pauses_notices_that_its_source_is_dead(void **state)
{
    (void)state;
    struct fixture f;
    fixture_join(&f, STALL);
    tick(&f);
    int looks = 0;
    for (; looks < 100 && mob_chain_state(f.chain) == MOB_CHAIN_JOINING; looks++) {
        f.now_ns += 2 * STALL;
        tick(&f);
    }
    assert_int_equal(mob_chain_failure(f.chain), MOB_CHAIN_STALLED);
    assert_int_equal(looks, 10);
    fixture_fini(&f);
}

/* A configuration without it is made while it still collects: its own next life was started beside it, as
 * only a person can do. (Members of other stores join behind the one that collects, and cannot push it out.)
 */
static void who_collects_and_is_left_out_ends(void **state)
{
    (void)state;
    struct fixture f;
    fixture_init(&f, 0);
    mob_chain_load_position(f.chain, 4, 40);
    mob_chain_on_config(f.chain,
        &(struct mob_gcs_config){
            .epoch = 5, .term = 1, .count = 1, .start = 1, .started = 5, .members = {JOINER}});
    assert_int_equal(mob_chain_state(f.chain), MOB_CHAIN_COLLECTING);
    mob_chain_on_config(f.chain,
        &(struct mob_gcs_config){
            .epoch = 6, .term = 1, .count = 1, .start = 1, .started = 6, .members = {JOINER + 1}});
    assert_int_equal(mob_chain_state(f.chain), MOB_CHAIN_EVICTED);
    assert_int_equal(mob_chain_failure(f.chain), MOB_CHAIN_LEFT_OUT);
    fixture_fini(&f);
}

static void expect_untouched(struct fixture *f)
{
    drain(f);
    assert_int_equal(mob_chain_state(f->chain), MOB_CHAIN_IDLE);
    assert_int_equal(mob_chain_applied(f->chain), 40);
    assert_int_equal(f->wipes, 0);
}

/* A master that does not know yet what its table holds has an older configuration, in which this one's store
 * is missing, and tells it to join: that would wipe what may be the only copy. */
static void who_took_part_in_an_epoch_does_not_obey_a_join_of_it(void **state)
{
    (void)state;
    struct fixture f;
    fixture_init(&f, 0);
    mob_chain_load_position(f.chain, 4, 40);
    mob_chain_on_config(f.chain,
        &(struct mob_gcs_config){.epoch = 3, .term = 1, .count = 1, .started = 1, .members = {TAIL}});
    mob_chain_on_join(f.chain, 3);
    expect_untouched(&f);
    mob_chain_on_join(f.chain, 4);
    expect_untouched(&f);
    mob_chain_on_config(f.chain,
        &(struct mob_gcs_config){.epoch = 5, .term = 2, .count = 1, .started = 1, .members = {TAIL}});
    mob_chain_on_join(f.chain, 5); /* the chain has gone on without it */
    drain(&f);
    assert_int_equal(mob_chain_state(f.chain), MOB_CHAIN_JOINING);
    assert_int_equal(f.wipes, 1);
    fixture_fini(&f);
}

/* ---- the source ---- */

/* What the source has on its disk, and its joiner has not: nobody else has it. */
static void the_log_is_kept_for_who_was_appended_until_it_serves(void **state)
{
    (void)state;
    struct fixture f;
    fixture_source(&f, 0);
    write_entries(&f, 10);
    mob_chain_on_durable(f.chain, 10);
    drain(&f);
    joiner_says(&f, MOB_GCS_JOINED, &(struct mob_gcs_link){.seq = 4, .committed = 5});
    assert_int_equal(mob_chain_entries(f.chain), 6);
    mob_chain_on_config(
        f.chain, &(struct mob_gcs_config){.epoch = 2, .term = 1, .count = 2, .members = {TAIL, JOINER}});
    drain(&f);
    assert_int_equal(mob_chain_entries(f.chain), 6);
    struct mob_gcs_link_msg says = {
        .type = MOB_GCS_SYNC, .epoch = 2, .from = JOINER, .link = {.to = TAIL, .seq = 4}};
    assert_int_equal(mob_chain_on_message(f.chain, &says, NULL), MOB_FINISHED);
    drain(&f);
    assert_int_equal(f.forwarded, 6);
    assert_int_equal(f.sent_away, 0);
    assert_int_equal(mob_chain_entries(f.chain), 6); /* it may ask again */
    says.type = MOB_GCS_ACK;
    says.link.committed = 10;
    assert_int_equal(mob_chain_on_message(f.chain, &says, NULL), MOB_FINISHED);
    drain(&f);
    assert_int_equal(mob_chain_entries(f.chain), 0);
    fixture_fini(&f);
}

/* A sole member whose disk is slow keeps much of its log for itself. A joiner that keeps up costs nothing;
 * one that makes it keep what is on disk has to begin anew before there is no room for writes. */
static void a_joiner_does_not_answer_for_its_sources_disk(void **state)
{
    (void)state;
    const uint64_t much = MOB_CHAIN_ENTRIES_MAX / 8 * 7 + 1000;
    struct fixture f = {.tables = mob_state_create(), .now_ns = 1000};
    f.chain = mob_chain_create(&(struct mob_chain_options){.self = TAIL, .state = f.tables});
    fixture_config(&f);
    assert_int_equal(mob_chain_load_client(f.chain, WRITER, 0), MOB_OK);
    tick(&f);
    joiner_says(&f, MOB_GCS_JOIN, &(struct mob_gcs_link){.prev = 1});
    joiner_says(&f, MOB_GCS_JOINED, &(struct mob_gcs_link){.seq = 0});
    write_entries(&f, much);
    assert_int_equal(mob_chain_entries(f.chain), much);
    tick(&f);
    assert_true(is_joined_by(&f));
    joiner_says(&f, MOB_GCS_JOINED, &(struct mob_gcs_link){.seq = 100});
    mob_chain_on_durable(f.chain, 101); /* of which the joiner lacks one */
    drain(&f);
    tick(&f);
    assert_false(is_joined_by(&f));
    fixture_fini(&f);
}

/* 512 MiB take two to five seconds, in which one client writes 50,000 a second to a chain of one. */
static void a_snapshot_has_time_for_five_seconds_of_puts(void **state)
{
    (void)state;
    struct fixture f = {.tables = mob_state_create(), .now_ns = 1000};
    f.chain = mob_chain_create(&(struct mob_chain_options){.self = TAIL, .state = f.tables});
    fixture_config(&f);
    assert_int_equal(mob_chain_load_client(f.chain, WRITER, 0), MOB_OK);
    tick(&f);
    joiner_says(&f, MOB_GCS_JOIN, &(struct mob_gcs_link){.prev = 1});
    for (int second = 1; second <= 5; second++) {
        write_entries(&f, 50000);
        mob_chain_on_durable(f.chain, mob_chain_applied(f.chain)); /* so it is kept for the joiner only */
        drain(&f);
        tick(&f);
        assert_true(is_joined_by(&f));
    }
    assert_int_equal(mob_chain_entries(f.chain), 5 * 50000);
    fixture_fini(&f);
}

/* A batch that waited for the end of a rest is not asked for when its joiner is given up in that moment. */
static void a_batch_that_waits_goes_with_its_joiner(void **state)
{
    (void)state;
    const uint8_t of_owner[] = {4, 1, 2, 3};
    struct fixture f;
    fixture_source(&f, 0);
    pass_time(&f, 1000000);
    write_entries(&f, 1);
    asks_for_batch(&f, 2);
    joiner_sends(&f,
        (struct mob_gcs_link_msg){
            .type = MOB_GCS_JOIN, .link = {.prev = 3}, .body = of_owner, .body_bytes = sizeof of_owner});
    write_entries(&f, MOB_CHAIN_ENTRIES_MAX / 8 * 7 + 1);
    mob_chain_on_durable(f.chain, mob_chain_applied(f.chain)); /* so it is kept for the joiner only */
    drain(&f);
    tick(&f);
    assert_false(is_joined_by(&f));
    assert_int_equal(f.rows, 0);
    fixture_fini(&f);
}

/* Few entries are on their way, so that a put does not wait for hundreds; more when the way is so long that
 * the joiner would not get to the end. */
static void the_window_of_the_log_is_as_large_as_it_has_to_be(void **state)
{
    (void)state;
    const uint64_t step = MOB_CHAIN_JOIN_WINDOW_MIN;
    struct fixture f;
    fixture_source(&f, 0);
    write_entries(&f, 8000);
    joiner_says(&f, MOB_GCS_JOINED, &(struct mob_gcs_link){.seq = 0});
    assert_int_equal(f.logged, step);
    uint64_t acked = 0;
    for (int i = 0; i < 100; i++) { /* quick enough: 32 a millisecond, and nobody writes */
        pass_time(&f, 1000000);
        acked += step;
        joiner_says(&f, MOB_GCS_JOINED, &(struct mob_gcs_link){.seq = acked});
        assert_int_equal(f.logged, acked + step);
    }
    uint64_t window = step;
    for (int i = 0; i < 7; i++) { /* two a second: too slow */
        pass_time(&f, 500000000);
        joiner_says(&f, MOB_GCS_JOINED, &(struct mob_gcs_link){.seq = ++acked});
        window = 2 * window < MOB_CHAIN_JOIN_WINDOW_MAX ? 2 * window : MOB_CHAIN_JOIN_WINDOW_MAX;
        assert_int_equal(f.logged, acked + window);
    }
    fixture_fini(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_snapshot_that_was_begun_anew_is_taken_from_its_beginning),
        cmocka_unit_test(who_waits_for_a_log_that_does_not_come_gives_up),
        cmocka_unit_test(a_batch_that_does_not_come_is_asked_for_less_and_less_often),
        cmocka_unit_test(its_own_pause_is_not_the_silence_of_its_source),
        cmocka_unit_test(a_joiner_that_pauses_notices_that_its_source_is_dead),
        cmocka_unit_test(who_collects_and_is_left_out_ends),
        cmocka_unit_test(who_took_part_in_an_epoch_does_not_obey_a_join_of_it),
        cmocka_unit_test(the_log_is_kept_for_who_was_appended_until_it_serves),
        cmocka_unit_test(a_joiner_does_not_answer_for_its_sources_disk),
        cmocka_unit_test(a_snapshot_has_time_for_five_seconds_of_puts),
        cmocka_unit_test(a_batch_that_waits_goes_with_its_joiner),
        cmocka_unit_test(the_window_of_the_log_is_as_large_as_it_has_to_be),
    };
    return cmocka_run_group_tests_name("chain_join", tests, NULL, NULL);
}
