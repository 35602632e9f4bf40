#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/base/id.h"
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

static const char *place_of(const json_t *array, size_t at)
{
    return json_string_value(json_object_get(json_array_get(array, at), "id"));
}

static void equal_ones_are_sorted_by_their_ids_both_ways(void **state)
{
    (void)state;
    json_t *array =
        json_loads("[{\"k\":2,\"id\":\"d\"},{\"k\":1,\"id\":\"c\"},{\"k\":2,\"id\":\"b\"},{\"id\":\"a\"},"
                   "{\"k\":null,\"id\":\"0\"},{\"k\":\"x\",\"id\":\"e\"}]",
            0, NULL);
    static const char *const up[] = {"0", "a", "c", "b", "d", "e"},
                             *const down[] = {"e", "b", "d", "c", "0", "a"};
    mob_json_sort(array, "k");
    for (size_t i = 0; i < 6; i++)
        assert_string_equal(place_of(array, i), up[i]);
    mob_json_sort(array, "-k");
    for (size_t i = 0; i < 6; i++)
        assert_string_equal(place_of(array, i), down[i]);
    for (size_t i = 0; i + 1 < 6; i++) /* each comes behind the one before, as a page behind another does */
        assert_true(mob_sort_compare(mob_sort_key_of(json_array_get(array, i), "-k"),
                        mob_sort_key_of(json_array_get(array, i + 1), "-k"), "-k") < 0);
    json_decref(array);
}

static void the_newest_task_of_a_stream_comes_first_among_equals(void **state)
{
    (void)state;
    json_t *array = json_array();
    struct mob_task_id one = mob_root_id_random();
    for (one.index = 0; one.index < 300; one.index++) {
        char text[MOB_ID_TEXT_MAX];
        json_array_append_new(array, json_pack("{s:i,s:s}", "k", 1, "id", mob_task_id_format(one, text)));
    }
    mob_json_sort(array, "k");
    for (size_t i = 0; i < 300; i++) {
        struct mob_task_id id;
        assert_int_equal(mob_task_id_parse(place_of(array, i), &id), MOB_OK);
        assert_int_equal(id.index, 299 - i);
    }
    json_decref(array);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(filters_match_all_their_terms),
        cmocka_unit_test(comparisons_bound_a_number),
        cmocka_unit_test(globs_find_backtracking_matches),
        cmocka_unit_test(equal_ones_are_sorted_by_their_ids_both_ways),
        cmocka_unit_test(the_newest_task_of_a_stream_comes_first_among_equals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
