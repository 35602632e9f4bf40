/* Actors over the end of their worker, of the node, of the whole cluster. ctest: timeout=300
 */
#include "tests/chaos/restart_fixture.h"

#include "gcs/client/client_sync.h"

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

/* Calls of another driver's job, whose lineage somebody takes away behind everybody's back: never another
 * state than the one that was told. */
static void actor_whose_calls_are_lost_ends(void **state)
{
    (void)state;
    struct mob_actor_options options = {
        .struct_size = sizeof options, .name = "robbed", .detached = true, .max_restarts = -1};
    struct mob_actor *actor;
    struct mob_future *future;
    struct mob_job_id job;
    char text[MOB_TEXT_ID_MAX];
    int64_t v;
    OK(mob_actor_create(client, "chaos.Chain", MOB_ARGS(mob_i64(8)), &options, &actor));
    OK(mob_actor_call(actor, "step", MOB_ARGS(mob_i64(0)), NULL, &future));
    int64_t expected = chaos_mix(chaos_mix(8, 0), 0);
    assert_int_equal(get_of(future), expected);
    mob_disconnect(client);
    connect_with(NULL);
    OK(mob_actor_find(client, "robbed", &actor));
    for (int i = 1; i < 4; i++) {
        OK(mob_actor_call(actor, "step", MOB_ARGS(mob_i64(i)), NULL, &future));
        expected = chaos_mix(expected, i);
        assert_int_equal(get_of(future), expected);
    }
    OK(mob_flush(client, PATIENCE));
    mob_client_job(client, text);
    OK(mob_job_id_parse(text, &job));
    struct mob_gcs_options gcs_options = {.socket_path = box.gcs.socket, .secret = gcs_box_secret};
    struct mob_gcs *gcs;
    struct mob_gcs_sync sync = {0};
    struct mob_gcs_result *result;
    OK(mob_gcs_create(&gcs_options, &gcs));
    OK(mob_gcs_job_drop(gcs, job, false, INT64_MAX, mob_gcs_sync_done, &sync));
    OK(mob_gcs_sync_wait(gcs, &sync, mob_deadline_after(PATIENCE), &result));
    assert_true(mob_gcs_result_answer(result)->number > 0);
    mob_gcs_result_destroy(result);
    mob_gcs_destroy(gcs);
    kill_workers();
    enum mob_status status;
    do { /* the one that notices the death may be the call */
        OK(mob_actor_call(actor, "step", MOB_ARGS(mob_i64(4)), NULL, &future));
        status = mob_get_i64(future, PATIENCE, &v);
        if (status == MOB_OK) /* it came before the death was noticed */
            expected = chaos_mix(expected, 4);
        if (status == MOB_OK)
            assert_int_equal(v, expected);
    } while (status == MOB_OK);
    assert_int_equal(status, MOB_ACTOR_DIED);
    if (strstr(mob_future_error(future), "lineage") == NULL)
        assert_string_equal(mob_future_error(future), "its lineage ...");
    mob_release(future);
    mob_actor_release(actor);
}

/* Its replay comes to another state than the one that callers were told of: it ends and says so, and what
 * they were told stands, also when the node begins again. */
static void actor_that_replays_otherwise_ends(void **state)
{
    (void)state;
    struct mob_actor_options options = {
        .struct_size = sizeof options, .name = "drifts", .detached = true, .max_restarts = -1};
    struct mob_actor *actor;
    struct mob_future *told[3], *future;
    char ids[3][MOB_TEXT_ID_MAX];
    int64_t first[3], v;
    OK(mob_actor_create(client, "chaos.Chain", MOB_ARGS(mob_i64(8)), &options, &actor));
    for (int i = 0; i < 3; i++) {
        const struct mob_args args = i == 1 ? MOB_NO_ARGS : MOB_ARGS(mob_i64(i));
        OK(mob_actor_call(actor, i == 1 ? "drift" : "step", args, NULL, &told[i]));
        first[i] = get_of(told[i]);
        mob_future_id(told[i], ids[i]);
        mob_release(told[i]);
    }
    OK(mob_flush(client, PATIENCE));
    kill_workers();
    enum mob_status status;
    do { /* until the death is noticed */
        OK(mob_actor_call(actor, "step", MOB_ARGS(mob_i64(4)), NULL, &future));
        status = mob_get_i64(future, PATIENCE, &v);
    } while (status == MOB_OK);
    assert_int_equal(status, MOB_ACTOR_DIED);
    if (strstr(mob_future_error(future), "nondeterministic") == NULL ||
        strstr(mob_future_error(future), "position 1 ") == NULL)
        fail_msg("%s", mob_future_error(future));
    mob_release(future);
    mob_actor_release(actor);
    for (int again = 0; again < 2; again++) {
        for (int i = 0; i < 3; i++) {
            OK(mob_future_from_id(client, ids[i], &future));
            assert_int_equal(get_of(future), first[i]);
            mob_release(future);
        }
        if (again == 0)
            kill_node();
    }
}

/* Each way in which a result is kept: in the log, in the store, hashed later. A replay that gives the same is
 * not taken for another one. */
static void actor_that_replays_the_same_lives_on(void **state)
{
    (void)state;
    static const int64_t sizes[] = {1, 40, 5000, 100000, (1 << 20) - 64, 1 << 20, 3 << 20};
    enum { SIZES = sizeof sizes / sizeof sizes[0] };
    struct mob_actor_options options = {.struct_size = sizeof options, .name = "steady", .max_restarts = -1};
    struct mob_actor *actor;
    struct mob_future *future;
    int64_t expected = chaos_mix(8, 0);
    open_gate();
    unlink(trace);
    OK(mob_actor_create(client, "chaos.Chain", MOB_ARGS(mob_i64(8)), &options, &actor));
    for (int death = 0; death < 2; death++) {
        for (int i = 0; i < SIZES; i++) {
            OK(mob_actor_call(actor, "blob",
                MOB_ARGS(mob_i64(i), mob_i64(sizes[i]), mob_utf8(trace), mob_utf8(gate)), NULL, &future));
            expected = chaos_mix(expected, i);
            check_bytes(future, expected, (size_t)sizes[i]);
            mob_release(future);
        }
        OK(mob_flush(client, PATIENCE));
        if (death == 0)
            kill_workers();
        else
            kill_node();
        OK(mob_actor_call(actor, "step", MOB_ARGS(mob_i64(3)), NULL, &future));
        expected = chaos_mix(expected, 3);
        assert_int_equal(get_of(future), expected);
        mob_release(future);
        assert_int_equal(lines("blob"), death == 0 ? 2 * SIZES : 5 * SIZES); /* all were replayed */
    }
    OK(mob_actor_kill(actor, true));
    mob_actor_release(actor);
}

/* ---- shadow replay: results of calls whose bytes are gone ---- */

enum { BLOBS = 10, EVERY = 4, BYTES = 100000 };

/* An actor with a checkpoint behind the 4th and the 8th call, and its calls, all finished and in the log. */
struct blobs {
    char name[16];
    char ids[BLOBS][MOB_TEXT_ID_MAX];
    int64_t states[BLOBS]; /* after each call; shapes its result */
    struct mob_actor *actor;
};

static void make_blobs(struct blobs *b, const char *name)
{
    struct mob_actor_options options = {.struct_size = sizeof options,
        .name = name,
        .detached = true,
        .max_restarts = -1,
        .checkpoint_every = EVERY};
    struct mob_future *future;
    int64_t state = chaos_mix(5, 0);
    snprintf(b->name, sizeof b->name, "%s", name);
    open_gate();
    unlink(trace);
    OK(mob_actor_create(client, "chaos.Chain", MOB_ARGS(mob_i64(5)), &options, &b->actor));
    for (int i = 0; i < BLOBS; i++) {
        OK(mob_actor_call(b->actor, "blob",
            MOB_ARGS(mob_i64(i), mob_i64(BYTES), mob_utf8(trace), mob_utf8(gate)), NULL, &future));
        b->states[i] = state = chaos_mix(state, i);
        check_bytes(future, state, BYTES);
        mob_future_id(future, b->ids[i]);
        mob_release(future);
    }
    OK(mob_flush(client, PATIENCE));
    assert_int_equal(lines("blob"), BLOBS);
}

/* A new session: the old one still maps the dead node's memory. */
static void lose_node(void)
{
    mob_disconnect(client);
    kill_node();
    connect_with(NULL);
}

static void check_blob(const struct blobs *b, int i)
{
    struct mob_future *future;
    OK(mob_future_from_id(client, b->ids[i], &future));
    check_bytes(future, b->states[i], BYTES);
    mob_release(future);
}

static void check_step(struct blobs *b, int64_t v, int64_t *state)
{
    struct mob_future *future;
    OK(mob_actor_call(b->actor, "step", MOB_ARGS(mob_i64(v)), NULL, &future));
    *state = chaos_mix(*state, v);
    assert_int_equal(get_of(future), *state);
    mob_release(future);
}

static void lost_results_of_a_live_actor_are_made_again(void **state)
{
    (void)state;
    struct blobs b;
    int64_t now;
    make_blobs(&b, "live");
    lose_node();
    OK(mob_actor_find(client, b.name, &b.actor));
    now = b.states[BLOBS - 1];
    check_step(&b, 70, &now); /* behind the restart's own replay, which starts at the checkpoint */
    assert_int_equal(lines("blob"), BLOBS + 2);
    check_blob(&b, 2);
    assert_int_equal(lines("blob"), BLOBS + 2 + 3); /* from the creation up to the call, no further */
    check_blob(&b, 1);
    check_blob(&b, 9);
    assert_int_equal(lines("blob"), BLOBS + 2 + 3); /* made already */
    check_step(&b, 71, &now); /* the actor itself has not noticed */
    check_blob(&b, 7);
    assert_int_equal(lines("blob"), BLOBS + 2 + 3 + 8);
    check_step(&b, 72, &now);
    OK(mob_actor_kill(b.actor, true));
}

static void lost_results_of_a_dead_actor_are_made_again(void **state)
{
    (void)state;
    struct blobs b;
    struct mob_future *future, *sum;
    make_blobs(&b, "dead");
    OK(mob_actor_kill(b.actor, true));
    OK(mob_flush(client, PATIENCE));
    lose_node();
    check_blob(&b, 9);
    assert_int_equal(lines("blob"), BLOBS + 2); /* from the checkpoint on */
    OK(mob_future_from_id(client, b.ids[0], &future)); /* as an argument */
    OK(mob_submit(client, "chaos.digest", MOB_ARGS(mob_ref(future), mob_i64(1)), NULL, &sum));
    uint8_t *model = malloc(BYTES);
    chaos_fill(b.states[0], model, BYTES);
    assert_int_equal(get_of(sum), chaos_digest(model, BYTES, 1));
    free(model);
    assert_int_equal(lines("blob"), BLOBS + 2 + 1);
    mob_release(future);
    mob_release(sum);
    struct mob_actor *gone;
    assert_int_equal(mob_actor_find(client, b.name, &gone), MOB_NOT_FOUND); /* the shadow has no name */
}

/* The shadow has the ids that the restart needs: it gives way, and begins again behind it. */
static void actor_that_dies_beside_its_shadow_restarts(void **state)
{
    (void)state;
    struct blobs b;
    struct mob_future *lost, *stumble;
    char once[200];
    int64_t v, now;
    snprintf(once, sizeof once, "%s/once", box.gcs.directory);
    make_blobs(&b, "both");
    lose_node();
    OK(mob_actor_find(client, b.name, &b.actor));
    now = b.states[BLOBS - 1];
    check_step(&b, 1, &now);
    unlink(gate);
    unlink(trace);
    OK(mob_future_from_id(client, b.ids[2], &lost));
    assert_int_equal(mob_get_i64(lost, 10 * MOB_MS, &v), MOB_TIMEOUT);
    wait_for_lines("blob", 1); /* the shadow waits at the gate in its first call */
    OK(mob_actor_call(b.actor, "stumble", MOB_ARGS(mob_utf8(once)), NULL, &stumble));
    wait_for_lines("blob", 2); /* the restart replays from the checkpoint, and waits at the gate */
    open_gate();
    assert_int_equal(get_of(stumble), now);
    check_step(&b, 2, &now);
    check_bytes(lost, b.states[2], BYTES);
    assert_int_equal(lines("blob"), 1 + 2 + 3);
    /* and a shadow that dies begins again by itself */
    unlink(gate);
    unlink(trace);
    mob_release(lost);
    OK(mob_future_from_id(client, b.ids[6], &lost));
    assert_int_equal(mob_get_i64(lost, 10 * MOB_MS, &v), MOB_TIMEOUT);
    wait_for_lines("blob", 1);
    kill_workers();
    wait_for_lines("blob", 2);
    open_gate();
    check_bytes(lost, b.states[6], BYTES);
    check_step(&b, 3, &now);
    mob_release(lost);
    mob_release(stumble);
    OK(mob_actor_kill(b.actor, true));
}

/* ---- checkpoints that are objects of the store ---- */

static int64_t stored_bytes(void)
{
    char *json;
    OK(mob_query(client, "stats", "", PATIENCE, &json));
    const char *used = strstr(json, "\"used_bytes\":"), *spilled = strstr(json, "\"spilled_bytes\":");
    assert_non_null(used);
    assert_non_null(spilled);
    int64_t sum = atoll(used + strlen("\"used_bytes\":")) + atoll(spilled + strlen("\"spilled_bytes\":"));
    free(json);
    return sum;
}

static void large_checkpoints_replace_each_other(void **state)
{
    (void)state;
    enum { STATE = 400000, CALLS = 200 };
    struct mob_actor_options options = {
        .struct_size = sizeof options, .max_restarts = -1, .checkpoint_every = 1};
    struct mob_actor *actor;
    struct mob_future *future;
    int64_t expected = chaos_mix(9, 0), before = stored_bytes();
    OK(mob_actor_create(client, "chaos.Bulky", MOB_ARGS(mob_i64(9), mob_i64(STATE)), &options, &actor));
    for (int i = 0; i < CALLS; i++) {
        if (i % 50 == 49) { /* each restart begins with the newest one, and not with what lies there */
            OK(mob_flush(client, PATIENCE));
            kill_workers();
        }
        OK(mob_actor_call(actor, "step", MOB_ARGS(mob_i64(i)), NULL, &future));
        expected = chaos_mix(expected, i);
        assert_int_equal(get_of(future), expected);
        mob_release(future);
    }
    assert_true(
        stored_bytes() - before <= 4 * STATE); /* and not CALLS of them; what lay there before may go */
    OK(mob_actor_kill(actor, true));
}

/* What was read is read again by nobody, and is what it was: after its worker's end, and its node's. Only
 * what stood in the memory of a node that is gone is made again, once, for a replay that goes on from it. */
static void reads_are_not_repeated(void **state)
{
    (void)state;
    enum { ROUNDS = 4, VIEW = 50000 };
    struct mob_actor_options options = {
        .struct_size = sizeof options, .name = "is read", .detached = true, .max_restarts = -1};
    struct mob_actor *actor;
    struct mob_future *future, *peek, *view;
    char peeks[ROUNDS][MOB_TEXT_ID_MAX], views[ROUNDS][MOB_TEXT_ID_MAX];
    int64_t states[ROUNDS], expected = chaos_mix(8, 0);
    uint8_t *model = malloc(VIEW);
    OK(mob_actor_create(client, "chaos.Chain", MOB_ARGS(mob_i64(8)), &options, &actor));
    for (int i = 0; i < ROUNDS; i++) { /* all of it is under way at once */
        OK(mob_actor_call(actor, "step", MOB_ARGS(mob_i64(i)), NULL, &future));
        OK(mob_actor_call(actor, "peek", MOB_ARGS(mob_utf8(trace)), NULL, &peek));
        OK(mob_actor_call(actor, "view", MOB_ARGS(mob_utf8(trace), mob_i64(VIEW)), NULL, &view));
        mob_release(future);
        OK(mob_actor_call(actor, "step_by", MOB_ARGS(mob_ref(view)), NULL, &future));
        states[i] = expected = chaos_mix(expected, i);
        chaos_fill(expected, model, VIEW);
        expected = chaos_mix(expected, chaos_digest(model, VIEW, 1));
        assert_int_equal(get_of(peek), states[i]);
        assert_int_equal(get_of(future), expected);
        mob_future_id(peek, peeks[i]);
        mob_future_id(view, views[i]);
        mob_release(future);
        mob_release(peek);
        mob_release(view);
    }
    free(model);
    OK(mob_flush(client, PATIENCE));
    const int peeked = lines("peek"), viewed = lines("view");
    assert_int_equal(peeked, ROUNDS);
    assert_int_equal(viewed, ROUNDS);
    for (int again = 0; again < 2; again++) {
        again == 0 ? kill_workers() : lose_node();
        OK(mob_actor_find(client, "is read", &actor));
        OK(mob_actor_call(actor, "step", MOB_ARGS(mob_i64(9)), NULL, &future));
        expected = chaos_mix(expected, 9);
        assert_int_equal(get_of(future), expected);
        mob_release(future);
        for (int i = 0; i < ROUNDS; i++) {
            OK(mob_future_from_id(client, peeks[i], &peek));
            assert_int_equal(get_of(peek), states[i]);
            mob_release(peek);
            OK(mob_future_from_id(client, views[i], &view));
            check_bytes(view, states[i], VIEW);
            mob_release(view);
        }
        assert_int_equal(lines("peek"), peeked);
        assert_int_equal(lines("view"), viewed + (again == 0 ? 0 : ROUNDS));
    }
    OK(mob_actor_kill(actor, true));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(named_actor_outlives_its_worker),
        cmocka_unit_test(named_actor_outlives_the_node),
        cmocka_unit_test(named_actor_outlives_the_whole_cluster),
        cmocka_unit_test(actor_whose_calls_are_lost_ends),
        cmocka_unit_test(actor_that_replays_otherwise_ends),
        cmocka_unit_test(actor_that_replays_the_same_lives_on),
        cmocka_unit_test(lost_results_of_a_live_actor_are_made_again),
        cmocka_unit_test(lost_results_of_a_dead_actor_are_made_again),
        cmocka_unit_test(actor_that_dies_beside_its_shadow_restarts),
        cmocka_unit_test(large_checkpoints_replace_each_other),
        cmocka_unit_test(reads_are_not_repeated),
    };
    cmocka_set_test_filter(getenv("MOBULA_TEST")); /* one of them */
    return cmocka_run_group_tests_name("actor_restart", tests, set_up, tear_down);
}
