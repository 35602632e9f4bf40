/* The queue of an endless body. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "server/http/stream.h"

static int suspended, resumed;

static void suspend(struct mob_http_request *request)
{
    (void)request;
    suspended++;
}

static void resume(struct mob_http_request *request)
{
    (void)request;
    resumed++;
}

static const struct mob_http_front_ops front = {.suspend = suspend, .resume = resume};
static struct mob_http_request *request;
static struct mob_http_stream *stream;
static char bytes[2 * MOB_HTTP_STREAM_BYTES_MAX];

static int set_up(void **state)
{
    (void)state;
    suspended = resumed = 0;
    request = mob_http_request_create("/", 1);
    assert_non_null(request);
    request->front = &front;
    stream = mob_http_stream_create(request, 200, "text/event-stream");
    return stream != NULL ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    mob_http_stream_detach(stream);
    mob_http_stream_release(stream);
    mob_http_release(request); /* and its reference */
    return 0;
}

static size_t read_all(void)
{
    static char out[4096];
    size_t all = 0;
    for (long n; (n = mob_http_stream_read(stream, out, sizeof out)) > 0;)
        all += (size_t)n;
    return all;
}

static void a_full_queue_refuses(void **state)
{
    (void)state;
    assert_int_equal(mob_http_stream_write(stream, bytes, MOB_HTTP_STREAM_BYTES_MAX - 1), MOB_OK);
    assert_int_equal(mob_http_stream_write(stream, bytes, 2), MOB_QUEUE_FULL);
    assert_int_equal(mob_http_stream_write(stream, bytes, 1), MOB_OK);
    assert_int_equal(read_all(), MOB_HTTP_STREAM_BYTES_MAX);
    assert_int_equal(suspended, 1);
    assert_int_equal(mob_http_stream_write(stream, bytes, 2), MOB_OK);
    assert_int_equal(resumed, 1);
}

static void an_empty_queue_takes_what_is_larger_than_it(void **state)
{
    (void)state;
    assert_int_equal(mob_http_stream_write(stream, bytes, 1), MOB_OK);
    assert_int_equal(mob_http_stream_write(stream, bytes, sizeof bytes), MOB_QUEUE_FULL);
    assert_int_equal(read_all(), 1);
    assert_int_equal(mob_http_stream_write(stream, bytes, sizeof bytes), MOB_OK);
    assert_int_equal(mob_http_stream_write(stream, bytes, 1), MOB_QUEUE_FULL);
    assert_int_equal(read_all(), sizeof bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_full_queue_refuses, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_empty_queue_takes_what_is_larger_than_it, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
