/* Sessions of every version: tests/golden/session has the hello and the welcome that each of them began with.
 * The current one is read; the others are refused, and by their version and not by their length.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "common/wire/session.h"
#include "tests/support/golden_file.h"

static struct golden_text file;

static void read_of(const char *what, unsigned version)
{
    char name[64];
    snprintf(name, sizeof name, "session/%s_v%u.bin", what, version);
    golden_read(name, &file);
    assert_in_range(file.used, 1, sizeof(struct mob_session_welcome) + sizeof(struct mob_session_hello));
}

static void older_clients_are_told_both_versions(void **state)
{
    (void)state;
    for (unsigned version = 1; version < MOB_SESSION_VERSION; version++) {
        struct mob_session_hello hello;
        char detail[MOB_SESSION_DETAIL], words[64];
        read_of("hello", version);
        assert_int_equal(mob_session_hello_decode(file.bytes, file.used, &hello, detail), MOB_VERSION);
        snprintf(
            words, sizeof words, "session version %u, this node speaks %u", version, MOB_SESSION_VERSION);
        assert_non_null(strstr(detail, words));
    }
}

static void older_nodes_are_known_by_their_version(void **state)
{
    (void)state;
    for (unsigned version = 1; version < MOB_SESSION_VERSION; version++) {
        struct mob_session_welcome welcome;
        read_of("welcome", version);
        assert_int_equal(mob_session_welcome_decode(file.bytes, file.used, &welcome), MOB_VERSION);
        assert_int_equal(welcome.version, version);
    }
}

static void compare(const char *what, const void *bytes, size_t length)
{
    char name[64];
    static struct golden_text now;
    memcpy(now.bytes, bytes, length);
    now.used = length;
    snprintf(name, sizeof name, "session/%s_v%u.bin", what, MOB_SESSION_VERSION);
    golden_compare(name, &now);
}

static void the_current_version_is_the_one_kept(void **state)
{
    (void)state;
    struct mob_session_hello hello = {.magic = MOB_SESSION_MAGIC,
        .version = MOB_SESSION_VERSION,
        .kind = 1,
        .pid = 4711,
        .flags = MOB_SESSION_STANDING_JOB | MOB_SESSION_DETACHED,
        .resume_incarnation = 6,
        .resume_next_child = 7,
        .ns = "default",
        .job_name = "golden",
        .idempotency_key = "once",
        .job_weight = 300};
    struct mob_session_welcome welcome = {.magic = MOB_SESSION_MAGIC,
        .version = MOB_SESSION_VERSION,
        .status = MOB_CONFLICT,
        .slot = 3,
        .worker = 4,
        .incarnation = 5,
        .generation = 6,
        .next_child = 7,
        .nest_max = 8,
        .detail = "of a golden file"};
    char detail[MOB_SESSION_DETAIL];
    struct mob_session_hello hello_out;
    struct mob_session_welcome welcome_out;
    compare("hello", &hello, sizeof hello);
    compare("welcome", &welcome, sizeof welcome);
    read_of("hello", MOB_SESSION_VERSION);
    assert_int_equal(mob_session_hello_decode(file.bytes, file.used, &hello_out, detail), MOB_OK);
    assert_memory_equal(&hello_out, &hello, sizeof hello);
    read_of("welcome", MOB_SESSION_VERSION);
    assert_int_equal(mob_session_welcome_decode(file.bytes, file.used, &welcome_out), MOB_OK);
    assert_memory_equal(&welcome_out, &welcome, sizeof welcome);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(older_clients_are_told_both_versions),
        cmocka_unit_test(older_nodes_are_known_by_their_version),
        cmocka_unit_test(the_current_version_is_the_one_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
