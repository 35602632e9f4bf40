/* Directories that other users own: made, given, removed, and never through a link that was planted in them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "cli/system_user.h"

static char root[64];

static const char *in(const char *name)
{
    static char paths[4][192];
    static unsigned next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", root, name);
    return path;
}

static void write_file(const char *name)
{
    FILE *file = fopen(in(name), "w");
    assert_non_null(file);
    fputs("x", file);
    fclose(file);
}

static int set_up(void **state)
{
    (void)state;
    snprintf(root, sizeof root, "/tmp/mob-user-XXXXXX");
    return mkdtemp(root) == NULL;
}

static int tear_down(void **state)
{
    (void)state;
    unlink(in("outside/kept"));
    unlink(in("outside/second"));
    rmdir(in("outside"));
    if (system_user_remove_tree(root, "tree") != MOB_OK)
        return 1;
    return rmdir(root);
}

static void make_tree(void)
{
    mkdir(in("outside"), 0700);
    write_file("outside/kept");
    mkdir(in("tree"), 0700);
    mkdir(in("tree/a"), 0700);
    mkdir(in("tree/a/b"), 0700);
    write_file("tree/a/b/file");
    assert_int_equal(symlink(in("outside"), in("tree/a/link")), 0);
    assert_int_equal(symlink(in("outside/kept"), in("tree/file_link")), 0);
}

static void a_tree_goes_and_what_its_links_name_stays(void **state)
{
    (void)state;
    make_tree();
    assert_int_equal(system_user_remove_tree(root, "tree"), MOB_OK);
    assert_int_equal(access(in("tree"), F_OK), -1);
    assert_int_equal(access(in("outside/kept"), F_OK), 0);
    assert_int_equal(system_user_remove_tree(root, "tree"), MOB_OK); /* nothing there */
}

static void what_is_given_is_what_lies_inside(void **state)
{
    (void)state;
    if (geteuid() != 0)
        skip();
    make_tree();
    write_file("outside/second");
    assert_int_equal(link(in("outside/second"), in("tree/second_name")), 0);
    struct system_user user = {.other = true, .uid = 12345, .gid = 12346};
    assert_int_equal(system_user_own_tree(root, "tree", &user), MOB_OK);
    struct stat st;
    assert_int_equal(stat(in("tree/a/b/file"), &st), 0);
    assert_int_equal(st.st_uid, 12345);
    assert_int_equal(st.st_gid, 12346);
    assert_int_equal(stat(in("tree"), &st), 0);
    assert_int_equal(st.st_uid, 12345);
    assert_int_equal(stat(in("outside/kept"), &st), 0);
    assert_int_equal(st.st_uid, 0);
    assert_int_equal(stat(in("outside"), &st), 0);
    assert_int_equal(st.st_uid, 0);
    assert_int_equal(stat(in("outside/second"), &st), 0); /* a file with two names may be somebody else's */
    assert_int_equal(st.st_uid, 0);
}

static void a_new_one_is_private(void **state)
{
    (void)state;
    struct system_user us = {.uid = geteuid(), .gid = getegid()};
    struct stat st;
    assert_int_equal(system_user_own_tree(root, "tree", &us), MOB_OK);
    assert_int_equal(stat(in("tree"), &st), 0);
    assert_int_equal(st.st_mode & 07777, 0700);
    assert_int_equal(system_user_own_tree(root, "none/tree", &us), MOB_IO);
}

static void an_unknown_user_is_said_to_root_only(void **state)
{
    (void)state;
    struct system_user user;
    enum mob_status status = system_user_find("no-such-user-here", &user);
    assert_int_equal(status, geteuid() == 0 ? MOB_NOT_FOUND : MOB_OK);
    if (geteuid() == 0)
        assert_int_equal(system_user_find("root", &user), MOB_NOT_FOUND); /* that would change nothing */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_tree_goes_and_what_its_links_name_stays, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_is_given_is_what_lies_inside, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_new_one_is_private, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_unknown_user_is_said_to_root_only, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
