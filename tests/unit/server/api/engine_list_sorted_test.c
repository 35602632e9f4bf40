#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "server/api/engine_list.h"

static char text[32];

static struct mob_engine_query sorted_by(const char *sort, uint32_t limit)
{
    snprintf(text, sizeof text, "%s", sort);
    return (struct mob_engine_query){.sort = text, .limit = limit};
}

static json_t *row(int64_t value, int n)
{
    char id[16];
    snprintf(id, sizeof id, "id%05d", n);
    return json_pack("{s:s,s:I}", "id", id, "submitted_us", (json_int_t)value);
}

/* Values in some order, each several times; every page is what sorting them all would give, and what is said
 * to be lacking is on none. */
static void check_pages(const char *sort, uint32_t limit, int count)
{
    struct mob_engine_query query = sorted_by(sort, limit);
    json_t *all = json_array(), *given = json_array();
    for (int i = 0; i < count; i++)
        json_array_append_new(all, row((i * 7919) % count / 3, i));
    struct list_after after = {0};
    for (bool more = true; more;) {
        struct list list = {.sorted = true, .after = after};
        json_t *items = json_array();
        list_order_begin(&list, &query);
        for (int i = 0; i < count; i++) {
            json_t *item = json_array_get(all, (size_t)i);
            int64_t value = json_integer_value(json_object_get(item, "submitted_us"));
            if (list_order_lacks(&list.order, value))
                continue;
            list_order_count(&list.order, value);
            if (list_comes_after(&query, &after, item))
                json_array_append(items, item);
            if (i % 256 == 255)
                list.order.block_rows = 0;
            if (list_trim_sorted(&query, items))
                list_order_note(&list.order, &query, items);
        }
        more = list_page_of_sorted(&query, items);
        const json_t *last = json_array_get(items, json_array_size(items) - 1);
        list_after_fini(&after);
        after = (struct list_after){.value = json_incref(json_object_get(last, "submitted_us")), .set = true};
        snprintf(after.id, sizeof after.id, "%s", json_string_value(json_object_get(last, "id")));
        json_array_extend(given, items);
        json_decref(items);
    }
    list_after_fini(&after);
    mob_json_sort(all, query.sort);
    assert_int_equal(json_array_size(given), json_array_size(all));
    assert_true(json_equal(given, all));
    json_decref(all);
    json_decref(given);
}

static void pages_are_those_of_all_rows(void **state)
{
    (void)state;
    for (uint32_t limit = 1; limit < 1500; limit = 3 * limit + 1) {
        check_pages("submitted_us", limit, 1200);
        check_pages("-submitted_us", limit, 1200);
    }
}

static void what_is_outside_is_lacking(void **state)
{
    (void)state;
    struct mob_engine_query query = sorted_by("-finished_us", 2);
    struct list list = {.sorted = true, .after = {.value = json_integer(100), .set = true}};
    list_order_begin(&list, &query);
    assert_int_equal(list.order.by, LIST_FINISHED);
    assert_true(list_order_lacks(&list.order, 101));
    assert_false(list_order_lacks(&list.order, 100)); /* its id may come after */
    for (int64_t value = 50; value < 53; value++)
        list_order_count(&list.order, value);
    assert_true(list_order_lacks(&list.order, 49));
    assert_false(list_order_lacks(&list.order, 50));
    list_after_fini(&list.after);
}

static void rows_whose_end_decides_are_not_counted(void **state)
{
    (void)state;
    struct mob_engine_query query = sorted_by("submitted_us", 2);
    struct list list = {.sorted = true, .late_terms = true};
    list_order_begin(&list, &query);
    for (int64_t value = 1; value < 5; value++)
        list_order_count(&list.order, value);
    assert_false(list_order_lacks(&list.order, 6));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pages_are_those_of_all_rows),
        cmocka_unit_test(what_is_outside_is_lacking),
        cmocka_unit_test(rows_whose_end_decides_are_not_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
