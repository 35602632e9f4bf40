/* The whole HTTP layer on an engine without a runtime: starts a gateway and runs _http_layer.py against it.
 * ctest: threads */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <sys/stat.h>

#include "server/auth/token.h"
#include "tests/integration/http_fake_engine.h"

/* Long enough for a machine that others use, with the thread sanitizer, to begin 320 of them in. */
#define HEAD_MS 2000

static int run_script(const char *address, const char *directory)
{
    const char *source = getenv("MOBULA_SOURCE_DIR");
    char script[512], pid[32], head_ms[16];
    snprintf(script, sizeof script, "%s/tests/integration/_http_layer.py", source ? source : ".");
    snprintf(pid, sizeof pid, "%d", getpid());
    snprintf(head_ms, sizeof head_ms, "%d", HEAD_MS);
    pid_t child = fork();
    if (child == 0) {
        setenv("MOBULA_TEST_ADDRESS", address, 1);
        setenv("MOBULA_TEST_DIR", directory, 1);
        setenv("MOBULA_TEST_GATEWAY_PID", pid, 1);
        setenv("MOBULA_TEST_HEAD_MS", head_ms, 1);
        execlp("python3", "python3", script, NULL);
        _exit(127);
    }
    int status = -1;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

static void write_keys(const char *path)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    /* Made by mob_token_generate(); they open nothing outside of this test. */
    static const char *const roles[] = {"admin", "read", "submit"};
    for (int i = 0; i < 3; i++) {
        char token[128];
        mob_token_generate(token);
        fprintf(file, "%s %s key%d\n", token, roles[i], i);
    }
    fclose(file);
    assert_int_equal(chmod(path, 0600), 0);
}

static void whole_layer_answers_as_described(void **state)
{
    (void)state;
    signal(SIGPIPE, SIG_IGN);
    char directory[] = "/tmp/mobula-http-XXXXXX", keys[64], address[64];
    assert_non_null(mkdtemp(directory));
    snprintf(keys, sizeof keys, "%s/token", directory);
    write_keys(keys);
    struct mob_gateway_options options = {
        .host = "127.0.0.1", .token_file = keys, .head_timeout_ms = HEAD_MS};
    struct mob_gateway *gateway;
    assert_int_equal(mob_gateway_open(&options, fake_engine_make, NULL, &gateway), MOB_OK);
    snprintf(address, sizeof address, "127.0.0.1:%u", mob_gateway_port(gateway));
    int failures = run_script(address, directory);
    mob_gateway_close(gateway);
    unlink(keys);
    rmdir(directory);
    assert_int_equal(failures, 0);
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "serve") == 0) { /* by hand: keeps a gateway running on a directory */
        signal(SIGPIPE, SIG_IGN);
        char keys[256];
        snprintf(keys, sizeof keys, "%s/token", argv[2]);
        struct mob_gateway_options options = {.host = "127.0.0.1", .token_file = keys};
        struct mob_gateway *gateway;
        if (mob_gateway_open(&options, fake_engine_make, NULL, &gateway) != MOB_OK)
            return 1;
        printf("127.0.0.1:%u\n", mob_gateway_port(gateway));
        fflush(stdout);
        sigset_t set;
        sigemptyset(&set);
        sigaddset(&set, SIGTERM);
        sigprocmask(SIG_BLOCK, &set, NULL);
        int got;
        sigwait(&set, &got);
        mob_gateway_close(gateway);
        return 0;
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test(whole_layer_answers_as_described)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
