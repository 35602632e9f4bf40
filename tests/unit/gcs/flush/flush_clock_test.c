/* The threads of the flusher wait as long as they are to, also when the wall clock is set back meanwhile:
 * here it is an hour ahead whenever one of them reads it. PostgreSQL is a socket that hangs up, or never
 * answers. */
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/base/clock.h"
#include "gcs/flush/cold_pool.h"
#include "gcs/flush/flush_thread.h"
#include "gcs/flush/postgres_conf.h"
#include "tests/support/scratch.h"

#define PATIENCE_MS 30000
#define WAIT_NS (20 * MOB_MS)

/* In place of libc's, for the code under test. */
int clock_gettime(clockid_t id, struct timespec *now)
{
    long failed = syscall(SYS_clock_gettime, id, now);
    if (failed == 0 && id == CLOCK_REALTIME)
        now->tv_sec += 3600;
    return (int)failed;
}

struct fake_postgres {
    char directory[96], path[108]; /* as long as an address may be */
    int listen_fd, event_fd;
};

static void fake_init(struct fake_postgres *f)
{
    scratch_make(f->directory, sizeof f->directory, "mob-clock");
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(f->path, sizeof f->path, "%s/" MOB_POSTGRES_SOCKET_NAME, f->directory);
    snprintf(address.sun_path, sizeof address.sun_path, "%s", f->path);
    f->listen_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(f->listen_fd, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(f->listen_fd, 16), 0);
    f->event_fd = eventfd(0, EFD_CLOEXEC);
}

static int fake_take(const struct fake_postgres *f)
{
    struct pollfd ready = {.fd = f->listen_fd, .events = POLLIN};
    assert_int_equal(poll(&ready, 1, PATIENCE_MS), 1);
    int fd = accept(f->listen_fd, NULL, NULL);
    assert_true(fd >= 0);
    return fd;
}

/* Whoever still waits for an answer hears that there is none. */
static void fake_fini(struct fake_postgres *f)
{
    close(f->listen_fd);
    unlink(f->path);
    rmdir(f->directory);
}

static struct cold_pool *pool_that_was_asked(const struct fake_postgres *f)
{
    struct cold_pool *pool;
    struct cold_pool_options options = {.directory = f->directory, .event_fd = f->event_fd};
    struct mob_gcs_cold_get query = {.upto = 1};
    assert_int_equal(cold_pool_start(&options, &pool), MOB_OK);
    assert_int_equal(cold_pool_ask(pool, &query, NULL, 0), MOB_OK);
    return pool;
}

static void a_reader_tries_again_in_time(void **state)
{
    (void)state;
    struct fake_postgres f;
    fake_init(&f);
    struct cold_pool *pool = pool_that_was_asked(&f);
    for (int i = 0; i < 3; i++)
        close(fake_take(&f));
    assert_true(cold_pool_stop(pool, PATIENCE_MS * MOB_MS));
    fake_fini(&f);
    close(f.event_fd);
}

/* What is not stopped lives on, and so must what it uses. */
static struct fake_postgres mute[2];
static struct cold_pool *left_pool;
static struct flush_thread *left_thread;

static void a_stop_waits_no_longer_for_readers(void **state)
{
    (void)state;
    fake_init(&mute[0]);
    left_pool = pool_that_was_asked(&mute[0]);
    int fd = fake_take(&mute[0]);
    assert_false(cold_pool_stop(left_pool, WAIT_NS));
    close(fd);
    fake_fini(&mute[0]);
}

static void a_stop_waits_no_longer_for_the_writer(void **state)
{
    (void)state;
    static struct flush_job job = {.kind = FLUSH_JOB_OPEN};
    fake_init(&mute[1]);
    struct flush_thread_options options = {.directory = mute[1].directory, .event_fd = mute[1].event_fd};
    assert_int_equal(flush_thread_start(&options, &left_thread), MOB_OK);
    flush_thread_give(left_thread, &job);
    int fd = fake_take(&mute[1]);
    assert_false(flush_thread_stop(left_thread, WAIT_NS));
    close(fd);
    fake_fini(&mute[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_reader_tries_again_in_time),
        cmocka_unit_test(a_stop_waits_no_longer_for_readers),
        cmocka_unit_test(a_stop_waits_no_longer_for_the_writer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
