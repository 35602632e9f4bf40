/* Actors over the end of their worker, of the node, of the whole cluster. ctest: timeout=300
 */
#include "tests/chaos/restart_fixture.h"

/* An actor with a name, without checkpoints and with restarts to spare: five calls, a death, and five more on
 * the actor of that name, whose state is that of ten calls in order. */
static void named_actor_outlives(const char *name, void (*death)(void))
{
    struct mob_actor_options options = {
        .struct_size = sizeof options, .name = name, .detached = true, .max_restarts = 1};
    struct mob_actor *actor;
    struct mob_future *future;
    int64_t expected = chaos_mix(8, 0);
    OK(mob_actor_create(client, "chaos.Chain", MOB_ARGS(mob_i64(8)), &options, &actor));
    for (int i = 0; i < 10; i++) {
        if (i == 5) {
            OK(mob_flush(client, PATIENCE));
            mob_disconnect(client); /* nobody holds a handle of it */
            death();
            connect_with(NULL);
            OK(mob_actor_find(client, name, &actor));
        }
        OK(mob_actor_call(actor, "step", MOB_ARGS(mob_i64(i)), NULL, &future));
        expected = chaos_mix(expected, i);
        assert_int_equal(get_of(future), expected);
        mob_release(future);
    }
    OK(mob_actor_kill(actor, true));
}

static void named_actor_outlives_its_worker(void **state)
{
    (void)state;
    named_actor_outlives("after its worker", kill_workers);
}

static void named_actor_outlives_the_node(void **state)
{
    (void)state;
    named_actor_outlives("after the node", kill_node);
}

static void named_actor_outlives_the_whole_cluster(void **state)
{
    (void)state;
    named_actor_outlives("after everything", kill_everything);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(named_actor_outlives_its_worker),
        cmocka_unit_test(named_actor_outlives_the_node),
        cmocka_unit_test(named_actor_outlives_the_whole_cluster),
    };
    cmocka_set_test_filter(getenv("MOBULA_TEST")); /* one of them */
    return cmocka_run_group_tests_name("actor_restart", tests, set_up, tear_down);
}
