#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "server/http/head.h"

static enum mob_status check(const char *text, size_t length, size_t *length_out, int *status_out)
{
    struct mob_http_refusal refusal = {0};
    enum mob_status status = mob_http_head_check(text, length, length_out, &refusal);
    *status_out = refusal.status;
    return status;
}

static void good_heads_are_taken_whole(void **state)
{
    (void)state;
    static const char *const heads[] = {
        "GET / HTTP/1.1\r\nHost: a\r\n\r\n", "POST /x?y=%20 HTTP/1.0\r\nhost:a\r\nContent-Length: 12\r\n\r\n",
        "PUT /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: Chunked \r\nA:\r\n\r\n",
        "OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nAccept: b\r\nX: y\r\nAccept: c\r\nX: y\r\n\r\n", /* a list */
    };
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++) {
        char text[256];
        size_t n = strlen(heads[i]), length = 0;
        int status;
        memcpy(text, heads[i], n + 1);
        memcpy(text + n, "GET /", 6); /* pipelined bytes are not looked at */
        assert_int_equal(check(text, n + 5, &length, &status), MOB_OK);
        assert_int_equal(length, n);
        for (size_t cut = 0; cut < n; cut++)
            assert_int_equal(check(heads[i], cut, &length, &status), MOB_AGAIN);
    }
}

static void ambiguous_heads_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int status;
    } heads[] = {
        {"GET / HTTP/1.1\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: +1\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\nHost: a\r\nAuthorization: b\r\nauthorization: b\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\nHost: a\r\nContent-Type: b\r\nX: y\r\nContent-Type: b\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: \r\n\r\n", 400},
        {"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1, 1\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", 400},
        {"GET / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n", 400},
        {"GET / HTTP/1.1\nHost: a\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\nHost: a\n\r\n", 400},
        {"GET / HTTP/1.1\r\nHost: a\rX: b\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\nHost: a\r\n b\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\nHost : a\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\n: a\r\nHost: a\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\nHost: a\r\nX: a\x7f\r\n\r\n", 400},
        {"GET  / HTTP/1.1\r\nHost: a\r\n\r\n", 400},
        {"GET /\x80 HTTP/1.1\r\nHost: a\r\n\r\n", 400},
        {"G@T / HTTP/1.1\r\nHost: a\r\n\r\n", 400},
        {"GET / HTTP/2.0\r\nHost: a\r\n\r\n", 505},
        {"GET / http/1.1\r\nHost: a\r\n\r\n", 400},
        {"\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", 400},
    };
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++) {
        size_t length;
        int status = 0;
        enum mob_status result = check(heads[i].text, strlen(heads[i].text), &length, &status);
        if (result != MOB_BAD_REQUEST || status != heads[i].status)
            fail_msg("head %zu: result %d, status %d, wanted %d", i, result, status, heads[i].status);
    }
}

static void endless_heads_are_too_large(void **state)
{
    (void)state;
    char text[MOB_HTTP_HEAD_BYTES_MAX];
    size_t length;
    int status;
    memset(text, 'a', sizeof text);
    for (size_t i = 0; i < 19; i++)
        text[i] = "GET / HTTP/1.1\r\nX: "[i];
    assert_int_equal(check(text, sizeof text - 1, &length, &status), MOB_AGAIN);
    assert_int_equal(check(text, sizeof text, &length, &status), MOB_BAD_REQUEST);
    assert_int_equal(status, 431);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_heads_are_taken_whole),
        cmocka_unit_test(ambiguous_heads_are_refused),
        cmocka_unit_test(endless_heads_are_too_large),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
