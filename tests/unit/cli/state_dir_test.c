#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "cli/cluster_state.h"
#include "cli/state_dir.h"
#include "common/base/process.h"
#include "tests/support/golden_file.h"
#include "tests/support/scratch.h"

static char root[64], directory[128], error[STATE_ERROR_MAX];

static int setup(void **state)
{
    (void)state;
    strcpy(root, "/tmp/mobula_state_XXXXXX");
    assert_non_null(mkdtemp(root));
    snprintf(directory, sizeof directory, "%s/a/b", root);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    return scratch_remove(root) ? 0 : -1;
}

static mode_t mode_of(const char *name)
{
    char path[STATE_PATH_MAX];
    struct stat st;
    assert_int_equal(stat(state_path(directory, name, path), &st), 0);
    return st.st_mode & 0777;
}

static void read_secret(char out[STATE_SECRET_BYTES])
{
    char path[STATE_PATH_MAX];
    int fd = open(state_path(directory, "cluster-secret", path), O_RDONLY);
    assert_int_equal(read(fd, out, STATE_SECRET_BYTES), STATE_SECRET_BYTES);
    close(fd);
}

static void it_is_made_private_and_its_secrets_once(void **state)
{
    (void)state;
    char first[STATE_SECRET_BYTES], second[STATE_SECRET_BYTES];
    assert_int_equal(state_dir_prepare(directory, error), MOB_OK);
    assert_int_equal(state_dir_init(directory, error), MOB_OK);
    assert_int_equal(mode_of(""), 0700);
    assert_int_equal(mode_of("gcs"), 0700);
    assert_int_equal(mode_of("logs"), 0700);
    assert_int_equal(mode_of("cluster-secret"), 0600);
    read_secret(first);
    assert_int_equal(chmod(directory, 0755), 0);
    assert_int_equal(state_dir_prepare(directory, error), MOB_OK);
    assert_int_equal(state_dir_init(directory, error), MOB_OK);
    assert_int_equal(mode_of(""), 0700);
    read_secret(second);
    assert_memory_equal(first, second, sizeof first);
}

static void damaged_secrets_are_refused_and_stay(void **state)
{
    (void)state;
    static const char *const names[] = {"cluster-id", "cluster-secret"};
    char path[STATE_PATH_MAX];
    struct stat st;
    assert_int_equal(state_dir_prepare(directory, error), MOB_OK);
    assert_int_equal(state_dir_init(directory, error), MOB_OK);
    for (size_t i = 2; i-- > 0;) {
        assert_int_equal(truncate(state_path(directory, names[i], path), 0), 0);
        assert_int_equal(state_dir_init(directory, error), MOB_CORRUPT);
        assert_non_null(strstr(error, names[i]));
        assert_int_equal(stat(path, &st), 0);
        assert_int_equal(st.st_size, 0);
    }
}

static void another_layout_is_refused_with_both_names(void **state)
{
    (void)state;
    char path[STATE_PATH_MAX];
    assert_int_equal(state_dir_prepare(directory, error), MOB_OK);
    assert_int_equal(state_write(state_path(directory, "version", path), "mobula state 9\n", 15), MOB_OK);
    assert_int_equal(state_dir_init(directory, error), MOB_VERSION);
    assert_non_null(strstr(error, "mobula state 9"));
    assert_non_null(strstr(error, STATE_VERSION_TEXT));
}

/* Name, mode and length of what there is, and the text of `version`: sorted. */
static void describe(struct golden_text *text)
{
    struct dirent **names;
    char path[STATE_PATH_MAX], version[64];
    struct stat st;
    int count = scandir(directory, &names, NULL, alphasort);
    assert_true(count > 2);
    for (int i = 0; i < count; i++) {
        assert_int_equal(stat(state_path(directory, names[i]->d_name, path), &st), 0);
        if (names[i]->d_name[0] != '.' && S_ISDIR(st.st_mode))
            golden_say(text, "%s/ %o\n", names[i]->d_name, st.st_mode & 0777);
        else if (names[i]->d_name[0] != '.')
            golden_say(text, "%s %o %lld\n", names[i]->d_name, st.st_mode & 0777, (long long)st.st_size);
        free(names[i]);
    }
    free(names);
    assert_int_equal(
        state_read_line(state_path(directory, "version", path), version, sizeof version), MOB_OK);
    golden_say(text, "version says %s\n", version);
}

static void a_new_one_is_as_its_version_says(void **state)
{
    (void)state;
    static struct golden_text text;
    assert_int_equal(state_dir_prepare(directory, error), MOB_OK);
    assert_int_equal(state_dir_init(directory, error), MOB_OK);
    describe(&text);
    golden_compare("state/state_v1.txt", &text);
}

/* One of version 1, made from what is kept about it and not by this program: accepted, and nothing in it
 * changed. */
static void one_of_version_1_is_accepted_as_it_is(void **state)
{
    (void)state;
    static struct golden_text kept, after;
    char path[STATE_PATH_MAX], name[64], secret[STATE_SECRET_BYTES];
    unsigned mode;
    long long length;
    golden_read("state/state_v1.txt", &kept);
    assert_int_equal(state_dir_prepare(directory, error), MOB_OK);
    char *save = NULL, *copy = strdup(kept.bytes);
    for (char *line = strtok_r(copy, "\n", &save); line != NULL; line = strtok_r(NULL, "\n", &save)) {
        char bytes[64] = "mobula state 1\n";
        if (sscanf(line, "%63s %o %lld", name, &mode, &length) != 3)
            continue;
        assert_in_range(length, 1, sizeof bytes);
        if (strcmp(name, "version") != 0)
            memset(bytes, 's', sizeof bytes);
        assert_int_equal(state_write(state_path(directory, name, path), bytes, (size_t)length), MOB_OK);
    }
    free(copy);
    assert_int_equal(state_dir_init(directory, error), MOB_OK);
    describe(&after);
    assert_string_equal(after.bytes, kept.bytes);
    read_secret(secret);
    for (size_t i = 0; i < sizeof secret; i++)
        assert_int_equal(secret[i], 's');
}

static void a_path_too_long_for_sockets_is_refused(void **state)
{
    (void)state;
    char longer[200];
    memset(longer, 'a', sizeof longer - 1);
    longer[0] = '/';
    longer[sizeof longer - 1] = '\0';
    assert_int_equal(state_dir_prepare(longer, error), MOB_TOO_LARGE);
}

static void one_supervisor_at_a_time(void **state)
{
    (void)state;
    int first, second;
    assert_int_equal(state_dir_prepare(directory, error), MOB_OK);
    assert_int_equal(state_dir_supervisor(directory), 0);
    assert_int_equal(state_dir_lock(directory, &first, error), MOB_OK);
    assert_int_equal(state_dir_supervisor(directory), getpid());
    assert_int_equal(state_dir_lock(directory, &second, error), MOB_EXISTS);
    close(first);
    assert_int_equal(state_dir_lock(directory, &second, error), MOB_OK);
    close(second);
}

static void a_pid_file_of_a_dead_or_other_process_is_stale(void **state)
{
    (void)state;
    char path[STATE_PATH_MAX], text[64];
    assert_int_equal(state_dir_prepare(directory, error), MOB_OK);
    state_path(directory, STATE_PID_NAME, path);
    int gate[2];
    assert_int_equal(pipe(gate), 0);
    pid_t pid = fork();
    if (pid == 0) {
        close(gate[1]);
        _exit(read(gate[0], text, 1) != 0);
    }
    snprintf(text, sizeof text, "%d %llu\n", (int)pid, (unsigned long long)mob_process_started(pid));
    assert_int_equal(state_write(path, text, strlen(text)), MOB_OK);
    assert_int_equal(state_dir_supervisor(directory), pid);
    assert_false(state_process_ends(pid));
    close(gate[0]);
    close(gate[1]);
    siginfo_t ended;
    assert_int_equal(waitid(P_PID, (id_t)pid, &ended, WEXITED | WNOWAIT), 0);
    assert_int_equal(state_dir_supervisor(directory), 0); /* a zombie runs no more */
    assert_true(state_process_ends(pid));
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    assert_true(state_process_ends(pid));
    assert_int_equal(state_dir_supervisor(directory), 0);
    /* the number was given to another process meanwhile: here, to us */
    snprintf(
        text, sizeof text, "%d %llu\n", (int)getpid(), (unsigned long long)mob_process_started(getpid()) - 1);
    assert_int_equal(state_write(path, text, strlen(text)), MOB_OK);
    assert_int_equal(state_dir_supervisor(directory), 0);
    assert_int_equal(state_write(path, "rubbish\n", 8), MOB_OK);
    assert_int_equal(state_dir_supervisor(directory), 0);
}

static void leftovers_are_ended_and_strangers_are_not(void **state)
{
    (void)state;
    char path[STATE_PATH_MAX], text[512];
    assert_int_equal(state_dir_prepare(directory, error), MOB_OK);
    pid_t pids[2];
    for (int i = 0; i < 2; i++) {
        pids[i] = fork();
        if (pids[i] == 0) {
            setpgid(0, 0);
            for (;;)
                pause();
        }
        setpgid(pids[i], pids[i]);
    }
    snprintf(text, sizeof text,
        "{\"state\":\"ready\",\"processes\":[{\"name\":\"a\",\"pid\":%d,\"start_time\":%llu},{\"name\":\"b\","
        "\"pid\":%d,"
        "\"start_time\":%llu}]}",
        (int)pids[0], (unsigned long long)mob_process_started(pids[0]), (int)pids[1],
        (unsigned long long)mob_process_started(pids[1]) + 1);
    assert_int_equal(state_write(state_path(directory, STATE_STATUS_NAME, path), text, strlen(text)), MOB_OK);
    cluster_end_leftovers(directory);
    int status;
    assert_int_equal(waitpid(pids[0], &status, 0), pids[0]);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(waitpid(pids[1], &status, WNOHANG), 0);
    kill(pids[1], SIGKILL);
    assert_int_equal(waitpid(pids[1], &status, 0), pids[1]);
}

static void a_broken_status_file_is_said_to_be_broken(void **state)
{
    (void)state;
    char path[STATE_PATH_MAX];
    static struct cluster_state read;
    assert_int_equal(state_dir_prepare(directory, error), MOB_OK);
    assert_int_equal(cluster_state_read(directory, &read), MOB_NOT_FOUND);
    assert_int_equal(state_write(state_path(directory, STATE_STATUS_NAME, path), "{\"sta", 5), MOB_OK);
    assert_int_equal(cluster_state_read(directory, &read), MOB_CORRUPT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(it_is_made_private_and_its_secrets_once, setup, teardown),
        cmocka_unit_test_setup_teardown(damaged_secrets_are_refused_and_stay, setup, teardown),
        cmocka_unit_test_setup_teardown(another_layout_is_refused_with_both_names, setup, teardown),
        cmocka_unit_test_setup_teardown(a_new_one_is_as_its_version_says, setup, teardown),
        cmocka_unit_test_setup_teardown(one_of_version_1_is_accepted_as_it_is, setup, teardown),
        cmocka_unit_test_setup_teardown(a_path_too_long_for_sockets_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(one_supervisor_at_a_time, setup, teardown),
        cmocka_unit_test_setup_teardown(a_pid_file_of_a_dead_or_other_process_is_stale, setup, teardown),
        cmocka_unit_test_setup_teardown(leftovers_are_ended_and_strangers_are_not, setup, teardown),
        cmocka_unit_test_setup_teardown(a_broken_status_file_is_said_to_be_broken, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
