/* Life of an actor: which event leads where, what counts as a restart, which positions calls get. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "runtime/actor/life.h"

static struct mob_actor_life life_in(enum mob_actor_state state, int32_t restarts)
{
    struct mob_actor_life life;
    uint64_t from;
    mob_actor_life_init(&life, restarts);
    if (state == MOB_ACTOR_ALIVE || state == MOB_ACTOR_RESTARTING)
        assert_true(mob_actor_life_up(&life, 0));
    if (state == MOB_ACTOR_RESTARTING)
        assert_true(mob_actor_life_down(&life, true, 0, &from));
    if (state == MOB_ACTOR_DEAD)
        mob_actor_life_end(&life, MOB_CANCELLED);
    assert_int_equal(life.state, state);
    return life;
}

enum event { UP, DOWN, END, CALL };
struct row {
    enum mob_actor_state from;
    enum event event;
    bool result; /* of up and down; a call is accepted */
    enum mob_actor_state to;
};

static void each_event_leads_where_the_table_says(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {MOB_ACTOR_PENDING, UP, true, MOB_ACTOR_ALIVE},
        {MOB_ACTOR_PENDING, DOWN, true, MOB_ACTOR_RESTARTING},
        {MOB_ACTOR_PENDING, END, false, MOB_ACTOR_DEAD},
        {MOB_ACTOR_PENDING, CALL, true, MOB_ACTOR_PENDING},
        {MOB_ACTOR_ALIVE, UP, false, MOB_ACTOR_ALIVE},
        {MOB_ACTOR_ALIVE, DOWN, true, MOB_ACTOR_RESTARTING},
        {MOB_ACTOR_ALIVE, END, false, MOB_ACTOR_DEAD},
        {MOB_ACTOR_ALIVE, CALL, true, MOB_ACTOR_ALIVE},
        {MOB_ACTOR_RESTARTING, UP, true, MOB_ACTOR_ALIVE},
        {MOB_ACTOR_RESTARTING, DOWN, true, MOB_ACTOR_RESTARTING},
        {MOB_ACTOR_RESTARTING, END, false, MOB_ACTOR_DEAD},
        {MOB_ACTOR_RESTARTING, CALL, true, MOB_ACTOR_RESTARTING},
        {MOB_ACTOR_DEAD, UP, false, MOB_ACTOR_DEAD},
        {MOB_ACTOR_DEAD, DOWN, false, MOB_ACTOR_DEAD},
        {MOB_ACTOR_DEAD, END, false, MOB_ACTOR_DEAD},
        {MOB_ACTOR_DEAD, CALL, false, MOB_ACTOR_DEAD},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct mob_actor_life life = life_in(rows[i].from, -1);
        uint64_t number;
        bool result = false;
        switch (rows[i].event) {
        case UP:
            result = mob_actor_life_up(&life, 0);
            break;
        case DOWN:
            result = mob_actor_life_down(&life, true, 0, &number);
            break;
        case END:
            mob_actor_life_end(&life, MOB_ACTOR_DIED);
            break;
        case CALL:
            result = mob_actor_life_call(&life, &number) == MOB_OK;
            break;
        }
        if (result != rows[i].result || life.state != rows[i].to)
            fail_msg("row %zu: %s, %d instead of %s, %d", i, mob_actor_state_text(life.state), result,
                mob_actor_state_text(rows[i].to), rows[i].result);
    }
}

static void restarts_are_counted_and_spent(void **state)
{
    (void)state;
    struct mob_actor_life life;
    uint64_t from;
    mob_actor_life_init(&life, 2);
    for (uint32_t i = 1; i <= 3; i++) {
        assert_true(mob_actor_life_up(&life, 0));
        assert_int_equal(life.incarnation, i);
        assert_int_equal(mob_actor_life_down(&life, true, 0, &from), i < 3);
    }
    assert_int_equal(life.state, MOB_ACTOR_DEAD);
    assert_int_equal(life.death, MOB_ACTOR_DIED);
}

static void without_end_means_without_end(void **state)
{
    (void)state;
    struct mob_actor_life life;
    uint64_t from;
    mob_actor_life_init(&life, -1);
    for (int i = 0; i < 1000; i++) {
        assert_true(mob_actor_life_up(&life, 0));
        assert_true(mob_actor_life_down(&life, true, 0, &from));
    }
    assert_int_equal(life.restarts_left, -1);
}

static void positions_go_on_through_restarts(void **state)
{
    (void)state;
    struct mob_actor_life life = life_in(MOB_ACTOR_PENDING, -1);
    uint64_t position, from;
    for (uint64_t i = 0; i < 30; i++) {
        assert_int_equal(mob_actor_life_call(&life, &position), MOB_OK);
        assert_int_equal(position, i);
        if (i % 3 == 0)
            (void)mob_actor_life_up(&life, 0);
        if (i % 5 == 0)
            assert_true(mob_actor_life_down(&life, true, 0, &from));
    }
    mob_actor_life_end(&life, MOB_CANCELLED);
    assert_int_equal(mob_actor_life_call(&life, &position), MOB_ACTOR_DIED);
    assert_int_equal(life.next_position, 30);
    assert_int_equal(life.death, MOB_CANCELLED);
}

static void replay_begins_at_the_newest_checkpoint(void **state)
{
    (void)state;
    struct mob_actor_life life = life_in(MOB_ACTOR_ALIVE, -1);
    uint64_t position, from = 99;
    for (int i = 0; i < 10; i++)
        assert_int_equal(mob_actor_life_call(&life, &position), MOB_OK);
    assert_true(mob_actor_life_down(&life, true, 0, &from));
    assert_int_equal(from, 0);
    assert_true(mob_actor_life_up(&life, 0));
    mob_actor_life_checkpointed(&life, 6);
    mob_actor_life_checkpointed(&life, 4); /* a late one changes nothing */
    assert_true(mob_actor_life_down(&life, true, 0, &from));
    assert_int_equal(from, 6);
}

static uint32_t waits_after_death(struct mob_actor_life *life, int64_t now)
{
    uint64_t from;
    assert_true(mob_actor_life_down(life, true, now, &from));
    uint32_t waits = mob_actor_life_waits_for(life);
    assert_true(mob_actor_life_up(life, now));
    return waits;
}

/* A call that repeats, or that came to no end of its own, is not doing well. */
static void restarts_wait_until_it_does_well(void **state)
{
    (void)state;
    struct mob_actor_life life = life_in(MOB_ACTOR_ALIVE, -1);
    uint64_t position;
    for (int i = 0; i < 3; i++)
        assert_int_equal(mob_actor_life_call(&life, &position), MOB_OK);
    mob_actor_life_ended(&life, 0, false);
    for (uint32_t i = 0; i < 5; i++) {
        assert_int_equal(waits_after_death(&life, 1), i);
        mob_actor_life_ended(&life, 0, false);
    }
    mob_actor_life_ended(&life, 1, true);
    assert_int_equal(waits_after_death(&life, 1), 5);
    mob_actor_life_ended(&life, 2, false);
    for (uint32_t i = 0; i < 3; i++)
        assert_int_equal(waits_after_death(&life, 1), i);
    assert_int_equal(waits_after_death(&life, MOB_ACTOR_WELL_NS), 3);
    assert_int_equal(waits_after_death(&life, 2 * MOB_ACTOR_WELL_NS), 0);
}

static void first_reason_of_death_stands(void **state)
{
    (void)state;
    struct mob_actor_life life = life_in(MOB_ACTOR_ALIVE, 0);
    uint64_t from;
    assert_false(mob_actor_life_down(&life, true, 0, &from));
    mob_actor_life_end(&life, MOB_CANCELLED);
    assert_int_equal(life.death, MOB_ACTOR_DIED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_event_leads_where_the_table_says),
        cmocka_unit_test(restarts_are_counted_and_spent),
        cmocka_unit_test(without_end_means_without_end),
        cmocka_unit_test(positions_go_on_through_restarts),
        cmocka_unit_test(replay_begins_at_the_newest_checkpoint),
        cmocka_unit_test(restarts_wait_until_it_does_well),
        cmocka_unit_test(first_reason_of_death_stands),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
