#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "server/api/filter.h"

static void filters_match_all_their_terms(void **state)
{
    (void)state;
    json_t *item =
        json_pack("{s:s,s:s,s:i,s:b}", "state", "failed", "name", "train_7", "worker", 3, "standing", 1);
    static const struct {
        const char *text;
        bool valid, matches;
    } cases[] = {
        {NULL, true, true},
        {"", true, true},
        {"state:FAILED", true, true},
        {"state:FAILED AND name:train*", true, true},
        {"name:*7 and worker:3", true, true},
        {"standing:true", true, true},
        {"worker:>2", true, true},
        {"worker:>=3 AND worker:<4", true, true},
        {"worker:<=3", true, true},
        {"worker:<3", true, false},
        {"worker:>3", true, false},
        {"worker:>=x", true, false}, /* a pattern, as what follows */
        {"worker:>0x1", true, false},
        {"worker:>2 ", true, true},
        {"worker:>1e0", true, false},
        {"worker:><2", true, false},
        {"worker:>+2", true, false},
        {"worker:<3.5", true, true},
        {"worker:>-1.5", true, true},
        {"name:>=3", true, false}, /* no number */
        {"state:fail", true, false},
        {"state:failed AND worker:4", true, false},
        {"other:1", true, false},
        {"state", false, false},
        {"state:", false, false},
        {"state:a state:b", false, false},
        {"state:a AND", false, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct mob_filter filter;
        bool valid = mob_filter_parse(cases[i].text, &filter) == MOB_OK;
        if (valid != cases[i].valid || (valid && mob_filter_matches(&filter, item) != cases[i].matches))
            fail_msg("filter %zu", i);
    }
    json_decref(item);
}

static void comparisons_bound_a_number(void **state)
{
    (void)state;
    struct mob_filter filter;
    int64_t from = 0, to = 100;
    assert_int_equal(mob_filter_parse("a:>=7 AND a:>9 AND a:<40 AND b:<=3 AND a:12", &filter), MOB_OK);
    assert_true(mob_filter_bounds(&filter, "a", &from, &to));
    assert_int_equal(from, 9);
    assert_int_equal(to, 40);
    assert_false(mob_filter_bounds(&filter, "c", &from, &to));
}

static void globs_find_backtracking_matches(void **state)
{
    (void)state;
    assert_true(mob_glob("*ab*ab", "xabyabzab"));
    assert_true(mob_glob("***", ""));
    assert_false(mob_glob("a*b", "ac"));
    assert_false(mob_glob("", "a"));
}

static void sorting_is_stable_both_ways(void **state)
{
    (void)state;
    json_t *array = json_loads("[{\"k\":2,\"n\":0},{\"k\":1,\"n\":1},{\"k\":2,\"n\":2},{\"n\":3}]", 0, NULL);
    mob_json_sort(array, "k");
    assert_int_equal(json_integer_value(json_object_get(json_array_get(array, 1), "n")), 1);
    assert_int_equal(json_integer_value(json_object_get(json_array_get(array, 2), "n")), 0);
    mob_json_sort(array, "-k");
    assert_int_equal(json_integer_value(json_object_get(json_array_get(array, 0), "n")), 0);
    assert_int_equal(json_integer_value(json_object_get(json_array_get(array, 1), "n")), 2);
    assert_int_equal(json_integer_value(json_object_get(json_array_get(array, 3), "n")), 3);
    json_decref(array);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(filters_match_all_their_terms),
        cmocka_unit_test(comparisons_bound_a_number),
        cmocka_unit_test(globs_find_backtracking_matches),
        cmocka_unit_test(sorting_is_stable_both_ways),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
