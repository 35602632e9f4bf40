/* An object that no log knows: it never was, unless the control store has named a loss that it may have been
 * in. */
#include "tests/unit/runtime/node/node_fixture.h"

#include "common/wire/completion.h"
#include "gcs/client/losses.h"
#include "runtime/node/known.h"

static void lose(const char *kind, int64_t wall_ns)
{
    char text[128];
    const uint8_t key[8] = {1};
    int length = snprintf(
        text, sizeof text, "{\"kind\":\"%s\",\"missing\":null,\"wall_ns\":%lld}", kind, (long long)wall_ns);
    fake_gcs_set(MOB_GCS_LOSSES, key, sizeof key, text, (uint32_t)length);
}

static struct mob_object_id nobodys(uint32_t slot)
{
    return mob_object_of((struct mob_task_id){{{7, 7, 7}}, 3}, slot);
}

/* What the notice of this object says; *words_out its first link's. */
static enum mob_status told(struct nx_driver *driver, struct mob_object_id id, char words_out[512])
{
    struct mob_record record;
    const uint8_t *body;
    enum mob_status status = MOB_AGAIN;
    words_out[0] = 0;
    while (status == MOB_AGAIN && (body = mob_store_in_peek(driver->store, &record)) != NULL) {
        struct mob_in_ready ready = {0};
        struct mob_error_link link;
        if (record.type == MOB_IN_READY)
            memcpy(&ready, body, sizeof ready);
        if (record.type == MOB_IN_READY && mob_object_id_eq(ready.id, id))
            status = (enum mob_status)ready.status;
        if (status != MOB_AGAIN && ready.inline_bytes > 0 &&
            mob_error_decode(body + sizeof ready, ready.inline_bytes, &link, 1) == 1)
            snprintf(words_out, 512, "%.*s", (int)link.message_bytes, link.message);
        mob_store_in_pop(driver->store);
    }
    mob_store_in_release(driver->store);
    return status;
}

static void assert_reads_as(struct nx *nx, struct nx_driver *driver, enum mob_status expected)
{
    char words[512];
    for (uint32_t i = 0; i < 2; i++) { /* a return, and a put */
        struct mob_object_id id = nobodys(i == 0 ? 0 : MOB_SLOT_PUT | 1);
        nx_watch(driver->store, id);
        nx_settle(nx);
        assert_int_equal(told(driver, id, words), expected);
        if (expected == MOB_LOST_UNCOMMITTED)
            assert_non_null(strstr(words, "no log knows this object; the control store named a loss"));
        else
            assert_string_equal(words, "");
    }
}

static void without_a_loss_it_never_was(void **state)
{
    (void)state;
    struct nx nx;
    struct nx_driver driver;
    nx_open_with(&nx, 0, &driver);
    assert_reads_as(&nx, &driver, MOB_NOT_FOUND);
    nx_close_with(&nx, &driver);
}

static void behind_a_loss_it_is_lost_and_says_so(void **state)
{
    (void)state;
    struct nx nx;
    struct nx_driver driver;
    struct mob_object_info info;
    nx_open_with(&nx, 0, &driver);
    lose("log", mob_wall_now());
    assert_reads_as(&nx, &driver, MOB_LOST_UNCOMMITTED);
    /* Whoever makes it after all finds its place free. */
    assert_false(mob_store_object_info(nx.node->store, nobodys(0), &info));
    nx_close_with(&nx, &driver);
}

static void losses_of_clients_and_of_long_ago_do_not_count(void **state)
{
    (void)state;
    struct nx nx;
    struct nx_driver driver;
    nx_open_with(&nx, 0, &driver);
    lose("client", mob_wall_now());
    assert_reads_as(&nx, &driver, MOB_NOT_FOUND);
    nx_close_with(&nx, &driver);
    nx_open_with(&nx, 0, &driver);
    lose("log", mob_wall_now() - 86400 * MOB_SEC - MOB_LOSSES_RESERVE_NS - MOB_SEC);
    assert_reads_as(&nx, &driver, MOB_NOT_FOUND);
    nx_close_with(&nx, &driver);
}

/* The task that it is a return of has ended, and has one. */
static void what_the_log_rules_out_is_not_lost(void **state)
{
    (void)state;
    struct nx nx;
    struct nx_driver driver;
    struct nx_worker worker;
    char words[512];
    nx_open_with(&nx, 1, &driver);
    lose("log", mob_wall_now());
    struct mob_task_id task = nx_submit(&driver);
    nx_settle(&nx);
    nx_worker(&nx, &worker);
    nx_await_task(&nx, &worker);
    nx_complete(&worker, 5, MOB_OK);
    nx_settle(&nx);
    nx_watch(driver.store, mob_object_of(task, 9));
    nx_settle(&nx);
    assert_int_equal(told(&driver, mob_object_of(task, 9), words), MOB_NOT_FOUND);
    nx_let_go(&worker);
    nx_close_with(&nx, &driver);
}

static void watch_and_hold(struct nx *nx, struct nx_driver *driver, struct mob_object_id id)
{
    FAKE.hold_losses = true;
    nx_watch(driver->store, id);
    for (int turns = 0; !fake_gcs_losses_wait(nx->node->gcs); turns++) {
        assert_true(turns < 100);
        nx_turn(nx, 1);
    }
}

/* It is logged while they are read. */
static void what_came_in_the_meantime_is_there(void **state)
{
    (void)state;
    struct nx nx;
    struct nx_driver driver, other;
    char words[512];
    nx_open_with(&nx, 0, &driver);
    nx_connect(&nx, &other, NULL);
    lose("log", mob_wall_now());
    struct mob_object_id id =
        mob_object_of((struct mob_task_id){mob_stream_of_children(driver.welcome.root, 0, 0), 0}, 0);
    watch_and_hold(&nx, &other, id);
    struct mob_task_id task = nx_submit(&driver);
    assert_true(mob_task_id_eq(task, id.task));
    nx_settle(&nx);
    FAKE.hold_losses = false;
    nx_settle(&nx);
    assert_int_equal(told(&other, id, words), MOB_AGAIN); /* it waits for the task */
    nx_close_with(&nx, &driver);
    nx_disconnect(&other);
}

/* The node ends while it reads them, and nothing is left of that. */
static void node_that_ends_meanwhile_leaves_nothing(void **state)
{
    (void)state;
    struct nx nx;
    struct nx_driver driver;
    nx_open_with(&nx, 0, &driver);
    watch_and_hold(&nx, &driver, nobodys(0));
    nx_close_with(&nx, &driver);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_a_loss_it_never_was),
        cmocka_unit_test(behind_a_loss_it_is_lost_and_says_so),
        cmocka_unit_test(losses_of_clients_and_of_long_ago_do_not_count),
        cmocka_unit_test(what_the_log_rules_out_is_not_lost),
        cmocka_unit_test(what_came_in_the_meantime_is_there),
        cmocka_unit_test(node_that_ends_meanwhile_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
