/* What follows from what a machine is: one thing that is wrong at a time. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "cli/doctor.h"
#include "common/base/clock.h"

#define GIB (1ull << 30)

static struct doctor_machine good_machine(void)
{
    return (struct doctor_machine){.realtime = true,
        .cores = 4,
        .memory_bytes = 32 * GIB,
        .available_bytes = 30 * GIB,
        .files_soft = 20000,
        .files_hard = 20000,
        .mono_step_ns = 100,
        .boot_step_ns = 100,
        .resolution_ns = 1,
        .wall_ns = 1800000000ll * MOB_SEC};
}

static struct doctor_wants good_wants(void)
{
    return (struct doctor_wants){.shards = 1,
        .replicas = 2,
        .postgres = true,
        .segment_bytes = 8 * GIB,
        .soft_bytes = 2 * GIB,
        .hard_bytes = 3 * GIB,
        .slots = 4,
        .blocked_max = 2048};
}

/* The one line of that name; all others are ok. */
static const struct doctor_check *only(
    const struct doctor_machine *m, const struct doctor_wants *wants, const char *name)
{
    static struct doctor_report report;
    const struct doctor_check *found = NULL;
    report.count = 0;
    doctor_judge_machine(m, wants, &report);
    for (int i = 0; i < report.count; i++) {
        const struct doctor_check *c = &report.checks[i];
        if (strcmp(c->name, name) == 0)
            found = c;
        else if (c->verdict != DOCTOR_OK)
            fail_msg("%s is %s: %s", c->name, doctor_verdict_name(c->verdict), c->found);
        assert_int_equal(c->verdict == DOCTOR_OK, c->means[0] == 0);
        assert_int_equal(c->verdict == DOCTOR_OK, c->todo[0] == 0);
        assert_true(c->found[0] != 0);
    }
    assert_non_null(found);
    return found;
}

static void expect(const struct doctor_machine *m, const struct doctor_wants *wants, const char *name,
    enum doctor_verdict verdict, const char *words)
{
    const struct doctor_check *c = only(m, wants, name);
    char all[3 * DOCTOR_TEXT_MAX];
    snprintf(all, sizeof all, "%s %s %s", c->found, c->means, c->todo);
    if (c->verdict != verdict || strstr(all, words) == NULL)
        fail_msg("%s is %s, not %s with \"%s\": %s", name, doctor_verdict_name(c->verdict),
            doctor_verdict_name(verdict), words, all);
}

static void a_good_machine_is_ok_in_all(void **state)
{
    (void)state;
    struct doctor_machine m = good_machine();
    struct doctor_wants w = good_wants();
    expect(&m, &w, "realtime", DOCTOR_OK, "lease is 10 ms, its suspicion 12 ms");
}

static void without_realtime_priority_the_times_in_force_are_told(void **state)
{
    (void)state;
    struct doctor_machine m = good_machine();
    struct doctor_wants w = good_wants();
    m.realtime = false;
    m.rtprio_limit = 3;
    expect(&m, &w, "realtime", DOCTOR_WARN, "RLIMIT_RTPRIO 3");
    expect(&m, &w, "realtime", DOCTOR_WARN, "lease is 90 ms instead of 10");
    expect(&m, &w, "realtime", DOCTOR_WARN, "after 100 ms instead of 12");
    expect(&m, &w, "realtime", DOCTOR_WARN, "ulimit -r 10");
    w.replicas = 1;
    expect(&m, &w, "realtime", DOCTOR_WARN, "nothing for a control store of one member");
}

static void few_cores_are_told(void **state)
{
    (void)state;
    struct doctor_machine m = good_machine();
    struct doctor_wants w = good_wants();
    w.slots = 9;
    expect(&m, &w, "cores", DOCTOR_WARN, "--slots 4");
    w.slots = 8;
    expect(&m, &w, "cores", DOCTOR_OK, "4 cores for 8 slots");
    m.cores = w.slots = 1;
    expect(&m, &w, "cores", DOCTOR_WARN, "may look dead");
    w.replicas = 1;
    expect(&m, &w, "cores", DOCTOR_OK, "1 cores");
}

static void memory_is_held_against_the_caps_of_all_members(void **state)
{
    (void)state;
    struct doctor_machine m = good_machine();
    struct doctor_wants w = good_wants();
    m.available_bytes = 12 * GIB;
    expect(&m, &w, "memory", DOCTOR_OK, "12.0 GiB of 32.0 GiB are free");
    m.available_bytes--;
    expect(&m, &w, "memory", DOCTOR_WARN, "control store 4.0 GiB (at most 6.0 GiB)");
    w.shards = 3;
    m.available_bytes = 19 * GIB;
    expect(&m, &w, "memory", DOCTOR_WARN, "12.0 GiB");
    w = good_wants();
    w.segment_bytes = 33 * GIB;
    expect(&m, &w, "memory", DOCTOR_FAIL, "--segment-bytes");
    w = good_wants();
    w.runs = true; /* what it takes is not free any more */
    m.available_bytes = GIB;
    expect(&m, &w, "memory", DOCTOR_OK, "while it runs");
    m.available_bytes = GIB / 4;
    expect(&m, &w, "memory", DOCTOR_WARN, "256 MiB");
    m.available_bytes = GIB / 32;
    expect(&m, &w, "memory", DOCTOR_FAIL, "32 MiB");
}

static void few_descriptors_are_told(void **state)
{
    (void)state;
    struct doctor_machine m = good_machine();
    struct doctor_wants w = good_wants();
    m.files_soft = 1024;
    expect(&m, &w, "descriptors", DOCTOR_WARN, "ulimit -n 2564");
    w.blocked_max = 16; /* then a member's clients are most */
    expect(&m, &w, "descriptors", DOCTOR_WARN, "ulimit -n 1536");
    m.files_soft = 1536;
    expect(&m, &w, "descriptors", DOCTOR_OK, "1536 of at most 20000");
    m.files_soft = 200;
    expect(&m, &w, "descriptors", DOCTOR_FAIL, "do not start");
}

static void what_the_kernel_refuses_is_told(void **state)
{
    (void)state;
    struct doctor_machine m = good_machine();
    struct doctor_wants w = good_wants();
    m.segment_errno = EPERM;
    m.segment_step = "memfd_create";
    expect(&m, &w, "shared-memory", DOCTOR_FAIL, "memfd_create: Operation not permitted");
    m = good_machine();
    m.kernel_lacks = "eventfd";
    expect(&m, &w, "kernel", DOCTOR_FAIL, "no eventfd");
}

static void clocks_that_lie_are_told(void **state)
{
    (void)state;
    struct doctor_wants w = good_wants();
    struct doctor_machine m = good_machine();
    m.mono_step_ns = -1;
    expect(&m, &w, "clock", DOCTOR_FAIL, "reads may be old");
    m = good_machine();
    m.boot_step_ns = -1;
    expect(&m, &w, "clock", DOCTOR_FAIL, "goes back");
    m = good_machine();
    m.boot_minus_mono_ns = -MOB_SEC;
    expect(&m, &w, "clock", DOCTOR_FAIL, "goes back");
    m = good_machine();
    m.resolution_ns = 4 * MOB_MS;
    expect(&m, &w, "clock", DOCTOR_WARN, "clocksource");
    m = good_machine();
    m.wall_ns = 0;
    expect(&m, &w, "clock", DOCTOR_WARN, "set the clock");
    m = good_machine();
    m.boot_minus_mono_ns = 3600 * MOB_SEC; /* it slept */
    expect(&m, &w, "clock", DOCTOR_OK, "suspended for 3600 s");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_good_machine_is_ok_in_all),
        cmocka_unit_test(without_realtime_priority_the_times_in_force_are_told),
        cmocka_unit_test(few_cores_are_told),
        cmocka_unit_test(memory_is_held_against_the_caps_of_all_members),
        cmocka_unit_test(few_descriptors_are_told),
        cmocka_unit_test(what_the_kernel_refuses_is_told),
        cmocka_unit_test(clocks_that_lie_are_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
