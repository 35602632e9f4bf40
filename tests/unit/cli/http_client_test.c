/* The client against a server that answers with given bytes. ctest: threads */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "cli/http_client.h"
#include "common/base/clock.h"

static struct http_response response;
static char address[32], received[4096];
static const char *answer;
static size_t answer_step; /* bytes at a time; 0 = all */
static int listener;

static void *serve(void *arg)
{
    (void)arg;
    int fd = accept(listener, NULL, NULL);
    size_t n = 0;
    while (n < sizeof received - 1) {
        ssize_t got = read(fd, received + n, sizeof received - 1 - n);
        if (got <= 0)
            break;
        n += (size_t)got;
        received[n] = '\0';
        if (strstr(received, "\r\n\r\n"))
            break;
    }
    size_t length = strlen(answer), step = answer_step ? answer_step : length;
    for (size_t at = 0; at < length; at += step)
        if (send(fd, answer + at, length - at < step ? length - at : step, MSG_NOSIGNAL) < 0)
            break;
    close(fd);
    return NULL;
}

static enum mob_status ask_with(struct http_request request, const char *text, size_t step)
{
    pthread_t thread;
    struct sockaddr_in any = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof any;
    answer = text;
    answer_step = step;
    listener = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&any, sizeof any), 0);
    assert_int_equal(listen(listener, 1), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&any, &length), 0);
    snprintf(address, sizeof address, "127.0.0.1:%d", ntohs(any.sin_port));
    assert_int_equal(pthread_create(&thread, NULL, serve, NULL), 0);
    request.address = address;
    request.method = request.method ? request.method : "GET";
    request.path = "/x";
    request.timeout_ns = 20 * MOB_SEC;
    http_response_fini(&response);
    enum mob_status status = http_exchange(&request, &response);
    pthread_join(thread, NULL);
    close(listener);
    return status;
}

static enum mob_status ask(const char *text, size_t step)
{
    return ask_with((struct http_request){0}, text, step);
}

static void a_body_of_known_length_in_pieces_of_any_size(void **state)
{
    (void)state;
    for (size_t step = 0; step < 4; step++) {
        assert_int_equal(ask("HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX-A: b\r\n\r\nhello", step), MOB_OK);
        assert_int_equal(response.status, 200);
        assert_string_equal(response.body, "hello");
        assert_string_equal(http_header(&response, "x-a"), "b");
        assert_null(http_header(&response, "x"));
    }
    assert_non_null(strstr(received, "GET /x HTTP/1.1\r\n"));
}

static void a_chunked_body_in_pieces_of_any_size(void **state)
{
    (void)state;
    for (size_t step = 0; step < 4; step++) {
        assert_int_equal(ask("HTTP/1.1 200 OK\r\nTransfer-Encoding: "
                             "chunked\r\n\r\n3\r\nhel\r\n2;x=y\r\nlo\r\n0\r\nT: 1\r\n\r\n",
                             step),
            MOB_OK);
        assert_int_equal(response.body_length, 5);
        assert_string_equal(response.body, "hello");
    }
}

static void a_body_that_ends_with_the_connection(void **state)
{
    (void)state;
    assert_int_equal(ask("HTTP/1.1 404 Not Found\r\n\r\nno", 0), MOB_OK);
    assert_int_equal(response.status, 404);
    assert_string_equal(response.body, "no");
}

static void interim_answers_are_passed_over(void **state)
{
    (void)state;
    assert_int_equal(ask("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n", 1), MOB_OK);
    assert_int_equal(response.status, 204);
}

static void cut_and_broken_answers_are_errors(void **state)
{
    (void)state;
    assert_int_equal(ask("", 0), MOB_UNAVAILABLE);
    assert_int_equal(ask("HTTP/1.1 200 OK\r\nContent-Len", 0), MOB_UNAVAILABLE);
    assert_int_equal(ask("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello", 0), MOB_UNAVAILABLE);
    assert_int_equal(
        ask("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel", 0), MOB_UNAVAILABLE);
    assert_int_equal(ask("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", 0), MOB_CORRUPT);
    assert_int_equal(ask("HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n", 0), MOB_CORRUPT);
    assert_int_equal(ask("SSH-2.0-x\r\n\r\n", 0), MOB_CORRUPT);
    assert_int_equal(ask("HTTP/1.1 999 x\r\n\r\n", 0), MOB_CORRUPT);
}

static bool refuse(void *arg, const void *bytes, size_t length)
{
    (void)bytes;
    *(size_t *)arg += length;
    return false;
}

static void a_sink_takes_bodies_of_success_only_and_may_stop(void **state)
{
    (void)state;
    size_t taken = 0;
    struct http_request request = {.sink = refuse, .arg = &taken};
    assert_int_equal(ask_with(request, "HTTP/1.1 500 x\r\nContent-Length: 2\r\n\r\nno", 0), MOB_OK);
    assert_string_equal(response.body, "no");
    assert_int_equal(taken, 0);
    assert_int_equal(ask_with(request, "HTTP/1.1 200 x\r\nContent-Length: 2\r\n\r\nno", 0), MOB_IO);
    assert_int_equal(taken, 2);
}

static void nobody_there_is_unavailable_and_nothing_was_sent(void **state)
{
    (void)state;
    struct http_request request = {.address = address, .method = "GET", .path = "/", .timeout_ns = MOB_SEC};
    http_response_fini(&response);
    assert_int_equal(http_exchange(&request, &response), MOB_UNAVAILABLE); /* the port of the test before */
    assert_false(response.sent);
    request.address = "nonsense";
    assert_int_equal(http_exchange(&request, &response), MOB_UNAVAILABLE);
}

static void names_are_encoded(void **state)
{
    (void)state;
    char out[16];
    assert_true(http_encode("a b/\xc3", out, sizeof out));
    assert_string_equal(out, "a%20b%2F%C3");
    assert_false(http_encode("aaaaaaaaaaaaaaaa", out, sizeof out));
    assert_false(http_encode("aaaaaaaaaaaaa ", out, sizeof out));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_body_of_known_length_in_pieces_of_any_size),
        cmocka_unit_test(a_chunked_body_in_pieces_of_any_size),
        cmocka_unit_test(a_body_that_ends_with_the_connection),
        cmocka_unit_test(interim_answers_are_passed_over),
        cmocka_unit_test(cut_and_broken_answers_are_errors),
        cmocka_unit_test(a_sink_takes_bodies_of_success_only_and_may_stop),
        cmocka_unit_test(nobody_there_is_unavailable_and_nothing_was_sent),
        cmocka_unit_test(names_are_encoded),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    http_response_fini(&response);
    return failed;
}
