/* Parked requests and the end of their front.   ctest: threads */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>
#include <cmocka.h>

#include "common/base/clock.h"
#include "server/http/park.h"

static _Atomic int suspended, resumed, timed_out;

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

static void on_timeout(struct mob_http_request *request)
{
    (void)request;
    timed_out++;
}

static void on_tick(void *cls, int64_t now_ns)
{
    (void)cls;
    (void)now_ns;
}

static const struct mob_http_front_ops front = {.suspend = suspend, .resume = resume};
static struct mob_parker *parker;
static struct mob_http_park_list *list;

static int set_up(void **state)
{
    (void)state;
    suspended = resumed = timed_out = 0;
    assert_int_equal(mob_parker_start(&(struct mob_parker_options){.tick = on_tick}, &parker), MOB_OK);
    list = mob_parker_list(parker);
    return list != NULL ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    mob_parker_stop(parker);
    return 0;
}

/* As a handler gets it, and then parks it. */
static struct mob_http_request *parked(void)
{
    struct mob_http_request *request = mob_http_request_create("/", 1);
    assert_non_null(request);
    request->front = &front;
    request->park_list = list;
    request->fd = -1;
    atomic_store(&request->status, MOB_HTTP_HANDLING);
    mob_http_park(request, mob_deadline_after(60 * MOB_SEC), on_timeout);
    return request;
}

static void await_answer(struct mob_http_request *request)
{
    for (int64_t deadline = mob_now() + 20 * MOB_SEC; atomic_load(&request->status) != MOB_HTTP_ANSWERED;) {
        assert_true(mob_now() < deadline);
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    assert_int_equal(request->reply.status, 503);
    assert_int_equal(timed_out, 0);
}

static void a_flush_answers_what_is_parked(void **state)
{
    (void)state;
    struct mob_http_request *request = parked();
    assert_int_equal(suspended, 1);
    assert_int_equal(mob_parker_count(parker), 1);
    mob_parker_flush(parker);
    await_answer(request);
    while (resumed == 0) /* right behind its status */
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    mob_park_remove(request);
    assert_int_equal(mob_parker_count(parker), 0);
    mob_http_release(request);
    mob_http_release(request);
}

/* What is suspended when its front ends cannot be answered any more. */
static void nothing_parks_behind_a_flush(void **state)
{
    (void)state;
    mob_parker_flush(parker);
    struct mob_http_request *request = parked();
    await_answer(request);
    assert_int_equal(suspended, 0);
    assert_int_equal(mob_parker_count(parker), 0);
    mob_http_release(request);
    mob_http_release(request);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_flush_answers_what_is_parked, set_up, tear_down),
        cmocka_unit_test_setup_teardown(nothing_parks_behind_a_flush, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
