/* A node with a segment of 64 MB: what does not fit into it goes and comes back, and what cannot fit is said.
 * ctest: timeout=300 */
#include <mobula/mobula.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <jansson.h>

#include "common/base/clock.h"
#include "tests/support/driver.h"
#include "tests/support/node_box.h"

#define SECONDS 1000000000ll

static struct node_box box;
static struct mob_client *client;

static int set_up(void **state)
{
    (void)state;
    static const char *const args[] = {"--segment-bytes", "67108864", NULL};
    client = driver_box_start(&box, args, "probe");
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    driver_box_stop(&box, client);
    return 0;
}

static int64_t store_stat(const char *name)
{
    char *text = NULL;
    assert_int_equal(mob_query(client, "stats", "", 10 * SECONDS, &text), MOB_OK);
    json_t *root = json_loads(text, 0, NULL);
    json_t *value = json_object_get(json_object_get(root, "store"), name);
    assert_non_null(value);
    int64_t n = json_integer_value(value);
    json_decref(root);
    free(text);
    return n;
}

/* Held futures are names, not pins: the table is smaller than what is held, so most come back from the
 * lineage, a group of 256 at a time. One at a time each would cost a decoding of them all. */
static void small_puts_beyond_the_table_come_back(void **state)
{
    (void)state;
    enum { N = 40000 };
    static struct mob_future *futures[N];
    for (int i = 0; i < N; i++)
        assert_int_equal(mob_put(client, mob_i64(i * 3), &futures[i]), MOB_OK);
    assert_int_equal(mob_flush(client, 60 * SECONDS), MOB_OK);
    assert_true(store_stat("entries") < N);
    assert_true(store_stat("evictions") > 0);
    int64_t begin = mob_now(), result;
    for (int i = 0; i < N; i++) {
        assert_int_equal(mob_get_i64(futures[i], 60 * SECONDS, &result), MOB_OK);
        assert_int_equal(result, i * 3);
    }
    assert_true(mob_now() - begin < 30 * SECONDS);
    for (int i = 0; i < N; i += 97) { /* each in another group */
        int at = (int)((int64_t)i * 7919 % N);
        assert_int_equal(mob_get_i64(futures[at], 60 * SECONDS, &result), MOB_OK);
        assert_int_equal(result, at * 3);
    }
    node_box_kill(&box); /* the next incarnation has nothing but the lineage */
    node_box_restart(&box);
    for (int i = 0; i < N; i++) {
        assert_int_equal(mob_get_i64(futures[i], 60 * SECONDS, &result), MOB_OK);
        assert_int_equal(result, i * 3);
        mob_release(futures[i]);
    }
}

/* As arguments too. */
static void evicted_puts_are_arguments_like_others(void **state)
{
    (void)state;
    enum { N = 30000, USED = 1000 };
    static struct mob_future *futures[N];
    static struct mob_arg args[USED];
    for (int i = 0; i < N; i++)
        assert_int_equal(mob_put(client, mob_i64(i), &futures[i]), MOB_OK);
    assert_int_equal(mob_flush(client, 60 * SECONDS), MOB_OK);
    int64_t sum = 0, result;
    for (int i = 0; i < USED; i++) {
        int at = (int)((int64_t)i * 7919 % N);
        args[i] = mob_ref(futures[at]);
        sum += at;
    }
    struct mob_future *future;
    assert_int_equal(
        mob_submit(client, "probe.sum_all", (struct mob_args){args, USED}, NULL, &future), MOB_OK);
    assert_int_equal(mob_get_i64(future, 60 * SECONDS, &result), MOB_OK);
    assert_int_equal(result, sum);
    mob_release(future);
    for (int i = 0; i < N; i++)
        mob_release(futures[i]);
}

static enum mob_status run(const char *function, int64_t argument, int64_t *result_out)
{
    struct mob_future *future;
    assert_int_equal(mob_submit(client, function, MOB_ARGS(mob_i64(argument)), NULL, &future), MOB_OK);
    enum mob_status status = mob_get_i64(future, 200 * SECONDS, result_out);
    if (status != MOB_OK)
        print_message("%s(%ld): %s\n", function, (long)argument, mob_future_error(future));
    mob_release(future);
    return status;
}

/* Each of them blocks on the next: as many workers, with their rings, at once. */
static void a_chain_200_deep_fits(void **state)
{
    (void)state;
    int64_t result;
    assert_int_equal(run("probe.deep", 200, &result), MOB_OK);
    assert_int_equal(result, 201);
}

/* More workers than the segment has units for their rings. */
static void a_chain_too_deep_for_the_segment_is_a_typed_error_with_the_numbers(void **state)
{
    (void)state;
    int64_t result;
    struct mob_future *future;
    assert_int_equal(mob_submit(client, "probe.deep", MOB_ARGS(mob_i64(1500)), NULL, &future), MOB_OK);
    enum mob_status status = mob_get_i64(future, 250 * SECONDS, &result);
    const char *why = mob_future_error(future);
    if (status != MOB_TOO_MANY_BLOCKED || !strstr(why, "workers wait, and there is no room for another") ||
        !strstr(why, "bytes needed"))
        fail_msg("%s: %.2000s", mob_status_code(status), why);
    mob_release(future);
    assert_int_equal(run("probe.echo_i64", 5, &result), MOB_OK); /* the node goes on */
    assert_int_equal(result, 5);
}

/* The workers of the chain before this are idle, and have all the room, for a minute. */
static void a_new_client_gets_the_room_of_idle_workers(void **state)
{
    (void)state;
    struct mob_client *other = NULL;
    int64_t begin = mob_now(), result;
    while (mob_connect(NULL, &other) != MOB_OK)
        if (mob_now() - begin > 20 * SECONDS)
            fail_msg("no room for another client");
    struct mob_future *future;
    assert_int_equal(mob_submit(other, "probe.echo_i64", MOB_ARGS(mob_i64(7)), NULL, &future), MOB_OK);
    assert_int_equal(mob_get_i64(future, 60 * SECONDS, &result), MOB_OK);
    assert_int_equal(result, 7);
    mob_release(future);
    mob_disconnect(other);
}

/* 72 KiB of returns in one record, through a ring of 16; and a reply to a worker that is larger than its
 * ring. */
static void records_larger_than_a_ring_pass(void **state)
{
    (void)state;
    enum { N = 3000 };
    static struct mob_future *futures[N];
    struct mob_submit_options options = {.struct_size = sizeof options, .num_returns = N};
    assert_int_equal(mob_submit(client, "probe.many", MOB_ARGS(mob_i64(N)), &options, futures), MOB_OK);
    for (int64_t i = 0; i < N; i++) {
        int64_t result;
        assert_int_equal(mob_get_i64(futures[i], 60 * SECONDS, &result), MOB_OK);
        assert_int_equal(result, i * i);
        mob_release(futures[i]);
    }
}

static void a_put_that_cannot_fit_is_refused_with_the_numbers(void **state)
{
    (void)state;
    static char bytes[100 << 20];
    struct mob_future *future;
    assert_int_equal(mob_put(client, mob_bytes(bytes, sizeof bytes), &future), MOB_STORE_FULL);
    const char *why = mob_client_error(client);
    if (!strstr(why, "104857664 bytes needed") || !strstr(why, "in one piece") ||
        !strstr(why, "entries used"))
        fail_msg("%s", why);
}

/* Two of them have no room beside each other, and the one that is here has not been hashed yet. */
static void a_large_put_comes_back_although_the_next_one_waits_for_its_commit(void **state)
{
    (void)state;
    enum { BYTES = 40 << 20, N = 4 };
    static char bytes[BYTES];
    struct mob_future *futures[N];
    for (int i = 0; i < N; i++) {
        memset(bytes, 'a' + i, sizeof bytes);
        assert_int_equal(mob_put(client, mob_bytes(bytes, sizeof bytes), &futures[i]), MOB_OK);
        if (i == 0)
            continue;
        struct mob_value *value;
        const void *data;
        size_t size;
        if (mob_get(futures[i - 1], 60 * SECONDS, &value) != MOB_OK)
            fail_msg("put %d does not come back: %s", i - 1, mob_client_error(client));
        assert_int_equal(mob_value_data(value, &data, &size), MOB_OK);
        assert_int_equal(size, sizeof bytes);
        assert_int_equal(*(const char *)data, 'a' + i - 1);
        mob_value_release(value);
    }
    for (int i = 0; i < N; i++)
        mob_release(futures[i]);
}

static void a_return_that_cannot_fit_is_refused_with_the_numbers(void **state)
{
    (void)state;
    struct mob_future *future;
    assert_int_equal(mob_submit(client, "probe.big", MOB_ARGS(mob_i64(100 << 20)), NULL, &future), MOB_OK);
    struct mob_value *value;
    assert_int_equal(mob_get(future, 60 * SECONDS, &value), MOB_STORE_FULL);
    const char *why = mob_future_error(future);
    if (!strstr(why, "104857664 bytes needed") || !strstr(why, "in one piece"))
        fail_msg("%s", why);
    mob_release(future);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_puts_beyond_the_table_come_back),
        cmocka_unit_test(evicted_puts_are_arguments_like_others),
        cmocka_unit_test(a_large_put_comes_back_although_the_next_one_waits_for_its_commit),
        cmocka_unit_test(a_put_that_cannot_fit_is_refused_with_the_numbers),
        cmocka_unit_test(a_return_that_cannot_fit_is_refused_with_the_numbers),
        cmocka_unit_test(records_larger_than_a_ring_pass),
        cmocka_unit_test(a_chain_200_deep_fits),
        cmocka_unit_test(a_chain_too_deep_for_the_segment_is_a_typed_error_with_the_numbers),
        cmocka_unit_test(a_new_client_gets_the_room_of_idle_workers),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
