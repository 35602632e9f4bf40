/* What follows from how a cluster is: one thing that is wrong at a time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "cli/doctor.h"

#define NOW_US 5000000000000ll

static struct doctor_cluster c; /* some 20 KiB */
static struct doctor_wants w;

static int set_up(void **state)
{
    (void)state;
    w = (struct doctor_wants){.shards = 1, .replicas = 2, .postgres = true, .runs = true};
    const struct doctor_member member = {.name = "gcs.sock",
        .state = "serving",
        .store = "ok",
        .realtime = true,
        .lease_ms = 10,
        .suspicion_ms = 12,
        .soft_bytes = 1000,
        .hard_bytes = 2000,
        .redis_bytes = 400,
        .member_bytes = 500,
        .watermark_known = true};
    const struct cluster_process process = {
        .name = "node", .state = "ready", .pid = 7, .restarts = 2, .started_us = NOW_US - 60000000ll};
    c = (struct doctor_cluster){.runs = true,
        .gateway_ready = true,
        .wall_us = NOW_US,
        .state = {.state = "ready", .address = "127.0.0.1:80", .count = 2, .processes = {process, process}},
        .member_count = 2,
        .members = {member, member}};
    snprintf(c.state.processes[1].name, sizeof c.state.processes[1].name, "postgres");
    snprintf(c.members[1].name, sizeof c.members[1].name, "gcs-1.sock");
    return 0;
}

static void expect(const char *name, enum doctor_verdict verdict, const char *words)
{
    static struct doctor_report report;
    char all[3 * DOCTOR_TEXT_MAX];
    bool seen = false;
    report.count = 0;
    doctor_judge_cluster(&c, &w, &report);
    for (int i = 0; i < report.count; i++) {
        const struct doctor_check *check = &report.checks[i];
        assert_int_equal(check->verdict == DOCTOR_OK, check->means[0] == 0);
        assert_int_equal(check->verdict == DOCTOR_OK, check->todo[0] == 0);
        snprintf(all, sizeof all, "%s %s %s", check->found, check->means, check->todo);
        if (strcmp(check->name, name) != 0 && check->verdict != DOCTOR_OK)
            fail_msg("%s is %s: %s", check->name, doctor_verdict_name(check->verdict), all);
        seen |= strcmp(check->name, name) == 0 && check->verdict == verdict && strstr(all, words) != NULL;
    }
    if (!seen)
        fail_msg("no %s that is %s and has \"%s\"", name, doctor_verdict_name(verdict), words);
    assert_int_equal(doctor_worst(&report), verdict);
}

static void a_good_cluster_is_ok_in_all(void **state)
{
    (void)state;
    expect("members", DOCTOR_OK, "all 2 serve");
    expect("heartbeats", DOCTOR_OK, "gcs-1.sock: real-time yes, lease 10 ms, suspicion 12 ms");
    expect("processes", DOCTOR_OK, "4 restarts");
    c.runs = false;
    expect("cluster", DOCTOR_OK, "none runs there");
}

static void a_cluster_that_does_not_serve_fails(void **state)
{
    (void)state;
    c.gateway_ready = false;
    expect("cluster", DOCTOR_FAIL, "takes no work");
    set_up(state);
    c.unreadable = true;
    expect("cluster", DOCTOR_WARN, "just starting");
    set_up(state);
    snprintf(c.state.state, sizeof c.state.state, "degraded");
    expect("cluster", DOCTOR_WARN, "degraded");
}

static void what_restarts_again_and_again_is_told(void **state)
{
    (void)state;
    struct cluster_process *node = &c.state.processes[0], *postgres = &c.state.processes[1];
    node->restarts = 3;
    snprintf(node->last_exit, sizeof node->last_exit, "signal 9");
    expect("processes", DOCTOR_WARN, "node was restarted 3 times, last 60 s ago: signal 9");
    node->started_us -= 600000000ll; /* and has stayed since */
    expect("processes", DOCTOR_OK, "2 are ready");
    snprintf(node->state, sizeof node->state, "waiting");
    expect("processes", DOCTOR_FAIL, "node is waiting");
    set_up(state);
    snprintf(postgres->state, sizeof postgres->state, "starting");
    expect("processes", DOCTOR_WARN, "lineage stays in memory");
}

static void a_chain_that_is_not_whole_is_told(void **state)
{
    (void)state;
    c.members[1].status = MOB_UNAVAILABLE;
    expect("members", DOCTOR_FAIL, "gcs-1.sock does not answer");
    set_up(state);
    snprintf(c.members[1].state, sizeof c.members[1].state, "joining");
    expect("members", DOCTOR_WARN, "gcs-1.sock is joining");
    set_up(state);
    c.member_count = 1;
    expect("members", DOCTOR_WARN, "1 of 2 members");
    set_up(state);
    snprintf(c.members[0].store, sizeof c.members[0].store, "refuses");
    expect("members", DOCTOR_FAIL, "takes no writes");
    set_up(state);
    c.members[0].member_bytes = 601;
    expect("members", DOCTOR_WARN, "429");
}

static void the_times_in_force_are_told_of_each_member(void **state)
{
    (void)state;
    c.members[0].realtime = false;
    expect("heartbeats", DOCTOR_FAIL, "gcs.sock: real-time no, lease 10 ms");
    c.members[0].lease_ms = 90;
    c.members[0].suspicion_ms = 100;
    expect("heartbeats", DOCTOR_WARN, "after 100 ms instead of 12");
}

static void a_postgresql_that_is_behind_is_told(void **state)
{
    (void)state;
    c.members[0].behind = 100000;
    expect("flushing", DOCTOR_WARN, "100000 positions behind");
    c.members[0].watermark_known = c.members[1].watermark_known = false;
    expect("flushing", DOCTOR_WARN, "nobody has said");
    w.postgres = false;
    expect("members", DOCTOR_OK, "serve");
}

static void a_postgresql_that_hangs_is_told(void **state)
{
    (void)state;
    c.postgres_silent = true;
    expect("postgres", DOCTOR_FAIL, "does not answer");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_good_cluster_is_ok_in_all, set_up),
        cmocka_unit_test_setup(a_postgresql_that_hangs_is_told, set_up),
        cmocka_unit_test_setup(a_cluster_that_does_not_serve_fails, set_up),
        cmocka_unit_test_setup(what_restarts_again_and_again_is_told, set_up),
        cmocka_unit_test_setup(a_chain_that_is_not_whole_is_told, set_up),
        cmocka_unit_test_setup(the_times_in_force_are_told_of_each_member, set_up),
        cmocka_unit_test_setup(a_postgresql_that_is_behind_is_told, set_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
