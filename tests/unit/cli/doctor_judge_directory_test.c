/* What follows from a state directory and its programs: one thing that is wrong at a time. */
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

static struct doctor_directory d; /* some 10 KiB */
static struct doctor_wants w;

static int set_up(void **state)
{
    (void)state;
    w = (struct doctor_wants){
        .shards = 1, .replicas = 2, .postgres = true, .hard_bytes = GIB, .spill_bytes = 16 * GIB};
    d = (struct doctor_directory){.path = "/d",
        .looked_at = "/d",
        .exists = true,
        .writable = true,
        .free_bytes = 20 * GIB,
        .sync_ns = 2 * MOB_MS,
        .file_count = 2,
        .files = {{.name = "cluster-secret", .mode = 0600, .bytes = 32, .bytes_wanted = 32},
            {.name = "gcs", .mode = 0700, .is_directory = true, .bytes_wanted = -1}},
        .layout = STATE_VERSION_TEXT,
        .postgres_made = "15",
        .postgres_have = "15",
        .pid_file = true,
        .pid_lives = true,
        .program_count = 3,
        .programs = {
            {.name = "redis-server", .found = true, .path = "/r", .version = "Redis server v=7.0.15"},
            {.name = "mobula-gcs", .found = true, .path = "/g"},
            {.name = "postgres", .found = true, .path = "/p", .version = "postgres (PostgreSQL) 15.3"}}};
    return 0;
}

/* All lines but those of `name` are ok; there is one of it that is `verdict` and has the words. */
static void expect(const char *name, enum doctor_verdict verdict, const char *words)
{
    static struct doctor_report report;
    char all[3 * DOCTOR_TEXT_MAX];
    bool seen = false;
    report.count = 0;
    doctor_judge_directory(&d, &w, &report);
    for (int i = 0; i < report.count; i++) {
        const struct doctor_check *c = &report.checks[i];
        assert_int_equal(c->verdict == DOCTOR_OK, c->means[0] == 0);
        assert_int_equal(c->verdict == DOCTOR_OK, c->todo[0] == 0);
        snprintf(all, sizeof all, "%s %s %s", c->found, c->means, c->todo);
        if (strcmp(c->name, name) != 0 && c->verdict != DOCTOR_OK)
            fail_msg("%s is %s: %s", c->name, doctor_verdict_name(c->verdict), all);
        seen |= strcmp(c->name, name) == 0 && c->verdict == verdict && strstr(all, words) != NULL;
    }
    if (!seen)
        fail_msg("no %s that is %s and has \"%s\"", name, doctor_verdict_name(verdict), words);
    assert_int_equal(doctor_worst(&report), verdict);
}

static void a_good_directory_is_ok_in_all(void **state)
{
    (void)state;
    expect("secrets", DOCTOR_OK, "2 files and folders");
    d.exists = false;
    d.file_count = 0;
    d.layout[0] = d.postgres_made[0] = 0;
    d.pid_file = d.pid_lives = false;
    expect("directory", DOCTOR_OK, "is not there yet");
}

static void a_directory_that_up_would_refuse_fails(void **state)
{
    (void)state;
    snprintf(d.layout, sizeof d.layout, "mobula state 9");
    expect("directory", DOCTOR_FAIL, "\"mobula state 9\", and this program knows \"" STATE_VERSION_TEXT "\"");
    set_up(state);
    snprintf(d.shape, sizeof d.shape, "two shards and one");
    expect("directory", DOCTOR_FAIL, "two shards and one");
    set_up(state);
    d.writable = false;
    d.sync_ns = -1;
    expect("directory", DOCTOR_FAIL, "nothing can be written in /d");
    set_up(state);
    snprintf(d.postgres_made, sizeof d.postgres_made, "14");
    expect("postgres-data", DOCTOR_FAIL, "install postgresql-14");
}

static void room_is_held_against_the_caps(void **state)
{
    (void)state;
    expect("disk-room", DOCTOR_OK, "control store may take 4.0 GiB");
    d.free_bytes--;
    expect("disk-room", DOCTOR_WARN, "20.0 GiB are free");
    d.free_bytes = 255ull << 20;
    expect("disk-room", DOCTOR_FAIL, "nothing is acknowledged");
}

static void a_slow_disk_is_told_with_what_suffers(void **state)
{
    (void)state;
    d.sync_ns = 10 * MOB_MS;
    expect("disk-sync", DOCTOR_OK, "10.00 ms");
    d.sync_ns++;
    expect("disk-sync", DOCTOR_WARN, "fail-over");
    w.replicas = 1;
    w.hard_bytes *= 2;
    expect("disk-sync", DOCTOR_WARN, "always takes that long ");
    d.sync_ns = 2 * MOB_SEC;
    expect("disk-sync", DOCTOR_FAIL, "`everysec` is not kept");
    d.sync_ns = -1;
    d.sync_errno = EIO;
    expect("disk-sync", DOCTOR_FAIL, "Input/output error");
}

static void secrets_that_others_get_at_fail(void **state)
{
    (void)state;
    d.files[0].mode = 0640;
    expect("secrets", DOCTOR_FAIL, "cluster-secret has mode 0640, and is to have 0600");
    set_up(state);
    d.files[1].mode = 0701;
    expect("secrets", DOCTOR_FAIL, "chmod 0700 /d/gcs");
    set_up(state);
    d.files[0].foreign = true;
    expect("secrets", DOCTOR_FAIL, "belongs to another user");
    set_up(state);
    d.files[0].bytes = 31;
    expect("secrets", DOCTOR_FAIL, "31 bytes instead of 32");
}

static void what_a_killed_supervisor_left_is_told(void **state)
{
    (void)state;
    d.pid_lives = false;
    expect("leftovers", DOCTOR_WARN, "was killed");
    d.leftovers = 3;
    expect("leftovers", DOCTOR_WARN, "3 processes");
}

static void programs_that_are_not_there_or_too_old_fail(void **state)
{
    (void)state;
    snprintf(d.programs[0].version, sizeof d.programs[0].version, "Redis server v=6.2.1");
    expect("redis-server", DOCTOR_FAIL, "7 or newer");
    set_up(state);
    d.programs[0].found = false;
    expect("redis-server", DOCTOR_FAIL, "install redis-server");
    set_up(state);
    d.programs[1].found = false;
    expect("mobula-gcs", DOCTOR_FAIL, "beside this one");
    set_up(state);
    d.programs[2].found = false;
    expect("postgres", DOCTOR_FAIL, "--no-postgres");
    set_up(state);
    d.user_lacks = "redis";
    expect("users", DOCTOR_FAIL, "no user redis");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_good_directory_is_ok_in_all, set_up),
        cmocka_unit_test_setup(a_directory_that_up_would_refuse_fails, set_up),
        cmocka_unit_test_setup(room_is_held_against_the_caps, set_up),
        cmocka_unit_test_setup(a_slow_disk_is_told_with_what_suffers, set_up),
        cmocka_unit_test_setup(secrets_that_others_get_at_fail, set_up),
        cmocka_unit_test_setup(what_a_killed_supervisor_left_is_told, set_up),
        cmocka_unit_test_setup(programs_that_are_not_there_or_too_old_fail, set_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
