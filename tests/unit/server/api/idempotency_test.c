/* One gateway's table of idempotency keys when it is full. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "server/api/idempotency.h"

enum { ENTRIES = 2 };

struct ask {
    struct mob_http_header header;
    struct mob_http_request request;
};

static struct mob_idempotency *table;

static int set_up(void **state)
{
    (void)state;
    return mob_idempotency_create(ENTRIES, 0, &table) == MOB_OK ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    mob_idempotency_destroy(table);
    return 0;
}

/* Whether it is to run. */
static bool begins(struct ask *ask, const char *key)
{
    *ask = (struct ask){.header = {"Idempotency-Key", key}};
    ask->request.method = MOB_HTTP_POST;
    ask->request.path = "/api/v1/tasks";
    ask->request.headers = &ask->header;
    ask->request.header_count = 1;
    return mob_idempotency_begin(table, &ask->request, "principal", 1);
}

/* As the control store decides, and an answer that is kept. */
static void ends(struct ask *ask)
{
    struct mob_module_hash scope, body;
    assert_true(mob_idempotency_key(&ask->request, &scope, &body));
    mob_idempotency_decided(table, &scope, &body);
    mob_http_reply(&ask->request, 202, "application/json", "{}", 2);
    mob_idempotency_finish(table, &ask->request, 2);
    mob_http_reply_reset(&ask->request);
}

static void the_oldest_that_has_ended_makes_room(void **state)
{
    (void)state;
    struct ask running, ask;
    assert_true(begins(&running, "running"));
    assert_true(begins(&ask, "first"));
    ends(&ask);
    assert_false(begins(&ask, "first")); /* repeated from the table */
    assert_int_equal(ask.request.reply.status, 202);
    mob_http_reply_reset(&ask.request);
    assert_true(begins(&ask, "second"));
    ends(&ask);
    assert_true(begins(&ask, "first")); /* it went, so the control store is asked again */
    ends(&ask);
    ends(&running);
}

static void running_ones_stay_and_refuse_more(void **state)
{
    (void)state;
    struct ask running[ENTRIES], more;
    for (int i = 0; i < ENTRIES; i++)
        assert_true(begins(&running[i], i == 0 ? "one" : "two"));
    assert_false(begins(&more, "three"));
    assert_int_equal(more.request.reply.status, 429);
    mob_http_reply_reset(&more.request);
    ends(&running[0]);
    assert_true(begins(&more, "three"));
    ends(&more);
    ends(&running[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_oldest_that_has_ended_makes_room, set_up, tear_down),
        cmocka_unit_test_setup_teardown(running_ones_stay_and_refuse_more, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
