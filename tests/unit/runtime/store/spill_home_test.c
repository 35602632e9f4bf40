#include "runtime/store/spill_home.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "common/base/clock.h"

#define PATIENCE (60 * MOB_SEC)

static char spill_dir[64];

static int setup(void **state)
{
    (void)state;
    snprintf(spill_dir, sizeof spill_dir, "/tmp/mobula_spill_XXXXXX");
    return mkdtemp(spill_dir) ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    return rmdir(spill_dir); /* nothing is left in it */
}

static void touch(const char *folder, const char *name)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
    assert_true(fd >= 0);
    close(fd);
}

static bool there(const char *folder, const char *name)
{
    char path[512];
    struct stat info;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return stat(path, &info) == 0;
}

static void wait_until_gone(const char *folder, const char *name)
{
    int64_t deadline = mob_now() + PATIENCE;
    while (there(folder, name)) {
        if (mob_now() > deadline)
            fail_msg("%s/%s is still there", folder, name);
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
}

static struct mob_spill_home *open_home(void)
{
    struct mob_spill_home *home;
    assert_int_equal(MOB_OK, mob_spill_home_open(spill_dir, &home));
    return home;
}

/* A process that opens a home, puts files into it and is killed: the name of its folder. */
static void leave_a_dead_home(int files, char *name_out, size_t capacity)
{
    int ends[2];
    assert_int_equal(0, pipe(ends));
    pid_t child = fork();
    if (child == 0) {
        struct mob_spill_home *home = open_home();
        for (int i = 0; i < files; i++) {
            char file[32];
            snprintf(file, sizeof file, "obj_%d.spill", i);
            touch(mob_spill_home_path(home), file);
        }
        const char *path = mob_spill_home_path(home);
        _exit(
            write(ends[1], path, strlen(path)) == (ssize_t)strlen(path) ? 0 : 1); /* the lock goes with it */
    }
    close(ends[1]);
    char path[256] = "";
    assert_true(read(ends[0], path, sizeof path - 1) > 0);
    close(ends[0]);
    int status;
    assert_int_equal(child, waitpid(child, &status, 0));
    assert_int_equal(0, status);
    snprintf(name_out, capacity, "%s", strrchr(path, '/') + 1);
}

static void what_the_dead_left_goes(void **state)
{
    (void)state;
    char dead[64], other[64];
    leave_a_dead_home(200, dead, sizeof dead);
    assert_true(there(spill_dir, dead));
    touch(spill_dir, "obj_of_a_version_without_folders.spill");
    leave_a_dead_home(3, other, sizeof other);
    struct mob_spill_home *home = open_home();
    wait_until_gone(spill_dir, dead);
    wait_until_gone(spill_dir, other);
    wait_until_gone(spill_dir, "obj_of_a_version_without_folders.spill");
    mob_spill_home_close(home);
}

static void what_the_living_have_stays(void **state)
{
    (void)state;
    char dead[64];
    struct mob_spill_home *first = open_home();
    touch(mob_spill_home_path(first), "obj_a.spill");
    leave_a_dead_home(1, dead, sizeof dead);
    struct mob_spill_home *second = open_home();
    assert_string_not_equal(mob_spill_home_path(first), mob_spill_home_path(second));
    touch(mob_spill_home_path(second), "obj_a.spill");
    wait_until_gone(spill_dir, dead);
    int fd = open(mob_spill_home_path(first), O_RDONLY | O_DIRECTORY);
    assert_int_equal(-1, flock(fd, LOCK_EX | LOCK_NB)); /* by which the second knows that it lives */
    assert_int_equal(EWOULDBLOCK, errno);
    close(fd);
    mob_spill_home_close(second);
    assert_true(there(mob_spill_home_path(first), "obj_a.spill"));
    mob_spill_home_close(first);
}

static void what_is_no_spill_file_stays(void **state)
{
    (void)state;
    touch(spill_dir, "notes");
    char dead[64];
    leave_a_dead_home(1, dead, sizeof dead);
    struct mob_spill_home *home = open_home();
    wait_until_gone(spill_dir, dead);
    mob_spill_home_close(home);
    assert_true(there(spill_dir, "notes"));
    char path[128];
    snprintf(path, sizeof path, "%s/notes", spill_dir);
    assert_int_equal(0, unlink(path));
}

static void a_directory_that_cannot_be_is_told(void **state)
{
    (void)state;
    struct mob_spill_home *home = NULL;
    assert_int_equal(MOB_IO, mob_spill_home_open("/proc/none/spill", &home));
    assert_null(home);
    mob_spill_home_close(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_the_dead_left_goes, setup, teardown),
        cmocka_unit_test_setup_teardown(what_the_living_have_stays, setup, teardown),
        cmocka_unit_test_setup_teardown(what_is_no_spill_file_stays, setup, teardown),
        cmocka_unit_test(a_directory_that_cannot_be_is_told),
    };
    return cmocka_run_group_tests_name("spill_home", tests, NULL, NULL);
}
