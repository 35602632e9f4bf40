/* Links of daemons that are numbers, ids and secrets, and a process that asks to be stopped. */
#include <poll.h>
#include <setjmp.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "common/settings/daemon_start.h"

static void numbers(void **state)
{
    (void)state;
    uint32_t n;
    assert_true(mob_daemon_number(NULL, 7, 9, &n));
    assert_int_equal(n, 7);
    assert_true(mob_daemon_number("0", 7, 9, &n));
    assert_int_equal(n, 0);
    assert_true(mob_daemon_number("4294967295", 7, UINT32_MAX, &n));
    assert_int_equal(n, UINT32_MAX);
    static const char *const bad[] = {
        "", " 1", "-1", "+1", "1 ", "1x", "x", "10", "4294967296", "99999999999999999999999", "0x1"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        if (mob_daemon_number(bad[i], 7, 9, &n))
            fail_msg("\"%s\" was taken as a number up to 9", bad[i]);
}

static void milliseconds(void **state)
{
    (void)state;
    int64_t ns;
    assert_true(mob_daemon_ms(NULL, 5, &ns));
    assert_int_equal(ns, 5);
    assert_true(mob_daemon_ms("12", 5, &ns));
    assert_int_equal(ns, 12000000);
    assert_true(mob_daemon_ms("4294967295", 5, &ns));
    assert_true(ns == 4294967295000000);
    assert_false(mob_daemon_ms("0", 5, &ns));
    assert_false(mob_daemon_ms("1.5", 5, &ns));
}

static void ids_of_clusters(void **state)
{
    (void)state;
    struct mob_cluster_id id;
    static const uint8_t expected[16] = {
        0x00, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0x99, 0xaa, 0xBB, 0xcc, 0xDD, 0xee, 0xff};
    assert_true(mob_daemon_cluster("00112233445566778899aaBBccDDeeff", &id));
    assert_memory_equal(id.b, expected, 16);
    assert_false(mob_daemon_cluster(NULL, &id));
    assert_false(mob_daemon_cluster("00112233445566778899aabbccddeef", &id));
    assert_false(mob_daemon_cluster("00112233445566778899aabbccddeefff", &id));
    assert_false(mob_daemon_cluster("0x112233445566778899aabbccddeeff", &id));
}

static void secrets(void **state)
{
    (void)state;
    char path[] = "/tmp/mob-secret-XXXXXX";
    uint8_t written[40], got[MOB_CLUSTER_SECRET_BYTES];
    for (size_t i = 0; i < sizeof written; i++)
        written[i] = (uint8_t)(i * 7);
    int fd = mkstemp(path);
    assert_int_equal(write(fd, written, 31), 31);
    assert_false(mob_daemon_secret(path, got)); /* one too few */
    assert_int_equal(write(fd, written + 31, 9), 9);
    assert_true(mob_daemon_secret(path, got));
    assert_memory_equal(got, written, sizeof got);
    close(fd);
    unlink(path);
    assert_false(mob_daemon_secret(path, got));
    assert_false(mob_daemon_secret(NULL, got));
}

static void write_file(const char *directory, const char *name, const void *bytes, size_t length)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_int_equal(write(fd, bytes, length), length);
    close(fd);
}

static void a_directory_without_its_secret_gives_no_identity(void **state)
{
    (void)state;
    char directory[] = "/tmp/mob-identity-XXXXXX", path[128];
    static const char id[] = "sixteen-bytes-id", secret[] = "thirty-two-bytes-of-the-secret--";
    struct mob_cluster_id cluster;
    uint8_t got[MOB_CLUSTER_SECRET_BYTES];
    assert_non_null(mkdtemp(directory));
    write_file(directory, "cluster-id", id, sizeof cluster);
    assert_false(mob_daemon_identity(directory, &cluster, got));
    write_file(directory, "cluster-secret", secret, sizeof got - 1);
    assert_false(mob_daemon_identity(directory, &cluster, got));
    write_file(directory, "cluster-secret", secret, sizeof got);
    assert_true(mob_daemon_identity(directory, &cluster, got));
    assert_memory_equal(&cluster, id, sizeof cluster);
    assert_memory_equal(got, secret, sizeof got);
    write_file(directory, "cluster-id", id, 3);
    assert_false(mob_daemon_identity(directory, &cluster, got));
    snprintf(path, sizeof path, "%s/cluster-id", directory);
    unlink(path);
    assert_false(mob_daemon_identity(directory, &cluster, got));
    snprintf(path, sizeof path, "%s/cluster-secret", directory);
    unlink(path);
    rmdir(directory);
}

static void a_process_is_told_to_stop_and_not_killed(void **state)
{
    (void)state;
    int ready[2];
    assert_int_equal(pipe(ready), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        if (!mob_daemon_begin(true))
            _exit(1);
        struct pollfd stop = {mob_daemon_stop_fd(), POLLIN, 0};
        bool quiet = poll(&stop, 1, 0) == 0 && prctl(PR_GET_DUMPABLE) == 0;
        if (!quiet || write(ready[1], "r", 1) != 1)
            _exit(2);
        _exit(poll(&stop, 1, 100000) == 1 ? 3 : 4);
    }
    char byte;
    int status;
    close(ready[1]);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    assert_int_equal(kill(pid, SIGTERM), 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers),
        cmocka_unit_test(milliseconds),
        cmocka_unit_test(ids_of_clusters),
        cmocka_unit_test(secrets),
        cmocka_unit_test(a_directory_without_its_secret_gives_no_identity),
        cmocka_unit_test(a_process_is_told_to_stop_and_not_killed),
    };
    return cmocka_run_group_tests_name("daemon_start", tests, NULL, NULL);
}
