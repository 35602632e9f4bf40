/* The pool with real processes: zygote, workers, their logs and their ends. */
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "common/base/clock.h"
#include "runtime/store/store.h"
#include "runtime/worker/pool.h"
#include "runtime/worker/pool_internal.h"

static struct mob_store *store;
static struct mob_pool *pool;
static char directory[64];

static int set_up(void **state)
{
    (void)state;
    char worker[512];
    const char *binaries = getenv("MOBULA_BIN_DIR");
    struct mob_store_options options = {
        .struct_size = sizeof options, .segment_bytes = 64u << 20, .object_entries = 65536, .incarnation = 1};
    snprintf(directory, sizeof directory, "/tmp/mob-pool-XXXXXX");
    assert_non_null(mkdtemp(directory));
    assert_int_equal(mob_store_create(&options, &store), MOB_OK);
    snprintf(worker, sizeof worker, "%s/mobula-worker", binaries == NULL ? "build/release/bin" : binaries);
    struct mob_pool_options pool_options = {.struct_size = sizeof pool_options,
        .worker_path = worker,
        .state_dir = directory,
        .log_bytes_max = 65536};
    assert_int_equal(mob_pool_create(&pool_options, &pool), MOB_OK);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    char command[128];
    mob_pool_destroy(pool);
    mob_store_destroy(store);
    snprintf(command, sizeof command, "rm -rf -- %s", directory);
    return system(command) == 0 ? 0 : -1;
}

static uint32_t start(uint32_t worker)
{
    uint32_t slot;
    struct mob_client_options options = {.kind = MOB_CLIENT_WORKER};
    assert_int_equal(mob_store_client_open(store, &options, &slot), MOB_OK);
    struct mob_session_welcome welcome = {.slot = slot, .worker = worker};
    enum mob_status status;
    struct mob_pool_event event;
    while ((status = mob_pool_start(
                pool, worker, &welcome, mob_store_memfd(store), mob_store_eventfd(store))) == MOB_AGAIN)
        (void)mob_pool_step(pool, &event);
    assert_int_equal(status, MOB_OK);
    return slot;
}

static struct mob_pool_event next_event(void)
{
    struct mob_pool_event event;
    for (int64_t deadline = mob_now() + 20 * MOB_SEC; mob_now() < deadline;) {
        if (mob_pool_step(pool, &event))
            return event;
        struct pollfd p = {mob_pool_fd(pool), POLLIN, 0};
        poll(&p, 1, 1000);
    }
    fail_msg("no event came");
    return event;
}

static void kill_worker(pid_t pid)
{
    assert_true(kill(-pid, SIGKILL) == 0 || kill(pid, SIGKILL) == 0); /* before it had a group */
}

static void a_worker_starts_and_its_death_is_told(void **state)
{
    (void)state;
    start(3);
    struct mob_pool_event event = next_event();
    assert_int_equal(event.kind, MOB_POOL_STARTED);
    assert_int_equal(event.worker, 3);
    assert_true(event.pid > 0);
    kill_worker(event.pid);
    event = next_event();
    assert_int_equal(event.kind, MOB_POOL_EXITED);
    assert_true(WIFSIGNALED(event.wait_status));
    assert_int_equal(WTERMSIG(event.wait_status), SIGKILL);
}

static void a_worker_leaves_when_told(void **state)
{
    (void)state;
    uint32_t slot = start(1);
    assert_int_equal(next_event().kind, MOB_POOL_STARTED);
    assert_non_null(mob_store_in_reserve(store, slot, MOB_IN_STOP, 0, 0, 0));
    mob_store_in_flush(store, slot);
    struct mob_pool_event event = next_event();
    assert_int_equal(event.kind, MOB_POOL_EXITED);
    assert_true(WIFEXITED(event.wait_status));
    assert_int_equal(WEXITSTATUS(event.wait_status), 0);
}

/* The number of a descriptor that is the zygote's or the node's, -1 when there is none. */
static int first_foreign_descriptor(pid_t pid, char link[256])
{
    char path[64];
    for (int fd = 0; fd < 64; fd++) {
        snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)pid, fd);
        ssize_t n = readlink(path, link, 255);
        if (n <= 0)
            continue;
        link[n] = 0;
        if (strstr(link, "socket:") != NULL || strstr(link, "signalfd") != NULL)
            return fd;
    }
    return -1;
}

static void a_worker_has_a_clean_start(void **state)
{
    (void)state;
    char link[256];
    start(1);
    pid_t pid = next_event().pid;
    assert_int_equal(getpgid(pid), pid);
    /* The zygote reports it right after the fork, so the worker may be about to clean up. */
    int found = 0;
    for (int64_t deadline = mob_now() + 20 * MOB_SEC; found >= 0 && mob_now() < deadline;) {
        found = first_foreign_descriptor(pid, link);
        if (found >= 0)
            poll(NULL, 0, 5);
    }
    if (found >= 0)
        fail_msg("descriptor %d of the worker is %s", found, link);
    assert_int_equal(kill(pid, 0), 0); /* and it lives: a dead process has no descriptors either */
}

static void the_zygotes_death_ends_its_workers_and_another_one_starts(void **state)
{
    (void)state;
    start(1);
    start(2);
    pid_t pids[2] = {next_event().pid, next_event().pid};
    kill(pool->zygote, SIGKILL);
    uint32_t ended = 0;
    for (int i = 0; i < 2; i++) {
        struct mob_pool_event event = next_event();
        assert_int_equal(event.kind, MOB_POOL_EXITED);
        ended |= 1u << event.worker;
    }
    assert_int_equal(ended, 6);
    for (int64_t deadline = mob_now() + 30 * MOB_SEC; kill(pids[0], 0) == 0 || kill(pids[1], 0) == 0;) {
        assert_true(mob_now() < deadline);
        poll(NULL, 0, 5);
    }
    start(3);
    assert_int_equal(next_event().kind, MOB_POOL_STARTED);
}

static void a_hundred_starts_leave_nothing_behind(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 100; i++) {
        uint32_t slot = start(i);
        struct mob_pool_event event = next_event();
        assert_int_equal(event.kind, MOB_POOL_STARTED);
        kill_worker(event.pid);
        assert_int_equal(next_event().kind, MOB_POOL_EXITED);
        mob_store_client_close(store, slot);
    }
    assert_null(mob_store_check(store));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(a_worker_starts_and_its_death_is_told),
        TEST(a_worker_leaves_when_told),
        TEST(a_worker_has_a_clean_start),
        TEST(the_zygotes_death_ends_its_workers_and_another_one_starts),
        TEST(a_hundred_starts_leave_nothing_behind),
    };
    return cmocka_run_group_tests_name("runtime/worker/pool", tests, NULL, NULL);
}
