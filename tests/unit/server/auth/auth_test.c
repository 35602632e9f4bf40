#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "server/auth/auth.h"
#include "server/auth/token.h"

static void tokens_have_a_form_and_a_checksum(void **state)
{
    (void)state;
    char token[MOB_TOKEN_LENGTH + 1], other[MOB_TOKEN_LENGTH + 1], id[MOB_TOKEN_ID_LENGTH + 1];
    struct mob_token_hash hash, hash_again;
    mob_token_generate(token);
    mob_token_generate(other);
    assert_string_not_equal(token, other);
    assert_int_equal(strlen(token), MOB_TOKEN_LENGTH);
    assert_int_equal(mob_token_parse(token, strlen(token), id, &hash), MOB_OK);
    assert_memory_equal(token + 7, id, MOB_TOKEN_ID_LENGTH);
    assert_int_equal(mob_token_parse(token, strlen(token), id, &hash_again), MOB_OK);
    assert_true(mob_token_hash_eq(&hash, &hash_again));
    for (size_t i = 0; i < MOB_TOKEN_LENGTH; i++) { /* any change of one character is noticed */
        char changed[MOB_TOKEN_LENGTH + 1];
        memcpy(changed, token, sizeof changed);
        changed[i] = changed[i] == 'a' ? 'b' : 'a';
        assert_int_equal(mob_token_parse(changed, MOB_TOKEN_LENGTH, id, &hash), MOB_UNAUTHENTICATED);
    }
    assert_int_equal(mob_token_parse(token, MOB_TOKEN_LENGTH - 1, id, &hash), MOB_UNAUTHENTICATED);
}

static void first_start_makes_a_private_key_file(void **state)
{
    (void)state;
    char directory[] = "/tmp/mobula-auth-XXXXXX", path[64];
    struct stat info;
    struct mob_auth *auth;
    assert_non_null(mkdtemp(directory));
    snprintf(path, sizeof path, "%s/token", directory);
    assert_int_equal(mob_auth_open(path, &auth), MOB_OK);
    mob_auth_close(auth);
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0600);
    assert_int_equal(mob_auth_open(path, &auth), MOB_OK); /* and reads it the next time */
    mob_auth_close(auth);
    assert_int_equal(chmod(path, 0640), 0);
    assert_int_equal(mob_auth_open(path, &auth), MOB_DENIED);
    unlink(path);
    rmdir(directory);
}

static void malformed_key_files_are_refused(void **state)
{
    (void)state;
    static const char *const lines[] = {"nonsense\n", "%s owner\n", "# only a comment\n", "%s read\nx\n"};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        char path[] = "/tmp/mobula-keys-XXXXXX", token[MOB_TOKEN_LENGTH + 1];
        int fd = mkstemp(path);
        struct mob_auth *auth;
        mob_token_generate(token);
        const char *percent = strchr(lines[i], '%');
        FILE *file = fdopen(fd, "w");
        assert_non_null(file);
        fprintf(file, "%.*s", (int)strcspn(lines[i], "%"), lines[i]);
        if (percent)
            fprintf(file, "%s%s", token, percent + 2);
        fclose(file);
        assert_int_equal(mob_auth_open(path, &auth), MOB_INVALID);
        unlink(path);
    }
}

struct case_of_host {
    const char *host, *origin, *site;
    bool host_ok, origin_ok;
};

static void hosts_and_origins_are_ours(void **state)
{
    (void)state;
    static const struct case_of_host cases[] = {
        {"localhost:80", NULL, NULL, true, true},
        {"127.0.0.1", "http://127.0.0.1", "same-origin", true, true},
        {"[::1]:8080", "https://[::1]:8080", "none", true, true},
        {"gate.example:1", "http://gate.example:2", NULL, true, false},
        {"LOCALHOST", "http://evil.example", NULL, true, false},
        {"localhost", "null", NULL, true, false},
        {"localhost", NULL, "cross-site", true, false},
        {"localhost.evil.example", NULL, NULL, false, true},
        {"localhost:80:80", NULL, NULL, false, true},
        {"", NULL, NULL, false, true},
    };
    char path[] = "/tmp/mobula-hosts-XXXXXX", token[MOB_TOKEN_LENGTH + 1];
    int fd = mkstemp(path);
    struct mob_auth *auth;
    mob_token_generate(token);
    dprintf(fd, "%s\n", token);
    close(fd);
    assert_int_equal(mob_auth_open(path, &auth), MOB_OK);
    assert_int_equal(mob_auth_allow_host(auth, "gate.example"), MOB_OK);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct mob_http_header headers[3] = {{"Host", cases[i].host}};
        struct mob_http_request request = {.headers = headers, .header_count = 1};
        if (cases[i].origin)
            headers[request.header_count++] = (struct mob_http_header){"Origin", cases[i].origin};
        if (cases[i].site)
            headers[request.header_count++] = (struct mob_http_header){"Sec-Fetch-Site", cases[i].site};
        if (mob_auth_host_ok(auth, &request) != cases[i].host_ok ||
            mob_auth_origin_ok(auth, &request) != cases[i].origin_ok)
            fail_msg("case %zu: host %d, origin %d", i, mob_auth_host_ok(auth, &request),
                mob_auth_origin_ok(auth, &request));
    }
    mob_auth_close(auth);
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tokens_have_a_form_and_a_checksum),
        cmocka_unit_test(first_start_makes_a_private_key_file),
        cmocka_unit_test(malformed_key_files_are_refused),
        cmocka_unit_test(hosts_and_origins_are_ours),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
