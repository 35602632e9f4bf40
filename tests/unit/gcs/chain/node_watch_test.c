/* Which incarnations of nodes a master lets live, and in which order it records, seals and gives out. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/clock.h"
#include "gcs/chain/node_watch.h"

#define SILENCE (3 * MOB_SEC)
#define TICK (100 * MOB_MS)

struct fixture {
    struct mob_node_watch *w;
    int64_t now_ns;
    struct mob_node_watch_action got[16];
    uint32_t count;
    bool reads; /* the table is read now and then: for most tests that is nothing */
};

static void begin(struct fixture *f, const struct mob_node_log *logs, uint32_t count)
{
    if (f->w == NULL)
        f->w = mob_node_watch_create(&(struct mob_node_watch_options){
            .silence_ns = SILENCE, .tick_ns = TICK, .end_after_ns = MOB_SEC});
    assert_non_null(f->w);
    mob_node_watch_begin(f->w, logs, count, f->now_ns);
}

static void take(struct fixture *f)
{
    f->count = 0;
    while (mob_node_watch_next(f->w, &f->got[f->count]))
        if (f->reads || f->got[f->count].type != MOB_NODE_WATCH_READ)
            assert_true(++f->count < 16);
}

static void tick(struct fixture *f, int64_t ns)
{
    f->now_ns += ns;
    mob_node_watch_on_tick(f->w, f->now_ns);
    take(f);
}

static const struct mob_node_watch_action *only(struct fixture *f, enum mob_node_watch_action_type type)
{
    take(f);
    if (f->count != 1 || f->got[0].type != type)
        fail_msg("%u actions, the first of type %d, and not one of type %d", f->count, f->got[0].type, type);
    return &f->got[0];
}

static struct mob_node_log node(const char *name, uint64_t start)
{
    struct mob_node_log log = {.start = start, .pid = (int64_t)start + 1000};
    snprintf(log.node, sizeof log.node, "%s", name);
    return log;
}

static struct mob_node_log row(
    const char *name, uint64_t incarnation, enum mob_node_log_state state, uint64_t cut)
{
    struct mob_node_log log = node(name, incarnation + 100);
    log.incarnation = incarnation;
    log.state = state;
    log.cut = cut;
    return log;
}

static void enroll(struct fixture *f, const char *name, uint64_t start, uint64_t token)
{
    struct mob_node_log log = node(name, start);
    assert_int_equal(mob_node_watch_on_enroll(f->w, &log, token, f->now_ns), MOB_OK);
}

static void noted(struct fixture *f, enum mob_status status)
{
    mob_node_watch_on_noted(f->w, status, f->now_ns);
}

static int set_up(void **state)
{
    static struct fixture f;
    f = (struct fixture){.now_ns = 5 * MOB_SEC};
    *state = &f;
    return 0;
}

static int tear_down(void **state)
{
    mob_node_watch_destroy(((struct fixture *)*state)->w);
    return 0;
}

static void a_node_gets_its_incarnation_when_it_is_recorded(void **state)
{
    struct fixture *f = *state;
    begin(f, NULL, 0);
    enroll(f, "a", 7, 1);
    assert_string_equal(only(f, MOB_NODE_WATCH_REGISTER)->log.node, "a");
    mob_node_watch_on_registered(f->w, "a", MOB_OK, 41, f->now_ns);
    const struct mob_node_watch_action *a = only(f, MOB_NODE_WATCH_NOTE);
    assert_int_equal(a->old_state, MOB_NODE_LOG_NONE);
    assert_int_equal(a->log.state, MOB_NODE_LOG_LIVE);
    assert_int_equal(a->log.incarnation, 41);
    enroll(f, "a", 7, 2); /* asked again over another link, before the answer: nothing new is begun */
    take(f);
    assert_int_equal(f->count, 0);
    noted(f, MOB_OK);
    a = only(f, MOB_NODE_WATCH_ENROLLED);
    assert_int_equal(a->status, MOB_OK);
    assert_int_equal(a->token, 2);
    assert_int_equal(a->log.incarnation, 41);
    enroll(f, "a", 7, 3); /* the answer was lost */
    a = only(f, MOB_NODE_WATCH_ENROLLED);
    assert_int_equal(a->log.incarnation, 41);
    assert_false(mob_node_watch_on_beat(f->w, 41, false, f->now_ns));
}

/* Each step is what the one before was answered with. */
static void the_dead_are_recorded_then_sealed_then_recorded_then_replaced(void **state)
{
    struct fixture *f = *state;
    struct mob_gcs_seal seals[MOB_GCS_SEALS_MAX];
    struct mob_node_log live = row("a", 41, MOB_NODE_LOG_LIVE, 0);
    begin(f, &live, 1);
    assert_int_equal(mob_node_watch_seals(f->w, seals), 0);
    mob_node_watch_on_gone(f->w, 41, f->now_ns);
    enroll(f, "a", 8, 1);
    const struct mob_node_watch_action *a = only(f, MOB_NODE_WATCH_NOTE);
    assert_int_equal(a->old_state, MOB_NODE_LOG_LIVE);
    assert_int_equal(a->log.state, MOB_NODE_LOG_DEAD);
    assert_false(mob_node_watch_settled(f->w));
    tick(f, TICK / 4);
    assert_int_equal(f->count, 0); /* nothing is sealed before that is recorded */
    assert_false(mob_node_watch_on_beat(f->w, 41, false, f->now_ns));
    noted(f, MOB_OK);
    assert_true(mob_node_watch_on_beat(f->w, 41, false, f->now_ns));
    assert_int_equal(only(f, MOB_NODE_WATCH_SEAL)->log.incarnation, 41);
    assert_int_equal(mob_node_watch_seals(f->w, seals), 1);
    assert_true(seals[0].incarnation == 41 && seals[0].cut == UINT64_MAX);
    tick(f, TICK);
    assert_int_equal(f->count, 0);
    mob_node_watch_on_cut(f->w, 41, MOB_OK, 12, f->now_ns);
    a = only(f, MOB_NODE_WATCH_NOTE);
    assert_int_equal(a->old_state, MOB_NODE_LOG_DEAD);
    assert_int_equal(a->log.cut, 12);
    assert_int_equal(mob_node_watch_seals(f->w, seals), 1);
    assert_true(seals[0].cut == UINT64_MAX); /* not recorded, so nobody was told */
    tick(f, TICK);
    assert_int_equal(f->count, 0); /* nor is the next one given out before */
    noted(f, MOB_OK);
    only(f, MOB_NODE_WATCH_REGISTER);
    assert_int_equal(mob_node_watch_seals(f->w, seals), 1);
    assert_int_equal(seals[0].cut, 12);
    mob_node_watch_on_registered(f->w, "a", MOB_OK, 42, f->now_ns);
    only(f, MOB_NODE_WATCH_NOTE);
    noted(f, MOB_OK);
    assert_int_equal(only(f, MOB_NODE_WATCH_ENROLLED)->log.incarnation, 42);
}

static void silence_is_death_and_a_beat_is_not(void **state)
{
    struct fixture *f = *state;
    struct mob_node_log rows[] = {row("a", 41, MOB_NODE_LOG_LIVE, 0), row("b", 42, MOB_NODE_LOG_LIVE, 0)};
    begin(f, rows, 2);
    for (int i = 0; i < 29; i++) {
        assert_false(mob_node_watch_on_beat(f->w, 42, false, f->now_ns));
        tick(f, TICK);
        assert_int_equal(f->count, 0);
    }
    mob_node_watch_on_beat(f->w, 42, false, f->now_ns);
    tick(f, TICK);
    assert_int_equal(f->count, 1);
    assert_int_equal(f->got[0].type, MOB_NODE_WATCH_NOTE);
    assert_int_equal(f->got[0].log.incarnation, 41);
    noted(f, MOB_OK);
    only(f, MOB_NODE_WATCH_SEAL);
    mob_node_watch_on_cut(f->w, 41, MOB_OK, 0, f->now_ns);
    only(f, MOB_NODE_WATCH_NOTE);
    noted(f, MOB_OK);
    take(f);
    assert_int_equal(f->count, 0);
    for (int ends = 0; ends < 3;
         ends++) { /* nobody came in its place: its process is ended, again and again */
        for (int i = 0; i < 12; i++) {
            mob_node_watch_on_beat(f->w, 42, false, f->now_ns);
            tick(f, TICK);
            if (f->count > 0)
                break;
        }
        assert_int_equal(f->count, 1);
        assert_int_equal(f->got[0].type, MOB_NODE_WATCH_END);
        assert_int_equal(f->got[0].log.pid, rows[0].pid);
        assert_int_equal(f->got[0].again, ends > 0);
    }
}

/* What was said while the master itself did not run has not been read yet. */
static void a_master_that_was_stopped_blames_nobody(void **state)
{
    struct fixture *f = *state;
    struct mob_node_log live = row("a", 41, MOB_NODE_LOG_LIVE, 0);
    begin(f, &live, 1);
    tick(f, TICK);
    tick(f, 60 * MOB_SEC);
    assert_int_equal(f->count, 0);
    for (int i = 0; i < 27; i++) {
        tick(f, TICK);
        assert_int_equal(f->count, 0);
    }
}

static void who_leaves_is_dead_and_its_process_is_left_alone(void **state)
{
    struct fixture *f = *state;
    struct mob_node_log live = row("a", 41, MOB_NODE_LOG_LIVE, 0);
    begin(f, &live, 1);
    assert_false(mob_node_watch_on_beat(f->w, 41, true, f->now_ns));
    tick(f, TICK);
    assert_int_equal(f->count, 1);
    noted(f, MOB_OK);
    only(f, MOB_NODE_WATCH_SEAL);
    mob_node_watch_on_cut(f->w, 41, MOB_OK, 3, f->now_ns);
    noted(f, MOB_OK);
    take(f);
    for (int i = 0; i < 30; i++) {
        tick(f, TICK);
        assert_int_equal(f->count, 0);
    }
}

/* Whether the table took it is not known: what it says counts. */
static void an_unknown_record_is_read_before_anything_else(void **state)
{
    struct fixture *f = *state;
    struct mob_node_log live = row("a", 41, MOB_NODE_LOG_LIVE, 0), dead = row("a", 41, MOB_NODE_LOG_DEAD, 0);
    f->reads = true;
    begin(f, &live, 1);
    mob_node_watch_on_gone(f->w, 41, f->now_ns);
    enroll(f, "a", 8, 1);
    only(f, MOB_NODE_WATCH_NOTE);
    noted(f, MOB_TIMEOUT);
    tick(f, TICK);
    assert_int_equal(f->count, 1);
    assert_int_equal(f->got[0].type, MOB_NODE_WATCH_READ);
    mob_node_watch_on_logs(f->w, &live, 1, f->now_ns); /* it did not */
    tick(f, TICK);
    assert_int_equal(f->count, 1);
    assert_int_equal(f->got[0].type, MOB_NODE_WATCH_NOTE);
    noted(f, MOB_CONFLICT);
    tick(f, 3 * TICK);
    assert_int_equal(f->got[0].type, MOB_NODE_WATCH_READ);
    mob_node_watch_on_logs(f->w, &dead, 1, f->now_ns); /* it did, or another master */
    tick(f, TICK);
    assert_int_equal(f->count, 1);
    assert_int_equal(f->got[0].type, MOB_NODE_WATCH_SEAL);
}

/* Nobody knows that a record took effect after it had been found missing: it is looked for now and then. */
static void a_record_that_comes_late_is_found(void **state)
{
    struct fixture *f = *state;
    struct mob_node_log live = row("a", 41, MOB_NODE_LOG_LIVE, 0), dead = row("a", 41, MOB_NODE_LOG_DEAD, 0);
    f->reads = true;
    begin(f, &live, 1);
    bool read = false;
    for (int i = 0; i < 15 && !read; i++) {
        assert_false(mob_node_watch_on_beat(f->w, 41, false, f->now_ns));
        tick(f, TICK);
        read = f->count == 1 && f->got[0].type == MOB_NODE_WATCH_READ;
    }
    assert_true(read);
    mob_node_watch_on_logs(f->w, &dead, 1, f->now_ns);
    assert_true(mob_node_watch_on_beat(f->w, 41, false, f->now_ns));
    tick(f, TICK);
    assert_int_equal(f->count, 1);
    assert_int_equal(f->got[0].type, MOB_NODE_WATCH_SEAL);
}

/* The next master finds what the one before left: dead, not sealed. */
static void the_next_master_goes_on_where_the_last_one_stopped(void **state)
{
    struct fixture *f = *state;
    struct mob_node_log dead = row("a", 41, MOB_NODE_LOG_DEAD, 0);
    begin(f, &dead, 1);
    tick(f, TICK);
    assert_int_equal(f->count, 1);
    assert_int_equal(f->got[0].type, MOB_NODE_WATCH_SEAL);
    mob_node_watch_on_cut(f->w, 41, MOB_UNAVAILABLE, 0, f->now_ns);
    tick(f, TICK);
    assert_int_equal(f->got[0].type, MOB_NODE_WATCH_SEAL); /* asked again */
    mob_node_watch_end(f->w);
    mob_node_watch_on_cut(f->w, 41, MOB_OK, 9, f->now_ns); /* it is master no more */
    take(f);
    assert_int_equal(f->count, 0);
    /* a node that enrolled twice over two masters has one incarnation */
    struct mob_node_log rows[] = {dead, row("b", 50, MOB_NODE_LOG_LIVE, 0)};
    begin(f, rows, 2);
    enroll(f, "b", rows[1].start, 5);
    take(f);
    bool answered = false;
    for (uint32_t i = 0; i < f->count; i++)
        answered = answered ||
            (f->got[i].type == MOB_NODE_WATCH_ENROLLED && f->got[i].log.incarnation == 50 &&
                f->got[i].status == MOB_OK);
    assert_true(answered);
    /* and a start that was declared dead gets no second one */
    enroll(f, "a", dead.start, 6);
    take(f);
    bool refused = false;
    for (uint32_t i = 0; i < f->count; i++)
        refused = refused || (f->got[i].type == MOB_NODE_WATCH_ENROLLED && f->got[i].status == MOB_SEALED);
    assert_true(refused);
}

static void the_oldest_sealed_ones_are_forgotten(void **state)
{
    struct fixture *f = *state;
    static struct mob_gcs_seal seals[MOB_GCS_SEALS_MAX];
    begin(f, NULL, 0);
    for (uint64_t i = 0; i < MOB_NODE_LOGS_MAX + 20; i++) {
        mob_node_watch_on_gone(f->w, i, f->now_ns);
        enroll(f, "a", i + 1, 1);
        for (bool done = false; !done;) {
            take(f);
            for (uint32_t k = 0; k < f->count; k++) {
                const struct mob_node_watch_action *a = &f->got[k];
                if (a->type == MOB_NODE_WATCH_NOTE)
                    noted(f, MOB_OK);
                else if (a->type == MOB_NODE_WATCH_SEAL)
                    mob_node_watch_on_cut(f->w, a->log.incarnation, MOB_OK, 1, f->now_ns);
                else if (a->type == MOB_NODE_WATCH_REGISTER)
                    mob_node_watch_on_registered(f->w, "a", MOB_OK, i + 1, f->now_ns);
                else
                    done = true;
            }
            assert_true(f->count > 0);
        }
    }
    assert_int_equal(mob_node_watch_seals(f->w, seals), MOB_NODE_LOGS_MAX - 1);
    uint64_t oldest = UINT64_MAX;
    for (uint32_t i = 0; i < MOB_NODE_LOGS_MAX - 1; i++)
        oldest = seals[i].incarnation < oldest ? seals[i].incarnation : oldest;
    assert_int_equal(oldest, 21);
}

/* Two processes under one name: whichever beats keeps it. */
static void the_second_of_two_that_live_is_refused(void **state)
{
    struct fixture *f = *state;
    struct mob_node_log live = row("a", 41, MOB_NODE_LOG_LIVE, 0);
    begin(f, &live, 1);
    assert_false(mob_node_watch_on_beat(f->w, 41, false, f->now_ns));
    enroll(f, "a", 8, 1);
    tick(f, TICK / 4);
    assert_int_equal(f->count, 0);
    assert_false(mob_node_watch_on_beat(f->w, 41, false, f->now_ns)); /* perhaps sent before it died */
    take(f);
    assert_int_equal(f->count, 0);
    enroll(f, "a", 8, 2); /* asked again */
    tick(f, TICK);
    assert_false(mob_node_watch_on_beat(f->w, 41, false, f->now_ns));
    tick(f, TICK);
    assert_int_equal(f->count, 1);
    assert_int_equal(f->got[0].type, MOB_NODE_WATCH_ENROLLED);
    assert_int_equal(f->got[0].status, MOB_EXISTS);
    assert_int_equal(f->got[0].token, 2);
    assert_int_equal(f->got[0].log.pid, live.pid);
    for (int i = 0; i < 40; i++) { /* nothing of it is left, and the holder is as it was */
        assert_false(mob_node_watch_on_beat(f->w, 41, false, f->now_ns));
        tick(f, TICK);
        assert_int_equal(f->count, 0);
    }
}

/* Everything was killed, and this master has never heard it: it has a while. One that was heard has as long
 * as without a second start. */
static void a_holder_that_does_not_answer_makes_room(void **state)
{
    struct fixture *f = *state;
    struct mob_node_log rows[] = {row("a", 41, MOB_NODE_LOG_LIVE, 0), row("b", 42, MOB_NODE_LOG_LIVE, 0)};
    int64_t died_ns[2] = {0};
    begin(f, rows, 2);
    assert_false(mob_node_watch_on_beat(f->w, 42, false, f->now_ns));
    enroll(f, "a", 8, 1);
    enroll(f, "b", 9, 2);
    int64_t asked_ns = f->now_ns;
    for (int i = 0; i < 40 && died_ns[1] == 0; i++) {
        tick(f, TICK);
        for (uint32_t k = 0; k < f->count; k++)
            if (f->got[k].type == MOB_NODE_WATCH_NOTE && f->got[k].log.state == MOB_NODE_LOG_DEAD) {
                died_ns[f->got[k].log.incarnation - 41] = f->now_ns;
                noted(f, MOB_OK);
            }
    }
    assert_int_equal(died_ns[0] - asked_ns, MOB_NODE_CHALLENGE_NS);
    assert_int_equal(died_ns[1] - asked_ns, SILENCE);
}

/* A closed link is a hint: who beats over another one lives. */
static void a_holder_whose_link_broke_keeps_its_name(void **state)
{
    struct fixture *f = *state;
    struct mob_node_log live = row("a", 41, MOB_NODE_LOG_LIVE, 0);
    begin(f, &live, 1);
    mob_node_watch_on_gone(f->w, 41, f->now_ns);
    tick(f, TICK);
    assert_int_equal(f->count, 0); /* nobody else wants it */
    assert_false(mob_node_watch_on_beat(f->w, 41, false, f->now_ns));
    enroll(f, "a", 8, 1);
    tick(f, TICK);
    assert_false(mob_node_watch_on_beat(f->w, 41, false, f->now_ns));
    tick(f, TICK);
    assert_int_equal(f->count, 1);
    assert_int_equal(f->got[0].status, MOB_EXISTS);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(a_node_gets_its_incarnation_when_it_is_recorded),
        TEST(the_dead_are_recorded_then_sealed_then_recorded_then_replaced),
        TEST(silence_is_death_and_a_beat_is_not),
        TEST(a_master_that_was_stopped_blames_nobody),
        TEST(who_leaves_is_dead_and_its_process_is_left_alone),
        TEST(an_unknown_record_is_read_before_anything_else),
        TEST(a_record_that_comes_late_is_found),
        TEST(the_next_master_goes_on_where_the_last_one_stopped),
        TEST(the_oldest_sealed_ones_are_forgotten),
        TEST(the_second_of_two_that_live_is_refused),
        TEST(a_holder_that_does_not_answer_makes_room),
        TEST(a_holder_whose_link_broke_keeps_its_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
