#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/base/unix_socket.h"

static void a_path_that_does_not_fit_is_refused(void **state)
{
    (void)state;
    struct sockaddr_un address;
    char path[sizeof address.sun_path + 1];
    memset(path, 'x', sizeof path);
    path[sizeof path - 1] = 0;
    assert_int_equal(mob_unix_address(path, &address), MOB_TOO_LARGE);
    path[sizeof path - 2] = 0;
    assert_int_equal(mob_unix_address(path, &address), MOB_OK);
    assert_string_equal(address.sun_path, path);
    assert_int_equal(address.sun_family, AF_UNIX);
    int fd = -1;
    path[sizeof path - 2] = 'x';
    assert_int_equal(mob_unix_bind(path, SOCK_STREAM, 1, &fd), MOB_TOO_LARGE);
    assert_int_equal(fd, -1);
}

/* What a killed process left at the path is in nobody's way, and only the user may connect. */
static void a_socket_takes_the_place_of_the_one_before(void **state)
{
    (void)state;
    char directory[64] = "/tmp/mob-unix-XXXXXX", path[80];
    assert_non_null(mkdtemp(directory));
    snprintf(path, sizeof path, "%s/s", directory);
    int before, fd, client = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_un address;
    struct stat st;
    assert_int_equal(mob_unix_bind(path, SOCK_STREAM, 1, &before), MOB_OK);
    close(before);
    assert_int_equal(mob_unix_bind(path, SOCK_STREAM, 1, &fd), MOB_OK);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_int_equal(mob_unix_address(path, &address), MOB_OK);
    assert_int_equal(connect(client, (const struct sockaddr *)&address, sizeof address), 0);
    close(client);
    close(fd);
    assert_int_equal(mob_unix_bind(path, SOCK_DGRAM, 0, &fd), MOB_OK);
    close(fd);
    unlink(path);
    assert_int_equal(mob_unix_bind(strcat(directory, "/none/s"), SOCK_STREAM, 1, &fd), MOB_IO);
    directory[strlen(directory) - strlen("/none/s")] = 0;
    rmdir(directory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_path_that_does_not_fit_is_refused),
        cmocka_unit_test(a_socket_takes_the_place_of_the_one_before),
    };
    return cmocka_run_group_tests_name("common/base/unix_socket", tests, NULL, NULL);
}
