/* A PostgreSQL that takes a connection and says nothing, as one that was stopped does: a master that is told
 * to end does not wait for it. */
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "gcs/flush/postgres_conf.h"
#include "gcs/master/table.h"
#include "tests/support/scratch.h"

static char directory[96];
static struct mob_table *left; /* its thread may outlive the test */

static void a_table_whose_database_hangs_is_left(void **state)
{
    (void)state;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    scratch_make(directory, sizeof directory, "mob-table");
    snprintf(address.sun_path, sizeof address.sun_path, "%s/" MOB_POSTGRES_SOCKET_NAME, directory);
    int listen_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(listen_fd, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(listen_fd, 4), 0);
    struct mob_table_options options = {.postgres = directory};
    struct mob_table_question question = {.op = MOB_TABLE_ROW, .tag = 1};
    assert_int_equal(mob_table_create(&options, &left), MOB_OK);
    assert_true(mob_table_ask(left, &question));
    struct pollfd asked = {.fd = listen_fd, .events = POLLIN};
    assert_int_equal(poll(&asked, 1, 30000), 1);
    int fd = accept(listen_fd, NULL, NULL);
    assert_true(fd >= 0);
    mob_table_destroy(left);
    struct pollfd ended = {.fd = fd, .events = POLLRDHUP};
    assert_int_equal(poll(&ended, 1, 0), 0); /* the question still waits for its answer */
    close(fd);
    close(listen_fd);
    unlink(address.sun_path);
    rmdir(directory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_table_whose_database_hangs_is_left)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
