/* gcs/shard/beat.h with a master of the test's: for whom a member's thread speaks. ctest: threads */
#include "gcs/shard/beat.h"

#include <dirent.h>
#include <linux/capability.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/base/clock.h"
#include "tests/support/scratch.h"

#define HUNG_NS (60 * MOB_MS)
#define BEAT_NS (4 * MOB_MS)
#define SPINNERS 2

static struct fixture {
    char directory[64], address[96];
    struct mob_link_self self;
    struct mob_beat *beat;
    pthread_t master;
    _Atomic bool ready, stop;
    _Atomic int64_t since_ns; /* of the loop's pass; 0: none */
    _Atomic uint32_t late, all; /* heartbeats that were sent HUNG_NS and more behind it; all of them */
} f;

static void on_report(const struct mob_gcs_frame *frame)
{
    struct mob_gcs_report r;
    int64_t since = f.since_ns;
    assert_int_equal(frame->head_bytes, sizeof r);
    memcpy(&r, frame->head, sizeof r);
    f.late += since != 0 && r.sent_ns >= since + HUNG_NS;
    f.all++;
}

static void *master(void *arg)
{
    (void)arg;
    struct mob_listener listener;
    struct mob_chunk_pool pool = {0};
    struct mob_link *link = NULL;
    struct mob_gcs_frame frame;
    struct mob_chunk *chunk;
    assert_int_equal(mob_link_listen(f.address, &listener), MOB_OK);
    f.ready = true;
    while (!f.stop) {
        struct pollfd readable = {.fd = link == NULL ? listener.fd : mob_link_fd(link), .events = POLLIN};
        if (poll(&readable, 1, 10) <= 0)
            continue;
        if (link == NULL && mob_link_accept(&f.self, &pool, &listener, &link) != MOB_OK)
            continue;
        mob_link_io(link, true);
        while (mob_link_next(link, &frame, &chunk) == MOB_OK)
            if (frame.type == MOB_GCS_REPORT)
                on_report(&frame);
    }
    mob_link_destroy(link);
    mob_listener_fini(&listener);
    mob_chunk_pool_fini(&pool);
    return NULL;
}

static int set_up(void **state)
{
    (void)state;
    memset(&f, 0, sizeof f);
    scratch_make(f.directory, sizeof f.directory, "mob-beat");
    snprintf(f.address, sizeof f.address, "%s/master", f.directory);
    f.self = (struct mob_link_self){.id = 7, .protocol_min = 1, .protocol_max = 1};
    snprintf(f.self.place.link, sizeof f.self.place.link, "/link");
    assert_int_equal(pthread_create(&f.master, NULL, master, NULL), 0);
    while (!f.ready)
        sched_yield();
    const struct mob_beat_options options = {
        .self = &f.self, .masters = {f.address}, .master_count = 1, .hung_ns = HUNG_NS, .beat_ns = BEAT_NS};
    assert_int_equal(mob_beat_create(&options, &f.beat), MOB_OK);
    mob_beat_publish(f.beat, &(struct mob_gcs_report){.member = 7, .busy = 1}, true);
    while (f.all < 3)
        sched_yield();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    mob_beat_destroy(f.beat);
    f.stop = true;
    pthread_join(f.master, NULL);
    unlink(f.address);
    rmdir(f.directory);
    return 0;
}

static void begin_pass(void)
{
    mob_beat_busy(f.beat, true);
    f.since_ns = mob_now();
}

/* Heard again when the pass is over, and then all that was sent before. */
static void end_pass(void)
{
    mob_beat_busy(f.beat, false);
    f.since_ns = 0;
    for (uint32_t before = f.all; f.all < before + 3;)
        sched_yield();
}

static void a_loop_that_sleeps_in_its_pass_is_not_spoken_for(void **state)
{
    (void)state;
    begin_pass();
    struct timespec pause = {0, 8 * HUNG_NS};
    nanosleep(&pause, NULL);
    assert_in_range(f.late, 0, 1); /* as it wakes, it may wait for a core */
    end_pass();
}

static void a_loop_that_works_in_its_pass_for_long_is_not_spoken_for(void **state)
{
    (void)state;
    begin_pass();
    while (mob_now() < f.since_ns + 12 * HUNG_NS)
        continue;
    uint32_t late = f.late; /* it waited for a core now and then */
    while (mob_now() < f.since_ns + 20 * HUNG_NS)
        continue;
    assert_in_range(f.late, late, late + 1); /* sent before and heard now */
    end_pass();
}

/* One of this process's threads has it. */
static bool some_thread_is_realtime(void)
{
    bool found = false;
    DIR *threads = opendir("/proc/self/task");
    assert_non_null(threads);
    for (struct dirent *d; (d = readdir(threads)) != NULL;)
        found |= d->d_name[0] != '.' && sched_getscheduler((pid_t)atoi(d->d_name)) == SCHED_FIFO;
    closedir(threads);
    return found;
}

static void it_says_whether_its_thread_has_realtime_priority(void **state)
{
    (void)state;
    assert_int_equal(mob_beat_realtime(f.beat), some_thread_is_realtime());
}

/* May the process have none, its thread has none either, and says so. */
static void without_the_right_it_says_that_it_has_none(void **state)
{
    struct rlimit none = {0};
    (void)state;
    if (geteuid() == 0 && prctl(PR_CAPBSET_READ, CAP_SYS_NICE, 0, 0, 0) == 1) {
        struct __user_cap_header_struct head = {_LINUX_CAPABILITY_VERSION_3, 0};
        struct __user_cap_data_struct caps[2];
        assert_int_equal(syscall(SYS_capget, &head, caps), 0);
        caps[0].effective &= ~(1u << CAP_SYS_NICE); /* for the rest of this program */
        assert_int_equal(syscall(SYS_capset, &head, caps), 0);
    }
    assert_int_equal(setrlimit(RLIMIT_RTPRIO, &none), 0);
    assert_int_equal(set_up(state), 0);
    assert_false(mob_beat_realtime(f.beat));
    assert_false(some_thread_is_realtime());
    assert_int_equal(tear_down(state), 0);
}

/* ---- on a core that others have ---- */

static _Atomic bool spins;
static void *spin(void *arg)
{
    (void)arg;
    while (spins)
        continue;
    return NULL;
}

static void to_one_core(cpu_set_t *before)
{
    cpu_set_t one;
    assert_int_equal(sched_getaffinity(0, sizeof *before, before), 0);
    int cpu = 0;
    while (!CPU_ISSET(cpu, before))
        cpu++;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
}

static void a_loop_that_waits_for_a_core_is_spoken_for(void **state)
{
    (void)state;
    cpu_set_t before;
    pthread_t spinners[SPINNERS];
    struct sched_param none = {0};
    to_one_core(&before);
    spins = true;
    for (int i = 0; i < SPINNERS; i++) /* on that core, too */
        assert_int_equal(pthread_create(&spinners[i], NULL, spin, NULL), 0);
    begin_pass();
    assert_int_equal(sched_setscheduler(0, SCHED_IDLE, &none), 0);
    while (f.late < 5 && mob_now() < f.since_ns + 200 * HUNG_NS)
        continue;
    spins = false;
    (void)sched_setscheduler(0, SCHED_OTHER, &none);
    for (int i = 0; i < SPINNERS; i++)
        pthread_join(spinners[i], NULL);
    assert_int_equal(sched_setaffinity(0, sizeof before, &before), 0);
    assert_true(f.late >= 5);
    end_pass();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_loop_that_sleeps_in_its_pass_is_not_spoken_for, set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            a_loop_that_works_in_its_pass_for_long_is_not_spoken_for, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_loop_that_waits_for_a_core_is_spoken_for, set_up, tear_down),
        cmocka_unit_test_setup_teardown(it_says_whether_its_thread_has_realtime_priority, set_up, tear_down),
        cmocka_unit_test(without_the_right_it_says_that_it_has_none), /* the last: it gives the right up */
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
