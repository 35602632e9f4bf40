#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "cli/log_file.h"

static char directory[64], path[128];

static int setup(void **state)
{
    (void)state;
    strcpy(directory, "/tmp/mobula_log_XXXXXX");
    assert_non_null(mkdtemp(directory));
    snprintf(path, sizeof path, "%s/x.log", directory);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    char command[160];
    for (int i = 0; i < 5; i++) {
        snprintf(command, sizeof command, i ? "%s.%d" : "%s", path, i);
        unlink(command);
    }
    return rmdir(directory);
}

static long size_of(int number)
{
    char name[160];
    struct stat st;
    snprintf(name, sizeof name, number ? "%s.%d" : "%s", path, number);
    return stat(name, &st) == 0 ? (long)st.st_size : -1;
}

static void it_never_exceeds_its_bound_and_keeps_the_newest(void **state)
{
    (void)state;
    struct log_file log;
    assert_int_equal(log_file_open(&log, path, 100, 3), MOB_OK);
    for (int i = 0; i < 50; i++) {
        char line[41];
        snprintf(line, sizeof line, "%039d\n", i);
        log_file_write(&log, line, 40);
        for (int j = 0; j < 3; j++)
            assert_true(size_of(j) <= 100);
    }
    assert_int_equal(size_of(0), 80);
    assert_int_equal(size_of(1), 80);
    assert_int_equal(size_of(2), 80);
    assert_int_equal(size_of(3), -1);
    char text[81] = "";
    int fd = open(path, O_RDONLY);
    assert_int_equal(read(fd, text, 80), 80);
    close(fd);
    assert_non_null(strstr(text, "049\n"));
    assert_int_equal(log.dropped_bytes, 0);
    log_file_close(&log);
}

static void it_goes_on_where_it_was(void **state)
{
    (void)state;
    struct log_file log;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(log_file_open(&log, path, 100, 2), MOB_OK);
        log_file_write(&log, "0123456789", 10);
        log_file_close(&log);
    }
    assert_int_equal(size_of(0), 20);
}

static void one_file_only_is_possible(void **state)
{
    (void)state;
    struct log_file log;
    assert_int_equal(log_file_open(&log, path, 15, 1), MOB_OK);
    for (int i = 0; i < 10; i++)
        log_file_write(&log, "0123456789", 10);
    assert_int_equal(size_of(0), 10);
    assert_int_equal(size_of(1), -1);
    log_file_close(&log);
}

static void who_writes_through_its_descriptor_goes_on_in_the_new_file(void **state)
{
    (void)state;
    struct log_file log;
    assert_int_equal(log_file_open(&log, path, 30, 2), MOB_OK);
    int fd = log.fd;
    for (int i = 0; i < 4; i++)
        assert_int_equal(write(fd, "0123456789", 10), 10);
    log_file_check(&log);
    assert_int_equal(log.fd, fd);
    assert_int_equal(write(fd, "after", 5), 5);
    assert_int_equal(size_of(0), 5);
    assert_int_equal(size_of(1), 40);
    log_file_close(&log);
}

static void a_disk_that_takes_nothing_does_not_stop_the_work(void **state)
{
    (void)state;
    struct log_file log;
    assert_int_equal(log_file_open(&log, path, 100, 2), MOB_OK);
    int full = open("/dev/full", O_WRONLY);
    assert_true(dup2(full, log.fd) >= 0);
    close(full);
    log_file_write(&log, "0123456789", 10);
    assert_int_equal(log.dropped_bytes, 10);
    log_file_close(&log);
    log_file_write(&log, "0123456789", 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(it_never_exceeds_its_bound_and_keeps_the_newest, setup, teardown),
        cmocka_unit_test_setup_teardown(it_goes_on_where_it_was, setup, teardown),
        cmocka_unit_test_setup_teardown(one_file_only_is_possible, setup, teardown),
        cmocka_unit_test_setup_teardown(
            who_writes_through_its_descriptor_goes_on_in_the_new_file, setup, teardown),
        cmocka_unit_test_setup_teardown(a_disk_that_takes_nothing_does_not_stop_the_work, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
