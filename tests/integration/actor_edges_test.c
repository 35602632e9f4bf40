/* Stateful edges lie in a group of their own for each actor: the record of a task that stands next to a busy
 * actor's creation is read from few blocks, and a replay reads no sister's edges. */
#include <mobula/mobula.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "common/base/clock.h"
#include "tests/modules/chaos_model.h"
#include "tests/support/driver.h"
#include "tests/support/node_box.h"

#define PATIENCE (60 * MOB_SEC)

enum { CALLS = 20000, WINDOW = 500, SISTER_CALLS = 10 };

static struct node_box box;
static struct mob_client *client;

static void calls(struct mob_actor *actor, int count)
{
    static struct mob_future *futures[WINDOW];
    int64_t v;
    for (int i = 0; i < count; i += WINDOW) {
        int n = count - i < WINDOW ? count - i : WINDOW;
        for (int k = 0; k < n; k++)
            OK(mob_actor_call(actor, "step", MOB_ARGS(mob_i64(i + k)), NULL, &futures[k]));
        for (int k = 0; k < n; k++) {
            OK(mob_get_i64(futures[k], PATIENCE, &v));
            mob_release(futures[k]);
        }
    }
    OK(mob_flush(client, PATIENCE));
}

static uint32_t blocks_of(struct mob_gcs *gcs, struct mob_task_id member)
{
    uint32_t count = 0;
    uint64_t position = 0;
    do {
        struct mob_gcs_sync sync = {0};
        struct mob_gcs_result *result = NULL;
        OK(mob_gcs_group_blocks(
            gcs, member.stream, member.index >> MOB_GROUP_SHIFT, position, mob_gcs_sync_done, &sync));
        OK(mob_gcs_sync_wait(gcs, &sync, mob_deadline_after(PATIENCE), &result));
        count += mob_gcs_result_answer(result)->block_count;
        position = mob_gcs_result_answer(result)->next;
        mob_gcs_result_destroy(result);
    } while (position != 0);
    return count;
}

static struct mob_actor_id id_of(const struct mob_actor *actor)
{
    char text[MOB_TEXT_ID_MAX];
    struct mob_actor_id id;
    mob_actor_id(actor, text);
    OK(mob_actor_id_parse(text, &id));
    return id;
}

static void neighbours_of_a_busy_actor_are_read_from_few_blocks(void **state)
{
    (void)state;
    struct mob_actor *busy, *sister;
    struct mob_connect_options options = {.struct_size = sizeof options, .timeout_ns = PATIENCE};
    client = driver_connect(&options);
    driver_deploy(client, "chaos");
    OK(mob_actor_create(client, "chaos.Chain", MOB_ARGS(mob_i64(1)), NULL, &busy));
    OK(mob_actor_create(client, "chaos.Chain", MOB_ARGS(mob_i64(2)), NULL, &sister));
    calls(sister, SISTER_CALLS);
    calls(busy, CALLS);
    struct mob_gcs *gcs = gcs_box_client(&box.gcs);
    uint32_t creation = blocks_of(gcs, id_of(busy).creation);
    uint32_t edges = blocks_of(gcs, mob_edge_group(id_of(busy)));
    uint32_t sisters = blocks_of(gcs, mob_edge_group(id_of(sister)));
    print_message("%d calls: %u blocks of the creation's neighbours, %u with edges of the actor, %u with its "
                  "sister's\n",
        CALLS, creation, edges, sisters);
    assert_in_range(edges, CALLS / 256, UINT32_MAX);
    assert_in_range(creation, 1, edges / 4);
    assert_in_range(sisters, 1, SISTER_CALLS + 1);
    mob_gcs_destroy(gcs);
    mob_disconnect(client);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(neighbours_of_a_busy_actor_are_read_from_few_blocks)};
    node_box_start(&box, 2);
    int failed = cmocka_run_group_tests_name("actor_edges", tests, NULL, NULL);
    node_box_stop(&box);
    return failed;
}
