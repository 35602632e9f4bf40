/* A daemon's command line: settings, links, and nothing else. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/settings/settings_daemon.h"

static struct mob_settings settings;
static struct {
    const char *socket, *hosts[2];
    unsigned host_count;
    bool verbose;
} links;
static const struct mob_daemon_link known[] = {
    {.name = "gcs-socket", .text_out = &links.socket, .help = "a socket"},
    {.name = "host",
        .text_out = links.hosts,
        .count_out = &links.host_count,
        .texts_max = 2,
        .help = "names"},
    {.name = "verbose", .given_out = &links.verbose, .help = "a switch"},
    {.name = NULL},
};
static char directory[64];

#define READ(environment, ...) \
    read_line(environment, (char *[]){"daemon", "--dir", directory, __VA_ARGS__, NULL})

static enum mob_status read_line(char *const *environment, char **argv)
{
    int argc = 0;
    while (argv[argc])
        argc++;
    memset(&links, 0, sizeof links);
    return mob_settings_read_daemon(&settings, MOB_SETTINGS_NODE, known, argc, argv, environment);
}

static void write_file(const char *text)
{
    char path[128];
    snprintf(path, sizeof path, "%s/" MOB_SETTINGS_FILE_NAME, directory);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static int make_directory(void **state)
{
    (void)state;
    strcpy(directory, "/tmp/mobula_settings_XXXXXX");
    return mkdtemp(directory) == NULL;
}

static int remove_directory(void **state)
{
    (void)state;
    char path[128];
    snprintf(path, sizeof path, "%s/" MOB_SETTINGS_FILE_NAME, directory);
    unlink(path);
    return rmdir(directory);
}

static void flags_go_before_the_environment_and_that_before_the_file(void **state)
{
    (void)state;
    write_file("slots = 2\nblocked-max = 20\nidle-reap-ms = 2s\n");
    char *environment[] = {"MOBULA_SLOTS=3", "MOBULA_BLOCKED_MAX=30", NULL};
    assert_int_equal(READ(environment, "--slots", "4"), MOB_OK);
    assert_int_equal(mob_setting_number(&settings, MOB_SETTING_SLOTS), 4);
    assert_int_equal(mob_setting_number(&settings, MOB_SETTING_BLOCKED_MAX), 30);
    assert_int_equal(mob_setting_number(&settings, MOB_SETTING_IDLE_REAP_MS), 2000);
}

static void links_stand_between_settings(void **state)
{
    (void)state;
    assert_int_equal(
        READ(NULL, "--gcs-socket", "/a", "--slots=5", "--host=one", "--verbose", "--host", "two"), MOB_OK);
    assert_string_equal(links.socket, "/a");
    assert_int_equal(links.host_count, 2);
    assert_string_equal(links.hosts[0], "one");
    assert_string_equal(links.hosts[1], "two");
    assert_true(links.verbose);
    assert_int_equal(mob_setting_number(&settings, MOB_SETTING_SLOTS), 5);
}

static void assert_refused(enum mob_status status, enum mob_status expected, const char *word)
{
    assert_string_equal(mob_status_code(status), mob_status_code(expected));
    if (strstr(settings.error, word) == NULL)
        fail_msg("\"%s\" does not say %s", settings.error, word);
}

static void what_is_neither_is_an_error(void **state)
{
    (void)state;
    assert_refused(READ(NULL, "--slotz", "3"), MOB_NOT_FOUND, "did you mean slots");
    assert_refused(
        READ(NULL, "--gcs-durability", "no"), MOB_NOT_FOUND, "gcs-durability"); /* another daemon's */
    assert_refused(READ(NULL, "slots"), MOB_INVALID, "unexpected argument slots");
    assert_refused(READ(NULL, "--gcs-socket"), MOB_INVALID, "--gcs-socket needs a value");
    assert_refused(READ(NULL, "--verbose=yes"), MOB_INVALID, "--verbose takes no value");
    assert_refused(READ(NULL, "--host=1", "--host=2", "--host=3"), MOB_INVALID, "at most 2");
    assert_refused(READ(NULL, "--slots", "0"), MOB_INVALID, "must be from 1");
    assert_refused(READ(NULL, "--slots", "-1"), MOB_INVALID, "a whole number from 1 to ");
    assert_refused(READ(NULL, "--worker-memory-bytes", "16777215"), MOB_INVALID,
        "worker-memory-bytes is 16777215, and must be 0, or from 16777216 to ");
    assert_refused(READ(NULL, "--worker-memory-bytes", "17TiB"), MOB_INVALID, "must be 0, or from ");
    assert_refused(READ(NULL, "--worker-memory-bytes", "much"), MOB_INVALID, "a size as 512MiB");
    assert_int_equal(READ(NULL, "--worker-memory-bytes", "0"), MOB_OK);
    assert_int_equal(READ(NULL, "--worker-memory-bytes", "16MiB"), MOB_OK);
    char *environment[] = {"MOBULA_SLOTZ=3", NULL};
    assert_refused(READ(environment, "--slots", "1"), MOB_NOT_FOUND, "MOBULA_SLOTZ");
    write_file("slotz = 3\n");
    assert_refused(READ(NULL, "--slots", "1"), MOB_NOT_FOUND, MOB_SETTINGS_FILE_NAME ":1");
}

static void links_are_no_settings(void **state)
{
    (void)state;
    write_file("gcs-socket = /a\n");
    assert_refused(READ(NULL, "--slots", "1"), MOB_NOT_FOUND, "gcs-socket");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
            flags_go_before_the_environment_and_that_before_the_file, make_directory, remove_directory),
        cmocka_unit_test_setup_teardown(links_stand_between_settings, make_directory, remove_directory),
        cmocka_unit_test_setup_teardown(what_is_neither_is_an_error, make_directory, remove_directory),
        cmocka_unit_test_setup_teardown(links_are_no_settings, make_directory, remove_directory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
