/* ctest: threads */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <pthread.h>

#include <cmocka.h>

#include "common/base/clock.h"
#include "server/api/rate_limit.h"

static const int64_t start_ns = 5 * MOB_SEC;

static unsigned take_all(const struct mob_rate_limit *limit, struct mob_rate_bucket *bucket, int64_t now_ns)
{
    struct mob_rate_left left;
    unsigned taken = 0;
    while (mob_rate_limit_take(limit, bucket, now_ns, &left))
        taken++;
    return taken;
}

static void without_a_rate_there_is_no_limit(void **state)
{
    (void)state;
    struct mob_rate_limit limit;
    mob_rate_limit_init(&limit, 0, 50);
    assert_false(mob_rate_limit_is_on(&limit));
}

static void a_burst_passes_and_then_one_for_each_share_of_a_second(void **state)
{
    (void)state;
    struct mob_rate_limit limit;
    struct mob_rate_bucket bucket = {0};
    mob_rate_limit_init(&limit, 10, 30);
    assert_true(mob_rate_limit_is_on(&limit));
    assert_int_equal(limit.window_s, 3);
    assert_int_equal(take_all(&limit, &bucket, start_ns), 30);
    assert_int_equal(take_all(&limit, &bucket, start_ns + MOB_SEC / 10 - 1), 0);
    assert_int_equal(take_all(&limit, &bucket, start_ns + MOB_SEC / 10), 1);
    assert_int_equal(take_all(&limit, &bucket, start_ns + MOB_SEC / 2), 4);
    assert_int_equal(take_all(&limit, &bucket, start_ns + 60 * MOB_SEC), 30); /* no more than it holds */
}

static void what_is_left_is_told(void **state)
{
    (void)state;
    struct mob_rate_limit limit;
    struct mob_rate_bucket bucket = {0};
    struct mob_rate_left left;
    mob_rate_limit_init(&limit, 1, 4);
    for (uint32_t i = 1; i <= 4; i++) {
        assert_true(mob_rate_limit_take(&limit, &bucket, start_ns, &left));
        assert_int_equal(left.requests, 4 - i);
        assert_int_equal(left.full_in_s, i);
    }
    assert_false(mob_rate_limit_take(&limit, &bucket, start_ns, &left));
    assert_int_equal(left.requests, 0);
    assert_int_equal(left.full_in_s, 4);
    assert_int_equal(left.retry_after_s, 1);
}

static void who_waits_as_told_passes(void **state)
{
    (void)state;
    for (uint32_t rate = 1; rate <= MOB_RATE_LIMIT_MAX; rate *= 10) {
        struct mob_rate_limit limit;
        struct mob_rate_bucket bucket = {0};
        struct mob_rate_left left;
        mob_rate_limit_init(&limit, rate, 1);
        assert_true(mob_rate_limit_take(&limit, &bucket, start_ns, &left));
        assert_false(mob_rate_limit_take(&limit, &bucket, start_ns, &left));
        assert_int_equal(left.retry_after_s, 1);
        assert_true(mob_rate_limit_take(&limit, &bucket, start_ns + left.retry_after_s * MOB_SEC, &left));
    }
}

/* A refusal costs nothing: who keeps asking gets its share all the same. */
static void refusals_do_not_put_off_what_comes(void **state)
{
    (void)state;
    struct mob_rate_limit limit;
    struct mob_rate_bucket bucket = {0};
    struct mob_rate_left left;
    unsigned taken = 0;
    mob_rate_limit_init(&limit, 10, 10);
    for (int64_t ms = 0; ms < 10000; ms++)
        taken += mob_rate_limit_take(&limit, &bucket, start_ns + ms * MOB_MS, &left);
    assert_int_equal(taken, 10 + 99);
}

static void without_a_burst_a_second_is_held(void **state)
{
    (void)state;
    struct mob_rate_limit limit;
    struct mob_rate_bucket bucket = {0};
    mob_rate_limit_init(&limit, 7, 0);
    assert_int_equal(take_all(&limit, &bucket, start_ns), 7);
}

static struct mob_rate_limit shared_limit;
static struct mob_rate_bucket shared_bucket;

static void *take_what_there_is(void *taken)
{
    *(unsigned *)taken = take_all(&shared_limit, &shared_bucket, start_ns);
    return NULL;
}

static void threads_share_a_bucket_exactly(void **state)
{
    (void)state;
    pthread_t threads[4];
    unsigned taken[4], sum = 0;
    mob_rate_limit_init(&shared_limit, 1000, 100000);
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, take_what_there_is, &taken[i]), 0);
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
        sum += taken[i];
    }
    assert_int_equal(sum, 100000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_a_rate_there_is_no_limit),
        cmocka_unit_test(a_burst_passes_and_then_one_for_each_share_of_a_second),
        cmocka_unit_test(what_is_left_is_told),
        cmocka_unit_test(who_waits_as_told_passes),
        cmocka_unit_test(refusals_do_not_put_off_what_comes),
        cmocka_unit_test(without_a_burst_a_second_is_held),
        cmocka_unit_test(threads_share_a_bucket_exactly),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
