#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "server/api/item_page.h"

#define KEPT 60 /* items that are there all the time */
#define OTHERS 200 /* items that come and go */
#define PAGES_MAX 1000

static uint64_t seed;

static uint32_t random_below(uint32_t n)
{
    seed = seed * 6364136223846793005ull + 1442695040888963407ull;
    return (uint32_t)(seed >> 33) % n;
}

/* Few different values, so that ids decide; some of another type, or none. */
static json_t *item(int i, bool kept)
{
    char id[32], text[200];
    json_t *row = json_object();
    uint32_t mixed = (uint32_t)i * 2654435761u;
    snprintf(id, sizeof id, "actor_%08x%d", mixed, i);
    json_object_set_new(row, "id", json_string(id));
    json_object_set_new(row, "kept", json_boolean(kept));
    switch (i % 5) {
    case 0:
        json_object_set_new(row, "key", json_integer((json_int_t)(mixed % 7) - 3));
        break;
    case 1:
        json_object_set_new(row, "key", json_real(mixed % 7 / 2.0));
        break;
    case 2: /* the same for longer than a cursor holds */
        memset(text, 'x', sizeof text);
        snprintf(text + 180, sizeof text - 180, "%u", mixed % 3);
        json_object_set_new(row, "key", json_string(text));
        break;
    case 3:
        json_object_set_new(row, "key", json_string(mixed % 2 ? "" : "gr\303\274n \"."));
        break;
    default:
        break;
    }
    return row;
}

/* The kept ones and some others, in no order. */
static json_t *rows_now(void)
{
    json_t *rows = json_array();
    for (int i = 0; i < KEPT; i++)
        json_array_insert_new(rows, random_below((uint32_t)json_array_size(rows) + 1), item(i, true));
    for (int i = 0; i < OTHERS; i++)
        if (random_below(3) == 0)
            json_array_insert_new(
                rows, random_below((uint32_t)json_array_size(rows) + 1), item(KEPT + i, false));
    return rows;
}

static enum mob_status cut(
    const json_t *rows, const char *filter, const char *sort, const char *cursor, struct item_page *out)
{
    struct mob_filter parsed;
    assert_int_equal(mob_filter_parse(filter, &parsed), MOB_OK);
    return item_page_cut(rows, MOB_ITEM_ACTOR, &parsed, sort, cursor, 1 + random_below(9), out);
}

/* Ids of the kept ones in the order of `sort`, all on one page. */
static json_t *expected_ids(const char *sort)
{
    struct mob_filter filter;
    struct item_page page;
    json_t *rows = json_array(), *ids = json_array();
    for (int i = 0; i < KEPT; i++)
        json_array_append_new(rows, item(i, true));
    assert_int_equal(mob_filter_parse(NULL, &filter), MOB_OK);
    assert_int_equal(item_page_cut(rows, MOB_ITEM_ACTOR, &filter, sort, NULL, KEPT, &page), MOB_OK);
    assert_null(page.next);
    assert_int_equal(page.total, KEPT);
    for (size_t i = 0; i < json_array_size(page.items); i++)
        json_array_append(ids, json_object_get(json_array_get(page.items, i), "id"));
    json_decref(rows);
    json_decref(page.items);
    return ids;
}

static void walk(const char *sort)
{
    json_t *expected = expected_ids(sort), *found = json_array();
    char *cursor = NULL;
    int pages = 0;
    do {
        struct item_page page;
        json_t *rows = rows_now();
        assert_int_equal(cut(rows, NULL, sort, cursor, &page), MOB_OK);
        for (size_t i = 0; i < json_array_size(page.items); i++) {
            json_t *row = json_array_get(page.items, i);
            if (json_is_true(json_object_get(row, "kept")))
                json_array_append(found, json_object_get(row, "id"));
        }
        json_decref(page.items);
        json_decref(rows);
        free(cursor);
        cursor = page.next;
    } while (cursor && ++pages < PAGES_MAX);
    if (!json_equal(found, expected))
        fail_msg("sort %s: found %zu of %zu items, or in another order", sort ? sort : "none",
            json_array_size(found), json_array_size(expected));
    json_decref(found);
    json_decref(expected);
}

static void what_stays_is_given_once_while_others_come_and_go(void **state)
{
    (void)state;
    for (seed = 1; seed < 40; seed += 3) {
        walk(NULL);
        walk("key");
        walk("-key");
        walk("id");
        walk("-id");
    }
}

static void numbers_are_ordered_as_numbers(void **state)
{
    (void)state;
    struct item_page page;
    json_t *rows =
        json_loads("[{\"id\":\"a\",\"key\":10},{\"id\":\"b\",\"key\":-2},{\"id\":\"c\",\"key\":9.5},"
                   "{\"id\":\"d\",\"key\":9007199254740991},{\"id\":\"e\",\"key\":9007199254740990}]",
            0, NULL);
    static const char order[] = "bcaed";
    char *cursor = NULL;
    struct mob_filter filter;
    assert_int_equal(mob_filter_parse("id:*", &filter), MOB_OK);
    for (int i = 0; order[i]; i++) {
        assert_int_equal(item_page_cut(rows, MOB_ITEM_JOB, &filter, "key", cursor, 1, &page), MOB_OK);
        assert_int_equal(json_array_size(page.items), 1);
        assert_int_equal(page.total, 5);
        assert_int_equal(
            json_string_value(json_object_get(json_array_get(page.items, 0), "id"))[0], order[i]);
        free(cursor);
        cursor = page.next;
        json_decref(page.items);
    }
    assert_null(cursor);
    json_decref(rows);
}

static void jobs_come_newest_first(void **state)
{
    (void)state;
    struct item_page page;
    struct mob_filter filter;
    json_t *rows = json_loads("[{\"id\":\"a\",\"started_us\":5},{\"id\":\"b\",\"started_us\":7}]", 0, NULL);
    assert_int_equal(mob_filter_parse(NULL, &filter), MOB_OK);
    assert_int_equal(item_page_cut(rows, MOB_ITEM_JOB, &filter, NULL, NULL, 9, &page), MOB_OK);
    assert_string_equal(json_string_value(json_object_get(json_array_get(page.items, 0), "id")), "b");
    json_decref(page.items);
    json_decref(rows);
}

static void cursors_that_are_none_are_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {"", "2", "2.", "3.61.61", "0..", "0.61.61", "1.00.61", "2.6.61",
        "2.61.", "2.61.6", "2.61.61.", "2.6g.61", "1.000000000000f87f.61", "-1.61.61", "2.61.61-", "17"};
    struct item_page page;
    json_t *rows = rows_now();
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (cut(rows, NULL, NULL, bad[i], &page) != MOB_INVALID)
            fail_msg("cursor %s was taken", bad[i]);
    char *longest = malloc(2000);
    memset(longest, '6', 1999);
    longest[1] = '.';
    longest[0] = '2';
    longest[1999] = '\0';
    assert_int_equal(cut(rows, NULL, NULL, longest, &page), MOB_INVALID);
    longest[5] = '\0'; /* an odd digit, and no end of the value */
    assert_int_equal(cut(rows, NULL, NULL, longest, &page), MOB_INVALID);
    free(longest);
    json_decref(rows);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_stays_is_given_once_while_others_come_and_go),
        cmocka_unit_test(numbers_are_ordered_as_numbers),
        cmocka_unit_test(jobs_come_newest_first),
        cmocka_unit_test(cursors_that_are_none_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
