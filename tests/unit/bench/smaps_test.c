/* What the memory rows are summed from. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "bench/smaps.h"

static double pss_of(const char *text)
{
    FILE *f = fmemopen((void *)(uintptr_t)text, strlen(text), "r");
    assert_non_null(f);
    double bytes = bench_smaps_pss(f);
    fclose(f);
    return bytes;
}

static void regions_are_summed_without_the_segment(void **state)
{
    (void)state;
    assert_true(pss_of("") == 0);
    assert_true(pss_of("5000-6000 r-xp 00000000 fe:00 12 /usr/bin/x\nSize: 4 kB\nPss: 3 kB\nPss_Dirty: 2 kB\n"
                       "7000-9000 rw-s 00000000 00:01 13 /memfd:mobula (deleted)\nPss: 100 kB\n"
                       "a000-b000 rw-p 00000000 00:00 0 [heap]\nPss: 8 kB\n") == 11 * 1024.0);
}

static void region_that_grew_while_it_was_read_counts_once(void **state)
{
    (void)state;
    assert_true(pss_of("5000-6000 r-xp 00000000 fe:00 12 /usr/bin/x\nPss: 3 kB\n"
                       "a000-b000 rw-p 00000000 00:00 0 [heap]\nPss: 8 kB\n"
                       "9000-d000 rw-p 00000000 00:00 0 [heap]\nPss: 16 kB\n"
                       "f000-f800 rw-p 00000000 00:00 0 [stack]\nPss: 4 kB\n") == 23 * 1024.0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(regions_are_summed_without_the_segment),
        cmocka_unit_test(region_that_grew_while_it_was_read_counts_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
