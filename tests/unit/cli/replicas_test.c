/* How many chains and members a start has: by what is asked for, by the directory, by what configurations can
 * be kept in. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "cli/replicas.h"
#include "tests/support/scratch.h"

static char root[64], error[STATE_ERROR_MAX];
static struct mob_settings settings;

static int setup(void **state)
{
    (void)state;
    strcpy(root, "/tmp/mobula_replicas_XXXXXX");
    assert_non_null(mkdtemp(root));
    mob_settings_init(&settings, MOB_SETTINGS_UP);
    assert_int_equal(mob_settings_set(&settings, "dir", root, MOB_SOURCE_FLAG), MOB_OK);
    error[0] = '\0';
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    return scratch_remove(root) ? 0 : -1;
}

static void make(const char *name)
{
    char path[STATE_PATH_MAX];
    assert_int_equal(mkdir(state_path(root, name, path), 0700), 0);
}

/* What a control store of one or two members leaves behind. */
static void make_stores(int count)
{
    make("gcs");
    make("gcs/appendonlydir");
    if (count > 1) {
        make("gcs-1");
        make("gcs-1/appendonlydir");
    }
}

static void ask(const char *name, const char *value)
{
    assert_int_equal(mob_settings_set(&settings, name, value, MOB_SOURCE_FLAG), MOB_OK);
}

static void expect(int64_t replicas, enum mob_setting_source source)
{
    assert_int_equal(replicas_choose(&settings, error), MOB_OK);
    assert_int_equal(mob_setting_number(&settings, MOB_SETTING_GCS_REPLICAS), replicas);
    assert_int_equal(settings.values[MOB_SETTING_GCS_REPLICAS].source, source);
}

static void expect_refused(const char *says)
{
    assert_int_equal(replicas_choose(&settings, error), MOB_CONFLICT);
    if (strstr(error, says) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", error, says);
}

static void an_empty_directory_gets_two(void **state)
{
    (void)state;
    expect(2, MOB_SOURCE_DEFAULT);
}

static void without_postgresql_it_gets_one(void **state)
{
    (void)state;
    ask("postgres", "off");
    expect(1, MOB_SOURCE_DEFAULT);
    ask("gcs-replicas", "1");
    expect(1, MOB_SOURCE_FLAG);
    ask("gcs-replicas", "2");
    expect_refused("postgres is off, and gcs-replicas is 2");
}

static void a_directory_keeps_its_number(void **state)
{
    (void)state;
    make_stores(2); /* the second of an attempt that never came to serve */
    assert_int_equal(replicas_record(root, 1), MOB_OK);
    expect(1, MOB_SOURCE_DIRECTORY);
    ask("gcs-replicas", "3");
    expect(3, MOB_SOURCE_FLAG);
    assert_int_equal(replicas_record(root, 3), MOB_OK);
    uint32_t there = 0;
    assert_int_equal(replicas_of_directory(root, &there), MOB_OK);
    assert_int_equal(there, 3);
}

static void a_directory_keeps_its_number_of_chains(void **state)
{
    (void)state;
    make_stores(1);
    assert_int_equal(replicas_choose(&settings, error), MOB_OK);
    assert_int_equal(mob_setting_number(&settings, MOB_SETTING_GCS_SHARDS), 1);
    ask("gcs-shards", "2");
    expect_refused("Use --gcs-shards 1 here");
    char path[STATE_PATH_MAX];
    assert_int_equal(state_write(state_path(root, STATE_SHARDS_NAME, path), "3\n", 2), MOB_OK);
    expect_refused("Use --gcs-shards 3 here");
    mob_settings_init(&settings, MOB_SETTINGS_UP); /* nothing is asked for */
    ask("dir", root);
    assert_int_equal(replicas_choose(&settings, error), MOB_OK);
    assert_int_equal(mob_setting_number(&settings, MOB_SETTING_GCS_SHARDS), 3);
    assert_int_equal(settings.values[MOB_SETTING_GCS_SHARDS].source, MOB_SOURCE_DIRECTORY);
}

static void a_directory_that_does_not_say_it_is_counted(void **state)
{
    (void)state;
    make_stores(2);
    expect(2, MOB_SOURCE_DIRECTORY);
}

static void what_members_have_is_not_left_out(void **state)
{
    (void)state;
    make_stores(2);
    assert_int_equal(replicas_record(root, 2), MOB_OK);
    ask("gcs-replicas", "1");
    expect_refused("Use --gcs-replicas 2 here");
}

static void a_chain_is_not_started_without_its_table(void **state)
{
    (void)state;
    char path[STATE_PATH_MAX];
    make_stores(2);
    assert_int_equal(replicas_record(root, 2), MOB_OK);
    ask("postgres", "off");
    expect_refused("Use --postgres on here");
    ask("postgres", "on");
    expect(2, MOB_SOURCE_DIRECTORY);
    assert_int_equal(state_write(state_path(root, "master.table", path), "x", 1), MOB_OK);
    expect_refused("an earlier version ran without PostgreSQL");
    make("pg"); /* it has had one since */
    expect(2, MOB_SOURCE_DIRECTORY);
}

static void a_number_that_is_none_is_not_guessed(void **state)
{
    (void)state;
    char path[STATE_PATH_MAX];
    make_stores(1);
    assert_int_equal(state_write(state_path(root, "gcs-replicas", path), "7\n", 2), MOB_OK);
    assert_int_equal(replicas_choose(&settings, error), MOB_CORRUPT);
}

static void what_an_empty_directory_says_counts_for_nothing(void **state)
{
    (void)state;
    assert_int_equal(replicas_record(root, 1), MOB_OK);
    expect(2, MOB_SOURCE_DEFAULT);
}

static void a_member_whose_data_is_gone_is_named(void **state)
{
    (void)state;
    char path[STATE_PATH_MAX], wanted[STATE_PATH_MAX];
    uint32_t shard = 0;
    make("pg");
    make_stores(2);
    assert_false(replicas_lost(root, 1, path)); /* it has never been ready */
    assert_int_equal(replicas_record(root, 2), MOB_OK);
    assert_false(replicas_lost(root, 1, path));
    assert_true(replicas_lost(root, 2, path));
    assert_string_equal(path, state_path(root, "gcs-s1", wanted));
    make("gcs-s1");
    make("gcs-s1/appendonlydir");
    assert_true(replicas_lost(root, 2, path));
    assert_string_equal(path, state_path(root, "gcs-s1-1", wanted));
    assert_int_equal(rmdir(state_path(root, "gcs/appendonlydir", wanted)), 0);
    assert_true(replicas_lost(root, 1, path));
    assert_string_equal(path, state_path(root, "gcs", wanted));
    assert_false(replicas_lost_all(root, 2, &shard)); /* another one of each has data */
    assert_int_equal(rmdir(state_path(root, "gcs-s1/appendonlydir", wanted)), 0);
    assert_true(replicas_lost_all(root, 2, &shard));
    assert_int_equal(shard, 1);
    assert_int_equal(rmdir(state_path(root, "pg", wanted)), 0); /* nobody knows of a chain any more */
    assert_false(replicas_lost(root, 1, path));
}

static void one_member_waits_for_nobody(void **state)
{
    (void)state;
    char path[STATE_PATH_MAX];
    make("pg");
    assert_int_equal(replicas_record(root, 1), MOB_OK);
    assert_false(replicas_lost(root, 1, path));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(an_empty_directory_gets_two),
        TEST(without_postgresql_it_gets_one),
        TEST(a_directory_keeps_its_number),
        TEST(a_directory_keeps_its_number_of_chains),
        TEST(a_directory_that_does_not_say_it_is_counted),
        TEST(what_members_have_is_not_left_out),
        TEST(a_chain_is_not_started_without_its_table),
        TEST(a_number_that_is_none_is_not_guessed),
        TEST(what_an_empty_directory_says_counts_for_nothing),
        TEST(a_member_whose_data_is_gone_is_named),
        TEST(one_member_waits_for_nobody),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
