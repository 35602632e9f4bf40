/* The checker of histories is itself checked: on histories that are linearizable, on known-bad ones, and on
 * random ones against a search that tries every order.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/sim/lincheck.h"
#include "tests/support/xorshift.h"

#define NEVER LINCHECK_NEVER
#define CHECK(ops) lincheck((ops), sizeof(ops) / sizeof(ops)[0], 100000)

static struct lincheck_op put(uint64_t value, uint64_t version, int64_t call, int64_t ret)
{
    enum lincheck_outcome outcome = ret == NEVER ? LINCHECK_UNKNOWN : LINCHECK_DONE;
    return (struct lincheck_op){LINCHECK_PUT, outcome, value, version, 0, call, ret};
}
static struct lincheck_op cas(uint64_t expect, uint64_t value, uint64_t version, int64_t call, int64_t ret)
{
    enum lincheck_outcome outcome = ret == NEVER ? LINCHECK_UNKNOWN : LINCHECK_DONE;
    return (struct lincheck_op){LINCHECK_CAS, outcome, value, version, expect, call, ret};
}
static struct lincheck_op conflict(uint64_t expect, uint64_t there, int64_t call, int64_t ret)
{
    return (struct lincheck_op){LINCHECK_CAS, LINCHECK_CONFLICT, 999, there, expect, call, ret};
}
static struct lincheck_op get(uint64_t value, uint64_t version, int64_t call, int64_t ret)
{
    return (struct lincheck_op){LINCHECK_GET, LINCHECK_DONE, value, version, 0, call, ret};
}
static struct lincheck_op none(int64_t call, int64_t ret)
{
    return (struct lincheck_op){LINCHECK_GET, LINCHECK_ABSENT, 0, 0, 0, call, ret};
}
static struct lincheck_op del(enum lincheck_outcome outcome, int64_t call, int64_t ret)
{
    return (struct lincheck_op){LINCHECK_DELETE, outcome, 0, 0, 0, call, ret};
}

static void good_histories_pass(void **state)
{
    (void)state;
    struct lincheck_op sequential[] = {put(1, 5, 0, 1), get(1, 5, 2, 3), cas(5, 2, 6, 4, 5), get(2, 6, 6, 7),
        del(LINCHECK_DONE, 8, 9), none(10, 11), del(LINCHECK_ABSENT, 12, 13), cas(0, 3, 9, 14, 15)};
    assert_int_equal(CHECK(sequential), LINCHECK_OK);
    struct lincheck_op overlapping[] = {put(1, 5, 0, 10), put(2, 6, 0, 10), get(2, 6, 1, 2), get(1, 5, 3, 4)};
    assert_int_equal(CHECK(overlapping), LINCHECK_OK); /* 2 then 1: versions need not grow with time here */
    struct lincheck_op unknown_happened[] = {put(1, 5, 0, 1), put(2, 0, 2, NEVER), get(2, 6, 3, 4)};
    assert_int_equal(CHECK(unknown_happened), LINCHECK_OK);
    struct lincheck_op unknown_did_not[] = {put(1, 5, 0, 1), put(2, 0, 2, NEVER), get(1, 5, 3, 4)};
    assert_int_equal(CHECK(unknown_did_not), LINCHECK_OK);
    struct lincheck_op unknown_late[] = {
        put(1, 5, 0, 1), put(2, 0, 2, NEVER), get(1, 5, 3, 4), get(1, 5, 50, 51), get(2, 7, 99, 100)};
    assert_int_equal(CHECK(unknown_late), LINCHECK_OK);
    struct lincheck_op refused[] = {put(1, 5, 0, 1), conflict(0, 5, 2, 3), conflict(4, 5, 2, 3)};
    assert_int_equal(CHECK(refused), LINCHECK_OK);
}

static void a_stale_read_is_found(void **state)
{
    (void)state;
    struct lincheck_op ops[] = {put(1, 5, 0, 1), put(2, 6, 2, 3), get(1, 5, 4, 5)};
    assert_int_equal(CHECK(ops), LINCHECK_VIOLATED);
    struct lincheck_op absent[] = {put(1, 5, 0, 1), none(2, 3)};
    assert_int_equal(CHECK(absent), LINCHECK_VIOLATED);
}

static void reads_that_go_back_are_found(void **state)
{
    (void)state;
    struct lincheck_op ops[] = {put(1, 5, 0, 1), put(2, 6, 2, 20), get(2, 6, 3, 4), get(1, 5, 5, 6)};
    assert_int_equal(CHECK(ops), LINCHECK_VIOLATED);
    struct lincheck_op unknown[] = {put(1, 5, 0, 1), put(2, 0, 2, NEVER), get(2, 6, 3, 4), get(1, 5, 5, 6)};
    assert_int_equal(CHECK(unknown), LINCHECK_VIOLATED);
}

static void a_lost_write_is_found(void **state)
{
    (void)state;
    struct lincheck_op ops[] = {
        put(1, 5, 0, 1), put(2, 6, 2, 3), get(2, 6, 4, 5), get(1, 5, 6, 7), get(1, 5, 8, 9)};
    assert_int_equal(CHECK(ops), LINCHECK_VIOLATED);
}

static void a_write_applied_twice_is_found(void **state)
{
    (void)state;
    /* 1, then 2, then 1 again by a retry that was not recognized. */
    struct lincheck_op ops[] = {
        put(1, 5, 0, 1), put(2, 6, 2, 3), get(2, 6, 4, 5), get(1, 5, 6, 7), get(2, 6, 8, 9)};
    assert_int_equal(CHECK(ops), LINCHECK_VIOLATED);
    struct lincheck_op twice[] = {put(1, 5, 0, 1), del(LINCHECK_DONE, 2, 3), get(1, 7, 4, 5)};
    assert_int_equal(CHECK(twice), LINCHECK_VIOLATED);
}

static void two_winners_of_one_version_are_found(void **state)
{
    (void)state;
    struct lincheck_op ops[] = {put(1, 5, 0, 1), cas(5, 2, 6, 2, 9), cas(5, 3, 7, 2, 9)};
    assert_int_equal(CHECK(ops), LINCHECK_VIOLATED);
    struct lincheck_op created[] = {cas(0, 2, 6, 2, 9), cas(0, 3, 7, 2, 9)};
    assert_int_equal(CHECK(created), LINCHECK_VIOLATED);
}

static void a_refusal_without_a_reason_is_found(void **state)
{
    (void)state;
    struct lincheck_op ops[] = {put(1, 5, 0, 1), conflict(5, 6, 2, 3)};
    assert_int_equal(CHECK(ops), LINCHECK_VIOLATED);
    struct lincheck_op same[] = {put(1, 5, 0, 1), conflict(5, 5, 2, 3)};
    assert_int_equal(CHECK(same), LINCHECK_VIOLATED);
    struct lincheck_op gone[] = {put(1, 5, 0, 1), del(LINCHECK_ABSENT, 2, 3)};
    assert_int_equal(CHECK(gone), LINCHECK_VIOLATED);
}

static void a_value_nobody_wrote_is_found(void **state)
{
    (void)state;
    struct lincheck_op ops[] = {put(1, 5, 0, 1), get(7, 6, 2, 3)};
    assert_int_equal(CHECK(ops), LINCHECK_VIOLATED);
    struct lincheck_op version[] = {put(1, 5, 0, 1), get(1, 6, 2, 3)};
    assert_int_equal(CHECK(version), LINCHECK_VIOLATED);
    struct lincheck_op future[] = {get(1, 5, 0, 1), put(1, 5, 2, 3)};
    assert_int_equal(CHECK(future), LINCHECK_VIOLATED);
}

/* ---- against every order ---- */

static uint64_t rng = XORSHIFT_SEED;
static uint64_t below(uint64_t n)
{
    return xorshift(&rng) % n;
}

static uint64_t version_of(const struct lincheck_op *ops, size_t n, int write)
{
    (void)n;
    return write < 0 ? 0 : ops[write].version;
}

/* The register itself: does `op` do what it says when `*write` is in force? */
static bool plays(const struct lincheck_op *ops, size_t n, size_t i, int *write)
{
    const struct lincheck_op *op = &ops[i];
    uint64_t there = version_of(ops, n, *write);
    switch (op->type) {
    case LINCHECK_PUT:
        *write = (int)i;
        return true;
    case LINCHECK_CAS:
        if (op->outcome == LINCHECK_CONFLICT)
            return there == op->version && op->expect != there;
        if (there != op->expect)
            return false;
        *write = (int)i;
        return true;
    case LINCHECK_DELETE:
        if ((op->outcome == LINCHECK_ABSENT) != (*write < 0))
            return false;
        *write = -1;
        return true;
    case LINCHECK_GET:
        if (op->outcome == LINCHECK_ABSENT)
            return *write < 0;
        return *write >= 0 && ops[*write].value == op->value && there == op->version;
    }
    return false;
}

static bool any_order(const struct lincheck_op *ops, size_t n, unsigned done, int write)
{
    if (done == (1u << n) - 1)
        return true;
    for (size_t i = 0; i < n; i++) {
        bool first = (done >> i & 1) == 0;
        for (size_t k = 0; k < n && first; k++)
            first = (done >> k & 1) != 0 || k == i || ops[k].return_at >= ops[i].call_at;
        int next = write;
        if (first && plays(ops, n, i, &next) && any_order(ops, n, done | 1u << i, next))
            return true;
    }
    return false;
}

static struct lincheck_op random_op(size_t i)
{
    int64_t call = (int64_t)below(12), ret = call + (int64_t)below(6);
    uint64_t version = i + 1;
    switch (below(6)) {
    case 0:
        return put(i + 1, version, call, ret);
    case 1:
        return cas(below(5), i + 1, version, call, ret);
    case 2:
        return conflict(below(5), below(5), call, ret);
    case 3:
        return del(below(2) == 0 ? LINCHECK_DONE : LINCHECK_ABSENT, call, ret);
    case 4:
        return none(call, ret);
    default: {
        uint64_t of = below(6) + 1;
        return get(of, of, call, ret);
    }
    }
}

static void random_histories_get_the_same_verdict_as_trying_every_order(void **state)
{
    (void)state;
    unsigned good = 0, bad = 0;
    for (int round = 0; round < 60000; round++) {
        struct lincheck_op ops[7];
        size_t n = 2 + below(6);
        for (size_t i = 0; i < n; i++)
            ops[i] = random_op(i);
        bool expected = any_order(ops, n, 0, -1);
        enum lincheck_result result = lincheck(ops, n, 100000);
        if (result != (expected ? LINCHECK_OK : LINCHECK_VIOLATED))
            fail_msg("round %d: %d instead of %d", round, result, !expected);
        good += expected;
        bad += !expected;
    }
    assert_true(good > 1000 && bad > 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_histories_pass),
        cmocka_unit_test(a_stale_read_is_found),
        cmocka_unit_test(reads_that_go_back_are_found),
        cmocka_unit_test(a_lost_write_is_found),
        cmocka_unit_test(a_write_applied_twice_is_found),
        cmocka_unit_test(two_winners_of_one_version_are_found),
        cmocka_unit_test(a_refusal_without_a_reason_is_found),
        cmocka_unit_test(a_value_nobody_wrote_is_found),
        cmocka_unit_test(random_histories_get_the_same_verdict_as_trying_every_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
