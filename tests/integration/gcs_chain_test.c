/* ctest: timeout=120
 * A chain of two members as processes, with their own Redis and a master: writes, reads, streams, and what
 * happens when one of them is killed.
 */
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/base/clock.h"
#include "tests/support/chain_box.h"

#define DEADLINE (mob_now() + 30 * MOB_SEC)

static void put_number(struct mob_gcs *gcs, uint32_t key, uint32_t value)
{
    struct mob_gcs_put put = {.table = MOB_GCS_KV,
        .key = &key,
        .key_length = sizeof key,
        .value = &value,
        .value_length = sizeof value,
        .if_version = MOB_GCS_ANY_VERSION};
    assert_int_equal(mob_gcs_put_wait(gcs, &put, DEADLINE, NULL), MOB_OK);
}

static uint32_t get_number(struct mob_gcs *gcs, uint32_t key)
{
    struct mob_gcs_result *result;
    uint32_t value = 0;
    assert_int_equal(mob_gcs_get_wait(gcs, MOB_GCS_KV, &key, sizeof key, DEADLINE, &result), MOB_OK);
    const struct mob_gcs_answer *a = mob_gcs_result_answer(result);
    assert_int_equal(a->kv_count, 1);
    memcpy(&value, a->kvs[0].value, sizeof value);
    mob_gcs_result_destroy(result);
    return value;
}

static void two_members_take_writes_and_answer_reads(void **state)
{
    (void)state;
    struct chain_box box;
    chain_box_init(&box, 2, 2, "everysec");
    chain_box_start(&box);
    assert_true(chain_box_wait_length(&box, 2, DEADLINE));
    struct mob_gcs *gcs = chain_box_client(&box);
    for (uint32_t i = 0; i < 200; i++)
        put_number(gcs, i, i * 3);
    for (uint32_t i = 0; i < 200; i++)
        assert_int_equal(get_number(gcs, i), i * 3);
    mob_gcs_destroy(gcs);
    chain_box_fini(&box);
}

/* Kills one member; what was written is there, and the chain is whole again with the member's next life. */
static void kill_one(bool tail)
{
    struct chain_box box;
    chain_box_init(&box, 2, 2, "everysec");
    chain_box_start(&box);
    assert_true(chain_box_wait_length(&box, 2, DEADLINE));
    struct mob_gcs *gcs = chain_box_client(&box);
    for (uint32_t i = 0; i < 100; i++)
        put_number(gcs, i, i + 1);
    int slot = chain_box_place(&box, tail);
    assert_true(slot >= 0);
    gcs_box_end(&box.member[slot].gcs, SIGKILL);
    for (uint32_t i = 100; i < 200; i++)
        put_number(gcs, i, i + 1);
    assert_true(chain_box_wait_length(&box, 2, DEADLINE));
    for (uint32_t i = 200; i < 300; i++)
        put_number(gcs, i, i + 1);
    /* the other one goes, too: what is left is the member that joined */
    gcs_box_end(&box.member[1 - slot].gcs, SIGKILL);
    gcs_box_end(&box.member[1 - slot].redis, SIGKILL);
    for (uint32_t i = 0; i < 300; i++)
        assert_int_equal(get_number(gcs, i), i + 1);
    mob_gcs_destroy(gcs);
    chain_box_fini(&box);
}

static void a_killed_head_is_replaced(void **state)
{
    (void)state;
    kill_one(false);
}

static void a_killed_tail_is_replaced(void **state)
{
    (void)state;
    kill_one(true);
}

int main(void)
{
    signal(SIGPIPE, SIG_IGN);
    cmocka_set_test_filter(getenv("MOBULA_TEST"));
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_members_take_writes_and_answer_reads),
        cmocka_unit_test(a_killed_head_is_replaced),
        cmocka_unit_test(a_killed_tail_is_replaced),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
