/* Look-ups of the lineage: a group that is asked for again and again is read once, and what is remembered of
 * it is never out of date. */
#include "tests/unit/runtime/node/node_fixture.h"

#include "runtime/node/known.h"

struct heard {
    int answers;
    bool spec, completion;
    struct node *node; /* asks for the one before in turn */
    struct mob_task_id next;
    int chain;
};

static void hear(void *arg, enum mob_status status, const struct known *known)
{
    struct heard *heard = arg;
    assert_int_equal(status, MOB_OK);
    heard->answers++;
    heard->spec = known->spec != NULL;
    heard->completion = known->completion != NULL;
    if (heard->chain-- > 0) {
        heard->next.index--;
        known_ask(heard->node, mob_object_of(heard->next, 0), hear, heard);
    }
}

static struct heard ask(struct nx *nx, struct mob_task_id task)
{
    struct heard heard = {0};
    known_ask(nx->node, mob_object_of(task, 0), hear, &heard);
    assert_int_equal(heard.answers, 0); /* never before the call has returned */
    nx_turn(nx, 10);
    assert_int_equal(heard.answers, 1);
    return heard;
}

static void group_that_is_asked_for_again_is_read_once(void **state)
{
    (void)state;
    struct nx nx;
    struct nx_driver driver;
    nx_open(&nx, 0);
    nx_connect(&nx, &driver, NULL);
    struct mob_task_id last = {0};
    for (int i = 0; i < 200; i++)
        last = nx_submit(&driver);
    nx_settle(&nx);
    uint32_t before = FAKE.reads;
    assert_true(ask(&nx, last).spec);
    assert_true(ask(&nx, last).spec);
    assert_int_equal(FAKE.reads - before, 2); /* from the second on it is remembered */
    struct heard heard = {.node = nx.node, .next = last, .chain = 199};
    known_ask(nx.node, mob_object_of(last, 0), hear, &heard);
    nx_turn(&nx, 3);
    assert_int_equal(heard.answers, 200);
    assert_true(heard.spec);
    struct mob_task_id nobody = last;
    nobody.index += 50;
    assert_false(ask(&nx, nobody).spec);
    assert_int_equal(FAKE.reads - before, 2);
    nx_disconnect(&driver);
    nx_close(&nx);
}

static void what_is_logged_ends_what_was_remembered(void **state)
{
    (void)state;
    struct nx nx;
    struct nx_driver driver;
    nx_open(&nx, 0);
    nx_connect(&nx, &driver, NULL);
    struct mob_task_id task = nx_submit(&driver), next = task;
    nx_settle(&nx);
    next.index++;
    for (int i = 0; i < 3; i++)
        assert_false(ask(&nx, next).spec);
    uint32_t before = FAKE.reads;
    assert_false(ask(&nx, next).spec);
    assert_int_equal(FAKE.reads, before);
    struct mob_spec_head head = nx_next(&driver, MOB_KIND_TASK);
    head.function = (struct mob_function_id){{'n', 'o', 'n', 'e'}}; /* it fails when it is submitted */
    nx_spec(driver.store, &head, NULL);
    nx_settle(&nx);
    struct heard heard = ask(&nx, next);
    assert_true(heard.spec);
    assert_true(heard.completion);
    /* logged while a remembered answer was on its way */
    for (int i = 0; i < 3; i++)
        ask(&nx, next);
    heard = (struct heard){0};
    struct mob_task_id third = {next.stream, next.index + 1};
    known_ask(nx.node, mob_object_of(third, 0), hear, &heard);
    head = nx_next(&driver, MOB_KIND_TASK);
    nx_spec(driver.store, &head, NULL);
    nx_turn(&nx, 10);
    assert_int_equal(heard.answers, 1);
    assert_true(heard.spec);
    nx_disconnect(&driver);
    nx_close(&nx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(group_that_is_asked_for_again_is_read_once),
        cmocka_unit_test(what_is_logged_ends_what_was_remembered),
    };
    cmocka_set_test_filter(getenv("MOBULA_TEST"));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
