/* The wall clock is set between two lives of a node, and the monotonic one begins anew with each boot: what
 * the log says of times means the same before and after. */
#include "tests/unit/runtime/node/node_fixture.h"

#include "runtime/node/actor_needs.h"
#include "runtime/node/jobs.h"
#include "runtime/node/lineage_log.h"
#include "runtime/node/task.h"

#define HOUR_NS (3600 * MOB_SEC)

static int clock_is_right(void **state)
{
    (void)state;
    mob_wall_offset_ns = 0;
    return 0;
}

/* The node's next life, whose clock is off. */
static void next_life(struct nx *nx, int64_t offset_ns)
{
    nx_settle(nx);
    nx_end(nx);
    mob_wall_offset_ns = offset_ns;
    nx_start(nx, 0);
    nx_turn(nx, 10);
}

/* That was logged in the life before: when it was submitted, by the monotonic and the wall clock of this one.
 */
static void submitted(struct nx *nx, struct mob_task_id task, int64_t *mono_ns_out, int64_t *wall_ns_out)
{
    const struct node_task *found = node_task_find(nx->node, task);
    assert_non_null(found);
    *mono_ns_out = found->submitted_ns;
    *wall_ns_out = lineage_log_wall(nx->node->log, found->submitted_ns);
}

static void a_task_was_submitted_when_its_log_says(void **state)
{
    (void)state;
    struct nx nx;
    struct nx_driver driver;
    int64_t mono_ns, wall_ns, before_ns = mob_wall_now();
    nx_open_with(&nx, 0, &driver);
    struct mob_task_id task = nx_submit(&driver);
    next_life(&nx, HOUR_NS);
    submitted(&nx, task, &mono_ns, &wall_ns);
    assert_in_range(wall_ns, before_ns - 2 * LOG_CLOCK_DRIFT_NS, before_ns + HOUR_NS / 2);
    assert_true(mono_ns <= mob_now() - HOUR_NS + HOUR_NS / 2);
    nx_close_with(&nx, &driver);
}

/* By a clock that was set back it would be submitted in an hour, and have begun and ended before. */
static void no_task_was_submitted_in_the_future(void **state)
{
    (void)state;
    struct nx nx;
    struct nx_driver driver;
    int64_t mono_ns, wall_ns;
    nx_open_with(&nx, 0, &driver);
    struct mob_task_id task = nx_submit(&driver);
    next_life(&nx, -HOUR_NS);
    submitted(&nx, task, &mono_ns, &wall_ns);
    assert_true(mono_ns <= mob_now());
    assert_true(wall_ns <= mob_wall_now());
    nx_close_with(&nx, &driver);
}

/* Else retention, which goes by the wall clock, drops too early what a replay of it needs. */
static void a_call_is_needed_from_when_its_log_says(void **state)
{
    (void)state;
    struct nx nx;
    struct nx_driver driver;
    int64_t mono_ns, wall_ns;
    nx_open_with(&nx, 0, &driver);
    struct mob_task_id call = nx_call(&driver, nx_create(&driver));
    nx_settle(&nx);
    int64_t after_ns = mob_wall_now();
    next_life(&nx, HOUR_NS);
    submitted(&nx, call, &mono_ns, &wall_ns);
    assert_true(node_needed_since(mono_ns) <= after_ns);
    nx_close_with(&nx, &driver);
}

static void no_job_ended_before_it_began(void **state)
{
    (void)state;
    struct nx nx;
    nx_open(&nx, 0);
    struct node_job_options options = {.ns = "default", .name = "job", .root = mob_root_id_random()};
    struct node_job *job = node_job_open(nx.node, &options);
    mob_wall_offset_ns = -HOUR_NS;
    node_job_end(nx.node, job, true);
    assert_true(job->ended_wall_ns >= job->started_wall_ns);
    nx_close(&nx);
}

/* What a block says in the monotonic clock of another boot, which had run for long or begun a moment ago. */
static void times_of_another_boot_are_told_by_the_wall_clock(void **state)
{
    (void)state;
    struct nx nx;
    nx_open(&nx, 0);
    struct lineage_log *log = nx.node->log;
    int64_t now_ns = mob_now(), wall_ns = lineage_log_wall(log, now_ns),
            boots[] = {MOB_SEC, 365 * 24 * HOUR_NS};
    for (int i = 0; i < 2; i++) {
        struct mob_block_header block = {.wall_ns = wall_ns - 2 * HOUR_NS, .mono_ns = boots[i]};
        int64_t said_ns = lineage_log_wall_of(&block, boots[i] - MOB_MS);
        assert_true(said_ns == wall_ns - 2 * HOUR_NS - MOB_MS);
        assert_true(lineage_log_mono(log, said_ns, now_ns) == now_ns - 2 * HOUR_NS - MOB_MS);
        assert_true(lineage_log_wall_of(&block, 0) == 0);
    }
    assert_true(lineage_log_mono(log, wall_ns + HOUR_NS, now_ns) == now_ns);
    assert_true(lineage_log_mono(log, wall_ns - now_ns, now_ns) != 0); /* that would say that nobody knows */
    assert_true(lineage_log_mono(log, 0, now_ns) == 0);
    nx_close(&nx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(a_task_was_submitted_when_its_log_says, clock_is_right),
        cmocka_unit_test_teardown(no_task_was_submitted_in_the_future, clock_is_right),
        cmocka_unit_test_teardown(a_call_is_needed_from_when_its_log_says, clock_is_right),
        cmocka_unit_test_teardown(no_job_ended_before_it_began, clock_is_right),
        cmocka_unit_test(times_of_another_boot_are_told_by_the_wall_clock),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
