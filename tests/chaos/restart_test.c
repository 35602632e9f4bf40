/* What a restart finds: of the node, of the whole cluster, of a driver under its key. Results that were in
 * the dead node's memory only are made again on demand, each task once. ctest: timeout=600
 */
#include "tests/chaos/restart_fixture.h"

/* ---- everything ---- */

static void finished_and_unfinished_survive_the_whole_cluster(void **state)
{
    (void)state;
    struct mob_future *finished, *failed, *waiting, *dependent, *found;
    char id[MOB_TEXT_ID_MAX], failed_id[MOB_TEXT_ID_MAX], dependent_id[MOB_TEXT_ID_MAX];
    int64_t v;
    OK(mob_submit(client, "chaos.traced", MOB_ARGS(mob_utf8(trace), mob_i64(5)), NULL, &finished));
    OK(mob_submit(client, "chaos.trip", MOB_ARGS(mob_i64(5)), NULL, &failed));
    OK(mob_submit(client, "chaos.gated", MOB_ARGS(mob_utf8(gate)), NULL, &waiting));
    OK(mob_submit(client, "chaos.mix", MOB_ARGS(mob_i64(1), mob_ref(waiting)), NULL, &dependent));
    mob_future_id(finished, id);
    mob_future_id(failed, failed_id);
    mob_future_id(dependent, dependent_id);
    assert_int_equal(get_of(finished), chaos_mix(5, 1));
    assert_int_equal(mob_get_i64(failed, PATIENCE, &v), MOB_TASK_FAILED);
    OK(mob_flush(client, PATIENCE));
    mob_disconnect(client);
    kill_everything();
    connect_with(NULL);
    OK(mob_future_from_id(client, id, &found));
    assert_int_equal(get_of(found), chaos_mix(5, 1));
    assert_int_equal(lines("ran"), 1);
    OK(mob_future_from_id(client, failed_id, &found));
    assert_int_equal(mob_get_i64(found, PATIENCE, &v), MOB_TASK_FAILED);
    OK(mob_future_from_id(client, dependent_id, &found));
    assert_false(mob_ready(found));
    open_gate();
    assert_int_equal(get_of(found), chaos_mix(chaos_mix(1, 7), 1));
}

/* The spec of a call and its edge may lie in different blocks, a creation may die with its worker before the
 * constructor returned, a checkpoint may be ahead of the log: all three were wrong once, see dag_kill. */
static void actor_goes_on_after_the_whole_cluster(void **state)
{
    (void)state;
    struct mob_actor_options options = {.struct_size = sizeof options,
        .name = "chain",
        .detached = true,
        .max_restarts = -1,
        .checkpoint_every = 4};
    struct mob_actor *actor;
    struct mob_future *future;
    int64_t expected = chaos_mix(3, 0);
    OK(mob_actor_create(client, "chaos.Chain", MOB_ARGS(mob_i64(3)), &options, &actor));
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 10; i++) {
            OK(mob_actor_call(actor, "step", MOB_ARGS(mob_i64(i)), NULL, &future));
            expected = chaos_mix(expected, i);
            assert_int_equal(get_of(future), expected);
            mob_release(future);
        }
        mob_disconnect(client);
        kill_everything();
        connect_with(NULL);
        OK(mob_actor_find(client, "chain", &actor));
    }
    OK(mob_actor_kill(actor, true));
}

/* ---- the driver ---- */

static void driver_under_its_key_finds_its_futures(void **state)
{
    (void)state;
    int before = lines("ran");
    struct mob_future *futures[20];
    mob_disconnect(client);
    for (int run = 0; run < 3; run++) {
        connect_with("a key");
        for (int i = 0; i < 20; i++)
            OK(mob_submit(client, "chaos.traced", MOB_ARGS(mob_utf8(trace), mob_i64(i)), NULL, &futures[i]));
        for (int i = 0; i < 20; i++)
            assert_int_equal(get_of(futures[i]), chaos_mix(i, 1));
        mob_disconnect(client);
        if (run == 1)
            kill_everything();
    }
    assert_int_equal(lines("ran") - before, 20);
    connect_with("a key");
    struct mob_future *other;
    int64_t v;
    OK(mob_submit(client, "chaos.traced", MOB_ARGS(mob_utf8(trace), mob_i64(77)), NULL, &other));
    assert_int_equal(mob_get_i64(other, PATIENCE, &v), MOB_REPLAY_DIVERGED);
    mob_disconnect(client);
    connect_with(NULL);
}

/* Killed between two submissions, without a word. */
static void killed_driver_under_its_key_goes_on(void **state)
{
    (void)state;
    enum { N = 300 };
    int before = lines("ran");
    static struct mob_future *futures[N];
    mob_disconnect(client);
    for (int run = 0; run < 4; run++) {
        pid_t driver = fork();
        if (driver == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            connect_with("another key");
            for (int i = 0; i < 50 * (run + 1); i++)
                OK(mob_submit(
                    client, "chaos.traced", MOB_ARGS(mob_utf8(trace), mob_i64(i)), NULL, &futures[i]));
            OK(mob_flush(client, PATIENCE));
            raise(SIGKILL);
        }
        int status;
        assert_int_equal(waitpid(driver, &status, 0), driver);
        assert_true(WIFSIGNALED(status));
    }
    connect_with("another key");
    for (int i = 0; i < N; i++)
        OK(mob_submit(client, "chaos.traced", MOB_ARGS(mob_utf8(trace), mob_i64(i)), NULL, &futures[i]));
    for (int i = 0; i < N; i++)
        assert_int_equal(get_of(futures[i]), chaos_mix(i, 1));
    assert_int_equal(lines("ran") - before, N);
    mob_disconnect(client);
    connect_with(NULL);
}

/* ---- cancel of what ended with a tail call before the node did ---- */

/* The task has ended, whatever it became. */
static void wait_for_end_of(struct mob_future *future)
{
    char id[MOB_TEXT_ID_MAX];
    mob_future_task_id(future, id);
    for (int64_t deadline = mob_now() + PATIENCE;; poll(NULL, 0, 2)) {
        char *json = NULL;
        enum mob_status status = mob_query(client, "task", id, PATIENCE, &json);
        bool ended = status == MOB_NOT_FOUND || (json != NULL && strstr(json, "continued") != NULL);
        free(json);
        if (ended)
            return;
        if (mob_now() > deadline)
            fail_msg("%s does not end", id);
    }
}

/* Nobody has asked for its object since the restart. */
static void cancel_after_restart(struct mob_future *future)
{
    char id[MOB_TEXT_ID_MAX];
    int64_t v;
    wait_for_end_of(future);
    OK(mob_flush(client, PATIENCE));
    mob_future_id(future, id);
    mob_disconnect(client);
    kill_node();
    connect_with("cancels");
    OK(mob_future_from_id(client, id, &future));
    OK(mob_cancel(future, false));
    enum mob_status status = mob_get_i64(future, 20 * MOB_SEC, &v);
    if (status != MOB_CANCELLED)
        fail_msg("%s: %s", mob_status_code(status), status == MOB_OK ? "" : mob_future_error(future));
    mob_release(future);
}

static void what_a_task_became_is_cancelled_after_a_restart(void **state)
{
    (void)state;
    enum { BETWEEN = 600 }; /* in other groups, so that nothing of the one is read for the other */
    struct mob_future *deferred, *target, *became, *filler;
    char id[MOB_TEXT_ID_MAX];
    unlink(gate);
    mob_disconnect(client);
    connect_with("cancels");
    OK(mob_submit(client, "chaos.defers", MOB_ARGS(mob_utf8(gate)), NULL, &deferred));
    cancel_after_restart(deferred);
    OK(mob_submit(client, "chaos.defers", MOB_ARGS(mob_utf8(gate)), NULL, &deferred)); /* as before */
    OK(mob_submit(client, "chaos.gated", MOB_ARGS(mob_utf8(gate)), NULL, &target));
    mob_future_id(target, id);
    for (int i = 0; i < BETWEEN; i++) {
        OK(mob_submit(client, "chaos.mix", MOB_ARGS(mob_i64(i)), NULL, &filler));
        assert_int_equal(get_of(filler), chaos_mix(i, 1));
        mob_release(filler);
    }
    OK(mob_submit(client, "chaos.becomes", MOB_ARGS(mob_utf8(id)), NULL, &became));
    cancel_after_restart(became);
    mob_disconnect(client);
    connect_with(NULL);
}

/* ---- reconstruction ---- */

/* With all that was submitted in the log. In a session of its own: the one before maps the dead node's
 * memory.
 */
static void go_on_with_next_node(void)
{
    OK(mob_flush(client, PATIENCE));
    mob_disconnect(client);
    kill_node();
    connect_with(NULL);
}

/* These bytes are what a task sees that has the put as its argument. */
static void check_digest(struct mob_future *put, const uint8_t *bytes, size_t size)
{
    struct mob_future *digest;
    OK(mob_submit(client, "chaos.digest", MOB_ARGS(mob_ref(put), mob_i64(1)), NULL, &digest));
    assert_int_equal(get_of(digest), chaos_digest(bytes, size, 1));
    mob_release(digest);
}

/* The last of `n` results, each of `size` bytes and made of the one before; the seed of what it has to be. */
static struct mob_future *submit_chain(
    const char *path, int n, size_t size, const struct mob_submit_options *options, int64_t *seed_out)
{
    int64_t seed = 1, argument = (int64_t)size;
    uint8_t *bytes = malloc(size);
    struct mob_future *last, *next;
    assert_non_null(bytes);
    OK(mob_submit(client, "chaos.traced_blob", MOB_ARGS(mob_utf8(path), mob_i64(1), mob_i64(argument)),
        options, &last));
    for (int i = 1; i < n; i++) {
        chaos_fill(seed, bytes, size);
        seed = chaos_mix(bytes[0] + bytes[size - 1], i);
        OK(mob_submit(client, "chaos.traced_blob",
            MOB_ARGS(mob_utf8(path), mob_i64(i), mob_i64(argument), mob_ref(last)), options, &next));
        mob_release(last);
        last = next;
    }
    free(bytes);
    *seed_out = seed;
    return last;
}

static void large_put_of_a_driver_survives_the_node(void **state)
{
    (void)state;
    static uint8_t bytes[300000];
    struct mob_future *put;
    chaos_fill(9, bytes, sizeof bytes);
    OK(mob_put(client, mob_bytes(bytes, sizeof bytes), &put));
    OK(mob_flush(client, PATIENCE));
    kill_node();
    check_bytes(put, 9, sizeof bytes);
    kill_node();
    check_digest(put, bytes, sizeof bytes);
    mob_release(put);
}

static void put_that_nobody_waited_for_is_sent_again(void **state)
{
    (void)state;
    static uint8_t bytes[300000];
    struct mob_future *put;
    chaos_fill(11, bytes, sizeof bytes);
    OK(mob_put(client, mob_bytes(bytes, sizeof bytes), &put));
    kill_node();
    check_digest(put, bytes, sizeof bytes);
    mob_release(put);
}

/* A chain of results that are too large for the lineage: the last one is asked for after the node's death. */
static void lost_results_are_made_again_each_task_once(void **state)
{
    (void)state;
    const int n = driver_sanitized() ? 50 : 300;
    enum { BYTES = 100000 };
    int before = lines("made");
    int64_t seed;
    struct mob_future *last = submit_chain(trace, n, BYTES, NULL, &seed);
    check_bytes(last, seed, BYTES);
    assert_int_equal(lines("made") - before, n);
    char id[MOB_TEXT_ID_MAX];
    mob_future_id(last, id);
    go_on_with_next_node();
    OK(mob_future_from_id(client, id, &last));
    check_bytes(last, seed, BYTES);
    assert_int_equal(lines("made") - before, 2 * n);
    check_bytes(last, seed, BYTES);
    assert_int_equal(lines("made") - before, 2 * n);
    mob_release(last);
}

/* A future has one value: who has read it once never reads another under the same id. The function says so
 * itself when another one will do. */
static void what_comes_back_otherwise_is_told(void **state)
{
    (void)state;
    enum { BYTES = 100000 };
    struct mob_submit_options at_will = {.struct_size = sizeof at_will, .restart_on_divergence = true};
    struct mob_future *future, *again, *digest;
    char id[MOB_TEXT_ID_MAX], id_at_will[MOB_TEXT_ID_MAX];
    unlink(trace);
    OK(mob_submit(client, "chaos.fickle_blob", MOB_ARGS(mob_utf8(trace), mob_i64(BYTES)), NULL, &future));
    check_bytes(future, 0, BYTES);
    struct stat st;
    assert_int_equal(0, stat(trace, &st));
    OK(mob_submit(client, "chaos.fickle_blob", MOB_ARGS(mob_utf8(trace), mob_i64(BYTES)), &at_will, &again));
    check_bytes(again, st.st_size, BYTES);
    mob_future_id(future, id);
    mob_future_id(again, id_at_will);
    go_on_with_next_node();
    OK(mob_future_from_id(client, id, &future));
    struct mob_value *value;
    assert_int_equal(MOB_REPLAY_DIVERGED, mob_get(future, PATIENCE, &value));
    assert_non_null(strstr(mob_future_error(future), "gave others when it ran again"));
    OK(mob_submit(client, "chaos.digest", MOB_ARGS(mob_ref(future), mob_i64(1)), NULL, &digest));
    assert_int_equal(MOB_DEPENDENCY_FAILED, mob_get(digest, PATIENCE, &value));
    assert_int_equal(0, stat(trace, &st));
    OK(mob_future_from_id(client, id_at_will, &again));
    check_bytes(again, st.st_size, BYTES);
    mob_release(future);
    mob_release(again);
    mob_release(digest);
}

/* So it is with what a task puts, which it reads itself as everybody does. */
static void a_put_that_comes_back_otherwise_is_told(void **state)
{
    (void)state;
    enum { BYTES = 100000 };
    struct mob_future *steady, *fickle;
    char steady_id[MOB_TEXT_ID_MAX], fickle_id[MOB_TEXT_ID_MAX];
    unlink(trace);
    OK(mob_submit(
        client, "chaos.fickle_put", MOB_ARGS(mob_utf8(trace), mob_i64(BYTES), mob_i64(1)), NULL, &steady));
    check_bytes(steady, 7, BYTES);
    struct stat st;
    assert_int_equal(0, stat(trace, &st));
    OK(mob_submit(
        client, "chaos.fickle_put", MOB_ARGS(mob_utf8(trace), mob_i64(BYTES), mob_i64(0)), NULL, &fickle));
    check_bytes(fickle, st.st_size, BYTES);
    mob_future_id(steady, steady_id);
    mob_future_id(fickle, fickle_id);
    go_on_with_next_node();
    OK(mob_future_from_id(client, steady_id, &steady));
    check_bytes(steady, 7, BYTES);
    assert_int_equal(lines("put"), 3);
    assert_int_equal(lines("unread"), 0);
    OK(mob_future_from_id(client, fickle_id, &fickle));
    struct mob_value *value;
    assert_int_equal(MOB_REPLAY_DIVERGED, mob_get(fickle, PATIENCE, &value));
    assert_non_null(strstr(mob_future_error(fickle), "gave others when it ran again"));
    for (int i = 0; i < 30000 && lines("unread") == 0; i++)
        usleep(1000); /* the driver may hear of it first */
    assert_int_equal(lines("put"), 4);
    assert_int_equal(lines("unread"), 1);
    mob_release(steady);
    mob_release(fickle);
}

/* The same deep: never by recursion. More than the segment holds, so what is done with goes: the function
 * says that it gives the same again. */
static void lineage_100000_deep_is_followed(void **state)
{
    (void)state;
    const char *depth = getenv("MOBULA_LINEAGE_DEPTH");
    const int n = depth != NULL ? atoi(depth) : driver_sanitized() ? 5000 : 100000;
    struct mob_submit_options options = {.struct_size = sizeof options, .deterministic = true};
    int64_t seed;
    struct mob_future *last = submit_chain("/dev/null", n, 5000, &options, &seed);
    check_bytes(last, seed, 5000);
    char id[MOB_TEXT_ID_MAX];
    mob_future_id(last, id);
    go_on_with_next_node();
    OK(mob_future_from_id(client, id, &last));
    check_bytes(last, seed, 5000);
    mob_release(last);
}

/* ---- replay of a running task ---- */

static void read_lines(const char *what, char out[2][256])
{
    int n = 0;
    FILE *file = fopen(trace, "r");
    while (file != NULL && n < 2 && fgets(out[n], 256, file) != NULL)
        n += strncmp(out[n], what, strlen(what)) == 0;
    if (file != NULL)
        fclose(file);
    assert_int_equal(n, 2);
}

static void replay_finds_children_and_outcomes(void **state)
{
    (void)state;
    pid_t workers[64];
    struct mob_future *future;
    unlink(trace);
    unlink(gate);
    int64_t expected = 0;
    for (int i = 0; i < 30; i++)
        expected = chaos_mix(expected, chaos_mix(i, 1));
    OK(mob_submit(
        client, "chaos.parent", MOB_ARGS(mob_utf8(trace), mob_utf8(gate), mob_i64(30)), NULL, &future));
    wait_for_lines("waits", 1);
    OK(mob_flush(client, PATIENCE)); /* the line is outside of the system and ran ahead of the log */
    kill_node();
    wait_for_lines("waits", 2);
    char two[2][256];
    read_lines("waits", two);
    assert_string_equal(two[0], two[1]); /* clock, draw and the time-out of a get were read back */
    assert_non_null(strstr(two[0], "get=timeout"));
    int n = node_box_workers(&box, workers, 64);
    for (int i = 0; i < n; i++)
        kill(workers[i], SIGKILL);
    wait_for_lines("waits", 3);
    open_gate();
    assert_int_equal(get_of(future), expected);
    assert_int_equal(lines("ran"), 30);
    mob_release(future);
}

static void replay_that_asks_for_something_else_is_told(void **state)
{
    (void)state;
    struct mob_future *future;
    int64_t v;
    unlink(trace);
    OK(mob_submit(client, "chaos.diverges", MOB_ARGS(mob_utf8(trace)), NULL, &future));
    enum mob_status status = mob_get_i64(future, PATIENCE, &v);
    if (status != MOB_REPLAY_DIVERGED)
        fail_msg("%s: %s", mob_status_code(status), status == MOB_OK ? "" : mob_future_error(future));
    mob_release(future);
}

/* First run, the replay that differs, and a run in the next generation, whose child is a new one. */
static void replay_that_differs_starts_over_when_asked_to(void **state)
{
    (void)state;
    struct mob_submit_options options = {
        .struct_size = sizeof options, .restart_on_divergence = true, .max_retries = 1};
    static const char *const functions[] = {"chaos.diverges", "chaos.shrugs"};
    for (int f = 0; f < 2; f++) {
        struct mob_future *future;
        struct stat st;
        const char *word = functions[f] + strlen("chaos.");
        unlink(trace);
        OK(mob_submit(client, functions[f], MOB_ARGS(mob_utf8(trace)), &options, &future));
        int64_t v = get_of(future);
        assert_int_equal(lines(word), 3);
        assert_int_equal(stat(trace, &st), 0);
        int64_t before = (int64_t)st.st_size / 3 * 2; /* what the third run found */
        assert_int_equal(v, f == 0 ? chaos_mix(before, 1) : before);
        mob_release(future);
    }
}

static void retry_after_an_error_takes_the_next_generation(void **state)
{
    (void)state;
    struct mob_submit_options options = {
        .struct_size = sizeof options, .retry_on_error = true, .max_retries = 5};
    struct mob_future *future;
    unlink(trace);
    OK(mob_submit(client, "chaos.flaky", MOB_ARGS(mob_utf8(trace), mob_i64(3)), &options, &future));
    assert_int_equal(get_of(future), 3);
    assert_int_equal(lines("tried"), 3);
    assert_int_equal(lines("ran"), 3); /* a fresh child each */
    mob_release(future);
}

/* The id that a line of the trace begins with this word and ends with. */
static void id_in_trace(const char *word, char id_out[MOB_TEXT_ID_MAX])
{
    char line[256];
    bool found = false;
    FILE *file = fopen(trace, "r");
    assert_non_null(file);
    while (!found && fgets(line, sizeof line, file) != NULL)
        found = strncmp(line, word, strlen(word)) == 0 && line[strlen(word)] == ' ' &&
            sscanf(line + strlen(word), " %47s", id_out) == 1;
    fclose(file);
    assert_true(found);
}

/* What it puts, and passes by way of a put, is its own in each generation; when they are lost with the node,
 * each is made again as it was, the failed ones' too. */
static void each_generation_has_puts_of_its_own(void **state)
{
    (void)state;
    enum { GENERATIONS = 3, BYTES = 100000 };
    struct mob_submit_options options = {.struct_size = sizeof options,
        .retry_on_error = true,
        .max_retries = 5,
        .backoff_initial_ns = 1000000};
    struct mob_future *future, *put;
    uint8_t *bytes = malloc(BYTES);
    assert_non_null(bytes);
    unlink(trace);
    chaos_fill(GENERATIONS, bytes, BYTES);
    int64_t digest = chaos_digest(bytes, BYTES, 1), expected = chaos_mix(chaos_mix(0, digest), digest);
    free(bytes);
    OK(mob_submit(
        client, "chaos.flaky_put", MOB_ARGS(mob_utf8(trace), mob_i64(GENERATIONS)), &options, &future));
    assert_int_equal(get_of(future), expected);
    mob_release(future);
    OK(mob_flush(client, PATIENCE));
    for (int asked = GENERATIONS; asked > 0; asked--) { /* each time all are lost */
        char word[16], id[MOB_TEXT_ID_MAX];
        mob_disconnect(client); /* it maps the dead node's memory */
        kill_node();
        connect_with(NULL);
        snprintf(word, sizeof word, "put%d", asked);
        id_in_trace(word, id);
        OK(mob_future_from_id(client, id, &put));
        check_bytes(put, asked, BYTES);
        mob_release(put);
    }
    assert_int_equal(lines("generation"), GENERATIONS);
    assert_int_equal(lines("put1"), 2);
    assert_true(lines("put3") >= 2);
}

static void promise_outlives_the_node(void **state)
{
    (void)state;
    struct mob_future *promise, *waiting;
    OK(mob_promise(client, &promise));
    OK(mob_submit(client, "chaos.mix", MOB_ARGS(mob_i64(1), mob_ref(promise)), NULL, &waiting));
    OK(mob_flush(client, PATIENCE));
    kill_node();
    OK(mob_fulfil(promise, mob_i64(4)));
    assert_int_equal(get_of(waiting), chaos_mix(chaos_mix(1, 4), 1));
    mob_release(promise);
    mob_release(waiting);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finished_and_unfinished_survive_the_whole_cluster),
        cmocka_unit_test(actor_goes_on_after_the_whole_cluster),
        cmocka_unit_test(driver_under_its_key_finds_its_futures),
        cmocka_unit_test(killed_driver_under_its_key_goes_on),
        cmocka_unit_test(what_a_task_became_is_cancelled_after_a_restart),
        cmocka_unit_test(large_put_of_a_driver_survives_the_node),
        cmocka_unit_test(put_that_nobody_waited_for_is_sent_again),
        cmocka_unit_test(lost_results_are_made_again_each_task_once),
        cmocka_unit_test(what_comes_back_otherwise_is_told),
        cmocka_unit_test(a_put_that_comes_back_otherwise_is_told),
        cmocka_unit_test(lineage_100000_deep_is_followed),
        cmocka_unit_test(replay_finds_children_and_outcomes),
        cmocka_unit_test(replay_that_asks_for_something_else_is_told),
        cmocka_unit_test(replay_that_differs_starts_over_when_asked_to),
        cmocka_unit_test(retry_after_an_error_takes_the_next_generation),
        cmocka_unit_test(each_generation_has_puts_of_its_own),
        cmocka_unit_test(promise_outlives_the_node),
    };
    cmocka_set_test_filter(getenv("MOBULA_TEST")); /* one of them */
    return cmocka_run_group_tests_name("restart", tests, set_up, tear_down);
}
