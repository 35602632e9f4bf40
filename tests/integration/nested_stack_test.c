/* Tasks on the stack of those that wait for them, on a real node of two slots with nesting up to 8 deep.
 * ctest: timeout=300
 */
#include <mobula/mobula.h>

#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "common/base/clock.h"
#include "common/base/id.h"
#include "runtime/worker/worker_log.h"
#include "tests/modules/nester_model.h"
#include "tests/support/driver.h"
#include "tests/support/node_box.h"

#define PATIENCE (100 * MOB_SEC)

enum { NEST_MAX = 8, LEVELS_MAX = 64 };

static struct node_box box;
static struct mob_client *client;
static char trace[DRIVER_PATH_MAX], gate[DRIVER_PATH_MAX];

static int open_box(const char *nest_max)
{
    static const char *args[] = {"--nest-max", NULL, NULL};
    args[1] = nest_max;
    client = driver_box_start(&box, args, "nester");
    return 0;
}

static int set_up(void **state)
{
    (void)state;
    return open_box("8");
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

/* ---- what the tasks left ---- */

struct line {
    char word[128], id[MOB_TEXT_ID_MAX];
    int pid;
};

static int read_lines(const char *word, struct line *out, int max)
{
    struct line line;
    int count = 0;
    FILE *file = fopen(trace, "r");
    while (file != NULL && fscanf(file, "%127s %d %47s\n", line.word, &line.pid, line.id) == 3)
        if (strncmp(line.word, word, strlen(word)) == 0 && count < max)
            out[count++] = line;
    if (file != NULL)
        fclose(file);
    return count;
}

/* The newest line of this kind, once there are `count`. */
static struct line await_line(const char *word, int count)
{
    static struct line found[4 * LEVELS_MAX];
    int64_t deadline = mob_now() + PATIENCE;
    while (read_lines(word, found, 4 * LEVELS_MAX) < count) {
        if (mob_now() > deadline)
            fail_msg("no %d lines \"%s\" but %d", count, word, trace_lines(trace, word));
        poll(NULL, 0, 2);
    }
    return found[count - 1];
}

/* ---- asking ---- */

static struct mob_future *submit(const char *function, struct mob_args args)
{
    struct mob_future *future;
    OK(mob_submit(client, function, args, NULL, &future));
    return future;
}

static int64_t get_of(struct mob_future *future)
{
    int64_t v = -1;
    char id[MOB_TEXT_ID_MAX], *text = NULL;
    mob_future_task_id(future, id);
    enum mob_status status = mob_get_i64(future, PATIENCE, &v);
    if (status == MOB_TIMEOUT && mob_query(client, "live-tasks", "{}", 5 * MOB_SEC, &text) == MOB_OK)
        fail_msg("timed out; %s", text);
    if (status != MOB_OK)
        fail_msg("%s: %s", mob_status_code(status), status == MOB_TIMEOUT ? "" : mob_future_error(future));
    mob_release(future);
    return v;
}

/* The future of a task's first return, by the task's id. */
static struct mob_future *result_of(const char *task_id)
{
    struct mob_task_id task;
    char object[MOB_ID_TEXT_MAX];
    struct mob_future *future;
    OK(mob_task_id_parse(task_id, &task));
    OK(mob_future_from_id(client, mob_object_id_format(mob_object_of(task, 0), object), &future));
    return future;
}

static long stat_of(const char *key)
{
    char *stats, pattern[32];
    OK(mob_query(client, "stats", NULL, PATIENCE, &stats));
    snprintf(pattern, sizeof pattern, "\"%s\":", key);
    const char *at = strstr(stats, pattern);
    assert_non_null(at);
    long v = strtol(at + strlen(pattern), NULL, 10);
    free(stats);
    return v;
}

/* ---- depth and width ---- */

static void a_chain_runs_on_few_stacks(void **state)
{
    (void)state;
    enum { DEPTH = 1000 };
    long before = stat_of("nested");
    assert_int_equal(get_of(submit("nester.deep", MOB_ARGS(mob_i64(DEPTH)))), DEPTH);
    long nested = stat_of("nested") - before;
    /* Of each stack of nine one level comes by a switch of workers; on a busy machine another worker may be
     * quicker. */
    assert_true(nested > DEPTH / 4);
}

static void wide_trees_come_to_their_sums(void **state)
{
    (void)state;
    /* The last one is more than its ring has room for notices of, while others run on top. */
    static const int64_t widths[] = {1, 30, 300, 8000};
    for (size_t round = 0; round < sizeof widths / sizeof widths[0]; round++) {
        int64_t sum = 0;
        for (int64_t i = 0; i < widths[round]; i++)
            sum += i % 3;
        assert_int_equal(get_of(submit("nester.wide", MOB_ARGS(mob_i64(widths[round])))), sum);
    }
}

/* Levels of one chain, and how many of them stand on the stack of its last one. */
static int levels_below(int count)
{
    struct line level[LEVELS_MAX] = {0}, bottom[1] = {0};
    assert_int_equal(read_lines("bottom", bottom, 1), 1);
    assert_int_equal(read_lines("level", level, LEVELS_MAX), count);
    int below = 0;
    for (int i = 0; i < count; i++)
        below += level[i].pid == bottom[0].pid;
    return below;
}

static struct mob_future *traced(int64_t levels, int64_t fails)
{
    return submit(
        "nester.traced", MOB_ARGS(mob_utf8(trace), mob_utf8(gate), mob_i64(levels), mob_i64(fails)));
}

static void the_bound_is_kept(void **state)
{
    (void)state;
    enum { DEPTH = 3 * NEST_MAX };
    struct mob_future *future = traced(DEPTH, 0);
    await_line("bottom", 1);
    assert_in_range(levels_below(DEPTH), 0, NEST_MAX);
    gate_open(gate);
    assert_int_equal(get_of(future), DEPTH);
}

/* A chain whose last task has others below it; a busy machine may need several tries. */
static struct mob_future *stacked(int64_t levels)
{
    struct mob_future *future = NULL;
    for (int tries = 0; tries < 20; tries++) {
        fresh_files(NULL);
        future = traced(levels, 0);
        await_line("bottom", 1);
        if (levels_below((int)levels) >= 2)
            return future;
        gate_open(gate);
        assert_int_equal(get_of(future), levels);
    }
    fail_msg("nothing ran on a stack");
    return NULL;
}

/* ---- ends ---- */

static void a_killed_worker_loses_none_of_its_levels(void **state)
{
    (void)state;
    enum { DEPTH = 6 };
    struct line level[LEVELS_MAX];
    struct mob_future *future = stacked(DEPTH);
    struct line bottom = await_line("bottom", 1);
    int below = levels_below(DEPTH);
    kill(bottom.pid, SIGKILL);
    await_line("bottom", 2);
    gate_open(gate);
    assert_int_equal(get_of(future), DEPTH);
    /* Those on its stack ran again, and no other: each once. */
    int ran = read_lines("level", level, LEVELS_MAX);
    assert_int_equal(ran, DEPTH + below);
    for (int i = 0; i < ran; i++) {
        int times = 0, had = 0;
        for (int j = 0; j < ran; j++) {
            times += strcmp(level[i].id, level[j].id) == 0;
            had += strcmp(level[i].id, level[j].id) == 0 && level[j].pid == bottom.pid;
        }
        assert_int_equal(times, 1 + had);
    }
}

static void an_error_goes_up_through_the_levels(void **state)
{
    (void)state;
    struct mob_future *future = traced(5, 1);
    int64_t v;
    enum mob_status status = mob_get_i64(future, PATIENCE, &v);
    assert_int_equal(status, MOB_TASK_FAILED);
    const char *error = mob_future_error(future);
    int links = 0;
    for (const char *at = error; (at = strstr(at, "\"task\":")) != NULL; at++)
        links++;
    if (links != 6 || strstr(error, "the bottom gives way") == NULL)
        fail_msg("%d links: %s", links, error);
    assert_int_equal(trace_lines(trace, "level"), 5); /* and nothing was tried again */
    mob_release(future);
}

static void a_cancelled_upper_task_gives_way(void **state)
{
    (void)state;
    struct mob_future *future = submit("nester.minds", MOB_ARGS(mob_utf8(trace), mob_i64(0), mob_i64(0))),
                      *child;
    struct line stays = await_line("stays", 1);
    child = result_of(stays.id);
    OK(mob_cancel(child, false));
    assert_int_equal(get_of(future), MOB_CANCELLED);
    assert_int_equal(trace_lines(trace, "minds"), 1); /* the lower one had no part in it */
    mob_release(child);
}

/* It does not listen, so its worker is killed after the grace of 5 s: the one below runs again. */
static void a_deaf_upper_task_costs_the_lower_one_a_run_at_most(void **state)
{
    (void)state;
    struct mob_future *future = submit("nester.minds", MOB_ARGS(mob_utf8(trace), mob_i64(1), mob_i64(0))),
                      *child;
    struct line stays = await_line("stays", 1), minds = await_line("minds", 1);
    child = result_of(stays.id);
    OK(mob_cancel(child, true));
    assert_int_equal(get_of(future), MOB_CANCELLED);
    assert_int_equal(trace_lines(trace, "minds"), minds.pid == stays.pid ? 2 : 1);
    assert_int_equal(trace_lines(trace, "stays"), 1);
    mob_release(child);
}

static void a_deadline_ends_the_upper_task_only(void **state)
{
    (void)state;
    int64_t how = get_of(submit("nester.minds", MOB_ARGS(mob_utf8(trace), mob_i64(0), mob_i64(300))));
    if (how != MOB_DEADLINE && how != MOB_CANCELLED) /* it may say itself that it was asked to stop */
        fail_msg("%s", mob_status_code((enum mob_status)how));
    assert_int_equal(trace_lines(trace, "minds"), 1);
    fresh_files(NULL);
    how = get_of(submit("nester.minds", MOB_ARGS(mob_utf8(trace), mob_i64(1), mob_i64(300))));
    assert_int_equal(how, MOB_DEADLINE);
    assert_in_range(trace_lines(trace, "minds"), 1, 2);
}

/* The sum between the two is cancelled: then the lower one waits for nothing any more, and the upper one for
 * the lower one. */
static void who_could_go_on_is_not_held_up_for_ever(void **state)
{
    (void)state;
    struct mob_future *future = submit("nester.lets_go", MOB_ARGS(mob_utf8(trace))), *sum;
    struct line line = await_line("sum:", 1);
    await_line("awaits", 1);
    OK(mob_future_from_id(client, line.word + 4, &sum));
    OK(mob_cancel(sum, false));
    assert_int_equal(get_of(future), 23);
    assert_true(trace_lines(trace, "goes-on") >= 1);
    mob_release(sum);
}

/* ---- what they write ---- */

enum { TEXT_MAX = 256 };

/* What an index of the workers' logs says that a task wrote, without marks. */
static void add_noted(int worker, struct mob_task_id task, char *text)
{
    char path[256];
    struct mob_log_index index;
    snprintf(path, sizeof path, "%s/logs/worker-%d.idx", box.directory, worker);
    FILE *idx = fopen(path, "r");
    snprintf(path, sizeof path, "%s/logs/worker-%d.log", box.directory, worker);
    FILE *log = fopen(path, "r");
    while (idx != NULL && log != NULL && fread(&index, sizeof index, 1, idx) == 1) {
        size_t at = strlen(text);
        if (!mob_task_id_eq(index.task, task) || index.bytes == 0)
            continue;
        assert_true(at + index.bytes < TEXT_MAX);
        assert_int_equal(fseek(log, (long)index.offset, SEEK_SET), 0);
        assert_int_equal(fread(text + at, 1, index.bytes, log), index.bytes);
        text[at + index.bytes] = 0;
    }
    if (idx != NULL)
        fclose(idx);
    if (log != NULL)
        fclose(log);
}

static void each_task_has_its_own_output(void **state)
{
    (void)state;
    enum { DEPTH = 5, WORKERS = 200 };
    struct line line[LEVELS_MAX];
    struct mob_future *future = stacked(DEPTH);
    gate_open(gate);
    assert_int_equal(get_of(future), DEPTH);
    int count = read_lines("level", line, LEVELS_MAX);
    assert_int_equal(count, DEPTH);
    count += read_lines("bottom", line + count, 1);
    for (int i = 0; i < count; i++) {
        char text[TEXT_MAX] = "", wanted[64];
        int level = DEPTH - i; /* they began in this order */
        struct mob_task_id task;
        OK(mob_task_id_parse(line[i].id, &task));
        for (int worker = 1; worker < WORKERS; worker++)
            add_noted(worker, task, text);
        if (level > 0)
            snprintf(wanted, sizeof wanted, "before %d\nafter %d\n", level, level);
        else
            snprintf(wanted, sizeof wanted, "before 0\n");
        assert_string_equal(text, wanted);
    }
}

/* ---- programs ---- */

static void random_programs_equal_a_sequential_run(void **state)
{
    (void)state;
    enum { PROGRAMS = 60 };
    struct mob_future *futures[PROGRAMS];
    const char *first = getenv("MOBULA_TEST_SEED");
    int64_t seed = first == NULL ? 1 : atoll(first);
    for (int depth = 1; depth <= 3; depth++) {
        for (int i = 0; i < PROGRAMS; i++)
            futures[i] = submit("nester.random", MOB_ARGS(mob_i64(seed + i), mob_i64(depth), mob_i64(0)));
        for (int i = 0; i < PROGRAMS; i++) {
            int64_t got = get_of(futures[i]), wanted = nester_value(seed + i, depth, 0);
            if (got != wanted)
                fail_msg("seed %lld depth %d: %lld instead of %lld", (long long)(seed + i), depth,
                    (long long)got, (long long)wanted);
        }
    }
    assert_true(stat_of("nested") > 0);
}

static void off_means_off(void **state)
{
    (void)state;
    assert_int_equal(get_of(submit("nester.deep", MOB_ARGS(mob_i64(100)))), 100);
    assert_int_equal(
        get_of(submit("nester.random", MOB_ARGS(mob_i64(4), mob_i64(3), mob_i64(0)))), nester_value(4, 3, 0));
    assert_int_equal(stat_of("nested"), 0);
}

static int set_up_without(void **state)
{
    (void)state;
    return open_box("0");
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup(f, fresh_files)
    const struct CMUnitTest with[] = {
        TEST(a_chain_runs_on_few_stacks),
        TEST(wide_trees_come_to_their_sums),
        TEST(the_bound_is_kept),
        TEST(a_killed_worker_loses_none_of_its_levels),
        TEST(an_error_goes_up_through_the_levels),
        TEST(a_cancelled_upper_task_gives_way),
        TEST(a_deaf_upper_task_costs_the_lower_one_a_run_at_most),
        TEST(a_deadline_ends_the_upper_task_only),
        TEST(who_could_go_on_is_not_held_up_for_ever),
        TEST(each_task_has_its_own_output),
        TEST(random_programs_equal_a_sequential_run),
    };
    const struct CMUnitTest without[] = {TEST(off_means_off)};
    return cmocka_run_group_tests(with, set_up, tear_down) +
        cmocka_run_group_tests(without, set_up_without, tear_down);
}
