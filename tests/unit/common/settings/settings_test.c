/* Settings: precedence, bounds, and errors that help. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/settings/settings.h"

static struct mob_settings settings;

static int setup(void **state)
{
    (void)state;
    mob_settings_init(&settings, MOB_SETTINGS_UP);
    return 0;
}

static void assert_says(const char *words)
{
    if (!strstr(settings.error, words))
        fail_msg("\"%s\" does not say \"%s\"", settings.error, words);
}

static enum mob_status read_text(const char *text)
{
    char path[] = "/tmp/mobula_settings_XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    close(fd);
    enum mob_status status = mob_settings_read_file(&settings, path);
    unlink(path);
    return status;
}

static void every_row_has_a_default_within_its_bounds(void **state)
{
    (void)state;
    assert_int_equal(mob_settings_finish(&settings), MOB_OK);
    for (int i = 0; i < MOB_SETTINGS_COUNT; i++) {
        const struct mob_setting_row *row = mob_setting_row(i);
        assert_non_null(row->name);
        assert_true(strlen(row->help) > 0);
        assert_int_equal(settings.values[i].source, MOB_SOURCE_DEFAULT);
        if (row->type >= MOB_SETTING_TYPE_NUMBER)
            assert_in_range(settings.values[i].number, row->minimum, row->maximum);
        for (int j = 0; j < i; j++)
            assert_string_not_equal(row->name, mob_setting_row(j)->name);
    }
}

static void flag_beats_environment_beats_file_beats_default(void **state)
{
    (void)state;
    char *environment[] = {"MOBULA_SLOTS=3", "MOBULA_BLOCKED_MAX=30", "PATH=/bin", NULL};
    char *argv[] = {"x", "--slots", "4"};
    /* in the order in which the command line reads them: the file last, since its place depends on the others
     */
    int at = 1;
    assert_int_equal(mob_settings_take_flag(&settings, 3, argv, &at), MOB_OK);
    assert_int_equal(at, 3);
    assert_int_equal(mob_settings_read_environment(&settings, environment), MOB_OK);
    assert_int_equal(read_text("slots = 2\nblocked-max = 20\nretention-s = 10\n"), MOB_OK);
    assert_int_equal(mob_setting_number(&settings, MOB_SETTING_SLOTS), 4);
    assert_int_equal(mob_setting_number(&settings, MOB_SETTING_BLOCKED_MAX), 30);
    assert_int_equal(mob_setting_number(&settings, MOB_SETTING_RETENTION_S), 10);
    assert_int_equal(settings.values[MOB_SETTING_SLOTS].source, MOB_SOURCE_FLAG);
    assert_int_equal(settings.values[MOB_SETTING_BLOCKED_MAX].source, MOB_SOURCE_ENVIRONMENT);
    assert_int_equal(settings.values[MOB_SETTING_RETENTION_S].source, MOB_SOURCE_FILE);
    assert_int_equal(settings.values[MOB_SETTING_RETENTION_S].line, 3);
}

static void unknown_name_in_the_file_names_line_and_nearest(void **state)
{
    (void)state;
    assert_int_equal(read_text("# comment\n\nsegmnt-bytes = 1GiB\n"), MOB_NOT_FOUND);
    assert_says(":3:");
    assert_says("did you mean segment-bytes");
}

static void unknown_variable_names_the_nearest(void **state)
{
    (void)state;
    char *environment[] = {"MOBULA_SLOT=3", NULL};
    assert_int_equal(mob_settings_read_environment(&settings, environment), MOB_NOT_FOUND);
    assert_says("MOBULA_SLOT");
    assert_says("did you mean slots");
}

static void variables_of_tests_and_of_other_programs_are_no_errors(void **state)
{
    (void)state;
    char *environment[] = {"MOBULA_FAILPOINTS=a=kill", "MOBULA_TEST_X=1", "MOBULA_BIN_DIR=/x", NULL};
    assert_int_equal(mob_settings_read_environment(&settings, environment), MOB_OK);
    mob_settings_init(&settings, MOB_SETTINGS_GATEWAY);
    char *others[] = {"MOBULA_SLOTS=3", NULL};
    assert_int_equal(mob_settings_read_environment(&settings, others), MOB_OK);
}

static void a_name_that_is_nothing_near_points_to_the_list(void **state)
{
    (void)state;
    assert_int_equal(mob_settings_set(&settings, "zzzzzzzzzzzz", "1", MOB_SOURCE_FLAG), MOB_NOT_FOUND);
    assert_says("mobula config");
}

static void values_out_of_bounds_are_refused_with_the_bounds(void **state)
{
    (void)state;
    assert_int_equal(mob_settings_set(&settings, "slots", "0", MOB_SOURCE_FLAG), MOB_INVALID);
    assert_says("from 1 to 1024");
    assert_int_equal(mob_settings_set(&settings, "slots", "1025", MOB_SOURCE_FLAG), MOB_INVALID);
    assert_int_equal(mob_settings_set(&settings, "slots", "1024", MOB_SOURCE_FLAG), MOB_OK);
    assert_int_equal(mob_settings_set(&settings, "slots", "-1", MOB_SOURCE_FLAG), MOB_INVALID);
    assert_int_equal(mob_settings_set(&settings, "slots", "2x", MOB_SOURCE_FLAG), MOB_INVALID);
    assert_int_equal(mob_settings_set(&settings, "slots", "", MOB_SOURCE_FLAG), MOB_INVALID);
    assert_int_equal(
        mob_settings_set(&settings, "segment-bytes", "99999999999T", MOB_SOURCE_FLAG), MOB_INVALID);
    assert_int_equal(mob_setting_number(&settings, MOB_SETTING_SLOTS), 1024);
}

static void sizes_and_times_take_suffixes(void **state)
{
    (void)state;
    assert_int_equal(mob_settings_set(&settings, "segment-bytes", "64MiB", MOB_SOURCE_FLAG), MOB_OK);
    assert_int_equal(mob_setting_number(&settings, MOB_SETTING_SEGMENT_BYTES), 64 << 20);
    assert_string_equal(mob_setting_text(&settings, MOB_SETTING_SEGMENT_BYTES), "67108864");
    assert_int_equal(mob_settings_set(&settings, "segment_bytes", "2g", MOB_SOURCE_FLAG), MOB_OK);
    assert_int_equal(mob_setting_number(&settings, MOB_SETTING_SEGMENT_BYTES), 2ll << 30);
    assert_int_equal(mob_settings_set(&settings, "idle-reap-ms", "2s", MOB_SOURCE_FLAG), MOB_OK);
    assert_int_equal(mob_setting_number(&settings, MOB_SETTING_IDLE_REAP_MS), 2000);
    assert_int_equal(mob_settings_set(&settings, "retention-s", "2h", MOB_SOURCE_FLAG), MOB_OK);
    assert_int_equal(mob_setting_number(&settings, MOB_SETTING_RETENTION_S), 7200);
    assert_int_equal(mob_settings_set(&settings, "retention-s", "2ms", MOB_SOURCE_FLAG), MOB_INVALID);
}

static void choices_are_checked(void **state)
{
    (void)state;
    assert_int_equal(mob_settings_set(&settings, "gcs-durability", "always", MOB_SOURCE_FLAG), MOB_OK);
    assert_int_equal(mob_settings_set(&settings, "gcs-durability", "alwa", MOB_SOURCE_FLAG), MOB_INVALID);
    assert_says("everysec|always|no");
    assert_int_equal(mob_settings_set(&settings, "gcs-durability", "", MOB_SOURCE_FLAG), MOB_INVALID);
}

static void the_directory_cannot_stand_in_its_own_file(void **state)
{
    (void)state;
    assert_int_equal(read_text("dir = /tmp\n"), MOB_INVALID);
    assert_says("--dir");
}

static void broken_files_are_refused(void **state)
{
    (void)state;
    char text[2048];
    assert_int_equal(read_text("slots\n"), MOB_INVALID);
    memset(text, 'a', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    assert_int_equal(read_text(text), MOB_INVALID);
    assert_int_equal(mob_settings_read_file(&settings, "/nonexistent/mobula.conf"), MOB_OK);
    assert_int_equal(mob_settings_read_file(&settings, "/proc/self/mem"), MOB_IO);
}

static void a_file_may_hold_what_other_programs_need(void **state)
{
    (void)state;
    mob_settings_init(&settings, MOB_SETTINGS_GATEWAY);
    assert_int_equal(read_text("slots = 2\nlisten = 127.0.0.1:8080 # here\n"), MOB_OK);
    assert_string_equal(mob_setting_text(&settings, MOB_SETTING_LISTEN), "127.0.0.1:8080");
    assert_int_equal(read_text("slots = 0\n"), MOB_INVALID);
}

static void flags_need_a_value(void **state)
{
    (void)state;
    char *argv[] = {"x", "--slots"};
    int at = 1;
    assert_int_equal(mob_settings_take_flag(&settings, 2, argv, &at), MOB_INVALID);
    assert_says("needs a value");
    char *joined[] = {"x", "--slots=7"};
    assert_int_equal(mob_settings_take_flag(&settings, 2, joined, &at), MOB_OK);
    assert_int_equal(at, 2);
    assert_int_equal(mob_setting_number(&settings, MOB_SETTING_SLOTS), 7);
    char *stray[] = {"x", "stray"};
    at = 1;
    assert_int_equal(mob_settings_take_flag(&settings, 2, stray, &at), MOB_NOT_FOUND);
    assert_int_equal(at, 1);
}

static void paths_become_absolute_and_follow_the_directory(void **state)
{
    (void)state;
    assert_int_equal(mob_settings_set(&settings, "dir", "some/where", MOB_SOURCE_FLAG), MOB_OK);
    assert_int_equal(mob_settings_finish(&settings), MOB_OK);
    const char *directory = mob_setting_text(&settings, MOB_SETTING_DIR);
    assert_int_equal(directory[0], '/');
    const char *spill = mob_setting_text(&settings, MOB_SETTING_SPILL_DIR);
    assert_int_equal(strncmp(spill, directory, strlen(directory)), 0);
    assert_string_equal(spill + strlen(directory), "/spill");
}

static void caps_must_be_in_order(void **state)
{
    (void)state;
    assert_int_equal(mob_settings_set(&settings, "gcs-soft-bytes", "2GiB", MOB_SOURCE_FLAG), MOB_OK);
    assert_int_equal(mob_settings_set(&settings, "gcs-hard-bytes", "1GiB", MOB_SOURCE_FLAG), MOB_OK);
    assert_int_equal(mob_settings_finish(&settings), MOB_INVALID);
    assert_says("above");
    mob_settings_init(&settings, MOB_SETTINGS_UP);
    assert_int_equal(mob_settings_set(&settings, "gcs-hard-bytes", "32MiB", MOB_SOURCE_FLAG), MOB_OK);
    assert_int_equal(mob_settings_finish(&settings), MOB_OK);
    assert_in_range(mob_setting_number(&settings, MOB_SETTING_GCS_SOFT_BYTES), 16 << 20, 32 << 20);
}

static void distance_counts_slips(void **state)
{
    (void)state;
    assert_int_equal(mob_settings_distance("slots", "slots"), 0);
    assert_int_equal(mob_settings_distance("solts", "slots"), 1);
    assert_int_equal(mob_settings_distance("slot", "slots"), 1);
    assert_int_equal(mob_settings_distance("", "slots"), 5);
    assert_int_equal(mob_settings_distance("abc", "xyz"), 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(every_row_has_a_default_within_its_bounds, setup),
        cmocka_unit_test_setup(flag_beats_environment_beats_file_beats_default, setup),
        cmocka_unit_test_setup(unknown_name_in_the_file_names_line_and_nearest, setup),
        cmocka_unit_test_setup(unknown_variable_names_the_nearest, setup),
        cmocka_unit_test_setup(variables_of_tests_and_of_other_programs_are_no_errors, setup),
        cmocka_unit_test_setup(a_name_that_is_nothing_near_points_to_the_list, setup),
        cmocka_unit_test_setup(values_out_of_bounds_are_refused_with_the_bounds, setup),
        cmocka_unit_test_setup(sizes_and_times_take_suffixes, setup),
        cmocka_unit_test_setup(choices_are_checked, setup),
        cmocka_unit_test_setup(the_directory_cannot_stand_in_its_own_file, setup),
        cmocka_unit_test_setup(broken_files_are_refused, setup),
        cmocka_unit_test_setup(a_file_may_hold_what_other_programs_need, setup),
        cmocka_unit_test_setup(flags_need_a_value, setup),
        cmocka_unit_test_setup(paths_become_absolute_and_follow_the_directory, setup),
        cmocka_unit_test_setup(caps_must_be_in_order, setup),
        cmocka_unit_test_setup(distance_counts_slips, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
