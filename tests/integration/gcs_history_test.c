/* `mobula-bench gcs-history`: its file is what the checker reads, holds what a register could have answered,
 * and is refused as soon as one answer is another. */
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/support/gcs_history.h"
#include "tests/support/pg_box.h"

static char path[64], told_path[80]; /* the histories; what it told on standard output */
static bool has_postgres;

static int make(void **state)
{
    (void)state;
    char program[512];
    const char *bin = getenv("MOBULA_BIN_DIR");
    snprintf(program, sizeof program, "%s/mobula-bench", bin == NULL ? "build/release/bin" : bin);
    snprintf(path, sizeof path, "/tmp/mob-history-XXXXXX");
    close(mkstemp(path));
    snprintf(told_path, sizeof told_path, "%s.told", path);
    has_postgres = pg_box_available();
    if (!has_postgres)
        setenv("MOBULA_BENCH_TABLE", "file", 1);
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        int told = open(told_path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
        if (told < 0 || dup2(told, STDOUT_FILENO) < 0)
            _exit(126);
        execl(program, program, "gcs-history", "--out", path, "--seed", "20261122", "--seconds", "3",
            (char *)NULL);
        _exit(127);
    }
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    return 0;
}

static int clean(void **state)
{
    (void)state;
    unlink(path);
    unlink(told_path);
    return 0;
}

static void the_file_is_linearizable(void **state)
{
    (void)state;
    struct gcs_history h = {0};
    struct gcs_history_verdict v;
    assert_true(gcs_history_read(&h, path));
    gcs_history_check(&h, &v);
    assert_false(v.violated);
    assert_true(v.done >= 500);
    assert_true(v.given_up * 10 <= v.keys);
    gcs_history_fini(&h);
}

/* What it told: one line. */
static void read_told(char line[1024])
{
    FILE *file = fopen(told_path, "re");
    assert_non_null(file);
    assert_non_null(fgets(line, 1024, file));
    fclose(file);
}

/* Without faults the file shows nothing. */
static void members_were_killed_stopped_and_cut_off(void **state)
{
    (void)state;
    static const char *const names[] = {"\"kills\": ", "\"pauses\": ", "\"partitions\": "};
    char line[1024] = "";
    read_told(line);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *at = strstr(line, names[i]);
        if (at == NULL || strtoul(at + strlen(names[i]), NULL, 10) < 1)
            fail_msg("none of %s in %s", names[i], line);
    }
}

/* As those of a cluster. */
static void its_masters_have_a_database(void **state)
{
    (void)state;
    char line[1024] = "";
    read_told(line);
    const char *expected = has_postgres ? "\"table\": \"postgres\"" : "\"table\": \"file\"";
    if (strstr(line, expected) == NULL)
        fail_msg("no %s in %s", expected, line);
}

/* One that was put before another put of the same key began, if that one returned before `at` began. */
static bool older_value(const struct gcs_history *h, const struct gcs_op *at, uint64_t *value_out)
{
    for (size_t i = 0; i < h->count; i++) {
        const struct gcs_op *last = &h->ops[i];
        bool before = last->put && last->outcome == GCS_OP_DONE && last->key == at->key &&
            last->return_ns < at->call_ns;
        for (size_t k = 0; before && k < h->count; k++) {
            const struct gcs_op *older = &h->ops[k];
            if (older->put && older->key == at->key && older->outcome == GCS_OP_DONE &&
                older->return_ns < last->call_ns) {
                *value_out = older->value;
                return true;
            }
        }
    }
    return false;
}

static void one_stale_answer_is_noticed(void **state)
{
    (void)state;
    struct gcs_history h = {0};
    struct gcs_history_verdict v;
    assert_true(gcs_history_read(&h, path));
    size_t spoiled = 0;
    for (size_t i = 0; i < h.count && spoiled < 20; i += 1 + h.count / 400) {
        struct gcs_op *op = &h.ops[i];
        uint64_t right = op->value, stale;
        if (op->put || op->outcome != GCS_OP_DONE || !older_value(&h, op, &stale))
            continue;
        op->value = stale;
        gcs_history_check(&h, &v);
        assert_true(v.violated);
        assert_int_equal(v.key, op->key);
        op->value = right;
        spoiled++;
    }
    assert_true(spoiled >= 5);
    gcs_history_fini(&h);
}

static void a_lost_write_and_an_invented_value_are_noticed(void **state)
{
    (void)state;
    struct gcs_history h = {0};
    struct gcs_history_verdict v;
    assert_true(gcs_history_read(&h, path));
    size_t last = h.count;
    while (h.ops[last - 1].put || h.ops[last - 1].value == 0) /* the reads at the end */
        last--;
    struct gcs_op *op = &h.ops[last - 1];
    uint64_t right = op->value;
    op->value = 0; /* nothing there */
    gcs_history_check(&h, &v);
    assert_true(v.violated);
    op->value = right ^ 1ull << 62; /* nobody's */
    gcs_history_check(&h, &v);
    assert_true(v.violated);
    gcs_history_fini(&h);
}

static void lines_that_are_no_operations_are_refused(void **state)
{
    (void)state;
    static const char *const lines[] = {"", "{}", "{\"client\":1}",
        "{\"client\":1,\"op\":\"del\",\"key\":\"h000001\",\"value\":1,\"call_ns\":1,\"return_ns\":2,\"ok\":"
        "true}",
        "{\"client\":1,\"op\":\"put\",\"key\":\"h000001\",\"value\":1,\"call_ns\":1,\"return_ns\":null,"
        "\"ok\":"
        "true}"};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        struct gcs_history h = {0};
        FILE *file = fopen(path, "w");
        assert_non_null(file);
        fprintf(file, "%s\n", lines[i]);
        fclose(file);
        assert_false(gcs_history_read(&h, path));
        gcs_history_fini(&h);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_file_is_linearizable),
        cmocka_unit_test(members_were_killed_stopped_and_cut_off),
        cmocka_unit_test(its_masters_have_a_database),
        cmocka_unit_test(one_stale_answer_is_noticed),
        cmocka_unit_test(a_lost_write_and_an_invented_value_are_noticed),
        cmocka_unit_test(lines_that_are_no_operations_are_refused),
    };
    return cmocka_run_group_tests(tests, make, clean);
}
