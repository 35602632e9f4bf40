/* Rows of checkpoints in the control store: they go with the lineage of actors that have ended, and no
 * sooner.
 */
#include "tests/chaos/restart_fixture.h"

enum { EVERY_CALL = 1, BLOBS = 6, EVERY = 4, BYTES = 100000 };

static struct mob_gcs *gcs;

static void start(const char *const *args)
{
    client = driver_box_start(&box, args, "chaos");
    snprintf(trace, sizeof trace, "%s/trace", box.gcs.directory);
    snprintf(gate, sizeof gate, "%s/gate", box.gcs.directory);
    open_gate();
    gcs = gcs_box_client(&box.gcs);
}

static void stop(void)
{
    mob_gcs_destroy(gcs);
    driver_box_stop(&box, client);
}

static void count(void *arg, const struct mob_gcs_kv *kv)
{
    (void)kv;
    ++*(int *)arg;
}

static int rows_of(enum mob_gcs_table table)
{
    int rows = 0;
    assert_int_equal(mob_gcs_each_row_wait(gcs, table, mob_deadline_after(PATIENCE), count, &rows), MOB_OK);
    return rows;
}

static void wait_for_rows(enum mob_gcs_table table, int expected)
{
    int rows;
    for (int64_t deadline = mob_now() + PATIENCE; (rows = rows_of(table)) != expected; poll(NULL, 0, 20))
        if (mob_now() > deadline)
            fail_msg("%d rows of table %d instead of %d", rows, table, expected);
}

static void another_driver(void)
{
    mob_disconnect(client);
    connect_with(NULL);
}

static struct mob_actor *create(int64_t seed, const char *name, uint32_t checkpoint_every)
{
    struct mob_actor *actor;
    struct mob_actor_options options = {.struct_size = sizeof options,
        .name = name,
        .detached = name != NULL,
        .max_restarts = -1,
        .checkpoint_every = (int)checkpoint_every};
    OK(mob_actor_create(client, "chaos.Chain", MOB_ARGS(mob_i64(seed)), &options, &actor));
    return actor;
}

static int64_t step(struct mob_actor *actor, int64_t v)
{
    struct mob_future *future;
    OK(mob_actor_call(actor, "step", MOB_ARGS(mob_i64(v)), NULL, &future));
    int64_t state = get_of(future);
    mob_release(future);
    return state;
}

/* Some are killed, and some end with their job. */
static void make_and_end(int actors)
{
    for (int i = 0; i < actors; i++) {
        struct mob_actor *actor = create(i, NULL, EVERY_CALL);
        assert_int_equal(step(actor, 1), chaos_mix(chaos_mix(i, 0), 1));
        if (i % 2 == 0)
            OK(mob_actor_kill(actor, true));
        mob_actor_release(actor);
    }
    OK(mob_flush(client, PATIENCE));
}

static void rows_go_with_the_retention_of_ended_actors(void **state)
{
    (void)state;
    enum { ENDED = 4 };
    start((const char *const[]){"--retention-s", "1s", NULL});
    struct mob_actor *lives = create(8, "lives", EVERY_CALL);
    int64_t expected = chaos_mix(chaos_mix(8, 0), 1);
    assert_int_equal(step(lives, 1), expected);
    another_driver();
    make_and_end(ENDED);
    wait_for_rows(MOB_GCS_CHECKPOINTS, ENDED + 1);
    another_driver();
    wait_for_rows(MOB_GCS_CHECKPOINTS, 1);
    mob_disconnect(client);
    kill_node();
    connect_with(NULL);
    OK(mob_actor_find(client, "lives", &lives));
    expected = chaos_mix(expected, 2);
    assert_int_equal(step(lives, 2), expected); /* it began with its row */
    assert_int_equal(rows_of(MOB_GCS_CHECKPOINTS), 1);
    OK(mob_actor_kill(lives, true));
    wait_for_rows(MOB_GCS_CHECKPOINTS, 0);
    assert_int_equal(rows_of(MOB_GCS_ACTORS), 0);
    stop();
}

static void drop_lineage_of(struct mob_job_id job)
{
    struct mob_gcs_sync sync = {0};
    struct mob_gcs_result *result;
    OK(mob_gcs_job_drop(gcs, job, false, INT64_MAX, mob_gcs_sync_done, &sync));
    OK(mob_gcs_sync_wait(gcs, &sync, mob_deadline_after(PATIENCE), &result));
    assert_true(mob_gcs_result_answer(result)->number > 0);
    mob_gcs_result_destroy(result);
}

/* Its actor is not there any more, nor is its lineage; it was killed before it came to the checkpoint. */
static void what_a_killed_node_has_left_goes_when_the_next_starts(void **state)
{
    (void)state;
    char text[MOB_TEXT_ID_MAX];
    struct mob_job_id job;
    start(NULL);
    mob_client_job(client, text);
    OK(mob_job_id_parse(text, &job));
    make_and_end(1);
    wait_for_rows(MOB_GCS_ACTORS, 0);
    wait_for_rows(MOB_GCS_CHECKPOINTS, 1);
    mob_disconnect(client);
    node_box_kill(&box);
    drop_lineage_of(job);
    node_box_revive(&box);
    connect_with(NULL);
    wait_for_rows(MOB_GCS_CHECKPOINTS, 0);
    stop();
}

/* Of an actor that there never was: it goes with the first look at all rows. */
static void plant_row(void)
{
    struct mob_actor_id nobody = {{{{'n', 'o'}}, 1}};
    struct mob_gcs_put put = {.table = MOB_GCS_CHECKPOINTS,
        .key = &nobody,
        .key_length = sizeof nobody,
        .value = "",
        .if_version = MOB_GCS_ANY_VERSION};
    assert_int_equal(mob_gcs_put_wait(gcs, &put, mob_deadline_after(PATIENCE), NULL), MOB_OK);
}

static void lost_results_of_a_dead_actor_begin_at_its_row(void **state)
{
    (void)state;
    char id[MOB_TEXT_ID_MAX];
    struct mob_future *future;
    int64_t expected = chaos_mix(5, 0);
    start(NULL);
    struct mob_actor *actor = create(5, NULL, EVERY);
    for (int i = 0; i < BLOBS; i++) {
        OK(mob_actor_call(actor, "blob",
            MOB_ARGS(mob_i64(i), mob_i64(BYTES), mob_utf8(trace), mob_utf8(gate)), NULL, &future));
        expected = chaos_mix(expected, i);
        check_bytes(future, expected, BYTES);
        mob_future_id(future, id);
        mob_release(future);
    }
    OK(mob_actor_kill(actor, true));
    OK(mob_flush(client, PATIENCE));
    wait_for_rows(MOB_GCS_ACTORS, 0);
    mob_disconnect(client);
    node_box_kill(&box);
    plant_row();
    node_box_revive(&box);
    wait_for_rows(MOB_GCS_CHECKPOINTS, 1);
    connect_with(NULL);
    OK(mob_future_from_id(client, id, &future));
    check_bytes(future, expected, BYTES);
    mob_release(future);
    assert_int_equal(lines("blob"), BLOBS + BLOBS - EVERY);
    assert_int_equal(rows_of(MOB_GCS_CHECKPOINTS), 1);
    stop();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_go_with_the_retention_of_ended_actors),
        cmocka_unit_test(what_a_killed_node_has_left_goes_when_the_next_starts),
        cmocka_unit_test(lost_results_of_a_dead_actor_begin_at_its_row),
    };
    cmocka_set_test_filter(getenv("MOBULA_TEST")); /* one of them */
    return cmocka_run_group_tests_name("checkpoint_rows", tests, NULL, NULL);
}
