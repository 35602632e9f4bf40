/* Functions that crash, hang, hoard; cancels, deadlines, resources, names, generators, a graceful stop, an
 * idle cluster: each on a real node of two slots. ctest: timeout=300
 */
#include <mobula/mobula.h>

#include <poll.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "common/base/clock.h"
#include "tests/modules/chaos_model.h"
#include "tests/support/driver.h"
#include "tests/support/node_box.h"

#define PATIENCE (60 * MOB_SEC)

static struct node_box box;
static struct mob_client *client;
static char trace[DRIVER_PATH_MAX], gate[DRIVER_PATH_MAX];

static int set_up(void **state)
{
    (void)state;
    static const char *const args[] = {
        "--resources", "disk=2.5,memory=1000000000", "--idle-reap-ms", "300", "--blocked-max", "20", NULL};
    client = driver_box_start(&box, args, "chaos");
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    driver_box_stop(&box, client);
    return 0;
}

static int fresh_files(void **state)
{
    (void)state;
    driver_fresh_files(&box, trace, gate);
    return 0;
}

static struct mob_future *submit(
    const char *function, struct mob_args args, const struct mob_submit_options *options)
{
    struct mob_future *future;
    OK(mob_submit(client, function, args, options, &future));
    return future;
}

static int64_t get_of(struct mob_future *future)
{
    int64_t v = -1;
    enum mob_status status = mob_get_i64(future, PATIENCE, &v);
    if (status != MOB_OK)
        fail_msg("%s: %s", mob_status_code(status), status == MOB_TIMEOUT ? "" : mob_future_error(future));
    mob_release(future);
    return v;
}

/* Its error as JSON; lives until release. */
static const char *error_of(struct mob_future *future, enum mob_status expected)
{
    int64_t v;
    enum mob_status status = mob_get_i64(future, PATIENCE, &v);
    const char *error = status == MOB_OK || status == MOB_TIMEOUT ? "" : mob_future_error(future);
    if (status != expected)
        fail_msg("%s instead of %s: %s", mob_status_code(status), mob_status_code(expected), error);
    return error;
}

static void says(const char *error, const char *what)
{
    if (strstr(error, what) == NULL)
        fail_msg("\"%s\" is not in %s", what, error);
}

/* Until the answer to why a live task waits has this in it. */
static void wait_for(struct mob_future *future, const char *wanted)
{
    char id[MOB_TEXT_ID_MAX], *why;
    mob_future_task_id(future, id);
    for (int64_t deadline = mob_now() + PATIENCE;; poll(NULL, 0, 2)) {
        bool there = mob_query(client, "why", id, PATIENCE, &why) == MOB_OK;
        bool good = there && strstr(why, wanted) != NULL;
        if (mob_now() > deadline)
            fail_msg("not %s: %s", wanted, there ? why : mob_client_error(client));
        if (there)
            free(why);
        if (good)
            return;
    }
}

static void wait_for_reason(struct mob_future *future, const char *reason)
{
    char wanted[64];
    snprintf(wanted, sizeof wanted, "\"reason\":\"%s\"", reason);
    wait_for(future, wanted);
}

/* ---- death ---- */

static void death_is_told_with_signal_log_and_task(void **state)
{
    (void)state;
    static const struct {
        int64_t how;
        const char *signal;
    } ways[] = {
        {0, "\"signal\":11"}, {1, "\"signal\":6"}, {2, "status 3"}, {3, "\"signal\":9"}, {4, "status 0"}};
    struct mob_submit_options options = {.struct_size = sizeof options,
        .max_retries = 2,
        .backoff_initial_ns = MOB_MS,
        .backoff_max_ns = MOB_MS};
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        char id[MOB_TEXT_ID_MAX];
        int before = trace_lines(trace, "dies");
        struct mob_future *future =
            submit("chaos.dies", MOB_ARGS(mob_utf8(trace), mob_i64(ways[i].how)), &options);
        mob_future_task_id(future, id);
        const char *error = error_of(future, MOB_WORKER_DIED);
        says(error, ways[i].signal);
        says(error, "the last words of a task");
        says(error, id);
        assert_int_equal(trace_lines(trace, "dies") - before, 3);
        mob_release(future);
    }
}

static void no_retry_means_one_run(void **state)
{
    (void)state;
    struct mob_submit_options options = {.struct_size = sizeof options, .max_retries = MOB_NO_RETRY};
    struct mob_future *future = submit("chaos.dies", MOB_ARGS(mob_utf8(trace), mob_i64(3)), &options);
    (void)error_of(future, MOB_WORKER_DIED);
    assert_int_equal(trace_lines(trace, "dies"), 1);
    mob_release(future);
}

static void kill_zygote(void)
{
    pid_t zygote = 0;
    assert_int_equal(node_box_zygote(&box, &zygote), 1);
    assert_int_equal(kill(zygote, SIGKILL), 0);
}

/* So many lines of `what` are in the trace. */
static void wait_for_trace(const char *what, int lines)
{
    for (int64_t deadline = mob_now() + PATIENCE; trace_lines(trace, what) < lines; poll(NULL, 0, 2))
        assert_true(mob_now() < deadline);
}

/* It runs nobody's code, so nobody is to blame: of what its death takes all runs again, whatever it has left.
 */
static void death_of_the_zygote_is_nobodys_fault(void **state)
{
    (void)state;
    struct mob_submit_options options = {.struct_size = sizeof options,
        .max_retries = MOB_NO_RETRY,
        .backoff_initial_ns = MOB_MS,
        .backoff_max_ns = MOB_MS};
    struct mob_actor *actor;
    struct mob_future *before, *after;
    OK(mob_actor_create(client, "chaos.Chain", MOB_ARGS(mob_i64(1)), NULL, &actor)); /* no restarts */
    OK(mob_actor_call(actor, "step", MOB_ARGS(mob_i64(1)), NULL, &before));
    int64_t expected = chaos_mix(chaos_mix(1, 0), 1);
    assert_int_equal(get_of(before), expected);
    struct mob_future *future =
        submit("chaos.parent", MOB_ARGS(mob_utf8(trace), mob_utf8(gate), mob_i64(1)), &options);
    for (int i = 1; i <= 5; i++) {
        wait_for_trace("waits", i);
        kill_zygote();
    }
    wait_for_trace("waits", 6);
    gate_open(gate);
    (void)get_of(future);
    OK(mob_actor_call(actor, "step", MOB_ARGS(mob_i64(2)), NULL, &after));
    assert_int_equal(get_of(after), chaos_mix(expected, 2));
    OK(mob_actor_kill(actor, true));
}

static void stopped_worker_is_killed_by_force(void **state)
{
    (void)state;
    struct mob_submit_options options = {.struct_size = sizeof options, .max_retries = MOB_NO_RETRY};
    struct mob_future *future = submit("chaos.stops", MOB_NO_ARGS, &options);
    wait_for_reason(future, "running");
    int64_t begin = mob_now();
    OK(mob_cancel(future, true));
    (void)error_of(future, MOB_CANCELLED);
    assert_true(mob_now() - begin < 20 * MOB_SEC);
    mob_release(future);
    assert_int_equal(get_of(submit("chaos.mix", MOB_ARGS(mob_i64(1)), NULL)), chaos_mix(1, 1));
}

static void poison_ends_as_an_error_of_its_call(void **state)
{
    (void)state;
    struct mob_actor_options options = {.struct_size = sizeof options, .max_restarts = 2};
    struct mob_actor *actor;
    struct mob_future *poison, *after, *before;
    OK(mob_actor_create(client, "chaos.Chain", MOB_ARGS(mob_i64(1)), &options, &actor));
    OK(mob_actor_call(actor, "step", MOB_ARGS(mob_i64(1)), NULL, &before));
    OK(mob_actor_call(actor, "poison", MOB_NO_ARGS, NULL, &poison));
    OK(mob_actor_call(actor, "step", MOB_ARGS(mob_i64(2)), NULL, &after));
    assert_int_equal(get_of(before), chaos_mix(chaos_mix(1, 0), 1));
    const char *error = error_of(poison, MOB_ACTOR_DIED);
    says(error, "\"signal\":11");
    says(error, "its worker died of signal 11");
    says(error, "swallowing poison"); /* what it printed */
    error =
        error_of(after, MOB_ACTOR_DIED); /* it never ran: why the actor is dead, and no signal of its own */
    says(error, "\"signal\":0");
    says(error, "its worker died of signal 11");
    mob_release(poison);
    mob_release(after);
    mob_actor_release(actor);
}

/* ---- cancel, time, resources ---- */

static void queued_and_running_and_children_are_cancelled(void **state)
{
    (void)state;
    struct mob_future *blocking = submit("chaos.blocks", MOB_ARGS(mob_utf8(gate)), NULL);
    struct mob_future *waiting = submit("chaos.mix", MOB_ARGS(mob_i64(1), mob_ref(blocking)), NULL);
    wait_for_reason(blocking, "blocked");
    OK(mob_cancel(waiting, false));
    (void)error_of(waiting, MOB_CANCELLED);
    OK(mob_cancel(blocking, true));
    (void)error_of(blocking, MOB_CANCELLED);
    mob_release(waiting);
    mob_release(blocking);
    /* its child is gone with it: both slots are free */
    struct mob_future *a = submit("chaos.mix", MOB_ARGS(mob_i64(1)), NULL);
    assert_int_equal(get_of(a), chaos_mix(1, 1));
}

/* Behind one that runs, in the hands of its worker. The gate is open when their turn comes, so what runs then
 * returns. */
static void what_a_worker_holds_is_cancelled_before_it_starts(void **state)
{
    (void)state;
    enum { SHORT = 2000, BEHIND = 40 };
    char closed[176];
    struct mob_future *behind[BEHIND], **shorts = malloc(SHORT * sizeof(struct mob_future *));
    snprintf(closed, sizeof closed, "%s.closed", gate);
    gate_open(gate);
    for (int i = 0; i < SHORT; i++) /* the function counts as short: others are sent behind one of it */
        shorts[i] = submit("chaos.gated", MOB_ARGS(mob_utf8(gate)), NULL);
    for (int i = 0; i < SHORT; i++)
        assert_int_equal(get_of(shorts[i]), 7);
    free(shorts);
    struct mob_future *runs = submit("chaos.gated", MOB_ARGS(mob_utf8(closed)), NULL);
    wait_for_reason(runs, "running");
    for (int i = 0; i < BEHIND; i++)
        behind[i] = submit("chaos.gated", MOB_ARGS(mob_utf8(closed)), NULL);
    for (int i = 0; i < BEHIND; i++)
        OK(mob_cancel(behind[i], false));
    char id[MOB_TEXT_ID_MAX], *answer = NULL;
    mob_future_task_id(runs, id);
    OK(mob_query(client, "why", id, PATIENCE, &answer)); /* the node has read what came before it */
    free(answer);
    gate_open(closed);
    for (int i = 0; i < BEHIND; i++) {
        (void)error_of(behind[i], MOB_CANCELLED);
        mob_release(behind[i]);
    }
    assert_int_equal(get_of(runs), 7);
}

/* How many tasks were taken back from workers so far. */
static int64_t revoked(void)
{
    char *answer;
    OK(mob_query(client, "stats", "", PATIENCE, &answer));
    const char *at = strstr(answer, "\"revoked\":");
    assert_non_null(at);
    int64_t count = strtoll(at + strlen("\"revoked\":"), NULL, 10);
    free(answer);
    return count;
}

/* Runs one task that does not end, with others that become ready at the same time and come to their end
 * though it runs. Was any of them sent behind it? */
static bool some_stood_behind_a_long_task(int round)
{
    enum { SHORT = 2000, BEHIND = 300, AN_HOUR_MS = 3600 * 1000 };
    static struct mob_future *shorts[SHORT];
    char door[sizeof gate + 16];
    snprintf(door, sizeof door, "%s.%d", gate, round);
    for (int i = 0; i < SHORT; i++)
        shorts[i] = submit("chaos.slow", MOB_ARGS(mob_i64(i), mob_i64(0)), NULL);
    for (int i = 0; i < SHORT; i++)
        assert_int_equal(get_of(shorts[i]), chaos_mix(i, 1));
    int64_t before = revoked();
    struct mob_future *start = submit("chaos.gated", MOB_ARGS(mob_utf8(door)), NULL);
    struct mob_future *lasts = submit("chaos.slow", MOB_ARGS(mob_ref(start), mob_i64(AN_HOUR_MS)), NULL);
    for (int i = 0; i < BEHIND; i++)
        shorts[i] = submit("chaos.slow", MOB_ARGS(mob_ref(start), mob_i64(0)), NULL);
    wait_for_reason(shorts[BEHIND - 1], "inputs");
    gate_open(door);
    assert_int_equal(get_of(start), 7);
    for (int i = 0; i < BEHIND; i++)
        assert_int_equal(get_of(shorts[i]), chaos_mix(7, 1));
    wait_for_reason(lasts, "running");
    bool stood = revoked() > before;
    OK(mob_cancel(lasts, true));
    (void)error_of(lasts, MOB_CANCELLED);
    mob_release(lasts);
    return stood;
}

/* A function that was short a thousand times, and then is not. All become ready at once, so that some are
 * sent behind the long one: at the latest in a round in which the short ones were let run, for on a busy
 * machine they may measure too long for that. */
static void what_stands_behind_a_long_task_runs_meanwhile(void **state)
{
    (void)state;
    int64_t deadline = mob_now() + PATIENCE;
    for (int round = 0; !some_stood_behind_a_long_task(round); round++)
        if (mob_now() > deadline)
            fail_msg("in %d rounds none stood behind the long task", round + 1);
}

/* Calls that wait in the actor's worker: cancelled, or out of time. Both are told while the one before them
 * runs. The others keep their order, and a replay leaves out the same ones, however late it is. */
static void calls_behind_a_running_one_are_cancelled(void **state)
{
    (void)state;
    struct mob_actor_options options = {.struct_size = sizeof options, .max_restarts = 2};
    struct mob_submit_options brief = {.struct_size = sizeof brief, .timeout_ns = 300 * MOB_MS};
    struct mob_actor *actor;
    struct mob_future *in_time, *runs, *first, *cancelled, *late, *last;
    OK(mob_actor_create(client, "chaos.Chain", MOB_ARGS(mob_i64(1)), &options, &actor));
    OK(mob_actor_call(actor, "step", MOB_ARGS(mob_i64(9)), &brief, &in_time));
    int64_t expected = chaos_mix(1, 0), v;
    if (mob_get_i64(in_time, PATIENCE, &v) == MOB_OK) /* on a machine that is not too slow for it */
        expected = chaos_mix(expected, 9);
    OK(mob_actor_call(
        actor, "blob", MOB_ARGS(mob_i64(1), mob_i64(8), mob_utf8(trace), mob_utf8(gate)), NULL, &runs));
    OK(mob_actor_call(actor, "step", MOB_ARGS(mob_i64(2)), NULL, &first));
    OK(mob_actor_call(actor, "step", MOB_ARGS(mob_i64(3)), NULL, &cancelled));
    OK(mob_actor_call(actor, "step", MOB_ARGS(mob_i64(4)), &brief, &late));
    OK(mob_actor_call(actor, "step", MOB_ARGS(mob_i64(5)), NULL, &last));
    wait_for_reason(runs, "running");
    wait_for_reason(cancelled, "batch");
    OK(mob_cancel(cancelled, false));
    (void)error_of(cancelled, MOB_CANCELLED); /* while that one runs */
    (void)error_of(late, MOB_DEADLINE);
    wait_for_reason(runs, "running");
    gate_open(gate);
    expected = chaos_mix(chaos_mix(expected, 1), 2);
    assert_int_equal(get_of(first), expected);
    expected = chaos_mix(expected, 5);
    assert_int_equal(get_of(last), expected);
    OK(mob_actor_kill(actor, false));
    OK(mob_actor_call(actor, "step", MOB_ARGS(mob_i64(6)), NULL, &last));
    assert_int_equal(get_of(last), chaos_mix(expected, 6));
    mob_release(in_time);
    mob_release(runs);
    mob_release(cancelled);
    mob_release(late);
    OK(mob_actor_kill(actor, true));
    mob_actor_release(actor);
}

static void deadline_ends_a_task(void **state)
{
    (void)state;
    struct mob_submit_options options = {.struct_size = sizeof options, .timeout_ns = 50 * MOB_MS};
    struct mob_future *future = submit("chaos.gated", MOB_ARGS(mob_utf8(gate)), &options);
    int64_t v;
    enum mob_status status = mob_get_i64(future, PATIENCE, &v);
    if (status != MOB_DEADLINE && status != MOB_CANCELLED) /* it may say itself that it was asked to stop */
        fail_msg("%s", mob_status_code(status));
    mob_release(future);
}

static void delayed_task_waits(void **state)
{
    (void)state;
    struct mob_submit_options options = {.struct_size = sizeof options, .delay_ns = 200 * MOB_MS};
    int64_t begin = mob_now();
    struct mob_future *future = submit("chaos.mix", MOB_ARGS(mob_i64(1)), &options);
    wait_for_reason(future, "delayed");
    assert_int_equal(get_of(future), chaos_mix(1, 1));
    assert_true(mob_now() - begin >= 190 * MOB_MS);
}

/* While `holds`, which waits at the gate, has what the options ask for, another one waits for it; for `more`
 * than there is nobody waits. */
static void assert_shared(
    struct mob_future *holds, struct mob_submit_options *options, const struct mob_resource *more)
{
    struct mob_future *waits = submit("chaos.mix", MOB_ARGS(mob_i64(1)), options);
    wait_for_reason(waits, "resources");
    options->resources = more;
    struct mob_future *never = submit("chaos.mix", MOB_ARGS(mob_i64(3)), options);
    wait_for_reason(never, "unsatisfiable");
    OK(mob_cancel(never, false));
    (void)error_of(never, MOB_CANCELLED);
    mob_release(never);
    gate_open(gate);
    assert_int_equal(get_of(holds), 7);
    assert_int_equal(get_of(waits), chaos_mix(1, 1));
}

static void named_resources_are_shared_by_fractions(void **state)
{
    (void)state;
    struct mob_resource two = {"disk", 2}, half = {"disk", 0.5}, ten = {"disk", 10};
    struct mob_submit_options options = {
        .struct_size = sizeof options, .cpus = -1, .resources = &two, .resource_count = 1};
    struct mob_future *holds = submit("chaos.gated", MOB_ARGS(mob_utf8(gate)), &options);
    wait_for_reason(holds, "running");
    options.resources = &half; /* before the next one: what waits for more is not overtaken for ever */
    assert_int_equal(get_of(submit("chaos.mix", MOB_ARGS(mob_i64(2)), &options)), chaos_mix(2, 1));
    options.resources = &two;
    assert_shared(holds, &options, &ten);
}

/* More bytes than fit in 32 bits of 1/10000. */
static void memory_is_counted_in_bytes(void **state)
{
    (void)state;
    struct mob_resource most = {"memory", 6e8}, more = {"memory", 2e9};
    struct mob_submit_options options = {
        .struct_size = sizeof options, .cpus = -1, .resources = &most, .resource_count = 1};
    struct mob_future *holds = submit("chaos.gated", MOB_ARGS(mob_utf8(gate)), &options);
    wait_for_reason(holds, "running");
    assert_shared(holds, &options, &more);
}

/* ---- actors, generators, errors ---- */

static void a_name_is_taken_given_and_free_again(void **state)
{
    (void)state;
    struct mob_actor_options options = {.struct_size = sizeof options, .name = "one"};
    struct mob_actor *actor, *other;
    char id[MOB_TEXT_ID_MAX], other_id[MOB_TEXT_ID_MAX];
    OK(mob_actor_create(client, "chaos.Chain", MOB_ARGS(mob_i64(1)), &options, &actor));
    assert_int_equal(
        mob_actor_create(client, "chaos.Chain", MOB_ARGS(mob_i64(1)), &options, &other), MOB_EXISTS);
    options.return_if_exists = true;
    OK(mob_actor_create(client, "chaos.Chain", MOB_ARGS(mob_i64(1)), &options, &other));
    mob_actor_id(actor, id);
    mob_actor_id(other, other_id);
    assert_string_equal(id, other_id);
    OK(mob_actor_kill(actor, true));
    OK(mob_actor_create(client, "chaos.Chain", MOB_ARGS(mob_i64(1)), &options, &other));
    mob_actor_id(other, other_id);
    assert_string_not_equal(id, other_id);
    OK(mob_actor_kill(other, true));
}

static void calls_of_each_caller_keep_their_order(void **state)
{
    (void)state;
    struct mob_actor *actor;
    struct mob_future *futures[500], *callers[4];
    OK(mob_actor_create(client, "chaos.Chain", MOB_ARGS(mob_i64(1)), NULL, &actor));
    OK(mob_actor_call(actor, "set", MOB_ARGS(mob_i64(0)), NULL, &futures[0]));
    (void)get_of(futures[0]);
    for (int i = 0; i < 500; i++)
        OK(mob_actor_call(actor, "expect", MOB_ARGS(mob_i64(i + 1)), NULL, &futures[i]));
    for (int i = 0; i < 500; i++)
        assert_int_equal(get_of(futures[i]), i + 1);
    for (int i = 0; i < 4; i++)
        callers[i] = submit("chaos.steps", MOB_ARGS(mob_actor_handle(actor), mob_i64(50)), NULL);
    for (int i = 0; i < 4; i++)
        (void)get_of(callers[i]);
    OK(mob_actor_kill(actor, true));
}

static void errors_flow_through_dependents_with_their_causes(void **state)
{
    (void)state;
    struct mob_future *a = submit("chaos.trip", MOB_ARGS(mob_i64(41)), NULL);
    struct mob_future *b = submit("chaos.mix", MOB_ARGS(mob_i64(1), mob_ref(a)), NULL);
    struct mob_future *c = submit("chaos.mix", MOB_ARGS(mob_i64(1), mob_ref(b)), NULL);
    const char *error = error_of(c, MOB_DEPENDENCY_FAILED);
    says(error, "cause");
    says(error, "tripped at 41");
    mob_release(a);
    mob_release(b);
    mob_release(c);
}

static void generator_gives_all_its_items(void **state)
{
    (void)state;
    struct mob_future *stream = submit("chaos.counts", MOB_ARGS(mob_i64(3), mob_i64(200)), NULL), *item;
    for (int64_t i = 0; i < 200; i++) {
        OK(mob_stream_next(stream, PATIENCE, &item));
        assert_int_equal(get_of(item), chaos_mix(3, i));
    }
    assert_int_equal(mob_stream_next(stream, PATIENCE, &item), MOB_NOT_FOUND);
    mob_release(stream);
}

/* ---- bounds ---- */

/* A chain of tasks that each block on the next one, longer than the bound. */
static void bound_of_blocked_workers_is_a_typed_error(void **state)
{
    (void)state;
    struct mob_submit_options options = {.struct_size = sizeof options, .max_retries = MOB_NO_RETRY};
    struct mob_future *future = submit("chaos.nest", MOB_ARGS(mob_i64(1), mob_i64(1), mob_i64(40)), &options);
    int64_t v;
    enum mob_status status = mob_get_i64(future, PATIENCE, &v);
    if (status == MOB_OK || status == MOB_TIMEOUT)
        fail_msg("%s", mob_status_code(status));
    says(mob_future_error(future), "too-many-blocked");
    mob_release(future);
    assert_int_equal(get_of(submit("chaos.mix", MOB_ARGS(mob_i64(1)), NULL)), chaos_mix(1, 1));
}

static bool may_take_precedence(void)
{
    if (sched_getscheduler(0) != SCHED_OTHER || getpriority(PRIO_PROCESS, 0) != 0)
        return false;
    pid_t child = fork();
    if (child == 0)
        _exit(setpriority(PRIO_PROCESS, 0, -5) == 0 ? 0 : 1);
    int status = 1;
    assert_int_equal(child, waitpid(child, &status, 0));
    return status == 0;
}

static int nice_of(pid_t pid)
{
    return getpriority(PRIO_PROCESS, (id_t)pid);
}

/* Tasks without end, until the node is seen with `nice`. */
static void load_until_node_has_nice(int nice)
{
    enum { N = 5000 };
    static struct mob_future *futures[N];
    int64_t deadline = mob_now() + PATIENCE;
    for (bool seen = false; !seen;) {
        for (int i = 0; i < N; i++) {
            futures[i] = submit("chaos.mix", MOB_ARGS(mob_i64(i)), NULL);
            seen |= i % 16 == 0 && nice_of(box.node) == nice;
        }
        for (int i = 0; i < N; i++)
            assert_int_equal(get_of(futures[i]), chaos_mix(i, 1));
        if (mob_now() > deadline)
            fail_msg("the node has nice %d and not %d", nice_of(box.node), nice);
    }
}

static void a_node_that_is_behind_goes_before_its_workers(void **state)
{
    (void)state;
    int ours = nice_of(0);
    bool may = may_take_precedence();
    load_until_node_has_nice(may ? -5 : ours);
    /* single tasks */
    for (int64_t deadline = mob_now() + PATIENCE; nice_of(box.node) != ours;) {
        assert_int_equal(get_of(submit("chaos.mix", MOB_ARGS(mob_i64(1)), NULL)), chaos_mix(1, 1));
        if (mob_now() > deadline)
            fail_msg("the node has nice %d and not %d", nice_of(box.node), ours);
    }
    pid_t zygote = 0, pids[256];
    assert_int_equal(1, node_box_zygote(&box, &zygote));
    assert_int_equal(ours, nice_of(zygote));
    int n = node_box_workers(&box, pids, 256);
    assert_in_range(n, 1, 256);
    for (int i = 0; i < n; i++)
        assert_int_equal(ours, nice_of(pids[i]));
    /* what it starts while it is busy gets the usual one */
    if (may)
        assert_true(sched_getscheduler(box.node) & SCHED_RESET_ON_FORK);
}

static void idle_workers_are_reaped_and_nothing_burns(void **state)
{
    (void)state;
    pid_t pids[256];
    int n = 0;
    for (int64_t deadline = mob_now() + PATIENCE; (n = node_box_workers(&box, pids, 256)) > 2;
         poll(NULL, 0, 20))
        if (mob_now() > deadline)
            fail_msg("%d workers are left", n);
    /* the segment may still be warming up */
    int64_t cpu = 0, elapsed = 1;
    for (int window = 0; window < 10 && (window == 0 || cpu * 50 > elapsed); window++) {
        int64_t begin = mob_now(), before = gcs_box_cpu_ns(box.node) + gcs_box_cpu_ns(box.gcs.gcs);
        poll(NULL, 0, 2000); /* a span to measure over */
        cpu = gcs_box_cpu_ns(box.node) + gcs_box_cpu_ns(box.gcs.gcs) - before;
        elapsed = mob_now() - begin;
    }
    if (cpu * 50 > elapsed) /* the clock ticks at 100 Hz: a tick or two of grace */
        fail_msg("%ld ms CPU in %ld ms", (long)(cpu / MOB_MS), (long)(elapsed / MOB_MS));
}

static void graceful_stop_is_quick_and_loses_nothing(void **state)
{
    (void)state;
    enum { N = 1000 };
    struct mob_future *futures[N];
    for (int i = 0; i < N; i++)
        futures[i] = submit("chaos.mix", MOB_ARGS(mob_i64(i)), NULL);
    int status;
    int64_t took = node_box_end(&box, &status);
    /* 2 s on a machine of its own */
    bool shared = getenv("CI") != NULL || driver_sanitized();
    if (took > (shared ? 20 : 2) * MOB_SEC)
        fail_msg("it took %ld ms", (long)(took / MOB_MS));
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    node_box_revive(&box);
    for (int i = 0; i < N; i++)
        assert_int_equal(get_of(futures[i]), chaos_mix(i, 1));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup(name, fresh_files)
    const struct CMUnitTest tests[] = {
        TEST(death_is_told_with_signal_log_and_task),
        TEST(no_retry_means_one_run),
        TEST(death_of_the_zygote_is_nobodys_fault),
        TEST(stopped_worker_is_killed_by_force),
        TEST(poison_ends_as_an_error_of_its_call),
        TEST(queued_and_running_and_children_are_cancelled),
        TEST(what_a_worker_holds_is_cancelled_before_it_starts),
        TEST(what_stands_behind_a_long_task_runs_meanwhile),
        TEST(calls_behind_a_running_one_are_cancelled),
        TEST(deadline_ends_a_task),
        TEST(delayed_task_waits),
        TEST(named_resources_are_shared_by_fractions),
        TEST(memory_is_counted_in_bytes),
        TEST(a_name_is_taken_given_and_free_again),
        TEST(calls_of_each_caller_keep_their_order),
        TEST(errors_flow_through_dependents_with_their_causes),
        TEST(generator_gives_all_its_items),
        TEST(bound_of_blocked_workers_is_a_typed_error),
        TEST(a_node_that_is_behind_goes_before_its_workers),
        TEST(idle_workers_are_reaped_and_nothing_burns),
        TEST(graceful_stop_is_quick_and_loses_nothing),
    };
    cmocka_set_test_filter(getenv("MOBULA_TEST")); /* one of them */
    return cmocka_run_group_tests_name("runtime_faults", tests, set_up, tear_down);
}
