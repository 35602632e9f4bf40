#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "server/api/engine_scan.h"

static struct mob_task_id id_of(uint32_t n)
{
    return (struct mob_task_id){.stream = {{1, 2, 3, (uint8_t)(n >> 24)}}, .index = n};
}

static void an_id_is_met_once(void **state)
{
    (void)state;
    struct scan scan = {0};
    scan_seen_init(&scan);
    for (uint32_t n = 0; n < 5000; n++)
        assert_false(scan_met(&scan, id_of(n)));
    for (uint32_t n = 0; n < 5000; n++)
        assert_true(scan_met(&scan, id_of(n)));
    scan_met_clear(&scan);
    assert_false(scan_met(&scan, id_of(7)));
    scan_seen_fini(&scan);
}

static void only_the_last_ids_are_kept(void **state)
{
    (void)state;
    struct scan scan = {0};
    scan_seen_init(&scan);
    for (uint32_t n = 0; n < 3 * MET_MAX; n++) {
        assert_false(scan_met(&scan, id_of(n)));
        if (n >= MET_MAX && n % 1001 == 0)
            assert_true(scan_met(&scan, id_of(n - MET_MAX))); /* as many as it says */
    }
    assert_false(scan_met(&scan, id_of(0)));
    assert_true(scan.met[0].slots + scan.met[1].slots <= 4 * MET_MAX);
    scan_seen_fini(&scan);
}

static void what_was_seen_can_be_dropped(void **state)
{
    (void)state;
    struct scan scan = {0};
    scan_seen_init(&scan);
    for (uint32_t n = 0; n < 1000; n++)
        scan_seen(&scan, id_of(n), true)->attempt = n;
    for (uint32_t n = 0; n < 1000; n += 2)
        scan_seen_drop(&scan, id_of(n));
    scan_seen_drop(&scan, id_of(2000)); /* never was */
    assert_int_equal(scan.seen_count, 500);
    for (uint32_t n = 0; n < 1000; n++) {
        const struct seen *s = scan_seen(&scan, id_of(n), false);
        assert_int_equal(s != NULL, n % 2);
        assert_true(s == NULL || s->attempt == n);
    }
    scan_seen_clear(&scan);
    assert_int_equal(scan.seen_count, 0);
    assert_null(scan_seen(&scan, id_of(1), false));
    scan_seen_fini(&scan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_id_is_met_once),
        cmocka_unit_test(only_the_last_ids_are_kept),
        cmocka_unit_test(what_was_seen_can_be_dropped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
