/* redis.conf and the ACL: no TCP, nothing evicted, no commands that the member does not send; 0600 files. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "gcs/shard/redis_conf.h"

static const char password[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMN";

static void the_configuration_is_private_and_never_evicts(void **state)
{
    (void)state;
    char text[4096];
    struct mob_redis_conf conf = {"/run/some-place_1", password};
    assert_int_equal(mob_redis_conf_text(&conf, text, sizeof text), MOB_OK);
    static const char *const lines[] = {"port 0\n", "unixsocketperm 600\n", "appendonly yes\n",
        "appendfsync no\n", "auto-aof-rewrite-percentage 0\n", "maxmemory-policy noeviction\n", "save \"\"\n",
        "unixsocket /run/some-place_1/redis.sock\n"};
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++)
        if (strstr(text, lines[i]) == NULL)
            fail_msg("no %s", lines[i]);
    assert_int_equal(mob_redis_conf_text(&conf, text, 100), MOB_TOO_LARGE);
}

static void nothing_can_be_smuggled_into_it(void **state)
{
    (void)state;
    char text[4096];
    struct mob_redis_conf conf = {"/tmp/x\nport 6379", password};
    assert_int_equal(mob_redis_conf_text(&conf, text, sizeof text), MOB_INVALID);
    conf.directory = "relative";
    assert_int_equal(mob_redis_conf_text(&conf, text, sizeof text), MOB_INVALID);
    conf = (struct mob_redis_conf){"/tmp", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa on allcommands"};
    assert_int_equal(mob_redis_acl_text(&conf, text, sizeof text), MOB_INVALID);
    conf.password = "short";
    assert_int_equal(mob_redis_acl_text(&conf, text, sizeof text), MOB_INVALID);
}

static void the_user_may_do_what_the_member_does_and_no_more(void **state)
{
    (void)state;
    char text[4096];
    struct mob_redis_conf conf = {"/tmp", password};
    assert_int_equal(mob_redis_acl_text(&conf, text, sizeof text), MOB_OK);
    assert_non_null(strstr(text, "user default off "));
    assert_non_null(strstr(text, " -@all "));
    static const char *const never[] = {"+eval", "+config", "+flushall", "+@", "+acl", "+debug", "+shutdown",
        "+module", "allcommands", "nopass"};
    for (size_t i = 0; i < sizeof never / sizeof never[0]; i++)
        assert_null(strstr(text, never[i]));
}

static void files_are_0600_and_the_password_stays(void **state)
{
    (void)state;
    char directory[] = "/tmp/mob-conf-XXXXXX", path[64], first[200], second[200];
    assert_non_null(mkdtemp(directory));
    assert_int_equal(mob_redis_conf_write(directory), MOB_OK);
    snprintf(path, sizeof path, "%s/redis.pass", directory);
    assert_int_equal(mob_redis_password_read(path, first, sizeof first), MOB_OK);
    assert_int_equal(strlen(first), 48);
    char left[64];
    snprintf(left, sizeof left, "%s/temp-rewriteaof-12.aof", directory);
    fclose(fopen(left, "w"));
    assert_int_equal(mob_redis_conf_write(directory), MOB_OK);
    assert_int_equal(access(left, F_OK), -1);
    assert_int_equal(mob_redis_password_read(path, second, sizeof second), MOB_OK);
    assert_string_equal(first, second);
    static const char *const names[] = {"redis.conf", "redis.acl", "redis.pass"};
    for (size_t i = 0; i < 3; i++) {
        struct stat st;
        snprintf(path, sizeof path, "%s/%s", directory, names[i]);
        assert_int_equal(stat(path, &st), 0);
        assert_int_equal(st.st_mode & 0777, 0600);
        unlink(path);
    }
    assert_int_equal(rmdir(directory), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_configuration_is_private_and_never_evicts),
        cmocka_unit_test(nothing_can_be_smuggled_into_it),
        cmocka_unit_test(the_user_may_do_what_the_member_does_and_no_more),
        cmocka_unit_test(files_are_0600_and_the_password_stays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
