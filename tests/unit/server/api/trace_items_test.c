#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>

#include "server/api/trace_items.h"

static struct trace_items items;
static struct mob_text text;

static void add(int64_t time_us, const char *what)
{
    trace_items_begin(&items, &text, time_us);
    mob_text_puts(&text, what);
    trace_items_end(&items, &text);
    mob_text_puts(&text, "(of nobody)");
}

static void expect(const char *wanted)
{
    struct mob_text out = {0};
    size_t length;
    trace_items_compose(&items, &text, &out);
    char *got = mob_text_take(&out, &length);
    assert_string_equal(got, wanted);
    free(got);
    trace_items_fini(&items);
    mob_text_fini(&text);
}

static void the_newest_stay_in_their_order(void **state)
{
    (void)state;
    int64_t oldest = 0;
    add(5, "e");
    add(1, "a");
    add(9, "i");
    add(3, "c");
    assert_false(trace_items_keep_newest(&items, 4, &oldest));
    assert_true(trace_items_keep_newest(&items, 2, &oldest));
    assert_int_equal(oldest, 5);
    expect("e,\ni");
}

static void of_one_moment_as_many_stay_as_there_is_room_for(void **state)
{
    (void)state;
    int64_t oldest = 0;
    add(7, "a");
    add(7, "b");
    add(8, "c");
    add(7, "d");
    assert_true(trace_items_keep_newest(&items, 3, &oldest));
    assert_int_equal(oldest, 7);
    expect("a,\nb,\nc");
}

static void a_name_is_put_in_later(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        trace_items_begin(&items, &text, i);
        mob_text_puts(&text, "{\"name\":");
        trace_items_name_here(&items, &text, (struct mob_task_id){.index = 4});
        mob_text_puts(&text, ",\"ts\":1}");
        trace_items_end(&items, &text);
    }
    items.items[1].name = strdup("a\"b");
    expect("{\"name\":\"task\",\"ts\":1},\n{\"name\":\"a\\\"b\",\"ts\":1}");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_newest_stay_in_their_order),
        cmocka_unit_test(of_one_moment_as_many_stay_as_there_is_room_for),
        cmocka_unit_test(a_name_is_put_in_later),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
