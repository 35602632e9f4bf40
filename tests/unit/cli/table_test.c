/* What people see: cells, tables and trees. Output is caught through a memory stream in place of stdout. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cli/table.h"
#include "cli/tree.h"

static char *caught;
static size_t caught_length;

/* Runs `print` on the JSON text with stdout caught. */
static void catch (const char *text, void (*print)(const json_t *))
{
    json_t *json = json_loads(text, 0, NULL);
    assert_non_null(json);
    FILE *terminal = stdout;
    free(caught);
    stdout = open_memstream(&caught, &caught_length);
    print(json);
    fclose(stdout);
    stdout = terminal;
    json_decref(json);
}

static void print_table(const json_t *items)
{
    table_print(items, (const char *const[]){"id", "state", NULL});
}

static void print_class(const json_t *items)
{
    table_print(items, (const char *const[]){"id", "signature", NULL});
}

static void print_fields(const json_t *object)
{
    tree_print_fields(object, 0);
}

static void columns_are_as_wide_as_what_is_in_them(void **state)
{
    (void)state;
    catch ("[{\"n\":1,\"id\":\"a\"},{\"id\":\"long\",\"state\":\"o\\nk\",\"deep\":{\"x\":1}}]", print_table);
    assert_string_equal(caught, "ID    STATE\na     -\nlong  o k\n");
    catch ("[{\"id\":\"c\",\"signature\":\"i64 -> ()\\nadd i64 n -> i64\"}]", print_class);
    assert_string_equal(caught, "ID  SIGNATURE\nc   i64 -> ();add i64 n -> i64\n");
    catch ("[{\"n\":1,\"took_us\":2,\"deep\":{}}]", print_table);
    assert_string_equal(caught, "N  TOOK\n1  2 us\n");
}

static void cells_are_bounded_and_times_readable(void **state)
{
    (void)state;
    char cell[32];
    json_t *value = json_integer(1700000000000000ll);
    table_cell("started_us", value, cell, sizeof cell);
    assert_string_equal(cell, "2023-11-14 22:13:20Z");
    table_cell("bytes", value, cell, sizeof cell);
    assert_string_equal(cell, "1700000000000000");
    json_decref(value);
    value = json_integer(1500);
    table_cell("took_us", value, cell, sizeof cell);
    assert_string_equal(cell, "1.5 ms");
    json_decref(value);
    value = json_integer(30767911);
    table_cell("since_us", value, cell, sizeof cell);
    assert_string_equal(cell, "30.8 s");
    json_decref(value);
    value = json_string("0123456789012345678901234567890123456789");
    table_cell("id", value, cell, sizeof cell);
    assert_string_equal(cell, "0123456789012345678901234567...");
    json_decref(value);
    value = json_string("012345678901234567890123456\303\244 and so on"); /* would be cut in its middle */
    table_cell("id", value, cell, sizeof cell);
    assert_string_equal(cell, "012345678901234567890123456...");
    json_decref(value);
}

static void a_tree_of_any_depth_is_printed_to_its_bound(void **state)
{
    (void)state;
    enum { DEPTH = 200 };
    char text[DEPTH * 32 + 16] = "";
    for (int i = 0; i < DEPTH; i++)
        strcat(text, "{\"task\":\"x\",\"children\":[");
    for (int i = 0; i < DEPTH; i++)
        strcat(text, "]}");
    catch (text, tree_print_lineage);
    size_t lines = 0;
    for (size_t i = 0; i < caught_length; i++)
        lines += caught[i] == '\n';
    assert_int_equal(lines, TREE_DEPTH_MAX + 1);
}

static void fields_are_indented(void **state)
{
    (void)state;
    catch ("{\"a\":1,\"b\":{\"c\":\"d\"},\"e\":[],\"f\":[{\"g\":2}]}", print_fields);
    assert_string_equal(
        caught, "a               1\nb\n  c             d\ne  none\nf\n  -\n    g           2\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(columns_are_as_wide_as_what_is_in_them),
        cmocka_unit_test(cells_are_bounded_and_times_readable),
        cmocka_unit_test(a_tree_of_any_depth_is_printed_to_its_bound),
        cmocka_unit_test(fields_are_indented),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    free(caught);
    return failed;
}
