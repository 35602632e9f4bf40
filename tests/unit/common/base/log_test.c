/* Log lines. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <fcntl.h>
#include <sys/wait.h>
#include <signal.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/log.h"

static int saved = -1, reading = -1;

static void capture(void)
{
    int ends[2];
    assert_int_equal(pipe2(ends, O_NONBLOCK), 0);
    fflush(stderr);
    saved = dup(STDERR_FILENO);
    dup2(ends[1], STDERR_FILENO);
    close(ends[1]);
    reading = ends[0];
}

/* What was written since capture(). */
static const char *captured(void)
{
    static char text[65536];
    ssize_t n = read(reading, text, sizeof text - 1);
    text[n > 0 ? n : 0] = '\0';
    dup2(saved, STDERR_FILENO);
    close(saved);
    close(reading);
    return text;
}

static int lines_of(const char *text)
{
    int n = 0;
    while ((text = strchr(text, '\n'))) {
        text++;
        n++;
    }
    return n;
}

static void line_has_time_level_module_event_and_fields(void **state)
{
    (void)state;
    capture();
    MOB_LOG_INFO("node", "worker_started", "pid=%d slot=%u", 12, 3u);
    const char *text = captured();
    const char *rest = strchr(text, ' ');
    assert_non_null(rest);
    assert_string_equal(rest, " INFO node worker_started pid=12 slot=3\n");
    int year, month, day, hour, minute, second, micros;
    assert_int_equal(
        sscanf(text, "%d-%d-%dT%d:%d:%d.%dZ", &year, &month, &day, &hour, &minute, &second, &micros), 7);
}

static void lines_below_the_threshold_are_not_written(void **state)
{
    (void)state;
    capture();
    MOB_LOG_DEBUG("test", "quiet", "x=%d", 1);
    enum mob_log_level before = mob_log_threshold;
    mob_log_threshold = MOB_LOG_LEVEL_ERROR;
    MOB_LOG_WARN("test", "quiet", "x=%d", 2);
    MOB_LOG_ERROR("test", "loud", "x=%d", 3);
    mob_log_threshold = before;
    const char *text = captured();
    assert_int_equal(lines_of(text), 1);
    assert_non_null(strstr(text, "loud x=3"));
}

static void repeating_site_is_muted_and_says_how_much_it_left_out(void **state)
{
    (void)state;
    struct mob_log_site site = {0};
    capture();
    for (int i = 0; i < 100; i++)
        mob_log_write(&site, MOB_LOG_LEVEL_INFO, "test", "repeats", "i=%d", i);
    const char *text = captured();
    assert_int_equal(lines_of(text), 20);
    capture();
    site.window_start_ns -= 2 * MOB_SEC; /* as if two seconds had passed */
    mob_log_write(&site, MOB_LOG_LEVEL_INFO, "test", "repeats", "i=%d", 100);
    text = captured();
    assert_int_equal(lines_of(text), 1);
    assert_non_null(strstr(text, " muted=80\n"));
}

static void sites_are_muted_one_by_one(void **state)
{
    (void)state;
    struct mob_log_site a = {0}, b = {0};
    capture();
    for (int i = 0; i < 50; i++)
        mob_log_write(&a, MOB_LOG_LEVEL_INFO, "test", "a", "i=%d", i);
    mob_log_write(&b, MOB_LOG_LEVEL_INFO, "test", "b", "i=%d", 0);
    const char *text = captured();
    assert_int_equal(lines_of(text), 21);
    assert_non_null(strstr(text, " b i=0\n"));
}

static void too_long_a_line_is_cut_and_still_ends(void **state)
{
    (void)state;
    char long_text[5000];
    memset(long_text, 'x', sizeof long_text - 1);
    long_text[sizeof long_text - 1] = '\0';
    capture();
    MOB_LOG_INFO("test", "long", "text=%s", long_text);
    const char *text = captured();
    assert_int_equal(lines_of(text), 1);
    assert_in_range(strlen(text), 1000, 2048);
}

/* ---- a sink ---- */

static struct {
    int lines;
    enum mob_log_level level;
    char line[2100];
    size_t bytes;
} sunk;

static void sink(void *arg, enum mob_log_level level, const char *line, size_t bytes)
{
    assert_ptr_equal(arg, &sunk);
    assert_int_equal(strlen(line), bytes);
    assert_true(bytes < sizeof sunk.line);
    sunk.lines++;
    sunk.level = level;
    sunk.bytes = bytes;
    memcpy(sunk.line, line, bytes + 1);
    if (sunk.lines == 1)
        MOB_LOG_WARN("test", "inside", "x=%d", 1);
}

static void a_sink_gets_the_lines_instead_of_stderr(void **state)
{
    (void)state;
    memset(&sunk, 0, sizeof sunk);
    capture();
    mob_log_set_sink(sink, &sunk);
    MOB_LOG_ERROR("test", "first", "x=%d", 1);
    MOB_LOG_INFO("test", "second", "x=%d", 2);
    mob_log_set_sink(NULL, NULL);
    MOB_LOG_INFO("test", "third", "x=%d", 3);
    const char *text = captured();
    assert_int_equal(sunk.lines, 2);
    assert_int_equal(sunk.level, MOB_LOG_LEVEL_INFO);
    assert_string_equal(strchr(sunk.line, ' '), " INFO test second x=2");
    assert_int_equal(lines_of(text), 2); /* what was logged inside, and after it */
    assert_non_null(strstr(text, " WARN test inside x=1\n"));
    assert_non_null(strstr(text, " INFO test third x=3\n"));
}

static bool words(char *line, size_t size, size_t *bytes, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    bool given = mob_log_words(MOB_LOG_LEVEL_WARN, line, size, bytes, format, args);
    va_end(args);
    return given;
}

static void words_are_one_line_cut_between_characters(void **state)
{
    (void)state;
    size_t bytes = 0;
    char line[64], wide[200];
    assert_false(words(line, sizeof line, &bytes, "a\nb\rc %d", 7));
    assert_string_equal(strchr(line, ' '), " WARN a b c 7\n");
    assert_int_equal(bytes, strlen(line));
    for (size_t i = 0; i + 2 < sizeof wide; i += 2)
        memcpy(wide + i, "\xc3\xa9", 3);
    for (size_t size = sizeof line - 1; size <= sizeof line; size++) { /* one of them would cut in two */
        assert_false(words(line, size, &bytes, "%s", wide));
        assert_true(bytes < size && bytes + 3 > size - 1);
        assert_int_equal(line[bytes - 1], '\n');
        assert_int_equal((unsigned char)line[bytes - 2], 0xa9);
    }
}

static void failed_assertion_is_logged_and_ends_the_process(void **state)
{
    (void)state;
    capture();
    pid_t child = fork();
    if (child == 0) {
        signal(SIGABRT, SIG_DFL);
        MOB_ASSERT(1 + 1 == 3);
        _exit(0);
    }
    int how;
    assert_int_equal(waitpid(child, &how, 0), child);
    const char *text = captured();
    assert_true(WIFSIGNALED(how) && WTERMSIG(how) == SIGABRT);
    assert_non_null(strstr(text, "what=\"1 + 1 == 3\""));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(line_has_time_level_module_event_and_fields),
        cmocka_unit_test(lines_below_the_threshold_are_not_written),
        cmocka_unit_test(repeating_site_is_muted_and_says_how_much_it_left_out),
        cmocka_unit_test(sites_are_muted_one_by_one),
        cmocka_unit_test(too_long_a_line_is_cut_and_still_ends),
        cmocka_unit_test(a_sink_gets_the_lines_instead_of_stderr),
        cmocka_unit_test(words_are_one_line_cut_between_characters),
        cmocka_unit_test(failed_assertion_is_logged_and_ends_the_process),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
