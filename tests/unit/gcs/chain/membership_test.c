/* Whom a master leaves out, by what members say and show that they heard. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/base/clock.h"
#include "gcs/chain/chain.h"
#include "gcs/chain/beginning.h"
#include "gcs/chain/membership.h"

#define HEAD 0x1100000001ull
#define TAIL 0x2200000001ull
#define OTHER 0x3300000001ull /* was left out before this configuration */
#define BEAT (SUSPICION / MOB_MEMBERSHIP_BEATS)
#define SUSPICION (12 * MOB_MS)
#define STALL (500 * MOB_MS)

struct fixture {
    struct mob_membership *m;
    int64_t now_ns;
    struct mob_gcs_config installed;
    struct mob_membership_action anew[2]; /* the last two */
    uint32_t anew_count;
};

/* What a member of the first configuration says that works, and has just heard of the master. */
static struct mob_member_report serving(const struct fixture *f, uint64_t member)
{
    return (struct mob_member_report){.member = member,
        .epoch = 1,
        .state = MOB_CHAIN_SERVING,
        .synced = 1,
        .synced_on_disk = 1,
        .sent_ns = f->now_ns,
        .heard_ns = f->now_ns - MOB_MS};
}

/* One heartbeat; `heard_ns`: what it has last heard of the master. */
static void report(struct fixture *f, uint64_t member, int64_t heard_ns)
{
    struct mob_member_report r = serving(f, member);
    r.heard_ns = heard_ns;
    mob_membership_on_report(f->m, &r, true, f->now_ns);
}

static void tick(struct fixture *f)
{
    struct mob_membership_action a;
    mob_membership_on_tick(f->m, f->now_ns);
    while (mob_membership_next(f->m, &a))
        if (a.type == MOB_MEMBERSHIP_INSTALL)
            f->installed = a.config;
        else if (a.type == MOB_MEMBERSHIP_BEGIN_ANEW)
            f->anew[f->anew_count++ % 2] = a;
    f->now_ns += MOB_MS;
}

/* A chain of two that works. */
static void begin(struct fixture *f, bool start_without_all)
{
    mob_membership_destroy(f->m);
    *f = (struct fixture){.now_ns = 5 * MOB_SEC};
    f->m = mob_membership_create(&(struct mob_membership_options){.replicas = 2,
        .suspicion_ns = SUSPICION,
        .lease_ns = 10 * MOB_MS,
        .tick_ns = MOB_MS,
        .tick_slow_ns = 50 * MOB_MS,
        .stall_ns = STALL,
        .reread_ns = MOB_SEC,
        .gather_ns = 10 * MOB_SEC,
        .start_without_all = start_without_all});
    assert_non_null(f->m);
    struct mob_gcs_config config = {.epoch = 1, .term = 1, .count = 2, .members = {HEAD, TAIL}};
    mob_membership_begin(f->m, 1, &config, f->now_ns);
    for (int i = 0; i < 30; i++) {
        report(f, HEAD, f->now_ns - MOB_MS);
        report(f, TAIL, f->now_ns - MOB_MS);
        tick(f);
    }
    assert_int_equal(f->installed.epoch, 0);
}

static int set_up(void **state)
{
    static struct fixture f;
    f.m = NULL;
    begin(&f, false);
    *state = &f;
    return 0;
}

static int tear_down(void **state)
{
    mob_membership_destroy(((struct fixture *)*state)->m);
    return 0;
}

static void who_speaks_and_hears_goes_on(void **state)
{
    struct fixture *f = *state;
    for (int i = 0; i < 100; i++) {
        report(f, HEAD, f->now_ns - 3 * MOB_MS);
        report(f, TAIL, f->now_ns - 5 * MOB_MS);
        tick(f);
    }
    assert_int_equal(f->installed.epoch, 0);
}

static void who_is_silent_is_left_out(void **state)
{
    struct fixture *f = *state;
    for (int i = 0; i < 20; i++) {
        report(f, TAIL, f->now_ns - MOB_MS);
        tick(f);
    }
    assert_int_equal(f->installed.epoch, 2);
    assert_int_equal(f->installed.count, 1);
    assert_int_equal(f->installed.members[0], TAIL);
}

/* Its heartbeats come, but nothing reaches it any more. */
static void who_hears_nothing_is_left_out(void **state)
{
    struct fixture *f = *state;
    int64_t last_heard_ns = f->now_ns - MOB_MS, cut_ns = f->now_ns;
    while (f->installed.epoch == 0 && f->now_ns < cut_ns + 2 * SUSPICION) {
        report(f, HEAD, last_heard_ns);
        report(f, TAIL, f->now_ns - MOB_MS);
        tick(f);
    }
    assert_int_equal(f->installed.epoch, 2);
    assert_int_equal(f->installed.count, 1);
    assert_int_equal(f->installed.members[0], TAIL);
    assert_true(f->now_ns - cut_ns >= SUSPICION);
}

/* A master that was stopped itself finds nobody deaf for what it did not say meanwhile. */
static void a_master_that_slept_leaves_nobody_out(void **state)
{
    struct fixture *f = *state;
    int64_t slept_ns = f->now_ns;
    f->now_ns += MOB_SEC;
    for (int i = 0; i < 30; i++) {
        tick(f);
        report(f, HEAD, i < 2 ? slept_ns : f->now_ns - 2 * MOB_MS);
        report(f, TAIL, i < 2 ? slept_ns : f->now_ns - 2 * MOB_MS);
    }
    assert_int_equal(f->installed.epoch, 0);
}

/* The head is silent, and what the tail says is from before anybody doubted the head: it may have been left
 * out by now itself, by another master. */
static void who_stays_has_answered_something_that_was_sent_since_the_doubt(void **state)
{
    struct fixture *f = *state;
    int64_t silent_ns = f->now_ns, heard_ns = silent_ns + 4 * MOB_MS;
    while (f->now_ns < silent_ns + SUSPICION + 3 * MOB_MS) {
        report(f, TAIL, f->now_ns < heard_ns ? f->now_ns - MOB_MS : heard_ns);
        tick(f);
        assert_int_equal(f->installed.epoch, 0);
    }
    report(f, TAIL, f->now_ns - MOB_MS);
    tick(f);
    assert_int_equal(f->installed.epoch, 2);
    assert_int_equal(f->installed.members[0], TAIL);
}

/* A joiner that serves has all, but not yet on its disk: alone it would lose all with its power. The head
 * stays, though it is silent, until somebody else has it. */
static void nobody_is_left_out_before_one_that_stays_has_it_on_its_disk(void **state)
{
    struct fixture *f = *state;
    int64_t end_ns = f->now_ns + 5 * SUSPICION;
    struct mob_member_report r;
    while (f->now_ns < end_ns) {
        r = serving(f, TAIL);
        r.synced_on_disk = 0;
        mob_membership_on_report(f->m, &r, true, f->now_ns);
        tick(f);
        assert_int_equal(f->installed.epoch, 0);
    }
    report(f, TAIL, f->now_ns - MOB_MS);
    tick(f);
    assert_int_equal(f->installed.epoch, 2);
    assert_int_equal(f->installed.count, 1);
    assert_int_equal(f->installed.members[0], TAIL);
}

/* Everything died, and the head of epoch 1, or the only one of a later one, comes back without a word on its
 * disk that it was synced. */
static struct mob_gcs_config start_from_an_unsynced_store(
    struct fixture *f, const struct mob_gcs_config *last)
{
    begin(f, false);
    mob_membership_begin(f->m, 1, last, f->now_ns);
    f->now_ns += MOB_SEC;
    for (int i = 0; i < 30 && f->installed.epoch == 0; i++) {
        for (uint32_t k = 0; k < last->count; k++) {
            struct mob_member_report r = {.member = last->members[k] + 1,
                .state = MOB_CHAIN_IDLE,
                .stored_seq = 7 - k,
                .sent_ns = f->now_ns,
                .heard_ns = f->now_ns - MOB_MS};
            mob_membership_on_report(f->m, &r, true, f->now_ns);
        }
        tick(f);
    }
    return f->installed;
}

/* The members of the first configuration began with nothing, so each had all; and what a chain was started
 * from is all that there was. Of any other one a store that does not say so may be a part only. */
static void who_had_all_by_definition_starts_the_chain_again(void **state)
{
    struct fixture *f = *state;
    const struct mob_gcs_config first = {.epoch = 1, .term = 1, .count = 2, .members = {HEAD, TAIL}};
    struct mob_gcs_config next = start_from_an_unsynced_store(f, &first);
    assert_int_equal(next.epoch, 2);
    assert_int_equal(next.start, 1);
    assert_int_equal(next.members[0], HEAD + 1);
    const struct mob_gcs_config started = {
        .epoch = 5, .term = 1, .count = 1, .start = 1, .started = 5, .members = {TAIL}};
    next = start_from_an_unsynced_store(f, &started);
    assert_int_equal(next.epoch, 6);
    assert_int_equal(next.start, 1);
    assert_int_equal(next.members[0], TAIL + 1);
    const struct mob_gcs_config later = {.epoch = 6, .term = 1, .count = 1, .started = 5, .members = {TAIL}};
    assert_int_equal(start_from_an_unsynced_store(f, &later).epoch, 0);
}

/* The next life of a member, with a store that was synced up to seq. */
static void report_back_heard(struct fixture *f, uint64_t member, uint64_t seq, int64_t heard_ns)
{
    struct mob_member_report r = {.member = member + 1,
        .epoch = 0,
        .state = MOB_CHAIN_IDLE,
        .stored_epoch = 1,
        .stored_seq = seq,
        .stored_synced = 1,
        .sent_ns = f->now_ns,
        .heard_ns = heard_ns};
    mob_membership_on_report(f->m, &r, true, f->now_ns);
}

static void report_back(struct fixture *f, uint64_t member, uint64_t seq)
{
    report_back_heard(f, member, seq, f->now_ns - MOB_MS);
}

/* A master that was stopped reads what they said before: since then they may have gone on, or have lost
 * their stores. Nor does it count for long what one has heard that hears nothing any more. */
static void who_comes_back_has_answered_something_that_was_sent_since(void **state)
{
    struct fixture *f = *state;
    int64_t slept_ns = f->now_ns - MOB_MS;
    f->now_ns += MOB_SEC;
    for (int i = 0; i < 30; i++) {
        report_back_heard(f, TAIL, 7, slept_ns);
        report_back_heard(f, HEAD, 6, slept_ns);
        tick(f);
        assert_int_equal(f->installed.epoch, 0);
    }
    int64_t heard_ns = f->now_ns - MOB_MS;
    for (int64_t end_ns = f->now_ns + 4 * SUSPICION; f->now_ns < end_ns; tick(f))
        report_back_heard(f, TAIL, 7, heard_ns);
    for (int i = 0; i < 30; i++) {
        report_back_heard(f, TAIL, 7, heard_ns);
        report_back(f, HEAD, 6);
        tick(f);
        assert_int_equal(f->installed.epoch, 0);
    }
    report_back(f, TAIL, 7);
    tick(f);
    assert_int_equal(f->installed.epoch, 2);
    assert_int_equal(f->installed.members[0], TAIL + 1);
}

/* Everything died, and one of two comes back: the other may have more, so only a person can end the wait. */
static void who_does_not_come_back_is_waited_for(void **state)
{
    struct fixture *f = *state;
    f->now_ns += MOB_SEC;
    int64_t died_ns = f->now_ns;
    while (f->installed.epoch == 0 && f->now_ns < died_ns + 30 * MOB_SEC) {
        report_back(f, TAIL, 7);
        tick(f);
    }
    assert_int_equal(f->installed.epoch, 0);
    report_back(f, HEAD, 6);
    for (int i = 0; i < 5; i++) {
        report_back(f, TAIL, 7);
        report_back(f, HEAD, 6);
        tick(f);
    }
    assert_int_equal(f->installed.epoch, 2);
    assert_int_equal(f->installed.start, 1);
    assert_int_equal(f->installed.count, 1);
    assert_int_equal(f->installed.members[0], TAIL + 1);
}

/* Each later configuration says with which one the chain was last started. */
static void the_last_start_is_remembered(void **state)
{
    struct fixture *f = *state;
    f->now_ns += MOB_SEC;
    for (int i = 0; i < 5 && f->installed.epoch == 0; i++) {
        report_back(f, TAIL, 7);
        report_back(f, HEAD, 6);
        tick(f);
    }
    assert_int_equal(f->installed.epoch, 2);
    assert_int_equal(f->installed.started, 2);
    mob_membership_on_installed(f->m, MOB_OK, f->now_ns);
    struct mob_member_report sole = {.member = TAIL + 1,
        .epoch = 2,
        .state = MOB_CHAIN_SERVING,
        .synced = 1,
        .synced_on_disk = 1,
        .joiner = HEAD + 1,
        .joiner_lag = 3};
    struct mob_member_report joiner = {.member = HEAD + 1, .epoch = 2, .state = MOB_CHAIN_JOINING};
    for (int i = 0; i < 30 && f->installed.epoch == 2; i++) {
        sole.sent_ns = joiner.sent_ns = f->now_ns;
        sole.heard_ns = joiner.heard_ns = f->now_ns - MOB_MS;
        mob_membership_on_report(f->m, &joiner, true, f->now_ns);
        mob_membership_on_report(f->m, &sole, true, f->now_ns);
        tick(f);
    }
    assert_int_equal(f->installed.epoch, 3);
    assert_int_equal(f->installed.count, 2);
    assert_int_equal(f->installed.start, 0);
    assert_int_equal(f->installed.started, 2);
    mob_membership_on_installed(f->m, MOB_OK, f->now_ns);
    sole.epoch = 3;
    sole.joiner = 0;
    for (int i = 0; i < 30 && f->installed.epoch == 3; i++) { /* the joiner is silent from now on */
        sole.sent_ns = f->now_ns;
        sole.heard_ns = f->now_ns - MOB_MS;
        mob_membership_on_report(f->m, &sole, true, f->now_ns);
        tick(f);
    }
    assert_int_equal(f->installed.epoch, 4);
    assert_int_equal(f->installed.count, 1);
    assert_int_equal(f->installed.started, 2);
}

/* Nothing is heard just then of the only one of the newest configuration that came back with its store, when
 * the wait is over: another, which had been left out long ago, has less. */
static void who_came_back_is_waited_for_while_it_is_out_of_sight(void **state)
{
    struct fixture *f = *state;
    begin(f, true);
    f->now_ns += MOB_SEC;
    int64_t died_ns = f->now_ns;
    while (f->installed.epoch == 0 && f->now_ns < died_ns + 12 * MOB_SEC) {
        report_back(f, OTHER, 6);
        if (f->now_ns < died_ns + 9 * MOB_SEC)
            report_back(f, TAIL, 7);
        tick(f);
    }
    assert_int_equal(f->installed.epoch, 0);
    for (int i = 0; i < 5; i++) {
        report_back(f, OTHER, 6);
        report_back(f, TAIL, 7);
        tick(f);
    }
    assert_int_equal(f->installed.epoch, 2);
    assert_int_equal(f->installed.members[0], TAIL + 1);
}

/* It is not waited for without an end: its store may be lost since. */
static void who_came_back_and_is_gone_is_not_waited_for_for_ever(void **state)
{
    struct fixture *f = *state;
    begin(f, true);
    f->now_ns += MOB_SEC;
    int64_t died_ns = f->now_ns;
    while (f->installed.epoch == 0 && f->now_ns < died_ns + 30 * MOB_SEC) {
        report_back(f, OTHER, 6);
        if (f->now_ns < died_ns + 9 * MOB_SEC)
            report_back(f, TAIL, 7);
        tick(f);
    }
    assert_int_equal(f->installed.members[0], OTHER + 1);
    assert_in_range(f->now_ns - died_ns, 18 * MOB_SEC, 20 * MOB_SEC);
}

/* Who has said so waits for the time that is given, and no longer. */
static void who_does_not_come_back_is_given_up_when_a_person_says_so(void **state)
{
    struct fixture *f = *state;
    begin(f, true);
    f->now_ns += MOB_SEC;
    int64_t died_ns = f->now_ns;
    while (f->installed.epoch == 0 && f->now_ns < died_ns + 30 * MOB_SEC) {
        report_back(f, TAIL, 7);
        tick(f);
    }
    assert_int_equal(f->installed.epoch, 2);
    assert_int_equal(f->installed.start, 1);
    assert_int_equal(f->installed.started, 2);
    assert_int_equal(f->installed.members[0], TAIL + 1);
    assert_in_range(f->now_ns - died_ns, 10 * MOB_SEC, 11 * MOB_SEC);
}

/* The head is left out, then everything dies, and the tail, all that was left of the chain, comes back with
 * nothing. */
static void only_who_was_left_out_has_a_store(struct fixture *f, bool start_without_all)
{
    begin(f, start_without_all);
    for (int i = 0; i < 20 && f->installed.epoch == 0; i++) {
        report(f, TAIL, f->now_ns - MOB_MS);
        tick(f);
    }
    assert_int_equal(f->installed.epoch, 2);
    mob_membership_on_installed(f->m, MOB_OK, f->now_ns);
    f->now_ns += MOB_SEC;
    struct mob_member_report empty = {.member = TAIL + 1, .state = MOB_CHAIN_IDLE};
    for (int64_t died_ns = f->now_ns; f->installed.epoch == 2 && f->now_ns < died_ns + 30 * MOB_SEC;) {
        empty.sent_ns = f->now_ns;
        empty.heard_ns = f->now_ns - MOB_MS;
        mob_membership_on_report(f->m, &empty, true, f->now_ns);
        report_back(f, HEAD, 6);
        tick(f);
    }
}

/* What was acknowledged after it was left out may be lost with the tail's store: only a person can say so. */
static void who_was_left_out_starts_the_chain_only_when_a_person_says_so(void **state)
{
    struct fixture *f = *state;
    only_who_was_left_out_has_a_store(f, false);
    assert_int_equal(f->installed.epoch, 2);
    only_who_was_left_out_has_a_store(f, true);
    assert_int_equal(f->installed.epoch, 3);
    assert_int_equal(f->installed.start, 1);
    assert_int_equal(f->installed.started, 3);
    assert_int_equal(f->installed.count, 1);
    assert_int_equal(f->installed.members[0], HEAD + 1);
}

static void say(struct fixture *f, uint64_t member, uint32_t state, uint64_t applied)
{
    struct mob_member_report r = serving(f, member);
    r.state = state;
    r.applied = applied;
    mob_membership_on_report(f->m, &r, true, f->now_ns);
}

#define EMPTY(i) ((0x44ull + (i)) << 32 | 1) /* an emptied store has a new name */
#define APPLIED 77

/* Everything dies, and `members` come back with nothing, for 30 s. */
static void nobody_has_a_store(struct fixture *f, bool start_without_all, uint64_t members)
{
    begin(f, start_without_all);
    say(f, TAIL, MOB_CHAIN_SERVING, APPLIED);
    f->now_ns += MOB_SEC;
    struct mob_member_report empty = {.state = MOB_CHAIN_IDLE};
    for (int64_t died_ns = f->now_ns; f->now_ns < died_ns + 30 * MOB_SEC;) {
        empty.sent_ns = f->now_ns;
        empty.heard_ns = f->now_ns - MOB_MS;
        for (uint64_t i = 1; i <= members; i++) {
            empty.member = EMPTY(i);
            mob_membership_on_report(f->m, &empty, true, f->now_ns);
        }
        tick(f);
    }
}

/* Until files are put back nothing begins. */
static void where_nobody_has_a_store_one_is_waited_for(void **state)
{
    struct fixture *f = *state;
    nobody_has_a_store(f, false, 2);
    assert_int_equal(f->installed.epoch, 0);
    assert_int_equal(f->anew_count, 0);
    assert_int_equal(mob_membership_waits(f->m), MOB_MEMBERSHIP_WAITS_FOR_A_STORE);
    for (int i = 0; i < 5 && f->installed.epoch == 0; i++) { /* the files of both are put back */
        report_back(f, TAIL, 7);
        report_back(f, HEAD, 6);
        tick(f);
    }
    assert_int_equal(f->installed.epoch, 2);
    assert_int_equal(f->installed.members[0], TAIL + 1);
}

/* One at a time, always the same, with time to come back; what it comes back with starts the chain, under an
 * epoch behind that of its store. */
static void where_nobody_has_a_store_one_begins_anew_when_a_person_says_so(void **state)
{
    struct fixture *f = *state;
    nobody_has_a_store(f, true, 2);
    assert_int_equal(f->installed.epoch, 0);
    assert_in_range(f->anew_count, 19, 20);
    assert_int_equal(f->anew[0].member, EMPTY(1));
    assert_int_equal(f->anew[1].member, EMPTY(1));
    assert_int_equal(f->anew[0].config.epoch, 1);
    assert_int_equal(f->anew[0].seq, APPLIED);
    struct mob_member_report begun = {.member = EMPTY(1) + 1,
        .state = MOB_CHAIN_IDLE,
        .stored_epoch = 4097,
        .stored_seq = 1ull << 32,
        .stored_synced = 1};
    for (int i = 0; i < 5 && f->installed.epoch == 0; i++) {
        begun.sent_ns = f->now_ns;
        begun.heard_ns = f->now_ns - MOB_MS;
        mob_membership_on_report(f->m, &begun, true, f->now_ns);
        tick(f);
    }
    assert_int_equal(f->installed.epoch, 4098);
    assert_int_equal(f->installed.started, 4098);
    assert_int_equal(f->installed.count, 1);
    assert_int_equal(f->installed.members[0], EMPTY(1) + 1);
}

/* The place of another is empty, and from there its store may come back. */
static void nobody_begins_anew_while_a_member_is_not_here(void **state)
{
    struct fixture *f = *state;
    nobody_has_a_store(f, true, 1);
    assert_int_equal(f->anew_count, 0);
    assert_int_equal(mob_membership_waits(f->m), MOB_MEMBERSHIP_WAITS_FOR_A_STORE);
}

/* Behind the last epoch, all incarnations, and all positions of which anybody knows. */
static void a_beginning_is_behind_everything(void **state)
{
    (void)state;
    struct mob_beginning b = mob_beginning_behind(7, 0, 0);
    assert_int_equal(b.epoch, 7 + MOB_BEGINNING_EPOCHS);
    assert_int_equal(b.seq, 1ull << 32);
    b = mob_beginning_behind(7, 1000 << 8, 5); /* an epoch that gave out those of a thousand */
    assert_true(mob_chain_next_incarnation(0, b.epoch + 1, 0, 1) > (1000 << 8) + (1 << 20));
    b = mob_beginning_behind(7, 0, 1ull << 50);
    assert_int_equal(b.seq, (1ull << 50) + (1ull << 32));
    for (uint64_t epoch = 1, seq = 0, i = 0; i < 100; i++, epoch = b.epoch + 1, seq = b.seq) {
        b = mob_beginning_behind(epoch, 0, 0); /* no database knows of the one before */
        assert_true(b.epoch > epoch && b.seq > seq);
    }
}

/* Each of these says what helps: to put back what others have, or to give it up. */
static void what_is_waited_for_is_told_apart(void **state)
{
    struct fixture *f = *state;
    f->now_ns += MOB_SEC;
    for (int64_t died_ns = f->now_ns; f->now_ns < died_ns + 9 * MOB_SEC;) {
        report_back(f, TAIL, 7);
        tick(f);
    }
    assert_int_equal(mob_membership_waits(f->m), MOB_MEMBERSHIP_WAITS_NOT); /* the other may still come */
    for (int64_t until = f->now_ns + 2 * MOB_SEC; f->now_ns < until;) {
        report_back(f, TAIL, 7);
        tick(f);
    }
    assert_int_equal(mob_membership_waits(f->m), MOB_MEMBERSHIP_WAITS_FOR_OTHERS);
    only_who_was_left_out_has_a_store(f, false);
    assert_int_equal(mob_membership_waits(f->m), MOB_MEMBERSHIP_WAITS_FOR_A_WORD);
}

/* Both are at rest: each says that it will be quiet for 100 ms. */
static void rest(struct fixture *f, uint64_t member)
{
    struct mob_member_report r = serving(f, member);
    r.pause_ns = 100 * MOB_MS;
    mob_membership_on_report(f->m, &r, true, f->now_ns);
}

static void work(struct fixture *f, uint64_t member)
{
    struct mob_member_report r = serving(f, member);
    r.busy = 1;
    mob_membership_on_report(f->m, &r, true, f->now_ns);
}

/* It speaks and hears, and never comes to serve: nothing of its predecessor reaches it. */
static void who_gets_no_further_is_left_out(void **state)
{
    struct fixture *f = *state;
    int64_t began_ns = f->now_ns;
    while (f->installed.epoch == 0 && f->now_ns < began_ns + 2 * STALL) {
        say(f, HEAD, MOB_CHAIN_SERVING, 70);
        say(f, TAIL, MOB_CHAIN_SYNCING, 9);
        tick(f);
    }
    assert_int_equal(f->installed.epoch, 2);
    assert_int_equal(f->installed.count, 1);
    assert_int_equal(f->installed.members[0], HEAD);
    assert_true(f->now_ns - began_ns >= STALL);
}

/* The predecessor died while it was waited for. Its last word, that it serves, counts for nothing then, and
 * who waited is all that is left. */
static void who_waits_for_one_that_died_takes_its_place(void **state)
{
    struct fixture *f = *state;
    int64_t died_ns = f->now_ns + STALL - SUSPICION / 2;
    while (f->installed.epoch == 0 && f->now_ns < died_ns + 3 * STALL) {
        if (f->now_ns < died_ns)
            say(f, HEAD, MOB_CHAIN_SERVING, 70);
        say(f, TAIL, MOB_CHAIN_SYNCING, 9);
        tick(f);
    }
    assert_int_equal(f->installed.epoch, 2);
    assert_int_equal(f->installed.count, 1);
    assert_int_equal(f->installed.members[0], TAIL);
}

/* However slowly it does: each position is one. */
static void who_gets_further_is_waited_for(void **state)
{
    struct fixture *f = *state;
    int64_t end_ns = f->now_ns + 5 * STALL;
    for (uint64_t i = 0; f->now_ns < end_ns; i++) {
        say(f, HEAD, MOB_CHAIN_SERVING, 5000);
        say(f, TAIL, MOB_CHAIN_SYNCING, i / 400);
        tick(f);
    }
    assert_int_equal(f->installed.epoch, 0);
}

/* While nobody writes nothing moves in a chain that serves. */
static void who_serves_does_not_stall(void **state)
{
    struct fixture *f = *state;
    int64_t end_ns = f->now_ns + 3 * STALL;
    while (f->now_ns < end_ns) {
        say(f, HEAD, MOB_CHAIN_SERVING, 70);
        say(f, TAIL, MOB_CHAIN_SERVING, 70);
        tick(f);
    }
    assert_int_equal(f->installed.epoch, 0);
}

/* How often the owner is woken, and the members speak: counted, not timed. */
static void a_chain_at_rest_wakes_nobody_often(void **state)
{
    struct fixture *f = *state;
    uint32_t ticks = 0, answers = 0;
    struct mob_membership_action a;
    int64_t end_ns = f->now_ns + MOB_SEC, next_ns = f->now_ns;
    rest(f, HEAD);
    rest(f, TAIL);
    while (f->now_ns < end_ns) {
        if (f->now_ns == next_ns) {
            next_ns += 100 * MOB_MS;
            rest(f, HEAD);
            rest(f, TAIL);
        }
        mob_membership_on_tick(f->m, f->now_ns);
        ticks++;
        while (mob_membership_next(f->m, &a)) {
            answers += a.type == MOB_MEMBERSHIP_ANSWER;
            assert_int_not_equal(a.type, MOB_MEMBERSHIP_INSTALL);
            assert_int_not_equal(a.type, MOB_MEMBERSHIP_HURRY);
        }
        f->now_ns += mob_membership_pause_ns(f->m);
    }
    assert_in_range(ticks, 1, 25);
    assert_in_range(answers, 20, 24);
}

/* A second of both members' heartbeats at the full rate, read by an owner that waits as long as it may; but
 * the tail's only until `silent_ns`. Returns when the last one of the tail's was read. */
static int64_t run_at_work(struct fixture *f, int64_t silent_ns, uint32_t *ticks_out, uint32_t *answers_out)
{
    struct mob_membership_action a;
    int64_t end_ns = f->now_ns + MOB_SEC, next_ns = f->now_ns, read_ns = 0;
    *ticks_out = *answers_out = 0;
    while (f->now_ns < end_ns && f->installed.epoch == 0) {
        for (; next_ns <= f->now_ns; next_ns += BEAT) {
            work(f, HEAD);
            if (next_ns < silent_ns) {
                work(f, TAIL);
                read_ns = f->now_ns;
            }
        }
        mob_membership_on_tick(f->m, f->now_ns);
        ++*ticks_out;
        while (mob_membership_next(f->m, &a)) {
            *answers_out += a.type == MOB_MEMBERSHIP_ANSWER;
            if (a.type == MOB_MEMBERSHIP_INSTALL)
                f->installed = a.config;
        }
        f->now_ns += mob_membership_pause_ns(f->m);
    }
    return read_ns;
}

static void heartbeats_of_a_chain_at_work_are_read_together(void **state)
{
    struct fixture *f = *state;
    uint32_t ticks, answers;
    run_at_work(f, INT64_MAX, &ticks, &answers);
    assert_int_equal(f->installed.epoch, 0);
    assert_true(mob_membership_even(f->m));
    assert_in_range(ticks, MOB_SEC / BEAT - 2, MOB_SEC / BEAT + 5);
    assert_in_range(answers, MOB_SEC / BEAT - 5, MOB_SEC / BEAT + 8); /* half of them, of two members */
}

/* Reading them together makes nobody live longer than a heartbeat more, nor less long than before. */
static void who_falls_silent_at_work_is_left_out_in_time(void **state)
{
    struct fixture *f = *state;
    uint32_t ticks, answers;
    int64_t silent_ns = f->now_ns + MOB_SEC / 2, read_ns = run_at_work(f, silent_ns, &ticks, &answers);
    assert_int_equal(f->installed.epoch, 2);
    assert_true(f->installed.count == 1 && f->installed.members[0] == HEAD);
    assert_true(read_ns <= silent_ns + BEAT);
    assert_in_range(f->now_ns - MOB_MS - read_ns, SUSPICION, SUSPICION + MOB_MS);
}

static void only_those_who_serve_at_the_full_rate_are_even(void **state)
{
    struct fixture *f = *state;
    work(f, HEAD);
    work(f, TAIL);
    tick(f);
    assert_true(mob_membership_even(f->m));
    rest(f, TAIL);
    assert_false(mob_membership_even(f->m));
    say(f, TAIL, MOB_CHAIN_SYNCING, 5);
    assert_false(mob_membership_even(f->m));
    work(f, TAIL);
    assert_true(mob_membership_even(f->m));
    for (int i = 0; i < 3 * BEAT / MOB_MS; i++) {
        work(f, HEAD);
        tick(f);
    }
    assert_false(mob_membership_even(f->m)); /* two of the tail's are late */
    assert_int_equal(mob_membership_pause_ns(f->m), MOB_MS);
}

/* The tail was told to hurry when the head had something to do, and says nothing: it is found as soon as one
 * that had been busy would be. */
static void who_does_not_hurry_is_left_out_in_a_suspicion(void **state)
{
    struct fixture *f = *state;
    struct mob_membership_action a;
    bool told = false;
    rest(f, HEAD);
    rest(f, TAIL);
    tick(f);
    assert_int_equal(mob_membership_pause_ns(f->m), 50 * MOB_MS);
    f->now_ns += 30 * MOB_MS;
    work(f, HEAD);
    int64_t asked_ns = f->now_ns;
    while (mob_membership_next(f->m, &a))
        if (a.type == MOB_MEMBERSHIP_HURRY) {
            assert_true(a.member == TAIL);
            assert_int_equal(a.heard_ns, asked_ns);
            told = true;
        }
    assert_true(told);
    tick(f);
    assert_int_equal(mob_membership_pause_ns(f->m), MOB_MS);
    while (f->installed.epoch == 0) {
        assert_true(f->now_ns < asked_ns + 2 * SUSPICION);
        work(f, HEAD);
        tick(f);
    }
    assert_true(f->now_ns - MOB_MS >= asked_ns + SUSPICION); /* no sooner, either */
    assert_int_equal(f->installed.count, 1);
    assert_true(f->installed.members[0] == HEAD);
}

/* One at rest whose end of the pause passes is silent a suspicion later, and not before: its lease is over
 * long since. */
static unsigned hurries_told(struct fixture *f, uint64_t member)
{
    unsigned told = 0;
    for (struct mob_membership_action a; mob_membership_next(f->m, &a);)
        told += a.type == MOB_MEMBERSHIP_HURRY && a.member == member;
    return told;
}

/* What tells it may be lost: it gets a second one while there is time to answer. */
static void who_rests_is_told_to_hurry_once_more(void **state)
{
    struct fixture *f = *state;
    rest(f, HEAD);
    rest(f, TAIL);
    tick(f);
    assert_int_equal(mob_membership_pause_ns(f->m), 50 * MOB_MS);
    f->now_ns += 30 * MOB_MS;
    work(f, HEAD);
    assert_int_equal(hurries_told(f, TAIL), 1);
    int64_t asked_ns = f->now_ns, again_ns = 0;
    while (f->now_ns < asked_ns + SUSPICION) {
        work(f, HEAD);
        mob_membership_on_tick(f->m, f->now_ns);
        unsigned told = hurries_told(f, TAIL);
        assert_in_range(told, 0, again_ns == 0);
        again_ns = told > 0 ? f->now_ns : again_ns;
        f->now_ns += MOB_MS;
    }
    assert_in_range(again_ns, asked_ns + SUSPICION / 2, asked_ns + SUSPICION * 3 / 4);
}

static void who_stays_quiet_beyond_its_pause_is_left_out(void **state)
{
    struct fixture *f = *state;
    rest(f, HEAD);
    rest(f, TAIL);
    int64_t spoke_ns = f->now_ns;
    while (f->installed.epoch == 0) {
        assert_true(f->now_ns < spoke_ns + 100 * MOB_MS + 3 * SUSPICION);
        rest(f, HEAD);
        tick(f);
    }
    assert_true(f->now_ns - MOB_MS >= spoke_ns + 100 * MOB_MS + SUSPICION);
    assert_true(f->installed.members[0] == HEAD);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(who_speaks_and_hears_goes_on, set_up, tear_down),
        cmocka_unit_test_setup_teardown(who_is_silent_is_left_out, set_up, tear_down),
        cmocka_unit_test_setup_teardown(who_hears_nothing_is_left_out, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_master_that_slept_leaves_nobody_out, set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            who_stays_has_answered_something_that_was_sent_since_the_doubt, set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            nobody_is_left_out_before_one_that_stays_has_it_on_its_disk, set_up, tear_down),
        cmocka_unit_test_setup_teardown(who_had_all_by_definition_starts_the_chain_again, set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            who_comes_back_has_answered_something_that_was_sent_since, set_up, tear_down),
        cmocka_unit_test_setup_teardown(who_does_not_come_back_is_waited_for, set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            who_does_not_come_back_is_given_up_when_a_person_says_so, set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            who_was_left_out_starts_the_chain_only_when_a_person_says_so, set_up, tear_down),
        cmocka_unit_test_setup_teardown(where_nobody_has_a_store_one_is_waited_for, set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            where_nobody_has_a_store_one_begins_anew_when_a_person_says_so, set_up, tear_down),
        cmocka_unit_test_setup_teardown(nobody_begins_anew_while_a_member_is_not_here, set_up, tear_down),
        cmocka_unit_test(a_beginning_is_behind_everything),
        cmocka_unit_test_setup_teardown(what_is_waited_for_is_told_apart, set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            who_came_back_is_waited_for_while_it_is_out_of_sight, set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            who_came_back_and_is_gone_is_not_waited_for_for_ever, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_last_start_is_remembered, set_up, tear_down),
        cmocka_unit_test_setup_teardown(who_gets_no_further_is_left_out, set_up, tear_down),
        cmocka_unit_test_setup_teardown(who_waits_for_one_that_died_takes_its_place, set_up, tear_down),
        cmocka_unit_test_setup_teardown(who_gets_further_is_waited_for, set_up, tear_down),
        cmocka_unit_test_setup_teardown(who_serves_does_not_stall, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_chain_at_rest_wakes_nobody_often, set_up, tear_down),
        cmocka_unit_test_setup_teardown(heartbeats_of_a_chain_at_work_are_read_together, set_up, tear_down),
        cmocka_unit_test_setup_teardown(who_falls_silent_at_work_is_left_out_in_time, set_up, tear_down),
        cmocka_unit_test_setup_teardown(only_those_who_serve_at_the_full_rate_are_even, set_up, tear_down),
        cmocka_unit_test_setup_teardown(who_rests_is_told_to_hurry_once_more, set_up, tear_down),
        cmocka_unit_test_setup_teardown(who_does_not_hurry_is_left_out_in_a_suspicion, set_up, tear_down),
        cmocka_unit_test_setup_teardown(who_stays_quiet_beyond_its_pause_is_left_out, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
