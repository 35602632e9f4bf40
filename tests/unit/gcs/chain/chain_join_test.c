/* A joiner and what comes late. Everything else of joining: sim/chain. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

#include "gcs/chain/chain.h"

#define TAIL ((1ull << 40) | 1)
#define JOINER ((2ull << 40) | 1)

struct fixture {
    struct mob_state *tables;
    struct mob_chain *chain;
    int64_t now_ns;
    struct mob_gcs_link_msg asked; /* the last JOIN */
    int wipes;
};

static void drain(struct fixture *f)
{
    struct mob_chain_action a;
    while (mob_chain_next(f->chain, &a)) {
        f->wipes += a.type == MOB_CHAIN_WIPE;
        if (a.type == MOB_CHAIN_SEND && a.message->type == MOB_GCS_JOIN)
            f->asked = *a.message;
    }
}

static void tick(struct fixture *f)
{
    f->now_ns += MOB_CHAIN_RESEND_NS;
    mob_chain_on_tick(f->chain, f->now_ns);
    drain(f);
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
    struct fixture f = {.tables = mob_state_create(), .now_ns = 1000};
    f.chain = mob_chain_create(&(struct mob_chain_options){.self = JOINER, .state = f.tables});
    mob_chain_on_config(
        f.chain, &(struct mob_gcs_config){.epoch = 1, .term = 1, .count = 1, .members = {TAIL}});
    mob_chain_on_join(f.chain, 1);
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
    mob_chain_destroy(f.chain);
    mob_state_destroy(f.tables);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_snapshot_that_was_begun_anew_is_taken_from_its_beginning),
    };
    return cmocka_run_group_tests_name("chain_join", tests, NULL, NULL);
}
