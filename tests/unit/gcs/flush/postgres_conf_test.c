/* The private PostgreSQL's configuration: no TCP, one role for one user, commits on disk; 0600 files. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "gcs/flush/postgres_conf.h"

static void it_has_no_tcp_and_commits_are_on_disk(void **state)
{
    (void)state;
    char text[2048];
    struct mob_postgres_conf conf = {.title = "/tmp/state", .user = "someone"};
    assert_int_equal(mob_postgres_conf_text(&conf, text, sizeof text), MOB_OK);
    static const char *const lines[] = {"listen_addresses = ''\n", "unix_socket_permissions = 0600\n",
        "fsync = on\n", "synchronous_commit = on\n", "full_page_writes = on\n",
        "cluster_name = '/tmp/state'\n"};
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++)
        if (strstr(text, lines[i]) == NULL)
            fail_msg("no %s", lines[i]);
    assert_int_equal(mob_postgres_conf_text(&conf, text, 100), MOB_TOO_LARGE);
}

static void nothing_can_be_smuggled_into_it(void **state)
{
    (void)state;
    char text[2048];
    struct mob_postgres_conf conf = {.title = "it's\nfsync = off", .user = "a b"};
    assert_int_equal(mob_postgres_conf_text(&conf, text, sizeof text), MOB_OK);
    assert_non_null(strstr(text, "cluster_name = 'it.s.fsync...off'\n"));
    assert_int_equal(mob_postgres_ident_text(&conf, text, sizeof text), MOB_INVALID);
    conf.user = "";
    assert_int_equal(mob_postgres_ident_text(&conf, text, sizeof text), MOB_INVALID);
    conf.user = "x\nmobula all mobula";
    assert_int_equal(mob_postgres_ident_text(&conf, text, sizeof text), MOB_INVALID);
}

static void a_long_title_keeps_its_end(void **state)
{
    (void)state;
    char title[200], text[2048];
    memset(title, 'a', sizeof title);
    memcpy(title + 195, "/end", 5);
    struct mob_postgres_conf conf = {.title = title, .user = "someone"};
    assert_int_equal(mob_postgres_conf_text(&conf, text, sizeof text), MOB_OK);
    assert_non_null(strstr(text, "aaa/end'\n"));
}

static void a_planted_link_is_not_written_through(void **state)
{
    (void)state;
    char directory[] = "/tmp/mob-pgconf-XXXXXX", path[128], target[128], text[256] = {0};
    assert_non_null(mkdtemp(directory));
    snprintf(target, sizeof target, "%s/target", directory);
    FILE *file = fopen(target, "w");
    fputs("precious", file);
    fclose(file);
    static const char *const names[] = {
        "mobula.conf", ".mobula.conf.new", ".pg_hba.conf.new", "pg_ident.conf"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        snprintf(path, sizeof path, "%s/%s", directory, names[i]);
        assert_int_equal(symlink(target, path), 0);
    }
    struct mob_postgres_conf conf = {.title = "t", .user = "someone"};
    assert_int_equal(mob_postgres_conf_write(directory, &conf), MOB_OK);
    file = fopen(target, "r");
    assert_non_null(fgets(text, sizeof text, file));
    fclose(file);
    assert_string_equal(text, "precious");
    static const char *const written[] = {"mobula.conf", "pg_hba.conf", "pg_ident.conf"};
    for (size_t i = 0; i < sizeof written / sizeof written[0]; i++) {
        struct stat st;
        snprintf(path, sizeof path, "%s/%s", directory, written[i]);
        assert_int_equal(lstat(path, &st), 0);
        assert_true(S_ISREG(st.st_mode));
        assert_int_equal(st.st_mode & 0777, 0600);
        unlink(path);
    }
    unlink(target);
    assert_int_equal(rmdir(directory), 0); /* nothing else was left there */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_has_no_tcp_and_commits_are_on_disk),
        cmocka_unit_test(nothing_can_be_smuggled_into_it),
        cmocka_unit_test(a_long_title_keeps_its_end),
        cmocka_unit_test(a_planted_link_is_not_written_through),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
