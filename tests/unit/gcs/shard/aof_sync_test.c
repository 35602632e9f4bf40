/* The thread that syncs Redis' append-only files: what it answers while files come, go and cannot be read.
 * ctest: threads */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "gcs/shard/aof_sync.h"

enum { SYNCS = 100, LOST_MS = 20000 };

static void make_folder(char folder[64])
{
    snprintf(folder, 64, "/tmp/mob-aof-XXXXXX");
    assert_non_null(mkdtemp(folder));
}

static void remove_folder(const char *folder)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf -- %s", folder);
    assert_int_equal(system(command), 0);
}

static void write_file(const char *folder, const char *name)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, name, strlen(name)), strlen(name));
    close(fd);
}

static struct mob_aof_sync_result wait_result(struct mob_aof_sync *sync)
{
    struct mob_aof_sync_result result;
    while (!mob_aof_sync_result(sync, &result)) {
        struct pollfd readable = {mob_aof_sync_fd(sync), POLLIN, 0};
        assert_int_equal(poll(&readable, 1, LOST_MS), 1);
    }
    return result;
}

/* As a rewrite does: a new increment under a temporary name, renamed, and the old one goes. */
struct rewriter {
    const char *folder;
    _Atomic bool stop;
};

static void *rewrite(void *arg)
{
    struct rewriter *r = arg;
    for (uint32_t i = 0; !r->stop; i++) {
        char from[128], to[128], old[128], name[32];
        snprintf(name, sizeof name, "temp-%u", i);
        write_file(r->folder, name);
        snprintf(from, sizeof from, "%s/%s", r->folder, name);
        snprintf(to, sizeof to, "%s/appendonly.aof.%u.incr.aof", r->folder, i + 1);
        snprintf(old, sizeof old, "%s/appendonly.aof.%u.incr.aof", r->folder, i);
        assert_int_equal(rename(from, to), 0);
        if (i > 0)
            assert_int_equal(unlink(old), 0);
        poll(NULL, 0, 1);
    }
    return NULL;
}

static void each_request_has_one_answer_while_files_are_replaced(void **state)
{
    (void)state;
    char folder[64];
    struct mob_aof_sync *sync;
    pthread_t thread;
    make_folder(folder);
    write_file(folder, "appendonly.aof.manifest");
    assert_int_equal(mob_aof_sync_create(folder, &sync), MOB_OK);
    struct rewriter rewriter = {.folder = folder};
    assert_int_equal(pthread_create(&thread, NULL, rewrite, &rewriter), 0);
    for (uint64_t seq = 1; seq <= SYNCS; seq++) {
        struct mob_aof_sync_result result;
        assert_true(mob_aof_sync_request(sync, seq));
        assert_false(mob_aof_sync_request(sync, seq + SYNCS)); /* one at a time, its answer taken */
        result = wait_result(sync);
        assert_int_equal(result.status, MOB_OK);
        assert_int_equal(result.seq, seq);
        assert_false(mob_aof_sync_result(sync, &result));
    }
    rewriter.stop = true;
    assert_int_equal(pthread_join(thread, NULL), 0);
    mob_aof_sync_destroy(sync);
    remove_folder(folder);
}

static void folder_that_is_gone_is_an_error(void **state)
{
    (void)state;
    char folder[64];
    struct mob_aof_sync *sync;
    make_folder(folder);
    assert_int_equal(mob_aof_sync_create(folder, &sync), MOB_OK);
    assert_true(mob_aof_sync_request(sync, 1));
    assert_int_equal(wait_result(sync).status, MOB_OK);
    remove_folder(folder);
    assert_true(mob_aof_sync_request(sync, 2));
    struct mob_aof_sync_result result = wait_result(sync);
    assert_int_equal(result.status, MOB_IO);
    assert_int_equal(result.seq, 2);
    mob_aof_sync_destroy(sync);
}

/* More names than it can remember: it must not call them all synced. */
static void too_many_files_are_an_error(void **state)
{
    (void)state;
    char folder[64], name[32];
    struct mob_aof_sync *sync;
    make_folder(folder);
    for (int i = 0; i < 65; i++) {
        snprintf(name, sizeof name, "appendonly.aof.%d", i);
        write_file(folder, name);
    }
    assert_int_equal(mob_aof_sync_create(folder, &sync), MOB_OK);
    assert_true(mob_aof_sync_request(sync, 1));
    assert_int_equal(wait_result(sync).status, MOB_IO);
    mob_aof_sync_destroy(sync);
    remove_folder(folder);
}

static void end_waits_for_a_sync_under_way(void **state)
{
    (void)state;
    char folder[64];
    make_folder(folder);
    write_file(folder, "appendonly.aof.manifest");
    for (int i = 0; i < 50; i++) {
        struct mob_aof_sync *sync;
        assert_int_equal(mob_aof_sync_create(folder, &sync), MOB_OK);
        assert_true(mob_aof_sync_request(sync, 1));
        mob_aof_sync_destroy(sync);
    }
    remove_folder(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_request_has_one_answer_while_files_are_replaced),
        cmocka_unit_test(folder_that_is_gone_is_an_error),
        cmocka_unit_test(too_many_files_are_an_error),
        cmocka_unit_test(end_waits_for_a_sync_under_way),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
