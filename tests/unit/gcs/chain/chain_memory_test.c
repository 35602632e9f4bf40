/* What members say of their memory: the fullest one behind the head counts, since the head alone can refuse.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

#include "gcs/chain/chain.h"

#define HEAD ((1ull << 40) | 1)
#define MIDDLE ((2ull << 40) | 1)
#define TAIL ((3ull << 40) | 1)

struct fixture {
    uint64_t self;
    struct mob_state *tables;
    struct mob_chain *chain;
    int acks;
    uint64_t told; /* the memory in the last ACK */
};

static void drain(struct fixture *f)
{
    struct mob_chain_action a;
    while (mob_chain_next(f->chain, &a))
        if (a.type == MOB_CHAIN_SEND && a.message->type == MOB_GCS_ACK) {
            f->acks++;
            f->told = a.message->link.token;
        }
}

/* One of the three, in the first configuration; who is before it has sent all that there is. */
static void fixture_init(struct fixture *f, uint64_t self)
{
    *f = (struct fixture){.self = self, .tables = mob_state_create()};
    f->chain = mob_chain_create(&(struct mob_chain_options){.self = self, .state = f->tables});
    mob_chain_on_config(f->chain,
        &(struct mob_gcs_config){.epoch = 1, .term = 1, .count = 3, .members = {HEAD, MIDDLE, TAIL}});
    struct mob_gcs_link_msg end = {.type = MOB_GCS_SYNCEND,
        .epoch = 1,
        .from = self == MIDDLE ? HEAD : MIDDLE,
        .link = {.to = self,
            .digest = mob_chain_digest(f->chain),
            .state_digest = mob_chain_state_digest(f->chain)}};
    if (self != HEAD)
        assert_int_equal(mob_chain_on_message(f->chain, &end, NULL), MOB_FINISHED);
    drain(f);
    assert_int_equal(mob_chain_state(f->chain), MOB_CHAIN_SERVING);
    f->acks = 0;
}

static void fixture_fini(struct fixture *f)
{
    mob_chain_destroy(f->chain);
    mob_state_destroy(f->tables);
}

static void hears(struct fixture *f, uint64_t from, uint64_t memory)
{
    struct mob_gcs_link_msg ack = {
        .type = MOB_GCS_ACK, .epoch = 1, .from = from, .link = {.to = f->self, .token = memory}};
    assert_int_equal(mob_chain_on_message(f->chain, &ack, NULL), MOB_FINISHED);
    drain(f);
}

static void the_fullest_counts_at_the_head(void **state)
{
    (void)state;
    struct fixture f;
    fixture_init(&f, HEAD);
    assert_int_equal(mob_chain_memory(f.chain), 0);
    mob_chain_on_memory(f.chain, 100, true);
    assert_int_equal(mob_chain_memory(f.chain), 100);
    hears(&f, MIDDLE, 300);
    assert_int_equal(mob_chain_memory(f.chain), 300);
    mob_chain_on_memory(f.chain, 400, false);
    assert_int_equal(mob_chain_memory(f.chain), 400);
    mob_chain_on_memory(f.chain, 100, true);
    assert_int_equal(mob_chain_memory(f.chain), 300);
    hears(&f, MIDDLE, 50); /* some was flushed */
    assert_int_equal(mob_chain_memory(f.chain), 100);
    hears(&f, MIDDLE, 300);
    hears(&f, MIDDLE, 0); /* of an earlier version, which says nothing */
    assert_int_equal(mob_chain_memory(f.chain), 100);
    drain(&f);
    assert_int_equal(f.acks, 0);
    fixture_fini(&f);
}

static void what_was_measured_is_told_at_once(void **state)
{
    (void)state;
    struct fixture f;
    fixture_init(&f, TAIL);
    mob_chain_on_memory(f.chain, 200, false); /* with the next one */
    drain(&f);
    assert_int_equal(f.acks, 0);
    mob_chain_on_memory(f.chain, 210, true);
    drain(&f);
    assert_int_equal(f.acks, 1);
    assert_int_equal(f.told, 210);
    fixture_fini(&f);
}

static void who_is_between_passes_the_larger_one_on(void **state)
{
    (void)state;
    struct fixture f;
    fixture_init(&f, MIDDLE);
    mob_chain_on_memory(f.chain, 200, true);
    drain(&f);
    assert_int_equal(f.told, 200);
    hears(&f, TAIL, 700);
    assert_int_equal(f.acks, 2);
    assert_int_equal(f.told, 700);
    hears(&f, TAIL, 700); /* nothing new */
    assert_int_equal(f.acks, 2);
    hears(&f, TAIL, 100);
    assert_int_equal(f.acks, 3);
    assert_int_equal(f.told, 200);
    fixture_fini(&f);
}

static void who_is_left_out_does_not_count(void **state)
{
    (void)state;
    struct fixture f;
    fixture_init(&f, HEAD);
    mob_chain_on_memory(f.chain, 100, true);
    hears(&f, MIDDLE, 300);
    mob_chain_on_config(
        f.chain, &(struct mob_gcs_config){.epoch = 2, .term = 1, .count = 1, .members = {HEAD}});
    assert_int_equal(mob_chain_memory(f.chain), 100);
    hears(&f, MIDDLE, 300); /* of before */
    assert_int_equal(mob_chain_memory(f.chain), 100);
    fixture_fini(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_fullest_counts_at_the_head),
        cmocka_unit_test(what_was_measured_is_told_at_once),
        cmocka_unit_test(who_is_between_passes_the_larger_one_on),
        cmocka_unit_test(who_is_left_out_does_not_count),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
