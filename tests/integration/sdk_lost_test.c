/* What a driver was told is there, and the control store has lost, reads as lost by its id: to who gets it,
 * waits for it, or has it as an argument.
 * ctest: timeout=120
 */
#include <mobula/mobula.h>

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/clock.h"
#include "tests/support/driver.h"
#include "tests/support/node_box.h"

#define PATIENCE (60 * MOB_SEC)
#define SAYS "no log knows this object; the control store named a loss of acknowledged records at "

static struct node_box box;
static struct mob_client *client;
static char kept_id[MOB_TEXT_ID_MAX], lost_id[MOB_TEXT_ID_MAX], lost_put_id[MOB_TEXT_ID_MAX];

/* Of what is acknowledged, when this returns. */
static void make(int64_t value, char result_id[MOB_TEXT_ID_MAX], char put_id[MOB_TEXT_ID_MAX])
{
    struct mob_future *result, *put;
    int64_t got;
    OK(mob_submit(client, "probe.echo_i64", MOB_ARGS(mob_i64(value)), NULL, &result));
    OK(mob_put(client, mob_i64(value), &put));
    OK(mob_get_i64(result, PATIENCE, &got));
    OK(mob_flush(client, PATIENCE));
    mob_future_id(result, result_id);
    mob_future_id(put, put_id);
    mob_release(result);
    mob_release(put);
}

static int set_up(void **state)
{
    char kept_put_id[MOB_TEXT_ID_MAX];
    (void)state;
    client = driver_box_start(&box, NULL, "probe");
    make(1, kept_id, kept_put_id);
    uint64_t before = gcs_box_file_bytes(&box.gcs);
    make(2, lost_id, lost_put_id);
    mob_disconnect(client);
    node_box_kill(&box);
    gcs_box_end(&box.gcs.gcs, SIGKILL);
    gcs_box_end(&box.gcs.redis, SIGKILL);
    assert_true(gcs_box_file_bytes(&box.gcs) > before);
    assert_true(gcs_box_cut_file(&box.gcs, gcs_box_file_bytes(&box.gcs) - before) > 0);
    node_box_revive(&box);
    client = driver_connect(NULL);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    driver_box_stop(&box, client);
    return 0;
}

static struct mob_future *by_id(const char *id)
{
    struct mob_future *future;
    OK(mob_future_from_id(client, id, &future));
    return future;
}

static void assert_lost(struct mob_future *future)
{
    int64_t value;
    assert_int_equal(mob_get_i64(future, PATIENCE, &value), MOB_LOST_UNCOMMITTED);
    assert_non_null(strstr(mob_client_error(client), SAYS));
    assert_non_null(strstr(mob_future_error(future), "\"code\":\"lost\""));
    assert_non_null(strstr(mob_future_error(future), SAYS));
}

static void what_is_in_the_log_is_there(void **state)
{
    (void)state;
    int64_t value;
    struct mob_future *future = by_id(kept_id);
    OK(mob_get_i64(future, PATIENCE, &value));
    assert_int_equal(value, 1);
    mob_release(future);
}

static void who_gets_it_is_told(void **state)
{
    (void)state;
    struct mob_future *result = by_id(lost_id), *put = by_id(lost_put_id);
    assert_lost(result);
    assert_lost(put);
    mob_release(result);
    mob_release(put);
}

/* Its outcome is known, as of anything that failed. */
static void who_waits_for_it_waits_no_longer(void **state)
{
    (void)state;
    struct mob_future *future = by_id(lost_id);
    bool ready = false;
    size_t count = 0;
    OK(mob_wait(&future, 1, 1, PATIENCE, &ready, &count));
    assert_int_equal(count, 1);
    assert_true(ready);
    assert_lost(future);
    mob_release(future);
}

static void who_depends_on_it_fails_and_says_why(void **state)
{
    (void)state;
    int64_t value;
    struct mob_future *lost = by_id(lost_id), *result;
    OK(mob_submit(client, "probe.echo_i64", MOB_ARGS(mob_ref(lost)), NULL, &result));
    assert_int_equal(mob_get_i64(result, PATIENCE, &value), MOB_DEPENDENCY_FAILED);
    const char *cause = strstr(mob_future_error(result), "\"cause\":{\"code\":\"lost\"");
    assert_non_null(cause);
    assert_non_null(strstr(cause, SAYS));
    mob_release(result);
    mob_release(lost);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_in_the_log_is_there),
        cmocka_unit_test(who_gets_it_is_told),
        cmocka_unit_test(who_waits_for_it_waits_no_longer),
        cmocka_unit_test(who_depends_on_it_fails_and_says_why),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
